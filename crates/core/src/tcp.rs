//! [`TcpMoment`]: state of a sending TCP connection at a moment of a stream, from the kernel's TCP_INFO.

use crate::time::Span;
use serde::{Deserialize, Serialize};

/// State of a sending TCP connection at one moment. Retransmissions, and the times for which the connection was busy or
/// limited, are totals since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TcpMoment {
    /// Time since the first packet of the stream was sent.
    pub at: Span,
    /// Congestion window, in segments.
    pub window: u32,
    /// True in slow start: the congestion window is below the slow-start threshold.
    pub slow_start: bool,
    /// Number of segments that were sent but not yet acknowledged.
    pub unacknowledged: u32,
    /// Number of bytes that the connection accepted from the program but has not yet sent.
    pub unsent: u32,
    /// Smoothed round-trip time, in µs.
    pub round_trip_us: u32,
    /// Number of segments that were retransmitted.
    pub retransmissions: u32,
    /// Time for which the connection had data to send, in µs.
    pub busy_us: u64,
    /// Time for which the receive window limited the connection, in µs.
    pub receive_window_us: u64,
    /// Time for which the size of the send buffer limited the connection, in µs.
    pub send_buffer_us: u64,
}

impl TcpMoment {
    /// Length of the binary form, in bytes.
    pub const LEN: usize = 53;

    /// Encodes the moment in network byte order.
    pub fn to_bytes(&self) -> [u8; TcpMoment::LEN] {
        let mut out = [0; TcpMoment::LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.at.0.to_be_bytes());
        put(&self.window.to_be_bytes());
        put(&[u8::from(self.slow_start)]);
        [self.unacknowledged, self.unsent, self.round_trip_us, self.retransmissions]
            .iter()
            .for_each(|n| put(&n.to_be_bytes()));
        [self.busy_us, self.receive_window_us, self.send_buffer_us]
            .iter()
            .for_each(|n| put(&n.to_be_bytes()));
        out
    }

    /// Decodes the binary form.
    pub fn from_bytes(bytes: &[u8; TcpMoment::LEN]) -> TcpMoment {
        let four = |at: usize| u32::from_be_bytes(core::array::from_fn(|k| bytes[at + k]));
        let eight = |at: usize| u64::from_be_bytes(core::array::from_fn(|k| bytes[at + k]));
        TcpMoment {
            at: Span(eight(0) as i64),
            window: four(8),
            slow_start: bytes[12] != 0,
            unacknowledged: four(13),
            unsent: four(17),
            round_trip_us: four(21),
            retransmissions: four(25),
            busy_us: eight(29),
            receive_window_us: eight(37),
            send_buffer_us: eight(45),
        }
    }
}

/// Maximum number of moments of a stream. When there are more, every second one is removed and the interval doubles.
pub const MAX_TCP_MOMENTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_from_its_bytes() {
        let before = TcpMoment {
            at: Span(1_234_567_890_123),
            window: 10,
            slow_start: true,
            unacknowledged: 9,
            unsent: 70_000,
            round_trip_us: 3_200_000,
            retransmissions: 3,
            busy_us: 1 << 40,
            receive_window_us: 5,
            send_buffer_us: 6,
        };
        assert_eq!(TcpMoment::from_bytes(&before.to_bytes()), before);
    }
}
