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
    crate::figures::counts::METRIC,
    crate::figures::loss::METRIC,
    crate::figures::duplication::METRIC,
    crate::figures::reordering::METRIC,
    crate::figures::periods::METRIC,
    crate::figures::variation::IPDV,
    crate::figures::variation::RFC3550,
    crate::figures::variation::MAPDV2,
    crate::figures::delay::PDV,
    crate::figures::delay::LATENCY,
    crate::figures::clock::CLOCK,
    crate::figures::clock::SKEW,
    crate::figures::trend::REGRESSION,
    crate::figures::trend::SEGMENTS,
    crate::figures::confidence::METRIC,
    crate::figures::confidence::WITHIN,
    crate::figures::dejitter::METRIC,
    crate::figures::objectives::METRIC,
    crate::figures::hosts::SCHEDULE_ERROR,
    crate::figures::hosts::STALLS,
    crate::figures::hosts::NOISE,
    crate::figures::hosts::STAMPS,
    crate::figures::hosts::LOCAL_QUEUE,
    crate::figures::round_trips::METRIC,
];
