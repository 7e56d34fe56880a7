//! The page of one alert: what it means, its paths, and what to do.

use super::form::AlertsForm;
use super::list::acknowledged;
use super::{AlertPaths, about, class, path_address, subject_address};
use crate::page::{self, PageTab, cards};
use crate::times;
use crate::zone::PageZone;
use jitlat_archive::{Alert, Archive};
use maud::{Markup, html};

/// Maximum number of paths that are listed.
const MAX_LISTED: usize = 200;

/// Renders the page.
pub fn write(
    archive: &Archive,
    alert: &Alert,
    paths: &AlertPaths,
    now: i64,
    form: &AlertsForm<'_>,
) -> String {
    let title = format!("{}: {}", alert.alert, about(alert));
    let header = html! { p.what { a href="/alerts" { "All alerts" } } };
    let is_over = alert.resolved_ns.is_some();
    let state = match alert.resolved_ns {
        Some(at) => format!("Resolved at {}", form.zone.text(at)),
        None => format!("Firing for {}", times::length(now.saturating_sub(alert.fired_ns))),
    };
    let main = html! {
        div data-live="alert" {
            p.headline.(class(alert)) { (state) ": " (alert.reason) (acknowledged(alert, form.zone)) }
            @if let Some(resolution) = &alert.resolution { p { "Resolved because " (resolution) "." } }
            p {
                (meaning(alert)) " "
                @if let Some(address) = subject_address(archive, alert) { a href=(address) { "Show " (about(alert)) } "." }
            }
            dl.counts {
                div { dt { "severity" } dd { (alert.severity) } }
                div { dt { "first test" } dd { (form.zone.text(alert.since_ns)) } }
                div { dt { "fired" } dd { (form.zone.text(alert.fired_ns)) } }
            }
            (listed(archive, paths, form.zone))
        }
        @if !is_over { (form.acknowledge(alert)) (form.silence(Some(alert))) }
    };
    page::wide_page(&title, PageTab::Alerts, form.zone, &header, &main).0
}

/// Explains what an alert of this scope means.
fn meaning(alert: &Alert) -> String {
    let rule = &alert.alert;
    match alert.scope.as_str() {
        "site" => format!(
            "The rule {rule} is violated on most paths of this site: its connection, its power or its network is the likely cause."
        ),
        "host" => {
            format!("The rule {rule} is violated for this host: on most of its paths, or by the host itself.")
        }
        "pair" => format!("The rule {rule} is violated in both directions between these hosts."),
        _ => format!("The rule {rule} is violated in this direction; the report of a test says why."),
    }
}

fn listed(archive: &Archive, paths: &AlertPaths, zone: &PageZone) -> Markup {
    let rows = html! {
        thead { tr { @for column in ["path", "test", "since", "until"] { th scope="col" { (column) } } } }
        tbody {
            @for path in paths.paths.iter().take(MAX_LISTED) {
                @let name = format!("{} → {}", path.src, path.dst);
                tr {
                    th scope="row" {
                        @if let Some(address) = path_address(archive, &path.src, &path.dst) { a href=(address) { (name) } } @else { (name) }
                    }
                    td data-label="test" { @if path.test.is_empty() { "–" } @else { (path.test) } }
                    td data-label="since" { (zone.text(path.since_ns)) }
                    td data-label="until" { @if let Some(at) = path.ended_ns { (zone.text(at)) } @else { "now" } }
                }
            }
        }
    };
    html! {
        @if !paths.paths.is_empty() { h2 #paths { "Paths" } (cards("Paths", &rows)) }
        @if paths.paths.len() > MAX_LISTED { p { "Not listed: " (paths.paths.len() - MAX_LISTED) " more; all are in " code { "/api/v1/alerts/" (paths.id) } "." } }
    }
}
