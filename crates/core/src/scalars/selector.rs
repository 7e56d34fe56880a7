//! [`Selector`]: the name of a scalar in the form that users write.

use super::{ExactNumber, SCALARS, Scalar, ScalarSource};
use crate::spec::Direction;
use crate::summary::Summary;
use core::fmt;
use core::str::FromStr;

/// A scalar of a whole test (`pdv-p99`), or of one direction of a round-trip test (`up-pdv-p99`).
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    /// The scalar.
    pub scalar: &'static Scalar,
    /// Direction of a round-trip test; `None` for the whole test.
    pub direction: Option<Direction>,
}

/// Error: not the name of a scalar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a figure: did you mean {}?", .near.join(", "))]
pub struct UnknownScalar {
    /// The name that was given.
    pub name: String,
    /// Scalars with similar names.
    pub near: Vec<String>,
}

/// Iterates over the scalars of whole tests, then over those of each direction.
pub fn selectors() -> impl Iterator<Item = Selector> {
    let of = |direction: Option<Direction>| {
        let there = move |f: &&Scalar| direction.is_none() || f.applies.directions;
        SCALARS.iter().filter(there).map(move |scalar| Selector { scalar, direction })
    };
    of(None).chain(of(Some(Direction::Up))).chain(of(Some(Direction::Down)))
}

impl Selector {
    /// Returns the value in `summary`; `None` if it is undefined.
    pub fn of(&self, summary: &Summary) -> Option<ExactNumber> {
        self.scalar.from(&ScalarSource::of(summary, self.direction)?)
    }

    /// Returns the column name in machine-readable tables: `up_pdv_p99_ns`.
    pub fn column(&self) -> String {
        format!("{}{}", prefix(self.direction).replace('-', "_"), self.scalar.column())
    }
}

fn prefix(direction: Option<Direction>) -> &'static str {
    match direction {
        None => "",
        Some(Direction::Up) => "up-",
        Some(Direction::Down) => "down-",
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        (self.scalar.key, self.direction) == (other.scalar.key, other.direction)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", prefix(self.direction), self.scalar.key)
    }
}

impl FromStr for Selector {
    type Err = UnknownScalar;

    fn from_str(text: &str) -> Result<Selector, UnknownScalar> {
        if let Some(scalar) = Scalar::named(text) {
            return Ok(Selector { scalar, direction: None });
        }
        let of_way = [Direction::Up, Direction::Down].into_iter().find_map(|direction| {
            let scalar = Scalar::named(text.strip_prefix(prefix(Some(direction)))?)?;
            scalar.applies.directions.then_some(Selector { scalar, direction: Some(direction) })
        });
        of_way.ok_or_else(|| UnknownScalar { name: text.to_owned(), near: closest(text) })
    }
}

/// Returns the names of up to three scalars: those that begin with the word `text`, otherwise the most similar ones.
pub fn closest(text: &str) -> Vec<String> {
    let begins = |name: &&str| name.strip_prefix(text).is_some_and(|rest| rest.starts_with('-'));
    let names = SCALARS.iter().filter_map(|f| [Some(f.key), f.alias].into_iter().flatten().find(begins));
    // The 99th percentile comes first, because it is the one that thresholds are mostly set for.
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    if !names.is_empty() {
        names.sort_by_key(|name| !name.ends_with("-p99"));
        names.truncate(3);
        return names;
    }
    let mut all: Vec<(usize, String)> = selectors()
        .filter(|s| s.direction.is_none() || text.starts_with(prefix(s.direction)))
        .map(|s| s.to_string())
        .map(|name| (distance(text, &name), name))
        .collect();
    all.sort();
    all.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Returns the Levenshtein distance: the number of letters that must be changed, added or removed to convert one text
/// to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_reads_what_it_writes() {
        for selector in selectors() {
            assert_eq!(selector.to_string().parse(), Ok(selector), "{selector}");
        }
        let old: Selector = "jitter-p99.9".parse().unwrap();
        assert_eq!((old.to_string(), old.column()), ("pdv-p99.9".into(), "pdv_p99_9_ns".into()));
        let up: Selector = "up-loss".parse().unwrap();
        assert_eq!((up.direction, up.column()), (Some(Direction::Up), "up_loss_ratio".into()));
    }

    #[test]
    fn what_is_no_figure_gets_the_closest_names() {
        for (wrong, meant) in [("latency-meen", "latency-mean"), ("los", "loss"), ("pdv-99", "pdv-p99")] {
            let error = wrong.parse::<Selector>().unwrap_err();
            assert!(error.near.iter().any(|n| n == meant) && error.near.len() == 3, "{error}");
        }
        let jitter = "jitter".parse::<Selector>().unwrap_err().near;
        assert_eq!(jitter, ["jitter-p99", "jitter-p50", "jitter-p90"]);
        // The schedule belongs to the test, not to one direction.
        assert!("up-schedule-error-p99".parse::<Selector>().is_err());
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("ab", "")), (3, 2, 2));
    }
}
