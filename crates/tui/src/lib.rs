//! Full-screen terminal views of running and saved tests.
//!
//! * [`View`] – controls the terminal and draws on a separate thread; [`BoardObserver`] – observes the events of a test
//! * [`Board`] – state of the tests that are shown: a [`LiveState`] per test, updated by its events
//! * [`draw`] – the screen as a pure function of [`ScreenState`]: a board, the user's selection ([`Viewing`]), and the
//!   capabilities of the terminal ([`Look`])
//! * [`path`] – the same for a path whose hops are probed
//!
//! The thread that talks to the far host copies events into the board; the drawing thread reads the board.
//! Neither handles packets, and a slow or blocked terminal delays frames, never packets.
//!
//! Related crates: [`jitlat_core::live`] computes what is shown, [`jitlat_instruments`] runs the tests. The caller decides when
//! to open a view, and reads logs for it.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod look;
pub mod path;
mod screen;
mod selection;
mod terminal;
#[cfg(test)]
mod tests;
mod viewing;

pub use jitlat_core::live::LiveState;
pub use look::Look;
pub use screen::{ScreenState, draw};
pub use selection::ViewerRequest;
pub use terminal::{BoardObserver, View, ViewError};
pub use viewing::{ViewTab, Viewing};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// State of all tests that are shown.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// State of each test, indexed by the number used in [`View::follow`].
    pub targets: Vec<LiveState>,
    /// True if the tests were read from logs, so that quitting ends only the view.
    pub saved: bool,
}

impl Board {
    /// Creates a board of tests with these hosts, none of which has begun.
    pub fn of_hosts<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Board {
        Board {
            targets: hosts
                .into_iter()
                .map(|host| LiveState::new(host).judged_by(jitlat_verdict::judge()))
                .collect(),
            saved: false,
        }
    }

    /// Returns the test with this number, from 0.
    pub fn target(&self, target: usize) -> Option<&LiveState> {
        self.targets.get(target)
    }
}
