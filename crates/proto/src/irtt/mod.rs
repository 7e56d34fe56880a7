//! IRTT, version 1 of its protocol: round trips over one UDP port, and the server's statistics of each direction. Its
//! only specification is the reference program.
//!
//! * [`params`] – the negotiated parameters
//! * [`packet`] – the packets, and their HMAC
//! * [`fill`] – padding
//! * [`client`] – opens a session, makes requests, parses answers
//! * [`server`] – answers any number of sessions within its rules
//! * `addresses` – which clients have shown that they receive what is sent to them
//! * [`received`] – the server's statistics of received requests

mod addresses;
pub mod client;
pub mod fill;
pub mod packet;
pub mod params;
pub mod received;
pub mod server;

pub use client::{Client, Failure, IrttOptions};
pub use fill::Fill;
pub use packet::Key;
pub use params::{Clocks, Params, StampAt, Stats};
pub use server::{AllowStamps, MAX_KEYS, Reaction, Rules, SESSION_BYTES, Server};

/// UDP port of a server.
pub const PORT: u16 = 2112;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
