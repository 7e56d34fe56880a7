//! Analyses of captures, as JSON (`docs/formats/passive-json.md`) and as lines.
//!
//! * [`spp_document`], [`tcp_document`] – the whole analysis as one object; [`capture_document`] – the part about a
//!   test's own stream
//! * [`write_sizes`] – round trips by packet size, one line each
//! * [`PairLines`] – one line per pair, in the format of the CAIA tool
//! * [`write_tcp_event`] – one line per event of a TCP connection
//! * [`read_pings`] – round trips of ping, to compare with

mod lines;
mod pings;
mod sizes;

pub use lines::{PairColumns, PairLines, write_tcp_event};
pub use pings::{PingsError, read_pings};
pub use sizes::{SizeDocument, write_sizes};

use jitlat_core::answer::Answer;
use jitlat_core::link::{AccessLink, LinkFit};
use jitlat_core::prefix::Prefix;
use jitlat_core::summary::Summary;
use jitlat_core::{Direction, WallTime};
use jitlat_passive::fit_sizes;
use jitlat_passive::pipeline::CaptureFacts;
use jitlat_passive::tcp::{self, BetweenPoints, DelayCauses, ObservedConnection, TcpResult, explain_delays};
use jitlat_passive::verdict::describe_identity;
use jitlat_passive::{
    FlowFigures, LinkQuestion, OnePointResult, PassiveResult, PassiveSummary, PingFigures, PingSource,
    SpreadFigures, StreamTraffic, WireCounts,
};
use serde::Serialize;
use std::path::Path;

/// Round trips from one capture point: `spp --one-point --json`. Null is undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnePointDocument<'a> {
    /// `one-point`.
    pub instrument: &'static str,
    /// Of this document: 1.
    pub version: u8,
    /// What was found.
    #[serde(flatten)]
    pub result: &'a OnePointResult,
}

impl OnePointDocument<'_> {
    /// The document of `result`.
    pub fn of(result: &OnePointResult) -> OnePointDocument<'_> {
        OnePointDocument { instrument: "one-point", version: 1, result }
    }
}

/// Passive round trips: `spp --json`. Times in ns unless a name says otherwise; null is undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SppDocument<'a> {
    /// `spp`.
    pub instrument: &'static str,
    /// Of this document: 1.
    pub version: u8,
    /// Addresses on the side of the reference point.
    pub reference_addresses: Vec<String>,
    /// Addresses on the side of the monitor point.
    pub monitor_addresses: Vec<String>,
    /// The fields by which packets are identified, in words.
    pub identity: String,
    /// What was read at each capture point.
    pub captures: Captures,
    /// Round trips, both ways and both clocks.
    pub summary: &'a PassiveSummary,
    /// Round trips by the sizes of their packets.
    pub sizes: Vec<SizeDocument<'a>>,
    /// What a known link explains, or the link that the sizes look like; null where nothing was asked.
    pub link: Option<LinkAnswer<'a>>,
    /// Round trips of the ICMP echoes in the reference capture.
    pub ping_rtt_ns: Option<SpreadFigures>,
    /// Round trips of the file of `--ping`, which may be of the same echoes.
    pub ping_file_rtt_ns: Option<SpreadFigures>,
    /// By flow, where that was asked for.
    pub flows: Option<&'a [FlowFigures]>,
    /// Both ways in the common analysis.
    pub directions: &'a [&'a Summary],
    /// What should be known before the figures are believed, in words.
    pub notes: Vec<String>,
}

/// What was read at each capture point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Captures {
    /// Where the round trip starts.
    pub reference: CaptureCounts,
    /// The far end.
    pub monitor: CaptureCounts,
}

/// What was read at one capture point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureCounts {
    /// Frames read.
    pub frames: u64,
    /// IP packets among them.
    pub ip_packets: u64,
    /// Packets between the two sides.
    pub between_the_sides: u64,
    /// Of those, packets of which too little was captured to name them.
    pub too_short: u64,
    /// Frames cut before the end of their headers.
    pub truncated: u64,
    /// Frames that contradict themselves.
    pub malformed: u64,
    /// Frames earlier than the one before.
    pub disordered: u64,
    /// Packets that the capture missed itself.
    pub capture_drops: u64,
    /// First time stamp, ns since 1970.
    pub first_ns: Option<WallTime>,
    /// Last time stamp, ns since 1970.
    pub last_ns: Option<WallTime>,
}

/// What there is to say of a link.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LinkAnswer<'a> {
    /// The link that was asked about.
    Compare(&'a AccessLink),
    /// The link that the sizes look like.
    Fit(LinkFit),
}

/// TCP connections of captures: `tcp --json`. Times in ns unless a name says otherwise; null is undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpDocument<'a> {
    /// `tcp`.
    pub instrument: &'static str,
    /// Of this document: 1.
    pub version: u8,
    /// Segments read at the first point.
    pub segments: u64,
    /// Packets that the capture missed itself.
    pub capture_drops: u64,
    /// What is wrong with the captures, in words.
    pub notes: &'a [String],
    /// What is wrong, the worst first.
    pub answer: Answer,
    /// Those with most bytes first.
    pub connections: Vec<TcpConnection<'a>>,
}

/// A connection, what two points say of it and what delayed its data.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpConnection<'a> {
    /// The connection as the first point saw it.
    #[serde(flatten)]
    pub connection: &'a ObservedConnection,
    /// Between two capture points; null of one.
    pub between: Option<&'a BetweenPoints>,
    /// What delayed its data, in words.
    pub explained: Vec<String>,
}

/// A test's own stream as it was captured at this host: `capture` beside the summary of a test.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureDocument<'a> {
    /// Where it was captured.
    pub interface: &'a str,
    /// Where the packets are saved.
    pub file: Option<&'a Path>,
    /// From this host.
    pub sent: WireCounts,
    /// To this host.
    pub received: WireCounts,
    /// Packets that the capture missed itself.
    pub capture_drops: u64,
    /// TCP segments of the stream.
    pub tcp_segments: u64,
    /// Its TCP connections.
    pub connections: Vec<TcpConnection<'a>>,
    /// What delayed the packets of each direction.
    pub delays: Vec<ExplainedDelays<'a>>,
    /// What should be known of the capture before the figures are believed, in words.
    pub notes: &'a [String],
}

/// What delayed the packets of one direction of a test.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedDelays<'a> {
    /// Which.
    pub direction: Direction,
    /// Packets and times by cause.
    pub explained: &'a DelayCauses,
}

/// Passive round trips. `ping` has the round trips of ping in the same time, `link` the question about the link, `ways`
/// the figures of both ways, `notes` further notes.
pub fn spp_document<'a>(
    r: &'a PassiveResult,
    ping: PingFigures,
    link: Option<&'a LinkQuestion>,
    ways: &'a [&'a Summary],
    notes: &[String],
) -> SppDocument<'a> {
    let side = |p: &[Prefix]| p.iter().map(ToString::to_string).collect();
    let capture = |f: &CaptureFacts| CaptureCounts {
        frames: f.frames,
        ip_packets: f.packets,
        between_the_sides: f.ours,
        too_short: f.too_short,
        truncated: f.truncated,
        malformed: f.malformed,
        disordered: f.disordered,
        capture_drops: f.drops,
        first_ns: f.span.map(|s| s.0),
        last_ns: f.span.map(|s| s.1),
    };
    SppDocument {
        instrument: "spp",
        version: 1,
        reference_addresses: side(&r.plan.sides[0].reference),
        monitor_addresses: side(&r.plan.sides[1].monitor),
        identity: describe_identity(&r.identity),
        captures: Captures { reference: capture(&r.captures[0]), monitor: capture(&r.captures[1]) },
        summary: &r.summary,
        sizes: sizes::documents(&r.sizes, link),
        link: link.and_then(|question| match question {
            LinkQuestion::Compare(link) => Some(LinkAnswer::Compare(link)),
            LinkQuestion::Fit { tunnel } => fit_sizes(&r.sizes, *tunnel).map(LinkAnswer::Fit),
        }),
        ping_rtt_ns: ping[PingSource::Capture as usize],
        ping_file_rtt_ns: ping[PingSource::File as usize],
        flows: r.flows.as_deref(),
        directions: ways,
        notes: r.notes().iter().chain(notes).cloned().collect(),
    }
}

/// The TCP connections in captures.
pub fn tcp_document(r: &TcpResult) -> TcpDocument<'_> {
    TcpDocument {
        instrument: "tcp",
        version: 1,
        segments: r.first.segments,
        capture_drops: r.first.drops,
        notes: &r.notes,
        answer: tcp::answer(r),
        connections: tcp_connections(r),
    }
}

/// A test's own stream as captured at this host, for the summary of the test. `saved` is the file with the packets.
pub fn capture_document<'a>(s: &'a StreamTraffic, saved: Option<&'a Path>) -> CaptureDocument<'a> {
    CaptureDocument {
        interface: &s.interface,
        file: saved,
        sent: s.sent,
        received: s.received,
        capture_drops: s.tcp.first.drops,
        tcp_segments: s.tcp.first.segments,
        connections: tcp_connections(&s.tcp),
        delays: s
            .delays
            .iter()
            .map(|(direction, explained)| ExplainedDelays { direction: *direction, explained })
            .collect(),
        notes: &s.notes,
    }
}

fn tcp_connections(r: &TcpResult) -> Vec<TcpConnection<'_>> {
    r.connections()
        .map(|(connection, between)| TcpConnection {
            connection,
            between,
            explained: explain_delays(connection, between),
        })
        .collect()
}
