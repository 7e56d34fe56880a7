//! Figures that compare several runs: distributions in one plot, and side by side. Summaries are sufficient for most of
//! the figures.

use super::{Axis, AxisUnit, Figure, Mark, MarkSeries, SpreadRow, Tone, group_thousands, value_label};
use jitlat_core::distribution::sample::Sample;
use jitlat_core::summary::{Distribution, Ipdv, Percent, Summary};
use jitlat_verdict::compare::Cell;
use std::borrow::Cow;

/// Maximum number of curves in a figure; more cannot be distinguished.
const MAX_CURVES: usize = 7;

/// Quantity that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedQuantity {
    /// Round trips, or raw one-way latency, which is comparable only if the same clocks measured all runs.
    Latency,
    /// Delay above each run's own minimum.
    Jitter,
}

/// One of several compared runs.
#[derive(Clone, Copy, Debug)]
pub struct ComparedRun<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Latency from which `correction` has not been subtracted.
    pub latency: &'a Distribution,
    /// Delay above the minimum of the run.
    pub pdv: &'a Distribution,
    /// Latency and delay above the minimum of each packet, in order, for the exact distribution; `None` if only
    /// the summary is known.
    pub samples: Option<(&'a Sample, &'a Sample)>,
    /// Delay variation between consecutive packets, with its values; `None` if they are not available.
    pub ipdv: Option<(&'a Ipdv, &'a Sample)>,
    /// Correction subtracted from each latency, in ns; `None` if there is none.
    pub correction: Option<i64>,
    /// True if the uncorrected latency includes the offset of two clocks.
    pub raw_clocks: bool,
}

impl<'a> ComparedRun<'a> {
    /// Creates a run from its summary, without packets.
    pub fn new(name: &'a str, summary: &'a Summary) -> ComparedRun<'a> {
        ComparedRun {
            name,
            latency: &summary.latency,
            pdv: &summary.pdv,
            samples: None,
            ipdv: None,
            correction: None,
            raw_clocks: summary.two_way.is_none(),
        }
    }

    /// Creates a run from a cell of a comparison; `None` if its packets are unknown.
    pub fn of_cell(cell: &'a Cell) -> Option<ComparedRun<'a>> {
        Some(ComparedRun {
            name: &cell.column,
            latency: cell.latency.as_ref()?,
            pdv: cell.pdv.as_ref()?,
            samples: cell.latency_sample.as_ref().zip(cell.pdv_sample.as_ref()),
            ipdv: cell.ipdv.as_ref().zip(cell.ipdv_sample.as_ref()),
            // The latency of a cell is already corrected if the clocks allow it.
            correction: None,
            raw_clocks: false,
        })
    }

    /// Corrects the latency by the clock estimate of `summary`, if `wanted` is true and an estimate exists.
    pub fn corrected(self, wanted: bool, summary: &Summary) -> ComparedRun<'a> {
        let correction = summary.clock.correction_ns.filter(|_| wanted && self.raw_clocks);
        ComparedRun { correction, raw_clocks: self.raw_clocks && correction.is_none(), ..self }
    }
}

impl ComparedQuantity {
    fn of<'a>(self, run: &ComparedRun<'a>) -> Cow<'a, Distribution> {
        match (self, run.correction) {
            (ComparedQuantity::Latency, Some(correction)) => Cow::Owned(run.latency.less(correction)),
            (ComparedQuantity::Latency, None) => Cow::Borrowed(run.latency),
            (ComparedQuantity::Jitter, _) => Cow::Borrowed(run.pdv),
        }
    }

    /// Returns the value to subtract from this quantity of `run`, in ns.
    fn correction(self, run: &ComparedRun<'_>) -> i64 {
        if self == ComparedQuantity::Latency { run.correction.unwrap_or(0) } else { 0 }
    }

    /// Returns a note if the absolute delays of `runs` are unreliable; otherwise `None`.
    fn position(self, runs: &[ComparedRun<'_>]) -> Option<String> {
        if self == ComparedQuantity::Jitter {
            return None;
        }
        let corrected = runs.iter().filter(|r| r.correction.is_some()).count();
        if runs.iter().any(|r| r.raw_clocks) {
            return Some(match corrected {
                0 => "Not corrected for clock offsets; -L corrects known offsets.".into(),
                n => format!(
                    "{n} of {} runs are corrected by the clock estimate; the others are not.",
                    runs.len()
                ),
            });
        }
        (corrected > 0).then(|| "Each run is corrected by its own clock estimate.".into())
    }

    fn sample<'a>(self, run: &ComparedRun<'a>) -> Option<&'a Sample> {
        run.samples.map(|(latency, pdv)| match self {
            ComparedQuantity::Latency => latency,
            ComparedQuantity::Jitter => pdv,
        })
    }

    fn id(self) -> &'static str {
        match self {
            ComparedQuantity::Latency => "latency",
            ComparedQuantity::Jitter => "jitter",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ComparedQuantity::Latency => "Latency",
            ComparedQuantity::Jitter => "Jitter",
        }
    }

    fn quantity(self) -> &'static str {
        match self {
            ComparedQuantity::Latency => "latency",
            ComparedQuantity::Jitter => "delay above the run's own minimum",
        }
    }
}

/// Cumulative distributions in one plot; `None` if fewer than two runs have a distribution, or if their latencies are
/// too far apart.
pub fn cdfs(subject: ComparedQuantity, runs: &[ComparedRun<'_>]) -> Option<Figure> {
    let curve = |run: &ComparedRun<'_>| {
        let points = match subject.sample(run) {
            Some(sample) => exact(sample, subject.correction(run)),
            None => cumulative(&subject.of(run)),
        };
        Some((run.name.to_owned(), subject.of(run).into_owned(), points?))
    };
    let curves: Vec<_> = runs.iter().filter_map(curve).collect();
    if curves.len() < 2 {
        return None;
    }
    let drawn_exactly = runs.iter().all(|r| r.samples.is_some());
    let p99 = |d: &Distribution| d.percentiles.at(Percent(99_000)).map(|v| v as f64);
    let low = curves.iter().filter_map(|c| c.1.min).min()? as f64;
    let high = curves.iter().filter_map(|c| p99(&c.1)).fold(f64::NEG_INFINITY, f64::max);
    let least = curves.iter().filter_map(|c| p99(&c.1)).fold(f64::INFINITY, f64::min);
    if subject == ComparedQuantity::Latency && !comparable(&curves.iter().map(|c| &c.1).collect::<Vec<_>>()) {
        return None;
    }
    // Use a logarithmic axis if the run with smaller values would otherwise be a vertical line, but not if it
    // would hide more than a tenth of a run, because it has no 0.
    let tenth = |points: &[(f64, f64)]| points.iter().find(|p| p.1 >= 0.1).map_or(0.0, |p| p.0);
    let tenth = curves.iter().map(|c| tenth(&c.2)).fold(f64::INFINITY, f64::min);
    let by_ratio = subject == ComparedQuantity::Jitter && tenth > 0.0 && least > 0.0 && high / least > 25.0;
    let begin = (least / 30.0).min(tenth / 1.2);
    let x = match by_ratio {
        true => Axis::log(format!("{}, log scale", subject.quantity()), AxisUnit::Time, begin, high * 1.2),
        false => Axis::linear(subject.quantity(), AxisUnit::Time, low, high + (high - low) * 0.02),
    };
    let mut notes: Vec<String> = first_runs_only(runs.len()).into_iter().collect();
    notes.push("The axis ends at the largest 99th percentile; the rest of each run lies beyond.".into());
    if by_ratio {
        notes.push("Less than a tenth of any run lies before the axis.".into());
    }
    notes.extend(subject.position(runs));
    if !drawn_exactly {
        notes.push(
            "Curves of runs without stored packets connect the edges of the summary's histogram.".into(),
        );
    }
    let series = curves.into_iter().take(MAX_CURVES).zip(0u8..).map(|((name, d, points), k)| {
        let name = format!("{name} (n = {})", group_thousands(&d.n.to_string()));
        // Draw steps on a logarithmic axis: straight lines over wide bins would become curves and suggest too
        // much precision.
        let mark = if by_ratio { Mark::Step { points } } else { Mark::Line { points, dashed: false } };
        MarkSeries::new(name, Tone::Run(k), mark)
    });
    Some(Figure {
        id: format!("compare-{}-cdf", subject.id()),
        title: format!("{}, cumulative distributions", subject.title()),
        subtitle: format!("{} runs", runs.len()),
        measured: String::new(),
        about: "Curves further left are faster; steeper curves are steadier. Curves that cross are better in one \
                part and worse in another: look at the percentile you need."
            .into(),
        x,
        y: Axis::linear("cumulative share of packets", AxisUnit::Share, 0.0, 1.0),
        right: None,
        series: series.collect(),
        overflow: None,
        notes,
    })
}

/// Returns a note if there are more `runs` than can be drawn; otherwise `None`.
fn first_runs_only(runs: usize) -> Option<String> {
    (runs > MAX_CURVES).then(|| format!("The first {MAX_CURVES} of {runs} runs are drawn."))
}

/// Cumulative distributions of signed IPDV in one plot; `None` if the packets of fewer than two runs are available.
pub fn ipdv_cdfs(runs: &[ComparedRun<'_>]) -> Option<Figure> {
    ipdv_graph(runs).filter(|figure| figure.series.len() > 1)
}

/// Cumulative distributions of signed IPDV of one or more runs; `None` if the packets of none are available.
pub fn ipdv_graph(runs: &[ComparedRun<'_>]) -> Option<Figure> {
    let known = runs.iter().filter_map(|r| r.ipdv.map(|(figures, sample)| (r.name, figures, sample)));
    let known: Vec<(&str, &Ipdv, &Sample)> = known.filter(|(.., sample)| !sample.is_empty()).collect();
    if known.is_empty() {
        return None;
    }
    // The tails of one run may be thousands of times wider than the bulk of another. The axis shows the bulk; the height at
    // which a curve leaves it shows the tails.
    let tail = |sample: &Sample| {
        [500, 99_500].into_iter().filter_map(|p| sample.edf(Percent(p))).map(i64::unsigned_abs).max()
    };
    let bulk =
        |figures: &Ipdv| figures.iqr.map(|iqr| iqr.unsigned_abs().saturating_mul(3)).filter(|b| *b > 0);
    let reach =
        |(_, figures, sample): &(&str, &Ipdv, &Sample)| bulk(figures).min(tail(sample)).or(tail(sample));
    let reach = known.iter().filter_map(reach).max().filter(|r| *r > 0).unwrap_or(500) as f64;
    let curve = |((name, figures, sample), k): (&(&str, &Ipdv, &Sample), u8)| {
        let name = format!("{name} (n = {})", group_thousands(&figures.n.to_string()));
        Some(MarkSeries::new(name, Tone::Run(k), Mark::Line { points: exact(sample, 0)?, dashed: false }))
    };
    let numbers = |(name, figures, _): &(&str, &Ipdv, &Sample)| {
        let shown = |v: Option<f64>| v.map_or_else(|| "–".to_owned(), |v| value_label(AxisUnit::Time, v));
        format!(
            "{name}: mean {}, std dev {}, IQR {}.",
            shown(figures.mean),
            shown(figures.stddev),
            shown(figures.iqr.map(|v| v as f64))
        )
    };
    let beyond =
        "The axis ends at three interquartile ranges of the most variable run from 0, or where 0.5 % of it lie \
         beyond; the rest of each run is outside the axis."
            .to_owned();
    Some(Figure {
        id: "compare-ipdv-cdf".into(),
        title: "IPDV, cumulative distributions".into(),
        subtitle: match &known[..] {
            [(_, figures, _)] => format!("n = {} pairs of packets", group_thousands(&figures.n.to_string())),
            several => format!("{} runs", several.len()),
        },
        measured: String::new(),
        about:
            "Difference in delay between consecutive packets. The steeper a curve at 0, the steadier the run; \
             long arms on either side are rare, large jumps."
                .into(),
        x: Axis::linear("delay − delay of the previous packet", AxisUnit::Time, -reach, reach),
        y: Axis::linear("cumulative share of pairs", AxisUnit::Share, 0.0, 1.0),
        right: None,
        series: known.iter().take(MAX_CURVES).zip(0u8..).filter_map(curve).collect(),
        overflow: None,
        notes: first_runs_only(runs.len())
            .into_iter()
            .chain([beyond])
            .chain(known.iter().map(numbers))
            .collect(),
    })
}

/// True if latencies are close enough for a common axis. Latencies of unsynchronised clocks may be far apart, which
/// would make the figure unreadable.
fn comparable(all: &[&Distribution]) -> bool {
    let low = all.iter().filter_map(|d| d.min).min().unwrap_or(0);
    let high = all.iter().filter_map(|d| d.percentiles.at(Percent(99_000))).max().unwrap_or(0);
    let width = |d: &&Distribution| Some(d.percentiles.at(Percent(99_000))? as f64 - d.min? as f64);
    let widest = all.iter().filter_map(width).fold(0.0, f64::max);
    (high as f64 - low as f64) <= 50.0 * widest.max(1.0)
}

/// Returns the empirical distribution at closely spaced points, so that steps are invisible: every packet of a short
/// run, or equal shares of the packets of a long run, finer towards the end. `None` without packets.
fn exact(sample: &Sample, correction: i64) -> Option<Vec<(f64, f64)>> {
    const PLACES: usize = 400;
    const TAIL: usize = 100;
    let n = sample.len();
    let at = |k: usize| Some((sample.at(k)?.saturating_sub(correction) as f64, (k + 1) as f64 / n as f64));
    let mut places: Vec<usize> = if n <= PLACES {
        (0..n).collect()
    } else {
        let body = (0..PLACES).map(|i| (i as u128 * n as u128 / PLACES as u128) as usize);
        // Use finer steps for the last fiftieth, the tail.
        let tail = (0..TAIL).map(|i| n - 1 - i * (n / 50).div_ceil(TAIL));
        body.chain(tail).collect()
    };
    places.sort_unstable();
    places.dedup();
    let first = sample.min()?.saturating_sub(correction) as f64;
    Some(std::iter::once((first, 0.0)).chain(places.into_iter().filter_map(at)).collect())
}

/// Returns the cumulative distribution of a summary, from the edges of its histogram and its highest percentiles;
/// `None` without a histogram.
fn cumulative(d: &Distribution) -> Option<Vec<(f64, f64)>> {
    let h = d.histogram.as_ref()?;
    let mut sum = 0;
    let mut points = vec![(h.lo as f64, 0.0)];
    for (k, count) in h.counts.iter().enumerate() {
        sum = u64::saturating_add(sum, *count);
        points.push((h.lo as f64 + h.binsize as f64 * (k + 1) as f64, sum as f64 / d.n as f64));
    }
    // The last bin may be only partly below the limit: end the curve at the limit, with its share.
    if let Some(last) = points.last_mut() {
        last.0 = last.0.min((h.hi as f64).max(h.lo as f64 + 1.0));
    }
    let tail =
        d.percentiles.0.iter().filter_map(|(p, v)| Some((v.as_ref().copied()? as f64, f64::from(p.0) / 1e5)));
    let (x, y) = *points.last()?;
    points.extend(tail.filter(|t| t.0 > x && t.1 > y));
    Some(points)
}

/// Draws minimum, median, 90th and 99th percentile and maximum of each run, in rows. `None` if fewer than two runs have
/// these values, or if their latencies are too far apart.
pub fn spreads(subject: ComparedQuantity, runs: &[ComparedRun<'_>]) -> Option<Figure> {
    let row = |name: &str, d: &Distribution| {
        let p = |milli: u32| d.percentiles.at(Percent(milli)).map(|v| v as f64);
        let at = [d.min? as f64, d.median?, p(90_000)?, p(99_000)?, d.max? as f64];
        Some(SpreadRow { name: name.to_owned(), n: d.n, at })
    };
    let rows: Vec<SpreadRow> = runs.iter().filter_map(|r| row(r.name, &subject.of(r))).collect();
    if rows.len() < 2 {
        return None;
    }
    let all: Vec<_> = runs.iter().map(|r| subject.of(r)).collect();
    if subject == ComparedQuantity::Latency && !comparable(&all.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    {
        return None;
    }
    let low = rows.iter().map(|r| r.at[0]).fold(f64::INFINITY, f64::min);
    let high = rows.iter().map(|r| r.at[4]).fold(f64::NEG_INFINITY, f64::max);
    let numbers = |r: &SpreadRow| {
        let [_, median, _, p99, max] = r.at.map(|v| value_label(AxisUnit::Time, v));
        format!(
            "{}: median {median}, 99 % {p99}, maximum {max}, n = {}.",
            r.name,
            group_thousands(&r.n.to_string())
        )
    };
    Some(Figure {
        id: format!("compare-{}", subject.id()),
        title: format!("{}, runs side by side", subject.title()),
        subtitle: format!(
            "{} runs, n = {} packets · box: minimum to 90th percentile, bar: median, ticks: 99th percentile, maximum",
            rows.len(),
            group_thousands(&rows.iter().map(|row| row.n).sum::<u64>().to_string())
        ),
        measured: String::new(),
        about:
            "Spread of each run's packets. Compare boxes for most packets, and ticks for the slowest ones."
                .into(),
        x: Axis::linear(subject.quantity(), AxisUnit::Time, low, high + (high - low) * 0.02),
        y: Axis::linear("", AxisUnit::Plain, 0.0, 1.0),
        right: None,
        notes: rows.iter().map(numbers).chain(subject.position(runs)).collect(),
        series: vec![MarkSeries::new("", Tone::Data, Mark::Spread { rows })],
        overflow: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::metrics::ipdv::of_steps;

    #[test]
    fn ipdv_is_drawn_about_zero_where_packets_are_known() {
        let (figures, steps) = of_steps((-50..=50).map(|k| k * 1000).collect(), 100);
        let distribution = Distribution::default();
        let run = |name, ipdv| ComparedRun {
            name,
            latency: &distribution,
            pdv: &distribution,
            samples: None,
            ipdv,
            correction: None,
            raw_clocks: false,
        };
        let known = Some((&figures, &steps));
        let figure = ipdv_cdfs(&[run("a", known), run("b", known), run("summary", None)]).unwrap();
        assert_eq!((figure.series.len(), figure.x.lo, figure.x.hi), (2, -50_000.0, 50_000.0));
        assert!(figure.notes[1].starts_with("a: mean 0 ns"), "{:?}", figure.notes);
        assert_eq!(ipdv_cdfs(&[run("a", known), run("summary", None)]), None);
    }

    #[test]
    fn the_exact_curve_of_any_number_of_packets_rises_to_its_end() {
        for n in [0usize, 1, 2, 3, 99, 400, 401, 402, 4_999, 5_000, 5_001, 123_457] {
            let sample = Sample::new((0..n as i64).map(|i| i * 7919 % 10_007));
            let Some(points) = exact(&sample, 0) else {
                assert_eq!(n, 0);
                continue;
            };
            assert!(points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 < w[1].1), "n = {n}");
            assert_eq!(points.last().map(|p| p.1), Some(1.0), "n = {n}");
            assert!(points.len() <= 502, "n = {n}: {} points", points.len());
        }
    }
}
