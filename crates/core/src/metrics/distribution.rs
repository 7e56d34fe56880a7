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

use super::histogram::Bins;
use super::moments::Moments;
use super::percentile::{Method, Percent, resolution};
use super::sample::Sample;

/// What a distribution is to report.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Percentiles.
    pub percents: &'a [Percent],
    /// The definition histogram limits follow.
    pub method: Method,
    /// Histogram bins.
    pub bins: Bins,
}

impl Distribution {
    /// The statistics of `sample`, whose moments are `moments`.
    pub fn new(sample: &Sample, moments: &Moments, wanted: Wanted<'_>) -> Distribution {
        let column = |method| {
            Percentiles(wanted.percents.iter().map(|p| (*p, sample.percentile(*p, method))).collect())
        };
        let n = sample.len() as u64;
        Distribution {
            n,
            min: sample.min(),
            mean: moments.mean(),
            max: sample.max(),
            stddev: moments.stddev(),
            stddev_pop: moments.stddev_pop(),
            median: sample.median(),
            percentiles: column(Method::Edf),
            percentiles_jitlat1: column(Method::Jitlat1),
            percentiles_linear: (wanted.method == Method::Linear)
                .then(|| Percentiles(wanted.percents.iter().map(|p| (*p, sample.linear(*p))).collect())),
            percentiles_resolution: Percentiles(
                wanted.percents.iter().map(|p| (*p, (n > 0).then(|| resolution(n, *p)))).collect(),
            ),
            histogram: sample.histogram(wanted.bins, wanted.method),
            half_sample_mode: sample.half_sample_mode(),
            approx: false,
        }
    }

    /// The same above the minimum: PDV (RFC 5481 §4.2). Its deviation is that of delay by construction.
    /// With the sample at hand no offset costs a digit.
    pub fn above_minimum(&self, moments: &Moments, sample: Option<&Sample>) -> Distribution {
        let Some(min) = self.min else { return self.clone() };
        let less = |x: i64| x.saturating_sub(min);
        let column = |p: &Percentiles<i64>| Percentiles(p.0.iter().map(|(p, x)| (*p, x.map(less))).collect());
        let less_f64 = |x: f64| x - min as f64;
        Distribution {
            min: Some(0),
            mean: moments.mean_above(min),
            max: self.max.map(less),
            median: sample.map_or(self.median.map(less_f64), Sample::median_above),
            percentiles: column(&self.percentiles),
            percentiles_jitlat1: column(&self.percentiles_jitlat1),
            percentiles_linear: self
                .percentiles_linear
                .as_ref()
                .map(|p| Percentiles(p.0.iter().map(|(p, x)| (*p, x.map(less_f64))).collect())),
            histogram: self.histogram.as_ref().map(|h| Histogram {
                lo: less(h.lo),
                hi: less(h.hi),
                mode: (h.mode_bin as f64 + 0.5) * h.binsize as f64,
                ..h.clone()
            }),
            half_sample_mode: sample
                .map_or(self.half_sample_mode.map(less_f64), Sample::half_sample_mode_above),
            ..self.clone()
        }
    }

    /// The percentile at `p` by the empirical distribution, if it was asked for.
    pub fn percentile(&self, p: Percent) -> Option<i64> {
        self.percentiles.at(p)
    }
}
