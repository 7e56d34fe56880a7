//! [`Matrix`]: number of times each cause was reported for each fault.

use super::variant::Variant;
use jitlat_core::answer::{Answer, CauseId};
use std::collections::BTreeMap;
use std::fmt;

/// Comparison of one verdict with the truth.
#[derive(Clone, Debug)]
pub struct Score {
    seed: u64,
    /// Cause reported first.
    named: Option<CauseId>,
    main: bool,
    /// Reported causes that are not present.
    false_causes: Vec<CauseId>,
    severity: bool,
    complete: bool,
    /// True if the reported times are right; `None` if the truth has no times.
    times: Option<bool>,
    magnitude: Option<bool>,
    /// Stated confidence of each cause, and whether it is present.
    stated: Vec<(f64, bool)>,
    description: String,
}

impl Score {
    pub fn new(seed: u64, variant: &Variant, answer: Option<Answer>) -> Score {
        let answer = answer.expect("every test has an answer");
        let truth = &variant.truth;
        let first = answer.causes.first();
        let named = first.map(|c| c.id);
        let main = match named {
            None => truth.main.is_empty() || truth.or_nothing,
            Some(id) => truth.main.contains(&id.name()),
        };
        let known = |id: CauseId| truth.main.contains(&id.name()) || truth.also.contains(&id.name());
        let false_causes = answer.causes.iter().map(|c| c.id).filter(|id| !known(*id)).collect();
        let stated = answer.causes.iter().map(|c| (c.confidence, known(c.id))).collect();
        let right = first.filter(|_| main);
        let times = (!truth.times.is_empty()).then(|| {
            truth.times.iter().any(|(from, to, tolerance)| {
                right.is_some_and(|c| {
                    let near = |a: f64, b: f64| (a - b).abs() <= *tolerance;
                    let is = |a: f64, b: f64| near(a, *from) && (near(b, *to) || from == to);
                    is(c.from_s, c.to_s) || c.largest.is_some_and(|largest| is(largest.from_s, largest.to_s))
                })
            })
        });
        let magnitude = truth.magnitude.map(|(value, factor)| {
            let magnitude =
                right.and_then(|c| c.magnitude_ns.map(|m| m.unsigned_abs() as f64).or(c.magnitude));
            let period = truth.period_s.is_none_or(|period| {
                right.and_then(|c| c.period_s).is_some_and(|p| (p - period).abs() <= 0.03 * period)
            });
            period && magnitude.is_some_and(|m| m <= value * factor && m >= value / factor)
        });
        let magnitude = match (truth.sign, truth.says, truth.ppm) {
            (Some(sign), Some(says), _) => magnitude.map(|size| {
                size && right.is_some_and(|c| {
                    c.magnitude_ns.is_some_and(|m| m as f64 * sign > 0.0) && c.because.contains(says)
                })
            }),
            (_, _, Some(ppm)) => {
                Some(right.and_then(|c| c.magnitude).is_some_and(|m| (m - ppm).abs() <= 0.1 * ppm))
            }
            _ => magnitude,
        };
        Score {
            seed,
            named,
            main,
            false_causes,
            severity: truth.severity.contains(&answer.severity.name()),
            complete: answer.complete == truth.complete,
            times,
            magnitude,
            stated,
            description: describe(variant, &answer),
        }
    }

    fn all_right(&self) -> bool {
        self.main
            && self.false_causes.is_empty()
            && self.severity
            && self.complete
            && self.times != Some(false)
            && self.magnitude != Some(false)
    }
}

fn describe(variant: &Variant, answer: &Answer) -> String {
    let spec = &variant.trial.spec;
    let mut text = format!(
        "{:?} n {} P {} {:?} {:?} probes {} two-way {:?}\n    true {:?}\n    answer {} {} buffer {:?} {:?}\n",
        variant.version,
        spec.packets(),
        spec.period().0 as f64 / 1e9,
        spec.schedule(),
        spec.transport(),
        variant.trial.probes,
        variant.trial.answering.as_ref().map(|a| a.protocol.as_str()),
        variant.truth,
        answer.severity.name(),
        answer.complete,
        answer.buffer_ns.map(|b| b as f64 / 1e6),
        answer.headline,
    );
    for c in &answer.causes {
        text += &format!(
            "      {} {:.3}…{:.3} s {:?} {:?} conf {:.2} {} ×{} {:?} {}\n",
            c.id.name(),
            c.from_s,
            c.to_s,
            c.magnitude_ns.map(|m| m as f64 / 1e6),
            c.magnitude,
            c.confidence,
            c.severity.name(),
            c.count,
            c.direction,
            c.because
        );
    }
    text
}

/// Minimum number of tests of a family, or of causes in a bin, for a meaningful share.
const MIN_TESTS: usize = 100;

/// Causes of about the same stated confidence.
struct Bin {
    causes: usize,
    /// Mean confidence.
    stated: f64,
    /// Share of these causes that are present.
    right: f64,
}

/// Scores by fault.
#[derive(Default)]
pub struct Matrix {
    rows: Vec<(&'static str, Vec<Score>)>,
}

impl Matrix {
    pub fn add(&mut self, family: &'static str, scores: Vec<Score>) {
        self.rows.push((family, scores));
    }

    /// Checks the requirements on all families together, and on clean paths.
    pub fn check(&self) {
        let clean = |name: &str| name.contains("clean");
        let alarms = self.share(|n| clean(n), |s| Some(!s.main || s.description.contains("answer bad")));
        assert!(alarms <= 0.01, "false alarms on clean paths: {:.2} %", 100.0 * alarms);
        let of_faults = |right: fn(&Score) -> Option<bool>| self.share(|n| !clean(n), right);
        let main = of_faults(|s| Some(s.main));
        assert!(main >= 0.95, "main cause right: {:.1} %", 100.0 * main);
        let severity = self.share(|_| true, |s| Some(s.severity));
        assert!(severity >= 0.9, "severity right: {:.1} %", 100.0 * severity);
        let times = of_faults(|s| s.times);
        assert!(times >= 0.9, "times right: {:.1} %", 100.0 * times);
        let complete = self.share(|_| true, |s| Some(s.complete));
        assert!(complete >= 0.99, "completeness right: {:.1} %", 100.0 * complete);
        self.check_each();
    }

    /// Requirements on each family of at least 100 tests, and on each bin of at least 100 causes.
    fn check_each(&self) {
        let mut below = Vec::new();
        for (name, scores) in self.rows.iter().filter(|(_, scores)| scores.len() >= MIN_TESTS) {
            let of = |right: fn(&Score) -> Option<bool>| self.share(|n| n == *name, right);
            let (main, least) = (of(|s| Some(s.main)), if name.contains("clean") { 0.995 } else { 0.95f64 });
            // The share may be lower by as much as occurs by chance in one of twenty cases.
            let chance = 1.65 * (least * (1.0 - least) / scores.len() as f64).sqrt();
            if main < least - chance {
                below.push(format!("{name}: main cause {:.1} %", 100.0 * main));
            }
        }
        for bin in self.calibration().iter().filter(|bin| bin.causes >= MIN_TESTS) {
            if bin.right < bin.stated - 0.05 {
                below.push(format!("{:.0} % stated, {:.1} % right", 100.0 * bin.stated, 100.0 * bin.right));
            }
        }
        assert!(below.is_empty(), "{}", below.join("; "));
    }

    /// Returns the causes of all tests, grouped by their stated confidence.
    fn calibration(&self) -> Vec<Bin> {
        let all = || self.rows.iter().flat_map(|(_, scores)| scores).flat_map(|s| &s.stated);
        let limits = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01];
        let of = |limits: &[f64]| {
            let within: Vec<_> = all().filter(|(c, _)| (limits[0]..limits[1]).contains(c)).collect();
            let causes = within.len();
            let share = |sum: f64| sum / causes.max(1) as f64;
            let stated = share(within.iter().map(|(c, _)| c).sum());
            let right = share(within.iter().filter(|(_, right)| *right).count() as f64);
            Bin { causes, stated, right }
        };
        limits.windows(2).map(of).filter(|bin| bin.causes > 0).collect()
    }

    fn share(&self, family: impl Fn(&str) -> bool, right: impl Fn(&Score) -> Option<bool>) -> f64 {
        let rows = self.rows.iter().filter(|(name, _)| family(name));
        let judged: Vec<bool> = rows.flat_map(|(_, scores)| scores).filter_map(right).collect();
        judged.iter().filter(|r| **r).count() as f64 / judged.len().max(1) as f64
    }
}

/// Prints the table of the documentation, and every wrong verdict if `JITLAT_MISSES` is set.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |values: Vec<Option<bool>>| {
            let known: Vec<bool> = values.into_iter().flatten().collect();
            let right = known.iter().filter(|k| **k).count();
            if known.is_empty() {
                "–".into()
            } else {
                format!("{:.1}", 100.0 * right as f64 / known.len() as f64)
            }
        };
        writeln!(
            f,
            "| wrong | tests | named first | main | no false cause | severity | times | magnitude |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for (name, scores) in &self.rows {
            let mut named: BTreeMap<&str, usize> = BTreeMap::new();
            for s in scores {
                *named.entry(s.named.map_or("nothing", CauseId::name)).or_default() += 1;
            }
            let mut named: Vec<_> = named.into_iter().collect();
            named.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            let named: Vec<String> = named.iter().map(|(id, n)| format!("{id} {n}")).collect();
            let column = |of: fn(&Score) -> Option<bool>| percent(scores.iter().map(of).collect());
            writeln!(
                f,
                "| {name} | {} | {} | {} | {} | {} | {} | {} |",
                scores.len(),
                named.join(", "),
                column(|s| Some(s.main)),
                column(|s| Some(s.false_causes.is_empty())),
                column(|s| Some(s.severity)),
                column(|s| s.times),
                column(|s| s.magnitude),
            )?;
        }
        writeln!(f, "\n| stated confidence | causes | right |")?;
        writeln!(f, "|---|---|---|")?;
        for bin in self.calibration() {
            writeln!(f, "| {:.1} | {} | {:.1} |", 100.0 * bin.stated, bin.causes, 100.0 * bin.right)?;
        }
        if std::env::var_os("JITLAT_MISSES").is_some() {
            for (name, scores) in &self.rows {
                for s in scores.iter().filter(|s| !s.all_right()) {
                    let mut faults = Vec::new();
                    let wrong = [
                        (!s.main, "MAIN"),
                        (!s.false_causes.is_empty(), "false"),
                        (!s.severity, "severity"),
                        (!s.complete, "complete"),
                        (s.times == Some(false), "times"),
                        (s.magnitude == Some(false), "magnitude"),
                    ];
                    faults.extend(wrong.iter().filter(|w| w.0).map(|w| w.1));
                    writeln!(f, "\n{name} {}: {} · {}", s.seed, faults.join(" "), s.description)?;
                }
            }
        }
        Ok(())
    }
}
