//! What all two-way protocols share: the open-loop or stop-and-wait sender of requests and the matching
//! of answers to them.
//!
//! * [`Protocol`] – what one protocol adds: its bytes, and a conversation around the test if it has one
//! * [`Pinger`] – one test; gets bytes and times
//! * [`request_table`] – which answers belong to which requests, and what they show of each direction
//! * [`reflect`] – requests at a reflector, and why it may not answer

mod far_count;
mod far_window;
pub mod pinger;
pub mod reflect;
pub mod request_table;
#[cfg(test)]
mod sim;

pub use pinger::{Overdue, PingPlan, Pinger, Transmit};
pub use reflect::{RequestArrival, Silence};
pub use request_table::{Directions, RequestTable};

use crate::machine::Tick;
use jitlat_core::{Stamp, SteadyTime, TestSpec, WallTime};

/// The contents of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's number, as many bits as are on the wire.
    pub seq: u32,
    /// Bits of [`seq`](Self::seq) that the wire carries: 16 or 32.
    pub seq_bits: u8,
    /// T2, by the far host's clock; `None` if it is not reported.
    pub arrived: Option<WallTime>,
    /// T3, by the far host's clock; `None` if it is not reported.
    pub answered: Option<WallTime>,
    /// The far host's own number of this answer; `None` if it does not count.
    pub far_seq: Option<u32>,
    /// Whether something about it is wrong, although it is an answer: the record is flagged.
    pub damaged: bool,
    /// When an earlier answer left ([`Protocol::amends`]); `None` if it is not reported.
    pub earlier: Option<DepartureNotice>,
}

/// When an answer really left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartureNotice {
    /// Number of its request.
    pub seq: u32,
    /// T3, in place of the one in the answer.
    pub stamp: Stamp,
}

/// What a received datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// An answer to a request.
    Reply(Reply),
    /// A later report about request `seq` (16 bits): how long the far host took to answer it.
    Took {
        /// Number of the request.
        seq: u16,
        /// From reception to answer, in the far host.
        took: jitlat_core::Span,
    },
    /// Part of the conversation around the test.
    Conversation,
    /// A request of this test: raw sockets of a host that sends to itself receive what it sends.
    OwnRequest,
    /// Not of this test.
    Foreign,
    /// Of this test by its address, but not what the protocol allows there.
    Malformed,
    /// Its integrity check failed.
    Forged,
}

/// The state of the conversation around a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationState {
    /// Not ready for requests.
    Opening,
    /// Requests may be sent.
    Ready,
    /// All requests are sent; the far host still has something to send.
    Closing,
    /// Nothing more will come.
    Over,
    /// It failed, with the reason.
    Failed(String),
}

/// What one two-way protocol adds to the common machinery.
pub trait Protocol {
    /// Appends request `seq`, sent at `sent`, to `out`; `last` if no other follows.
    fn request(&mut self, seq: u32, last: bool, sent: WallTime, out: &mut Vec<u8>);

    /// Reads a datagram from the far host that arrived at about `near` (wall clock).
    fn receive(&mut self, datagram: &[u8], near: WallTime) -> DatagramKind;

    /// Appends the next packet of the conversation around the test, if one is due.
    fn poll_conversation(&mut self, _now: Tick, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends the packet that ends the conversation, once, when nothing more is sent or awaited.
    fn poll_farewell(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// When, on the steady clock, to call [`poll_conversation`](Self::poll_conversation) again.
    fn conversation_timeout(&self) -> Option<SteadyTime> {
        None
    }

    /// The state of the conversation at `now` (steady clock).
    fn conversation_state(&mut self, _now: SteadyTime) -> ConversationState {
        ConversationState::Ready
    }

    /// The test as the far host grants it, once requests may be sent: other than `planned`, where it may restrict the
    /// period, the duration or the size. `None`: as planned.
    fn granted_test(&self, _planned: &TestSpec) -> Option<TestSpec> {
        None
    }

    /// Called when all requests have been sent.
    fn all_sent(&mut self, _now: SteadyTime) {}

    /// Whether T2 and T3 are clock readings, so that one-way delays are defined.
    fn far_clock(&self) -> bool {
        false
    }

    /// Whether the far host must number its answers itself, from 0, so that numbers equal to the requests' mean that
    /// none was lost on the way there.
    fn counts_answers(&self) -> bool {
        false
    }

    /// Whether the far host may number its answers itself, or copy the numbers of requests.
    fn may_count(&self) -> bool {
        false
    }

    /// Which requests the far host had received when it made the answer read last: bit k = the one k numbers before the
    /// one answered. `None` if it does not report it.
    fn far_window(&self) -> Option<u64> {
        None
    }

    /// Whether a later report about each answer may come ([`DatagramKind::Took`]).
    fn follows_up(&self) -> bool {
        false
    }

    /// Whether an answer may tell when the one before it left ([`Reply::earlier`]).
    fn amends(&self) -> bool {
        false
    }

    /// Whether requests are answered; if not, only the conversation reports what arrived.
    fn expects_replies(&self) -> bool {
        true
    }
}
