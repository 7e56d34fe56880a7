//! [`Trace`]: data of single packets for figures, in constant size.
//!
//! It receives accepted packets in arrival order, during the analysis or afterwards, and takes about 10 MB for any number of
//! packets.

use super::grid::PointGrid;
use jitlat_core::analysis::Samples;
use jitlat_core::answer::JitterWithoutStep;
use jitlat_core::session::Session;
use jitlat_core::spec::Schedule;
use std::collections::BTreeMap;

/// Maximum number of packets that are drawn as single points.
pub const MAX_SINGLE_POINTS: usize = 4000;
/// Number of columns of cells in the grids.
const COLUMNS: usize = 512;
const ROWS: usize = 2048;
/// Maximum number of cells of a distribution.
const MAX_CELLS: usize = 1 << 16;
/// Number of recent delays stored to compare packets with consecutive sequence numbers.
const NEIGHBOUR_WINDOW: usize = 4096;
/// Number of bins of sequence numbers for which losses are shown.
const LOSS_BINS: usize = 2048;

/// Points that are always counted in cells, and also stored individually while there are few.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// The counts in cells.
    pub grid: PointGrid,
    /// The points; `None` if there are too many.
    pub points: Option<Vec<(i64, i64)>>,
}

impl Cloud {
    pub(super) fn new(x_range: i64) -> Cloud {
        Cloud { grid: PointGrid::new(COLUMNS, ROWS, x_range), points: Some(Vec::new()) }
    }

    #[inline]
    pub(super) fn add(&mut self, x: i64, y: i64) {
        self.grid.add(x, y);
        if let Some(points) = &mut self.points {
            points.push((x, y));
            if points.len() > MAX_SINGLE_POINTS {
                self.points = None;
            }
        }
    }
}

/// The delays of one stream over time, and their distributions.
#[derive(Clone, Debug)]
pub struct Trace {
    period: i64,
    periodic: bool,
    start: Option<Start>,
    earliest_sent: i64,
    /// Delay over arrival time since the first arrival.
    pub delay: Cloud,
    /// The same without steps of clocks, with its range; `None` if no clock was set.
    pub stepless: Option<(Cloud, [i64; 2])>,
    /// Schedule error over send time since the first packet. The error is send time − sequence number × period
    /// − [`Trace::schedule_base`].
    pub schedule: Cloud,
    /// Time in the queue of the sending host's interface, if at least a millisecond, over send time since the first
    /// packet.
    pub queue: Cloud,
    /// Delays alone, in finer cells; the horizontal axis is unused.
    pub delays: PointGrid,
    /// Schedule errors alone, in finer cells; the horizontal axis is unused.
    pub lateness: PointGrid,
    /// Delay variation of consecutive packets.
    pub ipdv: PointGrid,
    recent: Vec<Option<(u32, i64)>>,
    arrivals: Arrivals,
    n: u64,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    sent: i64,
    arrived: i64,
    schedule: i64,
}

impl Trace {
    /// Creates an empty trace for the stream of `session`.
    pub fn new(session: &Session) -> Trace {
        let period = session.period().unwrap_or_default();
        let expected = period.times(session.packets().try_into().unwrap_or(i64::MAX)).0;
        Trace {
            period: period.0,
            periodic: session.spec.schedule() == Schedule::Periodic && session.period().is_some(),
            start: None,
            earliest_sent: i64::MAX,
            delay: Cloud::new(expected),
            stepless: None,
            schedule: Cloud::new(expected),
            queue: Cloud::new(expected),
            delays: PointGrid::new(2, MAX_CELLS, 1),
            lateness: PointGrid::new(2, MAX_CELLS, 1),
            ipdv: PointGrid::new(2, MAX_CELLS, 1),
            recent: vec![None; NEIGHBOUR_WINDOW],
            arrivals: Arrivals::default(),
            n: 0,
        }
    }

    /// Creates the trace of packets that are already analysed.
    pub fn of(session: &Session, samples: &Samples) -> Trace {
        let mut trace = Trace::new(session);
        let queued: BTreeMap<u32, i64> = samples.queued.iter().copied().collect();
        for ((seq, sent), delay) in samples.seq.iter().zip(&samples.sent).zip(&samples.delay) {
            trace.accept(*seq, *sent, *delay);
            if let (Some(time), Some(start)) = (queued.get(seq), trace.start) {
                trace.queue.add(sent.saturating_sub(start.sent), *time);
            }
        }
        samples.delayless.iter().for_each(|seq| trace.arrivals.stretch(*seq).delayless += 1);
        trace
    }

    /// Adds the delays without the steps of clocks in `without`; `samples` are those of the trace.
    #[must_use]
    pub fn without_steps(mut self, samples: &Samples, without: Option<&JitterWithoutStep>) -> Trace {
        let known = without.filter(|without| !without.shifts.is_empty());
        let Some((without, start)) = known.zip(self.start) else { return self };
        let delays = without.without_steps(&samples.seq, &samples.delay);
        let mut cloud = Cloud::new(self.period.saturating_mul(self.n as i64));
        for ((sent, raw), delay) in samples.sent.iter().zip(&samples.delay).zip(&delays) {
            let arrived = sent.saturating_add(*raw);
            cloud.add(arrived.saturating_sub(start.arrived), *delay);
        }
        let range = delays.iter().min().zip(delays.iter().max());
        self.stepless = range.map(|(low, high)| (cloud, [*low, *high]));
        self
    }

    /// Adds the next accepted packet, in arrival order: its number, send time and raw delay in ns.
    pub fn accept(&mut self, seq: u32, sent: i64, delay: i64) {
        let arrived = sent.saturating_add(delay);
        let due = i64::from(seq).saturating_mul(self.period);
        let schedule = sent.saturating_sub(due);
        let start = *self.start.get_or_insert(Start { sent, arrived, schedule });
        let x = arrived.saturating_sub(start.arrived);
        self.n += 1;
        self.earliest_sent = self.earliest_sent.min(sent);
        self.delay.add(x, delay);
        self.delays.add(0, delay);
        if self.periodic {
            let late = schedule.saturating_sub(start.schedule);
            self.schedule.add(sent.saturating_sub(start.sent), late);
            self.lateness.add(0, late);
        }
        self.vary(seq, delay);
        self.arrivals.add(seq, x);
    }

    fn vary(&mut self, seq: u32, delay: i64) {
        let at = |seq: u32| seq as usize % NEIGHBOUR_WINDOW;
        let before = seq.checked_sub(1).and_then(|s| self.recent[at(s)].filter(|r| r.0 == s));
        let after = self.recent[at(seq.wrapping_add(1))].filter(|r| seq.checked_add(1) == Some(r.0));
        if let Some((_, earlier)) = before {
            self.ipdv.add(0, delay.saturating_sub(earlier));
        }
        if let Some((_, later)) = after {
            self.ipdv.add(0, later.saturating_sub(delay));
        }
        self.recent[at(seq)] = Some((seq, delay));
    }

    /// Number of packets.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// True if the stream is periodic and therefore has a schedule error.
    pub fn periodic(&self) -> bool {
        self.periodic
    }

    /// Zero of the vertical axis of [`Trace::schedule`], in ns since 1970. Subtract it from the anchor of the
    /// analysis to compare the two. `None` without packets.
    pub fn schedule_base(&self) -> Option<i64> {
        self.start.map(|s| s.schedule)
    }

    /// Zero of the horizontal axis of [`Trace::delay`]: arrival time of the first packet, in ns since 1970.
    /// `None` without packets.
    pub fn start(&self) -> Option<i64> {
        self.start.map(|s| s.arrived)
    }

    /// Send time of the first packet that arrived, in ns since 1970. `None` without packets.
    pub fn first_sent(&self) -> Option<i64> {
        self.start.map(|s| s.sent)
    }

    /// Returns the arrival time, on the axis of [`Trace::delay`], of a packet that was sent `since` ns after the
    /// earliest one and took `delay` ns. `None` without packets.
    pub fn arrival_of(&self, since: f64, delay: f64) -> Option<f64> {
        let start = self.start?;
        Some(since + delay + self.earliest_sent.saturating_sub(start.arrived) as f64)
    }

    /// Returns the intervals in which packets are missing among the first `sent` packets: start and end on the axis of
    /// [`Trace::delay`], and the share lost. A lost packet is placed at its expected arrival, estimated from the
    /// packets around it.
    pub fn losses(&self, sent: u64) -> Vec<(f64, f64, f64)> {
        self.arrivals.losses(sent, self.period as f64)
    }
}

/// Accepted packets counted in equal bins of sequence numbers, with their mean arrival time.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    shift: u32,
    stretches: Vec<TraceCell>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TraceCell {
    n: u64,
    /// Number of received packets whose delay is unknown.
    delayless: u64,
    seq: f64,
    x: f64,
}

impl Arrivals {
    /// Returns the bin that contains packet `seq`.
    fn stretch(&mut self, seq: u32) -> &mut TraceCell {
        while (seq >> self.shift) as usize >= LOSS_BINS {
            self.stretches = self.stretches.chunks(2).map(|pair| pair.iter().copied().sum()).collect();
            self.shift += 1;
        }
        let k = (seq >> self.shift) as usize;
        if k >= self.stretches.len() {
            self.stretches.resize(k + 1, TraceCell::default());
        }
        &mut self.stretches[k]
    }

    fn add(&mut self, seq: u32, x: i64) {
        let s = self.stretch(seq);
        *s = [*s, TraceCell { n: 1, delayless: 0, seq: f64::from(seq), x: x as f64 }].into_iter().sum();
    }

    fn losses(&self, sent: u64, period: f64) -> Vec<(f64, f64, f64)> {
        let known: Vec<(f64, f64)> = self
            .stretches
            .iter()
            .filter(|s| s.n > 0)
            .map(|s| (s.seq / s.n as f64, s.x / s.n as f64))
            .collect();
        let size = 1u64 << self.shift;
        let mut losses: Vec<(f64, f64, f64)> = Vec::new();
        let mut missing = |first: u64, end: u64, here: u64| {
            let lost = end.saturating_sub(first).saturating_sub(here);
            if lost == 0 {
                return;
            }
            let share = lost as f64 / (end - first) as f64;
            let from = expected(&known, first as f64 - 0.5, period);
            let to = expected(&known, end as f64 - 0.5, period);
            match losses.last_mut() {
                Some(last) if last.1 == from && last.2 == share => last.1 = to,
                _ => losses.push((from, to, share)),
            }
        };
        let mut first = 0;
        for stretch in &self.stretches {
            let end = (first + size).min(sent);
            missing(first, end, stretch.n + stretch.delayless);
            first = end;
        }
        missing(first, sent, 0);
        losses
    }
}

impl std::iter::Sum for TraceCell {
    fn sum<I: Iterator<Item = TraceCell>>(parts: I) -> TraceCell {
        parts.fold(TraceCell::default(), |a, b| TraceCell {
            n: a.n + b.n,
            delayless: a.delayless + b.delayless,
            seq: a.seq + b.seq,
            x: a.x + b.x,
        })
    }
}

/// Expected arrival of packet `seq`, interpolated between its neighbours in `known`, or extrapolated by the period beyond
/// the ends.
fn expected(known: &[(f64, f64)], seq: f64, period: f64) -> f64 {
    let after = known.partition_point(|(s, _)| *s < seq);
    match (after.checked_sub(1).map(|i| known[i]), known.get(after)) {
        (Some((s0, x0)), Some((s1, x1))) => x0 + (x1 - x0) * (seq - s0) / (s1 - s0),
        (Some((s, x)), None) | (None, Some(&(s, x))) => x + (seq - s) * period,
        (None, None) => seq * period,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::spec::{Direction, TestSpec, Transport};
    use jitlat_core::time::Span;

    fn session(n: u64) -> Session {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, n, 80, Span(1000), Schedule::Periodic).unwrap();
        Session::new(spec)
    }

    #[test]
    fn losses_are_marked_where_they_happened() {
        let mut trace = Trace::new(&session(10));
        for seq in [0, 1, 2, 5, 4, 8] {
            trace.accept(seq, i64::from(seq) * 1000, 50);
        }
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let losses = trace.losses(10);
        assert_eq!(losses.len(), 3, "{losses:?}");
        for (loss, (from, to)) in losses.iter().zip([(2500.0, 3500.0), (5500.0, 7500.0), (8500.0, 9500.0)]) {
            assert!(near(loss.0, from) && near(loss.1, to) && loss.2 == 1.0, "{loss:?}");
        }
    }

    #[test]
    fn a_long_stream_keeps_every_loss_in_its_share() {
        let mut trace = Trace::new(&session(100_000));
        for seq in (0..100_000).filter(|s| s % 50 != 0) {
            trace.accept(seq, i64::from(seq) * 1000, 50);
        }
        let lost: f64 =
            trace.losses(100_000).iter().map(|(from, to, share)| (to - from) / 1000.0 * share).sum();
        assert!((lost - 2000.0).abs() < 20.0, "{lost}");
    }

    #[test]
    fn delay_variation_follows_sequence_numbers_not_arrival() {
        let mut trace = Trace::new(&session(10));
        for (seq, delay) in [(0, 100), (2, 90), (1, 130), (4, 70)] {
            trace.accept(seq, i64::from(seq) * 1000, delay);
        }
        let (start, width, counts) = trace.ipdv.marginal();
        assert_eq!(width, 1.0);
        let values: Vec<f64> =
            counts.iter().enumerate().filter(|c| *c.1 > 0).map(|c| start + c.0 as f64).collect();
        assert_eq!(values, [-40.0, 30.0], "130 − 100 and 90 − 130; 3 is lost");
    }

    #[test]
    fn few_points_are_kept_and_many_only_counted() {
        let mut trace = Trace::new(&session(1 << 20));
        for seq in 0..=MAX_SINGLE_POINTS as u32 {
            assert!(trace.delay.points.is_some());
            trace.accept(seq, i64::from(seq) * 1000, 7);
        }
        assert!(trace.delay.points.is_none());
        assert_eq!(trace.delay.grid.n(), trace.n());
    }
}
