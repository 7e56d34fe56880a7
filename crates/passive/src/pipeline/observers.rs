//! [`MatchObservers`]: all observers of the matcher that were requested.

use super::offset_steps::{MatchEvent, Next, OffsetSteps, PointStep};
use crate::matcher::MatchObserver;
use crate::{
    CapturePart, CapturePoint, FlowAnalyzer, PairEstimator, RatedPair, Record, StreamBuilder, StreamSink,
};
use jitlat_core::spec::Direction;
use jitlat_core::time::WallTime;

/// Observers of the matcher. Statistics are always computed, the rest only if requested.
#[derive(Debug)]
pub struct MatchObservers<S> {
    /// Pairs and statistics.
    pub estimator: PairEstimator,
    /// Streams of records in both directions; `None` if not requested.
    pub streams: Option<StreamBuilder<S>>,
    /// Results of each flow; `None` if not requested.
    pub flows: Option<FlowAnalyzer>,
    /// Matched packets that the caller has not taken yet, in arrival order; `None` if not requested.
    pub matched: Option<Vec<Record>>,
    /// Packets of one part, in the order of the monitor's clock, to be joined with other parts; `None` if not
    /// requested.
    pub part: Option<(CapturePart, Vec<Record>)>,
    /// Search for steps of the clocks of both points.
    pub offsets: OffsetSteps,
}

impl<S: StreamSink> MatchObservers<S> {
    /// Creates observers for statistics only.
    pub fn new(estimator: PairEstimator) -> MatchObservers<S> {
        MatchObservers {
            estimator,
            streams: None,
            flows: None,
            matched: None,
            part: None,
            offsets: OffsetSteps::default(),
        }
    }

    /// Removes and returns the pairs made since the last call.
    pub fn take_pairs(&mut self) -> impl Iterator<Item = RatedPair> + '_ {
        self.estimator.take_pairs()
    }

    /// Adds a matched packet without a number, as produced by the CAIA tool's matching.
    pub fn packet(&mut self, r: &Record) {
        self.estimator.packet(r);
        if let Some(m) = &mut self.matched {
            m.push(*r);
        }
    }

    /// Steps of the clocks found so far. The results are corrected for them.
    pub fn clock_steps(&self) -> &[PointStep] {
        &self.offsets.steps
    }

    /// Passes on the events that are held because a clock may have been set.
    pub fn settle(&mut self) {
        let events = self.offsets.finish();
        events.into_iter().for_each(|event| self.pass(event));
    }

    #[cold]
    fn take(&mut self, event: MatchEvent) {
        match self.offsets.take(event) {
            Next::Pass(event) => self.pass(event),
            Next::Held => {}
            Next::Release(events) => events.into_iter().for_each(|event| self.pass(event)),
        }
    }

    #[inline]
    fn pass_record(&mut self, r: Record) {
        self.estimator.record(r);
        if let Some(f) = &mut self.flows {
            f.record(r);
        }
        if let Some((part, kept)) = &mut self.part
            && part.contains(CapturePoint::Monitor, r.monitor)
        {
            kept.push(r);
        }
    }

    #[inline]
    fn pass_arrived(&mut self, seq: u64, r: Record, copy: bool) {
        self.estimator.arrived(seq, r, copy);
        if let Some(s) = &mut self.streams {
            s.arrived(seq, r, copy);
        }
        if let Some(f) = &mut self.flows {
            f.arrived(seq, r, copy);
        }
        if let (Some(m), false) = (&mut self.matched, copy) {
            m.push(r);
        }
    }

    fn pass(&mut self, event: MatchEvent) {
        match event {
            MatchEvent::Record(r) => self.pass_record(r),
            MatchEvent::Arrived(seq, r, copy) => self.pass_arrived(seq, r, copy),
            MatchEvent::Lost(direction, seq, sent, flow) => {
                if let Some(s) = &mut self.streams {
                    s.lost(direction, seq, sent, flow);
                }
                if let Some(f) = &mut self.flows {
                    f.lost(direction, seq, sent, flow);
                }
            }
            MatchEvent::Void(direction, seq) => {
                if let Some(s) = &mut self.streams {
                    s.void(direction, seq);
                }
            }
        }
    }
}

impl<S: StreamSink> MatchObserver for MatchObservers<S> {
    #[inline]
    fn record(&mut self, r: Record) {
        match self.offsets.is_idle() {
            true => self.pass_record(r),
            false => self.take(MatchEvent::Record(r)),
        }
    }

    #[inline]
    fn arrived(&mut self, seq: u64, r: Record, copy: bool) {
        match self.offsets.passes(&r, copy) {
            true => self.pass_arrived(seq, r, copy),
            false => self.take(MatchEvent::Arrived(seq, r, copy)),
        }
    }

    fn lost(&mut self, direction: Direction, seq: u64, sent: WallTime, flow: u32) {
        self.take(MatchEvent::Lost(direction, seq, sent, flow));
    }

    fn void(&mut self, direction: Direction, seq: u64) {
        self.take(MatchEvent::Void(direction, seq));
    }
}

#[cfg(test)]
mod tests;
