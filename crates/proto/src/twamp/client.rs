//! The control client (RFC 5357 §3): negotiates a mode, requests sessions, starts and stops them.

use crate::amp::connection::Wanted;
use crate::amp::message::{Accept, AcceptSession, Request, SHORT_LEN, command, write_start, write_stop};
use crate::amp::setup::SetUp;
use crate::amp::{Connection, Mode, Sid, TestKeys};
pub use crate::amp::{Failure, Step};
use crate::machine::{Machine, Tick};
use crate::twamp::sender::layout;
use core::net::IpAddr;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Dscp, Span, SteadyTime};
use std::collections::VecDeque;

/// A session to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Port the test packets come from.
    pub sender_port: u16,
    /// Requested port at the reflector; it may grant another.
    pub receiver_port: u16,
    /// Addresses of the sender and the reflector; unspecified ones mean those of the control connection, which also
    /// works with address translation.
    pub addresses: (IpAddr, IpAddr),
    /// Bytes of a request. Many servers accept none shorter than their answers; see
    /// [`least_size`](crate::twamp::sender::least_size).
    pub size: usize,
    /// Code point of the packets both ways.
    pub dscp: Dscp,
    /// How long after the stop late packets are still answered.
    pub timeout: Span,
}

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The mode to use; `None` = the strongest that both sides support: with a passphrase encrypted, then
    /// authenticated, then mixed; without one open.
    pub mode: Option<Mode>,
    /// Name and passphrase for the keyed modes.
    pub user: Option<(String, Vec<u8>)>,
    /// Sessions to ask for, on one connection.
    pub sessions: Vec<Wish>,
    /// How long the server may take for each step.
    pub patience: Span,
    /// Random bytes for the keys of the connection.
    pub random: [u8; 64],
}

impl Config {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            mode: self.mode,
            keyed: &[Mode::Encrypted, Mode::Authenticated, Mode::Mixed],
            user: self.user.as_ref(),
            random: &self.random,
        }
    }
}

/// An input of a client.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Bytes were received on the control connection.
    Bytes(&'a [u8]),
    /// The connection is closed.
    Closed,
    /// Begin the test; accepted once all sessions are granted.
    Start,
    /// End the test.
    Stop,
}

/// A granted session.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Index of the request.
    pub index: usize,
    /// Where its packets go.
    pub port: u16,
    /// Its identifier.
    pub sid: Sid,
    /// Its keys; `None` if the mode does not protect test packets.
    pub keys: Option<TestKeys>,
}

/// A report of a client.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection is set up in this mode.
    Mode(Mode),
    /// A session is granted.
    Granted(Granted),
    /// All are granted: [`Input::Start`] begins.
    Ready,
    /// Packets are answered from now on.
    Started,
    /// The conversation ended normally; the connection may be closed.
    Over,
    /// It failed; the connection is to be closed.
    Failed(Failure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControlState {
    At(Step),
    Over,
}

/// One control conversation.
#[derive(Debug)]
pub struct Client {
    config: Config,
    state: ControlState,
    deadline: SteadyTime,
    connection: Connection,
    set_up: Option<SetUp>,
    /// Number of requests sent, and granted.
    asked: usize,
    granted: usize,
    say_start: bool,
    say_stop: bool,
    events: VecDeque<Event>,
}

/// A client does not decide how long a test takes; a conversation in which nothing happens still has a limit.
const MAX_DURATION: Span = Span::seconds(32 * 86_400);

impl Client {
    /// A client whose connection is open since `now`.
    pub fn new(config: Config, now: Tick) -> Client {
        Client {
            deadline: now.steady + config.patience,
            config,
            state: ControlState::At(Step::Greeting),
            connection: Connection::default(),
            set_up: None,
            asked: 0,
            granted: 0,
            say_start: false,
            say_stop: false,
            events: VecDeque::new(),
        }
    }

    fn at(&mut self, step: Step, now: Tick) {
        self.state = ControlState::At(step);
        let patience = match step {
            Step::Granted | Step::Running => MAX_DURATION,
            _ => self.config.patience,
        };
        self.deadline = now.steady + patience;
    }

    fn fail(&mut self, failure: Failure) {
        self.state = ControlState::Over;
        self.events.push_back(Event::Failed(failure));
    }

    /// Reads one message, if it is complete. `Ok(false)`: not yet.
    fn advance(&mut self, step: Step, now: Tick) -> Result<bool, Failure> {
        match step {
            Step::Greeting => {
                self.set_up = self.connection.read_greeting(&self.config.wanted())?;
                if self.set_up.is_none() {
                    return Ok(false);
                }
                self.at(Step::SetUp, now);
            }
            Step::SetUp => {
                if !self.connection.read_server_start()? {
                    return Ok(false);
                }
                self.events.push_back(Event::Mode(self.connection.mode()));
                self.at(Step::Request, now);
            }
            Step::Request => {
                let Some(message) = self.connection.incoming.take_signed(AcceptSession::LEN) else {
                    return Ok(false);
                };
                let bytes = message.map_err(|_| Failure::Forged(step))?;
                let answer = AcceptSession::parse(&bytes).map_err(|_| Failure::Unasked(step))?;
                if self.granted >= self.asked {
                    return Err(Failure::Unasked(step));
                }
                self.grant(&answer)?;
                let next = if self.granted == self.config.sessions.len() {
                    self.events.push_back(Event::Ready);
                    Step::Granted
                } else {
                    Step::Request
                };
                self.at(next, now);
            }
            Step::Start => {
                let Some(message) = self.connection.incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| Failure::Forged(step))?;
                let accept = bytes.first().map_or(Accept::Failure, |b| Accept::from(*b));
                if accept != Accept::Ok {
                    return Err(Failure::Refused { step, accept });
                }
                self.events.push_back(Event::Started);
                self.at(Step::Running, now);
            }
            Step::Granted | Step::Running | Step::Stop | Step::Fetch => {
                if self.connection.incoming.is_empty() {
                    return Ok(false);
                }
                return Err(Failure::Unasked(step));
            }
        }
        Ok(true)
    }

    fn grant(&mut self, answer: &AcceptSession) -> Result<(), Failure> {
        match answer.accept {
            Accept::Ok if answer.port == 0 => return Err(Failure::NoPort),
            Accept::Ok => {}
            accept => return Err(Failure::Refused { step: Step::Request, accept }),
        }
        let keys = self.connection.test_keys(&answer.sid);
        let granted = Granted { index: self.granted, port: answer.port, sid: answer.sid, keys };
        self.events.push_back(Event::Granted(granted));
        self.granted += 1;
        Ok(())
    }

    fn request(&self, wish: &Wish, now: Tick) -> Request {
        let (sender, receiver) = wish.addresses;
        Request {
            version: if receiver.is_ipv6() { 6 } else { 4 },
            command: command::REQUEST_TW_SESSION,
            conf_sender: 0,
            conf_receiver: 0,
            slots: 0,
            packets: 0,
            sender_port: wish.sender_port,
            receiver_port: wish.receiver_port,
            sender,
            receiver,
            sid: Sid::NONE,
            padding: wish.size.saturating_sub(layout(self.connection.mode()).shortest_request()) as u32,
            // Some servers hold a session back until this time by their own clock: use a time that is not in the
            // future.
            start: NtpTime::from(now.wall),
            timeout: NtpTime::from_span(wish.timeout),
            type_p: u32::from(wish.dscp.value()) << 24,
        }
    }
}

impl Machine for Client {
    type Input<'a> = Input<'a>;
    type Event = Event;

    fn handle(&mut self, now: Tick, input: Input<'_>) {
        let ControlState::At(step) = self.state else { return };
        match input {
            Input::Bytes(bytes) => self.connection.incoming.feed(bytes),
            Input::Closed => return self.fail(Failure::Closed(step)),
            Input::Start if step == Step::Granted => {
                self.say_start = true;
                self.at(Step::Start, now);
            }
            Input::Stop if step == Step::Running => self.say_stop = true,
            Input::Start => {}
            // Nothing runs: there is nothing to send.
            Input::Stop => {
                self.state = ControlState::Over;
                self.events.push_back(Event::Over);
            }
        }
        while let ControlState::At(step) = self.state {
            match self.advance(step, now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => self.fail(failure),
            }
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if let ControlState::At(step) = self.state
            && now.steady >= self.deadline
        {
            self.fail(Failure::Silent(step));
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let ControlState::At(step) = self.state else { return false };
        if let Some(set_up) = self.set_up.take() {
            set_up.write(out);
            return true;
        }
        let mut message = Vec::with_capacity(Request::LEN);
        match step {
            // One at a time: some servers read only one request.
            Step::Request if self.asked == self.granted => {
                let Some(wish) = self.config.sessions.get(self.asked) else { return false };
                self.request(wish, now).write(&mut message);
                self.asked += 1;
            }
            Step::Start if self.say_start => {
                self.say_start = false;
                write_start(&mut message);
            }
            Step::Running if self.say_stop => {
                write_stop(Accept::Ok, self.granted as u32, &mut message);
                self.state = ControlState::Over;
                self.events.push_back(Event::Over);
            }
            _ => return false,
        }
        self.connection.outgoing.put_signed(&message, out);
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (self.state != ControlState::Over).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
