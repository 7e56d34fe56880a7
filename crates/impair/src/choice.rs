//! [`Choice`]: selects the packets that an impairment affects.

use super::chance::unit;
use core::ops::RangeInclusive;
use rand_chacha::ChaCha8Rng;

/// Selection of the test packets that are lost, duplicated or delayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Choice {
    /// No packet.
    #[default]
    Never,
    /// Each packet independently with this probability.
    Bernoulli(f64),
    /// Packets in bursts.
    Gilbert(GilbertModel),
    /// The packets of the given choice whose numbers are in this range.
    Within(RangeInclusive<u64>, Box<Choice>),
    /// Exactly the packets with these numbers, in ascending and disjoint ranges.
    Exactly(Vec<RangeInclusive<u64>>),
}

/// The two-state Markov chain of Gilbert and Elliott. It starts in its good state and may change its state
/// before each packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertModel {
    /// Probability of changing from good to bad.
    pub p: f64,
    /// Probability of changing from bad to good.
    pub r: f64,
    /// Probability that a packet is not affected in the bad state (0 in the simple Gilbert model).
    pub h: f64,
    /// Probability that a packet is not affected in the good state (1 in the simple Gilbert model).
    pub k: f64,
}

impl GilbertModel {
    /// Creates the simple model, which selects every packet in the bad state and none in the good state. Runs
    /// have a mean length of 1/`r`, and a share of `p`/(`p` + `r`) of all packets is selected.
    pub fn simple(p: f64, r: f64) -> GilbertModel {
        GilbertModel { p, r, h: 0.0, k: 1.0 }
    }

    /// Returns the long-term share of selected packets.
    pub fn rate(&self) -> f64 {
        let bad = if self.p + self.r > 0.0 { self.p / (self.p + self.r) } else { 0.0 };
        bad * (1.0 - self.h) + (1.0 - bad) * (1.0 - self.k)
    }
}

impl Choice {
    /// Selects exactly the packets with these numbers, which may be given in any order.
    pub fn indices(numbers: impl IntoIterator<Item = u64>) -> Choice {
        Choice::ranges(numbers.into_iter().map(|n| n..=n))
    }

    /// Selects exactly the packets in these ranges, which may be given in any order. Overlapping and adjacent ranges
    /// are merged.
    pub fn ranges(ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Choice {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|r| !r.is_empty()).collect();
        sorted.sort_by_key(|r| *r.start());
        let mut joined: Vec<RangeInclusive<u64>> = Vec::with_capacity(sorted.len());
        for next in sorted {
            match joined.last_mut() {
                Some(last) if *next.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*next.end().max(last.end());
                }
                _ => joined.push(next),
            }
        }
        Choice::Exactly(joined)
    }

    /// Selects runs of packets with these lengths, each after `gap` unaffected packets. This gives a known histogram of
    /// run lengths.
    pub fn runs(lengths: impl IntoIterator<Item = u64>, gap: u64) -> Choice {
        let mut next = 0u64;
        Choice::ranges(lengths.into_iter().filter(|l| *l > 0).map(move |length| {
            let start = next.saturating_add(gap);
            next = start.saturating_add(length);
            start..=next - 1
        }))
    }
}

/// State of a [`Choice`] while it is applied to packets.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    choice: Choice,
    rng: ChaCha8Rng,
    bad: bool,
}

impl Chooser {
    pub fn new(choice: &Choice, rng: ChaCha8Rng) -> Chooser {
        Chooser { choice: choice.clone(), rng, bad: false }
    }

    /// Returns true if packet `index` is affected. Random choices depend on the order of calls, not on the
    /// index.
    pub fn choose(&mut self, index: u64) -> bool {
        let mut choice = &self.choice;
        let mut within = true;
        while let Choice::Within(range, inner) = choice {
            within &= range.contains(&index);
            choice = inner;
        }
        let chosen = match choice {
            Choice::Never | Choice::Within(..) => false,
            Choice::Bernoulli(p) => unit(&mut self.rng) <= *p,
            Choice::Gilbert(g) => {
                let change = if self.bad { g.r } else { g.p };
                self.bad ^= unit(&mut self.rng) <= change;
                let spared = if self.bad { g.h } else { g.k };
                unit(&mut self.rng) > spared
            }
            Choice::Exactly(ranges) => {
                let after = ranges.partition_point(|r| *r.start() <= index);
                after > 0 && ranges[after - 1].contains(&index)
            }
        };
        chosen && within
    }
}
