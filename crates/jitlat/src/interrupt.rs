//! Ctrl-C: the first asks for an early end that keeps everything; one that finds the wish of the one before it
//! not yet taken up ends the process.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT, SIGTERM and SIGHUP raise; where it is still raised, they end the process with status 2.
/// A test lowers it when it begins to end, so that the next asks it to hurry.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 2, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .with_context(|| format!("arranging for signal {signal} to end the test early"))?;
    }
    Ok(stop)
}
