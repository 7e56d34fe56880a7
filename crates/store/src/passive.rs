//! Analyses of captures, as JSON (`docs/formats/passive-json.md`) and as lines.
//!
//! * [`spp_document`], [`tcp_document`], [`rtp_document`] – the whole analysis as one object; [`capture_document`] – the
//!   analysis of a test's own stream
//! * [`write_sizes`] – round trips by packet size, one line each
//! * [`PairLines`] – one line per pair, in the format of the CAIA tool
//! * [`write_tcp_event`] – one line per event of a TCP connection
//! * [`read_pings`] – round trips of ping, for comparison

mod calls;
mod lines;
mod pings;
mod sizes;

pub use calls::{CallDocument, CallInput, RtpDocument, RtpStreamDocument, rtp_document};
pub use lines::{PairColumns, PairLines, write_tcp_event};
pub use pings::{PingsError, read_pings};
pub use sizes::{SizeDocument, write_sizes};

use jitlat_core::answer::Answer;
use jitlat_core::link::{AccessLink, LinkFit};
use jitlat_core::prefix::Prefix;
use jitlat_core::summary::Summary;
use jitlat_core::{Direction, Span, WallTime};
use jitlat_passive::fit_sizes;
use jitlat_passive::pipeline::{CaptureFacts, PointStep};
use jitlat_passive::recording::{RecordedStep, RecordingFacts};
use jitlat_passive::tcp::{self, BetweenPoints, DelayCauses, ObservedConnection, TcpResult, explain_delays};
use jitlat_passive::verdict::describe_identity;
use jitlat_passive::{
    FlowFigures, LinkQuestion, OnePointResult, PassiveResult, PassiveSummary, PingFigures, PingSource,
    SpreadFigures, StreamTraffic, WireCounts,
};
use serde::Serialize;
use std::path::Path;

/// Document of round trips from one capture point: `spp --one-point --json`. Null means undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnePointDocument<'a> {
    /// Name of the instrument: `one-point`.
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

/// Document of passive round trips: `spp --json`. Times are in ns unless a name says otherwise; null means undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SppDocument<'a> {
    /// Name of the instrument: `spp`.
    pub instrument: &'static str,
    /// Version of this document: 1.
    pub version: u8,
    /// Addresses of the hosts on the side of the reference point.
    pub reference_addresses: Vec<String>,
    /// Addresses of the hosts on the side of the monitor point.
    pub monitor_addresses: Vec<String>,
    /// Fields by which packets are identified, as text.
    pub identity: String,
    /// Packets read at each capture point.
    pub captures: Captures<'a>,
    /// Steps of the clocks of both points during the recording; later delays are corrected.
    pub clock_steps: Vec<PointStep>,
    /// Round trips, results of both directions, and clocks of both points.
    pub summary: &'a PassiveSummary,
    /// Round trips by packet size.
    pub sizes: Vec<SizeDocument<'a>>,
    /// Comparison with a given link, or the link that fits the sizes best; null if not requested.
    pub link: Option<LinkAnswer<'a>>,
    /// Round trips of the ICMP echo requests in the reference capture.
    pub ping_rtt_ns: Option<SpreadFigures>,
    /// Round trips in the file given by `--ping`. The file may contain the same echo requests.
    pub ping_file_rtt_ns: Option<SpreadFigures>,
    /// Figures by flow; null unless requested.
    pub flows: Option<&'a [FlowFigures]>,
    /// Summaries of both directions.
    pub directions: &'a [&'a Summary],
    /// Limitations of the figures, as text.
    pub notes: Vec<String>,
}

/// Packets read at each capture point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Captures<'a> {
    /// Counts at the reference point, where the round trip starts.
    pub reference: CaptureCounts<'a>,
    /// Counts at the monitor point, the far end.
    pub monitor: CaptureCounts<'a>,
}

/// Packets read at one capture point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureCounts<'a> {
    /// Frames read.
    pub frames: u64,
    /// IP packets among the frames.
    pub ip_packets: u64,
    /// Packets between the addresses of the two sides.
    pub between_the_sides: u64,
    /// Packets that were captured too short to be identified.
    pub too_short: u64,
    /// Frames truncated before the end of their headers.
    pub truncated: u64,
    /// Frames with contradictory headers.
    pub malformed: u64,
    /// Frames whose timestamp is earlier than that of the previous frame.
    pub disordered: u64,
    /// Packets that the capture missed.
    pub capture_drops: u64,
    /// Effects of the recording itself on the packets.
    pub recording: RecordingDocument<'a>,
    /// First timestamp, ns since 1970.
    pub first_ns: Option<WallTime>,
    /// Last timestamp, ns since 1970.
    pub last_ns: Option<WallTime>,
}

/// Effects of a recording itself on the packets.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingDocument<'a> {
    /// First 64 steps of the recording's clock. Times after a step are corrected by the size of the step.
    pub clock_steps: &'a [RecordedStep],
    /// Smallest difference between two times that the recording can show, in ns; null if it is below 0.1 ms or unknown.
    pub resolution_ns: Option<Span>,
    /// Frames recorded after a frame with a later time.
    pub disordered: u64,
    /// Packets recorded again. No other count includes these copies.
    pub copies: u64,
    /// Fragments read.
    pub fragments: u64,
    /// Packets put together from fragments.
    pub reassembled: u64,
    /// Packets of which a fragment is missing, or whose fragments overlap.
    pub incomplete: u64,
    /// Packets found inside tunnels.
    pub tunnelled: u64,
    /// TCP connections recorded on both sides of an address translation. They are analysed on the side that was recorded
    /// first.
    pub translated_connections: u64,
    /// Segments of the other side of these connections. No other count includes them.
    pub translated_segments: u64,
    /// Frames and packets that were not analysed, by type, most frequent first.
    pub not_analysed: Vec<NotAnalysed<'a>>,
}

/// Frames or packets of a type that is not analysed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotAnalysed<'a> {
    /// Name of the type.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Number of frames or packets.
    pub count: u64,
}

impl RecordingDocument<'_> {
    /// Creates the document of `facts`. `copies` is the number of copies that were left out.
    fn of(facts: &RecordingFacts, copies: u64) -> RecordingDocument<'_> {
        let [fragments, reassembled, incomplete] = facts.fragments;
        let list = facts.foreign.list();
        RecordingDocument {
            clock_steps: &facts.steps,
            resolution_ns: facts.resolution,
            disordered: facts.disordered,
            copies,
            fragments,
            reassembled,
            incomplete,
            tunnelled: facts.tunnelled,
            translated_connections: facts.translated[0],
            translated_segments: facts.translated[1],
            not_analysed: list.into_iter().map(|(kind, count)| NotAnalysed { kind, count }).collect(),
        }
    }
}

/// Answer to a question about a link.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LinkAnswer<'a> {
    /// A given link, to be compared with the round trips.
    Compare(&'a AccessLink),
    /// The link that fits the sizes best.
    Fit(LinkFit),
}

/// Document of TCP connections in captures: `tcp --json`. Times are in ns unless a name says otherwise; null means
/// undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpDocument<'a> {
    /// Name of the instrument: `tcp`.
    pub instrument: &'static str,
    /// Version of this document: 1.
    pub version: u8,
    /// Segments read at the first point.
    pub segments: u64,
    /// Packets that the capture missed.
    pub capture_drops: u64,
    /// Effects of the recording at the first point on the packets.
    pub recording: RecordingDocument<'a>,
    /// Problems of the captures, as text.
    pub notes: &'a [String],
    /// Verdict, with the worst cause first.
    pub answer: Answer,
    /// Connections, sorted by bytes, largest first.
    pub connections: Vec<TcpConnection<'a>>,
}

/// A connection, its delays between two points, and the causes that delayed its data.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpConnection<'a> {
    /// The connection as seen at the first point.
    #[serde(flatten)]
    pub connection: &'a ObservedConnection,
    /// Figures between two capture points; null for a capture at one point.
    pub between: Option<&'a BetweenPoints>,
    /// Causes that delayed the connection's data, as text.
    pub explained: Vec<String>,
}

/// Document of a test's own stream as captured at this host: `capture` in the summary of a test.
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
    /// Limitations of the capture, as text.
    pub notes: &'a [String],
}

/// Causes of delay of one direction of a test.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedDelays<'a> {
    /// Direction of the packets.
    pub direction: Direction,
    /// Number of packets and total delay by cause.
    pub explained: &'a DelayCauses,
}

/// Creates the document of passive round trips. `ping` contains the round trips of ping during the captures, `link` the
/// analysis of the link that was requested, `ways` the summaries of both directions, and `notes` further notes.
pub fn spp_document<'a>(
    r: &'a PassiveResult,
    ping: PingFigures,
    link: Option<&'a LinkQuestion>,
    ways: &'a [&'a Summary],
    notes: &[String],
) -> SppDocument<'a> {
    let side = |p: &[Prefix]| p.iter().map(ToString::to_string).collect();
    let capture = |f: &'a CaptureFacts| CaptureCounts {
        frames: f.frames,
        ip_packets: f.packets,
        between_the_sides: f.ours,
        too_short: f.too_short,
        truncated: f.truncated,
        malformed: f.malformed,
        disordered: f.disordered,
        capture_drops: f.drops,
        recording: RecordingDocument::of(&f.recording, f.recording.copies),
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
        clock_steps: r.clock_steps(),
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
        recording: RecordingDocument::of(&r.first.recording, r.first.copies()),
        notes: &r.notes,
        answer: tcp::answer(r),
        connections: tcp_connections(r),
    }
}

/// Creates the document of a test's own stream as captured at this host, for the summary of the test. `saved` is the
/// file in which the packets were saved, if any.
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
