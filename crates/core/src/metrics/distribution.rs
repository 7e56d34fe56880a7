//! The statistics of one sample of times: delay, PDV (metrics §2–5).

use super::histogram::Histogram;
use super::percentile::{Percentiles, Resolution};
use serde::{Deserialize, Serialize};

/// Statistics of a sample of ns. Everything but `n` is `None` where undefined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
use super::percentile::{Method, Percent, rank, resolution};
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

/// A delay that may be that of a lost packet; serialised as a number or `"inf"`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Delay {
    /// In ns.
    Finite(f64),
    /// Of a packet that never came.
    Infinite,
}

impl Serialize for Delay {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Delay::Finite(ns) => s.serialize_f64(*ns),
            Delay::Infinite => s.serialize_str("inf"),
        }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Delay, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Word(String),
        }
        match Written::deserialize(d)? {
            Written::Number(ns) => Ok(Delay::Finite(ns)),
            Written::Word(word) if word == "inf" => Ok(Delay::Infinite),
            Written::Word(_) => Err(serde::de::Error::custom("a delay is a number or \"inf\"")),
        }
    }
}

/// Order statistics over all packets sent, lost ones infinitely late (RFC 7679 §5.1–5.2). Mean and deviation
/// do not exist here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unconditional {
    /// Packets sent.
    pub n: u64,
    /// Middle value, or mean of the two middle values.
    pub median: Option<Delay>,
    /// By the empirical distribution.
    pub percentiles: Percentiles<Delay>,
}

impl Unconditional {
    /// Of `sample` and `lost` packets besides.
    pub fn new(sample: &Sample, lost: u64, percents: &[Percent]) -> Unconditional {
        let n = sample.len() + lost as usize;
        let at = |k: usize| sample.at(k).map_or(Delay::Infinite, |x| Delay::Finite(x as f64));
        let middle = |k: usize| match (at(k), at(n / 2)) {
            (Delay::Finite(low), Delay::Finite(high)) => Delay::Finite(low + (high - low) / 2.0),
            _ => Delay::Infinite,
        };
        let value = |p: &Percent| (*p, rank(n, *p, Method::Edf).map(at));
        Unconditional {
            n: n as u64,
            median: n.checked_sub(1).map(|last| middle(last / 2)),
            percentiles: Percentiles(percents.iter().map(value).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unconditional(delays: &[i64], lost: u64) -> (Option<Delay>, Option<Delay>) {
        let sample = Sample::new(delays.iter().copied());
        let u = Unconditional::new(&sample, lost, &[Percent(50_000)]);
        (u.median, u.percentiles.at(Percent(50_000)))
    }

    #[test]
    fn examples_of_rfc_7679() {
        // §5.1 to §5.4.
        let first = Sample::new([100, 110, 90, 500].into_iter());
        assert_eq!(unconditional(&[100, 110, 90, 500], 1).1, Some(Delay::Finite(110.0)));
        assert_eq!(first.edf(Percent(50_000)), Some(100));
        let second = Sample::new([100, 110, 90].into_iter());
        assert_eq!(unconditional(&[100, 110, 90], 1).0, Some(Delay::Finite(105.0)));
        assert_eq!((second.median(), second.min()), (Some(100.0), Some(90)));
        // The inverse percentile of 103 is 50 %.
        assert_eq!(first.count_at_most(103), 2);
        assert_eq!(unconditional(&[5], 2).1, Some(Delay::Infinite));
        assert_eq!(serde_json::to_string(&Delay::Infinite).unwrap(), "\"inf\"");
        assert_eq!(unconditional(&[], 0), (None, None));
    }
}
