//! [`Timeline`]: delay and loss over time.

use crate::text::plots::PlotCanvas;
use jitlat_core::analysis::Samples;
use jitlat_core::answer::JitterWithoutStep;
use jitlat_passive::{CaptureEvent, CaptureObserver};

/// Maximum number of slots.
const MAX_SLOTS: usize = 1024;
/// Maximum number of parts into which a loss burst is divided, so that it is distributed over its duration.
const PARTS_PER_RUN: u64 = 2048;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TimelineSlot {
    largest: Option<i64>,
    lost: u64,
}

/// Largest delay and number of lost packets in each of at most 1024 equally long slots of a test.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Start of the first slot, in ns; `None` before the first packet.
    origin: Option<i64>,
    /// Length of a slot, in ns.
    width: i128,
    slots: Vec<TimelineSlot>,
    /// Number of packets.
    packets: u64,
    /// Smallest and largest delay, in ns; `None` if nothing arrived.
    range: Option<[i64; 2]>,
    /// Value subtracted from delays when they are printed, in ns.
    shift: i64,
    /// True if only the difference of each delay from the smallest is known.
    relative: bool,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            origin: None,
            width: 1000,
            slots: Vec::new(),
            packets: 0,
            range: None,
            shift: 0,
            relative: false,
        }
    }
}

/// Builds the timeline of the round trips of captured pairs.
impl CaptureObserver for Timeline {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        if let CaptureEvent::Pairs(pairs) = event {
            pairs.iter().for_each(|e| self.add(e.pair.middle().0, e.pair.rtt().0));
        }
    }
}

/// A timeline as characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// Curve of the largest delay per column; a space if nothing arrived.
    pub delay: String,
    /// Marks below columns with losses: `.` one, `x` several, `X` ten or more. Empty without losses.
    pub lost: String,
}

impl Timeline {
    /// Creates the timeline of `samples`, for `packets` packets sent every `period` ns; the period is used
    /// where samples are missing. Lost packets are placed between those that arrived. Packets that arrived, but
    /// have no delay, do not count as lost. The delays are drawn without the steps of clocks in `without`.
    pub fn of(samples: &Samples, packets: u64, period: i64, without: Option<&JitterWithoutStep>) -> Timeline {
        let mut course = Timeline::default();
        let stepless = without.map(|without| without.without_steps(&samples.seq, &samples.delay));
        let delays = stepless.as_deref().unwrap_or(&samples.delay);
        let mut order: Vec<u32> = (0..samples.len() as u32).collect();
        order.sort_unstable_by_key(|k| samples.seq[*k as usize]);
        let at = |k: &u32| (u64::from(samples.seq[*k as usize]), i128::from(samples.sent[*k as usize]));
        let (Some((first, start)), Some((last, end))) = (order.first().map(at), order.last().map(at)) else {
            return course;
        };
        let period = match i128::from(last - first) {
            0 => i128::from(period),
            distance => (end - start) / distance,
        };
        let period = period.max(0);
        let mut delayless = &samples.delayless[..];
        // Returns the number of packets that arrived before `seq`, have no delay, and have not been counted
        // yet.
        let mut arrived_below = |seq: u64| {
            let (below, rest) = delayless.split_at(delayless.partition_point(|k| u64::from(*k) < seq));
            delayless = rest;
            below.len() as u64
        };
        let mut due = (0, start - period * i128::from(first));
        for k in &order {
            let (seq, sent) = at(k);
            let missing = seq.saturating_sub(due.0);
            course.lose([due.1, sent], missing.saturating_sub(arrived_below(seq)));
            course.add(clamp(sent), delays[*k as usize]);
            due = (seq + 1, sent + period);
        }
        let missing = packets.saturating_sub(due.0);
        let lost = missing.saturating_sub(arrived_below(packets));
        course.lose([due.1, due.1 + period * i128::from(missing)], lost);
        course
    }

    /// Adds a packet sent at `at`, in ns, with its delay.
    pub fn add(&mut self, at: i64, delay: i64) {
        self.packets += 1;
        let [low, high] = self.range.unwrap_or([delay; 2]);
        self.range = Some([low.min(delay), high.max(delay)]);
        let slot = self.slot(at.into());
        slot.largest = slot.largest.max(Some(delay));
    }

    /// Adds `count` lost packets that were sent between two times.
    fn lose(&mut self, [from, to]: [i128; 2], count: u64) {
        self.packets += count;
        let parts = count.min(PARTS_PER_RUN);
        for k in 0..parts {
            let lost = count / parts + u64::from(k < count % parts);
            self.slot(from + (to - from).max(0) * i128::from(k) / i128::from(parts)).lost += lost;
        }
    }

    fn slot(&mut self, at: i128) -> &mut TimelineSlot {
        let origin = i128::from(*self.origin.get_or_insert(clamp(at)));
        // Packets sent before the origin are counted at the origin.
        let since = (at - origin).max(0);
        let mut k = divided(since, self.width);
        while k >= MAX_SLOTS as i128 {
            self.width *= 2;
            let pairs = self.slots.chunks(2).map(|pair| {
                let lost = pair.iter().map(|s| s.lost).fold(0, u64::saturating_add);
                TimelineSlot { largest: pair.iter().filter_map(|s| s.largest).max(), lost }
            });
            self.slots = pairs.collect();
            k = divided(since, self.width);
        }
        let k = k as usize;
        if k >= self.slots.len() {
            self.slots.resize(k + 1, TimelineSlot::default());
        }
        &mut self.slots[k]
    }

    /// Subtracts `shift` ns from every delay that is printed.
    #[must_use]
    pub fn shifted(mut self, shift: i64) -> Timeline {
        self.shift = shift;
        self
    }

    /// Prints delays relative to the smallest, because the clocks are unknown.
    #[must_use]
    pub(super) fn relative(mut self) -> Timeline {
        self.relative = true;
        self
    }

    /// True if a packet was lost.
    pub(super) fn has_losses(&self) -> bool {
        self.slots.iter().any(|slot| slot.lost > 0)
    }

    /// True if nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.range.is_none()
    }

    pub(super) fn is_relative(&self) -> bool {
        self.relative
    }

    /// Smallest and largest delay, as printed, in ns; `None` if nothing arrived.
    pub(super) fn range(&self) -> Option<[i64; 2]> {
        let [low, high] = self.range?;
        let shift = if self.relative { low } else { self.shift };
        Some([low.saturating_sub(shift), high.saturating_sub(shift)])
    }

    pub(super) fn draw(&self, canvas: PlotCanvas) -> Drawn {
        // Use no more columns than packets: empty columns would look like gaps.
        let columns = canvas.width.min(usize::try_from(self.packets).unwrap_or(usize::MAX)).max(1);
        let [low, high] = self.range.unwrap_or_default().map(i128::from);
        let levels = canvas.levels();
        let level = |v: i64| levels[((i128::from(v) - low) * 7 / (high - low).max(1)).clamp(0, 7) as usize];
        let (mut delay, mut lost, mut before) = (String::new(), String::new(), ' ');
        for k in 0..columns {
            let from = k * self.slots.len() / columns;
            let to = ((k + 1) * self.slots.len() / columns).max(from + 1).min(self.slots.len());
            let slots = self.slots.get(from..to).unwrap_or_default();
            let missing = slots.iter().map(|s| s.lost).fold(0, u64::saturating_add);
            let largest = slots.iter().filter_map(|s| s.largest).max();
            // Repeat the previous delay where nothing was sent.
            let shown = match largest {
                Some(largest) => level(largest),
                None if missing == 0 => before,
                None => ' ',
            };
            before = shown;
            delay.push(shown);
            lost.push(match missing {
                0 => ' ',
                1 => '.',
                2..10 => 'x',
                _ => 'X',
            });
        }
        Drawn { delay: delay.trim_end().to_owned(), lost: lost.trim_end().to_owned() }
    }
}

/// Divides non-negative numbers, in 64 bits if both fit, which is several times faster.
fn divided(a: i128, b: i128) -> i128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => (a / b).into(),
        _ => a / b,
    }
}

fn clamp(at: i128) -> i64 {
    at.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::answer::DelayShift;

    const ASCII: PlotCanvas = PlotCanvas { width: 20, unicode: false };

    fn samples(seq: impl Iterator<Item = u32>, delay: impl Fn(u32) -> i64) -> Samples {
        let seq: Vec<u32> = seq.collect();
        let sent = seq.iter().map(|s| 1_000_000_000 + i64::from(*s) * 20_000_000).collect();
        let delay = seq.iter().map(|s| delay(*s)).collect();
        Samples { seq, sent, delay, ..Samples::default() }
    }

    #[test]
    fn a_clock_step_is_not_drawn() {
        let raw = samples(0..100, |s| i64::from(s % 10) * 1000 + if s < 40 { 0 } else { -5_000_000 });
        let range = |without| Timeline::of(&raw, 100, 20_000_000, without).range().unwrap();
        assert_eq!(range(None), [-5_000_000, 9_000]);
        let shifts = vec![DelayShift { seq: 40, by_ns: -5_000_000 }];
        let without = JitterWithoutStep {
            at_ns: 800_000_000,
            steps: 1,
            p50_ns: 0,
            p95_ns: 0,
            p99_ns: 0,
            p999_ns: 0,
            max_ns: 0,
            shifts,
        };
        assert_eq!(range(Some(&without)), [0, 9_000]);
    }

    #[test]
    fn an_outage_is_a_gap_with_marks() {
        let some = samples((0..100).filter(|s| !(40..60).contains(s) && *s != 80), |s| {
            if s > 90 { 9_000_000 } else { 1_000_000 }
        });
        let drawn = Timeline::of(&some, 100, 20_000_000, None).draw(ASCII);
        assert_eq!(drawn.delay, "........    ......@@", "{drawn:?}");
        assert_eq!(drawn.lost, "        xxxx    .", "{drawn:?}");
    }

    #[test]
    fn what_never_arrived_takes_its_time() {
        // Everything after the first half is lost.
        let drawn = Timeline::of(&samples(0..50, |_| 1000), 100, 20_000_000, None).draw(ASCII);
        assert_eq!(drawn.delay, "..........");
        assert_eq!(drawn.lost, "          xxxxxxxxxx");
    }

    #[test]
    fn only_losses_are_marked() {
        // 2 and 9 have no delay, 7 is lost.
        let mut some = samples([0, 1, 3, 4, 5, 6, 8].into_iter(), |_| 1_000_000);
        some.delayless = vec![2, 9];
        let drawn = Timeline::of(&some, 10, 20_000_000, None).draw(ASCII);
        assert_eq!(drawn.lost.trim(), ".", "{drawn:?}");
        some.delayless = vec![2, 7, 9];
        assert!(!Timeline::of(&some, 10, 20_000_000, None).has_losses());
    }

    #[test]
    fn few_packets_are_few_columns() {
        let drawn = Timeline::of(&samples(0..7, |s| i64::from(s) * 1000), 7, 20_000_000, None).draw(ASCII);
        assert_eq!(drawn.delay, ".:-=+*@", "{drawn:?}");
        assert!(Timeline::of(&Samples::default(), 10, 1, None).is_empty());
    }

    #[test]
    fn any_log_takes_bounded_time_and_room() {
        let wild = Samples {
            seq: vec![0, 5, u32::MAX, 17],
            sent: vec![i64::MAX, i64::MIN, 0, 3],
            delay: vec![i64::MIN, i64::MAX, 0, 1],
            ..Samples::default()
        };
        for sent in [0, 1, u64::MAX] {
            let course = Timeline::of(&wild, sent, i64::MAX, None);
            assert!(course.slots.len() <= MAX_SLOTS);
            assert!(course.draw(ASCII).delay.chars().count() <= 20);
            assert!(course.range().is_some());
        }
    }
}
