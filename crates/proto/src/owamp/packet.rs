//! Test packet (RFC 4656 §4.1.2): its fields, and their positions in the keyed modes. The padding after the
//! fields is neither encrypted nor authenticated.

use crate::amp::{PacketOrigin, SecurityMode, TestKeys};
use crate::wire::Field;
use jitlat_core::ntp::{ErrorEstimate, NtpTime};

/// Positions of the fields in one layout.
struct OwampFields {
    seq: Field<u32>,
    time: Field<u64>,
    error: Field<u16>,
    /// Length before the padding, in bytes.
    len: usize,
}

static OPEN: OwampFields =
    OwampFields { seq: Field::at(0), time: Field::at(4), error: Field::at(12), len: 14 };

/// The keyed layout ends with an HMAC.
static KEYED: OwampFields =
    OwampFields { seq: Field::at(0), time: Field::at(16), error: Field::at(24), len: MAX_LEN };

fn fields(keyed: bool) -> &'static OwampFields {
    if keyed { &KEYED } else { &OPEN }
}

/// Maximum length of a packet without padding, in bytes.
pub const MAX_LEN: usize = 48;

/// Returns the length of a packet without padding, in bytes.
pub fn len(mode: SecurityMode) -> usize {
    fields(mode.protects_test()).len
}

/// Fields of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// Sequence number, counted from 0.
    pub seq: u32,
    /// Send time on the sender's clock.
    pub sent: NtpTime,
    /// Error estimate of the sender's clock.
    pub error: ErrorEstimate,
}

/// Reason why a datagram is not a packet of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwampPacketError {
    /// The datagram is too short for the fields.
    Short,
    /// The packet was not made with the keys of the session.
    Forged,
}

impl TestPacket {
    /// Writes the fields to the front of `packet`; authenticates and encrypts them if there are keys. Returns
    /// their length in bytes.
    pub fn write(&self, keys: Option<&TestKeys>, packet: &mut [u8; MAX_LEN]) -> usize {
        let OwampFields { seq, time, error, len } = fields(keys.is_some());
        packet[..*len].fill(0);
        seq.write(packet, self.seq);
        time.write(packet, self.sent.0);
        error.write(packet, self.error.0);
        if let Some(keys) = keys {
            keys.seal(PacketOrigin::Sender, packet);
        }
        *len
    }

    /// Parses the fields at the front of `datagram`.
    pub fn parse(keys: Option<&TestKeys>, datagram: &[u8]) -> Result<TestPacket, OwampPacketError> {
        let OwampFields { seq, time, error, len } = fields(keys.is_some());
        let front = datagram.get(..*len).ok_or(OwampPacketError::Short)?;
        let mut packet = [0; MAX_LEN];
        packet[..*len].copy_from_slice(front);
        if keys.is_some_and(|keys| !keys.open(PacketOrigin::Sender, &mut packet)) {
            return Err(OwampPacketError::Forged);
        }
        let read = || {
            let (seq, sent, error) = (seq.read(&packet)?, time.read(&packet)?, error.read(&packet)?);
            Some(TestPacket { seq, sent: NtpTime(sent), error: ErrorEstimate(error) })
        };
        read().ok_or(OwampPacketError::Short)
    }
}
