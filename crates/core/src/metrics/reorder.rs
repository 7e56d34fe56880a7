//! Reordering (metrics §13; RFC 4737, RFC 5236).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reordering figures of accepted packets in arrival order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Reordering {
    /// False for TCP, which hides reordering and loss from applications. The zeros then have no meaning.
    pub observable: bool,
    /// Number of reordered packets: packets that arrived after a packet sent later (RFC 4737 §3).
    pub reordered: u64,
    /// Reordered packets divided by accepted packets.
    pub ratio: Option<f64>,
    /// Number of reordered packets by extent: the number of arrivals since the first packet sent later (§4.2).
    pub extent_hist: BTreeMap<u64, u64>,
    /// For each n, the number of packets whose n preceding arrivals were all sent later (§5). Contains every n up to
    /// 1000, and above that only the values of n at which the number falls.
    pub n_reordered: BTreeMap<u64, u64>,
    /// Largest late time (§4.3), in ns.
    pub max_late_time_ns: Option<i64>,
    /// Largest byte offset (§4.4).
    pub max_byte_offset: Option<u64>,
    /// Number of completed runs without reordering (§4.6).
    pub free_runs: u64,
    /// Number of packets in order.
    pub in_order: u64,
    /// Sum of the squared lengths of runs without reordering.
    pub sum_sq_runs: u64,
    /// Number of arrivals between successive discontinuities (§4.5); only the first 10 000.
    pub gaps: Vec<u64>,
    /// Complete reorder density (RFC 5236): number of packets by displacement; positive is late.
    pub rd_fd: BTreeMap<i64, u64>,
    /// Reorder density by the RFC's bounded algorithm with threshold 128.
    pub rd_fd_dt128: BTreeMap<i64, u64>,
    /// Number of arrivals by reorder-buffer occupancy, with threshold 128. A lost packet fills the buffer.
    pub rbd_fb_bt128: BTreeMap<u64, u64>,
    /// Number of arrivals by reorder-buffer occupancy when lost packets are skipped; shows the required buffer size.
    pub rbd_fb_loss_aware: BTreeMap<u64, u64>,
    /// Figures derived from the densities.
    pub density: Option<ReorderDensity>,
}

/// Derived figures of the reorder density (RFC 5236 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ReorderDensity {
    /// Share of packets with positive displacement, in percent.
    pub percent_late: f64,
    /// Share of packets with negative displacement, in percent.
    pub percent_early: f64,
    /// Mean absolute displacement.
    pub mean_displacement: f64,
    /// Mean of the positive displacements.
    pub mean_late_displacement: Option<f64>,
    /// Entropy of the reorder density: −Σ RD ln RD.
    pub entropy: f64,
    /// Mean loss-aware occupancy.
    pub mean_occupancy: f64,
    /// Share of packets that are three or more positions late. A TCP sender would count them as lost.
    pub three_or_more_late: f64,
}

use super::classify::AcceptedPacket;
use super::density::{StayBack, THRESHOLD, complete_density};
use super::occupancy::Occupancy;
use super::occurrences::Occurrences;
use super::one_pass::OnePass;
use super::series::{Series, runs};
use super::stat::CountTree;
use std::ops::Range;

/// Maximum number of listed gaps, which limits the memory.
const MAX_LISTED: usize = 10_000;
/// Largest n up to which the n-reordering histogram lists every n.
const MAX_SINGLE_N: u64 = 1000;

/// Computes the figures of RFC 4737 in one pass. Consecutive numbers that arrive one after the other are stored as one
/// stretch, so memory is a few words per *discontinuity*. Time is O(log n) per packet in any order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReorderCounter {
    arrivals: u64,
    expected: Option<u64>,
    /// Stretches in which the sequence number reached a new maximum. The earliest larger arrival before a late packet
    /// is always the start of a stretch: otherwise the late packet's own number would be inside the stretch.
    maxima: Vec<ArrivalRun>,
    /// Stack of the arrivals that were not followed by an arrival with a smaller number. A late packet removes all
    /// arrivals with larger numbers from its top.
    ascent: Vec<ArrivalRun>,
    reordered: u64,
    extents: Occurrences,
    n_values: Occurrences,
    max_late: Option<i64>,
    free_run: u64,
    free_runs: u64,
    sum_sq: u64,
    /// Maximum number of stretches, beyond which the older half is forgotten; 0 = no limit.
    limit: usize,
    /// Index before which arrivals are no longer in `ascent`.
    forgotten: u64,
    /// Arrival indices of the discontinuities whose stretches were removed from `maxima`; only the first of them, up to
    /// the limit of listed gaps.
    positions: Vec<u64>,
    /// True after [`ReorderCounter::mark`].
    marked: bool,
    /// Length of the first run of in-order packets that ended after the mark.
    marked_run: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ArrivalRun {
    seq: u64,
    index: u64,
    len: u64,
    arrived: i64,
    overtook: bool,
}

impl ArrivalRun {
    fn is_followed_by(&self, seq: u64, index: u64) -> bool {
        self.seq + self.len == seq && self.index + self.len == index
    }

    /// Removes the arrivals before `begin`. Returns true if any are left.
    fn is_from(&mut self, begin: u64) -> bool {
        let out = begin.saturating_sub(self.index).min(self.len);
        (self.seq, self.index, self.len) = (self.seq + out, self.index + out, self.len - out);
        // Only the first arrival of a stretch can be the first one sent after a late packet.
        self.overtook &= out == 0;
        self.len > 0
    }
}

fn extend(stretches: &mut Vec<ArrivalRun>, seq: u64, index: u64, len: u64, arrived: i64) {
    match stretches.last_mut() {
        Some(s) if s.is_followed_by(seq, index) => s.len += len,
        _ => stretches.push(ArrivalRun { seq, index, len, arrived, overtook: false }),
    }
}

/// Returns true if these can be stretches of `n` arrivals: ascending by number and by index.
fn are_possible(stretches: &[ArrivalRun], n: u64) -> bool {
    let ends = |s: &ArrivalRun| Some((s.seq.checked_add(s.len)?, s.index.checked_add(s.len)?));
    let within =
        |s: &ArrivalRun| s.len > 0 && ends(s).is_some_and(|(seq, index)| seq <= 1 << 32 && index <= n);
    stretches.iter().all(within)
        && stretches.is_sorted_by(|a, b| a.seq + a.len <= b.seq && a.index + a.len <= b.index)
}

/// Returns the index of the first stretch that begins at `seq` or above. Searches backwards, because this stretch is
/// nearly always near the end.
fn first_from(stretches: &[ArrivalRun], seq: u64) -> usize {
    let mut back = 1;
    while back < stretches.len() && stretches[stretches.len() - back].seq >= seq {
        back *= 2;
    }
    let from = stretches.len().saturating_sub(back);
    from + stretches[from..].partition_point(|s| s.seq < seq)
}

impl ReorderCounter {
    /// Creates a counter in constant memory. For packets that arrive more than `limit` discontinuities late, the
    /// reported extents and late times are too small.
    pub fn bounded(limit: usize) -> ReorderCounter {
        ReorderCounter { limit, ..ReorderCounter::default() }
    }

    /// Returns true if this can be the state after `n` packets with a limit of `limit` discontinuities.
    /// Checks only the properties that computations rely on.
    pub(crate) fn is_possible(&self, n: u64, limit: usize) -> bool {
        let begins = |stretches: &[ArrivalRun]| stretches.first().map_or(n, |s| s.index);
        let kept = [&self.maxima, &self.ascent].iter().all(|s| s.len() <= limit && are_possible(s, n));
        let positions = self.forgotten <= begins(&self.ascent)
            && self.positions.is_sorted()
            && self.positions.last().is_none_or(|last| *last <= begins(&self.maxima));
        let late = u128::from(self.reordered);
        let counts = self.reordered <= n
            && self.free_run <= n
            && self.free_runs <= n
            && self.extents.total() <= late
            && self.n_values.total() <= late;
        let end = self.expected.is_none_or(|next| next <= 1 << 32);
        (self.arrivals, self.limit) == (n, limit)
            && kept
            && positions
            && counts
            && end
            && self.positions.len() <= MAX_LISTED + 1
    }

    /// Forgets old stretches beyond the limit.
    fn forget(&mut self) {
        if self.limit == 0 {
            return;
        }
        let half = (self.limit / 2).max(1);
        while self.maxima.len() > self.limit {
            self.forget_maxima(half);
        }
        while self.ascent.len() > self.limit {
            self.forgotten = self.ascent.drain(..half).next_back().map_or(0, |s| s.index + s.len);
        }
    }

    fn forget_maxima(&mut self, count: usize) {
        let known = (MAX_LISTED + 1).saturating_sub(self.positions.len());
        let overtook = self.maxima.drain(..count).filter(|s| s.overtook);
        self.positions.extend(overtook.map(|s| s.index).take(known));
    }

    /// Starts recording the data that [`ReorderCounter::join`] needs.
    pub(crate) fn mark(&mut self) {
        self.marked = true;
    }

    /// Adds the packets that `whole` contains in addition to its earlier state `lead`. `whole` must have been
    /// [marked](ReorderCounter::mark) in that state. The added numbers must be above all numbers in this counter,
    /// except the numbers that `lead` also contains.
    pub(crate) fn join(&mut self, mut whole: ReorderCounter, lead: &ReorderCounter) {
        let (before, begin) = (self.arrivals, lead.arrivals);
        let later = whole.arrivals.saturating_sub(begin);
        if later == 0 {
            return;
        }
        let position = |index: u64| index.saturating_sub(begin) + before;
        self.arrivals += later;
        self.expected = self.expected.max(whole.expected);
        self.max_late = self.max_late.max(whole.max_late);
        self.extents.join(&whole.extents, &lead.extents);
        self.n_values.join(&whole.n_values, &lead.n_values);

        // Returns the length of the run that the packets before and after the boundary form together.
        let together = |run: u64| run.saturating_sub(lead.free_run).saturating_add(self.free_run);
        let square = |run: u64| run.saturating_mul(run);
        let late = whole.reordered.saturating_sub(lead.reordered).min(later);
        self.sum_sq = self.sum_sq.saturating_add(whole.sum_sq.saturating_sub(lead.sum_sq));
        if let Some(run) = whole.marked_run {
            self.sum_sq = self.sum_sq.saturating_sub(square(run)).saturating_add(square(together(run)));
        }
        if self.marked {
            self.marked_run = self.marked_run.or(whole.marked_run.map(together));
        }
        self.free_run = if late > 0 { whole.free_run } else { together(whole.free_run) };
        self.free_runs += whole.free_runs.saturating_sub(lead.free_runs).min(later);
        self.reordered += late;

        // Packets of `lead` that were sent after late packets among the new ones.
        let of_lead = |s: &&ArrivalRun| s.overtook && s.index < begin;
        let known: Vec<u64> = lead.maxima.iter().filter(of_lead).map(|s| s.seq).collect();
        for overtaker in whole.maxima.iter().filter(of_lead).filter(|s| known.binary_search(&s.seq).is_err())
        {
            let at = first_from(&self.maxima, overtaker.seq);
            if let Some(mine) = self.maxima.get_mut(at).filter(|mine| mine.seq == overtaker.seq) {
                mine.overtook = true;
            }
        }
        if !whole.positions.is_empty() {
            self.forget_maxima(self.maxima.len());
            let known = (MAX_LISTED + 1).saturating_sub(self.positions.len());
            let positions = whole.positions.iter().filter(|p| **p >= begin);
            self.positions.extend(positions.map(|p| position(*p)).take(known));
        }
        if whole.forgotten > begin {
            self.forgotten = position(whole.forgotten);
            self.ascent.clear();
        }
        whole.maxima.retain_mut(|s| s.is_from(begin));
        whole.ascent.retain_mut(|s| s.is_from(begin));
        let lowest = whole.ascent.first().map_or(u64::MAX, |s| s.seq);
        while self.ascent.last().is_some_and(|s| s.seq > lowest) {
            self.ascent.pop();
        }
        for (mine, theirs) in [(&mut self.maxima, whole.maxima), (&mut self.ascent, whole.ascent)] {
            for s in theirs {
                let s = ArrivalRun { index: position(s.index), ..s };
                match mine.last_mut() {
                    Some(last) if last.is_followed_by(s.seq, s.index) => last.len += s.len,
                    _ => mine.push(s),
                }
            }
        }
        self.forget();
    }

    /// Returns the number of reordered packets so far.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }
}

impl ReorderCounter {
    /// Adds the next arrivals, which have consecutive numbers; `arrived` returns the arrival time of the k-th
    /// of them.
    pub fn push_run(&mut self, run: Range<u32>, arrived: impl Fn(usize) -> i64) {
        let (first, length) = (u64::from(run.start), run.len() as u64);
        if self.expected.is_none_or(|next| first >= next) {
            let index = self.arrivals;
            self.arrivals += length;
            self.expected = Some(first + length);
            self.free_run += length;
            extend(&mut self.maxima, first, index, length, arrived(0));
            extend(&mut self.ascent, first, index, length, arrived(0));
            return self.forget();
        }
        run.enumerate().for_each(|(k, seq)| self.push_late(seq.into(), arrived(k)));
    }

    /// Adds the next arrival, whose number is below that of an earlier arrival.
    fn push_late(&mut self, seq: u64, arrived: i64) {
        let index = self.arrivals;
        self.arrivals += 1;
        self.reordered += 1;
        self.free_runs += 1;
        self.sum_sq = self.sum_sq.saturating_add(self.free_run.saturating_mul(self.free_run));
        if self.marked {
            self.marked_run = self.marked_run.or(Some(self.free_run));
        }
        self.free_run = 0;
        let first_larger = first_from(&self.maxima, seq);
        if let Some(overtaker) = self.maxima.get_mut(first_larger) {
            overtaker.overtook = true;
            self.extents.add(index - overtaker.index);
            let late = arrived.saturating_sub(overtaker.arrived);
            self.max_late = Some(self.max_late.map_or(late, |m| m.max(late)));
        }
        while self.ascent.last().is_some_and(|s| s.seq > seq) {
            self.ascent.pop();
        }
        let after_smaller = self.ascent.last().map_or(self.forgotten, |s| s.index + s.len);
        self.n_values.add(index - after_smaller);
        extend(&mut self.ascent, seq, index, 1, arrived);
        self.forget();
    }
}

impl OnePass for ReorderCounter {
    type Output = Reordering;

    #[inline]
    fn push(&mut self, packet: &AcceptedPacket) {
        self.push_run(packet.seq..packet.seq + 1, |_| packet.arrived());
    }

    /// Returns all figures of RFC 4737 except the byte offset. Figures of RFC 5236 are not set.
    fn output(&self) -> Reordering {
        let positions = self.maxima.iter().filter(|s| s.overtook).map(|s| s.index);
        let positions = self.positions.iter().copied().chain(positions);
        let gaps = positions.clone().zip(positions.skip(1)).map(|(a, b)| b - a).take(MAX_LISTED).collect();
        Reordering {
            observable: true,
            reordered: self.reordered,
            ratio: (self.arrivals > 0).then(|| self.reordered as f64 / self.arrivals as f64),
            extent_hist: self.extents.to_map(),
            n_reordered: at_least(&self.n_values.to_map()),
            max_late_time_ns: self.max_late,
            free_runs: self.free_runs,
            in_order: self.arrivals - self.reordered,
            sum_sq_runs: self.sum_sq,
            gaps,
            ..Reordering::default()
        }
    }
}

/// Converts the counts for exactly n to counts for at least n.
fn at_least(exact: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let mut result = BTreeMap::new();
    let mut count = 0;
    let mut values = exact.iter().rev().filter(|(n, _)| **n > 0).peekable();
    while let Some((&n, &packets)) = values.next() {
        count += packets;
        result.insert(n, count);
        let below = values.peek().map_or(0, |(n, _)| **n);
        (below + 1..n.min(MAX_SINGLE_N + 1)).for_each(|k| {
            result.insert(k, count);
        });
    }
    result
}

/// Computes all figures of metrics §13 for a stream with `payload` bytes per packet.
pub fn reordering(series: &Series<'_>, payload: u16) -> Reordering {
    let mut counter = ReorderCounter::default();
    let (mut occupancy, mut at) = (Occupancy::new(THRESHOLD, 0), 0);
    for run in runs(series.numbers()) {
        let length = run.len();
        counter.push_run(run.clone(), |k| series.arrived(at + k));
        occupancy.push_run(run);
        at += length;
    }
    let rd_fd = complete_density(series);
    let rbd_fb_loss_aware = loss_aware_occupancy(series);
    let density = ReorderDensity::new(&rd_fd, &rbd_fb_loss_aware);
    Reordering {
        max_byte_offset: largest_inversion(series).map(|k| k * u64::from(payload)),
        rd_fd_dt128: StayBack::of(&rd_fd, runs(series.numbers())),
        rbd_fb_bt128: occupancy.histogram(),
        rd_fd,
        rbd_fb_loss_aware,
        density,
        ..counter.output()
    }
}

/// Returns the loss-aware occupancy, for which arrivals are numbered without the lost packets. Packets in order do not
/// occupy the buffer.
fn loss_aware_occupancy(series: &Series<'_>) -> BTreeMap<u64, u64> {
    unbounded_occupancy(series).unwrap_or_else(|| {
        let mut occupancy = Occupancy::new(THRESHOLD, 0);
        let mut next = 0;
        for (stretch, positions) in series.displaced() {
            occupancy.push_run(next..stretch.start as u32);
            positions.iter().for_each(|position| occupancy.push(*position));
            next = stretch.end as u32;
        }
        occupancy.push_run(next..series.len() as u32);
        occupancy.histogram()
    })
}

/// Returns the occupancy of an unbounded buffer, which stores all arrivals sent after the first packet that is still
/// missing. `None` if it would store more than the bounded buffer can.
fn unbounded_occupancy(series: &Series<'_>) -> Option<BTreeMap<u64, u64>> {
    let mut found = [0; THRESHOLD as usize + 1];
    let mut in_place = series.len();
    for (stretch, positions) in series.displaced() {
        in_place -= stretch.len();
        // Backwards from the last arrival: the first packet that is missing after an arrival is the
        // lowest-numbered one among those that arrive later.
        let mut missing = stretch.end;
        for (arrived, position) in (stretch.start + 1..stretch.end + 1).zip(positions).rev() {
            *found.get_mut(arrived.checked_sub(missing)?)? += 1;
            missing = missing.min(*position as usize);
        }
    }
    found[0] += in_place as u64;
    Some((0..).zip(found).filter(|(_, arrivals)| *arrivals > 0).collect())
}

/// Returns the maximum, over all packets, of the number of packets that were sent later but arrived earlier. Takes O(n
/// log n) time. `None` if no packet is reordered.
fn largest_inversion(series: &Series<'_>) -> Option<u64> {
    let mut most = None;
    for (stretch, positions) in series.displaced() {
        let mut arrived = CountTree::new(positions.len());
        let mut highest = None;
        for (index, position) in (0u64..).zip(positions) {
            let position = *position as usize - stretch.start;
            // Upper bound of the number of packets that arrived before this one although they were sent after it.
            let ahead = highest.map_or(0, |highest: usize| highest.saturating_sub(position) as u64);
            if ahead > most.unwrap_or(0) {
                // Packets that arrived before this one, minus those that were also sent before it.
                most = most.max(Some(index - arrived.below(position)));
            }
            highest = highest.max(Some(position));
            arrived.add(position);
        }
    }
    most
}

impl ReorderDensity {
    fn new(displacements: &BTreeMap<i64, u64>, occupancy: &BTreeMap<u64, u64>) -> Option<ReorderDensity> {
        let n: u64 = displacements.values().sum();
        if n == 0 {
            return None;
        }
        let total = n as f64;
        let count = |keep: &dyn Fn(i64) -> bool| {
            displacements.iter().filter(|(d, _)| keep(**d)).map(|(_, c)| *c).sum::<u64>() as f64
        };
        let sum = |keep: &dyn Fn(i64) -> bool| {
            let kept = displacements.iter().filter(|(d, _)| keep(**d));
            kept.map(|(d, c)| d.unsigned_abs() as f64 * *c as f64).sum::<f64>()
        };
        let late = count(&|d| d > 0);
        let held: u64 = occupancy.values().sum();
        let weighted: f64 = occupancy.iter().map(|(k, c)| *k as f64 * *c as f64).sum();
        Some(ReorderDensity {
            percent_late: 100.0 * late / total,
            percent_early: 100.0 * count(&|d| d < 0) / total,
            mean_displacement: sum(&|_| true) / total,
            mean_late_displacement: (late > 0.0).then(|| sum(&|d| d > 0) / late),
            entropy: displacements
                .values()
                .map(|c| *c as f64 / total)
                .map(|share| -share * share.ln())
                .sum::<f64>()
                .abs(),
            mean_occupancy: if held > 0 { weighted / held as f64 } else { 0.0 },
            three_or_more_late: count(&|d| d >= 3) / total,
        })
    }
}

#[cfg(test)]
mod tests;
