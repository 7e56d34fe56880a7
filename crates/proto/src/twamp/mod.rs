//! TWAMP (RFC 5357 on RFC 4656, with the mixed mode of RFC 5618): a control conversation over TCP that
//! negotiates test sessions, and test packets in the layouts of [`stamp`](crate::stamp::packet), encrypted in
//! the keyed modes.
//!
//! * [`client`] – requests sessions, starts and stops them
//! * [`server`] – accepts sessions
//! * [`sender`], [`reflector`] – the two ends of a session
//! * [`statistics`] – results in the format of twping
//!
//! The code shared with OWAMP, mainly for the keyed modes, is in [`amp`](crate::amp).

pub mod client;
pub mod reflector;
pub mod sender;
pub mod server;
pub mod statistics;

pub use crate::amp::{AcceptCode, SecurityMode, SecurityModes, Sid, TestKeys, Users, crypto};
pub use client::{AmpFailure, Client, TwampSessionSpec};
pub use reflector::{SessionReflector, TwampReflection};
pub use sender::TwampSender;
pub use server::{Server, TwampRules};
pub use statistics::TwpingStatistics;

/// TCP port of the control server (RFC 5357 §8, RFC 8545).
pub const PORT: u16 = 862;

/// Returns the padding with which request and answer have the same length. This is the default, and the
/// minimum that is accepted.
pub(crate) const fn least_padding(mode: SecurityMode) -> u32 {
    match mode {
        SecurityMode::Open | SecurityMode::Mixed => 27,
        SecurityMode::Authenticated | SecurityMode::Encrypted => 64,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
