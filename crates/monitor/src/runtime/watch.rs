//! [`ArchiveWatch`]: waits for writes to the archive.

use jitlat_archive::CatalogueWatch;
use jitlat_core::{Span, SteadyTime};
use jitlat_net::clock;
use jitlat_net::wake::{self, StopSignal, Waker};
use std::os::fd::AsFd;
use std::path::Path;

/// Minimum time between the ends of two waits, so that a busy archive does not cause constant work.
const MIN_INTERVAL: Span = Span::seconds(1);
/// Longest wait if the system cannot watch the archive.
const UNWATCHED_INTERVAL: Span = Span::seconds(5);

/// Waits for writes to an archive by any process, and for a stop.
pub struct ArchiveWatch {
    /// Watch of the archive's catalogue; `None` if the system cannot watch the archive.
    changes: Option<CatalogueWatch>,
    stop: StopSignal,
    looked: SteadyTime,
}

impl ArchiveWatch {
    /// Watches the archive in the folder `root` from now on; `stop` ends all waits.
    pub fn new(root: &Path, stop: &StopSignal) -> ArchiveWatch {
        ArchiveWatch {
            changes: CatalogueWatch::watch(&[root]).ok(),
            stop: stop.clone(),
            looked: clock::steady(),
        }
    }

    /// Waits for the first of: a write to the archive since the last wait, `waker`, the stop, or `deadline` (`None`: no
    /// deadline).
    /// Returns at most once per second, unless a stop is requested.
    pub fn wait(&mut self, waker: Option<&Waker>, deadline: Option<SteadyTime>) {
        let looks = self.changes.is_none().then(|| clock::steady() + UNWATCHED_INTERVAL);
        let deadline = deadline.into_iter().chain(looks).min();
        let mut readable = vec![self.stop.as_fd()];
        readable.extend(waker.map(AsFd::as_fd));
        readable.extend(self.changes.as_ref().map(AsFd::as_fd));
        loop {
            wake::wait(&readable, deadline);
            let woken =
                waker.is_some_and(Waker::clear) | self.changes.as_ref().is_some_and(CatalogueWatch::take);
            let due = deadline.is_some_and(|deadline| clock::steady() >= deadline);
            if woken || due || self.stop.is_requested() {
                break;
            }
        }
        while !self.stop.is_requested() && clock::steady() < self.looked + MIN_INTERVAL {
            wake::wait(&[self.stop.as_fd()], Some(self.looked + MIN_INTERVAL));
        }
        self.looked = clock::steady();
    }
}
