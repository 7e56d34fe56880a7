//! The figures: one file per metric, each with its definition and clause.

pub mod burst_gap;
pub mod clock;
pub mod confidence;
pub mod counts;
pub mod dejitter;
pub mod distribution;
pub mod duplicate;
pub mod histogram;
pub mod ipdv;
pub mod loss;
pub mod objectives;
pub mod percentile;
pub mod periods;
pub mod regression;
pub mod reorder;
pub mod rfc3550;
pub mod schedule_error;
pub mod skew;
