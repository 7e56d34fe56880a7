//! Time that packets spent in the queue of the sending host's interface (metrics §22).

use crate::distribution::{LogHistogram, Percent, Precision};
use crate::record::PacketRecord;
use crate::time::StampSource;
use serde::{Deserialize, Serialize};

/// Time that received packets spent in the queue of the sending host's interface, in ns. The packets waited before
/// their send stamp, so the path's delay excludes this time. Applications experience both the path's delay and this
/// time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LocalQueue {
    /// Number of packets with a known time in the queue.
    pub n: u64,
    /// Number of packets whose queue entry the kernel did not stamp. The time since the program's own clock reading is
    /// used for them; it is an upper bound.
    pub bounded: u64,
    /// Shortest time in the queue.
    pub min: i64,
    /// Median time in the queue.
    pub median: f64,
    /// 99th percentile of the time in the queue.
    pub p99: i64,
    /// Longest time in the queue.
    pub max: i64,
    /// Mean time in the queue.
    pub mean: f64,
}

/// Times in the local queue, collected in constant memory while packets arrive. Percentiles are exact up to 1024
/// packets, and at most 1/1024 too high for more packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LocalQueueTimes {
    times: LogHistogram,
    sum: i64,
    bounded: u64,
}

impl Default for LocalQueueTimes {
    fn default() -> LocalQueueTimes {
        LocalQueueTimes { times: LogHistogram::around(0, Precision::STREAM), sum: 0, bounded: 0 }
    }
}

impl LocalQueueTimes {
    /// Adds the time of `record` if it is known.
    #[inline]
    pub(crate) fn push(&mut self, record: &PacketRecord) {
        let Some((time, source)) = record.local_queue() else { return };
        self.times.add(time.0);
        self.sum = self.sum.saturating_add(time.0);
        self.bounded += u64::from(source == StampSource::User);
    }

    /// Adds the times of `next`.
    pub(crate) fn merge(&mut self, next: &LocalQueueTimes) {
        self.times.merge(&next.times);
        self.sum = self.sum.saturating_add(next.sum);
        self.bounded += next.bounded;
    }

    /// Returns true if these can be the times of `rows` rows.
    pub(crate) fn is_possible(&self, rows: u64) -> bool {
        let n = self.times.len();
        let alike = self.times.is_as_precise_as(&LocalQueueTimes::default().times);
        n <= rows && self.bounded <= n && alike && self.times.is_possible(n)
    }

    /// Returns the statistics; `None` without packets.
    pub(crate) fn figures(&self) -> Option<LocalQueue> {
        let n = self.times.len();
        let quantiles = self.times.quantiles();
        Some(LocalQueue {
            n,
            bounded: self.bounded,
            min: self.times.min()?,
            median: quantiles.median()?,
            p99: quantiles.edf(Percent(99_000))?,
            max: self.times.max()?,
            mean: self.sum as f64 / n as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Moment;
    use crate::time::{Span, Stamp, WallTime};

    fn packet(lag: i64, entered: Option<i64>) -> PacketRecord {
        let mut record = PacketRecord::new(0);
        record.set(Moment::Sent, Stamp { at: WallTime(lag), source: StampSource::Kernel });
        record.set_send_lag(Some(Span(lag)));
        record.set_entry_lag(entered.map(Span));
        record
    }

    #[test]
    fn times_in_the_queue_and_bounds_on_them_are_counted_apart() {
        let mut times = LocalQueueTimes::default();
        assert_eq!(times.figures(), None);
        times.push(&PacketRecord::one_way(0, WallTime(0), WallTime(5)));
        assert_eq!(times.figures(), None, "nobody knows when it left");
        times.push(&packet(15_000_000, Some(1000)));
        times.push(&packet(2000, Some(1500)));
        let mut more = LocalQueueTimes::default();
        more.push(&packet(7000, None));
        times.merge(&more);
        let expected = LocalQueue {
            n: 3,
            bounded: 1,
            min: 500,
            median: 7000.0,
            p99: 14_999_000,
            max: 14_999_000,
            mean: 15_006_500.0 / 3.0,
        };
        assert_eq!(times.figures(), Some(expected));
        assert!(times.is_possible(3) && !times.is_possible(2));
        assert!(!LocalQueueTimes { bounded: 4, ..times }.is_possible(9));
    }
}
