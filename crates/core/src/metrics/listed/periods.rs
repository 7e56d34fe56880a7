//! Periods, rates, throughput (metrics §9).

use crate::metrics::metric::Metric;
use crate::metrics::stream::Stream;
use crate::scalars::{Applies, Scalar, Take, Unit};
use crate::session::Session;
use crate::summary::{Periods, Summary};
use serde::{Deserialize, Serialize};

/// Periods, rates, throughput.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rates;

impl Metric for Rates {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "target-period",
            "period asked for",
            Unit::Time,
            Take::Real(|s| Some(s.test()?.periods.target?.period_ns)),
        )
        .about("time between packets, as asked for")
        .only(Applies::TESTS),
        Scalar::new(
            "tx-period",
            "transmit period",
            Unit::Time,
            Take::Real(|s| Some(s.test()?.periods.tx?.period_ns)),
        )
        .about("mean time between packets, as sent; loss does not bias it")
        .only(Applies::WHOLE),
        Scalar::new(
            "rx-period",
            "receive period",
            Unit::Time,
            Take::Real(|s| Some(s.test()?.periods.rx?.period_ns)),
        )
        .about("mean time between packets, as received; loss lengthens it")
        .only(Applies::WHOLE),
        Scalar::new(
            "tx-rate",
            "packets sent a second",
            Unit::PacketRate,
            Take::Real(|s| Some(s.test()?.periods.tx?.rate_pps)),
        )
        .about("packets sent a second")
        .only(Applies::WHOLE),
        Scalar::new(
            "rx-rate",
            "packets got a second",
            Unit::PacketRate,
            Take::Real(|s| Some(s.test()?.periods.rx?.rate_pps)),
        )
        .about("packets received a second")
        .only(Applies::WHOLE),
        Scalar::new(
            "tx-throughput",
            "user rate sent",
            Unit::BitRate,
            Take::Real(|s| s.test()?.periods.tx?.throughput_bps),
        )
        .about("payload bits sent a second")
        .only(Applies::WHOLE),
        Scalar::new(
            "rx-throughput",
            "user rate received",
            Unit::BitRate,
            Take::Real(|s| s.test()?.periods.rx?.throughput_bps),
        )
        .about("payload bits received a second")
        .only(Applies::WHOLE),
    ];

    type Found = Periods;

    fn begin(_: &Session) -> Rates {
        Rates
    }

    fn found(&self, stream: &Stream<'_>) -> Periods {
        stream.known.periods.clone()
    }

    fn write(found: Periods, _: &Stream<'_>, to: &mut Summary) {
        to.periods = found;
    }
}
