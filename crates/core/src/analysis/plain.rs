//! [`Plain`]: packets that come as they should, by columns: nearly all of nearly all tests. They are taken together; what
//! else there is, row by row.

use crate::metrics::classify::AcceptedPacket;
use crate::metrics::series::{Samples, runs};
use crate::record::PacketRecord;
use std::ops::Range;

/// Most packets taken together.
const MOST: usize = 256;
/// Fewer are not worth it.
const FEWEST: usize = 4;
/// Most packets in any order taken together: those behind them may be in theirs again.
const MIXED: usize = 32;

/// Clean packets in arrival order, of which none came before.
pub(super) struct Plain {
    seq: [u32; MOST],
    sent: [i64; MOST],
    delay: [i64; MOST],
    len: usize,
    /// Whether their numbers ascend.
    ascend: bool,
    /// Whether their rows show the same but for numbers, times and lags.
    pub alike: bool,
    /// Whether any of their rows has lags.
    pub lags: bool,
}

impl Plain {
    /// Without packets.
    pub fn new() -> Plain {
        Plain {
            seq: [0; MOST],
            sent: [0; MOST],
            delay: [0; MOST],
            len: 0,
            ascend: true,
            alike: true,
            lags: false,
        }
    }

    /// Takes the packets with which `records` begins, those with numbers that ascend from `next` on and are below `packets`;
    /// how many: 0 if they are too few to be taken together.
    pub fn take(&mut self, records: &[PacketRecord], next: u64, packets: u32) -> usize {
        let (mut least, end) = (i64::try_from(next).unwrap_or(i64::MAX), i64::from(packets));
        self.len = 0;
        // Where packets overtake one another all the time, this is what nearly all calls end with.
        let Some(begin @ [first, ..]) = records.first_chunk::<FEWEST>() else { return 0 };
        if first.seq < least || !begin.is_sorted_by(|a, b| a.seq < b.seq) {
            return 0;
        }
        self.ascend = true;
        self.take_while(records, |seq| {
            let follows = (least..end).contains(&seq);
            least = seq + 1;
            follows
        });
        if self.len < FEWEST {
            self.len = 0;
        }
        self.len
    }

    /// Takes the packets with which `records` begins and whose numbers are below `packets`, in any order, as long as they
    /// are `new`, which is asked of each once; how many.
    pub fn take_new(
        &mut self,
        records: &[PacketRecord],
        packets: u32,
        mut new: impl FnMut(u32) -> bool,
    ) -> usize {
        let records = &records[..records.len().min(MIXED)];
        self.ascend = false;
        self.take_while(records, |seq| u32::try_from(seq).is_ok_and(|seq| seq < packets && new(seq)));
        self.len
    }

    /// Takes the packets with which `records` begins, as long as they are clean and `is_next` holds for their numbers.
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

    /// Sequence numbers, in order of arrival.
    pub fn seq(&self) -> &[u32] {
        &self.seq[..self.len]
    }

    /// The lowest and the highest of them; none of no packets.
    pub fn ends(&self) -> Option<[u32; 2]> {
        let seq = self.seq();
        let ends = if self.ascend { (seq.first(), seq.last()) } else { (seq.iter().min(), seq.iter().max()) };
        Some([*ends.0?, *ends.1?])
    }

    /// Send times, ns since 1970.
    pub fn sent(&self) -> &[i64] {
        &self.sent[..self.len]
    }

    /// Delays, in ns.
    pub fn delay(&self) -> &[i64] {
        &self.delay[..self.len]
    }

    /// Their numbers by runs of consecutive ones.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        // Nearly always they are one, as ascending numbers are between whose ends there are no more.
        let ends = self.ends().filter(|_| self.ascend);
        let whole = ends.map(|[first, last]| first..last + 1).filter(|all| all.len() == self.len);
        let others = if whole.is_some() { &[] } else { self.seq() };
        whole.into_iter().chain(runs(others))
    }

    /// Adds the packets to those that came before.
    pub fn append_to(&self, samples: &mut Samples) {
        samples.seq.extend_from_slice(self.seq());
        samples.sent.extend_from_slice(self.sent());
        samples.delay.extend_from_slice(self.delay());
    }

    /// The packets.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = AcceptedPacket> + '_ {
        let times = self.sent().iter().zip(self.delay());
        self.seq().iter().zip(times).map(|(&seq, (&sent, &delay))| AcceptedPacket { seq, sent, delay })
    }
}
