//! [`TwoWayFigures`]: what is computed from a two-way test beside its round trips.

use super::{Directions, FarReport, NotAnswers, TcpStats};
use crate::summary::{
    ClockEstimate, Corrected, Dejitter, Distribution, Ipdv, Loss, Rfc3550, SkewHull, Stamps, Trend, Y1541,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a two-way test tells beside its round trips, which are the [`Summary`](crate::Summary) around
/// this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TwoWayFigures {
    /// `icmp`, `stamp`, `twamp`, `lamp`, `tcp`.
    pub protocol: String,
    /// When requests were sent.
    pub sending: Sending,
    /// From an answer to the next request, in ns, of [`Sending::StopAndWait`].
    pub wait_ns: Option<i64>,
    /// How long an answer could take, in ns.
    pub timeout_ns: Option<i64>,
    /// The way there, where the far host tells of it.
    pub up: Option<Way>,
    /// The way back, where the far host tells of it.
    pub down: Option<Way>,
    /// Loss, duplication and reordering by direction, where the far host counts.
    pub directions: Option<Directions>,
    /// The far host's own time for each request, where it tells; left out of the round trips.
    pub processing: Option<Processing>,
    /// Smallest of it, in ns.
    pub processing_min_ns: Option<i64>,
    /// Largest of it, in ns.
    pub processing_max_ns: Option<i64>,
    /// Received, and no measurement.
    pub not_answers: NotAnswers,
    /// Requests that this host could not send.
    pub unsent: u64,
    /// What the far host found, of a test that goes one way only.
    pub far_report: Option<FarReport>,
    /// The kernel's account of the TCP connection.
    pub tcp: Option<TcpStats>,
    /// What the protocol alone tells, in sentences.
    pub remarks: Vec<String>,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sending {
    /// On a schedule, whatever becomes of earlier requests: nothing is left out of the sample.
    #[default]
    OpenLoop,
    /// Each after the answer to the one before: while the path stalls nothing is sent, so slow times are
    /// sampled too rarely (coordinated omission, metrics §22).
    StopAndWait,
}

/// The far host's own time, T3 − T2, over all answers, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processing {
    /// Answers that tell it.
    pub n: u64,
    /// Smallest.
    pub min: i64,
    /// Mean.
    pub mean: i64,
    /// Largest.
    pub max: i64,
}

/// One way of a two-way test. Delays are of two clocks, and of packets that came back only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Way {
    /// Requests (or answers) that set out on this way and whose fate is known.
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
    /// Delay corrected by the fastest exchange, whose two ways are taken to be equally long.
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
    /// PDV with the skew removed, where it matters.
    pub pdv_deskewed: Option<Distribution>,
    /// How losses cluster among the packets whose fate is known. Null where it is known of none: the far host does
    /// not count, and packets were lost on the other way too.
    pub loss: Option<Loss>,
    /// Lost requests left out of `loss`: they were lost there or back, and there is no telling which. Null where the
    /// far host does not count.
    pub undetermined: Option<u64>,
    /// Play-out buffers and voice quality, where no packet was lost on the other way.
    pub dejitter: Option<Dejitter>,
    /// Service objectives, under the same condition.
    pub objectives: Option<Y1541>,
    /// What metrics without a field of their own found, by key; `None` where it is undefined.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
    /// The clocks.
    pub clock: ClockEstimate,
    /// Where the stamps come from.
    pub stamps: Stamps,
}
