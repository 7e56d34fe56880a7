//! Analyses each window of `--interval` separately.

use super::Options;
use super::engine::Engine;
use super::gathered::Gathered;
use super::tally::Tally;
use crate::helpers::Helpers;
use crate::metrics::classify::Classifier;
use crate::metrics::interval;
use crate::metrics::seqset::{SeqRun, SeqSet};
use crate::metrics::series::{Samples, Series, runs};
use crate::session::{Ending, Session};
use crate::spec::Schedule;
use crate::summary::{Interval, Summary};
use crate::time::Span;
use std::sync::{Mutex, PoisonError};

/// Maximum number of windows with a summary of their own. A summary takes some kilobytes.
const MAX_SUMMARIES: usize = 10_000;

/// The packets of one window. Sequence numbers are relative to its first packet.
#[derive(Default)]
struct Window {
    packets: Gathered,
    waited: Vec<u32>,
}

/// Returns the windows of length `length` with their counts; `end` is the sequence number after the last packet.
pub(super) fn of(
    series: &Series<'_>,
    came: &SeqSet,
    gathered: &Gathered,
    session: &Session,
    end: u64,
    length: Span,
) -> Vec<Interval> {
    let period = session.period_known.then(|| session.spec.period());
    interval::windows(series, came, &gathered.copies, session, end, period, length)
}

/// Returns the options for analysing a single window.
pub(super) fn options(options: &Options) -> Options {
    Options { interval: None, bootstrap: None, comparable: false, wait: None, ..options.clone() }
}

/// Adds the delays of each window to `windows`, and, unless there are too many, the summary that `summarise`
/// makes of its packets. Uses several threads if there are `helpers`. All windows use the clock estimate of
/// the whole test; windows of a Poisson or burst schedule have no due times.
pub(super) fn analysed(
    mut windows: Vec<Interval>,
    engine: &Engine,
    session: &Session,
    series: &Series<'_>,
    end: u64,
    helpers: Option<&dyn Helpers>,
    summarise: impl Fn(&Engine, &Session) -> Summary + Sync,
) -> Vec<Interval> {
    let Some(gathered) = engine.gathered() else { return windows };
    let ends: Vec<u64> = windows.iter().skip(1).map(|w| w.first_seq).chain([end]).collect();
    if windows.len() > MAX_SUMMARIES {
        windows.iter_mut().zip(ends).for_each(|(window, end)| interval::add_delays(window, end, series));
        return windows;
    }
    let parts = split(&windows, engine, gathered);
    let add = |window: &mut Interval, part: Window, to: u64| {
        let from = window.first_seq;
        let shifted = |run: SeqRun| SeqRun { start: run.start - from, ..run };
        let unrecorded: Vec<SeqRun> = session.unrecorded_in(from, to).map(shifted).collect();
        let skipped: Vec<SeqRun> = session.skipped_in(from, to).map(shifted).collect();
        let Ok(packets) = u32::try_from(to - from) else {
            return interval::add_delays(window, to, series);
        };
        let session = Session {
            declared: Some(packets.into()),
            sent: Some(packets),
            // All packets in a window are known to be received or lost, however the test ended.
            ending: Ending::Complete,
            truncated: false,
            unrecorded,
            // Only for the whole test is it known how many packets the hosts refused or dropped.
            unsent: skipped.iter().map(|run| run.len).sum(),
            receiver_drops: None,
            path_mtu: session.path_mtu.filter(|_| from == 0),
            skipped,
            unreported: 0,
            tcp: Vec::new(),
            period_known: session.period_known && session.spec.schedule() == Schedule::Periodic,
            ..session.clone()
        };
        let Window { packets: part, waited } = part;
        let mut classifier = Classifier::new(packets);
        classifier.received = part.samples.len() as u64 + part.delayless.len() + part.copies.len();
        runs(&part.samples.seq).for_each(|run| classifier.accepted.insert_run(run));
        part.delayless.iter().for_each(|seq| {
            classifier.accepted.insert(seq);
        });
        let mut tally = Tally::new(session.spec.payload(), i64::MAX);
        tally.waited = waited;
        let summary = summarise(&Engine::of(&engine.test, classifier, tally, part), &session);
        interval::take_delays(window, &summary);
        window.summary = Some(Box::new(summary));
    };
    let pieces = windows.len();
    let left = Mutex::new(windows.iter_mut().zip(parts).zip(ends));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let add_all = || {
        while let Some(((window, part), to)) = next() {
            add(window, part, to);
        }
    };
    match helpers {
        Some(helpers) => helpers.run(pieces, &add_all),
        None => add_all(),
    }
    windows
}

fn split(windows: &[Interval], engine: &Engine, gathered: &Gathered) -> Vec<Window> {
    let mut parts: Vec<Window> = windows.iter().map(|_| Window::default()).collect();
    // The last window that begins at or before the packet. A window without packets begins at the same packet
    // as the next one.
    let window_of = |seq: u32| {
        let k = windows.partition_point(|w| w.first_seq <= u64::from(seq)).checked_sub(1)?;
        Some((k, (u64::from(seq) - windows[k].first_seq) as u32))
    };
    let (Samples { seq, sent, delay, .. }, mut at) = (&gathered.samples, 0);
    while let Some(first) = seq.get(at) {
        let Some((k, _)) = window_of(*first) else {
            at += 1;
            continue;
        };
        let (from, end) = (windows[k].first_seq, windows.get(k + 1).map_or(u64::MAX, |w| w.first_seq));
        let these = seq[at..].iter().take_while(|seq| (from..end).contains(&u64::from(**seq))).count();
        let (to, these) = (&mut parts[k].packets.samples, at..at + these);
        to.seq.extend(seq[these.clone()].iter().map(|seq| seq - from as u32));
        to.sent.extend_from_slice(&sent[these.clone()]);
        to.delay.extend_from_slice(&delay[these.clone()]);
        at = these.end;
    }
    for seq in gathered.delayless.iter() {
        if let Some((k, seq)) = window_of(seq) {
            parts[k].packets.delayless.insert(seq);
        }
    }
    for (seq, arrived) in gathered.copies.iter() {
        if let Some((k, seq)) = window_of(seq) {
            parts[k].packets.copies.push(seq, arrived);
        }
    }
    for seq in &engine.tally.waited {
        if let Some((k, seq)) = window_of(*seq) {
            parts[k].waited.push(seq);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyze;
    use crate::spec::{Direction, TestSpec, Transport};
    use crate::{PacketRecord, WallTime};

    const PERIOD: i64 = 10_000_000;

    fn session(packets: u64) -> Session {
        let period = Span(PERIOD);
        Session::new(
            TestSpec::new(Direction::Up, Transport::Udp, packets, 80, period, Schedule::Periodic).unwrap(),
        )
    }

    /// Records of a stream in which every seventh packet is lost, every fifth duplicated and every eleventh
    /// late.
    fn records(numbers: core::ops::Range<i64>) -> Vec<PacketRecord> {
        let first = numbers.start;
        let mut records: Vec<PacketRecord> = Vec::new();
        for seq in numbers.filter(|seq| seq % 7 != 3) {
            let late = if seq % 11 == 0 { 2 * PERIOD } else { 0 };
            let sent = seq * PERIOD;
            let arrived = sent + 1_000_000 + seq * seq % 13 * 10_000 + late;
            let record = PacketRecord::one_way(seq - first, WallTime(sent), WallTime(arrived));
            records.extend(std::iter::repeat_n(record, if seq % 5 == 0 { 2 } else { 1 }));
        }
        records.sort_by_key(PacketRecord::arrived);
        records
    }

    #[test]
    fn a_window_has_the_summary_of_a_test_of_its_own() {
        let options = Options { interval: Some(Span::seconds(1)), ..Options::default() };
        let whole = analyze(&session(300), records(0..300), &options);
        assert_eq!(whole.intervals.len(), 3);
        for (k, window) in (0..).zip(&whole.intervals) {
            let alone = Options { interval: None, ..options.clone() };
            let known = Session { sent: Some(100), ending: Ending::Complete, ..session(100) };
            let own = analyze(&known, records(k * 100..(k + 1) * 100), &alone);
            let summary = window.summary.as_deref().unwrap();
            assert_eq!(summary.counts, own.counts);
            assert_eq!(summary.loss, own.loss);
            assert_eq!(summary.reordering, own.reordering);
            assert_eq!(summary.duplicates, own.duplicates);
            assert_eq!(summary.rfc3550_jitter, own.rfc3550_jitter);
            assert_eq!((&summary.pdv, &summary.ipdv), (&own.pdv, &own.ipdv));
            assert_eq!(summary.dejitter, own.dejitter);
            assert_eq!(summary.counts.lost, window.lost);
        }
    }
}
