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
        reason = "a path to the method has a single lifetime, but any lifetime is required"
    )]
    const SCALARS: &'static [Scalar] = &[
    Scalar::new("sent", "packets sent", ScalarUnit::Packets, ScalarGetter::Count(|s| s.sent()))
        .about("packets sent that are known to be received or lost")
        .headline()
        .openmetrics("packets_sent"),
    Scalar::new(
        "received",
        "packets received",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| Some(s.test()?.counts.received)),
    )
    .about("datagrams received, including duplicates and invalid ones")
    .only(Applies::WHOLE)
    .openmetrics("packets_received"),
    Scalar::new(
        "unique-valid",
        "unique and valid",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| Some(s.test()?.counts.unique_valid)),
    )
    .about("valid packets received, without duplicates: all other figures are about these packets")
    .only(Applies::WHOLE)
    .openmetrics("packets_valid"),
    Scalar::new("duplicate", "duplicate packets", ScalarUnit::Packets, ScalarGetter::Count(|s| s.duplicate()))
        .about("further copies of packets received")
        .source("RFC 5560")
        .lower_is_better()
        .openmetrics("packets_duplicate"),
    Scalar::new("invalid", "invalid packets", ScalarUnit::Packets, ScalarGetter::Count(|s| Some(s.test()?.counts.invalid)))
        .about("packets that are damaged, or whose number or times are invalid")
        .lower_is_better()
        .only(Applies::WHOLE)
        .openmetrics("packets_invalid"),
    Scalar::new("lost", "lost packets", ScalarUnit::Packets, ScalarGetter::Count(|s| s.lost()))
        .about("packets that did not arrive intact and in time")
        .source("RFC 7680")
        .lower_is_better()
        .openmetrics("packets_lost"),
    Scalar::new("late", "late packets", ScalarUnit::Packets, ScalarGetter::Count(|s| Some(s.test()?.counts.late)))
        .about("lost packets that arrived intact but after the timeout")
        .source("RFC 7680")
        .lower_is_better()
        .only(Applies::WHOLE)
        .openmetrics("packets_late"),
    Scalar::new("out-of-sequence", "reordered packets", ScalarUnit::Packets, ScalarGetter::Count(|s| s.out_of_sequence()))
        .about("packets that arrived after a packet sent later")
        .source("RFC 4737 §3")
        .lower_is_better()
        .openmetrics("packets_out_of_sequence"),
    Scalar::new(
        "invalid-ratio",
        "invalid share",
        ScalarUnit::Share,
        ScalarGetter::Real(|s| share(s.test()?.counts.invalid_pct)),
    )
    .about("invalid packets divided by packets received")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "duplicates",
        "duplicate share",
        ScalarUnit::Share,
        ScalarGetter::Real(|s| share(s.test()?.counts.duplicate_pct)),
    )
    .about("duplicates divided by packets received")
    .source("RFC 5560")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "reordered",
        "reordered share",
        ScalarUnit::Share,
        ScalarGetter::Real(|s| share(s.test()?.counts.out_of_sequence_pct)),
    )
    .about("reordered packets divided by packets accepted")
    .source("RFC 4737 §3")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "clock-regressions",
        "receiver clock back",
        ScalarUnit::Count,
        ScalarGetter::Count(|s| Some(s.test()?.counts.rx_time_regressions)),
    )
    .about("number of times that the receiver's clock went backwards between two arrivals")
    .lower_is_better()
    .only(Applies::WHOLE),
    Scalar::new(
        "receiver-drops",
        "receiver drops",
        ScalarUnit::Packets,
        ScalarGetter::Count(|s| s.test()?.session.receiver_drops),
    )
    .about("datagrams that the receiving kernel dropped because a buffer was full: lost by the host, not by the path")
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
