//! [`Bottleneck`]: a transmitter of fixed rate behind a drop-tail queue, and the traffic that shares it.

use super::chance::unit;
use crate::time::{SECOND, Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// A transmitter of fixed rate behind a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second, > 0.
    pub bits: u64,
    /// What may wait, in bytes, the rest of the packet in transmission included. A packet that finds the
    /// transmitter idle always goes through.
    pub queue: u64,
}

/// Traffic of others through the same bottleneck, in packets of [`OTHERS_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Competition {
    /// When it begins, from the first test packet.
    pub from: Span,
    /// For how long.
    pub length: Span,
    /// How its packets follow each other.
    pub load: Load,
}

/// How the packets of others follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Evenly, at this many bits a second.
    Constant(u64),
    /// With exponential gaps, at this many bits a second on average.
    Poisson(u64),
    /// A TCP connection that always has something to send: slow start, then one packet more each round trip and
    /// half as many after a loss.
    Greedy {
        /// Its round trip when nothing waits.
        rtt: Span,
    },
}

/// Bytes of a packet of [`Competition`], IP header included.
pub const OTHERS_BYTES: usize = 1500;
/// The smallest gap between two packets of a competitor: they come over a link too.
const LEAST_GAP: Span = Span::micros(10);

/// The bottleneck in progress.
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
    /// Its next packet, once the test has begun.
    next: Option<SteadyTime>,
    end: SteadyTime,
    /// Of [`Load::Greedy`]: the window and the threshold of slow start in packets, and until when a loss counts as
    /// the one before.
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

    /// Says when the first test packet came: the others' times count from it.
    pub fn start(&mut self, first: SteadyTime) {
        for other in &mut self.others {
            other.next = Some(first + other.law.from);
            other.end = first + other.law.from + other.law.length;
        }
    }

    /// When the bottleneck has sent the last bit of a packet that comes at `now`, or `None` if its queue is full.
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
