//! Code shared by all two-way protocols: sending requests, open-loop or stop-and-wait, and matching answers
//! to requests.
//!
//! * [`Protocol`] – interface of a protocol: packets, and the conversation around the test, if any
//! * [`Pinger`] – state machine of one test
//! * [`request_table`] – matches answers to requests, and derives losses by direction
//! * [`reflect`] – arrival of requests at a reflector, and reasons not to answer

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
use jitlat_core::{Ecn, Span, Stamp, SteadyTime, TestSpec, WallTime};

/// Contents of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Sequence number of the request, with the bits that are on the wire.
    pub seq: u32,
    /// Number of bits of [`seq`](Self::seq) on the wire: 16 or 32.
    pub seq_bits: u8,
    /// T2 on the far host's clock; `None` if not reported.
    pub arrived: Option<WallTime>,
    /// T3 on the far host's clock; `None` if not reported.
    pub answered: Option<WallTime>,
    /// Far host's own number of the answer; `None` if the host does not count.
    pub far_seq: Option<u32>,
    /// True if part of the answer is not valid; its record is then flagged.
    pub damaged: bool,
    /// Departure time of an earlier answer ([`Protocol::amends`]); `None` if not reported.
    pub earlier: Option<DepartureNotice>,
    /// Marks (ECN fields) that the far host reports.
    pub marks: ReplyMarks,
}

/// Marks (ECN fields) that a far host reports with an answer; `None` if it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyMarks {
    /// Mark of the request on arrival.
    pub request: Option<Ecn>,
    /// Mark with which the answer was sent.
    pub answer: Option<Ecn>,
}

/// Actual departure time of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartureNotice {
    /// Number of the request.
    pub seq: u32,
    /// T3, which replaces the one in the answer.
    pub stamp: Stamp,
}

/// Kind of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// An answer to a request.
    Reply(Reply),
    /// A later report on request `seq` (16 bits): processing time of the far host.
    Took {
        /// Number of the request.
        seq: u16,
        /// Time from reception to answer on the far host.
        took: Span,
    },
    /// Part of the conversation around the test.
    Conversation,
    /// A request of this test. Raw sockets receive their own requests if they are sent to the same host.
    OwnRequest,
    /// The datagram does not belong to this test.
    Foreign,
    /// The datagram comes from the test's address, but is not a valid packet of the protocol.
    Malformed,
    /// The integrity check failed.
    Forged,
}

/// State of the conversation around a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationState {
    /// Requests must not be sent yet.
    Opening,
    /// Requests may be sent.
    Ready,
    /// All requests have been sent, but the far host may still send packets.
    Closing,
    /// The conversation is over.
    Over,
    /// The conversation failed for this reason.
    Failed(String),
}

/// Interface of a two-way protocol. The defaults are for protocols without a conversation around the test.
pub trait Protocol {
    /// Appends request `seq`, sent at `sent`, to `out`. `last` is true for the last request.
    fn request(&mut self, seq: u32, last: bool, sent: WallTime, out: &mut Vec<u8>);

    /// Parses a datagram from the far host that arrived at about `near` (wall clock).
    fn receive(&mut self, datagram: &[u8], near: WallTime) -> DatagramKind;

    /// Appends the next packet of the conversation around the test, if one is due.
    fn poll_conversation(&mut self, _now: Tick, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends the packet that ends the conversation, once, after everything else has been sent and received.
    fn poll_farewell(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Returns the time of the next call of [`poll_conversation`](Self::poll_conversation), on the steady
    /// clock; `None`: not needed.
    fn conversation_timeout(&self) -> Option<SteadyTime> {
        None
    }

    /// Returns the state of the conversation at `now` (steady clock).
    fn conversation_state(&mut self, _now: SteadyTime) -> ConversationState {
        ConversationState::Ready
    }

    /// Returns the test that the far host accepts, once requests may be sent. Its period, duration or size
    /// may be restricted compared with `planned`. `None`: as planned.
    fn granted_test(&self, _planned: &TestSpec) -> Option<TestSpec> {
        None
    }

    /// Notifies the protocol that all requests have been sent.
    fn all_sent(&mut self, _now: SteadyTime) {}

    /// True if T2 and T3 are clock readings, so that one-way delays are defined.
    fn far_clock(&self) -> bool {
        false
    }

    /// Returns the resolution of T2 and T3; `None` if it is finer than any delay.
    fn far_resolution(&self) -> Option<Span> {
        None
    }

    /// Returns the far host's UDP port for requests, once they may be sent; `None`: the port to which the packets of the
    /// conversation are sent.
    fn request_port(&self) -> Option<u16> {
        None
    }

    /// True if the far host is required to number its answers itself, from 0. Numbers that equal those of the
    /// requests then mean that no request was lost.
    fn counts_answers(&self) -> bool {
        false
    }

    /// True if the far host may number its answers itself, or copy the numbers of requests.
    fn may_count(&self) -> bool {
        false
    }

    /// Returns the receive window of the far host at the time of the last answer: bit k stands for the
    /// request k numbers before the answered one. `None` if not reported.
    fn far_window(&self) -> Option<u64> {
        None
    }

    /// True if a later report on each answer may follow ([`DatagramKind::Took`]).
    fn follows_up(&self) -> bool {
        false
    }

    /// True if an answer may report the departure time of the previous answer ([`Reply::earlier`]).
    fn amends(&self) -> bool {
        false
    }

    /// True if requests are answered. If false, the number of received packets is only reported in the
    /// conversation.
    fn expects_replies(&self) -> bool {
        true
    }
}
