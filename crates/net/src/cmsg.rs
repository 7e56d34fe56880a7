//! Control messages: facts that the kernel reports about each received packet, and options for each packet to
//! send.

use jitlat_core::time::{SECOND, Span, Stamp, StampSource, WallTime};
use std::ffi::{c_int, c_long};

/// One control message.
pub struct ControlMessage<'a> {
    /// Protocol level, as in `setsockopt`.
    pub level: c_int,
    /// Message type within the level.
    pub kind: c_int,
    /// Data after the header.
    pub data: &'a [u8],
}

/// Iterates over received control messages. Each consists of a header (length, level and kind) and data,
/// padded to whole words. Stops at a truncated message.
pub struct ControlMessages<'a>(pub &'a [u8]);

const HEADER: usize = size_of::<libc::cmsghdr>();
const WORD: usize = size_of::<usize>();
/// Offset of the level field in the header.
const LEVEL: usize = HEADER - 8;
/// Offset of the kind field, the last one in the header.
const KIND: usize = HEADER - 4;

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    #[inline]
    fn next(&mut self) -> Option<ControlMessage<'a>> {
        let int = |at: usize| self.0.get(at..)?.first_chunk().map(|b| c_int::from_ne_bytes(*b));
        let length = usize::from_ne_bytes(*self.0.first_chunk()?);
        let (level, kind) = (int(LEVEL)?, int(KIND)?);
        let data = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some(ControlMessage { level, kind, data })
    }
}

/// A buffer for control messages, aligned like the kernel's message headers.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct ControlBuffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> ControlBuffer<N> {
    /// Buffer without messages.
    pub const EMPTY: ControlBuffer<N> = ControlBuffer { bytes: [0; N], length: 0 };

    /// Appends a message. A message that does not fit is a programming error, and is dropped.
    pub fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let size = HEADER + data.len();
        let Some(room) = self.bytes.get_mut(self.length..self.length + size) else { return };
        let (header, body) = room.split_at_mut(HEADER);
        header.fill(0);
        header[..WORD].copy_from_slice(&size.to_ne_bytes());
        header[LEVEL..KIND].copy_from_slice(&level.to_ne_bytes());
        header[KIND..].copy_from_slice(&kind.to_ne_bytes());
        body.copy_from_slice(data);
        self.length = (self.length + size).next_multiple_of(WORD).min(N);
    }

    /// Returns the messages as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the whole buffer for the kernel to write to; [`Self::set_length`] then sets the number of
    /// bytes written.
    pub fn room(&mut self) -> &mut [u8; N] {
        &mut self.bytes
    }

    /// Sets the number of bytes that the kernel wrote.
    pub fn set_length(&mut self, length: usize) {
        self.length = length.min(N);
    }
}

/// Local address in a control message: the destination of a received packet, or the source of a packet to
/// send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// IPv4 address, in network byte order, and interface index.
    V4([u8; 4], u32),
    /// IPv6 address and interface index.
    V6([u8; 16], u32),
}

/// First byte of IPv6 multicast addresses.
const MULTICAST_V6: u8 = 0xff;

/// Byte ranges of the fields of `in_pktinfo` and `in6_pktinfo`.
mod pktinfo {
    use core::ops::Range;
    pub(crate) const V4_LENGTH: usize = 12;
    pub(crate) const V4_INTERFACE: Range<usize> = 0..4;
    /// Local address; it follows the interface index.
    pub(crate) const V4_LOCAL: Range<usize> = 4..8;
    /// Destination address in the packet's header; for broadcasts it differs from the local address.
    pub(crate) const V4_DESTINATION: Range<usize> = 8..12;
    pub(crate) const V6_LENGTH: usize = 20;
    pub(crate) const V6_LOCAL: Range<usize> = 0..16;
    pub(crate) const V6_INTERFACE: Range<usize> = 16..20;
}

impl LocalAddress {
    fn from_v4(info: &[u8]) -> Option<LocalAddress> {
        let interface = info.get(pktinfo::V4_INTERFACE)?.first_chunk()?;
        let address = info.get(pktinfo::V4_LOCAL)?.first_chunk()?;
        Some(LocalAddress::V4(*address, u32::from_ne_bytes(*interface)))
    }

    fn from_v6(info: &[u8]) -> Option<LocalAddress> {
        let interface = info.get(pktinfo::V6_INTERFACE)?.first_chunk()?;
        let address = info.get(pktinfo::V6_LOCAL)?.first_chunk()?;
        Some(LocalAddress::V6(*address, u32::from_ne_bytes(*interface)))
    }

    /// Adds a message to `control` that makes this address the packet's source. With `same_link`, the packet leaves
    /// through this interface whatever the routes are; IPv6 packets always do.
    pub fn write<const N: usize>(self, control: &mut ControlBuffer<N>, same_link: bool) {
        match self {
            LocalAddress::V4(address, interface) => {
                let mut info = [0; pktinfo::V4_LENGTH];
                let interface = if same_link { interface } else { 0 };
                info[pktinfo::V4_INTERFACE].copy_from_slice(&interface.to_ne_bytes());
                info[pktinfo::V4_LOCAL].copy_from_slice(&address);
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            LocalAddress::V6(address, interface) => {
                let mut info = [0; pktinfo::V6_LENGTH];
                info[pktinfo::V6_LOCAL].copy_from_slice(&address);
                info[pktinfo::V6_INTERFACE].copy_from_slice(&interface.to_ne_bytes());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }
}

/// Contents of the control messages of a received datagram. `None` for fields that the kernel did not report.
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

impl ReceivedInfo {
    /// Parses control messages in the kernel's layout. Unknown or truncated messages are skipped.
    #[inline]
    pub fn parse(control: &[u8]) -> ReceivedInfo {
        let mut info = ReceivedInfo::default();
        for message in ControlMessages(control) {
            match (message.level, message.kind) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => info.stamp = received_stamp(message.data),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    info.drops = message.data.first_chunk().map(|b| u32::from_ne_bytes(*b));
                }
                // The kernel writes the TOS as one byte and the other values as an int.
                (libc::IPPROTO_IP, libc::IP_TOS) => info.traffic_class = message.data.first().copied(),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    info.ttl = int_octet(message.data);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => info.traffic_class = int_octet(message.data),
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    info.local = LocalAddress::from_v4(message.data);
                    let to = message.data.get(pktinfo::V4_DESTINATION);
                    info.broadcast = to.is_some_and(|to| Some(to) != message.data.get(pktinfo::V4_LOCAL));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    info.local = LocalAddress::from_v6(message.data);
                    info.broadcast = message.data.first() == Some(&MULTICAST_V6);
                }
                _ => {}
            }
        }
        info
    }
}

fn int_octet(data: &[u8]) -> Option<u8> {
    data.first_chunk().and_then(|b| u8::try_from(c_int::from_ne_bytes(*b)).ok())
}

/// Returns the three times of an `SCM_TIMESTAMPING` message: software, unused, raw hardware. An
/// `SCM_TIMESTAMPNS` message has only the first.
#[inline]
pub(crate) fn instants(data: &[u8]) -> [Option<WallTime>; 3] {
    // On 32-bit processors a time has two fields of 32 bits, or of 64 bits if the C library asked for them.
    instants_of(data, size_of::<c_long>() == 8 || data.len().is_multiple_of(16))
}

/// Like [`instants`], for fields of 64 bits (`wide`) or of 32 bits.
#[inline]
fn instants_of(data: &[u8], wide: bool) -> [Option<WallTime>; 3] {
    let field = |i: usize| -> Option<i64> {
        if wide {
            return data.get(i * 8..)?.first_chunk().map(|bytes| i64::from_ne_bytes(*bytes));
        }
        // Without a sign, so that the seconds last until 2106 and not until 2038: no packet arrived before 1970.
        data.get(i * 4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into())
    };
    [0, 1, 2].map(|i| {
        let (s, ns) = (field(2 * i)?, field(2 * i + 1)?);
        // The kernel writes zeros for a time that it did not take.
        (s != 0 || ns != 0).then(|| WallTime(s.saturating_mul(SECOND).saturating_add(ns)))
    })
}

fn received_stamp(data: &[u8]) -> Option<Stamp> {
    let [software, _, hardware] = instants(data);
    match (software, hardware) {
        (Some(system), Some(adapter)) => match on_system_clock(adapter, system) {
            Some(at) => Some(Stamp { at, source: StampSource::Hardware }),
            None => Some(Stamp { at: system, source: StampSource::Kernel }),
        },
        (Some(at), None) => Some(Stamp { at, source: StampSource::Kernel }),
        // Without another time for comparison, it is unknown whether the adapter's clock follows the system
        // clock.
        (None, _) => None,
    }
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

/// Type of the control messages that report transmit stamps on packet sockets; IP sockets use `…_RECVERR`.
const PACKET_TX_TIMESTAMP: c_int = 16;

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

/// Reads the transmit stamp of an error-queue entry; `None` for other entries.
pub fn transmit_stamp(control: &[u8]) -> Option<TransmitStamp> {
    let mut stamp = None;
    let mut which = None;
    for message in ControlMessages(control) {
        match (message.level, message.kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                let [software, _, hardware] = instants(message.data);
                // Software and adapter stamps arrive in separate entries, so only one of both is set.
                let software = software.map(|at| Stamp { at, source: StampSource::Kernel });
                stamp = software.or(hardware.map(|at| Stamp { at, source: StampSource::Hardware }));
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR)
            | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => {
                which = departed_packet(message.data);
            }
            _ => {}
        }
    }
    let (number, passage) = which?;
    Some(TransmitStamp { number, passage, stamp: stamp? })
}

/// Value of `SO_EE_ORIGIN_TXTIME`.
const ORIGIN_LAUNCH_TIME: u8 = 6;

/// True if an error-queue entry reports that a packet was not sent because its launch time had passed or
/// could not be met.
pub(crate) fn is_launch_missed(control: &[u8]) -> bool {
    ControlMessages(control).any(|message| {
        let is_error = matches!(
            (message.level, message.kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        is_error && message.data.get(4) == Some(&ORIGIN_LAUNCH_TIME)
    })
}

/// Reads `ee_data` and `ee_info` of a `sock_extended_err` whose origin is timestamping: the packet's number, and the
/// point at which it was stamped. `None` for other origins and points.
fn departed_packet(extended_error: &[u8]) -> Option<(u32, Passage)> {
    // Values of the kernel's `SCM_TSTAMP_…`.
    const LEFT: u32 = 0;
    const QUEUED: u32 = 1;
    let [_, _, _, _, origin, _, _, _, info @ .., d0, d1, d2, d3] = extended_error.first_chunk::<16>()?;
    if *origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let passage = match u32::from_ne_bytes(*info) {
        LEFT => Passage::Left,
        QUEUED => Passage::Queued,
        _ => return None,
    };
    Some((u32::from_ne_bytes([*d0, *d1, *d2, *d3]), passage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut control = ControlBuffer::<128>::EMPTY;
        let local = LocalAddress::V6([7; 16], 3);
        local.write(&mut control, false);
        control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &184i32.to_ne_bytes());
        let info = ReceivedInfo::parse(control.as_bytes());
        assert_eq!((info.local, info.traffic_class), (Some(local), Some(184)));
        // The interface is only written for answers that must leave through it.
        for (same_link, interface) in [(false, 0), (true, 3)] {
            let mut control = ControlBuffer::<32>::EMPTY;
            LocalAddress::V4([10, 0, 0, 1], 3).write(&mut control, same_link);
            let local = ReceivedInfo::parse(control.as_bytes()).local;
            assert_eq!(local, Some(LocalAddress::V4([10, 0, 0, 1], interface)));
        }
    }

    /// The layout of i686 and armv7, and that of 64-bit processors.
    #[test]
    fn stamps_have_either_width_and_last_beyond_2038() {
        let seconds_of = |year: u64| (year - 1970) * 31_556_952;
        for (year, narrow_too) in [(2026, true), (2037, true), (2039, true), (2105, true), (2107, false)] {
            let seconds = seconds_of(year);
            let wide: Vec<u8> =
                [seconds, 7, 0, 0, 0, 0].iter().flat_map(|field| field.to_ne_bytes()).collect();
            let narrow: Vec<u8> =
                [seconds, 7, 0, 0, 0, 0].iter().flat_map(|field| (*field as u32).to_ne_bytes()).collect();
            let expected = Some(WallTime(seconds as i64 * SECOND + 7));
            assert_eq!(instants_of(&wide, true), [expected, None, None], "{year}");
            assert_eq!(instants_of(&narrow, false)[0] == expected, narrow_too, "{year}");
            assert_eq!(instants_of(&narrow[..8], false), [instants_of(&narrow, false)[0], None, None]);
        }
        assert_eq!(instants_of(&[0; 24], false), [None; 3]);
        assert_eq!(instants_of(&[1; 7], false), [None; 3]);
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let mut control = ControlBuffer::<40>::EMPTY;
        control.push(1, 2, &[3; 8]);
        let before = control.as_bytes().to_vec();
        control.push(4, 5, &[6; 8]);
        assert_eq!(control.as_bytes(), before);
        let messages: Vec<_> = ControlMessages(&before).map(|m| (m.level, m.kind, m.data.to_vec())).collect();
        assert_eq!(messages, [(1, 2, vec![3; 8])]);
    }

    #[test]
    fn control_messages_of_any_shape_are_survived() {
        for length in 0..80usize {
            let mut bytes = vec![0xff; 64];
            ReceivedInfo::parse(&bytes);
            bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(ReceivedInfo::parse(&bytes), ReceivedInfo::default());
            assert_eq!(transmit_stamp(&bytes), None);
            assert_eq!(ReceivedInfo::parse(&bytes[..length.min(64)]), ReceivedInfo::default());
        }
        assert_eq!(ReceivedInfo::parse(&[]), ReceivedInfo::default());
    }

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
