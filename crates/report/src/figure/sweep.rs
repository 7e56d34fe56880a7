//! Figures of a sweep over a varied condition, with confidence intervals over repetitions as error bars.

use super::{
    Axis, AxisUnit, Bound, ComparedRun, Figure, HistogramRow, Mark, MarkSeries, MeanRow, Tone,
    group_thousands, ipdv_graph, of_runs, value_label,
};
use jitlat_core::analysis::Samples;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::ipdv;
use jitlat_core::summary::{Distribution, Ipdv, Percent};
use jitlat_core::sweep::{ConfidenceLevel, Estimate, Factor, FactorLevel, SweepAxis, SweepGrid, SweepPoint};

/// Maximum number of curves in a figure; more cannot be distinguished.
const MAX_CURVES: usize = 7;
/// Maximum number of groups of bars in a figure.
const MAX_GROUPS: usize = 12;

/// A sweep, finished or still running.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// The varied conditions.
    pub grid: &'a SweepGrid,
    /// Result of each combination.
    pub points: &'a [SweepPoint],
    /// Confidence level of the intervals.
    pub confidence: ConfidenceLevel,
    /// Name of the quantity: `round trip` or `one-way delay`.
    pub quantity: &'a str,
    /// Notes for the reader.
    pub notes: &'a [String],
    /// Packets of the combinations whose packets were stored.
    pub packets: &'a [CellPackets],
}

/// The packets of all runs of one combination, pooled.
#[derive(Clone, Debug)]
pub struct CellPackets {
    cell: usize,
    delay: (Distribution, Sample),
    pdv: (Distribution, Sample),
    ipdv: (Ipdv, Sample),
}

impl CellPackets {
    /// Pools the packets of the `runs` of one combination; `None` if no run has packets. Means, standard deviations and
    /// interquartile ranges are taken from `point`, where they are means over the runs, so that figures and tables
    /// agree.
    pub fn new(point: &SweepPoint, runs: &[&Samples]) -> Option<CellPackets> {
        let delays: Vec<i64> = runs.iter().flat_map(|run| &run.delay).copied().collect();
        let above = |run: &&Samples| {
            let least = run.delay.iter().copied().min().unwrap_or(0);
            run.delay.iter().map(|delay| delay.saturating_sub(least)).collect::<Vec<_>>()
        };
        let pdv: Vec<i64> = runs.iter().flat_map(above).collect();
        let possible = runs.iter().map(|run| run.len().saturating_sub(1) as u64).sum();
        if delays.is_empty() {
            return None;
        }
        let mut delay = Distribution::of_values(&delays);
        let mut ipdv = ipdv::of_steps(runs.iter().flat_map(|run| ipdv::steps(run)).collect(), possible);
        let of_runs = |key: &str, pooled: Option<f64>| point.get(key).map(|e| e.mean).or(pooled);
        delay.0.mean = of_runs("latency-mean", delay.0.mean);
        delay.0.stddev = of_runs("latency-stddev", delay.0.stddev);
        ipdv.0.mean = of_runs("ipdv-mean", ipdv.0.mean);
        ipdv.0.stddev = of_runs("ipdv-stddev", ipdv.0.stddev);
        ipdv.0.iqr = of_runs("ipdv-iqr", ipdv.0.iqr.map(|iqr| iqr as f64)).map(|iqr| iqr.round() as i64);
        Some(CellPackets { cell: point.cell, delay, pdv: Distribution::of_values(&pdv), ipdv })
    }
}

/// Returns every figure that applies to `sweep`.
pub fn of_sweep(sweep: &Sweep<'_>) -> Vec<Figure> {
    let lossy = sweep.points.iter().any(|p| p.received < p.sent);
    let retried =
        sweep.points.iter().filter_map(|p| p.get("interface-retries")).any(|estimate| estimate.mean > 0.0);
    ["latency-mean", "latency-p99", "latency-stddev", "loss", "interface-retries", "interface-signal"]
        .into_iter()
        .filter(|what| *what != "loss" || lossy)
        .filter(|what| *what != "interface-retries" || retried)
        .filter_map(|what| figure(sweep, what))
        .chain(distributions(sweep))
        .collect()
}

/// Draws the distributions of the combinations, in one plot and as rows, and IPDV in a graph for each load.
fn distributions(sweep: &Sweep<'_>) -> Vec<Figure> {
    let names: Vec<String> = sweep.packets.iter().map(|p| sweep.grid.name(p.cell, None)).collect();
    let runs: Vec<ComparedRun<'_>> =
        sweep.packets.iter().zip(&names).map(|(p, name)| p.compared(name, sweep.is_one_way())).collect();
    let mut drawn = of_runs(&runs);
    drawn.extend(of_loads(sweep));
    if sweep.points.iter().any(|p| p.runs > 1) {
        let pooled = "Curves show the packets of all runs; the numbers are means over the runs.";
        let numbered = drawn.iter_mut().filter(|figure| figure.id.starts_with(IPDV));
        numbered.for_each(|figure| figure.notes.push(pooled.to_owned()));
    }
    histograms(sweep, &names).into_iter().chain(drawn).collect()
}

/// Beginning of the ids of IPDV graphs.
const IPDV: &str = "compare-ipdv-cdf";

/// Draws an IPDV graph for each load, with a curve for each combination of the other conditions. Empty unless the load
/// is varied.
fn of_loads(sweep: &Sweep<'_>) -> Vec<Figure> {
    let Some(loads) = sweep.grid.axes.iter().find(|a| a.factor == Factor::Load && a.levels.len() > 1) else {
        return Vec::new();
    };
    let during = |load: &FactorLevel| {
        let with = |p: &&CellPackets| sweep.grid.level(p.cell, Factor::Load) == Some(load);
        let packets: Vec<&CellPackets> = sweep.packets.iter().filter(with).collect();
        let name = |p: &&CellPackets| match sweep.grid.name(p.cell, Some(Factor::Load)) {
            nothing if nothing.is_empty() => format!("load {}", load.text),
            others => others,
        };
        let names: Vec<String> = packets.iter().map(name).collect();
        let runs: Vec<ComparedRun<'_>> =
            packets.iter().zip(&names).map(|(p, name)| p.compared(name, sweep.is_one_way())).collect();
        let figure = ipdv_graph(&runs)?;
        Some(Figure {
            id: format!("{IPDV}-{}", load.text),
            title: format!("{}: load {}", figure.title, load.text),
            subtitle: match figure.series.len() {
                1 => figure.subtitle,
                n => format!("{n} combinations"),
            },
            ..figure
        })
    };
    loads.levels.iter().filter_map(during).collect()
}

fn figure(sweep: &Sweep<'_>, what: &str) -> Option<Figure> {
    let main = sweep.grid.main_axis()?;
    let found: Vec<(&SweepPoint, &Estimate)> =
        sweep.points.iter().filter_map(|p| Some((p, p.get(what)?))).collect();
    if found.is_empty() {
        return None;
    }
    let along = main.levels.len() > 1 && main.is_quantity();
    let (unit, name) = match what {
        "loss" => (AxisUnit::Share, "packets lost".to_owned()),
        "interface-retries" => (AxisUnit::Count, "radio retries in a test".to_owned()),
        "interface-signal" => (AxisUnit::Plain, "radio signal, mean (dBm)".to_owned()),
        "latency-p99" => (AxisUnit::Time, format!("{}, 99th percentile", sweep.quantity)),
        "latency-stddev" => (AxisUnit::Time, format!("{}, standard deviation", sweep.quantity)),
        _ => (AxisUnit::Time, format!("{}, mean", sweep.quantity)),
    };
    let runs = found.iter().map(|(p, _)| p.runs).max().unwrap_or(0);
    let reach = |f: fn(f64, f64) -> f64, side: usize, from: f64| {
        found.iter().map(|(_, e)| e.interval.map_or(e.mean, |i| i[side])).fold(from, f)
    };
    let (low, high) = (reach(f64::min, 0, f64::INFINITY), reach(f64::max, 1, f64::NEG_INFINITY));
    let room = (high - low).max(high.abs() * 0.02) * 0.06;
    // Begin at zero, unless that would hide the differences.
    let from = if low >= 0.0 && low < (high - low) * 3.0 { 0.0 } else { low - room };
    let value = Axis::linear(name.clone(), unit, from, high + room);
    let blank = Axis::linear("", AxisUnit::Plain, 0.0, 1.0);
    let mut notes: Vec<String> = Vec::new();
    let (x, y, series) = if along {
        (condition(main), value, curves(sweep, main, what, &mut notes))
    } else if let Some(bars) = bars(sweep, main, what) {
        let names = main.levels.iter().map(|l| l.text.clone()).collect();
        let from_zero = Axis::linear(name.clone(), unit, 0.0, high + room);
        (Axis::names(label(main.factor), names), from_zero, bars)
    } else {
        (value, blank, vec![MarkSeries::new("", Tone::Data, Mark::Means { rows: rows(sweep, &found, unit) })])
    };
    let grouped = !x.names.is_empty();
    notes.extend(sweep.notes.iter().cloned());
    let single = found.iter().any(|(p, e)| p.runs == 1 && e.interval.is_some());
    let bars = match (runs, single) {
        (1, false) => "repeatability unknown".to_owned(),
        (1, true) => {
            format!(
                "error bars: {} % confidence interval of the mean over each run's packets",
                sweep.confidence
            )
        }
        _ => format!("error bars: {} % confidence interval of the mean over repetitions", sweep.confidence),
    };
    if single {
        notes
            .push("Error bars of a single run assume independent packets, so they are too short.".to_owned());
    }
    Some(Figure {
        id: format!("sweep-{what}"),
        title: match (along, grouped) {
            (true, _) => {
                format!("{}, by {}", capitalised(&name), main.label_without_unit())
            }
            (_, true) => format!("{}, by {}", capitalised(&name), label(main.factor)),
            _ => capitalised(&name),
        },
        subtitle: format!(
            "{} combinations, {}, n = {} packets in all; {bars}",
            found.len(),
            if runs == 1 { "one run each".to_owned() } else { format!("up to {runs} runs each") },
            group_thousands(&found.iter().map(|(p, _)| p.sent).sum::<u64>().to_string())
        ),
        measured: String::new(),
        about: "If error bars do not overlap, the conditions differ by more than repetition explains.".into(),
        x,
        y,
        right: None,
        series,
        overflow: None,
        notes,
    })
}

impl CellPackets {
    fn compared<'a>(&'a self, name: &'a str, raw_clocks: bool) -> ComparedRun<'a> {
        ComparedRun {
            name,
            latency: &self.delay.0,
            pdv: &self.pdv.0,
            samples: Some((&self.delay.1, &self.pdv.1)),
            ipdv: Some((&self.ipdv.0, &self.ipdv.1)),
            correction: None,
            raw_clocks,
        }
    }
}

impl Sweep<'_> {
    fn is_one_way(&self) -> bool {
        self.quantity == "one-way delay"
    }
}

/// Draws a histogram for each combination, on one axis: of round trips, or of one-way delays above each run's smallest,
/// because clocks may drift between runs. Values beyond the axis are in the last bar, as in the ATM jitter measurements
/// of DTU.
fn histograms(sweep: &Sweep<'_>, names: &[String]) -> Option<Figure> {
    const BARS: usize = 80;
    const ROWS: usize = 12;
    let of = |p: &'_ CellPackets| if sweep.is_one_way() { p.pdv.clone() } else { p.delay.clone() };
    let all: Vec<(Distribution, Sample)> = sweep.packets.iter().take(ROWS).map(of).collect();
    if all.len() < 2 {
        return None;
    }
    let low = all.iter().filter_map(|(d, _)| d.min).min()?;
    let high = all.iter().filter_map(|(d, _)| d.percentiles.at(Percent(99_000))).max()?.max(low + 1);
    let width = ((high - low) as f64 / (BARS - 1) as f64).max(1.0);
    let row = |((_, sample), name): (&(Distribution, Sample), &String)| {
        let mut heights = vec![0.0; BARS];
        for k in 0..sample.len() {
            let bar = sample.at(k).map_or(0, |v| ((v - low) as f64 / width) as usize);
            heights[bar.min(BARS - 1)] += 1.0;
        }
        HistogramRow { name: name.clone(), heights }
    };
    let quantity = if sweep.is_one_way() { "delay above the run's own minimum" } else { sweep.quantity };
    let numbers = |((d, _), name): (&(Distribution, Sample), &String)| {
        let shown = |v: Option<f64>| v.map_or_else(|| "–".to_owned(), |v| value_label(AxisUnit::Time, v));
        let n = group_thousands(&d.n.to_string());
        format!("{name}: n = {n}, mean {}, std dev {}.", shown(d.mean), shown(d.stddev))
    };
    let dropped = (sweep.packets.len() > ROWS)
        .then(|| format!("The first {ROWS} of {} combinations are drawn.", sweep.packets.len()));
    let end = low as f64 + width * BARS as f64;
    let beyond =
        "The axis ends at the largest 99th percentile; the last bar of each row includes all larger values.";
    let mark = Mark::Histograms { start: low as f64, width, rows: all.iter().zip(names).map(row).collect() };
    Some(Figure {
        id: "sweep-distributions".into(),
        title: format!("{}, frequency distributions", capitalised(quantity)),
        subtitle: format!(
            "n = {} packets of {} combinations · {} per bar · each row scaled to its own peak",
            group_thousands(&all.iter().map(|(d, _)| d.n).sum::<u64>().to_string()),
            all.len(),
            value_label(AxisUnit::Time, width)
        ),
        measured: String::new(),
        about: "The width of each row is its jitter; rows further right are slower.".into(),
        x: Axis::linear(quantity, AxisUnit::Time, low as f64, end),
        y: Axis::linear("", AxisUnit::Plain, 0.0, 1.0),
        right: None,
        series: vec![MarkSeries::new("", Tone::Data, mark)],
        overflow: None,
        notes: dropped
            .into_iter()
            .chain([beyond.to_owned()])
            .chain(all.iter().zip(names).map(numbers))
            .collect(),
    })
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Returns the axis label of a condition that has named levels.
fn label(factor: Factor) -> String {
    match factor {
        Factor::Category => "access category".to_owned(),
        other => other.to_string(),
    }
}

/// Creates the horizontal axis of a varied condition.
fn condition(main: &SweepAxis) -> Axis {
    let numbers = || main.levels.iter().filter_map(|l| l.number);
    let (low, high) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
    let (name, unit) = match main.factor {
        Factor::Payload => ("payload, bytes".to_owned(), AxisUnit::Plain),
        Factor::Period => ("time between packets".to_owned(), AxisUnit::Time),
        Factor::Wait => ("wait between an answer and the next request".to_owned(), AxisUnit::Time),
        _ => (main.label(), AxisUnit::Plain),
    };
    let room = (high - low) * 0.03;
    if main.factor != Factor::Number && low > 0.0 && high / low > 50.0 {
        return Axis::log(format!("{name}, log scale"), unit, low * 0.8, high * 1.25);
    }
    Axis::linear(name, unit, if low > high * 0.3 { low - room } else { 0.0 - room }, high + room)
}

/// Returns the combinations of the conditions other than `main`, in the order of the grid.
fn names(sweep: &Sweep<'_>, main: &SweepAxis) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for p in sweep.points {
        let name = sweep.grid.name(p.cell, Some(main.factor));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Draws one curve for each combination of the other conditions.
fn curves(sweep: &Sweep<'_>, main: &SweepAxis, what: &str, notes: &mut Vec<String>) -> Vec<MarkSeries> {
    let names = names(sweep, main);
    if names.len() > MAX_CURVES {
        notes.push(format!("The first {MAX_CURVES} of {} curves are drawn.", names.len()));
    }
    let mut series = Vec::new();
    for (name, k) in names.iter().take(MAX_CURVES).zip(0u8..) {
        let mut bounds: Vec<Bound> = sweep
            .points
            .iter()
            .filter(|p| sweep.grid.name(p.cell, Some(main.factor)) == *name)
            .filter_map(|p| {
                let e = p.get(what)?;
                let [low, high] = e.interval.unwrap_or([e.mean; 2]);
                let at = sweep.grid.level(p.cell, main.factor)?.number?;
                Some(Bound { at, value: e.mean, low, high })
            })
            .collect();
        bounds.sort_by(|a, b| a.at.total_cmp(&b.at));
        let points: Vec<(f64, f64)> = bounds.iter().map(|b| (b.at, b.value)).collect();
        series.push(MarkSeries::new(name.clone(), Tone::Run(k), Mark::Line { points, dashed: false }));
        series.push(MarkSeries::new("", Tone::Run(k), Mark::Bounds { points: bounds }));
    }
    series
}

/// Draws bars in groups: one group for each level of `main`, with one bar for each combination of the other conditions.
/// `None` if nothing else varies, or if there are too many combinations.
fn bars(sweep: &Sweep<'_>, main: &SweepAxis, what: &str) -> Option<Vec<MarkSeries>> {
    let names = names(sweep, main);
    if !(2..=MAX_CURVES).contains(&names.len()) || main.levels.len() > MAX_GROUPS {
        return None;
    }
    let width = 0.8 / names.len() as f64;
    let series = names.iter().zip(0u8..).map(|(name, k)| {
        let bar = |p: &SweepPoint| {
            let level = sweep.grid.level(p.cell, main.factor)?;
            let group = main.levels.iter().position(|l| l == level)? as f64;
            let e = p.get(what)?;
            let [low, high] = e.interval.unwrap_or([e.mean; 2]);
            let at = group - 0.4 + width * (f64::from(k) + 0.5);
            Some(Bound { at, value: e.mean, low, high })
        };
        let of = |p: &&SweepPoint| sweep.grid.name(p.cell, Some(main.factor)) == *name;
        let bars = sweep.points.iter().filter(of).filter_map(bar).collect();
        MarkSeries::new(name.clone(), Tone::Run(k), Mark::Columns { width, bars })
    });
    Some(series.collect())
}

fn rows(sweep: &Sweep<'_>, found: &[(&SweepPoint, &Estimate)], unit: AxisUnit) -> Vec<MeanRow> {
    let row = |(p, e): &(&SweepPoint, &Estimate)| MeanRow {
        name: format!("{}: {}", sweep.grid.name(p.cell, None), value_label(unit, e.mean)),
        value: e.mean,
        interval: e.interval,
    };
    found.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::sweep::{RunFigures, RunOutcome, SweepRun, points};

    fn sweep(texts: &[&str]) -> (SweepGrid, Vec<RunOutcome>) {
        let level = |t: &&str| FactorLevel { text: (*t).to_owned(), number: t.parse().ok() };
        let factor = if texts[0].parse::<f64>().is_ok() { Factor::Payload } else { Factor::Protocol };
        let grid = SweepGrid { axes: vec![SweepAxis::new(factor, texts.iter().map(level).collect())] };
        let outcome = |cell: usize, repetition: u32| RunOutcome {
            run: SweepRun { cell, repetition },
            at: WallTime(0),
            sent: 100,
            received: 100,
            ip_length: None,
            figures: RunFigures::default()
                .with("latency-mean", 1e6 * (cell + 1) as f64 + f64::from(repetition) * 1e4),
        };
        let outcomes = (0..texts.len()).flat_map(|c| (0..3).map(move |r| outcome(c, r))).collect();
        (grid, outcomes)
    }

    #[test]
    fn two_named_conditions_become_groups_of_bars() {
        let named = |factor, texts: [&str; 2]| {
            SweepAxis::new(factor, texts.map(|t| FactorLevel { text: t.to_owned(), number: None }).into())
        };
        let axes = vec![named(Factor::Category, ["BK", "VO"]), named(Factor::Load, ["none", "udp:1M,ac=VO"])];
        let grid = SweepGrid { axes };
        let (_, outcomes) = sweep(&["a", "b", "c", "d"]);
        let points = points(&grid, &outcomes, ConfidenceLevel::default());
        let (quantity, notes) = ("round trip", &[][..]);
        let confidence = ConfidenceLevel::default();
        let sweep = Sweep { grid: &grid, points: &points, confidence, quantity, notes, packets: &[] };
        let [figure] = &of_sweep(&sweep)[..] else { panic!() };
        assert_eq!(figure.title, "Round trip, mean, by access category");
        assert_eq!(figure.x.names, ["BK", "VO"]);
        let bars: Vec<Vec<(f64, f64)>> = figure
            .series
            .iter()
            .map(|s| match &s.mark {
                Mark::Columns { bars, .. } => bars.iter().map(|b| ((b.at * 10.0).round(), b.value)).collect(),
                other => panic!("{other:?}"),
            })
            .collect();
        // Bars of a group are next to each other, without and with the load.
        assert_eq!(bars, [[(-2.0, 1.01e6), (8.0, 3.01e6)], [(2.0, 2.01e6), (12.0, 4.01e6)]]);
        assert_eq!((figure.y.lo, figure.series[1].name.as_str()), (0.0, "load udp:1M,ac=VO"));
        assert!(!crate::draw::svg(figure).contains("NaN"));
    }

    fn figures(texts: &[&str]) -> Vec<Figure> {
        let (grid, outcomes) = sweep(texts);
        let points = points(&grid, &outcomes, ConfidenceLevel::default());
        let (quantity, notes) = ("round trip", &[][..]);
        let column = |delay: Vec<i64>| Samples {
            seq: (0..9).collect(),
            sent: vec![0; 9],
            delay,
            ..Samples::default()
        };
        let packets: Vec<CellPackets> = (0..texts.len())
            .filter_map(|c| {
                let run = column((0..9).map(|k| 1_000_000 * (c as i64 + 1) + k * k * 1000).collect());
                CellPackets::new(&points[c], &[&run, &run])
            })
            .collect();
        let confidence = ConfidenceLevel::default();
        of_sweep(&Sweep { grid: &grid, points: &points, confidence, quantity, notes, packets: &packets })
    }

    #[test]
    fn quantities_become_curves_with_bounds_and_names_become_rows() {
        let by_size = figures(&["40", "80", "120"]);
        let ids: Vec<&str> = by_size.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids[..2], ["sweep-latency-mean", "sweep-distributions"], "what no run has is not drawn");
        assert!(ids.contains(&"compare-latency-cdf") && ids.contains(&"compare-ipdv-cdf"), "{ids:?}");
        let Mark::Histograms { rows, .. } = &by_size[1].series[0].mark else {
            panic!("{:?}", by_size[1].series)
        };
        assert!(
            rows.iter().all(|r| r.heights.iter().sum::<f64>() == 18.0),
            "every packet is in a bar: {rows:?}"
        );
        let Mark::Bounds { points } = &by_size[0].series[1].mark else { panic!("{:?}", by_size[0].series) };
        assert_eq!(points.len(), 3);
        assert!(points.iter().all(|b| b.low < b.value && b.value < b.high));
        let by_name = figures(&["icmp", "lamp:user"]);
        let Mark::Means { rows } = &by_name[0].series[0].mark else { panic!() };
        assert!(rows[1].name.starts_with("lamp:user: 2.010 ms"), "{}", rows[1].name);
        for figure in by_size.iter().chain(&by_name).filter(|f| f.id.starts_with("sweep-latency")) {
            let svg = crate::draw::svg(figure);
            assert!(svg.contains("95 % confidence") && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn each_load_has_a_graph_of_ipdv_whose_numbers_are_those_of_the_table() {
        let named = |factor, texts: [&str; 2]| {
            SweepAxis::new(factor, texts.map(|t| FactorLevel { text: t.to_owned(), number: None }).into())
        };
        let axes =
            vec![named(Factor::Load, ["none", "udp:4Mbit+tcp,streams=4"]), named(Factor::Dscp, ["BE", "EF"])];
        let grid = SweepGrid { axes };
        // Two runs of each combination, of which the second varies three times as much.
        let samples = |cell: usize, repetition: u32| {
            let by = 1000 * (cell as i64 + 1) * (1 + 2 * i64::from(repetition));
            let delay = (0..40).map(|k| 1_000_000 + by * (k * 7 % 5)).collect();
            Samples { seq: (0..40).collect(), sent: vec![0; 40], delay, ..Samples::default() }
        };
        let figures_of = |run: &Samples| {
            let (found, _) = ipdv::of_steps(ipdv::steps(run), 39);
            RunFigures::default()
                .with("latency-mean", 1e6)
                .with("ipdv-mean", found.mean.unwrap())
                .with("ipdv-stddev", found.stddev.unwrap())
                .with("ipdv-iqr", found.iqr.unwrap() as f64)
        };
        let outcome = |cell: usize, repetition: u32| RunOutcome {
            run: SweepRun { cell, repetition },
            at: WallTime(0),
            sent: 40,
            received: 40,
            ip_length: None,
            figures: figures_of(&samples(cell, repetition)),
        };
        let outcomes: Vec<RunOutcome> = (0..4).flat_map(|c| [outcome(c, 0), outcome(c, 1)]).collect();
        let confidence = ConfidenceLevel::default();
        let points = points(&grid, &outcomes, confidence);
        let packets: Vec<CellPackets> = points
            .iter()
            .filter_map(|p| CellPackets::new(p, &[&samples(p.cell, 0), &samples(p.cell, 1)]))
            .collect();
        let quantity = "round trip";
        let drawn = of_sweep(&Sweep {
            grid: &grid,
            points: &points,
            confidence,
            quantity,
            notes: &[],
            packets: &packets,
        });
        let graphs: Vec<&Figure> = drawn.iter().filter(|f| f.id.starts_with("compare-ipdv-cdf-")).collect();
        let titles: Vec<&str> = graphs.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "IPDV, cumulative distributions: load none",
                "IPDV, cumulative distributions: load udp:4Mbit+tcp,streams=4"
            ]
        );
        for (graph, cells) in graphs.iter().zip([[0, 1], [2, 3]]) {
            assert_eq!(graph.subtitle, "2 combinations");
            let names: Vec<&str> = graph.series.iter().map(|s| s.name.as_str()).collect();
            assert_eq!(names, ["BE (n = 78)", "EF (n = 78)"], "the packets of both runs");
            for (class, cell) in ["BE", "EF"].iter().zip(cells) {
                let table = points[cell].get("ipdv-stddev").unwrap().mean;
                let says = format!("std dev {}, ", value_label(AxisUnit::Time, table));
                let note = graph.notes.iter().find(|note| note.starts_with(&format!("{class}: ")));
                assert!(note.is_some_and(|note| note.contains(&says)), "{says}: {:?}", graph.notes);
            }
            assert!(graph.notes.iter().any(|note| note.ends_with("the numbers are means over the runs.")));
        }
        assert_eq!(crate::draw::layout(graphs[1]).id, "compare-ipdv-cdf-udp-4Mbit-tcp-streams-4");
    }
}
