//! ICMP and ICMPv6 echo (RFC 792, RFC 4443): round trips to any host that answers ping.

use crate::twoway::{DatagramKind, Protocol, Reply, ReplyMarks};
use jitlat_core::WallTime;

/// Length of the ICMP header of an echo, in bytes.
pub const HEADER_LEN: usize = 8;
/// Length of the mark that identifies a test, in bytes. Payloads shorter than this have no mark.
const MARK_LEN: usize = 8;

mod field {
    use crate::wire::Field;
    pub const TYPE: Field<u8> = Field::at(0);
    pub(crate) const CODE: Field<u8> = TYPE.then();
    pub const CHECKSUM: Field<u16> = CODE.then();
    pub(crate) const ID: Field<u16> = CHECKSUM.then();
    pub(crate) const SEQ: Field<u16> = ID.then();
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// ICMP.
    V4,
    /// ICMPv6.
    V6,
}

impl IpVersion {
    fn request(self) -> u8 {
        if self == IpVersion::V4 { 8 } else { 128 }
    }

    fn reply(self) -> u8 {
        if self == IpVersion::V4 { 0 } else { 129 }
    }
}

/// Returns the Internet checksum (RFC 1071) of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    let mut pairs = bytes.chunks_exact(2);
    for pair in &mut pairs {
        sum += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [odd] = pairs.remainder() {
        sum += u64::from(*odd) << 8;
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Creates echo requests and parses replies. On a ping socket, the kernel fills in the identifier (and the
/// checksum of ICMPv6), and delivers only replies with this identifier.
#[derive(Clone, Debug)]
pub struct Echo {
    family: IpVersion,
    id: u16,
    /// Start of every payload, mixed with the sequence number. It distinguishes replies to this test from
    /// those to other programs.
    mark: u64,
    payload: usize,
    /// True if the identifier of replies is checked; false on a ping socket, whose identifier the sender does
    /// not know.
    check_id: bool,
}

impl Echo {
    /// Creates a client that sends `payload` bytes after the ICMP header. `mark` must be random. `id` is
    /// `None` on sockets for which the kernel chooses the identifier.
    pub fn new(family: IpVersion, id: Option<u16>, mark: u64, payload: usize) -> Echo {
        Echo { family, id: id.unwrap_or(0), mark, payload, check_id: id.is_some() }
    }

    /// Returns the full sequence number from the mark in `body`: `Some(None)` if the mark belongs to another
    /// program, `None` if the body is too short for a mark.
    fn marked(&self, body: &[u8]) -> Option<Option<u32>> {
        let mark = body.first_chunk::<MARK_LEN>().filter(|_| self.payload >= MARK_LEN)?;
        Some(u32::try_from(u64::from_be_bytes(*mark) ^ self.mark).ok())
    }

    /// True if the datagram is request `seq` of this test. A raw socket receives its own requests if they are
    /// sent to this host.
    fn is_own_request(&self, datagram: &[u8], seq: u16) -> bool {
        let is_request = field::TYPE.read(datagram) == Some(self.family.request());
        let is_ours = field::ID.read(datagram) == Some(self.id);
        let body = datagram.get(HEADER_LEN..).unwrap_or_default();
        let has_mark = |marked: Option<u32>| marked.is_some_and(|whole| whole as u16 == seq);
        is_request && self.check_id && is_ours && self.marked(body).is_none_or(has_mark)
    }
}

impl Protocol for Echo {
    fn request(&mut self, seq: u32, _last: bool, _sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        field::TYPE.write(&mut out[start..], self.family.request());
        field::ID.write(&mut out[start..], self.id);
        field::SEQ.write(&mut out[start..], seq as u16);
        // The full sequence number is mixed into the mark, to distinguish replies whose requests are 65 536
        // apart.
        let mark = (self.mark ^ u64::from(seq)).to_be_bytes();
        out.extend(mark.iter().copied().chain((0u8..=255).cycle()).take(self.payload));
        if self.family == IpVersion::V4 {
            let sum = checksum(&out[start..]);
            field::CHECKSUM.write(&mut out[start..], sum);
        }
    }

    fn receive(&mut self, datagram: &[u8], _near: WallTime) -> DatagramKind {
        let Some(seq) = field::SEQ.read(datagram) else { return DatagramKind::Malformed };
        if self.is_own_request(datagram, seq) {
            return DatagramKind::OwnRequest;
        }
        let is_reply =
            field::TYPE.read(datagram) == Some(self.family.reply()) && field::CODE.read(datagram) == Some(0);
        if !is_reply || self.check_id && field::ID.read(datagram) != Some(self.id) {
            return DatagramKind::Foreign;
        }
        if self.family == IpVersion::V4 && checksum(datagram) != 0 {
            return DatagramKind::Malformed;
        }
        let body = &datagram[HEADER_LEN..];
        let (seq, seq_bits) = match self.marked(body) {
            Some(Some(whole)) if whole as u16 == seq => (whole, 32),
            Some(_) => return DatagramKind::Foreign,
            None => (seq.into(), 16),
        };
        DatagramKind::Reply(Reply {
            seq,
            seq_bits,
            arrived: None,
            answered: None,
            far_seq: None,
            damaged: body.len() != self.payload,
            earlier: None,
            marks: ReplyMarks::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_rfc_792_and_rfc_4443() {
        let types = |family: IpVersion| (family.request(), family.reply());
        assert_eq!((types(IpVersion::V4), types(IpVersion::V6)), ((8, 0), (128, 129)));
    }
    use proptest::prelude::*;

    fn exchange(family: IpVersion, seq: u32, payload: usize) -> (Echo, Vec<u8>) {
        let mut echo = Echo::new(family, Some(0x1234), 0xfeed_beef_0000_1111, payload);
        let mut packet = Vec::new();
        echo.request(seq, false, WallTime(0), &mut packet);
        assert!(family == IpVersion::V6 || checksum(&packet) == 0);
        packet[0] = family.reply();
        packet[2..4].fill(0);
        if family == IpVersion::V4 {
            let sum = checksum(&packet).to_be_bytes();
            packet[2..4].copy_from_slice(&sum);
        }
        (echo, packet)
    }

    #[test]
    fn a_reply_names_its_request() {
        for family in [IpVersion::V4, IpVersion::V6] {
            for (payload, bits) in [(0, 16), (7, 16), (8, 32), (56, 32), (1473, 32)] {
                let (mut echo, reply) = exchange(family, 70_000, payload);
                let DatagramKind::Reply(r) = echo.receive(&reply, WallTime(0)) else { panic!("{payload}") };
                let want = if bits == 32 { 70_000 } else { 70_000 - 65_536 };
                assert_eq!((r.seq, r.seq_bits, r.damaged), (want, bits, false));
            }
        }
    }

    #[test]
    fn others_replies_and_our_own_requests_do_not_count() {
        let (mut echo, reply) = exchange(IpVersion::V4, 5, 56);
        let mut other = Echo::new(IpVersion::V4, Some(0x1234), 1, 56);
        assert_eq!(other.receive(&reply, WallTime(0)), DatagramKind::Foreign);
        for payload in [0, 56] {
            let mut echo = Echo::new(IpVersion::V4, Some(0x1234), 0xfeed_beef_0000_1111, payload);
            let mut request = Vec::new();
            echo.request(70_000, false, WallTime(0), &mut request);
            assert_eq!(echo.receive(&request, WallTime(0)), DatagramKind::OwnRequest);
            let mut other = Echo::new(IpVersion::V4, Some(0x1235), 0xfeed_beef_0000_1111, payload);
            assert_eq!(other.receive(&request, WallTime(0)), DatagramKind::Foreign);
            let mut other = Echo::new(IpVersion::V4, Some(0x1234), 1, payload);
            // Without a mark, another program's request cannot be distinguished.
            let expected = if payload == 0 { DatagramKind::OwnRequest } else { DatagramKind::Foreign };
            assert_eq!(other.receive(&request, WallTime(0)), expected);
        }
        let mut broken = reply.clone();
        broken[20] ^= 1;
        assert_eq!(echo.receive(&broken, WallTime(0)), DatagramKind::Malformed);
    }

    #[test]
    fn checksum_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }

    proptest! {
        #[test]
        fn anything_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut echo = Echo::new(IpVersion::V4, Some(1), 2, 56);
            let _ = echo.receive(&bytes, WallTime(0));
        }
    }
}
