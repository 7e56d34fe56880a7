//! [`PeriodStreams`]: divides the traffic of two continuously running capture points into tests, one per period. Each
//! packet that counts is in exactly one test, by the time at which it was sent. Duplicates that arrive after their
//! period was returned are not counted in any test.

use super::clocks::ClockComparison;
use super::matcher::MatchObserver;
use super::pairing::Record;
use super::streams::{DirectionFacts, StreamBuilder, StreamSink, session};
use super::survey::Sides;
use jitlat_core::record::PacketRecord;
use jitlat_core::session::{Ending, Session};
use jitlat_core::spec::Direction;
use jitlat_core::spec::MAX_PACKETS;
use jitlat_core::time::{Span, WallTime};
use std::collections::{BTreeMap, VecDeque};

/// Maximum gap between packets, in periods. A longer gap means that the clock was set: the periods in between are
/// skipped.
const MAX_EMPTY_PERIODS: i64 = 100;
/// Maximum number of windows for which a period waits for packets that are not yet settled because their identities are
/// repeated.
const MAX_WINDOWS_OPEN: i64 = 16;

/// Packets and results of both directions, by period of wall time.
#[derive(Debug)]
pub struct PeriodStreams {
    streams: StreamBuilder<Cut>,
    /// Clock comparison from the packets of each open period.
    clocks: BTreeMap<i64, ClockComparison>,
    window: Span,
    sides: [Sides; 2],
}

/// A packet that arrived, numbered within its period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodRecord {
    /// Period number of the packet.
    pub period: i64,
    /// Direction of the packet.
    pub direction: Direction,
    /// Times of the packet.
    pub record: PacketRecord,
}

/// A period that is over and whose records were all handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedPeriod {
    /// Period number, counted from 1970: start time divided by period length.
    pub period: i64,
    /// Session of each direction, OUT first.
    pub sessions: [Session; 2],
}

impl EndedPeriod {
    /// True if the period has no packets that count.
    pub fn is_idle(&self) -> bool {
        self.sessions.iter().all(|session| session.packets() == 0)
    }
}

impl PeriodStreams {
    /// Creates periods of length `every`; the first one contains `begin`. A packet is in transit for at most
    /// `window`; `sides` are the addresses as seen by each point.
    pub fn new(every: Span, begin: WallTime, window: Span, sides: [Sides; 2]) -> PeriodStreams {
        let every = every.max(Span(1));
        let first = begin.0.div_euclid(every.0);
        let cut = Cut { every, offset: Span(0), first, directions: Default::default(), fresh: Vec::new() };
        PeriodStreams { streams: StreamBuilder::new(cut), clocks: BTreeMap::new(), window, sides }
    }

    /// Sets the current clock offset: monitor clock minus reference clock.
    pub fn set_offset(&mut self, offset: Span) {
        self.streams.sink_mut().offset = offset;
    }

    /// Returns the session of a direction before its first packet, when only its two ends are known.
    pub fn session_before(&self, period: i64, direction: Direction) -> Session {
        let mut session = session(direction, &self.sides, MAX_PACKETS.into(), 0, Span(0));
        session.created = Some(self.begin_of(period));
        session.sent = None;
        session.ending = Ending::Unknown;
        session
    }

    /// Beginning of a period.
    pub fn begin_of(&self, period: i64) -> WallTime {
        WallTime(period.saturating_mul(self.streams.sink().every.0))
    }

    /// Number of the period that will end next.
    pub fn next_to_end(&self) -> i64 {
        self.streams.sink().first
    }

    /// Returns the packets that arrived since the last call.
    pub fn records(&mut self) -> std::vec::Drain<'_, PeriodRecord> {
        self.streams.sink_mut().fresh.drain(..)
    }

    /// Returns true if the next period is over. `horizon` is the time up to which both points have delivered
    /// everything. The caller then takes the [records](Self::records) and [ends](Self::end) the period.
    pub fn is_over(&mut self, horizon: WallTime) -> bool {
        let cut = self.streams.sink_mut();
        let first = cut.first;
        let now = horizon.0.div_euclid(cut.every.0);
        if now - first > MAX_EMPTY_PERIODS && cut.directions.iter().all(|direction| direction.open.is_empty())
        {
            // The clock was set: continue with the latest complete period.
            cut.first = now - 1;
            return false;
        }
        let over = WallTime((first + 1).saturating_mul(cut.every.0));
        // Allow time for duplicates: they may arrive shortly after their packet.
        let settled = over + self.window + Span::millis(100);
        let is_open = |direction: Direction| {
            self.streams.waits(direction) && !self.streams.sink().is_passed(direction, first)
        };
        let latest = over + Span(self.window.0.saturating_mul(MAX_WINDOWS_OPEN));
        if horizon < settled || horizon < latest && Direction::BOTH.into_iter().any(is_open) {
            return false;
        }
        self.streams.hand_on_numbered();
        true
    }

    /// True if the next period or a later one has packets.
    pub fn is_open(&self) -> bool {
        self.streams.sink().directions.iter().any(|direction| !direction.open.is_empty())
    }

    /// Ends the next period, even if it is not over.
    pub fn end(&mut self) -> EndedPeriod {
        let period = self.streams.sink().first;
        let later = self.clocks.split_off(&(period + 1));
        // Packets matched before this period describe the same clocks: use them if this period has none.
        let clocks = std::mem::replace(&mut self.clocks, later).into_values().next_back().unwrap_or_default();
        let difference = clocks.difference();
        let begin = self.begin_of(period);
        let cut = self.streams.sink_mut();
        cut.first += 1;
        let sessions = Direction::BOTH.map(|direction| {
            let open = &mut cut.directions[direction as usize].open;
            let facts =
                open.pop_front_if(|own| own.period <= period).map(|own| own.facts).unwrap_or_default();
            let mut session = facts.session(direction, &self.sides, &difference);
            // A period without packets has no first packet that defines its beginning.
            session.created.get_or_insert(begin);
            session
        });
        EndedPeriod { period, sessions }
    }
}

impl MatchObserver for PeriodStreams {
    fn arrived(&mut self, seq: u64, r: Record, copy: bool) {
        if !copy {
            let cut = self.streams.sink();
            let period = r.reference.0.div_euclid(cut.every.0).max(cut.first);
            self.clocks.entry(period).or_default().push(&r);
        }
        self.streams.arrived(seq, r, copy);
    }

    fn lost(&mut self, direction: Direction, seq: u64, sent: WallTime, flow: u32) {
        self.streams.lost(direction, seq, sent, flow);
    }

    fn void(&mut self, direction: Direction, seq: u64) {
        self.streams.void(direction, seq);
    }
}

/// Divides a stream into periods and numbers the packets of each from 0.
#[derive(Debug)]
struct Cut {
    every: Span,
    offset: Span,
    /// First period that is not over.
    first: i64,
    directions: [CutDirection; 2],
    fresh: Vec<PeriodRecord>,
}

#[derive(Debug, Default)]
struct CutDirection {
    counted: u64,
    /// Periods with packets, ascending.
    open: VecDeque<DirectionPeriod>,
}

#[derive(Debug)]
struct DirectionPeriod {
    period: i64,
    /// Position of the period's first packet in the whole stream.
    begins: u64,
    facts: DirectionFacts,
}

impl Cut {
    /// True if packets of a later period have been numbered.
    fn is_passed(&self, direction: Direction, period: i64) -> bool {
        self.directions[direction as usize].open.back().is_some_and(|last| last.period > period)
    }
}

impl StreamSink for Cut {
    fn counted(&mut self, direction: Direction, sent: WallTime) {
        let common = match direction {
            Direction::Up => sent,
            Direction::Down => sent - self.offset,
        };
        let own = &mut self.directions[direction as usize];
        // Numbers ascend with time. After a clock was set back, packets stay in the latest period.
        let least = own.open.back().map_or(self.first, |last| last.period);
        let period = common.0.div_euclid(self.every.0).max(least);
        if own.open.back().is_none_or(|last| last.period < period) {
            own.open.push_back(DirectionPeriod {
                period,
                begins: own.counted,
                facts: DirectionFacts::default(),
            });
        }
        own.counted += 1;
        if let Some(last) = own.open.back_mut() {
            last.facts.sent += 1;
            last.facts.saw(sent);
        }
    }

    fn record(&mut self, direction: Direction, record: &PacketRecord) {
        let open = &mut self.directions[direction as usize].open;
        let number = record.seq.unsigned_abs();
        // A duplicate of a packet whose period was already returned belongs to no period.
        let Some(own) = open.iter_mut().rev().find(|own| own.begins <= number) else { return };
        own.facts.arrived += 1;
        own.facts.bytes += record.size().map_or(0, u64::from);
        let mut record = *record;
        record.seq = (number - own.begins) as i64;
        self.fresh.push(PeriodRecord { period: own.period, direction, record });
    }
}

#[cfg(test)]
mod tests;
