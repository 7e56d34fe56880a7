//! Ctrl-C on Windows: the first one ends the test early and saves everything received so far; a second one before the
//! program reacts to the first ends the process.

use anyhow::{Context, Result};
use jitlat_instruments::Stop;
use jitlat_net::wake::{self, AsFd, BorrowedFd, StopSignal};

/// Creates a [`Stop`] that Ctrl-C requests. If the program has not reacted to an earlier request, it ends the process with
/// status 2.
pub fn stop() -> Result<Stop> {
    let stop = Stop::new();
    let requested = stop.clone();
    let handler = move || match requested.is_requested() {
        true => std::process::exit(2),
        false => requested.request(),
    };
    wake::on_interrupt(handler).context("installing a handler for Ctrl-C, which ends the test early")?;
    Ok(stop)
}

/// Handler of Ctrl-C for a command that runs until it is stopped; Ctrl-C also ends its waits.
#[derive(Debug)]
pub struct Signals {
    stop: Stop,
    received: StopSignal,
}

impl Signals {
    /// Handles Ctrl-C as a request to stop, like [`stop`].
    pub fn to_stop() -> Result<Signals> {
        let (stop, received) = (Stop::new(), StopSignal::new().context("preparing to wait for Ctrl-C")?);
        let (requested, waiting) = (stop.clone(), received.clone());
        let handler = move || {
            if requested.is_requested() {
                std::process::exit(2);
            }
            requested.request();
            waiting.request();
        };
        wake::on_interrupt(handler).context("installing a handler for Ctrl-C")?;
        Ok(Signals { stop, received })
    }

    /// Same as [`Signals::to_stop`], because Windows has no signal that requests to read files again.
    pub fn to_stop_or_reload() -> Result<Signals> {
        Signals::to_stop()
    }

    /// Waits until a stop is requested.
    pub fn wait_for_stop(&self, _reload: impl Fn()) {
        while !self.stop.is_requested() {
            wake::wait(&[self.as_fd()], None);
        }
    }

    /// Returns the [`Stop`] that Ctrl-C requests.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns false, because Windows has no signal that requests to read files again.
    pub fn reload(&self) -> bool {
        false
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.received.as_fd()
    }
}
