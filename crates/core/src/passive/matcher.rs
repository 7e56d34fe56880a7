//! [`Matcher`]: the windowed join of two points' sightings, O(1) a packet.
//!
//! The caller feeds sightings of both points merged in (roughly) common time. A name seen once at either
//! point within the window is one packet, matched. A name seen k times at both is matched in order. A name
//! seen a different number of times is ambiguous: counted and dropped, never guessed; a name that keeps
//! repeating is distrusted until it has been quiet for a window. What found no partner within the window
//! was lost, if the other capture covered the time when it should have arrived.

use super::{Identity, Point, Record, Sighting, Way};
use crate::time::{Nanos, SECOND, Span};
use core::hash::{BuildHasherDefault, Hasher};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// The same name at the same point this soon is one packet captured twice.
const TWICE: i64 = 1_000_000;
/// How long a matched name stays known, so that a second copy is recognised.
const LINGER: i64 = SECOND / 10;
/// More sightings of one name at one point within the window than this are beyond telling apart.
const GROUP: usize = 8;
/// Matches between two looks at the clock offset.
const RETUNE: u32 = 1024;
/// Sightings held at most; beyond it the oldest are given up before their time.
const CAPACITY: usize = 4 << 20;

/// Hears what becomes of the packets.
pub trait Observer {
    /// A matched packet, in the order of the monitor's sightings.
    fn record(&mut self, _: Record) {}
    /// A packet that arrived, when its arrival is matched; `copy` if it is a further copy made by the
    /// network. `seq` numbers the sightings at the packet's source point, each way from 0.
    fn arrived(&mut self, _seq: u64, _: Record, _copy: bool) {}
    /// Source sighting `seq` never arrived.
    fn lost(&mut self, _way: Way, _seq: u64, _sent: Nanos) {}
    /// Source sighting `seq` counts for nothing: ambiguous, or outside the time both captures cover.
    fn void(&mut self, _way: Way, _seq: u64) {}
}

/// What became of the packets of one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MatchCounts {
    /// Sightings at the reference point, second captures of one packet not counted.
    pub seen_at_reference: u64,
    /// Sightings at the monitor point, likewise.
    pub seen_at_monitor: u64,
    /// Packets recognised at both points.
    pub matched: u64,
    /// Passed the source point and never arrived, while the far capture ran.
    pub lost: u64,
    /// Passed the source point when the far capture did not run.
    pub outside: u64,
    /// Arrived without having been seen at the source point.
    pub unseen: u64,
    /// Further copies that arrived, made by the network.
    pub duplicates: u64,
    /// The same packet captured twice within 1 ms at one point.
    pub captured_twice: u64,
    /// Sightings dropped because their name was not theirs alone.
    pub ambiguous: u64,
    /// Packets that arrived after one sent later.
    pub reordered: u64,
}

/// The identity is a hash already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

type Table<T> = HashMap<Identity, T, BuildHasherDefault<AsIs>>;

/// A sighting that may yet be matched.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: i64,
    /// Sequence number at the source point, slot number at the monitor; both for an IN packet.
    seq: u64,
    slot: u64,
    length: u32,
    flow: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Seen at one point.
    Waiting(Point, Seen),
    /// Seen at both: when last at either point, on its clock.
    Matched { source: Seen, last: [i64; 2] },
    /// Seen more than once at a point; the sightings are in `groups`.
    Group,
    /// Repeats too often to be trusted.
    Distrusted,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// Common time of the first sighting, which names this incarnation in the queues.
    born: i64,
    /// Common time of the latest.
    touched: i64,
    way: Way,
}

#[derive(Debug, Default)]
struct Group {
    seen: [Vec<Seen>; 2],
}

/// A monitor sighting waiting for its turn in the output.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Pending,
    Matched(Record),
    Void,
}

/// What is known of one way.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    counts: MatchCounts,
    next_seq: u64,
    /// Source time of the first match and of the match sent last, on the source's clock.
    matched_span: Option<(i64, i64)>,
    /// Delay of the first and of the latest match, in common time.
    first_delay: i64,
    recent_delay: i64,
    /// Least raw delay since the offset was last looked at.
    least: Option<i64>,
    /// Least delay in common time when it was looked at first.
    usual: Option<i64>,
}

/// The join. See the module's text.
#[derive(Debug)]
pub struct Matcher {
    window: i64,
    /// Monitor clock minus reference clock, as far as known.
    offset: i64,
    now: i64,
    table: Table<Entry>,
    groups: Table<Group>,
    young: VecDeque<(i64, Identity)>,
    old: VecDeque<(i64, Identity)>,
    slots: VecDeque<Slot>,
    /// Number of the first slot in `slots`.
    first_slot: u64,
    lanes: [Lane; 2],
    /// First and last sighting of any packet at each point, on its clock.
    span: [Option<(i64, i64)>; 2],
    since_tuned: u32,
    capacity: usize,
    given_up_early: u64,
}

impl Matcher {
    /// A matcher for clocks that differ by about `offset` (monitor − reference), in which a packet may be
    /// up to `window` under way.
    pub fn new(offset: Span, window: Span) -> Matcher {
        Matcher {
            window: window.0.max(1),
            offset: offset.0,
            now: i64::MIN,
            table: Table::default(),
            groups: Table::default(),
            young: VecDeque::new(),
            old: VecDeque::new(),
            slots: VecDeque::new(),
            first_slot: 0,
            lanes: [Lane::default(); 2],
            span: [None; 2],
            since_tuned: 0,
            capacity: CAPACITY,
            given_up_early: 0,
        }
    }

    /// The same with room for `sightings` instead of four million.
    pub fn with_capacity(self, sightings: usize) -> Matcher {
        Matcher { capacity: sightings.max(2), ..self }
    }

    /// Monitor clock minus reference clock, as followed so far: the middle between the least raw delays,
    /// which is wrong by half the path's asymmetry. For merging the two streams, not for reporting.
    pub fn offset(&self) -> Span {
        Span(self.offset)
    }

    /// What became of the packets of one way, so far.
    pub fn counts(&self, way: Way) -> MatchCounts {
        self.lanes[way as usize].counts
    }

    /// Sightings given up before the window was over because too many were held at once.
    pub fn given_up_early(&self) -> u64 {
        self.given_up_early
    }

    /// Notes that a point's capture covers `at`, whatever packet it was.
    pub fn covers(&mut self, point: Point, at: Nanos) {
        let span = self.span[point as usize].get_or_insert((at.0, at.0));
        span.0 = span.0.min(at.0);
        span.1 = span.1.max(at.0);
    }

    /// Takes one sighting. Sightings of one point come in the order of its clock, give or take; the points
    /// are merged on (reference time, monitor time − [`Self::offset`]).
    #[inline]
    pub fn push(&mut self, point: Point, s: Sighting, out: &mut impl Observer) {
        self.covers(point, s.at);
        let common = self.common(point, s.at.0);
        if common > self.now {
            self.now = common;
            self.expire(out);
        }
        match self.table.get(&s.id).copied() {
            None => self.fresh(point, s, common),
            Some(e) => self.again(point, s, common, e, out),
        }
        if self.young.len() + self.old.len() > self.capacity {
            self.give_up_oldest(out);
        }
    }

    /// Settles what is still open once both captures have ended.
    pub fn finish(&mut self, out: &mut impl Observer) {
        for mut queue in [core::mem::take(&mut self.old), core::mem::take(&mut self.young)] {
            while let Some((born, id)) = queue.pop_front() {
                self.settle(born, id, out);
            }
        }
        self.release(out);
    }

    fn common(&self, point: Point, at: i64) -> i64 {
        match point {
            Point::Reference => at,
            Point::Monitor => at.saturating_sub(self.offset),
        }
    }

    /// Registers a sighting with its ledgers.
    fn register(&mut self, point: Point, s: &Sighting) -> Seen {
        let lane = &mut self.lanes[s.way as usize];
        match point {
            Point::Reference => lane.counts.seen_at_reference += 1,
            Point::Monitor => lane.counts.seen_at_monitor += 1,
        }
        let mut seen = Seen { at: s.at.0, seq: 0, slot: 0, length: s.length, flow: s.flow };
        if point.is_source(s.way) {
            seen.seq = lane.next_seq;
            lane.next_seq += 1;
        }
        if point == Point::Monitor {
            seen.slot = self.first_slot + self.slots.len() as u64;
            self.slots.push_back(Slot::Pending);
        }
        seen
    }

    fn fresh(&mut self, point: Point, s: Sighting, common: i64) {
        let seen = self.register(point, &s);
        let state = State::Waiting(point, seen);
        self.table.insert(s.id, Entry { state, born: common, touched: common, way: s.way });
        self.young.push_back((common, s.id));
    }

    fn again(&mut self, point: Point, s: Sighting, common: i64, e: Entry, out: &mut impl Observer) {
        let near = |last: i64| s.at.0.saturating_sub(last).saturating_abs() <= TWICE;
        let state = match e.state {
            State::Waiting(p, seen) if p == point => {
                if near(seen.at) {
                    self.lanes[s.way as usize].counts.captured_twice += 1;
                    return;
                }
                let mut g = Group::default();
                g.seen[point as usize] = vec![seen, self.register(point, &s)];
                self.groups.insert(s.id, g);
                State::Group
            }
            State::Waiting(p, other) => {
                let seen = self.register(point, &s);
                let (source, arrival) = if p.is_source(s.way) { (other, seen) } else { (seen, other) };
                self.matched(s.way, source, arrival, out);
                let mut last = [0; 2];
                last[point as usize] = s.at.0;
                last[p as usize] = other.at;
                State::Matched { source, last }
            }
            State::Matched { source, mut last } => {
                if near(last[point as usize]) {
                    self.lanes[s.way as usize].counts.captured_twice += 1;
                    return;
                }
                if point.is_source(s.way) {
                    // A new packet of the same name: the old one is done with.
                    self.fresh(point, s, common);
                    return;
                }
                last[point as usize] = s.at.0;
                self.copied(point, &s, source, out);
                State::Matched { source, last }
            }
            State::Group => return self.regroup(point, s, common, e, out),
            State::Distrusted => {
                let counts = &mut self.lanes[s.way as usize].counts;
                match point {
                    Point::Reference => counts.seen_at_reference += 1,
                    Point::Monitor => counts.seen_at_monitor += 1,
                }
                counts.ambiguous += 1;
                State::Distrusted
            }
        };
        self.table.insert(s.id, Entry { state, touched: common, ..e });
    }

    /// A further sighting of a name that is already several.
    fn regroup(&mut self, point: Point, s: Sighting, common: i64, e: Entry, out: &mut impl Observer) {
        let last = self.groups.get(&s.id).and_then(|g| g.seen[point as usize].last()).map(|l| l.at);
        if last.is_some_and(|l| s.at.0.saturating_sub(l).saturating_abs() <= TWICE) {
            self.lanes[s.way as usize].counts.captured_twice += 1;
            return;
        }
        let seen = self.register(point, &s);
        let g = self.groups.entry(s.id).or_default();
        g.seen[point as usize].push(seen);
        let (here, there) = (g.seen[point as usize].len(), g.seen[1 - point as usize].len());
        let state = if here == there {
            let g = self.groups.remove(&s.id).unwrap_or_default();
            for (r, m) in g.seen[0].iter().zip(&g.seen[1]) {
                match s.way {
                    Way::Out => self.matched(s.way, *r, *m, out),
                    Way::In => self.matched(s.way, *m, *r, out),
                }
            }
            let at = |p: usize| g.seen[p].last().map_or(s.at.0, |l| l.at);
            let source = *g.seen[s.way as usize].last().unwrap_or(&seen);
            State::Matched { source, last: [at(0), at(1)] }
        } else if here > GROUP {
            self.dissolve(s.way, s.id, true, out);
            State::Distrusted
        } else {
            State::Group
        };
        self.table.insert(s.id, Entry { state, touched: common, ..e });
    }

    #[inline]
    fn matched(&mut self, way: Way, source: Seen, arrival: Seen, out: &mut impl Observer) {
        let (reference, monitor) = match way {
            Way::Out => (source, arrival),
            Way::In => (arrival, source),
        };
        let record = Record {
            way,
            reference: Nanos(reference.at),
            monitor: Nanos(monitor.at),
            length: source.length,
            flow: reference.flow,
        };
        let raw = arrival.at.saturating_sub(source.at);
        let delay = match way {
            Way::Out => raw.saturating_sub(self.offset),
            Way::In => raw.saturating_add(self.offset),
        };
        let lane = &mut self.lanes[way as usize];
        lane.counts.matched += 1;
        lane.recent_delay = delay;
        lane.least = Some(lane.least.map_or(raw, |l| l.min(raw)));
        match &mut lane.matched_span {
            None => {
                lane.matched_span = Some((source.at, source.at));
                lane.first_delay = delay;
            }
            Some((first, last)) => {
                lane.counts.reordered += u64::from(source.at < *last);
                *first = (*first).min(source.at);
                *last = (*last).max(source.at);
            }
        }
        out.arrived(source.seq, record, false);
        self.resolve(monitor.slot, Slot::Matched(record), out);
        self.since_tuned += 1;
        if self.since_tuned >= RETUNE {
            self.retune();
        }
    }

    fn copied(&mut self, point: Point, s: &Sighting, source: Seen, out: &mut impl Observer) {
        let lane = &mut self.lanes[s.way as usize];
        match point {
            Point::Reference => lane.counts.seen_at_reference += 1,
            Point::Monitor => lane.counts.seen_at_monitor += 1,
        }
        lane.counts.duplicates += 1;
        let (reference, monitor) = match s.way {
            Way::Out => (Nanos(source.at), s.at),
            Way::In => (s.at, Nanos(source.at)),
        };
        let record = Record { way: s.way, reference, monitor, length: s.length, flow: source.flow };
        out.arrived(source.seq, record, true);
    }

    /// Follows a drifting clock, so that the two streams stay merged in step.
    fn retune(&mut self) {
        self.since_tuned = 0;
        let [out, back] = [0, 1].map(|w| self.lanes[w].least.take());
        match (out, back) {
            (Some(a), Some(b)) => self.offset = a / 2 - b / 2,
            // One way only: what its least delay drifts by, the clocks may have drifted by.
            (Some(a), None) => {
                let offset = self.offset;
                let usual = *self.lanes[0].usual.get_or_insert(a.saturating_sub(offset));
                self.offset = a.saturating_sub(usual);
            }
            (None, Some(b)) => {
                let offset = self.offset;
                let usual = *self.lanes[1].usual.get_or_insert(b.saturating_add(offset));
                self.offset = usual.saturating_sub(b);
            }
            (None, None) => {}
        }
    }

    fn resolve(&mut self, slot: u64, state: Slot, out: &mut impl Observer) {
        let Some(i) = slot.checked_sub(self.first_slot) else { return };
        if let Some(s) = self.slots.get_mut(i as usize) {
            *s = state;
        }
        if i == 0 {
            self.release(out);
        }
    }

    /// Lets go of everything at the head of the queue whose fate is known.
    fn release(&mut self, out: &mut impl Observer) {
        while let Some(s) = self.slots.front() {
            match s {
                Slot::Pending => return,
                Slot::Matched(r) => out.record(*r),
                Slot::Void => {}
            }
            self.slots.pop_front();
            self.first_slot += 1;
        }
    }

    fn expire(&mut self, out: &mut impl Observer) {
        while let Some((born, id)) = self.young.front().copied() {
            if born.saturating_add(LINGER) >= self.now {
                break;
            }
            self.young.pop_front();
            self.outgrow(born, id);
        }
        while let Some((born, id)) = self.old.front().copied() {
            if born.saturating_add(self.window) >= self.now {
                break;
            }
            self.old.pop_front();
            let active = self.table.get(&id).is_some_and(|e| {
                e.born == born
                    && matches!(e.state, State::Group | State::Distrusted)
                    && e.touched.saturating_add(self.window) >= self.now
            });
            if active {
                let now = self.now;
                if let Some(e) = self.table.get_mut(&id) {
                    e.born = now;
                }
                self.old.push_back((now, id));
            } else {
                self.settle(born, id, out);
            }
        }
    }

    /// A name is no longer young: forgotten if matched a while ago, else kept for the window.
    #[inline]
    fn outgrow(&mut self, born: i64, id: Identity) {
        let Some(e) = self.table.get(&id) else { return };
        if e.born != born {
            return;
        }
        let done =
            matches!(e.state, State::Matched { .. }) && self.now.saturating_sub(e.touched) > LINGER / 10;
        if done {
            self.table.remove(&id);
        } else {
            self.old.push_back((born, id));
        }
    }

    fn give_up_oldest(&mut self, out: &mut impl Observer) {
        let from = if self.old.is_empty() { &mut self.young } else { &mut self.old };
        if let Some((born, id)) = from.pop_front() {
            self.given_up_early += 1;
            self.settle(born, id, out);
        }
    }

    /// The window of a name is over.
    fn settle(&mut self, born: i64, id: Identity, out: &mut impl Observer) {
        let Some(e) = self.table.get(&id).copied() else { return };
        if e.born != born {
            return;
        }
        self.table.remove(&id);
        match e.state {
            State::Waiting(p, seen) => self.unmatched(e.way, p, seen, out),
            State::Group => self.dissolve(e.way, id, false, out),
            State::Matched { .. } | State::Distrusted => {}
        }
    }

    fn unmatched(&mut self, way: Way, point: Point, seen: Seen, out: &mut impl Observer) {
        if point == Point::Monitor {
            self.resolve(seen.slot, Slot::Void, out);
        }
        if !point.is_source(way) {
            self.lanes[way as usize].counts.unseen += 1;
        } else if self.would_have_been_seen(way, seen.at) {
            self.lanes[way as usize].counts.lost += 1;
            out.lost(way, seen.seq, Nanos(seen.at));
        } else {
            self.lanes[way as usize].counts.outside += 1;
            out.void(way, seen.seq);
        }
    }

    /// Whether the far capture ran when a packet sent at `sent` should have arrived: between two packets
    /// that did, or as long under way as the nearest of them, within the capture's span.
    fn would_have_been_seen(&self, way: Way, sent: i64) -> bool {
        let lane = &self.lanes[way as usize];
        let (near, far) = match way {
            Way::Out => (Point::Reference, Point::Monitor),
            Way::In => (Point::Monitor, Point::Reference),
        };
        let Some((first, last)) = self.span[far as usize] else { return false };
        let (first, last) = (self.common(far, first), self.common(far, last));
        let sent_common = self.common(near, sent);
        let (begun, ended) = match lane.matched_span {
            Some((from, to)) => (sent > from, sent < to),
            None => (false, false),
        };
        (begun || sent_common.saturating_add(lane.first_delay) >= first)
            && (ended || sent_common.saturating_add(lane.recent_delay) <= last)
    }

    /// Ends a group: all on one side is a plain loss or an unseen source; otherwise nobody can tell.
    fn dissolve(&mut self, way: Way, id: Identity, distrusted: bool, out: &mut impl Observer) {
        let Some(g) = self.groups.remove(&id) else { return };
        let ambiguous = distrusted || !g.seen[0].is_empty() && !g.seen[1].is_empty();
        for point in [Point::Reference, Point::Monitor] {
            for seen in &g.seen[point as usize] {
                if !ambiguous {
                    self.unmatched(way, point, *seen, out);
                    continue;
                }
                self.lanes[way as usize].counts.ambiguous += 1;
                if point == Point::Monitor {
                    self.resolve(seen.slot, Slot::Void, out);
                }
                if point.is_source(way) {
                    out.void(way, seen.seq);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
