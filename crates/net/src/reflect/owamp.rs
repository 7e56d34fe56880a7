//! The OWAMP server: a thread for each control connection, which also receives the packets of its sessions, and a
//! thread for each session in which it sends.

use super::{LOOK_AROUND, Opened, Reflector, Shared, at_port};
use crate::accept::{Acceptor, ConnectionService, Listener};
use crate::audit;
use crate::clock::{self, tick};
use crate::engine::Waker;
use crate::engine::stream_socket::{self, Marks};
use crate::owamp::receiving::Receiving;
use crate::owamp::sending::{Departing, Sending};
use crate::pace::Pacing;
use crate::random;
use crate::sockets::{self, PatientStream};
use crate::stamp::{Stamps, Ways};
use jitlat_core::{Direction, Dscp, SteadyTime, WallTime};
use jitlat_proto::Machine;
use jitlat_proto::amp::setup::Greeting;
use jitlat_proto::amp::{Accept, Random, Reason, Sid, TestKeys, Users};
use jitlat_proto::owamp::server::{Asked, Event, Input, Server};
use jitlat_proto::owamp::{
    self, Owner, Received, Rules, SessionData, SessionReceiver, SessionSender, Store, StoreLimits,
    TestSession, packet,
};
use jitlat_proto::policy::{self, Ask, Gate, Grant, Policy, Refusal, Scope, Service};
use jitlat_proto::twoway::reflect::Silence;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Grants OWAMP sessions over a control connection, sends or receives their packets, and keeps what it received.
#[derive(Clone, Debug)]
pub struct OwampServer {
    /// TCP port of the control server.
    pub port: u16,
    /// Users of the keyed modes; if there are any, the open mode is not offered.
    pub users: Users,
    /// UDP ports allowed for sessions; `None` = the system chooses.
    pub test_ports: Option<RangeInclusive<u16>>,
}

impl Default for OwampServer {
    fn default() -> OwampServer {
        OwampServer { port: owamp::PORT, users: Users::default(), test_ports: None }
    }
}

impl Reflector for OwampServer {
    fn name(&self) -> &'static str {
        "OWAMP-Control"
    }

    fn service(&self) -> Service {
        policy::OWAMP
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
        let service = Arc::new(OwampService {
            rules: rules(shared.policy(), &self.users),
            test_ports: self.test_ports.clone(),
            shared: shared.clone(),
            started: clock::wall(),
            kept: Mutex::new(Kept::new()),
        });
        Ok(Opened { address, run: Box::new(move || acceptor.run(&service, &service.shared.stop)) })
    }
}

/// What one session may have: no more than `policy` allows a client.
fn rules(policy: &Policy, users: &Users) -> Rules {
    let usual = Rules::default();
    let quotas = Scope::ALL.map(|scope| policy.quota(policy::OWAMP, scope));
    let rate = quotas.iter().filter_map(|quota| quota.packets).min().unwrap_or(usual.rate);
    let bytes = quotas.iter().filter_map(|quota| quota.bytes).min();
    let bandwidth = bytes.map_or(usual.bandwidth, |bytes| bytes.saturating_mul(8));
    Rules {
        users: users.clone(),
        rate: rate.min(usual.rate),
        bandwidth: bandwidth.min(usual.bandwidth),
        duration: policy
            .duration(policy::OWAMP)
            .map_or(usual.duration, |longest| longest.min(usual.duration)),
        ..usual
    }
}

/// State shared by all connections.
struct OwampService {
    rules: Rules,
    test_ports: Option<RangeInclusive<u16>>,
    shared: Shared,
    started: WallTime,
    kept: Mutex<Kept>,
}

impl OwampService {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was received, with the memory granted for it. A session whose memory others need is forgotten.
struct Kept {
    store: Store,
    memory: HashMap<Sid, Grant>,
}

impl Kept {
    fn new() -> Kept {
        Kept { store: Store::new(StoreLimits::default()), memory: HashMap::new() }
    }

    /// Makes room for a session of `owner` that is about to run.
    fn claim(
        &mut self,
        session: &TestSession,
        owner: &Owner,
        memory: Grant,
        now: SteadyTime,
    ) -> Result<(), Accept> {
        self.tidy(now);
        self.store.claim(session.sid(), owner, session.request.packets, now)?;
        self.memory.insert(session.sid(), memory);
        Ok(())
    }

    /// Keeps what was received in a session that was claimed.
    fn keep(&mut self, data: SessionData, now: SteadyTime) {
        let (sid, records) = (data.session.sid(), data.records.len());
        self.store.keep(data, now);
        if let Some(memory) = self.memory.get(&sid) {
            memory.shrink(Store::memory(records));
        }
    }

    fn release(&mut self, sid: Sid) {
        self.store.release(sid);
        self.memory.remove(&sid);
    }

    /// Whether the memory of a running session was needed by others.
    fn is_evicted(&self, sid: Sid) -> bool {
        self.memory.get(&sid).is_some_and(Grant::is_evicted)
    }

    /// Gives back what is no longer kept.
    fn tidy(&mut self, now: SteadyTime) {
        self.store.expire(now);
        let evicted: Vec<Sid> =
            self.memory.iter().filter(|(_, grant)| grant.is_evicted()).map(|(sid, _)| *sid).collect();
        evicted.into_iter().for_each(|sid| self.store.release(sid));
        let Kept { store, memory } = self;
        memory.retain(|sid, _| store.contains(*sid));
    }
}

/// How long a write on a control connection may take: a message, or 16 kB of fetched data.
const WRITE: Duration = Duration::from_secs(5);

impl ConnectionService for OwampService {
    fn name(&self) -> &'static str {
        "owamp-control"
    }

    fn service(&self) -> Service {
        policy::OWAMP
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        let served = Connection::new(self, stream, peer, grant).and_then(|mut c| {
            let ran = c.run();
            // Whatever the end: nothing of it runs on, and what was received is kept.
            c.abandon();
            ran
        });
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "an OWAMP control connection broke");
        }
    }

    /// Turns a client away as the protocol defines it.
    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &Refusal) {
        self.shared.counters.silent(Silence::of(why));
        let _ = stream.write_all(&Greeting::go_away());
    }

    fn look_around(&self) {
        self.kept().tidy(clock::steady());
    }

    // Its connections check the server's own flag.
    fn stop(&self) {}
}

/// The end of a session at this host.
enum End {
    /// Granted, to be sent once the test begins.
    Waiting(Box<Departing>),
    Sending(Sending),
    /// Before the test begins, packets wait in the socket with the kernel's stamp.
    Receiving(Box<Receiving>),
    /// What it sent was reported, or what it received was kept.
    Over,
}

struct Session {
    /// Its identifier in the kernel's list of ready descriptors.
    id: u64,
    sid: Sid,
    end: End,
    /// Whether the test runs.
    running: bool,
    complete: bool,
    /// Packets sent when it was last looked at.
    sent: u32,
    grant: Grant,
}

/// Bytes of the kernel's buffers for the packets of one session: it counts twice what its buffer is asked to hold.
const BUFFERS: u64 = 2 << 20;
/// Bytes that a sender needs.
const SENDER: u64 = 1 << 20;
/// Identifiers in the kernel's list; sessions are counted from 2.
const CONTROL: u64 = 0;
const WAKER: u64 = 1;
/// Ready descriptors reported at a time.
const READY: usize = 32;

struct Connection<'a> {
    service: &'a OwampService,
    stream: TcpStream,
    peer: SocketAddr,
    grant: &'a Grant,
    ends: SteadyTime,
    /// Includes the scope of a link-local address.
    local: SocketAddr,
    server: Server,
    /// Granted and running sessions.
    sessions: Vec<Session>,
    opened: u64,
    epoll: Epoll,
    waker: Waker,
    over: bool,
}

impl Connection<'_> {
    fn new<'a>(
        service: &'a OwampService,
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
        let waker = Waker::new()?;
        epoll.add(&waker, EpollEvent::new(EpollFlags::EPOLLIN, WAKER))?;
        let now = tick();
        let longest = service.shared.policy().duration(policy::OWAMP);
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
            opened: WAKER,
            epoll,
            waker,
            over: false,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        while !self.service.shared.is_stopping() && !self.is_evicted() {
            self.execute();
            while self.server.poll_transmit(tick(), &mut out) {
                let peer = PatientStream::new(&self.stream, || self.service.shared.is_stopping());
                let written = peer.and_then(|peer| peer.write_all(&out, WRITE));
                out.clear();
                if written.is_err() {
                    self.server.handle(tick(), Input::Closed);
                }
                self.execute();
            }
            if self.over {
                // What the client has sent meanwhile must not reset the connection before it has read the end.
                let _ = self.stream.shutdown(Shutdown::Write);
                break;
            }
            let now = clock::steady();
            if now >= self.ends {
                self.server.handle(tick(), Input::Closed);
                continue;
            }
            self.wait()?;
            self.look();
            self.server.handle_timeout(tick());
        }
        Ok(())
    }

    /// Whether others need what this connection holds.
    fn is_evicted(&self) -> bool {
        let kept = self.service.kept();
        self.grant.is_evicted()
            || self.sessions.iter().any(|s| s.grant.is_evicted() || kept.is_evicted(s.sid))
    }

    /// Executes the machine's requests.
    fn execute(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Open(asked) => {
                    let opened = self.open(*asked);
                    self.server.handle(tick(), Input::Opened(opened));
                }
                Event::Start => self.start(),
                Event::StopSending => {
                    for session in &mut self.sessions {
                        let summary = match std::mem::replace(&mut session.end, End::Over) {
                            End::Sending(sending) => sending.stop().summary,
                            End::Waiting(mut departing) => departing.sender.stop(),
                            other => {
                                session.end = other;
                                continue;
                            }
                        };
                        self.server.handle(tick(), Input::Sent(summary));
                    }
                    self.sessions.retain(|s| !matches!(s.end, End::Over));
                }
                Event::Received(received) => self.finish(&received),
                Event::Fetch(fetch, owner) => {
                    let found = self.service.kept().store.find(fetch.sid, &owner, clock::steady());
                    self.server.handle(tick(), Input::Found(found));
                }
                Event::Over(reason) => {
                    if reason == Reason::Denied {
                        audit::wrong_key(&self.service.shared.gate, policy::OWAMP, self.peer);
                    }
                    self.over = true;
                }
            }
        }
    }

    /// Makes room for a session and opens its socket.
    fn open(&mut self, asked: Asked) -> Result<u16, Accept> {
        let Asked { session, direction, far, mode, keys } = asked;
        // Where there are users, only who has proven the passphrase of one comes so far.
        let proven = !self.service.rules.users.is_empty();
        let size = packet::len(mode) + session.request.padding as usize;
        let memory = match direction {
            Direction::Up => BUFFERS + Receiving::memory(size) as u64,
            Direction::Down => BUFFERS + SENDER,
        };
        let grant = self.admit(Ask::session(memory).proven(proven))?;
        if proven {
            self.service.shared.gate.right_key(self.peer.ip());
            self.grant.set_proven();
        }
        if direction == Direction::Up {
            let memory = SessionReceiver::memory(session.request.packets);
            let records = self.admit(Ask { memory, proven, ..Ask::default() })?;
            let owner = self.server.owner();
            self.service.kept().claim(&session, &owner, records, clock::steady())?;
        }
        let (sid, packets) = (session.sid(), session.request.packets);
        let opened = self.socket(&session, direction, far, keys, packet::len(mode));
        let (port, end) = opened.map_err(|error| {
            tracing::debug!(peer = %self.peer, %error, "no socket for an OWAMP session");
            self.service.kept().release(sid);
            Accept::Temporary
        })?;
        let way = if direction == Direction::Up { "to" } else { "from" };
        audit::accepted(
            policy::OWAMP,
            self.peer,
            format_args!("a session of {packets} packets {way} UDP {port}"),
        );
        self.opened += 1;
        self.sessions.push(Session {
            id: self.opened,
            sid,
            end,
            running: false,
            complete: false,
            sent: 0,
            grant,
        });
        Ok(port)
    }

    fn admit(&self, ask: Ask) -> Result<Grant, Accept> {
        let gate: &Gate = &self.service.shared.gate;
        gate.admit(policy::OWAMP, self.peer.ip(), ask, clock::steady()).map_err(|why| {
            audit::refused(policy::OWAMP, self.peer, why);
            Accept::Temporary
        })
    }

    fn socket(
        &self,
        session: &TestSession,
        direction: Direction,
        far: SocketAddr,
        keys: Option<TestKeys>,
        len: usize,
    ) -> io::Result<(u16, End)> {
        let socket = self.bind()?;
        let port = socket.local_addr()?.port();
        let session = session.clone().with_server_port(port);
        let sends = direction == Direction::Down;
        let marks = Marks {
            dscp: session.request.dscp().and_then(|dscp| Dscp::new(dscp.into())).unwrap_or_default(),
            priority: self.service.shared.priority,
        };
        let ways = if sends { Ways::SENT } else { Ways::RECEIVED };
        let (stamps, _) = stream_socket::prepare_udp(&socket, ways, marks, Stamps::Kernel)?;
        if !sends {
            let from = Some(far.port()).filter(|port| *port != 0);
            let receiver = SessionReceiver::new(&session, keys, len, far.ip(), from);
            return Ok((port, End::Receiving(Box::new(Receiving::new(socket, receiver)))));
        }
        if self.local.is_ipv6() {
            socket2::SockRef::from(&socket).set_unicast_hops_v6(255)?;
        } else {
            socket.set_ttl(255)?;
        }
        let mut to = self.peer;
        to.set_ip(far.ip());
        to.set_port(far.port());
        socket.connect(to)?;
        let (shared, peer) = (self.service.shared.clone(), self.peer.ip());
        let departing = Departing {
            sender: SessionSender::new(&session, keys, tick()),
            packets: session.request.packets,
            padding: session.request.padding,
            socket,
            stamps,
            keeps_stamps: false,
            pacing: Pacing::default(),
            admit: Box::new(move |bytes| {
                let admitted = shared.take(peer, bytes, clock::steady()).is_ok();
                if admitted {
                    shared.counters.answered(1);
                } else {
                    shared.counters.silent(Silence::Limited);
                }
                admitted
            }),
        };
        Ok((port, End::Waiting(Box::new(departing))))
    }

    /// A socket at the address of the connection, on a port that sessions may have.
    fn bind(&self) -> io::Result<UdpSocket> {
        let at = |port| {
            let mut at = self.local;
            at.set_port(port);
            sockets::bind_udp_alone(at)
        };
        let Some(range) = &self.service.test_ports else { return at(0) };
        range.clone().find_map(|port| at(port).ok()).ok_or_else(|| io::ErrorKind::AddrInUse.into())
    }

    /// The sessions granted since the last test begin.
    fn start(&mut self) {
        for session in self.sessions.iter_mut().filter(|s| !s.running) {
            session.running = true;
            session.end = match std::mem::replace(&mut session.end, End::Over) {
                End::Waiting(departing) => {
                    match Sending::start(session.sid, *departing, self.waker.clone()) {
                        Ok(sending) => End::Sending(sending),
                        Err(error) => {
                            tracing::warn!(peer = %self.peer, %error, "no thread for one more session");
                            self.over = true;
                            End::Over
                        }
                    }
                }
                End::Receiving(receiving) => {
                    let event = EpollEvent::new(EpollFlags::EPOLLIN, session.id);
                    let _ = self.epoll.add(&receiving.socket, event);
                    End::Receiving(receiving)
                }
                other => other,
            };
        }
    }

    /// The sender of a session has ended it.
    fn finish(&mut self, received: &Received) {
        let Some(place) = self.sessions.iter().position(|s| s.sid == received.said.sid) else { return };
        let mut session = self.sessions.swap_remove(place);
        let now = clock::steady();
        receive(&self.service.shared, self.peer.ip(), &mut session, now);
        let End::Receiving(mut receiving) = session.end else { return };
        let error = receiving.error(now);
        match receiving.receiver.finish(&received.said, received.at, error) {
            Ok(data) => self.service.kept().keep(data, now),
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "an OWAMP session");
                self.service.kept().release(session.sid);
            }
        }
    }

    /// The conversation is over: sessions that have not ended yet end now.
    fn abandon(&mut self) {
        let now = clock::steady();
        for mut session in self.sessions.drain(..) {
            receive(&self.service.shared, self.peer.ip(), &mut session, now);
            if let End::Receiving(mut receiving) = session.end {
                let error = receiving.error(now);
                if session.running {
                    let data = receiving.receiver.abandon(clock::wall(), error);
                    self.service.kept().keep(data, now);
                } else {
                    self.service.kept().release(session.sid);
                }
            }
        }
    }

    /// Reports ends that are complete.
    fn look(&mut self) {
        let now = clock::steady();
        let mut complete = Vec::new();
        for session in self.sessions.iter_mut().filter(|s| s.running) {
            let is_complete = match &mut session.end {
                End::Sending(sending) => {
                    if std::mem::replace(&mut session.sent, sending.sent()) != session.sent {
                        session.grant.touch(now);
                        self.grant.touch(now);
                    }
                    sending.is_complete()
                }
                End::Receiving(receiving) => receiving.look(now),
                End::Waiting(_) | End::Over => false,
            };
            if is_complete && !std::mem::replace(&mut session.complete, true) {
                complete.push(session.sid);
            }
        }
        for sid in complete {
            self.server.handle(tick(), Input::Complete(sid));
        }
    }

    /// Waits for an event, at most a tenth of a second, and handles it.
    fn wait(&mut self) -> io::Result<()> {
        let now = clock::steady();
        let until = self.server.poll_timeout().map_or(i64::MAX, |t| (t - now).0);
        let ms = until.clamp(0, LOOK_AROUND.as_nanos() as i64).unsigned_abs().div_ceil(1_000_000) as u16;
        let mut ready = [EpollEvent::empty(); READY];
        let count = match self.epoll.wait(&mut ready, EpollTimeout::from(ms)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        let ready = &ready[..count];
        let now = clock::steady();
        if ready.iter().any(|e| e.data() == WAKER) {
            self.waker.clear();
        }
        let mut came = false;
        for event in ready {
            if let Some(session) = self.sessions.iter_mut().find(|s| s.id == event.data()) {
                came |= receive(&self.service.shared, self.peer.ip(), session, now);
            }
        }
        if came {
            self.grant.touch(now);
        }
        if ready.iter().any(|e| e.data() == CONTROL) {
            let mut buffer = [0; 4096];
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

/// Batches that are taken from one session before others are looked at.
const ROUND: usize = 64;

/// Takes what has arrived of a session; whether any of it was recorded.
fn receive(shared: &Shared, peer: IpAddr, session: &mut Session, now: SteadyTime) -> bool {
    let End::Receiving(receiving) = &mut session.end else { return false };
    let mut any = false;
    for _ in 0..ROUND {
        let admit = |bytes| {
            let admitted = shared.take(peer, bytes, now).is_ok();
            if !admitted {
                shared.counters.silent(Silence::Limited);
            }
            admitted
        };
        match receiving.receive(libc::MSG_DONTWAIT, now, admit, |_| any = true) {
            Ok(count) if count > 0 => {}
            _ => break,
        }
    }
    if any {
        session.grant.touch(now);
    }
    any
}

#[cfg(test)]
mod tests;
