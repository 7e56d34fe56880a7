//! The control server (RFC 5357 §3): accepts test sessions, starts and stops them, within limits.

use crate::amp::connection::Admission;
use crate::amp::crypto::BLOCK;
use crate::amp::message::{
    AcceptCode, AcceptSession, RequestSession, SHORT_LEN, Sid, command, parse_stop, write_start_ack,
};
use crate::amp::{AmpConnection, SecurityMode, SecurityModes, TestKeys, Users};
pub use crate::amp::{AmpEndReason, ServerRandom};
use crate::machine::{Machine, Tick};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Span, SteadyTime, WallTime};
use std::collections::VecDeque;

/// Limits of a server, and its users.
#[derive(Clone, Debug)]
pub struct TwampRules {
    /// Users for the keyed modes. If there are any, open mode is not offered.
    pub users: Users,
    /// Rounds of key derivation: a power of two, at least 1024.
    pub rounds: u32,
    /// Maximum number of sessions per connection.
    pub sessions: usize,
    /// Maximum padding, in bytes.
    pub padding: u32,
    /// Timeout for a client to complete the set-up.
    pub set_up_wait: Span,
    /// Time for which a connection may be idle while no test is running (SERVWAIT).
    pub idle: Span,
    /// Maximum time without a packet in a running test (REFWAIT).
    pub silence: Span,
    /// Maximum time for which late packets are answered, even if the client requests more.
    pub linger: Span,
}

impl Default for TwampRules {
    fn default() -> TwampRules {
        TwampRules {
            users: Users::default(),
            rounds: 2048,
            sessions: 16,
            // The longest datagram, minus the fields of an answer in the keyed modes.
            padding: 65_507 - 112,
            set_up_wait: Span::seconds(30),
            idle: Span::seconds(900),
            silence: Span::seconds(900),
            linger: Span::seconds(10),
        }
    }
}

impl TwampRules {
    /// Returns the offered modes.
    pub fn modes(&self) -> SecurityModes {
        if self.users.is_empty() {
            SecurityModes::of(&[SecurityMode::Open])
        } else {
            SecurityModes::of(&[SecurityMode::Authenticated, SecurityMode::Encrypted, SecurityMode::Mixed])
        }
    }

    fn entry<'a>(&'a self, random: &'a ServerRandom, started: NtpTime) -> Admission<'a> {
        Admission { modes: self.modes(), users: &self.users, rounds: self.rounds, random, started }
    }
}

/// A requested session for which the driver must open a socket.
#[derive(Clone, Debug)]
pub struct TwampOpenRequest {
    /// Source port of the packets; `None` if the client is behind address translation or does not know the
    /// port. The source port of the first packet is used then.
    pub sender_port: Option<u16>,
    /// Port requested by the client; 0: any.
    pub port: u16,
    /// Identifier of the session.
    pub sid: Sid,
    /// Mode of the connection.
    pub mode: SecurityMode,
    /// Keys of the packets; `None` if the mode does not protect them.
    pub keys: Option<TestKeys>,
    /// Length of a request, in bytes.
    pub request_len: usize,
    /// DSCP of the answers.
    pub dscp: u8,
    /// Time for which late packets are answered after the stop.
    pub linger: Span,
}

/// Input of a server.
#[derive(Clone, Copy, Debug)]
pub enum TwampServerInput<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection was closed.
    Closed,
    /// The socket requested by [`TwampServerEvent::Open`] is open on this port, or is not available.
    Opened(Result<u16, AcceptCode>),
    /// A packet of a session was answered.
    Reflected,
}

/// Request of a server to its driver.
#[derive(Clone, Debug)]
pub enum TwampServerEvent {
    /// Open a socket. Must be answered by [`TwampServerInput::Opened`] before any other input.
    Open(TwampOpenRequest),
    /// Begin to answer packets of all sessions.
    Start,
    /// Stop answering: each session after its [`linger`](TwampOpenRequest::linger).
    Stop,
    /// The conversation is over: close the sessions, and close the connection once everything has been
    /// written.
    Over(AmpEndReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TwampServerState {
    /// Sending the greeting, or waiting for the response.
    SetUp,
    /// Between tests.
    Idle,
    /// Waiting for the driver to open a socket for this session.
    Opening(Sid),
    /// A test is running.
    Running,
    Over,
}

/// Server of one control connection.
#[derive(Debug)]
pub struct Server {
    rules: TwampRules,
    random: ServerRandom,
    peer: IpAddr,
    local: IpAddr,
    started: NtpTime,
    state: TwampServerState,
    deadline: SteadyTime,
    connection: AmpConnection,
    /// Encrypted messages, in the order in which they must be written.
    queued: VecDeque<Vec<u8>>,
    sessions: usize,
    named: u32,
    events: VecDeque<TwampServerEvent>,
}

impl Server {
    /// Creates a server for the connection from `peer` to `local`, which was accepted at `now`. The server
    /// program was started at `started`.
    pub fn new(
        rules: TwampRules,
        peer: SocketAddr,
        local: SocketAddr,
        started: WallTime,
        random: ServerRandom,
        now: Tick,
    ) -> Server {
        let started = NtpTime::from(started);
        let greeting = AmpConnection::greeting(&rules.entry(&random, started));
        Server {
            deadline: now.steady + rules.set_up_wait,
            rules,
            random,
            peer: peer.ip().to_canonical(),
            local: local.ip().to_canonical(),
            started,
            state: TwampServerState::SetUp,
            connection: AmpConnection::default(),
            queued: VecDeque::from([greeting]),
            sessions: 0,
            named: 0,
            events: VecDeque::new(),
        }
    }

    fn over(&mut self, reason: AmpEndReason) {
        if self.state == TwampServerState::Running {
            self.events.push_back(TwampServerEvent::Stop);
        }
        self.state = TwampServerState::Over;
        self.events.push_back(TwampServerEvent::Over(reason));
    }

    fn send_signed(&mut self, message: &[u8]) {
        let mut bytes = Vec::with_capacity(message.len() + BLOCK);
        self.connection.outgoing.put_signed(message, &mut bytes);
        self.queued.push_back(bytes);
    }

    /// Reads one message; returns `Ok(false)` if the message is not complete yet.
    fn advance(&mut self, now: Tick) -> Result<bool, AmpEndReason> {
        match self.state {
            TwampServerState::SetUp => {
                let mut answer = Vec::new();
                let entry = self.rules.entry(&self.random, self.started);
                let let_in = self.connection.read_set_up(&entry, &mut answer);
                if !answer.is_empty() {
                    self.queued.push_back(answer);
                }
                if !let_in? {
                    return Ok(false);
                }
                self.state = TwampServerState::Idle;
                self.deadline = now.steady + self.rules.idle;
                Ok(true)
            }
            TwampServerState::Idle | TwampServerState::Running => self.command(now),
            TwampServerState::Opening(_) | TwampServerState::Over => Ok(false),
        }
    }

    fn command(&mut self, now: Tick) -> Result<bool, AmpEndReason> {
        let Some(number) = self.connection.incoming.first() else { return Ok(false) };
        let running = self.state == TwampServerState::Running;
        let len = match (number, running) {
            (command::REQUEST_TW_SESSION, false) => RequestSession::LEN,
            (command::START, false) | (command::STOP, true) => SHORT_LEN,
            _ => {
                // The length of the rest is unknown, so the conversation cannot continue.
                let mut refusal = Vec::new();
                write_start_ack(AcceptCode::Unsupported, &mut refusal);
                self.send_signed(&refusal);
                return Err(AmpEndReason::Confused);
            }
        };
        let Some(message) = self.connection.incoming.take_signed(len) else { return Ok(false) };
        let bytes = message.map_err(|_| AmpEndReason::Forged)?;
        match number {
            command::REQUEST_TW_SESSION => {
                let asked = RequestSession::parse(&bytes).map_err(|_| AmpEndReason::Confused)?;
                self.requested(&asked, now);
            }
            command::START => {
                let mut ack = Vec::new();
                write_start_ack(AcceptCode::Ok, &mut ack);
                self.send_signed(&ack);
                self.state = TwampServerState::Running;
                self.events.push_back(TwampServerEvent::Start);
                self.deadline = now.steady + self.rules.silence;
            }
            _ => {
                let stopped = parse_stop(&bytes).map_err(|_| AmpEndReason::Confused)?;
                if stopped as usize != self.sessions {
                    return Err(AmpEndReason::Confused);
                }
                self.events.push_back(TwampServerEvent::Stop);
                self.sessions = 0;
                self.state = TwampServerState::Idle;
                self.deadline = now.steady + self.rules.idle;
            }
        }
        Ok(true)
    }

    fn requested(&mut self, asked: &RequestSession, now: Tick) {
        self.deadline = now.steady + self.rules.idle;
        match self.examine(asked) {
            Ok(sender_port) => {
                self.named = self.named.wrapping_add(1);
                let tail = u32::from_be_bytes(self.random.sid).wrapping_add(self.named).to_be_bytes();
                let sid = Sid::new(self.local, NtpTime::from(now.wall), tail);
                let fields = if self.connection.mode().protects_test() { 48 } else { 14 };
                self.events.push_back(TwampServerEvent::Open(TwampOpenRequest {
                    sender_port,
                    port: asked.receiver_port,
                    sid,
                    mode: self.connection.mode(),
                    keys: self.connection.test_keys(&sid),
                    request_len: fields + asked.padding as usize,
                    dscp: asked.dscp().unwrap_or(0),
                    linger: asked.timeout.to_span().clamp(Span::ZERO, self.rules.linger),
                }));
                self.state = TwampServerState::Opening(sid);
            }
            Err(accept) => self.refuse(accept),
        }
    }

    /// Returns the source port of the packets, if known, or the reason why the session is not accepted.
    fn examine(&self, asked: &RequestSession) -> Result<Option<u16>, AcceptCode> {
        let family = if self.peer.is_ipv6() { 6 } else { 4 };
        if (asked.conf_sender, asked.conf_receiver) != (0, 0)
            || asked.slots != 0
            || asked.dscp().is_none()
            || asked.version != family
        {
            return Err(AcceptCode::Unsupported);
        }
        if asked.padding > self.rules.padding || self.sessions >= self.rules.sessions {
            return Err(AcceptCode::Permanent);
        }
        match asked.sender {
            a if a.is_unspecified() => Ok(None),
            // A client must not request packets to a third host.
            a if a == self.peer && asked.sender_port != 0 => Ok(Some(asked.sender_port)),
            _ => Err(AcceptCode::Unsupported),
        }
    }

    fn refuse(&mut self, accept: AcceptCode) {
        let mut message = Vec::new();
        AcceptSession { accept, port: 0, sid: Sid::NONE }.write(&mut message);
        self.send_signed(&message);
    }
}

impl Machine for Server {
    type Input<'a> = TwampServerInput<'a>;
    type Event = TwampServerEvent;

    fn handle(&mut self, now: Tick, input: TwampServerInput<'_>) {
        if self.state == TwampServerState::Over {
            return;
        }
        match input {
            TwampServerInput::Bytes(bytes) => self.connection.incoming.feed(bytes),
            TwampServerInput::Closed => return self.over(AmpEndReason::Closed),
            TwampServerInput::Opened(opened) => {
                let TwampServerState::Opening(sid) = self.state else { return };
                self.state = TwampServerState::Idle;
                match opened {
                    Ok(port) => {
                        self.sessions += 1;
                        let mut message = Vec::new();
                        AcceptSession { accept: AcceptCode::Ok, port, sid }.write(&mut message);
                        self.send_signed(&message);
                    }
                    Err(accept) => self.refuse(accept),
                }
            }
            TwampServerInput::Reflected => {
                if self.state == TwampServerState::Running {
                    self.deadline = now.steady + self.rules.silence;
                }
            }
        }
        loop {
            match self.advance(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => {
                    self.over(reason);
                    break;
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if self.state != TwampServerState::Over && now.steady >= self.deadline {
            self.over(AmpEndReason::Silent);
        }
    }

    fn poll_transmit(&mut self, _now: Tick, out: &mut Vec<u8>) -> bool {
        match self.queued.pop_front() {
            Some(bytes) => {
                out.extend(bytes);
                true
            }
            None => false,
        }
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (self.state != TwampServerState::Over).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<TwampServerEvent> {
        self.events.pop_front()
    }
}
