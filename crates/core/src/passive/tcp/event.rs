//! [`Event`]: what delayed, or was said to delay, the data of one direction.

use crate::time::{Span, WallTime};
use core::net::SocketAddr;
use serde::Serialize;

/// What a segment shows beyond its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Sent again after duplicate acknowledgements or SACK.
    Fast,
    /// Sent again after a retransmission timeout.
    Timeout,
    /// Sent again early without a signal: a tail-loss probe.
    Probe,
    /// Sent again although it had been acknowledged.
    Spurious,
    /// Overtaken by a later segment.
    OutOfOrder,
    /// The same packet once more.
    Duplicate,
    /// The receiver's window closed.
    ZeroWindow,
    /// And opened again.
    WindowOpens,
    /// The sender filled the window and has to wait.
    WindowFull,
}

/// Something that delayed, or was said to delay, the data of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When it was seen.
    pub at: WallTime,
    /// What.
    pub kind: EventKind,
    /// Payload bytes concerned.
    pub bytes: u32,
    /// How long the data, or the window, had been waiting.
    pub waited: Option<Span>,
}

/// An event of a connection's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DirectedEvent {
    /// Who sent the segment.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
