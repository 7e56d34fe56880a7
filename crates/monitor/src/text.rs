//! Formats the plan and its outcome for people.

use crate::agenda::{EndingCounts, Missed, SlotEnding, SlotFailure};
use crate::file::text_of;
use crate::plan::HostPlan;
use crate::{Model, MonitorPlan, Timetable};
use jitlat_core::WallTime;
use jitlat_core::units::utc_date;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Maximum number of next tests that are listed.
const MAX_LISTED_TESTS: usize = 12;

/// Formats the message for a file without faults.
pub fn checked(path: &Path, model: &Model) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let pairs = model.tests.iter().map(|t| t.pairs.list.len()).sum();
    let mut parts = vec![count(model.hosts.len(), "host")];
    if !model.tests.is_empty() {
        parts.push(format!("{} of {} in total", count(model.tests.len(), "test"), count(pairs, "pair")));
    }
    if !model.captures.is_empty() {
        parts.push(count(model.captures.len(), "capture"));
    }
    format!("{}: {}: no faults\n", path.display(), parts.join(", "))
}

/// Formats the plan, with the next tests of `host` from `now` on.
pub fn plan(
    model: &Model,
    timetable: &Timetable,
    plan: &MonitorPlan,
    host: Option<usize>,
    now: WallTime,
) -> String {
    let mut out = match plan.captures.is_empty() || !plan.tests.is_empty() {
        true => tests(plan) + "\n",
        false => String::new(),
    };
    if !plan.captures.is_empty() {
        out += &(captures(plan) + "\n");
    }
    out += &(hosts(plan, host) + &collectors(model, plan));
    for shortfall in &plan.shortfalls {
        let _ = write!(out, "\n! {shortfall}\n");
    }
    if let Some(host) = host {
        out += &next(model, timetable, host, now);
    }
    out
}

fn seconds(s: f64) -> String {
    text_of((s * 1e9).round() as i64)
}

fn tests(plan: &MonitorPlan) -> String {
    let names = width(plan.tests.iter().map(|t| t.name.as_str()), 4);
    let mut out = format!(
        "{:<names$} {:>10} {:>9} {:>7} {:>8} {:>8} {:>9} {:>11}\n",
        "test", "instrument", "pairs", "rounds", "slot", "every", "really", "tests/day"
    );
    for test in &plan.tests {
        let really = test.between_s.map_or_else(|| "never".to_owned(), |s| seconds(s.round()));
        let _ = writeln!(
            out,
            "{:<names$} {:>10} {:>9} {:>7} {:>8} {:>8} {:>9} {:>11.0}",
            test.name,
            test.instrument,
            test.pairs,
            test.rounds,
            seconds(test.slot_s),
            seconds(test.every_s),
            really,
            test.tests_a_day
        );
    }
    out
}

fn captures(plan: &MonitorPlan) -> String {
    let names = width(plan.captures.iter().map(|c| c.name.as_str()), 7);
    let mut out = format!(
        "{:<names$} {:>10} {:>12} {:>12} {:>12} {:>12} {:>8} {:>11} {:>8}\n",
        "capture",
        "instrument",
        "at",
        "interface",
        "towards",
        "interface",
        "every",
        "results/day",
        "B/packet"
    );
    for capture in &plan.captures {
        for host in &capture.hosts {
            let _ = writeln!(
                out,
                "{:<names$} {:>10} {:>12} {:>12} {:>12} {:>12} {:>8} {:>11.0} {:>8.0}",
                capture.name,
                capture.instrument,
                host,
                capture.interface,
                if capture.far_interface.as_ref() == Some(&capture.far) || capture.far == capture.interface {
                    "-"
                } else {
                    &capture.far
                },
                capture.far_interface.as_deref().unwrap_or("-"),
                seconds(capture.every_s),
                capture.results_a_day,
                capture.archive_bytes_a_packet
            );
        }
    }
    out
}

fn hosts(plan: &MonitorPlan, host: Option<usize>) -> String {
    let chosen: Vec<&HostPlan> =
        plan.hosts.iter().enumerate().filter(|(k, _)| host.is_none_or(|h| h == *k)).map(|(_, h)| h).collect();
    let names = width(chosen.iter().map(|h| h.name.as_str()), 4);
    let mut out = format!(
        "{:<names$} {:>9} {:>9} {:>10} {:>10} {:>11} {:>11} {:>10} {:>6}\n",
        "host", "starts", "answers", "sends", "receives", "peak out", "peak in", "archive", "load"
    );
    let _ = writeln!(
        out,
        "{:<names$} {:>9} {:>9} {:>10} {:>10} {:>11} {:>11} {:>10} {:>6}",
        "", "a day", "a day", "a day", "a day", "bit/s", "bit/s", "a day", ""
    );
    for host in chosen {
        let _ = writeln!(
            out,
            "{:<names$} {:>9.0} {:>9.0} {:>10} {:>10} {:>11} {:>11} {:>10} {:>5.1}%",
            host.name,
            host.started_a_day,
            host.answered_a_day,
            bytes(host.bytes_out_a_day),
            bytes(host.bytes_in_a_day),
            scaled(host.peak_out_bits as f64),
            scaled(host.peak_in_bits as f64),
            bytes(host.archive_bytes_a_day),
            100.0 * host.load
        );
    }
    out
}

/// Describes the traffic to each collector.
fn collectors(model: &Model, plan: &MonitorPlan) -> String {
    if model.collectors.is_empty() {
        return String::new();
    }
    let name = |k: usize| model.hosts[k].name.as_str();
    let names = width(model.collectors.iter().map(|c| name(c.host)), 9);
    let mut out =
        format!("\n{:<names$} {:>11} {:>11} {:>11}\n", "collector", "from hosts", "tests/day", "bytes/day");
    for collector in &model.collectors {
        let of = |k: &usize| &plan.hosts[*k];
        let sum = |figure: fn(&HostPlan) -> f64| collector.from.iter().map(of).map(figure).sum::<f64>();
        // A host sends the same amount to each of its collectors.
        let shares = |k: &usize| model.collectors.iter().filter(|c| c.from.contains(k)).count().max(1) as f64;
        let sent = collector.from.iter().map(|k| of(k).pushed_bytes_a_day / shares(k)).sum();
        let _ = writeln!(
            out,
            "{:<names$} {:>11} {:>11.0} {:>11}",
            name(collector.host),
            collector.from.len(),
            sum(|host| host.started_a_day),
            bytes(sent)
        );
    }
    out
}

/// Lists the next tests that a host takes part in.
fn next(model: &Model, timetable: &Timetable, host: usize, now: WallTime) -> String {
    let mut list: Vec<(WallTime, &str, &str, &str)> = Vec::new();
    for (test, scheduled) in model.tests.iter().zip(&timetable.tests) {
        let Some(first) = scheduled.first_from(now) else { continue };
        let (mut found, mut p) = (0, first);
        // A host may take part in only a few of many rounds.
        while found < MAX_LISTED_TESTS
            && p < first + 2 * scheduled.rounds.len() as i64 + MAX_LISTED_TESTS as i64
        {
            for pair in scheduled.pairs_of(p) {
                let (role, far) = match host as u32 {
                    h if pair.client() == h => ("starts", pair.server()),
                    h if pair.server() == h => ("answers", pair.client()),
                    _ => continue,
                };
                if let Some(at) = scheduled.starts(p, pair) {
                    list.push((at, role, model.end(test, far), &test.name));
                    found += 1;
                }
            }
            p += 1;
        }
    }
    list.sort_unstable();
    list.truncate(MAX_LISTED_TESTS);
    let far = width(list.iter().map(|row| row.2), 4);
    let rows = list.iter().map(|(at, role, with, test)| {
        let at = utc_date(*at);
        format!("{at}  {role:<7}  {with:<far$}  {test}\n")
    });
    format!("\nnext tests of {} (UTC)\n{}", model.hosts[host].name, rows.collect::<String>())
}

/// Formats the outcomes of the slots of each test with each far host, as a table.
pub fn counts(counts: &BTreeMap<(String, String), EndingCounts>) -> String {
    if counts.is_empty() {
        return "none of the tests that this host starts has been due\n".to_owned();
    }
    let (tests, fars) = (
        width(counts.keys().map(|(test, _)| test.as_str()), 4),
        width(counts.keys().map(|(_, far)| far.as_str()), 4),
    );
    let mut out = format!("{:<tests$}  {:<fars$} {:>9}  not measured\n", "test", "with", "measured");
    for ((test, far), counts) in counts {
        let others: Vec<String> = counts
            .all()
            .filter(|(ending, _)| !matches!(ending, SlotEnding::Measured { .. }))
            .map(|(e, n)| format!("{n} {}", ending(e)))
            .collect();
        let others = if others.is_empty() { "-".to_owned() } else { others.join(", ") };
        let _ = writeln!(out, "{test:<tests$}  {far:<fars$} {:>9}  {others}", counts.measured());
    }
    out
}

/// Returns the text for the outcome of a slot.
pub fn ending(ending: SlotEnding) -> &'static str {
    match ending {
        SlotEnding::Measured { cut: false } => "measured",
        SlotEnding::Measured { cut: true } => "cut short",
        SlotEnding::Failed(kind) => failure(kind),
        SlotEnding::Missed(reason) => missed(reason),
    }
}

/// Returns the text for the failure of a test.
pub fn failure(failure: SlotFailure) -> &'static str {
    match failure {
        SlotFailure::Unreachable => "unreachable",
        SlotFailure::Refused => "refused",
        SlotFailure::TooSlow => "too slow for its slot",
        SlotFailure::NotStored => "not stored",
        SlotFailure::Nothing => "no traffic",
        SlotFailure::Other => "failed",
    }
}

/// Returns the text for the reason why a test was not started.
pub fn missed(missed: Missed) -> &'static str {
    match missed {
        Missed::Late => "this host was late",
        Missed::Busy => "an earlier test was still running",
        Missed::ClockStep => "the clock was set past its start",
    }
}

fn width<'a>(names: impl Iterator<Item = &'a str>, least: usize) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(least, 32)
}

fn bytes(n: f64) -> String {
    scaled(n) + "B"
}

/// Formats a number with three digits and an SI prefix.
fn scaled(n: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P"];
    let (mut n, mut k) = (n, 0);
    while n >= 999.5 && k + 1 < prefixes.len() {
        n /= 1000.0;
        k += 1;
    }
    let digits = if k == 0 || n >= 99.95 { 0 } else { usize::from(n < 99.95) + usize::from(n < 9.995) };
    format!("{n:.digits$} {}", prefixes[k])
}
