//! [`SimEngine`]: flow engine in virtual time, which replaces the threads and sockets of `jitlat-net`.

use crate::Tick;
use crate::jitlat::flow::{
    FlowCommand, FlowId, FlowReport, FlowRole, Meeting, Opening, ReceiveReport, SendReport, WATCHED_EVERY,
};
use crate::jitlat::packet::{HEADER_LEN, PacketHeader};
use crate::jitlat::recording::{Recording, SentStamps};
use crate::jitlat::stream::{Greeter, Reception, StreamArrival, StreamReceiver, StreamSender};
use core::net::SocketAddr;
use jitlat_core::distribution::Precision;
use jitlat_core::so_far::{ReceivedSoFar, SoFar};
use jitlat_core::{Span, Stamp, StampSource, SteadyTime, Transport};
use std::collections::VecDeque;

/// Time from the program's clock reading until a packet leaves the simulated host.
pub(crate) const SEND_LAG: Span = Span::micros(3);

/// A packet of a test stream in transit.
#[derive(Clone, Copy, Debug)]
pub struct SimPacket {
    /// Number of the flow.
    pub flow: FlowId,
    /// Header of the packet.
    pub header: PacketHeader,
    /// Payload length, in bytes.
    pub size: u16,
    /// True if the packet must not be lost or reordered.
    pub tcp: bool,
}

/// All flows of one state machine.
#[derive(Debug, Default)]
pub struct SimEngine {
    flows: Vec<SimFlow>,
    reports: VecDeque<FlowReport>,
    /// Reports in transit to the state machine, with their arrival times.
    posted: VecDeque<(SteadyTime, FlowReport)>,
    latency: Span,
    /// Source address of the peer's packets; `None` if unknown.
    far: Option<SocketAddr>,
    /// Buffer for a packet as its receiver sees it.
    payload: Vec<u8>,
}

#[derive(Debug)]
struct SimFlow {
    opening: Opening,
    connected: bool,
    greeted: bool,
    /// Greeting that must be returned once the flow is connected.
    owed: Option<PacketHeader>,
    greeter: Option<Greeter>,
    work: FlowWork,
    closed: bool,
}

/// Progress reports of a running flow, and the time of the next one.
#[derive(Debug)]
struct FlowWatch {
    so_far: SoFar,
    next: SteadyTime,
    arrived: Option<SteadyTime>,
}

#[derive(Debug)]
enum FlowWork {
    None,
    Sending { sender: StreamSender, stamps: SentStamps, ended: bool },
    Receiving { receiver: StreamReceiver, recording: Recording, watched: Option<Box<FlowWatch>> },
}

impl SimEngine {
    /// Creates an engine. The peer's packets come from `far`, and reports take `latency` to reach the state
    /// machine.
    pub fn new(far: SocketAddr, latency: Span) -> SimEngine {
        SimEngine { far: Some(far), latency, ..SimEngine::default() }
    }

    /// Executes a command.
    pub fn command(&mut self, now: Tick, command: FlowCommand) {
        match command {
            FlowCommand::Open(opening) => self.open(*opening),
            FlowCommand::Connect { flow, greeting, .. } => {
                let Some(f) = self.flow(flow) else { return };
                f.connected = true;
                match greeting {
                    Some((token, timeout)) => f.greeter = Some(Greeter::new(token, now.steady, timeout)),
                    None => self.reports.push_back(FlowReport::Ready(flow)),
                }
            }
            FlowCommand::Start(flow) => {
                let Some(f) = self.flow(flow) else { return };
                f.start(now.steady);
            }
            FlowCommand::Cut(flow, linger) => match self.flow(flow).map(|f| &mut f.work) {
                Some(FlowWork::Sending { sender, .. }) => sender.cut(now.steady),
                Some(FlowWork::Receiving { receiver, .. }) => receiver.cut(now.steady, linger),
                _ => {}
            },
            FlowCommand::Stop(flow) => self.stop(now, flow),
            FlowCommand::Close(flow) => {
                if let Some(f) = self.flow(flow) {
                    f.closed = true;
                    f.work = FlowWork::None;
                    f.greeter = None;
                }
            }
        }
    }

    fn flow(&mut self, id: FlowId) -> Option<&mut SimFlow> {
        self.flows.get_mut(usize::from(id.0))
    }

    fn open(&mut self, opening: Opening) {
        let port =
            if opening.bind_port == 0 { 40_000 + u16::from(opening.flow.0) } else { opening.bind_port };
        self.reports.push_back(FlowReport::Opened(opening.flow, port));
        let connected = opening.meeting == Meeting::Listen;
        self.flows.push(SimFlow {
            opening,
            connected,
            greeted: false,
            owed: None,
            greeter: None,
            work: FlowWork::None,
            closed: false,
        });
    }

    fn stop(&mut self, now: Tick, id: FlowId) {
        let Some(f) = self.flow(id) else { return };
        match &mut f.work {
            FlowWork::Sending { sender, .. } => sender.stop(),
            FlowWork::Receiving { receiver, .. } => receiver.cut(now.steady, Span::ZERO),
            FlowWork::None => {
                let role = f.opening.role;
                self.reports.push_back(match role {
                    FlowRole::Send => FlowReport::Sent(id, SendReport::default()),
                    FlowRole::Receive => FlowReport::Failed(id, "never started".into()),
                });
            }
        }
        self.advance(now, &mut Vec::new());
    }

    /// Handles a packet from the peer, and appends answers to `out`.
    pub fn arrived(&mut self, now: Tick, packet: &SimPacket, out: &mut Vec<SimPacket>) {
        let SimEngine { flows, reports, far, payload, .. } = self;
        let Some(f) = flows.get_mut(usize::from(packet.flow.0)).filter(|f| !f.closed) else { return };
        let bytes = packet.header.to_bytes();
        if let Some(greeter) = &mut f.greeter {
            greeter.handle(&bytes);
        }
        if let (Some(token), Meeting::Greeting(ours)) = (packet.header.hello_token(), &f.opening.meeting) {
            if token == *ours {
                if f.connected {
                    out.push(*packet);
                } else if !f.greeted {
                    f.greeted = true;
                    f.owed = Some(packet.header);
                    reports.extend(far.map(|far| FlowReport::Greeted(packet.flow, far)));
                }
            }
            return;
        }
        if let FlowWork::Receiving { receiver, recording, watched } = &mut f.work {
            let stamp = Stamp { at: now.wall, source: StampSource::Kernel };
            let mut how = Reception::new(stamp, now.steady);
            how.read = Some(now.wall + Span::micros(2));
            how.ttl = Some(64);
            how.traffic_class = Some(f.opening.spec.dscp.octet());
            payload.resize(packet.size.into(), 0);
            packet.header.write(payload);
            if let StreamArrival::Packet(record) = receiver.packet(payload, &how) {
                recording.push(record);
                if let Some(watched) = watched {
                    watched.so_far.push(&record, record.delay());
                    watched.arrived = Some(now.steady);
                }
            }
        }
        self.advance(now, out);
    }

    /// Sends packets that are due, and finishes streams that are over.
    pub fn advance(&mut self, now: Tick, out: &mut Vec<SimPacket>) {
        let SimEngine { flows, reports, .. } = self;
        for f in flows.iter_mut().filter(|f| !f.closed) {
            f.advance(now, out, reports);
        }
    }

    /// Returns the time of the next action, on the steady clock; `None` if nothing is scheduled.
    pub fn deadline(&self) -> Option<SteadyTime> {
        let flows = self.flows.iter().filter(|f| !f.closed).filter_map(SimFlow::deadline);
        flows.chain(self.posted.front().map(|(at, _)| *at)).min()
    }

    /// Returns the next report that has arrived by `now`; `None` if there is none.
    pub(crate) fn poll_report(&mut self, now: SteadyTime) -> Option<FlowReport> {
        self.posted.extend(self.reports.drain(..).map(|report| (now + self.latency, report)));
        if self.posted.front().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        self.posted.pop_front().map(|(_, report)| report)
    }
}

impl SimFlow {
    fn start(&mut self, now: SteadyTime) {
        let Opening { spec, timeouts, greetings, record_limit, peak, watched, .. } = &self.opening;
        self.work = match self.opening.role {
            FlowRole::Send => FlowWork::Sending {
                sender: StreamSender::new(spec, now),
                stamps: SentStamps::new(StampSource::Kernel),
                ended: false,
            },
            FlowRole::Receive => FlowWork::Receiving {
                receiver: StreamReceiver::new(spec, *timeouts, *greetings, now).limited_to(*peak),
                recording: Recording::new(*record_limit),
                watched: watched.then(|| {
                    let so_far = SoFar::new(Precision::FLOW);
                    Box::new(FlowWatch { so_far, next: now + WATCHED_EVERY, arrived: None })
                }),
            },
        };
    }

    fn packet(&self, header: PacketHeader, size: u16) -> SimPacket {
        let tcp = self.opening.spec.transport() == Transport::Tcp;
        SimPacket { flow: self.opening.flow, header, size, tcp }
    }

    fn advance(&mut self, now: Tick, out: &mut Vec<SimPacket>, reports: &mut VecDeque<FlowReport>) {
        let id = self.opening.flow;
        if let Some(header) = self.owed.take_if(|_| self.connected) {
            out.push(self.packet(header, HEADER_LEN as u16));
        }
        if let Some(greeter) = &mut self.greeter {
            let hello = greeter.poll_send(now.steady);
            let (done, gave_up) = (greeter.is_done(), greeter.gave_up(now.steady));
            if let Some(header) = hello.and_then(|h| PacketHeader::parse(&h)) {
                out.push(self.packet(header, HEADER_LEN as u16));
            }
            if done || gave_up {
                self.greeter = None;
                reports.push_back(match done {
                    true => FlowReport::Ready(id),
                    false => FlowReport::Failed(id, "no answer to the greeting".into()),
                });
            }
        }
        let (size, tcp) = (self.opening.spec.payload(), self.opening.spec.transport() == Transport::Tcp);
        let over = match &mut self.work {
            FlowWork::None => None,
            FlowWork::Sending { sender, stamps, ended } => {
                while let Some(due) = sender.due().filter(|d| d.at <= now.steady) {
                    let header = PacketHeader { sent: now.wall, seq: due.seq };
                    out.push(SimPacket { flow: id, header, size, tcp });
                    if let Ok(seq) = u32::try_from(due.seq) {
                        stamps.set(seq, now.wall + SEND_LAG);
                    }
                    sender.sent(now.steady);
                }
                if !sender.is_streaming() && !*ended {
                    *ended = true;
                    reports.push_back(FlowReport::Ended(id, sender.attempted()));
                }
                sender.due().is_none().then(|| {
                    let stamps = Some(core::mem::take(stamps));
                    FlowReport::Sent(
                        id,
                        SendReport {
                            sent: sender.attempted(),
                            failed: sender.failures(),
                            stamps,
                            stamps_lost: None,
                            path_mtu: None,
                            tcp: Vec::new(),
                        },
                    )
                })
            }
            FlowWork::Receiving { receiver, recording, watched } => {
                if let Some(watched) = watched.as_mut().filter(|w| now.steady >= w.next) {
                    watched.next = now.steady + WATCHED_EVERY;
                    let silence = watched.arrived.map(|at| now.steady - at);
                    let so_far = ReceivedSoFar { silence, ..watched.so_far.take() };
                    reports.push_back(FlowReport::SoFar(id, so_far));
                }
                receiver.status(now.steady).map(|finish| {
                    let recording = core::mem::take(recording);
                    FlowReport::Received(id, ReceiveReport { recording, finish, drops: None, pause: None })
                })
            }
        };
        if let Some(report) = over {
            reports.push_back(report);
            self.work = FlowWork::None;
        }
    }

    fn deadline(&self) -> Option<SteadyTime> {
        let work = match &self.work {
            FlowWork::None => None,
            FlowWork::Sending { sender, .. } => sender.due().map(|d| d.at),
            FlowWork::Receiving { receiver, watched, .. } => {
                let report = watched.as_ref().map(|w| w.next);
                Some(report.map_or(receiver.deadline(), |at| at.min(receiver.deadline())))
            }
        };
        let greeter = self.greeter.as_ref().map(Greeter::deadline);
        [work, greeter].into_iter().flatten().min()
    }
}
