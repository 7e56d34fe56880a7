//! The client's side of a control conversation: its interface here, the machine in `machine`.

mod collect;
mod machine;
mod probing;

pub use machine::ClientMachine;

use super::auth::PresharedKey;
use super::dialect::Dialect;
use super::flow::{FlowCommand, FlowId, FlowReport};
use super::limits::LimitRefusal;
use super::session_table::SessionId;
use core::net::SocketAddr;
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{PacketRecord, Span, StampSource, TestSpec, units};

/// The terms of a test: what a client asks of the server. Callers fill them in, and the machine reads them as they are.
#[derive(Clone, Debug)]
pub struct TestTerms {
    /// Version 3 or classic workorders.
    pub dialect: Dialect,
    /// The streams: one, or one in each direction. Classic: exactly one.
    pub specs: Vec<TestSpec>,
    /// Pre-shared key, if the peers must authenticate each other (version 3 only).
    pub key: Option<PresharedKey>,
    /// The best stamps to use, on both sides.
    pub stamps: StampSource,
    /// Whether the server is asked to report while streams run what it has received (version 3): somebody watches.
    pub feedback: bool,
}

impl TestTerms {
    /// Streams by version 3, with kernel stamps, without a key and without reports while they run.
    pub fn new(specs: Vec<TestSpec>) -> TestTerms {
        TestTerms { dialect: Dialect::V3, specs, key: None, stamps: StampSource::Kernel, feedback: false }
    }
}

/// Configuration of a client machine: the terms of the test, and what the driver knows before it connects.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The terms of the test.
    pub terms: TestTerms,
    /// The control connection's own address.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// 32 random bytes, fresh for every connection and every [`ClientInput::Reconnected`].
    pub entropy: [u8; 32],
    /// This host, before the test.
    pub host: HostFacts,
    /// Program and version, for the peer's log.
    pub software: String,
    /// Clock probes before the stream, and in version 3 as many after it.
    pub probes: u32,
    /// Time between probes; in version 3 varied at random by half, so that it does not synchronise with anything
    /// periodic.
    pub probe_interval: Span,
    /// How long the server may take for any one answer.
    pub timeout: Span,
}

impl ClientConfig {
    /// The usual configuration: eight probes 50 ms apart, or the classic five at one-second intervals;
    /// 15 s of timeout.
    pub fn new(terms: TestTerms, local: SocketAddr, remote: SocketAddr, entropy: [u8; 32]) -> ClientConfig {
        let (probes, probe_interval) = match terms.dialect {
            Dialect::Classic => (5, Span::seconds(1)),
            Dialect::V3 => (8, Span::millis(50)),
        };
        ClientConfig {
            terms,
            local,
            remote,
            entropy,
            host: HostFacts::default(),
            software: concat!("jitlat ", env!("CARGO_PKG_VERSION")).to_owned(),
            probes,
            probe_interval,
            timeout: Span::seconds(15),
        }
    }
}

/// An input of the client machine.
#[derive(Debug)]
pub enum ClientInput<'a> {
    /// Bytes were received on the control connection.
    Received(&'a [u8]),
    /// The control connection ended, or broke for this reason.
    Closed(Option<&'a str>),
    /// A report of the flow engine.
    Flow(FlowReport),
    /// The facts about this host after the test: needed before the last [`FlowReport::Sent`] or
    /// [`FlowReport::Received`].
    Host(HostFacts),
    /// The user requests an end: everything received so far is still collected.
    Interrupt,
    /// In answer to [`ClientEvent::Reconnect`]: a new control connection, with fresh random bytes.
    Reconnected([u8; 32]),
}

/// A request or a result of the client machine.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// A command for the flow engine.
    Flow(FlowCommand),
    /// The progress of the conversation.
    Progress(ConversationProgress),
    /// Records of a flow, in arrival order, with transmit stamps: for the observers.
    Records(FlowId, Vec<PacketRecord>),
    /// What the server has received of a flow so far; at most twice a second.
    Feedback(FlowId, Box<ReceivedSoFar>),
    /// The control connection is lost but results can be fetched: connect again, and answer with
    /// [`ClientInput::Reconnected`] or [`ClientInput::Closed`].
    Reconnect,
    /// Over. Every record has been delivered; [`ClientMachine::sessions`] has everything else.
    Done {
        /// How it ended.
        ending: Ending,
        /// Why, when not complete.
        reason: Option<String>,
    },
    /// Ended before anything was measured.
    Failed(ConversationFailure),
}

/// The progress of the conversation, for a progress line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationProgress {
    /// The server has answered; with its program and version, if it sent them.
    Connected(Option<String>),
    /// Probes answered so far, of so many.
    Probing(u32, u32),
    /// The server has agreed to the test.
    Accepted(Option<SessionId>),
    /// Streams are running.
    Running,
    /// Collecting results of a flow: records (or stamps) so far, and of how many.
    Collecting(FlowId, u64, u64),
}

/// Why nothing could be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationFailure {
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server closed the control connection.
    #[error("the server closed the control connection while {during}{}", with_colon(.detail))]
    Closed {
        /// The step that was in progress.
        during: &'static str,
        /// The system's error, if any.
        detail: Option<String>,
    },
    /// The server did not answer.
    #[error("no answer from the server within {} while {during}{}", units::duration(*.after), with_semicolon(.hint))]
    Timeout {
        /// The step that was in progress.
        during: &'static str,
        /// How long the client waited.
        after: Span,
        /// What to try.
        hint: Option<&'static str>,
    },
    /// The server's data is invalid.
    #[error("the server sent something this program cannot read while {during}: {detail}")]
    Malformed {
        /// The step that was in progress.
        during: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// One side has a key and the other does not, or they differ.
    #[error("{0}")]
    Authentication(&'static str),
    /// The test stream could not be set up.
    #[error("the test stream could not be set up: {0}")]
    Flow(String),
    /// The dialect cannot express the test.
    #[error("{0}")]
    Unsupported(String),
    /// The user stopped it before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

fn with_colon(detail: &Option<String>) -> String {
    detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default()
}

fn with_semicolon(hint: &Option<&'static str>) -> String {
    hint.map(|h| format!("; {h}")).unwrap_or_default()
}

impl From<LimitRefusal> for ConversationFailure {
    fn from(refusal: LimitRefusal) -> ConversationFailure {
        ConversationFailure::Refused(refusal.to_string())
    }
}
