//! [`DigestError`]: the reason why a conversation failed.

use super::wire::{DigestRefusal, WireError};
use crate::channel::FrameError;

/// Reason why a conversation failed.
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
    #[error("a message was modified in transit")]
    Seal,
    /// A message is not allowed in this state; contains the message number.
    #[error("the other side sent message {0} unexpectedly")]
    OutOfTurn(u8),
    /// The other side could not prove that it has the key.
    #[error("the other side does not have the key")]
    Proof,
    /// The other side has no key, although this side has one.
    #[error("the other side requires no key, but this side has one: start both with the same key file")]
    NotAuthenticated,
    /// The other side refused.
    #[error("the other side refused: {0}{dash}{1}", dash = if .1.is_empty() { "" } else { ": " })]
    Refused(DigestRefusal, String),
    /// The other side did not answer in time.
    #[error("the other side has been silent for 10 s")]
    Silent,
    /// The connection ended.
    #[error("the connection ended early")]
    Closed,
}

impl From<FrameError> for DigestError {
    fn from(e: FrameError) -> DigestError {
        match e {
            FrameError::Length(length) => DigestError::Length(length),
            FrameError::Seal => DigestError::Seal,
        }
    }
}
