//! The figures: one file per metric, each with its definition and clause.
//!
//! A file exports what it reports as a [`Metric`], and [`METRICS`] lists it: tables, columns, thresholds and help
//! follow. What needs one pass implements [`OnePass`]; where adjacent halves add up to exactly the whole,
//! [`Merge`] too. (The recursive filters of [`rfc3550`] and [`mapdv2`] cannot: their
//! state is carried across a cut instead, as [`classify::Classifier`]'s is.) Order statistics are look-ups
//! in a [`crate::distribution::Sample`]; figures in send order take [`series::Series`].

pub mod bands;
pub mod bootstrap;
pub mod burst_gap;
pub mod classify;
pub mod clock;
pub mod confidence;
pub mod counts;
pub mod dejitter;
pub mod delay;
pub mod density;
pub mod duplicate;
pub mod emodel;
pub mod entry;
pub mod gilbert_elliott;
pub mod hull;
pub mod interval;
pub mod ipdv;
pub mod loss;
pub mod mapdv2;
pub mod moments;
pub mod objectives;
pub mod periods;
pub mod regression;
pub mod reorder;
pub mod rfc3550;
pub mod schedule_error;
pub mod segments;
pub mod seqset;
pub mod series;
pub mod sizes;
pub mod skew;
pub mod stalls;
pub mod stat;
pub mod trend;

pub use entry::Metric;

use classify::Packet;

/// Every metric, in the order of tables: one file, one line.
pub const METRICS: &[Metric] = &[
    counts::METRIC,
    loss::METRIC,
    duplicate::METRIC,
    reorder::METRIC,
    periods::METRIC,
    ipdv::METRIC,
    rfc3550::METRIC,
    mapdv2::METRIC,
    delay::PDV,
    delay::LATENCY,
    clock::METRIC,
    skew::METRIC,
    regression::METRIC,
    segments::METRIC,
    confidence::METRIC,
    dejitter::METRIC,
    objectives::METRIC,
    schedule_error::METRIC,
    stalls::METRIC,
    crate::noise::METRIC,
    crate::analysis::tally::METRIC,
    crate::twoway::METRIC,
];

/// A figure of accepted packets in arrival order, in one pass and constant memory.
pub trait OnePass: Default {
    /// What it reports.
    type Output;
    /// The next accepted packet.
    fn push(&mut self, packet: &Packet);
    /// The figure so far.
    fn output(&self) -> Self::Output;
}

/// A [`OnePass`] whose adjacent halves merge to exactly the whole: pushing a stream into one, or its first
/// part into one, the rest into another and merging them, gives equal outputs.
pub trait Merge: OnePass {
    /// Adds the part of the stream that follows.
    fn merge(&mut self, next: Self);
}
