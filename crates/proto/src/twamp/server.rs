//! The control server (RFC 5357 §3): grants test sessions, starts and stops them, within limits.

use crate::amp::connection::Entry;
use crate::amp::crypto::BLOCK;
use crate::amp::message::{
    Accept, AcceptSession, Request, SHORT_LEN, Sid, command, parse_stop, write_start_ack,
};
use crate::amp::{Connection, Mode, Modes, TestKeys, Users};
pub use crate::amp::{Random, Reason};
use crate::machine::{Machine, Tick};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Span, SteadyTime, WallTime};
use std::collections::VecDeque;

/// The limits of a server, and its users.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Users of the keyed modes. If there are any, the open mode is not offered.
    pub users: Users,
    /// Rounds of key derivation: a power of two, 1024 at least.
    pub rounds: u32,
    /// Sessions of one connection.
    pub sessions: usize,
    /// Most bytes of padding.
    pub padding: u32,
    /// How long a client may take for the set-up.
    pub set_up_wait: Span,
    /// How long a connection may be idle while no test runs (SERVWAIT).
    pub idle: Span,
    /// How long a test may be without a packet (REFWAIT).
    pub silence: Span,
    /// Longest time for which late packets are still answered, whatever the client requests.
    pub linger: Span,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            users: Users::default(),
            rounds: 2048,
            sessions: 16,
            padding: 65_507 - 112,
            set_up_wait: Span::seconds(30),
            idle: Span::seconds(900),
            silence: Span::seconds(900),
            linger: Span::seconds(10),
        }
    }
}

impl Rules {
    /// The modes offered.
    pub fn modes(&self) -> Modes {
        if self.users.is_empty() {
            Modes::of(&[Mode::Open])
        } else {
            Modes::of(&[Mode::Authenticated, Mode::Encrypted, Mode::Mixed])
        }
    }

    fn entry<'a>(&'a self, random: &'a Random, started: NtpTime) -> Entry<'a> {
        Entry { modes: self.modes(), users: &self.users, rounds: self.rounds, random, started }
    }
}

/// A session for which the driver must open a socket.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Source port of its packets; `None`: the client is behind address translation, or does not know its port, which
    /// is that of its first packet.
    pub sender_port: Option<u16>,
    /// Port that the client requests; 0 = any.
    pub port: u16,
    /// Name of the session.
    pub sid: Sid,
    /// Mode of the connection.
    pub mode: Mode,
    /// Keys of its packets, where the mode protects them.
    pub keys: Option<TestKeys>,
    /// Bytes of its requests.
    pub request_len: usize,
    /// Code point of its answers.
    pub dscp: u8,
    /// How long after the stop late packets are still answered.
    pub linger: Span,
}

/// An input of a server.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection is closed.
    Closed,
    /// The socket requested by [`Event::Open`] is open on this port, or is not available.
    Opened(Result<u16, Accept>),
    /// A packet of a session was answered.
    Reflected,
}

/// A request of a server to its driver.
#[derive(Clone, Debug)]
pub enum Event {
    /// Open a socket; answer with [`Input::Opened`] before anything else.
    Open(Asked),
    /// Answer packets of all sessions from now on.
    Start,
    /// Stop answering, each session after its [`linger`](Asked::linger).
    Stop,
    /// Nothing more will be sent: close the connection once everything is written, and the sessions.
    Over(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControlState {
    /// The greeting is to be sent, or its answer awaited.
    SetUp,
    /// Between tests.
    Idle,
    /// The driver opens a socket for this session.
    Opening(Sid),
    /// A test runs.
    Running,
    Over,
}

/// One control conversation.
#[derive(Debug)]
pub struct Server {
    rules: Rules,
    random: Random,
    peer: IpAddr,
    local: IpAddr,
    started: NtpTime,
    state: ControlState,
    deadline: SteadyTime,
    connection: Connection,
    /// Already encrypted, in the order they are to be written.
    saying: VecDeque<Vec<u8>>,
    sessions: usize,
    named: u32,
    events: VecDeque<Event>,
}

impl Server {
    /// A server for the connection from `peer` to `local`, accepted at `now`, on a host that serves since `started`.
    pub fn new(
        rules: Rules,
        peer: SocketAddr,
        local: SocketAddr,
        started: WallTime,
        random: Random,
        now: Tick,
    ) -> Server {
        let started = NtpTime::from(started);
        let greeting = Connection::greeting(&rules.entry(&random, started));
        Server {
            deadline: now.steady + rules.set_up_wait,
            rules,
            random,
            peer: peer.ip().to_canonical(),
            local: local.ip().to_canonical(),
            started,
            state: ControlState::SetUp,
            connection: Connection::default(),
            saying: VecDeque::from([greeting]),
            sessions: 0,
            named: 0,
            events: VecDeque::new(),
        }
    }

    fn over(&mut self, reason: Reason) {
        if self.state == ControlState::Running {
            self.events.push_back(Event::Stop);
        }
        self.state = ControlState::Over;
        self.events.push_back(Event::Over(reason));
    }

    fn say_signed(&mut self, message: &[u8]) {
        let mut bytes = Vec::with_capacity(message.len() + BLOCK);
        self.connection.outgoing.put_signed(message, &mut bytes);
        self.saying.push_back(bytes);
    }

    /// Reads one message, if it is complete. `Ok(false)`: not yet.
    fn advance(&mut self, now: Tick) -> Result<bool, Reason> {
        match self.state {
            ControlState::SetUp => {
                let mut answer = Vec::new();
                let entry = self.rules.entry(&self.random, self.started);
                let let_in = self.connection.read_set_up(&entry, &mut answer);
                if !answer.is_empty() {
                    self.saying.push_back(answer);
                }
                if !let_in? {
                    return Ok(false);
                }
                self.state = ControlState::Idle;
                self.deadline = now.steady + self.rules.idle;
                Ok(true)
            }
            ControlState::Idle | ControlState::Running => self.command(now),
            ControlState::Opening(_) | ControlState::Over => Ok(false),
        }
    }

    fn command(&mut self, now: Tick) -> Result<bool, Reason> {
        let Some(number) = self.connection.incoming.first() else { return Ok(false) };
        let running = self.state == ControlState::Running;
        let len = match (number, running) {
            (command::REQUEST_TW_SESSION, false) => Request::LEN,
            (command::START, false) | (command::STOP, true) => SHORT_LEN,
            _ => {
                // The length of what follows is unknown: the conversation cannot continue.
                let mut refusal = Vec::new();
                write_start_ack(Accept::Unsupported, &mut refusal);
                self.say_signed(&refusal);
                return Err(Reason::Confused);
            }
        };
        let Some(message) = self.connection.incoming.take_signed(len) else { return Ok(false) };
        let bytes = message.map_err(|_| Reason::Forged)?;
        match number {
            command::REQUEST_TW_SESSION => {
                let asked = Request::parse(&bytes).map_err(|_| Reason::Confused)?;
                self.requested(&asked, now);
            }
            command::START => {
                let mut ack = Vec::new();
                write_start_ack(Accept::Ok, &mut ack);
                self.say_signed(&ack);
                self.state = ControlState::Running;
                self.events.push_back(Event::Start);
                self.deadline = now.steady + self.rules.silence;
            }
            _ => {
                let stopped = parse_stop(&bytes).map_err(|_| Reason::Confused)?;
                if stopped as usize != self.sessions {
                    return Err(Reason::Confused);
                }
                self.events.push_back(Event::Stop);
                self.sessions = 0;
                self.state = ControlState::Idle;
                self.deadline = now.steady + self.rules.idle;
            }
        }
        Ok(true)
    }

    fn requested(&mut self, asked: &Request, now: Tick) {
        self.deadline = now.steady + self.rules.idle;
        match self.examine(asked) {
            Ok(sender_port) => {
                self.named = self.named.wrapping_add(1);
                let tail = u32::from_be_bytes(self.random.sid).wrapping_add(self.named).to_be_bytes();
                let sid = Sid::new(self.local, NtpTime::from(now.wall), tail);
                let fields = if self.connection.mode().protects_test() { 48 } else { 14 };
                self.events.push_back(Event::Open(Asked {
                    sender_port,
                    port: asked.receiver_port,
                    sid,
                    mode: self.connection.mode(),
                    keys: self.connection.test_keys(&sid),
                    request_len: fields + asked.padding as usize,
                    dscp: asked.dscp().unwrap_or(0),
                    linger: asked.timeout.to_span().clamp(Span::ZERO, self.rules.linger),
                }));
                self.state = ControlState::Opening(sid);
            }
            Err(accept) => self.refuse(accept),
        }
    }

    /// The source port of its packets, if known, or why the session is not granted.
    fn examine(&self, asked: &Request) -> Result<Option<u16>, Accept> {
        let family = if self.peer.is_ipv6() { 6 } else { 4 };
        if (asked.conf_sender, asked.conf_receiver) != (0, 0)
            || asked.slots != 0
            || asked.dscp().is_none()
            || asked.version != family
        {
            return Err(Accept::Unsupported);
        }
        if asked.padding > self.rules.padding || self.sessions >= self.rules.sessions {
            return Err(Accept::Permanent);
        }
        match asked.sender {
            a if a.is_unspecified() => Ok(None),
            // No client may request packets to a third host.
            a if a == self.peer && asked.sender_port != 0 => Ok(Some(asked.sender_port)),
            _ => Err(Accept::Unsupported),
        }
    }

    fn refuse(&mut self, accept: Accept) {
        let mut message = Vec::new();
        AcceptSession { accept, port: 0, sid: Sid::NONE }.write(&mut message);
        self.say_signed(&message);
    }
}

impl Machine for Server {
    type Input<'a> = Input<'a>;
    type Event = Event;

    fn handle(&mut self, now: Tick, input: Input<'_>) {
        if self.state == ControlState::Over {
            return;
        }
        match input {
            Input::Bytes(bytes) => self.connection.incoming.feed(bytes),
            Input::Closed => return self.over(Reason::Closed),
            Input::Opened(opened) => {
                let ControlState::Opening(sid) = self.state else { return };
                self.state = ControlState::Idle;
                match opened {
                    Ok(port) => {
                        self.sessions += 1;
                        let mut message = Vec::new();
                        AcceptSession { accept: Accept::Ok, port, sid }.write(&mut message);
                        self.say_signed(&message);
                    }
                    Err(accept) => self.refuse(accept),
                }
            }
            Input::Reflected => {
                if self.state == ControlState::Running {
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
        if self.state != ControlState::Over && now.steady >= self.deadline {
            self.over(Reason::Silent);
        }
    }

    fn poll_transmit(&mut self, _now: Tick, out: &mut Vec<u8>) -> bool {
        match self.saying.pop_front() {
            Some(bytes) => {
                out.extend(bytes);
                true
            }
            None => false,
        }
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (self.state != ControlState::Over).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
