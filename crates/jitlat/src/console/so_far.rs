//! [`SoFar`]: statistics of a running stream, from the records that this host has received. Updated by the thread that
//! writes the log; it costs the packet threads nothing.

use jitlat_core::distribution::{LogHistogram, Precision};
use jitlat_core::summary::Percent;
use jitlat_core::units::eng4;
use jitlat_core::{PacketRecord, Span};
use std::collections::VecDeque;
use std::ops::Range;

/// Jitter and losses so far, in constant memory.
pub struct SoFar {
    delays: LogHistogram,
    fastest: i64,
    next: i64,
    /// The latest gaps in the sequence numbers: a late packet may still shorten or split them.
    open: VecDeque<Range<i64>>,
    settled: Losses,
}

/// Runs of loss that can no longer change.
#[derive(Clone, Copy, Default)]
struct Losses {
    packets: i64,
    runs: u64,
    longest: i64,
}

impl Losses {
    fn and(self, run: &Range<i64>) -> Losses {
        let length = run.end - run.start;
        Losses { packets: self.packets + length, runs: self.runs + 1, longest: self.longest.max(length) }
    }
}

/// Gaps kept open; a packet that is later than this counts as lost until the end of the test.
const OPEN: usize = 64;

impl SoFar {
    /// Without packets.
    pub fn new() -> SoFar {
        SoFar {
            delays: LogHistogram::new(Precision::STREAM),
            fastest: i64::MAX,
            next: 0,
            open: VecDeque::new(),
            settled: Losses::default(),
        }
    }

    /// Adds the next packet that arrived, with its one-way or round-trip delay.
    pub fn push(&mut self, record: &PacketRecord, delay: Option<Span>) {
        let Some(delay) = delay.filter(|_| record.seq >= 0 && record.flags.is_clean()) else { return };
        self.delays.add(delay.0);
        self.fastest = self.fastest.min(delay.0);
        let seq = record.seq;
        if seq < self.next {
            self.late(seq);
            return;
        }
        if seq > self.next {
            self.open.push_back(self.next..seq);
            if self.open.len() > OPEN {
                self.settled = self.open.pop_front().map_or(self.settled, |run| self.settled.and(&run));
            }
        }
        self.next = seq + 1;
    }

    fn late(&mut self, seq: i64) {
        let Some(k) = self.open.iter().position(|run| run.contains(&seq)) else { return };
        let Some(run) = self.open.remove(k) else { return };
        let parts = [run.start..seq, seq + 1..run.end];
        for part in parts.into_iter().rev().filter(|part| !part.is_empty()) {
            self.open.insert(k, part);
        }
    }

    /// `12 missing in 4 runs (longest 6), jitter 50% 412.0 us 99% 3.200 ms`; `None` before the first packet.
    pub fn describe(&self) -> Option<String> {
        let quantiles = self.delays.quantiles();
        let above = |p: u32| Some(eng4(quantiles.edf(Percent(p))?.saturating_sub(self.fastest)));
        let jitter = format!("jitter 50% {} 99% {}", above(50_000)?, above(99_000)?);
        let lost = self.open.iter().fold(self.settled, Losses::and);
        let runs = match lost.runs {
            0 => String::new(),
            1 => " in 1 run".to_owned(),
            n => format!(" in {n} runs (longest {})", lost.longest),
        };
        Some(format!("{} missing{runs}, {jitter}", lost.packets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;

    fn described(packets: impl IntoIterator<Item = (i64, i64)>) -> Option<String> {
        let mut live = SoFar::new();
        for (seq, delay) in packets {
            let record = PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + delay));
            live.push(&record, record.delay());
        }
        live.describe()
    }

    #[test]
    fn what_is_said_so_far() {
        assert_eq!(described([]), None);
        assert_eq!(
            described([(0, 500), (1, 900)]).unwrap(),
            "0 missing, jitter 50% 0.000 s 99% 400 ns".replace("400 ns", "400.0 ns")
        );
        let gaps = described([(0, 5), (3, 5), (4, 5), (9, 5), (6, 5), (0, 5), (6, 5)]).unwrap();
        assert!(gaps.starts_with("5 missing in 3 runs (longest 2), "), "{gaps}");
        let none = described([(1, 5), (3, 5), (2, 5), (0, 5)]).unwrap();
        assert!(none.starts_with("0 missing, "), "{none}");
        let many = described((0..1000).map(|k| (k * 3, 5))).unwrap();
        assert!(many.starts_with("1998 missing in 999 runs (longest 2), "), "{many}");
    }
}
