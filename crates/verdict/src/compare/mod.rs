//! Compares two runs, with a verdict that is not based on p-values (metrics §20).
//!
//! Packets of one run are not independent, so a test that assumes independence finds a difference between any two runs
//! that are long enough. The verdict "different" therefore requires three things: a confidence interval that allows for
//! correlation and does not contain zero, an effect that is not negligible, and a change larger than the measurement
//! error.

pub(crate) mod comparison;
mod condition;
mod grid;
mod pairs;
mod side;

pub use comparison::{
    Basis, Comparison, ComparisonOutcome, ComparisonSettings, Difference, Effect, IndependenceTests,
    Precondition, Statistic, Unlike,
};
pub use condition::{ChangeLimit, FailCondition};
pub use grid::{Cell, ComparisonGrid, ComparisonRow, LabelledRun, RunKey};
use jitlat_core::comparable::{self, ResampledSpread};
pub use side::ComparisonSide;

use jitlat_core::distribution::percentile::Percent;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::stat::wilson95;
use pairs::{OrderedPairs, hodges_lehmann};

/// Compares run `b` with run `a`.
pub fn compare(a: &ComparisonSide, b: &ComparisonSide, question: &ComparisonSettings) -> Comparison {
    compare_ready(&Ready::new(a, question.seed), &Ready::new(b, question.seed), question)
}

/// A side of a comparison, with results that are computed once for any number of comparisons.
struct Ready<'a> {
    side: &'a ComparisonSide,
    all: Sample,
    spread: Option<ResampledSpread>,
}

impl Ready<'_> {
    fn new(side: &ComparisonSide, seed: u64) -> Ready<'_> {
        let all = Sample::new(side.values.iter().copied());
        Ready { side, spread: side.spread(&all, seed), all }
    }
}

fn compare_ready(ready_a: &Ready<'_>, ready_b: &Ready<'_>, question: &ComparisonSettings) -> Comparison {
    let ComparisonSettings { basis, statistic, seed, .. } = *question;
    let (Ready { side: a, all: sa, spread: of_a }, Ready { side: b, all: sb, spread: of_b }) =
        (ready_a, ready_b);
    let difference =
        |x: Option<f64>, y: Option<f64>, ci95: Option<[f64; 2]>| Some(Difference { change: y? - x?, ci95 });
    let median = |side: &ComparisonSide, sample: &Sample| sample.median().or(side.median);
    let p99 =
        |side: &ComparisonSide, sample: &Sample| sample.edf(Percent(99_000)).map(|x| x as f64).or(side.p99);
    let apart = b.least() as f64 - a.least() as f64;
    let interval = |of: fn(&ResampledSpread) -> &[f64]| {
        Some(comparable::interval(of(of_a.as_ref()?), of(of_b.as_ref()?))?.map(|limit| limit + apart))
    };
    let pairs = AllPairs::of((a, sa), (b, sb), seed);
    let mut result = Comparison {
        a: a.label.clone(),
        b: b.label.clone(),
        basis,
        n: [a.packets(), b.packets()],
        unlike: side::unlike(a, b, question.varied),
        median: difference(median(a, sa), median(b, sb), interval(|s| &s.median)),
        p99: difference(p99(a, sa), p99(b, sb), interval(|s| &s.p99)),
        loss: loss(a, b),
        cliffs_delta: pairs.map(|p| p.delta),
        cliffs_delta_error: pairs.map(|p| p.delta_error),
        effect: pairs.map(|p| effect(p.delta)),
        shift: pairs.map(|p| p.shift),
        floor: a.floor + b.floor,
        tests: pairs.and_then(|p| p.tests),
        statistic,
        outcome: ComparisonOutcome::Undecided,
        because: String::new(),
    };
    (result.outcome, result.because) = crate::comparison::decide(&result);
    result
}

/// Statistics of all pairs of one packet of A and one packet of B.
#[derive(Clone, Copy)]
struct AllPairs {
    delta: f64,
    delta_error: f64,
    shift: f64,
    tests: Option<IndependenceTests>,
}

impl AllPairs {
    /// Computes the statistics from the packets if both sides have them, otherwise from their stored distributions.
    fn of(
        (a, sa): (&ComparisonSide, &Sample),
        (b, sb): (&ComparisonSide, &Sample),
        seed: u64,
    ) -> Option<AllPairs> {
        if !sa.is_empty() && !sb.is_empty() {
            let pairs = OrderedPairs::count(sa, sb);
            return Some(AllPairs {
                // The pairs compare A with B, but the change of B is reported: reverse the sign.
                delta: -pairs.delta(),
                delta_error: 0.0,
                shift: hodges_lehmann(sb, sa),
                tests: Some(pairs.tests(sa, sb)),
            });
        }
        let above = |bound| moved(bound, b.least().saturating_sub(a.least()));
        let [a_low, a_high] = a.known(sa, seed)?.bounds();
        let [b_low, b_high] = b.known(sb, seed)?.bounds().map(above);
        let (low, high) =
            (-OrderedPairs::count(&a_high, &b_low).delta(), -OrderedPairs::count(&a_low, &b_high).delta());
        let shift = (hodges_lehmann(&b_low, &a_high) + hodges_lehmann(&b_high, &a_low)) / 2.0;
        Some(AllPairs { delta: (low + high) / 2.0, delta_error: (high - low) / 2.0, shift, tests: None })
    }
}

fn moved(mut values: comparable::Weighted, by: i64) -> comparable::Weighted {
    values.iter_mut().for_each(|(value, _)| *value = value.saturating_add(by));
    values
}

/// Returns the difference between the loss ratios, with Newcombe's interval, which combines the intervals of both
/// ratios.
fn loss(a: &ComparisonSide, b: &ComparisonSide) -> Option<Difference> {
    let ratio = |side: &ComparisonSide| {
        let (lost, sent) = side.loss.filter(|l| l.1 > 0)?;
        let [low, high] = side.loss_interval.or_else(|| wilson95(lost, sent))?;
        let ratio = lost as f64 / sent as f64;
        Some((ratio, ratio - low, high - ratio))
    };
    let ((x, x_below, x_above), (y, y_below, y_above)) = (ratio(a)?, ratio(b)?);
    let change = y - x;
    Some(Difference {
        change,
        ci95: Some([change - y_below.hypot(x_above), change + y_above.hypot(x_below)]),
    })
}

// Limits of Cliff's delta by Romano et al. (2006).
fn effect(delta: f64) -> Effect {
    match delta.abs() {
        d if d < 0.147 => Effect::Negligible,
        d if d < 0.33 => Effect::Small,
        d if d < 0.474 => Effect::Medium,
        _ => Effect::Large,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn side(label: &str, values: Vec<i64>) -> ComparisonSide {
        ComparisonSide { label: label.into(), values, ..ComparisonSide::default() }
    }

    fn of(a: Vec<i64>, b: Vec<i64>) -> Comparison {
        compare(&side("a", a), &side("b", b), &asked(Basis::Pdv, Statistic::Median))
    }

    fn asked(basis: Basis, statistic: Statistic) -> ComparisonSettings {
        ComparisonSettings { basis, statistic, varied: None, seed: 1 }
    }

    #[test]
    fn the_worked_example() {
        // Metrics §20, V24. There A is the slower run, so all signs are reversed.
        let c = of(vec![9, 10, 10, 11, 12, 12, 13, 14, 16], vec![10, 12, 13, 13, 15, 18, 25, 40]);
        let t = c.tests.unwrap();
        assert_eq!((t.u, c.shift, c.median.unwrap().change), (17.0, Some(3.0), 2.0));
        assert!((t.z - 1.793_399).abs() < 1e-6 && (t.p - 0.072_909).abs() < 1e-6);
        assert!((c.cliffs_delta.unwrap() - 0.527_778).abs() < 1e-6);
        assert_eq!((c.effect, c.outcome), (Some(Effect::Large), ComparisonOutcome::Undecided));
        assert!((t.ks - 0.416_667).abs() < 1e-6 && (t.ks_p - 0.352_967).abs() < 1e-6);
        let swapped = of(vec![10, 12, 13, 13, 15, 18, 25, 40], vec![9, 10, 10, 11, 12, 12, 13, 14, 16]);
        assert_eq!((swapped.tests.unwrap().u, swapped.shift), (55.0, Some(-3.0)));
    }

    fn noise(seed: i64, shift: i64) -> Vec<i64> {
        let mut state = seed as u64;
        (0..1000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                shift + (state >> 44) as i64
            })
            .collect()
    }

    #[test]
    fn verdicts() {
        assert_eq!(of(noise(1, 0), noise(2, 0)).outcome, ComparisonOutcome::Same);
        assert_eq!(of(noise(1, 0), noise(2, 700_000)).outcome, ComparisonOutcome::Different);
        // A change that is certain but negligible.
        let slight = of(noise(1, 0), noise(1, 60_000));
        assert_eq!((slight.outcome, slight.effect), (ComparisonOutcome::Same, Some(Effect::Negligible)));
        // A change beyond chance, but within the clocks' error.
        let mut late = side("b", noise(2, 700_000));
        late.floor = 1e6;
        let c = compare(&side("a", noise(1, 0)), &late, &asked(Basis::Delay, Statistic::Median));
        assert_eq!(c.outcome, ComparisonOutcome::Undecided);
        let summary_only = ComparisonSide { median: Some(5.0), ..ComparisonSide::default() };
        let c = compare(&summary_only, &summary_only, &asked(Basis::Pdv, Statistic::P99));
        assert_eq!((c.outcome, c.median.unwrap().change), (ComparisonOutcome::Undecided, 0.0));
    }

    #[test]
    fn loss_and_preconditions() {
        let a =
            ComparisonSide { loss: Some((0, 1000)), period: Some(20_000_000), ..ComparisonSide::default() };
        let b =
            ComparisonSide { loss: Some((60, 1000)), period: Some(10_000_000), ..ComparisonSide::default() };
        let c = compare(&a, &b, &asked(Basis::Pdv, Statistic::Median));
        let loss = c.loss.unwrap();
        assert_eq!((loss.change, loss.ci95.unwrap()[0] > 0.04), (0.06, true));
        assert_eq!((c.unlike[0].what, c.unlike.len()), (Precondition::Period, 1));
        assert_eq!(c.unlike[0].text, "different periods: 20.0 ms and 10.0 ms");
    }

    #[test]
    fn long_runs_are_judged_by_batches() {
        let long = |shift| (0..300).flat_map(|k| noise(k, shift)).collect::<Vec<_>>();
        assert_eq!(of(long(0), long(700_000)).outcome, ComparisonOutcome::Different);
    }

    proptest! {
        #[test]
        fn equals_all_pairs(a in prop::collection::vec(-9i64..9, 1..20), b in prop::collection::vec(-9i64..9, 1..20)) {
            let c = of(a.clone(), b.clone());
            let mut all: Vec<i64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
            all.sort_unstable();
            let n = all.len();
            prop_assert_eq!(c.shift, Some((all[(n - 1) / 2] + all[n / 2]) as f64 / 2.0));
            let (more, fewer) = (all.iter().filter(|d| **d > 0).count(), all.iter().filter(|d| **d < 0).count());
            prop_assert!((c.cliffs_delta.unwrap() - (more as f64 - fewer as f64) / n as f64).abs() < 1e-12);
        }
    }
}
