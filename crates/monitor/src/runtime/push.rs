//! Pushes this host's tests to collectors over HTTPS: one thread per collector, in parallel to the tests.

use super::access;
use super::alerts::{JudgePeer, Peer};
use super::board::NewsBoard;
use super::watch::ArchiveWatch;
use crate::Model;
use crate::model::CollectorTrust;
use crate::runtime::error::{Context, Result, explain};
use jitlat_archive::{
    Archive, ArchiveError, LogName, MAX_PREPARED_BYTES, Outgoing, PushResult, SharedMessage,
};
use jitlat_core::{Span, SteadyTime};
use jitlat_net::wake::{StopSignal, Waker};
use jitlat_net::{clock, key_file, pace};
use jitlat_proto::jitlat::PresharedKey;
use jitlat_proto::push::answer::{MAX_NEWS, Offers, Outcome, PartAnswer};
use jitlat_proto::push::part::PartHeader;
use jitlat_proto::push::{MAX_TESTS, Retry};
use jitlat_web::{Identity, PushClient, PushCredential, PushFailure, PushTarget, PushTrust};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tracing::{error, info, warn};

/// Time between a failure of the archive and the next attempt.
const RETRY_PAUSE: Span = Span::seconds(1);
/// Time between two checks of the spool's size.
const BOUND_INTERVAL: Span = Span::seconds(60);
/// Length in bytes and number of tests from which on a body is sent.
const BODY_BYTES: usize = 512 << 10;
const BODY_TESTS: usize = 64;

/// Threads that push tests. They stop when this value is dropped.
pub struct RunningPushes {
    stop: StopSignal,
    threads: Vec<JoinHandle<()>>,
    /// For each thread, the flag that requests an attempt without a further pause, and the thread's waker.
    requests: Vec<(Arc<AtomicBool>, Waker)>,
}

/// Collector to which a host pushes its tests.
#[derive(Clone, PartialEq)]
pub struct Target {
    name: String,
    at: PushTarget,
    spool: u64,
    /// File with the certificate of this host; `None`: it pushes with a token.
    certificate: Option<PathBuf>,
}

/// Source of the credential with which this host authenticates.
#[derive(Clone)]
enum OwnProof {
    Token(String),
    /// File with a certificate and its private key. It is read for each connection, so that a renewed certificate is used at once.
    CertificateFile(PathBuf),
}

impl OwnProof {
    /// Returns the proof of `host`; `None` if it has neither a certificate nor a key.
    fn of(target: &Target, host: &str, key: Option<&PresharedKey>) -> Option<OwnProof> {
        match (&target.certificate, key) {
            (Some(file), _) => Some(OwnProof::CertificateFile(file.clone())),
            (None, Some(key)) => Some(OwnProof::Token(key.push_token(host))),
            (None, None) => None,
        }
    }

    fn credential(&self) -> std::result::Result<PushCredential, PushFailure> {
        let path = match self {
            OwnProof::Token(token) => return Ok(PushCredential::Token(token.clone())),
            OwnProof::CertificateFile(path) => path,
        };
        let contents = key_file::read(path).map_err(|e| PushFailure::Failed(explain(&e)))?;
        let own = Identity::of_file_contents(path, &contents);
        let own = own.map_err(|e| PushFailure::Failed(explain(&e)))?;
        Ok(PushCredential::Certificate(own))
    }

    /// Logs the fingerprint of the certificate, for `pin`; nothing for a token.
    fn announce(&self, target: &Target) {
        match self.credential() {
            Ok(PushCredential::Certificate(own)) => {
                info!("pushing tests to {} with the certificate {}", target.name, own.fingerprint());
            }
            Ok(PushCredential::Token(_)) => {}
            // Every attempt to push reads the file again.
            Err(why) => warn!("{}: {why}", target.name),
        }
    }

    /// Connects to the collector.
    fn connect(&self, target: &Target, stop: &StopSignal) -> std::result::Result<PushClient, PushFailure> {
        PushClient::connect(&target.at, &self.credential()?, stop)
    }
}

/// Returns the collectors to which the host with `index` pushes its tests.
///
/// # Errors
/// Reason why a pin is not a fingerprint.
pub fn targets(model: &Model, index: usize, folder: &Path) -> Result<Vec<Target>> {
    let own = model.collectors.iter().filter(|collector| collector.from.contains(&index));
    let target = |collector: &crate::model::CollectorRules| {
        let far = &model.hosts[collector.host];
        let trust = match &collector.trust {
            CollectorTrust::System => PushTrust::System,
            CollectorTrust::CaFile(file) => PushTrust::CaFile(folder.join(file)),
            CollectorTrust::Pin(pin) => PushTrust::Pin(pin.parse().context("[[collector]] pin")?),
            CollectorTrust::Plain => PushTrust::Plain,
        };
        let (host, port, prefix) = match &collector.url {
            Some(url) => (url.host.clone(), url.port, url.prefix.clone()),
            None => (far.address.clone(), collector.port, String::new()),
        };
        let at = PushTarget { host, port, prefix, trust };
        let certificate = model.hosts[index].certificate.as_ref().map(|own| folder.join(&own.file));
        Ok(Target { name: far.name.clone(), at, spool: collector.spool, certificate })
    };
    own.map(target).collect()
}

/// Returns the other hosts that judge by the same rules as `host` and are collectors, so that it can ask them which messages they have
/// sent.
pub fn judges(model: &Model, host: &str, folder: &Path, stop: &StopSignal) -> Vec<Peer> {
    let Some(index) = model.host(host) else { return Vec::new() };
    let rules = || model.alerts.rules.iter().filter(|rule| rule.at.iter().any(|at| at == host));
    let judges = |name: &str| name != host && rules().any(|rule| rule.at.iter().any(|at| at == name));
    let key = access::own_key(model, index, folder).ok().flatten();
    let Ok(targets) = targets(model, index, folder) else { return Vec::new() };
    let peer = |target: Target| -> Option<Peer> {
        let own = OwnProof::of(&target, host, key.as_ref())?;
        Some(Arc::new(CollectingJudge { target, own, stop: stop.clone(), open: Mutex::default() }))
    };
    targets.into_iter().filter(|target| judges(&target.name)).filter_map(peer).collect()
}

/// Another judge, which is a collector.
struct CollectingJudge {
    target: Target,
    own: OwnProof,
    stop: StopSignal,
    /// Connection of the last [`JudgePeer::has_sent`], which the report after it uses again.
    open: Mutex<Option<PushClient>>,
}

impl CollectingJudge {
    fn open(&self) -> MutexGuard<'_, Option<PushClient>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self) -> Option<PushClient> {
        self.own.connect(&self.target, &self.stop).ok()
    }
}

impl JudgePeer for CollectingJudge {
    fn has_sent(&self, messages: &[SharedMessage]) -> Option<Vec<bool>> {
        let mut client = self.connect()?;
        let answer = client.sent(messages).ok()?;
        *self.open() = Some(client);
        Some(answer)
    }

    fn report_sent(&self, messages: &[SharedMessage]) {
        let open = self.open().take();
        let is_reported = open.is_some_and(|mut client| client.report_sent(messages).is_ok());
        if !is_reported && let Some(mut client) = self.connect() {
            // If the other judge cannot be reached now, it asks this host before it sends the same messages.
            let _ = client.report_sent(messages);
        }
    }
}

impl RunningPushes {
    /// Starts to push tests from the archive at `root`; `key` is the key with which `host` authenticates if it has no certificate.
    /// Without an archive, or without both, nothing is pushed. `news` is pushed in addition to results.
    pub fn start(
        (model, host): (&Model, usize),
        folder: &Path,
        root: Option<&Path>,
        key: Option<&PresharedKey>,
        news: &NewsBoard,
    ) -> Result<RunningPushes> {
        let targets = targets(model, host, folder)?;
        let stop = StopSignal::new()?;
        let (mut threads, mut requests) = (Vec::new(), Vec::new());
        news.forget_wakers();
        if let Some(root) = root {
            let archive = Archive::make(root)?;
            let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            archive.keep_pushes(&names)?;
            for target in targets {
                // From now on the archive counts tests that are removed before they are pushed, even before the
                // first attempt to push.
                archive.begin_push(&target.name, target.spool)?;
                let Some(own) = OwnProof::of(&target, &model.hosts[host].name, key) else { continue };
                own.announce(&target);
                let seed =
                    model.hosts[host].name.bytes().fold(7, |sum: u64, b| sum.rotate_left(9) ^ u64::from(b));
                let waker = Waker::new()?;
                news.wake(waker.clone());
                let at_once = Arc::new(AtomicBool::new(false));
                requests.push((at_once.clone(), waker.clone()));
                let mut pusher = Pusher {
                    news: news.clone(),
                    waker,
                    at_once,
                    last_sent: 0,
                    counts: (0, 0),
                    root: root.to_owned(),
                    own,
                    retry: Retry::new(seed),
                    failure: None,
                    spool: Spool::default(),
                    failing: false,
                    stop: stop.clone(),
                    target,
                };
                let run = move || {
                    // Measurements take precedence.
                    pace::yield_to_others();
                    pusher.run();
                };
                threads.push(std::thread::Builder::new().name("push".to_owned()).spawn(run)?);
            }
        }
        Ok(RunningPushes { stop, threads, requests })
    }

    /// Ends the pauses after failures, because a far host was reached again: probably the collectors can be reached, too.
    pub fn try_at_once(&self) {
        for (at_once, waker) in &self.requests {
            at_once.store(true, Ordering::SeqCst);
            waker.wake();
        }
    }
}

impl Drop for RunningPushes {
    fn drop(&mut self) {
        self.stop.request();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a thread that pushes tests failed (a bug in jitlat)");
            }
        }
    }
}

/// Pushes to one collector.
struct Pusher {
    news: NewsBoard,
    /// Wakes this thread when there is news.
    waker: Waker,
    /// Requests the next attempt without a further pause.
    at_once: Arc<AtomicBool>,
    /// Number of the newest entry of `news` that the collector has.
    last_sent: u64,
    /// Numbers of waiting and of dropped tests, as last sent to the collector.
    counts: (u64, u64),
    root: PathBuf,
    target: Target,
    own: OwnProof,
    retry: Retry,
    /// Time of the first failure since the last success, and the last logged reason; `None` after a success.
    failure: Option<(SteadyTime, String)>,
    spool: Spool,
    /// True if the current failure of this host's archive has been logged.
    failing: bool,
    stop: StopSignal,
}

/// Reason why a connection ended before all tests were pushed.
enum PushEnd {
    /// The connection failed, or the collector refused.
    Far(PushFailure),
    /// The archive of this host failed.
    Here(ArchiveError),
}

impl From<PushFailure> for PushEnd {
    fn from(e: PushFailure) -> PushEnd {
        PushEnd::Far(e)
    }
}

impl From<ArchiveError> for PushEnd {
    fn from(e: ArchiveError) -> PushEnd {
        PushEnd::Here(e)
    }
}

impl Pusher {
    fn run(&mut self) {
        let mut watch = ArchiveWatch::new(&self.root, &self.stop);
        while !self.stop.is_requested() {
            if self.at_once.swap(false, Ordering::SeqCst) {
                self.retry.succeeded();
            }
            let went = self.step();
            if let Err(e) = &went
                && !self.failing
            {
                warn!("pushing tests to {} failed: {e}; retrying", self.target.name);
            }
            self.failing = went.is_err();
            watch.wait(Some(&self.waker), went.unwrap_or_else(|_| Some(clock::steady() + RETRY_PAUSE)));
        }
    }

    /// Pushes the waiting tests if an attempt is due. Returns the time of the next step; `None` if no step is needed
    /// before the archive changes. A change of the archive always requires a step.
    fn step(&mut self) -> Result<Option<SteadyTime>, ArchiveError> {
        let news_due = self.push_news();
        let archive = Archive::open_to_write(&self.root)?;
        let now = clock::steady();
        self.spool.bound(&self.target, &archive, now)?;
        self.counts = counts(&archive, &self.target.name)?;
        let waits = !archive.to_push(&self.target.name, 0, 1)?.is_empty()
            || !archive.push_doubts(&self.target.name)?.is_empty();
        if !waits {
            return Ok(news_due);
        }
        if !self.retry.may_try(now) {
            // Wake up earlier to enforce the limit of the spool.
            return Ok(self.retry.due().into_iter().chain(Some(now + BOUND_INTERVAL)).min());
        }
        let client = self.own.connect(&self.target, &self.stop);
        let begun = client.map_err(PushEnd::Far).map(|client| PushSession {
            target: &self.target,
            archive: &archive,
            stop: &self.stop,
            spool: &mut self.spool,
            news: (&self.news, &mut self.last_sent),
            client,
            refused: None,
            progress: false,
        });
        let ended = begun.and_then(|mut session| {
            let ended = session.run();
            if session.progress {
                self.retry.succeeded();
            }
            ended
        });
        match ended {
            Ok(()) => {
                self.succeeded();
                self.spool.warned = false;
            }
            Err(PushEnd::Here(e)) => return Err(e),
            Err(PushEnd::Far(_)) if self.stop.is_requested() => {}
            Err(PushEnd::Far(why)) => {
                self.counts = counts(&archive, &self.target.name)?;
                self.failed(&why);
            }
        }
        // Tests may have been added in the meantime.
        Ok(Some(clock::steady()))
    }

    /// Sends the collector the news that it does not have, before anything that needs this host's archive. Returns the
    /// time of the next attempt if the collector cannot be reached. A failure is logged like one to push tests.
    fn push_news(&mut self) -> Option<SteadyTime> {
        let now = clock::steady();
        if self.news.after(self.last_sent, 1).number == self.last_sent {
            return None;
        }
        if !self.retry.may_try(now) {
            return self.retry.due();
        }
        let done = self.own.connect(&self.target, &self.stop).and_then(|mut client| {
            loop {
                let news = self.news.after(self.last_sent, MAX_NEWS);
                if news.number == self.last_sent || self.stop.is_requested() {
                    return Ok(());
                }
                let (waiting, dropped) = self.counts;
                let tests = Vec::new();
                client.offers(&Offers { waiting, dropped, tests, slots: news.slots, routes: news.routes })?;
                self.last_sent = news.number;
            }
        });
        match done {
            Ok(()) => self.succeeded(),
            Err(_) if self.stop.is_requested() => {}
            Err(why) => self.failed(&why),
        }
        self.retry.due()
    }

    fn succeeded(&mut self) {
        self.retry.succeeded();
        if let Some((since, _)) = self.failure.take() {
            let long = crate::file::text_of((clock::steady() - since).0 / 1_000_000_000 * 1_000_000_000);
            info!("{}: pushing tests works again after {long}", self.target.name);
        }
    }

    /// Waits before the next attempt, and logs a new reason.
    fn failed(&mut self, why: &PushFailure) {
        let now = clock::steady();
        self.retry.failed(now, why.pause());
        let (since, before) = self.failure.take().map_or((now, None), |(at, why)| (at, Some(why)));
        let why = why.to_string();
        if before.as_ref() != Some(&why) {
            warn!(
                "{}: cannot push tests: {why}; {} wait in the archive; retrying at growing intervals",
                self.target.name, self.counts.0
            );
        }
        self.failure = Some((since, why));
    }
}

/// Returns the number of tests that wait for a collector, and the number of tests that were dropped.
fn counts(archive: &Archive, collector: &str) -> Result<(u64, u64), ArchiveError> {
    let all = archive.pushes()?;
    let own = all.iter().find(|push| push.collector == collector);
    Ok(own.map_or((0, 0), |own| (own.waiting, own.dropped)))
}

/// Enforces the limit on tests that wait on this host.
#[derive(Default)]
struct Spool {
    /// Time of the last check of the spool's size; `None` before the first check.
    looked: Option<SteadyTime>,
    /// True if a warning about dropped tests has been logged since the last complete push.
    warned: bool,
}

impl Spool {
    /// Drops the oldest tests beyond the limit, if a check is due.
    fn bound(&mut self, target: &Target, archive: &Archive, now: SteadyTime) -> Result<(), ArchiveError> {
        if self.looked.is_some_and(|at| now - at < BOUND_INTERVAL) {
            return Ok(());
        }
        self.looked = Some(now);
        let dropped = archive.bound_push(&target.name, target.spool)?;
        if dropped > 0 && !std::mem::replace(&mut self.warned, true) {
            warn!(
                "{}: the waiting tests exceed the limit of {} bytes (spool): the oldest are dropped and will not be pushed ({dropped} so far)",
                target.name, target.spool
            );
        }
        Ok(())
    }
}

/// Connection to the collector.
struct PushSession<'a> {
    target: &'a Target,
    archive: &'a Archive,
    stop: &'a StopSignal,
    spool: &'a mut Spool,
    /// News of this host, and the number of the newest entry that the collector has.
    news: (&'a NewsBoard, &'a mut u64),
    client: PushClient,
    /// Reason for the last logged refusal; `None`: no refusal was logged.
    refused: Option<String>,
    /// True if at least one test was stored, refused or removed.
    progress: bool,
}

/// Tests that are being pushed, in the order of their numbers.
#[derive(Default)]
struct Window {
    tests: Vec<Outgoing>,
    /// Results by position; `None`: not known yet.
    results: Vec<Option<PushResult>>,
    /// Number of tests at the beginning whose results are stored.
    settled: usize,
    /// Body of the next request, and the positions and names of the tests in it.
    body: Vec<u8>,
    sent: Vec<(usize, String)>,
    /// Reason why the collector takes no further tests now; `None`: it does.
    later: Option<(String, Span)>,
}

impl PushSession<'_> {
    /// Pushes until no test waits, or the program is being stopped.
    fn run(&mut self) -> Result<(), PushEnd> {
        while !self.stop.is_requested() {
            self.spool.bound(self.target, self.archive, clock::steady())?;
            if self.ask_for_doubts()? {
                continue;
            }
            let tests = self.archive.to_push(&self.target.name, 0, MAX_TESTS)?;
            if tests.is_empty() {
                break;
            }
            self.push(tests)?;
        }
        self.offer(Vec::new()).map(drop)
    }

    /// Sends the state of this host and its news, which thus need not wait for the tests, and returns those of `tests`
    /// that the collector has.
    fn offer(&mut self, tests: Vec<String>) -> Result<BTreeSet<String>, PushEnd> {
        let (waiting, dropped) = counts(self.archive, &self.target.name)?;
        let (board, last_sent) = &mut self.news;
        let news = board.after(**last_sent, MAX_NEWS);
        let (slots, routes) = (news.slots, news.routes);
        let known = self.client.offers(&Offers { waiting, dropped, tests, slots, routes })?.known;
        **last_sent = news.number;
        Ok(known.into_iter().collect())
    }

    /// Asks whether the collector has the tests that were dropped here but may have been sent before; false if there are none.
    fn ask_for_doubts(&mut self) -> Result<bool, PushEnd> {
        let doubts = self.archive.push_doubts(&self.target.name)?;
        let doubts: Vec<(i64, String)> =
            doubts.into_iter().take(MAX_TESTS).map(|(number, name)| (number, name.to_string())).collect();
        if doubts.is_empty() {
            return Ok(false);
        }
        let known = self.offer(doubts.iter().map(|(_, name)| name.clone()).collect())?;
        let result = |name| if known.contains(name) { PushResult::Stored } else { PushResult::Gone };
        let settled: Vec<_> = doubts.iter().map(|(number, name)| (*number, result(name))).collect();
        self.archive.settle_push(&self.target.name, 0, &settled)?;
        self.progress = true;
        Ok(true)
    }

    /// Pushes `tests`, the first ones that are not settled.
    fn push(&mut self, tests: Vec<Outgoing>) -> Result<(), PushEnd> {
        let known = self.offer(tests.iter().map(|test| test.name.to_string()).collect())?;
        let mut window = Window { results: vec![None; tests.len()], tests, ..Window::default() };
        for k in 0..window.tests.len() {
            let test = window.tests[k].clone();
            if known.contains(&test.name.to_string()) {
                window.results[k] = Some(PushResult::Stored);
            } else if test.bytes > MAX_PREPARED_BYTES {
                self.send(&mut window)?;
                window.results[k] = self.send_long(&test, &mut window.later)?;
            } else {
                match self.part(&test) {
                    Ok((header, log)) => {
                        window.body.extend(header.line());
                        window.body.extend(log);
                        window.sent.push((k, header.hash));
                    }
                    Err(result) => window.results[k] = Some(result),
                }
            }
            if window.body.len() >= BODY_BYTES || window.sent.len() >= BODY_TESTS {
                self.send(&mut window)?;
            }
            if window.later.is_some() || self.stop.is_requested() {
                break;
            }
        }
        if window.later.is_none() {
            self.send(&mut window)?;
        }
        self.settle(&mut window)?;
        match window.later {
            Some((why, wait)) => Err(PushFailure::Refused(why, wait).into()),
            None if window.settled == 0 && !self.stop.is_requested() => {
                Err(PushFailure::Failed("the collector answers, but stores nothing".to_owned()).into())
            }
            None => Ok(()),
        }
    }

    /// Returns the description of a test. Computes the name of its log if an earlier version did not store it.
    fn header(&self, test: &Outgoing) -> Result<PartHeader, PushResult> {
        let read = || {
            let header = self.archive.header(test.test)?;
            let name = match test.name {
                name @ LogName::Sha256(_) => name,
                LogName::Xxh3(_) => self.archive.name(test.test)?,
            };
            Ok(PartHeader {
                hash: name.to_string(),
                source: header.source().to_owned(),
                tags: header.tags().to_vec(),
                bytes: test.bytes,
                packed: None,
            })
        };
        let header = read().map_err(|e| self.unreadable(test, &e))?;
        if !header.fits() {
            return Err(PushResult::Refused("it has too many tags, or tags that are too long".to_owned()));
        }
        Ok(header)
    }

    /// Returns a test as a part of a body.
    fn part(&self, test: &Outgoing) -> Result<(PartHeader, Vec<u8>), PushResult> {
        let mut header = self.header(test)?;
        let mut log = Vec::new();
        let mut packed = self.archive.compressed(test.test).map_err(|e| self.unreadable(test, &e))?;
        packed.read_to_end(&mut log).map_err(|e| self.damaged(test, &e))?;
        header.packed = Some(log.len() as u64);
        Ok((header, log))
    }

    fn unreadable(&self, test: &Outgoing, error: &ArchiveError) -> PushResult {
        match error {
            // When the test is settled, the archive decides if it counts as dropped.
            ArchiveError::Pruned(_) | ArchiveError::NoSuchTest { .. } => PushResult::Gone,
            e => self.damaged(test, e),
        }
    }

    fn damaged(&self, test: &Outgoing, error: &dyn std::fmt::Display) -> PushResult {
        warn!("{}: test {} cannot be pushed: {error}", self.target.name, test.number);
        PushResult::Refused(format!("it cannot be read from this host's archive: {error}"))
    }

    /// Sends the waiting body, and stores the results.
    fn send(&mut self, window: &mut Window) -> Result<(), PushEnd> {
        if !window.sent.is_empty() {
            let answers = self.client.tests(std::mem::take(&mut window.body))?;
            let mut answers: BTreeMap<String, PartAnswer> =
                answers.tests.into_iter().map(|answer| (answer.hash.clone(), answer)).collect();
            for (k, name) in std::mem::take(&mut window.sent) {
                // Tests without an answer are sent again.
                if let Some(answer) = answers.remove(&name) {
                    window.results[k] = self.result(answer.outcome(), &mut window.later);
                }
            }
        }
        self.settle(window)
    }

    /// Sends a long test in a request of its own.
    fn send_long(
        &mut self,
        test: &Outgoing,
        later: &mut Option<(String, Span)>,
    ) -> Result<Option<PushResult>, PushEnd> {
        let header = match self.header(test) {
            Ok(header) => header,
            Err(result) => return Ok(Some(result)),
        };
        let mut log = match self.archive.compressed(test.test) {
            Ok(log) => log,
            Err(e) => return Ok(Some(self.unreadable(test, &e))),
        };
        Ok(match self.client.test(&header, &mut log)? {
            Ok(answer) => self.result(answer.outcome(), later),
            Err(e) => {
                // The body ended early, and with it the connection.
                let result = self.damaged(test, &e);
                *later = Some((e.to_string(), Span::ZERO));
                Some(result)
            }
        })
    }

    /// Returns the result of a test; `None` if the test must be sent again later.
    fn result(&mut self, outcome: Outcome, later: &mut Option<(String, Span)>) -> Option<PushResult> {
        match outcome {
            Outcome::Stored => Some(PushResult::Stored),
            Outcome::Refused(why) => {
                if self.refused.as_ref() != Some(&why) {
                    warn!("{}: refused a test: {why}", self.target.name);
                    self.refused = Some(why.clone());
                }
                Some(PushResult::Refused(why))
            }
            Outcome::Later(why, wait) => {
                later.get_or_insert((why, wait));
                None
            }
        }
    }

    /// Stores the results up to the first test without one.
    fn settle(&mut self, window: &mut Window) -> Result<(), PushEnd> {
        let new: Vec<(i64, PushResult)> = window.tests[window.settled..]
            .iter()
            .zip(&window.results[window.settled..])
            .map_while(|(test, result)| Some((test.number, result.clone()?)))
            .collect();
        let Some((last, _)) = new.last() else { return Ok(()) };
        self.archive.settle_push(&self.target.name, *last, &new)?;
        window.settled += new.len();
        self.progress = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::collect::tests::{Collector, write_log};
    use jitlat_archive::Route;

    #[test]
    fn news_do_not_wait_until_no_test_waits() {
        let collector = Collector::start();
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::make(&folder.path().join("own")).unwrap();
        archive.begin_push("rome", 1 << 40).unwrap();
        let log = folder.path().join("a.log");
        write_log(&log, 0, 50);
        archive.add(&log, &[]).unwrap();
        let news = NewsBoard::default();
        let route = Route {
            route: "r".into(),
            dst: "oslo".into(),
            hops: vec!["192.0.2.1".into()],
            ..Route::default()
        };
        let (mut last_sent, mut spool, stop) = (0, Spool::default(), StopSignal::new().unwrap());
        let target =
            Target { name: "rome".into(), at: collector.at.clone(), spool: 1 << 40, certificate: None };
        let mut session = PushSession {
            target: &target,
            archive: &archive,
            stop: &stop,
            spool: &mut spool,
            news: (&news, &mut last_sent),
            client: collector.connect("berlin"),
            refused: None,
            progress: false,
        };
        news.route(&route);
        // One round of a session; on a slow collector a session lasts as long as tests come.
        let waiting = session.archive.to_push("rome", 0, MAX_TESTS).unwrap();
        assert!(session.push(waiting).is_ok());
        assert_eq!(collector.archive().routes("berlin", "oslo", 9).unwrap()[0].hops, route.hops);
        assert_eq!(last_sent, news.after(0, MAX_NEWS).number);
    }
}
