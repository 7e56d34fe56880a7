//! [`TwoWayFigures`]: results of a two-way test other than its round trips.

use super::facts::{answers_expected, fallback};
use super::{Directions, FarReport, MarkedSlowdown, NotAnswers, TcpStats};
use crate::answer::JitterWithoutStep;
use crate::metrics::qoo::QualityOfOutcome;
use crate::summary::{
    ClockEstimate, Corrected, Dejitter, Distribution, Ipdv, Loss, MarkFigures, Rfc3550, SkewHull,
    StampCounts, Trend, Y1541,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of a two-way test other than its round trips, which are in the [`Summary`](crate::Summary) that contains
/// this value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TwoWayFigures {
    /// Name of the protocol: `icmp`, `stamp`, `twamp`, `lamp`, `tcp`.
    pub protocol: String,
    /// Rule by which requests were sent.
    pub sending: SendingMode,
    /// Time from an answer to the next request, in ns; `None` unless [`SendingMode::StopAndWait`].
    pub wait_ns: Option<i64>,
    /// Maximum time to wait for an answer, in ns; `None` if unknown.
    pub timeout_ns: Option<i64>,
    /// Direction up, from this host to the far host; `None` if the far host reports neither times nor counts.
    pub up: Option<DirectionResult>,
    /// Direction down, from the far host to this host; `None` if the far host reports neither times nor
    /// counts.
    pub down: Option<DirectionResult>,
    /// Loss, duplication and reordering by direction; `None` if the far host does not count its answers.
    pub directions: Option<Directions>,
    /// Processing time of the far host, which round trips do not include. `None` if the far host does not report it.
    pub processing: Option<Processing>,
    /// Smallest processing time, in ns; `None` if the far host does not report it.
    pub processing_min_ns: Option<i64>,
    /// Largest processing time, in ns; `None` if the far host does not report it.
    pub processing_max_ns: Option<i64>,
    /// Number of answers that have no delay because their processing time was sent but not received.
    pub without_processing: u64,
    /// DSCP requested for the answers; `None` if none was requested, or if it equals the DSCP of the requests.
    pub answer_dscp: Option<u8>,
    /// DSCPs of requests on arrival at the far host, each with the number of answers that report it (STAMP's class of
    /// service). Empty if the far host does not report them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub request_dscp: BTreeMap<u8, u64>,
    /// ECN fields of requests on arrival at the far host, like `request_dscp`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub request_ecn: BTreeMap<u8, u64>,
    /// Packets received that are not answers, by kind.
    pub not_answers: NotAnswers,
    /// Number of requests that this host could not send.
    pub unsent: u64,
    /// Number of scheduled requests that were never sent because this host was too late for them.
    pub skipped: u64,
    /// Response of this host's sender to CE; `None` if it did not slow down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_slowdown: Option<MarkedSlowdown>,
    /// Number of times that the schedule was shifted after a stall of this host.
    pub schedule_shifts: u64,
    /// Largest shift, in ns; `None` if the schedule was not shifted.
    pub schedule_shift_max_ns: Option<i64>,
    /// The far host's report on a test without answers; `None` if there is no report.
    pub far_report: Option<FarReport>,
    /// TCP_INFO of the kernel during the test; `None` unless it used TCP.
    pub tcp: Option<TcpStats>,
    /// Remarks by the protocol, as sentences.
    pub remarks: Vec<String>,
}

impl TwoWayFigures {
    /// Returns true unless requests went to a broadcast address, which no host is obliged to answer.
    pub fn expects_answers(&self) -> bool {
        answers_expected(&self.remarks)
    }

    /// Returns the remark about a test that was made with TWAMP Light because there was no control server; `None` for
    /// all other tests.
    pub fn fallback(&self) -> Option<&str> {
        fallback(&self.remarks)
    }
}

/// Rule by which requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SendingMode {
    /// Requests follow a schedule, independently of answers. The sample is therefore not biased by slow answers.
    #[default]
    OpenLoop,
    /// Each request follows the answer to the previous one. While the path stalls, no requests are sent. Slow periods
    /// are therefore under-represented (coordinated omission, metrics §22).
    StopAndWait,
}

/// Processing time of the far host, T3 − T2, over all answers, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Processing {
    /// Number of answers that contain the processing time.
    pub n: u64,
    /// Smallest processing time.
    pub min: i64,
    /// Mean processing time.
    pub mean: i64,
    /// Largest processing time.
    pub max: i64,
}

/// Results of one direction of a two-way test. Delays are differences between two clocks, and are known only for
/// requests that were answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DirectionResult {
    /// Number of requests (or answers) sent in this direction that are known to be received or lost; `None` if the far
    /// host does not count its answers.
    pub sent: Option<u64>,
    /// Number of packets lost in this direction; `None` if the far host does not count its answers.
    pub lost: Option<u64>,
    /// Lost packets in percent of those sent; `None` if either number is unknown, or if none were sent.
    pub lost_pct: Option<f64>,
    /// Number of duplicates that arrived; `None` if the far host does not count its answers.
    pub duplicates: Option<u64>,
    /// Number of packets that arrived after a packet sent later; `None` if unknown.
    pub reordered: Option<u64>,
    /// Raw one-way delay; negative if the clocks disagree.
    pub latency: Distribution,
    /// PDV: delay above the smallest.
    pub pdv: Distribution,
    /// Delay corrected by the fastest exchange, assuming that its delays in both directions are equal.
    pub latency_corrected: Option<Corrected>,
    /// Delay variation between consecutive packets.
    pub ipdv: Ipdv,
    /// RTP jitter (RFC 3550), in ns.
    pub rfc3550_jitter: Option<Rfc3550>,
    /// MAPDV2, in ns.
    pub mapdv2: Option<f64>,
    /// Cause of the slope of delay over time.
    pub trend: Option<Trend>,
    /// Relative skew of the two clocks.
    pub skew_hull: Option<SkewHull>,
    /// PDV with the skew removed; `None` if the skew is negligible.
    pub pdv_deskewed: Option<Distribution>,
    /// Jitter without the clock steps of the test; `None` if no clock was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_clock_step: Option<JitterWithoutStep>,
    /// Loss and its clustering, computed from the packets known to be received or lost in this direction. `None` if
    /// there are no such packets, because the far host does not count its answers and packets were also lost in the
    /// other direction.
    pub loss: Option<Loss>,
    /// Number of lost requests that `loss` excludes because their direction is unknown. `None` if the far host does not
    /// count its answers.
    pub undetermined: Option<u64>,
    /// Play-out buffers and voice quality; `None` if packets were lost in the other direction.
    pub dejitter: Option<Dejitter>,
    /// Service objectives; `None` if packets were lost in the other direction.
    pub objectives: Option<Y1541>,
    /// Quality of Outcome for each profile; `None` without a [judge](crate::evidence::Judge).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qoo: Option<QualityOfOutcome>,
    /// Marks (ECN) of the packets in this direction; `None` unless the requests were sent with `--ecn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<Box<MarkFigures>>,
    /// Values of metrics that have no field of their own, by key; `None` if undefined.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
    /// Clock estimate, and facts about both clocks.
    pub clock: ClockEstimate,
    /// Sources of the stamps.
    pub stamps: StampCounts,
}
