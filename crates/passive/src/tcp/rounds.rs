//! [`SegmentRounds`]: determines, for each data segment sent to the far side, when it was acknowledged, or that it was
//! lost beyond the capture point. Its memory is bounded, so it can run indefinitely.

use super::connection::TcpEndpoint;
use super::segment::{FIN, RST, SYN, TcpSegment};
use crate::{IpPacket, Sides};
use foldhash::fast::RandomState;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use std::collections::{HashMap, VecDeque};

/// Maximum number of connections followed at a time; segments of further ones are only counted. The limit is lower in
/// unit tests.
const MAX_CONNECTIONS: usize = if cfg!(test) { 1 << 4 } else { 1 << 16 };
/// Maximum number of unacknowledged segments stored per connection.
const MAX_IN_FLIGHT: usize = 1 << 12;
/// Silence after which a connection is considered over.
const IDLE_TIMEOUT: Span = Span::seconds(120);
/// Maximum distance, in bytes, of an acknowledgement beyond the highest byte seen. Acknowledgements farther ahead are
/// damaged, or belong to another connection, and are ignored.
const MAX_ACK_LEAD: u64 = 1 << 30;

/// Fate of a data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRound {
    /// Time at which the segment first passed the capture point.
    pub sent: WallTime,
    /// Time at which the segment's acknowledgement passed; `None`: the segment was lost beyond the point and
    /// sent again.
    pub acknowledged: Option<WallTime>,
    /// Length of the IP packet, in bytes.
    pub length: u32,
}

/// Follows the segments from the reference side to the monitor side of one capture point.
#[derive(Debug)]
pub struct SegmentRounds {
    sides: Sides,
    port: Option<u16>,
    connections: HashMap<(TcpEndpoint, TcpEndpoint), SentData, RandomState>,
    fates: Vec<SegmentRound>,
    not_followed: u64,
    swept: Option<WallTime>,
}

/// Data of one connection towards the far side.
#[derive(Debug)]
struct SentData {
    /// Sequence number after the highest byte seen, unwrapped.
    next: u64,
    flight: VecDeque<UnackedSegment>,
    last: WallTime,
}

#[derive(Clone, Copy, Debug)]
struct UnackedSegment {
    start: u64,
    end: u64,
    first: WallTime,
    length: u32,
    /// TSval; `None` without the option.
    timestamp: Option<u32>,
    /// True if the segment was sent again.
    again: bool,
    /// True if the segment's fate is known from a selective acknowledgement.
    done: bool,
}

impl SegmentRounds {
    /// Creates an analysis of the segments from the reference to the monitor side; if `port` is given, only of segments
    /// from or to that port.
    pub fn new(sides: Sides, port: Option<u16>) -> SegmentRounds {
        SegmentRounds {
            sides,
            port,
            connections: HashMap::default(),
            fates: Vec::new(),
            not_followed: 0,
            swept: None,
        }
    }

    /// Handles a packet.
    pub fn push(&mut self, at: WallTime, p: &IpPacket<'_>) {
        let (Some(direction), Some(s)) = (self.sides.direction(p), TcpSegment::of(p)) else { return };
        if self.port.is_some_and(|port| s.ports.0 != port && s.ports.1 != port) {
            return;
        }
        self.sweep(at);
        let (src, dst) = p.ends();
        let (from, to) = ((src, s.ports.0), (dst, s.ports.1));
        match direction {
            Direction::Up => self.sent(at, (from, to), &s, p.length),
            Direction::Down => self.answered(at, (to, from), &s),
        }
    }

    /// Returns the fates that have become known since the last call.
    pub fn fates(&mut self) -> std::vec::Drain<'_, SegmentRound> {
        self.fates.drain(..)
    }

    /// Number of data segments of connections that are not followed.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// Handles a gap in the capture: segments that wait for an acknowledgement may have been acknowledged
    /// unseen.
    pub fn lose_sight(&mut self) {
        self.connections.values_mut().for_each(|own| own.flight.clear());
    }

    fn sent(&mut self, at: WallTime, key: (TcpEndpoint, TcpEndpoint), s: &TcpSegment, length: u32) {
        if s.length() == 0 && !s.has(RST) {
            return;
        }
        if s.has(SYN) || s.has(RST) {
            // The fate of the previous connection's data is unknown.
            self.connections.remove(&key);
        }
        if s.has(RST) {
            return;
        }
        if !self.connections.contains_key(&key) && self.connections.len() >= MAX_CONNECTIONS {
            self.not_followed += 1;
            return;
        }
        let begin = SentData { next: u64::from(s.seq) + (1 << 40), flight: VecDeque::new(), last: at };
        let own = self.connections.entry(key).or_insert(begin);
        own.last = at;
        let start = unwrap(own.next, s.seq);
        let end = start + u64::from(s.length());
        for waiting in own.flight.iter_mut().filter(|w| w.start < end && start < w.end) {
            waiting.again = true;
        }
        // Bytes from before a gap were lost or reordered before the point, so they show nothing about the
        // path beyond it.
        if start >= own.next {
            own.next = end;
            let timestamp = s.timestamps.map(|t| t.0);
            own.flight.push_back(UnackedSegment {
                start,
                end,
                first: at,
                length,
                timestamp,
                again: false,
                done: false,
            });
            // The fate of the oldest segment remains unknown.
            if own.flight.len() > MAX_IN_FLIGHT {
                own.flight.pop_front();
            }
        } else {
            own.next = own.next.max(end);
        }
    }

    fn answered(&mut self, at: WallTime, key: (TcpEndpoint, TcpEndpoint), s: &TcpSegment) {
        if s.has(RST) {
            self.connections.remove(&key);
            return;
        }
        let (Some(own), Some(ack)) = (self.connections.get_mut(&key), s.ack) else { return };
        own.last = at;
        let ack = unwrap(own.next, ack);
        if ack > own.next + MAX_ACK_LEAD {
            return;
        }
        let fates = &mut self.fates;
        let arrived =
            |w: &UnackedSegment| SegmentRound { sent: w.first, acknowledged: Some(at), length: w.length };
        if let Some((left, right)) = s.sack {
            let (left, right) = (unwrap(own.next, left), unwrap(own.next, right));
            // The first block contains the segment that made the receiver answer; a block below the
            // acknowledgement reports a duplicate.
            for w in own.flight.iter_mut().filter(|w| right > ack && left <= w.start && w.end <= right) {
                if !w.done && !w.again {
                    fates.push(arrived(w));
                }
                w.done = true;
            }
        }
        let mut clean = true;
        while let Some(w) = own.flight.pop_front_if(|w| w.end <= ack) {
            // Eifel detection: the echo belongs to the original, which therefore arrived.
            let original = w.timestamp.is_some() && s.timestamps.map(|t| t.1) == w.timestamp;
            match (w.done, w.again) {
                (true, _) => {}
                (false, true) => {
                    clean = false;
                    if !original {
                        fates.push(SegmentRound { sent: w.first, acknowledged: None, length: w.length });
                    }
                }
                // Data acknowledged together with retransmitted data may have been delayed by it.
                (false, false) if clean => fates.push(arrived(&w)),
                (false, false) => {}
            }
        }
        // Nothing is left to be acknowledged.
        if s.has(FIN) && own.flight.is_empty() {
            self.connections.remove(&key);
        }
    }

    /// Forgets connections that have been silent for [`IDLE_TIMEOUT`].
    fn sweep(&mut self, at: WallTime) {
        // Visiting all connections for every packet would be slow.
        if self.swept.is_some_and(|swept| (at - swept).0.abs() < IDLE_TIMEOUT.0 / 8) {
            return;
        }
        self.swept = Some(at);
        self.connections.retain(|_, own| (at - own.last).0.abs() < IDLE_TIMEOUT.0);
    }
}

/// Unwraps a sequence number near a known one.
fn unwrap(near: u64, seq: u32) -> u64 {
    near.wrapping_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::ACK;
    use crate::{LinkType, decode};
    use core::net::IpAddr;
    use jitlat_core::prefix::Prefix;

    const MS: i64 = 1_000_000;

    fn sides() -> Sides {
        let all = Prefix::new(IpAddr::from([0; 4]), 0).unwrap();
        Sides { reference: vec![Prefix::from(IpAddr::from([10, 0, 0, 1]))], monitor: vec![all] }
    }

    /// A segment out or in, with sequence number, payload, acknowledgement, a SACK block and timestamps.
    #[derive(Clone, Copy, Default)]
    struct Seg {
        out: bool,
        seq: u32,
        payload: u16,
        ack: u32,
        sack: Option<(u32, u32)>,
        stamps: Option<(u32, u32)>,
        flags: u8,
        port: u16,
    }

    fn bytes(s: Seg) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some((value, echo)) = s.stamps {
            options.extend([1, 1, 8, 10]);
            options.extend([value.to_be_bytes(), echo.to_be_bytes()].concat());
        }
        if let Some((left, right)) = s.sack {
            options.extend([1, 1, 5, 10]);
            options.extend([left.to_be_bytes(), right.to_be_bytes()].concat());
        }
        let header = 20 + options.len();
        let total = 20 + header as u16 + s.payload;
        let mut v = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 7, 0x40, 0, 64, 6, 0, 0];
        let (near, far) = ([10, 0, 0, 1], [192, 0, 2, 9]);
        v.extend(if s.out { [near, far] } else { [far, near] }.concat());
        let ports = if s.out { [s.port, 80] } else { [80, s.port] };
        v.extend(ports.map(u16::to_be_bytes).concat());
        v.extend(s.seq.to_be_bytes());
        v.extend(s.ack.to_be_bytes());
        v.extend([((header / 4) << 4) as u8, ACK | s.flags, 0x10, 0, 0, 0, 0, 0]);
        v.extend(options);
        v
    }

    struct Seen(SegmentRounds);

    impl Seen {
        fn new() -> Seen {
            Seen(SegmentRounds::new(sides(), None))
        }

        fn at(&mut self, ms: i64, s: Seg) -> Vec<(i64, Option<i64>)> {
            let bytes = bytes(s);
            let total = 40 + u32::from(s.payload) + (bytes.len() as u32 - 40);
            self.0.push(WallTime(ms * MS), &decode(LinkType::RAW, &bytes, total).unwrap());
            let fates = self.0.fates();
            fates.map(|f| (f.sent.0 / MS, f.acknowledged.map(|at| at.0 / MS))).collect()
        }
    }

    fn out(seq: u32) -> Seg {
        Seg { out: true, seq, payload: 1000, port: 5000, ..Seg::default() }
    }

    fn ack(ack: u32) -> Seg {
        Seg { ack, port: 5000, ..Seg::default() }
    }

    #[test]
    fn each_segment_has_the_time_to_its_acknowledgement() {
        let mut seen = Seen::new();
        assert!(seen.at(0, out(u32::MAX - 499)).is_empty());
        seen.at(2, out(500));
        assert_eq!(seen.at(20, ack(1500)), [(0, Some(20)), (2, Some(20))]);
        assert_eq!(seen.at(21, ack(1500)), []);
        // Incoming data and outgoing pure acknowledgements are not segments of this side.
        assert_eq!(seen.at(22, Seg { payload: 900, ..ack(1500) }), []);
        assert_eq!(seen.at(23, Seg { payload: 0, ..out(1500) }), []);
        assert_eq!(seen.at(40, ack(1500)), []);
    }

    #[test]
    fn a_segment_that_was_sent_again_was_lost_and_those_after_it_were_not() {
        let mut seen = Seen::new();
        (0..4).for_each(|k| drop(seen.at(k, out(k as u32 * 1000))));
        // The first segment is lost; the others are acknowledged selectively as they arrive.
        assert_eq!(seen.at(20, Seg { sack: Some((1000, 2000)), ..ack(0) }), [(1, Some(20))]);
        assert_eq!(seen.at(21, Seg { sack: Some((1000, 3000)), ..ack(0) }), [(2, Some(21))]);
        assert_eq!(seen.at(22, Seg { sack: Some((1000, 4000)), ..ack(0) }), [(3, Some(22))]);
        assert_eq!(seen.at(23, out(0)), []);
        assert_eq!(seen.at(43, ack(4000)), [(0, None)]);
        // Without selective acknowledgements the fate of the segments behind it is unknown.
        let mut seen = Seen::new();
        (0..3).for_each(|k| drop(seen.at(k, out(k as u32 * 1000))));
        seen.at(300, out(0));
        assert_eq!(seen.at(320, ack(3000)), [(0, None)]);
    }

    #[test]
    fn what_was_sent_again_for_nothing_was_not_lost() {
        let mut seen = Seen::new();
        let stamped = |value| Seg { stamps: Some((value, 0)), ..out(0) };
        seen.at(0, stamped(7));
        seen.at(200, stamped(207));
        // The echo belongs to the first transmission.
        assert_eq!(seen.at(210, Seg { stamps: Some((1, 7)), ..ack(1000) }), []);
        let mut seen = Seen::new();
        seen.at(0, stamped(7));
        seen.at(200, stamped(207));
        assert_eq!(seen.at(210, Seg { stamps: Some((1, 207)), ..ack(1000) }), [(0, None)]);
    }

    #[test]
    fn what_was_lost_before_the_point_is_no_loss_beyond_it() {
        let mut seen = Seen::new();
        seen.at(0, out(0));
        // Segment 1000 was lost before the point, and is seen later.
        seen.at(1, out(2000));
        assert_eq!(seen.at(20, ack(1000)), [(0, Some(20))]);
        seen.at(25, out(1000));
        assert_eq!(seen.at(45, ack(3000)), [(1, Some(45))]);
    }

    #[test]
    fn connections_end_and_are_bounded() {
        let mut seen = Seen::new();
        for port in 0..MAX_CONNECTIONS as u16 + 3 {
            seen.at(0, Seg { port, ..out(0) });
        }
        assert_eq!((seen.0.connections.len(), seen.0.not_followed()), (MAX_CONNECTIONS, 3));
        seen.at(1, Seg { flags: RST, port: 1, ..ack(0) });
        assert_eq!(seen.0.connections.len(), MAX_CONNECTIONS - 1);
        seen.at(2, Seg { flags: FIN, port: 0, ..ack(1000) });
        assert_eq!(seen.0.connections.len(), MAX_CONNECTIONS - 2);
        seen.at(200_000, Seg { port: 9999, ..out(0) });
        assert_eq!(seen.0.connections.len(), 1, "the others are idle");
        // If none is ever acknowledged, a bounded number is held.
        for k in 0..MAX_IN_FLIGHT as u32 + 9 {
            seen.at(200_000, Seg { port: 9999, ..out(1000 + k * 1000) });
        }
        assert_eq!(seen.0.connections.values().next().unwrap().flight.len(), MAX_IN_FLIGHT);
    }
}
