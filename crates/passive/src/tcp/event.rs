//! [`TcpEvent`]: an event that delayed, or may have delayed, the data of one direction.

use core::net::SocketAddr;
use jitlat_core::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The segment was retransmitted after duplicate acknowledgements or SACK.
    Fast,
    /// The segment was retransmitted after a timeout.
    Timeout,
    /// The segment was retransmitted before a timeout and without duplicate acknowledgements: a tail-loss probe.
    Probe,
    /// The segment was retransmitted although it had been acknowledged.
    Spurious,
    /// The segment arrived after a segment that was sent later.
    OutOfOrder,
    /// The same packet was seen before: a duplicate made by the network or the capture.
    Duplicate,
    /// The receiver's window closed.
    ZeroWindow,
    /// The receiver's window opened again.
    WindowOpens,
    /// The sender has filled the window and has to wait.
    WindowFull,
}

/// An event that delayed, or may have delayed, the data of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpEvent {
    /// Time at which the event was seen.
    pub at: WallTime,
    /// Kind of event.
    pub kind: EventKind,
    /// Number of payload bytes concerned.
    pub bytes: u32,
    /// Time for which the data, or the window, had been waiting; `None` if unknown.
    pub waited: Option<Span>,
}

/// An event of a connection's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectedEvent {
    /// Sender of the segment.
    pub from: SocketAddr,
    /// Receiver of the segment.
    pub to: SocketAddr,
    /// The event.
    #[serde(flatten)]
    pub event: TcpEvent,
}
