//! [`PeriodStreams`]: two capture points that never end, as one test a period. Each packet that counts is in exactly one of them, by when it was
//! sent; only copies that come after its period was handed out are in none.

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

/// After a time that is longer than this many periods nothing is handed out for those in between: the clock was set.
const MAX_EMPTY_PERIODS: i64 = 100;
/// A period waits so many windows for packets whose fate is open, because their names repeat.
const MAX_WINDOWS_OPEN: i64 = 16;

/// Packets, and what is known of them, of both ways in periods of wall time.
#[derive(Debug)]
pub struct PeriodStreams {
    streams: StreamBuilder<Cut>,
    /// The clocks by the packets of each period that is open.
    clocks: BTreeMap<i64, ClockComparison>,
    window: Span,
    sides: [Sides; 2],
}

/// A packet that arrived, numbered within its period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodRecord {
    /// The number of its period.
    pub period: i64,
    /// Its way.
    pub direction: Direction,
    /// Its times.
    pub record: PacketRecord,
}

/// A period that is over: all its records were handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedPeriod {
    /// Its number: it begins so many lengths of a period after 1970.
    pub period: i64,
    /// What is known of each way, OUT first.
    pub sessions: [Session; 2],
}

impl EndedPeriod {
    /// Whether no packet counts in it.
    pub fn is_idle(&self) -> bool {
        self.sessions.iter().all(|session| session.packets() == 0)
    }
}

impl PeriodStreams {
    /// Periods of the length `every`, of which the first is that of `begin`. Packets are under way for at most `window`; `sides` as each
    /// point sees them.
    pub fn new(every: Span, begin: WallTime, window: Span, sides: [Sides; 2]) -> PeriodStreams {
        let every = every.max(Span(1));
        let first = begin.0.div_euclid(every.0);
        let cut = Cut { every, offset: Span(0), first, directions: Default::default(), fresh: Vec::new() };
        PeriodStreams { streams: StreamBuilder::new(cut), clocks: BTreeMap::new(), window, sides }
    }

    /// Follows the clocks: monitor clock minus reference clock.
    pub fn set_offset(&mut self, offset: Span) {
        self.streams.sink_mut().offset = offset;
    }

    /// The session of a way of which nothing is known yet but its ends.
    pub fn session_before(&self, period: i64, direction: Direction) -> Session {
        let mut session = session(direction, &self.sides, MAX_PACKETS.into(), 0, Span(0));
        session.created = Some(self.begin_of(period));
        session.sent = None;
        session.ending = Ending::Unknown;
        session
    }

    /// When a period begins.
    pub fn begin_of(&self, period: i64) -> WallTime {
        WallTime(period.saturating_mul(self.streams.sink().every.0))
    }

    /// The period that is the next to end.
    pub fn next_to_end(&self) -> i64 {
        self.streams.sink().first
    }

    /// Packets that have arrived since the last call.
    pub fn records(&mut self) -> std::vec::Drain<'_, PeriodRecord> {
        self.streams.sink_mut().fresh.drain(..)
    }

    /// Whether the next period is over, given the time up to which both points have delivered everything. Then take the
    /// [records](Self::records), and [end](Self::end) it.
    pub fn is_over(&mut self, horizon: WallTime) -> bool {
        let cut = self.streams.sink_mut();
        let first = cut.first;
        let now = horizon.0.div_euclid(cut.every.0);
        if now - first > MAX_EMPTY_PERIODS && cut.directions.iter().all(|direction| direction.open.is_empty())
        {
            cut.first = now - 1;
            return false;
        }
        let over = WallTime((first + 1).saturating_mul(cut.every.0));
        // A copy may follow its packet for a moment.
        let settled = over + self.window + Span::millis(100);
        let is_open = |direction: Direction| {
            self.streams.waits(direction) && !self.streams.sink().is_passed(direction, first)
        };
        let patient = over + Span(self.window.0.saturating_mul(MAX_WINDOWS_OPEN));
        if horizon < settled || horizon < patient && Direction::BOTH.into_iter().any(is_open) {
            return false;
        }
        self.streams.hand_on_numbered();
        true
    }

    /// Whether packets count in the next period or later.
    pub fn is_open(&self) -> bool {
        self.streams.sink().directions.iter().any(|direction| !direction.open.is_empty())
    }

    /// Ends the next period, whether it is over or not.
    pub fn end(&mut self) -> EndedPeriod {
        let period = self.streams.sink().first;
        let later = self.clocks.split_off(&(period + 1));
        // What matched before its time is of the clocks of this period, too.
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

/// Numbers the packets of each period anew.
#[derive(Debug)]
struct Cut {
    every: Span,
    offset: Span,
    /// The first period that is not over.
    first: i64,
    directions: [CutDirection; 2],
    fresh: Vec<PeriodRecord>,
}

#[derive(Debug, Default)]
struct CutDirection {
    counted: u64,
    /// Ascending; only periods with packets.
    open: VecDeque<DirectionPeriod>,
}

#[derive(Debug)]
struct DirectionPeriod {
    period: i64,
    /// The number of its first packet among all.
    begins: u64,
    facts: DirectionFacts,
}

impl Cut {
    /// Whether packets of a later period than this have numbers.
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
        // Numbers ascend with time, but for what a clock that is set back makes of it.
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
        // A copy of a packet whose period was handed out has none.
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
