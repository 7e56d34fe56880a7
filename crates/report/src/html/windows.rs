//! Parts of a test: the windows of `--interval`, and the segments between changes of the path.

use super::{Part, heading, table};
use jitlat_core::summary::{Interval, Summary};
use jitlat_core::units::{eng4, eng4_f64};
use std::fmt::Write;

/// Most rows of either on a page; the JSON has all of them.
const ROWS: usize = 1000;

pub fn write(out: &mut String, part: &Part<'_>, alone: bool) {
    let s = part.summary;
    if s.intervals.is_empty() && s.segments.len() < 2 {
        return;
    }
    let title = heading(part, "Part by part", alone);
    let _ = write!(out, "<section class=\"tables\"><h2>{title}</h2>");
    stretches(out, s);
    windows(out, s);
    out.push_str("</section>\n");
}

fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|c| (*c).to_owned()).collect()
}

/// `number` as text, or a dash.
fn or_dash(number: Option<String>) -> String {
    number.unwrap_or_else(|| "–".to_owned())
}

/// Each segment measures jitter from its own smallest latency.
fn stretches(out: &mut String, s: &Summary) {
    if s.segments.len() < 2 {
        return;
    }
    out.push_str("<h3>Between changes of the path or of a clock</h3>");
    let rows: Vec<Vec<String>> = s
        .segments
        .iter()
        .take(ROWS)
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
    table(out, &names(&columns), &rows);
}

fn windows(out: &mut String, s: &Summary) {
    let Some(first) = s.intervals.first() else { return };
    let _ = write!(out, "<h3>Windows of {}</h3>", eng4(first.length_ns));
    if s.intervals.len() > ROWS {
        let _ = write!(out, "<p>The first {ROWS} of {}; the JSON has all.</p>", s.intervals.len());
    }
    let rows: Vec<Vec<String>> = s.intervals.iter().take(ROWS).map(window).collect();
    let columns = [
        "from",
        "sent",
        "lost",
        "in a row",
        "copies",
        "overtaken",
        "latency",
        "jitter 50 %",
        "99 %",
        "100 %",
        "RTP jitter",
        "burst ratio",
        "MOS",
    ];
    table(out, &names(&columns), &rows);
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
