use super::*;
use crate::PairEstimator;
use jitlat_core::time::{SECOND, Span};
use std::collections::VecDeque;

/// Sightings in memory.
struct Read(VecDeque<Sighting>);

impl SightingSource for Read {
    fn peek(&mut self) -> Option<Sighting> {
        self.0.front().copied()
    }

    fn advance(&mut self) {
        self.0.pop_front();
    }

    fn span(&self) -> Option<(WallTime, WallTime)> {
        Some((WallTime(0), WallTime(3600 * SECOND)))
    }
}

/// 3000 OUT packets, one per second, of which all but five arrive 10 ms later on a clock that is `offset`
/// ahead.
fn captures(offset: Span) -> [Read; 2] {
    let sighting = |n: u64, at| Sighting { at, id: n, length: 100, direction: Direction::Up, flow: 0 };
    let sent = |n: u64| WallTime(n as i64 * SECOND);
    [
        Read((0..3000).map(|n| sighting(n, sent(n))).collect()),
        Read((0..2995).map(|n| sighting(n, sent(n) + Span::millis(10) + offset)).collect()),
    ]
}

#[test]
fn sightings_are_joined_in_the_order_of_common_time() {
    for offset in [Span::ZERO, Span::seconds(1800), Span::seconds(-1800)] {
        let mut estimator = PairEstimator::new(Span::seconds(1), None);
        let mut rounds = 0;
        let matcher = Matcher::new(offset, Span::seconds(2)).with_capacity(20);
        let [out, back] = join(matcher, &mut captures(offset), &mut estimator, |_| {
            rounds += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((out.matched, back), (2995, MatchCounts::default()), "{offset:?}");
        assert_eq!((out.seen_at_reference, out.seen_at_monitor), (3000, 2995));
        assert_eq!(estimator.summary_of([out, back]).out.delay_raw_ns.unwrap().count, 2995);
        // 5995 sightings, 1024 per round, and one call at the end.
        assert_eq!(rounds, 6, "{offset:?}");
    }
}

#[test]
fn a_join_can_be_stopped() {
    let mut estimator = PairEstimator::new(Span::seconds(1), None);
    let mut read = captures(Span::ZERO);
    let stop = |_: &mut PairEstimator| ControlFlow::Break(());
    let [out, _] = join(Matcher::new(Span::ZERO, Span::seconds(2)), &mut read, &mut estimator, stop);
    assert_eq!((out.matched, read[0].0.len()), (512, 3000 - 512));
}

#[test]
fn the_manner_of_the_caia_tool_pairs_what_it_has_searched() {
    struct Nobody;
    impl StreamSink for Nobody {
        fn record(&mut self, _: Direction, _: &jitlat_core::record::PacketRecord) {}
    }
    // An OUT packet every second with a delay of 10 ms, and its answer 20 ms later; every hundredth answer is
    // lost.
    let captures = |n: u64| {
        let one =
            |id: u64, at: i64, direction| Sighting { at: WallTime(at), id, length: 100, direction, flow: 0 };
        let (mut reference, mut monitor) = (VecDeque::new(), VecDeque::new());
        for k in 0..n {
            let sent = k as i64 * SECOND;
            reference.push_back(one(2 * k, sent, Direction::Up));
            monitor.push_back(one(2 * k, sent + 10_000_000, Direction::Up));
            monitor.push_back(one(2 * k + 1, sent + 30_000_000, Direction::Down));
            if k % 100 != 50 {
                reference.push_back(one(2 * k + 1, sent + 45_000_000, Direction::Down));
            }
        }
        [Read(reference), Read(monitor)]
    };
    let join = |n, stop| {
        let mut observers = MatchObservers::<Nobody>::new(PairEstimator::new(Span::seconds(1), None));
        let mut read = captures(n);
        let (mut rounds, mut rtts) = (0, Vec::new());
        let matcher = CaiaMatcher::new(60, Span::seconds(60), Span::ZERO, false);
        let counts = join_like_caia(matcher, &mut read, &mut observers, |o| {
            rounds += 1;
            rtts.extend(o.take_pairs().map(|e| e.pair.rtt()));
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(read[0].0.is_empty(), "all of the reference are counted");
        (counts.map(|c| (c.seen_at_reference, c.seen_at_monitor, c.matched)), rounds, rtts)
    };
    // 2000 sightings of the monitor, 1024 per round; the CAIA tool does not return the last pair.
    let (counts, rounds, rtts) = join(1000, false);
    assert_eq!((counts, rounds), ([(1000, 1000, 1000), (990, 1000, 990)], 2));
    assert_eq!((rtts.len(), rtts.iter().all(|r| *r == Span::millis(25))), (989, true));
    assert_eq!(join(1000, true).0.map(|c| c.1), [512, 512], "stopped after a round");
}
