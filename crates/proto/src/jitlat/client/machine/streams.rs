//! Opens, starts and ends the streams.

use super::{ClientFlow, ClientMachine, ClientStage};
use crate::Tick;
use crate::jitlat::client::collect::Collection;
use crate::jitlat::client::{ClientConfig, ClientEvent, ConversationFailure, ConversationProgress};
use crate::jitlat::dialect::Dialect;
use crate::jitlat::flow::{FlowCommand, FlowId, FlowReport, FlowRole, Meeting, Opening};
use crate::jitlat::limits::ServerLimits;
use crate::jitlat::message::{Accept, FlowRequest, Message, Nak, NakCode, Request};
use crate::jitlat::server::{answer_timeout, linger, longest};
use crate::jitlat::stream::{ReceiverTimeouts, longest_gap};
use core::net::SocketAddr;
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{Direction, Span, SteadyTime, TestSpec, Transport};

/// Timeout of flow engine commands that do not involve the peer.
const ENGINE_TIMEOUT: Span = Span::seconds(10);
/// Timeout for a sender to stop on request.
const STOP_TIMEOUT: Span = Span::seconds(8);

/// Minimum time between two progress reports of the server; earlier ones are ignored.
const MIN_FEEDBACK_INTERVAL: Span = Span::millis(500);

/// Minimum and maximum time between keep-alives of a client with a slow stream. On a full server, new
/// sessions replace those that have been silent for as long as they were in use.
const KEEPALIVE_RANGE: (Span, Span) = (Span::millis(250), Span::seconds(4));

impl ClientMachine {
    pub(super) fn open_flows(&mut self, now: Tick) {
        self.stage = ClientStage::Opening;
        self.deadline = now.steady + ENGINE_TIMEOUT;
        for i in 0..self.flows.len() {
            let opening = self.flows[i].opening(FlowId(i as u8), &self.config);
            self.flows[i].opened = true;
            self.events.push_back(ClientEvent::Flow(FlowCommand::Open(Box::new(opening))));
        }
    }

    pub(super) fn request(&mut self, now: Tick) {
        let flows =
            self.flows.iter().map(|f| FlowRequest { spec: f.asked(), stamps: self.config.terms.stamps });
        let request = Request { flows: flows.collect(), host: self.client.clone() };
        self.outgoing.push_back(Message::Request(request));
        self.stage = ClientStage::Requested;
        self.deadline = now.steady + self.config.timeout;
    }

    pub(super) fn accepted(&mut self, now: Tick, accept: Accept) {
        if accept.flows.len() != self.flows.len() {
            let detail = format!("{} flows granted of {}", accept.flows.len(), self.flows.len());
            let nak = Nak::new(NakCode::Malformed, detail.clone());
            return self.abort(nak, ConversationFailure::Malformed { during: self.stage.during(), detail });
        }
        self.session = accept.session;
        self.server = accept.host;
        self.events.push_back(ClientEvent::Progress(ConversationProgress::Accepted(self.session)));
        let timeout = self.greeting_timeout();
        self.stage = ClientStage::Connecting;
        self.deadline = now.steady + timeout + ENGINE_TIMEOUT;
        for (i, granted) in accept.flows.into_iter().enumerate() {
            let flow = &mut self.flows[i];
            flow.remote_port = granted.port;
            if flow.listens(self.config.terms.dialect) {
                flow.ready = true;
                continue;
            }
            let peer = SocketAddr::new(self.config.remote.ip(), granted.port);
            let greeting = granted.token.map(|token| (token, timeout));
            let connect = FlowCommand::Connect { flow: FlowId(i as u8), peer, greeting };
            self.events.push_back(ClientEvent::Flow(connect));
        }
        self.start_when_ready(now);
    }

    /// Returns the timeout of greetings: five seconds plus three round-trip times, as estimated by the
    /// probes.
    pub(super) fn greeting_timeout(&self) -> Span {
        let rtt = self.probes.iter().map(|p| p.rtt().0.max(0)).min().unwrap_or(0);
        Span::seconds(5) + Span(rtt.min(60_000_000_000)).times(3)
    }

    pub(super) fn start_when_ready(&mut self, now: Tick) {
        if self.stage != ClientStage::Connecting || !self.flows.iter().all(|f| f.ready) {
            return;
        }
        self.start_role(now, FlowRole::Receive);
        self.outgoing.push_back(Message::Start);
        self.stage = ClientStage::Starting;
        self.deadline = now.steady + self.config.timeout;
    }

    pub(super) fn start_role(&mut self, now: Tick, role: FlowRole) {
        for (i, flow) in (0..).zip(&mut self.flows).filter(|(_, f)| f.role == role) {
            flow.deadline = now.steady + longest(&flow.spec);
            self.events.push_back(ClientEvent::Flow(FlowCommand::Start(FlowId(i))));
        }
    }

    pub(super) fn started(&mut self, now: Tick) {
        self.start_role(now, FlowRole::Send);
        self.stage = ClientStage::Running;
        if self.config.terms.dialect == Dialect::V3
            && self.flows.iter().any(|f| longest_gap(&f.spec) > KEEPALIVE_RANGE.0)
        {
            self.running_since = now.steady;
            self.schedule_keepalive(now);
        }
        self.events.push_back(ClientEvent::Progress(ConversationProgress::Running));
        if self.interrupted {
            self.cut_all(now);
        }
        self.settled(now);
    }

    /// Schedules the next keep-alive, after half of the time since the streams started.
    pub(super) fn schedule_keepalive(&mut self, now: Tick) {
        let half = Span((now.steady - self.running_since).0 / 2);
        self.alive = now.steady + half.clamp(KEEPALIVE_RANGE.0, KEEPALIVE_RANGE.1);
    }

    pub(super) fn report(&mut self, now: Tick, report: FlowReport) {
        match report {
            FlowReport::Opened(id, port) if self.stage == ClientStage::Opening => {
                let Some(flow) = self.flow(id) else { return };
                flow.local_port = port;
                flow.ready = true;
                if self.flows.iter().all(|f| f.ready) {
                    self.flows.iter_mut().for_each(|f| f.ready = false);
                    self.request(now);
                }
            }
            FlowReport::Ready(id) => {
                if let Some(flow) = self.flow(id) {
                    flow.ready = true;
                }
                self.start_when_ready(now);
            }
            FlowReport::Ended(id, sent) => self.stream_ended(now, id, sent),
            FlowReport::Sent(id, report) => {
                let (connected, timeout) = (self.connected, self.config.timeout);
                let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Send && !f.settled) else {
                    return;
                };
                let sent = report.sent;
                flow.collection.sent = Some(report);
                if flow.far_finished || !connected || flow.failure.is_some() {
                    return self.settle(now, id);
                }
                // The stream ended by itself. The server must be informed that no further packets follow.
                flow.deadline = now.steady + linger(&flow.spec) + timeout;
                if !core::mem::replace(&mut flow.end_sent, true) {
                    self.outgoing.push_back(Message::End(id, sent));
                }
                self.ask_for_answer(now);
            }
            FlowReport::Received(id, report) => {
                let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Receive && !f.settled) else {
                    return;
                };
                let count = report.recording.len() as u64;
                flow.collection.received = Some(report);
                if self.connected {
                    self.outgoing.push_back(Message::Finished(id, count));
                }
                self.settle(now, id);
                self.ask_for_answer(now);
            }
            FlowReport::Failed(id, why) => self.flow_failed(now, id, why),
            FlowReport::Opened(..) | FlowReport::Greeted(..) | FlowReport::SoFar(..) => {}
        }
    }

    pub(super) fn flow_failed(&mut self, now: Tick, id: FlowId, why: String) {
        if !matches!(self.stage, ClientStage::Running | ClientStage::Starting) {
            if !self.streamed {
                self.abort(Nak::new(NakCode::Failed, why.clone()), ConversationFailure::Flow(why));
            }
            return;
        }
        let (connected, timeout) = (self.connected, self.config.timeout);
        let Some(flow) = self.flow(id).filter(|f| !f.settled) else { return };
        flow.failure = Some(why);
        match flow.role {
            FlowRole::Receive => {
                self.outgoing.extend(connected.then_some(Message::Finished(id, 0)));
                self.settle(now, id);
            }
            FlowRole::Send if !connected || flow.far_finished => self.settle(now, id),
            FlowRole::Send => {
                flow.collection.sent.get_or_insert_default();
                flow.deadline = now.steady + linger(&flow.spec) + timeout;
                if !core::mem::replace(&mut flow.end_sent, true) {
                    self.outgoing.push_back(Message::End(id, 0));
                }
            }
        }
    }

    pub(super) fn stream_ended(&mut self, now: Tick, id: FlowId, sent: u32) {
        let (interrupted, connected) = (self.interrupted, self.connected);
        let timeout = self.config.timeout;
        let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Send && !f.ended && !f.settled) else {
            return;
        };
        flow.ended = true;
        flow.deadline = now.steady + answer_timeout(&flow.spec);
        flow.far_sent = Some(sent);
        if !connected {
            // Without a control connection, the single sentinel that was sent is not answered.
            flow.deadline = now.steady + linger(&flow.spec);
        } else if interrupted {
            flow.end_sent = true;
            flow.deadline = now.steady + STOP_TIMEOUT + timeout;
            self.outgoing.push_back(Message::End(id, sent));
        }
        self.ask_for_answer(now);
    }

    /// Handles a progress report of the remote receiver while the stream is running. Reports that were not
    /// agreed on or arrive too early are ignored.
    pub(super) fn feedback(&mut self, now: Tick, id: FlowId, so_far: ReceivedSoFar) {
        if !self.has_feedback || self.stage != ClientStage::Running {
            return;
        }
        let wanted =
            |f: &&mut ClientFlow| f.role == FlowRole::Send && !f.settled && now.steady >= f.feedback_after;
        let Some(flow) = self.flow(id).filter(wanted) else { return };
        flow.feedback_after = now.steady + MIN_FEEDBACK_INTERVAL;
        flow.feedback = flow.feedback.saturating_add(1);
        self.events.push_back(ClientEvent::Feedback(id, Box::new(so_far)));
    }

    pub(super) fn peer_finished(&mut self, now: Tick, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Send) else { return };
        flow.far_finished = true;
        match flow.collection.sent {
            Some(_) => self.settle(now, id),
            None => self.stop(now, id),
        }
    }

    pub(super) fn settle(&mut self, now: Tick, id: FlowId) {
        if let Some(flow) = self.flow(id) {
            flow.settled = true;
        }
        self.settled(now);
    }

    pub(super) fn stop(&mut self, now: Tick, id: FlowId) {
        let Some(flow) = self.flow(id) else { return };
        if flow.stopped || flow.settled {
            return;
        }
        flow.stopped = true;
        flow.deadline = now.steady + ENGINE_TIMEOUT;
        self.events.push_back(ClientEvent::Flow(FlowCommand::Stop(id)));
    }

    pub(super) fn peer_ended(&mut self, id: FlowId, sent: u32) {
        let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Receive) else { return };
        flow.far_sent = Some(sent);
        if !flow.settled {
            let linger = linger(&flow.spec);
            self.events.push_back(ClientEvent::Flow(FlowCommand::Cut(id, linger)));
        }
    }

    /// Ends every stream early.
    pub(super) fn cut_all(&mut self, now: Tick) {
        let classic = self.config.terms.dialect == Dialect::Classic;
        for i in 0..self.flows.len() {
            let id = FlowId(i as u8);
            let flow = &mut self.flows[i];
            if flow.settled {
                continue;
            }
            flow.deadline = now.steady + STOP_TIMEOUT;
            let command = match (flow.role, self.connected) {
                (FlowRole::Send, true) if flow.ended && !flow.end_sent => {
                    flow.end_sent = true;
                    flow.deadline = now.steady + STOP_TIMEOUT + self.config.timeout;
                    let sent = flow.far_sent.unwrap_or(0);
                    self.outgoing.push_back(Message::End(id, sent));
                    continue;
                }
                (FlowRole::Send, _) => FlowCommand::Cut(id, Span::ZERO),
                (FlowRole::Receive, true) if !classic => {
                    self.outgoing.push_back(Message::Stop(id));
                    continue;
                }
                (FlowRole::Receive, true) => FlowCommand::Cut(id, Span::ZERO),
                (FlowRole::Receive, false) => FlowCommand::Cut(id, linger(&flow.spec)),
            };
            self.events.push_back(ClientEvent::Flow(command));
        }
    }

    /// Continues with the results if all streams have ended.
    pub(super) fn settled(&mut self, now: Tick) {
        if self.stage != ClientStage::Running || !self.flows.iter().all(|f| f.settled) {
            return;
        }
        self.streamed = true;
        if !self.connected {
            self.stage = ClientStage::Reconnecting;
            return self.retry(now);
        }
        if self.config.terms.dialect == Dialect::V3 {
            self.expect_answer(now);
        }
        if self.config.terms.dialect == Dialect::V3 && !self.interrupted {
            self.begin_round(now);
            self.stage = ClientStage::ProbingAfter;
            return self.round_over(now);
        }
        self.fetch_next(now);
    }

    pub(super) fn flows_overdue(&mut self, now: Tick) {
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
                flow.failure.get_or_insert("this host's stream did not stop".into());
                self.settle(now, id);
                continue;
            }
            if flow.ended && !flow.end_sent && self.connected {
                // The sentinels were not answered, perhaps because none arrived. The control connection may
                // still work.
                flow.end_sent = true;
                flow.deadline = now.steady + linger(&flow.spec) + self.config.timeout;
                let sent = flow.far_sent.unwrap_or(0);
                self.outgoing.push_back(Message::End(id, sent));
                continue;
            }
            if flow.role == FlowRole::Send && flow.ended {
                self.no_answer();
            }
            self.stop(now, id);
        }
    }

    /// Gives up the stream and the connection, because the server did not answer the end of the stream.
    pub(super) fn no_answer(&mut self) {
        if self.connected {
            self.lost = true;
            self.connected = false;
            self.reason.get_or_insert("the server did not answer the end of the stream".into());
        }
    }
}

impl ClientFlow {
    pub(super) fn new(spec: TestSpec) -> ClientFlow {
        let role = match spec.direction() {
            Direction::Up => FlowRole::Send,
            Direction::Down => FlowRole::Receive,
        };
        let (local_port, remote_port) = match role {
            FlowRole::Send => (spec.src_port, spec.dst_port),
            FlowRole::Receive => (spec.dst_port, spec.src_port),
        };
        ClientFlow {
            spec,
            role,
            local_port,
            remote_port,
            ready: false,
            opened: false,
            deadline: SteadyTime(i64::MAX),
            ended: false,
            end_sent: false,
            stopped: false,
            settled: false,
            far_sent: None,
            far_finished: false,
            failure: None,
            feedback: 0,
            feedback_after: SteadyTime(i64::MIN),
            collection: Collection::default(),
        }
    }

    /// True for a classic TCP stream to this host, for which the server connects.
    pub(super) fn listens(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Classic
            && self.role == FlowRole::Receive
            && self.spec.transport() == Transport::Tcp
    }

    /// Returns the stream to request, with the port bound on this host.
    pub(super) fn asked(&self) -> TestSpec {
        let mut spec = self.spec.clone();
        match self.role {
            FlowRole::Send => spec.src_port = self.local_port,
            FlowRole::Receive => spec.dst_port = self.local_port,
        }
        spec
    }

    pub(super) fn opening(&self, flow: FlowId, config: &ClientConfig) -> Opening {
        let v3 = config.terms.dialect == Dialect::V3;
        Opening {
            flow,
            role: self.role,
            spec: self.spec.clone(),
            bind_port: self.local_port,
            // In version 3, the greeting shows the server where to send. Classic servers need the port
            // number.
            any_port_will_do: v3 && self.role == FlowRole::Receive,
            peer: config.remote.ip(),
            meeting: if self.listens(config.terms.dialect) { Meeting::Listen } else { Meeting::Dial },
            greetings: v3,
            stamps: config.terms.stamps,
            timeouts: ReceiverTimeouts::of(&self.spec),
            record_limit: ServerLimits::record_limit(&self.spec),
            watched: false,
            peak: None,
        }
    }
}
