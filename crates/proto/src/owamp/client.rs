//! The control client (RFC 4656 §3): negotiates a mode, requests sessions, starts and stops them, and fetches
//! the server's records.

use super::fetch::{DataReader, Unusable};
use super::message::{FetchSession, ScheduleSlot, SentSummary};
use super::running::{BadStop, PeerSummary, RunningSessions, TestSide};
use super::sender::END_DELAY;
use super::session::{SessionData, TestSession};
pub use crate::amp::AmpFailure;
use crate::amp::connection::ConnectRequest;
use crate::amp::message::{AcceptSession, RequestSession, SHORT_LEN, command, write_start};
use crate::amp::setup::SetUp;
use crate::amp::{AcceptCode, AmpConnection, AmpStep, SecurityMode, Sid, TestKeys};
use crate::machine::{Machine, Tick};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Dscp, Span, SteadyTime, WallTime};
use std::collections::VecDeque;

/// Maximum number of buffered bytes: a Stop-Sessions message, or the data fetched by one read.
const MAX_UNREAD: usize = 8 << 20;
/// Maximum time for which a test may exceed its schedule.
const MAX_OVERRUN: Span = Span::seconds(60);
/// Default timeout of a session, to which the duration of the set-up is added, as in owping.
const LOSS_TIMEOUT: Span = Span::seconds(2);

/// Specification of a session to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwampSessionSpec {
    /// Direction of the packets. Up: this end sends. Down: this end receives.
    pub direction: Direction,
    /// Address and port of this end. An unspecified address means that of the control connection, and the requests then
    /// leave the server's address open, too; this also works with address translation.
    pub near: SocketAddr,
    /// Address of the server.
    pub far: IpAddr,
    /// Number of packets.
    pub packets: u32,
    /// Schedule of the packets.
    pub slots: Vec<ScheduleSlot>,
    /// Number of padding bytes after the fields of a test packet.
    pub padding: u32,
    /// Time after which a packet counts as lost; `None`: two seconds plus the duration of the set-up.
    pub timeout: Option<Span>,
    /// DSCP of the packets.
    pub dscp: Dscp,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct OwampOptions {
    /// Security mode; `None`: the strongest that both sides support. With a passphrase: encrypted, otherwise
    /// authenticated. Without a passphrase: open.
    pub mode: Option<SecurityMode>,
    /// Name and passphrase for the keyed modes; `None`: no user.
    pub user: Option<(String, Vec<u8>)>,
    /// Sessions to request on one connection, all with the same start time. The server's records of these
    /// sessions are fetched.
    pub sessions: Vec<OwampSessionSpec>,
    /// Time from the requests to the start of the sessions, in addition to one round trip for each message in
    /// between.
    pub lead: Span,
    /// Start of the sessions; `None` for as soon as possible. Sessions start later if the lead time has not passed by
    /// then.
    pub start: Option<WallTime>,
    /// Data of earlier sessions to fetch.
    pub fetches: Vec<FetchSession>,
    /// Maximum number of records to read per fetched session.
    pub most_records: usize,
    /// Timeout for the server to complete each step.
    pub step_timeout: Span,
    /// Random bytes for the keys of the connection.
    pub random: [u8; 64],
    /// Random bytes in the identifiers of sessions that this end receives; n is added for the n-th
    /// identifier.
    pub sid: [u8; 4],
}

/// Input of a client.
#[derive(Clone, Debug)]
pub enum OwampClientInput<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection was closed.
    Closed,
    /// Start the test. Accepted once the server has accepted all sessions.
    Start,
    /// One end of a session has nothing more to send or to wait for.
    Complete(Sid),
    /// A sender has ended after [`OwampClientEvent::StopSending`].
    Sent(SentSummary),
    /// End the test early, and fetch the results so far.
    Stop,
}

/// A session that the server has accepted.
#[derive(Clone, Debug)]
pub struct OwampGrant {
    /// Index of the session in the request.
    pub index: usize,
    /// The session with the accepted parameters.
    pub session: TestSession,
    /// Address and port of the other end of the session.
    pub far: SocketAddr,
    /// Keys of the packets; `None` if the mode does not protect them.
    pub keys: Option<TestKeys>,
}

/// Report or request of a client.
#[derive(Clone, Debug)]
pub enum OwampClientEvent {
    /// The connection was set up in this mode.
    Mode(SecurityMode),
    /// A session was accepted. Its packets may arrive at any time.
    Granted(Box<OwampGrant>),
    /// All sessions were accepted. [`OwampClientInput::Start`] starts the test.
    Ready,
    /// The sessions have started, each with its own schedule.
    Started,
    /// End all sending. Answered by [`OwampClientInput::Sent`] for each sender.
    StopSending,
    /// A session that this end receives was stopped and must be finished.
    Received(PeerSummary),
    /// Records of a session, or the reason why they are not available.
    Fetched(Sid, Box<Result<SessionData, Unusable>>),
    /// The conversation ended normally; the connection may be closed.
    Over,
    /// The conversation failed; the connection must be closed.
    Failed(AmpFailure),
}

#[derive(Debug)]
enum OwampClientState {
    Greeting,
    SetUp,
    Request,
    Granted,
    Start,
    Running(RunningSessions),
    Fetch(DataReader),
    Over,
}

/// Client of one control connection.
#[derive(Debug)]
pub struct Client {
    config: OwampOptions,
    state: OwampClientState,
    deadline: SteadyTime,
    connection: AmpConnection,
    set_up: Option<SetUp>,
    /// Time at which Set-Up-Response was sent.
    set_up_sent: SteadyTime,
    /// Time from sending Set-Up-Response to its answer.
    round_trip: Span,
    /// Start time of the sessions; `None` before the first request.
    start: Option<NtpTime>,
    /// Request that has not been answered yet; `None` if there is none.
    asked: Option<TestSession>,
    granted: Vec<TestSession>,
    say_start: bool,
    /// True if the test must end as soon as it has started.
    stop: bool,
    fetches: VecDeque<(FetchSession, usize)>,
    say_fetch: Option<FetchSession>,
    events: VecDeque<OwampClientEvent>,
}

impl Client {
    /// Creates a client whose connection was established at `now`.
    pub fn new(config: OwampOptions, now: Tick) -> Client {
        let fetches = config.fetches.iter().map(|fetch| (*fetch, config.most_records)).collect();
        Client {
            deadline: now.steady + config.step_timeout,
            config,
            state: OwampClientState::Greeting,
            connection: AmpConnection::default(),
            set_up: None,
            set_up_sent: now.steady,
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

    fn step(&self) -> Option<AmpStep> {
        Some(match &self.state {
            OwampClientState::Greeting => AmpStep::Greeting,
            OwampClientState::SetUp => AmpStep::SetUp,
            OwampClientState::Request => AmpStep::Request,
            OwampClientState::Granted => AmpStep::Granted,
            OwampClientState::Start => AmpStep::Start,
            OwampClientState::Running(running) if running.has_sent_stop() => AmpStep::Stop,
            OwampClientState::Running(_) => AmpStep::Running,
            OwampClientState::Fetch(_) => AmpStep::Fetch,
            OwampClientState::Over => return None,
        })
    }

    fn enter(&mut self, state: OwampClientState, now: Tick) {
        self.state = state;
        self.deadline = now.steady + self.config.step_timeout;
    }

    fn over(&mut self, event: OwampClientEvent) {
        self.state = OwampClientState::Over;
        self.events.push_back(event);
    }

    /// Reads one message; returns `Ok(false)` if the message is not complete yet.
    fn advance(&mut self, now: Tick) -> Result<bool, AmpFailure> {
        let Some(step) = self.step() else { return Ok(false) };
        let incoming = &mut self.connection.incoming;
        match &mut self.state {
            OwampClientState::Greeting => {
                let wanted = ConnectRequest {
                    mode: self.config.mode,
                    keyed: &[SecurityMode::Encrypted, SecurityMode::Authenticated],
                    user: self.config.user.as_ref(),
                    random: &self.config.random,
                };
                self.set_up = self.connection.read_greeting(&wanted)?;
                if self.set_up.is_none() {
                    return Ok(false);
                }
                self.enter(OwampClientState::SetUp, now);
            }
            OwampClientState::SetUp => {
                if !self.connection.read_server_start()? {
                    return Ok(false);
                }
                self.round_trip = now.steady - self.set_up_sent;
                self.events.push_back(OwampClientEvent::Mode(self.connection.mode()));
                if self.config.sessions.is_empty() {
                    self.fetch_next(now);
                } else {
                    self.enter(OwampClientState::Request, now);
                }
            }
            OwampClientState::Request => {
                let Some(message) = incoming.take_signed(AcceptSession::LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| AmpFailure::Forged(step))?;
                let answer = AcceptSession::parse(&bytes).map_err(|_| AmpFailure::Unexpected(step))?;
                let session = self.asked.take().ok_or(AmpFailure::Unexpected(step))?;
                self.grant(session, &answer)?;
                if self.granted.len() == self.config.sessions.len() {
                    self.events.push_back(OwampClientEvent::Ready);
                    self.enter(OwampClientState::Granted, now);
                    // The caller decides when to start, but only within this limit.
                    self.deadline = now.steady + self.longest(now.wall);
                } else {
                    self.enter(OwampClientState::Request, now);
                }
            }
            OwampClientState::Start => {
                let Some(message) = incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| AmpFailure::Forged(step))?;
                let accept = bytes.first().map_or(AcceptCode::Failure, |b| AcceptCode::from(*b));
                if accept != AcceptCode::Ok {
                    return Err(AmpFailure::Refused { step, accept });
                }
                self.events.push_back(OwampClientEvent::Started);
                self.state =
                    OwampClientState::Running(RunningSessions::new(TestSide::Client, self.granted.iter()));
                self.deadline = now.steady + self.longest(now.wall);
                if self.stop {
                    self.stop_sending();
                }
            }
            OwampClientState::Running(running) => {
                match incoming.first() {
                    Some(command::STOP) if !running.has_peer_stopped() => {}
                    None => return Ok(false),
                    Some(_) => return Err(AmpFailure::Unexpected(step)),
                }
                if running.begin_peer_stop(now.wall) {
                    self.deadline = now.steady + self.config.step_timeout;
                    if running.stop() {
                        self.events.push_back(OwampClientEvent::StopSending);
                    }
                }
                let received = running.read(incoming).map_err(|bad| match bad {
                    BadStop::Forged => AmpFailure::Forged(step),
                    BadStop::Senseless => AmpFailure::Unexpected(step),
                })?;
                let Some(received) = received else { return Ok(false) };
                self.events.extend(received.into_iter().map(OwampClientEvent::Received));
                self.end_test(now);
            }
            OwampClientState::Fetch(reader) => {
                let sid = reader.sid();
                let before = incoming.len();
                let read = reader.poll(incoming);
                // Many records take long to arrive, so only silence is a failure.
                if incoming.len() < before {
                    self.deadline = now.steady + self.config.step_timeout;
                }
                match read {
                    Ok(None) => return Ok(false),
                    Err(Unusable::Forged) => return Err(AmpFailure::Forged(step)),
                    Err(Unusable::Other | Unusable::TooMany) => return Err(AmpFailure::Unexpected(step)),
                    Ok(Some(data)) => {
                        self.events.push_back(OwampClientEvent::Fetched(sid, Box::new(Ok(data))));
                    }
                    Err(refused) => {
                        self.events.push_back(OwampClientEvent::Fetched(sid, Box::new(Err(refused))));
                    }
                }
                self.fetch_next(now);
            }
            OwampClientState::Granted => {
                if incoming.is_empty() {
                    return Ok(false);
                }
                return Err(AmpFailure::Unexpected(step));
            }
            OwampClientState::Over => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the time until the test should be over, with a margin.
    fn longest(&self, now: WallTime) -> Span {
        let wait = self.start.map_or(Span::ZERO, |start| start.to_nanos(now) - now);
        let longest = self.granted.iter().map(TestSession::longest).max().unwrap_or(Span::ZERO);
        wait.max(Span::ZERO) + longest + END_DELAY + MAX_OVERRUN
    }

    fn grant(&mut self, mut session: TestSession, answer: &AcceptSession) -> Result<(), AmpFailure> {
        match answer.accept {
            AcceptCode::Ok if answer.port == 0 => return Err(AmpFailure::NoPort),
            AcceptCode::Ok => {}
            accept => return Err(AmpFailure::Refused { step: AmpStep::Request, accept }),
        }
        let index = self.granted.len();
        session = session.with_server_port(answer.port);
        // This end sends, so only the server has the records of this session.
        if session.direction() == Some(Direction::Up) {
            session.request.sid = answer.sid;
            let most = (session.request.packets as usize).saturating_mul(2).saturating_add(1024);
            self.fetches.push_back((FetchSession::whole(answer.sid), most));
        }
        let far = SocketAddr::new(self.config.sessions[index].far, answer.port);
        let keys = self.connection.test_keys(&session.sid());
        self.granted.push(session.clone());
        self.events.push_back(OwampClientEvent::Granted(Box::new(OwampGrant { index, session, far, keys })));
        Ok(())
    }

    fn request(&mut self, spec: &OwampSessionSpec, now: Tick) -> TestSession {
        // One round trip per request, and one for Start-Sessions.
        let messages = self.config.sessions.len() as i64 + 1;
        let lead = self.config.lead + self.round_trip.times(messages);
        // All sessions of a test start at the same time.
        let soonest = now.wall + lead;
        let start = self.config.start.map_or(soonest, |start| start.max(soonest));
        let start = *self.start.get_or_insert(NtpTime::from(start));
        let timeout = spec.timeout.unwrap_or(LOSS_TIMEOUT + self.round_trip);
        let far = SocketAddr::new(if spec.near.ip().is_unspecified() { spec.near.ip() } else { spec.far }, 0);
        let (sender, receiver, sid) = match spec.direction {
            Direction::Up => (spec.near, far, Sid::NONE),
            Direction::Down => {
                let count = u32::from_be_bytes(self.config.sid).wrapping_add(self.granted.len() as u32);
                (far, spec.near, Sid::new(spec.near.ip(), NtpTime::from(now.wall), count.to_be_bytes()))
            }
        };
        let request = RequestSession {
            command: command::REQUEST_SESSION,
            version: if spec.far.is_ipv6() { 6 } else { 4 },
            conf_sender: (spec.direction == Direction::Down).into(),
            conf_receiver: (spec.direction == Direction::Up).into(),
            slots: spec.slots.len() as u32,
            packets: spec.packets,
            sender_port: sender.port(),
            receiver_port: receiver.port(),
            sender: sender.ip(),
            receiver: receiver.ip(),
            sid,
            padding: spec.padding,
            start,
            timeout: NtpTime::from_span(timeout),
            type_p: u32::from(spec.dscp.value()) << 24,
        };
        TestSession { request, slots: spec.slots.clone() }
    }

    /// Ends the test once both sides have sent Stop-Sessions.
    fn end_test(&mut self, now: Tick) {
        let OwampClientState::Running(running) = &self.state else { return };
        if running.is_over() {
            self.fetch_next(now);
        }
    }

    fn fetch_next(&mut self, now: Tick) {
        match self.fetches.pop_front() {
            Some((fetch, most_records)) => {
                self.say_fetch = Some(fetch);
                self.enter(OwampClientState::Fetch(DataReader::new(fetch.sid, most_records)), now);
            }
            None => self.over(OwampClientEvent::Over),
        }
    }

    fn stop_sending(&mut self) {
        if let OwampClientState::Running(running) = &mut self.state
            && running.stop()
        {
            self.events.push_back(OwampClientEvent::StopSending);
        }
    }
}

impl Machine for Client {
    type Input<'a> = OwampClientInput<'a>;
    type Event = OwampClientEvent;

    fn handle(&mut self, now: Tick, input: OwampClientInput<'_>) {
        let Some(step) = self.step() else { return };
        match input {
            OwampClientInput::Bytes(bytes) => self.connection.incoming.feed(bytes),
            OwampClientInput::Closed => return self.over(OwampClientEvent::Failed(AmpFailure::Closed(step))),
            OwampClientInput::Start => {
                if step == AmpStep::Granted {
                    self.say_start = true;
                    self.enter(OwampClientState::Start, now);
                }
            }
            OwampClientInput::Complete(sid) => {
                if let OwampClientState::Running(running) = &mut self.state
                    && running.complete(sid)
                {
                    self.events.push_back(OwampClientEvent::StopSending);
                }
            }
            OwampClientInput::Sent(summary) => {
                if let OwampClientState::Running(running) = &mut self.state {
                    running.sent(summary);
                }
            }
            OwampClientInput::Stop => match self.state {
                OwampClientState::Running(_) => self.stop_sending(),
                OwampClientState::Start => self.stop = true,
                // The test is already over; its results are still fetched.
                OwampClientState::Fetch(_) => {}
                // No session is running, so there is no Stop-Sessions to send.
                _ => return self.over(OwampClientEvent::Over),
            },
        }
        loop {
            match self.advance(now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => return self.over(OwampClientEvent::Failed(failure)),
            }
        }
        if self.connection.incoming.len() > MAX_UNREAD
            && let Some(step) = self.step()
        {
            self.over(OwampClientEvent::Failed(AmpFailure::Unexpected(step)));
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if let Some(step) = self.step()
            && now.steady >= self.deadline
        {
            self.over(OwampClientEvent::Failed(AmpFailure::Silent(step)));
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if let Some(set_up) = self.set_up.take() {
            self.set_up_sent = now.steady;
            set_up.write(out);
            return true;
        }
        let mut message = Vec::with_capacity(RequestSession::LEN);
        match &mut self.state {
            // One request at a time, because some servers read only one.
            OwampClientState::Request if self.asked.is_none() => {
                let Some(spec) = self.config.sessions.get(self.granted.len()).cloned() else { return false };
                let session = self.request(&spec, now);
                session.request.write(&mut message);
                self.connection.outgoing.put_signed(&message, out);
                message.clear();
                session.slots.iter().for_each(|slot| slot.write(&mut message));
                self.asked = Some(session);
            }
            OwampClientState::Start if core::mem::take(&mut self.say_start) => write_start(&mut message),
            OwampClientState::Running(running) => {
                let Some(stop) = running.poll_stop() else { return false };
                stop.write(&mut message);
                self.deadline = now.steady + self.config.step_timeout;
                self.end_test(now);
            }
            OwampClientState::Fetch(_) => {
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

    fn poll_event(&mut self) -> Option<OwampClientEvent> {
        self.events.pop_front()
    }
}
