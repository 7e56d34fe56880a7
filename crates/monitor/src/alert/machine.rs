//! [`AlertMachine`]: states of all rules on all paths, updated by results and by time.

use super::condition::{AlertCondition, ConditionResult, TestComparison};
use super::rule::{AlertRule, RuleKind};
use crate::file::text_of;
use crate::group::HostPair;
use crate::model::Model;
use crate::window::{TimeWindow, open_between};
use jitlat_core::answer::Severity;
use jitlat_core::scalars::GradeSubject;
use jitlat_core::time::SECOND;
use jitlat_core::{Span, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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

/// Subject of an alert.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlertSubject {
    /// Name of the rule.
    pub rule: String,
    /// Name of the test; empty for an alert about missing results of a host.
    pub test: String,
    /// Name of the sender. For missing results: the host that starts the tests, or the host without results.
    pub src: String,
    /// Name of the receiver; empty for an alert about missing results of a host.
    pub dst: String,
}

impl AlertSubject {
    fn key(&self) -> String {
        [&self.rule, &self.test, &self.src, &self.dst].map(String::as_str).join("\t")
    }

    fn of_key(key: &str) -> Option<AlertSubject> {
        let mut parts = key.split('\t').map(str::to_owned);
        let mut next = || parts.next();
        Some(AlertSubject { rule: next()?, test: next()?, src: next()?, dst: next()? })
    }
}

/// An alert that begins to fire or is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertChange {
    /// Subject of the alert.
    pub subject: AlertSubject,
    /// Time of the decision.
    pub at: WallTime,
    /// Description of the reason.
    pub reason: String,
    /// Kind of event.
    pub event: AlertEvent,
}

/// Change of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertEvent {
    /// The alert fires.
    Fired {
        /// `critical`, `warning` or `info`.
        severity: &'static str,
        /// Start of the first test that contributed, in ns since 1970; for missing results, start of the last result.
        since_ns: i64,
    },
    /// The alert is resolved.
    Resolved,
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
}

/// The states of all rules on all paths, of one host.
#[derive(Debug)]
pub struct AlertMachine {
    rules: Vec<OwnRule>,
    host: String,
    states: BTreeMap<AlertSubject, AlertState>,
    /// Subjects that must have results, with the time at which this machine began to watch them and the windows of their tests.
    watched: BTreeMap<AlertSubject, SilenceWatch>,
    changed: BTreeSet<AlertSubject>,
    decided: AlertDecision,
}

#[derive(Debug)]
struct OwnRule {
    rule: AlertRule,
    fingerprint: u64,
    judges_all: bool,
}

#[derive(Debug)]
struct SilenceWatch {
    rule: usize,
    since: WallTime,
    windows: Vec<TimeWindow>,
}

impl AlertMachine {
    /// Creates the machine for the rules of `model` on `host`, with the stored states. A firing alert whose rule is no longer
    /// in the file is resolved.
    pub fn new(model: &Model, host: &str, kept: &BTreeMap<String, String>, now: WallTime) -> AlertMachine {
        let own = |rule: &AlertRule| OwnRule {
            judges_all: rule.at.iter().any(|name| name == host),
            fingerprint: twox_hash::XxHash3_64::oneshot(rule.kind.to_string().as_bytes()),
            rule: rule.clone(),
        };
        let here = |rule: &&AlertRule| rule.is_judged_at(host);
        let mut machine = AlertMachine {
            rules: model.alerts.rules.iter().filter(here).map(own).collect(),
            host: host.to_owned(),
            states: BTreeMap::new(),
            watched: BTreeMap::new(),
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
        for (k, own) in self.rules.iter().enumerate() {
            let RuleKind::Silence { by_host, .. } = own.rule.kind else { continue };
            for (test, ends, window) in paths(model) {
                if !(own.judges_all || ends[0] == self.host) || !own.rule.covers(test, ends) {
                    continue;
                }
                for subject in own.silent_subjects(test, ends, by_host) {
                    let watched = self.watched.entry(subject);
                    let watched =
                        watched.or_insert_with(|| SilenceWatch { rule: k, since: now, windows: Vec::new() });
                    if !watched.windows.contains(&window) {
                        watched.windows.push(window.clone());
                    }
                }
            }
        }
    }

    /// Restores a stored state.
    fn resume(&mut self, model: &Model, key: &str, text: &str, now: WallTime) {
        let Some(subject) = AlertSubject::of_key(key) else { return };
        // A state that cannot be read counts as empty.
        let mut state: AlertState = serde_json::from_str(text).unwrap_or_default();
        let rule = self.rules.iter().find(|own| own.rule.name == subject.rule);
        let is_there = rule.is_some_and(|own| match own.rule.kind {
            RuleKind::Silence { .. } => self.watched.contains_key(&subject),
            RuleKind::Results { .. } => {
                let ends = [subject.src.as_str(), subject.dst.as_str()];
                let captured = || model.captures.iter().any(|c| c.name == subject.test);
                let is_made = model.tests.iter().any(|t| t.name == subject.test) || captured();
                own.rule.covers(&subject.test, ends) && is_made
            }
        });
        let Some(own) = rule.filter(|_| is_there) else {
            if state.firing {
                let reason = "the monitor's file no longer contains this alert".to_owned();
                self.decided.changes.push(AlertChange {
                    subject: subject.clone(),
                    at: now,
                    reason,
                    event: AlertEvent::Resolved,
                });
            }
            self.decided.states.push((subject.key(), None));
            return;
        };
        if state.rule != own.fingerprint {
            state.recent.clear();
            state.rule = own.fingerprint;
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

    /// Judges a result by all rules.
    pub fn judge(&mut self, result: &TestResult, now: WallTime) {
        let rules: Vec<usize> = self.of(result).collect();
        for k in rules {
            let own = &self.rules[k];
            match &own.rule.kind {
                RuleKind::Silence { by_host, .. } => {
                    let ends = [result.client.as_str(), result.server.as_str()];
                    for subject in own.silent_subjects(&result.test, ends, *by_host) {
                        self.note_result(k, &subject, result.started_ns, now);
                    }
                }
                RuleKind::Results { .. } => self.mark(k, result, now),
            }
        }
    }

    /// Records a result of a subject that must have results.
    fn note_result(&mut self, k: usize, subject: &AlertSubject, at: i64, now: WallTime) {
        if !self.watched.contains_key(subject) {
            return;
        }
        let fingerprint = self.rules[k].fingerprint;
        let state = self.states.entry(subject.clone()).or_default();
        (state.rule, state.newest) = (fingerprint, state.newest.max(at));
        self.changed.insert(subject.clone());
        self.judge_silence(subject, now);
    }

    /// Decides whether results of a subject are missing.
    fn judge_silence(&mut self, subject: &AlertSubject, now: WallTime) {
        let Some(watched) = self.watched.get(subject) else { return };
        let own = &self.rules[watched.rule];
        let RuleKind::Silence { after, .. } = own.rule.kind else { return };
        let known = self.states.get(subject);
        let (newest, firing) = known.map_or((0, false), |state| (state.newest, state.firing));
        if firing && newest == 0 {
            return;
        }
        let windows: Vec<&TimeWindow> = watched.windows.iter().collect();
        // Do not count the time before this machine began to watch: no results were expected then.
        let since = if firing { WallTime(newest) } else { WallTime(newest.max(watched.since.0)) };
        let is_silent = open_between(&windows, since, now) > after;
        let event = match (firing, is_silent) {
            (false, true) if !own.rule.is_quiet(now) => AlertEvent::Fired {
                severity: own.rule.severity.word(),
                since_ns: if newest > 0 { newest } else { since.0 },
            },
            (true, false) => AlertEvent::Resolved,
            _ => return,
        };
        let reason = match (&event, newest) {
            (AlertEvent::Resolved, _) => "a new result has arrived".to_owned(),
            (_, 0) => format!("no result since the monitor started {} ago", rounded(now - since)),
            _ => format!("no result for {}", rounded(now - WallTime(newest))),
        };
        let fingerprint = own.fingerprint;
        let state = self.states.entry(subject.clone()).or_default();
        (state.rule, state.firing) = (fingerprint, !firing);
        self.decide(subject.clone(), now, reason, event);
    }

    /// Adds the grade of a result to the state of a rule, and updates the alert.
    fn mark(&mut self, k: usize, result: &TestResult, now: WallTime) {
        let own = &self.rules[k];
        let RuleKind::Results { conditions, until, of, clear, against, .. } = &own.rule.kind else { return };
        let Some((mark, said)) = mark(conditions, until, *against, result) else { return };
        let [src, dst] = result.path().map(str::to_owned);
        let subject = AlertSubject { rule: own.rule.name.clone(), test: result.test.clone(), src, dst };
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
            (state.settled, state.firing) = (state.newest, false);
            state.recent.clear();
            let reason = if *clear == 1 {
                "a test was good".to_owned()
            } else {
                format!("{clear} consecutive tests were good")
            };
            return self.decide(subject.clone(), now, reason, AlertEvent::Resolved);
        }
        let window = state.recent.iter().rev().take(*of as usize).rev();
        let found: Vec<i64> =
            window.filter(|(_, mark)| *mark == TestGrade::Bad).map(|(started, _)| *started).collect();
        if (found.len() as u32) < *bad || own.rule.is_quiet(now) {
            return;
        }
        state.firing = true;
        let reason = match (bad, of) {
            (1, 1) => state.said.clone(),
            _ => format!("{}; bad in {} of the last {of} tests", state.said, found.len()),
        };
        let since_ns = found.first().copied().unwrap_or(now.0);
        let event = AlertEvent::Fired { severity: own.rule.severity.word(), since_ns };
        self.decide(subject.clone(), now, reason, event);
    }

    fn decide(&mut self, subject: AlertSubject, at: WallTime, reason: String, event: AlertEvent) {
        self.changed.insert(subject.clone());
        self.decided.changes.push(AlertChange { subject, at, reason, event });
    }

    /// Updates alerts that depend on time alone: missing results, and the end of quiet hours.
    pub fn tick(&mut self, now: WallTime) {
        let watched: Vec<AlertSubject> = self.watched.keys().cloned().collect();
        watched.iter().for_each(|subject| self.judge_silence(subject, now));
        for k in (0..self.rules.len()).filter(|k| self.rules[*k].rule.quiet.is_some()).collect::<Vec<_>>() {
            let name = &self.rules[k].rule.name;
            let own: Vec<AlertSubject> = self
                .states
                .iter()
                .filter(|(s, state)| s.rule == *name && !state.firing)
                .map(|(s, _)| s.clone())
                .collect();
            own.iter().for_each(|subject| self.weigh(k, subject, now));
        }
    }

    /// Returns the changes since the last call, which must be stored and notified. If they cannot be stored, create a
    /// new machine from the stored states, because the states of this one are newer.
    pub fn take(&mut self) -> AlertDecision {
        let mut decided = std::mem::take(&mut self.decided);
        for subject in std::mem::take(&mut self.changed) {
            let state = self.states.get(&subject).and_then(|state| serde_json::to_string(state).ok());
            decided.states.push((subject.key(), state));
        }
        decided
    }
}

/// Returns every path that should have results: name of the test or capture, both ends (starting host first),
/// and time window.
fn paths(model: &Model) -> impl Iterator<Item = (&str, [&str; 2], TimeWindow)> {
    let tests = model.tests.iter().flat_map(|test| {
        let ends = |pair: &HostPair| [pair.client(), pair.server()].map(|end| model.end(test, end));
        test.pairs.list.iter().map(move |pair| (test.name.as_str(), ends(pair), test.window.clone()))
    });
    let captures = model.captures.iter().flat_map(|capture| {
        let hosts = capture.hosts.iter().filter_map(|host| model.hosts.get(*host as usize));
        let far = capture.far(&model.hosts);
        hosts.map(move |host| (capture.name.as_str(), [host.name.as_str(), far], TimeWindow::default()))
    });
    tests.chain(captures)
}

impl OwnRule {
    /// Returns the subjects that a result of a test between these ends belongs to.
    fn silent_subjects(&self, test: &str, ends: [&str; 2], by_host: bool) -> Vec<AlertSubject> {
        let rule = self.rule.name.clone();
        if !by_host {
            let [src, dst] = ends.map(str::to_owned);
            return vec![AlertSubject { rule, test: test.to_owned(), src, dst }];
        }
        let chosen = |host: &&str| self.rule.hosts.is_empty() || self.rule.hosts.iter().any(|h| h == host);
        let of = |host: &str| AlertSubject {
            rule: rule.clone(),
            test: String::new(),
            src: host.to_owned(),
            dst: String::new(),
        };
        ends.iter().filter(|host| chosen(host)).map(|host| of(host)).collect()
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
