//! What a control machine requests of its driver's flow engine ([`FlowCommand`]) and what the engine reports
//! ([`FlowReport`]): the same on both sides, so that one engine serves client and server.
//!
//! The life of a flow, with the commands on the left and the reports that answer them:
//!
//! ```text
//! Open     → Opened(port)                  bind the socket (TCP: also listen, if requested)
//!            Greeted(from)                 version 3, server: a HELLO with the flow's token came
//! Connect  → Ready                         tie the socket to the peer; version 3, client: greet it
//! Start                                    run StreamSender or StreamReceiver (accept first if listening)
//!            Ended(sent)                   sender: the last data packet has gone; sentinels follow
//!            SoFar(figures)                a watched receiver, about once a second
//! Cut                                      end early: sender → sentinels now, receiver → linger
//! Stop     → Sent or Received              sender: no more sentinels, report;
//!                                          a receiver reports by itself when it has finished
//! ```
//! Instead of any of these answers, [`FlowReport::Failed`].

use super::recording::{Recording, SentStamps};
use super::stream::{Finish, ReceiverTimeouts};
use core::fmt;
use core::net::SocketAddr;
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{Span, StampSource, TestSpec};

/// Which flow of a session: 0 alone, or 0 up and 1 down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u8);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}", self.0)
    }
}

/// Records of a watched flow that wait to be looked at; if more arrive meanwhile, they are counted only.
pub const WATCHED_RECORDS: usize = 4096;
/// Time between two reports of what has arrived of a watched flow.
pub const WATCHED_EVERY: Span = Span::seconds(1);

/// What this host does in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowRole {
    /// Run a `StreamSender`.
    Send,
    /// Run a `StreamReceiver`.
    Receive,
}

/// How the two ends of a flow find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Client, and classic UDP server: the peer's address comes with [`FlowCommand::Connect`].
    Dial,
    /// Version-3 server: a greeting with this token arrives on the server's shared test port (UDP
    /// datagram, or first 12 bytes of a TCP connection) and is reported as [`FlowReport::Greeted`].
    Greeting(u64),
    /// Classic TCP receiver: listen on the bound port, and on [`FlowCommand::Start`] accept one connection
    /// from the peer's address (any port).
    Listen,
}

/// Everything needed to prepare one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Which flow.
    pub flow: FlowId,
    /// What this host does in it.
    pub role: FlowRole,
    /// The stream, as agreed.
    pub spec: TestSpec,
    /// Local port to bind; 0 = the system chooses.
    pub bind_port: u16,
    /// Whether another port may be used if that one is taken.
    pub any_port_will_do: bool,
    /// The control peer's address. Packets are never sent to, or accepted from, another IP address.
    pub peer: core::net::IpAddr,
    /// How the ends meet.
    pub meeting: Meeting,
    /// Whether packets with sequence number −2 are greetings (version 3).
    pub greetings: bool,
    /// The best stamps to ask of the system.
    pub stamps: StampSource,
    /// How long a receiver waits.
    pub timeouts: ReceiverTimeouts,
    /// Most records that a receiver may keep, including duplicates.
    pub record_limit: usize,
    /// Whether a receiver also reports about once a second what has arrived so far ([`FlowReport::SoFar`]).
    pub watched: bool,
    /// Packets of the stream within any window: a receiver ends if far more arrive. `None`: not limited.
    pub peak: Option<u64>,
}

/// A command of the machine about a flow. Execute them in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Bind, allocate and prepare. Answer with [`FlowReport::Opened`].
    Open(Box<Opening>),
    /// Tie the flow to `peer`; a `greeting` is to be sent there with a `Greeter` until it comes back, for
    /// at most the given time. Answer [`FlowReport::Ready`].
    Connect {
        /// Which flow.
        flow: FlowId,
        /// The far end. Port 0: a classic peer that named none; use the first packet's.
        peer: SocketAddr,
        /// Token to greet with, and how long to try (client, version 3).
        greeting: Option<(u64, Span)>,
    },
    /// Start the stream or its reception.
    Start(FlowId),
    /// End it early: the sender sends sentinels, the receiver waits this long for late packets and finishes.
    Cut(FlowId, Span),
    /// End it now: the sender stops its sentinels and reports [`FlowReport::Sent`]; a receiver that has not finished
    /// does so at once and reports.
    Stop(FlowId),
    /// Release sockets and threads of the flow, whatever its state. No report is expected.
    Close(FlowId),
}

/// A report of the flow engine.
#[derive(Clone, Debug)]
pub enum FlowReport {
    /// The socket is bound to this port.
    Opened(FlowId, u16),
    /// A greeting with the flow's token came from this address; not yet answered.
    Greeted(FlowId, SocketAddr),
    /// The flow is tied to its peer (and greeted, where asked for).
    Ready(FlowId),
    /// The sender has sent its last data packet, this many in all.
    Ended(FlowId, u32),
    /// The sender has stopped altogether.
    Sent(FlowId, SendReport),
    /// The receiver of a watched flow: what has arrived so far.
    SoFar(FlowId, ReceivedSoFar),
    /// The receiver has finished.
    Received(FlowId, ReceiveReport),
    /// It failed; the text describes what was attempted. A stream that has begun still ends with `Sent` or `Received`,
    /// so that all results are kept.
    Failed(FlowId, String),
}

/// The result of a sender.
#[derive(Clone, Debug, Default)]
pub struct SendReport {
    /// Data packets sent or tried: the last sequence number plus one.
    pub sent: u32,
    /// Of those, refused by the sending system.
    pub failed: u32,
    /// When each packet left; `None` without stamps of the system.
    pub stamps: Option<SentStamps>,
    /// Packets for which such a stamp was asked for and never came; `None` if none were asked for.
    pub stamps_lost: Option<u32>,
}

/// The result of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiveReport {
    /// What arrived.
    pub recording: Recording,
    /// Why the reception ended.
    pub finish: Finish,
    /// Datagrams dropped by the receiving kernel because a buffer was full; `None` if unknown.
    pub drops: Option<u64>,
    /// The longest time for which arrived packets were left in the socket on purpose; `None` if each was taken as it came.
    pub pause: Option<Span>,
}
