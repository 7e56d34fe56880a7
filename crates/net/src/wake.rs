//! Waiting for descriptors: a [`Waker`] ends another thread's wait, a [`StopSignal`] ends the waits of all
//! threads that share it, and [`wait`] waits.

use crate::clock::steady;
use crate::sys::{Event, PollFd, PollFlags, poll};
use jitlat_core::SteadyTime;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(windows)]
pub use crate::sys::on_interrupt;
pub use crate::sys::{AsFd, BorrowedFd, Keyboard, OwnedFd, stderr_is_ready};

/// Wakes a thread that polls it. Clones wake the same thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Event>);

impl Waker {
    /// Creates a waker.
    ///
    /// # Errors
    /// The process has no free descriptors.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(Event::new()?)))
    }

    /// Ends the current wait, or the next one. Never blocks.
    pub fn wake(&self) {
        self.0.set();
    }

    /// Resets the waker, so that the next wait blocks again; returns true if the waker was used. The woken
    /// thread must call this before it checks the reason.
    pub fn clear(&self) -> bool {
        self.0.clear()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A request to stop, made once and never withdrawn. Its descriptor is readable after the request, so that
/// any number of threads can wait for it. Clones share the request.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<StopState>);

#[derive(Debug)]
struct StopState {
    requested: AtomicBool,
    /// Woken by the request, and never cleared.
    waker: Waker,
}

impl StopSignal {
    /// Creates a signal whose stop has not been requested.
    ///
    /// # Errors
    /// The process has no free descriptors.
    pub fn new() -> io::Result<StopSignal> {
        Ok(StopSignal(Arc::new(StopState { requested: AtomicBool::new(false), waker: Waker::new()? })))
    }

    /// Requests the stop, and ends all waits for it.
    pub fn request(&self) {
        self.0.requested.store(true, Ordering::Release);
        self.0.waker.wake();
    }

    /// True if the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }
}

impl AsFd for StopSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.waker.as_fd()
    }
}

/// Waits until one of `readable` can be read or has failed, or until `deadline` on the steady clock; without
/// a deadline, the time is not limited. A signal ends the wait early.
pub fn wait(readable: &[BorrowedFd<'_>], deadline: Option<SteadyTime>) {
    let mut fds: Vec<PollFd<'_>> = readable.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    wait_ready(&mut fds, deadline);
}

/// Like [`wait`], for any events of the descriptors. Callers do not rely on the reason for waking, but check everything
/// that they wait for.
pub(crate) fn wait_ready(fds: &mut [PollFd<'_>], deadline: Option<SteadyTime>) {
    let _ = poll(fds, deadline.map(|deadline| deadline - steady()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::Span;

    #[test]
    fn a_stop_ends_every_wait_and_all_later_ones() {
        let stop = StopSignal::new().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| wait(&[stop.as_fd()], None));
            }
            stop.request();
        });
        wait(&[stop.as_fd()], None);
        assert!(stop.is_requested());
    }

    #[test]
    fn a_waker_ends_one_wait_and_a_deadline_the_next() {
        let waker = Waker::new().unwrap();
        waker.wake();
        wait(&[waker.as_fd()], None);
        waker.clear();
        let deadline = steady() + Span::millis(20);
        wait(&[waker.as_fd()], Some(deadline));
        assert!(steady() >= deadline);
    }
}
