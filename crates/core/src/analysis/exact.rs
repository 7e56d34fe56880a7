//! The exact analysis: computes every metric from all accepted packets.

use super::assemble::{self, Findings};
use super::engine::Engine;
use super::found::Test;
use super::gathered::Gathered;
use super::windows;
use crate::comparable::Comparable;
use crate::evidence::{Evidence, Judgement, RowNotes};
use crate::helpers::Helpers;
use crate::metrics::METRICS;
use crate::metrics::all_packets::AllPackets;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::known::{ArrivalCounts, DelayKind, StreamFacts};
use crate::metrics::metric::Write;
use crate::metrics::periods::PacketExtent;
use crate::metrics::schedule_error::{SendErrors, extreme_errors};
use crate::metrics::series::Series;
use crate::metrics::stream::EndedStream;
use crate::session::Session;
use crate::summary::{Interval, Summary};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Slow computations that several metrics share. Threads perform them in this order before the metrics are computed.
const AHEAD: [fn(&Exact<'_>); 5] = [
    |found| _ = found.all.sample(),
    |found| _ = found.all.trend(),
    |found| _ = found.all.errors(),
    |found| _ = found.judgement(),
    |found| _ = found.comparable(),
];

/// The exact analysis of a stream, with all accepted packets in memory.
pub(super) struct Exact<'a> {
    engine: &'a Engine,
    gathered: &'a Gathered,
    all: &'a AllPackets<'a>,
    stream: EndedStream<'a>,
    helpers: Option<&'a dyn Helpers>,
    judgement: OnceLock<Judgement>,
    comparable: OnceLock<Comparable>,
    /// Results of the metrics that were computed in advance, in the order of the metrics list.
    results: Vec<Mutex<Option<Write>>>,
}

/// Calls `make` with the findings about a stream whose packets are all stored, and returns its result. `late` is the
/// number of packets that were removed because they arrived too late.
pub(super) fn found<T>(
    engine: &Engine,
    gathered: &Gathered,
    test: Test<'_>,
    clock: ClockEstimate,
    late: u64,
    helpers: Option<&dyn Helpers>,
    make: impl FnOnce(&dyn Findings) -> T,
) -> T {
    let series = Series::new(&gathered.samples);
    let known = StreamFacts {
        counted: ArrivalCounts { late, ..engine.counted(test.session) },
        ..engine.known(test, clock, &PacketExtent::of(&series))
    };
    let (came, mut accepted) = (&engine.classifier.accepted, Cow::Borrowed(&engine.classifier.accepted));
    gathered.delayless.iter().for_each(|seq| {
        accepted.to_mut().remove(seq);
    });
    let queued = gathered.notes.iter().flat_map(RowNotes::waits).collect();
    let packets = (&gathered.samples, series);
    let all = AllPackets::new(&known, packets, &accepted, Cow::Borrowed(came), &gathered.copies, queued);
    let mut found = Exact {
        engine,
        gathered,
        all: &all,
        stream: EndedStream::of_all(&all),
        helpers,
        judgement: OnceLock::new(),
        comparable: OnceLock::new(),
        results: Vec::new(),
    };
    if let Some(helpers) = helpers {
        found.compute_ahead(helpers);
    }
    make(&found)
}

impl Exact<'_> {
    /// Computes the slow parts on all threads.
    fn compute_ahead(&mut self, helpers: &dyn Helpers) {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Write>>> = METRICS.iter().map(|_| Mutex::default()).collect();
        let pieces = AHEAD.len() + METRICS.len();
        helpers.run(pieces, &|| {
            loop {
                let k = next.fetch_add(1, Ordering::Relaxed);
                if let Some(compute) = AHEAD.get(k) {
                    compute(self);
                } else if let Some((metric, result)) = METRICS.iter().zip(&results).nth(k - AHEAD.len()) {
                    let found = metric.found_of_all(&self.stream, self.all);
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                } else {
                    break;
                }
            }
        });
        self.results = results;
    }
}

impl Exact<'_> {
    /// Returns the smallest and the largest lateness of the sender, in ns, compared with the original schedule: a stall
    /// shifts the schedule, which would hide the stall from the verdict. `None` if the due times are unknown.
    fn off_schedule(&self) -> Option<[i64; 2]> {
        let session = self.stream.known.session;
        match session.schedule_shifts.is_empty() {
            true => self.all.errors().map(SendErrors::extremes),
            false => session.period().and_then(|_| extreme_errors(&self.all.series, &session.spec)),
        }
    }
}

impl Findings for Exact<'_> {
    fn stream(&self) -> &EndedStream<'_> {
        &self.stream
    }

    fn write(&self, to: &mut Summary) {
        for (k, metric) in METRICS.iter().enumerate().filter(|(_, m)| m.is_of(self.stream.known.kind)) {
            let result = self.results.get(k).map(|r| r.lock().unwrap_or_else(PoisonError::into_inner).take());
            let result = result.flatten().unwrap_or_else(|| metric.found_of_all(&self.stream, self.all));
            result(&self.stream, to);
        }
    }

    fn intervals(&self) -> Vec<Interval> {
        let known = self.stream.known;
        let Some(length) = known.options.interval else { return Vec::new() };
        let AllPackets { series, came, .. } = self.all;
        let (session, end) = (known.session, known.counted.end);
        let windows = windows::of(series, came, self.gathered, session, end, length);
        let options = windows::options(known.options);
        let summary = |part: &Engine, session: &Session| {
            let Some(gathered) = part.gathered() else { return Summary::default() };
            let test = Test { session, options: &options, kind: known.kind };
            found(part, gathered, test, gathered.clock(session), 0, None, |found| {
                assemble::summary(found, None, Vec::new())
            })
        };
        windows::analysed(windows, self.engine, session, series, end, self.helpers, summary)
    }

    fn judgement(&self) -> Option<Judgement> {
        let Gathered { copies, notes, .. } = self.gathered;
        let (notes, known) = (notes.as_ref()?, self.stream.known);
        let judge = known.options.judge.as_ref()?;
        let judged = || {
            judge.judge(&Evidence {
                session: known.session,
                series: &self.all.series,
                came: &self.all.came,
                sample: Some(self.all.sample()),
                copies,
                clock: &known.clock,
                notes,
                arrived_by: self.engine.tally.arrived_by(),
                off_schedule: self.off_schedule(),
                round_trip: known.kind == DelayKind::RoundTrips,
            })
        };
        Some(self.judgement.get_or_init(judged).clone())
    }

    fn comparable(&self) -> Option<Comparable> {
        let delays = || self.all.series.iter().map(|p| p.delay).collect();
        let is_wanted = self.stream.known.options.comparable;
        is_wanted
            .then(|| self.comparable.get_or_init(|| Comparable::new(delays(), self.all.sample())).clone())
    }
}
