//! UDP over IPv4 through a packet socket: whole Ethernet frames, built and parsed here, bypassing the host's own IP and
//! UDP.
//!
//! The kernel still chooses the route and the source address, resolves the next hop's address, and reserves the port,
//! so that it does not report the port as unreachable.

use crate::frame::{self, Ends, HEADERS, Mac, ipv4, udp};
use crate::lamp_frame;
use crate::privilege::{Capability, needs};
use crate::sockets;
use crate::stamp::Stamps;
use crate::sys;
use crate::twoway::socket::{self, Marking, Prepared};
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long to wait for the next hop's address.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two readings of the kernel's neighbour table.
const LOOK: Duration = Duration::from_millis(20);
/// `ARPHRD_ETHER`: interfaces whose frames begin with an Ethernet header.
const WITH_ETHERNET: u16 = 1;

/// The default TTL.
pub(crate) const DEFAULT_TTL: u8 = 64;

/// Why there are no raw frames from a host to itself.
pub(crate) const LOOPBACK: &str =
    "the kernel takes no whole frames from its own loopback interface: raw sockets reach other hosts only";

/// Puts packets into frames, and extracts them.
pub struct Framing {
    beneath: Beneath,
    frame: Vec<u8>,
    /// Reserves the port; its filter drops everything that arrives.
    _owner: UdpSocket,
}

/// What is beneath a packet in its frame.
enum Beneath {
    /// UDP and IPv4.
    Datagrams { headers: [u8; HEADERS], from: SocketAddrV4, to: SocketAddrV4 },
    /// Ethernet.
    Ethernet { from: Mac, to: Mac },
}

/// A packet out of a frame.
pub(crate) struct Unwrapped<'a> {
    pub payload: &'a [u8],
    /// Time to live; `None` without IP.
    pub ttl: Option<u8>,
    /// The TOS octet; `None` without IP.
    pub traffic_class: Option<u8>,
}

impl Framing {
    /// The frame that contains `payload`.
    pub fn wrap(&mut self, payload: &[u8]) -> &[u8] {
        match &self.beneath {
            Beneath::Datagrams { headers, .. } => frame::fill(&mut self.frame, headers, payload),
            Beneath::Ethernet { from, to } => lamp_frame::fill(&mut self.frame, *from, *to, payload),
        }
        &self.frame
    }

    /// The packet in `frame`, if it is a whole one from the far host to this test.
    pub(crate) fn unwrap<'a>(&self, frame: &'a [u8]) -> Option<Unwrapped<'a>> {
        match &self.beneath {
            Beneath::Datagrams { from, to, .. } => {
                let found = frame::parse(frame).filter(|c| c.from == *to && c.to == *from)?;
                let (ttl, traffic_class) = (Some(found.ttl), Some(found.traffic_class));
                Some(Unwrapped { payload: found.payload, ttl, traffic_class })
            }
            Beneath::Ethernet { from, to } => {
                let found = lamp_frame::parse(frame).filter(|f| f.source == *to && f.destination == *from)?;
                Some(Unwrapped { payload: found.packet, ttl: None, traffic_class: None })
            }
        }
    }
}

/// Opens a packet socket for a test with `to`.
///
/// # Errors
/// A message: no IPv4, no Ethernet, a next hop that does not answer, or requests too large for one frame.
pub fn open(to: SocketAddr, marking: &Marking, stamps: Stamps, payload: usize) -> io::Result<Prepared> {
    let SocketAddr::V4(to) = to else {
        return Err(unsupported(
            "raw sockets carry IPv4 only: give an IPv4 address, or leave out --raw".into(),
        ));
    };
    let mut notes = Vec::new();
    let (owner, from) = owner(to, marking, &mut notes)?;
    let largest =
        sys::path_mtu(owner.as_fd(), false).map_or(1500, |mtu| mtu as usize) - ipv4::LENGTH - udp::LENGTH;
    if payload > largest {
        return Err(unsupported(format!(
            "raw frames are not fragmented: {payload} bytes do not fit, {largest} do on this path"
        )));
    }
    let (interface, mac) = interface(*from.ip(), marking)?;
    let packets = packet_socket(&interface, &frame::only_between(to, from.port()))?;
    let owner: UdpSocket = owner.into();
    let next_mac = next_hop(&owner, to, &interface)?;
    let ends = Ends { from_mac: mac, to_mac: next_mac, from, to };
    let framing = Framing {
        beneath: Beneath::Datagrams {
            headers: frame::headers(&ends, marking.dscp.octet(), marking.ttl.unwrap_or(DEFAULT_TTL)),
            from,
            to,
        },
        frame: Vec::with_capacity(HEADERS + payload),
        _owner: owner,
    };
    prepared(packets, framing, from, marking, stamps, notes)
}

/// Opens a packet socket for a test with the neighbour `to` without IP: its IPv4 address only serves to find that of its
/// interface.
///
/// # Errors
/// As [`open`]; also if the host is behind a router.
pub fn open_ethernet(
    to: SocketAddr,
    marking: &Marking,
    stamps: Stamps,
    payload: usize,
) -> io::Result<Prepared> {
    let SocketAddr::V4(to) = to else {
        return Err(unsupported("--ethernet finds the host by its IPv4 address: give one".into()));
    };
    let mut notes = Vec::new();
    let (owner, from) = owner(to, marking, &mut notes)?;
    let (interface, mac) = interface(*from.ip(), marking)?;
    if let Some(router) = gateway(&read("route")?, *to.ip(), &interface) {
        return Err(unsupported(format!(
            "{} is behind the router {router}: frames of their own stay on the link",
            to.ip()
        )));
    }
    let largest = sys::path_mtu(owner.as_fd(), false).map_or(1500, |mtu| mtu as usize);
    if payload > largest {
        return Err(unsupported(format!("a frame holds {largest} bytes, and {payload} do not fit")));
    }
    let packets = packet_socket(&interface, &lamp_frame::only_to(mac))?;
    let owner: UdpSocket = owner.into();
    let to_mac = next_hop(&owner, to, &interface)?;
    let framing = Framing {
        beneath: Beneath::Ethernet { from: mac, to: to_mac },
        frame: Vec::with_capacity(HEADERS + payload),
        _owner: owner,
    };
    prepared(packets, framing, from, marking, stamps, notes)
}

fn unsupported(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The socket that owns the port while frames are exchanged with `to`, and this host's address on the way there.
fn owner(to: SocketAddrV4, marking: &Marking, notes: &mut Vec<String>) -> io::Result<(Socket, SocketAddrV4)> {
    let owner = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Accept nothing: answers are read from the frames.
    owner.attach_filter(&frame::nothing())?;
    socket::mark(&owner, to.into(), marking, notes)?;
    owner.connect(&SocketAddr::V4(to).into())?;
    let Some(SocketAddr::V4(from)) = owner.local_addr()?.as_socket() else {
        return Err(unsupported("this host has no IPv4 address on the way there".into()));
    };
    if to.ip().is_loopback() || to.ip() == from.ip() {
        return Err(unsupported(LOOPBACK.into()));
    }
    Ok((owner, from))
}

/// What both kinds of frames have in common: `packets` is ready to be stamped and to send what `framing` makes.
fn prepared(
    packets: Socket,
    framing: Framing,
    from: SocketAddrV4,
    marking: &Marking,
    stamps: Stamps,
    mut notes: Vec<String>,
) -> io::Result<Prepared> {
    // Where it fails, marking the owner has failed before, with a note.
    let _ = sockets::prefer(&packets, marking.priority);
    sockets::enlarge(&packets);
    let stamps = socket::stamp(&packets, IpAddr::V4(*from.ip()), stamps, &mut notes)?;
    packets.set_nonblocking(true)?;
    Ok(Prepared {
        socket: packets,
        stamps,
        notes,
        kernel_id: false,
        ip_header: false,
        elsewhere: None,
        framing: Some(Box::new(framing)),
        local: from.into(),
    })
}

/// A packet socket of `interface` that receives what `filter` passes.
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

/// The interface's Ethernet address and its IPv4 addresses.
pub(crate) fn addresses(interface: &str) -> io::Result<(Mac, Vec<Ipv4Addr>)> {
    let all: Vec<_> = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?.collect();
    let mine = || all.iter().filter(|a| a.interface_name == interface).filter_map(|a| a.address.as_ref());
    let mac = mine().find_map(|a| a.as_link_addr()?.addr()).unwrap_or_default();
    let ips = mine().filter_map(|a| a.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::ip)).collect();
    Ok((mac, ips))
}

/// The interface that has `local`, or the requested one, and its Ethernet address.
fn interface(local: Ipv4Addr, marking: &Marking) -> io::Result<(String, Mac)> {
    let all: Vec<_> = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?.collect();
    let has = |a: &&nix::ifaddrs::InterfaceAddress| {
        let address =
            a.address.as_ref().and_then(|s| s.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::ip));
        address == Some(local)
    };
    let name = match &marking.interface {
        Some(name) => name.clone(),
        None => all.iter().find(has).map(|a| a.interface_name.clone()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no interface has the address {local}: give --interface"),
            )
        })?,
    };
    let mac = all
        .iter()
        .filter(|a| a.interface_name == name)
        .find_map(|a| a.address.as_ref()?.as_link_addr()?.addr());
    Ok((name, mac.unwrap_or_default()))
}

/// The Ethernet address of the next hop on the route to `to`, from the kernel's neighbour table; a datagram makes the
/// kernel resolve it.
fn next_hop(owner: &UdpSocket, to: SocketAddrV4, interface: &str) -> io::Result<Mac> {
    let routes = read("route")?;
    let hop = gateway(&routes, *to.ip(), interface).unwrap_or(*to.ip());
    let until = Instant::now() + PATIENCE;
    let mut asked: Option<Instant> = None;
    while Instant::now() < until {
        if let Some(mac) = neighbour(&read("arp")?, hop, interface) {
            return Ok(mac);
        }
        if asked.is_none_or(|a| a.elapsed() > Duration::from_millis(500)) {
            asked = Some(Instant::now());
            // Empty, so that no protocol accepts it. It only has to make the kernel resolve the address; that it cannot
            // be sent yet is expected.
            let _ = owner.send(&[]);
        }
        std::thread::sleep(LOOK);
    }
    Err(io::Error::new(
        io::ErrorKind::HostUnreachable,
        format!("{hop} on {interface} does not answer for its Ethernet address (ARP): is it there?"),
    ))
}

/// A table of this thread's network namespace.
fn read(table: &str) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/thread-self/net/{table}"))
}

/// The gateway on the most specific route to `to` through `interface`; `None` if it is a neighbour.
fn gateway(routes: &str, to: Ipv4Addr, interface: &str) -> Option<Ipv4Addr> {
    let of_hex = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes);
    let best = routes.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (name, net, gate) = (fields.next()?, of_hex(fields.next()?)?, of_hex(fields.next()?)?);
        let mask = of_hex(fields.nth(4)?)?;
        let [net, mask] = [net, mask].map(u32::from_be_bytes);
        (name == interface && u32::from(to) & mask == net).then_some((mask, Ipv4Addr::from(gate)))
    });
    best.max_by_key(|(mask, _)| *mask).map(|(_, gate)| gate).filter(|gate| !gate.is_unspecified())
}

/// The complete entry of `hop` in the kernel's table.
fn neighbour(table: &str, hop: Ipv4Addr, interface: &str) -> Option<Mac> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[ip, _, flags, mac, _, name] = fields.first_chunk()?;
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        if ip.parse() != Ok(hop) || name != interface || flags & 2 == 0 {
            return None;
        }
        let mut address = [0; 6];
        let mut parts = mac.split(':');
        for byte in &mut address {
            *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
        }
        Some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_are_taken_out_of_frames() {
        let (from, to) = ("10.9.0.1:4000".parse().unwrap(), "10.9.0.2:46000".parse().unwrap());
        let headers =
            |from, to| frame::headers(&Ends { from_mac: [2; 6], to_mac: [4; 6], from, to }, 0, DEFAULT_TTL);
        let owner = UdpSocket::bind("127.0.0.1:0").unwrap();
        let beneath = Beneath::Datagrams { headers: headers(from, to), from, to };
        let mut framing = Framing { beneath, frame: Vec::new(), _owner: owner };
        let own = framing.wrap(b"request").to_vec();
        assert!(framing.unwrap(&own).is_none(), "our own frame is no answer");
        let mut answer = Vec::new();
        frame::fill(&mut answer, &headers(to, from), b"answer");
        assert_eq!(framing.unwrap(&answer).unwrap().payload, b"answer");
    }

    #[test]
    fn the_kernels_tables_are_understood() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                      eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                      eth0\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";
        let gate = |to: &str| gateway(routes, to.parse().unwrap(), "eth0");
        assert_eq!(gate("8.8.8.8"), Some("192.168.2.1".parse().unwrap()));
        assert_eq!(gate("192.168.2.77"), None);
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     192.168.2.1      0x1         0x2         02:00:00:0a:0b:0c     *        eth0\n\
                     192.168.2.9      0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        let mac = |ip: &str| neighbour(table, ip.parse().unwrap(), "eth0");
        assert_eq!((mac("192.168.2.1"), mac("192.168.2.9")), (Some([2, 0, 0, 10, 11, 12]), None));
    }
}
