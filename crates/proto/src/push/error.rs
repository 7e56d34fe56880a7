//! [`PushError`]: why a conversation failed.

use super::wire::{PushRefusal, WireError};
use crate::channel::FrameError;

/// Why a conversation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The received bytes are not a message.
    #[error("the other side does not speak the protocol of collectors: {0}")]
    Wire(#[from] WireError),
    /// A frame is longer than allowed.
    #[error("the other side does not speak the protocol of collectors: a frame of {0} bytes")]
    Length(u32),
    /// The seal of a frame is wrong.
    #[error("a message was altered on the way")]
    Seal,
    /// A message that is not allowed in this state.
    #[error("the other side sent message {0} out of turn")]
    OutOfTurn(u8),
    /// More was offered or sent than is allowed.
    #[error("the other side sent more than it may: {0}")]
    TooMuch(&'static str),
    /// The other side could not prove that it has the key.
    #[error("the other side does not have the key")]
    Proof,
    /// The other side refuses.
    #[error("the collector refuses: {0}{dash}{1}", dash = if .1.is_empty() { "" } else { ": " })]
    Refused(PushRefusal, String),
    /// The other side is silent.
    #[error("the other side has been silent for thirty seconds")]
    Silent,
    /// The connection ended.
    #[error("the connection ended before its time")]
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
