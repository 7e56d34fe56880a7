//! TWAMP (RFC 5357 on RFC 4656, with the mixed mode of RFC 5618): a control conversation on TCP that
//! agrees on test sessions, and test packets in the layouts of [`stamp`](crate::stamp::packet), which the
//! keyed modes encrypt.
//!
//! * [`message`] – the control messages in plain text
//! * [`crypto`] – keys, and the control connection as a pair of encrypted streams
//! * [`test`] – what the keyed modes do to test packets
//! * [`client`] – asks for sessions, starts and stops them
//! * [`server`] – grants them
//! * [`sender`], [`reflector`] – the two ends of a granted session
//! * [`users`] – who may use the keyed modes
//!
//! The cryptography is of 2006 (SHA-1, no protection against replay, passphrases that can be guessed from
//! one recorded set-up): it is here for those who have to use it, not to be recommended.

pub mod client;
pub mod crypto;
pub mod message;
pub mod reflector;
pub mod sender;
pub mod server;
pub mod test;
pub mod users;

pub use client::{Client, Failure, Wish};
pub use message::{Accept, Mode, Modes, Sid};
pub use reflector::SessionReflector;
pub use sender::Sender;
pub use server::{Rules, Server};
pub use test::TestKeys;
pub use users::Users;

/// TCP port of the control server (RFC 5357 §8, RFC 8545).
pub const PORT: u16 = 862;

/// Padding that makes request and answer equally long: what a request is shorter by without any. The
/// default, and the least that is granted.
pub const fn least_padding(mode: Mode) -> u32 {
    match mode {
        Mode::Open | Mode::Mixed => 27,
        Mode::Authenticated | Mode::Encrypted => 64,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
