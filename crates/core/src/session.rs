//! [`Session`]: everything known about one direction of a test except its packets – who sent what to whom, when, with
//! which clocks, and how it ended.

use crate::clock::{ClockProbe, SyncState};
use crate::metrics::seqset::SeqRun;
use crate::noise::NoiseFloor;
use crate::spec::TestSpec;
use crate::time::{Span, WallTime};
use crate::twoway::TwoWay;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// The value of the `instrument` tag of a session that comes from captured traffic.
pub const PASSIVE: &str = "passive";

/// Facts about one host that show how reliable its stamps are. `None`: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// Its host name.
    pub name: Option<String>,
    /// Operating system and kernel release, e.g. `Linux 6.18.4`.
    pub system: Option<String>,
    /// The current clock source, e.g. `tsc`.
    pub clock_source: Option<String>,
    /// The kernel's clock state before the stream.
    pub sync_before: Option<SyncState>,
    /// The kernel's clock state after the stream.
    pub sync_after: Option<SyncState>,
    /// Change of (realtime − monotonic) over the run: a clock stepped or slewed by this much, in ns.
    pub clock_step: Option<Span>,
    /// What it adds to every figure, if that was measured before the test.
    pub noise: Option<NoiseFloor>,
    /// Notes about what could not be done as requested (no SCHED_FIFO, no kernel stamps, …).
    pub notes: Vec<String>,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every packet was sent and the end agreed upon.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// The peer or the control connection was lost.
    PeerLost,
    /// Results could not be stored completely.
    StorageFailed,
    /// The log does not say (versions 1 and 2), or is truncated.
    #[default]
    Unknown,
}

/// Everything known about one direction of a test except its packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The specification, with the actual ports.
    pub spec: TestSpec,
    /// Version of the log it came from (1, 2, 3), or 3 for a live run.
    pub version: u8,
    /// When the test was created; the first line of a log. Whole seconds in versions 1 and 2.
    pub created: Option<WallTime>,
    /// The date as in the first line of the log; `None` if it does not come from a log.
    pub date: Option<String>,
    /// Packets declared by a log if `spec` cannot hold that number: none, or more than 2³¹−1. Read it through
    /// [`Session::packets`].
    pub declared: Option<u64>,
    /// Whether `spec` has the true payload; false if a log's header declares an impossible one.
    pub payload_known: bool,
    /// Whether `spec` has the true period; false if a log's header declares an impossible one.
    pub period_known: bool,
    /// The sender's address.
    pub src: Option<IpAddr>,
    /// The receiver's address.
    pub dst: Option<IpAddr>,
    /// Packets that the sender reports as sent, if that is known to differ from the specification (a test cut short),
    /// or confirmed.
    pub sent: Option<u32>,
    /// Whether the direction is known. Classic logs cannot show it: in reverse mode the server also answers SENDING.
    pub direction_known: bool,
    /// Whether classic workorders were used: the relative clock error is then the median of the probes, as in the seed
    /// document's A.2.
    pub classic: bool,
    /// Offset probes, in the order made, before and after the stream.
    pub probes: Vec<ClockProbe>,
    /// The classic median estimate of θ in ns, if only that is known (log version 2).
    pub classic_offset: Option<Span>,
    /// The classic minimum control-channel RTT, if only that is known (log version 2).
    pub classic_rtt: Option<Span>,
    /// The host that ran `jitlat HOST`.
    pub client: HostFacts,
    /// The host that ran `jitlat serve`.
    pub server: HostFacts,
    /// Identifier of the results at the server, 16 hexadecimal digits.
    pub id: Option<String>,
    /// The user's name for the test.
    pub name: Option<String>,
    /// The user's `key=value` tags.
    pub tags: Vec<(String, String)>,
    /// How it ended.
    pub ending: Ending,
    /// The reason, if it did not end normally.
    pub reason: Option<String>,
    /// Datagrams dropped by the receiving kernel because a buffer was full; `None` if unknown.
    pub receiver_drops: Option<u64>,
    /// Packets for which a stamp of their departure was asked for and never came, so that their send times are the
    /// program's own; `None` if no stamps were asked for, or it is unknown.
    #[serde(default)]
    pub stamps_lost: Option<u64>,
    /// The longest time for which the receiver left arrived packets in its socket on purpose, to take several at once;
    /// `None` if it took each as it came, or it is unknown.
    #[serde(default)]
    pub read_pause: Option<Span>,
    /// Of the packets sent, those that the sending host's own system refused, or dropped in the queue of its interface.
    pub unsent: u64,
    /// Whether the log it came from is truncated: it ends within a line, or before its closing lines.
    pub truncated: bool,
    /// Sequence numbers about which the log it came from says nothing, though it goes on after them: rows there are
    /// unreadable, or were never written. They count neither as sent nor as lost. Ascending, apart from each other.
    #[serde(default)]
    pub unrecorded: Vec<SeqRun>,
    /// What only a two-way test has; `None` for a one-way test.
    pub two_way: Option<Box<TwoWay>>,
}

impl Session {
    /// The IP protocol number of the packets: echo requests have their own, whatever else is sent that of its transport.
    pub fn ip_protocol(&self) -> u8 {
        match &self.two_way {
            Some(facts) if facts.protocol == "icmp" => match self.dst.or(self.src) {
                Some(IpAddr::V6(_)) => 58,
                _ => 1,
            },
            _ => self.spec.transport().number(),
        }
    }

    /// The session of `spec` about which nothing else is known yet.
    pub fn new(spec: TestSpec) -> Session {
        Session {
            spec,
            version: 3,
            created: None,
            date: None,
            declared: None,
            payload_known: true,
            period_known: true,
            src: None,
            dst: None,
            sent: None,
            direction_known: true,
            classic: false,
            probes: Vec::new(),
            classic_offset: None,
            classic_rtt: None,
            client: HostFacts::default(),
            server: HostFacts::default(),
            id: None,
            name: None,
            tags: Vec::new(),
            ending: Ending::Unknown,
            reason: None,
            receiver_drops: None,
            stamps_lost: None,
            read_pause: None,
            unsent: 0,
            truncated: false,
            unrecorded: Vec::new(),
            two_way: None,
        }
    }

    /// The [unrecorded](Session::unrecorded) parts of `from..to`.
    pub fn unrecorded_in(&self, from: u64, to: u64) -> impl Iterator<Item = SeqRun> + Clone {
        let end = |run: &SeqRun| run.start.saturating_add(run.len);
        let first = self.unrecorded.partition_point(|run| end(run) <= from);
        self.unrecorded[first..].iter().take_while(move |run| run.start < to).map(move |run| {
            let start = run.start.max(from);
            SeqRun { start, len: end(run).min(to).saturating_sub(start) }
        })
    }

    /// Whether the record says after its rows how the test ended: logs of versions 1 and 2 do not.
    pub fn has_end_lines(&self) -> bool {
        self.version >= 3
    }

    /// N, the packets whose fate is to be explained: those sent if that is known, otherwise those that the log or the
    /// specification declares. May be 0, and may be larger than any real test.
    pub fn packets(&self) -> u64 {
        self.sent.map(u64::from).or(self.declared).unwrap_or(self.spec.packets().into())
    }

    /// Payload bytes of a packet; `None` if unknown.
    pub fn payload(&self) -> Option<u16> {
        self.payload_known.then(|| self.spec.payload())
    }

    /// Mean time between packets; `None` if unknown.
    pub fn period(&self) -> Option<Span> {
        self.period_known.then(|| self.spec.period())
    }
}
