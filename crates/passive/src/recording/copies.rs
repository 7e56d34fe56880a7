//! [`CopyFinder`]: finds packets that a recording contains more than once, because they were recorded at several points
//! of the same host or switch: on all interfaces of a router, at both ports of a mirror, at a bond and its member.

use crate::packet::{IpPacket, TCP, UDP, tcp};
use jitlat_core::time::WallTime;

/// Difference between a packet that was recorded again and its first recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// The packet was recorded at another place: its link-layer headers differ, or its TTL differs by one or two, because
    /// routers are between the two places.
    Elsewhere,
    /// The two do not differ. Either the recording or the path made the copy.
    Same,
}

/// Number of packets that are remembered.
const REMEMBERED: usize = 2048;
/// Maximum number of routers between two places.
const MAX_HOPS: u8 = 2;
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

/// Minimum share of packets that were recorded again without any difference, as 1 in this many, at which equal
/// acknowledgements without IP identification and timestamp are regarded as copies, too.
const SYSTEMATIC: u64 = 8;

#[derive(Debug)]
pub(super) struct CopyFinder {
    packets: Box<[Remembered; REMEMBERED]>,
    /// Number of packets for which an earlier recording was looked for.
    seen: u64,
    /// Number of packets that were recorded again without any difference, except acknowledgements without IP
    /// identification and timestamp.
    same: u64,
}

impl Default for CopyFinder {
    fn default() -> CopyFinder {
        let none = Remembered { name: 0, at: i64::MIN, link: 0, ttl: 0 };
        CopyFinder { packets: Box::new([none; REMEMBERED]), seen: 0, same: 0 }
    }
}

/// Returns the bytes from `at` on, at most eight, as a number; 0 if there are none.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    if at >= bytes.len() {
        return 0;
    }
    match bytes.get(at..) {
        Some([a, b, c, d, e, f, g, h, ..]) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        None | Some([]) => 0,
        Some(rest) => rest.iter().fold(0, |sum, b| sum << 8 | u64::from(*b)),
    }
}

/// Returns the first five words of a transport header, with zeros for bytes that were not captured.
#[inline]
fn words(t: &[u8]) -> [u64; 5] {
    let last = match t.get(32..40) {
        Some([a, b, c, d, e, f, g, h]) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => word(t, 32),
    };
    match t.first_chunk::<32>() {
        // (constant offsets in a fixed number of bytes need no check)
        Some(t) => {
            let at = |k: usize| {
                u64::from_le_bytes([
                    t[k],
                    t[k + 1],
                    t[k + 2],
                    t[k + 3],
                    t[k + 4],
                    t[k + 5],
                    t[k + 6],
                    t[k + 7],
                ])
            };
            [at(0), at(8), at(16), at(24), last]
        }
        None => [word(t, 0), word(t, 8), word(t, 16), word(t, 24), last],
    }
}

/// Mixes all bits of two numbers: multiplies them, and combines both halves of the product.
#[inline]
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
    product as u64 ^ (product >> 64) as u64
}

/// Hash of both addresses in the direction of the packet.
#[inline]
fn ends_of(p: &IpPacket<'_>) -> u64 {
    let a = p.addresses();
    match a.first_chunk::<8>() {
        Some(v4) if a.len() == 8 => u64::from_le_bytes(*v4),
        _ => mix(word(a, 0) ^ word(a, 16), word(a, 8) ^ word(a, 24)),
    }
}

/// Hash of addresses, protocol and ports in the direction of the packet.
#[inline]
pub(super) fn flow_of(p: &IpPacket<'_>) -> u64 {
    let ends = ends_of(p);
    let ports = match matches!(p.protocol, TCP | UDP) && !p.is_later_fragment() {
        true => p.transport().first_chunk::<4>().map_or(0, |ports| u32::from_le_bytes(*ports)),
        false => 0,
    };
    mix(ends, u64::from(p.protocol) << 32 | u64::from(ports))
}

/// Same as [`flow_of`], for a TCP segment that is not in a later fragment. `segment` contains its captured bytes.
#[inline]
pub(super) fn flow_of_segment(p: &IpPacket<'_>, segment: &[u8]) -> u64 {
    let ports = segment.first_chunk::<4>().map_or(0, |ports| u32::from_le_bytes(*ports));
    mix(ends_of(p), u64::from(TCP) << 32 | u64::from(ports))
}

/// Same as [`flow_of_segment`], for a UDP datagram.
#[inline]
pub(super) fn flow_of_datagram(p: &IpPacket<'_>, datagram: &[u8]) -> u64 {
    let ports = datagram.first_chunk::<4>().map_or(0, |ports| u32::from_le_bytes(*ports));
    mix(ends_of(p), u64::from(UDP) << 32 | u64::from(ports))
}

impl CopyFinder {
    /// Returns the difference between the packet and an earlier recording of it; `None` if there is no earlier one.
    /// `flow` is the result of [`flow_of`] for the packet; `numbered` is true if it has a TCP timestamp.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        at: WallTime,
        p: &IpPacket<'_>,
        flow: u64,
        numbered: bool,
    ) -> Option<CopyKind> {
        let t = p.transport();
        let [first, second, third, fourth, fifth] = words(t);
        // Without the checksums of UDP and TCP: they may not be filled in yet at one of two places.
        let (first, third) = match p.protocol {
            TCP => (first, third & !0xffff),
            UDP => (first & 0x0000_ffff_ffff_ffff, third),
            _ => (first, third),
        };
        let numbers = u64::from(p.length) << 32 | u64::from(p.ident);
        let place = u64::from(p.fragment_offset) << 1 | u64::from(p.more_fragments);
        // (an odd factor keeps all differences of the first word, which has the sequence number)
        let spread =
            (flow ^ numbers ^ (first ^ place << 48).rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = mix(spread ^ second ^ third.rotate_left(32), fourth ^ fifth.rotate_left(23));
        // Ethernet and SLL2 have what differs between places in these bytes.
        let header = match p.before.first_chunk::<14>() {
            Some(b) => {
                let at = |k: usize| {
                    u64::from_le_bytes([
                        b[k],
                        b[k + 1],
                        b[k + 2],
                        b[k + 3],
                        b[k + 4],
                        b[k + 5],
                        b[k + 6],
                        b[k + 7],
                    ])
                };
                at(0) ^ at(6).rotate_left(32)
            }
            None => word(p.before, 0) ^ word(p.before, 6).rotate_left(32),
        };
        let link = (header ^ header >> 32) as u32 ^ p.before.len() as u32;
        let ttl = p.ttl();
        self.seen += 1;
        let new = Remembered { name, at: at.0, link, ttl };
        let place = name as usize % REMEMBERED;
        if self.packets[place].name != name {
            self.packets[place] = new;
            return None;
        }
        self.compare(self.packets[place], new, p, numbered)
    }

    /// Same as [`Self::find`], but not inlined in the caller.
    pub(super) fn find_any(
        &mut self,
        at: WallTime,
        p: &IpPacket<'_>,
        flow: u64,
        numbered: bool,
    ) -> Option<CopyKind> {
        self.find(at, p, flow, numbered)
    }

    /// Returns the difference between two recordings with the same hash `name`; `None` if they are different packets,
    /// not copies. The new one is then remembered.
    #[cold]
    fn compare(
        &mut self,
        known: Remembered,
        new: Remembered,
        p: &IpPacket<'_>,
        numbered: bool,
    ) -> Option<CopyKind> {
        let found = self.kind(known, new, p, numbered);
        if found.is_none() {
            self.packets[new.name as usize % REMEMBERED] = new;
        }
        found
    }

    fn kind(
        &mut self,
        known: Remembered,
        new: Remembered,
        p: &IpPacket<'_>,
        numbered: bool,
    ) -> Option<CopyKind> {
        let is_unnumbered = p.ident == 0 && !numbered;
        let gap = new.at.saturating_sub(known.at).saturating_abs();
        let hops = new.ttl.abs_diff(known.ttl);
        if hops != 0 || new.link != known.link {
            return (hops <= MAX_HOPS && gap <= ELSEWHERE[usize::from(is_unnumbered)])
                .then_some(CopyKind::Elsewhere);
        }
        if gap > SAME[usize::from(is_unnumbered)] {
            return None;
        }
        // A receiver that does not number its packets sends equal acknowledgements for all segments that follow a loss.
        if is_unnumbered && is_acknowledgement(p) {
            return (self.same * SYSTEMATIC >= self.seen).then_some(CopyKind::Same);
        }
        self.same += 1;
        Some(CopyKind::Same)
    }
}

/// True if the packet is a TCP segment with nothing but an acknowledgement.
fn is_acknowledgement(p: &IpPacket<'_>) -> bool {
    const ACK: u8 = 16;
    p.protocol == TCP && p.payload_length() == 0 && p.transport().get(tcp::FLAGS) == Some(&ACK)
}

#[cfg(test)]
mod tests;
