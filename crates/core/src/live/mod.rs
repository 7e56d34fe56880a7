//! What is known of a test while it runs, fed by its [events](crate::observer::Event): terminals and pages show it.
//!
//! * [`LiveState`] – a test: how far it is, and its streams
//! * [`StreamState`] – a stream: figures so far, wherever its packets arrive
//! * [`History`] – delay and loss by time, in bounded memory

mod history;
mod state;
mod stream;

pub use history::{Bucket, History};
pub use state::{LiveState, Phase};
pub use stream::{Function, Known, StreamState, summary};
