//! Retries, signal, rate, errors and drops of the interface that a test used.

use crate::interface::{InterfaceHistory, InterfaceQuantity};
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarSource, ScalarUnit};
use crate::session::Session;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// Samples of the client's interface. They are part of the session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InterfaceMetric;

fn history<'a>(source: &ScalarSource<'a>) -> Option<&'a InterfaceHistory> {
    source.test()?.session.client.interface.as_deref()
}

fn increase(source: &ScalarSource<'_>, quantity: InterfaceQuantity) -> Option<u64> {
    history(source)?.increase(quantity)
}

fn mean(source: &ScalarSource<'_>, quantity: InterfaceQuantity) -> Option<f64> {
    history(source)?.level(quantity).map(|[_, mean, _]| mean)
}

impl Metric for InterfaceMetric {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "interface-retries",
            "radio retries",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| increase(s, InterfaceQuantity::Retries)),
        )
        .about("frames that the client's radio sent again, during the test")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "interface-failed",
            "radio frames given up",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| increase(s, InterfaceQuantity::Failed)),
        )
        .about("frames that the client's radio gave up after the last retry, during the test")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "interface-signal",
            "radio signal, dBm",
            ScalarUnit::Plain { decimals: 1 },
            ScalarGetter::Real(|s| mean(s, InterfaceQuantity::Signal)),
        )
        .about("mean signal level at the client's radio, in dBm")
        .higher_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "interface-tx-rate",
            "radio send rate",
            ScalarUnit::BitRate,
            ScalarGetter::Real(|s| mean(s, InterfaceQuantity::TxRate).map(|kbit_s| 1e3 * kbit_s)),
        )
        .about("mean rate at which the client's radio sends frames")
        .higher_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "interface-errors",
            "interface errors",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| increase(s, InterfaceQuantity::Errors)),
        )
        .about("frames with errors at the client's interface, during the test")
        .lower_is_better()
        .only(Applies::TESTS),
        Scalar::new(
            "interface-drops",
            "interface drops",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| increase(s, InterfaceQuantity::Drops)),
        )
        .about("frames that the client's interface dropped, during the test")
        .lower_is_better()
        .only(Applies::TESTS),
    ];

    type Found = ();

    fn begin(_: &Session) -> InterfaceMetric {
        InterfaceMetric
    }

    fn found(&self, _: &EndedStream<'_>) {}

    fn write((): (), _: &EndedStream<'_>, _: &mut Summary) {}
}
