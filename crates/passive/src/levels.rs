//! [`ThinnedTimes`]: bands of round trips or one-way delays, and how a link explains their spacing.
//!
//! On a slow link, a packet waits until the packets queued before it are sent, so delays grow in steps of one
//! packet's serialisation time, or of one cell's on ATM. The bands of a single queue shift whenever a sender
//! pauses, so their spacing is best visible in the differences of consecutive values; other spacings are
//! visible in the values themselves.

use super::sizes::SizeFigures;
use core::cmp::Reverse;
use core::fmt;
use jitlat_core::link::AccessLink;
use jitlat_core::metrics::bands::{spacing, steps_per_step};
use jitlat_core::time::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of values stored per series.
const MAX_VALUES: usize = 8192;
/// Maximum distance between neighbouring values of one band, as a fraction of the range.
const MAX_BAND_WIDTH: f64 = 1.0 / 400.0;
/// Maximum number of packet lengths that a band is compared with.
const MAX_LENGTHS: usize = 8;
/// Maximum relative difference between a spacing and a model that explains it.
const MAX_DEVIATION: f64 = 0.02;

/// Minimum strength of fine bands for coarser spacings to be set to multiples of the fine spacing.
const MIN_LATTICE_STRENGTH: f64 = 0.9;
/// Maximum number of fine spacings in a coarse one for which the neighbours of the nearest multiple are considered as
/// well. Above it, the nearest multiple is taken.
const MAX_COMPARED_STEPS: f64 = 16.0;

/// A thinned series of times, each with its difference from the previous value.
#[derive(Clone, Debug)]
pub struct ThinnedTimes {
    kept: Vec<(i64, Option<i64>)>,
    every: u64,
    seen: u64,
    last: Option<i64>,
    /// True if any value has a fraction of a microsecond.
    fine: bool,
}

impl Default for ThinnedTimes {
    fn default() -> ThinnedTimes {
        ThinnedTimes { kept: Vec::new(), every: 1, seen: 0, last: None, fine: false }
    }
}

/// Regular distance between neighbouring bands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandSpacing {
    /// Distance between neighbouring bands, in ns.
    pub spacing_ns: f64,
    /// Strength from 0 to 1. For a spacing of values: 1 if all values lie exactly on the bands. For a spacing
    /// of differences: the share of differences that equal it.
    pub strength: f64,
    /// Probability of a strength at least as large without bands (Rayleigh test, adjusted for the number of
    /// spacings tried); `None` for differences.
    pub p: Option<f64>,
    /// True if the spacing was found in the differences of consecutive values rather than in the values.
    pub of_differences: bool,
    /// Next larger spacing divided by this one; `None` if the quotient is not an integer.
    pub steps_per_coarser: Option<u32>,
    /// Explanations by the access link; empty if no link is given or the link does not explain this spacing.
    pub explained: Vec<String>,
}

impl ThinnedTimes {
    /// Adds the next value, in ns.
    #[inline]
    pub fn push(&mut self, v: i64) {
        let difference = self.last.replace(v).and_then(|l| v.checked_sub(l));
        self.fine |= v % 1000 != 0;
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() >= MAX_VALUES {
                let mut keep = false;
                self.kept.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push((v, difference));
            }
        }
        self.seen += 1;
    }

    /// Returns the spacings found, largest first.
    pub fn find(&self) -> Vec<BandSpacing> {
        let mut values: Vec<f64> = self.kept.iter().map(|k| k.0 as f64).collect();
        let Some(range) = middle_range(&mut values) else { return Vec::new() };
        let shortest = if self.fine { 4.0 } else { 4000.0 };
        let floor = (range * MAX_BAND_WIDTH).max(shortest);
        let mut moves: Vec<f64> = self
            .kept
            .iter()
            .filter_map(|k| k.1)
            .map(|d| d.unsigned_abs() as f64)
            .filter(|d| *d > floor)
            .collect();
        moves.sort_unstable_by(f64::total_cmp);
        let mut found: Vec<BandSpacing> = Vec::new();
        let mut high = range / 2.0;
        while high > floor * 1.5 {
            let low = (high / 8.0).max(floor);
            // A true spacing also appears as a difference of neighbouring values; a harmonic or a shift
            // between two bands does not.
            let level = spacing(&values, low, high)
                .filter(|b| b.significant() && recurs(&moves, b.spacing))
                .map(|b| BandSpacing::new(b.spacing, b.strength, Some(b.p_adjusted)));
            if let Some(l) = level {
                found.push(l);
            }
            high = low;
        }
        if let Some(pitch) = commonest(&moves)
            && !found.iter().any(|f| is_same(f.spacing_ns, pitch.spacing_ns))
        {
            found.push(pitch);
        }
        set_to_multiples(&mut found, &moves);
        found.sort_by(|a, b| {
            b.spacing_ns.total_cmp(&a.spacing_ns).then(a.of_differences.cmp(&b.of_differences))
        });
        found.dedup_by(|b, a| is_same(a.spacing_ns, b.spacing_ns));
        count_steps(&mut found);
        found
    }
}

/// Returns the spacings of a whole series, and the finer ones found in a part of the series, largest first. A part
/// shows finer bands because its range is smaller. Its coarser spacings are left out, because the whole series gives
/// them from more values.
pub fn with_finer(of_all: &[BandSpacing], of_part: Vec<BandSpacing>) -> Vec<BandSpacing> {
    let finest = of_all.iter().map(|l| l.spacing_ns).fold(f64::INFINITY, f64::min);
    let finer = of_part.into_iter().filter(|l| l.spacing_ns < finest && !is_same(l.spacing_ns, finest));
    let mut found: Vec<BandSpacing> = of_all.iter().cloned().chain(finer).collect();
    count_steps(&mut found);
    found
}

/// Sets `steps_per_coarser` of each spacing: its number of steps in the spacing before it. `found` is sorted by
/// descending spacing.
fn count_steps(found: &mut [BandSpacing]) {
    for i in 1..found.len() {
        found[i].steps_per_coarser = steps_per_step(found[i - 1].spacing_ns, found[i].spacing_ns);
    }
}

/// Sets coarser spacings to multiples of the finest spacing if nearly all values are multiples of it, because the
/// distance between two coarse bands is then a multiple as well. Fine bands bias the estimate of a coarse spacing
/// (metrics §21, V27), so the one of the nearest multiples that is most frequent in `moves` is taken. `moves` are
/// ascending.
fn set_to_multiples(found: &mut [BandSpacing], moves: &[f64]) {
    let fine = found.iter().filter(|l| !l.of_differences && l.strength >= MIN_LATTICE_STRENGTH);
    let Some(fine) = fine.map(|l| l.spacing_ns).reduce(f64::min) else { return };
    let within = |k: f64| {
        let (low, high) = ((k - 0.25) * fine, (k + 0.25) * fine);
        moves.partition_point(|m| *m <= high) - moves.partition_point(|m| *m < low)
    };
    for level in found.iter_mut().filter(|l| l.spacing_ns > 1.5 * fine) {
        let steps = level.spacing_ns / fine;
        let nearest = steps.round();
        let compared = if steps <= MAX_COMPARED_STEPS { 1 } else { 0 };
        let multiples = (-compared..=compared).map(|by| nearest + f64::from(by)).filter(|k| *k >= 2.0);
        let distance = |k: f64| (k - steps).abs();
        let best =
            multiples.max_by(|a, b| within(*a).cmp(&within(*b)).then(distance(*b).total_cmp(&distance(*a))));
        level.spacing_ns = best.unwrap_or(nearest) * fine;
    }
}

/// True if two spacings differ by less than 5 %.
fn is_same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 0.05
}

/// True if enough of the ascending `moves` equal `q`: at least 4 %, and at least five.
fn recurs(moves: &[f64], q: f64) -> bool {
    near(moves, q) >= (moves.len() / 25).max(5)
}

/// Number of the ascending `moves` within 3 % of `q`.
fn near(moves: &[f64], q: f64) -> usize {
    moves.partition_point(|m| *m <= q * 1.03) - moves.partition_point(|m| *m < q * 0.97)
}

/// Returns the most frequent difference if at least a fifth of the ascending `moves` are equal to it.
fn commonest(moves: &[f64]) -> Option<BandSpacing> {
    let (mut best, mut from) = (0..0, 0);
    for to in 0..moves.len() {
        while moves[to] > moves[from] * 1.03 {
            from += 1;
        }
        if to + 1 - from > best.len() {
            best = from..to + 1;
        }
    }
    let share = best.len() as f64 / moves.len().max(1) as f64;
    let pitch = *moves.get(best.start + best.len() / 2)?;
    (best.len() >= 10 && share >= 0.2)
        .then(|| BandSpacing { of_differences: true, ..BandSpacing::new(pitch, share, None) })
}

/// Distance between the 1st and the 99th percentile; `None` for few or equal values. Values outside are
/// ignored, because a single outlier would set the scale.
fn middle_range(values: &mut Vec<f64>) -> Option<f64> {
    if values.len() < 50 {
        return None;
    }
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted[sorted.len() / 100], sorted[sorted.len() - 1 - sorted.len() / 100]);
    values.retain(|v| (low..=high).contains(v));
    (high > low).then_some(high - low)
}

/// Packet in the queue before a link: its length, and the time that it adds to the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket {
    /// True for a packet from the reference point (OUT), false for one to it (IN).
    pub out: bool,
    /// Length of the IP packet, in bytes.
    pub length: u32,
    /// Serialisation time on the link.
    pub time: Span,
}

/// Length of the queue before a link when packets arrived at it, in packets. Each band above the lowest one stands for
/// one queued packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueLength {
    /// True for the queue of packets from the reference point (OUT), false for that of packets to it (IN).
    pub out: bool,
    /// Length of the queued IP packets, in bytes.
    pub packet_bytes: u32,
    /// 5th percentile of the number of queued packets.
    pub p05: f64,
    /// Median number of queued packets.
    pub median: f64,
    /// 95th percentile of the number of queued packets.
    pub p95: f64,
    /// Largest number of queued packets.
    pub max: f64,
}

impl QueueLength {
    /// Counts the packets that were queued before the packets of the pairs, from the round trips of the most frequent
    /// pair of sizes that contains the length of `packet`. The smallest of these round trips counts as an empty queue,
    /// so the numbers are too small if the queue was never empty. `None` if no pair has this length, or if the queue
    /// never held a whole packet.
    pub fn of(packet: QueuedPacket, sizes: &[SizeFigures]) -> Option<QueueLength> {
        let length = |s: &SizeFigures| if packet.out { s.out_length } else { s.in_length };
        let usual = sizes.iter().filter(|s| length(s) == packet.length).max_by_key(|s| s.pairs)?;
        let last = usual.percentiles.len().checked_sub(1)?;
        let queued = |percent: usize| {
            let rtt = usual.percentiles[last * percent / 100];
            rtt.saturating_sub(usual.min_rtt_ns) as f64 / packet.time.0.max(1) as f64
        };
        let [p05, median, p95, max] = [5, 50, 95, 100].map(queued);
        let QueuedPacket { out, length, .. } = packet;
        (max >= 1.0).then_some(QueueLength { out, packet_bytes: length, p05, median, p95, max })
    }
}

impl fmt::Display for QueueLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueLength { out, packet_bytes, p05, median, p95, max } = self;
        let name = if *out { "OUT" } else { "IN" };
        write!(
            f,
            "{p05:.0} to {p95:.0} {name} packets of {packet_bytes} bytes (5 to 95 % of the pairs), median {median:.0}, \
             most {max:.0}"
        )
    }
}

/// Adds explanations by `link` to bands found in round trips of these sizes: serialisation of a queued packet of one of
/// the most frequent lengths, or of an ATM cell. Returns the packet that explains the widest of the explained bands;
/// `None` if no packet explains any.
pub fn explain_levels(
    levels: &mut [BandSpacing],
    link: &AccessLink,
    sizes: &[SizeFigures],
) -> Option<QueuedPacket> {
    let common = |length: fn(&SizeFigures) -> u32| {
        let mut counts = BTreeMap::new();
        for s in sizes {
            *counts.entry(length(s)).or_insert(0) += s.pairs;
        }
        let mut list: Vec<(u32, u64)> = counts.into_iter().collect();
        list.sort_by_key(|(_, n)| Reverse(*n));
        list.into_iter().take(MAX_LENGTHS).map(|(l, _)| l).collect::<Vec<_>>()
    };
    let (out, back) = (common(|s| s.out_length), common(|s| s.in_length));
    let explained: Vec<_> = levels.iter_mut().map(|l| l.explain(link, &out, &back)).collect();
    explained.into_iter().flatten().next()
}

impl BandSpacing {
    fn new(spacing_ns: f64, strength: f64, p: Option<f64>) -> BandSpacing {
        BandSpacing {
            spacing_ns,
            strength,
            p,
            of_differences: false,
            steps_per_coarser: None,
            explained: Vec::new(),
        }
    }

    /// Adds explanations by `link`: serialisation of a packet of one of the lengths seen in each direction, or of an
    /// ATM cell. Returns the first packet that explains the spacing; `None` if none does.
    pub fn explain(
        &mut self,
        link: &AccessLink,
        out_lengths: &[u32],
        in_lengths: &[u32],
    ) -> Option<QueuedPacket> {
        let mut queued = None;
        let mut try_it = |model: Span, what: String| {
            let fits = (self.spacing_ns / model.0 as f64 - 1.0).abs() < MAX_DEVIATION;
            if fits {
                self.explained.push(what);
            }
            fits
        };
        for (lengths, up) in [(out_lengths, true), (in_lengths, false)] {
            for length in lengths {
                let model =
                    if up { link.delay_up((*length).into()) } else { link.delay_down((*length).into()) };
                let cells = link.cells((*length).into()).map_or(String::new(), |c| format!(", {c} cells"));
                let (name, direction) =
                    if up { ("OUT", "from the reference") } else { ("IN", "to the reference") };
                let fits = try_it(
                    model,
                    format!(
                        "one queued {name} packet of {length} bytes{cells}: {} on the link {direction}",
                        jitlat_core::units::eng4(model.0)
                    ),
                );
                if fits {
                    queued.get_or_insert(QueuedPacket { out: up, length: *length, time: model });
                }
            }
        }
        if let Some((up, down)) = link.cell() {
            try_it(up, format!("one ATM cell from the reference: {}", jitlat_core::units::eng4(up.0)));
            try_it(down, format!("one ATM cell to the reference: {}", jitlat_core::units::eng4(down.0)));
        }
        queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_capture(text: &str) -> Vec<BandSpacing> {
        let mut l = ThinnedTimes::default();
        for line in text.lines().skip(1) {
            let rtt: f64 = line.split(',').nth(2).unwrap().parse().unwrap();
            l.push((rtt * 1e6).round() as i64 * 1000);
        }
        l.find()
    }

    #[test]
    fn an_upload_through_a_queue_has_the_pitch_of_its_packets() {
        // The bands shift whenever the sender pauses, so only differences of neighbouring values show them.
        for text in [
            include_str!("../../../testdata/spp/atm_tcp_up.rtt.csv"),
            include_str!("../../../testdata/spp/htb_tcp_up.rtt.csv"),
        ] {
            let mut found = of_capture(text);
            assert!(found.len() == 1 && (found[0].spacing_ns - 106e6).abs() < 0.05e6, "{found:?}");
            let link = "pppoe-llc,up=128k,down=512k".parse().unwrap();
            found[0].explain(&link, &[1450, 52], &[52, 64]);
            assert_eq!(
                found[0].explained,
                ["one queued OUT packet of 1450 bytes, 32 cells: 106.0 ms on the link from the reference"]
            );
        }
    }

    #[test]
    fn a_calm_stream_has_none() {
        for text in [
            include_str!("../../../testdata/spp/atm_udp340.rtt.csv"),
            include_str!("../../../testdata/spp/htb_udp340.rtt.csv"),
        ] {
            assert_eq!(of_capture(text), []);
        }
    }

    #[test]
    fn bands_of_packets_with_bands_of_cells_inside() {
        // Metrics V27: a download whose acknowledgements go up through ATM.
        let mut state = 12_345u64;
        let mut u = || {
            state = state * 48_271 % 2_147_483_647;
            state as f64 / 2_147_483_647.0
        };
        let mut l = ThinnedTimes::default();
        for _ in 0..1000 {
            let ms = 79.0 + 26.5 * (u() * 6.0).floor() + 3.3125 * (u() * 4.0).floor() + 0.3 * (u() - 0.5);
            l.push((ms * 1e6) as i64);
        }
        let found = l.find();
        assert!(found.len() == 2 && found[1].steps_per_coarser == Some(8), "{found:?}");
        // Only the fine bands are biased by nothing; the coarse ones are eight of them apart.
        assert!(
            (found[0].spacing_ns - 26.5e6).abs() < 0.02e6 && (found[1].spacing_ns - 3.3125e6).abs() < 0.002e6,
            "{found:?}"
        );
    }

    #[test]
    fn coarse_bands_are_the_most_frequent_multiple_of_the_fine_ones() {
        let fine = BandSpacing::new(10.0, 0.95, None);
        let set = |coarse: f64, moves: &[f64]| {
            let mut found = [BandSpacing::new(coarse, 0.5, None), fine.clone()];
            set_to_multiples(&mut found, moves);
            found[0].spacing_ns
        };
        let moves = [[70.0; 3].as_slice(), &[80.0; 9]].concat();
        assert_eq!([set(74.0, &moves), set(68.0, &moves), set(84.0, &moves)], [80.0; 3]);
        // Only neighbouring multiples are compared, and without moves the nearest one is taken.
        assert_eq!((set(62.0, &moves), set(74.0, &[])), (70.0, 70.0));
        // Many fine bands in a coarse one: the estimate is better than the differences.
        assert_eq!(set(212.0, &[220.0; 9]), 210.0);
        // Weak fine bands are not a lattice.
        let mut found = [BandSpacing::new(74.0, 0.5, None), BandSpacing::new(10.0, 0.5, None)];
        set_to_multiples(&mut found, &moves);
        assert_eq!(found[0].spacing_ns, 74.0);
    }

    #[test]
    fn a_part_adds_only_finer_bands() {
        let of_all = [level(26.5e6), level(3.3125e6)];
        let spacings = |of_part: &[f64]| -> Vec<f64> {
            let part = of_part.iter().map(|ns| level(*ns)).collect();
            with_finer(&of_all, part).iter().map(|l| l.spacing_ns).collect()
        };
        assert_eq!(spacings(&[23.49e6, 3.3e6]), [26.5e6, 3.3125e6]);
        assert_eq!(spacings(&[25.69e6, 3.2e6, 0.8e6, 15e3]), [26.5e6, 3.3125e6, 0.8e6, 15e3]);
        let all = with_finer(&of_all, vec![level(0.828125e6)]);
        assert_eq!(all.iter().map(|l| l.steps_per_coarser).collect::<Vec<_>>(), [None, Some(8), Some(4)]);
        assert_eq!(with_finer(&[], vec![level(5.0)]).len(), 1, "bands of the part alone");
    }

    #[test]
    fn the_queue_is_counted_in_packets_that_explain_the_bands() {
        let link: AccessLink = "pppoe-llc,up=128k,down=512k".parse().unwrap();
        let size = |out_length, pairs, rtt_ms: &[i64]| SizeFigures {
            out_length,
            in_length: 52,
            pairs,
            min_rtt_ns: 126_000_000,
            median_rtt_ns: 2,
            mean_rtt_ns: 2.0,
            percentiles: rtt_ms.iter().map(|ms| ms * 1_000_000).collect(),
        };
        // One value for every 5 %: 126 ms without a queue, 20 packets more at 5 %, 25 at 50 %, 30 at 95 %.
        let mut rtts = vec![126, 126 + 20 * 106];
        rtts.extend(vec![126 + 25 * 106; 17]);
        rtts.extend([126 + 30 * 106, 126 + 31 * 106]);
        let sizes = [size(1450, 600, &rtts), size(76, 900, &[126; 21]), size(1450, 3, &[126; 21])];
        let mut levels = [level(106e6), level(3.3125e6)];
        let packet = explain_levels(&mut levels, &link, &sizes).unwrap();
        assert_eq!((packet.out, packet.length, packet.time), (true, 1450, Span(106_000_000)));
        let queue = QueueLength::of(packet, &sizes).unwrap();
        assert_eq!((queue.p05, queue.median, queue.p95, queue.max), (20.0, 25.0, 30.0, 31.0));
        assert_eq!(
            queue.to_string(),
            "20 to 30 OUT packets of 1450 bytes (5 to 95 % of the pairs), median 25, most 31"
        );
        assert_eq!(QueueLength::of(packet, &sizes[1..]), None, "never a packet in the queue");
        assert_eq!(QueueLength::of(packet, &[]), None);
        assert_eq!(explain_levels(&mut [level(3.3125e6)], &link, &sizes), None, "a cell is no packet");
    }

    fn level(spacing_ns: f64) -> BandSpacing {
        BandSpacing::new(spacing_ns, 0.9, None)
    }

    #[test]
    fn cells_and_queued_packets_of_common_lengths_explain_bands() {
        let link: AccessLink = "pppoe-llc,up=128k,down=512k".parse().unwrap();
        let cell = link.cell().unwrap().0.0 as f64;
        let packet = link.delay_up(1450).0 as f64;
        let size = |out_length, in_length, pairs| SizeFigures {
            out_length,
            in_length,
            pairs,
            min_rtt_ns: 1,
            median_rtt_ns: 2,
            mean_rtt_ns: 2.0,
            percentiles: Vec::new(),
        };
        let explained = |sizes: &[SizeFigures]| {
            let mut levels = [level(packet), level(cell), level(packet * 1.5)];
            explain_levels(&mut levels, &link, sizes);
            levels.map(|l| l.explained.len())
        };
        assert_eq!(explained(&[]), [0, 1, 0], "a cell is there without packets");
        assert_eq!(explained(&[size(1450, 52, 1)]), [1, 1, 0]);
        // Only the most frequent lengths count, over all combinations.
        let mut many: Vec<_> = (0..MAX_LENGTHS as u32).map(|k| size(60 + k, 52, 10)).collect();
        many.extend([size(1450, 53, 6), size(1450, 54, 6)]);
        assert_eq!(explained(&many)[0], 1);
        many.pop();
        assert_eq!(explained(&many)[0], 0);
        let mut exact = level(packet * (1.0 + MAX_DEVIATION * 0.9));
        exact.explain(&link, &[1450], &[]);
        let mut off = level(packet * (1.0 + MAX_DEVIATION * 1.1));
        off.explain(&link, &[1450], &[]);
        assert_eq!((exact.explained.len(), off.explained.len()), (1, 0));
    }

    #[test]
    fn moves_within_three_percent_are_the_same() {
        let moves = [96.0, 97.0, 100.0, 103.0, 104.0];
        assert_eq!(near(&moves, 100.0), 3);
    }

    #[test]
    fn a_pitch_is_a_fifth_of_the_moves_and_ten_at_least() {
        let of = |same: usize, others: usize| {
            let mut moves: Vec<f64> = (0..others).map(|k| 1000.0 * 1.1f64.powi(k as i32)).collect();
            moves.extend(vec![10.0; same]);
            moves.sort_unstable_by(f64::total_cmp);
            commonest(&moves)
        };
        let found = of(10, 40).unwrap();
        assert_eq!(
            (found.spacing_ns, found.strength, found.of_differences, found.p),
            (10.0, 0.2, true, None)
        );
        assert_eq!((of(9, 0), of(10, 41), of(0, 0)), (None, None, None));
        assert_eq!(of(11, 44).map(|l| l.strength), Some(0.2));
        let nine = [[100.0; 9].as_slice(), &[103.0]].concat();
        assert_eq!(commonest(&nine).map(|l| l.strength), Some(1.0), "within 3 %");
        let two = [[10.0; 10], [20.0; 10]].concat();
        assert_eq!(commonest(&two).map(|l| l.spacing_ns), Some(10.0), "the smaller of two");
    }

    #[test]
    fn the_middle_range_leaves_a_hundredth_on_either_side_out() {
        let of = |n: usize| {
            let mut values: Vec<f64> = (0..n).map(|k| k as f64).collect();
            let range = middle_range(&mut values);
            (range, values.len())
        };
        assert_eq!((of(49), of(50)), ((None, 49), (Some(49.0), 50)));
        assert_eq!((of(99), of(100), of(200)), ((Some(98.0), 99), (Some(97.0), 98), (Some(195.0), 196)));
        assert_eq!(middle_range(&mut vec![7.0; 60]), None);
    }

    #[test]
    fn of_many_values_every_second_is_kept() {
        let mut levels = ThinnedTimes::default();
        for k in 0..MAX_VALUES as i64 + 10 {
            levels.push(k * 1000);
        }
        assert!(!levels.fine);
        assert_eq!((levels.kept.len(), levels.every), (MAX_VALUES / 2 + 5, 2));
        assert_eq!(levels.kept[..3], [(0, None), (2000, Some(1000)), (4000, Some(1000))]);
        assert_eq!(levels.kept[MAX_VALUES / 2], (MAX_VALUES as i64 * 1000, Some(1000)));
        levels.push(1);
        assert!(levels.fine);
        levels.push(1000);
        assert!(levels.fine, "one fraction of a microsecond is enough");
    }

    #[test]
    fn a_spacing_is_one_that_recurs_among_the_moves() {
        let moves = |of_it: usize, all: usize| [vec![100.0; of_it], vec![1000.0; all - of_it]].concat();
        assert!(recurs(&moves(10, 250), 100.0) && !recurs(&moves(9, 250), 100.0));
        assert!(recurs(&moves(5, 50), 100.0) && !recurs(&moves(4, 50), 100.0));
        assert!(is_same(104.0, 100.0) && is_same(96.0, 100.0));
        assert!(!is_same(106.0, 100.0) && !is_same(94.0, 100.0));
    }

    #[test]
    fn two_levels_are_a_step_and_no_bands() {
        // A delay that alternates irregularly between 50 ms and 150 ms: every difference is 100 ms.
        let mut l = ThinnedTimes::default();
        (0..400i64)
            .for_each(|k| l.push((if k * k % 7 < 3 { 50_000_000 } else { 150_000_000 }) + k % 5 * 1000));
        let found = l.find();
        assert!(
            found.len() == 1 && found[0].of_differences && is_same(found[0].spacing_ns, 100e6),
            "{found:?}"
        );
    }

    #[test]
    fn bands_that_the_steps_show_as_well_are_found_once() {
        // Each value is one of ten bands up or down, 10 ms apart.
        let mut l = ThinnedTimes::default();
        let (mut state, mut band) = (12_345u64, 5i64);
        for _ in 0..2000 {
            state = state * 48_271 % 2_147_483_647;
            let up = band == 0 || band < 9 && state & 1024 == 0;
            band += if up { 1 } else { -1 };
            l.push(50_000_000 + band * 10_000_000 + (state % 1000) as i64 * 100);
        }
        let found = l.find();
        let of_bands: Vec<_> = found.iter().filter(|f| is_same(f.spacing_ns, 10e6)).collect();
        assert!(of_bands.len() == 1 && !of_bands[0].of_differences, "{found:?}");
    }
}
