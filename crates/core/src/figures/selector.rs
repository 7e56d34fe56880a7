//! [`Selector`]: a figure as a user names it.

use super::{FIGURES, Figure, FigureSource, Number};
use crate::spec::Direction;
use crate::summary::Summary;
use core::fmt;
use core::str::FromStr;

/// A figure of a whole test (`pdv-p99`), or of one way of a round-trip test (`up-pdv-p99`).
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    /// Which figure.
    pub figure: &'static Figure,
    /// The way of a round-trip test; `None`: the whole.
    pub way: Option<Direction>,
}

/// Not the name of a figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a figure: did you mean {}?", .near.join(", "))]
pub struct UnknownFigure {
    /// The name given.
    pub name: String,
    /// Figures with similar names.
    pub near: Vec<String>,
}

/// Every figure of whole tests, then of each way.
pub fn selectors() -> impl Iterator<Item = Selector> {
    let of = |way: Option<Direction>| {
        let there = move |f: &&Figure| way.is_none() || f.applies.ways;
        FIGURES.iter().filter(there).map(move |figure| Selector { figure, way })
    };
    of(None).chain(of(Some(Direction::Up))).chain(of(Some(Direction::Down)))
}

impl Selector {
    /// Its value in `summary`; `None` if it is undefined.
    pub fn of(&self, summary: &Summary) -> Option<Number> {
        self.figure.from(&FigureSource::of(summary, self.way)?)
    }

    /// Its column in tables for programs: `up_pdv_p99_ns`.
    pub fn column(&self) -> String {
        format!("{}{}", prefix(self.way).replace('-', "_"), self.figure.column())
    }
}

fn prefix(way: Option<Direction>) -> &'static str {
    match way {
        None => "",
        Some(Direction::Up) => "up-",
        Some(Direction::Down) => "down-",
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        (self.figure.key, self.way) == (other.figure.key, other.way)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", prefix(self.way), self.figure.key)
    }
}

impl FromStr for Selector {
    type Err = UnknownFigure;

    fn from_str(text: &str) -> Result<Selector, UnknownFigure> {
        if let Some(figure) = Figure::named(text) {
            return Ok(Selector { figure, way: None });
        }
        let of_way = [Direction::Up, Direction::Down].into_iter().find_map(|direction| {
            let figure = Figure::named(text.strip_prefix(prefix(Some(direction)))?)?;
            figure.applies.ways.then_some(Selector { figure, way: Some(direction) })
        });
        of_way.ok_or_else(|| UnknownFigure { name: text.to_owned(), near: closest(text) })
    }
}

/// The three figures whose names are most similar to `text`.
pub fn closest(text: &str) -> Vec<String> {
    let mut all: Vec<(usize, String)> = selectors()
        .filter(|s| s.way.is_none() || text.starts_with(prefix(s.way)))
        .map(|s| s.to_string())
        .map(|name| (distance(text, &name), name))
        .collect();
    all.sort();
    all.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Letters to change, add or remove to make one from the other (Levenshtein).
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
        assert_eq!((up.way, up.column()), (Some(Direction::Up), "up_loss_ratio".into()));
    }

    #[test]
    fn what_is_no_figure_gets_the_closest_names() {
        for (wrong, meant) in [("latency-meen", "latency-mean"), ("los", "loss"), ("pdv-99", "pdv-p99")] {
            let error = wrong.parse::<Selector>().unwrap_err();
            assert!(error.near.iter().any(|n| n == meant) && error.near.len() == 3, "{error}");
        }
        // The schedule belongs to the test, not to one way.
        assert!("up-schedule-error-p99".parse::<Selector>().is_err());
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("ab", "")), (3, 2, 2));
    }
}
