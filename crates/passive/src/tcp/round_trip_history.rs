//! [`RoundTripHistory`]: the round trips of one direction's data, in bounded memory, and the moments at which
//! the path became longer or shorter. A queue grows and shrinks with the traffic; another path changes all round trips
//! at once, and they vary afterwards as they did before.

use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// Maximum number of groups of round trips. If it is reached, neighbouring groups are joined.
const MAX_GROUPS: usize = 128;
/// Number of groups on each side of a change that are compared with one another.
const COMPARED: usize = 4;
/// Smallest change that is reported, in ns. Hosts and access networks cause smaller ones.
const MIN_CHANGE: i64 = 3_000_000;
/// Shortest time for which the round trips stay on a level, in ns.
const MIN_LEVEL_TIME: i64 = 500_000_000;
/// Maximum number of changes of a direction.
const MAX_CHANGES: usize = 8;

/// Change of the smallest round trip from one lasting level to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTripChange {
    /// Time of the first round trip on the new level, in ns since 1970.
    pub at_ns: WallTime,
    /// Smallest round trip before the change, in ns.
    pub before_ns: Span,
    /// Smallest round trip after the change, in ns.
    pub after_ns: Span,
}

impl RoundTripChange {
    /// Returns the size of the change; positive if the path became longer.
    pub fn by(&self) -> Span {
        self.after_ns - self.before_ns
    }
}

/// Successive round trips.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Time of the first one.
    at: WallTime,
    /// Smallest one, in ns.
    least: i64,
    /// Sum, in ns, and number.
    sum: i64,
    count: u32,
}

impl Group {
    /// Adds the group that follows.
    fn join(&mut self, next: &Group) {
        self.least = self.least.min(next.least);
        self.sum = self.sum.saturating_add(next.sum);
        self.count += next.count;
    }

    /// Mean time above the smallest round trip of the level, in ns.
    fn above(&self, level: i64) -> i64 {
        (self.sum / i64::from(self.count.max(1))).saturating_sub(level)
    }
}

/// Round trips in the order in which they were measured.
#[derive(Debug)]
pub(super) struct RoundTripHistory {
    groups: Vec<Group>,
    /// Number of round trips per group.
    each: u32,
}

impl Default for RoundTripHistory {
    fn default() -> RoundTripHistory {
        RoundTripHistory { groups: Vec::new(), each: 1 }
    }
}

/// Returns the median of the values; 0 without any.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

impl RoundTripHistory {
    /// Adds a round trip of `rtt` ns that was measured at `at`.
    #[inline]
    pub(super) fn push(&mut self, at: WallTime, rtt: i64) {
        match self.groups.last_mut() {
            Some(last) if last.count < self.each => {
                last.least = last.least.min(rtt);
                last.sum = last.sum.saturating_add(rtt);
                last.count += 1;
            }
            _ => self.begin(Group { at, least: rtt, sum: rtt, count: 1 }),
        }
    }

    #[cold]
    fn begin(&mut self, group: Group) {
        if self.groups.len() == MAX_GROUPS {
            let pairs = self.groups.chunks(2).map(|pair| {
                let mut first = pair[0];
                pair[1..].iter().for_each(|next| first.join(next));
                first
            });
            self.groups = pairs.collect();
            self.each = self.each.saturating_mul(2);
        }
        self.groups.push(group);
    }

    /// Returns the changes of the path, in order of time.
    pub(super) fn changes(&self) -> Vec<RoundTripChange> {
        let mut places: Vec<usize> = Vec::new();
        let mut k = COMPARED;
        while k + COMPARED <= self.groups.len() && places.len() < MAX_CHANGES {
            if self.is_step(k) {
                places.push(k);
                k += COMPARED;
            } else {
                k += 1;
            }
        }
        // A level that is too short is a queue, and so is one whose round trips vary more than those of the lower level next
        // to it.
        let mut found = Vec::new();
        let mut begin = 0;
        for (n, place) in places.iter().enumerate() {
            let end = places.get(n + 1).copied().unwrap_or(self.groups.len());
            if let Some(change) = self.change(begin, *place, end) {
                found.push(change);
                begin = *place;
            }
        }
        found
    }

    /// True if the groups before and after `k` are on different levels.
    fn is_step(&self, k: usize) -> bool {
        let least = |from: usize, to: usize| self.groups[from..to].iter().map(|g| g.least);
        let bounds = |from: usize, to: usize| {
            least(from, to).fold((i64::MAX, i64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (before, after) = (bounds(k - COMPARED, k), bounds(k, k + COMPARED));
        // Distance between the levels, and the larger variation within one of them.
        let apart = (after.0.saturating_sub(before.1)).max(before.0.saturating_sub(after.1));
        let spread = (before.1 - before.0).max(after.1 - after.0);
        apart >= MIN_CHANGE && apart / 2 >= spread
    }

    /// Returns the change between the groups from `begin` on and those from `place` to `end`; `None` if the two levels
    /// do not last, or if the higher one is that of a queue.
    fn change(&self, begin: usize, place: usize, end: usize) -> Option<RoundTripChange> {
        let levels = [begin..place, place..end].map(|range| self.groups.get(range).unwrap_or_default());
        let [before, after] = levels;
        let since = |groups: &[Group], to: WallTime| groups.first().map_or(0, |g| (to - g.at).0);
        let [from, to] = [before, after].map(|groups| groups.first().map(|g| g.at));
        let last = self.groups.get(end).or(self.groups.last())?.at;
        if since(before, to?) < MIN_LEVEL_TIME || since(after, last) < MIN_LEVEL_TIME || from.is_none() {
            return None;
        }
        let least = |groups: &[Group]| groups.iter().map(|g| g.least).min();
        let (low, high) = (least(before)?, least(after)?);
        let change = RoundTripChange { at_ns: to?, before_ns: Span(low), after_ns: Span(high) };
        let size = change.by().0.saturating_abs();
        let usual = |groups: &[Group], level: i64| median(groups.iter().map(|g| g.above(level)).collect());
        let [of_before, of_after] = [usual(before, low), usual(after, high)];
        let (near, far) = if high > low { (of_before, of_after) } else { (of_after, of_before) };
        // A change of the path is reported only if no round trip of the longer path is near the level of the shorter one, and if
        // the round trips of the longer path vary little more than the others.
        let returns = |groups: &[Group]| {
            groups.iter().any(|g| g.least.saturating_sub(if high > low { low } else { high }) < size / 2)
        };
        let longer = if high > low { after } else { before };
        let is_queue = far > near.saturating_mul(2).max(size / 4);
        (size >= MIN_CHANGE && !is_queue && !returns(longer)).then_some(change)
    }

    /// Returns the median, over time, of the mean time in ns that round trips take above the smallest of their level.
    /// `changes` are the changes of the level.
    pub(super) fn above_levels(&self, changes: &[RoundTripChange]) -> i64 {
        let level = |g: &Group| {
            let next = changes.iter().rev().find(|change| change.at_ns <= g.at);
            next.map(|change| change.after_ns).or(changes.first().map(|change| change.before_ns))
        };
        median(self.groups.iter().filter_map(|g| Some(g.above(level(g)?.0))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MS;
    use jitlat_core::time::SECOND;

    /// Returns the changes of `n` round trips, one every `every` ns.
    fn of(n: i64, every: i64, rtt: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
        let mut history = RoundTripHistory::default();
        (0..n).for_each(|k| history.push(WallTime(k * every), rtt(k)));
        assert!(history.groups.len() <= MAX_GROUPS);
        history.changes().iter().map(|c| (c.at_ns.0 / SECOND, c.by().0 / MS)).collect()
    }

    /// Jitter of up to 2 ms.
    fn jitter(k: i64) -> i64 {
        k * 7919 % 2000 * 1000
    }

    #[test]
    fn a_path_that_becomes_longer_or_shorter_is_found() {
        for n in [60, 300, 5000] {
            let every = 30 * SECOND / n;
            let third = |k: i64, by: i64| if k < n / 3 { 0 } else { by };
            for by in [10, 30, 200] {
                let found = of(n, every, |k| 20 * MS + jitter(k) + third(k, by * MS));
                assert!(
                    matches!(found[..], [(9..=10, size)] if (size - by).abs() <= 2),
                    "{n} {by}: {found:?}"
                );
                let found = of(n, every, |k| 250 * MS + jitter(k) - third(k, by * MS));
                assert!(
                    matches!(found[..], [(9..=10, size)] if (size + by).abs() <= 2),
                    "{n} {by}: {found:?}"
                );
            }
            assert_eq!(of(n, every, |k| 20 * MS + jitter(k)), []);
        }
        // The path becomes longer, and then as short as before.
        let found =
            of(600, 50 * MS, |k| 20 * MS + jitter(k) + if (200..400).contains(&k) { 40 * MS } else { 0 });
        assert!(matches!(found[..], [(9..=10, 38..=42), (19..=20, -42..=-38)]), "{found:?}");
    }

    #[test]
    fn queues_are_no_other_paths() {
        let queues: [fn(i64) -> i64; 5] = [
            // Queues that fill slowly or repeatedly, many short queues, one that varies, and a single short one.
            |k| (k * MS / 4).min(80 * MS),
            |k| k % 100 * MS,
            |k| if k % 40 < 10 { 50 * MS } else { 0 },
            |k| if k < 200 { 0 } else { 30 * MS + k * 7919 % 60 * MS },
            |k| if (200..212).contains(&k) { 50 * MS } else { 0 },
        ];
        for (n, queue) in queues.into_iter().enumerate() {
            assert_eq!(of(600, 50 * MS, |k| 20 * MS + jitter(k) + queue(k)), [], "{n}");
        }
    }

    #[test]
    fn the_rest_is_what_a_queue_adds_to_either_level() {
        let mut history = RoundTripHistory::default();
        let rtt = |k: i64| 20 * MS + if k < 100 { 0 } else { 50 * MS } + k % 5 * MS;
        (0..300).for_each(|k| history.push(WallTime(k * 50 * MS), rtt(k)));
        let changes = history.changes();
        assert_eq!(changes.len(), 1);
        assert!((MS..=3 * MS).contains(&history.above_levels(&changes)));
    }
}
