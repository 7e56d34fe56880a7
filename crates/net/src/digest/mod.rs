//! Packet digests between hosts: a [`DigestCollector`] receives the digests of a capture point on another
//! host; a [`DigestExporter`] captures packets for collectors.

mod collector;
mod exporter;

pub use collector::{CollectorError, DigestCollector};
pub use exporter::{DigestExporter, ExporterError};

use jitlat_core::spec::CONTROL_PORT;
use jitlat_passive::IpPacket;
use jitlat_passive::packet::TCP;
use std::io;

/// True if the packet belongs to jitlat's own control connections, or carries digests from or to `port`. Such
/// packets are excluded at both points; otherwise every digest message would cause further digests.
#[inline]
pub fn is_own(p: &IpPacket<'_>, port: u16) -> bool {
    let own = |x: u16| x == port || x == CONTROL_PORT;
    p.protocol == TCP && p.ports().is_some_and(|(from, to)| own(from) || own(to))
}

fn entropy() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    crate::random::fill(&mut bytes)?;
    Ok(bytes)
}
