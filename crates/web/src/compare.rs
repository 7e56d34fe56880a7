//! `/compare`: two periods of a path, or two paths, compared by the figures of all their packets.

use crate::now::described;
use crate::numbers::{three_digits, time};
use crate::page::{self, PageTab, cards, encoded};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, CalendarUnit, DAY, HOUR, SECOND};
use crate::zone::{PageZone, UTC};
use jitlat_archive::{Archive, Filter, PooledStream, When};
use jitlat_core::WallTime;
use jitlat_core::pool::{self, Pool};
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarUnit};
use jitlat_report::figure::{AxisUnit, group_thousands, value_label};
use maud::{Markup, html};
use serde::Serialize;
use std::collections::BTreeMap;

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
    let zone = query.zone()?;
    let when =
        |name: &str| query.get(name).map(|text| zone.parse(text, now)).transpose().map_err(Problem::from);
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
    let now = times::now();
    let found = match parts(archive, asked, now)? {
        Some(parts) => Some(compared(parts, archive)?),
        None => None,
    };
    let zone = asked.query.zone()?;
    let newest = archive.newest()?;
    let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
    for test in &newest {
        for (address, name) in [(&test.stream.src, &test.src_name), (&test.stream.dst, &test.dst_name)] {
            hosts.insert(address, name.as_deref().unwrap_or(address));
        }
    }
    let header = html! { p.what { "Two periods of a path, or two paths, compared by the figures of all their packets" } };
    let main = html! {
        (form(found.as_ref(), &hosts, &zone))
        @if let Some(found) = &found { (usual_periods(found, &zone, now)) (result(found, &zone)) }
    };
    Ok(page::page_in_zone("Compare", PageTab::Compare, &zone, &header, &main).0)
}

/// Maximum number of hosts in a list to choose from; if there are more, the reader types names.
const MAX_SELECTED_HOSTS: usize = 100;

fn form(found: Option<&ComparedPeriods>, hosts: &BTreeMap<&str, &str>, zone: &PageZone) -> Markup {
    html! {
        form.asking action="/compare" data-zone=(zone.name) {
            (fields("First", "", found.map(|f| &f.first), hosts, zone))
            (fields("Second", "2", found.map(|f| &f.second), hosts, zone))
            datalist #hosts { @for host in hosts.keys() { option value=(host) {} } }
            p {
                label { "Time zone "
                    select name="zone" {
                        option value=(UTC) { (UTC) }
                        @if !zone.is_utc() { option value=(zone.name) selected { (zone.name) } }
                    }
                }
                " " button { "Compare" }
            }
        }
        p.help {
            "The second path defaults to the first. By default, the last day of a path is compared with the week before it, and two \
             paths are compared over their last week."
        }
    }
}

/// Renders the list of hosts to choose from, with the address of a host that is not in it if it was requested.
fn host_field(id: &str, value: &str, is_required: bool, hosts: &BTreeMap<&str, &str>) -> Markup {
    if hosts.len() > MAX_SELECTED_HOSTS {
        return html! { input id=(id) name=(id) value=(value) list="hosts" required[is_required]; };
    }
    let shown = |address: &str, name: &str| {
        if address == name { name.to_owned() } else { format!("{name} ({address})") }
    };
    let chosen = |address: &str, name: &str| !value.is_empty() && (value == address || value == name);
    let is_known = hosts.iter().any(|(address, name)| chosen(address, name));
    html! {
        select id=(id) name=(id) required[is_required] {
            option value="" { @if is_required { "choose" } @else { "as above" } }
            @if !value.is_empty() && !is_known { option value=(value) selected { (value) } }
            @for (address, name) in hosts { option value=(address) selected[chosen(address, name)] { (shown(address, name)) } }
        }
    }
}

fn fields(
    title: &str,
    number: &str,
    part: Option<&PathPeriod>,
    hosts: &BTreeMap<&str, &str>,
    zone: &PageZone,
) -> Markup {
    let ends = [("src", "from host", part.map(|p| &p.src)), ("dst", "to host", part.map(|p| &p.dst))];
    let times =
        [("from", "beginning", part.map(|p| p.from_ns)), ("to", "end", part.map(|p| p.to_ns + SECOND - 1))];
    html! {
        fieldset {
            legend { (title) }
            @for (name, label, value) in ends {
                @let id = format!("{name}{number}");
                label for=(id) { (label) }
                " "
                (host_field(&id, value.map_or("", |v| v), number.is_empty(), hosts))
                " "
            }
            @for (name, label, value) in times {
                @let id = format!("{name}{number}");
                label for=(id) { (label) }
                " "
                input type="datetime-local" step="1" id=(id) name=(id) value=(value.map_or(String::new(), |at| zone.field(at)));
                " "
            }
        }
    }
}

/// Renders links that compare usual periods of the same paths.
fn usual_periods(found: &ComparedPeriods, zone: &PageZone, now: i64) -> Markup {
    let ComparedPeriods { first, second, .. } = found;
    let day = CalendarUnit::Day.around(now, zone);
    let yesterday = CalendarUnit::Day.around(day.0 - 1, zone);
    let week_ago = CalendarUnit::Day.around(yesterday.0 - 6 * DAY - DAY / 2, zone);
    let month = CalendarUnit::Month.around(now, zone);
    let last_month = CalendarUnit::Month.around(month.0 - 1, zone);
    let before = CalendarUnit::Month.around(last_month.0 - 1, zone);
    let periods = [
        ("last hour with the one before", (now - 2 * HOUR, now - HOUR), (now - HOUR, now)),
        ("last day with the one before", (now - 2 * DAY, now - DAY), (now - DAY, now)),
        ("yesterday with a week before it", week_ago, yesterday),
        ("last 7 days with the 7 before", (now - 14 * DAY, now - 7 * DAY), (now - 7 * DAY, now)),
        ("last month with the one before", before, last_month),
    ];
    let address = |a: (i64, i64), b: (i64, i64)| {
        let at = |at: i64| times::address(at);
        let ends = [&first.src, &first.dst, &second.src, &second.dst].map(|host| encoded(host));
        let [src, dst, src2, dst2] = ends;
        format!(
            "/compare?src={src}&dst={dst}&from={}&to={}&src2={src2}&dst2={dst2}&from2={}&to2={}&zone={}",
            at(a.0),
            at(a.1),
            at(b.0),
            at(b.1),
            encoded(&zone.name)
        )
    };
    html! {
        nav aria-label="Usual periods" {
            ul.steps { @for (name, a, b) in periods { li { a href=(address(a, b)) { (name) } } } }
        }
    }
}

fn result(found: &ComparedPeriods, zone: &PageZone) -> Markup {
    let name = |part: &PathPeriod| {
        format!("{} → {}, {} to {}", part.src, part.dst, zone.text(part.from_ns), zone.text(part.to_ns))
    };
    html! {
        p { "First: " (name(&found.first)) br; "Second: " (name(&found.second)) }
        @if found.streams.is_empty() {
            p.headline.note { "The two sides of the comparison have no tests of the same kind." }
        }
        @for compared in &found.streams {
            @let what = described(&compared.stream);
            h2 { (what) }
            (cards(&what, &rows(compared)))
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
                td data-label="first" { (compared.tests) }
                td data-label="second" { (compared.tests2) }
                td {}
            }
            @for f in &compared.figures {
                tr {
                    th scope="row" { (f.figure.label) }
                    td data-label="first" { (shown(f, f.first)) }
                    td data-label="second" { (shown(f, f.second)) }
                    td data-label="change" { (change(f)) }
                }
            }
        }
    }
}

/// Formats a value of a figure for pages.
fn shown_value(figure: &Scalar, value: f64) -> String {
    match figure.unit {
        ScalarUnit::Time => time(Some(value as i64)),
        ScalarUnit::Share => value_label(AxisUnit::Share, value),
        // Format counts as whole numbers, but not means of counts.
        _ if value.fract() == 0.0 => group_thousands(&format!("{value:.0}")),
        _ => figure.show(ExactNumber::Real(value)),
    }
}

/// Formats the change of a figure in percent; empty if it is undefined.
fn change(f: &ComparedFigure) -> String {
    let both = f.first.zip(f.second).filter(|(a, b)| a != b && *a != 0.0);
    both.map_or_else(String::new, |(a, b)| {
        let percent = three_digits(100.0 * (b - a) / a.abs());
        format!("{}{percent} %", if b > a { "+" } else { "" }).replace('-', "−")
    })
}
