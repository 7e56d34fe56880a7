//! [`ArchiveError`]: why an archive cannot do what was asked of it.

use jitlat_store::log::LogReadError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why an archive cannot do what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// There is none.
    #[error("{} is not an archive: it has no {}; `jitlat archive add` makes one", .0.display(), crate::CATALOGUE)]
    NotAnArchive(PathBuf),
    /// It was written by a newer program.
    #[error("the archive {} has schema version {found}, and this program knows versions up to {known}: take a newer jitlat", .archive.display())]
    TooNew {
        /// The archive.
        archive: PathBuf,
        /// Its version.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// It was written by an older program, and is open for reading only.
    #[error("the archive {} has schema version {found}: `jitlat archive migrate` brings it to {known}", .archive.display())]
    TooOld {
        /// The archive.
        archive: PathBuf,
        /// Its version.
        found: i64,
        /// The version needed.
        known: i64,
    },
    /// Another writer is at work.
    #[error("another program has been writing to the archive {} for {} s: try again, or wait for it", .archive.display(), .waited.as_secs())]
    Busy {
        /// The archive.
        archive: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The file system failed.
    #[error("{doing} {}: {}", .path.display(), describe(.source))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The catalogue failed.
    #[error("{doing} the catalogue of {}: {source}", .archive.display())]
    Catalogue {
        /// What was being done.
        doing: &'static str,
        /// The archive.
        archive: PathBuf,
        /// The database's error.
        source: rusqlite::Error,
    },
    /// A file of packets is not as it was written, or cannot be one.
    #[error("the file of packets {} is damaged: {problem}", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A row of the catalogue cannot be one.
    #[error("the catalogue is damaged: {0}")]
    Impossible(String),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogReadError),
    /// A log is no file, or has more in it than an archive takes.
    #[error("cannot take {}: {problem}", .path.display())]
    Unsuitable {
        /// The log.
        path: PathBuf,
        /// Why.
        problem: &'static str,
    },
    /// There is no such test.
    #[error("the archive {} has no test {id}", .archive.display())]
    NoSuchTest {
        /// The archive.
        archive: PathBuf,
        /// What was asked for.
        id: String,
    },
    /// Several tests begin with these digits.
    #[error("{id} is the beginning of {count} tests: give more digits")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many.
        count: usize,
    },
    /// The packets of a test were pruned.
    #[error("the packets of test {0} were pruned: its figures are what is left (`jitlat archive ls`)")]
    Pruned(crate::TestId),
    /// Something asked for is not understood.
    #[error("{0}")]
    Usage(String),
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{error}: nothing of this test was kept; make room and add it again")
        }
        _ => error.to_string(),
    }
}

impl ArchiveError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
        move |source| ArchiveError::Io { doing, path: path.to_owned(), source }
    }

    pub(crate) fn damaged(file: &Path) -> impl Fn(String) -> ArchiveError {
        move |problem| ArchiveError::Damaged { file: file.to_owned(), problem }
    }
}
