//! Coverage of the intervals: the share of simulated tests whose interval contains the truth. The tests run a small
//! sample; `just coverage` prints the tables of docs/metrics/intervals.md.

use super::*;
use crate::metrics::stat::wilson95;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::fmt::Write as _;

/// Returns a uniformly distributed number between 0 and 1, both excluded.
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    (-2.0 * uniform(rng).ln()).sqrt() * (core::f64::consts::TAU * uniform(rng)).cos()
}

/// A Gilbert-Elliott path.
#[derive(Clone, Copy)]
struct Path {
    /// Mean number of consecutive packets in a bad state.
    length: f64,
    /// Probability of loss in a bad state.
    lost: f64,
    /// Share of packets in bad states.
    bad: f64,
}

impl Path {
    /// Simulates a test with `events` bad states on average. Returns its losses, number of packets and number of bad
    /// states.
    fn test(self, events: f64, rng: &mut ChaCha8Rng) -> (EventCounts, u64, u64) {
        let leave = 1.0 / self.length;
        let enter = self.bad * leave / (1.0 - self.bad);
        let packets = ((events * self.length / self.bad) as u64).max(50);
        let (mut found, mut run, mut states, mut before) = (EventCounts::default(), 0, 0, false);
        let mut bad = uniform(rng) < self.bad;
        for seq in 0..packets {
            states += u64::from(bad && !before);
            before = bad;
            if bad && uniform(rng) < self.lost {
                run += 1;
            } else if run > 0 {
                found.push(seq - run, run);
                run = 0;
            }
            bad = if bad { uniform(rng) >= leave } else { uniform(rng) < enter };
        }
        if run > 0 {
            found.push(packets - run, run);
        }
        (found, packets, states)
    }

    /// Returns the coverage of the interval by events and that of Wilson's interval, and the number of tests from which
    /// they were computed: tests with at least `least` bad states and two loss events.
    fn coverage(self, events: f64, least: u64, tests: u32, seed: u64) -> ([f64; 2], u32) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let truth = self.bad * self.lost;
        let holds =
            |interval: Option<[f64; 2]>| interval.is_some_and(|[low, high]| low <= truth && truth <= high);
        let (mut held, mut counted) = ([0u32; 2], 0);
        for _ in 0..tests {
            let (found, n, states) = self.test(events, &mut rng);
            let share = found.share(n, n);
            if states < least || share.ci95.is_none() {
                continue;
            }
            assert!(share.ci95.is_some_and(|[low, _]| low > 0.0), "{share:?}");
            counted += 1;
            held[0] += u32::from(holds(share.ci95));
            held[1] += u32::from(holds(wilson95(found.count(), n)));
        }
        (held.map(|held| f64::from(held) / f64::from(counted.max(1))), counted)
    }
}

/// Returns `n` exponentially distributed delays, in ns. The normal scores of consecutive delays have the given
/// correlation.
fn delays(n: usize, correlation: f64, rng: &mut ChaCha8Rng) -> Vec<i64> {
    let mut x = normal(rng);
    let rest = (1.0 - correlation * correlation).sqrt();
    let mut next = || {
        x = correlation * x + rest * normal(rng);
        (-1e6 * (libm::erfc(x * core::f64::consts::FRAC_1_SQRT_2) / 2.0).ln()) as i64
    };
    (0..n).map(|_| next()).collect()
}

/// Returns the coverage of the intervals of a quantile and that of its rank intervals, and the share of tests that have
/// an interval.
fn coverage_of_quantile(
    of: IntervalOf,
    n: usize,
    correlation: f64,
    tests: u32,
    seed: u64,
) -> ([f64; 2], f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let truth = (-1e6 * (1.0 - of.probability()).ln()) as i64;
    let (mut held, mut counted) = ([0u32; 2], 0);
    for _ in 0..tests {
        let values = delays(n, correlation, &mut rng);
        let sample = Sample::new(values.iter().copied());
        let found = quantile_interval(of, &values, &sample, lag1(&values));
        let Some([low, high]) = found.ci95 else { continue };
        counted += 1;
        held[0] += u32::from(low <= truth && truth <= high);
        let (l, u, _) = crate::metrics::stat::quantile_ranks95(n as u64, of.probability()).unwrap();
        let at = |rank: u64, otherwise| {
            rank.checked_sub(1).and_then(|k| sample.at(k as usize)).unwrap_or(otherwise)
        };
        held[1] += u32::from(at(l, i64::MIN) <= truth && truth <= at(u, i64::MAX));
    }
    (held.map(|held| f64::from(held) / f64::from(counted.max(1))), f64::from(counted) / f64::from(tests))
}

const PATHS: [Path; 9] = [
    Path { length: 1.0, lost: 1.0, bad: 0.02 },
    Path { length: 2.0, lost: 1.0, bad: 0.02 },
    Path { length: 5.0, lost: 1.0, bad: 0.02 },
    Path { length: 20.0, lost: 1.0, bad: 0.02 },
    Path { length: 5.0, lost: 0.7, bad: 0.02 },
    Path { length: 20.0, lost: 0.5, bad: 0.02 },
    Path { length: 20.0, lost: 0.3, bad: 0.005 },
    Path { length: 5.0, lost: 1.0, bad: 0.2 },
    Path { length: 20.0, lost: 0.7, bad: 0.2 },
];

#[test]
fn intervals_of_loss_hold_with_bursts() {
    let (mut held, mut all) = (0.0, 0);
    for (seed, path) in (1..).zip(PATHS) {
        let ([share, _], tests) = path.coverage(14.0, 10, 120, seed);
        // With 100 tests the share varies by 2.2 %.
        assert!(share >= 0.89, "{} packets, {} lost: {share}", path.length, path.lost);
        held += share * f64::from(tests);
        all += tests;
    }
    let share = held / f64::from(all);
    assert!((0.935..0.985).contains(&share), "{share} of {all}");
}

#[test]
fn intervals_of_quantiles_hold_with_correlation() {
    let upper = |percent: u32, n| (IntervalOf::Upper(Percent(1000 * percent)), n, [0.0, 0.5, 0.7]);
    for (of, n, kinds) in [
        (IntervalOf::Median, 500, [0.0, 0.5, 0.9]),
        (IntervalOf::P99, 3000, [0.0, 0.5, 0.7]),
        upper(98, 1500),
        upper(95, 1000),
        upper(90, 1000),
    ] {
        let found = kinds.map(|correlation| coverage_of_quantile(of, n, correlation, 100, 7));
        let mean = found.iter().map(|([share, _], _)| share).sum::<f64>() / 3.0;
        assert!(found.iter().all(|([share, _], _)| *share >= 0.89), "{of:?}: {found:?}");
        assert!((0.925..0.985).contains(&mean), "{of:?}: {found:?}");
        assert!(found[2].0[1] < 0.86, "rank intervals are too narrow: {found:?}");
    }
    assert_eq!(coverage_of_quantile(IntervalOf::P99, 500, 0.9, 20, 1).1, 0.0, "too few effective packets");
}

/// Line of the page after which the tables begin.
const MARKER: &str = "<!-- written by `just coverage` -->";

/// Prints the tables, and writes them into the page that the environment variable JITLAT_PAGE names. JITLAT_TESTS is
/// the number of tests per row.
#[test]
#[ignore = "takes minutes"]
fn table() {
    let number =
        |name: &str, otherwise| std::env::var(name).ok().and_then(|x| x.parse().ok()).unwrap_or(otherwise);
    let (tests, seed): (u32, u64) = (number("JITLAT_TESTS", 1000), number("JITLAT_SEED", 1).into());
    let mut text = format!("{tests} tests per row, seed {seed}.\n\n");
    text +=
        "| packets in a bad state | lost in it | share of bad states | bad states | by events | Wilson |\n";
    text += "|---:|---:|---:|---:|---:|---:|\n";
    for path in PATHS {
        for events in [14.0, 30.0, 100.0] {
            let ([found, wilson], _) = path.coverage(events, 10, tests, seed);
            let [bad, lost, found, wilson] = [path.bad, path.lost, found, wilson].map(|x| 100.0 * x);
            let _ = writeln!(
                text,
                "| {} | {lost} % | {bad} % | {events} | {found:.1} % | {wilson:.1} % |",
                path.length
            );
        }
    }
    text += "\n| quantile | packets | correlation of neighbours | with interval | by blocks | ranks |\n";
    text += "|---|---:|---:|---:|---:|---:|\n";
    for (of, sizes) in
        [(IntervalOf::Median, [200, 500, 1000, 5000]), (IntervalOf::P99, [500, 1000, 3000, 10_000])]
    {
        for n in sizes {
            for correlation in [0.0, 0.3, 0.5, 0.7, 0.9] {
                let ([found, ranks], share) = coverage_of_quantile(of, n, correlation, tests, seed);
                let name = if of == IntervalOf::Median { "median" } else { "p99" };
                let [found, ranks, share] = [found, ranks, share].map(|x| 100.0 * x);
                let held = if share >= 5.0 {
                    format!("{found:.1} % | {ranks:.1} %")
                } else {
                    "– | –".to_owned()
                };
                let _ = writeln!(text, "| {name} | {n} | {correlation} | {share:.0} % | {held} |");
            }
        }
    }
    println!("{text}");
    if let Ok(page) = std::env::var("JITLAT_PAGE") {
        let before = std::fs::read_to_string(&page).unwrap();
        let (before, _) =
            before.split_once(MARKER).expect("the page has the line after which tables are written");
        std::fs::write(page, format!("{before}{MARKER}\n\n{text}")).unwrap();
    }
}
