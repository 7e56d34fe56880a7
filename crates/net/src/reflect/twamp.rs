//! The TWAMP server: a thread for each control connection, which also answers the packets of its
//! sessions.

use super::udp::{AnsweringSocket, Departure};
use super::{ClockError, LOOK_AROUND, Opened, Reflector, Shared, at_port};
use crate::accept::{Acceptor, ConnectionService, Listener};
use crate::audit;
use crate::clock::{self, tick};
use crate::random;
use crate::sockets::{self, PatientStream};
use jitlat_core::ntp::ErrorEstimate;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::Machine;
use jitlat_proto::amp::setup::Greeting;
use jitlat_proto::policy::{self, Ask, Grant, Refusal, Service};
use jitlat_proto::twamp::server::{Asked, Event, Input, Random, Reason, Rules, Server};
use jitlat_proto::twamp::{self, Accept, Reflected, SessionReflector, Users};
use jitlat_proto::twoway::reflect::Silence;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Grants TWAMP sessions over a control connection, and answers their packets.
#[derive(Clone, Debug)]
pub struct TwampServer {
    /// TCP port of the control server.
    pub port: u16,
    /// Users of the keyed modes; if there are any, the unauthenticated mode is not offered.
    pub users: Users,
    /// UDP ports allowed for sessions; `None` = any above 1023.
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

    fn open(&self, at: SocketAddr, shared: &Shared) -> io::Result<Opened> {
        let listener = Listener::bind(at)?;
        let address = listener.local_addr()?;
        let acceptor = Acceptor::new(vec![listener], shared.gate.clone());
        let service = Arc::new(TwampService {
            rules: Rules { users: self.users.clone(), ..Rules::default() },
            test_ports: self.test_ports.clone(),
            shared: shared.clone(),
            started: clock::wall(),
        });
        Ok(Opened { address, run: Box::new(move || acceptor.run(&service, &service.shared.stop)) })
    }
}

/// State shared by all connections.
struct TwampService {
    rules: Rules,
    test_ports: Option<RangeInclusive<u16>>,
    shared: Shared,
    started: WallTime,
}

/// How long a write on a control connection may take: its messages fit into any socket's buffer.
const WRITE: Duration = Duration::from_secs(5);

impl ConnectionService for TwampService {
    fn name(&self) -> &'static str {
        "twamp-control"
    }

    fn service(&self) -> Service {
        policy::TWAMP
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        // A broken connection ends its sessions; there is no client left to inform.
        if let Err(error) = Connection::new(self, stream, peer, grant).and_then(|mut c| c.run()) {
            tracing::debug!(%peer, %error, "a TWAMP control connection broke");
        }
    }

    /// Turns a client away as the protocol defines it.
    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &Refusal) {
        self.shared.counters.silent(Silence::of(why));
        let _ = stream.write_all(&Greeting::go_away());
    }

    // Its connections check the server's own flag.
    fn stop(&self) {}
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    /// Granted. Packets that arrive wait in the socket, with the kernel's stamp.
    Waiting,
    Running,
    /// Stopped; late packets are answered until this time.
    Ending(SteadyTime),
}

struct Session {
    /// Its identifier in the kernel's list of ready descriptors.
    id: u64,
    /// Answers are identified by their numbers.
    socket: AnsweringSocket<u32>,
    reflector: SessionReflector,
    state: SessionState,
    linger: Span,
    dscp: u8,
    grant: Grant,
}

/// Bytes of the kernel's buffer for the packets of one session.
const BUFFER: usize = 1 << 20;
/// Bytes of memory that a session may need: the kernel counts twice what its buffer is asked to hold.
const MEMORY: u64 = 2 * BUFFER as u64;
/// The control connection's identifier in the kernel's list; sessions are counted from 1.
const CONTROL: u64 = 0;
/// Ready descriptors reported at a time.
const READY: usize = 32;

struct Connection<'a> {
    service: &'a TwampService,
    stream: TcpStream,
    peer: SocketAddr,
    grant: &'a Grant,
    ends: SteadyTime,
    /// Includes the scope of a link-local address.
    local: SocketAddr,
    server: Server,
    /// Granted, running and lingering sessions.
    sessions: Vec<Session>,
    opened: u64,
    epoll: Epoll,
    over: bool,
    answer: Vec<u8>,
    error: ClockError,
}

impl Connection<'_> {
    fn new<'a>(
        service: &'a TwampService,
        stream: TcpStream,
        peer: SocketAddr,
        grant: &'a Grant,
    ) -> io::Result<Connection<'a>> {
        stream.set_nodelay(true)?;
        sockets::notice_absence(&stream);
        stream.set_nonblocking(false)?;
        let local = stream.local_addr()?;
        let mut bytes = [0; 52];
        random::fill(&mut bytes)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, CONTROL))?;
        let now = tick();
        let longest = service.shared.policy().duration(policy::TWAMP);
        let server =
            Server::new(service.rules.clone(), peer, local, service.started, Random::new(bytes), now);
        Ok(Connection {
            service,
            stream,
            peer,
            grant,
            ends: longest.map_or(SteadyTime(i64::MAX), |longest| now.steady + longest),
            local,
            server,
            sessions: Vec::new(),
            opened: 0,
            epoll,
            over: false,
            answer: Vec::new(),
            error: ClockError::read(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        let mut hung_up = false;
        while !self.service.shared.is_stopping() && !self.grant.is_evicted() {
            self.execute();
            while self.server.poll_transmit(tick(), &mut out) {
                let peer = PatientStream::new(&self.stream, || self.service.shared.is_stopping());
                let written = peer.and_then(|peer| peer.write_all(&out, WRITE));
                out.clear();
                if written.is_err() {
                    self.server.handle(tick(), Input::Closed);
                    self.execute();
                }
            }
            if self.over && !hung_up {
                hung_up = true;
                // The client need not wait for the last packets of its sessions to see the end.
                let _ = self.epoll.delete(&self.stream);
                let _ = self.stream.shutdown(Shutdown::Both);
            }
            let now = clock::steady();
            if now >= self.ends && !self.over {
                self.server.handle(tick(), Input::Closed);
                continue;
            }
            self.sessions.retain(|s| !s.grant.is_evicted());
            self.sessions.retain(|s| !matches!(s.state, SessionState::Ending(at) if now >= at));
            if self.over && !self.sessions.iter().any(|s| matches!(s.state, SessionState::Ending(_))) {
                break;
            }
            self.wait(now)?;
            self.server.handle_timeout(tick());
        }
        Ok(())
    }

    /// Executes the machine's requests.
    fn execute(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Open(asked) => {
                    let opened = self.open(&asked);
                    self.server.handle(tick(), Input::Opened(opened));
                }
                Event::Start => {
                    for session in self.sessions.iter_mut().filter(|s| s.state == SessionState::Waiting) {
                        session.state = SessionState::Running;
                        // Sessions depend on it: a session whose socket is not polled is not answered.
                        let event = EpollEvent::new(EpollFlags::EPOLLIN, session.id);
                        let _ = self.epoll.add(session.socket.socket(), event);
                    }
                }
                Event::Stop => {
                    let now = clock::steady();
                    let running = self.sessions.iter_mut().filter(|s| s.state == SessionState::Running);
                    running.for_each(|s| s.state = SessionState::Ending(now + s.linger));
                }
                Event::Over(reason) => {
                    if reason == Reason::Denied {
                        audit::wrong_key(&self.service.shared.gate, policy::TWAMP, self.peer);
                    }
                    self.over = true;
                }
            }
        }
    }

    /// Opens the socket of a session: on the requested port if it is free and allowed, otherwise on another.
    fn open(&mut self, asked: &Asked) -> Result<u16, Accept> {
        // Including lingering sessions of earlier tests on this connection.
        if self.sessions.len() >= 2 * self.service.rules.sessions {
            return Err(Accept::Temporary);
        }
        // Where there are users, only who has proven the passphrase of one comes so far.
        let proven = !self.service.rules.users.is_empty();
        let ask = Ask::session(MEMORY + asked.request_len as u64).proven(proven);
        let gate = &self.service.shared.gate;
        let grant = gate.admit(policy::TWAMP, self.peer.ip(), ask, clock::steady()).map_err(|why| {
            audit::refused(policy::TWAMP, self.peer, why);
            Accept::Temporary
        })?;
        if proven {
            gate.right_key(self.peer.ip());
            self.grant.set_proven();
        }
        let room = asked.request_len.max(128);
        let bind = |port| {
            let mut at = self.local;
            at.set_port(port);
            AnsweringSocket::bind(at, &self.service.shared, room)
        };
        let bound = match &self.service.test_ports {
            None if asked.port >= 1024 => bind(asked.port).or_else(|_| bind(0)),
            None => bind(0),
            Some(range) => {
                let wished = Some(asked.port).filter(|p| range.contains(p));
                let mut ports = wished.into_iter().chain(range.clone());
                ports.find_map(|p| bind(p).ok()).ok_or_else(|| io::ErrorKind::AddrInUse.into())
            }
        };
        let opened = bound.and_then(|socket| {
            let _ = setsockopt(socket.socket(), sockopt::RcvBuf, &BUFFER);
            Ok((socket.local_addr()?.port(), socket))
        });
        let (port, socket) = opened.map_err(|_| Accept::Temporary)?;
        let reflector =
            SessionReflector::new(asked.mode, asked.keys.clone(), self.peer.ip(), asked.sender_port);
        let socket = socket.with_shortest_answer(reflector.answer_len(0));
        self.answer.resize(self.answer.len().max(room), 0);
        self.opened += 1;
        audit::accepted(policy::TWAMP, self.peer, format_args!("a session on UDP {port}"));
        self.sessions.push(Session {
            id: self.opened,
            socket,
            reflector,
            state: SessionState::Waiting,
            linger: asked.linger,
            dscp: asked.dscp,
            grant,
        });
        Ok(port)
    }

    /// Waits for an event, at most a tenth of a second, and handles it.
    fn wait(&mut self, now: SteadyTime) -> io::Result<()> {
        let until = self.sessions.iter().filter_map(|s| match s.state {
            SessionState::Ending(at) => Some(at),
            _ => None,
        });
        let until = until.chain(self.server.poll_timeout()).min().map_or(i64::MAX, |t| (t - now).0);
        // Rounded up to a millisecond, so that the wait for the last late packet is not a busy loop.
        let ms = until.clamp(0, LOOK_AROUND.as_nanos() as i64).unsigned_abs().div_ceil(1_000_000) as u16;
        let mut ready = [EpollEvent::empty(); READY];
        let count = match self.epoll.wait(&mut ready, EpollTimeout::from(ms)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        let ready = &ready[..count];
        let error = self.error.at(now);
        let mut reflected = false;
        for event in ready {
            if let Some(session) = self.sessions.iter_mut().find(|s| s.id == event.data())
                && session.answer(error, &mut self.answer)
            {
                reflected = true;
                session.grant.touch(now);
            }
        }
        if reflected {
            self.grant.touch(now);
            self.server.handle(tick(), Input::Reflected);
        }
        if !self.over && ready.iter().any(|e| e.data() == CONTROL) {
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer) {
                Ok(n) if n > 0 => {
                    self.grant.touch(now);
                    self.server.handle(tick(), Input::Bytes(&buffer[..n]));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => self.server.handle(tick(), Input::Closed),
            }
        }
        Ok(())
    }
}

impl Session {
    /// Answers a batch; false if no packet in it belongs to this session.
    fn answer(&mut self, error: ErrorEstimate, answer: &mut [u8]) -> bool {
        let (reflector, dscp) = (&mut self.reflector, self.dscp);
        let mut any = false;
        self.socket.receive(|out, request, arrival, local| {
            let leaving = out.leaving(arrival.from);
            match reflector.reflect(request, arrival, leaving.at.wall, error, answer) {
                Ok(Reflected { len, seq }) => {
                    any = true;
                    out.push_tracked(&answer[..len], arrival.from, local, dscp, seq, false, Some(leaving));
                }
                Err(why) => out.silent(why),
            }
        });
        self.socket.take_departed(|_, departed| {
            if departed.departure == Departure::NotSent {
                reflector.not_sent(departed.which);
            }
        });
        any
    }
}

#[cfg(test)]
mod tests;
