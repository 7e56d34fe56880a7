//! The test packet: 8 bytes transmit time, 4 bytes sequence number, padding (seed §4.3.4).

use jitlat_core::WallTime;

/// Bytes of the header, and so of the shortest packet.
pub const HEADER_LEN: usize = jitlat_core::spec::HEADER_LEN as usize;
/// The sequence number that ends a stream.
pub(crate) const SENTINEL: i32 = -1;
/// The sequence number of the greeting that opens a version-3 test path; its time field contains the flow's token.
pub const HELLO: i32 = -2;

/// The header of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// When the sender read its clock, ns since 1970 UTC.
    pub sent: WallTime,
    /// From 0; `SENTINEL` and [`HELLO`] are not data.
    pub seq: i32,
}

mod field {
    use crate::wire::Field;
    pub const TIME: Field<i64> = Field::at(0);
    pub(crate) const SEQ: Field<i32> = TIME.then();
}

impl PacketHeader {
    /// A greeting for the flow of `token`.
    pub fn hello(token: u64) -> PacketHeader {
        PacketHeader { sent: WallTime(token as i64), seq: HELLO }
    }

    /// The token, if this is a greeting.
    pub fn hello_token(&self) -> Option<u64> {
        (self.seq == HELLO).then_some(self.sent.0 as u64)
    }

    /// The header at the front of `packet`; `None` if it is shorter than one.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<PacketHeader> {
        Some(PacketHeader { seq: field::SEQ.read(packet)?, sent: WallTime(field::TIME.read(packet)?) })
    }

    /// The header as bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        field::TIME.write(&mut bytes, self.sent.0);
        field::SEQ.write(&mut bytes, self.seq);
        bytes
    }

    /// Writes the header over the front of `packet`, leaving the padding as it is. A buffer too short
    /// for a header is left alone.
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

    /// The worked example of docs/protocols/jitlat-classic.md: seed Figure 6's first packet.
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
