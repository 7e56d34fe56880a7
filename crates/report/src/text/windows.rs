//! Parts of a test: the windows of `--interval`, and the segments between path changes.

use super::{Page, WordStyle, dash};
use jitlat_core::summary::{Interval, Summary};
use jitlat_core::units::{eng4, eng4_f64};

/// Maximum number of lines.
const MAX_LINES: usize = 40;

pub(super) fn write(page: &mut Page, s: &Summary) {
    alone(page, &s.intervals, &[]);
    stretches(page, s);
}

/// Adds the segments, each with jitter above its own smallest latency.
fn stretches(page: &mut Page, s: &Summary) {
    if s.segments.len() < 2 {
        return;
    }
    page.heading("Segments between path or clock changes");
    for g in s.segments.iter().take(MAX_LINES) {
        let step = g.step_ns.map_or_else(String::new, |step| {
            format!(", {}{} from the previous segment", if step > 0 { "+" } else { "" }, eng4(step))
        });
        page.item(&format!(
            "packets {} to {}: smallest latency {}{step}; mean {}; jitter 99% {}, 99.9% {}, 100% {}",
            g.first_seq,
            g.last_seq,
            eng4(g.min),
            eng4_f64(g.mean),
            eng4(g.pdv_p99),
            eng4(g.pdv_p999),
            eng4(g.pdv_max)
        ));
    }
    if s.segments.len() > MAX_LINES {
        page.item(&format!("and {} more, in the JSON", s.segments.len() - MAX_LINES));
    }
}

/// Adds the table of windows without the segments. Windows that begin at a time in `except` are left out.
pub(super) fn alone(page: &mut Page, intervals: &[Interval], except: &[i64]) {
    let mut shown: Vec<&Interval> = intervals.iter().filter(|w| !except.contains(&w.start_ns)).collect();
    let Some(first) = shown.first() else { return };
    page.heading(&format!("Windows of {}", eng4(first.length_ns)));
    if shown.len() > MAX_LINES {
        page.item(&format!(
            "the {MAX_LINES} of {} with the most loss and the largest jitter; --json and --intervals have all",
            shown.len()
        ));
        shown.sort_by_key(|w| std::cmp::Reverse((w.lost, w.pdv_p99)));
        shown.truncate(MAX_LINES);
        shown.sort_by_key(|w| w.start_ns);
    }
    for head in HEAD {
        let head = page.painted(WordStyle::Heading, head);
        page.line(&head);
    }
    shown.into_iter().for_each(|w| page.line(&line(w)));
}

/// Two lines of column headings.
const HEAD: [&str; 2] = [
    "        from    sent   lost  in a    latency     jitter",
    "                               row       mean        50%        99%       100%",
];

/// Returns the head of a table of windows of `length_ns`, with the `name` of the stream if there are several.
pub fn window_head(name: &str, length_ns: i64) -> String {
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    format!("{name}Windows of {}\n{}\n{}\n", eng4(length_ns), HEAD[0], HEAD[1])
}

/// Returns the line of a window in the table that begins with [`window_head`].
pub fn window_line(window: &Interval) -> String {
    line(window) + "\n"
}

fn line(w: &Interval) -> String {
    format!(
        "{:>12} {:>7} {:>6} {:>5} {:>10} {:>10} {:>10} {:>10}",
        eng4(w.start_ns),
        w.sent,
        w.lost,
        w.longest_loss,
        dash(w.mean.map(eng4_f64)),
        dash(w.pdv_p50.map(eng4)),
        dash(w.pdv_p99.map(eng4)),
        dash(w.pdv_max.map(eng4)),
    )
}
