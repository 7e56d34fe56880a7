//! The Gilbert–Elliott loss model, fitted by expectation-maximisation (metrics §10), on request.

use super::loss::{GilbertElliott, GilbertFit};
use super::seqset::SeqRun;

/// Maximum number of steps. The fit ends earlier once the likelihood no longer improves.
const ITERATIONS: usize = 200;
/// Maximum number of packets fitted, from the start of the stream; computing time is linear in it.
const MAX_FITTED_PACKETS: u64 = 1 << 18;
/// Minimum improvement of Akaike's criterion at which the model is reported. With a smaller one, both models explain
/// the losses about equally well.
const MIN_IMPROVEMENT: f64 = 2.0;

/// Fits the model to the first `n` packets (at most 262 144), of which those in `runs` were lost, from the fixed start
/// values of metrics §10. `None` if a parameter leaves its interval, or if the simple model explains the losses equally
/// well.
pub fn fit(runs: impl Iterator<Item = SeqRun>, n: u64, simple: &GilbertFit) -> Option<GilbertElliott> {
    let n = n.min(MAX_FITTED_PACKETS);
    let mut lost = vec![false; n as usize];
    for run in runs.take_while(|run| run.start < n) {
        lost[run.start as usize..(run.start + run.len).min(n) as usize].fill(true);
    }
    let mut model = ChainParameters { p: simple.p?, r: simple.q?, h: 0.5, k: 0.999 };
    if ![model.p, model.r].iter().all(|x| *x > 0.0 && *x < 1.0) {
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
    let ChainParameters { p, r, h, k } = model;
    let fits = [p, r, k].iter().all(|x| *x > 0.0 && *x <= 1.0) && (0.0..1.0).contains(&h) && k > h;
    let aic = 8.0 - 2.0 * likelihood;
    let aic_simple = 4.0 - 2.0 * simple_likelihood(&lost);
    (fits && aic < aic_simple - MIN_IMPROVEMENT).then_some(GilbertElliott {
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
struct ChainParameters {
    p: f64,
    r: f64,
    h: f64,
    k: f64,
}

impl ChainParameters {
    /// Does one Baum–Welch step with scaled probabilities. Returns the new parameters and the log-likelihood
    /// of the old ones.
    fn step(&self, lost: &[bool]) -> Option<(ChainParameters, f64)> {
        let ChainParameters { p, r, h, k } = *self;
        let emit = |lost: bool| if lost { [1.0 - k, 1.0 - h] } else { [k, h] };
        let mut forward = Vec::with_capacity(lost.len());
        let mut state = [r / (p + r), p / (p + r)];
        let mut likelihood = 0.0;
        for &l in lost {
            let e = emit(l);
            let joint = [state[0] * e[0], state[1] * e[1]];
            let scale = joint[0] + joint[1];
            likelihood += scale.ln();
            let here = [joint[0] / scale, joint[1] / scale];
            forward.push((here, scale));
            state = [here[0] * (1.0 - p) + here[1] * r, here[0] * p + here[1] * (1.0 - r)];
        }
        // Expected numbers of transitions, stays and losses by state.
        let (mut moves, mut stays, mut present, mut losses) = ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
        let mut backward = [1.0; 2];
        for (i, &l) in lost.iter().enumerate().rev() {
            let (here, _) = forward[i];
            for s in 0..2 {
                let share = here[s] * backward[s];
                present[s] += share;
                losses[s] += if l { share } else { 0.0 };
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
        let ratio = |a: f64, b: f64| a / (a + b);
        let next = ChainParameters {
            p: ratio(moves[0], stays[0]),
            r: ratio(moves[1], stays[1]),
            h: 1.0 - losses[1] / present[1],
            k: 1.0 - losses[0] / present[0],
        };
        // Undefined if the model rules out a loss that occurred, or if no packet leaves or stays in a state.
        [next.p, next.r, next.h, next.k].iter().all(|x| x.is_finite()).then_some((next, likelihood))
    }
}

/// Returns the log-likelihood of the two-state chain whose bad state loses every packet.
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
    use super::super::seqset::{SeqSet, absent};
    use super::*;

    /// Returns the packets that are received among `n` packets of the chain (p, r, h, k).
    fn arrived(n: u32, [p, r, h, k]: [f64; 4]) -> SeqSet {
        let mut state = 2024u64;
        let mut uniform = || {
            state = state * 48_271 % 2_147_483_647;
            state as f64 / 2_147_483_647.0
        };
        let (mut accepted, mut bad) = (SeqSet::default(), false);
        for seq in 0..n {
            if uniform() < if bad { h } else { k } {
                accepted.insert(seq);
            }
            bad = if bad { uniform() >= r } else { uniform() < p };
        }
        accepted
    }

    fn fitted(accepted: &SeqSet, n: u64) -> Option<GilbertElliott> {
        fit(absent(accepted.runs(), n), n, &loss(absent(accepted.runs(), n), n, None).gilbert)
    }

    #[test]
    fn recovers_a_model_with_losses_in_both_states() {
        let f = fitted(&arrived(30_000, [0.02, 0.2, 0.4, 0.995]), 30_000).unwrap();
        assert!((f.p - 0.02).abs() < 0.004 && (f.r - 0.2).abs() < 0.03, "{f:?}");
        assert!((f.h - 0.4).abs() < 0.05 && (f.k - 0.995).abs() < 0.002, "{f:?}");
        assert!(f.aic < f.aic_simple);
    }

    #[test]
    fn agrees_with_another_program() {
        // Reference values from an independent Python implementation of the textbook forward-backward
        // algorithm.
        let f = fitted(&arrived(600, [0.05, 0.2, 0.4, 0.97]), 600).unwrap();
        let expected = [
            (f.p, 0.060_067_806_400_591_76),
            (f.r, 0.271_421_097_017_488),
            (f.h, 0.311_424_578_658_116_1),
            (f.k, 0.966_949_301_950_174_8),
            (f.log_likelihood, -224.197_902_599_256_45),
            (f.aic, 456.395_805_198_512_9),
            (f.aic_simple, 464.144_600_062_966_2),
        ];
        for (found, expected) in expected {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn one_step() {
        let accepted = arrived(600, [0.05, 0.2, 0.4, 0.97]);
        let lost: Vec<bool> = (0..600).map(|seq| !accepted.contains(seq)).collect();
        let (p, r) = (0.102_362_204_724_409_45, 0.571_428_571_428_571_4);
        let (next, likelihood) = ChainParameters { p, r, h: 0.5, k: 0.999 }.step(&lost).unwrap();
        assert!((likelihood + 242.313_361_440_417_6).abs() < 1e-9, "{likelihood}");
        let expected = [
            (next.p, 0.129_310_183_595_116_67),
            (next.r, 0.417_161_274_534_474_54),
            (next.h, 0.362_637_207_440_178),
            (next.k, 0.998_650_942_548_194_9),
        ];
        for (found, expected) in expected {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        }
        // A model in which losses are impossible.
        assert!(ChainParameters { p, r, h: 1.0, k: 1.0 }.step(&lost).is_none());
    }

    #[test]
    fn the_simple_model_is_kept_where_it_explains_as_much() {
        // The bad state always loses, the good one never does.
        assert_eq!(fitted(&arrived(3000, [0.05, 0.3, 0.0, 1.0]), 3000), None);
        // States that no packet stays in, or that are never left.
        let mut every_other = SeqSet::default();
        (0..100).step_by(2).for_each(|seq| _ = every_other.insert(seq));
        assert_eq!(fitted(&every_other, 100), None);
    }

    #[test]
    fn nothing_to_fit() {
        let mut accepted = SeqSet::default();
        (0..50).for_each(|seq| {
            accepted.insert(seq);
        });
        assert_eq!(fit(absent(accepted.runs(), 50), 50, &GilbertFit::default()), None);
    }

    #[test]
    fn two_more_parameters_must_earn_their_place() {
        // Akaike's criterion improves by 0.36 according to the same Python program: not enough.
        let accepted = arrived(300, [0.05, 0.2, 0.4, 0.97]);
        assert_eq!(fitted(&accepted, 300), None);
    }

    #[test]
    fn the_start_lies_inside() {
        let accepted = arrived(600, [0.05, 0.2, 0.4, 0.97]);
        let from = |p, q| {
            fit(
                absent(accepted.runs(), 600),
                600,
                &GilbertFit { p: Some(p), q: Some(q), ..GilbertFit::default() },
            )
            .is_some()
        };
        assert!(from(0.1, 0.5));
        for (p, q) in [(0.0, 0.5), (1.0, 0.5), (0.1, 0.0), (0.1, 1.0), (f64::NAN, 0.5), (0.1, f64::NAN)] {
            assert!(!from(p, q), "{p} {q}");
        }
    }

    #[test]
    fn the_likelihood_of_the_simple_model_by_hand() {
        // Received, lost, received, received: ¾ for the first, ½ each after a received packet, 1 after the
        // loss.
        let found = simple_likelihood(&[false, true, false, false]);
        assert!((found - f64::ln(0.75 * 0.25)).abs() < 1e-12, "{found}");
        // Lost, lost, received: ⅔ for the first, then ½ each.
        let found = simple_likelihood(&[true, true, false]);
        assert!((found - f64::ln(2.0 / 3.0 * 0.25)).abs() < 1e-12, "{found}");
    }
}
