//! Packet digests: what a capture point on another host reports of the packets it sees – a name that is a hash,
//! a time, a length and a direction. No payload leaves that host. `docs/protocols/digests.md` has the whole.
//!
//! * [`wire`] – the messages
//! * [`channel`] – framing, mutual proof of a key, a seal on every frame
//! * [`Collector`] – the side that wants to know (the host that runs `jitlat spp`)
//! * [`Exporter`] – the side that captures (the host that runs `jitlat serve --capture`)

pub mod channel;
mod collector;
mod exporter;
pub mod wire;

#[cfg(test)]
mod tests;

pub use channel::DigestError;
pub use collector::{Collector, CollectorEvent, CollectorInput};
pub use exporter::{Exporter, ExporterEvent, ExporterInput};
pub use wire::{Digest, Entries, Listen, Message, Refusal, Rule, Totals};

use jitlat_core::time::Span;

/// The TCP port where digests are asked for.
pub const PORT: u16 = 2669;
/// The version of the protocol.
pub const VERSION: u16 = 1;
/// Most bytes of a frame, its length field not counted.
pub const MAX_FRAME: usize = 1 << 16;
/// Most digests of a frame.
pub const MAX_ENTRIES: usize = 2048;
/// Most addresses or prefixes in a list.
pub const MAX_PREFIXES: usize = 255;
/// Silence after which the other side is given up.
pub const SILENCE: Span = Span::seconds(10);
/// A capture point says at least so often up to which time it has reported everything.
pub const BEAT: Span = Span::millis(200);
/// A collector says at least so often that it is there.
pub const ALIVE: Span = Span::seconds(2);
