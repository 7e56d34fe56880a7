//! [`StreamBuilder`]: converts the results of two captures to the form of all other instruments: records with
//! consecutive numbers in arrival order, and their [`Session`].
//!
//! A packet's number is its position among the packets at the source point that count: a number that does not arrive is
//! a loss. Packets that do not count (ambiguous, or sent while the far capture was not running) have no number. Whether
//! a packet counts is known only when its window is over, so a record waits until all earlier packets are settled.

use super::clocks::ClockDifference;
use super::matcher::MatchObserver;
use super::pairing::Record;
use super::survey::Sides;
use super::{CapturePoint, TimeQueue};
use core::net::IpAddr;
use jitlat_core::prefix::Prefix;
use jitlat_core::record::{Moment, PacketRecord};
use jitlat_core::session::{Ending, PASSIVE, Session};
use jitlat_core::spec::{Direction, MAX_PACKETS, MAX_PAYLOAD, Schedule, TestSpec, Transport};
use jitlat_core::time::{Span, Stamp, StampSource, WallTime};
use std::collections::VecDeque;

/// Maximum distance, in packets, at which a duplicate of an earlier packet can still be numbered.
const DUPLICATE_WINDOW: u64 = 1 << 20;
/// Maximum number of arrivals that wait until an earlier packet is settled; beyond that, the earlier packet
/// does not count.
const MAX_WAITING: usize = 1 << 20;

/// Receives the records of both directions.
pub trait StreamSink {
    /// Receives the send time, on the source's clock, of the next packet that counts in a direction. Packets are passed
    /// in the order of their numbers, and before their arrivals.
    fn counted(&mut self, _direction: Direction, _sent: WallTime) {}

    /// Receives the next arrival in a direction. Its number is below the final value of
    /// [`StreamBuilder::sent`].
    fn record(&mut self, direction: Direction, record: &PacketRecord);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketFate {
    Pending,
    /// The packet counts. Contains its send time.
    Counts(WallTime),
    Void,
}

/// Summary of the packets in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirectionFacts {
    /// Number of packets that count.
    pub(crate) sent: u64,
    /// Times of the first and the last packet that count, on the source's clock.
    pub(crate) span: Option<(i64, i64)>,
    /// Number of received packets.
    pub(crate) arrived: u64,
    pub(crate) bytes: u64,
}

impl DirectionFacts {
    pub(crate) fn saw(&mut self, at: WallTime) {
        let s = self.span.get_or_insert((at.0, at.0));
        *s = (s.0.min(at.0), s.1.max(at.0));
    }

    /// Builds the session of the packets in one direction. `sides` are the addresses as seen by each point.
    pub(crate) fn session(
        &self,
        direction: Direction,
        sides: &[Sides; 2],
        clocks: &ClockDifference,
    ) -> Session {
        let (first, last) = self.span.unwrap_or_default();
        let period = last.saturating_sub(first) / i64::try_from(self.sent.max(2) - 1).unwrap_or(i64::MAX);
        let mut session =
            session(direction, sides, self.sent, self.bytes / self.arrived.max(1), Span(period));
        session.created = self.span.map(|s| WallTime(s.0));
        let reference = |at: i64| match (direction, clocks.offset_ns) {
            (Direction::Down, Some(offset)) => at.saturating_sub(offset as i64),
            _ => at,
        };
        session.probes.extend(self.span.into_iter().flat_map(|(first, last)| {
            let (first, last) = (reference(first), reference(last));
            [clocks.probe(WallTime(first.saturating_sub(1))), clocks.probe(WallTime(last))]
                .into_iter()
                .flatten()
        }));
        session
    }
}

/// A packet that arrived, identified by its source sighting.
#[derive(Clone, Copy, Debug)]
struct ArrivedPacket {
    seq: u64,
    sent: WallTime,
    length: u32,
}

impl ArrivedPacket {
    /// Converts the packet to a record with the number `number`; `at` is its arrival time.
    fn record(&self, number: i64, at: WallTime) -> PacketRecord {
        let mut record = PacketRecord::new(number);
        record.set(Moment::Sent, Stamp { at: self.sent, source: StampSource::Wire });
        record.set(Moment::Arrived, Stamp { at, source: StampSource::Wire });
        record.set_size(u16::try_from(self.length).ok());
        record
    }
}

/// Numbering of the packets in one direction.
#[derive(Debug, Default)]
struct DirectionNumbers {
    /// Fates of the source sightings with numbers from `base` on.
    fates: VecDeque<PacketFate>,
    base: u64,
    /// Number of sightings before `base` that do not count.
    voids: u64,
    /// Recent source sightings that do not count, ascending.
    recent: VecDeque<u64>,
    /// Arrivals that cannot be numbered yet. Sorted by time, because a wrong clock offset may match packets out
    /// of order.
    waiting: TimeQueue<ArrivedPacket>,
    /// Summary, except for the number of packets sent, which is computed from the fates.
    facts: DirectionFacts,
}

impl DirectionNumbers {
    fn settle(&mut self, seq: u64, fate: PacketFate, direction: Direction, sink: &mut impl StreamSink) {
        let Some(i) = seq.checked_sub(self.base) else { return };
        // Sightings are numbered consecutively, so the queue is never longer than the number of sightings
        // that the matcher holds.
        let i = i as usize;
        if self.fates.len() <= i {
            self.fates.resize(i + 1, PacketFate::Pending);
        }
        if self.fates[i] == PacketFate::Pending {
            self.fates[i] = fate;
        }
        while let Some(fate) = self.fates.front().copied() {
            match fate {
                PacketFate::Pending => break,
                PacketFate::Counts(sent) => sink.counted(direction, sent),
                PacketFate::Void => {
                    self.voids += 1;
                    self.recent.push_back(self.base);
                }
            }
            self.fates.pop_front();
            self.base += 1;
        }
        while self.recent.front().is_some_and(|v| v + DUPLICATE_WINDOW < self.base) {
            self.recent.pop_front();
        }
    }

    fn number(&self, seq: u64) -> i64 {
        // Subtract only the voids before `seq`.
        let later = self.recent.len() - self.recent.partition_point(|v| *v < seq);
        (seq - (self.voids - later as u64).min(seq)) as i64
    }

    /// True if an arrival has no number: the packet's fate was settled before the arrival, or the arrival is a
    /// duplicate of a packet that is too old.
    fn is_void(&self, seq: u64, copy: bool) -> bool {
        // Older voids are no longer stored, so the number of such a duplicate would be wrong.
        let forgotten = seq.saturating_add(DUPLICATE_WINDOW) < self.base;
        seq < self.base && (!copy || forgotten || self.recent.binary_search(&seq).is_ok())
    }

    fn release(&mut self, direction: Direction, sink: &mut impl StreamSink) {
        while self.waiting.len() > MAX_WAITING {
            // Too many arrivals wait for the earliest open fate: it becomes unknown.
            self.settle(self.base, PacketFate::Void, direction, sink);
            self.hand_on(direction, sink);
        }
        self.hand_on(direction, sink);
    }

    /// Passes on the arrivals that precede the earliest packet whose fate is not settled.
    fn hand_on(&mut self, direction: Direction, sink: &mut impl StreamSink) {
        while self.waiting.first().is_some_and(|(_, arrival)| arrival.seq < self.base) {
            let Some((at, arrival)) = self.waiting.pop() else { return };
            sink.record(direction, &arrival.record(self.number(arrival.seq), at));
        }
    }
}

/// A [`MatchObserver`] that builds the streams of both directions.
#[derive(Debug, Default)]
pub struct StreamBuilder<S> {
    directions: [DirectionNumbers; 2],
    sink: S,
}

impl<S: StreamSink> StreamBuilder<S> {
    /// Creates a builder that writes to `sink`.
    pub fn new(sink: S) -> StreamBuilder<S> {
        StreamBuilder { directions: Default::default(), sink }
    }

    /// Number of settled packets that count in a direction. Final once the matcher has finished.
    pub fn sent(&self, direction: Direction) -> u64 {
        let n = &self.directions[direction as usize];
        n.base - n.voids
    }

    /// Returns the session of one direction, with the results so far. `sides` are the addresses as seen by
    /// each point.
    pub fn session(&self, direction: Direction, sides: &[Sides; 2], clocks: &ClockDifference) -> Session {
        let facts =
            DirectionFacts { sent: self.sent(direction), ..self.directions[direction as usize].facts };
        facts.session(direction, sides, clocks)
    }

    /// Passes on all arrivals that have a number, including those that wait for the number of an earlier
    /// arrival.
    pub fn hand_on_numbered(&mut self) {
        for direction in Direction::BOTH {
            let n = &mut self.directions[direction as usize];
            let (mut waiting, base) = (std::mem::take(&mut n.waiting), n.base);
            while let Some((at, arrival)) = waiting.pop() {
                if arrival.seq < base {
                    self.sink.record(direction, &arrival.record(n.number(arrival.seq), at));
                } else {
                    n.waiting.push(at, arrival);
                }
            }
        }
    }

    /// True if a packet is not settled yet although later packets are.
    pub fn waits(&self, direction: Direction) -> bool {
        !self.directions[direction as usize].fates.is_empty()
    }

    /// Returns the sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Returns the sink, so that the caller can take its contents so far.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the sink once it is complete.
    pub fn into_sink(self) -> S {
        self.sink
    }
}

/// Builds the session of one direction before its packets are known.
pub fn session(direction: Direction, sides: &[Sides; 2], sent: u64, length: u64, period: Span) -> Session {
    let packets = sent.clamp(1, MAX_PACKETS.into());
    // Limits the sum of all packets' gaps to 73 years.
    let longest = i64::MAX / 4 / packets as i64;
    let spec = TestSpec::new(
        direction,
        // UDP regardless of the real protocol, because every packet counts separately: losses and reordering
        // are visible.
        Transport::Udp,
        packets,
        length.clamp(12, MAX_PAYLOAD.into()),
        Span(period.0.clamp(1, longest)),
        Schedule::Periodic,
    );
    let mut session = Session::new(spec.unwrap_or_default());
    session.spec.dst_port = 0;
    session.declared = Some(sent);
    session.sent = u32::try_from(sent).ok();
    session.payload_known = false;
    session.period_known = false;
    session.ending = Ending::Complete;
    session.tags.push(("instrument".to_owned(), PASSIVE.to_owned()));
    let only = |list: &[Prefix]| match list {
        [one] => one.address(),
        _ => None,
    };
    // Each end's own address, before any translation.
    let reference: Option<IpAddr> = only(&sides[CapturePoint::Reference as usize].reference);
    let monitor = only(&sides[CapturePoint::Monitor as usize].monitor);
    (session.src, session.dst) = match direction {
        Direction::Up => (reference, monitor),
        Direction::Down => (monitor, reference),
    };
    session
}

impl<S: StreamSink> MatchObserver for StreamBuilder<S> {
    fn arrived(&mut self, seq: u64, r: Record, copy: bool) {
        let (sent, arrived) = match r.direction {
            Direction::Up => (r.reference, r.monitor),
            Direction::Down => (r.monitor, r.reference),
        };
        let n = &mut self.directions[r.direction as usize];
        if n.is_void(seq, copy) {
            return;
        }
        n.waiting.push(arrived, ArrivedPacket { seq, sent, length: r.length });
        if !copy {
            n.facts.saw(sent);
            n.facts.bytes += u64::from(r.length);
            n.facts.arrived += 1;
            n.settle(seq, PacketFate::Counts(sent), r.direction, &mut self.sink);
        }
        n.release(r.direction, &mut self.sink);
    }

    fn lost(&mut self, direction: Direction, seq: u64, sent: WallTime, _flow: u32) {
        let n = &mut self.directions[direction as usize];
        n.facts.saw(sent);
        n.settle(seq, PacketFate::Counts(sent), direction, &mut self.sink);
        n.release(direction, &mut self.sink);
    }

    fn void(&mut self, direction: Direction, seq: u64) {
        let n = &mut self.directions[direction as usize];
        n.settle(seq, PacketFate::Void, direction, &mut self.sink);
        n.release(direction, &mut self.sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Matcher, Sighting};
    use jitlat_core::time::SECOND;

    #[derive(Default)]
    struct Kept(Vec<(Direction, i64, i64)>);

    impl StreamSink for Kept {
        fn record(&mut self, direction: Direction, r: &PacketRecord) {
            self.0.push((direction, r.seq, r.arrived().unwrap().0));
        }
    }

    fn out(at: i64) -> Record {
        Record {
            direction: Direction::Up,
            reference: WallTime(at),
            monitor: WallTime(at + 50),
            length: 100,
            flow: 0,
        }
    }

    #[test]
    fn what_counts_for_nothing_has_no_number() {
        let mut s = StreamBuilder::new(Kept::default());
        s.arrived(1, out(1), false);
        s.arrived(3, out(3), false);
        s.arrived(3, out(4), true);
        s.void(Direction::Up, 0);
        assert_eq!(s.sink.0, [(Direction::Up, 0, 51)], "sighting 2 is open");
        s.lost(Direction::Up, 2, WallTime(2), 0);
        s.void(Direction::Up, 4);
        s.arrived(5, out(6), false);
        assert_eq!(s.sink.0[1..], [(Direction::Up, 2, 53), (Direction::Up, 2, 54), (Direction::Up, 3, 56)]);
        assert_eq!((s.sent(Direction::Up), s.sent(Direction::Down)), (4, 0));
        let session = s.session(Direction::Up, &Default::default(), &ClockDifference::default());
        assert_eq!((session.packets(), session.spec.direction()), (4, Direction::Up));
    }

    #[test]
    fn arrivals_matched_out_of_turn_are_put_in_order() {
        let mut s = StreamBuilder::new(Kept::default());
        s.arrived(2, out(30), false);
        s.arrived(1, out(20), false);
        s.arrived(0, out(10), false);
        assert_eq!(s.sink.0, [(Direction::Up, 0, 60), (Direction::Up, 1, 70), (Direction::Up, 2, 80)]);
    }

    #[test]
    fn a_fate_that_stays_open_is_unknown_in_the_end() {
        let mut s = StreamBuilder::new(Kept::default());
        let n = MAX_WAITING as u64 + 10;
        for seq in 1..=n {
            s.arrived(seq, out(seq as i64), false);
            if seq == MAX_WAITING as u64 {
                assert_eq!(
                    (s.sink.0.len(), s.directions[0].waiting.len()),
                    (0, MAX_WAITING),
                    "there is still room"
                );
            }
        }
        assert_eq!((s.sink.0.len() as u64, s.directions[0].waiting.len()), (n, 0));
        // A copy that arrives too late has no number and does not count as an arrival.
        s.arrived(0, out(n as i64 + 1), false);
        s.arrived(0, out(n as i64 + 2), true);
        assert_eq!((s.sink.0.len() as u64, s.sent(Direction::Up)), (n, n));
        assert_eq!((s.sink.0[0].1, s.sink.0.last().map(|k| k.1)), (0, Some(n as i64 - 1)));
    }

    /// The summary agrees with a simulated stream: loss, duplication and reordering exactly, the offset
    /// within its bound.
    #[test]
    fn the_common_analysis_finds_what_was_done() {
        use jitlat_core::analysis::{Options, analyze};
        const MS: i64 = 1_000_000;
        let mut events = Vec::new();
        for i in 0..1000i64 {
            for direction in Direction::BOTH {
                let id = (i as u64 * 2 + direction as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let sent = i * 10 * MS + direction as i64 * 3 * MS;
                // Every 50th OUT packet arrives after the next one, every 40th IN packet arrives twice.
                let late = if direction == Direction::Up && i % 50 == 7 { 15 * MS } else { 0 };
                let delay = if direction == Direction::Up { 12 * MS } else { 8 * MS };
                let on = |p: CapturePoint, t: i64| {
                    WallTime(if p == CapturePoint::Monitor { t + 5000 * MS } else { t })
                };
                let (near, far) = if direction == Direction::Up {
                    (CapturePoint::Reference, CapturePoint::Monitor)
                } else {
                    (CapturePoint::Monitor, CapturePoint::Reference)
                };
                let mut see = |p: CapturePoint, t: i64| {
                    events.push((t, p, Sighting { at: on(p, t), id, length: 200, direction, flow: 0 }));
                };
                see(near, sent);
                if i % 100 == 33 && direction == Direction::Up {
                    continue;
                }
                see(far, sent + delay + late);
                if i % 40 == 5 && direction == Direction::Down {
                    see(far, sent + delay + 2 * MS);
                }
            }
        }
        events.sort_by_key(|e| e.0);
        struct Both([Vec<PacketRecord>; 2]);
        impl StreamSink for Both {
            fn record(&mut self, direction: Direction, r: &PacketRecord) {
                self.0[direction as usize].push(*r);
            }
        }
        let mut clocks = crate::ClockComparison::default();
        let mut streams = StreamBuilder::new(Both([Vec::new(), Vec::new()]));
        struct Tee<'a>(&'a mut StreamBuilder<Both>, &'a mut crate::ClockComparison);
        impl MatchObserver for Tee<'_> {
            fn arrived(&mut self, seq: u64, r: Record, copy: bool) {
                if !copy {
                    self.1.push(&r);
                }
                self.0.arrived(seq, r, copy);
            }
            fn lost(&mut self, direction: Direction, seq: u64, sent: WallTime, flow: u32) {
                self.0.lost(direction, seq, sent, flow);
            }
            fn void(&mut self, direction: Direction, seq: u64) {
                self.0.void(direction, seq);
            }
        }
        let mut m = Matcher::new(Span(5000 * MS), Span::seconds(2));
        for (_, p, s) in &events {
            m.push(*p, *s, &mut Tee(&mut streams, &mut clocks));
        }
        m.finish(&mut Tee(&mut streams, &mut clocks));
        let sessions = Direction::BOTH.map(|w| streams.session(w, &Default::default(), &clocks.difference()));
        let [out, back] = streams.into_sink().0;
        let up = analyze(&sessions[0], out, &Options::default());
        assert_eq!((up.counts.sent, up.counts.lost, up.counts.out_of_sequence), (1000, 10, 20));
        assert_eq!((up.counts.duplicate, up.pdv.max), (0, Some(15 * MS)));
        assert_eq!(up.latency.min, Some(5012 * MS));
        // The error is half the asymmetry, which is within half the smallest round trip.
        assert_eq!(up.clock.offset_ns, Some(5002 * MS));
        assert_eq!(up.latency_corrected.and_then(|c| c.min), Some(10 * MS));
        let down = analyze(&sessions[1], back, &Options::default());
        assert_eq!((down.counts.sent, down.counts.lost, down.counts.duplicate), (1000, 0, 25));
        assert_eq!(down.latency_corrected.and_then(|c| c.min), Some(10 * MS));
        assert!(
            !down.clock.inconsistent && down.clock.bound_ns == Some(10.0 * MS as f64),
            "{:?}",
            down.clock
        );
    }

    #[test]
    fn a_copy_has_the_number_of_its_packet() {
        let mut s = StreamBuilder::new(Kept::default());
        [0, 1, 2].iter().for_each(|seq| s.arrived(*seq, out(*seq as i64), false));
        s.void(Direction::Up, 3);
        s.void(Direction::Up, 4);
        s.arrived(5, out(5), false);
        s.arrived(1, out(6), true);
        s.arrived(5, out(7), true);
        let numbers: Vec<_> = s.sink.0.iter().map(|k| k.1).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 1, 3]);
    }

    #[test]
    fn copies_are_numbered_a_million_packets_back() {
        let mut n = DirectionNumbers::default();
        let mut kept = Kept::default();
        n.settle(0, PacketFate::Void, Direction::Up, &mut kept);
        n.base = DUPLICATE_WINDOW - 1;
        n.settle(DUPLICATE_WINDOW - 1, PacketFate::Counts(WallTime(0)), Direction::Up, &mut kept);
        assert_eq!(
            (n.base, n.recent.len(), n.is_void(0, true), n.is_void(1, true)),
            (DUPLICATE_WINDOW, 1, true, false)
        );
        n.settle(DUPLICATE_WINDOW, PacketFate::Counts(WallTime(0)), Direction::Up, &mut kept);
        assert_eq!((n.base, n.recent.len()), (DUPLICATE_WINDOW + 1, 0), "forgotten");
        assert!(n.is_void(0, true) && !n.is_void(1, true) && n.is_void(1, false));
    }

    #[test]
    fn a_session_is_of_what_was_seen() {
        let mut s = StreamBuilder::new(Kept::default());
        let alone = |n: u8| vec![Prefix::from(IpAddr::from([10, 0, 0, n]))];
        let sides = [
            Sides { reference: alone(1), monitor: alone(2) },
            Sides { reference: alone(3), monitor: alone(4) },
        ];
        // One packet in 10 s, of 100, 200, 300 and 400 bytes, each with a delay of a millisecond; the
        // monitor's clock is 2 s ahead.
        for k in 0..4u64 {
            let sent = 5 * SECOND + k as i64 * 10 * SECOND;
            let arrived = WallTime(sent - 2 * SECOND + 1_000_000);
            let record = Record {
                direction: Direction::Down,
                reference: arrived,
                monitor: WallTime(sent),
                length: 100 * (k as u32 + 1),
                flow: 0,
            };
            s.arrived(k, record, false);
        }
        let clocks = ClockDifference {
            offset_ns: Some(2e9),
            offset_bound_ns: Some(1e6),
            at: Some(WallTime(0)),
            ..ClockDifference::default()
        };
        let session = s.session(Direction::Down, &sides, &clocks);
        let spec = &session.spec;
        assert_eq!((spec.packets(), spec.payload(), spec.period()), (4, 250, Span::seconds(10)));
        assert_eq!(session.created, Some(WallTime(5 * SECOND)));
        // Each end's address as it sees itself.
        assert_eq!((session.src, session.dst), (Some([10, 0, 0, 4].into()), Some([10, 0, 0, 1].into())));
        // Before the first packet and with the last one, on the reference clock.
        let returned: Vec<_> = session.probes.iter().map(|p| p.returned.0).collect();
        assert_eq!(returned, [3 * SECOND - 1, 33 * SECOND]);
        assert!(session.probes.iter().all(|p| p.arrived == p.returned - Span::millis(1) + Span::seconds(2)));
        // With several addresses at an end, none is the end's own.
        let mut several = sides;
        several[0].reference.extend(alone(9));
        assert_eq!(s.session(Direction::Down, &several, &clocks).dst, None);
    }
}
