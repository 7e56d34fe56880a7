//! Compares two runs, with a verdict that is not based on p-values (metrics §20).
//!
//! Packets of one run are not independent, so a test that assumes independence finds a difference between any two runs
//! that are long enough. The verdict "different" therefore needs an interval of the difference that allows for
//! correlated delays and loss bursts and excludes 0 by more than the error of the measurement itself. "Same" needs an
//! interval within an equivalence margin. Everything else is undecided, with the largest difference that is possible.

pub(crate) mod comparison;
mod condition;
mod difference;
mod grid;
pub(crate) mod margin;
mod pairs;
#[cfg(test)]
mod rates;
mod side;

pub use comparison::{
    Basis, ComparedFigure, ComparedQuantity, Comparison, ComparisonOutcome, ComparisonSettings, Difference,
    Effect, IndependenceTests, Precondition, Statistic, TailEffect, Unlike,
};
pub use condition::{ChangeLimit, FailCondition};
pub use grid::{Cell, ComparisonGrid, ComparisonRow, LabelledRun, RunKey};
use jitlat_core::comparable;
pub use margin::{LossMargin, Margins, TimeMargin};
pub use side::{ComparisonSide, DelayClocks};

use difference::{Estimate, FigurePair, confidence};
use jitlat_core::distribution::percentile::Percent;
use jitlat_core::distribution::sample::Sample;
use pairs::{OrderedPairs, hodges_lehmann};

/// Compares run `b` with run `a`.
pub fn compare(a: &ComparisonSide, b: &ComparisonSide, question: &ComparisonSettings) -> Comparison {
    compare_ready(&Ready::new(a), &Ready::new(b), question)
}

/// A side of a comparison, with results that are computed once for any number of comparisons.
struct Ready<'a> {
    side: &'a ComparisonSide,
    all: Sample,
    /// Median and 99th percentile.
    estimates: [Option<Estimate>; 2],
    /// Median of delay and the error of the clocks, for a side of PDV.
    delay: Option<(Estimate, f64)>,
}

impl Ready<'_> {
    fn new(side: &ComparisonSide) -> Ready<'_> {
        let all = Sample::new(side.values.iter().copied());
        let estimates = side.estimates(&all);
        let single = side.runs.is_empty().then_some(estimates[0]).flatten();
        let delay = side.delays().and_then(|delays| {
            let estimate = match side.clocks.as_ref().and_then(|clocks| clocks.least.first()) {
                // The interval of the median of PDV without the error of the minimum.
                Some(least) if single.is_some() && side.minimum_error == 0.0 => single?.moved(*least as f64),
                _ => delays.estimates(&Sample::new(delays.values.iter().copied()))[0]?,
            };
            Some((estimate, delays.floor))
        });
        Ready { side, estimates, delay, all }
    }
}

fn compare_ready(ready_a: &Ready<'_>, ready_b: &Ready<'_>, question: &ComparisonSettings) -> Comparison {
    let ComparisonSettings { basis, statistic, margins, .. } = *question;
    let (a, b, sa, sb) = (ready_a.side, ready_b.side, &ready_a.all, &ready_b.all);
    let times = |k: usize| Some(FigurePair::Times(ready_a.estimates[k]?, ready_b.estimates[k]?));
    let (median, p99, losses) = (times(0), times(1), FigurePair::of_loss(a, b));
    let difference =
        |pair: Option<FigurePair>| pair.map(|p| Difference { change: p.change(), ci95: p.interval(0.95) });
    let of_delay = ready_a.delay.zip(ready_b.delay).filter(|_| basis != Basis::Delay);
    let of_delay = of_delay.map(|((x, x_error), (y, y_error))| (FigurePair::Times(x, y), x_error + y_error));
    let quantity = match basis {
        Basis::Pdv => ComparedQuantity::Jitter,
        Basis::Delay => ComparedQuantity::Delay,
        Basis::Ipdv => ComparedQuantity::Ipdv,
    };
    let chosen = if statistic == Statistic::Median { median } else { p99 };
    let figures = [
        chosen.map(|pair| (quantity, Some(statistic), pair, a.floor + b.floor)),
        of_delay.map(|(pair, floor)| (ComparedQuantity::Delay, Some(Statistic::Median), pair, floor)),
        losses.map(|pair| (ComparedQuantity::Loss, None, pair, 0.0)),
    ];
    let confidence = confidence(figures.iter().flatten().filter(|figure| figure.2.can_differ()).count());
    let [chosen, delay, loss] = figures.map(|figure| {
        let (quantity, statistic, pair, floor) = figure?;
        let (change, interval) = (pair.change(), pair.interval(confidence));
        let margin = margins.of(quantity, pair.first());
        let figure = ComparedFigure {
            quantity,
            statistic,
            change,
            interval,
            floor,
            margin,
            outcome: ComparisonOutcome::Undecided,
        };
        Some(ComparedFigure { outcome: crate::comparison::conclude(&figure), ..figure })
    });
    // A delay counts where the clocks can show that it is the same, and where they show that it is not.
    let counts = |d: &ComparedFigure| d.outcome == ComparisonOutcome::Different || d.floor < d.margin;
    let pairs = AllPairs::of((a, sa), (b, sb));
    let mut result = Comparison {
        a: a.label.clone(),
        b: b.label.clone(),
        basis,
        n: [a.packets(), b.packets()],
        unlike: side::unlike(a, b, question.varied),
        median: difference(median),
        p99: difference(p99),
        loss: difference(losses),
        cliffs_delta: pairs.map(|p| p.delta),
        cliffs_delta_error: pairs.map(|p| p.delta_error),
        effect: pairs.map(|p| effect(p.delta)),
        shift: pairs.map(|p| p.shift),
        tail: tail(sa, sb),
        floor: a.floor + b.floor,
        tests: pairs.and_then(|p| p.tests),
        statistic,
        compared: [chosen, delay.filter(counts), loss].into_iter().flatten().collect(),
        confidence,
        outcome: ComparisonOutcome::Undecided,
        because: String::new(),
    };
    (result.outcome, result.because) = crate::comparison::decide(&result, chosen.as_ref());
    result
}

/// Returns the effect on the slowest packets; `None` without packets.
fn tail(a: &Sample, b: &Sample) -> Option<TailEffect> {
    let limit = a.edf(Percent(99_000))?;
    let above = |s: &Sample| 1.0 - s.count_at_most(limit) as f64 / s.len() as f64;
    let slowest = |s: &Sample| Sample::new((s.len() - s.len().div_ceil(50)..s.len()).filter_map(|k| s.at(k)));
    if b.is_empty() {
        return None;
    }
    let delta = -OrderedPairs::count(&slowest(a), &slowest(b)).delta();
    Some(TailEffect { above: [above(a), above(b)], cliffs_delta: delta, effect: effect(delta) })
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
    fn of((a, sa): (&ComparisonSide, &Sample), (b, sb): (&ComparisonSide, &Sample)) -> Option<AllPairs> {
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
        let [a_low, a_high] = a.known(sa)?.bounds();
        let [b_low, b_high] = b.known(sb)?.bounds().map(above);
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
        ComparisonSettings { basis, statistic, ..ComparisonSettings::default() }
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
        // 100 uniform delays do not show that their medians differ by less than 10 %; 20 000 do.
        let open = of(noise(1, 0)[..100].to_vec(), noise(2, 0)[..100].to_vec());
        assert_eq!(open.outcome, ComparisonOutcome::Undecided);
        assert!(open.because.starts_with("no difference found; differences up to "), "{}", open.because);
        let long = |from: i64| (from..from + 20).flat_map(|k| noise(k, 0)).collect::<Vec<_>>();
        assert_eq!(of(long(100), long(200)).outcome, ComparisonOutcome::Same);
        assert_eq!(of(noise(1, 0), noise(2, 700_000)).outcome, ComparisonOutcome::Different);
        // A change that is certain, but smaller than the margin.
        let slight = of(long(100), long(200).iter().map(|x| x + 20_000).collect());
        assert_eq!((slight.outcome, slight.effect), (ComparisonOutcome::Same, Some(Effect::Negligible)));
        assert!(slight.median.unwrap().ci95.unwrap()[0] > 0.0, "{slight:?}");
        // A change beyond chance, but within the clocks' error.
        let mut late = side("b", noise(2, 700_000));
        late.floor = 1e6;
        let c = compare(&side("a", noise(1, 0)), &late, &asked(Basis::Delay, Statistic::Median));
        assert_eq!(c.outcome, ComparisonOutcome::Undecided);
        let summary_only = ComparisonSide { median: Some(5.0), p99: Some(9.0), ..ComparisonSide::default() };
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
        // A worse run says so, although nothing is known of its delays.
        assert!(crate::comparison::SideChange::of(&c) == crate::comparison::SideChange::Worse);
        assert_eq!((c.unlike[0].what, c.unlike.len()), (Precondition::Period, 1));
        assert_eq!(c.unlike[0].text, "different periods: 20.0 ms and 10.0 ms");
    }

    #[test]
    fn long_runs_are_judged_by_batches() {
        let long = |shift| (0..300).flat_map(|k| noise(k, shift)).collect::<Vec<_>>();
        assert_eq!(of(long(0), long(700_000)).outcome, ComparisonOutcome::Different);
    }

    /// 4 % of the packets of the second run are 106 ms later: most pairs of packets do not show it.
    #[test]
    fn a_few_late_packets_are_seen_at_the_99th_percentile() {
        let a: Vec<i64> = (0..3).flat_map(|k| noise(k, 0)).collect();
        let late = |(k, x): (usize, i64)| if k % 25 == 7 { x + 106_000_000 } else { x };
        let b: Vec<i64> = (3..6).flat_map(|k| noise(k, 0)).enumerate().map(late).collect();
        let c = compare(&side("a", a), &side("b", b), &asked(Basis::Pdv, Statistic::P99));
        assert_eq!(
            (c.outcome, c.is_worse(), c.effect),
            (ComparisonOutcome::Different, true, Some(Effect::Negligible))
        );
        let tail = c.tail.unwrap();
        assert!((0.04..0.06).contains(&tail.above[1]) && tail.effect == Effect::Large, "{tail:?}");
        assert!(
            c.because.starts_with("the change is beyond chance: 5.0 % of the packets of b and 1.0 % of a"),
            "{}",
            c.because
        );
        assert!(c.p99.unwrap().ci95.unwrap()[0] > 100e6, "{:?}", c.p99);
    }

    /// The headline reports a difference that the statistic of the verdict cannot show.
    #[test]
    fn a_difference_elsewhere_is_said_with_the_statistic_that_shows_it() {
        use crate::sentences::comparison::{headline, headline_of_several};
        let part = |from: i64, late: i64| -> Vec<i64> {
            let all = (from..from + 20).flat_map(|k| noise(k, 0)).enumerate();
            all.map(|(k, x)| if k % 25 == 7 { x + late } else { x }).collect()
        };
        let by = |late, statistic| {
            compare(&side("a", part(0, 0)), &side("b", part(20, late)), &asked(Basis::Pdv, statistic))
        };
        let hidden = by(106_000_000, Statistic::Median);
        assert_eq!(hidden.outcome, ComparisonOutcome::Same);
        let text = headline(&hidden);
        assert!(
            text.starts_with("Same: a and b differ by at most ")
                && text.ends_with("; but --statistic p99 shows 106 ms more in b."),
            "{text}"
        );
        let text = headline_of_several(&[("", &hidden), ("", &by(0, Statistic::Median))], false);
        assert!(text.ends_with("; but --statistic p99 shows one in 1 of them."), "{text}");
        assert!(!headline(&by(0, Statistic::Median)).contains("but"));
        assert!(!headline(&by(106_000_000, Statistic::P99)).contains("but"), "the verdict says it");
    }

    /// The smallest of many delays without a bound varies from run to run as much as their median does.
    #[test]
    fn the_error_of_the_minimum_is_part_of_the_interval() {
        let (a, b) = (side("a", noise(1, 0)), side("b", noise(2, 60_000)));
        let wide = |side: ComparisonSide| ComparisonSide { minimum_error: 1e6, ..side };
        let change =
            |a, b| compare(&a, &b, &asked(Basis::Pdv, Statistic::Median)).median.unwrap().ci95.unwrap();
        let [low, high] = change(a.clone(), b.clone());
        let [lower, higher] = change(wide(a), wide(b));
        assert!(high - low < 3e5 && higher - lower > 2.8e6, "{low} {high} {lower} {higher}");
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
