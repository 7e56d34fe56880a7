use super::*;
use proptest::prelude::*;

fn of(runs: &[(u64, u64)]) -> EventCounts {
    let mut events = EventCounts::default();
    runs.iter().for_each(|(start, len)| events.push(*start, *len));
    events
}

#[test]
fn no_event_and_one_have_no_interval() {
    let none = of(&[]).share(1000, 1000);
    assert_eq!((none.events, none.ci95, none.absent), (0, None, Some(NoInterval::NoEvent)));
    for runs in [&[(500, 30)][..], &[(500, 3), (505, 2), (510, 1)], &[(0, 1000)]] {
        let one = of(runs).share(1000, 1000);
        assert_eq!((one.events, one.ci95, one.absent), (1, None, Some(NoInterval::OneEvent)), "{runs:?}");
    }
}

#[test]
fn isolated_losses_have_the_interval_of_independent_ones() {
    let runs: Vec<(u64, u64)> =
        [31, 420, 700, 1330, 1950, 2204, 3111, 3500, 3790, 4800].map(|start| (start, 1)).into();
    let found = of(&runs).share(5000, 5000);
    assert_eq!((found.events, found.absent), (10, None));
    let [low, high] = found.ci95.unwrap();
    let [least, most] = super::super::stat::wilson95(10, 5000).unwrap();
    assert!(
        (low / least - 1.0).abs() < 0.25 && (high / most - 1.0).abs() < 0.25,
        "{low} {high} {least} {most}"
    );
    assert!((0.5..1.5).contains(&found.design_effect.unwrap()));
}

#[test]
fn bursts_widen_the_interval_and_its_lower_end_stays_above_zero() {
    let runs: Vec<(u64, u64)> = (0..10).map(|k| (100 + 480 * k + 37 * (k % 3), 5 + 3 * (k % 5))).collect();
    let found = of(&runs).share(5000, 5000);
    let lost: u64 = runs.iter().map(|(_, len)| len).sum();
    let [low, high] = found.ci95.unwrap();
    let [least, most] = super::super::stat::wilson95(lost, 5000).unwrap();
    assert!(0.0 < low && low < least && most < high, "{low} {high} {least} {most}");
    for runs in [&[(10, 1), (900, 1)][..], &[(10, 50), (900, 1)], &[(0, 1), (500, 1), (999, 1)]] {
        let [low, high] = of(runs).share(1000, 1000).ci95.unwrap();
        let share = of(runs).count() as f64 / 1000.0;
        assert!(0.0 < low && low < share && share < high && high < 1.0, "{runs:?}: {low} {high}");
    }
}

#[test]
fn a_state_that_no_stream_has_is_refused() {
    let valid = of(&[(3, 2), (10, 1), (500, 7)]);
    assert!(valid.is_possible(507, 10) && EventCounts::default().is_possible(0, 0));
    assert!(
        !valid.is_possible(506, 10)
            && !valid.is_possible(507, 9)
            && !EventCounts::default().is_possible(5, 1)
    );
    let damaged = |change: fn(&mut EventCounts)| {
        let mut changed = valid.clone();
        change(&mut changed);
        changed.is_possible(507, 10)
    };
    assert!(!damaged(|e| e.levels.truncate(3)));
    assert!(!damaged(|e| e.levels[0].events = 11));
    assert!(!damaged(|e| e.levels[0].first = None));
    assert!(!damaged(|e| e.levels[0].second = None));
    assert!(!damaged(|e| e.levels[0].sums.counts = f64::NAN));
}

#[test]
fn equal_delays_and_few_packets() {
    let interval =
        |delays: &[i64], of| quantile_interval(of, delays, &Sample::new(delays.iter().copied()), None);
    let same = interval(&[7; 50], IntervalOf::P99);
    assert_eq!((same.ci95, same.absent), (Some([7, 7]), None));
    let ramp: Vec<i64> = (0..200).map(|k| k * 7919 % 200).collect();
    for (n, of) in [(0, IntervalOf::Median), (39, IntervalOf::Median), (200, IntervalOf::P99)] {
        assert_eq!(interval(&ramp[..n], of).absent, Some(NoInterval::TooFew), "{n}");
    }
    let [low, high] = interval(&ramp, IntervalOf::Median).ci95.unwrap();
    assert!(low < 100 && 100 < high && high - low < 60, "{low} {high}");
    assert_eq!(unknown_quantile(IntervalOf::P99).absent, Some(NoInterval::NotRecorded));
    assert_eq!(unknown_quantile(IntervalOf::P99).required_n, 300.0);
}

#[test]
fn a_slow_change_of_delay_leaves_no_interval() {
    let delays: Vec<i64> =
        (0..2000).map(|k| ((f64::from(k) / 600.0).sin() * 1e6) as i64 + i64::from(k * 7919 % 100)).collect();
    let sample = Sample::new(delays.iter().copied());
    for of in [IntervalOf::Median, IntervalOf::P99] {
        let found = quantile_interval(of, &delays, &sample, Some(0.999));
        assert_eq!((found.ci95, found.absent), (None, Some(NoInterval::TooFew)), "{found:?}");
    }
}

proptest! {
    #[test]
    fn appended_parts_equal_one_pass(
        gaps in prop::collection::vec((1u64..3000, 1u64..40), 0..60),
        cuts in prop::collection::vec(0u64..60_000, 0..6),
    ) {
        let mut runs = Vec::new();
        let mut end = 0;
        for (gap, len) in gaps {
            runs.push((end + gap, len));
            end += gap + len;
        }
        let whole = of(&runs);
        let mut cuts: Vec<u64> = cuts.into_iter().chain([0, end]).filter(|cut| *cut <= end).collect();
        cuts.sort_unstable();
        let mut joined = EventCounts::default();
        for part in cuts.windows(2) {
            let [from, to] = [part[0], part[1]];
            let inside = |(start, len): &(u64, u64)| {
                let [a, b] = [(*start).max(from), (start + len).min(to)];
                (a < b).then(|| (a - from, b - a))
            };
            let later: Vec<(u64, u64)> = runs.iter().filter_map(inside).collect();
            joined.append(&of(&later), from);
        }
        prop_assert!(joined == whole);
        prop_assert!(whole.is_possible(end, whole.count()));
        let found = whole.share(end + 100, end + 100);
        if let Some([low, high]) = found.ci95 {
            let share = whole.count() as f64 / (end + 100) as f64;
            prop_assert!(0.0 < low && low <= share && share <= high && high <= 1.0);
        }
    }
}
