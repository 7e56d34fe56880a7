//! The control client (RFC 5357 §3): agrees on a mode, asks for sessions, starts and stops them.

use crate::machine::{Machine, Tick};
use crate::twamp::crypto::{FEWEST_ROUNDS, Incoming, MOST_ROUNDS, Outgoing, SessionKeys, derive};
use crate::twamp::message::{
    Accept, AcceptSession, Greeting, Mode, Modes, Request, SHORT_LEN, ServerStart, SetUp, Sid, write_start,
    write_stop,
};
use crate::twamp::sender::layout;
use crate::twamp::{TestKeys, users};
use core::fmt;
use core::net::IpAddr;
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Dscp, Span, SteadyTime};
use std::collections::VecDeque;

/// One session to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Port the test packets come from.
    pub sender_port: u16,
    /// Port wished for at the reflector; it may grant another.
    pub receiver_port: u16,
    /// Addresses of the sender and the reflector; unspecified ones mean those of the control connection,
    /// which is what works behind address translation.
    pub addresses: (IpAddr, IpAddr),
    /// Bytes of a request. Many servers take none shorter than their answers; see
    /// [`least_size`](crate::twamp::sender::least_size).
    pub size: usize,
    /// Code point of the packets both ways.
    pub dscp: Dscp,
    /// How long after the stop late packets are still to be answered.
    pub timeout: Span,
}

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The mode to use; `None` = the strongest that both sides can: with a passphrase encrypted, then
    /// authenticated, then mixed, without one open.
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

/// What was under way when a conversation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Waiting for Server-Greeting.
    Greeting,
    /// Waiting for Server-Start.
    SetUp,
    /// Waiting for Accept-Session.
    Request,
    /// All sessions granted, not started yet.
    Granted,
    /// Waiting for Start-Ack.
    Start,
    /// The test runs.
    Running,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Greeting => "waiting for its greeting",
            Step::SetUp => "agreeing on a mode",
            Step::Request => "asking for a session",
            Step::Granted => "the session was granted and not started yet",
            Step::Start => "starting the session",
            Step::Running => "the test ran",
        })
    }
}

/// Why a conversation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The greeting offers no mode at all.
    #[error(
        "the server turns every client away (its greeting offers no mode): is this address allowed there?"
    )]
    Unwelcome,
    /// The modes do not meet.
    #[error("the server offers the modes {offered}; {}{hint}", not_possible(*.wanted))]
    NoCommonMode {
        /// What the greeting says.
        offered: Modes,
        /// What was asked for.
        wanted: Option<Mode>,
        /// What to try.
        hint: &'static str,
    },
    /// Not TWAMP, or a server that wants too much work.
    #[error("the server asks for {0} rounds of key derivation; between 1024 and 32768 are done")]
    Rounds(u32),
    /// The server says no.
    #[error("refused while {step}: {accept}{}", hint(*.step, *.accept))]
    Refused {
        /// To what.
        step: Step,
        /// How.
        accept: Accept,
    },
    /// A granted session without a port to send to.
    #[error("the server granted a session on port 0, where nothing can be sent")]
    NoPort,
    /// The HMAC of a message is wrong.
    #[error("a message of the server is not signed with the keys of this connection (while {0})")]
    Forged(Step),
    /// More than was asked for.
    #[error("the server sends what nobody asked for (while {0}): does it speak TWAMP?")]
    Unasked(Step),
    /// No word in time.
    #[error("no answer in time (while {0}): does a TWAMP server listen there?")]
    Silent(Step),
    /// The server hung up.
    #[error("the server closed the connection (while {0}){hint}", hint = closed_hint(*.0))]
    Closed(Step),
}

fn not_possible(wanted: Option<Mode>) -> String {
    wanted.map_or("none that can be used".to_owned(), |mode| format!("{mode} is not possible"))
}

fn hint(step: Step, accept: Accept) -> &'static str {
    match (step, accept) {
        (Step::SetUp, Accept::Failure) => "; are the user and the passphrase right?",
        (Step::Request, Accept::Unsupported) => {
            "; does it take this mark (-D) and this size (-l; routers ask for 41 bytes at least)?"
        }
        _ => "",
    }
}

fn closed_hint(step: Step) -> &'static str {
    match step {
        Step::Greeting => ": is this address allowed there?",
        Step::SetUp => ": does it take this mode and this user?",
        _ => "",
    }
}

/// What a client is told.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Bytes came on the control connection.
    Bytes(&'a [u8]),
    /// The connection is closed.
    Closed,
    /// Begin the test; taken once all sessions are granted.
    Start,
    /// End the test.
    Stop,
}

/// A granted session.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Which of the wishes.
    pub index: usize,
    /// Where its packets go.
    pub port: u16,
    /// Its name.
    pub sid: Sid,
    /// Its keys, where the mode protects test packets.
    pub keys: Option<TestKeys>,
}

/// What a client reports.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection is set up in this mode.
    Mode(Mode),
    /// A session is granted.
    Granted(Granted),
    /// All are: [`Input::Start`] begins.
    Ready,
    /// Packets are answered from now on.
    Started,
    /// The conversation is over as planned; the connection may be closed.
    Over,
    /// It failed; the connection is to be closed.
    Failed(Failure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    At(Step),
    Over,
}

/// One control conversation.
#[derive(Debug)]
pub struct Client {
    config: Config,
    state: State,
    deadline: SteadyTime,
    mode: Mode,
    keys: Option<SessionKeys>,
    incoming: Incoming,
    outgoing: Outgoing,
    set_up: Option<SetUp>,
    /// Wishes told to the server, and granted by it.
    asked: usize,
    granted: usize,
    say_start: bool,
    say_stop: bool,
    events: VecDeque<Event>,
}

/// A client has no part in how long a test is; a conversation in which nothing happens ends all the same.
const LONGEST: Span = Span::seconds(32 * 86_400);

impl Client {
    /// A client whose connection is open since `now`.
    pub fn new(config: Config, now: Tick) -> Client {
        Client {
            deadline: now.steady + config.patience,
            config,
            state: State::At(Step::Greeting),
            mode: Mode::Open,
            keys: None,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            set_up: None,
            asked: 0,
            granted: 0,
            say_start: false,
            say_stop: false,
            events: VecDeque::new(),
        }
    }

    fn at(&mut self, step: Step, now: Tick) {
        self.state = State::At(step);
        let patience = match step {
            Step::Granted | Step::Running => LONGEST,
            _ => self.config.patience,
        };
        self.deadline = now.steady + patience;
    }

    fn fail(&mut self, failure: Failure) {
        self.state = State::Over;
        self.events.push_back(Event::Failed(failure));
    }

    /// Reads one message, if it is all there. `Ok(false)`: not yet.
    fn advance(&mut self, step: Step, now: Tick) -> Result<bool, Failure> {
        match step {
            Step::Greeting => {
                let Some(bytes) = self.incoming.take(Greeting::LEN) else { return Ok(false) };
                let greeting = Greeting::parse(&bytes).map_err(|_| Failure::Unasked(step))?;
                self.greeted(&greeting)?;
                self.at(Step::SetUp, now);
            }
            Step::SetUp => {
                if self.incoming.len() < ServerStart::LEN + ServerStart::TIME_LEN {
                    return Ok(false);
                }
                let Some(bytes) = self.incoming.take(ServerStart::LEN) else { return Ok(false) };
                let start = ServerStart::parse(&bytes).map_err(|_| Failure::Unasked(step))?;
                if start.accept != Accept::Ok {
                    return Err(Failure::Refused { step, accept: start.accept });
                }
                if let Some(keys) = &self.keys {
                    self.incoming.protect(keys, &start.server_iv);
                }
                self.incoming.take(ServerStart::TIME_LEN);
                self.events.push_back(Event::Mode(self.mode));
                self.at(Step::Request, now);
            }
            Step::Request => {
                let Some(message) = self.incoming.take_signed(AcceptSession::LEN) else { return Ok(false) };
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
                let Some(message) = self.incoming.take_signed(SHORT_LEN) else { return Ok(false) };
                let bytes = message.map_err(|_| Failure::Forged(step))?;
                let accept = bytes.first().map_or(Accept::Failure, |b| Accept::from(*b));
                if accept != Accept::Ok {
                    return Err(Failure::Refused { step, accept });
                }
                self.events.push_back(Event::Started);
                self.at(Step::Running, now);
            }
            Step::Granted | Step::Running => {
                if self.incoming.is_empty() {
                    return Ok(false);
                }
                return Err(Failure::Unasked(step));
            }
        }
        Ok(true)
    }

    /// Chooses the mode and makes the answer.
    fn greeted(&mut self, greeting: &Greeting) -> Result<(), Failure> {
        if greeting.modes == Modes::default() {
            return Err(Failure::Unwelcome);
        }
        let chosen = match (self.config.mode, &self.config.user) {
            (Some(mode), user) => {
                Some(mode).filter(|m| greeting.modes.contains(*m) && (user.is_some() || !m.is_keyed()))
            }
            (None, Some(_)) => [Mode::Encrypted, Mode::Authenticated, Mode::Mixed]
                .into_iter()
                .find(|m| greeting.modes.contains(*m)),
            (None, None) => Some(Mode::Open).filter(|m| greeting.modes.contains(*m)),
        };
        let Some(mode) = chosen else {
            let hint = match (&self.config.user, greeting.modes.contains(Mode::Open)) {
                (None, _) => ": give a user and a passphrase",
                (Some(_), true) => ": leave the passphrase out",
                (Some(_), false) => "",
            };
            return Err(Failure::NoCommonMode { offered: greeting.modes, wanted: self.config.mode, hint });
        };
        self.mode = mode;
        let Some((name, passphrase)) = self.config.user.as_ref().filter(|_| mode.is_keyed()) else {
            self.set_up = Some(SetUp::open());
            return Ok(());
        };
        if !(FEWEST_ROUNDS..=MOST_ROUNDS).contains(&greeting.count) {
            return Err(Failure::Rounds(greeting.count));
        }
        let (mut aes, mut hmac, mut client_iv) = ([0; 16], [0; 32], [0; 16]);
        aes.copy_from_slice(&self.config.random[..16]);
        hmac.copy_from_slice(&self.config.random[16..48]);
        client_iv.copy_from_slice(&self.config.random[48..]);
        let keys = SessionKeys { aes, hmac };
        let key = derive(passphrase, &greeting.salt, greeting.count);
        let token = keys.token(&key, &greeting.challenge);
        self.set_up = Some(SetUp { mode: mode as u32, user: users::field(name), token, client_iv });
        self.keys = Some(keys);
        Ok(())
    }

    fn grant(&mut self, answer: &AcceptSession) -> Result<(), Failure> {
        match answer.accept {
            Accept::Ok if answer.port == 0 => return Err(Failure::NoPort),
            Accept::Ok => {}
            accept => return Err(Failure::Refused { step: Step::Request, accept }),
        }
        let keys = self.keys.as_ref().and_then(|k| TestKeys::new(self.mode, k, &answer.sid));
        let granted = Granted { index: self.granted, port: answer.port, sid: answer.sid, keys };
        self.events.push_back(Event::Granted(granted));
        self.granted += 1;
        Ok(())
    }

    fn request(&self, wish: &Wish, now: Tick) -> Request {
        let (sender, receiver) = wish.addresses;
        Request {
            version: if receiver.is_ipv6() { 6 } else { 4 },
            conf: [0; 2],
            slots: 0,
            packets: 0,
            sender_port: wish.sender_port,
            receiver_port: wish.receiver_port,
            sender,
            receiver,
            padding: wish.size.saturating_sub(layout(self.mode).shortest_request()) as u32,
            // Some servers hold a session back until this time by their own clock: no later than now.
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
        let State::At(step) = self.state else { return };
        match input {
            Input::Bytes(bytes) => self.incoming.feed(bytes),
            Input::Closed => return self.fail(Failure::Closed(step)),
            Input::Start if step == Step::Granted => {
                self.say_start = true;
                self.at(Step::Start, now);
            }
            Input::Stop if step == Step::Running => self.say_stop = true,
            Input::Start => {}
            // Nothing runs: there is nothing to say.
            Input::Stop => {
                self.state = State::Over;
                self.events.push_back(Event::Over);
            }
        }
        while let State::At(step) = self.state {
            match self.advance(step, now) {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => self.fail(failure),
            }
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if let State::At(step) = self.state
            && now.steady >= self.deadline
        {
            self.fail(Failure::Silent(step));
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let State::At(step) = self.state else { return false };
        if let Some(set_up) = self.set_up.take() {
            set_up.write(out);
            if let Some(keys) = &self.keys {
                self.outgoing.protect(keys, &set_up.client_iv);
            }
            return true;
        }
        let mut message = Vec::with_capacity(Request::LEN);
        match step {
            // One at a time: some servers read no further than one request.
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
                self.state = State::Over;
                self.events.push_back(Event::Over);
            }
            _ => return false,
        }
        self.outgoing.put_signed(&message, out);
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        (self.state != State::Over).then_some(self.deadline)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
