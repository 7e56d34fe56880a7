//! The possible ends of a test, and reconnecting to fetch its results.

use super::{ClientFlow, ClientMachine, ClientStage};
use crate::Tick;
use crate::jitlat::auth::ConnectionSide;
use crate::jitlat::client::{ClientEvent, ConversationFailure};
use crate::jitlat::codec::Codec;
use crate::jitlat::dialect::Dialect;
use crate::jitlat::flow::{FlowCommand, FlowId, FlowRole};
use crate::jitlat::message::{Message, Nak, NakCode, Probe};
use crate::jitlat::server::linger;
use jitlat_core::session::Ending;
use jitlat_core::{Span, SteadyTime, Transport, units};

/// Timeout of the server's answer at the end of the streams, in addition to three round trips: long enough for TCP to
/// repeat a lost segment several times.
const ANSWER_TIMEOUT: Span = Span::millis(3500);
/// Addition to [`ANSWER_TIMEOUT`] after a stream over TCP, whose data may fill a queue on the path.
const TCP_BACKLOG_TIMEOUT: Span = Span::seconds(15);
/// Note in the log of a test whose control connection was cut silently.
const FETCHED_AGAIN: &str =
    "the control connection did not answer at the end of the test; the results were fetched over a new one";
/// Interval between attempts to fetch results.
const RETRY_INTERVAL: Span = Span::seconds(2);
/// Maximum number of failed attempts to fetch results; each takes a few seconds.
const MAX_RETRIES: u32 = 3;
/// Maximum number of attempts while the server is busy. After a client has vanished, the server may take more
/// than a minute to notice that the stream has ended.
const MAX_BUSY_RETRIES: u32 = 60;

/// Returns true if, as far as this host can tell, the sender of `flow` is still sending.
fn is_sending(flow: &ClientFlow) -> bool {
    let collection = &flow.collection;
    !flow.settled
        && match flow.role {
            FlowRole::Send => !flow.ended && collection.sent.is_none(),
            FlowRole::Receive => flow.far_sent.is_none() && collection.received.is_none(),
        }
}

impl ClientMachine {
    pub(super) fn fail(&mut self, failure: ConversationFailure) {
        if self.stage == ClientStage::Over {
            return;
        }
        self.close_flows();
        self.stage = ClientStage::Over;
        self.events.push_back(ClientEvent::Failed(failure));
    }

    /// Sends `nak` to the server, then fails with `failure`.
    pub(super) fn abort(&mut self, nak: Nak, failure: ConversationFailure) {
        if self.connected {
            self.outgoing.push_back(Message::Nak(nak));
        }
        self.fail(failure);
    }

    pub(super) fn close_flows(&mut self) {
        for (i, flow) in (0..).zip(&self.flows) {
            if flow.opened {
                self.events.push_back(ClientEvent::Flow(FlowCommand::Close(FlowId(i))));
            }
        }
    }

    /// Delivers all available results and ends.
    pub(super) fn conclude(&mut self) {
        if self.stage == ClientStage::Over {
            return;
        }
        for i in 0..self.flows.len() {
            self.hand_out(i);
        }
        if self.lost && !self.measured {
            let (during, id) = (self.stage.during(), self.session);
            let failure = match (self.reason.take(), id) {
                (Some(reason), Some(session)) if self.streamed => {
                    ConversationFailure::NotFetched { reason, session }
                }
                (detail, _) => ConversationFailure::Closed { during, detail },
            };
            return self.fail(failure);
        }
        if self.connected {
            self.outgoing.push_back(Message::Bye);
        }
        self.close_flows();
        self.stage = ClientStage::Over;
        let (ending, reason) =
            match self.flows.iter().map(|f| self.ending_of(f)).find(|e| e.0 != Ending::Complete) {
                Some(incomplete) => incomplete,
                None => (Ending::Complete, None),
            };
        self.events.push_back(ClientEvent::Done { ending, reason });
    }

    /// Handles the loss of the control connection; `why` describes the error.
    pub(super) fn disconnected(&mut self, now: Tick, why: String) {
        self.connected = false;
        self.outgoing.clear();
        self.reason.get_or_insert(why);
        match self.stage {
            ClientStage::Running => {
                // If the server is still running, its streams end early, and the packets received so far are
                // fetched.
                self.lost = true;
                self.cut_all(now);
            }
            ClientStage::ProbingAfter | ClientStage::Fetching(_) | ClientStage::Reconnecting => {
                self.retry(now);
            }
            ClientStage::Greeting | ClientStage::Proving if self.streamed => self.retry(now),
            _ => {}
        }
    }

    /// True if results could be fetched over a new connection.
    pub(super) fn can_fetch_later(&self) -> bool {
        self.config.terms.dialect == Dialect::V3
            && self.session.is_some()
            && self.flows.iter().any(|f| !f.collection.is_complete())
    }

    pub(super) fn retry(&mut self, now: Tick) {
        self.round = None;
        if !self.can_fetch_later() || self.retries >= MAX_RETRIES || self.stop_waiting {
            self.lost = true;
            return self.conclude();
        }
        let pause = if self.retries == 0 { Span::ZERO } else { RETRY_INTERVAL };
        self.retries += 1;
        self.wait_until(now, now.steady + pause);
    }

    pub(super) fn wait_until(&mut self, now: Tick, at: SteadyTime) {
        self.stage = ClientStage::Waiting;
        self.deadline = at;
        self.reconnect_if_due(now);
    }

    pub(super) fn reconnect_if_due(&mut self, now: Tick) {
        if self.stage == ClientStage::Waiting && now.steady >= self.deadline {
            self.stage = ClientStage::Reconnecting;
            self.deadline = now.steady + self.config.timeout.times(2);
            self.events.push_back(ClientEvent::Reconnect);
        }
    }

    pub(super) fn refused(&mut self, now: Tick, nak: &Nak) {
        let text = match (nak.text.is_empty(), self.stage) {
            (false, _) => nak.text.clone(),
            (true, ClientStage::Requested) => {
                "no reason given (the server may be busy, or one of its limits forbids this test)".to_owned()
            }
            (true, _) => "no reason given".to_owned(),
        };
        let early = !self.streamed || self.collecting && nak.code != NakCode::Busy;
        if early && !self.measured && self.stage != ClientStage::Running {
            return self.fail(ConversationFailure::Refused(text));
        }
        self.connected = false;
        self.outgoing.clear();
        if nak.code == NakCode::Busy && self.stage != ClientStage::Running && self.busy < MAX_BUSY_RETRIES {
            // Retry later, because the server has not noticed yet that the stream is over.
            self.busy += 1;
            return self.wait_until(now, now.steady + RETRY_INTERVAL);
        }
        self.reason = Some(format!("the server gave up: {text}"));
        self.lost = true;
        match self.stage {
            ClientStage::Running => self.cut_all(now),
            _ => self.conclude(),
        }
    }

    pub(super) fn timed_out(&mut self, now: Tick) {
        let during = self.stage.during();
        let after = self.config.timeout;
        if self.streamed {
            self.connected = false;
            self.reason.get_or_insert(format!("no answer within {} while {during}", units::duration(after)));
            return self.retry(now);
        }
        let hint = match (self.stage, self.config.terms.dialect) {
            (ClientStage::Greeting, Dialect::V3) => Some("try --classic if it is an older server"),
            (ClientStage::Probing, Dialect::Classic) => Some("the server may not support RTT_PROBE"),
            _ => None,
        };
        let nak = Nak::new(NakCode::Timeout, format!("no answer while {during}"));
        self.abort(nak, ConversationFailure::Timeout { during, after, hint });
    }

    pub(super) fn interrupt(&mut self, now: Tick) {
        let again = core::mem::replace(&mut self.interrupted, true);
        match self.stage {
            ClientStage::Over => {}
            ClientStage::Running if !again => self.cut_all(now),
            ClientStage::Running => {
                // Stop waiting for the server; wait only for the streams on this host.
                self.stop_waiting = true;
                self.connected = false;
                self.outgoing.clear();
                for i in 0..self.flows.len() {
                    let id = FlowId(i as u8);
                    match self.flows[i].collection.sent {
                        Some(_) => self.settle(now, id),
                        None => self.stop(now, id),
                    }
                }
            }
            // The streams are about to start, and are cut as soon as they do.
            ClientStage::Starting if !again => {}
            // The first interrupt lets the fetch finish, which takes a moment; a second one ends it.
            _ if self.streamed && !again => {}
            _ if self.streamed => self.conclude(),
            _ => self.abort(
                Nak::new(NakCode::Aborted, "interrupted by the user"),
                ConversationFailure::Interrupted,
            ),
        }
    }

    pub(super) fn expire(&mut self, now: Tick) {
        if self.stage == ClientStage::Running && !self.interrupted && self.flows.iter().any(is_sending) {
            self.expired = true;
            self.interrupt(now);
        }
    }

    pub(super) fn closed(&mut self, now: Tick, why: Option<&str>) {
        if self.stage == ClientStage::Over {
            self.connected = false;
        }
        if !(self.connected || self.stage == ClientStage::Reconnecting) {
            return;
        }
        if self.stage != ClientStage::Running && !self.streamed {
            let failure =
                ConversationFailure::Closed { during: self.stage.during(), detail: why.map(str::to_owned) };
            return self.fail(failure);
        }
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        let why = format!("the control connection was lost while {}{why}", self.stage.during());
        match self.results_wait() {
            true => self.closed_behind = Some(why),
            false => self.disconnected(now, why),
        }
    }

    /// Asks the server for an answer, because the streams that this host sends have ended: the control connection may have
    /// been cut silently while it was idle.
    pub(super) fn ask_for_answer(&mut self, now: Tick) {
        let is_sent = |f: &ClientFlow| f.role == FlowRole::Receive || f.ended || f.collection.sent.is_some();
        let is_running = self.stage == ClientStage::Running && self.connected && !self.interrupted;
        let is_new = self.config.terms.dialect == Dialect::V3 && self.answer_by.is_none();
        if is_running && is_new && self.flows.iter().all(is_sent) {
            let probe = Probe { id: self.next_probe, sent: now.wall, arrived: None, answered: None };
            self.next_probe = self.next_probe.saturating_add(1);
            self.outgoing.push_back(Message::Probe(probe));
            self.expect_answer(now);
        }
    }

    /// Sets the time by which the server must have answered. Applies only to the first answer after the streams,
    /// because each later step has its own timeout.
    pub(super) fn expect_answer(&mut self, now: Tick) {
        let rtt = self.probes.iter().map(|p| p.rtt().0.max(0)).min().unwrap_or(0);
        let is_tcp = self.flows.iter().any(|f| f.spec.transport() == Transport::Tcp);
        // The reply may wait behind data that TCP still has to deliver.
        let backlog = if is_tcp { TCP_BACKLOG_TIMEOUT } else { Span::ZERO };
        let timeout = ANSWER_TIMEOUT + backlog + Span(rtt.min(60_000_000_000)).times(3);
        self.answer_by.get_or_insert(now.steady + timeout);
    }

    /// Returns the time by which the server must have answered; `None` if no answer is expected.
    pub(super) fn answer_deadline(&self) -> Option<SteadyTime> {
        let is_due =
            matches!(self.stage, ClientStage::Running | ClientStage::ProbingAfter | ClientStage::Fetching(_));
        self.answer_by.filter(|_| is_due && self.connected)
    }

    /// Handles a control connection that does not answer at the end of the streams: the results may be available over a
    /// new connection.
    pub(super) fn unanswered(&mut self, now: Tick) {
        self.connected = false;
        self.outgoing.clear();
        let reason = "the control connection has not answered since the stream ended: a firewall or router may have \
                      dropped it";
        self.reason.get_or_insert_with(|| reason.to_owned());
        self.was_unanswered = true;
        if self.stage != ClientStage::Running {
            return self.retry(now);
        }
        for i in 0..self.flows.len() {
            let (id, flow) = (FlowId(i as u8), &self.flows[i]);
            match flow.role {
                _ if flow.settled => {}
                FlowRole::Send if flow.collection.sent.is_some() => self.settle(now, id),
                FlowRole::Send => self.stop(now, id),
                FlowRole::Receive => {
                    let cut = FlowCommand::Cut(id, linger(&flow.spec));
                    self.events.push_back(ClientEvent::Flow(cut));
                }
            }
        }
    }

    /// Reason why the control connection was lost; `None` if it was not.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(super) fn reconnected(&mut self, now: Tick, entropy: [u8; 32]) {
        if self.stage != ClientStage::Reconnecting {
            return;
        }
        // The deadline was that of the earlier connection; each step on this one has a timeout.
        self.answer_by = Some(SteadyTime(i64::MAX));
        if core::mem::replace(&mut self.was_unanswered, false) {
            self.client.notes.push(FETCHED_AGAIN.to_owned());
        }
        self.config.entropy = entropy;
        self.codec = Codec::new(Dialect::V3, ConnectionSide::Client, self.config.local, self.config.remote);
        self.connected = true;
        self.outgoing.clear();
        self.greet(now);
    }
}
