//! Nothing got through for a while.

use super::rule::{Found, Rule, merge_if_many};
use crate::spec::Transport;
use crate::verdict::answer::CauseId;
use crate::verdict::case::Case;
use crate::verdict::numbers::{count, moment, time};
use crate::verdict::severity::of_outage;

pub const RULE: Rule = Rule {
    id: CauseId::Outage,
    threshold: "a run of loss of 100 ms and four packets where there is no other, of 180 ms and longer than geometric runs \
                come up once in a hundred tests where there are; over TCP, nothing for 1 s and then everything at once",
    source: "ITU-T G.711 Appendix I (concealment ends at 60 ms), Y.1540 (availability)",
    find,
};

/// TCP's timer for a lost segment may double once before that much has passed: RFC 6298.
const TCP_OUTAGE: i64 = 900_000_000;

fn find(case: &Case<'_>) -> Vec<Found> {
    let tcp = case.material.session.spec.transport() == Transport::Tcp;
    if tcp {
        return over_tcp(case);
    }
    let lengths: Vec<f64> =
        case.losses.outages().map(|r| case.seconds(r.start + r.len) - case.seconds(r.start)).collect();
    let total: f64 = lengths.iter().sum();
    let found = case.losses.outages().zip(&lengths).map(|(run, length)| {
        let all = run.len >= case.known.sent;
        let length = if all { case.duration.max(*length) } else { *length };
        let severity = of_outage(length, total.max(length), case.duration);
        let harm = run.len as f64 / case.known.sent.max(1) as f64;
        let end = run.start + run.len;
        let confidence = if run.len >= 10 { 0.97 } else { 0.85 };
        let why = if all {
            format!("none of {} arrived", count(run.len, "packet"))
        } else {
            format!(
                "no packet for {} from {} on, {} lost in a row",
                time(1e9 * length),
                moment(case.seconds(run.start)),
                run.len
            )
        };
        let mut found =
            Found::new(CauseId::Outage, severity, harm, confidence).ns((1e9 * length) as i64).because(why);
        found.cause.packets = [run.start, end - 1];
        found.cause.from_s = case.seconds(run.start).max(0.0);
        found.cause.to_s = if end >= case.known.sent { case.duration } else { case.seconds(end) };
        found
    });
    merge_if_many(found.collect())
}

/// What TCP repairs it holds back: an outage is a time at which nothing comes.
fn over_tcp(case: &Case<'_>) -> Vec<Found> {
    let long = || case.episodes.holds.iter().filter(|h| h.length >= TCP_OUTAGE);
    let total: f64 = long().map(|h| h.length as f64 / 1e9).sum();
    let found = long().map(|h| {
        let length = h.length as f64 / 1e9;
        let harm = (h.to - h.from) as f64 / case.delays.len().max(1) as f64;
        let why = format!(
            "nothing arrived for {} from {} on, then {} at once: TCP held them back",
            time(h.length as f64),
            moment(case.place_seconds(h.from)),
            count((h.to - h.from) as u64, "packet")
        );
        Found::new(CauseId::Outage, of_outage(length, total, case.duration), harm, 0.8)
            .places(case, h.from, h.to)
            .ns(h.length)
            .because(why)
    });
    merge_if_many(found.collect())
}
