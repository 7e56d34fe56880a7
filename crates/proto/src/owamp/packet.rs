//! The test packet (RFC 4656 §4.1.2): its fields, and where the keyed modes put them. Padding follows, which is
//! neither encrypted nor signed.

use crate::amp::{Mode, Origin, TestKeys};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};

/// Where the fields of the open mode lie.
mod open {
    use core::ops::Range;
    pub const SEQ: Range<usize> = 0..4;
    pub const TIME: Range<usize> = 4..12;
    pub const ERROR: Range<usize> = 12..14;
    pub const LEN: usize = 14;
}

/// Where the fields of the keyed modes lie; an HMAC is last.
mod keyed {
    use core::ops::Range;
    pub const SEQ: Range<usize> = 0..4;
    pub const TIME: Range<usize> = 16..24;
    pub const ERROR: Range<usize> = 24..26;
    pub const LEN: usize = 48;
}

/// Bytes of the longest packet without padding.
pub const LONGEST: usize = keyed::LEN;

/// Bytes of a packet without padding.
pub const fn len(mode: Mode) -> usize {
    if mode.protects_test() { keyed::LEN } else { open::LEN }
}

/// What a test packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// From 0.
    pub seq: u32,
    /// When it was sent, by the sender's clock.
    pub sent: NtpTime,
    /// Of that clock.
    pub error: ErrorEstimate,
}

/// Why a datagram is no packet of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It has no room for the fields.
    Short,
    /// It was not made with the keys of the session.
    Forged,
}

impl TestPacket {
    /// Writes the fields over the front of `packet`, signed and encrypted where there are keys, and returns how many
    /// bytes they are.
    pub fn write(&self, keys: Option<&TestKeys>, packet: &mut [u8; LONGEST]) -> usize {
        let (seq, time, error, len) = match keys {
            None => (open::SEQ, open::TIME, open::ERROR, open::LEN),
            Some(_) => (keyed::SEQ, keyed::TIME, keyed::ERROR, keyed::LEN),
        };
        packet[..len].fill(0);
        packet[seq].copy_from_slice(&self.seq.to_be_bytes());
        packet[time].copy_from_slice(&self.sent.0.to_be_bytes());
        packet[error].copy_from_slice(&self.error.0.to_be_bytes());
        if let Some(keys) = keys {
            keys.seal(Origin::Sender, packet);
        }
        len
    }

    /// Reads the front of `datagram`.
    pub fn parse(keys: Option<&TestKeys>, datagram: &[u8]) -> Result<TestPacket, Unreadable> {
        let (seq, time, error, mut packet) = match keys {
            None => {
                let fields = datagram.first_chunk::<{ open::LEN }>().ok_or(Unreadable::Short)?;
                let mut packet = [0; LONGEST];
                packet[..open::LEN].copy_from_slice(fields);
                (open::SEQ, open::TIME, open::ERROR, packet)
            }
            Some(_) => {
                let packet = *datagram.first_chunk::<LONGEST>().ok_or(Unreadable::Short)?;
                (keyed::SEQ, keyed::TIME, keyed::ERROR, packet)
            }
        };
        if keys.is_some_and(|keys| !keys.open(Origin::Sender, &mut packet)) {
            return Err(Unreadable::Forged);
        }
        let number =
            |field: core::ops::Range<usize>| packet[field].iter().fold(0, |n, b| n << 8 | u64::from(*b));
        Ok(TestPacket {
            seq: number(seq) as u32,
            sent: NtpTime(number(time)),
            error: ErrorEstimate(number(error) as u16),
        })
    }
}
