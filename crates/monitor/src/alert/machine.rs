//! [`AlertMachine`]: states of all rules on all paths, updated by results, by reports of slots without a result, and by time.
//! Paths on which a rule is violated are grouped into [incidents](super::incident).

use super::condition::{AlertCondition, ConditionResult, TestComparison};
use super::expected::{expected_paths, hold};
use super::incident::{AlertChange, Incidents, Membership, Violation};
use super::last_seen::{LastSeen, SilenceCause, SlotReport};
use super::place::{AlertScope, AlertSubject, Places};
use super::rule::{AlertRule, RuleKind};
use crate::file::text_of;
use crate::model::{Maintenance, Model};
use crate::window::{TimeWindow, open_between};
use jitlat_core::answer::Severity;
use jitlat_core::scalars::GradeSubject;
use jitlat_core::time::SECOND;
use jitlat_core::{Span, SteadyTime, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Result of a test in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestResult {
    /// Name of the test.
    pub test: String,
    /// Name of the host that started the test.
    pub client: String,
    /// Name of the other end.
    pub server: String,
    /// True if packets went from the server to the client.
    pub is_backward: bool,
    /// Start of the test, ns since 1970.
    pub started_ns: i64,
    /// Figures by selector, in each figure's unit; undefined figures are absent.
    pub figures: BTreeMap<String, f64>,
    /// Grades of the path and of the hosts, by name; unknown grades may be absent.
    pub grades: BTreeMap<&'static str, Severity>,
    /// Comparisons with earlier tests, by length of the period: those that [`AlertMachine::comparisons`] requests
    /// and that are possible.
    pub compared: Vec<(Span, TestComparison)>,
    /// For an examination of a route: what changed, or `None` if nothing did; `None` for a test.
    pub route: Option<Option<String>>,
}

impl TestResult {
    /// Returns a grade; unknown if it was not judged.
    pub fn grade(&self, subject: GradeSubject) -> Severity {
        self.grades.get(subject.name()).copied().unwrap_or(Severity::Unknown)
    }

    /// Returns the sender and the receiver.
    pub fn path(&self) -> [&str; 2] {
        let path = [self.client.as_str(), self.server.as_str()];
        if self.is_backward { [path[1], path[0]] } else { path }
    }
}

/// Changes to store and to notify.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertDecision {
    /// Changed states by key; `None`: the state is to be deleted.
    pub states: Vec<(String, Option<String>)>,
    /// Alerts that fire or are resolved, in order.
    pub changes: Vec<AlertChange>,
}

/// Grade of a test by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TestGrade {
    Bad,
    Well,
    /// Not bad, but not good enough to end an alert.
    Between,
}

/// State of a rule on a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct AlertState {
    /// Fingerprint of the rule; a changed rule starts with an empty state.
    rule: u64,
    /// Grades of the newest tests, by start.
    recent: Vec<(i64, TestGrade)>,
    /// Start of the newest result; 0 if there was none.
    newest: i64,
    /// Start of the newest result at the time when the last alert was resolved. Results up to it no longer count.
    settled: i64,
    firing: bool,
    /// Description of the newest bad result.
    said: String,
    /// For missing results: start of the newest result in each direction, from and to the host that starts the tests; 0 if there
    /// was none.
    #[serde(default, skip_serializing_if = "is_default")]
    ways: [i64; 2],
    /// Incident that the path belongs to while it is firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    incident: Option<Membership>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl AlertState {
    /// Returns the start of the newest result of the direction that has been silent for longest; also returns that
    /// direction if the other one has a result that is newer by more than [`ONE_WAY_LAG`]. Directions that never had a
    /// result, or are not `expected`, do not count.
    fn oldest_way(&self, expected: [bool; 2]) -> (i64, Option<usize>) {
        let known = (0..2).filter(|way| expected[*way] && self.ways[*way] > 0);
        match known.min_by_key(|way| self.ways[*way]) {
            Some(way) => {
                let is_one = self.newest - self.ways[way] > ONE_WAY_LAG.0;
                (self.ways[way], is_one.then_some(way))
            }
            None => (self.newest, None),
        }
    }
}

/// Difference between the newest results of the two directions of a path above which only the direction with the older
/// result is called silent.
const ONE_WAY_LAG: Span = Span::seconds(60);

/// The states of all rules on all paths, of one host.
#[derive(Debug)]
pub struct AlertMachine {
    rules: Vec<OwnRule>,
    host: String,
    places: Places,
    states: HashMap<AlertSubject, AlertState>,
    incidents: Incidents,
    last_seen: LastSeen,
    maintenance: Vec<Maintenance>,
    /// Time of the last call of [`AlertMachine::follow_clock`], on both clocks.
    clock: Option<(WallTime, SteadyTime)>,
    /// Time since which missing results are counted: the start, or the last step of the clock.
    since: WallTime,
    /// Subjects that must have results, with the time at which this machine began to watch them and the windows of their tests.
    watched: HashMap<AlertSubject, SilenceWatch>,
    changed: BTreeSet<AlertSubject>,
    decided: AlertDecision,
}

#[derive(Debug)]
struct OwnRule {
    rule: AlertRule,
    fingerprint: u64,
    judges_all: bool,
    /// Time for which the message of an alert is held.
    hold: Span,
}

#[derive(Debug)]
struct SilenceWatch {
    rule: usize,
    /// Time before which missing results do not count, because the host lost the slots itself, or because of
    /// maintenance.
    since: WallTime,
    windows: Vec<TimeWindow>,
    /// Longest time from the start of a test to its result.
    lasts: Span,
    /// Directions in which the test sends: from the host that starts it, and to it.
    ways: [bool; 2],
    /// Start of the newest result in the direction that has been silent for longest; a copy of the state's value,
    /// because all subjects are checked regularly.
    newest: i64,
    /// True while an alert about the subject fires; a copy of the state's value.
    firing: bool,
}

impl AlertMachine {
    /// Creates the machine for the rules of `model` on `host`, with the stored states. A firing alert whose rule is no longer
    /// in the file is resolved.
    pub fn new(model: &Model, host: &str, kept: &BTreeMap<String, String>, now: WallTime) -> AlertMachine {
        let own = |rule: &AlertRule| OwnRule {
            judges_all: rule.at.iter().any(|name| name == host),
            hold: hold(model, rule) + rule.turn(host),
            fingerprint: twox_hash::XxHash3_64::oneshot(rule.kind.to_string().as_bytes()),
            rule: rule.clone(),
        };
        let here = |rule: &&AlertRule| rule.is_judged_at(host);
        let mut machine = AlertMachine {
            rules: model.alerts.rules.iter().filter(here).map(own).collect(),
            host: host.to_owned(),
            places: Places::new(model),
            states: HashMap::new(),
            incidents: Incidents::default(),
            last_seen: LastSeen::default(),
            maintenance: model.maintenance.clone(),
            clock: None,
            since: now,
            watched: HashMap::new(),
            changed: BTreeSet::new(),
            decided: AlertDecision::default(),
        };
        machine.watch(model, now);
        for (key, text) in kept {
            machine.resume(model, key, text, now);
        }
        machine
    }

    /// Finds the subjects that must have results.
    fn watch(&mut self, model: &Model, now: WallTime) {
        for path in expected_paths(model) {
            let ends = path.ends;
            if self.rules.iter().any(|own| own.judges_all) || ends[0] == self.host {
                self.last_seen.expect(ends, path.every);
            }
            for (k, own) in self.rules.iter().enumerate() {
                let RuleKind::Silence { by_host, .. } = own.rule.kind else { continue };
                if !(own.judges_all || ends[0] == self.host) || !own.rule.covers(path.test, ends) {
                    continue;
                }
                for subject in own.silent_subjects(path.test, ends, by_host) {
                    let watched = self.watched.entry(subject).or_insert_with(|| SilenceWatch {
                        rule: k,
                        since: now,
                        windows: Vec::new(),
                        lasts: Span::ZERO,
                        ways: if by_host { [false; 2] } else { path.ways },
                        newest: 0,
                        firing: false,
                    });
                    watched.lasts = watched.lasts.max(path.lasts);
                    if !watched.windows.contains(&path.window) {
                        watched.windows.push(path.window.clone());
                    }
                }
            }
        }
    }

    /// Restores a stored state.
    fn resume(&mut self, model: &Model, key: &str, text: &str, now: WallTime) {
        let Some(subject) = of_key(key) else { return };
        // A state that cannot be read counts as empty.
        let mut state: AlertState = serde_json::from_str(text).unwrap_or_default();
        let rule = self.rules.iter().find(|own| own.rule.name == subject.rule);
        let is_there = rule.is_some_and(|own| match own.rule.kind {
            RuleKind::Silence { .. } => self.watched.contains_key(&subject),
            RuleKind::Results { .. } => {
                let ends = [subject.src.as_str(), subject.dst.as_str()];
                let captured = || model.captures.iter().any(|c| c.name == subject.test);
                let routed = || model.routes.iter().any(|r| r.name == subject.test);
                let is_made = model.tests.iter().any(|t| t.name == subject.test) || captured() || routed();
                own.rule.covers(&subject.test, ends) && is_made
            }
        });
        let Some(own) = rule.filter(|_| is_there) else {
            if state.firing {
                self.incidents.restore(&subject, state.incident.as_ref(), &state.said);
                let reason = "the monitor's file no longer contains this alert".to_owned();
                self.decided.changes.extend(self.incidents.resolve(&subject, now, reason));
            }
            self.decided.states.push((key.to_owned(), None));
            return;
        };
        if state.rule != own.fingerprint {
            state.recent.clear();
            state.rule = own.fingerprint;
        }
        if state.firing {
            self.incidents.restore(&subject, state.incident.as_ref(), &state.said);
        }
        if let Some(watched) = self.watched.get_mut(&subject) {
            (watched.newest, watched.firing) = (state.oldest_way(watched.ways).0, state.firing);
        }
        self.states.insert(subject, state);
    }

    /// Returns the lengths of the periods with which a result is to be compared.
    pub fn comparisons(&self, result: &TestResult) -> Vec<Span> {
        let mut spans: Vec<Span> =
            self.of(result).filter_map(|k| self.rules[k].rule.compares_with()).collect();
        spans.sort_unstable();
        spans.dedup();
        spans
    }

    /// Returns the indices of the rules that apply to a result.
    fn of<'a>(&'a self, result: &'a TestResult) -> impl Iterator<Item = usize> + 'a {
        (0..self.rules.len()).filter(|k| {
            let own = &self.rules[*k];
            (own.judges_all || result.client == self.host) && own.rule.covers(&result.test, result.path())
        })
    }

    /// Follows the clock: a step of it does not count as time without results. Call this before anything is judged.
    pub fn follow_clock(&mut self, now: WallTime, steady: SteadyTime) {
        let Some((wall, then)) = self.clock.replace((now, steady)) else { return };
        let step = (now - wall) - (steady - then);
        if step.0.abs() > MIN_STEP.0 {
            self.since = now;
            self.last_seen.set_back(now);
        }
    }

    /// Judges a result by all rules.
    pub fn judge(&mut self, result: &TestResult, now: WallTime) {
        let rules: Vec<usize> = self.of(result).collect();
        let ends = [result.client.as_str(), result.server.as_str()];
        let path = [&result.test, &result.client, &result.server].map(String::clone);
        self.last_seen.measured(&path, WallTime(result.started_ns), now);
        let mut seen_at = WallTime(result.started_ns.min(now.0));
        for k in rules {
            let own = &self.rules[k];
            match &own.rule.kind {
                RuleKind::Silence { by_host, .. } => {
                    // A host whose routes are known may still not answer tests.
                    let subjects = own.silent_subjects(&result.test, ends, *by_host);
                    for subject in subjects.into_iter().filter(|_| result.route.is_none()) {
                        seen_at = seen_at.max(self.note_result(k, &subject, result, now));
                    }
                }
                RuleKind::Results { .. }
                    if self.in_maintenance(&result.test, ends, WallTime(result.started_ns)) => {}
                RuleKind::Results { .. } => self.mark(k, result, now),
            }
        }
        let seen_ends = if result.route.is_some() { &ends[..1] } else { &ends[..] };
        seen_ends.iter().for_each(|end| self.last_seen.seen(end, seen_at));
    }

    /// Takes up a report of a slot without a result. The host that reports was seen, and slots that it lost itself are not
    /// missing results of the path.
    pub fn report(&mut self, report: &SlotReport, now: WallTime) {
        self.last_seen.seen(&report.client, now);
        if report.is_own_fault && !report.is_not_stored {
            let ends = [report.client.as_str(), report.server.as_str()];
            for own in &self.rules {
                let RuleKind::Silence { by_host: false, .. } = own.rule.kind else { continue };
                for subject in own.silent_subjects(&report.test, ends, false) {
                    if let Some(watched) = self.watched.get_mut(&subject) {
                        watched.since = watched.since.max(WallTime(report.at_ns.min(now.0)));
                    }
                }
            }
            return;
        }
        self.last_seen.report(report);
    }

    /// Processes the report of a host whether it has results that have not arrived here yet. `heard` is the time of the report, at
    /// which the host was seen.
    pub fn waiting(&mut self, host: &str, has_results: bool, heard: WallTime) {
        self.last_seen.seen(host, heard);
        self.last_seen.waiting(host, has_results);
    }

    fn in_maintenance(&self, test: &str, ends: [&str; 2], at: WallTime) -> bool {
        self.maintenance.iter().any(|one| one.covers(test, ends) && one.is_open(at))
    }

    /// Records a result of a subject that must have results, and returns the time at which it was measured.
    fn note_result(
        &mut self,
        k: usize,
        subject: &AlertSubject,
        result: &TestResult,
        now: WallTime,
    ) -> WallTime {
        let at = result.started_ns.min(now.0);
        let Some(watched) = self.watched.get_mut(subject) else { return WallTime(at) };
        let state = self.states.entry(subject.clone()).or_default();
        state.rule = self.rules[k].fingerprint;
        let way = usize::from(result.is_backward);
        // A result that is dated before the one that arrived earlier shows that the clock of that host was set back: it has just been
        // measured.
        let at = if at < state.ways[way].min(now.0) { now.0 } else { at };
        state.ways[way] = at;
        state.newest = state.newest.min(now.0).max(at);
        watched.newest = state.oldest_way(watched.ways).0;
        self.changed.insert(subject.clone());
        if self.watched.get(subject).is_some_and(|watched| watched.firing) {
            self.end_silence(subject, now);
        } else {
            self.judge_silence(subject, now);
        }
        WallTime(at)
    }

    /// Returns the start and the length of the time without results that counts. These times do not count: before this
    /// machine began to watch; before the last step of the clock; while the host lost its slots itself; and the length of a
    /// test, because a result has the start time of its test.
    fn silence(&self, watched: &SilenceWatch, now: WallTime) -> (WallTime, Span) {
        let newest = WallTime(watched.newest.min(now.0));
        let since = if watched.firing { newest } else { newest.max(watched.since).max(self.since) };
        let windows: Vec<&TimeWindow> = watched.windows.iter().collect();
        let silence = open_between(&windows, since, now) - watched.lasts;
        (since, silence.max(Span::ZERO))
    }

    /// Resolves the alert about a silent path if its new result is fresh.
    fn end_silence(&mut self, subject: &AlertSubject, now: WallTime) {
        let Some(watched) = self.watched.get(subject) else { return };
        let RuleKind::Silence { after, .. } = self.rules[watched.rule].rule.kind else { return };
        if self.silence(watched, now).1 > after {
            return;
        }
        self.set_firing(subject, false);
        let change = self.incidents.resolve(subject, now, "a new result has arrived".to_owned());
        self.decided.changes.extend(change);
    }

    fn set_firing(&mut self, subject: &AlertSubject, firing: bool) {
        if let Some(watched) = self.watched.get_mut(subject) {
            watched.firing = firing;
        }
        if let Some(state) = self.states.get_mut(subject) {
            (state.firing, state.incident) = (firing, None);
        }
        self.changed.insert(subject.clone());
    }

    /// Decides whether results of a subject are missing.
    fn judge_silence(&mut self, subject: &AlertSubject, now: WallTime) {
        let Some(watched) = self.watched.get(subject).filter(|watched| !watched.firing) else { return };
        let own = &self.rules[watched.rule];
        let RuleKind::Silence { after, .. } = own.rule.kind else { return };
        let (since, silence) = self.silence(watched, now);
        if silence <= after || own.rule.is_quiet(now) {
            return;
        }
        let ends = [subject.src.as_str(), subject.dst.as_str()];
        if self.in_maintenance(&subject.test, ends, now) {
            if let Some(watched) = self.watched.get_mut(subject) {
                watched.since = now;
            }
            return;
        }
        let windows: Vec<&TimeWindow> = watched.windows.iter().collect();
        let cause = self.last_seen.cause(&self.places, &self.host, subject, &windows, (self.since, now));
        let is_backlog = cause == SilenceCause::Backlog;
        let cause = match cause {
            // An open alert takes in the path at once, so that there is no second one when its host has returned.
            _ if self.incidents.has_open(&self.places, subject) => None,
            SilenceCause::Awaited => return,
            // The results may still arrive; a backlog that does not shrink counts after twice the time.
            SilenceCause::Backlog if silence <= after.times(2) => return,
            SilenceCause::Backlog => Some(AlertSubject::host(&subject.rule, &subject.src)),
            SilenceCause::Path => None,
            SilenceCause::Place(place) => Some(place),
        };
        let newest = watched.newest;
        let state = self.states.get(subject).cloned().unwrap_or_default();
        let mut reason = match (newest, state.oldest_way(watched.ways).1) {
            (0, _) => format!("no result since the monitor started {} ago", rounded(now - since)),
            (_, None) => format!("no result for {}", rounded(now - WallTime(newest))),
            (_, Some(way)) => {
                let [from, to] = if way == 0 { ends } else { [ends[1], ends[0]] };
                format!(
                    "no result from {from} to {to} for {}, while the other direction is measured",
                    rounded(now - WallTime(newest))
                )
            }
        };
        let whole = cause.as_ref().unwrap_or(subject);
        match self.last_seen.reason(&self.places, whole, now) {
            Some(said) => reason = format!("{reason}; {said}"),
            None if whole.scope == AlertScope::Host && whole.src == self.host => {
                reason.push_str("; nor from any other host");
            }
            None if is_backlog => {
                reason.push_str("; its results wait on the host: they are not pushed fast enough");
            }
            None => {}
        }
        let violation = Violation {
            path: subject,
            at: now,
            reason: reason.clone(),
            severity: own.rule.severity.word(),
            since_ns: if newest > 0 { newest } else { since.0 },
            hold: own.hold,
            cause,
        };
        let fingerprint = own.fingerprint;
        let state = self.states.entry(subject.clone()).or_default();
        (state.rule, state.said) = (fingerprint, reason);
        let (changes, changed) = self.incidents.fire(&self.places, violation);
        self.decided.changes.extend(changes);
        self.set_firing(subject, true);
        self.changed.extend(changed);
    }

    /// Adds the grade of a result to the state of a rule, and updates the alert.
    fn mark(&mut self, k: usize, result: &TestResult, now: WallTime) {
        let own = &self.rules[k];
        let RuleKind::Results { conditions, until, of, clear, against, .. } = &own.rule.kind else { return };
        let Some((mark, said)) = mark(conditions, until, *against, result) else { return };
        let subject = AlertSubject::path(&own.rule.name, &result.test, result.path());
        let state = self.states.entry(subject.clone()).or_default();
        state.rule = own.fingerprint;
        let at = result.started_ns;
        if at <= state.settled {
            return;
        }
        // Results may arrive in any order, so they are sorted by the start of the test.
        let place = state.recent.partition_point(|(before, _)| *before <= at);
        state.recent.insert(place, (at, mark));
        let most = (*of).max(*clear) as usize;
        let surplus = state.recent.len().saturating_sub(most);
        state.recent.drain(..surplus);
        if let Some(said) = said
            && at >= state.newest
        {
            state.said = said;
        }
        state.newest = state.newest.max(at);
        self.changed.insert(subject.clone());
        self.weigh(k, &subject, now);
    }

    /// Decides whether an alert fires or is resolved, from the grades of the last results.
    fn weigh(&mut self, k: usize, subject: &AlertSubject, now: WallTime) {
        let Some(own) = self.rules.get(k) else { return };
        let RuleKind::Results { bad, of, clear, .. } = &own.rule.kind else { return };
        let Some(state) = self.states.get_mut(subject) else { return };
        if state.firing {
            let last = state.recent.iter().rev().take(*clear as usize);
            if last.clone().count() < *clear as usize
                || last.clone().any(|(_, mark)| *mark != TestGrade::Well)
            {
                return;
            }
            // Earlier bad results do not make it fire again.
            (state.settled, state.firing, state.incident) = (state.newest, false, None);
            state.recent.clear();
            let reason = if *clear == 1 {
                "a test was good".to_owned()
            } else {
                format!("{clear} consecutive tests were good")
            };
            self.changed.insert(subject.clone());
            self.decided.changes.extend(self.incidents.resolve(subject, now, reason));
            return;
        }
        let window = state.recent.iter().rev().take(*of as usize).rev();
        let found: Vec<i64> =
            window.filter(|(_, mark)| *mark == TestGrade::Bad).map(|(started, _)| *started).collect();
        let ends = [subject.src.as_str(), subject.dst.as_str()];
        let in_maintenance = || {
            let open = |one: &Maintenance| one.covers(&subject.test, ends) && one.is_open(now);
            self.maintenance.iter().any(open)
        };
        if (found.len() as u32) < *bad || own.rule.is_quiet(now) || in_maintenance() {
            return;
        }
        state.firing = true;
        let reason = match (bad, of) {
            (1, 1) => state.said.clone(),
            _ => format!("{}; bad in {} of the last {of} tests", state.said, found.len()),
        };
        let violation = Violation {
            path: subject,
            at: now,
            reason,
            severity: own.rule.severity.word(),
            since_ns: found.first().copied().unwrap_or(now.0),
            hold: own.hold,
            cause: None,
        };
        let (changes, changed) = self.incidents.fire(&self.places, violation);
        self.decided.changes.extend(changes);
        self.changed.extend(changed);
    }

    /// Updates alerts that depend on time alone: missing results, and the end of quiet hours.
    pub fn tick(&mut self, now: WallTime) {
        let is_silent = |watched: &SilenceWatch| match self.rules[watched.rule].rule.kind {
            // Most have a recent result; their windows need not be computed.
            RuleKind::Silence { after, .. } => {
                !watched.firing && now.0 - watched.newest > after.0 && self.silence(watched, now).1 > after
            }
            RuleKind::Results { .. } => false,
        };
        let silent = self.watched.iter().filter(|(_, watched)| is_silent(watched));
        let mut silent: Vec<AlertSubject> = silent.map(|(subject, _)| subject.clone()).collect();
        silent.sort_unstable();
        silent.iter().for_each(|subject| self.judge_silence(subject, now));
        let can_wait = |own: &OwnRule| own.rule.quiet.is_some() || !self.maintenance.is_empty();
        for k in (0..self.rules.len()).filter(|k| can_wait(&self.rules[*k])).collect::<Vec<_>>() {
            let name = &self.rules[k].rule.name;
            let mut own: Vec<AlertSubject> = self
                .states
                .iter()
                .filter(|(s, state)| s.rule == *name && !state.firing)
                .map(|(s, _)| s.clone())
                .collect();
            own.sort_unstable();
            own.iter().for_each(|subject| self.weigh(k, subject, now));
        }
    }

    /// Returns the changes since the last call, which must be stored and notified. If they cannot be stored, create a
    /// new machine from the stored states, because the states of this one are newer.
    pub fn take(&mut self) -> AlertDecision {
        let mut decided = std::mem::take(&mut self.decided);
        for subject in std::mem::take(&mut self.changed) {
            if let Some(state) = self.states.get_mut(&subject).filter(|state| state.firing) {
                state.incident = self.incidents.membership(&subject);
            }
            let state = self.states.get(&subject).and_then(|state| serde_json::to_string(state).ok());
            decided.states.push((key(&subject), state));
        }
        decided
    }
}

/// Smallest step of the clock that is followed.
const MIN_STEP: Span = Span::seconds(2);

/// Returns the key of a path's state.
fn key(path: &AlertSubject) -> String {
    [&path.rule, &path.test, &path.src, &path.dst].map(String::as_str).join("\t")
}

/// Returns the path whose state has this key.
fn of_key(key: &str) -> Option<AlertSubject> {
    let mut parts = key.split('\t');
    let mut next = || parts.next();
    let (rule, test, src, dst) = (next()?, next()?, next()?, next()?);
    Some(match (test, dst) {
        ("", "") => AlertSubject::host(rule, src),
        _ => AlertSubject::path(rule, test, [src, dst]),
    })
}

impl OwnRule {
    /// Returns the subjects that a result of a test between these ends belongs to.
    fn silent_subjects(&self, test: &str, ends: [&str; 2], by_host: bool) -> Vec<AlertSubject> {
        if !by_host {
            return vec![AlertSubject::path(&self.rule.name, test, ends)];
        }
        let chosen = |host: &&&str| self.rule.hosts.is_empty() || self.rule.hosts.iter().any(|h| h == **host);
        ends.iter().filter(chosen).map(|host| AlertSubject::host(&self.rule.name, host)).collect()
    }
}

/// Grades a result, with a description if it is bad; `None` if it lacks the figures that the conditions need.
fn mark(
    conditions: &[AlertCondition],
    until: &[AlertCondition],
    against: Span,
    result: &TestResult,
) -> Option<(TestGrade, Option<String>)> {
    let answers: Vec<ConditionResult> = conditions.iter().map(|c| c.answer(result, against)).collect();
    let met: Vec<&str> = answers
        .iter()
        .filter_map(|answer| match answer {
            ConditionResult::Met(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !met.is_empty() {
        return Some((TestGrade::Bad, Some(met.join("; "))));
    }
    if answers.iter().all(|answer| *answer == ConditionResult::Unknown) {
        return None;
    }
    let is_well = until.iter().all(|c| matches!(c.answer(result, against), ConditionResult::Met(_)));
    Some((if is_well { TestGrade::Well } else { TestGrade::Between }, None))
}

/// Rounds a time to seconds.
fn rounded(time: Span) -> String {
    text_of(time.0.max(0) / SECOND * SECOND)
}
