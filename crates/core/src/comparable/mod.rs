//! [`Comparable`]: the part of a run that is stored so that it can be compared without its packets.

mod precision;

pub use precision::{median_bounds, minimum_error};

use crate::distribution::sample::Sample;
use serde::{Deserialize, Serialize};

/// Number of ranks stored for a long run.
const MAX_RANKS: u64 = 257;

/// Delay above the minimum (PDV) at evenly spaced ranks. This is enough for the comparison of jitter in metrics §20 and,
/// with the minimum, of delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!try_from))]
#[serde(try_from = "UncheckedComparable")]
pub struct Comparable {
    /// Number of accepted packets.
    n: u64,
    /// PDV in ns, ascending. Value j of k has rank ⌊j(n − 1)/(k − 1)⌋, counted from 0. Contains all values
    /// if there are at most 257.
    pdv: Vec<i64>,
    /// Half-width of the 95 % interval of the smallest delay, to which PDV refers, in ns; `None` below 20 packets and
    /// in summaries of older versions.
    minimum_error: Option<f64>,
    /// Wide 95 % bounds of the median of PDV, in ns, which require only a few independent packets; `None` if there are
    /// fewer, and in summaries of older versions.
    median_bounds: Option<[i64; 2]>,
}

#[derive(Deserialize)]
struct UncheckedComparable {
    n: u64,
    pdv: Vec<i64>,
    #[serde(default)]
    minimum_error: Option<f64>,
    #[serde(default)]
    median_bounds: Option<[i64; 2]>,
}

/// Error: [`Comparable::new`] cannot have produced the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field 'comparable' is damaged")]
pub struct Damaged;

impl TryFrom<UncheckedComparable> for Comparable {
    type Error = Damaged;

    fn try_from(unchecked: UncheckedComparable) -> Result<Comparable, Damaged> {
        let UncheckedComparable { n, pdv, minimum_error, median_bounds } = unchecked;
        let whole = pdv.len() as u64 == n.min(MAX_RANKS)
            && pdv.first().is_none_or(|x| *x >= 0)
            && pdv.is_sorted()
            && minimum_error.is_none_or(|error| error.is_finite() && error >= 0.0)
            && median_bounds.is_none_or(|bounds| bounds[0] <= bounds[1]);
        if whole { Ok(Comparable { n, pdv, minimum_error, median_bounds }) } else { Err(Damaged) }
    }
}

/// Values with the number of times that each occurs, ascending by value.
pub type Weighted = Vec<(i64, u64)>;

impl Comparable {
    /// Summarises the delays of one run. `delays` are in send order, `all` are the same delays sorted.
    pub fn new(mut delays: Vec<i64>, all: &Sample) -> Comparable {
        let least = all.min().unwrap_or_default();
        delays.iter_mut().for_each(|d| *d = d.saturating_sub(least));
        let median_bounds = median_bounds(&delays, &Sample::new(delays.iter().copied()));
        Comparable { minimum_error: minimum_error(&delays), median_bounds, ..Comparable::ranks(all) }
    }

    fn ranks(all: &Sample) -> Comparable {
        let (n, least) = (all.len() as u64, all.min().unwrap_or_default());
        let above = |j| all.at(rank(n, j) as usize).map(|x| x.saturating_sub(least));
        Comparable {
            n,
            pdv: (0..n.min(MAX_RANKS)).filter_map(above).collect(),
            minimum_error: None,
            median_bounds: None,
        }
    }

    /// Returns the number of accepted packets.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Returns the half-width of the 95 % interval of the smallest delay, in ns; `None` below 20 packets and in
    /// summaries of older versions.
    pub fn minimum_error(&self) -> Option<f64> {
        self.minimum_error
    }

    /// Returns wide 95 % bounds of the median of PDV, in ns, which require only a few independent packets; `None` if
    /// there are fewer, and in summaries of older versions.
    pub fn median_bounds(&self) -> Option<[i64; 2]> {
        self.median_bounds
    }

    /// Returns true if `other` has the same stored delays.
    pub fn is_the_same(&self, other: &Comparable) -> bool {
        self.n == other.n && self.pdv == other.pdv
    }

    /// Returns two distributions that enclose the true one: values that are not stored are replaced by the
    /// next lower stored value in the first, and by the next higher one in the second.
    pub fn bounds(&self) -> [Weighted; 2] {
        let mut bounds: [Weighted; 2] = [Vec::new(), Vec::new()];
        for (j, value) in (0..).zip(&self.pdv) {
            if let Some(before) = (j > 0).then(|| self.pdv[j as usize - 1]) {
                let between = rank(self.n, j) - rank(self.n, j - 1) - 1;
                if between > 0 {
                    bounds[0].push((before, between));
                    bounds[1].push((*value, between));
                }
            }
            bounds.iter_mut().for_each(|b| b.push((*value, 1)));
        }
        bounds
    }
}

/// Returns the rank of stored value `j` among `n` values.
fn rank(n: u64, j: u64) -> u64 {
    let steps = n.min(MAX_RANKS).saturating_sub(1).max(1);
    (u128::from(j) * u128::from(n.saturating_sub(1)) / u128::from(steps)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn survives_json_and_refuses_damage() {
        let delays: Vec<i64> = (0..1000).map(|k| 5_000_000 + k * 7919 % 1000).collect();
        let c = Comparable::new(delays.clone(), &Sample::new(delays.iter().copied()));
        let text = serde_json::to_string(&c).unwrap();
        let read: Comparable = serde_json::from_str(&text).unwrap();
        assert_eq!((read.n, &read.pdv, read.pdv.len()), (1000, &c.pdv, 257));
        for (from, to) in [
            ("\"n\":1000", "\"n\":9"),
            ("\"pdv\":[0,", "\"pdv\":[5000,"),
            ("\"minimum_error\":", "\"minimum_error\":-"),
        ] {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text);
            assert!(serde_json::from_str::<Comparable>(&damaged).is_err(), "{from}");
        }
    }

    proptest! {
        #[test]
        fn the_packets_lie_between_the_bounds(delays in prop::collection::vec(-9i64..9999, 0..900)) {
            let c = Comparable::ranks(&Sample::new(delays.iter().copied()));
            let mut sorted = delays.clone();
            sorted.sort_unstable();
            let spelt = |b: &Weighted| -> Vec<i64> {
                b.iter().flat_map(|(v, k)| std::iter::repeat_n(*v, *k as usize)).collect()
            };
            let [low, high] = c.bounds();
            let (low, high) = (spelt(&low), spelt(&high));
            prop_assert_eq!(low.len(), sorted.len());
            for ((l, x), h) in low.iter().zip(&sorted).zip(&high) {
                let x = x - sorted[0];
                prop_assert!(*l <= x && x <= *h);
            }
            if delays.len() <= 257 {
                prop_assert_eq!(low, high);
            }
        }
    }
}
