//! [`CheckupReport`]: a [`Checkup`] of a host as text and JSON.

use crate::error::Result;
use crate::report::{PROGRAM, Report};
use jitlat_core::NoiseFloor;
use jitlat_core::clock::{AdapterClock, AdapterTimescale};
use jitlat_core::summary::Level;
use jitlat_core::units::{eng4, eng4_f64};
use jitlat_instruments::doctor::{Baseline, Checkup, Finding};
use jitlat_report::text::{Page, TextOptions, count};
use serde::Serialize;
use serde_json::Value;

/// Report of a checkup and its findings.
pub struct CheckupReport<'a> {
    /// Result of the checkup.
    pub checkup: &'a Checkup,
    /// Findings of the checkup.
    pub findings: &'a [Finding],
}

impl CheckupReport<'_> {
    /// Returns the whole report. The verdict comes last, so that it is visible after the report has scrolled by.
    pub fn page(&self, options: &TextOptions) -> String {
        page(self.checkup, self.findings, options)
    }
}

impl Report for CheckupReport<'_> {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(DoctorDocument::new(self.checkup, self.findings))?)
    }
}

fn page(c: &Checkup, findings: &[Finding], options: &TextOptions) -> String {
    let mut page = Page::new(options);
    let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "-".to_owned());
    page.line(&format!(
        "{}, {}: is it fit for tests with {} bytes every {}?",
        text(&c.host.name),
        text(&c.host.system),
        c.question.payload,
        eng4(c.question.period.0)
    ));
    clock(&mut page, c);
    waking(&mut page, c);
    page.heading("Over its own loopback");
    baseline(&mut page, "one way", &c.one_way);
    baseline(&mut page, "round trip", &c.two_way);
    processors(&mut page, c);
    interfaces(&mut page, c);
    privileges(&mut page, c);
    page.heading("Findings");
    for finding in findings {
        page.finding(finding.level, &finding.text);
        if let Some(change) = &finding.change {
            page.line(&format!("      -> {change}"));
        }
    }
    page.blank();
    page.line(verdict(findings));
    page.finish()
}

fn verdict(findings: &[Finding]) -> &'static str {
    match findings.iter().map(|f| f.level).max() {
        Some(Level::Bad) => "Do not measure with this host until the problems rated bad are fixed.",
        Some(Level::Poor) => {
            "This host affects its measurements: fix the problems rated poor, or test with --doctor, which states the host's share."
        }
        Some(Level::Note) => "This host is fit for measurements, down to its noise floor.",
        _ => "This host is fit for measurements.",
    }
}

fn clock(page: &mut Page, c: &Checkup) {
    page.heading("Clock");
    for (name, r) in [("wall", &c.wall_clock), ("steady", &c.steady_clock)] {
        let resolution = r.resolution.map_or_else(|| "-".to_owned(), |s| eng4(s.0));
        page.item(&format!(
            "{name}: a reading takes {}, 99.9 % {}, at most {}; resolution {resolution}; stalls above 100 us: {} in {}, \
             {} in all",
            eng4(r.p50.0),
            eng4(r.p999.0),
            eng4(r.max.0),
            r.stalls,
            eng4(r.watched.0),
            eng4(r.stalled.0)
        ));
    }
    let others: Vec<&str> = c
        .machine
        .clock_sources
        .iter()
        .map(String::as_str)
        .filter(|s| c.machine.clock_source.as_deref() != Some(s))
        .collect();
    page.item(&format!(
        "clock source {}{}",
        c.machine.clock_source.as_deref().unwrap_or("unknown"),
        if others.is_empty() { String::new() } else { format!(", also available: {}", others.join(", ")) }
    ));
}

fn waking(page: &mut Page, c: &Checkup) {
    page.heading("Waking up");
    page.line("    wait             period  deadlines        50 %        99 %         max");
    for w in &c.wake {
        page.line(&format!(
            "    {:<13} {:>9} {:>10} {:>11} {:>11} {:>11}",
            format!("{}{}", w.mode, if w.realtime { ", FIFO" } else { "" }),
            eng4(w.period.0),
            w.deadlines,
            eng4(w.p50.0),
            eng4(w.p99.0),
            eng4(w.max.0)
        ));
    }
}

fn baseline(page: &mut Page, name: &str, b: &Result<Baseline, String>) {
    let b = match b {
        Ok(b) => b,
        Err(e) => return page.item(&format!("{name}: {e}")),
    };
    let t = |v: Option<i64>| v.map_or_else(|| "-".to_owned(), eng4);
    page.item(&format!(
        "{name}: {} of {} packets; fastest {}, above that 50 % {}, 99 % {}, 100 % {}; std dev {}; {} stamps",
        b.received,
        b.sent,
        t(b.min),
        t(b.pdv_p50),
        t(b.pdv_p99),
        t(b.pdv_max),
        b.stddev.map_or_else(|| "-".to_owned(), eng4_f64),
        if b.kernel_stamps { "kernel" } else { "user" }
    ));
}

fn processors(page: &mut Page, c: &Checkup) {
    let m = &c.machine;
    page.heading("Processors and sockets");
    let mut facts = vec![format!("{} for this program", count(m.cpus as u64, "processor"))];
    facts.extend(m.model.clone());
    facts.extend(m.smt.map(|on| format!("SMT {}", if on { "on" } else { "off" })));
    facts.extend(m.isolated.as_ref().map(|l| format!("isolated {l}")));
    facts.extend(m.virtual_machine.as_ref().map(|v| format!("virtual machine ({v})")));
    facts.extend(m.container.as_ref().map(|v| format!("container ({v})")));
    facts.extend(m.realtime_kernel.then(|| "PREEMPT_RT".to_owned()));
    page.item(&facts.join("; "));
    let mut facts: Vec<String> = Vec::new();
    facts.extend(m.load.map(|l| format!("load {l:.2}")));
    facts.extend(m.cpu_pressure.map(|p| format!("waiting {p:.0} %")));
    let governors: Vec<&str> = m.governors.keys().map(String::as_str).collect();
    facts.push(format!(
        "governor {}",
        if governors.is_empty() { "none".to_owned() } else { governors.join(", ") }
    ));
    let deepest = m.idle_states.last().map(|s| format!("{} ({} us to wake up)", s.name, s.exit_us));
    facts.push(format!("deepest idle state {}", deepest.unwrap_or_else(|| "unknown".to_owned())));
    facts.extend(m.timer_slack.map(|ns| format!("timer slack {} (set to 1 ns in tests)", eng4(ns as i64))));
    page.item(&facts.join("; "));
    let bytes = |v: Option<u64>| v.map_or_else(|| "-".to_owned(), |v| format!("{} KiB", v / 1024));
    page.item(&format!(
        "socket buffers: tests get {} to receive and {} to send; limits {} and {}",
        bytes(c.sockets.receive),
        bytes(c.sockets.send),
        bytes(c.sockets.rmem_max),
        bytes(c.sockets.wmem_max)
    ));
}

/// Describes an adapter's clock.
fn adapter_clock(clock: &AdapterClock) -> String {
    let name = format!("clock ptp{}", clock.device);
    if !clock.is_usable() {
        return format!("{name} not set (neither UTC nor TAI)");
    }
    let scale = if clock.timescale == AdapterTimescale::Tai { ", on TAI" } else { "" };
    format!("{name} {} from the system clock, +/- {}{scale}", eng4(clock.offset.0), eng4(clock.bound.0))
}

fn interfaces(page: &mut Page, c: &Checkup) {
    if c.interfaces.is_empty() {
        return;
    }
    page.heading("Interfaces");
    for i in &c.interfaces {
        let mut facts = Vec::new();
        facts.extend(i.driver.clone());
        facts.extend(i.speed.map(|s| format!("{s} Mbit/s")));
        facts.push(match i.stamps {
            None => "stamps unknown".to_owned(),
            Some(s) => {
                let kind = |hardware, software| match (hardware, software) {
                    (true, _) => "hardware",
                    (false, true) => "kernel",
                    (false, false) => "user only",
                };
                format!(
                    "send stamps {}, receive stamps {}",
                    kind(s.hardware_send, s.software_send),
                    kind(s.hardware_receive, s.software_receive)
                )
            }
        });
        facts.extend(i.clock.map(|clock| adapter_clock(&clock)));
        if !i.queues.is_empty() {
            facts.push(format!("queue {}", i.queues.join(", ")));
        }
        facts.extend(i.coalesce_us.map(|us| format!("received packets delayed by {us} us")));
        facts.extend(i.dropped.filter(|d| *d > 0).map(|d| format!("{d} dropped")));
        page.item(&format!("{}: {}", i.name, facts.join("; ")));
    }
}

fn privileges(page: &mut Page, c: &Checkup) {
    if c.capabilities.is_empty() {
        return;
    }
    page.heading("Privileges");
    for grant in &c.capabilities {
        let mark = if grant.held { "has" } else { "lacks" };
        page.item(&format!("{mark} {}: {}", grant.name, grant.purpose));
    }
    if let Some(grant) = &c.grant {
        page.line(&format!("    to grant missing permissions: {grant}"));
    }
}

/// Result as JSON: `docs/formats/doctor.md`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorDocument<'a> {
    /// Name and version of the format: `jitlat doctor 1`.
    format: &'static str,
    /// Name and version of the program.
    program: &'static str,
    /// Result of the checkup.
    #[serde(flatten)]
    checkup: &'a Checkup,
    /// One-way test over loopback; null if it failed.
    one_way: Option<&'a Baseline>,
    /// Round trips over loopback; null if they failed.
    two_way: Option<&'a Baseline>,
    /// Reasons why baselines failed, as text.
    failures: Vec<&'a str>,
    /// Delay that this host itself adds; null if no packet arrived.
    noise_floor: Option<NoiseFloor>,
    /// Findings, the worst first.
    findings: &'a [Finding],
    /// The worst level among the findings.
    verdict: Level,
}

impl<'a> DoctorDocument<'a> {
    fn new(c: &'a Checkup, findings: &'a [Finding]) -> DoctorDocument<'a> {
        let baselines = [&c.one_way, &c.two_way];
        DoctorDocument {
            format: "jitlat doctor 1",
            program: PROGRAM,
            checkup: c,
            one_way: c.one_way.as_ref().ok(),
            two_way: c.two_way.as_ref().ok(),
            failures: baselines.into_iter().filter_map(|b| b.as_ref().err()).map(String::as_str).collect(),
            noise_floor: c.floor(),
            findings,
            verdict: findings.iter().map(|f| f.level).max().unwrap_or(Level::Good),
        }
    }
}
