//! Drivers of the two-way protocols.
//!
//! * [`client`] – runs one test; `exchange` – the running test: sends requests on time, receives answers
//!   and stamps
//! * [`socket`] – sockets of tests; [`raw`] – packet sockets for whole frames
//! * [`request_response`] – requests over one TCP connection
//! * [`twamp`] – negotiates a TWAMP session before a test
//!
//! Their reflectors are in [`crate::reflect`]. Each test has one thread, which sleeps until the next request
//! is due or a packet arrives. With kernel timestamps, wake-up delays do not affect the results.

pub mod client;
mod exchange;
#[cfg(target_os = "linux")]
mod next_hop;
#[cfg_attr(not(target_os = "linux"), path = "../elsewhere/raw.rs")]
pub mod raw;
pub mod request_response;
pub mod socket;
pub mod twamp;

pub use client::{PingError, TwoWayLink, TwoWayMeasured, prepare, run, run_on};
