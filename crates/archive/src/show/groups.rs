//! Groups of tests that were analysed again.

use super::{FigureDocument, cell, shown, table, time};
use crate::{ArchiveError, ListedTest, PoolPeriod, Zone};
use core::str::FromStr;
use jitlat_core::pool::{self, Pool};
use jitlat_core::printable::printable;
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarCondition};
use serde::Serialize;
use std::collections::BTreeMap;

/// Formats the figures of groups of tests.
pub fn text(groups: &BTreeMap<Vec<String>, Pool>, figures: &[&Scalar]) -> String {
    let keys = groups.keys().map(Vec::len).max().unwrap_or(0);
    let heading = vec![String::new(); keys].into_iter().chain(["tests".to_owned()]);
    let mut rows: Vec<Vec<String>> = vec![heading.chain(figures.iter().map(|f| f.key.to_owned())).collect()];
    for (key, pool) in groups {
        let values = figures.iter().map(|f| shown(f, pool.scalar(f)));
        rows.push(key.iter().cloned().chain([pool.tests.to_string()]).chain(values).collect());
    }
    if groups.is_empty() { "no matching tests\n".to_owned() } else { table(&rows, keys) }
}

/// Returns the figures that groups have.
fn pooled() -> impl Iterator<Item = &'static Scalar> {
    SCALARS.iter().filter(|figure| pool::has(figure))
}

/// Formats all figures of groups of tests, grouped by `by`, as CSV.
pub fn csv(by: &[GroupKey], groups: &BTreeMap<Vec<String>, Pool>) -> String {
    let keys = by.iter().map(|key| key.name().to_owned());
    let columns = pooled().map(|figure| figure.column().to_owned());
    let mut rows = vec![keys.chain(["tests".to_owned()]).chain(columns).collect::<Vec<String>>()];
    for (key, pool) in groups {
        let values = pooled().map(|figure| cell(pool.scalar(figure)));
        rows.push(key.iter().cloned().chain([pool.tests.to_string()]).chain(values).collect());
    }
    super::csv(&rows)
}

/// Property by which tests are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The hosts, the protocol, and the direction.
    Path,
    /// The period in which the tests started.
    Time(PoolPeriod),
}

impl FromStr for GroupKey {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<GroupKey, ArchiveError> {
        if text == "path" { Ok(GroupKey::Path) } else { text.parse().map(GroupKey::Time) }
    }
}

impl GroupKey {
    /// Returns the name as used in options.
    pub fn name(self) -> &'static str {
        match self {
            GroupKey::Path => "path",
            GroupKey::Time(by) => by.name(),
        }
    }

    /// Returns the value of the property for a test. Periods are those of `zone`, and have the name of their start.
    pub fn of(self, test: &ListedTest, zone: &Zone) -> String {
        match self {
            GroupKey::Path => format!("{} > {} {} {}", test.src, test.dst, test.protocol, test.direction),
            GroupKey::Time(PoolPeriod::All) => "all".to_owned(),
            GroupKey::Time(PoolPeriod::Test) => test.id.clone(),
            GroupKey::Time(period) => time(zone.around(period, test.started_ns).0, period, zone),
        }
    }
}

/// Describes the groups that violate `condition`.
pub fn violations(condition: &ScalarCondition, groups: &BTreeMap<Vec<String>, Pool>) -> Vec<String> {
    let Some(figure) = condition.selector().map(|selector| selector.scalar) else { return Vec::new() };
    let violated = |(group, pool): (&Vec<String>, &Pool)| {
        let violation = condition.violated_by(ExactNumber::Real(pool.scalar(figure)?))?;
        Some(format!("{}: {violation}", printable(&group.join(", "))))
    };
    groups.iter().filter_map(violated).collect()
}

/// JSON written by `analyze --dataset --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetDocument {
    /// Properties by which tests are grouped, as given in `--by`.
    by: Vec<String>,
    /// Figures of each group.
    figures: Vec<FigureDocument>,
    /// Groups, sorted by the values of their properties.
    groups: Vec<GroupDocument>,
    /// Number of tests that could not be read. They are not in any group.
    failed: usize,
}

/// A group, with the figures of all packets of its tests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct GroupDocument {
    /// Values of the properties that the tests of the group share, in the order of `by`.
    group: Vec<String>,
    /// Number of tests of the group.
    tests: u64,
    /// Figures of all packets by key, in ns or as a ratio; null if undefined.
    figures: BTreeMap<&'static str, Option<f64>>,
}

impl DatasetDocument {
    /// Creates the document from `groups`, which are grouped by `by`. `failed` is the number of tests that could not be
    /// read.
    pub fn new(by: &[GroupKey], groups: &BTreeMap<Vec<String>, Pool>, failed: usize) -> DatasetDocument {
        let figures = |pool: &Pool| pooled().map(|f| (f.key, pool.scalar(f))).collect();
        let group = |(key, pool): (&Vec<String>, &Pool)| GroupDocument {
            group: key.clone(),
            tests: pool.tests,
            figures: figures(pool),
        };
        DatasetDocument {
            by: by.iter().map(|key| key.name().to_owned()).collect(),
            figures: FigureDocument::of(&pooled().collect::<Vec<_>>()),
            groups: groups.iter().map(group).collect(),
            failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_period_of_the_zone() {
        // 2025-11-23 12:13:20 UTC.
        let test = ListedTest {
            id: "1".to_owned(),
            started_ns: 1_763_900_000_000_000_000,
            name: None,
            source: String::new(),
            src: "a".to_owned(),
            dst: "b".to_owned(),
            protocol: "udp".to_owned(),
            direction: "up".to_owned(),
            packets: 0,
            log_bytes: 0,
            has_packets: true,
            severity: "good".to_owned(),
            headline: String::new(),
            tags: BTreeMap::new(),
            figures: BTreeMap::new(),
        };
        let of = |key: &str, zone: &str| {
            key.parse::<GroupKey>().unwrap().of(&test, &zone.parse::<Zone>().unwrap())
        };
        assert_eq!(of("hour", "UTC"), "2025-11-23 12:00");
        assert_eq!(of("hour", "+05:30"), "2025-11-23 17:00");
        assert_eq!(
            (of("day", "+12:00"), of("day", "UTC")),
            ("2025-11-24".to_owned(), "2025-11-23".to_owned())
        );
        assert_eq!((of("path", "UTC"), of("all", "UTC")), ("a > b udp up".to_owned(), "all".to_owned()));
    }
}
