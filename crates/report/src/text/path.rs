//! Table of the routers of a path.

use super::{Page, TextOptions, count};
use jitlat_core::Ecn;
use jitlat_core::ecn::ByMark;
use jitlat_core::path::{Hop, MarkChange, Path, PathEnd, Responder, Rewrite, unreachable_in_words};
use jitlat_core::printable::printable;
use jitlat_core::spec::Dscp;
use jitlat_core::summary::Percent;
use jitlat_core::units::{eng4, eng4_f64};

/// Maximum number of changes of the route that are listed.
const MAX_CHANGES: usize = 10;

/// Returns a table of the hops of `path`, with remarks.
pub fn path(path: &Path, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    let transport = if path.proto == 6 { "TCP" } else { "UDP" };
    page.line(&format!(
        "Path from {} to {} ({transport} port {}, DSCP {})",
        path.source,
        path.destination,
        path.port,
        dscp(path.dscp)
    ));
    page.blank();
    if path.hops.is_empty() {
        page.line("Neither routers nor the destination answered.");
        return page.text;
    }
    let who = |hop: &Hop| hop.responders.first().map_or_else(|| "*".to_owned(), |r| r.address.to_string());
    let width = path.hops.iter().map(|h| who(h).len()).max().unwrap_or(1).max(7);
    page.line(&format!(
        "{:>3}  {:width$}  {:>7}  {:>9}  {:>9}  {:>9}  {:>9}  DSCP",
        "hop", "address", "answers", "min", "median", "p90", "max"
    ));
    let has_flows =
        path.hops.iter().flat_map(|hop| &hop.responders).any(|r| r.flows.iter().any(|flow| *flow > 1));
    for hop in &path.hops {
        let d = &hop.rtt;
        let or_dash = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
        let [min, p90, max] = [d.min, d.percentile(Percent(90_000)), d.max].map(|v| or_dash(v.map(eng4)));
        let median = or_dash(d.median.map(eng4_f64));
        let seen: Vec<String> = hop.dscp.keys().map(|v| dscp(*v)).collect();
        let marks = hop.ecn.filter(|_| path.mark != Ecn::NotEct || !path.mark_changes.is_empty());
        let mut line = format!(
            "{:>3}  {:width$}  {:>7}  {min:>9}  {median:>9}  {p90:>9}  {max:>9}  {}",
            hop.ttl,
            who(hop),
            // The row is that of the first router; the others have their own lines.
            format!("{}/{}", hop.responders.first().map_or(0, |r| r.answers), hop.sent),
            if seen.is_empty() { "-".to_owned() } else { seen.join(" ") }
        );
        if let Some(marks) = marks {
            line += &format!("  {}", shares(&marks));
        }
        match hop.end {
            Some(PathEnd::Unreachable(code)) => {
                let from = hop.responders.first().map_or(path.destination, |r| r.address);
                line += &format!("  unreachable: {}", unreachable_in_words(from, code));
            }
            Some(PathEnd::Destination) | None => {}
        }
        if let Some(main) = hop.responders.first() {
            line += &known(main);
            if has_flows {
                line += &format!("  {}", flows(main));
            }
        }
        page.line(line.trim_end());
        for other in hop.responders.iter().skip(1) {
            let mut line =
                format!("{:>3}  {}{}, {}", "", other.address, known(other), count(other.answers, "answer"));
            if has_flows {
                line += &format!(", {}", flows(other));
            }
            page.line(&line);
        }
        for label in &hop.labels {
            page.line(&format!(
                "{:>3}  MPLS label {}, traffic class {}, time to live {}",
                "", label.label, label.traffic_class, label.ttl
            ));
        }
    }
    page.blank();
    for rewrite in rewrites(path) {
        page.item(&rewrite);
    }
    if path.rewrites.is_empty() && path.hops.iter().any(|h| !h.dscp.is_empty()) {
        page.item(&format!("DSCP {} is unchanged, as far as hops report it", dscp(path.dscp)));
    }
    let reports_marks = path.hops.iter().any(|hop| hop.ecn.is_some());
    if path.mark != Ecn::NotEct && path.mark_changes.is_empty() && reports_marks {
        page.item(&format!("mark {} is unchanged, as far as hops report it", path.mark));
    }
    let silent = path.hops.iter().filter(|h| h.answered == 0).count() as u64;
    if silent > 0 {
        page.item(&format!("{} did not answer: not a loss if later hops answer", count(silent, "hop")));
    }
    if !path.reached {
        page.item(&unreached(path));
    }
    for hop in path.hops.iter().filter(|hop| path.reached && hop.unreachable > 0) {
        let times = count(hop.unreachable, "probe");
        page.item(&format!("hop {} reported for {times} that the destination is unreachable", hop.ttl));
    }
    for change in path.changes.iter().rev().take(MAX_CHANGES) {
        let flow = if has_flows { format!(" of flow {}", change.flow) } else { String::new() };
        let (ttl, from, to) = (change.ttl, change.from, change.to);
        page.item(&format!("the route{flow} changed at hop {ttl}: {to} instead of {from}"));
    }
    if path.changes.len() > MAX_CHANGES {
        page.item(&format!("{} earlier changes are in the JSON report", path.changes.len() - MAX_CHANGES));
    }
    for note in &path.notes {
        page.item(note);
    }
    page.text
}

/// Describes why the destination was not reached.
pub(super) fn unreached(path: &Path) -> String {
    match (path.hops.last(), path.max_hops) {
        // A router answered the probes that were permitted the most hops: the path goes on behind it.
        (Some(last), Some(most)) if last.ttl == most && last.end.is_none() => {
            format!("not reached within {} (--hops)", count(most.into(), "hop"))
        }
        _ => "the destination did not answer".to_owned(),
    }
}

/// Lists the marks with which probes arrived at a hop: `ECT(1)`, or `ECT(1) 7 Not-ECT 3` with the number of answers that quote each.
fn shares(marks: &ByMark<u64>) -> String {
    let seen: Vec<Ecn> = Ecn::ALL.into_iter().filter(|mark| marks[*mark] > 0).collect();
    match &seen[..] {
        [only] => only.to_string(),
        several => {
            let each: Vec<String> = several.iter().map(|mark| format!("{mark} {}", marks[*mark])).collect();
            each.join(" ")
        }
    }
}

/// Returns the name and the autonomous system of a router, each with leading spaces; empty if neither is known.
fn known(responder: &Responder) -> String {
    [&responder.name, &responder.origin]
        .into_iter()
        .flatten()
        .map(|text| format!("  {}", printable(text)))
        .collect()
}

/// Lists the flows that passed a router: `flows 1 3`.
fn flows(responder: &Responder) -> String {
    let list: Vec<String> = responder.flows.iter().map(u16::to_string).collect();
    format!("{} {}", if list.len() == 1 { "flow" } else { "flows" }, list.join(" "))
}

/// Describes each change of the DSCP along `path`.
pub(super) fn rewrites(path: &Path) -> Vec<String> {
    let in_words = |rewrite: &Rewrite| {
        let whose = match rewrite.after_ttl {
            0 => "this host".to_owned(),
            ttl => format!("hop {ttl}"),
        };
        let (from, to) = (dscp(rewrite.from), dscp(rewrite.to));
        format!("DSCP {from} leaves {whose} and reaches hop {} as {to}", rewrite.at_ttl)
    };
    path.rewrites.iter().map(in_words).chain(mark_changes(path)).collect()
}

/// Describes each change of the mark (ECN) along `path`.
fn mark_changes(path: &Path) -> impl Iterator<Item = String> + '_ {
    path.mark_changes.iter().map(|change| {
        let MarkChange { after_ttl, at_ttl, from, to, answers, of_answers } = change;
        let part = match answers == of_answers {
            true => String::new(),
            false => format!(" in {answers} of {}", count(*of_answers, "answer")),
        };
        let before = if *after_ttl == 0 { "this host".to_owned() } else { format!("hop {after_ttl}") };
        let how = match (from, to) {
            (Ecn::Ect0 | Ecn::Ect1, Ecn::Ce) => "; it is marked there",
            (_, Ecn::NotEct) => "; it is removed there (bleached)",
            _ => "; no rule of ECN permits this",
        };
        format!("mark {from} leaves {before} and reaches hop {at_ttl} as {to}{part}{how}")
    })
}

/// Formats a DSCP: `46 (EF)`, `7`.
pub(super) fn dscp(value: u8) -> String {
    Dscp::new(value.into()).map_or_else(|| value.to_string(), |d| d.to_string())
}
