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
pub mod one_pass;
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
pub mod within;

pub use entry::Metric;
pub use one_pass::{Merge, OnePass};

use crate::figures;

/// Every metric, in the order of tables: one file, one line.
pub const METRICS: &[Metric] = &[
    figures::counts::METRIC,
    figures::loss::METRIC,
    figures::duplication::METRIC,
    figures::reordering::METRIC,
    figures::periods::METRIC,
    figures::variation::IPDV,
    figures::variation::RFC3550,
    figures::variation::MAPDV2,
    figures::delay::PDV,
    figures::delay::LATENCY,
    figures::clock::CLOCK,
    figures::clock::SKEW,
    figures::trend::REGRESSION,
    figures::trend::SEGMENTS,
    figures::confidence::METRIC,
    figures::confidence::WITHIN,
    figures::dejitter::METRIC,
    figures::objectives::METRIC,
    figures::hosts::SCHEDULE_ERROR,
    figures::hosts::STALLS,
    figures::hosts::NOISE,
    figures::hosts::STAMPS,
    figures::round_trips::METRIC,
];
