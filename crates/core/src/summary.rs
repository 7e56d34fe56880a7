//! [`Summary`]: all results of one direction of a test, serialisable as the JSON summary.
//!
//! Names, nesting and units are a file format (`docs/metrics`): nanoseconds unless the name says otherwise, `None`
//! (JSON `null`) if a figure is undefined, never 0 or NaN.

pub use crate::answer::{Level, Verdict, Warning};
pub use crate::comparable::Comparable;
pub use crate::distribution::Distribution;
pub use crate::distribution::histogram::{Bins, Histogram};
pub use crate::distribution::percentile::{Method, Percent, PercentileResolution, Percentiles};
pub use crate::metrics::burst_gap::BurstGap;
pub use crate::metrics::clock::{ClockEstimate, Corrected, HostClock, OffsetEstimator};
pub use crate::metrics::confidence::{BatchMeans, Bootstrap, Inference, RankInterval};
pub use crate::metrics::counts::Counts;
pub use crate::metrics::dejitter::{Dejitter, DejitterPoint, DelayBasis};
pub use crate::metrics::delay::{Delay, Unconditional};
pub use crate::metrics::duplicate::{Duplicates, TimeToDuplicate};
pub use crate::metrics::ipdv::Ipdv;
pub use crate::metrics::local_queue::LocalQueue;
pub use crate::metrics::loss::{Gilbert1960, GilbertElliott, GilbertFit, Loss, LossPattern, RunsTest};
pub use crate::metrics::objectives::Y1541;
pub use crate::metrics::periods::{MeanPeriods, MeanRate};
pub use crate::metrics::regression::{Regression, Trend, TrendVerdict};
pub use crate::metrics::reorder::{ReorderDensity, Reordering};
pub use crate::metrics::rfc3550::Rfc3550;
pub use crate::metrics::schedule_error::ScheduleError;
pub use crate::metrics::skew::SkewHull;
pub use crate::metrics::stalls::{IntendedLatency, Stalls, WithoutStalls};
pub use crate::metrics::within::Within;
pub use crate::noise::{Noise, NoiseFloor};

use crate::session::{Ending, Session};
use crate::spec::{Direction, Schedule, Transport};
use crate::time::WallTime;
use crate::twoway::TwoWayFigures;
use crate::units::{eng4, eng4_f64, full, full_f64};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All results of one direction of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The classic eleven (or thirteen) header lines of a log.
    pub header: ClassicHeader,
    /// Packet counts.
    pub counts: Counts,
    /// Periods, rates, throughput.
    #[serde(default)]
    pub periods: MeanPeriods,
    /// Raw one-way delay: from two clocks, negative if they disagree.
    pub latency: Distribution,
    /// The same with lost packets counted as infinitely late; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_unconditional: Option<Unconditional>,
    /// Shares of packets near the mean and the median delay; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
    /// Delay above the smallest delay: the seed's jitter.
    pub pdv: Distribution,
    /// Delay corrected by the clock estimate; `None` without one.
    pub latency_corrected: Option<Corrected>,
    /// Delay variation of consecutive packets.
    #[serde(default)]
    pub ipdv: Ipdv,
    /// RTP jitter.
    pub rfc3550_jitter: Option<Rfc3550>,
    /// MAPDV2 (per RFC 5481's description), in ns.
    pub mapdv2: Option<f64>,
    /// Loss.
    #[serde(default)]
    pub loss: Loss,
    /// Duplication.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Reordering.
    #[serde(default)]
    pub reordering: Reordering,
    /// Delay on arrival time: the seed's m and r.
    pub regression_arrival: Option<Regression>,
    /// Delay on send time: the one to draw conclusions from.
    pub regression_send: Option<Regression>,
    /// What the slope means.
    pub trend: Option<Trend>,
    /// Relative clock skew.
    pub skew_hull: Option<SkewHull>,
    /// PDV with the skew removed; `None` if the skew is negligible.
    pub pdv_deskewed: Option<Distribution>,
    /// The sender's schedule error.
    pub schedule_error: Option<ScheduleError>,
    /// Host stalls, and the figures without them.
    #[serde(default)]
    pub stalls: Stalls,
    /// Delay from the due time; `None` if sender stalls are negligible.
    pub intended_latency: Option<IntendedLatency>,
    /// Confidence intervals.
    #[serde(default)]
    pub inference: Inference,
    /// Play-out buffers and voice quality.
    pub dejitter: Option<Dejitter>,
    /// Service objectives.
    pub objectives: Option<Y1541>,
    /// The clocks.
    #[serde(default)]
    pub clock: ClockEstimate,
    /// The figures compared with this host's noise floor; `None` if that was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Sources of the stamps.
    #[serde(default)]
    pub stamps: StampCounts,
    /// Time spent in the queue of the sending host's interface, before the sent stamp; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_queue: Option<LocalQueue>,
    /// What the receiver saw in the IP header.
    #[serde(default)]
    pub far_end: ReceivedHeaders,
    /// Clock steps and path changes found in the series.
    #[serde(default)]
    pub segments: Vec<PathSegment>,
    /// Summaries of windows; empty unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// What a two-way test has in addition to its round trips, which everything else here is about; `None` for other
    /// tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_way: Option<Box<TwoWayFigures>>,
    /// What is needed to compare this test with others without its packets; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparable: Option<Comparable>,
    /// Values of metrics without a field of their own, by key; `None` if undefined.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
    /// The test and its end.
    #[serde(default)]
    pub session: SessionInfo,
    /// Some figures formatted as the console prints them.
    #[serde(default)]
    pub display: Display,
    /// What is wrong, since when, how much, how certain; and what that means for each use. Absent without a
    /// [judge](crate::evidence::Judge) and from parts of a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<crate::answer::Answer>,
    /// The conclusions as text.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Reasons to doubt a figure.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// The header of the classic log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClassicHeader {
    /// `Fri Jul 3 19:46:11 UTC 2009`.
    pub date: Option<String>,
    /// `SENDING` (client to server) or `SEND_ME`.
    pub command: ClassicCommand,
    /// Packets requested.
    pub npkts: u64,
    /// Payload, in bytes.
    pub pktlen: u64,
    /// IP protocol number: 17 UDP, 6 TCP.
    pub proto: u8,
    /// Period, in ns.
    pub period: i64,
    /// Sender.
    pub src_ip: Option<String>,
    /// Receiver.
    pub dst_ip: Option<String>,
    /// Sender's port.
    pub src_port: u16,
    /// Receiver's port.
    pub dst_port: u16,
    /// Requested DSCP.
    pub dscp: u8,
    /// θ = server − client, in ns; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<i64>,
    /// Minimum RTT of the control channel, in ns; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<i64>,
    /// Version of the log.
    pub version: u8,
}

/// The classic command of a test, which gives its direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ClassicCommand {
    /// Client to server.
    #[default]
    #[serde(rename = "SENDING")]
    Sending,
    /// Server to client.
    #[serde(rename = "SEND_ME")]
    SendMe,
}

/// Number of stamps of the rows received, by source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StampCounts {
    /// Of the sent times.
    pub sent: Coverage,
    /// Of the arrived times.
    pub arrived: Coverage,
    /// Mean time from the sending program's clock reading to the sent stamp, in ns.
    pub send_lag_mean_ns: Option<i64>,
    /// Largest.
    pub send_lag_max_ns: Option<i64>,
    /// Packets for which a stamp of their departure was asked for and never came; `None` if none were asked for, or it is
    /// unknown.
    pub sent_lost: Option<u64>,
    /// Mean time from the arrived stamp to the receiving program's clock reading, in ns.
    pub receive_lag_mean_ns: Option<i64>,
    /// Largest.
    pub receive_lag_max_ns: Option<i64>,
    /// How much of that the receiver waited on purpose at most, to take several packets at once, in ns; `None` if it took
    /// each as it came, or it is unknown.
    pub receive_pause_ns: Option<i64>,
}

/// Stamps by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Coverage {
    /// Read by the program.
    pub user: u64,
    /// By the kernel.
    pub kernel: u64,
    /// By the adapter.
    pub hardware: u64,
    /// By a capture.
    pub wire: u64,
}

/// What the receiver saw in the IP header, over all rows: value → packets. Empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReceivedHeaders {
    /// DSCPs.
    pub dscp: BTreeMap<u8, u64>,
    /// ECN bits.
    pub ecn: BTreeMap<u8, u64>,
    /// Time to live or hop limit.
    pub ttl: BTreeMap<u8, u64>,
    /// Payload sizes other than the agreed one.
    pub odd_sizes: u64,
}

/// A part of the run between two changes of the path or of a clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PathSegment {
    /// First sequence number.
    pub first_seq: u64,
    /// Last sequence number.
    pub last_seq: u64,
    /// Accepted packets.
    pub n: u64,
    /// Smallest delay, in ns.
    pub min: i64,
    /// Mean delay, in ns.
    pub mean: f64,
    /// 99th percentile of PDV against this segment's own minimum.
    pub pdv_p99: i64,
    /// 99.9th percentile.
    pub pdv_p999: i64,
    /// Largest.
    pub pdv_max: i64,
    /// Change of the minimum from the previous segment, in ns; `None` for the first.
    pub step_ns: Option<i64>,
}

/// The figures of one window of send time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Interval {
    /// Start of the window, ns after the stream's first send time.
    pub start_ns: i64,
    /// Its length, in ns.
    pub length_ns: i64,
    /// First sequence number due in it.
    pub first_seq: u64,
    /// Packets due in it.
    pub sent: u64,
    /// Accepted.
    pub accepted: u64,
    /// Lost.
    pub lost: u64,
    /// Runs of loss that begin in it.
    pub loss_runs: u64,
    /// The longest of them.
    pub longest_loss: u64,
    /// Duplicates of its packets that arrived.
    pub duplicate: u64,
    /// Overtaken.
    pub out_of_sequence: u64,
    /// Smallest delay, in ns.
    pub min: Option<i64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Largest.
    pub max: Option<i64>,
    /// Standard deviation.
    pub stddev: Option<f64>,
    /// Median delay.
    pub median: Option<f64>,
    /// PDV against this window's own minimum: 50th, 99th, 99.9th percentile.
    pub pdv_p50: Option<i64>,
    /// See above.
    pub pdv_p99: Option<i64>,
    /// See above.
    pub pdv_p999: Option<i64>,
    /// The largest.
    pub pdv_max: Option<i64>,
    /// Mean |IPDV|.
    pub ipdv_mean_abs: Option<f64>,
    /// Standard deviation of IPDV.
    pub ipdv_stddev: Option<f64>,
    /// Interquartile range of IPDV.
    pub ipdv_iqr: Option<i64>,
    /// All other figures, for this window's packets as if they were a test of their own. `None` if there are more than
    /// 10 000 windows.
    pub summary: Option<Box<Summary>>,
}

/// The test, its parties and its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SessionInfo {
    /// Identifier of the results at the server, sixteen hexadecimal digits.
    pub id: Option<String>,
    /// The user's name for the test.
    pub name: Option<String>,
    /// The user's tags.
    pub tags: BTreeMap<String, String>,
    /// `up` = client to server.
    pub direction: Direction,
    /// False for classic logs.
    pub direction_known: bool,
    /// The distribution of send times.
    pub schedule: Schedule,
    /// When the test was created, ns since 1970.
    pub created: Option<WallTime>,
    /// How it ended.
    pub ending: Ending,
    /// The reason, if it is not complete.
    pub reason: Option<String>,
    /// Datagrams dropped by the receiving kernel because a buffer was full; `None` if unknown.
    pub receiver_drops: Option<u64>,
    /// The client host.
    pub client: HostInfo,
    /// The server host.
    pub server: HostInfo,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostInfo {
    /// Its name.
    pub name: Option<String>,
    /// System and release.
    pub system: Option<String>,
    /// Notes about what could not be done as requested.
    pub notes: Vec<String>,
}

/// Figures as the console prints them (metrics §24).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Display {
    /// Smallest delay, four significant digits.
    pub min: Option<String>,
    /// Mean.
    pub avg: Option<String>,
    /// Largest.
    pub max: Option<String>,
    /// Smallest delay, to the nanosecond.
    pub min_full: Option<String>,
    /// Mean.
    pub avg_full: Option<String>,
    /// Largest.
    pub max_full: Option<String>,
    /// Standard deviation.
    pub stddev: Option<String>,
    /// 99th percentile of PDV.
    pub pdv_p99: Option<String>,
    /// 99.9th.
    pub pdv_p999: Option<String>,
    /// Largest.
    pub pdv_max: Option<String>,
}

impl Summary {
    /// Whether its delays are round trips, with both ends on one clock.
    pub fn is_round_trip(&self) -> bool {
        self.two_way.is_some()
    }

    /// Direction of the packets; `None` for round trips, and for a log that does not say.
    pub fn direction(&self) -> Option<Direction> {
        (self.session.direction_known && !self.is_round_trip()).then_some(self.session.direction)
    }

    /// Between which hosts it was measured, and when: `192.0.2.1 to 192.0.2.2, Fri Jul 3 19:46:11 UTC 2009`; `None` if
    /// neither is known.
    pub fn measured(&self) -> Option<String> {
        let ends = self.header.src_ip.as_ref().zip(self.header.dst_ip.as_ref());
        let ends = ends.map(|(from, to)| format!("{from} to {to}"));
        let known: Vec<String> = ends.into_iter().chain(self.header.date.clone()).collect();
        (!known.is_empty()).then(|| known.join(", "))
    }

    /// Whether loss and order are observable: TCP hides both.
    pub fn loss_observable(&self) -> bool {
        self.header.proto != Transport::Tcp.number()
    }

    /// Best mean opinion score over the buffer sizes of the de-jitter curve.
    pub fn best_mos(&self) -> Option<f64> {
        self.dejitter.as_ref()?.best_mos()
    }

    /// What is to be subtracted from raw delay, and the remaining error, in ns. `None` if the offset of the clocks is
    /// unknown.
    pub fn correction(&self) -> Option<(i64, f64)> {
        if self.is_round_trip() {
            return Some((0, 0.0));
        }
        let estimated = self.clock.correction_ns.zip(self.clock.bound_ns);
        estimated.or_else(|| self.clock.synchronised().map(|e| (0, e as f64)))
    }
}

impl ClassicHeader {
    /// The header of `session`, with the clock estimate if there is one.
    pub fn new(session: &Session, clock: &ClockEstimate) -> ClassicHeader {
        let spec = &session.spec;
        ClassicHeader {
            date: session.date.clone().or_else(|| session.created.map(crate::units::utc_date)),
            command: match spec.direction() {
                Direction::Up => ClassicCommand::Sending,
                Direction::Down => ClassicCommand::SendMe,
            },
            npkts: session.declared.unwrap_or(spec.packets().into()),
            pktlen: session.payload().map_or(0, u64::from),
            proto: spec.transport().number(),
            period: session.period().unwrap_or_default().0,
            src_ip: session.src.map(|a| a.to_string()),
            dst_ip: session.dst.map(|a| a.to_string()),
            src_port: spec.src_port,
            dst_port: spec.dst_port,
            dscp: spec.dscp.value(),
            clock_error_ns: clock.offset_ns,
            min_rtt_ns: clock.min_rtt_ns,
            version: session.version,
        }
    }
}

impl SessionInfo {
    /// The part of `session` that a summary repeats.
    pub fn new(session: &Session) -> SessionInfo {
        let host = |h: &crate::session::HostFacts| HostInfo {
            name: h.name.clone(),
            system: h.system.clone(),
            notes: h.notes.clone(),
        };
        SessionInfo {
            id: session.id.clone(),
            name: session.name.clone(),
            tags: session.tags.iter().cloned().collect(),
            direction: session.spec.direction(),
            direction_known: session.direction_known,
            schedule: session.spec.schedule(),
            created: session.created,
            ending: session.ending,
            reason: session.reason.clone(),
            receiver_drops: session.receiver_drops,
            client: host(&session.client),
            server: host(&session.server),
        }
    }
}

impl Display {
    /// Of delay and PDV.
    pub(crate) fn new(latency: &Distribution, pdv: &Distribution) -> Display {
        Display {
            min: latency.min.map(eng4),
            avg: latency.mean.map(eng4_f64),
            max: latency.max.map(eng4),
            min_full: latency.min.map(full),
            avg_full: latency.mean.map(full_f64),
            max_full: latency.max.map(full),
            stddev: latency.stddev.map(eng4_f64),
            pdv_p99: pdv.percentile(Percent(99_000)).map(eng4),
            pdv_p999: pdv.percentile(Percent(99_900)).map(eng4),
            pdv_max: pdv.max.map(eng4),
        }
    }
}
