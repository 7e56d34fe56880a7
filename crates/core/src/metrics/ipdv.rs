//! Inter-packet delay variation in send order (metrics §6; RFC 3393, 5481 §4.1).

use serde::Serialize;

/// `D_i − D_{i−1}` where both packets were accepted, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ipdv {
    /// Pairs with both packets accepted.
    pub defined: u64,
    /// The other pairs; the sum is N − 1.
    pub undefined: u64,
    /// = `defined`.
    pub n: u64,
    /// Smallest.
    pub min: Option<i64>,
    /// Telescopes to (last − first)/(n − 1) without loss: says nothing of spread.
    pub mean: Option<f64>,
    /// Largest.
    pub max: Option<i64>,
    /// With n − 1: spread with its tails.
    pub stddev: Option<f64>,
    /// With n.
    pub stddev_pop: Option<f64>,
    /// Middle value, or mean of the two.
    pub median: Option<f64>,
    /// Lower quartile.
    pub p25: Option<i64>,
    /// Upper quartile.
    pub p75: Option<i64>,
    /// p75 − p25: spread of the bulk.
    pub iqr: Option<i64>,
    /// The same with interpolated quartiles.
    pub iqr_linear: Option<f64>,
    /// Mean of the absolute values (MPPDV).
    pub mean_abs: Option<f64>,
    /// 0.1th percentile.
    pub p0_1: Option<i64>,
    /// 99.9th percentile.
    pub p99_9: Option<i64>,
    /// The quartiles agree though the deviation does not vanish: the clock is too coarse.
    pub quantised: bool,
}
