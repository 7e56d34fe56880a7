use super::*;
use crate::passive::Estimator;
use crate::time::{SECOND, Span};
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

/// 3000 packets that go out, one a second, all but five arriving 10 ms later on a clock that is `offset` ahead.
fn captures(offset: Span) -> [Read; 2] {
    let sighting = |n: u64, at| Sighting { at, id: n, length: 100, way: Way::Out, flow: 0 };
    let sent = |n: u64| WallTime(n as i64 * SECOND);
    [
        Read((0..3000).map(|n| sighting(n, sent(n))).collect()),
        Read((0..2995).map(|n| sighting(n, sent(n) + Span::millis(10) + offset)).collect()),
    ]
}

#[test]
fn sightings_are_joined_in_the_order_of_common_time() {
    for offset in [Span::ZERO, Span::seconds(1800), Span::seconds(-1800)] {
        let mut estimator = Estimator::new(Span::seconds(1), None);
        let mut rounds = 0;
        let matcher = Matcher::new(offset, Span::seconds(2)).with_capacity(20);
        let [out, back] = join(matcher, &mut captures(offset), &mut estimator, |_| {
            rounds += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((out.matched, back), (2995, MatchCounts::default()), "{offset:?}");
        assert_eq!((out.seen_at_reference, out.seen_at_monitor), (3000, 2995));
        assert_eq!(estimator.summary_of([out, back]).out.delay_raw_ns.unwrap().count, 2995);
        // 5995 sightings, 1024 in a round, and once at the end.
        assert_eq!(rounds, 6, "{offset:?}");
    }
}

#[test]
fn a_join_can_be_stopped() {
    let mut estimator = Estimator::new(Span::seconds(1), None);
    let mut read = captures(Span::ZERO);
    let stop = |_: &mut Estimator| ControlFlow::Break(());
    let [out, _] = join(Matcher::new(Span::ZERO, Span::seconds(2)), &mut read, &mut estimator, stop);
    assert_eq!((out.matched, read[0].0.len()), (512, 3000 - 512));
}
