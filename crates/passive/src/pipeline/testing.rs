//! Packets for the tests of the pipeline.

use crate::{Frame, LinkType, Sides};
use core::net::IpAddr;
use jitlat_core::prefix::Prefix;
use jitlat_core::time::WallTime;

/// Address of host `n`.
pub fn host(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// Sides with host 1 behind the reference point and host 2 behind the monitor point.
pub fn sides() -> Sides {
    let alone = |n| -> Vec<Prefix> { vec![host(n).into()] };
    Sides { reference: alone(1), monitor: alone(2) }
}

/// Builds an IPv4 packet of this protocol from one host to another.
pub fn packet(protocol: u8, (src, dst): (u8, u8), ident: u16, transport: &[u8]) -> Vec<u8> {
    let mut v = vec![0x45, 0];
    v.extend((20 + transport.len() as u16).to_be_bytes());
    v.extend(ident.to_be_bytes());
    v.extend([0x40, 0, 64, protocol, 0, 0, 10, 0, 0, src, 10, 0, 0, dst]);
    v.extend(transport);
    v
}

/// Builds a UDP packet of port 5000 with `payload`.
pub fn udp(ends: (u8, u8), ident: u16, payload: &[u8]) -> Vec<u8> {
    let mut v = vec![0x13, 0x88, 0x13, 0x88];
    v.extend((8 + payload.len() as u16).to_be_bytes());
    v.extend([0, 0]);
    v.extend(payload);
    packet(17, ends, ident, &v)
}

/// Builds an ICMP echo request, or its reply.
pub fn echo(ends: (u8, u8), request: bool) -> Vec<u8> {
    packet(1, ends, 7, &[if request { 8 } else { 0 }, 0, 0, 0, 0, 9, 0, 1])
}

/// Wraps a packet in a frame without a link layer, captured whole.
pub fn frame(at: i64, data: &[u8]) -> Frame<'_> {
    Frame { at: WallTime(at), link: LinkType::RAW, wire_length: data.len() as u32, data }
}
