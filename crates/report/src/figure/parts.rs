//! [`Figure`] and what it is made of.

use super::axis::Axis;
use super::density::Density;
use serde::{Serialize, Serializer};

/// A figure, ready to be drawn. All coordinates are in base units: nanoseconds, counts, shares of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// A stable short name: the file's stem, the anchor in a report.
    pub id: String,
    /// What is shown.
    pub title: String,
    /// The number of packets behind it and what fixes its resolution, in one line.
    pub subtitle: String,
    /// How to read it and what decision it supports, in one or two sentences.
    pub about: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis on the left.
    pub y: Axis,
    /// A second vertical axis on the right, e.g. the cumulative share beside a histogram.
    pub right: Option<Axis>,
    /// What is drawn, from back to front.
    pub series: Vec<Series>,
    /// What a histogram leaves out beyond its last bin.
    pub overflow: Option<Overflow>,
    /// What a reader must know to not be misled, printed below the plot.
    pub notes: Vec<String>,
}

/// Packets beyond the end of the horizontal axis, shown as a bar of their own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overflow {
    /// How many.
    pub count: u64,
    /// The largest of them, formatted.
    pub until: String,
}

/// One set of marks of one meaning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend; empty keeps it out.
    pub name: String,
    /// Its colour's meaning.
    pub tone: Tone,
    /// Whether it is measured on the right-hand axis.
    pub on_right: bool,
    /// The marks.
    pub mark: Mark,
}

impl Series {
    /// Marks measured on the left-hand axis.
    pub fn new(name: impl Into<String>, tone: Tone, mark: Mark) -> Series {
        Series { name: name.into(), tone, on_right: false, mark }
    }

    /// The same marks measured on the right-hand axis.
    pub fn on_right(self) -> Series {
        Series { on_right: true, ..self }
    }
}

/// What a colour stands for. Renderers map tones to the Okabe–Ito palette, which stays apart for
/// colour-blind readers; no figure relies on colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// The measured thing itself.
    Data,
    /// A cumulative view of it.
    Cumulative,
    /// A straight line fitted through it.
    Fit,
    /// A bound of it: the hull, the minimum.
    Bound,
    /// Loss, lateness, harm.
    Harm,
    /// The k-th of several runs.
    Run(u8),
}

/// The ways to show data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Mark {
    /// Adjoining bars of equal width from `start` on: a histogram.
    Bars {
        /// Left edge of the first bar.
        start: f64,
        /// Width of a bar.
        width: f64,
        /// One height a bar.
        #[serde(serialize_with = "compact")]
        heights: Vec<f64>,
    },
    /// Separate bars at whole numbers: counts of lengths, distances.
    Stems {
        /// Position and height of each.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
    },
    /// Points joined by straight lines.
    Line {
        /// In drawing order.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
        /// Drawn dashed, so that it is told apart in black and white.
        dashed: bool,
    },
    /// A staircase: each height holds until the next point.
    Step {
        /// Ascending in x.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
    },
    /// Single points.
    Points {
        /// In any order.
        #[serde(serialize_with = "compact_pairs")]
        points: Vec<(f64, f64)>,
    },
    /// Points too many to draw singly, counted in cells.
    Density(Density),
    /// Marks along the lower edge, as high as the share of their stretch that was lost, the worst highest.
    Rug {
        /// Left edge, right edge and share in (0, 1] of each stretch.
        stretches: Vec<(f64, f64, f64)>,
    },
    /// A labelled line across the plot at one place: a limit, a choice.
    Rule {
        /// Its place on the horizontal axis.
        at: f64,
        /// What it says.
        label: String,
    },
    /// Boxes: the spread of several runs side by side, one above the other.
    Spread {
        /// One row a run, from the top.
        rows: Vec<SpreadRow>,
    },
    /// Dots with upright error bars.
    Bounds {
        /// Ascending in place.
        points: Vec<Bound>,
    },
    /// Dots with lying error bars, one above the other.
    Means {
        /// One row a mean, from the top.
        rows: Vec<MeanRow>,
    },
}

/// A value at a place, and what it lies between.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Its place on the horizontal axis.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A mean with its interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanRow {
    /// Of what.
    pub name: String,
    /// The mean.
    pub value: f64,
    /// Where it lies, if that is known.
    pub interval: Option<[f64; 2]>,
}

/// Five order statistics of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpreadRow {
    /// The run's name.
    pub name: String,
    /// Its packets.
    pub n: u64,
    /// Minimum, median, 90th, 99th percentile and maximum.
    pub at: [f64; 5],
}

/// Whole numbers without a decimal point: half the size of a report.
pub(super) fn number(v: f64) -> serde_json::Number {
    if v.fract() == 0.0 && v.abs() < 9e15 {
        return (v as i64).into();
    }
    // Ten significant digits are finer than any screen.
    let short: f64 = format!("{v:.9e}").parse().unwrap_or(v);
    serde_json::Number::from_f64(short).unwrap_or_else(|| 0.into())
}

pub(super) fn compact<S: Serializer>(values: &[f64], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(values.iter().map(|v| number(*v)))
}

pub(super) fn compact_pairs<S: Serializer>(points: &[(f64, f64)], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(points.iter().map(|(x, y)| (number(*x), number(*y))))
}

impl Figure {
    /// Names and marks of what a legend has to explain.
    pub fn legend(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|s| !s.name.is_empty())
    }
}
