//! The Gilbert–Elliott loss model by expectation-maximisation (metrics §10), on request.

use super::loss::{Gilbert, GilbertElliott};
use super::seqset::{SeqSet, absent};

const ITERATIONS: usize = 200;
/// Number of packets fitted, from the start of the stream; the time is linear in it.
const LONGEST: u64 = 1 << 18;
/// Reported only if Akaike's criterion improves by more.
const IMPROVEMENT: f64 = 2.0;

/// The model of the first `n` packets (at most 262 144), from the deterministic start of metrics §10;
/// `None` where a parameter leaves its interval or the simple model explains the losses as well.
pub fn fit(accepted: &SeqSet, n: u64, simple: &Gilbert) -> Option<GilbertElliott> {
    let n = n.min(LONGEST);
    let mut lost = vec![false; n as usize];
    for run in absent(accepted.runs(), n) {
        lost[run.start as usize..(run.start + run.len) as usize].fill(true);
    }
    let mut model = Model { p: simple.p?, r: simple.q?, h: 0.5, k: 0.999 };
    if !(model.p > 0.0 && model.p < 1.0 && model.r > 0.0 && model.r < 1.0) {
        return None;
    }
    let mut likelihood = f64::NEG_INFINITY;
    for _ in 0..ITERATIONS {
        let (next, found) = model.step(&lost)?;
        if (found - likelihood).abs() < 1e-9 * found.abs() {
            break;
        }
        (model, likelihood) = (next, found);
    }
    let Model { p, r, h, k } = model;
    let fits = [p, r, k].iter().all(|x| *x > 0.0 && *x <= 1.0) && (0.0..1.0).contains(&h) && k > h;
    let aic = 8.0 - 2.0 * likelihood;
    let aic_simple = 4.0 - 2.0 * simple_likelihood(&lost);
    (fits && aic < aic_simple - IMPROVEMENT).then_some(GilbertElliott {
        p,
        r,
        h,
        k,
        log_likelihood: likelihood,
        aic,
        aic_simple,
    })
}

#[derive(Clone, Copy)]
struct Model {
    p: f64,
    r: f64,
    h: f64,
    k: f64,
}

impl Model {
    /// One step of Baum and Welch with scaled probabilities, and the log-likelihood of the model before it.
    fn step(&self, lost: &[bool]) -> Option<(Model, f64)> {
        let Model { p, r, h, k } = *self;
        let emit = |lost: bool| if lost { [1.0 - k, 1.0 - h] } else { [k, h] };
        let mut forward = Vec::with_capacity(lost.len());
        let mut state = [r / (p + r), p / (p + r)];
        let mut likelihood = 0.0;
        for &l in lost {
            let e = emit(l);
            let joint = [state[0] * e[0], state[1] * e[1]];
            let scale = joint[0] + joint[1];
            if scale <= 0.0 || !scale.is_finite() {
                return None;
            }
            likelihood += scale.ln();
            let here = [joint[0] / scale, joint[1] / scale];
            forward.push((here, scale));
            state = [here[0] * (1.0 - p) + here[1] * r, here[0] * p + here[1] * (1.0 - r)];
        }
        // Expected transitions, stays, and losses by state.
        let (mut moves, mut stays, mut present, mut losses) = ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
        let mut backward = [1.0; 2];
        for (i, &l) in lost.iter().enumerate().rev() {
            let (here, _) = forward[i];
            let weight = [here[0] * backward[0], here[1] * backward[1]];
            let total = weight[0] + weight[1];
            for s in 0..2 {
                present[s] += weight[s] / total;
                losses[s] += if l { weight[s] / total } else { 0.0 };
            }
            if i == 0 {
                break;
            }
            let (before, _) = forward[i - 1];
            let (e, scale) = (emit(l), forward[i].1);
            let ahead = [e[0] * backward[0] / scale, e[1] * backward[1] / scale];
            stays[0] += before[0] * (1.0 - p) * ahead[0];
            moves[0] += before[0] * p * ahead[1];
            moves[1] += before[1] * r * ahead[0];
            stays[1] += before[1] * (1.0 - r) * ahead[1];
            backward = [(1.0 - p) * ahead[0] + p * ahead[1], r * ahead[0] + (1.0 - r) * ahead[1]];
        }
        let ratio = |a: f64, b: f64| if a + b > 0.0 { a / (a + b) } else { f64::NAN };
        let next = Model {
            p: ratio(moves[0], stays[0]),
            r: ratio(moves[1], stays[1]),
            h: 1.0 - losses[1] / present[1],
            k: 1.0 - losses[0] / present[0],
        };
        [next.p, next.r, next.h, next.k].iter().all(|x| x.is_finite()).then_some((next, likelihood))
    }
}

/// The likelihood of the two-state chain whose bad state always loses.
fn simple_likelihood(lost: &[bool]) -> f64 {
    let mut pairs = [[0.0f64; 2]; 2];
    for w in lost.windows(2) {
        pairs[usize::from(w[0])][usize::from(w[1])] += 1.0;
    }
    let ratio = lost.iter().filter(|l| **l).count() as f64 / lost.len() as f64;
    let first = if lost[0] { ratio } else { 1.0 - ratio };
    let row =
        |[a, b]: [f64; 2]| [a, b].iter().filter(|x| **x > 0.0).map(|x| x * (x / (a + b)).ln()).sum::<f64>();
    first.ln() + row(pairs[0]) + row(pairs[1])
}

#[cfg(test)]
mod tests {
    use super::super::loss::loss;
    use super::*;

    #[test]
    fn recovers_a_model_with_losses_in_both_states() {
        let mut state = 2024u64;
        let mut uniform = || {
            state = state * 48_271 % 2_147_483_647;
            state as f64 / 2_147_483_647.0
        };
        let (mut accepted, mut bad) = (SeqSet::default(), false);
        for seq in 0..100_000 {
            if uniform() < if bad { 0.4 } else { 0.995 } {
                accepted.insert(seq);
            }
            bad = if bad { uniform() >= 0.2 } else { uniform() < 0.02 };
        }
        let simple = loss(absent(accepted.runs(), 100_000), 100_000, None).gilbert;
        let f = fit(&accepted, 100_000, &simple).unwrap();
        assert!((f.p - 0.02).abs() < 0.004 && (f.r - 0.2).abs() < 0.03, "{f:?}");
        assert!((f.h - 0.4).abs() < 0.05 && (f.k - 0.995).abs() < 0.002, "{f:?}");
        assert!(f.aic < f.aic_simple);
    }

    #[test]
    fn nothing_to_fit() {
        let mut accepted = SeqSet::default();
        (0..50).for_each(|seq| {
            accepted.insert(seq);
        });
        assert_eq!(fit(&accepted, 50, &Gilbert::default()), None);
    }
}
