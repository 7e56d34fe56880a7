//! Full-screen terminal views: what happens in tests while they run, and scrolling through saved ones.
//!
//! * [`View`] – takes the terminal over and draws on a thread of its own; [`BoardObserver`] – observes the events of a test
//! * [`Board`] – everything known about the tests that are shown: a [`LiveState`] per test, fed by its events
//! * [`draw`] – the screen as a pure function of [`ScreenState`]: a board, what a person looks at ([`Viewing`]), and what the terminal
//!   can show ([`Look`])
//!
//! The thread that talks to the far host copies events into the board; the drawing thread reads the board. Neither touches a
//! packet, and a slow or stuck terminal costs pictures, never packets.
//!
//! Neighbours: [`jitlat_core::live`] computes what is shown, [`jitlat_instruments`] runs the tests. Which option opens a view, and
//! reading logs for one, is the caller's part.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod look;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod viewing;

pub use jitlat_core::live::LiveState;
pub use look::Look;
pub use screen::{ScreenState, draw};
pub use terminal::{BoardObserver, View, ViewError};
pub use viewing::{ViewTab, ViewerRequest, Viewing};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Every test that is shown.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// State of each test, in the order in which [`View::follow`] numbers them.
    pub targets: Vec<LiveState>,
    /// True if the tests are over and were read from logs: a key then ends the view, and no test.
    pub saved: bool,
}

impl Board {
    /// A board of tests with these hosts, none of which has begun.
    pub fn of_hosts<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Board {
        Board {
            targets: hosts
                .into_iter()
                .map(|host| LiveState::new(host).judged_by(jitlat_verdict::judge()))
                .collect(),
            saved: false,
        }
    }

    /// The test with this number, from 0.
    pub fn target(&self, target: usize) -> Option<&LiveState> {
        self.targets.get(target)
    }
}
