//! Ctrl-C: the first ends the test early and keeps everything; one that comes before the previous request was noticed
//! ends the process.

use anyhow::{Context, Result};
use jitlat_instruments::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A stop that SIGINT, SIGTERM and SIGHUP request; if the previous request was not yet noticed, they end the process
/// with status 2.
pub fn stop() -> Result<Stop> {
    stop_at(&[SIGINT, SIGTERM, SIGHUP])
}

/// A stop that SIGINT and SIGTERM request, likewise, and a flag that SIGHUP sets: the file is to be read again.
pub fn stop_and_reload() -> Result<(Stop, Arc<AtomicBool>)> {
    let reload = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, reload.clone()).context("arranging for SIGHUP to read the file again")?;
    Ok((stop_at(&[SIGINT, SIGTERM])?, reload))
}

fn stop_at(signals: &[i32]) -> Result<Stop> {
    let stop = Stop::new();
    for signal in signals.iter().copied() {
        flag::register_conditional_shutdown(signal, 2, stop.flag().clone())
            .and_then(|_| flag::register(signal, stop.flag().clone()))
            .with_context(|| format!("arranging for signal {signal} to end the test early"))?;
    }
    Ok(stop)
}
