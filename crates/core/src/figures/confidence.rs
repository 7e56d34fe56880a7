//! How far to trust a mean: the figures that are fields of the summary.

use crate::figure::{Applies, Figure, Take, Unit};
use crate::metrics::entry::Metric;

/// How far the sample pins its mean down.
pub const METRIC: Metric = Metric::of_fields(&[
    Figure::new(
        "autocorrelation",
        "autocorrelation",
        Unit::Plain { decimals: 3 },
        Take::Real(|s| s.test()?.inference.acf1_send_order),
    )
    .about("lag-1 autocorrelation of delay in send order")
    .only(Applies::WHOLE),
    Figure::new(
        "effective-n",
        "effective sample",
        Unit::Packets,
        Take::Real(|s| s.test()?.inference.effective_n),
    )
    .about("independent packets that would tell as much of the mean")
    .higher_is_better()
    .only(Applies::WHOLE),
    Figure::new(
        "latency-mean-low",
        "mean at least",
        Unit::Time,
        Take::Real(|s| Some(s.test()?.inference.batch?.ci95[0])),
    )
    .about("lower end of the 95 % interval of the mean delay, by batches")
    .lower_is_better()
    .only(Applies::WHOLE),
    Figure::new(
        "latency-mean-high",
        "mean at most",
        Unit::Time,
        Take::Real(|s| Some(s.test()?.inference.batch?.ci95[1])),
    )
    .about("upper end of the 95 % interval of the mean delay, by batches")
    .lower_is_better()
    .only(Applies::WHOLE),
]);
