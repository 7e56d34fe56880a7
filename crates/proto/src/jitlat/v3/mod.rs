//! The version-3 dialect (docs/protocols/jitlat-v3.md): a preface, then frames of
//! `length u32 · type u8 · fields · [seal]`.

mod feedback;
mod fields;
pub(crate) mod frame;
mod marking;
mod messages;
mod rows;
mod schedule;

pub use frame::{MAX_FRAME, PREFACE};
pub use rows::checksum;

use super::auth::{ConnectionSide, PresharedKey, SEAL_LEN, Transcript};
use super::message::{DecodeError, Message};
use super::seal::{Seal, SharedSecret};

/// Encodes and decodes one side of a version-3 connection. Buffers at most one frame, in addition to the
/// bytes passed to one call of [`feed`](CodecV3::feed).
#[derive(Debug)]
pub struct CodecV3 {
    side: ConnectionSide,
    incoming: Vec<u8>,
    consumed: usize,
    preface_sent: bool,
    preface_seen: bool,
    transcript: Transcript,
    /// Last message received. It is not part of the transcript yet, because a proof does not cover itself.
    last_received: Vec<u8>,
    /// True while the transcript is needed.
    listening: bool,
    seals: Option<Seals>,
}

#[derive(Debug)]
struct Seals {
    ours: Seal,
    theirs: Seal,
}

impl CodecV3 {
    /// Creates the codec of `side`.
    pub fn new(side: ConnectionSide) -> CodecV3 {
        CodecV3 {
            side,
            incoming: Vec::new(),
            consumed: 0,
            preface_sent: false,
            preface_seen: false,
            transcript: Transcript::default(),
            last_received: Vec::new(),
            listening: true,
            seals: None,
        }
    }

    /// Appends `message` to `out`, preceded by the preface if it is the first message.
    pub fn encode(&mut self, message: &Message, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.preface_sent {
            out.extend_from_slice(&PREFACE);
            self.preface_sent = true;
        }
        let frame = out.len();
        out.extend_from_slice(&[0; 4]);
        messages::encode(message, out);
        let seal_len = if self.seals.is_some() { SEAL_LEN } else { 0 };
        let length = (out.len() - frame - 4 + seal_len) as u32;
        debug_assert!(length <= MAX_FRAME, "{} of {length} bytes", message.name());
        out[frame..frame + 4].copy_from_slice(&length.to_be_bytes());
        match &mut self.seals {
            Some(seals) => {
                let seal = seals.ours.close(&mut out[frame..]);
                out.extend_from_slice(&seal);
            }
            None if self.listening => {
                self.listen_back();
                self.transcript.add(&out[start..]);
            }
            None => {}
        }
    }

    /// Returns the proof that this side has `key`. It must be the next message sent.
    pub fn prove(&mut self, key: &PresharedKey) -> Message {
        self.listen_back();
        Message::Proof(self.transcript.prove(key, self.side))
    }

    /// True if the proof that was just received is that of the peer.
    pub(crate) fn verify(&self, key: &PresharedKey, proof: &[u8]) -> bool {
        self.transcript.verify(key, self.side.other(), proof)
    }

    /// Seals all further frames in both directions, and encrypts them if both sides have agreed on a secret. Called after both proofs have
    /// been exchanged.
    pub fn seal(&mut self, key: &PresharedKey, shared: Option<&SharedSecret>) {
        self.listen_back();
        let seal = |side| self.transcript.seal(key, side, shared);
        self.seals = Some(Seals { ours: seal(self.side), theirs: seal(self.side.other()) });
    }

    /// Ends the transcript, because no proofs will be exchanged.
    pub fn settle(&mut self) {
        self.listening = false;
        self.last_received = Vec::new();
    }

    fn listen_back(&mut self) {
        self.transcript.add(&self.last_received);
        self.last_received.clear();
    }

    /// Adds received bytes. Afterwards, [`decode`](CodecV3::decode) must be called until it returns `None`.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.incoming.drain(..self.consumed);
        self.consumed = 0;
        self.incoming.extend_from_slice(bytes);
    }

    /// Returns the next complete message; `None` if there is none yet. Unknown types are skipped. After an
    /// error, no more messages can be read.
    pub fn decode(&mut self) -> Result<Option<Message>, DecodeError> {
        loop {
            let waiting = &self.incoming[self.consumed..];
            let start = if self.preface_seen { 0 } else { PREFACE.len() };
            if !self.preface_seen && !check_preface(waiting)? {
                return Ok(None);
            }
            let Some((length, rest)) = waiting[start..].split_first_chunk::<4>() else { return Ok(None) };
            let length = u32::from_be_bytes(*length);
            let seal_len = if self.seals.is_some() { SEAL_LEN } else { 0 };
            if length > MAX_FRAME || (length as usize) <= seal_len {
                return Err(DecodeError::FrameLength(length));
            }
            let Some(body) = rest.get(..length as usize) else { return Ok(None) };
            let whole = start + 4 + body.len();
            let waiting = &mut self.incoming[self.consumed..];
            if let Some(seals) = &mut self.seals {
                let good = waiting[start..whole]
                    .split_last_chunk_mut::<SEAL_LEN>()
                    .is_some_and(|(sealed, seal)| seals.theirs.open(sealed, seal));
                if !good {
                    return Err(DecodeError::Seal);
                }
            } else if self.listening {
                // This frame itself is added to the transcript only together with the next one.
                self.transcript.add(&self.last_received);
                self.last_received.clear();
                self.last_received.extend_from_slice(&waiting[..whole]);
            }
            let message = messages::decode(&waiting[start + 4..whole - seal_len]);
            self.consumed += whole;
            self.preface_seen = true;
            if let Some(message) = message? {
                return Ok(Some(message));
            }
        }
    }
}

/// Checks the beginning of `bytes`: true if the preface is complete, false if it is correct so far; otherwise
/// an error.
fn check_preface(bytes: &[u8]) -> Result<bool, DecodeError> {
    match super::dialect::sniff(bytes)? {
        Some(super::Dialect::V3) => Ok(true),
        Some(super::Dialect::Classic) => Err(DecodeError::ClassicPeer),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests;
