//! The sender's own error against its schedule (metrics §22).

use serde::{Deserialize, Serialize};

/// Send time − due time − anchor, in ns; the anchor is the 1st percentile of send − due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ScheduleError {
    /// The time at which the schedule is taken to have begun, in ns since 1970.
    pub anchor_ns: i64,
    /// Earliest.
    pub min: i64,
    /// Median.
    pub median: f64,
    /// 99th percentile.
    pub p99: i64,
    /// Latest.
    pub max: i64,
    /// Packets more than half a period late.
    pub over_half_period: u64,
    /// The same of the program alone, where packets waited in the queue of this host's interface after it had handed them
    /// over. None where none did, or where nobody knows.
    pub handed_over: Option<HandedOver>,
    /// How far behind its schedule the sender fell for good. None where it kept it, and in constant memory.
    pub stretched: Option<Stretched>,
}

/// A sender that fell further behind its schedule the longer it sent: the stream took longer than it should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Stretched {
    /// Mean lateness of the last tenth of the packets beyond that of the first, in ns.
    pub late: f64,
    /// Packets a second that the sender really sent.
    pub rate: f64,
    /// Packets a second that it should have sent.
    pub asked: f64,
}

/// When the program handed packets over: send time less the time in the queue of the host's interface − due time −
/// anchor, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HandedOver {
    /// 99th percentile.
    pub p99: i64,
    /// Latest.
    pub max: i64,
    /// Packets more than half a period late.
    pub over_half_period: u64,
}

use super::classify::AcceptedPacket;
use super::series::Series;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::distribution::{LogHistogram, OrderStatistics, extremes};
use crate::schedule::Deadlines;
use crate::spec::{Schedule, TestSpec, UNKNOWN_SEED};
use std::collections::HashMap;

/// When each packet was due, as offsets from the schedule's start, for sequence numbers asked in ascending
/// order.
#[derive(Clone)]
pub enum DueTimes {
    /// One packet every so many ns.
    Every(i64),
    /// Mean time per packet in ns, and packets that are due together.
    Bursts(i64, i64),
    /// Times drawn by a generator; the next number that it draws, and the last time drawn.
    Drawn(Box<Deadlines>, u64, i64),
}

impl DueTimes {
    /// `None` if the schedule is not known, or if drawing it as far as `last` would cost far more than the `received` packets
    /// are worth.
    pub fn new(spec: &TestSpec, last: u32, received: usize) -> Option<DueTimes> {
        let period = spec.period().0;
        Some(match spec.schedule() {
            Schedule::Periodic => DueTimes::Every(period),
            Schedule::Burst { size } => DueTimes::Bursts(period, size.max(1).into()),
            Schedule::Poisson { seed: UNKNOWN_SEED } => return None,
            Schedule::Poisson { .. } | Schedule::Random { .. } if last as usize / 64 > received + 100_000 => {
                return None;
            }
            Schedule::Poisson { .. } | Schedule::Random { .. } => {
                DueTimes::Drawn(Box::new(Deadlines::new(spec)), 0, 0)
            }
        })
    }

    /// Due time of packet `seq`, in ns since the schedule's start.
    #[inline]
    pub fn at(&mut self, seq: u32) -> i64 {
        let i = i64::from(seq);
        match self {
            DueTimes::Every(period) => period.saturating_mul(i),
            DueTimes::Bursts(period, size) => period.saturating_mul(i - i % *size),
            DueTimes::Drawn(deadlines, next, due) => {
                while *next <= u64::from(seq) {
                    let Some(span) = deadlines.next() else { break };
                    (*next, *due) = (*next + 1, span.0);
                }
                *due
            }
        }
    }
}

/// The smallest and the largest send time − due time of the packets of `series`, from an origin of their own, in ns: alone,
/// as [`SendErrors::new`] finds them.
pub fn extreme_errors(series: &Series<'_>, spec: &TestSpec) -> Option<[i64; 2]> {
    let last = series.len().checked_sub(1)?;
    match DueTimes::new(spec, series.get(last).seq, series.len())? {
        DueTimes::Every(period) => extremes(series.arrivals().map(|p| off_schedule(p, period))),
        due => extremes(offsets(series, due)),
    }
}

/// Send time − due time of a packet of which one is due every `period`.
#[inline]
fn off_schedule(p: AcceptedPacket, period: i64) -> i64 {
    p.sent.saturating_sub(period.saturating_mul(p.seq.into()))
}

/// The differences of fewer packets are computed once, as they stay in a processor's cache.
const MIN_UNCACHED_PACKETS: usize = 4096;

/// Send time − due time of each packet in send order, on one anchor.
pub struct SendErrors {
    due: DueTimes,
    /// The smallest and the largest, from an origin of their own, as the next three.
    extremes: [i64; 2],
    anchor: i64,
    middle: [i64; 2],
    p99: i64,
    half_period: i64,
    over_half_period: u64,
}

impl SendErrors {
    /// Of `series`, sent by `spec`'s schedule. `None` without packets, or where a Poisson schedule
    /// cannot be drawn again (a lone packet of an enormous test).
    pub fn new(series: &Series<'_>, spec: &TestSpec) -> Option<SendErrors> {
        let last = series.len().checked_sub(1)?;
        let due = DueTimes::new(spec, series.get(last).seq, series.len())?;
        let half_period = spec.period().0 / 2;
        if let DueTimes::Every(period) = due {
            let offsets = series.arrivals().map(move |p| off_schedule(p, period));
            if series.len() < MIN_UNCACHED_PACKETS {
                let offsets: Vec<i64> = offsets.collect();
                return SendErrors::from(offsets.iter().copied(), due, half_period);
            }
            return SendErrors::from(offsets, due, half_period);
        }
        let offsets: Vec<i64> = offsets(series, due.clone()).collect();
        SendErrors::from(offsets.into_iter(), due, half_period)
    }

    /// Of these differences, in any order.
    fn from(
        offsets: impl ExactSizeIterator<Item = i64> + Clone,
        due: DueTimes,
        half_period: i64,
    ) -> Option<SendErrors> {
        let n = offsets.len();
        let extremes = extremes(offsets.clone())?;
        let percents = [Percent(1_000), Percent(50_000), Percent(99_000)];
        let order = OrderStatistics::new(offsets.clone(), n, extremes, &percents);
        let anchor = order.edf(Percent(1_000))?;
        let on_time = anchor.saturating_add(half_period);
        let is_late = |x: &i64| *x > on_time;
        let over_half_period = if is_late(&extremes[1]) { offsets.filter(is_late).count() as u64 } else { 0 };
        let (middle, p99) = (order.middle()?, order.edf(Percent(99_000))?);
        Some(SendErrors { due, extremes, anchor, middle, p99, half_period, over_half_period })
    }

    /// The smallest and the largest, from an origin of their own.
    pub fn extremes(&self) -> [i64; 2] {
        self.extremes
    }

    /// The statistics.
    pub fn figures(&self) -> ScheduleError {
        let above = |x: i64| x.saturating_sub(self.anchor);
        let [min, max] = self.extremes.map(above);
        // In integers up to the halving: the anchor is far beyond what a double resolves.
        let [low, high] = self.middle.map(|x| above(x) as f64);
        ScheduleError {
            anchor_ns: self.anchor,
            min,
            median: (low + high) / 2.0,
            p99: above(self.p99),
            max,
            over_half_period: self.over_half_period,
            handed_over: None,
            stretched: None,
        }
    }

    /// Where the sender fell further and further behind: by more than a millisecond, a period, and a thousandth of the
    /// time, as no clock's drift does. `waits` are times in the host's own queue, by sequence number.
    pub fn stretched(
        &self,
        series: &Series<'_>,
        waits: impl Iterator<Item = (u32, i64)>,
    ) -> Option<Stretched> {
        let least = (2 * self.half_period).max(MIN_DEVIATION_NS);
        let n = series.len();
        if n < PARTS * MIN_PACKETS_PER_PART || self.extremes[1].saturating_sub(self.extremes[0]) < least {
            return None;
        }
        let waits: HashMap<u32, i64> = waits.collect();
        let mut late = [0.0; PARTS];
        let mut dues = [0; 2];
        let mut due = self.due.clone();
        for (k, (p, off)) in series.iter().zip(offsets(series, self.due.clone())).enumerate() {
            let tenth = k * PARTS / n;
            let in_tenth = ((tenth + 1) * n).div_ceil(PARTS) - (tenth * n).div_ceil(PARTS);
            let wait = waits.get(&p.seq).copied().unwrap_or(0);
            late[tenth] += off.saturating_sub(self.anchor).saturating_sub(wait) as f64 / in_tenth as f64;
            if k == 0 || k == n - 1 {
                dues[usize::from(k > 0)] = due.at(p.seq);
            }
        }
        let total = late[PARTS - 1] - late[0];
        let grows = late.windows(2).all(|pair| pair[1] - pair[0] > total / 50.0);
        let [first, last] = [series.get(0), series.get(n - 1)];
        let (lasted, planned) =
            (last.sent.saturating_sub(first.sent) as f64, dues[1].saturating_sub(dues[0]) as f64);
        if !grows || total < least as f64 || total < lasted / 1000.0 || planned <= 0.0 {
            return None;
        }
        let packets = f64::from(last.seq.saturating_sub(first.seq));
        Some(Stretched { late: total, rate: packets * 1e9 / lasted, asked: packets * 1e9 / planned })
    }

    /// Of the packets of `series` without these times in the host's own queue, by sequence number; None without any.
    pub fn handed_over(
        &self,
        series: &Series<'_>,
        waits: impl Iterator<Item = (u32, i64)>,
    ) -> Option<HandedOver> {
        let waits: HashMap<u32, i64> = waits.collect();
        if waits.is_empty() {
            return None;
        }
        let without =
            |(p, late): (AcceptedPacket, i64)| late.saturating_sub(waits.get(&p.seq).copied().unwrap_or(0));
        let sample = Sample::new(series.iter().zip(offsets(series, self.due.clone())).map(without));
        let anchor = sample.edf(Percent(1_000))?;
        let on_time = anchor.saturating_add(self.half_period);
        Some(HandedOver {
            p99: sample.edf(Percent(99_000))?.saturating_sub(anchor),
            max: sample.max()?.saturating_sub(anchor),
            over_half_period: (sample.len() - sample.count_at_most(on_time)) as u64,
        })
    }

    /// The error of each packet of `series`, the same as before, in send order, in ns.
    pub fn of<'a>(&self, series: &'a Series<'a>) -> impl Iterator<Item = i64> + Clone + 'a {
        let anchor = self.anchor;
        offsets(series, self.due.clone()).map(move |x| x.saturating_sub(anchor))
    }
}

impl ScheduleError {
    /// What the program did: 99th percentile, latest, packets more than half a period late; without their stay in the
    /// host's own queue.
    pub fn of_program(&self) -> HandedOver {
        let ScheduleError { p99, max, over_half_period, .. } = *self;
        self.handed_over.unwrap_or(HandedOver { p99, max, over_half_period })
    }

    /// From a histogram of send time − due time, for packets due every `period` ns.
    pub fn approximate(offsets: &LogHistogram, period: i64) -> Option<ScheduleError> {
        let quantiles = offsets.quantiles();
        let anchor_ns = quantiles.edf(Percent(1_000))?;
        let above = |x: i64| x.saturating_sub(anchor_ns);
        let late = anchor_ns.saturating_add(period / 2);
        Some(ScheduleError {
            anchor_ns,
            min: above(offsets.min()?),
            median: above(quantiles.edf(Percent(50_000))?) as f64,
            p99: above(quantiles.edf(Percent(99_000))?),
            max: above(offsets.max()?),
            over_half_period: offsets.len() - quantiles.count_at_most(late),
            handed_over: None,
            stretched: None,
        })
    }
}

/// The sender's lateness is compared between so many parts of a test.
const PARTS: usize = 10;
/// Fewer packets in a part say nothing.
const MIN_PACKETS_PER_PART: usize = 10;
/// A schedule that is left by less is kept, in ns.
const MIN_DEVIATION_NS: i64 = 1_000_000;

fn offsets<'a>(series: &'a Series<'a>, mut due: DueTimes) -> impl Iterator<Item = i64> + Clone + 'a {
    series.iter().map(move |p| p.sent.saturating_sub(due.at(p.seq)))
}

#[cfg(test)]
mod tests {
    use super::super::series::Samples;
    use super::*;
    use crate::spec::{Direction, Transport};
    use crate::time::Span;

    fn errors(rows: &[(u32, i64)], schedule: Schedule) -> (Option<ScheduleError>, Vec<i64>) {
        let mut samples = Samples::default();
        for &(seq, sent) in rows {
            samples.push(AcceptedPacket { seq, sent, delay: 0 });
        }
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 1 << 30, 80, Span::millis(20), schedule).unwrap();
        let series = Series::new(&samples);
        match SendErrors::new(&series, &spec) {
            Some(e) => {
                let (figures, each) = (e.figures(), e.of(&series).collect::<Vec<_>>());
                let ends = [figures.min, figures.max].map(|x| figures.anchor_ns + x);
                assert_eq!(e.extremes(), ends, "before the anchor is taken off");
                assert_eq!(extreme_errors(&series, &spec), Some(ends));
                (Some(figures), each)
            }
            None => (None, Vec::new()),
        }
    }

    #[test]
    fn the_anchor_is_the_first_percentile() {
        // metrics §22, V31.
        let sent = [1000, 20_001_500, 40_000_900, 60_040_000, 80_001_000];
        let rows: Vec<(u32, i64)> = (0..).zip(sent).collect();
        let (figures, each) = errors(&rows, Schedule::Periodic);
        let f = figures.unwrap();
        assert_eq!((f.anchor_ns, each), (900, vec![100, 600, 0, 39_100, 100]));
        assert_eq!((f.min, f.median, f.max, f.over_half_period), (0, 100.0, 39_100, 0));
    }

    #[test]
    fn what_waited_in_the_hosts_own_queue_was_not_handed_over_late() {
        // One every 20 ms; the host kept the last five for 15 ms, and the program was 12 ms late for two of them.
        let late = |k: u32| if k == 97 || k == 99 { 12_000_000 } else { 0 };
        let wait = |k: u32| if k >= 95 { 15_000_000 } else { 0 };
        let mut samples = Samples::default();
        for seq in 0..100 {
            let sent = 7 + i64::from(seq) * 20_000_000 + late(seq) + wait(seq);
            samples.push(AcceptedPacket { seq, sent, delay: 0 });
        }
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 100, 80, Span::millis(20), Schedule::Periodic);
        let series = Series::new(&samples);
        let errors = SendErrors::new(&series, &spec.unwrap()).unwrap();
        let figures = errors.figures();
        assert_eq!((figures.over_half_period, figures.max), (5, 27_000_000));
        assert_eq!(figures.of_program().over_half_period, 5, "nobody knows of a queue");
        let waits: Vec<(u32, i64)> = (95..100).map(|k| (k, wait(k))).collect();
        let program = errors.handed_over(&series, waits.into_iter()).unwrap();
        assert_eq!(program, HandedOver { p99: 12_000_000, max: 12_000_000, over_half_period: 2 });
        assert_eq!(ScheduleError { handed_over: Some(program), ..figures }.of_program(), program);
        assert_eq!(errors.handed_over(&series, [].into_iter()), None);
    }

    #[test]
    fn a_sender_that_falls_behind_for_good_stretches_the_stream() {
        // One every 20 ms; what leaves is late by `late` of its number.
        let stretched = |n: u32, late: &dyn Fn(i64) -> i64, wait: &dyn Fn(i64) -> i64| {
            let mut samples = Samples::default();
            for seq in 0..n {
                let k = i64::from(seq);
                samples.push(AcceptedPacket { seq, sent: 7 + k * 20_000_000 + late(k) + wait(k), delay: 0 });
            }
            let schedule = Schedule::Periodic;
            let spec = TestSpec::new(Direction::Up, Transport::Udp, n.into(), 80, Span::millis(20), schedule);
            let series = Series::new(&samples);
            let waits = (0..n).map(|seq| (seq, wait(seq.into())));
            SendErrors::new(&series, &spec.unwrap()).unwrap().stretched(&series, waits)
        };
        // 25 ms instead of 20: 40 packets a second.
        let found = stretched(1000, &|k| k * 5_000_000, &|_| 0).unwrap();
        assert_eq!((found.rate, found.asked), (40.0, 50.0));
        assert!((found.late - 900.0 * 5e6).abs() < 1.0, "{found:?}");
        assert_eq!(stretched(99, &|k| k * 5_000_000, &|_| 0), None, "too few to tell");
        assert_eq!(stretched(1000, &|k| k * 15_000, &|_| 0), None, "a clock may be 0.075 % off");
        assert!(stretched(1000, &|k| k * 25_000, &|_| 0).is_some(), "0.125 %");
        assert_eq!(
            stretched(1000, &|_| 0, &|k| k * 5_000_000),
            None,
            "the host's own queue is another figure"
        );
        // A stall of 5 s is caught up with, wherever it is.
        for from in [0, 350, 700, 750] {
            let stall = |k: i64| if k < from { 0 } else { ((from + 250 - k) * 20_000_000).max(0) };
            assert_eq!(stretched(1000, &stall, &|_| 0), None, "from {from}");
        }
    }

    #[test]
    fn other_schedules_are_judged_by_their_own_deadlines() {
        let burst = [(0, 7), (1, 8), (2, 40_000_007), (3, 40_000_009)];
        assert_eq!(errors(&burst, Schedule::Burst { size: 2 }).1, [0, 1, 0, 2]);
        let schedule = Schedule::Poisson { seed: 3 };
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 100, 80, Span::millis(20), schedule).unwrap();
        let due: Vec<(u32, i64)> =
            (0..).zip(Deadlines::new(&spec)).map(|(seq, at)| (seq, 5 + at.0)).step_by(3).collect();
        assert!(errors(&due, schedule).1.iter().all(|e| *e == 0));
        // A lone packet far into an enormous schedule is not worth drawing it.
        assert_eq!(errors(&[(1 << 29, 0)], schedule).0, None);
        assert_eq!(errors(&[], Schedule::Periodic).0, None);
    }

    #[test]
    fn a_histogram_gives_the_same() {
        // 200 packets: 2 early ones, whose second is the 1st percentile, and 3 late ones about half a period of 20 ms.
        let offset = |k: i64| match k {
            0 => 1_000_000,
            1 => 1_000_100,
            197 => 11_000_100,
            198 => 11_000_101,
            199 => 31_000_000,
            _ => 1_000_200 + k,
        };
        let mut histogram = LogHistogram::new(crate::distribution::Precision::STREAM);
        (0..200).for_each(|k| histogram.add(offset(k)));
        let found = ScheduleError::approximate(&histogram, 20_000_000).unwrap();
        let expected = ScheduleError {
            anchor_ns: 1_000_100,
            min: -100,
            median: 199.0,
            p99: 10_000_000,
            max: 29_999_900,
            over_half_period: 2,
            handed_over: None,
            stretched: None,
        };
        assert_eq!(found, expected);
        let rows: Vec<(u32, i64)> =
            (0..200).map(|k| (k, i64::from(k) * 20_000_000 + offset(k.into()))).collect();
        let (exact, _) = errors(&rows, Schedule::Periodic);
        assert_eq!(exact, Some(ScheduleError { median: 199.5, ..expected }));
        let none = LogHistogram::new(crate::distribution::Precision::STREAM);
        assert_eq!(ScheduleError::approximate(&none, 20_000_000), None);
    }
}
