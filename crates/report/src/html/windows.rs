//! Parts of a test: the windows of `--interval`, and the segments between path changes.

use super::{ReportPart, heading, table};
use jitlat_core::summary::{Interval, Summary};
use jitlat_core::units::{eng4, eng4_f64};
use maud::{Markup, html};

/// Maximum number of rows of the table of windows and of the table of segments on a page; the JSON has all rows.
const MAX_ROWS: usize = 1000;

/// Renders the tables of windows and segments; returns nothing if the test has neither windows nor several
/// segments.
pub fn section(part: &ReportPart<'_>, alone: bool) -> Markup {
    let s = part.summary;
    html! {
        @if !s.intervals.is_empty() || s.segments.len() > 1 {
            section.tables {
                h2 { (heading(part, "Windows and segments", alone)) }
                (stretches(s))
                (windows(s))
            }
        }
    }
}

fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|c| (*c).to_owned()).collect()
}

/// Returns `number`, or a dash if it is undefined.
fn or_dash(number: Option<String>) -> String {
    number.unwrap_or_else(|| "–".to_owned())
}

/// Renders the segments, each with jitter above its own smallest latency.
fn stretches(s: &Summary) -> Markup {
    if s.segments.len() < 2 {
        return Markup::default();
    }
    let rows: Vec<Vec<String>> = s
        .segments
        .iter()
        .take(MAX_ROWS)
        .map(|g| {
            vec![
                format!("{} to {}", g.first_seq, g.last_seq),
                or_dash(g.step_ns.map(eng4)),
                eng4(g.min),
                eng4_f64(g.mean),
                eng4(g.pdv_p99),
                eng4(g.pdv_p999),
                eng4(g.pdv_max),
            ]
        })
        .collect();
    let columns =
        ["packets", "step", "min latency", "mean latency", "jitter 99 %", "jitter 99.9 %", "jitter 100 %"];
    html! {
        h3 { "Segments between path or clock changes" }
        (table(&names(&columns), &rows))
    }
}

fn windows(s: &Summary) -> Markup {
    let Some(first) = s.intervals.first() else { return Markup::default() };
    let rows: Vec<Vec<String>> = s.intervals.iter().take(MAX_ROWS).map(window).collect();
    let columns = [
        "from",
        "sent",
        "lost",
        "in a row",
        "duplicates",
        "reordered",
        "latency",
        "jitter 50 %",
        "99 %",
        "100 %",
        "RTP jitter",
        "burst ratio",
        "MOS",
    ];
    html! {
        h3 { "Windows of " (eng4(first.length_ns)) }
        @if s.intervals.len() > MAX_ROWS {
            p { "The first " (MAX_ROWS) " of " (s.intervals.len()) "; the JSON has all." }
        }
        (table(&names(&columns), &rows))
    }
}

fn window(w: &Interval) -> Vec<String> {
    let own = w.summary.as_deref();
    let best =
        own.and_then(|s| s.dejitter.as_ref()).and_then(|d| d.curve.iter().map(|p| p.mos).reduce(f64::max));
    vec![
        eng4(w.start_ns),
        w.sent.to_string(),
        w.lost.to_string(),
        w.longest_loss.to_string(),
        w.duplicate.to_string(),
        w.out_of_sequence.to_string(),
        or_dash(w.mean.map(eng4_f64)),
        or_dash(w.pdv_p50.map(eng4)),
        or_dash(w.pdv_p99.map(eng4)),
        or_dash(w.pdv_max.map(eng4)),
        or_dash(own.and_then(|s| s.rfc3550_jitter.as_ref()).map(|j| eng4_f64(j.mean))),
        or_dash(own.and_then(|s| s.loss.gilbert.burst_ratio).map(|b| format!("{b:.2}"))),
        or_dash(best.map(|mos| format!("{mos:.2}"))),
    ]
}
