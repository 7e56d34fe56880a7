//! Brute-force twins: what the analysis computes in one pass, computed again straight from the definitions in
//! docs/metrics, with one vector entry per packet, on random streams.
//!
//! Twins of other figures are in the modules that compute these: order statistics, half-sample mode
//! (`metrics/sample.rs`), moments and regressions (`moments.rs`), reordering extents (`reorder.rs`), stay-back and
//! buffer density (`density.rs`), loss runs, distances, Gilbert (`loss.rs`), lower hull (`hull.rs`), windows
//! (`interval.rs`), all pairs of a comparison (`compare`), sequence-number sets (`seqset.rs`). Merging, offsets and
//! the streaming mode's stated errors are proven on whole summaries, so on every figure at once, in `properties.rs`.

use crate::stream;
use crate::stream::{PERIOD, rows, session};
use jitlat_core::helpers::Helpers;
use jitlat_core::metrics::{bands, sizes};
use jitlat_core::record::Moment;
use jitlat_core::state::SavedAnalysis;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{Analyzer, Options, PacketRecord, Session, Span, Stamp, StampSource, WallTime, analyze};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One entry per packet sent: (send time, arrival, copies) of the accepted ones.
type Sent = Vec<Option<(i64, i64, u64)>>;

struct Twin {
    packets: Sent,
    /// Sequence numbers in arrival order.
    arrivals: Vec<usize>,
    /// Times from the first copy to each further one.
    times_to_duplicate: Vec<i64>,
}

impl Twin {
    fn of(n: u64, rows: &[PacketRecord]) -> Twin {
        let mut twin =
            Twin { packets: vec![None; n as usize], arrivals: Vec::new(), times_to_duplicate: Vec::new() };
        for row in rows {
            let (sent, arrived) = (row.sent().unwrap().0, row.arrived().unwrap().0);
            match &mut twin.packets[row.seq as usize] {
                Some((_, first, copies)) => {
                    *copies += 1;
                    twin.times_to_duplicate.push(arrived - *first);
                }
                empty if row.flags.is_clean() => {
                    *empty = Some((sent, arrived, 1));
                    twin.arrivals.push(row.seq as usize);
                }
                _ => {}
            }
        }
        twin
    }

    fn delay(&self, seq: usize) -> Option<i64> {
        self.packets.get(seq)?.map(|(sent, arrived, _)| arrived - sent)
    }

    fn delays(&self) -> impl Iterator<Item = i64> + '_ {
        self.arrivals.iter().filter_map(|seq| self.delay(*seq))
    }

    fn least(&self) -> i64 {
        self.delays().min().unwrap_or(0)
    }
}

/// Returns start and length of the maximal runs of `true`.
fn runs(bits: &[bool]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for i in (0..bits.len()).filter(|i| bits[*i]) {
        match found.last_mut().filter(|(start, len)| start + len == i) {
            Some((_, len)) => *len += 1,
            None => found.push((i, 1)),
        }
    }
    found
}

fn histogram(lengths: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    lengths.for_each(|len| *found.entry(len).or_default() += 1);
    found
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn summary(n: u64, rows: &[PacketRecord]) -> Summary {
    analyze(&session(n), rows.iter().copied(), &jitlat_verdict::options())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// RFC 3611 §4.7.2: a packet is in a burst if a loss within 17 of one of its sides and one of the other's are
    /// joined by losses less than 17 apart.
    #[test]
    fn bursts_and_gaps((n, rows) in rows()) {
        let twin = Twin::of(n, &rows);
        let lost: Vec<bool> = twin.packets.iter().map(Option::is_none).collect();
        let joined = |a: usize, b: usize| b > a && b - a - 1 < 16;
        // Two neighbouring losses that are close mark all packets between them.
        let mut in_burst = vec![false; lost.len()];
        let losses: Vec<usize> = (0..lost.len()).filter(|i| lost[*i]).collect();
        for pair in losses.windows(2).filter(|p| joined(p[0], p[1])) {
            in_burst[pair[0]..=pair[1]].fill(true);
        }
        // Two bursts never touch: 16 received packets lie between them.
        let bursts = runs(&in_burst);
        let outside: Vec<bool> = in_burst.iter().map(|b| !b).collect();
        let gaps = runs(&outside);
        let s = summary(n, &rows).loss.burst_gap_gmin16;
        let lost_in = |part: &[(usize, usize)]| -> u64 {
            part.iter().map(|(at, len)| lost[*at..at + len].iter().filter(|l| **l).count() as u64).sum()
        };
        let expected: Vec<[u64; 3]> =
            bursts.iter().map(|b| [b.0 as u64, b.1 as u64, lost_in(&[*b])]).collect();
        prop_assert_eq!(&s.bursts, &expected);
        prop_assert_eq!(&s.gaps, &gaps.iter().map(|g| [g.0 as u64, g.1 as u64]).collect::<Vec<_>>());
        prop_assert_eq!((s.burst_count, s.gap_count), (bursts.len() as u64, gaps.len() as u64));
        prop_assert_eq!(s.isolated_losses, lost_in(&gaps));
        let packets = |part: &[(usize, usize)]| part.iter().map(|p| p.1 as f64).sum::<f64>();
        let density = |part: &[(usize, usize)]| {
            if part.is_empty() { 0.0 } else { lost_in(part) as f64 / packets(part) }
        };
        let duration = |part: &[(usize, usize)]| {
            let mean = if part.is_empty() { 0.0 } else { packets(part) / part.len() as f64 };
            mean * PERIOD as f64 / 1e6
        };
        prop_assert!(near(s.burst_density, density(&bursts)) && near(s.gap_density, density(&gaps)));
        prop_assert!(near(s.mean_burst_duration_ms.unwrap(), duration(&bursts)));
        prop_assert!(near(s.mean_gap_duration_ms.unwrap(), duration(&gaps)));
    }

    /// RFC 5560, and the runs of duplicated numbers.
    #[test]
    fn duplicates((n, rows) in rows()) {
        let mut twin = Twin::of(n, &rows);
        let counts = || twin.packets.iter().flatten().map(|p| p.2);
        let accepted = counts().count() as f64;
        let d = summary(n, &rows).duplicates;
        if accepted > 0.0 {
            prop_assert!(near(d.duplication_fraction.unwrap(), counts().sum::<u64>() as f64 / accepted - 1.0));
            prop_assert!(near(d.replicated_rate.unwrap(), counts().filter(|c| *c > 1).count() as f64 / accepted));
        } else {
            prop_assert_eq!((d.duplication_fraction, d.replicated_rate), (None, None));
        }
        prop_assert_eq!(&d.arrival_count_hist, &histogram(counts()));
        let twice: Vec<bool> = twin.packets.iter().map(|p| p.is_some_and(|p| p.2 > 1)).collect();
        prop_assert_eq!(&d.run_length_hist, &histogram(runs(&twice).iter().map(|r| r.1 as u64)));
        let times = &mut twin.times_to_duplicate;
        times.sort_unstable();
        prop_assert_eq!(d.time_to_duplicate.map(|t| (t.min, t.max)), times.first().copied().zip(times.last().copied()));
    }

    /// Buffers (metrics §18): every packet is checked against every buffer.
    #[test]
    fn buffers((n, rows) in rows()) {
        let twin = Twin::of(n, &rows);
        let Some(d) = summary(n, &rows).dejitter else {
            prop_assert!(twin.arrivals.is_empty());
            return Ok(());
        };
        for point in &d.curve {
            let buffer = (point.buffer_ms * 1e6) as i64;
            let missing: Vec<bool> =
                (0..n as usize).map(|k| twin.delay(k).is_none_or(|x| x - twin.least() > buffer)).collect();
            let total = missing.iter().filter(|m| **m).count();
            prop_assert_eq!(point.total_loss, total as u64);
            prop_assert_eq!(point.late, (total - (n as usize - twin.arrivals.len())) as u64);
            let bursts = runs(&missing).len();
            let ratio = (total > 0 && total < n as usize)
                .then(|| total as f64 / bursts as f64 * (1.0 - total as f64 / n as f64));
            prop_assert_eq!(point.burst_ratio.is_some(), ratio.is_some());
            prop_assert!(near(point.burst_ratio.unwrap_or(1.0), ratio.unwrap_or(1.0)));
        }
        let best = d.curve.iter().map(|p| p.mos).fold(0.0, f64::max);
        let first = d.curve.iter().find(|p| p.mos == best).map(|p| p.buffer_ms);
        prop_assert_eq!(d.best_buffer_ms, first);
        let low = d.curve.iter().find(|p| p.total_loss * 100 <= n).map(|p| p.buffer_ms);
        prop_assert_eq!(d.smallest_buffer_for_1pct_loss_ms, low);
        let needed = d.buffer_for_1pct_late_ns.unwrap();
        let on_time = |b: i64| twin.delays().filter(|x| x - twin.least() <= b).count() * 100;
        prop_assert!(on_time(needed) >= 99 * twin.arrivals.len() && on_time(needed - 1) < 99 * twin.arrivals.len());
    }

    /// Ramjee's algorithm 1, one packet sent after the other, borders every 50.
    #[test]
    fn an_adaptive_buffer((n, rows) in rows()) {
        const ALPHA: f64 = 0.998_002;
        let twin = Twin::of(n, &rows);
        let (mut means, mut offset, mut missing) = (None::<(f64, f64)>, None::<f64>, 0);
        for seq in 0..n as usize {
            if let Some((d, v)) = means.filter(|_| seq % 50 == 0) {
                offset = Some(d + 4.0 * v);
            }
            let Some(x) = twin.delay(seq) else { missing += 1; continue };
            let x = (x - twin.least()) as f64;
            let (d, v) = means.unwrap_or((x, 0.0));
            let limit = *offset.get_or_insert(x);
            missing += u64::from(x > limit);
            let d = ALPHA * d + (1.0 - ALPHA) * x;
            means = Some((d, ALPHA * v + (1.0 - ALPHA) * (d - x).abs()));
        }
        let adaptive = summary(n, &rows).dejitter.and_then(|d| d.adaptive_total_loss);
        prop_assert_eq!(adaptive, means.map(|_| missing));
    }

    /// RFC 3393 in send order; RFC 3550 and MAPDV2 in arrival order.
    #[test]
    fn jitter_of_neighbours((n, rows) in rows()) {
        let (twin, s) = (Twin::of(n, &rows), summary(n, &rows));
        let mut steps: Vec<i64> =
            (1..n as usize).filter_map(|k| Some(twin.delay(k)? - twin.delay(k - 1)?)).collect();
        prop_assert_eq!(s.ipdv.defined, steps.len() as u64);
        prop_assert_eq!(s.ipdv.undefined, n - 1 - steps.len() as u64);
        let mean_abs = steps.iter().map(|x| x.abs() as f64).sum::<f64>() / steps.len().max(1) as f64;
        prop_assert!(near(s.ipdv.mean_abs.unwrap_or(0.0), mean_abs));
        steps.sort_unstable();
        let at = |percent: usize| {
            let rank = (steps.len() * percent).div_ceil(100).max(1);
            steps.get(rank - 1).copied()
        };
        prop_assert_eq!((s.ipdv.p25, s.ipdv.p75), (at(25), at(75)));

        let delays: Vec<f64> = twin.delays().map(|d| d as f64).collect();
        let mut estimates = vec![0.0];
        for pair in delays.windows(2) {
            let before = estimates[estimates.len() - 1];
            estimates.push(before + ((pair[1] - pair[0]).abs() - before) / 16.0);
        }
        match s.rfc3550_jitter {
            None => prop_assert!(delays.len() < 2),
            Some(j) => {
                let mean = estimates[1..].iter().sum::<f64>() / (delays.len() - 1) as f64;
                prop_assert!(near(j.last, estimates[delays.len() - 1]) && near(j.mean, mean));
            }
        }
        // The reference mean of a packet is that of the packets before it, with the first counted once.
        let mean_before = |k: usize| (1..k).fold(delays[0], |m, i| m + (delays[i] - m) / 16.0);
        let apart: Vec<f64> = (1..delays.len()).map(|k| delays[k] - mean_before(k)).collect();
        let side = |sign: f64| {
            let these: Vec<f64> = apart.iter().map(|e| e * sign).filter(|e| *e > 0.0).collect();
            these.iter().sum::<f64>() / these.len().max(1) as f64
        };
        match s.mapdv2 {
            None => prop_assert!(delays.len() < 2),
            Some(m) => prop_assert!((m - side(1.0) - side(-1.0)).abs() < 1e-3, "{m}"),
        }
    }

    /// Periods (metrics §9) and schedule (§22).
    #[test]
    fn periods_and_schedule((n, rows) in rows()) {
        let (twin, s) = (Twin::of(n, &rows), summary(n, &rows));
        let there: Vec<usize> = (0..n as usize).filter(|k| twin.packets[*k].is_some()).collect();
        let sent = |k: usize| twin.packets[k].map_or(0, |p| p.0);
        if let ([first, .., last], Some(tx)) = (&there[..], s.periods.tx) {
            prop_assert!(near(tx.period_ns, (sent(*last) - sent(*first)) as f64 / (last - first) as f64));
        }
        let mut errors: Vec<i64> = there.iter().map(|k| sent(*k) - *k as i64 * PERIOD).collect();
        errors.sort_unstable();
        let Some(figures) = s.schedule_error else { prop_assert!(errors.is_empty()); return Ok(()) };
        let anchor = errors[errors.len().div_ceil(100) - 1];
        prop_assert_eq!(figures.anchor_ns, anchor);
        prop_assert_eq!((figures.min, figures.max), (errors[0] - anchor, errors[errors.len() - 1] - anchor));
        prop_assert_eq!(figures.over_half_period, errors.iter().filter(|e| 2 * (**e - anchor) > PERIOD).count() as u64);
    }

    /// Metrics §21: no other cell and overhead fit better, and none that fit as well are preferred.
    #[test]
    fn steps_of_cells(cell in 33u32..60, overhead in 0u32..60, noise in prop::collection::vec(-0.2f64..0.2, 40)) {
        let points: Vec<(u32, f64)> = (0..40)
            .map(|k| 40 + 12 * k)
            .zip(&noise)
            .map(|(x, e)| (x, 7.5 + 4.0 * f64::from((x + overhead).div_ceil(cell)) + e))
            .collect();
        let fit = |cell: u32, overhead: u32| {
            let of = |p: &(u32, f64)| (f64::from((p.0 + overhead).div_ceil(cell)), p.1);
            let n = points.len() as f64;
            let (mx, my) = points.iter().map(of).fold((0.0, 0.0), |m, p| (m.0 + p.0 / n, m.1 + p.1 / n));
            let sxx: f64 = points.iter().map(of).map(|p| (p.0 - mx).powi(2)).sum();
            let sxy: f64 = points.iter().map(of).map(|p| (p.0 - mx) * (p.1 - my)).sum();
            let slope = sxy / sxx;
            points.iter().map(of).map(|p| (p.1 - my - slope * (p.0 - mx)).powi(2)).sum::<f64>()
        };
        let found = sizes::steps(&points, 32..=64).unwrap();
        prop_assert!(near(found.sse, fit(found.cell, found.overhead)));
        for other in 32..=64 {
            for h in 0..other {
                let sse = fit(other, h);
                prop_assert!(sse >= found.sse * (1.0 - 1e-9) - 1e-9, "{other} {h}: {sse} {}", found.sse);
            }
        }
        prop_assert!(found.significant && (found.per_cell - 4.0).abs() < 0.2);
    }

    /// Metrics §21: the strength is that of the spacing, and a given spacing is found again.
    #[test]
    fn bands_of_times(q in 2.0f64..6.0, from in 0.0f64..1e3, values in prop::collection::vec((0u32..12, -0.5f64..0.5), 60..120)) {
        let times: Vec<f64> = values.iter().map(|(k, e)| from + f64::from(*k) * q + e * q / 8.0).collect();
        prop_assume!(values.iter().map(|v| v.0).collect::<std::collections::BTreeSet<_>>().len() > 6);
        let found = bands::spacing(&times, 1.0, 8.0).unwrap();
        prop_assert!(found.significant() && (found.spacing / q - 1.0).abs() < 0.01, "{found:?} of {q}");
        let turn = std::f64::consts::TAU / found.peak_spacing;
        let (c, s) = times.iter().fold((0.0, 0.0), |(c, s), y| (c + (turn * y).cos(), s + (turn * y).sin()));
        prop_assert!((found.strength - c.hypot(s) / times.len() as f64).abs() < 1e-6);
    }
}

/// Adds values next to the times of the rows, derived from the row's number.
fn with_headers(rows: &mut [PacketRecord], seen: u32) {
    for (k, row) in (0u32..).zip(rows) {
        let changes = k / 100 % 3 == 0;
        if seen & 1 > 0 {
            row.set_ttl(Some(60 + if changes { (k % 4) as u8 } else { 0 }));
            row.set_traffic_class(Some(if changes { (k % 8) as u8 } else { 8 }));
        }
        if seen & 2 > 0 {
            row.set_size(Some(if changes && seen & 16 > 0 { 80 + (k % 3) as u16 } else { 80 }));
        }
        if seen & 4 > 0 {
            let source = if seen & 8 > 0 || k % 50 > 0 { StampSource::Kernel } else { StampSource::User };
            let at = row.sent().unwrap();
            row.set(Moment::Sent, Stamp { at, source });
            row.set_send_lag((k % 7 > 0).then_some(Span(i64::from(k % 97) * 20_000)));
            row.set_entry_lag((k % 5 > 0).then_some(Span(i64::from(k % 11) * 1000)));
            row.set_receive_lag((k % 9 > 0).then_some(Span(i64::from(k % 89) * 150_000)));
        }
    }
}

/// Pool with two threads in addition to the test's own.
struct Three;

impl Helpers for Three {
    fn run(&self, _: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
            work();
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Several threads summarise a long test like one thread, with windows and without.
    #[test]
    fn several_threads_find_what_one_does(
        (n, part) in stream::rows(),
        seen in 0u32..32,
        two_way: bool,
        interval: bool,
    ) {
        let (session, rows) = repeated(n, &part, 25_000 / n + 1, seen, two_way);
        let options = Options {
            interval: interval.then_some(Span(PERIOD * 1500)),
            comparable: true,
            ..jitlat_verdict::options()
        };
        let mut analyzer = Analyzer::new(&session, &options);
        analyzer.push_all(&rows);
        let one = analyzer.clone().finish_with_samples(&session);
        prop_assert_eq!(analyzer.finish_with_helpers(&session, &Three), one);
    }
}

/// Repeats the same rows of `n` packets, one round after the other, with headers given by `seen`.
fn repeated(
    n: u64,
    part: &[PacketRecord],
    rounds: u64,
    seen: u32,
    two_way: bool,
) -> (Session, Vec<PacketRecord>) {
    let mut rows: Vec<PacketRecord> = Vec::new();
    for round in 0..rounds {
        rows.extend(part.iter().map(|row| {
            let later = |at: WallTime| WallTime(at.0 + (round * n) as i64 * PERIOD);
            let mut moved = *row;
            moved.seq += (round * n) as i64;
            for moment in [Moment::Sent, Moment::Arrived] {
                let stamp = row.stamp(moment).unwrap();
                moved.set(moment, Stamp { at: later(stamp.at), ..stamp });
            }
            moved
        }));
    }
    with_headers(&mut rows, seen);
    let mut session = session(n * rounds);
    if two_way {
        answered(&mut session, &mut rows);
    }
    (session, rows)
}

/// Turns the test into a two-way test in which most rows contain the time of the answer.
fn answered(session: &mut Session, rows: &mut [PacketRecord]) {
    session.two_way = Some(Box::new(TwoWay { far_clock: true, ..TwoWay::default() }));
    for (k, row) in rows.iter_mut().enumerate() {
        let at = row.arrived().unwrap();
        let stamp = |by: i64| Stamp { at: WallTime(at.0 + by), source: StampSource::Kernel };
        row.set(Moment::Returned, stamp(3_000_000));
        if k % 13 > 0 {
            row.set(Moment::Answered, stamp(1000));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Records that are analysed in blocks of any size give the same result as one by one: every figure, and
    /// every byte of the state.
    #[test]
    fn records_at_once_are_records_one_by_one(
        (n, part) in stream::rows(),
        times in 1u64..90,
        seen in 0u32..32,
        two_way in prop::bool::weighted(0.2),
        streaming: bool,
        cuts in prop::collection::vec(1usize..4000, 1..20),
    ) {
        // More rows than an analysis in constant memory stores unchanged.
        let (session, rows) = repeated(n, &part, times, seen, two_way);
        let options = Options { streaming, ..jitlat_verdict::options() };
        let (mut at_once, mut one_by_one) = (Analyzer::new(&session, &options), Analyzer::new(&session, &options));
        let (mut rest, mut sizes) = (&rows[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            at_once.push_all(now);
            rest = later;
        }
        rows.iter().for_each(|row| one_by_one.push(row));
        let saved = |analyzer: &Analyzer| SavedAnalysis::of(session.clone(), analyzer.clone()).save().unwrap();
        prop_assert!(saved(&at_once) == saved(&one_by_one), "the state");
        prop_assert_eq!(at_once.finish(&session), one_by_one.finish(&session));
    }
}
