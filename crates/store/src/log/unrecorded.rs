//! [`Unrecorded`]: sequence numbers within a log that have no row because rows are missing. It is unknown whether these
//! packets were received.

use jitlat_core::PacketRecord;
use jitlat_core::metrics::seqset::SeqRun;

/// Maximum number of runs that are stored, which limits the memory that a hostile log can use. Packets of further runs
/// count as lost.
const MAX_RUNS: usize = 1 << 12;

/// Collects unrecorded sequence numbers while rows are read. Missing rows leave a gap between the highest number before
/// them and the next higher number after them. All numbers in the gap are unrecorded, unless they arrive later.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    /// End of the range of sequence numbers in the test.
    end: u64,
    /// Highest sequence number so far, plus 1.
    next: u64,
    /// `Some` if rows are missing after the highest sequence number so far; true if that is certain.
    missing: Option<bool>,
    /// Unrecorded runs, ascending, each with true if the run is certain.
    runs: Vec<(SeqRun, bool)>,
}

impl Unrecorded {
    /// Sets the number of packets of the test.
    pub(super) fn set_packets(&mut self, packets: u64) {
        self.end = packets;
    }

    /// Records that rows are missing before the next row. This is not certain if only the numbering of rows has a gap:
    /// rows may have been numbered differently.
    pub(super) fn missing(&mut self, certain: bool) {
        self.missing = Some(certain || self.missing == Some(true));
    }

    /// Returns the number of packets after the highest sequence number so far.
    pub(super) fn after_last(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// Accepts the next row.
    #[inline]
    pub(super) fn row(&mut self, record: &PacketRecord) {
        let seq = record.seq as u64;
        if !record.flags.is_clean() || seq >= self.end {
            return;
        }
        if seq >= self.next {
            if self.missing.is_some() {
                self.found_again(seq);
            }
            self.next = seq + 1;
        } else if !self.runs.is_empty() {
            self.came_late(seq);
        }
    }

    #[cold]
    fn found_again(&mut self, seq: u64) {
        if let Some(certain) = self.missing.take()
            && seq > self.next
            && self.runs.len() < MAX_RUNS
        {
            self.runs.push((SeqRun { start: self.next, len: seq - self.next }, certain));
        }
    }

    #[cold]
    fn came_late(&mut self, seq: u64) {
        let index = self.runs.partition_point(|(run, _)| run.start <= seq).checked_sub(1);
        let Some((index, &(run, certain))) = index.and_then(|k| Some((k, self.runs.get(k)?))) else { return };
        let end = run.start + run.len;
        if seq >= end {
            return;
        }
        let parts = [(run.start, seq), (seq + 1, end)].into_iter().filter(|(from, to)| from < to);
        let parts = parts.map(|(from, to)| (SeqRun { start: from, len: to - from }, certain));
        let room = MAX_RUNS.saturating_sub(self.runs.len()) + 1;
        self.runs.splice(index..=index, parts.take(room));
    }

    /// Returns the unrecorded runs after all rows were read. Uncertain runs are only included if `proven` is true
    /// because the stated number of rows shows that rows are missing.
    pub(super) fn finish(&mut self, proven: bool) -> Vec<SeqRun> {
        self.found_again(self.end);
        core::mem::take(&mut self.runs)
            .into_iter()
            .filter(|(_, certain)| *certain || proven)
            .map(|(run, _)| run)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Flags, WallTime};

    enum Line {
        Row(i64),
        Damaged(i64),
        Missing,
        Jump,
    }
    use Line::{Damaged, Jump, Missing, Row};

    fn found(lines: &[Line], proven: bool) -> Vec<[u64; 2]> {
        let mut found = Unrecorded::default();
        found.set_packets(10);
        for line in lines {
            let record = |seq| PacketRecord::one_way(seq, WallTime(0), WallTime(1));
            match *line {
                Row(seq) => found.row(&record(seq)),
                Damaged(seq) => {
                    let mut damaged = record(seq);
                    damaged.flags = Flags::LENGTH;
                    found.row(&damaged);
                }
                Missing => found.missing(true),
                Jump => found.missing(false),
            }
        }
        found.finish(proven).iter().map(|run| [run.start, run.start + run.len - 1]).collect()
    }

    #[test]
    fn between_the_rows_around_it_nothing_is_known() {
        assert_eq!(found(&[Row(0), Row(1), Missing, Row(5), Row(6)], false), [[2, 4]]);
        assert_eq!(
            found(&[Row(0), Row(3), Missing, Row(4), Row(9)], false),
            [[0u64; 2]; 0],
            "nothing is missing"
        );
        assert_eq!(found(&[Missing, Row(3)], false), [[0, 2]]);
        assert_eq!(found(&[Row(2), Missing], false), [[3, 9]]);
        assert_eq!(found(&[Row(2), Missing, Row(1), Missing, Row(7)], false), [[3, 6]], "reordered");
        assert_eq!(
            found(&[Row(2), Missing, Damaged(4), Row(7)], false),
            [[3, 6]],
            "a damaged packet's number"
        );
        assert_eq!(
            found(&[Row(2), Missing, Row(-1), Row(10), Row(7)], false),
            [[3, 6]],
            "no numbers of this test"
        );
    }

    #[test]
    fn what_comes_late_is_known() {
        let late = |seq| found(&[Row(0), Missing, Row(6), Row(seq), Row(7)], false);
        assert_eq!(late(1), [[2, 5]]);
        assert_eq!(late(3), [[1, 2], [4, 5]]);
        assert_eq!(late(5), [[1, 4]]);
        assert_eq!(late(0), [[1, 5]]);
        assert_eq!(late(6), [[1, 5]]);
        assert_eq!(found(&[Row(0), Missing, Row(2), Row(1)], false), [[0u64; 2]; 0]);
    }

    #[test]
    fn a_jump_counts_where_it_is_proven() {
        let lines = [Row(0), Jump, Row(3), Missing, Row(5)];
        assert_eq!(found(&lines, false), [[4, 4]]);
        assert_eq!(found(&lines, true), [[1, 2], [4, 4]]);
        assert_eq!(found(&[Row(0), Missing, Jump, Row(3)], false), [[1, 2]]);
    }
}
