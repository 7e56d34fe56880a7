//! From the packet threads to memory: a ring that is filled without allocating, locking or waiting, and
//! a store that gives its memory back as it is read.

use jitlat_core::spec::TestSpec;
use jitlat_core::time::SECOND;
use jitlat_core::{PacketRecord, Session};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One direction of one test: its context and its packets in arrival order.
#[derive(Debug)]
pub struct Recording {
    /// The context.
    pub session: Session,
    /// The packets.
    pub records: Records,
}

/// Records of a store's chunk: just under a megabyte.
const CHUNK: usize = 1 << 14;

/// Packet records in arrival order, in chunks: growing never copies more than one chunk, and iterating
/// by value frees each chunk as soon as it is consumed.
#[derive(Clone, Debug, Default)]
pub struct Records {
    chunks: VecDeque<Vec<PacketRecord>>,
    len: usize,
}

impl Records {
    /// No records.
    pub fn new() -> Records {
        Records::default()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one at the end.
    pub fn push(&mut self, record: PacketRecord) {
        self.extend_from_slice(&[record]);
    }

    /// Adds many at the end.
    pub fn extend_from_slice(&mut self, mut records: &[PacketRecord]) {
        self.len += records.len();
        while !records.is_empty() {
            let room = self.chunks.back().map_or(0, |last| CHUNK - last.len());
            if room == 0 {
                // The first chunk grows as a Vec does, so that a short test stays small.
                let whole = if self.chunks.is_empty() { 0 } else { CHUNK };
                self.chunks.push_back(Vec::with_capacity(whole));
                continue;
            }
            let (now, later) = records.split_at(room.min(records.len()));
            if let Some(last) = self.chunks.back_mut() {
                last.extend_from_slice(now);
            }
            records = later;
        }
    }

    /// The records in order, in runs that lie together in memory.
    pub fn runs(&self) -> impl Iterator<Item = &[PacketRecord]> {
        self.chunks.iter().map(Vec::as_slice)
    }

    /// The records in order.
    pub fn iter(&self) -> impl Iterator<Item = &PacketRecord> {
        self.chunks.iter().flatten()
    }

    /// The records in order, to be amended in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PacketRecord> {
        self.chunks.iter_mut().flatten()
    }
}

impl IntoIterator for Records {
    type Item = PacketRecord;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<Vec<PacketRecord>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.into_iter().flatten()
    }
}

impl FromIterator<PacketRecord> for Records {
    fn from_iter<I: IntoIterator<Item = PacketRecord>>(records: I) -> Records {
        let mut all = Records::new();
        records.into_iter().for_each(|r| all.push(r));
        all
    }
}

/// Records that a test of `spec` may bring: every packet, and generous room for duplicates.
pub fn most_records(spec: &TestSpec) -> usize {
    let packets = spec.packets() as usize;
    packets.saturating_add(packets / 4).saturating_add(4096)
}

/// Slots of the ring between a packet thread and its reader: two seconds of the stream, but not more
/// than a sixteenth of it unless that is little.
fn slots(spec: &TestSpec) -> usize {
    let two_seconds = (2 * SECOND / spec.period().0.max(1)) as usize;
    let share = most_records(spec) / 16;
    two_seconds.min(share).clamp(1 << 13, 1 << 19).min(most_records(spec))
}

/// A ring for the items of one stream of `spec`: the packet thread's end and the reader's.
pub fn ring<T>(spec: &TestSpec) -> (Intake<T>, Outlet<T>) {
    let (producer, consumer) = rtrb::RingBuffer::new(slots(spec));
    let overflow = Arc::new(AtomicU64::new(0));
    (Intake { ring: producer, overflow: overflow.clone() }, Outlet { ring: consumer, overflow })
}

/// The packet thread's end of a ring.
pub struct Intake<T> {
    ring: rtrb::Producer<T>,
    overflow: Arc<AtomicU64>,
}

impl<T> Intake<T> {
    /// Puts one in. Where the reader has fallen behind by the whole ring it is lost, and counted.
    #[inline]
    pub fn push(&mut self, item: T) {
        if self.ring.push(item).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The reader's end of a ring.
pub struct Outlet<T> {
    ring: rtrb::Consumer<T>,
    overflow: Arc<AtomicU64>,
}

impl<T> Outlet<T> {
    /// Hands over what is in the ring, in order, in at most two slices, and makes room.
    pub fn drain(&mut self, mut each: impl FnMut(&[T])) {
        let waiting = self.ring.slots();
        if let Ok(chunk) = self.ring.read_chunk(waiting) {
            let (first, second) = chunk.as_slices();
            for run in [first, second] {
                if !run.is_empty() {
                    each(run);
                }
            }
            chunk.commit_all();
        }
    }

    /// Items lost because the ring was full.
    pub fn overflow(&self) -> u64 {
        self.overflow.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::Span;
    use jitlat_core::{Direction, Schedule, Transport};

    fn spec(packets: u64, period: Span) -> TestSpec {
        TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap()
    }

    #[test]
    fn records_keep_their_order_across_chunks() {
        let n = 3 * CHUNK + 5;
        let mut all: Records = (0..CHUNK as i64 - 1).map(PacketRecord::new).collect();
        let rest: Vec<_> = (CHUNK as i64 - 1..n as i64).map(PacketRecord::new).collect();
        all.extend_from_slice(&rest);
        assert_eq!((all.len(), all.runs().count()), (n, 4));
        assert!(all.iter().enumerate().all(|(i, r)| r.seq == i as i64));
        assert!(all.into_iter().enumerate().all(|(i, r)| r.seq == i as i64));
    }

    #[test]
    fn a_full_ring_counts_what_it_loses() {
        let (mut intake, mut outlet) = ring(&spec(10, Span::millis(20)));
        let room = most_records(&spec(10, Span::millis(20))) as u64;
        for i in 0..room + 3 {
            intake.push(i);
        }
        let mut seen = Vec::new();
        outlet.drain(|run| seen.extend_from_slice(run));
        assert_eq!((seen.len() as u64, outlet.overflow()), (room, 3));
        intake.push(7);
        outlet.drain(|run| assert_eq!(run, [7]));
    }

    #[test]
    fn rings_are_small_beside_what_they_carry() {
        for (n, period) in
            [(1_000_000, Span::micros(10)), (i32::MAX as u64, Span(1)), (100, Span::seconds(1))]
        {
            let spec = spec(n, period);
            assert!(slots(&spec) <= (most_records(&spec) / 16).max(1 << 13), "{n}");
        }
    }
}
