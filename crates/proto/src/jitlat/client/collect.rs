//! Combines the results of one flow from the server and from this host.

use crate::jitlat::flow::{FlowId, ReceiveReport, SendReport};
use crate::jitlat::message::{Chunk, ChunkData, Results};
use crate::jitlat::recording::SentStamps;
use jitlat_core::PacketRecord;
use jitlat_core::metrics::seqset::SeqSet;

/// Reason why results are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadResults {
    /// The chunk is not the next one.
    #[error("chunk {index} arrived instead of chunk {due}")]
    Order { index: u32, due: u32 },
    /// There are more results than the receiver of the stream may record.
    #[error("more than the maximum of {0} results")]
    TooMany(usize),
    /// The server sent records of a flow that it did not receive: the receiver is this host.
    #[error("the server sent records of a flow that this host received")]
    WrongReceiver,
    /// The counts in the summary differ from the received results.
    #[error("received {had} of {of} results in {chunks} of {of_chunks} chunks")]
    Incomplete { had: u64, chunks: u32, of: u64, of_chunks: u32 },
    /// The checksum does not match the received results.
    #[error("the checksum over all results is wrong")]
    Checksum,
}

/// Results of one flow that are available so far.
#[derive(Debug, Default)]
pub(super) struct Collection {
    /// Report of this host's sender; `None` until available, or if this host is not the sender.
    pub sent: Option<SendReport>,
    /// Report of this host's receiver; `None` until available, or if this host is not the receiver. Its records are
    /// delivered once the server's timestamps have arrived or are given up.
    pub received: Option<ReceiveReport>,
    /// Final summary of the server; `None` until it arrives.
    pub results: Option<Results>,
    /// True once the summary has shown that all results of the server have been received.
    pub whole: bool,
    /// Transmit timestamps received from the server so far; `None` if there are none.
    stamps: Option<SentStamps>,
    /// Number of chunks received so far, over all fetches.
    pub chunks: u32,
    /// Number of records or timestamps received so far.
    pub count: u64,
    crcs: crc32fast::Hasher,
    /// Sequence numbers of the packets that arrived on this host; discarded by [`Collection::release`].
    arrived: SeqSet,
    /// Number of packets that reached this host, but were dropped in its own queue.
    pub dropped_here: u64,
}

impl Collection {
    /// Begins a new fetch, starting with chunk [`chunks`](Collection::chunks).
    pub fn begin(&mut self) {
        self.crcs = crc32fast::Hasher::new();
    }

    /// Adds a chunk and returns the records that are ready. `limit` is the maximum number of records or
    /// timestamps.
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
            ChunkData::Records(_) if self.received.is_some() => Err(BadResults::WrongReceiver),
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

    /// Adds the server's summary, and checks that all results have been received.
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

    /// Returns the next block of records received by this host, combined with the server's timestamps; `None` if there
    /// is none.
    pub fn take_block(&mut self) -> Option<Vec<PacketRecord>> {
        let mut block = self.received.as_mut()?.recording.take_block()?;
        if let Some(stamps) = &self.stamps {
            block.iter_mut().for_each(|r| stamps.join(r));
        }
        Some(block)
    }

    /// True if no more results are expected from the server.
    pub(crate) fn is_complete(&self) -> bool {
        self.results.is_some()
    }

    /// Frees memory that is no longer needed once all records have been delivered.
    pub fn release(&mut self) {
        self.stamps = None;
        if let Some(stamps) = self.sent.as_mut().and_then(|sent| sent.stamps.take()) {
            self.dropped_here = stamps.dropped_in_queue(self.arrived.iter().map(i64::from));
            self.arrived = SeqSet::default();
        }
    }

    /// Returns the progress of flow `id` for progress displays: the number of results received so far, and the number
    /// of packets of the test.
    pub fn expected(&self, id: FlowId, packets: u32) -> (FlowId, u64, u64) {
        (id, self.count, packets.into())
    }
}
