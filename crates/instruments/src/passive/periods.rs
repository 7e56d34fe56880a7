//! Continuous capture at two live points: reports the traffic by periods of wall-clock time, in bounded
//! memory.

use super::error::PassiveError;
use super::live::{CAPTURED_BYTES, END_TIMEOUT, Following, LIVE_MAX_TRANSIT, LiveSettings};
use super::points::{LivePoint, LivePoints, PointEnd, PointSource};
use super::settings::{Matching, Passive};
use crate::stop::Stop;
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::Direction;
use jitlat_core::{PacketRecord, Session, Span, SteadyTime, WallTime};
use jitlat_net::clock;
use jitlat_passive::pipeline::{CapturedBatch, Learner, Merger, PointDelivery};
use jitlat_passive::{EndedPeriod, MatchCounts, PeriodRecord, PeriodStreams};
use std::collections::BTreeMap;

/// Maximum clock step that does not restart a capture.
const MAX_CLOCK_STEP: Span = Span::millis(500);
/// Time between two checks of the clocks and of the matching.
const CHECK_INTERVAL: Span = Span::seconds(1);
/// Number of consecutive checks without a match, while packets pass in both directions, after which all
/// knowledge about the points is discarded.
const MAX_CHECKS_WITHOUT_MATCH: u32 = 15;
/// Minimum number of packets in each direction for a check to be conclusive.
const MIN_UNMATCHED_PACKETS: u64 = 16;
/// Maximum number of periods ended at once when packets could not be matched for a long time; earlier periods are
/// skipped.
const MAX_PERIODS_ENDED: i64 = 100;

/// Clocks at the beginning of a continuous capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaptureClocks {
    wall: WallTime,
    steady: SteadyTime,
}

impl CaptureClocks {
    /// Reads the clocks.
    pub(super) fn read() -> CaptureClocks {
        CaptureClocks { wall: clock::wall(), steady: clock::steady() }
    }

    /// Wall-clock time of the beginning.
    pub(super) fn begin(&self) -> WallTime {
        self.wall
    }

    /// Returns the reason to restart the capture if the clock was set since by more than [`MAX_CLOCK_STEP`]; `None` otherwise.
    pub(super) fn were_set(&self) -> Option<String> {
        let now = CaptureClocks::read();
        let step = (now.wall - self.wall) - (now.steady - self.steady);
        (step.0.abs() > MAX_CLOCK_STEP.0).then(|| format!("the clock was set by {:.3} s", step.as_seconds()))
    }
}

/// Event of a continuous capture.
#[derive(Debug)]
pub enum PeriodEvent<'a> {
    /// Capturing has started at the points with these names; the second is empty if there is only one point.
    Listening([&'a str; 2]),
    /// Packets are matched from now on.
    Begun,
    /// Packets of a direction (0 is OUT) that arrived in a period.
    Records {
        /// Number of the period: its start time since 1970, divided by the period length.
        period: i64,
        /// Facts about the direction up to this period.
        session: &'a Session,
        /// Index of the direction: 0 is OUT.
        direction: usize,
        /// Records of the arrived packets, numbered within the period.
        records: &'a [PacketRecord],
    },
    /// A period has ended.
    Ended(EndedCapturePeriod),
}

/// A period of a capture that has ended.
#[derive(Clone, Debug)]
pub struct EndedCapturePeriod {
    /// Number of the period: its start time since 1970, divided by the period length.
    pub period: i64,
    /// Facts about each stream, OUT first if there are two; `None` if no packet has been recognised at both
    /// points since the capture started.
    pub sessions: Option<Vec<Session>>,
    /// Number of packets dropped at the points; they are not included in any other count.
    pub dropped: u64,
    /// True if the period was captured from start to end.
    pub is_whole: bool,
}

/// The end of a capture.
#[derive(Debug, Default)]
pub struct CaptureEnd {
    /// Reasons for the end; empty if it was requested.
    pub reasons: Vec<String>,
}

impl Passive {
    /// Follows the traffic between two live points, the reference point first, until `stop` is requested or a point
    /// ends. Periods are `every` long and begin at multiples of `every` since 1970 on the reference clock; each packet
    /// is in the period in which it was sent.
    ///
    /// # Errors
    /// [`PassiveError`] if capturing cannot begin.
    pub fn follow_periods(
        &self,
        points: [LivePoint; 2],
        settings: &LiveSettings,
        every: Span,
        stop: &Stop,
        each: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> Result<CaptureEnd, PassiveError> {
        if matches!(self.matching, Matching::Caia { .. }) {
            return Err(PassiveError::CaiaLive);
        }
        if points[0] == points[1] {
            let [point, _] = points;
            return Err(PassiveError::SamePoint(point));
        }
        let names = points.each_ref().map(ToString::to_string);
        let same_clock = points.iter().all(LivePoint::is_here);
        let hosts: Vec<Prefix> =
            self.sides.iter().flat_map(|s| s.reference.iter().chain(&s.monitor).copied()).collect();
        let points =
            LivePoints::open(points, settings.interface, &hosts, CAPTURED_BYTES, settings.key.as_ref())?;
        each(PeriodEvent::Listening(names.each_ref().map(String::as_str)));
        let run = PeriodCapture {
            passive: self,
            every: every.max(Span(1)),
            window: self.window.unwrap_or(LIVE_MAX_TRANSIT),
            same_clock,
            stop,
            first: clock::wall().0.div_euclid(every.0.max(1)),
            clocks: CaptureClocks::read(),
            looked: clock::steady(),
            dropped: BTreeMap::new(),
            each,
        };
        Ok(run.follow(points))
    }
}

/// A capture in progress.
struct PeriodCapture<'a> {
    passive: &'a Passive,
    every: Span,
    window: Span,
    same_clock: bool,
    stop: &'a Stop,
    /// Number of the period in which the capture started.
    first: i64,
    clocks: CaptureClocks,
    looked: SteadyTime,
    /// Number of packets dropped in each period, by number of the period.
    dropped: BTreeMap<i64, u64>,
    each: &'a mut dyn FnMut(PeriodEvent<'_>),
}

impl PeriodCapture<'_> {
    fn follow(mut self, mut points: LivePoints) -> CaptureEnd {
        let mut learner = Learner::new(self.passive.sides.clone(), CAPTURED_BYTES.into(), points.salt());
        let mut next = self.first;
        let plan = loop {
            if let Some(delivery) = points.next() {
                self.count_drops(&delivery);
                learner.take(delivery);
            }
            if let Some(plan) = learner.plan(clock::steady()) {
                break plan;
            }
            if let Some(reason) = self.is_over(&points) {
                return end_of(points, reason);
            }
            next = self.wait(next);
        };
        (self.each)(PeriodEvent::Begun);
        let offset = self.passive.offset.unwrap_or(if self.same_clock { Span::ZERO } else { plan.offset });
        // These periods ended before there was a matching plan, so nothing is known about them.
        let begin = WallTime(next.saturating_mul(self.every.0));
        if next > self.first {
            learner.forget_before([begin, begin + offset]);
        }
        let clocks = (offset, self.window);
        let mut following = Following::begin(self.passive, &plan, &mut points, &learner, clocks, false);
        let mut periods = PeriodStreams::new(self.every, begin, self.window, plan.sides.clone());
        learner.into_held().for_each(|delivery| following.take(delivery));
        let mut astray = MatchWatchdog::default();
        let reason = loop {
            if let Some(reason) = self.is_over(&points) {
                break reason;
            }
            if let Some(delivery) = points.next() {
                self.count_drops(&delivery);
                following.take(delivery);
            }
            following.merger.release(&mut periods);
            periods.set_offset(following.merger.offset());
            following.namers.iter_mut().for_each(|namer| namer.facts_mut().pings.clear());
            self.hand_on(&mut periods);
            if let Some((_, horizon)) = following.merger.common() {
                while periods.is_over(horizon) {
                    self.hand_on(&mut periods);
                    self.end(&mut periods, true);
                }
            }
            let now = clock::steady();
            if now - self.looked >= CHECK_INTERVAL {
                self.looked = now;
                if astray.is_lost(&following.merger) {
                    break Some("packets pass both points, but none can be matched any more: clocks or addresses have changed".to_owned());
                }
            }
        };
        let false_losses = astray.looks > 0;
        following.end(&mut points, END_TIMEOUT);
        let end = end_of(points, reason);
        following.merger.finish(&mut periods, |periods| self.hand_on(periods));
        while periods.is_open() && !false_losses {
            self.end(&mut periods, false);
        }
        end
    }

    /// Returns `None` while the capture continues, the reason if it is over, and `Some(None)` if its end was
    /// requested.
    fn is_over(&self, points: &LivePoints) -> Option<Option<String>> {
        if self.stop.is_requested() {
            return Some(None);
        }
        if let Some(reason) = self.clocks.were_set() {
            return Some(Some(reason));
        }
        points.ended().then(|| Some(String::new()))
    }

    /// Reports the end of periods in which no packets could be matched, and returns the number of the next
    /// period.
    fn wait(&mut self, mut next: i64) -> i64 {
        let over = clock::wall() - self.window - END_TIMEOUT;
        let now = over.0.div_euclid(self.every.0);
        next = next.max(now - MAX_PERIODS_ENDED);
        while next < now {
            let dropped = self.dropped.remove(&next).unwrap_or(0);
            let is_whole = next > self.first;
            (self.each)(PeriodEvent::Ended(EndedCapturePeriod {
                period: next,
                sessions: None,
                dropped,
                is_whole,
            }));
            next += 1;
        }
        next
    }

    fn count_drops(&mut self, delivery: &PointDelivery) {
        if let CapturedBatch::Dropped(packets, _, to) = delivery.what {
            *self.dropped.entry(to.0.div_euclid(self.every.0)).or_default() += packets;
        }
    }

    /// Sends new records to the observer.
    fn hand_on(&mut self, periods: &mut PeriodStreams) {
        let fresh: Vec<PeriodRecord> = periods.records().collect();
        for part in fresh.chunk_by(|a, b| (a.period, a.direction) == (b.period, b.direction)) {
            let (period, direction) = (part[0].period, part[0].direction);
            let session = periods.session_before(period, direction);
            let records: Vec<PacketRecord> = part.iter().map(|found| found.record).collect();
            (self.each)(PeriodEvent::Records {
                period,
                session: &session,
                direction: direction as usize,
                records: &records,
            });
        }
    }

    /// Ends the next period. `over` is true if the time of this period has passed.
    fn end(&mut self, periods: &mut PeriodStreams, over: bool) {
        let EndedPeriod { period, sessions } = periods.end();
        let later = self.dropped.split_off(&(period + 1));
        let dropped = std::mem::replace(&mut self.dropped, later).into_values().sum();
        let is_whole = over && period > self.first;
        (self.each)(PeriodEvent::Ended(EndedCapturePeriod {
            period,
            sessions: Some(sessions.into()),
            dropped,
            is_whole,
        }));
    }
}

/// Closes the points and returns the reason why the capture ended.
fn end_of(points: LivePoints, reason: Option<String>) -> CaptureEnd {
    let (ends, failures) = points.close();
    let Some(reason) = reason else { return CaptureEnd::default() };
    let notes = ends.into_iter().flat_map(|PointEnd { notes, .. }| notes);
    let mut reasons: Vec<String> =
        Some(reason).into_iter().filter(|reason| !reason.is_empty()).chain(notes).collect();
    reasons.extend(failures.iter().map(ToString::to_string));
    if reasons.is_empty() {
        reasons.push("a capture point ended".to_owned());
    }
    CaptureEnd { reasons }
}

/// Detects that no packets are matched any more although packets pass in both directions at both points.
#[derive(Default)]
struct MatchWatchdog {
    before: [MatchCounts; 2],
    looks: u32,
}

impl MatchWatchdog {
    fn is_lost(&mut self, merger: &Merger) -> bool {
        let now = Direction::BOTH.map(|direction| merger.counts(direction));
        let new = |of: fn(&MatchCounts) -> u64| -> u64 {
            now.iter().zip(&self.before).map(|(now, before)| of(now) - of(before)).sum()
        };
        let matched = new(|c| c.matched);
        let unknown = now
            .iter()
            .zip(&self.before)
            .all(|(now, before)| now.unseen - before.unseen >= MIN_UNMATCHED_PACKETS);
        if matched > 0 {
            (self.before, self.looks) = (now, 0);
        } else if unknown {
            self.looks += 1;
        }
        self.looks >= MAX_CHECKS_WITHOUT_MATCH
    }
}
