//! [`PassiveOutcome`]: from what the matcher found to what was asked for.

use super::error::PassiveError;
use super::records::WayRecords;
use super::settings::{Matching, Passive};
use jitlat_core::passive::pipeline::{CaptureFacts, MatchObservers, SharedFlowNumbers};
use jitlat_core::passive::{Estimator, Flows, IdentityRule, MatchCounts, PassiveResult, Plan, Streams, Way};
use jitlat_core::{Event, Observer, Session, Span};

/// What was found.
#[derive(Debug)]
pub struct PassiveOutcome {
    /// The figures and how they came about.
    pub result: PassiveResult,
    /// Both ways, OUT first, if [`Passive::records`] were wanted.
    pub sessions: Vec<Session>,
    /// What is missing from the result: points that failed before their end.
    pub failures: Vec<PassiveError>,
}

/// What is known when all packets have been matched.
pub(super) struct Followed {
    pub(super) plan: Plan,
    pub(super) identity: IdentityRule,
    pub(super) window: Span,
    pub(super) captures: [CaptureFacts; 2],
    pub(super) counts: [MatchCounts; 2],
    pub(super) numbers: SharedFlowNumbers,
    pub(super) failures: Vec<PassiveError>,
}

/// Hands what was observed since the last time to `observer`.
pub(super) fn hand_on(observers: &mut MatchObservers<WayRecords>, observer: &mut dyn Observer) {
    if !observers.estimator.pairs().is_empty() {
        observer.event(&Event::Pairs(observers.estimator.pairs()));
        observers.estimator.take_pairs();
    }
    if let Some(matched) = &mut observers.matched
        && !matched.is_empty()
    {
        observer.event(&Event::Matched(matched));
        matched.clear();
    }
    if let Some(streams) = &mut observers.streams {
        streams.sink_mut().hand_on(observer);
    }
}

impl Passive {
    /// Whatever follows the matcher, as far as it is wanted.
    pub(super) fn observers(&self, plan: &Plan) -> MatchObservers<WayRecords> {
        let is_caia = matches!(self.matching, Matching::Caia { .. });
        let streams = self.records && !is_caia;
        MatchObservers {
            streams: streams.then(|| Streams::new(WayRecords::new(&plan.sides))),
            flows: self.grouping.map(|_| Flows::new(self.max_turnaround)),
            matched: self.matched.then(Vec::new),
            ..MatchObservers::new(Estimator::new(self.interval, self.max_turnaround))
        }
    }

    /// The outcome of everything observed.
    pub(super) fn conclude(
        &self,
        followed: Followed,
        mut observers: MatchObservers<WayRecords>,
        observer: &mut dyn Observer,
    ) -> PassiveOutcome {
        hand_on(&mut observers, observer);
        let Followed { plan, identity, window, captures, counts, numbers, failures } = followed;
        let summary = observers.estimator.summary_of(counts);
        let sessions = observers.streams.take().map_or_else(Vec::new, |streams| {
            let sessions = Way::BOTH.map(|w| streams.session(w, &plan.sides, &summary.clocks));
            streams.into_sink().finish(&sessions, observer);
            sessions.into()
        });
        let result = PassiveResult {
            addresses_given: self.sides.is_some(),
            sizes: observers.estimator.sizes(),
            flows: observers.flows.map(|f| f.figures(&numbers.keys())),
            plan,
            identity,
            window,
            captures,
            summary,
        };
        PassiveOutcome { result, sessions, failures }
    }
}
