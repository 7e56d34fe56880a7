//! Intervals of a difference between two runs, or two groups of runs.

use super::Side;
use crate::metrics::bootstrap::{FEWEST_VALUES, block_length, resample};
use crate::metrics::percentile::{Method, Percent, rank};
use crate::metrics::stat::t_quantile;

/// Intervals of the differences of medians and of 99th percentiles.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    /// Of the medians.
    pub median: [f64; 2],
    /// Of the 99th percentiles.
    pub p99: [f64; 2],
}

impl Spread {
    /// Above this the values are many enough for batches, and too many to resample.
    const RESAMPLED: usize = 200_000;
    const BUDGET: usize = 40_000_000;

    /// `None` where either has too few values to say.
    pub fn of(a: &Side, b: &Side, seed: u64) -> Option<Spread> {
        let longest = a.values.len().max(b.values.len());
        if a.values.len().min(b.values.len()) < FEWEST_VALUES {
            return None;
        }
        if longest > Spread::RESAMPLED && a.runs.len().max(b.runs.len()) < 2 {
            return Spread::batches(&a.values, &b.values);
        }
        let resamples = (Spread::BUDGET / longest).clamp(200, 2000) as u32;
        let draw = |side: &Side, seed| {
            let runs = side.runs();
            let longest = runs.iter().max_by_key(|r| r.len()).copied().unwrap_or_default();
            resample(&runs, block_length(longest, correlated(longest)), resamples, seed)
        };
        let [_, ma, pa] = draw(a, seed);
        let [_, mb, pb] = draw(b, seed.wrapping_add(1));
        let interval = |x: Vec<f64>, y: Vec<f64>| {
            let mut change: Vec<f64> = x.iter().zip(&y).map(|(x, y)| y - x).collect();
            change.sort_by(f64::total_cmp);
            let at = |p| rank(change.len(), Percent(p), Method::Edf).map(|k| change[k]);
            Some([at(2_500)?, at(97_500)?])
        };
        Some(Spread { median: interval(ma, mb)?, p99: interval(pa, pb)? })
    }

    /// From the statistics of 20 consecutive batches of each.
    fn batches(a: &[i64], b: &[i64]) -> Option<Spread> {
        const K: usize = 20;
        let of = |values: &[i64], p: u32| -> Option<(f64, f64)> {
            let size = values.len() / K;
            let each: Vec<f64> = (0..K)
                .filter_map(|i| {
                    let mut batch = values[i * size..(i + 1) * size].to_vec();
                    let k = rank(batch.len(), Percent(p), Method::Edf)?;
                    Some(*batch.select_nth_unstable(k).1 as f64)
                })
                .collect();
            let mean = each.iter().sum::<f64>() / each.len() as f64;
            let squares: f64 = each.iter().map(|x| (x - mean).powi(2)).sum();
            (each.len() == K).then(|| (mean, squares / (K * (K - 1)) as f64))
        };
        let interval = |p| {
            let ((x, vx), (y, vy)) = (of(a, p)?, of(b, p)?);
            let half = t_quantile(0.975, K as u64 - 1) * (vx + vy).sqrt();
            Some([y - x - half, y - x + half])
        };
        Some(Spread { median: interval(50_000)?, p99: interval(99_000)? })
    }
}

/// Whether neighbours depend on each other.
fn correlated(values: &[i64]) -> bool {
    let n = values.len() as f64;
    let origin = values[0];
    let above: Vec<f64> = values.iter().map(|x| x.saturating_sub(origin) as f64).collect();
    let mean = above.iter().sum::<f64>() / n;
    let squares: f64 = above.iter().map(|x| (x - mean).powi(2)).sum();
    let products: f64 = above.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    squares > 0.0 && (products / squares).abs() > 2.0 / n.sqrt()
}
