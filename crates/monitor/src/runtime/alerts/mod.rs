//! Alerts of a monitor, on separate threads: results are judged when they are added to the archive, and messages are sent to
//! channels.
//!
//! * [`judge`] – converts results to states, alerts and messages, in one transaction
//! * [`compare`] – compares a test with those of an earlier period
//! * [`channel`] – sends messages to their receivers until they are accepted; [`commands`] – runs commands, also for a confined monitor

mod channel;
mod commands;
mod compare;
mod judge;
#[cfg(test)]
mod rates;

use super::watch::ArchiveWatch;
use super::{page, push};
use crate::Model;
use crate::alert::SlotReport;
use crate::alert::rule::NotifyChannel;
use crate::runtime::error::{Context, Result, bail, explain};
use channel::ChannelSender;
pub use channel::{JudgePeer, Peer};
pub use commands::{Commands, may_be_written, serve_commands, writable_part};
use jitlat_archive::SlotFilter;
use jitlat_core::Span;
use jitlat_net::wake::{StopSignal, Waker};
use jitlat_net::{clock, pace};
use judge::{ResultJudge, SILENCE_CHECK_INTERVAL};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use tracing::{error, warn};

/// Pause after the archive could not be read or written.
const PAUSE: Span = Span::seconds(10);

/// Prints the text of an alert, for channels with `print`.
pub type Print = Arc<dyn Fn(&str) -> std::io::Result<()> + Send + Sync>;

/// Receivers of messages that are not sent by HTTP.
#[derive(Clone)]
pub struct Outlets {
    pub print: Print,
    pub commands: Arc<Commands>,
}

/// Threads that judge results and send messages. They stop when this value is dropped.
pub struct RunningAlerts {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
    to: mpsc::Sender<JudgeTask>,
    waker: Waker,
}

/// A task for the judging thread.
enum JudgeTask {
    /// A slot has ended, with the report about it if it had no result.
    Ended(SlotFilter, Option<SlotReport>),
    /// A new version of the file, perhaps with another archive.
    File(Arc<Model>, PathBuf),
}

/// Checks that the monitor has an archive if the file has alert rules.
///
/// # Errors
/// Advice on how to correct the file.
pub fn check(model: &Model, archive: Option<&Path>) -> Result<()> {
    if archive.is_none() && !model.alerts.rules.is_empty() {
        bail!("[[alert]] needs an archive: write [archive] with a folder, or give --archive DIR");
    }
    Ok(())
}

impl RunningAlerts {
    /// Starts the alerts of the host `name`; `None` without an archive.
    pub fn start(
        model: &Arc<Model>,
        name: &str,
        folder: &Path,
        archive: Option<&Path>,
        outlets: Outlets,
    ) -> Result<Option<RunningAlerts>> {
        check(model, archive)?;
        let Some(root) = archive else { return Ok(None) };
        let (to, news) = mpsc::channel();
        let (stop, waker) = (StopSignal::new()?, Waker::new()?);
        let (model, root) = (model.clone(), root.to_owned());
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let news = (news, waker.clone());
        let stopped = stop.clone();
        let run = move || judge(model, &name, &folder, root, &outlets, &news, &stopped);
        let thread = spawn("alerts", run)?;
        Ok(Some(RunningAlerts { stop, thread: Some(thread), to, waker }))
    }

    /// Applies a new version of the file.
    pub fn follow(&self, model: Arc<Model>, archive: &Path) {
        self.send(JudgeTask::File(model, archive.to_owned()));
    }

    /// Records that a slot has ended, with the report about it if it had no result.
    pub fn slot_ended(&self, slot: SlotFilter, report: Option<SlotReport>) {
        self.send(JudgeTask::Ended(slot, report));
    }

    fn send(&self, news: JudgeTask) {
        // Sending fails only if the thread has ended; it has then reported the reason.
        let _ = self.to.send(news);
        self.waker.wake();
    }
}

impl Drop for RunningAlerts {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the thread that judges alerts failed (a bug in jitlat)");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let run = move || {
        // Tests have priority over alerts.
        pace::yield_to_others();
        run();
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.with_context(|| format!("starting the thread {name}"))
}

/// Judges until a stop is requested, then judges the last results.
fn judge(
    mut model: Arc<Model>,
    host: &str,
    folder: &Path,
    mut root: PathBuf,
    outlets: &Outlets,
    (news, waker): &(Receiver<JudgeTask>, Waker),
    stop: &StopSignal,
) {
    let mut watch = ArchiveWatch::new(&root, stop);
    let mut judge = ResultJudge::new(model.clone(), host, &root);
    let mut channels = Channels::start(&model, host, &root, folder, outlets);
    let mut failing = false;
    loop {
        let last = stop.is_requested();
        for news in news.try_iter() {
            match news {
                JudgeTask::Ended(slots, report) => judge.ended(slots, report),
                JudgeTask::File(new, archive) => {
                    if new.alerts != model.alerts || archive != root || new.web != model.web {
                        drop(channels);
                        channels = Channels::start(&new, host, &archive, folder, outlets);
                    }
                    (model, root) = (new, archive);
                    watch = ArchiveWatch::new(&root, stop);
                    judge.follow(model.clone(), &root);
                }
            }
        }
        let went = judge.step(clock::wall(), clock::steady());
        if let Err(e) = &went
            && !std::mem::replace(&mut failing, true)
        {
            warn!("alerts: {e}; retrying");
        }
        failing &= went.is_err();
        if last {
            return;
        }
        // Rules about missing results need regular checks.
        let pause = match went {
            Ok(()) if model.alerts.rules.is_empty() => None,
            Ok(()) => Some(SILENCE_CHECK_INTERVAL),
            Err(_) => Some(PAUSE),
        };
        watch.wait(Some(waker), pause.map(|pause| clock::steady() + pause));
    }
}

/// Threads that send notifications, one per channel. They stop when this value is dropped.
struct Channels {
    stop: StopSignal,
    threads: Vec<JoinHandle<()>>,
}

impl Channels {
    fn start(model: &Model, host: &str, root: &Path, folder: &Path, outlets: &Outlets) -> Option<Channels> {
        let stop = match StopSignal::new() {
            Ok(stop) => stop,
            Err(e) => {
                error!("[[notify]]: {e}");
                return None;
            }
        };
        // If several monitors use one archive, those that judge also send the notifications.
        let rules = &model.alerts.rules;
        let sends = rules.is_empty() || rules.iter().any(|rule| rule.is_judged_at(host));
        let link = page::link(model, host);
        let start = |channel: &NotifyChannel| {
            let sender =
                ChannelSender::new(channel.clone(), root.to_owned(), folder.to_owned(), outlets.clone());
            let (sender, stop) = (sender.with_link(link.clone()), stop.clone());
            let mut sender = sender.with_peers(push::judges(model, host, folder, &stop));
            let mut watch = ArchiveWatch::new(root, &stop);
            let started = spawn("notify", move || {
                loop {
                    let last = stop.is_requested();
                    let due = sender.step(clock::wall());
                    if last {
                        // Do not wait: the last results have just been judged.
                        return;
                    }
                    watch.wait(None, due.map(|due| clock::steady() + (due - clock::wall())));
                }
            });
            started.map_err(|e| error!("[[notify]] {}: {}", channel.name, explain(&e))).ok()
        };
        let threads = model.alerts.channels.iter().filter(|_| sends).filter_map(start).collect();
        Some(Channels { threads, stop })
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.stop.request();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a thread of [[notify]] failed (a bug in jitlat)");
            }
        }
    }
}
