//! [`SoFar`]: what a receiver knows of a stream that still runs, in constant memory; [`ReceivedSoFar`]: the same as
//! figures, which a far receiver can send in one small message.

use crate::distribution::{LogHistogram, Precision};
use crate::metrics::classify::AcceptedPacket;
use crate::metrics::one_pass::OnePass;
use crate::metrics::rfc3550::JitterEstimator;
use crate::record::PacketRecord;
use crate::summary::Percent;
use crate::time::Span;
use std::collections::VecDeque;
use std::ops::Range;

/// The percentages of [`ReceivedSoFar::delays`], between the smallest and the largest delay.
pub const PERCENTAGES: [Percent; 6] =
    [Percent(10_000), Percent(25_000), Percent(50_000), Percent(75_000), Percent(90_000), Percent(99_000)];

/// What a receiver knows of a stream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedSoFar {
    /// Packets received, each once.
    pub received: u64,
    /// Packets missing below the highest number received; some may still arrive.
    pub missing: u64,
    /// Further copies of packets.
    pub duplicates: u64,
    /// Packets that arrived after one with a higher number.
    pub reordered: u64,
    /// Runs of missing packets, and the length of the longest.
    pub runs: u32,
    /// The length of the longest run of missing packets.
    pub longest: u32,
    /// Time since the last arrival; `None` before the first.
    pub silence: Option<Span>,
    /// Inter-arrival jitter of RFC 3550; `None` before the second packet.
    pub jitter: Option<Span>,
    /// Delays, raw, in ns: the smallest, those at [`PERCENTAGES`], the largest; `None` before the first packet.
    pub delays: Option<[i64; PERCENTAGES.len() + 2]>,
    /// The packets since the message before.
    pub latest: Latest,
}

/// The packets of the latest while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// Received, each once.
    pub received: u32,
    /// Delays, raw, in ns: smallest, median, 99th percentile, largest; `None` if none was received.
    pub delays: Option<[i64; 4]>,
}

impl ReceivedSoFar {
    /// The smallest delay, ns.
    pub fn fastest(&self) -> Option<i64> {
        self.delays.map(|delays| delays[0])
    }

    /// The median delay, ns.
    pub fn median(&self) -> Option<i64> {
        self.delays.map(|delays| delays[3])
    }

    /// The delay that 99 % of the packets did not exceed, ns.
    pub fn p99(&self) -> Option<i64> {
        self.delays.map(|delays| delays[PERCENTAGES.len()])
    }

    /// Packets missing of those sent as far as is known, in per cent; `None` before the first packet.
    pub fn loss_pct(&self) -> Option<f64> {
        let all = self.received + self.missing;
        (all > 0).then(|| 100.0 * self.missing as f64 / all as f64)
    }
}

/// How an arrival changed what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrivalEffect {
    /// A packet with the highest number so far; the numbers skipped before it, which are missing now.
    New(Range<i64>),
    /// A packet that was missing until now.
    Late,
    /// A further copy, or one so late that it is counted as missing to the end.
    Other,
}

/// Collects what is known of a stream while it runs, from the records of its receiver.
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
    /// The latest gaps in the sequence numbers: a late packet may still shorten or split them.
    open: VecDeque<Range<i64>>,
    settled: SettledLosses,
}

/// Runs of loss that can no longer change.
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

/// Gaps kept open; a packet that is later than this counts as missing until the end of the test.
const MAX_OPEN_GAPS: usize = 64;

impl SoFar {
    /// Without packets; percentiles have this precision.
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

    /// Adds the next packet that arrived, with its one-way or round-trip delay. `None` if it is damaged or has no delay.
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

    /// The distribution of the delays so far, in ns.
    pub fn delays(&self) -> &LogHistogram {
        &self.delays
    }

    /// Packets received, each once.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The figures so far; [`ReceivedSoFar::latest`] and [`ReceivedSoFar::silence`] are left out.
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

    /// The figures so far, with those of the packets since the last call.
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

/// `middle` between the smallest and the largest value of a distribution.
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
