//! Packet digests between hosts: [`DigestCollector`] collects those of a capture point far away, a
//! [`DigestExporter`] captures for others.

mod collector;
mod exporter;

pub use collector::{CollectorError, DigestCollector};
pub use exporter::{DigestExporter, ExporterError, RunningExporter};

use jitlat_core::passive::Packet;
use jitlat_core::passive::packet::TCP;
use jitlat_core::spec::CONTROL_PORT;
use std::io;

/// Whether a packet belongs to measuring itself: a control conversation, or digests sent to `port`. Such are
/// left out where they are captured, at both points, or every digest sent would make another.
#[inline]
pub fn is_own(p: &Packet<'_>, port: u16) -> bool {
    let own = |x: u16| x == port || x == CONTROL_PORT;
    p.protocol == TCP && p.ports().is_some_and(|(from, to)| own(from) || own(to))
}

fn nonce() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    crate::random::fill(&mut bytes)?;
    Ok(bytes)
}
