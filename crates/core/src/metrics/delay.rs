//! Delay and its excess over the smallest, PDV (metrics §2–5), as figures; and delay with lost packets counted.

use super::entry::Metric;
use crate::distribution::percentile::{Method, Percent, Percentiles, rank};
use crate::distribution::sample::Sample;
use crate::figures::{Figure, Take, Unit};
use serde::{Deserialize, Serialize};

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

/// The percentile of delay or of PDV at a percentage that every summary has.
macro_rules! percentile {
    (LATENCY, $p:literal, $at:literal) => {
        percentile!("latency", "latency ", "raw delay", latency, $p, $at)
    };
    (PDV, $p:literal, $at:literal) => {
        percentile!("pdv", "jitter ", "delay above the smallest delay (PDV)", pdv, $p, $at)
    };
    ($name:literal, $called:literal, $meaning:literal, $of:ident, $p:literal, $at:literal) => {
        Figure::new(
            concat!($name, "-p", $p),
            concat!($called, $p, "%"),
            Unit::Time,
            Take::Whole(|s| s.$of().percentile(Percent($at))),
        )
        .about(concat!($p, "th percentile of ", $meaning))
        .source("RFC 2330 §11.3")
        .lower_is_better()
        .quantile($name, $meaning, Percent($at), |s| s.$of().n)
    };
}

/// Delay above the smallest: the seed's jitter.
pub const PDV: Metric = Metric::of_fields(&[
    percentile!(PDV, "50", 50_000).headline().alias("jitter-p50"),
    percentile!(PDV, "90", 90_000).headline().alias("jitter-p90"),
    percentile!(PDV, "95", 95_000).headline().alias("jitter-p95"),
    percentile!(PDV, "99", 99_000).headline().alias("jitter-p99"),
    percentile!(PDV, "99.3", 99_300).alias("jitter-p99.3"),
    percentile!(PDV, "99.5", 99_500).alias("jitter-p99.5"),
    percentile!(PDV, "99.7", 99_700).alias("jitter-p99.7"),
    percentile!(PDV, "99.9", 99_900).headline().alias("jitter-p99.9"),
    Figure::new("pdv-max", "jitter 100%", Unit::Time, Take::Whole(|s| s.pdv().max))
        .about("largest delay above the smallest delay (PDV)")
        .source("RFC 5481 §4.2")
        .lower_is_better()
        .headline()
        .alias("jitter-max")
        .quantile("pdv", "delay above the smallest delay (PDV)", Percent(100_000), |s| s.pdv().n),
    Figure::new("pdv-mean", "jitter mean", Unit::Time, Take::Real(|s| s.pdv().mean))
        .about("mean delay above the smallest delay (PDV)")
        .source("RFC 5481 §4.2")
        .lower_is_better(),
    Figure::new("pdv-median", "jitter median", Unit::Time, Take::Real(|s| s.pdv().median))
        .about("median delay above the smallest delay (PDV): the middle value, or the mean of the two")
        .source("RFC 5481 §4.2")
        .lower_is_better(),
    Figure::new("pdv-stddev", "jitter std dev", Unit::Time, Take::Real(|s| s.pdv().stddev))
        .about("standard deviation of delay above the smallest delay: that of delay")
        .source("RFC 8912 §7.4.2.5")
        .lower_is_better(),
    Figure::new(
        "pdv-mode",
        "jitter mode",
        Unit::Time,
        Take::Real(|s| Some(s.pdv().histogram.as_ref()?.mode)),
    )
    .about("centre of the fullest bin of the histogram of PDV")
    .lower_is_better(),
]);

/// Raw delay: one way, or there and back.
pub const LATENCY: Metric = Metric::of_fields(&[
    Figure::new("latency-min", "latency min", Unit::Time, Take::Whole(|s| s.latency().min))
        .about("smallest raw delay")
        .source("RFC 7679, RFC 2681")
        .lower_is_better()
        .headline(),
    Figure::new("latency-median", "latency median", Unit::Time, Take::Real(|s| s.latency().median))
        .about("median raw delay: the middle value, or the mean of the two")
        .source("RFC 2330 §11.3")
        .lower_is_better()
        .headline(),
    Figure::new("latency-mean", "latency mean", Unit::Time, Take::Real(|s| s.latency().mean))
        .about("mean raw delay")
        .source("RFC 7679, RFC 2681")
        .lower_is_better()
        .headline(),
    percentile!(LATENCY, "50", 50_000),
    percentile!(LATENCY, "90", 90_000),
    percentile!(LATENCY, "95", 95_000),
    percentile!(LATENCY, "99", 99_000).headline(),
    percentile!(LATENCY, "99.3", 99_300),
    percentile!(LATENCY, "99.5", 99_500),
    percentile!(LATENCY, "99.7", 99_700),
    percentile!(LATENCY, "99.9", 99_900),
    Figure::new("latency-max", "latency max", Unit::Time, Take::Whole(|s| s.latency().max))
        .about("largest raw delay")
        .source("RFC 7679, RFC 2681")
        .lower_is_better()
        .quantile("latency", "raw delay", Percent(100_000), |s| s.latency().n),
    Figure::new("latency-stddev", "latency std dev", Unit::Time, Take::Real(|s| s.latency().stddev))
        .about("standard deviation of raw delay")
        .source("RFC 8912 §7.4.2.5")
        .lower_is_better(),
    Figure::new(
        "latency-mode",
        "latency mode",
        Unit::Time,
        Take::Real(|s| Some(s.latency().histogram.as_ref()?.mode)),
    )
    .about("centre of the fullest bin of the histogram of raw delay")
    .lower_is_better(),
    Figure::new(
        "latency-densest",
        "latency densest",
        Unit::Time,
        Take::Real(|s| s.latency().half_sample_mode),
    )
    .about("half-sample mode of raw delay: the densest half of the sample, again and again")
    .source("Bickel and Fruehwirth 2006")
    .lower_is_better(),
]);

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
