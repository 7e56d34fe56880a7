//! The figures: one file per metric, each with its definition and clause.
//!
//! A file exports what it reports as a [`Metric`], and [`METRICS`] lists it: tables, columns, thresholds and help
//! follow. What needs one pass implements [`OnePass`]; where adjacent halves add up to exactly the whole,
//! [`Merge`] too. (The recursive filters of [`rfc3550`] and [`mapdv2`] cannot: their
//! state is kept across a cut instead, as [`classify::Classifier`]'s is.) Order statistics are look-ups
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
pub mod local_queue;
pub mod loss;
pub mod mapdv2;
pub mod moments;
pub mod objectives;
pub mod occupancy;
mod occurrences;
pub mod one_pass;
pub mod periods;
pub mod regression;
pub mod reorder;
pub mod rfc3550;
mod scalars;
pub mod schedule_error;
pub mod segments;
pub mod seqset;
pub mod series;
mod shuffle;
pub mod sizes;
pub mod skew;
pub mod stalls;
pub mod stat;
pub mod trend;
pub mod within;

pub use entry::Metric;
pub use one_pass::{Merge, OnePass};

/// Every metric, in the order of tables: one file, one line.
pub const METRICS: &[Metric] = &[
    scalars::counts::METRIC,
    scalars::loss::METRIC,
    scalars::duplication::METRIC,
    scalars::reordering::METRIC,
    scalars::periods::METRIC,
    scalars::variation::IPDV,
    scalars::variation::RFC3550,
    scalars::variation::MAPDV2,
    scalars::delay::PDV,
    scalars::delay::LATENCY,
    scalars::clock::CLOCK,
    scalars::clock::SKEW,
    scalars::trend::REGRESSION,
    scalars::trend::SEGMENTS,
    scalars::confidence::METRIC,
    scalars::confidence::WITHIN,
    scalars::dejitter::METRIC,
    scalars::objectives::METRIC,
    scalars::hosts::SCHEDULE_ERROR,
    scalars::hosts::STALLS,
    scalars::hosts::NOISE,
    scalars::hosts::STAMPS,
    scalars::hosts::LOCAL_QUEUE,
    scalars::round_trips::METRIC,
];
