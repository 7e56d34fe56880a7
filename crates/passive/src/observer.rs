//! [`CaptureObserver`]: receives the events of an analysis of captured traffic, [`CaptureEvent`]s.
//!
//! Captured packets become two streams, OUT and IN. Their [`Event`]s are the same as those of all other
//! instruments and are contained in [`CaptureEvent::Stream`], so that a log writer or an analysis needs no
//! knowledge of captures: [`StreamObserver`] passes these events to it.

use crate::tcp::DirectedEvent;
use crate::{MatchPlan, RatedPair, Record};
use jitlat_core::observer::{Event, Observer, Unobserved};

/// An event of an analysis of captured traffic. Order: `Listening` (live points only), `Planned`, then `Pairs`,
/// `Matched` and the `Started` and `Records` of both streams as they occur, finally the `Finished` of both
/// streams.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CaptureEvent<'a> {
    /// Capturing has started; names of the reference and the monitor point.
    Listening([&'a str; 2]),
    /// The plan for matching was made: it contains the addresses whose packets are matched, and the rule that
    /// identifies packets.
    Planned(&'a MatchPlan),
    /// New round trips of captured traffic.
    Pairs(&'a [RatedPair]),
    /// Captured packets recognised at both points, in the order of their arrival, without duplicates.
    Matched(&'a [Record]),
    /// Events of captured TCP segments, in order.
    Tcp(&'a [DirectedEvent]),
    /// An event of the two streams: OUT is number 0, IN is number 1.
    Stream(Event<'a>),
}

/// Receives the events of an analysis of captured traffic. All calls come from the thread that called the
/// instrument.
///
/// A closure is an observer, and so is an array of observers: each event goes to all of them, in
/// order.
pub trait CaptureObserver {
    /// Receives an event.
    fn capture_event(&mut self, event: &CaptureEvent<'_>);
}

impl<F: FnMut(&CaptureEvent<'_>)> CaptureObserver for F {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        self(event);
    }
}

impl<const N: usize> CaptureObserver for [&mut dyn CaptureObserver; N] {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        self.iter_mut().for_each(|observer| observer.capture_event(event));
    }
}

impl<O: CaptureObserver> CaptureObserver for Option<O> {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        if let Some(observer) = self {
            observer.capture_event(event);
        }
    }
}

impl CaptureObserver for Unobserved {
    fn capture_event(&mut self, _: &CaptureEvent<'_>) {}
}

/// Passes the events of the two streams, and no others, to an [`Observer`].
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamObserver<O>(pub O);

impl<O: Observer> CaptureObserver for StreamObserver<O> {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        if let CaptureEvent::Stream(event) = event {
            self.0.event(event);
        }
    }
}

/// Returns an [`Observer`] that passes its events to `observer`, as events of the two streams.
pub fn of_streams(observer: &mut dyn CaptureObserver) -> impl Observer + '_ {
    |event: &Event<'_>| observer.capture_event(&CaptureEvent::Stream(*event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_observer_sees_every_event_and_streams_reach_observers_of_streams() {
        let (mut all, mut streams) = (0, Vec::new());
        {
            let mut count = |_: &CaptureEvent<'_>| all += 1;
            let mut of_stream = StreamObserver(Some(|event: &Event<'_>| {
                if let Event::Missed { stream, packets } = *event {
                    streams.push((stream, packets));
                }
            }));
            let mut both: [&mut dyn CaptureObserver; 2] = [&mut count, &mut of_stream];
            both.capture_event(&CaptureEvent::Listening(["near", "far"]));
            of_streams(&mut both).event(&Event::Missed { stream: 1, packets: 3 });
            both.capture_event(&CaptureEvent::Pairs(&[]));
        }
        assert_eq!((all, streams), (3, vec![(1, 3)]));
    }
}
