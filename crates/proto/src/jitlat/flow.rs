//! Interface between a control state machine and its driver's flow engine: commands ([`FlowCommand`]) and
//! reports ([`FlowReport`]). Client and server have the same interface and can therefore share one engine.
//!
//! Life of a flow, with commands on the left and the reports that answer them:
//!
//! ```text
//! Open     → Opened(port)                  bind the socket (TCP: also listen, if requested)
//!            Greeted(from)                 version 3, server: a HELLO with the flow's token arrived
//! Connect  → Ready                         connect the socket to the peer; version 3, client: greet the peer
//! Start                                    run StreamSender or StreamReceiver (accept first if listening)
//!            Ended(sent)                   sender: the last data packet was sent; sentinels follow
//!            SoFar(figures)                a watched receiver, about once per second
//! Cut                                      end early: sender → sentinels now, receiver → linger
//! Stop     → Sent or Received              sender: no more sentinels, report;
//!                                          a receiver reports by itself when it has finished
//! ```
//! [`FlowReport::Failed`] may replace any of these answers.

use super::recording::{Recording, SentStamps};
use super::stream::{Finish, ReceiverTimeouts};
use core::fmt;
use core::net::SocketAddr;
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::tcp::TcpMoment;
use jitlat_core::{Span, StampSource, TestSpec};

/// Number of a flow in its session. A single flow is 0. In two directions, 0 is up and 1 is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u8);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}", self.0)
    }
}

/// Maximum number of records of a watched flow that wait for the next report. Further records are only
/// counted.
pub const WATCHED_RECORDS: usize = 4096;
/// Time between two reports of a watched flow.
pub const WATCHED_EVERY: Span = Span::seconds(1);

/// Role of this host in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowRole {
    /// Run a `StreamSender`.
    Send,
    /// Run a `StreamReceiver`.
    Receive,
}

/// Method by which the two ends of a flow find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Client, and classic UDP server: the peer's address is in [`FlowCommand::Connect`].
    Dial,
    /// Version-3 server: a greeting with this token arrives on the server's shared test port (as a UDP
    /// datagram, or as the first 12 bytes of a TCP connection) and is reported as [`FlowReport::Greeted`].
    Greeting(u64),
    /// Classic TCP receiver: listens on the bound port and, on [`FlowCommand::Start`], accepts one connection
    /// from the peer's address (any port).
    Listen,
}

/// Parameters for preparing a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Number of the flow.
    pub flow: FlowId,
    /// Role of this host in the flow.
    pub role: FlowRole,
    /// Agreed specification of the stream.
    pub spec: TestSpec,
    /// Local port to bind; 0: the system chooses.
    pub bind_port: u16,
    /// True if another port may be used when this one is taken.
    pub any_port_will_do: bool,
    /// Address of the control peer. Packets are never sent to another IP address, nor accepted from one.
    pub peer: core::net::IpAddr,
    /// Method by which the ends find each other.
    pub meeting: Meeting,
    /// True if packets with sequence number −2 are greetings (version 3).
    pub greetings: bool,
    /// Preferred kind of timestamps to request from the system.
    pub stamps: StampSource,
    /// Timeouts of a receiver.
    pub timeouts: ReceiverTimeouts,
    /// Maximum number of records that a receiver may store, including duplicates.
    pub record_limit: usize,
    /// True if a receiver also reports received packets about once per second ([`FlowReport::SoFar`]).
    pub watched: bool,
    /// Maximum number of packets of the stream in any [`WINDOW`](super::limits::WINDOW). A receiver ends the flow if
    /// far more packets arrive. `None`: no limit.
    pub peak: Option<u64>,
}

/// Command of the state machine for a flow. Commands must be executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Bind, allocate and prepare. Answered by [`FlowReport::Opened`].
    Open(Box<Opening>),
    /// Connect the flow to `peer`. If `greeting` is given, a `Greeter` sends greetings until one is returned,
    /// for at most the given time. Answered by [`FlowReport::Ready`].
    Connect {
        /// Number of the flow.
        flow: FlowId,
        /// Address of the peer. Port 0: a classic peer that did not specify one; use the source port of its
        /// first packet.
        peer: SocketAddr,
        /// Token of the greeting, and maximum time to send greetings (client, version 3); `None`: no greeting.
        greeting: Option<(u64, Span)>,
    },
    /// Start the stream or its reception.
    Start(FlowId),
    /// End the flow early. A sender sends sentinels; a receiver waits this long for late packets.
    Cut(FlowId, Span),
    /// End the flow now. A sender stops sending sentinels and reports [`FlowReport::Sent`]. A receiver that
    /// has not finished does so at once and reports.
    Stop(FlowId),
    /// Release the sockets and threads of the flow, in any state. Not answered by a report.
    Close(FlowId),
}

/// Report of the flow engine.
#[derive(Clone, Debug)]
pub enum FlowReport {
    /// The socket is bound to this port.
    Opened(FlowId, u16),
    /// A greeting with the flow's token arrived from this address, and has not been answered yet.
    Greeted(FlowId, SocketAddr),
    /// The flow is connected to its peer, and greeted if requested.
    Ready(FlowId),
    /// The sender has sent its last data packet; contains the number of packets sent.
    Ended(FlowId, u32),
    /// The sender has stopped completely.
    Sent(FlowId, SendReport),
    /// Preliminary results of a watched receiver.
    SoFar(FlowId, ReceivedSoFar),
    /// The receiver has finished.
    Received(FlowId, ReceiveReport),
    /// The flow failed; the text describes the failed operation. A stream that has started still ends with
    /// `Sent` or `Received`, so that no results are lost.
    Failed(FlowId, String),
}

/// Result of a sender.
#[derive(Clone, Debug, Default)]
pub struct SendReport {
    /// Number of data packets sent or attempted, which is the last sequence number plus one.
    pub sent: u32,
    /// Number of data packets that the operating system refused to send.
    pub failed: u32,
    /// Transmit timestamps of the packets; `None` without timestamps from the system.
    pub stamps: Option<SentStamps>,
    /// Number of packets whose timestamp was requested but did not arrive; `None` if none were requested.
    pub stamps_lost: Option<u32>,
    /// Path MTU that the kernel knew after the stream, in bytes; `None` if no packet exceeds it, or if unknown.
    pub path_mtu: Option<u32>,
    /// States of the TCP connection during the stream; empty over UDP, or if unknown.
    pub tcp: Vec<TcpMoment>,
}

/// Result of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiveReport {
    /// Records of the packets that arrived.
    pub recording: Recording,
    /// Reason why the reception ended.
    pub finish: Finish,
    /// Number of datagrams dropped by the receiving kernel because a buffer was full; `None` if unknown.
    pub drops: Option<u64>,
    /// Longest time for which packets were intentionally left in the socket's buffer; `None` if each packet
    /// was read on arrival.
    pub pause: Option<Span>,
}
