//! STAMP (RFC 8762, 8972), TWAMP-Test and TWAMP Light (RFC 5357). All have the same packet layout.
//!
//! * [`packet`] – request and answer, in the unauthenticated and the keyed layout
//! * [`tlv`] – extensions after the base packet
//! * [`auth`] – HMAC-SHA-256 of the authenticated mode
//! * [`reflector`] – answers requests, stateless or with bounded state
//! * [`sender`] – creates requests and parses answers

pub mod auth;
pub mod packet;
pub mod reflector;
pub mod sender;
pub mod tlv;

pub use packet::{StampAnswer, StampLayout, StampRequest};
pub use reflector::{ReflectorRules, StampSessionReflector};
pub use sender::StampSender;

/// UDP port of STAMP and of TWAMP-Test receivers (RFC 8545).
pub const PORT: u16 = 862;

#[cfg(test)]
mod vectors;
