//! [`Scalar`]: a number in a summary, with its name, its meaning, and a function that reads it.
//! [`SCALARS`](super::SCALARS) lists all scalars.

use super::{ExactNumber, ScalarSource, ScalarUnit};

use crate::distribution::percentile::Percent;
use crate::summary::Summary;

/// A number in a summary, with its name, its meaning, and a function that reads it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Scalar {
    /// Stable name in kebab case, as in thresholds, columns and queries: `pdv-p99`.
    pub key: &'static str,
    /// Name in tables, at most 22 characters.
    pub label: &'static str,
    /// Definition, without a full stop.
    pub about: &'static str,
    /// Clause of the standard that defines the scalar; empty for definitions of this program.
    pub source: &'static str,
    /// Unit of the values.
    pub unit: ScalarUnit,
    /// Direction in which values are better.
    pub better: Better,
    /// Kinds of measurement that have the scalar.
    pub applies: Applies,
    /// True if short tables (comparisons, phases, sweeps) include the scalar.
    pub headline: bool,
    /// Older or shorter name that thresholds accept too; `None` if there is none.
    pub alias: Option<&'static str>,
    /// Name in OpenMetrics, without prefix and unit, if it differs from the key.
    pub openmetrics: Option<&'static str>,
    /// Percentile that this scalar represents; `None` if it is not a percentile of a distribution. OpenMetrics writes
    /// all percentiles of a distribution together.
    pub quantile: Option<Quantile>,
    take: ScalarGetter,
}

/// A percentile of a distribution.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Quantile {
    /// Name of the distribution.
    pub family: &'static str,
    /// Subject of the distribution, without a full stop.
    pub about: &'static str,
    /// Percentile, in percent.
    pub percent: Percent,
    /// Returns the number of values in the distribution.
    pub count: fn(&ScalarSource<'_>) -> u64,
}

/// Direction in which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower values are better.
    Lower,
    /// Higher values are better.
    Higher,
    /// Neither: the figure says nothing about quality.
    Neither,
}

/// Kinds of measurement that have a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applies {
    /// True for one-way tests.
    pub one_way: bool,
    /// True for round-trip tests as a whole.
    pub round_trips: bool,
    /// True for each direction of a round-trip test.
    pub directions: bool,
    /// True for captured packets of other programs.
    pub passive: bool,
}

impl Applies {
    /// All streams of packets.
    pub const STREAMS: Applies =
        Applies { one_way: true, round_trips: true, directions: true, passive: true };
    /// Whole streams, but not one direction of a round-trip test.
    pub const WHOLE: Applies = Applies { directions: false, ..Applies::STREAMS };
    /// Whole tests that this program sent.
    pub const TESTS: Applies = Applies { passive: false, ..Applies::WHOLE };
    /// Delays between two clocks, but not round trips.
    pub const TWO_CLOCKS: Applies = Applies { round_trips: false, ..Applies::STREAMS };
    /// Round-trip tests as a whole only.
    pub const ROUND_TRIPS: Applies =
        Applies { one_way: false, round_trips: true, directions: false, passive: false };
}

/// Function that reads a scalar from a summary or from one direction of a round-trip test. It returns `None` if the
/// scalar is undefined.
#[derive(Clone, Copy, Debug)]
pub enum ScalarGetter {
    /// A count.
    Count(fn(&ScalarSource<'_>) -> Option<u64>),
    /// An integer, usually in nanoseconds.
    Whole(fn(&ScalarSource<'_>) -> Option<i64>),
    /// Any number.
    Real(fn(&ScalarSource<'_>) -> Option<f64>),
    /// A value in [`Summary::figures`], by its key, because the metric has no field of its own.
    Computed,
}

impl Scalar {
    /// Creates a scalar that applies to all streams and whose values are neither better when higher nor when lower.
    pub const fn new(key: &'static str, label: &'static str, unit: ScalarUnit, take: ScalarGetter) -> Scalar {
        Scalar {
            key,
            label,
            about: "",
            source: "",
            unit,
            better: Better::Neither,
            applies: Applies::STREAMS,
            headline: false,
            alias: None,
            openmetrics: None,
            quantile: None,
            take,
        }
    }

    /// Sets the definition.
    pub const fn about(self, about: &'static str) -> Scalar {
        Scalar { about, ..self }
    }

    /// Sets the clause of the standard that defines the scalar.
    pub const fn source(self, source: &'static str) -> Scalar {
        Scalar { source, ..self }
    }

    /// Marks lower values as better.
    pub const fn lower_is_better(self) -> Scalar {
        Scalar { better: Better::Lower, ..self }
    }

    /// Marks higher values as better.
    pub const fn higher_is_better(self) -> Scalar {
        Scalar { better: Better::Higher, ..self }
    }

    /// Restricts the scalar to some kinds of measurement.
    pub const fn only(self, applies: Applies) -> Scalar {
        Scalar { applies, ..self }
    }

    /// Includes the scalar in short tables.
    pub const fn headline(self) -> Scalar {
        Scalar { headline: true, ..self }
    }

    /// Sets another name that thresholds accept.
    pub const fn alias(self, alias: &'static str) -> Scalar {
        Scalar { alias: Some(alias), ..self }
    }

    /// Sets the name in OpenMetrics, without prefix and unit.
    pub const fn openmetrics(self, name: &'static str) -> Scalar {
        Scalar { openmetrics: Some(name), ..self }
    }

    /// Marks the scalar as a percentile of the distribution `family`. `about` is the subject of the distribution,
    /// `count` returns its number of values.
    pub const fn quantile(
        self,
        family: &'static str,
        about: &'static str,
        percent: Percent,
        count: fn(&ScalarSource<'_>) -> u64,
    ) -> Scalar {
        Scalar { quantile: Some(Quantile { family, about, percent, count }), ..self }
    }

    /// Returns true if the metric has no field of its own in the summary. Reports list these scalars under further
    /// figures.
    pub const fn is_computed(&self) -> bool {
        matches!(self.take, ScalarGetter::Computed)
    }

    /// Returns the value in the whole `summary`; `None` if it is undefined.
    pub fn of(&self, summary: &Summary) -> Option<ExactNumber> {
        self.from(&ScalarSource::Test(summary))
    }

    /// Returns the value in a summary or in one direction of a round-trip test; `None` if it is undefined.
    pub fn from(&self, source: &ScalarSource<'_>) -> Option<ExactNumber> {
        let value = match self.take {
            ScalarGetter::Count(take) => take(source).map(ExactNumber::from),
            ScalarGetter::Whole(take) => take(source).map(ExactNumber::from),
            ScalarGetter::Real(take) => take(source).map(ExactNumber::from),
            ScalarGetter::Computed => source.computed(self.key).map(ExactNumber::from),
        };
        value.filter(|x| x.as_f64().is_finite())
    }

    /// Formats a value for people: `1.615 s`, `0.25 %`, `4.21`.
    pub fn show(&self, value: ExactNumber) -> String {
        self.unit.show(value)
    }

    /// Returns the column name: the key with underscores and the unit, `pdv_p99_ns`.
    pub fn column(&self) -> String {
        named_with_unit(self.key, self.unit.column_suffix())
    }

    /// Returns the name in OpenMetrics, which uses base units: `jitlat_clock_error_seconds`.
    pub fn metric_name(&self) -> String {
        let base = self.openmetrics.unwrap_or(self.key);
        format!("jitlat_{}", named_with_unit(base, self.unit.base_suffix()))
    }
}

fn named_with_unit(key: &str, suffix: &str) -> String {
    let name = key.replace(['-', '.'], "_");
    if suffix.is_empty() || name.ends_with(&format!("_{suffix}")) { name } else { format!("{name}_{suffix}") }
}
