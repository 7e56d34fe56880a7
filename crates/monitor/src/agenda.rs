//! [`Agenda`]: decides what one host starts next, given the time and earlier events. Each slot of each test
//! that the host starts ends with exactly one [`SlotOutcome`]: measured, failed, or missed with its reason.
//! Missed slots are not repeated later.
//!
//! A test that does not end in its slot takes nothing from the next one: it is stopped at the end of the slot, must
//! give up before the next slot begins, and then no longer counts. A due slot that finds this host busy waits for the
//! guard time. There is no pause after failures: an attempt takes only the slot of its own pair, so that a path
//! that works again is measured in its next slot.

use crate::extra::{ExtraStep, Extras, NoGap, ScheduleContext};
use crate::group::HostPair;
use crate::model::{Model, MonitoredTest};
use crate::timetable::{Scheduled, Timetable};
use crate::window::DAY;
use jitlat_core::{Span, SteadyTime, WallTime};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Clock step above which the skipped slots do not count as missed: the clock was wrong, and that time did not
/// really pass.
const MAX_CLOCK_STEP: Span = Span(DAY);

/// Instruction to the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgendaOrder {
    /// Start this test.
    Start(TestJob),
    /// The slot of this job has ended: stop the test and store the results so far.
    Stop(u64),
    /// The next slot is about to begin: this job, which was stopped, must end without the results that the far host
    /// still has.
    GiveUp(u64),
}

/// A test to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestJob {
    /// Identifier for [`Agenda::ended`].
    pub id: u64,
    /// Index of the test in the model.
    pub test: usize,
    /// Name of the test.
    pub name: String,
    /// Number of the slot.
    pub slot_number: i64,
    /// The pair of hosts to test.
    pub pair: HostPair,
    /// Name of the far host or target.
    pub far: String,
    /// Start of the test.
    pub start: WallTime,
    /// End of the slot.
    pub until: WallTime,
}

/// Reason why a started test failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotFailure {
    /// The far host did not answer.
    Unreachable,
    /// The far host refused the test because of a key, a rule or a limit.
    Refused,
    /// The test had no result when the next slot was about to begin.
    TooSlow,
    /// The test was measured, but its result could not be stored.
    NotStored,
    /// Captures only: no packets could be measured in this period.
    Nothing,
    /// Any other reason.
    Other,
}

/// Reason why a test was not started in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missed {
    /// This host was not ready in time.
    Late,
    /// An earlier test was still running.
    Busy,
    /// The clock was set past the slot.
    ClockStep,
}

/// Outcome of a slot: measured, failed or missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotEnding {
    /// Measured and stored.
    Measured {
        /// True if the slot ended before the test did.
        cut: bool,
    },
    /// Started, but without a result.
    Failed(SlotFailure),
    /// Not started.
    Missed(Missed),
}

impl SlotEnding {
    /// True if the slot was lost by the host that starts the test, so that it says nothing about the path.
    pub fn is_own_fault(self) -> bool {
        matches!(self, SlotEnding::Missed(_) | SlotEnding::Failed(SlotFailure::NotStored))
    }
}

/// Outcome of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotOutcome {
    /// Name of the test.
    pub test: String,
    /// Name of the far host.
    pub far: String,
    /// Number of the slot.
    pub slot_number: i64,
    /// Start of the slot.
    pub start: WallTime,
    /// Kind of outcome.
    pub ending: SlotEnding,
    /// Description of a failure; empty for any other outcome.
    pub why: String,
}

/// Event to be logged once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Tests with a far host began to fail.
    Failing {
        /// The far host.
        far: String,
        /// Kind of failure.
        failure: SlotFailure,
        /// Description of the failure.
        why: String,
    },
    /// Tests with a far host succeed again.
    Recovered {
        /// The far host.
        far: String,
        /// Time of the first failure.
        since: WallTime,
        /// Number of slots that failed since then.
        lost: u64,
    },
    /// Results cannot be stored, for this reason. The far hosts have nothing to do with it.
    NotStored(String),
    /// Results are stored again; contains the number of results that could not be stored.
    Stored(u64),
    /// Slots are missed because of a problem on this host.
    Missing(Missed),
    /// Slots are no longer missed.
    InTime {
        /// Reason why slots were missed.
        missed: Missed,
        /// Number of slots that were missed.
        lost: u64,
    },
    /// The clock was set forward, or back (negative).
    ClockStep(Span),
}

/// Number of slots of a test with a far host, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndingCounts(BTreeMap<SlotEnding, u64>);

impl EndingCounts {
    /// Returns the number of slots with this outcome.
    pub fn of(&self, ending: SlotEnding) -> u64 {
        self.0.get(&ending).copied().unwrap_or(0)
    }

    /// Counts one more slot.
    pub fn add(&mut self, ending: SlotEnding) {
        *self.0.entry(ending).or_insert(0) += 1;
    }

    /// Returns all outcomes with their counts.
    pub fn all(&self) -> impl Iterator<Item = (SlotEnding, u64)> {
        self.0.iter().map(|(ending, n)| (*ending, *n))
    }

    /// Returns the number of all slots.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of slots that were measured.
    pub fn measured(&self) -> u64 {
        self.of(SlotEnding::Measured { cut: false }) + self.of(SlotEnding::Measured { cut: true })
    }
}

/// Tests that a new version of the file adds, removes or changes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChanges {
    /// New tests.
    pub added: Vec<String>,
    /// Removed tests.
    pub removed: Vec<String>,
    /// Tests whose settings or times changed.
    pub changed: Vec<String>,
}

/// Decides the next actions of one host.
pub struct Agenda {
    model: Arc<Model>,
    timetable: Arc<Timetable>,
    host: String,
    me: u32,
    /// State of each test of the model.
    tests: Vec<Own>,
    running: Vec<RunningTest>,
    ids: u64,
    clock: Option<(WallTime, SteadyTime)>,
    failing: BTreeMap<String, FailureStreak>,
    /// Number of results in a row that could not be stored.
    not_stored: u64,
    missing: BTreeMap<Missed, u64>,
    counts: BTreeMap<(String, String), EndingCounts>,
    outcomes: Vec<SlotOutcome>,
    notices: Vec<Notice>,
    extras: Extras,
}

/// Slots of a test in which this host starts tests.
#[derive(Default)]
struct Own {
    /// Pairs of each round whose tests this host starts; empty if it starts none.
    rounds: Vec<Vec<HostPair>>,
    /// Number of the first slot that is not in `due`.
    next: i64,
    /// Starts still due in the current slot, by time.
    due: VecDeque<PairSlot>,
    /// True if the first start in `due` has come, but waits for an earlier test to end.
    waits: bool,
}

#[derive(Clone, Copy)]
struct PairSlot {
    slot_number: i64,
    pair: HostPair,
    start: WallTime,
}

struct RunningTest {
    job: TestJob,
    is_ping: bool,
    stage: JobStage,
}

/// Requests that a job has received to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobStage {
    Running,
    Stopped,
    /// The job sends nothing any more, and no longer counts as running.
    GivenUp,
}

impl RunningTest {
    /// Returns the time at which the test is next requested to end; `None` if there is no further request. A stopped
    /// test has half of the guard time for its results: the other half covers the differences between clocks.
    fn ends(&self, guard: Span) -> Option<WallTime> {
        match self.stage {
            JobStage::Running => Some(self.job.until),
            JobStage::Stopped => Some(self.job.until + Span(guard.0 / 2)),
            JobStage::GivenUp => None,
        }
    }
}

struct FailureStreak {
    since: WallTime,
    failures: Vec<SlotFailure>,
    lost: u64,
}

impl Agenda {
    /// Creates the agenda of `host` from `now` on; `None` if the model does not contain the host.
    pub fn new(model: Arc<Model>, timetable: Arc<Timetable>, host: &str, now: WallTime) -> Option<Agenda> {
        let me = model.host(host)? as u32;
        let tests = timetable.tests.iter().map(|scheduled| Own::new(scheduled, me, now)).collect();
        Some(Agenda {
            model,
            timetable,
            host: host.to_owned(),
            me,
            tests,
            running: Vec::new(),
            ids: 0,
            clock: None,
            failing: BTreeMap::new(),
            not_stored: 0,
            missing: BTreeMap::new(),
            counts: BTreeMap::new(),
            outcomes: Vec::new(),
            notices: Vec::new(),
            extras: Extras::default(),
        })
    }

    /// Returns the current model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Returns the number of running tests.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the time of the next action; `None`: no action is planned.
    pub fn wake(&self) -> Option<WallTime> {
        let guard = self.model.guard;
        // A slot that waits is decided when a test ends, at the latest when it has waited for the guard time.
        let waits = |own: &Own| if own.waits { guard + Span(1) } else { Span::ZERO };
        let due = self.tests.iter().filter_map(|own| own.due.front().map(|slot| slot.start + waits(own)));
        let over = self.running.iter().filter_map(|r| r.ends(guard));
        due.chain(over).chain(self.extras.wake()).min()
    }

    /// Adds a test on demand that sends for `duration`. `far` is the far host if it is in the file, otherwise
    /// `None`. Returns the test's identifier and start.
    ///
    /// # Errors
    /// [`NoGap`] if no gap is long enough.
    pub fn add_extra(
        &mut self,
        far: Option<&str>,
        duration: Span,
        now: WallTime,
    ) -> Result<(u64, WallTime), NoGap> {
        self.ids += 1;
        let around = ScheduleContext { model: &self.model, timetable: &self.timetable, me: self.me };
        let start = self.extras.add(self.ids, far, duration, now, around)?;
        Ok((self.ids, start))
    }

    /// Returns the actions for tests on demand that are due at `now`.
    pub fn poll_extras(&mut self, now: WallTime) -> Vec<ExtraStep> {
        let around = ScheduleContext { model: &self.model, timetable: &self.timetable, me: self.me };
        self.extras.poll(now, !self.running.is_empty(), around)
    }

    /// Removes a test on demand that has ended or was cancelled. Returns true if `id` was a test on demand.
    pub fn end_extra(&mut self, id: u64) -> bool {
        self.extras.remove(id)
    }

    /// Returns the orders that are due at `now`; `steady` reveals whether the clock was set since the last
    /// call.
    pub fn poll(&mut self, now: WallTime, steady: SteadyTime) -> Vec<AgendaOrder> {
        let stepped = self.follow_clock(now, steady);
        let mut orders = self.endings(now);
        for test in 0..self.tests.len() {
            while let Some(slot) = self.tests[test].due.front().copied().filter(|slot| slot.start <= now) {
                let waited = self.tests[test].waits;
                let is_late = now - slot.start > self.model.guard;
                let missed = match (is_late, waited) {
                    (true, _) if stepped => Some(Missed::ClockStep),
                    (true, true) => Some(Missed::Busy),
                    (true, false) => Some(Missed::Late),
                    (false, _) if self.has_place(test) => None,
                    (false, _) => {
                        self.tests[test].waits = true;
                        break;
                    }
                };
                let scheduled = &self.timetable.tests[test];
                self.tests[test].waits = false;
                self.tests[test].due.pop_front();
                self.tests[test].fill(scheduled);
                match missed {
                    Some(missed) => self.miss(test, &slot, missed),
                    None => orders.push(AgendaOrder::Start(self.start(test, &slot))),
                }
            }
        }
        orders
    }

    /// Returns the orders to running tests whose slots are over.
    fn endings(&mut self, now: WallTime) -> Vec<AgendaOrder> {
        let guard = self.model.guard;
        let mut orders = Vec::new();
        for running in &mut self.running {
            while running.ends(guard).is_some_and(|at| at <= now) {
                let id = running.job.id;
                let (stage, order) = match running.stage {
                    JobStage::Running => (JobStage::Stopped, AgendaOrder::Stop(id)),
                    _ => (JobStage::GivenUp, AgendaOrder::GiveUp(id)),
                };
                running.stage = stage;
                orders.push(order);
            }
        }
        orders
    }

    /// Follows a clock step of more than the guard time since the last call; returns true if the clock was set forward.
    fn follow_clock(&mut self, now: WallTime, steady: SteadyTime) -> bool {
        let before = self.clock.replace((now, steady));
        let Some((wall, then)) = before else { return false };
        let step = (now - wall) - (steady - then);
        if step.0.abs() <= self.model.guard.0.max(1_000_000) {
            return false;
        }
        self.notices.push(Notice::ClockStep(step));
        for running in &mut self.running {
            running.job.until = running.job.until + step;
        }
        // After a step back the slots begin again at the new time: waiting for the old time would be a gap as long as
        // the step.
        if step > MAX_CLOCK_STEP || step.0 < 0 {
            for (own, scheduled) in self.tests.iter_mut().zip(&self.timetable.tests) {
                own.aim(scheduled, now);
            }
        }
        step.0 > 0
    }

    /// True if this host may take part in one more test of this kind now.
    fn has_place(&self, test: usize) -> bool {
        let running = || self.running.iter().filter(|r| r.stage != JobStage::GivenUp);
        let pings = running().filter(|r| r.is_ping).count();
        let others = running().count() - pings + self.extras.running();
        let is_ping = self.is_ping(test);
        // All pings together count as one test, because they disturb other tests no more than a single test
        // does.
        let (pings, others) = (pings.min(1).max(usize::from(is_ping)), others + usize::from(!is_ping));
        let most = self.model.hosts.get(self.me as usize).map_or(1, |host| host.concurrent) as usize;
        pings + others <= most
    }

    fn is_ping(&self, test: usize) -> bool {
        !self.model.tests[test].pairs.targets.is_empty()
    }

    fn far(&self, test: usize, pair: &HostPair) -> String {
        self.model.end(&self.model.tests[test], pair.server()).to_owned()
    }

    fn start(&mut self, test: usize, slot: &PairSlot) -> TestJob {
        for missed in [Missed::Late, Missed::Busy] {
            if let Some(lost) = self.missing.remove(&missed) {
                self.notices.push(Notice::InTime { missed, lost });
            }
        }
        self.ids += 1;
        let scheduled = &self.timetable.tests[test];
        let job = TestJob {
            id: self.ids,
            test,
            name: self.model.tests[test].name.clone(),
            slot_number: slot.slot_number,
            pair: slot.pair,
            far: self.far(test, &slot.pair),
            start: slot.start,
            until: scheduled.begins(slot.slot_number).unwrap_or(slot.start) + scheduled.slot,
        };
        self.running.push(RunningTest {
            job: job.clone(),
            is_ping: self.is_ping(test),
            stage: JobStage::Running,
        });
        job
    }

    fn miss(&mut self, test: usize, slot: &PairSlot, missed: Missed) {
        let far = self.far(test, &slot.pair);
        match missed {
            // A clock step has already been reported.
            Missed::ClockStep => {}
            Missed::Late | Missed::Busy => {
                let lost = self.missing.entry(missed).or_insert(0);
                *lost += 1;
                if *lost == 1 {
                    self.notices.push(Notice::Missing(missed));
                }
            }
        }
        let test = self.model.tests[test].name.clone();
        self.count(SlotOutcome {
            test,
            far,
            slot_number: slot.slot_number,
            start: slot.start,
            ending: SlotEnding::Missed(missed),
            why: String::new(),
        });
    }

    fn count(&mut self, outcome: SlotOutcome) {
        let key = (outcome.test.clone(), outcome.far.clone());
        self.counts.entry(key).or_default().add(outcome.ending);
        self.outcomes.push(outcome);
    }

    /// Records that the job `id` ended at `now`, successfully or with a kind of failure and its description.
    pub fn ended(&mut self, id: u64, now: WallTime, result: Result<(), (SlotFailure, String)>) {
        let Some(index) = self.running.iter().position(|r| r.job.id == id) else { return };
        let RunningTest { job, stage, .. } = self.running.swap_remove(index);
        let (ending, why) = match result {
            Ok(()) => {
                self.succeeded(&job.far);
                if self.not_stored > 0 {
                    self.notices.push(Notice::Stored(std::mem::take(&mut self.not_stored)));
                }
                (SlotEnding::Measured { cut: stage != JobStage::Running }, String::new())
            }
            // The far host answered: only this host has a problem.
            Err((failure @ SlotFailure::NotStored, why)) => {
                self.succeeded(&job.far);
                self.not_stored += 1;
                if self.not_stored == 1 {
                    self.notices.push(Notice::NotStored(why.clone()));
                }
                (SlotEnding::Failed(failure), why)
            }
            Err((failure, why)) => {
                let failure = if stage == JobStage::GivenUp { SlotFailure::TooSlow } else { failure };
                let trouble = self.failing.entry(job.far.clone()).or_insert_with(|| FailureStreak {
                    since: now,
                    failures: Vec::new(),
                    lost: 0,
                });
                trouble.lost += 1;
                if !trouble.failures.contains(&failure) {
                    trouble.failures.push(failure);
                    let why = why.clone();
                    self.notices.push(Notice::Failing { far: job.far.clone(), failure, why });
                }
                (SlotEnding::Failed(failure), why)
            }
        };
        let TestJob { name: test, far, slot_number, start, .. } = job;
        self.count(SlotOutcome { test, far, slot_number, start, ending, why });
    }

    /// Records that a test with `far` was measured.
    fn succeeded(&mut self, far: &str) {
        if let Some(trouble) = self.failing.remove(far) {
            let (since, lost) = (trouble.since, trouble.lost);
            self.notices.push(Notice::Recovered { far: far.to_owned(), since, lost });
        }
    }

    /// Returns the outcomes of slots since the last call.
    pub fn outcomes(&mut self) -> Vec<SlotOutcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Returns the events to be logged since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns counts of the outcomes of slots so far, by test and far host.
    pub fn counts(&self) -> &BTreeMap<(String, String), EndingCounts> {
        &self.counts
    }

    /// Applies a new version of the file from `now` on, and returns its changes; running tests continue. Returns
    /// `None` and changes nothing if the new version does not contain this host.
    pub fn take_up(
        &mut self,
        model: Arc<Model>,
        timetable: Arc<Timetable>,
        now: WallTime,
    ) -> Option<FileChanges> {
        let me = model.host(&self.host)? as u32;
        let mut changes = FileChanges::default();
        let mut tests = Vec::new();
        for (test, scheduled) in model.tests.iter().zip(&timetable.tests) {
            let Some(old) = self.model.tests.iter().position(|t| t.name == test.name) else {
                changes.added.push(test.name.clone());
                tests.push(Own::new(scheduled, me, now));
                continue;
            };
            let ends = |model: &Model, test: &MonitoredTest| -> Vec<String> {
                test.pairs
                    .list
                    .iter()
                    .flat_map(|p| [p.first, p.second])
                    .map(|k| model.end(test, k).to_owned())
                    .collect()
            };
            let same_ends = me == self.me
                && test.pairs == self.model.tests[old].pairs
                && ends(&model, test) == ends(&self.model, &self.model.tests[old]);
            let own = if same_ends && self.timetable.tests[old] == *scheduled {
                std::mem::take(&mut self.tests[old])
            } else {
                Own::new(scheduled, me, now)
            };
            if self.model.tests[old] != *test || self.timetable.tests[old] != *scheduled || !same_ends {
                changes.changed.push(test.name.clone());
            }
            tests.push(own);
        }
        let gone = self.model.tests.iter().filter(|old| !model.tests.iter().any(|t| t.name == old.name));
        changes.removed = gone.map(|t| t.name.clone()).collect();
        // Forget the failures of far hosts without tests, because they cannot recover.
        let known = |far: &String| {
            model.tests.iter().any(|t| t.pairs.targets.contains(far)) || model.host(far).is_some()
        };
        self.failing.retain(|far, _| known(far));
        (self.model, self.timetable, self.me, self.tests) = (model, timetable, me, tests);
        let around = ScheduleContext { model: &self.model, timetable: &self.timetable, me };
        self.extras.follow(now, around);
        Some(changes)
    }
}

impl Own {
    fn new(scheduled: &Scheduled, me: u32, now: WallTime) -> Own {
        let own = |k: usize| scheduled.rounds.round(k).iter().filter(|p| p.client() == me).copied().collect();
        let mut rounds: Vec<Vec<HostPair>> = (0..scheduled.rounds.len()).map(own).collect();
        if rounds.iter().all(Vec::is_empty) {
            rounds.clear();
        }
        let mut own = Own { rounds, ..Own::default() };
        own.aim(scheduled, now);
        own
    }

    /// Continues with the first slot that begins at `now` or later.
    fn aim(&mut self, scheduled: &Scheduled, now: WallTime) {
        self.due.clear();
        self.waits = false;
        if let Some(first) = scheduled.first_from(now) {
            self.next = first;
            self.fill(scheduled);
        }
    }

    /// If no start is due, queues the starts of the next slot in which this host starts a test.
    fn fill(&mut self, scheduled: &Scheduled) {
        if !self.due.is_empty() || self.rounds.is_empty() || scheduled.slots_per_cycle() == 0 {
            return;
        }
        while self.rounds[scheduled.round_of(self.next)].is_empty() {
            self.next += 1;
        }
        let slot_number = self.next;
        let pairs = &self.rounds[scheduled.round_of(slot_number)];
        let slots = pairs.iter().filter_map(|pair| {
            Some(PairSlot { slot_number, pair: *pair, start: scheduled.starts(slot_number, pair)? })
        });
        let mut slots: Vec<PairSlot> = slots.collect();
        slots.sort_by_key(|slot| slot.start);
        self.due = slots.into();
        self.next += 1;
    }
}
