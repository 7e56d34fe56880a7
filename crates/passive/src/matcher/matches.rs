//! [`Matches`]: counts and matches in each direction, and the monitor's sightings in order, until each is
//! matched or settled.

use super::{MATCHES_PER_UPDATE, MatchObserver};
use crate::flows::key::known_flow;
use crate::{CapturePart, CapturePoint, Record, Sighting};
use jitlat_core::spec::Direction;
use jitlat_core::time::{SECOND, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Maximum number of stored time ranges with drops. Each is the time between two readings of a drop counter,
/// and is needed for one window.
const MAX_DROP_TIMES: usize = 1 << 12;
/// Tolerance, in ns, of the expected arrival time of a packet that did not arrive.
const ARRIVAL_TOLERANCE: i64 = SECOND;

/// Counts of the packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatchCounts {
    /// Number of sightings at the reference point. A packet captured twice counts once.
    pub seen_at_reference: u64,
    /// Number of sightings at the monitor point. A packet captured twice counts once.
    pub seen_at_monitor: u64,
    /// Number of packets recognised at both points.
    pub matched: u64,
    /// Number of packets seen at the source point but not at the far point, although the far capture was
    /// running.
    pub lost: u64,
    /// Number of packets seen only at the source point while the far capture was not running, or was dropping packets.
    /// Whether they were lost is unknown.
    pub outside: u64,
    /// Number of packets that arrived without having been seen at the source point.
    pub unseen: u64,
    /// Number of duplicates, made by the network, that arrived.
    pub duplicates: u64,
    /// Number of packets captured again at the same point within 1 ms.
    pub captured_twice: u64,
    /// Number of sightings dropped because their identity was not unique.
    pub ambiguous: u64,
    /// Number of packets that arrived after a packet sent later.
    pub reordered: u64,
    /// Number of sightings given up for lack of memory before their window was over. Whether these packets
    /// were lost is unknown.
    pub given_up: u64,
}

impl MatchCounts {
    /// Adds the counts of other packets.
    pub fn add(&mut self, other: &MatchCounts) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        add(&mut self.seen_at_reference, other.seen_at_reference);
        add(&mut self.seen_at_monitor, other.seen_at_monitor);
        add(&mut self.matched, other.matched);
        add(&mut self.lost, other.lost);
        add(&mut self.outside, other.outside);
        add(&mut self.unseen, other.unseen);
        add(&mut self.duplicates, other.duplicates);
        add(&mut self.captured_twice, other.captured_twice);
        add(&mut self.ambiguous, other.ambiguous);
        add(&mut self.reordered, other.reordered);
        add(&mut self.given_up, other.given_up);
    }
}

/// A sighting that may still be matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSighting {
    pub(super) at: i64,
    /// Lower half of the packet's sequence number at the source point, which is unambiguous because far fewer packets
    /// are open at a time.
    pub(super) seq: u32,
    /// Lower half of the sighting's position in the output; 0 for sightings at the reference point.
    pub(super) slot: u32,
    pub(super) length: u32,
    pub(super) flow: u32,
}

/// Data stored about a matched packet, in case it is seen again.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedSource {
    pub(super) at: i64,
    seq: u32,
    flow: u32,
}

impl MatchedSource {
    pub(super) fn of(s: &OpenSighting) -> MatchedSource {
        MatchedSource { at: s.at, seq: s.seq, flow: s.flow }
    }
}

/// A monitor sighting waiting for its turn in the output.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutputSlot {
    Pending,
    Matched(Record),
    Void,
}

/// State of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirectionMatches {
    pub(super) counts: MatchCounts,
    next_seq: u64,
    /// Earliest and latest send time of a match, on the source's clock; `None` before the first match.
    matched_span: Option<(i64, i64)>,
    /// Delay of the first match, in common time.
    first_delay: i64,
    /// Delay of the latest match, in common time.
    recent_delay: i64,
    /// Smallest raw delay since the offset was last updated.
    least: Option<i64>,
    /// Smallest delay in common time at the first update.
    usual: Option<i64>,
}

/// Counts, matches and the output queue; see the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// Current estimate of monitor clock minus reference clock, in ns.
    pub(super) offset: i64,
    pub(super) slots: VecDeque<OutputSlot>,
    /// Number of the first slot in `slots`.
    first_slot: u64,
    pub(super) directions: [DirectionMatches; 2],
    /// Times of the first and last sighting of any packet at each point, on the point's clock.
    span: [Option<(i64, i64)>; 2],
    /// Time ranges in which a point dropped packets, on the point's clock, ascending and disjoint.
    holes: [VecDeque<(i64, i64)>; 2],
    since_tuned: u32,
    /// Part of the captures whose sightings are counted; `None`: the whole captures.
    pub(super) part: Option<CapturePart>,
}

impl Matches {
    /// Creates an empty state for clocks that differ by `offset` ns.
    pub(super) fn new(offset: i64) -> Matches {
        Matches { offset, ..Matches::default() }
    }

    /// Records that a point's capture covers the time `at`.
    #[inline]
    pub(super) fn covers(&mut self, point: CapturePoint, at: i64) {
        let span = self.span[point as usize].get_or_insert((at, at));
        span.0 = span.0.min(at);
        span.1 = span.1.max(at);
    }

    /// Records that a point dropped packets between `from` and `to`.
    pub(super) fn drops(&mut self, point: CapturePoint, from: i64, to: i64) {
        let holes = &mut self.holes[point as usize];
        match holes.back_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => holes.push_back((from, to)),
        }
        if holes.len() > MAX_DROP_TIMES {
            holes.pop_front();
        }
    }

    #[inline]
    pub(super) fn common(&self, point: CapturePoint, at: i64) -> i64 {
        match point {
            CapturePoint::Reference => at,
            CapturePoint::Monitor => at.saturating_sub(self.offset),
        }
    }

    /// Returns 1 if a sighting at this time counts, otherwise 0.
    #[inline]
    pub(super) fn one(&self, point: CapturePoint, at: i64) -> u64 {
        self.part.is_none_or(|part| part.contains(point, WallTime(at))).into()
    }

    /// Registers a sighting.
    #[inline]
    pub(super) fn register(&mut self, point: CapturePoint, s: &Sighting) -> OpenSighting {
        let one = self.one(point, s.at.0);
        let state = &mut self.directions[s.direction as usize];
        match point {
            CapturePoint::Reference => state.counts.seen_at_reference += one,
            CapturePoint::Monitor => state.counts.seen_at_monitor += one,
        }
        let mut seen = OpenSighting { at: s.at.0, seq: 0, slot: 0, length: s.length, flow: s.flow };
        if point.is_source(s.direction) {
            seen.seq = state.next_seq as u32;
            state.next_seq += 1;
        }
        if point == CapturePoint::Monitor {
            seen.slot = (self.first_slot + self.slots.len() as u64) as u32;
            self.slots.push_back(OutputSlot::Pending);
        }
        seen
    }

    #[inline]
    pub(super) fn matched(
        &mut self,
        direction: Direction,
        source: OpenSighting,
        arrival: OpenSighting,
        out: &mut impl MatchObserver,
    ) {
        let (reference, monitor) = match direction {
            Direction::Up => (source, arrival),
            Direction::Down => (arrival, source),
        };
        let record = Record {
            direction,
            reference: WallTime(reference.at),
            monitor: WallTime(monitor.at),
            length: source.length,
            flow: known_flow(reference.flow, monitor.flow),
        };
        let raw = arrival.at.saturating_sub(source.at);
        let delay = match direction {
            Direction::Up => raw.saturating_sub(self.offset),
            Direction::Down => raw.saturating_add(self.offset),
        };
        let one = self.one(CapturePoint::Monitor, monitor.at);
        let state = &mut self.directions[direction as usize];
        state.counts.matched += one;
        state.recent_delay = delay;
        state.least = Some(state.least.map_or(raw, |l| l.min(raw)));
        match &mut state.matched_span {
            None => {
                state.matched_span = Some((source.at, source.at));
                state.first_delay = delay;
            }
            Some((first, last)) => {
                // Reordered: sent before a packet that has already arrived.
                state.counts.reordered += u64::from(source.at < *last) * one;
                *first = (*first).min(source.at);
                *last = (*last).max(source.at);
            }
        }
        let seq = self.seq(direction, source.seq);
        out.arrived(seq, record, false);
        self.resolve(monitor.slot, OutputSlot::Matched(record), out);
        self.since_tuned += 1;
        if self.since_tuned >= MATCHES_PER_UPDATE {
            self.retune();
        }
    }

    pub(super) fn copied(
        &mut self,
        point: CapturePoint,
        s: &Sighting,
        source: MatchedSource,
        out: &mut impl MatchObserver,
    ) {
        let one = self.one(point, s.at.0);
        let state = &mut self.directions[s.direction as usize];
        match point {
            CapturePoint::Reference => state.counts.seen_at_reference += one,
            CapturePoint::Monitor => state.counts.seen_at_monitor += one,
        }
        state.counts.duplicates += one;
        let (reference, monitor) = match s.direction {
            Direction::Up => (WallTime(source.at), s.at),
            Direction::Down => (s.at, WallTime(source.at)),
        };
        let record = Record {
            direction: s.direction,
            reference,
            monitor,
            length: s.length,
            flow: known_flow(source.flow, s.flow),
        };
        let seq = self.seq(s.direction, source.seq);
        out.arrived(seq, record, true);
    }

    /// Updates the offset of a drifting clock, so that the two streams stay merged in order.
    fn retune(&mut self) {
        self.since_tuned = 0;
        let [out, back] = [0, 1].map(|w| self.directions[w].least.take());
        match (out, back) {
            // Divide first, because the difference may overflow.
            (Some(a), Some(b)) => self.offset = a / 2 - b / 2,
            // Only one direction has packets: the clocks may have drifted by as much as its smallest delay
            // changed.
            (Some(a), None) => {
                let offset = self.offset;
                let usual = *self.directions[0].usual.get_or_insert(a.saturating_sub(offset));
                self.offset = a.saturating_sub(usual);
            }
            (None, Some(b)) => {
                let offset = self.offset;
                let usual = *self.directions[1].usual.get_or_insert(b.saturating_add(offset));
                self.offset = usual.saturating_sub(b);
            }
            (None, None) => {}
        }
    }

    /// Restores the whole sequence number of a recent sighting from its lower half.
    #[inline]
    pub(super) fn seq(&self, direction: Direction, low: u32) -> u64 {
        let next = self.directions[direction as usize].next_seq;
        next.wrapping_sub(u64::from((next as u32).wrapping_sub(low)))
    }

    #[inline]
    pub(super) fn resolve(&mut self, slot: u32, state: OutputSlot, out: &mut impl MatchObserver) {
        // The difference for a slot that was given up exceeds the length of any queue.
        let i = slot.wrapping_sub(self.first_slot as u32);
        match (self.slots.get_mut(i as usize), state) {
            (Some(s), _) => *s = state,
            (None, OutputSlot::Matched(r)) => {
                self.directions[r.direction as usize].counts.given_up +=
                    self.one(CapturePoint::Monitor, r.monitor.0);
            }
            (None, _) => {}
        }
        if i == 0 {
            self.release(out);
        }
    }

    /// Stops waiting for the monitor sighting at the head of the queue, which will then not be in a pair.
    pub(super) fn pass_over_first(&mut self, out: &mut impl MatchObserver) {
        if self.slots.pop_front().is_some() {
            self.first_slot += 1;
            self.release(out);
        }
    }

    /// Outputs the sightings at the head of the queue that are matched or settled.
    pub(super) fn release(&mut self, out: &mut impl MatchObserver) {
        while let Some(s) = self.slots.front() {
            match s {
                OutputSlot::Pending => return,
                OutputSlot::Matched(r) => out.record(*r),
                OutputSlot::Void => {}
            }
            self.slots.pop_front();
            self.first_slot += 1;
        }
    }

    pub(super) fn unmatched(
        &mut self,
        direction: Direction,
        point: CapturePoint,
        seen: OpenSighting,
        out: &mut impl MatchObserver,
    ) {
        if point == CapturePoint::Monitor {
            self.resolve(seen.slot, OutputSlot::Void, out);
        }
        let one = self.one(point, seen.at);
        if !point.is_source(direction) {
            self.directions[direction as usize].counts.unseen += one;
        } else if self.would_have_been_seen(direction, seen.at) {
            self.directions[direction as usize].counts.lost += one;
            let seq = self.seq(direction, seen.seq);
            out.lost(direction, seq, WallTime(seen.at), seen.flow);
        } else {
            self.directions[direction as usize].counts.outside += one;
            let seq = self.seq(direction, seen.seq);
            out.void(direction, seq);
        }
    }

    /// Ends a sighting that remains unknown: the packet counts as neither arrived nor lost.
    pub(super) fn void(
        &mut self,
        direction: Direction,
        point: CapturePoint,
        seen: OpenSighting,
        out: &mut impl MatchObserver,
    ) {
        if point == CapturePoint::Monitor {
            self.resolve(seen.slot, OutputSlot::Void, out);
        }
        if point.is_source(direction) {
            let seq = self.seq(direction, seen.seq);
            out.void(direction, seq);
        }
    }

    /// True if the far capture was running, and dropped nothing, when a packet sent at `sent` should have arrived. The
    /// arrival time is estimated from the delay of the latest match or, for packets sent before the first match, from
    /// the delay of that match.
    fn would_have_been_seen(&self, direction: Direction, sent: i64) -> bool {
        let state = &self.directions[direction as usize];
        let (near, far) = match direction {
            Direction::Up => (CapturePoint::Reference, CapturePoint::Monitor),
            Direction::Down => (CapturePoint::Monitor, CapturePoint::Reference),
        };
        let Some((first, last)) = self.span[far as usize] else { return false };
        let (first, last) = (self.common(far, first), self.common(far, last));
        let sent_common = self.common(near, sent);
        let (begun, ended) = match state.matched_span {
            Some((from, to)) => (sent > from, sent < to),
            None => (false, false),
        };
        let due = sent_common.saturating_add(state.recent_delay);
        let dropped = self.holes[far as usize].iter().any(|(from, to)| {
            let around = self.common(far, from.saturating_sub(ARRIVAL_TOLERANCE))
                ..=self.common(far, to.saturating_add(ARRIVAL_TOLERANCE));
            around.contains(&due)
        });
        !dropped
            && (begun || sent_common.saturating_add(state.first_delay) >= first)
            && (ended || due <= last)
    }
}
