//! [`RequestTable`]: matches answers to requests, and derives loss, duplication and reordering by direction
//! from the far host's count.

use crate::twoway::far_count::FarCount;
use crate::twoway::far_window::FarWindow;
use jitlat_core::WallTime;
pub use jitlat_core::twoway::{Directions, LossRun};

/// Maximum number of requests stored until their answers can no longer arrive; a power of two. This is
/// sufficient for 2.6 s at 100 000 requests per second, and for more than four minutes at 1000 per second.
/// Each request takes 24 bytes.
const MAX_ENTRIES: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct RequestEntry {
    seq: u32,
    far_seq: u32,
    sent: i64,
    answers: u32,
}

const EMPTY: RequestEntry = RequestEntry { seq: 0, far_seq: 0, sent: i64::MIN, answers: 0 };

/// Result of matching an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerMatch {
    /// First answer to this request, which was sent at this time.
    First(u32, WallTime),
    /// Further answer to this request.
    Again(u32, WallTime),
    /// Answer to a request that was never sent, or is no longer stored.
    Unknown,
}

/// Requests of one test and their answers. Memory is allocated only once and does not depend on received
/// packets.
#[derive(Clone, Debug)]
pub struct RequestTable {
    entries: Box<[RequestEntry]>,
    sent: u64,
    answered: u64,
    far: FarCount,
    far_window: FarWindow,
    /// Number below which requests are settled and no longer in the table.
    settled: u32,
    unmatched: u64,
}

impl RequestTable {
    /// Creates a table for a test of `packets` requests.
    pub fn new(packets: u32) -> RequestTable {
        // A power of two, so that a slot is found by a mask.
        let room = (packets as usize).clamp(1, MAX_ENTRIES).next_power_of_two();
        RequestTable {
            entries: vec![EMPTY; room].into(),
            sent: 0,
            answered: 0,
            far: FarCount::new(room, packets),
            far_window: FarWindow::new(room, packets),
            settled: 0,
            unmatched: 0,
        }
    }

    /// Records that request `seq` is sent at `at`. Requests are numbered from 0 without gaps.
    pub fn note_sent(&mut self, seq: u32, at: WallTime) {
        let room = self.entries.len();
        if let Some(oldest) = (seq as usize + 1).checked_sub(room) {
            // The slot of the oldest request is about to be reused.
            self.settle(oldest as u32);
        }
        self.entries[seq as usize & (room - 1)] = RequestEntry { seq, sent: at.0, ..EMPTY };
        self.sent = self.sent.max(u64::from(seq) + 1);
        self.far_window.sent(seq);
    }

    /// Returns the number of requests sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of requests answered at least once.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Records an answer that belongs to no request.
    pub(crate) fn note_unknown(&mut self) -> AnswerMatch {
        self.unmatched += 1;
        AnswerMatch::Unknown
    }

    /// Returns the number of answers to requests that were never sent or are no longer stored.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Returns the full number of a request from its low `bits` bits: of the requests sent, the latest with
    /// these bits. `None` if there is none.
    pub(crate) fn unwrap_number(&self, seq: u32, bits: u8) -> Option<u32> {
        if bits >= 32 {
            return Some(seq);
        }
        let last = self.sent.checked_sub(1)?;
        let span = 1u64 << bits;
        let behind = last.wrapping_sub(u64::from(seq)) % span;
        u32::try_from(last.checked_sub(behind)?).ok()
    }

    /// Returns the send time of request `seq`; `None` if it is not stored.
    pub fn sent_at(&self, seq: u32) -> Option<WallTime> {
        let entry = &self.entries[seq as usize & (self.entries.len() - 1)];
        (entry.seq == seq && entry.sent != i64::MIN).then_some(WallTime(entry.sent))
    }

    /// Records an answer to `seq` that the far host numbered `far_seq`.
    pub(crate) fn match_answer(&mut self, seq: u32, far_seq: Option<u32>) -> AnswerMatch {
        let mask = self.entries.len() - 1;
        let entry = &mut self.entries[seq as usize & mask];
        if entry.seq != seq || entry.sent == i64::MIN || u64::from(seq) >= self.sent {
            self.unmatched += 1;
            return AnswerMatch::Unknown;
        }
        let (again, before, at) = (entry.answers > 0, entry.far_seq, WallTime(entry.sent));
        entry.answers = entry.answers.saturating_add(1);
        if let Some(far) = far_seq {
            if !again {
                entry.far_seq = far;
            }
            self.far.note(seq, far, again.then_some(before), self.sent);
        }
        if again {
            return AnswerMatch::Again(seq, at);
        }
        self.answered += 1;
        AnswerMatch::First(seq, at)
    }

    /// Settles the requests below `end` in the far host's count.
    fn settle(&mut self, end: u32) {
        while self.settled < end {
            let seq = self.settled;
            let entry = &self.entries[seq as usize & (self.entries.len() - 1)];
            let answered = entry.seq == seq && entry.answers > 0;
            self.far.settle(seq, answered.then_some(entry.far_seq));
            self.far_window.settle(seq, answered);
            self.settled += 1;
        }
    }

    /// Records the window in the answer to `seq`: bit k is set if request seq − k was received.
    pub(crate) fn note_far_window(&mut self, seq: u32, window: u64) {
        self.far_window.note(seq, window);
    }

    /// Returns the result by direction, and the direction of each loss burst. Must be called once no more
    /// answers can arrive.
    pub fn directions(&mut self) -> (Directions, Vec<LossRun>) {
        self.settle(u32::try_from(self.sent).unwrap_or(u32::MAX));
        let (counted, counted_runs) = self.far.clone().finish(self.sent);
        let Some(([up, down, either], runs)) = self.far_window.finish() else {
            return (counted, counted_runs);
        };
        // The windows show each loss that they cover; the count also includes losses that they do not cover.
        let (up_lost, down_lost) = (counted.up_lost.max(up), counted.down_lost.max(down));
        let unknown_lost = (up + down + either).saturating_sub(up_lost + down_lost);
        let totals = Directions { stateful: true, up_lost, down_lost, unknown_lost, ..counted };
        (totals, runs.to_vec())
    }

    /// True if the far host's count was restarted during the test and so cannot be used.
    pub fn far_count_broken(&self) -> bool {
        self.far.is_broken()
    }

    /// True if the far host may count its answers, but this has not been shown yet: so far, each answer has the number
    /// of its request.
    pub(crate) fn may_count(&self) -> bool {
        self.far.may_count()
    }

    /// Records the answer to a probe, a request whose number `seq` is beyond all requests of the test.
    /// `far_seq` is the number of the answer.
    pub(crate) fn note_probe(&mut self, seq: u32, far_seq: Option<u32>) {
        self.far.note_probe(seq, far_seq);
    }

    /// Declares that the far host numbers its answers itself, as TWAMP requires. Equal numbers then mean that
    /// no request was lost, rather than that there is no count.
    pub(crate) fn declare_stateful(&mut self) {
        self.far.declare_stateful();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(n: u32) -> RequestTable {
        let mut l = RequestTable::new(n);
        (0..n).for_each(|s| l.note_sent(s, WallTime(s.into())));
        l
    }

    #[test]
    fn loss_by_direction() {
        let mut l = sent(10);
        // Requests 2 and 3 never arrived, the answers to 5 and 8 were lost, and 9 is unknown.
        for (seq, far) in [(0, 0), (1, 1), (4, 2), (6, 4), (7, 5)] {
            assert_eq!(l.match_answer(seq, Some(far)), AnswerMatch::First(seq, WallTime(seq.into())));
        }
        let (d, _) = l.directions();
        assert_eq!((d.stateful, d.up_lost, d.down_lost, d.unknown_lost), (true, 2, 1, 2));
    }

    #[test]
    fn a_count_begun_before_is_rebased() {
        let mut l = sent(4);
        for (seq, far) in [(0, 101), (1, 102), (3, 104)] {
            l.match_answer(seq, Some(far));
        }
        let (d, _) = l.directions();
        assert_eq!((d.up_lost, d.down_lost, d.unknown_lost), (0, 1, 0));
    }

    #[test]
    fn copies_tell_their_direction() {
        let mut l = sent(3);
        let answers = [(0, 0), (0, 1), (1, 2), (1, 2), (2, 3)];
        let fits: Vec<_> = answers.iter().map(|(s, f)| l.match_answer(*s, Some(*f))).collect();
        assert_eq!(fits[1], AnswerMatch::Again(0, WallTime(0)));
        let (d, _) = l.directions();
        assert_eq!((d.up_duplicates, d.down_duplicates, d.up_lost, d.down_lost), (1, 1, 0, 0));
    }

    #[test]
    fn a_copying_reflector_tells_no_direction() {
        let mut l = sent(5);
        for seq in [0, 2, 4] {
            l.match_answer(seq, Some(seq));
        }
        assert_eq!(l.directions(), (Directions::default(), Vec::new()));
        l.declare_stateful();
        assert_eq!(l.directions().0.down_lost, 2);
    }

    #[test]
    fn numbers_are_unwrapped_to_the_latest_that_fits() {
        let mut l = RequestTable::new(70_000);
        (0..65_540).for_each(|s| l.note_sent(s, WallTime(0)));
        assert_eq!(l.unwrap_number(3, 16), Some(65_539));
        assert_eq!(l.unwrap_number(65_535, 16), Some(65_535));
        assert_eq!(l.unwrap_number(4, 16), Some(4));
        assert_eq!(sent(3).unwrap_number(4, 16), None);
        assert_eq!(RequestTable::new(1).unwrap_number(0, 16), None);
    }

    #[test]
    fn what_was_never_asked_is_not_an_answer() {
        let mut l = sent(2);
        assert_eq!(l.match_answer(2, Some(0)), AnswerMatch::Unknown);
        assert_eq!(l.match_answer(u32::MAX, None), AnswerMatch::Unknown);
        assert_eq!((l.answered(), l.unmatched()), (0, 2));
    }

    proptest! {
        #[test]
        fn hostile_numbers_neither_panic_nor_grow(
            answers in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..300)
        ) {
            let mut l = sent(64);
            let room = l.entries.len();
            for (seq, far) in answers {
                l.match_answer(seq % 80, Some(far));
                let _ = l.unwrap_number(seq, 16);
            }
            let (d, runs) = l.directions();
            prop_assert!(d.up_lost + d.unknown_lost <= 64 && runs.len() <= 64);
            prop_assert!(l.entries.len() == room && l.answered() <= 64);
        }
    }
}
