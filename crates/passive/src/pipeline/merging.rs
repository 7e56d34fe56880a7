//! [`Merger`]: merges the sightings of two live points in common time, up to the time for which both points
//! have delivered everything.

use crate::matcher::MatchObserver;
use crate::{CapturePoint, MatchCounts, Matcher, Sighting, TimeQueue};
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};

/// Maximum number of sightings of one point that wait for the other; beyond that they are matched without
/// waiting.
const MAX_WAITING: usize = 1 << 20;
/// Number of sightings joined between two calls of `after_round`.
const SIGHTINGS_PER_ROUND: usize = 4096;

/// Holds the sightings of one point until the other point has delivered up to the same time.
pub struct Merger {
    matcher: Matcher,
    waiting: [TimeQueue<Sighting>; 2],
    /// Time range that each point has completely delivered.
    covered: [Option<(WallTime, WallTime)>; 2],
    /// Time, for each point, before which its deliveries are incomplete.
    begins: [WallTime; 2],
    /// True to omit sightings from before the time at which both points were capturing.
    in_common_alone: bool,
}

impl Merger {
    /// Creates an empty merger. Deliveries of a point from before its time in `begins` do not count as
    /// covered.
    pub fn new(matcher: Matcher, begins: [WallTime; 2]) -> Merger {
        Merger { matcher, waiting: Default::default(), covered: [None; 2], begins, in_common_alone: true }
    }

    /// Retains sightings from before the time at which both points were capturing: captures without a stated start
    /// begin with their first packet, which the other point may have seen earlier.
    pub fn from_the_first_packet(self) -> Merger {
        Merger { in_common_alone: false, ..self }
    }

    /// Adds a sighting; the sightings of one point must be nearly in order.
    pub fn push(&mut self, point: CapturePoint, s: Sighting) {
        self.waiting[point as usize].push(s.at, s);
    }

    /// Records that a point has delivered everything from `from` to `to`.
    pub fn covers(&mut self, point: CapturePoint, from: WallTime, to: WallTime) {
        let from = from.max(self.begins[point as usize]);
        if to < from {
            return;
        }
        self.matcher.covers(point, from);
        self.matcher.covers(point, to);
        let covered = &mut self.covered[point as usize];
        *covered = Some(covered.map_or((from, to), |(a, b)| (a, b.max(to))));
    }

    /// Records that a point dropped packets between `from` and `to`.
    pub fn drops(&mut self, point: CapturePoint, from: WallTime, to: WallTime) {
        self.matcher.drops(point, from, to);
    }

    /// Counts of the packets in one direction so far.
    pub fn counts(&self, direction: Direction) -> MatchCounts {
        self.matcher.counts(direction)
    }

    /// Current estimate of monitor clock minus reference clock.
    pub fn offset(&self) -> Span {
        self.matcher.offset()
    }

    /// Range of common time in which both points have delivered everything; `None` if there is none yet.
    pub fn common(&self) -> Option<(WallTime, WallTime)> {
        let offset = self.matcher.offset();
        match self.covered {
            [Some(r), Some(m)] => Some((r.0.max(m.0 - offset), r.1.min(m.1 - offset))),
            _ => None,
        }
    }

    /// Matches everything up to the time that both points have reached.
    pub fn release(&mut self, observer: &mut impl MatchObserver) {
        let never = WallTime(i64::MIN);
        let (start, horizon) = self.common().unwrap_or((never, never));
        while let Some((point, common)) = self.first() {
            if common > horizon && self.waiting.iter().all(|w| w.len() <= MAX_WAITING) {
                break;
            }
            // Only one point was capturing then, so no match is possible.
            if common < start && self.in_common_alone {
                self.waiting[point as usize].pop();
                continue;
            }
            self.join_first(point, observer);
        }
        if horizon.0 > i64::MIN {
            self.matcher.advance(horizon, observer);
        }
    }

    /// Returns the point with the next sighting, and its common time; `None` if no sighting is waiting.
    fn first(&self) -> Option<(CapturePoint, WallTime)> {
        let [r, m] = self.waiting.each_ref().map(|w| w.first().map(|(at, _)| at));
        match (r, m.map(|m| m - self.matcher.offset())) {
            (Some(r), Some(m)) if r > m => Some((CapturePoint::Monitor, m)),
            (Some(r), _) => Some((CapturePoint::Reference, r)),
            (None, m) => m.map(|m| (CapturePoint::Monitor, m)),
        }
    }

    fn join_first(&mut self, point: CapturePoint, observer: &mut impl MatchObserver) {
        if let Some((_, s)) = self.waiting[point as usize].pop() {
            self.matcher.push(point, s, observer);
        }
    }

    /// Matches everything and settles open identities; `after_round` is called regularly and at the end.
    pub fn finish<O: MatchObserver>(
        mut self,
        observer: &mut O,
        mut after_round: impl FnMut(&mut O),
    ) -> [MatchCounts; 2] {
        let mut joined = 0;
        while let Some((point, _)) = self.first() {
            self.join_first(point, observer);
            joined += 1;
            if joined % SIGHTINGS_PER_ROUND == 0 {
                after_round(observer);
            }
        }
        self.matcher.finish(observer);
        after_round(observer);
        Direction::BOTH.map(|w| self.matcher.counts(w))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PairEstimator;

    const EVER: WallTime = WallTime(i64::MIN);

    fn estimator() -> PairEstimator {
        PairEstimator::new(Span::seconds(1), None)
    }

    fn sighting(at: i64, id: u64, direction: Direction) -> Sighting {
        Sighting { at: WallTime(at * 1_000_000), id, length: 100, direction, flow: 0 }
    }

    #[test]
    fn what_one_point_no_longer_holds_is_not_lost() {
        let matcher = Matcher::new(Span::ZERO, Span::seconds(1));
        let mut merger = Merger::new(matcher, [EVER, WallTime(30_000_000)]);
        for id in 10..50 {
            merger.push(CapturePoint::Reference, sighting(id as i64, id, Direction::Up));
        }
        for id in 30..50 {
            merger.push(CapturePoint::Monitor, sighting(id as i64 + 1, id, Direction::Up));
        }
        for point in [CapturePoint::Reference, CapturePoint::Monitor] {
            merger.covers(point, WallTime(0), WallTime(100_000_000));
        }
        let mut estimator = estimator();
        merger.release(&mut estimator);
        let counts = merger.finish(&mut estimator, |_| ());
        assert_eq!((counts[0].matched, counts[0].lost), (20, 0));
    }

    #[test]
    fn a_pair_is_made_when_both_points_have_come_past_it_and_not_before() {
        let mut estimator = estimator();
        let mut m = Merger::new(Matcher::new(Span::ZERO, Span::seconds(5)), [EVER; 2]);
        m.covers(CapturePoint::Reference, WallTime(0), WallTime(100_000_000));
        // The monitor delivers everything late, and slightly out of order.
        for (point, at, id, direction) in [
            (CapturePoint::Reference, 10, 1, Direction::Up),
            (CapturePoint::Reference, 50, 2, Direction::Down),
            (CapturePoint::Monitor, 35, 2, Direction::Down),
            (CapturePoint::Monitor, 20, 1, Direction::Up),
        ] {
            m.push(point, sighting(at, id, direction));
        }
        m.release(&mut estimator);
        assert_eq!(estimator.take_pairs().count(), 0);
        m.covers(CapturePoint::Monitor, WallTime(0), WallTime(100_000_000));
        m.release(&mut estimator);
        let rtts: Vec<_> = estimator.take_pairs().map(|e| e.pair.rtt().0 / 1_000_000).collect();
        assert_eq!(rtts, [25]);
        let counts = m.finish(&mut estimator, |_| ());
        assert_eq!(counts.map(|c| (c.matched, c.lost)), [(1, 0), (1, 0)]);
    }

    #[test]
    fn a_silent_point_does_not_fill_the_memory() {
        let mut estimator = estimator();
        let matcher = Matcher::new(Span::ZERO, Span::seconds(5)).with_capacity(1000);
        let mut m = Merger::new(matcher, [EVER; 2]);
        for i in 0..MAX_WAITING as i64 + 1000 {
            m.push(CapturePoint::Reference, sighting(i, i as u64, Direction::Up));
            if i % 1000 == 0 {
                m.covers(CapturePoint::Reference, WallTime(0), WallTime(i * 1_000_000));
                m.release(&mut estimator);
            }
        }
        m.release(&mut estimator);
        assert!(m.waiting[0].len() <= MAX_WAITING);
    }

    /// Counts the fates of packets.
    #[derive(Default)]
    struct Fates {
        arrived: usize,
        lost: usize,
        void: usize,
    }

    impl MatchObserver for Fates {
        fn arrived(&mut self, _: u64, _: crate::Record, _: bool) {
            self.arrived += 1;
        }

        fn lost(&mut self, _: Direction, _: u64, _: WallTime, _: u32) {
            self.lost += 1;
        }

        fn void(&mut self, _: Direction, _: u64) {
            self.void += 1;
        }
    }

    const fn ms(n: i64) -> WallTime {
        WallTime(n * 1_000_000)
    }

    #[test]
    fn a_capture_that_begins_with_a_packet_is_matched_from_there() {
        for (from_there, matched) in [(false, 1), (true, 2)] {
            let m = Merger::new(Matcher::new(Span::ZERO, Span::millis(20)), [EVER; 2]);
            let (mut m, mut fates) =
                (if from_there { m.from_the_first_packet() } else { m }, Fates::default());
            for at in [10, 20] {
                m.push(CapturePoint::Reference, sighting(at, at as u64, Direction::Up));
                m.push(CapturePoint::Monitor, sighting(at + 1, at as u64, Direction::Up));
            }
            m.covers(CapturePoint::Reference, ms(10), ms(90));
            m.covers(CapturePoint::Monitor, ms(11), ms(90));
            m.release(&mut fates);
            assert_eq!(fates.arrived, matched);
        }
    }

    #[test]
    fn a_delivery_from_before_what_is_held_covers_nothing() {
        let mut m = Merger::new(Matcher::new(Span::ZERO, Span::seconds(1)), [EVER, ms(30)]);
        m.covers(CapturePoint::Monitor, ms(0), ms(10));
        assert_eq!(m.covered, [None, None]);
        m.covers(CapturePoint::Monitor, ms(0), ms(30));
        assert_eq!(m.covered[1], Some((ms(30), ms(30))));
        m.covers(CapturePoint::Monitor, ms(30), ms(90));
        m.covers(CapturePoint::Monitor, ms(30), ms(60));
        assert_eq!(m.covered[1], Some((ms(30), ms(90))));
    }

    #[test]
    fn both_points_have_come_as_far_as_the_later_one_on_the_common_clock() {
        // The monitor's clock is 100 ms ahead; it has delivered 50 to 200 ms of common time, the reference 0
        // to 300 ms.
        let (mut m, mut fates) =
            (Merger::new(Matcher::new(Span::millis(100), Span::millis(20)), [EVER; 2]), Fates::default());
        for (at, id) in [(10, 1), (60, 2), (65, 3), (200, 4), (201, 5), (250, 6)] {
            m.push(CapturePoint::Reference, sighting(at, id, Direction::Up));
        }
        m.push(CapturePoint::Monitor, sighting(170, 2, Direction::Up));
        m.covers(CapturePoint::Reference, ms(0), ms(300));
        m.covers(CapturePoint::Monitor, ms(150), ms(300));
        m.release(&mut fates);
        // Packets sent before the monitor's capture began are omitted; packets sent after its last delivery
        // wait.
        assert_eq!((m.waiting[0].len(), m.waiting[1].len()), (2, 0));
        assert_eq!((fates.arrived, m.finish(&mut fates, |_| ())[0].seen_at_reference), (1, 5));
    }

    #[test]
    fn a_loss_is_known_when_its_time_is_over_without_another_packet() {
        let (mut m, mut fates) =
            (Merger::new(Matcher::new(Span::ZERO, Span::millis(20)), [EVER; 2]), Fates::default());
        m.push(CapturePoint::Reference, sighting(60, 1, Direction::Up));
        for (until, lost) in [(70, 0), (200, 1)] {
            m.covers(CapturePoint::Reference, ms(0), ms(until));
            m.covers(CapturePoint::Monitor, ms(0), ms(until));
            m.release(&mut fates);
            assert_eq!(fates.lost, lost, "{until}");
        }
    }

    /// Blocks of 4 ms with 300 packets per millisecond in each direction. The monitor's blocks arrive 10 ms,
    /// or half a second, after those of the reference, and each point reports coverage up to 20 ms after the
    /// beginning of its latest block, before the packets of that time arrive.
    #[test]
    fn blocks_that_come_at_different_times_lose_no_packet() {
        const PER_MS: i64 = 300;
        for late in [0, 10, 500] {
            let (mut m, mut fates) =
                (Merger::new(Matcher::new(Span::ZERO, Span::seconds(5)), [EVER; 2]), Fates::default());
            let packet = |n: i64, point: CapturePoint| {
                let direction = if n % 2 == 0 { Direction::Up } else { Direction::Down };
                let delay = if point.is_source(direction) { 0 } else { 20_000 };
                Sighting {
                    at: WallTime(n * 1_000_000 / PER_MS + delay),
                    id: n as u64,
                    length: 100,
                    direction,
                    flow: 0,
                }
            };
            let mut deliver = |m: &mut Merger, point: CapturePoint, from: i64| {
                (from * PER_MS..(from + 4) * PER_MS).for_each(|n| m.push(point, packet(n, point)));
                m.covers(point, ms(0), ms(from + 20));
                m.release(&mut fates);
            };
            for now in (0..1000 + late).step_by(2) {
                if now % 4 == 0 && now < 1000 {
                    deliver(&mut m, CapturePoint::Reference, now);
                }
                if (now - late) % 4 == 0 && now >= late {
                    deliver(&mut m, CapturePoint::Monitor, now - late);
                }
            }
            let counts = m.finish(&mut fates, |_| ());
            let matched: u64 = counts.iter().map(|c| c.matched).sum();
            assert_eq!(
                (matched, fates.arrived, fates.lost + fates.void),
                (300_000, 300_000, 0),
                "{late} ms late"
            );
        }
    }

    #[test]
    fn what_was_sent_while_a_point_dropped_packets_is_not_lost() {
        let (mut m, mut fates) =
            (Merger::new(Matcher::new(Span::millis(100), Span::millis(20)), [EVER; 2]), Fates::default());
        // One packet per second with a delay of 1 ms. The monitor sees every second one, and drops packets
        // from 5 to 7 s on its clock.
        for at in (0..20).map(|k| k * 1000) {
            m.push(CapturePoint::Reference, sighting(at, at as u64 + 1, Direction::Up));
            if at / 1000 % 2 == 0 {
                m.push(CapturePoint::Monitor, sighting(at + 101, at as u64 + 1, Direction::Up));
            }
        }
        m.drops(CapturePoint::Monitor, ms(5100), ms(6100));
        m.drops(CapturePoint::Monitor, ms(6100), ms(7100));
        m.drops(CapturePoint::Reference, ms(0), ms(20_000));
        for point in [CapturePoint::Reference, CapturePoint::Monitor] {
            m.covers(point, ms(0), ms(30_000));
        }
        m.release(&mut fates);
        let counts = m.finish(&mut fates, |_| ())[0];
        // Of the ten that did not arrive, those of 5 and 7 s are outside: a tolerance of one second applies.
        assert_eq!((counts.matched, counts.lost, counts.outside), (10, 8, 2), "{counts:?}");
        assert_eq!((fates.lost, fates.void), (8, 2));
    }

    #[test]
    fn in_the_end_all_is_joined_in_the_order_of_common_time() {
        for offset in [Span::ZERO, Span::seconds(1800), Span::seconds(-1800)] {
            // Room for 20 sightings: those that are not joined in order are not matched.
            let matcher = Matcher::new(offset, Span::seconds(2)).with_capacity(20);
            let (mut m, mut fates) = (Merger::new(matcher, [EVER; 2]), Fates::default());
            for id in 0..3000i64 {
                m.push(CapturePoint::Reference, sighting(id * 100, id as u64, Direction::Up));
                let there = sighting(id * 100 + 30, id as u64, Direction::Up);
                m.push(CapturePoint::Monitor, Sighting { at: there.at + offset, ..there });
            }
            let mut rounds = 0;
            let counts = m.finish(&mut fates, |_| rounds += 1);
            // 6000 sightings, 4096 per round, and one call at the end.
            assert_eq!((counts[0].matched, counts[0].lost, rounds), (3000, 0, 2), "{offset:?}");
            assert_eq!((fates.arrived, fates.lost + fates.void), (3000, 0));
        }
    }
}
