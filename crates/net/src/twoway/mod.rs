//! Drivers of the two-way protocols.
//!
//! * [`client`] – runs one test: sends requests on time, reads answers and stamps
//! * [`socket`] – the sockets they go through; [`raw`] – packet sockets instead
//! * [`request_response`] – the same over one TCP connection
//! * [`twamp`] – agrees on a TWAMP session before a test
//!
//! Their reflectors are in [`crate::reflect`]. One thread a test: it sleeps until the next request is due or something arrives. With kernel stamps
//! nothing depends on how soon it wakes up.

pub mod client;
pub mod raw;
pub mod request_response;
pub mod socket;
pub mod twamp;

pub use client::{Link, Measured, PingError, prepare, run, run_on};
