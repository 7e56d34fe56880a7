//! Combines one flow's results: those of the server and those measured here.

use crate::jitlat::flow::{FlowId, ReceiveReport, SendReport};
use crate::jitlat::message::{Chunk, ChunkData, Results};
use crate::jitlat::recording::SentStamps;
use jitlat_core::PacketRecord;
use jitlat_core::metrics::seqset::SeqSet;

/// Invalid results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadResults {
    /// Chunks must be consecutive.
    #[error("chunk {index} where {due} was due")]
    Order { index: u32, due: u32 },
    /// No test has so many.
    #[error("more than the {0} results that there can be")]
    TooMany(usize),
    /// The server may send results only of what it sent.
    #[error("records of a flow received here")]
    NotIts,
    /// The summary's counts differ from what was received.
    #[error("{had} results in {chunks} chunks came of {of} results in {of_chunks} chunks")]
    Incomplete { had: u64, chunks: u32, of: u64, of_chunks: u32 },
    /// What came is not what was sent.
    #[error("the checksum over all results is wrong")]
    Checksum,
}

/// The results of one flow, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Collection {
    /// If we sent: our sender's report.
    pub sent: Option<SendReport>,
    /// If we received: our receiver's report. Its records are delivered once the server's stamps are known, or will not
    /// come.
    pub received: Option<ReceiveReport>,
    /// The server's final summary.
    pub results: Option<Results>,
    /// Whether the summary showed that everything the server kept has arrived here.
    pub whole: bool,
    /// The server's transmit stamps so far.
    stamps: Option<SentStamps>,
    /// Chunks received so far, over all fetches.
    pub chunks: u32,
    /// Records or stamps received so far.
    pub count: u64,
    crcs: crc32fast::Hasher,
    /// The packets sent here that arrived, by number; until [`Collection::release`].
    arrived: SeqSet,
    /// Packets sent here that this host's own queue dropped.
    pub dropped_here: u64,
}

impl Collection {
    /// A new fetch begins, from chunk [`chunks`](Collection::chunks) on.
    pub fn begin(&mut self) {
        self.crcs = crc32fast::Hasher::new();
    }

    /// Adds a chunk; returns the records that are ready. `limit`: most records or stamps allowed.
    pub fn chunk(&mut self, chunk: Chunk, limit: usize) -> Result<Vec<PacketRecord>, BadResults> {
        if chunk.index != self.chunks {
            return Err(BadResults::Order { index: chunk.index, due: self.chunks });
        }
        self.crcs.update(&chunk.crc.to_be_bytes());
        self.chunks += 1;
        let length = match &chunk.data {
            ChunkData::Records(records) => records.len(),
            ChunkData::Stamps(_, stamps, _) => stamps.len(),
        };
        self.count += length as u64;
        if self.count > limit as u64 {
            return Err(BadResults::TooMany(limit));
        }
        match chunk.data {
            ChunkData::Records(_) if self.received.is_some() => Err(BadResults::NotIts),
            ChunkData::Records(mut records) => {
                if let Some(stamps) = self.sent.as_ref().and_then(|s| s.stamps.as_ref()) {
                    for record in &mut records {
                        stamps.join(record);
                        if stamps.entry(record.seq).is_some() {
                            self.arrived.insert(record.seq as u32);
                        }
                    }
                }
                Ok(records)
            }
            ChunkData::Stamps(source, left, entered) => {
                self.stamps.get_or_insert_with(|| SentStamps::new(source)).extend_raw(left, entered);
                Ok(Vec::new())
            }
        }
    }

    /// Adds the server's summary, which shows whether everything was received.
    pub fn close(&mut self, results: Results, checksummed: bool) -> Result<(), BadResults> {
        let complete = results.chunks == self.chunks && results.count == self.count;
        let sound = !checksummed || results.crc == self.crcs.clone().finalize();
        let incomplete = BadResults::Incomplete {
            had: self.count,
            chunks: self.chunks,
            of: results.count,
            of_chunks: results.chunks,
        };
        self.results = Some(results);
        self.whole = complete && sound;
        match (complete, sound) {
            (true, true) => Ok(()),
            (false, _) => Err(incomplete),
            (true, false) => Err(BadResults::Checksum),
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
    pub(crate) fn is_complete(&self) -> bool {
        self.results.is_some()
    }

    /// Frees what is no longer needed once every record is out.
    pub fn release(&mut self) {
        self.stamps = None;
        if let Some(stamps) = self.sent.as_mut().and_then(|sent| sent.stamps.take()) {
            self.dropped_here = stamps.dropped_in_queue(self.arrived.iter().map(i64::from));
            self.arrived = SeqSet::default();
        }
    }

    /// Stamps or records expected in all, for progress: at most what the test sent.
    pub fn expected(&self, id: FlowId, packets: u32) -> (FlowId, u64, u64) {
        (id, self.count, packets.into())
    }
}
