//! [`CopyFinder`]: finds packets that a recording contains more than once, because they were recorded at several points
//! of the same host or switch: on all interfaces of a router, at both ports of a mirror, at a bond and its member.

use crate::packet::{IpPacket, TCP, UDP};
use jitlat_core::time::WallTime;

/// Difference between a packet that was recorded again and its first recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// The packet was recorded at another place: its link-layer headers differ, or its TTL differs by one because a
    /// router is between the two places.
    Elsewhere,
    /// The two do not differ. Either the recording or the path made the copy.
    Same,
}

/// Number of packets that are remembered.
const REMEMBERED: usize = 2048;
/// Maximum time between two recordings of a packet at two places, in ns: for senders that number their packets (by IP
/// identification or timestamps), and for other senders, whose repeated packets can be equal.
const ELSEWHERE: [i64; 2] = [200_000_000, 5_000_000];
/// Same as [`ELSEWHERE`], for packets that do not differ.
const SAME: [i64; 2] = [1_000_000, 100_000];

#[derive(Clone, Copy, Debug)]
struct Remembered {
    name: u64,
    at: i64,
    link: u32,
    ttl: u8,
}

#[derive(Debug)]
pub(super) struct CopyFinder {
    packets: Box<[Remembered; REMEMBERED]>,
}

impl Default for CopyFinder {
    fn default() -> CopyFinder {
        let none = Remembered { name: 0, at: i64::MIN, link: 0, ttl: 0 };
        CopyFinder { packets: Box::new([none; REMEMBERED]) }
    }
}

/// Returns the bytes from `at` on, at most eight, as a number; 0 if there are none.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..) {
        Some([a, b, c, d, e, f, g, h, ..]) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        None | Some([]) => 0,
        Some(rest) => rest.iter().fold(0, |sum, b| sum << 8 | u64::from(*b)),
    }
}

/// Mixes all bits of two numbers: multiplies them, and combines both halves of the product.
#[inline]
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
    product as u64 ^ (product >> 64) as u64
}

/// Hash of addresses, protocol and ports in the direction of the packet.
#[inline]
pub(super) fn flow_of(p: &IpPacket<'_>) -> u64 {
    let a = p.addresses();
    let ends = match a.len() {
        8 => word(a, 0),
        _ => mix(word(a, 0) ^ word(a, 16), word(a, 8) ^ word(a, 24)),
    };
    let ports = match matches!(p.protocol, TCP | UDP) && !p.is_later_fragment() {
        true => p.transport().first_chunk::<4>().map_or(0, |ports| u32::from_le_bytes(*ports)),
        false => 0,
    };
    mix(ends, u64::from(p.protocol) << 32 | u64::from(ports))
}

impl CopyFinder {
    /// Returns the difference between the packet and an earlier recording of it; `None` if there is no earlier one.
    /// `flow` is the result of [`flow_of`] for the packet; `numbered` is true if it has a TCP timestamp.
    #[inline]
    pub(super) fn find(
        &mut self,
        at: WallTime,
        p: &IpPacket<'_>,
        flow: u64,
        numbered: bool,
    ) -> Option<CopyKind> {
        let t = p.transport();
        // Without the checksums of UDP and TCP: they may not be filled in yet at one of two places.
        let (first, third) = match p.protocol {
            TCP => (word(t, 0), word(t, 16) & !0xffff),
            UDP => (word(t, 0) & 0x0000_ffff_ffff_ffff, word(t, 16)),
            _ => (word(t, 0), word(t, 16)),
        };
        let numbers = u64::from(p.length) << 32 | u64::from(p.ident);
        let place = u64::from(p.fragment_offset) << 1 | u64::from(p.more_fragments);
        let name = mix(
            mix(flow ^ numbers, first ^ place << 48),
            mix(word(t, 8) ^ third.rotate_left(32), word(t, 24) ^ word(t, 32).rotate_left(23)),
        );
        // Ethernet and SLL2 have what differs between places in these bytes.
        let header = word(p.before, 0) ^ word(p.before, 6).rotate_left(32);
        let link = (header ^ header >> 32) as u32 ^ p.before.len() as u32;
        let ttl = p.ttl();
        let slot = &mut self.packets[name as usize % REMEMBERED];
        if slot.name != name {
            *slot = Remembered { name, at: at.0, link, ttl };
            return None;
        }
        let known = *slot;
        let unnumbered = usize::from(p.ident == 0 && !numbered);
        let gap = at.0.saturating_sub(known.at).saturating_abs();
        let hops = ttl.abs_diff(known.ttl);
        let found = match hops == 0 && link == known.link {
            true => (gap <= SAME[unnumbered]).then_some(CopyKind::Same),
            false => (hops <= 1 && gap <= ELSEWHERE[unnumbered]).then_some(CopyKind::Elsewhere),
        };
        if found.is_none() {
            *slot = Remembered { name, at: at.0, link, ttl };
        }
        found
    }
}

#[cfg(test)]
mod tests;
