//! `/alerts`: firing alerts with their start and reason, resolved ones, and silences.
//!
//! * `list` – the page of all; `one` – the page of one alert, with its paths
//! * `form` – forms of both pages: acknowledgements and silences; `silences` – the same for programs

mod form;
mod list;
mod one;
pub mod silences;

pub use form::{ALERTS, ending, listing, reading};

use crate::app::App;
use crate::hosts::PlannedMaintenance;
use crate::problem::Problem;
use jitlat_archive::{Alert, AlertPath, Archive, Filter};
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
    /// Maintenance in the file of the monitor that serves this document; empty if there is none.
    pub maintenance: Vec<PlannedMaintenance>,
}

/// Reads the alerts.
pub fn read(archive: &Archive, app: &App, now_ns: i64) -> Result<Alerts, Problem> {
    let alerts = archive.alerts(MAX_LISTED)?;
    let maintenance = app.monitor.as_ref().map(|monitor| monitor.maintenance()).unwrap_or_default();
    Ok(Alerts { now_ns, judged: archive.judged()?.is_some() || !alerts.is_empty(), alerts, maintenance })
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

/// Class of the style sheet for an alert.
fn class(alert: &Alert) -> &'static str {
    match alert.severity.as_str() {
        _ if alert.resolved_ns.is_some() => "unknown",
        "critical" => "bad",
        "warning" => "poor",
        _ => "fair",
    }
}

/// Returns the address of the page of a path; `None` if the archive has no tests of it.
fn path_address(archive: &Archive, src: &str, dst: &str) -> Option<String> {
    let path = format!("{src}:{dst}").parse().ok()?;
    let streams = archive.streams(&Filter { path: Some(path), ..Filter::default() }).ok()?;
    let [src, dst] = [src, dst].map(crate::page::encoded);
    (!streams.is_empty()).then(|| format!("/path/{src}/{dst}"))
}

/// Returns the address of what an alert is about: a path, or the paths of a host or site.
fn subject_address(archive: &Archive, alert: &Alert) -> Option<String> {
    let Alert { src, dst, .. } = alert;
    match alert.scope.as_str() {
        "site" => Some(format!("/?site={}", crate::page::encoded(src))),
        "host" => Some(format!("/?name={}", crate::page::encoded(src))),
        _ => path_address(archive, src, dst).or_else(|| path_address(archive, dst, src)),
    }
}
