//! [`Evidence`]: what the analysis of one stream hands over to be judged, and [`Judge`]: who judges it.
//!
//! Core measures and does not judge. An analysis with [`Options::judge`](crate::Options::judge) calls that judge with its
//! evidence, and the summary contains what it concludes; `jitlat-verdict` has the judge of this project. Without a judge, a
//! summary has figures only. A judge is asked during the analysis because the evidence on a stream of any length is
//! handed over stretch by stretch: only [`StretchFindings`] are retained.

mod known;
mod row_notes;
mod stretches;

pub use known::KnownPackets;
pub use row_notes::RowNotes;
pub use stretches::{FoundCause, MAX_CAUSES_PER_KIND, StretchFindings, StretchSeam, WholeStream};

use crate::answer::Answer;
use crate::distribution::sample::Sample;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::Series;
use crate::session::Session;
use crate::spec::Transport;
use crate::summary::Summary;
use crate::time::StampSource;
use crate::twoway::LossRun;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The input of a judgement: what was measured of one stream.
pub struct Evidence<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// The packets with a delay, in send order.
    pub series: &'a Series<'a>,
    /// The numbers of all packets that came, with a delay or without.
    pub came: &'a SeqSet,
    /// The delays in order; None where nothing else needs them in order.
    pub sample: Option<&'a Sample>,
    /// Number of duplicates; `None` if unknown.
    pub copies: &'a Copies,
    /// What is known of the clocks.
    pub clock: &'a ClockEstimate,
    /// What was noted row by row.
    pub notes: &'a RowNotes,
    /// Where all receive times were stamped; `None` if in several places.
    pub arrived_by: Option<StampSource>,
    /// Smallest and largest send time less the time it was due at, in ns from any origin; None where no period is known.
    pub off_schedule: Option<[i64; 2]>,
    /// The delays are of a way there and back, by one clock.
    pub round_trip: bool,
}

impl Evidence<'_> {
    /// The smallest delay, in ns; None without packets.
    pub fn min(&self) -> Option<i64> {
        let lowest = || self.series.lowest_delay(0..self.series.len());
        self.sample.map_or_else(|| (!self.series.is_empty()).then(lowest), Sample::min)
    }

    /// Nominal time between packets in ns, where departures follow it.
    pub fn period(&self) -> Option<i64> {
        self.session.period().map(|p| bounded(p.0))
    }

    /// Whether the transport shows loss and order.
    pub fn shows_loss(&self) -> bool {
        self.session.spec.transport() == Transport::Udp
    }

    /// Whether arrivals were stamped before any program could be late for them.
    pub fn is_stamped_by_kernel(&self) -> bool {
        self.arrived_by.is_some_and(|source| source != StampSource::User)
    }
}

/// The longest time or delay that is judged, in ns: two years.
const MAX_JUDGED_NS: i64 = 1 << 56;

/// A time or a delay in ns, held within two years.
#[inline]
pub fn bounded(ns: i64) -> i64 {
    ns.clamp(-MAX_JUDGED_NS, MAX_JUDGED_NS)
}

/// Judges tests from what their analysis found.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Judges a test whose evidence is at hand as a whole.
    fn judge(&self, evidence: &Evidence<'_>) -> Judgement;

    /// Adds the next stretch of a stream to the findings `so_far`. `seam` says what the numbers in `evidence` stand for;
    /// `origin` is when the first packet of the stream was sent, and `due` when the first one of the stretch was if none
    /// of it came, in ns. Returns where what lasts to the end of the stretch begins, by the numbers of the stretch,
    /// ascending.
    fn add_stretch(
        &self,
        so_far: &mut StretchFindings,
        evidence: &Evidence<'_>,
        seam: &StretchSeam,
        origin: i64,
        due: i64,
    ) -> Vec<u32>;

    /// Judges a stream that was analysed in stretches; `None` if something is known of it that its stretches could not
    /// know.
    fn judge_stretches(&self, findings: StretchFindings, whole: &WholeStream<'_>) -> Option<Judgement>;

    /// Completes a summary whose figures are known: its answer, verdicts and warnings.
    fn conclude(&self, summary: &mut Summary, conclusion: Conclusion<'_>);
}

/// A judgement whose texts are not complete yet.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The answer without its headline.
    pub answer: Answer,
    /// How much of the test is known.
    pub known: KnownPackets,
    /// Packets that came.
    pub received: u64,
    /// Packets that were sent, and did not come.
    pub lost: u64,
    /// The most noticeable effect, for tests whose causes do not account for it.
    pub felt: Option<String>,
}

/// What a conclusion needs in addition to the figures of a summary.
pub struct Conclusion<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// Whether the delays are round trips.
    pub round_trips: bool,
    /// The judgement on the stream; `None` where there is none.
    pub judgement: Option<Judgement>,
    /// What a two-way test shows of its directions; `None` for other tests.
    pub both_ways: Option<TwoWayEvidence<'a>>,
}

/// What a two-way test shows of its directions.
pub struct TwoWayEvidence<'a> {
    /// The answers of up and down by themselves, if the far host reports its times.
    pub answers: [Option<Answer>; 2],
    /// Where requests without an answer were lost.
    pub losses: &'a [LossRun],
}

/// A [`Judge`] that analyses share. Two are equal if they are the same judge.
#[derive(Clone, Debug)]
pub struct SharedJudge(Arc<dyn Judge>);

impl SharedJudge {
    /// Makes `judge` available to any number of analyses.
    pub fn new(judge: impl Judge + 'static) -> SharedJudge {
        SharedJudge(Arc::new(judge))
    }
}

impl Deref for SharedJudge {
    type Target = dyn Judge;

    fn deref(&self) -> &(dyn Judge + 'static) {
        &*self.0
    }
}

impl PartialEq for SharedJudge {
    fn eq(&self, other: &SharedJudge) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
