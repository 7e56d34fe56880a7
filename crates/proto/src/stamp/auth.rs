//! The authenticated mode (RFC 8762 §4.4, RFC 8972 §4.8): HMAC-SHA-256 truncated to 128 bits. Protects
//! packets against modification, but not against reading or replay.

use crate::stamp::tlv::{HEADER_LEN, TlvStep, Tlvs, kind};
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length of a truncated HMAC, in bytes.
pub(crate) const LEN: usize = 16;
/// Number of bytes of a base packet that are covered by the HMAC, which follows them.
pub(crate) const COVERED: usize = 96;

/// A shared key.
#[derive(Clone, PartialEq, Eq)]
pub struct StampKey(Vec<u8>);

impl StampKey {
    /// Creates a key of these bytes.
    pub fn new(bytes: &[u8]) -> StampKey {
        StampKey(bytes.to_vec())
    }

    fn mac(&self) -> Hmac<Sha256> {
        // HMAC accepts keys of any length, so this cannot fail.
        Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("any key length is legal"))
    }

    /// Writes the HMAC of the base packet at the front of `packet`, which must have at least 112 bytes.
    pub(crate) fn sign_base(&self, packet: &mut [u8]) {
        let Some((base, rest)) = packet.split_at_mut_checked(COVERED) else { return };
        let Some(slot) = rest.first_chunk_mut::<LEN>() else { return };
        let tag = self.mac().chain_update(base).finalize().into_bytes();
        slot.copy_from_slice(&tag[..LEN]);
    }

    /// True if the HMAC of the base packet at the front of `packet` is valid. Takes constant time.
    pub(crate) fn verify_base(&self, packet: &[u8]) -> bool {
        let Some((base, rest)) = packet.split_at_checked(COVERED) else { return false };
        let Some(tag) = rest.first_chunk::<LEN>() else { return false };
        self.mac().chain_update(base).verify_truncated_left(tag).is_ok()
    }

    fn tlv_mac(&self, seq: u32, before: &[u8]) -> Hmac<Sha256> {
        self.mac().chain_update(seq.to_be_bytes()).chain_update(before)
    }

    /// Appends an HMAC extension over `seq` and the extensions in `tlvs`.
    pub(crate) fn push_tlv(&self, seq: u32, tlvs: &mut Vec<u8>) {
        let tag = self.tlv_mac(seq, tlvs).finalize().into_bytes();
        crate::stamp::tlv::push(tlvs, kind::HMAC, &tag[..LEN]);
    }

    /// Recomputes the HMAC extension in `tlvs`, if there is one of the right length.
    pub(crate) fn sign_tlvs(&self, seq: u32, tlvs: &mut [u8]) {
        let Some(at) = find(tlvs) else { return };
        let (before, rest) = tlvs.split_at_mut(at);
        let tag = self.tlv_mac(seq, before).finalize().into_bytes();
        if let Some(slot) = rest.get_mut(HEADER_LEN..HEADER_LEN + LEN) {
            slot.copy_from_slice(&tag[..LEN]);
        }
    }

    /// True if the extensions are unchanged since the sender of `seq` wrote them: either their HMAC is valid,
    /// or they are only padding.
    pub(crate) fn verify_tlvs(&self, seq: u32, tlvs: &[u8]) -> bool {
        match find(tlvs) {
            Some(at) => {
                let tag = &tlvs[at + HEADER_LEN..at + HEADER_LEN + LEN];
                self.tlv_mac(seq, &tlvs[..at]).verify_truncated_left(tag).is_ok()
            }
            None => Tlvs::new(tlvs).all(|s| matches!(s, TlvStep::Whole(_, t) if t.kind == kind::PADDING)),
        }
    }
}

/// Returns the offset of the HMAC extension; `None` if there is none.
fn find(tlvs: &[u8]) -> Option<usize> {
    Tlvs::new(tlvs).find_map(|step| match step {
        TlvStep::Whole(at, t) if t.kind == kind::HMAC && t.value.len() == LEN => Some(at),
        _ => None,
    })
}

impl fmt::Debug for StampKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", StampKey::new(b"secret")), "Key(…)");
    }

    #[test]
    fn a_base_packet_is_signed_whole_or_not_at_all() {
        let key = StampKey::new(b"secret");
        let mut packet = [7; COVERED + LEN + 4];
        key.sign_base(&mut packet);
        assert!(key.verify_base(&packet) && key.verify_base(&packet[..COVERED + LEN]));
        assert!(packet[COVERED..COVERED + LEN] != [7; LEN] && packet[COVERED + LEN..] == [7; 4]);
        for at in 0..COVERED + LEN {
            let mut altered = packet;
            altered[at] ^= 1;
            assert!(!key.verify_base(&altered), "{at}");
        }
        assert!(!key.verify_base(&packet[..COVERED + LEN - 1]) && !key.verify_base(&[]));
        assert!(!StampKey::new(b"another").verify_base(&packet));
        let mut short = [7; COVERED + LEN - 1];
        key.sign_base(&mut short);
        assert_eq!(short, [7; COVERED + LEN - 1]);
    }

    #[test]
    fn extensions_are_signed_with_the_number_of_their_packet() {
        let key = StampKey::new(b"secret");
        let mut tlvs = Vec::new();
        crate::stamp::tlv::push(&mut tlvs, kind::CLASS_OF_SERVICE, &[1, 2, 3, 4]);
        assert!(!key.verify_tlvs(5, &tlvs), "not signed");
        key.push_tlv(5, &mut tlvs);
        assert!(key.verify_tlvs(5, &tlvs) && !key.verify_tlvs(6, &tlvs));
        let mut altered = tlvs.clone();
        altered[HEADER_LEN] ^= 1;
        assert!(!key.verify_tlvs(5, &altered));
        key.sign_tlvs(5, &mut altered);
        assert!(key.verify_tlvs(5, &altered));
        // Padding alone needs no HMAC.
        let mut padding = Vec::new();
        crate::stamp::tlv::push(&mut padding, kind::PADDING, &[0; 9]);
        assert!(key.verify_tlvs(5, &padding) && key.verify_tlvs(5, &[]));
        // An HMAC extension of another length is not valid.
        crate::stamp::tlv::push(&mut padding, kind::HMAC, &[0; LEN - 1]);
        assert!(!key.verify_tlvs(5, &padding));
    }
}
