//! UDP over IPv4 through a packet socket: whole Ethernet frames, made and read here, past the host's own IP and
//! UDP.
//!
//! The kernel still does what is its own: it chooses the way and the source address, resolves the next
//! hop's address, and owns the port, so that it does not answer for a port that nobody has.

use crate::privilege::{Capability, needs};
use crate::sockets;
use crate::stamp::Stamps;
use crate::sys;
use crate::twoway::socket::{self, Marking, Prepared};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long the next hop may take to answer for its address.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at the kernel's neighbours.
const LOOK: Duration = Duration::from_millis(20);
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
pub(crate) const HEADERS: usize = ETHERNET + IPV4 + UDP;
/// `ARPHRD_ETHER`: interfaces whose frames begin with an Ethernet header.
const WITH_ETHERNET: u16 = 1;

/// Why there are no raw frames from a host to itself.
pub(crate) const LOOPBACK: &str =
    "the kernel takes no whole frames from its own loopback interface: raw sockets reach other hosts only";

pub(crate) type Mac = [u8; 6];

/// Puts datagrams into frames and takes them out.
pub struct Framing {
    headers: [u8; HEADERS],
    from: SocketAddrV4,
    to: SocketAddrV4,
    frame: Vec<u8>,
    /// Owns the port; what arrives there is dropped by its filter.
    _owner: UdpSocket,
}

/// What one frame carried.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// The Ethernet address it came from.
    pub(crate) source: Mac,
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    /// The datagram's payload.
    pub payload: &'a [u8],
    /// Time to live.
    pub ttl: u8,
    /// The TOS octet.
    pub traffic_class: u8,
}

impl Framing {
    /// The frame that carries `payload`.
    pub fn wrap(&mut self, payload: &[u8]) -> &[u8] {
        fill(&mut self.frame, &self.headers, payload);
        &self.frame
    }

    /// What `frame` carried, if it is a whole datagram from the far host to this test.
    pub fn unwrap<'a>(&self, frame: &'a [u8]) -> Option<Carried<'a>> {
        parse(frame).filter(|c| c.from == self.to && c.to == self.from)
    }
}

/// What `frame` carries, if it is a whole datagram of UDP over IPv4. Its checksum is not looked at: between virtual
/// interfaces it is often left to an adapter that is not there.
pub(crate) fn parse(frame: &[u8]) -> Option<Carried<'_>> {
    let packet = frame.get(ETHERNET..)?;
    let (&[version, traffic_class, l0, l1, _, _, f0, f1, ttl, protocol, ..], length) =
        (packet.first_chunk::<IPV4>()?, usize::from(packet[0] & 0x0f) * 4);
    let whole = usize::from(u16::from_be_bytes([l0, l1]));
    let fragment = u16::from_be_bytes([f0, f1]) & 0x3fff;
    if version >> 4 != 4 || protocol != 17 || fragment != 0 || length < IPV4 {
        return None;
    }
    let datagram = packet.get(length..whole)?;
    let ports = datagram.first_chunk::<UDP>()?;
    let word = |i: usize| u16::from_be_bytes([ports[i], ports[i + 1]]);
    let address = |i: usize| Ipv4Addr::new(packet[i], packet[i + 1], packet[i + 2], packet[i + 3]);
    Some(Carried {
        source: *frame.get(6..12)?.first_chunk()?,
        from: SocketAddrV4::new(address(12), word(0)),
        to: SocketAddrV4::new(address(16), word(2)),
        payload: datagram.get(UDP..usize::from(word(4)))?,
        ttl,
        traffic_class,
    })
}

/// Makes `frame` of headers and payload, and fills in lengths and sums.
pub(crate) fn fill(frame: &mut Vec<u8>, headers: &[u8; HEADERS], payload: &[u8]) {
    frame.clear();
    frame.extend_from_slice(headers);
    frame.extend_from_slice(payload);
    let put = |frame: &mut Vec<u8>, at: usize, value: u16| {
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    };
    let (datagram, packet) = (UDP + payload.len(), IPV4 + UDP + payload.len());
    put(frame, ETHERNET + 2, packet as u16);
    let sum = checksum(sum_of(&frame[ETHERNET..ETHERNET + IPV4]));
    put(frame, ETHERNET + 10, sum);
    put(frame, ETHERNET + IPV4 + 4, datagram as u16);
    let pseudo = sum_of(&frame[ETHERNET + 12..ETHERNET + IPV4]) + 17 + datagram as u64;
    // Zero would mean that there is none.
    let sum = match checksum(pseudo + sum_of(&frame[ETHERNET + IPV4..])) {
        0 => 0xffff,
        sum => sum,
    };
    put(frame, ETHERNET + IPV4 + 6, sum);
}

pub(crate) fn sum_of(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum()
}

pub(crate) fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Opens a packet socket for a test with `to`.
///
/// # Errors
/// In words: no IPv4, no Ethernet, a next hop that does not answer, requests too large for one frame.
pub fn open(to: SocketAddr, marking: &Marking, stamps: Stamps, payload: usize) -> io::Result<Prepared> {
    let unsupported = |why: String| io::Error::new(io::ErrorKind::Unsupported, why);
    let (SocketAddr::V4(to), IpAddr::V4(host)) = (to, to.ip()) else {
        return Err(unsupported(
            "raw sockets carry IPv4 only: give an IPv4 address, or leave out --raw".into(),
        ));
    };
    let mut notes = Vec::new();
    let owner = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Accept nothing: answers are read from the frames.
    owner.attach_filter(&[SockFilter::new(0x06, 0, 0, 0)])?;
    socket::mark(&owner, to.into(), marking, &mut notes)?;
    owner.connect(&SocketAddr::V4(to).into())?;
    let Some(SocketAddr::V4(from)) = owner.local_addr()?.as_socket() else {
        return Err(unsupported("this host has no IPv4 address on the way there".into()));
    };
    if host.is_loopback() || host == *from.ip() {
        return Err(unsupported(LOOPBACK.into()));
    }
    let largest = sys::path_mtu(owner.as_fd(), false).map_or(1500, |mtu| mtu as usize) - IPV4 - UDP;
    if payload > largest {
        return Err(unsupported(format!(
            "raw frames are not fragmented: {payload} bytes do not fit, {largest} do on this path"
        )));
    }
    let (interface, mac) = interface(*from.ip(), marking)?;
    let packets = packet_socket(&interface, &only(to, from))?;
    let owner: UdpSocket = owner.into();
    let next_mac = next_hop(&owner, to, &interface)?;
    if let Some(priority) = marking.priority {
        let _ = setsockopt(&packets, sockopt::Priority, &(priority as i32));
    }
    sockets::enlarge(&packets);
    let stamps = socket::stamp(&packets, IpAddr::V4(*from.ip()), stamps, &mut notes)?;
    packets.set_nonblocking(true)?;
    let framing = Framing {
        headers: headers(mac, next_mac, from, to, marking),
        from,
        to,
        frame: Vec::with_capacity(HEADERS + payload),
        _owner: owner,
    };
    Ok(Prepared {
        socket: packets,
        stamps,
        notes,
        kernel_id: false,
        ip_header: false,
        framing: Some(Box::new(framing)),
        local: from.into(),
    })
}

/// A packet socket of `interface` that takes what `filter` passes.
pub(crate) fn packet_socket(interface: &str, filter: &[SockFilter]) -> io::Result<Socket> {
    let index = if_nametoindex(interface).map_err(io::Error::from)? as libc::c_int;
    let packets = Socket::new(Domain::PACKET, Type::RAW, None).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(e.kind(), needs(Capability::NetRaw)),
        _ => e,
    })?;
    packets.attach_filter(filter)?;
    if sys::bind_packet(packets.as_fd(), index)? != WITH_ETHERNET {
        let why = format!("{interface} carries no Ethernet frames: raw sockets are of no use there");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(packets)
}

/// The headers of frames from `from` at `mac` to `to` at `next`; lengths and sums are left open.
pub(crate) fn headers(
    mac: Mac,
    next: Mac,
    from: SocketAddrV4,
    to: SocketAddrV4,
    marking: &Marking,
) -> [u8; HEADERS] {
    let mut h = [0; HEADERS];
    h[..6].copy_from_slice(&next);
    h[6..12].copy_from_slice(&mac);
    h[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
    let ip = &mut h[ETHERNET..];
    ip[0] = 0x45;
    ip[1] = marking.dscp.octet();
    // Don't fragment.
    ip[6] = 0x40;
    ip[8] = marking.ttl.unwrap_or(64);
    ip[9] = 17;
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    ip[20..22].copy_from_slice(&from.port().to_be_bytes());
    ip[22..24].copy_from_slice(&to.port().to_be_bytes());
    h
}

/// A filter for the kernel: UDP over IPv4 to `port`, unfragmented.
pub(crate) fn only_to(port: u16) -> Vec<SockFilter> {
    let f = SockFilter::new;
    vec![
        f(0x28, 0, 0, 12),
        f(0x15, 0, 8, 0x0800),
        f(0x30, 0, 0, 23),
        f(0x15, 0, 6, 17),
        f(0x28, 0, 0, 20),
        f(0x45, 4, 0, 0x1fff),
        f(0xb1, 0, 0, 14),
        f(0x48, 0, 0, 16),
        f(0x15, 0, 1, port.into()),
        f(0x06, 0, 0, 0xffff),
        f(0x06, 0, 0, 0),
    ]
}

/// The interface's Ethernet address and its IPv4 addresses.
pub(crate) fn addresses(interface: &str) -> io::Result<(Mac, Vec<Ipv4Addr>)> {
    let all: Vec<_> = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?.collect();
    let mine = || all.iter().filter(|a| a.interface_name == interface).filter_map(|a| a.address.as_ref());
    let mac = mine().find_map(|a| a.as_link_addr()?.addr()).unwrap_or_default();
    let ips = mine().filter_map(|a| a.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::ip)).collect();
    Ok((mac, ips))
}

/// A filter for the kernel: UDP over IPv4 from `to` to `from`, unfragmented.
fn only(to: SocketAddrV4, from: SocketAddrV4) -> Vec<SockFilter> {
    const WORD: u16 = 0x20;
    const HALF: u16 = 0x28;
    const BYTE: u16 = 0x30;
    let f = SockFilter::new;
    let source = u32::from(*to.ip());
    vec![
        f(HALF, 0, 0, 12),
        f(0x15, 0, 11, 0x0800),
        f(BYTE, 0, 0, 23),
        f(0x15, 0, 9, 17),
        f(WORD, 0, 0, 26),
        f(0x15, 0, 7, source),
        f(HALF, 0, 0, 20),
        f(0x45, 5, 0, 0x1fff),
        // X = length of the IPv4 header; then the two ports.
        f(0xb1, 0, 0, 14),
        f(0x48, 0, 0, 14),
        f(0x15, 0, 2, to.port().into()),
        f(0x48, 0, 0, 16),
        f(0x15, 1, 0, from.port().into()),
        f(0x06, 0, 0, 0),
        f(0x06, 0, 0, 0xffff),
    ]
}

/// The interface that has `local`, or the one asked for, and its Ethernet address.
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

/// The Ethernet address of the next hop on the way to `to`, from the kernel's neighbours; it is made to ask by a
/// datagram of its own.
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
            // Empty: no protocol takes it for anything. That it cannot be sent yet is what it is for.
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

/// The gateway on the way to `to` through `interface`, by the most specific route; `None` where it is a neighbour.
fn gateway(routes: &str, to: Ipv4Addr, interface: &str) -> Option<Ipv4Addr> {
    let of_hex = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes);
    let best = routes.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (name, net, gate) = (words.next()?, of_hex(words.next()?)?, of_hex(words.next()?)?);
        let mask = of_hex(words.nth(4)?)?;
        let [net, mask] = [net, mask].map(u32::from_be_bytes);
        (name == interface && u32::from(to) & mask == net).then_some((mask, Ipv4Addr::from(gate)))
    });
    best.max_by_key(|(mask, _)| *mask).map(|(_, gate)| gate).filter(|gate| !gate.is_unspecified())
}

/// The complete entry of `hop` in the kernel's table.
fn neighbour(table: &str, hop: Ipv4Addr, interface: &str) -> Option<Mac> {
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[ip, _, flags, mac, _, name] = words.first_chunk()?;
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

    fn framing() -> Framing {
        let (from, to) = ("10.9.0.1:4000".parse().unwrap(), "10.9.0.2:46000".parse().unwrap());
        let marking = Marking { dscp: "EF".parse().unwrap(), ..Marking::default() };
        Framing {
            headers: headers([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], from, to, &marking),
            from,
            to,
            frame: Vec::new(),
            _owner: UdpSocket::bind("127.0.0.1:0").unwrap(),
        }
    }

    #[test]
    fn frames_are_whole_and_their_sums_right() {
        let mut framing = framing();
        for payload in [&b""[..], b"odd", b"even"] {
            let frame = framing.wrap(payload).to_vec();
            assert_eq!(checksum(sum_of(&frame[14..34])), 0, "IPv4");
            let pseudo = sum_of(&frame[26..34]) + 17 + (8 + payload.len()) as u64;
            assert_eq!(checksum(pseudo + sum_of(&frame[34..])), 0, "UDP");
            assert!(framing.unwrap(&frame).is_none(), "our own frame is no answer");
            let mut answer = frame.clone();
            answer[26..30].copy_from_slice(&[10, 9, 0, 2]);
            answer[30..34].copy_from_slice(&[10, 9, 0, 1]);
            answer[34..36].copy_from_slice(&46_000u16.to_be_bytes());
            answer[36..38].copy_from_slice(&4000u16.to_be_bytes());
            // Short frames are padded.
            answer.extend([0; 20]);
            let carried = framing.unwrap(&answer).unwrap();
            assert_eq!((carried.payload, carried.traffic_class, carried.ttl), (payload, 184, 64));
            for cut in 0..42 {
                assert!(framing.unwrap(&answer[..cut]).is_none());
            }
        }
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
