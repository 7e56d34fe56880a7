//! The TWAMP server: a thread for each control connection, which also answers the packets of its
//! sessions.

use super::{Admission, Counters, NOTICE, Port};
use crate::clock;
use crate::random;
use crate::twoway::client::tick;
use jitlat_core::ntp::{ErrorEstimate, Format};
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_proto::Machine;
use jitlat_proto::amp::setup::Greeting;
use jitlat_proto::twamp::server::{Asked, Event, Input, Random, Rules, Server};
use jitlat_proto::twamp::{self, Accept, SessionReflector, Users};
use jitlat_proto::twoway::reflect::Silence;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// TCP port of the control server.
    pub port: u16,
    /// Users of the keyed modes; where there are any, the open mode is not offered.
    pub users: Users,
    /// UDP ports that sessions may have; `None` = any above 1023.
    pub test_ports: Option<RangeInclusive<u16>>,
    /// Control connections at a time, of all clients.
    pub connections: usize,
    /// Control connections of one client.
    pub connections_per_client: usize,
    /// Sessions at a time, of all clients.
    pub sessions: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            port: twamp::PORT,
            users: Users::default(),
            test_ports: None,
            connections: 64,
            connections_per_client: 16,
            sessions: 256,
        }
    }
}

/// What all connections share.
pub(super) struct Host {
    settings: Settings,
    rules: Rules,
    admission: Arc<Admission>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    started: WallTime,
    clients: Arc<Mutex<HashMap<IpAddr, usize>>>,
    sessions: Arc<AtomicUsize>,
}

impl Host {
    pub(super) fn new(
        settings: &Settings,
        admission: &Arc<Admission>,
        counters: Arc<Counters>,
        stop: Arc<AtomicBool>,
    ) -> Arc<Host> {
        Arc::new(Host {
            rules: Rules { users: settings.users.clone(), ..Rules::default() },
            settings: settings.clone(),
            admission: admission.clone(),
            counters,
            stop,
            started: clock::wall(),
            clients: Arc::default(),
            sessions: Arc::default(),
        })
    }

    /// A place for one more connection of `client`, or `None`.
    fn admit(self: &Arc<Host>, client: IpAddr) -> Option<Place> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = clients.values().sum();
        let own = clients.get(&client).copied().unwrap_or(0);
        if all >= self.settings.connections || own >= self.settings.connections_per_client {
            return None;
        }
        clients.insert(client, own + 1);
        Some(Place { host: self.clone(), client })
    }
}

/// A connection's place among those admitted; given back when dropped.
struct Place {
    host: Arc<Host>,
    client: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.host.clients.lock().unwrap_or_else(PoisonError::into_inner);
        match clients.get_mut(&self.client) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(clients.remove(&self.client)),
        }
    }
}

/// How long one write on a control connection may take: its messages fit into any socket's buffer.
const WRITE: Duration = Duration::from_secs(5);

/// Accepts control connections until told to stop.
pub(super) fn accept(listener: &TcpListener, host: &Arc<Host>) {
    let mut threads: Vec<std::thread::JoinHandle<()>> = Vec::new();
    while !host.stop.load(Ordering::Relaxed) {
        threads.retain(|t| !t.is_finished());
        let Ok((mut stream, peer)) = listener.accept() else {
            std::thread::sleep(NOTICE / 4);
            continue;
        };
        let _ = stream.set_write_timeout(Some(WRITE));
        let allowed = host.admission.admits(peer.ip());
        let Some(place) = host.admit(peer.ip().to_canonical()).filter(|_| allowed) else {
            host.counters.silent(if allowed { Silence::Limited } else { Silence::NotAllowed });
            // As the protocol turns a client away; whether it still hears that does not matter.
            let _ = stream.write_all(&Greeting::go_away());
            continue;
        };
        let body = move || {
            let host = place.host.clone();
            // A connection that breaks ends its sessions; there is nobody to tell.
            let _ = Connection::new(&host, stream, peer).and_then(|mut c| c.run());
            drop(place);
        };
        // Without a thread the place is given back at once.
        threads.extend(std::thread::Builder::new().name("twamp-control".to_owned()).spawn(body));
    }
    for thread in threads {
        // One that panicked has already said so.
        let _ = thread.join();
    }
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Granted. What arrives waits in the socket, with the kernel's stamp.
    Waiting,
    Running,
    /// Stopped; late packets are answered until then.
    Ending(SteadyTime),
}

struct Session {
    /// Tells it from others in what the kernel reports as ready.
    id: u64,
    port: Port,
    reflector: SessionReflector,
    stage: Stage,
    linger: Span,
    dscp: u8,
    count: Arc<AtomicUsize>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Room in the kernel for the packets of one session.
const BUFFER: usize = 1 << 20;
/// Between two looks at the state of this host's clock.
const CLOCK_STATE: Span = Span::seconds(5);

/// What the kernel calls the control connection; sessions are counted from 1.
const CONTROL: u64 = 0;
/// Sockets told of at a time.
const READY: usize = 32;

struct Connection<'a> {
    host: &'a Host,
    stream: TcpStream,
    peer: IpAddr,
    /// With the scope of a link-local address.
    local: SocketAddr,
    server: Server,
    /// Granted, running and lingering.
    sessions: Vec<Session>,
    opened: u64,
    watch: Epoll,
    over: bool,
    answer: Vec<u8>,
    error: ErrorEstimate,
    looked: SteadyTime,
}

impl Connection<'_> {
    fn new(host: &Host, stream: TcpStream, peer: SocketAddr) -> io::Result<Connection<'_>> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        let local = stream.local_addr()?;
        let mut bytes = [0; 52];
        random::fill(&mut bytes)?;
        let watch = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        watch.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, CONTROL))?;
        let now = tick();
        let server = Server::new(host.rules.clone(), peer, local, host.started, Random::new(bytes), now);
        Ok(Connection {
            host,
            stream,
            peer: peer.ip(),
            local,
            server,
            sessions: Vec::new(),
            opened: 0,
            watch,
            over: false,
            answer: Vec::new(),
            error: ErrorEstimate::of_clock(clock::sync_state(), Format::Ntp),
            looked: now.steady,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        let mut hung_up = false;
        while !self.host.stop.load(Ordering::Relaxed) {
            self.obey();
            while self.server.poll_transmit(tick(), &mut out) {
                let written = self.stream.write_all(&out);
                out.clear();
                if written.is_err() {
                    self.server.handle(tick(), Input::Closed);
                    self.obey();
                }
            }
            if self.over && !hung_up {
                hung_up = true;
                // The client need not wait for the last packets of its sessions to see the end.
                let _ = self.watch.delete(&self.stream);
                let _ = self.stream.shutdown(Shutdown::Both);
            }
            let now = clock::steady();
            self.sessions.retain(|s| !matches!(s.stage, Stage::Ending(at) if now >= at));
            if self.over && !self.sessions.iter().any(|s| matches!(s.stage, Stage::Ending(_))) {
                break;
            }
            if now - self.looked >= CLOCK_STATE {
                self.looked = now;
                self.error = ErrorEstimate::of_clock(clock::sync_state(), Format::Ntp);
            }
            self.wait(now)?;
            self.server.handle_timeout(tick());
        }
        Ok(())
    }

    /// Does what the machine asks for.
    fn obey(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Open(asked) => {
                    let opened = self.open(&asked);
                    self.server.handle(tick(), Input::Opened(opened));
                }
                Event::Start => {
                    for session in self.sessions.iter_mut().filter(|s| s.stage == Stage::Waiting) {
                        session.stage = Stage::Running;
                        // Nobody can do without this one; a session that is not watched is not answered.
                        let event = EpollEvent::new(EpollFlags::EPOLLIN, session.id);
                        let _ = self.watch.add(&session.port.socket, event);
                    }
                }
                Event::Stop => {
                    let now = clock::steady();
                    let running = self.sessions.iter_mut().filter(|s| s.stage == Stage::Running);
                    running.for_each(|s| s.stage = Stage::Ending(now + s.linger));
                }
                Event::Over(_) => self.over = true,
            }
        }
    }

    /// Opens the socket of a session: on the port wished for if it is free and allowed, or another.
    fn open(&mut self, asked: &Asked) -> Result<u16, Accept> {
        let count = self.host.sessions.clone();
        // Lingering ones of earlier tests on this connection among them.
        if self.sessions.len() >= 2 * self.host.rules.sessions {
            return Err(Accept::Temporary);
        }
        if count.fetch_add(1, Ordering::Relaxed) >= self.host.settings.sessions {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(Accept::Temporary);
        }
        let slot = asked.request_len.max(128);
        let bind = |port| {
            let mut at = self.local;
            at.set_port(port);
            Port::with_slot(at, &self.host.admission, self.host.counters.clone(), slot)
        };
        let bound = match &self.host.settings.test_ports {
            None if asked.port >= 1024 => bind(asked.port).or_else(|_| bind(0)),
            None => bind(0),
            Some(range) => {
                let wished = Some(asked.port).filter(|p| range.contains(p));
                let mut ports = wished.into_iter().chain(range.clone());
                ports.find_map(|p| bind(p).ok()).ok_or_else(|| io::ErrorKind::AddrInUse.into())
            }
        };
        let opened = bound.and_then(|port| {
            let _ = setsockopt(&port.socket, sockopt::RcvBuf, &BUFFER);
            Ok((port.socket.local_addr()?.port(), port))
        });
        let Ok((number, port)) = opened else {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(Accept::Temporary);
        };
        let reflector = SessionReflector::new(asked.mode, asked.keys.clone(), self.peer, asked.sender_port);
        self.answer.resize(self.answer.len().max(slot), 0);
        self.opened += 1;
        self.sessions.push(Session {
            id: self.opened,
            port,
            reflector,
            stage: Stage::Waiting,
            linger: asked.linger,
            dscp: asked.dscp,
            count,
        });
        Ok(number)
    }

    /// Waits for something to happen, at most a tenth of a second, and takes it.
    fn wait(&mut self, now: SteadyTime) -> io::Result<()> {
        let until = self.sessions.iter().filter_map(|s| match s.stage {
            Stage::Ending(at) => Some(at),
            _ => None,
        });
        let until = until.chain(self.server.poll_timeout()).min().map_or(i64::MAX, |t| (t - now).0);
        // Up to the next millisecond: the last late packet is not awaited in a busy loop.
        let ms = until.clamp(0, NOTICE.as_nanos() as i64).unsigned_abs().div_ceil(1_000_000) as u16;
        let mut ready = [EpollEvent::empty(); READY];
        let count = match self.watch.wait(&mut ready, EpollTimeout::from(ms)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        let ready = &ready[..count];
        let mut reflected = false;
        for event in ready {
            if let Some(session) = self.sessions.iter_mut().find(|s| s.id == event.data()) {
                reflected |= session.answer(self.error, &mut self.answer);
            }
        }
        if reflected {
            self.server.handle(tick(), Input::Reflected);
        }
        if !self.over && ready.iter().any(|e| e.data() == CONTROL) {
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer) {
                Ok(n) if n > 0 => self.server.handle(tick(), Input::Bytes(&buffer[..n])),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => self.server.handle(tick(), Input::Closed),
            }
        }
        Ok(())
    }
}

impl Session {
    /// Answers a batch; false if none of it was of this session.
    fn answer(&mut self, error: ErrorEstimate, answer: &mut [u8]) -> bool {
        let (reflector, dscp) = (&mut self.reflector, self.dscp);
        let mut any = false;
        self.port.receive(|out, request, arrival, local| {
            match reflector.reflect(request, arrival, clock::wall(), error, answer) {
                Ok(length) => {
                    any = true;
                    out.send(&answer[..length], arrival.from, local, dscp);
                }
                Err(why) => out.counters.silent(why),
            }
        });
        any
    }
}

#[cfg(test)]
mod tests;
