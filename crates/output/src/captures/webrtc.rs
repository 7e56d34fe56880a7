//! [`WebRtcReport`]: statistics of a browser's calls.

use crate::error::Result;
use crate::report::{Report, ReportTable};
use jitlat_core::answer::Severity;
use jitlat_passive::webrtc::{MediaDirection, WebRtcRecord};
use serde::Serialize;
use serde_json::Value;

/// Document of WebRTC statistics: `rtp --json` of a dump.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebRtcDocument<'a> {
    /// Name of the instrument: `webrtc`.
    pub instrument: &'static str,
    /// Version of this document: 1.
    pub version: u8,
    /// Verdict on the worst stream.
    pub severity: Severity,
    /// Statistics of the connections.
    #[serde(flatten)]
    pub record: &'a WebRtcRecord,
}

/// Report of WebRTC statistics.
pub struct WebRtcReport<'a>(pub &'a WebRtcRecord);

impl Report for WebRtcReport<'_> {
    fn json(&self) -> Result<Value> {
        let severity = self.0.severity();
        Ok(serde_json::to_value(WebRtcDocument {
            instrument: "webrtc",
            version: 1,
            severity,
            record: self.0,
        })?)
    }

    fn table(&self) -> Option<ReportTable> {
        let mut lines = ReportTable::new();
        for connection in &self.0.connections {
            for s in &connection.streams {
                let text = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
                let direction = if s.direction == MediaDirection::Sent { "sent" } else { "received" };
                let cells = [
                    ("connection", connection.name.clone()),
                    ("stream", s.name.clone()),
                    ("direction", direction.to_owned()),
                    ("kind", s.kind.clone()),
                    ("packets", s.packets.map_or(String::new(), |n| n.to_string())),
                    ("lost", s.lost.map_or(String::new(), |n| n.to_string())),
                    ("jitter_mean_ms", text(s.jitter_ms.map(|j| j.mean))),
                    ("jitter_max_ms", text(s.jitter_ms.map(|j| j.max))),
                    ("round_trip_mean_ms", text(s.round_trip_ms.map(|r| r.mean))),
                    ("buffer_ms", text(s.buffer_ms)),
                    ("concealed", text(s.concealed)),
                    ("freezes", s.freezes.map_or(String::new(), |n| n.to_string())),
                    ("mos", text(s.mos)),
                    ("severity", s.severity.name().to_owned()),
                ];
                lines.push(cells.map(|(name, value)| (name.to_owned(), value)).to_vec());
            }
        }
        Some(lines)
    }
}
