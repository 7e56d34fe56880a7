//! Delay, and PDV: delay above the smallest (metrics §2 to §5).

use crate::distribution::percentile::Percent;
use crate::metrics::all_packets::AllPackets;
use crate::metrics::known::StreamFacts;
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Distribution, Summary, Unconditional};
use serde::{Deserialize, Serialize};

/// A percentile of delay or PDV that every summary has.
macro_rules! percentile {
    (LATENCY, $p:literal, $at:literal) => {
        percentile!("latency", "latency ", "raw delay", latency, $p, $at).alias(concat!("delay-p", $p))
    };
    (PDV, $p:literal, $at:literal) => {
        percentile!("pdv", "jitter ", "delay above the smallest delay (PDV)", pdv, $p, $at)
    };
    ($name:literal, $called:literal, $meaning:literal, $of:ident, $p:literal, $at:literal) => {
        Scalar::new(
            concat!($name, "-p", $p),
            concat!($called, $p, "%"),
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.$of().percentile(Percent($at))),
        )
        .about(concat!($p, "th percentile of ", $meaning))
        .source("RFC 2330 §11.3")
        .lower_is_better()
        .quantile($name, $meaning, Percent($at), |s| s.$of().n)
    };
}

/// PDV: delay above the smallest. It is the jitter of the classic report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pdv;

impl Metric for Pdv {
    const SCALARS: &'static [Scalar] = &[
        percentile!(PDV, "50", 50_000).headline().alias("jitter-p50"),
        percentile!(PDV, "90", 90_000).headline().alias("jitter-p90"),
        percentile!(PDV, "95", 95_000).headline().alias("jitter-p95"),
        percentile!(PDV, "99", 99_000).headline().alias("jitter-p99"),
        percentile!(PDV, "99.3", 99_300).alias("jitter-p99.3"),
        percentile!(PDV, "99.5", 99_500).alias("jitter-p99.5"),
        percentile!(PDV, "99.7", 99_700).alias("jitter-p99.7"),
        percentile!(PDV, "99.9", 99_900).headline().alias("jitter-p99.9"),
        Scalar::new("pdv-max", "jitter 100%", ScalarUnit::Time, ScalarGetter::Whole(|s| s.pdv().max))
            .about("largest delay above the smallest delay (PDV)")
            .source("RFC 5481 §4.2")
            .lower_is_better()
            .headline()
            .alias("jitter-max")
            .quantile("pdv", "delay above the smallest delay (PDV)", Percent(100_000), |s| s.pdv().n),
        Scalar::new("pdv-mean", "jitter mean", ScalarUnit::Time, ScalarGetter::Real(|s| s.pdv().mean))
            .about("mean delay above the smallest delay (PDV)")
            .source("RFC 5481 §4.2")
            .lower_is_better(),
        Scalar::new("pdv-median", "jitter median", ScalarUnit::Time, ScalarGetter::Real(|s| s.pdv().median))
            .about("median delay above the smallest delay (PDV): the middle value, or the mean of the two middle values")
            .source("RFC 5481 §4.2")
            .lower_is_better(),
        Scalar::new("pdv-stddev", "jitter std dev", ScalarUnit::Time, ScalarGetter::Real(|s| s.pdv().stddev))
            .about("standard deviation of delay above the smallest delay (PDV), which equals the standard deviation of delay")
            .source("RFC 8912 §7.4.2.5")
            .lower_is_better(),
        Scalar::new(
            "pdv-mode",
            "jitter mode",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.pdv().mode),
        )
        .about("mode of PDV: centre of the fullest bin, or half-sample mode if the median is in the same bin")
        .lower_is_better(),
    ];

    type Found = Distribution;

    fn begin(_: &Session) -> Pdv {
        Pdv
    }

    fn found(&self, stream: &EndedStream<'_>) -> Distribution {
        stream.delays().1
    }

    fn write(found: Distribution, _: &EndedStream<'_>, to: &mut Summary) {
        to.pdv = found;
    }
}
/// Raw delay: one-way, or round trip.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency;

impl Metric for Latency {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new("latency-min", "latency min", ScalarUnit::Time, ScalarGetter::Whole(|s| s.latency().min))
            .about("smallest raw delay")
            .source("RFC 7679, RFC 2681")
            .lower_is_better()
            .headline()
            .alias("delay-min"),
        Scalar::new(
            "latency-median",
            "latency median",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency().median),
        )
        .about("median raw delay: the middle value, or the mean of the two middle values")
        .source("RFC 2330 §11.3")
        .lower_is_better()
        .headline()
        .alias("delay-median"),
        Scalar::new(
            "latency-mean",
            "latency mean",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency().mean),
        )
        .about("mean raw delay")
        .source("RFC 7679, RFC 2681")
        .lower_is_better()
        .headline()
        .alias("delay-mean"),
        percentile!(LATENCY, "50", 50_000),
        percentile!(LATENCY, "90", 90_000),
        percentile!(LATENCY, "95", 95_000),
        percentile!(LATENCY, "99", 99_000).headline(),
        percentile!(LATENCY, "99.3", 99_300),
        percentile!(LATENCY, "99.5", 99_500),
        percentile!(LATENCY, "99.7", 99_700),
        percentile!(LATENCY, "99.9", 99_900),
        Scalar::new("latency-max", "latency max", ScalarUnit::Time, ScalarGetter::Whole(|s| s.latency().max))
            .about("largest raw delay")
            .source("RFC 7679, RFC 2681")
            .lower_is_better()
            .alias("delay-max")
            .quantile("latency", "raw delay", Percent(100_000), |s| s.latency().n),
        Scalar::new(
            "latency-stddev",
            "latency std dev",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency().stddev),
        )
        .about("standard deviation of raw delay")
        .source("RFC 8912 §7.4.2.5")
        .lower_is_better(),
        Scalar::new(
            "latency-mode",
            "latency mode",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency().mode),
        )
        .about("mode of raw delay: centre of the fullest bin, or half-sample mode if the median is in the same bin")
        .lower_is_better(),
        Scalar::new(
            "latency-densest",
            "latency robust mode",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency().half_sample_mode),
        )
        .about("half-sample mode of raw delay: the densest half of the sample, repeatedly")
        .source("Bickel and Fruehwirth 2006")
        .lower_is_better(),
    ];

    type Found = (Distribution, Option<Unconditional>);

    fn begin(_: &Session) -> Latency {
        Latency
    }

    fn found(&self, stream: &EndedStream<'_>) -> (Distribution, Option<Unconditional>) {
        (stream.delays().0, None)
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> (Distribution, Option<Unconditional>) {
        let StreamFacts { options, counted, percents, .. } = stream.known;
        let lost = counted.sent.saturating_sub(counted.accepted);
        let unconditional = || Unconditional::new(all.sample(), lost, percents);
        (stream.delays().0, options.unconditional.then(unconditional))
    }

    fn write(
        (latency, unconditional): (Distribution, Option<Unconditional>),
        _: &EndedStream<'_>,
        to: &mut Summary,
    ) {
        to.latency = latency;
        to.latency_unconditional = unconditional;
    }
}
