//! [`Clustering`]: test for losses that follow one another more closely than independent losses would.
//!
//! The runs test only considers whether losses are adjacent. A bad state that loses a third of the packets produces few
//! adjacent losses. This test therefore compares the distances between losses, at several scales, with those of
//! independent losses at the same rate.

use super::losses::Scattered;

/// Distances between consecutive losses that are tested, in packets.
const DISTANCES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Probability below which clustering at one distance is not attributed to chance.
const SIGNIFICANCE: f64 = 5e-4;
/// Minimum burst ratio (ITU-T G.107) of clusters. A lower one makes no difference to a decoder.
pub const MIN_RATIO: f64 = 1.25;
/// Divisor of the test's length: the local loss ratio is computed over a quarter of the test, so that a slow rise or
/// fall of the loss ratio does not look like clusters.
const NEIGHBOURHOOD: u64 = 4;
/// Number of losses at the mean ratio that are added to each neighbourhood. They stabilise the local ratio if there are
/// few losses.
const PRIOR_LOSSES: f64 = 8.0;

/// Clustering of losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustering {
    /// Distance between consecutive losses, in packets, at which the losses differ most from independent ones.
    pub distance: u64,
    /// Probability that independent losses differ at least this much at `distance`.
    pub chance: f64,
}

impl Clustering {
    /// Returns the clustering of `part`; `None` if its losses may be independent.
    pub fn of(part: &Scattered) -> Option<Clustering> {
        let rates = LocalRates::of(part)?;
        let mut best: Option<Clustering> = None;
        for distance in DISTANCES {
            // Larger distances also contain evenly spaced losses.
            if distance > 1 && distance as f64 * 3.0 * rates.mean > 1.0 || distance * 8 > rates.width {
                break;
            }
            let (mut close, mut expected, mut all) = (0.0, 0.0, 0.0);
            for (k, (run, _)) in part.runs.iter().enumerate() {
                let by_chance = 1.0 - (1.0 - rates.around(k)).powf(distance as f64);
                let adjacent = run.len.saturating_sub(1) as f64;
                close += adjacent;
                let next =
                    part.runs.get(k + 1).map(|(next, _)| next.start.saturating_sub(run.start + run.len - 1));
                let gaps = adjacent + if next.is_some() { 1.0 } else { 0.0 };
                close += if next.is_some_and(|gap| gap <= distance) { 1.0 } else { 0.0 };
                expected += gaps * by_chance;
                all += gaps;
            }
            if close < MIN_RATIO * expected {
                continue;
            }
            let chance = upper_tail(all as u64, close as u64, expected / f64::max(all, 1.0));
            if chance < SIGNIFICANCE && best.is_none_or(|b| chance < b.chance) {
                best = Some(Clustering { distance, chance });
            }
        }
        best
    }

    /// Returns the number of clusters in `part`: groups of losses whose gaps do not exceed `distance`.
    pub fn clusters(&self, part: &Scattered) -> u64 {
        let apart = |pair: &[(jitlat_core::metrics::seqset::SeqRun, _)]| {
            pair[1].0.start.saturating_sub(pair[0].0.start + pair[0].0.len - 1) > self.distance
        };
        part.runs.windows(2).filter(|pair| apart(pair)).count() as u64 + 1
    }
}

/// Local loss ratio around each run of losses.
struct LocalRates<'a> {
    part: &'a Scattered,
    /// Number of losses before each run; the last element is the total number.
    before: Vec<u64>,
    mean: f64,
    /// Number of packets in a neighbourhood.
    width: u64,
}

impl LocalRates<'_> {
    fn of(part: &Scattered) -> Option<LocalRates<'_>> {
        let lost = part.lost();
        if lost < 2 || lost >= part.sent {
            return None;
        }
        let mut before = Vec::with_capacity(part.runs.len() + 1);
        before.push(0);
        for (run, _) in &part.runs {
            before.push(before.last().copied().unwrap_or(0) + run.len);
        }
        Some(LocalRates {
            part,
            before,
            mean: lost as f64 / part.sent as f64,
            width: part.sent / NEIGHBOURHOOD,
        })
    }

    /// Returns the loss ratio around run `k`, leaving out this run.
    fn around(&self, k: usize) -> f64 {
        let (run, _) = self.part.runs[k];
        let half = self.width / 2;
        let [from, to] = [run.start.saturating_sub(half), run.start + half];
        let first = self.part.runs.partition_point(|(r, _)| r.start < from);
        let end = self.part.runs.partition_point(|(r, _)| r.start < to);
        let others = (self.before[end] - self.before[first]).saturating_sub(run.len) as f64;
        ((others + PRIOR_LOSSES) / (self.width as f64 + PRIOR_LOSSES / self.mean)).min(1.0)
    }
}

/// Returns the probability of at least `k` successes in `n` trials that succeed with probability `p`.
fn upper_tail(n: u64, k: u64, p: f64) -> f64 {
    if k == 0 || p >= 1.0 {
        return 1.0;
    }
    let (n_f, k_f) = (n as f64, k as f64);
    let mean = n_f * p;
    if n > 5000 {
        // For many losses, the Chernoff-Hoeffding bound is precise enough to compare scales.
        let share = (k_f / n_f).min(1.0 - 1e-12);
        let divergence = share * (share / p).ln() + (1.0 - share) * ((1.0 - share) / (1.0 - p)).ln();
        return if k_f > mean { (-n_f * divergence).exp() } else { 1.0 };
    }
    let mut log = (0..k).map(|j| ((n - j) as f64 / (k - j) as f64).ln()).sum::<f64>()
        + k_f * p.ln()
        + (n_f - k_f) * (1.0 - p).ln();
    let (mut sum, mut j) = (log.exp(), k);
    while j < n && log > -700.0 {
        log += ((n - j) as f64 / (j + 1) as f64).ln() + p.ln() - (1.0 - p).ln();
        sum += log.exp();
        j += 1;
        if log.exp() < 1e-12 * sum {
            break;
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scattered;

    #[test]
    fn the_tail_of_a_binomial_distribution() {
        assert!((upper_tail(10, 10, 0.5) - 1.0 / 1024.0).abs() < 1e-12);
        assert!((upper_tail(10, 9, 0.5) - 11.0 / 1024.0).abs() < 1e-12);
        assert!((upper_tail(3, 1, 0.1) - 0.271).abs() < 1e-12);
        assert_eq!(upper_tail(3, 0, 0.1), 1.0);
        assert!(upper_tail(10_000, 200, 0.01) < 1e-15 && upper_tail(10_000, 90, 0.01) == 1.0);
    }

    #[test]
    fn groups_of_isolated_losses_are_clusters() {
        // Ten groups of five losses, each four packets from the next: no two are adjacent.
        let lost = (0..10).flat_map(|group| (0..5).map(move |k| (300 * group + 4 * k, 1)));
        let part = scattered(3000, lost);
        let found = Clustering::of(&part).unwrap();
        assert!(found.distance >= 4 && found.chance < 1e-10, "{found:?}");
        assert_eq!(found.clusters(&part), 10);
    }

    #[test]
    fn even_and_few_losses_are_not_clusters() {
        assert_eq!(Clustering::of(&scattered(3000, (0..60).map(|k| (50 * k, 1)))), None);
        assert_eq!(Clustering::of(&scattered(3000, [(100, 1), (2000, 1)])), None);
        assert_eq!(Clustering::of(&scattered(3000, [])), None);
    }

    #[test]
    fn a_rate_that_rises_slowly_is_not_a_cluster() {
        // Independent losses with probabilities from 0 to 10 %.
        let mut state = 1u64;
        let lost = (0..10_000u64).filter(|seq| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 100_000 < *seq
        });
        let part = scattered(10_000, lost.map(|seq| (seq, 1)));
        assert!(part.lost() > 400);
        assert_eq!(Clustering::of(&part), None);
    }
}
