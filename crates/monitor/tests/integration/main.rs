//! Tests of timetables, agendas and alerts in virtual time.

#[path = "../common/mod.rs"]
mod common;

mod alerts;
#[cfg(feature = "runtime")]
mod embedded;
mod extra;
mod file;
mod incidents;
mod slots;
mod timetable;
mod week;
