//! A client and a server on an impaired network in virtual time: both state machines, both ends of streams,
//! wrong clocks, and peers that vanish. An hour of traffic takes about a second to simulate.
//!
//! All random numbers are seeded: the same [`SimWorld`] always gives the same [`SimOutcome`].

pub mod chaos;
mod clock;
mod engine;
pub mod owamp;

pub use clock::{EPOCH, SimClock};
#[cfg(test)]
pub(crate) use engine::SEND_LAG;

use crate::jitlat::auth::PresharedKey;
use crate::jitlat::limits::ServerLimits;
use crate::jitlat::packet::SENTINEL;
use crate::jitlat::session_table::SessionTable;
use crate::jitlat::{
    ClientConfig, ClientEvent, ClientInput, ClientMachine, ConversationFailure, Dialect, ServerConfig,
    ServerEvent, ServerInput, ServerMachine, TestTerms,
};
use crate::{Machine, Tick};
use core::net::SocketAddr;
use engine::{SimEngine, SimPacket};
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{PacketRecord, Session, Span, SteadyTime, TestSpec};
use jitlat_impair::{Impairment, PathModel, PathTally};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct SimWorld {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Dialect of the control connection.
    pub dialect: Dialect,
    /// Specifications of the streams.
    pub flows: Vec<TestSpec>,
    /// Path from client to server.
    pub up: PathModel,
    /// Path from server to client.
    pub down: PathModel,
    /// Clock of the client.
    pub client_clock: SimClock,
    /// Clock of the server.
    pub server_clock: SimClock,
    /// Key of the client; `None`: no key.
    pub client_key: Option<PresharedKey>,
    /// Key of the server; `None`: no key.
    pub server_key: Option<PresharedKey>,
    /// Attacker on the control connection: gets the index of the sending host (0 is the client) and its bytes, and may
    /// change the bytes.
    pub attacker: fn(usize, &mut Vec<u8>),
    /// Limits of the server.
    pub limits: ServerLimits,
    /// Time that reports of a host's streams take to reach its control state machine (threads, queues).
    pub latency: Span,
    /// Fault of a host or the control connection.
    pub trouble: SimTrouble,
    /// Packets lost at the end of streams.
    pub ending: EndTrouble,
    /// Facts about the client and the server, such as the state of their clocks.
    pub hosts: [HostFacts; 2],
    /// True if the client requests progress reports while streams are running.
    pub feedback: bool,
    /// True times at which the user presses Ctrl-C.
    pub interrupt: Vec<Span>,
    /// True time at which the time limit of the client's streams passes; `None`: no limit.
    pub expire: Option<Span>,
    /// Maximum duration of the simulation.
    pub horizon: Span,
}

/// Fault of a host or the control connection. "Step n" is the n-th event on the host: bytes, a packet, or a
/// timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimTrouble {
    /// No fault.
    #[default]
    None,
    /// The server is switched off at its step n. It sends nothing more and does not close the connection.
    ServerVanishes(u64),
    /// The client is switched off at its step n.
    ClientVanishes(u64),
    /// The control connection is lost at this true time, and both sides notice.
    ControlBreaks(Span),
    /// Everything on the control connection is dropped from this true time on, and neither side notices.
    ControlFallsSilent(Span),
    /// The server is asked to stop at this true time.
    ServerStops(Span),
    /// The server's program ends at this true time. Connections close, and new ones are refused.
    ServerDies(Span),
}

/// Losses at the end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndTrouble {
    /// Number of sentinels lost, starting with the first.
    pub sentinels: u32,
    /// Number of times that the segment with the receiver's answer to the first sentinel is lost. TCP
    /// retransmits the segment after 1, 2, 4 … s.
    pub answers: u32,
}

impl SimWorld {
    /// Creates a simulation of one stream without faults.
    pub fn new(spec: TestSpec) -> SimWorld {
        SimWorld {
            seed: 1,
            dialect: Dialect::V3,
            flows: vec![spec],
            up: PathModel::default(),
            down: PathModel::default(),
            client_clock: SimClock::default(),
            server_clock: SimClock::default(),
            client_key: None,
            server_key: None,
            attacker: |_, _| {},
            limits: ServerLimits::default(),
            latency: Span::ZERO,
            trouble: SimTrouble::None,
            ending: EndTrouble::default(),
            hosts: Default::default(),
            feedback: false,
            interrupt: Vec::new(),
            expire: None,
            horizon: Span::seconds(1_000_000),
        }
    }

    /// Sets the same impairments in both directions.
    pub fn path(mut self, config: &PathModel) -> SimWorld {
        self.up = config.clone();
        self.down = config.clone();
        self
    }

    /// Runs the simulation to its end.
    pub fn run(self) -> SimOutcome {
        Simulation::new(self).run()
    }
}

/// Result of a simulation.
#[derive(Debug)]
pub struct SimOutcome {
    /// End of the client's test, with the reason if it is not complete.
    pub client: Result<(Ending, Option<String>), ConversationFailure>,
    /// Session of each flow.
    pub sessions: Vec<Session>,
    /// Records of each flow, in arrival order.
    pub records: Vec<Vec<PacketRecord>>,
    /// Progress reports of the server for each flow, with true times.
    pub feedback: Vec<Vec<(Span, ReceivedSoFar)>>,
    /// Log message at the end of each of the server's connections.
    pub server: Vec<Option<String>>,
    /// All bytes on control connections, in the order in which they were sent.
    pub overheard: Vec<u8>,
    /// Impairments of packets to the server.
    pub up: PathTally,
    /// Impairments of packets to the client.
    pub down: PathTally,
    /// True time at which the client ended.
    pub client_took: Span,
    /// True time at which nothing was left to do.
    pub took: Span,
    /// True time of each sentinel.
    pub sentinels: Vec<Span>,
    /// Number of steps of the client and of the server.
    pub steps: [u64; 2],
    /// True if the simulation reached its horizon before it was over, which means that a state machine hung.
    pub hung: bool,
    /// Number of sessions in the server's table at the end.
    pub kept: usize,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

#[derive(Debug)]
enum SimEvent {
    Bytes { connection: usize, to: usize, bytes: Vec<u8> },
    Closed { connection: usize, to: usize },
    Packet { to: usize, packet: SimPacket },
    Connect,
}

struct Simulation {
    world: SimWorld,
    overheard: Vec<u8>,
    now: Span,
    agenda: BinaryHeap<Reverse<(Span, u64)>>,
    happenings: std::collections::HashMap<u64, SimEvent>,
    counter: u64,
    paths: [Impairment; 2],
    clocks: [SimClock; 2],
    addresses: [SocketAddr; 2],
    client: ClientMachine,
    client_engine: SimEngine,
    servers: Vec<ServerConnection>,
    sessions: SessionTable,
    /// Index of the client's current connection.
    connection: usize,
    /// Time at which the last bytes of each connection arrive, by direction of arrival.
    pipes: Vec<[Span; 2]>,
    /// Time at which the last bytes of TCP test streams arrive.
    tcp_pipes: [Span; 2],
    cut: Vec<bool>,
    vanished: [bool; 2],
    server_dead: bool,
    steps: [u64; 2],
    feedback: Vec<Vec<(Span, ReceivedSoFar)>>,
    records: Vec<Vec<PacketRecord>>,
    verdict: Option<Result<(Ending, Option<String>), ConversationFailure>>,
    client_took: Span,
    /// Time of each sentinel.
    sentinels: Vec<Span>,
    answer: SentinelAnswer,
}

/// State of the answer to the first sentinel that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentinelAnswer {
    NotDue,
    /// The answer of this host is due.
    Due(usize),
    Given,
}

struct ServerConnection {
    machine: ServerMachine,
    engine: SimEngine,
    done: Option<Option<String>>,
}

fn entropy(seed: u64, connection: usize, side: usize) -> [u8; 32] {
    let mut bytes = [side as u8; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..16].copy_from_slice(&(connection as u64).to_be_bytes());
    bytes
}

impl Simulation {
    fn new(world: SimWorld) -> Simulation {
        let address = |last: u8, port| SocketAddr::from(([192, 0, 2, last], port));
        let addresses = [address(1, 50_000), address(2, jitlat_core::spec::CONTROL_PORT)];
        let terms = TestTerms {
            dialect: world.dialect,
            key: world.client_key.clone(),
            feedback: world.feedback,
            ..TestTerms::new(world.flows.clone())
        };
        let entropy = entropy(world.seed, 0, CLIENT);
        let mut config = ClientConfig::new(terms, addresses[CLIENT], addresses[SERVER], entropy);
        config.host = world.hosts[CLIENT].clone();
        let clocks = [world.client_clock, world.server_clock];
        let paths = [
            Impairment::new(world.down.clone(), world.seed.wrapping_add(1)),
            Impairment::new(world.up.clone(), world.seed),
        ];
        let mut simulation = Simulation {
            now: Span::ZERO,
            agenda: BinaryHeap::new(),
            happenings: Default::default(),
            counter: 0,
            paths,
            clocks,
            addresses,
            client: ClientMachine::new(config, clocks[CLIENT].tick(Span::ZERO)),
            client_engine: SimEngine::new(addresses[SERVER], world.latency),
            servers: Vec::new(),
            sessions: SessionTable::new(world.limits.clone()),
            connection: 0,
            pipes: Vec::new(),
            tcp_pipes: [Span::ZERO; 2],
            cut: Vec::new(),
            vanished: [false; 2],
            server_dead: false,
            steps: [0; 2],
            feedback: vec![Vec::new(); world.flows.len()],
            overheard: Vec::new(),
            records: vec![Vec::new(); world.flows.len()],
            verdict: None,
            client_took: Span::ZERO,
            sentinels: Vec::new(),
            answer: SentinelAnswer::NotDue,
            world,
        };
        simulation.accept();
        simulation
    }

    /// Accepts a control connection on the server.
    fn accept(&mut self) {
        let connection = self.servers.len();
        let config = ServerConfig {
            local: self.addresses[SERVER],
            peer: self.addresses[CLIENT],
            limits: self.world.limits.clone(),
            keys: self.world.server_key.clone().into(),
            entropy: entropy(self.world.seed, connection, SERVER),
            host: self.world.hosts[SERVER].clone(),
            software: "jitlat sim".into(),
            test_port: jitlat_core::spec::TEST_PORT,
        };
        let machine = ServerMachine::new(config, self.tick(SERVER));
        self.servers.push(ServerConnection {
            machine,
            engine: SimEngine::new(self.addresses[CLIENT], self.world.latency),
            done: None,
        });
        self.pipes.push([self.now; 2]);
        self.cut.push(false);
    }

    fn tick(&self, host: usize) -> Tick {
        self.clocks[host].tick(self.now)
    }

    fn at(&mut self, when: Span, what: SimEvent) {
        self.counter += 1;
        self.agenda.push(Reverse((when, self.counter)));
        self.happenings.insert(self.counter, what);
    }

    fn run(mut self) -> SimOutcome {
        let mut hung = false;
        loop {
            self.misfortunes();
            self.settle();
            let Some(next) = self.next_time() else { break };
            if next > self.world.horizon {
                hung = true;
                break;
            }
            self.now = self.now.max(next);
            self.happen();
            self.timers();
        }
        let server =
            self.servers.iter().map(|s| s.done.clone().unwrap_or(Some("never ended".into()))).collect();
        SimOutcome {
            client: self
                .verdict
                .take()
                .unwrap_or(Err(ConversationFailure::Unsupported("never ended".into()))),
            sessions: self.client.sessions(),
            records: self.records,
            feedback: self.feedback,
            server,
            overheard: self.overheard,
            up: self.paths[SERVER].tally().clone(),
            down: self.paths[CLIENT].tally().clone(),
            client_took: self.client_took,
            sentinels: self.sentinels,
            took: self.now,
            steps: self.steps,
            hung,
            kept: self.sessions.sessions(),
        }
    }

    // ---- faults ---------------------------------------------------------------------------------

    fn misfortunes(&mut self) {
        match self.world.trouble {
            SimTrouble::ServerVanishes(n) if self.steps[SERVER] >= n => self.vanished[SERVER] = true,
            SimTrouble::ClientVanishes(n) if self.steps[CLIENT] >= n => self.vanished[CLIENT] = true,
            SimTrouble::ControlBreaks(at) if self.now >= at && !self.cut[0] => self.sever(0),
            SimTrouble::ControlFallsSilent(at) if self.now >= at => self.cut[0] = true,
            SimTrouble::ServerStops(at) if self.now >= at => {
                self.world.trouble = SimTrouble::None;
                let now = self.tick(SERVER);
                if let Some(server) = self.servers.first_mut() {
                    server.machine.handle(now, ServerInput::Shutdown);
                }
            }
            SimTrouble::ServerDies(at) if self.now >= at && !self.server_dead => {
                self.server_dead = true;
                (0..self.servers.len()).for_each(|c| self.sever(c));
            }
            _ => {}
        }
        while self.world.interrupt.first().is_some_and(|at| self.now >= *at) {
            self.world.interrupt.remove(0);
            let now = self.tick(CLIENT);
            self.client.handle(now, ClientInput::Interrupt);
        }
        if self.world.expire.take_if(|at| self.now >= *at).is_some() {
            let now = self.tick(CLIENT);
            self.client.handle(now, ClientInput::Expire);
        }
    }

    fn sever(&mut self, connection: usize) {
        if !core::mem::replace(&mut self.cut[connection], true) {
            self.at(self.now, SimEvent::Closed { connection, to: CLIENT });
            self.at(self.now, SimEvent::Closed { connection, to: SERVER });
        }
    }

    // ---- events ---------------------------------------------------------------------------------

    fn next_time(&self) -> Option<Span> {
        let agenda = self.agenda.peek().map(|Reverse((at, _))| *at);
        let client = (!self.vanished[CLIENT]).then(|| {
            let deadlines = [self.client.poll_timeout(), self.client_engine.deadline()];
            deadlines.into_iter().flatten().min().map(|at| self.clocks[CLIENT].when(at))
        });
        let alive = !self.vanished[SERVER] && !self.server_dead;
        let server = self.servers.iter().filter(|s| alive && s.done.is_none()).filter_map(|s| {
            let deadlines = [s.machine.poll_timeout(), s.engine.deadline()];
            deadlines.into_iter().flatten().min().map(|at| self.clocks[SERVER].when(at))
        });
        let ours = match self.world.trouble {
            SimTrouble::ControlBreaks(at) | SimTrouble::ControlFallsSilent(at) if !self.cut[0] => Some(at),
            SimTrouble::ServerDies(at) if !self.server_dead => Some(at),
            SimTrouble::ServerStops(at) => Some(at),
            _ => None,
        };
        let interrupt = self.world.interrupt.first().copied().into_iter().chain(self.world.expire).min();
        let next = agenda.into_iter().chain(client.flatten()).chain(server.min()).min();
        // Scheduled faults alone do not keep the simulation running.
        next.map(|next| [ours, interrupt].into_iter().flatten().fold(next, Span::min))
    }

    fn happen(&mut self) {
        while let Some(Reverse((_, key))) =
            self.agenda.peek().filter(|Reverse((at, _))| *at <= self.now).copied()
        {
            self.agenda.pop();
            let Some(what) = self.happenings.remove(&key) else { continue };
            match what {
                SimEvent::Bytes { connection, to, bytes } => self.bytes(connection, to, &bytes),
                SimEvent::Closed { connection, to } => self.closed(connection, to),
                SimEvent::Packet { to, packet } => self.packet(to, &packet),
                SimEvent::Connect => self.connect(),
            }
            self.settle();
        }
    }

    /// Counts an event on `host`. Returns true if the host is able to handle the event.
    fn step(&mut self, host: usize) -> bool {
        self.misfortunes();
        self.steps[host] += 1;
        !(self.vanished[host] || host == SERVER && self.server_dead)
    }

    fn bytes(&mut self, connection: usize, to: usize, bytes: &[u8]) {
        if self.cut[connection] || !self.step(to) {
            return;
        }
        let now = self.tick(to);
        // Segments have arbitrary lengths, because state machines must not depend on them.
        let cut = (self.counter as usize * 7) % (bytes.len() + 1);
        for part in [&bytes[..cut], &bytes[cut..]] {
            if to == SERVER {
                self.servers[connection].machine.handle(now, ServerInput::Received(part));
            } else if connection == self.connection {
                self.client.handle(now, ClientInput::Received(part));
            }
        }
    }

    fn closed(&mut self, connection: usize, to: usize) {
        if !self.step(to) {
            return;
        }
        let now = self.tick(to);
        if to == SERVER {
            self.servers[connection].machine.handle(now, ServerInput::Closed);
        } else if connection == self.connection {
            self.client.handle(now, ClientInput::Closed(Some("connection reset")));
        }
    }

    fn packet(&mut self, to: usize, packet: &SimPacket) {
        if !self.step(to) {
            return;
        }
        let now = self.tick(to);
        if packet.header.seq == SENTINEL && self.answer == SentinelAnswer::NotDue {
            self.answer = SentinelAnswer::Due(to);
        }
        let mut out = Vec::new();
        if to == CLIENT {
            self.client_engine.arrived(now, packet, &mut out);
            self.send_packets(CLIENT, out);
        } else {
            // Streams belong to the first connection; later connections only fetch results.
            self.servers[0].engine.arrived(now, packet, &mut out);
            self.send_packets(SERVER, out);
        }
    }

    fn connect(&mut self) {
        if !self.step(CLIENT) {
            return;
        }
        let now = self.tick(CLIENT);
        if self.server_dead {
            return self.client.handle(now, ClientInput::Closed(Some("connection refused")));
        }
        if self.vanished[SERVER] {
            return self.client.handle(now, ClientInput::Closed(Some("connection timed out")));
        }
        self.accept();
        self.connection = self.servers.len() - 1;
        let fresh = entropy(self.world.seed, self.connection, CLIENT);
        self.client.handle(now, ClientInput::Reconnected(fresh));
    }

    fn timers(&mut self) {
        if !self.vanished[CLIENT] {
            let now = self.tick(CLIENT);
            if self.client.poll_timeout().is_some_and(|at| at <= now.steady) {
                self.steps[CLIENT] += 1;
                self.client.handle_timeout(now);
            }
            let mut out = Vec::new();
            self.client_engine.advance(now, &mut out);
            self.send_packets(CLIENT, out);
        }
        if !self.vanished[SERVER] && !self.server_dead {
            let now = self.tick(SERVER);
            for i in 0..self.servers.len() {
                let server = &mut self.servers[i];
                if server.machine.poll_timeout().is_some_and(|at| at <= now.steady) {
                    self.steps[SERVER] += 1;
                    server.machine.handle_timeout(now);
                }
                let mut out = Vec::new();
                server.engine.advance(now, &mut out);
                self.send_packets(SERVER, out);
            }
        }
    }

    // ---- output ---------------------------------------------------------------------------------

    fn send_packets(&mut self, from: usize, packets: Vec<SimPacket>) {
        let to = 1 - from;
        for packet in packets {
            let bytes = usize::from(packet.size) + 28;
            let now = SteadyTime(self.now.0);
            if packet.header.seq == SENTINEL {
                self.sentinels.push(self.now);
                if self.sentinels.len() <= self.world.ending.sentinels as usize {
                    continue;
                }
            }
            let path = &mut self.paths[to];
            let deliveries = match u64::try_from(packet.header.seq) {
                Ok(seq) => path.pass_test(now, bytes, seq),
                Err(_) => path.pass_other(now, bytes),
            };
            if packet.tcp {
                let at = self.in_order(to, deliveries.first().copied());
                self.tcp_pipes[to] = self.tcp_pipes[to].max(at);
                self.at(self.tcp_pipes[to], SimEvent::Packet { to, packet });
                continue;
            }
            for at in deliveries.iter() {
                self.at(Span(at.0), SimEvent::Packet { to, packet });
            }
        }
    }

    /// Returns the arrival time of bytes on a reliable connection. `passed` is their arrival time on the
    /// path, or `None` if the path loses them: they are then retransmitted after three delays plus 0.2 s.
    fn in_order(&self, to: usize, passed: Option<SteadyTime>) -> Span {
        let again = self.now + self.paths[to].config().delay.times(3) + Span::millis(200);
        passed.map_or(again, |at| Span(at.0))
    }

    fn send_bytes(&mut self, connection: usize, from: usize, mut bytes: Vec<u8>) {
        let to = 1 - from;
        self.overheard.extend_from_slice(&bytes);
        (self.world.attacker)(from, &mut bytes);
        if self.cut[connection] {
            return;
        }
        let passed = self.paths[to].pass_other(SteadyTime(self.now.0), bytes.len() + 40).first().copied();
        let mut at = self.in_order(to, passed).max(self.pipes[connection][to]);
        // The next message of a receiver after a sentinel is its answer.
        if self.answer == SentinelAnswer::Due(from) {
            self.answer = SentinelAnswer::Given;
            at = at + Span::seconds((1 << self.world.ending.answers) - 1);
        }
        self.pipes[connection][to] = at;
        self.at(at, SimEvent::Bytes { connection, to, bytes });
    }

    /// Transfers the data sent by all state machines, and executes their requests.
    fn settle(&mut self) {
        let mut busy = true;
        while busy {
            busy = false;
            if !self.vanished[CLIENT] {
                busy |= self.settle_client();
            }
            for i in 0..self.servers.len() {
                if !self.vanished[SERVER] && !self.server_dead {
                    busy |= self.settle_server(i);
                }
            }
        }
    }

    fn settle_client(&mut self) -> bool {
        let now = self.tick(CLIENT);
        let mut busy = false;
        while let Some(report) = self.client_engine.poll_report(now.steady) {
            self.client.handle(now, ClientInput::Flow(report));
            busy = true;
        }
        let mut out = Vec::new();
        while self.client.poll_transmit(now, &mut out) {
            self.send_bytes(self.connection, CLIENT, core::mem::take(&mut out));
            busy = true;
        }
        while let Some(event) = self.client.poll_event() {
            busy = true;
            match event {
                ClientEvent::Flow(command) => {
                    self.client_engine.command(now, command);
                    let mut packets = Vec::new();
                    self.client_engine.advance(now, &mut packets);
                    self.send_packets(CLIENT, packets);
                }
                ClientEvent::Records(flow, records) => self.records[usize::from(flow.0)].extend(records),
                ClientEvent::Feedback(flow, so_far) => {
                    self.feedback[usize::from(flow.0)].push((self.now, *so_far));
                }
                ClientEvent::Reconnect => {
                    let rtt = self.world.up.delay + self.world.down.delay;
                    self.at(self.now + rtt + Span::millis(1), SimEvent::Connect);
                }
                ClientEvent::Progress(_) => {}
                ClientEvent::Done { ending, reason } => self.client_over(Ok((ending, reason))),
                ClientEvent::Failed(failure) => self.client_over(Err(failure)),
            }
        }
        busy
    }

    fn client_over(&mut self, verdict: Result<(Ending, Option<String>), ConversationFailure>) {
        self.client_took = self.now;
        self.verdict = Some(verdict);
        // The end of a connection arrives after its data.
        let last_bytes = self.pipes[self.connection][SERVER];
        let at = last_bytes.max(self.now + self.world.up.delay);
        self.at(at, SimEvent::Closed { connection: self.connection, to: SERVER });
    }

    fn settle_server(&mut self, i: usize) -> bool {
        let now = self.tick(SERVER);
        let mut busy = false;
        while let Some(report) = self.servers[i].engine.poll_report(now.steady) {
            self.servers[i].machine.handle(now, ServerInput::Flow(report));
            busy = true;
        }
        let mut out = Vec::new();
        while self.servers[i].machine.poll_transmit(now, &mut out) {
            self.send_bytes(i, SERVER, core::mem::take(&mut out));
            busy = true;
        }
        while let Some(event) = self.servers[i].machine.poll_event() {
            busy = true;
            let answer = match event {
                ServerEvent::Admit(claim) => {
                    Some(ServerInput::Admitted(self.sessions.admit(claim, now.steady)))
                }
                ServerEvent::Find(id) => {
                    let found = self.sessions.find(id);
                    if self.sessions.is_awaited(id) {
                        let of_test = |server: &&mut ServerConnection| server.machine.session() == id;
                        self.servers
                            .iter_mut()
                            .filter(of_test)
                            .for_each(|server| server.machine.handle(now, ServerInput::Superseded));
                    }
                    Some(ServerInput::Found(found))
                }
                ServerEvent::Keep(id, results) => {
                    self.sessions.keep(id, results, now.steady);
                    None
                }
                ServerEvent::Forget(id) => {
                    self.sessions.forget(id);
                    None
                }
                ServerEvent::Flow(command) => {
                    self.servers[i].engine.command(now, command);
                    let mut packets = Vec::new();
                    self.servers[i].engine.advance(now, &mut packets);
                    self.send_packets(SERVER, packets);
                    None
                }
                ServerEvent::Agreed(..) | ServerEvent::Proof(_) => None,
                ServerEvent::Done(why) => {
                    self.servers[i].done = Some(why);
                    let at = self.pipes[i][CLIENT];
                    self.at(at, SimEvent::Closed { connection: i, to: CLIENT });
                    None
                }
            };
            if let Some(answer) = answer {
                self.servers[i].machine.handle(now, answer);
            }
        }
        busy
    }
}

#[cfg(test)]
mod tables;
#[cfg(test)]
mod tests;
