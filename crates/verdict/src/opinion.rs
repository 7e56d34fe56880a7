//! [`Opinion`]: the verdict in one sentence, its evidence, and the reliability of the figures.

use super::sentences::belief::{self, ClockKnowledge};
use super::severity::MIN_BUFFER_NS;
use jitlat_core::answer::{CauseId, JitterWithoutStep, Level, Verdict};
use jitlat_core::distribution::Percent;
use jitlat_core::spec::Transport;
use jitlat_core::summary::{Coverage, Summary};

/// Verdict in one sentence, with evidence and reliability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// Level with which the verdict is marked.
    pub level: Level,
    /// The verdict in one sentence; the worst finding if there is no verdict.
    pub headline: String,
    /// Findings and their evidence, the worst first.
    pub findings: Vec<Verdict>,
    /// Reliability of the figures: one sentence each about the clocks, the sample and the hosts' own noise.
    pub belief: Vec<String>,
}

impl Opinion {
    /// Returns the opinion based on `summary`.
    pub fn of(summary: &Summary) -> Opinion {
        let mut findings = summary.verdicts.clone();
        // The sort is stable: findings of one level stay in the order of the analysis.
        findings.sort_by_key(|f| std::cmp::Reverse(f.level));
        let (level, headline) = match (&summary.answer, findings.first()) {
            (Some(answer), _) => (answer.severity.into(), answer.headline.clone()),
            (None, Some(worst)) => (worst.level, worst.text.clone()),
            (None, None) => (Level::Note, belief::NOTHING_KNOWN.to_owned()),
        };
        Opinion { level, headline, findings, belief: belief(summary) }
    }
}

/// Describes the reliability of the figures, with one sentence per topic.
fn belief(s: &Summary) -> Vec<String> {
    let mut lines = vec![belief::clocks(clocks(s))];
    lines.extend(sender(s));
    lines.push(stamps(s));
    lines.extend(sample(s));
    lines
}

fn without_step(s: &Summary) -> Option<&JitterWithoutStep> {
    s.answer.as_ref()?.without_clock_step.as_ref()
}

fn clocks(s: &Summary) -> ClockKnowledge {
    match (s.clock.offset_ns, s.clock.bound_ns) {
        _ if s.two_way.is_some() => ClockKnowledge::OneClock,
        _ if without_step(s).is_some() => ClockKnowledge::Set,
        (Some(offset), Some(bound)) => ClockKnowledge::Bounded(offset as f64, bound),
        (Some(offset), None) => ClockKnowledge::Unbounded(offset as f64),
        (None, _) if s.clock.synchronised().is_some() => ClockKnowledge::Synchronised,
        (None, _) => ClockKnowledge::Unknown,
    }
}

/// Compares the sender's own timing error with the jitter, because this error might be mistaken for jitter. `None` if
/// one of them is unknown.
fn sender(s: &Summary) -> Option<String> {
    let error = s.schedule_error.as_ref()?.of_program().p99 as f64;
    let without = without_step(s).map(|without| without.p99_ns);
    let jitter = without.or_else(|| s.pdv.percentiles.at(Percent(99_000)))? as f64;
    Some(belief::sender(error, jitter))
}

fn stamps(s: &Summary) -> String {
    let sources = |c: &Coverage| -> Vec<&str> {
        let kinds =
            [("user-space", c.user), ("kernel", c.kernel), ("hardware", c.hardware), ("capture", c.wire)];
        kinds.iter().filter(|k| k.1 > 0).map(|k| k.0).collect()
    };
    let (sent, arrived) = (&s.stamps.sent, &s.stamps.arrived);
    belief::stamps(&sources(sent), &sources(arrived), sent.user + arrived.user > 0)
}

fn sample(s: &Summary) -> Option<String> {
    let n = s.counts.unique_valid;
    let dependent = s.inference.t_valid == Some(false);
    let effective = s.inference.p99.effective_n;
    (n > 0).then(|| belief::sample(n, dependent, effective, s.header.proto == Transport::Tcp.number()))
}

/// Returns a note if the jitter of the test includes causes that the recommended buffer leaves out, and is therefore larger
/// than the buffer; otherwise `None`.
pub fn jitter_note(s: &Summary) -> Option<String> {
    let answer = s.answer.as_ref()?;
    let (buffer, jitter) = (answer.buffer_ns?, s.pdv.percentiles.at(Percent(99_000))?);
    if answer.without_clock_step.is_some() || jitter <= buffer.max(MIN_BUFFER_NS) {
        return None;
    }
    let number = |id| -> u64 { answer.causes.iter().filter(|c| c.id == id).map(|c| c.count.max(1)).sum() };
    belief::jitter(number(CauseId::ReceiverStall), number(CauseId::RouteChange), number(CauseId::ClockSkew))
}

#[cfg(test)]
mod tests;
