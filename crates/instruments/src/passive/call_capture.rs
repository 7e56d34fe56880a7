//! [`CallCapture`]: a continuous capture of RTP streams on one interface, reported per period. In each period, every
//! stream that has packets is one test.

use super::error::PassiveError;
use super::live::LiveSettings;
use super::periods::{CaptureClocks, CaptureEnd, EndedCapturePeriod, PeriodEvent};
use crate::stop::Stop;
use jitlat_core::prefix::Prefix;
use jitlat_core::session::Ending;
use jitlat_core::{Direction, PacketRecord, Session, Span, WallTime};
use jitlat_net::capture::interface::InterfaceCapture;
use jitlat_net::clock;
use jitlat_passive::rtp::{GivenFormat, RtpAnalyzer, RtpObserver, RtpSnapshot, RtpStream};
use jitlat_passive::{Recording, Seen};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Time that a capture waits for a packet before it checks for other work.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Time for which a period stays open after its end: for late packets, and for packets whose send time is known only
/// once the clock rate is estimated. After that, late packets are left out, and packets whose send time becomes known
/// count in a later period.
const GRACE: Span = Span::seconds(5);
/// Time after a drop of packets by the capture in which losses are not counted, because the missing packets may be the
/// dropped ones.
const DROP_MARGIN: Span = Span::seconds(1);
/// Maximum number of streams that are stored per period.
const MAX_STREAMS: usize = 64;
/// Key of the tag with the number of streams of a period that are not stored.
const LEFT_OUT: &str = "streams-left-out";

/// Capture of the RTP streams between two groups of hosts, on one interface.
#[derive(Clone, Debug)]
pub struct CallCapture {
    /// Name of the interface.
    pub interface: String,
    /// Addresses on this side of the interface. Streams from them are up, and streams to them are down.
    pub near: Vec<Prefix>,
    /// Addresses on the far side; empty: all.
    pub far: Vec<Prefix>,
    /// Port of the streams to follow; `None`: all streams.
    pub port: Option<u16>,
    /// Formats of dynamic payload types. They have priority over those in session descriptions.
    pub formats: Vec<GivenFormat>,
}

impl CallCapture {
    /// Captures until `stop` is requested or the interface disappears. Periods are `every` long and start at
    /// multiples of `every` since 1970.
    ///
    /// # Errors
    /// [`PassiveError`] if capturing cannot begin.
    pub fn follow_periods(
        &self,
        settings: &LiveSettings,
        every: Span,
        stop: &Stop,
        each: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> Result<CaptureEnd, PassiveError> {
        let mut capture = InterfaceCapture::open(&self.interface, settings.interface)?;
        capture.limit_to(&self.near)?;
        each(PeriodEvent::Listening([&self.interface, ""]));
        each(PeriodEvent::Begun);
        let clocks = CaptureClocks::read();
        let mut analyzer = RtpAnalyzer::new(self.formats.clone());
        let mut recording = Recording::of_media();
        let mut run = CallPeriods::new(self, every, clocks.begin(), each);
        let mut dropped = 0;
        let reasons = loop {
            let mut take = |seen: Seen<'_>| run.take(&seen, &mut analyzer);
            let taken = capture.poll(READ_TIMEOUT, |f| recording.push(&f, &mut take));
            recording.settle(clock::wall(), &mut take);
            let trouble = taken.err().map(|e| vec![e.to_string()]);
            let (drops, now) = (capture.drops(), clock::wall());
            run.count_drops(drops - dropped, now);
            dropped = drops;
            if run.is_over(now - GRACE) {
                let known = analyzer.snapshot();
                run.end_before(now - GRACE, &known);
            }
            if let Some(reasons) = trouble.or_else(|| clocks.were_set().map(|reason| vec![reason])) {
                break reasons;
            }
            if stop.is_requested() {
                break Vec::new();
            }
        };
        recording.finish(&mut |seen: Seen<'_>| run.take(&seen, &mut analyzer));
        let known = analyzer.snapshot();
        analyzer.finish(&mut run);
        run.end_all(&known);
        Ok(CaptureEnd { reasons })
    }

    /// Returns the direction of a stream; `None` if it is not followed.
    fn direction(&self, stream: &RtpStream) -> Option<Direction> {
        let among = |list: &[Prefix], address| list.iter().any(|prefix| prefix.contains(address));
        let is_far = |address| self.far.is_empty() || among(&self.far, address);
        let (from, to) = (stream.from, stream.to);
        if self.port.is_some_and(|port| from.port() != port && to.port() != port) {
            return None;
        }
        match (among(&self.near, from.ip()), among(&self.near, to.ip())) {
            (true, _) if is_far(to.ip()) => Some(Direction::Up),
            (_, true) if is_far(from.ip()) => Some(Direction::Down),
            _ => None,
        }
    }
}

/// A stream that is followed.
struct FollowedStream {
    direction: Direction,
    /// Highest packet number so far, after subtraction of `skipped`; -1 before the first packet.
    highest: i64,
    /// Number of missing packets that the capture may have dropped. It is subtracted from the numbers of later packets,
    /// so that the missing ones do not count as lost.
    skipped: i64,
    /// Open periods in which the stream has packets, in order of time: number of the period, and number of its first
    /// packet.
    periods: VecDeque<(i64, i64)>,
    /// Figures known so far; the latest ones after the stream has ended.
    figures: RtpStream,
    has_ended: bool,
}

/// A stream in a period that has not ended.
struct OpenStream {
    number: u64,
    /// Smallest difference between arrival and send time.
    least: Option<Span>,
    first: WallTime,
    /// Number of packets, including missing ones.
    packets: i64,
}

#[derive(Default)]
struct OpenPeriod {
    streams: Vec<OpenStream>,
    /// Numbers of the streams that are not stored.
    left_out: BTreeSet<u64>,
    dropped: u64,
}

/// Divides the packets of streams into periods, and numbers them from 0 in each period.
struct CallPeriods<'a, 'b> {
    capture: &'a CallCapture,
    every: Span,
    /// Number of the period in which the capture started.
    first: i64,
    /// Number of the first period that has not ended.
    next: i64,
    open: BTreeMap<i64, OpenPeriod>,
    streams: HashMap<u64, FollowedStream>,
    /// Time up to which losses are not counted.
    blind_until: WallTime,
    each: &'a mut (dyn FnMut(PeriodEvent<'_>) + 'b),
}

impl<'a, 'b> CallPeriods<'a, 'b> {
    /// Passes what the recording shows to the analysis, whose packets come back here.
    fn take(&mut self, seen: &Seen<'_>, analyzer: &mut RtpAnalyzer) {
        match seen {
            Seen::Packet(packet) => analyzer.take(packet, self),
            Seen::ClockSet => analyzer.clock_set(),
            Seen::Skipped(..) => {}
        }
    }

    fn new(
        capture: &'a CallCapture,
        every: Span,
        now: WallTime,
        each: &'a mut (dyn FnMut(PeriodEvent<'_>) + 'b),
    ) -> CallPeriods<'a, 'b> {
        let every = every.max(Span(1));
        let first = now.0.div_euclid(every.0);
        let (open, streams) = (BTreeMap::new(), HashMap::new());
        let blind_until = WallTime(i64::MIN);
        CallPeriods { capture, every, first, next: first, open, streams, blind_until, each }
    }

    fn begin_of(&self, period: i64) -> WallTime {
        WallTime(period.saturating_mul(self.every.0))
    }

    /// Number of the period that contains `at`; if that period has ended, number of the first one that has not ended.
    fn period_of(&self, at: WallTime) -> i64 {
        at.0.div_euclid(self.every.0).max(self.next)
    }

    fn count_drops(&mut self, packets: u64, now: WallTime) {
        if packets > 0 {
            let period = self.period_of(now);
            self.open.entry(period).or_default().dropped += packets;
            self.blind_until = now + DROP_MARGIN;
        }
    }

    /// Returns the period of a packet and its number in the period; `None` if the packet belongs to a
    /// period that has ended.
    fn place(&mut self, number: u64, record: &PacketRecord) -> Option<(i64, i64)> {
        let arrived = record.arrived()?;
        let now = self.period_of(arrived);
        let blind_until = self.blind_until;
        let stream = self.streams.get_mut(&number)?;
        if record.seq - stream.skipped > stream.highest + 1 && arrived <= blind_until {
            stream.skipped = record.seq - stream.highest - 1;
        }
        let seq = record.seq - stream.skipped;
        if seq > stream.highest {
            let latest = stream.periods.back().map(|(period, _)| *period);
            if latest.is_none_or(|latest| latest < now) {
                // Packets that are missing before this one were sent at an unknown time since the last packet.
                stream.periods.push_back((now, stream.highest + 1));
            }
            stream.highest = seq;
        }
        let found = stream.periods.iter().rev().find(|(_, first)| *first <= seq);
        found.map(|(period, first)| (*period, seq - first))
    }

    /// Ends the periods that were over at `horizon`; `known` are the figures of all streams that have not ended.
    fn end_before(&mut self, horizon: WallTime, known: &RtpSnapshot) {
        while self.is_over(horizon) {
            self.end(true, known);
        }
    }

    fn is_over(&self, horizon: WallTime) -> bool {
        self.begin_of(self.next + 1) <= horizon
    }

    fn end_all(&mut self, known: &RtpSnapshot) {
        while self.open.last_key_value().is_some_and(|(last, _)| *last >= self.next) {
            self.end(false, known);
        }
    }

    fn end(&mut self, over: bool, known: &RtpSnapshot) {
        let period = self.next;
        self.next += 1;
        let OpenPeriod { streams, left_out, dropped } = self.open.remove(&period).unwrap_or_default();
        let mut sessions = Vec::new();
        for open in streams {
            let Some(stream) = self.streams.get(&open.number) else { continue };
            let mut session = session(stream, &open, known);
            if !left_out.is_empty() {
                session.tags.push((LEFT_OUT.to_owned(), left_out.len().to_string()));
            }
            sessions.push(session);
        }
        for stream in self.streams.values_mut() {
            stream.periods.retain(|(of, _)| *of > period);
        }
        self.streams.retain(|_, stream| !stream.has_ended || !stream.periods.is_empty());
        let is_whole = over && period > self.first;
        (self.each)(PeriodEvent::Ended(EndedCapturePeriod {
            period,
            sessions: Some(sessions),
            dropped,
            is_whole,
        }));
    }
}

/// Returns the session of a stream in a period.
fn session(stream: &FollowedStream, open: &OpenStream, known: &RtpSnapshot) -> Session {
    let figures = known.stream(open.number).unwrap_or(&stream.figures);
    let mut session = figures.session(stream.direction, known.round_trip(open.number), open.least);
    session.created = Some(open.first);
    session.sent = u32::try_from(open.packets).ok();
    session.declared = u64::try_from(open.packets).ok();
    session.tags.extend(known.call_id(open.number).map(|id| ("call-id".to_owned(), id.to_owned())));
    session.ending = Ending::Complete;
    session
}

impl RtpObserver for CallPeriods<'_, '_> {
    fn begun(&mut self, stream: &RtpStream) {
        let Some(direction) = self.capture.direction(stream) else { return };
        let (periods, figures) = (VecDeque::new(), stream.clone());
        let (highest, skipped) = (-1, 0);
        let followed = FollowedStream { direction, highest, skipped, periods, figures, has_ended: false };
        self.streams.insert(stream.number, followed);
    }

    fn records(&mut self, number: u64, records: &[PacketRecord]) {
        let mut parts: BTreeMap<i64, Vec<PacketRecord>> = BTreeMap::new();
        for record in records {
            let Some((period, seq)) = self.place(number, record) else { continue };
            let mut own = *record;
            own.seq = seq;
            let OpenPeriod { streams, left_out, .. } = self.open.entry(period).or_default();
            let known = streams.iter().position(|s| s.number == number);
            if known.is_none() && streams.len() >= MAX_STREAMS {
                left_out.insert(number);
                continue;
            }
            let index = known.unwrap_or_else(|| {
                let first = record.arrived().unwrap_or(WallTime(0));
                streams.push(OpenStream { number, least: None, first, packets: 0 });
                streams.len() - 1
            });
            let Some(open) = streams.get_mut(index) else { continue };
            open.packets = open.packets.max(own.seq + 1);
            if let Some(delay) = record.delay() {
                open.least = Some(open.least.map_or(delay, |least| least.min(delay)));
            }
            parts.entry(period).or_default().push(own);
        }
        for (period, records) in parts {
            let Some(stream) = self.streams.get(&number) else { return };
            let open = self.open.get(&period).map_or(&[][..], |open| &open.streams);
            let Some(index) = open.iter().position(|s| s.number == number) else { continue };
            let mut session = stream.figures.begun_session(stream.direction);
            session.created = Some(open[index].first);
            session.ending = Ending::Unknown;
            (self.each)(PeriodEvent::Records {
                period,
                session: &session,
                direction: index,
                records: &records,
            });
        }
    }

    fn ended(&mut self, stream: &RtpStream, _: bool) {
        if let Some(known) = self.streams.get_mut(&stream.number) {
            known.figures = stream.clone();
            known.has_ended = true;
        }
    }
}

#[cfg(test)]
mod tests;
