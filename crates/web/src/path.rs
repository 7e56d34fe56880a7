//! `/path/A/B`: delay, loss and verdicts of a path over time, from all there is down to a test.

use crate::chart::{self, Chart, ChartPeriod, share, time};
use crate::now::{badge, described};
use crate::page::{self, PageTab, encoded};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, CalendarUnit, DAY, HOUR};
use crate::verdict::TestVerdict;
use jitlat_archive::{Archive, Filter, PoolPeriod, PooledStream, StreamPeriod, TestId, Verdicts, When, utc};
use jitlat_core::WallTime;
use jitlat_core::distribution::log_histogram::LogHistogram;
use jitlat_core::distribution::percentile::{Method, Percent};
use jitlat_core::pool::Pool;
use jitlat_report::html::scrolling;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use std::fmt::Write;

/// What is shown where nothing else is asked for: so long before the newest test.
const DEFAULT_SPAN_NS: i64 = 7 * DAY;
/// Most tests that are shown one by one.
const MAX_TESTS: u64 = 600;
/// Most tests whose verdicts are looked at.
const MAX_VERDICTS: u64 = 30_000;
/// Most changes and gaps in their lists, the newest of them.
const MAX_LISTED_CHANGES: usize = 12;

/// What the delays are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownQuantity {
    /// As measured.
    Delay,
    /// Above the smallest of their test.
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
    /// Which packets.
    #[serde(flatten)]
    pub stream: PooledStream,
    /// Beginning of what is shown, ns since 1970.
    pub from_ns: i64,
    /// End of it.
    pub to_ns: i64,
    /// Length of a period: test, hour, day or month.
    pub by: &'static str,
    /// All packets of it together.
    pub all: PeriodFigures,
    /// Periods that have tests, in the order of time.
    pub periods: Vec<PeriodFigures>,
    /// Where tests begin to be poor or bad, or cease to be; null if there are too many tests to look at each.
    pub changes: Option<Vec<VerdictChange>>,
    /// Stretches without a test longer than three times the usual distance; null as above.
    pub gaps: Option<Vec<TestGap>>,
}

/// Figures of all packets of a period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeriodFigures {
    /// Its beginning, ns since 1970; of a test, when that began.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The test; null for longer periods.
    pub test: Option<String>,
    /// Tests.
    pub tests: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost.
    pub lost: u64,
    /// Lost of those sent; null if none was.
    pub loss: Option<f64>,
    /// Median delay as measured, ns; null without packets.
    pub delay_median_ns: Option<i64>,
    /// 99th percentile of it.
    pub delay_p99_ns: Option<i64>,
    /// Median of the delay above the smallest of its test.
    pub jitter_median_ns: Option<i64>,
    /// 99th percentile of it.
    pub jitter_p99_ns: Option<i64>,
    /// The worst verdict of its tests; null if there are too many to look at each.
    pub worst: Option<TestVerdict>,
}

/// A test with which a path turned poor or bad, or ceased to be.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictChange {
    /// When the test began, ns since 1970.
    pub at_ns: i64,
    /// Whether it is poor or bad, after one that was neither.
    pub bad: bool,
    /// The test.
    pub test: String,
}

/// A stretch without a test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestGap {
    /// When the test before it began, ns since 1970.
    pub from_ns: i64,
    /// When the test after it began.
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

/// What was read for a page.
pub struct PathPage {
    pub course: PathCourse,
    streams: Vec<(i64, PooledStream)>,
    /// Whether there are tests of the other direction.
    back: bool,
    /// Whether tests can be started from the page.
    can_run: bool,
    shown: ShownQuantity,
    pools: Vec<StreamPeriod>,
    /// When the first test of the stream began, and the end of the last as it is drawn.
    extent: (i64, i64),
    last: Option<(TestVerdict, i64, TestId)>,
    bad_since: Option<i64>,
}

/// Reads the path that an address names; what it may ask for is in the list of [routes](crate::routes::ROUTES), and `show`.
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
        text.parse().map_err(|_| Problem::Wrong("stream is a number, as in the links of a path.".to_owned()))
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
            .ok_or_else(|| Problem::Wrong("show is 'delay' or 'jitter'.".to_owned()))?,
    };
    let when =
        |name: &str| query.get(name).map(|text| When::parse(text, WallTime(now)).map(|w| w.0.0)).transpose();
    let end = end_of(archive, id, extent)?;
    let to = when("to")?.unwrap_or(end);
    let usual =
        end.saturating_sub(DEFAULT_SPAN_NS).max(extent.0.div_euclid(times::SECOND) * times::SECOND).min(to);
    let from = when("from")?.unwrap_or(usual);
    if from >= to {
        return Err(Problem::Wrong("The end is not after the beginning.".to_owned()));
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
    };
    let streams = streams.into_iter().map(|(id, stream, _)| (id, stream)).collect();
    let (can_run, extent) = (asked.app.runs.is_some(), (extent.0, end));
    Ok(PathPage { course, streams, back, can_run, shown, pools, extent, last, bad_since })
}

/// The end of a stream's last test as it is drawn: as long after it as its tests are apart, in whole seconds.
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

/// The length of what is pooled in a view.
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

/// The verdict of the newest test, and since when tests in a row are bad, as far as a month before it tells.
type NewestVerdict = (Option<(TestVerdict, i64, TestId)>, Option<i64>);

fn newest_verdict(archive: &Archive, id: i64, last: i64) -> Result<NewestVerdict, Problem> {
    let mut since = None;
    let mut newest = None;
    // Ever longer, so that a path that turned bad a minute ago is not read for a month.
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

/// Figures of each period, with the worst verdict of its tests.
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
            // A test is as wide as they usually are apart.
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

/// The page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, asked, times::now())?))
}

impl PathPage {
    /// The address of another part of it.
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

    /// Where a period leads: to its parts, or to the test.
    fn into(&self, period: &PeriodFigures) -> String {
        match &period.test {
            Some(test) => format!("/test/{test}"),
            None => self.address(period.start_ns, period.end_ns),
        }
    }

    /// The name of a period, as exact as its length needs.
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
    let title = format!("{} {arrow} {}", stream.src, stream.dst);
    let main = html! {
        (others(view))
        div data-live="path" {
            (state(view))
            (steps(view))
            (drawing(view))
            (summary(view))
            (changes(view))
            (table(view))
        }
    };
    page::page(&title, PageTab::None, &html! { p.what { (described(stream)) } }, &main).0
}

/// A link in a list; `current`: it leads to what is shown.
fn link(address: &str, current: bool, text: &str) -> Markup {
    html! { li { a href=(address) aria-current=[current.then_some("true")] { (text) } } }
}

/// Links to the other direction, and to other packets of the same.
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
            @if view.back { (link(&format!("/path/{dst}/{src}"), false, "The other direction")) }
            @for (id, stream) in several {
                (link(&view.with(*id, view.shown, None), *id == view.course.id, &described(stream)))
            }
            @for (name, shown) in ShownQuantity::NAMES {
                (link(&view.with(view.course.id, shown, view.here()), shown == view.shown, name))
            }
            (link(&compare, false, "Compare with the time before"))
            @if view.can_run { (link(&format!("/run?host={dst}"), false, "Test it now")) }
        }
    }
}

/// The newest verdict, and since when it is bad.
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
            (verdict.sign()) " " (sentence(verdict.word())) (since) ". The last test began at "
            a href=(format!("/test/{test}")) { (utc(at)) }
            "."
        }
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// Links to longer and shorter times, before and after.
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
        return html! { p.headline.note { "There is no test in this time." } };
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
        (ShownQuantity::Jitter, _) => "above the smallest of each test",
        (ShownQuantity::Delay, true) => "round trip",
        (ShownQuantity::Delay, false) => "one-way delay, as measured",
    };
    let gaps: Vec<_> = course.gaps.iter().flatten().map(|gap| (gap.from_ns, gap.to_ns)).collect();
    let changes: Vec<_> = course.changes.iter().flatten().map(|change| (change.at_ns, change.bad)).collect();
    let span = (course.from_ns, course.to_ns);
    let drawn = Chart { span, quantity, columns: &columns, gaps: &gaps, changes: &changes };
    let (svg, is_logarithmic) = chart::svg(&drawn);
    html! {
        figure {
            div.drawn tabindex="0" role="group" aria-label="Delay, loss and verdicts over time" { (PreEscaped(svg)) }
            figcaption {
                ul.key {
                    li { "solid line: median" }
                    li { "dashed line: 99th percentile" }
                    li { "shades: how many packets had which delay, of each " (course.by) }
                    li { "orange: lost" }
                    li { "height of the verdict: low is good, high is bad" }
                }
                @if is_logarithmic { "The scale of delays is logarithmic. " }
                @if !two_way && view.shown == ShownQuantity::Delay {
                    "Delays from one host to another contain the difference of their clocks: their changes are sure, their \
                     height may not be. "
                }
                "Choose a part to see it closer; the table below has the same links."
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

/// Figures of everything shown together.
fn summary(view: &PathPage) -> Markup {
    let all = &view.course.all;
    let rows = [
        ("tests", all.tests.to_string()),
        ("packets sent", all.sent.to_string()),
        ("lost", format!("{} ({})", all.lost, share(all.loss))),
        ("median delay", time(all.delay_median_ns)),
        ("99 % of delays up to", time(all.delay_p99_ns)),
        ("99 % of jitter up to", time(all.jitter_p99_ns)),
    ];
    html! {
        section.view {
            h2 { (utc(view.course.from_ns)) " to " (utc(view.course.to_ns)) }
            dl.counts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// When it became bad or ceased to be, and when there were no tests.
fn changes(view: &PathPage) -> Markup {
    let (Some(changes), Some(gaps)) = (&view.course.changes, &view.course.gaps) else {
        return html! {
            p { "These are too many tests to look at each verdict: choose a shorter time to see what changed when." }
        };
    };
    let changed = changes.iter().map(|c| {
        let what = if c.bad { "turned poor or bad" } else { "was good or fair again" };
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
            h2 { "What changed" }
            ul { @for (_, text) in all.iter().take(MAX_LISTED_CHANGES) { li { (text) } } }
        }
        @if all.len() > MAX_LISTED_CHANGES { p { (all.len() - MAX_LISTED_CHANGES) " more before them." } }
    }
}

/// Every period with its figures and its link, newest first.
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
