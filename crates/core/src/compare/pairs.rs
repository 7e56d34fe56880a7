//! Everything that follows from comparing each value of one run with each of another.

use super::Tests;
use crate::metrics::sample::Sample;

/// Pairs (a, b) by order, and what the two empirical distributions are apart. O(n + m) on sorted samples.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    greater: u128,
    less: u128,
    total: u128,
    /// Σ(t³ − t) over groups of t equal values.
    ties: f64,
    distance: f64,
}

impl Pairs {
    /// One pass over both.
    pub fn count(a: &Sample, b: &Sample) -> Pairs {
        let (n, m) = (a.len(), b.len());
        let mut found = Pairs { greater: 0, less: 0, total: n as u128 * m as u128, ties: 0.0, distance: 0.0 };
        let (mut i, mut j) = (0, 0);
        while i < n || j < m {
            let next = match (a.at(i), b.at(j)) {
                (Some(x), Some(y)) => x.min(y),
                (Some(x), None) => x,
                (None, Some(y)) => y,
                (None, None) => break,
            };
            let (from_i, from_j) = (i, j);
            while a.at(i) == Some(next) {
                i += 1;
            }
            while b.at(j) == Some(next) {
                j += 1;
            }
            let (same_a, same_b) = ((i - from_i) as u128, (j - from_j) as u128);
            found.greater += same_a * from_j as u128;
            found.less += same_a * (m - j) as u128;
            let tied = (same_a + same_b) as f64;
            found.ties += tied.powi(3) - tied;
            found.distance = found.distance.max((i as f64 / n as f64 - j as f64 / m as f64).abs());
        }
        found
    }

    /// Cliff's δ: the share of pairs in which a is greater, less that in which b is.
    pub fn delta(&self) -> f64 {
        (self.greater as f64 - self.less as f64) / self.total as f64
    }

    /// Mann–Whitney and Kolmogorov–Smirnov.
    pub fn tests(&self, a: &Sample, b: &Sample) -> Tests {
        let (n, m) = (a.len() as f64, b.len() as f64);
        let equal = self.total - self.greater - self.less;
        let u = self.greater as f64 + equal as f64 / 2.0;
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        let z = if variance > 0.0 { ((u - n * m / 2.0).abs() - 0.5) / variance.sqrt() } else { 0.0 };
        let effective = n * m / all;
        let lambda = (effective.sqrt() + 0.12 + 0.11 / effective.sqrt()) * self.distance;
        Tests {
            u,
            z,
            p: libm::erfc(z.max(0.0) * core::f64::consts::FRAC_1_SQRT_2).min(1.0),
            ks: self.distance,
            ks_p: kolmogorov(lambda),
        }
    }
}

/// P(K > λ), by its series; it is 1 to double precision below 0.2.
fn kolmogorov(lambda: f64) -> f64 {
    if lambda <= 0.2 {
        return 1.0;
    }
    let term = |k: i32| (-2.0 * f64::from(k * k) * lambda * lambda).exp();
    let sum: f64 = (1..=100).map(|k| if k % 2 == 1 { term(k) } else { -term(k) }).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

/// The median of all x − y, by bisection on its value with a count in O(n + m) each: exact, and without
/// the n·m differences.
pub(super) fn hodges_lehmann(x: &Sample, y: &Sample) -> f64 {
    let total = x.len() as u128 * y.len() as u128;
    let kth = |k: u128| {
        let difference =
            |a: Option<i64>, b: Option<i64>| i128::from(a.unwrap_or(0)) - i128::from(b.unwrap_or(0));
        let (mut low, mut high) = (difference(x.min(), y.max()), difference(x.max(), y.min()));
        while low < high {
            let middle = low + (high - low).div_euclid(2);
            if at_most(x, y, middle) > k { high = middle } else { low = middle + 1 }
        }
        low as f64
    };
    (kth((total - 1) / 2) + kth(total / 2)) / 2.0
}

/// How many pairs have x − y ≤ `limit`: for x ascending, the first y that is large enough only moves up.
fn at_most(x: &Sample, y: &Sample, limit: i128) -> u128 {
    let (mut count, mut first) = (0u128, 0);
    for value in (0..x.len()).filter_map(|i| x.at(i)) {
        while y.at(first).is_some_and(|v| i128::from(v) < i128::from(value) - limit) {
            first += 1;
        }
        count += (y.len() - first) as u128;
    }
    count
}
