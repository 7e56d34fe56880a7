//! Wire formats and protocol machines, and the simulated network that tests them.
//!
//! This crate is pure: no socket, no clock, no thread, no randomness of its own. Bytes, stamps and
//! `now` go in; bytes, deadlines and events come out. `jitlat-net` carries them.
//!
//! * [`machine`] – the five calls by which a driver runs any machine
//! * [`access`] – who is served, and how much
//! * [`wire`] – reading big-endian fields without panicking
//! * [`twoway`] – what all two-way protocols share
//! * [`stamp`], [`twamp`], [`irtt`], [`lamp`], [`echo`], [`reqresp`] – the two-way protocols
//! * [`owamp`] – the standard one-way protocol; [`amp`] is what it shares with TWAMP
//! * [`jitlat`] – the one-way protocol: control conversation (two dialects) and test stream
//! * [`digest`] – what a far capture point tells of the packets it sees
//!
//! With the feature `sim`: `sim` – both sides of the one-way protocol on an impaired network in virtual time
#![forbid(unsafe_code)]

pub mod access;
pub mod amp;
pub mod digest;
pub mod echo;
pub mod irtt;
pub mod jitlat;
pub mod lamp;
pub mod machine;
pub mod owamp;
pub mod path;
pub mod reqresp;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod stamp;
pub mod twamp;
pub mod twoway;
pub mod wire;

pub use machine::{Machine, Tick};
