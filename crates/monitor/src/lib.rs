//! Monitors many paths continuously: one file for all hosts, the timetable that follows from it, the next actions of
//! each host, and the runtime that carries them out.
//!
//! Pure, with time as an argument:
//!
//! * [`file`] – parses the file to a [`Model`], or returns all its faults
//! * [`model`] – contents of the file; [`group`] – pairs of hosts; [`window`] – days and hours
//! * [`rounds`] – pairs that are tested at the same time
//! * [`timetable`] – times of all tests: the same on every host that has the same file
//! * [`agenda`] – next actions of one host, and outcome of each slot
//! * [`reports`] – reports of a host about its slots without a result
//! * [`extra`] – tests on demand in the gaps of the timetable
//! * [`alert`] – alert rules and their states
//! * [`plan`] – traffic and load of each host; [`text`] – the plan and its outcome, for people
//!
//! With the feature `runtime`, which is on by default:
//!
//! * [`runtime`] – carries out the timetable: starts tests, stores results, serves, captures, judges, pushes
//!
//! Related crates: `jitlat-instruments` measures, `jitlat-archive` stores the results, `jitlat-web` shows them.
//! The caller provides the instruments with their options: [`file::Instruments`], and [`runtime::Equipment`] to
//! run them.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(test)]
extern crate self as jitlat_monitor;

pub mod agenda;
pub mod alert;
pub mod extra;
pub mod file;
pub mod group;
pub mod model;
pub mod plan;
pub mod reports;
pub mod rounds;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod text;
pub mod timetable;
pub mod window;

pub use agenda::Agenda;
pub use model::Model;
pub use plan::MonitorPlan;
pub use timetable::Timetable;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
