//! [`Summary`]: all results of one direction of a test, serialisable as the JSON summary.
//!
//! Names, nesting and units are a file format (`docs/metrics`): nanoseconds unless the name contains another unit,
//! `None` (JSON `null`) if a figure is undefined, never 0 or NaN.

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
pub use crate::metrics::dependence::{NoInterval, QuantileInterval, ShareInterval};
pub use crate::metrics::duplicate::{Duplicates, TimeToDuplicate};
pub use crate::metrics::ipdv::Ipdv;
pub use crate::metrics::local_queue::LocalQueue;
pub use crate::metrics::loss::{Gilbert1960, GilbertElliott, GilbertFit, Loss, LossPattern, RunsTest};
pub use crate::metrics::marks::{AboveFastest, BlockDifference, CeDelay, MarkDelay, MarkFigures};
pub use crate::metrics::objectives::Y1541;
pub use crate::metrics::periods::{MeanPeriods, MeanRate};
pub use crate::metrics::qoo::{OutcomeScore, QualityOfOutcome};
pub use crate::metrics::regression::{Regression, Trend, TrendVerdict};
pub use crate::metrics::reorder::{ReorderDensity, Reordering};
pub use crate::metrics::rfc3550::Rfc3550;
pub use crate::metrics::schedule_error::ScheduleError;
pub use crate::metrics::skew::SkewHull;
pub use crate::metrics::stalls::{IntendedLatency, Stalls, WithoutStalls};
pub use crate::metrics::within::Within;
pub use crate::noise::{Noise, NoiseFloor};

use crate::interface::InterfaceHistory;
use crate::load::TestLoad;
use crate::session::{Ending, Session, SizeLimit};
use crate::spec::{Direction, Schedule, Transport};
use crate::time::WallTime;
use crate::twoway::{BROWSER_REQUESTS, TwoWayFigures};
use crate::units::{eng4, eng4_f64, full, full_f64};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All results of one direction of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Header lines of a classic log: eleven, or thirteen in version 2.
    pub header: ClassicHeader,
    /// Numbers of packets sent, received, lost and rejected.
    pub counts: Counts,
    /// Periods, packet rates and throughput.
    #[serde(default)]
    pub periods: MeanPeriods,
    /// Raw one-way delay, computed from two clocks; negative if the clocks disagree.
    pub latency: Distribution,
    /// Statistics of delay with lost packets counted as infinitely late; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_unconditional: Option<Unconditional>,
    /// Shares of packets near the mean and the median delay; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
    /// PDV: delay above the smallest delay; the jitter of the classic report.
    pub pdv: Distribution,
    /// Delay corrected by the clock estimate; `None` without an estimate.
    pub latency_corrected: Option<Corrected>,
    /// Delay variation between consecutive packets.
    #[serde(default)]
    pub ipdv: Ipdv,
    /// RTP jitter (RFC 3550), in ns.
    pub rfc3550_jitter: Option<Rfc3550>,
    /// MAPDV2 (per RFC 5481's description), in ns.
    pub mapdv2: Option<f64>,
    /// Loss and its clustering.
    #[serde(default)]
    pub loss: Loss,
    /// Duplication figures.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Reordering figures.
    #[serde(default)]
    pub reordering: Reordering,
    /// Regression of delay on arrival time: m and r of the classic report.
    pub regression_arrival: Option<Regression>,
    /// Regression of delay on send time. Conclusions about trends are based on this regression.
    pub regression_send: Option<Regression>,
    /// Cause of the slope of delay.
    pub trend: Option<Trend>,
    /// Relative skew of the two clocks.
    pub skew_hull: Option<SkewHull>,
    /// PDV with the skew removed; `None` if the skew is negligible.
    pub pdv_deskewed: Option<Distribution>,
    /// Schedule error of the sender.
    pub schedule_error: Option<ScheduleError>,
    /// Stalls of the hosts, and delay statistics without the affected packets.
    #[serde(default)]
    pub stalls: Stalls,
    /// Delay measured from due times instead of send times; `None` if the sender's errors are negligible.
    pub intended_latency: Option<IntendedLatency>,
    /// Confidence intervals of loss and delay.
    #[serde(default)]
    pub inference: Inference,
    /// Play-out buffers and voice quality.
    pub dejitter: Option<Dejitter>,
    /// Comparison with the network performance objectives of ITU-T Y.1541.
    pub objectives: Option<Y1541>,
    /// Clock estimate, and facts about both clocks.
    #[serde(default)]
    pub clock: ClockEstimate,
    /// Comparison of the figures with this host's noise floor; `None` if the noise floor was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Sources of the stamps.
    #[serde(default)]
    pub stamps: StampCounts,
    /// Time spent in the queue of the sending host's interface, before the send stamp; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_queue: Option<LocalQueue>,
    /// Marks (ECN) of the packets, and delays by mark; `None` unless the packets were sent with `--ecn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Box<MarkFigures>>,
    /// IP header fields that the receiver observed.
    #[serde(default)]
    pub far_end: ReceivedHeaders,
    /// Parts of the run between clock steps or path changes; empty if there are none.
    #[serde(default)]
    pub segments: Vec<PathSegment>,
    /// Summaries of windows; empty unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// Results of a two-way test in addition to its round trips; `None` for other tests. All other fields describe the
    /// round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_way: Option<Box<TwoWayFigures>>,
    /// Data for later comparisons with other tests, for which the packets are then not needed; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparable: Option<Comparable>,
    /// Values of metrics that have no field of their own, by key; `None` if undefined.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
    /// The test, its hosts, and how it ended.
    #[serde(default)]
    pub session: SessionInfo,
    /// Some figures, formatted as in the text report.
    #[serde(default)]
    pub display: Display,
    /// Causes of impairment with their time, size and confidence, and the consequences for each profile. `None` without
    /// a [judge](crate::evidence::Judge), and for a part of a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<crate::answer::Answer>,
    /// Quantities of the interface that change together with loss or delay; empty if none do, or if they are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coincidences: Vec<crate::answer::Coincidence>,
    /// Conclusions as sentences.
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
    /// Date, for example `Fri Jul 3 19:46:11 UTC 2009`.
    pub date: Option<String>,
    /// `SENDING` (client to server) or `SEND_ME`.
    pub command: ClassicCommand,
    /// Number of packets requested.
    pub npkts: u64,
    /// Payload size, in bytes.
    pub pktlen: u64,
    /// IP protocol number: 17 UDP, 6 TCP.
    pub proto: u8,
    /// Time between packets, in ns.
    pub period: i64,
    /// Address of the sender.
    pub src_ip: Option<String>,
    /// Address of the receiver.
    pub dst_ip: Option<String>,
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// DSCP requested by the sender.
    pub dscp: u8,
    /// Clock offset θ = server − client, in ns; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<i64>,
    /// Minimum RTT of the control channel, in ns; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<i64>,
    /// Version of the log.
    pub version: u8,
}

/// Classic command of a test, which determines the direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ClassicCommand {
    /// The client sends to the server.
    #[default]
    #[serde(rename = "SENDING")]
    Sending,
    /// The server sends to the client.
    #[serde(rename = "SEND_ME")]
    SendMe,
}

/// Sources of the stamps of the received rows, and the lags between stamps and the programs' clock readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StampCounts {
    /// Number of send stamps by source.
    pub sent: Coverage,
    /// Number of arrival stamps by source.
    pub arrived: Coverage,
    /// Mean time from the sending program's clock reading to the send stamp, in ns.
    pub send_lag_mean_ns: Option<i64>,
    /// Largest time from the sending program's clock reading to the send stamp, in ns.
    pub send_lag_max_ns: Option<i64>,
    /// Number of packets whose departure stamp was requested but never received; `None` if no stamps were requested, or
    /// if the number is unknown.
    pub sent_lost: Option<u64>,
    /// Mean time from the arrival stamp to the receiving program's clock reading, in ns.
    pub receive_lag_mean_ns: Option<i64>,
    /// Largest time from the arrival stamp to the receiving program's clock reading, in ns.
    pub receive_lag_max_ns: Option<i64>,
    /// Maximum part of the receive lag during which the receiver intentionally waited to read several packets at once,
    /// in ns. `None` if it read each packet immediately, or if the time is unknown.
    pub receive_pause_ns: Option<i64>,
}

/// Number of stamps by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Coverage {
    /// Number of clock readings of the program.
    pub user: u64,
    /// Number of stamps of the kernel.
    pub kernel: u64,
    /// Number of stamps of the network adapter.
    pub hardware: u64,
    /// Number of stamps of a capture.
    pub wire: u64,
}

/// IP header fields that the receiver observed: for each field, the number of packets by value. Empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReceivedHeaders {
    /// Number of packets by DSCP.
    pub dscp: BTreeMap<u8, u64>,
    /// Number of packets by value of the two ECN bits.
    pub ecn: BTreeMap<u8, u64>,
    /// Number of packets by TTL or hop limit.
    pub ttl: BTreeMap<u8, u64>,
    /// Number of rows whose payload size differs from the agreed one.
    pub odd_sizes: u64,
}

/// Part of the run between two changes of the path or of a clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PathSegment {
    /// First sequence number.
    pub first_seq: u64,
    /// Last sequence number.
    pub last_seq: u64,
    /// Number of accepted packets.
    pub n: u64,
    /// Smallest delay, in ns.
    pub min: i64,
    /// Mean delay, in ns.
    pub mean: f64,
    /// 99th percentile of PDV relative to this segment's own minimum, in ns.
    pub pdv_p99: i64,
    /// 99.9th percentile of PDV relative to this segment's own minimum, in ns.
    pub pdv_p999: i64,
    /// Largest PDV relative to this segment's own minimum, in ns.
    pub pdv_max: i64,
    /// Smallest delay minus that of the previous segment, in ns; `None` for the first segment.
    pub step_ns: Option<i64>,
}

/// Figures of one window. Packets belong to the window in which they were due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Interval {
    /// Start of the window, in ns since the first send time of the stream.
    pub start_ns: i64,
    /// Length of the window, in ns.
    pub length_ns: i64,
    /// First sequence number that is due in the window.
    pub first_seq: u64,
    /// Number of packets due in the window.
    pub sent: u64,
    /// Number of packets accepted.
    pub accepted: u64,
    /// Number of packets lost.
    pub lost: u64,
    /// Number of loss bursts that begin in the window.
    pub loss_runs: u64,
    /// Length of the longest loss burst that begins in the window, in packets.
    pub longest_loss: u64,
    /// Number of duplicates of the window's packets.
    pub duplicate: u64,
    /// Number of reordered packets.
    pub out_of_sequence: u64,
    /// Smallest delay, in ns.
    pub min: Option<i64>,
    /// Mean delay, in ns.
    pub mean: Option<f64>,
    /// Largest delay, in ns.
    pub max: Option<i64>,
    /// Standard deviation of delay, in ns.
    pub stddev: Option<f64>,
    /// Median delay, in ns.
    pub median: Option<f64>,
    /// 50th percentile of PDV relative to this window's own minimum, in ns.
    pub pdv_p50: Option<i64>,
    /// 99th percentile of PDV relative to this window's own minimum, in ns.
    pub pdv_p99: Option<i64>,
    /// 99.9th percentile of PDV relative to this window's own minimum, in ns.
    pub pdv_p999: Option<i64>,
    /// Largest PDV relative to this window's own minimum, in ns.
    pub pdv_max: Option<i64>,
    /// Mean |IPDV|, in ns.
    pub ipdv_mean_abs: Option<f64>,
    /// Standard deviation of IPDV, in ns.
    pub ipdv_stddev: Option<f64>,
    /// Interquartile range of IPDV, in ns.
    pub ipdv_iqr: Option<i64>,
    /// All other figures of the window's packets, computed like those of a separate test. `None` if there are more than
    /// 10 000 windows.
    pub summary: Option<Box<Summary>>,
}

/// The test, its hosts, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SessionInfo {
    /// Identifier of the results at the server, sixteen hexadecimal digits.
    pub id: Option<String>,
    /// Name that the user gave the test.
    pub name: Option<String>,
    /// Tags that the user gave.
    pub tags: BTreeMap<String, String>,
    /// Direction of the packets; `up` is from client to server.
    pub direction: Direction,
    /// True if the direction is known; false for classic logs.
    pub direction_known: bool,
    /// Distribution of send times.
    pub schedule: Schedule,
    /// Time at which the test was created, ns since 1970.
    pub created: Option<WallTime>,
    /// Ending of the test.
    pub ending: Ending,
    /// Reason why the test did not end normally; `None` if the ending is `complete`.
    pub reason: Option<String>,
    /// Number of datagrams that the receiving kernel dropped because a buffer was full; `None` if unknown.
    pub receiver_drops: Option<u64>,
    /// Number of packets that the sender skipped because it was too late to send them (OWAMP); they count neither
    /// as sent nor as lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Number of packets at the end that left too late to be part of the receiver's results (OWAMP); their fate is
    /// unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreported: u64,
    /// Path MTU that the sending host's kernel knew, in bytes; `None` if the packets are not larger, or if it is
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// Largest packet that passes the path; `None` unless the packets of the test were too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<SizeLimit>,
    /// Background traffic; `None` unless the test was measured twice, idle and under load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Box<TestLoad>>,
    /// The client host.
    pub client: HostInfo,
    /// The server host.
    pub server: HostInfo,
}

/// Facts about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostInfo {
    /// Name of the host.
    pub name: Option<String>,
    /// Operating system and release.
    pub system: Option<String>,
    /// Notes about requested settings that could not be applied.
    pub notes: Vec<String>,
    /// States of the interface that the test uses; `None` if none were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Box<InterfaceHistory>>,
}

/// Figures formatted as in the text report (metrics §24).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Display {
    /// Smallest delay, four significant digits.
    pub min: Option<String>,
    /// Mean delay, four significant digits.
    pub avg: Option<String>,
    /// Largest delay, four significant digits.
    pub max: Option<String>,
    /// Smallest delay, to the nanosecond.
    pub min_full: Option<String>,
    /// Mean delay, to the nanosecond.
    pub avg_full: Option<String>,
    /// Largest delay, to the nanosecond.
    pub max_full: Option<String>,
    /// Standard deviation of delay.
    pub stddev: Option<String>,
    /// 99th percentile of PDV.
    pub pdv_p99: Option<String>,
    /// 99.9th percentile of PDV.
    pub pdv_p999: Option<String>,
    /// Largest PDV.
    pub pdv_max: Option<String>,
}

impl Summary {
    /// Removes all figures that depend on the number of lost packets, if this number is unknown. The answer becomes
    /// incomplete, without a verdict, and `why` becomes its headline. The count of packets that are known to be lost
    /// remains.
    pub fn forget_loss(&mut self, why: String) {
        self.loss = Loss::default();
        self.counts.lost_pct = None;
        self.counts.tail_unknown = true;
        (self.dejitter, self.objectives, self.latency_unconditional) = (None, None, None);
        // Sentences about losses cannot be distinguished from other sentences, so that all are removed.
        self.verdicts.clear();
        if let Some(answer) = &mut self.answer {
            answer.complete = false;
            answer.severity = crate::answer::Severity::Unknown;
            answer.headline = why;
            answer.causes.clear();
            answer.profiles.clear();
            (answer.qoo, answer.buffer_ns) = (None, None);
        }
    }

    /// Returns true if the delays are round trips, measured with one clock.
    pub fn is_round_trip(&self) -> bool {
        self.two_way.is_some()
    }

    /// Returns the direction of the packets; `None` for round trips, and for a log that does not contain it.
    pub fn direction(&self) -> Option<Direction> {
        (self.session.direction_known && !self.is_round_trip()).then_some(self.session.direction)
    }

    /// Returns the hosts and the date of the test: `192.0.2.1 to 192.0.2.2, Fri Jul 3 19:46:11 UTC 2009`; `None` if
    /// neither is known.
    pub fn measured(&self) -> Option<String> {
        let ends = self.header.src_ip.as_ref().zip(self.header.dst_ip.as_ref());
        let ends = ends.map(|(from, to)| format!("{from} to {to}"));
        let known: Vec<String> = ends.into_iter().chain(self.header.date.clone()).collect();
        (!known.is_empty()).then(|| known.join(", "))
    }

    /// Returns true if loss and reordering are observable. TCP hides both, and a missing answer to a broadcast request
    /// is not a loss.
    pub fn loss_observable(&self) -> bool {
        self.header.proto != Transport::Tcp.number() && self.expects_answers()
    }

    /// Returns true if packets that are missing are losses. A missing answer to a broadcast request is none, and neither is one
    /// to a browser, whose requests use TCP: it was only not read in time.
    pub fn counts_losses(&self) -> bool {
        let of_browser = self.two_way.as_ref().is_some_and(|figures| figures.protocol == BROWSER_REQUESTS);
        !of_browser && self.expects_answers()
    }

    /// Returns true unless requests went to a broadcast address, which no host is obliged to answer.
    pub fn expects_answers(&self) -> bool {
        self.two_way.as_ref().is_none_or(|figures| figures.expects_answers())
    }

    /// Returns the best mean opinion score over the buffer sizes of the de-jitter curve; `None` if there is no curve.
    pub fn best_mos(&self) -> Option<f64> {
        self.dejitter.as_ref()?.best_mos()
    }

    /// Returns the value to subtract from raw delays, and the error that remains, both in ns. `None` if the clock
    /// offset is unknown.
    pub fn correction(&self) -> Option<(i64, f64)> {
        if self.is_round_trip() {
            return Some((0, 0.0));
        }
        let estimated = self.clock.correction_ns.zip(self.clock.bound_ns);
        estimated.or_else(|| self.clock.synchronised().map(|e| (0, e as f64)))
    }
}

impl ClassicHeader {
    /// Creates the header of `session`; its clock offset is taken from `clock`, if known.
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

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl SessionInfo {
    /// Returns the facts of `session` that a summary contains.
    pub fn new(session: &Session) -> SessionInfo {
        let host = |h: &crate::session::HostFacts| HostInfo {
            name: h.name.clone(),
            system: h.system.clone(),
            notes: h.notes.clone(),
            interface: h.interface.clone(),
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
            skipped: session.skipped.iter().map(|run| run.len).sum(),
            unreported: session.unreported,
            path_mtu: session.path_mtu,
            size_limit: session.size_limit,
            load: session.load.clone(),
            client: host(&session.client),
            server: host(&session.server),
        }
    }
}

impl Display {
    /// Formats the figures of delay and PDV.
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
