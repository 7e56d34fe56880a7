//! The Ethernet address of the next hop, from the kernel's tables of routes and neighbours.

use crate::frame::Mac;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

/// How long to wait for the next hop's address.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two readings of the kernel's neighbour table.
const LOOK: Duration = Duration::from_millis(20);

/// The Ethernet address of the next hop on the route to `to`; a datagram through `owner`, which is connected to `to`, makes the
/// kernel resolve it.
pub(super) fn next_hop(owner: &UdpSocket, to: IpAddr, interface: &str) -> io::Result<Mac> {
    let hop = gateway(to, interface)?.unwrap_or(to);
    let index = if_nametoindex(interface).map_err(io::Error::from)?;
    let until = Instant::now() + PATIENCE;
    let mut asked: Option<Instant> = None;
    while Instant::now() < until {
        if let Some(mac) = neighbour(hop, index)? {
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
    let how = if hop.is_ipv4() { "ARP" } else { "neighbour discovery" };
    Err(io::Error::new(
        io::ErrorKind::HostUnreachable,
        format!("{hop} on {interface} does not answer for its Ethernet address ({how}): is it there?"),
    ))
}

/// The gateway on the most specific route to `to` through `interface`; `None` if it is a neighbour.
pub(super) fn gateway(to: IpAddr, interface: &str) -> io::Result<Option<IpAddr>> {
    Ok(match to {
        IpAddr::V4(to) => gateway_v4(&read("route")?, to, interface).map(IpAddr::from),
        IpAddr::V6(to) => gateway_v6(&read("ipv6_route")?, to, interface).map(IpAddr::from),
    })
}

/// A table of this thread's network namespace.
fn read(table: &str) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/thread-self/net/{table}"))
}

fn gateway_v4(routes: &str, to: Ipv4Addr, interface: &str) -> Option<Ipv4Addr> {
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

/// Lines have destination and its length, source and its length, gateway, metric, two counts, flags and interface.
fn gateway_v6(routes: &str, to: Ipv6Addr, interface: &str) -> Option<Ipv6Addr> {
    const UP: u32 = 1;
    const REJECT: u32 = 0x200;
    let best = routes.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[net, length, _, _, gate, metric, _, _, flags, name] = fields.first_chunk()?;
        let [net, gate] = [net, gate].map(|text| u128::from_str_radix(text, 16).ok());
        let [length, metric, flags] = [length, metric, flags].map(|text| u32::from_str_radix(text, 16).ok());
        let (length, flags) = (length.filter(|l| *l <= 128)?, flags?);
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        let fits = name == interface && u128::from(to) & mask == net? && flags & (UP | REJECT) == UP;
        fits.then_some(((length, std::cmp::Reverse(metric?)), Ipv6Addr::from(gate?)))
    });
    best.max_by_key(|(rank, _)| *rank).map(|(_, gate)| gate).filter(|gate| !gate.is_unspecified())
}

/// The Ethernet address of `hop` at the interface `index`, if the kernel knows it.
fn neighbour(hop: IpAddr, index: u32) -> io::Result<Option<Mac>> {
    let route = Protocol::from(libc::NETLINK_ROUTE);
    let mut kernel = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(route))?;
    kernel.set_read_timeout(Some(PATIENCE))?;
    kernel.send(&netlink::ask_for_neighbours(hop.is_ipv6()))?;
    let mut table = vec![0; 1 << 16];
    loop {
        let length = kernel.read(&mut table)?;
        match netlink::find(&table[..length], hop, index) {
            netlink::Found::Neighbour(mac) => return Ok(Some(mac)),
            netlink::Found::End => return Ok(None),
            netlink::Found::Nothing => {}
        }
    }
}

/// Messages to and from the kernel about neighbours (rtnetlink(7)), in this host's byte order.
mod netlink {
    use crate::frame::Mac;
    use std::net::IpAddr;

    /// Message header: length, type, flags, number, port.
    const HEADER: usize = 16;
    /// `ndmsg`: family, padding, interface, state, flags, type.
    const NEIGHBOUR: usize = 12;
    const INTERFACE: usize = HEADER + 4;
    const STATE: usize = HEADER + 8;
    /// States in which the address can be used: reachable, stale, delay, probe, noarp, permanent.
    const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
    const ALIGNED: usize = 4;

    /// What one read has of what is looked for.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) enum Found {
        Neighbour(Mac),
        /// More is to come.
        Nothing,
        End,
    }

    pub(super) fn ask_for_neighbours(v6: bool) -> Vec<u8> {
        let length = (HEADER + NEIGHBOUR) as u32;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        let mut message = Vec::with_capacity(length as usize);
        message.extend(length.to_ne_bytes());
        message.extend(libc::RTM_GETNEIGH.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.resize(HEADER, 0);
        message.push(if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8);
        message.resize(HEADER + NEIGHBOUR, 0);
        message
    }

    fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
        bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
    }

    fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    /// Looks for `hop` at the interface `index` in messages of the kernel.
    pub(super) fn find(mut messages: &[u8], hop: IpAddr, index: u32) -> Found {
        while let (Some(length), Some(kind)) = (u32_at(messages, 0), u16_at(messages, 4)) {
            let length = length as usize;
            let Some(message) = messages.get(..length).filter(|_| length >= HEADER) else {
                return Found::End;
            };
            if kind != libc::RTM_NEWNEIGH {
                return Found::End;
            }
            if let Some(mac) = of(message, hop, index) {
                return Found::Neighbour(mac);
            }
            messages = messages.get(length.next_multiple_of(ALIGNED)..).unwrap_or_default();
        }
        Found::Nothing
    }

    fn of(message: &[u8], hop: IpAddr, index: u32) -> Option<Mac> {
        let usable = u16_at(message, STATE)? & USABLE != 0;
        if !usable || u32_at(message, INTERFACE)? != index {
            return None;
        }
        let (mut is_hop, mut mac) = (false, None);
        let mut attributes = message.get(HEADER + NEIGHBOUR..)?;
        while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
            let length = usize::from(length);
            let value = attributes.get(ALIGNED..length)?;
            match kind {
                libc::NDA_DST => {
                    is_hop = match hop {
                        IpAddr::V4(ip) => value == ip.octets(),
                        IpAddr::V6(ip) => value == ip.octets(),
                    }
                }
                libc::NDA_LLADDR => mac = value.try_into().ok(),
                _ => {}
            }
            attributes = attributes.get(length.next_multiple_of(ALIGNED)..).unwrap_or_default();
        }
        mac.filter(|_| is_hop)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn entry(index: u32, state: u16, ip: &[u8], mac: &[u8]) -> Vec<u8> {
            let mut body = vec![0; NEIGHBOUR];
            body[4..8].copy_from_slice(&index.to_ne_bytes());
            body[8..10].copy_from_slice(&state.to_ne_bytes());
            for (kind, value) in [(libc::NDA_DST, ip), (libc::NDA_LLADDR, mac)] {
                body.extend(((ALIGNED + value.len()) as u16).to_ne_bytes());
                body.extend(kind.to_ne_bytes());
                body.extend(value);
                body.resize(body.len().next_multiple_of(ALIGNED), 0);
            }
            let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
            message.extend(libc::RTM_NEWNEIGH.to_ne_bytes());
            message.resize(HEADER, 0);
            message.extend(body);
            message
        }

        #[test]
        fn neighbours_are_found_by_address_and_interface() {
            let (ip, v4): (IpAddr, IpAddr) = ("fe80::1".parse().unwrap(), "10.9.0.2".parse().unwrap());
            let IpAddr::V6(v6) = ip else { unreachable!() };
            let mac = [2, 0, 0, 0, 0, 9];
            let failed = 0x20;
            let table = [
                entry(7, 2, &v6.octets(), &[9; 6]),
                entry(3, failed, &v6.octets(), &[8; 6]),
                entry(3, 4, &[10, 9, 0, 2], &[7; 6]),
                entry(3, 4, &v6.octets(), &mac),
            ]
            .concat();
            assert_eq!(find(&table, ip, 3), Found::Neighbour(mac));
            assert_eq!(find(&table, v4, 3), Found::Neighbour([7; 6]));
            assert_eq!(find(&table, v4, 7), Found::Nothing);
            let mut done = vec![0; 20];
            done[0] = 20;
            done[4] = libc::NLMSG_DONE as u8;
            assert_eq!(find(&done, v4, 3), Found::End);
            for cut in 0..table.len() {
                find(&table[..cut], ip, 3);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_are_those_of_the_most_specific_route() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                      eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                      eth0\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n";
        let gate = |to: &str| gateway_v4(routes, to.parse().unwrap(), "eth0");
        assert_eq!(gate("8.8.8.8"), Some("192.168.2.1".parse().unwrap()));
        assert_eq!(gate("192.168.2.77"), None);
        let zeros = "0".repeat(32);
        let fd09 = "fd090000000000000000000000000000";
        let router = "fe800000000000000000000000000001";
        let routes = format!(
            "{fd09} 40 {zeros} 00 {zeros} 00000100 00000001 00000000 00000001     eth0\n\
             {zeros} 00 {zeros} 00 {router} 00000400 00000001 00000000 00000003     eth0\n\
             {zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n"
        );
        let gate = |to: &str, interface: &str| gateway_v6(&routes, to.parse().unwrap(), interface);
        assert_eq!(gate("2001:db8::1", "eth0"), Some("fe80::1".parse().unwrap()));
        assert_eq!((gate("fd09::77", "eth0"), gate("2001:db8::1", "lo")), (None, None));
    }

    #[test]
    fn the_kernels_table_of_neighbours_can_be_read() {
        assert_eq!(neighbour("192.0.2.1".parse().unwrap(), 1).unwrap(), None);
        assert_eq!(neighbour("2001:db8::1".parse().unwrap(), 1).unwrap(), None);
    }
}
