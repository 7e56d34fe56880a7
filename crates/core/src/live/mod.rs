//! State of a running test, updated by its [events](crate::observer::Event), for display in terminals and on
//! pages.
//!
//! * [`LiveState`] – a test: its phase and its streams
//! * [`StreamState`] – a stream: figures so far, measured here or reported by the far host
//! * [`DelayHistory`] – delay and loss by time, in bounded memory

mod history;
mod state;
mod stream;

pub use history::{DelayHistory, HistoryBucket};
pub use state::{LivePhase, LiveState};
pub use stream::{FigureSource, Function, StreamState, summary};
