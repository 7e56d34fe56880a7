//! Marks of packets and delays by mark.

use crate::analysis::tally::Tally;
use crate::ecn::{ByMark, Ecn};
use crate::metrics::known::DelayKind;
use crate::metrics::marks::{MarkBlocks, MarkFigures};
use crate::metrics::metric::{AcceptedPackets, Metric};
use crate::metrics::stream::EndedStream;
use crate::scalars::{Applies, Scalar, ScalarGetter, ScalarUnit};
use crate::session::Session;
use crate::summary::Summary;

/// Marks of packets and delays by mark.
pub type Marks = MarkBlocks;

impl Metric for Marks {
    const SCALARS: &'static [Scalar] = &[
        Scalar::new(
            "ecn-ce",
            "CE marks",
            ScalarUnit::Share,
            ScalarGetter::Real(|s| share_of_ce(s.marks()?)),
        )
        .about("share of ECT packets that arrived with CE (congestion experienced), of those sent with --ecn")
        .source("RFC 3168 §5")
        .lower_is_better()
        .only(Applies { passive: false, ..Applies::STREAMS }),
        Scalar::new(
            "ecn-l4s-gain",
            "L4S gain",
            ScalarUnit::Time,
            ScalarGetter::Whole(|s| s.marks()?.delay.as_ref()?.difference.median_ns),
        )
        .about(
            "median of the time by which packets for the low-latency queue (ECT(1), CE) are faster than others of the same \
             block, with --ecn both",
        )
        .source("RFC 9331 §5.1")
        .only(Applies { passive: false, ..Applies::STREAMS }),
    ];
    type Found = Option<MarkFigures>;

    fn begin(test: &Session) -> Marks {
        MarkBlocks::new(test.spec.marking)
    }

    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        MarkBlocks::push(self, packets);
    }

    fn join(&mut self, later: Marks, lead: &Marks) {
        MarkBlocks::join(self, later, lead);
    }

    fn is_possible(&self, n: u64) -> bool {
        MarkBlocks::is_possible(self, n)
    }

    fn found(&self, stream: &EndedStream<'_>) -> Option<MarkFigures> {
        let known = stream.known;
        let session = known.session;
        let marking = session.spec.marking;
        let rows = known.tally.marks();
        let is_one_way_of_two = known.kind == DelayKind::Direction;
        let sent = || {
            let mut sent = marking.count(0..known.counted.end);
            for run in session.uncounted_in(0, known.counted.end) {
                let out = marking.count(run.start..run.start.saturating_add(run.len));
                Ecn::ALL.iter().for_each(|mark| sent[*mark] = sent[*mark].saturating_sub(out[*mark]));
            }
            sent
        };
        let sent = (!is_one_way_of_two).then(sent);
        let received = self.received();
        // A row of a round trip has the mark of the request as sent and the mark of the answer as received, which cannot be
        // compared.
        let received_marks = rows.counts().filter(|_| known.kind != DelayKind::RoundTrips);
        marking.is_on().then(|| MarkFigures {
            marking,
            lost: sent.map(|sent| ByMark::of(|mark| sent[mark].saturating_sub(received[mark]))),
            sent,
            congestion_experienced: received_marks.and_then(|_| rows.congestion_experienced()),
            received: received_marks,
            delay: self.delay().filter(|_| !is_one_way_of_two || are_interleaved(known.tally)),
        })
    }

    fn write(found: Option<MarkFigures>, _: &EndedStream<'_>, to: &mut Summary) {
        to.marks = found.map(Box::new);
    }
}

/// Returns true if packets of all four marks are known to have been sent. Some far hosts do not apply the marks that are
/// requested for their answers.
fn are_interleaved(tally: &Tally) -> bool {
    tally.marks().counts().is_some_and(|counts| Ecn::ALL.iter().all(|sent| counts[*sent].total() > 0))
}

/// Returns the share of ECT packets that arrived with CE; `None` without any.
fn share_of_ce(figures: &MarkFigures) -> Option<f64> {
    let received = figures.received?;
    let (ect1, ect0) = (received.ect1, received.ect0);
    let all = ect1.total() + ect0.total();
    (all > 0).then(|| (ect1.ce + ect0.ce) as f64 / all as f64)
}
