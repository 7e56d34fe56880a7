//! Interface of the server's side of a control conversation. The state machine is in `machine`.

mod machine;
mod results;

pub use machine::ServerMachine;
pub(super) use machine::{answer_timeout, linger, longest};

use super::auth::PresharedKeys;
use super::flow::{FlowCommand, FlowReport};
use super::limits::ServerLimits;
use super::session_table::{Claim, Lookup, SessionId, SessionResults};
use crate::policy::PolicyRefusal;
use core::net::SocketAddr;
use jitlat_core::TestSpec;
use jitlat_core::session::HostFacts;
use std::sync::Arc;

/// Configuration of a server: facts that are known when a control connection is accepted.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Local address of the control connection.
    pub local: SocketAddr,
    /// Address of the client. Streams are only exchanged with this host.
    pub peer: SocketAddr,
    /// Limits for clients.
    pub limits: ServerLimits,
    /// Pre-shared keys. If there are any, a client must prove one of them.
    pub keys: PresharedKeys,
    /// Random bytes, new for every connection. Session identifier, tokens and nonce are derived from them.
    pub entropy: [u8; 32],
    /// Facts about this host before the test.
    pub host: HostFacts,
    /// Program and version.
    pub software: String,
    /// Port for greetings (version 3), unless a client requests another one.
    pub test_port: u16,
}

/// Input of the server's state machine.
#[derive(Debug)]
pub enum ServerInput<'a> {
    /// Bytes were received on the control connection.
    Received(&'a [u8]),
    /// The control connection was closed or lost.
    Closed,
    /// A report of the flow engine.
    Flow(FlowReport),
    /// Facts about this host now. Must precede the last [`FlowReport::Sent`] or [`FlowReport::Received`].
    Host(HostFacts),
    /// Answer to [`ServerEvent::Admit`].
    Admitted(Result<(), PolicyRefusal>),
    /// Answer to [`ServerEvent::Find`].
    Found(Lookup),
    /// The server is shutting down: the client is informed, and the conversation ends.
    Shutdown,
    /// The client requests the results of this test over another connection: it has given up this one.
    Superseded,
    /// The connection was silent for a long time, and its slot is needed for another client: the client is
    /// informed, and the conversation ends.
    Evicted,
}

/// Request or event of the server's state machine.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// Call `SessionTable::admit`, and answer with [`ServerInput::Admitted`].
    Admit(Claim),
    /// Call `SessionTable::find`, and answer with [`ServerInput::Found`].
    Find(SessionId),
    /// Call `SessionTable::keep`.
    Keep(SessionId, Arc<SessionResults>),
    /// Call `SessionTable::forget`.
    Forget(SessionId),
    /// Command for the flow engine.
    Flow(FlowCommand),
    /// The client proved the key of the peer with this name; `None`: the proof was not valid.
    Proof(Option<String>),
    /// A test was accepted; for the server's log.
    Agreed(SessionId, Vec<TestSpec>),
    /// The conversation is over: close the connection once everything has been written. The text is for the
    /// log; `None` after a conversation without errors.
    Done(Option<String>),
}
