//! Counts of packets (metrics §1).

use super::percent;
use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::{Counts, Summary};
use serde::{Deserialize, Serialize};

/// Numbers and shares of packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketCounts;

impl Metric for PacketCounts {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "a path to the method is of one lifetime only"
    )]
    const SCALARS: &'static [Scalar] = &[
    Scalar::new("sent", "packets sent", ScalarUnit::Packets, ScalarGetter::Count(|s| s.sent()))
        .about("packets sent, as far as their fate is known")
        .headline()
        .openmetrics("packets_sent"),
    Scalar::new(
        "received",
        "packets received",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| Some(s.test()?.counts.received)),
    )
    .about("datagrams received, whatever they were")
    .only(Applies::WHOLE)
    .openmetrics("packets_received"),
    Scalar::new(
        "unique-valid",
        "unique and valid",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| Some(s.test()?.counts.unique_valid)),
    )
    .about("first clean copies received: the packets all other figures are about")
    .only(Applies::WHOLE)
    .openmetrics("packets_valid"),
    Scalar::new("duplicate", "duplicate packets", ScalarUnit::Packets, ScalarGetter::Count(|s| s.duplicate()))
        .about("further copies received")
        .source("RFC 5560")
        .lower_is_better()
        .openmetrics("packets_duplicate"),
    Scalar::new("invalid", "invalid packets", ScalarUnit::Packets, ScalarGetter::Count(|s| Some(s.test()?.counts.invalid)))
        .about("number out of range, damaged, or without times to subtract")
        .lower_is_better()
        .only(Applies::WHOLE)
        .openmetrics("packets_invalid"),
    Scalar::new("lost", "lost packets", ScalarUnit::Packets, ScalarGetter::Count(|s| s.lost()))
        .about("sent, and not accepted")
        .source("RFC 7680")
        .lower_is_better()
        .openmetrics("packets_lost"),
    Scalar::new("late", "late packets", ScalarUnit::Packets, ScalarGetter::Count(|s| Some(s.test()?.counts.late)))
        .about("of the lost: arrived clean, but after the waiting time")
        .source("RFC 7680")
        .lower_is_better()
        .only(Applies::WHOLE)
        .openmetrics("packets_late"),
    Scalar::new("out-of-sequence", "out of sequence", ScalarUnit::Packets, ScalarGetter::Count(|s| s.out_of_sequence()))
        .about("accepted, but overtaken by a later packet")
        .source("RFC 4737 §3")
        .lower_is_better()
        .openmetrics("packets_out_of_sequence"),
    Scalar::new(
        "invalid-ratio",
        "share invalid",
        ScalarUnit::Share,
        ScalarGetter::Real(|s| share(s.test()?.counts.invalid_pct)),
    )
    .about("invalid over received")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "duplicates",
        "share duplicate",
        ScalarUnit::Share,
        ScalarGetter::Real(|s| share(s.test()?.counts.duplicate_pct)),
    )
    .about("further copies over received")
    .source("RFC 5560")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reordered",
        "share overtaken",
        ScalarUnit::Share,
        ScalarGetter::Real(|s| share(s.test()?.counts.out_of_sequence_pct)),
    )
    .about("overtaken packets over accepted ones")
    .source("RFC 4737 §3")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "clock-regressions",
        "receive time back",
        ScalarUnit::Count,
        ScalarGetter::Count(|s| Some(s.test()?.counts.rx_time_regressions)),
    )
    .about("times the receiver's clock went back between two arrivals")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "receiver-drops",
        "receiver drops",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| s.test()?.session.receiver_drops),
    )
    .about("datagrams the receiving kernel dropped for want of buffer space: the host's loss, not the path's")
    .lower_is_better()
    .only(Applies::TESTS),
];

    type Found = Counts;

    fn begin(_: &Session) -> PacketCounts {
        PacketCounts
    }

    fn found(&self, stream: &EndedStream<'_>) -> Counts {
        let counted = stream.known.counted;
        let lost = counted.sent.saturating_sub(counted.accepted);
        Counts {
            sent: counted.sent,
            received: counted.received,
            unique_valid: counted.accepted,
            duplicate: counted.duplicate,
            invalid: counted.invalid,
            lost,
            late: counted.late,
            lost_pct: percent(lost, counted.sent),
            duplicate_pct: percent(counted.duplicate, counted.received),
            invalid_pct: percent(counted.invalid, counted.received),
            rx_time_regressions: counted.rx_time_regressions,
            tail_unknown: counted.tail_unknown,
            // The reordering metric writes the other counts.
            ..Counts::default()
        }
    }

    fn write(found: Counts, _: &EndedStream<'_>, to: &mut Summary) {
        to.counts = found;
    }
}
fn share(percent: Option<f64>) -> Option<f64> {
    percent.map(|p| p / 100.0)
}
