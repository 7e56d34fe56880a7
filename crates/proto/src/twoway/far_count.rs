//! [`FarCount`]: derives losses by direction from the numbers that the far host gives its answers.
//!
//! A number that is never received belongs to an answer that was lost. Between two received answers, the
//! number of requests without an answer is compared with the number of missing numbers. If no number is
//! missing, the far host did not receive these requests. If as many numbers are missing as there are requests
//! without an answer, it answered all of them. Otherwise the losses in each direction are known, but not
//! which request was lost where.

use jitlat_core::twoway::{Directions, LossRun, LossSide};

/// Maximum number of loss bursts whose direction is recorded. Further bursts are counted with unknown
/// direction.
const MAX_RUNS: usize = 1 << 16;
/// Maximum number by which duplicates can make the far host's count exceed the number of requests sent. A
/// number further ahead is not a count.
const MAX_AHEAD: i64 = 1024;

/// Count of one far host in one test. Memory is allocated only once.
#[derive(Clone, Debug)]
pub(super) struct FarCount {
    has_answers: bool,
    /// True if the far host is known in advance to count its answers, from 0.
    declared: bool,
    stateful: bool,
    /// True if the far host is known not to count its answers.
    copies: bool,
    broken: bool,
    /// Number with which the count began.
    base: i64,
    highest: i64,
    highest_seq: i64,
    /// Number of different numbers received.
    distinct: u64,
    /// Bits of the latest numbers, set if received.
    received: Box<[u64]>,
    /// Number of settled requests without an answer.
    unanswered: u64,
    /// Number of settled requests whose answer was lost.
    answers_lost: u64,
    /// Sequence number of the first request without an answer since the last answered request; `None` if there is none.
    open: Option<u32>,
    /// Highest number of the settled answers; `None` before the first one.
    front: Option<i64>,
    runs: Vec<LossRun>,
    counts: Directions,
}

impl FarCount {
    /// Creates a count for a test of `packets` requests, with a table of the last `room` requests; `room` is a power of
    /// two.
    pub(super) fn new(room: usize, packets: u32) -> FarCount {
        // Allocated in advance, so that recording loss bursts during the test needs no allocation.
        let early = if packets as usize > room { MAX_RUNS } else { 0 };
        FarCount {
            has_answers: false,
            declared: false,
            stateful: false,
            copies: false,
            broken: false,
            base: 0,
            highest: 0,
            highest_seq: -1,
            distinct: 0,
            received: vec![0; (2 * room).div_ceil(64)].into(),
            unanswered: 0,
            answers_lost: 0,
            open: None,
            front: None,
            runs: Vec::with_capacity(early),
            counts: Directions::default(),
        }
    }

    pub(super) fn declare_stateful(&mut self) {
        self.declared = true;
        self.stateful = true;
    }

    /// True if the far host may count its answers, but this has not been shown yet.
    pub(super) fn may_count(&self) -> bool {
        self.has_answers && !self.stateful && !self.copies && !self.broken
    }

    /// Handles the answer to a probe, that is, a request with a number beyond any possible count. If the answer
    /// contains the same number or none, the far host does not count its answers; if it contains another number, the
    /// far host counts them.
    pub(super) fn note_probe(&mut self, seq: u32, far: Option<u32>) {
        match far {
            Some(far) if far != seq => self.stateful = true,
            // The number is a copy or missing, so the far host does not count, and no further probe is
            // needed.
            _ => self.copies = true,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns the full number of which `far` is the low 32 bits: of the possible numbers, the nearest to the highest
    /// so far.
    fn unwrap(&self, far: u32) -> i64 {
        self.highest + i64::from(far.wrapping_sub(self.highest as u32) as i32)
    }

    fn window(&self) -> i64 {
        self.received.len() as i64 * 64
    }

    /// True if `number` is recorded as received; false for numbers that the record no longer covers.
    fn was_received(&self, number: i64) -> bool {
        let bit = number.rem_euclid(self.window());
        number <= self.highest
            && number > self.highest - self.window()
            && self.received[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    /// Records that `number` was received. Afterwards, the record covers all numbers up to `number`.
    fn mark(&mut self, number: i64) {
        let window = self.window();
        if number <= self.highest - window {
            return;
        }
        for passed in (self.highest + 1).max(number - window + 1)..=number {
            let bit = passed.rem_euclid(window);
            self.received[bit as usize / 64] &= !(1 << (bit % 64));
        }
        self.highest = self.highest.max(number);
        let bit = number.rem_euclid(window);
        self.received[bit as usize / 64] |= 1 << (bit % 64);
    }

    /// Records answer `far` to request `seq`. `before` is the number of an earlier answer to the same
    /// request, and `sent` the number of requests sent so far.
    pub(super) fn note(&mut self, seq: u32, far: u32, before: Option<u32>, sent: u64) {
        if self.broken {
            return;
        }
        if !self.has_answers {
            self.has_answers = true;
            // A count begins at 0. A count ahead of the sender's number began before this test, unless the
            // count is known to belong to this test: then requests were reordered or duplicated.
            let of_this_test = self.declared && u64::from(far) < 2 * sent;
            self.base = if of_this_test { 0 } else { (i64::from(far) - i64::from(seq)).max(0) };
            self.highest = i64::from(far);
            self.mark(self.highest);
            self.highest_seq = seq.into();
            self.distinct = 1;
            self.stateful |= far != seq;
            return;
        }
        let number = self.unwrap(far);
        self.stateful |= far != seq;
        if self.was_received(number) {
            // The number was already received: either the answer is a duplicate or, if the request differs,
            // the count was restarted.
            self.counts.down_duplicates += u64::from(before.is_some());
            self.broken |= before.is_none() && self.stateful;
            return;
        }
        // Not even duplication of every request explains this number, so it is not a count.
        if number > self.base + 2 * sent as i64 + MAX_AHEAD {
            self.broken = true;
            return;
        }
        self.counts.up_duplicates += u64::from(before.is_some());
        self.distinct += 1;
        self.base = self.base.min(number.max(0));
        if number > self.highest {
            self.counts.up_reordered += u64::from(i64::from(seq) < self.highest_seq);
        } else {
            self.counts.down_reordered += 1;
        }
        self.mark(number);
        self.highest_seq = self.highest_seq.max(seq.into());
    }

    /// Settles request `seq`, the next in order: it was answered with the number `far`, or never.
    pub(super) fn settle(&mut self, seq: u32, far: Option<u32>) {
        let Some(far) = far else {
            self.open.get_or_insert(seq);
            return;
        };
        let number = self.unwrap(far);
        let front = self.front.unwrap_or(self.base - 1);
        if let Some(first) = self.open.take() {
            let length = seq - first;
            let missing =
                (front + 1..number).filter(|n| !self.was_received(*n)).take(length as usize).count() as u32;
            self.unanswered += u64::from(length);
            self.answers_lost += u64::from(missing);
            // If the count began before the test, its start is estimated, so conclusions from the order of
            // reordered packets are uncertain.
            let known = number > front && (first > 0 || self.base == 0);
            let way = match missing {
                0 if known => LossSide::Up,
                m if known && m == length => LossSide::Down,
                _ => LossSide::Either,
            };
            if self.runs.len() < MAX_RUNS {
                self.runs.push(LossRun { first, length, side: way });
            }
        }
        self.front = Some(front.max(number));
    }

    /// Returns the result for `sent` requests.
    pub(super) fn finish(mut self, sent: u64) -> (Directions, Vec<LossRun>) {
        if !self.has_answers || !self.stateful || self.broken {
            return (Directions::default(), Vec::new());
        }
        let numbers = (self.highest - self.base + 1).max(0) as u64;
        let missing = numbers.saturating_sub(self.distinct);
        // Numbers of answers to duplicates, or to reordered requests, may be missing although every request
        // was answered. Reordered requests would reduce the losses of requests by the same number.
        let up_lost = self.unanswered.saturating_sub(missing);
        let either = self.unanswered - up_lost - self.answers_lost.min(self.unanswered - up_lost);
        let behind = sent.saturating_sub((self.highest_seq + 1).max(0) as u64);
        if let Some(first) = self.open.filter(|_| self.runs.len() < MAX_RUNS) {
            let length = u32::try_from(sent).unwrap_or(u32::MAX).saturating_sub(first);
            self.runs.push(LossRun { first, length, side: LossSide::Either });
        }
        let known = Directions {
            stateful: true,
            up_lost,
            down_lost: missing,
            unknown_lost: behind + either,
            ..self.counts
        };
        (known, self.runs)
    }
}
