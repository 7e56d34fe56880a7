//! OWAMP (RFC 4656): a control conversation over TCP that negotiates test sessions, and test packets in one
//! direction per session. Delays are differences of times on both hosts, so they are only as accurate as the
//! clocks.
//!
//! * [`message`] – messages in addition to those shared with TWAMP ([`amp`](crate::amp))
//! * [`client`] – requests sessions, starts and stops them, and fetches the server's records
//! * [`server`] – accepts sessions by its [`rules`], and sends records from its [`store`]
//! * [`session`] – parameters of a session, and records of its receiver
//! * [`schedule`] – send times of its packets
//! * [`sender`], [`receiver`] – the two ends of a session
//! * [`packet`] – the test packet
//! * [`fetch`] – recorded data sent to the client
//! * [`counted`] – the packets that results cover
//! * [`statistics`] – results in the format of owping and owstats; [`file`](mod@file) – data files of OWAMP's tools
//! * [`test`](mod@test) – other one-way tests as sessions, and sessions as tests

pub mod client;
pub mod counted;
pub mod fetch;
pub mod file;
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
pub mod test;

pub use client::{Client, OwampSessionSpec};
pub use counted::CountedPackets;
pub use fetch::Unusable;
pub use file::FileError;
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
pub use test::{SERVER_NOTE, SessionEnd, TooManyLost, counts_hops};

/// TCP port of the control server (RFC 4656 §3.1, RFC 8545).
pub const PORT: u16 = 861;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
