//! The server's driver: accepts control connections, runs a server machine and a flow engine for each, and
//! keeps the ledger of sessions over all of them.

use crate::clock::{StepWatch, host_facts, steady};
use crate::control::{Connection, Incoming, facts_after, tick};
use crate::engine::lobby::Lobby;
use crate::engine::{Engine, Site};
use crate::pace::Pacing;
use crate::privilege::{Capability, needs};
use crate::random;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::Machine;
use jitlat_proto::jitlat::auth::Side;
use jitlat_proto::jitlat::codec::Codec;
use jitlat_proto::jitlat::message::{Message, Nak, NakCode};
use jitlat_proto::jitlat::{
    Dialect, Key, Ledger, Limits, Refusal, Report, ServerConfig, ServerEvent, ServerInput, ServerMachine,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

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
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
}

/// A line for the server's own log.
type Log = dyn Fn(&str) + Send + Sync;

struct Shared {
    service: Service,
    ledger: Mutex<Ledger>,
    lobby: Arc<Lobby>,
    stop: AtomicBool,
    log: Box<Log>,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens on every address of `service`. `log` is given one line for each thing worth noting.
    ///
    /// # Errors
    /// [`ServerError`] if any address cannot be had.
    pub fn bind(service: Service, log: impl Fn(&str) + Send + Sync + 'static) -> Result<Server, ServerError> {
        let listen = |&address: &SocketAddr| {
            listener(address).map_err(|source| ServerError::Listen { address, source })
        };
        let listeners = service.bind.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let shared = Shared {
            ledger: Mutex::new(Ledger::new(service.limits.clone())),
            lobby: Lobby::new()?,
            stop: AtomicBool::new(false),
            log: Box::new(log),
            service,
        };
        Ok(Server { listeners, shared: Arc::new(shared) })
    }

    /// The addresses listened on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Serves until `stop` is raised; then tells every client and waits for its threads.
    pub fn run(&self, stop: &AtomicBool) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut leaving = VecDeque::new();
        while !stop.load(Ordering::Relaxed) {
            let mut fds: Vec<_> =
                self.listeners.iter().map(|l| PollFd::new(l.as_fd(), PollFlags::POLLIN)).collect();
            let _ = poll(&mut fds, PollTimeout::from(100u16));
            for listener in &self.listeners {
                while let Ok((stream, peer)) = listener.accept() {
                    threads.extend(self.admit(stream, peer, &mut leaving));
                }
            }
            threads.retain(|t| !t.is_finished());
            let now = steady();
            while leaving.len() > LEAVING || leaving.front().is_some_and(|(until, _)| *until <= now) {
                leaving.pop_front();
            }
            self.shared.ledger().expire(now);
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn admit(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        leaving: &mut VecDeque<(SteadyTime, TcpStream)>,
    ) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        if let Err(refusal) = shared.ledger().connect(peer.ip()) {
            (shared.log)(&format!("{peer}: connection refused: {refusal}"));
            turn_away(&stream, peer, &refusal);
            leaving.push_back((steady() + LEAVE, stream));
            return None;
        }
        let converse = move || {
            let end = Conversation::new(&shared, stream, peer).and_then(Conversation::run);
            shared.ledger().disconnect(peer.ip());
            match end {
                Ok(None) => (shared.log)(&format!("{peer}: done")),
                Ok(Some(why)) => (shared.log)(&format!("{peer}: {why}")),
                Err(e) => (shared.log)(&format!("{peer}: could not be served: {e}")),
            }
        };
        let thread = std::thread::Builder::new().name(format!("client {peer}")).spawn(converse);
        if let Err(e) = &thread {
            self.shared.ledger().disconnect(peer.ip());
            (self.shared.log)(&format!("{peer}: could not be served: {e}"));
        }
        thread.ok()
    }
}

/// Connections turned away that are still open, and for how long: closed with the client's first words
/// unread, they would take the reason down with them.
const LEAVING: usize = 32;
const LEAVE: Span = Span::seconds(2);

/// Tells a client, in the one dialect that has words for it, why it cannot be served.
fn turn_away(mut stream: &TcpStream, peer: SocketAddr, refusal: &Refusal) {
    let Ok(local) = stream.local_addr() else { return };
    let mut words = Vec::new();
    let nak = Nak::new(NakCode::Busy, refusal.to_string());
    Codec::new(Dialect::V3, Side::Server, local, peer).encode(&Message::Nak(nak), &mut words);
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write(&words);
        let _ = stream.shutdown(Shutdown::Write);
    }
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // IPv4 has a listener of its own; so no address is ever a mapped one.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
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
        let site = Site {
            local,
            pacing: shared.service.pacing.clone(),
            lobby: Arc::clone(&shared.lobby),
            live: false,
        };
        Ok(Conversation {
            shared,
            peer,
            connection: Some(Connection::new(stream)?),
            machine: ServerMachine::new(config, tick()),
            engine: Engine::new(site)?,
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
                Some(connection) => connection.wait(self.engine.bell(), deadline),
                None => crate::control::wait_for_bell(self.engine.bell(), deadline),
            }
            if self.shared.stop.load(Ordering::Relaxed) && !shutting_down {
                shutting_down = true;
                self.machine.handle(tick(), ServerInput::Shutdown);
            }
            self.listen();
            while let Some(report) = self.engine.report() {
                if matches!(report, Report::Sent(..) | Report::Received(..)) {
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
                    let verdict = self.shared.ledger().admit(claim, steady());
                    self.machine.handle(tick(), ServerInput::Admitted(verdict));
                }
                ServerEvent::Find(id) => {
                    let found = self.shared.ledger().find(id);
                    self.machine.handle(tick(), ServerInput::Found(found));
                }
                ServerEvent::Keep(id, results) => self.shared.ledger().keep(id, results, steady()),
                ServerEvent::Forget(id) => self.shared.ledger().forget(id),
                ServerEvent::Flow(command) => self.engine.command(command),
                ServerEvent::Agreed(id, specs) => {
                    for spec in &specs {
                        (self.shared.log)(&format!("{}: session {id}: {}", self.peer, describe(spec)));
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
            connection.wait(self.engine.bell(), Some(until));
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
