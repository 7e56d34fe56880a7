//! [`Extras`]: tests that somebody asks for, beside the timetable. Each is made in a gap in which neither of its hosts is in a test of the
//! timetable, or not at all: the timetable does not change for them.

use crate::model::Model;
use crate::timetable::Timetable;
use jitlat_core::{Span, WallTime};

/// How far ahead a gap is looked for.
pub const MAX_WAIT: Span = Span::seconds(600);

/// Why there is no time for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGap {
    /// The longest gap until the [horizon](MAX_WAIT), in which a test may send for so long; `None`: not at all.
    TooShort(Option<Span>),
    /// The file does not have the far host any more.
    NoHost,
}

/// What to do with an extra test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraStep {
    /// Start it.
    Start(u64),
    /// Its time is over: it is to end and keep what it has.
    Stop(u64),
    /// It starts at this time instead of the one that was said.
    Moved(u64, WallTime),
    /// It cannot be made any more.
    Dropped(u64, NoGap),
}

/// A test that was asked for.
#[derive(Clone, Debug)]
struct ExtraTest {
    id: u64,
    /// The name of the far host; `None`: it is none of the file, and has no timetable.
    far: Option<String>,
    /// Time that it takes, without guard.
    length: Span,
    start: WallTime,
    state: ExtraState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtraState {
    Waiting,
    Running { until: WallTime, stopped: bool },
}

/// The tests that were asked for and are not over.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    list: Vec<ExtraTest>,
    /// What a new file changed.
    moved: Vec<ExtraStep>,
}

/// What an extra test is fitted into.
#[derive(Clone, Copy)]
pub struct ScheduleContext<'a> {
    /// The file.
    pub model: &'a Model,
    /// Its timetable.
    pub timetable: &'a Timetable,
    /// This host.
    pub me: u32,
}

impl Extras {
    /// Another one, which sends for `duration`, from `now` on; when it starts.
    ///
    /// # Errors
    /// [`NoGap`].
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

    /// What is to be done at `now`; `busy`: another test is still under way at this host.
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
                // It is too late for this gap, or the gap is taken.
                ExtraState::Waiting if start <= now => steps.extend(self.move_on(k, now, around)),
                _ => {}
            }
        }
        self.list
            .retain(|extra| !steps.iter().any(|s| matches!(s, ExtraStep::Dropped(id, _) if *id == extra.id)));
        steps
    }

    /// Looks for another time for the one at `k`.
    fn move_on(&mut self, k: usize, now: WallTime, around: ScheduleContext<'_>) -> Option<ExtraStep> {
        // Not at once again: what is in the way needs some time.
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

    /// One is over, or not wanted any more. Whether it was one.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|extra| extra.id != id);
        self.list.len() < before
    }

    /// Follows a new file: those that wait get other times where they have to, those under way end before they disturb.
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

    /// How many are under way.
    pub fn running(&self) -> usize {
        self.list.iter().filter(|extra| matches!(extra.state, ExtraState::Running { .. })).count()
    }

    /// When there is something to do next; `None`: never.
    pub fn wake(&self) -> Option<WallTime> {
        let next = self.list.iter().filter_map(|extra| match extra.state {
            ExtraState::Waiting => Some(extra.start),
            ExtraState::Running { until, stopped: false } => Some(until),
            ExtraState::Running { .. } => None,
        });
        next.min().or((!self.moved.is_empty()).then_some(WallTime(i64::MIN)))
    }

    /// The first time from `from` on that has room for `extra`, beside the others.
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
        // Before the beginning of each, and after the last.
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
    /// The places of its hosts in the file; `None` if the file does not have the far one.
    fn hosts(&self, around: ScheduleContext<'_>) -> Option<Vec<u32>> {
        let far = match &self.far {
            Some(name) => Some(around.model.host(name)? as u32),
            None => None,
        };
        Some([around.me].into_iter().chain(far).collect())
    }
}

/// When tests of the timetable are under way, or may be, that one of `hosts` takes part in: from `from` on for `within`, by beginning.
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
        for place in first.. {
            let Some(begins) = scheduled.begins(place).filter(|begins| *begins < end) else { break };
            let mut pairs = scheduled.pairs_of(place).iter();
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
