//! Tables of figures.

use super::parts::{head, scrolling};
use super::{ReportPart, heading};
use crate::figure::{AxisUnit, group_thousands, value_label};
use crate::mean;
use jitlat_core::answer::JitterWithoutStep;
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarUnit, selectors};
use jitlat_core::spec::{Transport, ip_protocol_name};
use jitlat_core::summary::{Distribution, Percent, Summary};
use jitlat_core::twoway::BROWSER_REQUESTS;
use jitlat_core::units::bit_rate;
use jitlat_verdict::with_clock_step;
use maud::{Markup, html};

/// Describes the packets sent, in one line.
pub fn what(s: &Summary) -> String {
    if super::is_passive(s) {
        let date = s.header.date.as_ref().map_or(String::new(), |d| format!(" · from {d}"));
        return format!("{} captured packets{date}", count(s.counts.sent));
    }
    let name = ip_protocol_name(s.header.proto);
    let what = match Transport::from_number(s.header.proto.into()) {
        Some(Transport::Tcp) => "records",
        Some(Transport::Udp) => "packets",
        None => "requests",
    };
    let date = s.header.date.as_ref().map_or(String::new(), |d| format!(" · {d}"));
    // A length of zero means unknown: the header was invalid.
    let size = if s.header.pktlen > 0 { format!(" of {} bytes", s.header.pktlen) } else { String::new() };
    let every = match s.periods.target {
        Some(target) => format!(", one every {}", time(target.period_ns)),
        None => String::new(),
    };
    if s.two_way.as_ref().is_some_and(|two_way| two_way.protocol == BROWSER_REQUESTS) {
        return format!("{} requests of a browser over TCP{size}{every}{date}", count(s.counts.sent));
    }
    format!("{} {name} {what}{size}{every}{date}", count(s.counts.sent))
}

fn time(ns: f64) -> String {
    value_label(AxisUnit::Time, ns)
}

fn count(n: u64) -> String {
    group_thousands(&n.to_string())
}

/// Formats a value, or the sign for "undefined".
fn cell(value: Option<impl Into<f64>>) -> String {
    value.map_or_else(|| "–".into(), |v| time(v.into()))
}

fn integer(value: Option<i64>) -> String {
    cell(value.map(|v| v as f64))
}

/// Renders the counts and the tables of distributions, rates and figures.
pub fn section(part: &ReportPart<'_>, alone: bool) -> Markup {
    let s = part.summary;
    html! {
        section.tables {
            h2 { (heading(part, "The figures", alone)) }
            (counts(s))
            (distributions(s))
            (rates(s))
            (marks(s))
            (more(s))
            (all_figures(s))
        }
    }
}

fn counts(s: &Summary) -> Markup {
    let c = &s.counts;
    let of = |part: u64, whole: u64| match whole {
        0 => count(part),
        _ => format!("{} ({})", count(part), value_label(AxisUnit::Share, part as f64 / whole as f64)),
    };
    let observable = s.reordering.observable;
    let hidden = || "not observable with TCP".to_owned();
    let longest = s.loss.run_length_hist.keys().next_back();
    let rows = [
        ("sent", count(c.sent)),
        ("received", count(c.received)),
        ("unique and valid", count(c.unique_valid)),
        ("lost", if observable { of(c.lost, c.sent) } else { hidden() }),
        ("longest loss", longest.map_or("–".into(), |n| format!("{} in a row", count(*n)))),
        ("duplicates", of(c.duplicate, c.received)),
        ("invalid", of(c.invalid, c.received)),
        ("out of sequence", if observable { of(c.out_of_sequence, c.unique_valid) } else { hidden() }),
    ];
    html! {
        dl.counts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
    }
}

/// Renders a table of distributions.
pub(super) fn distributions_table(rows: &Markup) -> Markup {
    let columns = ["quantity", "min", "mean", "median", "90 %", "99 %", "99.9 %", "max", "std dev"];
    scrolling("Table", &html! { (head(&columns)) tbody { (rows) } })
}

/// Returns the cells of a distribution of times, each reduced by `by` ns.
pub(super) fn whole(d: &Distribution, by: i64) -> [String; 8] {
    let less = |v: Option<i64>| integer(v.map(|v| v.saturating_sub(by)));
    let less_f64 = |v: Option<f64>| cell(v.map(|v| v - by as f64));
    let p = |milli: u32| less(d.percentiles.at(Percent(milli)));
    let (low, high) = (less(d.min), less(d.max));
    [low, less_f64(d.mean), less_f64(d.median), p(90_000), p(99_000), p(99_900), high, cell(d.stddev)]
}

/// Name of the row of the jitter if a clock was set during the test.
pub(super) const WITHOUT_STEP: &str = "jitter, without the clock step";

/// Returns the cells of the jitter without steps of clocks.
pub(super) fn jitter_without_step(without: &JitterWithoutStep) -> [String; 8] {
    let time = |ns: i64| integer(Some(ns));
    let dash = || "–".to_owned();
    let JitterWithoutStep { p50_ns, p99_ns, p999_ns, max_ns, .. } = *without;
    [dash(), dash(), time(p50_ns), dash(), time(p99_ns), time(p999_ns), time(max_ns), dash()]
}

/// Renders the tables of marks (ECN).
fn marks(s: &Summary) -> Markup {
    html! {
        @for (name, rows) in crate::marks::tables(s) {
            h3 { "Marks (ECN)" @if !name.is_empty() { ", " (name) } }
            (scrolling("Table", &html! {
                (head(&crate::marks::HEADS))
                tbody {
                    @for [first, cells @ ..] in rows {
                        tr { th scope="row" { (first) } @for cell in cells { td { (cell) } } }
                    }
                }
            }))
        }
    }
}

fn distributions(s: &Summary) -> Markup {
    let mut rows: Vec<(&str, [String; 8])> = Vec::new();
    let dash = || "–".to_owned();
    let latency = if s.two_way.is_some() { "round trip" } else { "latency, as measured" };
    rows.push((latency, whole(&s.latency, 0)));
    let set = s.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref());
    if let Some(without) = set {
        // After a clock was set, neither a corrected delay nor its variation has a meaning.
        rows.push((WITHOUT_STEP, jitter_without_step(without)));
    } else {
        if let Some(by) = s.clock.correction_ns.filter(|_| s.latency_corrected.is_some()) {
            rows.push(("latency, clocks corrected", whole(&s.latency, by)));
        }
        rows.push(("jitter (PDV)", whole(&s.pdv, 0)));
        if let Some(d) = &s.pdv_deskewed {
            rows.push(("jitter, skew removed", whole(d, 0)));
        }
    }
    let i = &s.ipdv;
    if i.n > 0 && set.is_none() {
        let cells = [
            integer(i.min),
            cell(i.mean),
            cell(i.median),
            dash(),
            dash(),
            integer(i.p99_9),
            integer(i.max),
            cell(i.stddev),
        ];
        rows.push(("between consecutive packets (IPDV)", cells));
    }
    if let Some(q) = &s.local_queue {
        let cells = [
            integer(Some(q.min)),
            cell(Some(q.mean)),
            cell(Some(q.median)),
            dash(),
            integer(Some(q.p99)),
            dash(),
            integer(Some(q.max)),
            dash(),
        ];
        let name = match q.bounded {
            0 => "in the sender's own queue, before the path",
            _ => "in the sender's own queue, before the path (upper bound)",
        };
        rows.push((name, cells));
    }
    if let Some(e) = &s.schedule_error {
        let cells = [
            integer(Some(e.min)),
            dash(),
            cell(Some(e.median)),
            dash(),
            integer(Some(e.p99)),
            dash(),
            integer(Some(e.max)),
            dash(),
        ];
        rows.push(("send error", cells));
    }
    html! {
        (distributions_table(&html! { @for (name, cells) in &rows { (row(name, cells)) } }))
        @if let Some(without) = set { p.what { (with_clock_step(without)) "." } }
        @for line in mean::intervals(s) { p.what { (line) } }
    }
}

pub(super) fn row(name: &str, cells: &[String]) -> Markup {
    html! {
        tr {
            th scope="row" { (name) }
            @for cell in cells { td { (cell) } }
        }
    }
}

fn rates(s: &Summary) -> Markup {
    let rates = [("target", s.periods.target), ("sent", s.periods.tx), ("received", s.periods.rx)];
    let rows = rates.map(|(name, rate)| {
        let cells = rate.map_or_else(
            || ["–".into(), "–".into(), "–".into()],
            |r| {
                [
                    time(r.period_ns),
                    format!("{:.2}", r.rate_pps),
                    r.throughput_bps.map_or_else(|| "–".into(), bit_rate),
                ]
            },
        );
        (name, cells)
    });
    let columns = ["rate", "period", "packets per second", "user throughput"];
    let rows = html! { tbody { @for (name, cells) in &rows { (row(name, cells)) } } };
    scrolling("Table", &html! { (head(&columns)) (rows) })
}

/// Renders headline figures that are not in the other tables, and results of metrics without a table of their
/// own.
fn more(s: &Summary) -> Markup {
    let above = |f: &Scalar| {
        f.quantile.is_some() || ["sent", "loss", "latency", "ipdv"].iter().any(|t| f.key.starts_with(t))
    };
    html! {
        dl.more {
            @for figure in SCALARS.iter().filter(|f| f.is_computed() || f.headline && !above(f)) {
                @if let Some(value) = figure.of(s) {
                    div { dt { (figure.label) } dd { (shown(figure, value)) } }
                }
            }
        }
    }
}

/// Renders every figure that is defined in `s`, with its meaning.
fn all_figures(s: &Summary) -> Markup {
    let rows = html! {
        @for selector in selectors() {
            @if let Some(value) = selector.of(s) {
                tr {
                    th scope="row" { (selector.to_string()) }
                    td { (shown(selector.scalar, value)) }
                    td.words { (selector.scalar.about) }
                }
            }
        }
    };
    html! {
        details {
            summary { "All figures" }
            (scrolling("Table", &html! { (head(&["figure", "value", "meaning"])) tbody { (rows) } }))
        }
    }
}

/// Formats a value of `figure` in the typography of pages.
pub(super) fn shown(figure: &Scalar, value: ExactNumber) -> String {
    match figure.unit {
        ScalarUnit::Time => value_label(AxisUnit::Time, value.as_f64()),
        ScalarUnit::Share => value_label(AxisUnit::Share, value.as_f64()),
        _ => group_thousands(&figure.show(value)).replace('-', "−"),
    }
}
