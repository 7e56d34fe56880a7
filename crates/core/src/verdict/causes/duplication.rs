//! Packets arrive more than once.

use super::rule::{Found, Rule};
use crate::metrics::stat::wilson95;
use crate::verdict::answer::{CauseId, Severity};
use crate::verdict::case::Case;
use crate::verdict::numbers::percent;

pub const RULE: Rule = Rule {
    id: CauseId::Duplication,
    threshold: "more than 0.3 % arrive again with 95 % confidence, five packets at least",
    source: "RFC 5560",
    find,
};

const SHARE: f64 = 0.003;
const FEWEST: u64 = 5;

fn find(case: &Case<'_>) -> Vec<Found> {
    let n = case.delays.len() as u64;
    let mut again: Vec<u32> = case.material.copies.iter().map(|(seq, _)| seq).collect();
    let copies = again.len() as u64;
    again.sort_unstable();
    again.dedup();
    let count = again.len() as u64;
    let (Some(first), Some(last), Some([low, _])) = (again.first(), again.last(), wilson95(count.min(n), n))
    else {
        return Vec::new();
    };
    if count < FEWEST || low < SHARE {
        return Vec::new();
    }
    let share = count as f64 / n as f64;
    let times = if copies > count + count / 2 { "more than twice" } else { "twice" };
    let why = if share > 0.95 {
        format!("every packet arrives {times}: a loop, a mirror or two links")
    } else {
        format!("{} arrive {times}", percent(share))
    };
    let found = Found::new(CauseId::Duplication, Severity::Good, 0.1 * share, 0.97).share(share).because(why);
    let (first, last) = (u64::from(*first), u64::from(*last));
    let everywhere = last - first > case.known.sent * 7 / 10;
    vec![if everywhere { found.whole(case) } else { found.packets(case, first, last) }]
}
