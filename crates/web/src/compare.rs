//! `/compare`: two periods of a path, or two paths, compared by the figures of all their packets.

use crate::now::described;
use crate::page::{self, PageTab};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, DAY};
use jitlat_archive::{Archive, Filter, PooledStream, When, utc};
use jitlat_core::WallTime;
use jitlat_core::pool::{self, Pool};
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarUnit};
use jitlat_report::figure::{AxisUnit, group_thousands, value_label};
use jitlat_report::html::scrolling;
use maud::{Markup, html};
use serde::Serialize;
use std::collections::BTreeSet;

/// A path in a period: one side of a comparison.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathPeriod {
    /// Sender, as requested.
    pub src: String,
    /// Receiver, as requested.
    pub dst: String,
    /// Start of the period, ns since 1970.
    pub from_ns: i64,
    /// End of the period, ns since 1970.
    pub to_ns: i64,
}

/// Streams of the same kind on both sides of the comparison.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedStream {
    /// The stream on the first side.
    pub stream: PooledStream,
    /// Number of tests on the first side.
    pub tests: u64,
    /// Number of tests on the second side.
    pub tests2: u64,
    /// Figures of all packets, on both sides.
    pub figures: Vec<ComparedFigure>,
}

/// A figure on both sides of the comparison.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigure {
    /// Key of the figure, as in every other output.
    pub key: &'static str,
    /// Value on the first side, in the figure's unit; null if undefined.
    pub first: Option<f64>,
    /// Value on the second side, in the figure's unit; null if undefined.
    pub second: Option<f64>,
    #[serde(skip)]
    figure: &'static Scalar,
}

/// Comparison of two periods of a path, or of two paths.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedPeriods {
    /// First side of the comparison.
    pub first: PathPeriod,
    /// Second side of the comparison.
    pub second: PathPeriod,
    /// Streams of the same kind on both sides, one entry per kind.
    pub streams: Vec<ComparedStream>,
}

/// Returns what a comparison depends on: the tests of the archive, and the current minute, because a period may be
/// given relative to now.
pub fn version(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    Ok(format!("{:?} {}", archive.extent()?, times::now() / times::MINUTE))
}

/// Parses the request; `None` if no path is named.
fn parts(
    archive: &Archive,
    asked: &RouteRequest,
    now: i64,
) -> Result<Option<(PathPeriod, PathPeriod)>, Problem> {
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
        // Compare two paths over the same period.
        None if same => end_of(archive, src2, dst2)?,
        None => end_of(archive, src2, dst2)?.max(end_of(archive, src, dst)?),
    };
    let from2 = when("from2")?.unwrap_or(end2.saturating_sub(if same { DAY } else { 7 * DAY }));
    let end = when("to")?.unwrap_or(if same { from2 } else { end2 });
    let from = when("from")?.unwrap_or(end.saturating_sub(7 * DAY));
    if from >= end || from2 >= end2 {
        return Err(Problem::Wrong("A period must end after its beginning.".to_owned()));
    }
    let part = |src: &str, dst: &str, from_ns, to_ns| PathPeriod {
        src: src.into(),
        dst: dst.into(),
        from_ns,
        to_ns,
    };
    Ok(Some((part(src, dst, from, end), part(src2, dst2, from2, end2))))
}

/// Returns the start of the newest test of a path, rounded up to whole seconds.
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

fn not_found(e: jitlat_archive::ArchiveError, src: &str, dst: &str) -> Problem {
    match e {
        jitlat_archive::ArchiveError::Usage(_) => {
            Problem::NotFound(format!("The archive has no tests from {src} to {dst}."))
        }
        other => other.into(),
    }
}

fn pools(archive: &Archive, part: &PathPeriod) -> Result<Vec<(PooledStream, Pool)>, Problem> {
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

/// Returns the key by which streams of the same kind are matched, independent of the sender.
fn kind(stream: &PooledStream) -> (&str, bool, Option<i64>, Option<i64>, i64) {
    let two_way = stream.direction == "both";
    (&stream.protocol, two_way, stream.payload_bytes, stream.period_ns, stream.dscp)
}

fn compared(
    (first, second): (PathPeriod, PathPeriod),
    archive: &Archive,
) -> Result<ComparedPeriods, Problem> {
    let (a, mut b) = (pools(archive, &first)?, pools(archive, &second)?);
    let mut streams = Vec::new();
    for (stream, pool) in a {
        // Prefer the same stream, for two periods of a path; otherwise use a stream of the same kind.
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
    Ok(ComparedPeriods { first, second, streams })
}

/// Reads the comparison.
pub fn read(archive: &Archive, asked: &RouteRequest, now: i64) -> Result<ComparedPeriods, Problem> {
    let none = || Problem::Wrong("Name a path with src and dst.".to_owned());
    compared(parts(archive, asked, now)?.ok_or_else(none)?, archive)
}

/// Renders the page: a form, and below it the comparison.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    let found = match parts(archive, asked, times::now())? {
        Some(parts) => Some(compared(parts, archive)?),
        None => None,
    };
    let newest = archive.newest()?;
    let hosts: BTreeSet<&str> =
        newest.iter().flat_map(|n| [n.stream.src.as_str(), n.stream.dst.as_str()]).collect();
    let header = html! { p.what { "Two periods of a path, or two paths, compared by the figures of all their packets" } };
    let main = html! {
        (form(found.as_ref(), &hosts))
        @if let Some(found) = &found { (result(found)) }
    };
    Ok(page::page("Compare", PageTab::Compare, &header, &main).0)
}

fn form(found: Option<&ComparedPeriods>, hosts: &BTreeSet<&str>) -> Markup {
    html! {
        form.asking action="/compare" {
            (fields("First", "", found.map(|f| &f.first)))
            (fields("Second", "2", found.map(|f| &f.second)))
            datalist #hosts { @for host in hosts { option value=(host) {} } }
            p { button { "Compare" } }
        }
        p.help {
            "The second path defaults to the first. By default, the last day of a path is compared with the week before it, and two \
             paths are compared over their last week."
        }
    }
}

fn fields(title: &str, number: &str, part: Option<&PathPeriod>) -> Markup {
    let hosts = [("src", "from host", part.map(|p| &p.src)), ("dst", "to host", part.map(|p| &p.dst))];
    let times = [
        ("from", "beginning", part.map(|p| times::address(p.from_ns))),
        ("to", "end", part.map(|p| times::address_after(p.to_ns))),
    ];
    html! {
        fieldset {
            legend { (title) }
            @for (name, label, value) in hosts {
                @let id = format!("{name}{number}");
                label for=(id) { (label) }
                " "
                input id=(id) name=(id) value=(value.map_or("", |v| v)) list="hosts" required[number.is_empty()];
                " "
            }
            @for (name, label, value) in times {
                @let id = format!("{name}{number}");
                label for=(id) { (label) }
                " "
                input id=(id) name=(id) value=(value.as_deref().unwrap_or("")) placeholder="2026-11-23 or 36h (ago)";
                " "
            }
        }
    }
}

fn result(found: &ComparedPeriods) -> Markup {
    let name = |part: &PathPeriod| {
        format!("{} → {}, {} to {}", part.src, part.dst, utc(part.from_ns), utc(part.to_ns))
    };
    html! {
        p { "First: " (name(&found.first)) br; "Second: " (name(&found.second)) }
        @if found.streams.is_empty() {
            p.headline.note { "The two sides of the comparison have no tests of the same kind." }
        }
        @for compared in &found.streams {
            @let what = described(&compared.stream);
            h2 { (what) }
            (scrolling(&what, &rows(compared)))
        }
        @if !found.streams.is_empty() {
            p {
                "Figures pool all packets of each period. One-way delays include the difference of the two hosts' \
                 clocks. To compare two tests: " code { "jitlat compare DIR/ID DIR/ID" } "."
            }
        }
    }
}

fn rows(compared: &ComparedStream) -> Markup {
    let shown =
        |f: &ComparedFigure, x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| shown_value(f.figure, x));
    html! {
        thead { tr { @for column in ["figure", "first", "second", "change"] { th scope="col" { (column) } } } }
        tbody {
            tr {
                th scope="row" { "tests" }
                td { (compared.tests) }
                td { (compared.tests2) }
                td {}
            }
            @for f in &compared.figures {
                tr {
                    th scope="row" { (f.figure.label) }
                    td { (shown(f, f.first)) }
                    td { (shown(f, f.second)) }
                    td { (change(f)) }
                }
            }
        }
    }
}

/// Formats a value of a figure for pages.
fn shown_value(figure: &Scalar, value: f64) -> String {
    match figure.unit {
        ScalarUnit::Time => value_label(AxisUnit::Time, value),
        ScalarUnit::Share => value_label(AxisUnit::Share, value),
        // Format counts as whole numbers, but not means of counts.
        _ if value.fract() == 0.0 => group_thousands(&format!("{value:.0}")),
        _ => figure.show(ExactNumber::Real(value)),
    }
}

/// Formats the change of a figure in percent; empty if it is undefined.
fn change(f: &ComparedFigure) -> String {
    let both = f.first.zip(f.second).filter(|(a, b)| a != b && *a != 0.0);
    both.map_or_else(String::new, |(a, b)| format!("{:+.1} %", 100.0 * (b - a) / a.abs()).replace('-', "−"))
}
