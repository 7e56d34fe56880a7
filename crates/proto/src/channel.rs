//! Connection layer of the digest protocol: frames over a byte stream. Each side proves that it has the key; after that, every frame is
//! sealed, and encrypted if both sides can.
//!
//! A frame is `length u32 · kind u8 · body · seal`; the length counts the bytes after it. Kinds 1 and 2 are [`ChannelHello`] and the proof. A proof covers all frames before it, with the
//! protocol's magic number and both nonces, so it is useless in any other conversation.

use crate::jitlat::auth::{ConnectionSide, PresharedKey, PresharedKeys, SEAL_LEN, Transcript, derive};
use crate::jitlat::seal::{KeyShare, SHARE_LEN, Seal, SharedSecret};
use crate::wire::{Reader, Truncated};

/// Maximum length of a short text in a message, in bytes.
pub(crate) const MAX_TEXT: usize = 200;

/// Reason why a message cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message ends too early.
    #[error("a message is truncated")]
    Truncated,
    /// A field has an invalid value.
    #[error("a message has an invalid {0}")]
    Value(&'static str),
    /// An unknown message number.
    #[error("message number {0} is unknown")]
    Unknown(u8),
}

impl From<Truncated> for WireError {
    fn from(_: Truncated) -> WireError {
        WireError::Truncated
    }
}

/// Reason why received bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// The frame is longer than allowed.
    Length(u32),
    /// The seal is wrong.
    Seal,
}

/// First message of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHello {
    /// Version of the protocol.
    pub version: u16,
    /// True if this side has a key.
    pub keyed: bool,
    /// Fresh random bytes.
    pub nonce: [u8; 16],
    /// Public key, if this side has a key and can encrypt. Earlier versions neither send nor read it.
    pub share: Option<[u8; SHARE_LEN]>,
}

impl ChannelHello {
    /// Message number, which is the same in every protocol.
    pub const KIND: u8 = 1;

    /// Appends the body for the protocol with the magic number `magic`.
    pub(crate) fn encode(&self, magic: [u8; 4], out: &mut Vec<u8>) {
        out.extend_from_slice(&magic);
        out.extend_from_slice(&self.version.to_be_bytes());
        out.push(self.keyed.into());
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(self.share.as_ref().map_or(&[], |share| &share[..]));
    }

    /// Parses the body.
    pub(crate) fn decode(magic: [u8; 4], r: &mut Reader<'_>) -> Result<ChannelHello, WireError> {
        if r.array()? != magic {
            return Err(WireError::Value("beginning"));
        }
        let (version, keyed, nonce) = (r.u16()?, r.u8()? & 1 != 0, r.array()?);
        Ok(ChannelHello { version, keyed, nonce, share: r.array().ok() })
    }
}

/// Appends a text, truncated to [`MAX_TEXT`] bytes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push(end as u8);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// Reads a text.
pub(crate) fn text(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = usize::from(r.u8()?);
    if length > MAX_TEXT {
        return Err(WireError::Value("text"));
    }
    let bytes = r.take(length)?;
    let text = str::from_utf8(bytes).map_err(|_| WireError::Value("text"))?;
    // Control characters are replaced, because the text is printed on terminals.
    Ok(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Channel {
    side: ConnectionSide,
    /// Maximum length of a frame in bytes, not counting the length field.
    most: usize,
    /// Keys that the other side may have.
    keys: PresharedKeys,
    /// Key of this conversation; `None` until the other side has proved one.
    key: Option<PresharedKey>,
    transcript: Transcript,
    /// Random bytes from which this side's nonce and public key are made.
    entropy: [u8; 32],
    /// Secret that both sides have agreed on; `None` if one of them cannot encrypt.
    shared: Option<SharedSecret>,
    outgoing: Option<Seal>,
    incoming: Option<Seal>,
    bytes: Vec<u8>,
    /// Number of bytes at the front of `bytes` that have been read.
    read: usize,
}

impl Channel {
    /// Creates the connecting end, which proves `key` if given. `entropy` must be fresh random bytes.
    pub fn of_client(key: Option<PresharedKey>, most: usize, entropy: [u8; 32]) -> Channel {
        Channel { key: key.clone(), ..Channel::new(ConnectionSide::Client, key.into(), most, entropy) }
    }

    /// Creates the listening end; the client must prove one of `keys`. `entropy` must be fresh random bytes.
    pub fn of_server(keys: PresharedKeys, most: usize, entropy: [u8; 32]) -> Channel {
        Channel::new(ConnectionSide::Server, keys, most, entropy)
    }

    fn new(side: ConnectionSide, keys: PresharedKeys, most: usize, entropy: [u8; 32]) -> Channel {
        Channel {
            side,
            most,
            keys,
            key: None,
            transcript: Transcript::default(),
            entropy,
            shared: None,
            outgoing: None,
            incoming: None,
            bytes: Vec::new(),
            read: 0,
        }
    }

    /// True if a key is required.
    pub fn keyed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Appends the frame of a message, whose body is appended by `encode`.
    pub fn write(&mut self, kind: u8, encode: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(kind);
        encode(out);
        let seal = if self.outgoing.is_some() { SEAL_LEN } else { 0 };
        let length = (out.len() - at - 4 + seal) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        match &mut self.outgoing {
            Some(seal) => {
                let seal = seal.close(&mut out[at..]);
                out.extend_from_slice(&seal);
            }
            None => self.transcript.add(&out[at..]),
        }
    }

    /// Returns the frame of a message outside of a conversation, without a seal.
    pub fn frame(kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        Channel::new(ConnectionSide::Server, PresharedKeys::default(), usize::MAX, [0; 32])
            .write(kind, encode, &mut out);
        out
    }

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.bytes.drain(..core::mem::take(&mut self.read));
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message, as parsed by `decode` from its number and body; `None` if no
    /// message is complete yet.
    pub fn read<T>(&mut self, decode: impl FnOnce(u8, &[u8]) -> T) -> Result<Option<T>, FrameError> {
        let bytes = &self.bytes[self.read..];
        let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head);
        if length == 0 || length as usize > self.most {
            return Err(FrameError::Length(length));
        }
        let end = 4 + length as usize;
        let from = self.read;
        let Some(frame) = self.bytes.get_mut(from..from + end) else { return Ok(None) };
        let body: &[u8] = match &mut self.incoming {
            None => {
                self.transcript.add(frame);
                frame
            }
            Some(seal) => {
                let (body, tail) = frame.split_last_chunk_mut::<SEAL_LEN>().ok_or(FrameError::Seal)?;
                if body.len() < 5 || !seal.open(body, tail) {
                    return Err(FrameError::Seal);
                }
                body
            }
        };
        self.read += end;
        Ok(Some(decode(body[4], &body[5..])))
    }

    /// Returns this side's greeting. A server that has received a greeting without a public key sends none.
    pub fn hello(&self, version: u16) -> ChannelHello {
        let can_encrypt = match self.side {
            ConnectionSide::Client => self.keyed(),
            ConnectionSide::Server => self.shared.is_some(),
        };
        let nonce = derive(&self.entropy, "nonce").first_chunk().copied().unwrap_or_default();
        let share = can_encrypt.then(|| KeyShare::new(&self.entropy).public());
        ChannelHello { version, keyed: self.keyed(), nonce, share }
    }

    /// Handles the other side's greeting. Agrees on a secret if both sides have a key and can encrypt.
    pub fn greeted(&mut self, hello: &ChannelHello) {
        let theirs = hello.share.filter(|_| self.keyed() && hello.keyed);
        self.shared = theirs.map(|theirs| KeyShare::new(&self.entropy).agree(&theirs));
    }

    /// Returns this side's proof, over all bytes sent and received so far; `None` without a key.
    pub fn proof(&self) -> Option<[u8; 32]> {
        self.key.as_ref().map(|k| self.transcript.prove(k, self.side))
    }

    /// Returns the transcript for verifying the other side's proof. Must be called before the proof is read.
    pub fn transcript(&self) -> Transcript {
        self.transcript.clone()
    }

    /// Verifies `proof` against `transcript`. Returns the name of the peer whose key matches, and uses that
    /// key for the rest of the conversation; `None` if no key matches.
    pub fn proved(&mut self, transcript: &Transcript, proof: &[u8; 32]) -> Option<String> {
        let (name, key) = self.keys.find(|key| transcript.verify(key, self.side.other(), proof))?;
        self.key = Some(key.clone());
        Some(name.clone())
    }

    /// Seals all further frames if there is a key, and encrypts them if both sides can. Returns a number that is the
    /// same on both sides and differs for each `label`.
    pub fn seal(&mut self, label: &str) -> u64 {
        if let Some(key) = &self.key {
            let seal = |side| Some(self.transcript.seal(key, side, self.shared.as_ref()));
            (self.outgoing, self.incoming) = (seal(self.side), seal(self.side.other()));
        }
        let secret = self.transcript.secret(self.key.as_ref(), label);
        secret.first_chunk().map_or(0, |b| u64::from_be_bytes(*b))
    }
}
