use super::*;
use crate::testing::{MS, SECOND, US, delays, every, first};

const PERIOD: i64 = 10 * MS;
const NO_NOISE: DelayNoise = DelayNoise { median: 0, p90: 0 };

/// Returns `n` blocks of four packets.
fn blocks(n: usize) -> Blocks {
    Blocks { size: 4, min: (0..n as i64).collect(), max: vec![0; n] }
}

#[test]
fn groups_are_of_eight_packets_and_twelve_at_least() {
    let of = |n: usize| Groups::of(&blocks(n), 4 * n).map(|g| (g.min.len(), g.each));
    assert_eq!([of(22), of(23), of(24)], [None, Some((12, 2)), Some((12, 2))]);
    assert_eq!(of(4000), Some((200, 20)));
    let groups = Groups::of(&blocks(30), 120).unwrap();
    assert_eq!([0, 1, 14, 15].map(|g| groups.place(g, &blocks(30), 120)), [0, 8, 112, 120]);
}

#[test]
fn a_level_is_the_middle_without_strays() {
    let of = |values: &[i64]| {
        let level = DelayLevel::of(values);
        (level.middle, level.spread)
    };
    assert_eq!(of(&[9, 1, 5]), (5, 8));
    assert_eq!(of(&[1, 2, 3, 4, 100]), (3, 99));
    // Of six or more values, one at either end is excluded.
    assert_eq!(of(&[100, 1, 2, 3, 4, 50]), (4, 48));
    assert_eq!(of(&[0, 10, 11, 12, 13, 14, 15, 16, 17, 90]), (14, 7));
}

/// Returns the steps of `n` packets with these delays and a 90th percentile of noise of `p90`.
fn found(n: u32, p90: i64, delay: impl Fn(u32) -> i64) -> Vec<LevelStep> {
    let d = delays(&every(PERIOD, n, |k| Some(SECOND + delay(k))));
    steps(&d, &d.blocks(), DelayNoise { median: 0, p90 })
}

fn places(found: &[LevelStep]) -> Vec<(usize, i64)> {
    found.iter().map(|s| (s.place, s.change)).collect()
}

#[test]
fn a_step_is_found_at_its_packet() {
    for place in 24..=376 {
        for change in [5 * MS, -5 * MS] {
            let found = found(400, 0, |k| if k < place { 0 } else { change });
            assert_eq!(places(&found), [(place as usize, change)]);
            assert_eq!((found[0].ramp, found[0].spread), (0, [0, 0]));
        }
    }
}

#[test]
fn a_step_is_more_than_0_1_ms_and_than_nine_of_ten_neighbours_differ() {
    let least = |p90| {
        let of = |change: i64| !found(400, p90, |k| if k < 200 { 0 } else { change }).is_empty();
        let up = first(0..=10 * MS, of);
        assert_eq!(first(0..=10 * MS, |change| of(-change)), up);
        up
    };
    assert_eq!(least(0), MIN_STEP_NS + 1);
    assert_eq!(least(500 * US), 500 * US + 1);
}

#[test]
fn a_step_is_three_times_the_spread_of_a_side_and_four_times_that_of_the_quieter() {
    // Every third group of eight packets is 0.2 ms higher.
    let uneven = |k: u32| if k / 8 % 3 == 2 { 200 * US } else { 0 };
    let one_side = |change: i64| !found(400, 0, |k| if k < 200 { 0 } else { change + uneven(k) }).is_empty();
    assert_eq!(first(250 * US..=10 * MS, one_side), 600 * US + 3);
    let both = |change: i64| !found(400, 0, |k| uneven(k) + if k < 200 { 0 } else { change }).is_empty();
    assert_eq!(first(250 * US..=10 * MS, both), 800 * US + 1);
}

#[test]
fn a_level_stays_for_three_groups_or_about_a_twentieth() {
    let at = |n: u32, place: i64| !found(n, 0, |k| if k < place as u32 { 0 } else { 5 * MS }).is_empty();
    for (n, early, late) in [(400, 17, 377), (800, 33, 761), (1600, 55, 1543), (3200, 118, 3082)] {
        assert_eq!(first(1..=200, |place| at(n, place)), early, "{n} packets");
        assert_eq!(first(i64::from(n / 2)..=i64::from(n) - 1, |place| !at(n, place)), late, "{n} packets");
    }
}

#[test]
fn a_step_of_four_deviations_of_jitter_is_found_in_larger_groups() {
    // The sum of twelve uniform numbers is about normal, here with a standard deviation of 1 ms.
    let any =
        |k: u32| i64::from(k.wrapping_mul(2_654_435_761).rotate_left(15).wrapping_mul(2_246_822_519) >> 12);
    let normal = |k: u32| (0..12).map(|i| any(12 * k + i) * MS / (1 << 20)).sum::<i64>();
    let of = |change: i64| {
        let d = delays(&every(PERIOD, 2000, |k| Some(SECOND + normal(k) + if k < 900 { 0 } else { change })));
        steps(&d, &d.blocks(), d.noise())
    };
    assert_eq!(of(0).len(), 0);
    let [step] = of(4 * MS).try_into().unwrap();
    assert!(step.place.abs_diff(900) <= 3 && (step.change - 4 * MS).abs() < MS / 2, "{step:?}");
}

#[test]
fn several_steps_are_found_one_by_one() {
    let of = |k: u32| match k {
        ..100 => 0,
        100..200 => 5 * MS,
        200..300 => 2 * MS,
        _ => 9 * MS,
    };
    assert_eq!(places(&found(400, 0, of)), [(100, 5 * MS), (200, -3 * MS), (300, 7 * MS)]);
}

#[test]
fn a_step_is_measured_between_the_middles_of_both_sides() {
    // Delays that rise by 1 us per packet and jump by 5 ms at packet 200. Packets 176 to 191 and 208 to 223 are compared.
    let [step] = found(400, 0, |k| i64::from(k) * US + if k < 200 { 0 } else { 5 * MS }).try_into().unwrap();
    assert_eq!((step.place, step.change), (200, 5 * MS + 32 * US));
    assert_eq!(step.spread, [13 * US, 13 * US]);
    assert_eq!(found(90, 0, |k| if k < 45 { 0 } else { 5 * MS }).len(), 0, "fewer than twelve groups");
}

/// Refines a step from 40 packets with delay 0 to 40 with `change`, and the delays `between` them, in thousandths of
/// `change`.
fn refined(change: i64, between: &[i64], median: i64) -> Option<LevelStep> {
    let n = between.len() as u32;
    let delay = |k: u32| match k {
        ..40 => 0,
        k if k < 40 + n => change / 1000 * between[k as usize - 40],
        _ => change,
    };
    let mut d = delays(&every(PERIOD, 80 + n, |k| Some(delay(k))));
    d.set_level(0);
    refine(&d, 30..50 + n as usize, [10..30, 50 + n as usize..70], DelayNoise { median, p90: 0 })
}

#[test]
fn a_ramp_is_what_lies_between_both_levels() {
    let of = |change, between: &[i64], median| {
        let step = refined(change, between, median).unwrap();
        assert_eq!(step.change, change);
        (step.place - 40, step.ramp)
    };
    for change in [MS, -MS] {
        assert_eq!(of(change, &[], 0), (0, 0));
        assert_eq!(of(change, &[200, 400, 600, 800], 0), (2, 4));
        // Packets from 15 to 85 % of the change belong to the ramp.
        assert_eq!(of(change, &[100, 150, 200, 400, 600, 800, 850, 900], 0), (4, 4));
        // With noise the margin is larger by one and a half times its median.
        assert_eq!(of(change, &[200, 400, 600, 800], 100 * US), (2, 2));
        assert_eq!([of(change, &[450, 550], 166_000).1, of(change, &[450, 550], 167_000).1], [2, 0]);
    }
    // A packet at half of the change belongs to the higher level.
    assert_eq!([MS, -MS].map(|change| of(change, &[400, 500, 600], 0)), [(1, 3), (2, 3)]);
    assert!(refined(MIN_STEP_NS, &[], 0).is_some() && refined(MIN_STEP_NS - 1000, &[], 0).is_none());
    assert!(refined(-MIN_STEP_NS, &[], 0).is_some() && refined(1000 - MIN_STEP_NS, &[], 0).is_none());
}

#[test]
fn a_median_takes_the_upper_of_two() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(3.0));
    assert_eq!(median(vec![]), None);
    let values: Vec<f64> = (0..20).rev().map(f64::from).collect();
    assert_eq!(spread(&values), 15.0, "from the third to the third last");
}

#[test]
fn slopes_are_between_points_some_way_apart() {
    let time: Vec<f64> = (0..7).map(f64::from).collect();
    let square: Vec<f64> = time.iter().map(|t| 3.0 * t * t).collect();
    // The slopes are 3 (2 k − 2) for k = 2 … 6.
    assert_eq!(median_slope(&time, &square, 2), Some(18.0));
    assert_eq!(median_slope(&time, &square, 1), Some(21.0));
    assert_eq!(median_slope(&[0.0, 0.0, 1.0], &[0.0, 9.0, 5.0], 1), Some(-4.0));
    assert_eq!(median_slope(&[1.0; 5], &square[..5], 1), None);
}

#[test]
fn the_lower_slope_joins_the_lower_halves_of_both_ends() {
    let time: Vec<f64> = (0..20).map(f64::from).collect();
    let mut value = vec![50.0; 20];
    // Of four points at either end the lower two count: at 0 and 3, and at 17 and 18.
    value[..4].copy_from_slice(&[1.0, 9.0, 8.0, 2.0]);
    value[16..].copy_from_slice(&[90.0, 30.0, 40.0, 70.0]);
    assert_eq!(lower_slope(&time, &value), Some((35.0 - 1.5) / (17.5 - 1.5)));
    assert_eq!(lower_slope(&[1.0; 20], &value), None);
}

/// Returns the slope found for 101 points, 1 s apart, on a line with `slope`; each is moved by `off` ns.
fn line_of(slope: f64, median: i64, off: impl Fn(usize) -> f64) -> Option<f64> {
    drift_of(slope, median, off).map(|drift| drift.rate)
}

#[test]
fn the_error_of_a_drift_contains_the_true_one() {
    // Random residuals: independent of each other, and similar to the one before.
    let mut state = 1u64;
    let mut chance = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
    };
    for memory in [0.0, 0.7] {
        let found = (0..200).filter(|_| {
            let mut last = 0.0;
            let off: Vec<f64> = (0..101)
                .map(|_| {
                    last = memory * last + chance() * 200e3;
                    last
                })
                .collect();
            drift_of(1e-4, 100_000, |k| off[k]).is_some_and(|d| (d.rate - 1e-4).abs() <= d.error)
        });
        let found = found.count();
        assert!((176..=200).contains(&found), "{found} of 200 with a memory of {memory}");
    }
    let exact = drift_of(1e-4, 0, |_| 0.0).unwrap();
    assert!(exact.error < 1e-9, "{exact:?}");
}

fn drift_of(slope: f64, median: i64, off: impl Fn(usize) -> f64) -> Option<Drift> {
    let time: Vec<f64> = (50..151).map(|k| k as f64 * 1e9).collect();
    let min: Vec<f64> = time.iter().enumerate().map(|(k, t)| slope * t + off(k)).collect();
    line((slope, MAX_DRIFT), &time, &min, DelayNoise { median, p90: 0 })
}

fn is_near(found: Option<f64>, slope: f64) {
    assert!((found.unwrap() - slope).abs() < 1e-3 * slope.abs(), "{found:?} instead of {slope}");
}

#[test]
fn a_drift_is_20_us_half_the_noise_and_1000_ppm_at_most() {
    let of = |slope, median| line_of(slope, median, |_| 0.0).is_some();
    assert!(of(2e-7, 0) && !of(1.999e-7, 0) && of(-2e-7, 0));
    assert!(of(2e-7, 40_000) && !of(2e-7, 40_001));
    assert!(of(1e-3, 0) && !of(1.001e-3, 0) && !of(-1.001e-3, 0));
    is_near(line_of(1e-5, 0, |_| 0.0), 1e-5);
}

#[test]
fn a_drift_is_three_times_what_its_points_scatter() {
    // Each of the 101 points is off by another multiple of 4 us: 320 us between the 10th and the 90th percentile.
    let of = |total: i64| line_of(total as f64 / 1e11, 0, |k| (k * 37 % 101) as f64 * 4e3).is_some();
    let least = first(300_000..=3_000_000, of);
    assert!((959_990..=960_010).contains(&least), "{least}");
}

#[test]
fn what_lies_on_the_line_gives_the_slope() {
    // A drift of 1 ms, with every second point 0.1 ms above the line.
    is_near(line_of(1e-5, 0, |k| (k % 2) as f64 * 1e5), 1e-5);
    // The given slope need not be exactly that of the points.
    let time: Vec<f64> = (0..101).map(|k| k as f64 * 1e9).collect();
    let min: Vec<f64> = time.iter().map(|t| 1.1e-5 * t).collect();
    is_near(line((1e-5, MAX_DRIFT), &time, &min, NO_NOISE).map(|drift| drift.rate), 1.1e-5);
    // Points in a queue, far above the line, are excluded.
    is_near(line_of(1e-5, 0, |k| if (40..60).contains(&k) { 5e6 } else { 0.0 }), 1e-5);
}

#[test]
fn a_line_has_points_at_both_ends_and_between() {
    // Only the points for which `on` is true lie on the line; the others lie about 5 ms above it.
    let with = |on: &dyn Fn(usize) -> bool| {
        let off = |k: usize| if on(k) { 0.0 } else { 5e6 + (k * 7919 % 101) as f64 * 1e5 };
        line_of(1e-5, 0, off)
    };
    is_near(with(&|k| k % 3 == 0), 1e-5);
    // The first and the last fifth must each have a twentieth of all points on the line: six of 101.
    let ends = |first: usize, last: usize| {
        with(&|k| k < first || k >= 101 - last || (30..70).contains(&k)).is_some()
    };
    assert!(ends(6, 6) && !ends(5, 20) && !ends(20, 5));
    // One of the three fifths between must have a fiftieth: three points.
    let between = |count: usize| with(&|k| !(20..81).contains(&k) || (50..50 + count).contains(&k)).is_some();
    assert!(between(3) && !between(2));
    // A quarter of all points must be on the line: 26.
    let all = |count: usize| with(&|k| !(7..94).contains(&k) || (40..40 + count - 14).contains(&k)).is_some();
    assert!(all(26) && !all(25));
}

#[test]
fn each_third_of_a_drift_is_straight() {
    // In the third that begins at `o`, nine of the seventeen slopes are steeper. Three points lie so low that the
    // points on the line are only found if the line is accepted as straight.
    let bent = |slope: f64, o: usize, raised: f64, uneven: f64| {
        let off = |k: usize| match k {
            0 | 99 | 100 => -5e6,
            k if (o + 20..o + 29).contains(&k) => raised,
            k => (k % 2) as f64 * uneven,
        };
        line_of(slope, 0, off)
    };
    for o in [33, 66] {
        // A quarter steeper is 2.5 ns per ms, over 16 s.
        for slope in [1e-5, -1e-5] {
            let least = first(10_000..=200_000, |x| bent(slope, o, x as f64, 0.0).is_none());
            assert!((39_990..=40_010).contains(&least), "{least}");
        }
        // Three times the scatter of the points, over a third of the time, is tolerated.
        let least = first(10_000..=200_000, |x| bent(1e-5, o, 5_000.0 + x as f64, 10_000.0).is_none());
        assert!((44_000..=66_000).contains(&least), "{least}");
    }
}

#[test]
fn points_lie_as_near_to_the_line_as_the_noise_allows() {
    // Three points in the middle, which the line needs, are at this distance from it.
    let width = |slope: f64, median| {
        first(1..=1_000_000, |x| {
            let off = |k: usize| match k {
                50..53 => x as f64,
                20..81 => 5e6 + (k * 7919 % 101) as f64 * 1e5,
                _ => 0.0,
            };
            line_of(slope, median, off).is_none()
        })
    };
    let is = |found: i64, expected: i64| assert!((found - expected).abs() <= 2, "{found}, not {expected}");
    is(width(1e-5, 0), 20_000);
    is(width(1e-5, 30_000), 60_000);
    // The width is at most an eighth of the whole drift of 1 ms.
    is(width(1e-5, 100_000), 125_000);
}

/// Returns the drift of `n` packets with these smallest delays, in ns, as a function of the time in seconds.
fn drifts(n: u32, delay: impl Fn(f64) -> f64) -> Option<f64> {
    let d =
        delays(&every(PERIOD, n, |k| Some((delay(f64::from(k) * 0.01)) as i64 + i64::from(k % 4) * 50 * US)));
    drift(&d, &d.blocks(), d.noise(), MAX_DRIFT).map(|drift| drift.rate)
}

#[test]
fn a_straight_drift_is_two_clocks() {
    is_near(drifts(2000, |s| 50e3 * s), 5e-5);
    is_near(drifts(2000, |s| -50e3 * s), -5e-5);
    // A step, a rise in only one half, and a constant delay are not drifts.
    assert_eq!(drifts(2000, |s| if s < 10.0 { 0.0 } else { 1e6 }), None);
    assert_eq!(drifts(2000, |s| (s - 10.0).max(0.0) * 100e3), None);
    assert_eq!(drifts(2000, |_| 0.0), None);
    assert_eq!(drifts(90, |s| 50e3 * s), None, "fewer than twelve groups");
    // A queue at the beginning does not affect most points.
    is_near(drifts(2000, |s| 50e3 * s + if s < 3.0 { 30e6 } else { 0.0 }), 5e-5);
    // The drift is found despite a queue for a fifth of the time, and despite queues at both ends except for a moment.
    is_near(drifts(2000, |s| 50e3 * s + if (8.0..12.0).contains(&s) { 30e6 } else { 0.0 }), 5e-5);
}

#[test]
fn a_level_after_stored_packets_is_a_step() {
    // 600 ms are stored and delivered within 30 packets; then the path is 4 ms longer.
    let of = |after: i64| {
        let packets = every(20 * MS, 1000, |k| {
            let noise = i64::from(k * 7919 % 10) * 10 * US;
            Some(
                noise
                    + match k {
                        0..500 => 10 * MS,
                        500..530 => 610 * MS - i64::from(k - 500) * 20 * MS,
                        _ => 10 * MS + after,
                    },
            )
        });
        let delays = delays(&packets);
        after_storing(&delays, &delays.blocks(), delays.noise())
    };
    let [step] = of(4 * MS).try_into().unwrap();
    assert!((528..=532).contains(&step.place) && (step.change - 4 * MS).abs() < MS / 5, "{step:?}");
    assert!(of(0).is_empty());
}
