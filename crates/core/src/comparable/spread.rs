//! [`ResampledSpread`]: the uncertainty of a run's median and 99th percentile, and confidence intervals for
//! the difference of two runs.

use crate::distribution::percentile::{Method, Percent, rank};
use crate::distribution::sample::Sample;
use crate::metrics::bootstrap::{MIN_VALUES, block_length, resample};
use crate::metrics::stat::t_quantile;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Number of values stored per statistic.
const VALUES_PER_STATISTIC: usize = 99;
/// Maximum number of packets to resample; a single run with more is divided into batches.
const MAX_RESAMPLED_PACKETS: usize = 20_000;
/// Maximum number of values drawn in total.
const MAX_DRAWS: usize = 8_000_000;
const BATCHES: usize = 20;

/// Medians and 99th percentiles that a repetition of the run could be expected to show: 99 equally likely values of
/// each, ascending, in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResampledSpread {
    /// Method that produced these values.
    pub from: SpreadMethod,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Number of resampled series; 0 for batches.
    pub resamples: u32,
    /// Number of consecutive packets drawn together; for batches, packets per batch.
    pub block: u64,
    /// Medians, in ns.
    pub median: Vec<f64>,
    /// 99th percentiles, in ns.
    pub p99: Vec<f64>,
}

/// Method that produced a [`ResampledSpread`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SpreadMethod {
    /// A moving-block bootstrap.
    Bootstrap,
    /// 20 consecutive batches, with Student's t distribution around the statistic of the whole run.
    Batches,
}

impl ResampledSpread {
    /// Computes the spread of one run, or of several pooled runs. `all` contains the same values, sorted. `None` if
    /// there are too few values.
    pub fn of(runs: &[&[i64]], all: &Sample, seed: u64) -> Option<ResampledSpread> {
        let n: usize = runs.iter().map(|r| r.len()).sum();
        if n < MIN_VALUES {
            return None;
        }
        if let ([run], true) = (runs, n > MAX_RESAMPLED_PACKETS) {
            return ResampledSpread::batches(run, all, seed);
        }
        let longest = runs.iter().max_by_key(|r| r.len()).copied().unwrap_or_default();
        let resamples = (MAX_DRAWS / n).clamp(if runs.len() > 1 { 200 } else { 400 }, 2000) as u32;
        let block = block_length(longest, correlated(longest));
        let [_, median, p99] = resample(runs, block, resamples, seed).map(equally_likely);
        Some(ResampledSpread {
            from: SpreadMethod::Bootstrap,
            seed,
            resamples,
            block: block as u64,
            median: median?,
            p99: p99?,
        })
    }

    /// Computes the spread by sectioning: the variation between batches shows how reliable the statistic of the whole
    /// run is. `None` without values.
    fn batches(values: &[i64], all: &Sample, seed: u64) -> Option<ResampledSpread> {
        let size = values.len() / BATCHES;
        let mut batch = Vec::with_capacity(size);
        let mut at = |values: &[i64], p| {
            batch.clear();
            batch.extend_from_slice(values);
            let k = rank(batch.len(), Percent(p), Method::Edf)?;
            Some(*batch.select_nth_unstable(k).1 as f64)
        };
        let mut of = |p| {
            let whole = all.edf(Percent(p))?.saturating_sub(all.min()?) as f64;
            let each: Vec<f64> = values.chunks_exact(size).take(BATCHES).filter_map(|b| at(b, p)).collect();
            let squares: f64 = each.iter().map(|x| (x - whole).powi(2)).sum();
            let error = (squares / (BATCHES * (BATCHES - 1)) as f64).sqrt();
            Some(deviates().iter().map(|t| whole + error * t).collect())
        };
        Some(ResampledSpread {
            from: SpreadMethod::Batches,
            seed,
            resamples: 0,
            block: size as u64,
            median: of(50_000)?,
            p99: of(99_000)?,
        })
    }

    /// Returns true if [`ResampledSpread::of`] can have produced this value.
    pub(super) fn is_sound(&self) -> bool {
        [&self.median, &self.p99].iter().all(|v| {
            v.len() == VALUES_PER_STATISTIC
                && v.iter().all(|x| x.is_finite())
                && v.is_sorted_by(|x, y| x <= y)
        })
    }
}

/// Returns the cumulative probability of stored value `j`.
fn probability(j: usize) -> f64 {
    (j as f64 + 0.5) / VALUES_PER_STATISTIC as f64
}

/// Returns equally likely values of Student's t for the number of batches.
fn deviates() -> &'static [f64; VALUES_PER_STATISTIC] {
    static DEVIATES: OnceLock<[f64; VALUES_PER_STATISTIC]> = OnceLock::new();
    DEVIATES.get_or_init(|| core::array::from_fn(|j| t_quantile(probability(j), BATCHES as u64 - 1)))
}

fn equally_likely(mut values: Vec<f64>) -> Option<Vec<f64>> {
    values.sort_by(f64::total_cmp);
    let at = |j: usize| values.get((probability(j) * values.len() as f64) as usize).copied();
    (0..VALUES_PER_STATISTIC).map(at).collect()
}

/// Returns the 95 % confidence interval of y − x, computed from equally likely values of both. x and y are independent,
/// so every pair is equally likely. `None` if either has no values.
pub fn interval(x: &[f64], y: &[f64]) -> Option<[f64; 2]> {
    let mut change: Vec<f64> = y.iter().flat_map(|y| x.iter().map(move |x| y - x)).collect();
    change.sort_by(f64::total_cmp);
    let at = |p| rank(change.len(), Percent(p), Method::Edf).map(|k| change[k]);
    Some([at(2_500)?, at(97_500)?])
}

/// Returns true if consecutive values are correlated.
fn correlated(values: &[i64]) -> bool {
    let n = values.len() as f64;
    let origin = values.first().copied().unwrap_or_default();
    let above: Vec<f64> = values.iter().map(|x| x.saturating_sub(origin) as f64).collect();
    let mean = above.iter().sum::<f64>() / n;
    let squares: f64 = above.iter().map(|x| (x - mean).powi(2)).sum();
    let products: f64 = above.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    squares > 0.0 && (products / squares).abs() > 2.0 / n.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    #[test]
    fn batches_contain_the_truth_as_often_as_they_say() {
        let spread = |seed: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let values: Vec<i64> =
                (0..=MAX_RESAMPLED_PACKETS).map(|_| i64::from(rng.next_u32() >> 8)).collect();
            ResampledSpread::of(&[&values], &Sample::new(values.iter().copied()), 1).unwrap()
        };
        let pairs: Vec<(ResampledSpread, ResampledSpread)> =
            (0..100).map(|k| (spread(2 * k), spread(2 * k + 1))).collect();
        for of in [|s: &ResampledSpread| s.median.clone(), |s: &ResampledSpread| s.p99.clone()] {
            let holds = |[low, high]: [f64; 2]| low <= 0.0 && 0.0 <= high;
            let held = pairs.iter().filter(|(x, y)| holds(interval(&of(x), &of(y)).unwrap())).count();
            assert!((90..=100).contains(&held), "{held} of 100");
        }
        let (low, high) = (pairs[0].0.median[0], pairs[0].0.median[VALUES_PER_STATISTIC - 1]);
        let whole = pairs[0].0.median[VALUES_PER_STATISTIC / 2];
        assert!(((high - whole) - (whole - low)).abs() < 1e-3, "symmetrical: {low} {whole} {high}");
    }
}
