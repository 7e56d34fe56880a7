//! [`Live`]: what can be said of a stream while it still runs, from the records this host has received. Fed by
//! the thread that writes the log; the packet threads do nothing for it.

use jitlat_core::PacketRecord;
use jitlat_core::metrics::sketch::Sketch;
use jitlat_core::summary::Percent;
use jitlat_core::units::eng4;

/// Jitter and losses so far, in constant memory.
pub struct Live {
    delays: Sketch,
    fastest: i64,
    next: i64,
    missing: u64,
    runs: u64,
    longest: u64,
}

impl Live {
    /// Of nothing yet.
    pub fn new() -> Live {
        Live { delays: Sketch::learning(), fastest: i64::MAX, next: 0, missing: 0, runs: 0, longest: 0 }
    }

    /// Takes the next packet that arrived. Packets that come late end being missing; what they were part of
    /// stays counted as a run, so runs are an estimate until the end.
    pub fn push(&mut self, record: &PacketRecord) {
        let Some(delay) = record.delay().filter(|_| record.seq >= 0 && record.flags.is_clean()) else {
            return;
        };
        self.delays.add(delay.0);
        self.fastest = self.fastest.min(delay.0);
        let seq = record.seq;
        if seq < self.next {
            self.missing = self.missing.saturating_sub(1);
            return;
        }
        let gap = (seq - self.next) as u64;
        if gap > 0 {
            self.missing += gap;
            self.runs += 1;
            self.longest = self.longest.max(gap);
        }
        self.next = seq + 1;
    }

    /// `12 missing in 4 runs (longest 6), jitter 50% 412.0 us 99% 3.200 ms`; `None` before the first packet.
    pub fn told(&self) -> Option<String> {
        let above = |p: u32| Some(eng4(self.delays.edf(Percent(p))?.saturating_sub(self.fastest)));
        let jitter = format!("jitter 50% {} 99% {}", above(50_000)?, above(99_000)?);
        let runs = match self.runs {
            _ if self.missing == 0 => String::new(),
            1 => " in 1 run".to_owned(),
            n => format!(" in {n} runs (longest {})", self.longest),
        };
        Some(format!("{} missing{runs}, {jitter}", self.missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::Nanos;

    fn told(packets: impl IntoIterator<Item = (i64, i64)>) -> Option<String> {
        let mut live = Live::new();
        for (seq, delay) in packets {
            live.push(&PacketRecord::one_way(seq, Nanos(seq * 1000), Nanos(seq * 1000 + delay)));
        }
        live.told()
    }

    #[test]
    fn what_is_told_so_far() {
        assert_eq!(told([]), None);
        assert_eq!(
            told([(0, 500), (1, 900)]).unwrap(),
            "0 missing, jitter 50% 0.000 s 99% 400 ns".replace("400 ns", "400.0 ns")
        );
        let gaps = told([(0, 5), (3, 5), (4, 5), (9, 5), (5, 5)]).unwrap();
        assert!(gaps.starts_with("5 missing in 2 runs (longest 4), "), "{gaps}");
    }
}
