//! [`EndingThread`]: a thread that must end soon after it was requested to, and is left behind if it does not: it may wait for the
//! lookup of a name, which cannot be interrupted.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, warn};

/// Time that a thread has to end at the end of the monitor.
const LIMIT: Duration = Duration::from_millis(700);

/// A thread with a limited wait for its end.
pub struct EndingThread {
    name: &'static str,
    thread: JoinHandle<()>,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
}

impl EndingThread {
    /// Starts a thread with this name.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> io::Result<EndingThread> {
        let (running, ended) = mpsc::channel::<()>();
        let run = move || {
            let _running = running;
            run();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(EndingThread { name, thread, ended })
    }

    /// True if the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the thread, which was requested. After a short time the thread is left behind; what it has not finished
    /// is repaired like after a crash.
    pub fn end(self) {
        match self.ended.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => warn!("{} did not end in time and was left behind", self.name),
            _ if self.thread.join().is_err() => {
                error!("the thread {} failed (a bug in jitlat)", self.name);
            }
            _ => {}
        }
    }
}
