//! The server's side of a control conversation: its interface here, the machine in `machine`.

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

/// What the server knows when it accepts a control connection.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The control connection's own address.
    pub local: SocketAddr,
    /// The client's: streams are only sent to, and accepted from, this host.
    pub peer: SocketAddr,
    /// The limits of clients.
    pub limits: ServerLimits,
    /// Pre-shared keys: peers that prove none of them are refused.
    pub keys: PresharedKeys,
    /// 32 random bytes, fresh for every connection: session id, tokens and nonce come from them.
    pub entropy: [u8; 32],
    /// This host, before the test.
    pub host: HostFacts,
    /// Program and version.
    pub software: String,
    /// The port for greetings (version 3), unless a client names another.
    pub test_port: u16,
}

/// An input of the server machine.
#[derive(Debug)]
pub enum ServerInput<'a> {
    /// Bytes were received on the control connection.
    Received(&'a [u8]),
    /// The control connection ended or broke.
    Closed,
    /// A report of the flow engine.
    Flow(FlowReport),
    /// The facts about this host now: needed before the last [`FlowReport::Sent`] or [`FlowReport::Received`].
    Host(HostFacts),
    /// In answer to [`ServerEvent::Admit`].
    Admitted(Result<(), PolicyRefusal>),
    /// In answer to [`ServerEvent::Find`].
    Found(Lookup),
    /// The server is shutting down: inform the client and end.
    Shutdown,
    /// Its place is needed for others, and nothing came of it for long: inform the client and end.
    Evicted,
}

/// A request or an event of the server machine.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// Ask `SessionTable::admit`; answer [`ServerInput::Admitted`].
    Admit(Claim),
    /// Ask `SessionTable::find`; answer [`ServerInput::Found`].
    Find(SessionId),
    /// Call `SessionTable::keep`.
    Keep(SessionId, Arc<SessionResults>),
    /// Call `SessionTable::forget`.
    Forget(SessionId),
    /// For the flow engine.
    Flow(FlowCommand),
    /// The client proved the key of the peer of this name, or gave a wrong one.
    Proof(Option<String>),
    /// For the server's log: a test was granted.
    Agreed(SessionId, Vec<TestSpec>),
    /// Over: close the connection once everything is written. The text is for the log; `None` after a conversation
    /// without errors.
    Done(Option<String>),
}
