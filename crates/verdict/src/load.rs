//! [`LoadEffect`]: delay that a load adds to a path, and its grade.

mod condition;

use crate::compare::{Basis, Comparison, ComparisonSettings, ComparisonSide, Difference, compare};
use crate::sentences::load::NoGrade;
use jitlat_core::analysis::Samples;
use jitlat_core::answer::Severity;
use jitlat_core::load::TestLoad;
use jitlat_core::session::Session;
use jitlat_core::spec::Direction;
use jitlat_core::summary::Summary;
use serde::Serialize;

pub use crate::sentences::load::{for_provider, headline, ungraded};
pub use condition::{LoadCondition, LoadConditionError, LoadDecision};

/// Grade of the delay that a load adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum BufferbloatGrade {
    /// Less than 5 ms.
    #[serde(rename = "A+")]
    APlus,
    /// Less than 30 ms.
    A,
    /// Less than 60 ms.
    B,
    /// Less than 200 ms.
    C,
    /// Less than 400 ms.
    D,
    /// 400 ms or more.
    F,
}

/// Source of the grades: the speed test by which they became known.
pub const GRADE_SOURCE: &str =
    "DSLReports speed test, bufferbloat grades (https://www.dslreports.com/faq/17930)";

/// Mean added delay, in ms, below which each grade is given; none of them: F.
const LIMITS: [(f64, BufferbloatGrade); 5] = [
    (5.0, BufferbloatGrade::APlus),
    (30.0, BufferbloatGrade::A),
    (60.0, BufferbloatGrade::B),
    (200.0, BufferbloatGrade::C),
    (400.0, BufferbloatGrade::D),
];

impl BufferbloatGrade {
    /// The grades, best first.
    pub const ALL: [BufferbloatGrade; 6] = [
        BufferbloatGrade::APlus,
        BufferbloatGrade::A,
        BufferbloatGrade::B,
        BufferbloatGrade::C,
        BufferbloatGrade::D,
        BufferbloatGrade::F,
    ];

    /// Returns the grade of a mean added delay in ns.
    pub fn of(added_ns: f64) -> BufferbloatGrade {
        let limit = LIMITS.iter().find(|(limit, _)| added_ns < limit * 1e6);
        limit.map_or(BufferbloatGrade::F, |(_, grade)| *grade)
    }

    /// Returns the name: `A+`.
    pub fn name(self) -> &'static str {
        match self {
            BufferbloatGrade::APlus => "A+",
            BufferbloatGrade::A => "A",
            BufferbloatGrade::B => "B",
            BufferbloatGrade::C => "C",
            BufferbloatGrade::D => "D",
            BufferbloatGrade::F => "F",
        }
    }

    /// Returns the severity for real-time traffic.
    pub fn severity(self) -> Severity {
        match self {
            BufferbloatGrade::APlus | BufferbloatGrade::A => Severity::Good,
            BufferbloatGrade::B => Severity::Fair,
            BufferbloatGrade::C => Severity::Poor,
            BufferbloatGrade::D | BufferbloatGrade::F => Severity::Bad,
        }
    }
}

/// Delay that the load adds, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddedDelay {
    /// Difference of the mean delays on the path.
    pub mean_ns: f64,
    /// Difference of the median delays on the path.
    pub median_ns: f64,
    /// 95 % interval of the difference of the medians; `None` if there are too few independent packets.
    pub median_ci95_ns: Option<[f64; 2]>,
    /// Difference of the 99th percentiles on the path.
    pub p99_ns: f64,
    /// 95 % interval of the difference of the 99th percentiles; `None` if there are too few independent packets.
    pub p99_ci95_ns: Option<[f64; 2]>,
    /// Largest error of these differences, because the clocks drift between the phases; 0 for round trips.
    pub clock_error_ns: f64,
    /// Drift of the clocks between the phases that has been subtracted.
    pub drift_ns: f64,
    /// Additional time in the sending host's own queue, by kernel stamps, in addition to the delay on the path; `None`
    /// if it is shorter than a millisecond, or than that on the path.
    pub own_queue: Option<AddedQueue>,
}

/// Time that the load adds in the sending host's own queue, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddedQueue {
    /// Difference of the means.
    pub mean_ns: f64,
    /// Difference of the medians.
    pub median_ns: f64,
    /// Difference of the 99th percentiles.
    pub p99_ns: f64,
}

impl AddedDelay {
    /// Returns the mean added delay on the path and in the sending host.
    fn whole_mean_ns(&self) -> f64 {
        self.mean_ns + self.own_queue.map_or(0.0, |queue| queue.mean_ns)
    }
}

/// Relation between a load and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadState {
    /// Less arrived than the load was to send: the path was full.
    Filled,
    /// All of the load arrived: the path may carry more.
    NotFilled,
    /// Nothing of the load arrived.
    Nothing,
    /// The load ended before the test did.
    EndedEarly,
    /// It is not known how much of the load arrived.
    Unknown,
    /// The load had only the other direction.
    OtherDirection,
}

impl LoadState {
    /// Determines the state of `load` for a test in the direction of `summary`; round trips pass both directions.
    pub fn of(load: &TestLoad, summary: &Summary) -> LoadState {
        let direction = (!summary.is_round_trip()).then(|| summary.direction()).flatten();
        let streams = load.streams_of(direction);
        if streams.clone().next().is_none() {
            return LoadState::OtherDirection;
        }
        if streams.clone().any(|stream| stream.failure.is_some()) {
            return LoadState::EndedEarly;
        }
        match load.received_bps(direction) {
            None => LoadState::Unknown,
            Some(bps) if bps <= 0.0 => LoadState::Nothing,
            Some(_) if streams.clone().any(|stream| stream.filled == Some(true)) => LoadState::Filled,
            Some(_) if streams.clone().any(|stream| stream.filled.is_none()) => LoadState::Unknown,
            Some(_) => LoadState::NotFilled,
        }
    }

    /// Returns true if a test was made under a load.
    pub fn is_load(self) -> bool {
        !matches!(self, LoadState::Nothing | LoadState::EndedEarly | LoadState::OtherDirection)
    }
}

/// Grade of the delay that a load adds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadGrade {
    /// Grade of the mean added delay, on the path and in the sending host's own queue.
    pub grade: BufferbloatGrade,
    /// Grades at both ends of the 95 % interval, widened by the error of the clocks.
    pub between: [BufferbloatGrade; 2],
    /// Source of the grades.
    pub source: &'static str,
}

/// Effect of a load on a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadEffect {
    /// Relation between the load and the path, in the direction of the test.
    pub state: LoadState,
    /// Delay that the load adds; `None` if nothing arrived in a phase, or if there was no load.
    pub added: Option<AddedDelay>,
    /// Grade of the added delay; `None` if it cannot be graded.
    pub grade: Option<LoadGrade>,
    /// Reason why there is no grade; `None` if there is one.
    pub no_grade: Option<String>,
    /// Comparison of the test under load with the idle test. Both delays have the clock offset of the idle phase.
    pub comparison: Comparison,
    /// Values subtracted from the raw delays of the idle and of the loaded phase, in ns.
    #[serde(skip)]
    pub bases: [i64; 2],
}

/// A test in one phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseTest<'a> {
    /// Facts about the test. The clock probes of the loaded phase follow those after the idle one.
    pub session: &'a Session,
    /// Figures of the test.
    pub summary: &'a Summary,
    /// Accepted packets; empty after an analysis in constant memory.
    pub samples: &'a Samples,
}

/// Largest difference between the rates of two clocks: two crystals of ±50 ppm, as in most computers.
const MAX_SKEW: f64 = 100e-6;
/// Shortest additional time in the sending host's own queue that is reported, in ns.
const OWN_QUEUE: f64 = 1e6;

impl LoadEffect {
    /// Compares a test under `load` with the same test on the idle path.
    ///
    /// The added delay is the difference of raw delays. The clock offset cancels, because both phases are on
    /// the same two clocks; only their drift between the phases remains. Estimates of the offset under load are worse
    /// than those on the idle path, because one direction of the probes waits in the queue; and a standing queue is in
    /// all delays under load, so that the smallest of them is not a reference.
    pub fn of(idle: PhaseTest<'_>, loaded: PhaseTest<'_>, load: &TestLoad) -> LoadEffect {
        let clocks = PhaseClocks::of(idle.summary, loaded);
        let side = |label, test: PhaseTest<'_>, k: usize| {
            let (base, floor) = (clocks.bases[k], clocks.floors[k]);
            ComparisonSide::of_delays(label, test.summary, test.samples, base, floor)
        };
        let settings = ComparisonSettings { basis: Basis::Delay, seed: 1, ..ComparisonSettings::default() };
        let comparison = compare(&side("idle", idle, 0), &side("loaded", loaded, 1), &settings);
        let state = LoadState::of(load, loaded.summary);
        let added = clocks.added(idle.summary, loaded.summary, &comparison).filter(|_| state.is_load());
        let graded = grade(state, added.as_ref(), clocks.floors.iter().sum(), &comparison);
        let (grade, no_grade) = match graded {
            Ok(grade) => (Some(grade), None),
            Err(reason) => (None, Some(reason.text().to_owned())),
        };
        LoadEffect { state, added, grade, no_grade, comparison, bases: clocks.bases }
    }

    /// Returns true if the load adds more to the delay than the uncertainty of the difference.
    pub fn adds(&self) -> bool {
        let error = self.comparison.floor;
        let adds = |d: Difference| d.ci95.map_or(d.change, |[low, _]| low) > error;
        let own = self.added.is_some_and(|added| added.own_queue.is_some());
        own || [self.comparison.median, self.comparison.p99].into_iter().flatten().any(adds)
    }
}

/// Clocks of both phases.
struct PhaseClocks {
    /// Value to subtract from the raw delays of each phase.
    bases: [i64; 2],
    /// Error of each phase.
    floors: [f64; 2],
    /// Drift between the phases.
    drift: f64,
}

impl PhaseClocks {
    fn of(idle: &Summary, loaded: PhaseTest<'_>) -> PhaseClocks {
        if idle.is_round_trip() {
            return PhaseClocks { bases: [0; 2], floors: [0.0; 2], drift: 0.0 };
        }
        let [begin, end] = [idle, loaded.summary].map(|s| s.session.created);
        let apart = begin.zip(end).map_or(0.0, |(begin, end)| (end - begin).0.unsigned_abs() as f64);
        let later = own_estimate(loaded.session);
        if let Some((offset, error)) = later
            && is_another(idle, offset, error + MAX_SKEW * apart)
        {
            let sign = if loaded.session.spec.direction() == Direction::Down { -1 } else { 1 };
            let (base, floor) = idle.correction().unwrap_or((0, f64::INFINITY));
            return PhaseClocks { bases: [base, sign * offset], floors: [floor, error], drift: 0.0 };
        }
        let offset = idle.correction().map_or(0, |(correction, _)| correction);
        let (drift, error) = match &idle.skew_hull {
            Some(hull) if hull.is_skew => (hull.alpha * apart, hull.alpha.abs() * apart / 2.0),
            Some(hull) => (0.0, hull.alpha.abs().min(MAX_SKEW) * apart),
            None => (0.0, MAX_SKEW * apart),
        };
        PhaseClocks { bases: [offset, offset.saturating_add(drift as i64)], floors: [0.0, error], drift }
    }

    fn added(&self, idle: &Summary, loaded: &Summary, comparison: &Comparison) -> Option<AddedDelay> {
        let (median, p99) = (comparison.median?, comparison.p99?);
        let moved = (self.bases[1].saturating_sub(self.bases[0])) as f64;
        let mean = loaded.latency.mean? - idle.latency.mean? - moved;
        Some(AddedDelay {
            mean_ns: mean,
            median_ns: median.change,
            median_ci95_ns: median.ci95,
            p99_ns: p99.change,
            p99_ci95_ns: p99.ci95,
            clock_error_ns: self.floors.iter().sum::<f64>().min(f64::MAX),
            drift_ns: self.drift,
            own_queue: own_queue(idle, loaded, p99.change),
        })
    }
}

/// Returns the clock offset of the loaded phase, server minus client, by its own best probe, and the largest error; both in
/// ns. `None` without probes.
fn own_estimate(loaded: &Session) -> Option<(i64, f64)> {
    let own = loaded.probes.iter().filter(|probe| loaded.created.is_none_or(|begin| probe.sent >= begin));
    let best = own.min_by_key(|probe| probe.rtt())?;
    Some((best.double_offset() / 2, best.rtt().0.max(0) as f64 / 2.0))
}

/// Returns true if a clock offset, known to ±`error`, is not that of the idle phase: a clock was set in between.
fn is_another(idle: &Summary, offset: i64, error: f64) -> bool {
    idle.clock.interval_ns.is_some_and(|[low, high]| {
        offset.saturating_sub(high) as f64 > error || low.saturating_sub(offset) as f64 > error
    })
}

/// Returns the additional time in the sending host's own queue. `of_path` is the added delay on the path at the 99th
/// percentile.
fn own_queue(idle: &Summary, loaded: &Summary, of_path: f64) -> Option<AddedQueue> {
    let (idle, loaded) = (idle.local_queue.as_ref()?, loaded.local_queue.as_ref()?);
    let added = AddedQueue {
        mean_ns: loaded.mean - idle.mean,
        median_ns: loaded.median - idle.median,
        p99_ns: (loaded.p99 - idle.p99) as f64,
    };
    (added.p99_ns >= of_path.abs().max(OWN_QUEUE)).then_some(added)
}

/// Grades the added delay, or returns the reason why it cannot be graded. `error`: of the clocks, in ns.
fn grade(
    state: LoadState,
    added: Option<&AddedDelay>,
    error: f64,
    comparison: &Comparison,
) -> Result<LoadGrade, NoGrade> {
    match state {
        LoadState::Filled => {}
        LoadState::NotFilled => return Err(NoGrade::NotFilled),
        LoadState::Nothing => return Err(NoGrade::Nothing),
        LoadState::EndedEarly => return Err(NoGrade::EndedEarly),
        LoadState::Unknown => return Err(NoGrade::Unknown),
        LoadState::OtherDirection => return Err(NoGrade::OtherDirection),
    }
    let added = added.ok_or(NoGrade::NoDelay)?;
    if !error.is_finite() {
        return Err(NoGrade::ClocksSet);
    }
    let median = comparison.median.ok_or(NoGrade::NoDelay)?;
    let [low, high] = median.ci95.ok_or(NoGrade::TooFewPackets)?;
    let mean = added.whole_mean_ns();
    let ends = [low - median.change - error, high - median.change + error];
    Ok(LoadGrade {
        grade: BufferbloatGrade::of(mean),
        between: ends.map(|end| BufferbloatGrade::of(mean + end)),
        source: GRADE_SOURCE,
    })
}

#[cfg(test)]
mod tests;
