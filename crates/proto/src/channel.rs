//! What digests and pushes share: frames over a byte stream, the proof of a key, and from then on a seal on every frame.
//!
//! A frame is `length u32 · kind u8 · body · seal`; the length counts what follows it. Kinds 1 and 2 of every such protocol are [`ChannelHello`] and the
//! proof. As a proof is over all frames before it, which hold the protocol's magic and both nonces, it proves nothing elsewhere.

use crate::jitlat::auth::{ConnectionSide, PresharedKey, PresharedKeys, SEAL_LEN, Seal, Transcript};
use crate::wire::{Reader, Truncated};

/// Most bytes of a short text.
pub(crate) const MAX_TEXT: usize = 200;

/// A message that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It ends too early.
    #[error("a message is cut short")]
    Truncated,
    /// A field has an invalid value.
    #[error("a message has an impossible {0}")]
    Value(&'static str),
    /// An unknown message number.
    #[error("there is no message {0}")]
    Unknown(u8),
}

impl From<Truncated> for WireError {
    fn from(_: Truncated) -> WireError {
        WireError::Truncated
    }
}

/// Why a frame is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// It is longer than allowed.
    Length(u32),
    /// Its seal is wrong.
    Seal,
}

/// The first message of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHello {
    /// The version spoken.
    pub version: u16,
    /// Whether this side has a key.
    pub keyed: bool,
    /// Fresh random bytes.
    pub nonce: [u8; 16],
}

impl ChannelHello {
    /// Its number in every protocol.
    pub const KIND: u8 = 1;

    /// Appends its body in the protocol that begins with `magic`.
    pub(crate) fn encode(&self, magic: [u8; 4], out: &mut Vec<u8>) {
        out.extend_from_slice(&magic);
        out.extend_from_slice(&self.version.to_be_bytes());
        out.push(self.keyed.into());
        out.extend_from_slice(&self.nonce);
    }

    /// Parses its body.
    pub(crate) fn decode(magic: [u8; 4], r: &mut Reader<'_>) -> Result<ChannelHello, WireError> {
        if r.array()? != magic {
            return Err(WireError::Value("beginning"));
        }
        Ok(ChannelHello { version: r.u16()?, keyed: r.u8()? & 1 != 0, nonce: r.array()? })
    }
}

/// Appends a text, cut to [`MAX_TEXT`] bytes.
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
    // Printed for people: remove terminal control characters.
    Ok(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

/// One side's end of the connection.
#[derive(Debug)]
pub(crate) struct Channel {
    side: ConnectionSide,
    /// Most bytes of a frame, without its length field.
    most: usize,
    /// Those that the other side may prove.
    keys: PresharedKeys,
    /// The one of this conversation.
    key: Option<PresharedKey>,
    transcript: Transcript,
    outgoing: Option<Seal>,
    incoming: Option<Seal>,
    bytes: Vec<u8>,
    /// Bytes of them that were read.
    read: usize,
}

impl Channel {
    /// The end that connects, with its key.
    pub fn of_client(key: Option<PresharedKey>, most: usize) -> Channel {
        Channel { key: key.clone(), ..Channel::new(ConnectionSide::Client, key.into(), most) }
    }

    /// The end that listens; the client proves one of `keys`.
    pub fn of_server(keys: PresharedKeys, most: usize) -> Channel {
        Channel::new(ConnectionSide::Server, keys, most)
    }

    fn new(side: ConnectionSide, keys: PresharedKeys, most: usize) -> Channel {
        Channel {
            side,
            most,
            keys,
            key: None,
            transcript: Transcript::default(),
            outgoing: None,
            incoming: None,
            bytes: Vec::new(),
            read: 0,
        }
    }

    /// Whether a key is needed.
    pub fn keyed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Appends the frame of a message whose body `encode` appends.
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
                let seal = seal.next(&out[at..]);
                out.extend_from_slice(&seal);
            }
            None => self.transcript.add(&out[at..]),
        }
    }

    /// The frame of a message to somebody with whom there is no conversation: without a seal.
    pub fn frame(kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        Channel::new(ConnectionSide::Server, PresharedKeys::default(), usize::MAX)
            .write(kind, encode, &mut out);
        out
    }

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.bytes.drain(..core::mem::take(&mut self.read));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete message, as `decode` reads its number and body; `None` if there is none.
    pub fn read<T>(&mut self, decode: impl FnOnce(u8, &[u8]) -> T) -> Result<Option<T>, FrameError> {
        let bytes = &self.bytes[self.read..];
        let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head);
        if length == 0 || length as usize > self.most {
            return Err(FrameError::Length(length));
        }
        let end = 4 + length as usize;
        let Some(frame) = bytes.get(..end) else { return Ok(None) };
        let body = match &mut self.incoming {
            None => {
                self.transcript.add(frame);
                frame
            }
            Some(seal) => {
                let (body, tail) = frame.split_last_chunk::<SEAL_LEN>().ok_or(FrameError::Seal)?;
                if body.len() < 5 || !seal.check(body, tail) {
                    return Err(FrameError::Seal);
                }
                body
            }
        };
        self.read += end;
        Ok(Some(decode(body[4], &body[5..])))
    }

    /// This side's greeting.
    pub fn hello(&self, version: u16, nonce: [u8; 16]) -> ChannelHello {
        ChannelHello { version, keyed: self.keyed(), nonce }
    }

    /// This side's proof, over everything sent and received so far.
    pub fn proof(&self) -> Option<[u8; 32]> {
        self.key.as_ref().map(|k| self.transcript.prove(k, self.side))
    }

    /// The transcript that a proof of the other side is verified against: take it before the proof is read.
    pub fn said(&self) -> Transcript {
        self.transcript.clone()
    }

    /// The name of the peer whose key `proof` proves, over the transcript `said`: that key is the one of this conversation
    /// from here on. `None`: it is none of them.
    pub fn proved(&mut self, said: &Transcript, proof: &[u8; 32]) -> Option<String> {
        let (name, key) = self.keys.find(|key| said.verify(key, self.side.other(), proof))?;
        self.key = Some(key.clone());
        Some(name.clone())
    }

    /// Seals everything from here on, if there is a key; returns a number that both sides now share, another one for each `label`.
    pub fn seal(&mut self, label: &str) -> u64 {
        if let Some(key) = &self.key {
            self.outgoing = Some(self.transcript.seal(key, self.side));
            self.incoming = Some(self.transcript.seal(key, self.side.other()));
        }
        let secret = self.transcript.secret(self.key.as_ref(), label);
        secret.first_chunk().map_or(0, |b| u64::from_be_bytes(*b))
    }
}
