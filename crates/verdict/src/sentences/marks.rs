//! Sentences about the marks (ECN) of packets. The first clause of each is part of a headline.

use super::numbers::{count, percent, time};
use jitlat_core::summary::AboveFastest;

fn share(affected: u64, all: u64) -> String {
    match affected == all {
        true => format!("all of {}", count(all, "packet")),
        false => format!(
            "{} ({affected} of {})",
            percent(affected as f64 / all.max(1) as f64),
            count(all, "packet")
        ),
    }
}

/// Evidence that `affected` of `all` packets with the marks `names` arrived as Not-ECT; those with `spared` did not.
pub fn bleached(names: &str, affected: u64, all: u64, spared: &str) -> String {
    let which =
        if affected == all { "" } else { " on a part of the packets, as if one of several routes did so" };
    let spared = if spared.is_empty() { String::new() } else { format!("; {spared} is not removed") };
    format!("the path removes {names}{which}: {} arrived as Not-ECT{spared}", share(affected, all))
}

/// Evidence that marks were changed: each change with its names, the number of packets, and the number of all packets
/// with the first mark.
pub fn remarked(changes: &[([String; 2], u64, u64)]) -> String {
    let to = |[from, to]: &[String; 2]| format!("{from} to {to}");
    let names: Vec<String> = changes.iter().map(|(names, ..)| to(names)).collect();
    let shares: Vec<String> =
        changes.iter().map(|(names, n, all)| format!("{}: {}", to(names), share(*n, *all))).collect();
    format!("the path changes {}: no rule of ECN permits this ({})", names.join(" and "), shares.join("; "))
}

/// Evidence that `erased` of `all` packets that were sent with CE arrived without it.
pub fn ce_erased(erased: u64, all: u64) -> String {
    format!("the path removes CE: senders cannot see congestion; {} lost the mark", share(erased, all))
}

/// Evidence that packets with the marks `names` are lost more often: shares of them and of Not-ECT packets.
pub fn ect_dropped(names: &str, all: bool, [marked, plain]: [f64; 2]) -> String {
    let drops = if all { "drops all" } else { "drops" };
    format!(
        "the path {drops} packets with {names}: {} of them were lost, and {} of Not-ECT packets sent between them",
        percent(marked),
        percent(plain)
    )
}

/// Relation between CE and delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CeTime {
    /// All ECT packets get CE.
    Always,
    /// No queue was seen.
    WithoutQueue,
    /// Mean delay of packets with CE minus that of the others, in ns.
    Difference(i64),
    /// Unknown.
    Unknown,
}

/// Evidence that `marked` of `all` packets with the marks `names` arrived with CE.
pub fn marked(names: &str, marked: u64, all: u64, delay: CeTime) -> String {
    let why = match delay {
        CeTime::Always => "; at this share, marking is broken or the path is overloaded".to_owned(),
        CeTime::WithoutQueue => "; no queue was seen".to_owned(),
        CeTime::Unknown => String::new(),
        CeTime::Difference(ns) if ns > 0 => {
            format!("; these took {} longer than others with the same mark", time(ns as f64))
        }
        CeTime::Difference(ns) => {
            format!("; these took {} less than others with the same mark", time(ns.unsigned_abs() as f64))
        }
    };
    format!("a node on the path marks {names} with CE: {} arrived with CE{why}", share(marked, all))
}

/// Evidence for a dual queue: median of the difference and its interval, in ns; delay of ECT(1) above the fastest packet of
/// its block, and the number of ECT(1) packets that arrived with CE, of all.
pub fn dual_queue(
    median: i64,
    [low, high]: [i64; 2],
    (ect1, (ce, all)): (&AboveFastest, (u64, u64)),
) -> String {
    let [median, low, high] = [median, low, high].map(|ns| time(ns as f64));
    let p99 = ect1.p99_ns.map_or_else(String::new, |ns| {
        format!("; 99 % of ECT(1) packets at most {} slower than the fastest of their block", time(ns as f64))
    });
    let marks = match ce {
        0 => "; without CE marks".to_owned(),
        _ => format!("; {} of ECT(1) arrived with CE", percent(ce as f64 / all.max(1) as f64)),
    };
    format!(
        "ECT(1) and CE have a faster queue than other packets of the same flow (dual queue, as with L4S): faster by {median} ({low} \
         to {high}, 95 % confidence) while packets waited{p99}{marks}"
    )
}

/// Conclusion about marks, which consists of the clauses `parts`.
pub fn conclusion(parts: &[String]) -> String {
    format!("Marks (ECN): {}.", parts.join("; "))
}

/// Clause about marks that all arrived as sent.
pub const UNCHANGED: &str = "all arrive as sent";
/// Clause if the far host does not report marks.
pub const NOT_REPORTED: &str = "unknown, because the far host does not report them";
/// Clause about losses of too few packets.
pub fn losses_not_resolved(fewest: u64, needed: u64) -> String {
    format!("losses by mark are not resolved (fewest packets of a mark: {fewest}, needed: {needed})")
}
/// Clause about losses that do not depend on the mark.
pub const LOSSES_ALIKE: &str = "no loss that depends on the mark was found";
/// Clause about losses of packets with the mark `name` that differ from those of the others; each lost and sent.
pub fn losses_differ(name: &str, own: [u64; 2], others: [u64; 2]) -> String {
    let share = |[lost, sent]: [u64; 2]| percent(lost as f64 / sent.max(1) as f64);
    format!("losses differ by mark: {name} {}, others {}", share(own), share(others))
}
/// Clause about too few blocks.
pub fn delays_not_resolved(blocks: u64, needed: u64) -> String {
    format!("delays by mark are not resolved (whole blocks of four: {blocks}, needed: {needed})")
}
/// Clause about a test in which no packet waited.
pub const NO_QUEUE: &str = "no queue seen: a dual queue is not testable (repeat under load, as with --load)";
/// Clause about delays that do not depend on the mark, with the 95 % interval of the difference in ns.
pub fn delays_alike([low, high]: [i64; 2]) -> String {
    let most = time(low.unsigned_abs().max(high.unsigned_abs()) as f64);
    format!("the mark makes no difference of more than {most} to the delay (95 % confidence)")
}
/// Clause about delays whose difference is too uncertain.
pub fn difference_not_resolved([low, high]: [i64; 2]) -> String {
    let [low, high] =
        [low, high].map(|ns| format!("{}{}", if ns < 0 { "-" } else { "" }, time(ns.unsigned_abs() as f64)));
    format!(
        "whether the mark makes a difference to the delay is not resolved ({low} to {high}, 95 % confidence)"
    )
}
