//! [`CatalogueWatch`]: detects writes to an archive, by this process or by another one.

use crate::catalogue::CATALOGUE;
use crate::error::ArchiveError;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

/// Detects writes to the catalogue of an archive. Its descriptor becomes readable after a write, so a thread can wait
/// for it.
#[derive(Debug)]
pub struct CatalogueWatch {
    inotify: Inotify,
}

impl CatalogueWatch {
    /// Starts watching the archives in the folders `roots`.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if a folder does not exist, or the system's limit of watches is reached. In the
    /// latter case, poll instead.
    pub fn watch<P: AsRef<Path>>(roots: &[P]) -> Result<CatalogueWatch, ArchiveError> {
        let first = roots.first().map_or(Path::new(""), AsRef::as_ref);
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK);
        let inotify = inotify.map_err(|e| ArchiveError::io("watching", first)(e.into()))?;
        for root in roots.iter().map(AsRef::as_ref) {
            // Watch the folder rather than the files, because SQLite sometimes creates a new write-ahead log.
            let watched = inotify.add_watch(root, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ONLYDIR);
            watched.map_err(|e| ArchiveError::io("watching", root)(e.into()))?;
        }
        Ok(CatalogueWatch { inotify })
    }

    /// Returns true if the catalogue was written since the last call, and resets the descriptor. Returns false if only
    /// other files in the folder were written.
    pub fn take(&self) -> bool {
        let mut changed = false;
        while let Ok(events) = self.inotify.read_events() {
            changed |= events.iter().any(concerns_catalogue);
        }
        changed
    }
}

/// True if the event reports a write to the catalogue or its write-ahead log, or a loss of events.
fn concerns_catalogue(event: &InotifyEvent) -> bool {
    let rest = |name: &std::ffi::OsString| {
        name.to_str().and_then(|name| name.strip_prefix(CATALOGUE).map(str::to_owned))
    };
    event.name.as_ref().is_none_or(|name| matches!(rest(name).as_deref(), Some("" | "-wal")))
}

impl AsFd for CatalogueWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl AsRawFd for CatalogueWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Archive;

    #[test]
    fn writes_are_noticed_and_reads_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::make(folder.path()).unwrap();
        let changes = CatalogueWatch::watch(&[folder.path()]).unwrap();
        assert!(!changes.take());
        assert_eq!(Archive::open(folder.path()).unwrap().extent().unwrap().tests, 0);
        archive.keep_pushes(&[]).unwrap();
        assert!(!changes.take(), "nothing was written");
        archive.begin_push("elsewhere", 1 << 20).unwrap();
        assert!(changes.take());
        assert!(!changes.take(), "it was noticed");
        assert!(CatalogueWatch::watch(&[folder.path().join("nowhere")]).is_err());
    }
}
