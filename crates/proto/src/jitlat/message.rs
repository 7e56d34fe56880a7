//! The control messages, independent of the dialect. The classic codec generates messages that its dialect does not
//! have, so that one machine per side serves both.

use super::auth::{NONCE_LEN, PROOF_LEN};
use super::flow::FlowId;
use super::session_table::SessionId;
use super::stream::Finish;
use jitlat_core::session::HostFacts;
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{PacketRecord, Span, StampSource, TestSpec, WallTime};

/// The protocol version this program speaks.
pub const VERSION: u8 = 3;
/// The capability, in both greetings, to say FEEDBACK while a stream runs: the client wants it, the server gives it.
pub const FEEDBACK: u64 = 1;
/// Most flows in a session.
pub const MAX_FLOWS: usize = 8;
/// Stamps in a chunk of transmit stamps.
pub(crate) const STAMP_CHUNK: usize = 4096;

/// One control message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Client: who it is and what it can.
    Hello(Hello),
    /// Server: who it is and what will be spoken.
    Welcome(Welcome),
    /// Either: proof of the pre-shared key.
    Proof([u8; PROOF_LEN]),
    /// Client: a clock probe; server: its answer.
    Probe(Probe),
    /// Client: the flows it wants.
    Request(Request),
    /// Server: granted, with the port of each flow.
    Accept(Accept),
    /// Client: the test paths are open, start.
    Start,
    /// Server: started.
    Started,
    /// Receiver: the flow is over; the number of packets received.
    Finished(FlowId, u64),
    /// Sender: no more data packets will come; the number sent.
    End(FlowId, u32),
    /// Client as receiver: end the flow early.
    Stop(FlowId),
    /// Client: send the results of a flow, from this chunk on.
    Fetch(Fetch),
    /// Server: one chunk of results.
    Chunk(Chunk),
    /// Server: the end of the results, with a summary of the flow.
    Results(Results),
    /// Client: everything is fetched; discard it.
    Bye,
    /// Server as receiver: what it has received of a flow so far. Only if both sides know it, at most once a second.
    Feedback(FlowId, ReceivedSoFar),
    /// Either: keep-alive.
    KeepAlive,
    /// Either: refusal, which ends the conversation.
    Nak(Nak),
}

impl Message {
    /// The name in the protocol's description.
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

/// The client's introduction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Oldest version it can speak.
    pub min_version: u8,
    /// Newest version it can speak.
    pub max_version: u8,
    /// Bit set of optional abilities: [`FEEDBACK`]; others are ignored.
    pub capabilities: u64,
    /// Random.
    pub nonce: [u8; NONCE_LEN],
    /// Whether it has a key and requires mutual proof.
    pub authenticate: bool,
    /// Program and version.
    pub software: Option<String>,
}

/// The server's answer to [`Hello`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: u8,
    /// Bit set of optional abilities: [`FEEDBACK`]; others are ignored.
    pub capabilities: u64,
    /// Random.
    pub nonce: [u8; NONCE_LEN],
    /// Whether the client must prove its key.
    pub authenticate: bool,
    /// Program and version.
    pub software: Option<String>,
}

/// A clock probe: T1 from the client; T2 and T3 added by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Counts up from 0; matches answers to probes.
    pub id: u32,
    /// T1: the client sent, on its clock.
    pub sent: WallTime,
    /// T2: the server received, on its clock.
    pub arrived: Option<WallTime>,
    /// T3: the server answered, on its clock.
    pub answered: Option<WallTime>,
}

/// The client's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The flows, in the order of their numbers.
    pub flows: Vec<FlowRequest>,
    /// Facts about the client, before the test.
    pub host: HostFacts,
}

/// One flow of a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRequest {
    /// The stream; its port on the client's side is the one already bound.
    pub spec: TestSpec,
    /// The best stamps wanted of the server.
    pub stamps: StampSource,
}

/// The server's grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Identifier under which the results are kept; `None` from classic servers.
    pub session: Option<SessionId>,
    /// In the order of the request.
    pub flows: Vec<FlowAccept>,
    /// Facts about the server, before the test.
    pub host: HostFacts,
}

/// One flow of an [`Accept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAccept {
    /// The server's port.
    pub port: u16,
    /// The token for greetings to that port; `None` in the classic dialect.
    pub token: Option<u64>,
}

/// A request for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Of the session with this identifier; `None` in the classic dialect: of this connection.
    pub session: Option<SessionId>,
    /// The flow.
    pub flow: FlowId,
    /// The first chunk, counted from 0.
    pub chunk: u32,
}

/// A bounded part of a flow's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The flow.
    pub flow: FlowId,
    /// Which chunk, from 0.
    pub index: u32,
    /// CRC-32 of the data as version 3 encodes it (`v3::checksum`); checked when decoding. 0 in the classic dialect.
    pub crc: u32,
    /// The data.
    pub data: ChunkData,
}

/// The two kinds of results.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkData {
    /// What the server received: 1024 records a chunk, the last one possibly fewer.
    Records(Vec<PacketRecord>),
    /// When the server's packets left, by sequence number, `i64::MIN` = unknown: 4096 stamps per chunk, the last chunk
    /// may have fewer. With when each entered the queue of its interface, or nothing if no entry is known.
    Stamps(StampSource, Vec<i64>, Vec<i64>),
}

/// The end of a flow's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// The flow.
    pub flow: FlowId,
    /// Number of chunks of the flow.
    pub chunks: u32,
    /// Number of records or stamps.
    pub count: u64,
    /// CRC-32 over the CRC-32s (big-endian) of the chunks sent in answer to this fetch.
    pub crc: u32,
    /// Packets that the server sent; `None` if it was the receiver.
    pub sent: Option<u32>,
    /// Of those, refused by its system.
    pub failed: u32,
    /// Datagrams that its kernel dropped because a buffer was full; `None` if unknown.
    pub drops: Option<u64>,
    /// Packets it did not keep because the recording was full.
    pub refused: u64,
    /// Packets it sent whose stamp of departure was asked for and never came; `None` if none were asked for, or unknown.
    pub stamps_lost: Option<u32>,
    /// The longest time for which it left arrived packets in the socket on purpose; `None` if it did not, or unknown.
    pub pause: Option<Span>,
    /// Why its reception ended; `None` if it was the sender.
    pub finish: Option<Finish>,
    /// Why the flow failed; `None` if it did not.
    pub failure: Option<String>,
    /// Facts about the server, after the test.
    pub host: HostFacts,
}

impl Results {
    /// Empty results of `flow`.
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
            pause: None,
            finish: None,
            failure: None,
            host: HostFacts::default(),
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nak {
    /// The reason, for programs.
    pub code: NakCode,
    /// The reason, for people, with the limit and its value if that is the reason.
    pub text: String,
}

impl Nak {
    /// A refusal.
    pub fn new(code: NakCode, text: impl Into<String>) -> Nak {
        Nak { code, text: text.into() }
    }
}

/// The reasons for a [`Nak`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// No reason, or one that this version does not know.
    Other,
    /// An invalid message, or one that is not allowed in this state.
    Malformed,
    /// No common version.
    Version,
    /// Authentication is required, or has failed.
    Authentication,
    /// The request is invalid.
    Invalid,
    /// A limit forbids it.
    Limit,
    /// The server is full.
    Busy,
    /// No such results, or no longer.
    NotFound,
    /// The server failed.
    Failed,
    /// The other side timed out.
    Timeout,
    /// The user, or the server's administrator, stopped it.
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

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The reason with this number; unknown numbers are [`NakCode::Other`].
    pub fn from_number(number: u16) -> NakCode {
        NakCode::CODES.get(usize::from(number)).copied().unwrap_or(NakCode::Other)
    }
}

/// Why received bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The connection does not begin as a jitlat conversation does.
    #[error("not a jitlat control connection (it begins with {})", hex(.0))]
    Preface([u8; 4]),
    /// The peer answered in the other dialect.
    #[error("the peer speaks only classic workorders")]
    ClassicPeer,
    /// A frame longer than the protocol allows, or without a type.
    #[error("a frame of {0} bytes (1 to {max} are allowed)", max = super::v3::frame::MAX_FRAME)]
    FrameLength(u32),
    /// A field is missing or has the wrong length or value.
    #[error("{0} message: bad or missing {1}")]
    Field(&'static str, &'static str),
    /// A workorder's command is none of 1…7, or came from the wrong side.
    #[error("workorder command {0} is not valid here")]
    Command(u32),
    /// What is requested is impossible.
    #[error("{0}")]
    Invalid(String),
    /// A chunk's checksum is wrong.
    #[error("checksum of chunk {0} is wrong")]
    Checksum(u32),
    /// A frame's seal is wrong.
    #[error("a message is not authentic: its seal is wrong")]
    Seal,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl DecodeError {
    /// The refusal that answers such bytes.
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
