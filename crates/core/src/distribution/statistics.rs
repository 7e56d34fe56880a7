//! [`Distribution`]: statistics of a sample of times (metrics §2–5).

use super::histogram::{Bins, Histogram};
use super::log_histogram::{LogHistogram, Quantiles};
use super::percentile::{DEFAULT_PERCENTS, Method, Percent, PercentileResolution, Percentiles, resolution};
use super::sample::Sample;
use crate::metrics::moments::Moments;
use serde::{Deserialize, Serialize};

/// Statistics of a sample of times in ns. Every field except `n` is `None` where undefined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Distribution {
    /// Number of values.
    pub n: u64,
    /// Smallest value.
    pub min: Option<i64>,
    /// Mean, from an exact sum.
    pub mean: Option<f64>,
    /// Largest value.
    pub max: Option<i64>,
    /// Standard deviation with divisor n − 1; `None` below two values.
    pub stddev: Option<f64>,
    /// Standard deviation with divisor n (RFC 8912).
    pub stddev_pop: Option<f64>,
    /// Median, or mean of the two middle values.
    pub median: Option<f64>,
    /// Percentiles of the empirical distribution (RFC 2330).
    pub percentiles: Percentiles<i64>,
    /// Percentiles as defined by the original tool (floor index).
    pub percentiles_jitlat1: Percentiles<i64>,
    /// Interpolated percentiles; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentiles_linear: Option<Percentiles<f64>>,
    /// Precision with which `n` values determine each percentile.
    pub percentiles_resolution: Percentiles<PercentileResolution>,
    /// Histogram up to the 99th percentile.
    pub histogram: Option<Histogram>,
    /// Half-sample mode (Bickel–Frühwirth), a robust mode.
    pub half_sample_mode: Option<f64>,
    /// True if percentiles come from a logarithmic histogram. They are then too high by at most 1/1024 of their
    /// distance from its origin, which is about the smallest value.
    pub approx: bool,
}

/// Settings for the contents of a distribution.
#[derive(Clone, Copy, Debug)]
pub struct DistributionRequest<'a> {
    /// Percentiles to compute.
    pub percents: &'a [Percent],
    /// Percentile definition for the limit of the histogram.
    pub method: Method,
    /// Histogram bins.
    pub bins: Bins,
}

impl Distribution {
    /// Returns the statistics of `values` with the usual percentiles, and the sorted values.
    pub fn of_values(values: &[i64]) -> (Distribution, Sample) {
        let mut moments = Moments::default();
        moments.add_all(values);
        let sample = Sample::new(values.iter().copied());
        let wanted =
            DistributionRequest { percents: &DEFAULT_PERCENTS, method: Method::Edf, bins: Bins::default() };
        (Distribution::new(&sample, &moments, wanted), sample)
    }

    /// Computes the statistics of `sample`, whose moments are `moments`.
    pub fn new(sample: &Sample, moments: &Moments, wanted: DistributionRequest<'_>) -> Distribution {
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

    /// Returns the statistics of the values minus the minimum: PDV (RFC 5481 §4.2). The standard deviation does not
    /// change. If `sample` is given, the subtraction loses no precision.
    pub fn above_minimum(&self, moments: &Moments, sample: Option<&Sample>) -> Distribution {
        let Some(min) = self.min else { return self.clone() };
        let above = self.less(min);
        Distribution {
            min: Some(0),
            mean: moments.mean_above(min),
            median: sample.map_or(above.median, Sample::median_above),
            histogram: above
                .histogram
                .map(|h| Histogram { mode: (h.mode_bin as f64 + 0.5) * h.binsize as f64, ..h }),
            half_sample_mode: sample.map_or(above.half_sample_mode, Sample::half_sample_mode_above),
            ..above
        }
    }

    /// Returns the statistics with `by` subtracted from each value.
    pub fn less(&self, by: i64) -> Distribution {
        let less = |x: i64| x.saturating_sub(by);
        let less_f64 = |x: f64| x - by as f64;
        let column = |p: &Percentiles<i64>| Percentiles(p.0.iter().map(|(p, x)| (*p, x.map(less))).collect());
        Distribution {
            min: self.min.map(less),
            mean: self.mean.map(less_f64),
            max: self.max.map(less),
            median: self.median.map(less_f64),
            percentiles: column(&self.percentiles),
            percentiles_jitlat1: column(&self.percentiles_jitlat1),
            percentiles_linear: self
                .percentiles_linear
                .as_ref()
                .map(|p| Percentiles(p.0.iter().map(|(p, x)| (*p, x.map(less_f64))).collect())),
            histogram: self.histogram.as_ref().map(|h| Histogram {
                lo: less(h.lo),
                hi: less(h.hi),
                mode: less_f64(h.mode),
                ..h.clone()
            }),
            half_sample_mode: self.half_sample_mode.map(less_f64),
            ..self.clone()
        }
    }

    /// Returns the percentile at `p` of the empirical distribution; `None` if it was not requested.
    pub fn percentile(&self, p: Percent) -> Option<i64> {
        self.percentiles.at(p)
    }
}

impl LogHistogram {
    /// Returns the statistics, marked as approximate unless all values are stored. Mean and standard deviations come
    /// from `moments`, which must describe the same values.
    pub fn distribution(&self, moments: &Moments, wanted: DistributionRequest<'_>) -> Distribution {
        let quantiles = self.quantiles();
        if let Quantiles::Exact(sample) = &quantiles {
            return Distribution::new(sample, moments, wanted);
        }
        let column = |method| {
            let value = |p: &Percent| (*p, quantiles.percentile(*p, method));
            Percentiles(wanted.percents.iter().map(value).collect())
        };
        let n = self.len();
        Distribution {
            n,
            min: self.min(),
            mean: moments.mean(),
            max: self.max(),
            stddev: moments.stddev(),
            stddev_pop: moments.stddev_pop(),
            median: quantiles.median(),
            percentiles: column(Method::Edf),
            percentiles_jitlat1: column(Method::Jitlat1),
            percentiles_linear: None,
            percentiles_resolution: Percentiles(
                wanted.percents.iter().map(|p| (*p, (n > 0).then(|| resolution(n, *p)))).collect(),
            ),
            histogram: self.histogram(&quantiles, wanted),
            half_sample_mode: None,
            approx: true,
        }
    }

    fn histogram(&self, quantiles: &Quantiles<'_>, wanted: DistributionRequest<'_>) -> Option<Histogram> {
        let lo = self.min()?;
        let hi = quantiles.percentile(Percent(99_000), wanted.method)?;
        let nbins = match wanted.bins {
            Bins::Fixed(n) => n.max(1),
            Bins::Auto => 70,
        };
        let binsize = (hi.abs_diff(lo) / nbins as u64).saturating_add(1);
        let (mut counts, mut overflow) = (vec![0; nbins], 0);
        for (x, count) in quantiles.values() {
            if x > hi {
                overflow += count;
            } else {
                counts[((x.abs_diff(lo) / binsize) as usize).min(nbins - 1)] += count;
            }
        }
        let fullest = counts.iter().copied().max()?;
        let mode_bin = counts.iter().position(|c| *c == fullest)?;
        let binsize = i64::try_from(binsize).unwrap_or(i64::MAX);
        let mode = lo as f64 + (mode_bin as f64 + 0.5) * binsize as f64;
        Some(Histogram { lo, hi, nbins, binsize, overflow, mode_bin, mode, counts })
    }
}
