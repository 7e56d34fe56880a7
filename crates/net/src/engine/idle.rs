//! What a flow's thread waits for between commands.

use super::{Context, Step};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::TryRecvError;

/// The longest a thread waits without looking around.
pub const LOOK_AROUND: u16 = 50;

/// What ended a wait.
pub enum Woken {
    /// Word from the conversing thread.
    Told(Step),
    /// The descriptor is ready, or nothing has happened for a while: look at it.
    Look,
    /// The flow is closed, or stopped before it began.
    Over,
}

impl Context {
    /// Waits for word from the conversing thread, for `ready`, or for at most `patience` milliseconds.
    pub fn wait(&self, ready: Option<BorrowedFd<'_>>, patience: u16) -> Woken {
        if let Some(woken) = self.word() {
            return woken;
        }
        let waker = &self.stop_flags.waker;
        let mut fds = vec![PollFd::new(std::os::fd::AsFd::as_fd(waker), PollFlags::POLLIN)];
        fds.extend(ready.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let _ = poll(&mut fds, PollTimeout::from(patience.min(LOOK_AROUND)));
        waker.clear();
        self.word().unwrap_or(Woken::Look)
    }

    fn word(&self) -> Option<Woken> {
        if self.stop_flags.is_closed() {
            return Some(Woken::Over);
        }
        match self.mailbox.try_recv() {
            Ok(step) => Some(Woken::Told(step)),
            Err(TryRecvError::Disconnected) => Some(Woken::Over),
            Err(TryRecvError::Empty) => self.stop_flags.is_stopped().then_some(Woken::Over),
        }
    }
}
