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
    /// Version of this document: 1.
    pub version: u8,
    /// Result of the analysis.
    #[serde(flatten)]
    pub result: &'a OnePointResult,
}

impl OnePointDocument<'_> {
    /// Creates the document of `result`.
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
    /// Version of this document: 1.
    pub version: u8,
    /// Addresses on the side of the reference point.
    pub reference_addresses: Vec<String>,
    /// Addresses on the side of the monitor point.
    pub monitor_addresses: Vec<String>,
    /// Fields by which packets are identified, as text.
    pub identity: String,
    /// Packets read at each capture point.
    pub captures: Captures,
    /// Round trips, with both directions and both clocks.
    pub summary: &'a PassiveSummary,
    /// Round trips by the sizes of their packets.
    pub sizes: Vec<SizeDocument<'a>>,
    /// Comparison with a given link, or the link that fits the sizes; null if not requested.
    pub link: Option<LinkAnswer<'a>>,
    /// Round trips of the ICMP echoes in the reference capture.
    pub ping_rtt_ns: Option<SpreadFigures>,
    /// Round trips in the file of `--ping`, which may contain the same echoes.
    pub ping_file_rtt_ns: Option<SpreadFigures>,
    /// Figures by flow, if requested.
    pub flows: Option<&'a [FlowFigures]>,
    /// Both directions in the common analysis.
    pub directions: &'a [&'a Summary],
    /// Limits of the figures' validity, as text.
    pub notes: Vec<String>,
}

/// Packets read at each capture point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Captures {
    /// Point where the round trip starts.
    pub reference: CaptureCounts,
    /// The far end.
    pub monitor: CaptureCounts,
}

/// Packets read at one capture point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureCounts {
    /// Frames read.
    pub frames: u64,
    /// IP packets among the frames.
    pub ip_packets: u64,
    /// Packets between the two sides.
    pub between_the_sides: u64,
    /// Packets of which too little was captured to identify them.
    pub too_short: u64,
    /// Frames cut before the end of their headers.
    pub truncated: u64,
    /// Frames with contradictory headers.
    pub malformed: u64,
    /// Frames with an earlier timestamp than the frame before.
    pub disordered: u64,
    /// Packets that the capture missed.
    pub capture_drops: u64,
    /// First timestamp, ns since 1970.
    pub first_ns: Option<WallTime>,
    /// Last timestamp, ns since 1970.
    pub last_ns: Option<WallTime>,
}

/// Answer to a question about a link.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LinkAnswer<'a> {
    /// A given link, compared with the round trips.
    Compare(&'a AccessLink),
    /// The link that fits the sizes best.
    Fit(LinkFit),
}

/// TCP connections of captures: `tcp --json`. Times in ns unless a name says otherwise; null is undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpDocument<'a> {
    /// `tcp`.
    pub instrument: &'static str,
    /// Version of this document: 1.
    pub version: u8,
    /// Segments read at the first point.
    pub segments: u64,
    /// Packets that the capture missed.
    pub capture_drops: u64,
    /// Problems of the captures, as text.
    pub notes: &'a [String],
    /// Verdict, with the worst cause first.
    pub answer: Answer,
    /// Connections, those with most bytes first.
    pub connections: Vec<TcpConnection<'a>>,
}

/// A connection, its passage between two points, and the delays of its data.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpConnection<'a> {
    /// The connection as seen at the first point.
    #[serde(flatten)]
    pub connection: &'a ObservedConnection,
    /// Figures between two capture points; null with one point.
    pub between: Option<&'a BetweenPoints>,
    /// Causes that delayed its data, as text.
    pub explained: Vec<String>,
}

/// A test's own stream as captured at this host: `capture` in the summary of a test.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureDocument<'a> {
    /// Interface of the capture.
    pub interface: &'a str,
    /// File with the saved packets.
    pub file: Option<&'a Path>,
    /// Packets sent by this host.
    pub sent: WireCounts,
    /// Packets received by this host.
    pub received: WireCounts,
    /// Packets that the capture missed.
    pub capture_drops: u64,
    /// TCP segments of the stream.
    pub tcp_segments: u64,
    /// TCP connections of the stream.
    pub connections: Vec<TcpConnection<'a>>,
    /// Causes of delay of each direction.
    pub delays: Vec<ExplainedDelays<'a>>,
    /// Limits of the capture's validity, as text.
    pub notes: &'a [String],
}

/// Causes of delay of one direction of a test.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedDelays<'a> {
    /// Direction.
    pub direction: Direction,
    /// Number of packets and total delay by cause.
    pub explained: &'a DelayCauses,
}

/// Creates the document of passive round trips. `ping` has the round trips of ping in the same time, `link` the question
/// about the link, `ways` the figures of both directions, `notes` further notes.
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

/// Creates the document of the TCP connections in captures.
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

/// Creates the document of a test's own stream as captured at this host, for the summary of the test. `saved` is the file
/// with the packets.
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
