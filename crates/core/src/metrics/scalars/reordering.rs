//! Reordering: the figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::metrics::reorder::Density;
use crate::scalars::{Applies, Scalar, ScalarSource, Take, Unit};

/// Reordering.
pub const METRIC: Metric = Metric::of_fields(&[
    Scalar::new(
        "reorder-extent-max",
        "reordering extent",
        Unit::Packets,
        Take::Count(|s| s.test()?.reordering.extent_hist.keys().next_back().copied()),
    )
    .about("most arrivals between an overtaken packet and the earliest it was overtaken by")
    .source("RFC 4737 §4.2")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-late-max",
        "reordering late time",
        Unit::Time,
        Take::Whole(|s| s.test()?.reordering.max_late_time_ns),
    )
    .about("largest time from the arrival of the overtaker to that of the overtaken")
    .source("RFC 4737 §4.3")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-offset-max",
        "reordering offset",
        Unit::Bytes,
        Take::Count(|s| s.test()?.reordering.max_byte_offset),
    )
    .about("most payload to be held back for an overtaken packet")
    .source("RFC 4737 §4.4")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-free-runs",
        "reordering-free runs",
        Unit::Count,
        Take::Count(|s| Some(s.test()?.reordering.free_runs)),
    )
    .about("completed runs of packets in order")
    .source("RFC 4737 §4.6")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-three-late",
        "three or more late",
        Unit::Share,
        Take::Real(|s| density(s).map(|d| d.three_or_more_late)),
    )
    .about("packets displaced by three or more: what a TCP sender takes for loss")
    .source("RFC 5236 §4")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-late-ratio",
        "displaced late",
        Unit::Share,
        Take::Real(|s| density(s).map(|d| d.percent_late / 100.0)),
    )
    .about("packets that arrived later than their place")
    .source("RFC 5236 §4")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-early-ratio",
        "displaced early",
        Unit::Share,
        Take::Real(|s| density(s).map(|d| d.percent_early / 100.0)),
    )
    .about("packets that arrived earlier than their place")
    .source("RFC 5236 §4")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-displacement",
        "mean displacement",
        Unit::Packets,
        Take::Real(|s| density(s).map(|d| d.mean_displacement)),
    )
    .about("mean distance of a packet from its place, in arrivals")
    .source("RFC 5236 §4")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-entropy",
        "reordering entropy",
        Unit::Plain { decimals: 3 },
        Take::Real(|s| density(s).map(|d| d.entropy)),
    )
    .about("entropy of the reorder density, in nats")
    .source("RFC 5236 §4")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reorder-occupancy",
        "reorder buffer",
        Unit::Packets,
        Take::Real(|s| density(s).map(|d| d.mean_occupancy)),
    )
    .about("mean occupancy of a reorder buffer, lost packets skipped")
    .source("RFC 5236 §5")
    .lower_is_better()
    .only(Applies::WHOLE),
]);

fn density(source: &ScalarSource<'_>) -> Option<Density> {
    source.test()?.reordering.density
}
