//! Verdict on a sweep: the effect of each condition on the delay, compared with the variation between repeated runs,
//! and the severity at the worst point.

use crate::sentences::sweep::{SweepChange, WorstPoint, effect, headline};
use crate::severity::{of_missing, of_wait};
use jitlat_core::answer::{Answer, Severity};
use jitlat_core::sweep::{Estimate, SweepAxis, SweepGrid, SweepPoint};
use std::collections::BTreeMap;

/// Minimum number of packets for a verdict on a point. Even without losses, fewer packets cannot exclude a loss ratio
/// that a conversation does not tolerate (3/N).
const MIN_PACKETS: u64 = 100;

/// Effect of one condition on the delay while all other conditions are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionEffect {
    /// Name of the condition.
    pub axis: String,
    /// Values of the other conditions that vary in the sweep; empty if none do.
    pub others: String,
    /// Level with the smallest mean delay, and that mean in ns.
    pub least: (String, f64),
    /// Level with the largest mean delay, and that mean in ns.
    pub most: (String, f64),
    /// True if the delay grows from the first level of a numeric condition to the last, false if it shrinks; `None` if
    /// the extremes are at other levels, or the condition is not numeric.
    pub trend: Option<bool>,
    /// True if the two means differ by more than chance explains, with 95 % confidence for all comparisons of the sweep
    /// together (Welch's tests with Holm's correction); `None` for single runs.
    pub is_certain: Option<bool>,
}

/// Probability that a sweep in which nothing changes the delay still shows at least one change by chance.
const SIGNIFICANCE: f64 = 0.05;

/// Returns the effect of each condition: over all combinations of the other conditions, the largest certain effect, or
/// the largest one if none is certain. Certain effects come first.
pub fn changes(grid: &SweepGrid, points: &[SweepPoint]) -> Vec<ConditionEffect> {
    let lines: Vec<(&SweepAxis, Vec<LevelMeans<'_>>)> =
        grid.axes.iter().map(|axis| (axis, lines(grid, points, axis))).collect();
    let limit = largest_beyond_chance(lines.iter().flat_map(|(_, lines)| lines));
    let mut all: Vec<ConditionEffect> =
        lines.iter().filter_map(|(axis, lines)| largest(axis, lines, limit)).collect();
    let certain = |c: &ConditionEffect| c.is_certain != Some(false);
    all.sort_by(|a, b| certain(b).cmp(&certain(a)).then(size(b).total_cmp(&size(a))));
    all
}

fn size(c: &ConditionEffect) -> f64 {
    c.most.1 - c.least.1
}

/// Mean delays at the levels of one condition, while all other conditions are equal.
struct LevelMeans<'a> {
    others: String,
    means: Vec<(&'a str, &'a Estimate)>,
}

fn lines<'a>(grid: &'a SweepGrid, points: &'a [SweepPoint], axis: &SweepAxis) -> Vec<LevelMeans<'a>> {
    let mut lines: BTreeMap<String, Vec<(&str, &Estimate)>> = BTreeMap::new();
    for point in points.iter().filter(|_| axis.levels.len() > 1) {
        let (Some(level), Some(mean)) = (grid.level(point.cell, axis.factor), point.get("latency-mean"))
        else {
            continue;
        };
        let others = grid.name(point.cell, Some(axis.factor));
        lines.entry(others).or_default().push((&level.text, mean));
    }
    lines.into_iter().map(|(others, means)| LevelMeans { others, means }).collect()
}

/// Returns the largest p-value that is significant according to Holm's correction, over all pairs of means in `lines`;
/// 0 if none is significant.
fn largest_beyond_chance<'a>(lines: impl Iterator<Item = &'a LevelMeans<'a>>) -> f64 {
    let mut chances: Vec<f64> = Vec::new();
    for LevelMeans { means, .. } in lines {
        let pairs = means.iter().enumerate().flat_map(|(k, a)| means[k + 1..].iter().map(move |b| (a, b)));
        chances.extend(pairs.filter_map(|(a, b)| a.1.chance_of_difference(b.1)));
    }
    chances.sort_unstable_by(f64::total_cmp);
    let all = chances.len();
    let small = |(k, p): &(usize, &f64)| **p <= SIGNIFICANCE / (all - k) as f64;
    chances.iter().enumerate().take_while(small).last().map_or(0.0, |(_, p)| *p)
}

/// Returns the largest effect in `lines`. Certain effects (p-value up to `limit`) are preferred. `None` if `lines` has
/// no means.
fn largest(axis: &SweepAxis, lines: &[LevelMeans<'_>], limit: f64) -> Option<ConditionEffect> {
    let found = lines.iter().filter_map(|LevelMeans { others, means }| {
        let by_mean = |a: &&(&str, &Estimate), b: &&(&str, &Estimate)| a.1.mean.total_cmp(&b.1.mean);
        let (least, most) = (means.iter().min_by(by_mean)?, means.iter().max_by(by_mean)?);
        let ends = (means.first()?.0, means.last()?.0);
        Some(ConditionEffect {
            axis: axis.label_without_unit(),
            others: others.clone(),
            least: (least.0.to_owned(), least.1.mean),
            most: (most.0.to_owned(), most.1.mean),
            trend: match axis.is_quantity() {
                true if (least.0, most.0) == ends => Some(true),
                true if (most.0, least.0) == ends => Some(false),
                _ => None,
            },
            is_certain: least.1.chance_of_difference(most.1).map(|p| p <= limit),
        })
    });
    // A line with only one level has no effect.
    let certain = |c: &ConditionEffect| c.is_certain == Some(true);
    found
        .filter(|c| c.least.0 != c.most.0)
        .max_by(|a, b| certain(a).cmp(&certain(b)).then(size(a).total_cmp(&size(b))))
}

impl ConditionEffect {
    /// Returns the effect as a clause: `delay grows with payload: 120 us at 60, 1.45 ms at 1460`.
    pub fn sentence(&self) -> String {
        effect(self)
    }
}

/// Returns the severity of a point: the severity of its loss or of its jitter's 99th percentile, whichever is worse.
/// Unknown if the point has too few packets.
pub fn severity(point: &SweepPoint) -> Severity {
    if point.sent < MIN_PACKETS {
        return Severity::Unknown;
    }
    // TCP hides losses; the figure is then missing.
    let lost = point.get("loss").map_or(0, |_| point.sent.saturating_sub(point.received));
    let missing = of_missing(lost as f64 / point.sent as f64, lost, point.sent);
    let jitter = point.get("pdv-p99").map_or(Severity::Good, |e| of_wait(e.mean as i64));
    if point.received == 0 { Severity::Bad } else { missing.max(jitter) }
}

/// Returns the verdict on a sweep, with the severity of its worst combination. It contains no causes, buffer or
/// profiles, because a sweep does not store its individual tests.
pub fn answer(grid: &SweepGrid, points: &[SweepPoint], complete: bool) -> Answer {
    let worst = points.iter().max_by_key(|p| severity(p)).filter(|p| severity(p) > Severity::Unknown);
    let level = worst.map_or(Severity::Unknown, severity);
    let place = worst.filter(|_| level > Severity::Good).map(|p| WorstPoint {
        name: grid.name(p.cell, None),
        others: points.iter().filter(|other| severity(other) == level).count() - 1,
        lost: p.sent.saturating_sub(p.received) as f64 / p.sent.max(1) as f64,
    });
    let too_few = (worst.is_none() && !points.is_empty()).then_some(MIN_PACKETS);
    let changes = changes(grid, points);
    let change = match changes.first() {
        None => SweepChange::NothingVaried,
        Some(c) => match c.is_certain {
            Some(false) => SweepChange::NothingCertain(c),
            None => SweepChange::SingleRuns(c),
            Some(true) => SweepChange::Certain(c),
        },
    };
    Answer {
        complete,
        severity: level,
        host: None,
        headline: headline(level, place, too_few, change),
        buffer_ns: None,
        without_clock_step: None,
        causes: Vec::new(),
        profiles: BTreeMap::new(),
        qoo: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::sweep::{
        ConfidenceLevel, Factor, FactorLevel, RunFigures, RunOutcome, SweepRun, points,
    };
    use jitlat_core::time::WallTime;

    fn axis(factor: Factor, texts: &[&str]) -> SweepAxis {
        let level = |t: &&str| FactorLevel { text: (*t).to_owned(), number: t.parse().ok() };
        SweepAxis::new(factor, texts.iter().map(level).collect())
    }

    /// Sweep with three runs per cell: the first has the mean delay `mean` of the cell, in us, each further one
    /// `spread` more.
    fn of(
        axes: Vec<SweepAxis>,
        spread: f64,
        lost: impl Fn(usize) -> u64,
        mean: impl Fn(usize) -> f64,
    ) -> Answer {
        let grid = SweepGrid { axes };
        let run = |cell: usize, repetition: u32| {
            let us = (mean(cell) + spread * f64::from(repetition)) * 1e3;
            let figures =
                RunFigures::default().with("latency-mean", us).with("pdv-p99", 1e6).with("loss", 0.0);
            let (run, at, received) = (SweepRun { cell, repetition }, WallTime(0), 100 - lost(cell));
            RunOutcome { run, at, sent: 100, received, ip_length: None, figures }
        };
        let cells = grid.cells().unwrap_or(0);
        let outcomes: Vec<RunOutcome> = (0..cells).flat_map(|c| [0, 1, 2].map(|r| run(c, r))).collect();
        answer(&grid, &points(&grid, &outcomes, ConfidenceLevel::default()), true)
    }

    #[test]
    fn what_changes_is_said_with_both_ends() {
        let sizes = || axis(Factor::Payload, &["60", "700", "1460"]);
        let grown = of(vec![sizes()], 1.0, |_| 0, |c| 100.0 + 600.0 * c as f64);
        assert_eq!(grown.severity, Severity::Good);
        assert_eq!(
            grown.headline,
            "Good throughout; delay grows with payload: 101 us at 60, 1.30 ms at 1460."
        );
        let shrunk = of(vec![sizes()], 1.0, |_| 0, |c| 1300.0 - 600.0 * c as f64);
        assert!(
            shrunk.headline.contains("shrinks with payload: 1.30 ms at 60, 101 us at 1460"),
            "{}",
            shrunk.headline
        );
        let hump = of(vec![sizes()], 1.0, |_| 0, |c| if c == 1 { 900.0 } else { 100.0 + c as f64 });
        assert!(
            hump.headline.contains("depends on payload: 101 us at 60, 901 us at 700"),
            "{}",
            hump.headline
        );
    }

    #[test]
    fn what_runs_differ_by_is_no_change() {
        let noisy =
            of(vec![axis(Factor::Payload, &["60", "1460"])], 50.0, |_| 0, |c| 100.0 + 10.0 * c as f64);
        assert!(
            noisy.headline.contains("no change along the sweep exceeds the variation between runs"),
            "{}",
            noisy.headline
        );
    }

    #[test]
    fn of_many_comparisons_chance_makes_none_a_change() {
        // The means differ as equal ones do by chance in one of twenty sweeps: significant for 2 levels, but not for 30.
        let noise = |c: usize| 100.0 + [0.0, 2.4, 0.9, 1.7, 0.4, 2.1, 1.2][c % 7];
        let sweep = |levels: usize| {
            let texts: Vec<String> = (1..=levels).map(|k| k.to_string()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            of(vec![axis(Factor::Payload, &texts)], 1.0, |_| 0, noise).headline
        };
        assert!(sweep(2).contains("delay grows with payload"), "{}", sweep(2));
        assert!(sweep(30).contains("no change along the sweep"), "{}", sweep(30));
        // A change far beyond the variation between runs is still found.
        let texts: Vec<String> = (1..=30).map(|k| k.to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let far =
            of(vec![axis(Factor::Payload, &texts)], 1.0, |_| 0, |c| 100.0 + 900.0 * (c == 29) as u8 as f64);
        assert!(far.headline.contains("at 30"), "{}", far.headline);
    }

    #[test]
    fn the_condition_that_changes_most_is_named_with_the_others() {
        let axes = vec![axis(Factor::Protocol, &["icmp", "stamp"]), axis(Factor::Dscp, &["BE", "EF"])];
        let by_class = of(axes, 1.0, |c| if c == 2 { 30 } else { 0 }, |c| [500.0, 100.0, 900.0, 200.0][c]);
        assert_eq!(by_class.severity, Severity::Bad);
        assert_eq!(
            by_class.headline,
            "Bad at stamp, BE (30.0 % lost); delay depends on DSCP: 201 us at EF, 901 us at BE (stamp)."
        );
    }

    #[test]
    fn few_packets_are_no_verdict_and_one_level_is_no_sweep() {
        let grid = SweepGrid { axes: vec![axis(Factor::Payload, &["60"])] };
        let figures = RunFigures::default().with("latency-mean", 1e5);
        let outcome = RunOutcome {
            run: SweepRun { cell: 0, repetition: 0 },
            at: WallTime(0),
            sent: 10,
            received: 10,
            ip_length: None,
            figures,
        };
        let points = points(&grid, &[outcome], ConfidenceLevel::default());
        let few = answer(&grid, &points, false);
        assert_eq!((few.severity, few.complete), (Severity::Unknown, false));
        assert_eq!(few.headline, "No verdict: fewer than 100 packets each; nothing was varied.");
    }
}
