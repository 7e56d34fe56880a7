//! The full-screen view of `--live`: what happens in a test while it happens, and scrolling through a saved one.
//!
//! * [`jitlat_core::live`] – what is known
//! * [`viewing`] – what is looked at, and what keys do; [`screen`] – the screen drawn from both; [`look`] – what the
//!   terminal can show
//! * [`terminal`] – the terminal, and the thread that draws on it
//! * [`saved`] – logs
//!
//! The thread that converses with the far host copies what happens into the state; another one draws. Neither touches a
//! packet. A terminal that is slow, or stuck, costs pictures.

mod look;
pub mod saved;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod viewing;

pub use jitlat_core::live::LiveState;
pub use terminal::View;

use crate::console;
use anyhow::{Result, bail};
use tracing::warn;

/// Every test that is shown.
#[derive(Clone, Debug, Default)]
pub struct Board {
    pub targets: Vec<LiveState>,
    /// Whether they are over already, and read from logs.
    pub saved: bool,
}

impl Board {
    /// Of tests of these hosts.
    pub fn of_hosts<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Board {
        Board { targets: hosts.into_iter().map(LiveState::new).collect(), saved: false }
    }

    /// The test of this number.
    pub fn target(&self, target: usize) -> Option<&LiveState> {
        self.targets.get(target)
    }
}

/// Whether the view that was asked for can be drawn; false: lines have to do.
///
/// # Errors
/// If standard output is no terminal.
pub fn is_possible() -> Result<bool> {
    if !console::is_terminal() {
        bail!(
            "--live draws on a terminal, and standard output is none: leave --live out, or do not redirect it"
        );
    }
    if console::is_dumb() {
        warn!("--live: this terminal cannot be drawn on (TERM=dumb); a line a second is printed instead");
        return Ok(false);
    }
    Ok(true)
}
