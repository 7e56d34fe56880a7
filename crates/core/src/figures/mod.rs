//! [`FIGURES`]: every scalar of a [`Summary`], once. Whatever lists scalars – CSV, OpenMetrics, thresholds, tables
//! of comparisons, sweeps and pages, help – reads this list.
//!
//! The entries stand beside their computation, in the files of [`crate::metrics`]; a [`Selector`] is what a user
//! writes: a figure's key, of a whole test or of one way of a round-trip test.
//!
//! ```
//! use jitlat_core::figures::{FIGURES, Selector};
//! use jitlat_core::{PacketRecord, Session, TestSpec, WallTime, analyze};
//!
//! let session = Session::new(TestSpec::default());
//! let records = (0..3).map(|i| PacketRecord::one_way(i, WallTime(i * 1000), WallTime(i * 1000 + 42)));
//! let summary = analyze(&session, records, &Default::default());
//! let selector: Selector = "latency-max".parse()?;
//! assert_eq!(selector.of(&summary).map(|x| x.as_f64()), Some(42.0));
//! let known = FIGURES.iter().filter(|figure| figure.of(&summary).is_some());
//! known.for_each(|figure| println!("{} = {}", figure.label, figure.show(figure.of(&summary).unwrap())));
//! # Ok::<(), jitlat_core::figures::UnknownFigure>(())
//! ```

mod condition;
mod selector;
mod source;
mod unit;

pub use condition::{Condition, ConditionError};
pub use selector::{Selector, UnknownFigure, closest, selectors};
pub use source::FigureSource;
pub use unit::{Number, Unit};

use crate::distribution::percentile::Percent;
use crate::metrics::METRICS;
use crate::summary::Summary;

/// One scalar: what it is called, what it means, and where it stands in a summary.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Figure {
    /// Stable name in kebab case, as thresholds, columns and queries write it: `pdv-p99`.
    pub key: &'static str,
    /// What tables call it, in at most 22 characters.
    pub label: &'static str,
    /// Its definition, without a full stop.
    pub about: &'static str,
    /// The clause of the standard it follows; empty for definitions of this program.
    pub source: &'static str,
    /// In what it is counted, and how it is written.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// What has it at all.
    pub applies: Applies,
    /// Stands in short tables: comparisons, phases, sweeps.
    pub headline: bool,
    /// An older name that thresholds keep accepting.
    pub alias: Option<&'static str>,
    /// What OpenMetrics calls it, without prefix and unit, where that is not the key.
    pub openmetrics: Option<&'static str>,
    /// It is a percentile of a distribution: OpenMetrics writes the percentiles of one together.
    pub quantile: Option<Quantile>,
    take: Take,
}

/// One of the percentiles of a distribution.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Quantile {
    /// What the distribution is called.
    pub family: &'static str,
    /// What is distributed, without a full stop.
    pub about: &'static str,
    /// Which percentile.
    pub percent: Percent,
    /// How many values there are.
    pub count: fn(&FigureSource<'_>) -> u64,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
    /// Neither: a fact, not a quality.
    Neither,
}

/// What kinds of measurement have a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applies {
    /// One-way tests.
    pub one_way: bool,
    /// Round-trip tests as a whole.
    pub round_trips: bool,
    /// One way of a round-trip test.
    pub ways: bool,
    /// Other people's packets seen by captures.
    pub passive: bool,
}

impl Applies {
    /// Every stream of packets.
    pub const STREAMS: Applies = Applies { one_way: true, round_trips: true, ways: true, passive: true };
    /// Streams known as a whole: not one way of a round-trip test.
    pub const WHOLE: Applies = Applies { ways: false, ..Applies::STREAMS };
    /// Tests this program sends itself, as a whole.
    pub const TESTS: Applies = Applies { passive: false, ..Applies::WHOLE };
    /// Delays between two clocks: not round trips.
    pub const TWO_CLOCKS: Applies = Applies { round_trips: false, ..Applies::STREAMS };
    /// Round-trip tests only, as a whole.
    pub const ROUND_TRIPS: Applies =
        Applies { one_way: false, round_trips: true, ways: false, passive: false };
}

/// How a figure is found in a summary or in one way of a round-trip test. `None` where it is undefined there.
#[derive(Clone, Copy, Debug)]
pub enum Take {
    /// A count.
    Count(fn(&FigureSource<'_>) -> Option<u64>),
    /// A whole number, mostly of nanoseconds.
    Whole(fn(&FigureSource<'_>) -> Option<i64>),
    /// Any number.
    Real(fn(&FigureSource<'_>) -> Option<f64>),
    /// By its key among [`Summary::figures`]: the metric has no field of its own.
    Computed,
}

impl Figure {
    /// A figure of every stream, neither good nor bad.
    pub const fn new(key: &'static str, label: &'static str, unit: Unit, take: Take) -> Figure {
        Figure {
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

    /// With its definition.
    pub const fn about(self, about: &'static str) -> Figure {
        Figure { about, ..self }
    }

    /// With the clause it follows.
    pub const fn source(self, source: &'static str) -> Figure {
        Figure { source, ..self }
    }

    /// Less is better.
    pub const fn lower_is_better(self) -> Figure {
        Figure { better: Better::Lower, ..self }
    }

    /// More is better.
    pub const fn higher_is_better(self) -> Figure {
        Figure { better: Better::Higher, ..self }
    }

    /// Of these kinds of measurement only.
    pub const fn only(self, applies: Applies) -> Figure {
        Figure { applies, ..self }
    }

    /// Shown in short tables too.
    pub const fn headline(self) -> Figure {
        Figure { headline: true, ..self }
    }

    /// With an older name.
    pub const fn alias(self, alias: &'static str) -> Figure {
        Figure { alias: Some(alias), ..self }
    }

    /// With another name in OpenMetrics, without prefix and unit.
    pub const fn openmetrics(self, name: &'static str) -> Figure {
        Figure { openmetrics: Some(name), ..self }
    }

    /// As a percentile of the distribution called `family`, of `about`, of so many values.
    pub const fn quantile(
        self,
        family: &'static str,
        about: &'static str,
        percent: Percent,
        count: fn(&FigureSource<'_>) -> u64,
    ) -> Figure {
        Figure { quantile: Some(Quantile { family, about, percent, count }), ..self }
    }

    /// Whether its metric has no field of its own in the summary: reports list it under further figures.
    pub const fn is_computed(&self) -> bool {
        matches!(self.take, Take::Computed)
    }

    /// The figure called `key`, by its present or its older name.
    pub fn named(key: &str) -> Option<&'static Figure> {
        FIGURES.iter().find(|f| f.key == key || f.alias == Some(key))
    }

    /// Its value in `summary` as a whole.
    pub fn of(&self, summary: &Summary) -> Option<Number> {
        self.from(&FigureSource::Test(summary))
    }

    /// Its value in a summary, or in one way of a round-trip test.
    pub fn from(&self, source: &FigureSource<'_>) -> Option<Number> {
        let value = match self.take {
            Take::Count(take) => take(source).map(Number::from),
            Take::Whole(take) => take(source).map(Number::from),
            Take::Real(take) => take(source).map(Number::from),
            Take::Computed => source.computed(self.key).map(Number::from),
        };
        value.filter(|x| x.as_f64().is_finite())
    }

    /// A value of it as people read it: `1.615 s`, `0.25 %`, `4.21`.
    pub fn show(&self, value: Number) -> String {
        self.unit.show(value)
    }

    /// Its column in tables for programs: the key with underscores and the unit, `pdv_p99_ns`.
    pub fn column(&self) -> String {
        named_with_unit(self.key, self.unit.column_suffix())
    }

    /// Its name in OpenMetrics, where units are base units: `jitlat_clock_error_seconds`.
    pub fn metric_name(&self) -> String {
        let base = self.openmetrics.unwrap_or(self.key);
        format!("jitlat_{}", named_with_unit(base, self.unit.base_suffix()))
    }
}

/// The list for help texts: a line a figure, its key and what it is.
pub fn help() -> String {
    let width = FIGURES.iter().map(|f| f.key.len()).max().unwrap_or(0);
    FIGURES.iter().map(|f| format!("  {:<width$}  {}\n", f.key, f.about)).collect()
}

fn named_with_unit(key: &str, suffix: &str) -> String {
    let name = key.replace(['-', '.'], "_");
    if suffix.is_empty() || name.ends_with(&format!("_{suffix}")) { name } else { format!("{name}_{suffix}") }
}

const COUNT: usize = {
    let (mut n, mut k) = (0, 0);
    while k < METRICS.len() {
        n += METRICS[k].figures.len();
        k += 1;
    }
    n
};

/// Every figure, in the order of tables.
pub static FIGURES: [Figure; COUNT] = {
    let mut all = [METRICS[0].figures[0]; COUNT];
    let (mut n, mut k) = (0, 0);
    while k < METRICS.len() {
        let mut j = 0;
        while j < METRICS[k].figures.len() {
            all[n] = METRICS[k].figures[j];
            n += 1;
            j += 1;
        }
        k += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_in_one_style() {
        let mut names = BTreeSet::new();
        let mut columns = BTreeSet::new();
        for f in &FIGURES {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            assert!(f.key.chars().all(plain) && !f.key.starts_with(['-', '.']), "{}", f.key);
            assert!(
                names.insert(f.key) && f.alias.is_none_or(|a| names.insert(a)),
                "{} is there twice",
                f.key
            );
            assert!(columns.insert(f.column()), "{} is there twice", f.column());
            assert!(!f.key.starts_with("up-") && !f.key.starts_with("down-"), "{}", f.key);
            assert!(!f.label.is_empty() && f.label.chars().count() <= 22, "{}: '{}'", f.key, f.label);
            assert!(!f.about.is_empty() && !f.about.ends_with('.'), "{}: '{}'", f.key, f.about);
        }
    }

    #[test]
    fn names_of_columns_and_metrics_end_in_their_unit() {
        let names = |key| Figure::named(key).map(|f| (f.column(), f.metric_name())).unwrap();
        assert_eq!(names("pdv-p99.9"), ("pdv_p99_9_ns".into(), "jitlat_pdv_p99_9_seconds".into()));
        assert_eq!(names("loss"), ("loss_ratio".into(), "jitlat_loss_ratio".into()));
        assert_eq!(names("sent"), ("sent".into(), "jitlat_packets_sent".into()));
        assert_eq!(names("burst-ratio").0, "burst_ratio");
    }
}
