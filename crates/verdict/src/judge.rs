//! [`judge`]: computes the verdict on a test from its evidence. [`into_answer`] adds the headline.

use super::case::{Case, MIN_PACKETS};
use super::causes::{FoundCause, RULES, merge_repeated};
use super::coincidence::coincidences;
use super::outcome;
use super::profiles::{Interruption, Profile, SentTraffic};
use super::sentences::coincidence::coincides;
use super::sentences::headline::{
    effect_of_delay, effect_of_jitter, effect_of_missing, headline, not_as_asked, too_few_packets,
};
use super::sentences::profiles::with_the_hosts;
use super::severity::{Experience, Played, Waits, of_outage};
use jitlat_core::answer::{
    Answer, Cause, CauseId, Coincidence, DelayShift, Fault, HostGrade, JitterWithoutStep, PacketEffect,
    Severity,
};
use jitlat_core::evidence::KnownPackets;
use jitlat_core::evidence::{Evidence, Judgement};
use jitlat_core::metrics::qoo::MeasuredQuality;
use jitlat_core::session::{Ending, Session};
use jitlat_core::summary::ShareInterval;

/// Returns the verdict in `judgement` on a test that ended with `ending`, completed with its headline. `losses` has the
/// interval of the loss ratio; `None` over TCP, which repeats lost packets.
pub fn into_answer(judgement: Judgement, ending: Ending, losses: Option<&ShareInterval>) -> Answer {
    let Judgement { mut answer, known, received, lost, mut felt, .. } = judgement;
    if answer.severity == Severity::Unknown && known.sent < MIN_PACKETS as u64 {
        felt = felt.or_else(|| Some(too_few_packets(known.sent, lost, losses)));
    }
    answer.headline = headline(&answer, ending, known, [received, lost], felt.as_deref());
    answer
}

/// Findings of a test, from which its verdict is derived.
pub(super) struct CaseFindings {
    /// Causes, in any order.
    pub found: Vec<FoundCause>,
    /// Impairments that an application experiences, without those that the hosts added.
    pub lived: Experience,
    /// Impairments that an application experiences, with those that the hosts added; `None` unless the profiles include
    /// them.
    pub with_hosts: Option<Experience>,
    /// Packets known to be received or lost.
    pub known: KnownPackets,
    /// Number of received packets.
    pub received: u64,
    /// Time from the first packet to the last packet known to be received or lost, in seconds.
    pub duration: f64,
    /// Number of packets that a host sent late, read late, dropped or refused. They do not count in the verdict on the path.
    pub touched: u64,
    /// Severity of gaps within loss bursts.
    pub gaps: Severity,
    /// True if a clock was set during the test.
    pub was_set: bool,
    /// Changes of the delays by clocks that were set; empty if they are unknown, or too many.
    pub shifts: Vec<DelayShift>,
    /// Delay and loss of the path, for the scores of the profiles.
    pub quality: MeasuredQuality,
}

/// Judges a test by its evidence, in general and for each of `profiles`. `with_hosts` is true if the profiles include
/// the effects of the hosts.
pub fn judge(material: &Evidence<'_>, profiles: &[Profile], with_hosts: bool) -> Judgement {
    let case = Case::new(material);
    let findings = CaseFindings {
        found: merge_repeated(RULES.iter().flat_map(|rule| (rule.find)(&case)).collect()),
        lived: case.experience(),
        with_hosts: with_hosts.then(|| case.experience_with_hosts()),
        known: case.known,
        received: material.came.len(),
        duration: case.duration,
        touched: case.touched(),
        gaps: case.of_gaps(),
        was_set: case.was_set(),
        shifts: case.clock_shifts(),
        quality: outcome::measured(&case, profiles),
    };
    let mut judged = conclude(findings, material.session, profiles);
    judged.coincidences = coincidences(&case);
    explain(&mut judged);
    judged
}

/// Adds the coincidences to the evidence of the causes of loss and delay.
fn explain(judged: &mut Judgement) {
    let Judgement { answer, coincidences, .. } = judged;
    for cause in &mut answer.causes {
        let effect = match cause.id {
            CauseId::Outage | CauseId::RandomLoss | CauseId::BurstyLoss | CauseId::PeriodicLoss => {
                PacketEffect::Loss
            }
            CauseId::Queue => PacketEffect::Delay,
            _ => continue,
        };
        let of_effect: Vec<&Coincidence> = coincidences.iter().filter(|c| c.effect == effect).collect();
        if !of_effect.is_empty() {
            cause.because += &format!("; {}", coincides(&of_effect));
        }
    }
}

/// Returns the verdict that follows from `findings` about the test of `session`.
pub(super) fn conclude(findings: CaseFindings, session: &Session, profiles: &[Profile]) -> Judgement {
    let CaseFindings {
        mut found,
        lived,
        with_hosts,
        known,
        received,
        duration,
        touched,
        gaps,
        was_set,
        shifts,
        quality,
    } = findings;
    let enough = known.sent >= MIN_PACKETS as u64;
    if !enough {
        // Unlike other causes, these do not depend on statistics.
        found.retain(|f| matches!(f.cause.id, CauseId::IncompleteLog | CauseId::SendFailure | CauseId::Mtu));
    }
    let played = lived.best();
    let outages: Vec<f64> = found
        .iter()
        .filter(|f| f.cause.id == CauseId::Outage)
        .filter_map(|f| Some(f.cause.magnitude_ns? as f64 / 1e9))
        .collect();
    let gone = if outages.is_empty() {
        Severity::Good
    } else {
        let longest = outages.iter().copied().fold(0.0, f64::max);
        of_outage(longest, outages.iter().sum(), duration)
    };
    let interrupted = Interruption::by_outages(gone);
    // If the hosts affected too many packets, the others may not represent the path.
    let rest = known.sent.saturating_sub(touched);
    let skipped: u64 = session.skipped_in(0, known.end).map(|run| run.len).sum();
    let (touched, planned) = (touched + skipped, known.sent + skipped);
    let measured =
        touched == 0 || rest >= MIN_PACKETS as u64 && rest as f64 >= MIN_UNTOUCHED * planned as f64;
    let severity = match &played {
        // If nothing arrives, any number of sent packets is enough for a verdict.
        _ if received == 0 && known.complete && known.sent > 0 => Severity::Bad,
        _ if !enough || received == 0 || !measured => Severity::Unknown,
        Some(p) => p.severity.max(gone).max(gaps).max(standing(&found)),
        None => Severity::Unknown,
    };
    if let Some(played) = played.filter(|_| severity > Severity::Unknown) {
        agree(&mut found, &played, &lived, severity);
    }
    sort(&mut found);
    let felt = match severity {
        Severity::Unknown if enough && !measured => Some(not_as_asked(touched, planned)),
        Severity::Unknown => None,
        _ => played.and_then(|p| strongest_effect(&p, &lived)),
    };
    let host = enough.then(|| host_grade(&found));
    let without_clock_step =
        Some(&lived.waits).filter(|_| was_set).and_then(|waits| without_clock_step(&found, waits, shifts));
    let buffer_ns = played.map(|p| p.buffer_ns).filter(|_| enough);
    let causes: Vec<Cause> = found.into_iter().map(|f| f.cause).collect();
    // Packets that this host could not send were not lost on the path.
    let lost = known.sent.saturating_sub(received).saturating_sub(session.refused());
    let sent =
        SentTraffic { payload: session.payload(), period_ms: session.period().map(|p| p.0 as f64 / 1e6) };
    let of_use = |p: &Profile| {
        let suits = match &with_hosts {
            // A host may have touched so many packets that the path has no grade.
            Some(lived) if enough && received > 0 => {
                let mut suits = p.judge(lived, lived.best().as_ref(), interrupted, sent)?;
                suits.because = with_the_hosts(&suits.because);
                suits
            }
            _ if severity == Severity::Unknown => return None,
            _ => p.judge(&lived, played.as_ref(), interrupted, sent)?,
        };
        Some((p.name.to_string(), suits))
    };
    let profiles = profiles.iter().filter_map(of_use).collect();
    let complete = known.complete;
    let headline = String::new();
    let answer = Answer {
        complete,
        severity,
        host,
        headline,
        buffer_ns,
        without_clock_step,
        causes,
        profiles,
        qoo: None,
    };
    Judgement { answer, known, received, lost, felt, coincidences: Vec::new(), quality }
}

/// Returns the jitter of the corrected `waits`; `None` if no clock step is among the causes `found`.
fn without_clock_step(
    found: &[FoundCause],
    waits: &Waits,
    shifts: Vec<DelayShift>,
) -> Option<JitterWithoutStep> {
    let steps = || found.iter().map(|f| &f.cause).filter(|cause| cause.id == CauseId::ClockStep);
    let first = steps().map(|cause| cause.from_s).min_by(f64::total_cmp)?;
    let [p50_ns, p95_ns, p99_ns, p999_ns, max_ns] =
        [0.5, 0.95, 0.99, 0.999, 1.0].map(|share| waits.at(share));
    Some(JitterWithoutStep {
        at_ns: (1e9 * first) as i64,
        steps: steps().map(|cause| cause.count).sum(),
        p50_ns: p50_ns?,
        p95_ns: p95_ns?,
        p99_ns: p99_ns?,
        p999_ns: p999_ns?,
        max_ns: max_ns?,
        shifts,
    })
}

/// Describes the effect that users notice most with the play-out buffer of `played`; `None` if they notice none.
fn strongest_effect(played: &Played, lived: &Experience) -> Option<String> {
    let (missing, wait, worst) = (played.of_missing(lived.sent), played.of_wait(), played.severity);
    let delay = lived.base_ns.map(|base| base + played.buffer_ns as f64);
    match delay {
        _ if worst <= Severity::Good => None,
        _ if missing == worst => Some(effect_of_missing(played.missing)),
        Some(delay) if wait < worst => Some(effect_of_delay(delay)),
        _ => Some(effect_of_jitter(played.buffer_ns)),
    }
}

/// Minimum share of packets that must be unaffected by the hosts for a verdict on the path.
const MIN_UNTOUCHED: f64 = 0.8;

/// Returns the severity of a queue that never empties, which is invisible in jitter.
fn standing(found: &[FoundCause]) -> Severity {
    let never_empties = |f: &&FoundCause| f.cause.id == CauseId::Queue && f.whole_test;
    found.iter().filter(never_empties).map(|f| f.cause.severity).max().unwrap_or(Severity::Good)
}

/// Returns the grade of the hosts, derived from the causes in `found` that lie in the hosts.
fn host_grade(found: &[FoundCause]) -> HostGrade {
    let in_hosts = || found.iter().filter(|f| matches!(f.cause.fault, Fault::Sender | Fault::Receiver));
    let severity = in_hosts().map(|f| f.cause.severity).max().unwrap_or(Severity::Good);
    let mut causes: Vec<CauseId> = Vec::new();
    for found in in_hosts() {
        if !causes.contains(&found.cause.id) {
            causes.push(found.cause.id);
        }
    }
    HostGrade { severity, causes }
}

/// Aligns the severities of the path's causes with the severity of the verdict, because headline and evidence must not
/// contradict each other near a limit: the cause of the effect that users notice gets the severity of the verdict, and
/// no other cause is more severe.
fn agree(found: &mut [FoundCause], played: &Played, lived: &Experience, severity: Severity) {
    let (wait, missing) = (played.of_wait(), played.of_missing(lived.sent));
    for cause in found.iter_mut().map(|f| &mut f.cause).filter(|c| c.fault == Fault::Path) {
        let explains = match cause.id {
            CauseId::Queue => {
                wait == severity && 2 * cause.magnitude_ns.unwrap_or(0).saturating_abs() >= played.buffer_ns
            }
            CauseId::RandomLoss | CauseId::BurstyLoss | CauseId::Policing | CauseId::PeriodicLoss => {
                missing == severity && 2.0 * cause.magnitude.unwrap_or(0.0) >= played.missing
            }
            _ => false,
        };
        cause.severity = if explains { severity } else { cause.severity.min(severity) };
    }
}

/// Sorts causes by severity, then by harm. An incomplete log that lacks 5 % or more of the packets comes first.
fn sort(found: &mut [FoundCause]) {
    let rank = |f: &FoundCause| match f.cause.id {
        CauseId::IncompleteLog => (if f.harm >= 0.05 { 9 } else { 1 }, f.harm),
        _ => (f.cause.severity as u8, f.harm),
    };
    found.sort_by(|a, b| {
        let (x, y) = (rank(a), rank(b));
        y.0.cmp(&x.0).then(y.1.total_cmp(&x.1))
    });
}

#[cfg(test)]
mod tests;
