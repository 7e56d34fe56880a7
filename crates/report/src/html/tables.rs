//! The tables of figures.

use super::{Part, heading};
use crate::escape::escape;
use crate::figure::{Unit, group_thousands, value_label};
use crate::mean;
use jitlat_core::scalars::{Number, SCALARS, Scalar, Unit as InUnit, selectors};
use jitlat_core::spec::{Transport, ip_protocol_name};
use jitlat_core::summary::{Distribution, Percent, Summary};
use jitlat_core::units::bit_rate;
use std::fmt::Write;

/// What was sent, in one line.
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
    // Zero stands for a value that an invalid header leaves unknown.
    let size = if s.header.pktlen > 0 { format!(" of {} bytes", s.header.pktlen) } else { String::new() };
    let every = match s.periods.target {
        Some(target) => format!(", one every {}", time(target.period_ns)),
        None => String::new(),
    };
    format!("{} {name} {what}{size}{every}{date}", count(s.counts.sent))
}

fn time(ns: f64) -> String {
    value_label(Unit::Time, ns)
}

fn count(n: u64) -> String {
    group_thousands(&n.to_string())
}

/// A value, or the sign for "undefined".
fn cell(value: Option<impl Into<f64>>) -> String {
    value.map_or_else(|| "–".into(), |v| time(v.into()))
}

fn integer(value: Option<i64>) -> String {
    cell(value.map(|v| v as f64))
}

/// Writes the counts and the table of distributions.
pub fn write(out: &mut String, part: &Part<'_>, alone: bool) {
    let s = part.summary;
    let _ = write!(out, "<section class=\"tables\"><h2>{}</h2>", heading(part, "The figures", alone));
    counts(out, s);
    distributions(out, s);
    rates(out, s);
    out.push_str("</section>\n");
}

fn counts(out: &mut String, s: &Summary) {
    let c = &s.counts;
    let of = |part: u64, whole: u64| match whole {
        0 => count(part),
        _ => format!("{} ({})", count(part), value_label(Unit::Share, part as f64 / whole as f64)),
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
    out.push_str("<dl class=\"counts\">");
    for (name, value) in rows {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out.push_str("</dl>");
}

/// The head of a table of distributions.
pub(super) fn head(out: &mut String) {
    out.push_str(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">quantity</th><th scope=\"col\">min</th>\
         <th scope=\"col\">mean</th><th scope=\"col\">median</th><th scope=\"col\">90 %</th>\
         <th scope=\"col\">99 %</th><th scope=\"col\">99.9 %</th><th scope=\"col\">max</th>\
         <th scope=\"col\">std dev</th></tr></thead><tbody>",
    );
}

/// The cells of a distribution, of times minus `by`.
pub(super) fn whole(d: &Distribution, by: i64) -> [String; 8] {
    let less = |v: Option<i64>| integer(v.map(|v| v.saturating_sub(by)));
    let less_f64 = |v: Option<f64>| cell(v.map(|v| v - by as f64));
    let p = |milli: u32| less(d.percentiles.at(Percent(milli)));
    let (low, high) = (less(d.min), less(d.max));
    [low, less_f64(d.mean), less_f64(d.median), p(90_000), p(99_000), p(99_900), high, cell(d.stddev)]
}

fn distributions(out: &mut String, s: &Summary) {
    head(out);
    let dash = || "–".to_owned();
    let latency = if s.two_way.is_some() { "round trip" } else { "latency, as measured" };
    row(out, latency, &whole(&s.latency, 0));
    if let Some(by) = s.clock.correction_ns.filter(|_| s.latency_corrected.is_some()) {
        row(out, "latency, clocks corrected", &whole(&s.latency, by));
    }
    row(out, "jitter (PDV)", &whole(&s.pdv, 0));
    if let Some(d) = &s.pdv_deskewed {
        row(out, "jitter, skew removed", &whole(d, 0));
    }
    let i = &s.ipdv;
    if i.n > 0 {
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
        row(out, "between neighbours (IPDV)", &cells);
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
        let bound = if q.bounded > 0 { ", at most" } else { "" };
        row(out, &format!("in the sender's own queue, before the path{bound}"), &cells);
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
        row(out, "send error", &cells);
    }
    out.push_str("</tbody></table></div>");
    for line in mean::intervals(s) {
        let _ = write!(out, "<p class=\"what\">{}</p>", escape(&line));
    }
}

pub(super) fn row(out: &mut String, name: &str, cells: &[String]) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
    for c in cells {
        let _ = write!(out, "<td>{}</td>", escape(c));
    }
    out.push_str("</tr>");
}

fn rates(out: &mut String, s: &Summary) {
    out.push_str(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">rate</th><th scope=\"col\">period</th>\
         <th scope=\"col\">packets a second</th><th scope=\"col\">user throughput</th></tr></thead><tbody>",
    );
    let rates = [("target", s.periods.target), ("sent", s.periods.tx), ("received", s.periods.rx)];
    for (name, rate) in rates {
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
        row(out, name, &cells);
    }
    out.push_str("</tbody></table></div>");
    more(out, s);
    all_figures(out, s);
}

/// Headline figures that no table above contains, and results of metrics without a table of their own.
fn more(out: &mut String, s: &Summary) {
    let above = |f: &Scalar| {
        f.quantile.is_some() || ["sent", "loss", "latency", "ipdv"].iter().any(|t| f.key.starts_with(t))
    };
    out.push_str("<dl class=\"more\">");
    for figure in SCALARS.iter().filter(|f| f.is_computed() || f.headline && !above(f)) {
        if let Some(value) = figure.of(s) {
            let (name, value) = (escape(figure.label), escape(&shown(figure, value)));
            let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
    }
    out.push_str("</dl>");
}

/// Every defined figure of the list, with its meaning.
fn all_figures(out: &mut String, s: &Summary) {
    out.push_str(
        "<details><summary>All figures</summary><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">figure</th>\
         <th scope=\"col\">value</th><th scope=\"col\">meaning</th></tr></thead><tbody>",
    );
    for selector in selectors() {
        if let Some(value) = selector.of(s) {
            let figure = selector.scalar;
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"words\">{}</td></tr>",
                escape(&selector.to_string()),
                escape(&shown(figure, value)),
                escape(figure.about)
            );
        }
    }
    out.push_str("</tbody></table></div></details>");
}

/// A value of `figure` in the typography of pages.
pub(super) fn shown(figure: &Scalar, value: Number) -> String {
    match figure.unit {
        InUnit::Time => value_label(Unit::Time, value.as_f64()),
        InUnit::Share => value_label(Unit::Share, value.as_f64()),
        _ => group_thousands(&figure.show(value)).replace('-', "−"),
    }
}
