//! Pushes this host's tests to collectors: one thread per collector, in parallel to the tests.

use super::watch::ArchiveWatch;
use crate::Model;
use crate::runtime::error::Result;
use jitlat_archive::{Archive, MAX_UNSETTLED, Outgoing, PushResult};
use jitlat_core::{Span, SteadyTime};
use jitlat_net::push::{PushConnection, PushFailure};
use jitlat_net::wake::StopSignal;
use jitlat_net::{clock, pace};
use jitlat_proto::jitlat::PresharedKey;
use jitlat_proto::push::{
    About, MAX_PIECE, PushOffer, PushOutcome, Retry, SenderEvent, SenderInput, SpoolState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tracing::{error, info, warn};

/// Time between a failure of the archive and the next attempt.
const RETRY_PAUSE: Span = Span::seconds(1);
/// Time between two checks of the spool's size.
const BOUND_INTERVAL: Span = Span::seconds(60);
/// Time after which a connection without anything to push is closed.
const IDLE_TIMEOUT: Span = Span::seconds(2);
/// Time between two reports of this host's state to the collector.
const STATE_INTERVAL: Span = Span::seconds(10);
/// Time without any offer, data or confirmation after which a connection with unsettled tests is closed.
const STALL_TIMEOUT: Span = Span::seconds(120);
/// Time for pushes in progress to complete when the monitor stops.
const END_TIMEOUT: Span = Span::seconds(3);

/// Threads that push tests. They stop when this value is dropped.
pub struct RunningPushes {
    stop: StopSignal,
    threads: Vec<JoinHandle<()>>,
}

/// Collector to which a host pushes its tests.
#[derive(Clone, PartialEq)]
pub struct Target {
    name: String,
    address: String,
    port: u16,
    spool: u64,
}

/// Returns the collectors to which `host` pushes its tests.
pub fn targets(model: &Model, host: usize) -> Vec<Target> {
    let own = model.collectors.iter().filter(|collector| collector.from.contains(&host));
    let target = |collector: &crate::model::CollectorRules| {
        let far = &model.hosts[collector.host];
        Target {
            name: far.name.clone(),
            address: far.address.clone(),
            port: collector.port,
            spool: collector.spool,
        }
    };
    own.map(target).collect()
}

impl RunningPushes {
    /// Starts to push tests from the archive at `root`; `key` is the key with which `host` authenticates. Without an
    /// archive or a key, nothing is pushed.
    pub fn start(
        model: &Model,
        host: usize,
        root: Option<&Path>,
        key: Option<&PresharedKey>,
    ) -> Result<RunningPushes> {
        let targets = targets(model, host);
        let stop = StopSignal::new()?;
        let mut threads = Vec::new();
        if let Some(root) = root {
            let archive = Archive::make(root)?;
            let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            archive.keep_pushes(&names)?;
            for target in targets {
                // From now on the archive counts tests that are removed before they are pushed, even before the
                // first attempt to push.
                archive.begin_push(&target.name, target.spool)?;
                let Some(key) = key.cloned() else { continue };
                let seed =
                    model.hosts[host].name.bytes().fold(7, |sum: u64, b| sum.rotate_left(9) ^ u64::from(b));
                let mut pusher = Pusher {
                    root: root.to_owned(),
                    key,
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
        Ok(RunningPushes { stop, threads })
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
    root: PathBuf,
    target: Target,
    key: PresharedKey,
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
    /// The connection failed, or the collector refused. Contains the minimum time until the next attempt.
    Far(PushFailure, Span),
    /// The archive of this host failed.
    Here(jitlat_archive::ArchiveError),
}

impl From<jitlat_archive::ArchiveError> for PushEnd {
    fn from(e: jitlat_archive::ArchiveError) -> PushEnd {
        PushEnd::Here(e)
    }
}

impl Pusher {
    fn run(&mut self) {
        let mut watch = ArchiveWatch::new(&self.root, &self.stop);
        while !self.stop.is_requested() {
            let went = self.step();
            if let Err(e) = &went
                && !self.failing
            {
                warn!("pushing tests to {} failed: {e}; retrying", self.target.name);
            }
            self.failing = went.is_err();
            watch.wait(None, went.unwrap_or_else(|_| Some(clock::steady() + RETRY_PAUSE)));
        }
    }

    /// Pushes the waiting tests if an attempt is due. Returns the time of the next step; `None` if no step is needed
    /// before the archive changes. A change of the archive always requires a step.
    fn step(&mut self) -> Result<Option<SteadyTime>, jitlat_archive::ArchiveError> {
        let archive = Archive::open_to_write(&self.root)?;
        let now = clock::steady();
        self.spool.bound(&self.target, &archive, now)?;
        let waits = !archive.to_push(&self.target.name, 0, 1)?.is_empty()
            || !archive.push_doubts(&self.target.name)?.is_empty();
        if !waits {
            return Ok(None);
        }
        if !self.retry.may_try(now) {
            // Wake up earlier to enforce the limit of the spool.
            return Ok(self.retry.due().into_iter().chain(Some(now + BOUND_INTERVAL)).min());
        }
        let begun = PushSession::begin(&self.target, &self.key, &archive, &self.stop, &mut self.spool);
        let ended = begun.and_then(|mut session| {
            let ended = session.run();
            if session.progress {
                self.retry.succeeded();
            }
            ended
        });
        let now = clock::steady();
        match ended {
            Ok(()) => {
                self.retry.succeeded();
                if let Some((since, _)) = self.failure.take() {
                    let long = crate::file::text_of((now - since).0 / 1_000_000_000 * 1_000_000_000);
                    info!("{}: pushing tests works again after {long}", self.target.name);
                }
                self.spool.warned = false;
            }
            Err(PushEnd::Here(e)) => return Err(e),
            Err(PushEnd::Far(..)) if self.stop.is_requested() => {}
            Err(PushEnd::Far(why, pause)) => {
                self.retry.failed(now, pause);
                let (since, before) = self.failure.take().map_or((now, None), |(at, why)| (at, Some(why)));
                let why = why.to_string();
                if before.as_ref() != Some(&why) {
                    let waiting = self.waiting(&archive)?;
                    warn!(
                        "{}: cannot push tests: {why}; {waiting} wait in the archive; retrying at growing intervals",
                        self.target.name
                    );
                }
                self.failure = Some((since, why));
            }
        }
        // Tests may have been added in the meantime.
        Ok(Some(clock::steady()))
    }

    fn waiting(&self, archive: &Archive) -> Result<u64, jitlat_archive::ArchiveError> {
        let all = archive.pushes()?;
        Ok(all.iter().find(|push| push.collector == self.target.name).map_or(0, |push| push.waiting))
    }
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
    fn bound(
        &mut self,
        target: &Target,
        archive: &Archive,
        now: SteadyTime,
    ) -> Result<(), jitlat_archive::ArchiveError> {
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

/// Connection to the collector, and the state of the tests offered on it.
struct PushSession<'a> {
    target: &'a Target,
    archive: &'a Archive,
    stop: &'a StopSignal,
    spool: &'a mut Spool,
    connection: PushConnection,
    /// Tests that are offered but not confirmed or refused yet.
    offered: BTreeMap<u64, Outgoing>,
    /// Numbers of tests that are no longer stored here and may or may not have reached the collector.
    doubts: BTreeSet<u64>,
    /// Number of the last test that was offered.
    last: i64,
    /// Reasons why requested tests cannot be sent, by number.
    unreadable: BTreeMap<u64, String>,
    /// Reason for the last logged refusal; `None`: no refusal was logged.
    refused: Option<String>,
    /// Log that is being sent; `None`: no log.
    log: Option<Box<dyn Read + Send>>,
    /// Time when a test was last offered, sent, confirmed or refused.
    moved: SteadyTime,
    /// Time when a test was last offered or waiting for its confirmation.
    used: SteadyTime,
    /// Time when this host's state was last sent; `None` if it was not sent yet.
    reported: Option<SteadyTime>,
    open: bool,
    /// True if no further tests are offered on this connection.
    finishing: bool,
    /// True if at least one test was confirmed or refused.
    progress: bool,
}

impl<'a> PushSession<'a> {
    fn begin(
        target: &'a Target,
        key: &PresharedKey,
        archive: &'a Archive,
        stop: &'a StopSignal,
        spool: &'a mut Spool,
    ) -> Result<PushSession<'a>, PushEnd> {
        let connection = PushConnection::open(&target.address, target.port, key.clone())
            .map_err(|why| PushEnd::Far(why, Span::ZERO))?;
        Ok(PushSession {
            target,
            archive,
            stop,
            spool,
            connection,
            offered: BTreeMap::new(),
            doubts: BTreeSet::new(),
            last: 0,
            unreadable: BTreeMap::new(),
            refused: None,
            log: None,
            moved: clock::steady(),
            used: clock::steady(),
            reported: None,
            open: false,
            finishing: false,
            progress: false,
        })
    }

    fn run(&mut self) -> Result<(), PushEnd> {
        let mut piece = vec![0; MAX_PIECE];
        let mut stopped = None;
        loop {
            match self.connection.poll(Span::millis(100)) {
                Some(SenderEvent::Open) => self.open = true,
                Some(SenderEvent::Wanted(number)) => self.begin_log(number),
                Some(SenderEvent::Settled(tests)) => self.settle(tests)?,
                Some(SenderEvent::Over(None, _)) => {
                    self.connection.finish();
                    return Ok(());
                }
                Some(SenderEvent::Over(Some(why), pause)) => return Err(PushEnd::Far(why.into(), pause)),
                None => {}
            }
            if self.connection.needs_data() {
                self.send_piece(&mut piece);
            }
            let now = clock::steady();
            if self.open && !self.finishing {
                self.offer(now)?;
            }
            if self.stop.is_requested() && now - *stopped.get_or_insert(now) > END_TIMEOUT {
                return Ok(());
            }
        }
    }

    /// Asks the collector whether it has the tests that were dropped here but may have been sent before.
    fn ask_for_doubts(&mut self, room: usize, now: SteadyTime) -> Result<(), PushEnd> {
        let doubts = self.archive.push_doubts(&self.target.name)?;
        let doubts: Vec<PushOffer> = doubts
            .into_iter()
            .map(|(number, hash)| PushOffer { number: number.unsigned_abs(), hash, length: 0 })
            .filter(|o| !self.offered.contains_key(&o.number) && !self.doubts.contains(&o.number))
            .take(room)
            .collect();
        if !doubts.is_empty() {
            self.moved = now;
            self.doubts.extend(doubts.iter().map(|offer| offer.number));
            self.connection.give(SenderInput::Offer(&doubts));
        }
        Ok(())
    }

    fn offer(&mut self, now: SteadyTime) -> Result<(), PushEnd> {
        if self.reported.is_none_or(|at| now - at >= STATE_INTERVAL) {
            self.reported = Some(now);
            self.report_state()?;
        }
        let machine = self.connection.machine();
        let (room, unsettled) = (machine.room(), machine.unsettled());
        if unsettled > 0 {
            self.used = now;
            if now - self.moved >= STALL_TIMEOUT {
                return Err(PushEnd::Far(PushFailure::Stalled, Span::ZERO));
            }
        }
        if self.stop.is_requested() {
            if !std::mem::replace(&mut self.finishing, true) {
                self.report_state()?;
                self.connection.give(SenderInput::Finish);
            }
            return Ok(());
        }
        // Wait for more room, because the collector answers each small offer with a separate request.
        if room < MAX_UNSETTLED / 4 {
            return Ok(());
        }
        self.spool.bound(self.target, self.archive, now)?;
        self.ask_for_doubts(room, now)?;
        let machine = self.connection.machine();
        let (room, unsettled) = (machine.room(), machine.unsettled());
        let tests = self.archive.to_push(&self.target.name, self.last, room)?;
        if tests.is_empty() {
            if unsettled == 0 && now - self.used >= IDLE_TIMEOUT {
                self.finishing = true;
                self.report_state()?;
                self.connection.give(SenderInput::Finish);
            }
            return Ok(());
        }
        (self.used, self.moved) = (now, now);
        let offer = |test: &Outgoing| PushOffer {
            number: test.number.unsigned_abs(),
            hash: test.hash,
            length: test.bytes,
        };
        let offers: Vec<PushOffer> = tests.iter().map(offer).collect();
        self.last = tests.last().map_or(self.last, |test| test.number);
        self.offered.extend(tests.into_iter().map(|test| (test.number.unsigned_abs(), test)));
        self.connection.give(SenderInput::Offer(&offers));
        Ok(())
    }

    fn report_state(&mut self) -> Result<(), PushEnd> {
        let all = self.archive.pushes()?;
        if let Some(own) = all.iter().find(|push| push.collector == self.target.name) {
            self.connection
                .give(SenderInput::State(SpoolState { waiting: own.waiting, dropped: own.dropped }));
        }
        Ok(())
    }

    fn begin_log(&mut self, number: u64) {
        // Tests in doubt are no longer stored here.
        let Some(test) = self.offered.get(&number) else { return self.connection.give(SenderInput::Gone) };
        let read = || {
            let header = self.archive.header(test.test)?;
            let about = About { source: header.source().to_owned(), tags: header.tags().to_vec() };
            Ok((about, self.archive.compressed(test.test)?))
        };
        match read() {
            Ok((about, log)) if about.fits() => {
                self.log = Some(log);
                self.connection.give(SenderInput::Test(about));
            }
            Ok(_) => self.cannot_send(number, "it has too many tags, or tags that are too long".to_owned()),
            // When the test is settled, the archive decides if it counts as dropped.
            Err(
                jitlat_archive::ArchiveError::Pruned(_) | jitlat_archive::ArchiveError::NoSuchTest { .. },
            ) => {
                self.connection.give(SenderInput::Gone);
            }
            Err(e) => self.cannot_send(number, e.to_string()),
        }
    }

    fn cannot_send(&mut self, number: u64, why: String) {
        warn!("{}: test {number} cannot be pushed: {why}", self.target.name);
        self.unreadable.insert(number, why);
        self.log = None;
        self.connection.give(SenderInput::Gone);
    }

    fn send_piece(&mut self, piece: &mut [u8]) {
        let Some(log) = &mut self.log else { return };
        self.moved = clock::steady();
        let mut filled = 0;
        let ended = loop {
            match log.read(&mut piece[filled..]) {
                Ok(0) => break Ok(filled < piece.len()),
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        match ended {
            Ok(ended) => {
                self.connection.give(SenderInput::Piece(&piece[..filled]));
                if ended {
                    self.log = None;
                    self.connection.give(SenderInput::Whole);
                }
            }
            Err(e) => {
                let damaged = "it cannot be read from this host's archive";
                let number = self.connection.machine().sending().unwrap_or_default();
                self.cannot_send(number, format!("{damaged}: {e}"));
            }
        }
    }

    fn settle(&mut self, tests: Vec<(u64, Option<PushOutcome>)>) -> Result<(), PushEnd> {
        (self.progress, self.moved) = (true, clock::steady());
        let (mut upto, mut settled) = (0, Vec::with_capacity(tests.len()));
        for (number, outcome) in tests {
            let signed = i64::try_from(number).unwrap_or(i64::MAX);
            if self.offered.remove(&number).is_some() {
                upto = upto.max(signed);
            }
            self.doubts.remove(&number);
            let unreadable = self.unreadable.remove(&number);
            settled.push((
                signed,
                match outcome {
                    Some(PushOutcome::Stored | PushOutcome::Known) => PushResult::Stored,
                    Some(PushOutcome::Refused(why)) => {
                        if self.refused.as_ref() != Some(&why) {
                            warn!("{}: refused a test: {why}", self.target.name);
                            self.refused = Some(why.clone());
                        }
                        PushResult::Refused(why)
                    }
                    None => unreadable.map_or(PushResult::Gone, PushResult::Refused),
                },
            ));
        }
        Ok(self.archive.settle_push(&self.target.name, upto, &settled)?)
    }
}
