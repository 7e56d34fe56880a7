//! Error of the sender against its schedule (metrics §22).

use serde::{Deserialize, Serialize};

/// Error of the sender, in ns: send time − due time − anchor. The anchor is the 1st percentile of send time − due time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ScheduleError {
    /// Assumed start of the schedule, in ns since 1970.
    pub anchor_ns: i64,
    /// Smallest error: that of the packet that was earliest relative to its due time.
    pub min: i64,
    /// Median error.
    pub median: f64,
    /// 99th percentile of the error.
    pub p99: i64,
    /// Largest error: that of the packet that was latest relative to its due time.
    pub max: i64,
    /// Number of packets more than half a period late.
    pub over_half_period: u64,
    /// Error of the program alone, without the time that packets waited in the queue of this host's interface. `None`
    /// if no packet waited, or if the times are unknown.
    pub handed_over: Option<HandedOver>,
    /// Lag behind the schedule that grew during the test. `None` if the lag did not grow, or after an analysis in
    /// constant memory.
    pub stretched: Option<Stretched>,
}

/// Lag of a sender that fell steadily behind its schedule, so that the stream took longer than planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Stretched {
    /// Mean lateness of the last tenth of the packets minus the mean lateness of the first tenth, in ns.
    pub late: f64,
    /// Packets sent per second.
    pub rate: f64,
    /// Packets per second required by the schedule.
    pub asked: f64,
}

/// Error of the sender at the time at which the program handed packets over: send time − time in the queue of the
/// host's interface − due time − anchor, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HandedOver {
    /// 99th percentile of the error.
    pub p99: i64,
    /// Largest error: that of the packet that was latest relative to its due time.
    pub max: i64,
    /// Number of packets more than half a period late.
    pub over_half_period: u64,
}

use super::classify::AcceptedPacket;
use super::series::Series;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::distribution::{LogHistogram, OrderStatistics, extremes};
use crate::schedule::Deadlines;
use crate::session::Session;
use crate::spec::{Schedule, TestSpec, UNKNOWN_SEED};
use crate::twoway::ScheduleShift;
use std::collections::HashMap;

/// Due times of packets, as offsets from the start of the schedule. They must be queried in ascending order of sequence
/// numbers.
#[derive(Clone)]
pub enum DueTimes {
    /// Constant interval between packets, in ns.
    Every(i64),
    /// Mean time per packet in ns, and number of packets per burst, all due at the same time.
    Bursts(i64, i64),
    /// Times drawn by a generator: the generator, the index of the next packet, and the last time drawn.
    Drawn(Box<Deadlines>, u64, i64),
    /// Times of a schedule that was shifted during the test.
    Shifted(Box<ShiftedTimes>),
}

/// Due times of a schedule that was shifted during the test.
#[derive(Clone)]
pub struct ShiftedTimes {
    planned: DueTimes,
    shifts: Vec<ScheduleShift>,
    next: usize,
    /// Sum of the shifts before `next`, in ns.
    by: i64,
}

impl DueTimes {
    /// Creates the due times; `None` if the schedule is unknown, or if drawing it up to packet `last` would take far
    /// too long for `received` packets.
    pub fn new(session: &Session, last: u32, received: usize) -> Option<DueTimes> {
        let planned = DueTimes::planned(&session.spec, last, received)?;
        let shifts = &session.schedule_shifts;
        if shifts.is_empty() {
            return Some(planned);
        }
        Some(DueTimes::Shifted(Box::new(ShiftedTimes { planned, shifts: shifts.to_vec(), next: 0, by: 0 })))
    }

    /// Creates the due times of the original schedule, without shifts; `None` in the same cases as [`DueTimes::new`].
    pub fn planned(spec: &TestSpec, last: u32, received: usize) -> Option<DueTimes> {
        let period = spec.period().0;
        Some(match spec.schedule() {
            Schedule::Periodic => DueTimes::Every(period),
            Schedule::Burst { size } => DueTimes::Bursts(period, size.max(1).into()),
            Schedule::Poisson { seed: UNKNOWN_SEED } => return None,
            // Due times are drawn one after the other; a corrupt sequence number must not cause billions of draws.
            Schedule::Poisson { .. } | Schedule::Random { .. } if last as usize / 64 > received + 100_000 => {
                return None;
            }
            Schedule::Poisson { .. } | Schedule::Random { .. } => {
                DueTimes::Drawn(Box::new(Deadlines::new(spec)), 0, 0)
            }
        })
    }

    /// Returns the due time of packet `seq`, in ns since the start of the schedule.
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
            DueTimes::Shifted(times) => {
                while let Some(shift) = times.shifts.get(times.next).filter(|shift| shift.seq <= seq) {
                    times.by = times.by.saturating_add(shift.by.0);
                    times.next += 1;
                }
                times.planned.at(seq).saturating_add(times.by)
            }
        }
    }
}

/// Returns the smallest and the largest send time − due time of the packets of `series`, in ns, with an arbitrary zero:
/// the same values as [`SendErrors::new`] for a schedule that was not shifted. `None` without packets, or if the due
/// times are unknown.
pub fn extreme_errors(series: &Series<'_>, spec: &TestSpec) -> Option<[i64; 2]> {
    let last = series.len().checked_sub(1)?;
    match DueTimes::planned(spec, series.get(last).seq, series.len())? {
        DueTimes::Every(period) => extremes(series.arrivals().map(|p| off_schedule(p, period))),
        due => extremes(offsets(series, due)),
    }
}

/// Returns the send time minus the due time of a packet in a periodic schedule, in ns.
#[inline]
fn off_schedule(p: AcceptedPacket, period: i64) -> i64 {
    p.sent.saturating_sub(period.saturating_mul(p.seq.into()))
}

/// Minimum number of packets for which differences are recomputed instead of cached; fewer fit into a processor's
/// cache.
const MIN_UNCACHED_PACKETS: usize = 4096;

/// Send time minus due time of each packet in send order, relative to one anchor.
pub struct SendErrors {
    due: DueTimes,
    /// Smallest and largest difference, relative to an arbitrary zero, which the next three fields share.
    extremes: [i64; 2],
    anchor: i64,
    middle: [i64; 2],
    p99: i64,
    half_period: i64,
    over_half_period: u64,
}

impl SendErrors {
    /// Computes the errors of `series` against the schedule of `session`. `None` without packets, or if the due times
    /// are unknown (see [`DueTimes::new`]).
    pub fn new(series: &Series<'_>, session: &Session) -> Option<SendErrors> {
        let last = series.len().checked_sub(1)?;
        let due = DueTimes::new(session, series.get(last).seq, series.len())?;
        SendErrors::against(due, series, &session.spec)
    }

    /// Computes the errors against the original schedule, without shifts; otherwise like [`new`](Self::new).
    pub fn planned(series: &Series<'_>, spec: &TestSpec) -> Option<SendErrors> {
        let last = series.len().checked_sub(1)?;
        SendErrors::against(DueTimes::planned(spec, series.get(last).seq, series.len())?, series, spec)
    }

    fn against(due: DueTimes, series: &Series<'_>, spec: &TestSpec) -> Option<SendErrors> {
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

    /// Computes the errors from differences, which may be in any order.
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

    /// Returns the smallest and the largest difference, with an arbitrary zero.
    pub fn extremes(&self) -> [i64; 2] {
        self.extremes
    }

    /// Returns the statistics.
    pub fn figures(&self) -> ScheduleError {
        let above = |x: i64| x.saturating_sub(self.anchor);
        let [min, max] = self.extremes.map(above);
        // Subtract as integers first: an anchor in ns since 1970 exceeds the precision of a double.
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

    /// Returns the lag by which the sender fell steadily behind; `None` unless it is more than a millisecond,
    /// a period, and a thousandth of the duration. The last condition excludes clock drift. `waits` are times
    /// in the host's own queue, by sequence number.
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

    /// Returns the errors of the program: the errors minus `waits`, the times in the host's own queue by sequence
    /// number. `None` if `waits` is empty.
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

    /// Returns the error of each packet of `series`, in send order, in ns. The series must be the one given to
    /// [`SendErrors::new`].
    pub fn of<'a>(&self, series: &'a Series<'a>) -> impl Iterator<Item = i64> + Clone + 'a {
        let anchor = self.anchor;
        offsets(series, self.due.clone()).map(move |x| x.saturating_sub(anchor))
    }
}

impl ScheduleError {
    /// Returns the errors of the program alone, without the time in the host's own queue.
    pub fn of_program(&self) -> HandedOver {
        let ScheduleError { p99, max, over_half_period, .. } = *self;
        self.handed_over.unwrap_or(HandedOver { p99, max, over_half_period })
    }

    /// Computes the statistics from a histogram of send time − due time, for packets due every `period` ns; `None` if
    /// the histogram is empty.
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

/// Number of parts of a test in which the sender's lateness is compared.
const PARTS: usize = 10;
/// Minimum number of packets in a part.
const MIN_PACKETS_PER_PART: usize = 10;
/// Minimum deviation from the schedule that is reported, in ns.
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
        let session = Session::new(spec);
        match SendErrors::new(&series, &session) {
            Some(e) => {
                let (figures, each) = (e.figures(), e.of(&series).collect::<Vec<_>>());
                let ends = [figures.min, figures.max].map(|x| figures.anchor_ns + x);
                assert_eq!(e.extremes(), ends, "before the anchor is taken off");
                assert_eq!(extreme_errors(&series, &session.spec), Some(ends));
                (Some(figures), each)
            }
            None => (None, Vec::new()),
        }
    }

    #[test]
    fn a_rate_that_is_not_kept_is_reported_although_the_schedule_was_moved() {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 1000, 80, Span::millis(1), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        // One packet every 2 ms instead of 1 ms: the schedule is moved whenever the sender is 6 ms behind.
        let shift = |k: u32| ScheduleShift { seq: 6 * k, by: Span::millis(6) };
        session.schedule_shifts = (1..160).map(shift).collect();
        let records = (0..1000).map(|seq| {
            let sent = crate::WallTime(2_000_000 * seq);
            crate::PacketRecord::one_way(seq, sent, sent + Span::millis(1))
        });
        let found = crate::analyze(&session, records, &crate::Options::default()).schedule_error.unwrap();
        assert!(found.max < 50_000_000, "{found:?}");
        let stretched = found.stretched.unwrap();
        assert!(
            (stretched.rate - 500.0).abs() < 1.0 && (stretched.asked - 1000.0).abs() < 1.0,
            "{stretched:?}"
        );
    }

    #[test]
    fn a_moved_schedule_is_followed() {
        let mut samples = Samples::default();
        // Three requests on time, a stall of 400 ms, and three that follow at the same distances.
        for (seq, sent) in [(0, 0), (1, 20), (2, 40), (3, 460), (4, 480), (5, 500)] {
            samples.push(AcceptedPacket { seq, sent: sent * 1_000_000, delay: 0 });
        }
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 6, 80, Span::millis(20), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        let series = Series::new(&samples);
        assert_eq!(SendErrors::new(&series, &session).unwrap().figures().max, 400_000_000);
        let shifts = vec![ScheduleShift { seq: 3, by: Span::millis(400) }];
        session.schedule_shifts = shifts;
        let errors = SendErrors::new(&series, &session).unwrap();
        assert_eq!((errors.figures().max, errors.figures().over_half_period), (0, 0));
        assert_eq!(SendErrors::planned(&series, &session.spec).unwrap().figures().max, 400_000_000);
        assert_eq!(
            extreme_errors(&series, &session.spec),
            Some([0, 400_000_000]),
            "by the schedule as planned"
        );
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
        // One packet every 20 ms. The host delayed the last five for 15 ms, and the program was 12 ms late
        // for two of them.
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
        let errors = SendErrors::new(&series, &Session::new(spec.unwrap())).unwrap();
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
        // One packet every 20 ms; packet k leaves late by `late(k)`.
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
            SendErrors::new(&series, &Session::new(spec.unwrap())).unwrap().stretched(&series, waits)
        };
        // 25 ms instead of 20: 40 packets per second.
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
        // The sender catches up after a stall of 5 s, wherever it is.
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
        // A single packet far into an enormous schedule is not worth drawing the schedule.
        assert_eq!(errors(&[(1 << 29, 0)], schedule).0, None);
        assert_eq!(errors(&[], Schedule::Periodic).0, None);
    }

    #[test]
    fn a_histogram_gives_the_same() {
        // 200 packets: 2 early ones, the second of which is the 1st percentile, and 3 late by about half a
        // period of 20 ms.
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
