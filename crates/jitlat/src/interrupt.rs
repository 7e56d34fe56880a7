//! Ctrl-C: the first ends the test early and keeps everything; one that comes before the previous request was noticed
//! ends the process.

use anyhow::{Context, Result};
use jitlat_instruments::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// A stop that SIGINT, SIGTERM and SIGHUP request; if the previous request was not yet noticed, they end the process
/// with status 2.
pub fn stop() -> Result<Stop> {
    let stop = Stop::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 2, stop.flag().clone())
            .and_then(|_| flag::register(signal, stop.flag().clone()))
            .with_context(|| format!("arranging for signal {signal} to end the test early"))?;
    }
    Ok(stop)
}
