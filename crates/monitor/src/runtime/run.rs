//! Runs a monitor: starts due tests in threads, adds results to the archive, and logs failures.

use super::access::{RunningServer, check_file, own_key};
use super::alerts::{self, Commands, Outlets, Print, RunningAlerts};
use super::board::NewsBoard;
use super::captures::{self, RunningCaptures};
use super::confine::MonitorConfinement;
use super::demand::{QueuedRun, RunQueue, refused};
use super::ending::EndingThread;
use super::job::{Task, options_of_server};
use super::on_demand::TestPlacement;
use super::page::{OwnState, RunningPage, WebSite};
use super::push::{self, RunningPushes};
use super::routes::RunningRoutes;
use super::{Equipment, own};
use crate::agenda::EndingCounts;
use crate::agenda::{AgendaOrder, Missed, Notice, SlotFailure};
use crate::alert::rule::NotifyMethod;
use crate::extra::ExtraStep;
use crate::file::text_of;
use crate::file::{keys, read};
use crate::model::ArchiveRules;
use crate::reports::SlotLog;
use crate::runtime::error::{Context, Result, bail, explain};
use crate::text;
use crate::{Agenda, Model, Timetable};
use jitlat_archive::{Archive, Retention, SlotFilter, is_archive};
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_instruments::Stop;
use jitlat_net::clock;
use jitlat_net::wake::{self, StopSignal, Waker};
use jitlat_proto::jitlat::PresharedKey;
use jitlat_web::RunRefusal;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;
use tracing::{debug, error, info, warn};

/// Time between two checks of the file, and of the wall clock, which may have been set.
const FILE_CHECK_INTERVAL: Span = Span::seconds(2);
/// Time between two checks whether a demanded test was cancelled.
const DEMAND_CHECK_INTERVAL: Span = Span::millis(100);
/// Time between two removals of old results, and between two checks of a size limit.
const PRUNE_INTERVALS: (Span, Span) = (Span::seconds(3600), Span::seconds(60));
/// Minimum time between two warnings about results removed before they were pushed.
const DROP_NOTICE_INTERVAL: Span = Span::seconds(86_400);
/// Time between two requests to give up that are sent to a test that does not end.
const END_TIMEOUT: Span = Span::seconds(10);
/// Times that tests have at the end of the monitor: for the far hosts' results, and until they are abandoned.
const LAST_TIMEOUTS: (Span, Span) = (Span::millis(1500), Span::millis(2200));

type MeasureResult = Result<(), (SlotFailure, String)>;

/// Counts of the outcomes of slots, by test and far host.
pub type SlotCounts = BTreeMap<(String, String), EndingCounts>;

/// Settings of a monitor in addition to its file.
#[derive(Clone)]
pub struct MonitorSettings {
    /// Path of the file, which is read again when it changes; `None`: the model has no file and never changes.
    pub file: Option<PathBuf>,
    /// Name of this host in the file; `None`: the monitor finds it by host name, or by the addresses of its
    /// interfaces.
    pub host: Option<String>,
    /// Archive for results; `None`: the archive of the file.
    pub archive: Option<PathBuf>,
    /// Time after which the monitor ends; `None`: it runs until it is stopped.
    pub duration: Option<Span>,
    /// Equipment that creates the monitor's instruments, captures and server.
    pub equipment: Arc<dyn Equipment>,
    /// Function that prints the alerts of channels with `print`.
    pub print: Print,
    /// Confinement of this process, which must have one thread; `None`: it keeps its privileges.
    pub confinement: Option<MonitorConfinement>,
}

/// Requests to a running monitor. A request makes the file descriptor readable, which wakes the monitor.
pub trait Requests: AsFd {
    /// True if the monitor should end.
    fn is_stop_requested(&self) -> bool;

    /// True if the file should be read again; resets the request.
    fn take_reload(&self) -> bool;

    /// Resets the descriptor. Called before the requests are checked.
    fn clear(&self);
}

/// A stop signal requests only the end, never a reload.
impl Requests for StopSignal {
    fn is_stop_requested(&self) -> bool {
        self.is_requested()
    }

    fn take_reload(&self) -> bool {
        false
    }

    fn clear(&self) {}
}

/// A running test.
struct Thread {
    id: u64,
    stop: Stop,
    /// Time of the last request to end; `None`: not requested.
    requested: Option<SteadyTime>,
    handle: JoinHandle<MeasureResult>,
}

/// Reports the end of a test's thread when this value is dropped.
struct TestEndGuard(u64, Arc<Mutex<Vec<u64>>>, Waker);

impl Drop for TestEndGuard {
    fn drop(&mut self) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
        self.2.wake();
    }
}

/// This host while the monitor runs.
struct Monitor<'a> {
    settings: &'a MonitorSettings,
    folder: PathBuf,
    host: usize,
    agenda: Agenda,
    key: Option<PresharedKey>,
    server: Option<RunningServer>,
    page: Option<RunningPage>,
    state: OwnState,
    /// Queue of tests that were demanded on the page.
    demands: Arc<RunQueue>,
    /// Demanded tests that wait for their start, by identifier.
    demanded: BTreeMap<u64, QueuedRun>,
    alerts: Option<RunningAlerts>,
    outlets: Outlets,
    captures: RunningCaptures,
    routes: RunningRoutes,
    pushes: Option<RunningPushes>,
    /// News for collectors in addition to results.
    news: NewsBoard,
    /// Slots of this host without a result.
    lost: SlotLog,
    threads: Vec<Thread>,
    /// Wakes the monitor when a test has ended, or is demanded on the page.
    waker: Waker,
    ended: Arc<Mutex<Vec<u64>>>,
    pruning: Option<EndingThread>,
    /// Time of the last warning about results removed before they were pushed.
    drops_logged: Arc<Mutex<Option<SteadyTime>>>,
}

/// Runs the monitor until a stop is requested, or for the duration in `settings`. Reads the file again when it changes
/// or when this is requested. Returns counts of the outcomes of slots.
///
/// # Errors
/// Reason why the monitor cannot start. Operations that fail later are logged and retried.
pub fn run(
    settings: &MonitorSettings,
    model: Model,
    timetable: Timetable,
    requests: &dyn Requests,
) -> Result<SlotCounts> {
    let args = settings;
    let equipment = &args.equipment;
    let host = match &args.host {
        Some(name) => named(&model, name)?,
        None => own::find(&model)?,
    };
    // Key files and the archive are relative to the folder of the file.
    let folder = args.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
    args.file.as_deref().map_or(Ok(()), |file| check_file(file, &model))?;
    let key = own_key(&model, host, &folder)?;
    let (model, timetable) = (Arc::new(model), Arc::new(timetable));
    let kept = archive_of(args, &model, &folder);
    let is_new = kept.as_deref().is_some_and(|root| !is_archive(root));
    // A new archive belongs to the user that the monitor becomes, which creates it.
    if args.confinement.is_none() || !is_new {
        check_archive(kept.as_deref())?;
    }
    alerts::check(&model, kept.as_deref())?;
    captures::check(&model, host, kept.as_deref())?;
    let commands = match &args.confinement {
        Some(confinement) => confinement.apply(args, &model, host, kept.as_deref())?,
        None => Commands::Here,
    };
    if is_new {
        check_archive(kept.as_deref())?;
    }
    let outlets = Outlets { print: args.print.clone(), commands: Arc::new(commands) };
    recover(kept.as_deref())?;
    let server = RunningServer::start(&**equipment, &model, host, &folder)?;
    let news = NewsBoard::default();
    let pushes = RunningPushes::start((&model, host), &folder, kept.as_deref(), key.as_ref(), &news)?;
    let name = model.hosts[host].name.clone();
    let state = OwnState::new(&name, clock::wall(), clock::steady());
    let waker = Waker::new()?;
    let demands = Arc::new(RunQueue::new(model.clone(), host, equipment.clone(), waker.clone()));
    let site = WebSite { model: &model, host, folder: &folder, archive: kept.as_deref() };
    let page = RunningPage::prepare(&**equipment, &site, &state.shown, &demands)?;
    let page = page.as_ref().map(RunningPage::start).transpose()?;
    let alerts = RunningAlerts::start(&model, &name, &folder, kept.as_deref(), outlets.clone())?;
    let captures = RunningCaptures::start(equipment.clone(), &model, host, &folder, kept.as_deref())?;
    let routes = RunningRoutes::start(&model, host, kept.as_deref(), &news)?;
    let agenda =
        Agenda::new(model, timetable, &name, clock::wall()).context("the file does not contain this host")?;
    info!("monitoring as {name}{}", next_line(&agenda));
    let mut monitor = Monitor {
        settings,
        folder,
        host,
        agenda,
        key,
        server,
        page,
        state,
        demands,
        demanded: BTreeMap::new(),
        alerts,
        outlets,
        captures,
        routes,
        pushes: Some(pushes),
        news,
        lost: SlotLog::default(),
        threads: Vec::new(),
        waker,
        ended: Arc::default(),
        pruning: None,
        drops_logged: Arc::default(),
    };
    let begun = clock::steady();
    let version = || args.file.as_deref().and_then(version);
    let mut seen = version();
    let (mut looked, mut pruned) = (begun, None::<SteadyTime>);
    let ends = args.duration.map(|duration| begun + duration);
    while !requests.is_stop_requested() {
        let now = clock::steady();
        if ends.is_some_and(|ends| now >= ends) {
            break;
        }
        let reload = requests.take_reload();
        if reload || now - looked >= FILE_CHECK_INTERVAL {
            looked = now;
            let current = version();
            if reload || current != seen {
                seen = current;
                monitor.take_up();
            }
        }
        let sized = monitor.agenda.model().archive.size.is_some();
        let every = if sized { PRUNE_INTERVALS.1 } else { PRUNE_INTERVALS.0 };
        if pruned.is_none_or(|at| now - at >= every) {
            pruned = Some(now);
            monitor.prune();
        }
        monitor.step();
        let due = monitor.due().min(looked + FILE_CHECK_INTERVAL);
        wake::wait(&[requests.as_fd(), monitor.waker.as_fd()], ends.into_iter().chain(Some(due)).min());
        requests.clear();
        monitor.waker.clear();
    }
    monitor.finish();
    let all = monitor.agenda.counts().iter().chain(monitor.captures.counts());
    Ok(all.map(|(of, counts)| (of.clone(), counts.clone())).collect())
}

/// Reads the file; `None` if it has faults, which are logged.
///
/// # Errors
/// The file cannot be read.
pub fn load(path: &Path, equipment: &dyn Equipment) -> Result<Option<Model>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
    match read(&text, equipment) {
        Ok(model) => Ok(Some(model)),
        Err(faults) => {
            for fault in &faults {
                error!("{name}:{fault}");
            }
            Ok(None)
        }
    }
}

/// Returns the index of the host with this name.
///
/// # Errors
/// No host has this name; the message suggests a similar name.
pub fn named(model: &Model, name: &str) -> Result<usize> {
    if let Some(host) = model.host(name) {
        return Ok(host);
    }
    let names: Vec<&str> = model.hosts.iter().map(|h| h.name.as_str()).collect();
    bail!("--host: unknown host '{name}': {}", keys::choose(name, &names))
}

/// Checks that an archive can be written; creates it if it does not exist.
fn check_archive(archive: Option<&Path>) -> Result<()> {
    let Some(root) = archive else { return Ok(()) };
    if is_archive(root) {
        Archive::open_to_write(root).map(drop)?;
    } else {
        Archive::make(root).map(drop)?;
    }
    Ok(())
}

/// Returns the modification time and the length of the file; `None` if it does not exist.
pub(super) fn version(path: &Path) -> Option<(SystemTime, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

fn archive_of(args: &MonitorSettings, model: &Model, folder: &Path) -> Option<PathBuf> {
    let named = model.archive.folder.as_ref().map(|name| folder.join(name));
    args.archive.clone().or(named)
}

fn next_line(agenda: &Agenda) -> String {
    match agenda.wake() {
        Some(at) => format!(
            "; the first test in {}",
            // Round up to whole seconds, so that the test does not start earlier than announced.
            text_of(((at - clock::wall()).0.max(0) as u64).div_ceil(1_000_000_000) as i64 * 1_000_000_000)
        ),
        None => "; this host starts no tests, it only answers tests of other hosts".to_owned(),
    }
}

impl Monitor<'_> {
    /// Starts due tests, collects ended ones, and logs messages.
    fn step(&mut self) {
        let (wall, now) = (clock::wall(), clock::steady());
        // Tests that have ended make room for slots that are due.
        self.collect();
        for order in self.agenda.poll(wall, now) {
            match order {
                AgendaOrder::Start(job) => self.start(Task {
                    equipment: self.settings.equipment.clone(),
                    model: self.agenda.model().clone(),
                    job,
                    key: self.key.clone(),
                    archive: archive_of(self.settings, self.agenda.model(), &self.folder),
                }),
                AgendaOrder::Stop(id) | AgendaOrder::GiveUp(id) => {
                    self.request_end(now, |thread| thread.id == id);
                }
            }
        }
        self.extras(wall, now);
        // Request a test to give up if it is still fetching results long after the end of its slot.
        for thread in &mut self.threads {
            if thread.requested.is_some_and(|at| now - at >= END_TIMEOUT) {
                thread.stop.request();
                thread.requested = Some(now);
            }
        }
        self.log_news();
        let counts = self.agenda.counts().iter().chain(self.captures.counts());
        self.state.look(now, self.threads.len(), counts);
    }

    /// Fits demanded tests into gaps of the timetable, and starts those that are due.
    fn extras(&mut self, wall: WallTime, now: SteadyTime) {
        for demanded in self.demands.take().into_iter().filter(|demanded| !demanded.is_stopped()) {
            let duration = demanded.demand.traffic.duration;
            match self.agenda.add_extra(demanded.far(), duration, wall) {
                Ok((id, start)) => {
                    demanded.feed.waits(start.0);
                    // If the requester no longer waits for the answer, the test is removed later.
                    let _ = demanded.answer.send(Ok(()));
                    self.demanded.insert(id, demanded);
                }
                Err(gap) => drop(demanded.answer.send(Err(RunRefusal::Busy(refused(gap))))),
            }
        }
        let stopped: Vec<u64> =
            self.demanded.iter().filter(|(_, d)| d.is_stopped()).map(|(id, _)| *id).collect();
        for id in stopped {
            self.agenda.end_extra(id);
            if let Some(demanded) = self.demanded.remove(&id) {
                demanded.feed.ended(Err("the test was stopped before it began".to_owned()));
            }
        }
        for step in self.agenda.poll_extras(wall) {
            match step {
                ExtraStep::Start(id) => self.start_extra(id),
                ExtraStep::Stop(id) => self.request_end(now, |thread| thread.id == id),
                ExtraStep::Moved(id, start) => {
                    if let Some(demanded) = self.demanded.get(&id) {
                        demanded.feed.waits(start.0);
                    }
                }
                ExtraStep::Dropped(id, gap) => {
                    if let Some(demanded) = self.demanded.remove(&id) {
                        demanded.feed.ended(Err(refused(gap)));
                    }
                }
            }
        }
    }

    fn start_extra(&mut self, id: u64) {
        let Some(demanded) = self.demanded.remove(&id) else { return };
        let model = self.agenda.model().clone();
        let Some(archive) = archive_of(self.settings, &model, &self.folder) else {
            self.agenda.end_extra(id);
            demanded.feed.ended(Err("the archive was removed from the monitor's file".to_owned()));
            return;
        };
        let (from, key) = (model.hosts[self.host].name.clone(), self.key.clone());
        let of_server = if demanded.host.only_answers { Vec::new() } else { options_of_server(&model) };
        let stop = Stop::from(demanded.feed.stop());
        let equipment = self.settings.equipment.clone();
        let run = move || {
            let host = demanded.host.clone();
            let place = TestPlacement {
                from: &from,
                host: &host.name,
                address: &host.address,
                key: key.as_ref(),
                of_server: &of_server,
                archive: &archive,
            };
            demanded.measure(&*equipment, &place);
            Ok(())
        };
        // Dropping the demanded test ends its feed.
        if let Err(e) = self.spawn(id, stop, run) {
            warn!("starting a thread for a test on demand: {e}");
            self.agenda.end_extra(id);
        }
    }

    /// Returns the time of the next action, if no event occurs earlier.
    fn due(&self) -> SteadyTime {
        let now = clock::steady();
        let agenda = self.agenda.wake().map(|at| now + (at - clock::wall()));
        let demands = (!self.demanded.is_empty()).then_some(now + DEMAND_CHECK_INTERVAL);
        let requested = self.threads.iter().filter_map(|thread| thread.requested.map(|at| at + END_TIMEOUT));
        requested.chain(agenda).chain(demands).min().unwrap_or(SteadyTime(i64::MAX))
    }

    /// Starts the thread of a test; its end wakes the monitor.
    fn spawn(
        &mut self,
        id: u64,
        stop: Stop,
        run: impl FnOnce() -> MeasureResult + Send + 'static,
    ) -> std::io::Result<()> {
        let reports_end = TestEndGuard(id, self.ended.clone(), self.waker.clone());
        let run = move || {
            let _reports_end = reports_end;
            run()
        };
        let handle = std::thread::Builder::new().name(format!("test {id}")).spawn(run)?;
        self.threads.push(Thread { id, stop, requested: None, handle });
        Ok(())
    }

    fn start(&mut self, task: Task) {
        let (id, name, far) = (task.job.id, task.job.name.clone(), task.job.far.clone());
        debug!("starting {name} with {far}");
        let stop = Stop::new();
        let own = stop.clone();
        if let Err(e) = self.spawn(id, stop, move || task.measure(&own)) {
            let why = format!("starting a thread for the test: {e}");
            self.agenda.ended(id, clock::wall(), Err((SlotFailure::Other, why)));
        }
    }

    fn request_end(&mut self, now: SteadyTime, which: impl Fn(&Thread) -> bool) {
        for thread in self.threads.iter_mut().filter(|thread| which(thread)) {
            thread.stop.request();
            thread.requested = Some(now);
        }
    }

    /// Processes the results of threads that have ended.
    fn collect(&mut self) {
        let ids = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        let ended: Vec<Thread> = self.threads.extract_if(.., |thread| ids.contains(&thread.id)).collect();
        for thread in ended {
            let failed = |_| {
                Err((
                    SlotFailure::Other,
                    "the thread of the test panicked: this is a bug in jitlat; please report it".to_owned(),
                ))
            };
            let result = thread.handle.join().unwrap_or_else(failed);
            if self.agenda.end_extra(thread.id) {
                continue;
            }
            self.agenda.ended(thread.id, clock::wall(), result);
        }
    }

    fn log_news(&mut self) {
        for outcome in self.agenda.outcomes() {
            debug!(
                "{} with {}, slot {}: {}",
                outcome.test,
                outcome.far,
                outcome.slot_number,
                text::ending(outcome.ending)
            );
            let client = self.agenda.model().hosts[self.host].name.clone();
            let report = self.lost.report(&client, &outcome);
            if let Some(report) = &report {
                self.news.report(report);
            }
            if let Some(alerts) = &self.alerts {
                let ending = text::ending(outcome.ending).to_owned();
                let slot = SlotFilter { test: outcome.test, client, server: outcome.far, ending };
                alerts.slot_ended(slot, report);
            }
        }
        for outcome in self.captures.outcomes() {
            let captures::PeriodOutcome { name: test, far: server, ending } = outcome;
            debug!("{test} with {server}, period: {}", text::ending(ending));
            if let Some(alerts) = &self.alerts {
                let client = self.agenda.model().hosts[self.host].name.clone();
                let ending = text::ending(ending).to_owned();
                alerts.slot_ended(SlotFilter { test, client, server, ending }, None);
            }
        }
        for notice in self.agenda.notices() {
            match notice {
                Notice::Failing { far, failure, why } => {
                    warn!(
                        "{far}: tests fail ({}), and are tried again in each of their slots: {why}",
                        text::failure(failure)
                    );
                }
                Notice::Recovered { far, since, lost } => {
                    let long = text_of(((clock::wall() - since).0 / 1_000_000_000).max(0) * 1_000_000_000);
                    info!("{far}: tests succeed again after {long}; {lost} lost");
                    self.pushes.iter().for_each(RunningPushes::try_at_once);
                }
                Notice::NotStored(why) => {
                    warn!("results are not stored: {why}; the far hosts are not to blame");
                }
                Notice::Stored(lost) => info!("results are stored again; {lost} were not"),
                Notice::Missing(missed) => warn!("some tests cannot start: {}", text::missed(missed)),
                Notice::InTime { missed: Missed::Late | Missed::Busy, lost } => {
                    info!("tests start on time again; {lost} missed");
                }
                Notice::InTime { .. } => {}
                Notice::ClockStep(step) => warn!("the clock was set by {:.3} s", step.as_seconds()),
            }
        }
    }

    /// Reads the file again, and applies it if it has no faults.
    fn take_up(&mut self) {
        let Some(path) = &self.settings.file else { return };
        let file = path.display();
        let new = match load(path, &*self.settings.equipment) {
            Ok(Some(model)) => model,
            Ok(None) => return warn!("{file}: still using the previous version of the file"),
            Err(e) => return warn!("{}; still using the previous version of the file", explain(&e)),
        };
        if let Err(e) = check_file(path, &new).and_then(|()| self.follow(new)) {
            warn!("{file}: {}; still using the previous version of the file", explain(&e));
        }
    }

    fn follow(&mut self, new: Model) -> Result<()> {
        let name = self.agenda.model().hosts[self.host].name.clone();
        let Some(host) = new.host(&name) else {
            bail!("the new version does not contain this host, '{name}'")
        };
        let key = own_key(&new, host, &self.folder)?;
        let kept = archive_of(self.settings, &new, &self.folder);
        check_archive(kept.as_deref())?;
        alerts::check(&new, kept.as_deref())?;
        captures::check(&new, host, kept.as_deref())?;
        let old = self.agenda.model().clone();
        let keys =
            |model: &Model| model.hosts.iter().map(|h| (h.name.clone(), h.key.clone())).collect::<Vec<_>>();
        let shown_to_others = |model: &Model, host: usize| model.far_interfaces(host);
        let kept_before = archive_of(self.settings, &old, &self.folder);
        let moved = kept != kept_before;
        let collects = new.collectors != old.collectors
            || keys(&new) != keys(&old)
            || new.serve != old.serve
            || new.hosts != old.hosts
            || new.alerts != old.alerts;
        if new.serve != old.serve
            || keys(&new) != keys(&old)
            || shown_to_others(&new, host) != shown_to_others(&old, self.host)
        {
            // Stop the old server first, so that its ports are free.
            self.server = None;
            match RunningServer::start(&*self.settings.equipment, &new, host, &self.folder) {
                Ok(server) => self.server = server,
                Err(e) => {
                    self.server =
                        RunningServer::start(&*self.settings.equipment, &old, self.host, &self.folder)
                            .unwrap_or_else(|again| {
                                error!("{}", explain(&again));
                                None
                            });
                    return Err(e);
                }
            }
        }
        let targets = |model: &Model, host: usize| push::targets(model, host, &self.folder);
        if moved || key != self.key || targets(&new, host)? != targets(&old, self.host)? {
            // Stop the old threads first, so that no test is offered twice.
            self.pushes = None;
            let whose = (&new, host);
            let pushes = RunningPushes::start(whose, &self.folder, kept.as_deref(), key.as_ref(), &self.news);
            self.pushes =
                pushes.map_err(|e| error!("[[collector]]: {}; nothing is pushed", explain(&e))).ok();
        }
        if new.web != old.web
            || moved
            || collects && !(new.collectors.is_empty() && old.collectors.is_empty())
        {
            let site = WebSite { model: &new, host, folder: &self.folder, archive: kept.as_deref() };
            let equipment = &*self.settings.equipment;
            match RunningPage::prepare(equipment, &site, &self.state.shown, &self.demands) {
                Ok(prepared) => {
                    // Stop the old web server first, so that its port is free.
                    self.page = None;
                    let page = prepared.as_ref().map(RunningPage::start).transpose();
                    self.page = page.unwrap_or_else(|e| {
                        error!("{}; neither the page nor pushed tests are served", explain(&e));
                        None
                    });
                }
                Err(e) => error!("{}; the page and the collector stay as they were", explain(&e)),
            }
        }
        let has_command = |model: &Model| {
            model.alerts.channels.iter().any(|channel| matches!(channel.method, NotifyMethod::Command(_)))
        };
        let is_here = matches!(*self.outlets.commands, Commands::Here);
        if self.settings.confinement.is_some() && is_here && has_command(&new) && !has_command(&old) {
            warn!(
                "the commands of [[notify]] do not run: this monitor was started without commands, and is confined: restart it"
            );
        }
        let timetable = Timetable::new(&new);
        let new = Arc::new(new);
        for shortfall in timetable.shortfalls(&new) {
            warn!("{shortfall}");
        }
        self.captures.follow(&new, host, &self.folder, kept.as_deref())?;
        if new.routes != old.routes || new.hosts != old.hosts || moved {
            self.routes = RunningRoutes::start(&new, host, kept.as_deref(), &self.news)?;
        }
        match (&self.alerts, &kept) {
            (Some(alerts), Some(archive)) => alerts.follow(new.clone(), archive),
            _ => {
                self.alerts =
                    RunningAlerts::start(&new, &name, &self.folder, kept.as_deref(), self.outlets.clone())?;
            }
        }
        let changes = self
            .agenda
            .take_up(new.clone(), Arc::new(timetable), clock::wall())
            .context("the file no longer contains this host")?;
        self.demands.follow(new, host);
        (self.host, self.key) = (host, key);
        let list = |what: &str, names: &[String]| match names {
            [] => String::new(),
            names => format!("; {what} {}", names.join(", ")),
        };
        info!(
            "using the new version of the file{}{}{}",
            list("added", &changes.added),
            list("changed", &changes.changed),
            list("removed", &changes.removed)
        );
        Ok(())
    }

    /// Removes old results according to the file, on a separate thread.
    fn prune(&mut self) {
        if self.pruning.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let rules = self.agenda.model().archive.clone();
        let Some(root) = archive_of(self.settings, self.agenda.model(), &self.folder) else { return };
        let logged = self.drops_logged.clone();
        let run = move || {
            if let Err(e) = prune(&root, &rules, &logged) {
                warn!("removing old results from the archive {}: {}", root.display(), explain(&e));
            }
        };
        match EndingThread::spawn("retention", run) {
            Ok(thread) => self.pruning = Some(thread),
            Err(e) => warn!("starting the thread that removes old results: {e}"),
        }
    }

    /// Ends running tests and stores their results.
    fn finish(&mut self) {
        let begun = clock::steady();
        for (_, demanded) in std::mem::take(&mut self.demanded) {
            demanded.feed.ended(Err("the monitor was stopped before the test began".to_owned()));
        }
        self.request_end(begun, |_| true);
        self.captures.end();
        self.routes.request_end();
        let (first, last) = LAST_TIMEOUTS;
        let mut requested = false;
        while !self.threads.is_empty() {
            let now = clock::steady();
            if !requested && now - begun >= first {
                requested = true;
                self.request_end(now, |_| true);
            }
            if now - begun >= last {
                warn!("{} tests did not end in time and were abandoned", self.threads.len());
                break;
            }
            self.collect();
            self.log_news();
            if !self.threads.is_empty() {
                let next = if requested { last } else { first };
                wake::wait(&[self.waker.as_fd()], Some(begun + next));
                self.waker.clear();
            }
        }
        self.collect();
        self.log_news();
        // The thread may be abandoned: files that retention publishes or removes are complete at any time.
        if let Some(thread) = self.pruning.take() {
            thread.end();
        }
        self.server = None;
        self.page = None;
        self.alerts = None;
        self.pushes = None;
    }
}

/// Repairs an archive after a crash.
fn recover(root: Option<&Path>) -> Result<()> {
    let Some(root) = root else { return Ok(()) };
    let found = Archive::open_to_write(root)?.recover()?;
    if found.entered > 0 {
        info!("repaired the archive: added {} tests that were missing in its catalogue", found.entered);
    }
    for finding in &found.damaged {
        warn!("{}: {}", finding.what, finding.problem);
    }
    Ok(())
}

/// Applies the retention rules of the file to an archive; `logged` is the time of the last warning about results
/// removed before they were pushed.
fn prune(root: &Path, rules: &ArchiveRules, logged: &Mutex<Option<SteadyTime>>) -> Result<()> {
    let by_age = rules.packets.map(|days| Retention::Packets { days }).into_iter();
    let by_age = by_age.chain(rules.tests.map(|days| Retention::Tests { days }));
    for keep in by_age.chain(rules.size.map(|bytes| Retention::Size { bytes })) {
        let archive = Archive::open_to_write(root)?;
        let done = archive.prune(keep, clock::wall())?;
        if done.packets_of + done.tests > 0 {
            info!(
                "{keep:?}: removed packets of {} tests, {} tests, {} bytes",
                done.packets_of, done.tests, done.bytes
            );
        }
        let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::steady();
        if done.waited > 0 && logged.is_none_or(|at| now - at >= DROP_NOTICE_INTERVAL) {
            *logged = Some(now);
            warn!(
                "{} tests were removed before they were pushed to a collector; they are counted as dropped",
                done.waited
            );
        }
    }
    // Each test has a packet file of its own at first, of which a small test fills little.
    let merged = Archive::open_to_write(root)?.compact_finished_days(clock::wall())?;
    if merged.before > 0 {
        info!("merged {} packet files of finished days into {}", merged.before, merged.after);
    }
    Ok(())
}
