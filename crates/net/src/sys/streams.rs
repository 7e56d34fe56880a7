//! Standard streams of Unix.

use super::{PollFd, PollFlags, poll};
use jitlat_core::Span;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

/// True if standard error accepts a line without blocking.
pub fn stderr_is_ready() -> bool {
    let error = io::stderr();
    let mut ready = [PollFd::new(error.as_fd(), PollFlags::POLLOUT)];
    poll(&mut ready, Some(Span::ZERO)).is_ok_and(|n| n > 0)
        && ready[0].revents().is_some_and(|r| r.contains(PollFlags::POLLOUT))
}

/// The source of keys: standard input or the controlling terminal.
#[derive(Debug)]
pub struct Keyboard(OwnedFd);

impl Keyboard {
    /// Opens the source of keys.
    ///
    /// # Errors
    /// There is none.
    pub fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        Ok(Keyboard(if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned()?
        } else {
            File::open("/dev/tty").map(OwnedFd::from)?
        }))
    }

    /// Waits until there is input, or until `limit` has passed.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn wait(&self, limit: Span) -> io::Result<()> {
        let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut waiting, Some(limit))?;
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if waiting[0].revents().is_some_and(|events| events.intersects(gone)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}
