//! OWAMP server: one thread per control connection, which also receives packets of sessions, and one thread
//! per session in which the server sends.

use super::control::{ControlConnection, FIRST_OTHER, listen};
use super::{OpenReflector, Reflector, ReflectorContext, at_port};
use crate::accept::ConnectionService;
use crate::audit;
use crate::clock::{self, tick};
use crate::engine::stream_socket::{self, Marks};
use crate::owamp::receiving::Receiving;
use crate::owamp::sending::{Departing, SendingSession};
use crate::pace::Pacing;
use crate::sockets::{self, PacketMarker};
use crate::stamp::{StampMode, StampedPackets};
use crate::sys::ReceiveMode;
use crate::wake::Waker;
use jitlat_core::{Direction, Dscp, EcnMarking, SteadyTime, WallTime};
use jitlat_proto::Machine;
use jitlat_proto::amp::setup::Greeting;
use jitlat_proto::amp::{AcceptCode, AmpEndReason, Sid, TestKeys, Users};
use jitlat_proto::owamp::server::{OwampOpenRequest, OwampServerEvent, OwampServerInput, Server};
use jitlat_proto::owamp::{
    self, OwampRules, Owner, PeerSummary, SessionData, SessionReceiver, SessionSender, Store, StoreLimits,
    TestSession, packet,
};
use jitlat_proto::policy::{self, Ask, Grant, Policy, PolicyRefusal, Scope, Service};
use jitlat_proto::twoway::reflect::Silence;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Accepts OWAMP sessions over a control connection, sends or receives their packets, and stores the results.
#[derive(Clone, Debug)]
pub struct OwampServer {
    /// TCP port of control connections.
    pub port: u16,
    /// Users for the keyed modes. If there are any, the open mode is not offered.
    pub users: Users,
    /// UDP ports allowed for sessions; `None`: the system chooses.
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

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        listen(at, shared, |acceptor| OwampService {
            rules: rules(shared.policy(), &self.users),
            test_ports: self.test_ports.clone(),
            shared: shared.clone(),
            started: clock::wall(),
            kept: Mutex::new(StoredSessions::new()),
            waker: acceptor.waker(),
        })
    }
}

/// Returns the limits of one session, which lie within the limits of `policy` for a client.
fn rules(policy: &Policy, users: &Users) -> OwampRules {
    let usual = OwampRules::default();
    let quotas = Scope::ALL.map(|scope| policy.quota(policy::OWAMP, scope));
    let rate = quotas.iter().filter_map(|quota| quota.packets).min().unwrap_or(usual.rate);
    let bytes = quotas.iter().filter_map(|quota| quota.bytes).min();
    let bandwidth = bytes.map_or(usual.bandwidth, |bytes| bytes.saturating_mul(8));
    OwampRules {
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
    rules: OwampRules,
    test_ports: Option<RangeInclusive<u16>>,
    shared: ReflectorContext,
    started: WallTime,
    kept: Mutex<StoredSessions>,
    /// Wakes the acceptor, which discards expired results.
    waker: Waker,
}

impl OwampService {
    fn kept(&self) -> MutexGuard<'_, StoredSessions> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the results of a claimed session for a limited time.
    fn keep(&self, data: SessionData, now: SteadyTime) {
        self.kept().keep(data, now);
        self.waker.wake();
    }
}

/// Results of sessions, with the memory granted for them. Results are discarded if their memory is needed for
/// other clients.
struct StoredSessions {
    store: Store,
    memory: HashMap<Sid, Grant>,
}

impl StoredSessions {
    fn new() -> StoredSessions {
        StoredSessions { store: Store::new(StoreLimits::default()), memory: HashMap::new() }
    }

    /// Reserves memory for the results of a session of `owner` that is about to run.
    fn claim(
        &mut self,
        session: &TestSession,
        owner: &Owner,
        memory: Grant,
        now: SteadyTime,
    ) -> Result<(), AcceptCode> {
        self.tidy(now);
        self.store.claim(session.sid(), owner, session.request.packets, now)?;
        self.memory.insert(session.sid(), memory);
        Ok(())
    }

    /// Stores the results of a claimed session.
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

    /// True if the memory of a running session was needed for other clients.
    fn is_evicted(&self, sid: Sid) -> bool {
        self.memory.get(&sid).is_some_and(Grant::is_evicted)
    }

    /// Releases the memory of expired results; returns the time of the next expiry.
    fn tidy(&mut self, now: SteadyTime) -> Option<SteadyTime> {
        let evicted: Vec<Sid> =
            self.memory.iter().filter(|(_, grant)| grant.is_evicted()).map(|(sid, _)| *sid).collect();
        evicted.into_iter().for_each(|sid| self.store.release(sid));
        let expires = self.store.expire(now);
        let StoredSessions { store, memory } = self;
        memory.retain(|sid, _| store.contains(*sid));
        expires
    }
}

impl ConnectionService for OwampService {
    fn name(&self) -> &'static str {
        "owamp-control"
    }

    fn service(&self) -> Service {
        policy::OWAMP
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        let served = OwampConversation::new(self, stream, peer, grant).and_then(|mut c| {
            let ran = c.run();
            // End all sessions and store the received packets, no matter how the conversation ended.
            c.abandon();
            ran
        });
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "an OWAMP control connection was lost");
        }
    }

    /// Refuses a client in the way that the protocol defines.
    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &PolicyRefusal) {
        self.shared.counters.silent(Silence::of(why));
        let _ = stream.write_all(&Greeting::go_away());
    }

    fn expire(&self, now: SteadyTime) -> Option<SteadyTime> {
        self.kept().tidy(now)
    }
}

/// This host's end of a session.
enum ServerEndpoint {
    /// Accepted; packets are sent once the test starts.
    Waiting(Box<Departing>),
    Sending(SendingSession),
    /// Receiving. Before the test starts, packets wait in the socket with the kernel's timestamp.
    Receiving(Box<Receiving>),
    /// Ended: the sent packets were reported, or the results were stored.
    Over,
}

struct OwampSession {
    /// Identifier in the epoll set.
    id: u64,
    sid: Sid,
    end: ServerEndpoint,
    /// True while the test is running.
    running: bool,
    complete: bool,
    /// Number of packets sent at the last check.
    sent: u32,
    grant: Grant,
}

/// Size of the kernel's buffers for the packets of one session, in bytes. The kernel counts twice the
/// requested size.
const SOCKET_MEMORY: u64 = 2 << 20;
/// Memory that a sending session needs, in bytes.
const SENDER_MEMORY: u64 = 1 << 20;
/// Identifier of the waker in the epoll set; the sessions use the following numbers.
const WAKER: u64 = FIRST_OTHER;

struct OwampConversation<'a> {
    service: &'a OwampService,
    control: ControlConnection<'a, Server>,
    /// Accepted and running sessions.
    sessions: Vec<OwampSession>,
    next_id: u64,
    waker: Waker,
    over: bool,
}

impl OwampConversation<'_> {
    fn new<'a>(
        service: &'a OwampService,
        stream: TcpStream,
        peer: SocketAddr,
        grant: &'a Grant,
    ) -> io::Result<OwampConversation<'a>> {
        let make =
            |local, random| Server::new(service.rules.clone(), peer, local, service.started, random, tick());
        let control = ControlConnection::new((stream, peer), &service.shared, policy::OWAMP, grant, make)?;
        let waker = Waker::new()?;
        control.watch(&waker, WAKER)?;
        Ok(OwampConversation {
            service,
            control,
            sessions: Vec::new(),
            next_id: WAKER + 1,
            waker,
            over: false,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        while !self.service.shared.is_stopping() && !self.is_evicted() {
            self.execute();
            while self.control.write_next() {
                self.execute();
            }
            if self.over {
                self.control.finish();
                break;
            }
            if self.control.is_expired() {
                continue;
            }
            self.wait()?;
            self.look();
            self.control.machine.handle_timeout(tick());
        }
        Ok(())
    }

    /// True if the memory of this connection or of its sessions is needed for other clients.
    fn is_evicted(&self) -> bool {
        let kept = self.service.kept();
        self.control.grant.is_evicted()
            || self.sessions.iter().any(|s| s.grant.is_evicted() || kept.is_evicted(s.sid))
    }

    /// Executes the requests of the state machine.
    fn execute(&mut self) {
        while let Some(event) = self.control.machine.poll_event() {
            match event {
                OwampServerEvent::Open(asked) => {
                    let opened = self.open(*asked);
                    self.control.handle(OwampServerInput::Opened(opened));
                }
                OwampServerEvent::Start => self.start(),
                OwampServerEvent::StopSending => {
                    for session in &mut self.sessions {
                        let summary = match std::mem::replace(&mut session.end, ServerEndpoint::Over) {
                            ServerEndpoint::Sending(sending) => sending.stop().summary,
                            ServerEndpoint::Waiting(mut departing) => departing.sender.stop(),
                            other => {
                                session.end = other;
                                continue;
                            }
                        };
                        self.control.handle(OwampServerInput::Sent(summary));
                    }
                    self.sessions.retain(|s| !matches!(s.end, ServerEndpoint::Over));
                }
                OwampServerEvent::Received(received) => self.finish(&received),
                OwampServerEvent::Fetch(fetch, owner) => {
                    let found = self.service.kept().store.find(fetch.sid, &owner, clock::steady());
                    self.control.handle(OwampServerInput::Found(found));
                }
                OwampServerEvent::Over(reason) => {
                    if reason == AmpEndReason::Denied {
                        self.control.denied();
                    }
                    self.over = true;
                }
            }
        }
    }

    /// Admits a session and opens its socket; returns the port.
    fn open(&mut self, asked: OwampOpenRequest) -> Result<u16, AcceptCode> {
        let OwampOpenRequest { session, direction, far, mode, keys } = asked;
        let proven = !self.service.rules.users.is_empty();
        let size = packet::len(mode) + session.request.padding as usize;
        let memory = match direction {
            Direction::Up => SOCKET_MEMORY + Receiving::memory(size) as u64,
            Direction::Down => SOCKET_MEMORY + SENDER_MEMORY,
        };
        let grant = self.control.admit(Ask::session(memory), proven)?;
        if direction == Direction::Up {
            let memory = SessionReceiver::memory(session.request.packets);
            // A separate grant, because records are stored beyond the end of the session, and even of the
            // connection, until the client fetches them.
            let records = self.control.admit(Ask { memory, ..Ask::default() }, proven)?;
            let owner = self.control.machine.owner();
            self.service.kept().claim(&session, &owner, records, clock::steady())?;
        }
        let (sid, packets) = (session.sid(), session.request.packets);
        let opened = self.socket(&session, direction, far, keys, packet::len(mode));
        let (port, end) = opened.map_err(|error| {
            tracing::debug!(peer = %self.control.peer, %error, "cannot open a socket for an OWAMP session");
            self.service.kept().release(sid);
            AcceptCode::Temporary
        })?;
        let preposition = if direction == Direction::Up { "to" } else { "from" };
        audit::accepted(
            policy::OWAMP,
            self.control.peer,
            format_args!("a session of {packets} packets {preposition} UDP {port}"),
        );
        self.sessions.push(OwampSession {
            id: self.next_id,
            sid,
            end,
            running: false,
            complete: false,
            sent: 0,
            grant,
        });
        self.next_id += 1;
        Ok(port)
    }

    fn socket(
        &self,
        session: &TestSession,
        direction: Direction,
        far: SocketAddr,
        keys: Option<TestKeys>,
        len: usize,
    ) -> io::Result<(u16, ServerEndpoint)> {
        let socket = self.control.bind(self.service.test_ports.as_ref(), None, sockets::bind_udp_alone)?;
        let port = socket.local_addr()?.port();
        let session = session.clone().with_server_port(port);
        let sends = direction == Direction::Down;
        let marks = Marks {
            marker: PacketMarker::new(
                session.request.dscp().and_then(|dscp| Dscp::new(dscp.into())).unwrap_or_default(),
                EcnMarking::Off,
            ),
            priority: self.service.shared.priority,
        };
        let stamped = if sends { StampedPackets::SENT } else { StampedPackets::RECEIVED };
        let (stamps, _) = stream_socket::prepare_udp(&socket, stamped, marks, StampMode::Kernel)?;
        if !sends {
            let from = Some(far.port()).filter(|port| *port != 0);
            let receiver = SessionReceiver::new(&session, keys, len, far.ip(), from);
            return Ok((port, ServerEndpoint::Receiving(Box::new(Receiving::new(socket, receiver)))));
        }
        if self.control.local.is_ipv6() {
            // The receiver computes the number of hops as 255 minus the TTL that arrived (RFC 4656).
            socket2::SockRef::from(&socket).set_unicast_hops_v6(255)?;
        } else {
            socket.set_ttl(255)?;
        }
        let mut to = self.control.peer;
        to.set_ip(far.ip());
        to.set_port(far.port());
        socket.connect(to)?;
        let (shared, peer) = (self.service.shared.clone(), self.control.peer.ip());
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
        Ok((port, ServerEndpoint::Waiting(Box::new(departing))))
    }

    /// Starts the sessions that have been accepted since the last start.
    fn start(&mut self) {
        for session in self.sessions.iter_mut().filter(|s| !s.running) {
            session.running = true;
            session.end = match std::mem::replace(&mut session.end, ServerEndpoint::Over) {
                ServerEndpoint::Waiting(departing) => {
                    match SendingSession::start(session.sid, *departing, self.waker.clone()) {
                        Ok(sending) => ServerEndpoint::Sending(sending),
                        Err(error) => {
                            tracing::warn!(peer = %self.control.peer, %error, "cannot start a thread for another session");
                            self.over = true;
                            ServerEndpoint::Over
                        }
                    }
                }
                ServerEndpoint::Receiving(receiving) => {
                    let _ = self.control.watch(&receiving.socket, session.id);
                    ServerEndpoint::Receiving(receiving)
                }
                other => other,
            };
        }
    }

    /// Completes and stores the results of a session for which the client has finished sending.
    fn finish(&mut self, received: &PeerSummary) {
        let Some(index) = self.sessions.iter().position(|s| s.sid == received.summary.sid) else { return };
        let mut session = self.sessions.swap_remove(index);
        let now = clock::steady();
        receive(&self.service.shared, self.control.peer.ip(), &mut session, now);
        let ServerEndpoint::Receiving(mut receiving) = session.end else { return };
        let error = receiving.error(now);
        match receiving.receiver.finish(&received.summary, received.at, error) {
            Ok(data) => self.service.keep(data, now),
            Err(error) => {
                tracing::debug!(peer = %self.control.peer, %error, "an OWAMP session");
                self.service.kept().release(session.sid);
            }
        }
    }

    /// Ends the remaining sessions after the conversation has ended.
    fn abandon(&mut self) {
        let now = clock::steady();
        for mut session in self.sessions.drain(..) {
            receive(&self.service.shared, self.control.peer.ip(), &mut session, now);
            if let ServerEndpoint::Receiving(mut receiving) = session.end {
                let error = receiving.error(now);
                if session.running {
                    let data = receiving.receiver.abandon(clock::wall(), error);
                    self.service.keep(data, now);
                } else {
                    self.service.kept().release(session.sid);
                }
            }
        }
    }

    /// Informs the state machine about sessions that have become complete.
    fn look(&mut self) {
        let now = clock::steady();
        let mut complete = Vec::new();
        for session in self.sessions.iter_mut().filter(|s| s.running) {
            let is_complete = match &mut session.end {
                ServerEndpoint::Sending(sending) => {
                    if std::mem::replace(&mut session.sent, sending.sent()) != session.sent {
                        session.grant.touch(now);
                        self.control.grant.touch(now);
                    }
                    sending.is_complete()
                }
                ServerEndpoint::Receiving(receiving) => receiving.look(now),
                ServerEndpoint::Waiting(_) | ServerEndpoint::Over => false,
            };
            if is_complete && !std::mem::replace(&mut session.complete, true) {
                complete.push(session.sid);
            }
        }
        for sid in complete {
            self.control.handle(OwampServerInput::Complete(sid));
        }
    }

    /// Waits for an event, at most a tenth of a second, and handles it.
    fn wait(&mut self) -> io::Result<()> {
        let ready = self.control.wait(None)?;
        let now = clock::steady();
        let mut received = false;
        for id in ready.clone() {
            if id == WAKER {
                self.waker.clear();
            } else if let Some(session) = self.sessions.iter_mut().find(|s| s.id == id) {
                received |= receive(&self.service.shared, self.control.peer.ip(), session, now);
            }
        }
        if received {
            self.control.grant.touch(now);
        }
        self.control.read(ready);
        Ok(())
    }
}

/// Maximum number of batches taken from one session before the other sessions are checked.
const MAX_BATCHES: usize = 64;

/// Receives the queued packets of a session; returns true if any packet was recorded.
fn receive(shared: &ReflectorContext, peer: IpAddr, session: &mut OwampSession, now: SteadyTime) -> bool {
    let ServerEndpoint::Receiving(receiving) = &mut session.end else { return false };
    let mut any = false;
    for _ in 0..MAX_BATCHES {
        let admit = |bytes| {
            let admitted = shared.take(peer, bytes, now).is_ok();
            if !admitted {
                shared.counters.silent(Silence::Limited);
            }
            admitted
        };
        match receiving.receive(ReceiveMode::Queued, now, admit, |_| any = true) {
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
