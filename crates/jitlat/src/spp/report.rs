//! What two captures say beyond the pairs: in words and as JSON.

use super::feed::Facts;
use super::link;
use crate::present::Run;
use anyhow::Context;
use jitlat_core::passive::flows::{MAX_FLOWS, OTHER_FLOWS_NAME};
use jitlat_core::passive::{
    Fields, FlowFigures, IdentityRule, Level, PassiveSummary, Plan, Prefix, SizeFigures, SpreadFigures,
    WayFigures,
};
use jitlat_core::time::{Span, WallTime};
use jitlat_core::units;
use jitlat_report::text;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Everything there is to tell.
pub struct Outcome<'a> {
    pub plan: &'a Plan,
    pub rule: &'a IdentityRule,
    pub facts: &'a [Facts; 2],
    pub summary: &'a PassiveSummary,
    pub window: Span,
    pub sizes: &'a [SizeFigures],
    pub link: Option<&'a link::Asked>,
    /// What ping measured beside it.
    pub ping: Option<SpreadFigures>,
    pub flows: Option<&'a [FlowFigures]>,
    /// Flows shown of them.
    pub top: usize,
    /// Both ways in the common analysis, where something shows it.
    pub runs: &'a [Run],
    /// Whether the user said whose packets are meant.
    pub chosen: bool,
    /// Whether windows of them were asked for.
    pub windows: bool,
}

const POINTS: [&str; 2] = ["reference", "monitor"];

pub fn list(prefixes: &[Prefix]) -> String {
    const SHOWN: usize = 4;
    let mut text: Vec<_> = prefixes.iter().take(SHOWN).map(ToString::to_string).collect();
    if prefixes.len() > SHOWN {
        text.push(format!("and {} more", prefixes.len() - SHOWN));
    }
    text.join(", ")
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// The summary as people read it.
pub fn summary(o: &Outcome<'_>) -> String {
    let mut t = String::new();
    let (s, plan) = (o.summary, o.plan);
    // Writing to a string cannot fail.
    let _ = writeln!(
        t,
        "Synthetic packet pairs between {} (reference) and {} (monitor)",
        list(&plan.sides[0].reference),
        list(&plan.sides[1].monitor)
    );
    if plan.sides[0] != plan.sides[1] {
        let _ = writeln!(
            t,
            "  translated on the way: {} seen at the monitor, {} seen at the reference",
            list(&plan.sides[1].reference),
            list(&plan.sides[0].monitor)
        );
    }
    if plan.direction_assumed {
        t.push_str("  which side is which could not be told for some packets: the clocks were believed; give -a and -A\n");
    }
    let _ = writeln!(t, "  packets are told apart by {}", rule(o.rule));
    let _ = writeln!(t);
    let _ = writeln!(t, "{:<22}{:>14} {:>14}", "", "OUT (to MON)", "IN (to REF)");
    let mut row = |name: &str, f: &dyn Fn(&WayFigures) -> String| {
        let _ = writeln!(t, "{name:<22}{:>14} {:>14}", f(&s.out), f(&s.back));
    };
    row("seen at reference", &|w| w.counts.seen_at_reference.to_string());
    row("seen at monitor", &|w| w.counts.seen_at_monitor.to_string());
    row("matched", &|w| w.counts.matched.to_string());
    row("lost", &|w| w.counts.lost.to_string());
    row("loss", &|w| w.loss_ratio.map_or("-".into(), |l| format!("{:.3} %", l * 100.0)));
    row("duplicated", &|w| w.counts.duplicates.to_string());
    row("reordered", &|w| w.counts.reordered.to_string());
    for (name, count) in [
        ("captured twice", (|w| w.counts.captured_twice) as fn(&WayFigures) -> u64),
        ("ambiguous, dropped", |w| w.counts.ambiguous),
        ("outside the overlap", |w| w.counts.outside),
        ("not seen at source", |w| w.counts.unseen),
        ("given up, no room", |w| w.counts.given_up),
    ] {
        if count(&s.out) + count(&s.back) > 0 {
            row(name, &|w| count(w).to_string());
        }
    }
    let eng = |v: Option<i64>| v.map_or("-".to_owned(), units::eng4);
    row("delay variation p50", &|w| eng(w.delay_variation_ns.map(|d| d.median)));
    row("                p95", &|w| eng(w.delay_variation_ns.map(|d| d.p95)));
    row("                p99", &|w| eng(w.delay_variation_ns.map(|d| d.p99)));
    row("                max", &|w| eng(w.delay_variation_ns.map(|d| d.max)));
    row("|IPDV| p50", &|w| eng(w.ipdv_ns.map(|d| d.median)));
    row("       p95", &|w| eng(w.ipdv_ns.map(|d| d.p95)));
    row("mean IP length", &|w| w.mean_length.map_or("-".into(), |l| format!("{l:.1} B")));
    if s.out.serialisation.is_some() || s.back.serialisation.is_some() {
        row("a byte costs", &|w| w.serialisation.map_or("-".into(), |v| units::eng4_f64(v.ns_per_byte)));
        row("  as one link's rate", &|w| {
            w.serialisation.map_or("-".into(), |v| units::bit_rate(v.series_rate))
        });
    }
    t.push('\n');
    spreads(&mut t, s, o.ping);
    for l in &s.levels {
        let _ = writeln!(t, "{:<22}{}", "bands", band(l));
    }
    clocks(&mut t, s);
    for run in o.runs {
        let windows = text::windows(&run.summary, &text::Options::default());
        if !windows.is_empty() {
            let _ = write!(t, "\n{}{}", run.heading, windows.trim_start());
        }
    }
    if let Some(flows) = o.flows {
        flow_table(&mut t, flows, o.top);
    }
    if let Some(asked) = o.link {
        t.push_str(&link::text(asked, o.sizes));
    }
    for line in suspicions(o) {
        let _ = writeln!(t, "note: {line}");
    }
    t
}

/// A band in words.
pub fn band(l: &Level) -> String {
    let apart = units::eng4_f64(l.spacing_ns);
    let mut text = match l.of_differences {
        true => format!("{:.0} % of the moves between neighbouring pairs are {apart}", 100.0 * l.strength),
        false => format!("{apart} apart (strength {:.2})", l.strength),
    };
    if let Some(k) = l.steps_per_coarser {
        let _ = write!(text, ", {k} to each of the coarser");
    }
    if !l.explained.is_empty() {
        let _ = write!(text, ": {}", l.explained.join("; "));
    }
    text
}

fn flow_table(t: &mut String, flows: &[FlowFigures], top: usize) {
    let _ = writeln!(
        t,
        "\n{:>9} {:>9} {:>8} {:>8} {:>7} {:>10} {:>10} {:>10}  flow",
        "OUT", "IN", "lost", "lost", "pairs", "min", "p50", "p95"
    );
    for f in flows.iter().take(top) {
        let rtt = |g: fn(&jitlat_core::passive::flows::FlowRtt) -> i64| {
            f.rtt_ns.as_ref().map_or("-".to_owned(), |r| units::eng4(g(r)))
        };
        let _ = writeln!(
            t,
            "{:>9} {:>9} {:>8} {:>8} {:>7} {:>10} {:>10} {:>10}  {}",
            f.out.matched,
            f.back.matched,
            f.out.lost,
            f.back.lost,
            f.pairs,
            rtt(|r| r.min),
            rtt(|r| r.median),
            rtt(|r| r.p95),
            f.flow
        );
    }
    if flows.len() > top {
        let _ = writeln!(t, "and {} more (--top, or --json)", flows.len() - top);
    }
    if flows.iter().any(|f| f.flow == OTHER_FLOWS_NAME) {
        let _ = writeln!(
            t,
            "note: all flows after the first {MAX_FLOWS} are counted together as {OTHER_FLOWS_NAME}; --per-prefix makes fewer"
        );
    }
}

fn spreads(t: &mut String, s: &PassiveSummary, ping: Option<SpreadFigures>) {
    let _ = writeln!(
        t,
        "{:<22}{:>9} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "values", "min", "p50", "mean", "p95", "max"
    );
    let mut row = |name: &str, f: Option<SpreadFigures>| {
        let Some(f) = f else {
            let _ = writeln!(t, "{name:<22}{:>9}", 0);
            return;
        };
        let mean = units::eng4_f64(f.mean);
        let [min, p50, p95, max] = [f.min, f.median, f.p95, f.max].map(units::eng4);
        let _ = writeln!(t, "{name:<22}{:>9} {min:>10} {p50:>10} {mean:>10} {p95:>10} {max:>10}", f.count);
    };
    row("RTT per pair", s.rtt_ns);
    row(&format!("RTT every {}", units::eng4(s.per_time_interval_ns.0)), s.rtt_per_time_ns);
    if ping.is_some() {
        row("ping", ping);
    }
    row("time at the monitor", s.turnaround_ns);
    if let Some(rate) = s.pair_rate {
        let _ = writeln!(t, "{:<22}{rate:.2}/s", "pair rate");
    }
}

fn clocks(t: &mut String, s: &PassiveSummary) {
    if let (Some(offset), Some(bound)) = (s.clocks.offset_ns, s.clocks.offset_bound_ns) {
        let _ = writeln!(
            t,
            "{:<22}{} +/- {} (monitor - reference, in the middle of the captures)",
            "clock offset",
            units::full_f64(offset),
            units::eng4_f64(bound)
        );
    }
    if let Some(skew) = s.clocks.skew_ppm {
        let [out, back] = s.clocks.skew_ppm_by_way.map(|w| w.map_or("-".to_owned(), |v| format!("{v:.2}")));
        let _ = writeln!(t, "{:<22}{skew:.2} ppm (by OUT {out}, by IN {back})", "clock skew");
    }
}

fn rule(rule: &IdentityRule) -> String {
    match rule.fields {
        Fields::Mask(mask) => format!("the fields of mask {mask}"),
        Fields::Full { addresses, ports, ident } => {
            let mut parts = vec!["length", "protocol fields and payload"];
            for (on, name) in [(ident, "identification"), (ports, "ports"), (addresses, "addresses")] {
                if on {
                    parts.insert(0, name);
                }
            }
            let mut text = parts.join(", ");
            if !addresses {
                text.push_str(if ports {
                    " (addresses are translated)"
                } else {
                    " (addresses and ports are translated)"
                });
            }
            if !ident {
                text.push_str(" (the identification is rewritten on the way)");
            }
            text
        }
    }
}

/// What is wrong with the captures or with the matching, and what to do about it.
pub fn suspicions(o: &Outcome<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for (facts, point) in o.facts.iter().zip(POINTS) {
        of_capture(&mut notes, facts, point);
    }
    for (facts, point) in o.facts.iter().zip(POINTS) {
        if !o.chosen && share(facts.elsewhere, facts.packets) > 20.0 {
            notes.push(format!(
                "{point}: {:.0} % of the packets are not between these addresses and were left out; -a and -A take \
                 prefixes that hold more of them",
                share(facts.elsewhere, facts.packets)
            ));
        }
    }
    let ways = [&o.summary.out, &o.summary.back];
    let total = |f: fn(&WayFigures) -> u64| ways.iter().map(|w| f(w)).sum::<u64>();
    let seen = total(|w| w.counts.seen_at_reference + w.counts.seen_at_monitor);
    let matched = total(|w| w.counts.matched);
    let ambiguous = total(|w| w.counts.ambiguous);
    if share(ambiguous, seen) > 1.0 {
        notes.push(format!(
            "{:.1} % of the sightings were dropped as ambiguous: packets repeat what tells them apart (no IP \
             identification, the same payload). Capture more bytes of each packet (tcpdump -s 0){}",
            share(ambiguous, seen),
            if matches!(o.rule.fields, Fields::Mask(_)) { ", or leave out the mask" } else { "" }
        ));
    }
    let given_up = total(|w| w.counts.given_up);
    if given_up > 0 {
        notes.push(format!(
            "{given_up} sightings had to be given up before it was known whether they arrive: a shorter -d takes less room"
        ));
    }
    let unmatched = seen.saturating_sub(2 * matched);
    if matched > 0 && share(unmatched, seen) > 30.0 && share(ambiguous, seen) <= 1.0 {
        notes.push(format!(
            "{:.0} % of the sightings have no partner: if the captures overlap, look for segmentation offload, a \
             NAT that changes part of the traffic, or filters that differ",
            share(unmatched, seen)
        ));
    }
    let long = o.facts.each_ref().map(|f| f.long);
    if long[0].abs_diff(long[1]) > 0 && share(unmatched, seen) > 1.0 {
        let at = if long[0] > long[1] { 0 } else { 1 };
        notes.push(super_packets(&o.facts[at], POINTS[at]));
    }
    let zero: u64 = o.facts.iter().map(|f| f.unidentified).sum();
    let ours: u64 = o.facts.iter().map(|f| f.ours).sum();
    if let Fields::Mask(mask) = o.rule.fields
        && mask & !63 == 0
        && share(zero, ours) > 10.0
    {
        notes.push(format!(
            "{:.0} % of the packets have no IP identification, on which mask {mask} rests: matches slip after each \
             loss. Use mask 3135 (UDP) or 16639 (TCP), or leave out the mask",
            share(zero, ours)
        ));
    }
    for run in o.runs.iter().filter(|r| o.windows && r.summary.intervals.is_empty() && matched > 0) {
        notes.push(format!(
            "{}: no windows, which need the packets: of more than a million a way none are kept (editcap -i cuts \
             captures), or there would be more than 100 000",
            run.label
        ));
    }
    if matched == 0 {
        notes.push(format!(
            "no packet was matched within {} s; {}",
            o.window.as_seconds(),
            if o.plan.common == 0 {
                "the captures have none in common under this rule"
            } else {
                "try a larger -d, or another -o"
            }
        ));
    } else if o.summary.pairs == 0 {
        notes.push("no pair: it takes packets both ways, an OUT followed by an IN at the monitor".to_owned());
    }
    if matched > 10 && ways.iter().all(|w| w.delay_raw_ns.is_none_or(|d| d.min == 0 && d.max == 0)) {
        notes.push("every packet has the same time at both points: is it the same capture twice?".to_owned());
    }
    if let Some(rtt) = o.summary.rtt_ns
        && rtt.min < 0
    {
        notes.push("some round trips are negative: a clock was set while its capture ran".to_owned());
    }
    notes
}

fn of_capture(notes: &mut Vec<String>, f: &Facts, point: &str) {
    notes.extend(f.notes.iter().cloned());
    if let Some((link, n)) = f.unknown_link {
        notes.push(format!("{point}: {n} frames are of link type {}, which is not understood", link.0));
    }
    if f.too_short > 0 {
        notes.push(format!(
            "{point}: {} packets were captured too short to be told apart: capture with -s 0, or at least -s 128",
            f.too_short
        ));
    }
    if share(f.truncated, f.frames) > 1.0 {
        notes.push(format!("{point}: {} frames were cut before the end of their headers", f.truncated));
    }
    if f.malformed > 0 {
        notes.push(format!("{point}: {} malformed packets were passed over", f.malformed));
    }
    if f.drops > 0 {
        notes.push(format!(
            "{point}: the capture lost {} packets itself; losses below are not the path's alone",
            f.drops
        ));
    }
    if f.disordered > 0 {
        notes
            .push(format!("{point}: {} packets were out of order in the file and were sorted", f.disordered));
    }
    if f.steps_back > 0 {
        notes.push(format!("{point}: the clock was set back {} times during the capture", f.steps_back));
    }
}

fn super_packets(f: &Facts, point: &str) -> String {
    format!(
        "{point}: {} packets of up to {} bytes never travelled like that: segmentation offload. Capture with \
         `ethtool -K IFACE tso off gso off gro off lro off`",
        f.long, f.longest
    )
}

/// What may be the reason that nothing could be matched at all.
pub fn suspicions_without_match(facts: &[Facts; 2], elsewhere: Option<&Plan>) -> Vec<String> {
    let mut notes = Vec::new();
    for (f, point) in facts.iter().zip(POINTS) {
        let span = f.span.map_or("no packets".to_owned(), |(a, b)| {
            format!(
                "{} frames, {} IP packets, {} to {}",
                f.frames,
                f.packets,
                units::utc_date(a),
                units::utc_date(b)
            )
        });
        notes.push(format!("{point}: {span}"));
        of_capture(&mut notes, f, point);
    }
    if let (Some(r), Some(m)) = (facts[0].span, facts[1].span)
        && (r.1 < m.0 || m.1 < r.0)
    {
        let gap = if r.1 < m.0 { m.0 - r.1 } else { r.0 - m.1 };
        notes.push(format!(
            "the captures do not overlap in time: {} lie between them, unless a clock is wrong by that much",
            units::eng4(gap.0)
        ));
    }
    for (f, point) in facts.iter().zip(POINTS) {
        if f.long > 0 && facts.iter().any(|g| g.long == 0) {
            notes.push(super_packets(f, point));
        }
    }
    if let Some(plan) = elsewhere {
        notes.push(format!(
            "the common packets go between {} and {}; leave out -a and -A to have the addresses found",
            list(&plan.sides[0].reference),
            list(&plan.sides[1].monitor)
        ));
    }
    notes
}

/// Writes to standard output; a reader that has gone away is no error.
pub fn to_stdout(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(e).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes the summary as one JSON object.
pub fn write_json(o: &Outcome<'_>, path: &Path) -> anyhow::Result<()> {
    let side = |p: &[Prefix]| p.iter().map(ToString::to_string).collect::<Vec<_>>();
    let capture = |f: &Facts| {
        serde_json::json!({
            "frames": f.frames, "ip_packets": f.packets, "between_the_sides": f.ours,
            "too_short": f.too_short, "truncated": f.truncated, "malformed": f.malformed,
            "disordered": f.disordered, "capture_drops": f.drops,
            "first_ns": f.span.map(|s: (WallTime, WallTime)| s.0), "last_ns": f.span.map(|s| s.1),
        })
    };
    let json = serde_json::json!({
        "instrument": "spp",
        "version": 1,
        "reference_addresses": side(&o.plan.sides[0].reference),
        "monitor_addresses": side(&o.plan.sides[1].monitor),
        "identity": rule(o.rule),
        "captures": { "reference": capture(&o.facts[0]), "monitor": capture(&o.facts[1]) },
        "summary": o.summary,
        "sizes": o.sizes,
        "link": match o.link {
            Some(link::Asked::Compare(link)) => serde_json::to_value(link)?,
            Some(link::Asked::Fit { tunnel }) => serde_json::to_value(link::sweep(o.sizes, *tunnel))?,
            None => serde_json::Value::Null,
        },
        "ping_rtt_ns": o.ping,
        "flows": o.flows,
        "directions": o.runs.iter().map(|r| &r.summary).collect::<Vec<_>>(),
        "notes": suspicions(o),
    });
    let text = serde_json::to_string_pretty(&json)?;
    if path.as_os_str() == "-" {
        return to_stdout(&(text + "\n"));
    }
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
