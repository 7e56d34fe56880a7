//! The test packet: transmit time (8 bytes), sequence number (4 bytes), padding (DRDC TM 2011-047, section 4.3.4).

use jitlat_core::WallTime;

/// Length of the header in bytes, which is also the minimum length of a packet.
pub const HEADER_LEN: usize = jitlat_core::spec::HEADER_LEN as usize;
/// Sequence number of the packets that end a stream.
pub(crate) const SENTINEL: i32 = -1;
/// Sequence number of a greeting, which opens a version-3 test path. The time field of a greeting contains
/// the flow's token.
pub const HELLO: i32 = -2;

/// Header of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Time at which the sender read its clock, in ns since 1970 UTC.
    pub sent: WallTime,
    /// Sequence number, counted from 0. `SENTINEL` and [`HELLO`] are not data packets.
    pub seq: i32,
}

mod field {
    use crate::wire::Field;
    pub const TIME: Field<i64> = Field::at(0);
    pub(crate) const SEQ: Field<i32> = TIME.then();
}

impl PacketHeader {
    /// Creates a greeting for the flow with this token.
    pub fn hello(token: u64) -> PacketHeader {
        PacketHeader { sent: WallTime(token as i64), seq: HELLO }
    }

    /// Returns the token of a greeting; `None` if this is not a greeting.
    pub fn hello_token(&self) -> Option<u64> {
        (self.seq == HELLO).then_some(self.sent.0 as u64)
    }

    /// Parses the header at the front of `packet`; `None` if the packet is too short.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<PacketHeader> {
        Some(PacketHeader { seq: field::SEQ.read(packet)?, sent: WallTime(field::TIME.read(packet)?) })
    }

    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        field::TIME.write(&mut bytes, self.sent.0);
        field::SEQ.write(&mut bytes, self.seq);
        bytes
    }

    /// Writes the header to the front of `packet`, and leaves the padding unchanged. Does nothing if the
    /// buffer is too short.
    #[inline]
    pub fn write(self, packet: &mut [u8]) {
        if let Some(front) = packet.first_chunk_mut() {
            *front = self.to_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked example in docs/protocols/jitlat-classic.md: the first packet in Figure 6 of the source
    /// document.
    const FIRST: [u8; 12] = [0x11, 0x4c, 0xfd, 0xdf, 0x13, 0x0d, 0xb4, 0x90, 0, 0, 0, 0];

    #[test]
    fn deconstruct_and_construct() {
        let header = PacketHeader { sent: WallTime(1_246_650_331_413_984_400), seq: 0 };
        assert_eq!(header.to_bytes(), FIRST);
        assert_eq!(PacketHeader::parse(&FIRST), Some(header));
        assert_eq!(PacketHeader::parse(&[0; 11]), None);
    }

    #[test]
    fn writing_keeps_the_padding() {
        let mut packet = [0xaa; 16];
        PacketHeader { sent: WallTime(-1), seq: SENTINEL }.write(&mut packet);
        assert_eq!(packet[..12], [0xff; 12]);
        assert_eq!(packet[12..], [0xaa; 4]);
        PacketHeader { sent: WallTime(-1), seq: SENTINEL }.write(&mut [0; 3]);
    }

    #[test]
    fn a_greeting_carries_its_token() {
        let hello = PacketHeader::hello(u64::MAX - 1);
        assert_eq!(PacketHeader::parse(&hello.to_bytes()).and_then(|h| h.hello_token()), Some(u64::MAX - 1));
        assert_eq!(PacketHeader { sent: WallTime(0), seq: 3 }.hello_token(), None);
    }
}
