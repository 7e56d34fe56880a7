//! LaMP, the Latency Measurement Protocol (revision 2.0), compatible with the LaTe program.
//!
//! * [`packet`] – the 24-byte header
//! * [`report`] – server's report at the end of a unidirectional test
//! * [`client`] – INIT, requests, END; follow-up; REPORT
//! * [`server`] – answers any number of sessions

pub mod client;
pub mod packet;
mod proof;
pub mod report;
pub mod server;
mod tally;

pub use client::{Client, LampMode};
pub use packet::{LampFollowUp, LampHeader, LampKind};
pub use report::LampReport;
pub use server::{LampReaction, LampTestStart, Server, ServerRules};

/// Default UDP port of LaTe servers.
pub const PORT: u16 = 46_000;
/// Fixed UDP port of LaTe clients that use raw sockets.
pub const RAW_PORT: u16 = 46_772;

#[cfg(test)]
mod vectors;
