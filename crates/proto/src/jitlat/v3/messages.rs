//! Fields of the version-3 messages.

use super::fields::{FieldWriter, TaggedField, fields};
use super::{feedback, marking, schedule};
use crate::jitlat::flow::FlowId;
use crate::jitlat::message::{
    Accept, Chunk, ChunkData, DecodeError, Fetch, FlowAccept, FlowRequest, Hello, MAX_FLOWS, Message, Nak,
    NakCode, Probe, Request, Results, Welcome,
};
use crate::jitlat::session_table::SessionId;
use crate::jitlat::stream::Finish;
use crate::jitlat::v3::rows;
use jitlat_core::spec::SpecError;
use jitlat_core::tcp::{MAX_TCP_MOMENTS, TcpMoment};
use jitlat_core::{Direction, Dscp, EcnMarking, Schedule, Span, StampSource, TestSpec, Transport};

/// Values of the type octet of a frame.
mod kind {
    pub const HELLO: u8 = 1;
    pub const WELCOME: u8 = 2;
    pub const PROOF: u8 = 3;
    pub const PROBE: u8 = 4;
    pub const REQUEST: u8 = 5;
    pub const ACCEPT: u8 = 6;
    pub const START: u8 = 7;
    pub const STARTED: u8 = 8;
    pub const FINISHED: u8 = 9;
    pub const END: u8 = 10;
    pub const STOP: u8 = 11;
    pub const FETCH: u8 = 12;
    pub const CHUNK: u8 = 13;
    pub const RESULTS: u8 = 14;
    pub const BYE: u8 = 15;
    pub const KEEPALIVE: u8 = 16;
    pub const NAK: u8 = 17;
    pub const FEEDBACK: u8 = 18;
}

/// Appends the type and fields of `message`.
pub(super) fn encode(message: &Message, out: &mut Vec<u8>) {
    out.push(kind_of(message));
    let w = &mut FieldWriter(out);
    match message {
        Message::Hello(m) => {
            w.u8(1, m.min_version);
            w.u8(2, m.max_version);
            w.u64(3, m.capabilities);
            w.bytes(4, &m.nonce);
            w.u8(5, m.authenticate.into());
            w.optional_text(6, m.software.as_ref());
            if let Some(share) = &m.share {
                w.bytes(7, share);
            }
        }
        Message::Welcome(m) => {
            w.u8(1, m.version);
            w.u64(3, m.capabilities);
            w.bytes(4, &m.nonce);
            w.u8(5, m.authenticate.into());
            w.optional_text(6, m.software.as_ref());
            if let Some(share) = &m.share {
                w.bytes(7, share);
            }
        }
        Message::Proof(proof) => w.bytes(1, proof),
        Message::Probe(m) => {
            w.u32(1, m.id);
            w.i64(2, m.sent.0);
            if let Some(t2) = m.arrived {
                w.i64(3, t2.0);
            }
            if let Some(t3) = m.answered {
                w.i64(4, t3.0);
            }
        }
        Message::Request(m) => {
            m.flows.iter().for_each(|flow| w.nested(1, |w| encode_flow(flow, w)));
            w.host(2, &m.host);
        }
        Message::Accept(m) => {
            if let Some(id) = m.session {
                w.u64(1, id.0);
            }
            for flow in &m.flows {
                w.nested(2, |w| {
                    w.u16(1, flow.port);
                    if let Some(token) = flow.token {
                        w.u64(2, token);
                    }
                });
            }
            w.host(3, &m.host);
        }
        Message::Finished(flow, received) => {
            w.u8(1, flow.0);
            w.u64(2, *received);
        }
        Message::End(flow, sent) => {
            w.u8(1, flow.0);
            w.u32(2, *sent);
        }
        Message::Stop(flow) => w.u8(1, flow.0),
        Message::Fetch(m) => {
            if let Some(id) = m.session {
                w.u64(1, id.0);
            }
            w.u8(2, m.flow.0);
            w.u32(3, m.chunk);
        }
        Message::Feedback(flow, so_far) => feedback::encode(*flow, so_far, w),
        Message::Chunk(m) => encode_chunk(m, w),
        Message::Results(m) => encode_results(m, w),
        Message::Nak(m) => {
            w.u16(1, m.code.number());
            w.text(2, &m.text);
        }
        Message::Start | Message::Started | Message::Bye | Message::KeepAlive => {}
    }
}

fn kind_of(message: &Message) -> u8 {
    match message {
        Message::Hello(_) => kind::HELLO,
        Message::Welcome(_) => kind::WELCOME,
        Message::Proof(_) => kind::PROOF,
        Message::Probe(_) => kind::PROBE,
        Message::Request(_) => kind::REQUEST,
        Message::Accept(_) => kind::ACCEPT,
        Message::Start => kind::START,
        Message::Started => kind::STARTED,
        Message::Finished(..) => kind::FINISHED,
        Message::End(..) => kind::END,
        Message::Stop(_) => kind::STOP,
        Message::Fetch(_) => kind::FETCH,
        Message::Chunk(_) => kind::CHUNK,
        Message::Results(_) => kind::RESULTS,
        Message::Bye => kind::BYE,
        Message::Feedback(..) => kind::FEEDBACK,
        Message::KeepAlive => kind::KEEPALIVE,
        Message::Nak(_) => kind::NAK,
    }
}

fn encode_flow(flow: &FlowRequest, w: &mut FieldWriter<'_>) {
    let spec = &flow.spec;
    w.u8(1, direction_number(spec.direction()));
    w.u8(2, spec.transport().number());
    w.u32(3, spec.packets());
    w.u16(4, spec.payload());
    w.i64(5, spec.period().0);
    w.bytes(6, &schedule::encode(spec.schedule()));
    w.u8(7, spec.dscp.value());
    w.u16(8, spec.src_port);
    w.u16(9, spec.dst_port);
    w.u8(10, flow.stamps as u8);
    if spec.marking.is_on() {
        w.bytes(11, &marking::encode(spec.marking));
    }
}

fn encode_chunk(m: &Chunk, w: &mut FieldWriter<'_>) {
    w.u8(1, m.flow.0);
    w.u32(2, m.index);
    let data = rows::encode(&m.data);
    w.u32(3, m.crc);
    match &m.data {
        ChunkData::Records(_) => w.bytes(4, &data),
        ChunkData::Stamps(source, left, entered) => {
            w.bytes(5, &data);
            w.u8(6, *source as u8);
            if !entered.is_empty() {
                let waits = rows::encode_waits(left, entered);
                w.bytes(7, &waits);
                w.u32(8, crc32fast::hash(&waits));
            }
        }
    }
}

fn encode_results(m: &Results, w: &mut FieldWriter<'_>) {
    w.u8(1, m.flow.0);
    w.u32(2, m.chunks);
    w.u64(3, m.count);
    w.u32(4, m.crc);
    if let Some(sent) = m.sent {
        w.u32(5, sent);
    }
    w.u32(6, m.failed);
    if let Some(drops) = m.drops {
        w.u64(7, drops);
    }
    w.u64(8, m.refused);
    if let Some(finish) = m.finish {
        w.u8(9, finish_number(finish));
    }
    w.optional_text(10, m.failure.as_ref());
    w.host(11, &m.host);
    if let Some(lost) = m.stamps_lost {
        w.u32(12, lost);
    }
    if let Some(pause) = m.pause {
        w.i64(13, pause.0);
    }
    if let Some(mtu) = m.path_mtu {
        w.u32(14, mtu);
    }
    if !m.tcp.is_empty() {
        let moments: Vec<u8> = m.tcp.iter().take(MAX_TCP_MOMENTS).flat_map(TcpMoment::to_bytes).collect();
        w.bytes(15, &moments);
    }
    if m.stopped {
        w.u8(16, 1);
    }
}

/// Parses the body of a frame (type and fields); returns `None` for an unknown type.
pub(super) fn decode(body: &[u8]) -> Result<Option<Message>, DecodeError> {
    let Some((&kind, bytes)) = body.split_first() else { return Err(DecodeError::FrameLength(0)) };
    Ok(Some(match kind {
        kind::HELLO => hello(bytes)?,
        kind::WELCOME => welcome(bytes)?,
        kind::PROOF => proof(bytes)?,
        kind::PROBE => probe(bytes)?,
        kind::REQUEST => request(bytes)?,
        kind::ACCEPT => accept(bytes)?,
        kind::START => Message::Start,
        kind::STARTED => Message::Started,
        kind::FINISHED => {
            let (flow, received) = flow_and(bytes, "FINISHED", |f| f.u64("packet count"))?;
            Message::Finished(flow, required(received, "FINISHED", "packet count")?)
        }
        kind::END => {
            let (flow, sent) = flow_and(bytes, "END", |f| f.u32("packet count"))?;
            Message::End(flow, required(sent, "END", "packet count")?)
        }
        kind::STOP => Message::Stop(flow_and(bytes, "STOP", |_| Ok(()))?.0),
        kind::FETCH => fetch(bytes)?,
        kind::CHUNK => chunk(bytes)?,
        kind::RESULTS => results(bytes)?,
        kind::BYE => Message::Bye,
        kind::FEEDBACK => feedback::decode(bytes)?,
        kind::KEEPALIVE => Message::KeepAlive,
        kind::NAK => nak(bytes)?,
        _ => return Ok(None),
    }))
}

pub(super) fn required<T>(
    value: Option<T>,
    message: &'static str,
    what: &'static str,
) -> Result<T, DecodeError> {
    value.ok_or(DecodeError::Field(message, what))
}

/// Parses the flow in field 1 and, if `second` is given, the value of field 2.
fn flow_and<T>(
    bytes: &[u8],
    name: &'static str,
    second: impl Fn(&TaggedField<'_>) -> Result<T, DecodeError>,
) -> Result<(FlowId, Option<T>), DecodeError> {
    let (mut flow, mut value) = (None, None);
    for field in fields(bytes, name) {
        let field = field?;
        match field.tag {
            1 => flow = Some(FlowId(field.u8("flow")?)),
            2 => value = Some(second(&field)?),
            _ => {}
        }
    }
    Ok((required(flow, name, "flow")?, value))
}

fn hello(bytes: &[u8]) -> Result<Message, DecodeError> {
    const NAME: &str = "HELLO";
    let mut m = Hello::default();
    let mut nonce = None;
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 => m.min_version = field.u8("oldest version")?,
            2 => m.max_version = field.u8("newest version")?,
            3 => m.capabilities = field.u64("capabilities")?,
            4 => nonce = Some(field.array("nonce")?),
            5 => m.authenticate = field.bool("authentication")?,
            6 => m.software = Some(field.text()),
            7 => m.share = Some(field.array("public key")?),
            _ => {}
        }
    }
    m.nonce = required(nonce, NAME, "nonce")?;
    Ok(Message::Hello(m))
}

fn welcome(bytes: &[u8]) -> Result<Message, DecodeError> {
    const NAME: &str = "WELCOME";
    let mut m = Welcome::default();
    let mut nonce = None;
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 => m.version = field.u8("version")?,
            3 => m.capabilities = field.u64("capabilities")?,
            4 => nonce = Some(field.array("nonce")?),
            5 => m.authenticate = field.bool("authentication")?,
            6 => m.software = Some(field.text()),
            7 => m.share = Some(field.array("public key")?),
            _ => {}
        }
    }
    m.nonce = required(nonce, NAME, "nonce")?;
    Ok(Message::Welcome(m))
}

fn proof(bytes: &[u8]) -> Result<Message, DecodeError> {
    let mut proof = None;
    for field in fields(bytes, "PROOF") {
        let field = field?;
        if field.tag == 1 {
            proof = Some(field.array("proof")?);
        }
    }
    required(proof, "PROOF", "proof").map(Message::Proof)
}

fn probe(bytes: &[u8]) -> Result<Message, DecodeError> {
    const NAME: &str = "PROBE";
    let (mut id, mut times) = (None, [None; 3]);
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 => id = Some(field.u32("number")?),
            tag @ 2..=4 => times[usize::from(tag - 2)] = Some(field.nanos("time")?),
            _ => {}
        }
    }
    let [sent, arrived, answered] = times;
    let id = required(id, NAME, "number")?;
    Ok(Message::Probe(Probe { id, sent: required(sent, NAME, "time")?, arrived, answered }))
}

fn request(bytes: &[u8]) -> Result<Message, DecodeError> {
    const NAME: &str = "REQUEST";
    let mut m = Request::default();
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 if m.flows.len() >= MAX_FLOWS => return Err(field.bad("number of flows")),
            1 => m.flows.push(flow_request(&field)?),
            2 => m.host = field.host()?,
            _ => {}
        }
    }
    if m.flows.is_empty() {
        return Err(DecodeError::Field(NAME, "flow"));
    }
    Ok(Message::Request(m))
}

fn flow_request(flow: &TaggedField<'_>) -> Result<FlowRequest, DecodeError> {
    const NAME: &str = "REQUEST";
    let invalid = |e: SpecError| DecodeError::Invalid(e.to_string());
    let (mut direction, mut transport, mut packets, mut payload, mut period) = (None, None, None, None, None);
    let (mut schedule, mut dscp, mut ports, mut stamps) = (Schedule::Periodic, Dscp::default(), [0; 2], 0);
    let mut marks = EcnMarking::Off;
    for field in fields(flow.value, NAME) {
        let field = field?;
        match field.tag {
            1 => direction = Some(direction_of(&field)?),
            2 => {
                let number = field.u8("transport")?;
                transport = Transport::from_number(number.into());
                transport.ok_or_else(|| field.bad("transport"))?;
            }
            3 => packets = Some(field.u32("packet count")?),
            4 => payload = Some(field.u16("payload length")?),
            5 => period = Some(Span(field.i64("period")?)),
            6 => schedule = schedule::decode(&field)?,
            7 => {
                let value = field.u8("DSCP")?;
                dscp = Dscp::new(value.into()).ok_or_else(|| field.bad("DSCP"))?;
            }
            tag @ 8..=9 => ports[usize::from(tag - 8)] = field.u16("port")?,
            10 => stamps = field.u8("stamps")?,
            11 => marks = marking::decode(&field)?,
            _ => {}
        }
    }
    let mut spec = TestSpec::new(
        required(direction, NAME, "direction")?,
        required(transport, NAME, "transport")?,
        required(packets, NAME, "packet count")?.into(),
        required(payload, NAME, "payload length")?.into(),
        required(period, NAME, "period")?,
        schedule,
    )
    .map_err(invalid)?;
    (spec.dscp, spec.marking) = (dscp, marks);
    [spec.src_port, spec.dst_port] = ports;
    Ok(FlowRequest { spec, stamps: source_of(stamps) })
}

fn direction_number(direction: Direction) -> u8 {
    match direction {
        Direction::Up => 0,
        Direction::Down => 1,
    }
}

fn direction_of(field: &TaggedField<'_>) -> Result<Direction, DecodeError> {
    match field.u8("direction")? {
        0 => Ok(Direction::Up),
        1 => Ok(Direction::Down),
        _ => Err(field.bad("direction")),
    }
}

/// Converts a number to a source of timestamps. Unknown numbers count as the program's own clock.
fn source_of(number: u8) -> StampSource {
    StampSource::ALL.get(usize::from(number)).copied().unwrap_or(StampSource::User)
}

fn accept(bytes: &[u8]) -> Result<Message, DecodeError> {
    let mut m = Accept { session: None, flows: Vec::new(), host: Default::default() };
    for field in fields(bytes, "ACCEPT") {
        let field = field?;
        match field.tag {
            1 => m.session = Some(SessionId(field.u64("session")?)),
            2 if m.flows.len() >= MAX_FLOWS => return Err(field.bad("number of flows")),
            2 => {
                let (mut port, mut token) = (None, None);
                for inner in fields(field.value, "ACCEPT") {
                    let inner = inner?;
                    match inner.tag {
                        1 => port = Some(inner.u16("port")?),
                        2 => token = Some(inner.u64("token")?),
                        _ => {}
                    }
                }
                m.flows.push(FlowAccept { port: required(port, "ACCEPT", "port")?, token });
            }
            3 => m.host = field.host()?,
            _ => {}
        }
    }
    Ok(Message::Accept(m))
}

fn fetch(bytes: &[u8]) -> Result<Message, DecodeError> {
    let (mut session, mut flow, mut chunk) = (None, None, 0);
    for field in fields(bytes, "FETCH") {
        let field = field?;
        match field.tag {
            1 => session = Some(SessionId(field.u64("session")?)),
            2 => flow = Some(FlowId(field.u8("flow")?)),
            3 => chunk = field.u32("chunk")?,
            _ => {}
        }
    }
    Ok(Message::Fetch(Fetch { session, flow: required(flow, "FETCH", "flow")?, chunk }))
}

fn chunk(bytes: &[u8]) -> Result<Message, DecodeError> {
    const NAME: &str = "CHUNK";
    let (mut flow, mut index, mut crc, mut records, mut stamps, mut source) =
        (None, None, None, None, None, 0);
    let (mut waits, mut crc_of_waits): (&[u8], _) = (&[], None);
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 => flow = Some(FlowId(field.u8("flow")?)),
            2 => index = Some(field.u32("index")?),
            3 => crc = Some(field.u32("checksum")?),
            4 => records = Some(field.value),
            5 => stamps = Some(field.value),
            6 => source = field.u8("stamp source")?,
            7 => waits = field.value,
            8 => crc_of_waits = Some(field.u32("checksum of the waits")?),
            _ => {}
        }
    }
    let index = required(index, NAME, "index")?;
    let crc = required(crc, NAME, "checksum")?;
    let raw = required(records.or(stamps), NAME, "data")?;
    if crc32fast::hash(raw) != crc || crc_of_waits.is_some_and(|crc| crc32fast::hash(waits) != crc) {
        return Err(DecodeError::Checksum(index));
    }
    let data = match records {
        Some(rows) => rows::decode_records(rows).map(ChunkData::Records),
        None => rows::decode_stamps(raw).and_then(|left| {
            let entered = rows::decode_waits(waits, &left)?;
            Some(ChunkData::Stamps(source_of(source), left, entered))
        }),
    };
    let data = required(data, NAME, "data")?;
    Ok(Message::Chunk(Chunk { flow: required(flow, NAME, "flow")?, index, crc, data }))
}

fn results(bytes: &[u8]) -> Result<Message, DecodeError> {
    const NAME: &str = "RESULTS";
    let mut m = Results::none(FlowId(0));
    let (mut flow, mut chunks, mut count, mut crc) = (None, None, None, None);
    for field in fields(bytes, NAME) {
        let field = field?;
        match field.tag {
            1 => flow = Some(FlowId(field.u8("flow")?)),
            2 => chunks = Some(field.u32("chunk count")?),
            3 => count = Some(field.u64("count")?),
            4 => crc = Some(field.u32("checksum")?),
            5 => m.sent = Some(field.u32("packets sent")?),
            6 => m.failed = field.u32("packets failed")?,
            7 => m.drops = Some(field.u64("drops")?),
            8 => m.refused = field.u64("records refused")?,
            9 => m.finish = finish_of(field.u8("ending")?),
            10 => m.failure = Some(field.text()),
            11 => m.host = field.host()?,
            12 => m.stamps_lost = Some(field.u32("stamps lost")?),
            13 => m.pause = Some(Span(field.i64("pause")?)).filter(|pause| *pause > Span::ZERO),
            14 => m.path_mtu = Some(field.u32("path MTU")?),
            15 => m.tcp = tcp_moments(field.value)?,
            16 => m.stopped = field.bool("end of the server")?,
            _ => {}
        }
    }
    m.flow = required(flow, NAME, "flow")?;
    m.chunks = required(chunks, NAME, "chunk count")?;
    m.count = required(count, NAME, "count")?;
    m.crc = required(crc, NAME, "checksum")?;
    Ok(Message::Results(m))
}

fn tcp_moments(bytes: &[u8]) -> Result<Vec<TcpMoment>, DecodeError> {
    let (moments, rest) = bytes.as_chunks::<{ TcpMoment::LEN }>();
    if !rest.is_empty() || moments.len() > MAX_TCP_MOMENTS {
        return Err(DecodeError::Field("RESULTS", "TCP states"));
    }
    Ok(moments.iter().map(TcpMoment::from_bytes).collect())
}

fn finish_number(finish: Finish) -> u8 {
    match finish {
        Finish::Sentinel => 0,
        Finish::Cut => 1,
        Finish::NeverStarted => 2,
        Finish::Silent => 3,
        Finish::Closed => 4,
        Finish::Exceeded => 5,
    }
}

fn finish_of(number: u8) -> Option<Finish> {
    const ALL: [Finish; 6] = [
        Finish::Sentinel,
        Finish::Cut,
        Finish::NeverStarted,
        Finish::Silent,
        Finish::Closed,
        Finish::Exceeded,
    ];
    ALL.get(usize::from(number)).copied()
}

fn nak(bytes: &[u8]) -> Result<Message, DecodeError> {
    let mut m = Nak::new(NakCode::Other, "");
    for field in fields(bytes, "NAK") {
        let field = field?;
        match field.tag {
            1 => m.code = NakCode::from_number(field.u16("code")?),
            2 => m.text = field.text(),
            _ => {}
        }
    }
    Ok(Message::Nak(m))
}
