//! IRTT, version 1 of its protocol: round trips over one UDP port, and what the server tells of either direction. There is
//! no specification beside the reference program.
//!
//! * [`params`] – what client and server agree on
//! * [`packet`] – the packets, and their HMAC
//! * [`fill`] – what they are filled up with
//! * [`client`] – opens a session, makes its requests, reads the answers
//! * [`server`] – answers any number of sessions within its rules
//! * [`received`] – what it tells of the requests that came

pub mod client;
pub mod fill;
pub mod packet;
pub mod params;
pub mod received;
pub mod server;

pub use client::{Client, Failure, Options};
pub use fill::Fill;
pub use packet::Key;
pub use params::{Clocks, Params, StampAt, Stats};
pub use server::{AllowStamps, Reaction, Rules, Server};

/// UDP port of a server.
pub const PORT: u16 = 2112;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
