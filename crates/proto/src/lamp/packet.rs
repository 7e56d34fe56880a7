//! The LaMP header: 24 bytes, big-endian.

use jitlat_core::time::SECOND;
use jitlat_core::{Span, WallTime};

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 24;
/// Maximum payload length over UDP and IPv4, in bytes: an IPv4 packet has at most 65 535 bytes, including
/// 28 bytes of headers.
pub const MAX_PAYLOAD: usize = 65_507 - HEADER_LEN;

/// First byte of every packet.
const RESERVED: u8 = 0xaa;
/// High half of the second byte; its low half is the [`LampKind`].
const CONTROL: u8 = 0xa0;

mod field {
    use crate::wire::Field;
    pub const RESERVED: Field<u8> = Field::at(0);
    pub const CONTROL: Field<u8> = RESERVED.then();
    pub(crate) const ID: Field<u16> = CONTROL.then();
    pub(crate) const SEQ: Field<u16> = ID.then();
    pub(crate) const LENGTH_OR_TYPE: Field<u16> = SEQ.then();
    pub const SECONDS: Field<u64> = LENGTH_OR_TYPE.then();
    pub(crate) const MICROS: Field<u64> = SECONDS.then();
}

/// Kind of a packet; encoded in the low half of byte 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LampKind {
    /// Request with a time.
    Request = 0,
    /// Answer to [`Request`](Self::Request).
    Reply = 1,
    /// Last request.
    EndRequest = 2,
    /// Answer to [`EndRequest`](Self::EndRequest).
    EndReply = 3,
    /// Data packet of a unidirectional test.
    Continue = 4,
    /// Last data packet of a unidirectional test.
    Stop = 5,
    /// Server's report of a unidirectional test.
    Report = 6,
    /// Acknowledgement of an INIT or a REPORT.
    Ack = 7,
    /// Opens a session.
    Init = 8,
    /// Request without a time.
    RequestTimeless = 9,
    /// Answer to [`RequestTimeless`](Self::RequestTimeless).
    ReplyTimeless = 10,
    /// Last request, without a time.
    EndRequestTimeless = 11,
    /// Answer to [`EndRequestTimeless`](Self::EndRequestTimeless).
    EndReplyTimeless = 12,
    /// Requests, accepts or denies follow-up.
    FollowUpControl = 13,
    /// Processing time of the server for one request.
    FollowUpData = 14,
}

impl LampKind {
    /// All kinds, by code. Code 15 is reserved.
    pub const ALL: [LampKind; 15] = [
        LampKind::Request,
        LampKind::Reply,
        LampKind::EndRequest,
        LampKind::EndReply,
        LampKind::Continue,
        LampKind::Stop,
        LampKind::Report,
        LampKind::Ack,
        LampKind::Init,
        LampKind::RequestTimeless,
        LampKind::ReplyTimeless,
        LampKind::EndRequestTimeless,
        LampKind::EndReplyTimeless,
        LampKind::FollowUpControl,
        LampKind::FollowUpData,
    ];

    /// Returns the kind of the answer; `None` if this kind is not a request.
    pub fn reply(self) -> Option<LampKind> {
        Some(match self {
            LampKind::Request => LampKind::Reply,
            LampKind::EndRequest => LampKind::EndReply,
            LampKind::RequestTimeless => LampKind::ReplyTimeless,
            LampKind::EndRequestTimeless => LampKind::EndReplyTimeless,
            _ => return None,
        })
    }

    /// True if this kind ends the data of a session.
    pub fn ends(self) -> bool {
        matches!(self, LampKind::EndRequest | LampKind::EndRequestTimeless | LampKind::Stop)
    }
}

/// Values of the length-or-type field when follow-up is negotiated. A request specifies the source of the
/// server's two timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LampFollowUp {
    /// Request: both timestamps from the program.
    Application,
    /// Request: reception from the kernel, transmission from the program.
    KernelReceive,
    /// Request: both timestamps from the kernel.
    Kernel,
    /// Request: both timestamps from the network adapter.
    Hardware,
    /// Reply: denied.
    Deny,
    /// Reply: accepted.
    Accept,
    /// Reply: unknown source of timestamps. LaTe neither sends nor understands it.
    Unknown,
    /// Any other value.
    Other(u16),
}

impl From<u16> for LampFollowUp {
    fn from(code: u16) -> LampFollowUp {
        match code {
            0 => LampFollowUp::Application,
            1 => LampFollowUp::KernelReceive,
            2 => LampFollowUp::Kernel,
            3 => LampFollowUp::Hardware,
            0x0100 => LampFollowUp::Deny,
            0x0200 => LampFollowUp::Accept,
            0xffff => LampFollowUp::Unknown,
            other => LampFollowUp::Other(other),
        }
    }
}

impl LampFollowUp {
    /// Returns the value on the wire.
    pub fn code(self) -> u16 {
        match self {
            LampFollowUp::Application => 0,
            LampFollowUp::KernelReceive => 1,
            LampFollowUp::Kernel => 2,
            LampFollowUp::Hardware => 3,
            LampFollowUp::Deny => 0x0100,
            LampFollowUp::Accept => 0x0200,
            LampFollowUp::Unknown => 0xffff,
            LampFollowUp::Other(code) => code,
        }
    }
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LampHeader {
    /// Kind of the packet.
    pub kind: LampKind,
    /// Identifier of the session.
    pub id: u16,
    /// Sequence number, which wraps.
    pub seq: u16,
    /// Payload length in bytes; the connection type in INIT, the code in FOLLOWUP_CTRL.
    pub length_or_type: u16,
    /// Seconds since 1970 UTC, or 0.
    pub seconds: u64,
    /// Microseconds within the second, or 0.
    pub micros: u64,
}

impl LampHeader {
    /// Returns the length of the whole packet in bytes, derived from its kind and length field.
    pub fn packet_length(&self) -> usize {
        match self.kind {
            LampKind::Init | LampKind::Ack | LampKind::FollowUpControl | LampKind::FollowUpData => HEADER_LEN,
            _ => HEADER_LEN + usize::from(self.length_or_type),
        }
    }

    /// Creates a header without a time.
    pub fn new(kind: LampKind, id: u16, seq: u16, length_or_type: u16) -> LampHeader {
        LampHeader { kind, id, seq, length_or_type, seconds: 0, micros: 0 }
    }

    /// Adds a time, truncated to the format's microseconds. A time before 1970 is omitted.
    pub fn at(self, t: WallTime) -> LampHeader {
        let t = t.0.max(0);
        LampHeader { seconds: (t / SECOND) as u64, micros: (t % SECOND / 1000) as u64, ..self }
    }

    /// Adds a duration in the time field. LaTe treats zero as an error, so the minimum is one microsecond.
    pub fn took(self, span: Span) -> LampHeader {
        self.at(WallTime(span.0.max(1000)))
    }

    /// Parses the header at the front of `packet`; `None` if invalid. Checks all twelve fixed bits, and the
    /// length (which LaTe does not check).
    pub fn parse(packet: &[u8]) -> Option<LampHeader> {
        let control = field::CONTROL.read(packet)?;
        if field::RESERVED.read(packet) != Some(RESERVED) || control & 0xf0 != CONTROL {
            return None;
        }
        Some(LampHeader {
            kind: *LampKind::ALL.get(usize::from(control & 0x0f))?,
            id: field::ID.read(packet)?,
            seq: field::SEQ.read(packet)?,
            length_or_type: field::LENGTH_OR_TYPE.read(packet)?,
            seconds: field::SECONDS.read(packet)?,
            micros: field::MICROS.read(packet)?,
        })
    }

    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        field::RESERVED.write(&mut bytes, RESERVED);
        field::CONTROL.write(&mut bytes, CONTROL | self.kind as u8);
        field::ID.write(&mut bytes, self.id);
        field::SEQ.write(&mut bytes, self.seq);
        field::LENGTH_OR_TYPE.write(&mut bytes, self.length_or_type);
        field::SECONDS.write(&mut bytes, self.seconds);
        field::MICROS.write(&mut bytes, self.micros);
        bytes
    }

    /// Returns the time in the header; `None` if it is missing or invalid.
    pub fn time(&self) -> Option<WallTime> {
        if (self.seconds == 0 && self.micros == 0) || self.micros >= 1_000_000 {
            return None;
        }
        let seconds = i64::try_from(self.seconds).ok()?.checked_mul(SECOND)?;
        seconds.checked_add(self.micros as i64 * 1000).map(WallTime)
    }
}

/// Converts the request in `packet` to its answer, by changing byte 1 only. Returns false, without any
/// change, if `packet` is not a request.
pub(crate) fn turn_into_reply(packet: &mut [u8]) -> bool {
    match LampHeader::parse(packet).and_then(|h| h.kind.reply()) {
        Some(reply) => {
            field::CONTROL.write(packet, CONTROL | reply as u8);
            true
        }
        None => false,
    }
}

/// Appends `length` bytes of the test pattern 00 01 … 0f 00 01 …
pub(crate) fn push_payload(out: &mut Vec<u8>, length: usize) {
    out.extend((0..length).map(|i| (i & 0x0f) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_and_microseconds() {
        let header = LampHeader::new(LampKind::ALL[0], 1, 2, 3);
        let at = |ns: i64| header.at(WallTime(ns));
        let parts = |ns: i64| (at(ns).seconds, at(ns).micros);
        assert_eq!(parts(1_795_000_003_123_456_789), (1_795_000_003, 123_456));
        assert_eq!(parts(2_000_999_999), (2, 999));
        assert_eq!(parts(999_999_999), (0, 999_999));
        assert_eq!((parts(-1), at(-1).time()), ((0, 0), None), "before 1970 there is none");
        assert_eq!(at(1_795_000_003_123_456_789).time(), Some(WallTime(1_795_000_003_123_456_000)));
        assert_eq!(at(5_000).time(), Some(WallTime(5_000)), "zero seconds, and microseconds");
        assert_eq!(at(5 * SECOND).time(), Some(WallTime(5 * SECOND)), "seconds, and no microseconds");
        let impossible = |seconds, micros| LampHeader { seconds, micros, ..header }.time();
        assert_eq!(impossible(1, 999_999), Some(WallTime(1_999_999_000)));
        assert_eq!(
            (impossible(1, 1_000_000), impossible(u64::MAX, 0), impossible(9_223_372_036, 999_999)),
            (None, None, None)
        );
        assert_eq!((header.took(Span(7_000_001)).micros, header.took(Span(0)).micros), (7_000, 1));
    }

    #[test]
    fn only_packets_with_a_payload_are_longer_than_their_header() {
        for kind in LampKind::ALL {
            let alone = matches!(
                kind,
                LampKind::Init | LampKind::Ack | LampKind::FollowUpControl | LampKind::FollowUpData
            );
            let length = LampHeader::new(kind, 1, 2, 100).packet_length();
            assert_eq!(length, if alone { HEADER_LEN } else { HEADER_LEN + 100 }, "{kind:?}");
        }
    }

    #[test]
    fn each_fixed_bit_is_checked() {
        let bytes = LampHeader::new(LampKind::ALL[0], 1, 2, 3).to_bytes();
        assert!(LampHeader::parse(&bytes).is_some());
        for bit in 0..16 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            // The lower half of the second byte is the kind.
            assert_eq!(
                LampHeader::parse(&wrong).is_some(),
                (8..12).contains(&bit) && wrong[1] & 0x0f < LampKind::ALL.len() as u8,
                "{bit}"
            );
        }
    }
}
