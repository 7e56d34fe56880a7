//! Captures of a monitor, in addition to its tests: continuous traffic on interfaces, one result per period.
//!
//! * [`keep`] – adds the logs of periods to the archive
//! * this file – threads that capture, restart after failures, and report the outcome of each period

mod keep;

use super::Equipment;
use super::access::own_key;
use crate::Model;
use crate::agenda::{EndingCounts, SlotEnding, SlotFailure};
use crate::file::{OptionValue, text_of};
use crate::model::{KeySource, MonitoredCapture};
use crate::runtime::error::{Context, Result, bail, explain};
use jitlat_core::{Span, WallTime};
use jitlat_instruments::Stop;
use jitlat_instruments::passive::PeriodEvent;
use jitlat_net::clock;
use jitlat_proto::digest;
use jitlat_proto::jitlat::PresharedKey;
use keep::{CapturePeriod, CaptureStore};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// Pause before the second attempt. It doubles after each further failure, up to [`MAX_RETRY_PAUSE`].
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// A capture that ran for this long restarts at once after a failure.
const STABLE_TIME: Duration = Duration::from_secs(60);
/// Time between two checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the archive to take up the last periods at the end of the monitor.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of periods that are counted as lost at once, because a clock step of a year is not a year of
/// losses.
const MAX_PERIODS_LOST: i64 = 10_000;

/// Settings of a capture; if they change, the capture restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSetup {
    /// Settings of the capture in the file.
    pub capture: MonitoredCapture,
    /// Name of this host.
    pub host: String,
    /// Address of this host.
    pub address: String,
    /// Name of the far end.
    pub far: String,
    /// Address of the far end, if it is a host of the file.
    pub far_address: Option<String>,
    /// Port of the far host's digest service.
    pub far_port: u16,
    /// Archive for results.
    pub archive: PathBuf,
    key: Option<KeySource>,
}

/// Outcome of a period.
#[derive(Clone, Debug)]
pub struct PeriodOutcome {
    /// Name of the capture.
    pub name: String,
    /// Name of the far end.
    pub far: String,
    /// Result of the period: measured, failed or missed.
    pub ending: SlotEnding,
}

/// Running captures. They end when this value is dropped.
pub struct RunningCaptures {
    equipment: Arc<dyn Equipment>,
    /// Captures declared in the file, and the key with which this host authenticates to other hosts.
    wanted: (Vec<CaptureSetup>, Option<PresharedKey>),
    /// Running captures, including those requested to end.
    running: Vec<RunningCapture>,
    to: Sender<PeriodOutcome>,
    ended: Receiver<PeriodOutcome>,
    counts: BTreeMap<(String, String), EndingCounts>,
}

struct RunningCapture {
    setup: CaptureSetup,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// Checks that the monitor has an archive if the file declares captures of `host`.
///
/// # Errors
/// Advice on what to write in the file.
pub fn check(model: &Model, host: usize, archive: Option<&Path>) -> Result<()> {
    if archive.is_none() && model.captures_of(host).next().is_some() {
        bail!("[[capture]] needs an archive: write [archive] with a folder, or give --archive DIR");
    }
    Ok(())
}

impl RunningCaptures {
    /// Starts the captures of `host`.
    pub fn start(
        equipment: Arc<dyn Equipment>,
        model: &Model,
        host: usize,
        folder: &Path,
        archive: Option<&Path>,
    ) -> Result<RunningCaptures> {
        let (to, ended) = channel();
        let wanted = (Vec::new(), None);
        let mut captures =
            RunningCaptures { equipment, wanted, running: Vec::new(), to, ended, counts: BTreeMap::new() };
        captures.follow(model, host, folder, archive)?;
        Ok(captures)
    }

    /// Applies a new version of the file: removed captures end, new ones begin, all others continue.
    pub fn follow(
        &mut self,
        model: &Model,
        host: usize,
        folder: &Path,
        archive: Option<&Path>,
    ) -> Result<()> {
        check(model, host, archive)?;
        let of = |archive| {
            model.captures_of(host).map(move |capture| CaptureSetup::new(model, host, capture, archive))
        };
        self.wanted = (archive.into_iter().flat_map(of).collect(), own_key(model, host, folder)?);
        let is_wanted = |own: &&RunningCapture| self.wanted.0.contains(&own.setup);
        self.running.iter().filter(|own| !is_wanted(own)).for_each(|own| own.stop.request());
        self.begin();
        Ok(())
    }

    /// Starts the declared captures that are not running. A capture waits until the previous one of the same name has ended.
    fn begin(&mut self) {
        self.running.retain(|own| own.thread.as_ref().is_some_and(|thread| !thread.is_finished()));
        let (wanted, key) = &self.wanted;
        for setup in wanted {
            if self.running.iter().any(|own| own.setup.capture.name == setup.capture.name) {
                continue;
            }
            match RunningCapture::start(self.equipment.clone(), setup.clone(), key.clone(), self.to.clone()) {
                Ok(own) => self.running.push(own),
                Err(e) => {
                    error!("[[capture]] {}: {}", setup.capture.name, explain(&e));
                    break;
                }
            }
        }
    }

    /// Returns the outcomes of the periods that ended since the last call.
    pub fn outcomes(&mut self) -> Vec<PeriodOutcome> {
        if self.running.len() != self.wanted.0.len() || self.running.iter().any(|own| own.stop.is_requested())
        {
            self.begin();
        }
        let list: Vec<PeriodOutcome> = self.ended.try_iter().collect();
        for outcome in &list {
            let key = (outcome.name.clone(), outcome.far.clone());
            self.counts.entry(key).or_default().add(outcome.ending);
        }
        list
    }

    /// Returns counts of the outcomes of periods so far, by capture and far end.
    pub fn counts(&self) -> &BTreeMap<(String, String), EndingCounts> {
        &self.counts
    }

    /// Ends all captures at the end of the monitor, and stores their results: those that the archive has not taken up in time are
    /// recovered at the next start.
    pub fn end(&mut self) {
        self.wanted.0.clear();
        self.running.iter().for_each(|own| own.stop.request());
        let running = std::mem::take(&mut self.running);
        let (ended, ends) = channel::<Infallible>();
        let thread = std::thread::Builder::new().name("ending".to_owned());
        // Dropping the captures waits for their threads. If no thread can be started, that happens here.
        let ending = thread.spawn(move || {
            drop(running);
            drop(ended);
        });
        if ending.is_ok() && ends.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            warn!(
                "[[capture]]: the archive has not taken up all periods within {} s: the others are recovered at the next start",
                END_TIMEOUT.as_secs()
            );
        }
    }
}

impl CaptureSetup {
    fn new(model: &Model, host: usize, capture: &MonitoredCapture, archive: &Path) -> CaptureSetup {
        let own = &model.hosts[host];
        let far = capture.towards.and_then(|far| model.hosts.get(far as usize));
        let port = model.serve.options.iter().find_map(|(name, value)| match value {
            OptionValue::Text(port) if name == "capture-port" => port.parse().ok(),
            _ => None,
        });
        CaptureSetup {
            capture: capture.clone(),
            host: own.name.clone(),
            address: own.address.clone(),
            far: capture.far(&model.hosts).to_owned(),
            far_address: far.map(|far| far.address.clone()),
            far_port: port.unwrap_or(digest::PORT),
            archive: archive.to_owned(),
            key: own.key.clone().or(model.serve.key.clone()),
        }
    }

    /// Returns the number of the period that contains `at`.
    fn period_of(&self, at: WallTime) -> i64 {
        at.0.div_euclid(self.capture.every.0.max(1))
    }
}

impl RunningCapture {
    fn start(
        equipment: Arc<dyn Equipment>,
        setup: CaptureSetup,
        key: Option<PresharedKey>,
        to: Sender<PeriodOutcome>,
    ) -> Result<RunningCapture> {
        let stop = Stop::new();
        let (asked, own) = (stop.clone(), setup.clone());
        let thread = std::thread::Builder::new().name("capture".to_owned());
        let thread = thread
            .spawn(move || capture(&*equipment, &own, key.as_ref(), &asked, to))
            .context("starting a thread for a capture")?;
        Ok(RunningCapture { setup, stop, thread: Some(thread) })
    }
}

impl Drop for RunningCapture {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("[[capture]] {}: its thread failed (a bug in jitlat)", self.setup.capture.name);
        }
    }
}

/// Captures until a stop is requested, and restarts after failures.
fn capture(
    equipment: &dyn Equipment,
    setup: &CaptureSetup,
    key: Option<&PresharedKey>,
    stop: &Stop,
    to: Sender<PeriodOutcome>,
) {
    let name = &setup.capture.name;
    let store = match CaptureStore::start(setup, to.clone()) {
        Ok(store) => store,
        Err(e) => return error!("[[capture]] {name}: {}", explain(&e)),
    };
    let mut course = CaptureReporter::new(setup, store, to);
    let mut pause = FIRST_RETRY_PAUSE;
    while !stop.is_requested() {
        let begun = Instant::now();
        let why = course.follow(equipment, key, stop);
        let Some((failure, why)) = why else { break };
        // After a long time without failures this is a new failure, not another attempt.
        if begun.elapsed() >= STABLE_TIME {
            pause = FIRST_RETRY_PAUSE;
        }
        course.failed(failure, &why);
        let again = Instant::now() + pause;
        while !stop.is_requested() && Instant::now() < again {
            // Count the periods that pass during the pause.
            course.miss(failure);
            std::thread::sleep(STOP_CHECK_INTERVAL);
        }
        pause = (pause * 2).min(MAX_RETRY_PAUSE);
    }
}

/// Logs and counts the events of a capture.
struct CaptureReporter<'a> {
    setup: &'a CaptureSetup,
    store: CaptureStore,
    to: Sender<PeriodOutcome>,
    /// Number of the first period without an outcome.
    next: i64,
    /// The current failure: its start, the number of lost periods, and the kinds of failure already logged.
    /// `None`: no failure.
    trouble: Option<(WallTime, u64, Vec<SlotFailure>)>,
    /// True if the beginning of the capture was logged.
    has_begun: bool,
    /// True if the absence of packets was logged.
    is_silent: bool,
    /// True if the interface was logged as down.
    is_down: bool,
    /// True if dropped packets were logged.
    drops: bool,
}

impl<'a> CaptureReporter<'a> {
    fn new(setup: &'a CaptureSetup, store: CaptureStore, to: Sender<PeriodOutcome>) -> CaptureReporter<'a> {
        let next = setup.period_of(clock::wall());
        CaptureReporter {
            setup,
            store,
            to,
            next,
            trouble: None,
            has_begun: false,
            is_silent: false,
            is_down: false,
            drops: false,
        }
    }

    /// Captures until the capture ends. Returns the kind of failure and its description; `None` if a stop was
    /// requested.
    fn follow(
        &mut self,
        equipment: &dyn Equipment,
        key: Option<&PresharedKey>,
        stop: &Stop,
    ) -> Option<(SlotFailure, String)> {
        let setup = self.setup;
        let ended = equipment.follow(setup, key, stop, &mut |event: PeriodEvent<'_>| self.event(event));
        self.store.drop_open();
        match ended {
            Ok(end) if end.reasons.is_empty() => None,
            Ok(end) => Some((SlotFailure::Unreachable, end.reasons.join("; "))),
            Err(failed) => Some(failed),
        }
    }

    fn event(&mut self, event: PeriodEvent<'_>) {
        let name = &self.setup.capture.name;
        match event {
            PeriodEvent::Listening([first, second]) => {
                self.next = self.next.max(self.setup.period_of(clock::wall()));
                if !std::mem::replace(&mut self.has_begun, true) {
                    let second = if second.is_empty() { String::new() } else { format!(" and {second}") };
                    info!("[[capture]] {name}: capturing on {first}{second}");
                }
            }
            PeriodEvent::Begun => {
                if std::mem::replace(&mut self.is_silent, false) {
                    info!("[[capture]] {name}: packets are now seen at both points");
                }
                self.recovered();
            }
            PeriodEvent::Records { period, session, direction, records } => {
                self.store.records(period, direction, session, records);
            }
            PeriodEvent::Ended(ended) => {
                let is_new = ended.period >= self.next;
                self.next = self.next.max(ended.period + 1);
                if ended.dropped > 0 && !std::mem::replace(&mut self.drops, true) {
                    warn!(
                        "[[capture]] {name}: {} packets of a period were dropped because they were not read in time: \
                         packets close to them are not counted, because they may have been lost",
                        ended.dropped
                    );
                }
                if ended.sessions.iter().flatten().all(|session| session.packets() == 0) && !self.is_up() {
                    return self.count(SlotEnding::Failed(SlotFailure::Other));
                }
                let Some(sessions) = ended.sessions else {
                    if !std::mem::replace(&mut self.is_silent, true) {
                        warn!(
                            "[[capture]] {name}: no packet between {} and {} has been seen at both points so far",
                            self.setup.host, self.setup.far
                        );
                    }
                    return self.count(SlotEnding::Failed(SlotFailure::Nothing));
                };
                self.store.end(&CapturePeriod {
                    number: ended.period,
                    sessions,
                    dropped: ended.dropped,
                    is_whole: ended.is_whole,
                    is_new,
                });
            }
        }
    }

    /// Returns true if the interface is up; logs once if it is down.
    fn is_up(&mut self) -> bool {
        let interface = &self.setup.capture.interface;
        let mut known = getifaddrs().into_iter().flatten().filter(|own| own.interface_name == *interface);
        let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let is_up = known.next().is_none_or(|own| own.flags.contains(up));
        let name = &self.setup.capture.name;
        match (self.is_down, is_up) {
            (false, false) => warn!("[[capture]] {name}: {interface} is down"),
            (true, true) => info!("[[capture]] {name}: {interface} is up again"),
            _ => {}
        }
        self.is_down = !is_up;
        is_up
    }

    /// Logs each kind of failure once.
    fn failed(&mut self, failure: SlotFailure, why: &str) {
        let (_, _, logged) = self.trouble.get_or_insert((clock::wall(), 0, Vec::new()));
        if !logged.contains(&failure) {
            logged.push(failure);
            warn!("[[capture]] {}: {why}; retrying at growing intervals", self.setup.capture.name);
        }
    }

    fn recovered(&mut self) {
        if let Some((since, lost, _)) = self.trouble.take() {
            let long = Span((clock::wall() - since).0.max(0) / 1_000_000_000 * 1_000_000_000);
            info!(
                "[[capture]] {}: capturing again after {}; periods lost: {lost}",
                self.setup.capture.name,
                text_of(long.0)
            );
        }
    }

    /// Counts all periods since the last outcome as failed.
    fn miss(&mut self, failure: SlotFailure) {
        let now = self.setup.period_of(clock::wall());
        self.next = self.next.max(now - MAX_PERIODS_LOST);
        while self.next < now {
            self.next += 1;
            if let Some((_, lost, _)) = &mut self.trouble {
                *lost += 1;
            }
            self.count(SlotEnding::Failed(failure));
        }
    }

    fn count(&self, ending: SlotEnding) {
        let (name, far) = (self.setup.capture.name.clone(), self.setup.far.clone());
        // Sending fails only if the receiver was dropped and needs no more counts.
        let _ = self.to.send(PeriodOutcome { name, far, ending });
    }
}
