//! Packets waited behind others.

use super::rule::{Found, Rule, merge_if_many};
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::{moment, time};
use crate::verdict::severity::of_wait;

pub const RULE: Rule = Rule {
    id: CauseId::Queue,
    threshold: "every packet of a stretch of 0.4 s (2 % of a short test) waits, by 5 ms and three times what 99 of 100 \
                others wait; or the smallest delay of all exceeds what the clock probes allow an idle path",
    source: "ITU-T Y.1541 (50 ms of delay variation), G.114 (150 and 400 ms)",
    find,
};

/// Fewer packets in a queue than one of a hundred are at most out of the ordinary for a listener.
const RARE: f64 = 0.01;

fn find(case: &Case<'_>) -> Vec<Found> {
    if let Some(standing) = standing(case) {
        return vec![standing];
    }
    let n = case.delays.len().max(1) as f64;
    let queues = case.episodes.queues.iter().map(|q| {
        let share = (q.to - q.from) as f64 / n;
        let severity = if share < RARE { of_wait(q.height).min(Severity::Fair) } else { of_wait(q.height) };
        let dropped = match case.dropped_by_queue {
            0 => String::new(),
            lost => format!(", and {lost} found it full"),
        };
        let why = format!(
            "from {} to {} packets waited up to {} behind others{dropped}",
            moment(case.place_seconds(q.from)),
            moment(case.place_seconds(q.to)),
            time(q.height as f64)
        );
        let mut found = Found::new(CauseId::Queue, severity, share * (q.height as f64 / 100e6), 0.9)
            .places(case, q.from, q.to)
            .ns(q.height)
            .because(why);
        found.cause.count = q.count;
        found
    });
    let mut found: Vec<Found> = queues.collect();
    found.extend(pauses(case));
    merge_if_many(found)
}

/// Packets that the path itself held: the receiving kernel stamped them as they came.
fn pauses(case: &Case<'_>) -> Vec<Found> {
    let n = case.delays.len().max(1) as f64;
    let holds = case.path_holds();
    let pauses = holds.iter().map(|h| {
        let share = (h.to - h.from) as f64 / n;
        let severity = if share < RARE { of_wait(h.length).min(Severity::Fair) } else { of_wait(h.length) };
        let why = format!(
            "at {} the path stood still for {} and then delivered everything at once; the kernel's stamps rule the \
             receiving program out",
            moment(case.place_seconds(h.from)),
            time(h.length as f64)
        );
        Found::new(CauseId::Queue, severity, share * (h.length as f64 / 100e6), 0.6)
            .places(case, h.from, h.to)
            .ns(h.length)
            .because(why)
    });
    pauses.collect()
}

/// A queue that never emptied: the smallest delay of the stream is larger than an idle path's can be.
fn standing(case: &Case<'_>) -> Option<Found> {
    let clock = case.material.clock;
    if !clock.direction_known {
        return None;
    }
    let [low, high] = clock.interval_ns?;
    let rtt = clock.min_rtt_ns.filter(|r| *r >= 0)?;
    let min = case.material.sample.min()?;
    // The least that the smallest delay can be, whichever way the stream goes, against the most an idle way can take:
    // the whole round trip.
    let least = match case.material.session.spec.direction() {
        crate::spec::Direction::Up => min.saturating_sub(high),
        crate::spec::Direction::Down => min.saturating_add(low),
    };
    let proven = least.saturating_sub(rtt / 2);
    if case.skew.is_some() || proven < 5_000_000 || least < rtt.saturating_add(rtt / 4) {
        return None;
    }
    let usual =
        case.delays.quantile(0, case.delays.len(), 0.5)? + case.delays.delay(0) - case.delays.excess(0);
    let first = case.material.series.times(0).1;
    let height = first.saturating_add(usual).saturating_sub(match case.material.session.spec.direction() {
        crate::spec::Direction::Up => clock.offset_ns?,
        crate::spec::Direction::Down => clock.offset_ns?.saturating_neg(),
    });
    let height = height.saturating_sub(rtt / 2);
    let why = format!(
        "every packet took at least {} where the clock probes before and after needed {} there and back: a queue from \
         end to end",
        time(least as f64),
        time(rtt as f64)
    );
    let found = Found::new(CauseId::Queue, of_wait(height), height as f64 / 100e6, 0.85);
    Some(Found { whole_test: true, ..found.whole(case).ns(height).because(why) })
}
