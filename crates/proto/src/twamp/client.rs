//! The control client (RFC 5357 §3): negotiates a mode, requests sessions, starts and stops them.

use crate::amp::connection::ConnectRequest;
use crate::amp::message::{
    AcceptCode, AcceptSession, RequestSession, SHORT_LEN, command, write_start, write_stop,
};
use crate::amp::setup::SetUp;
use crate::amp::{AmpConnection, SecurityMode, Sid, TestKeys};
pub use crate::amp::{AmpFailure, AmpStep};
use crate::machine::{Machine, Tick};
use crate::twamp::sender::layout;
use core::net::IpAddr;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Dscp, Span, SteadyTime};
use std::collections::VecDeque;

/// Specification of a session to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwampSessionSpec {
    /// Port from which the test packets are sent.
    pub sender_port: u16,
    /// Requested port of the reflector, which may accept the session on another port.
    pub receiver_port: u16,
    /// Addresses of sender and reflector. Unspecified addresses mean those of the control connection, which
    /// also works with address translation.
    pub addresses: (IpAddr, IpAddr),
    /// Length of a request in bytes. Many servers refuse requests that are shorter than answers; see
    /// [`least_size`](crate::twamp::sender::least_size).
    pub size: usize,
    /// DSCP of the packets in both directions.
    pub dscp: Dscp,
    /// Time for which late packets are answered after the stop.
    pub timeout: Span,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct TwampOptions {
    /// Security mode; `None`: the strongest that both sides support. With a passphrase: encrypted, authenticated or
    /// mixed, in this order. Without a passphrase: open.
    pub mode: Option<SecurityMode>,
    /// Name and passphrase for the keyed modes; `None`: no user.
    pub user: Option<(String, Vec<u8>)>,
    /// Sessions to request on one connection.
    pub sessions: Vec<TwampSessionSpec>,
    /// Timeout for the server to complete each step.
    pub step_timeout: Span,
    /// Random bytes for the keys of the connection.
    pub random: [u8; 64],
}

impl TwampOptions {
    fn wanted(&self) -> ConnectRequest<'_> {
        ConnectRequest {
            mode: self.mode,
            keyed: &[SecurityMode::Encrypted, SecurityMode::Authenticated, SecurityMode::Mixed],
            user: self.user.as_ref(),
            random: &self.random,
        }
    }
}

/// Input of a client.
#[derive(Clone, Copy, Debug)]
pub enum TwampClientInput<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection was closed.
    Closed,
    /// Start the test. Accepted once the server has accepted all sessions.
    Start,
    /// End the test.
    Stop,
}

/// A session that the server has accepted.
#[derive(Clone, Debug)]
pub struct TwampGrant {
    /// Index of the session in the request.
    pub index: usize,
    /// Port to which the packets are sent.
    pub port: u16,
    /// Identifier of the session.
    pub sid: Sid,
    /// Keys of the session; `None` if the mode does not protect test packets.
    pub keys: Option<TestKeys>,
}

/// Report of a client.
#[derive(Clone, Debug)]
pub enum TwampClientEvent {
    /// The connection was set up in this mode.
    Mode(SecurityMode),
    /// A session was accepted.
    Granted(TwampGrant),
    /// All sessions were accepted. [`TwampClientInput::Start`] starts the test.
    Ready,
    /// The test has started: packets are answered.
    Started,
    /// The conversation ended normally; the connection may be closed.
    Over,
    /// The conversation failed; the connection must be closed.
    Failed(AmpFailure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TwampClientState {
    At(AmpStep),
    Over,
}

/// Client of one control connection.
#[derive(Debug)]
pub struct Client {
    config: TwampOptions,
    state: TwampClientState,
    deadline: SteadyTime,
    connection: AmpConnection,
    set_up: Option<SetUp>,
    /// Number of requests sent.
    asked: usize,
    /// Number of sessions accepted.
    granted: usize,
    say_start: bool,
    say_stop: bool,
    events: VecDeque<TwampClientEvent>,
}

/// Maximum duration of a test. The client does not determine the duration, but a conversation without events
/// must have a limit.
const MAX_DURATION: Span = Span::seconds(32 * 86_400);

impl Client {
    /// Creates a client whose connection was established at `now`.
    pub fn new(config: TwampOptions, now: Tick) -> Client {
        Client {
            deadline: now.steady + config.step_timeout,
            config,
            state: TwampClientState::At(AmpStep::Greeting),
            connection: AmpConnection::default(),
            set_up: None,
            asked: 0,
            granted: 0,
            say_start: false,
            say_stop: false,
            events: VecDeque::new(),
        }
    }

    fn at(&mut self, step: AmpStep, now: Tick) {
        self.state = TwampClientState::At(step);
        let step_timeout = match step {
            AmpStep::Granted | AmpStep::Running => MAX_DURATION,
            _ => self.config.step_timeout,
        };
        self.deadline = now.steady + step_timeout;
    }

    fn fail(&mut self, failure: AmpFailure) {
        self.state = TwampClientState::Over;
        self.events.push_back(TwampClientEvent::Failed(failure));
    }

    /// Reads one message; returns `Ok(false)` if the message is not complete yet.
    fn advance(&mut self, step: AmpStep, now: Tick) -> Result<bool, AmpFailure> {
        match step {
            AmpStep::Greeting => {
                self.set_up = self.connection.read_greeting(&self.config.wanted())?;
                if self.set_up.is_none() {
                    return Ok(false);
                }
                self.at(AmpStep::SetUp, now);
            }
            AmpStep::SetUp => {
                if !self.connection.read_server_start()? {
                    return Ok(false);
                }
                self.events.push_back(TwampClientEvent::Mode(self.connection.mode()));
                self.at(AmpStep::Request, now);
            }
            AmpStep::Request => {
                let Some(message) = self.connection.incoming.take_signed(AcceptSession::LEN) else {
                    return Ok(false);
                };
                let bytes = message.map_err(|_| AmpFailure::Forged(step))?;
                let answer = AcceptSession::parse(&bytes).map_err(|_| AmpFailure::Unexpected(step))?;
                if self.granted >= self.asked {
                    return Err(AmpFailure::Unexpected(step));
                }
                self.grant(&answer)?;
                let next = if self.granted == self.config.sessions.len() {
                    self.events.push_back(TwampClientEvent::Ready);
                    AmpStep::Granted
                } else {
                    AmpStep::Request
                };
                self.at(next, now);
            }
            AmpStep::Start => {
                let Some(message) = self.connection.incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| AmpFailure::Forged(step))?;
                let accept = bytes.first().map_or(AcceptCode::Failure, |b| AcceptCode::from(*b));
                if accept != AcceptCode::Ok {
                    return Err(AmpFailure::Refused { step, accept });
                }
                self.events.push_back(TwampClientEvent::Started);
                self.at(AmpStep::Running, now);
            }
            AmpStep::Granted | AmpStep::Running | AmpStep::Stop | AmpStep::Fetch => {
                if self.connection.incoming.is_empty() {
                    return Ok(false);
                }
                return Err(AmpFailure::Unexpected(step));
            }
        }
        Ok(true)
    }

    fn grant(&mut self, answer: &AcceptSession) -> Result<(), AmpFailure> {
        match answer.accept {
            AcceptCode::Ok if answer.port == 0 => return Err(AmpFailure::NoPort),
            AcceptCode::Ok => {}
            accept => return Err(AmpFailure::Refused { step: AmpStep::Request, accept }),
        }
        let keys = self.connection.test_keys(&answer.sid);
        let granted = TwampGrant { index: self.granted, port: answer.port, sid: answer.sid, keys };
        self.events.push_back(TwampClientEvent::Granted(granted));
        self.granted += 1;
        Ok(())
    }

    fn request(&self, spec: &TwampSessionSpec, now: Tick) -> RequestSession {
        let (sender, receiver) = spec.addresses;
        RequestSession {
            version: if receiver.is_ipv6() { 6 } else { 4 },
            command: command::REQUEST_TW_SESSION,
            conf_sender: 0,
            conf_receiver: 0,
            slots: 0,
            packets: 0,
            sender_port: spec.sender_port,
            receiver_port: spec.receiver_port,
            sender,
            receiver,
            sid: Sid::NONE,
            padding: spec.size.saturating_sub(layout(self.connection.mode()).shortest_request()) as u32,
            // Some servers delay a session until this time on their own clock, so it must not be in the
            // future.
            start: NtpTime::from(now.wall),
            timeout: NtpTime::from_span(spec.timeout),
            type_p: u32::from(spec.dscp.value()) << 24,
        }
    }
}

impl Machine for Client {
    type Input<'a> = TwampClientInput<'a>;
    type Event = TwampClientEvent;

    fn handle(&mut self, now: Tick, input: TwampClientInput<'_>) {
        let TwampClientState::At(step) = self.state else { return };
        match input {
            TwampClientInput::Bytes(bytes) => self.connection.incoming.feed(bytes),
            TwampClientInput::Closed => return self.fail(AmpFailure::Closed(step)),
            TwampClientInput::Start if step == AmpStep::Granted => {
                self.say_start = true;
                self.at(AmpStep::Start, now);
            }
            TwampClientInput::Stop if step == AmpStep::Running => self.say_stop = true,
            TwampClientInput::Start => {}
            // No session is running, so there is nothing to send.
            TwampClientInput::Stop => {
                self.state = TwampClientState::Over;
                self.events.push_back(TwampClientEvent::Over);
            }
        }
        while let TwampClientState::At(step) = self.state {
            match self.advance(step, now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => self.fail(failure),
            }
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if let TwampClientState::At(step) = self.state
            && now.steady >= self.deadline
        {
            self.fail(AmpFailure::Silent(step));
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let TwampClientState::At(step) = self.state else { return false };
        if let Some(set_up) = self.set_up.take() {
            set_up.write(out);
            return true;
        }
        let mut message = Vec::with_capacity(RequestSession::LEN);
        match step {
            // One request at a time, because some servers read only one.
            AmpStep::Request if self.asked == self.granted => {
                let Some(spec) = self.config.sessions.get(self.asked) else { return false };
                self.request(spec, now).write(&mut message);
                self.asked += 1;
            }
            AmpStep::Start if self.say_start => {
                self.say_start = false;
                write_start(&mut message);
            }
            AmpStep::Running if self.say_stop => {
                write_stop(AcceptCode::Ok, self.granted as u32, &mut message);
                self.state = TwampClientState::Over;
                self.events.push_back(TwampClientEvent::Over);
            }
            _ => return false,
        }
        self.connection.outgoing.put_signed(&message, out);
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (self.state != TwampClientState::Over).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<TwampClientEvent> {
        self.events.pop_front()
    }
}
