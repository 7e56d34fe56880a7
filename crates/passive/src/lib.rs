//! The passive instrument: results for the path between two points, from captures of the same traffic at both.
//!
//! The round trip starts at the reference point (REF); the monitor point (MON) is the far end. An OUT packet goes
//! from REF to MON, an IN packet back. There are four steps:
//!
//! 1. [`packet`] and [`identity`] identify each packet by fields that neither change on the path nor repeat.
//! 2. [`matcher`] treats the same identity at both points as one packet, which gives its delay, or its loss.
//! 3. [`pairing`] makes a synthetic pair of an OUT and an IN packet that are adjacent at MON.
//! 4. The round trip of a pair does not depend on the clock offset.
//!
//! [`observer`] passes on results while packets are matched, [`tcp`] analyses TCP connections, [`rtp`] analyses calls,
//! and [`verdict`] describes problems. [`mod@survey`] finds what the user did not specify: addresses, direction, NAT, clock
//! offset. [`LinkQuestion`] relates the results to an access link, [`clocks`] compares the two clocks, and
//! [`spread`] holds distributions of any length. Timestamps are arguments; this crate reads no clock and no
//! file.
//!
//! Related crates: this one is pure and depends on `jitlat-core` and `jitlat-verdict`. `jitlat-net` reads captures,
//! interfaces and the digests of far hosts; `passive` of `jitlat-instruments` combines the steps to an instrument.
#![forbid(unsafe_code)]

mod capture_point;
pub mod clocks;
pub mod compat;
pub mod echo;
pub mod estimate;
pub mod flows;
mod foreign;
pub mod identity;
mod layers;
pub mod levels;
mod link;
mod link_layer;
pub mod matcher;
mod numbers;
pub mod observer;
pub mod one_point;
pub mod order;
pub mod packet;
pub mod pairing;
mod part;
mod periods;
pub mod pipeline;
pub mod recording;
mod result;
pub mod rtp;
pub mod serialisation;
mod sighting;
mod sizes;
pub mod spread;
mod stream_traffic;
pub mod streams;
pub mod survey;
pub mod tcp;
#[cfg(test)]
mod testing;
mod time_queue;
mod tunnels;
pub mod verdict;
pub mod webrtc;

pub use capture_point::CapturePoint;
pub use clocks::{ClockComparison, ClockDifference};
pub use compat::{CaiaMatcher, CaiaPairer};
pub use echo::{Echoes, PingFigures, PingSource};
pub use estimate::{MatchedFigures, PairEstimator, PassiveSummary, RatedPair, Resampler};
pub use flows::{FlowAnalyzer, FlowDirection, FlowFigures, FlowKey, FlowNumbers, FlowRtt, Grouping};
pub use foreign::Foreign;
pub use identity::{Identity, IdentityFields, IdentityRule};
pub use layers::Layers;
pub use levels::{BandSpacing, QueueLength, QueuedPacket, ThinnedTimes, explain_levels, with_finer};
pub use link::{LinkQuestion, ModelFigures, NotALinkQuestion, fit_sizes};
pub use link_layer::{LinkType, Skip};
pub use matcher::{MatchCounts, MatchObserver, Matcher};
pub use observer::{CaptureEvent, CaptureObserver, StreamObserver, of_streams};
pub use one_point::{OnePoint, OnePointFlow, OnePointResult};
pub use order::InOrder;
pub use packet::{Frame, IpPacket, decode};
pub use pairing::{Pairer, Record, SyntheticPair};
pub use part::{CapturePart, ClockLine, FirstPass, IndexedFile, PartError, PartState};
pub use periods::{EndedPeriod, PeriodRecord, PeriodStreams};
pub use recording::{Recording, RecordingFacts, Seen, SeenPacket};
pub use result::PassiveResult;
pub use serialisation::Serialisation;
pub use sighting::Sighting;
pub use sizes::SizeFigures;
pub use spread::{SpanSpread, SpreadFigures};
pub use stream_traffic::{StreamTraffic, WireCounts};
pub use streams::{StreamBuilder, StreamSink};
pub use survey::{MatchPlan, NoPlan, PacketPreview, PreviewLayer, Sides, clock_line, survey};
pub use time_queue::TimeQueue;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
