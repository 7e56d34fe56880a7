//! `Channel`: frames over a byte stream, the proof of a key, and from then on a seal on every frame.

use super::wire::{Message, Refusal, WireError};
use super::{MAX_FRAME, VERSION};
use crate::jitlat::auth::{Key, Keys, SEAL_LEN, Seal, Side, Transcript};

/// Why a conversation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// The received bytes are not a message.
    #[error("the other side does not speak the protocol of packet digests: {0}")]
    Wire(#[from] WireError),
    /// A frame is longer than allowed.
    #[error("the other side does not speak the protocol of packet digests: a frame of {0} bytes")]
    Length(u32),
    /// The seal of a frame is wrong.
    #[error("a message was altered on the way")]
    Seal,
    /// A message that is not allowed in this state.
    #[error("the other side sent message {0} out of turn")]
    OutOfTurn(u8),
    /// The other side could not prove that it has the key.
    #[error("the other side does not have the key")]
    Proof,
    /// The other side has no key, and this one has one.
    #[error("the other side asks for no key: it must be started with the same key file")]
    NotAuthenticated,
    /// The other side refuses.
    #[error("the other side refuses: {0}{dash}{1}", dash = if .1.is_empty() { "" } else { ": " })]
    Refused(Refusal, String),
    /// The other side is silent.
    #[error("the other side has been silent for ten seconds")]
    Silent,
    /// The connection ended.
    #[error("the connection ended before its time")]
    Closed,
}

/// One side's end of the connection.
#[derive(Debug)]
pub(crate) struct Channel {
    side: Side,
    /// Those that the other side may prove.
    keys: Keys,
    /// The one of this conversation.
    key: Option<Key>,
    transcript: Transcript,
    outgoing: Option<Seal>,
    incoming: Option<Seal>,
    bytes: Vec<u8>,
}

impl Channel {
    /// The collector's end, with its key.
    pub fn of_collector(key: Option<Key>) -> Channel {
        Channel { key: key.clone(), ..Channel::new(Side::Client, key.into()) }
    }

    /// The exporter's end; the collector proves one of `keys`.
    pub fn of_exporter(keys: Keys) -> Channel {
        Channel::new(Side::Server, keys)
    }

    fn new(side: Side, keys: Keys) -> Channel {
        let transcript = Transcript::default();
        Channel { side, keys, key: None, transcript, outgoing: None, incoming: None, bytes: Vec::new() }
    }

    /// Whether a key is needed.
    pub fn keyed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Appends the frame of a message.
    pub fn write(&mut self, message: &Message, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(message.kind());
        message.encode(out);
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

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete message; `None` if there is none.
    pub fn read(&mut self) -> Result<Option<Message>, DigestError> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head);
        if length == 0 || length as usize > MAX_FRAME {
            return Err(DigestError::Length(length));
        }
        let end = 4 + length as usize;
        let Some(frame) = self.bytes.get(..end) else { return Ok(None) };
        let body = match &mut self.incoming {
            None => {
                self.transcript.add(frame);
                frame
            }
            Some(seal) => {
                let (body, tail) = frame.split_last_chunk::<SEAL_LEN>().ok_or(DigestError::Seal)?;
                if body.len() < 5 || !seal.check(body, tail) {
                    return Err(DigestError::Seal);
                }
                body
            }
        };
        let message = Message::decode(body[4], &body[5..])?;
        self.bytes.drain(..end);
        Ok(Some(message))
    }

    /// This side's greeting.
    pub fn hello(&self, nonce: [u8; 16]) -> Message {
        Message::Hello { version: VERSION, keyed: self.keyed(), nonce }
    }

    /// This side's proof, over everything sent and received so far.
    pub fn proof(&self) -> Option<Message> {
        self.key.as_ref().map(|k| Message::Proof(self.transcript.prove(k, self.side)))
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

    /// Seals everything from here on, if there is a key; returns the salt of packet names, which both sides now share.
    pub fn seal(&mut self) -> u64 {
        if let Some(key) = &self.key {
            self.outgoing = Some(self.transcript.seal(key, self.side));
            self.incoming = Some(self.transcript.seal(key, self.side.other()));
        }
        let secret = self.transcript.secret(self.key.as_ref(), "jitlat digest salt");
        secret.first_chunk().map_or(0, |b| u64::from_be_bytes(*b))
    }
}
