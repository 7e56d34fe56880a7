//! Packets overtake each other.

use super::rule::{Found, Rule};
use crate::metrics::stat::wilson95;
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::{percent, time};

pub const RULE: Rule = Rule {
    id: CauseId::Reordering,
    threshold: "more than 0.3 % overtaken with 95 % confidence, five packets at least; not twice as many others wait nearly \
                as long as they do: else it is jitter wider than the period",
    source: "RFC 4737",
    find,
};

const SHARE: f64 = 0.003;
const FEWEST: u64 = 5;

fn find(case: &Case<'_>) -> Vec<Found> {
    let n = case.delays.len() as u64;
    if !case.material.shows_loss() || n == 0 {
        return Vec::new();
    }
    // Where: packets that arrived after a later one. A changed route or clock overtakes once.
    let near_step = |k: usize| case.steps.iter().any(|(s, _)| s.place.abs_diff(k) <= 60);
    let mut highest = 0;
    let mut late: Vec<usize> = Vec::new();
    for place in case.delays.series().ranks().unwrap_or_default() {
        if highest > *place {
            late.push(*place as usize);
        }
        highest = highest.max(*place);
    }
    // What waits in a queue, or is sent at once after a stall, may be shuffled there.
    let busy = |k: usize| {
        case.episodes.queues.iter().any(|q| (q.from..q.to).contains(&k))
            || case.late.stalls.iter().any(|s| (s.from..s.to).contains(&k))
            || case.late.of(k) > 0
    };
    late.retain(|k| !near_step(*k) && !busy(*k));
    late.sort_unstable();
    let count = late.len() as u64;
    let share = count as f64 / n as f64;
    let Some([low, _]) = wilson95(count, n) else { return Vec::new() };
    if count < FEWEST || low < SHARE {
        return Vec::new();
    }
    let mut waits: Vec<i64> =
        late.iter().step_by(late.len() / 4096 + 1).map(|k| case.delays.excess(*k)).collect();
    let middle = waits.len() / 2;
    let held = *waits.select_nth_unstable(middle).1;
    if !stands_out(case, &late, &mut waits) {
        return Vec::new();
    }
    let severity = if held > 100_000_000 { Severity::Fair } else { Severity::Good };
    let (first, last) = (late[0], late[late.len() - 1]);
    let spread = (last - first) as f64 / n as f64;
    let found = Found::new(CauseId::Reordering, severity, share, 0.95).share(share);
    let found = if spread > 0.7 { found.whole(case) } else { found.places(case, first, last + 1) };
    vec![found.because(format!(
        "{} overtaken, half of them held back by {} or more",
        percent(share),
        time(held.max(0) as f64)
    ))]
}

/// Whether the packets overtaken are another kind of packet than the rest: hardly any other waits nearly as long. Where
/// jitter is wider than packets are apart they overtake each other for no further reason, many wait nearly as long, and
/// the jitter is what is reported.
fn stands_out(case: &Case<'_>, late: &[usize], waits: &mut [i64]) -> bool {
    let tenth = waits.len() / 10;
    let least = *waits.select_nth_unstable(tenth).1;
    let nearly = least * 2 / 5..least * 4 / 5;
    let n = case.delays.len();
    let step = (n / 20_000).max(1);
    let others = (0..n).step_by(step).filter(|k| nearly.contains(&case.delays.excess(*k)));
    let others = others.filter(|k| late.binary_search(k).is_err()).count() * step;
    others <= 2 * late.len()
}
