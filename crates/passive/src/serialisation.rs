//! [`Lengths`]: smallest delay of each packet length in one direction, and the resulting time per byte.
//!
//! The smallest delay of a length is that of a packet that met only empty queues. It consists of a fixed part
//! and, for each byte, 8/rate of every link on the path.

use serde::Serialize;

/// Largest length in the table, in bytes. Longer packets are counted with this length.
const MAX_LENGTH: usize = (1 << 16) - 1;
/// Minimum number of packets of one length for their smallest delay to be used.
const MIN_PACKETS_PER_LENGTH: u32 = 5;
/// Minimum difference between the shortest and the longest length, in bytes.
const MIN_LENGTH_SPREAD: usize = 100;

/// Smallest delay by packet length.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// Number of packets and smallest delay, indexed by length.
    table: Vec<(u32, i64)>,
}

/// Serialisation time in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Serialisation {
    /// Slope of the smallest delay over the length, in ns per byte (Theil–Sen estimate).
    pub ns_per_byte: f64,
    /// Corresponding rate of all links in this direction in series, in bits per second: 1/Σ(1/rate).
    pub series_rate: f64,
    /// Number of packet lengths used.
    pub lengths: usize,
    /// Shortest packet length used, in bytes.
    pub shortest: usize,
    /// Longest packet length used, in bytes.
    pub longest: usize,
    /// Median distance of the smallest delays from the line, in ns. Caused by ATM cells, or by queues that were
    /// never empty.
    pub residual_ns: f64,
}

impl Lengths {
    /// Adds a packet.
    #[inline]
    pub fn push(&mut self, length: u32, delay: i64) {
        let i = (length as usize).min(MAX_LENGTH);
        if i >= self.table.len() {
            self.table.resize((i + 1).next_power_of_two(), (0, i64::MAX));
        }
        if let Some((n, least)) = self.table.get_mut(i) {
            *n = n.saturating_add(1);
            *least = (*least).min(delay);
        }
    }

    /// Returns the time per byte; `None` if there are too few lengths, if longer packets are not slower, or
    /// if a clock drift of `drift` ns could explain the difference.
    pub fn serialisation(&self, drift: f64) -> Option<Serialisation> {
        let points: Vec<(f64, f64)> = self
            .table
            .iter()
            .enumerate()
            .filter(|(_, (n, _))| *n >= MIN_PACKETS_PER_LENGTH)
            .map(|(i, (_, d))| (i as f64, *d as f64))
            .collect();
        // Use only every k-th of very many lengths, because the number of pairs grows with the square of the
        // number of lengths.
        let points: Vec<_> = points.iter().copied().step_by(points.len().div_ceil(300).max(1)).collect();
        let (first, last) = (points.first()?, points.last()?);
        if last.0 - first.0 < MIN_LENGTH_SPREAD as f64 {
            return None;
        }
        let mut slopes: Vec<f64> = (0..points.len())
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| (points[i].1 - points[j].1) / (points[i].0 - points[j].0))
            .collect();
        let slope = median(&mut slopes)?;
        let mut rests: Vec<f64> = points.iter().map(|p| p.1 - slope * p.0).collect();
        let base = median(&mut rests)?;
        let mut distances: Vec<f64> = rests.iter().map(|r| (r - base).abs()).collect();
        let residual_ns = median(&mut distances)?;
        let rise = slope * (last.0 - first.0);
        (slope > 0.0 && rise > 5.0 * drift.abs() && rise > 2.0 * residual_ns).then(|| Serialisation {
            ns_per_byte: slope,
            series_rate: 8e9 / slope,
            lengths: points.len(),
            shortest: first.0 as usize,
            longest: last.0 as usize,
            residual_ns,
        })
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(f: impl Fn(u32) -> i64) -> Lengths {
        let mut l = Lengths::default();
        for i in 0..14_000u32 {
            let length = 60 + i * 7919 % 1400;
            let queue = i64::from(i % 3) * 500_000;
            l.push(length, f(length) + queue);
        }
        l
    }

    #[test]
    fn a_byte_costs_what_the_link_says() {
        let s = lengths(|l| 5_000_000 + i64::from(l) * 8000).serialisation(0.0).unwrap();
        assert!((s.ns_per_byte - 8000.0).abs() < 100.0 && (s.series_rate - 1e6).abs() < 2e4, "{s:?}");
    }

    #[test]
    fn nothing_is_concluded_from_too_little() {
        assert_eq!(lengths(|_| 5_000_000).serialisation(0.0), None);
        assert_eq!(lengths(|l| i64::from(l) * 80).serialisation(1e6), None, "drift may explain it");
        let mut one = Lengths::default();
        (0..100).for_each(|i| one.push(500, i));
        assert_eq!(one.serialisation(0.0), None);
        let mut huge = Lengths::default();
        (0..10).for_each(|i| huge.push(u32::MAX, i));
        assert_eq!(huge.serialisation(0.0), None);
    }

    /// Five packets of each length, with the given smallest delay.
    fn least(points: impl IntoIterator<Item = (u32, i64)>) -> Lengths {
        let mut l = Lengths::default();
        for (length, delay) in points {
            [400, 0, 300, 200, 100].iter().for_each(|queue| l.push(length, delay + queue));
        }
        l
    }

    #[test]
    fn exact_on_few_lengths() {
        let mut l = least([(100, 2000), (150, 2500), (200, 3000)]);
        // Four packets are too few.
        (0..4).for_each(|_| l.push(400, 9000));
        let expected = Serialisation {
            ns_per_byte: 10.0,
            series_rate: 8e8,
            lengths: 3,
            shortest: 100,
            longest: 200,
            residual_ns: 0.0,
        };
        assert_eq!(l.serialisation(0.0), Some(expected));
        // 1000 ns from the shortest to the longest: a drift of a fifth of that may explain it.
        assert_eq!(l.serialisation(199.0), Some(expected));
        assert_eq!((l.serialisation(200.0), l.serialisation(-200.0)), (None, None));
        assert_eq!(least([(100, 2000), (199, 3000)]).serialisation(0.0), None, "99 bytes apart");
        assert!(least([(100, 2000), (200, 3000)]).serialisation(0.0).is_some());
    }

    #[test]
    fn scatter_about_the_line() {
        let points = [(100, 0), (200, 1000), (300, 500), (400, 2000), (500, 1500)];
        let s = least(points).serialisation(0.0).unwrap();
        assert_eq!((s.ns_per_byte, s.residual_ns), (5.0, 500.0));
        // Residuals as large as half the rise, and larger.
        let rise =
            |longest: i64| [(100, 0), (200, 0), (300, 1000 + longest), (400, 1250 + longest), (500, 0)];
        assert_eq!((least(rise(0)).serialisation(0.0), least(rise(250)).serialisation(0.0)), (None, None));
        assert_eq!(
            least([(100, 0), (200, 2000), (300, -1000), (400, 2000), (500, 1000)]).serialisation(0.0),
            None
        );
    }

    #[test]
    fn very_many_lengths_are_thinned() {
        let l = least((0..600).map(|i| (100 + i, i64::from(i))));
        assert_eq!(l.serialisation(0.0).map(|s| (s.lengths, s.shortest, s.longest)), Some((300, 100, 698)));
        let l = least((0..300).map(|i| (100 + i, i64::from(i))));
        assert_eq!(l.serialisation(0.0).map(|s| (s.lengths, s.longest)), Some((300, 399)));
        let l = least([(65_000, 0), (70_000, 1000)]);
        assert_eq!(l.serialisation(0.0).map(|s| s.longest), Some(65_535));
    }
}
