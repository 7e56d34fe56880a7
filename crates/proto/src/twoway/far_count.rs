//! [`FarCount`]: derives losses by direction from the far host's own numbering of its answers.
//!
//! A number that was never received belongs to an answer lost on the way back. Between two received answers, the
//! requests without an answer are compared with the missing numbers: if none is missing, the far host never received
//! these requests; if as many are missing as there are requests, it answered them all. In between it is known how many
//! were lost in each direction, but not which.

use jitlat_core::twoway::{Directions, LossRun, LossSide};

/// Runs of loss whose direction is recorded: further runs are counted, with unknown direction.
const MAX_RUNS: usize = 1 << 16;
/// A number further ahead of the requests sent than duplicates can explain is not a count.
const MAX_AHEAD: i64 = 1024;

/// The count of one far host over one test. Memory is taken once.
#[derive(Clone, Debug)]
pub(super) struct FarCount {
    has_answers: bool,
    /// Whether it is known beforehand that there is a count, from 0 on.
    declared: bool,
    stateful: bool,
    /// Whether it is known that there is none.
    copies: bool,
    broken: bool,
    /// Number the count began with.
    base: i64,
    highest: i64,
    highest_seq: i64,
    /// Different numbers received.
    distinct: u64,
    /// Which of the latest numbers were received.
    came: Box<[u64]>,
    /// Settled requests without an answer, and those of them that the far host answered.
    unanswered: u64,
    answered_in_vain: u64,
    /// The requests without an answer since the last answered one.
    open: Option<u32>,
    /// Highest number of the settled answers.
    front: Option<i64>,
    runs: Vec<LossRun>,
    counts: Directions,
}

impl FarCount {
    /// For a table that remembers `room` requests (a power of two), of a test of `packets`.
    pub(super) fn new(room: usize, packets: u32) -> FarCount {
        // Preallocate, so that runs that are settled while packets fly need no allocation.
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
            came: vec![0; (2 * room).div_ceil(64)].into(),
            unanswered: 0,
            answered_in_vain: 0,
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

    /// Whether it is open if there is a count.
    pub(super) fn may_count(&self) -> bool {
        self.has_answers && !self.stateful && !self.copies && !self.broken
    }

    /// A request whose number no count can have reached was answered: by a copy of that number, or with a count's.
    pub(super) fn note_probe(&mut self, seq: u32, far: Option<u32>) {
        match far {
            Some(far) if far != seq => self.stateful = true,
            // A copy, or nothing: there is no count, and nobody need ask again.
            _ => self.copies = true,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// `far` is the number nearest to the highest so far.
    fn unwrap(&self, far: u32) -> i64 {
        self.highest + i64::from(far.wrapping_sub(self.highest as u32) as i32)
    }

    fn window(&self) -> i64 {
        self.came.len() as i64 * 64
    }

    /// Whether `number` was received, as far as it is remembered.
    fn came(&self, number: i64) -> bool {
        let bit = number.rem_euclid(self.window());
        number <= self.highest
            && number > self.highest - self.window()
            && self.came[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    /// Records that `number` was received; everything up to it is now remembered.
    fn mark(&mut self, number: i64) {
        let window = self.window();
        if number <= self.highest - window {
            return;
        }
        for passed in (self.highest + 1).max(number - window + 1)..=number {
            let bit = passed.rem_euclid(window);
            self.came[bit as usize / 64] &= !(1 << (bit % 64));
        }
        self.highest = self.highest.max(number);
        let bit = number.rem_euclid(window);
        self.came[bit as usize / 64] |= 1 << (bit % 64);
    }

    /// Answer `far` to request `seq`, whose earlier answer had number `before`; `sent` requests were made by now.
    pub(super) fn note(&mut self, seq: u32, far: u32, before: Option<u32>, sent: u64) {
        if self.broken {
            return;
        }
        if !self.has_answers {
            self.has_answers = true;
            // A count begins at 0; one ahead of the sender's number was begun before this test, unless it is known to
            // belong to this one: then requests were reordered or duplicated.
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
        if self.came(number) {
            // The same answer again; if for another request, the count was restarted.
            self.counts.down_duplicates += u64::from(before.is_some());
            self.broken |= before.is_none() && self.stateful;
            return;
        }
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

    /// Settles request `seq`, the next in order: it was answered with this number, or never.
    pub(super) fn settle(&mut self, seq: u32, far: Option<u32>) {
        let Some(far) = far else {
            self.open.get_or_insert(seq);
            return;
        };
        let number = self.unwrap(far);
        let front = self.front.unwrap_or(self.base - 1);
        if let Some(first) = self.open.take() {
            let length = seq - first;
            let missing = (front + 1..number).filter(|n| !self.came(*n)).take(length as usize).count() as u32;
            self.unanswered += u64::from(length);
            self.answered_in_vain += u64::from(missing);
            // If the count began before the test its beginning is a guess, and so is what the order of reordered
            // packets suggests.
            let known = number > front && (first > 0 || self.base == 0);
            let way = match missing {
                0 if known => LossSide::Up,
                m if known && m == length => LossSide::Down,
                _ => LossSide::Either,
            };
            if self.runs.len() < MAX_RUNS {
                self.runs.push(LossRun { first, length, way });
            }
        }
        self.front = Some(front.max(number));
    }

    /// The result for `sent` requests.
    pub(super) fn finish(mut self, sent: u64) -> (Directions, Vec<LossRun>) {
        if !self.has_answers || !self.stateful || self.broken {
            return (Directions::default(), Vec::new());
        }
        let numbers = (self.highest - self.base + 1).max(0) as u64;
        let missing = numbers.saturating_sub(self.distinct);
        // Numbers missing without a request: answers to duplicates, or to requests that were overtaken. The second
        // would reduce the losses on the way there by as many.
        let up_lost = self.unanswered.saturating_sub(missing);
        let either = self.unanswered - up_lost - self.answered_in_vain.min(self.unanswered - up_lost);
        let behind = sent.saturating_sub((self.highest_seq + 1).max(0) as u64);
        if let Some(first) = self.open.filter(|_| self.runs.len() < MAX_RUNS) {
            let length = u32::try_from(sent).unwrap_or(u32::MAX).saturating_sub(first);
            self.runs.push(LossRun { first, length, way: LossSide::Either });
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
