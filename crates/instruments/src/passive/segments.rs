//! [`SegmentCapture`]: a continuous capture that follows each TCP segment leaving an interface until it is acknowledged
//! or lost, and reports by periods.

use super::error::PassiveError;
use super::live::LiveSettings;
use super::periods::{CaptureClocks, CaptureEnd, EndedCapturePeriod, PeriodEvent};
use crate::stop::Stop;
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::session::PASSIVE;
use jitlat_core::time::StampSource;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{PacketRecord, Session, Span, Stamp, WallTime};
use jitlat_net::capture::interface::InterfaceCapture;
use jitlat_net::clock;
use jitlat_net::digest::is_own;
use jitlat_passive::tcp::{SegmentRound, SegmentRounds};
use jitlat_passive::{Sides, decode};
use jitlat_proto::digest;
use std::collections::BTreeMap;
use std::time::Duration;

/// Protocol name in sessions.
pub const SEGMENTS: &str = "segments";
/// Time that a capture waits for a packet before it checks for other work.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Time that a period waits for the acknowledgements of its last segments; segments acknowledged later count
/// in a later period.
const ACK_GRACE: Span = Span::seconds(10);

/// A capture on one interface of the data segments sent from the reference side to the monitor side. It measures round
/// trips from the interface to the monitor side and back, and losses beyond the interface.
#[derive(Clone, Debug)]
pub struct SegmentCapture {
    /// Name of the interface.
    pub interface: String,
    /// Addresses on this side of the interface, and on the far side.
    pub sides: Sides,
    /// Port of the connections to follow; `None`: all connections.
    pub port: Option<u16>,
}

/// A period that has not ended.
#[derive(Default)]
struct OpenPeriod {
    /// Number of segments known to be acknowledged or lost.
    sent: u64,
    /// Time of the first of these segments.
    first: Option<WallTime>,
    dropped: u64,
}

impl SegmentCapture {
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
        capture.limit_to(&self.sides.reference)?;
        each(PeriodEvent::Listening([&self.interface, ""]));
        each(PeriodEvent::Begun);
        let every = every.max(Span(1));
        let clocks = CaptureClocks::read();
        let first = clocks.begin().0.div_euclid(every.0);
        let mut run = SegmentRun { capture: self, every, first, next: first, open: BTreeMap::new(), each };
        let mut rounds = SegmentRounds::new(self.sides.clone(), self.port);
        let mut dropped = 0;
        let reasons = loop {
            let mut trouble = None;
            let taken = capture.poll(READ_TIMEOUT, |f| {
                if let Ok(p) = decode(f.link, f.data, f.wire_length)
                    && !is_own(&p, digest::PORT)
                {
                    rounds.push(f.at, &p);
                }
            });
            if let Err(e) = taken {
                trouble = Some(vec![e.to_string()]);
            }
            let (drops, now) = (capture.drops(), clock::wall());
            if drops > dropped {
                // Acknowledgements may be among the packets that were dropped, so the fate of the segments in
                // flight is unknown.
                rounds.lose_sight();
                run.period(now).dropped += drops - dropped;
                dropped = drops;
            }
            run.take(rounds.fates());
            run.end_before(now - ACK_GRACE);
            if let Some(reasons) = trouble.or_else(|| clocks.were_set().map(|reason| vec![reason])) {
                break reasons;
            }
            if stop.is_requested() {
                break Vec::new();
            }
        };
        run.end_all();
        Ok(CaptureEnd { reasons })
    }

    fn session(&self, period: &OpenPeriod, begin: WallTime) -> Session {
        let mut session = Session::new(jitlat_core::TestSpec::default());
        session.created = Some(period.first.unwrap_or(begin));
        (session.src, session.dst) = match (&self.sides.reference[..], &self.sides.monitor[..]) {
            ([near], [far]) => (near.address(), far.address()),
            ([near], _) => (near.address(), None),
            _ => (None, None),
        };
        session.spec.dst_port = self.port.unwrap_or(0);
        (session.payload_known, session.period_known) = (false, false);
        session.tags.push(("instrument".to_owned(), PASSIVE.to_owned()));
        session.two_way = Some(Box::new(TwoWay { protocol: SEGMENTS.to_owned(), ..TwoWay::default() }));
        session
    }
}

struct SegmentRun<'a> {
    capture: &'a SegmentCapture,
    every: Span,
    /// Number of the period in which the capture started.
    first: i64,
    /// Number of the first period that has not ended.
    next: i64,
    open: BTreeMap<i64, OpenPeriod>,
    each: &'a mut dyn FnMut(PeriodEvent<'_>),
}

impl SegmentRun<'_> {
    /// Returns the period that contains `at`, or the first one that has not ended.
    fn period(&mut self, at: WallTime) -> &mut OpenPeriod {
        self.open.entry(at.0.div_euclid(self.every.0).max(self.next)).or_default()
    }

    fn begin_of(&self, period: i64) -> WallTime {
        WallTime(period.saturating_mul(self.every.0))
    }

    fn take(&mut self, fates: impl Iterator<Item = SegmentRound>) {
        let mut records: BTreeMap<i64, Vec<PacketRecord>> = BTreeMap::new();
        for fate in fates {
            let number = fate.sent.0.div_euclid(self.every.0).max(self.next);
            let open = self.open.entry(number).or_default();
            let seq = open.sent as i64;
            open.sent += 1;
            open.first = Some(open.first.map_or(fate.sent, |first| first.min(fate.sent)));
            let Some(returned) = fate.acknowledged else { continue };
            let mut record = PacketRecord::new(seq);
            record.set(Moment::Sent, Stamp { at: fate.sent, source: StampSource::Wire });
            record.set(Moment::Returned, Stamp { at: returned, source: StampSource::Wire });
            record.set_size(u16::try_from(fate.length).ok());
            records.entry(number).or_default().push(record);
        }
        for (period, records) in records {
            let mut session = self.capture.session(&OpenPeriod::default(), self.begin_of(period));
            session.ending = Ending::Unknown;
            (self.each)(PeriodEvent::Records { period, session: &session, direction: 0, records: &records });
        }
    }

    fn end_before(&mut self, horizon: WallTime) {
        while self.begin_of(self.next + 1) <= horizon {
            self.end(true);
        }
    }

    fn end_all(&mut self) {
        while self.open.last_key_value().is_some_and(|(last, _)| *last >= self.next) {
            self.end(false);
        }
    }

    fn end(&mut self, over: bool) {
        let period = self.next;
        self.next += 1;
        let open = self.open.remove(&period).unwrap_or_default();
        let mut session = self.capture.session(&open, self.begin_of(period));
        session.sent = u32::try_from(open.sent).ok();
        session.declared = Some(open.sent);
        session.ending = Ending::Complete;
        (self.each)(PeriodEvent::Ended(EndedCapturePeriod {
            period,
            sessions: Some(vec![session]),
            dropped: open.dropped,
            is_whole: over && period > self.first,
        }));
    }
}
