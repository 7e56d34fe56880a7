//! [`InOrder`]: sorts slightly disordered sightings of one point by its clock.

use super::Sighting;

/// Largest disorder that is corrected, in ns: capture queues of several processors, merged files.
const MAX_DISORDER_NS: i64 = 50_000_000;
/// Size of a step back, in ns, above which the clock is assumed to have been set; smaller steps are disorder.
const MIN_CLOCK_STEP_NS: i64 = 1_000_000_000;
/// Maximum number of sightings stored.
const MAX_HELD: usize = 1 << 16;

/// Holds sightings for at least 50 ms and releases them in (time, arrival) order, many at a time.
#[derive(Debug, Default)]
pub struct InOrder {
    held: Vec<Sighting>,
    /// Number of sightings in `held` from before the clock was last set back; they are complete and in order.
    past: usize,
    /// True if the sightings after `past` may be out of order.
    mixed: bool,
    /// Latest time since the clock was last set back.
    newest: i64,
    /// True to release sightings as they arrive, without sorting.
    unsorted: bool,
    disordered: u64,
    steps_back: u64,
}

impl InOrder {
    /// Creates a buffer that releases sightings at once and unsorted, for callers that need the order of the capture.
    pub fn as_they_come() -> InOrder {
        InOrder { unsorted: true, ..InOrder::default() }
    }

    /// Adds one sighting.
    #[inline]
    pub fn push(&mut self, s: Sighting) {
        if s.at.0 < self.newest && !self.held.is_empty() && !self.unsorted {
            self.note_disorder(s.at.0);
        } else {
            self.newest = s.at.0;
        }
        self.held.push(s);
    }

    /// Notes that the next sighting is earlier than one that is held.
    #[cold]
    fn note_disorder(&mut self, at: i64) {
        if self.newest.saturating_sub(at) > MIN_CLOCK_STEP_NS {
            self.steps_back += 1;
            self.sort();
            self.past = self.held.len();
            self.newest = at;
        } else {
            self.disordered += 1;
            self.mixed = true;
        }
    }

    /// Sorts the held sightings; a stable sort is fast for nearly sorted data.
    fn sort(&mut self) {
        if std::mem::take(&mut self.mixed) {
            self.held[self.past..].sort_by_key(|s| s.at);
        }
    }

    /// Number of stored sightings, including those that are ready for release.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Releases the sightings that no later one can precede. `room` must be empty; it becomes the buffer for
    /// the rest.
    pub fn take(&mut self, mut room: Vec<Sighting>) -> Vec<Sighting> {
        self.sort();
        let newest = self.held.last().map_or(0, |l| l.at.0);
        let ripe = |h: &Sighting| newest.saturating_sub(h.at.0) > MAX_DISORDER_NS;
        let n = match self.unsorted {
            true => self.held.len(),
            false => self.past + self.held[self.past..].partition_point(ripe),
        };
        let n = n.max(self.held.len().saturating_sub(MAX_HELD));
        room.extend_from_slice(&self.held[n..]);
        self.held.truncate(n);
        self.past = 0;
        core::mem::replace(&mut self.held, room)
    }

    /// Releases all stored sightings.
    pub fn finish(&mut self) -> Vec<Sighting> {
        self.sort();
        self.past = 0;
        core::mem::take(&mut self.held)
    }

    /// Number of sightings that arrived after a sighting with a later time.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }

    /// Number of times the capture's clock was set back by more than a second.
    pub fn steps_back(&self) -> u64 {
        self.steps_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::Direction;
    use jitlat_core::time::WallTime;

    fn run(times: &[i64]) -> (Vec<i64>, InOrder) {
        let mut order = InOrder::default();
        let mut out = Vec::new();
        for (i, t) in times.iter().enumerate() {
            let s = Sighting {
                at: WallTime(t * 1_000_000),
                id: i as u64,
                length: 0,
                direction: Direction::Up,
                flow: 0,
            };
            order.push(s);
            out.extend(order.take(Vec::new()));
        }
        out.extend(order.finish());
        (out.iter().map(|s| s.at.0 / 1_000_000).collect(), order)
    }

    #[test]
    fn neighbours_out_of_order_are_put_right() {
        let (out, order) = run(&[1, 3, 2, 2, 5, 4, 60, 200, 190]);
        assert_eq!(out, [1, 2, 2, 3, 4, 5, 60, 190, 200]);
        assert_eq!((order.disordered(), order.steps_back()), (4, 0));
    }

    #[test]
    fn a_clock_set_back_starts_over() {
        let (out, order) = run(&[10_000, 10_001, 5_000, 5_001]);
        assert_eq!(out, [10_000, 10_001, 5_000, 5_001]);
        assert_eq!(order.steps_back(), 1);
        let mut held = InOrder::default();
        let at = |t: i64| Sighting {
            at: WallTime(t * 1_000_000),
            id: 0,
            length: 0,
            direction: Direction::Up,
            flow: 0,
        };
        [10_000, 10_001, 5_003, 5_001, 5_002].into_iter().for_each(|t| held.push(at(t)));
        let out: Vec<_> = held.finish().iter().map(|s| s.at.0 / 1_000_000).collect();
        assert_eq!(out, [10_000, 10_001, 5_001, 5_002, 5_003]);
    }

    #[test]
    fn the_bounds_of_order() {
        // Sightings are held for 50 ms, a step back of a second is still disorder, and equal times are in
        // order.
        let mut order = InOrder::default();
        let at = |t: i64| Sighting { at: WallTime(t), id: 0, length: 0, direction: Direction::Up, flow: 0 };
        [0, 1, MAX_DISORDER_NS, MAX_DISORDER_NS].into_iter().for_each(|t| order.push(at(t)));
        assert!(order.take(Vec::new()).is_empty());
        order.push(at(MAX_DISORDER_NS + 1));
        assert_eq!((order.take(Vec::new()).len(), order.held(), order.disordered()), (1, 4, 0));
        order.push(at(MAX_DISORDER_NS + 1 - MIN_CLOCK_STEP_NS));
        assert_eq!((order.disordered(), order.steps_back()), (1, 0));
        order.push(at(MAX_DISORDER_NS - MIN_CLOCK_STEP_NS));
        assert_eq!((order.disordered(), order.steps_back()), (1, 1));
        // Sightings from before the step are released unchanged, regardless of their times, and the rest is held.
        assert_eq!((order.take(Vec::new()).len(), order.held()), (5, 1));
    }

    #[test]
    fn as_they_come_means_so() {
        let mut order = InOrder::as_they_come();
        let at = |t: i64| Sighting { at: WallTime(t), id: 0, length: 0, direction: Direction::Up, flow: 0 };
        [3, 1, 2].into_iter().for_each(|t| order.push(at(t)));
        assert_eq!(order.take(Vec::new()).iter().map(|s| s.at.0).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!((order.held(), order.disordered()), (0, 0));
    }

    #[test]
    fn the_worst_order_is_sorted_in_no_time() {
        // Each belongs before all held sightings except the first.
        let mut order = InOrder::default();
        let n = 200_000;
        for id in 0..n {
            let at = WallTime(if id == 0 { 900_000_000 } else { 900_000_000 - id as i64 });
            order.push(Sighting { at, id, length: 0, direction: Direction::Up, flow: 0 });
        }
        let all = order.finish();
        assert!(all.is_sorted_by_key(|s| s.at) && all.len() as u64 == n);
        assert_eq!(order.disordered(), n - 1);
    }

    #[test]
    fn time_that_stands_still_holds_a_bounded_number() {
        let mut order = InOrder::default();
        let mut gone = 0;
        for id in 0..200_000 {
            order.push(Sighting { at: WallTime(7), id, length: 0, direction: Direction::Up, flow: 0 });
            if id % 50_000 == 49_999 {
                gone += order.take(Vec::new()).len();
            }
        }
        assert_eq!((order.held(), gone), (MAX_HELD, 200_000 - MAX_HELD));
    }
}
