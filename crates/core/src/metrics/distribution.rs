//! The statistics of one sample of times: delay, PDV (metrics §2–5).

use super::histogram::Histogram;
use super::percentile::{Percentiles, Resolution};
use serde::Serialize;

/// Statistics of a sample of ns. Everything but `n` is `None` where undefined.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Samples.
    pub n: u64,
    /// Smallest.
    pub min: Option<i64>,
    /// Exact sum over n.
    pub mean: Option<f64>,
    /// Largest.
    pub max: Option<i64>,
    /// With n − 1; `None` below two samples.
    pub stddev: Option<f64>,
    /// With n (RFC 8912).
    pub stddev_pop: Option<f64>,
    /// Middle value, or mean of the two middle values.
    pub median: Option<f64>,
    /// By the empirical distribution (RFC 2330).
    pub percentiles: Percentiles<i64>,
    /// By the 2009 tool's floor index.
    pub percentiles_jitlat1: Percentiles<i64>,
    /// Interpolated, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentiles_linear: Option<Percentiles<f64>>,
    /// Percentiles that n cannot resolve well.
    pub percentiles_resolution: Percentiles<Resolution>,
    /// Up to the 99th percentile.
    pub histogram: Option<Histogram>,
    /// Robust mode (Bickel–Frühwirth).
    pub half_sample_mode: Option<f64>,
    /// Percentiles come from a log-linear histogram: at most 1/1024 above the exact value.
    pub approx: bool,
}
