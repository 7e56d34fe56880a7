//! Cisco IP SLA: UDP jitter and UDP echo. A control message asks a responder to open a port for a while; probes to
//! that port come back with the responder's times and its own number of each answer.
//!
//! Two versions exist. Routers send version 1, which Cisco does not document: the formats here are taken from
//! recorded conversations (docs/protocols/ipsla.md). Version 2 is RFC 6812.
//!
//! * [`v1`], [`v2`] – control messages
//! * [`auth`] – keys of version 2
//! * [`probe`] – probes and their answers
//! * [`client`] – asks for the port, sends probes, parses answers
//! * [`responder`] – opens ports and answers probes, within configured limits

pub mod auth;
pub mod client;
pub mod probe;
pub mod responder;
pub mod v1;
pub mod v2;

use std::ops::RangeInclusive;

pub use auth::{AuthMode, IpslaKey, IpslaKeys};
pub use client::{Client, IpslaFailure, IpslaOptions};
pub use probe::ProbeForm;
pub use responder::{Responder, ResponderRules, SESSION_BYTES};

/// UDP port of control messages on Cisco devices. RFC 6812 §3.1 names 1167 instead, which no recorded device uses.
pub const PORT: u16 = 1967;

/// Default range of the ports that a responder opens: the ports that Cisco devices use for voice, below Linux's range of
/// ephemeral ports.
pub const TEST_PORTS: RangeInclusive<u16> = 16_384..=32_767;

/// UDP ports of other services of this project. A responder never opens them, whatever its range: the wildcard address of
/// the port would be in use, so that one-way tests and other services fail.
pub const SERVICE_PORTS: [u16; 14] = [
    PORT,
    jitlat_core::spec::CONTROL_PORT,
    jitlat_core::spec::TEST_PORT,
    crate::reqresp::PORT,
    crate::digest::PORT,
    crate::push::PORT,
    crate::irtt::PORT,
    crate::iperf3::PORT,
    crate::lamp::PORT,
    crate::lamp::RAW_PORT,
    crate::owamp::PORT,
    crate::stamp::PORT,
    crate::twamp::PORT,
    crate::discovery::PORT,
];

/// Version of control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpslaVersion {
    /// Version that routers send by default.
    #[default]
    V1,
    /// RFC 6812.
    V2,
}

/// Reads the big-endian 16-bit number at `at`; `None` if the packet ends before.
fn u16_at(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Reads the big-endian 32-bit number at `at`; `None` if the packet ends before.
fn u32_at(packet: &[u8], at: usize) -> Option<u32> {
    packet.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Reads the big-endian 64-bit number at `at`; `None` if the packet ends before.
fn u64_at(packet: &[u8], at: usize) -> Option<u64> {
    packet.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Writes `bytes` at `at`, as far as the packet reaches.
fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
    packet.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
