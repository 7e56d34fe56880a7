//! [`PushError`]: reason why a conversation failed.

use super::wire::{PushRefusal, WireError};
use crate::channel::FrameError;

/// Reason why a conversation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The received bytes are not a message.
    #[error("the far host does not use the collector protocol: {0}")]
    Wire(#[from] WireError),
    /// A frame is longer than allowed.
    #[error("the far host does not use the collector protocol: it sent a frame of {0} bytes")]
    Length(u32),
    /// The seal of a frame is wrong.
    #[error("a message was altered in transit")]
    Seal,
    /// A message that is not allowed in this state.
    #[error("the far host sent a message of type {0} when it was not allowed")]
    OutOfTurn(u8),
    /// The far host offered or sent more than is allowed.
    #[error("the far host exceeded a limit: {0}")]
    TooMuch(&'static str),
    /// The far host could not prove that it has the key.
    #[error("the far host does not have the key")]
    Proof,
    /// The collector refused; reason and details.
    #[error("the collector refused: {0}{dash}{1}", dash = if .1.is_empty() { "" } else { ": " })]
    Refused(PushRefusal, String),
    /// No message was received for [`SILENCE`](super::SILENCE).
    #[error("no message from the far host for 30 s")]
    Silent,
    /// The connection ended before the conversation was over.
    #[error("the connection ended early")]
    Closed,
}

impl From<FrameError> for PushError {
    fn from(e: FrameError) -> PushError {
        match e {
            FrameError::Length(length) => PushError::Length(length),
            FrameError::Seal => PushError::Seal,
        }
    }
}
