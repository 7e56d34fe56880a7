//! Requests, opens, starts and finishes the streams.

use super::{ENGINE_TIMEOUT, ServerFlow, ServerMachine, ServerStage, answer_timeout, linger, longest};
use crate::Tick;
use crate::jitlat::auth::derive_u64;
use crate::jitlat::flow::{FlowCommand, FlowId, FlowReport, FlowRole, Meeting, Opening, WATCHED_RECORDS};
use crate::jitlat::limits::{LimitRefusal, ServerLimits, TransferLoad, WINDOW};
use crate::jitlat::message::{Accept, FlowAccept, Message, NakCode, Request};
use crate::jitlat::recording::Recording;
use crate::jitlat::server::ServerEvent;
use crate::jitlat::session_table::{Claim, FlowOutcome, FlowResults, SessionResults};
use crate::jitlat::stream::{Finish, ReceiverTimeouts};
use crate::policy;
use core::net::{IpAddr, SocketAddr};
use jitlat_core::so_far::ReceivedSoFar;
use jitlat_core::{Direction, PacketRecord, Span, StampSource, SteadyTime, TestSpec, Transport};
use std::sync::Arc;

/// Time that a client may take to answer END: a few round trips, because it waits only for late packets.
const END_TIMEOUT: Span = Span::seconds(6);
/// Minimum time between two progress reports of a flow. Slightly less than the time between
/// the engine's reports ([`WATCHED_EVERY`](crate::jitlat::flow::WATCHED_EVERY)), so that each of them is sent.
const MIN_FEEDBACK_INTERVAL: Span = Span::millis(990);
/// Memory for the progress reports of a running flow, in bytes.
const BYTES_PER_WATCHED_FLOW: u64 = (WATCHED_RECORDS * size_of::<PacketRecord>()) as u64 + (1 << 16);

impl ServerMachine {
    pub(super) fn request(&mut self, now: Tick, request: Request) {
        let loads = match self.grant(&request) {
            Ok(loads) => loads,
            Err(refusal) => return self.refuse(NakCode::Limit, refusal.to_string()),
        };
        let classic = self.is_classic();
        let token = |i: usize| (!classic).then(|| derive_u64(&self.config.entropy, &format!("token {i}")));
        let flows = (0..).zip(request.flows).zip(loads);
        self.flows = flows.map(|((i, f), load)| ServerFlow::new(f.spec, load, f.stamps, token(i))).collect();
        let load = |role| self.flows.iter().filter(|f| f.role == role).map(|f| f.load).sum();
        let claim = Claim {
            id: self.session,
            client: self.peer,
            memory: self.flows.iter().map(|flow| flow.memory(self.has_feedback)).sum(),
            sent: load(FlowRole::Send),
            received: load(FlowRole::Receive),
            proven: self.key.is_some(),
        };
        self.events.push_back(ServerEvent::Admit(claim));
        self.enter(ServerStage::Admitting, now.steady + ENGINE_TIMEOUT);
    }

    /// Checks each flow against the limits, and returns its maximum transfer within any window.
    pub(super) fn grant(&self, request: &Request) -> Result<Vec<TransferLoad>, LimitRefusal> {
        let limits = self.limits();
        if request.flows.len() > limits.flows {
            return Err(LimitRefusal::new("max-flows", limits.flows, request.flows.len()));
        }
        let grant = |spec: &TestSpec| {
            self.check_ports(spec)?;
            limits.check(spec)
        };
        request.flows.iter().map(|flow| grant(&flow.spec)).collect()
    }

    /// Checks that the client may use the ports in `spec`. In version 3, the client's own port is not checked, because
    /// it is the source port of its greeting.
    fn check_ports(&self, spec: &TestSpec) -> Result<(), LimitRefusal> {
        let (here, there) = match spec.direction() {
            Direction::Up => (spec.dst_port, spec.src_port),
            Direction::Down => (spec.src_port, spec.dst_port),
        };
        let named = [Some(here), Some(there).filter(|_| self.is_classic())];
        let mut named = named.into_iter().flatten().filter(|port| ![0, self.config.test_port].contains(port));
        named.try_for_each(|port| self.limits().check_port(port))
    }

    pub(super) fn admitted(&mut self, now: Tick, verdict: Result<(), policy::PolicyRefusal>) {
        if self.stage != ServerStage::Admitting {
            return;
        }
        if let Err(refusal) = verdict {
            self.flows.clear();
            return self.refuse(NakCode::Busy, refusal.to_string());
        }
        let (peer, both) = ((self.peer, self.is_classic()), self.flows.len() > 1);
        let watched = self.has_feedback;
        for i in 0..self.flows.len() {
            let opening = self.flows[i].opening(FlowId(i as u8), peer, self.config.test_port, both, watched);
            self.flow_command(FlowCommand::Open(Box::new(opening)));
        }
        self.enter(ServerStage::Opening, now.steady + ENGINE_TIMEOUT);
    }

    pub(super) fn opened(&mut self, now: Tick, id: FlowId, port: u16) {
        let (classic, peer) = (self.is_classic(), self.peer);
        let Some(flow) = self.flow(id) else { return };
        flow.port = Some(port);
        if classic && flow.spec.transport() == Transport::Udp {
            let far = flow.far_port();
            flow.dialled = true;
            self.flow_command(FlowCommand::Connect {
                flow: id,
                peer: SocketAddr::new(peer, far),
                greeting: None,
            });
        } else if classic {
            // A receiver is ready at once: it is already listening, or will be connected when the client
            // sends START.
            flow.ready = flow.role == FlowRole::Receive;
        }
        self.accept_when_open(now);
    }

    pub(super) fn accept_when_open(&mut self, now: Tick) {
        let classic_udp = |f: &ServerFlow| self.is_classic() && f.spec.transport() == Transport::Udp;
        let open = |f: &ServerFlow| f.port.is_some() && (f.ready || !classic_udp(f));
        if self.stage != ServerStage::Opening || !self.flows.iter().all(open) {
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
        self.stage = ServerStage::Accepted;
        self.idle_from(now);
    }

    pub(super) fn greeted(&mut self, id: FlowId, from: SocketAddr) {
        let expected = self.peer;
        if !matches!(self.stage, ServerStage::Accepted) {
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
        self.flow_command(FlowCommand::Connect { flow: id, peer: from, greeting: None });
    }

    /// Connects to the client for classic TCP streams to it, because the client listens before it sends
    /// START.
    pub(super) fn dial_at_start(&mut self) {
        let peer = self.peer;
        for i in 0..self.flows.len() {
            let flow = &mut self.flows[i];
            if flow.token.is_none() && !flow.ready && !flow.dialled {
                flow.dialled = true;
                let far = SocketAddr::new(peer, flow.far_port());
                self.flow_command(FlowCommand::Connect { flow: FlowId(i as u8), peer: far, greeting: None });
            }
        }
    }

    pub(super) fn start_when_ready(&mut self, now: Tick) {
        if self.stage != ServerStage::Accepted || !self.start_wanted || !self.flows.iter().all(|f| f.ready) {
            return;
        }
        for i in 0..self.flows.len() {
            self.flows[i].deadline = now.steady + longest(&self.flows[i].spec);
            self.flow_command(FlowCommand::Start(FlowId(i as u8)));
        }
        self.outgoing.push_back(Message::Started);
        self.stage = ServerStage::Running;
    }

    pub(super) fn report(&mut self, now: Tick, report: FlowReport) {
        match report {
            FlowReport::Opened(id, port) if self.stage == ServerStage::Opening => {
                self.opened(now, id, port);
            }
            FlowReport::Greeted(id, from) => self.greeted(id, from),
            FlowReport::Ready(id) => {
                if let Some(flow) = self.flow(id) {
                    flow.ready = true;
                }
                self.accept_when_open(now);
                self.start_when_ready(now);
            }
            FlowReport::Ended(id, sent) if self.stage == ServerStage::Running => {
                self.stream_ended(now, id, sent);
            }
            FlowReport::Sent(id, report) => self.settle_flow(now, id, FlowOutcome::Sent(report)),
            FlowReport::SoFar(id, so_far) => self.send_so_far(now, id, so_far),
            FlowReport::Received(id, report) if report.finish == Finish::Exceeded => {
                let why = self.flow(id).map_or_else(String::new, |flow| {
                    format!(
                        "max-rate: far more packets arrived than the agreed {} within {} ms; the stream was ended",
                        flow.load.packets,
                        WINDOW.0 / 1_000_000
                    )
                });
                self.settle_flow(now, id, FlowOutcome::Failed(why));
            }
            FlowReport::Received(id, report) => self.settle_flow(now, id, FlowOutcome::Received(report)),
            FlowReport::Failed(id, why) if self.stage == ServerStage::Running => {
                self.settle_flow(now, id, FlowOutcome::Failed(why));
            }
            FlowReport::Failed(_, why) if !matches!(self.stage, ServerStage::Settled | ServerStage::Over) => {
                self.refuse(NakCode::Failed, why);
            }
            _ => {}
        }
    }

    /// Sends a progress report, if the client requested progress reports and has read the earlier ones.
    fn send_so_far(&mut self, now: Tick, id: FlowId, so_far: ReceivedSoFar) {
        let idle = self.stage == ServerStage::Running && self.connected && self.outgoing.is_empty();
        if !self.has_feedback || !idle {
            return;
        }
        let due = |f: &&mut ServerFlow| f.outcome.is_none() && now.steady >= f.feedback_after;
        let Some(flow) = self.flow(id).filter(due) else { return };
        flow.feedback_after = now.steady + MIN_FEEDBACK_INTERVAL;
        self.outgoing.push_back(Message::Feedback(id, so_far));
    }

    pub(super) fn stream_ended(&mut self, now: Tick, id: FlowId, sent: u32) {
        let Some(flow) = self.flow(id) else { return };
        if flow.ended.is_none() {
            flow.ended = Some(sent);
            flow.deadline = now.steady + answer_timeout(&flow.spec);
        }
        if flow.end_sent {
            self.outgoing.push_back(Message::End(id, sent));
        }
    }

    pub(super) fn peer_finished(&mut self, now: Tick, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Send) else {
            return self.refuse(NakCode::Malformed, "FINISHED for a flow that the client does not receive");
        };
        if flow.outcome.is_none() && !flow.stopped {
            flow.stopped = true;
            flow.deadline = now.steady + ENGINE_TIMEOUT;
            self.flow_command(FlowCommand::Stop(id));
        }
    }

    pub(super) fn peer_ended(&mut self, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Receive) else {
            return self.refuse(NakCode::Malformed, "END of a flow that the client does not send");
        };
        if flow.outcome.is_none() {
            let linger = linger(&flow.spec);
            self.flow_command(FlowCommand::Cut(id, linger));
        }
    }

    pub(super) fn peer_stops(&mut self, id: FlowId) {
        let Some(flow) = self.flow(id).filter(|f| f.role == FlowRole::Send) else {
            return self.refuse(NakCode::Malformed, "STOP of a flow that this server does not send");
        };
        if flow.outcome.is_some() || flow.end_sent {
            return;
        }
        flow.end_sent = true;
        match flow.ended {
            Some(sent) => self.outgoing.push_back(Message::End(id, sent)),
            None => self.flow_command(FlowCommand::Cut(id, Span::ZERO)),
        }
    }

    /// Ends every stream early, because the server is stopped. The client can still fetch the results so far.
    pub(super) fn cut_all(&mut self, now: Tick) {
        for i in 0..self.flows.len() {
            let id = FlowId(i as u8);
            let flow = &mut self.flows[i];
            if flow.outcome.is_some() {
                continue;
            }
            match flow.role {
                FlowRole::Receive => {
                    flow.cut = true;
                    self.flow_command(FlowCommand::Cut(id, Span::ZERO));
                }
                FlowRole::Send if flow.end_sent || flow.stopped => {}
                FlowRole::Send => {
                    flow.end_sent = true;
                    match flow.ended {
                        Some(sent) => self.outgoing.push_back(Message::End(id, sent)),
                        None => {
                            flow.cut = true;
                            flow.deadline = now.steady + ENGINE_TIMEOUT;
                            self.flow_command(FlowCommand::Cut(id, Span::ZERO));
                        }
                    }
                }
            }
        }
    }

    pub(super) fn settle_flow(&mut self, now: Tick, id: FlowId, outcome: FlowOutcome) {
        if self.stage != ServerStage::Running {
            return;
        }
        let Some(flow) = self.flow(id).filter(|f| f.outcome.is_none()) else { return };
        let news = match (flow.role, &outcome) {
            (FlowRole::Receive, FlowOutcome::Received(r)) => {
                Some(Message::Finished(id, r.recording.len() as u64))
            }
            (FlowRole::Receive, _) => Some(Message::Finished(id, 0)),
            // The client has not answered yet. It must be informed that no more packets follow.
            (FlowRole::Send, FlowOutcome::Sent(s)) if !flow.stopped && !flow.end_sent => {
                Some(Message::End(id, s.sent))
            }
            (FlowRole::Send, FlowOutcome::Failed(_)) if !flow.end_sent => Some(Message::End(id, 0)),
            (FlowRole::Send, _) => None,
        };
        flow.outcome = Some(outcome);
        self.outgoing.extend(news.filter(|_| self.connected));
        if self.flows.iter().all(|f| f.outcome.is_some()) {
            self.all_settled(now);
        }
    }

    pub(super) fn all_settled(&mut self, now: Tick) {
        let flows = self.flows.iter_mut().map(|f| {
            let outcome = f.outcome.take().unwrap_or(FlowOutcome::Failed("never run".into()));
            FlowResults { spec: f.spec.clone(), cut: f.cut && is_cut(&outcome, &f.spec), outcome }
        });
        let (flows, host) = (flows.collect(), self.host.clone());
        let results = Arc::new(SessionResults { flows, host });
        self.results = Some(Arc::clone(&results));
        self.stage = ServerStage::Settled;
        self.idle_from(now);
        if !self.is_classic() {
            self.events.push_back(ServerEvent::Keep(self.session, results));
        }
        if self.is_classic() && self.flows.iter().all(|f| f.role == FlowRole::Send) {
            // A classic client does not fetch results of a stream that it received.
            return self.finish(None, None);
        }
        if !self.connected {
            let why = format!("the control connection was lost; results are stored as {}", self.session);
            return self.finish(None, Some(why));
        }
        if let Some(fetch) = self.fetch_later.take() {
            self.fetch(fetch);
        }
    }

    /// Handles running flows whose deadline has passed.
    pub(super) fn flows_overdue(&mut self, now: Tick) {
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
            if let (Some(sent), false) = (flow.ended, flow.end_sent) {
                // The sentinels were not answered, perhaps because none arrived. The control connection may
                // still work.
                flow.end_sent = true;
                flow.deadline = now.steady + END_TIMEOUT;
                self.outgoing.push_back(Message::End(id, sent));
                continue;
            }
            flow.stopped = true;
            flow.deadline = now.steady + ENGINE_TIMEOUT;
            self.flow_command(FlowCommand::Stop(id));
        }
    }
}

impl ServerFlow {
    pub(super) fn new(
        spec: TestSpec,
        load: TransferLoad,
        stamps: StampSource,
        token: Option<u64>,
    ) -> ServerFlow {
        let role = match spec.direction() {
            Direction::Up => FlowRole::Receive,
            Direction::Down => FlowRole::Send,
        };
        ServerFlow {
            spec,
            load,
            stamps,
            role,
            token,
            port: None,
            dialled: false,
            ready: false,
            deadline: SteadyTime(i64::MAX),
            ended: None,
            end_sent: false,
            stopped: false,
            cut: false,
            feedback_after: SteadyTime(i64::MIN),
            outcome: None,
        }
    }

    /// Returns the maximum memory for the flow, in bytes.
    pub(super) fn memory(&self, watched: bool) -> u64 {
        match self.role {
            FlowRole::Receive => {
                let watching = if watched { BYTES_PER_WATCHED_FLOW } else { 0 };
                Recording::cost(ServerLimits::record_limit(&self.spec)) + watching
            }
            // Two times per packet: entry into the interface's queue, and departure.
            FlowRole::Send => u64::from(self.spec.packets()) * 16,
        }
    }

    /// Returns the port that the client specified.
    pub(super) fn far_port(&self) -> u16 {
        match self.role {
            FlowRole::Receive => self.spec.src_port,
            FlowRole::Send => self.spec.dst_port,
        }
    }

    /// Returns the parameters for opening the flow. If the client did not specify a port, `test_port` is used
    /// for a stream to this host, and also for the other direction if the test has both (`both`).
    pub(super) fn opening(
        &self,
        flow: FlowId,
        (peer, classic): (IpAddr, bool),
        test_port: u16,
        both: bool,
        watched: bool,
    ) -> Opening {
        let named = match self.role {
            FlowRole::Receive => self.spec.dst_port,
            FlowRole::Send => self.spec.src_port,
        };
        let meeting = match self.token {
            Some(token) => Meeting::Greeting(token),
            None if self.spec.transport() == Transport::Tcp && self.role == FlowRole::Receive => {
                Meeting::Listen
            }
            None => Meeting::Dial,
        };
        let left_open = named == 0 && (self.role == FlowRole::Receive || both);
        Opening {
            flow,
            role: self.role,
            spec: self.spec.clone(),
            bind_port: if left_open { test_port } else { named },
            any_port_will_do: left_open && self.role == FlowRole::Send,
            peer,
            meeting,
            greetings: !classic,
            stamps: self.stamps,
            timeouts: ReceiverTimeouts::of(&self.spec),
            record_limit: ServerLimits::record_limit(&self.spec),
            watched: watched && self.role == FlowRole::Receive,
            peak: Some(self.load.packets),
        }
    }
}

/// Returns true if a stream with this outcome, which was cut, did not end by itself before the cut.
fn is_cut(outcome: &FlowOutcome, spec: &TestSpec) -> bool {
    match outcome {
        FlowOutcome::Received(received) => received.finish == Finish::Cut,
        FlowOutcome::Sent(sent) => sent.sent < spec.packets(),
        FlowOutcome::Failed(_) => true,
    }
}
