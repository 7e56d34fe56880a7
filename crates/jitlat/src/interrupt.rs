//! Ctrl-C: the first asks for an early end that keeps everything, the second ends the process.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that the first SIGINT, SIGTERM or SIGHUP raises; a second one ends the process with status 2.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 2, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .with_context(|| format!("arranging for signal {signal} to end the test early"))?;
    }
    Ok(stop)
}
