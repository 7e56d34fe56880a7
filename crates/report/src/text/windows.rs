//! Parts of a test: the windows of `--interval`, and the segments between changes of the path.

use super::{Look, Page, dash};
use jitlat_core::summary::{Interval, Summary};
use jitlat_core::units::{eng4, eng4_f64};

/// Most lines.
const LINES: usize = 40;

pub(super) fn write(page: &mut Page, s: &Summary) {
    alone(page, s);
    stretches(page, s);
}

/// Each segment measures jitter from its own smallest latency.
fn stretches(page: &mut Page, s: &Summary) {
    if s.segments.len() < 2 {
        return;
    }
    page.heading("Between changes of the path or of a clock");
    for g in s.segments.iter().take(LINES) {
        let step = g.step_ns.map_or_else(String::new, |step| {
            format!(", {}{} from the stretch before", if step > 0 { "+" } else { "" }, eng4(step))
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
    if s.segments.len() > LINES {
        page.item(&format!("and {} more, in the JSON", s.segments.len() - LINES));
    }
}

/// The windows without the segments.
pub(super) fn alone(page: &mut Page, s: &Summary) {
    let Some(first) = s.intervals.first() else { return };
    page.heading(&format!("Windows of {}", eng4(first.length_ns)));
    let mut shown: Vec<&Interval> = s.intervals.iter().collect();
    if shown.len() > LINES {
        page.item(&format!(
            "the {LINES} of {} with the most loss and the largest jitter; --json and --intervals have all",
            shown.len()
        ));
        shown.sort_by_key(|w| std::cmp::Reverse((w.lost, w.pdv_p99)));
        shown.truncate(LINES);
        shown.sort_by_key(|w| w.start_ns);
    }
    let head = format!(
        "{:>12} {:>7} {:>6} {:>5} {:>10} {:>10} {:>10} {:>10}",
        "from", "sent", "lost", "in a", "latency", "jitter", "", ""
    );
    let head = page.painted(Look::Heading, head.trim_end());
    page.line(&head);
    let head = format!(
        "{:>12} {:>7} {:>6} {:>5} {:>10} {:>10} {:>10} {:>10}",
        "", "", "", "row", "mean", "50%", "99%", "100%"
    );
    let head = page.painted(Look::Heading, &head);
    page.line(&head);
    for w in shown {
        let line = format!(
            "{:>12} {:>7} {:>6} {:>5} {:>10} {:>10} {:>10} {:>10}",
            eng4(w.start_ns),
            w.sent,
            w.lost,
            w.longest_loss,
            dash(w.mean.map(eng4_f64)),
            dash(w.pdv_p50.map(eng4)),
            dash(w.pdv_p99.map(eng4)),
            dash(w.pdv_max.map(eng4)),
        );
        page.line(&line);
    }
}
