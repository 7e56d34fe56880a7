//! [`RtpStream`]: figures of one RTP stream. [`RtpCall`]: the streams of a call. [`RtpResult`]: all of a capture.

use super::between::SeenPacket;
use super::jitter::RtpJitter;
use super::media_clock::ClockRateSource;
use super::rtcp::VoipMetrics;
use super::signalling::SignalledCall;
use crate::SpreadFigures;
use crate::numbers::count;
use core::net::SocketAddr;
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use serde::Serialize;

/// One RTP stream: the packets of a synchronisation source between two ports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpStream {
    /// Number of the stream, from 0, in the order in which they were recognised.
    pub number: u64,
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Payload types in the order of their first packets.
    pub payload_types: Vec<PayloadTypeFigures>,
    /// Clock rate of the timestamps in Hz; null if unknown, and send times, jitter and delay variation are unknown too.
    pub clock_rate: Option<u32>,
    /// Source of `clock_rate`.
    pub clock_rate_source: Option<ClockRateSource>,
    /// Time of the first packet.
    pub first: WallTime,
    /// Time of the last packet.
    pub last: WallTime,
    /// Packets seen, duplicates included.
    pub packets: u64,
    /// Payload of these packets, in bytes.
    pub payload_bytes: u64,
    /// Length of these packets with IP header, in bytes.
    pub ip_bytes: u64,
    /// DSCP of the first packet.
    pub dscp: u8,
    /// Packets that the sequence numbers from the first to the highest stand for.
    pub expected: u64,
    /// Packets of these that were not seen.
    pub lost: u64,
    /// Packets seen more than once.
    pub duplicates: u64,
    /// Packets seen after one with a higher number.
    pub reordered: u64,
    /// Number of times the sender began to count its packets from another number, which is not a loss.
    pub restarts: u64,
    /// Packets far from all other sequence numbers, which are in no other figure.
    pub strays: u64,
    /// Usual time between two packets by their timestamps, in ns; null if unknown or if packets share timestamps.
    pub packet_time_ns: Option<Span>,
    /// Largest time between two arrivals of which the second is regular (see `jitter`), in ns.
    pub max_delta_ns: Option<Span>,
    /// Interarrival jitter (RFC 3550) in ns; null if the clock rate is unknown.
    pub jitter: Option<RtpJitter>,
    /// Number of times the sender set its media clock to another time.
    pub clock_sets: u64,
    /// Number of silences, in which the sender sent nothing but its timestamps continued.
    pub silences: u64,
    /// Duration of all silences, in ns.
    pub silence_ns: Span,
    /// Telephone events (DTMF digits and tones).
    pub events: u64,
    /// True if the sender ended the stream (RTCP BYE).
    pub has_ended: bool,
    /// Contents of RTCP about the stream.
    pub rtcp: RtcpFigures,
}

impl RtpStream {
    /// Returns the payload type of most packets with a media clock of their own.
    pub fn main_type(&self) -> Option<&PayloadTypeFigures> {
        self.payload_types.iter().filter(|t| !t.is_event).max_by_key(|t| t.packets)
    }

    /// Returns the codec of most packets; otherwise the number of the payload type.
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
    /// Packets.
    pub packets: u64,
    /// Name of the codec; null if the type is dynamic and not signalled.
    pub codec: Option<String>,
    /// True for telephone events: by the name of the codec, or by the length of the payload of a dynamic type.
    pub is_event: bool,
}

/// Contents of RTCP packets about one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtcpFigures {
    /// Sender reports of the stream's sender.
    pub sender_reports: u64,
    /// Reports of the receiver about the stream.
    pub receiver_reports: u64,
    /// Round trip between the capture point and the receiver, by the receiver's answers to sender reports (LSR, DLSR) or
    /// to receiver times (RFC 3611), in ns; null without answers.
    pub round_trip_ns: Option<SpreadFigures>,
    /// Figures of the receiver; null without reports.
    pub reported: Option<ReportedByReceiver>,
    /// Last VoIP metrics of the receiver, as reported; null if it sends none.
    pub voip: Option<VoipMetrics>,
}

/// Figures in a receiver's reports, as reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedByReceiver {
    /// Packets lost in total, in the last report; negative if the receiver counts duplicates.
    pub lost: i32,
    /// Largest share of packets lost between two reports.
    pub max_fraction_lost: f64,
    /// Interarrival jitter in the last report, in ns; null if the clock rate is unknown.
    pub jitter_ns: Option<i64>,
    /// Largest interarrival jitter, in ns; null if the clock rate is unknown.
    pub max_jitter_ns: Option<i64>,
}

/// The streams of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RtpCall {
    /// The call's signalling; null if the capture contains none, and the streams between the same two ports are one call.
    pub signalling: Option<SignalledCall>,
    /// Streams, in the order of their first packets.
    pub streams: Vec<CallStream>,
    /// Number of times that a sender changed its synchronisation source, without streams that it sends together.
    pub ssrc_changes: u64,
    /// Smallest round trip between the ends, in ns: the sum of the smallest ones on both sides of the capture point, from
    /// RTCP; null if one is unknown.
    pub round_trip_ns: Option<Span>,
}

impl RtpCall {
    /// Names of the two ends, the caller first: as signalled, otherwise by their addresses.
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

    /// Name of the stream at `position` among the streams of the call: its direction, and its number if the direction has
    /// several.
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
    pub seen: Vec<Vec<SeenPacket>>,
    /// UDP packets seen.
    pub udp_packets: u64,
    /// RTCP packets that are encrypted or cut, and could not be read.
    pub unread_rtcp: u64,
    /// Streams that ended early to limit memory, and of which later packets are new streams.
    pub set_aside: u64,
    /// Streams whose figures are not part of the result, because there are too many.
    pub not_kept: u64,
    /// Signalled calls that were forgotten to limit memory.
    pub calls_forgotten: u64,
}

impl RtpResult {
    /// Describes limitations of the figures.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unread_rtcp > 0 {
            notes
                .push(format!("{} encrypted or cut short: not read", count(self.unread_rtcp, "RTCP packet")));
        }
        if self.set_aside > 0 {
            notes.push(format!(
                "{} ended early, because more were sent at a time than can be followed",
                count(self.set_aside, "stream")
            ));
        }
        if self.not_kept > 0 {
            notes.push(format!("{} left out, because there are too many", count(self.not_kept, "stream")));
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
