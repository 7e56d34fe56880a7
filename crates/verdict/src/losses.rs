//! [`PathLosses`]: lost packets of one direction, divided into outages and other losses.

use super::delays::{Delays, SendPattern};
use jitlat_core::evidence::bounded;
use jitlat_core::metrics::dependence::{EventCounts, share_exceeds};
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::session::Session;
use jitlat_core::spec::Schedule;

/// Runs of lost packets, divided into outages and others.
#[derive(Clone, Debug, Default)]
pub struct PathLosses {
    /// Number of packets known to be received or lost.
    pub sent: u64,
    /// All runs of lost packets, in ascending order.
    pub runs: Vec<SeqRun>,
    /// True for each run that is an outage.
    outage: Vec<bool>,
    /// Length of each run, in ns; `None` if it is too short to be noticed as a gap.
    gaps: Vec<Option<i64>>,
}

/// Shortest outage among other losses, in ns. It is three times the gap that speech concealment bridges (ITU-T G.711
/// Appendix I fades to silence within 60 ms), and longer than most loss bursts.
const MIN_OUTAGE_NS: i64 = 180_000_000;
/// Shortest outage without other losses: its length in ns, and its number of lost packets.
const MIN_LONE_OUTAGE: (i64, u64) = (100_000_000, 4);
/// Share of a minimum length that suffices. Five packets at intervals of 20 ms may take a few microseconds less than
/// 100 ms.
const LENGTH_TOLERANCE: f64 = 0.97;
/// Maximum number of gaps that count as outages if there are no other losses.
const MAX_LONE_OUTAGES: usize = 6;
/// Maximum variation (standard deviation divided by mean) of the lengths of outages. Geometric lengths, as in bursts,
/// vary by nearly 1.
const MAX_LENGTH_VARIATION: f64 = 0.5;
/// Minimum number of runs for a meaningful variation of their lengths.
const MIN_RUNS_FOR_VARIATION: usize = 6;
/// Minimum length, in ns, of an outage in which only three packets are lost.
const LONG_GAP_NS: i64 = 1_000_000_000;

fn reaches(time: i64, least: i64) -> bool {
    time as f64 >= LENGTH_TOLERANCE * least as f64
}

/// Returns the standard deviation of lengths divided by their mean.
fn variation(lengths: &[u64]) -> f64 {
    let n = lengths.len().max(1) as f64;
    let mean = lengths.iter().sum::<u64>() as f64 / n;
    let variance = lengths.iter().map(|l| (*l as f64 - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() / mean.max(1.0)
}

impl PathLosses {
    /// Divides `runs` of lost packets, among `sent` packets, into outages and others. `length` returns the length of a
    /// run in ns.
    pub fn new(runs: Vec<SeqRun>, sent: u64, length: impl Fn(&SeqRun) -> i64) -> PathLosses {
        let mut lengths: Vec<u64> = runs.iter().map(|r| r.len).collect();
        lengths.sort_unstable();
        let count = runs.len();
        let median = lengths.get(count / 2).copied().unwrap_or(1).max(1);
        // Length that geometric runs with this median exceed in only one of a hundred tests.
        let stay = 0.5f64.powf(1.0 / median as f64);
        let unlikely = (0.01 / count.max(1) as f64).ln() / stay.ln();
        // Three lost packets are too few for a gap unless they take long: a slow stream has few packets per second.
        let is_gap = |run: &SeqRun| {
            let time = length(run);
            let packets = if time >= LONG_GAP_NS { 3 } else { MIN_LONE_OUTAGE.1 };
            run.len >= packets && reaches(time, MIN_LONE_OUTAGE.0)
        };
        // Gaps of about equal length without other losses are outages, even if each of them is short. Lengths that vary
        // like geometric ones indicate bursts.
        let vary = variation(&lengths) > MAX_LENGTH_VARIATION;
        let only_gaps = count <= MAX_LONE_OUTAGES && !vary && runs.iter().all(is_gap);
        let of_bursts = vary && count >= MIN_RUNS_FOR_VARIATION;
        let outage = |run: &SeqRun| {
            let time = length(run);
            if !is_gap(run) {
                return false;
            }
            match count {
                1 => true,
                _ if only_gaps => true,
                // A few long runs are separate events, not bursts of a lossy path.
                2..=12 if !of_bursts && reaches(time, MIN_OUTAGE_NS) && run.len >= 8 && median >= 8 => true,
                _ if !of_bursts
                    && median >= 8
                    && reaches(time, 2 * MIN_OUTAGE_NS)
                    && reaches(length(&SeqRun { start: run.start, len: median }), MIN_OUTAGE_NS) =>
                {
                    true
                }
                // Otherwise a run is an outage only if random bursts of the observed lengths would hardly ever be this
                // long.
                _ => reaches(time, MIN_OUTAGE_NS) && run.len as f64 >= unlikely + 1.0,
            }
        };
        let gaps = runs.iter().map(|run| is_gap(run).then(|| length(run))).collect();
        let outage = runs.iter().map(outage).collect();
        PathLosses { sent, runs, outage, gaps }
    }

    /// Marks all runs as other losses instead of outages if `is_limit` returns true for all runs together.
    pub fn are_of_a_limit(&mut self, is_limit: impl FnOnce(&Scattered) -> bool) {
        let runs = self.runs.iter().map(|run| (*run, *run)).collect();
        if is_limit(&Scattered { sent: self.sent, runs }) {
            self.outage.fill(false);
        }
    }

    /// Returns the length of the longest gap and the total length of all gaps, in seconds, both without outages.
    pub fn gaps(&self) -> [f64; 2] {
        let gaps =
            self.gaps.iter().zip(&self.outage).filter(|(_, outage)| !**outage).filter_map(|(gap, _)| *gap);
        let (longest, total) =
            gaps.fold((0, 0i64), |(longest, total), gap| (gap.max(longest), total.saturating_add(gap)));
        [longest as f64 / 1e9, total as f64 / 1e9]
    }

    /// Returns the outages.
    pub fn outages(&self) -> impl Iterator<Item = &SeqRun> {
        self.runs.iter().zip(&self.outage).filter(|(_, o)| **o).map(|(r, _)| r)
    }

    /// Returns all other losses. Packets are renumbered to leave out those of the outages. Runs that become adjacent
    /// stay separate.
    pub fn others(&self) -> Scattered {
        let mut out = 0;
        let mut runs = Vec::new();
        for (run, outage) in self.runs.iter().zip(&self.outage) {
            if *outage {
                out += run.len;
            } else {
                runs.push((SeqRun { start: run.start - out, len: run.len }, *run));
            }
        }
        Scattered { sent: self.sent - out, runs }
    }
}

/// Losses that no single event explains.
#[derive(Clone, Debug, Default)]
pub struct Scattered {
    /// Number of packets among which these losses occurred.
    pub sent: u64,
    /// Loss bursts, each as a run of renumbered packets and as a run of the original sequence numbers.
    pub runs: Vec<(SeqRun, SeqRun)>,
}

impl Scattered {
    /// Returns the number of lost packets.
    pub fn lost(&self) -> u64 {
        self.runs.iter().map(|(r, _)| r.len).sum()
    }

    /// Returns the loss ratio.
    pub fn ratio(&self) -> f64 {
        self.lost() as f64 / self.sent.max(1) as f64
    }

    /// Returns true if the loss ratio is above `limit` with 95 % confidence. Runs of adjacent losses count as
    /// independent events, because one cluster of many runs is evidence of loss, not of chance.
    pub fn exceeds(&self, limit: f64) -> bool {
        let effect = self.lost() as f64 / self.runs.len().max(1) as f64;
        share_exceeds(self.ratio(), self.sent as f64 / effect, limit)
    }

    /// Returns the variance of the loss ratio, relative to independent losses; 1 without losses.
    pub fn design_effect(&self) -> f64 {
        let mut events = EventCounts::default();
        self.runs.iter().for_each(|(run, _)| events.push(run.start, run.len));
        events.share(self.sent, self.sent).design_effect.unwrap_or(1.0)
    }

    /// Returns a copy with only the runs for which `keep` returns true, and with `fewer` subtracted from `sent`.
    pub fn filtered(&self, fewer: u64, keep: impl Fn(&SeqRun) -> bool) -> Scattered {
        let runs = self.runs.iter().filter(|(_, original)| keep(original)).copied().collect();
        Scattered { sent: self.sent.saturating_sub(fewer), runs }
    }

    /// Returns the part of the test to which losses are confined, as a range of renumbered packets: the part for which
    /// two different loss ratios, inside and outside it, fit the losses best. `None` if losses are spread over the
    /// test.
    pub fn stretch(&self) -> Option<[u64; 2]> {
        const PARTS: usize = 64;
        const EVENTS: usize = 12;
        // With fewer losses, chance alone produces dense parts.
        if self.runs.len() < EVENTS || self.sent < 4 * PARTS as u64 {
            return None;
        }
        let mut parts = [0u64; PARTS + 1];
        for (run, _) in &self.runs {
            let part = u128::from(run.start) * PARTS as u128 / u128::from(self.sent);
            parts[part as usize + 1] += 1;
        }
        for k in 0..PARTS {
            parts[k + 1] += parts[k];
        }
        let all = parts[PARTS] as f64;
        let each = all / PARTS as f64;
        let part = |n: f64, expected: f64| if n > 0.0 { n * (n / expected).ln() } else { 0.0 };
        let mut best = (0.0, 0, PARTS);
        for from in 0..PARTS {
            for to in from + 1..=PARTS {
                let inside = (parts[to] - parts[from]) as f64;
                let expected = each * (to - from) as f64;
                if inside <= expected {
                    continue;
                }
                let gain = part(inside, expected) + part(all - inside, all - expected);
                if gain > best.0 {
                    best = (gain, from, to);
                }
            }
        }
        let (gain, from, to) = best;
        let inside = (parts[to] - parts[from]) as f64 / (to - from) as f64;
        let outside = (all - (parts[to] - parts[from]) as f64) / (PARTS - (to - from)).max(1) as f64;
        // By chance, the best of all 2080 ranges gains 12 in log likelihood in about one of a hundred tests.
        let clear = gain > 12.0 && outside < 0.2 * inside && (parts[to] - parts[from]) as usize >= EVENTS;
        let edge = |k: usize| (u128::from(self.sent) * k as u128 / PARTS as u128) as u64;
        // The part extends from its first to its last loss.
        let within: Vec<SeqRun> =
            self.runs.iter().map(|(r, _)| *r).filter(|r| (edge(from)..edge(to)).contains(&r.start)).collect();
        let (first, last) = within.first().zip(within.last()).filter(|_| clear)?;
        Some([first.start, last.start + last.len])
    }

    /// Returns the losses between two renumbered packets.
    pub fn within(&self, [from, to]: [u64; 2]) -> Scattered {
        let runs = self.runs.iter().filter(|(r, _)| (from..to).contains(&r.start));
        let runs = runs.map(|(r, o)| (SeqRun { start: r.start - from, len: r.len }, *o));
        Scattered { sent: to - from, runs: runs.collect() }
    }

    /// Returns the statistics of the loss bursts.
    pub fn pattern(&self) -> Pattern {
        let (n, lost, runs) = (self.sent as f64, self.lost() as f64, self.runs.len() as f64);
        let kept = n - lost;
        // Runs that became adjacent because an outage between them was removed count as one run here.
        let edges = self.runs.first().is_some_and(|(r, _)| r.start == 0) as u8 as f64
            + self.runs.last().is_some_and(|(r, _)| r.start + r.len >= self.sent) as u8 as f64;
        let observed = 2.0 * runs + 1.0 - edges;
        let expected = 2.0 * lost * kept / n + 1.0;
        let variance = (expected - 1.0) * (expected - 2.0) / (n - 1.0).max(1.0);
        let z = (lost >= 10.0 && kept >= 10.0).then(|| (observed - expected) / variance.sqrt());
        Pattern { z, burst_ratio: lost / runs.max(1.0) * (kept / n.max(1.0)), spacing: self.spacing() }
    }

    /// Returns the variation (standard deviation divided by mean) of the distances between the starts of runs, relative
    /// to independent losses, for which it is 1; `None` with fewer than nine runs.
    fn spacing(&self) -> Option<f64> {
        // A few distances do not determine their own variation.
        if self.runs.len() < 9 {
            return None;
        }
        let gaps: Vec<f64> = self.runs.windows(2).map(|w| (w[1].0.start - w[0].0.start) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / (gaps.len() - 1) as f64;
        // The variation of independent losses is the square root of 1 − p, clearly below 1 if every second or third
        // packet is lost.
        let by_chance = (1.0 - self.runs.len() as f64 / self.sent.max(1) as f64).max(0.05).sqrt();
        Some(variance.sqrt() / mean / by_chance)
    }
}

/// Statistics of loss bursts.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Standard score of the runs test of Wald and Wolfowitz: below −1.96 clustered, above 1.96 evenly spread; `None`
    /// with fewer than ten losses.
    pub z: Option<f64>,
    /// Mean length of runs, divided by that of independent losses.
    pub burst_ratio: f64,
    /// Variation of the distances between runs, divided by that of independent losses; `None` with fewer than nine
    /// runs.
    pub spacing: Option<f64>,
}

/// Send times of lost packets, in ns, interpolated between their neighbours.
pub struct LossTimes<'a, 'b> {
    delays: &'b Delays<'a>,
    period: Option<i64>,
    /// Number of packets per burst of the schedule.
    burst: u64,
}

/// A received packet and its send time.
#[derive(Clone, Copy)]
struct TimedPacket {
    seq: u64,
    time: i64,
}

impl<'a, 'b> LossTimes<'a, 'b> {
    /// Creates the send times of the packets lost between the packets of `delays`, using the schedule of `session`.
    pub fn new(delays: &'b Delays<'a>, session: &Session) -> LossTimes<'a, 'b> {
        let burst = match (session.spec.schedule(), delays.pace()) {
            (Schedule::Burst { size }, _) => u64::from(size.max(1)),
            (_, SendPattern::Bursts(size)) => size.max(1) as u64,
            _ => 1,
        };
        LossTimes { delays, period: session.period().map(|p| bounded(p.0)), burst }
    }

    /// Returns the time at which packet `seq` was sent or due.
    pub fn of(&self, seq: u64) -> i64 {
        self.between(self.neighbours(seq), seq)
    }

    /// Returns the time at which each lost packet of `run` was due.
    pub fn of_lost(&self, run: &SeqRun) -> impl Iterator<Item = i64> {
        let neighbours = self.neighbours(run.start);
        (run.start..run.start + run.len).map(move |seq| self.between(neighbours, seq))
    }

    fn neighbours(&self, seq: u64) -> [Option<TimedPacket>; 2] {
        let d = self.delays;
        let after = d.series().position_of(seq);
        let known = |k: usize| TimedPacket { seq: d.seq(k), time: d.time(k) };
        [after.checked_sub(1).map(known), (after < d.len()).then(|| known(after))]
    }

    fn between(&self, neighbours: [Option<TimedPacket>; 2], seq: u64) -> i64 {
        let due = |seq: u64| seq - seq % self.burst;
        let step = |from: u64, to: u64| {
            let packets = i64::try_from(due(to) - due(from)).unwrap_or(i64::MAX);
            self.period.unwrap_or(0).saturating_mul(packets)
        };
        bounded(match neighbours {
            [_, Some(after)] if after.seq == seq => after.time,
            // Packets of a burst have the same due time, so their times must not be spread evenly. The next received
            // packet is an upper bound.
            [Some(before), Some(after)] if self.burst > 1 => {
                before.time.saturating_add(step(before.seq, seq)).min(after.time)
            }
            [Some(before), Some(after)] => {
                let share = (seq - before.seq) as f64 / (after.seq - before.seq) as f64;
                before.time.saturating_add((after.time.saturating_sub(before.time) as f64 * share) as i64)
            }
            [Some(before), None] => before.time.saturating_add(step(before.seq, seq)),
            [None, Some(after)] => after.time.saturating_sub(step(seq, after.seq)),
            [None, None] => step(0, seq),
        })
    }

    /// Returns the time from the first packet of `run` to the packet after the run, in ns. If packets are sent in
    /// bursts, only whole bursts count, because the rest of a burst is lost at once.
    pub fn length(&self, run: &SeqRun) -> i64 {
        if self.burst > 1 {
            let (first, end) = (run.start.div_ceil(self.burst), (run.start + run.len) / self.burst);
            let packets =
                i64::try_from(end.saturating_sub(first).saturating_mul(self.burst)).unwrap_or(i64::MAX);
            return bounded(self.period.unwrap_or(0).saturating_mul(packets));
        }
        self.of(run.start + run.len).saturating_sub(self.of(run.start))
    }
}

#[cfg(test)]
mod tests;
