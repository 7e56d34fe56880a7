//! Tests of timetables, agendas and alerts in virtual time.

#[path = "../common/mod.rs"]
mod common;

mod alerts;
#[cfg(feature = "runtime")]
mod embedded;
mod extra;
mod file;
mod timetable;
mod week;
