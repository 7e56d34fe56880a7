//! [`RtpDocument`]: RTP streams and calls of a capture, as JSON.

use jitlat_core::answer::Severity;
use jitlat_core::summary::Summary;
use jitlat_passive::recording::RecordedStep;
use jitlat_passive::rtp::{RtpCall, RtpResult, RtpStream};
use serde::Serialize;

/// Document of RTP streams in captures: `rtp --json`. Times are in ns unless a name says otherwise; null means undefined.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpDocument<'a> {
    /// Name of the instrument: `rtp`.
    pub instrument: &'static str,
    /// Version of this document: 1.
    pub version: u8,
    /// IP packets read.
    pub ip_packets: u64,
    /// UDP packets among the IP packets.
    pub udp_packets: u64,
    /// Frames that are not IP packets, or are unsupported.
    pub skipped: u64,
    /// Packets that the capture missed.
    pub capture_drops: u64,
    /// Limitations of the figures, as text.
    pub notes: Vec<String>,
    /// Steps of the recording's clock. Times after a step are corrected by its size.
    pub clock_steps: &'a [RecordedStep],
    /// Calls, in the order of their first packets.
    pub calls: Vec<CallDocument<'a>>,
    /// Streams, in the order of their first packets.
    pub streams: Vec<RtpStreamDocument<'a>>,
}

/// A call with the verdict on its worst stream.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallDocument<'a> {
    /// The call.
    #[serde(flatten)]
    pub call: &'a RtpCall,
    /// Verdict on the worst stream, also between two capture points.
    pub severity: Severity,
}

/// A stream with its summary.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpStreamDocument<'a> {
    /// The stream.
    #[serde(flatten)]
    pub stream: &'a RtpStream,
    /// Figures and verdict of its packets, as for a one-way test. Delays are relative to an unknown constant, because the
    /// capture point does not know when the first packet was sent.
    pub summary: &'a Summary,
    /// Figures of the packets between two capture points, with their one-way delay; null for one point, or if the
    /// second point did not see the stream.
    pub between: Option<&'a Summary>,
}

/// Streams of a capture, and counts of its packets.
#[derive(Clone, Copy, Debug)]
pub struct CallInput<'a> {
    /// Streams and calls.
    pub result: &'a RtpResult,
    /// Figures of each stream.
    pub summaries: &'a [&'a Summary],
    /// Figures of each stream between two points; `None` for a stream that the second point did not see. Empty for one
    /// point.
    pub between: &'a [Option<&'a Summary>],
    /// Number of IP packets read.
    pub packets: u64,
    /// Number of frames that are not IP packets.
    pub skipped: u64,
    /// Number of packets that the capture missed.
    pub drops: u64,
}

/// Creates the document of the RTP streams in captures. `notes` are added to the notes of the result.
pub fn rtp_document<'a>(of: CallInput<'a>, notes: &[String]) -> RtpDocument<'a> {
    let CallInput { result, summaries, between, packets, skipped, drops } = of;
    let severity = |call: &RtpCall| {
        let own = call.media(&result.streams).filter_map(|s| summaries.get(s.stream).copied());
        let between = call.media(&result.streams).filter_map(|s| between.get(s.stream).copied().flatten());
        let answers = own.chain(between).filter_map(|summary| summary.answer.as_ref());
        let silent = call.silent_direction().map(|_| Severity::Unknown);
        let all = answers.map(|a| a.severity).chain(silent);
        all.max_by_key(|s| s.doubt()).unwrap_or(Severity::Unknown)
    };
    RtpDocument {
        instrument: "rtp",
        version: 1,
        ip_packets: packets,
        udp_packets: result.udp_packets,
        skipped,
        capture_drops: drops,
        notes: result.notes().iter().chain(notes).cloned().collect(),
        clock_steps: &result.recording.steps,
        calls: result.calls.iter().map(|call| CallDocument { call, severity: severity(call) }).collect(),
        streams: result
            .streams
            .iter()
            .zip(summaries)
            .enumerate()
            .map(|(k, (stream, summary))| {
                let between = between.get(k).copied().flatten();
                RtpStreamDocument { stream, summary, between }
            })
            .collect(),
    }
}
