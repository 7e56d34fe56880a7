//! [`Evidence`]: the findings about one stream that a [`Judge`] receives.
//!
//! This crate measures and does not judge. An analysis with [`Options::judge`](crate::Options::judge) passes its
//! evidence to that judge, and the summary contains the judge's conclusions; `jitlat-verdict` has the judge of this
//! project. Without a judge, a summary contains only figures. A judge is asked during the analysis because the evidence
//! on a long stream is passed to the judge stretch by stretch, and only [`StretchFindings`] are retained.

mod known;
mod row_notes;
mod stretches;

pub use known::KnownPackets;
pub use row_notes::RowNotes;
pub use stretches::{FoundCause, MAX_CAUSES_PER_KIND, StretchFindings, StretchSeam, WholeStream};

use crate::answer::{Answer, Coincidence};
use crate::distribution::sample::Sample;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::qoo::MeasuredQuality;
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

/// Input of a verdict: the measurements of one stream.
pub struct Evidence<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// Packets whose delay is known, in send order.
    pub series: &'a Series<'a>,
    /// Sequence numbers of all received packets, including those whose delay is unknown.
    pub came: &'a SeqSet,
    /// Sorted delays; `None` if no figure needed them sorted.
    pub sample: Option<&'a Sample>,
    /// Packets that arrived more than once.
    pub copies: &'a Copies,
    /// Estimate of the clocks.
    pub clock: &'a ClockEstimate,
    /// Notes on single rows.
    pub notes: &'a RowNotes,
    /// Source of the arrival stamps; `None` if there are no stamps, or stamps from several sources.
    pub arrived_by: Option<StampSource>,
    /// Smallest and largest difference between send time and due time, in ns, with an arbitrary zero; `None` if the
    /// period is unknown.
    pub off_schedule: Option<[i64; 2]>,
    /// True if the delays are round trips, measured with one clock.
    pub round_trip: bool,
}

impl Evidence<'_> {
    /// Returns the smallest delay, in ns; `None` without packets.
    pub fn min(&self) -> Option<i64> {
        let lowest = || self.series.lowest_delay(0..self.series.len());
        self.sample.map_or_else(|| (!self.series.is_empty()).then(lowest), Sample::min)
    }

    /// Returns the nominal time between packets in ns; `None` if the sender does not follow a schedule.
    pub fn period(&self) -> Option<i64> {
        self.session.period().map(|p| bounded(p.0))
    }

    /// Returns true if the transport lets loss and reordering be observed.
    pub fn shows_loss(&self) -> bool {
        self.session.spec.transport() == Transport::Udp
    }

    /// Returns true if the kernel stamped the arrivals. Scheduling of the program does not affect such stamps.
    pub fn is_stamped_by_kernel(&self) -> bool {
        self.arrived_by.is_some_and(|source| source != StampSource::User)
    }
}

/// Limit of times and delays that are judged, in ns: about two years.
const MAX_JUDGED_NS: i64 = 1 << 56;

/// Clamps a time or a delay, in ns, to about two years in either direction.
#[inline]
pub fn bounded(ns: i64) -> i64 {
    ns.clamp(-MAX_JUDGED_NS, MAX_JUDGED_NS)
}

/// Derives verdicts from the measurements of a test.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Judges a test whose evidence is complete.
    fn judge(&self, evidence: &Evidence<'_>) -> Judgement;

    /// Adds the next stretch of a stream to the findings `so_far`. `seam` maps the packet numbers in `evidence` to
    /// those in the stream. `origin` is the time at which the first packet of the stream was sent, `due` the due time
    /// of the first packet of the stretch, both in ns. Returns the start positions, ascending, of events that are still
    /// in progress at the end of the stretch.
    fn add_stretch(
        &self,
        so_far: &mut StretchFindings,
        evidence: &Evidence<'_>,
        seam: &StretchSeam,
        origin: i64,
        due: i64,
    ) -> Vec<u32>;

    /// Judges a stream that was analysed in stretches; `None` if facts about the whole stream contradict the
    /// verdicts on its stretches.
    fn judge_stretches(&self, findings: StretchFindings, whole: &WholeStream<'_>) -> Option<Judgement>;

    /// Completes a summary that already has its figures: adds answer, verdicts and warnings.
    fn conclude(&self, summary: &mut Summary, conclusion: Conclusion<'_>);
}

/// A verdict without its final texts.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The answer without its headline.
    pub answer: Answer,
    /// The packets known to be received or lost.
    pub known: KnownPackets,
    /// Number of packets received.
    pub received: u64,
    /// Number of packets sent and not received.
    pub lost: u64,
    /// The effect that users notice most, if no cause of the test explains it; otherwise `None`.
    pub felt: Option<String>,
    /// Quantities of the interface that change together with loss or delay; empty if none do, or if they are unknown.
    pub coincidences: Vec<Coincidence>,
    /// Delay and loss of the path, without the packets that the hosts delayed or dropped, for scores of profiles.
    pub quality: MeasuredQuality,
}

/// Data that the conclusion needs in addition to the figures of a summary.
pub struct Conclusion<'a> {
    /// The session of the test.
    pub session: &'a Session,
    /// True if the delays are round trips.
    pub round_trips: bool,
    /// The verdict on the stream; `None` if there is none.
    pub judgement: Option<Judgement>,
    /// The two directions of a two-way test; `None` for other tests.
    pub both_ways: Option<TwoWayEvidence<'a>>,
}

/// Evidence about the two directions of a two-way test.
pub struct TwoWayEvidence<'a> {
    /// Verdicts on the up and the down direction; `None` if the far host does not report its timestamps.
    pub judgements: [Option<Judgement>; 2],
    /// Runs of requests without an answer, and the direction in which each was lost.
    pub losses: &'a [LossRun],
}

/// A [`Judge`] shared by several analyses. Two values are equal if they refer to the same object.
#[derive(Clone, Debug)]
pub struct SharedJudge(Arc<dyn Judge>);

impl SharedJudge {
    /// Makes `judge` available to several analyses.
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
