//! [`join`]: matches the sightings of two points, read one by one.

use super::MatchObservers;
use crate::matcher::MatchObserver;
use crate::{CaiaMatcher, CaiaPairer, CapturePoint, MatchCounts, Matcher, Sighting, StreamSink};
use core::ops::ControlFlow;
use jitlat_core::spec::Direction;
use jitlat_core::time::WallTime;

/// Number of sightings joined in a round.
const SIGHTINGS_PER_ROUND: usize = 1024;

/// Sightings of one point, in the order of its clock.
pub trait SightingSource {
    /// Returns the next sighting without consuming it; `None` after the last. May block.
    fn peek(&mut self) -> Option<Sighting>;

    /// Consumes the sighting last peeked at.
    fn advance(&mut self);

    /// First and last timestamp of anything captured so far; `None` if nothing was captured.
    fn span(&self) -> Option<(WallTime, WallTime)>;
}

/// Matches all sightings of the reference and the monitor point. `after_round` is called with the observer, regularly
/// and at the end; its result may stop the join.
pub fn join<O: MatchObserver>(
    mut matcher: Matcher,
    [reference, monitor]: &mut [impl SightingSource; 2],
    observer: &mut O,
    mut after_round: impl FnMut(&mut O) -> ControlFlow<()>,
) -> [MatchCounts; 2] {
    loop {
        let (mut r, mut m) = (reference.peek(), monitor.peek());
        for (point, span) in
            [(CapturePoint::Reference, reference.span()), (CapturePoint::Monitor, monitor.span())]
        {
            if let Some((from, to)) = span {
                matcher.covers(point, from);
                matcher.covers(point, to);
            }
        }
        let mut ended = false;
        // Continue as long as neither source needs a new batch.
        for _ in 0..SIGHTINGS_PER_ROUND {
            let first = match (r, m) {
                (Some(r), Some(m)) => r.at <= m.at - matcher.offset(),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => {
                    ended = true;
                    break;
                }
            };
            if first {
                if let Some(s) = r {
                    matcher.push(CapturePoint::Reference, s, observer);
                }
                reference.advance();
                r = reference.peek();
            } else {
                if let Some(s) = m {
                    matcher.push(CapturePoint::Monitor, s, observer);
                }
                monitor.advance();
                m = monitor.peek();
            }
        }
        if ended {
            break;
        }
        if after_round(observer).is_break() {
            break;
        }
    }
    matcher.finish(observer);
    // Ignored: the join is over, so there is nothing to stop.
    let _ = after_round(observer);
    Direction::BOTH.map(|w| matcher.counts(w))
}

/// Matches the sightings as the CAIA tool does.
pub fn join_like_caia<S: StreamSink>(
    mut matcher: CaiaMatcher,
    [reference, monitor]: &mut [impl SightingSource; 2],
    observers: &mut MatchObservers<S>,
    mut after_round: impl FnMut(&mut MatchObservers<S>) -> ControlFlow<()>,
) -> [MatchCounts; 2] {
    let mut pairer = CaiaPairer::default();
    let mut searched = 0;
    while let Some(m) = monitor.peek() {
        monitor.advance();
        while let Some(r) = reference.peek().filter(|r| matcher.wants_reference(&m, r.at)) {
            matcher.reference(r);
            reference.advance();
        }
        if let Some(record) = matcher.monitor(m) {
            observers.packet(&record);
            if let Some(pair) = pairer.push(record) {
                observers.estimator.pair(pair);
            }
        }
        searched += 1;
        if searched % SIGHTINGS_PER_ROUND == 0 && after_round(observers).is_break() {
            break;
        }
    }
    // Ignored: the join is over, so there is nothing to stop.
    let _ = after_round(observers);
    while let Some(r) = reference.peek() {
        matcher.reference(r);
        reference.advance();
    }
    Direction::BOTH.map(|direction| MatchCounts {
        seen_at_reference: matcher.seen(CapturePoint::Reference, direction),
        seen_at_monitor: matcher.seen(CapturePoint::Monitor, direction),
        matched: matcher.matched(direction),
        ..MatchCounts::default()
    })
}

#[cfg(test)]
mod tests;
