//! The page of the report of a month. Printed, it has neither the form nor links.

use super::{MonthReport, PathMonth, chosen, report};
use crate::numbers::{share, time};
use crate::page::{self, PageTab, cards};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times;
use crate::zone::UTC;
use jitlat_archive::Archive;
use jitlat_verdict::PROFILES;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Renders the page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    let choice = chosen(archive, asked)?;
    let now = times::now();
    let all = report(archive, &choice, now)?;
    let labels = archive.labels()?;
    let sites: BTreeSet<&str> =
        labels.values().filter_map(|labels| labels.get("site")).map(String::as_str).collect();
    let title = format!("Report of {}", choice.month);
    let header = html! { p.what { (choice.hours_text()) } };
    let main = html! {
        (form(&choice, &sites))
        (headline(&all, now))
        (paths(&all, &choice))
        (worst(&all, &choice))
        (definitions(&all))
    };
    Ok(page::wide_page(&title, PageTab::Report, &choice.zone, &header, &main).0)
}

fn form(choice: &super::ReportChoice, sites: &BTreeSet<&str>) -> Markup {
    let (open, close) = choice.hours;
    html! {
        form.limits action="/sla" data-zone=(choice.zone.name) {
            label { "Month " input type="month" name="month" value=(choice.month) required; } " "
            label { "Hours from " input type="number" name="open" min="0" max="23" value=(open); } " "
            label { "to " input type="number" name="close" min="1" max="24" value=(close); } " "
            label { input type="checkbox" name="workdays" value="1" checked[choice.only_workdays]; " only Monday to Friday" } " "
            label { "Time zone "
                select name="zone" {
                    option value=(UTC) { (UTC) }
                    @if !choice.zone.is_utc() { option value=(choice.zone.name) selected { (choice.zone.name) } }
                }
            } " "
            label { "Targets of "
                select name="profile" {
                    @for known in &PROFILES { option value=(known.name) selected[known.name == choice.profile.name] { (known.name) } }
                }
            } " "
            label { "Available up to a loss of (%) " input type="number" name="lost" min="0" max="100" step="any" value=(choice.lost_percent); } " "
            label { "Host " input type="search" name="name" value=(choice.host) size="12"; } " "
            @if !sites.is_empty() {
                label { "Site "
                    select name="site" {
                        option value="" { "all" }
                        @for site in sites { option value=(site) selected[**site == choice.site] { (site) } }
                    }
                } " "
            }
            button { "Show" }
            " " a href={"/sla/csv" (choice.parameters())} { "CSV" }
            " " a href={"/sla" (choice.parameters())} data-link { "Link to this report" }
            " " button type="button" data-print hidden { "Print or save as PDF" }
        }
    }
}

fn headline(all: &MonthReport, now: i64) -> Markup {
    if all.from_ns > now {
        return html! { p.headline.note { "The month " (all.month) " has not begun." } };
    }
    if all.paths.is_empty() {
        return html! { p.headline.note { "No tests in these hours of the month." } };
    }
    // The mean over the paths, none of which has a test in more hours than there are.
    let measured = all.paths.iter().map(|path| path.measured).sum::<f64>() / all.paths.len() as f64;
    let met = |path: &&PathMonth| path.good_or_fair == Some(1.0);
    let whole = all.paths.iter().filter(met).count();
    let least = all.paths.iter().filter_map(|path| path.available).reduce(f64::min);
    let class = if whole == all.paths.len() && measured >= 1.0 { "good" } else { "note" };
    html! {
        p.headline.(class) {
            (whole) " of " (all.paths.len()) @if all.paths.len() == 1 { " path was" } @else { " paths were" }
            " good or fair in all tests with a verdict"
            @if let Some(least) = least { "; the lowest availability is " (percent(Some(least))) }
            @if measured < 1.0 { ", in " (percent(Some(measured))) " of the hours; the rest is unknown" }
            "."
        }
        @if all.unmeasured > 0 {
            p { (all.unmeasured) @if all.unmeasured == 1 { " further path has" } @else { " further paths have" } " tests, but none in these hours of the month." }
        }
        @if all.left_out > 0 { p { "Paths that are left out: " (all.left_out) ". Choose a host or a site." } }
    }
}

/// Formats a share that is near 100 %, with the digits that matter there: rounding never makes it 100 %.
fn percent(part: Option<f64>) -> String {
    match part {
        Some(part) if part > 0.99 && part < 1.0 => format!("{:.3} %", (part * 1e5).floor() / 1e3),
        part => share(part),
    }
}

fn paths(all: &MonthReport, choice: &super::ReportChoice) -> Markup {
    let columns = [
        "path",
        "tests",
        "hours with tests",
        "available",
        "good or fair",
        "loss target met",
        "delay target met",
        "lost",
        "p99 delay",
        "p99 jitter",
    ];
    let ns = |value: Option<f64>| time(value.map(|ns| ns as i64));
    let rows = html! {
        thead { tr { @for column in columns { th scope="col" { (column) } } } }
        tbody {
            @for path in &all.paths {
                @let arrow = if path.round_trip { "⇄" } else { "→" };
                @let values = [
                    path.tests.to_string(),
                    percent(Some(path.measured)),
                    percent(path.available),
                    percent(path.good_or_fair),
                    percent(path.loss_met),
                    percent(path.delay_met),
                    share(path.loss),
                    ns(path.delay_p99_ns),
                    ns(path.jitter_p99_ns),
                ];
                tr {
                    th.words scope="row" {
                        a href=(address(path, choice)) { (path.src) " " (arrow) " " (path.dst) } " " small { (path.packets) }
                    }
                    @for (column, value) in columns.iter().skip(1).zip(&values) { td data-label=(column) { (value) } }
                }
            }
        }
    };
    html! { @if !all.paths.is_empty() { h2 #paths { "Paths" } (cards("Paths", &rows)) } }
}

fn address(path: &PathMonth, choice: &super::ReportChoice) -> String {
    let [src, dst] = path.addresses.each_ref().map(|host| page::encoded(host));
    let (from, to) = (times::address(choice.span.0), times::address(choice.span.1));
    format!(
        "/path/{src}/{dst}?stream={}&zone={}&from={from}&to={to}",
        path.stream,
        page::encoded(&choice.zone.name)
    )
}

fn worst(all: &MonthReport, choice: &super::ReportChoice) -> Markup {
    let columns = ["hour", "path", "tests", "poor or bad", "largest loss", "largest p99 jitter"];
    let rows = html! {
        thead { tr { @for column in columns { th scope="col" { (column) } } } }
        tbody {
            @for hour in &all.worst_hours {
                tr {
                    th scope="row" { a href=(hour.address) { (choice.zone.text(hour.start_ns).chars().take(16).collect::<String>()) } }
                    td data-label="path" { (hour.src) " → " (hour.dst) }
                    td data-label="tests" { (hour.tests) }
                    td data-label="poor or bad" { (hour.bad) }
                    td data-label="largest loss" { (share(hour.loss)) }
                    td data-label="largest p99 jitter" { (time(hour.jitter_p99_ns.map(|ns| ns as i64))) }
                }
            }
        }
    };
    html! { @if !all.worst_hours.is_empty() { h2 #worst { "Worst hours" } (cards("Worst hours", &rows)) } }
}

fn definitions(all: &MonthReport) -> Markup {
    html! {
        h2 #definitions { "Definitions" }
        ul {
            li { "Hours with tests: of the " (all.hours) " hours that count and have begun, those with a test. The state of the path in the other hours is unknown." }
            li { "Available: tests that lost at most " (share(Some(all.unavailable_loss))) " of their packets." }
            li { "Good or fair: tests with this verdict, of those with a verdict." }
            li { "Loss target met: tests that lost at most " (share(Some(all.loss_target))) ", the limit of fair for " (all.profile) "." }
            li {
                "Delay target met: tests whose 99th percentile of the delay is at most " (time(Some(all.delay_target_ns as i64)))
                ", the limit of fair for " (all.profile) " without the time in the application; for round trips twice as much. One-way delays include the \
                 difference of the two hosts' clocks."
            }
            li { "Delay and jitter: medians of the tests' 99th percentiles." }
        }
    }
}
