//! Intervals of the difference of two figures, from the interval of each.

use super::side::ComparisonSide;
use jitlat_core::metrics::dependence::{ShareInterval, beta_interval};
use jitlat_core::metrics::stat::{Z95, normal_quantile, t_quantile};

/// A figure of one run with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub value: f64,
    /// 95 % interval; `None` if there are too few independent packets.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// Adds an independent error with a 95 % interval of ±`error`.
    pub fn with_error(self, error: f64) -> Estimate {
        let wider = |[low, high]: [f64; 2]| {
            [self.value - (self.value - low).hypot(error), self.value + (high - self.value).hypot(error)]
        };
        Estimate { ci95: self.ci95.map(wider), ..self }
    }

    pub fn moved(self, by: f64) -> Estimate {
        Estimate { value: self.value + by, ci95: self.ci95.map(|ends| ends.map(|x| x + by)) }
    }
}

/// Returns the confidence that each of `figures` intervals must have so that all of them together hold with 95 %
/// (Bonferroni).
pub(super) fn confidence(figures: usize) -> f64 {
    1.0 - 0.05 / figures.max(1) as f64
}

/// Returns the interval of y − x from the intervals of both (MOVER, Zou and Donner 2008; for proportions that is
/// Newcombe's interval).
fn between(x: Estimate, y: Estimate, confidence: f64) -> Option<[f64; 2]> {
    let ([x_low, x_high], [y_low, y_high]) = x.ci95.zip(y.ci95)?;
    let (change, wider) = (y.value - x.value, normal_quantile((1.0 + confidence) / 2.0) / Z95);
    let below = (y.value - y_low).hypot(x_high - x.value);
    let above = (y_high - y.value).hypot(x.value - x_low);
    Some([change - wider * below, change + wider * above])
}

/// A pair of figures, whose difference can be computed with any confidence.
#[derive(Clone, Copy, Debug)]
pub(super) enum FigurePair {
    Times(Estimate, Estimate),
    /// Loss ratios: lost and sent packets of each run, the common design effect, and the number of loss events of both
    /// runs together.
    Losses {
        counts: [(u64, u64); 2],
        design_effect: f64,
        events: u64,
    },
}

impl FigurePair {
    /// Returns the loss ratios of `a` and `b`; `None` if loss is invisible or nothing was sent.
    ///
    /// Under the hypothesis of no difference both runs have the same bursts. Their common design effect is therefore
    /// the mean of both, weighted by the number of losses. A run with few events does not show how large bursts are.
    pub fn of_loss(a: &ComparisonSide, b: &ComparisonSide) -> Option<FigurePair> {
        let sent = |side: &ComparisonSide| side.loss.filter(|loss| loss.1 > 0);
        let counts = [sent(a)?, sent(b)?];
        let bursts = [a, b].map(|side| Bursts::of(side).unwrap_or_default());
        let Bursts { lost, products, events } = bursts[0].and(bursts[1]);
        let design_effect = if lost > 0.0 { (products / lost).max(1.0) } else { 1.0 };
        Some(FigurePair::Losses { counts, design_effect, events })
    }

    /// Returns the value of A.
    pub fn first(&self) -> f64 {
        match self {
            FigurePair::Times(x, _) => x.value,
            FigurePair::Losses { counts: [(lost, sent), _], .. } => *lost as f64 / *sent as f64,
        }
    }

    /// Returns B − A.
    pub fn change(&self) -> f64 {
        match self {
            FigurePair::Times(x, y) => y.value - x.value,
            FigurePair::Losses { counts: [_, (lost, sent)], .. } => {
                *lost as f64 / *sent as f64 - self.first()
            }
        }
    }

    /// Returns the interval of B − A; `None` if there are too few independent packets.
    pub fn interval(&self, confidence: f64) -> Option<[f64; 2]> {
        let (counts, design_effect, events) = match *self {
            FigurePair::Times(x, y) => return between(x, y, confidence),
            FigurePair::Losses { counts, design_effect, events } => (counts, design_effect, events),
        };
        // Without losses there are no bursts whose sizes are uncertain. Otherwise there are as many degrees of freedom as
        // events and, as in the interval of one run, four assumed ones.
        let df = if events == 0 { u64::MAX } else { events.saturating_add(4) };
        let wider = (t_quantile((1.0 + confidence) / 2.0, df) / Z95).powi(2);
        let estimate = |(lost, sent): (u64, u64)| {
            let value = lost as f64 / sent as f64;
            Estimate { value, ci95: beta_interval(value, sent as f64 / design_effect / wider) }
        };
        between(estimate(counts[0]), estimate(counts[1]), 0.95)
    }

    /// Returns true if the runs can differ in this figure: a time, or losses in at least one of them.
    pub fn can_differ(&self) -> bool {
        !matches!(self, FigurePair::Losses { counts: [(0, _), (0, _)], .. })
    }
}

/// Loss bursts of a side: its losses, their number times their design effect, and the number of events.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    lost: f64,
    products: f64,
    events: u64,
}

impl Bursts {
    fn and(self, other: Bursts) -> Bursts {
        Bursts {
            lost: self.lost + other.lost,
            products: self.products + other.products,
            events: self.events.saturating_add(other.events),
        }
    }

    /// Returns the bursts of all runs of `side`. If loss varies more between the runs than bursts explain, the result
    /// allows for that variation.
    fn of(side: &ComparisonSide) -> Option<Bursts> {
        let (lost, sent) = side.loss?;
        let mut all = side.loss_events.iter().map(Bursts::of_run).fold(Bursts::default(), Bursts::and);
        if side.loss_events.is_empty() {
            all = Bursts { lost: lost as f64, products: lost as f64, events: lost };
        }
        let runs = side.loss_counts.len();
        let share = lost as f64 / sent.max(1) as f64;
        if runs > 1 && lost > 0 && lost < sent {
            let square = |(lost, sent): &(u64, u64)| {
                let expected = share * *sent as f64;
                (*lost as f64 - expected).powi(2) / (expected.max(f64::MIN_POSITIVE) * (1.0 - share))
            };
            let dispersion = side.loss_counts.iter().map(square).sum::<f64>() / (runs - 1) as f64;
            if dispersion > all.products / all.lost.max(1.0) {
                all = Bursts {
                    products: all.lost * dispersion,
                    events: all.events.min(runs as u64 - 1),
                    ..all
                };
            }
        }
        Some(all)
    }

    fn of_run((share, lost): &(ShareInterval, u64)) -> Bursts {
        let lost = *lost as f64;
        // The size of a single event says nothing about the variance of sizes; that of a geometric distribution is
        // assumed, as in the interval of one run.
        let alone = (2.0 * lost / share.events.max(1) as f64 - 1.0).max(1.0);
        let design_effect = share.design_effect.unwrap_or(alone);
        Bursts { lost, products: lost * design_effect, events: share.events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(value: f64, by: f64) -> Estimate {
        Estimate { value, ci95: Some([value - by, value + by]) }
    }

    #[test]
    fn errors_add_as_squares() {
        let pair = FigurePair::Times(around(10.0, 3.0), around(15.0, 4.0));
        let [low, high] = pair.interval(0.95).unwrap();
        assert_eq!((pair.first(), pair.change(), low.abs() < 1e-9), (10.0, 5.0, true));
        assert!((high - 10.0).abs() < 1e-9, "{high}");
        assert_eq!(around(10.0, 3.0).with_error(4.0), around(10.0, 5.0));
        assert_eq!(around(10.0, 3.0).moved(2.0), around(12.0, 3.0));
        // Two figures: 97.5 % each, 2.2414 deviations instead of 1.9600.
        let [low, high] = pair.interval(confidence(2)).unwrap();
        assert!((low + 0.7181).abs() < 1e-3 && (high - 10.7181).abs() < 1e-3, "{low} {high}");
        let unknown = Estimate { value: 1.0, ci95: None };
        assert_eq!(FigurePair::Times(around(1.0, 1.0), unknown).interval(0.95), None);
    }

    fn losing(lost: u64, events: &[(u64, u64)]) -> ComparisonSide {
        let mut counts = jitlat_core::metrics::dependence::EventCounts::default();
        events.iter().for_each(|(start, len)| counts.push(*start, *len));
        let share = counts.share(1000, 1000);
        ComparisonSide {
            loss: Some((lost, 1000)),
            loss_events: vec![(share, lost)],
            ..ComparisonSide::default()
        }
    }

    #[test]
    fn one_burst_is_no_difference_and_as_many_isolated_losses_are() {
        let interval = |a: &ComparisonSide, b: &ComparisonSide| FigurePair::of_loss(a, b)?.interval(0.95);
        let none = losing(0, &[]);
        let [low, high] = interval(&none, &losing(20, &[(500, 20)])).unwrap();
        assert!(low < 0.0 && high > 0.02, "{low} {high}");
        let isolated: Vec<(u64, u64)> = (0..20).map(|k| (20 + 47 * k + k * k % 7, 1)).collect();
        let [low, high] = interval(&none, &losing(20, &isolated)).unwrap();
        assert!(low > 0.005 && high < 0.05, "{low} {high}");
        let [low, high] = interval(&none, &none).unwrap();
        assert!((low + high).abs() < 1e-12 && (0.003..0.005).contains(&high), "{low} {high}");
        assert!(!FigurePair::of_loss(&none, &none).unwrap().can_differ());
        assert!(interval(&none, &ComparisonSide::default()).is_none());
    }
}
