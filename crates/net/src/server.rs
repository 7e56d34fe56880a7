//! Driver of the server: accepts control connections, runs a server state machine and a flow engine for each
//! connection, and stores sessions.

use crate::SharedKeys;
use crate::accept::{Acceptor, ConnectionService, RunningService};
use crate::audit;
use crate::clock::{ClockSteps, host_facts, steady, tick};
use crate::drive::{Driver, facts_after};
use crate::engine::rendezvous::Rendezvous;
use crate::engine::{Engine, EngineSettings};
use crate::launch::ThisHost;
use crate::pace::{Pacing, SendSettings};
use crate::privilege::{Capability, needs};
use crate::wake::{StopSignal, Waker};
use crate::{random, sockets};
use jitlat_core::observer::StreamProgress;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::Machine;
use jitlat_proto::jitlat::auth::ConnectionSide;
use jitlat_proto::jitlat::codec::Codec;
use jitlat_proto::jitlat::message::{Message, Nak, NakCode};
use jitlat_proto::jitlat::stream::Finish;
use jitlat_proto::jitlat::{
    Dialect, FlowReport, ServerConfig, ServerEvent, ServerInput, ServerLimits, ServerMachine, SessionTable,
};
use jitlat_proto::policy::{self, Gate, Grant, ONE_WAY, Service};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Addresses for control connections; with port 0, the system chooses the port.
    pub bind: Vec<SocketAddr>,
    /// Port of test streams, unless a client requests another one.
    pub test_port: u16,
    /// Limits that apply to each client.
    pub limits: ServerLimits,
    /// Accepted keys of clients; empty: no key is required.
    pub keys: SharedKeys,
    /// Scheduling and waiting method of the packet threads.
    pub pacing: Pacing,
    /// Priority of sent packets on this host (`SO_PRIORITY`); `None`: the system's default.
    pub priority: Option<u32>,
}

/// Reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Listening on an address failed.
    #[error("cannot listen on TCP {address}: {source}; {}", advice(.source))]
    Listen {
        /// Address on which listening failed.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot start the server: {0}")]
    Start(#[from] io::Error),
}

fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "does another server use the port? Choose another one with --control-port".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("a port below 1024 {}", needs(Capability::NetBindService)),
        _ => "is it an address of this host?".to_owned(),
    }
}

/// A server that is listening but does not serve yet.
pub struct JitlatServer {
    acceptor: Acceptor,
    shared: Arc<ServerState>,
}

/// State shared by all connections.
struct ServerState {
    service: ServerSettings,
    gate: Gate,
    sessions: Mutex<SessionTable>,
    rendezvous: Arc<Rendezvous>,
    stop: StopSignal,
    /// Wakes the acceptor, which discards expired results.
    waker: Waker,
}

impl ServerState {
    fn sessions(&self) -> MutexGuard<'_, SessionTable> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JitlatServer {
    /// Listens on every address of `service`.
    ///
    /// # Errors
    /// [`ServerError`] if any address is not available.
    pub fn bind(service: ServerSettings) -> Result<JitlatServer, ServerError> {
        let gate = service.limits.gate();
        JitlatServer::sharing(service, gate)
    }

    /// Like [`bind`](Self::bind), for a server that shares `gate` with other services. The gate's policy
    /// replaces the limits on connections, sessions and memory, and also those on rate and duration if the
    /// policy has any.
    ///
    /// # Errors
    /// [`ServerError`] if any address is not available.
    pub fn sharing(mut service: ServerSettings, gate: Gate) -> Result<JitlatServer, ServerError> {
        service.limits.follow(gate.policy());
        let stop = StopSignal::new()?;
        let acceptor = Acceptor::bind(&service.bind, gate.clone(), stop.clone())
            .map_err(|(address, source)| ServerError::Listen { address, source })?;
        let shared = ServerState {
            sessions: Mutex::new(SessionTable::sharing(service.limits.clone(), gate.clone())),
            rendezvous: Rendezvous::new(gate.clone())?,
            gate,
            stop,
            waker: acceptor.waker(),
            service,
        };
        Ok(JitlatServer { acceptor, shared: Arc::new(shared) })
    }

    /// Returns the addresses on which the service listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.acceptor.addresses()
    }

    /// Starts serving. Dropping the returned [`RunningService`] ends all sessions and waits for their
    /// threads.
    ///
    /// # Errors
    /// [`ServerError::Start`] if the system has no more threads.
    pub fn start(self) -> Result<RunningService, ServerError> {
        Ok(self.acceptor.start(self.shared)?)
    }
}

impl ConnectionService for ServerState {
    fn name(&self) -> &'static str {
        "jitlat"
    }

    fn service(&self) -> Service {
        ONE_WAY
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        match ServerConversation::new(self, stream, peer, grant).and_then(ServerConversation::run) {
            Ok(None) => info!(service = ONE_WAY, %peer, "done"),
            Ok(Some(why)) => info!(service = ONE_WAY, %peer, "{why}"),
            Err(e) => warn!(service = ONE_WAY, %peer, "could not be served: {e}"),
        }
    }

    /// Sends the refusal `why` in a message of protocol version 3, the only version that has a message for refusals.
    fn turn_away(&self, mut stream: &TcpStream, peer: SocketAddr, why: &policy::PolicyRefusal) {
        let Ok(local) = stream.local_addr() else { return };
        let mut message = Vec::new();
        let nak = Nak::new(NakCode::Busy, self.service.limits.refusal(why));
        Codec::new(Dialect::V3, ConnectionSide::Server, local, peer).encode(&Message::Nak(nak), &mut message);
        // If the message cannot be sent, the client does not get the reason.
        let _ = stream.write(&message);
    }

    fn expire(&self, now: SteadyTime) -> Option<SteadyTime> {
        self.sessions().expire(now)
    }
}

/// Timeout for writing the last messages of a conversation.
const FINAL_WRITE_TIMEOUT: Span = Span::seconds(5);

/// Time after the last transfer for which a stopped server waits for a client to fetch results.
const HAND_OVER_TIMEOUT: Span = Span::seconds(4);
/// Maximum time for which a stopped server waits for a client that is still fetching results.
const MAX_HAND_OVER_TIME: Span = Span::seconds(30);

/// Progress of a conversation while the server is being stopped.
struct StoppingSince {
    begin: SteadyTime,
    /// Time of the last transfer.
    last: SteadyTime,
    /// Number of bytes transferred until `last`.
    transferred: u64,
}

struct ServerConversation<'a> {
    shared: &'a ServerState,
    peer: SocketAddr,
    grant: &'a Grant,
    driver: Driver<ServerMachine>,
    engine: Engine,
    facts: HostFacts,
    clock_steps: ClockSteps,
    /// Number of packets of the test at the last check.
    packets: u64,
    /// Number of bytes transferred over the connection at the last check.
    transferred: u64,
    /// Number of bytes received from the client at the last check.
    received: u64,
}

impl<'a> ServerConversation<'a> {
    fn new(
        shared: &'a ServerState,
        stream: TcpStream,
        peer: SocketAddr,
        grant: &'a Grant,
    ) -> io::Result<ServerConversation<'a>> {
        let local = stream.local_addr()?;
        sockets::notice_absence(&stream);
        let facts = host_facts();
        let mut entropy = [0; 32];
        random::fill(&mut entropy)?;
        let config = ServerConfig {
            local,
            peer,
            limits: shared.service.limits.clone(),
            keys: shared.service.keys.current(),
            entropy,
            host: facts.clone(),
            software: concat!("jitlat ", env!("CARGO_PKG_VERSION")).to_owned(),
            test_port: shared.service.test_port,
        };
        let settings = EngineSettings {
            local,
            sending: SendSettings {
                pacing: shared.service.pacing.clone(),
                priority: shared.service.priority,
                ..SendSettings::default()
            },
            rendezvous: Arc::clone(&shared.rendezvous),
            launch_host: &ThisHost,
            live: false,
        };
        Ok(ServerConversation {
            shared,
            peer,
            grant,
            driver: Driver::new(ServerMachine::new(config, tick()), stream)?,
            engine: Engine::new(settings)?,
            facts,
            clock_steps: ClockSteps::start(),
            packets: 0,
            transferred: 0,
            received: 0,
        })
    }

    fn run(mut self) -> io::Result<Option<String>> {
        let (mut stopping, mut evicted, mut superseded): (Option<StoppingSince>, _, _) = (None, false, false);
        loop {
            if let Some(end) = self.execute() {
                self.driver.finish(FINAL_WRITE_TIMEOUT);
                return Ok(end);
            }
            self.driver.write_output();
            self.driver.wait(Some(self.engine.waker()));
            if self.shared.stop.is_requested() {
                self.stop(&mut stopping);
            }
            self.driver.read_input();
            if !superseded && self.shared.sessions().is_awaited(self.driver.machine.session()) {
                superseded = true;
                self.driver.handle(ServerInput::Superseded);
            }
            if self.must_make_room() && !evicted {
                evicted = true;
                self.driver.handle(ServerInput::Evicted);
            }
            while let Some(report) = self.engine.report() {
                if matches!(&report, FlowReport::Received(_, r) if r.finish == Finish::Exceeded) {
                    warn!(peer = %self.peer, "max-rate: far more packets arrived than were agreed; the stream was ended");
                }
                if matches!(report, FlowReport::Sent(..) | FlowReport::Received(..)) {
                    let facts = facts_after(&self.facts, &mut self.clock_steps, self.engine.notes());
                    self.driver.handle(ServerInput::Host(facts));
                }
                self.driver.handle(ServerInput::Flow(report));
            }
            for report in self.engine.look_at_watched(steady()) {
                self.driver.handle(ServerInput::Flow(report));
            }
            self.clock_steps.check();
            self.driver.check_timer();
        }
    }

    /// Ends the test, and the conversation once the client has fetched the results or has stopped reading them.
    fn stop(&mut self, stopping: &mut Option<StoppingSince>) {
        let (now, transferred) = (steady(), self.driver.transferred());
        let Some(since) = stopping else {
            *stopping = Some(StoppingSince { begin: now, last: now, transferred });
            return self.driver.handle(ServerInput::Shutdown);
        };
        if transferred != since.transferred {
            (since.last, since.transferred) = (now, transferred);
        }
        if now - since.last > HAND_OVER_TIMEOUT || now - since.begin > MAX_HAND_OVER_TIME {
            since.last = SteadyTime(i64::MAX);
            self.driver.handle(ServerInput::Shutdown);
        }
    }

    /// True if this conversation has been idle too long and must make room for others. A conversation is
    /// active if packets of its test were sent or received, or if its results were fetched. Other input only
    /// shows that the client still exists.
    fn must_make_room(&mut self) -> bool {
        let packets = |progress: StreamProgress| u64::from(progress.sent) + u64::from(progress.received);
        let packets: u64 = self.engine.progress().map(|(_, progress)| packets(progress)).sum();
        let transferred = self.driver.transferred();
        let received = self.driver.received();
        let is_alive = received != std::mem::replace(&mut self.received, received);
        let is_used =
            packets != self.packets || transferred != self.transferred && self.driver.machine.is_settled();
        (self.packets, self.transferred) = (packets, transferred);
        let session = self.driver.machine.session();
        let used = is_used.then(steady);
        if let Some(now) = used {
            self.grant.touch(now);
        } else if is_alive {
            let now = steady();
            self.grant.keep_alive(now);
            self.shared.sessions().keep_alive(session, now);
        }
        self.shared.sessions().is_evicted(session, used) || self.grant.is_evicted()
    }

    /// Executes the requests of the state machine. Returns `Some` once the conversation has ended, with the
    /// reason if it failed.
    fn execute(&mut self) -> Option<Option<String>> {
        while let Some(event) = self.driver.machine.poll_event() {
            match event {
                ServerEvent::Admit(claim) => {
                    let verdict = self.shared.sessions().admit(claim, steady());
                    self.driver.handle(ServerInput::Admitted(verdict));
                }
                ServerEvent::Find(id) => {
                    let found = self.shared.sessions().find(id);
                    self.driver.handle(ServerInput::Found(found));
                }
                ServerEvent::Keep(id, results) => {
                    self.shared.sessions().keep(id, results, steady());
                    self.shared.waker.wake();
                }
                ServerEvent::Forget(id) => self.shared.sessions().forget(id),
                ServerEvent::Flow(command) => self.engine.command(command),
                ServerEvent::Proof(Some(name)) => {
                    self.shared.gate.right_key(self.peer.ip());
                    self.grant.set_proven();
                    audit::accepted(ONE_WAY, self.peer, format_args!("the key of {name}"));
                }
                ServerEvent::Proof(None) => audit::wrong_key(&self.shared.gate, ONE_WAY, self.peer),
                ServerEvent::Agreed(id, specs) => {
                    for spec in &specs {
                        audit::accepted(ONE_WAY, self.peer, format_args!("session {id}: {}", describe(spec)));
                    }
                }
                ServerEvent::Done(why) => return Some(why),
            }
        }
        None
    }
}

fn describe(spec: &jitlat_core::TestSpec) -> String {
    format!(
        "{} {} packets of {} bytes, one every {}, {}",
        spec.packets(),
        spec.transport(),
        spec.payload(),
        jitlat_core::units::eng3(spec.period().0 as f64),
        match spec.direction() {
            jitlat_core::Direction::Up => "up (client to server)",
            jitlat_core::Direction::Down => "down (server to client)",
        }
    )
}
