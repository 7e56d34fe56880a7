//! The flow engine.
mod shared;
pub use shared::{Bell, Counters, Orders, Progress};
