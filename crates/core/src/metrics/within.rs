//! Shares of packets near the mean and the median delay.

use crate::distribution::Sample;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// Shares of packets whose delay is at most a given distance from the mean and from the median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Within {
    /// The requested distance, in ns.
    pub span_ns: i64,
    /// Share of accepted packets within the requested distance of the mean delay.
    pub of_mean: f64,
    /// Share of accepted packets within the requested distance of the median delay.
    pub of_median: f64,
}

impl Within {
    /// Computes the shares of the delays in `sample`, whose mean is `mean`; `None` without delays.
    pub fn new(sample: &Sample, mean: Option<f64>, span: Span) -> Option<Within> {
        let share = |around: f64| {
            let low = (around - span.0 as f64).ceil() as i64;
            let high = (around + span.0 as f64).floor() as i64;
            let below = low.checked_sub(1).map_or(0, |x| sample.count_at_most(x));
            sample.count_at_most(high).saturating_sub(below) as f64 / sample.len() as f64
        };
        Some(Within { span_ns: span.0, of_mean: share(mean?), of_median: share(sample.median()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_count_and_nothing_beyond_them() {
        let sample = Sample::new([10, 20, 30, 40, 1000].into_iter());
        let within = |span| Within::new(&sample, Some(220.0), Span(span)).unwrap();
        let shares = |w: Within| (w.of_mean, w.of_median);
        assert_eq!(shares(within(0)), (0.0, 0.2));
        assert_eq!(shares(within(9)), (0.0, 0.2));
        assert_eq!(shares(within(10)), (0.0, 0.6));
        assert_eq!(shares(within(180)), (0.2, 0.8));
        assert_eq!(shares(within(210)), (0.8, 0.8));
        assert_eq!(shares(within(780)), (1.0, 0.8));
        assert_eq!(shares(within(i64::MAX)), (1.0, 1.0));
        assert_eq!(Within::new(&Sample::new([].into_iter()), None, Span(5)), None);
        // A mean between whole nanoseconds: 0.5 ± 0.5 contains both values.
        assert_eq!(Within::new(&Sample::new([0, 1].into_iter()), Some(0.5), Span(0)).unwrap().of_mean, 0.0);
        assert_eq!(Within::new(&Sample::new([0, 1].into_iter()), Some(0.5), Span(1)).unwrap().of_mean, 1.0);
    }
}
