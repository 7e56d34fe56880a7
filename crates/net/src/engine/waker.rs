//! [`Waker`]: ends another thread's wait for descriptors.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Wakes a thread that polls it. Clones wake the same.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// One that has not been used.
    pub fn new() -> nix::Result<Waker> {
        EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).map(|fd| Waker(Arc::new(fd)))
    }

    /// Ends the wait, or the next one. Never waits itself.
    pub fn wake(&self) {
        let _ = self.0.write(1);
    }

    /// Lets the next wait last again: called by the thread that was woken.
    pub fn clear(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
