//! [`ResultJudge`]: judges results when they are added to the archive. The number of the last judged result,
//! the states of rules, the alerts and the messages are stored in one transaction.

use super::compare::Comparer;
use crate::Model;
use crate::alert::{self, AlertEvent, AlertMachine, AlertSubject, SlotReport, TestResult};
use crate::runtime::board::{report_of, reported};
use crate::runtime::collect::MAX_REPORTED_PATHS;
use jitlat_archive::{
    AlertAbout, AlertUpdate, Archive, ArchiveError, Entered, ExaminedRoute, Fired, Note, SlotFilter,
};
use jitlat_core::answer::Severity;
use jitlat_core::route;
use jitlat_core::scalars::GradeSubject;
use jitlat_core::{Span, SteadyTime, WallTime};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};

/// Prefix of the keys under which the states of rules are stored.
const PREFIX: &str = "alert/";
/// Maximum number of results that are judged in one transaction.
const MAX_RESULTS_PER_ROUND: usize = 200;
/// Maximum number of messages that wait in a channel.
const MAX_QUEUED_MESSAGES: u64 = 1000;
/// Time between two checks for missing results.
pub const SILENCE_CHECK_INTERVAL: Span = Span::seconds(5);

/// Judges the results in an archive.
pub struct ResultJudge {
    model: Arc<Model>,
    host: String,
    root: PathBuf,
    /// The open archive; `None` before the first step and after a failed step, so that results that were not stored are
    /// judged again.
    open: Option<OpenArchive>,
    comparer: Comparer,
    ended: BTreeMap<SlotFilter, u64>,
    /// Reports of this host that are not stored yet.
    reports: Vec<SlotReport>,
}

struct OpenArchive {
    archive: Archive,
    machine: AlertMachine,
    judged: i64,
    /// Number of the last report that the machine knows; `seen` is that of the last examination of a route.
    reported: i64,
    seen: i64,
    /// `id` of the newest route that the machine knows.
    newest_route: i64,
    ticked: Option<WallTime>,
}

impl ResultJudge {
    /// Creates a judge for the host `host` and the archive in the folder `root`.
    pub fn new(model: Arc<Model>, host: &str, root: &Path) -> ResultJudge {
        ResultJudge {
            model,
            host: host.to_owned(),
            root: root.to_owned(),
            open: None,
            comparer: Comparer::default(),
            ended: BTreeMap::new(),
            reports: Vec::new(),
        }
    }

    /// Applies a new version of the file.
    pub fn follow(&mut self, model: Arc<Model>, root: &Path) {
        (self.model, self.root, self.open) = (model, root.to_owned(), None);
    }

    /// Records that a slot has ended, with the report about it if it had no result.
    pub fn ended(&mut self, slots: SlotFilter, report: Option<SlotReport>) {
        *self.ended.entry(slots).or_default() += 1;
        self.reports.extend(report);
    }

    /// Judges all new results; `steady` reveals whether the clock was set since the last call.
    ///
    /// # Errors
    /// The error of the archive; results that were not stored are judged again.
    pub fn step(&mut self, now: WallTime, steady: SteadyTime) -> Result<(), ArchiveError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.opened(now)?,
        };
        open.machine.follow_clock(now, steady);
        if !self.reports.is_empty() {
            let stored: Vec<_> = self.reports.iter().map(reported).collect();
            open.archive.record_reports(&stored, MAX_REPORTED_PATHS)?;
            self.reports.clear();
        }
        if !self.ended.is_empty() {
            let ended: Vec<(SlotFilter, u64)> =
                self.ended.iter().map(|(slots, n)| (slots.clone(), *n)).collect();
            open.archive.count_slots(&ended)?;
            self.ended.clear();
        }
        for host in open.archive.collected()? {
            let heard = WallTime(host.heard_ns.unwrap_or(0).min(now.0));
            open.machine.waiting(&host.host, host.waiting > 0, heard);
        }
        for (number, report) in open.archive.reports_after(open.reported)? {
            open.machine.report(&report_of(report), now);
            open.reported = number;
        }
        let known = open.newest_route;
        for ExaminedRoute { number, route: seen, before } in open.archive.routes_after(open.seen)? {
            // Several examinations may have arrived since the last step.
            let is_new = seen.id > known;
            let change = before.filter(|_| is_new).map(|before| route::change(&before, &seen.hops));
            open.newest_route = open.newest_route.max(seen.id);
            let result = TestResult {
                test: seen.route,
                client: seen.src,
                server: seen.dst,
                started_ns: seen.last_ns,
                route: Some(change),
                ..TestResult::default()
            };
            open.machine.judge(&result, now);
            open.seen = number;
        }
        while self.judge(&mut open, now)? == MAX_RESULTS_PER_ROUND {}
        self.open = Some(open);
        Ok(())
    }

    fn opened(&self, now: WallTime) -> Result<OpenArchive, ArchiveError> {
        let archive = Archive::make(&self.root)?;
        let judged = match archive.judged()? {
            Some(judged) => judged,
            None => {
                // Do not judge results from before the first rule existed.
                let judged = archive.entered()?;
                archive.note(&Note { judged: Some(judged), ..Note::default() })?;
                judged
            }
        };
        let labels = self.model.hosts.iter().map(|host| (host.name.clone(), host.all_labels()));
        archive.set_labels(&labels.filter(|(_, labels)| !labels.is_empty()).collect())?;
        // Routes that changed while nobody judged are on the page, but no alert about them fires later.
        let (seen, newest_route) = archive.routes_seen()?;
        let states = archive.rule_states(PREFIX)?;
        let states = states.into_iter().map(|(key, state)| (key[PREFIX.len()..].to_owned(), state)).collect();
        let machine = AlertMachine::new(&self.model, &self.host, &states, now);
        Ok(OpenArchive { archive, machine, judged, reported: 0, seen, newest_route, ticked: None })
    }

    /// Judges up to [`MAX_RESULTS_PER_ROUND`] results; returns their number.
    fn judge(&mut self, open: &mut OpenArchive, now: WallTime) -> Result<usize, ArchiveError> {
        let results = open.archive.entered_after(open.judged, MAX_RESULTS_PER_ROUND)?;
        for entered in &results {
            if let Some(mut result) = result_of(entered) {
                for against in open.machine.comparisons(&result) {
                    let compared = self.comparer.compare(&open.archive, entered, against);
                    result.compared.extend(compared.map(|compared| (against, compared)));
                }
                open.machine.judge(&result, now);
            }
        }
        if open.ticked.is_none_or(|at| now - at >= SILENCE_CHECK_INTERVAL || now < at) {
            open.ticked = Some(now);
            open.machine.tick(now);
        }
        let judged = results.last().map(|entered| entered.number);
        let decided = open.machine.take();
        if judged.is_none() && decided.states.is_empty() && decided.changes.is_empty() {
            return Ok(0);
        }
        let note = Note {
            judged,
            states: decided
                .states
                .into_iter()
                .map(|(key, state)| (format!("{PREFIX}{key}"), state))
                .collect(),
            changes: decided.changes.into_iter().map(|decided| self.change(decided)).collect(),
            channels: self.model.alerts.channels.iter().map(|c| c.name.clone()).collect(),
            most_waiting: MAX_QUEUED_MESSAGES,
        };
        let noted = open.archive.note(&note)?;
        open.judged = judged.unwrap_or(open.judged);
        for alert in &noted.alerts {
            match &alert.resolution {
                None => warn!("{}", super::channel::line(alert)),
                Some(_) => info!("{}", super::channel::line(alert)),
            }
        }
        if noted.dropped > 0 {
            warn!(
                "alerts: {} messages were dropped, because more than {MAX_QUEUED_MESSAGES} were waiting",
                noted.dropped
            );
        }
        Ok(results.len())
    }
}

impl ResultJudge {
    fn change(&self, decided: alert::AlertChange) -> AlertUpdate {
        let rule = self.model.alerts.rules.iter().find(|rule| rule.name == decided.subject.rule);
        change(decided, rule.map_or(Span::ZERO, |rule| rule.turn(&self.host)))
    }
}

/// Returns the result to judge; `None` for a test that no monitor started.
pub fn result_of(entered: &Entered) -> Option<TestResult> {
    let tag = |key: &str| entered.tags.get(key).cloned();
    Some(TestResult {
        test: tag("test")?,
        client: tag("client")?,
        server: tag("server")?,
        is_backward: entered.direction == "down",
        started_ns: entered.started_ns,
        figures: entered.figures.clone(),
        grades: grades(entered),
        compared: Vec::new(),
        route: None,
    })
}

/// Returns the known grades of a test.
fn grades(entered: &Entered) -> BTreeMap<&'static str, Severity> {
    let of = |subject: GradeSubject, name: Option<&str>| Some((subject.name(), Severity::named(name?)?));
    let path = of(GradeSubject::Path, Some(&entered.severity));
    path.into_iter().chain(of(GradeSubject::Host, entered.host.as_deref())).collect()
}

fn about(subject: AlertSubject) -> AlertAbout {
    let AlertSubject { rule: alert, scope, test, src, dst } = subject;
    AlertAbout { alert, scope: scope.word().to_owned(), test, src, dst }
}

fn path(subject: AlertSubject) -> [String; 3] {
    [subject.test, subject.src, subject.dst]
}

/// Returns a change as it is stored; `turn` is the time that other judges have before this one.
fn change(change: alert::AlertChange, turn: Span) -> AlertUpdate {
    let alert::AlertChange { subject, at, reason, event } = change;
    let about_it = about(subject);
    match event {
        AlertEvent::Fired { severity, since_ns, held_until, path: first } => AlertUpdate::Fired(Fired {
            about: about_it,
            severity: severity.to_owned(),
            path: path(first),
            since_ns,
            fired_ns: at.0,
            held_until_ns: held_until.0,
            reason,
        }),
        AlertEvent::Joined(joined, since_ns) => {
            AlertUpdate::Joined { about: about_it, path: path(joined), since_ns }
        }
        AlertEvent::Left(left) => AlertUpdate::Left { about: about_it, path: path(left), at_ns: at.0 },
        AlertEvent::Widened(from) => AlertUpdate::Widened { from: about(from), about: about_it, reason },
        AlertEvent::Resolved => {
            let held_until_ns = (at + turn).0;
            AlertUpdate::Resolved { about: about_it, held_until_ns, at_ns: at.0, reason }
        }
    }
}
