//! Seals on the frames that follow the proofs, and the encryption of these frames.
//!
//! If both sides can encrypt, they agree on a secret with X25519 ([`KeyShare`]): each puts a fresh public key into its
//! greeting. The proofs cover the greetings, so that nobody without the key can replace a public key, or remove it to
//! prevent encryption. Frames are then encrypted with ChaCha20-Poly1305. Its keys are derived from the secret, the
//! pre-shared key and the conversation; somebody who learns the pre-shared key later cannot read conversations that
//! were recorded before. With a peer of an earlier version, whose greeting has no public key, frames have seals without
//! encryption (HMAC-SHA-256).

use super::auth::{SEAL_LEN, derive, mac};
use core::fmt;
use cryptoxide::chacha20poly1305::{Context, DecryptionResult};
use cryptoxide::curve25519::{curve25519, curve25519_base};
use cryptoxide::poly1305::Tag;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Length of a public key, in bytes.
pub const SHARE_LEN: usize = 32;
/// Length of the field in front of a frame that states its length, in bytes.
const LENGTH_LEN: usize = 4;

/// One side's part of the agreement on a secret.
#[derive(Clone)]
pub struct KeyShare([u8; 32]);

impl KeyShare {
    /// Creates the part from fresh random bytes.
    pub fn new(entropy: &[u8; 32]) -> KeyShare {
        KeyShare(derive(entropy, "key share"))
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; SHARE_LEN] {
        curve25519_base(&self.0)
    }

    /// Returns the secret shared with the side whose public key is `theirs`.
    pub fn agree(&self, theirs: &[u8; SHARE_LEN]) -> SharedSecret {
        SharedSecret(curve25519(&self.0, theirs))
    }
}

impl fmt::Debug for KeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyShare(…)")
    }
}

/// Secret that both sides have agreed on.
#[derive(Clone)]
pub struct SharedSecret(pub(super) [u8; 32]);

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}

/// Seals or opens the frames of one direction, one after the other.
#[derive(Clone)]
pub struct Seal {
    method: SealMethod,
    /// Number of frames so far. It is part of each seal, so that repeated, lost or reordered frames are detected.
    counter: u64,
}

#[derive(Clone)]
enum SealMethod {
    /// The seal is a truncated HMAC with this key; the frame is readable.
    Mac([u8; 32]),
    /// The frame is encrypted with this key, except its length.
    Cipher([u8; 32]),
}

impl Seal {
    /// Creates seals without encryption.
    pub(super) fn readable(key: [u8; 32]) -> Seal {
        Seal { method: SealMethod::Mac(key), counter: 0 }
    }

    /// Creates seals with encryption.
    pub(super) fn encrypted(key: [u8; 32]) -> Seal {
        Seal { method: SealMethod::Cipher(key), counter: 0 }
    }

    /// True if frames are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.method, SealMethod::Cipher(_))
    }

    /// Encrypts the next frame, if frames are encrypted, and returns its seal. `frame` begins with its length.
    pub fn close(&mut self, frame: &mut [u8]) -> [u8; SEAL_LEN] {
        let counter = self.next();
        let (length, body) = frame.split_at_mut(LENGTH_LEN.min(frame.len()));
        match &self.method {
            SealMethod::Mac(key) => {
                let full = frame_mac(key, counter, length, body).finalize().into_bytes();
                full.first_chunk().copied().unwrap_or_default()
            }
            SealMethod::Cipher(key) => {
                let mut cipher = cipher(key, counter, length).to_encryption();
                cipher.encrypt_mut(body);
                cipher.finalize().0
            }
        }
    }

    /// Decrypts the next frame, if frames are encrypted. Returns false if `seal` is not its seal: the frame must then not
    /// be used. Takes constant time.
    pub fn open(&mut self, frame: &mut [u8], seal: &[u8; SEAL_LEN]) -> bool {
        let counter = self.next();
        let (length, body) = frame.split_at_mut(LENGTH_LEN.min(frame.len()));
        match &self.method {
            SealMethod::Mac(key) => frame_mac(key, counter, length, body).verify_truncated_left(seal).is_ok(),
            SealMethod::Cipher(key) => {
                let mut cipher = cipher(key, counter, length).to_decryption();
                cipher.decrypt_mut(body);
                cipher.finalize(&Tag(*seal)) == DecryptionResult::Match
            }
        }
    }

    fn next(&mut self) -> u64 {
        let counter = self.counter;
        self.counter += 1;
        counter
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({})", self.counter)
    }
}

fn frame_mac(key: &[u8; 32], counter: u64, length: &[u8], body: &[u8]) -> Hmac<Sha256> {
    mac(key, &[&counter.to_be_bytes(), length, body])
}

/// Returns the cipher of frame `counter`, whose `length` is authenticated.
fn cipher(key: &[u8; 32], counter: u64, length: &[u8]) -> Context<20> {
    let mut cipher = Context::new(key, &nonce(counter));
    cipher.add_data(length);
    cipher
}

/// Returns the nonce of frame `counter`. Each key is used for one direction of one conversation, so that no nonce is
/// used twice.
fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitlat::auth::{ConnectionSide, PresharedKey, Transcript};

    fn key(text: &str) -> PresharedKey {
        PresharedKey::from_file_contents(text.as_bytes()).unwrap()
    }

    fn agreed() -> [Option<SharedSecret>; 2] {
        [None, Some(KeyShare::new(&[1; 32]).agree(&KeyShare::new(&[2; 32]).public()))]
    }

    fn closed(seal: &mut Seal, body: &[u8]) -> (Vec<u8>, [u8; SEAL_LEN]) {
        let mut frame = [&[0, 0, 0, 9][..], body].concat();
        let mac = seal.close(&mut frame);
        (frame, mac)
    }

    fn opens(mut seal: Seal, (mut frame, mac): (Vec<u8>, [u8; SEAL_LEN])) -> Option<Vec<u8>> {
        seal.open(&mut frame, &mac).then(|| frame[4..].to_vec())
    }

    #[test]
    fn a_seal_is_bound_to_direction_order_key_and_secret() {
        let (said, good) = (Transcript::default(), key("the right key 01"));
        for shared in agreed() {
            let of = |key: &PresharedKey, side| said.seal(key, side, shared.as_ref());
            let mut seal = of(&good, ConnectionSide::Client);
            let (first, second) = (closed(&mut seal, b"a"), closed(&mut seal, b"a"));
            assert_ne!(first.1, second.1);
            let client = || of(&good, ConnectionSide::Client);
            assert_eq!(opens(client(), first.clone()), Some(b"a".to_vec()));
            assert_eq!(opens(client(), second), None, "out of order");
            assert_eq!(opens(of(&good, ConnectionSide::Server), first.clone()), None, "reflected");
            assert_eq!(opens(of(&key("another key 0123"), ConnectionSide::Client), first.clone()), None);
            for at in 0..first.0.len() {
                let mut altered = first.clone();
                altered.0[at] ^= 1;
                assert_eq!(opens(client(), altered), None, "byte {at}");
            }
            let other = KeyShare::new(&[3; 32]).agree(&KeyShare::new(&[2; 32]).public());
            assert_eq!(opens(said.seal(&good, ConnectionSide::Client, Some(&other)), first), None);
            assert_eq!(format!("{seal:?}"), "Seal(2)");
        }
    }

    #[test]
    fn both_sides_agree_and_frames_are_unreadable() {
        let (one, other) = (KeyShare::new(&[1; 32]), KeyShare::new(&[2; 32]));
        let (a, b) = (one.agree(&other.public()), other.agree(&one.public()));
        assert_eq!(a.0, b.0);
        assert_ne!(a.0, one.agree(&one.public()).0);
        let mut seal = Transcript::default().seal(&key("the right key 01"), ConnectionSide::Client, Some(&a));
        assert!(seal.is_encrypted());
        let (frame, _) = closed(&mut seal, b"192.0.2.1");
        assert!(frame[..4] == [0, 0, 0, 9] && frame[4..] != *b"192.0.2.1");
        assert_eq!(format!("{one:?} {a:?}"), "KeyShare(…) SharedSecret(…)");
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|k| u8::from_str_radix(&hex[2 * k..2 * k + 2], 16).unwrap()).collect()
    }

    /// RFC 7748, section 6.1.
    #[test]
    fn the_agreement_is_that_of_the_rfc() {
        let key = |hex: &str| -> [u8; 32] { bytes(hex).try_into().unwrap() };
        let alice = KeyShare(key("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
        let bob = key("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        let shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
        assert_eq!(alice.agree(&bob).0, key(shared));
    }

    /// RFC 8439, section 2.8; computed with OpenSSL.
    #[test]
    fn frames_are_encrypted_as_in_the_rfc() {
        let mut seal = Seal::encrypted(std::array::from_fn(|k| k as u8));
        for (body, mac) in [
            ("2981701f9dc894ff22", "30a32e7f8019d839706dfe7925fbba7a"),
            ("58654ef701248a541c", "2d9f444a31d9371477468f00ffb9ae56"),
        ] {
            let (frame, found) = closed(&mut seal, b"192.0.2.1");
            assert_eq!((&frame[LENGTH_LEN..], &found[..]), (&bytes(body)[..], &bytes(mac)[..]));
        }
    }
}
