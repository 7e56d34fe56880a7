//! Service objectives (metrics §19).

use crate::distribution::percentile::Percent;
use crate::metrics::known::StreamFacts;
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Summary, Y1541};
use serde::{Deserialize, Serialize};

/// Service objectives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Objectives;

impl Metric for Objectives {
    const SCALARS: &'static [Scalar] = &[Scalar::new(
        "y1541-class",
        "Y.1541 class",
        ScalarUnit::Count,
        ScalarGetter::Count(|s| s.objectives().as_ref().map(|y| y.class.into())),
    )
    .about("most demanding class whose bounds the test meets, in the order 6, 7, 0 … 4; 5 is the unspecified class")
    .source("Y.1541, as RFC 5976 §2 quotes it")
    .only(Applies::TWO_CLOCKS)];

    type Found = ();

    fn begin(_: &Session) -> Objectives {
        Objectives
    }

    fn found(&self, _: &EndedStream<'_>) {}

    fn write((): (), stream: &EndedStream<'_>, to: &mut Summary) {
        let StreamFacts { clock, options, counted, .. } = stream.known;
        if !stream.known.has_two_clocks() {
            return;
        }
        let corrected = to.latency_corrected.is_some_and(|c| c.is_possible());
        let trusted = corrected || clock.synchronised().is_some() || options.trust_clocks;
        let mean = to.latency_corrected.map_or(to.latency.mean, |c| c.mean);
        let variation = to.pdv.percentile(Percent(99_900));
        to.objectives = Y1541::new(mean, variation, to.loss.ratio, counted.sent, trusted);
    }
}
