//! Type-length-value extensions (RFC 8972 §4): a flags octet, a type, a 16-bit length of the value, the
//! value.

/// Bytes before the value.
pub const HEADER_LEN: usize = 4;

/// The flags octet.
pub mod flag {
    /// Not recognised. Set by the sender, cleared by a reflector that supports it.
    pub const UNRECOGNISED: u8 = 0x80;
    /// Malformed.
    pub const MALFORMED: u8 = 0x40;
    /// The HMAC over the extensions failed.
    pub const INTEGRITY: u8 = 0x20;
}

/// Type codes.
pub mod kind {
    /// Filler.
    pub const PADDING: u8 = 1;
    /// Addresses and ports as the reflector sees them.
    pub const LOCATION: u8 = 2;
    /// Where each side's stamps come from.
    pub const TIMESTAMP_INFO: u8 = 3;
    /// DSCP wanted and DSCP received.
    pub const CLASS_OF_SERVICE: u8 = 4;
    /// Packet counters of either side.
    pub const DIRECT_MEASUREMENT: u8 = 5;
    /// Access links.
    pub const ACCESS_REPORT: u8 = 6;
    /// When the answer before this one really left.
    pub const FOLLOW_UP: u8 = 7;
    /// Integrity of the extensions before it.
    pub const HMAC: u8 = 8;
}

/// One extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// See [`flag`].
    pub flags: u8,
    /// See [`kind`].
    pub kind: u8,
    /// As many bytes as the length says.
    pub value: &'a [u8],
}

/// One step through the extensions of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlvStep<'a> {
    /// A whole extension, and where its flags octet lies.
    Whole(usize, Tlv<'a>),
    /// The rest is not an extension: a truncated header or a length beyond the end.
    Malformed(usize),
}

/// Iterates over the extensions in `bytes`. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tlvs<'a> {
    /// The extensions in `bytes`, which begin behind the base packet.
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

/// Appends an extension as a sender writes it: U set. Values beyond 65 535 bytes are cut.
pub fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX.into())];
    let [hi, lo] = (value.len() as u16).to_be_bytes();
    out.extend([flag::UNRECOGNISED, kind, hi, lo]);
    out.extend(value);
}

/// Class of service (§4.4): how a DSCP changes on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP1: wanted on the answer.
    pub wanted: u8,
    /// DSCP2: of the request as it arrived.
    pub received: u8,
    /// ECN of the request as it arrived.
    pub ecn: u8,
    /// RP: 1 where the reflector's policy refused the DSCP wanted.
    pub refused: u8,
}

impl ClassOfService {
    /// From a value of four bytes.
    pub fn parse(value: &[u8]) -> Option<ClassOfService> {
        let [b0, b1, _, _]: [u8; 4] = value.try_into().ok()?;
        let bits = u16::from_be_bytes([b0, b1]);
        Some(ClassOfService {
            wanted: (bits >> 10) as u8,
            received: (bits >> 4 & 0x3f) as u8,
            ecn: (bits >> 2 & 3) as u8,
            refused: (bits & 3) as u8,
        })
    }

    /// As a value.
    pub fn to_bytes(self) -> [u8; 4] {
        let bits = u16::from(self.wanted & 0x3f) << 10
            | u16::from(self.received & 0x3f) << 4
            | u16::from(self.ecn & 3) << 2
            | u16::from(self.refused & 3);
        let [hi, lo] = bits.to_be_bytes();
        [hi, lo, 0, 0]
    }
}

/// The value of direct measurement.
mod direct_measurement {
    use crate::wire::Field;
    pub const SENDER_SENT: Field<u32> = Field::at(0);
    pub const REFLECTOR_RECEIVED: Field<u32> = SENDER_SENT.then();
    pub const REFLECTOR_SENT: Field<u32> = REFLECTOR_RECEIVED.then();
    pub const LENGTH: usize = REFLECTOR_SENT.end();
}

/// The value of follow-up telemetry.
mod follow_up {
    use crate::wire::Field;
    pub const SEQ: Field<u32> = Field::at(0);
    pub const SENT: Field<u64> = SEQ.then();
    pub const METHOD: Field<u8> = SENT.then();
    const RESERVED: Field<[u8; 3]> = METHOD.then();
    pub const LENGTH: usize = RESERVED.end();
}

/// Direct measurement (§4.5): how many test packets each side has handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectMeasurement {
    /// Sent by the sender, this one included.
    pub sender_sent: u32,
    /// Reception by the reflector.
    pub reflector_received: u32,
    /// Sent by the reflector, this answer included.
    pub reflector_sent: u32,
}

impl DirectMeasurement {
    /// From a value of twelve bytes.
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

    /// As a value.
    pub fn to_bytes(self) -> [u8; 12] {
        use direct_measurement as f;
        let mut value = [0; f::LENGTH];
        f::SENDER_SENT.write(&mut value, self.sender_sent);
        f::REFLECTOR_RECEIVED.write(&mut value, self.reflector_received);
        f::REFLECTOR_SENT.write(&mut value, self.reflector_sent);
        value
    }
}

/// Follow-up telemetry (§4.7): when an earlier answer really left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowUpTelemetry {
    /// The reflector's number of that answer.
    pub seq: u32,
    /// When it left, in the format of the reflector's error estimate; 0 = not known.
    pub sent: u64,
    /// How that was found: 1 hardware, 2 software, 3 control plane.
    pub method: u8,
}

impl FollowUpTelemetry {
    /// From a value of sixteen bytes.
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

    /// As a value.
    pub fn to_bytes(self) -> [u8; 16] {
        use follow_up as f;
        let mut value = [0; f::LENGTH];
        f::SEQ.write(&mut value, self.seq);
        f::SENT.write(&mut value, self.sent);
        f::METHOD.write(&mut value, self.method);
        value
    }
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
        let cos = ClassOfService { wanted: 46, received: 10, ecn: 1, refused: 1 };
        assert_eq!(cos.to_bytes(), [0b1011_1000, 0b1010_0101, 0, 0]);
        assert_eq!(ClassOfService::parse(&cos.to_bytes()), Some(cos));
        assert_eq!(ClassOfService::parse(&[0; 5]), None);
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
