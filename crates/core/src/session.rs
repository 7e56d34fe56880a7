//! [`Session`]: everything known about one direction of a test except its packets: hosts, times, clocks, and
//! how it ended.

use crate::clock::{AdapterClock, ClockProbe, SyncState};
use crate::interface::InterfaceHistory;
use crate::load::TestLoad;
use crate::metrics::seqset::{SeqRun, without};
use crate::noise::NoiseFloor;
use crate::spec::TestSpec;
use crate::tcp::TcpMoment;
use crate::time::{Span, WallTime};
use crate::twoway::{ScheduleShift, TwoWay};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// Value of the `instrument` tag of a session that comes from captured traffic.
pub const PASSIVE: &str = "passive";

/// Key of the tag with the source of an RTP stream. Delays of such a session are relative to an unknown constant, because
/// a media clock gives the send times.
pub const SSRC: &str = "ssrc";

/// Facts about a host that show how reliable its stamps are; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// Name of the host.
    pub name: Option<String>,
    /// Operating system and kernel release, for example `Linux 6.18.4`.
    pub system: Option<String>,
    /// Current clock source, for example `tsc`.
    pub clock_source: Option<String>,
    /// State of the kernel's clock before the stream.
    pub sync_before: Option<SyncState>,
    /// State of the kernel's clock after the stream.
    pub sync_after: Option<SyncState>,
    /// Reading of the adapter's clock, if it stamps the packets of the test: the worse of those before and after the
    /// stream. `None` without hardware stamps, or if the clock cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_clock: Option<AdapterClock>,
    /// Change of (realtime − monotonic) during the run, in ns: the amount by which the clock was stepped or
    /// slewed.
    pub clock_step: Option<Span>,
    /// Noise that the host adds to measurements, if it was measured before the test.
    pub noise: Option<NoiseFloor>,
    /// Notes about requested settings that could not be applied (no SCHED_FIFO, no kernel stamps, …).
    pub notes: Vec<String>,
    /// States of the interface that the test uses; `None` if none were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Box<InterfaceHistory>>,
}

/// Ending of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every packet was sent, and both hosts agreed on the end.
    Complete,
    /// The user stopped the test.
    Interrupted,
    /// The connection to the far host was lost.
    PeerLost,
    /// The server was stopped during the test, and handed over what it had until then.
    ServerStopped,
    /// Results could not be stored completely.
    StorageFailed,
    /// Unknown, because logs of versions 1 and 2 do not contain it, or because the log is truncated.
    #[default]
    Unknown,
}

/// Largest packet that passes a path, determined after a test whose packets were all lost. Lengths are those of IP
/// packets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeLimit {
    /// Length of the packets of the test, none of which arrived.
    pub packet: u32,
    /// Length of the largest packet that passed.
    pub passes: u32,
    /// Length of the smallest packet above `passes` that did not pass.
    pub fails: u32,
    /// Payload size that gives the packets of a test the length `passes`.
    pub payload: u32,
}

/// Everything known about one direction of a test except its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The specification, with the ports that were actually used.
    pub spec: TestSpec,
    /// Version of the log that the session was read from (1, 2, 3); 3 for a live run.
    pub version: u8,
    /// Time at which the test was created, as in the first line of a log. Whole seconds in log versions 1 and
    /// 2.
    pub created: Option<WallTime>,
    /// The date as written in the first line of the log; `None` if the session was not read from a log.
    pub date: Option<String>,
    /// Number of packets that a log declares if `spec` cannot hold the number, because it is zero or above 2³¹−1;
    /// otherwise `None`. Use [`Session::packets`] to read the number of packets.
    pub declared: Option<u64>,
    /// True if the payload in `spec` is correct; false if the header of a log declares an impossible one.
    pub payload_known: bool,
    /// True if the period in `spec` is correct; false if the header of a log declares an impossible one.
    pub period_known: bool,
    /// Address of the sender.
    pub src: Option<IpAddr>,
    /// Address of the receiver.
    pub dst: Option<IpAddr>,
    /// Number of packets that the sender reports as sent; `None` if it has not reported. It is smaller than in the
    /// specification if the test was cut short.
    pub sent: Option<u32>,
    /// True if the direction is known. Classic logs do not contain it, because in reverse mode the server also answers
    /// SENDING.
    pub direction_known: bool,
    /// True if classic workorders were used. The clock offset is then the median of the probes, as in the original tool
    /// (DRDC TM 2011-047, A.2).
    pub classic: bool,
    /// Probes of the clock offset before and after the stream, in order of time.
    pub probes: Vec<ClockProbe>,
    /// Classic median estimate of θ, in ns, if the session has this estimate but no probes (log version 2); otherwise
    /// `None`.
    pub classic_offset: Option<Span>,
    /// Classic minimum RTT of the control channel, if the session has this value but no probes (log version 2);
    /// otherwise `None`.
    pub classic_rtt: Option<Span>,
    /// Facts about the host that ran `jitlat HOST`.
    pub client: HostFacts,
    /// Facts about the host that ran `jitlat serve`.
    pub server: HostFacts,
    /// Identifier of the results at the server, 16 hexadecimal digits.
    pub id: Option<String>,
    /// TCP port of the server's control connection; `None` if there was none, or if it is unknown.
    #[serde(default)]
    pub control_port: Option<u16>,
    /// Name that the user gave the test.
    pub name: Option<String>,
    /// `key=value` tags that the user gave.
    pub tags: Vec<(String, String)>,
    /// Ending of the test.
    pub ending: Ending,
    /// Reason why the test did not end normally; `None` if it did.
    pub reason: Option<String>,
    /// Number of datagrams that the receiving kernel dropped because a buffer was full; `None` if unknown.
    pub receiver_drops: Option<u64>,
    /// Number of packets whose departure stamp was requested but never received. Their send times are clock readings of
    /// the program. `None` if no stamps were requested, or if the number is unknown.
    #[serde(default)]
    pub stamps_lost: Option<u64>,
    /// Longest time for which the receiver intentionally left arrived packets in its socket to read several at once.
    /// `None` if it read each packet immediately, or if the time is unknown.
    #[serde(default)]
    pub read_pause: Option<Span>,
    /// Number of packets that the sending host did not send: its own system refused them or dropped them in
    /// the queue of its interface, or the sender skipped them.
    pub unsent: u64,
    /// Sequence numbers that the sender skipped because it was too late to send them (OWAMP, RFC 4656 §4.1).
    /// They count neither as sent nor as lost, and are part of `unsent`. Ascending, without overlaps.
    #[serde(default)]
    pub skipped: Vec<SeqRun>,
    /// Number of packets, in addition to `sent`, that left too late to be part of the receiver's results. Their fate is
    /// unknown.
    #[serde(default)]
    pub unreported: u64,
    /// Path MTU that the sending host's kernel knew after the stream, in bytes; `None` if the packets are not
    /// larger, or if it is unknown. Larger packets travel in fragments.
    #[serde(default)]
    pub path_mtu: Option<u32>,
    /// Largest packet that passes the path, determined after a test in which nothing arrived; `None` if no sizes were
    /// tried, or none passed.
    #[serde(default)]
    pub size_limit: Option<SizeLimit>,
    /// States of the sending TCP connection during the stream, in order of time; empty over UDP, or if unknown.
    #[serde(default)]
    pub tcp: Vec<TcpMoment>,
    /// Changes of the schedule after stalls of the sending host, ascending by `seq`.
    #[serde(default)]
    pub schedule_shifts: Vec<ScheduleShift>,
    /// True if the log is truncated: its closing lines are missing or, in a version without closing lines, it was not
    /// renamed to its final name.
    pub truncated: bool,
    /// Sequence numbers that the log does not cover although it continues after them, because rows are unreadable or
    /// were never written. They count neither as sent nor as lost. The runs ascend and do not overlap.
    #[serde(default)]
    pub unrecorded: Vec<SeqRun>,
    /// Facts about a two-way test; `None` for a one-way test.
    pub two_way: Option<Box<TwoWay>>,
    /// Background traffic; `None` unless the test was measured twice, idle and under load.
    #[serde(default)]
    pub load: Option<Box<TestLoad>>,
}

impl Session {
    /// Returns the IP protocol number of the packets: ICMP for echo requests, otherwise the number of the transport.
    pub fn ip_protocol(&self) -> u8 {
        match &self.two_way {
            Some(facts) if facts.protocol == "icmp" => match self.dst.or(self.src) {
                Some(IpAddr::V6(_)) => 58,
                _ => 1,
            },
            _ => self.spec.transport().number(),
        }
    }

    /// Creates a session for `spec` with everything else unknown.
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
            control_port: None,
            name: None,
            tags: Vec::new(),
            ending: Ending::Unknown,
            reason: None,
            receiver_drops: None,
            stamps_lost: None,
            read_pause: None,
            unsent: 0,
            skipped: Vec::new(),
            unreported: 0,
            path_mtu: None,
            size_limit: None,
            tcp: Vec::new(),
            schedule_shifts: Vec::new(),
            truncated: false,
            unrecorded: Vec::new(),
            two_way: None,
            load: None,
        }
    }

    /// Iterates over the [unrecorded](Session::unrecorded) parts of `from..to`.
    pub fn unrecorded_in(&self, from: u64, to: u64) -> impl Iterator<Item = SeqRun> + Clone {
        runs_in(&self.unrecorded, from, to)
    }

    /// Iterates over the [skipped](Session::skipped) parts of `from..to`.
    pub fn skipped_in(&self, from: u64, to: u64) -> impl Iterator<Item = SeqRun> + Clone {
        runs_in(&self.skipped, from, to)
    }

    /// Iterates over the parts of `from..to` that count neither as sent nor as lost: the
    /// [unrecorded](Session::unrecorded) and the [skipped](Session::skipped) ones. Ascending, without
    /// overlaps.
    pub fn uncounted_in(&self, from: u64, to: u64) -> impl Iterator<Item = SeqRun> + Clone {
        let mut runs: Vec<SeqRun> = self.unrecorded_in(from, to).collect();
        if !self.skipped.is_empty() {
            runs.extend(without(self.skipped_in(from, to), self.unrecorded_in(from, to)));
            runs.sort_unstable_by_key(|run| run.start);
        }
        runs.into_iter()
    }

    /// Returns the number of packets that the sending host's system refused or dropped: `unsent` without the
    /// skipped ones.
    pub fn refused(&self) -> u64 {
        self.unsent.saturating_sub(self.skipped.iter().map(|run| run.len).sum())
    }

    /// Returns true if the log format has end lines, which state how the test ended. Versions 1 and 2 do not
    /// have them.
    pub fn has_end_lines(&self) -> bool {
        self.version >= 3
    }

    /// Returns N, the number of packets that must be received, lost or unknown: the packets sent if that number is
    /// known, otherwise the number that the log or the specification declares. May be 0, or larger than in any real
    /// test.
    pub fn packets(&self) -> u64 {
        self.sent.map(u64::from).or(self.declared).unwrap_or(self.spec.packets().into())
    }

    /// Returns the length of the packets with IP header, in bytes; `None` over TCP, which forms segments itself, or if
    /// the payload is unknown.
    pub fn ip_length(&self) -> Option<u32> {
        let beneath = match self.ip_protocol() {
            6 => return None,
            // Sizes of echo requests include the ICMP header.
            1 | 58 => 0,
            _ => 8,
        };
        let ip = if self.dst.or(self.src).is_some_and(|ip| ip.is_ipv6()) { 40 } else { 20 };
        self.payload().map(|payload| u32::from(payload) + beneath + ip)
    }

    /// Returns the payload size of a packet in bytes; `None` if unknown.
    pub fn payload(&self) -> Option<u16> {
        self.payload_known.then(|| self.spec.payload())
    }

    /// Returns the mean time between packets; `None` if unknown.
    pub fn period(&self) -> Option<Span> {
        self.period_known.then(|| self.spec.period())
    }
}

/// Iterates over the parts of `runs` within `from..to`.
fn runs_in(runs: &[SeqRun], from: u64, to: u64) -> impl Iterator<Item = SeqRun> + Clone {
    let end = |run: &SeqRun| run.start.saturating_add(run.len);
    let first = runs.partition_point(|run| end(run) <= from);
    runs[first..].iter().take_while(move |run| run.start < to).map(move |run| {
        let start = run.start.max(from);
        SeqRun { start, len: end(run).min(to).saturating_sub(start) }
    })
}
