//! Waiting for sockets.

use super::{AsFd, BorrowedFd, PollFd, PollFlags, RawDescriptor, poll, raw};
use jitlat_core::Span;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Mutex, PoisonError};

/// An event that ends every wait for it from the time it is set until it is cleared. Windows can wait only for sockets, so the event is a
/// datagram between two sockets of this process.
#[derive(Debug)]
pub(crate) struct Event {
    seen: UdpSocket,
    happens: UdpSocket,
}

impl Event {
    /// Creates an event that is not set.
    pub(crate) fn new() -> io::Result<Event> {
        let [seen, happens] =
            [UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?];
        // The sockets are connected to each other, so that no other process can set the event.
        seen.connect(happens.local_addr()?)?;
        happens.connect(seen.local_addr()?)?;
        seen.set_nonblocking(true)?;
        happens.set_nonblocking(true)?;
        Ok(Event { seen, happens })
    }

    /// Sets the event. Never blocks.
    pub(crate) fn set(&self) {
        let _ = self.happens.send(&[1]);
    }

    /// Clears the event. Returns true if it was set.
    pub(crate) fn clear(&self) -> bool {
        let mut had_happened = false;
        while self.seen.recv(&mut [0; 1]).is_ok() {
            had_happened = true;
        }
        had_happened
    }
}

#[cfg(unix)]
impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Event {
    fn as_socket(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }
}

/// Sockets, each with a number, any of which can be waited for together.
pub(crate) struct ReadySet {
    members: Mutex<Vec<(RawDescriptor, u64)>>,
}

impl ReadySet {
    /// Creates an empty set.
    pub(crate) fn new() -> io::Result<ReadySet> {
        Ok(ReadySet { members: Mutex::default() })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<(RawDescriptor, u64)>) -> T) -> T {
        change(&mut self.members.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds `descriptor`, which is reported as `id` whenever it can be read, until it is closed.
    pub(crate) fn add(&self, descriptor: &impl AsFd, id: u64) -> io::Result<()> {
        let raw = raw(descriptor.as_fd());
        self.with(|members| {
            // A closed descriptor's number may have been given to this one.
            members.retain(|(known, _)| *known != raw);
            members.push((raw, id));
        });
        Ok(())
    }

    /// Removes `descriptor`.
    pub(crate) fn remove(&self, descriptor: &impl AsFd) {
        let raw = raw(descriptor.as_fd());
        self.with(|members| members.retain(|(known, _)| *known != raw));
    }

    /// Waits for a descriptor, at most `milliseconds`; returns the numbers of those that are ready.
    pub(crate) fn wait(
        &mut self,
        milliseconds: u16,
    ) -> io::Result<impl Iterator<Item = u64> + Clone + use<>> {
        let members = self.with(|members| members.clone());
        let mut fds: Vec<PollFd<'_>> =
            members.iter().map(|(raw, _)| super::poll_fd(*raw, PollFlags::POLLIN)).collect();
        poll(&mut fds, Some(Span::millis(milliseconds.into())))?;
        let (mut ready, mut closed) = (Vec::new(), Vec::new());
        for (fd, (raw, id)) in fds.iter().zip(&members) {
            let events = fd.revents().unwrap_or(PollFlags::empty());
            if events.contains(PollFlags::POLLNVAL) {
                closed.push(*raw);
            } else if !events.is_empty() {
                ready.push(*id);
            }
        }
        self.with(|members| members.retain(|(raw, _)| !closed.contains(raw)));
        Ok(ready.into_iter())
    }
}
