//! What the two active measurement protocols OWAMP (RFC 4656) and TWAMP (RFC 5357) share: the set-up of the control
//! connection, its protection, and the messages that request, start and stop sessions.
//!
//! * [`modes`] – open, authenticated, encrypted, mixed
//! * [`setup`], [`message`] – the messages in plain text
//! * [`crypto`] – keys, and the control connection as a pair of encrypted streams
//! * [`connection`] – one end of the control connection, from the greeting on
//! * [`test_keys`] – what the keyed modes do to test packets
//! * [`users`] – who may use the keyed modes
//!
//! The cryptography is from 2006 (SHA-1, no protection against replay, passphrases that can be guessed from one
//! recorded set-up): it is for compatibility, and not recommended.

pub mod connection;
pub mod crypto;
pub mod message;
pub mod modes;
pub mod setup;
pub mod test_keys;
pub mod users;

pub use connection::{AmpConnection, AmpEndReason, AmpFailure, AmpStep, ServerRandom};
pub use message::{AcceptCode, Sid};
pub use modes::{SecurityMode, SecurityModes};
pub use test_keys::{PacketOrigin, TestKeys};
pub use users::Users;
