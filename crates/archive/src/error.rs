//! [`ArchiveError`]: errors of an archive.

use jitlat_store::log::LogReadError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Errors of an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The folder does not contain an archive.
    #[error("{} is not an archive (it has no {}): check the path, or create one with `jitlat archive add`", .0.display(), crate::CATALOGUE)]
    NotAnArchive(PathBuf),
    /// The archive was written by a newer program.
    #[error("the archive {} has schema version {found}, but this program supports versions up to {known}: use a newer jitlat", .archive.display())]
    TooNew {
        /// Folder of the archive.
        archive: PathBuf,
        /// Schema version of the archive.
        found: i64,
        /// Latest version that this program supports.
        known: i64,
    },
    /// The archive was written by an older program and is open for reading only.
    #[error("the archive {} has schema version {found}: run `jitlat archive migrate` to convert it to version {known}", .archive.display())]
    TooOld {
        /// Folder of the archive.
        archive: PathBuf,
        /// Schema version of the archive.
        found: i64,
        /// Version that this program requires.
        known: i64,
    },
    /// Another writer holds the lock.
    #[error("the archive {} was still locked by another program after {} s: try again later", .archive.display(), .waited.as_secs())]
    Busy {
        /// Folder of the archive.
        archive: PathBuf,
        /// Time for which the program waited for the lock.
        waited: Duration,
    },
    /// A file operation failed.
    #[error("{doing} {}: {source}", .path.display())]
    Io {
        /// Operation that failed.
        doing: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The disk is full.
    #[error("{source}: {kept}; free some space and try again")]
    Full {
        /// Statement about the data of the operation, such as that nothing was lost.
        kept: &'static str,
        /// The failed operation.
        source: Box<ArchiveError>,
    },
    /// An operation on the catalogue failed.
    #[error("{doing} the catalogue of {}: {source}{}", .archive.display(), remedy(.source))]
    Catalogue {
        /// Operation that failed.
        doing: &'static str,
        /// Folder of the archive.
        archive: PathBuf,
        /// Error of the database.
        source: rusqlite::Error,
    },
    /// A packet file was changed since it was written, or was not written by jitlat.
    #[error("the packet file {} is damaged: {problem}", .file.display())]
    Damaged {
        /// Path of the packet file.
        file: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// A row of the catalogue contains impossible values.
    #[error("the catalogue is damaged: {0}")]
    Impossible(String),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogReadError),
    /// The log is not a regular file, or is larger than an archive accepts.
    #[error("cannot add {}: {problem}", .path.display())]
    Unsuitable {
        /// Path of the log.
        path: PathBuf,
        /// Reason why the log cannot be added.
        problem: &'static str,
    },
    /// The archive does not contain this test.
    #[error("the archive {} has no test {id}", .archive.display())]
    NoSuchTest {
        /// Folder of the archive.
        archive: PathBuf,
        /// Identifier as given by the user.
        id: String,
    },
    /// The identifier is ambiguous: the numbers of several tests begin with it.
    #[error("{count} tests begin with {id}: give more digits")]
    Ambiguous {
        /// Identifier as given by the user.
        id: String,
        /// Number of matching tests.
        count: usize,
    },
    /// The packets of a test were pruned.
    #[error("the packets of test {0} were pruned; its figures remain (`jitlat archive ls`)")]
    Pruned(crate::TestId),
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
}

/// Returns what to do if a database is damaged.
fn remedy(error: &rusqlite::Error) -> &'static str {
    if is_damage(error) { ": jitlat archive restore rebuilds it" } else { "" }
}

/// True if the error shows that the database is damaged; false for other errors, such as a failure to read it.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error {
        rusqlite::Error::SqliteFailure(e, _) => matches!(e.code, DatabaseCorrupt | NotADatabase),
        // A value has a type that its column never contains, or the schema cannot be read.
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..) => true,
        _ => false,
    }
}

impl ArchiveError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
        move |source| ArchiveError::Io { doing, path: path.to_owned(), source }
    }

    /// True if the disk is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            ArchiveError::Full { .. } => true,
            ArchiveError::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }

    /// If the disk is full, adds a statement about the data of the operation.
    pub(crate) fn kept(self, kept: &'static str) -> ArchiveError {
        match self {
            full @ ArchiveError::Io { .. } if full.is_full() => {
                ArchiveError::Full { kept, source: Box::new(full) }
            }
            e => e,
        }
    }

    pub(crate) fn damaged(file: &Path) -> impl Fn(String) -> ArchiveError {
        move |problem| ArchiveError::Damaged { file: file.to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_what_was_kept_and_only_then() {
        let full = || ArchiveError::io("writing", Path::new("a"))(io::ErrorKind::StorageFull.into());
        let said = full().kept("nothing was lost").to_string();
        assert_eq!(said, "writing a: no storage space: nothing was lost; free some space and try again");
        assert!(full().kept("nothing was lost").is_full());
        let other = ArchiveError::io("writing", Path::new("a"))(io::ErrorKind::NotFound.into());
        assert_eq!(other.kept("nothing was lost").to_string(), "writing a: entity not found");
    }
}
