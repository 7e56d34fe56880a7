//! [`Candidates`]: packets that may belong to RTP streams. Any program may send a UDP packet that looks like RTP; only
//! an RTP sender numbers its packets and keeps the same source and clock.

use super::StreamKey;
use super::media_clock::{ns, ticks_between};
use super::packet::RtpPacket;
use foldhash::fast::RandomState;
use jitlat_core::time::{Span, WallTime};
use std::collections::{HashMap, VecDeque};

/// Number of packets that decide whether they are a stream, without signalling.
const PACKETS: usize = 8;
/// Number of packets that decide whether they are a stream, if signalling names one of the ends.
const SIGNALLED_PACKETS: usize = 2;
/// Maximum number of packets of one candidate that wait for the decision.
const MAX_EARLY: usize = 32;
/// Minimum number of steps by exactly one between the sequence numbers of the packets that decide.
const MIN_STEPS_BY_ONE: usize = 5;
/// Permitted steps between the sequence numbers of consecutive arrivals.
const STEPS: core::ops::RangeInclusive<i16> = -8..=16;
/// Permitted steps if the timestamps are in proportion to the numbers.
const REGULAR_STEPS: core::ops::RangeInclusive<i16> = -100..=100;
/// Maximum number of payload types among the packets that decide.
const MAX_TYPES: u32 = 3;
/// Fastest media clock, in Hz.
const FASTEST_CLOCK: u32 = 200_000;
/// Maximum time by which the timestamps may be ahead of the arrivals.
const MAX_LEAD: Span = Span::seconds(2);
/// Maximum number of candidates. Beyond it, the oldest is forgotten.
const MAX_CANDIDATES: usize = if cfg!(test) { 16 } else { 4096 };

/// A packet that waits until its stream is recognised.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarlyPacket {
    pub(super) at: WallTime,
    pub(super) packet: RtpPacket,
    pub(super) ttl: u8,
    pub(super) traffic_class: u8,
    pub(super) length: u32,
    /// True if the same packet was recorded shortly before.
    pub(super) is_copy: bool,
    /// For a packet in a TCP connection, number of gaps in the recorded bytes before it; `None` for a datagram.
    pub(super) gaps: Option<u32>,
}

/// Packets that may belong to streams.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    packets: HashMap<StreamKey, Vec<EarlyPacket>, RandomState>,
    /// Keys in the order of their first packets; some may have become streams.
    order: VecDeque<StreamKey>,
    /// Empty lists, to be used again.
    empty: Vec<Vec<EarlyPacket>>,
}

/// The latest packets of a candidate, without copies, in order.
struct Latest {
    packets: [EarlyPacket; PACKETS],
    length: usize,
}

impl Latest {
    /// Returns the latest packets of `early`; `None` if all are copies.
    fn of(early: &[EarlyPacket]) -> Option<Latest> {
        let different = || early.iter().rev().filter(|p| !p.is_copy).take(PACKETS);
        let mut latest = Latest { packets: [*different().next()?; PACKETS], length: different().count() };
        let places = latest.packets[..latest.length].iter_mut().rev();
        places.zip(different()).for_each(|(place, p)| *place = *p);
        Some(latest)
    }

    fn as_slice(&self) -> &[EarlyPacket] {
        &self.packets[..self.length]
    }
}

impl Candidates {
    /// Adds a packet. Returns all packets of its stream if the stream is recognised by it, otherwise `None`.
    /// `signalled` is true if signalling names one of its ends.
    pub(super) fn push(
        &mut self,
        key: StreamKey,
        packet: EarlyPacket,
        signalled: bool,
    ) -> Option<Vec<EarlyPacket>> {
        let wanted = if signalled { SIGNALLED_PACKETS } else { PACKETS };
        if let Some(early) = self.packets.get_mut(&key) {
            if early.len() >= MAX_EARLY {
                early.remove(0);
            }
            early.push(packet);
            let latest = Latest::of(early)?;
            let latest = latest.as_slice();
            let steps = match latest {
                _ if packet.is_copy || latest.len() < wanted => return None,
                _ if is_stream(latest) => STEPS,
                _ if latest.len() >= PACKETS && is_regular(latest) => REGULAR_STEPS,
                _ => return None,
            };
            let mut early = self.packets.remove(&key)?;
            // Earlier packets count if they are of the same numbering.
            let other = early.windows(2).rposition(|pair| !steps.contains(&step(pair)));
            early.drain(..other.map_or(0, |k| k + 1));
            return Some(early);
        }
        while self.order.len() >= MAX_CANDIDATES {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(mut list) = self.packets.remove(&oldest) {
                list.clear();
                self.empty.push(list);
            }
        }
        self.order.push_back(key);
        let mut list = self.empty.pop().unwrap_or_default();
        list.push(packet);
        self.packets.insert(key, list);
        None
    }
}

/// Step between the sequence numbers of two arrivals.
fn step(pair: &[EarlyPacket]) -> i16 {
    match pair {
        [a, b] => b.packet.sequence.wrapping_sub(a.packet.sequence) as i16,
        _ => 0,
    }
}

/// True if the timestamps are in proportion to the numbers, as with speech, which no loss and no reordering changes.
fn is_regular(packets: &[EarlyPacket]) -> bool {
    let [first, second, ..] = packets else { return false };
    let number = |p: &EarlyPacket| i64::from(p.packet.sequence.wrapping_sub(first.packet.sequence) as i16);
    let ticks = |p: &EarlyPacket| ticks_between(first.packet.timestamp, p.packet.timestamp);
    let Some(each) = ticks(second).checked_div(number(second)) else { return false };
    let numbers = || packets.iter().map(number);
    let (Some(lowest), Some(highest)) = (numbers().min(), numbers().max()) else { return false };
    let differ = numbers().enumerate().all(|(k, n)| numbers().skip(k + 1).all(|other| other != n));
    each > 0
        && differ
        && packets.iter().all(|p| ticks(p) == each * number(p))
        && packets.windows(2).all(|pair| REGULAR_STEPS.contains(&step(pair)))
        && is_one_sender(packets, (highest - lowest) * each)
}

/// True if consecutive arrivals are those of an RTP sender.
fn is_stream(packets: &[EarlyPacket]) -> bool {
    let steps = || packets.windows(2).map(step);
    let by_one = steps().filter(|step| *step == 1).count();
    if by_one < MIN_STEPS_BY_ONE.min(packets.len() - 1) || !steps().all(|step| STEPS.contains(&step)) {
        return false;
    }
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return false };
    let ticks = ticks_between(first.packet.timestamp, last.packet.timestamp);
    // Fragments of one video frame have the same timestamp; other packets must not.
    let advances = ticks > 0 || ticks == 0 && by_one == packets.len() - 1 && first.packet.is_dynamic();
    advances && is_one_sender(packets, ticks)
}

/// True if the packets are of few types, and their timestamps cover `ticks` in no less time than the fastest clock takes.
fn is_one_sender(packets: &[EarlyPacket], ticks: i64) -> bool {
    let types = packets.iter().fold(0u128, |set, p| set | 1 << (p.packet.payload_type & 0x7f));
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return false };
    let most = (last.at - first.at).0.max(0).saturating_add(MAX_LEAD.0);
    types.count_ones() <= MAX_TYPES && ns(ticks, FASTEST_CLOCK) <= most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MS;

    fn packet(at: i64, sequence: u16, timestamp: u32, payload_type: u8) -> EarlyPacket {
        let packet =
            RtpPacket { marker: false, payload_type, sequence, timestamp, ssrc: 1, payload_length: 160 };
        EarlyPacket {
            at: WallTime(at * MS),
            packet,
            ttl: 64,
            traffic_class: 0,
            length: 200,
            is_copy: false,
            gaps: None,
        }
    }

    fn key(ssrc: u32) -> StreamKey {
        StreamKey { from: (1, 2), to: (3, 4), ssrc }
    }

    /// Returns the number of packets after which a stream is recognised.
    fn recognised(packets: impl IntoIterator<Item = EarlyPacket>, signalled: bool) -> Option<usize> {
        let mut candidates = Candidates::default();
        let found = packets.into_iter().enumerate().find_map(|(k, p)| {
            let early = candidates.push(key(1), p, signalled)?;
            assert!(early.len() <= MAX_EARLY && (early.len() == k + 1 || k >= MAX_EARLY));
            Some(k + 1)
        });
        assert!(found.is_none() || candidates.packets.is_empty());
        found
    }

    #[test]
    fn a_sender_of_rtp_is_recognised_by_eight_packets() {
        let talk = |k: i64| packet(20 * k, (65_530 + k) as u16, (k * 160) as u32, 0);
        assert_eq!(recognised((0..20).map(talk), false), Some(8));
        assert_eq!(recognised((0..20).map(talk), true), Some(2));
        // One packet is lost, two are reordered. Timestamps in proportion to the numbers are enough; without them, the
        // numbers must follow each other.
        let order = [0, 1, 3, 4, 6, 5, 7, 8, 9, 10, 11, 12, 13];
        assert_eq!(recognised(order.into_iter().map(talk), false), Some(8));
        let uneven = |k: i64| packet(20 * k, k as u16, (k * 160 + k % 3) as u32, 0);
        assert_eq!(recognised(order.into_iter().map(uneven), false), Some(12));
        // Every second packet lost, nine of ten lost, all reordered.
        assert_eq!(recognised((0..20).map(|k| talk(2 * k)), false), Some(8));
        assert_eq!(recognised((0..20).map(|k| talk(k * 10 + k * 7 % 10)), false), Some(8));
        assert_eq!(recognised((0..20).map(|k| talk(k ^ 1)), false), Some(8));
        // Fragments of a video frame.
        assert_eq!(recognised((0..20).map(|k| packet(0, k as u16, 9000, 96)), false), Some(8));
    }

    #[test]
    fn other_protocols_are_not() {
        let none = |each: fn(i64) -> EarlyPacket| assert_eq!(recognised((0..100).map(each), false), None);
        none(|k| packet(20 * k, 7, (k * 160) as u32, 0));
        none(|k| packet(20 * k, (k * 31) as u16, (k * 160) as u32, 0));
        none(|k| packet(20 * k, k as u16, 160, 0));
        none(|k| packet(20 * k, (k * 3) as u16, (k * 160) as u32, 0));
        none(|k| packet(20 * k, k as u16, (k * 900_000) as u32, 96));
        none(|k| packet(20 * k, k as u16, (k * 160) as u32, (k % 7) as u8));
        none(|k| packet(20 * k, k as u16, (1_000_000 - k * 160) as u32, 0));
    }

    #[test]
    fn forged_sources_displace_only_each_other() {
        let mut candidates = Candidates::default();
        for ssrc in 0..1000 {
            assert!(candidates.push(key(ssrc), packet(0, 1, 1, 0), false).is_none());
            assert!(candidates.packets.len() <= MAX_CANDIDATES && candidates.order.len() <= MAX_CANDIDATES);
        }
        // A stream that sends meanwhile is recognised although others come between its packets.
        let found = (0..8i64).find_map(|k| {
            candidates.push(key(2000 + k as u32), packet(k, 1, 1, 0), false);
            candidates.push(key(1), packet(20 * k, k as u16, (k * 160) as u32, 0), false)
        });
        assert_eq!(found.map(|early| early.len()), Some(8));
    }
}
