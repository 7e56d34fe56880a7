//! [`Bottleneck`]: a transmitter of fixed rate with a drop-tail queue, and the traffic that shares it.

use super::aqm::{Aqm, AqmState, Decision};
use super::chance::unit;
use jitlat_core::ecn::Ecn;
use jitlat_core::link::Encapsulation;
use jitlat_core::time::{SECOND, Span, SteadyTime};
use rand_chacha::ChaCha8Rng;

/// A transmitter of fixed rate with a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateBottleneck {
    /// Rate in bits per second, > 0.
    pub bits: u64,
    /// Size of the queue in bytes, including the rest of the packet being transmitted. A packet that arrives
    /// while the transmitter is idle is always accepted.
    pub queue: u64,
}

/// A bottleneck that sends ATM cells in the slots of a free-running clock, as ADSL does. A packet is padded to
/// whole cells of 53 bytes, and its first cell uses the next free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellBottleneck {
    /// ATM encapsulation of an IP packet.
    pub encapsulation: Encapsulation,
    /// Number of bytes that a tunnel adds to each IP packet before the encapsulation.
    pub tunnel: u64,
}

/// Number of bits of a cell on the line.
const CELL_BITS: i128 = 53 * 8;
/// Number of payload bytes of a cell.
const CELL_PAYLOAD: i128 = 48;

/// Cell clock of a line, with the next free slot.
#[derive(Clone, Debug)]
struct CellClock {
    /// Number of bytes added to an IP packet before it is split into cells.
    overhead: i128,
    /// Start of slot 0.
    phase: SteadyTime,
    /// Number of the first free slot.
    free: i128,
}

impl CellClock {
    /// Creates a clock with a random phase.
    fn new(cells: CellBottleneck, rate: RateBottleneck, rng: &mut ChaCha8Rng) -> CellClock {
        let slot = CELL_BITS as f64 * SECOND as f64 / rate.bits.max(1) as f64;
        CellClock {
            overhead: i128::from(cells.encapsulation.overhead()) + i128::from(cells.tunnel),
            phase: SteadyTime((unit(rng) * slot) as i64),
            free: i128::MIN,
        }
    }

    /// Reserves the slots of a packet that may begin at `begin` or later; returns the end of its last slot.
    fn send(&mut self, begin: SteadyTime, bytes: usize, bits: i128) -> SteadyTime {
        let slot = CELL_BITS * i128::from(SECOND);
        let since = i128::from((begin - self.phase).0) * bits;
        let next = since.div_euclid(slot) + i128::from(since.rem_euclid(slot) > 0);
        let cells = (bytes as i128 + self.overhead + CELL_PAYLOAD - 1) / CELL_PAYLOAD;
        self.free = self.free.max(next) + cells;
        let over = (self.free * slot).div_euclid(bits);
        self.phase + Span(i64::try_from(over).unwrap_or(i64::MAX))
    }
}

/// Cross traffic through the same bottleneck, in packets of [`COMPETITOR_PACKET_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Competition {
    /// Start, relative to the first test packet.
    pub from: Span,
    /// Duration.
    pub length: Span,
    /// Spacing of the packets.
    pub load: CrossTraffic,
}

/// Spacing of the packets of cross traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrossTraffic {
    /// Constant spacing with this rate in bits per second.
    Constant(u64),
    /// Exponential gaps with this mean rate in bits per second.
    Poisson(u64),
    /// A TCP connection with unlimited data. The window grows by slow start, then by one packet per round trip,
    /// and is halved after a loss.
    Greedy {
        /// Round-trip time of the connection without queueing.
        rtt: Span,
    },
}

/// Size of a packet of [`Competition`] in bytes, IP header included.
pub const COMPETITOR_PACKET_BYTES: usize = 1500;
/// Smallest gap between two packets of a competitor, whose own link limits its rate.
const MIN_GAP: Span = Span::micros(10);

/// State of a bottleneck while packets pass through it.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    rate: RateBottleneck,
    cells: Option<CellClock>,
    /// Time at which the transmitter has sent everything that it accepted; `None` if it has not accepted a packet yet.
    busy_until: Option<SteadyTime>,
    /// Active queue management; `None`: the queue only drops packets for which it has no room.
    aqm: Option<AqmState>,
    others: Vec<Competitor>,
    rng: ChaCha8Rng,
}

#[derive(Clone, Debug)]
struct Competitor {
    law: Competition,
    /// Arrival time of the next packet; `None` before the test begins.
    next: Option<SteadyTime>,
    end: SteadyTime,
    /// Congestion window of [`CrossTraffic::Greedy`], in packets.
    window: f64,
    /// Slow-start threshold of [`CrossTraffic::Greedy`], in packets.
    threshold: f64,
    /// Time until which further losses of [`CrossTraffic::Greedy`] belong to the same loss event.
    recovering: SteadyTime,
}

impl Bottleneck {
    pub fn new(
        rate: RateBottleneck,
        cells: Option<CellBottleneck>,
        aqm: Option<Aqm>,
        competition: &[Competition],
        mut rng: ChaCha8Rng,
    ) -> Bottleneck {
        let others = competition.iter().map(|law| Competitor {
            law: *law,
            next: None,
            end: SteadyTime(i64::MAX),
            window: 10.0,
            threshold: f64::INFINITY,
            recovering: SteadyTime(i64::MIN),
        });
        let cells = cells.map(|cells| CellClock::new(cells, rate, &mut rng));
        let aqm = aqm.map(AqmState::new);
        Bottleneck { rate, cells, busy_until: None, aqm, others: others.collect(), rng }
    }

    /// Sets the arrival time of the first test packet, to which the competitors' times are relative.
    pub fn start(&mut self, first: SteadyTime) {
        for other in &mut self.others {
            other.next = Some(first + other.law.from);
            other.end = first + other.law.from + other.law.length;
        }
    }

    /// Returns the time at which the last bit of a packet that arrives at `now` is sent, and the mark with which it is
    /// sent; `None` if the queue is full, or if its management drops the packet.
    pub fn transmit(&mut self, now: SteadyTime, bytes: usize, mark: Ecn) -> Option<(SteadyTime, Ecn)> {
        while let Some(k) = self.next_before(now) {
            self.competitor(k);
        }
        self.accept(now, bytes, mark)
    }

    /// Returns the index of the competitor whose packet is next, if it is due before `now`.
    fn next_before(&self, now: SteadyTime) -> Option<usize> {
        let due = self.others.iter().enumerate().filter_map(|(k, o)| Some((o.next?, k)));
        due.min().filter(|(at, _)| *at < now).map(|(_, k)| k)
    }

    fn competitor(&mut self, k: usize) {
        let Some(now) = self.others[k].next else { return };
        let sent = self.accept(now, COMPETITOR_PACKET_BYTES, Ecn::NotEct).map(|(at, _)| at);
        let spacing = |bits: u64| (COMPETITOR_PACKET_BYTES as f64 * 8.0 * SECOND as f64) / bits.max(1) as f64;
        let other = &mut self.others[k];
        let gap = match other.law.load {
            CrossTraffic::Constant(bits) => spacing(bits),
            CrossTraffic::Poisson(bits) => -unit(&mut self.rng).ln() * spacing(bits),
            CrossTraffic::Greedy { rtt } => {
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
        let next = now + Span(gap as i64).max(MIN_GAP);
        other.next = (next < other.end).then_some(next);
    }

    fn accept(&mut self, now: SteadyTime, bytes: usize, mark: Ecn) -> Option<(SteadyTime, Ecn)> {
        let bits = i128::from(self.rate.bits.max(1));
        let begin = self.busy_until.map_or(now, |b| b.max(now));
        if begin > now {
            let waiting = i128::from((begin - now).0) * bits / (8 * i128::from(SECOND));
            if waiting + bytes as i128 > i128::from(self.rate.queue) {
                return None;
            }
        }
        let takes = self.takes(bytes);
        let longest = self.takes(COMPETITOR_PACKET_BYTES);
        if let Some(AqmState::DualPi2(dual)) = &mut self.aqm {
            dual.observe(now, begin - now);
            if mark.is_l4s() {
                // Time until the packet of the classic queue that is being sent is finished, if all its packets are of
                // maximum length.
                let frees = Span((begin - now).0 % longest.0.max(1));
                let sent = dual.low_latency(now, (takes, frees, longest), mark, &mut self.rng);
                // The transmitter is busy for the same time as with one queue, so that packets that arrive later at the
                // classic queue wait longer. The times of packets that already wait there are not changed.
                self.busy_until = Some(begin + takes);
                return Some(sent);
            }
        }
        let mark = match self.aqm.as_mut().map(|aqm| aqm.decide(begin, begin - now, mark, &mut self.rng)) {
            Some(Decision::Drop) => return None,
            Some(Decision::Send(mark)) => mark,
            None => mark,
        };
        let end = match &mut self.cells {
            Some(clock) => clock.send(begin, bytes, bits),
            None => begin + takes,
        };
        self.busy_until = Some(end);
        Some((end, mark))
    }

    /// Returns the time that the transmitter needs for a packet, rounded up.
    fn takes(&self, bytes: usize) -> Span {
        let bits = i128::from(self.rate.bits.max(1));
        let takes = (bytes as i128 * 8 * i128::from(SECOND) + bits - 1) / bits;
        Span(i64::try_from(takes).unwrap_or(i64::MAX))
    }
}
