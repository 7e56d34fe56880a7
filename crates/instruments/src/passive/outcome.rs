//! [`PassiveOutcome`]: the result of a passive measurement.

use super::error::PassiveError;
use super::records::DirectionRecords;
use super::settings::{Matching, Passive};
use jitlat_core::spec::Direction;
use jitlat_core::{Session, Span};
use jitlat_passive::pipeline::{CaptureFacts, MatchObservers, SharedFlowNumbers};
use jitlat_passive::{CaptureEvent, CaptureObserver, of_streams};
use jitlat_passive::{
    CapturePart, FlowAnalyzer, IdentityRule, MatchCounts, MatchPlan, PairEstimator, PartState, PassiveResult,
    StreamBuilder,
};

/// The result of a passive measurement.
#[derive(Debug)]
pub struct PassiveOutcome {
    /// Figures and the settings with which they were obtained.
    pub result: PassiveResult,
    /// Sessions of both directions, OUT first; empty unless [`Passive::records`] is set.
    pub sessions: Vec<Session>,
    /// State for joining the results of this part with those of other parts; `None` unless
    /// [`TimePart::state`](super::TimePart::state) is set.
    pub part: Option<PartState>,
    /// Errors of points that failed before the end, which explain missing parts of the result.
    pub failures: Vec<PassiveError>,
}

/// Result of matching all packets.
pub(super) struct MatchedCaptures {
    pub(super) plan: MatchPlan,
    pub(super) identity: IdentityRule,
    pub(super) window: Span,
    pub(super) captures: [CaptureFacts; 2],
    pub(super) counts: [MatchCounts; 2],
    pub(super) numbers: SharedFlowNumbers,
    pub(super) failures: Vec<PassiveError>,
}

/// Sends everything found since the last call to `observer`.
pub(super) fn forward(observers: &mut MatchObservers<DirectionRecords>, observer: &mut dyn CaptureObserver) {
    if !observers.estimator.pairs().is_empty() {
        observer.capture_event(&CaptureEvent::Pairs(observers.estimator.pairs()));
        observers.estimator.take_pairs();
    }
    if let Some(matched) = &mut observers.matched
        && !matched.is_empty()
    {
        observer.capture_event(&CaptureEvent::Matched(matched));
        matched.clear();
    }
    if let Some(streams) = &mut observers.streams {
        streams.sink_mut().forward(&mut of_streams(observer));
    }
}

impl Passive {
    /// Returns the matcher's observers that the settings require.
    pub(super) fn observers(
        &self,
        plan: &MatchPlan,
        part: Option<CapturePart>,
    ) -> MatchObservers<DirectionRecords> {
        let is_caia = matches!(self.matching, Matching::Caia { .. });
        let streams = self.records && !is_caia;
        MatchObservers {
            streams: streams.then(|| StreamBuilder::new(DirectionRecords::new(&plan.sides))),
            flows: self.grouping.map(|_| FlowAnalyzer::new(self.max_turnaround)),
            matched: self.matched.then(Vec::new),
            part: part.filter(|_| self.part.is_some_and(|p| p.state)).map(|part| (part, Vec::new())),
            ..MatchObservers::new(PairEstimator::new(self.interval, self.max_turnaround).of_part(part))
        }
    }

    /// Combines all observations into the outcome.
    pub(super) fn conclude(
        &self,
        followed: MatchedCaptures,
        mut observers: MatchObservers<DirectionRecords>,
        observer: &mut dyn CaptureObserver,
    ) -> PassiveOutcome {
        observers.settle();
        forward(&mut observers, observer);
        let MatchedCaptures { plan, identity, window, captures, counts, numbers, failures } = followed;
        let summary = observers.estimator.summary_of(counts);
        let sessions = observers.streams.take().map_or_else(Vec::new, |streams| {
            let sessions = Direction::BOTH.map(|w| streams.session(w, &plan.sides, &summary.clocks));
            streams.into_sink().finish(&sessions, &mut of_streams(observer));
            sessions.into()
        });
        let part = observers.part.take().map(|(part, records)| PartState {
            sides: plan.sides.clone(),
            identity,
            offset: plan.offset,
            window,
            part,
            records,
            counts,
            captures: captures.clone(),
        });
        let result = PassiveResult {
            clock_steps: observers.clock_steps().to_vec(),
            addresses_given: self.sides.is_some(),
            sizes: observers.estimator.sizes(),
            flows: observers.flows.map(|f| f.figures(&numbers.keys())),
            plan,
            identity,
            window,
            captures,
            summary,
        };
        PassiveOutcome { result, sessions, part, failures }
    }
}
