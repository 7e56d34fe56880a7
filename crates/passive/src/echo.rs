//! [`Echoes`]: round trips of ping during the capture, from ICMP echo requests and their replies at one
//! point. [`PingSource`]: sources of ping round trips.

use super::packet::{ICMP, ICMPV6, IpPacket};
use super::spread::SpreadFigures;
use super::survey::Sides;
use core::net::IpAddr;
use jitlat_core::time::{Span, WallTime};
use std::collections::{HashMap, VecDeque};

/// Source of ping round trips. The sources are separate sets: the same echoes may be in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingSource {
    /// ICMP echoes in the capture of the reference point.
    Capture = 0,
    /// A file written by ping or `jitlat ping`.
    File = 1,
}

impl PingSource {
    /// Both sources, in the order of their codes.
    pub const BOTH: [PingSource; 2] = [PingSource::Capture, PingSource::File];

    /// Name of the source's round trips in tables and legends.
    pub fn label(self) -> &'static str {
        match self {
            PingSource::Capture => "ping in the capture",
            PingSource::File => "ping in the file",
        }
    }
}

/// Round trips of ping in ns, by [`PingSource`]; `None` for a source without round trips.
pub type PingFigures = [Option<SpreadFigures>; 2];

/// Maximum number of requests stored until their reply is seen.
const MAX_PENDING: usize = 1 << 12;

/// True if the packet is an ICMP echo request or reply, of either family.
pub fn is_echo(p: &IpPacket<'_>) -> bool {
    kind(p).is_some()
}

/// Returns `true` for a request, `false` for a reply, `None` for other packets.
fn kind(p: &IpPacket<'_>) -> Option<bool> {
    if p.is_later_fragment() {
        return None;
    }
    match (p.protocol, *p.transport().first()?) {
        (ICMP, icmp::ECHO) | (ICMPV6, icmp::ECHO_V6) => Some(true),
        (ICMP, icmp::REPLY) | (ICMPV6, icmp::REPLY_V6) => Some(false),
        _ => None,
    }
}

/// Counts echoes and other packets by direction, to decide whether echoes are needed for pairs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EchoCounts {
    echoes: [u64; 2],
    others: [u64; 2],
}

impl EchoCounts {
    /// Adds a packet; packets that do not pass between the sides are not counted.
    pub(crate) fn add(&mut self, p: &IpPacket<'_>, sides: &Sides) {
        let Some(direction) = sides.direction(p) else { return };
        let counts = if is_echo(p) { &mut self.echoes } else { &mut self.others };
        counts[direction as usize] += 1;
    }

    /// True if packets other than echoes pass in both directions, and would make at least a quarter as many pairs as
    /// echoes. Echoes are then left out, because ping sends them and not an application. With fewer other packets, such
    /// as a few ICMP errors, only a few pairs would remain.
    pub(crate) fn pairs_without_echoes(&self) -> bool {
        const SHARE: u64 = 4;
        let pairs = |[up, down]: [u64; 2]| up.min(down);
        pairs(self.others) > 0 && pairs(self.others).saturating_mul(SHARE) >= pairs(self.echoes)
    }
}

/// Types of ICMP messages, and offsets of identifier and sequence number.
mod icmp {
    use core::ops::RangeFrom;

    pub(super) const ECHO: u8 = 8;
    pub(super) const REPLY: u8 = 0;
    pub(super) const ECHO_V6: u8 = 128;
    pub(super) const REPLY_V6: u8 = 129;
    pub(super) const NUMBERS: RangeFrom<usize> = 4..;
}

type EchoKey = (IpAddr, IpAddr, [u8; 4]);

/// Matches requests and replies seen at one point.
#[derive(Clone, Debug, Default)]
pub struct Echoes {
    waiting: HashMap<EchoKey, WallTime>,
    order: VecDeque<EchoKey>,
}

impl Echoes {
    /// Adds a packet; if it is a reply, returns the time of its request and the round trip.
    pub fn push(&mut self, at: WallTime, p: &IpPacket<'_>) -> Option<(WallTime, Span)> {
        let request = kind(p)?;
        let id = *p.transport().get(icmp::NUMBERS)?.first_chunk::<4>()?;
        if !request {
            let sent = self.waiting.remove(&(p.dst(), p.src(), id))?;
            return Some((sent, at - sent));
        }
        let key = (p.src(), p.dst(), id);
        if self.waiting.insert(key, at).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > MAX_PENDING {
            if let Some(old) = self.order.pop_front() {
                self.waiting.remove(&old);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, decode};

    fn echo(kind: u8, seq: u16, reply: bool) -> Vec<u8> {
        let mut v = vec![0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 1, 1, 2];
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        v.extend(if reply { [b, a] } else { [a, b] }.concat());
        v.extend([kind, 0, 0, 0, 0, 9]);
        v.extend(seq.to_be_bytes());
        v
    }

    #[test]
    fn a_reply_tells_the_round_trip_of_its_request() {
        let mut e = Echoes::default();
        let mut push = |at: i64, b: &[u8]| e.push(WallTime(at), &decode(LinkType::RAW, b, 28).unwrap());
        assert_eq!(push(10, &echo(8, 1, false)), None);
        assert_eq!(push(20, &echo(8, 2, false)), None);
        assert_eq!(push(35, &echo(0, 2, true)), Some((WallTime(20), Span(15))));
        assert_eq!(push(36, &echo(0, 2, true)), None, "answered already");
        assert_eq!(push(60, &echo(0, 1, true)), Some((WallTime(10), Span(50))));
        assert_eq!(push(70, &echo(3, 1, true)), None);
    }

    #[test]
    fn requests_without_an_answer_are_bounded() {
        let mut e = Echoes::default();
        for seq in 0..=u16::MAX {
            let b = echo(8, seq, false);
            e.push(WallTime(seq.into()), &decode(LinkType::RAW, &b, 28).unwrap());
        }
        assert!(e.waiting.len() <= MAX_PENDING && e.order.len() <= MAX_PENDING);
    }

    #[test]
    fn echoes_are_requests_and_replies_alone() {
        let is = |kind, fragment: u8, protocol| {
            let mut v = echo(kind, 1, false);
            (v[7], v[9]) = (fragment, protocol);
            is_echo(&decode(LinkType::RAW, &v, 28).unwrap())
        };
        assert!(is(8, 0, ICMP) && is(0, 0, ICMP) && is(128, 0, ICMPV6) && is(129, 0, ICMPV6));
        assert!(!is(3, 0, ICMP) && !is(8, 9, ICMP) && !is(8, 0, 17));
        assert_ne!(PingSource::Capture.label(), PingSource::File.label());
    }

    #[test]
    fn so_many_requests_wait_and_no_more() {
        let answered = |requests: u16| {
            let mut e = Echoes::default();
            let mut push = |b: &[u8]| e.push(WallTime(0), &decode(LinkType::RAW, b, 28).unwrap());
            (0..requests).for_each(|seq| assert_eq!(push(&echo(8, seq, false)), None));
            push(&echo(0, 0, true)).is_some()
        };
        assert!(answered(MAX_PENDING as u16) && !answered(MAX_PENDING as u16 + 1));
    }
}
