//! Wire formats and protocol machines, and the simulated network that tests them.
//!
//! This crate is pure: no socket, no clock, no thread, no randomness of its own. Bytes, stamps and
//! `now` go in; bytes, deadlines and events come out. `jitlat-net` carries them.
//!
//! * [`machine`] – the five calls by which a driver runs any machine
//! * [`wire`] – reading big-endian fields without panicking
//! * [`jitlat`] – the one-way protocol: control conversation (two dialects) and test stream
//! * [`sim`] – both sides of it on an impaired network in virtual time
#![forbid(unsafe_code)]

pub mod jitlat;
pub mod machine;
pub mod sim;
pub mod wire;

pub use machine::{Machine, Tick};
