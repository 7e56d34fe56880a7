//! Protection of test packets in the keyed modes (RFC 5357 §4.1.2, §4.2.1).
//!
//! * authenticated: the first block, which holds the sequence number, is encrypted; the HMAC covers only that
//!   block
//! * encrypted: every block before the HMAC is encrypted, with a zero initialisation vector in each packet;
//!   the HMAC covers the plain text of these blocks
//!
//! The HMAC itself and the padding are never encrypted.

use crate::amp::crypto::{BLOCK, SessionKeys, decrypt, encrypt, mac};
use crate::amp::{SecurityMode, Sid};
use hmac::Mac;

/// End that created a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOrigin {
    /// The session sender.
    Sender,
    /// The session reflector.
    Reflector,
}

impl PacketOrigin {
    /// Returns the offset of the HMAC in a packet of this end.
    const fn hmac_at(self) -> usize {
        match self {
            PacketOrigin::Sender => 32,
            PacketOrigin::Reflector => 96,
        }
    }
}

/// Keys of one session in the authenticated or encrypted mode.
#[derive(Clone, Debug)]
pub struct TestKeys {
    keys: SessionKeys,
    whole: bool,
}

impl TestKeys {
    /// Returns the keys of the session `sid` of a connection in this mode; `None` if the mode does not
    /// protect test packets.
    pub fn new(mode: SecurityMode, keys: &SessionKeys, sid: &Sid) -> Option<TestKeys> {
        mode.protects_test()
            .then(|| TestKeys { keys: keys.of_session(&sid.0), whole: mode == SecurityMode::Encrypted })
    }

    /// Returns the number of bytes that are encrypted and covered by the HMAC.
    fn covered(&self, origin: PacketOrigin) -> usize {
        if self.whole { origin.hmac_at() } else { BLOCK }
    }

    /// Authenticates and encrypts a packet made by `origin`. A packet that is too short for an HMAC stays
    /// unchanged.
    pub fn seal(&self, origin: PacketOrigin, packet: &mut [u8]) {
        let at = origin.hmac_at();
        let Some((head, rest)) = packet.split_at_mut_checked(at) else { return };
        let Some(slot) = rest.first_chunk_mut::<BLOCK>() else { return };
        let covered = &mut head[..self.covered(origin)];
        slot.copy_from_slice(&mac(&self.keys.hmac).chain_update(&*covered).finalize().into_bytes()[..BLOCK]);
        encrypt(&self.keys.aes, covered);
    }

    /// Decrypts, in place, a packet made by `origin`. Returns false if the packet was not made with these
    /// keys.
    pub fn open(&self, origin: PacketOrigin, packet: &mut [u8]) -> bool {
        let at = origin.hmac_at();
        let Some((head, rest)) = packet.split_at_mut_checked(at) else { return false };
        let Some(tag) = rest.first_chunk::<BLOCK>() else { return false };
        let covered = &mut head[..self.covered(origin)];
        decrypt(&self.keys.aes, covered);
        mac(&self.keys.hmac).chain_update(&*covered).verify_truncated_left(tag).is_ok()
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> &SessionKeys {
        &self.keys
    }
}
