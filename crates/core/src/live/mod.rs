//! What is known of a test while it runs, fed by its [events](crate::observer::Event): terminals and pages show it.
//!
//! * [`LiveState`] – a test: how far it is, and its streams
//! * [`StreamState`] – a stream: figures so far, wherever its packets arrive
//! * [`DelayHistory`] – delay and loss by time, in bounded memory

mod history;
mod state;
mod stream;

pub use history::{DelayHistory, HistoryBucket};
pub use state::{LivePhase, LiveState};
pub use stream::{FigureSource, Function, StreamState, summary};
