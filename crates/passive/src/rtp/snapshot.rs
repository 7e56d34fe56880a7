//! [`RtpSnapshot`]: figures of streams that have not ended.

use super::figures::{RtpCall, RtpStream};
use jitlat_core::time::Span;

/// Figures so far of the streams that have not ended.
#[derive(Clone, Debug, Default)]
pub struct RtpSnapshot {
    streams: Vec<RtpStream>,
    calls: Vec<RtpCall>,
}

impl RtpSnapshot {
    pub(super) fn new(streams: Vec<RtpStream>, calls: Vec<RtpCall>) -> RtpSnapshot {
        RtpSnapshot { streams, calls }
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.streams.iter().position(|s| s.number == number)
    }

    /// Returns the figures of the stream with this number; `None` if it has ended.
    pub fn stream(&self, number: u64) -> Option<&RtpStream> {
        self.streams.get(self.position(number)?)
    }

    fn call(&self, number: u64) -> Option<&RtpCall> {
        let position = self.position(number)?;
        self.calls.iter().find(|call| call.streams.iter().any(|s| s.stream == position))
    }

    /// Returns the smallest round trip between the ends of a stream, from RTCP; `None` if unknown.
    pub fn round_trip(&self, number: u64) -> Option<Span> {
        self.call(number)?.round_trip_ns
    }

    /// Returns the Call-ID of the call of a stream; `None` if the call is not signalled.
    pub fn call_id(&self, number: u64) -> Option<&str> {
        Some(self.call(number)?.signalling.as_ref()?.call_id.as_str())
    }
}
