//! [`ClientMachine`]: one test, from the first byte on the control connection to the last record.

use super::collect::Collection;
use super::probing::Round;
use super::{ClientConfig, ClientEvent, ClientInput, Failure, Progress};
use crate::jitlat::auth::{NONCE_LEN, Side, derive};
use crate::jitlat::codec::Codec;
use crate::jitlat::dialect::Dialect;
use crate::jitlat::flow::{Command, FlowId, Meeting, Opening, Report, Role};
use crate::jitlat::ledger::SessionId;
use crate::jitlat::limits::Limits;
use crate::jitlat::message::{
    Accept, Chunk, DecodeError, Fetch, FlowRequest, Hello, Message, Nak, NakCode, Request, Results, VERSION,
    Welcome,
};
use crate::jitlat::server::{answer_patience, longest};
use crate::jitlat::stream::{Finish, Patience};
use crate::{Machine, Tick};
use core::net::SocketAddr;
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::{ClockProbe, Direction, Nanos, Session, Span, TestSpec, Transport};
use std::collections::VecDeque;

/// How long the flow engine may take for a command that needs no peer.
const ENGINE_PATIENCE: Span = Span::seconds(10);
/// For stragglers, once the sender has said that it has ended.
const LINGER: Span = Span::seconds(2);
/// How long a sender that was told to stop may take to say so.
const STOP_PATIENCE: Span = Span::seconds(8);
/// Between attempts to come back for results.
const RETRY_GAP: Span = Span::seconds(2);
/// How long the client tries to come back for results, per attempt a few seconds.
const MAX_RETRIES: u32 = 5;
/// The server may need this long to notice that the stream has ended: a minute and more of silence.
const MAX_BUSY_RETRIES: u32 = 60;

const NEEDS_KEY: &str = "the server requires a key: give it with --key-file";
const SERVER_WITHOUT_KEY: &str =
    "the server has no key and cannot prove who it is: start it with --key-file, or leave the key out here";
const WRONG_SERVER_KEY: &str = "the server's key is not the one given here";

/// The client's side of one test.
#[derive(Debug)]
pub struct ClientMachine {
    config: ClientConfig,
    codec: Codec,
    outgoing: VecDeque<Message>,
    events: VecDeque<ClientEvent>,
    stage: Stage,
    /// When the present stage has lasted too long.
    deadline: Nanos,
    /// Nothing more is decoded until what is to be sent has been: proofs cover the conversation in order.
    hold: bool,
    connected: bool,
    round: Option<Round>,
    probes: Vec<ClockProbe>,
    next_probe: u32,
    session: Option<SessionId>,
    flows: Vec<Flow>,
    client: HostFacts,
    server: HostFacts,
    interrupted: bool,
    /// Why the test is not complete.
    reason: Option<String>,
    lost: bool,
    retries: u32,
    busy: u32,
    /// Whether the streams have run: from here on whatever there is gets collected and reported.
    streamed: bool,
    /// Whether there is anything to report: a record, or a server's word that there is none.
    measured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Awaiting WELCOME.
    Greeting,
    /// Awaiting the server's PROOF.
    Proving,
    /// Probing before the stream.
    Probing,
    /// Flows are being opened here.
    Opening,
    /// Awaiting ACCEPT.
    Requested,
    /// Test paths are being opened.
    Connecting,
    /// Awaiting STARTED.
    Starting,
    /// Streams run.
    Running,
    /// Probing after the stream.
    ProbingAfter,
    /// Collecting results of this flow.
    Fetching(usize),
    /// The control connection is lost; a new one is wanted at the deadline.
    Waiting,
    /// A new one has been asked for.
    Reconnecting,
    /// Over.
    Over,
}

impl Stage {
    /// What is going on, for error messages: "… while …".
    fn during(self) -> &'static str {
        match self {
            Stage::Greeting => "opening the control connection",
            Stage::Proving => "proving the key",
            Stage::Probing | Stage::ProbingAfter => "probing the clocks",
            Stage::Opening | Stage::Requested => "asking for the test",
            Stage::Connecting => "opening the test path",
            Stage::Starting => "starting the test",
            Stage::Running => "running the test",
            Stage::Fetching(_) => "collecting the results",
            Stage::Waiting | Stage::Reconnecting => "connecting again for the results",
            Stage::Over => "ending",
        }
    }
}

#[derive(Debug)]
struct Flow {
    spec: TestSpec,
    role: Role,
    local_port: u16,
    remote_port: u16,
    ready: bool,
    opened: bool,
    /// Running: by when the next thing must have happened.
    deadline: Nanos,
    ended: bool,
    end_said: bool,
    stopped: bool,
    /// Nothing more happens to it here.
    settled: bool,
    /// Packets the far sender says it sent.
    far_sent: Option<u32>,
    /// The far receiver has finished.
    far_finished: bool,
    failure: Option<String>,
    collection: Collection,
}

impl ClientMachine {
    /// The client's side of a connection made at `now`.
    pub fn new(config: ClientConfig, now: Tick) -> ClientMachine {
        let codec = Codec::new(config.dialect, Side::Client, config.local, config.remote);
        let flows = config.flows.iter().map(|spec| Flow::new(spec.clone())).collect();
        let client = config.host.clone();
        let mut machine = ClientMachine {
            codec,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            stage: Stage::Greeting,
            deadline: now.steady + config.patience,
            hold: false,
            connected: true,
            round: None,
            probes: Vec::new(),
            next_probe: 0,
            session: None,
            flows,
            client,
            server: HostFacts::default(),
            interrupted: false,
            reason: None,
            lost: false,
            retries: 0,
            busy: 0,
            streamed: false,
            measured: false,
            config,
        };
        match machine.unsupported() {
            Some(failure) => machine.fail(failure),
            None => machine.greet(now),
        }
        machine
    }

    /// What cannot be said in the dialect.
    fn unsupported(&self) -> Option<Failure> {
        let unsupported = |text: &str| Some(Failure::Unsupported(text.into()));
        if self.config.flows.is_empty() {
            return unsupported("a test needs at least one stream");
        }
        if self.config.dialect == Dialect::V3 {
            return None;
        }
        if self.config.flows.len() > 1 {
            return unsupported("the classic protocol carries one stream: leave out -b or --classic");
        }
        if self.config.key.is_some() {
            return unsupported("the classic protocol cannot prove a key: leave out --key-file or --classic");
        }
        if !self.config.remote.ip().to_canonical().is_ipv4() {
            return unsupported("the classic protocol is for IPv4 only: use -4 or leave out --classic");
        }
        let periodic = |s: &TestSpec| s.schedule() == jitlat_core::Schedule::Periodic;
        if !self.config.flows.iter().all(periodic) {
            return unsupported("the classic protocol knows only periodic streams");
        }
        None
    }

    /// Everything known of each flow, in the order of the configuration. Complete after
    /// [`ClientEvent::Done`]; `created`, `name` and `tags` are the caller's.
    pub fn sessions(&self) -> Vec<Session> {
        self.flows.iter().map(|flow| self.session_of(flow)).collect()
    }

    /// Probes answered so far.
    pub fn probes(&self) -> &[ClockProbe] {
        &self.probes
    }

    /// The session's name at the server, once it has agreed.
    pub fn session_id(&self) -> Option<SessionId> {
        self.session
    }

    fn session_of(&self, flow: &Flow) -> Session {
        let mut spec = flow.spec.clone();
        let (local, remote) = (self.config.local.ip(), self.config.remote.ip());
        let results = flow.collection.results.as_ref();
        let (src, dst, sent, drops);
        match flow.role {
            Role::Send => {
                (spec.src_port, spec.dst_port) = (flow.local_port, flow.remote_port);
                (src, dst) = (local, remote);
                sent = flow.collection.sent.as_ref().map(|s| s.sent);
                drops = results.and_then(|r| r.drops);
            }
            Role::Receive => {
                (spec.src_port, spec.dst_port) = (flow.remote_port, flow.local_port);
                (src, dst) = (remote, local);
                sent = results.and_then(|r| r.sent).or(flow.far_sent);
                drops = flow.collection.received.as_ref().and_then(|r| r.drops);
            }
        }
        let (ending, reason) = self.ending_of(flow);
        Session {
            src: Some(src.to_canonical()),
            dst: Some(dst.to_canonical()),
            sent,
            probes: self.probes.clone(),
            client: self.client.clone(),
            server: self.server.clone(),
            id: self.session.map(|id| id.to_string()),
            ending,
            reason,
            receiver_drops: drops,
            ..Session::new(spec)
        }
    }

    fn ending_of(&self, flow: &Flow) -> (Ending, Option<String>) {
        let results = flow.collection.results.as_ref();
        let failure = flow.failure.clone().or_else(|| results.and_then(|r| r.failure.clone()));
        let finish = match flow.role {
            Role::Send => results.and_then(|r| r.finish),
            Role::Receive => flow.collection.received.as_ref().map(|r| r.finish),
        };
        if self.interrupted {
            return (Ending::Interrupted, Some("interrupted by the user".into()));
        }
        if self.lost {
            return (Ending::PeerLost, self.reason.clone());
        }
        if failure.is_some() {
            return (Ending::PeerLost, failure);
        }
        match finish {
            Some(Finish::Silent) => (Ending::PeerLost, Some("the stream fell silent before its end".into())),
            Some(Finish::NeverStarted) => (Ending::PeerLost, Some("no test packet ever arrived".into())),
            _ => (Ending::Complete, None),
        }
    }

    // ---- endings --------------------------------------------------------------------------------

    fn fail(&mut self, failure: Failure) {
        if self.stage == Stage::Over {
            return;
        }
        self.close_flows();
        self.stage = Stage::Over;
        self.events.push_back(ClientEvent::Failed(failure));
    }

    /// Tells the server why, then fails.
    fn abort(&mut self, nak: Nak, failure: Failure) {
        if self.connected {
            self.outgoing.push_back(Message::Nak(nak));
        }
        self.fail(failure);
    }

    fn close_flows(&mut self) {
        for (i, flow) in (0..).zip(&self.flows) {
            if flow.opened {
                self.events.push_back(ClientEvent::Flow(Command::Close(FlowId(i))));
            }
        }
    }

    /// Hands out whatever is there and ends.
    fn conclude(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        for i in 0..self.flows.len() {
            self.hand_out(i);
        }
        if self.lost && !self.measured {
            let detail = self.reason.take();
            return self.fail(Failure::Closed { during: self.stage.during(), detail });
        }
        if self.connected {
            self.outgoing.push_back(Message::Bye);
        }
        self.close_flows();
        self.stage = Stage::Over;
        let (ending, reason) =
            match self.flows.iter().map(|f| self.ending_of(f)).find(|e| e.0 != Ending::Complete) {
                Some(incomplete) => incomplete,
                None => (Ending::Complete, None),
            };
        self.events.push_back(ClientEvent::Done { ending, reason });
    }

    /// Emits the records of a flow received here.
    fn hand_out(&mut self, i: usize) {
        self.measured |= self.flows[i].collection.received.is_some();
        while let Some(block) = self.flows[i].collection.take_block() {
            self.events.push_back(ClientEvent::Records(FlowId(i as u8), block));
        }
        self.flows[i].collection.release();
    }

    /// Something is wrong on the control connection: `why`.
    fn disconnected(&mut self, now: Tick, why: String) {
        self.connected = false;
        self.outgoing.clear();
        self.reason.get_or_insert(why);
        match self.stage {
            Stage::Running => {
                // The streams end early and what was received is collected, if the server still lives.
                self.lost = true;
                self.cut_all(now);
            }
            Stage::ProbingAfter | Stage::Fetching(_) | Stage::Reconnecting => self.retry(now),
            Stage::Greeting | Stage::Proving if self.streamed => self.retry(now),
            _ => {}
        }
    }

    /// Whether a new connection could bring anything.
    fn worth_coming_back(&self) -> bool {
        self.config.dialect == Dialect::V3
            && self.session.is_some()
            && self.flows.iter().any(|f| !f.collection.is_complete())
    }

    fn retry(&mut self, now: Tick) {
        self.round = None;
        if !self.worth_coming_back() || self.retries >= MAX_RETRIES || self.interrupted_twice() {
            self.lost = true;
            return self.conclude();
        }
        let pause = if self.retries == 0 { Span::ZERO } else { RETRY_GAP };
        self.retries += 1;
        self.wait_until(now, now.steady + pause);
    }

    fn wait_until(&mut self, now: Tick, at: Nanos) {
        self.stage = Stage::Waiting;
        self.deadline = at;
        self.reconnect_if_due(now);
    }

    fn reconnect_if_due(&mut self, now: Tick) {
        if self.stage == Stage::Waiting && now.steady >= self.deadline {
            self.stage = Stage::Reconnecting;
            self.deadline = now.steady + self.config.patience.times(2);
            self.events.push_back(ClientEvent::Reconnect);
        }
    }

    fn interrupted_twice(&self) -> bool {
        self.interrupted && self.retries > 1
    }

    // ---- bytes in -------------------------------------------------------------------------------

    fn received(&mut self, now: Tick, bytes: &[u8]) {
        if self.stage == Stage::Over || !self.connected {
            return;
        }
        self.codec.feed(bytes);
        self.pump(now);
    }

    fn pump(&mut self, now: Tick) {
        while self.stage != Stage::Over && self.connected && !self.hold {
            match self.codec.decode() {
                Ok(Some(message)) => self.heard(now, message),
                Ok(None) => return,
                Err(error) => self.bad_bytes(now, &error),
            }
        }
    }

    fn bad_bytes(&mut self, now: Tick, error: &DecodeError) {
        if self.streamed || self.stage == Stage::Running {
            self.outgoing.clear();
            return self.disconnected(now, format!("what the server sent makes no sense: {error}"));
        }
        let failure = match error {
            DecodeError::ClassicPeer => {
                Failure::Unsupported("the server speaks only the classic protocol: try --classic".into())
            }
            DecodeError::Seal => Failure::Authentication(WRONG_SERVER_KEY),
            _ => Failure::Malformed { during: self.stage.during(), detail: error.to_string() },
        };
        self.abort(error.to_nak(), failure);
    }

    fn heard(&mut self, now: Tick, message: Message) {
        match (message, self.stage) {
            (Message::KeepAlive, _) => {}
            (Message::Nak(nak), _) => self.refused(now, &nak),
            (Message::Welcome(welcome), Stage::Greeting) => self.welcome(now, &welcome),
            (Message::Proof(proof), Stage::Proving) => self.proof(now, &proof),
            (Message::Probe(probe), _) => self.probe_answer(now, &probe),
            (Message::Accept(accept), Stage::Requested) => self.accepted(now, accept),
            (Message::Started, Stage::Starting) => self.started(now),
            (Message::Finished(flow, _), Stage::Running) => self.peer_finished(now, flow),
            (Message::Finished(..), _) => {}
            (Message::End(flow, sent), Stage::Running) => self.peer_ended(flow, sent),
            (Message::End(flow, sent), _) => {
                if let Some(flow) = self.flow(flow) {
                    flow.far_sent.get_or_insert(sent);
                }
            }
            (Message::Chunk(chunk), Stage::Fetching(i)) => self.chunk(now, i, chunk),
            (Message::Results(results), Stage::Fetching(i)) => self.results(now, i, results),
            (message, stage) => {
                let detail = format!("{} came out of turn", message.name());
                if self.streamed || stage == Stage::Running {
                    return self.disconnected(now, detail);
                }
                let nak = Nak::new(NakCode::Malformed, detail.clone());
                self.abort(nak, Failure::Malformed { during: stage.during(), detail });
            }
        }
    }

    fn refused(&mut self, now: Tick, nak: &Nak) {
        let text = match (nak.text.is_empty(), self.stage) {
            (false, _) => nak.text.clone(),
            (true, Stage::Requested) => {
                "no reason given (it may be busy, or a limit of its forbids this test)".to_owned()
            }
            (true, _) => "no reason given".to_owned(),
        };
        if !self.streamed && self.stage != Stage::Running {
            return self.fail(Failure::Refused(text));
        }
        self.connected = false;
        self.outgoing.clear();
        if nak.code == NakCode::Busy && self.stage != Stage::Running && self.busy < MAX_BUSY_RETRIES {
            // Come back for results: the server has not noticed yet that the stream is over.
            self.busy += 1;
            return self.wait_until(now, now.steady + RETRY_GAP);
        }
        self.reason = Some(format!("the server gave up: {text}"));
        self.lost = true;
        match self.stage {
            Stage::Running => self.cut_all(now),
            _ => self.conclude(),
        }
    }

    // ---- who is there ---------------------------------------------------------------------------

    fn greet(&mut self, now: Tick) {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&derive(&self.config.entropy, "client nonce")[..NONCE_LEN]);
        self.outgoing.push_back(Message::Hello(Hello {
            min_version: VERSION,
            max_version: VERSION,
            capabilities: 0,
            nonce,
            authenticate: self.config.key.is_some(),
            software: Some(self.config.software.clone()),
        }));
        self.hold = true;
        self.stage = Stage::Greeting;
        self.deadline = now.steady + self.config.patience;
    }

    fn welcome(&mut self, now: Tick, welcome: &Welcome) {
        if self.config.dialect == Dialect::V3 && welcome.version != VERSION {
            let text = format!("the server chose version {}, this program speaks {VERSION}", welcome.version);
            return self.fail(Failure::Unsupported(text));
        }
        if !self.streamed {
            self.events.push_back(ClientEvent::Progress(Progress::Connected(welcome.software.clone())));
        }
        match (welcome.authenticate, self.config.key.is_some()) {
            (true, false) => self.fail(Failure::Authentication(NEEDS_KEY)),
            (false, true) => self.fail(Failure::Authentication(SERVER_WITHOUT_KEY)),
            (true, true) => {
                // The proof itself is computed when it is sent: it covers everything before it.
                self.outgoing.push_back(Message::Proof([0; 32]));
                self.hold = true;
                self.stage = Stage::Proving;
                self.deadline = now.steady + self.config.patience;
            }
            (false, false) => {
                self.codec.settle();
                self.known(now);
            }
        }
    }

    fn proof(&mut self, now: Tick, proof: &[u8]) {
        let Some(key) = &self.config.key else { return };
        if !self.codec.verify(key, proof) {
            let nak = Nak::new(NakCode::Authentication, WRONG_SERVER_KEY);
            return self.abort(nak, Failure::Authentication(WRONG_SERVER_KEY));
        }
        self.codec.seal(key);
        self.known(now);
    }

    /// Both sides know each other.
    fn known(&mut self, now: Tick) {
        if self.streamed {
            return self.fetch_next(now);
        }
        self.begin_round(now);
        self.stage = Stage::Probing;
        self.round_over(now);
    }

    fn begin_round(&mut self, now: Tick) {
        let varied = (self.config.dialect == Dialect::V3).then_some(self.config.entropy);
        let (wanted, interval) = (self.config.probes, self.config.probe_interval);
        let patience = self.config.patience;
        self.round = Some(Round::new(now.steady, wanted, self.next_probe, interval, patience, varied));
    }

    fn probe_answer(&mut self, now: Tick, probe: &crate::jitlat::message::Probe) {
        let Some(round) = &mut self.round else { return };
        if let Some(probe) = round.answer(now, probe) {
            self.probes.push(probe);
            let (answered, wanted) = round.progress();
            if self.stage == Stage::Probing {
                self.events.push_back(ClientEvent::Progress(Progress::Probing(answered, wanted)));
            }
        }
        self.round_over(now);
    }

    /// On to what follows the probes, if they are through.
    fn round_over(&mut self, now: Tick) {
        let Some(round) = &self.round else { return };
        if !round.is_over(now.steady) {
            return;
        }
        let (answered, wanted) = round.progress();
        self.next_probe = round.next_id();
        self.round = None;
        match self.stage {
            Stage::Probing if answered == 0 && wanted > 0 => self.timed_out(now),
            Stage::Probing => self.open_flows(now),
            Stage::ProbingAfter => self.fetch_next(now),
            _ => {}
        }
    }

    // ---- what is wanted -------------------------------------------------------------------------

    fn open_flows(&mut self, now: Tick) {
        self.stage = Stage::Opening;
        self.deadline = now.steady + ENGINE_PATIENCE;
        for i in 0..self.flows.len() {
            let opening = self.flows[i].opening(FlowId(i as u8), &self.config);
            self.flows[i].opened = true;
            self.events.push_back(ClientEvent::Flow(Command::Open(Box::new(opening))));
        }
    }

    fn flow(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(usize::from(id.0))
    }

    fn request(&mut self, now: Tick) {
        let flows = self.flows.iter().map(|f| FlowRequest { spec: f.asked(), stamps: self.config.stamps });
        let request = Request { flows: flows.collect(), host: self.client.clone() };
        self.outgoing.push_back(Message::Request(request));
        self.stage = Stage::Requested;
        self.deadline = now.steady + self.config.patience;
    }

    fn accepted(&mut self, now: Tick, accept: Accept) {
        if accept.flows.len() != self.flows.len() {
            let detail = format!("{} flows granted of {}", accept.flows.len(), self.flows.len());
            let nak = Nak::new(NakCode::Malformed, detail.clone());
            return self.abort(nak, Failure::Malformed { during: self.stage.during(), detail });
        }
        self.session = accept.session;
        self.server = accept.host;
        self.events.push_back(ClientEvent::Progress(Progress::Accepted(self.session)));
        let patience = self.greeting_patience();
        self.stage = Stage::Connecting;
        self.deadline = now.steady + patience + ENGINE_PATIENCE;
        for (i, granted) in accept.flows.into_iter().enumerate() {
            let flow = &mut self.flows[i];
            flow.remote_port = granted.port;
            if flow.listens(self.config.dialect) {
                flow.ready = true;
                continue;
            }
            let peer = SocketAddr::new(self.config.remote.ip(), granted.port);
            let greeting = granted.token.map(|token| (token, patience));
            let connect = Command::Connect { flow: FlowId(i as u8), peer, greeting };
            self.events.push_back(ClientEvent::Flow(connect));
        }
        self.start_when_ready(now);
    }

    /// Five seconds and three round trips, as the probes saw them.
    fn greeting_patience(&self) -> Span {
        let rtt = self.probes.iter().map(|p| p.rtt().0.max(0)).min().unwrap_or(0);
        Span::seconds(5) + Span(rtt.min(60_000_000_000)).times(3)
    }

    fn start_when_ready(&mut self, now: Tick) {
        if self.stage != Stage::Connecting || !self.flows.iter().all(|f| f.ready) {
            return;
        }
        self.start_role(now, Role::Receive);
        self.outgoing.push_back(Message::Start);
        self.stage = Stage::Starting;
        self.deadline = now.steady + self.config.patience;
    }

    fn start_role(&mut self, now: Tick, role: Role) {
        for (i, flow) in (0..).zip(&mut self.flows).filter(|(_, f)| f.role == role) {
            flow.deadline = now.steady + longest(&flow.spec);
            self.events.push_back(ClientEvent::Flow(Command::Start(FlowId(i))));
        }
    }

    fn started(&mut self, now: Tick) {
        self.start_role(now, Role::Send);
        self.stage = Stage::Running;
        self.events.push_back(ClientEvent::Progress(Progress::Running));
        if self.interrupted {
            self.cut_all(now);
        }
        self.settled(now);
    }

    // ---- the streams ----------------------------------------------------------------------------

    fn report(&mut self, now: Tick, report: Report) {
        match report {
            Report::Opened(id, port) if self.stage == Stage::Opening => {
                let Some(flow) = self.flow(id) else { return };
                flow.local_port = port;
                flow.ready = true;
                if self.flows.iter().all(|f| f.ready) {
                    self.flows.iter_mut().for_each(|f| f.ready = false);
                    self.request(now);
                }
            }
            Report::Ready(id) => {
                if let Some(flow) = self.flow(id) {
                    flow.ready = true;
                }
                self.start_when_ready(now);
            }
            Report::Ended(id, sent) => self.stream_ended(now, id, sent),
            Report::Sent(id, report) => {
                let (connected, patience) = (self.connected, self.config.patience);
                let Some(flow) = self.flow(id).filter(|f| f.role == Role::Send && !f.settled) else { return };
                let sent = report.sent;
                flow.collection.sent = Some(report);
                if flow.far_finished || !connected || flow.failure.is_some() {
                    return self.settle(now, id);
                }
                // It ended by itself: the server must learn that no more will come.
                flow.deadline = now.steady + LINGER + patience;
                if !core::mem::replace(&mut flow.end_said, true) {
                    self.outgoing.push_back(Message::End(id, sent));
                }
            }
            Report::Received(id, report) => {
                let Some(flow) = self.flow(id).filter(|f| f.role == Role::Receive && !f.settled) else {
                    return;
                };
                let count = report.recording.len() as u64;
                flow.collection.received = Some(report);
                if self.connected {
                    self.outgoing.push_back(Message::Finished(id, count));
                }
                self.settle(now, id);
            }
            Report::Failed(id, why) => self.flow_failed(now, id, why),
            Report::Opened(..) | Report::Greeted(..) => {}
        }
    }

    fn flow_failed(&mut self, now: Tick, id: FlowId, why: String) {
        if !matches!(self.stage, Stage::Running | Stage::Starting) {
            if !self.streamed {
                self.abort(Nak::new(NakCode::Failed, why.clone()), Failure::Flow(why));
            }
            return;
        }
        let (connected, patience) = (self.connected, self.config.patience);
        let Some(flow) = self.flow(id).filter(|f| !f.settled) else { return };
        flow.failure = Some(why);
        match flow.role {
            Role::Receive => {
                self.outgoing.extend(connected.then_some(Message::Finished(id, 0)));
                self.settle(now, id);
            }
            Role::Send if !connected || flow.far_finished => self.settle(now, id),
            Role::Send => {
                flow.collection.sent.get_or_insert_default();
                flow.deadline = now.steady + LINGER + patience;
                if !core::mem::replace(&mut flow.end_said, true) {
                    self.outgoing.push_back(Message::End(id, 0));
                }
            }
        }
    }

    fn stream_ended(&mut self, now: Tick, id: FlowId, sent: u32) {
        let (interrupted, connected) = (self.interrupted, self.connected);
        let patience = self.config.patience;
        let Some(flow) = self.flow(id).filter(|f| f.role == Role::Send && !f.ended && !f.settled) else {
            return;
        };
        flow.ended = true;
        flow.deadline = now.steady + answer_patience(&flow.spec);
        flow.far_sent = Some(sent);
        if !connected {
            // Nobody can answer the sentinels: one has gone out, that must do.
            flow.deadline = now.steady + LINGER;
        } else if interrupted {
            flow.end_said = true;
            flow.deadline = now.steady + STOP_PATIENCE + patience;
            self.outgoing.push_back(Message::End(id, sent));
        }
    }

    fn peer_finished(&mut self, now: Tick, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == Role::Send) else { return };
        flow.far_finished = true;
        match flow.collection.sent {
            Some(_) => self.settle(now, id),
            None => self.stop(now, id),
        }
    }

    fn settle(&mut self, now: Tick, id: FlowId) {
        if let Some(flow) = self.flow(id) {
            flow.settled = true;
        }
        self.settled(now);
    }

    fn stop(&mut self, now: Tick, id: FlowId) {
        let Some(flow) = self.flow(id) else { return };
        if flow.stopped || flow.settled {
            return;
        }
        flow.stopped = true;
        flow.deadline = now.steady + ENGINE_PATIENCE;
        self.events.push_back(ClientEvent::Flow(Command::Stop(id)));
    }

    fn peer_ended(&mut self, id: FlowId, sent: u32) {
        let Some(flow) = self.flow(id).filter(|f| f.role == Role::Receive) else { return };
        flow.far_sent = Some(sent);
        if !flow.settled {
            self.events.push_back(ClientEvent::Flow(Command::Cut(id, LINGER)));
        }
    }

    /// Ends every stream early.
    fn cut_all(&mut self, now: Tick) {
        let classic = self.config.dialect == Dialect::Classic;
        for i in 0..self.flows.len() {
            let id = FlowId(i as u8);
            let flow = &mut self.flows[i];
            if flow.settled {
                continue;
            }
            flow.deadline = now.steady + STOP_PATIENCE;
            let command = match (flow.role, self.connected) {
                (Role::Send, true) if flow.ended && !flow.end_said => {
                    flow.end_said = true;
                    flow.deadline = now.steady + STOP_PATIENCE + self.config.patience;
                    let sent = flow.far_sent.unwrap_or(0);
                    self.outgoing.push_back(Message::End(id, sent));
                    continue;
                }
                (Role::Send, _) => Command::Cut(id, Span::ZERO),
                (Role::Receive, true) if !classic => {
                    self.outgoing.push_back(Message::Stop(id));
                    continue;
                }
                (Role::Receive, true) => Command::Cut(id, Span::ZERO),
                (Role::Receive, false) => Command::Cut(id, LINGER),
            };
            self.events.push_back(ClientEvent::Flow(command));
        }
    }

    /// On to the results, if no stream runs any more.
    fn settled(&mut self, now: Tick) {
        if self.stage != Stage::Running || !self.flows.iter().all(|f| f.settled) {
            return;
        }
        self.streamed = true;
        if !self.connected {
            self.stage = Stage::Reconnecting;
            return self.retry(now);
        }
        if self.config.dialect == Dialect::V3 && !self.interrupted {
            self.begin_round(now);
            self.stage = Stage::ProbingAfter;
            return self.round_over(now);
        }
        self.fetch_next(now);
    }

    // ---- the results ----------------------------------------------------------------------------

    fn fetch_next(&mut self, now: Tick) {
        let Some(i) = self.flows.iter().position(|f| !f.collection.is_complete()) else {
            return self.conclude();
        };
        self.stage = Stage::Fetching(i);
        self.deadline = now.steady + self.config.patience;
        let collection = &mut self.flows[i].collection;
        collection.begin();
        let chunk = collection.chunks;
        self.outgoing.push_back(Message::Fetch(Fetch {
            session: self.session,
            flow: FlowId(i as u8),
            chunk,
        }));
    }

    fn chunk(&mut self, now: Tick, i: usize, chunk: Chunk) {
        self.deadline = now.steady + self.config.patience;
        let id = FlowId(i as u8);
        if chunk.flow != id {
            return self.disconnected(now, format!("results of {} instead of {id}", chunk.flow));
        }
        let flow = &mut self.flows[i];
        match flow.collection.chunk(chunk, Limits::record_limit(&flow.spec)) {
            Ok(records) => {
                if !records.is_empty() {
                    self.measured = true;
                    self.events.push_back(ClientEvent::Records(id, records));
                }
                let (id, had, expected) = flow.collection.expected(id, flow.spec.packets());
                self.events.push_back(ClientEvent::Progress(Progress::Collecting(id, had, expected)));
            }
            Err(why) => self.give_up_results(now, i, &why),
        }
    }

    fn results(&mut self, now: Tick, i: usize, results: Results) {
        let merged = merge_facts(&self.server, &results.host);
        let refused = results.refused;
        let v3 = self.config.dialect == Dialect::V3;
        self.server = merged;
        if refused > 0 {
            self.server
                .notes
                .push(format!("{refused} packets came after the recording was full and were not kept"));
        }
        match self.flows[i].collection.close(results, v3) {
            Ok(()) => {
                self.measured = true;
                self.hand_out(i);
                self.fetch_next(now);
            }
            Err(why) => self.give_up_results(now, i, &why),
        }
    }

    /// The results of a flow are beyond hope: what is there has to do.
    fn give_up_results(&mut self, now: Tick, i: usize, why: &str) {
        let flow = &mut self.flows[i];
        flow.failure.get_or_insert(format!("results are incomplete: {why}"));
        flow.collection.results.get_or_insert_with(|| Results::none(FlowId(i as u8)));
        self.hand_out(i);
        // What follows on this connection belongs to the failed fetch: only a new one is clean.
        if self.worth_coming_back() {
            self.connected = false;
            return self.retry(now);
        }
        self.conclude();
    }

    // ---- time -----------------------------------------------------------------------------------

    fn timed_out(&mut self, now: Tick) {
        let during = self.stage.during();
        let after = self.config.patience;
        if self.streamed {
            self.connected = false;
            self.reason.get_or_insert(format!("no answer within {} s while {during}", after.as_seconds()));
            return self.retry(now);
        }
        let hint = match (self.stage, self.config.dialect) {
            (Stage::Greeting, Dialect::V3) => Some("if it is an older server, try --classic"),
            (Stage::Probing, Dialect::Classic) => Some("it may not know RTT_PROBE"),
            _ => None,
        };
        let nak = Nak::new(NakCode::Timeout, format!("no answer while {during}"));
        self.abort(nak, Failure::Timeout { during, after, hint });
    }

    fn flows_overdue(&mut self, now: Tick) {
        for i in 0..self.flows.len() {
            let id = FlowId(i as u8);
            let flow = &mut self.flows[i];
            if flow.settled || now.steady < flow.deadline {
                continue;
            }
            if flow.collection.sent.is_some() {
                self.no_answer();
                self.settle(now, id);
                continue;
            }
            if flow.stopped {
                flow.failure.get_or_insert("the stream here did not stop".into());
                self.settle(now, id);
                continue;
            }
            if flow.ended && !flow.end_said && self.connected {
                // Sentinels go unanswered: perhaps none arrives. The control connection may still work.
                flow.end_said = true;
                flow.deadline = now.steady + LINGER + self.config.patience;
                let sent = flow.far_sent.unwrap_or(0);
                self.outgoing.push_back(Message::End(id, sent));
                continue;
            }
            if flow.role == Role::Send && flow.ended {
                self.no_answer();
            }
            self.stop(now, id);
        }
    }

    /// The server has let the end of a stream go unanswered: it is given up, this connection with it.
    fn no_answer(&mut self) {
        if self.connected {
            self.lost = true;
            self.connected = false;
            self.reason.get_or_insert("the server did not answer the end of the stream".into());
        }
    }

    fn interrupt(&mut self, now: Tick) {
        let again = core::mem::replace(&mut self.interrupted, true);
        match self.stage {
            Stage::Over => {}
            Stage::Running if !again => self.cut_all(now),
            Stage::Running => {
                for i in 0..self.flows.len() {
                    self.stop(now, FlowId(i as u8));
                }
            }
            // A moment before the streams run: they are cut as soon as they do.
            Stage::Starting if !again => {}
            // Collecting what there is takes a moment; a second wish is a command.
            _ if self.streamed && !again => {}
            _ if self.streamed => self.conclude(),
            _ => self.abort(Nak::new(NakCode::Aborted, "interrupted by the user"), Failure::Interrupted),
        }
    }

    fn closed(&mut self, now: Tick, why: Option<&str>) {
        if self.stage == Stage::Over || !(self.connected || self.stage == Stage::Reconnecting) {
            return;
        }
        if self.stage != Stage::Running && !self.streamed {
            let failure = Failure::Closed { during: self.stage.during(), detail: why.map(str::to_owned) };
            return self.fail(failure);
        }
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        self.disconnected(now, format!("the control connection was lost while {}{why}", self.stage.during()));
    }

    fn reconnected(&mut self, now: Tick, entropy: [u8; 32]) {
        if self.stage != Stage::Reconnecting {
            return;
        }
        self.config.entropy = entropy;
        self.codec = Codec::new(Dialect::V3, Side::Client, self.config.local, self.config.remote);
        self.connected = true;
        self.outgoing.clear();
        self.greet(now);
    }
}

impl Machine for ClientMachine {
    type Input<'a> = ClientInput<'a>;
    type Event = ClientEvent;

    fn handle(&mut self, now: Tick, input: ClientInput<'_>) {
        match input {
            ClientInput::Received(bytes) => self.received(now, bytes),
            ClientInput::Closed(why) => self.closed(now, why),
            ClientInput::Flow(report) => self.report(now, report),
            ClientInput::Host(host) => self.client = host,
            ClientInput::Interrupt => self.interrupt(now),
            ClientInput::Reconnected(entropy) => self.reconnected(now, entropy),
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        match self.stage {
            Stage::Over => {}
            Stage::Probing | Stage::ProbingAfter => self.round_over(now),
            Stage::Running => self.flows_overdue(now),
            Stage::Waiting => self.reconnect_if_due(now),
            _ if now.steady < self.deadline => {}
            Stage::Reconnecting => self.retry(now),
            Stage::Opening => self.fail(Failure::Flow("this host could not prepare it in time".into())),
            _ => self.timed_out(now),
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
        match (self.stage, &self.round) {
            (Stage::Over, _) => None,
            (Stage::Probing | Stage::ProbingAfter, Some(round)) => Some(round.deadline()),
            (Stage::Running, _) => self.flows.iter().filter(|f| !f.settled).map(|f| f.deadline).min(),
            _ => Some(self.deadline),
        }
    }

    fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }
}

impl ClientMachine {
    fn transmit_one(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if !self.connected {
            return false;
        }
        if let Some(message) = self.outgoing.pop_front() {
            match (message, &self.config.key) {
                (Message::Proof(_), Some(key)) => {
                    if let Some(proof) = self.codec.prove(key) {
                        self.codec.encode(&proof, out);
                    }
                }
                (message, _) => self.codec.encode(&message, out),
            }
            if self.outgoing.is_empty() {
                self.hold = false;
            }
            return true;
        }
        let Some(probe) = self.round.as_mut().and_then(|round| round.poll_send(now)) else { return false };
        self.codec.encode(&Message::Probe(probe), out);
        true
    }
}

impl Flow {
    fn new(spec: TestSpec) -> Flow {
        let role = match spec.direction() {
            Direction::Up => Role::Send,
            Direction::Down => Role::Receive,
        };
        let (local_port, remote_port) = match role {
            Role::Send => (spec.src_port, spec.dst_port),
            Role::Receive => (spec.dst_port, spec.src_port),
        };
        Flow {
            spec,
            role,
            local_port,
            remote_port,
            ready: false,
            opened: false,
            deadline: Nanos(i64::MAX),
            ended: false,
            end_said: false,
            stopped: false,
            settled: false,
            far_sent: None,
            far_finished: false,
            failure: None,
            collection: Collection::default(),
        }
    }

    /// Classic TCP towards us: the server connects.
    fn listens(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Classic && self.role == Role::Receive && self.spec.transport() == Transport::Tcp
    }

    /// The stream as it is asked for: with the port bound here.
    fn asked(&self) -> TestSpec {
        let mut spec = self.spec.clone();
        match self.role {
            Role::Send => spec.src_port = self.local_port,
            Role::Receive => spec.dst_port = self.local_port,
        }
        spec
    }

    fn opening(&self, flow: FlowId, config: &ClientConfig) -> Opening {
        let v3 = config.dialect == Dialect::V3;
        Opening {
            flow,
            role: self.role,
            spec: self.spec.clone(),
            bind_port: self.local_port,
            // In version 3 the greeting tells the server where to send; classic servers go by the number.
            any_port_will_do: v3 && self.role == Role::Receive,
            peer: config.remote.ip(),
            meeting: if self.listens(config.dialect) { Meeting::Listen } else { Meeting::Dial },
            greetings: v3,
            stamps: config.stamps,
            patience: Patience::of(&self.spec),
            record_limit: Limits::record_limit(&self.spec),
        }
    }
}

/// What is known of a host, the newer account over the older one.
fn merge_facts(before: &HostFacts, after: &HostFacts) -> HostFacts {
    let mut notes = before.notes.clone();
    notes.extend(after.notes.iter().filter(|n| !before.notes.contains(n)).cloned());
    HostFacts {
        name: after.name.clone().or_else(|| before.name.clone()),
        system: after.system.clone().or_else(|| before.system.clone()),
        clock_source: after.clock_source.clone().or_else(|| before.clock_source.clone()),
        sync_before: before.sync_before.or(after.sync_before),
        sync_after: after.sync_after.or(before.sync_after),
        clock_step: after.clock_step.or(before.clock_step),
        notes,
    }
}
