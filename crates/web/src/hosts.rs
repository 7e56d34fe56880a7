//! `/hosts`: clock, noise and system of each host; slots of the monitor that serves the page; tests pushed to collectors and
//! received from hosts.

use crate::now::badge;
use crate::numbers::time;
use crate::page::{self, PageTab, cards};
use crate::problem::Problem;
use crate::pushes;
use crate::routes::RouteRequest;
use crate::times;
use crate::verdict::TestVerdict;
use jitlat_archive::{Archive, CollectedHost, Newest, Pushed, TestId, utc};
use jitlat_core::clock::SyncState;
use jitlat_core::session::HostFacts;
use maud::{Markup, html};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Hosts of the archive, and the monitor that serves the page.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostsOverview {
    /// Time of this document, ns since 1970.
    pub now_ns: i64,
    /// Monitor that serves this document; null if there is none.
    pub monitor: Option<MonitorNow>,
    /// Every host that has tests, by address.
    pub hosts: Vec<HostNow>,
    /// Tests that the host of this archive pushes to collectors.
    pub pushes: Vec<Pushed>,
    /// Tests that other hosts have pushed to this archive.
    pub collected: Vec<CollectedHost>,
}

/// State of a monitor.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorNow {
    /// Name of the host in the monitor's file.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Time at which the monitor was started, ns since 1970.
    pub since_ns: i64,
    /// Number of tests that are running.
    pub running: u64,
    /// Share of the time since the start during which tests were running.
    pub busy: f64,
    /// Results of the slots of each test that the monitor starts.
    pub slots: Vec<SlotsNow>,
}

/// Slots of a repeated test with a far host.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotsNow {
    /// Name of the test.
    pub test: String,
    /// Name of the far host.
    pub far: String,
    /// Number of slots with a measurement.
    pub measured: u64,
    /// Slots that were missed or failed, by reason.
    pub lost: Vec<(String, u64)>,
}

/// A maintenance period in the monitor's file, during which no alert begins to fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedMaintenance {
    /// Hosts and tests to which it applies.
    pub about: String,
    /// Days, hours, start and end, in UTC.
    pub when: String,
}

/// Last published state of a monitor.
#[derive(Debug, Default)]
pub struct MonitorState {
    now: Mutex<Option<MonitorNow>>,
    maintenance: Mutex<Vec<PlannedMaintenance>>,
}

impl MonitorState {
    /// Publishes a new state.
    pub fn set(&self, now: MonitorNow) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Publishes the maintenance periods of the file.
    pub fn set_maintenance(&self, all: Vec<PlannedMaintenance>) {
        *self.maintenance.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    fn last(&self) -> Option<MonitorNow> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the maintenance periods of the file.
    pub(crate) fn maintenance(&self) -> Vec<PlannedMaintenance> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Error that the kernel reports for a clock that was never synchronised: its initial value, 16 s.
const NEVER_SYNCHRONISED_NS: i64 = 16_000_000_000;

/// State of a host, from the newest test that contains it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostNow {
    /// Address of the host.
    pub address: String,
    /// Name of the host; null if unknown.
    pub name: Option<String>,
    /// Labels of the host in the monitor's file, by name; `site` is one of them.
    pub labels: BTreeMap<String, String>,
    /// Number of streams that the host sends or receives.
    pub streams: u64,
    /// Number of the host's streams whose newest test is poor or bad.
    pub bad: u64,
    /// Number of the host's newest test.
    pub test: String,
    /// Start of the newest test, ns since 1970.
    pub started_ns: i64,
    /// Operating system and version of the kernel; null if unknown. For a host that only answers pings, this
    /// and all fields below are null.
    pub system: Option<String>,
    /// Clock source, as named by the kernel.
    pub clock_source: Option<String>,
    /// True if the kernel considered its clock synchronised, with a maximum error below its initial value of 16 s.
    pub synchronised: Option<bool>,
    /// Maximum error of the clock according to the host, ns; null if it is unknown, or the kernel's initial value.
    pub clock_error_ns: Option<i64>,
    /// Size of a clock step during the test, ns.
    pub clock_step_ns: Option<i64>,
    /// 99th percentile of the jitter added by the host itself, ns.
    pub noise_p99_ns: Option<i64>,
}

/// Data collected about a host.
struct HostSummary<'a> {
    name: Option<&'a str>,
    streams: u64,
    bad: u64,
    newest: &'a Newest,
    sends: bool,
}

/// Reads the overview.
pub fn read(archive: &Archive, asked: &RouteRequest, now_ns: i64) -> Result<HostsOverview, Problem> {
    let newest = archive.newest()?;
    let mut seen: BTreeMap<&str, HostSummary<'_>> = BTreeMap::new();
    for test in &newest {
        let ends = [(&test.stream.src, &test.src_name, true), (&test.stream.dst, &test.dst_name, false)];
        for (address, name, sends) in ends {
            let host = seen.entry(address).or_insert(HostSummary {
                name: name.as_deref(),
                streams: 0,
                bad: 0,
                newest: test,
                sends,
            });
            host.streams += 1;
            host.bad += u64::from(test.bad.is_some());
            if test.started_ns > host.newest.started_ns {
                (host.newest, host.sends) = (test, sends);
            }
        }
    }
    let hosts =
        seen.into_iter().map(|(address, seen)| host(archive, address, &seen)).collect::<Result<_, _>>()?;
    let mut hosts: Vec<HostNow> = hosts;
    let mut labels = archive.labels()?;
    for host in &mut hosts {
        host.labels = host.name.as_ref().and_then(|name| labels.remove(name)).unwrap_or_default();
    }
    let monitor = asked.app.monitor.as_ref().and_then(|state| state.last());
    Ok(HostsOverview { now_ns, monitor, hosts, pushes: archive.pushes()?, collected: archive.collected()? })
}

fn host(archive: &Archive, address: &str, seen: &HostSummary<'_>) -> Result<HostNow, Problem> {
    let newest: &Newest = seen.newest;
    let facts = facts(archive, newest.test, newest.stream.direction == "down", seen.sends)?;
    let (synchronised, clock_error_ns) = clock(facts.sync_after.as_ref().or(facts.sync_before.as_ref()));
    Ok(HostNow {
        address: address.to_owned(),
        name: facts.name.clone().or_else(|| seen.name.map(str::to_owned)),
        labels: BTreeMap::new(),
        streams: seen.streams,
        bad: seen.bad,
        test: newest.test.to_string(),
        started_ns: newest.started_ns,
        system: facts.system,
        clock_source: facts.clock_source,
        synchronised,
        clock_error_ns,
        clock_step_ns: facts.clock_step.map(|step| step.0),
        noise_p99_ns: facts.noise.map(|noise| noise.pdv_p99.0),
    })
}

/// Returns whether a clock is synchronised, and its maximum error in ns.
fn clock(state: Option<&SyncState>) -> (Option<bool>, Option<i64>) {
    let Some(state) = state else { return (None, None) };
    let error = Some(state.maximum_error.0).filter(|error| *error < NEVER_SYNCHRONISED_NS);
    (Some(state.synchronised && error.is_some()), error)
}

/// Returns the data of a test about its sender or receiver. The client is the sender, unless the direction is down.
fn facts(archive: &Archive, test: TestId, down: bool, sends: bool) -> Result<HostFacts, Problem> {
    let session = archive.session(test)?;
    Ok(if sends == down { session.server } else { session.client })
}

/// Renders the page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, asked, times::now())?))
}

fn write(all: &HostsOverview) -> String {
    let header = html! { p.what { "Clock, noise and system of each host, from its newest test" } };
    let main = html! {
        div data-live="hosts" {
            (headline(all))
            @if let Some(monitor) = &all.monitor { (of_monitor(monitor, all.now_ns)) }
            (pushes::tables(&all.pushes, &all.collected, all.now_ns))
            (table(all))
        }
    };
    page::page("Hosts", PageTab::Hosts, &header, &main).0
}

fn headline(all: &HostsOverview) -> Markup {
    let off: Vec<&str> = all.hosts.iter().filter(|h| h.synchronised == Some(false)).map(called).collect();
    let known = all.hosts.iter().filter(|h| h.synchronised.is_some()).count();
    let (class, text) = match &off[..] {
        _ if all.hosts.is_empty() => ("note", "The archive is empty.".to_owned()),
        [] if known == 0 => ("note", "The state of the hosts' clocks is unknown.".to_owned()),
        [] if known < all.hosts.len() => (
            "note",
            format!(
                "{known} of {} clocks are synchronised; the state of the others is unknown.",
                all.hosts.len()
            ),
        ),
        [] => ("good", "All clocks are synchronised.".to_owned()),
        few if few.len() <= 3 => ("poor", format!("Clocks not synchronised: {}.", few.join(", "))),
        many => ("poor", format!("{} clocks are not synchronised.", many.len())),
    };
    html! { p.headline.(class) { (text) } }
}

fn called(host: &HostNow) -> &str {
    host.name.as_deref().unwrap_or(&host.address)
}

fn of_monitor(monitor: &MonitorNow, now: i64) -> Markup {
    let lost = |slots: &SlotsNow| match &slots.lost[..] {
        [] => "none".to_owned(),
        lost => lost.iter().map(|(why, n)| format!("{n} {why}")).collect::<Vec<_>>().join(", "),
    };
    let rows = html! {
        thead {
            tr {
                @for column in ["test", "with", "measured"] { th scope="col" { (column) } }
                th.words scope="col" { "missed or failed" }
            }
        }
        tbody {
            @for slots in &monitor.slots {
                tr {
                    th scope="row" { (slots.test) }
                    td data-label="with" { (slots.far) }
                    td data-label="measured" { (slots.measured) }
                    td.words data-label="missed or failed" { (lost(slots)) }
                }
            }
        }
    };
    html! {
        h2 #monitor { "Monitor on " (monitor.host) }
        dl.counts {
            div { dt { "version" } dd { (monitor.version) } }
            div { dt { "running for" } dd { (times::length(now.saturating_sub(monitor.since_ns))) } }
            div { dt { "tests running" } dd { (monitor.running) } }
            div { dt { "busy with tests" } dd { (format!("{:.1}", monitor.busy * 100.0)) " % of the time" } }
        }
        @if monitor.slots.is_empty() {
            p { "None of its tests has been due yet." }
        } @else {
            (cards("Slots of the monitor", &rows))
        }
    }
}

fn table(all: &HostsOverview) -> Markup {
    let columns = [
        ("host", true),
        ("site, labels", true),
        ("clock", true),
        ("own jitter, p99", false),
        ("last test", false),
        ("streams", false),
        ("system", true),
    ];
    let rows = html! {
        thead { tr { @for (column, is_text) in columns { th.words[is_text] scope="col" { (column) } } } }
        tbody { @for host in &all.hosts { (row(host, all.now_ns)) } }
    };
    html! {
        h2 #hosts { "All hosts" }
        (cards("Hosts", &rows))
        p {
            "Clock and system are reported by the host itself. Own jitter is known if it was measured \
             before the test (" code { "--doctor" } "). Hosts that only answer pings report nothing."
        }
    }
}

/// Formats the site of a host, and its other labels.
fn labels(host: &HostNow) -> String {
    let site = host.labels.get("site").cloned();
    let others = host.labels.iter().filter(|(name, _)| *name != "site");
    let text: Vec<String> =
        site.into_iter().chain(others.map(|(name, value)| format!("{name}={value}"))).collect();
    if text.is_empty() { "–".to_owned() } else { text.join(", ") }
}

fn row(host: &HostNow, now: i64) -> Markup {
    let known = |ns: Option<i64>| ns.map_or("unknown".to_owned(), |ns| time(Some(ns)));
    let (verdict, word) = match host.synchronised {
        Some(true) => (TestVerdict::Good, "synchronised"),
        Some(false) => (TestVerdict::Poor, "not synchronised"),
        None => (TestVerdict::Unknown, "unknown"),
    };
    let step = host.clock_step_ns.filter(|step| step.abs() >= 1_000_000);
    let system = [&host.system, &host.clock_source];
    let system: Vec<&str> = system.into_iter().flatten().map(String::as_str).collect();
    html! {
        tr {
            th.words scope="row" title=(called(host)) { (called(host)) @if host.name.is_some() { " " small { (host.address) } } }
            td.words data-label="site, labels" { (labels(host)) }
            td.words.(verdict.word()) data-label="clock" {
                span {
                    (badge(verdict.sign(), word))
                    @if let Some(error) = host.clock_error_ns { " within " (time(Some(error))) }
                    @if let Some(step) = step { ", stepped by " (time(Some(step))) }
                }
            }
            td data-label="own jitter, p99" { (known(host.noise_p99_ns)) }
            td data-label="last test" {
                a href={"/test/" (host.test)} title=(utc(host.started_ns)) {
                    (times::ago(host.started_ns, now))
                }
            }
            td data-label="streams" { (host.streams) @if host.bad > 0 { " (" (host.bad) " poor or bad)" } }
            td.words data-label="system" { @if system.is_empty() { "unknown" } @else { (system.join(", ")) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::Span;

    #[test]
    fn a_clock_with_the_first_error_of_the_kernel_is_not_synchronised() {
        let state = |synchronised, error| SyncState {
            synchronised,
            offset: Span(0),
            estimated_error: Span(0),
            maximum_error: Span(error),
            frequency_ppb: 0,
        };
        assert_eq!(clock(Some(&state(true, 5_000_000))), (Some(true), Some(5_000_000)));
        assert_eq!(clock(Some(&state(true, 16_000_000_000))), (Some(false), None));
        assert_eq!(clock(Some(&state(false, 5_000_000))), (Some(false), Some(5_000_000)));
        assert_eq!(clock(None), (None, None));
    }
}
