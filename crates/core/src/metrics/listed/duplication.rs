//! Duplication (metrics §12).

use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Duplicates, Summary};
use serde::{Deserialize, Serialize};

/// Duplication.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Duplication;

impl Metric for Duplication {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "duplication-fraction",
            "duplication",
            ScalarUnit::Plain { decimals: 4 },
            ScalarGetter::Real(|s| s.test()?.duplicates.duplication_fraction),
        )
        .about("arrivals divided by distinct packets, minus 1")
        .source("RFC 5560 §5.2")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "replicated-rate",
            "replicated",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| s.test()?.duplicates.replicated_rate),
        )
        .about("packets that arrived more than once, divided by distinct packets")
        .source("RFC 5560 §5.2")
        .lower_is_better()
        .only(Applies::WHOLE),
        Scalar::new(
            "duplicate-after-median",
            "duplicate after, 50%",
            ScalarUnit::Time,
            ScalarGetter::Real(|s| Some(s.test()?.duplicates.time_to_duplicate?.median)),
        )
        .about("median time from a packet's first arrival to a further copy")
        .only(Applies::WHOLE),
        Scalar::new(
            "duplicate-after-max",
            "duplicate after, max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| Some(s.test()?.duplicates.time_to_duplicate?.max)),
        )
        .about("largest time from a packet's first arrival to a further copy")
        .only(Applies::WHOLE),
    ];

    type Found = Duplicates;

    fn begin(_: &Session) -> Duplication {
        Duplication
    }

    fn found(&self, stream: &EndedStream<'_>) -> Duplicates {
        stream.duplicates()
    }

    fn write(found: Duplicates, _: &EndedStream<'_>, to: &mut Summary) {
        to.duplicates = found;
    }
}
