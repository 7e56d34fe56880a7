//! OWAMP (RFC 4656): a control conversation over TCP that negotiates test sessions, and test packets in one direction,
//! either way. Times are compared across hosts: one-way delays are as accurate as the clocks.
//!
//! * [`message`] – what OWAMP-Control adds to the messages it shares with TWAMP ([`amp`](crate::amp))
//! * [`client`] – requests sessions, starts and stops them, fetches what the server received
//! * [`server`] – grants them by its [`rules`], and sends what is in its [`store`]
//! * [`session`] – what both ends know of a session, and what its receiver recorded
//! * [`schedule`] – when its packets are sent
//! * [`sender`], [`receiver`] – its two ends
//! * [`packet`] – the test packet
//! * [`fetch`] – recorded data sent to the client
//! * [`statistics`] – results as owping and owstats print them

pub mod client;
pub mod fetch;
pub mod message;
pub mod packet;
pub mod receiver;
pub mod rules;
mod running;
pub mod schedule;
pub mod sender;
pub mod server;
pub mod session;
pub mod statistics;
pub mod store;

pub use client::{Client, OwampSessionSpec};
pub use fetch::Unusable;
pub use message::{DataRecord, FetchSession, ScheduleSlot, SentSummary, SessionFinish, SkipRange};
pub use packet::TestPacket;
pub use receiver::{Ignored, SessionReceiver};
pub use rules::OwampRules;
pub use running::PeerSummary;
pub use schedule::OwampSchedule;
pub use sender::SessionSender;
pub use server::Server;
pub use session::{SessionData, TestSession};
pub use statistics::{OwpingOptions, Statistics};
pub use store::{Owner, Store, StoreLimits};

/// TCP port of the control server (RFC 4656 §3.1, RFC 8545).
pub const PORT: u16 = 861;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
