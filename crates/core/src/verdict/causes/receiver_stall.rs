//! The receiving program stood still.

use super::rule::{Found, Rule, merge_if_many};
use crate::spec::Transport;
use crate::verdict::answer::CauseId;
use crate::verdict::case::Case;
use crate::verdict::numbers::{count, moment, time};
use crate::verdict::severity::{of_host, of_missing};

pub const RULE: Rule = Rule {
    id: CauseId::ReceiverStall,
    threshold: "three packets or more sent in turn arrive together, the first of them 60 ms late or more and four times what \
                all others but two wait, each one less by what it was sent later; the program's stamps, or its own reading of the \
                clock after the kernel's",
    source: "definition: what a host did is not the path's fault",
    find,
};

/// What a program's own reading varies by, in ns.
const NOISE: i64 = 2_000_000;

fn find(case: &Case<'_>) -> Vec<Found> {
    if case.material.session.spec.transport() == Transport::Tcp {
        return Vec::new();
    }
    let n = case.known.sent.max(1);
    let stall = |from: usize, to: usize, length: i64, confidence: f64| {
        let packets = (to - from) as u64;
        let share = packets as f64 / n as f64;
        let why = format!(
            "nothing was read for {} from {} on, then {} at once: the receiving program stood still",
            time(length as f64),
            moment(case.place_seconds(from)),
            count(packets, "packet")
        );
        let mut found =
            Found::new(CauseId::ReceiverStall, of_host(of_missing(share, packets, n)), share, confidence)
                .places(case, from, to)
                .ns(length)
                .because(why);
        found.cause.to_s =
            (found.cause.from_s + length as f64 / 1e9).min(case.duration.max(found.cause.from_s));
        found
    };
    let mut found: Vec<Found> =
        case.receiver_holds().iter().map(|h| stall(h.from, h.to, h.length, 0.7)).collect();
    // What the program's own reading shows, it shows for sure.
    let series = case.delays.series();
    let mut waits: Vec<(usize, i64)> = case
        .material
        .notes
        .read_late
        .iter()
        .map(|(seq, lag)| (series.place_of((*seq).into()), *lag))
        .filter(|(k, _)| *k < series.len())
        .collect();
    waits.sort_unstable();
    let period = case.material.period().unwrap_or(0);
    let mut k = 0;
    while k < waits.len() {
        let from = k;
        let mut longest = waits[k].1;
        while k + 1 < waits.len()
            && waits[k + 1].0 <= waits[k].0 + 2
            && waits[k + 1].1 <= waits[k].1.saturating_add(period / 2).saturating_add(NOISE)
        {
            k += 1;
            longest = longest.max(waits[k].1);
        }
        k += 1;
        if longest >= case.longest_usual_hold() && k - from >= 3 {
            found.push(stall(waits[from].0, waits[k - 1].0 + 1, longest, 0.95));
        }
    }
    merge_if_many(found)
}
