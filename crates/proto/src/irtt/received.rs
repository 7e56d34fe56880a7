//! [`ReceivedWindow`]: server statistics about the requests of a session.

/// Requests received so far: the total number, and a bit for each of the last 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedWindow {
    count: u32,
    highest: Option<u32>,
    /// Bit k is set if request highest − k was received.
    bits: u64,
}

impl ReceivedWindow {
    /// Records that request `seq` was received. Returns the count and the window relative to `seq`, for the
    /// answer. A reordered request gets the window 0, which means unknown, but is recorded.
    pub fn note(&mut self, seq: u32) -> (u32, u64) {
        self.count = self.count.wrapping_add(1);
        let ahead = self.highest.map_or(1, |highest| i64::from(seq) - i64::from(highest));
        if let Ok(behind) = u32::try_from(-ahead)
            && behind > 0
        {
            self.bits |= 1u64.checked_shl(behind).unwrap_or(0);
            return (self.count, 0);
        }
        self.bits = u32::try_from(ahead).ok().and_then(|ahead| self.bits.checked_shl(ahead)).unwrap_or(0) | 1;
        self.highest = Some(seq);
        (self.count, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_window_except_for_reordered_requests() {
        let mut received = ReceivedWindow::default();
        let windows = |received: &mut ReceivedWindow, seqs: &[u32]| -> Vec<u64> {
            seqs.iter().map(|seq| received.note(*seq).1).collect()
        };
        assert_eq!(windows(&mut received, &[0, 1, 2, 4]), [1, 3, 7, 0x1d]);
        // At this point, irtt's server would forget all other requests and report a single bit: 1, 5, 5, b.
        assert_eq!(windows(&mut received, &[3, 5, 5, 6]), [0, 0x3f, 0x3f, 0x7f]);
        assert_eq!(windows(&mut received, &[100, 101, 200]), [1, 3, 1]);
        assert_eq!(received.note(0), (12, 0));
        assert_eq!(windows(&mut received, &[u32::MAX]), [1]);
    }
}
