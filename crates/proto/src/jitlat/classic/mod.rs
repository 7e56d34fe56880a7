//! The classic dialect (docs/protocols/jitlat-classic.md): 44-byte workorders, and singletons (packet
//! records) after SAMPLES.
//!
//! The state machines use some messages that have no workorder in the classic dialect. The codec generates
//! these on the side that expects them: a classic client "receives" WELCOME before it has sent anything, a
//! classic server "receives" START with the request of a stream to it, and so on.

mod workorder;

pub(crate) use workorder::{SINGLETON_LEN, parse_singleton};
pub use workorder::{WORKORDER_LEN, Workorder, WorkorderCommand, singleton};

use super::auth::ConnectionSide;
use super::flow::FlowId;
use super::message::{
    Accept, Chunk, ChunkData, DecodeError, Fetch, FlowAccept, FlowRequest, Hello, Message, Nak, NakCode,
    Probe, Request, Results, VERSION, Welcome,
};
use super::recording::CHUNK;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use jitlat_core::session::HostFacts;
use jitlat_core::{Direction, Dscp, PacketRecord, Schedule, Span, StampSource, TestSpec, Transport};
use std::collections::VecDeque;

/// Maximum number of unanswered probes on a server, for clients that send but never read.
const MAX_PROBES_WAITING: usize = 64;
/// The only flow of a classic conversation.
const FLOW: FlowId = FlowId(0);

/// Encodes and decodes one side of a classic connection. Buffers less than one chunk of singletons, in
/// addition to the bytes passed to one call of [`feed`](ClassicCodec::feed).
#[derive(Debug)]
pub struct ClassicCodec {
    side: ConnectionSide,
    local: Ipv4Addr,
    peer: Ipv4Addr,
    incoming: Vec<u8>,
    consumed: usize,
    /// Messages that have been decoded or generated, but not returned yet.
    ready: VecDeque<Message>,
    /// Last workorder about the test. Its fields are updated as new information arrives.
    order: Workorder,
    stage: CodecStage,
    probes_received: VecDeque<Workorder>,
    probes_answered: u32,
    /// Number of singletons still expected, and number of chunks created so far; `None` while no singletons are
    /// expected.
    samples: Option<(u32, u32)>,
    samples_claimed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodecStage {
    /// Nothing has been requested.
    Fresh,
    /// A stream was requested, but not agreed on yet.
    Asked(Direction),
    /// A stream was agreed on; it is running or over.
    Agreed(Direction),
    /// The end of the stream has been answered.
    Over,
}

impl ClassicCodec {
    /// Creates the codec of `side` for a connection between `local` and `peer`.
    pub fn new(side: ConnectionSide, local: SocketAddr, peer: SocketAddr) -> ClassicCodec {
        let opening = match side {
            ConnectionSide::Client => {
                Message::Welcome(Welcome { version: VERSION - 1, ..Welcome::default() })
            }
            ConnectionSide::Server => Message::Hello(Hello {
                min_version: VERSION - 1,
                max_version: VERSION - 1,
                ..Hello::default()
            }),
        };
        ClassicCodec {
            side,
            local: ipv4(local),
            peer: ipv4(peer),
            incoming: Vec::new(),
            consumed: 0,
            ready: VecDeque::from([opening]),
            order: Workorder::new(WorkorderCommand::Sending),
            stage: CodecStage::Fresh,
            probes_received: VecDeque::new(),
            probes_answered: 0,
            samples: None,
            samples_claimed: 0,
        }
    }

    /// Appends the encoding of `message` to `out`. Many messages have no encoding in this dialect.
    pub fn encode(&mut self, message: &Message, out: &mut Vec<u8>) {
        match message {
            Message::Probe(probe) => self.encode_probe(probe, out),
            Message::Request(request) => self.encode_request(request, out),
            Message::Accept(accept) => self.encode_accept(accept, out),
            Message::Start => self.encode_start(out),
            Message::Finished(_, received) => self.encode_finished(*received, out),
            Message::Chunk(Chunk { data: ChunkData::Records(records), .. }) => {
                records.iter().for_each(|r| out.extend_from_slice(&singleton(r)));
            }
            Message::Results(_) => self.ready.push_back(Message::Bye),
            Message::Nak(_) => {
                out.extend_from_slice(&Workorder { command: WorkorderCommand::Nak, ..self.order }.to_bytes());
            }
            _ => {}
        }
    }

    fn encode_probe(&mut self, probe: &Probe, out: &mut Vec<u8>) {
        let mut order = match self.side {
            ConnectionSide::Client => Workorder::new(WorkorderCommand::RttProbe),
            ConnectionSide::Server => {
                let received = self.probes_received.pop_front();
                received.unwrap_or(Workorder::new(WorkorderCommand::RttProbe))
            }
        };
        order.set_t1(probe.sent);
        if let Some(t2) = probe.arrived {
            order.set_t2(t2);
        }
        out.extend_from_slice(&order.to_bytes());
    }

    fn encode_request(&mut self, request: &Request, out: &mut Vec<u8>) {
        let Some(FlowRequest { spec, .. }) = request.flows.first() else { return };
        let (command, src_ip, dst_ip) = match spec.direction() {
            Direction::Up => (WorkorderCommand::Sending, self.local, self.peer),
            Direction::Down => (WorkorderCommand::SendMe, self.peer, self.local),
        };
        self.order = Workorder {
            command,
            npkts: spec.packets(),
            pktlen: spec.payload().into(),
            proto: spec.transport().number().into(),
            period: spec.period().0 as u64,
            src_ip,
            dst_ip,
            src_port: spec.src_port.into(),
            dst_port: spec.dst_port.into(),
            dscp: spec.dscp.value().into(),
        };
        self.stage = CodecStage::Asked(spec.direction());
        out.extend_from_slice(&self.order.to_bytes());
    }

    fn encode_accept(&mut self, accept: &Accept, out: &mut Vec<u8>) {
        let CodecStage::Asked(direction) = self.stage else { return };
        let port = accept.flows.first().map_or(0, |f| f.port.into());
        match direction {
            Direction::Up => {
                self.order = Workorder {
                    command: WorkorderCommand::Ack,
                    dst_ip: self.local,
                    dst_port: port,
                    ..self.order
                };
                // A classic client starts to send as soon as it has read this workorder.
                self.ready.push_back(Message::Start);
            }
            Direction::Down => {
                self.order = Workorder {
                    command: WorkorderCommand::Sending,
                    src_ip: self.local,
                    dst_ip: self.peer,
                    src_port: port,
                    ..self.order
                };
            }
        }
        self.stage = CodecStage::Agreed(direction);
        out.extend_from_slice(&self.order.to_bytes());
    }

    fn encode_start(&mut self, out: &mut Vec<u8>) {
        if let CodecStage::Agreed(direction) = self.stage {
            if direction == Direction::Down {
                self.order.command = WorkorderCommand::Ack;
                out.extend_from_slice(&self.order.to_bytes());
            }
            self.ready.push_back(Message::Started);
        }
    }

    fn encode_finished(&mut self, received: u64, out: &mut Vec<u8>) {
        self.order.command = match self.side {
            ConnectionSide::Client => WorkorderCommand::Ack,
            ConnectionSide::Server => {
                // A classic client does not request singletons: they are sent after the acknowledgement.
                self.ready.push_back(Message::Fetch(Fetch { session: None, flow: FLOW, chunk: 0 }));
                self.order.npkts = u32::try_from(received).unwrap_or(u32::MAX);
                WorkorderCommand::Samples
            }
        };
        self.stage = CodecStage::Over;
        out.extend_from_slice(&self.order.to_bytes());
    }

    /// Adds received bytes. Afterwards, [`decode`](ClassicCodec::decode) must be called until it returns
    /// `None`.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.incoming.drain(..self.consumed);
        self.consumed = 0;
        self.incoming.extend_from_slice(bytes);
    }

    /// Returns the next message, decoded or generated; `None` if there is none yet. After an error, no more
    /// messages can be read.
    pub fn decode(&mut self) -> Result<Option<Message>, DecodeError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            let waiting = &self.incoming[self.consumed..];
            if let Some((left, index)) = self.samples {
                let whole = (waiting.len() / SINGLETON_LEN).min(CHUNK).min(left as usize);
                if whole == 0 && left > 0 {
                    return Ok(None);
                }
                let rows = waiting[..whole * SINGLETON_LEN].as_chunks().0;
                let records: Vec<PacketRecord> = rows.iter().map(parse_singleton).collect();
                self.consumed += whole * SINGLETON_LEN;
                self.take_samples(records, left, index);
                continue;
            }
            let Some(bytes) = waiting.first_chunk() else {
                // A wrong command is detected before the rest of its workorder arrives.
                if waiting.len() >= 4
                    && matches!(super::dialect::sniff(waiting), Err(_) | Ok(Some(super::Dialect::V3)))
                {
                    return Err(not_a_command(waiting));
                }
                return Ok(None);
            };
            let order = Workorder::parse(bytes).map_err(DecodeError::Command)?;
            self.consumed += WORKORDER_LEN;
            match self.side {
                ConnectionSide::Client => self.read_by_client(order)?,
                ConnectionSide::Server => self.read_by_server(order)?,
            }
        }
    }

    fn take_samples(&mut self, records: Vec<PacketRecord>, left: u32, index: u32) {
        let now_left = left - records.len() as u32;
        if now_left > 0 {
            self.samples = Some((now_left, index + 1));
        } else {
            self.samples = None;
        }
        let chunks = index + u32::from(!records.is_empty());
        if !records.is_empty() {
            let data = ChunkData::Records(records);
            self.ready.push_back(Message::Chunk(Chunk { flow: FLOW, index, crc: 0, data }));
        }
        if now_left == 0 {
            let count = self.samples_claimed.into();
            self.ready.push_back(Message::Results(Results { chunks, count, ..Results::none(FLOW) }));
        }
    }

    fn read_by_client(&mut self, order: Workorder) -> Result<(), DecodeError> {
        let message = match (order.command, self.stage) {
            (WorkorderCommand::RttProbe, _) => {
                let id = self.probes_answered;
                self.probes_answered += 1;
                let t2 = order.t2();
                Message::Probe(Probe { id, sent: order.t1(), arrived: Some(t2), answered: Some(t2) })
            }
            (WorkorderCommand::Ack, CodecStage::Asked(Direction::Up)) => {
                self.stage = CodecStage::Agreed(Direction::Up);
                // A server that omits the port uses the requested one.
                accepted(if order.dst_port == 0 { self.order.dst_port } else { order.dst_port })?
            }
            (WorkorderCommand::Sending, CodecStage::Asked(Direction::Down)) => {
                self.stage = CodecStage::Agreed(Direction::Down);
                self.order.src_port = order.src_port;
                accepted(order.src_port)?
            }
            (WorkorderCommand::Samples, CodecStage::Agreed(Direction::Up)) => {
                self.stage = CodecStage::Over;
                self.order.command = WorkorderCommand::Samples;
                self.samples = Some((order.npkts, 0));
                self.samples_claimed = order.npkts;
                Message::Finished(FLOW, order.npkts.into())
            }
            (WorkorderCommand::Nak, _) => Message::Nak(Nak::new(NakCode::Other, "")),
            // A server may acknowledge more often than required.
            (WorkorderCommand::Ack, _) => return Ok(()),
            (command, _) => return Err(DecodeError::Command(command as u32)),
        };
        self.ready.push_back(message);
        Ok(())
    }

    fn read_by_server(&mut self, order: Workorder) -> Result<(), DecodeError> {
        match (order.command, self.stage) {
            (WorkorderCommand::RttProbe, CodecStage::Fresh) => {
                if self.probes_received.len() >= MAX_PROBES_WAITING {
                    return Err(DecodeError::Invalid(
                        "too many probes sent without reading the answers".into(),
                    ));
                }
                let id = self.probes_answered;
                self.probes_answered = id.wrapping_add(1);
                let probe = Probe { id, sent: order.t1(), arrived: None, answered: None };
                self.probes_received.push_back(order);
                self.ready.push_back(Message::Probe(probe));
            }
            (WorkorderCommand::Sending, CodecStage::Fresh) => self.asked(order, Direction::Up)?,
            (WorkorderCommand::SendMe, CodecStage::Fresh) => self.asked(order, Direction::Down)?,
            (WorkorderCommand::Ack, CodecStage::Agreed(Direction::Down))
                if self.order.command == WorkorderCommand::Sending =>
            {
                self.order.command = WorkorderCommand::Ack;
                self.ready.push_back(Message::Start);
            }
            (WorkorderCommand::Ack, CodecStage::Agreed(Direction::Down)) => {
                self.stage = CodecStage::Over;
                self.ready.extend([Message::Finished(FLOW, 0), Message::Bye]);
            }
            // A client may acknowledge the singletons.
            (WorkorderCommand::Ack, CodecStage::Over) => self.ready.push_back(Message::Bye),
            (WorkorderCommand::Nak, _) => self.ready.push_back(Message::Nak(Nak::new(NakCode::Other, ""))),
            (command, _) => return Err(DecodeError::Command(command as u32)),
        }
        Ok(())
    }

    fn asked(&mut self, order: Workorder, direction: Direction) -> Result<(), DecodeError> {
        let spec = spec_of(&order, direction)?;
        // A client behind an address translator specifies its inner address as the source of its stream,
        // which does no harm. The destination is always the address of the connection, so any other address
        // is refused.
        if direction == Direction::Down && !order.dst_ip.is_unspecified() && order.dst_ip != self.peer {
            return Err(DecodeError::Invalid(format!(
                "streams are sent only to the address of the control connection, {}, not to {}",
                self.peer, order.dst_ip
            )));
        }
        self.order = order;
        self.stage = CodecStage::Asked(direction);
        let flows = vec![FlowRequest { spec, stamps: StampSource::Kernel }];
        self.ready.push_back(Message::Request(Request { flows, host: HostFacts::default() }));
        Ok(())
    }
}

fn ipv4(address: SocketAddr) -> Ipv4Addr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

fn not_a_command(bytes: &[u8]) -> DecodeError {
    DecodeError::Command(bytes.first_chunk().map_or(0, |b| u32::from_be_bytes(*b)))
}

fn port_of(port: u32) -> Result<u16, DecodeError> {
    u16::try_from(port).map_err(|_| DecodeError::Invalid(format!("{port} is not a port")))
}

fn accepted(port: u32) -> Result<Message, DecodeError> {
    let flows = vec![FlowAccept { port: port_of(port)?, token: None }];
    Ok(Message::Accept(Accept { session: None, flows, host: HostFacts::default() }))
}

fn spec_of(order: &Workorder, direction: Direction) -> Result<TestSpec, DecodeError> {
    let invalid = |text: String| DecodeError::Invalid(text);
    let transport = Transport::from_number(order.proto)
        .ok_or_else(|| invalid(format!("protocol {} is neither UDP (17) nor TCP (6)", order.proto)))?;
    let period = Span(i64::try_from(order.period).unwrap_or(i64::MAX));
    let (packets, payload) = (order.npkts.into(), order.pktlen.into());
    let mut spec = TestSpec::new(direction, transport, packets, payload, period, Schedule::Periodic)
        .map_err(|e| invalid(e.to_string()))?;
    spec.dscp = Dscp::new(order.dscp).ok_or_else(|| invalid(format!("DSCP {} is above 63", order.dscp)))?;
    spec.src_port = port_of(order.src_port)?;
    spec.dst_port = port_of(order.dst_port)?;
    Ok(spec)
}

#[cfg(test)]
mod tests;
