//! [`LampTally`]: server statistics about a unidirectional session.

use crate::lamp::report::LampReport;
use jitlat_core::Span;
use jitlat_core::time::StampSource;

/// Number of recent sequence numbers stored to recognise duplicates.
const DUPLICATE_WINDOW: usize = 4096;

/// Latencies, order and duplicates of the packets of one session.
#[derive(Clone, Debug)]
pub(super) struct LampTally {
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
    recent: [u64; DUPLICATE_WINDOW / 64],
}

impl LampTally {
    pub(super) fn new() -> LampTally {
        LampTally {
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
            recent: [0; DUPLICATE_WINDOW / 64],
        }
    }

    /// Counts a packet with the sequence number `seq`, and its latency if the packet has a time.
    pub(super) fn note(&mut self, seq: u16, latency: Option<Span>) {
        let number = match self.highest {
            // The number nearest to the highest one so far whose low 16 bits are `seq`.
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
        // Errors are excluded from the mean. LaTe includes them, which biases the mean.
        self.good += 1;
        self.min = self.min.min(us);
        self.max = self.max.max(us);
        let delta = us as f64 - self.mean;
        self.mean += delta / self.good as f64;
        self.squares += delta * (us as f64 - self.mean);
    }

    /// True if any packet was received.
    pub(super) fn has_received(&self) -> bool {
        self.received > 0
    }

    /// Records `number`. Returns true if it was recorded before, within the window.
    fn repeated(&mut self, number: i64) -> bool {
        let highest = self.highest.unwrap_or(number - 1);
        if number <= highest - DUPLICATE_WINDOW as i64 {
            return false;
        }
        let bit = |n: i64| (n.rem_euclid(DUPLICATE_WINDOW as i64) as usize / 64, 1u64 << (n.rem_euclid(64)));
        // Skipped numbers have not been seen in this cycle of the window.
        let mut n = (highest + 1).max(number - DUPLICATE_WINDOW as i64 + 1);
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

    /// Returns the report on the packets so far.
    pub(super) fn report(&self, stamps: StampSource, timed_out: bool) -> LampReport {
        let highest = self.highest.filter(|_| self.received > 0);
        LampReport {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn us(us: i64) -> Option<Span> {
        Some(Span(us * 1000))
    }

    fn tally(packets: &[(u16, Option<Span>)]) -> LampTally {
        let mut tally = LampTally::new();
        packets.iter().for_each(|(seq, latency)| tally.note(*seq, *latency));
        tally
    }

    #[test]
    fn latencies_of_the_packets_that_have_one() {
        let tally = tally(&[(0, us(100)), (1, us(300)), (2, None), (3, us(0)), (4, us(-5)), (5, us(140))]);
        let report = tally.report(StampSource::Kernel, false);
        assert_eq!((report.min_us, report.max_us, report.mean_us), (Some(100), 300, 180.0));
        // (80² + 120² + 40²) / 2
        assert!((report.variance_us2 - 11_200.0).abs() < 1e-6, "{}", report.variance_us2);
        assert_eq!(
            (report.received, report.errors, report.out_of_order, report.duplicates),
            (6, 3, 0, Some(0))
        );
        assert_eq!((report.highest_seq, report.wraps), (Some(5), 0));
    }

    #[test]
    fn a_latency_is_cut_to_microseconds_and_one_alone_has_no_variance() {
        let report = tally(&[(7, Some(Span(1999)))]).report(StampSource::User, true);
        assert_eq!((report.min_us, report.max_us, report.variance_us2), (Some(1), 1, 0.0));
        let none = tally(&[(7, Some(Span(999)))]).report(StampSource::User, true);
        assert_eq!((none.min_us, none.errors, none.timed_out), (None, 1, true));
        assert!(!LampTally::new().has_received() && tally(&[(7, None)]).has_received());
        assert_eq!(LampTally::new().report(StampSource::User, true).highest_seq, None);
    }

    #[test]
    fn order_and_copies_also_over_a_wrap() {
        let seqs = [65_533, 65_535, 65_534, 0, 0, 65_535, 2, 1, 2, 65_533];
        let tally = tally(&seqs.map(|seq| (seq, us(1))));
        let report = tally.report(StampSource::User, false);
        assert_eq!((report.received, report.out_of_order, report.duplicates), (6, 2, Some(4)));
        assert_eq!((report.highest_seq, report.wraps), (Some(2), 1));
    }

    #[test]
    fn what_is_older_than_the_window_cannot_be_known_again() {
        let window = DUPLICATE_WINDOW as u16;
        let copies = |seqs: &[u16]| {
            let packets: Vec<_> = seqs.iter().map(|seq| (*seq, us(1))).collect();
            tally(&packets).duplicates
        };
        assert_eq!(copies(&[0, window - 1, 0]), 1, "within the window");
        assert_eq!(copies(&[0, window, 0]), 0, "outside");
        // The same slot in the next cycle belongs to another packet.
        assert_eq!(copies(&[5, 5 + window, 5 + window]), 1);
        assert_eq!(copies(&[5, 6, 5 + 2 * window, 6 + 2 * window]), 0);
        for gap in [1, 63, 64, 65, 127, 128, 129, window - 1, window, window + 1] {
            for first in [0, 1, 63, 64, 100] {
                assert_eq!(copies(&[first, first + gap, first + gap]), 1, "{first} and {gap} later, twice");
                assert_eq!(
                    copies(&[first, first + gap, first + gap - 1]),
                    u64::from(gap == 1),
                    "{first}, {gap}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn as_a_set_of_all_numbers_has_it(steps in prop::collection::vec((-40i64..120, 1i64..1000), 1..400)) {
            let (mut tally, mut seen, mut next) = (LampTally::new(), HashSet::new(), 1000i64);
            let (mut highest, mut late, mut copies) = (None::<i64>, 0, 0);
            for (step, latency) in steps {
                let number = (next + step).max(0);
                tally.note(number as u16, us(latency));
                if seen.insert(number) {
                    late += u64::from(highest.is_some_and(|h| number < h));
                    highest = Some(highest.map_or(number, |h| h.max(number)));
                } else {
                    copies += 1;
                }
                next = highest.unwrap_or(number);
            }
            prop_assert_eq!((tally.duplicates, tally.out_of_order), (copies, late));
            prop_assert_eq!((tally.received, tally.highest), (seen.len() as u64, highest));
        }
    }
}
