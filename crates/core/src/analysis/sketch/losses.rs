//! [`Losses`]: losses of a stream, counted once it is certain which packets were received.

use crate::metrics::loss::{Loss, LossScan};
use crate::metrics::seqset::{SeqRun, SeqSet, absent, without};
use serde::{Deserialize, Serialize};

/// Derives the loss bursts from the runs of received packets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Losses {
    next: u64,
    scan: LossScan,
}

impl Losses {
    /// True if these can be the losses among the numbers below `forgotten`.
    pub fn is_possible(&self, forgotten: u64) -> bool {
        self.next <= forgotten && self.scan.is_possible(self.next)
    }

    pub fn received(&mut self, run: SeqRun) {
        if run.start > self.next {
            self.scan.push(SeqRun { start: self.next, len: run.start - self.next });
        }
        self.next = run.start + run.len;
    }

    /// Returns the length of the longest loss burst below sequence number `met`; `accepted` contains the received
    /// sequence numbers that have not been counted yet.
    pub fn longest(&self, accepted: &SeqSet, met: u64) -> u64 {
        let counted = |run: SeqRun| (run.start + run.len).saturating_sub(run.start.max(self.next));
        let later = absent(accepted.runs(), met).map(counted).max().unwrap_or(0);
        later.max(self.scan.longest())
    }

    /// Returns the loss figures of the packets below `end`. Packets in the runs `uncounted` are left out; `unknown` is
    /// the number of packets with an unknown fate.
    pub fn finish(
        mut self,
        end: u64,
        unknown: u64,
        uncounted: impl Iterator<Item = SeqRun> + Clone,
        period: Option<f64>,
    ) -> Loss {
        // These runs were counted as losses before it was known that they were not sent or not recorded.
        // Those from `next` on were not counted.
        let next = self.next;
        uncounted.clone().filter(|run| run.start < next).for_each(|run| self.scan.remove(run));
        let last = (end > self.next).then(|| SeqRun { start: self.next, len: end - self.next });
        without(last.into_iter(), uncounted).for_each(|run| self.scan.push(run));
        self.scan.finish(end, unknown, period)
    }
}
