//! Precision of the smallest delay of a run, and of the median of few independent packets.

use crate::distribution::sample::Sample;
use crate::metrics::dependence::design_effect_adaptive;
use crate::metrics::stat::t_quantile;

/// Smallest effective number of packets for bounds of the median.
const MIN_EFFECTIVE: f64 = 3.0;

/// Numbers of consecutive blocks whose smallest delays are compared: for long runs, and for short ones.
const BLOCKS: [usize; 2] = [20, 10];
/// Smallest number of packets for 20 blocks.
const LONG: usize = 400;
/// Half the width of a 95 % interval, in scales of the distribution. The minimum of many values has a Gumbel
/// distribution unless the path bounds it. The difference of two such minima is logistic, ±3.66 scales or ±2.6 for each
/// of them. The minimum of the run varies less than those of its blocks (0.9).
const SCALES: f64 = 0.9 * 2.6;

/// Returns the half-width of the 95 % interval of the smallest of `delays`, which are in send order, in ns: by how much
/// the minimum would change if the run were repeated. `None` below 20 packets.
///
/// The scale is the mean distance of the lowest quarter of the block minima from the next higher one (Weissman 1978). A
/// path with a firm smallest delay has nearly equal minima, and an error near 0.
pub fn minimum_error(delays: &[i64]) -> Option<f64> {
    let blocks = if delays.len() < LONG { BLOCKS[1] } else { BLOCKS[0] };
    let size = delays.len() / blocks;
    if size < 2 {
        return None;
    }
    let mut minima: Vec<i64> =
        delays.chunks_exact(size).take(blocks).filter_map(|block| block.iter().min().copied()).collect();
    minima.sort_unstable();
    let lowest = (blocks / 4).max(1);
    let above = *minima.get(lowest)?;
    let sum: f64 = minima[..lowest].iter().map(|x| above.saturating_sub(*x) as f64).sum();
    Some(SCALES * sum / lowest as f64)
}

/// Returns wide bounds of the median of `delays`, which are in send order, for runs with too few independent packets
/// for an [interval](crate::metrics::dependence::quantile_interval): they show only large differences. `sample` has the
/// same delays, sorted. `None` if even the bounds would include all packets.
pub fn median_bounds(delays: &[i64], sample: &Sample) -> Option<[i64; 2]> {
    let n = delays.len();
    let median = sample.at(n.checked_sub(1)? / 2)?;
    let above: Vec<bool> = delays.iter().map(|delay| *delay > median).collect();
    let (design_effect, df) = design_effect_adaptive(&above);
    let effective = n as f64 / design_effect;
    let half = t_quantile(0.975, df) * (0.25 / effective).sqrt();
    if effective < MIN_EFFECTIVE || half >= 0.5 - 1.0 / n as f64 {
        return None;
    }
    let at = |share: f64| sample.at(((share * n as f64) as usize).min(n - 1));
    Some([at(0.5 - half)?, at(0.5 + half)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_independent_packets_have_wide_bounds_and_fewer_have_none() {
        // A slow wave of delays: eight periods in 1600 packets.
        let wave =
            |n: i64| (0..n).map(|k| (k % 200 - 100).abs() * 1000 + k * 7_919 % 100).collect::<Vec<_>>();
        let of = |delays: &[i64]| median_bounds(delays, &Sample::new(delays.iter().copied()));
        let [low, high] = of(&wave(1600)).unwrap();
        assert!(low < 45_000 && 55_000 < high, "{low} {high}");
        let ramp: Vec<i64> = (0..1000).collect();
        assert_eq!((of(&ramp), of(&[])), (None, None));
    }

    #[test]
    fn a_firm_minimum_has_no_error_and_few_packets_none() {
        let firm: Vec<i64> = (0..1000).map(|k| 5_000 + k * 7_919 % 10 * 100).collect();
        assert_eq!(minimum_error(&firm), Some(0.0));
        assert_eq!(minimum_error(&firm[..19]), None);
        assert!(minimum_error(&firm[..20]).is_some());
    }

    #[test]
    fn the_error_is_that_of_the_lowest_block_minima() {
        // Each block of ten packets has one low value: 100, 200 … 2000.
        let delays: Vec<i64> =
            (0..400).map(|k| if k % 20 == 7 { 100 * (k / 20 + 1) } else { 9_999 }).collect();
        // The five lowest are 500, 400, 300, 200 and 100 below the sixth.
        assert!((minimum_error(&delays).unwrap() - SCALES * 300.0).abs() < 1e-9);
    }
}
