//! Bands: round-trip or one-way times that cluster at multiples of a spacing, as cell- and frame-based
//! links and sleeping hosts make them (metrics §21).

use serde::Serialize;
use std::f64::consts::TAU;

/// A spacing at which the values cluster, in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bands {
    /// Distance of neighbouring bands.
    pub spacing: f64,
    /// The same, computed from the characteristic function only, before values were assigned to bands.
    pub peak_spacing: f64,
    /// |Σ exp(2πi·y/q)|/n: 1 is perfectly quantised.
    pub strength: f64,
    /// Rayleigh's p, adjusted for the spacings tried.
    pub p_adjusted: f64,
}

impl Bands {
    /// Whether it is strong and certain enough to be reported.
    pub fn significant(&self) -> bool {
        self.p_adjusted < 1e-3 && self.strength >= 0.3
    }
}

/// Longer series are thinned to this.
const MOST: usize = 4000;
/// A scan is never finer than this many frequencies.
const MOST_STEPS: f64 = 200_000.0;

/// The spacing between `shortest` and `longest` that `values` cluster at most: the lowest-frequency local
/// maximum of the characteristic function with at least 0.7 of the global one (so that harmonics do not
/// win), refined. Report it if it is [significant](Bands::significant). `None` where there is no maximum
/// inside. `shortest` should exceed four times the resolution of the clocks.
pub fn spacing(values: &[f64], shortest: f64, longest: f64) -> Option<Bands> {
    let values: Vec<f64> = values
        .iter()
        .copied()
        .filter(|v| v.is_finite())
        .step_by(values.len().div_ceil(MOST).max(1))
        .collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = high - low;
    if range <= 0.0 || !range.is_finite() || shortest <= 0.0 || longest <= shortest {
        return None;
    }
    // Only differences count: from the smallest value, phases keep their digits.
    let values: Vec<f64> = values.iter().map(|v| v - low).collect();
    let (from, to) = (1.0 / longest, 1.0 / shortest);
    let step = (1.0 / (8.0 * range)).max((to - from) / MOST_STEPS);
    let strengths = scan(&values, from, step, ((to - from) / step) as usize + 1);
    let highest = strengths.iter().copied().fold(0.0, f64::max);
    let peak = strengths.windows(3).position(|w| w[1] >= w[0] && w[1] >= w[2] && w[1] >= 0.7 * highest)?;
    let frequency = refine(&values, from + peak as f64 * step, from + (peak + 2) as f64 * step);
    let strength = strength(&values, frequency);
    let tried = (range * (to - from)).ceil().max(1.0);
    let single = (-(values.len() as f64) * strength * strength).exp();
    Some(Bands {
        spacing: assign(&values, frequency),
        peak_spacing: 1.0 / frequency,
        strength,
        p_adjusted: if single < 1.0 { -(tried * (-single).ln_1p()).exp_m1() } else { 1.0 },
    })
}

/// The strengths at `steps` frequencies: every value's phase is turned on by a step instead of computed anew.
fn scan(values: &[f64], from: f64, step: f64, steps: usize) -> Vec<f64> {
    /// Number of steps after which accumulated rounding errors are removed.
    const AFRESH: usize = 1024;
    let angles = |f: f64| values.iter().map(move |v| (TAU * f * v).sin_cos()).collect::<Vec<_>>();
    let turns = angles(step);
    let mut now = Vec::new();
    let mut strengths = Vec::with_capacity(steps);
    for i in 0..steps {
        if i % AFRESH == 0 {
            now = angles(from + i as f64 * step);
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

/// Golden-section search for the maximum.
fn refine(values: &[f64], mut a: f64, mut b: f64) -> f64 {
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..80 {
        let (c, d) = (b - golden * (b - a), a + golden * (b - a));
        if strength(values, c) > strength(values, d) { b = d } else { a = c }
    }
    (a + b) / 2.0
}

/// Gives every value its band and fits a line through (band, value), five times.
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

/// Slope and intercept of least squares; `None` where x does not vary.
pub fn fit_line(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<(f64, f64)> {
    let (n, x, y) = points.clone().fold((0.0, 0.0, 0.0), |(n, sx, sy), (x, y)| (n + 1.0, sx + x, sy + y));
    let (mx, my) = (x / n, y / n);
    let (sxx, sxy) =
        points.fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + (x - mx) * (x - mx), xy + (x - mx) * (y - my)));
    (sxx > 0.0).then(|| (sxy / sxx, my - sxy / sxx * mx))
}

/// How many of the fine steps make a coarse one, if the ratio is within 2 % of an integer.
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
}
