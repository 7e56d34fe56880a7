//! Fetches, checks and delivers results.

use super::{ClientFlow, ClientMachine, ClientStage};
use crate::Tick;
use crate::jitlat::client::{ClientEvent, ConversationProgress};
use crate::jitlat::dialect::Dialect;
use crate::jitlat::flow::{FlowId, FlowRole};
use crate::jitlat::limits::ServerLimits;
use crate::jitlat::message::{Chunk, Fetch, Message, Results};
use crate::jitlat::stream::Finish;
use jitlat_core::Session;
use jitlat_core::Transport;
use jitlat_core::session::{Ending, HostFacts};

impl ClientMachine {
    pub(super) fn fetch_next(&mut self, now: Tick) {
        let Some(i) = self.flows.iter().position(|f| !f.collection.is_complete()) else {
            return self.conclude();
        };
        let id = FlowId(i as u8);
        if self.config.terms.dialect == Dialect::Classic && self.flows[i].role == FlowRole::Receive {
            // A classic server does not store results of a stream that it sent.
            self.flows[i].collection.results = Some(Results::none(id));
            self.hand_out(i);
            return self.fetch_next(now);
        }
        self.stage = ClientStage::Fetching(i);
        self.deadline = now.steady + self.config.timeout;
        let collection = &mut self.flows[i].collection;
        collection.begin();
        let chunk = collection.chunks;
        self.outgoing.push_back(Message::Fetch(Fetch { session: self.session, flow: id, chunk }));
    }

    pub(super) fn chunk(&mut self, now: Tick, i: usize, chunk: Chunk) {
        self.deadline = now.steady + self.config.timeout;
        let id = FlowId(i as u8);
        if chunk.flow != id {
            return self.disconnected(now, format!("results of {} instead of {id}", chunk.flow));
        }
        let flow = &mut self.flows[i];
        match flow.collection.chunk(chunk, ServerLimits::record_limit(&flow.spec)) {
            Ok(records) => {
                if !records.is_empty() {
                    self.measured = true;
                    self.events.push_back(ClientEvent::Records(id, records));
                }
                let (id, had, expected) = flow.collection.expected(id, flow.spec.packets());
                self.events
                    .push_back(ClientEvent::Progress(ConversationProgress::Collecting(id, had, expected)));
            }
            Err(why) => self.give_up_results(now, i, &why.to_string()),
        }
    }

    pub(super) fn results(&mut self, now: Tick, i: usize, results: Results) {
        let merged = merge_facts(&self.server, &results.host);
        let refused = results.refused;
        let v3 = self.config.terms.dialect == Dialect::V3;
        self.server = merged;
        if refused > 0 {
            self.server.notes.push(format!("packets not recorded because the recording was full: {refused}"));
        }
        let reports = self.flows[i].feedback;
        if reports > 0 {
            self.server
                .notes
                .push(format!("progress reports on the control connection while the test ran: {reports}"));
        }
        match self.flows[i].collection.close(results, v3) {
            Ok(()) => {
                self.measured = true;
                self.hand_out(i);
                self.fetch_next(now);
            }
            Err(why) => self.give_up_results(now, i, &why.to_string()),
        }
    }

    /// Gives up the outstanding results of a flow; only those already received are used.
    pub(super) fn give_up_results(&mut self, now: Tick, i: usize, why: &str) {
        let flow = &mut self.flows[i];
        flow.failure.get_or_insert(format!("results are incomplete: {why}"));
        flow.collection.results.get_or_insert_with(|| Results::none(FlowId(i as u8)));
        self.hand_out(i);
        // The remaining bytes on this connection belong to the failed fetch, so a new connection is needed.
        if self.can_fetch_later() {
            self.connected = false;
            return self.retry(now);
        }
        self.conclude();
    }

    /// Emits the records of a flow that were received by this host.
    pub(super) fn hand_out(&mut self, i: usize) {
        self.measured |= self.flows[i].collection.received.is_some();
        while let Some(block) = self.flows[i].collection.take_block() {
            self.events.push_back(ClientEvent::Records(FlowId(i as u8), block));
        }
        self.flows[i].collection.release();
    }

    pub(super) fn session_of(&self, flow: &ClientFlow) -> Session {
        let mut spec = flow.spec.clone();
        let (local, remote) = (self.config.local.ip(), self.config.remote.ip());
        let results = flow.collection.results.as_ref();
        let (src, dst, sent, drops, unsent, stamps_lost, path_mtu, tcp, read_pause);
        match flow.role {
            FlowRole::Send => {
                (spec.src_port, spec.dst_port) = (flow.local_port, flow.remote_port);
                (src, dst) = (local, remote);
                // Without the receiver's results, the fate of the packets is unknown, so they do not count as
                // lost.
                let sender = flow.collection.sent.as_ref().map(|s| s.sent);
                // A server that is stopped does not receive the last packets.
                let known = flow.collection.whole && !results.is_some_and(|r| r.stopped);
                sent = sender.or(results.and_then(|r| r.sent)).filter(|_| known);
                drops = results.and_then(|r| r.drops);
                read_pause = results.and_then(|r| r.pause);
                stamps_lost = flow.collection.sent.as_ref().and_then(|s| s.stamps_lost);
                path_mtu = flow.collection.sent.as_ref().and_then(|s| s.path_mtu);
                tcp = flow.collection.sent.as_ref().map(|s| s.tcp.clone()).unwrap_or_default();
                let refused = flow.collection.sent.as_ref().map_or(0, |s| u64::from(s.failed));
                unsent = if flow.collection.whole { refused + flow.collection.dropped_here } else { 0 };
            }
            FlowRole::Receive => {
                (spec.src_port, spec.dst_port) = (flow.remote_port, flow.local_port);
                (src, dst) = (remote, local);
                sent = results.and_then(|r| r.sent).or(flow.far_sent);
                let received = flow.collection.received.as_ref();
                drops = received.and_then(|r| r.drops);
                read_pause = received.and_then(|r| r.pause);
                stamps_lost = results.and_then(|r| r.stamps_lost);
                path_mtu = results.and_then(|r| r.path_mtu);
                tcp = results.map(|r| r.tcp.clone()).unwrap_or_default();
                unsent = results.map_or(0, |r| u64::from(r.failed));
            }
        }
        let (ending, reason) = self.ending_of(flow);
        Session {
            src: Some(src.to_canonical()),
            dst: Some(dst.to_canonical()),
            sent,
            classic: self.config.terms.dialect == Dialect::Classic,
            probes: self.probes.clone(),
            client: self.client.clone(),
            server: self.server.clone(),
            id: self.session.map(|id| id.to_string()),
            control_port: Some(self.config.remote.port()),
            ending,
            reason,
            receiver_drops: drops,
            // A packet that never left this host has no transmit timestamp that could be lost.
            stamps_lost: stamps_lost.map(|lost| u64::from(lost).saturating_sub(flow.collection.dropped_here)),
            path_mtu,
            tcp,
            read_pause,
            // Over TCP, a packet that cannot be sent ends the test.
            unsent: if flow.spec.transport() == Transport::Udp { unsent } else { 0 },
            ..Session::new(spec)
        }
    }

    pub(super) fn ending_of(&self, flow: &ClientFlow) -> (Ending, Option<String>) {
        let results = flow.collection.results.as_ref();
        let failure = flow.failure.clone().or_else(|| results.and_then(|r| r.failure.clone()));
        let finish = match flow.role {
            FlowRole::Send => results.and_then(|r| r.finish),
            FlowRole::Receive => flow.collection.received.as_ref().map(|r| r.finish),
        };
        let sent = match flow.role {
            FlowRole::Send => flow.collection.sent.as_ref().map(|s| s.sent),
            FlowRole::Receive => results.and_then(|r| r.sent).or(flow.far_sent),
        };
        let all_sent = sent.is_some_and(|sent| sent >= flow.spec.packets());
        if self.expired && !all_sent {
            let late = "the time limit was reached before all packets had been sent";
            return (Ending::Interrupted, Some(late.into()));
        }
        if self.interrupted && !self.expired {
            return (Ending::Interrupted, Some("interrupted by the user".into()));
        }
        if self.lost {
            return (Ending::PeerLost, self.reason.clone());
        }
        if failure.is_some() {
            let stopped = results.is_some_and(|r| r.stopped) && flow.failure.is_none();
            return (if stopped { Ending::ServerStopped } else { Ending::PeerLost }, failure);
        }
        match finish {
            Some(Finish::Silent) => {
                (Ending::PeerLost, Some("no more packets arrived before the end of the stream".into()))
            }
            Some(Finish::Exceeded) => (Ending::PeerLost, Some("far more packets arrived than agreed".into())),
            Some(Finish::NeverStarted) => (Ending::PeerLost, Some("no test packet ever arrived".into())),
            _ => (Ending::Complete, None),
        }
    }
}

/// Merges the facts about a host before and after the test. If both contain a fact, the newer one is used, except for
/// facts about the time before the test.
fn merge_facts(before: &HostFacts, after: &HostFacts) -> HostFacts {
    let mut notes = before.notes.clone();
    notes.extend(after.notes.iter().filter(|n| !before.notes.contains(n)).cloned());
    HostFacts {
        name: after.name.clone().or_else(|| before.name.clone()),
        system: after.system.clone().or_else(|| before.system.clone()),
        clock_source: after.clock_source.clone().or_else(|| before.clock_source.clone()),
        sync_before: before.sync_before.or(after.sync_before),
        sync_after: after.sync_after.or(before.sync_after),
        adapter_clock: after.adapter_clock.or(before.adapter_clock),
        clock_step: after.clock_step.or(before.clock_step),
        noise: before.noise.or(after.noise),
        notes,
        interface: after.interface.clone().or_else(|| before.interface.clone()),
    }
}
