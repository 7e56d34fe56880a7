//! [`judge`]: returns the judge that adds this project's verdicts to analyses of `jitlat-core`.

use crate::counts::of_counts;
use crate::flood::of_flood;
use crate::judge::into_answer;
use crate::profiles::{PROFILES, Profile};
use crate::sentences::headline::{
    NOTHING_ARRIVED, RateReached, at_rate, no_answer_in_time, only_malformed, rate_reached,
};
use crate::sentences::profiles::{HOSTS_UNKNOWN, rate_not_reached};
use crate::two_way::{RequestLosses, two_way};
use crate::warnings::Notes;
use crate::{accumulated, findings, marks, outcome};
use jitlat_core::answer::{Answer, Cause, CauseId, HostGrade, Severity};
use jitlat_core::evidence::{
    Conclusion, Evidence, Judge, Judgement, SharedJudge, StretchFindings, StretchSeam, TwoWayEvidence,
    WholeStream,
};
use jitlat_core::metrics::schedule_error::Stretched;
use jitlat_core::spec::{Direction, Transport};
use jitlat_core::twoway::BROWSER_REQUESTS;
use jitlat_core::{Options, PacketRecord, Session, Span, Summary};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A judge for a list of profiles.
#[derive(Debug)]
struct PathJudge {
    profiles: Cow<'static, [Profile]>,
    /// True if the profiles include the effects of the hosts.
    with_hosts: bool,
}

static DEFAULT_JUDGE: LazyLock<SharedJudge> = LazyLock::new(|| judge_for(&PROFILES[..]));

/// Returns the shared judge for the default [`PROFILES`].
pub fn judge() -> SharedJudge {
    DEFAULT_JUDGE.clone()
}

/// Returns a judge for other profiles.
pub fn judge_for(profiles: impl Into<Cow<'static, [Profile]>>) -> SharedJudge {
    SharedJudge::new(PathJudge { profiles: profiles.into(), with_hosts: false })
}

/// Returns a judge that includes the effects of the hosts (stalls, their own queues, packets that they refused) in the
/// verdicts for `profiles`, but not in the verdict on the path.
pub fn judge_with_hosts(profiles: impl Into<Cow<'static, [Profile]>>) -> SharedJudge {
    SharedJudge::new(PathJudge { profiles: profiles.into(), with_hosts: true })
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
        crate::judge::judge(evidence, &self.profiles, self.with_hosts)
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
        let mut judgement = accumulated::judgement(findings, whole, &self.profiles)?;
        if self.with_hosts {
            for suits in judgement.answer.profiles.values_mut() {
                (suits.severity, suits.because) = (Severity::Unknown, HOSTS_UNKNOWN.to_owned());
            }
        }
        Some(judgement)
    }

    fn conclude(&self, summary: &mut Summary, conclusion: Conclusion<'_>) {
        let Conclusion { session, round_trips, judgement, both_ways } = conclusion;
        if let (Some(figures), Some(both)) = (summary.two_way.as_mut(), &both_ways) {
            for (way, judged) in [&mut figures.up, &mut figures.down].into_iter().zip(&both.judgements) {
                if let Some((way, judged)) = way.as_mut().zip(judged.as_ref()) {
                    way.without_clock_step.clone_from(&judged.answer.without_clock_step);
                }
            }
        }
        for (direction, judged) in [Direction::Up, Direction::Down]
            .into_iter()
            .zip(both_ways.iter().flat_map(|both| &both.judgements))
        {
            if let Some(quality) = judged.as_ref().map(|judged| judged.quality.clone()) {
                outcome::score_direction(quality, &self.profiles, summary, session, direction);
            }
        }
        let quality = judgement.as_ref().map(|judged| judged.quality.clone());
        let far_report = summary.two_way.as_ref().and_then(|figures| figures.far_report);
        let losses = summary.loss.events;
        summary.coincidences = judgement.iter().flat_map(|judged| judged.coincidences.clone()).collect();
        let flooded = !summary.expects_answers();
        let by_marks = marks::causes(summary);
        let explains_losses = marks::are_losses_by_mark(summary, &by_marks);
        let with_marks = |mut judgement: Judgement| {
            marks::add_causes(&mut judgement.answer, by_marks.clone(), explains_losses);
            judgement
        };
        let losses = (session.spec.transport() != Transport::Tcp).then_some(&losses);
        let mut answer = judgement.map(|judgement| match (far_report, both_ways) {
            _ if flooded => of_flood(judgement, session),
            (Some(report), _) => of_counts(summary.counts.sent, report.received),
            (None, Some(TwoWayEvidence { judgements, losses: lost })) => {
                let runs = RequestLosses { runs: lost };
                let ways = judgements.each_ref().map(|judged| judged.as_ref().map(|judged| &judged.answer));
                into_answer(with_marks(two_way(judgement, ways, &runs)), session.ending, losses)
            }
            (None, None) => into_answer(with_marks(judgement), session.ending, losses),
        });
        let stretched = summary.schedule_error.as_ref().and_then(|error| error.stretched);
        if let Some((answer, stretched)) = answer.as_mut().zip(stretched) {
            at_reached_rate(answer, stretched, summary, session, &self.profiles);
        }
        if let Some((answer, quality)) =
            answer.as_mut().zip(quality.filter(|_| far_report.is_none() && !flooded))
        {
            answer.qoo = outcome::scores(quality, &self.profiles, summary, session, round_trips);
        }
        let malformed = summary.two_way.as_ref().filter(|t| t.not_answers.malformed > 0);
        if let Some((answer, t)) = answer.as_mut().zip(malformed)
            && answer.headline == NOTHING_ARRIVED
        {
            answer.headline = only_malformed(t.not_answers.malformed, t.protocol == "ipsla");
        }
        let of_browser = summary.two_way.as_ref().filter(|t| t.protocol == BROWSER_REQUESTS);
        if let Some((answer, t)) = answer.as_mut().zip(of_browser)
            && answer.headline == NOTHING_ARRIVED
        {
            answer.headline = no_answer_in_time(t.timeout_ns.map(Span));
        }
        summary.answer = answer;
        let warnings = Notes::of(summary, session, round_trips);
        summary.warnings.extend(warnings);
        summary.verdicts = findings(summary);
    }
}

/// Restricts the `answer` to the rate that was reached by a sender that did not keep its schedule.
fn at_reached_rate(
    answer: &mut Answer,
    stretched: Stretched,
    summary: &Summary,
    session: &Session,
    profiles: &[Profile],
) {
    let transport = session.spec.transport();
    let marked = summary.two_way.as_ref().is_some_and(|t| t.marked_slowdown.is_some());
    let reached = RateReached { sent: stretched.rate, asked: stretched.asked, transport, marked };
    answer.headline = at_rate(&answer.headline, reached);
    if transport == Transport::Udp && !marked {
        // A full TCP window stops the sender, too; a UDP sender is slow only by itself.
        let host = answer.host.get_or_insert(HostGrade { severity: Severity::Unknown, causes: Vec::new() });
        if host.severity < Severity::Fair {
            // The grade has a cause like any other.
            host.severity = Severity::Fair;
            host.causes.insert(0, CauseId::SenderStall);
            answer.causes.push(too_slow(reached, summary));
        }
    }
    for profile in profiles {
        let needed = 1e3 / profile.period_ms;
        let is_asked = stretched.asked >= MIN_RATE_SHARE * needed;
        let is_reached = stretched.rate >= MIN_RATE_SHARE * needed;
        let Some(suits) = answer.profiles.get_mut(&*profile.name).filter(|_| is_asked && !is_reached) else {
            continue;
        };
        if matches!(suits.severity, Severity::Good | Severity::Fair) {
            suits.severity = Severity::Unknown;
            suits.because = rate_not_reached(stretched.rate, needed);
        }
    }
}

/// Returns the cause of the hosts' grade if the sending host did not reach the requested rate. It lasts for the whole test.
fn too_slow(reached: RateReached, summary: &Summary) -> Cause {
    let mut cause = Cause::new(CauseId::SenderStall, Severity::Fair, 0.95);
    cause.to_s = summary.counts.sent as f64 / reached.sent;
    cause.packets = [0, summary.counts.sent.saturating_sub(1)];
    cause.magnitude = Some(1.0 - reached.sent / reached.asked);
    cause.because = rate_reached(reached);
    cause
}

/// Minimum share of a profile's rate at which a test shows how the path carries it.
const MIN_RATE_SHARE: f64 = 0.9;

#[cfg(test)]
mod tests;
