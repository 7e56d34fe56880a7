//! [`ClientMachine`]: state machine of one test, from the first byte on the control connection to the last
//! record. This module contains greeting, authentication and deadlines; its submodules contain streams,
//! results and endings.

mod endings;
mod results;
mod streams;

use super::collect::Collection;
use super::probing::Round;
use super::{ClientConfig, ClientEvent, ClientInput, ConversationFailure, ConversationProgress};
use crate::jitlat::auth::{ConnectionSide, NONCE_LEN, derive};
use crate::jitlat::codec::Codec;
use crate::jitlat::dialect::Dialect;
use crate::jitlat::flow::{FlowId, FlowRole, ReceiveReport};
use crate::jitlat::message::{
    DecodeError, FEEDBACK, Hello, MARKS, Message, Nak, NakCode, Probe, VERSION, Welcome,
};
use crate::jitlat::recording::Recording;
use crate::jitlat::seal::{KeyShare, SharedSecret};
use crate::jitlat::session_table::SessionId;
use crate::jitlat::stream::Finish;
use crate::{Machine, Tick};
use jitlat_core::session::HostFacts;
use jitlat_core::{ClockProbe, Direction, Session, SteadyTime, TestSpec};
use std::collections::VecDeque;

const NO_MARKS: &str =
    "the server is too old to send packets with marks (--ecn): update it, or send to it without -R or -b";
const NEEDS_KEY: &str = "the server requires a key: give it with --key-file";
const SERVER_WITHOUT_KEY: &str =
    "the server has no key and cannot prove its identity: start it with --key-file, or omit the key here";
const WRONG_SERVER_KEY: &str = "the server's key differs from the key given here";

/// Client's state machine of one test.
#[derive(Debug)]
pub struct ClientMachine {
    config: ClientConfig,
    codec: Codec,
    outgoing: VecDeque<Message>,
    events: VecDeque<ClientEvent>,
    stage: ClientStage,
    /// Deadline of the current stage.
    deadline: SteadyTime,
    /// True while decoding waits until all messages have been sent: a proof covers the conversation in order.
    hold: bool,
    connected: bool,
    /// Reason why the connection ended; `None` while it is open. Bytes received before the end are still read.
    closed_behind: Option<String>,
    round: Option<Round>,
    probes: Vec<ClockProbe>,
    next_probe: u32,
    session: Option<SessionId>,
    /// Secret for the encryption of this connection; `None` if the server cannot encrypt.
    shared: Option<SharedSecret>,
    flows: Vec<ClientFlow>,
    client: HostFacts,
    server: HostFacts,
    interrupted: bool,
    /// True if the test was ended because its streams exceeded the time limit.
    expired: bool,
    /// True if the user has interrupted twice: the client no longer waits for the server.
    stop_waiting: bool,
    /// Reason why the test is not complete; `None` if it is.
    reason: Option<String>,
    lost: bool,
    retries: u32,
    busy: u32,
    /// True if the streams have run. From then on, all available results are collected and reported.
    streamed: bool,
    /// True if an earlier run of this program ran the streams, and only their results are requested.
    collecting: bool,
    /// True if there is a result to report: a record, or the server's statement that it has none.
    measured: bool,
    /// True if the server reports received packets while the streams are running.
    has_feedback: bool,
    /// Time of the next keep-alive while slow streams are running.
    alive: SteadyTime,
    /// Start time of the streams.
    running_since: SteadyTime,
    /// Time by which the server must have replied after the end of the streams; `None`: no reply is expected.
    answer_by: Option<SteadyTime>,
    /// True if the control connection did not answer; false again after a reconnection.
    was_unanswered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientStage {
    /// Awaiting WELCOME.
    Greeting,
    /// Awaiting the server's PROOF.
    Proving,
    /// Probing before the stream.
    Probing,
    /// Opening the flows on this host.
    Opening,
    /// Awaiting ACCEPT.
    Requested,
    /// Opening the test paths.
    Connecting,
    /// Awaiting STARTED.
    Starting,
    /// The streams are running.
    Running,
    /// Probing after the stream.
    ProbingAfter,
    /// Collecting results of this flow.
    Fetching(usize),
    /// The control connection is lost, and a new one will be requested at the deadline.
    Waiting,
    /// A new control connection has been requested.
    Reconnecting,
    /// The conversation is over.
    Over,
}

impl ClientStage {
    /// Returns the activity of the stage for error messages of the form "… while …".
    fn during(self) -> &'static str {
        match self {
            ClientStage::Greeting => "opening the control connection",
            ClientStage::Proving => "proving the key",
            ClientStage::Probing | ClientStage::ProbingAfter => "probing the clocks",
            ClientStage::Opening | ClientStage::Requested => "requesting the test",
            ClientStage::Connecting => "opening the test path",
            ClientStage::Starting => "starting the test",
            ClientStage::Running => "running the test",
            ClientStage::Fetching(_) => "collecting the results",
            ClientStage::Waiting | ClientStage::Reconnecting => "reconnecting for the results",
            ClientStage::Over => "ending",
        }
    }
}

#[derive(Debug)]
struct ClientFlow {
    spec: TestSpec,
    role: FlowRole,
    local_port: u16,
    remote_port: u16,
    ready: bool,
    opened: bool,
    /// Deadline of the next step while the stream runs.
    deadline: SteadyTime,
    ended: bool,
    end_sent: bool,
    stopped: bool,
    /// True if the flow is finished on this host.
    settled: bool,
    /// Number of packets that the remote sender reports as sent; `None` before its report.
    far_sent: Option<u32>,
    /// True if the remote receiver has finished.
    far_finished: bool,
    failure: Option<String>,
    /// Number of progress reports from the remote receiver.
    feedback: u32,
    /// Time before which the next progress report is ignored.
    feedback_after: SteadyTime,
    collection: Collection,
}

impl ClientMachine {
    /// Creates a client for a connection established at `now`.
    pub fn new(config: ClientConfig, now: Tick) -> ClientMachine {
        let codec = Codec::new(config.terms.dialect, ConnectionSide::Client, config.local, config.remote);
        let flows = config.terms.specs.iter().map(|spec| ClientFlow::new(spec.clone())).collect();
        let client = config.host.clone();
        let mut machine = ClientMachine {
            codec,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            stage: ClientStage::Greeting,
            deadline: now.steady + config.timeout,
            hold: false,
            connected: true,
            closed_behind: None,
            round: None,
            probes: Vec::new(),
            next_probe: 0,
            session: None,
            shared: None,
            flows,
            client,
            server: HostFacts::default(),
            interrupted: false,
            expired: false,
            stop_waiting: false,
            reason: None,
            lost: false,
            retries: 0,
            busy: 0,
            streamed: false,
            collecting: false,
            measured: false,
            has_feedback: false,
            alive: SteadyTime(i64::MAX),
            running_since: now.steady,
            answer_by: None,
            was_unanswered: false,
            config,
        };
        match machine.unsupported() {
            Some(failure) => machine.fail(failure),
            None => machine.greet(now),
        }
        machine
    }

    /// Creates a client that only fetches the results of the earlier test `session`, whose client ended too
    /// early. `config` must have the flows of that test. `recordings` contains the packets that arrived on
    /// this host, for flows that it received. Version 3 only.
    pub fn collecting(
        config: ClientConfig,
        session: SessionId,
        recordings: Vec<Option<Recording>>,
        now: Tick,
    ) -> ClientMachine {
        let mut machine = ClientMachine::new(config, now);
        machine.session = Some(session);
        machine.streamed = true;
        machine.collecting = true;
        for (flow, recording) in machine.flows.iter_mut().zip(recordings) {
            let report =
                |recording| ReceiveReport { recording, finish: Finish::Cut, drops: None, pause: None };
            flow.collection.received = recording.map(report);
        }
        machine
    }

    /// Returns a failure if the dialect does not support the test.
    fn unsupported(&self) -> Option<ConversationFailure> {
        let unsupported = |text: &str| Some(ConversationFailure::Unsupported(text.into()));
        if self.config.terms.specs.is_empty() {
            return unsupported("a test needs at least one stream");
        }
        if self.config.terms.dialect == Dialect::V3 {
            return None;
        }
        if self.config.terms.specs.len() > 1 {
            return unsupported("the classic protocol carries only one stream: omit -b or --classic");
        }
        if self.config.terms.key.is_some() {
            return unsupported("the classic protocol cannot prove a key: omit --key-file or --classic");
        }
        if !self.config.remote.ip().to_canonical().is_ipv4() {
            return unsupported("the classic protocol supports only IPv4: use -4 or omit --classic");
        }
        let periodic = |s: &TestSpec| s.schedule() == jitlat_core::Schedule::Periodic;
        if !self.config.terms.specs.iter().all(periodic) {
            return unsupported("the classic protocol supports only periodic streams: omit --classic");
        }
        None
    }

    /// Returns all available facts about each flow, in the order of the configuration. They are complete
    /// after [`ClientEvent::Done`]; the caller sets `created`, `name` and `tags`.
    pub fn sessions(&self) -> Vec<Session> {
        self.flows.iter().map(|flow| self.session_of(flow)).collect()
    }

    /// Returns the probes answered so far.
    pub fn probes(&self) -> &[ClockProbe] {
        &self.probes
    }

    // ---- bytes in -------------------------------------------------------------------------------

    fn received(&mut self, now: Tick, bytes: &[u8]) {
        if self.stage == ClientStage::Over || !self.connected {
            return;
        }
        self.codec.feed(bytes);
        self.pump(now);
    }

    fn pump(&mut self, now: Tick) {
        while self.stage != ClientStage::Over && self.connected && !self.hold && !self.results_wait() {
            match self.codec.decode() {
                Ok(Some(message)) => self.receive(now, message),
                Ok(None) => {
                    if let Some(why) = self.closed_behind.take() {
                        self.disconnected(now, why);
                    }
                    return;
                }
                Err(error) => self.bad_bytes(now, &error),
            }
        }
    }

    /// True if a classic server's singletons, which are sent without a request, must wait until this host's
    /// sender has stopped and its stamps are available.
    fn results_wait(&self) -> bool {
        self.config.terms.dialect == Dialect::Classic
            && self.stage == ClientStage::Running
            && self.flows.iter().any(|f| f.far_finished)
    }

    fn bad_bytes(&mut self, now: Tick, error: &DecodeError) {
        if self.streamed || self.stage == ClientStage::Running {
            self.outgoing.clear();
            return self.disconnected(now, format!("the server sent invalid data: {error}"));
        }
        let failure = match error {
            DecodeError::ClassicPeer => ConversationFailure::Unsupported(
                "the server speaks only the classic protocol: try --classic".into(),
            ),
            DecodeError::Seal => ConversationFailure::Authentication(WRONG_SERVER_KEY),
            _ => ConversationFailure::Malformed { during: self.stage.during(), detail: error.to_string() },
        };
        self.abort(error.to_nak(), failure);
    }

    fn receive(&mut self, now: Tick, message: Message) {
        // Other messages do not reply to this host: they may arrive although nothing reaches the server.
        let is_reply = matches!(message, Message::Probe(_) | Message::Chunk(_) | Message::Results(_));
        if is_reply && self.answer_by.is_some() {
            self.answer_by = Some(SteadyTime(i64::MAX));
        }
        match (message, self.stage) {
            (Message::KeepAlive, _) => {}
            (Message::Nak(nak), _) => self.refused(now, &nak),
            (Message::Welcome(welcome), ClientStage::Greeting) => self.welcome(now, &welcome),
            (Message::Proof(proof), ClientStage::Proving) => self.proof(now, &proof),
            (Message::Probe(probe), _) => self.probe_answer(now, &probe),
            (Message::Accept(accept), ClientStage::Requested) => self.accepted(now, accept),
            (Message::Feedback(flow, so_far), _) => self.feedback(now, flow, so_far),
            (Message::Started, ClientStage::Starting) => self.started(now),
            (Message::Finished(flow, _), ClientStage::Running) => self.peer_finished(now, flow),
            (Message::Finished(..), _) => {}
            (Message::End(flow, sent), ClientStage::Running) => self.peer_ended(flow, sent),
            (Message::End(flow, sent), _) => {
                if let Some(flow) = self.flow(flow) {
                    flow.far_sent.get_or_insert(sent);
                }
            }
            (Message::Chunk(chunk), ClientStage::Fetching(i)) => self.chunk(now, i, chunk),
            (Message::Results(results), ClientStage::Fetching(i)) => self.results(now, i, results),
            (message, stage) => {
                let detail = format!("unexpected message {}", message.name());
                if self.streamed || stage == ClientStage::Running {
                    return self.disconnected(now, detail);
                }
                let nak = Nak::new(NakCode::Malformed, detail.clone());
                self.abort(nak, ConversationFailure::Malformed { during: stage.during(), detail });
            }
        }
    }

    // ---- greeting and authentication ------------------------------------------------------------

    fn greet(&mut self, now: Tick) {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&derive(&self.config.entropy, "client nonce")[..NONCE_LEN]);
        self.outgoing.push_back(Message::Hello(Hello {
            min_version: VERSION,
            max_version: VERSION,
            capabilities: if self.config.terms.feedback { FEEDBACK } else { 0 }
                | if self.wants_marks() { MARKS } else { 0 },
            nonce,
            authenticate: self.config.terms.key.is_some(),
            share: self.config.terms.key.is_some().then(|| self.share().public()),
            software: Some(self.config.software.clone()),
        }));
        self.hold = true;
        self.stage = ClientStage::Greeting;
        self.deadline = now.steady + self.config.timeout;
    }

    /// True if the server must send packets with marks, which servers of older versions would silently not do.
    fn wants_marks(&self) -> bool {
        let specs = &self.config.terms.specs;
        specs.iter().any(|spec| spec.direction() == Direction::Down && spec.marking.is_on())
    }

    /// Returns this side's part of the agreement on a secret for encryption.
    fn share(&self) -> KeyShare {
        KeyShare::new(&self.config.entropy)
    }

    fn welcome(&mut self, now: Tick, welcome: &Welcome) {
        if self.config.terms.dialect == Dialect::V3 && welcome.version != VERSION {
            let text = format!("the server chose version {}, this program speaks {VERSION}", welcome.version);
            return self.fail(ConversationFailure::Unsupported(text));
        }
        if self.wants_marks() && welcome.capabilities & MARKS == 0 {
            return self.fail(ConversationFailure::Unsupported(NO_MARKS.to_owned()));
        }
        self.has_feedback = self.config.terms.feedback && welcome.capabilities & FEEDBACK != 0;
        if !self.streamed || self.collecting {
            self.events
                .push_back(ClientEvent::Progress(ConversationProgress::Connected(welcome.software.clone())));
        }
        match (welcome.authenticate, self.config.terms.key.is_some()) {
            (true, false) => self.fail(ConversationFailure::Authentication(NEEDS_KEY)),
            (false, true) => self.fail(ConversationFailure::Authentication(SERVER_WITHOUT_KEY)),
            (true, true) => {
                self.shared = welcome.share.map(|theirs| self.share().agree(&theirs));
                // The proof is computed when it is sent, because it covers all bytes before it.
                self.outgoing.push_back(Message::Proof([0; 32]));
                self.hold = true;
                self.stage = ClientStage::Proving;
                self.deadline = now.steady + self.config.timeout;
            }
            (false, false) => {
                self.codec.settle();
                self.known(now);
            }
        }
    }

    fn proof(&mut self, now: Tick, proof: &[u8]) {
        let Some(key) = &self.config.terms.key else { return };
        if !self.codec.verify(key, proof) {
            let nak = Nak::new(NakCode::Authentication, WRONG_SERVER_KEY);
            return self.abort(nak, ConversationFailure::Authentication(WRONG_SERVER_KEY));
        }
        self.codec.seal(key, self.shared.as_ref());
        self.known(now);
    }

    /// Continues after the authentication of both sides.
    fn known(&mut self, now: Tick) {
        if self.streamed {
            return self.fetch_next(now);
        }
        self.begin_round(now);
        self.stage = ClientStage::Probing;
        self.round_over(now);
    }

    fn begin_round(&mut self, now: Tick) {
        let varied = (self.config.terms.dialect == Dialect::V3).then_some(self.config.entropy);
        let (wanted, interval) = (self.config.probes, self.config.probe_interval);
        let timeout = self.config.timeout;
        self.round = Some(Round::new(now.steady, wanted, self.next_probe, interval, timeout, varied));
    }

    fn probe_answer(&mut self, now: Tick, probe: &Probe) {
        let Some(round) = &mut self.round else { return };
        if let Some(probe) = round.answer(now, probe) {
            self.probes.push(probe);
            let (answered, wanted) = round.progress();
            if self.stage == ClientStage::Probing {
                self.events.push_back(ClientEvent::Progress(ConversationProgress::Probing(answered, wanted)));
            }
        }
        self.round_over(now);
    }

    /// Continues with the next stage once all probes are finished.
    fn round_over(&mut self, now: Tick) {
        let Some(round) = &self.round else { return };
        if !round.is_over(now.steady) {
            return;
        }
        let (answered, wanted) = round.progress();
        self.next_probe = round.next_id();
        self.round = None;
        match self.stage {
            ClientStage::Probing if answered == 0 && wanted > 0 => self.timed_out(now),
            ClientStage::Probing => self.open_flows(now),
            ClientStage::ProbingAfter => self.fetch_next(now),
            _ => {}
        }
    }

    fn flow(&mut self, id: FlowId) -> Option<&mut ClientFlow> {
        self.flows.get_mut(usize::from(id.0))
    }
}

impl Machine for ClientMachine {
    type Input<'a> = ClientInput<'a>;
    type Event = ClientEvent;

    fn handle(&mut self, now: Tick, input: ClientInput<'_>) {
        match input {
            ClientInput::Received(bytes) => self.received(now, bytes),
            ClientInput::Closed(why) => self.closed(now, why),
            ClientInput::Flow(report) => {
                self.report(now, report);
                self.pump(now);
            }
            ClientInput::Host(host) => self.client = host,
            ClientInput::Interrupt => self.interrupt(now),
            ClientInput::Expire => self.expire(now),
            ClientInput::Reconnected(entropy) => self.reconnected(now, entropy),
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        match self.stage {
            // The server no longer reads, so the remaining messages are dropped.
            ClientStage::Over if now.steady >= self.deadline => self.outgoing.clear(),
            ClientStage::Over => {}
            _ if self.answer_deadline().is_some_and(|by| now.steady >= by) => self.unanswered(now),
            ClientStage::Probing | ClientStage::ProbingAfter => self.round_over(now),
            ClientStage::Running => self.flows_overdue(now),
            ClientStage::Waiting => self.reconnect_if_due(now),
            _ if now.steady < self.deadline => {}
            ClientStage::Reconnecting => self.retry(now),
            ClientStage::Opening => {
                self.fail(ConversationFailure::Flow("this host could not prepare the stream in time".into()));
            }
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

    fn poll_timeout(&self) -> Option<SteadyTime> {
        let next = match (self.stage, &self.round) {
            (ClientStage::Over, _) => self.is_closing().then_some(self.deadline),
            (ClientStage::Probing | ClientStage::ProbingAfter, Some(round)) => Some(round.deadline()),
            (ClientStage::Running, _) => {
                let flows = self.flows.iter().filter(|f| !f.settled).map(|f| f.deadline);
                flows.chain(self.connected.then_some(self.alive)).min()
            }
            _ => Some(self.deadline),
        };
        next.into_iter().chain(self.answer_deadline()).min()
    }

    fn poll_event(&mut self) -> Option<ClientEvent> {
        let last = matches!(self.events.front(), Some(ClientEvent::Done { .. } | ClientEvent::Failed(_)));
        if last && self.is_closing() {
            return None;
        }
        self.events.pop_front()
    }
}

impl ClientMachine {
    /// True while the last messages are being sent.
    fn is_closing(&self) -> bool {
        self.connected && self.closed_behind.is_none() && !self.outgoing.is_empty()
    }

    fn transmit_one(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        if !self.connected {
            return false;
        }
        if let Some(message) = self.outgoing.pop_front() {
            match (message, &self.config.terms.key) {
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
        if self.stage == ClientStage::Running && now.steady >= self.alive {
            self.schedule_keepalive(now);
            self.codec.encode(&Message::KeepAlive, out);
            return true;
        }
        let Some(probe) = self.round.as_mut().and_then(|round| round.poll_send(now)) else { return false };
        self.codec.encode(&Message::Probe(probe), out);
        true
    }
}
