//! Collector of this host: receives tests pushed by other hosts, and adds them to the archive.
//!
//! The server has one thread per connected host, which unpacks, checks and analyses the host's tests. A single
//! thread adds the tests of all hosts to the archive, in batches. A test is confirmed only once it is in the
//! archive.

use crate::runtime::error::{Context, Result};
use jitlat_archive::{
    AddOutcome, Archive, ArchiveError, Arrived, IncomingLog, MAX_LOG_BYTES, PreparedTest, Unfit,
};
use jitlat_core::{Session, Span};
use jitlat_net::pace;
use jitlat_net::push::{PushIntake, PushReply, Shelf};
use jitlat_proto::push::{About, PushOffer, PushOutcome, PushRefusal, SpoolState};
use jitlat_store::log::LogReader;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use tracing::{error, info, warn};

/// Maximum total size of the logs that are requested from a host and not confirmed or refused yet, in bytes. A
/// single log may be longer.
const MAX_UNSETTLED_BYTES: u64 = 2 << 20;
/// Maximum number of tests that are added to the archive in one transaction.
const MAX_TESTS_PER_BATCH: usize = 128;
/// Maximum number of tests that are analysed at the same time; limits the memory that analyses need.
const MAX_CONCURRENT_ANALYSES: usize = 2;
/// Maximum time that a test waits for room in the archive's queue; after this time, the host is refused.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the state that a host reports is stored in the archive.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Times for which hosts are requested to wait: when the disk is full, and when the archive fails.
const RETRY_PAUSES: (Span, Span) = (Span::seconds(20), Span::seconds(10));

/// Outcome of a test, or the refusal of all tests for now: reason, details, and time to wait.
type IntakeResult = Result<PushOutcome, (PushRefusal, String, Span)>;

/// Test that waits to be added to the archive.
struct IntakeJob {
    number: u64,
    test: PreparedTest,
    to: Sender<(u64, IntakeResult)>,
    entering: PendingLog,
}

/// Marks a log as received but not yet in the archive. Dropped once the log has been added or rejected.
struct PendingLog {
    shared: Arc<CollectorState>,
    hash: u128,
}

impl Drop for PendingLog {
    fn drop(&mut self) {
        self.shared.entering().remove(&self.hash);
    }
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
    /// Checksums of logs that were received but are not yet in the archive. They identify such a log if a host
    /// reconnects and offers it again.
    entering: Mutex<BTreeSet<u128>>,
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

impl ArchiveShelf {
    /// Adds received tests to the archive at `root`, which is created if it does not exist; `hosts` contains
    /// the name of each host in the monitor's file, and its address or host name.
    pub fn new(root: &Path, hosts: impl Iterator<Item = (String, String)>) -> Result<ArchiveShelf> {
        let archive = Archive::make(root)?;
        let (jobs, waiting) = mpsc::sync_channel(MAX_TESTS_PER_BATCH);
        let shared = Arc::new(CollectorState {
            root: root.to_owned(),
            hosts: HostNames { named: hosts.collect(), by_address: OnceLock::new() },
            entering: Mutex::default(),
            jobs: Mutex::new(Some(jobs)),
            places: Mutex::new(MAX_CONCURRENT_ANALYSES),
            free: Condvar::new(),
            long: Mutex::new(()),
            failing: AtomicBool::new(false),
        });
        let entering = shared.clone();
        // Unlike the hosts' threads, this one runs at normal priority: it locks the archive, and this host's
        // own results wait for the lock.
        let run = move || enter(&archive, &waiting, &entering);
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

/// Hosts of the monitor's file, used to reject tests that do not belong to the host that pushes them.
#[derive(Debug)]
struct HostNames {
    /// Address or host name of each host, by its name in the file.
    named: BTreeMap<String, String>,
    /// Names of the hosts by address; resolved when the first test arrives.
    by_address: OnceLock<BTreeMap<IpAddr, BTreeSet<String>>>,
}

impl HostNames {
    /// Returns the host that started a test according to `tags`, if that is a host of the file other than `host`.
    fn other_client<'a>(&self, host: &str, tags: &'a [(String, String)]) -> Option<&'a str> {
        let mut clients = tags.iter().filter(|(key, _)| key == "client").map(|(_, client)| client.as_str());
        clients.find(|client| *client != host && self.named.contains_key(*client))
    }

    /// Returns the reason why a test with `tags` between the addresses of `session` does not belong to `host`: its tags name
    /// other hosts, or both of its addresses belong to other hosts. An address that is not in the file may belong to `host`,
    /// for example behind address translation. `None`: it may be a test of `host`.
    fn foreign(&self, host: &str, tags: &[(String, String)], session: &Session) -> Option<String> {
        if let Some(client) = self.other_client(host, tags) {
            return Some(format!("{host} offers a test that {client} started"));
        }
        let ends = tags.iter().filter(|(key, _)| ["client", "server"].contains(&key.as_str()));
        let ends: Vec<&str> = ends.map(|(_, name)| name.as_str()).collect();
        if !ends.is_empty() && !ends.contains(&host) {
            return Some(format!("{host} offers a test of {}", ends.join(" and ")));
        }
        let (src, dst) = session.src.zip(session.dst)?;
        let of_others = |end: IpAddr| {
            self.by_address().get(&end.to_canonical()).filter(|names| !names.contains(host))?.first()
        };
        let (from, to) = of_others(src).zip(of_others(dst))?;
        Some(format!("{host} offers a test from {src} to {dst}, which are {from} and {to}"))
    }

    fn by_address(&self) -> &BTreeMap<IpAddr, BTreeSet<String>> {
        self.by_address.get_or_init(|| {
            let mut all: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
            for (name, address) in &self.named {
                // A host whose name cannot be resolved is only recognised by its tags.
                for found in (address.as_str(), 0).to_socket_addrs().into_iter().flatten() {
                    all.entry(found.ip().to_canonical()).or_default().insert(name.clone());
                }
            }
            all
        })
    }
}

/// Passes `job` to the thread that adds tests to the archive, as soon as its queue has room. After [`QUEUE_TIMEOUT`] the host
/// is refused instead, before it considers the connection dead.
fn queue(jobs: &SyncSender<IntakeJob>, mut job: IntakeJob) -> Result<(), (PushRefusal, &'static str)> {
    let begun = Instant::now();
    loop {
        match jobs.try_send(job) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err((PushRefusal::Stopping, "")),
            Err(TrySendError::Full(_)) if begun.elapsed() >= QUEUE_TIMEOUT => {
                return Err((PushRefusal::Busy, "its archive is busy"));
            }
            Err(TrySendError::Full(back)) => job = back,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Adds tests to the archive as they arrive; all waiting tests are added in one batch.
fn enter(archive: &Archive, jobs: &Receiver<IntakeJob>, shared: &CollectorState) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(MAX_TESTS_PER_BATCH - 1));
        let mut answers = Vec::with_capacity(batch.len());
        let mut tests = Vec::with_capacity(batch.len());
        let mut all_entering = Vec::with_capacity(batch.len());
        for IntakeJob { number, test, to, entering } in batch {
            answers.push((number, to));
            tests.push(test);
            all_entering.push(entering);
        }
        let results = enter_batch(archive, &mut tests, shared);
        drop(all_entering);
        for ((number, to), result) in answers.into_iter().zip(results) {
            // A host that has disconnected offers the test again.
            let _ = to.send((number, result));
        }
    }
}

/// Adds `tests` to the archive and returns the result of each.
fn enter_batch(archive: &Archive, tests: &mut [PreparedTest], shared: &CollectorState) -> Vec<IntakeResult> {
    match archive.add_all(tests) {
        Ok(added) => {
            shared.works();
            added.into_iter().map(|added| Ok(outcome(added))).collect()
        }
        // The archive currently accepts no tests.
        Err(e @ (ArchiveError::Io { .. } | ArchiveError::Busy { .. })) => {
            vec![Err(shared.fails(&e)); tests.len()]
        }
        // One test failed, for example because a stored summary is damaged: add the tests one by one.
        Err(_) if tests.len() > 1 => {
            tests.chunks_mut(1).flat_map(|one| enter_batch(archive, one, shared)).collect()
        }
        Err(e) => vec![Err(shared.fails(&e))],
    }
}

fn outcome(added: Result<AddOutcome, ArchiveError>) -> PushOutcome {
    match added {
        Ok(AddOutcome::New(_)) => PushOutcome::Stored,
        Ok(AddOutcome::Known(_)) => PushOutcome::Known,
        Err(e) => PushOutcome::Refused(e.to_string()),
    }
}

impl CollectorState {
    /// Logs a failure of the archive once, and returns the refusal that hosts receive.
    fn fails(&self, error: &ArchiveError) -> (PushRefusal, String, Span) {
        let first = !self.failing.swap(true, Ordering::Relaxed);
        if first {
            warn!("the collector cannot store tests: {error}; hosts retain them and try again");
        }
        match error {
            ArchiveError::Io { source, .. } if is_full(source) => {
                (PushRefusal::Full, String::new(), RETRY_PAUSES.0)
            }
            ArchiveError::Busy { .. } => {
                (PushRefusal::Busy, "its archive is busy".to_owned(), RETRY_PAUSES.1)
            }
            e => (PushRefusal::Failed, e.to_string(), RETRY_PAUSES.1),
        }
    }

    fn works(&self) {
        if self.failing.swap(false, Ordering::Relaxed) {
            info!("the collector can store tests again");
        }
    }

    /// Adds the log in the file at `path` to the archive. Concurrent calls wait for each other.
    fn enter_long(&self, path: &Path, about: &About, host: &str) -> IntakeResult {
        let _alone = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        let added = Archive::open_to_write(&self.root)
            .and_then(|archive| archive.add_from_host(path, &about.source, &about.tags, host));
        match added {
            Err(
                e @ (ArchiveError::Log(_) | ArchiveError::Unsuitable { .. } | ArchiveError::Impossible(_)),
            ) => Ok(PushOutcome::Refused(e.to_string())),
            Err(e) => Err(self.fails(&e)),
            added => Ok(outcome(added)),
        }
    }

    fn entering(&self) -> MutexGuard<'_, BTreeSet<u128>> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
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
}

/// Permission to analyse one test; dropping it allows the next analysis.
struct AnalysisPermit<'a>(&'a CollectorState);

impl Drop for AnalysisPermit<'_> {
    fn drop(&mut self) {
        *self.0.places.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.free.notify_one();
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

impl Shelf for ArchiveShelf {
    fn open(&self, host: &str) -> Result<Box<dyn PushIntake>, (PushRefusal, String, Span)> {
        let archive = Archive::open_to_write(&self.shared.root).map_err(|e| self.shared.fails(&e))?;
        let jobs = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(jobs) = jobs else { return Err((PushRefusal::Stopping, String::new(), RETRY_PAUSES.1)) };
        let (to, results) = mpsc::channel();
        Ok(Box::new(HostIntake {
            host: host.to_owned(),
            archive,
            shared: self.shared.clone(),
            jobs,
            to,
            results,
            offered: VecDeque::new(),
            wanted: BTreeMap::new(),
            coming: None,
            answers: Vec::new(),
            state: None,
            noted: None,
            refused: 0,
            logged: None,
        }))
    }
}

/// Receives the tests of one host while the host is connected.
struct HostIntake {
    host: String,
    archive: Archive,
    shared: Arc<CollectorState>,
    jobs: SyncSender<IntakeJob>,
    /// Sends outcomes of tests to `results`; cloned for each job.
    to: Sender<(u64, IntakeResult)>,
    results: Receiver<(u64, IntakeResult)>,
    /// Offered tests that are not requested yet because [`MAX_UNSETTLED_BYTES`] is reached.
    offered: VecDeque<PushOffer>,
    /// Requested tests that are not confirmed or refused yet.
    wanted: BTreeMap<u64, PushOffer>,
    /// Log that is being received, with the number and the description of its test; `None`: no log.
    coming: Option<(u64, About, IncomingLog)>,
    answers: Vec<PushReply>,
    /// Last state reported by the host, until it is stored.
    state: Option<SpoolState>,
    /// Time when the state and the number of refused tests were last stored; `None` if never.
    noted: Option<Instant>,
    /// Number of tests refused since `noted`.
    refused: u64,
    /// Reason for the last logged refusal; `None`: no refusal was logged.
    logged: Option<String>,
}

impl HostIntake {
    fn settle(&mut self, number: u64, outcome: PushOutcome) {
        self.wanted.remove(&number);
        if let PushOutcome::Refused(why) = &outcome {
            self.refused += 1;
            if self.logged.as_ref() != Some(why) {
                warn!("refused a test from {}: {why}", self.host);
                self.logged = Some(why.clone());
            }
        }
        match self.answers.last_mut() {
            Some(PushReply::Settled(list)) => list.push((number, outcome)),
            _ => self.answers.push(PushReply::Settled(vec![(number, outcome)])),
        }
    }

    /// Handles the offered tests in order: confirms those already in the archive, and requests the others up to
    /// [`MAX_UNSETTLED_BYTES`].
    fn want(&mut self) {
        let mut bytes: u64 = self.wanted.values().map(|offer| offer.length).sum();
        let mut want = Vec::new();
        while let Some(next) = self.offered.front().copied()
            && (self.wanted.is_empty() || bytes.saturating_add(next.length) <= MAX_UNSETTLED_BYTES)
            && !self.shared.entering().contains(&next.hash)
        {
            self.offered.pop_front();
            match self.archive.has(next.hash) {
                Ok(true) => self.settle(next.number, PushOutcome::Known),
                Ok(false) if next.length > MAX_LOG_BYTES => {
                    self.settle(next.number, PushOutcome::Refused("its log is longer than 1 GiB".to_owned()));
                }
                Ok(false) => {
                    bytes = bytes.saturating_add(next.length);
                    want.push(next.number);
                    self.wanted.insert(next.number, next);
                }
                Err(ArchiveError::Impossible(why)) => self.settle(next.number, PushOutcome::Refused(why)),
                Err(e) => {
                    self.fails(&e);
                    break;
                }
            }
        }
        if !want.is_empty() {
            self.answers.push(PushReply::Want(want));
        }
    }

    /// Stores the state that the host reported and the number of refused tests in the archive.
    fn note(&mut self) {
        self.noted = Some(Instant::now());
        let (state, refused) = (self.state.take(), std::mem::take(&mut self.refused));
        let state = state.map(|state| (state.waiting, state.dropped));
        if (state.is_some() || refused > 0)
            && let Err(e) = self.archive.record_report(&self.host, state, refused)
        {
            self.fails(&e);
        }
    }

    fn fails(&mut self, error: &ArchiveError) {
        let (why, details, pause) = self.shared.fails(error);
        self.answers.push(PushReply::Later(why, details, pause));
    }

    fn unfit(&mut self, number: u64, why: Unfit) {
        self.coming = None;
        match why {
            Unfit::Here(source) => {
                let path = self.archive.root().join("tmp");
                self.fails(&ArchiveError::Io { doing: "writing in", path, source });
            }
            why => self.settle(number, PushOutcome::Refused(why.to_string())),
        }
    }

    /// Returns the refusal of a test with `tags` between the addresses of `session`; `None` if it may be a test of this host.
    fn foreign(&self, tags: &[(String, String)], session: &Session) -> Option<PushOutcome> {
        self.shared.hosts.foreign(&self.host, tags, session).map(PushOutcome::Refused)
    }

    fn enter_text(&mut self, number: u64, text: &[u8], about: &About, entering: PendingLog) {
        let shared = self.shared.clone();
        let prepared = {
            let _place = shared.place();
            PreparedTest::new(text, &about.source, &about.tags)
        };
        let test = match prepared {
            Ok(test) => test,
            Err(e) => return self.settle(number, PushOutcome::Refused(e.to_string())),
        };
        if let Some(foreign) = self.foreign(test.tags(), test.session()) {
            return self.settle(number, foreign);
        }
        let job = IntakeJob { number, test: test.from_host(&self.host), to: self.to.clone(), entering };
        if let Err((why, details)) = queue(&self.jobs, job) {
            self.answers.push(PushReply::Later(why, details.to_owned(), RETRY_PAUSES.1));
        }
    }

    /// Adds a long log, which is read from its file. Runs in its own thread, because without answers the host
    /// would consider the connection dead.
    fn enter_file(&mut self, number: u64, file: NamedTempFile, about: About, entering: PendingLog) {
        // A file that is not a log is refused when it is added.
        if let Ok(log) = LogReader::open(file.path()) {
            let tags = [&about.tags[..], &log.session().tags].concat();
            if let Some(foreign) = self.foreign(&tags, log.session()) {
                return self.settle(number, foreign);
            }
        }
        let (shared, host, to) = (self.shared.clone(), self.host.clone(), self.to.clone());
        let enter = move || {
            pace::yield_to_others();
            let taken = shared.enter_long(file.path(), &about, &host);
            drop(entering);
            // A host that has disconnected offers the test again.
            let _ = to.send((number, taken));
        };
        if let Err(e) = std::thread::Builder::new().name("long log".to_owned()).spawn(enter) {
            self.answers.push(PushReply::Later(PushRefusal::Failed, e.to_string(), RETRY_PAUSES.1));
        }
    }
}

impl PushIntake for HostIntake {
    fn state(&mut self, state: SpoolState) {
        self.state = Some(state);
    }

    fn offered(&mut self, offers: Vec<PushOffer>) {
        self.offered.extend(offers);
    }

    fn begin(&mut self, number: u64, about: About) {
        let Some(offer) = self.wanted.get(&number) else { return };
        if let Some(client) = self.shared.hosts.other_client(&self.host, &about.tags) {
            let why = format!("{} offers a test that {client} started", self.host);
            return self.settle(number, PushOutcome::Refused(why));
        }
        match IncomingLog::new(&self.archive, offer.hash, offer.length) {
            Ok(incoming) => self.coming = Some((number, about, incoming)),
            Err(why) => self.unfit(number, why),
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        // Ignore pieces of a refused log, which may still arrive.
        let Some((number, _, incoming)) = &mut self.coming else { return };
        if let Err(why) = incoming.push(bytes) {
            let number = *number;
            self.unfit(number, why);
        }
    }

    fn whole(&mut self, number: u64) {
        let Some((coming, about, incoming)) = self.coming.take() else { return };
        debug_assert_eq!(coming, number);
        let hash = incoming.hash();
        match incoming.finish() {
            Ok(arrived) => {
                self.shared.entering().insert(hash);
                let entering = PendingLog { shared: self.shared.clone(), hash };
                match arrived {
                    Arrived::Text(text) => self.enter_text(number, &text, &about, entering),
                    Arrived::File(file) => self.enter_file(number, file, about, entering),
                }
            }
            Err(why) => self.unfit(number, why),
        }
    }

    fn gone(&mut self, number: u64) {
        self.wanted.remove(&number);
        if self.coming.as_ref().is_some_and(|(coming, ..)| *coming == number) {
            self.coming = None;
        }
    }

    fn answers(&mut self) -> Vec<PushReply> {
        while let Ok((number, result)) = self.results.try_recv() {
            match result {
                Ok(outcome) => self.settle(number, outcome),
                Err((why, details, pause)) => self.answers.push(PushReply::Later(why, details, pause)),
            }
        }
        if self.noted.is_none_or(|at| at.elapsed() >= NOTE_INTERVAL) {
            self.note();
        }
        self.want();
        std::mem::take(&mut self.answers)
    }
}

impl Drop for HostIntake {
    fn drop(&mut self) {
        self.note();
    }
}

#[cfg(test)]
mod tests;
