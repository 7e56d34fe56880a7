//! [`Archive::compare_parts`]: figures of each stream before and after a point in time, with an interval of each change.
//!
//! Packets of one test resemble each other, and so do tests of one hour. The interval therefore comes from groups of
//! consecutive tests: each part is divided into at most 40 groups, the figure is computed without each group in turn (the
//! delete-a-group jackknife, Kott 2001; in order of time it is the block jackknife of Künsch 1989), and the variances of both
//! parts are combined with Student's t and Welch's degrees of freedom.

use crate::error::ArchiveError;
use crate::find::{Filter, When};
use crate::{Archive, PoolPeriod, PooledStream};
use jitlat_core::distribution::percentile::Percent;
use jitlat_core::metrics::stat::t_quantile;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::{Scalar, ScalarUnit};

/// Maximum number of groups into which a part is divided; even.
const MAX_GROUPS: usize = 40;
/// Minimum number of hours with tests for which groups consist of hours, which are read from roll-ups; with fewer, of tests.
const MIN_HOURS: usize = 20;
/// Minimum number of groups of a part for which changes have intervals.
const MIN_GROUPS: usize = 8;
/// Minimum number of packets per group above a percentile that has an interval.
const MIN_ABOVE: f64 = 5.0;
/// Confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Size of one part of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSize {
    /// Number of tests.
    pub tests: u64,
    /// Number of packets sent in these tests.
    pub sent: u64,
    /// Number of groups of consecutive tests that the intervals are computed from.
    pub groups: usize,
}

/// Result of the comparison of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It is higher after the time: the interval of the change is above 0.
    Higher,
    /// It is lower after the time: the interval of the change is below 0.
    Lower,
    /// The interval of the change contains 0: a change is neither shown nor excluded.
    Undecided,
    /// The change has no interval.
    Unknown,
}

impl ChangeOutcome {
    /// Returns the name that all outputs use.
    pub fn name(self) -> &'static str {
        match self {
            ChangeOutcome::Higher => "higher",
            ChangeOutcome::Lower => "lower",
            ChangeOutcome::Undecided => "undecided",
            ChangeOutcome::Unknown => "unknown",
        }
    }
}

/// A figure before and after a point in time.
#[derive(Clone, Copy, Debug)]
pub struct PeriodChange {
    /// The figure.
    pub figure: &'static Scalar,
    /// Value of all packets before the time, in the figure's unit; `None` if undefined.
    pub before: Option<f64>,
    /// Value of all packets after the time, in the figure's unit; `None` if undefined.
    pub after: Option<f64>,
    /// 95 % interval of `after` minus `before`; `None` if either side has fewer than eight groups of tests, for extremes and
    /// counts, for a percentile with few packets above it, and if the figure does not vary.
    pub interval: Option<(f64, f64)>,
}

impl PeriodChange {
    /// Returns `after` minus `before`; `None` if either is undefined.
    pub fn change(&self) -> Option<f64> {
        self.before.zip(self.after).map(|(before, after)| after - before)
    }

    /// Returns what is known about the change.
    pub fn outcome(&self) -> ChangeOutcome {
        match self.interval {
            None => ChangeOutcome::Unknown,
            Some((low, _)) if low > 0.0 => ChangeOutcome::Higher,
            Some((_, high)) if high < 0.0 => ChangeOutcome::Lower,
            Some(_) => ChangeOutcome::Undecided,
        }
    }
}

/// A stream before and after a point in time.
#[derive(Clone, Debug)]
pub struct ComparedParts {
    /// The stream.
    pub stream: PooledStream,
    /// Size of the part before the time.
    pub before: PartSize,
    /// Size of the part after the time.
    pub after: PartSize,
    /// The figures, in the order in which they were requested.
    pub figures: Vec<PeriodChange>,
}

/// One part of a comparison.
struct Part {
    whole: Pool,
    /// Pools of the part without each of its groups in turn.
    without: Vec<Pool>,
}

impl Part {
    fn of(groups: &[Pool]) -> Part {
        // With sums of the groups from the end, each pool is merged only three times, however many groups there are.
        let mut later = vec![Pool::default()];
        for group in groups.iter().rev() {
            later.push(sum(&[group.clone(), later[later.len() - 1].clone()]));
        }
        let (mut earlier, mut without) = (Pool::default(), Vec::new());
        for (k, group) in groups.iter().enumerate() {
            without.push(sum(&[earlier.clone(), later[groups.len() - 1 - k].clone()]));
            earlier.merge(group);
        }
        Part { whole: earlier, without }
    }

    fn size(&self) -> PartSize {
        PartSize { tests: self.whole.tests, sent: self.whole.sent, groups: self.without.len() }
    }

    /// Returns the variance of a figure, and its degrees of freedom; `None` if it is unknown.
    fn variance(&self, figure: &Scalar) -> Option<(f64, f64)> {
        let groups = self.without.len();
        if groups < MIN_GROUPS || !has_interval(figure, self.whole.sent, groups) {
            return None;
        }
        let values: Vec<f64> = self.without.iter().map(|pool| pool.scalar(figure)).collect::<Option<_>>()?;
        let n = groups as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = (n - 1.0) / n * values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        // Without any observed packet the variance would be 0, but the share may still be that of one packet.
        let least = if figure.unit == ScalarUnit::Share {
            (1.0 / self.whole.sent.max(1) as f64).powi(2)
        } else {
            0.0
        };
        Some((variance.max(least), n - 1.0))
    }
}

/// Returns true if the jackknife applies to a figure of `sent` packets in `groups` groups: to shares, means, and percentiles with enough
/// packets above them. Extremes have no such interval.
fn has_interval(figure: &Scalar, sent: u64, groups: usize) -> bool {
    if figure.is_computed() {
        return false;
    }
    let what = figure.key.split_once('-').map_or("", |(_, what)| what);
    let percent = what.strip_prefix('p').and_then(|p| p.parse::<Percent>().ok());
    match percent {
        Some(Percent(p)) => {
            let beyond = f64::from(p.min(100_000 - p.min(100_000))) / 100_000.0;
            beyond * sent as f64 >= MIN_ABOVE * groups as f64
        }
        None => figure.unit == ScalarUnit::Share || ["median", "mean", "mean-abs"].contains(&what),
    }
}

/// Returns the 95 % interval of the difference of a figure between two parts; `None` if it is unknown.
fn interval(figure: &Scalar, before: &Part, after: &Part) -> Option<(f64, f64)> {
    let change = after.whole.scalar(figure)? - before.whole.scalar(figure)?;
    let ((a, a_df), (b, b_df)) = (before.variance(figure)?, after.variance(figure)?);
    let sum = a + b;
    if sum <= 0.0 {
        return None;
    }
    let df = sum.powi(2) / (a.powi(2) / a_df + b.powi(2) / b_df);
    let half = t_quantile(0.5 + CONFIDENCE / 2.0, (df.floor() as u64).max(1)) * sum.sqrt();
    Some((change - half, change + half))
}

impl Archive {
    /// Compares each stream that matches `filter` before and after `at`, in `figures`. Streams without tests in one of the parts are left out.
    ///
    /// # Errors
    /// [`ArchiveError::Usage`] for a figure that cannot be pooled, and other errors if the catalogue cannot be read.
    pub fn compare_parts(
        &self,
        filter: &Filter,
        at: When,
        figures: &[&'static Scalar],
    ) -> Result<Vec<ComparedParts>, ArchiveError> {
        crate::query::check(figures)?;
        let earlier = Filter { before: Some(at), ..filter.clone() };
        let later = Filter { since: Some(at), ..filter.clone() };
        let mut all = Vec::new();
        for (id, stream) in self.streams_of(filter)? {
            let before = Part::of(&self.groups(id, &earlier)?);
            if before.whole.tests == 0 {
                continue;
            }
            let after = Part::of(&self.groups(id, &later)?);
            if after.whole.tests == 0 {
                continue;
            }
            let change = |figure: &&'static Scalar| PeriodChange {
                figure,
                before: before.whole.scalar(figure),
                after: after.whole.scalar(figure),
                interval: interval(figure, &before, &after),
            };
            all.push(ComparedParts {
                stream,
                before: before.size(),
                after: after.size(),
                figures: figures.iter().map(change).collect(),
            });
        }
        Ok(all)
    }

    /// Returns the pools of at most [`MAX_GROUPS`] groups of consecutive tests. Tests that were removed have a share in roll-ups only.
    fn groups(&self, stream: i64, filter: &Filter) -> Result<Vec<Pool>, ArchiveError> {
        let (from, to) = filter.range();
        let mut groups = Groups::default();
        let hours = match filter.selects_single_tests() {
            true => Vec::new(),
            false => self.parts(stream, &|at| PoolPeriod::Hour.around(at), from, to)?,
        };
        if hours.len() >= MIN_HOURS || (!hours.is_empty() && self.has_removed_tests()?) {
            for (start, end) in hours {
                let (start, end) = (start.max(from), end.min(to));
                groups.add(&self.selected(stream, filter, PoolPeriod::Hour, start, end)?);
            }
        } else {
            self.each_test(stream, filter, |_, pool| groups.add(pool))?;
        }
        Ok(groups.finish())
    }
}

/// Groups of consecutive pools. The number of pools per group doubles whenever there are too many groups, so that memory is bounded and
/// groups have about the same size.
#[derive(Default)]
struct Groups {
    pools: Vec<Pool>,
    /// Number of pools that a complete group consists of.
    size: usize,
    /// Number of pools in the last group.
    last: usize,
}

impl Groups {
    fn add(&mut self, pool: &Pool) {
        if pool.tests == 0 {
            return;
        }
        if self.last == self.size {
            if self.pools.len() == MAX_GROUPS {
                let pairs = std::mem::take(&mut self.pools);
                self.pools.extend(pairs.chunks(2).map(sum));
                self.size *= 2;
            }
            self.size = self.size.max(1);
            self.pools.push(Pool::default());
            self.last = 0;
        }
        if let Some(group) = self.pools.last_mut() {
            group.merge(pool);
            self.last += 1;
        }
    }

    /// Returns the groups. The last one is added to the one before it if it is less than half as large as the others.
    fn finish(mut self) -> Vec<Pool> {
        if self.pools.len() > 1
            && self.last * 2 < self.size
            && let Some(rest) = self.pools.pop()
            && let Some(last) = self.pools.last_mut()
        {
            last.merge(&rest);
        }
        self.pools
    }
}

fn sum(pools: &[Pool]) -> Pool {
    let mut all = Pool::default();
    pools.iter().for_each(|pool| all.merge(pool));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Analyzer, Options, PacketRecord, Session, TestSpec, WallTime};

    /// Returns a test of 60 packets whose delays are around `level` µs.
    fn test(level: i64, seed: i64) -> Pool {
        let session = Session::new(TestSpec::default().with_packets(60).unwrap());
        let mut analyzer = Analyzer::new(&session, &Options::default());
        for i in 0..60 {
            let delay = level * 1000 + (i * 7919 + seed * 104_729) % 50_021;
            analyzer.push(&PacketRecord::one_way(
                i,
                WallTime(i * 1_000_000),
                WallTime(i * 1_000_000 + delay),
            ));
        }
        let (summary, samples) = analyzer.finish_with_samples(&session);
        Pool::of(&summary, &samples)
    }

    fn part(tests: i64, level: impl Fn(i64) -> i64) -> Part {
        let mut groups = Groups::default();
        (0..tests).for_each(|k| groups.add(&test(level(k), k)));
        Part::of(&groups.finish())
    }

    fn figure(key: &str) -> &'static Scalar {
        Scalar::named(key).unwrap()
    }

    #[test]
    fn the_pools_without_a_group_are_all_others() {
        let tests: Vec<Pool> = (0..9).map(|k| test(100 + k, k)).collect();
        let part = Part::of(&tests);
        for (k, without) in part.without.iter().enumerate() {
            let others = sum(&[&tests[..k], &tests[k + 1..]].concat());
            assert_eq!(without.scalar(figure("latency-mean")), others.scalar(figure("latency-mean")));
            assert_eq!(without.tests, 8);
        }
        assert_eq!(part.whole.tests, 9);
    }

    #[test]
    fn groups_are_bounded_in_number_and_lose_nothing() {
        for tests in [0, 1, 39, 40, 41, 81, 100, 400] {
            let mut groups = Groups::default();
            let pool = test(100, 1);
            (0..tests).for_each(|_| groups.add(&pool));
            let groups = groups.finish();
            assert_eq!(groups.iter().map(|group| group.tests).sum::<u64>(), tests);
            assert!(groups.len() <= MAX_GROUPS && groups.len() as u64 >= tests.min(20), "{tests}");
            let largest = groups.iter().map(|group| group.tests).max().unwrap_or(0);
            assert!(groups.iter().all(|group| group.tests * 2 >= largest.saturating_sub(1)), "{tests}");
        }
    }

    #[test]
    fn a_shift_is_shown_and_none_is_not() {
        // The level varies from test to test by ±20 µs: 60 packets of a test are not 60 observations of the level.
        let wanders = |k: i64| 100 + (k * 37) % 41 - 20;
        let (a, b) = (part(40, wanders), part(40, |k| wanders(k + 7)));
        let (low, high) = interval(figure("latency-mean"), &a, &b).unwrap();
        assert!(low < 0.0 && high > 0.0, "{low} {high}");
        let shifted = part(40, |k| wanders(k) + 60);
        let (low, high) = interval(figure("latency-mean"), &a, &shifted).unwrap();
        assert!(low > 0.0 && low < 60_000.0 && high > 60_000.0, "{low} {high}");
        assert!(interval(figure("latency-median"), &a, &shifted).unwrap().0 > 0.0);
        // No loss on either side: nothing excludes the loss of one packet.
        let (low, high) = interval(figure("loss"), &a, &b).unwrap();
        assert!(low < 0.0 && high > 0.0);
        // Extremes, percentiles beyond the data, and few tests have none.
        assert_eq!(interval(figure("latency-max"), &a, &shifted), None);
        assert_eq!(interval(figure("latency-p99.9"), &a, &shifted), None);
        assert_eq!(interval(figure("latency-mean"), &a, &part(7, wanders)), None);
    }

    /// Equal parts whose tests wander: the interval of the change should exclude 0 in about one pair of twenty.
    #[test]
    fn equal_parts_are_rarely_different() {
        let pairs = 40;
        let level = |k: i64| {
            100 + (k.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 33)
                .rem_euclid(41)
        };
        let mut wrong = 0;
        for pair in 0..pairs {
            let of = |side: i64| part(20, move |k| level((pair * 2 + side) * 1000 + k));
            let (low, high) = interval(figure("latency-mean"), &of(0), &of(1)).unwrap();
            wrong += i32::from(low > 0.0 || high < 0.0);
        }
        assert!(wrong <= 6, "{wrong} of {pairs}");
    }
}
