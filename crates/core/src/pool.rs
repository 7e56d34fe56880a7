//! [`Pool`]: the common statistics of many tests of the same traffic, without their packets.
//!
//! A [`SavedAnalysis`](crate::state::SavedAnalysis) joins tests one after the other into a single test, and stores
//! their packets. A pool stores only counts, sums and distributions. These are integers, so the order and grouping of
//! merges does not affect the figures. Figures are computed from all packets together, never as averages of tests.
//! Delay variation is relative to the smallest delay of each test (PDV), or to the previous packet (IPDV).
//!
//! ```
//! use jitlat_core::scalars::Scalar;
//! use jitlat_core::pool::Pool;
//! use jitlat_core::{Analyzer, Options, PacketRecord, Session, TestSpec, WallTime};
//!
//! let session = Session::new(TestSpec::default());
//! let mut pool = Pool::default();
//! for test in 0..3 {
//!     let mut analyzer = Analyzer::new(&session, &Options::default());
//!     (0..1000).for_each(|i| analyzer.push(&PacketRecord::one_way(i, WallTime(i * 1000), WallTime(i * 1000 + 700 + test))));
//!     let (summary, samples) = analyzer.finish_with_samples(&session);
//!     pool.merge(&Pool::of(&summary, &samples));
//! }
//! assert_eq!(pool.scalar(Scalar::named("received").unwrap()), Some(3000.0));
//! assert_eq!(pool.scalar(Scalar::named("latency-max").unwrap()), Some(702.0));
//! assert_eq!(pool.scalar(Scalar::named("mos").unwrap()), None);
//! ```

mod bytes;

pub use bytes::PoolScalar;

use crate::analysis::Samples;
use crate::distribution::log_histogram::{LogHistogram, Precision};
use crate::distribution::percentile::{Method, Percent};
use crate::metrics::ipdv;
use crate::scalars::{Better, SCALARS, Scalar};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Common statistics of the packets of several tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Number of tests.
    pub tests: u64,
    /// Number of packets sent that are known to be received or lost.
    pub sent: u64,
    /// Number of datagrams received.
    pub received: u64,
    /// Number of valid packets received, without duplicates.
    pub unique: u64,
    /// Number of further copies of accepted packets.
    pub duplicate: u64,
    /// Number of invalid rows.
    pub invalid: u64,
    /// Number of packets that did not arrive intact and in time.
    pub lost: u64,
    /// Number of reordered packets.
    pub out_of_sequence: u64,
    /// Number of loss bursts.
    pub loss_runs: u64,
    /// Length of the longest loss burst, in packets.
    pub longest_loss_run: u64,
    /// Distribution of the delays as measured, without clock correction.
    delay: Pooled,
    /// Distribution of the delays minus the smallest delay of the same test.
    pdv: Pooled,
    /// Distribution of the differences in delay between consecutive packets.
    ipdv: Pooled,
    /// Worst value among the tests, by key, of each metric that has no field of its own in summaries.
    #[serde(default)]
    worst: BTreeMap<String, f64>,
}

/// A distribution of values in ns, with exact sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pooled {
    /// Histogram with the origin 0: exact up to 1024 values; above that, percentiles are at most 1/1024 too high.
    values: LogHistogram,
    /// High and low half of the sum of the values.
    sum: (i64, u64),
    /// High and low half of the sum of the absolute values.
    sum_of_sizes: (i64, u64),
}

impl Default for Pooled {
    fn default() -> Pooled {
        Pooled { values: LogHistogram::around(0, Precision::STREAM), sum: (0, 0), sum_of_sizes: (0, 0) }
    }
}

fn whole((high, low): (i64, u64)) -> i128 {
    i128::from(high) << 64 | i128::from(low)
}

fn halves(sum: i128) -> (i64, u64) {
    ((sum >> 64) as i64, sum as u64)
}

impl Pooled {
    fn of(all: impl Iterator<Item = i64>) -> Pooled {
        let mut pooled = Pooled::default();
        let (mut sum, mut sizes) = (0i128, 0i128);
        for x in all {
            pooled.values.add(x);
            sum += i128::from(x);
            sizes += i128::from(x.unsigned_abs());
        }
        (pooled.sum, pooled.sum_of_sizes) = (halves(sum), halves(sizes));
        pooled
    }

    fn merge(&mut self, other: &Pooled) {
        self.values.merge(&other.values);
        self.sum = halves(whole(self.sum).wrapping_add(whole(other.sum)));
        self.sum_of_sizes = halves(whole(self.sum_of_sizes).wrapping_add(whole(other.sum_of_sizes)));
    }

    /// Returns the figure whose key consists of the name of the distribution and `what`; `None` if it is undefined or
    /// not a figure of distributions.
    fn scalar(&self, what: &str) -> Option<f64> {
        let at = |p| self.values.quantiles().percentile(p, Method::Edf);
        let extremes = self.values.min().zip(self.values.max());
        scalar_of(what, self.values.len(), extremes, [self.sum, self.sum_of_sizes], at)
    }
}

/// Returns the figure `what` of `n` values, computed from their extremes, sums and percentiles; `None` if it is
/// undefined or unknown.
fn scalar_of(
    what: &str,
    n: u64,
    extremes: Option<(i64, i64)>,
    [sum, sum_of_sizes]: [(i64, u64); 2],
    percentile: impl Fn(Percent) -> Option<i64>,
) -> Option<f64> {
    let mean = |sum| (n > 0).then(|| whole(sum) as f64 / n as f64);
    let at = |p| percentile(p).map(|x| x as f64);
    match what {
        "min" => extremes.map(|(low, _)| low as f64),
        "max" => extremes.map(|(_, high)| high as f64),
        "mean" => mean(sum),
        "mean-abs" => mean(sum_of_sizes),
        "median" => at(Percent(50_000)),
        _ => at(what.strip_prefix('p')?.parse().ok()?),
    }
}

/// Returns true if pools have this scalar. Pools have counts and ratios of counts, order statistics and means of delay
/// and delay variation, and, for metrics that have no field of their own in summaries, the worst value among the tests.
/// All other scalars only apply to a single test.
pub fn has(scalar: &Scalar) -> bool {
    let key = scalar.key;
    let of_delays = ["latency-", "pdv-", "ipdv-"].iter().find_map(|family| key.strip_prefix(family));
    let percentile = |what: &str| what.strip_prefix('p').is_some_and(|p| p.parse::<Percent>().is_ok());
    is_worst_of_tests(scalar)
        || COUNTED.iter().any(|(name, _)| *name == key)
        || of_delays.is_some_and(|what| ["min", "max", "mean", "median"].contains(&what) || percentile(what))
        || key == "ipdv-mean-abs"
}

/// Returns true if a pool contains the worst value among its tests for this scalar.
fn is_worst_of_tests(scalar: &Scalar) -> bool {
    scalar.is_computed() && scalar.better != Better::Neither
}

type PoolCount = (&'static str, fn(&Pool) -> Option<f64>);

/// Figures computed from counts, by key.
const COUNTED: [PoolCount; 14] = [
    ("sent", |p| Some(p.sent as f64)),
    ("received", |p| Some(p.received as f64)),
    ("unique-valid", |p| Some(p.unique as f64)),
    ("duplicate", |p| Some(p.duplicate as f64)),
    ("invalid", |p| Some(p.invalid as f64)),
    ("lost", |p| Some(p.lost as f64)),
    ("out-of-sequence", |p| Some(p.out_of_sequence as f64)),
    ("loss", |p| ratio(p.lost, p.sent)),
    ("duplicates", |p| ratio(p.duplicate, p.received)),
    ("invalid-ratio", |p| ratio(p.invalid, p.received)),
    ("reordered", |p| ratio(p.out_of_sequence, p.unique)),
    ("loss-runs", |p| Some(p.loss_runs as f64)),
    ("loss-run-longest", |p| (p.loss_runs > 0).then_some(p.longest_loss_run as f64)),
    ("loss-run-mean", |p| ratio(p.lost, p.loss_runs)),
];

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Pool {
    /// Creates a pool of one test from its summary and its accepted packets.
    pub fn of(summary: &Summary, samples: &Samples) -> Pool {
        let counts = &summary.counts;
        let figure = |key| Scalar::named(key).and_then(|f| f.of(summary)).map_or(0, |n| n.as_f64() as u64);
        let of_the_test = |s: &Scalar| Some((s.key.to_owned(), s.of(summary)?.as_f64()));
        let smallest = samples.delay.iter().copied().min().unwrap_or(0);
        Pool {
            tests: 1,
            sent: counts.sent,
            received: counts.received,
            unique: counts.unique_valid,
            duplicate: counts.duplicate,
            invalid: counts.invalid,
            lost: counts.lost,
            out_of_sequence: counts.out_of_sequence,
            loss_runs: figure("loss-runs"),
            longest_loss_run: figure("loss-run-longest"),
            delay: Pooled::of(samples.delay.iter().copied()),
            pdv: Pooled::of(samples.delay.iter().map(|d| d.saturating_sub(smallest))),
            ipdv: Pooled::of(ipdv::steps(samples).into_iter()),
            worst: SCALARS.iter().filter(|s| is_worst_of_tests(s)).filter_map(of_the_test).collect(),
        }
    }

    /// Adds all tests of `other`. The caller must ensure that no test is in both.
    pub fn merge(&mut self, other: &Pool) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        add(&mut self.tests, other.tests);
        add(&mut self.sent, other.sent);
        add(&mut self.received, other.received);
        add(&mut self.unique, other.unique);
        add(&mut self.duplicate, other.duplicate);
        add(&mut self.invalid, other.invalid);
        add(&mut self.lost, other.lost);
        add(&mut self.out_of_sequence, other.out_of_sequence);
        add(&mut self.loss_runs, other.loss_runs);
        self.longest_loss_run = self.longest_loss_run.max(other.longest_loss_run);
        self.delay.merge(&other.delay);
        self.pdv.merge(&other.pdv);
        self.ipdv.merge(&other.ipdv);
        for (key, theirs) in &other.worst {
            let higher_is_better = Scalar::named(key).is_some_and(|s| s.better == Better::Higher);
            let worse = if higher_is_better { f64::min } else { f64::max };
            self.worst.entry(key.clone()).and_modify(|mine| *mine = worse(*mine, *theirs)).or_insert(*theirs);
        }
    }

    /// Returns a figure of all packets together, in its own unit; `None` if it is undefined, or if [pools do not have
    /// it](has).
    pub fn scalar(&self, scalar: &Scalar) -> Option<f64> {
        if !has(scalar) {
            return None;
        }
        if is_worst_of_tests(scalar) {
            return self.worst.get(scalar.key).copied();
        }
        if let Some((_, of)) = COUNTED.iter().find(|(key, _)| *key == scalar.key) {
            return of(self);
        }
        let (family, what) = scalar.key.split_once('-')?;
        match family {
            "latency" => self.delay.scalar(what),
            "pdv" => self.pdv.scalar(what),
            _ => self.ipdv.scalar(what),
        }
    }

    /// Returns the delays as measured, in ns; between two hosts they include the clock offset.
    pub fn delays(&self) -> &LogHistogram {
        &self.delay.values
    }

    /// Returns the delays minus the smallest delay of the same test, in ns.
    pub fn variations(&self) -> &LogHistogram {
        &self.pdv.values
    }

    /// Returns the sum of [`Pool::delays`], in ns.
    pub fn delay_sum(&self) -> i128 {
        whole(self.delay.sum)
    }

    /// Returns the sum of [`Pool::variations`], in ns.
    pub fn variation_sum(&self) -> i128 {
        whole(self.pdv.sum)
    }

    /// Returns true if the stored values can be those of a pool. Checks only the properties that computations rely on.
    pub fn is_possible(&self) -> bool {
        [&self.delay, &self.pdv, &self.ipdv].iter().all(|p| p.values.is_possible(p.values.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalars::{ExactNumber, SCALARS};
    use crate::{Analyzer, Options, PacketRecord, Session, TestSpec, WallTime};
    use proptest::prelude::*;

    /// Analyses packets with the given delays; every seventh packet is lost, and some are reordered.
    fn analysed(delays: &[i64]) -> (Summary, Samples) {
        let spec = TestSpec::default().with_packets(delays.len().max(1) as u64).unwrap();
        let session = Session { sent: Some(delays.len() as u32), ..Session::new(spec) };
        let mut analyzer = Analyzer::new(&session, &Options::default());
        for (k, delay) in (0i64..).zip(delays).filter(|(k, _)| k % 7 != 3) {
            analyzer.push(&PacketRecord::one_way(k ^ 1, WallTime(k * 1000), WallTime(k * 1000 + delay)));
        }
        analyzer.finish_with_samples(&session)
    }

    fn figures(pool: &Pool) -> Vec<Option<f64>> {
        SCALARS.iter().map(|f| pool.scalar(f)).collect()
    }

    #[test]
    fn the_pool_of_one_test_has_the_figures_of_the_test() {
        let delays: Vec<i64> = (0..900).map(|k| 1_000_000 + (k * 7919) % 4001).collect();
        let (summary, samples) = analysed(&delays);
        let pool = Pool::of(&summary, &samples);
        for scalar in SCALARS.iter().filter(|f| has(f)) {
            let (theirs, mine) = (scalar.of(&summary).map(ExactNumber::as_f64), pool.scalar(scalar));
            let near = theirs.zip(mine).is_some_and(|(a, b)| (a - b).abs() <= a.abs() * 1e-9 + 1.0);
            assert!(theirs == mine || near, "{}: {theirs:?} and {mine:?}", scalar.key);
        }
        assert!(SCALARS.iter().filter(|f| has(f)).count() > 30, "most are there");
        for of in [pool.delays(), pool.variations()] {
            assert_eq!(of.counted().map(|(_, times)| times).sum::<u64>(), pool.unique);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_order_and_any_groups_give_the_same(
            tests in prop::collection::vec(prop::collection::vec(-1_000_000i64..1_000_000_000, 1..1500), 2..6),
            by in 0usize..6,
        ) {
            let pools: Vec<Pool> = tests.iter().map(|t| analysed(t)).map(|(s, p)| Pool::of(&s, &p)).collect();
            let all = |pools: &mut dyn Iterator<Item = &Pool>| {
                let mut pool = Pool::default();
                pools.for_each(|p| pool.merge(p));
                pool
            };
            let one_by_one = all(&mut pools.iter());
            let (first, second) = pools.split_at(by % pools.len());
            let grouped = all(&mut [all(&mut second.iter().rev()), all(&mut first.iter())].iter());
            prop_assert_eq!(figures(&one_by_one), figures(&grouped));
            prop_assert!(grouped.is_possible());
            for pool in pools.iter().chain([&grouped, &Pool::default()]) {
                let bytes = pool.to_bytes();
                let read = Pool::from_bytes(&bytes).unwrap();
                prop_assert_eq!(figures(&read), figures(pool));
                for scalar in &SCALARS {
                    let of = PoolScalar { tests: pool.tests, sent: pool.sent, value: pool.scalar(scalar) };
                    prop_assert_eq!(PoolScalar::from_bytes(&bytes, scalar).unwrap(), of);
                }
                let delays = Pool::delays_from_bytes(&bytes).unwrap();
                prop_assert_eq!((delays.delays(), delays.variations()), (read.delays(), read.variations()));
                prop_assert_eq!((delays.sent, delays.lost, delays.tests), (read.sent, read.lost, read.tests));
                prop_assert_eq!(read.to_bytes(), bytes);
                // Merging them gives the same, too.
                let mut twice = (read.clone(), pool.clone());
                twice.0.merge(&grouped);
                twice.1.merge(&grouped);
                prop_assert_eq!(figures(&twice.0), figures(&twice.1));
            }
        }
    }

    #[test]
    fn of_a_metric_without_a_field_the_worst_test_counts() {
        let (summary, samples) = analysed(&[5, 7, 9]);
        let with = |value| {
            let worst = BTreeMap::from([("new".to_owned(), value)]);
            Pool { worst, ..Pool::of(&summary, &samples) }
        };
        let mut pool = with(3.0);
        [with(7.5), Pool::of(&summary, &samples), with(-1.0)].iter().for_each(|other| pool.merge(other));
        assert_eq!(pool.worst["new"], 7.5);
        let bytes = pool.to_bytes();
        assert_eq!(Pool::from_bytes(&bytes).unwrap().worst, pool.worst);
        assert!((0..bytes.len()).all(|cut| Pool::from_bytes(&bytes[..cut]).is_none()));
    }

    #[test]
    fn bytes_of_a_pool_may_be_anything() {
        let delays: Vec<i64> = (0..3000).map(|k| 1_000_000 + (k * 7919) % 400_001).collect();
        for n in [0, 5, 900, 3000] {
            let (summary, samples) = analysed(&delays[..n]);
            let bytes = Pool::of(&summary, &samples).to_bytes();
            let p99 = Scalar::named("pdv-p99").unwrap();
            for at in (0..60.min(bytes.len())).chain((60..bytes.len()).step_by(1 + bytes.len() / 40)) {
                assert!(Pool::from_bytes(&bytes[..at]).is_none(), "{n} packets, cut at {at}");
                for value in [0, 1, 0x80, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = PoolScalar::from_bytes(&changed, p99);
                    if let Some(mut pool) = Pool::from_bytes(&changed) {
                        pool.merge(&pool.clone());
                        pool.scalar(p99);
                    }
                }
            }
        }
    }
}
