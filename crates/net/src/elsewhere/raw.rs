//! Packets in whole Ethernet frames, which only Linux lets a program send.

use crate::elsewhere::refusal;
use crate::lamp_frame::LampLink;
use crate::stamp::StampMode;
use crate::twoway::socket::{Marking, PreparedSocket};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

/// Puts packets into frames; on this system nothing does.
pub struct PacketFraming(Infallible);

/// A packet extracted from a frame.
pub(crate) struct Unwrapped<'a> {
    pub payload: &'a [u8],
    pub ttl: Option<u8>,
    pub traffic_class: Option<u8>,
}

impl PacketFraming {
    /// Returns a frame that contains a packet.
    pub fn wrap(&mut self, _: &[u8]) -> &[u8] {
        match self.0 {}
    }

    /// Returns the packet in a frame.
    pub(crate) fn unwrap<'a>(&self, _: &'a [u8]) -> Option<Unwrapped<'a>> {
        match self.0 {}
    }
}

/// Returns an error.
///
/// # Errors
/// Always.
pub fn open(_: SocketAddr, _: &Marking, _: StampMode, _: usize) -> io::Result<PreparedSocket> {
    Err(refusal("sending whole frames (--raw)"))
}

/// Returns an error.
///
/// # Errors
/// Always.
pub fn open_ethernet(
    _: LampLink,
    _: SocketAddr,
    _: &Marking,
    _: StampMode,
    _: usize,
) -> io::Result<PreparedSocket> {
    Err(refusal("LaMP without IP"))
}
