//! The control server (RFC 4656 §3): grants test sessions, starts and stops them, and sends what was received, within
//! limits.

use super::fetch::DataWriter;
use super::message::{Fetch, FetchAck, SentSummary, Slot};
use super::rules::{Hosts, Rules};
use super::running::{BadStop, Received, Running, Side};
use super::sender::END_DELAY;
use super::session::{SessionData, TestSession};
use super::store::Owner;
use crate::amp::connection::Entry;
use crate::amp::message::{AcceptSession, HMAC_LEN, Request, SHORT_LEN, command, write_start_ack};
use crate::amp::{Accept, Connection, Mode, Random, Reason, Sid, TestKeys};
use crate::machine::{Machine, Tick};
use core::net::SocketAddr;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span, SteadyTime, WallTime};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bytes of unread messages; the longest is a Stop-Sessions.
const MAX_UNREAD: usize = 4 << 20;
/// Beyond its schedule, how long a test may last.
const SLACK: Span = Span::seconds(60);

/// A session for which the driver must make room and open a socket.
#[derive(Clone, Debug)]
pub struct Asked {
    /// With its identifier, and with the addresses of the connection if the client left them open. The port of this end
    /// is the requested one.
    pub session: TestSession,
    /// Up: this end receives. Down: it sends.
    pub direction: Direction,
    /// Address of the other end's packets. Port 0: that of the first packet.
    pub far: SocketAddr,
    /// Mode of the connection.
    pub mode: Mode,
    /// Keys of its packets, where the mode protects them.
    pub keys: Option<TestKeys>,
}

/// An input of a server.
#[derive(Debug)]
pub enum Input<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection is closed.
    Closed,
    /// The socket requested by [`Event::Open`] is open on this port, or is not available.
    Opened(Result<u16, Accept>),
    /// An end of a session has nothing more to send, or to wait for.
    Complete(Sid),
    /// A sender has ended, as [`Event::StopSending`] asked.
    Sent(SentSummary),
    /// The answer to [`Event::Fetch`]; `None` if there are no such records.
    Found(Option<Arc<SessionData>>),
}

/// A request of a server to its driver.
#[derive(Clone, Debug)]
pub enum Event {
    /// Open a socket; answer with [`Input::Opened`] before anything else.
    Open(Box<Asked>),
    /// The sessions granted since the last test begin. Packets may have arrived before.
    Start,
    /// End all sending; answer with [`Input::Sent`] for each sender.
    StopSending,
    /// A session of which this end was the receiver is stopped: finish it, and keep what it recorded.
    Received(Received),
    /// Find what was recorded of a session that belongs to this [`Owner`]; answer with [`Input::Found`].
    Fetch(Fetch, Owner),
    /// Nothing more will be sent: close the connection once everything is written. Sessions that have not ended yet end
    /// now; receivers are [abandoned](super::SessionReceiver::abandon).
    Over(Reason),
}

#[derive(Debug)]
enum State {
    /// The greeting is to be sent, or its answer awaited.
    SetUp,
    /// Between tests.
    Idle,
    /// The driver opens a socket for this session.
    Opening(Box<TestSession>),
    /// A test runs.
    Running(Running),
    /// The driver searches for records.
    Finding(Fetch),
    /// Data are being written.
    Fetching(Box<DataWriter>),
    Over,
}

/// One control conversation.
#[derive(Debug)]
pub struct Server {
    rules: Rules,
    random: Random,
    hosts: Hosts,
    started: NtpTime,
    state: State,
    deadline: SteadyTime,
    connection: Connection,
    /// Already encrypted, in the order they are to be written.
    saying: VecDeque<Vec<u8>>,
    /// Granted and not started yet.
    sessions: Vec<TestSession>,
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
        let greeting = Connection::greeting(&entry(&rules, &random, started));
        Server {
            deadline: now.steady + rules.set_up_wait,
            rules,
            random,
            hosts: Hosts { peer: peer.ip().to_canonical(), local: local.ip().to_canonical() },
            started,
            state: State::SetUp,
            connection: Connection::default(),
            saying: VecDeque::from([greeting]),
            sessions: Vec::new(),
            named: 0,
            events: VecDeque::new(),
        }
    }

    /// The owner of this connection's sessions.
    pub fn owner(&self) -> Owner {
        match self.connection.user() {
            Some(user) => Owner::User(user.to_owned()),
            None => Owner::Host(self.hosts.peer),
        }
    }

    fn over(&mut self, reason: Reason) {
        self.state = State::Over;
        self.events.push_back(Event::Over(reason));
    }

    fn say_signed(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        write(&mut message);
        self.connection.outgoing.put_signed(&message, &mut bytes);
        self.saying.push_back(bytes);
    }

    /// Reads one message, if it is complete. `Ok(false)`: not yet.
    fn advance(&mut self, now: Tick) -> Result<bool, Reason> {
        match &mut self.state {
            State::SetUp => {
                let mut answer = Vec::new();
                let entry = entry(&self.rules, &self.random, self.started);
                let let_in = self.connection.read_set_up(&entry, &mut answer);
                if !answer.is_empty() {
                    self.saying.push_back(answer);
                }
                if !let_in? {
                    return Ok(false);
                }
                self.idle(now);
                Ok(true)
            }
            State::Idle => self.command(now),
            // What follows the client's Stop-Sessions is read after this side's.
            State::Running(running) if running.has_peer_stopped() => Ok(false),
            State::Running(running) => {
                match self.connection.incoming.first() {
                    Some(command::STOP) => {}
                    None => return Ok(false),
                    Some(_) => return self.refuse_command(),
                }
                let mut stop = false;
                if running.begin_peer_stop(now.wall) {
                    self.deadline = now.steady + self.rules.stop_wait;
                    stop = running.stop();
                }
                let received = running.read(&mut self.connection.incoming);
                if stop {
                    self.events.push_back(Event::StopSending);
                }
                let received = received.map_err(|bad| match bad {
                    BadStop::Forged => Reason::Forged,
                    BadStop::Senseless => Reason::Confused,
                })?;
                let Some(received) = received else { return Ok(false) };
                self.events.extend(received.into_iter().map(Event::Received));
                self.end_test(now);
                Ok(true)
            }
            State::Opening(_) | State::Finding(_) | State::Fetching(_) | State::Over => Ok(false),
        }
    }

    /// Waits for the next command.
    fn idle(&mut self, now: Tick) {
        self.state = State::Idle;
        self.deadline = now.steady + self.rules.idle;
    }

    /// Sends Stop-Sessions once it can be sent, and ends the test once both sides have.
    fn end_test(&mut self, now: Tick) {
        let State::Running(running) = &mut self.state else { return };
        if let Some(stop) = running.poll_stop() {
            self.deadline = now.steady + self.rules.stop_wait;
            self.say_signed(|out| stop.write(out));
        }
        if let State::Running(running) = &self.state
            && running.is_over()
        {
            self.idle(now);
        }
    }

    /// The length of what follows is unknown: the conversation cannot continue.
    fn refuse_command(&mut self) -> Result<bool, Reason> {
        self.say_signed(|out| write_start_ack(Accept::Unsupported, out));
        Err(Reason::Confused)
    }

    fn command(&mut self, now: Tick) -> Result<bool, Reason> {
        let incoming = &mut self.connection.incoming;
        match incoming.first() {
            None => Ok(false),
            Some(command::REQUEST_SESSION) => self.read_request(now),
            Some(command::START) => {
                let Some(message) = incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                message.map_err(|_| Reason::Forged)?;
                self.start(now);
                Ok(true)
            }
            Some(command::FETCH_SESSION) => {
                let Some(message) = incoming.take_signed(Fetch::LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| Reason::Forged)?;
                let fetch = Fetch::parse(&bytes).map_err(|_| Reason::Confused)?;
                self.events.push_back(Event::Fetch(fetch, self.owner()));
                self.state = State::Finding(fetch);
                Ok(true)
            }
            Some(_) => self.refuse_command(),
        }
    }

    fn start(&mut self, now: Tick) {
        self.say_signed(|out| write_start_ack(Accept::Ok, out));
        let sessions = core::mem::take(&mut self.sessions);
        let longest = sessions.iter().map(|session| {
            let wait = session.request.start.to_nanos(now.wall) - now.wall;
            wait.max(Span::ZERO) + session.longest()
        });
        let longest = longest.max().unwrap_or(Span::ZERO);
        self.deadline = now.steady + longest + END_DELAY + SLACK;
        self.events.push_back(Event::Start);
        let mut running = Running::new(Side::Server, sessions.iter());
        if sessions.is_empty() {
            running.stop();
        }
        self.state = State::Running(running);
        self.end_test(now);
    }

    /// Reads a request and its slots.
    fn read_request(&mut self, now: Tick) -> Result<bool, Reason> {
        let incoming = &mut self.connection.incoming;
        let Some(request) = incoming.readable().get(..Request::LEN - HMAC_LEN) else { return Ok(false) };
        let request = Request::parse(request).map_err(|_| Reason::Confused)?;
        let Some(slots) = self.rules.slots_len(request.slots) else {
            // More than is read: the conversation cannot continue.
            self.refuse(Accept::Permanent);
            return Err(Reason::Confused);
        };
        if incoming.readable().len() < Request::LEN + slots {
            return Ok(false);
        }
        let (request_signed, slots) = (incoming.take_signed(Request::LEN), incoming.take_signed(slots));
        let (Some(Ok(_)), Some(Ok(slots))) = (request_signed, slots) else { return Err(Reason::Forged) };
        let slots = slots.chunks(Slot::LEN).map(|slot| Slot::parse(slot).ok().flatten());
        match slots.collect::<Option<Vec<_>>>() {
            Some(slots) => self.requested(TestSession { request, slots }, now),
            None => self.refuse(Accept::Unsupported),
        }
        Ok(true)
    }

    fn requested(&mut self, mut session: TestSession, now: Tick) {
        self.deadline = now.steady + self.rules.idle;
        let mode = self.connection.mode();
        let direction = match self.rules.check(&session, mode, self.hosts, now.wall) {
            Ok(_) if self.sessions.len() >= self.rules.sessions => return self.refuse(Accept::Permanent),
            Ok(direction) => direction,
            Err(accept) => return self.refuse(accept),
        };
        let Hosts { peer, local } = self.hosts;
        let request = &mut session.request;
        let port = match direction {
            Direction::Up => {
                self.named = self.named.wrapping_add(1);
                let tail = u32::from_be_bytes(self.random.sid).wrapping_add(self.named).to_be_bytes();
                request.sid = Sid::new(local, NtpTime::from(now.wall), tail);
                (request.sender, request.receiver) = (peer, local);
                request.sender_port
            }
            Direction::Down => {
                (request.sender, request.receiver) = (local, peer);
                request.receiver_port
            }
        };
        if self.sessions.iter().any(|s| s.sid() == session.sid()) {
            return self.refuse(Accept::Failure);
        }
        let asked = Asked {
            direction,
            far: SocketAddr::new(peer, port),
            mode,
            keys: self.connection.test_keys(&session.sid()),
            session: session.clone(),
        };
        self.state = State::Opening(Box::new(session));
        self.events.push_back(Event::Open(Box::new(asked)));
    }

    fn refuse(&mut self, accept: Accept) {
        self.say_signed(|out| AcceptSession { accept, port: 0, sid: Sid::NONE }.write(out));
    }

    fn opened(&mut self, opened: Result<u16, Accept>) {
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Opening(session) => match opened {
                Ok(port) => {
                    let sid = session.sid();
                    self.sessions.push(session.with_server_port(port));
                    self.say_signed(|out| AcceptSession { accept: Accept::Ok, port, sid }.write(out));
                }
                Err(accept) => self.refuse(accept),
            },
            other => self.state = other,
        }
    }

    fn found(&mut self, found: Option<Arc<SessionData>>, now: Tick) {
        let State::Finding(fetch) = self.state else { return };
        match found.ok_or(Accept::Failure).and_then(|data| DataWriter::new(fetch, data)) {
            Ok(writer) => {
                self.state = State::Fetching(Box::new(writer));
                self.deadline = now.steady + self.rules.idle;
            }
            Err(accept) => {
                self.say_signed(|out| FetchAck::refusal(accept).write(out));
                self.idle(now);
            }
        }
    }

    fn read_on(&mut self, now: Tick) {
        loop {
            match self.advance(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => return self.over(reason),
            }
        }
        if self.connection.incoming.len() > MAX_UNREAD {
            self.over(Reason::Confused);
        }
    }
}

fn entry<'a>(rules: &'a Rules, random: &'a Random, started: NtpTime) -> Entry<'a> {
    Entry { modes: rules.modes(), users: &rules.users, rounds: rules.rounds, random, started }
}

impl Machine for Server {
    type Input<'a> = Input<'a>;
    type Event = Event;

    fn handle(&mut self, now: Tick, input: Input<'_>) {
        if matches!(self.state, State::Over) {
            return;
        }
        match input {
            Input::Bytes(bytes) => self.connection.incoming.feed(bytes),
            Input::Closed => return self.over(Reason::Closed),
            Input::Opened(opened) => self.opened(opened),
            Input::Complete(sid) => {
                if let State::Running(running) = &mut self.state
                    && running.complete(sid)
                {
                    self.events.push_back(Event::StopSending);
                }
            }
            Input::Sent(summary) => {
                if let State::Running(running) = &mut self.state {
                    running.sent(summary);
                }
            }
            Input::Found(found) => self.found(found, now),
        }
        self.end_test(now);
        self.read_on(now);
    }

    fn handle_timeout(&mut self, now: Tick) {
        if !matches!(self.state, State::Over) && now.steady >= self.deadline {
            self.over(Reason::Silent);
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if let Some(bytes) = self.saying.pop_front() {
            out.extend(bytes);
            return true;
        }
        let State::Fetching(writer) = &mut self.state else { return false };
        self.deadline = now.steady + self.rules.idle;
        if writer.poll(&mut self.connection.outgoing, out) {
            return true;
        }
        self.idle(now);
        self.read_on(now);
        match self.saying.pop_front() {
            Some(bytes) => {
                out.extend(bytes);
                true
            }
            None => false,
        }
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (!matches!(self.state, State::Over)).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
