//! [`Waker`]: ends another thread's wait for descriptors.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Wakes a thread that polls it. Clones wake the same thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<EventFd>);

impl Waker {
    /// A waker that has not been used.
    pub fn new() -> nix::Result<Waker> {
        EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map(|fd| Waker(Arc::new(fd)))
    }

    /// Ends the current wait, or the next one. Never blocks.
    pub fn wake(&self) {
        let _ = self.0.write(1);
    }

    /// Resets it, so that the next wait lasts again: called by the woken thread.
    pub fn clear(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
