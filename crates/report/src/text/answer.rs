//! The verdict, the first lines of every report: the problem with its time, size and certainty, and its
//! consequences.

use super::{Page, TextOptions, count, mark};
use jitlat_core::answer::{Answer, Cause, Severity};
use jitlat_core::summary::Summary;
use jitlat_verdict::evidence;

/// Maximum number of causes listed; more are only counted.
const MAX_CAUSES: usize = 5;

/// Returns the verdicts of streams, with their labels if there are several. Empty if no stream has a verdict.
pub fn answers(streams: &[(&str, &Summary)], options: &TextOptions) -> String {
    let mut page = Page::new(options);
    for (label, summary) in streams {
        let Some(answer) = &summary.answer else { continue };
        let label = if streams.len() > 1 { label } else { "" };
        write(&mut page, label, answer);
    }
    page.text
}

fn write(page: &mut Page, label: &str, answer: &Answer) {
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    page.lead(answer.severity.into(), &format!("{label}{}", answer.headline));
    for cause in answer.causes.iter().take(MAX_CAUSES) {
        let (_, look) = mark(cause.severity.into());
        page.marked(&format!("{}:", cause.severity.name()), Some(look), &why(cause));
    }
    if answer.causes.len() > MAX_CAUSES {
        page.item(&format!("and {} more", count((answer.causes.len() - MAX_CAUSES) as u64, "cause")));
    }
    if let Some(uses) = uses(answer) {
        page.item(&uses);
    }
}

/// Returns the profiles by severity: `good for telemetry and voice; fair for gaming (98 ms one way with the buffer)`. `None`
/// if unknown.
fn uses(answer: &Answer) -> Option<String> {
    let mut groups: Vec<(Severity, &str, Vec<&str>)> = Vec::new();
    for (name, suits) in &answer.profiles {
        let because = if suits.severity == Severity::Good { "" } else { suits.because.as_str() };
        match groups.iter_mut().find(|(s, b, _)| (*s, *b) == (suits.severity, because)) {
            Some((_, _, names)) => names.push(name),
            None => groups.push((suits.severity, because, vec![name])),
        }
    }
    groups.sort_by_key(|(severity, ..)| *severity);
    let group = |(severity, because, names): &(Severity, &str, Vec<&str>)| {
        let names = match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.concat(),
        };
        let because = if because.is_empty() { String::new() } else { format!(" ({because})") };
        format!("{} for {names}{because}", severity.name())
    };
    (!groups.is_empty()).then(|| groups.iter().map(group).collect::<Vec<_>>().join("; ") + ".")
}

/// Returns the evidence for a cause, its location and its certainty.
pub fn why(cause: &Cause) -> String {
    evidence(cause)
}
