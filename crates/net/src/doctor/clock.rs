//! Cost of reading the clock (metrics §22.1), and stalls: *ATM Jitter Measurements* (DTU, Lyngby) reports that
//! "sometimes a simple timestamp would take up to 20 ms".

use crate::clock::{steady, wall};
use core::ops::Sub;
use jitlat_core::time::Span;
use serde::Serialize;

/// Differences between consecutive readings of one clock, in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockReading {
    /// Number of readings.
    pub reads: u64,
    /// Smallest difference above zero: the clock's resolution, or the cost of a reading if that is larger. `None` if no
    /// difference is above zero.
    pub resolution: Option<Span>,
    /// Median: the typical cost of a reading.
    pub p50: Span,
    /// 99.9th percentile of the differences.
    pub p999: Span,
    /// Largest difference.
    pub max: Span,
    /// Number of differences above [`MIN_STALL`]: times at which the program or the whole machine did not
    /// run.
    pub stalls: u64,
    /// Total length of the stalls.
    pub stalled: Span,
    /// Number of differences below zero: the clock went back.
    pub backwards: u64,
    /// Total time for which the clock was read.
    pub watched: Span,
}

/// Minimum difference that counts as a stall.
pub const MIN_STALL: Span = Span::micros(100);

/// Largest difference counted in a histogram, in ns; longer ones are rare and stored individually.
const MAX_COUNTED_NS: usize = 4096;
/// Maximum number of differences stored individually: no machine stalls more often in a few seconds.
const MAX_LONG_VALUES: usize = 1 << 16;

/// Reads the wall clock continuously for `budget`, at least 100 000 times.
pub fn read_wall(budget: Span) -> ClockReading {
    observe(wall, budget)
}

/// Reads the steady clock continuously for `budget`, at least 100 000 times.
pub fn read_steady(budget: Span) -> ClockReading {
    observe(steady, budget)
}

fn observe<T: Copy + Sub<Output = Span>>(clock: impl Fn() -> T, budget: Span) -> ClockReading {
    const MIN_READINGS: u64 = 100_000;
    let mut tally = ReadingTally::new();
    let begin = steady();
    let mut before = clock();
    loop {
        // The end is checked only once per 10 000 readings, so that the check does not affect the result.
        for _ in 0..10_000 {
            let now = clock();
            tally.add(now - before);
            before = now;
        }
        let watched = steady() - begin;
        if tally.reads >= MIN_READINGS && watched >= budget {
            return tally.finish(watched);
        }
        before = clock();
    }
}

struct ReadingTally {
    reads: u64,
    counts: Box<[u64]>,
    long: Vec<i64>,
    backwards: u64,
}

impl ReadingTally {
    fn new() -> ReadingTally {
        ReadingTally {
            reads: 0,
            counts: vec![0; MAX_COUNTED_NS].into(),
            long: Vec::with_capacity(MAX_LONG_VALUES),
            backwards: 0,
        }
    }

    #[inline]
    fn add(&mut self, difference: Span) {
        self.reads += 1;
        match usize::try_from(difference.0) {
            Ok(d) if d < MAX_COUNTED_NS => self.counts[d] += 1,
            Ok(_) if self.long.len() < MAX_LONG_VALUES => self.long.push(difference.0),
            Ok(_) => {}
            Err(_) => self.backwards += 1,
        }
    }

    fn finish(mut self, watched: Span) -> ClockReading {
        self.long.sort_unstable();
        let short: u64 = self.counts.iter().sum();
        let all = short + self.long.len() as u64;
        // Returns the value at a quantile, given in thousandths.
        let at = |thousandths: u64| {
            let rank = (all * thousandths).div_ceil(1000).saturating_sub(1);
            if rank >= short {
                return Span(self.long.get((rank - short) as usize).copied().unwrap_or_default());
            }
            let mut seen = 0;
            let found = self.counts.iter().position(|n| {
                seen += n;
                seen > rank
            });
            Span(found.unwrap_or_default() as i64)
        };
        let smallest = self.counts.iter().skip(1).position(|n| *n > 0).map(|i| Span(i as i64 + 1));
        let stalls = || self.long.iter().filter(|d| **d > MIN_STALL.0);
        ClockReading {
            reads: self.reads,
            resolution: smallest.or(self.long.first().map(|d| Span(*d))),
            p50: at(500),
            p999: at(999),
            max: at(1000),
            stalls: stalls().count() as u64,
            stalled: Span(stalls().sum()),
            backwards: self.backwards,
            watched,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_and_steps_back_are_distinguished_from_the_cost_of_a_reading() {
        let mut tally = ReadingTally::new();
        for d in (0..998).map(|i| 20 + i % 10).chain([20_000_000, -5]) {
            tally.add(Span(d));
        }
        let r = tally.finish(Span::seconds(1));
        assert_eq!((r.reads, r.resolution, r.p50), (1000, Some(Span(20)), Span(24)));
        assert_eq!((r.p999, r.max), (Span(20_000_000), Span(20_000_000)));
        assert_eq!((r.stalls, r.stalled, r.backwards), (1, Span(20_000_000), 1));
    }

    #[test]
    fn this_hosts_clock_can_be_read() {
        let r = read_steady(Span(0));
        assert!(r.reads >= 100_000 && r.backwards == 0 && r.resolution.is_some(), "{r:?}");
        assert!(r.p50 <= r.p999 && r.p999 <= r.max);
    }
}
