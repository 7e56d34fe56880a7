//! The server's driver: accepts control connections, runs a server machine and a flow engine for each, and
//! keeps the sessions of sessions over all of them.

use crate::accept::{Acceptor, ConnectionService, Full, SlotLimits, Slots, TurnedAway};
use crate::clock::{StepWatch, host_facts, steady, tick};
use crate::control::{Connection, Incoming, facts_after};
use crate::engine::rendezvous::Rendezvous;
use crate::engine::{Engine, EngineSettings};
use crate::pace::Pacing;
use crate::privilege::{Capability, needs};
use crate::random;
use jitlat_core::session::HostFacts;
use jitlat_proto::Machine;
use jitlat_proto::jitlat::auth::Side;
use jitlat_proto::jitlat::codec::Codec;
use jitlat_proto::jitlat::message::{Message, Nak, NakCode};
use jitlat_proto::jitlat::{
    Dialect, FlowReport, Key, Limits, Refusal, ServerConfig, ServerEvent, ServerInput, ServerMachine,
    SessionTable,
};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct Service {
    /// Addresses for control connections; port 0: the system chooses.
    pub bind: Vec<SocketAddr>,
    /// Port where test streams are awaited unless a client names another.
    pub test_port: u16,
    /// What is granted.
    pub limits: Limits,
    /// The key clients must prove to know.
    pub key: Option<Key>,
    /// How packet threads are run.
    pub pacing: Pacing,
}

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address cannot be listened on.
    #[error("cannot listen on TCP {address}: {source}; {}", advice(.source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// This host lacks something.
    #[error("cannot start the server: {0}")]
    Start(#[from] io::Error),
}

fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "does another server have the port? Choose one with --control-port".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("a port below 1024 {}", needs(Capability::NetBindService)),
        _ => "is it an address of this host?".to_owned(),
    }
}

/// A server that listens.
pub struct Server {
    acceptor: Acceptor,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    service: Service,
    sessions: Mutex<SessionTable>,
    rendezvous: Arc<Rendezvous>,
    stop: AtomicBool,
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, SessionTable> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens on every address of `service`.
    ///
    /// # Errors
    /// [`ServerError`] if any address cannot be had.
    pub fn bind(service: Service) -> Result<Server, ServerError> {
        let limits = &service.limits;
        let limits = SlotLimits { total: limits.connections, per_client: limits.connections_per_client };
        let acceptor = Acceptor::bind(&service.bind, Slots::new(limits), Arc::default())
            .map_err(|(address, source)| ServerError::Listen { address, source })?;
        let shared = Shared {
            sessions: Mutex::new(SessionTable::new(service.limits.clone())),
            rendezvous: Rendezvous::new()?,
            stop: AtomicBool::new(false),
            service,
        };
        Ok(Server { acceptor, shared: Arc::new(shared) })
    }

    /// The addresses listened on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.acceptor.addresses()
    }

    /// Serves until `stop` is raised; then tells every client and waits for its threads.
    pub fn run(self, stop: &AtomicBool) {
        self.acceptor.run(&self.shared, stop);
    }
}

impl ConnectionService for Shared {
    fn name(&self) -> &'static str {
        "jitlat"
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        match Conversation::new(self, stream, peer).and_then(Conversation::run) {
            Ok(None) => info!(%peer, "done"),
            Ok(Some(why)) => info!(%peer, "{why}"),
            Err(e) => warn!(%peer, "could not be served: {e}"),
        }
    }

    /// In the one dialect that has words for it.
    fn turn_away(&self, mut stream: &TcpStream, peer: SocketAddr, why: TurnedAway) {
        let why = match why {
            TurnedAway::Full(Full::Total(allowed)) => {
                Refusal::new("max-connections", allowed, "one more").to_string()
            }
            TurnedAway::Full(Full::PerClient(allowed)) => {
                Refusal::new("max-connections-per-client", allowed, "one more").to_string()
            }
            TurnedAway::NotAllowed => why.to_string(),
        };
        info!(%peer, "connection refused: {why}");
        let Ok(local) = stream.local_addr() else { return };
        let mut words = Vec::new();
        let nak = Nak::new(NakCode::Busy, why);
        Codec::new(Dialect::V3, Side::Server, local, peer).encode(&Message::Nak(nak), &mut words);
        // One that does not take it is told nothing.
        let _ = stream.write(&words);
    }

    fn look_around(&self) {
        self.sessions().expire(steady());
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

struct Conversation<'a> {
    shared: &'a Shared,
    peer: SocketAddr,
    connection: Option<Connection>,
    machine: ServerMachine,
    engine: Engine,
    facts: HostFacts,
    watch: StepWatch,
}

impl<'a> Conversation<'a> {
    fn new(shared: &'a Shared, stream: TcpStream, peer: SocketAddr) -> io::Result<Conversation<'a>> {
        let local = stream.local_addr()?;
        let facts = host_facts();
        let mut entropy = [0; 32];
        random::fill(&mut entropy)?;
        let config = ServerConfig {
            local,
            peer,
            limits: shared.service.limits.clone(),
            key: shared.service.key.clone(),
            entropy,
            host: facts.clone(),
            software: concat!("jitlat ", env!("CARGO_PKG_VERSION")).to_owned(),
            test_port: shared.service.test_port,
        };
        let settings = EngineSettings {
            local,
            pacing: shared.service.pacing.clone(),
            rendezvous: Arc::clone(&shared.rendezvous),
            live: false,
        };
        Ok(Conversation {
            shared,
            peer,
            connection: Some(Connection::new(stream)?),
            machine: ServerMachine::new(config, tick()),
            engine: Engine::new(settings)?,
            facts,
            watch: StepWatch::start(),
        })
    }

    fn run(mut self) -> io::Result<Option<String>> {
        let mut shutting_down = false;
        loop {
            if let Some(end) = self.obey() {
                self.last_words();
                return Ok(end);
            }
            self.speak();
            let deadline = self.machine.poll_timeout();
            match &self.connection {
                Some(connection) => connection.wait(self.engine.waker(), deadline),
                None => crate::control::wait_for_waker(self.engine.waker(), deadline),
            }
            if self.shared.stop.load(Ordering::Acquire) && !shutting_down {
                shutting_down = true;
                self.machine.handle(tick(), ServerInput::Shutdown);
            }
            self.listen();
            while let Some(report) = self.engine.report() {
                if matches!(report, FlowReport::Sent(..) | FlowReport::Received(..)) {
                    let facts = facts_after(&self.facts, &mut self.watch, self.engine.notes());
                    self.machine.handle(tick(), ServerInput::Host(facts));
                }
                self.machine.handle(tick(), ServerInput::Flow(report));
            }
            self.watch.look();
            let now = tick();
            if self.machine.poll_timeout().is_some_and(|due| now.steady >= due) {
                self.machine.handle_timeout(now);
            }
        }
    }

    /// Does what the machine wants; its end, once it has come.
    fn obey(&mut self) -> Option<Option<String>> {
        while let Some(event) = self.machine.poll_event() {
            match event {
                ServerEvent::Admit(claim) => {
                    let verdict = self.shared.sessions().admit(claim, steady());
                    self.machine.handle(tick(), ServerInput::Admitted(verdict));
                }
                ServerEvent::Find(id) => {
                    let found = self.shared.sessions().find(id);
                    self.machine.handle(tick(), ServerInput::Found(found));
                }
                ServerEvent::Keep(id, results) => self.shared.sessions().keep(id, results, steady()),
                ServerEvent::Forget(id) => self.shared.sessions().forget(id),
                ServerEvent::Flow(command) => self.engine.command(command),
                ServerEvent::Agreed(id, specs) => {
                    for spec in &specs {
                        info!(peer = %self.peer, "session {id}: {}", describe(spec));
                    }
                }
                ServerEvent::Done(why) => return Some(why),
            }
        }
        None
    }

    fn speak(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        while !connection.is_pending() && self.machine.poll_transmit(tick(), connection.out()) {
            if connection.flush().is_err() {
                return self.lose();
            }
        }
        if connection.flush().is_err() {
            self.lose();
        }
    }

    /// Writes what is still to be said before the connection closes, for a bounded while.
    fn last_words(&mut self) {
        let until = steady() + jitlat_core::Span::seconds(5);
        let Some(connection) = &mut self.connection else { return };
        while self.machine.poll_transmit(tick(), connection.out()) {}
        while connection.flush().is_ok() && connection.is_pending() && steady() < until {
            connection.wait(self.engine.waker(), Some(until));
        }
    }

    fn listen(&mut self) {
        // Bounded, so that a client that never stops talking does not keep reports and timers waiting.
        for _ in 0..16 {
            let Some(connection) = &mut self.connection else { return };
            match connection.read() {
                Incoming::Nothing => return,
                Incoming::Bytes(bytes) => self.machine.handle(tick(), ServerInput::Received(bytes)),
                Incoming::Closed(_) => return self.lose(),
            }
        }
    }

    fn lose(&mut self) {
        self.connection = None;
        self.machine.handle(tick(), ServerInput::Closed);
    }
}

fn describe(spec: &jitlat_core::TestSpec) -> String {
    format!(
        "{} {} packets of {} bytes, one every {} us, {}",
        spec.packets(),
        spec.transport(),
        spec.payload(),
        spec.period().0 as f64 / 1000.0,
        match spec.direction() {
            jitlat_core::Direction::Up => "client to server",
            jitlat_core::Direction::Down => "server to client",
        }
    )
}
