//! [`TwoWay`]: what a two-way test has in addition to its packets.

use crate::time::{Span, StampSource};
use serde::{Deserialize, Serialize};

/// What a two-way test has in addition to the common fields of a [`Session`](crate::Session).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwoWay {
    /// Name of the protocol, in small letters: `icmp`, `stamp`, `twamp`, `lamp`, `tcp`.
    pub protocol: String,
    /// Stop and wait: each request was sent this long after the answer to the previous one. `None` = open loop.
    pub wait: Option<Span>,
    /// How long an answer could take; `None` if unknown.
    pub timeout: Option<Span>,
    /// Whether the far host's two times are readings of its clock, so that one-way delays are defined. If not, only
    /// their difference is meaningful.
    pub far_clock: bool,
    /// Whether the far host reports the processing time of each answer in a packet of its own, which can get lost: an
    /// answer whose processing time did not come has no delay, see [`lacks_delay`](super::lacks_delay).
    pub processing_apart: bool,
    /// The DSCP that the far host was asked to give its answers, where it is not that of the requests (STAMP's class of
    /// service).
    pub answer_dscp: Option<u8>,
    /// Loss, duplication and reordering by direction; `None` unless the far host's own count shows them.
    pub directions: Option<Directions>,
    /// Where each run of lost requests was lost, ascending; empty unless the far host's own count shows it.
    pub losses: Vec<LossRun>,
    /// What was received and is no measurement.
    pub not_answers: NotAnswers,
    /// The far host's report of a test that goes one way only.
    pub far_report: Option<FarReport>,
    /// The kernel's TCP_INFO over the test; `None` unless it ran over TCP.
    pub tcp: Option<TcpStats>,
    /// Changes of the schedule after stalls of this host, ascending by `seq`.
    #[serde(default)]
    pub shifts: Vec<ScheduleShift>,
    /// Requests of the schedule that were never sent, because this host had missed their times.
    #[serde(default)]
    pub skipped: u64,
    /// Remarks of the protocol, as sentences.
    pub remarks: Vec<String>,
}

/// A change of the schedule after a stall of this host: requests that became overdue are not sent in one burst, which a
/// limit on the path or at the far host could drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleShift {
    /// Number of the first request to which it applies.
    pub seq: u32,
    /// Time by which this request and all later ones are due later than before.
    pub by: Span,
}

/// Loss, duplication and reordering by direction, in packets, from the far host's own count of its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Directions {
    /// Whether the far host numbers its answers itself. If not, all other fields are 0 and mean nothing.
    pub stateful: bool,
    /// Requests lost on the way there.
    pub up_lost: u64,
    /// Answers lost on the way back.
    pub down_lost: u64,
    /// Lost in an unknown direction: requests after the last one answered, and those that the count leaves open because
    /// packets were reordered or duplicated.
    pub unknown_lost: u64,
    /// Requests that reached the far host more than once.
    pub up_duplicates: u64,
    /// Answers that came back more than once.
    pub down_duplicates: u64,
    /// Requests that reached the far host after a later one.
    pub up_reordered: u64,
    /// Answers that came back after a later one.
    pub down_reordered: u64,
}

/// A run of requests without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossRun {
    /// Number of the first.
    pub first: u32,
    /// Number of requests.
    pub length: u32,
    /// Where they were lost.
    pub way: LossSide,
}

/// Where a run of requests without an answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LossSide {
    /// All on the way there.
    Up,
    /// All on the way back.
    Down,
    /// Some there and some back, or unknown.
    Either,
}

/// What was received instead of answers, by kind: datagrams, and ICMP messages about the requests. They are in no other
/// count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NotAnswers {
    /// Not of this test.
    pub foreign: u64,
    /// Not what the protocol allows.
    pub malformed: u64,
    /// Failed their integrity check.
    pub forged: u64,
    /// Answers to requests that were never sent or are too old.
    pub unmatched: u64,
    /// Datagrams of the far host from another port than the one that was asked.
    pub other_port: u64,
    /// Messages of the far host that nothing listens there (ICMP port unreachable).
    pub refused: u64,
    /// Messages that a filter or policy prohibits the requests (ICMP codes 9, 10 and 13, ICMPv6 code 1).
    pub prohibited: u64,
}

/// The far host's report of a test that goes one way only (LaMP's REPORT). Latencies are between two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FarReport {
    /// Unique packets received.
    pub received: u64,
    /// Smallest latency.
    pub min: Option<Span>,
    /// Mean latency.
    pub mean: Option<Span>,
    /// Largest.
    pub max: Option<Span>,
    /// Standard deviation.
    pub stddev: Option<Span>,
    /// Arrived after a later one.
    pub out_of_order: u64,
    /// Received with a latency of zero or below, which is no measurement.
    pub errors: u64,
    /// Duplicates; `None` if the far host does not count them.
    pub duplicates: Option<u64>,
    /// Kind of the far host's stamps; `None` if not reported.
    pub stamps: Option<StampSource>,
    /// Highest sequence number (wrapping), if any packet came.
    pub highest_seq: Option<u16>,
    /// Wraps of the sequence number.
    pub wraps: u64,
    /// Whether the session ended because packets ceased to arrive, not by its last packet.
    pub timed_out: bool,
}

/// A TCP connection over a test, from samples of the kernel's TCP_INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpStats {
    /// Segments retransmitted during the test.
    pub retransmissions: u64,
    /// Smallest smoothed round-trip time, in us.
    pub srtt_min_us: u32,
    /// Largest.
    pub srtt_max_us: u32,
    /// The last.
    pub srtt_last_us: u32,
    /// Smallest congestion window, in segments.
    pub cwnd_min: u32,
    /// Largest.
    pub cwnd_max: u32,
    /// Segment size, in bytes.
    pub mss: u32,
}

/// The kernel's TCP_INFO of a connection when one answer was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// Segment size, in bytes.
    pub mss: u32,
    /// Smoothed round-trip time, in us.
    pub srtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Segments retransmitted since the connection was opened.
    pub retransmissions: u32,
}

impl TcpStats {
    /// From `samples`, in order; `None` without samples.
    pub fn of(samples: &[TcpSample]) -> Option<TcpStats> {
        let last = samples.last()?;
        let range = |f: fn(&TcpSample) -> u32| {
            let least = samples.iter().map(f).min().unwrap_or(0);
            (least, samples.iter().map(f).max().unwrap_or(0))
        };
        let ((srtt_min_us, srtt_max_us), (cwnd_min, cwnd_max)) = (range(|s| s.srtt_us), range(|s| s.cwnd));
        Some(TcpStats {
            retransmissions: last.retransmissions.into(),
            srtt_min_us,
            srtt_max_us,
            srtt_last_us: last.srtt_us,
            cwnd_min,
            cwnd_max,
            mss: last.mss,
        })
    }
}
