//! [`Tally`]: a server's statistics of a unidirectional session.

use crate::lamp::report::Report;
use jitlat_core::Span;
use jitlat_core::time::Source;

/// Sequence numbers remembered to recognise duplicates.
const WINDOW: usize = 4096;

/// Latencies, order and duplicates of the packets of one session.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    received: u64,
    good: u64,
    min: i64,
    max: i64,
    mean: f64,
    squares: f64,
    out_of_order: u64,
    errors: u64,
    duplicates: u64,
    highest: Option<i64>,
    recent: [u64; WINDOW / 64],
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            received: 0,
            good: 0,
            min: i64::MAX,
            max: 0,
            mean: 0.0,
            squares: 0.0,
            out_of_order: 0,
            errors: 0,
            duplicates: 0,
            highest: None,
            recent: [0; WINDOW / 64],
        }
    }

    /// Adds a packet with this number, and with this latency if it has a time.
    pub(super) fn note(&mut self, seq: u16, latency: Option<Span>) {
        let number = match self.highest {
            // The number with these low bits that is nearest to the highest so far.
            Some(h) => h + i64::from(seq.wrapping_sub(h as u16) as i16),
            None => seq.into(),
        };
        if self.repeated(number) {
            self.duplicates += 1;
            return;
        }
        if self.highest.is_some_and(|h| number < h) {
            self.out_of_order += 1;
        }
        self.highest = Some(self.highest.map_or(number, |h| h.max(number)));
        self.received += 1;
        let Some(us) = latency.map(|l| l.0.div_euclid(1000)).filter(|us| *us > 0) else {
            self.errors += 1;
            return;
        };
        // Errors do not enter the mean (they do in LaTe, which biases it).
        self.good += 1;
        self.min = self.min.min(us);
        self.max = self.max.max(us);
        let delta = us as f64 - self.mean;
        self.mean += delta / self.good as f64;
        self.squares += delta * (us as f64 - self.mean);
    }

    /// Whether any packet came.
    pub(super) fn has_received(&self) -> bool {
        self.received > 0
    }

    /// Whether `number` was noted before, within the window; notes it.
    fn repeated(&mut self, number: i64) -> bool {
        let highest = self.highest.unwrap_or(number - 1);
        if number <= highest - WINDOW as i64 {
            return false;
        }
        let bit = |n: i64| (n.rem_euclid(WINDOW as i64) as usize / 64, 1u64 << (n.rem_euclid(64)));
        // Numbers skipped now were not seen in this turn of the window.
        let mut n = (highest + 1).max(number - WINDOW as i64 + 1);
        while n <= number {
            let (word, mask) = bit(n);
            let whole = mask == 1 && n + 63 <= number;
            self.recent[word] &= if whole { 0 } else { !mask };
            n += if whole { 64 } else { 1 };
        }
        let (word, mask) = bit(number);
        let seen = self.recent[word] & mask != 0;
        self.recent[word] |= mask;
        seen
    }

    /// The report so far.
    pub(super) fn report(&self, stamps: Source, timed_out: bool) -> Report {
        let highest = self.highest.filter(|_| self.received > 0);
        Report {
            min_us: (self.good > 0).then_some(self.min as u64),
            mean_us: self.mean,
            max_us: self.max as u64,
            received: self.received,
            out_of_order: self.out_of_order,
            errors: self.errors,
            stamps: Some(stamps),
            variance_us2: if self.good > 1 { self.squares / (self.good - 1) as f64 } else { 0.0 },
            highest_seq: highest.map(|h| h as u16),
            wraps: highest.map_or(0, |h| h.div_euclid(65_536).max(0) as u64),
            timed_out,
            duplicates: Some(self.duplicates),
        }
    }
}
