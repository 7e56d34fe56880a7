//! The one-way protocol: a control conversation over TCP, and test streams (docs/protocols/jitlat-classic.md
//! and docs/protocols/jitlat-v3.md).
//!
//! * [`client`], [`server`] – the two sides of the conversation
//! * [`message`] – its messages; [`classic`], [`v3`] – their encoding; [`auth`] – mutual authentication by
//!   a shared key
//! * [`flow`] – interface between the state machines and the driver's flow engine
//! * [`packet`], [`framing`], [`stream`] – the test stream: header, TCP records, sender, receiver
//! * [`recording`] – received records and transmit timestamps, and their combination
//! * [`limits`], [`session_table`] – limits of a server, per request and over all sessions
pub mod auth;
pub mod classic;
pub mod client;
pub mod codec;
pub mod dialect;
pub mod flow;
pub mod framing;
pub mod limits;
pub mod message;
pub mod packet;
pub mod recording;
pub mod rendezvous;
pub mod seal;
pub mod server;
pub mod session_table;
pub mod stream;
pub mod v3;

pub use auth::{BadKey, PresharedKey, PresharedKeys};
pub use client::{
    ClientConfig, ClientEvent, ClientInput, ClientMachine, ConversationFailure, ConversationProgress,
    TestTerms,
};
pub use dialect::Dialect;
pub use flow::{FlowCommand, FlowId, FlowReport, FlowRole, Opening};
pub use limits::{LimitRefusal, ServerLimits};
pub use recording::{Recording, SentStamps};
pub use server::{ServerConfig, ServerEvent, ServerInput, ServerMachine};
pub use session_table::{SessionId, SessionTable};
pub use stream::{StreamReceiver, StreamSender};
