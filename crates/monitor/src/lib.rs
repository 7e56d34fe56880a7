//! Many paths, all the time: one file for all hosts, the timetable it stands for, and what each host does next. Pure: no
//! sockets, no threads, no clock; time is an argument.
//!
//! * [`file`] – the text of the file to a [`Model`], or all that is wrong with it
//! * [`model`] – what the file says; [`group`] – hosts to pairs; [`window`] – days and hours
//! * [`rounds`] – which pairs are tested at the same time
//! * [`timetable`] – when: the same on every host that has the same file
//! * [`agenda`] – what one host does next, and what became of each slot
//! * [`extra`] – tests that somebody asks for beside it, in its gaps
//! * [`alert`] – what of the results somebody wants to be told
//! * [`plan`] – what that sends, and how busy each host is
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod agenda;
pub mod alert;
pub mod extra;
pub mod file;
pub mod group;
pub mod model;
pub mod plan;
pub mod rounds;
pub mod timetable;
pub mod window;

pub use agenda::Agenda;
pub use model::Model;
pub use plan::Plan;
pub use timetable::Timetable;
