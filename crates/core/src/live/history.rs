//! [`DelayHistory`]: delay and loss during a whole test, in bounded memory.

/// Maximum number of buckets: an hour is stored in steps of about a third of a second.
const MAX_BUCKETS: usize = 1 << 14;
/// Initial length of a bucket, in ns. It doubles whenever there would be too many buckets.
const MIN_BUCKET_NS: i64 = 10_000_000;

/// Statistics of the packets that were sent during one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HistoryBucket {
    /// Number of packets received.
    pub received: u32,
    /// Number of packets missing.
    pub missing: u32,
    /// Smallest delay, in ns; 0 if no packet was received.
    pub low: i64,
    /// Largest delay, in ns; 0 if no packet was received.
    pub high: i64,
    /// Sum of the mean or median delays, each weighted by its number of packets, in ns.
    sum: f64,
}

impl HistoryBucket {
    /// Returns the mean delay in ns; `None` if no packet was received. For reports from the far host, this is the mean
    /// of the medians in the reports.
    pub fn middle(&self) -> Option<f64> {
        (self.received > 0).then(|| self.sum / f64::from(self.received))
    }

    fn add(&mut self, other: &HistoryBucket) {
        if other.received > 0 {
            (self.low, self.high) = match self.received {
                0 => (other.low, other.high),
                _ => (self.low.min(other.low), self.high.max(other.high)),
            };
        }
        self.received = self.received.saturating_add(other.received);
        self.missing = self.missing.saturating_add(other.missing);
        self.sum += other.sum;
    }
}

/// Delay and loss by time since the stream began.
#[derive(Clone, Debug)]
pub struct DelayHistory {
    width: i64,
    buckets: Vec<HistoryBucket>,
}

impl Default for DelayHistory {
    fn default() -> DelayHistory {
        DelayHistory { width: MIN_BUCKET_NS, buckets: Vec::new() }
    }
}

impl DelayHistory {
    /// Returns the time covered, in ns.
    pub fn end(&self) -> i64 {
        self.buckets.len() as i64 * self.width
    }

    /// Returns the shortest interval that can be distinguished, in ns.
    pub fn step(&self) -> i64 {
        self.width
    }

    fn at(&mut self, at: i64) -> &mut HistoryBucket {
        let at = at.max(0);
        while at / self.width >= MAX_BUCKETS as i64 {
            let halves = self.buckets.chunks(2).map(|pair| {
                let mut whole = pair[0];
                pair[1..].iter().for_each(|other| whole.add(other));
                whole
            });
            self.buckets = halves.collect();
            self.width = self.width.saturating_mul(2);
        }
        let k = (at / self.width) as usize;
        if k >= self.buckets.len() {
            self.buckets.resize(k + 1, HistoryBucket::default());
        }
        &mut self.buckets[k]
    }

    /// Adds a packet that was sent at `at` and took `delay`, both in ns.
    pub fn received(&mut self, at: i64, delay: i64) {
        let one = HistoryBucket { received: 1, missing: 0, low: delay, high: delay, sum: delay as f64 };
        self.at(at).add(&one);
    }

    /// Adds a report on packets sent between `from` and `to`, in ns: number received, smallest, middle and
    /// largest delay, number missing.
    pub fn summary(&mut self, [from, to]: [i64; 2], received: u32, delays: Option<[i64; 3]>, missing: u32) {
        // Spread the report over several buckets, so that short buckets have no gaps.
        self.at(to - 1);
        let (first, last) = (from.max(0) / self.width, (to.max(from) - 1).max(0) / self.width);
        let steps = (last - first + 1).clamp(1, MAX_BUCKETS as i64);
        for k in 0..steps {
            let share = |n: u32| {
                let upto = |k: i64| (i64::from(n) * k / steps) as u32;
                upto(k + 1) - upto(k)
            };
            let (low, middle, high) = delays.map_or((0, 0, 0), |[low, middle, high]| (low, middle, high));
            let part = share(received).max(u32::from(received > 0 && delays.is_some()));
            let part = if delays.is_some() { part } else { 0 };
            let sum = middle as f64 * f64::from(part);
            let bucket = HistoryBucket { received: part, missing: share(missing), low, high, sum };
            let at = (first + k).saturating_mul(self.width);
            self.at(at).add(&bucket);
        }
    }

    /// Adds missing packets that were sent evenly between `from` and `to`, in ns.
    pub fn missing(&mut self, [from, to]: [i64; 2], packets: i64) {
        self.at(to);
        let span = (to - from).max(0);
        let steps = packets.clamp(0, MAX_BUCKETS as i64);
        for k in 0..steps {
            let upto = |k: i64| (i128::from(packets) * i128::from(k) / i128::from(steps)) as i64;
            let at = from + (i128::from(span) * i128::from(k + 1) / i128::from(steps + 1)) as i64;
            let missing = u32::try_from(upto(k + 1) - upto(k)).unwrap_or(u32::MAX);
            self.at(at).add(&HistoryBucket { missing, ..HistoryBucket::default() });
        }
    }

    /// Corrects the history after the arrival of a packet that was sent at `at` (in ns) and counted as missing.
    pub fn found(&mut self, at: i64) {
        let k = (at.max(0) / self.width) as usize;
        let near = [k, k.wrapping_sub(1), k + 1];
        let held = near.into_iter().find(|k| self.buckets.get(*k).is_some_and(|b| b.missing > 0));
        if let Some(bucket) = held.and_then(|k| self.buckets.get_mut(k)) {
            bucket.missing -= 1;
        }
    }

    /// Divides the time from `from` to `to` (in ns) into `columns` equal parts.
    pub fn columns(&self, [from, to]: [i64; 2], columns: usize) -> Vec<HistoryBucket> {
        let mut shown = vec![HistoryBucket::default(); columns];
        let span = (to - from).max(1);
        let first = (from.max(0) / self.width) as usize;
        for (k, bucket) in self.buckets.iter().enumerate().skip(first) {
            let start = k as i64 * self.width;
            if start >= to {
                break;
            }
            let at = (start + self.width / 2).clamp(from, to - 1);
            let column = i128::from(at - from) * columns as i128 / i128::from(span);
            if let Some(shown) = usize::try_from(column).ok().and_then(|c| shown.get_mut(c)) {
                shown.add(bucket);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_day_stays_in_bounded_memory_and_nothing_is_lost() {
        let mut history = DelayHistory::default();
        for k in 0..86_400 * 2 {
            history.received(k * SECOND / 2, 1000 + k % 7);
        }
        assert!(history.buckets.len() <= MAX_BUCKETS && history.step() <= 11 * SECOND);
        let columns = history.columns([0, 86_400 * SECOND], 10);
        assert_eq!(columns.iter().map(|b| b.received).sum::<u32>(), 86_400 * 2);
        assert!(columns.iter().all(|b| (b.low, b.high) == (1000, 1006)));
    }

    #[test]
    fn late_packets_are_not_missing() {
        let mut history = DelayHistory::default();
        history.missing([0, SECOND], 10);
        (0..4).for_each(|k| history.found(SECOND * (k + 1) / 11));
        let missing = |h: &DelayHistory| h.columns([0, SECOND], 1)[0].missing;
        assert_eq!(missing(&history), 6);
        history.missing([0, SECOND], 1_000_000);
        assert_eq!(missing(&history), 1_000_006);
    }

    #[test]
    fn what_is_said_once_a_second_fills_the_second() {
        let mut history = DelayHistory::default();
        history.summary([0, SECOND], 50, Some([10, 20, 40]), 5);
        history.summary([SECOND, 2 * SECOND], 0, None, 50);
        let columns = history.columns([0, 2 * SECOND], 8);
        assert!(
            columns[..4].iter().all(|b| (b.low, b.high, b.middle()) == (10, 40, Some(20.0))),
            "{columns:?}"
        );
        assert!(columns[4..].iter().all(|b| b.received == 0));
        assert_eq!(columns.iter().map(|b| b.missing).sum::<u32>(), 55);
    }
}
