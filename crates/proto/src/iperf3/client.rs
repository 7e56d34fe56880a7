//! [`Iperf3Client`]: the client's side of the control connection.

use super::COOKIE_LEN;
use super::messages::{self, Iperf3Params, Iperf3State, ServerStream, StreamBytes};

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Iperf3Event {
    /// Open this number of connections to the same port, one after another, each beginning with the cookie.
    Connect(usize),
    /// Data may flow.
    Run,
    /// The conversation is over; results of the connections at the server, in their order.
    Done(Vec<ServerStream>),
}

/// Reason why a conversation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Iperf3Error {
    /// The server serves another client.
    #[error("the iperf3 server serves another client at the moment: it takes one at a time, try again later")]
    Busy,
    /// The server reports a failure.
    #[error(
        "the iperf3 server refuses the test (error {code}): see its own output, or `iperf3 --client` for the meaning"
    )]
    Refused {
        /// Number of iperf3's error.
        code: i32,
    },
    /// The server ended the test.
    #[error("the iperf3 server ended the test")]
    Terminated,
    /// The peer does not speak iperf3's protocol.
    #[error("not an iperf3 server, or of an unknown version: unexpected {what}")]
    Unexpected {
        /// Description of the message.
        what: String,
    },
}

/// Phase of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientPhase {
    /// The cookie was sent.
    Greeting,
    /// The parameters were sent.
    Parameters,
    /// The connections are being opened.
    Connecting,
    /// The server has accepted the connections.
    Starting,
    Running,
    /// The end was sent.
    Ending,
    /// The client's results were sent.
    Results,
    /// The server's results were received.
    Showing,
    Done,
    /// A failure of the server, whose number follows.
    Failing,
}

/// Largest JSON that is accepted from a server: it contains a few hundred bytes for each connection.
const MAX_JSON: usize = 1 << 20;

/// The client's side of a test on the control connection. Bytes from the server go in; events, and bytes to send
/// ([`Iperf3Client::output`]), come out.
#[derive(Debug)]
pub struct Iperf3Client {
    params: Iperf3Params,
    phase: ClientPhase,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of each connection, for the results.
    bytes: Vec<u64>,
    results: Vec<ServerStream>,
}

impl Iperf3Client {
    /// Begins a test on a new connection to the server's [port](super::PORT).
    pub fn new(params: Iperf3Params, cookie: [u8; COOKIE_LEN]) -> Iperf3Client {
        let bytes = vec![0; params.streams()];
        Iperf3Client {
            params,
            phase: ClientPhase::Greeting,
            input: Vec::new(),
            output: cookie.to_vec(),
            bytes,
            results: Vec::new(),
        }
    }

    /// Returns the bytes to send, and forgets them.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Ends the test. `bytes`: sent or received on each connection. Without effect unless data flows.
    pub fn end(&mut self, bytes: &StreamBytes) {
        if self.phase == ClientPhase::Running {
            self.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            self.output.push(Iperf3State::TestEnd.byte());
            self.phase = ClientPhase::Ending;
        }
    }

    /// Returns true if data may flow.
    pub fn runs(&self) -> bool {
        self.phase == ClientPhase::Running
    }

    /// Takes bytes from the server.
    ///
    /// # Errors
    /// [`Iperf3Error`]; the connection is then of no use.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Iperf3Event>, Iperf3Error> {
        self.input.extend_from_slice(bytes);
        let mut events = Vec::new();
        while self.step(&mut events)? {}
        Ok(events)
    }

    /// Processes one message; returns false if it is not complete.
    fn step(&mut self, events: &mut Vec<Iperf3Event>) -> Result<bool, Iperf3Error> {
        match self.phase {
            ClientPhase::Results => return self.take_results(),
            ClientPhase::Failing => {
                let Some(code) = self.take::<8>() else { return Ok(false) };
                let code = i32::from_be_bytes([code[0], code[1], code[2], code[3]]);
                return Err(Iperf3Error::Refused { code });
            }
            _ => {}
        }
        let Some([byte]) = self.take::<1>() else { return Ok(false) };
        let state = Iperf3State::of(byte);
        self.phase = match (self.phase, state) {
            (ClientPhase::Greeting, Some(Iperf3State::AccessDenied)) => return Err(Iperf3Error::Busy),
            (_, Some(Iperf3State::ServerError)) => ClientPhase::Failing,
            (_, Some(Iperf3State::ServerTerminate)) => return Err(Iperf3Error::Terminated),
            (ClientPhase::Greeting, Some(Iperf3State::ParamExchange)) => {
                self.output.extend(self.params.message());
                ClientPhase::Parameters
            }
            (ClientPhase::Parameters, Some(Iperf3State::CreateStreams)) => {
                events.push(Iperf3Event::Connect(self.params.streams()));
                ClientPhase::Connecting
            }
            (ClientPhase::Connecting, Some(Iperf3State::TestStart)) => ClientPhase::Starting,
            (ClientPhase::Starting, Some(Iperf3State::TestRunning)) => {
                events.push(Iperf3Event::Run);
                ClientPhase::Running
            }
            (ClientPhase::Ending, Some(Iperf3State::ExchangeResults)) => {
                self.output.extend(messages::results(&self.bytes));
                ClientPhase::Results
            }
            (ClientPhase::Showing, Some(Iperf3State::DisplayResults)) => {
                self.output.push(Iperf3State::Done.byte());
                events.push(Iperf3Event::Done(std::mem::take(&mut self.results)));
                ClientPhase::Done
            }
            (phase, Some(state)) => return Err(unexpected(format!("state {state:?} while {phase:?}"))),
            (_, None) => return Err(unexpected(format!("byte {byte}"))),
        };
        Ok(true)
    }

    fn take_results(&mut self) -> Result<bool, Iperf3Error> {
        let Some(length) = self.input.first_chunk::<4>() else { return Ok(false) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_JSON {
            return Err(unexpected(format!("results of {length} bytes")));
        }
        let Some(json) = self.input.get(4..4 + length) else { return Ok(false) };
        let results = messages::server_results(json).filter(|r| r.len() == self.params.streams());
        self.results = results.ok_or_else(|| unexpected("results".to_owned()))?;
        self.input.drain(..4 + length);
        self.phase = ClientPhase::Showing;
        Ok(true)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.input.first_chunk::<N>()?;
        self.input.drain(..N);
        Some(taken)
    }
}

fn unexpected(what: String) -> Iperf3Error {
    Iperf3Error::Unexpected { what }
}
