//! Protocol by which a host pushes its tests to a collector. The host offers a test by number and checksum, sends it if the
//! collector requests it, and regards it as settled once it is on the collector's disk.
//! Specification: `docs/protocols/push.md`.
//!
//! * [`wire`] – messages; [`channel`](crate::channel) – framing, mutual authentication with a key, a seal on every frame
//! * [`PushSender`] – state machine of the host that pushes; the collector has its key
//! * [`PushReceiver`] – state machine of the collector
//! * [`Retry`] – pauses between a sender's attempts
//!
//! Each test is stored exactly once: a sender offers a test until it is settled, and a collector that already has it answers
//! that it is known. Neither side needs to remember anything about a connection that broke.

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
/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Maximum length of a frame in bytes, without its length field.
pub const MAX_FRAME: usize = 1 << 16;
/// Maximum number of bytes of a log in a frame.
pub const MAX_PIECE: usize = 60_000;
/// Maximum number of tests that are offered but not settled.
pub const MAX_OPEN: usize = 256;
/// Maximum number of tags of a test.
pub const MAX_TAGS: usize = 64;
/// Time without a message from the far host after which the conversation fails.
pub const SILENCE: Span = Span::seconds(30);
/// Time without a message to send after which each side sends a keep-alive.
pub(crate) const ALIVE: Span = Span::seconds(5);
/// Maximum pause that a collector may request.
pub(crate) const MAX_PAUSE: Span = Span::seconds(3600);
/// Label for deriving the seals' keys from the transcript.
pub(crate) const LABEL: &str = "jitlat push";

/// Returns the maximum compressed size of a log of `length` bytes, for data that cannot be compressed.
pub fn most_packed(length: u64) -> u64 {
    length.saturating_add(length / 128).saturating_add(1024)
}
