//! Interface of the client's side of a control conversation. The state machine is in `machine`.

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

/// Terms of a test, that is, the client's request to the server. Set by the caller, and never changed.
#[derive(Clone, Debug)]
pub struct TestTerms {
    /// Dialect of the conversation: version 3 or classic.
    pub dialect: Dialect,
    /// Streams: one, or one per direction. Classic: exactly one.
    pub specs: Vec<TestSpec>,
    /// Pre-shared key for mutual authentication (version 3 only); `None`: no authentication.
    pub key: Option<PresharedKey>,
    /// Preferred kind of timestamps on both sides.
    pub stamps: StampSource,
    /// True to request progress reports from the server while the streams are running (version 3).
    pub feedback: bool,
}

impl TestTerms {
    /// Returns terms for the streams `specs`: version 3, kernel timestamps, no key, no progress reports.
    pub fn new(specs: Vec<TestSpec>) -> TestTerms {
        TestTerms { dialect: Dialect::V3, specs, key: None, stamps: StampSource::Kernel, feedback: false }
    }
}

/// Configuration of a client: the terms of the test, and facts that the driver has before it connects.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Terms of the test.
    pub terms: TestTerms,
    /// Local address of the control connection.
    pub local: SocketAddr,
    /// Address of the server.
    pub remote: SocketAddr,
    /// Random bytes, new for every connection and every [`ClientInput::Reconnected`].
    pub entropy: [u8; 32],
    /// Facts about this host before the test.
    pub host: HostFacts,
    /// Program and version, for the log of the peer.
    pub software: String,
    /// Number of clock probes before the stream. In version 3, as many follow after it.
    pub probes: u32,
    /// Time between probes. In version 3, it varies randomly by up to half, so that probes do not synchronise with
    /// periodic events.
    pub probe_interval: Span,
    /// Timeout for each answer of the server.
    pub timeout: Span,
}

impl ClientConfig {
    /// Returns the usual configuration: a timeout of 15 s, and eight probes 50 ms apart (classic: five probes
    /// one second apart).
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

/// Input of the client's state machine.
#[derive(Debug)]
pub enum ClientInput<'a> {
    /// Bytes were received on the control connection.
    Received(&'a [u8]),
    /// The control connection was closed, or lost for this reason.
    Closed(Option<&'a str>),
    /// A report of the flow engine.
    Flow(FlowReport),
    /// Facts about this host after the test. Must precede the last [`FlowReport::Sent`] or
    /// [`FlowReport::Received`].
    Host(HostFacts),
    /// The user ends the test. Packets received so far are still collected.
    Interrupt,
    /// The time limit of the streams has passed. Ends the test like [`Interrupt`](Self::Interrupt), with this
    /// reason. Has no effect once all packets have been sent.
    Expire,
    /// Answer to [`ClientEvent::Reconnect`]: a new control connection was established. The value is new random bytes.
    Reconnected([u8; 32]),
}

/// Request or result of the client's state machine.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// Command for the flow engine.
    Flow(FlowCommand),
    /// Progress of the conversation.
    Progress(ConversationProgress),
    /// Records of a flow for the observers, in arrival order, with transmit timestamps.
    Records(FlowId, Vec<PacketRecord>),
    /// Packets of a flow that the server has received so far, at most twice per second.
    Feedback(FlowId, Box<ReceivedSoFar>),
    /// The control connection is lost, but results can still be fetched. The driver connects again and
    /// answers with [`ClientInput::Reconnected`] or [`ClientInput::Closed`].
    Reconnect,
    /// The test is over. All records have been delivered; [`ClientMachine::sessions`] returns everything
    /// else.
    Done {
        /// Way in which the test ended.
        ending: Ending,
        /// Reason why the test is not complete; `None` if it is.
        reason: Option<String>,
    },
    /// The conversation ended before anything was measured.
    Failed(ConversationFailure),
}

/// Progress of the conversation, for a progress line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationProgress {
    /// The server has answered; contains its program and version, if it sent them.
    Connected(Option<String>),
    /// Number of probes answered so far, and in total.
    Probing(u32, u32),
    /// The server has accepted the test.
    Accepted(Option<SessionId>),
    /// Streams are running.
    Running,
    /// Collecting results of a flow: number of records (or timestamps) so far, and in total.
    Collecting(FlowId, u64, u64),
}

/// Reason why nothing could be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationFailure {
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server closed the control connection.
    #[error("the server closed the control connection while {during}{}", with_colon(.detail))]
    Closed {
        /// Step that was in progress.
        during: &'static str,
        /// Error of the operating system, if any.
        detail: Option<String>,
    },
    /// The streams ran, but the connection was lost, and no new one brought the results.
    #[error("the results could not be fetched: {reason}")]
    NotFetched {
        /// Reason why the connection was lost.
        reason: String,
        /// Identifier under which the server stores the results for a while.
        session: SessionId,
    },
    /// The server did not answer.
    #[error("no answer from the server within {} while {during}{}", units::duration(*.after), with_semicolon(.hint))]
    Timeout {
        /// Step that was in progress.
        during: &'static str,
        /// Time that the client waited.
        after: Span,
        /// Suggestion for the user, if any.
        hint: Option<&'static str>,
    },
    /// The server sent invalid data.
    #[error("the server sent invalid data while {during}: {detail}")]
    Malformed {
        /// Step that was in progress.
        during: &'static str,
        /// Description of the error.
        detail: String,
    },
    /// Only one side has a key, or the keys differ.
    #[error("{0}")]
    Authentication(&'static str),
    /// The test stream could not be set up.
    #[error("the test stream could not be set up: {0}")]
    Flow(String),
    /// The dialect does not support the test.
    #[error("{0}")]
    Unsupported(String),
    /// The user interrupted the test before anything was measured.
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
