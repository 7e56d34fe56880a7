//! Waits of a flow's thread between instructions.

use super::context::{Context, Instruction};
use crate::sys::{self, AsFd, BorrowedFd, PollFd, PollFlags, poll};
use jitlat_core::Span;
use std::sync::mpsc::TryRecvError;

/// Maximum wait before the thread checks its state, in milliseconds.
pub(crate) const MAX_WAIT_MS: u16 = 50;

/// Reason for the end of a wait.
pub(crate) enum WakeReason {
    /// The control thread sent an instruction.
    Instructed(Instruction),
    /// The descriptor is ready or the wait timed out; the thread should check it.
    Look,
    /// The flow is closed, or was stopped before it started.
    Over,
}

impl Context {
    /// Waits for an instruction from the control thread, for `ready`, or for at most `timeout` milliseconds.
    pub fn wait(&self, ready: Option<BorrowedFd<'_>>, timeout: u16) -> WakeReason {
        if let Some(woken) = self.instruction() {
            return woken;
        }
        #[cfg(test)]
        self.counters.waits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let waker = &self.stop_flags.waker;
        let mut fds = vec![PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        fds.extend(ready.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let _ = poll(&mut fds, Some(Span::millis(timeout.min(MAX_WAIT_MS).into())));
        waker.clear();
        let errors = fds.get(1).and_then(PollFd::revents).is_some_and(|r| r.contains(PollFlags::POLLERR));
        // Transmit stamps of greetings.
        if let Some(fd) = ready.filter(|_| errors) {
            sys::discard_error_queue(fd);
        }
        self.instruction().unwrap_or(WakeReason::Look)
    }

    fn instruction(&self) -> Option<WakeReason> {
        if self.stop_flags.is_closed() {
            return Some(WakeReason::Over);
        }
        match self.mailbox.try_recv() {
            Ok(step) => Some(WakeReason::Instructed(step)),
            Err(TryRecvError::Disconnected) => Some(WakeReason::Over),
            Err(TryRecvError::Empty) => self.stop_flags.is_stopped().then_some(WakeReason::Over),
        }
    }
}
