//! `/path/A/B`: delay, loss and verdicts of a path over time, from the whole archive down to a single test.

use crate::chart::{self, Chart, ChartPeriod, share, time};
use crate::now::{badge, described};
use crate::page::{self, PageTab, encoded};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, CalendarUnit, DAY, HOUR};
use crate::verdict::TestVerdict;
use jitlat_archive::{
    Archive, Filter, PoolPeriod, PooledStream, Route, StreamPeriod, TestId, Verdicts, When, utc,
};
use jitlat_core::WallTime;
use jitlat_core::distribution::log_histogram::LogHistogram;
use jitlat_core::distribution::percentile::{Method, Percent};
use jitlat_core::pool::Pool;
use jitlat_core::route;
use jitlat_report::html::scrolling;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use std::fmt::Write;

/// Default length of the displayed period, which ends with the newest test.
const DEFAULT_SPAN_NS: i64 = 7 * DAY;
/// Maximum number of tests that are shown individually.
const MAX_TESTS: u64 = 600;
/// Maximum number of tests in a period; if there are more, their verdicts are not read.
const MAX_VERDICTS: u64 = 30_000;
/// Maximum length of the lists of changes and of gaps, which contain the newest entries.
const MAX_LISTED_CHANGES: usize = 12;
/// Maximum number of routes of a path that are read.
const MAX_ROUTES: usize = 200;

/// Kind of delay that is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownQuantity {
    /// Delay as measured.
    Delay,
    /// Delay above the smallest delay of the same test.
    Jitter,
}

impl ShownQuantity {
    const NAMES: [(&str, ShownQuantity); 2] =
        [("delay", ShownQuantity::Delay), ("jitter", ShownQuantity::Jitter)];

    fn name(self) -> &'static str {
        ShownQuantity::NAMES.iter().find(|(_, shown)| *shown == self).map_or("delay", |(name, _)| name)
    }

    fn of(self, pool: &Pool) -> &LogHistogram {
        match self {
            ShownQuantity::Delay => pool.delays(),
            ShownQuantity::Jitter => pool.variations(),
        }
    }
}

/// A path over time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathCourse {
    /// Number of the stream in this archive.
    pub id: i64,
    /// The stream.
    #[serde(flatten)]
    pub stream: PooledStream,
    /// Start of the displayed period, ns since 1970.
    pub from_ns: i64,
    /// End of the displayed period, ns since 1970.
    pub to_ns: i64,
    /// Unit of the periods: test, hour, day or month.
    pub by: &'static str,
    /// Figures of all packets together.
    pub all: PeriodFigures,
    /// Periods that have tests, in order of time.
    pub periods: Vec<PeriodFigures>,
    /// Tests at which the path became poor or bad, or recovered; null if there are too many tests to examine
    /// each.
    pub changes: Option<Vec<VerdictChange>>,
    /// Gaps between tests longer than three times the usual interval; null if there are too many tests to examine each.
    pub gaps: Option<Vec<TestGap>>,
    /// Routes of the path, by the names of its hosts, that were seen in the period, in the order in which they were first seen.
    pub routes: Vec<Route>,
}

/// Figures of all packets of a period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeriodFigures {
    /// Start of the period or of the single test, ns since 1970.
    pub start_ns: i64,
    /// End of the period, ns since 1970.
    pub end_ns: i64,
    /// Number of the test; null if the period is longer than a single test.
    pub test: Option<String>,
    /// Number of tests.
    pub tests: u64,
    /// Number of packets sent.
    pub sent: u64,
    /// Number of packets lost.
    pub lost: u64,
    /// Share of the packets that were lost; null if none was sent.
    pub loss: Option<f64>,
    /// Median delay as measured, ns; null without packets.
    pub delay_median_ns: Option<i64>,
    /// 99th percentile of the delay as measured, ns; null without packets.
    pub delay_p99_ns: Option<i64>,
    /// Median of the jitter, which is delay above the smallest delay of the same test, ns; null without packets.
    pub jitter_median_ns: Option<i64>,
    /// 99th percentile of the jitter, which is delay above the smallest delay of the same test, ns; null without
    /// packets.
    pub jitter_p99_ns: Option<i64>,
    /// Worst verdict of the tests in the period; null if there are too many to examine each.
    pub worst: Option<TestVerdict>,
}

/// A test at which a path became poor or bad, or recovered.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictChange {
    /// Start of the test, ns since 1970.
    pub at_ns: i64,
    /// True if the path became poor or bad, false if it recovered.
    pub bad: bool,
    /// Number of the test.
    pub test: String,
}

/// A gap between tests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestGap {
    /// Start of the test before the gap, ns since 1970.
    pub from_ns: i64,
    /// Start of the test after the gap, ns since 1970.
    pub to_ns: i64,
}

fn percentile(of: &LogHistogram, percent: u32) -> Option<i64> {
    of.quantiles().percentile(Percent(percent), Method::Edf)
}

impl PeriodFigures {
    fn new(course: &StreamPeriod, end_ns: i64, worst: Option<TestVerdict>) -> PeriodFigures {
        let pool = &course.pool;
        PeriodFigures {
            start_ns: course.start_ns,
            end_ns,
            test: course.test.map(|test| test.to_string()),
            tests: pool.tests,
            sent: pool.sent,
            lost: pool.lost,
            loss: (pool.sent > 0).then(|| pool.lost as f64 / pool.sent as f64),
            delay_median_ns: percentile(pool.delays(), 50_000),
            delay_p99_ns: percentile(pool.delays(), 99_000),
            jitter_median_ns: percentile(pool.variations(), 50_000),
            jitter_p99_ns: percentile(pool.variations(), 99_000),
            worst,
        }
    }
}

/// Data of the page of a path.
pub struct PathPage {
    pub course: PathCourse,
    streams: Vec<(i64, PooledStream)>,
    /// True if the archive has tests of the other direction.
    back: bool,
    /// Names of both hosts; the address of one without a name.
    names: [String; 2],
    /// True if tests can be started from the page.
    can_run: bool,
    shown: ShownQuantity,
    pools: Vec<StreamPeriod>,
    /// Start of the stream's first test, and end of its last test as drawn, ns since 1970.
    extent: (i64, i64),
    last: Option<(TestVerdict, i64, TestId)>,
    bad_since: Option<i64>,
}

/// Reads the path named in an address. In addition to the parameters in [`ROUTES`](crate::routes::ROUTES), the page has
/// the parameter `show`.
pub fn read(archive: &Archive, asked: &RouteRequest, now: i64) -> Result<PathPage, Problem> {
    let (src, dst, query) = (asked.part(0), asked.part(1), &asked.query);
    let none = || Problem::NotFound(format!("The archive has no tests from {src} to {dst}."));
    let between = |a: &str, b: &str| -> Result<Vec<(i64, PooledStream)>, Problem> {
        let path = format!("{a}:{b}").parse().map_err(|_| none())?;
        let filter = Filter { path: Some(path), ..Filter::default() };
        archive.streams(&filter).map_err(|e| match e {
            jitlat_archive::ArchiveError::Usage(_) => none(),
            other => other.into(),
        })
    };
    let mut streams = Vec::new();
    for (id, stream) in between(src, dst)? {
        if let Some(extent) = archive.first_and_last(id)? {
            streams.push((id, stream, extent));
        }
    }
    let newest = streams.iter().max_by_key(|(_, _, extent)| extent.1).map(|s| s.0).ok_or_else(none)?;
    let stream = query.get("stream").map(|text| {
        text.parse().map_err(|_| {
            Problem::Wrong("stream must be a number, as in the links of a path's page.".to_owned())
        })
    });
    let wanted = stream.transpose()?.unwrap_or(newest);
    let (id, stream, extent) =
        streams.iter().find(|s| s.0 == wanted).cloned().ok_or_else(|| {
            Problem::NotFound(format!("The path from {src} to {dst} has no stream {wanted}."))
        })?;
    let shown = match query.get("show") {
        None => ShownQuantity::Delay,
        Some(text) => ShownQuantity::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, shown)| *shown)
            .ok_or_else(|| Problem::Wrong("show must be 'delay' or 'jitter'.".to_owned()))?,
    };
    let when =
        |name: &str| query.get(name).map(|text| When::parse(text, WallTime(now)).map(|w| w.0.0)).transpose();
    let end = end_of(archive, id, extent)?;
    let to = when("to")?.unwrap_or(end);
    let usual =
        end.saturating_sub(DEFAULT_SPAN_NS).max(extent.0.div_euclid(times::SECOND) * times::SECOND).min(to);
    let from = when("from")?.unwrap_or(usual);
    if from >= to {
        return Err(Problem::Wrong("The end must be after the beginning.".to_owned()));
    }
    let tests = archive.tests_between(id, from, to)?;
    let by = period(to.min(end).saturating_sub(from.max(extent.0)), tests);
    let pools = archive.course(id, by, from, to)?;
    let verdicts = if tests <= MAX_VERDICTS { Some(archive.verdicts(id, from, to)?) } else { None };
    let periods = figures(&pools, verdicts.as_ref(), to);
    let mut all = StreamPeriod { start_ns: from, end_ns: to, test: None, pool: Pool::default() };
    pools.iter().for_each(|course| all.pool.merge(&course.pool));
    let worst = periods.iter().filter_map(|p| p.worst).max();
    let all = PeriodFigures::new(&all, to, worst);
    let (last, bad_since) = newest_verdict(archive, id, extent.1)?;
    let back = between(dst, src).is_ok_and(|streams| !streams.is_empty()) && src != dst;
    let course = PathCourse {
        id,
        stream,
        from_ns: from,
        to_ns: to,
        by: name(by),
        all,
        periods,
        changes: verdicts.as_ref().map(|v| v.changes().map(change).collect()),
        gaps: verdicts
            .as_ref()
            .map(|v| v.gaps().into_iter().map(|(from_ns, to_ns)| TestGap { from_ns, to_ns }).collect()),
        routes: routes(archive, (src, dst), (from, to))?,
    };
    let streams = streams.into_iter().map(|(id, stream, _)| (id, stream)).collect();
    let (can_run, extent) = (asked.app.runs.is_some(), (extent.0, end));
    let known = archive.host_names()?;
    let name = |address: &String| known.get(address).unwrap_or(address).clone();
    let names = [name(&course.stream.src), name(&course.stream.dst)];
    Ok(PathPage { course, streams, back, names, can_run, shown, pools, extent, last, bad_since })
}

/// Returns the routes between two hosts, by addresses or names, that were in use in a period.
fn routes(
    archive: &Archive,
    (src, dst): (&str, &str),
    (from, to): (i64, i64),
) -> Result<Vec<Route>, Problem> {
    let names = archive.host_names()?;
    let name = |host: &str| names.get(host).cloned().unwrap_or_else(|| host.to_owned());
    let mut routes = archive.routes(&name(src), &name(dst), MAX_ROUTES)?;
    routes.retain(|route| route.last_ns >= from && route.first_ns < to);
    Ok(routes)
}

/// Returns the end of a stream's last test as drawn: its start plus the mean interval between tests (at most a day), rounded up to
/// whole seconds.
fn end_of(archive: &Archive, id: i64, (first, last): (i64, i64)) -> Result<i64, Problem> {
    let from = first.max(last.saturating_sub(DEFAULT_SPAN_NS));
    let tests = archive.tests_between(id, from, last.saturating_add(1))?;
    let apart = last.saturating_sub(from) / i64::try_from(tests).unwrap_or(i64::MAX).saturating_sub(1).max(1);
    let end = last.saturating_add(apart.min(DAY)).div_euclid(times::SECOND);
    Ok(end.saturating_add(1).saturating_mul(times::SECOND))
}

fn change((at_ns, bad, test): (i64, bool, TestId)) -> VerdictChange {
    VerdictChange { at_ns, bad, test: test.to_string() }
}

/// Chooses the length of the pooled periods in a view.
fn period(span: i64, tests: u64) -> PoolPeriod {
    match span {
        _ if span <= HOUR || (tests <= MAX_TESTS && span <= 8 * DAY) => PoolPeriod::Test,
        _ if span <= 8 * DAY => PoolPeriod::Hour,
        _ if span <= 800 * DAY => PoolPeriod::Day,
        _ => PoolPeriod::Month,
    }
}

fn name(period: PoolPeriod) -> &'static str {
    PoolPeriod::NAMES.iter().find(|(_, p)| *p == period).map_or("", |(name, _)| name)
}

/// Newest test with its verdict and start, and start of the first of the latest consecutive bad tests. Only
/// tests of the last month are examined.
type NewestVerdict = (Option<(TestVerdict, i64, TestId)>, Option<i64>);

fn newest_verdict(archive: &Archive, id: i64, last: i64) -> Result<NewestVerdict, Problem> {
    let mut since = None;
    let mut newest = None;
    // Look back in growing steps, so that a month is not read for a path that turned bad a minute ago.
    for back in [HOUR, DAY, 7 * DAY, 31 * DAY] {
        let from = last.saturating_sub(back);
        let verdicts = archive.verdicts(id, from, last.saturating_add(1))?;
        newest = verdicts.tests.last().map(|(at, severity, test)| (TestVerdict::named(severity), *at, *test));
        let bad = |severity: &str| TestVerdict::named(severity).is_bad();
        let row = verdicts.tests.iter().rev().take_while(|(_, severity, _)| bad(severity)).count();
        since = row.checked_sub(1).and_then(|k| verdicts.tests.iter().rev().nth(k)).map(|(at, _, _)| *at);
        if row < verdicts.tests.len() {
            break;
        }
    }
    Ok((newest, since))
}

/// Returns the figures of each period, with the worst verdict of its tests.
fn figures(pools: &[StreamPeriod], verdicts: Option<&Verdicts>, end: i64) -> Vec<PeriodFigures> {
    let worst = |from: i64, to: i64| {
        let tests = &verdicts?.tests;
        let first = tests.partition_point(|(at, _, _)| *at < from);
        tests[first..].iter().take_while(|(at, _, _)| *at < to).map(|(_, s, _)| TestVerdict::named(s)).max()
    };
    let usual = verdicts.and_then(Verdicts::usual_distance);
    let figures = pools.iter().enumerate().map(|(k, course)| {
        let next = pools.get(k + 1).map_or(end, |next| next.start_ns);
        let end = match course.test {
            // Draw a test as wide as the usual interval between tests.
            Some(_) => course.start_ns.saturating_add(usual.unwrap_or(i64::MAX)).min(next),
            None => course.end_ns,
        };
        let verdict = match course.test {
            Some(test) => verdicts.and_then(|v| {
                let found = v.tests.binary_search_by_key(&(course.start_ns, test), |t| (t.0, t.2)).ok()?;
                Some(TestVerdict::named(&v.tests[found].1))
            }),
            None => worst(course.start_ns, course.end_ns),
        };
        PeriodFigures::new(course, end.max(course.start_ns), verdict)
    });
    figures.collect()
}

/// Renders the page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, asked, times::now())?))
}

impl PathPage {
    /// Returns the address of the page that shows another period of the same path.
    fn address(&self, from: i64, to: i64) -> String {
        self.with(self.course.id, self.shown, Some((from, to)))
    }

    fn with(&self, id: i64, shown: ShownQuantity, span: Option<(i64, i64)>) -> String {
        let PooledStream { src, dst, .. } = &self.course.stream;
        let mut text = format!("/path/{}/{}?stream={id}", encoded(src), encoded(dst));
        if shown != ShownQuantity::Delay {
            let _ = write!(text, "&show={}", shown.name());
        }
        if let Some((from, to)) = span {
            let _ = write!(text, "&from={}&to={}", times::address(from), times::address_after(to));
        }
        text
    }

    fn here(&self) -> Option<(i64, i64)> {
        Some((self.course.from_ns, self.course.to_ns))
    }

    /// Returns the address to which a period links: the same period divided into shorter ones, or the test.
    fn into(&self, period: &PeriodFigures) -> String {
        match &period.test {
            Some(test) => format!("/test/{test}"),
            None => self.address(period.start_ns, period.end_ns),
        }
    }

    /// Returns the name of a period, as precise as its length requires.
    fn name(&self, period: &PeriodFigures) -> String {
        let length = match self.course.by {
            "test" => 19,
            "hour" => 16,
            "day" => 10,
            _ => 7,
        };
        utc(period.start_ns).chars().take(length).collect()
    }
}

fn write(view: &PathPage) -> String {
    let PathCourse { stream, .. } = &view.course;
    let arrow = if stream.direction == "both" { "⇄" } else { "→" };
    let [src, dst] = &view.names;
    let title = format!("{src} {arrow} {dst}");
    let has_names = *src != stream.src || *dst != stream.dst;
    let main = html! {
        (others(view))
        div data-live="path" {
            (state(view))
            (steps(view))
            (drawing(view))
            (summary(view))
            (changes(view))
            (route_history(view))
            (table(view))
        }
    };
    page::page(&title, PageTab::None, &html! { p.what { @if has_names { (stream.src) " " (arrow) " " (stream.dst) ", " } (described(stream)) } }, &main).0
}

/// Renders a link in a list; `current` is true if it leads to the page shown.
fn link(address: &str, current: bool, text: &str) -> Markup {
    html! { li { a href=(address) aria-current=[current.then_some("true")] { (text) } } }
}

/// Renders links to the other direction, and to other streams of the same direction.
fn others(view: &PathPage) -> Markup {
    let PooledStream { src, dst, .. } = &view.course.stream;
    let several = view.streams.iter().filter(|_| view.streams.len() > 1);
    let (from, to) = (view.course.from_ns, view.course.to_ns);
    let before = times::address(from.saturating_sub(to.saturating_sub(from)));
    let (from, to) = (times::address(from), times::address_after(to));
    let (src, dst) = (encoded(src), encoded(dst));
    let compare = format!("/compare?src={src}&dst={dst}&from={before}&to={from}&from2={from}&to2={to}");
    html! {
        ul.steps aria-label="Other views of this path" {
            @if view.back { (link(&format!("/path/{dst}/{src}"), false, "Other direction")) }
            @for (id, stream) in several {
                (link(&view.with(*id, view.shown, None), *id == view.course.id, &described(stream)))
            }
            @for (name, shown) in ShownQuantity::NAMES {
                (link(&view.with(view.course.id, shown, view.here()), shown == view.shown, name))
            }
            (link(&compare, false, "Compare with the previous period"))
            @if view.can_run { (link(&format!("/run?host={dst}"), false, "Test it now")) }
        }
    }
}

/// Renders the newest verdict, and the start of a bad period.
fn state(view: &PathPage) -> Markup {
    let Some((verdict, at, test)) = view.last else { return Markup::default() };
    let class = if verdict.is_bad() {
        verdict.word()
    } else if verdict == TestVerdict::Good {
        "good"
    } else {
        "note"
    };
    let since = view.bad_since.map_or(String::new(), |at| format!(" since {}", utc(at)));
    html! {
        p.headline.(class) {
            (verdict.sign()) " " (sentence(verdict.word())) (since) ". Last test: "
            a href=(format!("/test/{test}")) { (utc(at)) }
            "."
        }
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Renders links to longer and shorter periods, and to the previous and next ones.
fn steps(view: &PathPage) -> Markup {
    let (from, to) = (view.course.from_ns, view.course.to_ns);
    let (first, after_all) = view.extent;
    let length = to.saturating_sub(from);
    let mut links = vec![("all".to_owned(), first, after_all)];
    let around = CalendarUnit::ALL.map(|unit| (unit, unit.around(from.max(first))));
    let longer = around.into_iter().filter(|(_, (start, end))| end.saturating_sub(*start) >= length);
    links.extend(longer.map(|(unit, (start, end))| (unit.name(start), start, end)));
    links.push(("earlier".to_owned(), from.saturating_sub(length), from));
    if to < after_all {
        links.push(("later".to_owned(), to, to.saturating_add(length)));
    }
    links.push(("last day".to_owned(), after_all.saturating_sub(DAY), after_all));
    links.push(("last week".to_owned(), after_all.saturating_sub(7 * DAY), after_all));
    html! {
        nav aria-label="Time" {
            ul.steps {
                @for (text, start, end) in links {
                    @let address = view.address(start, end);
                    (link(&address, address == view.address(from, to), &text))
                }
            }
        }
    }
}

fn drawing(view: &PathPage) -> Markup {
    let course = &view.course;
    if course.periods.is_empty() {
        return html! { p.headline.note { "No tests in this period." } };
    }
    let column = |(period, pool): (&PeriodFigures, &StreamPeriod)| {
        let delays = view.shown.of(&pool.pool);
        ChartPeriod {
            span: (period.start_ns, period.end_ns),
            delays: delays.counted().collect(),
            percentiles: match view.shown {
                ShownQuantity::Delay => period.delay_median_ns.zip(period.delay_p99_ns),
                ShownQuantity::Jitter => period.jitter_median_ns.zip(period.jitter_p99_ns),
            },
            loss: period.loss,
            verdict: period.worst,
            address: view.into(period),
            about: about(view, period),
        }
    };
    let columns: Vec<ChartPeriod> = course.periods.iter().zip(&view.pools).map(column).collect();
    let two_way = course.stream.direction == "both";
    let quantity = match (view.shown, two_way) {
        (ShownQuantity::Jitter, _) => "jitter: delay above the smallest delay of each test",
        (ShownQuantity::Delay, true) => "round trip",
        (ShownQuantity::Delay, false) => "one-way delay, as measured",
    };
    let gaps: Vec<_> = course.gaps.iter().flatten().map(|gap| (gap.from_ns, gap.to_ns)).collect();
    let changes: Vec<_> = course.changes.iter().flatten().map(|change| (change.at_ns, change.bad)).collect();
    let span = (course.from_ns, course.to_ns);
    let marks: Vec<i64> =
        course.routes.iter().map(|route| route.first_ns).filter(|at| *at > span.0).collect();
    let drawn = Chart { span, quantity, columns: &columns, gaps: &gaps, changes: &changes, marks: &marks };
    let (svg, is_logarithmic) = chart::svg(&drawn);
    html! {
        figure {
            div.drawn tabindex="0" role="group" aria-label="Delay, loss and verdicts over time" { (PreEscaped(svg)) }
            figcaption {
                ul.key {
                    li { "solid line: median" }
                    li { "dashed line: 99th percentile" }
                    li { "shades: number of packets by delay, per " (course.by) }
                    li { "orange: lost packets" }
                    li { "verdict: a higher bar is worse" }
                    @if !marks.is_empty() { li { "◆: the route changed" } }
                }
                @if is_logarithmic { "Delays are on a logarithmic scale. " }
                @if !two_way && view.shown == ShownQuantity::Delay {
                    "One-way delays include the difference of the two hosts' clocks: changes are reliable, absolute \
                     values may not be. "
                }
                "Select a period to zoom in; the table below has the same links."
            }
        }
    }
}

fn about(view: &PathPage, period: &PeriodFigures) -> String {
    let (median, p99) = match view.shown {
        ShownQuantity::Delay => (period.delay_median_ns, period.delay_p99_ns),
        ShownQuantity::Jitter => (period.jitter_median_ns, period.jitter_p99_ns),
    };
    let verdict = period.worst.map_or("", TestVerdict::word);
    let worst = if period.tests > 1 { "worst " } else { "" };
    let (tests, loss) = (period.tests, share(period.loss));
    let name = view.name(period);
    format!(
        "{name}: {tests} tests, median {}, 99 % below {}, loss {loss}, {worst}{verdict}",
        time(median),
        time(p99)
    )
}

/// Renders the figures of all packets shown.
fn summary(view: &PathPage) -> Markup {
    let all = &view.course.all;
    let rows = [
        ("tests", all.tests.to_string()),
        ("packets sent", all.sent.to_string()),
        ("lost", format!("{} ({})", all.lost, share(all.loss))),
        ("median delay", time(all.delay_median_ns)),
        ("p99 delay", time(all.delay_p99_ns)),
        ("p99 jitter", time(all.jitter_p99_ns)),
    ];
    html! {
        section.view {
            h2 { (utc(view.course.from_ns)) " to " (utc(view.course.to_ns)) }
            dl.counts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// Renders the routes of the period, the newest first.
fn route_history(view: &PathPage) -> Markup {
    let routes = &view.course.routes;
    if routes.is_empty() {
        return Markup::default();
    }
    let rows = html! {
        thead {
            tr {
                @for column in ["first seen", "last seen"] { th scope="col" { (column) } }
                th.words scope="col" { "change" }
                th.words scope="col" { "routers" }
            }
        }
        tbody {
            @for (k, route) in routes.iter().enumerate().rev().take(MAX_LISTED_CHANGES) {
                @let before = routes[..k].iter().rfind(|before| before.route == route.route);
                tr {
                    th scope="row" { (utc(route.first_ns)) }
                    td { (utc(route.last_ns)) }
                    td.words { @if let Some(before) = before { (route::change(&before.hops, &route.hops)) } @else { "–" } }
                    td.words { (route.hops.join(" → ")) }
                }
            }
        }
    };
    html! {
        h2 #routes { "Routes" }
        (scrolling("Routes", &rows))
    }
}

/// Renders the lists of verdict changes and of gaps between tests.
fn changes(view: &PathPage) -> Markup {
    let (Some(changes), Some(gaps)) = (&view.course.changes, &view.course.gaps) else {
        return html! {
            p { "Too many tests to list changes: choose a shorter period." }
        };
    };
    let changed = changes.iter().map(|c| {
        let what = if c.bad { "turned poor or bad" } else { "recovered (good or fair)" };
        (c.at_ns, html! { (utc(c.at_ns)) ": " a href={"/test/" (c.test)} { (what) } })
    });
    let silent = gaps.iter().map(|gap| {
        let length = times::length(gap.to_ns.saturating_sub(gap.from_ns));
        (gap.from_ns, html! { (utc(gap.from_ns)) ": no test for " (length) })
    });
    let mut all: Vec<(i64, Markup)> = changed.chain(silent).collect();
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    html! {
        @if !all.is_empty() {
            h2 { "Changes" }
            ul { @for (_, text) in all.iter().take(MAX_LISTED_CHANGES) { li { (text) } } }
        }
        @if all.len() > MAX_LISTED_CHANGES { p { (all.len() - MAX_LISTED_CHANGES) " earlier ones are not listed." } }
    }
}

/// Renders the table of all periods with figures and links, newest first.
fn table(view: &PathPage) -> Markup {
    let course = &view.course;
    if course.periods.is_empty() {
        return Markup::default();
    }
    let columns = [course.by, "tests", "sent", "lost", "median delay", "p99 delay", "p99 jitter", "worst"];
    let rows = html! {
        thead { tr { @for column in columns { th scope="col" { (column) } } } }
        tbody {
            @for period in course.periods.iter().rev() {
                tr {
                    th scope="row" { a href=(view.into(period)) { (view.name(period)) } }
                    td { (period.tests) }
                    td { (period.sent) }
                    td { (share(period.loss)) }
                    td { (time(period.delay_median_ns)) }
                    td { (time(period.delay_p99_ns)) }
                    td { (time(period.jitter_p99_ns)) }
                    @match period.worst {
                        Some(v) => { td.(v.word()) { (badge(v.sign(), v.word())) } },
                        None => { td { "–" } },
                    }
                }
            }
        }
    };
    html! {
        details.fold open[course.periods.len() <= 31] {
            summary { h2 { "By " (course.by) } }
            (scrolling(&format!("Figures by {}", course.by), &rows))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pooled_depends_on_how_long_is_shown() {
        for (span, tests, by) in [
            (HOUR, 10_000, PoolPeriod::Test),
            (DAY, 288, PoolPeriod::Test),
            (DAY, 8640, PoolPeriod::Hour),
            (7 * DAY, 2016, PoolPeriod::Hour),
            (31 * DAY, 10, PoolPeriod::Day),
            (366 * DAY, 100_000, PoolPeriod::Day),
            (3000 * DAY, 100_000, PoolPeriod::Month),
        ] {
            assert_eq!(period(span, tests), by, "{span}, {tests}");
        }
    }
}
