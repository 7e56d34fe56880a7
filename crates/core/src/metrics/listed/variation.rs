//! Variation of delay between packets (metrics §6 to §8).

use crate::metrics::OnePass;
use crate::metrics::all_packets::AllPackets;
use crate::metrics::ipdv::{StreamingIpdv, ipdv};
use crate::metrics::mapdv2::Mapdv2;
use crate::metrics::metric::{AcceptedPackets, Metric};
use crate::metrics::rfc3550;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Ipdv, Rfc3550, Summary};

impl Metric for StreamingIpdv {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new("ipdv-mean", "IPDV mean", ScalarUnit::Time, ScalarGetter::Real(|s| s.ipdv().mean))
            .about("mean difference between consecutive packets, which shows the trend, not the spread")
            .source("RFC 3393")
            .headline(),
        Scalar::new("ipdv-stddev", "IPDV std dev", ScalarUnit::Time, ScalarGetter::Real(|s| s.ipdv().stddev))
            .about("standard deviation of the variation between consecutive packets, including the tails")
            .source("RFC 3393")
            .lower_is_better()
            .headline(),
        Scalar::new("ipdv-iqr", "IPDV IQR", ScalarUnit::Time, ScalarGetter::Whole(|s| s.ipdv().iqr))
            .about("interquartile range of the variation between consecutive packets, without the tails")
            .source("RFC 3393")
            .lower_is_better()
            .headline(),
        Scalar::new(
            "ipdv-mean-abs",
            "mean absolute IPDV",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.ipdv().mean_abs),
        )
        .about("mean absolute delay variation of consecutive packets")
        .source("RFC 5481")
        .lower_is_better()
        .openmetrics("ipdv_mean_absolute"),
        Scalar::new("ipdv-min", "IPDV min", ScalarUnit::Time, ScalarGetter::Whole(|s| s.ipdv().min))
            .about("smallest variation between consecutive packets")
            .source("RFC 3393"),
        Scalar::new("ipdv-p0.1", "IPDV 0.1%", ScalarUnit::Time, ScalarGetter::Whole(|s| s.ipdv().p0_1))
            .about("0.1th percentile of the variation between consecutive packets")
            .source("RFC 3393"),
        Scalar::new("ipdv-median", "IPDV median", ScalarUnit::Time, ScalarGetter::Real(|s| s.ipdv().median))
            .about("median variation between consecutive packets")
            .source("RFC 3393"),
        Scalar::new("ipdv-p99.9", "IPDV 99.9%", ScalarUnit::Time, ScalarGetter::Whole(|s| s.ipdv().p99_9))
            .about("99.9th percentile of the variation between consecutive packets")
            .source("RFC 3393")
            .lower_is_better(),
        Scalar::new("ipdv-max", "IPDV max", ScalarUnit::Time, ScalarGetter::Whole(|s| s.ipdv().max))
            .about("largest variation between consecutive packets")
            .source("RFC 3393")
            .lower_is_better(),
    ];

    type Found = Ipdv;

    fn begin(_: &Session) -> StreamingIpdv {
        StreamingIpdv::default()
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        self.push_all(packets.runs(), packets.delay);
    }

    fn join(&mut self, later: StreamingIpdv, lead: &StreamingIpdv) {
        StreamingIpdv::join(self, later, lead);
    }

    fn is_possible(&self, n: u64) -> bool {
        StreamingIpdv::is_possible(self, n)
    }

    fn found(&self, stream: &EndedStream<'_>) -> Ipdv {
        self.figures(stream.known.counted.sent)
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Ipdv {
        ipdv(&all.series, stream.known.counted.sent)
    }

    fn write(found: Ipdv, _: &EndedStream<'_>, to: &mut Summary) {
        to.ipdv = found;
    }
}
impl Metric for rfc3550::JitterEstimator {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "rfc3550-mean",
            "RTP jitter",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.rfc3550_jitter().map(|j| j.mean)),
        )
        .about("mean of the running RTP jitter")
        .source("RFC 3550 §6.4.1")
        .lower_is_better()
        .headline()
        .openmetrics("rtp_jitter_mean"),
        Scalar::new(
            "rfc3550-max",
            "RTP jitter max",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.rfc3550_jitter().map(|j| j.max)),
        )
        .about("largest running RTP jitter")
        .source("RFC 3550 §6.4.1")
        .lower_is_better()
        .openmetrics("rtp_jitter_max"),
        Scalar::new(
            "rfc3550-final",
            "RTP jitter, last",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.rfc3550_jitter().map(|j| j.last)),
        )
        .about("RTP jitter after the last packet, which reflects about the last 16 packets")
        .source("RFC 3550 §6.4.1")
        .lower_is_better()
        .openmetrics("rtp_jitter_final"),
    ];

    type Found = Option<Rfc3550>;

    fn begin(_: &Session) -> rfc3550::JitterEstimator {
        rfc3550::JitterEstimator::default()
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        self.push_all(packets.delay);
    }

    fn join(&mut self, later: rfc3550::JitterEstimator, lead: &rfc3550::JitterEstimator) {
        rfc3550::JitterEstimator::join(self, later, lead);
    }

    fn is_possible(&self, n: u64) -> bool {
        rfc3550::JitterEstimator::is_possible(self, n)
    }

    fn found(&self, _: &EndedStream<'_>) -> Option<Rfc3550> {
        self.output()
    }

    fn write(found: Option<Rfc3550>, _: &EndedStream<'_>, to: &mut Summary) {
        to.rfc3550_jitter = found;
    }
}
impl Metric for Mapdv2 {
    const SCALARS: &'static [Scalar] =
        &[Scalar::new("mapdv2", "MAPDV2", ScalarUnit::Time, ScalarGetter::Real(|s| *s.mapdv2()))
            .about("mean positive plus mean negative deviation from a running mean of gain 1/16")
            .source("G.1020, as RFC 5481 §6.7 describes it")
            .lower_is_better()];

    type Found = Option<f64>;

    fn begin(_: &Session) -> Mapdv2 {
        Mapdv2::default()
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        self.push_all(packets.delay);
    }

    fn join(&mut self, later: Mapdv2, lead: &Mapdv2) {
        Mapdv2::join(self, later, lead);
    }

    fn is_possible(&self, n: u64) -> bool {
        Mapdv2::is_possible(self, n)
    }

    fn found(&self, _: &EndedStream<'_>) -> Option<f64> {
        self.output()
    }

    fn write(found: Option<f64>, _: &EndedStream<'_>, to: &mut Summary) {
        to.mapdv2 = found;
    }
}
