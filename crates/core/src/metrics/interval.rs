//! The figures of successive windows of the stream.

use super::duplicate::Copies;
use super::moments::Moments;
use super::percentile::Percent;
use super::sample::Sample;
use super::seqset::{Run, SeqSet, absent};
use super::series::Series;
use crate::spec::TestSpec;
use crate::summary::Interval;
use crate::time::Span;

/// No summary lists more windows.
pub const MOST: u64 = 100_000;

/// The windows of `length` of a stream of `sent` packets. A packet belongs to the window in which it was
/// due at the mean rate, arrived or not, so that the windows' counts add up to the whole. Empty where there
/// would be more than [`MOST`].
pub fn intervals(
    series: &Series<'_>,
    accepted: &SeqSet,
    copies: &Copies,
    sent: u64,
    spec: &TestSpec,
    length: Span,
) -> Vec<Interval> {
    let period = spec.period().0.max(1) as u128;
    let length = length.0.max(1) as u128;
    let first_seq = |w: u64| ((u128::from(w) * length).div_ceil(period)).min(u128::from(sent)) as u64;
    let windows = (u128::from(sent) * period).div_ceil(length).min(u128::from(MOST) + 1) as u64;
    if windows > MOST {
        return Vec::new();
    }
    let copies = copies.by_number();
    let reordered = overtaken(series);
    let mut losses = absent(accepted.runs(), sent).peekable();
    let mut cursor = 0;
    (0..windows)
        .map(|w| {
            let (from, to) = (first_seq(w), first_seq(w + 1));
            let start = cursor;
            cursor += series.range(cursor..series.len()).take_while(|p| u64::from(p.seq) < to).count();
            let (mut loss_runs, mut longest) = (0, 0);
            while let Some(run) = losses.next_if(|r: &Run| r.start < to) {
                (loss_runs, longest) = (loss_runs + 1, run.len.max(longest));
            }
            let within = |seq: u32| (from..to).contains(&u64::from(seq));
            let low = copies.partition_point(|c| u64::from(c.0) < from);
            let duplicate = copies[low..].iter().take_while(|c| within(c.0)).map(|c| c.1).sum();
            let low = reordered.partition_point(|s| u64::from(*s) < from);
            let overtaken = reordered[low..].iter().take_while(|s| within(**s)).count() as u64;
            let part = start..cursor;
            Interval {
                start_ns: i64::try_from(u128::from(w) * length).unwrap_or(i64::MAX),
                length_ns: i64::try_from(length).unwrap_or(i64::MAX),
                first_seq: from,
                sent: to - from,
                accepted: part.len() as u64,
                lost: to - from - part.len() as u64,
                loss_runs,
                longest_loss: longest,
                duplicate,
                out_of_sequence: overtaken,
                ..delays(series, part)
            }
        })
        .collect()
}

/// The delay figures of a part of the stream, everything else 0.
fn delays(series: &Series<'_>, part: core::ops::Range<usize>) -> Interval {
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
    Interval {
        start_ns: 0,
        length_ns: 0,
        first_seq: 0,
        sent: 0,
        accepted: 0,
        lost: 0,
        loss_runs: 0,
        longest_loss: 0,
        duplicate: 0,
        out_of_sequence: 0,
        min: moments.min(),
        mean: moments.mean(),
        max: moments.max(),
        stddev: moments.stddev(),
        median: sample.median(),
        pdv_p50: pdv(50_000),
        pdv_p99: pdv(99_000),
        pdv_p999: pdv(99_900),
        pdv_max: pdv(100_000),
        ipdv_mean_abs: (!steps.is_empty()).then(|| sum / steps.len() as f64),
        ipdv_stddev: spread.stddev(),
        ipdv_iqr: quartiles
            .edf(Percent(75_000))
            .zip(quartiles.edf(Percent(25_000)))
            .map(|(high, low)| high.saturating_sub(low)),
        summary: None,
    }
}

/// The sequence numbers of overtaken packets, ascending.
fn overtaken(series: &Series<'_>) -> Vec<u32> {
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
    use super::super::classify::Packet;
    use super::super::series::Samples;
    use super::*;
    use proptest::prelude::*;

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
                samples.push(Packet { seq, sent: 0, delay });
                accepted.insert(seq);
                if seq % 7 == 0 {
                    copies.push(seq, None);
                }
            }
            let series = Series::new(&samples, &accepted);
            let spec = TestSpec::default();
            let length = Span::millis(length);
            let windows = intervals(&series, &accepted, &copies, sent, &spec, length);
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

    #[test]
    fn a_claimed_count_makes_no_windows() {
        let (samples, accepted) = (Samples::default(), SeqSet::default());
        let series = Series::new(&samples, &accepted);
        let spec = TestSpec::default();
        let windows = intervals(&series, &accepted, &Copies::default(), u64::from(u32::MAX), &spec, Span(1));
        assert_eq!(windows, []);
    }
}
