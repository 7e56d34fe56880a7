//! Statistics of all pairs of a value from one run and a value from another run.

use super::comparison::IndependenceTests;
use jitlat_core::comparable::Weighted;
use jitlat_core::distribution::sample::Sample;

/// Values in ascending order, each with the number of packets that have it.
pub(super) trait AscendingValues {
    /// Returns the k-th value and its number of packets.
    fn entry(&self, k: usize) -> Option<(i64, u64)>;
    /// Returns the number of values.
    fn entries(&self) -> usize;
    /// Returns the number of packets.
    fn packets(&self) -> u64;
}

impl AscendingValues for Sample {
    #[inline]
    fn entry(&self, k: usize) -> Option<(i64, u64)> {
        self.at(k).map(|x| (x, 1))
    }

    fn entries(&self) -> usize {
        self.len()
    }

    fn packets(&self) -> u64 {
        self.len() as u64
    }
}

impl AscendingValues for Weighted {
    fn entry(&self, k: usize) -> Option<(i64, u64)> {
        self.get(k).copied()
    }

    fn entries(&self) -> usize {
        self.len()
    }

    fn packets(&self) -> u64 {
        self.iter().map(|(_, n)| n).sum()
    }
}

/// Numbers of pairs (a, b) with a < b, a = b and a > b, and the distance between the two empirical distributions. Takes
/// O(n + m) on sorted samples.
#[derive(Clone, Copy)]
pub(super) struct OrderedPairs {
    greater: u128,
    less: u128,
    total: u128,
    /// Σ(t³ − t) over groups of t equal values.
    ties: f64,
    distance: f64,
}

impl OrderedPairs {
    /// Counts all pairs in one pass over both samples.
    pub fn count(a: &impl AscendingValues, b: &impl AscendingValues) -> OrderedPairs {
        let (n, m) = (a.packets(), b.packets());
        let total = u128::from(n) * u128::from(m);
        let mut found = OrderedPairs { greater: 0, less: 0, total, ties: 0.0, distance: 0.0 };
        let (mut i, mut j) = (0, 0);
        // Number of packets of each sample that have been passed.
        let (mut of_a, mut of_b) = (0u64, 0u64);
        loop {
            let next = match (a.entry(i), b.entry(j)) {
                (Some((x, _)), Some((y, _))) => x.min(y),
                (Some((x, _)), None) => x,
                (None, Some((y, _))) => y,
                (None, None) => break,
            };
            let (from_a, from_b) = (of_a, of_b);
            while let Some((_, k)) = a.entry(i).filter(|(x, _)| *x == next) {
                (i, of_a) = (i + 1, of_a + k);
            }
            while let Some((_, k)) = b.entry(j).filter(|(y, _)| *y == next) {
                (j, of_b) = (j + 1, of_b + k);
            }
            let (same_a, same_b) = (u128::from(of_a - from_a), of_b - from_b);
            found.greater += same_a * u128::from(from_b);
            found.less += same_a * u128::from(m - of_b);
            let tied = (same_a + u128::from(same_b)) as f64;
            found.ties += tied.powi(3) - tied;
            found.distance = found.distance.max((of_a as f64 / n as f64 - of_b as f64 / m as f64).abs());
        }
        found
    }

    /// Returns Cliff's δ: the share of pairs in which a is greater, minus the share in which b is greater.
    pub fn delta(&self) -> f64 {
        (self.greater as f64 - self.less as f64) / self.total as f64
    }

    /// Returns the Mann–Whitney and Kolmogorov–Smirnov tests.
    pub fn tests(&self, a: &Sample, b: &Sample) -> IndependenceTests {
        let (n, m) = (a.len() as f64, b.len() as f64);
        let equal = self.total - self.greater - self.less;
        let u = self.greater as f64 + equal as f64 / 2.0;
        let all = n + m;
        let variance = n * m / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        // U is discrete, so the continuity correction of one half applies.
        let z = if variance > 0.0 { ((u - n * m / 2.0).abs() - 0.5) / variance.sqrt() } else { 0.0 };
        let effective = n * m / all;
        // Stephens' correction for small samples.
        let lambda = (effective.sqrt() + 0.12 + 0.11 / effective.sqrt()) * self.distance;
        IndependenceTests {
            u,
            z,
            p: libm::erfc(z.max(0.0) * core::f64::consts::FRAC_1_SQRT_2).min(1.0),
            ks: self.distance,
            ks_p: kolmogorov(lambda),
        }
    }
}

/// Returns P(K > λ) of the Kolmogorov distribution, computed from its series. Below 0.2 it is 1 to double precision.
fn kolmogorov(lambda: f64) -> f64 {
    if lambda <= 0.2 {
        return 1.0;
    }
    let term = |k: i32| (-2.0 * f64::from(k * k) * lambda * lambda).exp();
    let sum: f64 = (1..=100).map(|k| if k % 2 == 1 { term(k) } else { -term(k) }).sum();
    (2.0 * sum).clamp(0.0, 1.0)
}

/// Returns the exact median of all x − y without computing the n·m differences: by bisection of the median's value,
/// with an O(n + m) count per step.
pub(super) fn hodges_lehmann(x: &impl AscendingValues, y: &impl AscendingValues) -> f64 {
    let total = u128::from(x.packets()) * u128::from(y.packets());
    let value = |of: Option<(i64, u64)>| i128::from(of.map_or(0, |e| e.0));
    let (x_last, y_last) = (x.entries().saturating_sub(1), y.entries().saturating_sub(1));
    let kth = |k: u128| {
        let mut low = value(x.entry(0)) - value(y.entry(y_last));
        let mut high = value(x.entry(x_last)) - value(y.entry(0));
        while low < high {
            let middle = low + (high - low).div_euclid(2);
            if at_most(x, y, middle) > k { high = middle } else { low = middle + 1 }
        }
        low as f64
    };
    (kth((total - 1) / 2) + kth(total / 2)) / 2.0
}

/// Returns the number of pairs with x − y ≤ `limit`. As x ascends, the first y that is large enough never moves down.
fn at_most(x: &impl AscendingValues, y: &impl AscendingValues, limit: i128) -> u128 {
    let (mut count, mut first) = (0u128, 0);
    let mut rest = y.packets();
    for (value, k) in (0..x.entries()).filter_map(|i| x.entry(i)) {
        while let Some((_, n)) = y.entry(first).filter(|(v, _)| i128::from(*v) < i128::from(value) - limit) {
            (first, rest) = (first + 1, rest - n);
        }
        count += u128::from(k) * u128::from(rest);
    }
    count
}
