//! LaMP, the Latency Measurement Protocol (revision 2.0), as the LaTe program speaks it.
//!
//! * [`packet`] – the 24-byte header
//! * [`report`] – what a server tells at the end of a unidirectional test
//! * [`client`] – INIT, requests, END; follow-up; REPORT
//! * [`server`] – answers any number of sessions

pub mod client;
pub mod packet;
pub mod report;
pub mod server;
mod tally;

pub use client::{Client, Mode};
pub use packet::{FollowUp, Header, Kind};
pub use report::Report;
pub use server::{Reaction, Server, ServerRules};

/// UDP port of LaTe servers.
pub const PORT: u16 = 46_000;
/// UDP port of LaTe clients with raw sockets, always.
pub const RAW_PORT: u16 = 46_772;

#[cfg(test)]
mod vectors;
