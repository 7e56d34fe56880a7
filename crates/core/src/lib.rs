//! Measurements: records, analysis, metrics. `jitlat-verdict` judges what they mean for users.
//!
//! This crate is pure: no socket, clock or thread, and no randomness of its own. Time is an argument, and
//! random choices come from a seed.
//!
//! * [`time`] – [`WallTime`], [`SteadyTime`] and [`Span`]; stamps and their sources
//! * [`record`] – [`PacketRecord`]: one packet of any instrument
//! * [`spec`] – [`TestSpec`]: the parameters of a test stream, always valid
//! * [`schedule`] – the time at which each packet is due
//! * [`gaps`] – random times between packets
//! * [`ecn`] – [`Ecn`]: the mark of a packet; [`EcnMarking`]: the marks of a test's packets
//! * [`prefix`] – [`Prefix`](prefix::Prefix): a range of IP addresses in CIDR notation
//! * [`priority`] – [`AccessCategory`]: Wi-Fi's access categories as priorities
//! * [`session`] – [`Session`]: everything known about a test except its packets
//! * [`link`] – [`AccessLink`](link::AccessLink): the time for which a packet occupies an access link
//! * [`load`] – the background traffic of a test under load
//! * [`clock`] – facts about the two hosts' clocks
//! * [`noise`] – the measurement noise of a host
//! * [`ntp`] – the time formats of measurement protocols
//! * [`observer`] – [`Observer`] and [`Event`]: events of a measurement and their receiver
//! * [`distribution`] – exact samples, and histograms in bounded memory
//! * [`scalars`] – every number of a summary, in one list
//! * [`metrics`] – computation of the figures, one file per metric
//! * [`analysis`] – [`Analyzer`]: records in, [`Summary`] out
//! * [`helpers`] – [`Helpers`](helpers::Helpers): threads that a caller supplies for the analysis
//! * [`state`] – [`SavedAnalysis`](state::SavedAnalysis): an analysis as bytes, which can be merged with
//!   others
//! * [`pool`] – [`Pool`](pool::Pool): counts and distributions of many tests together
//! * [`summary`] – [`Summary`]: everything computed, the JSON summary
//! * [`live`] – the state of a running test
//! * [`so_far`] – a receiver's figures of a running stream
//! * [`sweep`] – a test under many conditions, repeated
//! * [`evidence`] – [`Evidence`](evidence::Evidence): the input of a verdict, and the interface of judges
//! * [`answer`] – [`Answer`](answer::Answer): a verdict: causes with their time, size and confidence
//! * [`comparable`] – [`Comparable`](comparable::Comparable): the part of a test that is stored for later
//!   comparisons
//! * [`twoway`] – two-way records viewed as one-way ones
//! * [`route`] – recognises changes of a route; [`path`] – the routers between two hosts; [`path_history`] –
//!   the hops of a path while they are probed; [`class_paths`] – the paths of several traffic classes
//! * [`far_host`] – [`FarHost`](far_host::FarHost): the host of a test, as people write it
//! * [`quantity`] – parsing quantities such as `20ms` and `64kbit`
//! * [`units`] – numbers as text; [`printable`] – text from other hosts without control characters
//!
//! Neighbours: `jitlat-proto` (protocols), `jitlat-net` (sockets and clocks), `jitlat-impair` (models of
//! paths), `jitlat-passive` (captured traffic), `jitlat-store` (files), and `jitlat-instruments`, which
//! combines them. The README states which compatibility public items promise.
//!
//! Every figure of three packets:
//!
//! ```
//! use jitlat_core::scalars::SCALARS;
//! use jitlat_core::{PacketRecord, Session, TestSpec, WallTime, analyze};
//!
//! let session = Session::new(TestSpec::default());
//! let packet = |i, sent: i64, delay: i64| PacketRecord::one_way(i, WallTime(sent), WallTime(sent + delay));
//! let records = [packet(0, 0, 42), packet(1, 20_000_000, 40), packet(2, 40_000_000, 47)];
//! let summary = analyze(&session, records, &Default::default());
//! assert_eq!((summary.latency.min, summary.pdv.max), (Some(40), Some(7)));
//! for scalar in SCALARS {
//!     if let Some(value) = scalar.of(&summary) {
//!         println!("{} = {}", scalar.label, scalar.show(value));
//!     }
//! }
//! ```
#![forbid(unsafe_code)]

pub mod analysis;
pub mod answer;
pub mod class_paths;
pub mod clock;
pub mod comparable;
pub mod distribution;
pub mod ecn;
pub mod evidence;
pub mod far_host;
pub mod gaps;
pub mod helpers;
pub mod interface;
pub mod link;
pub mod live;
pub mod load;
pub mod metrics;
pub mod msgpack;
pub mod noise;
pub mod ntp;
pub mod observer;
pub mod path;
pub mod path_history;
pub mod pool;
pub mod prefix;
pub mod printable;
pub mod priority;
pub mod quantity;
pub mod record;
pub mod route;
pub mod scalars;
pub mod schedule;
pub mod session;
pub mod so_far;
pub mod spec;
pub mod start_time;
pub mod state;
pub mod summary;
pub mod sweep;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod time;
pub mod twoway;
pub mod units;

pub use analysis::{Analyzer, Options, analyze};
pub use clock::{ClockProbe, SyncState};
pub use ecn::{Ecn, EcnMarking};
pub use noise::NoiseFloor;
pub use observer::{Event, Observer};
pub use priority::AccessCategory;
pub use record::{Flags, PacketRecord};
pub use session::Session;
pub use spec::{Direction, Dscp, Schedule, TestSpec, Transport};
pub use summary::Summary;
#[doc(hidden)]
pub use time::Nanos;
pub use time::{Span, Stamp, StampSource, SteadyTime, WallTime};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
