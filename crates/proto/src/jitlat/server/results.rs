//! Sends the results of one flow chunk by chunk, as fast as the client reads them.

use crate::jitlat::flow::FlowId;
use crate::jitlat::message::{Chunk, ChunkData, Message, Results, SERVER_STOPPED, STAMP_CHUNK};
use crate::jitlat::session_table::{FlowOutcome, SessionResults};
use jitlat_core::PacketRecord;
use std::sync::Arc;

/// Answer to a FETCH while it is being sent.
#[derive(Debug)]
pub(super) struct ResultDelivery {
    results: Arc<SessionResults>,
    flow: FlowId,
    next: u32,
    total: u32,
    crcs: crc32fast::Hasher,
}

impl ResultDelivery {
    /// Creates an answer with the results of `flow`, starting with chunk `first`; `None` if the flow does not
    /// exist.
    pub fn new(results: Arc<SessionResults>, flow: FlowId, first: u32) -> Option<ResultDelivery> {
        let total = match &results.flows.get(usize::from(flow.0))?.outcome {
            FlowOutcome::Received(r) => r.recording.chunks(),
            FlowOutcome::Sent(s) => s.stamps.as_ref().map_or(0, |s| s.len().div_ceil(STAMP_CHUNK)),
            FlowOutcome::Failed(_) => 0,
        };
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        Some(ResultDelivery { results, flow, next: first.min(total), total, crcs: crc32fast::Hasher::new() })
    }

    /// Returns the next message, and true if it is the last one.
    pub fn next(&mut self) -> (Message, bool) {
        if self.next >= self.total {
            return (Message::Results(self.summary()), true);
        }
        let (index, flow) = (self.next, self.flow);
        self.next += 1;
        let data = self.data(index as usize);
        let crc = crate::jitlat::v3::checksum(&data);
        self.crcs.update(&crc.to_be_bytes());
        (Message::Chunk(Chunk { flow, index, crc, data }), false)
    }

    fn data(&self, k: usize) -> ChunkData {
        match self.results.flows.get(usize::from(self.flow.0)).map(|f| &f.outcome) {
            Some(FlowOutcome::Received(r)) => ChunkData::Records(r.recording.chunk(k).to_vec()),
            Some(FlowOutcome::Sent(s)) => {
                let stamps = s.stamps.as_ref();
                let first = k.saturating_mul(STAMP_CHUNK);
                let raw = stamps.map_or(&[][..], |s| s.raw(first, STAMP_CHUNK));
                let entries = stamps.map_or_else(Vec::new, |s| s.raw_entries(first, raw.len()));
                let source = stamps.map(super::super::SentStamps::source).unwrap_or_default();
                ChunkData::Stamps(source, raw.to_vec(), entries)
            }
            _ => ChunkData::Records(Vec::<PacketRecord>::new()),
        }
    }

    fn summary(&self) -> Results {
        let mut summary = Results {
            chunks: self.total,
            crc: self.crcs.clone().finalize(),
            host: self.results.host.clone(),
            ..Results::none(self.flow)
        };
        match self.results.flows.get(usize::from(self.flow.0)).map(|f| &f.outcome) {
            Some(FlowOutcome::Received(r)) => {
                summary.count = r.recording.len() as u64;
                summary.drops = r.drops;
                summary.pause = r.pause;
                summary.refused = r.recording.refused();
                summary.finish = Some(r.finish);
            }
            Some(FlowOutcome::Sent(s)) => {
                summary.count = s.stamps.as_ref().map_or(0, |s| s.len() as u64);
                summary.sent = Some(s.sent);
                summary.failed = s.failed;
                summary.stamps_lost = s.stamps_lost;
                summary.path_mtu = s.path_mtu;
                summary.tcp.clone_from(&s.tcp);
            }
            Some(FlowOutcome::Failed(why)) => summary.failure = Some(why.clone()),
            None => {}
        }
        if self.results.flows.get(usize::from(self.flow.0)).is_some_and(|flow| flow.cut) {
            summary.stopped = true;
            summary.failure.get_or_insert(SERVER_STOPPED.to_owned());
        }
        summary
    }
}
