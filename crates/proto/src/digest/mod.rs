//! Packet digests between hosts: a capture point on another host reports the hash, time, length and direction
//! of each packet. Payloads never leave that host. Specification: `docs/protocols/digests.md`.
//!
//! * [`wire`] – the messages
//! * [`channel`](crate::channel) – framing, mutual proof of the key, seals on frames
//! * [`Collector`] – the side that requests digests (the host that runs `jitlat spp`)
//! * [`Exporter`] – the side that captures (the host that runs `jitlat serve --capture`)

mod collector;
mod error;
mod exporter;
pub mod wire;

#[cfg(test)]
mod tests;

pub use collector::{Collector, CollectorEvent, CollectorInput};
pub use error::DigestError;
pub use exporter::{Exporter, ExporterEvent, ExporterInput};
pub use wire::{CaptureTotals, Digest, DigestMessage, DigestRefusal, DigestRule, Entries, Listen};

use jitlat_core::time::Span;

/// TCP port of the digest service.
pub const PORT: u16 = 2669;
/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Maximum length of a frame in bytes, without the length field.
pub const MAX_FRAME: usize = 1 << 16;
/// Maximum number of digests in a frame.
pub(crate) const MAX_ENTRIES: usize = 2048;
/// Maximum number of addresses or prefixes in a list.
pub const MAX_PREFIXES: usize = 255;
/// Time without a message after which the conversation fails.
pub const SILENCE: Span = Span::seconds(10);
/// Maximum interval between an exporter's reports of the time up to which its digests are complete.
pub(crate) const BEAT: Span = Span::millis(200);
/// Maximum interval between a collector's keep-alives.
pub const ALIVE: Span = Span::seconds(2);
/// Label for deriving the salt of packet identities.
pub(crate) const SALT: &str = "jitlat digest salt";
