//! Two runs side by side, with a verdict that does not lean on p-values (metrics §20).
//!
//! Packets of one run are not independent, so a test that supposes they are finds a difference between any
//! two runs long enough. The verdict "different" therefore takes three things at once: an interval that
//! allows for the correlation and excludes no change, an effect that is not negligible, and a change larger
//! than what the measurement itself may be wrong by.

use crate::metrics::bootstrap::{FEWEST_VALUES, block_length, resample};
use crate::metrics::percentile::{Method, Percent, rank};
use crate::metrics::sample::Sample;
use crate::metrics::series::Samples;
use crate::metrics::stat::{t_quantile, wilson95};
use crate::spec::Direction;
use crate::summary::Summary;
use serde::Serialize;

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Delay above each run's own minimum: needs no clocks.
    #[default]
    Pdv,
    /// One-way delay, corrected where there is an estimate: needs clocks.
    Delay,
}

/// Which difference the verdict is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The middle.
    #[default]
    Median,
    /// The 99th percentile.
    P99,
}

/// One run, as far as comparison needs it. Fields are public so that runs known only by a summary, or
/// by another tool, can be compared as far as they go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// What to call it.
    pub label: String,
    /// Period, in ns.
    pub period: Option<i64>,
    /// Payload, in bytes.
    pub payload: Option<u64>,
    /// Which way.
    pub direction: Option<Direction>,
    /// Protocol number.
    pub proto: Option<u8>,
    /// Lost and sent packets.
    pub loss: Option<(u64, u64)>,
    /// 95 % interval of the loss ratio that allows for correlation, if known.
    pub loss_interval: Option<[f64; 2]>,
    /// The compared times in send order, in ns; empty where only the figures below are known.
    pub values: Vec<i64>,
    /// Median, in ns, where there are no values.
    pub median: Option<f64>,
    /// 99th percentile, in ns, where there are no values.
    pub p99: Option<f64>,
    /// What the measurement may be wrong by, in ns: the clock bound for delay, the noise of the hosts for
    /// PDV.
    pub floor: f64,
}

impl Side {
    /// The run of `summary`, whose accepted packets are `samples` (empty if they are not at hand).
    pub fn new(label: &str, summary: &Summary, samples: &Samples, basis: Basis) -> Side {
        let base = match basis {
            Basis::Pdv => summary.latency.min,
            Basis::Delay => summary.clock.correction_ns,
        };
        let base = base.unwrap_or(0);
        let mut order: Vec<usize> = (0..samples.len()).collect();
        if !samples.seq.is_sorted() {
            order.sort_unstable_by_key(|k| samples.seq[*k]);
        }
        let less = |x: f64| x - base as f64;
        let p99 = summary.latency.percentile(Percent(99_000)).map(|x| x as f64);
        Side {
            label: label.to_owned(),
            period: Some(summary.header.period),
            payload: Some(summary.header.pktlen),
            direction: summary.session.direction_known.then_some(summary.session.direction),
            proto: Some(summary.header.proto),
            loss: Some((summary.counts.lost, summary.counts.sent)),
            loss_interval: summary.loss.wilson95_correlated,
            values: order.into_iter().map(|k| samples.delay[k].saturating_sub(base)).collect(),
            median: summary.latency.median.map(less),
            p99: p99.map(less),
            floor: match basis {
                Basis::Pdv => 0.0,
                Basis::Delay => summary
                    .clock
                    .bound_ns
                    .or_else(|| summary.clock.synchronised().map(|e| e as f64))
                    .unwrap_or(f64::INFINITY),
            },
        }
    }
}

/// A difference B − A and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// B − A.
    pub change: f64,
    /// Where it lies with 95 % confidence; `None` without the packets themselves.
    pub ci95: Option<[f64; 2]>,
}

/// How large an effect is, by the bands in use for Cliff's δ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// |δ| < 0.147.
    Negligible,
    /// < 0.33.
    Small,
    /// < 0.474.
    Medium,
    /// Above.
    Large,
}

/// What to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// B differs from A, and by more than chance, habit and clocks explain.
    Different,
    /// No difference worth the name was found.
    Same,
    /// The packets themselves, or clocks to compare by, are missing.
    Undecided,
}

/// Tests of independence-supposing statistics, for those who ask; the verdict does not use them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tests {
    /// Mann–Whitney U of A, ties ½.
    pub u: f64,
    /// Its standard score, corrected for ties and continuity.
    pub z: f64,
    /// Two-sided, supposing independent packets: far too small for packets of one run.
    pub p: f64,
    /// Kolmogorov–Smirnov distance.
    pub ks: f64,
    /// Stephens' asymptotic p, under the same supposition.
    pub ks_p: f64,
}

/// A and B side by side. Times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What A is called.
    pub a: String,
    /// What B is called.
    pub b: String,
    /// What was compared.
    pub basis: Basis,
    /// Packets of each.
    pub n: [u64; 2],
    /// Reasons why the two should not be compared.
    pub unlike: Vec<String>,
    /// Of the medians.
    pub median: Option<Difference>,
    /// Of the 99th percentiles.
    pub p99: Option<Difference>,
    /// Of the loss ratios.
    pub loss: Option<Difference>,
    /// Cliff's δ: how much oftener a packet of B is slower than one of A than the other way round.
    pub cliffs_delta: Option<f64>,
    /// How large that is.
    pub effect: Option<Effect>,
    /// Hodges–Lehmann: the median of all b − a.
    pub shift: Option<f64>,
    /// What the two measurements may be wrong by together.
    pub floor: f64,
    /// Secondary.
    pub tests: Option<Tests>,
    /// Which difference decided.
    pub statistic: Statistic,
    /// The verdict.
    pub outcome: Outcome,
    /// Its reason in words.
    pub because: String,
}

/// Compares `b` with `a`. `seed` makes the bootstrap reproducible.
pub fn compare(a: &Side, b: &Side, basis: Basis, statistic: Statistic, seed: u64) -> Comparison {
    let samples = [&a.values, &b.values].map(|v| Sample::new(v.iter().copied()));
    let [sa, sb] = &samples;
    let known = !sa.is_empty() && !sb.is_empty();
    let tests = known.then(|| Pairs::count(sa, sb));
    let spread = known.then(|| Spread::of(a, b, seed)).flatten();
    let difference =
        |x: Option<f64>, y: Option<f64>, ci95: Option<[f64; 2]>| Some(Difference { change: y? - x?, ci95 });
    let median = |side: &Side, sample: &Sample| sample.median().or(side.median);
    let p99 = |side: &Side, sample: &Sample| sample.edf(Percent(99_000)).map(|x| x as f64).or(side.p99);
    // Pairs count A over B; the change reported is B's, so the sign turns.
    let delta = tests.as_ref().map(|t| -t.delta());
    let mut result = Comparison {
        a: a.label.clone(),
        b: b.label.clone(),
        basis,
        n: [sa.len() as u64, sb.len() as u64],
        unlike: unlike(a, b),
        median: difference(median(a, sa), median(b, sb), spread.map(|s| s.median)),
        p99: difference(p99(a, sa), p99(b, sb), spread.map(|s| s.p99)),
        loss: loss(a, b),
        cliffs_delta: delta,
        effect: delta.map(effect),
        shift: known.then(|| hodges_lehmann(sb, sa)),
        floor: a.floor.hypot(b.floor),
        tests: tests.map(|t| t.tests(sa, sb)),
        statistic,
        outcome: Outcome::Undecided,
        because: String::new(),
    };
    (result.outcome, result.because) = result.decide();
    result
}

impl Comparison {
    fn decide(&self) -> (Outcome, String) {
        let chosen = match self.statistic {
            Statistic::Median => self.median,
            Statistic::P99 => self.p99,
        };
        let (Some(Difference { change, ci95: Some([low, high]) }), Some(delta)) = (chosen, self.cliffs_delta)
        else {
            return (
                Outcome::Undecided,
                "too few packets, or only their summary, to tell change from chance".into(),
            );
        };
        if low <= 0.0 && high >= 0.0 {
            return (Outcome::Same, "the interval of the change contains 0".into());
        }
        if delta.abs() < 0.147 {
            return (
                Outcome::Same,
                format!("the change is certain but negligible (Cliff's delta {delta:.3})"),
            );
        }
        if change.abs() <= self.floor {
            let because = "the change is smaller than what the measurements may be wrong by";
            return (Outcome::Undecided, because.into());
        }
        let effect = match self.effect {
            Some(Effect::Large) => "large",
            Some(Effect::Medium) => "medium",
            _ => "small",
        };
        (
            Outcome::Different,
            format!("the change is beyond chance and its effect {effect} (Cliff's delta {delta:.3})"),
        )
    }
}

fn unlike(a: &Side, b: &Side) -> Vec<String> {
    fn differs<T: PartialEq>(x: Option<T>, y: Option<T>) -> Option<(T, T)> {
        x.zip(y).filter(|(x, y)| x != y)
    }
    let mut reasons = Vec::new();
    if let Some((x, y)) = differs(a.period, b.period) {
        reasons.push(format!("different periods: {} and {}", crate::units::eng4(x), crate::units::eng4(y)));
    }
    if let Some((x, y)) = differs(a.payload, b.payload) {
        reasons.push(format!("different payloads: {x} and {y} bytes"));
    }
    if differs(a.direction, b.direction).is_some() {
        reasons.push("different directions".to_owned());
    }
    if let Some((x, y)) = differs(a.proto, b.proto) {
        let name = |p| if p == 6 { "TCP" } else { "UDP" };
        reasons.push(format!("different transports: {} and {}", name(x), name(y)));
    }
    if let Some((x, y)) = differs(a.loss.map(|l| l.1), b.loss.map(|l| l.1))
        && (x > 2 * y || y > 2 * x)
    {
        reasons.push(format!("very different lengths: {x} and {y} packets"));
    }
    reasons
}

/// Newcombe's interval of a difference of ratios, from an interval of each.
fn loss(a: &Side, b: &Side) -> Option<Difference> {
    let ratio = |side: &Side| {
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

fn effect(delta: f64) -> Effect {
    match delta.abs() {
        d if d < 0.147 => Effect::Negligible,
        d if d < 0.33 => Effect::Small,
        d if d < 0.474 => Effect::Medium,
        _ => Effect::Large,
    }
}

/// Intervals of the differences of medians and of 99th percentiles.
#[derive(Clone, Copy)]
struct Spread {
    median: [f64; 2],
    p99: [f64; 2],
}

impl Spread {
    /// Above this the values are many enough for batches, and too many to resample.
    const RESAMPLED: usize = 200_000;
    const BUDGET: usize = 40_000_000;

    fn of(a: &Side, b: &Side, seed: u64) -> Option<Spread> {
        let longest = a.values.len().max(b.values.len());
        if a.values.len().min(b.values.len()) < FEWEST_VALUES {
            return None;
        }
        if longest > Spread::RESAMPLED {
            return Spread::batches(&a.values, &b.values);
        }
        let resamples = (Spread::BUDGET / longest).clamp(200, 2000) as u32;
        let draw = |values: &[i64], seed| {
            resample(values, block_length(values, correlated(values)), resamples, seed)
        };
        let [_, ma, pa] = draw(&a.values, seed);
        let [_, mb, pb] = draw(&b.values, seed.wrapping_add(1));
        let interval = |x: Vec<f64>, y: Vec<f64>| {
            let mut change: Vec<f64> = x.iter().zip(&y).map(|(x, y)| y - x).collect();
            change.sort_by(f64::total_cmp);
            let at = |p| rank(change.len(), Percent(p), Method::Edf).map(|k| change[k]);
            Some([at(2_500)?, at(97_500)?])
        };
        Some(Spread { median: interval(ma, mb)?, p99: interval(pa, pb)? })
    }

    /// From the statistics of 20 consecutive batches of each.
    fn batches(a: &[i64], b: &[i64]) -> Option<Spread> {
        const K: usize = 20;
        let of = |values: &[i64], p: u32| -> Option<(f64, f64)> {
            let size = values.len() / K;
            let each: Vec<f64> = (0..K)
                .filter_map(|i| {
                    let mut batch = values[i * size..(i + 1) * size].to_vec();
                    let k = rank(batch.len(), Percent(p), Method::Edf)?;
                    Some(*batch.select_nth_unstable(k).1 as f64)
                })
                .collect();
            let mean = each.iter().sum::<f64>() / each.len() as f64;
            let squares: f64 = each.iter().map(|x| (x - mean).powi(2)).sum();
            (each.len() == K).then(|| (mean, squares / (K * (K - 1)) as f64))
        };
        let interval = |p| {
            let ((x, vx), (y, vy)) = (of(a, p)?, of(b, p)?);
            let half = t_quantile(0.975, K as u64 - 1) * (vx + vy).sqrt();
            Some([y - x - half, y - x + half])
        };
        Some(Spread { median: interval(50_000)?, p99: interval(99_000)? })
    }
}

/// Whether neighbours depend on each other.
fn correlated(values: &[i64]) -> bool {
    let n = values.len() as f64;
    let origin = values[0];
    let above: Vec<f64> = values.iter().map(|x| x.saturating_sub(origin) as f64).collect();
    let mean = above.iter().sum::<f64>() / n;
    let squares: f64 = above.iter().map(|x| (x - mean).powi(2)).sum();
    let products: f64 = above.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    squares > 0.0 && (products / squares).abs() > 2.0 / n.sqrt()
}

/// Pairs (a, b) by order, and what the two empirical distributions are apart. O(n + m) on sorted samples.
#[derive(Clone, Copy)]
struct Pairs {
    greater: u128,
    less: u128,
    total: u128,
    /// Σ(t³ − t) over groups of t equal values.
    ties: f64,
    distance: f64,
}

impl Pairs {
    fn count(a: &Sample, b: &Sample) -> Pairs {
        let (n, m) = (a.len(), b.len());
        let mut found = Pairs { greater: 0, less: 0, total: n as u128 * m as u128, ties: 0.0, distance: 0.0 };
        let (mut i, mut j) = (0, 0);
        while i < n || j < m {
            let next = match (a.at(i), b.at(j)) {
                (Some(x), Some(y)) => x.min(y),
                (Some(x), None) => x,
                (None, Some(y)) => y,
                (None, None) => break,
            };
            let (from_i, from_j) = (i, j);
            while a.at(i) == Some(next) {
                i += 1;
            }
            while b.at(j) == Some(next) {
                j += 1;
            }
            let (same_a, same_b) = ((i - from_i) as u128, (j - from_j) as u128);
            found.greater += same_a * from_j as u128;
            found.less += same_a * (m - j) as u128;
            let tied = (same_a + same_b) as f64;
            found.ties += tied.powi(3) - tied;
            found.distance = found.distance.max((i as f64 / n as f64 - j as f64 / m as f64).abs());
        }
        found
    }

    fn delta(&self) -> f64 {
        (self.greater as f64 - self.less as f64) / self.total as f64
    }

    fn tests(&self, a: &Sample, b: &Sample) -> Tests {
        let (n, m) = (a.len() as f64, b.len() as f64);
        let equal = self.total - self.greater - self.less;
        let u = self.greater as f64 + equal as f64 / 2.0;
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        let z = if variance > 0.0 { ((u - n * m / 2.0).abs() - 0.5) / variance.sqrt() } else { 0.0 };
        let effective = n * m / all;
        let lambda = (effective.sqrt() + 0.12 + 0.11 / effective.sqrt()) * self.distance;
        Tests {
            u,
            z,
            p: libm::erfc(z.max(0.0) * core::f64::consts::FRAC_1_SQRT_2).min(1.0),
            ks: self.distance,
            ks_p: kolmogorov(lambda),
        }
    }
}

/// P(K > λ), by its series; it is 1 to double precision below 0.2.
fn kolmogorov(lambda: f64) -> f64 {
    if lambda <= 0.2 {
        return 1.0;
    }
    let term = |k: i32| (-2.0 * f64::from(k * k) * lambda * lambda).exp();
    let sum: f64 = (1..=100).map(|k| if k % 2 == 1 { term(k) } else { -term(k) }).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

/// The median of all x − y, by bisection on its value with a count in O(n + m) each: exact, and without
/// the n·m differences.
fn hodges_lehmann(x: &Sample, y: &Sample) -> f64 {
    let total = x.len() as u128 * y.len() as u128;
    let kth = |k: u128| {
        let difference =
            |a: Option<i64>, b: Option<i64>| i128::from(a.unwrap_or(0)) - i128::from(b.unwrap_or(0));
        let (mut low, mut high) = (difference(x.min(), y.max()), difference(x.max(), y.min()));
        while low < high {
            let middle = low + (high - low).div_euclid(2);
            if at_most(x, y, middle) > k { high = middle } else { low = middle + 1 }
        }
        low as f64
    };
    (kth((total - 1) / 2) + kth(total / 2)) / 2.0
}

/// How many pairs have x − y ≤ `limit`: for x ascending, the first y that is large enough only moves up.
fn at_most(x: &Sample, y: &Sample, limit: i128) -> u128 {
    let (mut count, mut first) = (0u128, 0);
    for value in (0..x.len()).filter_map(|i| x.at(i)) {
        while y.at(first).is_some_and(|v| i128::from(v) < i128::from(value) - limit) {
            first += 1;
        }
        count += (y.len() - first) as u128;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn side(label: &str, values: Vec<i64>) -> Side {
        Side { label: label.into(), values, ..Side::default() }
    }

    fn of(a: Vec<i64>, b: Vec<i64>) -> Comparison {
        compare(&side("a", a), &side("b", b), Basis::Pdv, Statistic::Median, 1)
    }

    #[test]
    fn the_worked_example() {
        // metrics §20, V24, where A is the slower: every sign turns.
        let c = of(vec![9, 10, 10, 11, 12, 12, 13, 14, 16], vec![10, 12, 13, 13, 15, 18, 25, 40]);
        let t = c.tests.unwrap();
        assert_eq!((t.u, c.shift, c.median.unwrap().change), (17.0, Some(3.0), 2.0));
        assert!((t.z - 1.793_399).abs() < 1e-6 && (t.p - 0.072_909).abs() < 1e-6);
        assert!((c.cliffs_delta.unwrap() - 0.527_778).abs() < 1e-6);
        assert_eq!((c.effect, c.outcome), (Some(Effect::Large), Outcome::Undecided));
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
        assert_eq!(of(noise(1, 0), noise(2, 0)).outcome, Outcome::Same);
        assert_eq!(of(noise(1, 0), noise(2, 700_000)).outcome, Outcome::Different);
        // Certain, but of no consequence.
        let slight = of(noise(1, 0), noise(1, 60_000));
        assert_eq!((slight.outcome, slight.effect), (Outcome::Same, Some(Effect::Negligible)));
        // Beyond chance, but not beyond the clocks.
        let mut late = side("b", noise(2, 700_000));
        late.floor = 1e6;
        let c = compare(&side("a", noise(1, 0)), &late, Basis::Delay, Statistic::Median, 1);
        assert_eq!(c.outcome, Outcome::Undecided);
        let summary_only = Side { median: Some(5.0), ..Side::default() };
        let c = compare(&summary_only, &summary_only, Basis::Pdv, Statistic::P99, 1);
        assert_eq!((c.outcome, c.median.unwrap().change), (Outcome::Undecided, 0.0));
    }

    #[test]
    fn loss_and_preconditions() {
        let a = Side { loss: Some((0, 1000)), period: Some(20_000_000), ..Side::default() };
        let b = Side { loss: Some((60, 1000)), period: Some(10_000_000), ..Side::default() };
        let c = compare(&a, &b, Basis::Pdv, Statistic::Median, 1);
        let loss = c.loss.unwrap();
        assert_eq!((loss.change, loss.ci95.unwrap()[0] > 0.04), (0.06, true));
        assert_eq!(c.unlike, ["different periods: 20.00 ms and 10.00 ms"]);
    }

    #[test]
    fn long_runs_are_judged_by_batches() {
        let long = |shift| (0..300).flat_map(|k| noise(k, shift)).collect::<Vec<_>>();
        assert_eq!(of(long(0), long(700_000)).outcome, Outcome::Different);
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
