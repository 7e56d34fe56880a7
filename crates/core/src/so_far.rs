//! [`SoFar`]: a receiver's figures of a running stream, in constant memory. [`ReceivedSoFar`]: a snapshot of
//! these figures, which a far receiver can send in a small message.

use crate::distribution::{LogHistogram, Precision};
use crate::metrics::classify::AcceptedPacket;
use crate::metrics::one_pass::OnePass;
use crate::metrics::rfc3550::JitterEstimator;
use crate::record::PacketRecord;
use crate::summary::Percent;
use crate::time::Span;
use std::collections::VecDeque;
use std::ops::Range;

/// Percentages of the percentiles in [`ReceivedSoFar::delays`].
pub const PERCENTAGES: [Percent; 6] =
    [Percent(10_000), Percent(25_000), Percent(50_000), Percent(75_000), Percent(90_000), Percent(99_000)];

/// A receiver's figures of a stream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedSoFar {
    /// Number of packets received, without duplicates.
    pub received: u64,
    /// Number of packets missing below the highest number received; some may still arrive.
    pub missing: u64,
    /// Number of duplicates received.
    pub duplicates: u64,
    /// Number of packets that arrived after a packet with a higher number.
    pub reordered: u64,
    /// Number of runs of missing packets.
    pub runs: u32,
    /// Length of the longest run of missing packets.
    pub longest: u32,
    /// Time since the last arrival; `None` before the first arrival.
    pub silence: Option<Span>,
    /// Interarrival jitter of RFC 3550; `None` before the second packet.
    pub jitter: Option<Span>,
    /// Raw delays in ns: the smallest, the percentiles [`PERCENTAGES`], and the largest; `None` before the first
    /// packet.
    pub delays: Option<[i64; PERCENTAGES.len() + 2]>,
    /// Figures of the packets since the previous report.
    pub latest: Latest,
}

/// Figures of the packets received since the previous report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// Number of packets received, without duplicates.
    pub received: u32,
    /// Raw delays in ns: smallest, median, 99th percentile, largest; `None` if no packet was received.
    pub delays: Option<[i64; 4]>,
}

impl ReceivedSoFar {
    /// Returns the smallest delay, in ns; `None` before the first packet.
    pub fn fastest(&self) -> Option<i64> {
        self.delays.map(|delays| delays[0])
    }

    /// Returns the median delay, in ns; `None` before the first packet.
    pub fn median(&self) -> Option<i64> {
        self.delays.map(|delays| delays[3])
    }

    /// Returns the 99th percentile of delay, in ns; `None` before the first packet.
    pub fn p99(&self) -> Option<i64> {
        self.delays.map(|delays| delays[PERCENTAGES.len()])
    }

    /// Returns the share of packets missing among those known to have been sent, in percent; `None` before
    /// the first packet.
    pub fn loss_pct(&self) -> Option<f64> {
        let all = self.received + self.missing;
        (all > 0).then(|| 100.0 * self.missing as f64 / all as f64)
    }
}

/// Effect of an arrival on the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrivalEffect {
    /// The packet has the highest number so far. The range contains the skipped numbers before it, which are
    /// now missing.
    New(Range<i64>),
    /// The packet was missing until now.
    Late,
    /// The packet is a duplicate, or so late that it counts as missing.
    Other,
}

/// Collects the figures of a running stream from the records of its receiver.
#[derive(Clone, Debug)]
pub struct SoFar {
    delays: LogHistogram,
    latest: LogHistogram,
    latest_received: u32,
    jitter: JitterEstimator,
    received: u64,
    duplicates: u64,
    reordered: u64,
    next: i64,
    /// The most recent gaps in the sequence numbers, which a late packet may still shorten or split.
    open: VecDeque<Range<i64>>,
    settled: SettledLosses,
}

/// Counts of the loss bursts that can no longer change.
#[derive(Clone, Copy, Debug, Default)]
struct SettledLosses {
    packets: i64,
    runs: u32,
    longest: i64,
}

impl SettledLosses {
    fn and(self, run: &Range<i64>) -> SettledLosses {
        let length = run.end - run.start;
        SettledLosses {
            packets: self.packets.saturating_add(length),
            runs: self.runs.saturating_add(1),
            longest: self.longest.max(length),
        }
    }
}

/// Maximum number of open gaps. A packet that arrives in an older gap still counts as missing.
const MAX_OPEN_GAPS: usize = 64;

impl SoFar {
    /// Creates the figures of a stream before its first packet; percentiles have the given `precision`.
    pub fn new(precision: Precision) -> SoFar {
        SoFar {
            delays: LogHistogram::new(precision),
            latest: LogHistogram::new(precision),
            latest_received: 0,
            jitter: JitterEstimator::default(),
            received: 0,
            duplicates: 0,
            reordered: 0,
            next: 0,
            open: VecDeque::new(),
            settled: SettledLosses::default(),
        }
    }

    /// Adds the next packet received, with its one-way or round-trip delay. Returns `None` if it is damaged
    /// or has no delay.
    pub fn push(&mut self, record: &PacketRecord, delay: Option<Span>) -> Option<ArrivalEffect> {
        let delay = delay.filter(|_| record.seq >= 0 && record.flags.is_clean())?;
        let seq = record.seq;
        let arrival = match seq.cmp(&self.next) {
            _ if seq < self.next => self.late(seq),
            _ => ArrivalEffect::New(self.next..seq),
        };
        match &arrival {
            ArrivalEffect::Other => {
                self.duplicates += 1;
                return Some(arrival);
            }
            ArrivalEffect::Late => self.reordered += 1,
            ArrivalEffect::New(skipped) => {
                if !skipped.is_empty() {
                    self.open.push_back(skipped.clone());
                    if self.open.len() > MAX_OPEN_GAPS {
                        self.settled =
                            self.open.pop_front().map_or(self.settled, |run| self.settled.and(&run));
                    }
                }
                self.next = seq + 1;
            }
        }
        self.received += 1;
        self.latest_received = self.latest_received.saturating_add(1);
        self.delays.add(delay.0);
        self.latest.add(delay.0);
        self.jitter.push(&AcceptedPacket { seq: seq as u32, sent: 0, delay: delay.0 });
        Some(arrival)
    }

    fn late(&mut self, seq: i64) -> ArrivalEffect {
        let at = self.open.iter().position(|run| run.contains(&seq));
        let Some((k, run)) = at.and_then(|k| Some((k, self.open.remove(k)?))) else {
            return ArrivalEffect::Other;
        };
        let parts = [run.start..seq, seq + 1..run.end];
        for part in parts.into_iter().rev().filter(|part| !part.is_empty()) {
            self.open.insert(k, part);
        }
        ArrivalEffect::Late
    }

    /// Returns the distribution of delays so far, in ns.
    pub fn delays(&self) -> &LogHistogram {
        &self.delays
    }

    /// Returns the number of packets received, without duplicates.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the figures so far, without [`ReceivedSoFar::latest`] and [`ReceivedSoFar::silence`].
    pub fn figures(&self) -> ReceivedSoFar {
        let lost = self.open.iter().fold(self.settled, SettledLosses::and);
        ReceivedSoFar {
            received: self.received,
            missing: lost.packets.unsigned_abs(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            runs: lost.runs,
            longest: u32::try_from(lost.longest).unwrap_or(u32::MAX),
            silence: None,
            jitter: (self.received > 1).then(|| Span(self.jitter.jitter() as i64)),
            delays: quantiles(&self.delays, PERCENTAGES).and_then(|q| ends(&self.delays, q)),
            latest: Latest::default(),
        }
    }

    /// Returns the figures so far, including the figures of the packets since the previous call.
    pub fn take(&mut self) -> ReceivedSoFar {
        let middle = quantiles(&self.latest, [Percent(50_000), Percent(99_000)]);
        let latest = Latest {
            received: std::mem::take(&mut self.latest_received),
            delays: middle.and_then(|q| ends(&self.latest, q)),
        };
        self.latest = LogHistogram::new(self.latest.precision());
        ReceivedSoFar { latest, ..self.figures() }
    }
}

fn quantiles<const N: usize>(of: &LogHistogram, percentages: [Percent; N]) -> Option<[i64; N]> {
    let quantiles = of.quantiles();
    let mut found = [0; N];
    for (value, percentage) in found.iter_mut().zip(percentages) {
        *value = quantiles.edf(percentage)?;
    }
    Some(found)
}

/// Returns the smallest value of a distribution, the values `middle`, and the largest value; `None` if the distribution
/// is empty.
fn ends<const N: usize, const M: usize>(of: &LogHistogram, middle: [i64; N]) -> Option<[i64; M]> {
    let (low, high) = (of.min()?, of.max()?);
    let all: Vec<i64> = [low].into_iter().chain(middle.map(|x| x.clamp(low, high))).chain([high]).collect();
    all.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallTime;

    fn after(packets: impl IntoIterator<Item = (i64, i64)>) -> SoFar {
        let mut so_far = SoFar::new(Precision::STREAM);
        for (seq, delay) in packets {
            let record = PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + delay));
            so_far.push(&record, record.delay());
        }
        so_far
    }

    #[test]
    fn gaps_close_when_late_packets_come() {
        let counts = |packets: &[(i64, i64)]| {
            let f = after(packets.iter().copied()).figures();
            (f.received, f.missing, f.runs, f.longest, f.duplicates, f.reordered)
        };
        assert_eq!(counts(&[]), (0, 0, 0, 0, 0, 0));
        assert_eq!(
            counts(&[(0, 5), (3, 5), (4, 5), (9, 5), (6, 5), (0, 5), (6, 5)]),
            (5, 5, 3, 2, 2, 1),
            "two copies, one late"
        );
        assert_eq!(counts(&[(1, 5), (3, 5), (2, 5), (0, 5)]), (4, 0, 0, 0, 0, 2));
        let many: Vec<_> = (0..1000).map(|k| (k * 3, 5)).collect();
        assert_eq!(counts(&many), (1000, 1998, 999, 2, 0, 0));
    }

    #[test]
    fn the_latest_packets_are_those_since_the_last_call() {
        let mut so_far = after((0..100).map(|k| (k, 1000 + k)));
        let first = so_far.take();
        assert_eq!(first.latest, Latest { received: 100, delays: Some([1000, 1049, 1098, 1099]) });
        assert_eq!((first.fastest(), first.median(), first.p99()), (Some(1000), Some(1049), Some(1098)));
        assert_eq!(so_far.take().latest, Latest::default());
        let record = PacketRecord::one_way(100, WallTime(0), WallTime(7));
        assert_eq!(so_far.push(&record, record.delay()), Some(ArrivalEffect::New(100..100)));
        let then = so_far.take();
        assert_eq!(then.latest, Latest { received: 1, delays: Some([7; 4]) });
        assert_eq!((then.received, then.fastest(), then.loss_pct()), (101, Some(7), Some(0.0)));
    }
}
