//! [`Gaps`]: distributions of random times between packets, as in LaTe.

use crate::time::Span;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// Distribution of the time between packets. All times are > 0 and bounded: a rare but very long time would delay the
/// whole test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "law")]
pub enum Gaps {
    /// Uniform between two times.
    Uniform {
        /// Shortest time, > 0.
        least: Span,
        /// Longest time, at most a day.
        most: Span,
    },
    /// `least` plus an exponential time of mean `mean` − `least`; values above three times `mean` are redrawn.
    Exponential {
        /// Shortest time, ≥ 0.
        least: Span,
        /// Mean before large values are redrawn, > `least`.
        mean: Span,
    },
    /// Normal; values below 0 or above twice `mean` are redrawn.
    Normal {
        /// Mean of the distribution, > 0.
        mean: Span,
        /// Standard deviation before values are redrawn, ≥ 0 and at most ten times `mean`.
        deviation: Span,
    },
}

/// Longest permitted time: a day, in ns.
const MAX_GAP_NS: i64 = 86_400_000_000_000;

impl Gaps {
    /// Returns true if these gaps can be drawn in reasonable time.
    pub fn is_possible(self) -> bool {
        match self {
            Gaps::Uniform { least, most } => 0 < least.0 && least <= most && most.0 <= MAX_GAP_NS,
            Gaps::Exponential { least, mean } => 0 <= least.0 && least < mean && mean.0 <= MAX_GAP_NS,
            // Gaps above twice the mean are drawn again. With a much larger deviation, nearly all would be.
            Gaps::Normal { mean, deviation } => {
                0 < mean.0 && mean.0 <= MAX_GAP_NS && 0 <= deviation.0 && deviation.0 / 10 <= mean.0
            }
        }
    }

    /// Returns the mean of the gaps, at least a nanosecond.
    pub fn mean(self) -> Span {
        let mean = match self {
            Gaps::Uniform { least, most } => least.0 + (most.0 - least.0) / 2,
            // The truncation is symmetric, so it does not change the mean.
            Gaps::Normal { mean, .. } => mean.0,
            Gaps::Exponential { least, mean } => {
                let (m, cut) = ((mean.0 - least.0) as f64, (3 * mean.0 - least.0) as f64);
                let above = (-cut / m).exp();
                least.0 + (m - cut * above / (1.0 - above)) as i64
            }
        };
        Span(mean.max(1))
    }

    /// Draws a gap.
    pub(crate) fn draw(self, rng: &mut ChaCha8Rng) -> Span {
        let again = |rng: &mut ChaCha8Rng, most: i64, one: &mut dyn FnMut(&mut ChaCha8Rng) -> f64| loop {
            let gap = one(rng);
            if (1.0..=most as f64).contains(&gap) {
                return Span(gap as i64);
            }
        };
        match self {
            Gaps::Uniform { least, most } => {
                Span(least.0 + ((most.0 - least.0 + 1) as f64 * (1.0 - unit(rng))) as i64).min(most)
            }
            Gaps::Exponential { least, mean } => again(rng, 3 * mean.0, &mut |rng| {
                (least.0 as f64 - unit(rng).ln() * (mean.0 - least.0) as f64).max(1.0)
            }),
            Gaps::Normal { mean, deviation } => again(rng, 2 * mean.0, &mut |rng| {
                // Box–Muller transform.
                let (radius, angle) = ((-2.0 * unit(rng).ln()).sqrt(), core::f64::consts::TAU * unit(rng));
                mean.0 as f64 + deviation.0 as f64 * radius * angle.cos()
            }),
        }
    }
}

/// Returns a uniform number on (0, 1] from the top 53 bits, so that its logarithm is finite.
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    const MS: i64 = 1_000_000;

    #[test]
    fn every_law_keeps_its_bounds_and_its_mean() {
        let ms = |n| Span(n * MS);
        let laws = [
            (Gaps::Uniform { least: ms(10), most: ms(100) }, 10, 100),
            (Gaps::Uniform { least: ms(7), most: ms(7) }, 7, 7),
            (Gaps::Exponential { least: ms(40), mean: ms(50) }, 40, 150),
            (Gaps::Exponential { least: ms(0), mean: ms(50) }, 0, 150),
            (Gaps::Normal { mean: ms(200), deviation: ms(4) }, 160, 240),
            (Gaps::Normal { mean: ms(20), deviation: ms(200) }, 0, 40),
            (Gaps::Normal { mean: ms(20), deviation: ms(0) }, 20, 20),
        ];
        for (law, least, most) in laws {
            assert!(law.is_possible(), "{law:?}");
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            let gaps: Vec<i64> = (0..20_000).map(|_| law.draw(&mut rng).0).collect();
            assert!(gaps.iter().all(|g| (1.max(least * MS)..=most * MS).contains(g)), "{law:?}");
            let mean = gaps.iter().sum::<i64>() as f64 / gaps.len() as f64;
            let off = mean / law.mean().0 as f64 - 1.0;
            assert!(off.abs() < 0.02, "{law:?}: {mean}, not {}", law.mean().0);
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        for law in [
            Gaps::Uniform { least: Span(0), most: Span(5) },
            Gaps::Uniform { least: Span(6), most: Span(5) },
            Gaps::Exponential { least: Span(5), mean: Span(5) },
            Gaps::Exponential { least: Span(-1), mean: Span(5) },
            Gaps::Normal { mean: Span(0), deviation: Span(0) },
            Gaps::Normal { mean: Span(1), deviation: Span(i64::MAX) },
            Gaps::Normal { mean: Span(i64::MAX), deviation: Span(1) },
        ] {
            assert!(!law.is_possible(), "{law:?}");
        }
    }
}
