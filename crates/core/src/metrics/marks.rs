//! Marks of packets: counts by the mark as sent and the mark as received, losses and delays by mark (metrics page
//! *Marks*; RFC 3168, RFC 9331).

use super::classify::AcceptedPacket;
use super::metric::AcceptedPackets;
use super::stat::quantile_ranks95;
use crate::distribution::{LogHistogram, Percent, Precision};
use crate::ecn::{BLOCK, ByMark, Ecn, EcnMarking};
use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Marks of the packets in one direction, or of round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkFigures {
    /// Marks with which the packets were to be sent.
    pub marking: EcnMarking,
    /// Number of packets sent with each mark that are known to be received or lost; `None` for one direction of a
    /// round-trip test.
    pub sent: Option<ByMark<u64>>,
    /// Number of lost packets by the mark with which they were sent; `None` if `sent` is.
    pub lost: Option<ByMark<u64>>,
    /// Number of packets received, by the mark as sent and then by the mark as received; duplicates count. `None` if
    /// one of the two marks is unknown: for round trips, and if the far host does not report marks.
    pub received: Option<ByMark<ByMark<u64>>>,
    /// Mean delays of ECT packets that arrived with CE and of those that arrived unchanged; `None` without either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_experienced: Option<CeDelay>,
    /// Delays by mark; `None` unless packets of all marks were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<MarkDelay>,
}

/// Mean delays of ECT packets with and without CE on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeDelay {
    /// Mean delay of packets that arrived with CE minus that of packets that arrived unchanged, in ns. Both have the
    /// same mark as sent; of the two marks, this is the difference of the one with more CE.
    pub difference_ns: i64,
    /// Mark with which these packets were sent.
    pub sent: Ecn,
}

/// Delays by mark, compared within blocks: each block consists of one packet of each mark, in random order and with the
/// same spacing. If the mark makes no difference, either sign of a block's difference is equally likely, whatever the
/// delays, because the order is random.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkDelay {
    /// Number of blocks whose four packets all arrived.
    pub blocks: u64,
    /// Delay above the fastest packet of the same block, by mark.
    pub above_fastest: ByMark<AboveFastest>,
    /// Differences of all blocks.
    pub difference: BlockDifference,
    /// Differences of the blocks in which the delays differ by 0.5 ms or more: those that can show a queue.
    pub difference_in_queue: BlockDifference,
}

/// Delay above the fastest packet of the same block; `None` without blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AboveFastest {
    /// Median, in ns.
    pub median_ns: Option<i64>,
    /// 99th percentile, in ns.
    pub p99_ns: Option<i64>,
    /// 10th, 20th … 90th percentile, in ns; empty without blocks.
    pub deciles_ns: Vec<i64>,
}

/// Distribution of the differences of blocks: mean delay of the packets for the classic queue (Not-ECT and ECT(0)) minus
/// that of the packets for the low-latency queue (ECT(1) and CE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockDifference {
    /// Number of blocks.
    pub blocks: u64,
    /// Median, in ns; positive if the packets for the low-latency queue are faster. `None` without blocks.
    pub median_ns: Option<i64>,
    /// 95 % interval of the median from order statistics, in ns; `None` with fewer than six blocks.
    pub interval_ns: Option<[i64; 2]>,
}

/// Minimum difference within a block, in ns, at which the block can show a queue. It is above the noise of most hosts,
/// and does not depend on which packet has which mark.
pub const MIN_SPREAD_NS: i64 = 500_000;
/// Maximum number of blocks of which some packets are still missing.
const MAX_OPEN: usize = 64;

/// Numbers of rows by the mark as sent and the mark as received, and the sum of the delays of each combination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentAndReceived {
    counts: [[u64; 4]; 4],
    delays: [[DelaySum; 4]; 4],
}

/// Sum of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct DelaySum {
    n: u64,
    sum: i128,
}

impl SentAndReceived {
    /// Counts a packet.
    #[inline]
    pub fn add(&mut self, sent: Ecn, received: Ecn, delay: Option<Span>) {
        let [sent, received] = [sent, received].map(|mark| usize::from(mark.bits()));
        self.counts[sent][received] += 1;
        if let Some(delay) = delay {
            let sum = &mut self.delays[sent][received];
            sum.n += 1;
            sum.sum += i128::from(delay.0);
        }
    }

    /// Adds the counts of other packets.
    pub fn merge(&mut self, other: &SentAndReceived) {
        for mark in 0..16 {
            let (sent, received) = (mark / 4, mark % 4);
            self.counts[sent][received] += other.counts[sent][received];
            let (mine, theirs) = (&mut self.delays[sent][received], other.delays[sent][received]);
            mine.n += theirs.n;
            mine.sum = mine.sum.saturating_add(theirs.sum);
        }
    }

    /// Returns true if these counts are possible for `rows` rows.
    pub(crate) fn is_possible(&self, rows: u64) -> bool {
        let counted = self.counts.iter().flatten().try_fold(0_u64, |sum, count| sum.checked_add(*count));
        let sums = self.delays.iter().flatten();
        counted.is_some_and(|n| n <= rows)
            && sums.into_iter().all(|d| d.n <= rows && d.sum.unsigned_abs() <= u128::from(d.n) << 64)
    }

    /// Returns the number of packets sent with `sent` and received with `received`.
    fn count(&self, sent: Ecn, received: Ecn) -> u64 {
        self.counts[usize::from(sent.bits())][usize::from(received.bits())]
    }

    /// Returns the counts; `None` if there are none.
    pub fn counts(&self) -> Option<ByMark<ByMark<u64>>> {
        let counts = ByMark::of(|sent| ByMark::of(|received| self.count(sent, received)));
        Ecn::ALL.iter().any(|sent| counts[*sent].total() > 0).then_some(counts)
    }

    /// Returns the delays of packets with and without CE on arrival.
    pub fn congestion_experienced(&self) -> Option<CeDelay> {
        let mean = |sent: Ecn, received: Ecn| {
            let DelaySum { n, sum } = self.delays[usize::from(sent.bits())][usize::from(received.bits())];
            (n > 0).then(|| sum / i128::from(n))
        };
        let by_ce = [Ecn::Ect1, Ecn::Ect0].into_iter().rev();
        let sent = by_ce.max_by_key(|sent| self.count(*sent, Ecn::Ce))?;
        let difference = mean(sent, Ecn::Ce)? - mean(sent, sent)?;
        Some(CeDelay { difference_ns: i64::try_from(difference).ok()?, sent })
    }
}

/// State of the comparison by mark while packets arrive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MarkBlocks {
    marking: EcnMarking,
    /// Number of accepted packets by the mark with which they were sent.
    received: ByMark<u64>,
    /// Delays of the blocks of which some packets are still missing, by number of the block; `None` for each packet that
    /// is missing.
    open: BTreeMap<u64, [Option<i64>; BLOCK as usize]>,
    above_fastest: ByMark<LogHistogram>,
    differences: LogHistogram,
    differences_in_queue: LogHistogram,
}

impl MarkBlocks {
    /// Starts the comparison of packets that are sent with the marks of `marking`.
    pub fn new(marking: EcnMarking) -> MarkBlocks {
        let empty = || LogHistogram::around(0, Precision::STREAM);
        MarkBlocks {
            marking,
            received: ByMark::default(),
            open: BTreeMap::new(),
            above_fastest: ByMark::of(|_| empty()),
            differences: empty(),
            differences_in_queue: empty(),
        }
    }

    /// Adds the next accepted packets.
    pub(crate) fn push(&mut self, packets: &AcceptedPackets<'_>) {
        if !self.marking.is_on() {
            return;
        }
        for (seq, delay) in packets.seq.iter().zip(packets.delay) {
            self.add(AcceptedPacket { seq: *seq, sent: 0, delay: *delay });
        }
    }

    fn add(&mut self, packet: AcceptedPacket) {
        let seq = u64::from(packet.seq);
        self.received[self.marking.of(seq)] += 1;
        if !self.marking.is_interleaved() {
            return;
        }
        let block = seq / BLOCK;
        let delays = self.open.entry(block).or_default();
        delays[(seq % BLOCK) as usize] = Some(packet.delay);
        if let [Some(a), Some(b), Some(c), Some(d)] = *delays {
            self.open.remove(&block);
            self.close(block, [a, b, c, d]);
        } else if self.open.len() > MAX_OPEN {
            // The oldest block lacks a packet that was lost.
            self.open.pop_first();
        }
    }

    /// Adds a block whose packets all arrived.
    fn close(&mut self, block: u64, delays: [i64; BLOCK as usize]) {
        let fastest = delays.into_iter().min().unwrap_or(0);
        let (mut sum, mut spread) = (0_i64, 0);
        for (seq, delay) in (block * BLOCK..).zip(delays) {
            let (mark, above) = (self.marking.of(seq), delay.saturating_sub(fastest));
            self.above_fastest[mark].add(above);
            spread = spread.max(above);
            sum = if mark.is_l4s() { sum.saturating_sub(above) } else { sum.saturating_add(above) };
        }
        let difference = sum / 2;
        self.differences.add(difference);
        if spread >= MIN_SPREAD_NS {
            self.differences_in_queue.add(difference);
        }
    }

    /// Adds the packets of a later part that are not in `lead`, its first packets, which this state already has.
    pub(crate) fn join(&mut self, later: MarkBlocks, lead: &MarkBlocks) {
        let add = |mine: &mut LogHistogram, later: &LogHistogram, lead: &LogHistogram| {
            mine.merge(&later.less(lead));
        };
        for mark in Ecn::ALL {
            self.received[mark] += later.received[mark].saturating_sub(lead.received[mark]);
            add(&mut self.above_fastest[mark], &later.above_fastest[mark], &lead.above_fastest[mark]);
        }
        add(&mut self.differences, &later.differences, &lead.differences);
        add(&mut self.differences_in_queue, &later.differences_in_queue, &lead.differences_in_queue);
        // The later part has counted the blocks of the earlier part that were still open and became complete; the others lack
        // a lost packet.
        self.open = later.open;
    }

    /// Returns true if this can be the state after `n` packets.
    pub(crate) fn is_possible(&self, n: u64) -> bool {
        let blocks = self.differences.len();
        blocks <= n / BLOCK
            && self.open.len() <= MAX_OPEN + 1
            && Ecn::ALL
                .iter()
                .all(|mark| self.received[*mark] <= n && self.above_fastest[*mark].is_possible(blocks))
            && self.differences.is_possible(blocks)
            && self.differences_in_queue.is_possible(self.differences_in_queue.len())
            && self.differences_in_queue.len() <= blocks
    }

    /// Returns the number of accepted packets by the mark with which they were sent.
    pub fn received(&self) -> ByMark<u64> {
        self.received
    }

    /// Returns the delays by mark; `None` if not all marks were sent.
    pub fn delay(&self) -> Option<MarkDelay> {
        let above = |mark: Ecn| {
            let values = self.above_fastest[mark].quantiles();
            AboveFastest {
                median_ns: values.edf(Percent(50_000)),
                p99_ns: values.edf(Percent(99_000)),
                deciles_ns: (1..10).filter_map(|tenth| values.edf(Percent(10_000 * tenth))).collect(),
            }
        };
        self.marking.is_interleaved().then(|| MarkDelay {
            blocks: self.differences.len(),
            above_fastest: ByMark::of(above),
            difference: BlockDifference::of(&self.differences),
            difference_in_queue: BlockDifference::of(&self.differences_in_queue),
        })
    }
}

impl BlockDifference {
    fn of(differences: &LogHistogram) -> BlockDifference {
        let (blocks, values) = (differences.len(), differences.quantiles());
        let at = |rank: u64| {
            let mut before = 0;
            let found = values.values().find(|(_, count)| {
                before += count;
                before >= rank
            });
            found.map(|(value, _)| value)
        };
        // The interval needs no assumption about the delays, because the order of the marks in each block is random.
        let ranks = quantile_ranks95(blocks, 0.5).filter(|(low, high, _)| *low >= 1 && *high <= blocks);
        BlockDifference {
            blocks,
            median_ns: values.edf(Percent(50_000)),
            interval_ns: ranks.and_then(|(low, high, _)| Some([at(low)?, at(high)?])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: EcnMarking = EcnMarking::Both { seed: 11 };

    /// State after packets `range`, whose delays `delay` returns.
    fn after(range: core::ops::Range<u32>, delay: impl Fn(u32, Ecn) -> i64) -> MarkBlocks {
        let mut blocks = MarkBlocks::new(SEED);
        for seq in range {
            blocks.add(AcceptedPacket { seq, sent: 0, delay: delay(seq, SEED.of(seq.into())) });
        }
        blocks
    }

    /// Pseudo-random delays of up to 18 ms that do not depend on marks.
    fn jitter(seq: u32) -> i64 {
        let mut z = (u64::from(seq) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        1_000_000 + (z >> 40) as i64
    }

    #[test]
    fn a_queue_for_some_marks_shows_and_a_queue_for_all_does_not() {
        let dual = after(0..4000, |seq, mark| jitter(seq) / 10 + if mark.is_l4s() { 0 } else { 30_000_000 });
        let delay = dual.delay().unwrap();
        assert_eq!((delay.blocks, delay.difference_in_queue.blocks), (1000, 1000));
        let [low, high] = delay.difference.interval_ns.unwrap();
        assert!(29_000_000 < low && low < high && high < 31_000_000, "{delay:?}");
        assert!(delay.above_fastest.ect1.median_ns.unwrap() < 2_000_000, "{delay:?}");
        assert!(delay.above_fastest.not_ect.median_ns.unwrap() > 28_000_000, "{delay:?}");
        let single = after(0..4000, |seq, _| jitter(seq)).delay().unwrap();
        let [low, high] = single.difference.interval_ns.unwrap();
        assert!(low < 0 && high > 0, "{single:?}");
    }

    #[test]
    fn the_interval_excludes_zero_in_one_of_twenty_tests_without_a_difference() {
        let mut wrong = 0;
        for test in 0..400_u64 {
            let mut blocks = MarkBlocks::new(EcnMarking::Both { seed: test });
            for seq in 0..800_u32 {
                // A queue that rises and falls, so that neighbours have similar delays.
                let delay = 8_000_000 + (f64::from(seq) / 9.0).sin() as i64 * 4_000_000 + jitter(seq) / 4;
                blocks.add(AcceptedPacket { seq, sent: 0, delay });
            }
            let [low, high] = blocks.delay().unwrap().difference_in_queue.interval_ns.unwrap();
            wrong += u32::from(low > 0 || high < 0);
        }
        assert!((4..=40).contains(&wrong), "{wrong} of 400");
    }

    #[test]
    fn joined_parts_equal_the_whole() {
        let delay = |seq: u32, mark: Ecn| jitter(seq) + i64::from(mark.bits()) * 700_000;
        for (cut, lead) in [(2000, 2300), (2001, 2302), (1998, 2100)] {
            let whole = after(0..5000, delay);
            let mut joined = after(0..lead, delay);
            joined.join(after(cut..5000, delay), &after(cut..lead, delay));
            assert_eq!(
                (joined.received(), joined.delay()),
                (whole.received(), whole.delay()),
                "{cut} {lead}"
            );
        }
    }

    #[test]
    fn a_block_that_lacks_a_packet_does_not_count_and_memory_is_bounded() {
        let mut blocks = MarkBlocks::new(SEED);
        (0..40_000).filter(|seq| seq % 4 != 1).for_each(|seq| {
            blocks.add(AcceptedPacket { seq, sent: 0, delay: 1 });
        });
        assert_eq!(blocks.delay().unwrap().blocks, 0);
        assert!(blocks.open.len() <= MAX_OPEN && blocks.is_possible(30_000));
        assert_eq!(blocks.received().total(), 30_000);
        assert_eq!(blocks.delay().unwrap().difference, BlockDifference::default());
    }

    #[test]
    fn delays_with_ce_are_compared_with_those_of_the_same_mark() {
        let mut rows = SentAndReceived::default();
        for k in 0..10 {
            rows.add(Ecn::Ect0, Ecn::Ect0, Some(Span(90_000 + k)));
            rows.add(Ecn::Ect1, Ecn::Ect1, Some(Span(1000)));
        }
        assert_eq!(rows.congestion_experienced(), None);
        rows.add(Ecn::Ect1, Ecn::Ce, Some(Span(3000)));
        rows.add(Ecn::Ce, Ecn::Ce, Some(Span(500_000)));
        let found = rows.congestion_experienced();
        assert_eq!(found, Some(CeDelay { difference_ns: 2000, sent: Ecn::Ect1 }));
        let counts = rows.counts().unwrap();
        assert_eq!((counts.ect1.ect1, counts.ect1.ce, counts.ect0.ect0, counts.ce.ce), (10, 1, 10, 1));
        assert!(rows.is_possible(22) && !rows.is_possible(21));
        let mut twice = rows.clone();
        twice.merge(&rows);
        assert_eq!(twice.counts().unwrap().ect1.ect1, 20);
    }
}
