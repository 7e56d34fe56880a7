//! [`Codec`]: encoder and decoder of either dialect.

use super::auth::{ConnectionSide, PresharedKey};
use super::dialect::Dialect;
use super::message::{DecodeError, Message};
use super::seal::SharedSecret;
use super::{classic, v3};
use core::net::SocketAddr;

/// Encoder and decoder of one side, in the dialect of its connection.
#[derive(Debug)]
pub enum Codec {
    /// Classic dialect, with 44-byte workorders.
    Classic(Box<classic::ClassicCodec>),
    /// Version 3, with frames of tagged fields.
    V3(Box<v3::CodecV3>),
}

impl Codec {
    /// Creates the codec of `side` for a connection between `local` and `peer`.
    pub fn new(dialect: Dialect, side: ConnectionSide, local: SocketAddr, peer: SocketAddr) -> Codec {
        match dialect {
            Dialect::Classic => Codec::Classic(Box::new(classic::ClassicCodec::new(side, local, peer))),
            Dialect::V3 => Codec::V3(Box::new(v3::CodecV3::new(side))),
        }
    }

    /// Returns the dialect of the connection.
    pub fn dialect(&self) -> Dialect {
        match self {
            Codec::Classic(_) => Dialect::Classic,
            Codec::V3(_) => Dialect::V3,
        }
    }

    /// Appends the encoding of `message` to `out`. In the classic dialect, some messages have no encoding.
    pub fn encode(&mut self, message: &Message, out: &mut Vec<u8>) {
        match self {
            Codec::Classic(c) => c.encode(message, out),
            Codec::V3(c) => c.encode(message, out),
        }
    }

    /// Adds received bytes. Afterwards, [`decode`](Codec::decode) must be called until it returns `None`.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self {
            Codec::Classic(c) => c.feed(bytes),
            Codec::V3(c) => c.feed(bytes),
        }
    }

    /// Returns the next message; `None` if there is none yet. After an error, no more messages can be read.
    pub fn decode(&mut self) -> Result<Option<Message>, DecodeError> {
        match self {
            Codec::Classic(c) => c.decode(),
            Codec::V3(c) => c.decode(),
        }
    }

    /// Returns the proof of `key` to send next; `None` in the classic dialect, which has no proofs.
    pub(super) fn prove(&mut self, key: &PresharedKey) -> Option<Message> {
        match self {
            Codec::Classic(_) => None,
            Codec::V3(c) => Some(c.prove(key)),
        }
    }

    /// True if the proof just received is valid.
    pub(super) fn verify(&self, key: &PresharedKey, proof: &[u8]) -> bool {
        match self {
            Codec::Classic(_) => false,
            Codec::V3(c) => c.verify(key, proof),
        }
    }

    /// Seals all further frames, and encrypts them if both sides have agreed on a secret.
    pub(super) fn seal(&mut self, key: &PresharedKey, shared: Option<&SharedSecret>) {
        if let Codec::V3(c) = self {
            c.seal(key, shared);
        }
    }

    /// Ends the transcript, because no proofs will be exchanged.
    pub(crate) fn settle(&mut self) {
        if let Codec::V3(c) = self {
            c.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_proofs_every_frame_is_sealed() {
        let key = PresharedKey::from_file_contents(b"the right key 01").unwrap();
        let at = "192.0.2.1:2666".parse().unwrap();
        let [mut sender, mut open, mut sealed] =
            [ConnectionSide::Client, ConnectionSide::Server, ConnectionSide::Server]
                .map(|side| Codec::new(Dialect::V3, side, at, at));
        sender.seal(&key, None);
        sealed.seal(&key, None);
        let mut bytes = Vec::new();
        sender.encode(&Message::Start, &mut bytes);
        sealed.feed(&bytes);
        assert_eq!(sealed.decode(), Ok(Some(Message::Start)));
        let mut plain = Vec::new();
        Codec::new(Dialect::V3, ConnectionSide::Client, at, at).encode(&Message::Start, &mut plain);
        assert!(plain.len() < bytes.len(), "a seal has a length");
        // Once seals are in use, a frame without one is refused.
        plain.extend_from_slice(&[0; 64]);
        let mut other = Codec::new(Dialect::V3, ConnectionSide::Server, at, at);
        other.seal(&key, None);
        other.feed(&plain);
        assert!(other.decode().is_err());
        open.feed(&plain[..plain.len() - 64]);
        assert_eq!(open.decode(), Ok(Some(Message::Start)));
    }
}
