//! Periods, rates, throughput (metrics §9).

use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{MeanPeriods, Summary};
use serde::{Deserialize, Serialize};

/// Periods, rates, throughput.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RateMetric;

impl Metric for RateMetric {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "target-period",
            "requested period",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.periods.target?.period_ns)),
        )
        .about("requested time between packets")
        .only(Applies::TESTS),
        Scalar::new(
            "tx-period",
            "transmit period",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.periods.tx?.period_ns)),
        )
        .about("mean time between packets, as sent; loss does not bias it")
        .only(Applies::WHOLE),
        Scalar::new(
            "rx-period",
            "receive period",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.periods.rx?.period_ns)),
        )
        .about("mean time between packets, as received; loss lengthens it")
        .only(Applies::WHOLE),
        Scalar::new(
            "tx-rate",
            "transmit rate",
            ScalarUnit::PacketRate,
            ScalarGetter::Real(|s| Some(s.test()?.periods.tx?.rate_pps)),
        )
        .about("packets sent per second")
        .only(Applies::WHOLE),
        Scalar::new(
            "rx-rate",
            "receive rate",
            ScalarUnit::PacketRate,
            ScalarGetter::Real(|s| Some(s.test()?.periods.rx?.rate_pps)),
        )
        .about("packets received per second")
        .only(Applies::WHOLE),
        Scalar::new(
            "tx-throughput",
            "payload rate sent",
            ScalarUnit::BitRate,
            ScalarGetter::Real(|s| s.test()?.periods.tx?.throughput_bps),
        )
        .about("payload bits sent per second")
        .only(Applies::WHOLE),
        Scalar::new(
            "rx-throughput",
            "payload rate received",
            ScalarUnit::BitRate,
            ScalarGetter::Real(|s| s.test()?.periods.rx?.throughput_bps),
        )
        .about("payload bits received per second")
        .only(Applies::WHOLE),
    ];

    type Found = MeanPeriods;

    fn begin(_: &Session) -> RateMetric {
        RateMetric
    }

    fn found(&self, stream: &EndedStream<'_>) -> MeanPeriods {
        stream.known.periods.clone()
    }

    fn write(found: MeanPeriods, _: &EndedStream<'_>, to: &mut Summary) {
        to.periods = found;
    }
}
