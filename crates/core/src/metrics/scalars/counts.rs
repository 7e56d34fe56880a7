//! Counts of packets: the figures that are fields of the summary.

use crate::metrics::entry::Metric;
use crate::scalars::{Applies, Scalar, Take, Unit};

/// Packet counts and shares.
#[expect(clippy::redundant_closure_for_method_calls, reason = "a path to the method is of one lifetime only")]
pub const METRIC: Metric = Metric::of_fields(&[
    Scalar::new("sent", "packets sent", Unit::Packets, Take::Count(|s| s.sent()))
        .about("packets sent, as far as their fate is known")
        .headline()
        .openmetrics("packets_sent"),
    Scalar::new(
        "received",
        "packets received",
        Unit::Packets,
        Take::Count(|s| Some(s.test()?.counts.received)),
    )
    .about("datagrams received, whatever they were")
    .only(Applies::WHOLE)
    .openmetrics("packets_received"),
    Scalar::new(
        "unique-valid",
        "unique and valid",
        Unit::Packets,
        Take::Count(|s| Some(s.test()?.counts.unique_valid)),
    )
    .about("first clean copies received: the packets all other figures are about")
    .only(Applies::WHOLE)
    .openmetrics("packets_valid"),
    Scalar::new("duplicate", "duplicate packets", Unit::Packets, Take::Count(|s| s.duplicate()))
        .about("further copies received")
        .source("RFC 5560")
        .lower_is_better()
        .openmetrics("packets_duplicate"),
    Scalar::new("invalid", "invalid packets", Unit::Packets, Take::Count(|s| Some(s.test()?.counts.invalid)))
        .about("number out of range, damaged, or without times to subtract")
        .lower_is_better()
        .only(Applies::WHOLE)
        .openmetrics("packets_invalid"),
    Scalar::new("lost", "lost packets", Unit::Packets, Take::Count(|s| s.lost()))
        .about("sent, and not accepted")
        .source("RFC 7680")
        .lower_is_better()
        .openmetrics("packets_lost"),
    Scalar::new("late", "late packets", Unit::Packets, Take::Count(|s| Some(s.test()?.counts.late)))
        .about("of the lost: arrived clean, but after the waiting time")
        .source("RFC 7680")
        .lower_is_better()
        .only(Applies::WHOLE)
        .openmetrics("packets_late"),
    Scalar::new("out-of-sequence", "out of sequence", Unit::Packets, Take::Count(|s| s.out_of_sequence()))
        .about("accepted, but overtaken by a later packet")
        .source("RFC 4737 §3")
        .lower_is_better()
        .openmetrics("packets_out_of_sequence"),
    Scalar::new(
        "invalid-ratio",
        "share invalid",
        Unit::Share,
        Take::Real(|s| share(s.test()?.counts.invalid_pct)),
    )
    .about("invalid over received")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "duplicates",
        "share duplicate",
        Unit::Share,
        Take::Real(|s| share(s.test()?.counts.duplicate_pct)),
    )
    .about("further copies over received")
    .source("RFC 5560")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reordered",
        "share overtaken",
        Unit::Share,
        Take::Real(|s| share(s.test()?.counts.out_of_sequence_pct)),
    )
    .about("overtaken packets over accepted ones")
    .source("RFC 4737 §3")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "clock-regressions",
        "receive time back",
        Unit::Count,
        Take::Count(|s| Some(s.test()?.counts.rx_time_regressions)),
    )
    .about("times the receiver's clock went back between two arrivals")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "receiver-drops",
        "receiver drops",
        Unit::Packets,
        Take::Count(|s| s.test()?.session.receiver_drops),
    )
    .about("datagrams the receiving kernel dropped for want of buffer space: the host's loss, not the path's")
    .lower_is_better()
    .only(Applies::TESTS),
]);

fn share(percent: Option<f64>) -> Option<f64> {
    percent.map(|p| p / 100.0)
}
