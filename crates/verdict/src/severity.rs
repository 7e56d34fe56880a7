//! Severity of impairments for users of the path: all thresholds, with their sources.

use jitlat_core::answer::Severity;
use jitlat_core::distribution::{OrderStatistics, Percent, Quantiles, Sample, extremes};
use jitlat_core::metrics::dependence::share_exceeds;
use jitlat_core::metrics::emodel::{self, DelayModel};
use std::borrow::Cow;

/// Largest values that count as good, fair and poor.
type GradeLimits = [f64; 3];

/// Minimum speech ratings R for good, fair and poor: ITU-T G.109 calls 80 and above *high* or *best*, 70 *medium*, 60
/// *low*.
const RATING_LIMITS: GradeLimits = [80.0, 70.0, 60.0];
/// Limits of the share of packets that are lost or late. 3GPP TS 22.105 allows 1 % for a videophone and 3 % for
/// speech; 10 % is a choice of this project.
const MISSING_LIMITS: GradeLimits = [0.01, 0.03, 0.10];
/// Limits of the play-out buffer, in ns. ITU-T Y.1541 allows a delay variation of 50 ms. G.114 recommends at most 150
/// ms from mouth to ear in total, and never more than 400 ms.
const BUFFER_LIMITS: GradeLimits = [50e6, 100e6, 300e6];
/// Limits of the length of an outage, in s. A word is lost in 200 ms (3GPP TS 22.105 counts longer outages as
/// interruptions); 2 s interrupt a conversation.
const OUTAGE_LIMITS: GradeLimits = [0.0, 0.2, 2.0];
/// Limits of the share of time without a path: the complement of ITU-T Y.1540's service availability of 99.99, 99.9 and
/// 99 %.
const UNAVAILABLE_LIMITS: GradeLimits = [1e-4, 1e-3, 1e-2];

/// Codec of the rated speech: G.711 with concealment (ITU-T G.113: Ie 0, Bpl 25.1) in packets of 20 ms.
const SPEECH_CODEC: (f64, f64, f64) = (0.0, 25.1, 20e6);

fn level(value: f64, limits: GradeLimits) -> Severity {
    let worse = limits.iter().filter(|limit| value > **limit).count();
    [Severity::Good, Severity::Fair, Severity::Poor, Severity::Bad][worse]
}

/// Returns the severity of a `share` of lost or late packets, of which `count` were observed among `packets`.
pub fn of_missing(share: f64, count: u64, packets: u64) -> Severity {
    shown_level(share, count, packets, MISSING_LIMITS)
}

/// Returns the level of a `share` of lost or late packets, of which `count` were observed among `packets`, with these
/// limits. For a level, the lower end of the 95 % interval must be above half of its limit, because a few packets may be
/// chance. The packets count as independent even if they are lost in bursts: a grade is about the packets of this test,
/// and with an interval by events the grade would improve if a burst became longer.
pub fn shown_level(share: f64, count: u64, packets: u64, limits: [f64; 3]) -> Severity {
    let observed = count.min(packets) as f64 / packets as f64;
    let shown = |limit: &&f64| share_exceeds(observed, packets as f64, **limit / 2.0);
    let worse = limits.iter().take_while(|limit| share > **limit).take_while(shown).count();
    [Severity::Good, Severity::Fair, Severity::Poor, Severity::Bad][worse]
}

/// Returns the severity of a `share` of lost or late packets, regardless of their number.
pub fn level_of_missing(share: f64) -> Severity {
    level(share, MISSING_LIMITS)
}

/// Returns the severity of an E-model rating R of speech.
pub fn of_rating(rating: f64) -> Severity {
    level(-rating, RATING_LIMITS.map(|limit| -limit))
}

/// Limits the severity of a program's stall to fair: a stall affects users of this host, but is not a fault of the
/// path.
pub fn of_host(severity: Severity) -> Severity {
    severity.min(Severity::Fair)
}

/// Returns the severity of a wait of `ns` in a queue.
pub fn of_wait(ns: i64) -> Severity {
    level(ns as f64, BUFFER_LIMITS)
}

/// Returns the severity of outages in a test of `duration` seconds, given the length of the longest one and their total
/// length in seconds.
pub fn of_outage(longest: f64, total: f64, duration: f64) -> Severity {
    level(longest, OUTAGE_LIMITS).min(level(total / duration.max(total), UNAVAILABLE_LIMITS))
}

/// Smallest recommended play-out buffer, in ns. It is about the precision of two clocks and of a program's timer.
pub const MIN_BUFFER_NS: i64 = 1_000_000;
/// Smallest play-out buffer of speech, in ns: half a packet of 20 ms. No player uses a smaller one.
pub const MIN_SPEECH_BUFFER_NS: i64 = 10_000_000;

/// Distribution of waits: delays minus the smallest delay.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Waits in ns, ascending, each with the share of received packets that wait longer.
    points: Vec<(i64, f64)>,
}

/// Percentiles of the waits that are tried as buffer sizes, in thousandths of a percent.
const SHARES: [u32; 13] =
    [50_000, 75_000, 90_000, 95_000, 97_000, 98_000, 99_000, 99_500, 99_700, 99_800, 99_900, 99_990, 100_000];

impl Waits {
    /// Computes the waits of `n` packets with these `delays`, the smallest of which is `min`.
    pub fn new(delays: &Quantiles<'_>, min: i64, n: u64) -> Waits {
        let point = |p: u32| {
            let x = delays.edf(Percent(p))?;
            Some((x.saturating_sub(min), 1.0 - delays.count_at_most(x) as f64 / n.max(1) as f64))
        };
        let later = |wait: i64| 1.0 - delays.count_at_most(min.saturating_add(wait)) as f64 / n.max(1) as f64;
        Waits::with_least(SHARES.into_iter().filter_map(point).collect(), later)
    }

    /// Returns the wait that this share of the packets does not exceed, in ns; `None` without packets. `share` must be
    /// one of the percentiles for which waits are stored.
    pub fn at(&self, share: f64) -> Option<i64> {
        let reached = self.points.iter().find(|(_, later)| *later <= 1.0 - share + 1e-9);
        reached.or(self.points.last()).map(|(wait, _)| *wait)
    }

    /// Adds the smallest buffers to `points`. `later` returns the share of packets that wait longer than a given time.
    fn with_least(mut points: Vec<(i64, f64)>, later: impl Fn(i64) -> f64) -> Waits {
        if !points.is_empty() {
            points.extend([MIN_BUFFER_NS, MIN_SPEECH_BUFFER_NS].map(|wait| (wait, later(wait))));
            points.sort_by_key(|(wait, _)| *wait);
        }
        Waits { points }
    }

    /// Computes the waits of sorted delays.
    pub fn exact(sample: &Sample) -> Waits {
        let Some(min) = sample.min() else { return Waits::default() };
        Waits::new(&Quantiles::Exact(Cow::Borrowed(sample)), min, sample.len() as u64)
    }

    /// Computes the waits of unsorted delays.
    pub fn of(delays: &[i64]) -> Waits {
        let Some(bounds) = extremes(delays.iter().copied()) else { return Waits::default() };
        let order = OrderStatistics::new(delays.iter().copied(), delays.len(), bounds, &SHARES.map(Percent));
        let at_most = |x: i64| delays.iter().filter(|delay| **delay <= x).count();
        let point = |p: u32| {
            let x = order.edf(Percent(p))?;
            Some((x.saturating_sub(bounds[0]), 1.0 - at_most(x) as f64 / delays.len() as f64))
        };
        let later = |wait: i64| 1.0 - at_most(bounds[0].saturating_add(wait)) as f64 / delays.len() as f64;
        Waits::with_least(SHARES.into_iter().filter_map(point).collect(), later)
    }
}

/// Impairments that an application would experience, leaving out outages.
#[derive(Clone, Debug)]
pub struct Experience {
    /// Waits: delays minus the smallest delay.
    pub waits: Waits,
    /// Number of packets known to be received or lost.
    pub sent: u64,
    /// Number of packets that were lost.
    pub lost: u64,
    /// Mean length of loss bursts, divided by that of independent losses.
    pub burst_ratio: f64,
    /// Variance of the loss ratio, relative to independent losses; 1 without losses.
    pub loss_effect: f64,
    /// Smallest one-way delay, in ns; `None` if unknown.
    pub base_ns: Option<f64>,
    /// Largest error of `base_ns` because of the clocks, in ns.
    pub base_error_ns: f64,
}

/// Effect of a fixed play-out buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Played {
    /// Size of the buffer, in ns.
    pub buffer_ns: i64,
    /// Share of packets that are lost, or too late for the buffer.
    pub missing: f64,
    /// E-model rating R of speech.
    pub rating: f64,
    /// Severity of the worst effect.
    pub severity: Severity,
}

impl Played {
    /// Returns the severity of the lost and late packets among `sent` packets.
    pub fn of_missing(&self, sent: u64) -> Severity {
        of_missing(self.missing, (self.missing * sent as f64).round() as u64, sent)
    }

    /// Returns the severity of the delay that the buffer adds.
    pub fn of_wait(&self) -> Severity {
        of_wait(self.buffer_ns)
    }
}

impl Experience {
    /// Iterates over the buffers of at least `least` ns, ascending, each with the share of packets that are lost or too
    /// late for it.
    pub fn buffers(&self, least: i64) -> impl Iterator<Item = (i64, f64)> + '_ {
        let received = self.sent.saturating_sub(self.lost) as f64;
        let sent = self.sent.max(1) as f64;
        self.waits
            .points
            .iter()
            .filter(move |(wait, _)| *wait >= least)
            .map(move |(wait, later)| (*wait, (self.lost as f64 + later * received) / sent))
    }

    /// Returns the E-model rating R of speech with a buffer of `buffer_ns`, given the share `missing` of packets that
    /// are lost or late.
    pub fn rating(&self, buffer_ns: i64, missing: f64) -> f64 {
        let (ie, bpl, codec_ns) = SPEECH_CODEC;
        let delay = self.base_ns.unwrap_or(0.0).max(0.0) + codec_ns + buffer_ns as f64;
        let model = DelayModel::Idd;
        model.base() - model.impairment(delay / 1e6) - emodel::equipment(ie, bpl, missing, self.burst_ratio)
    }

    /// Returns the recommended buffer: among the buffers with the lowest severity, the smallest whose speech rating is
    /// within one point of the best rating. `None` if nothing arrived.
    pub fn best(&self) -> Option<Played> {
        let played: Vec<Played> = self
            .buffers(MIN_BUFFER_NS)
            .map(|(buffer_ns, missing)| {
                let rating = self.rating(buffer_ns, missing);
                let gone = of_missing(missing, (missing * self.sent as f64).round() as u64, self.sent);
                let speech = of_rating(rating);
                Played { buffer_ns, missing, rating, severity: gone.max(speech).max(of_wait(buffer_ns)) }
            })
            .collect();
        let least = played.iter().map(|p| p.severity).min()?;
        let good = || played.iter().filter(|p| p.severity == least);
        let best = good().map(|p| p.rating).fold(f64::MIN, f64::max);
        good().find(|p| p.rating >= best - 1.0).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, SECOND, first};
    use jitlat_core::metrics::dependence::beta_interval;

    #[test]
    fn a_level_needs_more_than_a_count() {
        assert_eq!(of_missing(1.0 / 700.0, 1, 700), Severity::Good);
        assert_eq!(of_missing(0.01001, 1, 99), Severity::Good, "one of a hundred may be chance");
        assert_eq!(of_missing(0.013, 13, 1000), Severity::Fair);
        assert_eq!(of_missing(0.05, 50, 1000), Severity::Poor);
        assert_eq!(of_missing(0.3, 300, 1000), Severity::Bad);
    }

    #[test]
    fn outages_by_length_and_by_share() {
        assert_eq!(of_outage(3.0, 3.0, 20.0), Severity::Bad);
        assert_eq!(of_outage(0.6, 0.6, 20.0), Severity::Poor);
        assert_eq!(of_outage(0.15, 0.15, 20.0), Severity::Fair);
        assert_eq!(of_outage(3.0, 3.0, 86_400.0), Severity::Good);
    }

    #[test]
    fn the_buffer_is_the_smallest_that_does() {
        let ms = 1_000_000;
        // One packet in ten waits 30 ms, one in a thousand 400 ms.
        let waits: Vec<i64> =
            (0..10_000).map(|i| if i % 1000 == 7 { 400 * ms } else { i % 10 / 9 * 30 * ms }).collect();
        let of = |waits: &[i64], lost: u64| Experience {
            waits: Waits::exact(&Sample::new(waits.iter().copied())),
            sent: waits.len() as u64 + lost,
            lost,
            burst_ratio: 1.0,
            loss_effect: 1.0,
            base_ns: Some(20e6),
            base_error_ns: 0.0,
        };
        assert_eq!(Waits::of(&waits).points, of(&waits, 0).waits.points);
        let best = of(&waits, 0).best().unwrap();
        assert_eq!((best.buffer_ns, best.severity), (30 * ms, Severity::Good));
        assert_eq!(of(&waits, 600).best().unwrap().severity, Severity::Poor);
        // A queue of 200 ms half of the time cannot be hidden.
        let queued: Vec<i64> = (0..1000).map(|i| i / 500 * 200 * ms).collect();
        assert_eq!(of(&queued, 0).best().unwrap().severity, Severity::Poor);
        assert_eq!(of(&[], 10).best(), None);
    }

    /// Returns the smallest numbers for which `of` returns fair, poor and bad.
    fn borders(range: core::ops::RangeInclusive<i64>, of: impl Fn(i64) -> Severity) -> [i64; 3] {
        [Severity::Fair, Severity::Poor, Severity::Bad].map(|level| first(range.clone(), |x| of(x) >= level))
    }

    #[test]
    fn a_limit_that_is_met_exactly_is_kept() {
        assert_eq!(borders(0..=SECOND, of_wait), [50 * MS + 1, 100 * MS + 1, 300 * MS + 1]);
        // With a million packets the interval is narrow.
        let of_parts = |n: i64| of_missing(n as f64 / 1e6, 1_000_000, 1_000_000);
        assert_eq!(borders(0..=1_000_000, of_parts), [10_001, 30_001, 100_001]);
        let of_length = |ms: i64| of_outage(ms as f64 / 1e3, 1e3, 1e3);
        assert_eq!(borders(0..=10_000, of_length), [1, 201, 2001]);
        let of_total = |ms: i64| of_outage(10.0, ms as f64 / 1e3, 100.0);
        assert_eq!(borders(0..=10_000, of_total), [11, 101, 1001]);
        // The whole known part of the test is an outage.
        assert_eq!(of_outage(3.0, 3.0, 0.0), Severity::Bad);
    }

    #[test]
    fn more_losses_never_improve_the_grade() {
        for packets in [100, 1000, 100_000] {
            let of = |lost: u64| of_missing(lost as f64 / packets as f64, lost, packets);
            assert!((0..packets).all(|lost| of(lost) <= of(lost + 1)), "{packets}");
        }
    }

    #[test]
    fn the_lower_end_of_the_interval_is_above_half_the_limit() {
        let least = |k: i64| beta_interval(k as f64 / 1e3, 1e3).unwrap()[0];
        let low = |share: f64| first(0..=1000, |k| 2.0 * least(k) > share);
        let of = |events: i64| of_missing(1.0, events as u64, 1000);
        assert_eq!(borders(0..=1000, of), [low(0.01), low(0.03), low(0.1)]);
        assert_eq!(of_missing(1.0, 1001, 1000), Severity::Bad);
        assert_eq!(of_missing(1.0, 0, 0), Severity::Good);
    }

    #[test]
    fn what_a_program_did_is_fair_at_worst() {
        assert_eq!(
            [Severity::Good, Severity::Fair, Severity::Bad].map(of_host),
            [Severity::Good, Severity::Fair, Severity::Fair]
        );
    }

    /// 1000 received packets and 20 lost ones. `shares`: numbers of received packets with their wait; the others do
    /// not wait.
    fn lived(shares: &[(i64, i64)]) -> Experience {
        let mut waits = vec![0; 1000];
        let mut end = 1000;
        for (count, wait) in shares {
            waits[end - *count as usize..end].fill(*wait);
            end -= *count as usize;
        }
        Experience {
            waits: Waits::exact(&Sample::new(waits.iter().map(|w| w + 5 * MS))),
            sent: 1020,
            lost: 20,
            burst_ratio: 1.0,
            loss_effect: 1.0,
            base_ns: Some(20e6),
            base_error_ns: 0.0,
        }
    }

    #[test]
    fn a_buffer_leaves_out_the_lost_and_the_late() {
        let lived = lived(&[(10, 300 * MS), (240, 40 * MS)]);
        let buffers: Vec<(i64, f64)> = lived.buffers(0).collect();
        // The median, three quarters, and so on, up to all received packets.
        assert_eq!(buffers.len(), SHARES.len() + 2);
        let table = [
            (0, 0, 20.0 + 250.0),
            (2, MIN_BUFFER_NS, 20.0 + 250.0),
            (3, MIN_SPEECH_BUFFER_NS, 20.0 + 250.0),
            (4, 40 * MS, 20.0 + 10.0),
            (14, 300 * MS, 20.0),
        ];
        for (k, wait, missing) in table {
            assert_eq!(buffers[k].0, wait);
            assert!((buffers[k].1 - missing / 1020.0).abs() < 1e-12, "{:?}", buffers[k]);
        }
    }

    #[test]
    fn speech_is_rated_by_delay_and_by_what_is_missing() {
        let of = |base_ns, buffer, missing| Experience { base_ns, ..lived(&[]) }.rating(buffer, missing);
        let model = DelayModel::Idd;
        let expected = |ms: f64, missing: f64| {
            model.base() - model.impairment(ms) - emodel::equipment(0.0, 25.1, missing, 1.0)
        };
        // The path, 20 ms of the codec, the buffer.
        assert_eq!(of(Some(150e6), 80 * MS, 0.0), expected(250.0, 0.0));
        assert_eq!(of(Some(150e6), 80 * MS, 0.02), expected(250.0, 0.02));
        assert!(expected(250.0, 0.02) < expected(250.0, 0.0) && expected(250.0, 0.0) < expected(240.0, 0.0));
        assert_eq!(of(Some(-150e6), 230 * MS, 0.0), expected(250.0, 0.0));
        assert_eq!(of(None, 230 * MS, 0.0), expected(250.0, 0.0));
    }

    #[test]
    fn the_worst_effect_decides() {
        let best = |base_ms: i64, lost, shares: &[(i64, i64)]| {
            let sent = 1000 + lost;
            let base_ns = Some(base_ms as f64 * 1e6);
            Experience { base_ns, sent, lost, ..lived(shares) }.best().unwrap().severity
        };
        // Without waits and losses the delay alone decides, by the rating of speech.
        let rating = |ms: i64| {
            Experience { base_ns: Some(ms as f64 * 1e6), lost: 0, sent: 1000, ..lived(&[]) }
                .rating(MIN_BUFFER_NS, 0.0)
        };
        let falls_below = |limit: f64| first(0..=2000, |ms| rating(ms) < limit);
        assert_eq!(
            borders(0..=2000, |ms| best(ms, 0, &[])),
            [falls_below(80.0), falls_below(70.0), falls_below(60.0)]
        );
        assert_eq!(best(0, 40, &[]), Severity::Poor);
        // One of fifty may be chance.
        let few = Experience { sent: 50, lost: 1, ..lived(&[]) };
        assert_eq!(few.best().unwrap().severity, Severity::Good);
        assert_eq!(best(0, 0, &[(500, 120 * MS)]), Severity::Poor);
    }

    #[test]
    fn of_buffers_that_do_as_well_the_smallest_within_a_point_of_the_best() {
        // A larger buffer loses less and delays more; the rating decides.
        for wait in (1..40).map(|k| k * MS) {
            let lived = Experience { lost: 0, sent: 1000, ..lived(&[(2, wait), (60, wait / 2)]) };
            let rated: Vec<(i64, f64)> =
                lived.buffers(MIN_BUFFER_NS).map(|(b, missing)| (b, lived.rating(b, missing))).collect();
            let best = lived.best().unwrap();
            assert_eq!(best.severity, Severity::Good);
            let top = rated.iter().map(|r| r.1).fold(f64::MIN, f64::max);
            let smallest = rated.iter().find(|r| r.1 >= top - 1.0).unwrap();
            assert_eq!((best.buffer_ns, best.rating), *smallest);
        }
    }

    #[test]
    fn what_is_played_says_what_it_costs() {
        let of = |buffer_ns, missing| Played { buffer_ns, missing, rating: 90.0, severity: Severity::Good };
        assert_eq!(of(100 * MS, 0.0).of_wait(), Severity::Fair);
        let missing = |share, sent| of(0, share).of_missing(sent);
        assert_eq!(missing(0.02, 10_000), Severity::Fair);
        assert_eq!(missing(0.02, 50), Severity::Good, "one packet of fifty may be chance");
    }
}
