//! [`RtpStream`]: figures of one RTP stream. [`RtpCall`]: the streams of a call. [`RtpResult`]: all streams and calls
//! of a capture.

use super::between::PointPacket;
use super::jitter::RtpJitter;
use super::media_clock::ClockRateSource;
use super::payload_types::is_repair;
use super::rtcp::{ReportedLosses, StatisticsSummary, VoipMetrics};
use super::signalling::SignalledCall;
use crate::SpreadFigures;
use crate::numbers::count;
use crate::recording::{RecordedStep, RecordingFacts, describe_step};
use core::net::SocketAddr;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use jitlat_core::units;
use serde::Serialize;

/// One RTP stream: the packets of a synchronisation source between two ports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpStream {
    /// Number of the stream, from 0, in the order in which the streams were recognised.
    pub number: u64,
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Synchronisation source.
    pub ssrc: u32,
    /// True if the packets are in a TCP connection (RFC 4571, RTSP), in which a lost segment delays later packets.
    pub over_tcp: bool,
    /// Payload types in the order of their first packets.
    pub payload_types: Vec<PayloadTypeFigures>,
    /// Clock rate of the timestamps, in Hz; null if unknown. Send times, jitter and delay variation are then unknown as
    /// well.
    pub clock_rate: Option<u32>,
    /// Source of `clock_rate`; null if the rate is unknown.
    pub clock_rate_source: Option<ClockRateSource>,
    /// Time of the first packet.
    pub first: WallTime,
    /// Time of the last packet.
    pub last: WallTime,
    /// Packets seen, duplicates included.
    pub packets: u64,
    /// Total payload of the packets seen, in bytes.
    pub payload_bytes: u64,
    /// Total length of the packets seen, with their IP headers, in bytes.
    pub ip_bytes: u64,
    /// DSCP of the first packet.
    pub dscp: u8,
    /// Packets expected: one for each sequence number from the first one seen to the highest.
    pub expected: u64,
    /// Expected packets that were not seen.
    pub lost: u64,
    /// Expected packets in parts of a TCP connection that the recording does not contain; they do not count as lost.
    pub not_recorded: u64,
    /// Repetitions of packets that had been seen before.
    pub duplicates: u64,
    /// Packets seen after a packet with a higher sequence number.
    pub reordered: u64,
    /// Number of times that the sender began to number its packets from another value, which is not loss.
    pub restarts: u64,
    /// Packets with a sequence number that is far from all others or before the first one; no other count includes
    /// them.
    pub strays: u64,
    /// Usual time between consecutive packets according to their timestamps, in ns; null if unknown, or if consecutive
    /// packets have the same timestamp.
    pub packet_time_ns: Option<Span>,
    /// Largest time between two consecutive arrivals of which the second is regular (see `jitter`), in ns; null without
    /// regular packets.
    pub max_delta_ns: Option<Span>,
    /// Interarrival jitter (RFC 3550), in ns; null if the clock rate is unknown, or without regular packets.
    pub jitter: Option<RtpJitter>,
    /// Number of times that the sender set its media clock to another time.
    pub clock_sets: u64,
    /// Number of silences: pauses in which nothing was sent while the timestamps advanced.
    pub silences: u64,
    /// Total duration of the silences, in ns.
    pub silence_ns: Span,
    /// Number of telephone events (DTMF digits and tones).
    pub events: u64,
    /// True if the sender ended the stream (RTCP BYE).
    pub has_ended: bool,
    /// Figures from RTCP packets about the stream.
    pub rtcp: RtcpFigures,
}

impl RtpStream {
    /// Returns the payload type that most packets have, telephone events excluded; `None` if there are only events.
    pub fn main_type(&self) -> Option<&PayloadTypeFigures> {
        self.payload_types.iter().filter(|t| !t.is_event).max_by_key(|t| t.packets)
    }

    /// True if the stream repairs another one: retransmissions (RFC 4588) or error correction. Its packets are sent only
    /// if they are needed.
    pub fn is_repair(&self) -> bool {
        self.main_type().and_then(|t| t.codec.as_deref()).is_some_and(is_repair)
    }

    /// Returns the name of the codec that most packets have, or `type` with the number of the payload type if the codec
    /// is unknown.
    pub fn codec(&self) -> String {
        let main = self.main_type().or(self.payload_types.first());
        main.map_or_else(String::new, |t| {
            t.codec.clone().unwrap_or_else(|| format!("type {}", t.payload_type))
        })
    }
}

/// Packets of one payload type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PayloadTypeFigures {
    /// Payload type.
    pub payload_type: u8,
    /// Packets of this type.
    pub packets: u64,
    /// Name of the codec; null if the type is dynamic and not signalled.
    pub codec: Option<String>,
    /// True for telephone events: recognised by the name of the codec, or by the payload length if the type is dynamic
    /// and not signalled.
    pub is_event: bool,
}

impl PayloadTypeFigures {
    /// True for comfort noise, which a sender that suppresses silence sends.
    pub fn is_noise(&self) -> bool {
        self.codec.as_deref().is_some_and(|codec| codec.eq_ignore_ascii_case("CN"))
    }
}

/// Figures from RTCP packets about one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtcpFigures {
    /// Sender reports from the stream's sender.
    pub sender_reports: u64,
    /// Reports from the receiver about the stream.
    pub receiver_reports: u64,
    /// Round trip between the capture point and the receiver, from the receiver's answers to sender reports (LSR, DLSR)
    /// or to receiver times (RFC 3611), in ns; null without answers.
    pub round_trip_ns: Option<SpreadFigures>,
    /// Figures in the receiver's reports; null without reports.
    pub reported: Option<ReportedByReceiver>,
    /// Last VoIP metrics of the receiver, as reported; null if it sends none.
    pub voip: Option<VoipMetrics>,
    /// Losses in the lists that the receiver sends (RFC 3611), as reported; null if it sends none.
    pub losses: Option<ReportedLosses>,
    /// Last statistics summary of the receiver (RFC 3611), as reported; null if it sends none.
    pub statistics: Option<StatisticsSummary>,
    /// Hash of the canonical name of the sender: all streams of a participant have the same one; `None` if unknown.
    #[serde(skip)]
    pub participant: Option<u64>,
}

/// Figures in a receiver's reports, as reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedByReceiver {
    /// Total number of packets lost, in the last report; negative if the receiver counts duplicates.
    pub lost: i32,
    /// Largest share of packets lost between two reports.
    pub max_fraction_lost: f64,
    /// Interarrival jitter in the last report, in ns; null if the clock rate is unknown.
    pub jitter_ns: Option<i64>,
    /// Largest interarrival jitter in a report, in ns; null if the clock rate is unknown.
    pub max_jitter_ns: Option<i64>,
}

/// The streams of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpCall {
    /// Signalling of the call; null if the capture contains none. The streams between the same two ports are then one
    /// call.
    pub signalling: Option<SignalledCall>,
    /// Streams, in the order of their first packets.
    pub streams: Vec<CallStream>,
    /// Number of times that a sender changed from one synchronisation source to another. Sources of streams that are
    /// sent at the same time do not count.
    pub ssrc_changes: u64,
    /// Smallest round trip between the ends, from RTCP, in ns: the sum of the smallest round trips on the two sides of
    /// the capture point; null if one of the two is unknown.
    pub round_trip_ns: Option<Span>,
}

impl RtpCall {
    /// Returns the names of the two ends, the caller first, as signalled; without signalling their addresses and ports,
    /// the sender of the call's first stream first.
    pub fn ends(&self, streams: &[RtpStream]) -> [String; 2] {
        if let Some(SignalledCall { caller, called, .. }) = &self.signalling {
            return [caller.clone(), called.clone()];
        }
        let first = self.streams.first().and_then(|s| Some((streams.get(s.stream)?, s.direction)));
        let ends = first.map(|(stream, direction)| match direction {
            Direction::Up => [stream.from, stream.to],
            Direction::Down => [stream.to, stream.from],
        });
        ends.map_or_else(Default::default, |ends| ends.map(|end| end.to_string()))
    }

    /// Returns the streams that do not repair others.
    pub fn media<'a>(&'a self, streams: &'a [RtpStream]) -> impl Iterator<Item = &'a CallStream> + Clone {
        self.streams.iter().filter(|s| !streams.get(s.stream).is_some_and(RtpStream::is_repair))
    }

    /// Returns the name of the stream at `position` in the call: its direction, with a number from the second stream of
    /// a direction on; empty if there is no such stream.
    pub fn label(&self, position: usize) -> String {
        let Some(own) = self.streams.get(position) else { return String::new() };
        let name = match own.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        match self.streams[..position].iter().filter(|s| s.direction == own.direction).count() {
            0 => name.to_owned(),
            before => format!("{name} {}", before + 1),
        }
    }

    /// Times of the first and the last packet; `None` without streams.
    pub fn span(&self, streams: &[RtpStream]) -> Option<(WallTime, WallTime)> {
        let of = || self.streams.iter().filter_map(|s| streams.get(s.stream));
        Some((of().map(|s| s.first).min()?, of().map(|s| s.last).max()?))
    }
}

/// A stream of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallStream {
    /// Index of the stream among all streams of the result.
    pub stream: usize,
    /// Direction: `up` from the caller, or from the end that was seen first if the call is not signalled.
    pub direction: Direction,
}

/// RTP streams and calls at one capture point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RtpResult {
    /// Streams, in the order of their first packets.
    pub streams: Vec<RtpStream>,
    /// Calls, in the order of their first packets.
    pub calls: Vec<RtpCall>,
    /// Packets of each stream in arrival order, if the analyser keeps them; otherwise empty.
    pub seen: Vec<Vec<PointPacket>>,
    /// Number of UDP packets seen.
    pub udp_packets: u64,
    /// Number of packets recorded again. These copies are left out.
    pub copies: u64,
    /// Number of RTCP datagrams that could not be read, because they are encrypted or cut.
    pub unread_rtcp: u64,
    /// Number of streams that were ended early to limit memory. Later packets of such a stream count as a new stream.
    pub set_aside: u64,
    /// Number of packets of streams that were not followed, because there were too many at the same time.
    pub not_followed: u64,
    /// Number of streams that are not part of the result, because there are too many.
    pub not_kept: u64,
    /// Number of signalled calls that were forgotten to limit memory.
    pub calls_forgotten: u64,
    /// Effects of the recording on its packets.
    pub recording: RecordingFacts,
}

impl RtpResult {
    /// Describes limitations of the figures.
    pub fn notes(&self) -> Vec<String> {
        let proven = self.recording.steps.iter().filter(|step| step.proven);
        let step = |step: &RecordedStep| {
            format!("{} at {}: times after it are corrected", describe_step(step), units::utc_date(step.at))
        };
        let mut notes: Vec<String> = proven.map(step).collect();
        notes.extend(self.recording.notes(self.copies));
        if self.unread_rtcp > 0 {
            notes
                .push(format!("{} encrypted or cut short: not read", count(self.unread_rtcp, "RTCP packet")));
        }
        if self.set_aside > 0 {
            notes.push(format!(
                "{} ended early, because more streams were sent at the same time than can be followed",
                count(self.set_aside, "stream")
            ));
        }
        if self.not_followed > 0 {
            notes.push(format!(
                "{} of further streams not analysed, because more streams were sent at the same time than can be followed",
                count(self.not_followed, "packet")
            ));
        }
        if self.not_kept > 0 {
            notes.push(format!(
                "{} left out, because more streams were found than a result can contain",
                count(self.not_kept, "stream")
            ));
        }
        if self.calls_forgotten > 0 {
            notes.push(format!(
                "signalling of {} forgotten, because there are too many",
                count(self.calls_forgotten, "call")
            ));
        }
        notes
    }
}
