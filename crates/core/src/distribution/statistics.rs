//! [`Distribution`]: statistics of a sample of times (metrics §2–5).

use super::histogram::{Bins, Histogram};
use super::log_histogram::{LogHistogram, Quantiles};
use super::percentile::{DEFAULT_PERCENTS, Method, Percent, PercentileResolution, Percentiles, resolution};
use super::sample::Sample;
use crate::metrics::moments::Moments;
use crate::time::Span;
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
    /// Histogram that figures show, if it has other bins than `histogram`; `None` if figures show `histogram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn_histogram: Option<Histogram>,
    /// Mode: the centre of the fullest bin of the histogram that figures show. If the median is in the same bin, the bins
    /// are too wide to distinguish the two, and the mode is `half_sample_mode`.
    pub mode: Option<f64>,
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
    /// Removes percentiles, and the median, that are smaller in size than `resolution`.
    pub(crate) fn omit_percentiles_below(&mut self, resolution: Span) {
        for (_, value) in self.percentiles.0.iter_mut().chain(&mut self.percentiles_jitlat1.0) {
            *value = value.filter(|value| value.unsigned_abs() >= resolution.0.unsigned_abs());
        }
        for (_, value) in self.percentiles_linear.iter_mut().flat_map(|linear| &mut linear.0) {
            *value = value.filter(|value| value.abs() >= resolution.0 as f64);
        }
        self.median = self.median.filter(|median| median.abs() >= resolution.0 as f64);
    }

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
            drawn_histogram: sample.drawn_histogram(wanted.bins, wanted.method),
            mode: None,
            half_sample_mode: sample.half_sample_mode(),
            approx: false,
        }
        .with_mode()
    }

    /// Returns the histogram that figures show.
    pub fn shown_histogram(&self) -> Option<&Histogram> {
        self.drawn_histogram.as_ref().or(self.histogram.as_ref())
    }

    /// Sets the mode, which follows from the other fields.
    fn with_mode(self) -> Distribution {
        let mode = self.shown_histogram().map(|h| {
            let half = h.binsize as f64 / 2.0;
            let too_wide = self.median.is_some_and(|median| (median - h.mode).abs() <= half);
            self.half_sample_mode.filter(|_| too_wide).unwrap_or(h.mode)
        });
        Distribution { mode, ..self }
    }

    /// Returns the statistics of the values minus the minimum: PDV (RFC 5481 §4.2). The standard deviation does not
    /// change. If `sample` is given, the subtraction loses no precision.
    pub fn above_minimum(&self, moments: &Moments, sample: Option<&Sample>) -> Distribution {
        let Some(min) = self.min else { return self.clone() };
        let above = self.less(min);
        let exact = |h: Histogram| Histogram { mode: (h.mode_bin as f64 + 0.5) * h.binsize as f64, ..h };
        Distribution {
            min: Some(0),
            mean: moments.mean_above(min),
            median: sample.map_or(above.median, Sample::median_above),
            histogram: above.histogram.map(exact),
            drawn_histogram: above.drawn_histogram.map(exact),
            half_sample_mode: sample.map_or(above.half_sample_mode, Sample::half_sample_mode_above),
            ..above
        }
        .with_mode()
    }

    /// Returns the statistics with `by` subtracted from each value.
    pub fn less(&self, by: i64) -> Distribution {
        let less = |x: i64| x.saturating_sub(by);
        let less_f64 = |x: f64| x - by as f64;
        let moved =
            |h: &Histogram| Histogram { lo: less(h.lo), hi: less(h.hi), mode: less_f64(h.mode), ..h.clone() };
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
            histogram: self.histogram.as_ref().map(moved),
            drawn_histogram: self.drawn_histogram.as_ref().map(moved),
            mode: self.mode.map(less_f64),
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
            drawn_histogram: None,
            mode: None,
            half_sample_mode: None,
            approx: true,
        }
        .with_mode()
    }

    fn histogram(&self, quantiles: &Quantiles<'_>, wanted: DistributionRequest<'_>) -> Option<Histogram> {
        let lo = self.min()?;
        let hi = quantiles.percentile(Percent(99_000), wanted.method)?;
        // Approximate quartiles would give parts of a stream another number of bins than the whole.
        let nbins = match wanted.bins {
            Bins::Fixed(n) => n.max(1),
            Bins::Standard | Bins::Auto => 70,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i64], bins: Bins) -> Distribution {
        let mut moments = Moments::default();
        moments.add_all(values);
        let sample = Sample::new(values.iter().copied());
        Distribution::new(
            &sample,
            &moments,
            DistributionRequest { percents: &DEFAULT_PERCENTS, method: Method::Edf, bins },
        )
    }

    fn bins(d: &Distribution) -> [usize; 2] {
        [d.histogram.as_ref(), d.shown_histogram()].map(|h| h.unwrap().nbins)
    }

    /// Latencies like those of the second example of DRDC TM 2011-047: the 99th percentile is 4.897 s above the
    /// smallest, the interquartile range is 132 ms, and the fullest bin begins at the smallest.
    fn example_2() -> Vec<i64> {
        const MS: i64 = 1_000_000;
        let first = (0..120).map(|k| k * 26 * MS / 119);
        let below = (0..125).map(|k| 30 * MS + k * 15 * MS);
        let middle = (0..510).map(|k| 1_930_746_000 + k * 264_260);
        let above = (0..234).map(|k| 2_066 * MS + k * 12 * MS);
        let last = [0].into_iter().chain(0..10).map(|k| (4897 + 20 * k) * MS);
        first.chain(below).chain(middle).chain(above).chain(last).map(|above| 1_615 * MS + above).collect()
    }

    #[test]
    fn figures_have_the_bins_of_the_published_examples() {
        let d = of(&example_2(), Bins::default());
        assert_eq!(bins(&d), [70, 186]);
        let shown = d.shown_histogram().unwrap();
        assert_eq!((shown.binsize, d.mode), (26_327_957, Some(1_628_163_978.5)));
        assert_ne!(d.histogram.as_ref().map(|h| h.mode), d.mode);
        // Example 3: nearly all at the smallest, a few up to 102.2 ms above it.
        let values: Vec<i64> =
            (0..1000).map(|k| 1_614_700_000 + k * 290 + (k - 880).max(0) * 858_000).collect();
        assert_eq!(bins(&of(&values, Bins::default())), [70, 500]);
        // The UDP examples have 70, and a number that is asked for is used everywhere.
        let udp: Vec<i64> = (0..1000).map(|k| 42_000 + k * 200).collect();
        assert_eq!(bins(&of(&udp, Bins::default())), [70, 70]);
        assert_eq!(bins(&of(&example_2(), Bins::Fixed(7))), [7, 7]);
        assert_eq!(bins(&of(&example_2(), Bins::Auto)), [186, 186]);
    }

    #[test]
    fn the_mode_is_no_centre_of_a_bin_that_holds_the_median() {
        // 13 µs, except for 5 % of up to 30 ms: bins of 60 µs even in figures.
        let wide: Vec<i64> =
            (0..1000).map(|k| if k % 20 == 7 { k * 30_000 } else { 13_000 + k % 100 }).collect();
        let d = of(&wide, Bins::default());
        assert!(d.shown_histogram().unwrap().mode > 30_000.0 && d.median.unwrap() < 13_100.0);
        assert!((13_000.0..13_100.0).contains(&d.mode.unwrap()), "{:?}", d.mode);
        assert_eq!(d.mode, d.half_sample_mode);
        // Bins narrow enough to distinguish them.
        let narrow: Vec<i64> = (0..1000).map(|k| if k % 2 == 0 { 13_000 } else { 14_000 + k }).collect();
        let d = of(&narrow, Bins::default());
        assert_eq!(d.mode, d.shown_histogram().map(|h| h.mode));
    }

    #[test]
    fn the_mode_moves_with_the_values() {
        let values = example_2();
        let mut moments = Moments::default();
        moments.add_all(&values);
        let d = of(&values, Bins::default());
        let less = d.less(1_000);
        assert_eq!(less.mode, d.mode.map(|mode| mode - 1000.0));
        let above = d.above_minimum(&moments, Some(&Sample::new(values.iter().copied())));
        assert_eq!((bins(&above), above.mode), ([70, 186], Some(13_163_978.5)));
    }

    #[test]
    fn constant_memory_has_the_standard_bins() {
        let values = example_2();
        let mut moments = Moments::default();
        moments.add_all(&values);
        let mut log = LogHistogram::new(super::super::Precision::STREAM);
        values.iter().for_each(|v| log.add(*v));
        (0..20_000).for_each(|k| {
            let v = values[k % values.len()];
            log.add(v);
            moments.add_all(&[v]);
        });
        let request =
            DistributionRequest { percents: &DEFAULT_PERCENTS, method: Method::Edf, bins: Bins::default() };
        let d = log.distribution(&moments, request);
        assert!(d.approx);
        assert_eq!((bins(&d), d.mode), ([70, 70], d.histogram.map(|h| h.mode)));
    }
}
