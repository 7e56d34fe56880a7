//! [`LossLaw`]: the pattern of losses that neither an outage nor a full queue explains.

use super::clustering::{Clustering, MIN_RATIO};
use super::delays::{Delays, SendPattern};
use super::losses::{LossTimes, Pattern, Scattered};
use super::periodic::LossPeriod;
use jitlat_core::evidence::Evidence;
use jitlat_core::evidence::KnownPackets;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::spec::Schedule;

/// Kind of loss pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossManner {
    /// Packets are lost independently of each other.
    Random,
    /// Packets are lost in bursts.
    Bursty,
    /// Packets above a rate limit are dropped.
    Policed,
    /// Packets are lost at regular intervals.
    Periodic,
    /// Packets of this size, in bytes, or longer ones are lost.
    BySize(u16),
}

/// The pattern of losses, and the evidence for it.
#[derive(Clone, Debug)]
pub struct LossLaw {
    /// Kind of pattern.
    pub manner: LossManner,
    /// Loss ratio among all packets.
    pub ratio: f64,
    /// Number of lost packets.
    pub lost: u64,
    /// First and last lost packet if the losses are confined to a part of the test, otherwise first and last packet of
    /// the test.
    pub packets: [u64; 2],
    /// Statistics of the loss bursts.
    pub pattern: Pattern,
    /// Number of clusters of losses, and mean number of lost packets per cluster.
    pub clusters: [f64; 2],
    /// Period; `None` unless the losses are periodic.
    pub period: Option<LossPeriod>,
    /// Part of the test to which the losses are confined; `None` if there are losses in the whole test.
    pub part: Option<ConfinedLoss>,
    /// Confidence in the pattern, 0…1.
    pub confidence: f64,
}

/// Part of a test that contains all or nearly all losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfinedLoss {
    /// Loss ratio in the part.
    pub ratio: f64,
    /// True if there are no losses elsewhere.
    pub is_all: bool,
}

/// A kind of pattern and the statistics that indicate it.
#[derive(Clone, Copy, Debug)]
struct FoundManner {
    manner: LossManner,
    confidence: f64,
    clustering: Option<Clustering>,
    period: Option<LossPeriod>,
}

impl FoundManner {
    const fn new(manner: LossManner, confidence: f64) -> FoundManner {
        FoundManner { manner, confidence, clustering: None, period: None }
    }
}

/// Loss ratio that does not count as a fault: one packet in a thousand, as in classes 0 to 4 of ITU-T Y.1541.
const ALLOWED_LOSS: f64 = 1e-3;
/// Minimum number of losses that can form a pattern.
const MIN_LOSSES: u64 = 4;
/// Standard score that independent losses exceed in one of a hundred tests, two-sided.
const MIN_Z: f64 = 2.576;
/// Minimum share of all losses in the part of the test to which losses are considered confined. With several clusters,
/// the densest one contains a smaller share and is reported as a cluster.
const MIN_CONFINED: f64 = 0.85;
/// Maximum loss ratio of periodic losses that are not attributed to a rate limit. Rate limits that pass 11 of 12
/// packets are rare.
const MAX_PERIODIC_SHARE: f64 = 1.0 / 12.0;
/// Maximum loss ratio of periodic losses that are not attributed to a rate limit, if their events are at least
/// [`MIN_LONG_PERIOD_NS`] apart. It is larger than [`MAX_PERIODIC_SHARE`] because token buckets are refilled more
/// often.
const MAX_LONG_PERIODIC_SHARE: f64 = 0.25;
/// Minimum time between events for [`MAX_LONG_PERIODIC_SHARE`], in ns.
const MIN_LONG_PERIOD_NS: f64 = 450e6;
/// Maximum loss ratio that is not attributed to a rate limit if exactly one packet in every N is lost, at any position
/// in the test.
const MAX_EXACT_SHARE: f64 = 0.125;
/// Minimum loss ratio at which a rate limit is recognised: it drops nothing until its bucket is empty.
const MIN_BUCKET_SHARE: f64 = 0.05;

impl LossLaw {
    /// Returns the pattern of `all` losses among the packets `known`; `None` if there are too few losses.
    pub fn of(
        material: &Evidence<'_>,
        known: KnownPackets,
        delays: &Delays<'_>,
        all: &Scattered,
    ) -> Option<LossLaw> {
        if !material.shows_loss() {
            return None;
        }
        let lost = all.lost();
        // A loss ratio whose interval reaches down to the permitted ratio is not a fault, whatever its pattern.
        if lost < MIN_LOSSES || !all.exceeds(ALLOWED_LOSS) {
            return None;
        }
        let is_confined = |part: &Scattered| part.lost() as f64 >= MIN_CONFINED * lost as f64;
        let stretch = all.stretch().filter(|s| is_confined(&all.within(*s)));
        let part = stretch.map_or_else(|| all.clone(), |s| all.within(s));
        // Outside the part there are few losses, which would dilute its pattern.
        let pattern = part.pattern();
        let found = manner(material, known, delays, &part, pattern);
        let FoundManner { manner, confidence, clustering, period } = found;
        let clusters = match clustering {
            Some(clustering) => clustering.clusters(&part),
            None => part.runs.len() as u64,
        };
        let clusters = [clusters as f64, part.lost() as f64 / clusters.max(1) as f64];
        let first = part.runs.first().map_or(0, |(_, o)| o.start);
        let last = part.runs.last().map_or(0, |(_, o)| o.start + o.len - 1);
        let end = known.end.saturating_sub(1);
        // A rate limit also acts where it drops nothing, so it is reported to the end of the test.
        let begins_late = manner == LossManner::Policed && first > known.end / 100;
        let packets = match stretch {
            Some(_) => [first, last],
            None if begins_late => [first, end],
            None => [0, end],
        };
        let ratio = all.ratio();
        let part = stretch.map(|_| ConfinedLoss { ratio: part.ratio(), is_all: part.lost() == lost });
        Some(LossLaw { manner, ratio, lost, packets, pattern, clusters, period, part, confidence })
    }
}

fn manner(
    material: &Evidence<'_>,
    known: KnownPackets,
    delays: &Delays<'_>,
    part: &Scattered,
    pattern: Pattern,
) -> FoundManner {
    // The most specific explanations are tried first, because more general ones would also fit.
    if let Some(size) = by_size(material, known, part) {
        return FoundManner::new(LossManner::BySize(size), 0.95);
    }
    let departures = LossTimes::new(delays, material.session);
    let period = LossPeriod::of(part, &departures).filter(|p| !is_of_a_bucket(p, part, delays.together()));
    if period.is_some() {
        return FoundManner { period, ..FoundManner::new(LossManner::Periodic, 0.95) };
    }
    if lets_even_rate_through(delays, &departures, part) {
        return FoundManner::new(LossManner::Policed, 0.95);
    }
    let even = pattern.z.is_some_and(|z| z > MIN_Z) && part.ratio() > 0.02;
    let regular = pattern.spacing.is_some_and(|s| s < 0.45) && run_lengths_agree(part);
    let spaced = regular && part.runs.len() >= 9;
    if even && pattern.spacing.is_none_or(|s| s < 0.7) || spaced {
        return FoundManner::new(LossManner::Policed, 0.95);
    }
    if follows_rate(material, delays, part) {
        return FoundManner::new(LossManner::Policed, 0.9);
    }
    if let Some(clustering) = Clustering::of(part) {
        let confidence = if clustering.chance < 1e-6 { 0.97 } else { 0.93 };
        let found = FoundManner::new(LossManner::Bursty, confidence);
        return FoundManner { clustering: Some(clustering), ..found };
    }
    let (manner, confidence) = match pattern.z {
        Some(z) if z < -MIN_Z && pattern.burst_ratio >= MIN_RATIO => (LossManner::Bursty, 0.9),
        // Few losses in two or three bursts.
        None if part.runs.len() >= 2 && pattern.burst_ratio >= 2.0 => (LossManner::Bursty, 0.8),
        Some(z) => (LossManner::Random, if z.abs() < 1.96 { 0.95 } else { 0.9 }),
        None => (LossManner::Random, 0.85),
    };
    FoundManner::new(manner, confidence)
}

/// Returns true if a token bucket explains losses with this `period`. A bucket, too, drops packets at equal distances,
/// but only once it is empty; it then drops a large share of the packets, or the same packets of each burst of `burst`
/// packets.
fn is_of_a_bucket(period: &LossPeriod, part: &Scattered, burst: usize) -> bool {
    let share = part.ratio();
    if period.exact && period.events >= 10 && burst > 1 && period.packets == burst as f64 {
        return true;
    }
    if period.exact && period.events >= 10 && period.length <= 1.0 && share <= MAX_EXACT_SHARE {
        return false;
    }
    let begins_late = period.first as f64 > 1.25 * period.packets + 1.0;
    if share > MAX_PERIODIC_SHARE {
        return begins_late || share > MAX_LONG_PERIODIC_SHARE || period.ns < MIN_LONG_PERIOD_NS;
    }
    share >= MIN_BUCKET_SHARE && begins_late
}

/// Number of equal parts into which the test is divided for comparing rates. On average, a part needs
/// [`MIN_LOSSES_PER_PART`] losses and one loss burst.
const PARTS: usize = 24;
/// Minimum average number of losses per part.
const MIN_LOSSES_PER_PART: u64 = 3;
/// Maximum variance of the parts, relative to the variance of independent losses. By chance, one test in ten thousand
/// is below this limit (chi-squared, 23 degrees of freedom).
const MAX_EVEN_VARIATION: f64 = 0.25;

/// Returns true if the number of packets that pass in equal times is the same, regardless of the number sent, and far
/// more uniform than with independent losses or bursts. This defines a rate limit, whether its token bucket is filled
/// continuously or in steps.
pub fn lets_even_rate_through(delays: &Delays<'_>, departures: &LossTimes<'_, '_>, part: &Scattered) -> bool {
    let (lost, runs) = (part.lost(), part.runs.len());
    let (Some((_, first)), Some((_, last))) = (part.runs.first(), part.runs.last()) else { return false };
    if lost < MIN_LOSSES_PER_PART * PARTS as u64 || runs < PARTS {
        return false;
    }
    let (from, to) = (departures.of(first.start), departures.of(last.start + last.len));
    let each = to.saturating_sub(from) / PARTS as i64;
    if each <= 0 {
        return false;
    }
    let in_part =
        |t: i64| usize::try_from(t.saturating_sub(from).div_euclid(each)).ok().filter(|k| *k < PARTS);
    let mut passed = [0.0; PARTS];
    let series = delays.series();
    // Consecutive packets are nearly always in the same part.
    let (mut part_of, mut ends) = (None, i64::MIN..i64::MIN);
    delays.each_time(series.position_of(first.start)..series.position_of(last.start + last.len), |t| {
        if !ends.contains(&t) {
            part_of = in_part(t);
            let begin = part_of.map_or(t, |part| from.saturating_add(each.saturating_mul(part as i64)));
            ends = begin..part_of.map_or(begin, |_| begin.saturating_add(each));
        }
        part_of.into_iter().for_each(|part: usize| passed[part] += 1.0);
    });
    let mut sent = passed;
    for (_, run) in &part.runs {
        for k in departures.of_lost(run).filter_map(in_part) {
            sent[k] += 1.0;
        }
    }
    let mean = |of: &[f64; PARTS]| of.iter().sum::<f64>() / PARTS as f64;
    let variance = |of: &[f64; PARTS]| {
        let mean = mean(of);
        of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64
    };
    let share = mean(&passed) / mean(&sent);
    // Variance for bursts of this length according to a two-state Gilbert chain.
    let leaves = runs as f64 / lost as f64;
    let enters = leaves * (1.0 - share) / share.max(1e-9);
    let stays = (1.0 - leaves - enters).clamp(0.0, 0.99);
    let by_chance = share * (1.0 - share) * mean(&sent) * (1.0 + stays) / (1.0 - stays);
    let expected = share * share * variance(&sent) + by_chance;
    // An expected variance of 2 or less is dominated by the boundaries of the parts.
    variance(&passed) < MAX_EVEN_VARIATION * expected && expected > 2.0
}

fn run_lengths_agree(part: &Scattered) -> bool {
    let lengths: Vec<f64> = part.runs.iter().map(|(r, _)| r.len as f64).collect();
    let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
    let variance = lengths.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / lengths.len().max(1) as f64;
    variance.sqrt() <= 0.35 * mean + 0.5
}

/// Returns true if packets are mostly lost where they were sent close together. If intervals vary, a token bucket has
/// this effect.
fn follows_rate(material: &Evidence<'_>, delays: &Delays<'_>, part: &Scattered) -> bool {
    let Some(period) = material.period() else { return false };
    // A correlation among fewer losses may be due to chance.
    if part.runs.len() < 12 {
        return false;
    }
    let bursts = match (material.session.spec.schedule(), delays.pace()) {
        (Schedule::Burst { size }, _) => Some(u64::from(size)),
        (_, SendPattern::Bursts(size)) => Some(size as u64),
        (_, SendPattern::Even) => return false,
        (_, SendPattern::Varied) => None,
    };
    match bursts {
        // In a burst, the packets after the first one are close together.
        Some(size) => {
            if size < 2 {
                return false;
            }
            let places =
                part.runs.iter().flat_map(|(_, o)| (o.start..o.start + o.len).map(|seq| (seq % size) as f64));
            let (n, sum) = places.fold((0.0, 0.0), |(n, s), p| (n + 1.0, s + p));
            let middle = (size - 1) as f64 / 2.0;
            let error = (((size * size - 1) as f64) / 12.0 / n).sqrt();
            (sum / n - middle) / error > 5.0
        }
        None => {
            let departures = LossTimes::new(delays, material.session);
            [3u64, 8, 20].iter().any(|before| {
                let gap = |run: &SeqRun| {
                    let from = run.start.checked_sub(*before)?;
                    Some(departures.of(run.start).saturating_sub(departures.of(from)) as f64 / *before as f64)
                };
                let gaps: Vec<f64> = part.runs.iter().filter_map(|(_, o)| gap(o)).collect();
                let n = gaps.len() as f64;
                let mean = gaps.iter().sum::<f64>() / n.max(1.0);
                let error = period as f64 / (*before as f64 * n.max(1.0)).sqrt();
                (mean - period as f64) / error < -4.5
            })
        }
    }
}

/// Returns the smallest packet size that is lost while shorter packets arrive, for tests that alternate between sizes.
/// `None` if losses do not depend on the size.
fn by_size(material: &Evidence<'_>, known: KnownPackets, part: &Scattered) -> Option<u16> {
    let notes = material.notes;
    let sizes = &notes.sizes;
    // If no packet of one size in the cycle arrived, that size is the one that the test declares.
    let declared = material.session.payload()?;
    let one = notes.only_size();
    if sizes.is_empty() && one.is_none() || part.runs.len() < 8 {
        return None;
    }
    // The shortest cycle of sizes that fits all rows; the size of rows before the second size is unknown.
    let fits = |cycle: u32| {
        let mut turn: Vec<Option<u16>> = vec![None; cycle as usize];
        sizes
            .iter()
            .all(|(seq, size)| *turn[(seq % cycle) as usize].get_or_insert(*size) == *size)
            .then_some(turn)
    };
    // If all received packets have the same size, the positions of the losses reveal the cycle of sizes.
    let turns_lost = |cycle: u32| {
        let first = part.runs.first().map_or(0, |(_, run)| run.start);
        part.runs.iter().all(|(_, run)| run.len == 1 && (run.start - first).is_multiple_of(cycle.into()))
    };
    let (cycle, turn) = match one {
        None => (2..=64).find_map(|cycle| Some((cycle, fits(cycle)?)))?,
        Some(size) => {
            let cycle = (2..=64).rev().find(|cycle| turns_lost(*cycle))?;
            let lost = part.runs.first().map_or(0, |(_, run)| run.start % u64::from(cycle));
            (cycle, (0..u64::from(cycle)).map(|k| Some(size).filter(|_| k != lost)).collect())
        }
    };
    let mut lost = vec![0u64; cycle as usize];
    for (_, run) in &part.runs {
        // The limit bounds the time that long outages take.
        (run.start..run.start + run.len.min(100_000))
            .for_each(|seq| lost[(seq % u64::from(cycle)) as usize] += 1);
    }
    let each = (known.end / u64::from(cycle)).max(1);
    let all: u64 = lost.iter().sum();
    let size = |k: usize| turn[k].unwrap_or(declared);
    let largest = (0..cycle as usize).filter(|k| lost[*k] * 5 > each).map(size).min()?;
    let long: u64 = (0..cycle as usize).filter(|k| size(*k) >= largest).map(|k| lost[k]).sum();
    let turns = (0..cycle as usize).filter(|k| size(*k) >= largest).count() as u64;
    let (in_long, in_short) = (
        long as f64 / (each * turns) as f64,
        (all - long) as f64 / (each * (u64::from(cycle) - turns)).max(1) as f64,
    );
    (turns < u64::from(cycle) && long * 10 >= all * 9 && in_long > 8.0 * in_short).then_some(largest)
}

#[cfg(test)]
mod tests;
