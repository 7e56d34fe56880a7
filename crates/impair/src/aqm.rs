//! [`Aqm`]: active queue management of a bottleneck, which marks ECT packets and drops others.

use super::chance::unit;
use jitlat_core::ecn::Ecn;
use jitlat_core::time::{SECOND, Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// Active queue management of a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aqm {
    /// One queue. ECT packets that wait longer than the threshold are marked; others only meet the full queue.
    Step {
        /// Wait above which packets are marked.
        threshold: Span,
    },
    /// One queue with the control law of CoDel (RFC 8289), which marks ECT packets and drops others.
    Codel {
        /// Wait that CoDel permits to persist.
        target: Span,
        /// Time for which the wait must exceed the target before the first packet is marked or dropped.
        interval: Span,
        /// Wait above which every ECT packet is marked, as in `ce_threshold` of Linux; `None`: no such threshold.
        threshold: Option<Span>,
    },
    /// Two coupled queues (DualPI2, RFC 9332 appendix A): ECT(1) and CE in a queue with priority that marks early, all
    /// others in a queue with a PI controller.
    DualPi2 {
        /// Wait in the classic queue at which the controller aims.
        target: Span,
    },
}

/// Default target of [`Aqm::DualPi2`].
pub const DUALPI2_TARGET: Span = Span::millis(15);
/// Coupling factor k: the low-latency queue marks with k times the square root of the probability of the classic queue.
const COUPLING: f64 = 2.0;
/// Gains of the PI controller, in Hz, and the time between its updates.
const ALPHA: f64 = 0.16;
const BETA: f64 = 3.2;
const UPDATE: Span = Span::millis(16);
/// Largest base probability: the classic queue then drops a quarter of its packets, and the low-latency queue marks all.
const MAX_BASE: f64 = 0.5;
/// Wait in the low-latency queue from which it marks, and wait from which it marks all packets.
const RAMP: [Span; 2] = [Span::micros(800), Span::micros(1200)];

/// State of an AQM while packets pass through it.
#[derive(Clone, Debug)]
pub(super) enum AqmState {
    Step { threshold: Span },
    Codel(Codel),
    DualPi2(DualPi2),
}

/// Decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Send it with this mark.
    Send(Ecn),
    Drop,
}

impl Decision {
    /// Shows congestion to the sender of a packet with `mark`: by CE if the packet is ECN-capable, otherwise by loss.
    fn congestion(mark: Ecn) -> Decision {
        if mark == Ecn::NotEct { Decision::Drop } else { Decision::Send(Ecn::Ce) }
    }
}

impl AqmState {
    pub fn new(aqm: Aqm) -> AqmState {
        match aqm {
            Aqm::Step { threshold } => AqmState::Step { threshold },
            Aqm::Codel { target, interval, threshold } => AqmState::Codel(Codel {
                target,
                interval,
                threshold,
                above_since: None,
                next: None,
                count: 0,
            }),
            Aqm::DualPi2 { target } => AqmState::DualPi2(DualPi2 {
                target,
                base: 0.0,
                updated: None,
                wait_before: Span::ZERO,
                low_until: SteadyTime(i64::MIN),
            }),
        }
    }

    /// Decides about a packet with `mark` that waits for `wait` in the single queue and leaves it at `leaves`.
    pub fn decide(&mut self, leaves: SteadyTime, wait: Span, mark: Ecn, rng: &mut ChaCha8Rng) -> Decision {
        match self {
            AqmState::Step { threshold } if wait > *threshold && mark.is_ect() => Decision::Send(Ecn::Ce),
            AqmState::Step { .. } => Decision::Send(mark),
            AqmState::Codel(codel) => codel.decide(leaves, wait, mark),
            AqmState::DualPi2(dual) => dual.classic(mark, rng),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Codel {
    target: Span,
    interval: Span,
    threshold: Option<Span>,
    /// Time since which packets have waited longer than the target; `None` if the last one did not.
    above_since: Option<SteadyTime>,
    /// Time of the next mark or drop; `None` unless in the state in which CoDel marks or drops.
    next: Option<SteadyTime>,
    /// Number of marks and drops in this state.
    count: u32,
}

impl Codel {
    fn decide(&mut self, now: SteadyTime, wait: Span, mark: Ecn) -> Decision {
        let shown = |by_law: bool, threshold: Option<Span>| match threshold {
            _ if by_law => Decision::congestion(mark),
            Some(threshold) if wait > threshold && mark.is_ect() => Decision::Send(Ecn::Ce),
            _ => Decision::Send(mark),
        };
        if wait < self.target {
            (self.above_since, self.next) = (None, None);
            return shown(false, self.threshold);
        }
        let since = *self.above_since.get_or_insert(now);
        let due = match self.next {
            Some(next) => now >= next,
            None => now - since >= self.interval,
        };
        if due {
            self.count = if self.next.is_some() { self.count + 1 } else { 1 };
            let gap = self.interval.0 as f64 / f64::from(self.count).sqrt();
            self.next = Some(self.next.unwrap_or(now) + Span(gap as i64));
        }
        shown(due, self.threshold)
    }
}

#[derive(Clone, Debug)]
pub(super) struct DualPi2 {
    target: Span,
    /// Base probability p′: the classic queue uses its square, the low-latency queue its [`COUPLING`]-fold.
    base: f64,
    updated: Option<SteadyTime>,
    wait_before: Span,
    /// Time at which the low-latency queue has sent everything that it accepted.
    low_until: SteadyTime,
}

impl DualPi2 {
    /// Lets the controller see the wait in the classic queue.
    pub fn observe(&mut self, now: SteadyTime, wait: Span) {
        let updated = *self.updated.get_or_insert(now);
        if now - updated < UPDATE {
            return;
        }
        let seconds = |span: Span| span.0 as f64 / SECOND as f64;
        let change = ALPHA * seconds(wait - self.target) + BETA * seconds(wait - self.wait_before);
        self.base = (self.base + change).clamp(0.0, MAX_BASE);
        (self.updated, self.wait_before) = (Some(now), wait);
    }

    /// Decides about a packet in the classic queue.
    fn classic(&self, mark: Ecn, rng: &mut ChaCha8Rng) -> Decision {
        if unit(rng) < self.base * self.base { Decision::congestion(mark) } else { Decision::Send(mark) }
    }

    /// Passes a packet through the low-latency queue, whose transmitter needs `takes` for it, and at least `frees` to
    /// finish the packet of the classic queue that it is sending. `longest` is the time of the longest packet. Returns the
    /// time at which the packet is sent, and its mark.
    pub fn low_latency(
        &mut self,
        now: SteadyTime,
        (takes, frees, longest): (Span, Span, Span),
        mark: Ecn,
        rng: &mut ChaCha8Rng,
    ) -> (SteadyTime, Ecn) {
        let begins = self.low_until.max(now + frees);
        self.low_until = begins + takes;
        // A packet that only waits for the one being sent must not be marked (RFC 9332 appendix A.1).
        let [from, to] =
            RAMP.map(|limit| if longest > RAMP[0] { longest + (limit - RAMP[0]) } else { limit });
        let ramp = ((begins - now - from).0 as f64 / (to - from).0 as f64).clamp(0.0, 1.0);
        let marked = unit(rng) < ramp.max(COUPLING * self.base);
        (self.low_until, if marked { Ecn::Ce } else { mark })
    }
}
