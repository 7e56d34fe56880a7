//! The results of a test in memory: the records of the receiver and the kernel's transmit stamps of the sender, and how
//! the two are combined.

use jitlat_core::record::Moment;
use jitlat_core::{PacketRecord, Stamp, StampSource, WallTime};
use std::collections::VecDeque;

/// Records in a chunk of results (version 3), and the unit in which they are delivered.
pub const CHUNK: usize = 1024;
/// Records in a block: a multiple of [`CHUNK`], so that a chunk never straddles two blocks.
const BLOCK: usize = 16 * CHUNK;

/// Received records in arrival order, in blocks that are freed as they are consumed. Bounded: records
/// beyond the limit are counted, not kept.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    blocks: VecDeque<Vec<PacketRecord>>,
    len: usize,
    limit: usize,
    refused: u64,
    spare: Vec<Vec<PacketRecord>>,
}

impl Recording {
    /// An empty recording of at most `limit` records. Memory is allocated block by block, never in advance for a number
    /// that a peer merely claims; see [`reserve`](Recording::reserve).
    pub fn new(limit: usize) -> Recording {
        Recording { limit, ..Recording::default() }
    }

    /// Bytes a full recording of `limit` records takes: what a server counts against its memory.
    pub fn cost(limit: usize) -> u64 {
        limit as u64 * size_of::<PacketRecord>() as u64
    }

    /// Allocates memory for `records` more records now, so that [`push`](Recording::push) does not allocate while
    /// packets fly.
    pub fn reserve(&mut self, records: usize) {
        let room = self.blocks.back().map_or(0, |b| b.capacity() - b.len());
        let wanted = records.min(self.limit - self.len.min(self.limit)).saturating_sub(room);
        while self.spare.len() * BLOCK < wanted {
            let left = wanted - self.spare.len() * BLOCK;
            self.spare.push(Vec::with_capacity(left.min(BLOCK)));
        }
        self.spare.reverse();
    }

    /// Keeps `record`, or counts it as refused when the recording is full. Amortised: one allocation
    /// in 16 384 records where nothing was reserved.
    #[inline]
    pub fn push(&mut self, record: PacketRecord) {
        if self.len >= self.limit {
            self.refused += 1;
            return;
        }
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK && block.len() < block.capacity() => block.push(record),
            Some(block) if block.len() < BLOCK => {
                // A short reserved block (the last one) was too short: grow it once.
                block.reserve_exact(BLOCK - block.len());
                block.push(record);
            }
            _ => {
                let mut block = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK));
                block.push(record);
                self.blocks.push_back(block);
            }
        }
        self.len += 1;
    }

    /// Records kept.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records that arrived after the recording was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Number of chunks of [`CHUNK`] records, the last one possibly shorter.
    pub fn chunks(&self) -> usize {
        self.len.div_ceil(CHUNK)
    }

    /// Chunk `k`, counted from 0; empty beyond the end. Only meaningful before blocks are
    /// [taken](Recording::take_block).
    pub fn chunk(&self, k: usize) -> &[PacketRecord] {
        let per_block = BLOCK / CHUNK;
        let Some(block) = self.blocks.get(k / per_block) else { return &[] };
        let start = (k % per_block * CHUNK).min(block.len());
        &block[start..(start + CHUNK).min(block.len())]
    }

    /// All records in arrival order.
    pub fn iter(&self) -> impl Iterator<Item = &PacketRecord> {
        self.blocks.iter().flatten()
    }

    /// Records from number `k` on, in arrival order. Only valid before blocks are [taken](Recording::take_block).
    pub fn since(&self, k: usize) -> impl Iterator<Item = &PacketRecord> {
        self.blocks.iter().skip(k / BLOCK).flatten().skip(k % BLOCK)
    }

    /// Removes and returns the oldest block.
    pub fn take_block(&mut self) -> Option<Vec<PacketRecord>> {
        let block = self.blocks.pop_front()?;
        self.len -= block.len();
        Some(block)
    }
}

impl Extend<PacketRecord> for Recording {
    fn extend<I: IntoIterator<Item = PacketRecord>>(&mut self, records: I) {
        records.into_iter().for_each(|r| self.push(r));
    }
}

/// The value for a missing stamp.
const MISSING: i64 = i64::MIN;

/// A point in time by sequence number, [`MISSING`] where it is not known: 8 bytes a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TimesBySeq(Vec<i64>);

impl TimesBySeq {
    /// Allocates memory for sequence numbers below `packets` now, all missing.
    fn reserve(&mut self, packets: usize) {
        if packets > self.0.len() {
            self.0.resize(packets, MISSING);
        }
    }

    /// Grows up to the largest number seen.
    #[inline]
    fn set(&mut self, seq: u32, at: WallTime) {
        let seq = seq as usize;
        if seq >= self.0.len() {
            self.reserve(seq + 1);
        }
        self.0[seq] = at.0;
    }

    #[inline]
    fn get(&self, seq: i64) -> Option<WallTime> {
        let at = *self.0.get(usize::try_from(seq).ok()?)?;
        (at != MISSING).then_some(WallTime(at))
    }
}

/// When each packet of a stream really left, by sequence number: 8 bytes a packet; and when it entered the queue of its
/// interface, where the kernel stamped that, for 8 bytes more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentStamps {
    stamps: TimesBySeq,
    entries: TimesBySeq,
    source: StampSource,
}

impl SentStamps {
    /// Without stamps; those to come are of kind `source`.
    pub fn new(source: StampSource) -> SentStamps {
        SentStamps { stamps: TimesBySeq::default(), entries: TimesBySeq::default(), source }
    }

    /// Allocates memory for sequence numbers below `packets` now, all missing.
    pub fn reserve(&mut self, packets: usize) {
        self.stamps.reserve(packets);
    }

    /// Records that packet `seq` left at `at`. Grows up to the largest number seen.
    #[inline]
    pub fn set(&mut self, seq: u32, at: WallTime) {
        self.stamps.set(seq, at);
    }

    /// Allocates memory for the entries of sequence numbers below `packets` now, all missing.
    pub fn reserve_entries(&mut self, packets: usize) {
        self.entries.reserve(packets);
    }

    /// Records that packet `seq` entered the queue of its interface at `at`, by the kernel's clock.
    #[inline]
    pub fn set_entry(&mut self, seq: u32, at: WallTime) {
        self.entries.set(seq, at);
    }

    /// Takes over the entries that `other` has of the same stream.
    pub fn take_entries(&mut self, other: &mut SentStamps) {
        self.entries = std::mem::take(&mut other.entries);
    }

    /// When packet `seq` entered the queue of its interface, if that is known.
    #[inline]
    pub fn entry(&self, seq: i64) -> Option<WallTime> {
        self.entries.get(seq)
    }

    /// When packet `seq` left, if that is known.
    #[inline]
    pub fn get(&self, seq: i64) -> Option<WallTime> {
        self.stamps.get(seq)
    }

    /// The kind of stamps.
    pub fn source(&self) -> StampSource {
        self.source
    }

    /// Sequence numbers covered, with a stamp or without.
    pub fn len(&self) -> usize {
        self.stamps.0.len()
    }

    /// Whether no sequence number is covered.
    pub fn is_empty(&self) -> bool {
        self.stamps.0.is_empty()
    }

    /// Bytes held: 8 for each time.
    pub fn memory(&self) -> u64 {
        8 * (self.stamps.0.len() + self.entries.0.len()) as u64
    }

    /// Sequence numbers with a stamp.
    pub fn known(&self) -> usize {
        self.stamps.0.iter().filter(|&&at| at != MISSING).count()
    }

    /// The raw stamps from sequence number `first` on, at most `count`: `i64::MIN` = missing.
    pub fn raw(&self, first: usize, count: usize) -> &[i64] {
        let start = first.min(self.stamps.0.len());
        &self.stamps.0[start..start.saturating_add(count).min(self.stamps.0.len())]
    }

    /// Packets that the host's own queue dropped: they entered it, the kernel saw none of them leave, and none `arrived`
    /// (numbers, each once). 0 where stamps of packets that arrived are missing, too: then the others' prove nothing.
    pub fn dropped_in_queue(&self, arrived: impl Iterator<Item = i64>) -> u64 {
        let stays = |seq: i64| self.entry(seq).is_some() && self.get(seq).is_none();
        let (mut all, mut unstamped) = (0u64, 0u64);
        for seq in arrived {
            all += 1;
            unstamped += u64::from(stays(seq));
        }
        let stay = (0..self.entries.0.len() as i64).filter(|seq| stays(*seq)).count() as u64;
        if unstamped * 100 > all { 0 } else { stay.saturating_sub(unstamped) }
    }

    /// The raw entries into the queue from sequence number `first` on, `count` of them: `i64::MIN` = missing. Empty if
    /// none of the stream is known.
    pub(crate) fn raw_entries(&self, first: usize, count: usize) -> Vec<i64> {
        let known = if self.entries.0.is_empty() { 0 } else { count };
        (first..first.saturating_add(known))
            .map(|k| self.entries.0.get(k).copied().unwrap_or(MISSING))
            .collect()
    }

    /// Appends raw stamps and entries, as they come from [`raw`](SentStamps::raw) and
    /// [`raw_entries`](SentStamps::raw_entries).
    pub(crate) fn extend_raw(&mut self, stamps: Vec<i64>, entries: Vec<i64>) {
        if !entries.is_empty() {
            self.reserve_entries(self.stamps.0.len());
            self.entries.0.extend(entries);
        }
        self.stamps.0.extend(stamps);
    }

    /// Replaces the sender's own reading in `record` by the stamp of its packet, if there is one, and keeps the
    /// difference as [`send_lag`](PacketRecord::send_lag), that to the entry into the queue as
    /// [`entry_lag`](PacketRecord::entry_lag).
    #[inline]
    pub fn join(&self, record: &mut PacketRecord) {
        let (Some(read), Some(left)) = (record.sent(), self.get(record.seq)) else { return };
        record.set(Moment::Sent, Stamp { at: left, source: self.source });
        record.set_send_lag(left.checked_since(read));
        record.set_entry_lag(self.entry(record.seq).and_then(|entered| entered.checked_since(read)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::Span;

    fn filled(n: usize) -> Recording {
        let mut r = Recording::new(n);
        r.extend((0..n as i64).map(|i| PacketRecord::one_way(i, WallTime(i), WallTime(i))));
        r
    }

    #[test]
    fn chunks_cover_everything_once_in_order() {
        for n in [0, 1, CHUNK - 1, CHUNK, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            let r = filled(n);
            let seqs: Vec<i64> = (0..r.chunks()).flat_map(|k| r.chunk(k)).map(|r| r.seq).collect();
            assert_eq!(seqs, (0..n as i64).collect::<Vec<_>>());
            assert!(r.chunk(r.chunks()).is_empty() && r.chunk(usize::MAX).is_empty());
        }
    }

    #[test]
    fn a_full_recording_counts_what_it_refuses() {
        let mut r = Recording::new(2);
        r.extend((0..5).map(PacketRecord::new));
        assert_eq!((r.len(), r.refused(), r.iter().count()), (2, 3, 2));
    }

    #[test]
    fn reserved_memory_is_used_and_chunks_stay_aligned() {
        let n = 2 * BLOCK + 100;
        let mut r = Recording::new(2 * n);
        r.reserve(n);
        let reserved: usize = r.spare.iter().map(Vec::capacity).sum();
        assert!(reserved >= n && reserved < n + BLOCK, "{reserved}");
        r.extend((0..2 * n as i64).map(PacketRecord::new));
        assert!(r.blocks.iter().rev().skip(1).all(|b| b.len() == BLOCK));
        assert_eq!(r.iter().map(|r| r.seq).collect::<Vec<_>>(), (0..2 * n as i64).collect::<Vec<_>>());
        // A limit that is only claimed allocates nothing.
        assert_eq!(Recording::new(usize::MAX).spare.len(), 0);
    }

    #[test]
    fn blocks_are_freed_as_they_are_taken() {
        let mut r = filled(BLOCK + 5);
        assert_eq!(r.take_block().map(|b| b.len()), Some(BLOCK));
        assert_eq!((r.len(), r.take_block().map(|b| b.len()), r.is_empty()), (5, Some(5), true));
        assert!(r.take_block().is_none());
    }

    #[test]
    fn what_entered_the_queue_and_never_left_was_dropped_there() {
        let mut stamps = SentStamps::new(StampSource::Kernel);
        (0..500).for_each(|seq| stamps.set_entry(seq, WallTime(10)));
        (0..500).filter(|seq| seq % 10 != 0).for_each(|seq| stamps.set(seq, WallTime(20)));
        assert_eq!(stamps.dropped_in_queue((0..500).filter(|seq| seq % 10 != 0)), 50);
        // The stamp of one that arrived was lost.
        assert_eq!(stamps.dropped_in_queue((0..500).filter(|seq| seq % 10 != 0 || *seq == 40)), 49);
        assert_eq!(stamps.dropped_in_queue(0..500), 0, "all arrived: stamps are missing");
        assert_eq!(SentStamps::new(StampSource::Kernel).dropped_in_queue(0..9), 0);
    }

    #[test]
    fn joining_replaces_the_reading_and_keeps_the_lag() {
        let mut stamps = SentStamps::new(StampSource::Kernel);
        stamps.set(2, WallTime(1500));
        stamps.set_entry(2, WallTime(1100));
        let mut hit = PacketRecord::one_way(2, WallTime(1000), WallTime(9000));
        stamps.join(&mut hit);
        assert_eq!(hit.stamp(Moment::Sent), Some(Stamp { at: WallTime(1500), source: StampSource::Kernel }));
        assert_eq!(hit.send_lag(), Some(Span(500)));
        assert_eq!(hit.local_queue(), Some((Span(400), StampSource::Kernel)));
        for seq in [0, 3, -2, i64::MAX] {
            let before = PacketRecord::one_way(seq, WallTime(1000), WallTime(9000));
            let mut after = before;
            stamps.join(&mut after);
            assert_eq!(before, after, "a missing stamp changes nothing");
        }
        assert_eq!((stamps.len(), stamps.known()), (3, 1));
    }
}
