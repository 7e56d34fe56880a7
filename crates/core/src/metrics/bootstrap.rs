//! Moving-block bootstrap (metrics §17): confidence intervals that also hold for autocorrelated delays.

use super::confidence::{Bootstrap, Inference};
use super::series::Series;
use super::stat::{normal_quantile, t_quantile};
use crate::distribution::percentile::{Method, Percent, rank};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const MAX_RESAMPLES: u32 = 2000;
/// Minimum number of resamples: five of them lie beyond each end of a 95 % interval.
const MIN_RESAMPLES: u32 = 200;
/// Maximum number of values drawn in total. A long series gets fewer resamples, but its length makes each of
/// them more precise.
const MAX_DRAWS: usize = 200_000_000;

/// Returns 95 % percentile intervals of mean, median and 99th percentile of delay; `None` below 20 packets.
pub fn intervals(series: &Series<'_>, inference: &Inference, seed: u64) -> Option<Bootstrap> {
    let n = series.len();
    if n < MIN_VALUES {
        return None;
    }
    let origin = series.get(0).delay;
    let delays: Vec<i64> = series.iter().map(|p| p.delay.saturating_sub(origin)).collect();
    let resamples = resamples_of(n);
    let correlated = inference.acf1_send_order.is_some_and(|r| r.abs() > 2.0 / (n as f64).sqrt());
    let block = block_length(&delays, correlated);
    let [mean, median, p99] =
        likely(&delays, block, resamples, seed)?.map(|interval| interval.map(|x| x + origin as f64));
    Some(Bootstrap { seed, resamples, block, mean, median, p99 })
}

/// Returns the number of resamples of `n` values.
fn resamples_of(n: usize) -> u32 {
    ((MAX_DRAWS / n) as u32).clamp(MIN_RESAMPLES, MAX_RESAMPLES)
}

/// Returns 95 % intervals of mean, median and 99th percentile of `values`. With few blocks, resamples vary less than
/// independent measurements would, so the intervals are [widened](widening). `None` without values.
fn likely(values: &[i64], block: usize, resamples: u32, seed: u64) -> Option<[[f64; 2]; 3]> {
    let (n, block) = (values.len(), block.min(values.len() / 2).max(1));
    let found = figures(&mut values.to_vec())?;
    let wider = widening(n, block);
    let mut at = resample(&[values], block, resamples, seed).into_iter().zip(found).map(|(values, found)| {
        let around = |x: f64| found + (x - found) * wider;
        interval(values).map(around)
    });
    Some([at.next()?, at.next()?, at.next()?])
}

/// Returns the factor by which intervals from resamples of `n` values in blocks of `block` are too narrow: 1/√(1 −
/// block/n), times the ratio of Student's t for this number of blocks to the normal quantile.
fn widening(n: usize, block: usize) -> f64 {
    let t = t_quantile(0.975, (n.div_ceil(block) as u64 - 1).max(1));
    t / normal_quantile(0.975) * (n as f64 / (n - block) as f64).sqrt()
}

/// Minimum number of values. Fewer values do not reveal their variation.
const MIN_VALUES: usize = 20;

/// Returns mean, median and 99th percentile of each of `resamples` series drawn from `runs` in blocks. If there are
/// several runs, whole runs are drawn first, then blocks of each, so that the variation between runs is included.
fn resample(runs: &[&[i64]], block: usize, resamples: u32, seed: u64) -> [Vec<f64>; 3] {
    let most = runs.iter().map(|r| r.len()).max().unwrap_or(0) * runs.len();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = Vec::with_capacity(most + block);
    let mut found: [Vec<f64>; 3] = Default::default();
    for _ in 0..resamples {
        drawn.clear();
        for run in runs {
            let run = if runs.len() == 1 { run } else { runs[random_index(&mut rng, runs.len())] };
            draw(run, block, &mut rng, &mut drawn);
        }
        let Some(figures) = figures(&mut drawn) else { return found };
        found.iter_mut().zip(figures).for_each(|(values, figure)| values.push(figure));
    }
    found
}

/// Returns mean, median and 99th percentile; `None` without values. Reorders the values.
fn figures(values: &mut [i64]) -> Option<[f64; 3]> {
    let n = values.len();
    let p99 = rank(n, Percent(99_000), Method::Edf)?;
    let sum: i128 = values.iter().map(|d| i128::from(*d)).sum();
    let (below, high, _) = values.select_nth_unstable(p99);
    let high = *high as f64;
    let middle = n / 2;
    let (low, upper) = if middle < p99 {
        let (low, upper, _) = below.select_nth_unstable(middle);
        (low, *upper as f64)
    } else {
        (below, high)
    };
    let lower = if n % 2 == 1 { upper } else { low.iter().copied().max().unwrap_or(0) as f64 };
    let median = (upper + lower) / 2.0;
    Some([sum as f64 / n as f64, median, high])
}

/// Returns a uniformly distributed index below `n` by multiply-shift, with a bias of less than
/// 2⁻⁶⁴·n.
fn random_index(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// Appends blocks from random positions of `values`. Their total length is the number of `values`.
fn draw(values: &[i64], block: usize, rng: &mut ChaCha8Rng, drawn: &mut Vec<i64>) {
    let block = block.min(values.len());
    let end = drawn.len() + values.len();
    while drawn.len() < end {
        let from = random_index(rng, values.len() - block + 1);
        drawn.extend_from_slice(&values[from..from + block]);
    }
    drawn.truncate(end);
}

/// Returns the block length: ⌈n^⅓⌉, or three times the lag at which the correlation has become insignificant if that is
/// larger, but at most an eighth of the series. Shorter blocks separate correlated values, which makes the intervals
/// too narrow.
fn block_length(delays: &[i64], correlated: bool) -> usize {
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
    let most = (n / 8).max(least);
    let last = (1..=most / 3).find(|lag| correlation(*lag) < significant);
    last.map_or(most, |lag| (3 * lag).max(least))
}

fn interval(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_unstable_by(f64::total_cmp);
    let at = |p| rank(values.len(), Percent(p), Method::Edf).map_or(f64::NAN, |k| values[k]);
    [at(2_500), at(97_500)]
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::seqset::SeqSet;
    use super::super::series::Samples;
    use super::*;

    fn of_delays(delays: &[i64], correlation: Option<f64>, seed: u64) -> Option<Bootstrap> {
        let mut samples = Samples::default();
        for (seq, delay) in (0..).zip(delays) {
            samples.push(AcceptedPacket { seq, sent: 0, delay: *delay });
        }
        let inference = Inference { acf1_send_order: correlation, ..Inference::default() };
        intervals(&Series::new(&samples), &inference, seed)
    }

    /// A stationary series with mean and median 0 and deviation 1000 whose neighbours have this correlation.
    fn correlated(n: usize, correlation: f64, rng: &mut ChaCha8Rng) -> Vec<i64> {
        // The sum of twelve uniform numbers minus six is approximately normal.
        let mut normal = || (0..12).map(|_| rng.next_u64() as f64 / 2f64.powi(64)).sum::<f64>() - 6.0;
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut x = normal();
        let mut next = || {
            x = correlation * x + fresh * normal();
            (x * 1000.0).round() as i64
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn reproducible_and_about_right() {
        let delays: Vec<i64> = (0..500).map(|seq| 1_000_000 + seq * 7_919 % 1000).collect();
        let b = of_delays(&delays, None, 7).unwrap();
        assert_eq!(Some(&b), of_delays(&delays, None, 7).as_ref());
        assert!(b.median[0] < 1_000_500.0 && 1_000_500.0 < b.median[1] && b.p99[0] > 1_000_900.0);
        assert!(b.mean[1] - b.mean[0] < 100.0 && b.resamples == 2000 && b.block == 8);
        assert_ne!(Some(b), of_delays(&delays, None, 8));
    }

    #[test]
    fn too_few_values_and_all_the_same() {
        assert_eq!(of_delays(&[5; 19], None, 1), None);
        let same = of_delays(&[5; 20], None, 1).unwrap();
        assert_eq!((same.mean, same.median, same.p99), ([5.0; 2], [5.0; 2], [5.0; 2]));
    }

    #[test]
    fn few_blocks_widen_the_interval() {
        // Student's t with 9 degrees of freedom is 2.262157, with 10 it is 2.228139.
        assert!((widening(100, 10) - 2.262_157 / 1.959_964 * (100f64 / 90.0).sqrt()).abs() < 1e-5);
        assert!((widening(105, 10) - 2.228_139 / 1.959_964 * (105f64 / 95.0).sqrt()).abs() < 1e-5);
        // A block is at most half of the series.
        let values: Vec<i64> = (0..20).collect();
        assert_eq!(likely(&values, 1000, 50, 1), likely(&values, 10, 50, 1));
    }

    #[test]
    fn a_correlation_above_chance_makes_blocks_longer() {
        let delays = correlated(400, 0.9, &mut ChaCha8Rng::seed_from_u64(6));
        let block = |correlation| of_delays(&delays, correlation, 1).unwrap().block;
        // Correlations up to 2/√400 are insignificant.
        let longer = block_length(&delays, true);
        assert!(longer > 8);
        assert_eq!([None, Some(0.0), Some(0.1)].map(block), [8; 3]);
        assert_eq!([Some(0.11), Some(-0.11), Some(0.9)].map(block), [longer; 3]);
    }

    #[test]
    fn no_more_is_drawn_than_needed() {
        let values: Vec<i64> = (0..14).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut twice = rng.clone();
        draw(&values, 7, &mut rng, &mut Vec::new());
        (0..2).for_each(|_| _ = random_index(&mut twice, 8));
        assert_eq!(rng.next_u64(), twice.next_u64());
    }

    #[test]
    fn a_long_series_gets_fewer_resamples() {
        assert_eq!([20, 100_000, 250_000, 5_000_000].map(resamples_of), [2000, 2000, 800, 200]);
    }

    #[test]
    fn blocks_grow_with_what_belongs_together() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let independent = correlated(1000, 0.0, &mut rng);
        assert_eq!(block_length(&independent, false), 10);
        // Only the first lags may be significant by chance.
        assert!(block_length(&independent, true) <= 12);
        // A ramp is correlated over its whole length, so the block has the maximum length.
        let ramp: Vec<i64> = (0..1000).collect();
        assert_eq!((block_length(&ramp, false), block_length(&ramp, true)), (10, 125));
        // Runs of ten equal values: insignificant from lag 10 on at the latest.
        let runs: Vec<i64> =
            (0..1000u64).map(|k| ((k / 10).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64).collect();
        let block = block_length(&runs, true);
        assert!((15..=30).contains(&block), "{block}");
        assert_eq!([1, 2, 3].map(|n| block_length(&ramp[..n], false)), [1, 1, 1]);
        assert_eq!(block_length(&ramp[..8], false), 2);
    }

    #[test]
    fn a_block_is_three_times_as_long_as_the_correlation() {
        let values = correlated(2000, 0.8, &mut ChaCha8Rng::seed_from_u64(11));
        let mean = values.iter().sum::<i64>() as f64 / 2000.0;
        let product = |a: i64, b: i64| (a as f64 - mean) * (b as f64 - mean);
        let variance: f64 = values.iter().map(|v| product(*v, *v)).sum();
        let correlation = |lag: usize| {
            values.iter().zip(&values[lag..]).map(|(a, b)| product(*a, *b)).sum::<f64>() / variance
        };
        let insignificant = (1..).find(|lag| correlation(*lag) < 2.0 / 2000f64.sqrt()).unwrap();
        assert!((8..40).contains(&insignificant), "{insignificant}");
        assert_eq!(block_length(&values, true), 3 * insignificant);
        let larger: Vec<i64> = values.iter().map(|v| v * 1000).collect();
        assert_eq!(block_length(&larger, true), 3 * insignificant);
    }

    #[test]
    fn blocks_are_drawn_whole_from_everywhere() {
        let values: Vec<i64> = (0..50).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut drawn, mut begun) = (vec![-1], SeqSet::default());
        for _ in 0..400 {
            drawn.truncate(1);
            draw(&values, 7, &mut rng, &mut drawn);
            assert_eq!((drawn.len(), drawn[0]), (51, -1));
            for block in drawn[1..].chunks(7) {
                assert!(block.windows(2).all(|w| w[1] == w[0] + 1), "{block:?}");
                begun.insert(block[0] as u32);
            }
        }
        // Every position that leaves room for a whole block.
        assert_eq!(begun.iter().collect::<Vec<_>>(), (0..=43).collect::<Vec<_>>());
        // A block longer than the run is the whole run.
        let mut all = Vec::new();
        draw(&values, 70, &mut rng, &mut all);
        assert_eq!(all, values);
    }

    #[test]
    fn places_are_equally_likely() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let mut met = [0; 5];
        (0..10_000).for_each(|_| met[random_index(&mut rng, 5)] += 1);
        assert!(met.iter().all(|n| (1850..2150).contains(n)), "{met:?}");
    }

    #[test]
    fn figures_of_values() {
        let of = |mut values: Vec<i64>| figures(&mut values);
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![7]), Some([7.0, 7.0, 7.0]));
        assert_eq!(of(vec![9, 1]), Some([5.0, 5.0, 9.0]));
        assert_eq!(of(vec![9, 1, 2]), Some([4.0, 2.0, 9.0]));
        assert_eq!(of(vec![4, 9, 1, 2]), Some([4.0, 3.0, 9.0]));
        let hundred: Vec<i64> = (1..=200).rev().collect();
        assert_eq!(of(hundred), Some([100.5, 100.5, 198.0]));
    }

    #[test]
    fn the_middle_95_of_100() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(interval(values), [25.0, 975.0]);
    }

    #[test]
    fn of_several_runs_whole_runs_are_drawn_first() {
        // Two runs that do not vary: each resample has values of one, of the other, or half of each.
        let [mean, median, p99] = resample(&[&[0; 40], &[10; 40]], 5, 300, 4);
        assert_eq!([mean.len(), median.len(), p99.len()], [300; 3]);
        let share = |value: f64| mean.iter().filter(|m| **m == value).count();
        assert_eq!(share(0.0) + share(5.0) + share(10.0), 300);
        assert!((50..100).contains(&share(0.0)) && (50..100).contains(&share(10.0)), "{mean:?}");
        assert!(p99.iter().all(|p| [0.0, 10.0].contains(p)));
    }

    #[test]
    fn intervals_contain_the_truth_as_often_as_they_say() {
        const RUNS: u64 = 150;
        const N: usize = 240;
        let mut rng = ChaCha8Rng::seed_from_u64(20);
        let mut contained = [0; 2];
        let kinds = [0.0, 0.4, 0.6];
        for correlation in kinds {
            let mut here = [0; 2];
            for seed in 0..RUNS {
                let values = correlated(N, correlation, &mut rng);
                let block = block_length(&values, correlation > 0.0);
                let [mean, median, _] = likely(&values, block, 120, seed).unwrap();
                for (count, [low, high]) in here.iter_mut().zip([mean, median]) {
                    *count += u64::from(low <= 0.0 && 0.0 <= high);
                }
            }
            let share = here.map(|n| n as f64 / RUNS as f64);
            // With this number of runs the share varies by 1.8 %.
            assert!(share.iter().all(|s| (0.91..=0.99).contains(s)), "{correlation}: {share:?}");
            contained.iter_mut().zip(here).for_each(|(all, n)| *all += n);
        }
        let share = contained.map(|n| n as f64 / (RUNS * kinds.len() as u64) as f64);
        assert!(share.iter().all(|s| (0.93..=0.97).contains(s)), "{share:?}");
    }
}
