//! [`Opinion`]: the answer in a sentence, the figures it stands on, and how far to believe them.

use super::numbers::precise_time as time;
use jitlat_core::answer::{Level, Verdict};
use jitlat_core::distribution::Percent;
use jitlat_core::spec::Transport;
use jitlat_core::summary::{Coverage, Summary};

/// An overall judgement with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// How the answer looks.
    pub level: Level,
    /// The answer in one sentence; the worst finding if there is no answer.
    pub headline: String,
    /// What was found, the worst first, each with its evidence.
    pub findings: Vec<Verdict>,
    /// What is known of the clocks, the sample and the tool's own noise, and what follows for the figures.
    pub belief: Vec<String>,
}

impl Opinion {
    /// The one `summary` supports.
    pub fn of(summary: &Summary) -> Opinion {
        let mut findings = summary.verdicts.clone();
        // Stable: findings of one level keep the order of the analysis.
        findings.sort_by_key(|f| std::cmp::Reverse(f.level));
        let (level, headline) = match (&summary.answer, findings.first()) {
            (Some(answer), _) => (answer.severity.into(), answer.headline.clone()),
            (None, Some(worst)) => (worst.level, worst.text.clone()),
            (None, None) => (Level::Note, "Nothing is known of this path.".to_owned()),
        };
        Opinion { level, headline, findings, belief: belief(summary) }
    }
}

/// How reliable the figures are.
fn belief(s: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let clock = &s.clock;
    lines.push(match (clock.offset_ns, clock.bound_ns) {
        _ if s.two_way.is_some() => {
            "Round trips: both ends are on one clock, so their length is known and not only how it varies.".into()
        }
        (Some(offset), Some(bound)) => format!(
            "Latency: the clocks differed by {} (server - client), known to +/- {}. Corrected values carry that \
             uncertainty; jitter and loss do not.",
            time(offset as f64),
            time(bound)
        ),
        (Some(offset), None) => format!(
            "Latency: the clocks differed by about {} (server - client); the log does not say how exactly that \
             is known. Jitter and loss do not depend on it.",
            time(offset as f64)
        ),
        (None, _) if clock.synchronised().is_some() => {
            "Latency: both kernels call their clocks synchronised; the offset between them was not measured. \
             Jitter and loss do not depend on it."
                .into()
        }
        (None, _) => "Latency: nothing is known of how the two clocks relate. Believe the shape of the latency \
                      figures, not their position; jitter and loss do not depend on it."
            .into(),
    });
    if let Some(line) = sender(s) {
        lines.push(line);
    }
    lines.push(stamps(s));
    if let Some(line) = sample(s) {
        lines.push(line);
    }
    lines
}

/// The sender's own error against the jitter it might be mistaken for.
fn sender(s: &Summary) -> Option<String> {
    let error = s.schedule_error.as_ref()?.of_program().p99 as f64;
    let jitter = s.pdv.percentiles.at(Percent(99_000))? as f64;
    let share = match error {
        e if e * 10.0 <= jitter => "small beside",
        e if e * 2.0 <= jitter => "not negligible beside",
        e if e <= jitter * 2.0 => "about as large as",
        _ => "larger than",
    };
    Some(format!(
        "Sender: 99 % of packets left within {} of their time, {share} the jitter of {} at the same percentile. \
         Delays are counted from the real send times, so this error is not in them.",
        time(error),
        time(jitter)
    ))
}

fn stamps(s: &Summary) -> String {
    let of = |c: &Coverage| {
        let kinds =
            [("user-space", c.user), ("kernel", c.kernel), ("hardware", c.hardware), ("capture", c.wire)];
        let present: Vec<&str> = kinds.iter().filter(|k| k.1 > 0).map(|k| k.0).collect();
        if present.is_empty() { "no".to_owned() } else { present.join(" and ") }
    };
    let noise = match (s.stamps.sent.user, s.stamps.arrived.user) {
        (0, 0) => "the hosts' own scheduling is not in the figures",
        _ => "the hosts' own scheduling is part of the figures, usually some 10 us",
    };
    format!("Stamps: {} on sending, {} on arrival; {noise}.", of(&s.stamps.sent), of(&s.stamps.arrived))
}

fn sample(s: &Summary) -> Option<String> {
    let n = s.counts.unique_valid;
    if n == 0 {
        return None;
    }
    let finest = match n {
        0..100 => "not even the 99th percentile",
        100..1000 => "the 99th percentile, no finer",
        1000..3700 => "the 99.9th percentile, without an upper bound to it",
        _ => "the 99.9th percentile with both bounds",
    };
    let dependent = match s.inference.t_valid {
        Some(false) => {
            " Neighbouring packets resemble each other, so there is less information than the count suggests."
        }
        _ => "",
    };
    let tcp = if s.header.proto == Transport::Tcp.number() {
        " TCP hides loss and order; both appear as delay."
    } else {
        ""
    };
    Some(format!("Sample: {n} packets resolve {finest}.{dependent}{tcp}"))
}

#[cfg(test)]
mod tests;
