//! Means with confidence intervals over repeated runs, and delay as a function of packet size.

use super::{Factor, RunOutcome, SweepGrid};
use crate::link;
use crate::metrics::sizes::{SizeFit, size_fit};
use crate::metrics::stat::{t_outside, t_quantile};
use crate::scalars::{ScalarUnit, Selector, selectors};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A confidence level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ConfidenceLevel {
    /// 90 %.
    #[serde(rename = "90")]
    Ninety,
    /// 95 %.
    #[default]
    #[serde(rename = "95")]
    NinetyFive,
    /// 99 %.
    #[serde(rename = "99")]
    NinetyNine,
}

impl ConfidenceLevel {
    /// Returns the quantile of Student's t for a two-sided interval.
    fn quantile(self) -> f64 {
        match self {
            ConfidenceLevel::Ninety => 0.95,
            ConfidenceLevel::NinetyFive => 0.975,
            ConfidenceLevel::NinetyNine => 0.995,
        }
    }
}

impl fmt::Display for ConfidenceLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfidenceLevel::Ninety => "90",
            ConfidenceLevel::NinetyFive => "95",
            ConfidenceLevel::NinetyNine => "99",
        })
    }
}

impl FromStr for ConfidenceLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<ConfidenceLevel, String> {
        match text.trim_end_matches('%') {
            "90" => Ok(ConfidenceLevel::Ninety),
            "95" => Ok(ConfidenceLevel::NinetyFive),
            "99" => Ok(ConfidenceLevel::NinetyNine),
            _ => Err(format!("'{text}' is not a confidence level: give 90, 95 or 99")),
        }
    }
}

/// Estimate of a figure, from the repetitions of one combination.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Number of runs that have the figure.
    pub n: u64,
    /// Mean over the runs that have the figure.
    pub mean: f64,
    /// Student-t interval of the mean; `None` for a single run. It is valid because runs are independent of each other,
    /// unlike the packets of one run.
    pub interval: Option<[f64; 2]>,
    /// Standard error of the mean; `None` for a single run.
    #[serde(skip)]
    pub error: Option<f64>,
    /// Smallest value of a run.
    pub min: f64,
    /// Largest value of a run.
    pub max: f64,
}

impl Estimate {
    /// Computes the estimate from the values of the runs; `None` without values.
    pub fn new(values: &[f64], confidence: ConfidenceLevel) -> Option<Estimate> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let error = (values.len() > 1).then(|| (squares / (n - 1.0) / n).sqrt());
        let interval = error.map(|error| {
            let half = t_quantile(confidence.quantile(), values.len() as u64 - 1) * error;
            [mean - half, mean + half]
        });
        (!values.is_empty()).then(|| Estimate {
            n: values.len() as u64,
            mean,
            interval,
            error,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Returns the probability that the means differ at least this much by chance although the true means are equal
    /// (Welch's test, two-sided). `None` for single runs.
    pub fn chance_of_difference(&self, other: &Estimate) -> Option<f64> {
        let (here, there) = self.error.zip(other.error)?;
        let (here, there) = (here * here, there * there);
        let apart = (self.mean - other.mean).abs();
        if here + there == 0.0 {
            return Some(if apart > 0.0 { 0.0 } else { 1.0 });
        }
        let each = here * here / (self.n - 1) as f64 + there * there / (other.n - 1) as f64;
        let freedom = ((here + there).powi(2) / each).max(1.0);
        Some(t_outside(apart / (here + there).sqrt(), freedom as u64))
    }

    /// Limits the interval to possible values. A limit does not apply if a run is beyond it: delays may be negative if
    /// the clocks disagree.
    fn within(self, [least, most]: [f64; 2]) -> Estimate {
        let least = if self.min < least { f64::NEG_INFINITY } else { least };
        let most = if self.max > most { f64::INFINITY } else { most };
        Estimate { interval: self.interval.map(|[low, high]| [low.max(least), high.min(most)]), ..self }
    }
}

/// Returns true if the figure `key` is the width of a distribution, which is never negative.
fn spread(key: &str) -> bool {
    ["-stddev", "-iqr", "-abs"].iter().any(|end| key.ends_with(end))
}

/// Returns the smallest and the largest possible value of a figure, assuming that the clocks agree.
fn possible(selector: &Selector) -> [f64; 2] {
    let signed =
        |key: &str| ["ipdv", "clock", "slope"].iter().any(|name| key.starts_with(name)) && !spread(key);
    match selector.scalar.unit {
        ScalarUnit::Share => [0.0, 1.0],
        ScalarUnit::Time if signed(selector.scalar.key) => [f64::NEG_INFINITY, f64::INFINITY],
        ScalarUnit::Plain { .. } | ScalarUnit::Ppm => [f64::NEG_INFINITY, f64::INFINITY],
        ScalarUnit::Time
        | ScalarUnit::Packets
        | ScalarUnit::Count
        | ScalarUnit::PacketRate
        | ScalarUnit::BitRate
        | ScalarUnit::Bytes => [0.0, f64::INFINITY],
    }
}

/// Results of one combination over its repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// Index of the combination in the grid.
    pub cell: usize,
    /// Number of runs.
    pub runs: u64,
    /// Number of packets sent in all runs of the combination.
    pub sent: u64,
    /// Number of packets accepted in all runs of the combination.
    pub received: u64,
    /// Estimates of all figures that at least one run has, in the order of the list of scalars.
    pub figures: Vec<(Selector, Estimate)>,
}

impl SweepPoint {
    /// Returns the estimate of the figure `key`; `None` if no run has the figure.
    pub fn get(&self, key: &str) -> Option<&Estimate> {
        self.figures.iter().find(|(s, _)| s.to_string() == key).map(|(_, e)| e)
    }
}

/// Returns the results of each combination that was tried at least once, in the order of the grid.
pub fn points(grid: &SweepGrid, outcomes: &[RunOutcome], confidence: ConfidenceLevel) -> Vec<SweepPoint> {
    let of = |cell: usize| {
        let runs: Vec<&RunOutcome> = outcomes.iter().filter(|o| o.run.cell == cell).collect();
        let figure = |selector: Selector| {
            let key = selector.to_string();
            let values: Vec<f64> = runs.iter().filter_map(|o| o.figures.get(&key)).collect();
            let estimate = Estimate::new(&values, confidence)?.within(possible(&selector));
            // Percentiles and means of delay are never below the smallest delay.
            let of_delays = selector.scalar.key.starts_with("latency") && !spread(selector.scalar.key);
            let least = runs.iter().filter_map(|o| o.figures.get("latency-min")).reduce(f64::min);
            let least = least.filter(|_| {
                of_delays && selector.direction.is_none() && selector.scalar.key != "latency-min"
            });
            Some((selector, least.map_or(estimate, |least| estimate.within([least, f64::INFINITY]))))
        };
        (!runs.is_empty()).then(|| SweepPoint {
            cell,
            runs: runs.len() as u64,
            sent: runs.iter().map(|o| o.sent).sum(),
            received: runs.iter().map(|o| o.received).sum(),
            figures: selectors().filter_map(figure).collect(),
        })
    };
    (0..grid.cells().unwrap_or(0)).filter_map(of).collect()
}

/// Replaces the missing interval of the mean delay of each combination with a single run: uses the Student-t interval
/// over the packets of that run. This treats packets as independent, which they are not.
pub fn with_intervals_of_packets(points: &mut [SweepPoint], confidence: ConfidenceLevel) {
    for point in points.iter_mut().filter(|p| p.runs == 1) {
        let end = |side| point.get(&format!("latency-mean-{confidence}-{side}")).map(|e| e.mean);
        let interval = end("low").zip(end("high")).map(|(low, high)| [low, high]);
        let mean = point.figures.iter_mut().find(|(s, _)| s.to_string() == "latency-mean");
        if let Some((_, mean)) = mean {
            mean.interval = interval;
        }
    }
}

/// Delay as a function of packet size, for one combination of all other conditions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeLaw {
    /// Name of the combination of the other conditions.
    pub name: String,
    /// Number of packet sizes.
    pub sizes: usize,
    /// Straight line through the smallest delay of each size, by least squares and by Theil and Sen's method. Sizes are
    /// IP packet sizes, in bytes.
    pub line: SizeFit,
    /// Combined rate of all links in series, from the robust slope, in bits per second. For round trips, the
    /// links of both directions are in series. `None` if delay does not grow with size.
    pub rate: Option<f64>,
    /// Model of a link with cells; `None` if it does not fit better than the line.
    pub link: Option<link::LinkFit>,
}

/// Fits delay as a function of packet size in a sweep over payload sizes. Returns one result for each combination of
/// the other conditions that has at least three sizes.
pub fn size_laws(grid: &SweepGrid, outcomes: &[RunOutcome]) -> Vec<SizeLaw> {
    let mut names: Vec<String> = Vec::new();
    for cell in 0..grid.cells().unwrap_or(0) {
        let name = grid.name(cell, Some(Factor::Payload));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !grid.axes.iter().any(|a| a.factor == Factor::Payload) {
        return Vec::new();
    }
    names.into_iter().filter_map(|name| size_law(grid, outcomes, name)).collect()
}

fn size_law(grid: &SweepGrid, outcomes: &[RunOutcome], name: String) -> Option<SizeLaw> {
    let mut least: Vec<(u64, f64)> = Vec::new();
    for o in outcomes.iter().filter(|o| grid.name(o.run.cell, Some(Factor::Payload)) == name) {
        let (Some(length), Some(min)) = (o.ip_length, o.figures.get("latency-min")) else { continue };
        match least.iter_mut().find(|p| p.0 == length) {
            Some(p) => p.1 = p.1.min(min),
            None => least.push((length, min)),
        }
    }
    least.sort_unstable_by_key(|p| p.0);
    if least.len() < 3 {
        return None;
    }
    let line = size_fit(&least.iter().map(|p| (p.0 as f64, p.1)).collect::<Vec<_>>())?;
    Some(SizeLaw {
        name,
        sizes: least.len(),
        line,
        rate: (line.per_byte_robust > 0.0).then(|| 8e9 / line.per_byte_robust),
        link: link::fit(&least, 0).filter(|fit| fit.steps.is_some()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{FactorLevel, RunFigures, SweepAxis, SweepRun};
    use super::*;
    use crate::time::WallTime;

    fn outcome(cell: usize, repetition: u32, ip_length: u64, mean: f64) -> RunOutcome {
        RunOutcome {
            run: SweepRun { cell, repetition },
            at: WallTime(0),
            sent: 10,
            received: 9,
            ip_length: Some(ip_length),
            figures: RunFigures::default().with("latency-mean", mean).with("latency-min", mean),
        }
    }

    #[test]
    fn students_interval_over_repetitions() {
        // metrics §17, V21.
        let values = [10.1, 9.8, 10.4, 10.0, 9.7];
        for (confidence, low, high) in [
            (ConfidenceLevel::Ninety, 9.738_903, 10.261_097),
            (ConfidenceLevel::NinetyFive, 9.659_956, 10.340_044),
            (ConfidenceLevel::NinetyNine, 9.436_116, 10.563_884),
        ] {
            let [a, b] = Estimate::new(&values, confidence).unwrap().interval.unwrap();
            assert!((a - low).abs() < 1e-6 && (b - high).abs() < 1e-6, "{a} {b}");
        }
        // Ratios and delays are not negative, unless clocks disagree.
        let near_zero = Estimate::new(&[0.0, 0.0, 0.01], ConfidenceLevel::default()).unwrap();
        assert!(near_zero.interval.unwrap()[0] < 0.0);
        assert_eq!(near_zero.within([0.0, 1.0]).interval.unwrap()[0], 0.0);
        let negative = Estimate::new(&[-2.0, 1.0], ConfidenceLevel::default()).unwrap();
        assert_eq!(negative.within([0.0, f64::INFINITY]), negative);
        let one = Estimate::new(&[5.0], ConfidenceLevel::default()).unwrap();
        assert_eq!((one.n, one.mean, one.interval), (1, 5.0, None));
        assert_eq!(Estimate::new(&[], ConfidenceLevel::default()), None);
        assert_eq!("95%".parse(), Ok(ConfidenceLevel::NinetyFive));
        assert!("97".parse::<ConfidenceLevel>().is_err());
    }

    /// Sizes 40, 44 … over ATM with 96 bytes of overhead per packet (metrics §21, V28).
    fn atm() -> (SweepGrid, Vec<RunOutcome>) {
        let sizes: Vec<u64> = (40..=640).step_by(4).collect();
        let level = |s: &u64| FactorLevel { text: s.to_string(), number: Some(*s as f64) };
        let axis = SweepAxis::new(Factor::Payload, sizes.iter().map(level).collect());
        let delay = |s: u64| (7.5 + 4.140_625 * (s + 96).div_ceil(48) as f64) * 1e6;
        let queue = |r: u32, s: u64| f64::from(r * 7_000) * (s % 3) as f64;
        let runs = |(cell, s): (usize, &u64)| {
            let s = *s;
            (0..3).map(move |r| outcome(cell, r, s + 28, delay(s) + queue(r, s)))
        };
        let outcomes = sizes.iter().enumerate().flat_map(runs).collect();
        (SweepGrid { axes: vec![axis] }, outcomes)
    }

    #[test]
    fn a_sweep_over_sizes_finds_cells() {
        let (grid, outcomes) = atm();
        let laws = size_laws(&grid, &outcomes);
        let [law] = laws.as_slice() else { panic!("{laws:?}") };
        let link = law.link.as_ref().unwrap();
        assert_eq!((law.sizes, link.steps.map(|s| s.0)), (151, Some(48)));
        assert!((link.series_rate - 102_400.0).abs() < 1.0, "{link:?}");
        assert!(
            law.rate.is_some_and(|r| (r - 92_700.0).abs() < 2_000.0),
            "the line sees payload only: {law:?}"
        );
    }

    #[test]
    fn an_interval_ends_where_values_are_possible() {
        let axis = SweepAxis::new(Factor::Wait, vec![FactorLevel { text: "0".into(), number: Some(0.0) }]);
        let run = |repetition: u32, mean: f64| {
            let mut outcome = outcome(0, repetition, 100, mean);
            let f = RunFigures::default().with("latency-mean", mean).with("latency-min", 90.0);
            outcome.figures = f.with("ipdv-stddev", mean - 99.0).with("ipdv-mean", mean - 150.0);
            outcome
        };
        let grid = SweepGrid { axes: vec![axis] };
        let points = points(&grid, &[run(0, 100.0), run(1, 200.0)], ConfidenceLevel::default());
        let low = |key: &str| points[0].get(key).unwrap().interval.unwrap()[0];
        assert_eq!(low("latency-mean"), 90.0, "no mean is below the smallest delay");
        assert_eq!(low("ipdv-stddev"), 0.0, "a width is not negative");
        assert!(low("ipdv-mean") < -100.0, "a signed mean may be");
    }

    #[test]
    fn points_are_of_one_combination_each() {
        let (grid, outcomes) = atm();
        let points = points(&grid, &outcomes[..5], ConfidenceLevel::default());
        assert_eq!(
            points.iter().map(|p| (p.cell, p.runs, p.sent)).collect::<Vec<_>>(),
            [(0, 3, 30), (1, 2, 20)]
        );
        assert!(
            points[0].get("latency-mean").unwrap().interval.is_some()
                && points[0].get("latency-p99").is_none()
        );
        assert!(size_laws(&grid, &outcomes[..5]).is_empty(), "two sizes are no law");
    }
}
