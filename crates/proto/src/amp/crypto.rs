//! Keys of the keyed modes, and encryption of the two directions of a control connection (RFC 4656 §3.1,
//! §3.4). Each direction uses AES-128-CBC. Each message ends with an HMAC-SHA1, truncated to 128 bits, of all
//! bytes since the previous HMAC.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, KeyInit, KeyIvInit};
use core::fmt;
use hmac::{Hmac, HmacReset, Mac};
use sha1::Sha1;

/// Length of an AES block in bytes.
pub const BLOCK: usize = 16;

type AesBlock = aes::Block;

/// Minimum number of rounds of key derivation that a server may request.
pub(crate) const MIN_ROUNDS: u32 = 1024;
/// Maximum number of rounds of key derivation that a client computes: the default of RFC 4656 §6.1. With more
/// rounds, a server could keep the client busy for minutes.
pub(crate) const MAX_ROUNDS: u32 = 32_768;

fn encryptor(key: &[u8; 16], iv: &[u8; 16]) -> cbc::Encryptor<Aes128> {
    cbc::Encryptor::new(&(*key).into(), &(*iv).into())
}

fn decryptor(key: &[u8; 16], iv: &[u8; 16]) -> cbc::Decryptor<Aes128> {
    cbc::Decryptor::new(&(*key).into(), &(*iv).into())
}

/// Encrypts the whole blocks of `bytes`.
pub(crate) fn encrypt(key: &[u8; 16], bytes: &mut [u8]) {
    let mut cbc = encryptor(key, &[0; 16]);
    let (blocks, _) = AesBlock::slice_as_chunks_mut(bytes);
    cbc.encrypt_blocks(blocks);
}

/// Reverses [`encrypt`].
pub(crate) fn decrypt(key: &[u8; 16], bytes: &mut [u8]) {
    let mut cbc = decryptor(key, &[0; 16]);
    let (blocks, _) = AesBlock::slice_as_chunks_mut(bytes);
    cbc.decrypt_blocks(blocks);
}

/// Returns an HMAC that can be reset for the next message.
fn running_mac(key: &[u8; 32]) -> HmacReset<Sha1> {
    <HmacReset<Sha1> as KeyInit>::new_from_slice(key)
        .unwrap_or_else(|_| unreachable!("any key length is legal"))
}

pub(crate) fn mac(key: &[u8; 32]) -> Hmac<Sha1> {
    // HMAC accepts keys of any length, so this cannot fail.
    <Hmac<Sha1> as KeyInit>::new_from_slice(key).unwrap_or_else(|_| unreachable!("any key length is legal"))
}

/// Derives a key from a passphrase by PBKDF2 with HMAC-SHA1. It deliberately takes time proportional to
/// `rounds`, to slow down guessing.
pub fn derive(passphrase: &[u8], salt: &[u8; 16], rounds: u32) -> [u8; 16] {
    pbkdf2::pbkdf2_hmac_array::<Sha1, 16>(passphrase, salt, rounds)
}

/// Keys of one control connection, which the client chooses.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKeys {
    /// AES key.
    pub aes: [u8; 16],
    /// HMAC key.
    pub hmac: [u8; 32],
}

impl SessionKeys {
    /// Returns the token: the server's challenge and these keys, encrypted with `key`, which is derived from
    /// the passphrase.
    pub fn token(&self, key: &[u8; 16], challenge: &[u8; 16]) -> [u8; 64] {
        let mut token = [0; 64];
        token[..16].copy_from_slice(challenge);
        token[16..32].copy_from_slice(&self.aes);
        token[32..].copy_from_slice(&self.hmac);
        encrypt(key, &mut token);
        token
    }

    /// Returns the keys in `token`; `None` if the token was not encrypted with `key`, which is derived from
    /// the passphrase.
    pub(crate) fn from_token(token: &[u8; 64], key: &[u8; 16], challenge: &[u8; 16]) -> Option<SessionKeys> {
        let mut plain = *token;
        decrypt(key, &mut plain);
        // Both ends know the challenge, so only the comparison must take constant time.
        let differs = plain[..16].iter().zip(challenge).fold(0, |d, (a, b)| d | (a ^ b));
        let (aes, hmac) = (plain[16..32].try_into().ok()?, plain[32..].try_into().ok()?);
        // black_box keeps the compiler from ending the comparison at the first difference.
        (core::hint::black_box(differs) == 0).then_some(SessionKeys { aes, hmac })
    }

    /// Derives the keys of the test session `sid`.
    pub(crate) fn of_session(&self, sid: &[u8; 16]) -> SessionKeys {
        let cipher = Aes128::new(&(*sid).into());
        let mut block: AesBlock = self.aes.into();
        cipher.encrypt_block(&mut block);
        let mut hmac = self.hmac;
        encrypt(sid, &mut hmac);
        SessionKeys { aes: block.into(), hmac }
    }
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKeys(…)")
    }
}

/// Error: the HMAC of a message is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

/// Encoder of bytes to send. Bytes are not encrypted until `protect` is called.
#[derive(Default)]
pub struct OutgoingBytes(Option<(cbc::Encryptor<Aes128>, HmacReset<Sha1>)>);

impl OutgoingBytes {
    /// Encrypts all further bytes with `keys`, starting with `iv`.
    pub(crate) fn protect(&mut self, keys: &SessionKeys, iv: &[u8; 16]) {
        self.0 = Some((encryptor(&keys.aes, iv), running_mac(&keys.hmac)));
    }

    /// Appends `message`, which consists of whole blocks and has no HMAC of its own, to `out`. The next HMAC
    /// covers it.
    pub fn put(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(message);
        if let Some((cbc, mac)) = &mut self.0 {
            mac.update(message);
            cbc.encrypt_blocks(AesBlock::slice_as_chunks_mut(&mut out[start..]).0);
        }
    }

    /// Appends `message` and its HMAC.
    pub(crate) fn put_signed(&mut self, message: &[u8], out: &mut Vec<u8>) {
        self.put(message, out);
        let mut tag = AesBlock::default();
        if let Some((cbc, mac)) = &mut self.0 {
            tag.copy_from_slice(&mac.finalize_reset().into_bytes()[..BLOCK]);
            cbc.encrypt_block(&mut tag);
        }
        out.extend(tag);
    }
}

/// Decoder of received bytes. Bytes are not encrypted until `protect` is called.
#[derive(Default)]
pub struct IncomingBytes {
    cipher: Option<(cbc::Decryptor<Aes128>, HmacReset<Sha1>)>,
    /// Received bytes that have not been decrypted yet: less than a block.
    raw: Vec<u8>,
    /// Decrypted bytes that have not been consumed yet.
    plain: Vec<u8>,
}

impl IncomingBytes {
    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some((cbc, _)) = &mut self.cipher else { return self.plain.extend(bytes) };
        self.raw.extend(bytes);
        let start = self.plain.len();
        let whole = self.raw.len() / BLOCK * BLOCK;
        self.plain.extend(self.raw.drain(..whole));
        cbc.decrypt_blocks(AesBlock::slice_as_chunks_mut(&mut self.plain[start..]).0);
    }

    /// Decrypts all further bytes, and those that have not been consumed yet, with `keys`, starting with
    /// `iv`.
    pub(crate) fn protect(&mut self, keys: &SessionKeys, iv: &[u8; 16]) {
        self.cipher = Some((decryptor(&keys.aes, iv), running_mac(&keys.hmac)));
        // Bytes after the last unprotected message are already encrypted.
        let waiting = core::mem::take(&mut self.plain);
        self.feed(&waiting);
    }

    /// Returns the number of bytes that have not been consumed yet.
    pub fn len(&self) -> usize {
        self.raw.len() + self.plain.len()
    }

    /// True if all bytes have been consumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the decrypted bytes that have not been consumed yet.
    pub fn readable(&self) -> &[u8] {
        &self.plain
    }

    /// Returns the first readable byte, which is the command number of a client's message; `None` if there is
    /// none.
    pub fn first(&self) -> Option<u8> {
        self.plain.first().copied()
    }

    /// Consumes `len` bytes that have no HMAC of their own. Returns `None` until all of them are available.
    pub fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        if self.plain.len() < len {
            return None;
        }
        let message: Vec<u8> = self.plain.drain(..len).collect();
        if let Some((_, mac)) = &mut self.cipher {
            mac.update(&message);
        }
        Some(message)
    }

    /// Consumes a message of `len` bytes, including the HMAC, once it is complete. Returns the message
    /// without the HMAC, which is not checked in open mode.
    pub(crate) fn take_signed(&mut self, len: usize) -> Option<Result<Vec<u8>, Forged>> {
        if self.plain.len() < len {
            return None;
        }
        let message = self.take(len.saturating_sub(BLOCK))?;
        let tag: Vec<u8> = self.plain.drain(..BLOCK).collect();
        Some(match &mut self.cipher {
            Some((_, mac)) => {
                let said = mac.finalize_reset();
                let differs = said.as_bytes().iter().zip(&tag).fold(0, |d, (a, b)| d | (a ^ b));
                if core::hint::black_box(differs) == 0 { Ok(message) } else { Err(Forged) }
            }
            None => Ok(message),
        })
    }
}

impl fmt::Debug for OutgoingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing {{ encrypted: {} }}", self.0.is_some())
    }
}

impl fmt::Debug for IncomingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming {{ encrypted: {}, waiting: {} }}", self.cipher.is_some(), self.len())
    }
}
