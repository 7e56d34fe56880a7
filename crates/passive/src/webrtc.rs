//! [`WebRtcRecord`]: figures of a WebRTC call from the statistics that a browser recorded (`getStats`), about once per
//! second. They are the browser's own, not measured from packets.

use jitlat_core::answer::Severity;
use jitlat_core::metrics::dejitter::VoiceCodec;
use jitlat_core::metrics::emodel::{DelayModel, equipment, mos};
use jitlat_verdict::severity::{of_missing, of_rating};
use serde::Serialize;

/// Statistics of the connections of a browser.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebRtcRecord {
    /// Peer connections with media.
    pub connections: Vec<WebRtcConnection>,
}

/// A peer connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebRtcConnection {
    /// Name of the connection in the browser.
    pub name: String,
    /// Address of the page that opened the connection; null if unknown.
    pub url: Option<String>,
    /// Round trip of the connection's path, from connectivity checks, in ms; null if unknown.
    pub round_trip_ms: Option<SeriesFigures>,
    /// Streams, received ones first.
    pub streams: Vec<WebRtcStream>,
}

/// Direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MediaDirection {
    /// The browser received the stream; all figures are its own.
    Received,
    /// The browser sent the stream; losses, jitter and round trip are from the far end's reports (RTCP).
    Sent,
}

/// A stream of a connection. Unknown figures are null.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebRtcStream {
    /// Name of the statistics in the browser.
    pub name: String,
    /// Direction of the stream.
    pub direction: MediaDirection,
    /// Kind of media: `audio` or `video`; `media` if unknown.
    pub kind: String,
    /// Synchronisation source.
    pub ssrc: Option<u32>,
    /// Packets received, or sent.
    pub packets: Option<u64>,
    /// Packets lost; negative if duplicates were counted.
    pub lost: Option<i64>,
    /// Packets that arrived too late or too early for the buffer.
    pub discarded: Option<u64>,
    /// Interarrival jitter, in ms.
    pub jitter_ms: Option<SeriesFigures>,
    /// Round trip from RTCP, in ms.
    pub round_trip_ms: Option<SeriesFigures>,
    /// Mean time that samples or frames waited in the buffer, in ms.
    pub buffer_ms: Option<f64>,
    /// Share of the audio samples that the browser made up because their packets were missing.
    pub concealed: Option<f64>,
    /// Number of times that the picture froze.
    pub freezes: Option<u64>,
    /// Mean opinion score of speech, from the losses, the buffer and half of the round trip, as for G.711 with
    /// concealment.
    pub mos: Option<f64>,
    /// Verdict on the losses, the delay and the freezes.
    pub severity: Severity,
}

/// Figures of a series of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesFigures {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Largest value.
    pub max: f64,
}

impl SeriesFigures {
    /// Returns the figures of values, each multiplied by `factor`; `None` without values.
    pub fn of(values: &[f64], factor: f64) -> Option<SeriesFigures> {
        let known = || values.iter().copied().filter(|v| v.is_finite()).map(|v| v * factor);
        let count = known().count();
        let max = known().reduce(f64::max)?;
        Some(SeriesFigures { count, mean: known().sum::<f64>() / count as f64, max })
    }
}

impl Default for WebRtcStream {
    /// Creates a received stream of which nothing is known.
    fn default() -> WebRtcStream {
        WebRtcStream {
            name: String::new(),
            direction: MediaDirection::Received,
            kind: String::new(),
            ssrc: None,
            packets: None,
            lost: None,
            discarded: None,
            jitter_ms: None,
            round_trip_ms: None,
            buffer_ms: None,
            concealed: None,
            freezes: None,
            mos: None,
            severity: Severity::Unknown,
        }
    }
}

impl WebRtcStream {
    /// Returns the share of packets that did not arrive or arrived too late, the number of these packets, and the
    /// number of packets sent; `None` if unknown.
    pub fn missing(&self) -> Option<(f64, u64, u64)> {
        let lost = u64::try_from(self.lost?.max(0)).unwrap_or(0);
        let packets = self.packets?;
        let sent = match self.direction {
            MediaDirection::Received => packets.checked_add(lost)?,
            MediaDirection::Sent => packets,
        };
        let missing = lost.checked_add(self.discarded.unwrap_or(0))?.min(sent);
        (sent > 0).then(|| (missing as f64 / sent as f64, missing, sent))
    }

    /// Adds the verdict and the mean opinion score, which follow from the other figures. `round_trip_ms` is the round
    /// trip of the connection, for a stream without its own.
    #[must_use]
    pub fn judged(self, round_trip_ms: Option<f64>) -> WebRtcStream {
        let severity = self.impairments(round_trip_ms).map(|(severity, _)| severity);
        let severity = severity.into_iter().max_by_key(|s| s.doubt()).unwrap_or(Severity::Unknown);
        let (codec, model) = (VoiceCodec::default(), DelayModel::default());
        let speech = self.missing().filter(|_| self.kind == "audio");
        let mos = speech.map(|(share, ..)| {
            let delay = model.impairment(self.delay_ms(round_trip_ms) + codec.delay_ms);
            mos(model.base() - delay - equipment(codec.ie, codec.bpl, share, 1.0))
        });
        WebRtcStream { mos, severity, ..self }
    }

    /// Returns the known delay, in ms: half of the round trip, and the buffer.
    fn delay_ms(&self, round_trip_ms: Option<f64>) -> f64 {
        let round_trip = self.round_trip_ms.map(|r| r.mean).or(round_trip_ms).unwrap_or(0.0);
        round_trip / 2.0 + self.buffer_ms.unwrap_or(0.0)
    }

    /// Returns the severity and the name of each impairment. `round_trip_ms` is as in [`judged`](Self::judged).
    pub fn impairments(&self, round_trip_ms: Option<f64>) -> [(Severity, &'static str); 3] {
        let missing = self.missing();
        let losses = missing.map_or(Severity::Unknown, |(share, n, sent)| of_missing(share, n, sent));
        // The delay hampers a conversation, whatever its media: the rating is that of speech without losses.
        let model = DelayModel::default();
        let rating = model.base() - model.impairment(self.delay_ms(round_trip_ms));
        let freezes = if self.freezes.is_some_and(|n| n > 0) { Severity::Fair } else { Severity::Good };
        [(losses, "missing packets"), (of_rating(rating), "a long delay"), (freezes, "freezes")]
    }
}

impl WebRtcRecord {
    /// Returns the worst verdict; unknown without streams.
    pub fn severity(&self) -> Severity {
        let all = self.connections.iter().flat_map(|c| &c.streams).map(|s| s.severity);
        all.max_by_key(|s| s.doubt()).unwrap_or(Severity::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(packets: u64, lost: i64) -> WebRtcStream {
        let kind = "audio".to_owned();
        WebRtcStream { kind, packets: Some(packets), lost: Some(lost), ..WebRtcStream::default() }
    }

    #[test]
    fn losses_and_delay_make_the_score() {
        let clean = stream(1000, 0).judged(None);
        assert_eq!((clean.severity, clean.mos.map(|m| (m * 100.0) as i32)), (Severity::Good, Some(440)));
        let lossy = stream(950, 50).judged(None);
        assert_eq!(lossy.missing(), Some((0.05, 50, 1000)));
        assert!(lossy.severity >= Severity::Poor && lossy.mos < clean.mos);
        assert!(stream(1000, 0).judged(Some(800.0)).mos < lossy.mos, "a delay of 400 ms");
        // A sender counts what it sent, a receiver what arrived.
        let sent = WebRtcStream { direction: MediaDirection::Sent, ..stream(1000, 50) };
        assert_eq!(sent.missing(), Some((0.05, 50, 1000)));
        let nothing = WebRtcStream::default().judged(None);
        assert_eq!((nothing.severity, nothing.mos), (Severity::Unknown, None));
        assert_eq!(stream(0, -3).missing(), None);
        assert_eq!(stream(u64::MAX, i64::MAX).missing(), None);
    }

    #[test]
    fn delay_and_freezes_are_part_of_the_verdict() {
        assert_eq!(stream(1000, 0).judged(Some(40.0)).severity, Severity::Good);
        assert_eq!(stream(1000, 0).judged(Some(1150.0)).severity, Severity::Bad);
        let buffered = WebRtcStream { buffer_ms: Some(10_000.0), ..stream(1000, 0) };
        assert_eq!(buffered.judged(None).severity, Severity::Bad);
        let frozen = WebRtcStream { freezes: Some(9), ..stream(1000, 0) };
        assert_eq!(frozen.judged(None).severity, Severity::Fair);
        // A bad delay is known even if the losses are not; a small one does not make a verdict.
        let uncounted = WebRtcStream { lost: None, ..stream(1000, 0) };
        assert_eq!(uncounted.clone().judged(Some(1150.0)).severity, Severity::Bad);
        assert_eq!(uncounted.judged(Some(40.0)).severity, Severity::Unknown);
    }

    #[test]
    fn a_series_has_a_mean_and_a_maximum() {
        let figures = SeriesFigures::of(&[0.01, f64::NAN, 0.03], 1000.0).unwrap();
        assert_eq!((figures.count, figures.mean, figures.max), (2, 20.0, 30.0));
        assert_eq!(SeriesFigures::of(&[], 1.0), None);
    }
}
