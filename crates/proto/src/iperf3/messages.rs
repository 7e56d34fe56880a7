//! Messages of the control connection: states of one byte, and JSON after its length.

use jitlat_core::{Direction, Dscp};
use serde::{Deserialize, Serialize};

/// State that either side announces with one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Iperf3State {
    /// The server has accepted all connections.
    TestStart = 1,
    /// Data flows.
    TestRunning = 2,
    /// The client ends the test.
    TestEnd = 4,
    /// The server waits for the parameters.
    ParamExchange = 9,
    /// The server waits for the connections.
    CreateStreams = 10,
    /// The server ends the test.
    ServerTerminate = 11,
    /// The client gives up.
    ClientTerminate = 12,
    /// Both sides send their results, the client first.
    ExchangeResults = 13,
    /// Both sides have the results.
    DisplayResults = 14,
    /// The conversation is over.
    Done = 16,
    /// The server serves another client.
    AccessDenied = -1,
    /// The server failed; two numbers follow.
    ServerError = -2,
}

impl Iperf3State {
    const ALL: [Iperf3State; 12] = [
        Iperf3State::TestStart,
        Iperf3State::TestRunning,
        Iperf3State::TestEnd,
        Iperf3State::ParamExchange,
        Iperf3State::CreateStreams,
        Iperf3State::ServerTerminate,
        Iperf3State::ClientTerminate,
        Iperf3State::ExchangeResults,
        Iperf3State::DisplayResults,
        Iperf3State::Done,
        Iperf3State::AccessDenied,
        Iperf3State::ServerError,
    ];

    /// Returns the state of a byte; `None` if it is not one of a client that sends no other requests.
    pub fn of(byte: u8) -> Option<Iperf3State> {
        Iperf3State::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Returns the byte on the connection.
    pub fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Requested test. Each direction has `parallel` connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Iperf3Params {
    /// Directions: one or both.
    pub directions: Vec<Direction>,
    /// Connections in each direction.
    pub parallel: usize,
    /// Time after which the server ends the test, in seconds.
    pub seconds: u64,
    /// Rate of each connection in bit/s; `None`: as fast as possible.
    pub rate: Option<u64>,
    /// Bytes that the sender writes at a time.
    pub block: u32,
    /// DSCP of the packets.
    pub dscp: Dscp,
}

#[derive(Serialize)]
struct ParamsJson<'a> {
    tcp: bool,
    omit: u32,
    time: u64,
    num: u32,
    blockcount: u32,
    parallel: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reverse: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bidirectional: Option<bool>,
    len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<u64>,
    pacing_timer: u32,
    #[serde(rename = "TOS", skip_serializing_if = "Option::is_none")]
    tos: Option<u8>,
    client_version: &'a str,
}

impl Iperf3Params {
    /// Returns the number of connections in all directions.
    pub fn streams(&self) -> usize {
        self.parallel * self.directions.len()
    }

    /// Returns the direction of a connection, by its order: the server takes the first ones as those that it receives.
    pub fn direction(&self, index: usize) -> Direction {
        match self.directions[..] {
            [one] => one,
            _ if index < self.parallel => Direction::Up,
            _ => Direction::Down,
        }
    }

    /// Returns the message, with its length.
    pub(super) fn message(&self) -> Vec<u8> {
        let set = |is: bool| is.then_some(true);
        let params = ParamsJson {
            tcp: true,
            omit: 0,
            time: self.seconds,
            num: 0,
            blockcount: 0,
            parallel: self.parallel,
            reverse: set(self.directions == [Direction::Down]),
            bidirectional: set(self.directions.len() > 1),
            len: self.block,
            bandwidth: self.rate,
            pacing_timer: 1000,
            tos: Some(self.dscp.octet()).filter(|tos| *tos != 0),
            client_version: concat!("jitlat ", env!("CARGO_PKG_VERSION")),
        };
        framed(&params)
    }
}

/// Bytes that this host sent or received on each connection, in the order of the connections.
pub type StreamBytes = [u64];

#[derive(Serialize)]
struct ResultsJson {
    cpu_util_total: f64,
    cpu_util_user: f64,
    cpu_util_system: f64,
    sender_has_retransmits: i32,
    streams: Vec<StreamJson>,
}

#[derive(Serialize)]
struct StreamJson {
    id: usize,
    bytes: u64,
    retransmits: i64,
    jitter: f64,
    errors: u64,
    packets: u64,
}

/// Result of a connection at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ServerStream {
    /// Bytes that the server received or sent.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct ServerResultsJson {
    streams: Vec<ServerStream>,
}

/// Returns the client's results as message.
pub(super) fn results(bytes: &StreamBytes) -> Vec<u8> {
    let stream = |(k, bytes): (usize, &u64)| StreamJson {
        // iperf3 numbers connections 1, 3, 4, 5 and so on.
        id: if k == 0 { 1 } else { k + 2 },
        bytes: *bytes,
        retransmits: -1,
        jitter: 0.0,
        errors: 0,
        packets: 0,
    };
    framed(&ResultsJson {
        cpu_util_total: 0.0,
        cpu_util_user: 0.0,
        cpu_util_system: 0.0,
        sender_has_retransmits: -1,
        streams: bytes.iter().enumerate().map(stream).collect(),
    })
}

/// Parses the server's results.
pub(super) fn server_results(json: &[u8]) -> Option<Vec<ServerStream>> {
    serde_json::from_slice::<ServerResultsJson>(json).ok().map(|results| results.streams)
}

fn framed(value: &impl Serialize) -> Vec<u8> {
    // These types contain no maps with keys that are not text, so they always have a JSON form.
    let json = serde_json::to_vec(value).unwrap_or_default();
    let mut message = (json.len() as u32).to_be_bytes().to_vec();
    message.extend(json);
    message
}
