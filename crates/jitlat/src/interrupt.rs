//! Ctrl-C: the first signal ends the test early and saves everything received so far; a second signal before
//! the program reacts to the first ends the process.

use anyhow::{Context, Result};
use jitlat_instruments::Stop;
use jitlat_net::wake;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates a [`Stop`] that SIGINT, SIGTERM and SIGHUP request. If the program has not reacted to an earlier request,
/// these signals end the process with status 2.
pub fn stop() -> Result<Stop> {
    stop_at(&[SIGINT, SIGTERM, SIGHUP])
}

fn stop_at(signals: &[i32]) -> Result<Stop> {
    let stop = Stop::new();
    for signal in signals.iter().copied() {
        flag::register_conditional_shutdown(signal, 2, stop.flag().clone())
            .and_then(|_| flag::register(signal, stop.flag().clone()))
            .with_context(|| format!("installing a handler of signal {signal}, which ends the test early"))?;
    }
    Ok(stop)
}

/// Ignores SIGINT, SIGTERM and SIGHUP, in a process that ends with another one.
pub fn ignore() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::default()).context("ignoring signals")?;
    }
    Ok(())
}

/// Signals to a command that runs until it is stopped. The file descriptor becomes readable after each signal,
/// so that signals end waits.
#[derive(Debug)]
pub struct Signals {
    stop: Stop,
    reload: Arc<AtomicBool>,
    received: UnixStream,
}

impl Signals {
    /// Handles SIGINT, SIGTERM and SIGHUP as requests to stop, like [`stop`].
    pub fn to_stop() -> Result<Signals> {
        Signals::new(stop()?, Arc::default())
    }

    /// Handles SIGINT and SIGTERM as requests to stop, and SIGHUP as a request to read files again.
    pub fn to_stop_or_reload() -> Result<Signals> {
        let reload = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, reload.clone())
            .context("installing the SIGHUP handler, which reads the monitor's file again")?;
        Signals::new(stop_at(&[SIGINT, SIGTERM])?, reload)
    }

    /// Registers handlers by which SIGINT, SIGTERM and SIGHUP wake the waiting thread. The handlers that set the flags
    /// are registered earlier, so the flags are set first.
    fn new(stop: Stop, reload: Arc<AtomicBool>) -> Result<Signals> {
        let connect = || {
            let (received, sent) = UnixStream::pair()?;
            received.set_nonblocking(true)?;
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                pipe::register(signal, sent.try_clone()?)?;
            }
            Ok::<_, std::io::Error>(received)
        };
        Ok(Signals { stop, reload, received: connect().context("preparing to wait for signals")? })
    }

    /// Waits until a stop is requested, and calls `reload` for each request to read files again.
    pub fn wait_for_stop(&self, reload: impl Fn()) {
        while !self.stop.is_requested() {
            wake::wait(&[self.as_fd()], None);
            self.read_all();
            if self.reload() {
                reload();
            }
        }
    }

    /// Returns the [`Stop`] that signals request.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// True if a signal requested to read the monitor's file again; resets the request.
    pub fn reload(&self) -> bool {
        self.reload.swap(false, Ordering::SeqCst)
    }

    /// Reads the bytes that signals wrote, so that the next signal ends a wait.
    pub fn read_all(&self) {
        let mut bytes = [0; 64];
        while (&self.received).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.received.as_fd()
    }
}
