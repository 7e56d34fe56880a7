//! Per-direction results of round-trip tests.

use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// Per-direction results of round-trip tests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundTripExtras;

impl Metric for RoundTripExtras {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "processing-min",
            "processing min",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.two_way()?.processing.map(|p| p.min)),
        )
        .about("smallest time that the far host took to answer, which round trips do not include")
        .source("RFC 2681")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "processing-mean",
            "processing mean",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.two_way()?.processing.map(|p| p.mean)),
        )
        .about("mean time that the far host took to answer")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "processing-max",
            "processing max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.two_way()?.processing.map(|p| p.max)),
        )
        .about("largest time that the far host took to answer")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "unsent",
            "not sent",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.unsent)),
        )
        .about("requests that this host could not send")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "lost-there",
            "lost up",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.directions?.up_lost)),
        )
        .about("requests lost up (towards the far host), if the far host counts packets")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "lost-back",
            "lost down",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.directions?.down_lost)),
        )
        .about("answers lost down (from the far host), if the far host counts packets")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "lost-either",
            "lost up or down",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.directions?.unknown_lost)),
        )
        .about("requests or answers lost in an unknown direction")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "answers-foreign",
            "foreign answers",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.foreign)),
        )
        .about("datagrams received that do not belong to this test")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "answers-malformed",
            "malformed answers",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.malformed)),
        )
        .about("datagrams received that violate the protocol")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "answers-forged",
            "forged answers",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.forged)),
        )
        .about("datagrams received whose integrity check failed")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "answers-unmatched",
            "unmatched answers",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.unmatched)),
        )
        .about("answers to requests that were never sent or are too old")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "requests-refused",
            "requests refused",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.refused)),
        )
        .about("ICMP port-unreachable messages from the far host")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "requests-prohibited",
            "requests prohibited",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.prohibited)),
        )
        .about("ICMP messages reporting that a filter or policy prohibits the requests")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "tcp-retransmissions",
            "TCP retransmissions",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| Some(s.two_way()?.tcp?.retransmissions)),
        )
        .about("segments that the kernel retransmitted during a TCP test")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "tcp-srtt-max",
            "TCP SRTT max",
            ScalarUnit::Time,
            ScalarGetter::Count(|s| Some(u64::from(s.two_way()?.tcp?.srtt_max_us) * 1000)),
        )
        .about("largest smoothed round-trip time of the kernel during a TCP test")
        .source("RFC 6298")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "tcp-cwnd-min",
            "TCP window min",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| Some(s.two_way()?.tcp?.cwnd_min.into())),
        )
        .about("smallest congestion window during a TCP test, in segments")
        .higher_is_better()
        .only(Applies::ROUND_TRIPS),
    ];

    type Found = ();

    fn begin(_: &Session) -> RoundTripExtras {
        RoundTripExtras
    }

    fn found(&self, _: &EndedStream<'_>) {}

    fn write((): (), stream: &EndedStream<'_>, to: &mut Summary) {
        to.two_way = stream.known.two_way.get().cloned().map(Box::new);
    }
}
