//! [`Ecn`]: the mark of a packet, which is its two ECN bits. [`EcnMarking`]: the marks of a test's packets.

use core::fmt;
use core::ops::{Index, IndexMut, Range};
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// ECN codepoint of a packet (RFC 3168 §5, RFC 9331 §2). The discriminants are the bits on the wire: ECT(1) is 1, and
/// ECT(0) is 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: congestion is shown by loss.
    #[default]
    NotEct = 0,
    /// ECT(1): ECN-capable, asks for L4S treatment.
    Ect1 = 1,
    /// ECT(0): ECN-capable, classic treatment.
    Ect0 = 2,
    /// CE: congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// All codepoints, in the order of their bits.
    pub const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

    /// Returns the codepoint in the low two bits of `bits`, which can be a whole TOS or traffic-class octet.
    pub const fn of_bits(bits: u8) -> Ecn {
        Ecn::ALL[(bits & 3) as usize]
    }

    /// Returns the two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns true for ECT(0) and ECT(1).
    pub fn is_ect(self) -> bool {
        matches!(self, Ecn::Ect0 | Ecn::Ect1)
    }

    /// Returns true if an L4S node puts the packet in its low-latency queue: ECT(1) and CE (RFC 9331 §5.1).
    pub fn is_l4s(self) -> bool {
        matches!(self, Ecn::Ect1 | Ecn::Ce)
    }

    /// Returns the name in JSON and in configurations: `not-ect`, `ect1`, `ect0` or `ce`.
    pub fn key(self) -> &'static str {
        match self {
            Ecn::NotEct => "not-ect",
            Ecn::Ect1 => "ect1",
            Ecn::Ect0 => "ect0",
            Ecn::Ce => "ce",
        }
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ecn::NotEct => "Not-ECT",
            Ecn::Ect1 => "ECT(1)",
            Ecn::Ect0 => "ECT(0)",
            Ecn::Ce => "CE",
        })
    }
}

/// One value per codepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByMark<T> {
    /// Value for Not-ECT.
    pub not_ect: T,
    /// Value for ECT(1).
    pub ect1: T,
    /// Value for ECT(0).
    pub ect0: T,
    /// Value for CE.
    pub ce: T,
}

impl<T> ByMark<T> {
    /// Computes the value of each codepoint.
    pub fn of(mut value: impl FnMut(Ecn) -> T) -> ByMark<T> {
        let [not_ect, ect1, ect0, ce] = Ecn::ALL.map(&mut value);
        ByMark { not_ect, ect1, ect0, ce }
    }
}

impl ByMark<u64> {
    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        Ecn::ALL.iter().fold(0, |sum, mark| sum.saturating_add(self[*mark]))
    }
}

impl<T> Index<Ecn> for ByMark<T> {
    type Output = T;

    fn index(&self, mark: Ecn) -> &T {
        match mark {
            Ecn::NotEct => &self.not_ect,
            Ecn::Ect1 => &self.ect1,
            Ecn::Ect0 => &self.ect0,
            Ecn::Ce => &self.ce,
        }
    }
}

impl<T> IndexMut<Ecn> for ByMark<T> {
    fn index_mut(&mut self, mark: Ecn) -> &mut T {
        match mark {
            Ecn::NotEct => &mut self.not_ect,
            Ecn::Ect1 => &mut self.ect1,
            Ecn::Ect0 => &mut self.ect0,
            Ecn::Ce => &mut self.ce,
        }
    }
}

/// Number of packets in a block of [`EcnMarking::Both`]: one of each mark.
pub const BLOCK: u64 = 4;

/// Marks of the packets of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum EcnMarking {
    /// All packets are sent as Not-ECT.
    #[default]
    Off,
    /// All packets are sent as ECT(0).
    Ect0,
    /// All packets are sent as ECT(1).
    Ect1,
    /// Blocks of four packets, each with all four marks in a random order that follows from the seed and from the number
    /// of the block. A fixed order could coincide with periodic events on the path.
    Both {
        /// Seed of the orders.
        seed: u64,
    },
}

impl EcnMarking {
    /// Returns true unless all packets are sent as Not-ECT.
    pub fn is_on(self) -> bool {
        self != EcnMarking::Off
    }

    /// Returns true if the packets have all four marks.
    pub fn is_interleaved(self) -> bool {
        matches!(self, EcnMarking::Both { .. })
    }

    /// Returns the mark with which packet `seq` is sent.
    #[inline]
    pub fn of(self, seq: u64) -> Ecn {
        match self {
            EcnMarking::Off => Ecn::NotEct,
            EcnMarking::Ect0 => Ecn::Ect0,
            EcnMarking::Ect1 => Ecn::Ect1,
            EcnMarking::Both { seed } => order(seed, seq / BLOCK)[(seq % BLOCK) as usize],
        }
    }

    /// Returns the number of packets of `range` with each mark.
    pub fn count(self, range: Range<u64>) -> ByMark<u64> {
        let mut counts = ByMark::default();
        if range.is_empty() {
            return counts;
        }
        if !self.is_interleaved() {
            counts[self.of(0)] = range.end - range.start;
            return counts;
        }
        // Each whole block has one packet of each mark.
        let whole = range.start.next_multiple_of(BLOCK)..range.end - range.end % BLOCK;
        if whole.start >= whole.end {
            range.for_each(|seq| counts[self.of(seq)] += 1);
            return counts;
        }
        let blocks = (whole.end - whole.start) / BLOCK;
        counts = ByMark::of(|_| blocks);
        (range.start..whole.start).chain(whole.end..range.end).for_each(|seq| counts[self.of(seq)] += 1);
        counts
    }
}

/// Returns the order of the marks in a block.
fn order(seed: u64, block: u64) -> [Ecn; BLOCK as usize] {
    // SplitMix64: its output is uniform enough for one of 24 permutations.
    let mut z = seed.wrapping_add(block.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let mut rank = ((z >> 32) * 24) >> 32;
    let mut marks = Ecn::ALL;
    for place in (1..marks.len()).rev() {
        let choices = place as u64 + 1;
        marks.swap(place, (rank % choices) as usize);
        rank /= choices;
    }
    marks
}

impl fmt::Display for EcnMarking {
    /// Writes the form that [`FromStr`] reads: `off`, `ect0`, `ect1` or `both SEED`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EcnMarking::Off => f.write_str("off"),
            EcnMarking::Ect0 => f.write_str("ect0"),
            EcnMarking::Ect1 => f.write_str("ect1"),
            EcnMarking::Both { seed } => write!(f, "both {seed}"),
        }
    }
}

/// Error: the text is not a marking.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a marking: give off, ect0, ect1 or both and a seed")]
pub struct NotAMarking(String);

impl FromStr for EcnMarking {
    type Err = NotAMarking;

    fn from_str(text: &str) -> Result<EcnMarking, NotAMarking> {
        match text.split_once(' ') {
            None if text == "off" => Some(EcnMarking::Off),
            None if text == "ect0" => Some(EcnMarking::Ect0),
            None if text == "ect1" => Some(EcnMarking::Ect1),
            Some(("both", seed)) => seed.trim().parse().ok().map(|seed| EcnMarking::Both { seed }),
            _ => None,
        }
        .ok_or_else(|| NotAMarking(text.to_owned()))
    }
}

/// Error: the text is not a codepoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a mark: give not-ect, ect1, ect0 or ce")]
pub struct NotAMark(String);

impl FromStr for Ecn {
    type Err = NotAMark;

    fn from_str(text: &str) -> Result<Ecn, NotAMark> {
        Ecn::ALL.into_iter().find(|mark| mark.key() == text).ok_or_else(|| NotAMark(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_bits_are_those_on_the_wire() {
        assert_eq!(Ecn::ALL.map(Ecn::bits), [0, 1, 2, 3]);
        assert_eq!(Ecn::of_bits(0xb9), Ecn::Ect1);
        for mark in Ecn::ALL {
            assert_eq!((Ecn::of_bits(mark.bits()), mark.key().parse()), (mark, Ok(mark)));
        }
    }

    #[test]
    fn each_block_has_each_mark_once_in_any_order() {
        let marking = EcnMarking::Both { seed: 7 };
        let mut orders: BTreeMap<Vec<Ecn>, u64> = BTreeMap::new();
        for block in 0..24_000 {
            let marks: Vec<Ecn> = (0..4).map(|k| marking.of(4 * block + k)).collect();
            let mut sorted = marks.clone();
            sorted.sort();
            assert_eq!(sorted, Ecn::ALL);
            *orders.entry(marks).or_default() += 1;
        }
        // 24 orders, each about 1000 times: five standard deviations are 155.
        assert_eq!(orders.len(), 24);
        assert!(orders.values().all(|n| (845..1155).contains(n)), "{orders:?}");
        assert_ne!(
            (0..64).map(|k| EcnMarking::Both { seed: 8 }.of(k)).collect::<Vec<_>>(),
            (0..64).map(|k| marking.of(k)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn counts_of_a_range_are_those_of_its_packets() {
        for marking in [EcnMarking::Off, EcnMarking::Ect0, EcnMarking::Ect1, EcnMarking::Both { seed: 3 }] {
            for range in [0..0, 3..4, 1..3, 2..7, 0..8, 5..5, 1..30, 4..12, 6..1003] {
                let mut one_by_one = ByMark::default();
                range.clone().for_each(|seq| one_by_one[marking.of(seq)] += 1);
                assert_eq!(marking.count(range.clone()), one_by_one, "{marking} {range:?}");
            }
        }
        assert_eq!(EcnMarking::Both { seed: 3 }.count(0..u64::MAX - 3).total(), u64::MAX - 3);
    }

    #[test]
    fn a_marking_is_read_as_it_is_written() {
        for marking in
            [EcnMarking::Off, EcnMarking::Ect0, EcnMarking::Ect1, EcnMarking::Both { seed: u64::MAX }]
        {
            assert_eq!(marking.to_string().parse(), Ok(marking));
        }
        for text in ["", "both", "both x", "ect2", "ce"] {
            assert!(text.parse::<EcnMarking>().is_err(), "{text}");
        }
    }
}
