//! What a measurement is and what it means.
//!
//! This crate is pure: no socket, no clock, no thread and no randomness of its own. Time is an
//! argument, random choices come from a seed.
//!
//! * [`time`] – [`WallTime`], [`SteadyTime`] and [`Span`], stamps and where they came from
//! * [`passive`] – what two captures of the same traffic say about the path between
//! * [`record`] – [`PacketRecord`]: one packet of any instrument
//! * [`spec`] – [`TestSpec`]: what the user asked for, valid by construction
//! * [`schedule`] – when each packet is to be sent
//! * [`session`] – [`Session`]: the context that gives records their meaning
//! * [`impair`] – [`Impairment`]: what a path does to packets, for simulation and emulation
//! * [`clock`] – what is known about the two hosts' clocks
//! * [`noise`] – what a host adds to every figure
//! * [`ntp`] – the time formats of measurement protocols
//! * [`observer`] – [`Observer`] and [`Event`]: what happens in a measurement, and who follows it
//! * [`distribution`] – all values in order, or any number of them in bounded memory
//! * [`figures`] – every scalar of a summary in one list
//! * [`metrics`] – the figures, one file per metric
//! * [`analysis`] – [`Analyzer`]: records in, [`Summary`] out
//! * [`state`] – [`State`](state::State): an analysis as bytes, merged with others
//! * [`summary`] – [`Summary`]: everything computed, the JSON summary
//! * [`sweep`] – a test under many conditions, repeated
//! * [`compare`] – two runs side by side, with a verdict
//! * [`twoway`] – two-way records seen as one-way ones
//! * [`path`] – the routers between two hosts
//! * [`quantity`] – quantities as people write them
//! * [`verdict`] – [`Answer`](verdict::Answer): what is wrong, since when, how much, how sure
//! * [`units`] – numbers as people read them
//! * [`verdict`] – every judgement in words
#![forbid(unsafe_code)]

pub mod analysis;
pub mod clock;
pub mod compare;
pub mod distribution;
pub mod figure;
pub mod figures;
pub mod gaps;
pub mod impair;
pub mod metrics;
pub mod noise;
pub mod ntp;
pub mod observer;
pub mod passive;
pub mod path;
pub mod quantity;
pub mod record;
pub mod schedule;
pub mod session;
pub mod spec;
pub mod state;
pub mod summary;
pub mod sweep;
pub mod time;
pub mod twoway;
pub mod units;
pub mod verdict;

pub use analysis::{Analyzer, Options, analyze};
pub use clock::{ClockProbe, SyncState};
pub use impair::Impairment;
pub use noise::NoiseFloor;
pub use observer::{Event, Observer};
pub use record::{Flags, PacketRecord};
pub use session::Session;
pub use spec::{Direction, Dscp, Schedule, TestSpec, Transport};
pub use summary::Summary;
#[doc(hidden)]
pub use time::Nanos;
pub use time::{Source, Span, Stamp, SteadyTime, WallTime};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
