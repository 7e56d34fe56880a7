//! [`Extras`]: tests on demand, in addition to the timetable. Each runs in a gap in which neither of its hosts is in a
//! test of the timetable. If there is no such gap, the test does not run: the timetable is never changed for a test on
//! demand.

use crate::model::Model;
use crate::timetable::Timetable;
use jitlat_core::{Span, WallTime};

/// Maximum time until the start of a test on demand.
pub const MAX_WAIT: Span = Span::seconds(600);

/// Reason why a test on demand cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGap {
    /// No gap of the required length exists within [`MAX_WAIT`]. Contains the longest time for which a test may send;
    /// `None`: no gap is long enough for any test.
    TooShort(Option<Span>),
    /// The file no longer contains the far host.
    NoHost,
}

/// An action for a test on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraStep {
    /// Start the test with this number.
    Start(u64),
    /// The time of the test is over: stop it and store the results so far.
    Stop(u64),
    /// The test starts at this time instead of the announced one.
    Moved(u64, WallTime),
    /// The test can no longer run, for this reason.
    Dropped(u64, NoGap),
}

/// A test on demand.
#[derive(Clone, Debug)]
struct ExtraTest {
    id: u64,
    /// Name of the far host; `None`: it is not in the file, and has no timetable.
    far: Option<String>,
    /// Duration of the test, without guard.
    length: Span,
    start: WallTime,
    state: ExtraState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtraState {
    Waiting,
    Running { until: WallTime, stopped: bool },
}

/// Tests on demand that have not ended.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    list: Vec<ExtraTest>,
    /// Actions required by a new version of the file.
    moved: Vec<ExtraStep>,
}

/// Schedule into which tests on demand are fitted.
#[derive(Clone, Copy)]
pub struct ScheduleContext<'a> {
    /// The model of the file.
    pub model: &'a Model,
    /// The timetable of the file.
    pub timetable: &'a Timetable,
    /// Index of this host.
    pub me: u32,
}

impl Extras {
    /// Adds a test that sends for `duration` in a gap from `now` on; returns its start.
    ///
    /// # Errors
    /// [`NoGap`] if no gap is long enough.
    pub fn add(
        &mut self,
        id: u64,
        far: Option<&str>,
        duration: Span,
        now: WallTime,
        around: ScheduleContext<'_>,
    ) -> Result<WallTime, NoGap> {
        let (far, length) = (far.map(str::to_owned), duration + around.model.setup);
        let mut extra = ExtraTest { id, far, length, start: now, state: ExtraState::Waiting };
        extra.start = self.fit(&extra, now, around)?;
        let start = extra.start;
        self.list.push(extra);
        Ok(start)
    }

    /// Returns the actions at `now`; `busy` is true if another test is still running on this host.
    pub fn poll(&mut self, now: WallTime, busy: bool, around: ScheduleContext<'_>) -> Vec<ExtraStep> {
        let mut steps = std::mem::take(&mut self.moved);
        let mut busy = busy || self.running() > 0;
        for k in 0..self.list.len() {
            let ExtraTest { id, length, start, state, .. } = self.list[k];
            match state {
                ExtraState::Running { until, stopped: false } if until <= now => {
                    self.list[k].state = ExtraState::Running { until, stopped: true };
                    steps.push(ExtraStep::Stop(id));
                }
                ExtraState::Waiting if start <= now && !busy && now - start <= around.model.guard => {
                    self.list[k].state = ExtraState::Running { until: start + length, stopped: false };
                    busy = true;
                    steps.push(ExtraStep::Start(id));
                }
                // It is too late for this gap, or another test is still running: find another gap.
                ExtraState::Waiting if start <= now => steps.extend(self.move_on(k, now, around)),
                _ => {}
            }
        }
        self.list
            .retain(|extra| !steps.iter().any(|s| matches!(s, ExtraStep::Dropped(id, _) if *id == extra.id)));
        steps
    }

    /// Finds another start for the test at index `k`. Returns the resulting action; `None` if the start does not
    /// change.
    fn move_on(&mut self, k: usize, now: WallTime, around: ScheduleContext<'_>) -> Option<ExtraStep> {
        // Wait a little before the next attempt, because the running test needs time to end.
        let from = now + around.model.guard.max(Span::millis(100));
        let id = self.list[k].id;
        match self.fit(&self.list[k], from, around) {
            Ok(start) => {
                let moved = start != self.list[k].start;
                self.list[k].start = start;
                moved.then_some(ExtraStep::Moved(id, start))
            }
            Err(why) => Some(ExtraStep::Dropped(id, why)),
        }
    }

    /// Removes a test that has ended or was cancelled. Returns true if it existed.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|extra| extra.id != id);
        self.list.len() < before
    }

    /// Applies a new version of the file: waiting tests are moved if necessary, and running tests end before they would
    /// disturb other tests.
    pub fn follow(&mut self, now: WallTime, around: ScheduleContext<'_>) {
        let mut steps = Vec::new();
        for k in 0..self.list.len() {
            let extra = &self.list[k];
            match extra.state {
                ExtraState::Waiting => {
                    let fits = self.fit(extra, extra.start, around) == Ok(extra.start);
                    if !fits {
                        steps.extend(self.move_on(k, now, around));
                    }
                }
                ExtraState::Running { until, stopped } => {
                    let next = extra.hosts(around).and_then(|hosts| {
                        let (begin, _) = *busy(around, &hosts, now, until - now).first()?;
                        Some(begin - around.model.guard)
                    });
                    let until = next.map_or(until, |next| until.min(next));
                    self.list[k].state = ExtraState::Running { until, stopped };
                }
            }
        }
        self.list
            .retain(|extra| !steps.iter().any(|s| matches!(s, ExtraStep::Dropped(id, _) if *id == extra.id)));
        self.moved.extend(steps);
    }

    /// Returns the number of running tests.
    pub fn running(&self) -> usize {
        self.list.iter().filter(|extra| matches!(extra.state, ExtraState::Running { .. })).count()
    }

    /// Returns the time of the next action; `None`: no action is planned.
    pub fn wake(&self) -> Option<WallTime> {
        let next = self.list.iter().filter_map(|extra| match extra.state {
            ExtraState::Waiting => Some(extra.start),
            ExtraState::Running { until, stopped: false } => Some(until),
            ExtraState::Running { .. } => None,
        });
        next.min().or((!self.moved.is_empty()).then_some(WallTime(i64::MIN)))
    }

    /// Finds the first time from `from` on that has room for `extra`, in addition to the other tests.
    fn fit(&self, extra: &ExtraTest, from: WallTime, around: ScheduleContext<'_>) -> Result<WallTime, NoGap> {
        let hosts = extra.hosts(around).ok_or(NoGap::NoHost)?;
        let guard = around.model.guard;
        let mut taken = busy(around, &hosts, from, MAX_WAIT + extra.length + guard);
        taken.extend(self.list.iter().filter(|other| other.id != extra.id).filter_map(|other| {
            match other.state {
                ExtraState::Waiting => Some((other.start, other.start + other.length + guard)),
                ExtraState::Running { until, stopped: false } => Some((from, until + guard)),
                ExtraState::Running { .. } => None,
            }
        }));
        taken.sort_unstable();
        let (mut at, mut longest) = (from, Span(0));
        let end = from + MAX_WAIT;
        // Gaps: before the beginning of each test, and after the last one.
        for (begin, over) in taken.into_iter().chain([(WallTime(i64::MAX), WallTime(i64::MAX))]) {
            if at > end {
                break;
            }
            let gap = Span(begin.0.saturating_sub(at.0));
            if gap >= extra.length + guard {
                return Ok(at);
            }
            longest = longest.max(gap);
            at = at.max(over);
        }
        let sends = longest.0 - guard.0 - around.model.setup.0;
        Err(NoGap::TooShort((sends > 0).then_some(Span(sends))))
    }
}

impl ExtraTest {
    /// Returns the indices of the test's hosts; `None` if the file does not contain the far host.
    fn hosts(&self, around: ScheduleContext<'_>) -> Option<Vec<u32>> {
        let far = match &self.far {
            Some(name) => Some(around.model.host(name)? as u32),
            None => None,
        };
        Some([around.me].into_iter().chain(far).collect())
    }
}

/// Returns the slots of scheduled tests with one of `hosts` that overlap `from`..`from + within`, sorted by start. Each
/// is a start and an end; the end includes the guard.
fn busy(
    around: ScheduleContext<'_>,
    hosts: &[u32],
    from: WallTime,
    within: Span,
) -> Vec<(WallTime, WallTime)> {
    let mut times = Vec::new();
    let end = from + within;
    for scheduled in &around.timetable.tests {
        let takes = scheduled.slot + around.model.guard;
        let Some(first) = scheduled.first_from(from - takes) else { continue };
        for slot_number in first.. {
            let Some(begins) = scheduled.begins(slot_number).filter(|begins| *begins < end) else { break };
            let mut pairs = scheduled.pairs_of(slot_number).iter();
            if begins + takes > from
                && pairs.any(|pair| hosts.contains(&pair.first) || hosts.contains(&pair.second))
            {
                times.push((begins, begins + takes));
            }
        }
    }
    times.sort_unstable();
    times
}
