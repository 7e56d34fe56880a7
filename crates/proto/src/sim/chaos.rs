//! State machines under arbitrary operations: the peer sends anything at any time, the driver reports
//! anything in any order, and clocks step. Used by property tests and by the fuzz targets.
//!
//! For any input, a state machine must not panic, must not send forever, and must end by itself once there is
//! no more input: either it has a timer, or it is over. A server sends packets only to the host of its
//! control connection.

use super::SimClock;
use crate::jitlat::auth::{ConnectionSide, PresharedKey};
use crate::jitlat::codec::Codec;
use crate::jitlat::flow::{FlowCommand, FlowId, FlowReport, FlowRole, Meeting, ReceiveReport, SendReport};
use crate::jitlat::limits::ServerLimits;
use crate::jitlat::message::{
    Accept, Chunk, ChunkData, Fetch, FlowAccept, FlowRequest, Hello, Message, Nak, NakCode, Probe, Request,
    Results, Welcome,
};
use crate::jitlat::recording::{Recording, SentStamps};
use crate::jitlat::session_table::{SessionId, SessionTable};
use crate::jitlat::stream::Finish;
use crate::jitlat::{
    ClientConfig, ClientEvent, ClientInput, ClientMachine, Dialect, ServerConfig, ServerEvent, ServerInput,
    ServerMachine, TestTerms,
};
use crate::{Machine, Tick};
use core::net::SocketAddr;
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{
    Direction, PacketRecord, Schedule, Span, StampSource, SteadyTime, TestSpec, Transport, WallTime,
};

/// An operation on a state machine. Numbers are taken modulo the valid range, so that any value is an
/// operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// The peer sends a well-formed message.
    Say(u8, u32),
    /// The peer sends these bytes.
    Raw(Vec<u8>),
    /// The flow engine reports an event of a flow.
    FlowReport(u8, u8, u32),
    /// This many milliseconds pass; a timeout is handled if one is due.
    Wait(u32),
    /// Time passes until the next timeout, which is handled.
    Timeout,
    /// The wall clock steps by this many milliseconds.
    Step(i32),
    /// The control connection closes.
    Close,
    /// Client: Ctrl-C. Server: shutdown.
    Stop,
    /// True: from now on, the harness executes the state machine's requests like a driver. False: it ignores
    /// them.
    Obey(bool),
}

/// Configuration of a state machine.
#[derive(Clone, Copy, Debug)]
pub struct ChaosSetup {
    /// True if the peer uses classic workorders.
    pub classic: bool,
    /// Bits: 0 = first flow down, 1 = second flow in the other direction, 2 = TCP, 3 = this side has a key, 4 = the
    /// client probes the clocks, 5 = only [`Op::FlowReport`] reports greetings, which may come from any host.
    pub shape: u8,
}

/// Maximum number of messages or requests of a state machine after one operation.
const MAX_OUTPUT: usize = 20_000;

impl ChaosSetup {
    fn dialect(self) -> Dialect {
        if self.classic { Dialect::Classic } else { Dialect::V3 }
    }

    fn flows(self) -> Vec<TestSpec> {
        let first = if self.shape & 1 == 0 { Direction::Up } else { Direction::Down };
        let transport = if self.shape & 4 == 0 { Transport::Udp } else { Transport::Tcp };
        let spec = |d| TestSpec::new(d, transport, 2000, 80, Span::millis(1), Schedule::Periodic).ok();
        let second = (self.shape & 2 != 0 && !self.classic).then(|| first.reversed());
        [Some(first), second].into_iter().flatten().filter_map(spec).collect()
    }

    fn key(self) -> Option<PresharedKey> {
        (self.shape & 8 != 0).then(|| PresharedKey::from_file_contents(b"0123456789abcdef").ok()).flatten()
    }
}

fn addresses() -> [SocketAddr; 2] {
    [SocketAddr::from(([192, 0, 2, 1], 50_000)), SocketAddr::from(([192, 0, 2, 2], 2666))]
}

/// State that client and server harnesses share.
struct HarnessState {
    now: Tick,
    peer: Codec,
    flows: Vec<TestSpec>,
    obey: bool,
    /// True if only operations report greetings, which may come from any host.
    strangers: bool,
    over: bool,
}

impl HarnessState {
    fn new(setup: ChaosSetup, peer: ConnectionSide) -> HarnessState {
        let [client, server] = addresses();
        let (local, far) = if peer == ConnectionSide::Client { (client, server) } else { (server, client) };
        let mut codec = Codec::new(setup.dialect(), peer, local, far);
        codec.settle();
        HarnessState {
            now: SimClock::default().tick(Span::ZERO),
            peer: codec,
            flows: setup.flows(),
            obey: true,
            strangers: setup.shape & 32 != 0,
            over: false,
        }
    }

    fn pass(&mut self, span: Span) {
        self.now.steady = self.now.steady + span;
        self.now.wall = self.now.wall + span;
    }

    fn pass_until(&mut self, at: SteadyTime) {
        self.pass(Span((at - self.now.steady).0.max(0)));
    }

    /// Encodes a message of the peer, selected by `kind`.
    fn say(&mut self, kind: u8, n: u32) -> Vec<u8> {
        let message = any_message(kind, n, &self.flows);
        let mut bytes = Vec::new();
        self.peer.encode(&message, &mut bytes);
        bytes
    }
}

fn any_message(kind: u8, n: u32, flows: &[TestSpec]) -> Message {
    let flow = FlowId((n % 4) as u8);
    match kind % 18 {
        0 => Message::Hello(Hello {
            min_version: 3,
            max_version: 3 + (n % 3) as u8,
            capabilities: u64::from(n),
            ..Hello::default()
        }),
        1 => Message::Welcome(Welcome {
            version: 3,
            authenticate: n % 7 == 1,
            capabilities: u64::from(n),
            ..Welcome::default()
        }),
        2 => Message::Proof([n as u8; 32]),
        3 => {
            let t = WallTime(n.into());
            Message::Probe(Probe { id: n % 16, sent: t, arrived: Some(t), answered: Some(t) })
        }
        4 => {
            let flows =
                flows.iter().map(|spec| FlowRequest { spec: spec.clone(), stamps: StampSource::Kernel });
            Message::Request(Request { flows: flows.collect(), ..Request::default() })
        }
        5 => {
            let count = if n % 5 == 4 { 7 } else { flows.len() };
            let granted = FlowAccept { port: n as u16, token: (!n.is_multiple_of(3)).then_some(n.into()) };
            let session = Some(SessionId(n.into()));
            Message::Accept(Accept { session, flows: vec![granted; count], host: Default::default() })
        }
        6 => Message::Start,
        7 => Message::Started,
        8 => Message::Finished(flow, n.into()),
        9 => Message::End(flow, n),
        10 => Message::Stop(flow),
        11 => Message::Fetch(Fetch {
            session: n.is_multiple_of(2).then_some(SessionId(n.into())),
            flow,
            chunk: n / 16,
        }),
        12 => {
            let data = if n.is_multiple_of(2) {
                ChunkData::Records(vec![PacketRecord::new(i64::from(n)); (n % 5) as usize])
            } else {
                ChunkData::Stamps(
                    StampSource::Kernel,
                    vec![i64::from(n); (n % 5) as usize],
                    vec![7; (n % 5 * (n % 2)) as usize],
                )
            };
            let crc = crate::jitlat::v3::checksum(&data);
            Message::Chunk(Chunk { flow: FlowId((n / 8 % 3) as u8), index: n / 32, crc, data })
        }
        13 => Message::Results(Results { chunks: n / 16, count: u64::from(n) / 8, ..Results::none(flow) }),
        14 => Message::Bye,
        15 => Message::KeepAlive,
        16 => Message::Feedback(flow, so_far(n)),
        _ => Message::Nak(Nak::new(NakCode::from_number(n as u16 % 12), "no")),
    }
}

fn any_report(kind: u8, flow: u8, n: u32) -> FlowReport {
    let id = FlowId(flow % 4);
    match kind % 8 {
        0 => FlowReport::Opened(id, n as u16),
        1 => FlowReport::Greeted(id, SocketAddr::from(([192, 0, 2, (n % 3) as u8], n as u16))),
        2 => FlowReport::Ready(id),
        3 => FlowReport::Ended(id, n),
        4 => FlowReport::Sent(id, send_report(n)),
        5 => FlowReport::Received(id, receive_report(n)),
        6 => FlowReport::SoFar(id, so_far(n)),
        _ => FlowReport::Failed(id, "failed".into()),
    }
}

fn so_far(n: u32) -> ReceivedSoFar {
    ReceivedSoFar { received: n.into(), silence: Some(Span(n.into())), ..ReceivedSoFar::default() }
}

fn send_report(n: u32) -> SendReport {
    let mut stamps = SentStamps::new(StampSource::Kernel);
    (0..n % 9000).for_each(|seq| stamps.set(seq, WallTime(seq.into())));
    SendReport {
        sent: n,
        failed: 0,
        stamps: Some(stamps),
        stamps_lost: Some(0),
        path_mtu: None,
        tcp: Vec::new(),
    }
}

fn receive_report(n: u32) -> ReceiveReport {
    let mut recording = Recording::new(3000);
    recording.extend((0..i64::from(n % 3100)).map(PacketRecord::new));
    ReceiveReport { recording, finish: Finish::Sentinel, drops: None, pause: None }
}

/// Returns the answer that a correct flow engine gives to `command` immediately.
fn obedient(command: &FlowCommand, roles: &mut Vec<FlowRole>) -> Vec<FlowReport> {
    match command {
        FlowCommand::Open(opening) => {
            roles.push(opening.role);
            let opened = FlowReport::Opened(opening.flow, opening.bind_port.max(1));
            let greeted = FlowReport::Greeted(opening.flow, SocketAddr::new(opening.peer, 40_000));
            match opening.meeting {
                Meeting::Greeting(_) => vec![opened, greeted],
                _ => vec![opened],
            }
        }
        FlowCommand::Connect { flow, .. } => vec![FlowReport::Ready(*flow)],
        FlowCommand::Stop(flow) => match roles.get(usize::from(flow.0)) {
            Some(FlowRole::Send) => {
                vec![FlowReport::Ended(*flow, 9), FlowReport::Sent(*flow, send_report(9))]
            }
            _ => vec![FlowReport::Received(*flow, receive_report(5))],
        },
        _ => vec![],
    }
}

/// Applies `ops` to a server's state machine. Panics if the state machine misbehaves.
pub fn server(setup: ChaosSetup, ops: &[Op]) {
    let [client, local] = addresses();
    let mut around = HarnessState::new(setup, ConnectionSide::Client);
    let limits = ServerLimits::default();
    let mut sessions = SessionTable::new(limits.clone());
    let config = ServerConfig {
        local,
        peer: client,
        limits,
        keys: setup.key().into(),
        entropy: [7; 32],
        host: Default::default(),
        software: "chaos".into(),
        test_port: 2667,
    };
    let mut machine = ServerMachine::new(config, around.now);
    let mut roles = Vec::new();
    for op in ops {
        let now = around.now;
        match op {
            Op::Say(kind, n) => {
                let bytes = around.say(*kind, *n);
                machine.handle(now, ServerInput::Received(&bytes));
            }
            Op::Raw(bytes) => machine.handle(now, ServerInput::Received(bytes)),
            Op::FlowReport(kind, flow, n) => {
                machine.handle(now, ServerInput::Flow(any_report(*kind, *flow, *n)));
            }
            Op::Wait(ms) => {
                around.pass(Span::millis((*ms % 100_000).into()));
                machine.handle_timeout(around.now);
            }
            Op::Timeout => {
                if let Some(at) = machine.poll_timeout() {
                    around.pass_until(at);
                }
                machine.handle_timeout(around.now);
            }
            Op::Step(ms) => around.now.wall = around.now.wall + Span::millis((*ms).into()),
            Op::Close => machine.handle(now, ServerInput::Closed),
            Op::Stop => machine.handle(now, ServerInput::Shutdown),
            Op::Obey(obey) => around.obey = *obey,
        }
        settle_server(&mut machine, &mut around, &mut sessions, &mut roles);
    }
    for _ in 0..MAX_OUTPUT {
        let Some(at) = machine.poll_timeout() else {
            assert!(around.over, "no timer, and not over: {machine:?}");
            return;
        };
        around.pass_until(at);
        machine.handle_timeout(around.now);
        settle_server(&mut machine, &mut around, &mut sessions, &mut roles);
    }
    panic!("never ends: {machine:?}");
}

/// True if the packets that a server's flow engine sends because of this command go to the host of the
/// control connection, whose address is proved, and only after that host has sent a packet.
fn is_to_client(command: &FlowCommand) -> bool {
    let [client, _] = addresses();
    match command {
        FlowCommand::Open(opening) => opening.peer == client.ip(),
        FlowCommand::Connect { peer, greeting, .. } => peer.ip() == client.ip() && greeting.is_none(),
        FlowCommand::Start(_) | FlowCommand::Cut(..) | FlowCommand::Stop(_) | FlowCommand::Close(_) => true,
    }
}

fn settle_server(
    machine: &mut ServerMachine,
    around: &mut HarnessState,
    sessions: &mut SessionTable,
    roles: &mut Vec<FlowRole>,
) {
    for _ in 0..MAX_OUTPUT {
        let mut out = Vec::new();
        if machine.poll_transmit(around.now, &mut out) {
            continue;
        }
        let Some(event) = machine.poll_event() else {
            assert!(around.over || machine.poll_timeout().is_some(), "no timer: {machine:?}");
            return;
        };
        let now = around.now;
        match event {
            ServerEvent::Done(_) => {
                assert!(!around.over, "over twice");
                around.over = true;
            }
            ServerEvent::Flow(ref command) if !is_to_client(command) => {
                panic!("packets for a host other than the control connection's: {command:?}");
            }
            ServerEvent::Flow(command) if around.obey => {
                for report in obedient(&command, roles) {
                    if around.strangers && matches!(report, FlowReport::Greeted(..)) {
                        continue;
                    }
                    machine.handle(now, ServerInput::Flow(report));
                }
            }
            ServerEvent::Admit(claim) if around.obey => {
                machine.handle(now, ServerInput::Admitted(sessions.admit(claim, now.steady)));
            }
            ServerEvent::Find(id) if around.obey => {
                machine.handle(now, ServerInput::Found(sessions.find(id)));
            }
            ServerEvent::Keep(id, results) => sessions.keep(id, results, now.steady),
            ServerEvent::Forget(id) => sessions.forget(id),
            _ => {}
        }
    }
    panic!("talks without end: {machine:?}");
}

/// Applies `ops` to a client's state machine. Panics if the state machine misbehaves.
pub fn client(setup: ChaosSetup, ops: &[Op]) {
    let [local, server] = addresses();
    let mut around = HarnessState::new(setup, ConnectionSide::Server);
    let terms = TestTerms {
        dialect: setup.dialect(),
        key: setup.key(),
        feedback: true,
        ..TestTerms::new(around.flows.clone())
    };
    let mut config = ClientConfig::new(terms, local, server, [9; 32]);
    config.probes = if setup.shape & 16 == 0 { 0 } else { 3 };
    let mut machine = ClientMachine::new(config, around.now);
    let mut roles = Vec::new();
    settle_client(&mut machine, &mut around, setup, &mut roles);
    for op in ops {
        let now = around.now;
        match op {
            Op::Say(kind, n) => {
                let bytes = around.say(*kind, *n);
                machine.handle(now, ClientInput::Received(&bytes));
            }
            Op::Raw(bytes) => machine.handle(now, ClientInput::Received(bytes)),
            Op::FlowReport(kind, flow, n) => {
                machine.handle(now, ClientInput::Flow(any_report(*kind, *flow, *n)));
            }
            Op::Wait(ms) => {
                around.pass(Span::millis((*ms % 100_000).into()));
                machine.handle_timeout(around.now);
            }
            Op::Timeout => {
                if let Some(at) = machine.poll_timeout() {
                    around.pass_until(at);
                }
                machine.handle_timeout(around.now);
            }
            Op::Step(ms) => around.now.wall = around.now.wall + Span::millis((*ms).into()),
            Op::Close => machine.handle(now, ClientInput::Closed(None)),
            Op::Stop => machine.handle(now, ClientInput::Interrupt),
            Op::Obey(obey) => around.obey = *obey,
        }
        settle_client(&mut machine, &mut around, setup, &mut roles);
    }
    for _ in 0..MAX_OUTPUT {
        let Some(at) = machine.poll_timeout() else {
            assert!(around.over, "no timer, and not over: {machine:?}");
            let _ = machine.sessions();
            return;
        };
        around.pass_until(at);
        machine.handle_timeout(around.now);
        settle_client(&mut machine, &mut around, setup, &mut roles);
    }
    panic!("never ends: {machine:?}");
}

fn settle_client(
    machine: &mut ClientMachine,
    around: &mut HarnessState,
    setup: ChaosSetup,
    roles: &mut Vec<FlowRole>,
) {
    for _ in 0..MAX_OUTPUT {
        let mut out = Vec::new();
        if machine.poll_transmit(around.now, &mut out) {
            continue;
        }
        let Some(event) = machine.poll_event() else {
            assert!(around.over || machine.poll_timeout().is_some(), "no timer: {machine:?}");
            return;
        };
        let now = around.now;
        match event {
            ClientEvent::Done { .. } | ClientEvent::Failed(_) => {
                assert!(!around.over, "over twice");
                around.over = true;
            }
            ClientEvent::Flow(command) if around.obey => {
                for report in obedient(&command, roles) {
                    machine.handle(now, ClientInput::Flow(report));
                }
            }
            ClientEvent::Reconnect if around.obey => {
                around.peer = HarnessState::new(setup, ConnectionSide::Server).peer;
                machine.handle(now, ClientInput::Reconnected([3; 32]));
            }
            _ => {}
        }
    }
    panic!("talks without end: {machine:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_of_any_host_lead_no_packets_there() {
        for from in 0..3 {
            let setup = ChaosSetup { classic: false, shape: 32 };
            server(setup, &[Op::Say(0, 0), Op::Say(4, 0), Op::FlowReport(1, 0, from), Op::Say(6, 0)]);
        }
    }
}
