//! Results of a test in memory: the records of the receiver, the kernel's transmit timestamps of the sender,
//! and both combined.

use jitlat_core::record::Moment;
use jitlat_core::{PacketRecord, Stamp, StampSource, WallTime};
use std::collections::VecDeque;

/// Number of records per chunk of results (version 3); also the unit of delivery.
pub const CHUNK: usize = 1024;
/// Number of records per block: a multiple of [`CHUNK`], so that no chunk spans two blocks.
const BLOCK: usize = 16 * CHUNK;

/// Received records in arrival order, in blocks that are freed as they are consumed. Memory is bounded:
/// records beyond the limit are counted, but not stored.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    blocks: VecDeque<Vec<PacketRecord>>,
    len: usize,
    limit: usize,
    refused: u64,
    spare: Vec<Vec<PacketRecord>>,
}

impl Recording {
    /// Creates an empty recording of at most `limit` records. Memory is allocated block by block, because a
    /// peer may request any number; see [`reserve`](Recording::reserve).
    pub fn new(limit: usize) -> Recording {
        Recording { limit, ..Recording::default() }
    }

    /// Returns the memory of a full recording of `limit` records, in bytes. A server counts it against its
    /// memory limit.
    pub fn cost(limit: usize) -> u64 {
        limit as u64 * size_of::<PacketRecord>() as u64
    }

    /// Allocates memory for `records` more records now, so that [`push`](Recording::push) does not allocate
    /// while packets arrive.
    pub fn reserve(&mut self, records: usize) {
        let room = self.blocks.back().map_or(0, |b| b.capacity() - b.len());
        let wanted = records.min(self.limit - self.len.min(self.limit)).saturating_sub(room);
        while self.spare.len() * BLOCK < wanted {
            let left = wanted - self.spare.len() * BLOCK;
            self.spare.push(Vec::with_capacity(left.min(BLOCK)));
        }
        self.spare.reverse();
    }

    /// Stores `record`, or counts it as refused if the recording is full. Without reserved memory, allocates
    /// once per 16 384 records.
    #[inline]
    pub fn push(&mut self, record: PacketRecord) {
        if self.len >= self.limit {
            self.refused += 1;
            return;
        }
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK && block.len() < block.capacity() => block.push(record),
            Some(block) if block.len() < BLOCK => {
                // The reserved block is full, but shorter than a whole block because it was the last one, so
                // it grows once.
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

    /// Returns the number of stored records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no records are stored.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of records that arrived after the recording was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the number of chunks of [`CHUNK`] records; the last one may be shorter.
    pub fn chunks(&self) -> usize {
        self.len.div_ceil(CHUNK)
    }

    /// Returns chunk `k`, counted from 0; empty beyond the end. Only valid until the first call of
    /// [`take_block`](Recording::take_block).
    pub fn chunk(&self, k: usize) -> &[PacketRecord] {
        let per_block = BLOCK / CHUNK;
        let Some(block) = self.blocks.get(k / per_block) else { return &[] };
        let start = (k % per_block * CHUNK).min(block.len());
        &block[start..(start + CHUNK).min(block.len())]
    }

    /// Returns all records in arrival order.
    pub fn iter(&self) -> impl Iterator<Item = &PacketRecord> {
        self.blocks.iter().flatten()
    }

    /// Returns the records from index `k` to the end, in arrival order. Only valid until the first call of
    /// [`take_block`](Recording::take_block).
    pub fn since(&self, k: usize) -> impl Iterator<Item = &PacketRecord> {
        self.blocks.iter().skip(k / BLOCK).flatten().skip(k % BLOCK)
    }

    /// Removes and returns the oldest block; `None` if there is none.
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

/// Value of a missing timestamp.
const MISSING: i64 = i64::MIN;

/// Times by sequence number; [`MISSING`] if unknown. Needs 8 bytes per packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TimesBySeq(Vec<i64>);

impl TimesBySeq {
    /// Allocates memory for sequence numbers below `packets` now; all times are missing.
    fn reserve(&mut self, packets: usize) {
        if packets > self.0.len() {
            self.0.resize(packets, MISSING);
        }
    }

    /// Sets the time of a packet. Memory grows up to the largest sequence number seen.
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

/// Transmit times of the packets of a stream by sequence number (8 bytes per packet), and the times at which the
/// packets entered the queue of the interface, if the kernel reported them (8 bytes more).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentStamps {
    stamps: TimesBySeq,
    entries: TimesBySeq,
    source: StampSource,
}

impl SentStamps {
    /// Creates an empty table for timestamps from `source`.
    pub fn new(source: StampSource) -> SentStamps {
        SentStamps { stamps: TimesBySeq::default(), entries: TimesBySeq::default(), source }
    }

    /// Allocates memory for sequence numbers below `packets` now; all times are missing.
    pub fn reserve(&mut self, packets: usize) {
        self.stamps.reserve(packets);
    }

    /// Records that packet `seq` left at `at`. Memory grows up to the largest sequence number seen.
    #[inline]
    pub fn set(&mut self, seq: u32, at: WallTime) {
        self.stamps.set(seq, at);
    }

    /// Allocates memory for the queue times of sequence numbers below `packets` now; all are missing.
    pub fn reserve_entries(&mut self, packets: usize) {
        self.entries.reserve(packets);
    }

    /// Records that packet `seq` entered the queue of its interface at `at`, by the kernel's clock.
    #[inline]
    pub fn set_entry(&mut self, seq: u32, at: WallTime) {
        self.entries.set(seq, at);
    }

    /// Moves the queue times from `other`, which belongs to the same stream, to this table.
    pub fn take_entries(&mut self, other: &mut SentStamps) {
        self.entries = std::mem::take(&mut other.entries);
    }

    /// Returns the time at which packet `seq` entered the queue of its interface; `None` if unknown.
    #[inline]
    pub fn entry(&self, seq: i64) -> Option<WallTime> {
        self.entries.get(seq)
    }

    /// Returns the time at which packet `seq` left; `None` if unknown.
    #[inline]
    pub fn get(&self, seq: i64) -> Option<WallTime> {
        self.stamps.get(seq)
    }

    /// Returns the source of the timestamps.
    pub fn source(&self) -> StampSource {
        self.source
    }

    /// Returns the number of sequence numbers covered, with or without a timestamp.
    pub fn len(&self) -> usize {
        self.stamps.0.len()
    }

    /// True if no sequence number is covered.
    pub fn is_empty(&self) -> bool {
        self.stamps.0.is_empty()
    }

    /// Returns the memory in use, in bytes: 8 for each time.
    pub fn memory(&self) -> u64 {
        8 * (self.stamps.0.len() + self.entries.0.len()) as u64
    }

    /// Returns the number of packets with a timestamp.
    pub fn known(&self) -> usize {
        self.stamps.0.iter().filter(|&&at| at != MISSING).count()
    }

    /// Returns at most `count` raw timestamps, starting with sequence number `first`; `i64::MIN`: missing.
    pub fn raw(&self, first: usize, count: usize) -> &[i64] {
        let start = first.min(self.stamps.0.len());
        &self.stamps.0[start..start.saturating_add(count).min(self.stamps.0.len())]
    }

    /// Returns the number of packets dropped in the host's own queue: their entry into the queue is recorded, but they
    /// did not leave according to the kernel, and they are not in `arrived` (sequence numbers without duplicates).
    /// Returns 0 if timestamps of more than 1 % of the arrived packets are missing, because a missing timestamp then
    /// proves nothing.
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

    /// Returns `count` raw queue times, starting with sequence number `first`; `i64::MIN`: missing. Empty if
    /// the stream has no queue times.
    pub(crate) fn raw_entries(&self, first: usize, count: usize) -> Vec<i64> {
        let known = if self.entries.0.is_empty() { 0 } else { count };
        (first..first.saturating_add(known))
            .map(|k| self.entries.0.get(k).copied().unwrap_or(MISSING))
            .collect()
    }

    /// Appends raw timestamps and queue times from [`raw`](SentStamps::raw) and
    /// [`raw_entries`](SentStamps::raw_entries).
    pub(crate) fn extend_raw(&mut self, stamps: Vec<i64>, entries: Vec<i64>) {
        if !entries.is_empty() {
            self.reserve_entries(self.stamps.0.len());
            self.entries.0.extend(entries);
        }
        self.stamps.0.extend(stamps);
    }

    /// Replaces the sender's own clock reading in `record` by the packet's timestamp, if there is one. Stores
    /// the time from the reading to departure as [`send_lag`](PacketRecord::send_lag), and the time from the
    /// reading until the packet entered the queue as [`entry_lag`](PacketRecord::entry_lag).
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
        // A large limit by itself allocates nothing.
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
        // The timestamp of an arrived packet is missing.
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
