//! [`causes`] and [`conclusions`]: what the marks (ECN) of packets show. Every output uses them.

use crate::causes::marks::{
    MARK_RULES, MIN_BLOCKS, MIN_QUEUE_BLOCKS, MarkCase, are_losses_resolved, is_queue_seen,
};
use crate::sentences::marks as sentences;
use jitlat_core::answer::{Answer, Cause, CauseId, Level, Severity, Verdict};
use jitlat_core::ecn::Ecn;
use jitlat_core::metrics::stat::fisher_greater;
use jitlat_core::spec::Direction;
use jitlat_core::summary::{MarkFigures, Summary};

/// Largest difference of delays, in ns, that counts as none.
const MAX_ALIKE_NS: i64 = 1_000_000;

/// Returns the marks of a test: one item for a one-way test; the round trips and both directions for a two-way test.
fn cases(summary: &Summary) -> Vec<(Option<Direction>, MarkCase<'_>)> {
    let whole = summary.marks.as_deref().map(|figures| (None, MarkCase { figures, pdv: &summary.pdv }));
    let directions = summary.two_way.iter().flat_map(|two_way| {
        let of = [(Direction::Up, &two_way.up), (Direction::Down, &two_way.down)];
        of.into_iter().filter_map(|(direction, result)| {
            let result = result.as_ref()?;
            let figures = result.marks.as_deref()?;
            Some((Some(direction), MarkCase { figures, pdv: &result.pdv }))
        })
    });
    whole.into_iter().chain(directions).collect()
}

/// Returns the causes that the marks of a test show, the most important first.
pub(crate) fn causes(summary: &Summary) -> Vec<Cause> {
    let cases = cases(summary);
    let directions = cases.iter().any(|(direction, _)| direction.is_some());
    let found = MARK_RULES.iter().flat_map(|rule| {
        let of_rule = cases.iter().filter_map(|(direction, case)| {
            let mut cause = (rule.find)(case)?;
            (cause.direction, cause.to_s) = (*direction, duration(summary));
            cause.packets = [0, summary.counts.sent.saturating_sub(1)];
            Some(cause)
        });
        let mut of_rule: Vec<Cause> = of_rule.collect();
        // Round trips show the same causes as the directions, which are more specific.
        if directions && of_rule.iter().any(|cause| cause.direction.is_some()) {
            of_rule.retain(|cause| cause.direction.is_some());
        }
        of_rule
    });
    found.collect()
}

/// Returns the duration of a test, in seconds.
fn duration(summary: &Summary) -> f64 {
    summary.header.period.max(0) as f64 * summary.counts.sent as f64 / 1e9
}

/// Largest share of lost Not-ECT packets with which the mark explains all losses.
const MAX_PLAIN_LOSS: f64 = 0.01;

/// True if the mark explains all losses: packets are dropped because of it, and others are hardly lost.
pub(crate) fn are_losses_by_mark(summary: &Summary, found: &[Cause]) -> bool {
    let is_plain_lost = |case: &MarkCase<'_>| {
        case.figures
            .sent
            .zip(case.figures.lost)
            .is_some_and(|(sent, lost)| lost[Ecn::NotEct] as f64 > MAX_PLAIN_LOSS * sent[Ecn::NotEct] as f64)
    };
    found.iter().any(|cause| cause.id == CauseId::EctDropped)
        && !cases(summary).iter().any(|(_, case)| is_plain_lost(case))
}

/// Adds the causes to a verdict. `explains_losses` is true if they explain all losses.
pub(crate) fn add_causes(answer: &mut Answer, found: Vec<Cause>, explains_losses: bool) {
    if explains_losses {
        // The same losses have no second cause.
        let is_loss = |id| {
            matches!(
                id,
                CauseId::RandomLoss | CauseId::BurstyLoss | CauseId::Policing | CauseId::PeriodicLoss
            )
        };
        answer.causes.retain(|cause| !is_loss(cause.id));
    }
    if found.iter().any(|cause| cause.id == CauseId::DualQueue) {
        // Packets of the faster queue arrive before earlier packets of the other queue, which is not reordering.
        answer.causes.retain(|cause| cause.id != CauseId::Reordering);
    }
    for mut cause in found {
        if cause.id == CauseId::EctDropped && answer.severity > Severity::Good {
            // It explains the losses, so it comes first and has the severity of the verdict.
            cause.severity = answer.severity;
            answer.causes.insert(0, cause);
        } else {
            cause.severity = Severity::Good;
            answer.causes.push(cause);
        }
    }
}

/// Returns the conclusions about the marks of a test: the causes, or else what is known and what is not.
pub(crate) fn conclusions(summary: &Summary) -> Vec<Verdict> {
    let found = causes(summary);
    let cases = cases(summary);
    let is_two_way = summary.two_way.is_some();
    cases
        .iter()
        .filter_map(|(direction, case)| {
            let causes = found.iter().filter(|cause| cause.direction == *direction);
            let mut parts: Vec<String> = causes.map(|cause| cause.because.clone()).collect();
            let names = |id: CauseId| found.iter().any(|c| c.id == id && c.direction == *direction);
            // Delays of the directions are more specific than round trips.
            let by_direction = is_two_way && direction.is_none() && cases.len() > 1;
            parts.extend(unexplained(case, [is_two_way && direction.is_none(), by_direction], names));
            let whose = match direction {
                Some(Direction::Up) => "up: ",
                Some(Direction::Down) => "down: ",
                None if is_two_way => "round trips: ",
                None => "",
            };
            let text = sentences::conclusion(&[format!("{whose}{}", parts.join("; "))]);
            (!parts.is_empty()).then(|| Verdict::new("marks", Level::Note, text))
        })
        .collect()
}

/// Largest p-value at which the losses of one mark differ from those of the others.
const MAX_P: f64 = 0.05;

/// Returns the clause about losses by mark: the mark whose share differs most clearly from the rest, or that none does.
fn losses_by_mark(figures: &MarkFigures) -> String {
    let (sent, lost) = (figures.sent.unwrap_or_default(), figures.lost.unwrap_or_default());
    let sums = |marks: &dyn Fn(Ecn) -> bool| {
        let chosen = Ecn::ALL.iter().filter(|mark| marks(**mark));
        chosen.fold([0, 0], |[a, n], mark| [a + lost[*mark], n + sent[*mark]])
    };
    let of = Ecn::ALL.iter().map(|mark| {
        let (own, rest) = (sums(&|other| other == *mark), sums(&|other| other != *mark));
        // Both sides, and one test per mark (Bonferroni).
        let p = fisher_greater(own, rest).min(fisher_greater(rest, own)) * 2.0 * Ecn::ALL.len() as f64;
        (p, *mark, own, rest)
    });
    match of.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(p, ..)| *p < MAX_P) {
        Some((_, mark, own, rest)) => sentences::losses_differ(&mark.to_string(), own, rest),
        None => sentences::LOSSES_ALIKE.to_owned(),
    }
}

/// Returns clauses about everything that no cause explains.
fn unexplained(
    case: &MarkCase<'_>,
    [round_trips, by_direction]: [bool; 2],
    names: impl Fn(CauseId) -> bool,
) -> Vec<String> {
    let MarkFigures { received, delay, .. } = case.figures;
    let mut parts = Vec::new();
    match received {
        _ if round_trips => {}
        None => parts.push(sentences::NOT_REPORTED.to_owned()),
        Some(received) => {
            let all: u64 = Ecn::ALL.iter().map(|sent| received[*sent].total()).sum();
            let unchanged: u64 = Ecn::ALL.iter().map(|sent| received[*sent][*sent]).sum();
            if all > 0 && unchanged == all {
                parts.push(sentences::UNCHANGED.to_owned());
            }
        }
    }
    if case.figures.marking.is_interleaved()
        && let Some(sent) = case.figures.sent
        && !names(CauseId::EctDropped)
    {
        parts.push(match are_losses_resolved(case.figures) {
            true => losses_by_mark(case.figures),
            false => {
                let fewest = Ecn::ALL.iter().map(|mark| sent[*mark]).min().unwrap_or(0);
                sentences::losses_not_resolved(fewest, MIN_BLOCKS)
            }
        });
    }
    if let Some(delay) = delay.as_ref().filter(|_| !names(CauseId::DualQueue) && !by_direction) {
        let is_queue = is_queue_seen(case.pdv) || delay.difference_in_queue.blocks >= MIN_QUEUE_BLOCKS;
        parts.push(match delay.difference.interval_ns {
            Some(_) if delay.blocks >= MIN_BLOCKS && !is_queue => sentences::NO_QUEUE.to_owned(),
            Some(interval @ [low, high]) if delay.blocks >= MIN_BLOCKS => {
                match low.abs().max(high.abs()) <= MAX_ALIKE_NS {
                    true => sentences::delays_alike(interval),
                    false => sentences::difference_not_resolved(interval),
                }
            }
            _ => sentences::delays_not_resolved(delay.blocks, MIN_BLOCKS),
        });
    }
    parts
}

#[cfg(test)]
mod tests;
