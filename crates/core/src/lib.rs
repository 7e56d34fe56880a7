//! Measurements and what they mean: records, analysis, metrics, verdicts.
//!
//! This crate is pure: no socket, no clock, no thread and no randomness of its own. Time is an
//! argument, random choices come from a seed.
//!
//! * [`time`] – [`WallTime`], [`SteadyTime`] and [`Span`]; stamps and their sources
//! * [`passive`] – what two captures of the same traffic show of the path between them
//! * [`record`] – [`PacketRecord`]: one packet of any instrument
//! * [`spec`] – [`TestSpec`]: the parameters of a test stream, always valid
//! * [`schedule`] – when each packet is to be sent
//! * [`session`] – [`Session`]: everything known about a test except its packets
//! * [`impair`] – [`Impairment`]: what a path does to packets, for simulation and emulation
//! * [`clock`] – what is known about the two hosts' clocks
//! * [`noise`] – what a host adds to every figure
//! * [`ntp`] – the time formats of measurement protocols
//! * [`observer`] – [`Observer`] and [`Event`]: what happens in a measurement, and who receives it
//! * [`distribution`] – exact samples, and histograms in bounded memory
//! * [`figures`] – every scalar of a summary, in one list
//! * [`metrics`] – the figures, one file per metric
//! * [`analysis`] – [`Analyzer`]: records in, [`Summary`] out
//! * [`state`] – [`State`](state::State): an analysis as bytes, which can be merged with others
//! * [`summary`] – [`Summary`]: everything computed, the JSON summary
//! * [`sweep`] – a test under many conditions, repeated
//! * [`compare`] – two runs compared, with a verdict
//! * [`twoway`] – two-way records viewed as one-way ones
//! * [`path`] – the routers between two hosts
//! * [`quantity`] – parsing quantities such as `20ms` and `64kbit`
//! * [`verdict`] – [`Answer`](verdict::Answer): what is wrong, since when, how much, how certain; and all other
//!   judgements
//! * [`units`] – numbers as text
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
pub mod priority;
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
pub use priority::AccessCategory;
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
