//! Keys of version 2 (RFC 6812 §3.1.1.1): a digest over the whole control message. Probes have none.

use super::put;
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Length of a digest, in bytes.
pub(super) const DIGEST_LEN: usize = 32;

/// Protection of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// SHA-256 over the key and the message.
    Sha256,
    /// HMAC-SHA-256 (RFC 4868), which is the stronger of the two.
    HmacSha256,
}

impl AuthMode {
    /// Returns the number on the wire.
    pub(super) fn code(self) -> u8 {
        match self {
            AuthMode::Sha256 => 1,
            AuthMode::HmacSha256 => 2,
        }
    }

    /// Returns the mode with this number; `None` if it is unknown.
    pub(super) fn of(code: u8) -> Option<AuthMode> {
        [AuthMode::Sha256, AuthMode::HmacSha256].into_iter().find(|mode| mode.code() == code)
    }
}

/// A shared key and its number.
#[derive(Clone, PartialEq, Eq)]
pub struct IpslaKey {
    /// Number of the key in control messages.
    pub id: u16,
    secret: Vec<u8>,
}

impl IpslaKey {
    /// Creates key `id` of these bytes.
    pub fn new(id: u16, secret: &[u8]) -> IpslaKey {
        IpslaKey { id, secret: secret.to_vec() }
    }

    /// Returns the digest of `message`, whose digest field must be zero.
    fn digest(&self, mode: AuthMode, message: &[u8]) -> [u8; DIGEST_LEN] {
        match mode {
            AuthMode::Sha256 => {
                Sha256::new().chain_update(&self.secret).chain_update(message).finalize().into()
            }
            AuthMode::HmacSha256 => Hmac::<Sha256>::new_from_slice(&self.secret)
                .unwrap_or_else(|_| unreachable!("any key length is legal"))
                .chain_update(message)
                .finalize()
                .into_bytes()
                .into(),
        }
    }

    /// Writes the digest of `message` at `at`.
    pub(super) fn sign(&self, mode: AuthMode, message: &mut [u8], at: usize) {
        put(message, at, &[0; DIGEST_LEN]);
        let digest = self.digest(mode, message);
        put(message, at, &digest);
    }

    /// True if the digest at `at` is valid. Takes constant time.
    pub(super) fn has_signed(&self, mode: AuthMode, message: &[u8], at: usize) -> bool {
        let mut blank = message.to_vec();
        put(&mut blank, at, &[0; DIGEST_LEN]);
        let wanted = self.digest(mode, &blank);
        let Some(given) = message.get(at..at + DIGEST_LEN) else { return false };
        given.iter().zip(wanted).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

impl fmt::Debug for IpslaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpslaKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Error in a key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpslaKeyError {
    /// The line is not a number and a key.
    #[error("line {0}: write the number of the key (0 to 65535) and the key, text or hexadecimal after 0x")]
    Line(usize),
    /// Two lines have the same number.
    #[error("line {0}: key {1} is already in the file")]
    Twice(usize, u16),
    /// The file has no key.
    #[error("it contains no key: write lines of a number and a key, text or hexadecimal after 0x")]
    Empty,
}

/// Keys of a responder or client, each with its own number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpslaKeys(Vec<IpslaKey>);

impl IpslaKeys {
    /// Reads lines of a number and a key: `7 secret` or `7 0x736563726574`. Empty lines and lines that begin with `#`
    /// are skipped.
    ///
    /// # Errors
    /// [`IpslaKeyError`] if a line is not valid, or if there is no key.
    pub fn parse(text: &str) -> Result<IpslaKeys, IpslaKeyError> {
        let mut keys = IpslaKeys::default();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let key = parse_key(line).ok_or(IpslaKeyError::Line(number))?;
            if keys.get(key.id).is_some() {
                return Err(IpslaKeyError::Twice(number, key.id));
            }
            keys.0.push(key);
        }
        if keys.is_empty() { Err(IpslaKeyError::Empty) } else { Ok(keys) }
    }

    /// Returns the key with this number; `None` if there is none.
    pub fn get(&self, id: u16) -> Option<&IpslaKey> {
        self.0.iter().find(|key| key.id == id)
    }

    /// Returns the numbers of the keys, in the order of the file.
    pub fn ids(&self) -> impl Iterator<Item = u16> {
        self.0.iter().map(|key| key.id)
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn parse_key(line: &str) -> Option<IpslaKey> {
    let (id, secret) = line.split_once(char::is_whitespace)?;
    let (id, secret) = (id.parse().ok()?, secret.trim());
    let Some(digits) = secret.strip_prefix("0x") else { return Some(IpslaKey::new(id, secret.as_bytes())) };
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
    let secret: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    Some(IpslaKey::new(id, &secret?))
}
