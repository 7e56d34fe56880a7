//! Reorder-buffer occupancy (metrics §13; RFC 5236 §7.2).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of packets stored in a buffer that restores the order, counted after every arrival that is not too late. The
/// count corrects an error of RFC 5236 §7.2: after a forced advance past missing packets, an arrival that was not
/// consumed is stored (metrics §27).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "StoredOccupancy", into = "StoredOccupancy")]
pub struct Occupancy {
    threshold: usize,
    /// Sequence number for which the buffer waits.
    expected: u64,
    /// Numbers above `expected` that have arrived.
    held: HeldNumbers,
    /// Number of arrivals, indexed by the number of packets stored after them.
    found: Vec<u64>,
    /// True if the occupancy is unknown because joined parts do not fit together.
    unknown: bool,
}

/// The serialised form of an occupancy: stored packets by sequence number, ascending.
#[derive(Serialize, Deserialize)]
struct StoredOccupancy {
    threshold: usize,
    expected: u64,
    held: Vec<u32>,
    found: Vec<u64>,
    unknown: bool,
}

impl From<Occupancy> for StoredOccupancy {
    fn from(occupancy: Occupancy) -> StoredOccupancy {
        let held = occupancy.held.numbers(occupancy.expected);
        let Occupancy { threshold, expected, found, unknown, .. } = occupancy;
        StoredOccupancy { threshold, expected, held, found, unknown }
    }
}

impl TryFrom<StoredOccupancy> for Occupancy {
    type Error = &'static str;

    fn try_from(stored: StoredOccupancy) -> Result<Occupancy, &'static str> {
        let StoredOccupancy { threshold, expected, held: numbers, found, unknown } = stored;
        if numbers.iter().any(|number| u64::from(*number) <= expected) {
            return Err("a buffer stores a packet below the expected one");
        }
        let mut held = HeldNumbers::default();
        numbers.into_iter().for_each(|number| held.push(number, expected));
        Ok(Occupancy { threshold, expected, held, found, unknown })
    }
}

/// Numbers of the stored packets, all above the expected number: near ones as bits of a ring, others in a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HeldNumbers {
    near: [u64; (HeldNumbers::NEAR / 64) as usize],
    /// Numbers that exceed the expected number by at least [`HeldNumbers::NEAR`].
    far: BTreeSet<u32>,
    len: usize,
}

impl HeldNumbers {
    /// Size of the ring. Packets that are reordered by more are rare, and only cost more time.
    const NEAR: u64 = 512;

    fn is_near(number: u32, expected: u64) -> bool {
        u64::from(number) < expected + Self::NEAR
    }

    /// Returns the word index and the bit of a number.
    fn bit_of(number: u64) -> (usize, u64) {
        ((number % Self::NEAR / 64) as usize, 1 << (number % 64))
    }

    /// Adds a number above `expected`.
    #[inline]
    fn push(&mut self, number: u32, expected: u64) {
        let new = if Self::is_near(number, expected) {
            let (word, bit) = Self::bit_of(number.into());
            let before = self.near[word];
            self.near[word] |= bit;
            before & bit == 0
        } else {
            self.far.insert(number)
        };
        self.len += usize::from(new);
    }

    /// Removes `expected` and the numbers that follow it without a gap. Returns the first number that is not
    /// stored.
    #[inline]
    fn pop_from(&mut self, mut expected: u64) -> u64 {
        while self.len > 0 {
            if !self.far.is_empty() {
                self.bring_near(expected);
            }
            let ((word, _), shift) = (Self::bit_of(expected), expected % 64);
            // Length of the run of consecutive numbers within this word.
            let run = (self.near[word] >> shift).trailing_ones();
            if run == 0 {
                break;
            }
            self.near[word] &= !(u64::MAX >> (64 - run) << shift);
            self.len -= run as usize;
            expected += u64::from(run);
        }
        expected
    }

    /// Moves the numbers that are near the new `expected` into the ring.
    fn bring_near(&mut self, expected: u64) {
        while let Some(number) = self.far.first().copied().filter(|number| Self::is_near(*number, expected)) {
            self.far.pop_first();
            let (word, bit) = Self::bit_of(number.into());
            self.near[word] |= bit;
        }
    }

    /// Returns the smallest stored number; `None` if none is stored. All stored numbers are above `expected`.
    fn smallest(&self, expected: u64) -> Option<u32> {
        // The ring is read from the bit of `expected`. The bits before it in the same word belong to the largest
        // numbers.
        let (first, bit) = Self::bit_of(expected);
        let words = self.near.len();
        let word = |k: usize| {
            let bits = self.near[(first + k) % words];
            match k {
                0 => bits & !(bit - 1),
                k if k == words => bits & (bit - 1),
                _ => bits,
            }
        };
        let begin = expected - expected % 64;
        let near = (0..=words).find(|k| word(*k) != 0);
        let near = near.map(|k| (begin + 64 * k as u64 + u64::from(word(k).trailing_zeros())) as u32);
        near.or_else(|| self.far.first().copied())
    }

    /// Returns the stored numbers, ascending; all are above `expected`.
    fn numbers(&self, expected: u64) -> Vec<u32> {
        let is_held = |number: &u64| {
            let (word, bit) = Self::bit_of(*number);
            self.near[word] & bit != 0
        };
        let near = (expected..expected + Self::NEAR).filter(is_held).map(|number| number as u32);
        near.chain(self.far.iter().copied()).collect()
    }
}

impl Occupancy {
    /// Creates a buffer with threshold BT that waits for `first`. To make it loss-aware, push ranks among the accepted
    /// packets instead of sequence numbers, with `first` 0.
    pub fn new(threshold: u32, first: u32) -> Occupancy {
        let threshold = threshold as usize;
        Occupancy {
            threshold,
            expected: first.into(),
            held: HeldNumbers::default(),
            found: vec![0; threshold + 2],
            unknown: false,
        }
    }

    /// Adds the packets that `whole` contains in addition to its earlier state `lead`. If `lead` and this buffer did
    /// not store the same packets, the occupancy becomes unknown.
    pub(crate) fn join(&mut self, whole: Occupancy, lead: &Occupancy) {
        let same = self.expected == lead.expected && self.held == lead.held;
        let unknown = self.unknown || whole.unknown || !same;
        let mut found = core::mem::take(&mut self.found);
        for ((mine, whole), lead) in found.iter_mut().zip(&whole.found).zip(&lead.found) {
            *mine += whole.saturating_sub(*lead);
        }
        *self = Occupancy { found, unknown, ..whole };
    }

    /// Returns true if this can be the occupancy of `n` packets with the threshold BT. Checks only the
    /// properties that computations rely on.
    pub(crate) fn is_possible(&self, n: u64, threshold: u32) -> bool {
        let (most, threshold) = (1 << 33, threshold as usize);
        let held = self.threshold == threshold && self.held.len <= threshold && self.expected <= most;
        let found = self.found.iter().map(|c| u128::from(*c)).sum::<u128>();
        held && self.found.len() == threshold + 2 && found <= n.into()
    }

    /// Adds the next arrivals, which have consecutive numbers. Each number may be added only once.
    pub fn push_run(&mut self, mut run: Range<u32>) {
        while !run.is_empty() {
            if self.held.len == 0 && u64::from(run.start) == self.expected {
                self.expected += run.len() as u64;
                self.found[0] += run.len() as u64;
                return;
            }
            self.push(run.start);
            run.start += 1;
            if !run.is_empty() && u64::from(run.start) > self.expected {
                // Store as many as fit.
                let room = self.threshold.saturating_sub(self.held.len).min(run.len()) as u32;
                for number in run.start..run.start + room {
                    self.held.push(number, self.expected);
                    self.found[self.held.len] += 1;
                }
                run.start += room;
            }
        }
    }

    /// Adds the next arrival. Each number may be added only once.
    #[inline]
    pub fn push(&mut self, seq: u32) {
        let number = u64::from(seq);
        if number < self.expected {
            return;
        }
        if number == self.expected {
            self.expected += 1;
        } else if self.held.len < self.threshold {
            self.held.push(seq, self.expected);
        } else {
            // The buffer is full: missing packets below the smallest stored number count as lost.
            self.held.push(seq, self.expected);
            self.expected = self.held.smallest(self.expected).map_or(number, u64::from);
        }
        self.expected = self.held.pop_from(self.expected);
        self.found[self.held.len] += 1;
    }

    /// Returns the number of packets stored now.
    pub fn held(&self) -> usize {
        self.held.len
    }

    /// Returns the number of arrivals by occupancy; empty if it is unknown.
    pub fn histogram(&self) -> BTreeMap<u64, u64> {
        if self.unknown {
            return BTreeMap::new();
        }
        (0..).zip(self.found.iter().copied()).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::density::tests::{JOINED, Joined, disturbed, long_stream, unique};
    use super::super::series::runs;
    use super::*;
    use proptest::prelude::*;

    fn of(arrivals: &[u32], threshold: u32) -> Occupancy {
        let mut occupancy = Occupancy::new(threshold, 0);
        arrivals.iter().for_each(|seq| occupancy.push(*seq));
        occupancy
    }

    /// A literal implementation with a sorted list of stored packets.
    fn literal(arrivals: &[u32], threshold: usize) -> BTreeMap<u64, u64> {
        let (mut expected, mut held, mut found) = (0, Vec::new(), BTreeMap::new());
        for number in arrivals.iter().copied().map(u64::from) {
            if number < expected {
                continue;
            }
            held.push(number);
            held.sort_unstable();
            if held.len() > threshold && number != expected {
                expected = held[0];
            }
            while held.first() == Some(&expected) {
                held.remove(0);
                expected += 1;
            }
            *found.entry(held.len() as u64).or_default() += 1;
        }
        found
    }

    /// Numbers in any order, up to a few hundred apart, and some far ahead of all others.
    fn wild_stream() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec((0u32..1200, prop::bool::weighted(0.02)), 0..300).prop_map(|numbers| {
            let rank =
                |(k, (late, rogue)): (u32, (u32, bool))| if rogue { 5000 + late } else { 2 * k + late };
            unique(&(0..).zip(numbers).map(rank).collect::<Vec<_>>())
        })
    }

    proptest! {
        #[test]
        fn equals_a_sorted_list(s in wild_stream(), threshold in 0u32..150) {
            prop_assert_eq!(of(&s, threshold).histogram(), literal(&s, threshold as usize));
        }

        #[test]
        fn survives_being_stored(s in wild_stream(), threshold in 0u32..150, cut in any::<prop::sample::Index>()) {
            let (before, after) = s.split_at(cut.index(s.len() + 1));
            let stored = serde_json::to_string(&of(before, threshold)).unwrap();
            let mut read: Occupancy = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(&read.held, &of(before, threshold).held);
            after.iter().for_each(|seq| read.push(*seq));
            prop_assert_eq!(read.histogram(), of(&s, threshold).histogram());
        }

        #[test]
        fn runs_are_taken_as_their_packets(s in long_stream(), threshold in 1u32..40) {
            let arrivals = unique(&s);
            let mut by_run = Occupancy::new(threshold, 0);
            runs(&arrivals).for_each(|run| by_run.push_run(run));
            let one_by_one = of(&arrivals, threshold);
            prop_assert_eq!((by_run.expected, &by_run.held), (one_by_one.expected, &one_by_one.held));
            prop_assert_eq!(by_run.histogram(), one_by_one.histogram());
        }
    }

    #[test]
    fn later_arrivals_are_added_to_those_before() {
        let arrivals = disturbed();
        let occupied = of(&arrivals, 4).histogram();
        assert_eq!(occupied.values().sum::<u64>(), 400);
        // Both parts contain the arrivals from `begin` to `end`.
        for (begin, end) in [(0, 10), (20, 40), (64, 90), (100, 130), (160, 190), (210, 240), (300, 320)] {
            let (mut mine, lead) = (of(&arrivals[..end], 4), of(&arrivals[begin..end], 4));
            mine.join(of(&arrivals[begin..], 4), &lead);
            assert_eq!(mine.histogram(), occupied, "{begin} {end}");
        }
    }

    #[test]
    fn nothing_is_known_where_something_else_was_held() {
        let empty = |mine: &[u32], lead: &[u32], unknown: [bool; 2]| {
            let (mut mine, lead) = (of(mine, 2), of(lead, 2));
            let mut later = lead.clone();
            (mine.unknown, later.unknown) = (unknown[0], unknown[1]);
            mine.join(later, &lead);
            mine.histogram().is_empty()
        };
        for Joined { mine, lead, unknown, is_unknown } in JOINED {
            assert_eq!(empty(mine, lead, unknown), is_unknown, "{mine:?} {lead:?} {unknown:?}");
        }
    }

    #[test]
    fn a_state_has_nothing_beyond_its_packets() {
        let valid = of(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 2);
        assert!(valid.is_possible(9, 2) && !valid.is_possible(8, 2) && !valid.is_possible(9, 3));
        let three = Occupancy::new(3, 0);
        assert!(three.is_possible(0, 3) && !three.is_possible(0, 2));
        let stays = |change: fn(&mut Occupancy)| {
            let mut changed = valid.clone();
            change(&mut changed);
            changed.is_possible(9, 2)
        };
        assert!(stays(|o| o.expected = 1 << 33) && !stays(|o| o.expected = (1 << 33) + 1));
        fn held(o: &mut Occupancy, numbers: &[u32]) {
            numbers.iter().for_each(|number| o.held.push(*number, o.expected));
        }
        assert!(stays(|o| held(o, &[20, 2000])) && !stays(|o| held(o, &[20, 2000, 22])));
        assert!(!stays(|o| o.found.push(0)) && !stays(|o| _ = o.found.pop()));
        // A stored packet below the expected number is rejected when reading.
        let stored = serde_json::to_string(&of(&[0, 5], 4)).unwrap();
        assert!(serde_json::from_str::<Occupancy>(&stored).is_ok());
        for made_up in ["[1]", "[5,0]"] {
            assert!(serde_json::from_str::<Occupancy>(&stored.replace("[5]", made_up)).is_err());
        }
    }
}
