//! Many paths, all the time: one file for all hosts, the timetable it stands for, what each host does next, and the runtime that does it.
//!
//! Pure, with time as an argument:
//!
//! * [`file`] – the text of the file to a [`Model`], or all that is wrong with it
//! * [`model`] – what the file says; [`group`] – hosts to pairs; [`window`] – days and hours
//! * [`rounds`] – which pairs are tested at the same time
//! * [`timetable`] – when: the same on every host that has the same file
//! * [`agenda`] – what one host does next, and what became of each slot
//! * [`extra`] – tests that somebody asks for beside it, in its gaps
//! * [`alert`] – what of the results somebody wants to be told
//! * [`plan`] – what that sends, and how busy each host is; [`text`] – the plan, and what became of it, for people
//!
//! With the feature `runtime`, which is on by default:
//!
//! * [`runtime`] – runs what the timetable says: starts tests, keeps results, serves, captures, judges, pushes
//!
//! Neighbours: `jitlat-instruments` measures, `jitlat-archive` has the results, `jitlat-web` shows them. The instruments themselves, with
//! their options, are the caller's: [`file::Instruments`], and [`runtime::Equipment`] to run them.
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
