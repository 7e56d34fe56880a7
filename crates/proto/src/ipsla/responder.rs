//! [`Responder`]: opens ports for a while, and answers probes to them, in bounded memory. Answers are never longer than
//! requests, and no answer is itself a request that another responder would answer without end.

use super::auth::{AuthMode, IpslaKey, IpslaKeys};
use super::probe::ProbeForm;
use super::v1::{self, Operation, PortRequest};
use super::v2::{self, Answer, ControlMessage, Status};
use crate::access::{ClientAddress, answerable};
use crate::machine::Tick;
use crate::twoway::reflect::{RequestArrival, Silence};
use core::net::SocketAddr;
use core::ops::RangeInclusive;
use jitlat_core::ntp::TimeFormat;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;

/// Maximum memory per session, in bytes.
pub const SESSION_BYTES: u64 = 512;
/// Maximum number of answers to a request of version 2 and its repetitions. Answers look like requests, so that two
/// responders could otherwise exchange a forged one without end.
const MAX_REPEATS: u8 = 16;

/// Rules of a responder.
#[derive(Clone, Debug)]
pub struct ResponderRules {
    /// Keys; if there are any, only requests of version 2 that one of them has signed are granted.
    pub keys: IpslaKeys,
    /// Ports that may be opened, except [`SERVICE_PORTS`](super::SERVICE_PORTS).
    pub ports: RangeInclusive<u16>,
    /// Maximum number of open ports.
    pub open_ports: usize,
    /// Maximum time for which one request can open a port.
    pub duration: Span,
    /// Format of times in probes of version 2.
    pub format: TimeFormat,
    /// Maximum number of sessions at a time. A session belongs to a source address and port, and an open port.
    pub sessions: usize,
    /// Maximum number of sessions per client address (IPv6: per /64).
    pub sessions_per_client: usize,
}

impl Default for ResponderRules {
    fn default() -> ResponderRules {
        ResponderRules {
            keys: IpslaKeys::default(),
            ports: super::TEST_PORTS,
            open_ports: 64,
            duration: Span::seconds(86_400),
            format: TimeFormat::Ntp,
            sessions: 1024,
            sessions_per_client: 64,
        }
    }
}

impl ResponderRules {
    /// True if senders may ask for this port.
    pub fn may_open(&self, port: u16) -> bool {
        self.ports.contains(&port) && !super::SERVICE_PORTS.contains(&port)
    }
}

/// Test whose first probe was answered, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpslaTestStart {
    /// Open port.
    pub port: u16,
    /// Time for which the port was requested.
    pub duration: Span,
}

impl core::fmt::Display for IpslaTestStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a session on UDP {}, for {} s", self.port, self.duration.0.div_euclid(1_000_000_000))
    }
}

/// Numbers of the echoes that have been answered, so that each is answered only once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OnceWindow {
    highest: Option<u32>,
    /// Bit k is set if number highest − k was answered.
    answered: u64,
}

impl OnceWindow {
    /// Marks `number` as answered; returns true if it was not answered before. Numbers that are 64 or more below the highest
    /// one count as answered.
    fn take(&mut self, number: u32) -> bool {
        let ahead = self.highest.map_or(1, |highest| i64::from(number) - i64::from(highest));
        if ahead > 0 {
            let kept = u32::try_from(ahead).ok().and_then(|ahead| self.answered.checked_shl(ahead));
            self.answered = kept.unwrap_or(0) | 1;
            self.highest = Some(number);
            return true;
        }
        let bit = u32::try_from(-ahead).ok().and_then(|behind| 1u64.checked_shl(behind)).unwrap_or(0);
        let is_new = bit != 0 && self.answered & bit == 0;
        self.answered |= bit;
        is_new
    }
}

/// Identity of an operation's run: a request with the same identity is a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    V1(u8, Operation),
    V2(u32),
}

#[derive(Clone, Debug)]
struct IpslaSession {
    run: Run,
    number: u32,
    duration: Span,
    until: SteadyTime,
    /// Number of answers so far.
    answers: u32,
    echoes: OnceWindow,
    repeats: u8,
}

impl IpslaSession {
    fn is_used(&self) -> bool {
        self.answers > 0
    }
}

/// Opens a port; with port 0, any port that is allowed. Returns the port, or `None` if it is not available.
pub type OpenPort<'a> = &'a mut dyn FnMut(u16) -> Option<u16>;

/// Source of probes, and the port to which they are sent.
type SessionKey = (SocketAddr, u16);

/// Responder with its open ports and sessions.
#[derive(Debug)]
pub struct Responder {
    rules: ResponderRules,
    sessions: HashMap<SessionKey, IpslaSession>,
    per_client: HashMap<ClientAddress, usize>,
    /// Number of sessions of each open port.
    ports: HashMap<u16, usize>,
    /// Ports without a session whose sockets have not been closed yet.
    closing: Vec<u16>,
    /// Earliest time at which a session may end; `None` without sessions.
    next_end: Option<SteadyTime>,
    last_session: u32,
    begun: Option<IpslaTestStart>,
    /// Status of the latest request that was refused with an answer, until it is taken.
    refused: Option<Status>,
}

/// Reason not to open a port, as a status of version 2.
type Refusal = Status;

impl Responder {
    /// Creates a responder without open ports.
    pub fn new(rules: ResponderRules) -> Responder {
        Responder {
            rules,
            sessions: HashMap::new(),
            per_client: HashMap::new(),
            ports: HashMap::new(),
            closing: Vec::new(),
            next_end: None,
            last_session: 0,
            begun: None,
            refused: None,
        }
    }

    /// Returns the current number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the current number of open ports.
    pub fn open_ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns the test whose first probe was answered since the last call, if any.
    pub fn take_begun(&mut self) -> Option<IpslaTestStart> {
        self.begun.take()
    }

    /// Returns the status with which a request of version 2 was refused since the last call, if any.
    pub fn take_refused(&mut self) -> Option<Status> {
        self.refused.take()
    }

    /// Returns the earliest time at which a port may have to be closed; `None` if none is open.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        self.next_end
    }

    /// Ends the sessions whose time is over, and returns the ports whose sockets must now be closed.
    pub fn close_ports(&mut self, now: SteadyTime) -> Vec<u16> {
        if self.next_end.is_some_and(|end| now >= end) {
            let ended = self.sessions.iter().filter(|(_, session)| now >= session.until);
            let ended: Vec<SessionKey> = ended.map(|(key, _)| *key).collect();
            ended.into_iter().for_each(|key| self.remove(key));
            self.next_end = self.sessions.values().map(|session| session.until).min();
        }
        std::mem::take(&mut self.closing)
    }

    /// Handles a control message, and appends its answer to `out`. `open` opens a port that is not open yet.
    ///
    /// # Errors
    /// The reason why it is not answered.
    pub fn control(
        &mut self,
        message: &[u8],
        arrival: &RequestArrival,
        now: Tick,
        open: OpenPort<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Silence> {
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        match message.first() {
            Some(&v1::VERSION) => self.control_v1(message, arrival.from, now.steady, open, out),
            Some(&v2::VERSION) => self.control_v2(message, arrival.from, now, open, out),
            _ => Err(Silence::Foreign),
        }
    }

    /// Version 1 has no known way to refuse a request, so that a request that is not granted is not answered.
    fn control_v1(
        &mut self,
        message: &[u8],
        from: SocketAddr,
        now: SteadyTime,
        open: OpenPort<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Silence> {
        let request = PortRequest::parse(message).ok_or(Silence::Foreign)?;
        if request.signed || !self.rules.keys.is_empty() {
            return Err(Silence::Forged);
        }
        if request.port == 0 {
            return Err(Silence::Foreign);
        }
        let run = Run::V1(request.seq, request.operation);
        self.admit((from, request.port), run, request.duration, now, open).map_err(|why| match why {
            Status::PortInUse => Silence::Limited,
            _ => Silence::Unwanted,
        })?;
        PortRequest::accept(message, out);
        Ok(())
    }

    fn control_v2(
        &mut self,
        message: &[u8],
        from: SocketAddr,
        now: Tick,
        open: OpenPort<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Silence> {
        let refuse = |status| Answer { status, session: 0, port: 0 };
        let request = match ControlMessage::parse(message) {
            Ok(request) => request,
            Err(None) => return Err(Silence::Foreign),
            // A refusal has a status, and is never answered.
            Err(Some(_)) if message.get(2..4) != Some(&[0, 0]) => return Err(Silence::Loop),
            Err(Some(status)) => {
                self.refused = Some(status);
                refuse(status).write(message, now.wall, None, out);
                return Ok(());
            }
        };
        if request.status != [0; 2] {
            return Err(Silence::Loop);
        }
        let Ok(key) = self.verify(&request, message) else {
            self.refused = Some(Status::Authentication);
            refuse(Status::Authentication).write(message, now.wall, None, out);
            return Ok(());
        };
        // Probes may come from another port than control messages.
        let port = match request.probes.0.port() {
            0 => from.port(),
            port => port,
        };
        let client = SocketAddr::new(from.ip(), port);
        if !answerable(client) {
            return Err(Silence::Source);
        }
        let admitted = self.admit(
            (client, request.probes.1.port()),
            Run::V2(request.seq),
            request.duration,
            now.steady,
            open,
        );
        let answer = match admitted {
            Ok((port, session)) => Answer { status: Status::Success, session, port },
            Err(Status::Success) => return Err(Silence::Loop),
            Err(status) => {
                self.refused = Some(status);
                refuse(status)
            }
        };
        answer.write(message, now.wall, key.as_ref().map(|(mode, key)| (*mode, key)), out);
        Ok(())
    }

    /// Returns the key that has signed `message`; `None` if no key is required.
    fn verify(
        &self,
        request: &ControlMessage,
        message: &[u8],
    ) -> Result<Option<(AuthMode, IpslaKey)>, Refusal> {
        if self.rules.keys.is_empty() {
            return if request.auth.is_none() { Ok(None) } else { Err(Status::Authentication) };
        }
        let (mode, id) = request.auth.ok_or(Status::Authentication)?;
        let key = self.rules.keys.get(id).filter(|key| request.is_signed_by(key, message));
        key.map(|key| Some((mode, key.clone()))).ok_or(Status::Authentication)
    }

    /// Opens the port for a client, or renews its session. Returns the port and the number of the session.
    fn admit(
        &mut self,
        (client, asked): SessionKey,
        run: Run,
        duration: Span,
        now: SteadyTime,
        open: OpenPort<'_>,
    ) -> Result<(u16, u32), Refusal> {
        if duration <= Span::ZERO || duration > self.rules.duration {
            return Err(Status::Fail);
        }
        if asked != 0 && !self.rules.may_open(asked) {
            return Err(Status::Fail);
        }
        let until = now + duration;
        let chosen = self.sessions.iter().find(|((c, _), s)| asked == 0 && *c == client && s.run == run);
        let known = chosen.map_or(asked, |((_, port), _)| *port);
        if let Some(session) = self.sessions.get_mut(&(client, known)).filter(|s| now < s.until) {
            if session.run != run {
                // A new run of the operation begins with number 1.
                *session = IpslaSession { number: session.number, ..IpslaSession::new(run, duration, until) };
            } else if matches!(run, Run::V2(_)) {
                session.repeats += 1;
                if session.repeats >= MAX_REPEATS {
                    session.repeats = MAX_REPEATS;
                    return Err(Status::Success);
                }
                // RFC 6812 §4: a repeated request resets the duration and the responder's sequence number.
                (session.until, session.answers) = (until, 0);
            }
            // Version 1: a repetition extends the time of the run.
            session.until = session.until.max(until);
            let number = session.number;
            self.note_end(until);
            return Ok((known, number));
        }
        self.remove((client, known));
        self.make_room(client)?;
        let port = self.open_port(asked, open)?;
        self.last_session = self.last_session.wrapping_add(1).max(1);
        let session = IpslaSession { number: self.last_session, ..IpslaSession::new(run, duration, until) };
        self.sessions.insert((client, port), session);
        *self.per_client.entry(ClientAddress::of(client.ip())).or_default() += 1;
        *self.ports.entry(port).or_default() += 1;
        self.note_end(until);
        Ok((port, self.last_session))
    }

    /// Records that a session may end at `until`.
    fn note_end(&mut self, until: SteadyTime) {
        self.next_end = Some(self.next_end.map_or(until, |end| end.min(until)));
    }

    /// Returns the oldest session without a probe for which `meant` returns true.
    fn oldest_unused(&self, meant: impl Fn(&SessionKey) -> bool) -> Option<SessionKey> {
        let unused = self.sessions.iter().filter(|(key, session)| !session.is_used() && meant(key));
        unused.min_by_key(|(_, session)| session.number).map(|(key, _)| *key)
    }

    /// Makes room for a session of `client`, if necessary by ending the oldest one that has had no probe.
    fn make_room(&mut self, client: SocketAddr) -> Result<(), Refusal> {
        let client = ClientAddress::of(client.ip());
        if self.per_client.get(&client).copied().unwrap_or(0) >= self.rules.sessions_per_client {
            let own = self.oldest_unused(|(other, _)| ClientAddress::of(other.ip()) == client);
            self.remove(own.ok_or(Status::Fail)?);
        }
        if self.sessions.len() >= self.rules.sessions {
            let other = self.oldest_unused(|_| true);
            self.remove(other.ok_or(Status::Fail)?);
        }
        Ok(())
    }

    /// Opens `asked`, unless it is already open. If too many ports are open, one whose sessions have had no probe is
    /// closed.
    fn open_port(&mut self, asked: u16, open: OpenPort<'_>) -> Result<u16, Refusal> {
        if asked != 0 && self.ports.contains_key(&asked) {
            return Ok(asked);
        }
        if let Some(index) = self.closing.iter().position(|port| *port == asked) {
            // Its socket is still open.
            return Ok(self.closing.swap_remove(index));
        }
        if self.ports.len() >= self.rules.open_ports {
            let is_used = |port: u16| self.sessions.iter().any(|((_, p), s)| *p == port && s.is_used());
            let (_, idle) = self.oldest_unused(|(_, port)| !is_used(*port)).ok_or(Status::Fail)?;
            let ended = self.sessions.keys().filter(|(_, port)| *port == idle);
            let ended: Vec<SessionKey> = ended.copied().collect();
            ended.into_iter().for_each(|key| self.remove(key));
        }
        open(asked).ok_or(Status::PortInUse)
    }

    fn remove(&mut self, key: SessionKey) {
        if self.sessions.remove(&key).is_none() {
            return;
        }
        let (client, port) = (ClientAddress::of(key.0.ip()), key.1);
        if let Some(count) = self.per_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&client);
            }
        }
        if let Some(count) = self.ports.get_mut(&port) {
            *count -= 1;
            if *count == 0 {
                self.ports.remove(&port);
                self.closing.push(port);
            }
        }
    }

    /// Handles a packet to the open `port`, and appends its answer to `out`; `now` is the time at which it leaves.
    ///
    /// # Errors
    /// The reason why it is not answered.
    pub fn probe(
        &mut self,
        port: u16,
        packet: &[u8],
        arrival: &RequestArrival,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<(), Silence> {
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let format = self.rules.format;
        let key = self.session_of(arrival.from, port).ok_or(Silence::NoSession)?;
        let session = self.sessions.get_mut(&key).ok_or(Silence::NoSession)?;
        if now.steady >= session.until {
            return Err(Silence::NoSession);
        }
        let form = match session.run {
            Run::V1(..) => ProbeForm::of_v1(packet).ok_or(Silence::Foreign)?,
            Run::V2(_) => ProbeForm::V2(format),
        };
        let number = form.read(packet)?;
        // An echo looks like its request: two responders could exchange one without end.
        if form == ProbeForm::Echo && !session.echoes.take(number) {
            return Err(Silence::Loop);
        }
        session.answers = session.answers.wrapping_add(1);
        if session.answers == 1 {
            self.begun = Some(IpslaTestStart { port, duration: session.duration });
        }
        form.answer(packet, (arrival.at, now.wall), session.answers, out);
        Ok(())
    }

    /// Returns the session to which probes from `from` belong. Translation of addresses can give probes another source
    /// port than the request; they then take over a session of the same address that has had no probe.
    fn session_of(&mut self, from: SocketAddr, port: u16) -> Option<SessionKey> {
        let key = (from, port);
        if self.sessions.contains_key(&key) {
            return Some(key);
        }
        if !self.ports.contains_key(&port) {
            return None;
        }
        let free = self.oldest_unused(|(client, p)| client.ip() == from.ip() && *p == port)?;
        let session = self.sessions.remove(&free)?;
        self.sessions.insert(key, session);
        Some(key)
    }
}

impl IpslaSession {
    fn new(run: Run, duration: Span, until: SteadyTime) -> IpslaSession {
        IpslaSession {
            run,
            number: 0,
            duration,
            until,
            answers: 0,
            echoes: OnceWindow::default(),
            repeats: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_no_more_memory_than_is_counted() {
        // A session has entries in three tables, of which hash tables are up to half empty.
        let bytes = size_of::<IpslaSession>() + 2 * size_of::<SessionKey>() + 64;
        assert!(2 * bytes as u64 <= SESSION_BYTES, "{bytes}");
    }

    #[test]
    fn each_number_is_taken_once() {
        let mut window = OnceWindow::default();
        let taken = [1, 2, 2, 4, 3, 3, 1, 100, 36, 37, 37].map(|number| window.take(number));
        assert_eq!(taken, [true, true, false, true, true, false, false, true, false, true, false]);
        assert!(!window.take(100) && window.take(u32::MAX) && !window.take(0));
    }
}
