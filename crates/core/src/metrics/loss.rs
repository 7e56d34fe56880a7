//! Loss and its clustering (metrics §10; RFC 2680, 3357, 7680).

use super::burst_gap::BurstGap;
use super::dependence::{EventCounts, NoInterval, ShareInterval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Loss figures over sequence numbers 0…N−1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Loss {
    /// Lost packets divided by packets sent.
    pub ratio: Option<f64>,
    /// Number of loss bursts by length.
    pub run_length_hist: BTreeMap<u64, u64>,
    /// Number of loss bursts.
    pub periods: u64,
    /// The first ten loss bursts, each as [first sequence number, length].
    pub first_runs: Vec<[u64; 2]>,
    /// Number of losses by distance from the previous loss, for distances 1…20 (RFC 3357).
    pub loss_distance_hist_small: BTreeMap<u64, u64>,
    /// Share of losses that follow the previous loss by at most 99 packets (RFC 3357 §6.1).
    pub noticeable_rate_99: Option<f64>,
    /// Number of loss bursts by distance from the last loss of the previous burst (RFC 3357 §6.4).
    pub inter_loss_period_hist: BTreeMap<u64, u64>,
    /// The simple Gilbert model, whose bad state always loses packets, with the pair counts that determine it.
    pub gilbert: GilbertFit,
    /// Gilbert's model of 1960; `None` if it does not fit.
    pub gilbert1960: Option<Gilbert1960>,
    /// The four-parameter model; `None` unless it was requested and is better according to Akaike's criterion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// RFC 3611 bursts and gaps with Gmin 16.
    pub burst_gap_gmin16: BurstGap,
    /// 95 % Wilson interval of the ratio, assuming independent losses.
    pub wilson95: Option<[f64; 2]>,
    /// 95 % Wilson interval, widened for the correlation of neighbouring losses.
    pub wilson95_correlated: Option<[f64; 2]>,
    /// Correlation between the losses of neighbouring packets.
    pub lag1: Option<f64>,
    /// Loss events, and the interval of the ratio that accounts for bursts.
    pub events: ShareInterval,
    /// Upper limit of the ratio with 95 % confidence if nothing was lost: 3/N; otherwise `None`.
    pub rule_of_three: Option<f64>,
    /// Wald–Wolfowitz runs test.
    pub runs_test: Option<RunsTest>,
    /// Conclusion from the runs test.
    pub pattern: Option<LossPattern>,
}

/// The simple Gilbert model, and its pair counts n_xy (x, then y; 1 = lost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GilbertFit {
    /// Number of pairs: received, then received.
    pub n00: u64,
    /// Number of pairs: received, then lost.
    pub n01: u64,
    /// Number of pairs: lost, then received.
    pub n10: u64,
    /// Number of pairs: lost, then lost.
    pub n11: u64,
    /// P(lost | previous received).
    pub p: Option<f64>,
    /// P(received | previous lost).
    pub q: Option<f64>,
    /// Conditional loss probability P(lost | previous lost) = 1 − q.
    pub clp: Option<f64>,
    /// Unconditional loss probability: the loss ratio.
    pub ulp: Option<f64>,
    /// Mean length of a loss burst.
    pub mean_burst: Option<f64>,
    /// Mean length of a loss burst divided by the mean length for random loss with the same ratio: 1 is random, larger
    /// values are bursty.
    pub burst_ratio: Option<f64>,
}

/// Gilbert's model of 1960: the good state never loses packets, the bad state receives with probability h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Gilbert1960 {
    /// Probability of a change from the good to the bad state, per packet.
    pub p: f64,
    /// Probability of a change from the bad to the good state, per packet.
    pub r: f64,
    /// Probability that a packet is received in the bad state.
    pub h: f64,
}

/// The Gilbert–Elliott model, fitted by expectation-maximisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GilbertElliott {
    /// Probability of a change from the good to the bad state, per packet.
    pub p: f64,
    /// Probability of a change from the bad to the good state, per packet.
    pub r: f64,
    /// Probability that a packet is received in the bad state.
    pub h: f64,
    /// Probability that a packet is received in the good state.
    pub k: f64,
    /// Log-likelihood of the fitted model.
    pub log_likelihood: f64,
    /// Akaike's criterion of this model.
    pub aic: f64,
    /// Akaike's criterion of the simple Gilbert model on the same data.
    pub aic_simple: f64,
}

/// Wald–Wolfowitz test: compares the number of runs (of losses and of receptions) with the number that independent
/// losses would give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RunsTest {
    /// Number of runs of both kinds.
    pub runs: u64,
    /// Expected number of runs if losses were independent.
    pub mu: f64,
    /// Standard score of the number of runs: below −1.96 bursty, above 1.96 anti-clustered.
    pub z: Option<f64>,
}

/// Pattern of losses, according to the runs test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LossPattern {
    /// Fewer than ten losses, or fewer than ten receptions.
    Insufficient,
    /// Compatible with independent losses.
    Random,
    /// Clustered in bursts.
    Bursty,
    /// More evenly spread than random losses.
    AntiClustered,
}

use super::burst_gap::{GMIN, Segmenter};
use super::seqset::SeqRun;
use super::stat;

/// Loss distance up to which losses are noticeable (RFC 3357 §6.1).
pub const DELTA: u64 = 99;
/// Largest loss distance of the histogram.
const SMALL_DISTANCE: u64 = 20;
/// Number of loss bursts that are listed, from the start of the test.
const FIRST_RUNS: usize = 10;

/// Collects loss bursts, in ascending order, in constant memory except for histograms of lengths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LossScan {
    lost: u64,
    runs: u64,
    /// True if packet 0 was lost.
    from_start: bool,
    last: Option<SeqRun>,
    lengths: BTreeMap<u64, u64>,
    distances: BTreeMap<u64, u64>,
    between: BTreeMap<u64, u64>,
    first_runs: Vec<[u64; 2]>,
    noticeable: u64,
    /// Number of lost-lost-lost triples, and number of lost-received-lost triples.
    triples: (u64, u64),
    segmenter: Segmenter,
    /// Losses grouped into events; `None` if a run was removed, or in a state of an earlier version.
    #[serde(default)]
    events: Option<EventCounts>,
}

impl Default for LossScan {
    fn default() -> LossScan {
        LossScan {
            lost: 0,
            runs: 0,
            from_start: false,
            last: None,
            lengths: BTreeMap::new(),
            distances: BTreeMap::new(),
            between: BTreeMap::new(),
            first_runs: Vec::new(),
            noticeable: 0,
            triples: (0, 0),
            segmenter: Segmenter::new(GMIN),
            events: Some(EventCounts::default()),
        }
    }
}

impl LossScan {
    /// Returns the length of the longest loss burst so far; 0 if there is none.
    pub(crate) fn longest(&self) -> u64 {
        self.lengths.last_key_value().map_or(0, |(len, _)| *len)
    }

    /// Returns true if this can be the state when all losses so far have sequence numbers below `next`. Checks only the
    /// properties that computations rely on.
    pub(crate) fn is_possible(&self, next: u64) -> bool {
        let within = |run: [u64; 2]| run[1] > 0 && run[0].checked_add(run[1]).is_some_and(|end| end <= next);
        let last = match self.last {
            Some(run) => self.runs > 0 && within([run.start, run.len]),
            None => self.runs == 0 && !self.from_start,
        };
        let first = self.first_runs.len() <= FIRST_RUNS && self.first_runs.iter().all(|run| within(*run));
        let count = |of: &BTreeMap<u64, u64>| of.values().map(|count| u128::from(*count)).sum::<u128>();
        let lost = self.lengths.iter().map(|(len, runs)| u128::from(*len) * u128::from(*runs)).sum::<u128>();
        let counts = [self.runs, self.noticeable, self.triples.0, self.triples.1];
        last && first
            && self.lost <= next
            && lost == self.lost.into()
            && counts.iter().all(|count| *count <= self.lost)
            && [&self.lengths, &self.distances, &self.between].iter().all(|h| count(h) <= self.lost.into())
            && self.segmenter.is_possible(next)
            && self.events.as_ref().is_none_or(|events| events.is_possible(next, self.lost))
    }

    /// Adds the next loss burst.
    pub fn push(&mut self, run: SeqRun) {
        self.lost += run.len;
        self.runs += 1;
        self.from_start |= run.start == 0;
        *self.lengths.entry(run.len).or_default() += 1;
        if self.first_runs.len() < FIRST_RUNS {
            self.first_runs.push([run.start, run.len]);
        }
        if run.len > 1 {
            *self.distances.entry(1).or_default() += run.len - 1;
            self.noticeable += run.len - 1;
            self.triples.0 += run.len - 2;
        }
        // The first run's distance is 0 by RFC 3357 §5 and never noticeable.
        let distance = self.last.map_or(0, |last| run.start - (last.start + last.len - 1));
        *self.between.entry(distance).or_default() += 1;
        if (1..=SMALL_DISTANCE).contains(&distance) {
            *self.distances.entry(distance).or_default() += 1;
        }
        self.noticeable += u64::from((1..=DELTA).contains(&distance));
        self.triples.1 += u64::from(distance == 2);
        self.segmenter.push(run);
        if let Some(events) = &mut self.events {
            events.push(run.start, run.len);
        }
        self.last = Some(run);
    }

    /// Removes a run of packets that were wrongly counted as lost. Their effect on distances and bursts is not
    /// corrected, and events are unknown afterwards.
    pub(crate) fn remove(&mut self, run: SeqRun) {
        // Losses next to the run made a longer one of it.
        let Some((&counted, runs)) = self.lengths.range_mut(run.len..).next() else { return };
        *runs -= 1;
        if *runs == 0 {
            self.lengths.remove(&counted);
        }
        self.lost -= run.len;
        self.events = None;
        if counted > run.len {
            *self.lengths.entry(counted - run.len).or_default() += 1;
            return;
        }
        self.runs -= 1;
        self.from_start &= run.start > 0;
        self.first_runs.retain(|first| first[0] != run.start);
    }

    /// Returns the figures of the packets below `end`, sent every `period` ns. `uncounted` of them are
    /// ignored because their fate is unknown or they were never sent; the packets before and after them count
    /// as neighbours.
    pub fn finish(self, end: u64, uncounted: u64, period: Option<f64>) -> Loss {
        let n = end.saturating_sub(uncounted).max(self.lost);
        let to_end = self.last.is_some_and(|run| run.start + run.len >= end);
        let gilbert = GilbertFit::new(n, self.lost, self.runs, self.from_start, to_end);
        let lag1 = lag1(&gilbert, n, self.lost, self.from_start, to_end);
        let ratio = gilbert.ulp;
        let runs_test = runs_test(&gilbert, n, self.lost);
        Loss {
            ratio,
            periods: self.runs,
            first_runs: self.first_runs,
            loss_distance_hist_small: self.distances,
            noticeable_rate_99: (self.lost > 0).then(|| self.noticeable as f64 / self.lost as f64),
            inter_loss_period_hist: self.between,
            run_length_hist: self.lengths,
            gilbert1960: gilbert1960(&gilbert, n, self.lost, self.triples),
            gilbert,
            gilbert_elliott: None,
            burst_gap_gmin16: self.segmenter.finish(end, period),
            wilson95: stat::wilson95(self.lost, n),
            wilson95_correlated: widened(self.lost, n, lag1.unwrap_or(0.0)),
            lag1,
            events: self.events.as_ref().map_or(
                ShareInterval { absent: Some(NoInterval::NotRecorded), ..ShareInterval::default() },
                |events| events.share(end, n),
            ),
            rule_of_three: (self.lost == 0 && n > 0).then(|| (3.0 / n as f64).min(1.0)),
            runs_test,
            pattern: pattern(runs_test, n, self.lost),
        }
    }
}

/// Returns the figures for loss bursts among `n` packets sent every `period` ns.
pub fn loss(runs: impl Iterator<Item = SeqRun>, n: u64, period: Option<f64>) -> Loss {
    let mut scan = LossScan::default();
    runs.for_each(|run| scan.push(run));
    scan.finish(n, 0, period)
}

fn over(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl GilbertFit {
    fn new(n: u64, lost: u64, runs: u64, from_start: bool, to_end: bool) -> GilbertFit {
        let n11 = lost - runs;
        let n01 = runs - u64::from(from_start);
        let n10 = runs - u64::from(to_end);
        let n00 = n.saturating_sub(1).saturating_sub(n11 + n01 + n10);
        let mean_burst = over(lost, runs);
        let ulp = over(lost, n);
        GilbertFit {
            n00,
            n01,
            n10,
            n11,
            p: over(n01, n00 + n01),
            q: over(n10, n10 + n11),
            clp: over(n11, n10 + n11),
            ulp,
            mean_burst,
            burst_ratio: burst_ratio(lost, runs, n),
        }
    }
}

/// Returns the mean length of a loss burst divided by the mean length for random loss at the same ratio; `None` if no
/// packet or every packet is lost.
pub fn burst_ratio(lost: u64, runs: u64, n: u64) -> Option<f64> {
    (lost < n && runs > 0).then(|| lost as f64 / runs as f64 * (1.0 - lost as f64 / n as f64))
}

/// Returns the correlation between the losses of neighbouring packets, Σ(l_i − l̄)(l_{i+1} − l̄) / Σ(l_i − l̄)²; `None`
/// below three packets, or if no packet or every packet is lost.
fn lag1(g: &GilbertFit, n: u64, lost: u64, from_start: bool, to_end: bool) -> Option<f64> {
    if n < 3 || lost == 0 || lost >= n {
        return None;
    }
    let mean = lost as f64 / n as f64;
    let ends = (2 * lost - u64::from(from_start) - u64::from(to_end)) as f64;
    let products = g.n11 as f64 - mean * ends + (n - 1) as f64 * mean * mean;
    Some(products / (lost as f64 * (1.0 - mean)))
}

/// Returns Wilson's interval widened for correlated losses: its half-width is multiplied by √((1 + ρ)/(1 − ρ)). `None`
/// without packets.
fn widened(lost: u64, n: u64, rho: f64) -> Option<[f64; 2]> {
    let (centre, half) = stat::wilson_parts(lost, n)?;
    let rho = rho.clamp(0.0, 1.0);
    if rho >= 1.0 {
        return Some([0.0, 1.0]);
    }
    let half = half * ((1.0 + rho) / (1.0 - rho)).sqrt();
    let low = if lost == 0 { 0.0 } else { (centre - half).max(0.0) };
    Some([low, if lost == n { 1.0 } else { (centre + half).min(1.0) }])
}

/// Fits the three-parameter model; `None` if a parameter leaves its interval or there are fewer than 30
/// losses.
fn gilbert1960(g: &GilbertFit, n: u64, lost: u64, (lll, lrl): (u64, u64)) -> Option<Gilbert1960> {
    if lost < 30 || lost >= n {
        return None;
    }
    let (a, b, c) = (g.ulp?, g.clp?, over(lll, lll + lrl)?);
    let stay = (a * c - b * b) / (2.0 * a * c - b * (a + c));
    let h = 1.0 - b / stay;
    let r = 1.0 - stay;
    let p = a * r / (1.0 - h - a);
    let fits = stay < 1.0 && (0.0..1.0).contains(&h) && p > 0.0 && p < 1.0;
    fits.then_some(Gilbert1960 { p, r, h })
}

fn runs_test(g: &GilbertFit, n: u64, lost: u64) -> Option<RunsTest> {
    if lost == 0 || lost >= n {
        return None;
    }
    let runs = g.n01 + g.n10 + 1;
    let mu = 2.0 * (n - lost) as f64 * lost as f64 / n as f64 + 1.0;
    let variance = (mu - 1.0) * (mu - 2.0) / (n - 1) as f64;
    Some(RunsTest { runs, mu, z: (variance > 0.0).then(|| (runs as f64 - mu) / variance.sqrt()) })
}

fn pattern(test: Option<RunsTest>, n: u64, lost: u64) -> Option<LossPattern> {
    if n == 0 || lost == 0 {
        return None;
    }
    // With fewer of either kind, the number of runs is not normally distributed.
    if lost < 10 || n - lost < 10 {
        return Some(LossPattern::Insufficient);
    }
    Some(match test?.z? {
        z if z < -1.96 => LossPattern::Bursty,
        z if z > 1.96 => LossPattern::AntiClustered,
        _ => LossPattern::Random,
    })
}

impl Loss {
    /// Returns the length of the longest loss burst; 0 without losses.
    pub fn longest(&self) -> u64 {
        self.run_length_hist.keys().next_back().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bits: &[bool]) -> Loss {
        let mut runs: Vec<SeqRun> = Vec::new();
        for (i, _) in (0..).zip(bits).filter(|(_, lost)| **lost) {
            match runs.last_mut() {
                Some(run) if run.start + run.len == i => run.len += 1,
                _ => runs.push(SeqRun { start: i, len: 1 }),
            }
        }
        loss(runs.into_iter(), bits.len() as u64, Some(20e6))
    }

    fn pattern_of(s: &str) -> Vec<bool> {
        s.chars().map(|c| c == 'x').collect()
    }

    #[test]
    fn rfc_3357_section_5_4_3() {
        let l = of(&pattern_of("rxrrxrxrxx"));
        assert_eq!((l.periods, &l.first_runs[..]), (4, &[[1, 1], [4, 1], [6, 1], [8, 2]][..]));
        // Distances 0 3 2 2 1; distances between runs 0 3 2 2 (§6.4, §6.5).
        assert_eq!(l.loss_distance_hist_small, BTreeMap::from([(1, 1), (2, 2), (3, 1)]));
        assert_eq!(l.inter_loss_period_hist, BTreeMap::from([(0, 1), (2, 2), (3, 1)]));
        // metrics §10, V8.
        let g = l.gilbert;
        assert_eq!((g.n00, g.n01, g.n10, g.n11), (1, 4, 3, 1));
        assert_eq!((g.p, g.q, g.clp, g.burst_ratio), (Some(0.8), Some(0.75), Some(0.25), Some(0.625)));
    }

    #[test]
    fn rfc_3357_section_4() {
        let l = of(&pattern_of("rrrxrrxxxrxrrxxx"));
        assert_eq!(l.first_runs.iter().map(|r| r[0]).collect::<Vec<_>>(), [3, 6, 10, 13]);
        let g = l.gilbert;
        assert_eq!((g.n00, g.n01, g.n10, g.n11), (4, 4, 3, 4));
        assert_eq!(
            (g.p, g.q, g.mean_burst, g.burst_ratio),
            (Some(0.5), Some(3.0 / 7.0), Some(2.0), Some(1.0))
        );
        let t = l.runs_test.unwrap();
        assert_eq!((t.runs, t.mu), (8, 9.0));
        assert!((t.z.unwrap() + 0.517_549).abs() < 1e-6);
        assert_eq!(l.pattern, Some(LossPattern::Insufficient));
    }

    #[test]
    fn patterns_need_ten_of_each_and_z_beyond_1_96() {
        let of = |z| Some(RunsTest { runs: 1, mu: 1.0, z });
        for (z, found) in [
            (-1.97, LossPattern::Bursty),
            (-1.96, LossPattern::Random),
            (1.96, LossPattern::Random),
            (1.97, LossPattern::AntiClustered),
        ] {
            assert_eq!(pattern(of(Some(z)), 20, 10), Some(found), "{z}");
        }
        assert_eq!(pattern(of(Some(3.0)), 100, 9), Some(LossPattern::Insufficient));
        assert_eq!(pattern(of(Some(3.0)), 100, 91), Some(LossPattern::Insufficient));
        assert_eq!(pattern(of(Some(3.0)), 100, 0), None);
        assert_eq!(
            (pattern(None, 0, 0), pattern(None, 100, 50), pattern(of(None), 100, 50)),
            (None, None, None)
        );
    }

    #[test]
    fn the_interval_widens_with_correlation() {
        let [low, high] = stat::wilson95(20, 100).unwrap();
        assert_eq!(widened(20, 100, 0.0), Some([low, high]));
        assert_eq!(widened(20, 100, -0.5), Some([low, high]), "never narrower");
        // (1 + 0.6)/(1 − 0.6) = 4: the interval is twice as wide.
        let [wide_low, wide_high] = widened(20, 100, 0.6).unwrap();
        let (centre, half) = ((low + high) / 2.0, (high - low) / 2.0);
        assert!((wide_low - (centre - 2.0 * half)).abs() < 1e-12, "{wide_low}");
        assert!((wide_high - (centre + 2.0 * half)).abs() < 1e-12, "{wide_high}");
        assert_eq!(widened(5, 10, 0.99), Some([0.0, 1.0]));
        assert_eq!(widened(5, 1000, 1.0), Some([0.0, 1.0]));
        assert!(matches!(widened(0, 100, 0.1), Some([0.0, high]) if high > 0.0 && high < 0.1));
        assert!(matches!(widened(100, 100, 0.1), Some([low, 1.0]) if low > 0.9 && low < 1.0));
        assert_eq!(widened(0, 0, 0.1), None);
    }

    #[test]
    fn gilberts_model_of_1960_from_its_three_probabilities() {
        // a = P(loss) and b = P(loss after a loss) are given; c follows from the triples.
        let fitted = |a, b, triples| {
            let g = GilbertFit { ulp: Some(a), clp: Some(b), ..GilbertFit::default() };
            gilbert1960(&g, 1000, 30, triples)
        };
        // p = 0.1, r = 0.5, h = 0.2: a = p/(p + r)(1 − h), b = (1 − r)(1 − h), c = 2/3.
        let f = fitted(0.8 / 6.0, 0.4, (2, 1)).unwrap();
        assert!((f.p - 0.1).abs() < 1e-12 && (f.r - 0.5).abs() < 1e-12 && (f.h - 0.2).abs() < 1e-12, "{f:?}");
        assert_eq!(fitted(0.2, 0.6, (1, 0)), None, "h below 0");
        assert_eq!(fitted(0.6, 0.4, (1, 4)), None, "p above 1");
        assert_eq!(fitted(0.5, 0.3, (9, 17)), None, "p below 0");
        assert_eq!(fitted(0.9, 0.6, (8, 7)), None, "r below 0");
        let g = GilbertFit { ulp: Some(0.8 / 6.0), clp: Some(0.4), ..GilbertFit::default() };
        assert_eq!(gilbert1960(&g, 1000, 29, (2, 1)), None, "too few losses");
        assert_eq!(gilbert1960(&g, 30, 30, (2, 1)), None, "nothing but losses");
        assert_eq!(gilbert1960(&g, 1000, 30, (0, 0)), None, "no triples");
    }

    #[test]
    fn the_fewest_packets_that_have_a_figure() {
        assert_eq!((of(&pattern_of("xr")).lag1, of(&pattern_of("xr")).runs_test.unwrap().z), (None, None));
        assert!(of(&pattern_of("rxr")).lag1.is_some());
        assert_eq!((of(&[]).rule_of_three, of(&pattern_of("x")).rule_of_three), (None, None));
        assert_eq!(
            (of(&pattern_of("r")).rule_of_three, of(&[false; 30]).rule_of_three),
            (Some(1.0), Some(0.1))
        );
        assert_eq!((of(&[]).longest(), of(&pattern_of("xrxxxrxx")).longest()), (0, 3));
        assert_eq!(
            (burst_ratio(3, 1, 3), burst_ratio(0, 0, 9), burst_ratio(2, 1, 4)),
            (None, None, Some(1.0))
        );
    }

    #[test]
    fn rfc_3357_section_6_1() {
        let mut bits = [false; 200];
        for i in [50, 125, 126, 127] {
            bits[i] = true;
        }
        assert_eq!(of(&bits).noticeable_rate_99, Some(0.75));
    }

    #[test]
    fn gilbert_1960_is_recovered() {
        // metrics §10, V30, with the MINSTD generator defined there.
        let mut state = 2024u64;
        let mut uniform = || {
            state = state * 48_271 % 2_147_483_647;
            state as f64 / 2_147_483_647.0
        };
        let mut bad = false;
        let bits: Vec<bool> = (0..200_000)
            .map(|_| {
                let lost = bad && uniform() < 0.6;
                bad = if bad { uniform() >= 0.2 } else { uniform() < 0.02 };
                lost
            })
            .collect();
        let l = of(&bits);
        let f = l.gilbert1960.unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(f.p, 0.020933) && near(f.r, 0.209020) && near(f.h, 0.393401), "{f:?}");
        assert!(near(l.gilbert.p.unwrap(), 0.030404) && near(l.gilbert.q.unwrap(), 0.520192));
    }

    #[test]
    fn edges() {
        let none = of(&[]);
        assert_eq!((none.ratio, none.wilson95, none.gilbert.p, none.pattern), (None, None, None, None));
        let clean = of(&[false; 50]);
        assert_eq!((clean.ratio, clean.gilbert.p, clean.gilbert.q), (Some(0.0), Some(0.0), None));
        assert_eq!((clean.rule_of_three, clean.noticeable_rate_99), (Some(0.06), None));
        let all = of(&[true; 50]);
        assert_eq!(all.run_length_hist, BTreeMap::from([(50, 1)]));
        assert_eq!((all.gilbert.p, all.gilbert.q, all.gilbert.clp), (None, Some(0.0), Some(1.0)));
        assert_eq!(all.gilbert.burst_ratio, None);
    }

    proptest! {
        #[test]
        fn equals_the_definitions(bits in prop::collection::vec(prop::bool::weighted(0.3), 0..120)) {
            let l = of(&bits);
            let pairs = |a, b| bits.windows(2).filter(|w| w[0] == a && w[1] == b).count() as u64;
            let g = l.gilbert;
            prop_assert_eq!(
                (g.n00, g.n01, g.n10, g.n11),
                (pairs(false, false), pairs(false, true), pairs(true, false), pairs(true, true))
            );
            let n = bits.len() as f64;
            let mean = bits.iter().filter(|b| **b).count() as f64 / n;
            let x: Vec<f64> = bits.iter().map(|b| f64::from(u8::from(*b)) - mean).collect();
            let (c0, c1) = (x.iter().map(|v| v * v).sum::<f64>(), x.windows(2).map(|w| w[0] * w[1]).sum::<f64>());
            match l.lag1 {
                Some(r) => prop_assert!((r - c1 / c0).abs() < 1e-9),
                None => prop_assert!(bits.len() < 3 || c0 < 1e-9),
            }
            let losses: Vec<usize> = (0..bits.len()).filter(|i| bits[*i]).collect();
            let noticeable = losses.windows(2).filter(|w| w[1] - w[0] <= 99).count();
            prop_assert_eq!(l.noticeable_rate_99, (!losses.is_empty()).then(|| noticeable as f64 / losses.len() as f64));
        }
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let mut valid = LossScan::default();
        for (start, len) in [(0, 2), (10, 1), (28, 2)] {
            valid.push(SeqRun { start, len });
        }
        assert!(valid.is_possible(30) && !valid.is_possible(29));
        assert!(LossScan::default().is_possible(0));
        let with = |change: &fn(&mut LossScan)| {
            let mut changed = valid.clone();
            change(&mut changed);
            changed.is_possible(30)
        };
        let possible: &[fn(&mut LossScan)] = &[
            |s| s.last = Some(SeqRun { start: 29, len: 1 }),
            |s| s.first_runs = vec![[0, 30]; FIRST_RUNS],
            |s| (s.runs, s.noticeable, s.triples) = (5, 5, (5, 5)),
            |s| s.distances = BTreeMap::from([(3, 5)]),
            |s| s.between = BTreeMap::from([(3, 2), (4, 3)]),
        ];
        let impossible: &[fn(&mut LossScan)] = &[
            |s| s.last = None,
            |s| s.last = Some(SeqRun { start: 29, len: 0 }),
            |s| s.last = Some(SeqRun { start: 29, len: 2 }),
            |s| s.last = Some(SeqRun { start: u64::MAX, len: 2 }),
            |s| s.runs = 0,
            |s| s.first_runs = vec![[0, 30]; FIRST_RUNS + 1],
            |s| s.first_runs = vec![[0, 31]],
            |s| s.first_runs = vec![[0, 0]],
            |s| s.lost = 6,
            |s| s.lost = 4,
            |s| s.lengths = BTreeMap::from([(3, 2)]),
            |s| s.runs = 6,
            |s| s.noticeable = 6,
            |s| s.triples.0 = 6,
            |s| s.triples.1 = 6,
            |s| s.distances = BTreeMap::from([(3, 6)]),
            |s| s.between = BTreeMap::from([(3, 3), (4, 3)]),
            |s| s.segmenter = Segmenter::new(GMIN + 1),
        ];
        let found = |changes: &[fn(&mut LossScan)]| changes.iter().map(with).collect::<Vec<_>>();
        assert_eq!(found(possible), [true; 5]);
        assert_eq!(found(impossible), [false; 18]);
        // More packets lost than there are in total, with the same run lengths.
        let mut more = valid.clone();
        (more.lost, more.lengths, more.events) = (31, BTreeMap::from([(31, 1)]), None);
        assert!(more.is_possible(31) && !more.is_possible(30));
        let none = |change: fn(&mut LossScan)| {
            let mut changed = LossScan::default();
            change(&mut changed);
            changed.is_possible(30)
        };
        assert!(!none(|s| s.from_start = true), "no run begins there");
        assert!(
            !none(|s| (s.runs, s.lost, s.lengths) = (1, 1, BTreeMap::from([(1, 1)]))),
            "no run is the last"
        );
    }

    #[test]
    fn a_run_that_was_none_is_taken_out() {
        let mut scan = LossScan::default();
        assert_eq!(scan.longest(), 0);
        for (start, len) in [(0, 2), (10, 1), (20, 2), (30, 5)] {
            scan.push(SeqRun { start, len });
        }
        assert_eq!(scan.longest(), 5);
        scan.remove(SeqRun { start: 30, len: 5 });
        assert_eq!((scan.lost, scan.runs, scan.longest(), scan.from_start), (5, 3, 2, true));
        assert_eq!(scan.first_runs, [[0, 2], [10, 1], [20, 2]]);
        scan.remove(SeqRun { start: 0, len: 2 });
        assert_eq!((scan.lost, scan.runs, scan.from_start), (3, 2, false));
        assert_eq!(scan.lengths, BTreeMap::from([(1, 1), (2, 1)]));
        scan.remove(SeqRun { start: 50, len: 9 });
        assert_eq!((scan.lost, scan.runs), (3, 2), "no run is as long");
    }

    #[test]
    fn the_first_ten_runs_are_listed() {
        let found = of(&[true, false].repeat(12));
        assert_eq!((found.periods, found.first_runs.len()), (12, FIRST_RUNS));
    }
}
