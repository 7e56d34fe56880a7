//! [`Answer`]: causes, their time and size, and the consequences for users of the path. [`Verdict`] and
//! [`Warning`]: conclusions in sentences.
//!
//! These are the forms in which verdicts are stored and exchanged, as parts of a [`Summary`](crate::Summary). Their
//! contents are determined by a [`Judge`](crate::evidence::Judge).

mod coincidence;
mod conclusion;

pub use coincidence::{Coincidence, PacketEffect};
pub use conclusion::{Level, Verdict, Warning};

use crate::metrics::qoo::QualityOfOutcome;
use crate::spec::Direction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Verdict on a test: severity, causes, and consequences for users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// True if each packet sent is known to be received or lost. If false, the verdict covers only a part of the test.
    pub complete: bool,
    /// Severity for an application with the best fixed play-out buffer on this path. Effects of the hosts are left out:
    /// see `host`.
    pub severity: Severity,
    /// Effects of the hosts themselves; `None` if they were not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostGrade>,
    /// The verdict in one sentence.
    pub headline: String,
    /// The recommended play-out buffer, in ns above the smallest delay. It is the smallest buffer that is about as good
    /// as the best one. `None` if no buffer helps.
    pub buffer_ns: Option<i64>,
    /// Jitter without the clock steps of the test; `None` if no clock was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_clock_step: Option<JitterWithoutStep>,
    /// The causes found, the most important first; empty if there are none.
    pub causes: Vec<Cause>,
    /// Suitability for each profile, by name.
    pub profiles: BTreeMap<String, Suitability>,
    /// Quality of Outcome for each profile; `None` if only counts are known, and in comparisons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qoo: Option<QualityOfOutcome>,
}

/// Grade of the hosts: the effects that the hosts themselves, and not the path, had on the packets of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostGrade {
    /// Severity for an application on these hosts.
    pub severity: Severity,
    /// Kinds of the causes that lie in the hosts, the most important first; empty if there are none.
    pub causes: Vec<CauseId>,
}

/// Jitter of a stream during which a clock was set, with the steps of the clock subtracted. Like the recommended
/// buffer, it excludes drift of the clocks, changes of the smallest delay, and packets that a host sent or read late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JitterWithoutStep {
    /// Time of the first step, in ns since the first packet was sent.
    pub at_ns: i64,
    /// Number of steps.
    pub steps: u64,
    /// Median delay above the smallest, in ns.
    pub p50_ns: i64,
    /// 95th percentile of the delay above the smallest, in ns.
    pub p95_ns: i64,
    /// 99th percentile of the delay above the smallest, in ns.
    pub p99_ns: i64,
    /// 99.9th percentile of the delay above the smallest, in ns.
    pub p999_ns: i64,
    /// Largest delay above the smallest, in ns.
    pub max_ns: i64,
    /// Changes of the raw delays by the steps, ascending by `seq`; empty if they are unknown (constant memory), or too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shifts: Vec<DelayShift>,
}

/// Change of raw delays by a step of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayShift {
    /// Sequence number of the first packet with the change.
    pub seq: u32,
    /// Amount by which this packet and all later ones seem to take longer, in ns.
    pub by_ns: i64,
}

impl JitterWithoutStep {
    /// Returns the delays of the packets `seq` without the steps.
    pub fn without_steps(&self, seq: &[u32], delay: &[i64]) -> Vec<i64> {
        let mut total = 0_i64;
        let totals: Vec<i64> = self
            .shifts
            .iter()
            .map(|shift| {
                total = total.saturating_add(shift.by_ns);
                total
            })
            .collect();
        let shift_of = |seq: u32| match self.shifts.partition_point(|shift| shift.seq <= seq) {
            0 => 0,
            n => totals[n - 1],
        };
        seq.iter().zip(delay).map(|(seq, delay)| delay.saturating_sub(shift_of(*seq))).collect()
    }
}

/// The largest of several events that are reported as one cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LargestEvent {
    /// Start of the event, in seconds since the first packet was sent.
    pub from_s: f64,
    /// End of the event, in seconds since the first packet was sent.
    pub to_s: f64,
    /// Size of the event, in ns.
    pub magnitude_ns: i64,
}

/// Effect on users of the path. After unknown, the order is from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Unknown: the test is too short to show the effect, or its log is incomplete.
    Unknown,
    /// Nobody will notice a problem.
    Good,
    /// Some users will notice.
    Fair,
    /// Many users will be annoyed.
    Poor,
    /// Unusable for conversation or control.
    Bad,
}

/// A cause of impairment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The kind of cause.
    pub id: CauseId,
    /// Location of the cause.
    pub fault: Fault,
    /// The direction, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Start of the cause, in seconds since the first packet was sent.
    pub from_s: f64,
    /// Last time at which the cause was seen; the end of the test if it persists.
    pub to_s: f64,
    /// Size in ns; `None` if the size is not a duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude_ns: Option<i64>,
    /// Size as a share of packets (0…1), or in parts per million for clock skew; `None` if the size is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnitude: Option<f64>,
    /// Largest packet that passes, in bytes with the IP header, if larger ones do not; otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Property of the TCP connection that made packets wait in the sending host; `None` if they waited for another
    /// reason, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<TcpLimit>,
    /// Time from one event to the next, in seconds, if events repeat regularly; otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_s: Option<f64>,
    /// Confidence that this is the cause, from 0 to 1.
    pub confidence: f64,
    /// Effect of this cause alone on an application.
    pub severity: Severity,
    /// Number of occurrences reported together.
    pub count: u64,
    /// The largest event, if the cause combines several events whose size is measured in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<LargestEvent>,
    /// First and last sequence number affected.
    pub packets: [u64; 2],
    /// The evidence, in one sentence.
    pub because: String,
}

impl Cause {
    /// Creates a cause that occurred once. Its times, size and sentence are not set.
    pub fn new(id: CauseId, severity: Severity, confidence: f64) -> Cause {
        Cause {
            id,
            fault: id.fault(),
            direction: None,
            from_s: 0.0,
            to_s: 0.0,
            magnitude_ns: None,
            magnitude: None,
            bytes: None,
            limited_by: None,
            period_s: None,
            confidence,
            severity,
            count: 1,
            largest: None,
            packets: [0, 0],
            because: String::new(),
        }
    }
}

/// Kinds of cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CauseId {
    /// No packet was received for some time.
    Outage,
    /// Packets waited behind others.
    Queue,
    /// Packets were lost independently of each other.
    RandomLoss,
    /// Packets were lost in bursts.
    BurstyLoss,
    /// Packets above a certain rate were dropped.
    Policing,
    /// Packets were lost at regular intervals.
    PeriodicLoss,
    /// Packets were reordered.
    Reordering,
    /// The path became longer or shorter.
    RouteChange,
    /// A clock was set during the test.
    ClockStep,
    /// The clocks run at different rates.
    ClockSkew,
    /// The sending program stalled.
    SenderStall,
    /// The receiving program stalled.
    ReceiverStall,
    /// Packets waited in the queue of the sending host's interface.
    LocalQueue,
    /// Packets arrived more than once.
    Duplication,
    /// Long packets were lost and short ones were not.
    SizeDependent,
    /// Packets were larger than a link on the path can carry.
    Mtu,
    /// The sending host's system refused to send packets.
    SendFailure,
    /// Part of the test was not recorded.
    IncompleteLog,
    /// The clock of a capture was set while it recorded.
    CaptureClock,
    /// Marks (ECN) of packets were removed on the path.
    EcnBleached,
    /// Marks of packets were changed on the path in a way that no rule permits.
    EcnRemarked,
    /// Packets that were sent with CE arrived without it.
    CeErased,
    /// More packets with a mark were lost than packets without.
    EctDropped,
    /// A queue, or something else on the path, marked packets with CE.
    EcnMarked,
    /// Packets for the low-latency queue of L4S were faster than others.
    DualQueue,
}

/// Property of a TCP connection that limits how much the connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TcpLimit {
    /// Congestion window that still grows with each round trip from its initial size (RFC 5681).
    SlowStart,
    /// Congestion window after slow start.
    CongestionWindow,
    /// Receive window: the receiver accepts no more (flow control).
    ReceiveWindow,
    /// Size of the send buffer.
    SendBuffer,
}

/// Location of a cause: the part that needs repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The network between the two hosts.
    Path,
    /// The sending host: its program, its system or its interface.
    Sender,
    /// The receiving host.
    Receiver,
    /// A clock. Measured delays are wrong, but users are not affected.
    Clock,
    /// The stored record of the test.
    Record,
}

/// Suitability of the path for one profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suitability {
    /// Severity for this profile.
    pub severity: Severity,
    /// Mean opinion score of speech; `None` if the profile is not for speech.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mos: Option<f64>,
    /// Share of packets that are lost or arrive too late for this profile.
    pub missing: f64,
    /// One-way delay including the profile's buffer, in ns; `None` if the path's delay is unknown.
    pub delay_ns: Option<i64>,
    /// Size of the profile's buffer, in ns.
    pub buffer_ns: Option<i64>,
    /// The figure that decided the severity.
    pub because: String,
    /// Reason why the test is of limited value for this profile, such as a different packet rate or size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
}

impl Answer {
    /// Returns true if `id` is among the causes.
    pub fn names(&self, id: CauseId) -> bool {
        self.causes.iter().any(|cause| cause.id == id)
    }
}

impl CauseId {
    /// All kinds of cause.
    pub const ALL: [CauseId; 25] = [
        CauseId::Outage,
        CauseId::Queue,
        CauseId::RandomLoss,
        CauseId::BurstyLoss,
        CauseId::Policing,
        CauseId::PeriodicLoss,
        CauseId::Reordering,
        CauseId::RouteChange,
        CauseId::ClockStep,
        CauseId::ClockSkew,
        CauseId::SenderStall,
        CauseId::ReceiverStall,
        CauseId::LocalQueue,
        CauseId::Duplication,
        CauseId::SizeDependent,
        CauseId::Mtu,
        CauseId::SendFailure,
        CauseId::IncompleteLog,
        CauseId::CaptureClock,
        CauseId::EcnBleached,
        CauseId::EcnRemarked,
        CauseId::CeErased,
        CauseId::EctDropped,
        CauseId::EcnMarked,
        CauseId::DualQueue,
    ];

    /// Returns the name that all outputs use.
    pub fn name(self) -> &'static str {
        match self {
            CauseId::Outage => "outage",
            CauseId::Queue => "queue",
            CauseId::RandomLoss => "random-loss",
            CauseId::BurstyLoss => "bursty-loss",
            CauseId::Policing => "policing",
            CauseId::PeriodicLoss => "periodic-loss",
            CauseId::Reordering => "reordering",
            CauseId::RouteChange => "route-change",
            CauseId::ClockStep => "clock-step",
            CauseId::ClockSkew => "clock-skew",
            CauseId::SenderStall => "sender-stall",
            CauseId::ReceiverStall => "receiver-stall",
            CauseId::LocalQueue => "local-queue",
            CauseId::Duplication => "duplication",
            CauseId::SizeDependent => "size-dependent",
            CauseId::Mtu => "mtu",
            CauseId::SendFailure => "send-failure",
            CauseId::IncompleteLog => "incomplete-log",
            CauseId::CaptureClock => "capture-clock",
            CauseId::EcnBleached => "ecn-bleached",
            CauseId::EcnRemarked => "ecn-remarked",
            CauseId::CeErased => "ce-erased",
            CauseId::EctDropped => "ect-dropped",
            CauseId::EcnMarked => "ecn-marked",
            CauseId::DualQueue => "dual-queue",
        }
    }
}

impl CauseId {
    /// Returns the location of the cause.
    pub fn fault(self) -> Fault {
        match self {
            CauseId::Outage
            | CauseId::Queue
            | CauseId::RandomLoss
            | CauseId::BurstyLoss
            | CauseId::Policing
            | CauseId::PeriodicLoss
            | CauseId::Reordering
            | CauseId::RouteChange
            | CauseId::Duplication
            | CauseId::SizeDependent
            | CauseId::Mtu
            | CauseId::EcnBleached
            | CauseId::EcnRemarked
            | CauseId::CeErased
            | CauseId::EctDropped
            | CauseId::EcnMarked
            | CauseId::DualQueue => Fault::Path,
            CauseId::SenderStall | CauseId::LocalQueue | CauseId::SendFailure => Fault::Sender,
            CauseId::ReceiverStall => Fault::Receiver,
            CauseId::ClockStep | CauseId::ClockSkew => Fault::Clock,
            CauseId::IncompleteLog | CauseId::CaptureClock => Fault::Record,
        }
    }
}

impl Fault {
    /// Returns the name that all outputs use.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Path => "path",
            Fault::Sender => "sender",
            Fault::Receiver => "receiver",
            Fault::Clock => "clock",
            Fault::Record => "record",
        }
    }
}

impl Severity {
    /// Returns the sort key for finding the worst of several severities: unknown ranks above good, because it may be
    /// worse, and below any known impairment.
    pub fn doubt(self) -> u8 {
        match self {
            Severity::Good => 0,
            Severity::Unknown => 1,
            Severity::Fair => 2,
            Severity::Poor => 3,
            Severity::Bad => 4,
        }
    }

    /// Returns the name that all outputs use.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Unknown => "unknown",
            Severity::Good => "good",
            Severity::Fair => "fair",
            Severity::Poor => "poor",
            Severity::Bad => "bad",
        }
    }

    /// Returns the severity that outputs call `name`; `None` if there is none.
    pub fn named(name: &str) -> Option<Severity> {
        let all = [Severity::Unknown, Severity::Good, Severity::Fair, Severity::Poor, Severity::Bad];
        all.into_iter().find(|severity| severity.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for id in CauseId::ALL {
            assert_eq!(serde_json::to_value(id).unwrap(), id.name());
            assert_eq!(serde_json::to_value(id.fault()).unwrap(), id.fault().name());
        }
        for severity in [Severity::Unknown, Severity::Good, Severity::Fair, Severity::Poor, Severity::Bad] {
            assert_eq!(serde_json::to_value(severity).unwrap(), severity.name());
        }
    }
}
