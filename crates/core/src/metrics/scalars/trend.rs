//! Delay over time: the figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::scalars::{Applies, Scalar, Take, Unit};

/// Slopes of delay over time.
pub const REGRESSION: Metric = Metric::of_fields(&[
    Scalar::new(
        "slope",
        "slope of delay",
        Unit::Ppm,
        Take::Real(|s| s.test()?.regression_send.map(|r| r.m * 1e6)),
    )
    .about("slope of delay over send time by least squares")
    .only(Applies::WHOLE),
    Scalar::new(
        "slope-r",
        "correlation with time",
        Unit::Plain { decimals: 4 },
        Take::Real(|s| s.test()?.regression_send?.r),
    )
    .about("Pearson's correlation of delay and send time")
    .only(Applies::WHOLE),
    Scalar::new(
        "slope-arrival",
        "slope over arrival",
        Unit::Ppm,
        Take::Real(|s| s.test()?.regression_arrival.map(|r| r.m * 1e6)),
    )
    .about("slope of delay over arrival time: the burstiness plot's m")
    .only(Applies::WHOLE),
    Scalar::new(
        "slope-arrival-r",
        "r over arrival",
        Unit::Plain { decimals: 4 },
        Take::Real(|s| s.test()?.regression_arrival?.r),
    )
    .about("Pearson's correlation of delay and arrival time: the burstiness plot's r")
    .only(Applies::WHOLE),
]);

/// Path changes and clock steps.
pub const SEGMENTS: Metric = Metric::of_fields(&[Scalar::new(
    "path-changes",
    "path changes",
    Unit::Count,
    Take::Count(|s| Some(s.test()?.segments.len().saturating_sub(1) as u64)),
)
.about("lasting jumps of the smallest delay: a route or a clock changed")
.source("RFC 5481 §6.2")
.lower_is_better()
.only(Applies::WHOLE)]);
