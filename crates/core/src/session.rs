//! [`Session`]: the context that gives records their meaning – who sent what to whom, when, on which
//! clocks, and how it ended.

use crate::clock::{ClockProbe, SyncState};
use crate::noise::NoiseFloor;
use crate::spec::TestSpec;
use crate::time::{Span, WallTime};
use crate::twoway::TwoWay;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// Facts about one host that bear on how far its stamps can be believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its own name for itself.
    pub name: Option<String>,
    /// Operating system and kernel release, e.g. `Linux 6.18.4`.
    pub system: Option<String>,
    /// The current clock source, e.g. `tsc`.
    pub clock_source: Option<String>,
    /// The kernel's account of its clock before the stream.
    pub sync_before: Option<SyncState>,
    /// And after it.
    pub sync_after: Option<SyncState>,
    /// Change of (realtime − monotonic) over the run: a clock stepped or slewed by this much, in ns.
    pub clock_step: Option<Span>,
    /// What it adds to every figure, where that was measured before the test.
    pub noise: Option<NoiseFloor>,
    /// What had to be reduced, in plain words (no SCHED_FIFO, no kernel stamps, …).
    pub notes: Vec<String>,
}

/// How a test came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every packet was sent and the end agreed upon.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// The peer or the control connection was lost.
    PeerLost,
    /// Results could not be stored in full.
    StorageFailed,
    /// The log does not say (versions 1 and 2), or ends before its own end.
    #[default]
    Unknown,
}

/// Everything about one direction of one test but its packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// What was asked for, with the ports as they really were.
    pub spec: TestSpec,
    /// Format of the log it came from (1, 2, 3), or 3 for a live run.
    pub version: u8,
    /// When the record was opened; the first line of a log. Whole seconds in versions 1 and 2.
    pub created: Option<WallTime>,
    /// The date as the first line of the log writes it, where the record came from one.
    pub date: Option<String>,
    /// Packets a log declares where `spec` cannot hold that number: none, or more than 2³¹−1.
    /// Read it through [`Session::packets`].
    pub declared: Option<u64>,
    /// Whether `spec` holds the true payload; not so if a log's header declares an impossible one.
    pub payload_known: bool,
    /// Whether `spec` holds the true period; not so if a log's header declares an impossible one.
    pub period_known: bool,
    /// The sender's address.
    pub src: Option<IpAddr>,
    /// The receiver's address.
    pub dst: Option<IpAddr>,
    /// Packets the sender says it sent, where that is known to differ from what was asked (a test cut
    /// short), or confirmed.
    pub sent: Option<u32>,
    /// Whether the direction is known. Classic logs cannot tell: in reverse mode the server too
    /// answers SENDING.
    pub direction_known: bool,
    /// Whether classic workorders were spoken: the relative clock error is then the median of the probes, as the
    /// seed document's A.2 has it.
    pub classic: bool,
    /// Offset probes, in the order made, before and after the stream.
    pub probes: Vec<ClockProbe>,
    /// The classic median estimate of θ in ns, where only that is known (log version 2).
    pub classic_offset: Option<Span>,
    /// The classic minimum control-channel RTT, where only that is known (log version 2).
    pub classic_rtt: Option<Span>,
    /// The host that ran `jitlat HOST`.
    pub client: HostFacts,
    /// The host that ran `jitlat serve`.
    pub server: HostFacts,
    /// Name under which the server keeps the results, 16 hexadecimal digits.
    pub id: Option<String>,
    /// The user's name for the test.
    pub name: Option<String>,
    /// The user's `key=value` tags.
    pub tags: Vec<(String, String)>,
    /// How it ended.
    pub ending: Ending,
    /// The reason in plain words, when it did not end complete.
    pub reason: Option<String>,
    /// Datagrams the receiving kernel dropped for want of buffer space, if it said.
    pub receiver_drops: Option<u64>,
    /// Of the packets sent, those that the sending host's own system refused.
    pub unsent: u64,
    /// The log it came from ends within a line, or before its own closing lines.
    pub truncated: bool,
    /// Of a two-way test: everything that only such a test has.
    pub two_way: Option<Box<TwoWay>>,
}

impl Session {
    /// The context of `spec` about which nothing else is known yet.
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
            unsent: 0,
            truncated: false,
            two_way: None,
        }
    }
    /// N, the packets whose fate is to be explained: those sent where that is known, otherwise those
    /// the log or the specification declares. May be 0, and may be larger than any test could be.
    pub fn packets(&self) -> u64 {
        self.sent.map(u64::from).or(self.declared).unwrap_or(self.spec.packets().into())
    }

    /// Payload bytes of a packet, if known.
    pub fn payload(&self) -> Option<u16> {
        self.payload_known.then(|| self.spec.payload())
    }

    /// Mean time between packets, if known.
    pub fn period(&self) -> Option<Span> {
        self.period_known.then(|| self.spec.period())
    }
}
