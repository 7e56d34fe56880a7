//! Delay over time (metrics §14).

use crate::metrics::all_packets::AllPackets;
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{PathSegment, Regression, Summary};
use serde::{Deserialize, Serialize};

/// Slopes of delay over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slopes;

impl Metric for Slopes {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "slope",
            "slope of delay",
            ScalarUnit::Plain { decimals: 6 },
            ScalarGetter::Real(|s| s.test()?.regression_send.map(|r| r.m)),
        )
        .about("slope of delay over send time by least squares, in seconds per second")
        .only(Applies::WHOLE),
        Scalar::new(
            "slope-r",
            "correlation with time",
            ScalarUnit::Plain { decimals: 4 },
            ScalarGetter::Real(|s| s.test()?.regression_send?.r),
        )
        .about("Pearson's correlation of delay and send time")
        .only(Applies::WHOLE),
        Scalar::new(
            "slope-arrival",
            "slope over arrival",
            ScalarUnit::Plain { decimals: 6 },
            ScalarGetter::Real(|s| s.test()?.regression_arrival.map(|r| r.m)),
        )
        .about("slope of delay over arrival time, in seconds per second: m of the burstiness plot")
        .only(Applies::WHOLE),
        Scalar::new(
            "slope-arrival-r",
            "r over arrival",
            ScalarUnit::Plain { decimals: 4 },
            ScalarGetter::Real(|s| s.test()?.regression_arrival?.r),
        )
        .about("Pearson's correlation of delay and arrival time: r of the burstiness plot")
        .only(Applies::WHOLE),
    ];

    type Found = [Option<Regression>; 2];

    fn begin(_: &Session) -> Slopes {
        Slopes
    }

    fn found(&self, stream: &EndedStream<'_>) -> [Option<Regression>; 2] {
        stream.lines().map(|line| line.map(Regression::from))
    }

    fn write([on_send, on_arrival]: [Option<Regression>; 2], _: &EndedStream<'_>, to: &mut Summary) {
        to.regression_send = on_send;
        to.regression_arrival = on_arrival;
    }
}
/// Path changes and clock steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeMetric;

impl Metric for ChangeMetric {
    const SCALARS: &'static [Scalar] = &[Scalar::new(
        "path-changes",
        "path changes",
        ScalarUnit::Count,
        ScalarGetter::Count(|s| Some(s.test()?.segments.len().saturating_sub(1) as u64)),
    )
    .about("lasting jumps of the smallest delay, caused by a change of the route or of a clock")
    .source("RFC 5481 §6.2")
    .lower_is_better()
    .only(Applies::WHOLE)];

    type Found = Vec<PathSegment>;

    fn begin(_: &Session) -> ChangeMetric {
        ChangeMetric
    }

    fn found(&self, _: &EndedStream<'_>) -> Vec<PathSegment> {
        Vec::new()
    }

    fn found_of_all(_: &EndedStream<'_>, all: &AllPackets<'_>) -> Vec<PathSegment> {
        all.segments().to_vec()
    }

    fn write(found: Vec<PathSegment>, _: &EndedStream<'_>, to: &mut Summary) {
        to.segments = found;
    }
}
