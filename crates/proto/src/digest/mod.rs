//! Packet digests between hosts: what a capture point on another host reports about packets: a name that is a hash, a
//! time, a length and a direction. No payload leaves that host. Specification: `docs/protocols/digests.md`.
//!
//! * [`wire`] – the messages
//! * [`channel`](crate::channel) – framing, mutual proof of a key, a seal on every frame
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
/// The version of the protocol.
pub const VERSION: u16 = 1;
/// Most bytes of a frame, without its length field.
pub const MAX_FRAME: usize = 1 << 16;
/// Most digests in a frame.
pub(crate) const MAX_ENTRIES: usize = 2048;
/// Most addresses or prefixes in a list.
pub const MAX_PREFIXES: usize = 255;
/// The conversation fails after this time without a message.
pub const SILENCE: Span = Span::seconds(10);
/// Longest interval at which a capture point reports up to which time it is complete.
pub(crate) const BEAT: Span = Span::millis(200);
/// Longest interval at which a collector sends a keep-alive.
pub const ALIVE: Span = Span::seconds(2);
/// What the salt of packet names is derived for.
pub(crate) const SALT: &str = "jitlat digest salt";
