//! [`Jitter`]: laws of delay variation.

use super::chance::unit;
use jitlat_core::time::{Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// No law of jitter delays a packet by more than this.
pub const MAX_JITTER: Span = Span::seconds(60);

/// A law of delay variation; all spans are one-sided, so the fixed delay stays the minimum.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Jitter {
    /// No variation.
    #[default]
    None,
    /// Uniform on [0, `max`].
    Uniform {
        /// The upper end.
        max: Span,
    },
    /// Exponential.
    Exponential {
        /// Its mean, which is also its standard deviation.
        mean: Span,
    },
    /// Heavy tail (Lomax, or Pareto of the second kind): exceeds x with probability (1 + x/`scale`)^−`shape`.
    /// Mean `scale`/(`shape` − 1) for shapes above 1, without a finite variance up to 2.
    Pareto {
        /// The scale.
        scale: Span,
        /// The shape, > 0: the smaller, the heavier the tail.
        shape: f64,
    },
    /// Normal about three deviations, cut off at 0.
    Normal {
        /// Standard deviation.
        deviation: Span,
    },
    /// Lognormal: its logarithm is normal.
    LogNormal {
        /// The median.
        median: Span,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Delayed until the next multiple of a time, as by radio schedulers and interleavers.
    Slots {
        /// From one slot to the next, > 0.
        every: Span,
    },
    /// Zero for most packets, uniform on [0, `max`] for some.
    Spikes {
        /// The share of packets affected.
        share: f64,
        /// The upper end.
        max: Span,
    },
    /// The sum of several laws, applied in this order.
    Sum(Vec<Jitter>),
}

impl Jitter {
    /// What is added to the delay of a packet that enters at `now`, 0…[`MAX_JITTER`].
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng, now: SteadyTime) -> Span {
        let extra = match self {
            Jitter::None => return Span::ZERO,
            Jitter::Uniform { max } => unit(rng) * max.0 as f64,
            Jitter::Exponential { mean } => -unit(rng).ln() * mean.0 as f64,
            Jitter::Pareto { scale, shape } => (unit(rng).powf(-1.0 / shape) - 1.0) * scale.0 as f64,
            Jitter::Normal { deviation } => (3.0 + normal(rng)) * deviation.0 as f64,
            Jitter::LogNormal { median, sigma } => (normal(rng) * sigma).exp() * median.0 as f64,
            Jitter::Slots { every } => return Span((-now.0).rem_euclid(every.0.max(1))),
            Jitter::Spikes { share, max } => {
                let (chosen, height) = (unit(rng) <= *share, unit(rng) * max.0 as f64);
                if chosen { height } else { 0.0 }
            }
            Jitter::Sum(laws) => {
                let add =
                    |sum: Span, law: &Jitter| Span((sum + law.draw(rng, now + sum)).0.min(MAX_JITTER.0));
                return laws.iter().fold(Span::ZERO, add);
            }
        };
        Span((extra as i64).clamp(0, MAX_JITTER.0))
    }
}

/// Standard normal (Box and Muller).
pub(super) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * unit(rng).ln()).sqrt();
    radius * (core::f64::consts::TAU * unit(rng)).cos()
}
