//! Alerts of a monitor, beside its tests: results are judged as they enter the archive, and messages sent to channels.
//!
//! * [`judge`] – results to states, alerts and messages, in one transaction
//! * [`compare`] – a test with those of an earlier period
//! * [`channel`] – messages to whom they are for, again and again until they are taken

mod channel;
mod compare;
mod judge;
#[cfg(test)]
mod rates;

use crate::Model;
use crate::alert::rule::Channel;
use anyhow::{Context, Result, bail};
use channel::Sender;
use jitlat_archive::Slots;
use jitlat_instruments::Stop;
use jitlat_net::{clock, pace};
use judge::Judge;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, warn};

/// Time between two looks at the archive.
const STEP: Duration = Duration::from_secs(1);
/// Time between two looks at whether to stop.
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// After a failure of the archive.
const PAUSE: Duration = Duration::from_secs(10);

/// Prints the text of an alert for people, where a channel says so.
pub type Print = Arc<dyn Fn(&str) -> std::io::Result<()> + Send + Sync>;

/// Threads that judge and send messages, until this is dropped.
pub struct RunningAlerts {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    to: mpsc::Sender<News>,
}

/// What the thread that judges has to look at.
enum News {
    /// A slot has ended.
    Ended(Slots),
    /// There is another file, and perhaps another archive.
    File(Arc<Model>, PathBuf),
}

/// Whether the file can be followed: alerts need an archive.
///
/// # Errors
/// What to write.
pub fn check(model: &Model, archive: Option<&Path>) -> Result<()> {
    if archive.is_none() && !model.alerts.rules.is_empty() {
        bail!(
            "[[alert]] judges what an archive has, and there is none: write [archive] with a folder, or give --archive DIR"
        );
    }
    Ok(())
}

impl RunningAlerts {
    /// Starts what follows from the results of the host `name`; `None` without an archive.
    pub fn start(
        model: &Arc<Model>,
        name: &str,
        folder: &Path,
        archive: Option<&Path>,
        print: Print,
    ) -> Result<Option<RunningAlerts>> {
        check(model, archive)?;
        let Some(root) = archive else { return Ok(None) };
        let (to, news) = mpsc::channel();
        let stop = Stop::new();
        let (asked, model, root) = (stop.clone(), model.clone(), root.to_owned());
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let run = move || judge(model, &name, &folder, root, &print, &news, &asked);
        let thread = spawn("alerts", run)?;
        Ok(Some(RunningAlerts { stop, thread: Some(thread), to }))
    }

    /// Follows another file.
    pub fn follow(&self, model: Arc<Model>, archive: &Path) {
        // A thread that is gone has said why.
        let _ = self.to.send(News::File(model, archive.to_owned()));
    }

    /// Notes that a slot has ended.
    pub fn slot_ended(&self, slot: Slots) {
        let _ = self.to.send(News::Ended(slot));
    }
}

impl Drop for RunningAlerts {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the thread of the alerts failed");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let run = move || {
        // Tests come first.
        pace::yield_to_others();
        run();
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.with_context(|| format!("starting the thread {name}"))
}

/// Waits; whether to go on.
fn wait(stop: &Stop, time: Duration) -> bool {
    let begun = Instant::now();
    while !stop.is_requested() && begun.elapsed() < time {
        std::thread::sleep(LOOK_AROUND);
    }
    !stop.is_requested()
}

/// Judges until it is to stop, and then what there is.
fn judge(
    mut model: Arc<Model>,
    host: &str,
    folder: &Path,
    mut root: PathBuf,
    print: &Print,
    news: &Receiver<News>,
    stop: &Stop,
) {
    let mut judge = Judge::new(model.clone(), host, &root);
    let mut channels = Channels::start(&model, host, &root, folder, print);
    let mut failing = false;
    loop {
        let last = stop.is_requested();
        for news in news.try_iter() {
            match news {
                News::Ended(slots) => judge.ended(slots),
                News::File(new, archive) => {
                    if new.alerts != model.alerts || archive != root {
                        drop(channels);
                        channels = Channels::start(&new, host, &archive, folder, print);
                    }
                    (model, root) = (new, archive);
                    judge.follow(model.clone(), &root);
                }
            }
        }
        let went = judge.step(clock::wall());
        if let Err(e) = &went
            && !std::mem::replace(&mut failing, true)
        {
            warn!("alerts: {e}; tried again");
        }
        failing &= went.is_err();
        if last {
            return;
        }
        wait(stop, if went.is_ok() { STEP } else { PAUSE });
    }
}

/// Threads that tell, one a channel, until this is dropped.
struct Channels {
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Channels {
    fn start(model: &Model, host: &str, root: &Path, folder: &Path, print: &Print) -> Channels {
        let stop = Stop::new();
        // Where several monitors use one archive, those tell that judge.
        let rules = &model.alerts.rules;
        let sends = rules.is_empty() || rules.iter().any(|rule| rule.is_judged_at(host));
        let start = |channel: &Channel| {
            let (mut sender, stop) = (
                Sender::new(channel.clone(), root.to_owned(), folder.to_owned(), print.clone()),
                stop.clone(),
            );
            let started = spawn("notify", move || {
                while wait(&stop, STEP) {
                    sender.step(clock::wall());
                }
                // The last results were judged a moment ago.
                sender.step(clock::wall());
            });
            started.map_err(|e| error!("[[notify]] {}: {e:#}", channel.name)).ok()
        };
        Channels { threads: model.alerts.channels.iter().filter(|_| sends).filter_map(start).collect(), stop }
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.stop.request();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a thread of [[notify]] failed");
            }
        }
    }
}
