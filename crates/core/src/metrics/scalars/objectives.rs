//! Service objectives: the figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::scalars::{Applies, Scalar, Take, Unit};

/// Service objectives.
pub const METRIC: Metric = Metric::of_fields(&[Scalar::new(
    "y1541-class",
    "Y.1541 class",
    Unit::Count,
    Take::Count(|s| s.objectives().as_ref().map(|y| y.class.into())),
)
.about("most demanding class whose bounds hold: 6, 7, 0 … 4; 5 is the unspecified class")
.source("Y.1541, as RFC 5976 §2 quotes it")
.only(Applies::TWO_CLOCKS)]);
