//! Two live points: interfaces, other hosts, or captures that are still being written. A packet is matched
//! once both points have delivered everything up to its timestamp; meanwhile a bounded number of packets is
//! queued.

use super::error::PassiveError;
use super::files::MAX_TRANSIT;
use super::followed::FollowedPoints;
use super::outcome::{MatchedCaptures, PassiveOutcome, forward};
use super::points::{LivePoint, LivePoints, PointEnd, PointSource};
use super::settings::{Matching, Passive};
use crate::stop::Stop;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_net::clock;
use jitlat_passive::identity::salted;
use jitlat_passive::pipeline::{
    CapturedBatch, Learner, Merger, NamingRule, NotLearnt, PacketNamer, PointDelivery, SharedFlowNumbers,
};
use jitlat_passive::{CaptureEvent, CaptureObserver};
use jitlat_passive::{CapturePoint, IdentityRule, MatchPlan, Matcher, Sides};
use jitlat_proto::digest::DigestRule;
use jitlat_proto::jitlat::PresharedKey;

/// Default maximum time between the observations of a packet at both points. Shorter than for files, because
/// a packet lost towards the reference point delays the pairs by this time.
pub(super) const LIVE_MAX_TRANSIT: Span = Span::seconds(5);
/// Time to wait after the end for packets that the points have not delivered yet.
pub(super) const END_TIMEOUT: Span = Span::seconds(3);
/// Number of bytes of every IP packet that both points are sure to capture: the snap length minus the longest
/// link-layer header.
pub(super) const CAPTURED_BYTES: u16 = 200;
/// Number of bytes of every IP packet assumed to be in capture files, unless the packets in the files show
/// that fewer were captured.
const CAPTURED_FILE_BYTES: u16 = 256;
/// Time limit for reading the end of captures in files.
const FILE_END_TIMEOUT: Span = Span::seconds(30);

/// Settings of a capture at live points.
#[derive(Clone, Debug, Default)]
pub struct LiveSettings {
    /// Settings of captures on interfaces of this host.
    pub interface: InterfaceSettings,
    /// Key shared with other hosts; `None`: no key.
    pub key: Option<PresharedKey>,
    /// Time after which the capture ends; `None`: no limit.
    pub duration: Option<Span>,
    /// Number of pairs after which the capture ends; `None`: no limit.
    pub pairs: Option<u64>,
}

impl Passive {
    /// Analyses the traffic between two live points, the reference point first, until `stop` is requested or a limit in
    /// `settings` is reached. `observer` receives pairs, packets and records as soon as they are found.
    ///
    /// # Errors
    /// [`PassiveError`] if capturing at a point fails, or if the points have no packets in common by the end.
    pub fn follow_live(
        &self,
        points: [LivePoint; 2],
        settings: &LiveSettings,
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<PassiveOutcome, PassiveError> {
        if matches!(self.matching, Matching::Caia { .. }) {
            return Err(PassiveError::CaiaLive);
        }
        if points[0] == points[1] {
            let [point, _] = points;
            return Err(PassiveError::SamePoint(point));
        }
        if !points.iter().any(LivePoint::has_packets) && self.grouping.is_some() {
            return Err(PassiveError::NoFlows);
        }
        let names = points.each_ref().map(ToString::to_string);
        if let [LivePoint::Files(reference), LivePoint::Files(monitor)] = &points {
            let files = FollowedPoints::open([reference, monitor])?;
            let manner =
                PointTraits { same_clock: false, files: true, window: MAX_TRANSIT, ending: FILE_END_TIMEOUT };
            return self.follow_points(files, manner, &names, settings, stop, observer);
        }
        let same_clock = points.iter().all(LivePoint::is_here);
        let hosts: Vec<Prefix> =
            self.sides.iter().flat_map(|s| s.reference.iter().chain(&s.monitor).copied()).collect();
        let points =
            LivePoints::open(points, settings.interface, &hosts, CAPTURED_BYTES, settings.key.as_ref())?;
        let manner = PointTraits { same_clock, files: false, window: LIVE_MAX_TRANSIT, ending: END_TIMEOUT };
        self.follow_points(points, manner, &names, settings, stop, observer)
    }

    /// Analyses the packets that points deliver.
    fn follow_points(
        &self,
        mut points: impl PointSource,
        manner: PointTraits,
        names: &[String; 2],
        settings: &LiveSettings,
        stop: &Stop,
        observer: &mut dyn CaptureObserver,
    ) -> Result<PassiveOutcome, PassiveError> {
        observer.capture_event(&CaptureEvent::Listening(names.each_ref().map(String::as_str)));
        let began = clock::steady();
        let over = |pairs: u64| {
            stop.is_requested()
                || settings.duration.is_some_and(|d| clock::steady() - began >= d)
                || settings.pairs.is_some_and(|n| pairs >= n)
        };
        let mut learner = match manner.files {
            true => Learner::new(self.sides.clone(), CAPTURED_FILE_BYTES.into(), None).finding_available(),
            false => Learner::new(self.sides.clone(), CAPTURED_BYTES.into(), points.salt()),
        };
        let plan = loop {
            if let Some(delivery) = points.next() {
                learner.take(delivery);
            }
            if let Some(plan) = learner.plan(clock::steady()) {
                break plan;
            }
            if over(0) || points.ended() {
                return Err(not_learnt(learner.not_learnt(), names, &points.close().0));
            }
        };
        observer.capture_event(&CaptureEvent::Planned(&plan));
        let echoes_apart = learner.pairs_without_echoes(&plan);
        let offset = self.offset.unwrap_or(if manner.same_clock { Span::ZERO } else { plan.offset });
        let window = self.window.unwrap_or(manner.window);
        let mut following =
            Following::begin(self, &plan, &mut points, &learner, (offset, window), echoes_apart);
        if manner.files {
            following.merger = following.merger.from_the_first_packet();
        }
        let mut observers = self.observers(&plan, None);
        let left_out = learner.left_out();
        learner.into_held().for_each(|delivery| following.take(delivery));
        let mut pairs = 0;
        while !over(pairs) && !points.ended() {
            if let Some(delivery) = points.next() {
                following.take(delivery);
            }
            following.merger.release(&mut observers);
            pairs += observers.estimator.pairs().len() as u64;
            forward(&mut observers, observer);
        }
        // From here on, a second signal ends the process at once.
        following.end(&mut points, manner.ending);
        let (ends, failures) = points.close();
        let counts = following.merger.finish(&mut observers, |observers| forward(observers, observer));
        let (identity, numbers) = (following.identity, following.numbers);
        let mut captures = following.namers.map(|n| n.finish().1);
        captures.iter_mut().zip(ends).for_each(|(facts, end)| end.add_to(facts));
        for (facts, frames) in captures.iter_mut().zip(left_out).filter(|(_, frames)| *frames > 0) {
            facts.notes.push(format!(
                "{frames} frames captured before the addresses at both points were known are left out, because there was no room to store them"
            ));
        }
        let followed = MatchedCaptures { plan, identity, window, captures, counts, numbers, failures };
        Ok(self.conclude(followed, observers, observer))
    }

    /// Returns the rule for the packets that another host should report; the addresses of both sides are
    /// added for each point.
    pub(super) fn rule(&self, identity: IdentityRule, without_echoes: bool) -> DigestRule {
        let protocols = self.only.and_then(|o| o.protocols).unwrap_or_default().to_vec();
        let port = self.only.and_then(|o| o.port);
        DigestRule { sides: Sides::default(), identity, protocols, port, without_echoes, inside: false }
    }
}

/// Properties that depend on the kind of points.
#[derive(Clone, Copy)]
struct PointTraits {
    /// True if both points use the same clock.
    same_clock: bool,
    /// True if the points are capture files.
    files: bool,
    /// Default maximum time between the observations of a packet.
    window: Span,
    /// Time to wait after the end for packets that have not been delivered yet.
    ending: Span,
}

/// Computes the identities of the packets that the points deliver, and queues them for matching.
pub(super) struct Following {
    salt: Option<u64>,
    identity: IdentityRule,
    numbers: SharedFlowNumbers,
    pub(super) namers: [PacketNamer; 2],
    pub(super) merger: Merger,
}

impl Following {
    /// Begins to match packets according to `plan`, and sends the plan to the points. The caller then has to pass on
    /// the packets that `learner` has collected. `offset` is the difference between the clocks; `window` is the maximum
    /// time between the observations of a packet.
    pub(super) fn begin(
        passive: &Passive,
        plan: &MatchPlan,
        points: &mut impl PointSource,
        learner: &Learner,
        (offset, window): (Span, Span),
        echoes_apart: bool,
    ) -> Following {
        let identity = IdentityRule { fields: passive.fields(plan), available: learner.available() };
        let numbers = SharedFlowNumbers::default();
        let mut inside = plan.inside.into_iter();
        let namers = plan.sides.each_ref().map(|sides| {
            let inside = inside.next().unwrap_or_default();
            PacketNamer::new(NamingRule {
                sides: sides.clone(),
                identity,
                sorted: false,
                only: passive.only,
                part: None,
                echoes_apart,
                inside,
                flows: passive.grouping.map(|g| (g, numbers.clone())),
            })
        });
        points.follow(plan, &passive.rule(identity, echoes_apart));
        let merger = Merger::new(Matcher::new(offset, window), learner.begins());
        Following { salt: points.salt(), identity, numbers, namers, merger }
    }

    /// Asks the points to stop, and takes the packets that they still deliver within `ending`.
    pub(super) fn end(&mut self, points: &mut impl PointSource, ending: Span) {
        points.stop();
        let late = clock::steady() + ending;
        while !points.ended() && clock::steady() < late {
            if let Some(delivery) = points.next() {
                self.take(delivery);
            }
        }
    }

    pub(super) fn take(&mut self, delivery: PointDelivery) {
        let point: CapturePoint = delivery.point;
        let namer = &mut self.namers[point as usize];
        match delivery.what {
            CapturedBatch::Frames(frames) => {
                frames.frames().for_each(|f| namer.push(&f));
            }
            CapturedBatch::Sightings(list) => {
                for s in list {
                    namer.facts_mut().count_ours(s.length, false);
                    self.merger.push(point, s);
                }
            }
            CapturedBatch::Dropped(_, from, to) => self.merger.drops(point, from, to),
            // Captured before there was a matching plan, so this time counts as not covered.
            CapturedBatch::Previews(_) => return,
            _ => {}
        }
        if let Some((_, to)) = delivery.covered {
            namer.settle(to);
        }
        for mut s in namer.take(Vec::new()) {
            s.id = self.salt.map_or(s.id, |salt| salted(s.id, salt));
            self.merger.push(point, s);
        }
        if let Some((from, to)) = delivery.covered {
            self.merger.covers(point, from, to);
            namer.facts_mut().extend_span(from, to);
        }
    }
}

/// Returns the error for points without a matching plan, with notes about each point.
fn not_learnt(learnt: NotLearnt, names: &[String; 2], ends: &[PointEnd; 2]) -> PassiveError {
    let NotLearnt { why, seen } = learnt;
    let mut notes = Vec::new();
    for ((name, end), seen) in names.iter().zip(ends).zip(seen) {
        notes.push(format!("{name}: {seen} frames, {} dropped", end.drops));
        notes.extend(end.notes.iter().cloned());
    }
    if seen.iter().all(|s| *s > 0) {
        notes.push(
            "packets are matched by fields that the path does not change: segmentation offload at one of the \
             points makes packets that never match (ethtool -K IFACE tso off gso off gro off lro off)"
                .to_owned(),
        );
    }
    PassiveError::NotLearnt { why, notes }
}
