//! [`judge`]: returns the judge that adds this project's verdicts to analyses of `jitlat-core`.

use crate::counts::of_counts;
use crate::judge::into_answer;
use crate::profiles::{PROFILES, Profile};
use crate::two_way::{RequestLosses, two_way};
use crate::warnings::Notes;
use crate::{accumulated, findings};
use jitlat_core::evidence::{
    Conclusion, Evidence, Judge, Judgement, SharedJudge, StretchFindings, StretchSeam, TwoWayEvidence,
    WholeStream,
};
use jitlat_core::{Options, PacketRecord, Session, Summary};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A judge for a list of profiles.
#[derive(Debug)]
struct PathJudge {
    profiles: Cow<'static, [Profile]>,
}

static DEFAULT_JUDGE: LazyLock<SharedJudge> = LazyLock::new(|| judge_for(&PROFILES[..]));

/// Returns the shared judge for the default [`PROFILES`].
pub fn judge() -> SharedJudge {
    DEFAULT_JUDGE.clone()
}

/// Returns a judge for other profiles.
pub fn judge_for(profiles: impl Into<Cow<'static, [Profile]>>) -> SharedJudge {
    SharedJudge::new(PathJudge { profiles: profiles.into() })
}

/// Returns the default options of an analysis together with the [`judge`].
pub fn options() -> Options {
    Options { judge: Some(judge()), ..Options::default() }
}

/// Analyses and judges one stream of records in arrival order, with the default [`options`].
pub fn analyze(session: &Session, records: impl IntoIterator<Item = PacketRecord>) -> Summary {
    jitlat_core::analyze(session, records, &options())
}

impl Judge for PathJudge {
    fn judge(&self, evidence: &Evidence<'_>) -> Judgement {
        crate::judge::judge(evidence, &self.profiles)
    }

    fn add_stretch(
        &self,
        so_far: &mut StretchFindings,
        evidence: &Evidence<'_>,
        seam: &StretchSeam,
        origin: i64,
        due: i64,
    ) -> Vec<u32> {
        accumulated::add(so_far, evidence, seam, origin, due)
    }

    fn judge_stretches(&self, findings: StretchFindings, whole: &WholeStream<'_>) -> Option<Judgement> {
        accumulated::judgement(findings, whole, &self.profiles)
    }

    fn conclude(&self, summary: &mut Summary, conclusion: Conclusion<'_>) {
        let Conclusion { session, round_trips, judgement, both_ways } = conclusion;
        let far_report = summary.two_way.as_ref().and_then(|figures| figures.far_report);
        let losses = summary.loss.events;
        let answer = judgement.map(|judgement| match (far_report, both_ways) {
            (Some(report), _) => of_counts(summary.counts.sent, report.received),
            (None, Some(TwoWayEvidence { answers: [up, down], losses: lost })) => {
                let runs = RequestLosses { runs: lost };
                into_answer(two_way(judgement, [up.as_ref(), down.as_ref()], &runs), &losses)
            }
            (None, None) => into_answer(judgement, &losses),
        });
        summary.answer = answer;
        let warnings = Notes::of(summary, session, round_trips);
        summary.warnings.extend(warnings);
        summary.verdicts = findings(summary);
    }
}
