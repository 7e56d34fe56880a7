//! An OWAMP client and server on an impaired network in virtual time: both state machines, both ends of every
//! session, wrong clocks, peers that vanish, and unrelated packets. Records the actual events, for comparison
//! with the results of the test.

mod ends;
mod world;

pub use ends::ERROR;
pub use world::{OwampSimOutcome, OwampTrouble, OwampWorld, SessionTruth, SimHost};

use crate::amp::{SecurityMode, ServerRandom, Sid};
use crate::owamp::client::{self, Client, OwampOptions};
use crate::owamp::packet::MAX_LEN;
use crate::owamp::server::{self, Server};
use crate::owamp::{OwampSessionSpec, Store, StoreLimits};
use crate::twoway::RequestArrival;
use crate::{Machine, Tick};
use core::net::SocketAddr;
use ends::{EndWork, SimulatedEnd, abandon, finish, stop_sending};
use jitlat_core::{Direction, Dscp, Span, SteadyTime, WallTime};
use jitlat_impair::Impairment;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Delay of the control connection in each direction.
const CONTROL_DELAY: Span = Span::millis(4);

impl OwampWorld {
    /// Runs the simulation to its end.
    pub fn run(self) -> OwampSimOutcome {
        OwampSimulation::new(self).run()
    }
}

#[derive(Clone, Debug)]
struct SimDatagram {
    to: usize,
    from: SocketAddr,
    port: u16,
    bytes: Vec<u8>,
    /// Session and sequence number of a packet from a session sender; `None` for unrelated packets.
    of: Option<([u8; 16], u32)>,
}

#[derive(Debug)]
enum OwampSimEvent {
    Bytes(usize, Vec<u8>),
    Closed(usize),
    Datagram(SimDatagram),
    Trouble(OwampTrouble),
}

struct OwampSimulation {
    world: OwampWorld,
    now: Span,
    agenda: BinaryHeap<Reverse<(Span, u64)>>,
    happenings: BTreeMap<u64, OwampSimEvent>,
    counter: u64,
    paths: [Impairment; 2],
    stepped: [Span; 2],
    paused: [Span; 2],
    vanished: [bool; 2],
    broken: bool,
    /// Time at which the last bytes to each host arrive.
    pipes: [Span; 2],
    client: Client,
    server: Server,
    ends: [Vec<SimulatedEnd>; 2],
    started: bool,
    store: Store,
    datagrams: Vec<SimDatagram>,
    outcome: OwampSimOutcome,
}

fn address(host: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + host as u8], port))
}

impl OwampSimulation {
    fn new(world: OwampWorld) -> OwampSimulation {
        let requests =
            world.sessions.iter().enumerate().map(|(k, (direction, packets, slots))| OwampSessionSpec {
                direction: *direction,
                near: address(CLIENT, 8760 + k as u16),
                far: address(SERVER, 0).ip(),
                packets: *packets,
                slots: slots.clone(),
                padding: world.padding,
                timeout: Some(world.timeout),
                dscp: Dscp::default(),
            });
        let config = OwampOptions {
            mode: Some(world.mode),
            user: world.mode.is_keyed().then(|| ("user".to_owned(), b"secret".to_vec())),
            sessions: requests.collect(),
            lead: Span::millis(100),
            start: None,
            fetches: Vec::new(),
            most_records: 0,
            step_timeout: Span::seconds(5),
            random: core::array::from_fn(|i| i as u8),
            sid: [3; 4],
        };
        let ticks = [world.clocks[CLIENT].tick(Span::ZERO), world.clocks[SERVER].tick(Span::ZERO)];
        let random = ServerRandom::new(core::array::from_fn(|i| 100 + i as u8));
        let (peer, local) = (address(CLIENT, 50_000), address(SERVER, crate::owamp::PORT));
        let server = Server::new(world.rules.clone(), peer, local, ticks[SERVER].wall, random, ticks[SERVER]);
        let mut simulation = OwampSimulation {
            now: Span::ZERO,
            agenda: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            counter: 0,
            paths: [
                Impairment::new(world.down.clone(), world.seed.wrapping_add(1)),
                Impairment::new(world.up.clone(), world.seed),
            ],
            stepped: [Span::ZERO; 2],
            paused: [Span::ZERO; 2],
            vanished: [false; 2],
            broken: false,
            pipes: [Span::ZERO; 2],
            client: Client::new(config, ticks[CLIENT]),
            server,
            ends: [Vec::new(), Vec::new()],
            started: false,
            store: Store::new(StoreLimits {
                memory: 1 << 24,
                memory_per_owner: 1 << 23,
                ..Default::default()
            }),
            datagrams: Vec::new(),
            outcome: OwampSimOutcome {
                client: Ok(()),
                client_ended: false,
                data: BTreeMap::new(),
                server: None,
                truth: BTreeMap::new(),
                misdirected: 0,
                server_sent: 0,
                server_control_bytes: 0,
                took: Span::ZERO,
                steps: 0,
                kept: 0,
            },
            world,
        };
        for (at, trouble) in core::mem::take(&mut simulation.world.troubles) {
            simulation.at(at, OwampSimEvent::Trouble(trouble));
        }
        simulation
    }

    fn at(&mut self, when: Span, what: OwampSimEvent) {
        self.counter += 1;
        self.agenda.push(Reverse((when, self.counter)));
        self.happenings.insert(self.counter, what);
    }

    fn tick(&self, host: usize) -> Tick {
        let tick = self.world.clocks[host].tick(self.now);
        Tick { wall: tick.wall + self.stepped[host], ..tick }
    }

    /// Returns the first true time at which the wall clock of `host` shows `wall`, at its current rate.
    fn when(&self, host: usize, wall: WallTime) -> Span {
        let now = self.tick(host);
        self.world.clocks[host].when(now.steady + (wall - now.wall))
    }

    fn is_awake(&self, host: usize) -> bool {
        !self.vanished[host] && self.now >= self.paused[host]
    }

    fn run(mut self) -> OwampSimOutcome {
        for _ in 0..2_000_000 {
            self.settle();
            let Some(next) = self.next_time() else {
                self.outcome.took = self.now;
                self.outcome.kept = self.store.len();
                return self.outcome;
            };
            self.now = self.now.max(next);
            while let Some(Reverse((_, key))) = self.agenda.peek().filter(|a| a.0.0 <= self.now).copied() {
                self.agenda.pop();
                if let Some(what) = self.happenings.remove(&key) {
                    self.happen(what);
                }
            }
            self.timers();
        }
        panic!("the conversation does not end: {:?} {:?}", self.client, self.server);
    }

    /// Returns the time of the next event; `None` once both state machines are over or gone.
    fn next_time(&mut self) -> Option<Span> {
        let mut next = Vec::new();
        for host in [CLIENT, SERVER] {
            let over = if host == CLIENT { self.outcome.client_ended } else { self.outcome.server.is_some() };
            if self.vanished[host] || over {
                continue;
            }
            let machine =
                if host == CLIENT { self.client.poll_timeout() } else { self.server.poll_timeout() };
            let clock = self.world.clocks[host];
            let mut due = machine.map(|at| clock.when(at));
            let wall = self.tick(host).wall;
            for end in 0..self.ends[host].len() {
                let end = &mut self.ends[host][end];
                let at = match &mut end.work {
                    _ if end.complete => None,
                    EndWork::Sending(sender) => sender.poll_timeout().map(|at| clock.when(at)),
                    EndWork::Receiving(receiver) if self.started => {
                        let at = receiver.poll_timeout(wall);
                        Some(self.when(host, at))
                    }
                    _ => None,
                };
                due = [due, at].into_iter().flatten().min();
            }
            next.extend(due.map(|at| at.max(self.paused[host])));
        }
        let agenda = self.agenda.peek().map(|a| a.0.0);
        // Packets in transit alone do not keep the simulation running.
        next.iter().min().map(|next| agenda.map_or(*next, |agenda| agenda.min(*next)))
    }

    fn happen(&mut self, what: OwampSimEvent) {
        let host = match &what {
            OwampSimEvent::Bytes(to, _) | OwampSimEvent::Closed(to) => *to,
            OwampSimEvent::Datagram(datagram) => datagram.to,
            OwampSimEvent::Trouble(trouble) => return self.trouble(trouble.clone()),
        };
        self.outcome.steps += 1;
        if let Some((step, trouble)) = self.world.at_step.take_if(|(step, _)| *step == self.outcome.steps) {
            let _ = step;
            self.trouble(trouble);
        }
        if self.vanished[host] {
            return;
        }
        // A paused host handles the event when it resumes.
        if !self.is_awake(host) {
            let wake = self.paused[host];
            return self.at(wake, what);
        }
        match what {
            OwampSimEvent::Bytes(to, bytes) if !self.broken => self.deliver(to, &bytes),
            OwampSimEvent::Bytes(..) | OwampSimEvent::Trouble(_) => {}
            OwampSimEvent::Closed(to) => self.closed(to),
            OwampSimEvent::Datagram(datagram) => self.receive(&datagram),
        }
        self.settle();
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let now = self.tick(to);
        for piece in bytes.chunks(self.world.piece) {
            match to {
                CLIENT => self.client.handle(now, client::OwampClientInput::Bytes(piece)),
                _ => self.server.handle(now, server::OwampServerInput::Bytes(piece)),
            }
            self.settle();
        }
    }

    fn closed(&mut self, to: usize) {
        let now = self.tick(to);
        match to {
            CLIENT => self.client.handle(now, client::OwampClientInput::Closed),
            _ => self.server.handle(now, server::OwampServerInput::Closed),
        }
    }

    fn receive(&mut self, datagram: &SimDatagram) {
        let wall = self.tick(datagram.to).wall;
        let arrival =
            RequestArrival { from: datagram.from, at: wall, ttl: Some(255), traffic_class: Some(0) };
        let end = self.ends[datagram.to].iter_mut().find(|end| end.near.port() == datagram.port);
        if let Some(EndWork::Receiving(receiver)) = end.map(|end| &mut end.work) {
            let recorded = receiver.receive(&datagram.bytes, &arrival, ERROR);
            if let Some((sid, seq)) = datagram.of {
                self.outcome.truth.entry(sid).or_default().came.push((seq, wall));
            } else {
                assert!(
                    recorded.is_err() || self.world.mode == SecurityMode::Open,
                    "a stray is recorded: {recorded:?}"
                );
            }
        }
    }

    fn trouble(&mut self, trouble: OwampTrouble) {
        match trouble {
            OwampTrouble::Break => self.break_control(),
            OwampTrouble::Vanish(host) => self.vanished[host as usize] = true,
            OwampTrouble::Interrupt => self.client.handle(self.tick(CLIENT), client::OwampClientInput::Stop),
            OwampTrouble::Step(host, by) => self.stepped[host as usize] = self.stepped[host as usize] + by,
            OwampTrouble::Pause(host, time) => self.paused[host as usize] = self.now + time,
            OwampTrouble::Say(host, bytes) => {
                if !self.vanished[host as usize] {
                    self.deliver(host as usize, &bytes);
                }
            }
            OwampTrouble::Stray(host, end, known, bytes) => {
                let to = host as usize;
                let Some(end) = self.ends[to].get(end) else { return };
                let from = if known { end.far } else { address(7, 9000) };
                let port = end.near.port();
                self.happen(OwampSimEvent::Datagram(SimDatagram { to, from, port, bytes, of: None }));
            }
            OwampTrouble::Again(k) => {
                if let Some(datagram) = self.datagrams.get(k % self.datagrams.len().max(1)).cloned() {
                    self.happen(OwampSimEvent::Datagram(datagram));
                }
            }
            OwampTrouble::Complete(host, end) => {
                if let Some(end) = self.ends[host as usize].get(end) {
                    self.complete(host as usize, end.session.sid());
                }
            }
        }
    }

    fn break_control(&mut self) {
        if !core::mem::replace(&mut self.broken, true) {
            self.at(self.now, OwampSimEvent::Closed(CLIENT));
            self.at(self.now, OwampSimEvent::Closed(SERVER));
        }
    }

    fn complete(&mut self, host: usize, sid: Sid) {
        let now = self.tick(host);
        match host {
            CLIENT => self.client.handle(now, client::OwampClientInput::Complete(sid)),
            _ => self.server.handle(now, server::OwampServerInput::Complete(sid)),
        }
    }

    // ---- drivers of both hosts ------------------------------------------------------------------

    /// Lets both hosts execute all actions that are due.
    fn timers(&mut self) {
        for host in [CLIENT, SERVER] {
            if !self.is_awake(host) {
                continue;
            }
            let now = self.tick(host);
            match host {
                CLIENT => self.client.handle_timeout(now),
                _ => self.server.handle_timeout(now),
            }
            let mut end = 0;
            while end < self.ends[host].len() {
                self.work(host, end);
                end += 1;
            }
        }
    }

    fn work(&mut self, host: usize, end: usize) {
        let now = self.tick(host);
        let mut packet = [0; MAX_LEN];
        loop {
            let end = &mut self.ends[host][end];
            let complete = match &mut end.work {
                EndWork::Sending(sender) => match sender.poll_transmit(now, ERROR, &mut packet) {
                    Some(departure) => {
                        let mut bytes = packet[..departure.len].to_vec();
                        bytes.resize(departure.len + end.session.request.padding as usize, 0x55);
                        let (sid, to) = (end.session.sid(), end.far);
                        let datagram = SimDatagram {
                            to: 1 - host,
                            from: end.near,
                            port: to.port(),
                            bytes,
                            of: Some((sid.0, departure.seq)),
                        };
                        self.send(host, to, datagram, now);
                        continue;
                    }
                    None => sender.is_complete(now.steady),
                },
                EndWork::Receiving(receiver) if self.started => {
                    receiver.handle_timeout(now.wall, ERROR);
                    receiver.is_complete(now.wall)
                }
                _ => false,
            };
            if complete && !core::mem::replace(&mut end.complete, true) {
                let sid = end.session.sid();
                self.complete(host, sid);
                self.settle();
            }
            return;
        }
    }

    fn send(&mut self, host: usize, to: SocketAddr, datagram: SimDatagram, now: Tick) {
        if let Some((sid, seq)) = datagram.of {
            self.outcome.truth.entry(sid).or_default().sent.push((seq, now.wall));
        }
        if host == SERVER {
            self.outcome.server_sent += 1;
            let stray = !self.started || to.ip() != address(CLIENT, 0).ip();
            self.outcome.misdirected += u64::from(stray);
        }
        let size = datagram.bytes.len() + 28;
        for at in self.paths[1 - host].pass(SteadyTime(self.now.0), size).iter() {
            self.at(Span(at.0), OwampSimEvent::Datagram(datagram.clone()));
        }
        self.datagrams.push(datagram);
    }

    /// Transfers the data sent by both sides, and executes their requests.
    fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for host in [CLIENT, SERVER] {
                if !self.is_awake(host) {
                    continue;
                }
                quiet &= !self.obey(host) & !self.transmit(host);
            }
            if quiet {
                return;
            }
        }
    }

    fn transmit(&mut self, host: usize) -> bool {
        let now = self.tick(host);
        let mut bytes = Vec::new();
        let transmitted = match host {
            CLIENT => self.client.poll_transmit(now, &mut bytes),
            _ => self.server.poll_transmit(now, &mut bytes),
        };
        if transmitted && !self.broken {
            if host == SERVER {
                self.outcome.server_control_bytes += bytes.len() as u64;
            }
            self.pipes[1 - host] = self.pipes[1 - host].max(self.now + CONTROL_DELAY);
            self.at(self.pipes[1 - host], OwampSimEvent::Bytes(1 - host, bytes));
        }
        transmitted
    }

    fn obey(&mut self, host: usize) -> bool {
        match host {
            CLIENT => self.client.poll_event().map(|event| self.obey_client(event)).is_some(),
            _ => self.server.poll_event().map(|event| self.obey_server(event)).is_some(),
        }
    }

    fn obey_client(&mut self, event: client::OwampClientEvent) {
        let now = self.tick(CLIENT);
        match event {
            client::OwampClientEvent::Mode(mode) => assert_eq!(mode, self.world.mode),
            client::OwampClientEvent::Granted(granted) => {
                let session = granted.session;
                let direction = session.direction();
                self.outcome.truth.entry(session.sid().0).or_default().direction = direction;
                let near = address(CLIENT, 8760 + granted.index as u16);
                let mut end = SimulatedEnd {
                    session,
                    keys: granted.keys,
                    near,
                    far: granted.far,
                    work: EndWork::Waiting,
                    complete: false,
                };
                if direction == Some(Direction::Down) {
                    end.begin_receiving(self.world.mode);
                }
                self.ends[CLIENT].push(end);
            }
            client::OwampClientEvent::Ready => self.client.handle(now, client::OwampClientInput::Start),
            client::OwampClientEvent::Started => {
                for end in self.ends[CLIENT].iter_mut().filter(|e| matches!(e.work, EndWork::Waiting)) {
                    end.begin_sending(now);
                }
            }
            client::OwampClientEvent::StopSending => {
                for summary in stop_sending(&mut self.ends[CLIENT]) {
                    self.client.handle(now, client::OwampClientInput::Sent(summary));
                }
            }
            client::OwampClientEvent::Received(received) => {
                if let Some(data) = finish(&mut self.ends[CLIENT], &received) {
                    self.outcome.data.insert(data.session.sid().0, Ok(data));
                }
            }
            client::OwampClientEvent::Fetched(sid, data) => {
                self.outcome.data.insert(sid.0, *data);
            }
            client::OwampClientEvent::Over | client::OwampClientEvent::Failed(_) => {
                if let client::OwampClientEvent::Failed(failure) = event {
                    self.outcome.client = Err(failure);
                }
                for data in abandon(&mut self.ends[CLIENT], now.wall) {
                    self.outcome.data.insert(data.session.sid().0, Ok(data));
                }
                self.outcome.client_ended = true;
                // The connection is closed once everything has been sent.
                let after = self.pipes[SERVER].max(self.now) + CONTROL_DELAY;
                self.at(after, OwampSimEvent::Closed(SERVER));
            }
        }
    }

    fn obey_server(&mut self, event: server::OwampServerEvent) {
        let now = self.tick(SERVER);
        match event {
            server::OwampServerEvent::Open(asked) => {
                let port = 9000 + self.ends[SERVER].len() as u16;
                let sid = asked.session.sid();
                let packets = asked.session.request.packets;
                let claimed = self.store.claim(sid, &self.server.owner(), packets, now.steady);
                let opened = claimed.map(|()| port);
                if opened.is_ok() {
                    let session = asked.session.with_server_port(port);
                    let near = address(SERVER, port);
                    let mut end = SimulatedEnd {
                        session,
                        keys: asked.keys,
                        near,
                        far: asked.far,
                        work: EndWork::Waiting,
                        complete: false,
                    };
                    if asked.direction == Direction::Up {
                        end.begin_receiving(asked.mode);
                    }
                    self.ends[SERVER].push(end);
                }
                self.server.handle(now, server::OwampServerInput::Opened(opened));
            }
            server::OwampServerEvent::Start => {
                self.started = true;
                for end in self.ends[SERVER].iter_mut().filter(|e| matches!(e.work, EndWork::Waiting)) {
                    end.begin_sending(now);
                }
            }
            server::OwampServerEvent::StopSending => {
                for summary in stop_sending(&mut self.ends[SERVER]) {
                    self.store.release(summary.sid);
                    self.server.handle(now, server::OwampServerInput::Sent(summary));
                }
            }
            server::OwampServerEvent::Received(received) => match finish(&mut self.ends[SERVER], &received) {
                Some(data) => self.store.keep(data, now.steady),
                None => self.store.release(received.summary.sid),
            },
            server::OwampServerEvent::Fetch(fetch, owner) => {
                let found = self.store.find(fetch.sid, &owner, now.steady);
                self.server.handle(now, server::OwampServerInput::Found(found));
            }
            server::OwampServerEvent::Over(reason) => {
                self.outcome.server = Some(reason);
                for end in &self.ends[SERVER] {
                    if let EndWork::Waiting | EndWork::Sending(_) = end.work {
                        self.store.release(end.session.sid());
                    }
                }
                for data in abandon(&mut self.ends[SERVER], now.wall) {
                    self.store.keep(data, now.steady);
                }
                self.ends[SERVER].clear();
                let after = self.pipes[CLIENT].max(self.now) + CONTROL_DELAY;
                self.at(after, OwampSimEvent::Closed(CLIENT));
            }
        }
    }
}
