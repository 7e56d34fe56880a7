//! Collector of this host: stores tests pushed by other hosts in the archive.
//!
//! Each body is read by a thread of the web server, which unpacks, checks and analyses its tests. A single thread adds the tests of all
//! hosts to the archive, in batches. A test is answered only once it is in the archive.

mod refusals;
mod writer;

use self::refusals::RefusalLog;
use self::writer::{enter, enter_batch, queue};
use super::ends::HostNames;
use crate::alert::AlertScope;
use crate::runtime::error::{Context, Result};
use jitlat_archive::{
    AddOutcome, AlertAbout, AlertUpdate, Archive, ArchiveError, Arrived, Fired, IncomingLog, LogName,
    MAX_LOG_BYTES, Note, PreparedTest, ReportedSlot, Route, SharedMessage, Unfit, utc,
};
use jitlat_core::{Span, SteadyTime};
use jitlat_net::clock;
use jitlat_proto::push::MAX_TESTS;
use jitlat_proto::push::answer::{Offers, PartAnswer, PartAnswers};
use jitlat_proto::push::part::{PartError, PartHeader};
use jitlat_proto::push::quota::{OverQuota, PushQuota, PushUse};
use jitlat_web::{NotNow, Shelf};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, info, warn};

/// Maximum number of tests that are added to the archive in one transaction.
const MAX_TESTS_PER_BATCH: usize = 128;
/// Maximum number of tests that are analysed at the same time; limits the memory that analyses need.
const MAX_CONCURRENT_ANALYSES: usize = 2;
/// Times for which hosts are requested to wait: when the disk is full, and when the archive fails.
const RETRY_PAUSES: (Span, Span) = (Span::seconds(20), Span::seconds(10));
/// Time for which the length of the logs stored for a host is used before it is read from the archive again.
const STORED_INTERVAL: Span = Span::seconds(600);
/// Time without a test over a quota after which its alert is resolved, and time between two checks.
const QUIET: (Span, Duration) = (Span::seconds(600), Duration::from_secs(30));
/// Bytes of the description of a test (its name, source and tags) that do not count towards a quota.
const FREE_DESCRIPTION: usize = 1024;
const DAY: i64 = 86_400_000_000_000;
/// Maximum number of paths of a host whose lost slots are stored, and of its routes.
pub const MAX_REPORTED_PATHS: u32 = 10_000;
/// Rule of alerts about quotas.
const QUOTA_RULE: &str = "push quota";

/// Rules of a collector.
#[derive(Clone, Debug)]
pub struct CollectRules {
    /// Name of this host.
    pub name: String,
    /// Maximum time by which a log may be dated after its arrival.
    pub skew: Span,
    /// Limits on the tests that each host pushes.
    pub quota: PushQuota,
    /// Names of the channels that are notified of hosts over their quota.
    pub channels: Vec<String>,
    /// Names of the hosts that judge by an alert rule, by the name of the rule.
    pub judges: BTreeMap<String, Vec<String>>,
}

/// Test that waits to be added to the archive, with its position in the body.
struct IntakeJob {
    place: usize,
    test: PreparedTest,
    to: Sender<(usize, IntakeResult)>,
}

/// Outcome of a test, or the reason why nothing can be stored now.
type IntakeResult = Result<Stored, NotNow>;

/// Outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stored {
    New,
    Known,
    Refused(String),
}

/// Archive to which a collector adds the received tests.
#[derive(Debug)]
pub struct ArchiveShelf {
    shared: Arc<CollectorState>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct CollectorState {
    root: PathBuf,
    hosts: HostNames,
    rules: CollectRules,
    /// Use of the quotas by each host.
    uses: Mutex<BTreeMap<String, HostUse>>,
    /// Logged refusals of each host.
    logged: Mutex<BTreeMap<String, RefusalLog>>,
    jobs: Mutex<Option<SyncSender<IntakeJob>>>,
    /// Number of analyses that may start now.
    places: Mutex<usize>,
    /// Notified when an analysis ends.
    free: Condvar,
    /// Locked while a long log is added to the archive, so that only one needs memory at a time.
    long: Mutex<()>,
    /// True if the current failure of the archive has been logged.
    failing: AtomicBool,
}

/// Use of the quotas by a host.
#[derive(Debug)]
struct HostUse {
    rates: PushUse,
    /// Total length of its logs in the archive, in bytes, and the time at which this was last read from the archive.
    stored: (u64, SteadyTime),
    /// Time of the last test over a quota; `None`: its alert is not firing.
    over: Option<SteadyTime>,
}

/// Decision about a test, made before its log is read or afterwards.
enum Decision {
    Answer(PartAnswer),
    /// The test waits to be added.
    Queued,
}

impl ArchiveShelf {
    /// Adds received tests to the archive at `root`, which is created if it does not exist; `hosts` contains
    /// the name of each host in the monitor's file, and its address or host name.
    pub fn new(
        root: &Path,
        hosts: impl Iterator<Item = (String, String)>,
        rules: CollectRules,
    ) -> Result<ArchiveShelf> {
        let archive = Archive::make(root)?;
        let (jobs, waiting) = mpsc::sync_channel(MAX_TESTS_PER_BATCH);
        let shared = Arc::new(CollectorState {
            root: root.to_owned(),
            hosts: HostNames::new(hosts),
            rules,
            uses: Mutex::default(),
            logged: Mutex::default(),
            jobs: Mutex::new(Some(jobs)),
            places: Mutex::new(MAX_CONCURRENT_ANALYSES),
            free: Condvar::new(),
            long: Mutex::new(()),
            failing: AtomicBool::new(false),
        });
        let state = shared.clone();
        // Unlike the threads that read bodies, this one runs at normal priority: it locks the archive, and this host's
        // own results wait for the lock.
        let run = move || enter(&archive, &waiting, &state);
        let writer = std::thread::Builder::new().name("collected".to_owned()).spawn(run);
        Ok(ArchiveShelf { shared, writer: Some(writer.context("starting the collector's thread")?) })
    }
}

impl Drop for ArchiveShelf {
    fn drop(&mut self) {
        drop(self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            error!("the collector's thread failed (a bug in jitlat)");
        }
    }
}

fn stopping() -> NotNow {
    NotNow { why: "it is being stopped".to_owned(), wait: Span::seconds(1) }
}

fn outcome(added: Result<AddOutcome, ArchiveError>) -> Stored {
    match added {
        Ok(AddOutcome::New(_)) => Stored::New,
        Ok(AddOutcome::Known(_)) => Stored::Known,
        Err(e) => Stored::Refused(e.to_string()),
    }
}

impl CollectorState {
    /// Logs a failure of the archive once, and returns the answer for hosts.
    fn fails(&self, error: &ArchiveError) -> NotNow {
        let first = !self.failing.swap(true, Ordering::Relaxed);
        if first {
            warn!("the collector cannot store tests: {error}; hosts retain them and try again");
        }
        let (why, wait) = match error {
            e if e.is_full() => ("its disk is full".to_owned(), RETRY_PAUSES.0),
            ArchiveError::Busy { .. } => ("its archive is busy".to_owned(), RETRY_PAUSES.1),
            e => (format!("its archive failed: {e}"), RETRY_PAUSES.1),
        };
        NotNow { why, wait }
    }

    fn works(&self) {
        if self.failing.swap(false, Ordering::Relaxed) {
            info!("the collector can store tests again");
        }
    }

    /// Stores the reports of `host` about its slots and its routes, always under its own name, so that it cannot report
    /// for another host.
    fn record_news(&self, archive: &Archive, host: &str, offers: &Offers) -> Result<(), ArchiveError> {
        let now = clock::wall().0;
        let latest = now.saturating_add(self.rules.skew.0);
        let reports: Vec<ReportedSlot> = offers
            .slots
            .iter()
            .filter(|slot| slot.at_ns <= latest && slot.since_ns <= slot.at_ns)
            .map(|slot| ReportedSlot {
                test: slot.test.clone(),
                client: host.to_owned(),
                server: slot.server.clone(),
                at_ns: slot.at_ns,
                since_ns: slot.since_ns,
                fault: slot.fault.clone(),
                reason: slot.reason.clone(),
            })
            .collect();
        if !reports.is_empty() {
            archive.record_reports(&reports, MAX_REPORTED_PATHS)?;
        }
        for seen in
            offers.routes.iter().filter(|seen| seen.last_ns <= latest && seen.first_ns <= seen.last_ns)
        {
            archive.record_route(&Route {
                id: 0,
                route: seen.route.clone(),
                src: host.to_owned(),
                dst: seen.dst.clone(),
                first_ns: seen.first_ns,
                last_ns: seen.last_ns,
                hops: seen.hops.clone(),
            })?;
        }
        if !offers.routes.is_empty() {
            archive.bound_routes(host, MAX_REPORTED_PATHS)?;
        }
        Ok(())
    }

    fn uses(&self) -> MutexGuard<'_, BTreeMap<String, HostUse>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for permission to analyse a test.
    fn place(&self) -> AnalysisPermit<'_> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        while *places == 0 {
            places = self.free.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        *places -= 1;
        AnalysisPermit(self)
    }

    /// Counts a test of `bytes`, if the quotas of `host` leave room for it.
    fn take(&self, archive: &Archive, host: &str, bytes: u64) -> Result<Result<(), OverQuota>, ArchiveError> {
        let (now, quota) = (clock::steady(), &self.rules.quota);
        let looked = self.uses().get(host).map(|of| of.stored.1);
        // The archive is read while nobody waits for the lock.
        let found = match looked {
            Some(at) if now - at < STORED_INTERVAL => None,
            _ => Some(archive.collected_bytes(host, clock::wall().0.saturating_sub(DAY))?),
        };
        let mut uses = self.uses();
        let of = uses.entry(host.to_owned()).or_insert_with(|| HostUse {
            rates: PushUse::new(quota, found.map_or(0, |(_, today)| today), now),
            stored: (0, now),
            over: None,
        });
        if let Some((kept, _)) = found {
            of.stored = (kept, now);
        }
        let went = of.rates.take(quota, bytes, of.stored.0, now);
        if went.is_ok() {
            of.stored.0 = of.stored.0.saturating_add(bytes);
        }
        Ok(went)
    }

    /// Fires the alert about a host that exceeds a quota, unless it is firing.
    fn fire(&self, archive: &Archive, host: &str, over: &OverQuota) -> Result<(), ArchiveError> {
        let now = clock::steady();
        let before = match self.uses().get_mut(host) {
            Some(of) => of.over.replace(now),
            None => None,
        };
        if before.is_some() {
            return Ok(());
        }
        warn!("{host} pushes {}: refused until its quota has room again", over.what);
        let at = clock::wall().0;
        self.note(
            archive,
            AlertUpdate::Fired(Fired {
                about: self.quota_alert(host),
                severity: "warning".to_owned(),
                path: ["push".to_owned(), host.to_owned(), self.rules.name.clone()],
                since_ns: at,
                fired_ns: at,
                held_until_ns: 0,
                reason: format!("pushes {}", over.what),
            }),
        )
    }

    /// Resolves the alerts of hosts that have kept to their quotas for a while.
    fn resolve(&self, archive: &Archive) {
        let now = clock::steady();
        let quiet: Vec<String> = self
            .uses()
            .iter_mut()
            .filter(|(_, of)| of.over.is_some_and(|at| now - at >= QUIET.0))
            .map(|(host, of)| {
                of.over = None;
                host.clone()
            })
            .collect();
        for host in quiet {
            let resolved = AlertUpdate::Resolved {
                about: self.quota_alert(&host),
                held_until_ns: 0,
                at_ns: clock::wall().0,
                reason: "within its quotas again".to_owned(),
            };
            if let Err(e) = self.note(archive, resolved) {
                warn!("the alert about {host} cannot be resolved: {e}");
            }
        }
    }

    fn quota_alert(&self, host: &str) -> AlertAbout {
        AlertAbout {
            alert: QUOTA_RULE.to_owned(),
            scope: AlertScope::Path.word().to_owned(),
            test: "push".to_owned(),
            src: host.to_owned(),
            dst: self.rules.name.clone(),
        }
    }

    fn note(&self, archive: &Archive, change: AlertUpdate) -> Result<(), ArchiveError> {
        let note = Note {
            changes: vec![change],
            channels: self.rules.channels.clone(),
            most_waiting: 1000,
            ..Note::default()
        };
        archive.note(&note).map(drop)
    }

    /// Returns the reason for refusing a test whose log is dated too long after its arrival; `None` if it is not.
    fn dated_later(&self, archive: &Archive, test: &PreparedTest) -> Result<Option<String>, NotNow> {
        let (now, started) = (clock::wall(), test.started());
        if started.0 <= now.0.saturating_add(self.rules.skew.0) {
            return Ok(None);
        }
        // If the clock of this host is behind its own archive, dates cannot be judged.
        let last = archive.last_arrival().map_err(|e| self.fails(&e))?;
        if last.is_some_and(|last| now.0 < last.saturating_sub(self.rules.skew.0)) {
            return Err(NotNow {
                why: "its clock is behind the tests in its archive".to_owned(),
                wait: RETRY_PAUSES.0,
            });
        }
        Ok(Some(format!(
            "its log is dated {}, later than its arrival at {}: check the clock of that host",
            utc(started.0),
            utc(now.0)
        )))
    }

    /// Returns a test that was read as one of `host`; the inner error is the reason why it is refused.
    fn check(
        &self,
        archive: &Archive,
        host: &str,
        test: PreparedTest,
    ) -> Result<Result<PreparedTest, String>, NotNow> {
        let ends = match self.hosts.ends(host, test.tags(), test.session()) {
            Ok(ends) => ends,
            Err(why) => return Ok(Err(why)),
        };
        Ok(match self.dated_later(archive, &test)? {
            Some(why) => Err(why),
            None => Ok(test.from_host(host, &ends)),
        })
    }
}

/// Permission to analyse one test; dropping it allows the next analysis.
struct AnalysisPermit<'a>(&'a CollectorState);

impl Drop for AnalysisPermit<'_> {
    fn drop(&mut self) {
        *self.0.places.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.free.notify_one();
    }
}

/// Body of a host while it is received.
struct Intake<'a> {
    host: &'a str,
    shared: &'a CollectorState,
    archive: Archive,
    jobs: SyncSender<IntakeJob>,
    to: Sender<(usize, IntakeResult)>,
}

impl Intake<'_> {
    fn not_now(&self, header: &PartHeader, not_now: NotNow) -> Decision {
        Decision::Answer(PartAnswer::later(&header.hash, not_now.why, not_now.wait))
    }

    fn fails(&self, header: &PartHeader, error: &ArchiveError) -> Decision {
        self.not_now(header, self.shared.fails(error))
    }

    fn refused(&self, header: &PartHeader, why: String) -> Decision {
        Decision::Answer(PartAnswer::refused(&header.hash, why))
    }

    /// Decides about a test by its description alone; `None`: its log is needed.
    fn before(&self, header: &PartHeader, name: LogName) -> Option<Decision> {
        match self.archive.has(name, Some(self.host)) {
            Ok(true) => return Some(Decision::Answer(PartAnswer::known(&header.hash))),
            Ok(false) => {}
            Err(ArchiveError::Impossible(why)) => return Some(self.refused(header, why)),
            Err(e) => return Some(self.fails(header, &e)),
        }
        let quota = &self.shared.rules.quota;
        if header.bytes > MAX_LOG_BYTES {
            return Some(self.refused(header, "its log is longer than 1 GiB".to_owned()));
        }
        if header.bytes > quota.bytes_per_day.min(quota.bytes) {
            return Some(
                self.refused(header, "its log alone is longer than the quota of this host".to_owned()),
            );
        }
        // Refused tests count, too: each costs a write to the archive.
        let described = header.line().len().saturating_sub(FREE_DESCRIPTION) as u64;
        match self.shared.take(&self.archive, self.host, header.bytes.saturating_add(described)) {
            Ok(Ok(())) => {
                let foreign = self.shared.hosts.foreign_names(self.host, &header.tags);
                foreign.map(|why| self.refused(header, why))
            }
            Ok(Err(over)) => {
                if let Err(e) = self.shared.fire(&self.archive, self.host, &over) {
                    return Some(self.fails(header, &e));
                }
                let why = format!("{} pushes {}", self.host, over.what);
                Some(Decision::Answer(PartAnswer::over_quota(&header.hash, why, over.wait)))
            }
            Err(e) => Some(self.fails(header, &e)),
        }
    }

    /// Receives the log of a test, and adds or queues the test.
    fn part(
        &self,
        place: usize,
        header: &PartHeader,
        mut body: &mut dyn BufRead,
    ) -> Result<Decision, PartError> {
        let Ok(name) = header.hash.parse::<LogName>() else {
            return Err(PartError::Line("hash is not the name of a log".to_owned()));
        };
        if let Some(decided) = self.before(header, name) {
            let is_over = matches!(&decided, Decision::Answer(answer) if [429, 503].contains(&answer.status));
            // Without a stated length, no other test follows.
            if header.packed.is_some() && !is_over {
                let _ = header.log(&mut body, |_| Err(()))?;
            }
            return Ok(decided);
        }
        let unfit = |why: Unfit| match why {
            Unfit::Here(source) => {
                let path = self.archive.root().join("tmp");
                self.fails(header, &ArchiveError::Io { doing: "writing in", path, source })
            }
            why => self.refused(header, why.to_string()),
        };
        let mut incoming = match IncomingLog::new(&self.archive, name, header.bytes) {
            Ok(incoming) => incoming,
            Err(why) => return Ok(unfit(why)),
        };
        if let Err(why) = header.log(&mut body, |piece| incoming.push(piece))? {
            return Ok(unfit(why));
        }
        let arrived = match incoming.finish() {
            Ok(arrived) => arrived,
            Err(why) => return Ok(unfit(why)),
        };
        Ok(match arrived {
            Arrived::Text(text) => self.short(place, header, &text),
            Arrived::File(file) => self.long(header, file.path()),
        })
    }

    fn short(&self, place: usize, header: &PartHeader, text: &[u8]) -> Decision {
        let prepared = {
            let _place = self.shared.place();
            PreparedTest::new(text, &header.source, &header.tags)
        };
        let test = match prepared {
            Ok(test) => test,
            Err(e) => return self.refused(header, e.to_string()),
        };
        let test = match self.shared.check(&self.archive, self.host, test) {
            Ok(Ok(test)) => test,
            Ok(Err(why)) => return self.refused(header, why),
            Err(not_now) => return self.not_now(header, not_now),
        };
        match queue(&self.jobs, IntakeJob { place, test, to: self.to.clone() }) {
            Ok(()) => Decision::Queued,
            Err(not_now) => self.not_now(header, not_now),
        }
    }

    /// Adds a long log, which is read from its file. Concurrent calls wait for each other.
    fn long(&self, header: &PartHeader, path: &Path) -> Decision {
        let _alone = self.shared.long.lock().unwrap_or_else(PoisonError::into_inner);
        let test = match PreparedTest::from_file(&self.archive, path, self.host, &header.source, &header.tags)
        {
            Ok(test) => test,
            Err(
                e @ (ArchiveError::Log(_) | ArchiveError::Unsuitable { .. } | ArchiveError::Impossible(_)),
            ) => return self.refused(header, e.to_string()),
            Err(e) => return self.fails(header, &e),
        };
        let test = match self.shared.check(&self.archive, self.host, test) {
            Ok(Ok(test)) => test,
            Ok(Err(why)) => return self.refused(header, why),
            Err(not_now) => return self.not_now(header, not_now),
        };
        match enter_batch(&self.archive, &mut [test], self.shared).pop() {
            Some(result) => Decision::Answer(answer(&header.hash, result)),
            None => self.not_now(header, stopping()),
        }
    }
}

fn answer(hash: &str, result: IntakeResult) -> PartAnswer {
    match result {
        Ok(Stored::New) => PartAnswer::stored(hash),
        Ok(Stored::Known) => PartAnswer::known(hash),
        Ok(Stored::Refused(why)) => PartAnswer::refused(hash, why),
        Err(NotNow { why, wait }) => PartAnswer::later(hash, why, wait),
    }
}

impl ArchiveShelf {
    /// Opens the archive for a body of `host`.
    fn open<'a>(&'a self, host: &'a str, to: Sender<(usize, IntakeResult)>) -> Result<Intake<'a>, NotNow> {
        let archive = Archive::open_to_write(&self.shared.root).map_err(|e| self.shared.fails(&e))?;
        let jobs = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Intake { host, shared: &self.shared, archive, jobs: jobs.ok_or_else(stopping)?, to })
    }

    /// Logs refusals with a new reason, and stores the numbers of refused tests.
    fn count(&self, archive: &Archive, host: &str, answers: &[PartAnswer]) {
        let refused: Vec<&String> =
            answers.iter().filter(|a| a.status == 422).filter_map(|a| a.error.as_ref()).collect();
        for why in &refused {
            let mut logged = self.shared.logged.lock().unwrap_or_else(PoisonError::into_inner);
            if logged.entry(host.to_owned()).or_default().is_news(why, clock::steady()) {
                warn!("refused a test from {host}: {why}");
            }
        }
        let over_quota = answers.iter().filter(|a| a.status == 429).count();
        if refused.len() + over_quota > 0
            && let Err(e) = archive.record_report(host, None, refused.len() as u64, over_quota as u64)
        {
            self.shared.fails(&e);
        }
    }
}

impl Shelf for ArchiveShelf {
    fn offered(&self, host: &str, offers: &Offers) -> Result<Vec<String>, NotNow> {
        let run = || {
            let archive = Archive::open_to_write(&self.shared.root)?;
            archive.record_report(host, Some((offers.waiting, offers.dropped)), 0, 0)?;
            self.shared.record_news(&archive, host, offers)?;
            let mut known = Vec::new();
            for name in &offers.tests {
                let has = match name.parse() {
                    Ok(parsed) => archive.has(parsed, Some(host)),
                    Err(_) => Ok(false),
                };
                match has {
                    Ok(true) => known.push(name.clone()),
                    // The answer to the test itself gives the reason.
                    Ok(false) | Err(ArchiveError::Impossible(_)) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(known)
        };
        run().map_err(|e| self.shared.fails(&e))
    }

    fn sent(&self, _: &str, messages: &[SharedMessage]) -> Result<Vec<bool>, NotNow> {
        let run = || {
            let archive = Archive::open(&self.shared.root)?;
            messages.iter().map(|message| archive.knows_sent(message)).collect::<Result<Vec<bool>, _>>()
        };
        run().map_err(|e| self.shared.fails(&e))
    }

    fn record_sent(&self, host: &str, messages: &[SharedMessage]) -> Result<(), NotNow> {
        // A host that does not judge by a rule must not be able to suppress its messages.
        let judges = |message: &&SharedMessage| {
            self.shared
                .rules
                .judges
                .get(&message.alert)
                .is_some_and(|judges| judges.iter().any(|at| at == host))
        };
        let reported: Vec<SharedMessage> = messages.iter().filter(judges).cloned().collect();
        let record =
            || Archive::open_to_write(&self.shared.root)?.record_sent_elsewhere(&reported, clock::wall().0);
        record().map_err(|e| self.shared.fails(&e))
    }

    fn receive(&self, host: &str, mut body: &mut dyn BufRead, only: Option<&str>) -> PartAnswers {
        let most = if only.is_some() { 1 } else { MAX_TESTS };
        let mut answers = PartAnswers::default();
        let (to, results) = mpsc::channel();
        let intake = self.open(host, to);
        while answers.tests.len() < most {
            let header = match PartHeader::read(&mut body) {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(e) => {
                    answers.error = Some(e.to_string());
                    break;
                }
            };
            if only.is_some_and(|name| name != header.hash) {
                answers.error = Some("the body contains another test than the one in its address".to_owned());
                break;
            }
            let decided = match &intake {
                Ok(intake) => intake.part(answers.tests.len(), &header, body),
                Err(not_now) => Ok(Decision::Answer(answer(&header.hash, Err(not_now.clone())))),
            };
            match decided {
                // Replaced once it is known.
                Ok(Decision::Queued) => answers.tests.push(answer(&header.hash, Err(stopping()))),
                Ok(Decision::Answer(answer)) => {
                    let is_over = [429, 503].contains(&answer.status);
                    answers.tests.push(answer);
                    if is_over {
                        break;
                    }
                }
                Err(e) => {
                    answers.error = Some(e.to_string());
                    break;
                }
            }
        }
        // The channel ends with the last queued test.
        let archive = intake.ok().map(|Intake { archive, .. }| archive);
        for (place, result) in results {
            if let Some(at) = answers.tests.get_mut(place) {
                *at = answer(&at.hash, result);
            }
        }
        if let Some(archive) = archive {
            self.count(&archive, host, &answers.tests);
        }
        answers
    }
}

#[cfg(test)]
pub mod tests;
