//! Control messages, independent of the dialect. The classic codec generates the messages that its dialect
//! lacks, so that one state machine per side serves both dialects.

use super::auth::{NONCE_LEN, PROOF_LEN};
use super::flow::FlowId;
use super::seal::SHARE_LEN;
use super::session_table::SessionId;
use super::stream::Finish;
use jitlat_core::session::HostFacts;
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::tcp::TcpMoment;
use jitlat_core::{PacketRecord, Span, StampSource, TestSpec, WallTime};

/// Version of the protocol that this program uses.
pub const VERSION: u8 = 3;
/// Capability bit in both greetings: the client requests FEEDBACK messages while a stream is running, and the
/// server sends them.
pub const FEEDBACK: u64 = 1;
/// Capability bit in both greetings: the client requests marked packets, and the server can send them.
pub const MARKS: u64 = 2;
/// Maximum number of flows in a session.
pub const MAX_FLOWS: usize = 8;
/// Number of timestamps in a chunk.
pub(crate) const STAMP_CHUNK: usize = 4096;
/// Failure text of a stream that ended early because the server was stopped.
pub(crate) const SERVER_STOPPED: &str = "the server was stopped and handed over what it had until then";

/// A control message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Client: greeting, with versions and capabilities.
    Hello(Hello),
    /// Server: greeting, with the selected version.
    Welcome(Welcome),
    /// Either: proof of the pre-shared key.
    Proof([u8; PROOF_LEN]),
    /// Client: a clock probe; server: its answer.
    Probe(Probe),
    /// Client: the flows to run.
    Request(Request),
    /// Server: the request is accepted; contains the port of each flow.
    Accept(Accept),
    /// Client: the test paths are open, so the streams can start.
    Start,
    /// Server: the streams have started.
    Started,
    /// Receiver: the flow is over; contains the number of packets received.
    Finished(FlowId, u64),
    /// Sender: the last data packet was sent; contains the number of packets sent.
    End(FlowId, u32),
    /// Client as receiver: end the flow early.
    Stop(FlowId),
    /// Client: request for the results of a flow, starting with a given chunk.
    Fetch(Fetch),
    /// Server: one chunk of results.
    Chunk(Chunk),
    /// Server: end of the results, with a summary of the flow.
    Results(Results),
    /// Client: everything was fetched, so the results can be discarded.
    Bye,
    /// Server as receiver: packets of a flow received so far. Sent at most once per second, and only if both
    /// sides have the capability.
    Feedback(FlowId, ReceivedSoFar),
    /// Either: keep-alive.
    KeepAlive,
    /// Either: refusal, which ends the conversation.
    Nak(Nak),
}

impl Message {
    /// Returns the name in the protocol's description.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Hello(_) => "HELLO",
            Message::Welcome(_) => "WELCOME",
            Message::Proof(_) => "PROOF",
            Message::Probe(_) => "PROBE",
            Message::Request(_) => "REQUEST",
            Message::Accept(_) => "ACCEPT",
            Message::Start => "START",
            Message::Started => "STARTED",
            Message::Finished(..) => "FINISHED",
            Message::End(..) => "END",
            Message::Stop(_) => "STOP",
            Message::Fetch(_) => "FETCH",
            Message::Chunk(_) => "CHUNK",
            Message::Results(_) => "RESULTS",
            Message::Bye => "BYE",
            Message::Feedback(..) => "FEEDBACK",
            Message::KeepAlive => "KEEPALIVE",
            Message::Nak(_) => "NAK",
        }
    }
}

/// Greeting of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Oldest version that the client supports.
    pub min_version: u8,
    /// Newest version that the client supports.
    pub max_version: u8,
    /// Bit set of capabilities: [`FEEDBACK`] and [`MARKS`]. Other bits are ignored.
    pub capabilities: u64,
    /// Random bytes that the proofs cover.
    pub nonce: [u8; NONCE_LEN],
    /// True if the client has a key and requires mutual proof.
    pub authenticate: bool,
    /// Public key with which messages after the proofs can be encrypted; `None` without a key.
    pub share: Option<[u8; SHARE_LEN]>,
    /// Program and version; `None` if not sent.
    pub software: Option<String>,
}

/// Server's answer to [`Hello`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Version used after this message.
    pub version: u8,
    /// Bit set of capabilities: [`FEEDBACK`] and [`MARKS`]. Other bits are ignored.
    pub capabilities: u64,
    /// Random bytes that the proofs cover.
    pub nonce: [u8; NONCE_LEN],
    /// True if the client must prove its key.
    pub authenticate: bool,
    /// Public key, if messages after the proofs are encrypted; `None` if the client cannot encrypt.
    pub share: Option<[u8; SHARE_LEN]>,
    /// Program and version; `None` if not sent.
    pub software: Option<String>,
}

/// A clock probe: the client sets T1, and the server adds T2 and T3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Sequence number, starting at 0, which matches answers to probes.
    pub id: u32,
    /// T1: time at which the client sent the probe, on its clock.
    pub sent: WallTime,
    /// T2: time at which the server received the probe, on its clock; `None` until it answers.
    pub arrived: Option<WallTime>,
    /// T3: time at which the server answered, on its clock; `None` until it answers.
    pub answered: Option<WallTime>,
}

/// Request of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Flows, in the order of their numbers.
    pub flows: Vec<FlowRequest>,
    /// Facts about the client, before the test.
    pub host: HostFacts,
}

/// One flow of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRequest {
    /// Specification of the stream. The port on the client's side is already bound.
    pub spec: TestSpec,
    /// Preferred kind of timestamps on the server.
    pub stamps: StampSource,
}

/// Acceptance of a request by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Identifier under which the results are stored; `None` from classic servers.
    pub session: Option<SessionId>,
    /// Flows, in the order of the request.
    pub flows: Vec<FlowAccept>,
    /// Facts about the server, before the test.
    pub host: HostFacts,
}

/// One flow of an [`Accept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAccept {
    /// Port of the server for this flow.
    pub port: u16,
    /// Token for greetings to this port; `None` in the classic dialect.
    pub token: Option<u64>,
}

/// Request for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Identifier of the session; `None` in the classic dialect, where the connection identifies it.
    pub session: Option<SessionId>,
    /// Number of the flow.
    pub flow: FlowId,
    /// First chunk to send, counted from 0.
    pub chunk: u32,
}

/// Part of a flow's results; limited in size.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Number of the flow.
    pub flow: FlowId,
    /// Index of the chunk, counted from 0.
    pub index: u32,
    /// CRC-32 of the data in version-3 encoding (`v3::checksum`), checked when decoding. 0 in the classic
    /// dialect.
    pub crc: u32,
    /// Contents of the chunk.
    pub data: ChunkData,
}

/// Kinds of results.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkData {
    /// Packets that the server received: 1024 records per chunk, possibly fewer in the last one.
    Records(Vec<PacketRecord>),
    /// Transmit times of the server's packets by sequence number, with `i64::MIN` for unknown: 4096 per
    /// chunk, possibly fewer in the last one. The second list has the times at which the packets entered the
    /// queue of the interface; empty if none is known.
    Stamps(StampSource, Vec<i64>, Vec<i64>),
}

/// End of a flow's results, with a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// Number of the flow.
    pub flow: FlowId,
    /// Number of chunks of the flow.
    pub chunks: u32,
    /// Number of records or timestamps.
    pub count: u64,
    /// CRC-32 over the CRC-32s (big-endian) of the chunks sent in this fetch.
    pub crc: u32,
    /// Number of packets that the server sent; `None` if the server was the receiver.
    pub sent: Option<u32>,
    /// Number of data packets that the server's operating system refused to send.
    pub failed: u32,
    /// Number of datagrams that the server's kernel dropped because a buffer was full; `None` if unknown.
    pub drops: Option<u64>,
    /// Number of packets that the server did not record because the recording was full.
    pub refused: u64,
    /// Number of packets whose transmit timestamp was requested but did not arrive; `None` if none were
    /// requested, or if unknown.
    pub stamps_lost: Option<u32>,
    /// Path MTU that the server's kernel knew after the stream, in bytes; `None` if no packet exceeds it, or if
    /// unknown.
    pub path_mtu: Option<u32>,
    /// States of the TCP connection on which the server sent; empty over UDP, or if unknown.
    pub tcp: Vec<TcpMoment>,
    /// Longest time for which the server intentionally left packets in the socket's buffer; `None` if it did
    /// not, or if unknown.
    pub pause: Option<Span>,
    /// Reason why the server's reception ended; `None` if the server was the sender.
    pub finish: Option<Finish>,
    /// Reason why the flow failed; `None` if it did not.
    pub failure: Option<String>,
    /// True if the stream ended early because the server was stopped.
    pub stopped: bool,
    /// Facts about the server, after the test.
    pub host: HostFacts,
}

impl Results {
    /// Returns empty results of `flow`.
    pub fn none(flow: FlowId) -> Results {
        Results {
            flow,
            chunks: 0,
            count: 0,
            crc: 0,
            sent: None,
            failed: 0,
            drops: None,
            refused: 0,
            stamps_lost: None,
            path_mtu: None,
            tcp: Vec::new(),
            pause: None,
            finish: None,
            failure: None,
            stopped: false,
            host: HostFacts::default(),
        }
    }
}

/// A refusal, which ends the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nak {
    /// Machine-readable reason.
    pub code: NakCode,
    /// Human-readable reason. If a limit was exceeded, the text contains the limit and its value.
    pub text: String,
}

impl Nak {
    /// Creates a refusal.
    pub fn new(code: NakCode, text: impl Into<String>) -> Nak {
        Nak { code, text: text.into() }
    }
}

/// Reasons for a [`Nak`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// No reason, or a reason unknown to this version.
    Other,
    /// An invalid message, or one that is not allowed in this state.
    Malformed,
    /// No common version.
    Version,
    /// Authentication is required, or has failed.
    Authentication,
    /// The request is invalid.
    Invalid,
    /// The request exceeds a limit.
    Limit,
    /// The server is full.
    Busy,
    /// The results do not exist, or have expired.
    NotFound,
    /// The server failed.
    Failed,
    /// The other side timed out.
    Timeout,
    /// The user or the server's administrator ended the test.
    Aborted,
}

impl NakCode {
    const CODES: [NakCode; 11] = [
        NakCode::Other,
        NakCode::Malformed,
        NakCode::Version,
        NakCode::Authentication,
        NakCode::Invalid,
        NakCode::Limit,
        NakCode::Busy,
        NakCode::NotFound,
        NakCode::Failed,
        NakCode::Timeout,
        NakCode::Aborted,
    ];

    /// Returns the number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Returns the reason with this number; unknown numbers are [`NakCode::Other`].
    pub fn from_number(number: u16) -> NakCode {
        NakCode::CODES.get(usize::from(number)).copied().unwrap_or(NakCode::Other)
    }
}

/// Reason why received bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The connection does not begin with a known preface.
    #[error("not a jitlat control connection (it begins with {})", hex(.0))]
    Preface([u8; 4]),
    /// The peer answered in the other dialect.
    #[error("the peer speaks only classic workorders")]
    ClassicPeer,
    /// A frame is longer than the protocol allows, or has no type.
    #[error("a frame of {0} bytes (1 to {max} are allowed)", max = super::v3::frame::MAX_FRAME)]
    FrameLength(u32),
    /// A field is missing or has the wrong length or value.
    #[error("{0} message: bad or missing {1}")]
    Field(&'static str, &'static str),
    /// The command of a workorder is not 1…7, or was sent by the wrong side.
    #[error("workorder command {0} is not valid here")]
    Command(u32),
    /// The request is impossible.
    #[error("{0}")]
    Invalid(String),
    /// The checksum of a chunk is wrong.
    #[error("checksum of chunk {0} is wrong")]
    Checksum(u32),
    /// The seal of a frame is wrong.
    #[error("a message is not authentic: its seal is wrong")]
    Seal,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl DecodeError {
    /// Returns the refusal to send in answer to the bytes that caused this error.
    pub(crate) fn to_nak(&self) -> Nak {
        let code = match self {
            DecodeError::Invalid(_) => NakCode::Invalid,
            DecodeError::Seal => NakCode::Authentication,
            _ => NakCode::Malformed,
        };
        Nak::new(code, self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nak_numbers_are_their_places() {
        for (i, code) in NakCode::CODES.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), i);
            assert_eq!(NakCode::from_number(code.number()), code);
        }
        assert_eq!(NakCode::from_number(9999), NakCode::Other);
    }
}
