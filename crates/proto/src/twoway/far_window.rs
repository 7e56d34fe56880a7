//! [`FarWindow`]: derives the direction of each loss from the far host's receive windows, which report the
//! latest requests received.
//!
//! If an unanswered request was received, its answer was lost; otherwise the request itself was lost. A host may forget
//! received requests, as irtt's server does when a request is reordered. So if a window does not contain a request that
//! was answered, the other requests missing in it do not count as lost.

use jitlat_core::twoway::{LossRun, LossSide};

/// Maximum number of loss bursts whose direction is recorded. Further bursts are only counted.
const MAX_RUNS: usize = 1 << 16;

/// Number of requests that a window covers.
const WIDTH: u32 = u64::BITS;

/// Known fate of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestFate {
    #[default]
    Unknown,
    /// The request had not been received when a later one was answered.
    Missing,
    Received,
}

/// Receive windows of one far host in one test. Memory is allocated only once.
#[derive(Clone, Debug)]
pub(super) struct FarWindow {
    has_windows: bool,
    /// Fates by sequence number modulo a power of two.
    fates: Box<[RequestFate]>,
    runs: Vec<LossRun>,
    /// Losses up, down, and in an unknown direction.
    lost: [u64; 3],
}

impl FarWindow {
    /// Creates windows for a test of `packets` requests, with a table of the last `room` requests; `room` is a power of
    /// two.
    pub(super) fn new(room: usize, packets: u32) -> FarWindow {
        // Allocated in advance, so that recording loss bursts during the test needs no allocation.
        let early = if packets as usize > room { MAX_RUNS } else { 0 };
        let fates = vec![RequestFate::Unknown; room].into();
        FarWindow { has_windows: false, fates, runs: Vec::with_capacity(early), lost: [0; 3] }
    }

    fn slot(&self, seq: u32) -> usize {
        seq as usize & (self.fates.len() - 1)
    }

    /// Records that request `seq` is sent. It replaces the request in the same slot.
    pub(super) fn sent(&mut self, seq: u32) {
        let slot = self.slot(seq);
        self.fates[slot] = RequestFate::Unknown;
    }

    /// Records the window in the answer to `seq`: bit k stands for request seq − k.
    pub(super) fn note(&mut self, seq: u32, window: u64) {
        self.has_windows = true;
        let covered = WIDTH.min(seq.saturating_add(1)).min(u32::try_from(self.fates.len()).unwrap_or(WIDTH));
        let received = |back: u32| window >> back & 1 == 1;
        let denies_received = (0..covered)
            .any(|back| !received(back) && self.fates[self.slot(seq - back)] == RequestFate::Received);
        for back in 0..covered {
            let slot = self.slot(seq - back);
            match self.fates[slot] {
                _ if received(back) => self.fates[slot] = RequestFate::Received,
                RequestFate::Unknown if !denies_received => self.fates[slot] = RequestFate::Missing,
                _ => {}
            }
        }
        // The request was answered, even if its window does not contain it.
        let slot = self.slot(seq);
        self.fates[slot] = RequestFate::Received;
    }

    /// Settles request `seq`, the next in order; `answered` is true if it was answered.
    pub(super) fn settle(&mut self, seq: u32, answered: bool) {
        if !self.has_windows || answered {
            return;
        }
        let (way, count) = match self.fates[self.slot(seq)] {
            RequestFate::Missing => (LossSide::Up, 0),
            RequestFate::Received => (LossSide::Down, 1),
            RequestFate::Unknown => (LossSide::Either, 2),
        };
        self.lost[count] += 1;
        let last = self.runs.last_mut();
        if let Some(run) = last.filter(|run| run.first + run.length == seq && run.side == way) {
            run.length += 1;
        } else if self.runs.len() < MAX_RUNS {
            self.runs.push(LossRun { first: seq, length: 1, side: way });
        }
    }

    /// Returns the losses up, down and in an unknown direction, with the bursts; `None` without windows.
    pub(super) fn finish(&self) -> Option<([u64; 3], &[LossRun])> {
        self.has_windows.then_some((self.lost, &self.runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the loss bursts of requests 0 to 9; `answers` contains the answered requests with their
    /// windows.
    fn runs(answers: &[(u32, u64)]) -> Vec<(u32, u32, LossSide)> {
        let mut far = FarWindow::new(16, 10);
        (0..10).for_each(|seq| far.sent(seq));
        answers.iter().for_each(|(seq, window)| far.note(*seq, *window));
        (0..10).for_each(|seq| far.settle(seq, answers.iter().any(|(s, _)| *s == seq)));
        far.finish().unwrap().1.iter().map(|r| (r.first, r.length, r.side)).collect()
    }

    #[test]
    fn each_loss_has_its_way() {
        // Requests 1 and 2 never arrived, and the answer to 4 was lost. The fate of the last request is
        // unknown.
        let losses = runs(&[
            (0, 1),
            (3, 0b1001),
            (5, 0b10_0111),
            (6, 0b100_1111),
            (7, 0b1001_1111),
            (8, 0b1_0011_1111),
        ]);
        assert_eq!(losses, [(1, 2, LossSide::Up), (4, 1, LossSide::Down), (9, 1, LossSide::Either)]);
    }

    #[test]
    fn a_host_that_forgets_is_not_believed() {
        // After the late request 3, irtt's server has forgotten all earlier requests. The answer to 2 was
        // lost.
        let losses = runs(&[
            (0, 1),
            (1, 3),
            (4, 0b1_0111),
            (3, 1),
            (5, 0b101),
            (6, 0b1011),
            (7, 0b10111),
            (8, 1),
            (9, 3),
        ]);
        assert_eq!(losses, [(2, 1, LossSide::Down)]);
        let losses = runs(&[(0, 1), (1, 3), (4, 1), (5, 3), (6, 7), (7, 15), (8, 31), (9, 63)]);
        assert_eq!(losses, [(2, 2, LossSide::Either)]);
    }
}
