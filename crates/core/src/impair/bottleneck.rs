//! [`Bottleneck`]: a transmitter of fixed rate behind a drop-tail queue, and the traffic that shares it.

use super::chance::unit;
use crate::time::{SECOND, Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// A transmitter of fixed rate behind a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second, > 0.
    pub bits: u64,
    /// Size of the queue in bytes, including the rest of the packet being transmitted. A packet that finds the
    /// transmitter idle always passes.
    pub queue: u64,
}

/// Cross traffic through the same bottleneck, in packets of [`OTHERS_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Competition {
    /// When it begins, from the first test packet.
    pub from: Span,
    /// For how long.
    pub length: Span,
    /// The spacing of its packets.
    pub load: Load,
}

/// The spacing of the packets of cross traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Constant spacing, at this many bits a second.
    Constant(u64),
    /// With exponential gaps, at this many bits a second on average.
    Poisson(u64),
    /// A TCP connection with unlimited data: slow start, then one packet more each round trip and half as many after a
    /// loss.
    Greedy {
        /// Its round trip without queueing.
        rtt: Span,
    },
}

/// Bytes of a packet of [`Competition`], IP header included.
pub const OTHERS_BYTES: usize = 1500;
/// The smallest gap between two packets of a competitor, because they arrive over a link as well.
const LEAST_GAP: Span = Span::micros(10);

/// A running bottleneck.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    rate: Rate,
    /// When the transmitter has sent all that it accepted.
    busy_until: Option<SteadyTime>,
    others: Vec<Competitor>,
    rng: ChaCha8Rng,
}

#[derive(Clone, Debug)]
struct Competitor {
    law: Competition,
    /// Its next packet; `None` before the test begins.
    next: Option<SteadyTime>,
    end: SteadyTime,
    /// For [`Load::Greedy`]: window and slow-start threshold in packets, and until when a further loss counts as the
    /// same.
    window: f64,
    threshold: f64,
    recovering: SteadyTime,
}

impl Bottleneck {
    pub fn new(rate: Rate, competition: &[Competition], rng: ChaCha8Rng) -> Bottleneck {
        let others = competition.iter().map(|law| Competitor {
            law: *law,
            next: None,
            end: SteadyTime(i64::MAX),
            window: 10.0,
            threshold: f64::INFINITY,
            recovering: SteadyTime(i64::MIN),
        });
        Bottleneck { rate, busy_until: None, others: others.collect(), rng }
    }

    /// Sets when the first test packet came, which the competitors' times refer to.
    pub fn start(&mut self, first: SteadyTime) {
        for other in &mut self.others {
            other.next = Some(first + other.law.from);
            other.end = first + other.law.from + other.law.length;
        }
    }

    /// When the last bit of a packet that comes at `now` is sent; `None` if the queue is full.
    pub fn transmit(&mut self, now: SteadyTime, bytes: usize) -> Option<SteadyTime> {
        while let Some(k) = self.next_before(now) {
            self.competitor(k);
        }
        self.accept(now, bytes)
    }

    /// Which competitor's packet comes first, if before `now`.
    fn next_before(&self, now: SteadyTime) -> Option<usize> {
        let due = self.others.iter().enumerate().filter_map(|(k, o)| Some((o.next?, k)));
        due.min().filter(|(at, _)| *at < now).map(|(_, k)| k)
    }

    fn competitor(&mut self, k: usize) {
        let Some(now) = self.others[k].next else { return };
        let sent = self.accept(now, OTHERS_BYTES);
        let spacing = |bits: u64| (OTHERS_BYTES as f64 * 8.0 * SECOND as f64) / bits.max(1) as f64;
        let other = &mut self.others[k];
        let gap = match other.law.load {
            Load::Constant(bits) => spacing(bits),
            Load::Poisson(bits) => -unit(&mut self.rng).ln() * spacing(bits),
            Load::Greedy { rtt } => {
                let waited = sent.map_or(Span::ZERO, |at| at - now);
                match sent {
                    Some(_) if other.window < other.threshold => other.window += 1.0,
                    Some(_) => other.window += 1.0 / other.window,
                    None if now >= other.recovering => {
                        other.threshold = (other.window / 2.0).max(2.0);
                        other.window = other.threshold;
                        other.recovering = now + rtt;
                    }
                    None => {}
                }
                (rtt + waited).0 as f64 / other.window
            }
        };
        let next = now + Span(gap as i64).max(LEAST_GAP);
        other.next = (next < other.end).then_some(next);
    }

    fn accept(&mut self, now: SteadyTime, bytes: usize) -> Option<SteadyTime> {
        let bits = i128::from(self.rate.bits.max(1));
        let begin = self.busy_until.map_or(now, |b| b.max(now));
        if begin > now {
            let waiting = i128::from((begin - now).0) * bits / (8 * i128::from(SECOND));
            if waiting + bytes as i128 > i128::from(self.rate.queue) {
                return None;
            }
        }
        let takes = (bytes as i128 * 8 * i128::from(SECOND) + bits - 1) / bits;
        let end = begin + Span(i64::try_from(takes).unwrap_or(i64::MAX));
        self.busy_until = Some(end);
        Some(end)
    }
}
