//! [`ServerMachine`]: state machine of one control connection, from its first byte to its last. The streams
//! are in `streams`.

mod streams;

use super::results::ResultDelivery;
use super::{ServerConfig, ServerEvent, ServerInput};
use crate::jitlat::auth::{ConnectionSide, NONCE_LEN, PresharedKey, derive, derive_u64};
use crate::jitlat::codec::Codec;
use crate::jitlat::dialect::{Dialect, sniff};
use crate::jitlat::flow::{FlowCommand, FlowId, FlowRole};
use crate::jitlat::limits::{LimitRefusal, ServerLimits, TransferLoad};
use crate::jitlat::message::{
    DecodeError, FEEDBACK, Fetch, Hello, MARKS, Message, Nak, NakCode, Probe, VERSION, Welcome,
};
use crate::jitlat::seal::{KeyShare, SharedSecret};
use crate::jitlat::session_table::{FlowOutcome, Lookup, SessionId, SessionResults};
use crate::jitlat::stream::{ReceiverTimeouts, sentinel_interval};
use crate::{Machine, Tick};
use core::net::IpAddr;
use jitlat_core::session::HostFacts;
use jitlat_core::{Span, StampSource, SteadyTime, TestSpec, Transport, units};
use std::collections::VecDeque;
use std::sync::Arc;

/// Timeout of flow engine commands that do not involve the peer.
const ENGINE_TIMEOUT: Span = Span::seconds(10);
/// Time for which a request for the results of a running test waits for its end, and interval of looking for them.
const FIND_TIMEOUT: Span = Span::seconds(3);
const FIND_INTERVAL: Span = Span::millis(100);
/// Time without packets after which a stream is abandoned if its client has closed the control connection. A
/// client that has lost the connection ends its own streams.
const ABANDON_TIMEOUT: Span = Span::seconds(5);
/// Maximum number of messages waiting to be sent. A client that sends but never reads is refused.
const MAX_WAITING: usize = 128;
/// Maximum number of bytes waiting to be decoded while an answer is pending.
const MAX_HELD: usize = 2 * crate::jitlat::v3::MAX_FRAME as usize;

/// Server's state machine of one control connection.
#[derive(Debug)]
pub struct ServerMachine {
    config: ServerConfig,
    peer: IpAddr,
    /// Codec; `None` until the first bytes show the dialect. Until then, bytes are stored in `early`.
    codec: Option<Codec>,
    /// Key that the client has proved; `None` until then, or if no key is required.
    key: Option<PresharedKey>,
    /// Secret for the encryption of this connection; `None` if the client cannot encrypt.
    shared: Option<SharedSecret>,
    early: Vec<u8>,
    outgoing: VecDeque<Message>,
    events: VecDeque<ServerEvent>,
    stage: ServerStage,
    /// Deadline of the current stage.
    deadline: SteadyTime,
    /// Time until which a request for the results of a running test waits for them.
    find_until: SteadyTime,
    /// True while decoding waits until all messages have been sent: a proof covers the conversation in order.
    hold: bool,
    held: usize,
    session: SessionId,
    flows: Vec<ServerFlow>,
    start_wanted: bool,
    results: Option<Arc<SessionResults>>,
    delivery: Option<ResultDelivery>,
    fetch_later: Option<Fetch>,
    probes: u32,
    /// True if the client requested progress reports while streams are running.
    has_feedback: bool,
    host: HostFacts,
    connected: bool,
    /// True if the client has fetched all results.
    collected: bool,
    /// True if the server is being stopped: the streams end, and the client may still fetch their results.
    stopping: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerStage {
    /// Awaiting HELLO.
    Greeting,
    /// Awaiting the client's PROOF.
    Proving,
    /// Awaiting PROBE, REQUEST or FETCH.
    Idle,
    /// Waiting for the session table to admit the test.
    Admitting,
    /// Waiting for the session table to find stored results for this fetch.
    Finding(Fetch),
    /// Opening flows.
    Opening,
    /// Accepted; awaiting greetings and START.
    Accepted,
    /// The streams are running.
    Running,
    /// Results can be fetched.
    Settled,
    /// The conversation is over; some messages may still have to be sent.
    Over,
}

#[derive(Debug)]
struct ServerFlow {
    spec: TestSpec,
    load: TransferLoad,
    stamps: StampSource,
    role: FlowRole,
    token: Option<u64>,
    port: Option<u16>,
    dialled: bool,
    ready: bool,
    /// Deadline of the next step while the flow is running.
    deadline: SteadyTime,
    /// Sender: number of packets sent; `None` until the stream has ended.
    ended: Option<u32>,
    /// Sender: true if END was sent.
    end_sent: bool,
    /// True if STOP was commanded.
    stopped: bool,
    /// True if the stream ended early because the server was stopped.
    cut: bool,
    /// Time before which no further progress report is sent to the client.
    feedback_after: SteadyTime,
    outcome: Option<FlowOutcome>,
}

impl ServerMachine {
    /// Creates a server for a connection accepted at `now`.
    pub fn new(config: ServerConfig, now: Tick) -> ServerMachine {
        let host = config.host.clone();
        ServerMachine {
            peer: config.peer.ip().to_canonical(),
            codec: None,
            key: None,
            shared: None,
            early: Vec::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            stage: ServerStage::Greeting,
            deadline: now.steady + config.limits.idle,
            find_until: now.steady,
            hold: false,
            held: 0,
            session: SessionId(derive_u64(&config.entropy, "session")),
            flows: Vec::new(),
            start_wanted: false,
            results: None,
            delivery: None,
            fetch_later: None,
            probes: 0,
            has_feedback: false,
            host,
            connected: true,
            collected: false,
            stopping: false,
            config,
        }
    }

    /// Returns the identifier of the session that this connection may start.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// True if the test is over and its results can be fetched.
    pub fn is_settled(&self) -> bool {
        self.stage == ServerStage::Settled
    }

    /// True if the conversation is over.
    pub fn is_over(&self) -> bool {
        self.stage == ServerStage::Over
    }

    fn limits(&self) -> &ServerLimits {
        &self.config.limits
    }

    fn is_classic(&self) -> bool {
        self.codec.as_ref().is_some_and(|c| c.dialect() == Dialect::Classic)
    }

    fn enter(&mut self, stage: ServerStage, until: SteadyTime) {
        self.stage = stage;
        self.deadline = until;
    }

    fn idle_from(&mut self, now: Tick) {
        self.deadline = now.steady + self.config.limits.idle;
    }

    fn flow_command(&mut self, command: FlowCommand) {
        self.events.push_back(ServerEvent::Flow(command));
    }

    /// Ends the conversation: closes the flows, sends the reason to the client, and informs the session
    /// table.
    fn finish(&mut self, nak: Option<Nak>, why: Option<String>) {
        if self.is_over() {
            return;
        }
        for i in 0..self.flows.len() {
            self.flow_command(FlowCommand::Close(FlowId(i as u8)));
        }
        if let Some(nak) = nak.filter(|_| self.connected && self.codec.is_some()) {
            self.outgoing.retain(|m| matches!(m, Message::Welcome(_) | Message::Proof(_)));
            self.outgoing.push_back(Message::Nak(nak));
        }
        // Results that a version-3 client may still fetch stay in the table; all other sessions are removed.
        let claimed = !self.flows.is_empty();
        let keepable = self.results.is_some() && !self.is_classic();
        if self.collected || (claimed && !keepable) {
            self.events.push_back(ServerEvent::Forget(self.session));
        }
        self.delivery = None;
        self.hold = false;
        self.stage = ServerStage::Over;
        self.events.push_back(ServerEvent::Done(why));
    }

    fn refuse(&mut self, code: NakCode, text: impl Into<String>) {
        let text = text.into();
        let reason = self.limits().refusal(&text);
        self.finish(Some(Nak::new(code, reason)), Some(format!("refused: {text}")));
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
                    self.refuse(NakCode::Malformed, "too much data sent before the answer");
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
        let mut codec = Codec::new(dialect, ConnectionSide::Server, self.config.local, self.config.peer);
        codec.feed(&self.early);
        self.early = Vec::new();
        self.codec = Some(codec);
    }

    /// Decodes and handles all received messages.
    fn pump(&mut self, now: Tick) {
        while !self.is_over() && !self.hold {
            match self.codec.as_mut().map(Codec::decode) {
                Some(Ok(Some(message))) => self.receive(now, message),
                Some(Err(error)) => self.bad_bytes(&error),
                Some(Ok(None)) | None => return,
            }
            if self.outgoing.len() > MAX_WAITING {
                self.refuse(NakCode::Limit, "too many messages sent without reading the answers");
            }
        }
    }

    fn receive(&mut self, now: Tick, message: Message) {
        if self.stage != ServerStage::Running && message != Message::KeepAlive {
            self.idle_from(now);
        }
        match (message, self.stage.clone()) {
            (Message::KeepAlive, _) => {}
            (Message::Nak(nak), _) => self.peer_gave_up(now, &nak),
            (Message::Hello(hello), ServerStage::Greeting) => self.hello(&hello),
            (Message::Proof(proof), ServerStage::Proving) => self.proof(&proof),
            (Message::Probe(probe), ServerStage::Idle | ServerStage::Running | ServerStage::Settled) => {
                self.probe(now, probe);
            }
            (Message::Request(request), ServerStage::Idle) => self.request(now, request),
            (Message::Start, ServerStage::Accepted) => {
                self.start_wanted = true;
                self.dial_at_start();
                self.start_when_ready(now);
            }
            (Message::Finished(flow, _), ServerStage::Running) => self.peer_finished(now, flow),
            (Message::Finished(..), ServerStage::Settled) => {}
            (Message::End(flow, _), ServerStage::Running) => self.peer_ended(flow),
            (Message::End(..), ServerStage::Settled) => {}
            (Message::Stop(flow), ServerStage::Running) => self.peer_stops(flow),
            (Message::Stop(_), ServerStage::Settled) => {}
            (Message::Fetch(fetch), ServerStage::Idle) => match fetch.session {
                Some(id) => {
                    self.enter(ServerStage::Finding(fetch), now.steady + ENGINE_TIMEOUT);
                    self.find_until = now.steady + FIND_TIMEOUT;
                    self.events.push_back(ServerEvent::Find(id));
                }
                None => self.refuse(NakCode::NotFound, "no test has been run on this connection"),
            },
            (Message::Fetch(fetch), ServerStage::Settled) => self.fetch(fetch),
            // The client requested results just before the last flow finished.
            (Message::Fetch(fetch), ServerStage::Running) => self.fetch_later = Some(fetch),
            (Message::Bye, ServerStage::Settled) => {
                self.collected = true;
                self.finish(None, None);
            }
            (Message::Bye, ServerStage::Running) if self.is_classic() => {}
            (Message::Bye, _) => self.finish(None, None),
            (Message::Request(_) | Message::Fetch(_) | Message::Probe(_), ServerStage::Proving) => {
                self.refuse(NakCode::Authentication, "this server requires a key");
            }
            (message, _) => self.refuse(NakCode::Malformed, format!("unexpected message {}", message.name())),
        }
    }

    fn peer_gave_up(&mut self, now: Tick, nak: &Nak) {
        let why = if nak.text.is_empty() { "refused by the client".into() } else { nak.text.clone() };
        if self.stage == ServerStage::Running && !self.is_classic() {
            // The client may reconnect and fetch the results.
            self.connected = false;
            return self.lost(now);
        }
        self.finish(None, Some(format!("client: {why}")));
    }

    // ---- greeting and authentication ------------------------------------------------------------

    fn hello(&mut self, hello: &Hello) {
        let classic = self.is_classic();
        if classic && !self.config.keys.is_empty() {
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
        self.has_feedback = !classic && hello.capabilities & FEEDBACK != 0;
        let authenticate = !self.config.keys.is_empty();
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&derive(&self.config.entropy, "server nonce")[..NONCE_LEN]);
        // Without a key the other side of an agreement is unknown.
        let share = hello.share.filter(|_| authenticate).map(|theirs| {
            let own = KeyShare::new(&self.config.entropy);
            self.shared = Some(own.agree(&theirs));
            own.public()
        });
        self.outgoing.push_back(Message::Welcome(Welcome {
            version: VERSION,
            capabilities: if self.has_feedback { FEEDBACK } else { 0 } | hello.capabilities & MARKS,
            nonce,
            authenticate,
            share,
            software: Some(self.config.software.clone()),
        }));
        if authenticate {
            self.stage = ServerStage::Proving;
            self.hold = true;
            return;
        }
        if let Some(codec) = &mut self.codec {
            codec.settle();
        }
        self.stage = ServerStage::Idle;
    }

    fn proof(&mut self, proof: &[u8]) {
        let Some(codec) = &self.codec else { return };
        let proved = self.config.keys.find(|key| codec.verify(key, proof)).cloned();
        self.events.push_back(ServerEvent::Proof(proved.as_ref().map(|(name, _)| name.clone())));
        self.key = proved.map(|(_, key)| key);
        if self.key.is_none() {
            return self.refuse(NakCode::Authentication, "the client's key differs from this server's key");
        }
        // The proof is computed when it is sent, because it covers all bytes before it.
        self.outgoing.push_back(Message::Proof([0; 32]));
        self.hold = true;
        self.stage = ServerStage::Idle;
    }

    fn probe(&mut self, now: Tick, probe: Probe) {
        self.probes = self.probes.saturating_add(1);
        if self.probes > self.limits().probes {
            let refusal = LimitRefusal::new("max-probes", self.limits().probes, "one more");
            return self.refuse(NakCode::Limit, refusal.to_string());
        }
        self.outgoing.push_back(Message::Probe(Probe { arrived: Some(now.wall), answered: None, ..probe }));
    }

    fn flow(&mut self, id: FlowId) -> Option<&mut ServerFlow> {
        self.flows.get_mut(usize::from(id.0))
    }

    /// Handles the loss of the control connection.
    fn lost(&mut self, now: Tick) {
        self.connected = false;
        match self.stage {
            ServerStage::Running if !self.is_classic() => {
                // Receiving continues as long as packets arrive, because the client may reconnect. Sending
                // stops, because the host no longer controls the stream.
                for i in 0..self.flows.len() {
                    let (flow, id) = (&mut self.flows[i], FlowId(i as u8));
                    match flow.role {
                        FlowRole::Send if flow.outcome.is_none() && !flow.stopped => {
                            flow.stopped = true;
                            flow.deadline = now.steady + ENGINE_TIMEOUT;
                            self.flow_command(FlowCommand::Stop(id));
                        }
                        FlowRole::Receive if flow.outcome.is_none() => {
                            self.flow_command(FlowCommand::Cut(id, ABANDON_TIMEOUT));
                        }
                        FlowRole::Send | FlowRole::Receive => {}
                    }
                }
            }
            // A classic client closes the connection as soon as it has answered the end of the stream.
            ServerStage::Running if self.flows.iter().all(|f| f.stopped) => {}
            ServerStage::Settled if self.is_classic() && self.delivery.is_none() => {
                self.finish(None, None);
            }
            ServerStage::Greeting | ServerStage::Idle if self.flows.is_empty() => {
                self.finish(None, None);
            }
            _ => self.finish(None, Some("the client closed the control connection".into())),
        }
    }

    // ---- the results ----------------------------------------------------------------------------

    fn found(&mut self, now: Tick, lookup: Lookup) {
        let ServerStage::Finding(fetch) = self.stage.clone() else { return };
        match lookup {
            Lookup::Finished(results) => {
                self.session = fetch.session.unwrap_or(self.session);
                self.results = Some(results);
                self.stage = ServerStage::Settled;
                self.idle_from(now);
                self.fetch(fetch);
            }
            // The request asks the connection of the test to end it.
            Lookup::Running if now.steady < self.find_until => self.deadline = now.steady + FIND_INTERVAL,
            Lookup::Running => self.refuse(NakCode::Busy, "that test is not over yet"),
            Lookup::Unknown => {
                let text = "there are no results with this identifier, or they have expired";
                self.refuse(NakCode::NotFound, text);
            }
        }
    }

    /// Ends the conversation because the server is stopped. A running test of version 3 is only cut short, so that its
    /// client can fetch the results so far; a second call ends the conversation in any case.
    fn shut_down(&mut self, now: Tick) {
        let is_first = !core::mem::replace(&mut self.stopping, true);
        match self.stage {
            ServerStage::Running if is_first && self.connected && !self.is_classic() => self.cut_all(now),
            ServerStage::Settled if is_first && self.connected && !self.is_classic() => {}
            _ => self.refuse(NakCode::Aborted, "the server is shutting down"),
        }
    }

    fn fetch(&mut self, fetch: Fetch) {
        if fetch.session.is_some_and(|id| id != self.session) {
            return self.refuse(
                NakCode::NotFound,
                "these results belong to another session: request them on a new connection",
            );
        }
        let Some(results) = self.results.clone() else { return };
        self.delivery = ResultDelivery::new(results, fetch.flow, fetch.chunk);
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
            // The client considers this connection dead, for example because a router dropped it silently.
            ServerInput::Superseded if self.connected && self.stage == ServerStage::Running => self.lost(now),
            ServerInput::Closed | ServerInput::Superseded => {}
            ServerInput::Flow(report) => self.report(now, report),
            ServerInput::Host(host) => self.host = host,
            ServerInput::Admitted(verdict) => self.admitted(now, verdict),
            ServerInput::Found(lookup) => self.found(now, lookup),
            ServerInput::Evicted => {
                self.refuse(NakCode::Busy, "the connection was idle, and another client needs its slot");
            }
            ServerInput::Shutdown => self.shut_down(now),
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        match self.stage {
            // The client no longer reads, so the remaining messages are dropped.
            ServerStage::Over if now.steady >= self.deadline => self.outgoing.clear(),
            ServerStage::Over => {}
            ServerStage::Running => self.flows_overdue(now),
            _ if now.steady < self.deadline => {}
            ServerStage::Finding(Fetch { session: Some(id), .. })
                if now.steady < self.find_until + FIND_INTERVAL =>
            {
                self.deadline = now.steady + ENGINE_TIMEOUT;
                self.events.push_back(ServerEvent::Find(id));
            }
            ServerStage::Admitting | ServerStage::Opening | ServerStage::Finding(_) => {
                self.refuse(NakCode::Failed, "the server could not prepare the test in time");
            }
            _ => {
                let text = format!("nothing received for {}", units::duration(self.limits().idle));
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

    fn poll_timeout(&self) -> Option<SteadyTime> {
        match self.stage {
            ServerStage::Over => self.is_closing().then_some(self.deadline),
            ServerStage::Running => {
                self.flows.iter().filter(|f| f.outcome.is_none()).map(|f| f.deadline).min()
            }
            _ => Some(self.deadline),
        }
    }

    fn poll_event(&mut self) -> Option<ServerEvent> {
        if matches!(self.events.front(), Some(ServerEvent::Done(_))) && self.is_closing() {
            return None;
        }
        self.events.pop_front()
    }
}

impl ServerMachine {
    /// True while the last messages are being sent.
    fn is_closing(&self) -> bool {
        self.connected && !self.outgoing.is_empty()
    }

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
                // The client is reading, so it is not idle.
                self.idle_from(now);
                message
            }
        };
        let Some(codec) = &mut self.codec else { return false };
        match (message, &self.key) {
            (Message::Probe(probe), _) => {
                codec.encode(&Message::Probe(Probe { answered: Some(now.wall), ..probe }), out);
            }
            (Message::Proof(_), Some(key)) => {
                if let Some(proof) = codec.prove(key) {
                    codec.encode(&proof, out);
                }
                codec.seal(key, self.shared.as_ref());
            }
            (message, _) => codec.encode(&message, out),
        }
        if self.outgoing.is_empty() {
            self.hold = false;
            self.held = 0;
        }
        true
    }
}

/// Returns the maximum total time of a stream of `spec`. It is longer over TCP, because a slow path delays
/// the stream.
pub(in crate::jitlat) fn longest(spec: &TestSpec) -> Span {
    let stretch = match spec.transport() {
        Transport::Udp => 2,
        Transport::Tcp => 10,
    };
    spec.duration().times(stretch) + ReceiverTimeouts::of(spec).silence + Span::seconds(300)
}

/// Returns the time that a receiver waits for late packets after the sender's END. Over TCP, a lost segment
/// delays everything after it.
pub(in crate::jitlat) fn linger(spec: &TestSpec) -> Span {
    match spec.transport() {
        Transport::Udp => Span::seconds(2),
        Transport::Tcp => Span::seconds(15),
    }
}

/// Returns the time after which a sender whose sentinels are not answered sends END. Over TCP, sentinels
/// queue behind all data that the system has accepted but not delivered yet.
pub(in crate::jitlat) fn answer_timeout(spec: &TestSpec) -> Span {
    let backlog = match spec.transport() {
        Transport::Udp => Span::ZERO,
        Transport::Tcp => Span::seconds(60) + spec.duration(),
    };
    Span::seconds(8) + sentinel_interval(spec).times(3) + backlog
}
