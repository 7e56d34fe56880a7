//! Results of round-trip tests in addition to their round trips.

use crate::metrics::metric::Metric;
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// Results of round-trip tests in addition to their round trips.
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
        .about("smallest time the far host took to answer, which is not part of the round trips")
        .source("RFC 2681")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "processing-mean",
            "processing mean",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.two_way()?.processing.map(|p| p.mean)),
        )
        .about("mean time the far host took to answer")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "processing-max",
            "processing max",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.two_way()?.processing.map(|p| p.max)),
        )
        .about("largest time the far host took to answer")
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
            "lost on the way there",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.directions?.up_lost)),
        )
        .about("requests lost on the way there, where the far host counts")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "lost-back",
            "lost on the way back",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.directions?.down_lost)),
        )
        .about("answers lost on the way back, where the far host counts")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "lost-either",
            "lost either way",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.directions?.unknown_lost)),
        )
        .about("lost in an unknown direction")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "answers-foreign",
            "foreign answers",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.foreign)),
        )
        .about("datagrams received that are not of this test")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "answers-malformed",
            "malformed answers",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.malformed)),
        )
        .about("datagrams received that are not what the protocol allows")
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
        .about("answers to requests never sent or long gone")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "requests-refused",
            "requests refused",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.refused)),
        )
        .about("ICMP messages of the far host that nothing listens there")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "requests-prohibited",
            "requests prohibited",
            ScalarUnit::Packets,
            ScalarGetter::Count(|s| Some(s.two_way()?.not_answers.prohibited)),
        )
        .about("ICMP messages that a filter or policy prohibits the requests")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "tcp-retransmissions",
            "TCP retransmissions",
            ScalarUnit::Count,
            ScalarGetter::Count(|s| Some(s.two_way()?.tcp?.retransmissions)),
        )
        .about("segments the kernel sent again during a TCP test")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "tcp-srtt-max",
            "TCP SRTT, largest",
            ScalarUnit::Time,
            ScalarGetter::Count(|s| Some(u64::from(s.two_way()?.tcp?.srtt_max_us) * 1000)),
        )
        .about("largest smoothed round-trip time the kernel saw during a TCP test")
        .source("RFC 6298")
        .lower_is_better()
        .only(Applies::ROUND_TRIPS),
        Scalar::new(
            "tcp-cwnd-min",
            "TCP window, smallest",
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
