//! [`FlowKey`] and [`FlowNumbers`]: identification and numbering of flows.

use crate::packet::{ICMP, ICMPV6, IpPacket, TCP, UDP};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use foldhash::fast::RandomState;
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::Direction;
use std::collections::HashMap;

/// Maximum number of flows with a number of their own; packets of further flows share one number.
pub const MAX_FLOWS: usize = 1 << 16;
/// Flow number that all flows beyond [`MAX_FLOWS`] share.
pub const OTHER_FLOWS: u32 = u32::MAX;
/// Common name of all flows beyond [`MAX_FLOWS`].
pub const OTHER_FLOWS_NAME: &str = "others";
/// Flow number of packets whose flow is unknown at a point, such as a far point that sends digests. The flow
/// number of the other point then applies; packets that the other point did not see remain without a flow.
pub const UNKNOWN_FLOW: u32 = u32::MAX - 1;

/// Returns the flow number of a packet that was seen at two points: `here`, or `there` if `here` is unknown.
#[inline]
pub(crate) fn known_flow(here: u32, there: u32) -> u32 {
    if here == UNKNOWN_FLOW { there } else { here }
}

/// Criterion by which packets are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Protocol, both addresses and both ports.
    Flow,
    /// Prefixes of both addresses, with these lengths.
    Prefix {
        /// Prefix length of IPv4 addresses, at most 32 bits.
        v4: u8,
        /// Prefix length of IPv6 addresses, at most 128 bits.
        v6: u8,
    },
}

/// Properties shared by the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey {
    /// Transport protocol; `None` for a pair of prefixes.
    pub protocol: Option<u8>,
    /// Address or prefix at the reference side, and port if there is one.
    pub reference: (Prefix, Option<u16>),
    /// Address or prefix at the monitor side, and port if there is one.
    pub monitor: (Prefix, Option<u16>),
}

impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All packets are grouped by the same criterion, so the prefix lengths and absent fields need not be
        // hashed.
        let port = |end: (Prefix, Option<u16>)| u32::from(end.1.unwrap_or(0));
        state.write_u128(self.reference.0.network());
        state.write_u128(self.monitor.0.network());
        state.write_u32(port(self.reference) << 16 | port(self.monitor));
        state.write_u8(self.protocol.unwrap_or(0));
    }
}

impl FlowKey {
    /// Returns the flow key of a packet that goes in `direction`.
    pub fn of(p: &IpPacket<'_>, direction: Direction, grouping: Grouping) -> FlowKey {
        let (src, dst) = match grouping {
            Grouping::Flow => {
                let (src, dst) = p.ends();
                let ports = p.ports();
                ((Prefix::host(src), ports.map(|p| p.0)), (Prefix::host(dst), ports.map(|p| p.1)))
            }
            Grouping::Prefix { v4, v6 } => {
                let around = |a: IpAddr| {
                    let length = if a.is_ipv4() { v4.min(32) } else { v6.min(128) };
                    (Prefix::new(a, length).unwrap_or(a.into()), None)
                };
                (around(p.src()), around(p.dst()))
            }
        };
        let (reference, monitor) = if direction == Direction::Up { (src, dst) } else { (dst, src) };
        let protocol = (grouping == Grouping::Flow).then_some(p.protocol);
        FlowKey { protocol, reference, monitor }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |f: &mut fmt::Formatter<'_>, (p, port): (Prefix, Option<u16>)| match (port, p.address()) {
            (Some(port), Some(IpAddr::V6(_))) => write!(f, "[{p}]:{port}"),
            (Some(port), _) => write!(f, "{p}:{port}"),
            (None, _) => write!(f, "{p}"),
        };
        match self.protocol {
            None => {}
            Some(TCP) => f.write_str("tcp ")?,
            Some(UDP) => f.write_str("udp ")?,
            Some(ICMP | ICMPV6) => f.write_str("icmp ")?,
            Some(n) => write!(f, "proto-{n} ")?,
        }
        end(f, self.reference)?;
        f.write_str(" - ")?;
        end(f, self.monitor)
    }
}

/// Numbers flows in the order in which they appear.
#[derive(Clone, Debug, Default)]
pub struct FlowNumbers {
    numbers: HashMap<FlowKey, u32, RandomState>,
    keys: Vec<FlowKey>,
}

impl FlowNumbers {
    /// Returns the flow's number, assigning the next one to a new flow; [`OTHER_FLOWS`] for new flows after the
    /// first [`MAX_FLOWS`].
    pub fn number(&mut self, key: FlowKey) -> u32 {
        if let Some(n) = self.numbers.get(&key) {
            return *n;
        }
        if self.is_full() {
            return OTHER_FLOWS;
        }
        let n = self.keys.len() as u32;
        self.numbers.insert(key, n);
        self.keys.push(key);
        n
    }

    /// Returns the number of a flow; `None` if it has none yet.
    pub fn known(&self, key: &FlowKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Adds a flow with a number that another [`FlowNumbers`] assigned.
    pub fn learn(&mut self, key: FlowKey, number: u32) {
        if self.numbers.len() < MAX_FLOWS {
            self.numbers.insert(key, number);
        }
    }

    /// True if further flows no longer get a number of their own.
    pub fn is_full(&self) -> bool {
        self.keys.len() >= MAX_FLOWS
    }

    /// Returns the keys of all flows, indexed by flow number.
    pub fn keys(&self) -> &[FlowKey] {
        &self.keys
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{LinkType, decode};

    /// Returns the key of a UDP packet between two addresses.
    pub(crate) fn key(src: [u8; 4], dst: [u8; 4], direction: Direction, grouping: Grouping) -> FlowKey {
        let mut v = vec![0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 17, 1, 2];
        v.extend(src);
        v.extend(dst);
        v.extend([0x13, 0x88, 0x13, 0x89, 0, 8, 3, 4]);
        FlowKey::of(&decode(LinkType::RAW, &v, 28).unwrap(), direction, grouping)
    }

    #[test]
    fn both_ways_of_a_flow_have_one_key() {
        let (a, b) = ([10, 0, 0, 1], [192, 0, 2, 9]);
        let out = key(a, b, Direction::Up, Grouping::Flow);
        assert_eq!(out.to_string(), "udp 10.0.0.1:5000 - 192.0.2.9:5001");
        let prefix = Grouping::Prefix { v4: 24, v6: 48 };
        assert_eq!(key(a, b, Direction::Up, prefix), key(b, a, Direction::Down, prefix));
        assert_eq!(key(a, b, Direction::Up, prefix).to_string(), "10.0.0.0/24 - 192.0.2.0/24");
    }

    #[test]
    fn flows_are_bounded_and_what_is_beyond_shares_a_number() {
        let mut numbers = FlowNumbers::default();
        for i in 0..(MAX_FLOWS as u32 + 10) {
            let [.., b, c, d] = i.to_be_bytes();
            let n = numbers.number(key([10, b, c, d], [1, 1, 1, 1], Direction::Up, Grouping::Flow));
            assert_eq!(n, if (i as usize) < MAX_FLOWS { i } else { OTHER_FLOWS });
        }
        assert_eq!(numbers.number(key([10, 0, 0, 3], [1, 1, 1, 1], Direction::Up, Grouping::Flow)), 3);
    }

    fn of(protocol: u8, ends: [[u8; 16]; 2], direction: Direction, grouping: Grouping) -> FlowKey {
        let mut v = vec![0x60, 0, 0, 0, 0, 8, protocol, 64];
        v.extend(ends.concat());
        v.extend([0x13, 0x88, 0x13, 0x89, 0, 8, 3, 4]);
        FlowKey::of(&decode(LinkType::RAW, &v, 48).unwrap(), direction, grouping)
    }

    #[test]
    fn a_flow_is_named_by_protocol_addresses_and_ports() {
        let end = |n| {
            let mut a = [0; 16];
            (a[0], a[15]) = (0xfd, n);
            a
        };
        let text = |protocol| of(protocol, [end(1), end(2)], Direction::Up, Grouping::Flow).to_string();
        assert_eq!(text(UDP), "udp [fd00::1]:5000 - [fd00::2]:5001");
        assert_eq!(text(TCP), "tcp [fd00::1]:5000 - [fd00::2]:5001");
        assert_eq!(text(ICMPV6), "icmp fd00::1 - fd00::2");
        assert_eq!(text(50), "proto-50 fd00::1 - fd00::2");
        let prefix =
            |v6| of(UDP, [end(1), end(2)], Direction::Down, Grouping::Prefix { v4: 33, v6 }).to_string();
        assert_eq!((prefix(48), prefix(200)), ("fd00::/48 - fd00::/48".into(), "fd00::2 - fd00::1".into()));
        let beyond = Grouping::Prefix { v4: 33, v6: 0 };
        assert_eq!(
            key([10, 0, 0, 1], [10, 0, 0, 2], Direction::Up, beyond).to_string(),
            "10.0.0.1 - 10.0.0.2"
        );
    }

    #[test]
    fn a_flow_not_known_here_may_be_known_there() {
        assert_eq!((known_flow(3, 4), known_flow(UNKNOWN_FLOW, 4)), (3, 4));
        assert_eq!(known_flow(UNKNOWN_FLOW, UNKNOWN_FLOW), UNKNOWN_FLOW);
    }

    #[test]
    fn numbers_can_be_learnt_and_looked_up() {
        let mut numbers = FlowNumbers::default();
        let [one, two] = [1, 2].map(|n| key([10, 0, 0, n], [1, 1, 1, 1], Direction::Up, Grouping::Flow));
        assert_eq!((numbers.known(&one), numbers.is_full()), (None, false));
        numbers.learn(one, 7);
        assert_eq!((numbers.known(&one), numbers.known(&two), numbers.keys().len()), (Some(7), None, 0));
        assert_eq!((numbers.number(two), numbers.keys()), (0, &[two][..]));
    }

    #[test]
    fn as_many_flows_are_learnt_as_are_numbered() {
        let mut numbers = FlowNumbers::default();
        for i in 0..MAX_FLOWS as u32 + 1 {
            let [.., b, c, d] = i.to_be_bytes();
            numbers.learn(key([10, b, c, d], [1, 1, 1, 1], Direction::Up, Grouping::Flow), i);
        }
        let last = key([10, 1, 0, 0], [1, 1, 1, 1], Direction::Up, Grouping::Flow);
        assert_eq!((numbers.numbers.len(), numbers.known(&last)), (MAX_FLOWS, None));
    }
}
