//! `/sla`: report of a month: for each path availability, targets met and the worst hours, within business hours.
//!
//! * `choice` – month, hours, paths and targets, from the parameters of the address
//! * `view` – the page, which is also made for paper; `csv` – the same as a table for a spreadsheet

mod choice;
mod csv;
mod view;

pub use csv::csv;
pub use view::page;

use self::choice::ReportChoice;
use crate::now::{described, shared_names};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, CalendarUnit};
use crate::verdict::TestVerdict;
use jitlat_archive::{Archive, Newest, TestFigures};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures that are read for each test.
const FIGURES: [&str; 4] = ["loss", "sent", "latency-p99", "pdv-p99"];
/// Maximum number of paths in a report.
const MAX_PATHS: usize = 500;
/// Maximum number of tests that are read for a report.
const MAX_TESTS: u64 = 3_000_000;
/// Maximum number of worst hours in a report.
const WORST_HOURS: usize = 10;

/// Report of a month.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonthReport {
    /// Month, such as `2026-11`.
    pub month: String,
    /// Time zone of the month and the hours.
    pub zone: String,
    /// Start of the month, ns since 1970.
    pub from_ns: i64,
    /// End of the month, ns since 1970.
    pub to_ns: i64,
    /// First hour of a day that counts, 0 to 23.
    pub open: i8,
    /// First hour of a day that no longer counts, 1 to 24.
    pub close: i8,
    /// True if only Monday to Friday count.
    pub only_workdays: bool,
    /// Number of hours that count and have begun.
    pub hours: u64,
    /// Profile whose limits are the targets.
    pub profile: String,
    /// Target: largest 99th percentile of the delay, ns.
    pub delay_target_ns: f64,
    /// Target: largest share of lost packets.
    pub loss_target: f64,
    /// Share of lost packets above which a path counts as not available during a test.
    pub unavailable_loss: f64,
    /// Paths with tests in the hours that count, by names; at most 500.
    pub paths: Vec<PathMonth>,
    /// Number of further paths that have tests, but none in the hours that count.
    #[serde(skip)]
    pub unmeasured: u64,
    /// Number of further paths that were left out, because the report would take too long.
    pub left_out: u64,
    /// The worst hours of all paths, at most 10.
    pub worst_hours: Vec<WorstHour>,
}

/// A path in a month, within the hours that count.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathMonth {
    /// Number of the stream in this archive.
    pub stream: i64,
    /// Sender: its name, or its address; both if several hosts have the name.
    pub src: String,
    /// Receiver: its name, or its address; both if several hosts have the name.
    pub dst: String,
    /// Addresses of sender and receiver.
    #[serde(skip)]
    pub addresses: [String; 2],
    /// Packets of the tests.
    pub packets: String,
    /// True if delays are round trips.
    pub round_trip: bool,
    /// Number of tests.
    pub tests: u64,
    /// Share of the hours that have a test.
    pub measured: f64,
    /// Share of the tests with a known loss during which the path was available; null without such tests.
    pub available: Option<f64>,
    /// Share of the tests with a verdict whose verdict is good or fair; null without such tests.
    pub good_or_fair: Option<f64>,
    /// Share of the tests with a known loss that meet the target of loss.
    pub loss_met: Option<f64>,
    /// Share of the tests with a known delay that meet the target of delay. One-way delays include the clock offset.
    pub delay_met: Option<f64>,
    /// Share of all packets that were lost.
    pub loss: Option<f64>,
    /// Median of the tests' 99th percentiles of the delay, as measured, ns.
    pub delay_p99_ns: Option<f64>,
    /// Median of the tests' 99th percentiles of the jitter, ns.
    pub jitter_p99_ns: Option<f64>,
}

/// An hour in which tests of a path were poor or bad, or packets were lost.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstHour {
    /// Sender: its name, or its address; both if several hosts have the name.
    pub src: String,
    /// Receiver: its name, or its address; both if several hosts have the name.
    pub dst: String,
    /// Address of the page of the path in this hour.
    pub address: String,
    /// Start of the hour, ns since 1970.
    pub start_ns: i64,
    /// Number of tests.
    pub tests: u64,
    /// Number of tests that were poor or bad.
    pub bad: u64,
    /// Largest loss of a test; null if unknown.
    pub loss: Option<f64>,
    /// Largest 99th percentile of the jitter of a test, ns; null if unknown.
    pub jitter_p99_ns: Option<f64>,
}

/// Counts of tests that meet a condition, of those for which it is known.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    met: u64,
    known: u64,
}

impl Met {
    fn add(&mut self, is_met: Option<bool>) {
        self.known += u64::from(is_met.is_some());
        self.met += u64::from(is_met == Some(true));
    }

    fn share(self) -> Option<f64> {
        (self.known > 0).then(|| self.met as f64 / self.known as f64)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Returns a text that changes whenever a report may change: with the tests of the archive, and with the current hour.
pub fn version(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    Ok(format!("{:?} {}", archive.extent()?, times::now() / times::HOUR))
}

/// Reads the report.
pub fn read(archive: &Archive, asked: &RouteRequest, now: i64) -> Result<MonthReport, Problem> {
    report(archive, &chosen(archive, asked)?, now)
}

fn chosen(archive: &Archive, asked: &RouteRequest) -> Result<ReportChoice, Problem> {
    let now = times::now();
    ReportChoice::new(&asked.query, archive.extent()?.last_ns.unwrap_or(now), now)
}

fn report(archive: &Archive, choice: &ReportChoice, now: i64) -> Result<MonthReport, Problem> {
    let hours = choice.open_hours(now);
    let labels = archive.labels()?;
    let site =
        |host: &str| labels.get(host).and_then(|labels| labels.get("site")).cloned().unwrap_or_default();
    let name = |name: &Option<String>, address: &String| name.clone().unwrap_or_else(|| address.clone());
    let (mut paths, mut worst_hours) = (Vec::new(), Vec::new());
    let (mut left_out, mut unmeasured, mut read) = (0, 0, 0);
    let wanted = choice.host.to_lowercase();
    let all_newest = archive.newest()?;
    let shared = shared_names(all_newest.iter().flat_map(|newest| {
        [(newest.src_name.as_deref(), &*newest.stream.src), (newest.dst_name.as_deref(), &*newest.stream.dst)]
    }));
    for newest in all_newest {
        let ends = [name(&newest.src_name, &newest.stream.src), name(&newest.dst_name, &newest.stream.dst)];
        let all = [&ends[0], &ends[1], &newest.stream.src, &newest.stream.dst];
        let is_named = all.iter().any(|end| end.to_lowercase().contains(&wanted));
        let is_of_site = choice.site.is_empty() || ends.iter().any(|end| site(end) == choice.site);
        if !is_named || !is_of_site {
            continue;
        }
        let tests = archive.tests_between(newest.stream_id, choice.span.0, choice.span.1)?;
        if tests == 0 {
            unmeasured += 1;
            continue;
        }
        read += tests;
        if paths.len() >= MAX_PATHS || read > MAX_TESTS {
            left_out += 1;
            continue;
        }
        let apart = |name: String, address: &str| {
            if shared.contains(&name) { format!("{name} ({address})") } else { name }
        };
        let [src, dst] = ends;
        let ends = [apart(src, &newest.stream.src), apart(dst, &newest.stream.dst)];
        let (path, hours) = path(archive, choice, &newest, ends, hours.len())?;
        if path.tests > 0 {
            paths.push(path);
        } else {
            unmeasured += 1;
        }
        worst_hours.extend(hours);
    }
    paths.sort_by(|a: &PathMonth, b| (&a.src, &a.dst, a.stream).cmp(&(&b.src, &b.dst, b.stream)));
    rank(&mut worst_hours);
    Ok(MonthReport {
        month: choice.month.clone(),
        zone: choice.zone.name.clone(),
        from_ns: choice.span.0,
        to_ns: choice.span.1,
        open: choice.hours.0,
        close: choice.hours.1,
        only_workdays: choice.only_workdays,
        hours: hours.len() as u64,
        profile: choice.profile.name.to_string(),
        delay_target_ns: delay_target(choice),
        loss_target: choice.profile.missing[1],
        unavailable_loss: choice.lost_percent / 100.0,
        paths,
        unmeasured,
        left_out,
        worst_hours,
    })
}

/// Returns the largest delay, in ns, that is fair for the profile: its limit without the time in the application itself.
fn delay_target(choice: &ReportChoice) -> f64 {
    (choice.profile.delay_ms[1] - choice.profile.own_ms).max(0.0) * 1e6
}

/// Sorts hours, the worst first, and removes all but the first.
fn rank(hours: &mut Vec<WorstHour>) {
    let share = |hour: &WorstHour| hour.bad as f64 / hour.tests.max(1) as f64;
    let loss = |hour: &WorstHour| hour.loss.unwrap_or(0.0);
    hours.sort_by(|a, b| {
        share(b).total_cmp(&share(a)).then(loss(b).total_cmp(&loss(a))).then(a.start_ns.cmp(&b.start_ns))
    });
    hours.truncate(WORST_HOURS);
}

/// Reads a path, and its worst hours.
fn path(
    archive: &Archive,
    choice: &ReportChoice,
    newest: &Newest,
    [src, dst]: [String; 2],
    open_hours: usize,
) -> Result<(PathMonth, Vec<WorstHour>), Problem> {
    let tests = archive.tests_with_figures(newest.stream_id, &FIGURES, choice.span)?;
    let (mut available, mut good, mut loss_met, mut delay_met) = <(Met, Met, Met, Met)>::default();
    let (mut sent_in_all, mut lost_in_all, mut count) = (0.0, 0.0, 0u64);
    let (mut delays, mut jitters) = (Vec::new(), Vec::new());
    let mut hours: BTreeMap<i64, WorstHour> = BTreeMap::new();
    let is_round_trip = newest.stream.direction == "both";
    // A round trip has twice the time of one direction.
    let delay_target = delay_target(choice) * if is_round_trip { 2.0 } else { 1.0 };
    for TestFigures { started_ns: at, severity, values: [loss, sent, delay, jitter] } in tests {
        if !choice.is_open(at) {
            continue;
        }
        count += 1;
        let verdict = TestVerdict::named(&severity);
        available.add(loss.map(|loss| loss <= choice.lost_percent / 100.0));
        good.add((verdict != TestVerdict::Unknown).then(|| !verdict.is_bad()));
        loss_met.add(loss.map(|loss| loss <= choice.profile.missing[1]));
        delay_met.add(delay.map(|delay| delay <= delay_target));
        if let (Some(loss), Some(sent)) = (loss, sent) {
            sent_in_all += sent;
            lost_in_all += loss * sent;
        }
        delays.extend(delay);
        jitters.extend(jitter);
        let (start_ns, end_ns) = CalendarUnit::Hour.around(at, &choice.zone);
        let hour = hours.entry(start_ns).or_insert_with(|| WorstHour {
            src: src.clone(),
            dst: dst.clone(),
            address: address(newest, choice, (start_ns, end_ns)),
            start_ns,
            tests: 0,
            bad: 0,
            loss: None,
            jitter_p99_ns: None,
        });
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        hour.tests += 1;
        hour.bad += u64::from(verdict.is_bad());
        (hour.loss, hour.jitter_p99_ns) = (larger(hour.loss, loss), larger(hour.jitter_p99_ns, jitter));
    }
    let measured = hours.len() as f64 / open_hours.max(hours.len()).max(1) as f64;
    let mut worst: Vec<WorstHour> =
        hours.into_values().filter(|hour| hour.bad > 0 || hour.loss.is_some_and(|loss| loss > 0.0)).collect();
    rank(&mut worst);
    let path = PathMonth {
        stream: newest.stream_id,
        src,
        dst,
        addresses: [newest.stream.src.clone(), newest.stream.dst.clone()],
        packets: described(&newest.stream),
        round_trip: is_round_trip,
        tests: count,
        measured,
        available: available.share(),
        good_or_fair: good.share(),
        loss_met: loss_met.share(),
        delay_met: delay_met.share(),
        loss: (sent_in_all > 0.0).then(|| lost_in_all / sent_in_all),
        delay_p99_ns: median(delays),
        jitter_p99_ns: median(jitters),
    };
    Ok((path, worst))
}

/// Returns the address of the page of a path in a period.
fn address(newest: &Newest, choice: &ReportChoice, (from, to): (i64, i64)) -> String {
    let [src, dst] = [&newest.stream.src, &newest.stream.dst].map(|host| crate::page::encoded(host));
    let zone = crate::page::encoded(&choice.zone.name);
    let (from, to) = (times::address(from), times::address(to));
    format!("/path/{src}/{dst}?stream={}&zone={zone}&from={from}&to={to}", newest.stream_id)
}
