//! `/`: all streams, each with its newest test, its verdict, the start of a bad period, and whether results are
//! missing.
//!
//! * `choice` – paths, order and metric that the reader has chosen; `metric` – the number in the cells
//! * `paths` – the table of all paths; `matrix` – the matrix of hosts or sites

mod choice;
mod matrix;
mod metric;
mod paths;

use self::choice::OverviewChoice;
use crate::numbers::time;
use crate::page::{self, PageTab, cards, encoded};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times;
use crate::verdict::TestVerdict;
use jitlat_archive::{Archive, Newest, ReportedSlot, TestId, utc};
use jitlat_core::twoway::BROWSER_REQUESTS;
use maud::{Markup, html};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Number of usual intervals without a test after which a stream is silent.
const SILENCE_INTERVALS: i64 = 3;
/// Maximum number of streams in each list: those that need attention, and all.
const MAX_LISTED: usize = 100;
/// Keys of the figures that are shown for each newest test.
const FIGURES: [&str; 4] = ["latency-p99", "pdv-p99", "loss", "mos"];

/// All paths.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Now {
    /// Time of this document, ns since 1970.
    pub now_ns: i64,
    /// Every stream that has tests, by addresses.
    pub streams: Vec<StreamNow>,
    /// Newest report about each path that has no test, for example because the name of a host has no address.
    pub unmeasured: Vec<ReportedSlot>,
}

/// A stream from one host to another, and its newest test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamNow {
    /// Number of the stream in this archive.
    pub id: i64,
    /// The stream.
    #[serde(flatten)]
    pub stream: jitlat_archive::PooledStream,
    /// Name of the sender; null if unknown.
    pub src_name: Option<String>,
    /// Name of the receiver; null if unknown.
    pub dst_name: Option<String>,
    /// Number of the stream's newest test.
    pub test: String,
    /// Start of the newest test, ns since 1970.
    pub started_ns: i64,
    /// Number of rows in the log of the newest test.
    pub packets: u64,
    /// Verdict of the newest test.
    pub verdict: TestVerdict,
    /// Headline of the verdict.
    pub headline: String,
    /// 99th percentile of the delay of the newest test, as measured, ns; null if unknown.
    pub delay_p99_ns: Option<f64>,
    /// 99th percentile of the jitter (delay above the smallest) of the newest test, ns; null if unknown.
    pub jitter_p99_ns: Option<f64>,
    /// Share of the packets of the newest test that were lost; null if unknown.
    pub loss: Option<f64>,
    /// Mean opinion score of the newest test, 1 to 5; null if unknown.
    pub mos: Option<f64>,
    /// Median time between the newest tests, ns; null if there are fewer than three tests. If the stream would be
    /// silent according to this time, the time is computed without tests started from a page, and null unless they are regular.
    pub every_ns: Option<i64>,
    /// True if the last test is more than three times `every_ns` ago.
    pub silent: bool,
    /// Reason that the host that starts the tests has reported since; null if the stream is not silent, or nothing is known.
    pub silence: Option<String>,
    /// Site of the sender; null if it has none.
    pub src_site: Option<String>,
    /// Site of the receiver; null if it has none.
    pub dst_site: Option<String>,
    /// Start of the first of the latest consecutive poor or bad tests, ns since 1970; null if the newest test
    /// is neither.
    pub bad_since_ns: Option<i64>,
    /// Number of latest consecutive tests that are poor or bad.
    pub bad_tests: u64,
    /// True if `bad_tests` is a lower bound, because earlier tests were not examined.
    pub bad_tests_at_least: bool,
}

impl StreamNow {
    fn new(newest: Newest, now: i64) -> StreamNow {
        let age = now.saturating_sub(newest.started_ns);
        StreamNow {
            id: newest.stream_id,
            stream: newest.stream,
            src_name: newest.src_name,
            dst_name: newest.dst_name,
            test: newest.test.to_string(),
            started_ns: newest.started_ns,
            packets: newest.packets,
            verdict: TestVerdict::named(&newest.severity),
            headline: newest.headline,
            delay_p99_ns: None,
            jitter_p99_ns: None,
            loss: None,
            mos: None,
            every_ns: newest.every_ns,
            silent: is_silent(newest.every_ns, age),
            silence: None,
            src_site: None,
            dst_site: None,
            bad_since_ns: newest.bad.map(|bad| bad.since_ns),
            bad_tests: newest.bad.map_or(0, |bad| bad.tests),
            bad_tests_at_least: newest.bad.is_some_and(|bad| bad.at_least),
        }
    }

    fn src(&self) -> &str {
        self.src_name.as_deref().unwrap_or(&self.stream.src)
    }

    fn dst(&self) -> &str {
        self.dst_name.as_deref().unwrap_or(&self.stream.dst)
    }

    fn arrow(&self) -> &'static str {
        if self.stream.direction == "both" { "⇄" } else { "→" }
    }

    /// Returns sign, word and class of the verdict. A stream whose newest test is old and was not bad is
    /// "silent", because its verdict may no longer be true.
    fn shown(&self) -> (&'static str, &'static str, &'static str) {
        if self.silent && !self.verdict.is_bad() {
            return ("unknown", "…", "silent");
        }
        (self.verdict.word(), self.verdict.sign(), self.verdict.word())
    }

    fn address(&self) -> String {
        format!("/path/{}/{}?stream={}", encoded(&self.stream.src), encoded(&self.stream.dst), self.id)
    }

    /// Sort key: the worst verdicts first, then silent streams.
    fn rank(&self) -> (Option<TestVerdict>, bool) {
        (Some(self.verdict).filter(|verdict| verdict.is_bad()), self.silent)
    }
}

fn is_silent(every_ns: Option<i64>, age: i64) -> bool {
    every_ns.is_some_and(|every| age > every.saturating_mul(SILENCE_INTERVALS))
}

/// Reads all paths.
pub fn read(archive: &Archive, now: i64) -> Result<Now, Problem> {
    let mut streams: Vec<StreamNow> =
        archive.newest()?.into_iter().map(|newest| StreamNow::new(newest, now)).collect();
    for stream in streams.iter_mut().filter(|stream| stream.silent) {
        // Only tests at regular times, not those started from a page or in a browser, are expected to go on.
        let is_scheduled = stream.stream.protocol != BROWSER_REQUESTS;
        stream.every_ns = if is_scheduled { archive.regular_distance(stream.id)? } else { None };
        stream.silent = is_silent(stream.every_ns, now.saturating_sub(stream.started_ns));
    }
    let figures = archive.newest_figures(&FIGURES)?;
    for stream in &mut streams {
        if let Some([delay, jitter, loss, mos]) = figures.get(&stream.id).map(|values| &values[..]) {
            (stream.delay_p99_ns, stream.jitter_p99_ns, stream.loss, stream.mos) =
                (*delay, *jitter, *loss, *mos);
        }
    }
    let labels = archive.labels()?;
    let site = |host: &str| labels.get(host).and_then(|labels| labels.get("site")).cloned();
    for stream in &mut streams {
        (stream.src_site, stream.dst_site) = (site(stream.src()), site(stream.dst()));
    }
    let reports: Vec<ReportedSlot> =
        archive.reports_after(0)?.into_iter().map(|(_, report)| report).collect();
    let unmeasured = without_tests(&reports, &streams);
    if streams.iter().any(|stream| stream.silent) {
        explain_silence(archive, &mut streams, reports)?;
    }
    Ok(Now { now_ns: now, streams, unmeasured })
}

/// Returns the reports about paths between whose hosts there is no stream.
fn without_tests(reports: &[ReportedSlot], streams: &[StreamNow]) -> Vec<ReportedSlot> {
    let mut known: BTreeSet<[&str; 2]> = BTreeSet::new();
    for s in streams {
        for ends in [[s.src(), s.dst()], [&*s.stream.src, &*s.stream.dst]] {
            known.insert(ends);
            known.insert([ends[1], ends[0]]);
        }
    }
    // Far hosts may be known by their address alone, and this host by another name.
    let has_test = |report: &ReportedSlot| {
        known.contains(&[&*report.client, &*report.server])
            || known.iter().any(|ends| ends[1] == report.server)
    };
    reports.iter().filter(|report| !has_test(report)).cloned().collect()
}

/// Maximum number of silent streams whose reasons are looked up.
const MAX_EXPLAINED: usize = 500;

/// Adds the reported reasons to the streams that are silent.
fn explain_silence(
    archive: &Archive,
    streams: &mut [StreamNow],
    reports: Vec<ReportedSlot>,
) -> Result<(), Problem> {
    let reports: BTreeMap<[String; 3], ReportedSlot> = reports
        .into_iter()
        .map(|report| ([report.test.clone(), report.client.clone(), report.server.clone()], report))
        .collect();
    if reports.is_empty() {
        return Ok(());
    }
    for stream in streams.iter_mut().filter(|stream| stream.silent).take(MAX_EXPLAINED) {
        let Ok(test) = i64::from_str_radix(&stream.test, 16) else { continue };
        let tags = archive.listed(TestId(test))?.tags;
        let tag = |key: &str| tags.get(key).cloned();
        let Some(((name, client), server)) = tag("test").zip(tag("client")).zip(tag("server")) else {
            continue;
        };
        let report = reports.get(&[name, client, server]).filter(|report| report.at_ns > stream.started_ns);
        stream.silence = report.map(|report| {
            let since = utc(report.since_ns);
            format!(
                "{} since {} UTC, according to {}",
                report.reason,
                since.get(..16).unwrap_or(&since),
                report.client
            )
        });
    }
    Ok(())
}

/// Describes the packets of a stream.
pub fn described(stream: &jitlat_archive::PooledStream) -> String {
    let two_way = stream.direction == "both";
    let mut text = if two_way { format!("{} round trips", stream.protocol) } else { stream.protocol.clone() };
    if let Some(bytes) = stream.payload_bytes {
        let _ = write!(text, ", {bytes} bytes");
    }
    if let Some(period) = stream.period_ns {
        let every = time(Some(period));
        let _ = write!(text, " every {every}");
    }
    if stream.dscp != 0 {
        let _ = write!(text, ", DSCP {}", stream.dscp);
    }
    text
}

/// Renders the page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    let mut all = read(archive, times::now())?;
    tell_apart(&mut all);
    write(archive, &all, &OverviewChoice::new(&asked.query))
}

/// Returns the names that several hosts have, given the name and the address of each end.
pub fn shared_names<'a>(ends: impl Iterator<Item = (Option<&'a str>, &'a str)>) -> BTreeSet<String> {
    let mut addresses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, address) in ends {
        addresses.entry(name.unwrap_or(address)).or_default().insert(address);
    }
    addresses.into_iter().filter(|(_, of)| of.len() > 1).map(|(name, _)| name.to_owned()).collect()
}

/// Adds the address to the names that several hosts have.
fn tell_apart(all: &mut Now) {
    let shared =
        shared_names(all.streams.iter().flat_map(|s| {
            [(s.src_name.as_deref(), &*s.stream.src), (s.dst_name.as_deref(), &*s.stream.dst)]
        }));
    for s in &mut all.streams {
        for (name, address) in [(&mut s.src_name, &s.stream.src), (&mut s.dst_name, &s.stream.dst)] {
            if let Some(name) = name.as_mut().filter(|name| shared.contains(*name)) {
                *name = format!("{name} ({address})");
            }
        }
    }
}

fn write(archive: &Archive, all: &Now, choice: &OverviewChoice) -> Result<String, Problem> {
    let shown: Vec<&StreamNow> = all.streams.iter().filter(|s| choice.accepts(s)).collect();
    let rows = paths::rows(shown.iter().copied(), choice);
    let days = paths::last_days(archive, &rows, choice.metric.of_last_day(), all.now_ns)?;
    let sites = all.streams.iter().flat_map(|s| [&s.src_site, &s.dst_site]).flatten().map(|site| &**site);
    let sites: BTreeSet<&str> = sites.collect();
    let hosts = hosts(&all.streams.iter().collect::<Vec<_>>());
    let header = html! {
        p.what {
            (counted(all.streams.len(), "stream of tests", "streams of tests"))
            " between "
            (counted(hosts.len(), "host", "hosts"))
        }
    };
    let main = html! {
        div data-live="now" {
            (no_result(&all.unmeasured, choice, all.now_ns))
            @if all.streams.is_empty() && all.unmeasured.is_empty() {
                p.headline.note { "The archive is empty." }
                p {
                    "Every test takes " code { "--archive DIR" } " and stores its result in the archive; "
                    code { "jitlat archive add DIR LOG" } " adds existing logs."
                }
            } @else if !all.streams.is_empty() {
                @if !shown.is_empty() { (headline(&shown, all.now_ns)) }
                (attention(&shown, all.now_ns))
                (choice.tabs())
                (choice.form(&sites))
                @if shown.is_empty() { p.headline.note { "No path has all of these properties." } }
                (matrix::matrix(&shown, &self::hosts(&shown), choice, all.now_ns))
                h2 #streams { @if rows.len() > MAX_LISTED || choice.is_limited() { "Paths" } @else { "All paths" } }
                (paths::table(&rows, &days, choice, all.now_ns))
            }
        }
    };
    Ok(page::page("All paths now", PageTab::Now, &header, &main).0)
}

fn counted(n: usize, one: &str, several: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { several })
}

/// Returns the addresses of all hosts, with their names.
fn hosts<'a>(streams: &[&'a StreamNow]) -> BTreeMap<&'a str, &'a str> {
    let ends = |s: &&'a StreamNow| {
        let s: &'a StreamNow = s;
        [(s.stream.src.as_str(), s.src()), (s.stream.dst.as_str(), s.dst())]
    };
    streams.iter().flat_map(ends).collect()
}

/// Summarises the problems in one sentence; names up to three streams.
fn headline(streams: &[&StreamNow], now_ns: i64) -> Markup {
    let of = |which: &dyn Fn(&StreamNow) -> bool| {
        streams.iter().copied().filter(|s| which(s)).collect::<Vec<&StreamNow>>()
    };
    let (bad, silent) = (of(&|s| s.verdict.is_bad()), of(&|s| s.silent));
    let unknown = of(&|s| s.verdict == TestVerdict::Unknown && !s.silent);
    let is_complete = silent.is_empty() && unknown.is_empty();
    let worst = bad.iter().map(|s| s.verdict).max();
    let class = match worst {
        Some(verdict) => verdict.word(),
        None if is_complete => "good",
        None => "note",
    };
    let mut text = match &bad[..] {
        [] if is_complete => "All streams are good or fair, and none is silent.".to_owned(),
        [] if unknown.len() == streams.len() => String::new(),
        [] => "No stream was poor or bad in its newest test.".to_owned(),
        few @ ([_] | [_, _] | [_, _, _]) => {
            let said = few.iter().map(|s| {
                if s.bad_tests == 1 {
                    // How long it was bad is unknown.
                    let [src, arrow, dst, word] = [s.src(), s.arrow(), s.dst(), s.verdict.word()];
                    return format!("{src} {arrow} {dst} was {word} in its newest test, {}", age(s, now_ns));
                }
                let since = s.bad_since_ns.map_or(0, |at| now_ns.saturating_sub(at));
                format!(
                    "{} {} {} has been {} for {}",
                    s.src(),
                    s.arrow(),
                    s.dst(),
                    s.verdict.word(),
                    times::length(since)
                )
            });
            format!("{}.", said.collect::<Vec<_>>().join("; "))
        }
        many => format!("{} of {} streams are poor or bad.", many.len(), streams.len()),
    };
    if !silent.is_empty() {
        let silent = counted(silent.len(), "stream is", "streams are");
        let _ = write!(text, " {silent} silent: no new test for 3 times the usual interval.");
    }
    if !unknown.is_empty() {
        let unknown = counted(unknown.len(), "stream", "streams");
        let _ = write!(text, " {unknown}: nothing known yet.");
    }
    html! { p.headline.(class) { (text.trim_start()) } }
}

/// Renders the paths that have no test.
fn no_result(reports: &[ReportedSlot], choice: &OverviewChoice, now_ns: i64) -> Markup {
    let reports: Vec<&ReportedSlot> =
        reports.iter().filter(|report| choice.accepts_unmeasured(report)).collect();
    if reports.is_empty() {
        return Markup::default();
    }
    let rows = html! {
        thead {
            tr {
                @for column in ["from, to", "test", "for"] { th scope="col" { (column) } }
                th.words scope="col" { "reason" }
            }
        }
        tbody {
            @for report in reports.iter().take(MAX_LISTED) {
                tr {
                    th scope="row" { (report.client) " → " (report.server) }
                    td data-label="test" { (report.test) }
                    td data-label="for" { (times::length(now_ns.saturating_sub(report.since_ns))) }
                    td.words data-label="reason" { (report.reason) }
                }
            }
        }
    };
    html! {
        p.headline.poor { (counted(reports.len(), "path has", "paths have")) " no result yet." }
        (cards("Paths without a result", &rows))
        @if reports.len() > MAX_LISTED { p { "Not listed: " (reports.len() - MAX_LISTED) " more." } }
    }
}

fn attention(streams: &[&StreamNow], now_ns: i64) -> Markup {
    let mut wanted: Vec<&StreamNow> =
        streams.iter().copied().filter(|s| s.verdict.is_bad() || s.silent).collect();
    wanted.sort_by_key(|s| std::cmp::Reverse(s.rank()));
    html! {
        @if !wanted.is_empty() {
            h2 #attention { "Needs attention" }
            (table("Needs attention", &wanted, now_ns))
        }
    }
}

fn table(name: &str, streams: &[&StreamNow], now: i64) -> Markup {
    let rows = html! {
        thead {
            tr {
                @for column in ["from, to", "verdict", "bad since", "last test"] { th scope="col" { (column) } }
                @for column in ["headline", "packets"] { th.words scope="col" { (column) } }
            }
        }
        tbody { @for s in streams.iter().take(MAX_LISTED) { (row(s, now)) } }
    };
    html! {
        (cards(name, &rows))
        @if streams.len() > MAX_LISTED { p { (streams.len() - MAX_LISTED) " more are in the path matrix." } }
    }
}

fn row(s: &StreamNow, now: i64) -> Markup {
    let (class, sign, word) = s.shown();
    let since = s.bad_since_ns.map_or(String::new(), |at| {
        let least = if s.bad_tests_at_least { "at least " } else { "" };
        let tests = counted(s.bad_tests.try_into().unwrap_or(usize::MAX), "test", "tests");
        format!("{least}{} ({tests})", times::length(now.saturating_sub(at)))
    });
    html! {
        tr {
            th scope="row" title={(s.src()) " " (s.arrow()) " " (s.dst())} { a href=(s.address()) { (s.src()) " " (s.arrow()) " " (s.dst()) } }
            td.(class) data-label="verdict" { (badge(sign, word)) }
            td data-label="bad since" { (since) }
            td data-label="last test" { a href={"/test/" (s.test)} title=(utc(s.started_ns)) { (age(s, now)) } }
            td.words data-label="headline" { (said(s)) }
            td.words data-label="packets" { (described(&s.stream)) }
        }
    }
}

/// Returns the headline of the newest test; for a silent stream, why there is no newer one.
fn said(s: &StreamNow) -> String {
    match (&s.silence, s.silent) {
        (_, false) => s.headline.clone(),
        (Some(reason), true) => format!("No new result: {reason}"),
        (None, true) if s.verdict.is_bad() => format!("No new result; the last one: {}", s.headline),
        (None, true) => "No new result, and the reason is unknown".to_owned(),
    }
}

/// Renders a sign followed by a word.
pub fn badge(sign: &str, word: &str) -> Markup {
    html! { span.level { span aria-hidden="true" { (sign) } " " (word) } }
}

fn age(s: &StreamNow, now: i64) -> String {
    times::ago(s.started_ns, now)
}
