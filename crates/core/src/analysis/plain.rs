//! [`Plain`]: the fast path. Clean packets, the majority in most tests, are processed together as columns; all others
//! are processed row by row.

use crate::metrics::classify::AcceptedPacket;
use crate::metrics::series::{Samples, runs};
use crate::record::PacketRecord;
use std::ops::Range;

/// Maximum number of packets processed together.
const MAX_PACKETS: usize = 256;
/// Minimum number of in-order packets that are processed together. With fewer, the overhead is not worthwhile.
const MIN_PACKETS: usize = 4;
/// Maximum number of out-of-order packets processed together. After that many, packets may be in order again.
const MAX_UNORDERED: usize = 32;

/// Clean packets in arrival order, all of them new.
pub(super) struct Plain {
    seq: [u32; MAX_PACKETS],
    sent: [i64; MAX_PACKETS],
    delay: [i64; MAX_PACKETS],
    len: usize,
    /// True if the sequence numbers ascend.
    ascend: bool,
    /// True if the rows differ only in sequence numbers, times and lags.
    pub alike: bool,
    /// True if any row has lags.
    pub lags: bool,
}

impl Plain {
    /// Creates an empty set of columns.
    pub fn new() -> Plain {
        Plain {
            seq: [0; MAX_PACKETS],
            sent: [0; MAX_PACKETS],
            delay: [0; MAX_PACKETS],
            len: 0,
            ascend: true,
            alike: true,
            lags: false,
        }
    }

    /// Takes the packets at the start of `records` whose numbers ascend from `next` and are below `packets`.
    /// Returns their number; 0 if there are too few to be processed together.
    pub fn take(&mut self, records: &[PacketRecord], next: u64, packets: u32) -> usize {
        let (mut least, end) = (i64::try_from(next).unwrap_or(i64::MAX), i64::from(packets));
        self.len = 0;
        // On a path with constant reordering, nearly all calls return here.
        let Some(begin @ [first, ..]) = records.first_chunk::<MIN_PACKETS>() else { return 0 };
        if first.seq < least || !begin.is_sorted_by(|a, b| a.seq < b.seq) {
            return 0;
        }
        self.ascend = true;
        self.take_while(records, |seq| {
            let follows = (least..end).contains(&seq);
            least = seq + 1;
            follows
        });
        if self.len < MIN_PACKETS {
            self.len = 0;
        }
        self.len
    }

    /// Takes at most [`MAX_UNORDERED`] packets from the start of `records` and returns their number. Stops at the first
    /// packet that is not clean, whose number is not below `packets`, or for which `new` returns false. The numbers may
    /// be in any order. Calls `new` once per packet.
    pub fn take_new(
        &mut self,
        records: &[PacketRecord],
        packets: u32,
        mut new: impl FnMut(u32) -> bool,
    ) -> usize {
        let records = &records[..records.len().min(MAX_UNORDERED)];
        self.ascend = false;
        self.take_while(records, |seq| u32::try_from(seq).is_ok_and(|seq| seq < packets && new(seq)));
        self.len
    }

    /// Takes the packets at the start of `records` while they are clean and `is_next` returns true for their
    /// numbers.
    #[inline]
    fn take_while(&mut self, records: &[PacketRecord], mut is_next: impl FnMut(i64) -> bool) {
        (self.len, self.alike, self.lags) = (0, true, false);
        let Some(first) = records.first() else { return };
        let columns = self.seq.iter_mut().zip(&mut self.sent).zip(&mut self.delay);
        for (record, ((seq, sent), delay)) in records.iter().zip(columns) {
            let Some(times) = record.clean().filter(|_| is_next(record.seq)) else { break };
            (*sent, *delay) = times;
            *seq = record.seq as u32;
            self.alike &= record.is_like(first);
            self.lags |= record.has_lags();
            self.len += 1;
        }
    }

    /// Returns the sequence numbers, in arrival order.
    pub fn seq(&self) -> &[u32] {
        &self.seq[..self.len]
    }

    /// Returns the lowest and the highest sequence number; `None` without packets.
    pub fn ends(&self) -> Option<[u32; 2]> {
        let seq = self.seq();
        let ends = if self.ascend { (seq.first(), seq.last()) } else { (seq.iter().min(), seq.iter().max()) };
        Some([*ends.0?, *ends.1?])
    }

    /// Returns the send times, in ns since 1970.
    pub fn sent(&self) -> &[i64] {
        &self.sent[..self.len]
    }

    /// Returns the delays, in ns.
    pub fn delay(&self) -> &[i64] {
        &self.delay[..self.len]
    }

    /// Returns the sequence numbers as runs of consecutive numbers.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        // Nearly always the numbers form one run: they ascend, and the ends differ by as much as the count.
        let ends = self.ends().filter(|_| self.ascend);
        let whole = ends.map(|[first, last]| first..last + 1).filter(|all| all.len() == self.len);
        let others = if whole.is_some() { &[] } else { self.seq() };
        whole.into_iter().chain(runs(others))
    }

    /// Appends the packets to `samples`.
    pub fn append_to(&self, samples: &mut Samples) {
        samples.seq.extend_from_slice(self.seq());
        samples.sent.extend_from_slice(self.sent());
        samples.delay.extend_from_slice(self.delay());
    }

    /// Iterates over the packets.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = AcceptedPacket> + '_ {
        let times = self.sent().iter().zip(self.delay());
        self.seq().iter().zip(times).map(|(&seq, (&sent, &delay))| AcceptedPacket { seq, sent, delay })
    }
}
