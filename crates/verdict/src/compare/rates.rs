//! False-alarm and detection rates of `jitlat compare` on simulated pairs of runs with a known difference.
//! `just compare-rates` makes the tables of docs/metrics/comparison.md; `cargo test` runs a small part.

use super::*;
use crate::comparison::SideChange;
use jitlat_core::comparable::minimum_error;
use jitlat_core::metrics::dependence::EventCounts;
use std::fmt::Write;

/// Random numbers (SplitMix64), the same on all systems.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1));
        random.uniform();
        random
    }

    /// Returns a uniformly distributed number between 0 and 1, exclusive.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (core::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// 15 ms ± 1 ms, without a firm minimum.
    Normal,
    /// Median 1 ms above a delay of 10 ms.
    LogNormal,
    /// Mean 1 ms above a delay of 10 ms.
    Exponential,
}

/// Losses of a two-state path (Gilbert-Elliott).
#[derive(Clone, Copy, Debug)]
struct Loss {
    share: f64,
    /// Mean length of bad states, in packets.
    bad: f64,
    /// Share of packets that are lost in a bad state.
    within: f64,
}

/// A simulated run.
#[derive(Clone, Copy, Debug)]
struct Run {
    n: usize,
    law: Law,
    /// Autocorrelation of the normal process from which the delays are computed.
    correlation: f64,
    /// Factor by which the part of each delay above the base delay is multiplied.
    stretch: f64,
    /// Share of packets that are 20 ms later.
    late: f64,
    loss: Option<Loss>,
}

const RUN: Run = Run { n: 1000, law: Law::LogNormal, correlation: 0.0, stretch: 1.0, late: 0.0, loss: None };

impl Run {
    fn side(&self, label: &str, random: &mut Random) -> ComparisonSide {
        let fresh = (1.0 - self.correlation * self.correlation).sqrt();
        let mut x = random.normal();
        let mut delay = || {
            x = self.correlation * x + fresh * random.normal();
            let above = match self.law {
                Law::Normal => 5.0 + x,
                Law::LogNormal => (0.6 * x).exp(),
                Law::Exponential => -(libm::erfc(x * core::f64::consts::FRAC_1_SQRT_2) / 2.0).ln(),
            };
            let late = if self.late > 0.0 && random.uniform() < self.late { 20e6 } else { 0.0 };
            10_000_000 + (1e6 * above * self.stretch + late) as i64
        };
        let delays: Vec<i64> = (0..self.n).map(|_| delay()).collect();
        let (mut events, mut lost) = (EventCounts::default(), 0);
        if let Some(Loss { share, bad, within }) = self.loss {
            let bad_share = share / within;
            let (leave, enter) = (1.0 / bad, bad_share / (1.0 - bad_share) / bad);
            let mut is_bad = random.uniform() < bad_share;
            for k in 0..self.n as u64 {
                if is_bad && random.uniform() < within {
                    (lost, _) = (lost + 1, events.push(k, 1));
                }
                is_bad = if is_bad { random.uniform() >= leave } else { random.uniform() < enter };
            }
        }
        let least = delays.iter().copied().min().unwrap_or(0);
        let values: Vec<i64> = delays.iter().map(|d| d - least).collect();
        let n = self.n as u64;
        ComparisonSide {
            label: label.into(),
            minimum_error: minimum_error(&values).unwrap_or(f64::INFINITY),
            values,
            loss: Some((lost, n)),
            loss_events: vec![(events.share(n, n), lost)],
            ..ComparisonSide::default()
        }
    }
}

/// Number of comparisons by result.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    tests: u32,
    worse: u32,
    better: u32,
    same: u32,
}

impl Rates {
    fn of(a: Run, b: Run, statistic: Statistic, tests: u32, seed: u64) -> Rates {
        let mut rates = Rates { tests, ..Rates::default() };
        let settings = ComparisonSettings { statistic, ..ComparisonSettings::default() };
        // Each kind of path has other random numbers, so that rows of a table are independent.
        let kind =
            [a.n as f64, a.correlation, b.stretch, b.late, a.loss.map_or(0.0, |loss| loss.bad + loss.share)];
        let kind =
            kind.iter().fold(a.law as u64, |sum, x| sum.wrapping_mul(31).wrapping_add(x.to_bits() >> 32));
        for k in 0..u64::from(tests) {
            let mut random =
                Random::new(seed.wrapping_mul(1_000_003).wrapping_add(kind << 20).wrapping_add(k));
            let (a, b) = (a.side("a", &mut random), b.side("b", &mut random));
            match SideChange::of(&compare(&a, &b, &settings)) {
                SideChange::Worse => rates.worse += 1,
                SideChange::Better | SideChange::Mixed => rates.better += 1,
                SideChange::Same => rates.same += 1,
                SideChange::Undecided | SideChange::Refused => {}
            }
        }
        rates
    }

    /// Returns the rate of comparisons of equal paths that end with worse or better.
    fn false_alarms(&self) -> f64 {
        f64::from(self.worse + self.better) / f64::from(self.tests)
    }

    fn percent(&self, count: u32) -> f64 {
        100.0 * f64::from(count) / f64::from(self.tests)
    }
}

fn clustered(share: f64, bad: f64, within: f64) -> Run {
    Run { loss: Some(Loss { share, bad, within }), ..RUN }
}

#[test]
fn equal_paths_are_not_said_to_differ() {
    let paths = [
        Run { correlation: 0.9, ..RUN },
        Run { correlation: 0.5, law: Law::Normal, ..RUN },
        Run { correlation: 0.9, law: Law::Exponential, n: 300, ..RUN },
        clustered(0.02, 8.0, 1.0),
        clustered(0.02, 20.0, 0.5),
        clustered(0.03, 3.0, 1.0),
    ];
    let (mut alarms, mut tests) = (0, 0);
    for (path, seed) in paths.into_iter().zip(1..) {
        let rates = Rates::of(path, path, Statistic::Median, 40, seed);
        // With 40 tests a rate of 6 % gives more than 6 alarms in 1 % of cases.
        assert!(rates.worse + rates.better <= 6, "{path:?}: {rates:?}");
        (alarms, tests) = (alarms + rates.worse + rates.better, tests + rates.tests);
    }
    assert!(f64::from(alarms) / f64::from(tests) <= 0.06, "{alarms} of {tests}");
}

#[test]
fn a_real_difference_is_not_said_to_be_none() {
    let slower = |n, stretch| (Run { n, ..RUN }, Run { n, stretch, ..RUN });
    let of = |(a, b), statistic, seed| Rates::of(a, b, statistic, 30, seed);
    let few = of(slower(100, 1.3), Statistic::Median, 11);
    assert_eq!((few.same, few.better), (0, 0), "{few:?}");
    assert!(of(slower(1000, 1.3), Statistic::Median, 12).worse >= 20);
    let tail = (RUN, Run { late: 0.04, ..RUN });
    let [median, p99] = [Statistic::Median, Statistic::P99].map(|statistic| of(tail, statistic, 13));
    assert!(p99.worse >= 25 && p99.same == 0, "{p99:?}");
    assert!(median.worse <= 3, "{median:?}");
}

/// Runs `JITLAT_TESTS` comparisons for each row; with `JITLAT_PACKETS`, only for runs of this length.
#[test]
#[ignore = "takes minutes: just compare-rates"]
#[expect(clippy::print_stdout, reason = "a table for people")]
fn table() {
    let number =
        |name: &str, otherwise| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise);
    let (tests, seed): (u32, _) = (number("JITLAT_TESTS", 200), u64::from(number("JITLAT_SEED", 1)));
    let only: Option<usize> = std::env::var("JITLAT_PACKETS").ok().and_then(|n| n.parse().ok());
    let sizes = |n: usize| if n > 3000 && only.is_none() { tests.div_ceil(4) } else { tests };
    let chosen = |n: &usize| only.is_none_or(|only| only == *n);
    let mut highest: f64 = 0.0;
    let quarter = if only.is_none() { " (a quarter of 10 000 packets)" } else { "" };
    let mut text = format!("{tests} comparisons per row{quarter}, seed {seed}.\n\n");
    text += "| equal delays | packets | autocorrelation | worse or better, median | same | worse or better, p99 | same |\n\
             |---|---:|---:|---:|---:|---:|---:|\n";
    for law in [Law::LogNormal, Law::Normal, Law::Exponential] {
        for n in [100, 300, 1000, 3000, 10_000].into_iter().filter(chosen) {
            for correlation in [0.0, 0.5, 0.9, 0.95] {
                let run = Run { n, law, correlation, ..RUN };
                let [median, p99] =
                    [Statistic::Median, Statistic::P99].map(|s| Rates::of(run, run, s, sizes(n), seed));
                if tests >= 200 && sizes(n) == tests {
                    highest = highest.max(median.false_alarms()).max(p99.false_alarms());
                }
                let _ = writeln!(
                    text,
                    "| {law:?} | {n} | {correlation} | {:.1} % | {:.0} % | {:.1} % | {:.0} % |",
                    100.0 * median.false_alarms(),
                    median.percent(median.same),
                    100.0 * p99.false_alarms(),
                    p99.percent(p99.same)
                );
            }
        }
    }
    text += "\n| equal losses | packets | packets in a bad state | lost in it | worse or better |\n|---:|---:|---:|---:|---:|\n";
    for share in [0.01, 0.03] {
        for (bad, within) in [(1.0, 1.0), (3.0, 1.0), (8.0, 1.0), (20.0, 1.0), (8.0, 0.5), (20.0, 0.5)] {
            for n in [1000, 3000, 10_000].into_iter().filter(chosen) {
                let run = Run { n, ..clustered(share, bad, within) };
                let rates = Rates::of(run, run, Statistic::Median, sizes(n), seed);
                if tests >= 200 && sizes(n) == tests {
                    highest = highest.max(rates.false_alarms());
                }
                let _ = writeln!(
                    text,
                    "| {} % | {n} | {bad} | {} % | {:.1} % |",
                    100.0 * share,
                    100.0 * within,
                    100.0 * rates.false_alarms()
                );
            }
        }
    }
    text += "\n| difference | packets | autocorrelation | worse | same | better |\n|---|---:|---:|---:|---:|---:|\n";
    let mut power = |name: &str, a: Run, b: Run, statistic| {
        for n in [100, 300, 1000, 3000, 10_000].into_iter().filter(chosen) {
            let rates = Rates::of(Run { n, ..a }, Run { n, ..b }, statistic, sizes(n), seed);
            let _ = writeln!(
                text,
                "| {name} | {n} | {} | {:.0} % | {:.0} % | {:.1} % |",
                a.correlation,
                rates.percent(rates.worse),
                rates.percent(rates.same),
                rates.percent(rates.better)
            );
        }
    };
    for (name, stretch) in [("jitter +10 %", 1.1), ("jitter +30 %", 1.3)] {
        for correlation in [0.0, 0.5, 0.9] {
            let run = Run { correlation, ..RUN };
            power(name, run, Run { stretch, ..run }, Statistic::Median);
        }
    }
    for (name, statistic) in
        [("4 % are 20 ms later, p99", Statistic::P99), ("4 % are 20 ms later, median", Statistic::Median)]
    {
        power(name, RUN, Run { late: 0.04, ..RUN }, statistic);
    }
    for (name, bad) in [("loss 1 % to 3 %, isolated", 1.0), ("loss 1 % to 3 %, bursts of 8", 8.0)] {
        power(name, clustered(0.01, bad, 1.0), clustered(0.03, bad, 1.0), Statistic::Median);
    }
    println!("{text}");
    // A true rate of 6 % gives 9.5 % or more among 200 tests in 3 % of rows.
    assert!(highest < 0.1, "false alarms: {highest}");
}
