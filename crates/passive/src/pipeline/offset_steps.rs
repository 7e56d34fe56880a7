//! [`OffsetSteps`]: finds the moments at which the clock of one of two points was set, and corrects later times.
//!
//! The difference between the two times of a packet, monitor minus reference, contains the clock offset with the same
//! sign in both directions, and the delay with opposite signs. A clock that is set changes the difference in both
//! directions by the same amount; a queue or another route does not. After a change, events are held until it is
//! decided whether a clock was set.

use crate::{CapturePoint, Record};
use jitlat_core::spec::Direction;
use jitlat_core::time::{SECOND, Span, WallTime};
use serde::Serialize;

/// Number of latest packets of each direction with which the next packet is compared.
const RECENT: usize = 32;
/// Minimum number of packets of a direction for this comparison.
const MIN_RECENT: usize = 8;
/// Smallest change, in ns, that is examined.
const MIN_CHANGE: i64 = 2_000_000;
/// Number of consecutive packets of a direction that confirm a change, or its end.
const ROW: usize = 3;
/// Number of unchanged packets of the other direction after which a change is not attributed to a clock.
const UNCHANGED: usize = 64;
/// Maximum number of held events.
const MAX_HELD: usize = 1024;
/// Longest time, in ns, for which events are held while the other direction is unchanged.
const MAX_DECISION_AGE: i64 = 5 * SECOND;
/// Maximum number of steps that are corrected.
const MAX_STEPS: usize = 64;

/// Step of the clock of one of two points: the clock was set while both recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointStep {
    /// Point whose clock was set.
    pub point: CapturePoint,
    /// Time of the step on the clock of the point, in ns since 1970: the last time before it, or the first one after
    /// it.
    pub at: WallTime,
    /// Change of the clock, in ns; positive if it was set forward.
    pub by_ns: Span,
    /// Largest error of `by_ns`, in ns: from the difference between the directions, and the variation of the delay; null
    /// if unknown.
    pub error_ns: Option<Span>,
}

/// An event of the matcher.
#[derive(Clone, Copy, Debug)]
pub(super) enum MatchEvent {
    Record(Record),
    Arrived(u64, Record, bool),
    Lost(Direction, u64, WallTime, u32),
    Void(Direction, u64),
}

/// Latest differences between the two times of the packets of one direction, in ns.
#[derive(Debug)]
struct Recent {
    ring: [i64; RECENT],
    next: usize,
    count: usize,
    /// Smallest and largest difference, recomputed from the ring each time it has been filled.
    bounds: (i64, i64),
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { ring: [0; RECENT], next: 0, count: 0, bounds: (i64::MAX, i64::MIN) }
    }
}

impl Recent {
    #[inline]
    fn push(&mut self, difference: i64) {
        self.ring[self.next % RECENT] = difference;
        self.next = (self.next + 1) % RECENT;
        self.count += 1;
        self.bounds = (self.bounds.0.min(difference), self.bounds.1.max(difference));
        if self.next == 0 {
            self.bounds = bounds(&self.ring);
        }
    }

    fn values(&self) -> &[i64] {
        &self.ring[..self.count.min(RECENT)]
    }

    /// Returns how far a difference is above (positive) or below (negative) the recent ones, in ns; 0 if it is among
    /// them or near them.
    #[inline]
    fn beyond(&self, difference: i64) -> i64 {
        let (low, high) = self.bounds;
        let margin = MIN_CHANGE.max(high.saturating_sub(low));
        match () {
            () if difference > high.saturating_add(margin) => difference.saturating_sub(high),
            () if difference < low.saturating_sub(margin) => difference.saturating_sub(low),
            () => 0,
        }
    }
}

fn bounds(values: &[i64]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(low, high), v| (low.min(*v), high.max(*v)))
}

fn median(values: &[i64]) -> Option<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

fn difference(r: &Record) -> i64 {
    r.monitor.0.saturating_sub(r.reference.0)
}

/// Finds and corrects steps of the clocks of two points.
#[derive(Debug, Default)]
pub struct OffsetSteps {
    recent: [Recent; 2],
    /// Latest packet of each direction that was passed on.
    latest: [Option<Record>; 2],
    held: Vec<MatchEvent>,
    pub(super) steps: Vec<PointStep>,
}

/// Result of taking an event.
pub(super) enum Next {
    /// The event is to be passed on.
    Pass(MatchEvent),
    /// The event is held.
    Held,
    /// These events, which were held, are to be passed on.
    Release(Vec<MatchEvent>),
}

impl OffsetSteps {
    /// Returns the steps that the records of both directions show, in order of time.
    pub(crate) fn of(records: &[Record]) -> Vec<PointStep> {
        let mut found = OffsetSteps::default();
        for record in records {
            found.take(MatchEvent::Arrived(0, *record, false));
        }
        found.finish();
        found.steps
    }

    /// True if no clock was set so far, and no event is held: events other than arrivals are passed on unchanged.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.held.is_empty()
    }

    /// Counts a packet that arrived, and returns true if it needs no correction or examination; otherwise returns false,
    /// and the packet must be passed to [`Self::take`].
    #[inline]
    pub(super) fn passes(&mut self, r: &Record, copy: bool) -> bool {
        if !self.is_idle() {
            return false;
        }
        let (change, recent) = (difference(r), &mut self.recent[r.direction as usize]);
        if !copy {
            if recent.count >= MIN_RECENT && recent.beyond(change) != 0 {
                return false;
            }
            recent.push(change);
            self.latest[r.direction as usize] = Some(*r);
        }
        true
    }

    /// Takes the next event of the matcher.
    pub(super) fn take(&mut self, event: MatchEvent) -> Next {
        let event = if self.steps.is_empty() { event } else { self.corrected(event) };
        if !self.held.is_empty() {
            return self.hold(event);
        }
        if let MatchEvent::Arrived(_, r, false) = &event {
            let (change, recent) = (difference(r), &mut self.recent[r.direction as usize]);
            if recent.count >= MIN_RECENT && recent.beyond(change) != 0 {
                return self.suspect(event);
            }
            recent.push(change);
            self.latest[r.direction as usize] = Some(*r);
        }
        Next::Pass(event)
    }

    /// Returns the events that are still held.
    pub(super) fn finish(&mut self) -> Vec<MatchEvent> {
        self.decide()
    }

    #[cold]
    fn suspect(&mut self, event: MatchEvent) -> Next {
        let knows_both = self.recent.iter().all(|recent| recent.count >= MIN_RECENT);
        if !knows_both || self.steps.len() >= MAX_STEPS {
            if let MatchEvent::Arrived(_, r, _) = &event {
                self.recent[r.direction as usize].push(difference(r));
            }
            return Next::Pass(event);
        }
        self.hold(event)
    }

    #[cold]
    fn hold(&mut self, event: MatchEvent) -> Next {
        self.held.push(event);
        if !matches!(event, MatchEvent::Arrived(_, _, false)) && self.held.len() < MAX_HELD {
            return Next::Held;
        }
        if self.is_decided() { Next::Release(self.decide()) } else { Next::Held }
    }

    /// Returns the held packets that arrived, each with the result of [`Recent::beyond`] for its difference.
    fn arrived(&self) -> impl DoubleEndedIterator<Item = (Record, i64)> + '_ {
        self.held.iter().filter_map(|event| match event {
            MatchEvent::Arrived(_, r, false) => {
                Some((*r, self.recent[r.direction as usize].beyond(difference(r))))
            }
            _ => None,
        })
    }

    fn is_decided(&self) -> bool {
        let Some((first, change)) = self.arrived().next() else { return true };
        let up = change > 0;
        let row = |direction: Direction, changed: bool| {
            let latest = self.arrived().rev().filter(|(r, _)| r.direction == direction);
            latest.take_while(|(_, c)| (*c != 0 && (*c > 0) == up) == changed).count()
        };
        let other = match first.direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        let age =
            self.arrived().next_back().map_or(0, |(r, _)| (r.monitor - first.monitor).0.saturating_abs());
        let unchanged = row(other, false);
        row(first.direction, true) >= ROW && row(other, true) >= ROW
            || row(first.direction, false) >= ROW
            || unchanged >= UNCHANGED
            || unchanged >= ROW && age > MAX_DECISION_AGE
            || self.held.len() >= MAX_HELD
    }

    /// Ends the examination: finds the step, if there is one, and returns the held events, corrected for the step.
    fn decide(&mut self) -> Vec<MatchEvent> {
        let step = self.find();
        let mut events = std::mem::take(&mut self.held);
        if let Some((step, sign)) = step {
            let changed = |r: &Record, recent: &[Recent; 2]| {
                let beyond = recent[r.direction as usize].beyond(difference(r));
                beyond != 0 && (beyond > 0) == sign
            };
            for event in &mut events {
                match event {
                    MatchEvent::Record(r) | MatchEvent::Arrived(_, r, _) if changed(r, &self.recent) => {
                        *time_at(step.point, r) =
                            WallTime(time_at(step.point, r).0.saturating_sub(step.by_ns.0));
                    }
                    MatchEvent::Lost(direction, _, sent, _) => correct_sent(&step, *direction, sent),
                    _ => {}
                }
            }
            self.steps.push(step);
        }
        for event in &events {
            if let MatchEvent::Arrived(_, r, false) = event {
                self.recent[r.direction as usize].push(difference(r));
                self.latest[r.direction as usize] = Some(*r);
            }
        }
        events
    }

    /// Returns the step that the held packets show, and true if it makes the differences larger; `None` if they show no
    /// step.
    fn find(&self) -> Option<(PointStep, bool)> {
        let (_, change) = self.arrived().next()?;
        let sign = change > 0;
        let is_changed = |c: i64| c != 0 && (c > 0) == sign;
        let mut sizes = [0; 2];
        let mut variation = 0;
        for direction in Direction::BOTH {
            let recent = &self.recent[direction as usize];
            let changed: Vec<i64> = self
                .arrived()
                .filter(|(r, c)| r.direction == direction && is_changed(*c))
                .map(|(r, _)| difference(&r))
                .collect();
            let last = self.arrived().rev().filter(|(r, _)| r.direction == direction).take(ROW);
            if changed.len() < ROW || last.into_iter().any(|(_, c)| !is_changed(c)) {
                return None;
            }
            sizes[direction as usize] = median(&changed)?.saturating_sub(median(recent.values())?);
            variation = variation.max(recent.bounds.1.saturating_sub(recent.bounds.0));
        }
        let [a, b] = sizes;
        let by = a / 2 + b / 2;
        if a.saturating_sub(b).saturating_abs() > MIN_CHANGE.max(variation).max(by.saturating_abs() / 4) {
            return None;
        }
        let point = self.stepped(is_changed);
        let after = self.arrived().filter(|(_, c)| is_changed(*c));
        let at = after.map(|(mut r, _)| *time_at(point, &mut r)).min()?;
        let by = if point == CapturePoint::Monitor { by } else { by.saturating_neg() };
        let error = a.saturating_sub(b).saturating_abs() / 2 + variation;
        Some((PointStep { point, at, by_ns: Span(by), error_ns: Some(Span(error)) }, sign))
    }

    /// Returns the point whose clock was set: the one whose time between the last packet before the step and the first
    /// packet after it differs more from the usual time between packets.
    fn stepped(&self, is_changed: impl Fn(i64) -> bool) -> CapturePoint {
        let mut odd = [0i64; 2];
        for direction in Direction::BOTH {
            let of = |changed: bool| {
                let list =
                    self.arrived().filter(|(r, c)| r.direction == direction && is_changed(*c) == changed);
                list.map(|(r, _)| r).collect::<Vec<Record>>()
            };
            let (before, after) = (of(false), of(true));
            let Some((last, first)) =
                before.last().copied().or(self.latest[direction as usize]).zip(after.first())
            else {
                continue;
            };
            let pauses: Vec<i64> = after.windows(2).map(|w| (w[1].reference - w[0].reference).0).collect();
            let usual = median(&pauses).unwrap_or(0);
            for (odd, pause) in
                odd.iter_mut().zip([first.reference - last.reference, first.monitor - last.monitor])
            {
                *odd = odd.saturating_add(pause.0.saturating_sub(usual).saturating_abs());
            }
        }
        if odd[0] > odd[1] { CapturePoint::Reference } else { CapturePoint::Monitor }
    }

    /// Corrects the times of an event by the steps so far.
    #[cold]
    fn corrected(&self, mut event: MatchEvent) -> MatchEvent {
        for step in &self.steps {
            match &mut event {
                MatchEvent::Record(r) | MatchEvent::Arrived(_, r, _) => {
                    let at = time_at(step.point, r);
                    if *at >= step.at {
                        *at = WallTime(at.0.saturating_sub(step.by_ns.0));
                    }
                }
                MatchEvent::Lost(direction, _, sent, _) => correct_sent(step, *direction, sent),
                MatchEvent::Void(..) => {}
            }
        }
        event
    }
}

fn time_at(point: CapturePoint, r: &mut Record) -> &mut WallTime {
    match point {
        CapturePoint::Reference => &mut r.reference,
        CapturePoint::Monitor => &mut r.monitor,
    }
}

fn correct_sent(step: &PointStep, direction: Direction, sent: &mut WallTime) {
    if step.point.is_source(direction) && *sent >= step.at {
        *sent = WallTime(sent.0.saturating_sub(step.by_ns.0));
    }
}

#[cfg(test)]
mod tests;
