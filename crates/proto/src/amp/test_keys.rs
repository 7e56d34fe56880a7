//! The protection of test packets by the keyed modes (RFC 5357 §4.1.2, §4.2.1).
//!
//! * authenticated: the first block, with the sequence number, is encrypted, and the HMAC covers it alone
//! * encrypted: every block before the HMAC is, with a fresh zero vector for each packet; the HMAC covers
//!   their plain text
//!
//! The HMAC itself and the padding are never encrypted.

use crate::amp::crypto::{BLOCK, SessionKeys, decrypt, encrypt, mac};
use crate::amp::{SecurityMode, Sid};
use hmac::Mac;

/// Which end made a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOrigin {
    /// The session sender.
    Sender,
    /// The session reflector.
    Reflector,
}

impl PacketOrigin {
    /// Where the HMAC of its packets lies.
    const fn hmac_at(self) -> usize {
        match self {
            PacketOrigin::Sender => 32,
            PacketOrigin::Reflector => 96,
        }
    }
}

/// The keys of one session in the authenticated or encrypted mode.
#[derive(Clone, Debug)]
pub struct TestKeys {
    keys: SessionKeys,
    whole: bool,
}

impl TestKeys {
    /// Of the session `sid` of a connection in this mode; `None` where test packets are not protected.
    pub fn new(mode: SecurityMode, keys: &SessionKeys, sid: &Sid) -> Option<TestKeys> {
        mode.protects_test()
            .then(|| TestKeys { keys: keys.of_session(&sid.0), whole: mode == SecurityMode::Encrypted })
    }

    /// Bytes that are encrypted and covered by the HMAC.
    fn covered(&self, origin: PacketOrigin) -> usize {
        if self.whole { origin.hmac_at() } else { BLOCK }
    }

    /// Signs and encrypts a packet made by `origin`. One too short for its HMAC stays as it is.
    pub fn seal(&self, origin: PacketOrigin, packet: &mut [u8]) {
        let at = origin.hmac_at();
        let Some((head, rest)) = packet.split_at_mut_checked(at) else { return };
        let Some(place) = rest.first_chunk_mut::<BLOCK>() else { return };
        let covered = &mut head[..self.covered(origin)];
        place.copy_from_slice(&mac(&self.keys.hmac).chain_update(&*covered).finalize().into_bytes()[..BLOCK]);
        encrypt(&self.keys.aes, covered);
    }

    /// Decrypts a packet made by `origin` in place; false if it was not made with these keys.
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
