//! [`Jitter`]: distributions of delay variation.

use super::chance::unit;
use jitlat_core::time::{Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// Maximum delay that any jitter adds to a packet.
pub const MAX_JITTER: Span = Span::seconds(60);

/// A distribution of delay variation. It never shortens a delay, so the fixed delay remains the minimum.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Jitter {
    /// No variation.
    #[default]
    None,
    /// Uniform on [0, `max`].
    Uniform {
        /// Upper limit.
        max: Span,
    },
    /// Exponential.
    Exponential {
        /// Mean, which is also the standard deviation.
        mean: Span,
    },
    /// Heavy tail (Lomax, or Pareto of the second kind): exceeds x with probability (1 + x/`scale`)^−`shape`.
    /// The mean is `scale`/(`shape` − 1) for shapes above 1; the variance is infinite up to 2.
    Pareto {
        /// Scale.
        scale: Span,
        /// Shape, > 0. A smaller shape means a heavier tail.
        shape: f64,
    },
    /// Normal with a mean of three deviations, cut off at 0.
    Normal {
        /// Standard deviation.
        deviation: Span,
    },
    /// Lognormal: the logarithm is normal.
    LogNormal {
        /// Median.
        median: Span,
        /// Standard deviation of the delay's natural logarithm.
        sigma: f64,
    },
    /// Delay until the next multiple of a time, as caused by radio schedulers and interleavers.
    Slots {
        /// Time from one slot to the next, > 0.
        every: Span,
    },
    /// Uniform on [0, `max`] for a share of the packets, zero for the others.
    Spikes {
        /// Share of affected packets, 0…1.
        share: f64,
        /// Upper limit.
        max: Span,
    },
    /// Sum of several distributions, applied in this order.
    Sum(Vec<Jitter>),
}

impl Jitter {
    /// Returns the delay to add to a packet that enters at `now`, 0…[`MAX_JITTER`].
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

/// Returns a standard normal number (Box–Muller).
pub(super) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * unit(rng).ln()).sqrt();
    radius * (core::f64::consts::TAU * unit(rng)).cos()
}
