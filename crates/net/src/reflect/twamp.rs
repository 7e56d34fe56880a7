//! TWAMP server: one thread per control connection, which also answers the packets of its sessions.

use super::control::{ControlConnection, FIRST_OTHER, listen};
use super::udp::{AnswerFate, AnswerTracking, AnsweringSocket};
use super::{ClockError, OpenReflector, Reflector, ReflectorContext, at_port};
use crate::accept::ConnectionService;
use crate::audit;
use crate::clock::{self, tick};
use crate::sys;
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Ecn, Span, SteadyTime, WallTime};
use jitlat_proto::Machine;
use jitlat_proto::amp::setup::Greeting;
use jitlat_proto::policy::{self, Ask, Grant, PolicyRefusal, Service};
use jitlat_proto::twamp::server::{
    AmpEndReason, Server, TwampOpenRequest, TwampRules, TwampServerEvent, TwampServerInput,
};
use jitlat_proto::twamp::{self, AcceptCode, SessionReflector, TwampReflection, Users};
use jitlat_proto::twoway::reflect::Silence;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;

/// Accepts TWAMP sessions over a control connection, and answers their packets.
#[derive(Clone, Debug)]
pub struct TwampServer {
    /// TCP port of control connections.
    pub port: u16,
    /// Users for the keyed modes. If there are any, the unauthenticated mode is not offered.
    pub users: Users,
    /// UDP ports allowed for sessions; `None`: any above 1023.
    pub test_ports: Option<RangeInclusive<u16>>,
}

impl Default for TwampServer {
    fn default() -> TwampServer {
        TwampServer { port: twamp::PORT, users: Users::default(), test_ports: None }
    }
}

impl Reflector for TwampServer {
    fn name(&self) -> &'static str {
        "TWAMP-Control"
    }

    fn service(&self) -> Service {
        policy::TWAMP
    }

    fn authenticates(&self) -> bool {
        !self.users.is_empty()
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        listen(at, shared, |_| TwampService {
            rules: TwampRules { users: self.users.clone(), ..TwampRules::default() },
            test_ports: self.test_ports.clone(),
            shared: shared.clone(),
            started: clock::wall(),
        })
    }
}

/// State shared by all connections.
struct TwampService {
    rules: TwampRules,
    test_ports: Option<RangeInclusive<u16>>,
    shared: ReflectorContext,
    started: WallTime,
}

impl ConnectionService for TwampService {
    fn name(&self) -> &'static str {
        "twamp-control"
    }

    fn service(&self) -> Service {
        policy::TWAMP
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        // A lost connection ends its sessions; there is no client left to inform.
        if let Err(error) = TwampConversation::new(self, stream, peer, grant).and_then(|mut c| c.run()) {
            tracing::debug!(%peer, %error, "a TWAMP control connection was lost");
        }
    }

    /// Refuses a client in the way that the protocol defines.
    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &PolicyRefusal) {
        self.shared.counters.silent(Silence::of(why));
        let _ = stream.write_all(&Greeting::go_away());
    }
}

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TwampSessionState {
    /// Accepted. Packets that arrive wait in the socket, with the kernel's timestamp.
    Waiting,
    Running,
    /// Stopped. Late packets are answered until this time.
    Ending(SteadyTime),
}

struct TwampSession {
    /// Identifier in the epoll set.
    id: u64,
    /// Socket; a `u32` identifies an answer.
    socket: AnsweringSocket<u32>,
    reflector: SessionReflector,
    state: TwampSessionState,
    linger: Span,
    dscp: u8,
    grant: Grant,
}

/// Size of the kernel's buffer for the packets of one session, in bytes.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Memory that a session may use, in bytes: the kernel counts twice the requested buffer size.
const SESSION_MEMORY: u64 = 2 * RECEIVE_BUFFER as u64;

struct TwampConversation<'a> {
    service: &'a TwampService,
    control: ControlConnection<'a, Server>,
    /// Accepted, running and lingering sessions.
    sessions: Vec<TwampSession>,
    next_id: u64,
    over: bool,
    answer: Vec<u8>,
    error: ClockError,
}

impl TwampConversation<'_> {
    fn new<'a>(
        service: &'a TwampService,
        stream: TcpStream,
        peer: SocketAddr,
        grant: &'a Grant,
    ) -> io::Result<TwampConversation<'a>> {
        let make =
            |local, random| Server::new(service.rules.clone(), peer, local, service.started, random, tick());
        Ok(TwampConversation {
            service,
            control: ControlConnection::new((stream, peer), &service.shared, policy::TWAMP, grant, make)?,
            sessions: Vec::new(),
            next_id: FIRST_OTHER,
            over: false,
            answer: Vec::new(),
            error: ClockError::read(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut hung_up = false;
        while !self.service.shared.is_stopping() && !self.control.grant.is_evicted() {
            self.execute();
            while self.control.write_next() {
                self.execute();
            }
            if self.over && !hung_up {
                hung_up = true;
                self.control.hang_up();
            }
            if !self.over && self.control.is_expired() {
                continue;
            }
            let now = clock::steady();
            self.sessions.retain(|s| !s.grant.is_evicted());
            self.sessions.retain(|s| !matches!(s.state, TwampSessionState::Ending(at) if now >= at));
            if self.over && !self.sessions.iter().any(|s| matches!(s.state, TwampSessionState::Ending(_))) {
                break;
            }
            self.wait()?;
            self.control.machine.handle_timeout(tick());
        }
        Ok(())
    }

    /// Executes the requests of the state machine.
    fn execute(&mut self) {
        while let Some(event) = self.control.machine.poll_event() {
            match event {
                TwampServerEvent::Open(asked) => {
                    let opened = self.open(&asked);
                    self.control.handle(TwampServerInput::Opened(opened));
                }
                TwampServerEvent::Start => {
                    for session in self.sessions.iter_mut().filter(|s| s.state == TwampSessionState::Waiting)
                    {
                        session.state = TwampSessionState::Running;
                        // If this fails, the session's socket is not polled, so its packets are not answered.
                        let _ = self.control.watch(session.socket.socket(), session.id);
                    }
                }
                TwampServerEvent::Stop => {
                    let now = clock::steady();
                    let running = self.sessions.iter_mut().filter(|s| s.state == TwampSessionState::Running);
                    running.for_each(|s| s.state = TwampSessionState::Ending(now + s.linger));
                }
                TwampServerEvent::Over(reason) => {
                    if reason == AmpEndReason::Denied {
                        self.control.denied();
                    }
                    self.over = true;
                }
            }
        }
    }

    /// Opens the socket of a session: on the requested port if it is free and allowed, otherwise on another
    /// port. Returns the port.
    fn open(&mut self, asked: &TwampOpenRequest) -> Result<u16, AcceptCode> {
        // The sessions include lingering ones of earlier tests on this connection.
        if self.sessions.len() >= 2 * self.service.rules.sessions {
            return Err(AcceptCode::Temporary);
        }
        let proven = !self.service.rules.users.is_empty();
        let grant = self.control.admit(Ask::session(SESSION_MEMORY + asked.request_len as u64), proven)?;
        let room = asked.request_len.max(128);
        let bound = self.control.bind(
            self.service.test_ports.as_ref(),
            // Lower ports are reserved for services.
            Some(asked.port).filter(|port| *port >= 1024),
            |at| AnsweringSocket::bind_polled(at, &self.service.shared, room),
        );
        let opened = bound.and_then(|socket| {
            // Reduced from the usual size to the memory that the session was granted.
            sys::set_receive_buffer(socket.socket(), RECEIVE_BUFFER);
            Ok((socket.local_addr()?.port(), socket))
        });
        let (port, socket) = opened.map_err(|_| AcceptCode::Temporary)?;
        let reflector =
            SessionReflector::new(asked.mode, asked.keys.clone(), self.control.peer.ip(), asked.sender_port);
        let socket = socket.with_shortest_answer(reflector.answer_len(0));
        self.answer.resize(self.answer.len().max(room), 0);
        audit::accepted(policy::TWAMP, self.control.peer, format_args!("a session on UDP {port}"));
        self.sessions.push(TwampSession {
            id: self.next_id,
            socket,
            reflector,
            state: TwampSessionState::Waiting,
            linger: asked.linger,
            dscp: asked.dscp,
            grant,
        });
        self.next_id += 1;
        Ok(port)
    }

    /// Waits for an event, at most a tenth of a second, and handles it.
    fn wait(&mut self) -> io::Result<()> {
        let ends = self.sessions.iter().filter_map(|s| match s.state {
            TwampSessionState::Ending(at) => Some(at),
            _ => None,
        });
        let ready = self.control.wait(ends.min())?;
        let now = clock::steady();
        let error = self.error.at(now);
        let mut reflected = false;
        for id in ready.clone() {
            if let Some(session) = self.sessions.iter_mut().find(|s| s.id == id)
                && session.answer(error, &mut self.answer)
            {
                reflected = true;
                session.grant.touch(now);
            }
        }
        if reflected {
            self.control.grant.touch(now);
            self.control.handle(TwampServerInput::Reflected);
        }
        if !self.over {
            self.control.read(ready);
        }
        Ok(())
    }
}

impl TwampSession {
    /// Answers a batch of packets; returns false if none of them belongs to this session.
    fn answer(&mut self, error: ErrorEstimate, answer: &mut [u8]) -> bool {
        let (reflector, dscp) = (&mut self.reflector, self.dscp);
        let mut any = false;
        self.socket.receive(None, |out, request, arrival, local| {
            let leaving = out.leaving(arrival.from);
            match reflector.reflect(request, arrival, leaving.at.wall, error, answer) {
                Ok(TwampReflection { len, seq }) => {
                    any = true;
                    let tracking = AnswerTracking {
                        mark: Ecn::NotEct,
                        which: seq,
                        stamped: false,
                        leaving: Some(leaving),
                        same_link: false,
                    };
                    out.push_tracked(&answer[..len], arrival.from, local, dscp, tracking);
                }
                Err(why) => out.silent(why),
            }
        });
        self.socket.take_departed(|_, departed| {
            if departed.departure == AnswerFate::NotSent {
                reflector.not_sent(departed.which);
            }
        });
        any
    }
}

#[cfg(test)]
mod tests;
