//! [`StreamCopies`]: distinguishes copies of packets that the recording made from duplicates that the path made.

use super::candidate::EarlyPacket;

/// Score from which copies are taken to be made by the recording: paths rarely duplicate packets, and a mirror
/// duplicates all.
const SYSTEMATIC: i32 = 7;
/// Largest score.
const MAX_SCORE: i32 = 16;
/// Decrease of the score by a packet that was seen once.
const ONCE: i32 = 4;

/// Copies of a stream's packets that do not differ from them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamCopies {
    score: i32,
    /// True if the last packet was a copy.
    after_copy: bool,
    /// Number of copies that the recording made.
    pub(super) made: u64,
}

impl StreamCopies {
    /// Begins with the packets by which the stream was recognised.
    pub(super) fn of(early: &[EarlyPacket]) -> StreamCopies {
        let copies = early.iter().filter(|p| p.is_copy).count();
        // The copy of the last packet has not arrived yet.
        let is_systematic = copies > 0 && 2 * copies + 1 >= early.len();
        let score = if is_systematic { SYSTEMATIC } else { 0 };
        StreamCopies { score, after_copy: true, made: 0 }
    }

    /// Handles the next packet. Returns true if it is a copy that the recording made.
    pub(super) fn push(&mut self, is_copy: bool) -> bool {
        let was_once = !is_copy && !self.after_copy;
        let is_made = is_copy && self.score >= SYSTEMATIC;
        self.score += i32::from(is_copy) - if was_once { ONCE } else { 0 };
        self.score = self.score.clamp(0, MAX_SCORE);
        self.after_copy = is_copy;
        self.made += u64::from(is_made);
        is_made
    }
}
