//! Due times of packets: absolute offsets from the start of the stream. With absolute offsets, errors of sleeping do
//! not accumulate.

use crate::gaps::{Gaps, unit};
use crate::spec::{Schedule, TestSpec};
use crate::time::Span;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Iterator over the due times of a stream, as offsets from its start, in order of sequence numbers. The due times
/// never decrease. The iterator ends after the stream's last packet. The same specification always gives the same
/// times.
#[derive(Clone, Debug)]
pub struct Deadlines {
    period: Span,
    packets: u32,
    next: u32,
    law: SendLaw,
}

#[derive(Clone, Debug)]
enum SendLaw {
    Periodic,
    Burst(u32),
    /// Random generator, and the sum of the gaps drawn so far, in nanoseconds.
    Poisson(Box<ChaCha8Rng>, f64),
    Random(Box<RandomGaps>),
}

#[derive(Clone, Debug)]
struct RandomGaps {
    rng: ChaCha8Rng,
    gaps: Gaps,
    batch: u32,
    gap: Span,
    /// Sum of the gaps so far.
    at: Span,
}

impl Deadlines {
    /// Creates the due times for `spec`.
    pub fn new(spec: &TestSpec) -> Deadlines {
        let law = match spec.schedule() {
            Schedule::Periodic => SendLaw::Periodic,
            Schedule::Burst { size } => SendLaw::Burst(size.max(1)),
            Schedule::Poisson { seed } => SendLaw::Poisson(Box::new(ChaCha8Rng::seed_from_u64(seed)), 0.0),
            Schedule::Random { gaps, batch, seed } => SendLaw::Random(Box::new(RandomGaps {
                rng: ChaCha8Rng::seed_from_u64(seed),
                gaps,
                batch: batch.max(1),
                gap: Span::ZERO,
                at: Span::ZERO,
            })),
        };
        Deadlines { period: spec.period(), packets: spec.packets(), next: 0, law }
    }
}

/// Returns the maximum number of packets of `spec` that are due within any `window`. Counting stops above `enough`. The
/// work for random gaps is therefore limited to two drawn gaps per packet.
pub fn peak(spec: &TestSpec, window: Span, enough: u32) -> u32 {
    let (period, window) = (i128::from(spec.period().0.max(1)), i128::from(window.0.max(1)));
    let at_once = match spec.schedule() {
        Schedule::Periodic => 1,
        Schedule::Burst { size } => i128::from(size.max(1)),
        Schedule::Poisson { .. } | Schedule::Random { .. } => return counted_peak(spec, window, enough),
    };
    let groups = (window + period * at_once - 1) / (period * at_once);
    (groups * at_once).min(spec.packets().into()) as u32
}

fn counted_peak(spec: &TestSpec, window: i128, enough: u32) -> u32 {
    let mut leaving = Deadlines::new(spec);
    let mut oldest = leaving.next();
    let (mut within, mut peak) = (0, 0);
    for due in Deadlines::new(spec) {
        within += 1;
        while oldest.is_some_and(|o| i128::from(due.0) - i128::from(o.0) >= window) {
            oldest = leaving.next();
            within -= 1;
        }
        peak = peak.max(within);
        if peak > enough {
            break;
        }
    }
    peak
}

impl Iterator for Deadlines {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        if self.next >= self.packets {
            return None;
        }
        let i = self.next;
        self.next += 1;
        Some(match &mut self.law {
            SendLaw::Periodic => self.period.times(i.into()),
            SendLaw::Burst(size) => self.period.times((i - i % *size).into()),
            SendLaw::Poisson(rng, at) => {
                if i > 0 {
                    *at -= unit(rng).ln() * self.period.0 as f64;
                }
                Span(*at as i64)
            }
            SendLaw::Random(d) => {
                if i > 0 {
                    if (i - 1).is_multiple_of(d.batch) {
                        d.gap = d.gaps.draw(&mut d.rng);
                    }
                    d.at = Span(d.at.0.saturating_add(d.gap.0));
                }
                d.at
            }
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.packets - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Deadlines {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Direction, Transport};

    fn deadlines(n: u64, schedule: Schedule) -> Vec<i64> {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, n, 80, Span(1000), schedule).unwrap();
        Deadlines::new(&spec).map(|s| s.0).collect()
    }

    #[test]
    fn periodic_is_a_grid() {
        assert_eq!(deadlines(4, Schedule::Periodic), [0, 1000, 2000, 3000]);
    }

    #[test]
    fn bursts_keep_the_mean_rate() {
        assert_eq!(deadlines(7, Schedule::Burst { size: 3 }), [0, 0, 0, 3000, 3000, 3000, 6000]);
    }

    #[test]
    fn the_peak_is_what_any_window_holds() {
        let uniform = Gaps::Uniform { least: Span(1), most: Span(3000) };
        let schedules = [
            Schedule::Periodic,
            Schedule::Burst { size: 7 },
            Schedule::Burst { size: 5000 },
            Schedule::Poisson { seed: 3 },
            Schedule::Random { gaps: uniform, batch: 10, seed: 7 },
        ];
        for schedule in schedules {
            let spec = TestSpec::new(Direction::Up, Transport::Udp, 500, 80, Span(1000), schedule).unwrap();
            let due = deadlines(500, schedule);
            for window in [1, 999, 1000, 1001, 10_000, 1_000_000] {
                let within = |from: &i64| due.iter().filter(|d| (0..window).contains(&(**d - from))).count();
                let want = due.iter().map(within).max().unwrap();
                let got = peak(&spec, Span(window), u32::MAX) as usize;
                assert!((want..=want + 5).contains(&got), "{schedule:?} {window}: {got}, not {want}");
            }
            assert!(peak(&spec, Span(1_000_000), 20) > 20);
        }
    }

    #[test]
    fn gaps_are_drawn_once_a_batch() {
        let gaps = Gaps::Uniform { least: Span(500), most: Span(1500) };
        let a = deadlines(100, Schedule::Random { gaps, batch: 10, seed: 7 });
        let gaps: Vec<i64> = a.windows(2).map(|w| w[1] - w[0]).collect();
        let drawn: Vec<&[i64]> = gaps.chunks(10).collect();
        assert!(drawn.iter().all(|batch| batch.iter().all(|gap| gap == &batch[0])));
        assert!(drawn.windows(2).any(|w| w[0][0] != w[1][0]));
    }

    #[test]
    fn poisson_is_reproducible_and_has_its_mean() {
        let a = deadlines(100_000, Schedule::Poisson { seed: 7 });
        assert_eq!(a, deadlines(100_000, Schedule::Poisson { seed: 7 }));
        assert_ne!(a, deadlines(100_000, Schedule::Poisson { seed: 8 }));
        assert!(a.is_sorted());
        let mean = *a.last().unwrap() as f64 / (a.len() - 1) as f64;
        assert!((mean - 1000.0).abs() < 15.0, "{mean}");
    }
}
