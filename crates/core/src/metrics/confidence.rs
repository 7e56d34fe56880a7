//! Confidence intervals (metrics §17).

use serde::{Deserialize, Serialize};

/// Precision with which the sample determines the mean and the percentiles of delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Inference {
    /// 90 % Student-t interval of the mean, in ns.
    pub mean_ci90: Option<[f64; 2]>,
    /// 95 % Student-t interval of the mean, in ns.
    pub mean_ci95: Option<[f64; 2]>,
    /// 99 % Student-t interval of the mean, in ns.
    pub mean_ci99: Option<[f64; 2]>,
    /// Lag-1 autocorrelation in send order.
    pub acf1_send_order: Option<f64>,
    /// True if the lag-1 autocorrelation is insignificant, which makes the t interval valid; `None` if that is unknown.
    pub t_valid: Option<bool>,
    /// n(1 − ρ)/(1 + ρ): number of independent samples that would give the mean the same precision.
    pub effective_n: Option<f64>,
    /// 95 % interval of the mean from 20 batches, in ns.
    pub batch20_ci95: Option<[f64; 2]>,
    /// Interval of the mean from batches: 20, or 10 or 5 if the means of more batches are correlated.
    pub batch: Option<BatchMeans>,
    /// Order statistics that enclose the median with a coverage of at least 95 %, as [l, u, coverage]. l = 0 or u = n +
    /// 1 means unbounded.
    pub median_ci95_ranks: Option<RankInterval>,
    /// Order statistics that enclose the 99th percentile.
    pub p99_ci95_ranks: Option<RankInterval>,
    /// Order statistics that enclose the 99.9th percentile.
    pub p999_ci95_ranks: Option<RankInterval>,
    /// Values of the order statistics that enclose the median, in ns; `None` = unbounded.
    pub median_ci95: Option<[Option<i64>; 2]>,
    /// Values of the order statistics that enclose the 99th percentile, in ns; `None` = unbounded.
    pub p99_ci95: Option<[Option<i64>; 2]>,
    /// Values of the order statistics that enclose the 99.9th percentile, in ns; `None` = unbounded.
    pub p999_ci95: Option<[Option<i64>; 2]>,
    /// Interval of the median that accounts for dependent packets.
    pub median: QuantileInterval,
    /// Interval of the 99th percentile that accounts for dependent packets.
    pub p99: QuantileInterval,
    /// Intervals from a moving-block bootstrap, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
}

/// Ranks l and u of the enclosing order statistics, and the coverage: [l, u, coverage].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankInterval(pub u64, pub u64, pub f64);

/// An interval of the mean from batch means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BatchMeans {
    /// Number of batches.
    pub k: usize,
    /// 95 % interval of the mean, in ns.
    pub ci95: [f64; 2],
    /// True if the batch means are uncorrelated, which makes the interval valid.
    pub independent: bool,
}

/// 95 % percentile intervals from a moving-block bootstrap, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Bootstrap {
    /// Seed of the random generator; the same seed gives the same intervals.
    pub seed: u64,
    /// Number of resamples.
    pub resamples: u32,
    /// Packets per block.
    pub block: usize,
    /// Interval of the mean.
    pub mean: [f64; 2],
    /// Interval of the median.
    pub median: [f64; 2],
    /// Interval of the 99th percentile.
    pub p99: [f64; 2],
}

use super::dependence::{IntervalOf, QuantileInterval, quantile_interval, unknown_quantile};
use super::moments::Moments;
use super::series::Series;
use super::stat;
use crate::distribution::sample::Sample;

/// Computes the confidence intervals of the delay statistics. `series` gives the packets in send order,
/// `sample` their delays in ascending order, `moments` their moments.
pub fn inference(series: &Series<'_>, sample: &Sample, moments: &Moments) -> Inference {
    let n = moments.n();
    let acf1 = lag1(series, moments);
    let ranks = |p| stat::quantile_ranks95(n, p).map(|(l, u, c)| RankInterval(l, u, c));
    let (median, p99, p999) = (ranks(0.5), ranks(0.99), ranks(0.999));
    let value = |rank: u64| sample.at(rank.checked_sub(1)? as usize);
    let values = |r: Option<RankInterval>| r.map(|r| [value(r.0), value(r.1)]);
    let twenty = batch_means(series, moments, 20);
    let delays: Vec<i64> = series.iter().map(|packet| packet.delay).collect();
    let dependent = |of| quantile_interval(of, &delays, sample, acf1);
    Inference {
        mean_ci90: mean_interval(moments, 0.95),
        mean_ci95: mean_interval(moments, 0.975),
        mean_ci99: mean_interval(moments, 0.995),
        acf1_send_order: acf1,
        t_valid: acf1.map(|r| r.abs() <= 2.0 / (n as f64).sqrt()),
        effective_n: acf1.map(|r| n as f64 * (1.0 - r) / (1.0 + r)).filter(|n| n.is_finite()),
        batch20_ci95: twenty.as_deref().and_then(batch_interval),
        batch: [20, 10, 5].into_iter().find_map(|k| {
            let means = if k == 20 { twenty.clone()? } else { batch_means(series, moments, k)? };
            let independent =
                stat::lag1_correlation(&means).is_none_or(|r| r.abs() <= 2.0 / (k as f64).sqrt());
            (independent || k == 5).then_some(())?;
            Some(BatchMeans { k, ci95: batch_interval(&means)?, independent })
        }),
        median_ci95_ranks: median,
        p99_ci95_ranks: p99,
        p999_ci95_ranks: p999,
        median_ci95: values(median),
        p99_ci95: values(p99),
        p999_ci95: values(p999),
        median: dependent(IntervalOf::Median),
        p99: dependent(IntervalOf::P99),
        bootstrap: None,
    }
}

/// Computes the t intervals from the moments alone; their validity remains unknown.
pub fn of_mean(moments: &Moments) -> Inference {
    Inference {
        mean_ci90: mean_interval(moments, 0.95),
        mean_ci95: mean_interval(moments, 0.975),
        mean_ci99: mean_interval(moments, 0.995),
        median: unknown_quantile(IntervalOf::Median),
        p99: unknown_quantile(IntervalOf::P99),
        ..Inference::default()
    }
}

/// Computes the t intervals from mean, standard deviation and size; all fields are `None` below two values.
pub fn of_mean_and_deviation(mean: f64, stddev: f64, n: u64) -> Inference {
    let interval = |p| (n > 1).then(|| t_interval(mean, stddev, n, p));
    Inference {
        mean_ci90: interval(0.95),
        mean_ci95: interval(0.975),
        mean_ci99: interval(0.995),
        median: unknown_quantile(IntervalOf::Median),
        p99: unknown_quantile(IntervalOf::P99),
        ..Inference::default()
    }
}

fn mean_interval(moments: &Moments, p: f64) -> Option<[f64; 2]> {
    Some(t_interval(moments.mean()?, moments.stddev()?, moments.n(), p))
}

/// Returns mean ± t·s/√n with `p` = (1 + confidence)/2.
fn t_interval(mean: f64, stddev: f64, n: u64, p: f64) -> [f64; 2] {
    let half = if stddev == 0.0 { 0.0 } else { stat::t_quantile(p, n - 1) * stddev / (n as f64).sqrt() };
    [mean - half, mean + half]
}

/// Returns the lag-1 autocorrelation of accepted packets in send order; `None` below three packets or without
/// variation.
fn lag1(series: &Series<'_>, moments: &Moments) -> Option<f64> {
    if series.len() < 3 {
        return None;
    }
    // Subtracting the first delay keeps the numbers small and the mean precise.
    let origin = series.get(0).delay;
    let mean = moments.mean_above(origin)?;
    let (mut products, mut squares, mut previous) = (0.0, 0.0, None);
    series.iter().for_each(|packet| {
        let x = packet.delay.wrapping_sub(origin) as f64 - mean;
        squares += x * x;
        if let Some(previous) = previous {
            products += previous * x;
        }
        previous = Some(x);
    });
    (moments.stddev()? > 0.0).then(|| products / squares)
}

/// Returns the means of k equal consecutive batches in send order, leaving out the remainder; `None` below two packets
/// per batch.
fn batch_means(series: &Series<'_>, moments: &Moments, k: usize) -> Option<Vec<f64>> {
    let size = series.len() / k;
    if size < 2 {
        return None;
    }
    let (origin, most) = (moments.min()?, moments.max()?);
    // Nearly always the sum of a batch fits 64 bits.
    let fits = most.checked_sub(origin).and_then(|span| span.checked_mul(size as i64)).is_some();
    let mean = |i: usize| {
        let batch = series.range(i * size..(i + 1) * size);
        let sum = if fits {
            batch.map(|p| p.delay - origin).sum::<i64>() as f64
        } else {
            batch.map(|p| i128::from(p.delay) - i128::from(origin)).sum::<i128>() as f64
        };
        origin as f64 + sum / size as f64
    };
    Some((0..k).map(mean).collect())
}

fn batch_interval(means: &[f64]) -> Option<[f64; 2]> {
    let k = means.len();
    let mean = means.iter().sum::<f64>() / k as f64;
    let squares: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    let stddev = (squares / (k - 1) as f64).sqrt();
    let half = stat::t_quantile(0.975, k as u64 - 1) * stddev / (k as f64).sqrt();
    Some([mean - half, mean + half])
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::series::Samples;
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    #[test]
    fn student_intervals() {
        // metrics §17, V21, in thousandths.
        let m: Moments = [10_100, 9_800, 10_400, 10_000, 9_700].into_iter().collect();
        for (p, low, high) in
            [(0.95, 9738.903, 10_261.097), (0.975, 9659.956, 10_340.044), (0.995, 9436.116, 10_563.884)]
        {
            let [a, b] = mean_interval(&m, p).unwrap();
            assert!((a - low).abs() < 1e-3 && (b - high).abs() < 1e-3, "{a} {b}");
        }
        let same: Moments = [7, 7].into_iter().collect();
        assert_eq!(mean_interval(&same, 0.975), Some([7.0, 7.0]));
        assert_eq!(mean_interval(&[7].into_iter().collect(), 0.975), None);
        let [mean, stddev] = [m.mean().unwrap(), m.stddev().unwrap()];
        assert_eq!(of_mean_and_deviation(mean, stddev, 5), of_mean(&m));
        assert!(
            [of_mean(&m).mean_ci90, of_mean(&m).mean_ci95, of_mean(&m).mean_ci99].iter().all(Option::is_some)
        );
        assert_eq!(of_mean_and_deviation(7.0, 0.0, 2).mean_ci95, Some([7.0, 7.0]));
        for n in [0, 1] {
            assert_eq!(of_mean_and_deviation(7.0, 1.0, n).mean_ci95, None);
        }
    }

    fn of(delays: &[i64]) -> Inference {
        let mut samples = Samples::default();
        for (seq, delay) in (0..).zip(delays) {
            samples.push(AcceptedPacket { seq, sent: 0, delay: *delay });
        }
        let moments: Moments = delays.iter().copied().collect();
        inference(&Series::new(&samples), &Sample::new(delays.iter().copied()), &moments)
    }

    fn near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|x| (x - expected).abs() < 1e-6)
    }

    #[test]
    fn correlation_of_neighbours() {
        // Deviations −4/3, −1/3, 5/3: the products sum to −1/9, the squares to 42/9.
        let small = of(&[1, 2, 4]);
        assert!(near(small.acf1_send_order, -1.0 / 42.0), "{small:?}");
        assert!(near(small.effective_n, 3.0 * 43.0 / 41.0));
        assert_eq!(small.t_valid, Some(true));
        // The magnitude of the delays does not matter.
        let far = 1_700_000_000_000_000_000;
        assert!(near(of(&[far + 1, far + 2, far + 4]).acf1_send_order, -1.0 / 42.0));
        assert_eq!([&[1, 2][..], &[5; 9]].map(|d| of(d).acf1_send_order), [None; 2]);
        let ramp: Vec<i64> = (0..100).collect();
        let alternating: Vec<i64> = (0..100).map(|k| k % 2).collect();
        for correlated in [ramp, alternating] {
            assert_eq!(of(&correlated).t_valid, Some(false));
        }
    }

    #[test]
    fn intervals_from_batches() {
        // Twenty batches of two, without the last five packets: means 0.5, 2.5 … 38.5.
        let ramp: Vec<i64> = (0..45).collect();
        let [low, high] = of(&ramp).batch20_ci95.unwrap();
        assert!(
            (low - (19.5 - 5.537_621)).abs() < 1e-5 && (high - (19.5 + 5.537_621)).abs() < 1e-5,
            "{low} {high}"
        );
        // The batch means of a ramp are correlated until there are only five.
        let batch = of(&ramp).batch.unwrap();
        assert_eq!((batch.k, batch.independent), (5, true));
        // 4, 13, 22, 31, 40: mean 22, deviation 14.230249, t 2.776445.
        assert!((batch.ci95[0] - (22.0 - 17.669_188)).abs() < 1e-4, "{batch:?}");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mixed: Vec<i64> = (0..200).map(|_| (rng.next_u64() >> 50) as i64).collect();
        let batch = of(&mixed).batch.unwrap();
        assert_eq!((batch.k, batch.independent), (20, true));
        assert_eq!([9, 10, 39].map(|n| of(&ramp[..n]).batch.is_some()), [false, true, true]);
        assert_eq!([39, 40].map(|n| of(&ramp[..n]).batch20_ci95.is_some()), [false, true]);
    }

    #[test]
    fn correlation_of_means() {
        assert!(near(stat::lag1_correlation(&[1.0, 2.0, 4.0]), -1.0 / 42.0));
        assert_eq!(stat::lag1_correlation(&[3.0; 4]), None);
    }

    #[test]
    fn ranks_and_their_values() {
        let delays: Vec<i64> = (1..=100).map(|k| 10 * k).collect();
        let found = of(&delays);
        let RankInterval(low, high, coverage) = found.median_ci95_ranks.unwrap();
        assert!((39..=41).contains(&low) && (60..=62).contains(&high) && (0.95..0.97).contains(&coverage));
        assert_eq!(found.median_ci95, Some([Some(10 * low as i64), Some(10 * high as i64)]));
        // With 100 packets, the 99.9th percentile has no upper limit.
        assert_eq!(found.p999_ci95.map(|i| i[1]), found.p999_ci95_ranks.map(|_| None));
    }
}
