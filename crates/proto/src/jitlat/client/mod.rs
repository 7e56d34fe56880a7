//! The client's side of a control conversation: its interface here, the machine in `machine`.

mod collect;
mod machine;
mod probing;

pub use machine::ClientMachine;

use super::auth::Key;
use super::dialect::Dialect;
use super::flow::{Command, FlowId, FlowReport};
use super::limits::Refusal;
use super::session_table::SessionId;
use core::net::SocketAddr;
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::{PacketRecord, Source, Span, TestSpec};

/// What the user wants and what the driver knows before it connects.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Version 3 or classic workorders.
    pub dialect: Dialect,
    /// The flows: one, or one each way with `-b`. Classic: exactly one.
    pub flows: Vec<TestSpec>,
    /// The control connection's own address.
    pub local: SocketAddr,
    /// The server's.
    pub remote: SocketAddr,
    /// Pre-shared key, if the peers are to prove themselves (version 3 only).
    pub key: Option<Key>,
    /// 32 random bytes, fresh for every connection and every [`ClientInput::Reconnected`].
    pub entropy: [u8; 32],
    /// This host, before the test.
    pub host: HostFacts,
    /// Program and version, for the peer's log.
    pub software: String,
    /// The best stamps to use, on both sides.
    pub stamps: Source,
    /// Clock probes before the stream, and in version 3 as many after it.
    pub probes: u32,
    /// Time between probes; in version 3 varied at random by half, so as not to beat with anything.
    pub probe_interval: Span,
    /// How long the server may take for any one answer.
    pub patience: Span,
}

impl ClientConfig {
    /// The usual configuration: eight probes 50 ms apart, or the classic five at one-second intervals;
    /// kernel stamps; 15 s of patience.
    pub fn new(
        dialect: Dialect,
        flows: Vec<TestSpec>,
        local: SocketAddr,
        remote: SocketAddr,
        entropy: [u8; 32],
    ) -> ClientConfig {
        let (probes, probe_interval) = match dialect {
            Dialect::Classic => (5, Span::seconds(1)),
            Dialect::V3 => (8, Span::millis(50)),
        };
        ClientConfig {
            dialect,
            flows,
            local,
            remote,
            key: None,
            entropy,
            host: HostFacts::default(),
            software: concat!("jitlat ", env!("CARGO_PKG_VERSION")).to_owned(),
            stamps: Source::Kernel,
            probes,
            probe_interval,
            patience: Span::seconds(15),
        }
    }
}

/// What the driver tells the client machine.
#[derive(Debug)]
pub enum ClientInput<'a> {
    /// Bytes came on the control connection.
    Received(&'a [u8]),
    /// The control connection ended, or broke for this reason.
    Closed(Option<&'a str>),
    /// From the flow engine.
    Flow(FlowReport),
    /// This host, after the test: give it before the last [`FlowReport::Sent`] or [`FlowReport::Received`].
    Host(HostFacts),
    /// The user wants an end: everything received so far is still collected.
    Interrupt,
    /// In answer to [`ClientEvent::Reconnect`]: a new control connection, with fresh random bytes.
    Reconnected([u8; 32]),
}

/// What the client machine wants, or has to tell.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// For the flow engine.
    Flow(Command),
    /// The conversation has come this far.
    Progress(Progress),
    /// Records of a flow, in arrival order, stamps joined: for the sinks.
    Records(FlowId, Vec<PacketRecord>),
    /// The control connection is lost but results are worth asking for: connect again, and say
    /// [`ClientInput::Reconnected`] or [`ClientInput::Closed`].
    Reconnect,
    /// Over. Every record has been handed out; [`ClientMachine::sessions`] says the rest.
    Done {
        /// How it ended.
        ending: Ending,
        /// Why, when not complete.
        reason: Option<String>,
    },
    /// Over before anything was measured.
    Failed(Failure),
}

/// How far the conversation has come: for a progress line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The server has answered; its program and version, if it said.
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
pub enum Failure {
    /// The server said no.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server closed the control connection.
    #[error("the server closed the control connection while {during}{}", with_colon(.detail))]
    Closed {
        /// What was going on.
        during: &'static str,
        /// What the system said.
        detail: Option<String>,
    },
    /// The server did not answer.
    #[error("no answer from the server within {} s while {during}{}", .after.as_seconds(), with_semicolon(.hint))]
    Timeout {
        /// What was going on.
        during: &'static str,
        /// How long was waited.
        after: Span,
        /// What to try.
        hint: Option<&'static str>,
    },
    /// What the server sent makes no sense.
    #[error("the server sent something this program cannot read while {during}: {detail}")]
    Malformed {
        /// What was going on.
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
    /// The test cannot be asked for in this dialect.
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

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal.to_string())
    }
}
