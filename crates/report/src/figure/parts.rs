//! [`Figure`] and its parts.

use super::axis::{Axis, AxisUnit};
use super::density::DensityCells;
use serde::{Serialize, Serializer};

/// A figure, ready to be drawn. All coordinates are in base units: nanoseconds, counts, ratios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Stable short name, used for the file and for the anchor in a report.
    pub id: String,
    /// Title.
    pub title: String,
    /// Number of packets and limits of the resolution, in one line.
    pub subtitle: String,
    /// Hosts and time of the measurement; empty if unknown. A page shows this once, at its beginning.
    #[serde(skip)]
    pub measured: String,
    /// Explanation of the figure and of the decision that it supports, in one or two sentences.
    pub about: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis on the left.
    pub y: Axis,
    /// Second vertical axis on the right, for example for the cumulative share in a histogram; `None` if there is none.
    pub right: Option<Axis>,
    /// Series, from back to front.
    pub series: Vec<MarkSeries>,
    /// Packets beyond the last bin of a histogram; `None` if there are none.
    pub overflow: Option<AxisOverflow>,
    /// Notes that prevent misreading; printed below the plot.
    pub notes: Vec<String>,
}

/// Packets beyond the end of the horizontal axis, shown as a separate bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisOverflow {
    /// Number of packets.
    pub count: u64,
    /// Largest value beyond the axis, formatted.
    pub until: String,
}

/// A set of marks with one meaning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarkSeries {
    /// Name in the legend; empty for a series that is not in the legend.
    pub name: String,
    /// Colour, by meaning.
    pub tone: Tone,
    /// True if the series belongs to the right-hand axis.
    pub on_right: bool,
    /// The marks.
    pub mark: Mark,
}

impl MarkSeries {
    /// Creates marks on the left-hand axis.
    pub fn new(name: impl Into<String>, tone: Tone, mark: Mark) -> MarkSeries {
        MarkSeries { name: name.into(), tone, on_right: false, mark }
    }

    /// Moves the marks to the right-hand axis.
    pub fn on_right(self) -> MarkSeries {
        MarkSeries { on_right: true, ..self }
    }
}

/// Meaning of a colour. Renderers map tones to the Okabe–Ito palette, which colour-blind readers can distinguish; no figure
/// relies on colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// The measured data.
    Data,
    /// Cumulative distribution of the data.
    Cumulative,
    /// A straight line fitted to the data.
    Fit,
    /// A bound of the data: the convex hull, the minimum.
    Bound,
    /// Loss or lateness.
    Harm,
    /// The k-th of several runs.
    Run(u8),
}

/// Kinds of marks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Mark {
    /// Adjacent bars of equal width from `start` on: a histogram.
    Bars {
        /// Left edge of the first bar.
        start: f64,
        /// Width of a bar.
        width: f64,
        /// Height of each bar.
        #[serde(serialize_with = "compact")]
        heights: Vec<f64>,
    },
    /// Separate bars at integers: lengths, distances.
    Stems {
        /// Position and height of each stem.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
    },
    /// Separate bars from zero, with error bars.
    Columns {
        /// Width of a bar.
        width: f64,
        /// Middle of each bar, its height, and the ends of its error bar.
        bars: Vec<Bound>,
    },
    /// Points connected by straight lines.
    Line {
        /// Points in drawing order.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
        /// True if the line is dashed, so that it can be distinguished in black and white; false if it is solid.
        dashed: bool,
    },
    /// A step line: each height extends to the next point.
    Step {
        /// Points, ascending in x.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
    },
    /// Single points.
    Points {
        /// Points, in any order.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
    },
    /// Points that are too many to draw individually, counted in cells.
    Density(DensityCells),
    /// Marks along the lower edge, one per interval. The height of a mark is the share of packets lost in its interval.
    Rug {
        /// Start, end and share in (0, 1] of each interval.
        stretches: Vec<(f64, f64, f64)>,
    },
    /// A shaded part of the horizontal axis, over the whole height, with its label above: a phase.
    Band {
        /// Start on the horizontal axis.
        from: f64,
        /// End on the horizontal axis.
        to: f64,
        /// Label of the band.
        label: String,
    },
    /// A labelled vertical line: a limit, a choice.
    Rule {
        /// Position on the horizontal axis.
        at: f64,
        /// Label of the line.
        label: String,
    },
    /// Boxes: the spread of several runs, in rows.
    Spread {
        /// One row per run, from the top.
        rows: Vec<SpreadRow>,
    },
    /// Dots with vertical error bars.
    Bounds {
        /// Points, ascending in x.
        points: Vec<Bound>,
    },
    /// Dots with horizontal error bars, in rows.
    Means {
        /// One row per mean, from the top.
        rows: Vec<MeanRow>,
    },
    /// Histograms in rows on a common horizontal axis, each as high as its row.
    Histograms {
        /// Left edge of the first bar.
        start: f64,
        /// Width of a bar.
        width: f64,
        /// One row per histogram, from the top.
        rows: Vec<HistogramRow>,
    },
}

impl Mark {
    /// Moves packets by `by` ns to a later time; other marks are unchanged.
    #[must_use]
    pub(super) fn later(self, by: f64) -> Mark {
        match self {
            Mark::Points { points } => {
                Mark::Points { points: points.into_iter().map(|(x, y)| (x + by, y)).collect() }
            }
            Mark::Density(mut density) => {
                density.x0 += by;
                Mark::Density(density)
            }
            other => other,
        }
    }
}

/// The histogram of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistogramRow {
    /// The run's name.
    pub name: String,
    /// Height of each bar.
    #[serde(serialize_with = "compact")]
    pub heights: Vec<f64>,
}

/// A value with its lower and upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Position on the horizontal axis.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// Lower bound of the value.
    pub low: f64,
    /// Upper bound of the value.
    pub high: f64,
}

/// A mean with its confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanRow {
    /// Name of the row.
    pub name: String,
    /// The mean.
    pub value: f64,
    /// Confidence interval; `None` if unknown.
    pub interval: Option<[f64; 2]>,
}

/// Five order statistics of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpreadRow {
    /// The run's name.
    pub name: String,
    /// Number of packets of the run.
    pub n: u64,
    /// Minimum, median, 90th, 99th percentile and maximum.
    pub at: [f64; 5],
}

/// Formats integers without a decimal point, which halves the size of a report.
pub(super) fn number(v: f64) -> serde_json::Number {
    if v.fract() == 0.0 && v.abs() < 9e15 {
        return (v as i64).into();
    }
    // Ten significant digits are more than any screen can show.
    let short: f64 = format!("{v:.9e}").parse().unwrap_or(v);
    serde_json::Number::from_f64(short).unwrap_or_else(|| 0.into())
}

pub(super) fn compact<S: Serializer>(values: &[f64], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(values.iter().map(|v| number(*v)))
}

pub(super) fn compact_pairs<S: Serializer>(points: &[(f64, f64)], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(points.iter().map(|(x, y)| (number(*x), number(*y))))
}

/// Subject of a figure, by which figures are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureView {
    /// Changes over time.
    Time,
    /// Distribution of values.
    Distribution,
    /// Effect of the size of a de-jitter buffer.
    Buffer,
    /// Lengths of loss bursts and duplicates, distances of reordering.
    Loss,
}

impl Figure {
    /// Returns the subject of the figure, recognised by its axis and marks: only lengths and distances are drawn as
    /// stems, and only the share of late packets as a step line in the tone of harm.
    pub fn view(&self) -> FigureView {
        let has = |wanted: fn(&MarkSeries) -> bool| self.series.iter().any(wanted);
        match self.x.unit {
            AxisUnit::Elapsed => FigureView::Time,
            _ if has(|s| matches!(s.mark, Mark::Stems { .. })) => FigureView::Loss,
            _ if has(|s| s.tone == Tone::Harm && matches!(s.mark, Mark::Step { .. })) => FigureView::Buffer,
            _ => FigureView::Distribution,
        }
    }

    /// Series in the legend.
    pub fn legend(&self) -> impl Iterator<Item = &MarkSeries> {
        self.series.iter().filter(|s| !s.name.is_empty())
    }
}
