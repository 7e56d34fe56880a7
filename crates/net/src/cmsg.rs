//! Facts that the system reports about each packet: [`ReceivedInfo`] about received packets, [`TransmitStamp`] about those that
//! have left.

use jitlat_core::time::{SECOND, Span, Stamp, WallTime};

#[cfg(target_os = "linux")]
pub use crate::sys::control::{ControlBuffer, ControlMessage, ControlMessages, transmit_stamp};

/// Local address of a packet: the destination of a received packet, or the source of a packet to
/// send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// IPv4 address, in network byte order, and interface index.
    V4([u8; 4], u32),
    /// IPv6 address and interface index.
    V6([u8; 16], u32),
}

/// Facts about a received datagram. `None` for fields that the system did not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedInfo {
    /// Time at which the network stack, or the adapter, received the packet.
    pub stamp: Option<Stamp>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// TOS or traffic-class octet.
    pub traffic_class: Option<u8>,
    /// Number of datagrams dropped at this socket so far because its buffer was full (32-bit, wraps).
    pub drops: Option<u32>,
    /// Destination address of the datagram.
    pub local: Option<LocalAddress>,
    /// True if the datagram was sent to a broadcast or multicast address.
    pub broadcast: bool,
}

/// Point in a packet's transmission at which the kernel took the timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The packet entered the queue of the interface.
    Queued,
    /// The packet left the queue, or the adapter.
    Left,
}

/// Transmit stamp read from an error-queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitStamp {
    /// Number that the kernel gave to the packet.
    pub number: u32,
    /// Point at which the stamp was taken.
    pub passage: Passage,
    /// Time at which the packet reached `passage`.
    pub stamp: Stamp,
}

/// TAI − UTC since 2017. Adapters synchronised by PTP usually run on TAI.
const TAI_OFFSET: Span = Span::seconds(37);

/// Converts an adapter's timestamp to the system clock. This is possible if the adapter's clock runs on UTC
/// or TAI, that is, if the result is within half a second of `system` (the kernel's timestamp, or a clock
/// reading at about the same time); otherwise `None`.
pub(crate) fn on_system_clock(adapter: WallTime, system: WallTime) -> Option<WallTime> {
    let near = |a: &WallTime| (*a - system).0.unsigned_abs() < SECOND.unsigned_abs() / 2;
    [adapter, adapter - TAI_OFFSET].into_iter().find(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_on_tai_or_utc_is_believed_and_no_other() {
        let now = WallTime(1_800_000_000 * SECOND);
        assert_eq!(on_system_clock(now + Span(900), now), Some(now + Span(900)));
        assert_eq!(on_system_clock(now + Span::seconds(37), now), Some(now));
        assert_eq!(on_system_clock(now + Span::seconds(5), now), None);
        assert_eq!(on_system_clock(WallTime(12), now), None);
        assert_eq!(on_system_clock(WallTime(i64::MIN), now), None);
    }
}
