//! [`CaptureStore`]: writes the packets of each period to logs; a thread adds them to the archive when the period has ended.

use super::{CaptureSetup, PeriodOutcome};
use crate::agenda::{SlotEnding, SlotFailure};
use crate::runtime::error::{Context, Result, explain};
use crate::runtime::measure::add_log;
use jitlat_core::session::Ending;
use jitlat_core::session::PASSIVE;
use jitlat_core::{PacketRecord, Session};
use jitlat_net::pace;
use jitlat_store::log::{LogFile, LogReader, LogVersion, Naming};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use tracing::{error, info, warn};

/// Maximum number of periods on disk that are not archived yet.
const MAX_QUEUED_PERIODS: usize = 16;

/// A period that has ended.
pub struct CapturePeriod {
    /// Number of the period.
    pub number: i64,
    /// Session data of each stream.
    pub sessions: Vec<Session>,
    /// Number of packets that the capture dropped.
    pub dropped: u64,
    /// True if the period was captured from its beginning to its end.
    pub is_whole: bool,
    /// True if no outcome has been reported for the period.
    pub is_new: bool,
}

/// Finished logs that are not in the archive yet.
struct FinishedLogs {
    logs: Vec<PathBuf>,
    ending: Option<SlotEnding>,
    /// Reason why a log is not complete; `None` if all are complete.
    trouble: Option<String>,
}

/// Writes logs and passes them to the archiving thread.
pub struct CaptureStore {
    setup: CaptureSetup,
    /// Folder of logs that are not in the archive yet.
    folder: PathBuf,
    open: BTreeMap<(i64, usize), LogFile>,
    failed: Option<String>,
    to: Option<SyncSender<FinishedLogs>>,
    thread: Option<JoinHandle<()>>,
    outcomes: Sender<PeriodOutcome>,
    /// Number in log names that distinguishes logs of the same period: a period that was interrupted has
    /// several.
    parts: u64,
}

impl CaptureStore {
    /// Starts the store of a capture. The outcomes of periods are sent to `outcomes`.
    pub fn start(setup: &CaptureSetup, outcomes: Sender<PeriodOutcome>) -> Result<CaptureStore> {
        // The folder's name must be unique among the captures of all hosts that use this archive.
        let letters = |c: char| if c.is_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
        let name: String =
            format!("capture {} {}", setup.host, setup.capture.name).chars().map(letters).collect();
        let folder = setup.archive.join("captures").join(name);
        let left = recover(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let (to, finished) = sync_channel(MAX_QUEUED_PERIODS.max(left.len()));
        if !left.is_empty() {
            let n = left.len();
            info!("[[capture]] {}: {n} logs of a killed capture were recovered", setup.capture.name);
        }
        // Does not block: the queue has room for all recovered logs.
        for log in left {
            let _ = to.send(FinishedLogs { logs: vec![log], ending: None, trouble: None });
        }
        let (own, to_monitor) = (setup.clone(), outcomes.clone());
        let thread = std::thread::Builder::new().name("captures".to_owned());
        let thread = thread.spawn(move || archive_all(&own, &finished, &to_monitor));
        let thread = thread.context("starting the archiving thread for captures")?;
        Ok(CaptureStore {
            setup: setup.clone(),
            folder,
            open: BTreeMap::new(),
            failed: None,
            to: Some(to),
            thread: Some(thread),
            outcomes,
            parts: 0,
        })
    }

    /// Writes records of a stream to the log of its period.
    pub fn records(&mut self, period: i64, stream: usize, session: &Session, records: &[PacketRecord]) {
        match self.log(period, stream, session) {
            Ok(log) => {
                records.iter().for_each(|record| log.record(record));
                log.flush();
            }
            Err(e) => {
                self.failed.get_or_insert(explain(&e));
            }
        }
    }

    /// Returns the log of a stream, with its header written.
    fn log(&mut self, period: i64, stream: usize, session: &Session) -> Result<&mut LogFile> {
        if !self.open.contains_key(&(period, stream)) {
            self.parts += 1;
            let path = self.folder.join(format!("{period}.{}.{stream}", self.parts));
            let mut log = match session.two_way {
                None => LogFile::create(&Naming::Given(path), LogVersion::V3)?,
                Some(_) => LogFile::create_two_way(&Naming::Given(path))?,
            };
            log.begin(&self.annotated(session.clone(), period, 0));
            self.open.insert((period, stream), log);
        }
        self.open.get_mut(&(period, stream)).context("no log")
    }

    /// Adds the tags by which searches find the session.
    fn annotated(&self, mut session: Session, period: i64, dropped: u64) -> Session {
        let CaptureSetup { capture, host, far, .. } = &self.setup;
        session.name = Some(capture.name.clone());
        session.client.name = Some(host.clone());
        session.server.name = Some(far.clone());
        let mut tags = vec![
            ("test", capture.name.clone()),
            ("client", host.clone()),
            ("server", far.clone()),
            ("slot", period.to_string()),
        ];
        if dropped > 0 {
            tags.push(("dropped", dropped.to_string()));
        }
        if !session.tags.iter().any(|(key, _)| key == "instrument") {
            session.tags.push(("instrument".to_owned(), PASSIVE.to_owned()));
        }
        session.tags.extend(tags.into_iter().map(|(key, value)| (key.to_owned(), value)));
        session
    }

    /// Passes the logs of a period to the archiving thread.
    pub fn end(&mut self, period: &CapturePeriod) {
        let ending = SlotEnding::Measured { cut: !period.is_whole };
        let mut finished =
            FinishedLogs { logs: Vec::new(), ending: period.is_new.then_some(ending), trouble: None };
        for (stream, session) in period.sessions.iter().enumerate() {
            let session = self.annotated(session.clone(), period.number, period.dropped);
            let closed = self.log(period.number, stream, &session).map(drop).and_then(|()| {
                let mut log = self.open.remove(&(period.number, stream)).context("no log")?;
                log.finish(&session);
                Ok(log.close()?.0)
            });
            match closed {
                Ok(path) => finished.logs.push(path),
                Err(e) => drop(finished.trouble.get_or_insert(explain(&e))),
            }
        }
        finished.trouble = finished.trouble.or(self.failed.take());
        let Some(to) = &self.to else { return };
        // Never wait for the archive here, because the capture would drop packets meanwhile.
        if let Err(TrySendError::Full(late) | TrySendError::Disconnected(late)) = to.try_send(finished) {
            late.remove();
            warn!(
                "[[capture]] {}: {MAX_QUEUED_PERIODS} periods are waiting for the archive {}; the latest one is dropped",
                self.setup.capture.name,
                self.setup.archive.display()
            );
            if period.is_new {
                self.send(SlotEnding::Failed(SlotFailure::NotStored));
            }
        }
    }

    /// Discards the logs of an unfinished period, because their counts would be wrong.
    pub fn drop_open(&mut self) {
        for (_, log) in std::mem::take(&mut self.open) {
            let path = log.path().to_owned();
            // A file that cannot be removed is recovered or removed at the next start.
            drop(log);
            let _ = fs::remove_file(path);
        }
        self.failed = None;
    }

    fn send(&self, ending: SlotEnding) {
        let (name, far) = (self.setup.capture.name.clone(), self.setup.far.clone());
        // Sending fails only if the receiver was dropped and needs no more counts.
        let _ = self.outcomes.send(PeriodOutcome { name, far, ending });
    }
}

impl Drop for CaptureStore {
    fn drop(&mut self) {
        self.drop_open();
        // Closing the queue lets the thread archive the remaining logs first.
        self.to = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("[[capture]] {}: the archiving thread failed (a bug in jitlat)", self.setup.capture.name);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl FinishedLogs {
    fn remove(&self) {
        for log in &self.logs {
            let _ = fs::remove_file(log);
        }
    }

    fn keep(&self, root: &Path) -> Result<(), String> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        let keep = |log: &PathBuf| add_log(root, log).map(drop).map_err(|e| e.to_string());
        self.logs.iter().try_for_each(keep)
    }
}

/// Completes the logs that a killed capture left in `folder`, and returns them. Removes logs that cannot be
/// completed.
fn recover(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut left: Vec<PathBuf> = files.collect();
    left.sort_unstable();
    left.retain_mut(|path| match complete(path) {
        Ok(whole) => {
            *path = whole;
            true
        }
        Err(_) => {
            let _ = fs::remove_file(path);
            false
        }
    });
    left
}

/// Adds the missing end to a period's log. Packets sent after the last one that arrived remain unknown.
fn complete(path: &Path) -> Result<PathBuf> {
    let mut read = LogReader::open(path)?;
    if read.session().ending == Ending::Complete {
        return Ok(path.to_owned());
    }
    let (mut failure, mut last, mut first) = (None, None, None);
    for record in read.records(&mut failure) {
        last = last.max(Some(record.seq));
        first = first.or(record.sent());
    }
    let sent = u32::try_from(last.context("the log has no packets")? + 1).context("its packets")?;
    let mut session = read.session().clone();
    (session.sent, session.declared, session.created) =
        (Some(sent), Some(sent.into()), first.or(session.created));
    (session.ending, session.truncated) = (Ending::Interrupted, false);
    session.reason = Some("the monitor was killed".to_owned());
    let naming = Naming::Given(path.with_extension("whole"));
    let mut log = match session.two_way {
        None => LogFile::create(&naming, LogVersion::V3)?,
        Some(_) => LogFile::create_two_way(&naming)?,
    };
    log.begin(&session);
    LogReader::open(path)?.records(&mut failure).for_each(|record| log.record(&record));
    log.finish(&session);
    let (whole, _) = log.close()?;
    fs::remove_file(path)?;
    Ok(whole)
}

/// Adds finished logs to the archive until the sender of `finished` is dropped.
fn archive_all(setup: &CaptureSetup, finished: &Receiver<FinishedLogs>, outcomes: &Sender<PeriodOutcome>) {
    pace::yield_to_others();
    let mut failing = false;
    for period in finished {
        let kept = period.keep(&setup.archive);
        period.remove();
        let name = &setup.capture.name;
        if let Err(why) = &kept
            && !failing
        {
            warn!("[[capture]] {name}: archive {}: {why}", setup.archive.display());
        }
        failing = kept.is_err();
        let Some(ending) = period.ending else { continue };
        let ending = if kept.is_ok() { ending } else { SlotEnding::Failed(SlotFailure::NotStored) };
        let _ = outcomes.send(PeriodOutcome { name: name.clone(), far: setup.far.clone(), ending });
    }
}
