//! An OWAMP client and server on an impaired network in virtual time: both machines, both ends of every session, wrong
//! clocks, peers that vanish, unrelated packets. It records the truth that a test has to find.

mod ends;
mod world;

pub use ends::ERROR;
pub use world::{Host, Outcome, Trouble, Truth, World};

use crate::amp::{Mode, Random, Sid};
use crate::owamp::client::{self, Client, Config};
use crate::owamp::packet::LONGEST;
use crate::owamp::server::{self, Server};
use crate::owamp::{Store, StoreLimits, Wish};
use crate::twoway::Arrival;
use crate::{Machine, Tick};
use core::net::SocketAddr;
use ends::{End, Work, abandon, finish, stop_sending};
use jitlat_core::{Direction, Dscp, Span, SteadyTime, WallTime};
use jitlat_impair::Impairment;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Delay of the control connection in each direction.
const CONTROL_DELAY: Span = Span::millis(4);

impl World {
    /// Runs it to its end.
    pub fn run(self) -> Outcome {
        Simulation::new(self).run()
    }
}

#[derive(Clone, Debug)]
struct Datagram {
    to: usize,
    from: SocketAddr,
    port: u16,
    bytes: Vec<u8>,
    /// Session and number, of one that a sender sent.
    of: Option<([u8; 16], u32)>,
}

#[derive(Debug)]
enum Happening {
    Bytes(usize, Vec<u8>),
    Closed(usize),
    Datagram(Datagram),
    Trouble(Trouble),
}

struct Simulation {
    world: World,
    now: Span,
    agenda: BinaryHeap<Reverse<(Span, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    counter: u64,
    paths: [Impairment; 2],
    stepped: [Span; 2],
    paused: [Span; 2],
    vanished: [bool; 2],
    broken: bool,
    /// When the last bytes to each host arrive.
    pipes: [Span; 2],
    client: Client,
    server: Server,
    ends: [Vec<End>; 2],
    started: bool,
    store: Store,
    datagrams: Vec<Datagram>,
    outcome: Outcome,
}

fn address(host: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + host as u8], port))
}

impl Simulation {
    fn new(world: World) -> Simulation {
        let wishes = world.sessions.iter().enumerate().map(|(k, (direction, packets, slots))| Wish {
            direction: *direction,
            near: address(CLIENT, 8760 + k as u16),
            far: address(SERVER, 0).ip(),
            packets: *packets,
            slots: slots.clone(),
            padding: world.padding,
            timeout: Some(world.timeout),
            dscp: Dscp::default(),
        });
        let config = Config {
            mode: Some(world.mode),
            user: world.mode.is_keyed().then(|| ("user".to_owned(), b"secret".to_vec())),
            sessions: wishes.collect(),
            lead: Span::millis(100),
            fetches: Vec::new(),
            most_records: 0,
            patience: Span::seconds(5),
            random: core::array::from_fn(|i| i as u8),
            sid: [3; 4],
        };
        let ticks = [world.clocks[CLIENT].tick(Span::ZERO), world.clocks[SERVER].tick(Span::ZERO)];
        let random = Random::new(core::array::from_fn(|i| 100 + i as u8));
        let (peer, local) = (address(CLIENT, 50_000), address(SERVER, crate::owamp::PORT));
        let server = Server::new(world.rules.clone(), peer, local, ticks[SERVER].wall, random, ticks[SERVER]);
        let mut simulation = Simulation {
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
            outcome: Outcome {
                client: Ok(()),
                client_ended: false,
                data: BTreeMap::new(),
                server: None,
                truth: BTreeMap::new(),
                misdirected: 0,
                server_sent: 0,
                server_said: 0,
                took: Span::ZERO,
                steps: 0,
                kept: 0,
            },
            world,
        };
        for (at, trouble) in core::mem::take(&mut simulation.world.troubles) {
            simulation.at(at, Happening::Trouble(trouble));
        }
        simulation
    }

    fn at(&mut self, when: Span, what: Happening) {
        self.counter += 1;
        self.agenda.push(Reverse((when, self.counter)));
        self.happenings.insert(self.counter, what);
    }

    fn tick(&self, host: usize) -> Tick {
        let tick = self.world.clocks[host].tick(self.now);
        Tick { wall: tick.wall + self.stepped[host], ..tick }
    }

    /// The first true time at which the wall clock of `host` shows `wall`, at its current rate.
    fn when(&self, host: usize, wall: WallTime) -> Span {
        let now = self.tick(host);
        self.world.clocks[host].when(now.steady + (wall - now.wall))
    }

    fn is_awake(&self, host: usize) -> bool {
        !self.vanished[host] && self.now >= self.paused[host]
    }

    fn run(mut self) -> Outcome {
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

    /// When the next thing is due; `None` once both machines are over or gone.
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
                    Work::Sending(sender) => sender.poll_timeout().map(|at| clock.when(at)),
                    Work::Receiving(receiver) if self.started => {
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

    fn happen(&mut self, what: Happening) {
        let host = match &what {
            Happening::Bytes(to, _) | Happening::Closed(to) => *to,
            Happening::Datagram(datagram) => datagram.to,
            Happening::Trouble(trouble) => return self.trouble(trouble.clone()),
        };
        self.outcome.steps += 1;
        if let Some((step, trouble)) = self.world.at_step.take_if(|(step, _)| *step == self.outcome.steps) {
            let _ = step;
            self.trouble(trouble);
        }
        if self.vanished[host] {
            return;
        }
        // A paused host handles it when it resumes.
        if !self.is_awake(host) {
            let wake = self.paused[host];
            return self.at(wake, what);
        }
        match what {
            Happening::Bytes(to, bytes) if !self.broken => self.deliver(to, &bytes),
            Happening::Bytes(..) | Happening::Trouble(_) => {}
            Happening::Closed(to) => self.closed(to),
            Happening::Datagram(datagram) => self.receive(&datagram),
        }
        self.settle();
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let now = self.tick(to);
        for piece in bytes.chunks(self.world.piece) {
            match to {
                CLIENT => self.client.handle(now, client::Input::Bytes(piece)),
                _ => self.server.handle(now, server::Input::Bytes(piece)),
            }
            self.settle();
        }
    }

    fn closed(&mut self, to: usize) {
        let now = self.tick(to);
        match to {
            CLIENT => self.client.handle(now, client::Input::Closed),
            _ => self.server.handle(now, server::Input::Closed),
        }
    }

    fn receive(&mut self, datagram: &Datagram) {
        let wall = self.tick(datagram.to).wall;
        let arrival = Arrival { from: datagram.from, at: wall, ttl: Some(255), traffic_class: Some(0) };
        let end = self.ends[datagram.to].iter_mut().find(|end| end.near.port() == datagram.port);
        if let Some(Work::Receiving(receiver)) = end.map(|end| &mut end.work) {
            let recorded = receiver.receive(&datagram.bytes, &arrival, ERROR);
            if let Some((sid, seq)) = datagram.of {
                self.outcome.truth.entry(sid).or_default().came.push((seq, wall));
            } else {
                assert!(
                    recorded.is_err() || self.world.mode == Mode::Open,
                    "a stray is recorded: {recorded:?}"
                );
            }
        }
    }

    fn trouble(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Break => self.break_control(),
            Trouble::Vanish(host) => self.vanished[host as usize] = true,
            Trouble::Interrupt => self.client.handle(self.tick(CLIENT), client::Input::Stop),
            Trouble::Step(host, by) => self.stepped[host as usize] = self.stepped[host as usize] + by,
            Trouble::Pause(host, time) => self.paused[host as usize] = self.now + time,
            Trouble::Say(host, bytes) => {
                if !self.vanished[host as usize] {
                    self.deliver(host as usize, &bytes);
                }
            }
            Trouble::Stray(host, end, known, bytes) => {
                let to = host as usize;
                let Some(end) = self.ends[to].get(end) else { return };
                let from = if known { end.far } else { address(7, 9000) };
                let port = end.near.port();
                self.happen(Happening::Datagram(Datagram { to, from, port, bytes, of: None }));
            }
            Trouble::Again(k) => {
                if let Some(datagram) = self.datagrams.get(k % self.datagrams.len().max(1)).cloned() {
                    self.happen(Happening::Datagram(datagram));
                }
            }
            Trouble::Complete(host, end) => {
                if let Some(end) = self.ends[host as usize].get(end) {
                    self.complete(host as usize, end.session.sid());
                }
            }
        }
    }

    fn break_control(&mut self) {
        if !core::mem::replace(&mut self.broken, true) {
            self.at(self.now, Happening::Closed(CLIENT));
            self.at(self.now, Happening::Closed(SERVER));
        }
    }

    fn complete(&mut self, host: usize, sid: Sid) {
        let now = self.tick(host);
        match host {
            CLIENT => self.client.handle(now, client::Input::Complete(sid)),
            _ => self.server.handle(now, server::Input::Complete(sid)),
        }
    }

    // ---- the two drivers ------------------------------------------------------------------------

    /// Lets both hosts do what is due.
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
        let mut packet = [0; LONGEST];
        loop {
            let end = &mut self.ends[host][end];
            let complete = match &mut end.work {
                Work::Sending(sender) => match sender.poll_transmit(now, ERROR, &mut packet) {
                    Some(departure) => {
                        let mut bytes = packet[..departure.len].to_vec();
                        bytes.resize(departure.len + end.session.request.padding as usize, 0x55);
                        let (sid, to) = (end.session.sid(), end.far);
                        let datagram = Datagram {
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
                Work::Receiving(receiver) if self.started => {
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

    fn send(&mut self, host: usize, to: SocketAddr, datagram: Datagram, now: Tick) {
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
            self.at(Span(at.0), Happening::Datagram(datagram.clone()));
        }
        self.datagrams.push(datagram);
    }

    /// Transfers what both sides send, and executes their requests.
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
        let said = match host {
            CLIENT => self.client.poll_transmit(now, &mut bytes),
            _ => self.server.poll_transmit(now, &mut bytes),
        };
        if said && !self.broken {
            if host == SERVER {
                self.outcome.server_said += bytes.len() as u64;
            }
            self.pipes[1 - host] = self.pipes[1 - host].max(self.now + CONTROL_DELAY);
            self.at(self.pipes[1 - host], Happening::Bytes(1 - host, bytes));
        }
        said
    }

    fn obey(&mut self, host: usize) -> bool {
        match host {
            CLIENT => self.client.poll_event().map(|event| self.obey_client(event)).is_some(),
            _ => self.server.poll_event().map(|event| self.obey_server(event)).is_some(),
        }
    }

    fn obey_client(&mut self, event: client::Event) {
        let now = self.tick(CLIENT);
        match event {
            client::Event::Mode(mode) => assert_eq!(mode, self.world.mode),
            client::Event::Granted(granted) => {
                let session = granted.session;
                let direction = session.direction();
                self.outcome.truth.entry(session.sid().0).or_default().direction = direction;
                let near = address(CLIENT, 8760 + granted.index as u16);
                let mut end = End {
                    session,
                    keys: granted.keys,
                    near,
                    far: granted.far,
                    work: Work::Waiting,
                    complete: false,
                };
                if direction == Some(Direction::Down) {
                    end.begin_receiving(self.world.mode);
                }
                self.ends[CLIENT].push(end);
            }
            client::Event::Ready => self.client.handle(now, client::Input::Start),
            client::Event::Started => {
                for end in self.ends[CLIENT].iter_mut().filter(|e| matches!(e.work, Work::Waiting)) {
                    end.begin_sending(now);
                }
            }
            client::Event::StopSending => {
                for summary in stop_sending(&mut self.ends[CLIENT]) {
                    self.client.handle(now, client::Input::Sent(summary));
                }
            }
            client::Event::Received(received) => {
                if let Some(data) = finish(&mut self.ends[CLIENT], &received) {
                    self.outcome.data.insert(data.session.sid().0, Ok(data));
                }
            }
            client::Event::Fetched(sid, data) => {
                self.outcome.data.insert(sid.0, *data);
            }
            client::Event::Over | client::Event::Failed(_) => {
                if let client::Event::Failed(failure) = event {
                    self.outcome.client = Err(failure);
                }
                for data in abandon(&mut self.ends[CLIENT], now.wall) {
                    self.outcome.data.insert(data.session.sid().0, Ok(data));
                }
                self.outcome.client_ended = true;
                // The connection is closed once everything is sent.
                let after = self.pipes[SERVER].max(self.now) + CONTROL_DELAY;
                self.at(after, Happening::Closed(SERVER));
            }
        }
    }

    fn obey_server(&mut self, event: server::Event) {
        let now = self.tick(SERVER);
        match event {
            server::Event::Open(asked) => {
                let port = 9000 + self.ends[SERVER].len() as u16;
                let sid = asked.session.sid();
                let packets = asked.session.request.packets;
                let claimed = self.store.claim(sid, &self.server.owner(), packets, now.steady);
                let opened = claimed.map(|()| port);
                if opened.is_ok() {
                    let session = asked.session.with_server_port(port);
                    let near = address(SERVER, port);
                    let mut end = End {
                        session,
                        keys: asked.keys,
                        near,
                        far: asked.far,
                        work: Work::Waiting,
                        complete: false,
                    };
                    if asked.direction == Direction::Up {
                        end.begin_receiving(asked.mode);
                    }
                    self.ends[SERVER].push(end);
                }
                self.server.handle(now, server::Input::Opened(opened));
            }
            server::Event::Start => {
                self.started = true;
                for end in self.ends[SERVER].iter_mut().filter(|e| matches!(e.work, Work::Waiting)) {
                    end.begin_sending(now);
                }
            }
            server::Event::StopSending => {
                for summary in stop_sending(&mut self.ends[SERVER]) {
                    self.store.release(summary.sid);
                    self.server.handle(now, server::Input::Sent(summary));
                }
            }
            server::Event::Received(received) => match finish(&mut self.ends[SERVER], &received) {
                Some(data) => self.store.keep(data, now.steady),
                None => self.store.release(received.said.sid),
            },
            server::Event::Fetch(fetch, owner) => {
                let found = self.store.find(fetch.sid, &owner, now.steady);
                self.server.handle(now, server::Input::Found(found));
            }
            server::Event::Over(reason) => {
                self.outcome.server = Some(reason);
                for end in &self.ends[SERVER] {
                    if let Work::Waiting | Work::Sending(_) = end.work {
                        self.store.release(end.session.sid());
                    }
                }
                for data in abandon(&mut self.ends[SERVER], now.wall) {
                    self.store.keep(data, now.steady);
                }
                self.ends[SERVER].clear();
                let after = self.pipes[CLIENT].max(self.now) + CONTROL_DELAY;
                self.at(after, Happening::Closed(CLIENT));
            }
        }
    }
}
