//! [`SequenceCounter`]: extended sequence numbers, duplicates and reordering (RFC 3550 A.1).

/// Largest step forward that is taken for losses; a larger one must be confirmed by the next packet.
const MAX_DROPOUT: i64 = 3000;
/// Largest step backward that is taken for reordering.
const MAX_MISORDER: i64 = 100;
/// Largest step forward that is taken for losses because the timestamps agree with it: 43 minutes of speech.
const MAX_OUTAGE: i64 = 1 << 17;
/// Number of values of a sequence number.
const TURN: i64 = 1 << 16;
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

    /// Handles the next packet in arrival order. `by_time` is the number of steps from the packet with the highest number
    /// that the times of the two suggest, negative for an earlier packet; `None` if they suggest nothing. It decides
    /// whether a number that is far from the others continues their numbering.
    pub(super) fn push(&mut self, sequence: u16, by_time: Option<i64>) -> Position {
        let step = self.step(sequence);
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
            return self.late(number);
        }
        if let Some(step) = by_time.and_then(|steps| agreeing_step(step, steps)) {
            let number = self.highest + step;
            if step > 0 {
                self.expected_restart = None;
                self.advance(number, sequence);
                return Position::New { number };
            }
            // The times of a source that begins again with the same numbers may be the same ones, too.
            if number >= 0 && !self.has(number) {
                return self.late(number);
            }
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

    /// True if the number is so far from the highest that the number alone does not show its position.
    pub(super) fn is_far(&self, sequence: u16) -> bool {
        !(-MAX_MISORDER..=MAX_DROPOUT).contains(&self.step(sequence))
    }

    /// Signed difference of two numbers of 16 bits.
    fn step(&self, sequence: u16) -> i64 {
        i64::from(sequence.wrapping_sub(self.highest_sequence) as i16)
    }

    fn late(&mut self, number: i64) -> Position {
        self.mark(number);
        self.unique += 1;
        self.reordered += 1;
        Position::New { number }
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

/// Returns the step between two extended numbers that differs from `step` by whole turns and agrees with the number of
/// `steps` suggested by the times, to within a quarter; `None` if there is no such step within the limits.
fn agreeing_step(step: i64, steps: i64) -> Option<i64> {
    let turns = (steps - step + TURN / 2).div_euclid(TURN);
    let step = step + turns * TURN;
    let agrees = (step - steps).abs() <= steps.abs() / 4;
    (agrees && (1 - WINDOW as i64..=MAX_OUTAGE).contains(&step)).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Position::{Duplicate, New, Restarted, Stray};

    fn of(first: u16, rest: &[u16]) -> (SequenceCounter, Vec<Position>) {
        let mut counter = SequenceCounter::before(first);
        assert_eq!(counter.push(first, None), New { number: 0 });
        let positions = rest.iter().map(|s| counter.push(*s, None)).collect();
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
    fn times_tell_an_outage_and_late_packets_from_a_new_beginning() {
        let far = |sequence: u16, steps: i64| {
            let mut counter = of(0, &[300]).0;
            (counter.push(sequence, Some(steps)), counter.expected(), counter.unique())
        };
        assert_eq!(far(300 + 5000, 5100), (New { number: 5300 }, 5301, 3));
        assert_eq!(far(300 + 40_000, 39_000), (New { number: 40_300 }, 40_301, 3));
        assert_eq!(far(300 + 100, 65_700).0, New { number: 400 }, "near numbers need no time");
        assert_eq!(far(300 + 5000, 65_536 + 5000).0, New { number: 70_836 });
        assert_eq!(far(100, -190), (New { number: 100 }, 301, 3));
        assert_eq!([far(5300, 1).0, far(5300, 10_000).0, far(5300, 1 << 18).0], [Stray; 3]);
        assert_eq!([far(0, -300).0, far(100, 200).0], [Stray; 2], "seen before; number and time contradict");
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
