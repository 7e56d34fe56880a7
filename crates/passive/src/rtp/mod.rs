//! Analysis of RTP streams and calls at one capture point (RFC 3550): losses, reordering, jitter, delay variation, and
//! the contents of RTCP.
//!
//! A stream is recognised by its packets ([`candidate`]), earlier if SIP names its port ([`signalling`]). Packets are
//! datagrams, or parts of a TCP connection ([`byte_streams`]). The media clock ([`media_clock`]) gives the send time of
//! a packet except for a constant, so that each packet becomes a [`PacketRecord`] whose delay is relative to the
//! stream's first packet. The records are analysed like those of any other test.

mod between;
mod byte_streams;
mod calls;
mod candidate;
mod copies;
mod figures;
mod jitter;
mod media_clock;
mod packet;
mod payload_types;
mod rtcp;
mod sequence;
mod signalling;
mod snapshot;
mod stream;

pub use between::{BetweenPoints, PointPacket, StreamBetween, between};
pub use calls::OneSided;
pub use figures::{
    CallStream, PayloadTypeFigures, ReportedByReceiver, RtcpFigures, RtpCall, RtpResult, RtpStream,
};
pub use jitter::RtpJitter;
pub use media_clock::ClockRateSource;
pub(crate) use media_clock::RATES;
pub use packet::RtpPacket;
pub use payload_types::{GivenFormat, PayloadFormat, modelled_codec};
pub use rtcp::{ReportedLosses, StatisticsSummary, VoipMetrics};
pub use signalling::{Hold, SignalledCall};
pub use snapshot::RtpSnapshot;

use super::packet::{IpPacket, TCP, UDP, udp};
use crate::recording::{CopyKind, RecordingFacts};
use crate::streams::session;
use crate::tcp::TcpEndpoint as Endpoint;
use crate::tcp::TcpSegment;
use crate::{SeenPacket, Sides};
use byte_streams::{Arrival, ByteStreams, Unit};
use candidate::{Candidates, EarlyPacket};
use foldhash::fast::RandomState;
use jitlat_core::observer::Unobserved;
use jitlat_core::record::PacketRecord;
use jitlat_core::session::{SSRC, Session};
use jitlat_core::spec::{Direction, Dscp, MAX_PACKETS};
use jitlat_core::time::{Span, WallTime};
use rtcp::RtcpItem;
use signalling::SignalledCalls;
use std::collections::HashMap;
use stream::StreamState;

/// Maximum number of streams followed at a time. Beyond it, a new stream is followed if it can replace an idle one.
const MAX_STREAMS: usize = if cfg!(test) { 8 } else { 1024 };
/// Time without packets after which a new stream may replace a stream.
const MIN_IDLE: Span = Span::seconds(5);
/// Maximum number of streams in a result; later ones are only counted.
const MAX_KEPT: usize = if cfg!(test) { 64 } else { 4096 };

/// Identity of a stream at a capture point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    from: Endpoint,
    to: Endpoint,
    ssrc: u32,
}

/// Receives the streams and their packets.
pub trait RtpObserver {
    /// Receives a new stream, with the figures known so far.
    fn begun(&mut self, stream: &RtpStream);

    /// Receives the records of packets of the stream with this number, in arrival order.
    fn records(&mut self, number: u64, records: &[PacketRecord]);

    /// Receives the final figures of a stream. No more records follow. `kept` is false if the result will not contain the
    /// stream.
    fn ended(&mut self, stream: &RtpStream, kept: bool);
}

impl RtpObserver for Unobserved {
    fn begun(&mut self, _: &RtpStream) {}

    fn records(&mut self, _: u64, _: &[PacketRecord]) {}

    fn ended(&mut self, _: &RtpStream, _: bool) {}
}

/// Analyses the RTP streams of one capture point.
#[derive(Debug, Default)]
pub struct RtpAnalyzer {
    given: Vec<GivenFormat>,
    candidates: Candidates,
    byte_streams: ByteStreams,
    copies: u64,
    streams: HashMap<StreamKey, StreamState, RandomState>,
    /// Keys of the streams of each source, because RTCP names only the source.
    by_source: HashMap<u32, Vec<StreamKey>, RandomState>,
    signalled: SignalledCalls,
    ended: Vec<(RtpStream, Vec<PointPacket>)>,
    /// True if packets are remembered for a comparison with another point.
    keeps_packets: bool,
    next: u64,
    udp_packets: u64,
    unread_rtcp: u64,
    set_aside: u64,
    not_followed: u64,
    not_kept: u64,
    records: Vec<PacketRecord>,
}

impl RtpAnalyzer {
    /// Creates an analyser with the formats `given` by the user, which take precedence over those in session
    /// descriptions.
    pub fn new(given: Vec<GivenFormat>) -> RtpAnalyzer {
        RtpAnalyzer { given, ..RtpAnalyzer::default() }
    }

    /// Remembers the packets of each stream, 32 bytes each and at most 2^20, for [`between`].
    #[must_use]
    pub fn keeping_packets(self) -> RtpAnalyzer {
        RtpAnalyzer { keeps_packets: true, ..self }
    }

    /// Handles the next packet of a recording, which knows copies of RTP packets ([`crate::Recording::of_media`]).
    #[inline]
    pub fn take(&mut self, seen: &SeenPacket<'_>, observer: &mut impl RtpObserver) {
        match seen.packet.protocol {
            UDP => self.datagram(seen, observer),
            TCP if !seen.packet.is_later_fragment() && seen.copy.is_none() => self.segment(seen, observer),
            _ => {}
        }
    }

    /// Notes that the recording's clock was set: no answer after it belongs to a time before it.
    pub fn clock_set(&mut self) {
        self.streams.values_mut().for_each(StreamState::clock_set);
    }

    fn datagram(&mut self, seen: &SeenPacket<'_>, observer: &mut impl RtpObserver) {
        let (at, p) = (seen.at, seen.packet);
        self.udp_packets += 1;
        let Some(data) = p.transport().get(udp::PAYLOAD..) else { return };
        if data.first().is_none_or(|flags| flags >> 6 != 2) {
            self.signalled.push(at, data);
            return;
        }
        if seen.copy == Some(CopyKind::Elsewhere) {
            self.copies += 1;
            return;
        }
        self.media((seen, None), data, (p.payload_length(), p.length), observer);
    }

    /// Reads the signalling and the packets in a TCP segment.
    fn segment(&mut self, seen: &SeenPacket<'_>, observer: &mut impl RtpObserver) {
        let p = seen.packet;
        let Some(segment) = TcpSegment::of(p) else { return };
        if segment.payload == 0 && self.byte_streams.is_empty() {
            return;
        }
        let transport = p.transport();
        let data = transport.get(super::packet::tcp::header_length(transport)..).unwrap_or_default();
        let (from, to) = p.ends();
        let key = StreamKey { from: (from, segment.ports.0), to: (to, segment.ports.1), ssrc: 0 };
        let all = data.len() as u64 == u64::from(segment.payload);
        let mut streams = std::mem::take(&mut self.byte_streams);
        let mut each = |key: StreamKey, arrival: Arrival, unit: Unit<'_>| match unit {
            Unit::Sip(message) => self.signalled.push(arrival.at, message),
            Unit::Packet(packet) => {
                let length = packet.len() as u32;
                let seen = SeenPacket { at: arrival.at, ..*seen };
                self.media((&seen, Some((key, arrival))), packet, (length, length), observer);
            }
        };
        if segment.payload > 0 {
            streams.push((seen.at, key), segment.seq, (data, all), &mut |a, unit| each(key, a, unit));
        }
        if let Some(ack) = segment.ack {
            let other = StreamKey { from: key.to, to: key.from, ssrc: 0 };
            streams.acknowledged(other, ack, &mut |a, unit| each(other, a, unit));
        }
        self.byte_streams = streams;
    }

    /// Handles an RTP or RTCP packet. `length` contains its own length and the length of the IP packet or, in a TCP
    /// connection, its own length twice. `tcp` are the ends of the connection and the arrival of the packet.
    fn media(
        &mut self,
        (seen, tcp): (&SeenPacket<'_>, Option<(StreamKey, Arrival)>),
        data: &[u8],
        length: (u32, u32),
        observer: &mut impl RtpObserver,
    ) {
        let (at, p) = (seen.at, seen.packet);
        let Some((src, dst)) = p.ports() else { return };
        if rtcp::is_rtcp(data) {
            self.report(at, p, data, length.0);
            return;
        }
        let Some(packet) = RtpPacket::parse(data, length.0) else { return };
        let (from, to) = p.ends();
        let ends = StreamKey { from: (from, src), to: (to, dst), ssrc: 0 };
        let key = StreamKey { ssrc: packet.ssrc, ..tcp.map_or(ends, |(ends, _)| ends) };
        let gaps = tcp.map(|(_, arrival)| arrival.gaps);
        let (ttl, traffic_class) = (p.ttl(), p.traffic_class());
        let is_copy = seen.copy.is_some();
        let early = EarlyPacket { at, packet, ttl, traffic_class, length: length.1, is_copy, gaps };
        if let Some(stream) = self.streams.get_mut(&key) {
            self.records.clear();
            let formats = Formats { given: &self.given, signalled: &self.signalled, key };
            stream.push(early, &|n| formats.of(n), &mut self.records);
            if !self.records.is_empty() {
                observer.records(stream.number, &self.records);
            }
            return;
        }
        let is_signalled = self.signalled.end(key.to).is_some() || self.signalled.end(key.from).is_some();
        if let Some(early) = self.candidates.push(key, early, is_signalled) {
            self.begin(key, &early, observer);
        }
    }

    fn begin(&mut self, key: StreamKey, early: &[EarlyPacket], observer: &mut impl RtpObserver) {
        if self.streams.len() >= MAX_STREAMS {
            let now = early.last().map_or(WallTime(i64::MIN), |p| p.at);
            let idle = self.streams.values().min_by_key(|s| (s.last, s.number));
            let idle = idle.filter(|s| now.0.saturating_sub(s.last.0) >= MIN_IDLE.0).map(|s| s.key);
            let Some(stream) = idle.and_then(|key| self.streams.remove(&key)) else {
                self.not_followed += early.len() as u64;
                return;
            };
            self.set_aside += 1;
            self.end(stream, observer);
        }
        let Some(mut stream) = StreamState::new(self.next, key, early, self.keeps_packets) else { return };
        self.next += 1;
        self.records.clear();
        let formats = Formats { given: &self.given, signalled: &self.signalled, key };
        early.iter().for_each(|p| stream.push(*p, &|n| formats.of(n), &mut self.records));
        observer.begun(&stream.figures());
        observer.records(stream.number, &self.records);
        self.by_source.entry(key.ssrc).or_default().push(key);
        self.streams.insert(key, stream);
    }

    fn end(&mut self, mut stream: StreamState, observer: &mut impl RtpObserver) {
        self.records.clear();
        stream.flush(&mut self.records);
        if !self.records.is_empty() {
            observer.records(stream.number, &self.records);
        }
        if let Some(keys) = self.by_source.get_mut(&stream.key.ssrc) {
            keys.retain(|key| *key != stream.key);
            if keys.is_empty() {
                self.by_source.remove(&stream.key.ssrc);
            }
        }
        self.copies += stream.copies();
        let figures = stream.figures();
        let kept = self.ended.len() < MAX_KEPT;
        observer.ended(&figures, kept);
        match kept {
            true => self.ended.push((figures, stream.take_seen())),
            false => self.not_kept += 1,
        }
    }

    /// Reads an RTCP datagram.
    fn report(&mut self, at: WallTime, p: &IpPacket<'_>, data: &[u8], length: u32) {
        let (src, dst) = p.ends();
        let RtpAnalyzer { streams, by_source, .. } = self;
        // Streams of a source between the two hosts; `sends` is true if the packet goes in the direction of the stream.
        let mut each = |ssrc: u32, sends: bool, apply: &mut dyn FnMut(&mut StreamState)| {
            let hosts = if sends { (src, dst) } else { (dst, src) };
            for key in by_source.get(&ssrc).into_iter().flatten().filter(|k| (k.from.0, k.to.0) == hosts) {
                streams.get_mut(key).into_iter().for_each(&mut *apply);
            }
        };
        let whole = rtcp::read(data, length, |item| match item {
            RtcpItem::Time { ssrc, ntp, is_sender } => {
                each(ssrc, true, &mut |s| s.note_time(at, ntp, is_sender));
            }
            RtcpItem::Report(r) => each(r.ssrc, false, &mut |s| s.note_report(at, &r)),
            RtcpItem::Answer { ssrc, last, delay } => {
                each(ssrc, false, &mut |s| s.note_answer(at, last, delay));
            }
            RtcpItem::Voip(ssrc, metrics) => each(ssrc, false, &mut |s| s.note_voip(metrics)),
            RtcpItem::Losses(ssrc, losses) => each(ssrc, false, &mut |s| s.note_losses(losses)),
            RtcpItem::Statistics(ssrc, summary) => each(ssrc, false, &mut |s| s.note_statistics(summary)),
            RtcpItem::Name(ssrc, name) => each(ssrc, true, &mut |s| s.note_name(name)),
            RtcpItem::Bye(ssrc) => each(ssrc, true, &mut StreamState::note_end),
        });
        self.unread_rtcp += u64::from(!whole);
    }

    /// Returns the figures so far of the streams that have not ended, and their calls.
    pub fn snapshot(&self) -> RtpSnapshot {
        let mut streams: Vec<RtpStream> = self.streams.values().map(StreamState::figures).collect();
        streams.sort_by_key(|s| (s.first, s.number));
        let calls = calls::calls(&streams, &self.signalled);
        RtpSnapshot::new(streams, calls)
    }

    /// Number of streams recognised so far.
    pub fn begun(&self) -> u64 {
        self.next
    }

    /// Number of UDP packets seen so far.
    pub fn udp_packets(&self) -> u64 {
        self.udp_packets
    }

    /// Ends all streams and returns the result.
    pub fn finish(mut self, observer: &mut impl RtpObserver) -> RtpResult {
        let mut rest: Vec<StreamState> = std::mem::take(&mut self.streams).into_values().collect();
        rest.sort_by_key(|s| s.number);
        rest.into_iter().for_each(|stream| self.end(stream, observer));
        self.ended.sort_by_key(|(s, _)| (s.first, s.number));
        let (streams, seen): (Vec<RtpStream>, Vec<Vec<PointPacket>>) = self.ended.into_iter().unzip();
        let calls = calls::calls(&streams, &self.signalled);
        RtpResult {
            calls,
            streams,
            seen,
            udp_packets: self.udp_packets,
            copies: self.copies,
            unread_rtcp: self.unread_rtcp,
            set_aside: self.set_aside,
            not_followed: self.not_followed,
            not_kept: self.not_kept,
            calls_forgotten: self.signalled.forgotten,
            recording: RecordingFacts::default(),
        }
    }
}

/// Formats of the payload types of one stream.
struct Formats<'a> {
    given: &'a [GivenFormat],
    signalled: &'a SignalledCalls,
    key: StreamKey,
}

impl Formats<'_> {
    fn of(&self, payload_type: u8) -> Option<(PayloadFormat, ClockRateSource)> {
        let given = self.given.iter().find(|g| g.payload_type == payload_type);
        if let Some(given) = given {
            return Some((given.format.clone(), ClockRateSource::Given));
        }
        // The receiver describes what it accepts; the sender's own description may be all that was captured.
        let ends = [self.key.to, self.key.from];
        let described = ends.iter().find_map(|end| self.signalled.end(*end)?.format(payload_type));
        match described {
            Some(format) => Some((format.clone(), ClockRateSource::Signalled)),
            None => PayloadFormat::assigned(payload_type).map(|format| (format, ClockRateSource::Assigned)),
        }
    }
}

impl RtpStream {
    /// Returns the session of the stream's records, whose delays are relative to an unknown constant. `round_trip` is the
    /// smallest round trip between the ends, and `least` the smallest delay, if known. Together they bound the path's
    /// delay: it is between 0 and the round trip, and half of it is assumed.
    pub fn session(&self, direction: Direction, round_trip: Option<Span>, least: Option<Span>) -> Session {
        let mut session = self.begun_session(direction);
        let expected = self.expected.saturating_sub(self.not_recorded);
        session.sent = u32::try_from(expected).ok();
        session.declared = Some(expected);
        session.classic_rtt = round_trip;
        session.classic_offset =
            round_trip.zip(least).filter(|_| self.clock_sets == 0).map(|(trip, least)| {
                let more = Span(least.0.saturating_sub(trip.0 / 2));
                match direction {
                    Direction::Up => more,
                    Direction::Down => Span(more.0.saturating_neg()),
                }
            });
        session.tags.push(("codec".to_owned(), self.codec()));
        session
    }

    /// Returns the session of a stream that has not ended.
    pub fn begun_session(&self, direction: Direction) -> Session {
        let length = self.ip_bytes / self.packets.max(1);
        let mut session = session(direction, &<[Sides; 2]>::default(), MAX_PACKETS.into(), length, Span(1));
        (session.declared, session.sent) = (None, None);
        session.created = Some(self.first);
        (session.src, session.dst) = (Some(self.from.ip()), Some(self.to.ip()));
        (session.spec.src_port, session.spec.dst_port) = (self.from.port(), self.to.port());
        session.spec.dscp = Dscp::new(self.dscp.into()).unwrap_or_default();
        session.tags.push((SSRC.to_owned(), format!("{:08x}", self.ssrc)));
        session
    }
}

#[cfg(test)]
mod tests;
