//! Clocks, delay corrected by the clock estimate, and skew (metrics §14 to §16).

use crate::distribution::percentile::Percent;
use crate::metrics::all_packets::AllPackets;
use crate::metrics::metric::{AcceptedPackets, Metric};
use crate::metrics::skew::StreamingHull;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarSource, ScalarUnit};
use crate::session::Session;
use crate::summary::{ClockEstimate, Distribution, SkewHull, Summary, Trend};
use serde::{Deserialize, Serialize};

/// Clocks and corrected delay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClockMetric;

impl Metric for ClockMetric {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "latency-corrected-min",
            "corrected min",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.latency_corrected().and_then(|c| c.min)),
        )
        .about("smallest delay corrected by the clock estimate")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "latency-corrected-mean",
            "corrected mean",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency_corrected().and_then(|c| c.mean)),
        )
        .about("mean delay corrected by the clock estimate")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "latency-corrected-median",
            "corrected median",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.latency_corrected().and_then(|c| c.median)),
        )
        .about("median delay corrected by the clock estimate")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "latency-corrected-max",
            "corrected max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.latency_corrected().and_then(|c| c.max)),
        )
        .about("largest delay corrected by the clock estimate")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "clock-error",
            "clock error",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.clock().offset_ns),
        )
        .about("estimated clock offset: server minus client")
        .source("RFC 5905 §8")
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "clock-bound",
            "clock error bound",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| s.clock().bound_ns),
        )
        .about("largest possible error of the clock estimate, if no delay is negative")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS)
        .openmetrics("clock_error_bound"),
        Scalar::new(
            "control-rtt-min",
            "control RTT min",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.clock().min_rtt_ns),
        )
        .about("minimum round-trip time of the control channel")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "client-clock-step",
            "client clock step",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.test()?.clock.client.step_ns),
        )
        .about("step of the client's clock during the test")
        .only(Applies::TESTS),
        Scalar::new(
            "server-clock-step",
            "server clock step",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.test()?.clock.server.step_ns),
        )
        .about("step of the server's clock during the test")
        .only(Applies::TESTS),
    ];

    type Found = ClockEstimate;

    fn begin(_: &Session) -> ClockMetric {
        ClockMetric
    }

    fn found(&self, stream: &EndedStream<'_>) -> ClockEstimate {
        stream.known.clock.clone()
    }

    fn write(found: ClockEstimate, stream: &EndedStream<'_>, to: &mut Summary) {
        to.latency_corrected = if stream.known.has_two_clocks() { found.correct(&to.latency) } else { None };
        to.clock = found;
    }
}
impl Metric for StreamingHull {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "skew",
            "clock skew",
            ScalarUnit::Ppm,
            ScalarGetter::Real(|s| s.skew_hull().as_ref().map(|h| h.alpha_ppm)),
        )
        .about("slope of the lower hull of delay over send time: the relative clock skew, unless a queue causes it")
        .source("Moon, Skelly and Towsley 1999")
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "pdv-deskewed-p99",
            "jitter 99%, no skew",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| deskewed(s, 99_000)),
        )
        .about("99th percentile of PDV after removal of the clock skew, if that is not negligible")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
        Scalar::new(
            "pdv-deskewed-max",
            "jitter max, no skew",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| deskewed(s, 100_000)),
        )
        .about("largest PDV after removal of the clock skew, if that is not negligible")
        .lower_is_better()
        .only(Applies::TWO_CLOCKS),
    ];

    type Found = SkewAndTrend;

    fn begin(_: &Session) -> StreamingHull {
        StreamingHull::default()
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        self.push_all(packets.sent, packets.delay);
    }

    fn join(&mut self, later: StreamingHull, lead: &StreamingHull) {
        StreamingHull::join(self, later, lead.clone());
    }

    fn is_possible(&self, n: u64) -> bool {
        StreamingHull::is_possible(self, n)
    }

    fn found(&self, stream: &EndedStream<'_>) -> SkewAndTrend {
        let [on_send, _] = stream.lines();
        let hull = stream.known.has_two_clocks().then(|| self.clone().figures(on_send)).flatten();
        SkewAndTrend { hull, ..SkewAndTrend::default() }
    }

    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> SkewAndTrend {
        let trend = all.trend().cloned();
        if !stream.known.has_two_clocks() {
            return SkewAndTrend { trend, ..SkewAndTrend::default() };
        }
        let hull = all.skew_hull();
        let (_, pdv) = all.delays();
        let deskewed = |hull: &SkewHull| hull.deskewed(&all.series, pdv, stream.known.wanted());
        SkewAndTrend { pdv_deskewed: hull.as_ref().and_then(deskewed), hull, trend }
    }

    fn write(found: SkewAndTrend, _: &EndedStream<'_>, to: &mut Summary) {
        to.skew_hull = found.hull;
        to.pdv_deskewed = found.pdv_deskewed;
        to.trend = found.trend;
    }
}
fn deskewed(source: &ScalarSource<'_>, percent: u32) -> Option<i64> {
    source.pdv_deskewed().as_ref()?.percentile(Percent(percent))
}

/// Line below all packets, and cause of a slope of delay.
#[derive(Default)]
pub struct SkewAndTrend {
    hull: Option<SkewHull>,
    pdv_deskewed: Option<Distribution>,
    trend: Option<Trend>,
}
