//! Passive round trips: figures of two captures.

use crate::text;
use jitlat_core::summary::Summary;
use jitlat_core::units;
use jitlat_passive::flows::{FlowRtt, MAX_FLOWS, OTHER_FLOWS_NAME};
use jitlat_passive::verdict::{describe_identity, list_prefixes};
use jitlat_passive::{
    BandSpacing, FlowFigures, LinkQuestion, MatchedFigures, PassiveResult, PassiveSummary, PingFigures,
    PingSource, SpreadFigures,
};
use std::fmt::Write as _;

/// Sections printed in addition to the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassiveExtras<'a> {
    /// Round trips of ping during the captures.
    pub ping: PingFigures,
    /// Question about the link; `None` if there is none.
    pub link: Option<&'a LinkQuestion>,
    /// Heading and summary of each direction; the windows of the summary are printed.
    pub ways: &'a [(&'a str, &'a Summary)],
    /// Number of flows printed, in descending order of bytes.
    pub top: usize,
    /// Notes to add to those of the result.
    pub notes: &'a [String],
}

/// Formats the result.
pub fn passive(r: &PassiveResult, extras: &PassiveExtras<'_>) -> String {
    let mut t = String::new();
    let (s, plan) = (&r.summary, &r.plan);
    // Writing to a string cannot fail.
    let _ = writeln!(
        t,
        "Synthetic packet pairs between {} (reference) and {} (monitor)",
        list_prefixes(&plan.sides[0].reference),
        list_prefixes(&plan.sides[1].monitor)
    );
    if plan.sides[0] != plan.sides[1] {
        let _ = writeln!(
            t,
            "  translated in between: {} seen at the monitor, {} seen at the reference",
            list_prefixes(&plan.sides[1].reference),
            list_prefixes(&plan.sides[0].monitor)
        );
    }
    if plan.direction_assumed {
        t.push_str(
            "  the direction of some packets is uncertain and was derived from the clocks; give -a and -A\n",
        );
    }
    let _ = writeln!(t, "  packets are identified by {}", describe_identity(&r.identity));
    let _ = writeln!(t);
    let _ = writeln!(t, "{:<22}{:>14} {:>14}", "", "OUT (to MON)", "IN (to REF)");
    let mut row = |name: &str, f: &dyn Fn(&MatchedFigures) -> String| {
        let _ = writeln!(t, "{name:<22}{:>14} {:>14}", f(&s.out), f(&s.back));
    };
    row("seen at reference", &|w| w.counts.seen_at_reference.to_string());
    row("seen at monitor", &|w| w.counts.seen_at_monitor.to_string());
    row("matched", &|w| w.counts.matched.to_string());
    row("lost", &|w| w.counts.lost.to_string());
    row("loss", &|w| w.loss_ratio.map_or("-".into(), |l| format!("{:.3} %", l * 100.0)));
    if s.out.loss_bounds.is_some() || s.back.loss_bounds.is_some() {
        row("loss with unknown fate", &|w| w.loss_bounds.map_or("-".into(), describe_bounds));
    }
    row("duplicated", &|w| w.counts.duplicates.to_string());
    row("reordered", &|w| w.counts.reordered.to_string());
    for (name, count) in [
        ("captured twice", (|w| w.counts.captured_twice) as fn(&MatchedFigures) -> u64),
        ("ambiguous, dropped", |w| w.counts.ambiguous),
        ("outside the overlap", |w| w.counts.outside),
        ("not seen at source", |w| w.counts.unseen),
        ("given up at the limit", |w| w.counts.given_up),
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
        row("cost per byte", &|w| w.serialisation.map_or("-".into(), |v| units::eng4_f64(v.ns_per_byte)));
        row("  as one link's rate", &|w| {
            w.serialisation.map_or("-".into(), |v| units::bit_rate(v.series_rate))
        });
    }
    t.push('\n');
    spreads(&mut t, s, extras.ping);
    bands(&mut t, s);
    clocks(&mut t, s);
    t.push_str(&asked(r, extras));
    for line in r.notes().iter().chain(extras.notes) {
        let _ = writeln!(t, "note: {line}");
    }
    t
}

/// Returns the requested tables: windows, flows, sizes and delays on a link, round trips of ping. Empty if none was
/// requested.
pub fn asked_tables(r: &PassiveResult, extras: &PassiveExtras<'_>) -> String {
    let mut t = String::new();
    if extras.ping[PingSource::File as usize].is_some() {
        spreads(&mut t, &r.summary, extras.ping);
    }
    if extras.link.is_some() {
        bands(&mut t, &r.summary);
    }
    t += &asked(r, extras);
    t.trim_start_matches('\n').to_owned()
}

/// Describes the smallest and the largest possible loss ratio.
pub fn describe_bounds([low, high]: [f64; 2]) -> String {
    let percent = |share: f64| match 100.0 * share {
        p if p < 9.95 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    };
    format!("{} to {} %", percent(low), percent(high))
}

fn asked(r: &PassiveResult, extras: &PassiveExtras<'_>) -> String {
    let mut t = String::new();
    for (heading, summary) in extras.ways {
        let windows = text::windows(summary, &[], &text::TextOptions::default());
        if !windows.is_empty() {
            let _ = write!(t, "\n{heading}{}", windows.trim_start());
        }
    }
    if let Some(flows) = &r.flows {
        flow_table(&mut t, flows, extras.top);
    }
    if let Some(question) = extras.link {
        t.push_str(&super::link::answer(question, &r.sizes));
    }
    t
}

/// Headings of [`capture_row`].
pub const CAPTURE_COLUMNS: [&str; 9] =
    ["", "pairs", "min", "p50", "mean", "p95", "max", "lost OUT", "lost IN"];

/// Returns the figures of a capture's round trips as a row.
pub fn capture_row(label: &str, r: &PassiveResult) -> [String; 9] {
    let s = &r.summary;
    let loss = |w: &MatchedFigures| w.loss_ratio.map_or("-".to_owned(), |l| format!("{:.3} %", l * 100.0));
    let [min, p50, p95, max] = match s.rtt_ns {
        Some(f) => [f.min, f.median, f.p95, f.max].map(units::eng4),
        None => [(); 4].map(|()| "-".to_owned()),
    };
    let mean = s.rtt_ns.map_or("-".to_owned(), |f| units::eng4_f64(f.mean));
    [label.to_owned(), s.pairs.to_string(), min, p50, mean, p95, max, loss(&s.out), loss(&s.back)]
}

/// Returns a table of several captures, one line each.
pub fn captures(runs: &[(&str, &PassiveResult)]) -> String {
    let wide = runs.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).max(8);
    let mut t = String::new();
    let mut line = |[label, cells @ ..]: [&str; 9]| {
        // Writing to a string cannot fail.
        let _ = write!(t, "{label:<wide$}");
        for cell in cells {
            let _ = write!(t, " {cell:>10}");
        }
        t.push('\n');
    };
    line(CAPTURE_COLUMNS);
    runs.iter().for_each(|(label, r)| line(capture_row(label, r).each_ref().map(String::as_str)));
    t
}

fn bands(t: &mut String, s: &PassiveSummary) {
    // Writing to a string cannot fail.
    for l in &s.levels {
        let _ = writeln!(t, "{:<22}{}", "bands", describe_band(l));
    }
    if let Some(queue) = &s.queue {
        let _ = writeln!(t, "{:<22}{queue}", "queue");
    }
}

/// Describes a band.
pub fn describe_band(l: &BandSpacing) -> String {
    let apart = units::eng4_f64(l.spacing_ns);
    let mut text = match l.of_differences {
        true => {
            format!("{:.0} % of the differences between neighbouring pairs are {apart}", 100.0 * l.strength)
        }
        false => format!("{apart} apart (strength {:.2})", l.strength),
    };
    if let Some(k) = l.steps_per_coarser {
        let _ = write!(text, ", {k} per coarser band");
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
        let rtt = |g: fn(&FlowRtt) -> i64| f.rtt_ns.as_ref().map_or("-".to_owned(), |r| units::eng4(g(r)));
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

fn spreads(t: &mut String, s: &PassiveSummary, ping: PingFigures) {
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
    for source in PingSource::BOTH {
        if let Some(f) = ping[source as usize] {
            row(source.label(), Some(f));
        }
    }
    row("time at the monitor", s.turnaround_ns);
    if let Some(rate) = s.pair_rate {
        let _ = writeln!(t, "{:<22}{rate:.2}/s", "pair rate");
    }
    if let Some(ratio) = s.pairs_per_packet {
        let _ = writeln!(
            t,
            "{:<22}{ratio:.3} (pair rate over packet rate; 0.5 if directions alternate strictly)",
            "pairs per packet"
        );
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
