//! [`SequenceCounter`]: extended sequence numbers, duplicates and reordering (RFC 3550 A.1).

/// Largest step forward that is taken for losses; a larger one must be confirmed by the next packet.
const MAX_DROPOUT: i64 = 3000;
/// Largest step backward that is taken for reordering.
const MAX_MISORDER: i64 = 100;
/// Number of sequence numbers below the highest for which duplicates are recognised; a multiple of 64.
const WINDOW: usize = 4096;

/// Position of a packet in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// No earlier packet had this number. It may be lower than the number of an earlier packet.
    New {
        /// Extended number, which counts from 0 at the first packet.
        number: i64,
    },
    /// A packet with this number was seen before.
    Duplicate {
        /// Extended number.
        number: i64,
    },
    /// The sender began to number its packets from another value. The packet gets the extended number after the
    /// highest.
    Restarted {
        /// Extended number.
        number: i64,
    },
    /// The number is far from all others, or before the first one. If the next packet continues a far number, the
    /// sender began to number its packets from there.
    Stray,
}

/// Counter of the packets of one stream.
#[derive(Clone, Debug)]
pub(super) struct SequenceCounter {
    /// Sequence number of the packet with the highest extended number.
    highest_sequence: u16,
    highest: i64,
    /// Sequence number of the next packet that would confirm a new numbering; `None` if none is expected.
    expected_restart: Option<u16>,
    seen: Box<[u64; WINDOW / 64]>,
    unique: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) restarts: u64,
}

impl SequenceCounter {
    /// Creates a counter for which the sequence number `first` has the extended number 0.
    pub(super) fn before(first: u16) -> SequenceCounter {
        SequenceCounter {
            highest_sequence: first.wrapping_sub(1),
            highest: -1,
            expected_restart: None,
            seen: Box::new([0; WINDOW / 64]),
            unique: 0,
            duplicates: 0,
            reordered: 0,
            restarts: 0,
        }
    }

    /// Number of sequence numbers from the first to the highest.
    pub(super) fn expected(&self) -> u64 {
        (self.highest + 1) as u64
    }

    /// Number of different packets seen.
    pub(super) fn unique(&self) -> u64 {
        self.unique
    }

    /// Highest extended number.
    pub(super) fn highest(&self) -> i64 {
        self.highest
    }

    /// Handles the next packet in arrival order.
    pub(super) fn push(&mut self, sequence: u16) -> Position {
        // The signed difference of two numbers of 16 bits.
        let step = i64::from(sequence.wrapping_sub(self.highest_sequence) as i16);
        let number = self.highest + step;
        if (1..=MAX_DROPOUT).contains(&step) {
            self.expected_restart = None;
            self.advance(number, sequence);
            return Position::New { number };
        }
        if (-MAX_MISORDER..=0).contains(&step) {
            if number < 0 {
                // Sent before the first packet that was seen.
                return Position::Stray;
            }
            if self.has(number) {
                self.duplicates += 1;
                return Position::Duplicate { number };
            }
            self.mark(number);
            self.unique += 1;
            self.reordered += 1;
            return Position::New { number };
        }
        if self.expected_restart.take() == Some(sequence) {
            self.restarts += 1;
            let number = self.highest + 1;
            self.advance(number, sequence);
            return Position::Restarted { number };
        }
        self.expected_restart = Some(sequence.wrapping_add(1));
        Position::Stray
    }

    fn advance(&mut self, number: i64, sequence: u16) {
        let first_cleared = (self.highest + 1).max(number - WINDOW as i64 + 1);
        for cleared in first_cleared..=number {
            let (word, bit) = Self::place(cleared);
            self.seen[word] &= !bit;
        }
        self.highest = number;
        self.highest_sequence = sequence;
        self.mark(number);
        self.unique += 1;
    }

    fn place(number: i64) -> (usize, u64) {
        let n = number.rem_euclid(WINDOW as i64) as usize;
        (n / 64, 1 << (n % 64))
    }

    fn mark(&mut self, number: i64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    fn has(&self, number: i64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Position::{Duplicate, New, Restarted, Stray};

    fn of(first: u16, rest: &[u16]) -> (SequenceCounter, Vec<Position>) {
        let mut counter = SequenceCounter::before(first);
        assert_eq!(counter.push(first), New { number: 0 });
        let positions = rest.iter().map(|s| counter.push(*s)).collect();
        (counter, positions)
    }

    #[test]
    fn numbers_continue_beyond_16_bits() {
        let all: Vec<u16> = (1..200_000u32).map(|k| k as u16).collect();
        let (counter, positions) = of(0, &all);
        assert_eq!(positions.last(), Some(&New { number: 199_999 }));
        assert_eq!((counter.expected(), counter.unique(), counter.restarts), (200_000, 200_000, 0));
    }

    #[test]
    fn losses_reordering_and_duplicates_are_told_apart() {
        let (counter, positions) = of(65_534, &[65_535, 1, 0, 0, 1, 4]);
        let number = |number| New { number };
        let twice = |number| Duplicate { number };
        assert_eq!(positions, [number(1), number(3), number(2), twice(2), twice(3), number(6)]);
        assert_eq!((counter.expected(), counter.unique()), (7, 5));
        assert_eq!((counter.duplicates, counter.reordered), (2, 1));
    }

    #[test]
    fn a_new_beginning_needs_two_packets_and_is_no_loss() {
        let (counter, positions) = of(100, &[101, 40_000, 102, 50_000, 50_001, 50_002]);
        let restarted = Restarted { number: 3 };
        assert_eq!(
            positions,
            [New { number: 1 }, Stray, New { number: 2 }, Stray, restarted, New { number: 4 }]
        );
        assert_eq!((counter.restarts, counter.expected(), counter.unique()), (1, 5, 5));
    }

    #[test]
    fn limits_of_steps() {
        assert_eq!(of(0, &[3000]).1, [New { number: 3000 }]);
        assert_eq!(of(0, &[3001]).1, [Stray]);
        let late = |by: u16| of(0, &[200, 200 - by]).1[1];
        assert_eq!((late(100), late(101)), (New { number: 100 }, Stray));
        // A number from before the first packet is not part of what was seen.
        assert_eq!(of(10, &[9]).1, [Stray]);
        // Marks of numbers that are far below are forgotten, not taken for duplicates.
        let far: Vec<u16> = (1..=5000).chain([5100, 5050]).collect();
        assert_eq!(of(0, &far).0.duplicates, 0);
    }
}
