//! [`Aqm`]: active queue management of a bottleneck, which marks ECT packets and drops others.

use super::chance::unit;
use jitlat_core::ecn::Ecn;
use jitlat_core::time::{SECOND, Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// Active queue management of a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aqm {
    /// One queue. ECT packets that wait longer than the threshold are marked; other packets are dropped only if the queue is
    /// full.
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
        /// Target of the controller for the wait in the classic queue.
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
    /// Base probability p′: the classic queue uses p′², the low-latency queue [`COUPLING`] × p′.
    base: f64,
    updated: Option<SteadyTime>,
    wait_before: Span,
    /// Time at which all packets of the low-latency queue have been sent.
    low_until: SteadyTime,
}

impl DualPi2 {
    /// Updates the controller with the current wait in the classic queue.
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

    /// Passes a packet through the low-latency queue. The transmitter needs the time `takes` to send it, and must first
    /// finish a packet of the classic queue, which takes `frees`. `longest` is the time of the longest packet. Returns the
    /// time at which the packet has been sent, and its mark.
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

#[cfg(test)]
mod tests {
    use crate::{Impairment, PathPacket, Scenario};
    use jitlat_core::Ecn;
    use jitlat_core::time::{Span, SteadyTime};

    /// Deliveries of `n` packets of each mark, one every 500 µs in turn: the delays in ms, and the marks on arrival;
    /// `None` for lost ones.
    fn by_mark(path: &str, n: i64) -> [Vec<Option<(f64, Ecn)>>; 4] {
        let scenario: Scenario = path.parse().expect("the scenario is right");
        let mut path = Impairment::new(scenario.up, 3);
        let mut all = [const { Vec::new() }; 4];
        for k in 0..4 * n {
            let (mark, now) = (Ecn::of_bits((k % 4) as u8), SteadyTime(0) + Span::micros(500).times(k));
            let out = path.pass(now, PathPacket { bytes: 100, traffic_class: 0xb8 | mark.bits() });
            assert!(out.is_empty() || out.traffic_class() & !3 == 0xb8, "the DSCP does not change");
            let delay = out.first().map(|at| (*at - now).0 as f64 / 1e6);
            all[k as usize % 4].push(delay.map(|delay| (delay, Ecn::of_bits(out.traffic_class()))));
        }
        all
    }

    fn median(packets: &[Option<(f64, Ecn)>]) -> f64 {
        let mut delays: Vec<f64> = packets.iter().flatten().map(|(delay, _)| *delay).collect();
        delays.sort_by(f64::total_cmp);
        delays[delays.len() / 2]
    }

    fn share(packets: &[Option<(f64, Ecn)>], of: impl Fn(&Option<(f64, Ecn)>) -> bool) -> f64 {
        packets.iter().filter(|p| of(p)).count() as f64 / packets.len() as f64
    }

    const LOAD: &str = "competition = tcp 30ms from 0s for 60s";

    #[test]
    fn a_dual_queue_serves_and_marks_as_rfc_9332_says() {
        let path = format!("[up]\nrate = 20Mbit queue 250kB\naqm = dualpi2\n{LOAD}");
        let [not_ect, ect1, ect0, ce] = by_mark(&path, 10_000);
        let [classic, classic_ect, low, low_ce] =
            [&not_ect, &ect0, &ect1, &ce].map(|packets| median(packets));
        // The wait in the classic queue is near its target of 15 ms; the low-latency queue waits for one packet at most.
        assert!(
            (8.0..25.0).contains(&classic) && (classic - classic_ect).abs() < 2.0,
            "{classic} {classic_ect}"
        );
        assert!(low < 1.0 && low_ce < 1.0, "{low} {low_ce}");
        let marked =
            |packets: &[Option<(f64, Ecn)>]| share(packets, |p| p.is_some_and(|(_, mark)| mark == Ecn::Ce));
        // Coupling: p_C = (p_L / 2)².
        let (p_low, p_classic, dropped) = (marked(&ect1), marked(&ect0), share(&not_ect, Option::is_none));
        assert!(p_low > 0.02 && p_classic > 0.0 && p_classic < p_low / 2.0, "{p_low} {p_classic}");
        assert!((p_classic - dropped).abs() < 0.01, "ECT(0) is marked where Not-ECT is dropped");
        assert!(share(&ce, |p| p.is_none_or(|(_, mark)| mark == Ecn::Ce)) == 1.0, "CE stays CE");
    }

    #[test]
    fn one_queue_marks_ect_alike_and_delays_all_alike() {
        for aqm in ["step 5ms", "codel target 5ms interval 100ms threshold 5ms"] {
            let path = format!("[up]\nrate = 20Mbit queue 250kB\naqm = {aqm}\n{LOAD}");
            let [not_ect, ect1, ect0, _] = by_mark(&path, 4000);
            let delays = [&not_ect, &ect1, &ect0].map(|packets| median(packets));
            assert!(delays.iter().all(|delay| (delay - delays[0]).abs() < 1.0), "{aqm}: {delays:?}");
            for packets in [&ect1, &ect0] {
                for (wait, mark) in packets.iter().flatten() {
                    // 40 µs of the delay are the packet's own transmission.
                    assert!(*wait < 5.04 || *mark == Ecn::Ce, "{aqm}: {wait} ms, {mark}");
                }
                assert!(packets.iter().flatten().any(|(_, mark)| *mark == Ecn::Ce), "{aqm}");
            }
            assert!(not_ect.iter().flatten().all(|(_, mark)| *mark == Ecn::NotEct), "{aqm}");
        }
    }

    #[test]
    fn codel_without_a_threshold_marks_only_while_the_wait_persists() {
        let path = format!("[up]\nrate = 10Mbit queue 250kB\naqm = codel target 5ms interval 100ms\n{LOAD}");
        let [.., ect0, _] = by_mark(&path, 10_000);
        let marked = share(&ect0, |p| p.is_some_and(|(_, mark)| mark == Ecn::Ce));
        assert!((0.0001..0.2).contains(&marked), "{marked}");
        assert!(median(&ect0) < 60.0, "TCP responds to CoDel's drops");
    }

    #[test]
    fn boxes_rewrite_and_drop_by_mark() {
        let arrived = |rules: &str| {
            by_mark(&format!("[up]\n{rules}"), 1000).map(|packets| {
                Ecn::ALL.map(|mark| share(&packets, |p| p.is_some_and(|(_, seen)| seen == mark)))
            })
        };
        let [not_ect, ect1, ect0, ce] = arrived("ecn = ect0 ect1 ce to not-ect");
        assert_eq!([not_ect, ect1, ect0, ce], [[1.0, 0.0, 0.0, 0.0]; 4]);
        let [_, ect1, ect0, _] = arrived("ecn = ect1 to ect0");
        assert_eq!([ect1, ect0], [[0.0, 0.0, 1.0, 0.0]; 2]);
        let [not_ect, ect1, ect0, ce] = arrived("ecn = ect1 drop 30%");
        assert!((ect1[1] - 0.7).abs() < 0.05, "{ect1:?}");
        assert_eq!((not_ect[0], ect0[2], ce[3]), (1.0, 1.0, 1.0));
        // Rules apply in their order.
        let [_, ect1, ..] = arrived("ecn = ect1 to ect0\necn = ect0 to ce");
        assert_eq!(ect1[3], 1.0);
        for wrong in [
            "ecn = ect1",
            "ecn = to ce",
            "ecn = ect2 drop",
            "ecn = ect1 to",
            "aqm = step 5ms",
            "ecn = ce drop 2 3",
        ] {
            assert!(format!("[up]\n{wrong}").parse::<Scenario>().is_err(), "{wrong}");
        }
        assert!("[up]\nrate = 1Mbit queue 9kB\naqm = red".parse::<Scenario>().is_err());
    }
}
