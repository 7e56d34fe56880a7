//! The server's side of a control conversation: its interface here, the machine in `machine`.

mod machine;
mod results;

pub use machine::ServerMachine;
pub(super) use machine::{answer_patience, linger, longest};

use super::auth::Key;
use super::flow::{Command, FlowReport};
use super::limits::{Limits, Refusal};
use super::session_table::{Claim, Lookup, SessionId, SessionResults};
use core::net::SocketAddr;
use jitlat_core::TestSpec;
use jitlat_core::session::HostFacts;
use std::sync::Arc;

/// What the server knows when it accepts a control connection.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The control connection's own address.
    pub local: SocketAddr,
    /// The client's: the only host a stream is ever sent to or accepted from.
    pub peer: SocketAddr,
    /// What is granted.
    pub limits: Limits,
    /// Pre-shared key: peers that do not prove it are refused.
    pub key: Option<Key>,
    /// 32 random bytes, fresh for every connection: session id, tokens and nonce come from them.
    pub entropy: [u8; 32],
    /// This host, before the test.
    pub host: HostFacts,
    /// Program and version.
    pub software: String,
    /// The port where greetings are awaited (version 3), unless a client names another.
    pub test_port: u16,
}

/// What the driver tells the server machine.
#[derive(Debug)]
pub enum ServerInput<'a> {
    /// Bytes came on the control connection.
    Received(&'a [u8]),
    /// The control connection ended or broke.
    Closed,
    /// From the flow engine.
    Flow(FlowReport),
    /// This host, now: give it before the last [`FlowReport::Sent`] or [`FlowReport::Received`].
    Host(HostFacts),
    /// In answer to [`ServerEvent::Admit`].
    Admitted(Result<(), Refusal>),
    /// In answer to [`ServerEvent::Find`].
    Found(Lookup),
    /// The server is shutting down: say so to the client and end.
    Shutdown,
}

/// What the server machine wants, or has to tell.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// Ask `SessionTable::admit`; answer [`ServerInput::Admitted`].
    Admit(Claim),
    /// Ask `SessionTable::find`; answer [`ServerInput::Found`].
    Find(SessionId),
    /// Tell `SessionTable::keep`.
    Keep(SessionId, Arc<SessionResults>),
    /// Tell `SessionTable::forget`.
    Forget(SessionId),
    /// For the flow engine.
    Flow(Command),
    /// For the server's own log: a test was agreed.
    Agreed(SessionId, Vec<TestSpec>),
    /// Over, and everything has been said: close the connection once it is written. The text is for the log:
    /// `None` after a conversation that went as it should.
    Done(Option<String>),
}
