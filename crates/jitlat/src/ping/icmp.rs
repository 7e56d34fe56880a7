//! ICMP and ICMPv6 echo.

use super::measure::{Found, Setting, gather};
use anyhow::Result;
use jitlat_net::twoway;
use jitlat_proto::echo::{Echo, Family, HEADER_LEN};

/// Measures.
pub fn measure(s: &Setting<'_>) -> Result<Found> {
    let family = if s.link.to.is_ipv4() { Family::V4 } else { Family::V6 };
    let make = |kernel: bool| Echo::new(family, (!kernel).then_some(s.id), s.mark, s.size - HEADER_LEN);
    let measured = twoway::run(make, s.plan.clone(), &s.link, s.stop)?;
    Ok(gather(s, measured, |_| Vec::new()))
}
