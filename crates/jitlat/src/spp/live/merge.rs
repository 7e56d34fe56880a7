//! [`Merger`]: sightings of both points in common time, as far as both have come.

use crate::spp::hearing::Hearing;
use jitlat_core::passive::{MatchCounts, Matcher, Point, Sighting, Way};
use jitlat_core::time::{Span, WallTime};
use std::collections::VecDeque;

/// Sightings of one point that may wait for the other; beyond it they are joined without.
const WAITING: usize = 1 << 20;
/// Sightings joined between two looks at the pairs they made.
const ROUND: usize = 4096;

const POINTS: [Point; 2] = [Point::Reference, Point::Monitor];

pub struct Merger {
    matcher: Matcher,
    waiting: [VecDeque<Sighting>; 2],
    /// From and up to which time each point has delivered everything.
    covered: [Option<(WallTime, WallTime)>; 2],
    /// What each point delivered before this time is not all held any more.
    begins: [WallTime; 2],
}

impl Merger {
    pub fn new(matcher: Matcher) -> Merger {
        Merger { matcher, waiting: Default::default(), covered: [None; 2], begins: [WallTime(i64::MIN); 2] }
    }

    /// Nothing that a point delivered before its time of `begins` counts as covered.
    pub fn beginning(self, begins: [WallTime; 2]) -> Merger {
        Merger { begins, ..self }
    }

    /// Takes a sighting; those of one point come nearly in order.
    pub fn push(&mut self, point: usize, s: Sighting) {
        let queue = &mut self.waiting[point];
        if queue.back().is_none_or(|b| b.at <= s.at) {
            queue.push_back(s);
        } else {
            let i = queue.partition_point(|w| w.at <= s.at);
            queue.insert(i, s);
        }
    }

    /// Notes that a point has delivered everything from the one time to the other.
    pub fn covers(&mut self, point: usize, from: WallTime, to: WallTime) {
        let from = from.max(self.begins[point]);
        if to < from {
            return;
        }
        self.matcher.covers(POINTS[point], from);
        self.matcher.covers(POINTS[point], to);
        self.covered[point] = Some(self.covered[point].map_or((from, to), |(a, b)| (a, b.max(to))));
    }

    /// Joins what both points have come past.
    pub fn release(&mut self, hearing: &mut Hearing) {
        let offset = self.matcher.offset();
        let (start, horizon) = match self.covered {
            [Some(r), Some(m)] => (r.0.max(m.0 - offset), r.1.min(m.1 - offset)),
            _ => (WallTime(i64::MIN), WallTime(i64::MIN)),
        };
        while let Some((point, common)) = self.first() {
            if common > horizon && self.waiting.iter().all(|w| w.len() <= WAITING) {
                break;
            }
            // What only one of them can have seen would be waited for in vain.
            if common < start {
                self.waiting[point].pop_front();
                continue;
            }
            self.join(point, hearing);
        }
        if horizon.0 > i64::MIN {
            self.matcher.advance(horizon, hearing);
        }
    }

    /// The point whose sighting is next, and its common time.
    fn first(&self) -> Option<(usize, WallTime)> {
        let offset: Span = self.matcher.offset();
        let [r, m] = [0, 1].map(|p| self.waiting[p].front().map(|s| s.at));
        match (r, m.map(|m| m - offset)) {
            (Some(r), Some(m)) => Some(if r <= m { (0, r) } else { (1, m) }),
            (Some(r), None) => Some((0, r)),
            (None, m) => m.map(|m| (1, m)),
        }
    }

    fn join(&mut self, point: usize, hearing: &mut Hearing) {
        if let Some(s) = self.waiting[point].pop_front() {
            self.matcher.push(POINTS[point], s, hearing);
        }
    }

    /// Joins everything and settles what is open; `print` is called now and then.
    pub fn finish(mut self, hearing: &mut Hearing, mut print: impl FnMut(&mut Hearing)) -> [MatchCounts; 2] {
        let mut joined = 0;
        while let Some((point, _)) = self.first() {
            self.join(point, hearing);
            joined += 1;
            if joined % ROUND == 0 {
                print(hearing);
            }
        }
        self.matcher.finish(hearing);
        print(hearing);
        Way::BOTH.map(|w| self.matcher.counts(w))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::passive::Estimator;

    fn hearing() -> Hearing {
        let estimator = Estimator::new(Span::seconds(1), None);
        Hearing { estimator, streams: None, flows: None, trace: None }
    }

    fn sighting(at: i64, id: u64, way: Way) -> Sighting {
        Sighting { at: WallTime(at * 1_000_000), id, length: 100, way, flow: 0 }
    }

    #[test]
    fn what_one_point_no_longer_holds_is_not_lost() {
        let mut hearing = hearing();
        let matcher = Matcher::new(Span::ZERO, Span::seconds(1));
        let mut merger = Merger::new(matcher).beginning([WallTime(i64::MIN), WallTime(30_000_000)]);
        for id in 10..50 {
            merger.push(0, sighting(id as i64, id, Way::Out));
        }
        for id in 30..50 {
            merger.push(1, sighting(id as i64 + 1, id, Way::Out));
        }
        [0, 1].into_iter().for_each(|point| merger.covers(point, WallTime(0), WallTime(100_000_000)));
        merger.release(&mut hearing);
        let counts = merger.finish(&mut hearing, |_| ());
        assert_eq!((counts[0].matched, counts[0].lost), (20, 0));
    }

    #[test]
    fn a_pair_is_made_when_both_points_have_come_past_it_and_not_before() {
        let mut hearing = hearing();
        let mut m = Merger::new(Matcher::new(Span::ZERO, Span::seconds(5)));
        m.covers(0, WallTime(0), WallTime(100_000_000));
        // The monitor is late with everything, and a little out of order.
        for (point, at, id, way) in
            [(0, 10, 1, Way::Out), (0, 50, 2, Way::In), (1, 35, 2, Way::In), (1, 20, 1, Way::Out)]
        {
            m.push(point, sighting(at, id, way));
        }
        m.release(&mut hearing);
        assert_eq!(hearing.take_pairs().count(), 0);
        m.covers(1, WallTime(0), WallTime(100_000_000));
        m.release(&mut hearing);
        let rtts: Vec<_> = hearing.take_pairs().map(|e| e.pair.rtt().0 / 1_000_000).collect();
        assert_eq!(rtts, [25]);
        let counts = m.finish(&mut hearing, |_| ());
        assert_eq!(counts.map(|c| (c.matched, c.lost)), [(1, 0), (1, 0)]);
    }

    #[test]
    fn a_silent_point_does_not_fill_the_memory() {
        let mut hearing = hearing();
        let mut m = Merger::new(Matcher::new(Span::ZERO, Span::seconds(5)).with_capacity(1000));
        for i in 0..WAITING as i64 + 1000 {
            m.push(0, sighting(i, i as u64, Way::Out));
            if i % 1000 == 0 {
                m.covers(0, WallTime(0), WallTime(i * 1_000_000));
                m.release(&mut hearing);
            }
        }
        m.release(&mut hearing);
        assert!(m.waiting[0].len() <= WAITING);
    }
}
