//! UDP over IPv4 and IPv6 through a packet socket: this program builds and parses whole Ethernet frames, and
//! bypasses the host's own IP and UDP.
//!
//! The kernel still chooses the route and the source address, and resolves the next hop's address. It also
//! reserves the port, so that it does not report the port as unreachable.

use crate::frame::{self, Ends, HEADERS, Headers, Mac};
use crate::lamp_frame::{self, LampLink};
use crate::privilege::{Capability, needs};
use crate::sockets;
use crate::stamp::StampMode;
use crate::sys;
use crate::twoway::next_hop::{gateway, next_hop};
use crate::twoway::socket::{self, Marking, PreparedSocket};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockaddrStorage;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Value of `ARPHRD_ETHER`: interfaces whose frames begin with an Ethernet header.
const WITH_ETHERNET: u16 = 1;

/// Default TTL.
pub(crate) const DEFAULT_TTL: u8 = 64;

/// Error message if raw frames are to be sent from a host to itself.
pub(crate) const LOOPBACK: &str =
    "the kernel does not accept whole frames on the loopback interface: raw sockets only reach other hosts";

/// Puts packets into frames, and extracts packets from frames.
pub struct PacketFraming {
    beneath: FrameAddressing,
    frame: Vec<u8>,
    /// Socket that reserves the port. A filter on the socket drops all packets.
    _owner: UdpSocket,
}

/// Headers of the frames that carry a test's packets.
enum FrameAddressing {
    /// Ethernet, IP and UDP.
    Datagrams { headers: Headers, from: SocketAddr, to: SocketAddr },
    /// Ethernet, and WSMP if `link` requires it.
    Ethernet { link: LampLink, from: Mac, to: Mac },
}

/// A packet extracted from a frame.
pub(crate) struct Unwrapped<'a> {
    pub payload: &'a [u8],
    /// TTL or hop limit; `None` without IP.
    pub ttl: Option<u8>,
    /// TOS or traffic-class octet; `None` without IP.
    pub traffic_class: Option<u8>,
}

impl PacketFraming {
    /// Returns a frame that contains `payload`.
    pub fn wrap(&mut self, payload: &[u8]) -> &[u8] {
        match &self.beneath {
            FrameAddressing::Datagrams { headers, .. } => frame::fill(&mut self.frame, headers, payload),
            FrameAddressing::Ethernet { link, from, to } => {
                lamp_frame::fill(*link, &mut self.frame, *from, *to, payload);
            }
        }
        &self.frame
    }

    /// Returns the packet in `frame` if it is complete and was sent from the far host to this test.
    pub(crate) fn unwrap<'a>(&self, frame: &'a [u8]) -> Option<Unwrapped<'a>> {
        match &self.beneath {
            FrameAddressing::Datagrams { from, to, .. } => {
                let found = frame::parse(frame).filter(|c| c.from == *to && c.to == *from)?;
                let (ttl, traffic_class) = (Some(found.ttl), Some(found.traffic_class));
                Some(Unwrapped { payload: found.payload, ttl, traffic_class })
            }
            FrameAddressing::Ethernet { link, from, to } => {
                let found =
                    lamp_frame::parse(*link, frame).filter(|f| f.source == *to && f.destination == *from)?;
                Some(Unwrapped { payload: found.packet, ttl: None, traffic_class: None })
            }
        }
    }
}

/// Opens a packet socket for a test with `to`.
///
/// # Errors
/// The interface is not Ethernet, the next hop does not answer, or requests are too large for one frame.
pub fn open(
    to: SocketAddr,
    marking: &Marking,
    stamps: StampMode,
    payload: usize,
) -> io::Result<PreparedSocket> {
    let mut notes = Vec::new();
    let (owner, from) = owner(to, marking, &mut notes)?;
    // If the kernel does not know the path MTU, that of Ethernet applies.
    let mtu = sys::path_mtu(owner.as_fd(), to.is_ipv6()).map_or(1500, |mtu| mtu as usize);
    let largest = mtu.saturating_sub(frame::beneath(to.ip()));
    if payload > largest {
        return Err(unsupported(format!(
            "raw frames are not fragmented: {payload} bytes are too long; the maximum on this path is {largest}"
        )));
    }
    let (interface, mac) = interface(from.ip(), marking)?;
    let packets = packet_socket(&interface, &frame::only_between(to, from.port()))?;
    let owner: UdpSocket = owner.into();
    let next_mac = next_hop(&owner, to.ip(), &interface)?;
    // Addresses in frames have no scope.
    let [from, to] = [from, to].map(|at| SocketAddr::new(at.ip(), at.port()));
    let ends = Ends { from_mac: mac, to_mac: next_mac, from, to };
    let framing = PacketFraming {
        beneath: FrameAddressing::Datagrams {
            headers: frame::headers(&ends, marking.dscp.octet(), marking.ttl.unwrap_or(DEFAULT_TTL)),
            from,
            to,
        },
        frame: Vec::with_capacity(HEADERS + payload),
        _owner: owner,
    };
    prepared(packets, framing, from, marking, stamps, notes)
}

/// Opens a packet socket for a test without IP over `link` against the neighbour `to`, whose IP address is used only to
/// find the interface and the Ethernet address.
///
/// # Errors
/// Like [`open`]; also an error if the host is behind a router.
pub fn open_ethernet(
    link: LampLink,
    to: SocketAddr,
    marking: &Marking,
    stamps: StampMode,
    payload: usize,
) -> io::Result<PreparedSocket> {
    let mut notes = Vec::new();
    let (owner, from) = owner(to, marking, &mut notes)?;
    let (interface, mac) = interface(from.ip(), marking)?;
    if let Some(router) = gateway(to.ip(), &interface)? {
        return Err(unsupported(format!(
            "{} is behind the router {router}: LaMP in Ethernet frames without IP does not cross routers",
            to.ip()
        )));
    }
    // If the kernel does not know the path MTU, that of Ethernet applies.
    let mtu = sys::path_mtu(owner.as_fd(), to.is_ipv6()).map_or(1500, |mtu| mtu as usize);
    let largest = mtu.saturating_sub(link.overhead(mtu));
    if payload > largest {
        return Err(unsupported(format!(
            "{payload} bytes do not fit into a frame: the maximum is {largest}"
        )));
    }
    let packets = packet_socket(&interface, &lamp_frame::only_to(link, mac))?;
    let owner: UdpSocket = owner.into();
    let to_mac = next_hop(&owner, to.ip(), &interface)?;
    let framing = PacketFraming {
        beneath: FrameAddressing::Ethernet { link, from: mac, to: to_mac },
        frame: Vec::with_capacity(HEADERS + payload),
        _owner: owner,
    };
    prepared(packets, framing, from, marking, stamps, notes)
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Returns a socket that reserves the port for frames exchanged with `to`, and the local address of the
/// route.
fn owner(to: SocketAddr, marking: &Marking, notes: &mut Vec<String>) -> io::Result<(Socket, SocketAddr)> {
    if marking.ecn.is_on() {
        return Err(unsupported("raw frames are sent without marks (--ecn): leave out --raw".to_owned()));
    }
    let owner = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    // Drop all packets, because the answers are read from the frames.
    owner.attach_filter(&frame::nothing())?;
    socket::mark(&owner, to, marking, notes)?;
    owner.connect(&to.into())?;
    let Some(from) = owner.local_addr()?.as_socket() else {
        return Err(unsupported("this host has no address on the route".into()));
    };
    if to.ip().is_loopback() || to.ip() == from.ip() {
        return Err(unsupported(LOOPBACK.into()));
    }
    Ok((owner, from))
}

/// Prepares the packet socket `packets` for a test: enables timestamps, and uses `framing` for the frames.
fn prepared(
    packets: Socket,
    framing: PacketFraming,
    from: SocketAddr,
    marking: &Marking,
    stamps: StampMode,
    mut notes: Vec<String>,
) -> io::Result<PreparedSocket> {
    // If this fails, a note was already added when the owner was marked.
    let _ = sockets::prefer(&packets, marking.priority);
    sockets::enlarge(&packets);
    let stamps = socket::stamp(&packets, from.ip(), stamps, &mut notes)?;
    packets.set_nonblocking(true)?;
    Ok(PreparedSocket {
        socket: packets,
        stamps,
        notes,
        kernel_id: false,
        ip_header: false,
        elsewhere: None,
        framing: Some(Box::new(framing)),
        local: from,
    })
}

/// Opens a packet socket on `interface` that receives the frames that `filter` passes.
pub(crate) fn packet_socket(interface: &str, filter: &[SockFilter]) -> io::Result<Socket> {
    let index = if_nametoindex(interface).map_err(io::Error::from)? as libc::c_int;
    let packets = Socket::new(Domain::PACKET, Type::RAW, None).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(e.kind(), needs(Capability::NetRaw)),
        _ => e,
    })?;
    packets.attach_filter(filter)?;
    if sys::bind_packet(packets.as_fd(), index)? != WITH_ETHERNET {
        let why = format!("{interface} is not an Ethernet interface, so raw frames cannot be used there");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(packets)
}

/// Returns the interface's Ethernet address, and its IP addresses, IPv4 first.
pub(crate) fn addresses(interface: &str) -> io::Result<(Mac, Vec<IpAddr>)> {
    let all: Vec<_> = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?.collect();
    let mine = || all.iter().filter(|a| a.interface_name == interface).filter_map(|a| a.address.as_ref());
    let mac = mine().find_map(|a| a.as_link_addr()?.addr()).unwrap_or_default();
    let mut ips: Vec<IpAddr> = mine().filter_map(ip_of).collect();
    ips.sort_by_key(IpAddr::is_ipv6);
    Ok((mac, ips))
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))
}

/// Returns the name of the requested interface, or of the interface that has the address `local`, and its Ethernet
/// address.
fn interface(local: IpAddr, marking: &Marking) -> io::Result<(String, Mac)> {
    let all: Vec<_> = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?.collect();
    let has = |a: &&nix::ifaddrs::InterfaceAddress| a.address.as_ref().and_then(ip_of) == Some(local);
    let name = match &marking.interface {
        Some(name) => name.clone(),
        None => all.iter().find(has).map(|a| a.interface_name.clone()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no interface has the address {local}: use --interface"),
            )
        })?,
    };
    let mac = all
        .iter()
        .filter(|a| a.interface_name == name)
        .find_map(|a| a.address.as_ref()?.as_link_addr()?.addr());
    Ok((name, mac.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_are_taken_out_of_frames() {
        let (from, to): (SocketAddr, SocketAddr) =
            ("10.9.0.1:4000".parse().unwrap(), "10.9.0.2:46000".parse().unwrap());
        let headers =
            |from, to| frame::headers(&Ends { from_mac: [2; 6], to_mac: [4; 6], from, to }, 0, DEFAULT_TTL);
        let owner = UdpSocket::bind("127.0.0.1:0").unwrap();
        let beneath = FrameAddressing::Datagrams { headers: headers(from, to), from, to };
        let mut framing = PacketFraming { beneath, frame: Vec::new(), _owner: owner };
        let own = framing.wrap(b"request").to_vec();
        assert!(framing.unwrap(&own).is_none(), "our own frame is no answer");
        let mut answer = Vec::new();
        frame::fill(&mut answer, &headers(to, from), b"answer");
        assert_eq!(framing.unwrap(&answer).unwrap().payload, b"answer");
    }
}
