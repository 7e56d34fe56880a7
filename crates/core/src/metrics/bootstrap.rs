//! Moving-block bootstrap (metrics §17): intervals that survive autocorrelation.

use super::confidence::{Bootstrap, Inference};
use super::series::Series;
use crate::distribution::percentile::{Method, Percent, rank};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const RESAMPLES: u32 = 2000;
const FEWEST: u32 = 200;
/// Values drawn in all; a long series gets fewer resamples, which its length makes up for.
const BUDGET: usize = 200_000_000;

/// 95 % percentile intervals of mean, median and 99th percentile of delay; `None` below 20 packets.
pub fn intervals(series: &Series<'_>, inference: &Inference, seed: u64) -> Option<Bootstrap> {
    let n = series.len();
    if n < FEWEST_VALUES {
        return None;
    }
    let origin = series.get(0).delay;
    let delays: Vec<i64> = series.iter().map(|p| p.delay.saturating_sub(origin)).collect();
    let resamples = RESAMPLES.min(((BUDGET / n) as u32).max(FEWEST));
    let correlated = inference.acf1_send_order.is_some_and(|r| r.abs() > 2.0 / (n as f64).sqrt());
    let block = block_length(&delays, correlated);
    let [mean, median, p99] = resample(&[&delays], block, resamples, seed).map(|v| interval(v, origin));
    Some(Bootstrap { seed, resamples, block, mean, median, p99 })
}

/// Fewer values say nothing of their own spread.
pub const FEWEST_VALUES: usize = 20;

/// Mean, median and 99th percentile of each of `resamples` series drawn from `runs` in blocks. Of several
/// runs, as many are drawn first, so that what differs from run to run counts; then blocks of each.
pub fn resample(runs: &[&[i64]], block: usize, resamples: u32, seed: u64) -> [Vec<f64>; 3] {
    let most = runs.iter().map(|r| r.len()).max().unwrap_or(0) * runs.len();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = Vec::with_capacity(most + block);
    let mut found: [Vec<f64>; 3] = Default::default();
    for _ in 0..resamples {
        drawn.clear();
        for run in runs {
            let run = if runs.len() == 1 { run } else { runs[place(&mut rng, runs.len())] };
            draw(run, block, &mut rng, &mut drawn);
        }
        let n = drawn.len();
        let Some(p99) = rank(n, Percent(99_000), Method::Edf) else { return found };
        let sum: i128 = drawn.iter().map(|d| i128::from(*d)).sum();
        found[0].push(sum as f64 / n as f64);
        let (below, high, _) = drawn.select_nth_unstable(p99);
        let high = *high as f64;
        let middle = n / 2;
        let median = if middle < p99 {
            let (low, upper, _) = below.select_nth_unstable(middle);
            let upper = *upper as f64;
            let lower = if n % 2 == 1 { upper } else { low.iter().copied().max().unwrap_or(0) as f64 };
            (upper + lower) / 2.0
        } else {
            high
        };
        found[1].push(median);
        found[2].push(high);
    }
    found
}

/// One of `places`, all alike. Multiply-shift: uniform to within 2⁻⁶⁴·places.
fn place(rng: &mut ChaCha8Rng, places: usize) -> usize {
    ((u128::from(rng.next_u64()) * places as u128) >> 64) as usize
}

/// Appends blocks from random places of `values`, as many values as it has.
fn draw(values: &[i64], block: usize, rng: &mut ChaCha8Rng, drawn: &mut Vec<i64>) {
    let block = block.min(values.len());
    let end = drawn.len() + values.len();
    while drawn.len() < end {
        let from = place(rng, values.len() - block + 1);
        drawn.extend_from_slice(&values[from..from + block]);
    }
    drawn.truncate(end);
}

/// ⌈n^⅓⌉, or the first lag at which the correlation of neighbours has become insignificant, if larger;
/// at most half the series.
pub fn block_length(delays: &[i64], correlated: bool) -> usize {
    let n = delays.len();
    let least = ((n as f64).cbrt().ceil() as usize).clamp(1, (n / 2).max(1));
    if !correlated {
        return least;
    }
    let significant = 2.0 / (n as f64).sqrt();
    let mean = delays.iter().map(|d| i128::from(*d)).sum::<i128>() as f64 / n as f64;
    let centred: Vec<f64> = delays.iter().map(|d| *d as f64 - mean).collect();
    let squares: f64 = centred.iter().map(|x| x * x).sum();
    let correlation =
        |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / squares;
    let most = (10 * least).min(n / 2).max(least);
    (least..most).find(|lag| correlation(*lag) < significant).unwrap_or(most)
}

fn interval(mut values: Vec<f64>, origin: i64) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let at = |p| rank(values.len(), Percent(p), Method::Edf).map_or(f64::NAN, |k| values[k]);
    [at(2_500), at(97_500)].map(|x| x + origin as f64)
}

#[cfg(test)]
mod tests {
    use super::super::classify::Packet;
    use super::super::seqset::SeqSet;
    use super::super::series::Samples;
    use super::*;

    #[test]
    fn reproducible_and_about_right() {
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        for seq in 0..500 {
            let delay = 1_000_000 + i64::from(seq) * 7_919 % 1000;
            samples.push(Packet { seq, sent: 0, delay });
            accepted.insert(seq);
        }
        let series = Series::new(&samples, &accepted);
        let b = intervals(&series, &Inference::default(), 7).unwrap();
        assert_eq!(Some(&b), intervals(&series, &Inference::default(), 7).as_ref());
        assert!(b.median[0] < 1_000_500.0 && 1_000_500.0 < b.median[1] && b.p99[0] > 1_000_900.0);
        assert!(b.mean[1] - b.mean[0] < 100.0 && b.resamples == 2000 && b.block == 8);
        assert_ne!(Some(b), intervals(&series, &Inference::default(), 8));
    }
}
