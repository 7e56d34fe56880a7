//! [`TwoWay`]: facts about a two-way test, without its packets.

use crate::time::{Span, StampSource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// [`TwoWay::protocol`] of HTTP requests: each is answered or fails, and lost segments only delay it.
pub const HTTP_REQUESTS: &str = "rpm";
/// [`TwoWay::protocol`] of requests that a web browser sends over a WebSocket.
pub const BROWSER_REQUESTS: &str = "websocket";

/// Facts about a two-way test that supplement the common fields of a [`Session`](crate::Session).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwoWay {
    /// Name of the protocol in lower case: `icmp`, `stamp`, `twamp`, `lamp`, `tcp`, `websocket`.
    pub protocol: String,
    /// Time from an answer to the next request, in a stop-and-wait test; `None` for a test that does not wait for
    /// answers.
    pub wait: Option<Span>,
    /// Maximum time to wait for an answer; `None` if unknown.
    pub timeout: Option<Span>,
    /// True if the far host's two times are clock readings. One-way delays are then defined; otherwise only the
    /// difference between the two times is meaningful.
    pub far_clock: bool,
    /// Resolution of the far host's times; `None` if it is finer than any delay. One-way percentiles below it are not
    /// given.
    #[serde(default)]
    pub far_resolution: Option<Span>,
    /// True if the far host reports the processing time of each answer in a separate packet, which can get
    /// lost. An answer without its processing time has no delay, see [`lacks_delay`](super::lacks_delay).
    pub processing_apart: bool,
    /// DSCP requested for the answers, if it differs from the DSCP of the requests (STAMP's class of service).
    pub answer_dscp: Option<u8>,
    /// DSCPs of requests on arrival at the far host, each with the number of answers that report it. Empty if the far
    /// host does not report them.
    #[serde(default)]
    pub request_dscp: BTreeMap<u8, u64>,
    /// ECN fields of requests on arrival at the far host, like `request_dscp`.
    #[serde(default)]
    pub request_ecn: BTreeMap<u8, u64>,
    /// Loss, duplication and reordering by direction; `None` if the far host does not count its answers.
    pub directions: Option<Directions>,
    /// Runs of requests without an answer, ascending, and the direction in which each was lost; empty if the far host
    /// does not count its answers.
    pub losses: Vec<LossRun>,
    /// Number of packets received that are not answers.
    pub not_answers: NotAnswers,
    /// The far host's report on a test without answers; `None` if there is no report.
    pub far_report: Option<FarReport>,
    /// TCP_INFO of the kernel during the test; `None` unless it used TCP.
    pub tcp: Option<TcpStats>,
    /// Number of scheduled requests that were never sent because this host was too late for them.
    #[serde(default)]
    pub skipped: u64,
    /// Response of this host's sender to CE; `None` if it did not slow down.
    #[serde(default)]
    pub marked_slowdown: Option<MarkedSlowdown>,
    /// Remarks by the protocol, as sentences.
    pub remarks: Vec<String>,
}

/// Response of a sender of marked requests to CE: it doubles the time between requests once per round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkedSlowdown {
    /// Number of times that the time was increased.
    pub rounds: u64,
    /// Number of requests that were postponed.
    pub requests: u64,
    /// Time between requests after the last increase.
    pub period: Span,
}

impl TwoWay {
    /// Remark about a test to a broadcast address. It is stored in the log, so that later analyses do not count missing
    /// answers as losses.
    pub const BROADCAST_REMARK: &str = "requests to the broadcast address of the local segment: most hosts do not answer \
                                        them, so a missing answer is not a loss";

    /// Beginning of the remark about a test with TWAMP that was made without a control server because none listened.
    pub const LIGHT_REMARK: &str = "measured as TWAMP Light: no control server";

    /// Returns true unless requests went to a broadcast address, which no host is obliged to answer.
    pub fn expects_answers(&self) -> bool {
        answers_expected(&self.remarks)
    }
}

/// Returns the remark about a test that was made with TWAMP Light because there was no control server; `None` for all
/// other tests.
pub(super) fn fallback(remarks: &[String]) -> Option<&str> {
    remarks.iter().map(String::as_str).find(|remark| remark.starts_with(TwoWay::LIGHT_REMARK))
}

/// Returns true unless the `remarks` of a test state that its requests went to a broadcast address.
pub(super) fn answers_expected(remarks: &[String]) -> bool {
    !remarks.iter().any(|remark| remark == TwoWay::BROADCAST_REMARK)
}

/// A change of the schedule after a stall of this host. Requests that became overdue are postponed rather than sent in
/// one burst, because a rate limit on the path or at the far host could drop the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleShift {
    /// Sequence number of the first request to which the change applies.
    pub seq: u32,
    /// Time by which the first affected request and all later ones are postponed.
    pub by: Span,
}

/// Loss, duplication and reordering by direction, in packets, computed from the far host's count of its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Directions {
    /// True if the far host numbers its answers. Otherwise all other fields are 0 and meaningless.
    pub stateful: bool,
    /// Number of requests lost between this host and the far host.
    pub up_lost: u64,
    /// Number of answers lost between the far host and this host.
    pub down_lost: u64,
    /// Number of losses in an unknown direction: requests after the last answered one, and requests for which
    /// reordering or duplication makes the far host's count ambiguous.
    pub unknown_lost: u64,
    /// Number of requests that reached the far host more than once.
    pub up_duplicates: u64,
    /// Number of answers that arrived more than once.
    pub down_duplicates: u64,
    /// Number of requests that reached the far host after a later request.
    pub up_reordered: u64,
    /// Number of answers that arrived after a later answer.
    pub down_reordered: u64,
}

/// A run of requests without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossRun {
    /// Sequence number of the first request.
    pub first: u32,
    /// Number of requests in the run.
    pub length: u32,
    /// Direction in which the requests were lost.
    #[serde(rename = "way")]
    pub side: LossSide,
}

/// Direction in which a run of requests without an answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LossSide {
    /// All requests of the run were lost in the up direction.
    Up,
    /// All requests of the run arrived, and their answers were lost in the down direction.
    Down,
    /// Some packets were lost in each direction, or the direction is unknown.
    Either,
}

/// Packets received instead of answers, by kind: datagrams, and ICMP messages about the requests. They are not included
/// in any other count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct NotAnswers {
    /// Number of packets that do not belong to this test.
    pub foreign: u64,
    /// Number of packets that violate the protocol.
    pub malformed: u64,
    /// Number of packets whose integrity check failed.
    pub forged: u64,
    /// Number of answers to requests that were never sent or are too old.
    pub unmatched: u64,
    /// Number of datagrams that the far host sent from a port other than the one that received the requests.
    pub other_port: u64,
    /// Number of ICMP messages in which the far host reports that the port is closed (port unreachable).
    pub refused: u64,
    /// Number of ICMP messages that report that a filter or policy prohibits the requests (ICMP codes 9, 10 and 13,
    /// ICMPv6 code 1).
    pub prohibited: u64,
}

/// The far host's report on a test without answers (LaMP's REPORT). Its latencies are differences between two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FarReport {
    /// Number of packets received, without duplicates.
    pub received: u64,
    /// Smallest latency; `None` if it was not reported.
    pub min: Option<Span>,
    /// Mean latency; `None` if it was not reported.
    pub mean: Option<Span>,
    /// Largest latency; `None` if it was not reported.
    pub max: Option<Span>,
    /// Standard deviation of latency; `None` if it was not reported.
    pub stddev: Option<Span>,
    /// Number of packets that arrived after a packet sent later.
    pub out_of_order: u64,
    /// Number of packets received with a latency of zero or less, which is not a valid measurement.
    pub errors: u64,
    /// Number of duplicates; `None` if the far host does not count them.
    pub duplicates: Option<u64>,
    /// Source of the far host's stamps; `None` if it does not report the source.
    pub stamps: Option<StampSource>,
    /// Highest sequence number, modulo 2¹⁶; `None` if no packet was received.
    pub highest_seq: Option<u16>,
    /// Number of wraps of the sequence number.
    pub wraps: u64,
    /// True if the session ended by timeout instead of with its last packet.
    pub timed_out: bool,
}

/// A TCP connection during a test, from samples of the kernel's TCP_INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpStats {
    /// Number of segments retransmitted during the test.
    pub retransmissions: u64,
    /// Smallest smoothed round-trip time, in µs.
    pub srtt_min_us: u32,
    /// Largest smoothed round-trip time, in µs.
    pub srtt_max_us: u32,
    /// Last smoothed round-trip time, in µs.
    pub srtt_last_us: u32,
    /// Smallest congestion window, in segments.
    pub cwnd_min: u32,
    /// Largest congestion window, in segments.
    pub cwnd_max: u32,
    /// Segment size, in bytes.
    pub mss: u32,
}

/// TCP_INFO of a connection, sampled when an answer was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// Segment size, in bytes.
    pub mss: u32,
    /// Smoothed round-trip time, in µs.
    pub srtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Number of segments retransmitted since the connection was opened.
    pub retransmissions: u32,
}

impl TcpStats {
    /// Summarises `samples`, which are in order; `None` without samples.
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
