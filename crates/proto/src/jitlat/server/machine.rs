//! [`ServerMachine`]: one control connection, from its first byte to its last.

use super::results::Delivery;
use super::{ServerConfig, ServerEvent, ServerInput};
use crate::jitlat::auth::{NONCE_LEN, Side, derive, derive_u64};
use crate::jitlat::codec::Codec;
use crate::jitlat::dialect::{Dialect, sniff};
use crate::jitlat::flow::{Command, FlowId, Meeting, Opening, Report, Role};
use crate::jitlat::ledger::{Claim, FlowOutcome, FlowResults, Lookup, SessionId, SessionResults};
use crate::jitlat::limits::{Limits, Refusal};
use crate::jitlat::message::{
    Accept, DecodeError, Fetch, FlowAccept, Hello, Message, Nak, NakCode, Probe, Request, VERSION, Welcome,
};
use crate::jitlat::recording::Recording;
use crate::jitlat::stream::{Patience, sentinel_interval};
use crate::{Machine, Tick};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::session::HostFacts;
use jitlat_core::{Direction, Nanos, Source, Span, TestSpec, Transport};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long the flow engine may take for a command that needs no peer.
const ENGINE_PATIENCE: Span = Span::seconds(10);
/// For stragglers, once the sender has said that it has ended.
const LINGER: Span = Span::seconds(2);
/// How long a refused client is given to read why.
const PARTING: Span = Span::seconds(5);
/// Messages that may wait to be sent: a client that talks and never reads is refused.
const MAX_WAITING: usize = 128;
/// Bytes that may wait to be decoded while an answer is due.
const MAX_HELD: usize = 2 * crate::jitlat::v3::MAX_FRAME as usize;

/// The server's side of one control connection.
#[derive(Debug)]
pub struct ServerMachine {
    config: ServerConfig,
    peer: IpAddr,
    /// `None` until the first bytes have told the dialect; they wait in `early`.
    codec: Option<Codec>,
    early: Vec<u8>,
    outgoing: VecDeque<Message>,
    events: VecDeque<ServerEvent>,
    stage: Stage,
    /// When the present stage has lasted too long.
    deadline: Nanos,
    /// Nothing more is decoded until what is to be sent has been: proofs cover the conversation in order.
    hold: bool,
    held: usize,
    session: SessionId,
    flows: Vec<Flow>,
    start_wanted: bool,
    results: Option<Arc<SessionResults>>,
    delivery: Option<Delivery>,
    fetch_later: Option<Fetch>,
    probes: u32,
    host: HostFacts,
    connected: bool,
    /// The client has everything.
    collected: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Awaiting HELLO.
    Greeting,
    /// Awaiting the client's PROOF.
    Proving,
    /// Awaiting PROBE, REQUEST or FETCH.
    Idle,
    /// Asked the ledger for room.
    Admitting,
    /// Asked the ledger for kept results, for this fetch.
    Finding(Fetch),
    /// Opening flows.
    Opening,
    /// Accepted; awaiting greetings and START.
    Accepted,
    /// Streams run.
    Running,
    /// Results are there to be fetched.
    Settled,
    /// Over; what is still to be sent may be.
    Over,
}

#[derive(Debug)]
struct Flow {
    spec: TestSpec,
    stamps: Source,
    role: Role,
    token: Option<u64>,
    port: Option<u16>,
    dialled: bool,
    ready: bool,
    /// Running: by when the next thing must have happened.
    deadline: Nanos,
    /// Sender: when and after how many packets the stream ended.
    ended: Option<u32>,
    /// Sender: END has been said.
    end_said: bool,
    /// STOP has been commanded.
    stopped: bool,
    outcome: Option<FlowOutcome>,
}

impl ServerMachine {
    /// A server's side of a connection accepted at `now`.
    pub fn new(config: ServerConfig, now: Tick) -> ServerMachine {
        let host = config.host.clone();
        ServerMachine {
            peer: config.peer.ip().to_canonical(),
            codec: None,
            early: Vec::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            stage: Stage::Greeting,
            deadline: now.steady + config.limits.idle,
            hold: false,
            held: 0,
            session: SessionId(derive_u64(&config.entropy, "session")),
            flows: Vec::new(),
            start_wanted: false,
            results: None,
            delivery: None,
            fetch_later: None,
            probes: 0,
            host,
            connected: true,
            collected: false,
            config,
        }
    }

    /// The name of the session, should this connection start one.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whether the conversation is over.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn limits(&self) -> &Limits {
        &self.config.limits
    }

    fn is_classic(&self) -> bool {
        self.codec.as_ref().is_some_and(|c| c.dialect() == Dialect::Classic)
    }

    fn enter(&mut self, stage: Stage, until: Nanos) {
        self.stage = stage;
        self.deadline = until;
    }

    fn idle_from(&mut self, now: Tick) {
        self.deadline = now.steady + self.config.limits.idle;
    }

    fn flow_command(&mut self, command: Command) {
        self.events.push_back(ServerEvent::Flow(command));
    }

    /// Ends the conversation: flows closed, the client told why, the ledger told what remains.
    fn finish(&mut self, nak: Option<Nak>, why: Option<String>) {
        if self.is_over() {
            return;
        }
        for i in 0..self.flows.len() {
            self.flow_command(Command::Close(FlowId(i as u8)));
        }
        if let Some(nak) = nak.filter(|_| self.connected && self.codec.is_some()) {
            self.outgoing.retain(|m| matches!(m, Message::Welcome(_) | Message::Proof(_)));
            self.outgoing.push_back(Message::Nak(nak));
        }
        // Results that a version-3 client may still fetch stay in the ledger; everything else goes.
        let claimed = !self.flows.is_empty();
        let keepable = self.results.is_some() && !self.is_classic();
        if self.collected || (claimed && !keepable) {
            self.events.push_back(ServerEvent::Forget(self.session));
        }
        self.delivery = None;
        self.hold = false;
        self.stage = Stage::Over;
        self.events.push_back(ServerEvent::Done(why));
    }

    fn refuse(&mut self, code: NakCode, text: impl Into<String>) {
        let text = text.into();
        self.finish(Some(Nak::new(code, text.clone())), Some(format!("refused: {text}")));
    }

    fn bad_bytes(&mut self, error: &DecodeError) {
        self.finish(Some(error.to_nak()), Some(format!("from {}: {error}", self.config.peer)));
    }

    // ---- bytes in -------------------------------------------------------------------------------

    fn received(&mut self, now: Tick, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        if let Some(codec) = &mut self.codec {
            codec.feed(bytes);
            if self.hold {
                self.held += bytes.len();
                if self.held > MAX_HELD {
                    self.refuse(NakCode::Malformed, "too much said before the answer was awaited");
                }
                return;
            }
        } else {
            self.early.extend_from_slice(bytes);
            match sniff(&self.early) {
                Ok(None) => return,
                Ok(Some(dialect)) => self.speak(dialect),
                Err(error) => return self.bad_bytes(&error),
            }
        }
        self.pump(now);
    }

    fn speak(&mut self, dialect: Dialect) {
        let mut codec = Codec::new(dialect, Side::Server, self.config.local, self.config.peer);
        codec.feed(&self.early);
        self.early = Vec::new();
        self.codec = Some(codec);
    }

    /// Decodes and obeys everything that has come.
    fn pump(&mut self, now: Tick) {
        while !self.is_over() && !self.hold {
            match self.codec.as_mut().map(Codec::decode) {
                Some(Ok(Some(message))) => self.heard(now, message),
                Some(Err(error)) => self.bad_bytes(&error),
                Some(Ok(None)) | None => return,
            }
            if self.outgoing.len() > MAX_WAITING {
                self.refuse(NakCode::Limit, "too many messages sent without reading the answers");
            }
        }
    }

    fn heard(&mut self, now: Tick, message: Message) {
        if self.stage != Stage::Running && message != Message::KeepAlive {
            self.idle_from(now);
        }
        match (message, self.stage.clone()) {
            (Message::KeepAlive, _) => {}
            (Message::Nak(nak), _) => self.peer_gave_up(now, &nak),
            (Message::Hello(hello), Stage::Greeting) => self.hello(&hello),
            (Message::Proof(proof), Stage::Proving) => self.proof(&proof),
            (Message::Probe(probe), Stage::Idle | Stage::Running | Stage::Settled) => self.probe(now, probe),
            (Message::Request(request), Stage::Idle) => self.request(now, request),
            (Message::Start, Stage::Accepted) => {
                self.start_wanted = true;
                self.dial_at_start();
                self.start_when_ready(now);
            }
            (Message::Finished(flow, _), Stage::Running) => self.peer_finished(now, flow),
            (Message::Finished(..), Stage::Settled) => {}
            (Message::End(flow, _), Stage::Running) => self.peer_ended(flow),
            (Message::End(..), Stage::Settled) => {}
            (Message::Stop(flow), Stage::Running) => self.peer_stops(flow),
            (Message::Stop(_), Stage::Settled) => {}
            (Message::Fetch(fetch), Stage::Idle) => match fetch.session {
                Some(id) => {
                    self.enter(Stage::Finding(fetch), now.steady + ENGINE_PATIENCE);
                    self.events.push_back(ServerEvent::Find(id));
                }
                None => self.refuse(NakCode::NotFound, "no test has been run on this connection"),
            },
            (Message::Fetch(fetch), Stage::Settled) => self.fetch(fetch),
            // Asked a moment before the last flow has come to rest.
            (Message::Fetch(fetch), Stage::Running) => self.fetch_later = Some(fetch),
            (Message::Bye, Stage::Settled) => {
                self.collected = true;
                self.finish(None, None);
            }
            (Message::Bye, Stage::Running) if self.is_classic() => {}
            (Message::Bye, _) => self.finish(None, None),
            (Message::Request(_) | Message::Fetch(_) | Message::Probe(_), Stage::Proving) => {
                self.refuse(NakCode::Authentication, "this server requires a key");
            }
            (message, _) => self.refuse(NakCode::Malformed, format!("{} out of turn", message.name())),
        }
    }

    fn peer_gave_up(&mut self, now: Tick, nak: &Nak) {
        let why = if nak.text.is_empty() { "refused by the client".into() } else { nak.text.clone() };
        if self.stage == Stage::Running && !self.is_classic() {
            // The client may come back for what there is.
            self.connected = false;
            return self.lost(now);
        }
        self.finish(None, Some(format!("client: {why}")));
    }

    // ---- who is there ---------------------------------------------------------------------------

    fn hello(&mut self, hello: &Hello) {
        let classic = self.is_classic();
        if classic && self.config.key.is_some() {
            return self.refuse(
                NakCode::Authentication,
                "classic peers cannot prove the key that this server requires",
            );
        }
        if classic && !self.limits().classic {
            return self.refuse(NakCode::Version, "this server does not speak the classic protocol");
        }
        if !classic && !(hello.min_version..=hello.max_version).contains(&VERSION) {
            let (min, max) = (hello.min_version, hello.max_version);
            let text = format!("this server speaks version {VERSION}, the client {min} to {max}");
            return self.refuse(NakCode::Version, text);
        }
        let authenticate = self.config.key.is_some();
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&derive(&self.config.entropy, "server nonce")[..NONCE_LEN]);
        self.outgoing.push_back(Message::Welcome(Welcome {
            version: VERSION,
            capabilities: 0,
            nonce,
            authenticate,
            software: Some(self.config.software.clone()),
        }));
        if authenticate {
            self.stage = Stage::Proving;
            self.hold = true;
            return;
        }
        if let Some(codec) = &mut self.codec {
            codec.settle();
        }
        self.stage = Stage::Idle;
    }

    fn proof(&mut self, proof: &[u8]) {
        let (Some(key), Some(codec)) = (&self.config.key, &self.codec) else { return };
        if !codec.verify(key, proof) {
            return self.refuse(NakCode::Authentication, "the client's key is not this server's");
        }
        // Our own proof is computed when it is sent: it covers everything before it.
        self.outgoing.push_back(Message::Proof([0; 32]));
        self.hold = true;
        self.stage = Stage::Idle;
    }

    fn probe(&mut self, now: Tick, probe: Probe) {
        self.probes = self.probes.saturating_add(1);
        if self.probes > self.limits().probes {
            let refusal = Refusal::new("max-probes", self.limits().probes, "one more");
            return self.refuse(NakCode::Limit, refusal.to_string());
        }
        self.outgoing.push_back(Message::Probe(Probe { arrived: Some(now.wall), answered: None, ..probe }));
    }

    // ---- what is wanted -------------------------------------------------------------------------

    fn request(&mut self, now: Tick, request: Request) {
        if let Err(refusal) = self.grant(&request) {
            return self.refuse(NakCode::Limit, refusal.to_string());
        }
        let classic = self.is_classic();
        let token = |i: usize| (!classic).then(|| derive_u64(&self.config.entropy, &format!("token {i}")));
        self.flows = (0..).zip(request.flows).map(|(i, f)| Flow::new(f.spec, f.stamps, token(i))).collect();
        let memory = self.flows.iter().map(Flow::memory).sum();
        self.events.push_back(ServerEvent::Admit(Claim { id: self.session, client: self.peer, memory }));
        self.enter(Stage::Admitting, now.steady + ENGINE_PATIENCE);
    }

    fn grant(&self, request: &Request) -> Result<(), Refusal> {
        let limits = self.limits();
        if request.flows.len() > limits.flows {
            return Err(Refusal::new("max-flows", limits.flows, request.flows.len()));
        }
        request.flows.iter().try_for_each(|flow| limits.check(&flow.spec))
    }

    fn admitted(&mut self, now: Tick, verdict: Result<(), Refusal>) {
        if self.stage != Stage::Admitting {
            return;
        }
        if let Err(refusal) = verdict {
            self.flows.clear();
            return self.refuse(NakCode::Busy, refusal.to_string());
        }
        let classic = self.is_classic();
        for i in 0..self.flows.len() {
            let opening = self.flows[i].opening(FlowId(i as u8), self.peer, classic, self.config.test_port);
            self.flow_command(Command::Open(Box::new(opening)));
        }
        self.enter(Stage::Opening, now.steady + ENGINE_PATIENCE);
    }

    fn opened(&mut self, now: Tick, id: FlowId, port: u16) {
        let (classic, peer) = (self.is_classic(), self.peer);
        let Some(flow) = self.flow(id) else { return };
        flow.port = Some(port);
        if classic && flow.spec.transport() == Transport::Udp {
            let far = flow.far_port();
            flow.dialled = true;
            self.flow_command(Command::Connect {
                flow: id,
                peer: SocketAddr::new(peer, far),
                greeting: None,
            });
        } else if classic {
            // Listening, or dialled when the client says go: either way ready to be accepted.
            flow.ready = flow.role == Role::Receive;
        }
        self.accept_when_open(now);
    }

    fn accept_when_open(&mut self, now: Tick) {
        let classic_udp = |f: &Flow| self.is_classic() && f.spec.transport() == Transport::Udp;
        let open = |f: &Flow| f.port.is_some() && (f.ready || !classic_udp(f));
        if self.stage != Stage::Opening || !self.flows.iter().all(open) {
            return;
        }
        let flows = self.flows.iter().map(|f| FlowAccept { port: f.port.unwrap_or(0), token: f.token });
        self.outgoing.push_back(Message::Accept(Accept {
            session: Some(self.session),
            flows: flows.collect(),
            host: self.host.clone(),
        }));
        let specs = self.flows.iter().map(|f| f.spec.clone()).collect();
        self.events.push_back(ServerEvent::Agreed(self.session, specs));
        self.stage = Stage::Accepted;
        self.idle_from(now);
    }

    fn greeted(&mut self, id: FlowId, from: SocketAddr) {
        let expected = self.peer;
        if !matches!(self.stage, Stage::Accepted) {
            return;
        }
        let Some(flow) = self.flow(id) else { return };
        if flow.dialled {
            return;
        }
        if from.ip().to_canonical() != expected {
            let text = format!(
                "the test path comes from {}, the control connection from {expected}: streams are exchanged only with the latter",
                from.ip()
            );
            return self.refuse(NakCode::Failed, text);
        }
        flow.dialled = true;
        self.flow_command(Command::Connect { flow: id, peer: from, greeting: None });
    }

    /// Classic TCP towards the client: its port is listening, and it has said go.
    fn dial_at_start(&mut self) {
        let peer = self.peer;
        for i in 0..self.flows.len() {
            let flow = &mut self.flows[i];
            if flow.token.is_none() && !flow.ready && !flow.dialled {
                flow.dialled = true;
                let far = SocketAddr::new(peer, flow.far_port());
                self.flow_command(Command::Connect { flow: FlowId(i as u8), peer: far, greeting: None });
            }
        }
    }

    fn start_when_ready(&mut self, now: Tick) {
        if self.stage != Stage::Accepted || !self.start_wanted || !self.flows.iter().all(|f| f.ready) {
            return;
        }
        for i in 0..self.flows.len() {
            self.flows[i].deadline = now.steady + longest(&self.flows[i].spec);
            self.flow_command(Command::Start(FlowId(i as u8)));
        }
        self.outgoing.push_back(Message::Started);
        self.stage = Stage::Running;
    }

    // ---- the streams ----------------------------------------------------------------------------

    fn flow(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(usize::from(id.0))
    }

    fn report(&mut self, now: Tick, report: Report) {
        match report {
            Report::Opened(id, port) if self.stage == Stage::Opening => self.opened(now, id, port),
            Report::Greeted(id, from) => self.greeted(id, from),
            Report::Ready(id) => {
                if let Some(flow) = self.flow(id) {
                    flow.ready = true;
                }
                self.accept_when_open(now);
                self.start_when_ready(now);
            }
            Report::Ended(id, sent) if self.stage == Stage::Running => self.stream_ended(now, id, sent),
            Report::Sent(id, report) => self.settle_flow(now, id, FlowOutcome::Sent(report)),
            Report::Received(id, report) => self.settle_flow(now, id, FlowOutcome::Received(report)),
            Report::Failed(id, why) if self.stage == Stage::Running => {
                self.settle_flow(now, id, FlowOutcome::Failed(why));
            }
            Report::Failed(_, why) if !matches!(self.stage, Stage::Settled | Stage::Over) => {
                self.refuse(NakCode::Failed, why);
            }
            _ => {}
        }
    }

    fn stream_ended(&mut self, now: Tick, id: FlowId, sent: u32) {
        let Some(flow) = self.flow(id) else { return };
        if flow.ended.is_none() {
            flow.ended = Some(sent);
            flow.deadline = now.steady + answer_patience(&flow.spec);
        }
        if flow.end_said {
            self.outgoing.push_back(Message::End(id, sent));
        }
    }

    fn peer_finished(&mut self, now: Tick, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == Role::Send) else {
            return self.refuse(NakCode::Malformed, "FINISHED for a flow that is not received there");
        };
        if flow.outcome.is_none() && !flow.stopped {
            flow.stopped = true;
            flow.deadline = now.steady + ENGINE_PATIENCE;
            self.flow_command(Command::Stop(id));
        }
    }

    fn peer_ended(&mut self, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == Role::Receive) else {
            return self.refuse(NakCode::Malformed, "END of a flow that is not sent there");
        };
        if flow.outcome.is_none() {
            self.flow_command(Command::Cut(id, LINGER));
        }
    }

    fn peer_stops(&mut self, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == Role::Send) else {
            return self.refuse(NakCode::Malformed, "STOP of a flow that is not sent here");
        };
        if flow.outcome.is_some() || flow.end_said {
            return;
        }
        flow.end_said = true;
        match flow.ended {
            Some(sent) => self.outgoing.push_back(Message::End(id, sent)),
            None => self.flow_command(Command::Cut(id, Span::ZERO)),
        }
    }

    fn settle_flow(&mut self, now: Tick, id: FlowId, outcome: FlowOutcome) {
        if self.stage != Stage::Running {
            return;
        }
        let Some(flow) = self.flow(id).filter(|f| f.outcome.is_none()) else { return };
        let news = match (flow.role, &outcome) {
            (Role::Receive, FlowOutcome::Received(r)) => {
                Some(Message::Finished(id, r.recording.len() as u64))
            }
            (Role::Receive, _) => Some(Message::Finished(id, 0)),
            // The client has not answered yet: it must learn that no more will come.
            (Role::Send, FlowOutcome::Sent(s)) if !flow.stopped && !flow.end_said => {
                Some(Message::End(id, s.sent))
            }
            (Role::Send, FlowOutcome::Failed(_)) if !flow.end_said => Some(Message::End(id, 0)),
            (Role::Send, _) => None,
        };
        flow.outcome = Some(outcome);
        self.outgoing.extend(news.filter(|_| self.connected));
        if self.flows.iter().all(|f| f.outcome.is_some()) {
            self.all_settled(now);
        }
    }

    fn all_settled(&mut self, now: Tick) {
        let flows = self.flows.iter_mut().map(|f| FlowResults {
            spec: f.spec.clone(),
            outcome: f.outcome.take().unwrap_or(FlowOutcome::Failed("never run".into())),
        });
        let results = Arc::new(SessionResults { flows: flows.collect(), host: self.host.clone() });
        self.results = Some(Arc::clone(&results));
        self.stage = Stage::Settled;
        self.idle_from(now);
        if !self.is_classic() {
            self.events.push_back(ServerEvent::Keep(self.session, results));
        }
        if !self.connected {
            let why = format!("the control connection was lost; results are kept as {}", self.session);
            return self.finish(None, Some(why));
        }
        if self.is_classic() && self.flows.iter().all(|f| f.role == Role::Send) {
            // A classic client collects nothing of a stream that was sent to it.
            return self.finish(None, None);
        }
        if let Some(fetch) = self.fetch_later.take() {
            self.fetch(fetch);
        }
    }

    /// The control connection is gone.
    fn lost(&mut self, now: Tick) {
        self.connected = false;
        match self.stage {
            Stage::Running if !self.is_classic() => {
                // What is being received is received to its end, for a client that comes back; but nothing
                // is sent to a host that nobody there answers for.
                for i in 0..self.flows.len() {
                    let flow = &mut self.flows[i];
                    if flow.role == Role::Send && flow.outcome.is_none() && !flow.stopped {
                        flow.stopped = true;
                        flow.deadline = now.steady + ENGINE_PATIENCE;
                        self.flow_command(Command::Stop(FlowId(i as u8)));
                    }
                }
            }
            Stage::Settled if self.is_classic() && self.delivery.is_none() => self.finish(None, None),
            Stage::Greeting | Stage::Idle if self.flows.is_empty() => self.finish(None, None),
            _ => self.finish(None, Some("the client closed the control connection".into())),
        }
    }

    // ---- the results ----------------------------------------------------------------------------

    fn found(&mut self, now: Tick, lookup: Lookup) {
        let Stage::Finding(fetch) = self.stage.clone() else { return };
        match lookup {
            Lookup::Kept(results) => {
                self.session = fetch.session.unwrap_or(self.session);
                self.results = Some(results);
                self.stage = Stage::Settled;
                self.idle_from(now);
                self.fetch(fetch);
            }
            Lookup::Running => self.refuse(NakCode::Busy, "that test is not over yet"),
            Lookup::Unknown => {
                let text = "no results are kept under that name, or no longer";
                self.refuse(NakCode::NotFound, text);
            }
        }
    }

    fn fetch(&mut self, fetch: Fetch) {
        if fetch.session.is_some_and(|id| id != self.session) {
            return self.refuse(NakCode::NotFound, "another session's results: ask on a new connection");
        }
        let Some(results) = self.results.clone() else { return };
        self.delivery = Delivery::new(results, fetch.flow, fetch.chunk);
        if self.delivery.is_none() {
            self.refuse(NakCode::NotFound, format!("the session has no {}", fetch.flow));
        }
    }
}

impl Machine for ServerMachine {
    type Input<'a> = ServerInput<'a>;
    type Event = ServerEvent;

    fn handle(&mut self, now: Tick, input: ServerInput<'_>) {
        match input {
            ServerInput::Received(bytes) => self.received(now, bytes),
            ServerInput::Closed if self.connected => self.lost(now),
            ServerInput::Closed => {}
            ServerInput::Flow(report) => self.report(now, report),
            ServerInput::Host(host) => self.host = host,
            ServerInput::Admitted(verdict) => self.admitted(now, verdict),
            ServerInput::Found(lookup) => self.found(now, lookup),
            ServerInput::Shutdown => self.refuse(NakCode::Aborted, "the server is shutting down"),
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        match self.stage {
            Stage::Over => {}
            Stage::Running => self.flows_overdue(now),
            _ if now.steady < self.deadline => {}
            Stage::Admitting | Stage::Opening | Stage::Finding(_) => {
                self.refuse(NakCode::Failed, "the server could not prepare the test in time");
            }
            _ => {
                let text = format!("nothing heard for {} s", self.limits().idle.as_seconds());
                self.finish(Some(Nak::new(NakCode::Timeout, text.clone())), Some(text));
            }
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        while out.len() == before {
            if !self.transmit_one(now, out) {
                return false;
            }
            self.pump(now);
        }
        true
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Over => None,
            Stage::Running => self.flows.iter().filter(|f| f.outcome.is_none()).map(|f| f.deadline).min(),
            _ => Some(self.deadline),
        }
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }
}

impl ServerMachine {
    fn transmit_one(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if !self.connected {
            self.outgoing.clear();
            return false;
        }
        let message = match self.outgoing.pop_front() {
            Some(message) => message,
            None => {
                let Some(delivery) = &mut self.delivery else { return false };
                let (message, last) = delivery.next();
                if last {
                    self.delivery = None;
                }
                // The client reads: it is not idle.
                self.idle_from(now);
                message
            }
        };
        let Some(codec) = &mut self.codec else { return false };
        match (message, &self.config.key) {
            (Message::Probe(probe), _) => {
                codec.encode(&Message::Probe(Probe { answered: Some(now.wall), ..probe }), out);
            }
            (Message::Proof(_), Some(key)) => {
                if let Some(proof) = codec.prove(key) {
                    codec.encode(&proof, out);
                }
                codec.seal(key);
            }
            (message, _) => codec.encode(&message, out),
        }
        if self.outgoing.is_empty() {
            self.hold = false;
            self.held = 0;
        }
        true
    }

    /// Something in a running flow did not happen in time.
    fn flows_overdue(&mut self, now: Tick) {
        for i in 0..self.flows.len() {
            let id = FlowId(i as u8);
            let flow = &mut self.flows[i];
            if flow.outcome.is_some() || now.steady < flow.deadline {
                continue;
            }
            if flow.stopped {
                self.settle_flow(now, id, FlowOutcome::Failed("the server's flow did not stop".into()));
                continue;
            }
            if let (Some(sent), false) = (flow.ended, flow.end_said) {
                // Sentinels go unanswered: perhaps none arrives. The control connection may still work.
                flow.end_said = true;
                flow.deadline = now.steady + PARTING + LINGER;
                self.outgoing.push_back(Message::End(id, sent));
                continue;
            }
            flow.stopped = true;
            flow.deadline = now.steady + ENGINE_PATIENCE;
            self.flow_command(Command::Stop(id));
        }
    }
}

impl Flow {
    fn new(spec: TestSpec, stamps: Source, token: Option<u64>) -> Flow {
        let role = match spec.direction() {
            Direction::Up => Role::Receive,
            Direction::Down => Role::Send,
        };
        Flow {
            spec,
            stamps,
            role,
            token,
            port: None,
            dialled: false,
            ready: false,
            deadline: Nanos(i64::MAX),
            ended: None,
            end_said: false,
            stopped: false,
            outcome: None,
        }
    }

    /// Bytes the server may need for it.
    fn memory(&self) -> u64 {
        match self.role {
            Role::Receive => Recording::cost(Limits::record_limit(&self.spec)),
            Role::Send => u64::from(self.spec.packets()) * 8,
        }
    }

    /// The client's port, as it named it.
    fn far_port(&self) -> u16 {
        match self.role {
            Role::Receive => self.spec.src_port,
            Role::Send => self.spec.dst_port,
        }
    }

    fn opening(&self, flow: FlowId, peer: IpAddr, classic: bool, test_port: u16) -> Opening {
        let named = match self.role {
            Role::Receive => self.spec.dst_port,
            Role::Send => self.spec.src_port,
        };
        let meeting = match self.token {
            Some(token) => Meeting::Greeting(token),
            None if self.spec.transport() == Transport::Tcp && self.role == Role::Receive => Meeting::Listen,
            None => Meeting::Dial,
        };
        Opening {
            flow,
            role: self.role,
            spec: self.spec.clone(),
            bind_port: if named == 0 && (!classic || self.role == Role::Receive) { test_port } else { named },
            any_port_will_do: false,
            peer,
            meeting,
            greetings: !classic,
            stamps: self.stamps,
            patience: Patience::of(&self.spec),
            record_limit: Limits::record_limit(&self.spec),
        }
    }
}

/// How long a stream of `spec` may take at most, everything included. Over TCP a slow path stretches it.
pub(in crate::jitlat) fn longest(spec: &TestSpec) -> Span {
    let stretch = match spec.transport() {
        Transport::Udp => 2,
        Transport::Tcp => 10,
    };
    spec.duration().times(stretch) + Patience::of(spec).silence + Span::seconds(300)
}

/// How long a sender's sentinels may go unanswered before it says END.
pub(in crate::jitlat) fn answer_patience(spec: &TestSpec) -> Span {
    Span::seconds(15) + sentinel_interval(spec).times(3)
}
