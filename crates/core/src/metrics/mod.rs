//! The metrics.
//!
//! Each file contains the formulas of one metric, its definition, and the clause that defines it. The module `listed`
//! implements `Metric` for each metric, and `METRICS` lists these implementations. Summaries, tables, columns,
//! thresholds, roll-ups and help follow from the list, both in exact analyses and in constant memory. Order statistics
//! are read from a [`crate::distribution::Sample`], and metrics that depend on the send order take a
//! [`series::Series`].

pub(crate) mod all_packets;
pub mod attenuation;
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
pub mod dependence;
pub mod duplicate;
pub mod emodel;
pub mod gilbert_elliott;
pub mod hull;
pub mod interval;
pub mod ipdv;
pub(crate) mod known;
mod listed;
pub mod local_queue;
pub mod loss;
pub mod mapdv2;
pub mod marks;
pub(crate) mod metric;
pub mod moments;
pub mod objectives;
pub mod occupancy;
mod occurrences;
pub mod one_pass;
pub mod periods;
pub mod qoo;
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
#[cfg_attr(not(feature = "states"), path = "without_stored.rs")]
mod stored;
pub(crate) mod stream;
pub mod trend;
pub mod within;

pub(crate) use listed::METRICS;
pub use one_pass::{Merge, OnePass};
