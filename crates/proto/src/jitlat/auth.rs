//! Mutual authentication by a pre-shared key (version 3).
//!
//! The key is never sent. Each side proves that it has the key with an HMAC-SHA-256 over its role and all
//! bytes sent so far, including both nonces. A proof can therefore not be reflected, replayed, or used in
//! another conversation. After the proofs every frame is sealed ([`seal`](super::seal)).

use super::seal::{Seal, SharedSecret};
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Length of a nonce, in bytes.
pub(crate) const NONCE_LEN: usize = 16;
/// Length of a proof, in bytes.
pub(crate) const PROOF_LEN: usize = 32;
/// Length of the seal on a frame, in bytes.
pub(crate) const SEAL_LEN: usize = 16;
/// Minimum length of a key in bytes: 128 bits if the key is random.
pub(crate) const MIN_KEY_LEN: usize = 16;

/// A pre-shared key.
#[derive(Clone, PartialEq, Eq)]
pub struct PresharedKey(Vec<u8>);

/// Maximum length of a key in bytes. A longer file is probably not a key file.
pub(crate) const MAX_KEY_LEN: usize = 4096;

/// Reason why bytes cannot be used as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKey {
    /// The key is empty or too short to be secure.
    #[error(
        "the key has {0} bytes: give at least {MIN_KEY_LEN} random ones, e.g. from `head -c 32 /dev/urandom | base64`"
    )]
    Short(usize),
    /// The bytes are too long for a key.
    #[error("the key has {0} bytes, more than the maximum of {MAX_KEY_LEN}: is it the right file?")]
    Long(usize),
    /// The key consists of one repeated byte.
    #[error(
        "the key repeats one byte, which is easy to guess: make one with `head -c 32 /dev/urandom | base64`"
    )]
    Repeated,
}

/// Keys of a server, each with the name of the peer that has it.
pub type PresharedKeys = crate::policy::Keys<PresharedKey>;

impl PresharedKey {
    /// Parses the contents of a key file: the bytes of the key, without surrounding white space.
    pub fn from_file_contents(bytes: &[u8]) -> Result<PresharedKey, BadKey> {
        let key = bytes.trim_ascii();
        if key.len() < MIN_KEY_LEN {
            return Err(BadKey::Short(key.len()));
        }
        if key.len() > MAX_KEY_LEN {
            return Err(BadKey::Long(key.len()));
        }
        if key.iter().all(|b| *b == key[0]) {
            return Err(BadKey::Repeated);
        }
        Ok(PresharedKey(key.to_vec()))
    }

    /// Returns the token with which `host`, the only host that has this key, pushes tests: the SHA-256 of `jitlat push 1 HOST KEY`,
    /// in hexadecimal digits. The key cannot be computed from it.
    pub fn push_token(&self, host: &str) -> String {
        let mut sum = Sha256::new();
        sum.update(format!("jitlat push 1 {host} "));
        sum.update(&self.0);
        sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionSide {
    /// The host that runs `jitlat HOST`.
    Client,
    /// The host that runs `jitlat serve`.
    Server,
}

impl ConnectionSide {
    /// Returns the other side.
    pub fn other(self) -> ConnectionSide {
        match self {
            ConnectionSide::Client => ConnectionSide::Server,
            ConnectionSide::Server => ConnectionSide::Client,
        }
    }

    fn proof_label(self) -> &'static [u8] {
        match self {
            ConnectionSide::Client => b"jitlat 3 client proof",
            ConnectionSide::Server => b"jitlat 3 server proof",
        }
    }

    fn seal_label(self) -> &'static [u8] {
        match self {
            ConnectionSide::Client => b"jitlat 3 client seal",
            ConnectionSide::Server => b"jitlat 3 server seal",
        }
    }

    fn cipher_label(self) -> &'static [u8] {
        match self {
            ConnectionSide::Client => b"jitlat 3 client cipher",
            ConnectionSide::Server => b"jitlat 3 server cipher",
        }
    }
}

/// Hash of all bytes sent so far on a control connection, in both directions, in conversation order.
#[derive(Clone, Default)]
pub(crate) struct Transcript(Sha256);

impl Transcript {
    /// Adds bytes that were sent or received.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn digest(&self) -> [u8; 32] {
        self.0.clone().finalize().into()
    }

    /// Returns the proof, at this point of the conversation, that `side` has `key`.
    pub fn prove(&self, key: &PresharedKey, side: ConnectionSide) -> [u8; PROOF_LEN] {
        mac(&key.0, &[side.proof_label(), &self.digest()]).finalize().into_bytes().into()
    }

    /// True if `proof` is the proof of `side`. Takes constant time.
    pub(crate) fn verify(&self, key: &PresharedKey, side: ConnectionSide, proof: &[u8]) -> bool {
        mac(&key.0, &[side.proof_label(), &self.digest()]).verify_slice(proof).is_ok()
    }

    /// Derives a value that is bound to this conversation and requires `key` to compute. Without a key,
    /// anyone who has observed the conversation can compute it.
    pub fn secret(&self, key: Option<&PresharedKey>, label: &str) -> [u8; 32] {
        let key = key.map_or(&[][..], |k| &k.0);
        mac(key, &[label.as_bytes(), &self.digest()]).finalize().into_bytes().into()
    }

    /// Returns the generator of seals for all further frames of `side`, which are encrypted if both sides have agreed on a secret.
    pub fn seal(&self, key: &PresharedKey, side: ConnectionSide, shared: Option<&SharedSecret>) -> Seal {
        let derived = |parts: &[&[u8]]| mac(&key.0, parts).finalize().into_bytes().into();
        match shared {
            None => Seal::readable(derived(&[side.seal_label(), &self.digest()])),
            Some(shared) => Seal::encrypted(derived(&[side.cipher_label(), &self.digest(), &shared.0])),
        }
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transcript")
    }
}

/// HMAC-SHA-256 (RFC 2104). This function pads the key to the block size of the hash, so that no call can fail.
pub(super) fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    let hashed: [u8; 32];
    let key = if key.len() > block.len() {
        hashed = Sha256::digest(key).into();
        &hashed[..]
    } else {
        key
    };
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Derives a random value for `label` from the driver's random bytes. Values of different labels are
/// independent.
pub fn derive(entropy: &[u8; 32], label: &str) -> [u8; 32] {
    mac(entropy, &[label.as_bytes()]).finalize().into_bytes().into()
}

/// Returns the first eight bytes of [`derive`] as a number.
pub(crate) fn derive_u64(entropy: &[u8; 32], label: &str) -> u64 {
    let bytes = derive(entropy, label);
    bytes.first_chunk().map_or(0, |b| u64::from_be_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> PresharedKey {
        PresharedKey::from_file_contents(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_key_file_may_end_in_a_newline_but_not_be_short() {
        assert_eq!(key("0123456789abcdef\n"), key("0123456789abcdef"));
        assert_eq!(PresharedKey::from_file_contents(b" short \n"), Err(BadKey::Short(5)));
        assert_eq!(PresharedKey::from_file_contents(b" \n"), Err(BadKey::Short(0)));
        assert_eq!(PresharedKey::from_file_contents(&[0; 32]), Err(BadKey::Repeated));
        assert_eq!(PresharedKey::from_file_contents(&[b'0'; 32]), Err(BadKey::Repeated));
        let longest: Vec<u8> = (0..MAX_KEY_LEN).map(|k| b'a' + (k % 26) as u8).collect();
        assert!(PresharedKey::from_file_contents(&longest).is_ok());
        let novel = b"Call me Ishmael. ".repeat(1000);
        assert_eq!(PresharedKey::from_file_contents(&novel), Err(BadKey::Long(novel.trim_ascii().len())));
        assert_eq!(format!("{:?}", key("0123456789abcdef")), "Key(…)");
    }

    #[test]
    fn a_proof_is_bound_to_key_role_and_conversation() {
        let (good, bad) = (key("the right key 01"), key("another key 0123"));
        let mut said = Transcript::default();
        said.add(b"hello");
        let proof = said.prove(&good, ConnectionSide::Client);
        assert!(said.verify(&good, ConnectionSide::Client, &proof));
        assert!(!said.verify(&bad, ConnectionSide::Client, &proof));
        assert!(!said.verify(&good, ConnectionSide::Server, &proof), "no reflection");
        assert!(!said.verify(&good, ConnectionSide::Client, &proof[..31]));
        said.add(b"!");
        assert!(!said.verify(&good, ConnectionSide::Client, &proof), "no replay");
    }

    #[test]
    fn a_secret_is_bound_to_key_label_and_conversation() {
        let (good, other) = (key("the right key 01"), key("another key 0123"));
        let mut said = Transcript::default();
        let first = said.secret(Some(&good), "salt");
        assert_eq!(first, said.secret(Some(&good), "salt"));
        let others =
            [said.secret(Some(&other), "salt"), said.secret(None, "salt"), said.secret(Some(&good), "x")];
        assert!(!others.contains(&first));
        said.add(b"hello");
        assert_ne!(first, said.secret(Some(&good), "salt"));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let mut said = Transcript::default();
        said.add(b"the conversation");
        assert_eq!(format!("{said:?}"), "Transcript");
    }

    #[test]
    fn a_key_as_long_as_the_block_is_not_hashed() {
        use hmac::KeyInit;
        let by_the_library = Hmac::<Sha256>::new_from_slice(&[7; 64]).unwrap().chain_update(b"text");
        assert_eq!(mac(&[7; 64], &[b"text"]).finalize(), by_the_library.finalize());
    }

    /// RFC 4231, test cases 2 and 6 (a key longer than a block).
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let hex = |m: Hmac<Sha256>| {
            m.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        assert_eq!(
            hex(mac(b"Jefe", &[b"what do ya want ", b"for nothing?"])),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(mac(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"])),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn derived_values_differ_by_label_and_entropy() {
        let a = derive_u64(&[1; 32], "session");
        assert_ne!(a, derive_u64(&[1; 32], "token 0"));
        assert_ne!(a, derive_u64(&[2; 32], "session"));
        assert_eq!(a, derive_u64(&[1; 32], "session"));
    }
}
