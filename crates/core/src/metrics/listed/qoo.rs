//! Quality of Outcome of the built-in profiles (metrics page *Quality of Outcome*).

use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Scalar, ScalarGetter, ScalarSource, ScalarUnit};
use crate::session::Session;
use serde::{Deserialize, Serialize};

/// Scores of the built-in profiles. A [judge](crate::evidence::Judge) computes them from the requirements of its profiles.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcomes;

/// Defines the scalar of a profile.
macro_rules! score {
    ($profile:literal) => {
        Scalar::new(
            concat!("qoo.", $profile),
            concat!("QoO ", $profile),
            ScalarUnit::Plain { decimals: 1 },
            ScalarGetter::Real(|s| score_of(s, $profile)),
        )
        .about(concat!(
            "Quality of Outcome for the profile ",
            $profile,
            ", from 0 (unacceptable) to 100 (optimal)"
        ))
        .source("draft-ietf-ippm-qoo")
        .higher_is_better()
    };
}

impl Metric for Outcomes {
    const SCALARS: &'static [Scalar] = &[
        score!("voice"),
        score!("video"),
        score!("gaming"),
        score!("cloud-desktop"),
        score!("telemetry"),
        score!("v2x"),
    ];

    type Found = ();

    fn begin(_: &Session) -> Outcomes {
        Outcomes
    }

    fn found(&self, _: &EndedStream<'_>) {}

    fn write((): (), _: &EndedStream<'_>, _: &mut crate::Summary) {}
}

fn score_of(source: &ScalarSource<'_>, profile: &str) -> Option<f64> {
    source.qoo()?.profiles.get(profile)?.score
}
