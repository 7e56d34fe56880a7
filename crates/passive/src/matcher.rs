//! [`Matcher`]: a windowed join of the sightings at two points, O(1) per packet.
//!
//! The caller adds the sightings of both points merged in (roughly) common time. An identity seen once at each point
//! within the window is one matched packet. An identity seen k times at both is matched in order. An identity seen a
//! different number of times is ambiguous: its sightings are counted and dropped, never guessed. An identity that
//! repeats often is ignored until it has not been seen for a window. A packet without a partner within the window was
//! lost if the other capture covered the time at which it should have arrived.

mod matches;

use super::sighting::MAX_COPY_GAP_NS;
use super::{CapturePart, CapturePoint, Identity, Record, Sighting};
use core::hash::{BuildHasherDefault, Hasher};
use jitlat_core::spec::Direction;
use jitlat_core::time::{SECOND, Span, WallTime};
pub use matches::MatchCounts;
use matches::{MatchedSource, Matches, OpenSighting};
use std::collections::hash_map::Entry as NameSlot;
use std::collections::{HashMap, VecDeque};

/// Time for which a matched identity is remembered, so that a duplicate is recognised, in ns.
const MATCHED_LINGER: i64 = SECOND / 20;
/// Maximum number of sightings of one identity at one point within the window; more cannot be distinguished.
const MAX_EQUAL_NAMES: usize = 8;
/// Number of matches between two updates of the clock offset.
const MATCHES_PER_UPDATE: u32 = 1024;
/// Maximum number of sightings stored; beyond that, the oldest are given up before their window ends.
const MAX_SIGHTINGS: usize = 4 << 20;

/// Receives the result for each packet: matched, arrived, lost or not counted.
pub trait MatchObserver {
    /// Receives the next matched packet, in the order of the monitor's sightings.
    fn record(&mut self, _: Record) {}
    /// Receives a packet that was seen at both points. `copy`: the packet is a duplicate made by the network.
    /// `seq`: number of the sighting at the packet's source point, from 0 per direction.
    fn arrived(&mut self, _seq: u64, _: Record, _copy: bool) {}
    /// Receives a loss: the packet of source sighting `seq` did not arrive.
    fn lost(&mut self, _direction: Direction, _seq: u64, _sent: WallTime, _flow: u32) {}
    /// Receives a packet that does not count: its source sighting `seq` is ambiguous, or outside the time that both
    /// captures cover.
    fn void(&mut self, _direction: Direction, _seq: u64) {}
}

/// Passes the identity through, because it is already a hash.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("an identity is one number")
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

type NameTable<T> = HashMap<Identity, T, BuildHasherDefault<IdentityHasher>>;

#[derive(Clone, Copy, Debug)]
enum NameState {
    /// The identity was seen at one point, and not yet at the other.
    Waiting(CapturePoint, OpenSighting),
    /// The identity was seen at both points: the source sighting, and the time of the latest sighting at the far point,
    /// on that point's clock.
    Matched { source: MatchedSource, last: i64 },
    /// The identity was seen more than once at a point; its sightings are in `groups`.
    Group,
    /// The identity repeats too often to be used.
    Distrusted,
    /// Settled: the identity now belongs to another packet, or to none.
    Gone,
}

/// An identity and its state. The size (64 bytes) matters, because all entries of a window are in memory.
#[derive(Clone, Copy, Debug)]
struct NameEntry {
    id: Identity,
    state: NameState,
    /// Time of the first sighting, in common time.
    born: i64,
    /// Time of the latest sighting, in common time.
    touched: i64,
    direction: Direction,
}

/// Location of an identity's entry, by the entry's number in a queue.
#[derive(Clone, Copy, Debug)]
enum QueuePosition {
    Young(u32),
    Old(u32),
}

/// Entries in the order of their creation, with consecutive 32-bit numbers. Wrapping is harmless: far fewer
/// than 2³² entries are stored at a time.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<NameEntry>,
    /// Number of the first entry.
    first: u32,
}

impl Queue {
    /// Adds an entry; returns its number.
    #[inline]
    fn push(&mut self, e: NameEntry) -> u32 {
        let n = self.first.wrapping_add(self.entries.len() as u32);
        self.entries.push_back(e);
        n
    }

    #[inline]
    fn get_mut(&mut self, number: u32) -> Option<&mut NameEntry> {
        self.entries.get_mut(number.wrapping_sub(self.first) as usize)
    }

    /// Removes and returns the oldest entry if it was born before `limit`.
    #[inline]
    fn pop_before(&mut self, limit: i64) -> Option<NameEntry> {
        self.entries.front().filter(|e| e.born < limit)?;
        self.pop()
    }

    fn pop(&mut self) -> Option<NameEntry> {
        self.first = self.first.wrapping_add(u32::from(!self.entries.is_empty()));
        self.entries.pop_front()
    }
}

#[derive(Debug, Default)]
struct SightingGroup {
    seen: [Vec<OpenSighting>; 2],
}

/// Joins the sightings of two points; see the module's documentation.
#[derive(Debug)]
pub struct Matcher {
    window: i64,
    now: i64,
    /// Known identities; none of their entries is `Gone`.
    table: NameTable<QueuePosition>,
    /// Recent entries, stored roughly in the order of their next use, because lookups in the table are scattered in
    /// memory.
    young: Queue,
    /// Entries of identities that are not matched soon, or that repeat.
    old: Queue,
    groups: NameTable<SightingGroup>,
    matches: Matches,
    capacity: usize,
}

/// Reason why an identity is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettleReason {
    /// The window of the identity is over, or both captures have ended.
    Expired,
    /// The memory limit is reached.
    GivenUp,
    /// The identity repeats too often.
    Distrusted,
}

impl Matcher {
    /// Creates a matcher for clocks that differ by about `offset` (monitor − reference). A packet may take up
    /// to `window`.
    pub fn new(offset: Span, window: Span) -> Matcher {
        Matcher {
            window: window.0.max(1),
            now: i64::MIN,
            table: NameTable::default(),
            young: Queue::default(),
            old: Queue::default(),
            groups: NameTable::default(),
            matches: Matches::new(offset.0),
            capacity: MAX_SIGHTINGS,
        }
    }

    /// Sets the capacity to `sightings` instead of four million.
    pub fn with_capacity(self, sightings: usize) -> Matcher {
        Matcher { capacity: sightings.max(2), ..self }
    }

    /// Counts only sightings in `part`, and takes the time spans of the whole captures from `part`.
    pub fn of_part(mut self, part: CapturePart) -> Matcher {
        for (point, span) in [CapturePoint::Reference, CapturePoint::Monitor].into_iter().zip(part.spans) {
            if let Some((first, last)) = span {
                self.covers(point, first);
                self.covers(point, last);
            }
        }
        self.matches.part = Some(part);
        self
    }

    /// Returns monitor clock minus reference clock, estimated from the smallest raw delays of both directions.
    /// The error is half the path's asymmetry: use it to merge the two streams, not in reports.
    pub fn offset(&self) -> Span {
        Span(self.matches.offset)
    }

    /// Counts of the packets in one direction so far.
    pub fn counts(&self, direction: Direction) -> MatchCounts {
        self.matches.directions[direction as usize].counts
    }

    /// Records that a point's capture covers the time `at`.
    pub fn covers(&mut self, point: CapturePoint, at: WallTime) {
        self.matches.covers(point, at.0);
    }

    /// Records that a point's capture dropped packets between `from` and `to`. Whether packets missing in that period
    /// were lost is then unknown.
    pub fn drops(&mut self, point: CapturePoint, from: WallTime, to: WallTime) {
        self.matches.drops(point, from.0, to.0);
    }

    /// Adds one sighting. Sightings of one point must be in approximate order of its clock; the points are
    /// merged by (reference time, monitor time − [`Self::offset`]).
    #[inline]
    pub fn push(&mut self, point: CapturePoint, s: Sighting, out: &mut impl MatchObserver) {
        self.covers(point, s.at);
        let common = self.matches.common(point, s.at.0);
        if common > self.now {
            self.now = common;
            self.expire(out);
        }
        // The two usual cases: a new name, and the other point's sighting of a waiting packet.
        match self.table.entry(s.id) {
            NameSlot::Vacant(v) => {
                let state = NameState::Waiting(point, self.matches.register(point, &s));
                let e = NameEntry { id: s.id, state, born: common, touched: common, direction: s.direction };
                v.insert(QueuePosition::Young(self.young.push(e)));
            }
            NameSlot::Occupied(o) => {
                let position = *o.get();
                // Every name in the table has an entry.
                let Some(state) = self.entry(position).map(|e| e.state) else { return };
                let state = match state {
                    NameState::Waiting(p, other) if p != point => {
                        let seen = self.matches.register(point, &s);
                        let (source, arrival) =
                            if p.is_source(s.direction) { (other, seen) } else { (seen, other) };
                        self.matches.matched(s.direction, source, arrival, out);
                        NameState::Matched { source: MatchedSource::of(&source), last: arrival.at }
                    }
                    _ => self.again(point, s, state, out),
                };
                if let Some(e) = self.entry(position) {
                    e.state = state;
                    e.touched = common;
                }
                if matches!(state, NameState::Gone) {
                    self.fresh(point, s, common);
                }
            }
        }
        // A sighting adds at most one entry, so giving up one is enough.
        if self.held() > self.capacity {
            self.give_up_oldest(out);
        }
        if self.matches.slots.len() > self.capacity {
            self.matches.pass_over_first(out);
        }
    }

    fn entry(&mut self, position: QueuePosition) -> Option<&mut NameEntry> {
        match position {
            QueuePosition::Young(n) => self.young.get_mut(n),
            QueuePosition::Old(n) => self.old.get_mut(n),
        }
    }

    /// Number of entries in memory, including settled ones whose window is not over.
    fn held(&self) -> usize {
        self.young.entries.len() + self.old.entries.len()
    }

    /// Advances the common time to `at` without a packet and settles overdue identities, so that results of a live
    /// capture are not delayed until the next packet.
    pub fn advance(&mut self, at: WallTime, out: &mut impl MatchObserver) {
        if at.0 > self.now {
            self.now = at.0;
            self.expire(out);
        }
    }

    /// Settles all remaining identities after both captures have ended.
    pub fn finish(&mut self, out: &mut impl MatchObserver) {
        while let Some(e) = self.old.pop().or_else(|| self.young.pop()) {
            self.settle(e, SettleReason::Expired, out);
        }
        self.matches.release(out);
    }

    fn fresh(&mut self, point: CapturePoint, s: Sighting, common: i64) {
        let state = NameState::Waiting(point, self.matches.register(point, &s));
        let e = NameEntry { id: s.id, state, born: common, touched: common, direction: s.direction };
        self.table.insert(s.id, QueuePosition::Young(self.young.push(e)));
    }

    /// Handles a sighting that is neither the first of its identity nor the partner of the first; returns the new state
    /// of the identity.
    fn again(
        &mut self,
        point: CapturePoint,
        s: Sighting,
        state: NameState,
        out: &mut impl MatchObserver,
    ) -> NameState {
        let near = |last: i64| s.at.0.saturating_sub(last).saturating_abs() <= MAX_COPY_GAP_NS;
        match state {
            NameState::Waiting(_, seen) => {
                if near(seen.at) {
                    self.matches.directions[s.direction as usize].counts.captured_twice +=
                        self.matches.one(point, s.at.0);
                    return state;
                }
                let mut g = SightingGroup::default();
                g.seen[point as usize] = vec![seen, self.matches.register(point, &s)];
                self.groups.insert(s.id, g);
                NameState::Group
            }
            NameState::Matched { source, last } => {
                if near(if point.is_source(s.direction) { source.at } else { last }) {
                    self.matches.directions[s.direction as usize].counts.captured_twice +=
                        self.matches.one(point, s.at.0);
                    return state;
                }
                if point.is_source(s.direction) {
                    // A new packet with the same name: the old one is settled.
                    return NameState::Gone;
                }
                // Seen again only at the far point: the network duplicated the packet.
                self.matches.copied(point, &s, source, out);
                NameState::Matched { source, last: s.at.0 }
            }
            NameState::Group => self.regroup(point, s, out),
            NameState::Distrusted => {
                let one = self.matches.one(point, s.at.0);
                let counts = &mut self.matches.directions[s.direction as usize].counts;
                match point {
                    CapturePoint::Reference => counts.seen_at_reference += one,
                    CapturePoint::Monitor => counts.seen_at_monitor += one,
                }
                counts.ambiguous += one;
                NameState::Distrusted
            }
            NameState::Gone => NameState::Gone,
        }
    }

    /// Handles a further sighting of an identity that was already seen several times.
    fn regroup(&mut self, point: CapturePoint, s: Sighting, out: &mut impl MatchObserver) -> NameState {
        let last = self.groups.get(&s.id).and_then(|g| g.seen[point as usize].last()).map(|l| l.at);
        if last.is_some_and(|l| s.at.0.saturating_sub(l).saturating_abs() <= MAX_COPY_GAP_NS) {
            self.matches.directions[s.direction as usize].counts.captured_twice +=
                self.matches.one(point, s.at.0);
            return NameState::Group;
        }
        let seen = self.matches.register(point, &s);
        let g = self.groups.entry(s.id).or_default();
        g.seen[point as usize].push(seen);
        let (here, there) = (g.seen[point as usize].len(), g.seen[1 - point as usize].len());
        // Equally many at both points: match them in order.
        if here == there {
            let g = self.groups.remove(&s.id).unwrap_or_default();
            for (r, m) in g.seen[0].iter().zip(&g.seen[1]) {
                match s.direction {
                    Direction::Up => self.matches.matched(s.direction, *r, *m, out),
                    Direction::Down => self.matches.matched(s.direction, *m, *r, out),
                }
            }
            let [source, arrival] =
                [s.direction as usize, 1 - s.direction as usize].map(|p| g.seen[p].last().unwrap_or(&seen));
            NameState::Matched { source: MatchedSource::of(source), last: arrival.at }
        } else if here > MAX_EQUAL_NAMES {
            // The name repeats too often to distinguish its packets.
            self.dissolve(s.direction, s.id, SettleReason::Distrusted, out);
            NameState::Distrusted
        } else {
            NameState::Group
        }
    }

    fn expire(&mut self, out: &mut impl MatchObserver) {
        let now = self.now;
        while let Some(e) = self.young.pop_before(now.saturating_sub(MATCHED_LINGER)) {
            self.outgrow(e);
        }
        let limit = now.saturating_sub(self.window);
        while let Some(e) = self.old.pop_before(limit) {
            if matches!(e.state, NameState::Group | NameState::Distrusted) && e.touched >= limit {
                // The name still repeats: observe it for another window.
                self.keep(NameEntry { born: now, ..e });
            } else {
                self.settle(e, SettleReason::Expired, out);
            }
        }
    }

    /// Handles an entry that leaves the young queue: removes it if it was matched some time ago, otherwise
    /// moves it to the old queue for the rest of its window.
    #[inline]
    fn outgrow(&mut self, e: NameEntry) {
        match e.state {
            NameState::Gone => {}
            NameState::Matched { .. } if self.now.saturating_sub(e.touched) > MATCHED_LINGER / 10 => {
                self.table.remove(&e.id);
            }
            _ => self.keep(e),
        }
    }

    fn keep(&mut self, e: NameEntry) {
        self.table.insert(e.id, QueuePosition::Old(self.old.push(e)));
    }

    fn give_up_oldest(&mut self, out: &mut impl MatchObserver) {
        if let Some(e) = self.old.pop().or_else(|| self.young.pop()) {
            self.settle(e, SettleReason::GivenUp, out);
        }
    }

    /// Settles an identity.
    fn settle(&mut self, e: NameEntry, why: SettleReason, out: &mut impl MatchObserver) {
        if matches!(e.state, NameState::Gone) {
            return;
        }
        self.table.remove(&e.id);
        match e.state {
            NameState::Waiting(p, seen) if why == SettleReason::GivenUp => {
                self.matches.directions[e.direction as usize].counts.given_up += self.matches.one(p, seen.at);
                self.matches.void(e.direction, p, seen, out);
            }
            NameState::Waiting(p, seen) => self.matches.unmatched(e.direction, p, seen, out),
            NameState::Group => self.dissolve(e.direction, e.id, why, out),
            NameState::Matched { .. } | NameState::Distrusted | NameState::Gone => {}
        }
    }

    /// Ends a group. If all sightings are at one point, they are lost packets or packets not seen at their source;
    /// otherwise the identity is ambiguous.
    fn dissolve(
        &mut self,
        direction: Direction,
        id: Identity,
        why: SettleReason,
        out: &mut impl MatchObserver,
    ) {
        let Some(g) = self.groups.remove(&id) else { return };
        let one_sided = g.seen[0].is_empty() || g.seen[1].is_empty();
        for point in [CapturePoint::Reference, CapturePoint::Monitor] {
            for seen in &g.seen[point as usize] {
                let one = self.matches.one(point, seen.at);
                let counts = &mut self.matches.directions[direction as usize].counts;
                match why {
                    SettleReason::Expired if one_sided => {
                        self.matches.unmatched(direction, point, *seen, out);
                        continue;
                    }
                    SettleReason::GivenUp => counts.given_up += one,
                    SettleReason::Expired | SettleReason::Distrusted => counts.ambiguous += one,
                }
                self.matches.void(direction, point, *seen, out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
