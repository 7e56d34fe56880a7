//! Bands: times that cluster at multiples of a spacing, because links use cells or frames or because hosts
//! sleep (metrics §21).

use serde::Serialize;
use std::f64::consts::TAU;

/// A spacing at which the values cluster, in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bands {
    /// Distance between neighbouring bands.
    pub spacing: f64,
    /// Distance estimated from the characteristic function alone, before values were assigned to bands.
    pub peak_spacing: f64,
    /// |Σ exp(2πi·y/q)|/n; 1 means that all values are exact multiples.
    pub strength: f64,
    /// Rayleigh's p-value, adjusted for the number of spacings tried.
    pub p_adjusted: f64,
}

impl Bands {
    /// Returns true if the spacing is strong and significant enough to be reported.
    pub fn significant(&self) -> bool {
        self.p_adjusted < 1e-3 && self.strength >= 0.3
    }
}

/// Maximum number of values; longer series are thinned.
const MAX_SERIES: usize = 4000;
/// Maximum number of frequencies in a scan.
const MAX_FREQUENCIES: f64 = 200_000.0;

/// Finds the spacing between `shortest` and `longest` at which `values` cluster most: the local maximum of the
/// characteristic function that has the lowest frequency and at least 0.7 of the global maximum (which excludes
/// harmonics), refined. Report the result only if it is [significant](Bands::significant). `None` if the range contains
/// no maximum. `shortest` should exceed four times the resolution of the clocks.
pub fn spacing(values: &[f64], shortest: f64, longest: f64) -> Option<Bands> {
    let values: Vec<f64> = values
        .iter()
        .copied()
        .filter(|v| v.is_finite())
        .step_by(values.len().div_ceil(MAX_SERIES).max(1))
        .collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = high - low;
    if range <= 0.0 || !range.is_finite() || shortest <= 0.0 || longest <= shortest {
        return None;
    }
    // Only differences matter, and phases of small numbers are more precise.
    let values: Vec<f64> = values.iter().map(|v| v - low).collect();
    let grid = FrequencyGrid::new(range, shortest, longest);
    let peak = lowest_peak(&scan(&values, &grid))?;
    let frequency = refine(&values, grid.frequency(peak - 1), grid.frequency(peak + 1));
    let strength = strength(&values, frequency);
    Some(Bands {
        spacing: assign(&values, frequency),
        peak_spacing: 1.0 / frequency,
        strength,
        p_adjusted: p_adjusted(values.len(), strength, grid.independent(range)),
    })
}

/// Evenly spaced frequencies: eight per width of a peak; this width is 1/range.
struct FrequencyGrid {
    lowest: f64,
    width: f64,
    step: f64,
    steps: usize,
}

impl FrequencyGrid {
    /// Creates the grid for values that cover `range` and spacings from `shortest` to `longest`.
    fn new(range: f64, shortest: f64, longest: f64) -> Self {
        let (lowest, width) = (1.0 / longest, 1.0 / shortest - 1.0 / longest);
        let step = (1.0 / (8.0 * range)).max(width / MAX_FREQUENCIES);
        Self { lowest, width, step, steps: (width / step) as usize + 1 }
    }

    fn frequency(&self, index: usize) -> f64 {
        self.lowest + index as f64 * self.step
    }

    /// Returns the number of independent frequencies for values that cover `range`.
    fn independent(&self, range: f64) -> f64 {
        (range * self.width).ceil().max(1.0)
    }
}

/// Returns the index of the first local maximum that has at least 0.7 of the greatest strength; `None` if there is
/// none.
fn lowest_peak(strengths: &[f64]) -> Option<usize> {
    let highest = strengths.iter().copied().fold(0.0, f64::max);
    let is_peak = |w: &[f64]| w[1] >= w[0] && w[1] >= w[2] && w[1] >= 0.7 * highest;
    strengths.windows(3).position(is_peak).map(|before| before + 1)
}

/// Returns Rayleigh's p-value for the strength of `n` values, adjusted because it is the greatest strength of `tried`
/// spacings (Šidák).
fn p_adjusted(n: usize, strength: f64, tried: f64) -> f64 {
    let single = (-(n as f64) * strength * strength).exp();
    if single < 1.0 { -(tried * (-single).ln_1p()).exp_m1() } else { 1.0 }
}

/// Returns the strengths at the grid's frequencies. Each value's phase is rotated by a step, which is faster
/// than computing it again.
fn scan(values: &[f64], grid: &FrequencyGrid) -> Vec<f64> {
    /// Number of steps after which accumulated rounding errors are removed.
    const STEPS_PER_RESTART: usize = 1024;
    let angles = |f: f64| values.iter().map(move |v| (TAU * f * v).sin_cos()).collect::<Vec<_>>();
    let turns = angles(grid.step);
    let mut now = Vec::new();
    let mut strengths = Vec::with_capacity(grid.steps);
    for i in 0..grid.steps {
        if i % STEPS_PER_RESTART == 0 {
            now = angles(grid.frequency(i));
        }
        let (mut c, mut s) = (0.0, 0.0);
        for (at, turn) in now.iter_mut().zip(&turns) {
            c += at.1;
            s += at.0;
            *at = (at.0 * turn.1 + at.1 * turn.0, at.1 * turn.1 - at.0 * turn.0);
        }
        strengths.push(c.hypot(s) / values.len() as f64);
    }
    strengths
}

fn sums(values: &[f64], frequency: f64) -> (f64, f64) {
    values.iter().fold((0.0, 0.0), |(c, s), v| {
        let (sin, cos) = (TAU * frequency * v).sin_cos();
        (c + cos, s + sin)
    })
}

fn strength(values: &[f64], frequency: f64) -> f64 {
    let (c, s) = sums(values, frequency);
    c.hypot(s) / values.len() as f64
}

/// Golden-section search for the maximum, to 10⁻⁹ of the interval. At that distance, strengths differ only by rounding.
fn refine(values: &[f64], mut a: f64, mut b: f64) -> f64 {
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut c, mut d) = (b - golden * (b - a), a + golden * (b - a));
    let (mut at_c, mut at_d) = (strength(values, c), strength(values, d));
    for _ in 0..43 {
        if at_c > at_d {
            (b, d, at_d) = (d, c, at_c);
            c = b - golden * (b - a);
            at_c = strength(values, c);
        } else {
            (a, c, at_c) = (c, d, at_d);
            d = a + golden * (b - a);
            at_d = strength(values, d);
        }
    }
    (a + b) / 2.0
}

/// Assigns every value to a band and fits a line through (band, value). Repeats this five times, and returns the
/// spacing.
fn assign(values: &[f64], frequency: f64) -> f64 {
    let (c, s) = sums(values, frequency);
    let (mut q, mut offset) = (1.0 / frequency, s.atan2(c) / (TAU * frequency));
    for _ in 0..5 {
        let bands = values.iter().map(|v| ((v - offset) / q).round_ties_even());
        let Some((slope, intercept)) = fit_line(bands.zip(values.iter().copied())) else { break };
        (q, offset) = (slope, intercept);
    }
    q
}

/// Returns slope and intercept by least squares; `None` if x does not vary.
pub fn fit_line(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<(f64, f64)> {
    let (n, x, y) = points.clone().fold((0.0, 0.0, 0.0), |(n, sx, sy), (x, y)| (n + 1.0, sx + x, sy + y));
    let (mx, my) = (x / n, y / n);
    let (sxx, sxy) =
        points.fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + (x - mx) * (x - mx), xy + (x - mx) * (y - my)));
    (sxx > 0.0).then(|| (sxy / sxx, my - sxy / sxx * mx))
}

/// Returns the number of fine steps in a coarse step; `None` unless the ratio is within 2 % of an integer.
pub fn steps_per_step(coarse: f64, fine: f64) -> Option<u32> {
    let ratio = coarse / fine;
    let whole = ratio.round();
    (whole >= 2.0 && (ratio / whole - 1.0).abs() < 0.02).then_some(whole as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minstd(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state * 48_271 % 2_147_483_647;
            state as f64 / 2_147_483_647.0
        }
    }

    #[test]
    fn two_levels_of_bands() {
        // metrics §21, V27.
        let mut u = minstd(12_345);
        let values: Vec<f64> = (0..400)
            .map(|_| 79.0 + 26.5 * (u() * 3.0).floor() + 3.3125 * (u() * 4.0).floor() + 0.3 * (u() - 0.5))
            .collect();
        let fine = spacing(&values, 1.0, 8.0).unwrap();
        assert!((fine.spacing - 3.31269).abs() < 1e-4 && (fine.strength - 0.9866).abs() < 1e-4, "{fine:?}");
        assert!((fine.peak_spacing - 3.312_745).abs() < 1e-5);
        let coarse = spacing(&values, 10.0, 60.0).unwrap();
        assert!((coarse.peak_spacing - 27.184).abs() < 1e-3 && (coarse.spacing - 26.352).abs() < 1e-2);
        assert!(fine.significant() && coarse.significant());
        assert_eq!(steps_per_step(coarse.spacing, fine.spacing), Some(8));
    }

    #[test]
    fn no_bands_in_uniform_noise() {
        let mut u = minstd(99);
        let values: Vec<f64> = (0..400).map(|_| 20.0 + 60.0 * u()).collect();
        let found = spacing(&values, 1.0, 8.0).unwrap();
        assert!((found.strength - 0.116).abs() < 1e-3 && !found.significant(), "{found:?}");
        assert_eq!(spacing(&[5.0; 50], 1.0, 8.0), None);
        assert_eq!(spacing(&[], 1.0, 8.0), None);
    }

    #[test]
    fn nothing_where_there_is_nothing_to_scan() {
        let values: Vec<f64> = (0..100).map(|k| f64::from(k % 7)).collect();
        for (shortest, longest) in [(0.0, 8.0), (-1.0, 8.0), (8.0, 8.0), (8.0, 1.0)] {
            assert_eq!(spacing(&values, shortest, longest), None, "{shortest} to {longest}");
        }
        assert_eq!(spacing(&[f64::MAX, -f64::MAX, 0.0], 1.0, 8.0), None);
        assert_eq!(spacing(&[f64::NAN, f64::INFINITY], 1.0, 8.0), None);
    }

    #[test]
    fn the_smallest_value_does_not_matter() {
        let mut u = minstd(7);
        let near: Vec<f64> = (0..300).map(|_| 3.0 * (u() * 9.0).floor() + 0.2 * u()).collect();
        let far: Vec<f64> = near.iter().map(|v| v + 1e9).collect();
        let (near, far) = (spacing(&near, 1.0, 8.0).unwrap(), spacing(&far, 1.0, 8.0).unwrap());
        assert!((near.spacing - 3.0).abs() < 0.01 && near.significant(), "{near:?}");
        assert!((near.spacing - far.spacing).abs() < 1e-5 && (near.strength - far.strength).abs() < 1e-5);
    }

    #[test]
    fn the_refined_peak_is_one() {
        let mut u = minstd(21);
        let values: Vec<f64> = (0..500).map(|_| 5.0 * (u() * 6.0).floor() + u()).collect();
        let found = spacing(&values, 2.0, 20.0).unwrap();
        let frequency = 1.0 / found.peak_spacing;
        assert!((found.strength - strength(&values, frequency)).abs() < 1e-12);
        assert!(found.strength > strength(&values, frequency * 1.001));
        assert!(found.strength > strength(&values, frequency * 0.999));
    }

    #[test]
    fn grid_of_frequencies() {
        let grid = FrequencyGrid::new(100.0, 2.0, 10.0);
        // Frequencies from 0.1 to 0.5 in steps of 1/800.
        assert_eq!((grid.lowest, grid.width, grid.step), (0.1, 0.4, 1.0 / 800.0));
        assert_eq!((grid.steps, grid.frequency(8)), (321, 0.1 + 0.01));
        assert_eq!((grid.independent(100.0), grid.independent(0.5)), (40.0, 1.0));
        // The number of frequencies is limited for a wide range.
        let wide = FrequencyGrid::new(1e9, 2.0, 10.0);
        assert_eq!((wide.step, wide.steps), (0.4 / MAX_FREQUENCIES, 200_001));
    }

    #[test]
    fn the_lowest_peak_wins_over_a_higher_harmonic() {
        assert_eq!(lowest_peak(&[0.1, 0.8, 0.2, 0.3, 1.0, 0.4]), Some(1));
        assert_eq!(lowest_peak(&[0.1, 0.6, 0.2, 0.3, 1.0, 0.4]), Some(4));
        assert_eq!(lowest_peak(&[0.1, 0.7, 0.2, 0.3, 1.0, 0.4]), Some(1));
        // A plateau counts from its first value, and an edge is not a maximum.
        assert_eq!(lowest_peak(&[0.1, 0.9, 0.9, 0.1]), Some(1));
        assert_eq!(lowest_peak(&[1.0, 0.9, 0.8]), None);
        assert_eq!(lowest_peak(&[0.8, 0.9, 1.0]), None);
    }

    #[test]
    fn chance_of_a_strength() {
        // e⁻⁹ for one spacing, and for the best of ten.
        assert!((p_adjusted(100, 0.3, 1.0) / 1.234_098e-4 - 1.0).abs() < 1e-6);
        assert!((p_adjusted(100, 0.3, 10.0) / 1.233_413_3e-3 - 1.0).abs() < 1e-6);
        assert_eq!(p_adjusted(100, 0.0, 10.0), 1.0);
        let of = |p_adjusted, strength| Bands { spacing: 1.0, peak_spacing: 1.0, strength, p_adjusted };
        assert!(of(0.9e-3, 0.3).significant());
        assert!(!of(1e-3, 0.3).significant() && !of(0.9e-3, 0.29).significant());
    }

    #[test]
    fn turning_phases_equals_computing_them() {
        let mut u = minstd(5);
        let values: Vec<f64> = (0..40).map(|_| 50.0 * u()).collect();
        let grid = FrequencyGrid { lowest: 0.05, width: 9.0, step: 0.003, steps: 3000 };
        let scanned = scan(&values, &grid);
        assert_eq!(scanned.len(), 3000);
        for (i, found) in scanned.into_iter().enumerate() {
            assert!((found - strength(&values, grid.frequency(i))).abs() < 1e-9, "{i}");
        }
        let (c, s) = sums(&[0.25, 0.25], 1.0);
        assert!(c.abs() < 1e-12 && (s - 2.0).abs() < 1e-12);
        let (c, s) = sums(&[0.0, 1.0], 1.0);
        assert!((c - 2.0).abs() < 1e-12 && s.abs() < 1e-12);
    }

    #[test]
    fn bands_are_found_wherever_the_first_one_lies() {
        for phase in 0..20 {
            let first = f64::from(phase) * 0.15;
            let values: Vec<f64> =
                (0..12).map(|k| first + 3.0 * f64::from(k) + if k % 2 == 0 { 0.2 } else { -0.2 }).collect();
            let q = assign(&values, 1.0 / 3.01);
            assert!((q - 3.0).abs() < 0.02, "{first}: {q}");
        }
    }

    #[test]
    fn least_squares() {
        let line = |points: &[(f64, f64)]| fit_line(points.iter().copied());
        let (slope, intercept) = line(&[(1.0, 1.0), (2.0, 3.0), (4.0, 2.0)]).unwrap();
        assert!((slope - 3.0 / 14.0).abs() < 1e-12 && (intercept - 1.5).abs() < 1e-12);
        assert_eq!(line(&[(2.0, 1.0), (2.0, 5.0)]), None);
        assert_eq!(line(&[]), None);
    }

    #[test]
    fn fine_steps_in_a_coarse_one() {
        assert_eq!(steps_per_step(8.1, 4.0), Some(2));
        assert_eq!(steps_per_step(8.4, 4.0), None);
        assert_eq!(steps_per_step(4.0, 4.0), None);
        assert_eq!(steps_per_step(10.0, 4.0), None);
    }
}
