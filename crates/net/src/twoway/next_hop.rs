//! The Ethernet address of the next hop, from the kernel's tables of routes and neighbours.

use crate::frame::Mac;
use crate::netlink;
use nix::net::if_::if_nametoindex;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

/// Maximum wait for the next hop's address.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which the kernel's neighbour table is read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the Ethernet address of the next hop on the route to `to`. To make the kernel resolve the address,
/// a datagram is sent through `owner`, which is connected to `to`.
pub(super) fn next_hop(owner: &UdpSocket, to: IpAddr, interface: &str) -> io::Result<Mac> {
    let hop = gateway(to, interface)?.unwrap_or(to);
    let index = if_nametoindex(interface).map_err(io::Error::from)?;
    let until = Instant::now() + ANSWER_TIMEOUT;
    let mut asked: Option<Instant> = None;
    while Instant::now() < until {
        if let Some(mac) = neighbour(hop, index)? {
            return Ok(mac);
        }
        if asked.is_none_or(|a| a.elapsed() > Duration::from_millis(500)) {
            asked = Some(Instant::now());
            // The datagram is empty, so that no program accepts it: its only purpose is to make the kernel
            // resolve the address. An error is expected while the address is unknown.
            let _ = owner.send(&[]);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let how = if hop.is_ipv4() { "ARP" } else { "neighbour discovery" };
    Err(io::Error::new(
        io::ErrorKind::HostUnreachable,
        format!(
            "{hop} on {interface} does not answer requests for its Ethernet address ({how}): is the host up?"
        ),
    ))
}

/// Returns the gateway on the most specific route to `to` through `interface`; `None` if `to` is reached
/// directly.
pub(super) fn gateway(to: IpAddr, interface: &str) -> io::Result<Option<IpAddr>> {
    Ok(match to {
        IpAddr::V4(to) => gateway_v4(&read("route")?, to, interface).map(IpAddr::from),
        IpAddr::V6(to) => gateway_v6(&read("ipv6_route")?, to, interface).map(IpAddr::from),
    })
}

/// Reads a table of this thread's network namespace.
fn read(table: &str) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/thread-self/net/{table}"))
}

fn gateway_v4(routes: &str, to: Ipv4Addr, interface: &str) -> Option<Ipv4Addr> {
    // The kernel prints the bytes of an address, which are in network order, as a number in this host's
    // order.
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

/// Returns the gateway according to `routes`, the IPv6 routing table; see [`gateway`]. Fields of a line: destination
/// and its length, source and its length, gateway, metric, two counts, flags and interface.
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
    // The longest prefix wins; of equal ones, the smallest metric.
    best.max_by_key(|(rank, _)| *rank).map(|(_, gate)| gate).filter(|gate| !gate.is_unspecified())
}

/// Returns the Ethernet address of `hop` on the interface `index`; `None` if the kernel has not resolved it.
fn neighbour(hop: IpAddr, index: u32) -> io::Result<Option<Mac>> {
    let mut question = [0; NEIGHBOUR];
    question[0] = if hop.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET } as u8;
    netlink::dump(libc::RTM_GETNEIGH, &question, |entry| mac_of(entry, hop, index))
}

/// Length of `ndmsg`: family, padding, interface, state, flags, type.
const NEIGHBOUR: usize = 12;
const INTERFACE: usize = 4;
const STATE: usize = 8;
/// States in which the address is usable: reachable, stale, delay, probe, noarp, permanent.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Returns the Ethernet address in an entry of the kernel's table; `None` if the entry does not belong to `hop` on the
/// interface `index`, or if the address is not usable.
fn mac_of(entry: &[u8], hop: IpAddr, index: u32) -> Option<Mac> {
    let usable = netlink::u16_at(entry, STATE)? & USABLE != 0;
    if !usable || netlink::u32_at(entry, INTERFACE)? != index {
        return None;
    }
    let (mut is_hop, mut mac) = (false, None);
    for (kind, value) in netlink::attributes(entry.get(NEIGHBOUR..)?) {
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
    }
    mac.filter(|_| is_hop)
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
    fn neighbours_are_found_by_address_and_interface() {
        let entry = |index: u32, state: u16, ip: &[u8], mac: &[u8]| {
            let mut entry = vec![0; NEIGHBOUR];
            entry[INTERFACE..][..4].copy_from_slice(&index.to_ne_bytes());
            entry[STATE..][..2].copy_from_slice(&state.to_ne_bytes());
            entry.extend(netlink::attribute(libc::NDA_DST, ip));
            entry.extend(netlink::attribute(libc::NDA_LLADDR, mac));
            entry
        };
        let (v6, v4) = ("fe80::1".parse().unwrap(), "10.9.0.2".parse().unwrap());
        let octets = std::net::Ipv6Addr::from_bits(0xfe80 << 112 | 1).octets();
        let failed = 0x20;
        for (entry, hop, found) in [
            (entry(3, 4, &octets, &[2, 0, 0, 0, 0, 9]), v6, Some([2, 0, 0, 0, 0, 9])),
            (entry(3, 4, &[10, 9, 0, 2], &[7; 6]), v4, Some([7; 6])),
            (entry(3, 4, &[10, 9, 0, 2], &[7; 6]), v6, None),
            (entry(7, 2, &octets, &[9; 6]), v6, None),
            (entry(3, failed, &octets, &[8; 6]), v6, None),
            (entry(3, 4, &octets, &[8; 5]), v6, None),
        ] {
            assert_eq!(mac_of(&entry, hop, 3), found);
            for cut in 0..entry.len() {
                mac_of(&entry[..cut], hop, 3);
            }
        }
    }

    #[test]
    fn the_kernels_table_of_neighbours_can_be_read() {
        assert_eq!(neighbour("192.0.2.1".parse().unwrap(), 1).unwrap(), None);
        assert_eq!(neighbour("2001:db8::1".parse().unwrap(), 1).unwrap(), None);
    }
}
