//! Code shared by the active measurement protocols OWAMP (RFC 4656) and TWAMP (RFC 5357): set-up and
//! encryption of the control connection, and the messages that request, start and stop sessions.
//!
//! * [`modes`] – open, authenticated, encrypted, mixed
//! * [`setup`], [`message`] – messages in plain text
//! * [`crypto`] – keys, and encryption of the control connection
//! * [`connection`] – one end of the control connection, from the greeting on
//! * [`printed`] – numbers and times as the tools of perfSONAR print them
//! * [`test_keys`] – protection of test packets in the keyed modes
//! * [`users`] – the users of the keyed modes
//!
//! The cryptography is from 2006 (SHA-1, no protection against replay, and a recorded set-up allows
//! passphrases to be guessed), so use it for compatibility only.

pub mod connection;
pub mod crypto;
pub mod message;
pub mod modes;
pub mod printed;
pub mod setup;
pub mod test_keys;
pub mod users;

pub use connection::{AmpConnection, AmpEndReason, AmpFailure, AmpStep, ServerRandom};
pub use message::{AcceptCode, Sid};
pub use modes::{SecurityMode, SecurityModes};
pub use test_keys::{PacketOrigin, TestKeys};
pub use users::Users;
