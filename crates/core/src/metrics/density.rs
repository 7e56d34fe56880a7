//! Reorder density (metrics §13; RFC 5236).

use super::one_pass::join_counts;
use super::series::Series;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Threshold of the bounded algorithms of RFC 5236: DT of the reorder density, and BT of the buffer occupancy.
pub const THRESHOLD: u32 = 128;

/// Number of packets per displacement: small displacements in an array, large ones in a map.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Displacements {
    near: Vec<u64>,
    far: BTreeMap<i64, u64>,
}

impl Displacements {
    /// Largest displacement that is counted in an array. Larger ones are rare and have no limit, so they are counted in
    /// a map.
    const REACH: i64 = 512;

    fn new() -> Displacements {
        Displacements { near: vec![0; 2 * Self::REACH as usize + 1], far: BTreeMap::new() }
    }

    fn join(&mut self, whole: &Displacements, lead: &Displacements) {
        for ((mine, whole), lead) in self.near.iter_mut().zip(&whole.near).zip(&lead.near) {
            *mine += whole.saturating_sub(*lead);
        }
        join_counts(&mut self.far, &whole.far, &lead.far);
    }

    fn is_possible(&self, n: u64) -> bool {
        let counts = self.near.iter().chain(self.far.values());
        self.near.len() == 2 * Self::REACH as usize + 1
            && counts.map(|c| u128::from(*c)).sum::<u128>() <= n.into()
    }

    fn add(&mut self, d: i64, times: u64) {
        match usize::try_from(d + Self::REACH).ok().and_then(|i| self.near.get_mut(i)) {
            Some(count) => *count += times,
            None => *self.far.entry(d).or_default() += times,
        }
    }

    fn finish(self) -> BTreeMap<i64, u64> {
        let near = (-Self::REACH..).zip(self.near).filter(|(_, count)| *count > 0);
        near.chain(self.far).collect()
    }
}

/// An ascending queue of numbers. It is fast because nearly every added number is the largest, and only the smallest is
/// removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u32>")]
struct SortedQueue(VecDeque<u32>);

impl From<Vec<u32>> for SortedQueue {
    /// Creates a queue of numbers in any order.
    fn from(mut numbers: Vec<u32>) -> SortedQueue {
        numbers.sort_unstable();
        SortedQueue(numbers.into())
    }
}

impl SortedQueue {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    fn smallest(&self) -> Option<u32> {
        self.0.front().copied()
    }

    #[inline]
    fn pop(&mut self) {
        self.0.pop_front();
    }

    #[inline]
    fn push(&mut self, number: u32) {
        match self.0.back() {
            Some(largest) if *largest > number => {
                let at = self.0.partition_point(|n| *n < number);
                self.0.insert(at, number);
            }
            _ => self.0.push_back(number),
        }
    }
}

/// Returns the complete density. The k-th accepted arrival gets the k-th smallest accepted number as its
/// receive index, which skips losses and duplicates. The displacement is index − number, positive for late
/// packets.
pub fn complete_density(series: &Series<'_>) -> BTreeMap<i64, u64> {
    let mut found = Displacements::new();
    let mut in_place = series.len() as u64;
    let arrivals = series.numbers();
    for (stretch, _) in series.displaced() {
        in_place -= stretch.len() as u64;
        let mut arrived = arrivals[stretch.clone()].iter();
        series.range(stretch).for_each(|index| {
            let number = arrived.next().copied().unwrap_or(index.seq);
            found.add(i64::from(index.seq) - i64::from(number), 1);
        });
    }
    found.add(0, in_place);
    found.finish()
}

/// The bounded "stay-back" algorithm of RFC 5236 (§7.1). A receive index counts as lost if its number is neither among
/// the next DT + 1 arrivals nor stored. Displacements beyond DT are discarded. Takes O(log DT) per packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StayBack {
    threshold: u32,
    index: u64,
    window: VecDeque<u32>,
    /// Numbers without a matching receive index: those of packets in the window, and of early packets that have left
    /// the window.
    unmet: SortedQueue,
    /// Numbers to remove once they are the smallest of `unmet`.
    discarded: SortedQueue,
    found: Displacements,
    /// True if the displacements are unknown because joined parts do not fit together.
    unknown: bool,
}

impl StayBack {
    /// Starts the calculation with displacement threshold `threshold`; `first` is the first sequence number.
    pub fn new(threshold: u32, first: u32) -> StayBack {
        StayBack {
            threshold,
            index: first.into(),
            window: VecDeque::new(),
            unmet: SortedQueue::default(),
            discarded: SortedQueue::default(),
            found: Displacements::new(),
            unknown: false,
        }
    }

    /// Returns the density with DT = 128 of arrivals whose complete density is `complete`. If no displacement
    /// exceeds DT, the two densities are equal, because every index is matched within the window.
    pub fn of(
        complete: &BTreeMap<i64, u64>,
        arrivals: impl Iterator<Item = Range<u32>>,
    ) -> BTreeMap<i64, u64> {
        let reach = i64::from(THRESHOLD);
        let within = |d: Option<(&i64, &u64)>| d.is_none_or(|(d, _)| d.abs() <= reach);
        if within(complete.first_key_value()) && within(complete.last_key_value()) {
            return complete.clone();
        }
        let mut stay_back = StayBack::new(THRESHOLD, 0);
        arrivals.for_each(|run| stay_back.push_run(run));
        stay_back.finish()
    }

    /// Adds the packets that `whole` contains in addition to its earlier state `lead`. If `lead` and this density were
    /// not waiting for the same numbers, for example after a displacement beyond DT, the density becomes unknown.
    pub(crate) fn join(&mut self, whole: StayBack, lead: &StayBack) {
        self.found.join(&whole.found, &lead.found);
        let found = core::mem::replace(&mut self.found, Displacements::new());
        let awaits = |s: &StayBack| (s.index, s.window.clone(), s.awaited());
        let unknown = self.unknown || whole.unknown || awaits(self) != awaits(lead);
        *self = StayBack { found, unknown, ..whole };
    }

    /// Returns the numbers without a matching receive index, ascending.
    fn awaited(&self) -> Vec<u32> {
        let awaited = |number: &u32| self.discarded.0.binary_search(number).is_err();
        self.unmet.0.iter().copied().filter(awaited).collect()
    }

    /// Returns true if this can be the density of `n` packets with the threshold DT. Checks only the properties
    /// that computations rely on.
    pub(crate) fn is_possible(&self, n: u64, threshold: u32) -> bool {
        let index = self.index <= 1 << 33 && self.threshold == threshold;
        index && self.window.len() <= threshold as usize && self.found.is_possible(n)
    }

    /// Adds the next arrivals, which have consecutive numbers. Each number may be added only once.
    pub fn push_run(&mut self, mut run: Range<u32>) {
        while !run.is_empty() {
            let taken = self.take_in_place(run.clone());
            if taken == 0 {
                self.push(run.start);
            }
            run.start += taken.max(1);
        }
    }

    /// Fast path for arrivals in order: while the first arrival in the window is the smallest unmatched number,
    /// shifts arrivals from `run` into the window. Returns the number of shifted arrivals.
    fn take_in_place(&mut self, run: Range<u32>) -> u32 {
        let Some(first) = self.window.front().copied() else { return 0 };
        let full = self.window.len() == self.threshold as usize && self.discarded.is_empty();
        let follows = self.unmet.0.back().is_none_or(|largest| *largest < run.start);
        if !full || !follows || self.unmet.smallest() != Some(first) || u64::from(first) < self.index {
            return 0;
        }
        let in_place = if self.window == self.unmet.0 {
            self.window.len()
        } else {
            let pairs = self.window.iter().zip(&self.unmet.0);
            pairs.take_while(|(arrival, smallest)| arrival == smallest).count()
        };
        let taken = in_place.min(run.len());
        let Some(last) = taken.checked_sub(1).and_then(|k| self.window.get(k)) else { return 0 };
        self.index = u64::from(*last) + 1;
        self.found.add(0, taken as u64);
        let taken = taken as u32;
        for numbers in [&mut self.window, &mut self.unmet.0] {
            numbers.drain(..taken as usize);
            numbers.extend(run.start..run.start + taken);
        }
        taken
    }

    /// Adds the next arrival. Each number may be added only once.
    #[inline]
    pub fn push(&mut self, seq: u32) {
        // While the first window fills, no number is too old yet (RFC 5236 §7.1).
        if u64::from(seq) < self.index {
            return;
        }
        self.window.push_back(seq);
        self.unmet.push(seq);
        if self.window.len() > self.threshold as usize {
            self.step();
        }
    }

    fn step(&mut self) {
        while !self.unmet.is_empty() && self.unmet.smallest() == self.discarded.smallest() {
            self.unmet.pop();
            self.discarded.pop();
        }
        let Some(next) = self.unmet.smallest() else {
            self.window.pop_front();
            return;
        };
        self.index = self.index.max(next.into());
        let Some(seq) = self.window.pop_front() else { return };
        let displacement = self.index as i64 - i64::from(seq);
        if displacement.unsigned_abs() <= self.threshold.into() {
            self.found.add(displacement, 1);
            self.unmet.pop();
            self.index += 1;
        } else if u64::from(seq) >= self.index {
            self.discarded.push(seq);
        }
    }

    /// Processes the arrivals still in the window and returns the density; empty if it is unknown.
    pub fn finish(mut self) -> BTreeMap<i64, u64> {
        if self.unknown {
            return BTreeMap::new();
        }
        while !self.window.is_empty() {
            self.step();
        }
        self.found.finish()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::occupancy::Occupancy;
    use super::super::seqset::SeqSet;
    use super::super::series::{Samples, runs};
    use super::*;
    use proptest::prelude::*;

    pub fn unique(arrivals: &[u32]) -> Vec<u32> {
        let mut accepted = SeqSet::default();
        arrivals.iter().copied().filter(|s| accepted.insert(*s)).collect()
    }

    /// Returns the complete density of arrivals with different numbers.
    fn complete(arrivals: &[u32]) -> BTreeMap<i64, u64> {
        let mut samples = Samples::default();
        arrivals.iter().for_each(|&seq| samples.push(AcceptedPacket { seq, sent: 0, delay: 0 }));
        complete_density(&Series::new(&samples))
    }

    fn stay_back(arrivals: &[u32], threshold: u32, first: u32) -> BTreeMap<i64, u64> {
        let mut s = StayBack::new(threshold, first);
        unique(arrivals).into_iter().for_each(|seq| s.push(seq));
        s.finish()
    }

    fn occupancy(arrivals: &[u32], threshold: u32) -> (Vec<usize>, BTreeMap<u64, u64>) {
        let mut o = Occupancy::new(threshold, 1);
        let trace = unique(arrivals).into_iter().map(|seq| {
            o.push(seq);
            o.held()
        });
        (trace.collect(), o.histogram())
    }

    #[test]
    fn examples_of_rfc_5236() {
        // §8 a, b, c.
        let a = [1, 4, 2, 5, 3, 6, 7, 8];
        assert_eq!(stay_back(&a, 4, 1), BTreeMap::from([(-2, 1), (-1, 1), (0, 4), (1, 1), (2, 1)]));
        let (trace, histogram) = occupancy(&a, 4);
        assert_eq!(trace, [0, 1, 1, 2, 0, 0, 0, 0]);
        assert_eq!(histogram, BTreeMap::from([(0, 5), (1, 2), (2, 1)]));
        let b = [1, 2, 4, 5, 6, 7];
        assert_eq!(stay_back(&b, 3, 1), BTreeMap::from([(0, 6)]));
        assert_eq!(occupancy(&b, 3).1, BTreeMap::from([(0, 3), (1, 1), (2, 1), (3, 1)]));
        let c = [1, 3, 2, 3, 4, 5];
        assert_eq!(stay_back(&c, 2, 1), BTreeMap::from([(-1, 1), (0, 3), (1, 1)]));
        assert_eq!(occupancy(&c, 2).1, BTreeMap::from([(0, 4), (1, 1)]));
        // §3.3 example 3, §4 example 5, §6 rogue.
        let e3 = [1, 4, 3, 5, 3, 8, 7, 6];
        let expected = BTreeMap::from([(-2, 1), (-1, 1), (0, 3), (1, 1), (2, 1)]);
        assert_eq!(stay_back(&e3, 8, 1), expected);
        assert_eq!(stay_back(&[1, 2, 5, 3, 6, 2], 8, 1), BTreeMap::from([(-2, 1), (0, 3), (2, 1)]));
        let rogue: Vec<u32> = [1, 5430].into_iter().chain(2..30).collect();
        assert_eq!(stay_back(&rogue, 8, 1), BTreeMap::from([(0, 29)]));
        // §3.1 example 1.
        assert_eq!(complete(&[2, 1, 4, 5, 3]), BTreeMap::from([(-1, 3), (1, 1), (2, 1)]));
    }

    #[test]
    fn the_repaired_forced_advance() {
        // metrics §13, V12.
        let (trace, histogram) = occupancy(&[1, 2, 4, 5, 9, 12, 6, 7, 8, 10, 11, 13], 3);
        assert_eq!(histogram, BTreeMap::from([(0, 4), (1, 3), (2, 4), (3, 1)]));
        assert_eq!(trace.len(), 12);
    }

    fn stream() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec((0u32..24, prop::bool::weighted(0.85)), 0..50).prop_map(|keys| {
            let mut order: Vec<(u32, u32)> = (0..)
                .zip(keys)
                .filter(|(_, (_, kept))| *kept)
                .map(|(i, (late, _))| (i + late / 4 * (late % 4), i))
                .collect();
            order.sort_by_key(|o| o.0);
            order.into_iter().map(|o| o.1).collect()
        })
    }

    /// Long runs in order, with a lost or reordered packet between them.
    pub fn long_stream() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec((1u32..90, 0u32..4, 1usize..6), 1..12).prop_map(|parts| {
            let (mut arrivals, mut next) = (Vec::new(), 0);
            for (length, lost, late) in parts {
                next += lost;
                arrivals.extend(next..next + length);
                next += length;
                let from = arrivals.len().saturating_sub(late);
                arrivals[from..].rotate_left(1);
            }
            arrivals
        })
    }

    /// RFC 5236 §7.1, implemented literally.
    fn literal(arrivals: &[u32], threshold: u32) -> BTreeMap<i64, u64> {
        let mut rest = arrivals.iter().copied();
        let mut window: Vec<u32> = rest.by_ref().take(threshold as usize + 1).collect();
        let (mut held, mut index, mut found) = (Vec::new(), 0u32, BTreeMap::new());
        while !window.is_empty() {
            if !window.contains(&index) && !held.contains(&index) {
                let smallest = window.iter().chain(&held).min().copied().unwrap();
                index = if index < smallest { smallest } else { index + 1 };
                continue;
            }
            let seq = window.remove(0);
            let d = i64::from(index) - i64::from(seq);
            if d.unsigned_abs() <= threshold.into() {
                *found.entry(d).or_insert(0) += 1;
                held.retain(|h| *h != index);
                if d < 0 {
                    held.push(seq);
                }
                index += 1;
            }
            window.extend(rest.find(|s| *s >= index));
        }
        found
    }

    proptest! {
        #[test]
        fn stay_back_equals_the_text(s in stream(), threshold in 1u32..12) {
            prop_assert_eq!(stay_back(&s, threshold, 0), literal(&s, threshold));
        }

        #[test]
        fn complete_equals_a_large_threshold(s in stream()) {
            prop_assert_eq!(complete(&unique(&s)), stay_back(&s, 200, 0));
        }

        #[test]
        fn runs_are_taken_as_their_packets(s in long_stream(), threshold in 1u32..40) {
            let arrivals = unique(&s);
            let (mut by_run, mut one_by_one) = (StayBack::new(threshold, 0), StayBack::new(threshold, 0));
            for run in runs(&arrivals) {
                by_run.push_run(run.clone());
                run.for_each(|seq| one_by_one.push(seq));
                prop_assert_eq!((&by_run.window, &by_run.unmet), (&one_by_one.window, &one_by_one.unmet));
                prop_assert_eq!(by_run.index, one_by_one.index);
            }
            prop_assert_eq!(by_run.finish(), one_by_one.finish());
        }
    }

    #[test]
    fn the_bounded_density_is_the_complete_one_within_its_threshold() {
        // One packet arrives after this number of later ones.
        let of = |reordered: u32| {
            let arrivals: Vec<u32> = (1..=reordered).chain([0]).chain(reordered + 1..400).collect();
            let complete = complete(&arrivals);
            let mut whole = StayBack::new(THRESHOLD, 0);
            arrivals.iter().for_each(|seq| whole.push(*seq));
            let bounded = StayBack::of(&complete, runs(&arrivals));
            assert_eq!(bounded, whole.finish());
            (bounded == complete, bounded.values().sum::<u64>())
        };
        assert_eq!(of(THRESHOLD), (true, 400));
        let (same, counted) = of(THRESHOLD + 1);
        assert!(!same && counted < 400, "{counted}");
    }

    #[test]
    fn displacements_near_and_far() {
        let mut found = Displacements::new();
        let all = [-513, -512, -1, 0, 512, 513, 513, 100_000];
        all.into_iter().for_each(|d| found.add(d, 1));
        assert_eq!(
            found.finish(),
            BTreeMap::from([(-513, 1), (-512, 1), (-1, 1), (0, 1), (512, 1), (513, 2), (100_000, 1)])
        );
    }

    /// 400 numbers in order, except for swapped pairs and some packets that arrive after three or four later ones.
    pub fn disturbed() -> Vec<u32> {
        let mut arrivals: Vec<u32> = (0..400).collect();
        for (from, to) in
            [(20, 22), (60, 62), (61, 65), (150, 152), (200, 204), (207, 209), (330, 334), (390, 392)]
        {
            arrivals[from..to].rotate_left(1);
        }
        arrivals
    }

    #[test]
    fn later_arrivals_are_added_to_those_before() {
        let arrivals = disturbed();
        let stay_back = |of: &[u32]| {
            let mut s = StayBack::new(4, 0);
            of.iter().for_each(|seq| s.push(*seq));
            s
        };
        let density = stay_back(&arrivals).finish();
        assert_eq!(density.values().sum::<u64>(), 400);
        // Both parts contain the arrivals from `begin` to `end`.
        for (begin, end) in [(0, 10), (20, 40), (64, 90), (100, 130), (160, 190), (210, 240), (300, 320)] {
            let (mut mine, lead) = (stay_back(&arrivals[..end]), stay_back(&arrivals[begin..end]));
            mine.join(stay_back(&arrivals[begin..]), &lead);
            assert_eq!(mine.finish(), density, "{begin} {end}");
        }
    }

    /// Two parts of a stream to join.
    pub struct Joined {
        pub mine: &'static [u32],
        /// Arrivals of the later part that the first part also has.
        pub lead: &'static [u32],
        /// True for each part that is unknown.
        pub unknown: [bool; 2],
        /// True if the result is unknown.
        pub is_unknown: bool,
    }

    const fn joined(lead: &'static [u32], unknown: [bool; 2], is_unknown: bool) -> Joined {
        Joined { mine: &[0, 1, 2, 3, 4, 5, 6], lead, unknown, is_unknown }
    }

    pub const JOINED: [Joined; 5] = [
        // The first part still waits for 0.
        Joined { mine: &[0, 1, 2, 3, 4], ..joined(&[3, 4], [false; 2], true) },
        joined(&[2, 3, 4, 5, 6], [false; 2], false),
        joined(&[2, 3, 4, 6, 7], [false; 2], true),
        joined(&[2, 3, 4, 5, 6], [true, false], true),
        joined(&[2, 3, 4, 5, 6], [false, true], true),
    ];

    #[test]
    fn nothing_is_known_where_something_else_was_expected() {
        let of = |seqs: &[u32]| {
            let mut s = StayBack::new(2, 0);
            seqs.iter().for_each(|seq| s.push(*seq));
            s
        };
        let empty = |mine: &[u32], lead: &[u32], unknown: [bool; 2]| {
            let (mut mine, lead) = (of(mine), of(lead));
            let mut later = lead.clone();
            (mine.unknown, later.unknown) = (unknown[0], unknown[1]);
            mine.join(later, &lead);
            mine.finish().is_empty()
        };
        for Joined { mine, lead, unknown, is_unknown } in JOINED {
            assert_eq!(empty(mine, lead, unknown), is_unknown, "{mine:?} {lead:?} {unknown:?}");
        }
    }

    #[test]
    fn later_displacements_are_added() {
        let of = |all: &[i64]| {
            let mut found = Displacements::new();
            all.iter().for_each(|d| found.add(*d, 1));
            found
        };
        let (mut mine, lead) = (of(&[-1, 2, 600, 600]), of(&[2, 2, 600]));
        mine.join(&of(&[2, 2, 600, -1, 2, 700]), &lead);
        assert_eq!(mine.finish(), BTreeMap::from([(-1, 2), (2, 2), (600, 2), (700, 1)]));
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let mut valid = StayBack::new(2, 0);
        (0..9).for_each(|seq| valid.push(seq));
        // Two arrivals are still in the window.
        assert!(valid.is_possible(7, 2) && !valid.is_possible(6, 2) && !valid.is_possible(7, 3));
        let stays = |change: fn(&mut StayBack)| {
            let mut changed = valid.clone();
            change(&mut changed);
            changed.is_possible(9, 2)
        };
        assert!(stays(|s| s.index = 1 << 33) && !stays(|s| s.index = (1 << 33) + 1));
        assert!(!stays(|s| s.window.push_back(9)));
        assert!(stays(|s| s.found.far = BTreeMap::from([(600, 2)])));
        assert!(!stays(|s| s.found.far = BTreeMap::from([(600, 3)])));
        assert!(!stays(|s| s.found.near.push(0)) && !stays(|s| _ = s.found.near.pop()));
    }

    #[test]
    fn a_number_that_only_one_waits_for_is_no_common_state() {
        let mut mine = StayBack::new(2, 0);
        (0..9).for_each(|seq| mine.push(seq));
        let lead = mine.clone();
        mine.unmet.push(50);
        let mut same = mine.clone();
        same.discarded.push(50);
        mine.join(lead.clone(), &lead);
        same.join(lead.clone(), &lead);
        assert_eq!((mine.unknown, same.unknown), (true, false));
    }

    #[test]
    fn far_too_late_and_far_too_early_are_not_counted() {
        // 0 arrives after 200 later packets, and 600 arrives 399 positions early.
        let arrivals: Vec<u32> = (1..=200).chain([0, 600]).chain(201..600).chain(601..700).collect();
        let complete = complete(&arrivals);
        assert_eq!((complete.get(&-399), complete.get(&200)), (Some(&1), Some(&1)));
        let bounded = StayBack::of(&complete, runs(&arrivals));
        assert!(bounded.keys().all(|d| d.abs() <= i64::from(THRESHOLD)), "{bounded:?}");
    }
}
