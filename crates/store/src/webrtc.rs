//! Reads the dump of a browser's WebRTC statistics (`chrome://webrtc-internals`, "Create dump") as a [`WebRtcRecord`].
//!
//! The dump is JSON. Each of its `PeerConnections` has `stats`, with an entry for every figure of every object. The
//! name of an entry consists of the names of the object and of the figure; its `values` are a list, written as a
//! string.

use jitlat_passive::webrtc::{MediaDirection, SeriesFigures, WebRtcConnection, WebRtcRecord, WebRtcStream};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum number of connections, and of objects of a connection, that are read.
const MAX_OBJECTS: usize = 1024;
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 128;

/// Reason why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WebRtcError {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The JSON has another structure.
    #[error("JSON without PeerConnections: not a dump of chrome://webrtc-internals")]
    NotADump,
    /// The dump has no media.
    #[error("the dump has no RTP stream: record statistics while the call is under way")]
    NoMedia,
}

/// Values of the figures of one object, by the name of the figure.
type Figures<'a> = BTreeMap<&'a str, Vec<Value>>;

/// Reads a dump.
///
/// # Errors
/// [`WebRtcError`] if the text is not a dump, or has no media.
pub fn read(text: &str) -> Result<WebRtcRecord, WebRtcError> {
    // Some editors begin a file with a byte order mark.
    let dump: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
    let all = dump.get("PeerConnections").and_then(Value::as_object).ok_or(WebRtcError::NotADump)?;
    let connections: Vec<WebRtcConnection> = all.iter().take(MAX_OBJECTS).filter_map(connection).collect();
    if connections.is_empty() {
        return Err(WebRtcError::NoMedia);
    }
    Ok(WebRtcRecord { connections })
}

/// Returns the text without control characters, cut if it is long.
fn printable(text: &str) -> String {
    text.chars().take(MAX_NAME).map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn connection((name, of): (&String, &Value)) -> Option<WebRtcConnection> {
    let objects = objects(of.get("stats")?.as_object()?);
    let round_trip_ms = objects
        .values()
        .filter(|(kind, _)| *kind == "candidate-pair")
        .filter_map(|(_, figures)| SeriesFigures::of(&numbers(figures, "currentRoundTripTime"), 1000.0))
        .max_by_key(|figures| figures.count);
    let round_trip = round_trip_ms.map(|r| r.mean);
    let of_kind = |wanted: &'static str| objects.iter().filter(move |(_, (kind, _))| *kind == wanted);
    let received = of_kind("inbound-rtp").map(|(id, (_, f))| received(id, f));
    let sent = of_kind("outbound-rtp").map(|(id, (_, f))| {
        let ssrc = last(f, "ssrc");
        // The far end's reports name the same source.
        let mut reports = of_kind("remote-inbound-rtp");
        let report = reports.find(|(_, (_, report))| ssrc.is_some() && last(report, "ssrc") == ssrc);
        sent(id, f, report.map(|(_, (_, report))| report))
    });
    let streams: Vec<WebRtcStream> =
        received.chain(sent).filter(|s| s.packets.is_some()).map(|s| s.judged(round_trip)).collect();
    let url = of.get("url").and_then(Value::as_str).map(printable);
    (!streams.is_empty()).then(|| WebRtcConnection { name: printable(name), url, round_trip_ms, streams })
}

/// Groups the figures by object. Returns the kind and the figures of each object.
fn objects(stats: &Map<String, Value>) -> BTreeMap<&str, (&str, Figures<'_>)> {
    let mut objects: BTreeMap<&str, (&str, Figures<'_>)> = BTreeMap::new();
    for (key, of) in stats {
        let Some((id, figure)) = key.rsplit_once('-') else { continue };
        let kind = of.get("statsType").and_then(Value::as_str).unwrap_or_default();
        let values = match of.get("values") {
            Some(Value::String(list)) => serde_json::from_str(list).unwrap_or_default(),
            Some(Value::Array(list)) => list.clone(),
            _ => continue,
        };
        if objects.len() < MAX_OBJECTS || objects.contains_key(id) {
            objects.entry(id).or_insert((kind, Figures::new())).1.insert(figure, values);
        }
    }
    objects
}

fn numbers(figures: &Figures<'_>, name: &str) -> Vec<f64> {
    figures.get(name).into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Returns the last value of a figure; `None` if there is none.
fn last(figures: &Figures<'_>, name: &str) -> Option<f64> {
    figures.get(name)?.iter().rev().find_map(Value::as_f64)
}

fn count(figures: &Figures<'_>, name: &str) -> Option<u64> {
    last(figures, name).filter(|v| *v >= 0.0).map(|v| v as u64)
}

/// Returns the ratio of the last values of two sums; `None` if one of them is unknown, or if the second is not above 0.
fn ratio(figures: &Figures<'_>, sum: &str, of: &str) -> Option<f64> {
    let (sum, of) = (last(figures, sum)?, last(figures, of)?);
    (of > 0.0).then(|| sum / of)
}

fn common(id: &str, figures: &Figures<'_>) -> WebRtcStream {
    let kind = ["kind", "mediaType"].iter().find_map(|name| figures.get(name)?.last()?.as_str());
    let ssrc = last(figures, "ssrc").map(|v| v as u32);
    WebRtcStream {
        name: printable(id),
        kind: printable(kind.unwrap_or("media")),
        ssrc,
        ..WebRtcStream::default()
    }
}

fn received(id: &str, figures: &Figures<'_>) -> WebRtcStream {
    WebRtcStream {
        packets: count(figures, "packetsReceived"),
        lost: last(figures, "packetsLost").map(|v| v as i64),
        discarded: count(figures, "packetsDiscarded"),
        jitter_ms: SeriesFigures::of(&numbers(figures, "jitter"), 1000.0),
        buffer_ms: ratio(figures, "jitterBufferDelay", "jitterBufferEmittedCount").map(|s| s * 1000.0),
        concealed: ratio(figures, "concealedSamples", "totalSamplesReceived"),
        freezes: count(figures, "freezeCount"),
        ..common(id, figures)
    }
}

fn sent(id: &str, figures: &Figures<'_>, report: Option<&Figures<'_>>) -> WebRtcStream {
    WebRtcStream {
        direction: MediaDirection::Sent,
        packets: count(figures, "packetsSent"),
        lost: report.and_then(|r| last(r, "packetsLost")).map(|v| v as i64),
        jitter_ms: report.and_then(|r| SeriesFigures::of(&numbers(r, "jitter"), 1000.0)),
        round_trip_ms: report.and_then(|r| SeriesFigures::of(&numbers(r, "roundTripTime"), 1000.0)),
        ..common(id, figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dump_has_received_and_sent_streams() {
        let entry = |kind: &str, values: &str| json!({ "statsType": kind, "values": values });
        let dump = json!({ "PeerConnections": { "12-1": { "url": "https://meet.example/\u{1b}[2J", "stats": {
            "IT01A1-packetsReceived": entry("inbound-rtp", "[50,950]"),
            "IT01A1-packetsLost": entry("inbound-rtp", "[0,50]"),
            "IT01A1-kind": entry("inbound-rtp", "[\"audio\",\"audio\"]"),
            "IT01A1-jitter": entry("inbound-rtp", "[0.004,0.012]"),
            "IT01A1-jitterBufferDelay": entry("inbound-rtp", "[1,60]"),
            "IT01A1-jitterBufferEmittedCount": entry("inbound-rtp", "[10,1000]"),
            "IT01A1-[packetsReceived/s]": entry("inbound-rtp", "[50,50]"),
            "OT01A2-packetsSent": entry("outbound-rtp", "[1000]"),
            "OT01A2-ssrc": entry("outbound-rtp", "[77]"),
            "RI77-ssrc": entry("remote-inbound-rtp", "[77]"),
            "RI77-packetsLost": entry("remote-inbound-rtp", "[3]"),
            "RI77-roundTripTime": entry("remote-inbound-rtp", "[0.05,0.07]"),
            "CP1-currentRoundTripTime": entry("candidate-pair", "[0.04]"),
        } } } });
        let record = read(&dump.to_string()).unwrap();
        let [connection] = &record.connections[..] else { panic!("{record:?}") };
        assert_eq!(connection.url.as_deref(), Some("https://meet.example/?[2J"));
        assert_eq!(connection.round_trip_ms.map(|r| r.mean), Some(40.0));
        let [got, sent] = &connection.streams[..] else { panic!("{connection:?}") };
        assert_eq!(
            (got.packets, got.lost, &*got.kind, got.buffer_ms),
            (Some(950), Some(50), "audio", Some(60.0))
        );
        assert_eq!(got.jitter_ms.map(|j| (j.mean, j.max)), Some((8.0, 12.0)));
        assert!(got.mos.is_some_and(|mos| mos < 4.2));
        assert_eq!((sent.direction, sent.ssrc, sent.lost), (MediaDirection::Sent, Some(77), Some(3)));
        assert_eq!(sent.round_trip_ms.map(|r| r.max.round()), Some(70.0));
    }

    #[test]
    fn other_texts_are_refused() {
        assert!(matches!(read("no"), Err(WebRtcError::Json(_))));
        assert!(matches!(read("{}"), Err(WebRtcError::NotADump)));
        let empty = json!({ "PeerConnections": { "1": { "stats": { "x": 1, "a-b": { "values": "[" } } } } });
        assert!(matches!(read(&empty.to_string()), Err(WebRtcError::NoMedia)));
        let wrong = json!({ "PeerConnections": { "1": { "stats": {
            "a-packetsReceived": { "statsType": "inbound-rtp", "values": "[-1e300,null,\"x\"]" } } } } });
        assert!(matches!(read(&wrong.to_string()), Err(WebRtcError::NoMedia)));
    }
}
