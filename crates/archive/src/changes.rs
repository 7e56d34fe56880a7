//! [`CatalogueWatch`]: detects writes to an archive, by this process or by another one.

use crate::catalogue::CATALOGUE;
use crate::error::ArchiveError;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Times after a write at which the catalogue is to be read again. The system reports a write to the write-ahead log before the transaction
/// is complete, which takes as long as the disk does.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Detects writes to the catalogue of an archive. Its descriptor becomes readable after a write, and twice more within about a second, so
/// a thread can wait for it.
#[derive(Debug)]
pub struct CatalogueWatch {
    inotify: Inotify,
    again: TimerFd,
    /// Index of the next time in [`AGAIN`].
    next: AtomicUsize,
    either: Epoll,
}

impl CatalogueWatch {
    /// Starts watching the archives in the folders `roots`.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] if a folder does not exist, or the system's limit of watches is reached. In the
    /// latter case, poll instead.
    pub fn watch<P: AsRef<Path>>(roots: &[P]) -> Result<CatalogueWatch, ArchiveError> {
        let first = roots.first().map_or(Path::new(""), AsRef::as_ref);
        let failed = |e: nix::Error| ArchiveError::io("watching", first)(e.into());
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(failed)?;
        for root in roots.iter().map(AsRef::as_ref) {
            // Watch the folder rather than the files, because SQLite sometimes creates a new write-ahead log.
            let watched = inotify.add_watch(root, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ONLYDIR);
            watched.map_err(|e| ArchiveError::io("watching", root)(e.into()))?;
        }
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let again = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?;
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        for fd in [inotify.as_fd(), again.as_fd()] {
            either.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(failed)?;
        }
        Ok(CatalogueWatch { inotify, again, next: AtomicUsize::new(0), either })
    }

    /// Returns true if the catalogue was written since the last call, or shortly before it, and resets the descriptor. Returns false if
    /// only other files in the folder were written.
    pub fn take(&self) -> bool {
        let mut changed = false;
        while let Ok(events) = self.inotify.read_events() {
            changed |= events.iter().any(concerns_catalogue);
        }
        let mut buffer = [0; 8];
        let is_due = matches!(nix::unistd::read(&self.again, &mut buffer), Ok(8));
        if changed {
            self.next.store(0, Ordering::Relaxed);
        }
        if changed || is_due {
            let next = self.next.load(Ordering::Relaxed);
            if let Some(after) = AGAIN.get(next) {
                let at = Expiration::OneShot(TimeSpec::from(*after));
                // Without a timer, the catalogue is read again after the next write.
                let _ = self.again.set(at, TimerSetTimeFlags::empty());
                self.next.store(next + 1, Ordering::Relaxed);
            }
        }
        changed || is_due
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
        self.either.0.as_fd()
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
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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
        // The event may come before the transaction is visible.
        for _ in AGAIN {
            let mut waited = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut waited, PollTimeout::from(60_000u16)).unwrap(), 1);
            assert!(changes.take());
        }
        assert!(!changes.take(), "no more than that");
        assert!(CatalogueWatch::watch(&[folder.path().join("nowhere")]).is_err());
    }
}
