//! Tests pushed to a collector: each is named by its number and checksum first, sent if it is wanted, and settled once it is on the collector's disk.
//! Specification: `docs/protocols/push.md`.
//!
//! * [`wire`] – the messages; [`channel`](crate::channel) – framing, mutual proof of a key, a seal on every frame
//! * [`PushSender`] – the side that has tests, of which the collector knows the key
//! * [`PushReceiver`] – the collector
//! * [`Retry`] – when a sender tries again
//!
//! Exactly once: a sender offers what it does not know to be settled, as often as it takes; a collector that has it says so. Neither
//! side has to remember anything of a connection that broke.

mod error;
mod receiver;
mod retry;
mod sender;
pub mod wire;

#[cfg(test)]
mod tests;

pub use error::PushError;
pub use receiver::{PushReceiver, ReceiverEvent, ReceiverInput};
pub use retry::Retry;
pub use sender::{PushSender, SenderEvent, SenderInput};
pub use wire::{About, PushMessage, PushOffer, PushOutcome, PushRefusal, SpoolState};

use jitlat_core::time::Span;

/// TCP port of collectors.
pub const PORT: u16 = 2670;
/// The version of the protocol.
pub const VERSION: u16 = 1;
/// Most bytes of a frame, without its length field.
pub const MAX_FRAME: usize = 1 << 16;
/// Most bytes of a log in a frame.
pub const MAX_PIECE: usize = 60_000;
/// Most tests that are offered and not settled.
pub const MAX_OPEN: usize = 256;
/// Most tags of a test.
pub const MAX_TAGS: usize = 64;
/// The conversation fails after this time without a message.
pub const SILENCE: Span = Span::seconds(30);
/// Longest interval at which each side says that it is still there.
pub(crate) const ALIVE: Span = Span::seconds(5);
/// Longest pause that a collector may ask for.
pub(crate) const MAX_PAUSE: Span = Span::seconds(3600);
/// What the seals are derived for, beside the transcript.
pub(crate) const LABEL: &str = "jitlat push";

/// The most bytes that a log of `length` bytes may take as it is sent: no compression makes more of it.
pub fn most_packed(length: u64) -> u64 {
    length.saturating_add(length / 128).saturating_add(1024)
}
