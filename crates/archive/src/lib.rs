//! An archive: years of tests in a folder.
//!
//! * `catalogue.sqlite` – tests, hosts, streams, tags, every figure, roll-ups and alerts
//! * `packets/day=YYYY-MM-DD/*.parquet` – the packets: files of whole tests, which are never changed
//! * `tmp/` – files that are being written; `lock` – held by the current writer
//! * `catalogue.copy.sqlite` – a copy of the catalogue, made before packets are pruned, because figures of their tests
//!   are then only in the catalogue
//! * other folders are not part of the archive: a monitor writes logs of unfinished periods to `captures/`
//!
//! A test is added in two steps: its packet file is renamed to its final name, then one transaction adds it to the
//! catalogue. [`Archive::check`] completes or removes a test for which only the first step was done. Logs can be
//! exported byte for byte as they were added. [`show`] formats results as text, CSV and JSON.
//!
//! Related crates: `jitlat-store` reads and writes logs, `jitlat-output` opens tests of an archive like logs,
//! `jitlat-web` shows an archive, `jitlat-monitor` fills one.
//!
//! ```
//! use jitlat_archive::{AddOutcome, Archive};
//! # use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
//! # use jitlat_store::log::{LogWriter, LogVersion};
//! # let folder = tempfile::tempdir()?;
//! # let log = folder.path().join("a.log");
//! # let mut out = LogWriter::new(std::fs::File::create(&log)?, LogVersion::V3);
//! # out.begin(&Session::new(TestSpec::default()));
//! # (0..100).for_each(|i| out.record(&PacketRecord::one_way(i, WallTime(i * 1000), WallTime(i * 1000 + 700))));
//! # out.finish(&Session::new(TestSpec::default()));
//! # out.close().1?;
//! let archive = Archive::make(&folder.path().join("archive"))?;
//! let AddOutcome::New(id) = archive.add(&log, &[])? else { panic!("it is new") };
//! assert!(matches!(archive.add(&log, &[])?, AddOutcome::Known(known) if known == id));
//! assert_eq!(archive.reader(id, "a.log")?.count(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod add;
mod alerts;
mod batch;
mod catalogue;
mod changes;
mod check;
mod checksum;
mod collected;
mod copy;
mod course;
mod dataset;
mod entry;
mod error;
mod find;
mod incoming;
mod intake;
mod model;
mod modes;
mod named;
mod newest;
mod packed;
mod packets;
mod parts;
mod pushes;
mod rename;
mod reports;
mod rollup;
mod routes;
mod rows;
mod shared_messages;
mod shares;
pub mod show;
mod silences;
mod slots;
mod sums;
mod text;
mod tidy;
mod totals;

pub use add::AddOutcome;
pub use alerts::{
    Alert, AlertAbout, AlertMessage, AlertPath, AlertUpdate, Entered, Fired, Note, StoredChanges,
};
pub use batch::{MAX_PREPARED_BYTES, PreparedTest};
pub use catalogue::{CATALOGUE, VERSION};
pub use changes::CatalogueWatch;
pub use check::{CheckFinding, Checked};
pub use checksum::{LogName, UnfitName, checksum};
pub use collected::{CollectedEnds, CollectedHost};
pub use copy::{BackedUp, CATALOGUE_COPY, Restored};
pub use course::{StreamPeriod, Verdicts};
pub use dataset::{AnalysedGroups, analyse};
pub use error::ArchiveError;
pub use find::{Endpoints, Filter, ListedTest, When};
pub use incoming::{Arrived, IncomingLog, MAX_LOG_BYTES, Unfit};
pub use named::{log_reader, log_text};
pub use newest::{ArchiveExtent, BadSince, Newest, TestFigures};
pub use packets::VERSION as PACKETS_VERSION;
pub use packets::{COLUMNS, PacketColumn, Width};
pub use parts::{Assembly, TestHeader};
pub use pushes::{MAX_UNSETTLED, Outgoing, PushResult, Pushed};
pub use rename::Renamed;
pub use reports::ReportedSlot;
pub use rollup::{PeriodValue, PoolPeriod, PooledStream, utc};
pub use routes::{ExaminedRoute, Route};
pub use rows::StoredPackets;
pub use shared_messages::{MAX_SHARED_PATHS, SharedMessage};
pub use show::GroupKey;
pub use silences::Silence;
pub use slots::SlotFilter;
pub use tidy::{Compacted, Pruned, Retention};
pub use totals::{ArchiveTotals, NO_LOSS, StreamTotal, share_bucket};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use catalogue::For;
use rusqlite::Connection;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Number of SQLite steps between two checks of the stop flag. These steps take about ten microseconds.
const STEPS_PER_STOP_CHECK: i32 = 1000;

/// Number of a test: 63 bits of its log's checksum, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TestId(pub i64);

impl fmt::Display for TestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// An archive that is open for reading or writing.
#[derive(Debug)]
pub struct Archive {
    root: PathBuf,
    db: Connection,
    /// Set to true by the caller when the result of a query is no longer needed.
    stop: Option<Arc<AtomicBool>>,
}

/// The write lock, held until this value is dropped.
pub(crate) struct Writing {
    _lock: File,
}

impl Archive {
    /// Opens the archive in the folder `root` for reading.
    ///
    /// # Errors
    /// [`ArchiveError`], for example if there is no archive, or if it has another version.
    pub fn open(root: &Path) -> Result<Archive, ArchiveError> {
        Ok(Archive { root: root.to_owned(), db: opened(root, For::Reading)?, stop: None })
    }

    /// Opens the archive in the folder `root` for writing.
    ///
    /// # Errors
    /// Same as [`Archive::open`].
    pub fn open_to_write(root: &Path) -> Result<Archive, ArchiveError> {
        Ok(Archive { root: root.to_owned(), db: opened(root, For::Writing)?, stop: None })
    }

    /// Opens the archive in the folder `root` for writing; creates it if it does not exist.
    ///
    /// # Errors
    /// Same as [`Archive::open`]; or the folder cannot be created.
    pub fn make(root: &Path) -> Result<Archive, ArchiveError> {
        for folder in ["packets", "tmp"].map(|name| root.join(name)) {
            modes::make_folder(&folder).map_err(ArchiveError::io("creating", &folder))?;
        }
        let _writing = lock(root)?;
        // SQLite would create it with other permissions; its other files have those of the catalogue. An existing one is not
        // opened, because closing it would release the locks that SQLite holds on it for other connections of this process.
        // Another program would then find no other user of the catalogue, and could remove the write-ahead log.
        let catalogue = root.join(CATALOGUE);
        match modes::new_file().create_new(true).open(&catalogue) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(ArchiveError::io("creating", &catalogue)(e));
            }
            _ => {}
        }
        Ok(Archive { root: root.to_owned(), db: catalogue::open(root, For::Making)?, stop: None })
    }

    /// Migrates the archive in the folder `root` to the latest version. Returns the previous version.
    ///
    /// # Errors
    /// Same as [`Archive::open`].
    pub fn migrate(root: &Path) -> Result<i64, ArchiveError> {
        let before = Connection::open(root.join(CATALOGUE))
            .and_then(|db| db.query_row("PRAGMA user_version", [], |r| r.get(0)));
        if !is_archive(root) {
            return Err(ArchiveError::NotAnArchive(root.to_owned()));
        }
        let _writing = lock(root)?;
        let doing = "reading";
        let before =
            before.map_err(|source| ArchiveError::Catalogue { doing, archive: root.to_owned(), source })?;
        catalogue::open(root, For::Migrating)?;
        Ok(before)
    }

    /// Makes queries fail soon after `stop` is set to true. With `None`, queries are never stopped.
    pub fn stop_with(&mut self, stop: Option<Arc<AtomicBool>>) {
        let asked = stop.clone();
        let handler = asked.map(|asked| move || asked.load(Ordering::Relaxed));
        // If the handler cannot be set, queries just cannot be stopped.
        let _ = self.db.progress_handler(STEPS_PER_STOP_CHECK, handler);
        self.stop = stop;
    }

    /// Returns true if the flag given to [`Archive::stop_with`] is set, so that queries fail.
    pub fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Returns the folder of the archive.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Converts an error of the catalogue.
    fn sql(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> ArchiveError + '_ {
        move |source| match source {
            rusqlite::Error::SqliteFailure(e, _) if e.code == rusqlite::ErrorCode::DatabaseBusy => {
                ArchiveError::Busy { archive: self.root.clone(), waited: catalogue::LOCK_TIMEOUT }
            }
            rusqlite::Error::SqliteFailure(e, _) if e.code == rusqlite::ErrorCode::DiskFull => {
                ArchiveError::Io {
                    doing: "writing",
                    path: self.root.join(CATALOGUE),
                    source: std::io::Error::new(std::io::ErrorKind::StorageFull, "the disk is full"),
                }
            }
            source => ArchiveError::Catalogue { doing, archive: self.root.clone(), source },
        }
    }

    fn lock(&self) -> Result<Writing, ArchiveError> {
        lock(&self.root)
    }
}

/// Returns true if there is an archive in the folder `root`.
pub fn is_archive(root: &Path) -> bool {
    root.join(CATALOGUE).is_file()
}

/// Opens the catalogue. Waits if another process is creating it.
fn opened(root: &Path, purpose: For) -> Result<Connection, ArchiveError> {
    match catalogue::open(root, purpose) {
        // The file exists but is empty: the process that creates it holds the lock until it is complete.
        Err(ArchiveError::TooOld { found: 0, .. }) => {
            drop(lock(root)?);
            catalogue::open(root, purpose)
        }
        known => known,
    }
}

/// Waits for the write lock.
fn lock(root: &Path) -> Result<Writing, ArchiveError> {
    // File locks have no timeout, so the lock is polled.
    const STEP: Duration = Duration::from_millis(20);
    let path = root.join("lock");
    let opened = modes::new_file().truncate(false).open(&path);
    let lock = opened.map_err(ArchiveError::io("opening", &path))?;
    let begun = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Writing { _lock: lock }),
            Err(fs::TryLockError::WouldBlock) if begun.elapsed() < catalogue::LOCK_TIMEOUT => {
                std::thread::sleep(STEP);
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(ArchiveError::Busy { archive: root.to_owned(), waited: catalogue::LOCK_TIMEOUT });
            }
            Err(fs::TryLockError::Error(e)) => return Err(ArchiveError::io("locking", &path)(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_archive_that_another_is_just_making_is_opened_when_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let making = lock(path).unwrap();
        File::create(path.join(CATALOGUE)).unwrap();
        std::thread::scope(|scope| {
            let opening =
                [Archive::open as fn(&Path) -> Result<Archive, ArchiveError>, Archive::open_to_write]
                    .map(|open| scope.spawn(move || open(path).map(drop)));
            catalogue::open(path, For::Making).unwrap();
            drop(making);
            for opened in opening {
                opened.join().unwrap().unwrap();
            }
        });
    }
    /// Locks of POSIX belong to the process, and closing any descriptor of a file releases them.
    #[test]
    fn the_lock_of_an_open_archive_outlives_others_of_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let open = Archive::make(path).unwrap();
        open.extent().unwrap();
        let inode = path.join(CATALOGUE).metadata().unwrap().ino().to_string();
        let is_locked = || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| line.split([' ', ':']).any(|word| word == inode))
        };
        assert!(is_locked());
        drop(Archive::make(path).unwrap());
        drop(Archive::open(path).unwrap());
        assert!(is_locked());
    }
}
