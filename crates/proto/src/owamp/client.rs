//! The control client (RFC 4656 §3): negotiates a mode, requests sessions, starts and stops them, and fetches what the
//! server received.

use super::fetch::{DataReader, Unusable};
use super::message::{Fetch, SentSummary, Slot};
use super::running::{BadStop, Received, Running, Side};
use super::sender::END_DELAY;
use super::session::{SessionData, TestSession};
pub use crate::amp::Failure;
use crate::amp::connection::Wanted;
use crate::amp::message::{AcceptSession, Request, SHORT_LEN, command, write_start};
use crate::amp::setup::SetUp;
use crate::amp::{Accept, Connection, Mode, Sid, Step, TestKeys};
use crate::machine::{Machine, Tick};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Dscp, Span, SteadyTime, WallTime};
use std::collections::VecDeque;

/// Most bytes of unread messages: a Stop-Sessions, or the fetched data of one read.
const MAX_UNREAD: usize = 8 << 20;
/// Beyond its schedule, how long a test may last.
const SLACK: Span = Span::seconds(60);
/// The default timeout of a session, in addition to the time that the set-up took: as in owping.
const LOSS_TIMEOUT: Span = Span::seconds(2);

/// A session to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Up: this end sends. Down: it receives.
    pub direction: Direction,
    /// Address of this end's packets.
    pub near: SocketAddr,
    /// The server's address.
    pub far: IpAddr,
    /// Number of packets.
    pub packets: u32,
    /// How they are spaced.
    pub slots: Vec<Slot>,
    /// Bytes behind the fields of a test packet.
    pub padding: u32,
    /// When a packet counts as lost; `None` = two seconds more than the set-up took.
    pub timeout: Option<Span>,
    /// Code point of the packets.
    pub dscp: Dscp,
}

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The mode to use; `None` = the strongest that both sides support: with a passphrase encrypted, then
    /// authenticated; without one open.
    pub mode: Option<Mode>,
    /// Name and passphrase for the keyed modes.
    pub user: Option<(String, Vec<u8>)>,
    /// Sessions to ask for, on one connection, all with the same start. What the server received in them is fetched.
    pub sessions: Vec<Wish>,
    /// How long after the requests the sessions start, beside a round trip for each message in between.
    pub lead: Span,
    /// Data to fetch of sessions that ended before.
    pub fetches: Vec<Fetch>,
    /// Most records of one of those that are read.
    pub most_records: usize,
    /// How long the server may take for each step.
    pub patience: Span,
    /// Random bytes for the keys of the connection.
    pub random: [u8; 64],
    /// Random bytes for the identifiers of sessions that this end receives; the n-th identifier is their sum with n.
    pub sid: [u8; 4],
}

/// An input of a client.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection is closed.
    Closed,
    /// Begin the test; accepted once all sessions are granted.
    Start,
    /// An end of a session has nothing more to send, or to wait for.
    Complete(Sid),
    /// A sender has ended, as [`Event::StopSending`] asked.
    Sent(SentSummary),
    /// End the test early, and fetch the results so far.
    Stop,
}

/// A granted session.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Index of the request.
    pub index: usize,
    /// The session as granted.
    pub session: TestSession,
    /// Where the packets of the other end come from or go to.
    pub far: SocketAddr,
    /// Keys of its packets, where the mode protects them.
    pub keys: Option<TestKeys>,
}

/// A report or a request of a client.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection is set up in this mode.
    Mode(Mode),
    /// A session is granted: its packets may come from now on.
    Granted(Box<Granted>),
    /// All are granted: [`Input::Start`] begins.
    Ready,
    /// The sessions begin, each by its schedule.
    Started,
    /// End all sending; answer with [`Input::Sent`] for each sender.
    StopSending,
    /// A session of which this end was the receiver is stopped: finish it.
    Received(Received),
    /// The records of a session, or why they are not available.
    Fetched(Sid, Box<Result<SessionData, Unusable>>),
    /// The conversation ended normally; the connection may be closed.
    Over,
    /// It failed; the connection is to be closed.
    Failed(Failure),
}

#[derive(Debug)]
enum State {
    Greeting,
    SetUp,
    Request,
    Granted,
    Start,
    Running(Running),
    Fetch(DataReader),
    Over,
}

/// One control conversation.
#[derive(Debug)]
pub struct Client {
    config: Config,
    state: State,
    deadline: SteadyTime,
    connection: Connection,
    set_up: Option<SetUp>,
    /// When Set-Up-Response was sent, and how long its answer took.
    set_up_said: SteadyTime,
    round_trip: Span,
    /// When the sessions start; `None` before the first request.
    start: Option<NtpTime>,
    /// The request without an answer so far.
    asked: Option<TestSession>,
    granted: Vec<TestSession>,
    say_start: bool,
    /// Whether the test should end as soon as it has begun.
    stop: bool,
    fetches: VecDeque<(Fetch, usize)>,
    say_fetch: Option<Fetch>,
    events: VecDeque<Event>,
}

impl Client {
    /// A client whose connection is open since `now`.
    pub fn new(config: Config, now: Tick) -> Client {
        let fetches = config.fetches.iter().map(|fetch| (*fetch, config.most_records)).collect();
        Client {
            deadline: now.steady + config.patience,
            config,
            state: State::Greeting,
            connection: Connection::default(),
            set_up: None,
            set_up_said: now.steady,
            round_trip: Span::ZERO,
            start: None,
            asked: None,
            granted: Vec::new(),
            say_start: false,
            stop: false,
            fetches,
            say_fetch: None,
            events: VecDeque::new(),
        }
    }

    fn step(&self) -> Option<Step> {
        Some(match &self.state {
            State::Greeting => Step::Greeting,
            State::SetUp => Step::SetUp,
            State::Request => Step::Request,
            State::Granted => Step::Granted,
            State::Start => Step::Start,
            State::Running(running) if running.has_said() => Step::Stop,
            State::Running(_) => Step::Running,
            State::Fetch(_) => Step::Fetch,
            State::Over => return None,
        })
    }

    fn enter(&mut self, state: State, now: Tick) {
        self.state = state;
        self.deadline = now.steady + self.config.patience;
    }

    fn over(&mut self, event: Event) {
        self.state = State::Over;
        self.events.push_back(event);
    }

    /// Reads one message, if it is complete. `Ok(false)`: not yet.
    fn advance(&mut self, now: Tick) -> Result<bool, Failure> {
        let Some(step) = self.step() else { return Ok(false) };
        let incoming = &mut self.connection.incoming;
        match &mut self.state {
            State::Greeting => {
                let wanted = Wanted {
                    mode: self.config.mode,
                    keyed: &[Mode::Encrypted, Mode::Authenticated],
                    user: self.config.user.as_ref(),
                    random: &self.config.random,
                };
                self.set_up = self.connection.read_greeting(&wanted)?;
                if self.set_up.is_none() {
                    return Ok(false);
                }
                self.enter(State::SetUp, now);
            }
            State::SetUp => {
                if !self.connection.read_server_start()? {
                    return Ok(false);
                }
                self.round_trip = now.steady - self.set_up_said;
                self.events.push_back(Event::Mode(self.connection.mode()));
                if self.config.sessions.is_empty() {
                    self.fetch_next(now);
                } else {
                    self.enter(State::Request, now);
                }
            }
            State::Request => {
                let Some(message) = incoming.take_signed(AcceptSession::LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| Failure::Forged(step))?;
                let answer = AcceptSession::parse(&bytes).map_err(|_| Failure::Unasked(step))?;
                let session = self.asked.take().ok_or(Failure::Unasked(step))?;
                self.grant(session, &answer)?;
                if self.granted.len() == self.config.sessions.len() {
                    self.events.push_back(Event::Ready);
                    self.enter(State::Granted, now);
                    // The caller decides when, but within a limit.
                    self.deadline = now.steady + self.longest(now.wall);
                } else {
                    self.enter(State::Request, now);
                }
            }
            State::Start => {
                let Some(message) = incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| Failure::Forged(step))?;
                let accept = bytes.first().map_or(Accept::Failure, |b| Accept::from(*b));
                if accept != Accept::Ok {
                    return Err(Failure::Refused { step, accept });
                }
                self.events.push_back(Event::Started);
                self.state = State::Running(Running::new(Side::Client, self.granted.iter()));
                self.deadline = now.steady + self.longest(now.wall);
                if self.stop {
                    self.stop_sending();
                }
            }
            State::Running(running) => {
                match incoming.first() {
                    Some(command::STOP) if !running.has_peer_stopped() => {}
                    None => return Ok(false),
                    Some(_) => return Err(Failure::Unasked(step)),
                }
                if running.begin_peer_stop(now.wall) {
                    self.deadline = now.steady + self.config.patience;
                    if running.stop() {
                        self.events.push_back(Event::StopSending);
                    }
                }
                let received = running.read(incoming).map_err(|bad| match bad {
                    BadStop::Forged => Failure::Forged(step),
                    BadStop::Senseless => Failure::Unasked(step),
                })?;
                let Some(received) = received else { return Ok(false) };
                self.events.extend(received.into_iter().map(Event::Received));
                self.end_test(now);
            }
            State::Fetch(reader) => {
                let sid = reader.sid();
                let before = incoming.len();
                let read = reader.poll(incoming);
                if incoming.len() < before {
                    self.deadline = now.steady + self.config.patience;
                }
                match read {
                    Ok(None) => return Ok(false),
                    Err(Unusable::Forged) => return Err(Failure::Forged(step)),
                    Err(Unusable::Other | Unusable::TooMany) => return Err(Failure::Unasked(step)),
                    Ok(Some(data)) => self.events.push_back(Event::Fetched(sid, Box::new(Ok(data)))),
                    Err(refused) => self.events.push_back(Event::Fetched(sid, Box::new(Err(refused)))),
                }
                self.fetch_next(now);
            }
            State::Granted => {
                if incoming.is_empty() {
                    return Ok(false);
                }
                return Err(Failure::Unasked(step));
            }
            State::Over => return Ok(false),
        }
        Ok(true)
    }

    /// From now until the test should be over, with a margin.
    fn longest(&self, now: WallTime) -> Span {
        let wait = self.start.map_or(Span::ZERO, |start| start.to_nanos(now) - now);
        let longest = self.granted.iter().map(TestSession::longest).max().unwrap_or(Span::ZERO);
        wait.max(Span::ZERO) + longest + END_DELAY + SLACK
    }

    fn grant(&mut self, mut session: TestSession, answer: &AcceptSession) -> Result<(), Failure> {
        match answer.accept {
            Accept::Ok if answer.port == 0 => return Err(Failure::NoPort),
            Accept::Ok => {}
            accept => return Err(Failure::Refused { step: Step::Request, accept }),
        }
        let index = self.granted.len();
        session = session.with_server_port(answer.port);
        if session.direction() == Some(Direction::Up) {
            session.request.sid = answer.sid;
            let most = (session.request.packets as usize).saturating_mul(2).saturating_add(1024);
            self.fetches.push_back((Fetch::whole(answer.sid), most));
        }
        let far = SocketAddr::new(self.config.sessions[index].far, answer.port);
        let keys = self.connection.test_keys(&session.sid());
        self.granted.push(session.clone());
        self.events.push_back(Event::Granted(Box::new(Granted { index, session, far, keys })));
        Ok(())
    }

    fn request(&mut self, wish: &Wish, now: Tick) -> TestSession {
        let messages = self.config.sessions.len() as i64 + 1;
        let lead = self.config.lead + self.round_trip.times(messages);
        let start = *self.start.get_or_insert(NtpTime::from(now.wall + lead));
        let timeout = wish.timeout.unwrap_or(LOSS_TIMEOUT + self.round_trip);
        let far = SocketAddr::new(wish.far, 0);
        let (sender, receiver, sid) = match wish.direction {
            Direction::Up => (wish.near, far, Sid::NONE),
            Direction::Down => {
                let count = u32::from_be_bytes(self.config.sid).wrapping_add(self.granted.len() as u32);
                (far, wish.near, Sid::new(wish.near.ip(), NtpTime::from(now.wall), count.to_be_bytes()))
            }
        };
        let request = Request {
            command: command::REQUEST_SESSION,
            version: if wish.far.is_ipv6() { 6 } else { 4 },
            conf_sender: (wish.direction == Direction::Down).into(),
            conf_receiver: (wish.direction == Direction::Up).into(),
            slots: wish.slots.len() as u32,
            packets: wish.packets,
            sender_port: sender.port(),
            receiver_port: receiver.port(),
            sender: sender.ip(),
            receiver: receiver.ip(),
            sid,
            padding: wish.padding,
            start,
            timeout: NtpTime::from_span(timeout),
            type_p: u32::from(wish.dscp.value()) << 24,
        };
        TestSession { request, slots: wish.slots.clone() }
    }

    /// The test ends once both sides have said Stop-Sessions.
    fn end_test(&mut self, now: Tick) {
        let State::Running(running) = &self.state else { return };
        if running.is_over() {
            self.fetch_next(now);
        }
    }

    fn fetch_next(&mut self, now: Tick) {
        match self.fetches.pop_front() {
            Some((fetch, most_records)) => {
                self.say_fetch = Some(fetch);
                self.enter(State::Fetch(DataReader::new(fetch.sid, most_records)), now);
            }
            None => self.over(Event::Over),
        }
    }

    fn stop_sending(&mut self) {
        if let State::Running(running) = &mut self.state
            && running.stop()
        {
            self.events.push_back(Event::StopSending);
        }
    }
}

impl Machine for Client {
    type Input<'a> = Input<'a>;
    type Event = Event;

    fn handle(&mut self, now: Tick, input: Input<'_>) {
        let Some(step) = self.step() else { return };
        match input {
            Input::Bytes(bytes) => self.connection.incoming.feed(bytes),
            Input::Closed => return self.over(Event::Failed(Failure::Closed(step))),
            Input::Start => {
                if step == Step::Granted {
                    self.say_start = true;
                    self.enter(State::Start, now);
                }
            }
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
            Input::Stop => match self.state {
                State::Running(_) => self.stop_sending(),
                State::Start => self.stop = true,
                State::Fetch(_) => {}
                // Nothing runs: there is nothing to send.
                _ => return self.over(Event::Over),
            },
        }
        loop {
            match self.advance(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => return self.over(Event::Failed(failure)),
            }
        }
        if self.connection.incoming.len() > MAX_UNREAD
            && let Some(step) = self.step()
        {
            self.over(Event::Failed(Failure::Unasked(step)));
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if let Some(step) = self.step()
            && now.steady >= self.deadline
        {
            self.over(Event::Failed(Failure::Silent(step)));
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if let Some(set_up) = self.set_up.take() {
            self.set_up_said = now.steady;
            set_up.write(out);
            return true;
        }
        let mut message = Vec::with_capacity(Request::LEN);
        match &mut self.state {
            // One at a time: some servers read only one request.
            State::Request if self.asked.is_none() => {
                let Some(wish) = self.config.sessions.get(self.granted.len()).cloned() else { return false };
                let session = self.request(&wish, now);
                session.request.write(&mut message);
                self.connection.outgoing.put_signed(&message, out);
                message.clear();
                session.slots.iter().for_each(|slot| slot.write(&mut message));
                self.asked = Some(session);
            }
            State::Start if core::mem::take(&mut self.say_start) => write_start(&mut message),
            State::Running(running) => {
                let Some(stop) = running.poll_stop() else { return false };
                stop.write(&mut message);
                self.deadline = now.steady + self.config.patience;
                self.end_test(now);
            }
            State::Fetch(_) => {
                let Some(fetch) = self.say_fetch.take() else { return false };
                fetch.write(&mut message);
            }
            _ => return false,
        }
        self.connection.outgoing.put_signed(&message, out);
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        self.step().map(|_| self.deadline)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
