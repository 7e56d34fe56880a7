//! `/compare`: two periods of a path, or two paths, by the figures of all their packets.

use crate::now::described;
use crate::page::{self, Tab};
use crate::problem::Problem;
use crate::routes::Asked;
use crate::times::{self, DAY};
use jitlat_archive::{Archive, Filter, Stream, When, utc};
use jitlat_core::WallTime;
use jitlat_core::pool::{self, Pool};
use jitlat_core::scalars::{Number, SCALARS, Scalar, Unit as InUnit};
use jitlat_report::escape;
use jitlat_report::figure::{Unit, group_thousands, value_label};
use jitlat_report::html::scrolling;
use serde::Serialize;
use std::fmt::Write;

/// A path in a period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// The sender, as it was asked for.
    pub src: String,
    /// The receiver.
    pub dst: String,
    /// Beginning of the period, ns since 1970.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
}

/// Packets of a kind that both parts have.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedStream {
    /// Which packets, in the first part.
    pub stream: Stream,
    /// Tests of the first part.
    pub tests: u64,
    /// Tests of the second part.
    pub tests2: u64,
    /// Figures of all packets.
    pub figures: Vec<ComparedFigure>,
}

/// A figure of both parts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigure {
    /// Its key, as in every other output.
    pub key: &'static str,
    /// Of the first part, in the figure's unit; null if undefined.
    pub first: Option<f64>,
    /// Of the second part.
    pub second: Option<f64>,
    #[serde(skip)]
    figure: &'static Scalar,
}

/// Two periods of a path, or two paths.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// What is compared.
    pub first: Part,
    /// With what.
    pub second: Part,
    /// Packets of the same kind in both, each kind by itself.
    pub streams: Vec<ComparedStream>,
}

/// What was asked for; `None` if no path is named.
fn parts(archive: &Archive, asked: &Asked, now: i64) -> Result<Option<(Part, Part)>, Problem> {
    let query = &asked.query;
    let Some((src, dst)) = query.get("src").zip(query.get("dst")) else { return Ok(None) };
    let (src2, dst2) = (query.get("src2").unwrap_or(src), query.get("dst2").unwrap_or(dst));
    let same = (src, dst) == (src2, dst2);
    let when = |name: &str| {
        let parsed = query.get(name).map(|text| When::parse(text, WallTime(now)).map(|w| w.0.0));
        parsed.transpose().map_err(Problem::from)
    };
    let end2 = match when("to2")? {
        Some(end) => end,
        // Two paths are compared in the same time.
        None if same => end_of(archive, src2, dst2)?,
        None => end_of(archive, src2, dst2)?.max(end_of(archive, src, dst)?),
    };
    let from2 = when("from2")?.unwrap_or(end2.saturating_sub(if same { DAY } else { 7 * DAY }));
    let end = when("to")?.unwrap_or(if same { from2 } else { end2 });
    let from = when("from")?.unwrap_or(end.saturating_sub(7 * DAY));
    if from >= end || from2 >= end2 {
        return Err(Problem::Wrong("The end of a period is not after its beginning.".to_owned()));
    }
    let part =
        |src: &str, dst: &str, from_ns, to_ns| Part { src: src.into(), dst: dst.into(), from_ns, to_ns };
    Ok(Some((part(src, dst, from, end), part(src2, dst2, from2, end2))))
}

/// The whole second after the newest test of a path began.
fn end_of(archive: &Archive, src: &str, dst: &str) -> Result<i64, Problem> {
    let filter = Filter { path: Some(endpoints(src, dst)?), ..Filter::default() };
    let mut newest = 0;
    for (id, _) in archive.streams(&filter).map_err(|e| not_found(e, src, dst))? {
        newest = newest.max(archive.first_and_last(id)?.map_or(0, |(_, last)| last));
    }
    Ok(newest.div_euclid(times::SECOND).saturating_add(1).saturating_mul(times::SECOND))
}

fn endpoints(src: &str, dst: &str) -> Result<jitlat_archive::Endpoints, Problem> {
    let none = |_| Problem::NotFound(format!("The archive has no tests from {src} to {dst}."));
    format!("{src}:{dst}").parse().map_err(none)
}

fn not_found(e: jitlat_archive::Error, src: &str, dst: &str) -> Problem {
    match e {
        jitlat_archive::Error::Usage(_) => {
            Problem::NotFound(format!("The archive has no tests from {src} to {dst}."))
        }
        other => other.into(),
    }
}

fn pools(archive: &Archive, part: &Part) -> Result<Vec<(Stream, Pool)>, Problem> {
    let filter = Filter {
        path: Some(endpoints(&part.src, &part.dst)?),
        since: Some(When(WallTime(part.from_ns))),
        before: Some(When(WallTime(part.to_ns))),
        ..Filter::default()
    };
    let mut pools = archive.pools(&filter).map_err(|e| not_found(e, &part.src, &part.dst))?;
    pools.retain(|(_, pool)| pool.tests > 0);
    Ok(pools)
}

/// What packets are alike, from any sender.
fn kind(stream: &Stream) -> (&str, bool, Option<i64>, Option<i64>, i64) {
    let two_way = stream.direction == "both";
    (&stream.protocol, two_way, stream.payload_bytes, stream.period_ns, stream.dscp)
}

fn compared((first, second): (Part, Part), archive: &Archive) -> Result<Compared, Problem> {
    let (a, mut b) = (pools(archive, &first)?, pools(archive, &second)?);
    let mut streams = Vec::new();
    for (stream, pool) in a {
        // Of one path its own stream, of two that of the same kind.
        let place = b.iter().position(|(other, _)| *other == stream);
        let place = place.or_else(|| b.iter().position(|(other, _)| kind(other) == kind(&stream)));
        let Some(place) = place else { continue };
        let (_, second) = b.remove(place);
        let shown = |f: &&'static Scalar| pool::has(f) && (f.headline || ["sent", "loss"].contains(&f.key));
        let figures = SCALARS.iter().filter(shown).map(|figure| ComparedFigure {
            key: figure.key,
            first: pool.scalar(figure),
            second: second.scalar(figure),
            figure,
        });
        let figures = figures.collect();
        streams.push(ComparedStream { stream, tests: pool.tests, tests2: second.tests, figures });
    }
    Ok(Compared { first, second, streams })
}

/// Reads it.
pub fn read(archive: &Archive, asked: &Asked, now: i64) -> Result<Compared, Problem> {
    let none = || Problem::Wrong("Name a path: src and dst.".to_owned());
    compared(parts(archive, asked, now)?.ok_or_else(none)?, archive)
}

/// The page: a form, and below it what was asked for.
pub fn page(archive: &Archive, asked: &Asked) -> Result<String, Problem> {
    let found = match parts(archive, asked, times::now())? {
        Some(parts) => Some(compared(parts, archive)?),
        None => None,
    };
    let newest = archive.newest()?;
    let hosts: std::collections::BTreeSet<&str> =
        newest.iter().flat_map(|n| [n.stream.src.as_str(), n.stream.dst.as_str()]).collect();
    let page = page::page("Compare", Tab::Compare, |out| {
        out.push_str(
            "<p class=\"what\">Two periods of a path, or two paths, by all their packets</p></header>\n<main id=\"main\">\n",
        );
        form(out, found.as_ref(), &hosts);
        if let Some(found) = &found {
            write(out, found);
        }
    });
    Ok(page.0)
}

fn form(out: &mut String, found: Option<&Compared>, hosts: &std::collections::BTreeSet<&str>) {
    out.push_str("<form class=\"asking\" action=\"/compare\">");
    let parts = [("First", "", found.map(|f| &f.first)), ("Second", "2", found.map(|f| &f.second))];
    for (title, number, part) in parts {
        let _ = write!(out, "<fieldset><legend>{title}</legend>");
        let fields = [
            ("src", "from host", part.map(|p| p.src.clone())),
            ("dst", "to host", part.map(|p| p.dst.clone())),
            ("from", "beginning", part.map(|p| times::address(p.from_ns))),
            ("to", "end", part.map(|p| times::address_after(p.to_ns))),
        ];
        for (name, label, value) in fields {
            let is_host = name == "src" || name == "dst";
            let list =
                if is_host { " list=\"hosts\"" } else { " placeholder=\"2026-11-23, or 36h ago: 36h\"" };
            let needed = if is_host && number.is_empty() { " required" } else { "" };
            let _ = write!(
                out,
                "<label for=\"{name}{number}\">{label}</label> <input id=\"{name}{number}\" name=\"{name}{number}\" value=\"{}\"{list}{needed}> ",
                escape(value.as_deref().unwrap_or(""))
            );
        }
        out.push_str("</fieldset>");
    }
    out.push_str("<datalist id=\"hosts\">");
    for host in hosts {
        let _ = write!(out, "<option value=\"{}\"></option>", escape(host));
    }
    out.push_str(
        "</datalist><p><button>Compare</button></p></form><p class=\"help\">Without a second path it is the first one. Without \
         times the last day is compared with the week before it, or two paths by their last week.</p>",
    );
}

fn write(out: &mut String, found: &Compared) {
    let name =
        |part: &Part| format!("{} → {}, {} to {}", part.src, part.dst, utc(part.from_ns), utc(part.to_ns));
    let _ = write!(
        out,
        "<p>First: {}<br>Second: {}</p>",
        escape(&name(&found.first)),
        escape(&name(&found.second))
    );
    if found.streams.is_empty() {
        out.push_str("<p class=\"headline note\">No packets of one kind were tested in both.</p>");
    }
    for compared in &found.streams {
        let what = described(&compared.stream);
        let _ = write!(out, "<h2>{}</h2>", escape(&what));
        scrolling(out, &what, |out| {
            let _ = write!(
                out,
                "<thead><tr><th scope=\"col\">figure</th><th scope=\"col\">first</th><th scope=\"col\">second</th>\
                 <th scope=\"col\">change</th></tr></thead><tbody><tr><th scope=\"row\">tests</th><td>{}</td><td>{}</td><td></td></tr>",
                compared.tests, compared.tests2
            );
            for f in &compared.figures {
                let shown = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| shown_value(f.figure, x));
                let _ = write!(
                    out,
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escape(f.figure.label),
                    escape(&shown(f.first)),
                    escape(&shown(f.second)),
                    change(f)
                );
            }
            out.push_str("</tbody>");
        });
    }
    if !found.streams.is_empty() {
        out.push_str(
            "<p>The figures are those of all packets of each period. Delays between two hosts contain the difference of their clocks. \
             Whether single tests differ: <code>jitlat compare DIR/ID DIR/ID</code>.</p>",
        );
    }
}

/// A value of a figure as pages have it.
fn shown_value(figure: &Scalar, value: f64) -> String {
    match figure.unit {
        InUnit::Time => value_label(Unit::Time, value),
        InUnit::Share => value_label(Unit::Share, value),
        // Counts are whole, means of counts are not.
        _ if value.fract() == 0.0 => group_thousands(&format!("{value:.0}")),
        _ => figure.show(Number::Real(value)),
    }
}

/// The change of a figure in percent; empty if there is none to be said.
fn change(f: &ComparedFigure) -> String {
    let both = f.first.zip(f.second).filter(|(a, b)| a != b && *a != 0.0);
    both.map_or_else(String::new, |(a, b)| format!("{:+.1} %", 100.0 * (b - a) / a.abs()).replace('-', "−"))
}
