//! Waiting for descriptors.

use jitlat_core::Span;
use nix::errno::Errno;
use nix::poll::ppoll;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

pub use nix::poll::{PollFd, PollFlags};

/// Waits until one of `fds` is ready, for at most `timeout`; `None`: without a limit. Returns the number of ready
/// descriptors: 0 after `timeout`, or if a signal arrived.
///
/// # Errors
/// Errors of the operating system.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Span>) -> io::Result<usize> {
    let timeout = timeout.map(|span| TimeSpec::from(Duration::from_nanos(span.0.max(0).unsigned_abs())));
    match ppoll(fds, timeout, None) {
        Ok(count) => Ok(count as usize),
        Err(Errno::EINTR) => Ok(0),
        Err(e) => Err(e.into()),
    }
}

/// An event that ends every wait for it from the time it is set until it is cleared.
#[derive(Debug)]
pub(crate) struct Event(EventFd);

impl Event {
    /// Creates an event that is not set.
    pub(crate) fn new() -> io::Result<Event> {
        Ok(Event(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    /// Sets the event. Never blocks.
    pub(crate) fn set(&self) {
        let _ = self.0.write(1);
    }

    /// Clears the event. Returns true if it was set.
    pub(crate) fn clear(&self) -> bool {
        self.0.read().is_ok()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Maximum number of ready descriptors reported per call.
const MAX_READY: usize = 32;

/// Descriptors, each with a number, any of which can be waited for together.
pub(crate) struct ReadySet {
    epoll: Epoll,
    ready: [EpollEvent; MAX_READY],
}

impl ReadySet {
    /// Creates an empty set.
    pub(crate) fn new() -> io::Result<ReadySet> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(ReadySet { epoll, ready: [EpollEvent::empty(); MAX_READY] })
    }

    /// Adds `descriptor`, which is reported as `id` whenever it can be read, until it is closed.
    pub(crate) fn add(&self, descriptor: &impl AsFd, id: u64) -> io::Result<()> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, id))?)
    }

    /// Removes `descriptor`.
    pub(crate) fn remove(&self, descriptor: &impl AsFd) {
        let _ = self.epoll.delete(descriptor);
    }

    /// Waits for a descriptor, at most `milliseconds`; returns the numbers of those that are ready.
    pub(crate) fn wait(
        &mut self,
        milliseconds: u16,
    ) -> io::Result<impl Iterator<Item = u64> + Clone + use<>> {
        let count = match self.epoll.wait(&mut self.ready, EpollTimeout::from(milliseconds)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        Ok(self.ready.into_iter().take(count).map(id_of))
    }
}

fn id_of(event: EpollEvent) -> u64 {
    event.data()
}
