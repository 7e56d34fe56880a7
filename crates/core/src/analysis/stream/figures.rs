//! [`Streamed`]: what was found of a stream that has ended.

use super::super::Options;
use super::super::assemble::Findings;
use super::super::stretches::Ended;
use super::Stream as Kept;
use crate::evidence::{Judgement, KnownPackets};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::known::{ArrivalCounts, DelayKind, StreamFacts};
use crate::metrics::periods::MeanPeriods;
use crate::metrics::stream::{EndedStream, Sketch};
use crate::session::Session;
use crate::summary::Summary;
use std::sync::OnceLock;

/// A stream that has ended, with what is known of its test.
struct Streamed<'a> {
    kept: &'a Kept,
    extent: KnownPackets,
    stream: EndedStream<'a>,
}

/// What `make` makes of a stream that has ended.
pub(in super::super) fn found<T>(
    kept: Kept,
    (session, options, kind): (&Session, &Options, DelayKind),
    make: impl FnOnce(&dyn Findings) -> T,
) -> T {
    let kept = kept.settled();
    let extent = kept.extent(session);
    let counted = ArrivalCounts {
        sent: extent.sent,
        tail_unknown: !extent.complete,
        end: extent.end,
        received: kept.classifier.received,
        accepted: kept.moments.n() + kept.delayless,
        duplicate: kept.copies.total,
        invalid: kept.classifier.invalid,
        late: 0,
        rx_time_regressions: kept.tally.rx_time_regressions,
        delayless: kept.delayless,
    };
    let known = StreamFacts {
        session,
        options,
        percents: options.all_percents(),
        clock: ClockEstimate::new(session, None),
        counted,
        periods: MeanPeriods::new(session, &kept.extent),
        kind,
        tally: &kept.tally,
        two_way: OnceLock::new(),
    };
    let unrecorded = session.unrecorded_in(0, counted.end);
    let unknown = counted.end.saturating_sub(counted.sent);
    let sketch = Sketch {
        moments: &kept.moments,
        sums: &kept.sums,
        delays: &kept.delays,
        loss: kept.losses.clone().finish(counted.end, unknown, unrecorded, known.periods.mean()),
        duplicates: kept.copies.figures(counted.accepted),
    };
    make(&Streamed { kept: &kept, extent, stream: EndedStream::sketched(&known, sketch) })
}

impl Findings for Streamed<'_> {
    fn stream(&self) -> &EndedStream<'_> {
        &self.stream
    }

    fn write(&self, to: &mut Summary) {
        self.kept.metrics.write(&self.stream, to);
    }

    fn judgement(&self) -> Option<Judgement> {
        let known = self.stream.known;
        self.kept.stretches.as_ref()?.judgement(&Ended {
            session: known.session,
            known: self.extent,
            clock: &known.clock,
            received: known.counted.accepted,
            min: self.kept.moments.min(),
            round_trip: known.kind == DelayKind::RoundTrips,
        })
    }
}
