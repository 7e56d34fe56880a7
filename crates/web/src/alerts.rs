//! `/alerts`: what fires, since when and why, and what was resolved.

use crate::page::{self, PageTab};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times;
use jitlat_archive::{Alert, Archive, utc};
use jitlat_report::html::scrolling;
use maud::{Markup, html};
use serde::Serialize;

/// Most alerts that are listed.
const MAX_LISTED: usize = 500;

/// Alerts of the monitors that fill this archive.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alerts {
    /// When this was read, ns since 1970.
    pub now_ns: i64,
    /// Whether anything is judged: false if no monitor with alerts ever did.
    pub judged: bool,
    /// Those that fire, then those that were resolved, each from the newest on; 500 at most.
    pub alerts: Vec<Alert>,
}

/// Reads them.
pub fn read(archive: &Archive, now_ns: i64) -> Result<Alerts, Problem> {
    let alerts = archive.alerts(MAX_LISTED)?;
    Ok(Alerts { now_ns, judged: archive.judged()?.is_some() || !alerts.is_empty(), alerts })
}

/// The page.
pub fn page(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, times::now())?))
}

fn write(all: &Alerts) -> String {
    let (firing, resolved): (Vec<&Alert>, Vec<&Alert>) =
        all.alerts.iter().partition(|alert| alert.resolved_ns.is_none());
    let (class, text) = match firing.len() {
        _ if !all.judged => ("note", "No rule judges the tests of this archive.".to_owned()),
        0 => ("good", "Nothing fires.".to_owned()),
        1 => ("bad", "One alert fires.".to_owned()),
        n => ("bad", format!("{n} alerts fire.")),
    };
    let header = html! { p.what { "What the rules of the monitor's file found" } };
    let main = html! {
        div data-live="alerts" {
            p.headline.(class) { (text) }
            @if !all.judged {
                p { "A monitor whose file has " code { "[[alert]]" } " writes here what it finds." }
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
                @for column in ["from, to", "alert", "severity", "test", "since", "fired", "for"] {
                    th scope="col" { (column) }
                }
                th.words scope="col" { "what was found" }
                @if ended { th.words scope="col" { "why it was resolved" } }
            }
        }
        tbody { @for alert in alerts { (row(alert, ended, now)) } }
    };
    html! {
        h2 id=(name.to_lowercase()) { (name) }
        (scrolling(name, &rows))
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
        tr {
            // A path by names that the archive does not know has no page: they are plain text here.
            th scope="row" { (alert.src) " → " (alert.dst) }
            td { (alert.alert) }
            td.(class) { span.level { (alert.severity) } }
            td { (alert.test) }
            td { (utc(alert.since_ns)) }
            td { (utc(alert.fired_ns)) }
            td { (times::length(alert.resolved_ns.unwrap_or(now).saturating_sub(alert.fired_ns))) }
            td.words { (alert.reason) }
            @if ended { td.words { (alert.resolution.as_deref().unwrap_or("–")) } }
        }
    }
}
