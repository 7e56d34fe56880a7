//! Ctrl-C: the first asks for an early end that keeps everything; one that finds the wish of the one before it
//! not yet taken up ends the process.

use anyhow::{Context, Result};
use jitlat_instruments::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// A request to stop that SIGINT, SIGTERM and SIGHUP make; where the one before is not taken up yet, they end the
/// process with status 2.
pub fn stop() -> Result<Stop> {
    let stop = Stop::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 2, stop.flag().clone())
            .and_then(|_| flag::register(signal, stop.flag().clone()))
            .with_context(|| format!("arranging for signal {signal} to end the test early"))?;
    }
    Ok(stop)
}
