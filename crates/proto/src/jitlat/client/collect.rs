//! Bringing one flow's results together: what came from the server, what was measured here.

use crate::jitlat::flow::{FlowId, ReceiveReport, SendReport};
use crate::jitlat::message::{Chunk, ChunkData, Results};
use crate::jitlat::recording::SentStamps;
use jitlat_core::PacketRecord;

/// The results of one flow, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Collection {
    /// We sent: what our sender left.
    pub sent: Option<SendReport>,
    /// We received: what our receiver left. Its records go out when the server's stamps are there, or will
    /// not come.
    pub received: Option<ReceiveReport>,
    /// The server's closing account.
    pub results: Option<Results>,
    /// The server's transmit stamps so far.
    stamps: Option<SentStamps>,
    /// Chunks had so far, over all fetches.
    pub chunks: u32,
    /// Records or stamps had so far.
    pub count: u64,
    crcs: crc32fast::Hasher,
}

impl Collection {
    /// A new fetch begins, from chunk [`chunks`](Collection::chunks) on.
    pub fn begin(&mut self) {
        self.crcs = crc32fast::Hasher::new();
    }

    /// Takes one chunk; the records in it that are ready to go out. `limit`: most records or stamps
    /// there can be.
    pub fn chunk(&mut self, chunk: Chunk, limit: usize) -> Result<Vec<PacketRecord>, String> {
        if chunk.index != self.chunks {
            return Err(format!("chunk {} where {} was due", chunk.index, self.chunks));
        }
        self.crcs.update(&chunk.crc.to_be_bytes());
        self.chunks += 1;
        let length = match &chunk.data {
            ChunkData::Records(records) => records.len(),
            ChunkData::Stamps(_, stamps) => stamps.len(),
        };
        self.count += length as u64;
        if self.count > limit as u64 {
            return Err(format!("more than the {limit} results that there can be"));
        }
        match chunk.data {
            ChunkData::Records(_) if self.received.is_some() => Err("records of a flow received here".into()),
            ChunkData::Records(mut records) => {
                if let Some(stamps) = self.sent.as_ref().and_then(|s| s.stamps.as_ref()) {
                    records.iter_mut().for_each(|r| stamps.join(r));
                }
                Ok(records)
            }
            ChunkData::Stamps(source, stamps) => {
                self.stamps.get_or_insert_with(|| SentStamps::new(source)).extend_raw(stamps);
                Ok(Vec::new())
            }
        }
    }

    /// Takes the server's account, which says whether everything came.
    pub fn close(&mut self, results: Results, checksummed: bool) -> Result<(), String> {
        let complete = results.chunks == self.chunks && results.count == self.count;
        let sound = !checksummed || results.crc == self.crcs.clone().finalize();
        let had = self.count;
        let account = format!("{} results in {} chunks", results.count, results.chunks);
        self.results = Some(results);
        match (complete, sound) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("{had} results in {} chunks came of {account}", self.chunks)),
            (true, false) => Err("the checksum over all results is wrong".into()),
        }
    }

    /// The next block of records received here, joined with the server's stamps.
    pub fn take_block(&mut self) -> Option<Vec<PacketRecord>> {
        let mut block = self.received.as_mut()?.recording.take_block()?;
        if let Some(stamps) = &self.stamps {
            block.iter_mut().for_each(|r| stamps.join(r));
        }
        Some(block)
    }

    /// Whether the server has nothing more for us.
    pub fn is_complete(&self) -> bool {
        self.results.is_some()
    }

    /// Frees what is no longer needed once every record is out.
    pub fn release(&mut self) {
        self.stamps = None;
        if let Some(sent) = &mut self.sent {
            sent.stamps = None;
        }
    }

    /// Stamps or records expected in all, for progress: what the test sent at most.
    pub fn expected(&self, id: FlowId, packets: u32) -> (FlowId, u64, u64) {
        (id, self.count, packets.into())
    }
}
