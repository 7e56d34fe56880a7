//! The control server (RFC 4656 §3): accepts test sessions within limits, starts and stops them, and sends
//! their records.

use super::fetch::DataWriter;
use super::message::{FetchAck, FetchSession, ScheduleSlot, SentSummary};
use super::rules::{ControlEnds, OwampRules};
use super::running::{BadStop, PeerSummary, RunningSessions, TestSide};
use super::sender::END_DELAY;
use super::session::{SessionData, TestSession};
use super::store::Owner;
use crate::amp::connection::Admission;
use crate::amp::message::{AcceptSession, HMAC_LEN, RequestSession, SHORT_LEN, command, write_start_ack};
use crate::amp::{AcceptCode, AmpConnection, AmpEndReason, SecurityMode, ServerRandom, Sid, TestKeys};
use crate::machine::{Machine, Tick};
use core::net::SocketAddr;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span, SteadyTime, WallTime};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of buffered bytes; the longest message is a Stop-Sessions.
const MAX_UNREAD: usize = 4 << 20;
/// Maximum time for which a test may exceed its schedule.
const MAX_OVERRUN: Span = Span::seconds(60);

/// A requested session, for which the driver must reserve resources and open a socket.
#[derive(Clone, Debug)]
pub struct OwampOpenRequest {
    /// Session with its identifier. Unspecified addresses are replaced by those of the connection. The port
    /// of this end is the requested port.
    pub session: TestSession,
    /// Direction of the packets. Up: this end receives. Down: this end sends.
    pub direction: Direction,
    /// Address and port of the other end. Port 0: the source port of the first packet.
    pub far: SocketAddr,
    /// Mode of the connection.
    pub mode: SecurityMode,
    /// Keys of the packets; `None` if the mode does not protect them.
    pub keys: Option<TestKeys>,
}

/// Input of a server.
#[derive(Debug)]
pub enum OwampServerInput<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection was closed.
    Closed,
    /// The socket requested by [`OwampServerEvent::Open`] is open on this port, or is not available.
    Opened(Result<u16, AcceptCode>),
    /// One end of a session has nothing more to send or to wait for.
    Complete(Sid),
    /// A sender has ended after [`OwampServerEvent::StopSending`].
    Sent(SentSummary),
    /// Answer to [`OwampServerEvent::Fetch`]; `None` if these records do not exist.
    Found(Option<Arc<SessionData>>),
}

/// Request of a server to its driver.
#[derive(Clone, Debug)]
pub enum OwampServerEvent {
    /// Open a socket. Must be answered by [`OwampServerInput::Opened`] before any other input.
    Open(Box<OwampOpenRequest>),
    /// Start the sessions that were accepted since the last test. Their packets may already have arrived.
    Start,
    /// End all sending. Answered by [`OwampServerInput::Sent`] for each sender.
    StopSending,
    /// A session that this end receives was stopped: finish it, and store its records.
    Received(PeerSummary),
    /// Find the records of a session that belongs to this [`Owner`]. Answered by [`OwampServerInput::Found`].
    Fetch(FetchSession, Owner),
    /// The conversation is over: close the connection once everything has been written. Sessions that are
    /// still running end now; their receivers are [abandoned](super::SessionReceiver::abandon).
    Over(AmpEndReason),
}

#[derive(Debug)]
enum OwampServerState {
    /// Sending the greeting, or waiting for the response.
    SetUp,
    /// Between tests.
    Idle,
    /// Waiting for the driver to open a socket for this session.
    Opening(Box<TestSession>),
    /// A test is running.
    Running(RunningSessions),
    /// Waiting for the driver to find records.
    Finding(FetchSession),
    /// Sending data.
    Fetching(Box<DataWriter>),
    Over,
}

/// Server of one control connection.
#[derive(Debug)]
pub struct Server {
    rules: OwampRules,
    random: ServerRandom,
    hosts: ControlEnds,
    started: NtpTime,
    state: OwampServerState,
    deadline: SteadyTime,
    connection: AmpConnection,
    /// Encrypted messages, in the order in which they must be written.
    queued: VecDeque<Vec<u8>>,
    /// Sessions that were accepted but not started yet.
    sessions: Vec<TestSession>,
    named: u32,
    events: VecDeque<OwampServerEvent>,
}

impl Server {
    /// Creates a server for the connection from `peer` to `local`, which was accepted at `now`. The server
    /// program was started at `started`.
    pub fn new(
        rules: OwampRules,
        peer: SocketAddr,
        local: SocketAddr,
        started: WallTime,
        random: ServerRandom,
        now: Tick,
    ) -> Server {
        let started = NtpTime::from(started);
        let greeting = AmpConnection::greeting(&entry(&rules, &random, started));
        Server {
            deadline: now.steady + rules.set_up_wait,
            rules,
            random,
            hosts: ControlEnds { peer: peer.ip().to_canonical(), local: local.ip().to_canonical() },
            started,
            state: OwampServerState::SetUp,
            connection: AmpConnection::default(),
            queued: VecDeque::from([greeting]),
            sessions: Vec::new(),
            named: 0,
            events: VecDeque::new(),
        }
    }

    /// Returns the owner of this connection's sessions.
    pub fn owner(&self) -> Owner {
        match self.connection.user() {
            Some(user) => Owner::User(user.to_owned()),
            None => Owner::Host(self.hosts.peer),
        }
    }

    fn over(&mut self, reason: AmpEndReason) {
        self.state = OwampServerState::Over;
        self.events.push_back(OwampServerEvent::Over(reason));
    }

    fn send_signed(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        write(&mut message);
        self.connection.outgoing.put_signed(&message, &mut bytes);
        self.queued.push_back(bytes);
    }

    /// Reads one message; returns `Ok(false)` if the message is not complete yet.
    fn advance(&mut self, now: Tick) -> Result<bool, AmpEndReason> {
        match &mut self.state {
            OwampServerState::SetUp => {
                let mut answer = Vec::new();
                let entry = entry(&self.rules, &self.random, self.started);
                let let_in = self.connection.read_set_up(&entry, &mut answer);
                if !answer.is_empty() {
                    self.queued.push_back(answer);
                }
                if !let_in? {
                    return Ok(false);
                }
                self.idle(now);
                Ok(true)
            }
            OwampServerState::Idle => self.command(now),
            // Messages after the client's Stop-Sessions are read once this side's Stop-Sessions has been
            // sent.
            OwampServerState::Running(running) if running.has_peer_stopped() => Ok(false),
            OwampServerState::Running(running) => {
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
                    self.events.push_back(OwampServerEvent::StopSending);
                }
                let received = received.map_err(|bad| match bad {
                    BadStop::Forged => AmpEndReason::Forged,
                    BadStop::Senseless => AmpEndReason::Confused,
                })?;
                let Some(received) = received else { return Ok(false) };
                self.events.extend(received.into_iter().map(OwampServerEvent::Received));
                self.end_test(now);
                Ok(true)
            }
            OwampServerState::Opening(_)
            | OwampServerState::Finding(_)
            | OwampServerState::Fetching(_)
            | OwampServerState::Over => Ok(false),
        }
    }

    /// Waits for the next command.
    fn idle(&mut self, now: Tick) {
        self.state = OwampServerState::Idle;
        self.deadline = now.steady + self.rules.idle;
    }

    /// Sends Stop-Sessions as soon as possible, and ends the test once both sides have sent it.
    fn end_test(&mut self, now: Tick) {
        let OwampServerState::Running(running) = &mut self.state else { return };
        if let Some(stop) = running.poll_stop() {
            self.deadline = now.steady + self.rules.stop_wait;
            self.send_signed(|out| stop.write(out));
        }
        if let OwampServerState::Running(running) = &self.state
            && running.is_over()
        {
            self.idle(now);
        }
    }

    /// Refuses an unknown command. Its length is unknown, so the conversation cannot continue.
    fn refuse_command(&mut self) -> Result<bool, AmpEndReason> {
        self.send_signed(|out| write_start_ack(AcceptCode::Unsupported, out));
        Err(AmpEndReason::Confused)
    }

    fn command(&mut self, now: Tick) -> Result<bool, AmpEndReason> {
        let incoming = &mut self.connection.incoming;
        match incoming.first() {
            None => Ok(false),
            Some(command::REQUEST_SESSION) => self.read_request(now),
            Some(command::START) => {
                let Some(message) = incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                message.map_err(|_| AmpEndReason::Forged)?;
                self.start(now);
                Ok(true)
            }
            Some(command::FETCH_SESSION) => {
                let Some(message) = incoming.take_signed(FetchSession::LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| AmpEndReason::Forged)?;
                let fetch = FetchSession::parse(&bytes).map_err(|_| AmpEndReason::Confused)?;
                self.events.push_back(OwampServerEvent::Fetch(fetch, self.owner()));
                self.state = OwampServerState::Finding(fetch);
                Ok(true)
            }
            Some(_) => self.refuse_command(),
        }
    }

    fn start(&mut self, now: Tick) {
        self.send_signed(|out| write_start_ack(AcceptCode::Ok, out));
        let sessions = core::mem::take(&mut self.sessions);
        let longest = sessions.iter().map(|session| {
            let wait = session.request.start.to_nanos(now.wall) - now.wall;
            wait.max(Span::ZERO) + session.longest()
        });
        let longest = longest.max().unwrap_or(Span::ZERO);
        self.deadline = now.steady + longest + END_DELAY + MAX_OVERRUN;
        self.events.push_back(OwampServerEvent::Start);
        let mut running = RunningSessions::new(TestSide::Server, sessions.iter());
        if sessions.is_empty() {
            running.stop();
        }
        self.state = OwampServerState::Running(running);
        self.end_test(now);
    }

    /// Reads a request and its slots.
    fn read_request(&mut self, now: Tick) -> Result<bool, AmpEndReason> {
        let incoming = &mut self.connection.incoming;
        let Some(request) = incoming.readable().get(..RequestSession::LEN - HMAC_LEN) else {
            return Ok(false);
        };
        let request = RequestSession::parse(request).map_err(|_| AmpEndReason::Confused)?;
        let Some(slots) = self.rules.slots_len(request.slots) else {
            // There are too many slots to read, so the conversation cannot continue.
            self.refuse(AcceptCode::Permanent);
            return Err(AmpEndReason::Confused);
        };
        if incoming.readable().len() < RequestSession::LEN + slots {
            return Ok(false);
        }
        let (request_signed, slots) =
            (incoming.take_signed(RequestSession::LEN), incoming.take_signed(slots));
        let (Some(Ok(_)), Some(Ok(slots))) = (request_signed, slots) else {
            return Err(AmpEndReason::Forged);
        };
        let slots = slots.chunks(ScheduleSlot::LEN).map(|slot| ScheduleSlot::parse(slot).ok().flatten());
        match slots.collect::<Option<Vec<_>>>() {
            Some(slots) => self.requested(TestSession { request, slots }, now),
            None => self.refuse(AcceptCode::Unsupported),
        }
        Ok(true)
    }

    fn requested(&mut self, mut session: TestSession, now: Tick) {
        self.deadline = now.steady + self.rules.idle;
        let mode = self.connection.mode();
        let direction = match self.rules.check(&session, mode, self.hosts, now.wall) {
            Ok(_) if self.sessions.len() >= self.rules.sessions => return self.refuse(AcceptCode::Permanent),
            Ok(direction) => direction,
            Err(accept) => return self.refuse(accept),
        };
        let ControlEnds { peer, local } = self.hosts;
        let request = &mut session.request;
        let port = match direction {
            Direction::Up => {
                self.named = self.named.wrapping_add(1);
                let tail = u32::from_be_bytes(self.random.sid).wrapping_add(self.named).to_be_bytes();
                request.sid = Sid::new(local, NtpTime::from(now.wall), tail);
                // An address translator may also have changed the port.
                let port = if request.sender.is_unspecified() { 0 } else { request.sender_port };
                (request.sender, request.receiver) = (peer, local);
                port
            }
            Direction::Down => {
                (request.sender, request.receiver) = (local, peer);
                request.receiver_port
            }
        };
        if self.sessions.iter().any(|s| s.sid() == session.sid()) {
            return self.refuse(AcceptCode::Failure);
        }
        let asked = OwampOpenRequest {
            direction,
            far: SocketAddr::new(peer, port),
            mode,
            keys: self.connection.test_keys(&session.sid()),
            session: session.clone(),
        };
        self.state = OwampServerState::Opening(Box::new(session));
        self.events.push_back(OwampServerEvent::Open(Box::new(asked)));
    }

    fn refuse(&mut self, accept: AcceptCode) {
        self.send_signed(|out| AcceptSession { accept, port: 0, sid: Sid::NONE }.write(out));
    }

    fn opened(&mut self, opened: Result<u16, AcceptCode>) {
        match core::mem::replace(&mut self.state, OwampServerState::Idle) {
            OwampServerState::Opening(session) => match opened {
                Ok(port) => {
                    let sid = session.sid();
                    self.sessions.push(session.with_server_port(port));
                    self.send_signed(|out| AcceptSession { accept: AcceptCode::Ok, port, sid }.write(out));
                }
                Err(accept) => self.refuse(accept),
            },
            other => self.state = other,
        }
    }

    fn found(&mut self, found: Option<Arc<SessionData>>, now: Tick) {
        let OwampServerState::Finding(fetch) = self.state else { return };
        match found.ok_or(AcceptCode::Failure).and_then(|data| DataWriter::new(fetch, data)) {
            Ok(writer) => {
                self.state = OwampServerState::Fetching(Box::new(writer));
                self.deadline = now.steady + self.rules.idle;
            }
            Err(accept) => {
                self.send_signed(|out| FetchAck::refusal(accept).write(out));
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
            self.over(AmpEndReason::Confused);
        }
    }
}

fn entry<'a>(rules: &'a OwampRules, random: &'a ServerRandom, started: NtpTime) -> Admission<'a> {
    Admission { modes: rules.modes(), users: &rules.users, rounds: rules.rounds, random, started }
}

impl Machine for Server {
    type Input<'a> = OwampServerInput<'a>;
    type Event = OwampServerEvent;

    fn handle(&mut self, now: Tick, input: OwampServerInput<'_>) {
        if matches!(self.state, OwampServerState::Over) {
            return;
        }
        match input {
            OwampServerInput::Bytes(bytes) => self.connection.incoming.feed(bytes),
            OwampServerInput::Closed => return self.over(AmpEndReason::Closed),
            OwampServerInput::Opened(opened) => self.opened(opened),
            OwampServerInput::Complete(sid) => {
                if let OwampServerState::Running(running) = &mut self.state
                    && running.complete(sid)
                {
                    self.events.push_back(OwampServerEvent::StopSending);
                }
            }
            OwampServerInput::Sent(summary) => {
                if let OwampServerState::Running(running) = &mut self.state {
                    running.sent(summary);
                }
            }
            OwampServerInput::Found(found) => self.found(found, now),
        }
        self.end_test(now);
        self.read_on(now);
    }

    fn handle_timeout(&mut self, now: Tick) {
        if !matches!(self.state, OwampServerState::Over) && now.steady >= self.deadline {
            self.over(AmpEndReason::Silent);
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if let Some(bytes) = self.queued.pop_front() {
            out.extend(bytes);
            return true;
        }
        let OwampServerState::Fetching(writer) = &mut self.state else { return false };
        self.deadline = now.steady + self.rules.idle;
        if writer.poll(&mut self.connection.outgoing, out) {
            return true;
        }
        self.idle(now);
        self.read_on(now);
        match self.queued.pop_front() {
            Some(bytes) => {
                out.extend(bytes);
                true
            }
            None => false,
        }
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (!matches!(self.state, OwampServerState::Over)).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<OwampServerEvent> {
        self.events.pop_front()
    }
}
