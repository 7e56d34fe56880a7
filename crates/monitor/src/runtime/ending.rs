//! [`EndingThread`]: a thread that is abandoned if it does not end soon after a request. It may be waiting for the lookup of a name,
//! which cannot be interrupted.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, warn};

/// Maximum time that the end of the monitor waits for a thread.
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

    /// Waits for the end of the thread, which was requested before. After [`LIMIT`] the thread is abandoned; unfinished work is then
    /// repaired as after a crash.
    pub fn end(self) {
        match self.ended.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                warn!("the thread {} did not end in time and was abandoned", self.name);
            }
            _ if self.thread.join().is_err() => {
                error!("the thread {} failed (a bug in jitlat)", self.name);
            }
            _ => {}
        }
    }
}
