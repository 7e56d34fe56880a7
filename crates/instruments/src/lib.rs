//! Measures what a network path does to real-time traffic. The input is settings; the output is events, records and summaries.
//!
//! The crate has no terminal, no files and no command line of its own: the command `jitlat` calls it, and so can
//! a monitor, a web page or a script.
//!
//! * [`one_way`] – a stream against `jitlat serve`, in either direction or both
//! * [`ping`] – round trips by any of several protocols
//! * [`path`] – routers on the path, and their treatment of packets
//! * [`load`] – any of these during background traffic sent by jitlat itself
//! * [`rpm`] – responsiveness under load against standard HTTPS servers
//! * `browser`, a feature – a page from which browsers measure
//! * [`doctor`] – noise that this host adds to every figure
//! * [`sweep`] – a test under every combination of some conditions
//! * [`serve`] – answers tests from other hosts; [`access`] – access rules and keys of its services
//! * [`demo`] – a server behind an impaired path on this machine, for demonstrations
//! * [`passive`] – captured traffic: round trips between two points, and delays that TCP hides
//! * [`instrument`] – [`Instrument`]: common interface of all tests that send packets
//! * [`analysis`] – [`Analyses`]: turns the events of a test into its [`Summary`](jitlat_core::Summary)
//! * [`stop`] – [`Stop`]: ends a test early
//! * [`error`] – [`Error`]: reason why nothing could be measured
//!
//! Everything that happens in a test is an [`Event`]; an [`Observer`] receives them. Logs, progress lines, live views
//! and archives are observers of the same stream of events.
//!
//! Related crates: `jitlat-net` contains sockets and drivers, `jitlat-core` records and the analysis;
//! `jitlat-output` writes reports, `jitlat-tui` displays running tests, `jitlat-monitor` runs tests
//! continuously.
//!
//! ```no_run
//! use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport};
//! use jitlat_instruments::{Event, Instrument, OneWay, Stop};
//!
//! let period = Span::millis(20);
//! let spec = TestSpec::new(Direction::Up, Transport::Udp, 500, 80, period, Schedule::Periodic)?;
//! let test = OneWay::new("192.0.2.7", vec![spec]);
//! let mut progress = |event: &Event<'_>| {
//!     if let Event::Progress(streams) = event {
//!         println!("{} of {} sent", streams[0].sent, streams[0].packets);
//!     }
//! };
//! for stream in test.analyse(&Default::default(), &Stop::new(), &mut progress)? {
//!     println!("lost {:?} %, jitter {:?} ns", stream.summary.counts.lost_pct, stream.summary.pdv.max);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod access;
pub mod analysis;
pub mod arguments;
#[cfg(feature = "browser")]
pub mod browser;
pub mod demo;
pub mod doctor;
pub mod error;
pub mod instrument;
pub mod load;
pub mod one_way;
pub mod passive;
pub mod path;
pub mod ping;
pub mod rpm;
pub mod serve;
mod size_limit;
pub mod start;
pub mod stop;
pub mod sweep;
mod watch;

pub use analysis::{Analysed, Analyses, RecordCollector};
pub use arguments::{Argument, Arguments};
pub use error::Error;
pub use instrument::{Annotations, Instrument, TestOutcome};
pub use jitlat_core::observer::{Event, Observer, StreamProgress, Unobserved};
pub use one_way::OneWay;
pub use passive::{Passive, RtpCaptures, TcpCaptures};
pub use ping::Ping;
pub use stop::Stop;

/// Examples in the README, tested as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
