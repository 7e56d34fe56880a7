//! IRTT, version 1 of its protocol: round trips over one UDP port, and server statistics per direction. The
//! only specification of the protocol is the reference program.
//!
//! * [`params`] – the negotiated parameters
//! * [`packet`] – the packets, and their HMAC
//! * [`fill`] – padding
//! * [`client`] – opens a session, makes requests, parses answers
//! * [`server`] – answers any number of sessions, within configured limits
//! * `addresses` – clients that have proved that they receive packets
//! * [`received`] – server statistics of received requests

mod addresses;
pub mod client;
pub mod fill;
pub mod packet;
pub mod params;
pub mod received;
pub mod server;

pub use client::{Client, IrttFailure, IrttOptions};
pub use fill::Fill;
pub use packet::IrttKey;
pub use params::{IrttParams, ReceiveStats, ServerClocks, StampAt};
pub use server::{AllowStamps, IrttReaction, IrttRules, MAX_KEYS, SESSION_BYTES, Server};

/// Default UDP port of servers.
pub const PORT: u16 = 2112;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
