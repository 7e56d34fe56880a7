//! Figures of successive windows of the stream.

use super::duplicate::Copies;
use super::moments::Moments;
use super::seqset::{SeqRun, SeqSet, absent, without};
use super::series::Series;
use crate::Session;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::summary::{Interval, Summary};
use crate::time::Span;

/// Maximum number of windows in a summary.
pub const MAX_WINDOWS: u64 = 100_000;

/// Returns windows of `length` with their counts, for the packets of `session` whose sequence numbers are below `end`.
/// `came` contains the packets received. A packet belongs to the window in which it was due at the mean rate, whether
/// or not it was received, so the counts of all windows add up to those of the test. Without a `period`, as in captured
/// traffic, a received packet belongs to the window in which it was sent, and a lost packet to the window of the packet
/// before it. Empty if there would be more than [`MAX_WINDOWS`].
pub fn windows(
    series: &Series<'_>,
    came: &SeqSet,
    copies: &Copies,
    session: &Session,
    end: u64,
    period: Option<Span>,
    length: Span,
) -> Vec<Interval> {
    let length = length.0.max(1);
    let bounds = match period {
        Some(period) => due(period.0.max(1), length, end),
        None => sent_in(series, length, end),
    };
    let windows = bounds.len() as u64;
    let first_seq = |w: u64| bounds.get(w as usize).copied().unwrap_or(end);
    let length = length as u128;
    let copies = copies.by_number();
    let reordered = reordered_numbers(series);
    let lost = without(absent(came.runs(), end), session.uncounted_in(0, end));
    let mut losses = lost.peekable();
    let (mut arrived, mut next) = (came.runs(), None);
    (0..windows)
        .map(|w| {
            let (from, to) = (first_seq(w), first_seq(w + 1));
            let mut accepted = 0;
            while let Some(run) = next.take().or_else(|| arrived.next()) {
                let end = run.start + run.len;
                accepted += end.min(to).saturating_sub(run.start.max(from));
                if end > to {
                    next = Some(run);
                    break;
                }
            }
            let (mut loss_runs, mut longest) = (0, 0);
            while let Some(run) = losses.next_if(|r: &SeqRun| r.start < to) {
                (loss_runs, longest) = (loss_runs + 1, run.len.max(longest));
            }
            let within = |seq: u32| (from..to).contains(&u64::from(seq));
            let low = copies.partition_point(|c| u64::from(c.0) < from);
            let duplicate = copies[low..].iter().take_while(|c| within(c.0)).map(|c| c.1).sum();
            let low = reordered.partition_point(|s| u64::from(*s) < from);
            let late = reordered[low..].iter().take_while(|s| within(**s)).count() as u64;
            let uncounted: u64 = session.uncounted_in(from, to).map(|run| run.len).sum();
            let sent = (to - from).saturating_sub(uncounted);
            Interval {
                start_ns: i64::try_from(u128::from(w) * length).unwrap_or(i64::MAX),
                length_ns: i64::try_from(length).unwrap_or(i64::MAX),
                first_seq: from,
                sent,
                accepted,
                lost: sent.saturating_sub(accepted),
                loss_runs,
                longest_loss: longest,
                duplicate,
                out_of_sequence: late,
                ..Interval::default()
            }
        })
        .collect()
}

/// Returns the first sequence number of each window, according to due times.
fn due(period: i64, length: i64, sent: u64) -> Vec<u64> {
    let (period, length) = (period as u128, length as u128);
    let windows = (u128::from(sent) * period).div_ceil(length).min(u128::from(MAX_WINDOWS) + 1) as u64;
    if windows > MAX_WINDOWS {
        return Vec::new();
    }
    let first = |w: u64| (u128::from(w) * length).div_ceil(period).min(u128::from(sent)) as u64;
    (0..windows).map(first).collect()
}

/// Returns the first sequence number of each window, according to send times relative to the first packet.
fn sent_in(series: &Series<'_>, length: i64, sent: u64) -> Vec<u64> {
    let mut bounds = Vec::new();
    let mut origin = None;
    for p in series.range(0..series.len()) {
        let window = p.sent.saturating_sub(*origin.get_or_insert(p.sent)) / length;
        if window >= MAX_WINDOWS as i64 {
            return Vec::new();
        }
        while (bounds.len() as i64) <= window {
            // Packets lost before the first one received belong to the first window.
            bounds.push(if bounds.is_empty() { 0 } else { u64::from(p.seq).min(sent) });
        }
    }
    bounds
}

/// Sets the delay figures of `window`, which contains the packets `window.first_seq..end`.
pub fn add_delays(window: &mut Interval, end: u64, series: &Series<'_>) {
    let part = series.position_of(window.first_seq)..series.position_of(end);
    let values = series.range(part.clone()).map(|p| p.delay);
    let moments: Moments = values.clone().collect();
    let sample = Sample::new(values);
    let pdv = |p| Some(sample.edf(Percent(p))?.saturating_sub(sample.min()?));
    let pairs = series.range(part.clone()).zip(series.range(part).skip(1));
    let steps: Vec<i64> =
        pairs.filter(|(a, b)| a.seq + 1 == b.seq).map(|(a, b)| b.delay.saturating_sub(a.delay)).collect();
    let sum: f64 = steps.iter().map(|x| x.unsigned_abs() as f64).sum();
    let spread: Moments = steps.iter().copied().collect();
    let quartiles = Sample::new(steps.iter().copied());
    (window.min, window.mean, window.max) = (moments.min(), moments.mean(), moments.max());
    (window.stddev, window.median) = (moments.stddev(), sample.median());
    (window.pdv_p50, window.pdv_p99) = (pdv(50_000), pdv(99_000));
    (window.pdv_p999, window.pdv_max) = (pdv(99_900), pdv(100_000));
    window.ipdv_mean_abs = (!steps.is_empty()).then(|| sum / steps.len() as f64);
    window.ipdv_stddev = spread.stddev();
    window.ipdv_iqr = quartiles
        .edf(Percent(75_000))
        .zip(quartiles.edf(Percent(25_000)))
        .map(|(high, low)| high.saturating_sub(low));
}

/// Copies the delay figures of `window` from the summary of its packets.
pub fn take_delays(window: &mut Interval, of: &Summary) {
    let (latency, pdv, ipdv) = (&of.latency, &of.pdv, &of.ipdv);
    (window.min, window.mean, window.max) = (latency.min, latency.mean, latency.max);
    (window.stddev, window.median) = (latency.stddev, latency.median);
    let at = |p| pdv.percentile(Percent(p));
    (window.pdv_p50, window.pdv_p99) = (at(50_000), at(99_000));
    (window.pdv_p999, window.pdv_max) = (at(99_900), at(100_000));
    (window.ipdv_mean_abs, window.ipdv_stddev, window.ipdv_iqr) = (ipdv.mean_abs, ipdv.stddev, ipdv.iqr);
}

/// Returns the sequence numbers of reordered packets, ascending.
fn reordered_numbers(series: &Series<'_>) -> Vec<u32> {
    if series.in_order() {
        return Vec::new();
    }
    let (mut next, mut found) = (0u64, Vec::new());
    for packet in series.arrivals() {
        let seq = u64::from(packet.seq);
        if seq < next {
            found.push(packet.seq);
        } else {
            next = seq + 1;
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::series::Samples;
    use super::*;
    use crate::spec::TestSpec;
    use proptest::prelude::*;

    fn session() -> Session {
        Session::new(TestSpec::default())
    }

    proptest! {
        #[test]
        fn windows_add_up_to_the_whole(
            keys in prop::collection::vec((0u32..12, prop::bool::weighted(0.85), -50i64..50), 1..90),
            length in 1i64..400,
        ) {
            let sent = keys.len() as u64;
            let mut order: Vec<(u32, u32, i64)> = (0..)
                .zip(keys)
                .filter(|(_, (_, kept, _))| *kept)
                .map(|(i, (late, _, delay))| (i + late / 8 * late, i, delay))
                .collect();
            order.sort_by_key(|o| o.0);
            let (mut samples, mut accepted, mut copies) = (Samples::default(), SeqSet::default(), Copies::default());
            for &(_, seq, delay) in &order {
                samples.push(AcceptedPacket { seq, sent: i64::from(seq / 5) * 30_000_000, delay });
                accepted.insert(seq);
                if seq % 7 == 0 {
                    copies.push(seq, None);
                }
            }
            let series = Series::new(&samples);
            let length = Span::millis(length);
            for period in [Some(Span::millis(20)), None] {
            let mut windows = windows(&series, &accepted, &copies, &session(), sent, period, length);
            let ends: Vec<u64> = windows.iter().skip(1).map(|w| w.first_seq).chain([sent]).collect();
            windows.iter_mut().zip(ends).for_each(|(w, end)| add_delays(w, end, &series));
            if windows.is_empty() && samples.is_empty() {
                continue;
            }
            let sum = |f: fn(&Interval) -> u64| windows.iter().map(f).sum::<u64>();
            prop_assert_eq!(sum(|w| w.sent), sent);
            prop_assert_eq!(sum(|w| w.accepted), accepted.len());
            prop_assert_eq!(sum(|w| w.lost), sent - accepted.len());
            prop_assert_eq!(sum(|w| w.duplicate), copies.len());
            prop_assert_eq!(sum(|w| w.loss_runs), absent(accepted.runs(), sent).count() as u64);
            let mut next = 0;
            let late = samples.seq.iter().filter(|s| { let l = **s < next; next = next.max(**s + 1); l }).count();
            prop_assert_eq!(sum(|w| w.out_of_sequence), late as u64);
            prop_assert_eq!(windows.iter().filter_map(|w| w.min).min(), samples.delay.iter().copied().min());
            }
        }
    }

    #[test]
    fn every_figure_of_a_window() {
        // Ten packets, one every 20 ms, in windows of 50 ms: 0–2, 3–4, 5–7 and 8–9 are due in them. 3, 4 and
        // 6 are lost, 8 is reordered, 1 arrives three times.
        let (mut samples, mut accepted, mut copies) =
            (Samples::default(), SeqSet::default(), Copies::default());
        for (seq, delay) in [(0, 40), (1, 10), (2, 25), (5, 7), (7, 8), (9, 3), (8, 9)] {
            samples.push(AcceptedPacket { seq, sent: i64::from(seq) * 20_000_000, delay });
            accepted.insert(seq);
        }
        copies.push(1, None);
        copies.push(1, None);
        let series = Series::new(&samples);
        let period = Some(Span::millis(20));
        let mut windows = windows(&series, &accepted, &copies, &session(), 10, period, Span::millis(50));
        let ends: Vec<u64> = windows.iter().skip(1).map(|w| w.first_seq).chain([10]).collect();
        windows.iter_mut().zip(ends).for_each(|(w, end)| add_delays(w, end, &series));
        let counts = |w: &Interval| {
            [
                w.first_seq,
                w.sent,
                w.accepted,
                w.lost,
                w.loss_runs,
                w.longest_loss,
                w.duplicate,
                w.out_of_sequence,
            ]
        };
        assert_eq!(
            windows.iter().map(counts).collect::<Vec<_>>(),
            [
                [0, 3, 3, 0, 0, 0, 2, 0],
                [3, 2, 0, 2, 1, 2, 0, 0],
                [5, 3, 2, 1, 1, 1, 0, 0],
                [8, 2, 2, 0, 0, 0, 0, 1]
            ]
        );
        let times: Vec<_> = windows.iter().map(|w| (w.start_ns, w.length_ns)).collect();
        assert_eq!(times, [0, 50_000_000, 100_000_000, 150_000_000].map(|t| (t, 50_000_000)));
        let [first, second, third, last] = &windows[..] else { panic!() };
        assert_eq!(
            (first.min, first.mean, first.max, first.median),
            (Some(10), Some(25.0), Some(40), Some(25.0))
        );
        assert_eq!((first.stddev, first.pdv_p50, first.pdv_p99), (Some(15.0), Some(15), Some(30)));
        assert_eq!((first.pdv_p999, first.pdv_max), (Some(30), Some(30)));
        // The steps are −30 and 15.
        assert_eq!((first.ipdv_mean_abs, first.ipdv_iqr), (Some(22.5), Some(45)));
        assert!((first.ipdv_stddev.unwrap() - 45.0 / 2f64.sqrt()).abs() < 1e-9);
        assert_eq!((second.min, second.mean, second.ipdv_mean_abs, second.pdv_p50), (None, None, None, None));
        assert_eq!((third.ipdv_mean_abs, third.ipdv_iqr), (None, None), "5 and 7 are no neighbours");
        assert_eq!((last.ipdv_mean_abs, last.ipdv_stddev), (Some(6.0), None));
    }

    #[test]
    fn as_many_windows_as_are_listed() {
        let due = |windows: u64| due(1_000_000, 1_000_000, windows).len() as u64;
        assert_eq!((due(MAX_WINDOWS), due(MAX_WINDOWS + 1), due(0)), (MAX_WINDOWS, 0, 0));
    }

    #[test]
    fn without_a_period_windows_are_of_the_times_of_sending() {
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        // Two packets in the first second, one lost, none in the second, one in the third.
        for (seq, sent) in [(0, 5_000_000_000), (1, 5_999_999_999), (3, 7_000_000_000)] {
            samples.push(AcceptedPacket { seq, sent, delay: 7 });
            accepted.insert(seq);
        }
        let series = Series::new(&samples);
        let windows = windows(&series, &accepted, &Copies::default(), &session(), 4, None, Span::seconds(1));
        let counts: Vec<_> = windows.iter().map(|w| (w.first_seq, w.sent, w.lost)).collect();
        assert_eq!(counts, [(0, 3, 1), (3, 0, 0), (3, 1, 0)]);
    }

    #[test]
    fn a_claimed_count_makes_no_windows() {
        let (samples, accepted) = (Samples::default(), SeqSet::default());
        let series = Series::new(&samples);
        for period in [Some(Span::millis(20)), None] {
            let windows = windows(
                &series,
                &accepted,
                &Copies::default(),
                &session(),
                u64::from(u32::MAX),
                period,
                Span(1),
            );
            assert_eq!(windows, []);
        }
    }
}
