//! Timetables, agendas and alerts, in virtual time.

#[path = "../common/mod.rs"]
mod common;

mod alerts;
mod extra;
mod file;
mod timetable;
mod week;
