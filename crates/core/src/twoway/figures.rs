//! [`TwoWayFigures`]: the figures of a two-way test in addition to its round trips.

use super::{Directions, FarReport, NotAnswers, TcpStats};
use crate::summary::{
    ClockEstimate, Corrected, Dejitter, Distribution, Ipdv, Loss, Rfc3550, SkewHull, StampCounts, Trend,
    Y1541,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The figures of a two-way test in addition to its round trips, which are the [`Summary`](crate::Summary) that
/// contains this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TwoWayFigures {
    /// `icmp`, `stamp`, `twamp`, `lamp`, `tcp`.
    pub protocol: String,
    /// When requests were sent.
    pub sending: SendingMode,
    /// Time from an answer to the next request, in ns; `None` unless [`SendingMode::StopAndWait`].
    pub wait_ns: Option<i64>,
    /// How long an answer could take, in ns.
    pub timeout_ns: Option<i64>,
    /// The way there; `None` if the far host does not report its times or counts.
    pub up: Option<DirectionResult>,
    /// The way back; `None` if the far host does not report its times or counts.
    pub down: Option<DirectionResult>,
    /// Loss, duplication and reordering by direction; `None` if the far host does not count.
    pub directions: Option<Directions>,
    /// The far host's processing time for each request; excluded from the round trips. `None` if not reported.
    pub processing: Option<Processing>,
    /// Smallest processing time, in ns.
    pub processing_min_ns: Option<i64>,
    /// Largest processing time, in ns.
    pub processing_max_ns: Option<i64>,
    /// Answers whose processing time did not come although the far host sends it: received, without a delay.
    pub without_processing: u64,
    /// The DSCP that the far host was asked to give its answers; `None`: that of the requests, or none.
    pub answer_dscp: Option<u8>,
    /// Datagrams received that are no measurement.
    pub not_answers: NotAnswers,
    /// Requests that this host could not send.
    pub unsent: u64,
    /// Requests of the schedule that were never sent, because this host had missed their times.
    pub skipped: u64,
    /// Number of times that the schedule was moved after a stall of this host.
    pub schedule_shifts: u64,
    /// Largest of these moves, in ns; `None` without one.
    pub schedule_shift_max_ns: Option<i64>,
    /// The far host's report of a test that goes one way only.
    pub far_report: Option<FarReport>,
    /// The kernel's TCP_INFO over the test.
    pub tcp: Option<TcpStats>,
    /// Remarks of the protocol, as sentences.
    pub remarks: Vec<String>,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SendingMode {
    /// On a schedule, independent of earlier requests: nothing is missing from the sample.
    #[default]
    OpenLoop,
    /// Each after the answer to the previous one: while the path stalls nothing is sent, so slow times are sampled too
    /// rarely (coordinated omission, metrics §22).
    StopAndWait,
}

/// The far host's processing time, T3 − T2, over all answers, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Processing {
    /// Answers that report it.
    pub n: u64,
    /// Smallest.
    pub min: i64,
    /// Mean.
    pub mean: i64,
    /// Largest.
    pub max: i64,
}

/// One way of a two-way test. Delays are between two clocks, and only of packets that came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DirectionResult {
    /// Requests (or answers) sent on this way whose fate is known.
    pub sent: Option<u64>,
    /// Of them, lost on it.
    pub lost: Option<u64>,
    /// In percent.
    pub lost_pct: Option<f64>,
    /// Further copies that arrived.
    pub duplicates: Option<u64>,
    /// Arrived after a later one.
    pub reordered: Option<u64>,
    /// One-way delay: raw, negative if the clocks disagree.
    pub latency: Distribution,
    /// Delay above the smallest.
    pub pdv: Distribution,
    /// Delay corrected by the fastest exchange, whose two ways are assumed to be equally long.
    pub latency_corrected: Option<Corrected>,
    /// Delay variation of consecutive packets.
    pub ipdv: Ipdv,
    /// RTP jitter.
    pub rfc3550_jitter: Option<Rfc3550>,
    /// MAPDV2, in ns.
    pub mapdv2: Option<f64>,
    /// What the slope of delay over time means.
    pub trend: Option<Trend>,
    /// Relative clock skew.
    pub skew_hull: Option<SkewHull>,
    /// PDV with the skew removed; `None` if it is negligible.
    pub pdv_deskewed: Option<Distribution>,
    /// How losses cluster among the packets whose fate is known. `None` if it is known of none: the far host does not
    /// count, and packets were lost on the other way, too.
    pub loss: Option<Loss>,
    /// Lost requests excluded from `loss` because their direction is unknown. `None` if the far host does not count.
    pub undetermined: Option<u64>,
    /// Play-out buffers and voice quality; `None` if packets were lost on the other way.
    pub dejitter: Option<Dejitter>,
    /// Service objectives, under the same condition.
    pub objectives: Option<Y1541>,
    /// Values of metrics without a field of their own, by key; `None` if undefined.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
    /// The clocks.
    pub clock: ClockEstimate,
    /// Sources of the stamps.
    pub stamps: StampCounts,
}
