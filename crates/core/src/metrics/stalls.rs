//! Stalls of the hosts themselves, and the figures without them (metrics §22). Affected packets are flagged but stay in
//! all other figures.

use super::moments::Moments;
use super::schedule_error::{ScheduleError, SendErrors};
use super::series::{Samples, Series};
use crate::distribution::Distribution;
use crate::distribution::percentile::{Method, Percent, rank};
use crate::distribution::sample::Sample;
use crate::spec::{Schedule, TestSpec};
use serde::{Deserialize, Serialize};

/// Packets that the hosts themselves delayed, and delay statistics without them. Other figures include these
/// packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Stalls {
    /// Number of packets sent late: the error of their send time exceeds both half of the period and the 99th
    /// percentile of these errors.
    pub sender_late: u64,
    /// Number of groups of packets that were delayed and released together: within a group, the delay falls by one
    /// period per packet.
    pub receiver_suspects: u64,
    /// Number of packets in the groups that `receiver_suspects` counts.
    pub receiver_suspect_packets: u64,
    /// Number of packets that waited in the receiving host for more than half a period between their arrival stamp and
    /// the program's clock reading.
    pub receiver_waits: u64,
    /// Statistics without the flagged packets, in ns; `None` if no packet was flagged.
    pub without: Option<WithoutStalls>,
}

/// Statistics of the packets that are not flagged, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WithoutStalls {
    /// Number of packets that are not flagged.
    pub n: u64,
    /// Mean delay.
    pub mean: f64,
    /// Standard deviation of delay; `None` for a single packet.
    pub stddev: Option<f64>,
    /// 99th percentile of PDV.
    pub pdv_p99: i64,
    /// 99.9th percentile of PDV.
    pub pdv_p999: i64,
    /// Largest PDV.
    pub pdv_max: i64,
}

/// Delay counted from the due time instead of the send time, which avoids coordinated omission.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct IntendedLatency {
    /// Smallest delay, in ns.
    pub min: i64,
    /// Mean delay, in ns.
    pub mean: f64,
    /// Largest delay, in ns.
    pub max: i64,
    /// 99th percentile of PDV, in ns.
    pub pdv_p99: i64,
    /// 99.9th percentile of PDV, in ns.
    pub pdv_p999: i64,
}

/// Finds the stalls. `sample` contains the sorted delays, `waited` the sequence numbers of packets known to have waited
/// in the receiving host.
pub fn stalls(
    series: &Series<'_>,
    samples: &Samples,
    sample: &Sample,
    errors: Option<&SendErrors>,
    waited: &[u32],
    spec: &TestSpec,
) -> Stalls {
    let mut flagged = Vec::new();
    let figures = errors.map(|e| (e, e.figures()));
    let limit = |f: &ScheduleError| f.p99.max(spec.period().0 / 2);
    if let Some((errors, figures)) = figures.filter(|(_, f)| f.max > limit(f)) {
        let limit = limit(&figures);
        let late = errors.of(series).zip(series.iter()).filter(|(error, _)| *error > limit);
        flagged.extend(late.map(|(_, packet)| packet.seq));
    }
    let sender_late = flagged.len() as u64;
    let groups = match spec.schedule() {
        Schedule::Periodic => released_together(samples, spec.period().0, &mut flagged),
        _ => 0,
    };
    let receiver_suspect_packets = flagged.len() as u64 - sender_late;
    let waited = remaining_in(series, waited);
    let receiver_waits = waited.len() as u64;
    flagged.extend(waited);
    flagged.sort_unstable();
    flagged.dedup();
    Stalls {
        sender_late,
        receiver_suspects: groups,
        receiver_suspect_packets,
        receiver_waits,
        without: (!flagged.is_empty()).then(|| without(series, sample, &flagged)).flatten(),
    }
}

/// Returns the packets of `waited` that are in the series, ascending. Packets that arrived after the timeout are not in
/// it.
fn remaining_in(series: &Series<'_>, waited: &[u32]) -> Vec<u32> {
    let mut waited = waited.to_vec();
    if waited.is_empty() {
        return waited;
    }
    waited.sort_unstable();
    let mut packets = series.iter().map(|packet| packet.seq).peekable();
    waited.retain(|seq| {
        while packets.next_if(|present| present < seq).is_some() {}
        packets.peek() == Some(seq)
    });
    waited
}

/// Finds groups of consecutive arrivals that were delayed and released together: the arrivals are at most 5 % of the
/// period apart, and each delay is nearly a period smaller than the previous one. Adds them to `flagged` and returns
/// the number of groups.
fn released_together(samples: &Samples, period: i64, flagged: &mut Vec<u32>) -> u64 {
    let (mut groups, mut in_group) = (0, false);
    let falls = period - period / 10..=period.saturating_add(period / 10);
    let mut packets = samples.iter();
    let Some(mut last) = packets.next() else { return 0 };
    for now in packets {
        let before = std::mem::replace(&mut last, now);
        let gap = now.arrived().saturating_sub(before.arrived());
        let together =
            (0..=period / 20).contains(&gap) && falls.contains(&before.delay.saturating_sub(now.delay));
        if together {
            if !in_group {
                groups += 1;
                flagged.push(before.seq);
            }
            flagged.push(now.seq);
        }
        in_group = together;
    }
    groups
}

/// Returns the statistics without the packets in `flagged`, which are in ascending order; `None` if no packet remains.
fn without(series: &Series<'_>, sample: &Sample, flagged: &[u32]) -> Option<WithoutStalls> {
    let mut moments = Moments::default();
    let mut left_out = Vec::with_capacity(flagged.len());
    let mut next = flagged.iter().copied().peekable();
    for packet in series.iter() {
        while next.next_if(|seq| *seq < packet.seq).is_some() {}
        if next.next_if_eq(&packet.seq).is_some() {
            left_out.push(packet.delay);
        } else {
            moments.add(packet.delay);
        }
    }
    // Find the index of each excluded delay in the sorted sample; equal delays are adjacent.
    left_out.sort_unstable();
    let mut positions: Vec<usize> = Vec::with_capacity(left_out.len());
    let mut at = 0;
    for delay in left_out {
        while sample.at(at).is_some_and(|kept| kept < delay) {
            at += 1;
        }
        positions.push(at);
        at += 1;
    }
    let remaining = |k: usize| {
        let mut at = k;
        for position in &positions {
            if *position > at {
                break;
            }
            at += 1;
        }
        sample.at(at)
    };
    let n = moments.n() as usize;
    let min = moments.min()?;
    let pdv = |p| Some(remaining(rank(n, Percent(p), Method::Edf)?)?.saturating_sub(min));
    Some(WithoutStalls {
        n: moments.n(),
        mean: moments.mean()?,
        stddev: moments.stddev(),
        pdv_p99: pdv(99_000)?,
        pdv_p999: pdv(99_900)?,
        pdv_max: moments.max()?.saturating_sub(min),
    })
}

/// Computes delay counted from due times; `None` if the sender's error is negligible: its 99th percentile is
/// at most a tenth of the 99th percentile of PDV.
pub fn intended(
    series: &Series<'_>,
    errors: &SendErrors,
    figures: &ScheduleError,
    pdv: &Distribution,
) -> Option<IntendedLatency> {
    if figures.p99 <= pdv.percentile(Percent(99_000))? / 10 {
        return None;
    }
    let delays = series.iter().zip(errors.of(series)).map(|(p, error)| p.delay.saturating_add(error));
    let moments: Moments = delays.clone().collect();
    let sample = Sample::new(delays);
    let min = sample.min()?;
    let pdv = |p| Some(sample.edf(Percent(p))?.saturating_sub(min));
    Some(IntendedLatency {
        min,
        mean: moments.mean()?,
        max: sample.max()?,
        pdv_p99: pdv(99_000)?,
        pdv_p999: pdv(99_900)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::*;

    const MS: i64 = 1_000_000;

    fn of(rows: &[(i64, i64)], waited: &[u32]) -> (Stalls, Option<IntendedLatency>) {
        let mut samples = Samples::default();
        for (seq, &(sent, delay)) in (0..).zip(rows) {
            samples.push(AcceptedPacket { seq, sent, delay });
        }
        let series = Series::new(&samples);
        let sample = Sample::new(samples.delay.iter().copied());
        let spec = TestSpec::default();
        let errors = SendErrors::new(&series, &crate::session::Session::new(spec.clone())).unwrap();
        let wanted = crate::distribution::DistributionRequest {
            percents: &crate::distribution::percentile::DEFAULT_PERCENTS,
            method: Method::Edf,
            bins: crate::distribution::histogram::Bins::default(),
        };
        let moments: Moments = samples.delay.iter().copied().collect();
        let pdv = Distribution::new(&sample, &moments, wanted).above_minimum(&moments, Some(&sample));
        (
            stalls(&series, &samples, &sample, Some(&errors), waited, &spec),
            intended(&series, &errors, &errors.figures(), &pdv),
        )
    }

    #[test]
    fn a_receiver_stall_is_flagged_and_left_out() {
        // 200 packets with delays of 1 to 1.09 ms; packets 100 to 103 wait for a stall to end.
        let rows: Vec<(i64, i64)> = (0..200)
            .map(|i| {
                let held = if (100..104).contains(&i) { (103 - i) * 20 * MS } else { 0 };
                (i * 20 * MS, MS + i % 10 * 10_000 * i64::from(held == 0) + held)
            })
            .collect();
        let (s, intended) = of(&rows, &[]);
        assert_eq!((s.sender_late, s.receiver_suspects, s.receiver_suspect_packets), (0, 1, 4));
        let without = s.without.unwrap();
        assert_eq!((without.n, without.pdv_max, without.pdv_p99), (196, 90_000, 90_000));
        assert_eq!(intended, None);
    }

    #[test]
    fn a_late_sender_is_flagged_and_its_wait_counted() {
        let rows: Vec<(i64, i64)> = (0..200)
            .map(|i| (i * 20 * MS + if i == 77 { 15 * MS } else { i % 4 * 50_000 }, MS + i % 3))
            .collect();
        let (s, intended) = of(&rows, &[5]);
        assert_eq!((s.sender_late, s.receiver_waits, s.without.unwrap().n), (1, 1, 198));
        assert!(intended.unwrap().max >= 16 * MS);
    }

    #[test]
    fn late_means_more_than_half_a_period() {
        // The 99th percentile of the errors is 150 µs, so half a period, 10 ms, is the limit.
        let error = |i| match i {
            77 => 15 * MS,
            78 => 10 * MS,
            _ => i % 4 * 50_000,
        };
        let rows: Vec<(i64, i64)> = (0..200).map(|i| (i * 20 * MS + error(i), MS)).collect();
        assert_eq!(of(&rows, &[]).0.sender_late, 1);
        // Stalls of the sender and the receiver in one run are counted separately.
        let held = |i| if (100..104).contains(&i) { (103 - i) * 20 * MS } else { 0 };
        let rows: Vec<(i64, i64)> =
            (0..200).map(|i| (i * 20 * MS + if i == 77 { 15 * MS } else { 0 }, MS + held(i))).collect();
        let s = of(&rows, &[]).0;
        assert_eq!((s.sender_late, s.receiver_suspect_packets, s.without.unwrap().n), (1, 4, 195));
    }

    #[test]
    fn released_together_within_bounds() {
        // With a period of 20 ms: arrivals up to 1 ms apart, and delays that fall by 18 to 22 ms.
        let released = |gap: i64, fall: i64| {
            let mut samples = Samples::default();
            samples.push(AcceptedPacket { seq: 3, sent: 0, delay: 100 * MS });
            samples.push(AcceptedPacket { seq: 4, sent: gap + fall, delay: 100 * MS - fall });
            let mut flagged = Vec::new();
            (released_together(&samples, 20 * MS, &mut flagged), flagged)
        };
        for (gap, fall) in [(0, 20 * MS), (MS, 20 * MS), (MS, 18 * MS), (MS, 22 * MS)] {
            assert_eq!(released(gap, fall), (1, vec![3, 4]), "{gap} {fall}");
        }
        for (gap, fall) in [(-1, 20 * MS), (MS + 1, 20 * MS), (MS, 18 * MS - 1), (MS, 22 * MS + 1)] {
            assert_eq!(released(gap, fall), (0, vec![]), "{gap} {fall}");
        }
    }

    #[test]
    fn the_rest_is_what_sorting_it_gives() {
        let cases = [(2, 0), (3, 1_000_000), (1, 1_160_000), (7, 800_000), (1, 4)];
        // First all delays are different, then groups of four are equal; some packets are flagged.
        for (alike, (every, above)) in [1, 4].into_iter().flat_map(|alike| cases.map(|case| (alike, case))) {
            let mut samples = Samples::default();
            for seq in 0..1200 {
                let delay = i64::from(seq) * 7_919 % 1201 / alike * alike * 1000;
                samples.push(AcceptedPacket { seq, sent: i64::from(seq), delay });
            }
            let (series, sample) = (Series::new(&samples), Sample::new(samples.delay.iter().copied()));
            let is_flagged = |p: &AcceptedPacket| p.seq.is_multiple_of(every) && p.delay >= above;
            let flagged: Vec<u32> = series.iter().filter(is_flagged).map(|p| p.seq).collect();
            let mut kept: Vec<i64> = series.iter().filter(|p| !is_flagged(p)).map(|p| p.delay).collect();
            kept.sort_unstable();
            let found = without(&series, &sample, &flagged).unwrap();
            let pdv = |share: f64| kept[(share * kept.len() as f64).ceil() as usize - 1] - kept[0];
            assert_eq!(
                (found.n, found.pdv_p99, found.pdv_p999, found.pdv_max),
                (kept.len() as u64, pdv(0.99), pdv(0.999), pdv(1.0)),
                "{alike} {every} {above}"
            );
        }
    }

    #[test]
    fn intended_latency_where_the_sender_matters() {
        // The three largest of 200 values determine the 99th percentile: 1 ms of PDV, and `error` of the
        // sender.
        let counted = |error: i64| {
            let rows: Vec<(i64, i64)> = (0..200)
                .map(|i| (i * 20 * MS + if i >= 197 { error } else { 0 }, if i < 3 { 2 * MS } else { MS }))
                .collect();
            of(&rows, &[]).1
        };
        assert_eq!(counted(100_000), None, "a tenth is small");
        let i = counted(100_001).unwrap();
        assert_eq!((i.min, i.max, i.pdv_p99), (MS, 2 * MS, MS));
    }
}
