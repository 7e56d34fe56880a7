//! [`OpenGaps`]: ranges of a stream that are missing although later segments were seen.

use jitlat_core::time::WallTime;

/// Maximum number of open gaps in a direction; beyond that, the earliest in the stream is counted as unfilled.
const MAX_GAPS: usize = 256;

/// A skipped range of the stream: sequence numbers from `start` to `end` (exclusive), unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceGap {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Time at which a later segment was first seen.
    pub(super) opened: WallTime,
    /// IP identification of the segment that opened the gap; 0: none.
    pub(super) opener: u32,
}

/// Open gaps of one direction, in the order of the stream; no two are adjacent.
#[derive(Debug, Default)]
pub(super) struct OpenGaps {
    open: Vec<SequenceGap>,
    /// Number of gaps that were acknowledged although they were never filled here, or given up because there
    /// were more than [`MAX_GAPS`].
    unfilled: u64,
}

impl OpenGaps {
    /// Opens a gap after all others in the stream.
    pub(super) fn open(&mut self, gap: SequenceGap) {
        self.open.push(gap);
        self.limit();
    }

    /// Removes the sequence numbers of a segment from the gaps; returns the parts that it fills, in the order
    /// of the stream.
    pub(super) fn fill(&mut self, start: u64, end: u64) -> Vec<SequenceGap> {
        let from = self.open.partition_point(|g| g.end <= start);
        let to = from + self.open[from..].partition_point(|g| g.start < end);
        let (Some(first), Some(last)) = (self.open[from..to].first(), self.open[from..to].last()) else {
            return Vec::new();
        };
        let left = [SequenceGap { end: start, ..*first }, SequenceGap { start: end, ..*last }];
        let left = left.into_iter().filter(|g| g.start < g.end);
        let touched: Vec<SequenceGap> = self.open.splice(from..to, left).collect();
        self.limit();
        touched
            .into_iter()
            .map(|g| SequenceGap { start: g.start.max(start), end: g.end.min(end), ..g })
            .collect()
    }

    /// Records that everything before `ack` has arrived: the capture missed the data of the remaining gaps.
    pub(super) fn acknowledge(&mut self, ack: u64) {
        if self.open.is_empty() {
            return;
        }
        let arrived = self.open.partition_point(|g| g.end <= ack);
        self.unfilled += self.open.drain(..arrived).count() as u64;
    }

    /// Number of gaps that were not filled so far.
    pub(super) fn unfilled(&self) -> u64 {
        self.unfilled + self.open.len() as u64
    }

    fn limit(&mut self) {
        let beyond = self.open.len().saturating_sub(MAX_GAPS);
        self.unfilled += self.open.drain(..beyond).count() as u64;
    }

    /// The open gaps.
    #[cfg(test)]
    pub(super) fn list(&self) -> &[SequenceGap] {
        &self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(list: &[(u64, u64)]) -> OpenGaps {
        let mut gaps = OpenGaps::default();
        list.iter().for_each(|&(start, end)| {
            gaps.open(SequenceGap { start, end, opened: WallTime(start as i64), opener: 0 });
        });
        gaps
    }

    fn parts(list: &[SequenceGap]) -> Vec<(u64, u64, i64)> {
        list.iter().map(|g| (g.start, g.end, g.opened.0)).collect()
    }

    #[test]
    fn a_segment_fills_what_it_covers_of_each_gap() {
        let mut g = gaps(&[(10, 20), (30, 40), (50, 60)]);
        assert_eq!(parts(&g.fill(20, 30)), [], "between two gaps");
        assert_eq!(parts(&g.fill(15, 35)), [(15, 20, 10), (30, 35, 30)]);
        assert_eq!(parts(g.list()), [(10, 15, 10), (35, 40, 30), (50, 60, 50)]);
        assert_eq!(parts(&g.fill(52, 54)), [(52, 54, 50)]);
        assert_eq!(parts(g.list()), [(10, 15, 10), (35, 40, 30), (50, 52, 50), (54, 60, 50)]);
        assert_eq!(g.fill(0, 100).len(), 4);
        assert_eq!(g.unfilled(), 0);
    }

    #[test]
    fn acknowledged_gaps_are_counted_and_forgotten() {
        let mut g = gaps(&[(10, 20), (30, 40), (50, 60)]);
        g.acknowledge(40);
        assert_eq!((parts(g.list()), g.unfilled()), (vec![(50, 60, 50)], 3));
        g.acknowledge(59);
        assert_eq!(g.list().len(), 1);
    }

    #[test]
    fn more_gaps_than_fit_are_counted() {
        let list: Vec<_> = (0..300).map(|i| (i * 10, i * 10 + 5)).collect();
        let g = gaps(&list);
        assert_eq!((g.list().len(), g.unfilled()), (MAX_GAPS, 300));
        assert_eq!(g.list().first().map(|g| g.start), Some(440));
    }
}
