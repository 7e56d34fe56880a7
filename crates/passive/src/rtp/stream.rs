//! [`StreamState`]: one RTP stream packet by packet: records of its packets, and its figures.

use super::StreamKey;
use super::between::{MAX_SEEN, PointPacket};
use super::candidate::EarlyPacket;
use super::copies::StreamCopies;
use super::figures::{PayloadTypeFigures, ReportedByReceiver, RtcpFigures, RtpStream};
use super::jitter::{JitterMeter, TimedPacket};
use super::media_clock::{ClockRateSource, MediaClock, RateEstimate, ns, ticks_between};
use super::packet::RtpPacket;
use super::payload_types::PayloadFormat;
use super::rtcp::{ReportBlock, ReportedLosses, StatisticsSummary, VoipMetrics};
use super::sequence::{Position, SequenceCounter};
use crate::spread::SpanSpread;
use crate::tcp::socket;
use jitlat_core::record::{Moment, PacketRecord};
use jitlat_core::time::{SECOND, Span, Stamp, StampSource, WallTime};
use std::collections::VecDeque;

/// Maximum number of payload types that are counted separately.
const MAX_TYPES: usize = 16;
/// Maximum number of packets that wait until the clock rate is estimated.
const MAX_WAITING: usize = 512;
/// Maximum number of the sender's NTP times that are remembered for the receiver's answers.
const MAX_TIMES: usize = 16;
/// Longest round trip that is accepted.
const MAX_ROUND_TRIP: Span = Span::seconds(60);
/// Difference between the steps of timestamp and arrival up to which a packet continues its stream after an outage.
const MAX_OUTAGE_ERROR: Span = Span::millis(500);
/// Largest relative difference between the clocks of sender and capture.
const MAX_DRIFT: i64 = 64;
/// Minimum step of the timestamps that may be a silence, as a multiple of the usual step.
const SILENT_STEPS: i64 = 2;

/// Function that returns the format of a payload type and the source of the format; `None` if unknown.
pub(super) type FormatOf<'a> = &'a dyn Fn(u8) -> Option<(PayloadFormat, ClockRateSource)>;

/// Packets of one payload type.
#[derive(Debug)]
struct TypeCount {
    payload_type: u8,
    packets: u64,
    format: Option<(PayloadFormat, ClockRateSource)>,
    is_event: bool,
}

/// A packet with its number in the stream.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    early: EarlyPacket,
    number: i64,
    /// True if no packet is missing before it.
    follows: bool,
    /// True if a packet with this number or a higher one arrived before.
    is_late: bool,
    /// True for a telephone event, whose timestamp does not follow the media clock.
    is_event: bool,
    is_restart: bool,
    /// True if packets before this one were not recorded.
    is_behind_gap: bool,
}

/// State of one stream.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) number: u64,
    pub(super) key: StreamKey,
    pub(super) last: WallTime,
    first: WallTime,
    first_timestamp: u32,
    /// Arrival and timestamp of the packet with the highest number.
    newest: (WallTime, u32),
    /// Highest packet number, not counting packets that were not recorded.
    highest: i64,
    packets: u64,
    payload_bytes: u64,
    ip_bytes: u64,
    traffic_class: u8,
    sequence: SequenceCounter,
    copies: StreamCopies,
    types: Vec<TypeCount>,
    strays: u64,
    /// Number of gaps before the latest packet in the recorded bytes of a TCP connection; `None` for datagrams.
    gaps: Option<u32>,
    /// Number of packets in these gaps.
    not_recorded: i64,
    /// Estimated clock rate of payload types without a format; `None` if it is not known.
    estimated: Option<u32>,
    /// Running estimate of the clock rate; `None` after it has ended.
    estimate: Option<RateEstimate>,
    waiting: Vec<Numbered>,
    /// Packet after a pause of the sender or a stall of the path, until the next packet shows which.
    held: Option<Numbered>,
    clock: Option<MediaClock>,
    clock_rate: Option<(u32, ClockRateSource)>,
    clock_sets: u64,
    jitter: JitterMeter,
    usual: UsualStep,
    previous: Option<(i64, u32)>,
    silences: u64,
    silence: Span,
    event: Option<u32>,
    events: u64,
    has_ended: bool,
    rtcp: RtcpState,
    /// Packets for a comparison with another point; `None` if they are not needed.
    seen: Option<Vec<PointPacket>>,
}

#[derive(Debug, Default)]
struct RtcpState {
    sender_reports: u64,
    receiver_reports: u64,
    /// NTP times that the sender sent, each with the time at which it passed the capture point.
    times: VecDeque<(u32, WallTime)>,
    round_trips: Option<Box<SpanSpread>>,
    lost: i32,
    max_fraction: u8,
    jitter: u32,
    max_jitter: u32,
    voip: Option<VoipMetrics>,
    losses: Option<ReportedLosses>,
    statistics: Option<StatisticsSummary>,
    name: Option<u64>,
}

/// Most frequent step of the timestamps between consecutive packets (majority vote of Boyer and Moore).
#[derive(Clone, Copy, Debug, Default)]
struct UsualStep {
    step: i64,
    votes: u64,
}

impl UsualStep {
    fn push(&mut self, step: i64) {
        match self.votes {
            0 => *self = UsualStep { step, votes: 1 },
            _ if self.step == step => self.votes += 1,
            _ => self.votes -= 1,
        }
    }

    fn known(self) -> Option<i64> {
        (self.votes > 0 && self.step > 0).then_some(self.step)
    }
}

impl StreamState {
    /// Creates a stream that was recognised by the packets `early`, in arrival order, which must then be pushed; `None`
    /// if there are none.
    pub(super) fn new(
        number: u64,
        key: StreamKey,
        early: &[EarlyPacket],
        keeps_packets: bool,
    ) -> Option<StreamState> {
        let first = early.first()?;
        // Among the first packets, a later arrival may have an earlier number.
        let before =
            early.iter().map(|p| p.packet.sequence.wrapping_sub(first.packet.sequence) as i16).min()?;
        let lowest = first.packet.sequence.wrapping_add_signed(before);
        Some(StreamState {
            number,
            key,
            first: first.at,
            first_timestamp: first.packet.timestamp,
            newest: (first.at, first.packet.timestamp),
            highest: -1,
            last: first.at,
            packets: 0,
            payload_bytes: 0,
            ip_bytes: 0,
            traffic_class: first.traffic_class,
            sequence: SequenceCounter::before(lowest),
            copies: StreamCopies::of(early),
            types: Vec::new(),
            strays: 0,
            gaps: first.gaps,
            not_recorded: 0,
            estimated: None,
            estimate: Some(RateEstimate::default()),
            waiting: Vec::new(),
            held: None,
            clock: None,
            clock_rate: None,
            clock_sets: 0,
            jitter: JitterMeter::default(),
            usual: UsualStep::default(),
            previous: None,
            silences: 0,
            silence: Span::ZERO,
            event: None,
            events: 0,
            has_ended: false,
            rtcp: RtcpState::default(),
            seen: keeps_packets.then(Vec::new),
        })
    }

    /// Handles the next packet and adds the records that are complete to `records`.
    pub(super) fn push(&mut self, early: EarlyPacket, format: FormatOf<'_>, records: &mut Vec<PacketRecord>) {
        if self.copies.push(early.is_copy) {
            return;
        }
        let p = early.packet;
        self.last = self.last.max(early.at);
        let highest = self.sequence.highest();
        let is_far = self.sequence.is_far(p.sequence);
        let by_time = if is_far { self.steps_by_time(&early) } else { None };
        let (number, is_restart) = match self.sequence.push(p.sequence, by_time) {
            Position::Stray => {
                self.strays += 1;
                return;
            }
            Position::New { number } | Position::Duplicate { number } => (number, false),
            Position::Restarted { number } => (number, true),
        };
        let is_behind_gap = number > highest && early.gaps > self.gaps;
        if number > highest {
            self.newest = (early.at, p.timestamp);
            if is_behind_gap {
                self.not_recorded = self.not_recorded.saturating_add(number - highest - 1);
            }
            self.gaps = early.gaps;
        }
        // Packets that were not recorded get no numbers.
        let (number, highest) = match self.not_recorded {
            0 => (number, highest),
            n => ((number - n).max(0), self.highest),
        };
        self.highest = self.highest.max(number);
        self.packets += 1;
        self.payload_bytes += u64::from(p.payload_length);
        self.ip_bytes += u64::from(early.length);
        if let Some(seen) = self.seen.as_mut().filter(|seen| seen.len() < MAX_SEEN) {
            let length = u16::try_from(early.length).unwrap_or(u16::MAX);
            let (at, sequence, timestamp, ttl) = (early.at, p.sequence, p.timestamp, early.ttl);
            seen.push(PointPacket { at, number, sequence, timestamp, length, ttl });
        }
        let is_event = self.count_type(&p, format);
        let follows = number == highest + 1;
        let is_late = number <= highest;
        let numbered = Numbered { early, number, follows, is_late, is_event, is_restart, is_behind_gap };
        let has_rate = is_event || self.rate_of(p.payload_type).is_some() || self.estimate.is_none();
        if self.waiting.is_empty() && has_rate {
            self.pass(numbered, records);
            return;
        }
        self.waiting.push(numbered);
        if let Some(estimate) = self.estimate.as_mut().filter(|_| !is_event) {
            estimate.push(early.at, p.timestamp);
            let rate = if estimate.is_due() { estimate.rate() } else { None };
            if rate.is_some() || self.waiting.len() >= MAX_WAITING {
                self.settle(rate, records);
            }
        } else if self.waiting.len() >= MAX_WAITING {
            self.settle(None, records);
        }
    }

    /// Returns the number of packets from the newest one that were sent until this one was, by its timestamp; `None` if
    /// that is unknown, or if a later timestamp does not agree with the arrival.
    fn steps_by_time(&self, early: &EarlyPacket) -> Option<i64> {
        let (arrived, timestamp) = self.newest;
        let covered = (arrived - self.first).0;
        // A rate that is not in use serves as well, because only this packet depends on it.
        let measured = || {
            let ticks = i128::from(ticks_between(self.first_timestamp, timestamp));
            u32::try_from((ticks * i128::from(SECOND)).checked_div(i128::from(covered))?).ok()
        };
        let rate = self.rate_of(early.packet.payload_type).map(|(rate, _)| rate).or_else(measured)?;
        let sending = ns(ticks_between(timestamp, early.packet.timestamp), rate);
        let arriving = (early.at - arrived).0;
        let apart = sending.saturating_sub(arriving).saturating_abs();
        if sending > 0 && apart > MAX_OUTAGE_ERROR.0.max(arriving / MAX_DRIFT) {
            return None;
        }
        let steps = i128::from(sending) * i128::from(self.sequence.highest());
        (covered > 0).then(|| i64::try_from(steps / i128::from(covered)).ok())?
    }

    /// Ends the estimate of the clock rate, and passes on the packets that waited for it.
    fn settle(&mut self, rate: Option<u32>, records: &mut Vec<PacketRecord>) {
        self.estimated = rate;
        self.estimate = None;
        for numbered in std::mem::take(&mut self.waiting) {
            self.pass(numbered, records);
        }
    }

    /// Passes on a packet, unless the next packet must show whether the sender paused before it.
    fn pass(&mut self, n: Numbered, records: &mut Vec<PacketRecord>) {
        if let Some(held) = self.held.take() {
            // A path that stalled releases what the sender sent meanwhile, all at once. After a pause there is nothing.
            let step = ticks_between(held.early.packet.timestamp, n.early.packet.timestamp);
            let sending = self.rate_of(n.early.packet.payload_type).map_or(0, |(rate, _)| ns(step, rate));
            let arriving = (n.early.at - held.early.at).0;
            let resumes = n.number == held.number + 1 && sending > 0 && arriving >= sending / 2;
            let record = self.timed(&held, resumes);
            records.push(record);
        }
        let p = &n.early.packet;
        let may_resume = n.follows && !n.is_event && !n.is_restart && !p.marker;
        if may_resume && self.clock.is_some_and(|clock| clock.stopped(p.timestamp, n.early.at)) {
            self.held = Some(n);
            return;
        }
        let record = self.timed(&n, p.marker);
        records.push(record);
    }

    /// Passes on all packets that still wait.
    pub(super) fn flush(&mut self, records: &mut Vec<PacketRecord>) {
        let rate = self.estimate.and_then(|estimate| estimate.rate());
        self.settle(rate.or(self.estimated), records);
        if let Some(held) = self.held.take() {
            let record = self.timed(&held, false);
            records.push(record);
        }
    }

    /// Counts the packet's type. Returns true if the packet is a telephone event.
    fn count_type(&mut self, p: &RtpPacket, format: FormatOf<'_>) -> bool {
        let others = !self.types.is_empty();
        if let Some(known) = self.types.iter_mut().find(|t| t.payload_type == p.payload_type) {
            known.packets += 1;
            return known.is_event;
        }
        let format = format(p.payload_type);
        let is_event = match &format {
            Some((format, _)) => format.is_telephone_event(),
            // Without signalling, a dynamic type of four bytes in addition to another type.
            None => others && p.is_dynamic() && p.is_as_long_as_an_event(),
        };
        if self.types.len() < MAX_TYPES {
            self.types.push(TypeCount { payload_type: p.payload_type, packets: 1, format, is_event });
        }
        is_event
    }

    fn rate_of(&self, payload_type: u8) -> Option<(u32, ClockRateSource)> {
        let format =
            self.types.iter().find(|t| t.payload_type == payload_type).and_then(|t| t.format.as_ref());
        let known = format.map(|(format, source)| (format.clock_rate, *source));
        known.or(self.estimated.map(|rate| (rate, ClockRateSource::Estimated)))
    }

    /// Returns the record of a packet, with its send time if the clock rate is known. `resumes` is true if the packet is
    /// the first after a pause of the sender.
    fn timed(&mut self, n: &Numbered, resumes: bool) -> PacketRecord {
        let EarlyPacket { at, packet: p, ttl, traffic_class, length, .. } = n.early;
        let mut record = PacketRecord::new(n.number);
        record.set(Moment::Arrived, Stamp { at, source: StampSource::Wire });
        record.set_size(u16::try_from(length).ok());
        record.set_ttl(Some(ttl));
        record.set_traffic_class(Some(traffic_class));
        if n.is_event {
            if self.event.replace(p.timestamp) != Some(p.timestamp) {
                self.events += 1;
            }
            // An event is sent as it happens, but repeats the timestamp of its beginning.
            if let Some(clock) = self.clock {
                let sent = at - clock.last_delay();
                record.set(Moment::Sent, Stamp { at: sent, source: StampSource::Wire });
            }
            return record;
        }
        let Some(rate) = self.rate_of(p.payload_type) else { return record };
        let is_set = self.clock_rate.is_some_and(|(before, _)| before != rate.0) || n.is_restart;
        self.clock_rate = Some(rate);
        let sent = match &mut self.clock {
            Some(clock) if is_set => {
                *clock = MediaClock::start(rate.0, p.timestamp, at - clock.last_delay(), at);
                (at - clock.last_delay(), true)
            }
            Some(clock) if n.is_late => (clock.sent_before(p.timestamp), false),
            Some(clock) => clock.push(p.timestamp, at, resumes, n.follows),
            None => {
                self.clock = Some(MediaClock::start(rate.0, p.timestamp, at, at));
                (at, false)
            }
        };
        if sent.1 {
            self.clock_sets += 1;
            self.jitter.forget_previous();
            self.previous = None;
        }
        let comfort_noise = p.is_comfort_noise();
        self.jitter.push(TimedPacket { at, timestamp: p.timestamp, marker: p.marker, comfort_noise }, rate.0);
        self.note_step(n, rate.0);
        record.set(Moment::Sent, Stamp { at: sent.0, source: StampSource::Wire });
        record
    }

    /// Notes the step from the previous packet, which may be a silence.
    fn note_step(&mut self, n: &Numbered, rate: u32) {
        // A late packet was sent before the previous one, and shows nothing about what follows.
        if n.is_late {
            return;
        }
        let timestamp = n.early.packet.timestamp;
        let Some((number, before)) = self.previous.replace((n.number, timestamp)) else { return };
        let step = ticks_between(before, timestamp);
        if n.number != number + 1 || n.is_behind_gap {
            return;
        }
        if let Some(usual) = self.usual.known().filter(|usual| step >= SILENT_STEPS * usual)
            && (n.early.packet.marker || step > 4 * usual)
        {
            self.silences += 1;
            self.silence = self.silence + Span(ns(step - usual, rate));
            return;
        }
        self.usual.push(step);
    }

    /// Notes an NTP time of the stream's sender that passed the capture point at `at`. `is_sender` is true if it was in
    /// a sender report.
    pub(super) fn note_time(&mut self, at: WallTime, ntp: u32, is_sender: bool) {
        self.rtcp.sender_reports += u64::from(is_sender);
        if self.rtcp.times.len() >= MAX_TIMES {
            self.rtcp.times.pop_front();
        }
        self.rtcp.times.push_back((ntp, at));
    }

    /// Notes an answer to one of the sender's times: `last` is the time, `delay` the receiver's delay in 1/65536 s.
    pub(super) fn note_answer(&mut self, at: WallTime, last: u32, delay: u32) {
        let Some((_, passed)) = self.rtcp.times.iter().rev().find(|(ntp, _)| *ntp == last) else { return };
        let held = Span((u64::from(delay) * 1_000_000_000 / 65_536) as i64);
        let round_trip = at - *passed - held;
        if (Span::ZERO..=MAX_ROUND_TRIP).contains(&round_trip) {
            self.rtcp.round_trips.get_or_insert_with(|| Box::new(SpanSpread::of_flow())).push(round_trip.0);
        }
    }

    /// Notes a receiver's report about the stream.
    pub(super) fn note_report(&mut self, at: WallTime, r: &ReportBlock) {
        self.rtcp.receiver_reports += 1;
        self.rtcp.lost = r.lost;
        self.rtcp.max_fraction = self.rtcp.max_fraction.max(r.fraction_lost);
        self.rtcp.jitter = r.jitter;
        self.rtcp.max_jitter = self.rtcp.max_jitter.max(r.jitter);
        if r.last != 0 {
            self.note_answer(at, r.last, r.delay);
        }
    }

    /// Notes the figures that the receiver of the stream computes.
    pub(super) fn note_voip(&mut self, metrics: VoipMetrics) {
        self.rtcp.voip = Some(metrics);
    }

    /// Notes the losses that the receiver of the stream lists.
    pub(super) fn note_losses(&mut self, losses: ReportedLosses) {
        let known = self.rtcp.losses.get_or_insert_default();
        known.packets = known.packets.saturating_add(losses.packets);
        known.lost = known.lost.saturating_add(losses.lost);
        known.longest_run = known.longest_run.max(losses.longest_run);
    }

    /// Notes the statistics that the receiver of the stream computes.
    pub(super) fn note_statistics(&mut self, summary: StatisticsSummary) {
        self.rtcp.statistics = Some(summary);
    }

    /// Notes the hash of the sender's canonical name.
    pub(super) fn note_name(&mut self, name: u64) {
        self.rtcp.name = Some(name);
    }

    /// Forgets the sender's times, because the recording's clock was set.
    pub(super) fn clock_set(&mut self) {
        self.rtcp.times.clear();
    }

    /// Notes that the sender has ended the stream.
    pub(super) fn note_end(&mut self) {
        self.has_ended = true;
    }

    /// Number of copies that the recording made of packets; no figure includes them.
    pub(super) fn copies(&self) -> u64 {
        self.copies.made
    }

    /// Returns the packets for a comparison with another point.
    pub(super) fn take_seen(&mut self) -> Vec<PointPacket> {
        self.seen.take().unwrap_or_default()
    }

    /// Returns the figures so far.
    pub(super) fn figures(&self) -> RtpStream {
        let rate = self.clock_rate.map(|(rate, _)| rate);
        let not_recorded = u64::try_from(self.not_recorded).unwrap_or(0);
        let in_ns = |units: u32| rate.map(|rate| ns(units.into(), rate));
        let of_type = |t: &TypeCount| PayloadTypeFigures {
            payload_type: t.payload_type,
            packets: t.packets,
            codec: t.format.as_ref().map(|(format, _)| format.codec.clone()),
            is_event: t.is_event,
        };
        let RtcpState { sender_reports, receiver_reports, lost, max_fraction, .. } = self.rtcp;
        let reported = (receiver_reports > 0).then(|| ReportedByReceiver {
            lost,
            max_fraction_lost: f64::from(max_fraction) / 256.0,
            jitter_ns: in_ns(self.rtcp.jitter),
            max_jitter_ns: in_ns(self.rtcp.max_jitter),
        });
        RtpStream {
            number: self.number,
            from: socket(self.key.from),
            to: socket(self.key.to),
            ssrc: self.key.ssrc,
            over_tcp: self.gaps.is_some(),
            payload_types: self.types.iter().map(of_type).collect(),
            clock_rate: rate,
            clock_rate_source: self.clock_rate.map(|(_, source)| source),
            first: self.first,
            last: self.last,
            packets: self.packets,
            payload_bytes: self.payload_bytes,
            ip_bytes: self.ip_bytes,
            dscp: self.traffic_class >> 2,
            expected: self.sequence.expected(),
            lost: self
                .sequence
                .expected()
                .saturating_sub(self.sequence.unique())
                .saturating_sub(not_recorded),
            not_recorded,
            duplicates: self.sequence.duplicates,
            reordered: self.sequence.reordered,
            restarts: self.sequence.restarts,
            strays: self.strays,
            packet_time_ns: rate.zip(self.usual.known()).map(|(rate, step)| Span(ns(step, rate))),
            max_delta_ns: self.jitter.max_delta(),
            jitter: self.jitter.figures(),
            clock_sets: self.clock_sets,
            silences: self.silences,
            silence_ns: self.silence,
            events: self.events,
            has_ended: self.has_ended,
            rtcp: RtcpFigures {
                sender_reports,
                receiver_reports,
                round_trip_ns: self.rtcp.round_trips.as_ref().and_then(|spread| spread.figures(0)),
                reported,
                voip: self.rtcp.voip,
                losses: self.rtcp.losses,
                statistics: self.rtcp.statistics,
                participant: self.rtcp.name,
            },
        }
    }
}
