//! `/path/A/B`: delay, loss and verdicts of both directions of a path over time, from the whole archive down to a single test.
//!
//! * `choice` – period, quantity, time zone and overlays that the reader has chosen
//! * `view` – the page; `chart` – its drawing; `events` – route changes, host faults, changes of the verdict and gaps
//! * `csv` – the same figures for a spreadsheet

mod chart;
mod choice;
mod csv;
mod events;
mod view;

pub use csv::{csv, field as csv_field};
pub use view::page;

use self::choice::ViewChoice;
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, DAY, HOUR};
use crate::verdict::TestVerdict;
use jitlat_archive::{Archive, Filter, PoolPeriod, PooledStream, Route, StreamPeriod, TestId, Verdicts};
use jitlat_core::distribution::log_histogram::LogHistogram;
use jitlat_core::distribution::percentile::{Method, Percent};
use jitlat_core::pool::Pool;
use serde::Serialize;
use std::collections::BTreeMap;

/// Time before the newest test in which the usual interval between tests is estimated.
const RECENT_NS: i64 = 7 * DAY;
/// Maximum number of tests that are shown individually.
const MAX_TESTS: u64 = 600;
/// Longest period whose tests are shown individually, if they are few.
const MAX_TESTS_NS: i64 = 32 * DAY;
/// Longest period that is shown by hour: a month of hours of both directions would be a page of 2 MB.
const MAX_HOURS_NS: i64 = 8 * DAY;
/// Maximum number of tests in a period; if there are more, their verdicts are not read.
const MAX_VERDICTS: u64 = 30_000;
/// Maximum number of tests in a period; if there are more, the grades of their hosts are not read.
const MAX_HOST_GRADES: u64 = 10_000;
/// Maximum number of routes of a path that are read.
const MAX_ROUTES: usize = 200;

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
    /// Tests during which a host disturbed the measurement; null if there are too many tests to examine each.
    pub host_faults: Option<Vec<HostFault>>,
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

/// A test during which a host disturbed the measurement.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFault {
    /// Start of the test, ns since 1970.
    pub at_ns: i64,
    /// Grade of the hosts: poor or bad.
    pub grade: TestVerdict,
    /// Number of the test.
    pub test: String,
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
    choice: ViewChoice,
    /// The direction that the address names, and the other one if the archive has tests of it.
    sides: Vec<PathSide>,
    /// All streams of the direction that the address names.
    streams: Vec<(i64, PooledStream)>,
    /// True if tests can be started from the page.
    can_run: bool,
    /// Start of the stream's first test, and end of its last test as drawn, ns since 1970.
    extent: (i64, i64),
    /// Names and addresses of all hosts.
    hosts: BTreeMap<String, String>,
}

/// One direction of a path.
struct PathSide {
    course: PathCourse,
    /// Names of both hosts; the address of one without a name.
    names: [String; 2],
    pools: Vec<StreamPeriod>,
    /// Streams that are drawn above the direction for comparison: the name of each, and its periods in the time of the page.
    overlays: Vec<(String, Vec<StreamPeriod>)>,
    last: Option<(TestVerdict, i64, TestId)>,
    bad_since: Option<i64>,
}

/// A stream, and the period of it that is read.
struct CoursePeriod<'a> {
    id: i64,
    stream: &'a PooledStream,
    span: (i64, i64),
    by: PoolPeriod,
}

/// A stream of a path: its number, its properties, and the start of its first and last test.
type KnownStream = (i64, PooledStream, (i64, i64));

/// Returns the streams with tests from one host to another, each given by address or name; empty if there are none.
fn between(archive: &Archive, src: &str, dst: &str) -> Result<Vec<KnownStream>, Problem> {
    let Ok(path) = format!("{src}:{dst}").parse() else { return Ok(Vec::new()) };
    let streams = match archive.streams(&Filter { path: Some(path), ..Filter::default() }) {
        Err(jitlat_archive::ArchiveError::Usage(_)) => return Ok(Vec::new()),
        other => other?,
    };
    let mut known = Vec::new();
    for (id, stream) in streams {
        if let Some(extent) = archive.first_and_last(id)? {
            known.push((id, stream, extent));
        }
    }
    Ok(known)
}

/// Chooses the stream of `streams` that sends the same packets as `like`; `None` if there is none.
fn same_packets<'a>(streams: &'a [KnownStream], like: &PooledStream) -> Option<&'a KnownStream> {
    let kind =
        |s: &PooledStream| (s.protocol.clone(), s.payload_bytes, s.period_ns, s.dscp, s.direction == "both");
    let same = streams.iter().filter(|(_, stream, _)| kind(stream) == kind(like));
    same.max_by_key(|(_, _, extent)| extent.1)
}

/// The stream that an address names, with its period.
struct NamedStream {
    choice: ViewChoice,
    streams: Vec<KnownStream>,
    id: i64,
    stream: PooledStream,
    span: (i64, i64),
    by: PoolPeriod,
    /// Start of the first test, start of the last test, and its end as drawn, ns since 1970.
    extent: (i64, i64, i64),
}

fn named(archive: &Archive, asked: &RouteRequest, now: i64) -> Result<NamedStream, Problem> {
    let (src, dst, query) = (asked.part(0), asked.part(1), &asked.query);
    let none = || Problem::NotFound(format!("The archive has no tests from {src} to {dst}."));
    let choice = ViewChoice::new(query)?;
    let streams = between(archive, src, dst)?;
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
    let end = end_of(archive, id, extent)?;
    let span = choice.span(query, (extent.0, extent.1, end), now)?;
    let tests = archive.tests_between(id, span.0, span.1)?;
    let by = period(span.1.min(end).saturating_sub(span.0.max(extent.0)), tests);
    Ok(NamedStream { choice, streams, id, stream, span, by, extent: (extent.0, extent.1, end) })
}

/// Reads the direction named in an address.
pub fn read_course(archive: &Archive, asked: &RouteRequest, now: i64) -> Result<PathCourse, Problem> {
    let NamedStream { id, stream, span, by, .. } = named(archive, asked, now)?;
    Ok(course(archive, &CoursePeriod { id, stream: &stream, span, by }, &archive.host_names()?)?.0)
}

/// Reads the page of the path named in an address.
fn read(archive: &Archive, asked: &RouteRequest, now: i64) -> Result<PathPage, Problem> {
    let NamedStream { choice, streams, id, stream, span, by, extent } = named(archive, asked, now)?;
    let hosts = archive.host_names()?;
    let mut ends = vec![(id, stream.clone(), extent.1)];
    if stream.src != stream.dst {
        let back = between(archive, &stream.dst, &stream.src)?;
        ends.extend(same_packets(&back, &stream).map(|(id, stream, extent)| (*id, stream.clone(), extent.1)));
    }
    let mut sides = Vec::new();
    for (k, (id, stream, last_start)) in ends.into_iter().enumerate() {
        let (course, pools) = course(archive, &CoursePeriod { id, stream: &stream, span, by }, &hosts)?;
        let (last, bad_since) = newest_verdict(archive, id, last_start)?;
        let name = |address: &String| hosts.get(address).unwrap_or(address).clone();
        let names = [name(&stream.src), name(&stream.dst)];
        let mut overlays = Vec::new();
        if choice.has_week {
            overlays.push(("a week earlier".to_owned(), shifted(archive, (id, by), span, 7 * DAY)?));
        }
        if let Some([src, dst]) = &choice.other {
            let (src, dst) = if k == 0 { (src, dst) } else { (dst, src) };
            let others = between(archive, src, dst)?;
            let other = same_packets(&others, &stream).or_else(|| others.first());
            match other {
                Some((id, _, _)) => {
                    overlays.push((format!("{src} → {dst}"), shifted(archive, (*id, by), span, 0)?));
                }
                None if k == 0 => {
                    return Err(Problem::NotFound(format!("The archive has no tests from {src} to {dst}.")));
                }
                None => {}
            }
        }
        sides.push(PathSide { course, names, pools, overlays, last, bad_since });
    }
    let streams = streams.into_iter().map(|(id, stream, _)| (id, stream)).collect();
    let can_run = asked.app.runs.is_some();
    Ok(PathPage { choice, sides, streams, can_run, extent: (extent.0, extent.2), hosts })
}

/// Reads the periods of a stream that lie `ago` ns before `span`, moved to the time of `span`.
fn shifted(
    archive: &Archive,
    (id, by): (i64, PoolPeriod),
    (from, to): (i64, i64),
    ago: i64,
) -> Result<Vec<StreamPeriod>, Problem> {
    let mut periods = archive.course(id, by, from.saturating_sub(ago), to.saturating_sub(ago))?;
    let after: Vec<i64> = periods.iter().skip(1).map(|next| next.start_ns).chain([to]).collect();
    for (period, next) in periods.iter_mut().zip(after) {
        if period.test.is_some() {
            period.end_ns = next;
        }
        period.start_ns = period.start_ns.saturating_add(ago);
        period.end_ns = period.end_ns.saturating_add(ago).min(to);
    }
    Ok(periods)
}

/// Reads one direction.
fn course(
    archive: &Archive,
    of: &CoursePeriod<'_>,
    hosts: &BTreeMap<String, String>,
) -> Result<(PathCourse, Vec<StreamPeriod>), Problem> {
    let CoursePeriod { id, stream, span: (from, to), by } = *of;
    let tests = archive.tests_between(id, from, to)?;
    let pools = archive.course(id, by, from, to)?;
    let verdicts = if tests <= MAX_VERDICTS { Some(archive.verdicts(id, from, to)?) } else { None };
    let periods = figures(&pools, verdicts.as_ref(), to);
    let mut all = StreamPeriod { start_ns: from, end_ns: to, test: None, pool: Pool::default() };
    pools.iter().for_each(|course| all.pool.merge(&course.pool));
    let worst = periods.iter().filter_map(|p| p.worst).max();
    let faults = if tests <= MAX_HOST_GRADES { Some(archive.host_faults(id, from, to)?) } else { None };
    let fault = |(at_ns, grade, test): (i64, String, TestId)| HostFault {
        at_ns,
        grade: TestVerdict::named(&grade),
        test: test.to_string(),
    };
    let name = |host: &String| hosts.get(host).unwrap_or(host).clone();
    let mut routes = archive.routes(&name(&stream.src), &name(&stream.dst), MAX_ROUTES)?;
    routes.retain(|route| route.last_ns >= from && route.first_ns < to);
    let course = PathCourse {
        id,
        stream: stream.clone(),
        from_ns: from,
        to_ns: to,
        by: self::name(by),
        all: PeriodFigures::new(&all, to, worst),
        periods,
        changes: verdicts.as_ref().map(|v| v.changes().map(change).collect()),
        gaps: verdicts
            .as_ref()
            .map(|v| v.gaps().into_iter().map(|(from_ns, to_ns)| TestGap { from_ns, to_ns }).collect()),
        host_faults: faults.map(|faults| faults.into_iter().map(fault).collect()),
        routes,
    };
    Ok((course, pools))
}

/// Returns the end of a stream's last test as drawn: its start plus the mean interval between tests (at most a day), rounded up to
/// whole seconds.
fn end_of(archive: &Archive, id: i64, (first, last): (i64, i64)) -> Result<i64, Problem> {
    let from = first.max(last.saturating_sub(RECENT_NS));
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
        _ if span <= HOUR || (tests <= MAX_TESTS && span <= MAX_TESTS_NS) => PoolPeriod::Test,
        _ if span <= MAX_HOURS_NS => PoolPeriod::Hour,
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
            (31 * DAY, 10, PoolPeriod::Test),
            (30 * DAY, 8640, PoolPeriod::Day),
            (90 * DAY, 10, PoolPeriod::Day),
            (366 * DAY, 100_000, PoolPeriod::Day),
            (3000 * DAY, 100_000, PoolPeriod::Month),
        ] {
            assert_eq!(period(span, tests), by, "{span}, {tests}");
        }
    }
}
