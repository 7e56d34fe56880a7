//! `/alerts`: firing alerts with their start and reason, and resolved ones.

use crate::page::{self, PageTab};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times;
use jitlat_archive::{Alert, AlertPath, Archive, utc};
use jitlat_report::html::scrolling;
use maud::{Markup, html};
use serde::Serialize;

/// Maximum number of alerts listed.
const MAX_LISTED: usize = 500;
/// Maximum number of paths of an alert listed, in JSON.
const MAX_PATHS: usize = 2000;

/// Alerts of the monitors that write to this archive.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alerts {
    /// Time of this document, ns since 1970.
    pub now_ns: i64,
    /// True if alerts are evaluated; false if no monitor with alert rules has ever written to this archive.
    pub judged: bool,
    /// Firing alerts, then resolved ones, each newest first; at most 500.
    pub alerts: Vec<Alert>,
}

/// Reads the alerts.
pub fn read(archive: &Archive, now_ns: i64) -> Result<Alerts, Problem> {
    let alerts = archive.alerts(MAX_LISTED)?;
    Ok(Alerts { now_ns, judged: archive.judged()?.is_some() || !alerts.is_empty(), alerts })
}

/// Paths of an alert.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertPaths {
    /// Number of the alert.
    pub id: i64,
    /// Its paths, those that are still bad first; at most 2000.
    pub paths: Vec<AlertPath>,
}

/// Reads the paths of an alert.
pub fn paths(archive: &Archive, id: &str) -> Result<AlertPaths, Problem> {
    let none = || Problem::NotFound("There is no such alert.".to_owned());
    let id = id.parse().map_err(|_| none())?;
    let paths = archive.alert_paths(id, MAX_PATHS)?;
    if paths.is_empty() { Err(none()) } else { Ok(AlertPaths { id, paths }) }
}

/// Renders the page.
pub fn page(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, times::now())?))
}

fn write(all: &Alerts) -> String {
    let (firing, resolved): (Vec<&Alert>, Vec<&Alert>) =
        all.alerts.iter().partition(|alert| alert.resolved_ns.is_none());
    let (class, text) = match firing.len() {
        _ if !all.judged => ("note", "No alert rules are set for this archive.".to_owned()),
        0 => ("good", "No alert is firing.".to_owned()),
        1 => ("bad", "1 alert is firing.".to_owned()),
        n => ("bad", format!("{n} alerts are firing.")),
    };
    let header = html! { p.what { "Alerts of the rules in the monitor's file" } };
    let main = html! {
        div data-live="alerts" {
            p.headline.(class) { (text) }
            @if !all.judged {
                p { "A monitor whose file has " code { "[[alert]]" } " rules writes its alerts here." }
            }
            (table("Firing", &firing, all.now_ns))
            (table("Resolved", &resolved, all.now_ns))
        }
    };
    page::page("Alerts", PageTab::Alerts, &header, &main).0
}

fn table(name: &str, alerts: &[&Alert], now: i64) -> Markup {
    if alerts.is_empty() {
        return Markup::default();
    }
    let ended = name == "Resolved";
    let rows = html! {
        thead {
            tr {
                @for column in ["about", "alert", "severity", "test", "paths", "since", "fired", "for"] {
                    th scope="col" { (column) }
                }
                th.words scope="col" { "reason" }
                @if ended { th.words scope="col" { "resolution" } }
            }
        }
        tbody { @for alert in alerts { (row(alert, ended, now)) } }
    };
    html! {
        h2 id=(name.to_lowercase()) { (name) }
        (scrolling(name, &rows))
    }
}

/// Formats what an alert is about.
fn about(alert: &Alert) -> String {
    let Alert { src, dst, .. } = alert;
    match alert.scope.as_str() {
        "site" => format!("site {src}"),
        "host" => src.clone(),
        "pair" => format!("{src} ↔ {dst}"),
        _ => format!("{src} → {dst}"),
    }
}

fn row(alert: &Alert, ended: bool, now: i64) -> Markup {
    let class = match alert.severity.as_str() {
        _ if ended => "unknown",
        "critical" => "bad",
        "warning" => "poor",
        _ => "fair",
    };
    html! {
        tr id={"alert-" (alert.id)} {
            // Plain text instead of a link: a path with names that the archive does not know has no page.
            th scope="row" { (about(alert)) }
            td { (alert.alert) }
            td.(class) { span.level { (alert.severity) } }
            td { @if alert.test.is_empty() { "–" } @else { (alert.test) } }
            td { (alert.paths) }
            td { (utc(alert.since_ns)) }
            td { (utc(alert.fired_ns)) }
            td { (times::length(alert.resolved_ns.unwrap_or(now).saturating_sub(alert.fired_ns))) }
            td.words {
                (alert.reason)
                @if let (Some(at), Some(by)) = (alert.acknowledged_ns, &alert.acknowledged_by) {
                    " – acknowledged by " (by) " at " (utc(at))
                    @if let Some(note) = alert.note.as_deref().filter(|note| !note.is_empty()) { ": " (note) }
                }
            }
            @if ended { td.words { (alert.resolution.as_deref().unwrap_or("–")) } }
        }
    }
}
