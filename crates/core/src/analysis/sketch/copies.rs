//! [`CopyRuns`]: duplicates in a stream, counted in bounded memory.

use crate::metrics::seqset::SeqSet;
use crate::summary::Duplicates;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Further copies of packets. When their sequence numbers are too old to occur again, the copies are counted as runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CopyRuns {
    pub total: u64,
    duplicated: u64,
    pub recent: BTreeMap<u32, u64>,
    run: Option<(u32, u64)>,
    runs: BTreeMap<u64, u64>,
    counts: BTreeMap<u64, u64>,
}

impl CopyRuns {
    /// True if these can be copies of packets that are `accepted` or have a number below `forgotten`.
    pub fn is_possible(&self, accepted: &SeqSet, forgotten: u64) -> bool {
        let known = self.recent.keys().all(|seq| accepted.contains(*seq));
        let run = self.run.is_none_or(|(last, len)| u64::from(last) < forgotten && len <= forgotten);
        let counted = |of: &BTreeMap<u64, u64>| of.values().map(|count| u128::from(*count)).sum::<u128>();
        let (runs, duplicated) = (counted(&self.runs), u128::from(self.duplicated));
        let copies = self.recent.values().map(|copies| u128::from(*copies)).sum::<u128>() + duplicated;
        known
            && run
            && copies <= self.total.into()
            && counted(&self.counts) == duplicated
            && runs <= duplicated
    }

    pub fn push(&mut self, seq: u32) {
        self.total += 1;
        *self.recent.entry(seq).or_default() += 1;
    }

    /// Adds copies with sequence numbers below `limit` to the final counts.
    pub fn settle(&mut self, limit: u64) {
        while let Some(entry) = self.recent.first_entry() {
            if u64::from(*entry.key()) >= limit {
                return;
            }
            let (seq, copies) = entry.remove_entry();
            self.duplicated += 1;
            *self.counts.entry(1 + copies).or_default() += 1;
            self.run = match self.run {
                Some((last, len)) if last + 1 == seq => Some((seq, len + 1)),
                ended => {
                    self.close(ended);
                    Some((seq, 1))
                }
            };
        }
        if limit == u64::MAX {
            let last = self.run.take();
            self.close(last);
        }
    }

    fn close(&mut self, run: Option<(u32, u64)>) {
        if let Some((_, len)) = run {
            *self.runs.entry(len).or_default() += 1;
        }
    }

    pub fn figures(&self, accepted: u64) -> Duplicates {
        let over = |x: u64| (accepted > 0).then(|| x as f64 / accepted as f64);
        let mut arrival_count_hist = self.counts.clone();
        if accepted > self.duplicated {
            arrival_count_hist.insert(1, accepted - self.duplicated);
        }
        Duplicates {
            duplication_fraction: over(self.total),
            replicated_rate: over(self.duplicated),
            run_length_hist: self.runs.clone(),
            arrival_count_hist,
            time_to_duplicate: None,
        }
    }
}
