//! [`RtpPacket`]: header of a datagram that may be RTP (RFC 3550 §5.1).

/// Payload type of comfort noise (RFC 3389).
const COMFORT_NOISE: u8 = 13;
/// Payload type of comfort noise in older systems.
const OLD_COMFORT_NOISE: u8 = 19;
/// Payload types that are not used on a port shared with RTCP: with the marker bit they look like RTCP (RFC 5761 §4).
const RESERVED: core::ops::RangeInclusive<u8> = 64..=95;
/// Length of the fixed header, in bytes.
const HEADER: usize = 12;
/// Length of one telephone event, in bytes (RFC 4733 §2.3).
const EVENT: u32 = 4;

/// Fields of an RTP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPacket {
    /// True if the marker bit is set: for the first packet after a silence, or the last packet of a video frame.
    pub marker: bool,
    /// Payload type.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp, in units of the media clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Length of the payload on the wire, including any padding, in bytes.
    pub payload_length: u32,
}

impl RtpPacket {
    /// Reads the header of a datagram of `length` bytes, of which `data` was captured. `None` if it cannot be RTP.
    #[inline]
    pub fn parse(data: &[u8], length: u32) -> Option<RtpPacket> {
        let header = data.first_chunk::<HEADER>()?;
        let [flags, kind, s0, s1, t0, t1, t2, t3, i0, i1, i2, i3] = *header;
        let payload_type = kind & 0x7f;
        if flags >> 6 != 2 || RESERVED.contains(&payload_type) {
            return None;
        }
        let mut at = HEADER + 4 * usize::from(flags & 15);
        if flags & 0x10 != 0 {
            // The length of a header extension is in words of four bytes, without its own first word.
            at += match data.get(at + 2..at + 4) {
                Some(words) => 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]])),
                None => 4,
            };
        }
        let payload_length = length.checked_sub(u32::try_from(at).ok()?)?;
        if flags & 0x20 != 0 && payload_length == 0 {
            return None;
        }
        Some(RtpPacket {
            marker: kind & 0x80 != 0,
            payload_type,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([i0, i1, i2, i3]),
            payload_length,
        })
    }

    /// True if the payload is comfort noise.
    pub(super) fn is_comfort_noise(&self) -> bool {
        matches!(self.payload_type, COMFORT_NOISE | OLD_COMFORT_NOISE)
    }

    /// True if the meaning of the payload type is agreed per call (RFC 3551 §3).
    pub(super) fn is_dynamic(&self) -> bool {
        self.payload_type >= 96
    }

    /// True if the payload has the length of a telephone event.
    pub(super) fn is_as_long_as_an_event(&self) -> bool {
        self.payload_length == EVENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_read_with_its_sources_and_extension() {
        let plain = [0x80, 0x80, 0x12, 0x34, 0, 0, 0, 160, 1, 2, 3, 4, 9, 9];
        let p = RtpPacket::parse(&plain, 14).unwrap();
        assert_eq!((p.marker, p.payload_type, p.sequence), (true, 0, 0x1234));
        assert_eq!((p.timestamp, p.ssrc, p.payload_length), (160, 0x0102_0304, 2));
        let mut long = plain[..12].to_vec();
        long[0] = 0x91;
        long.extend([0, 0, 0, 7, 0xbe, 0xde, 0, 1, 0x10, 0, 0, 0, 9, 9, 9]);
        assert_eq!(RtpPacket::parse(&long, 27).unwrap().payload_length, 3);
        // A snap length after the fixed header leaves the fields intact.
        assert_eq!(RtpPacket::parse(&long[..12], 27).unwrap().payload_length, 7);
    }

    #[test]
    fn what_cannot_be_rtp_is_refused() {
        let with = |flags: u8, kind: u8| RtpPacket::parse(&[flags, kind, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], 12);
        assert!(with(0x80, 0).is_some());
        assert!(with(0x40, 0).is_none() && with(0xc0, 0).is_none(), "other versions");
        // Sender and receiver reports, descriptions, extended reports.
        assert!([200, 201, 202, 207].iter().all(|kind| with(0x80, *kind).is_none()));
        assert!(with(0x81, 0).is_none(), "the list of sources is beyond the end");
        assert!(with(0x90, 0).is_none(), "the extension is beyond the end");
        assert!(with(0xa0, 0).is_none(), "padding without a byte that counts it");
        assert!(RtpPacket::parse(&[0x80; 11], 11).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..80), length: u32) {
            if let Some(p) = RtpPacket::parse(&data, length) {
                prop_assert!(p.payload_length <= length);
            }
        }
    }
}
