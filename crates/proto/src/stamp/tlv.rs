//! Type-length-value extensions (RFC 8972 §4): flags octet, type, 16-bit length of the value, value.

use core::net::IpAddr;
use jitlat_core::Ecn;

/// Number of bytes before the value.
pub const HEADER_LEN: usize = 4;

/// Bits of the flags octet.
pub mod flag {
    /// Type not recognised. The sender sets this bit, and a reflector that supports the type clears it.
    pub const UNRECOGNISED: u8 = 0x80;
    /// Malformed extension.
    pub const MALFORMED: u8 = 0x40;
    /// The HMAC over the extensions failed.
    pub const INTEGRITY: u8 = 0x20;
}

/// Type codes.
pub mod kind {
    /// Padding.
    pub const PADDING: u8 = 1;
    /// Addresses and ports as seen by the reflector.
    pub const LOCATION: u8 = 2;
    /// Sources of the timestamps of both sides.
    pub const TIMESTAMP_INFO: u8 = 3;
    /// DSCP and ECN: requested and received.
    pub const CLASS_OF_SERVICE: u8 = 4;
    /// Packet counts of both sides.
    pub const DIRECT_MEASUREMENT: u8 = 5;
    /// Access links of the sender.
    pub const ACCESS_REPORT: u8 = 6;
    /// Departure time of the previous answer.
    pub const FOLLOW_UP: u8 = 7;
    /// HMAC over the preceding extensions.
    pub const HMAC: u8 = 8;
    /// Path of the answer (RFC 9503).
    pub const RETURN_PATH: u8 = 10;
    /// Identifiers of the link at both ends (RFC 9534).
    pub const MICRO_SESSION: u8 = 11;
}

/// An extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Bits of [`flag`].
    pub flags: u8,
    /// Type code from [`kind`].
    pub kind: u8,
    /// Value, with the length given in the length field.
    pub value: &'a [u8],
}

/// Step of the iteration over the extensions of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlvStep<'a> {
    /// A complete extension, with the offset of its flags octet.
    Whole(usize, Tlv<'a>),
    /// The rest is not an extension: its header is truncated, or its length exceeds the packet.
    Malformed(usize),
}

/// Iterator over the extensions in `bytes`. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tlvs<'a> {
    /// Creates an iterator over `bytes`, which follow the base packet.
    pub fn new(bytes: &'a [u8]) -> Tlvs<'a> {
        Tlvs { bytes, at: 0 }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = TlvStep<'a>;

    fn next(&mut self) -> Option<TlvStep<'a>> {
        let start = self.at;
        let rest = self.bytes.get(start..).filter(|r| !r.is_empty())?;
        let whole = rest.split_first_chunk::<HEADER_LEN>().and_then(|([flags, kind, hi, lo], after)| {
            let length = usize::from(u16::from_be_bytes([*hi, *lo]));
            after.get(..length).map(|value| Tlv { flags: *flags, kind: *kind, value })
        });
        match whole {
            Some(tlv) => {
                self.at = start + HEADER_LEN + tlv.value.len();
                Some(TlvStep::Whole(start, tlv))
            }
            None => {
                self.at = self.bytes.len();
                Some(TlvStep::Malformed(start))
            }
        }
    }
}

/// Appends a padding extension with a value of `length` zeros, as [`push`] appends others. Padding consists of zeros, because
/// a reflector may interpret other values as a session identifier (docs/protocols).
pub fn push_padding(out: &mut Vec<u8>, length: usize) {
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    let [hi, lo] = length.to_be_bytes();
    out.extend([flag::UNRECOGNISED, kind::PADDING, hi, lo]);
    out.resize(out.len() + usize::from(length), 0);
}

/// Appends an extension as a sender writes it, with the U bit (unrecognised) set. Values longer than 65 535
/// bytes are truncated.
pub fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX.into())];
    let [hi, lo] = (value.len() as u16).to_be_bytes();
    out.extend([flag::UNRECOGNISED, kind, hi, lo]);
    out.extend(value);
}

/// Class of service (§4.4, extended by draft-ietf-ippm-stamp-cos-ecn): changes of DSCP and ECN on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP1: DSCP requested for the answer.
    pub wanted: u8,
    /// DSCP2: DSCP of the request on arrival.
    pub received: u8,
    /// EC2: ECN field of the request on arrival.
    pub ecn: Ecn,
    /// RPD: 1 if the reflector's policy refused the requested DSCP.
    pub refused: u8,
    /// EC1: ECN field requested for the answer.
    pub wanted_ecn: Ecn,
    /// RPE: whether the answer has the requested ECN field.
    pub ecn_reply: EcnReply,
}

/// RPE: whether an answer has the requested ECN field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnReply {
    /// 00: the request, or an answer of a reflector that only knows RFC 8972. The ECN field of the answer is unknown.
    #[default]
    Unknown,
    /// 01: no meaning is known.
    Undefined,
    /// 10: the reflector could not set the field, which is Not-ECT.
    Unable,
    /// 11: the answer has the requested field.
    Applied,
}

impl EcnReply {
    const ALL: [EcnReply; 4] = [EcnReply::Unknown, EcnReply::Undefined, EcnReply::Unable, EcnReply::Applied];
}

impl ClassOfService {
    /// Parses a value of four bytes; `None` for any other length.
    pub fn parse(value: &[u8]) -> Option<ClassOfService> {
        let [b0, b1, b2, _]: [u8; 4] = value.try_into().ok()?;
        let bits = u16::from_be_bytes([b0, b1]);
        Some(ClassOfService {
            wanted: (bits >> 10) as u8,
            received: (bits >> 4 & 0x3f) as u8,
            ecn: Ecn::of_bits((bits >> 2) as u8),
            refused: (bits & 3) as u8,
            wanted_ecn: Ecn::of_bits(b2 >> 6),
            ecn_reply: EcnReply::ALL[usize::from(b2 >> 4 & 3)],
        })
    }

    /// Encodes the value.
    pub fn to_bytes(self) -> [u8; 4] {
        let bits = u16::from(self.wanted & 0x3f) << 10
            | u16::from(self.received & 0x3f) << 4
            | u16::from(self.ecn.bits()) << 2
            | u16::from(self.refused & 3);
        let [hi, lo] = bits.to_be_bytes();
        [hi, lo, self.wanted_ecn.bits() << 6 | (self.ecn_reply as u8) << 4, 0]
    }

    /// Returns the ECN field with which the reflector sent the answer that contains this value; `None` if it is unknown.
    pub fn answer_mark(self) -> Option<Ecn> {
        match self.ecn_reply {
            EcnReply::Applied => Some(self.wanted_ecn),
            EcnReply::Unable => Some(Ecn::NotEct),
            EcnReply::Unknown | EcnReply::Undefined => None,
        }
    }
}

/// Fields of direct measurement.
mod direct_measurement {
    use crate::wire::Field;
    pub const SENDER_SENT: Field<u32> = Field::at(0);
    pub const REFLECTOR_RECEIVED: Field<u32> = SENDER_SENT.then();
    pub const REFLECTOR_SENT: Field<u32> = REFLECTOR_RECEIVED.then();
    pub const LENGTH: usize = REFLECTOR_SENT.end();
}

/// Fields of follow-up telemetry.
mod follow_up {
    use crate::wire::Field;
    pub const SEQ: Field<u32> = Field::at(0);
    pub const SENT: Field<u64> = SEQ.then();
    pub const METHOD: Field<u8> = SENT.then();
    const RESERVED: Field<[u8; 3]> = METHOD.then();
    pub const LENGTH: usize = RESERVED.end();
}

/// Direct measurement (§4.5): packet counts of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectMeasurement {
    /// Number of packets sent by the sender, including the request.
    pub sender_sent: u32,
    /// Number of packets received by the reflector.
    pub reflector_received: u32,
    /// Number of packets sent by the reflector, including this answer.
    pub reflector_sent: u32,
}

impl DirectMeasurement {
    /// Parses a value of twelve bytes; `None` for any other length.
    pub fn parse(value: &[u8]) -> Option<DirectMeasurement> {
        use direct_measurement as f;
        if value.len() != f::LENGTH {
            return None;
        }
        Some(DirectMeasurement {
            sender_sent: f::SENDER_SENT.read(value)?,
            reflector_received: f::REFLECTOR_RECEIVED.read(value)?,
            reflector_sent: f::REFLECTOR_SENT.read(value)?,
        })
    }

    /// Encodes the value.
    pub fn to_bytes(self) -> [u8; 12] {
        use direct_measurement as f;
        let mut value = [0; f::LENGTH];
        f::SENDER_SENT.write(&mut value, self.sender_sent);
        f::REFLECTOR_RECEIVED.write(&mut value, self.reflector_received);
        f::REFLECTOR_SENT.write(&mut value, self.reflector_sent);
        value
    }
}

/// Follow-up telemetry (§4.7): departure time of an earlier answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowUpTelemetry {
    /// Reflector's number of that answer.
    pub seq: u32,
    /// Departure time in the format of the reflector's error estimate; 0: unknown.
    pub sent: u64,
    /// Method of that timestamp: 1 hardware, 2 software, 3 control plane.
    pub method: u8,
}

impl FollowUpTelemetry {
    /// Parses a value of sixteen bytes; `None` for any other length.
    pub fn parse(value: &[u8]) -> Option<FollowUpTelemetry> {
        use follow_up as f;
        if value.len() != f::LENGTH {
            return None;
        }
        Some(FollowUpTelemetry {
            seq: f::SEQ.read(value)?,
            sent: f::SENT.read(value)?,
            method: f::METHOD.read(value)?,
        })
    }

    /// Encodes the value.
    pub fn to_bytes(self) -> [u8; 16] {
        use follow_up as f;
        let mut value = [0; f::LENGTH];
        f::SEQ.write(&mut value, self.seq);
        f::SENT.write(&mut value, self.sent);
        f::METHOD.write(&mut value, self.method);
        value
    }
}

/// Access report (§4.6): the sender's access network, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessReport {
    /// Access network: 1 3GPP, 2 another one.
    pub access: u8,
    /// State: 1 available, 2 not available.
    pub state: u8,
}

impl AccessReport {
    /// Parses a value of four bytes; `None` for any other length.
    pub fn parse(value: &[u8]) -> Option<AccessReport> {
        let [access, state, _, _]: [u8; 4] = value.try_into().ok()?;
        Some(AccessReport { access: access >> 4, state })
    }

    /// True if the access network is one of RFC 8972. Reports about others are discarded.
    pub fn is_known(self) -> bool {
        matches!(self.access, 1 | 2)
    }
}

/// Micro-session identifiers (RFC 9534 §3.1): the numbers that the two ends have given to the link of a link
/// aggregation group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroSession {
    /// Sender's identifier.
    pub sender: u16,
    /// Reflector's identifier; 0: the sender does not know it.
    pub reflector: u16,
}

impl MicroSession {
    /// Parses a value of four bytes; `None` for any other length.
    pub fn parse(value: &[u8]) -> Option<MicroSession> {
        let [s0, s1, r0, r1]: [u8; 4] = value.try_into().ok()?;
        Some(MicroSession { sender: u16::from_be_bytes([s0, s1]), reflector: u16::from_be_bytes([r0, r1]) })
    }

    /// Encodes the value.
    pub fn to_bytes(self) -> [u8; 4] {
        let ([s0, s1], [r0, r1]) = (self.sender.to_be_bytes(), self.reflector.to_be_bytes());
        [s0, s1, r0, r1]
    }
}

/// Path that an answer should take (RFC 9503 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnPath {
    /// No answer is wanted.
    NoAnswer,
    /// The answer should leave through the link on which the request arrived.
    SameLink,
    /// The answer should be sent to this address.
    Address(IpAddr),
    /// A list of segments, which a UDP socket cannot follow, or a form that is not known.
    Other,
}

impl ReturnPath {
    /// Parses the value, which consists of extensions in the same format; `None` if it is malformed. Only the first
    /// control code or address counts.
    pub fn parse(value: &[u8]) -> Option<ReturnPath> {
        let mut path = ReturnPath::Other;
        for step in Tlvs::new(value) {
            let TlvStep::Whole(_, tlv) = step else { return None };
            let found = match (tlv.kind, tlv.value) {
                // Only the last bit has a meaning.
                (return_path::CONTROL_CODE, [_, _, _, last]) if last & 1 == 0 => ReturnPath::NoAnswer,
                (return_path::CONTROL_CODE, [_, _, _, _]) => ReturnPath::SameLink,
                (return_path::ADDRESS, value) => {
                    match (<[u8; 4]>::try_from(value), <[u8; 16]>::try_from(value)) {
                        (Ok(v4), _) => ReturnPath::Address(v4.into()),
                        (_, Ok(v6)) => ReturnPath::Address(v6.into()),
                        _ => return None,
                    }
                }
                (return_path::CONTROL_CODE, _) => return None,
                // A segment list may follow or precede an address: together they cannot be followed.
                _ => return Some(ReturnPath::Other),
            };
            if path == ReturnPath::Other {
                path = found;
            }
        }
        Some(path)
    }
}

/// Type codes within a return path.
mod return_path {
    pub const CONTROL_CODE: u8 = 1;
    pub const ADDRESS: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_broken_length_ends_the_walk() {
        let mut bytes = Vec::new();
        push(&mut bytes, kind::PADDING, &[1, 2, 3]);
        let whole = bytes.len();
        bytes.extend([0x80, 9, 0, 5, 1]);
        let steps: Vec<_> = Tlvs::new(&bytes).collect();
        let padding = Tlv { flags: 0x80, kind: kind::PADDING, value: &[1, 2, 3] };
        assert_eq!(steps, [TlvStep::Whole(0, padding), TlvStep::Malformed(whole)]);
        assert_eq!(Tlvs::new(&[0x80]).collect::<Vec<_>>(), [TlvStep::Malformed(0)]);
        assert_eq!(Tlvs::new(&[]).count(), 0);
    }

    #[test]
    fn the_bits_of_class_of_service() {
        let cos = ClassOfService {
            wanted: 46,
            received: 10,
            ecn: Ecn::Ect1,
            refused: 1,
            ..ClassOfService::default()
        };
        assert_eq!(cos.to_bytes(), [0b1011_1000, 0b1010_0101, 0, 0]);
        assert_eq!((ClassOfService::parse(&cos.to_bytes()), cos.answer_mark()), (Some(cos), None));
        // A request for ECT(1) on the answer; the answer to it after CE on the path, with and without the mark.
        let request = ClassOfService { wanted: 46, wanted_ecn: Ecn::Ect1, ..ClassOfService::default() };
        assert_eq!(request.to_bytes(), [0xb8, 0x00, 0x40, 0x00]);
        let applied = ClassOfService { received: 46, ecn: Ecn::Ce, ecn_reply: EcnReply::Applied, ..request };
        assert_eq!((applied.to_bytes(), applied.answer_mark()), ([0xba, 0xec, 0x70, 0x00], Some(Ecn::Ect1)));
        let unable = ClassOfService { ecn_reply: EcnReply::Unable, ..applied };
        assert_eq!((unable.to_bytes(), unable.answer_mark()), ([0xba, 0xec, 0x60, 0x00], Some(Ecn::NotEct)));
        // A value of another implementation (stamp-suite 1.0.0).
        let other = ClassOfService::parse(&[0xb9, 0x44, 0xb0, 0x00]).unwrap();
        let expected = ClassOfService {
            wanted: 46,
            received: 20,
            ecn: Ecn::Ect1,
            refused: 0,
            wanted_ecn: Ecn::Ect0,
            ecn_reply: EcnReply::Applied,
        };
        assert_eq!(other, expected);
        assert_eq!(ClassOfService::parse(&[0; 5]), None);
    }

    #[test]
    fn a_return_path_is_a_control_code_or_an_address() {
        let value = |parts: &[(u8, &[u8])]| {
            let mut value = Vec::new();
            parts.iter().for_each(|(kind, part)| push(&mut value, *kind, part));
            value
        };
        let path = |parts: &[(u8, &[u8])]| ReturnPath::parse(&value(parts));
        assert_eq!(path(&[(1, &[0, 0, 0, 0])]), Some(ReturnPath::NoAnswer));
        assert_eq!(path(&[(1, &[0, 0, 0, 1])]), Some(ReturnPath::SameLink));
        assert_eq!(path(&[(2, &[192, 0, 2, 7])]), Some(ReturnPath::Address([192, 0, 2, 7].into())));
        assert_eq!(path(&[(2, &[1; 16])]), Some(ReturnPath::Address([1; 16].into())));
        assert_eq!(path(&[(2, &[192, 0, 2, 7]), (4, &[0; 16])]), Some(ReturnPath::Other));
        assert_eq!(path(&[]), Some(ReturnPath::Other));
        for malformed in [&value(&[(1, &[0])])[..], &value(&[(2, &[0; 5])]), &[0x80, 1, 0, 4, 0]] {
            assert_eq!(ReturnPath::parse(malformed), None, "{malformed:x?}");
        }
    }

    #[test]
    fn the_fields_of_access_reports_and_micro_sessions() {
        let report = AccessReport::parse(&[0x20, 1, 0, 0]).unwrap();
        assert_eq!((report, report.is_known()), (AccessReport { access: 2, state: 1 }, true));
        assert!(!AccessReport::parse(&[0x30, 1, 0, 0]).unwrap().is_known());
        assert_eq!(AccessReport::parse(&[0x20, 1, 0]), None);
        let link = MicroSession { sender: 0x0102, reflector: 0x0304 };
        assert_eq!((link.to_bytes(), MicroSession::parse(&link.to_bytes())), ([1, 2, 3, 4], Some(link)));
    }

    proptest! {
        #[test]
        fn walking_covers_every_byte(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut at = 0;
            let mut broken = false;
            for step in Tlvs::new(&bytes) {
                prop_assert!(!broken);
                match step {
                    TlvStep::Whole(start, tlv) => {
                        prop_assert_eq!(start, at);
                        at += HEADER_LEN + tlv.value.len();
                    }
                    TlvStep::Malformed(start) => {
                        prop_assert_eq!(start, at);
                        broken = true;
                    }
                }
            }
            prop_assert!(broken || at == bytes.len());
        }
    }
}
