//! The page of all alerts and silences.

use super::form::AlertsForm;
use super::{Alerts, about, class, subject_address};
use crate::page::{self, PageTab, cards};
use crate::times;
use crate::zone::PageZone;
use jitlat_archive::{Alert, Archive, Silence};
use maud::{Markup, html};

/// Maximum number of alerts whose subjects have links.
const MAX_LINKED: usize = 100;

/// Renders the page.
pub fn write(archive: &Archive, all: &Alerts, silences: &[Silence], form: &AlertsForm<'_>) -> String {
    let (firing, resolved): (Vec<&Alert>, Vec<&Alert>) =
        all.alerts.iter().partition(|alert| alert.resolved_ns.is_none());
    let (class, text) = match firing.len() {
        _ if !all.judged => ("note", "No alert rules are set for this archive.".to_owned()),
        0 => ("good", "No alert is firing.".to_owned()),
        1 => ("bad", "1 alert is firing.".to_owned()),
        n => ("bad", format!("{n} alerts are firing.")),
    };
    // A silence that was ended before its start has no length.
    let silences: Vec<&Silence> =
        silences.iter().filter(|silence| silence.until_ns > all.now_ns.max(silence.from_ns)).collect();
    let header = html! { p.what { "Paths, hosts and sites that violate a rule, and times without messages about them" } };
    let main = html! {
        div data-live="alerts" {
            p.headline.(class) { (text) }
            @if !all.judged {
                p {
                    "Rules are " code { "[[alert]]" } " sections of the file of a monitor. After " code { "jitlat watch" }
                    ", which needs no file, " code { "jitlat watch HOST --print-file" } " prints one to begin with."
                }
            }
            (table(archive, "Firing", &firing, all.now_ns, form.zone))
            @if !firing.is_empty() {
                p.help {
                    "Each fault is one alert, with all paths that it affects. " em { "Since" } " is the start of the first test \
                     that led to it, " em { "fired" } " the time at which the rule was violated often enough. Select an alert to see \
                     its paths, to acknowledge it (others see who takes care), or to silence its messages."
                }
            }
            (silenced(&silences, all.now_ns, form))
            (maintenance(all))
            (table(archive, "Resolved", &resolved, all.now_ns, form.zone))
        }
        (form.silence(None))
    };
    page::wide_page("Alerts", PageTab::Alerts, form.zone, &header, &main).0
}

fn table(archive: &Archive, name: &str, alerts: &[&Alert], now: i64, zone: &PageZone) -> Markup {
    if alerts.is_empty() {
        return Markup::default();
    }
    let ended = name == "Resolved";
    let rows = html! {
        thead {
            tr {
                @for column in ["alert", "about", "severity", "test", "paths", "since", "fired", "for"] {
                    th scope="col" { (column) }
                }
                th.words scope="col" { "reason" }
            }
        }
        tbody {
            @for (k, alert) in alerts.iter().enumerate() {
                @let address = if k < MAX_LINKED { subject_address(archive, alert) } else { None };
                (row(alert, address.as_deref(), now, zone))
            }
        }
    };
    html! {
        h2 id=(name.to_lowercase()) { (name) }
        @if ended {
            details.fold { summary { (alerts.len()) @if alerts.len() == 1 { " alert" } @else { " alerts" } } (cards(name, &rows)) }
        } @else {
            (cards(name, &rows))
        }
    }
}

fn row(alert: &Alert, address: Option<&str>, now: i64, zone: &PageZone) -> Markup {
    html! {
        tr id={"alert-" (alert.id)} {
            th scope="row" { a href={"/alerts/" (alert.id)} { (alert.alert) } }
            td data-label="about" {
                // A path with names that the archive does not know has no page.
                @if let Some(address) = address { a href=(address) { (about(alert)) } } @else { (about(alert)) }
            }
            td.(class(alert)) data-label="severity" { span.level { (alert.severity) } }
            td data-label="test" { @if alert.test.is_empty() { "–" } @else { (alert.test) } }
            td data-label="paths" { (alert.paths) }
            td data-label="since" { (minute(alert.since_ns, zone)) }
            td data-label="fired" { (minute(alert.fired_ns, zone)) }
            td data-label="for" { (times::length(alert.resolved_ns.unwrap_or(now).saturating_sub(alert.fired_ns))) }
            td.words data-label="reason" {
                span {
                    (alert.reason)
                    @if let Some(resolution) = &alert.resolution { " – resolved: " (resolution) }
                    (acknowledged(alert, zone))
                }
            }
        }
    }
}

/// Formats a time without its seconds.
fn minute(at: i64, zone: &PageZone) -> String {
    zone.text(at).chars().take(16).collect()
}

/// Renders who has acknowledged an alert.
pub fn acknowledged(alert: &Alert, zone: &PageZone) -> Markup {
    html! {
        @if let (Some(at), Some(by)) = (alert.acknowledged_ns, &alert.acknowledged_by) {
            " – acknowledged by " (by) " at " (minute(at, zone))
            @if let Some(note) = alert.note.as_deref().filter(|note| !note.is_empty()) { ": " (note) }
        }
    }
}

/// Renders the silences that are not over.
fn silenced(silences: &[&Silence], now: i64, form: &AlertsForm<'_>) -> Markup {
    if silences.is_empty() {
        return Markup::default();
    }
    let rows = html! {
        thead {
            tr {
                @for column in ["messages about", "from", "until", "by"] { th scope="col" { (column) } }
                th.words scope="col" { "note" }
                @if form.may_change { th scope="col" { "change" } }
            }
        }
        tbody {
            @for silence in silences {
                tr {
                    th scope="row" { (selected(silence)) }
                    td data-label="from" { (minute(silence.from_ns, form.zone)) @if silence.from_ns > now { " (planned)" } }
                    td data-label="until" { (minute(silence.until_ns, form.zone)) }
                    td data-label="by" { (silence.author) }
                    td.words data-label="note" { (silence.note) }
                    @if form.may_change { td data-label="change" { (form.end(silence.id)) } }
                }
            }
        }
    };
    html! {
        h2 #silences { "Silences and maintenance" }
        (cards("Silences and maintenance", &rows))
    }
}

/// Renders the maintenance of the monitor's file.
fn maintenance(all: &Alerts) -> Markup {
    let rows = html! {
        thead { tr { @for column in ["no alerts about", "when (UTC)"] { th.words scope="col" { (column) } } } }
        tbody {
            @for planned in &all.maintenance {
                tr {
                    th.words scope="row" { (planned.about) }
                    td.words data-label="when (UTC)" { (planned.when) }
                }
            }
        }
    };
    html! {
        @if !all.maintenance.is_empty() {
            h2 #maintenance { "Maintenance in the monitor's file" }
            (cards("Maintenance in the monitor's file", &rows))
        }
    }
}

/// Formats what a silence selects.
fn selected(silence: &Silence) -> String {
    let parts = [
        ("alert", &silence.alert),
        ("test", &silence.test),
        ("host", &silence.host),
        ("site", &silence.site),
    ];
    let parts: Vec<String> =
        parts.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if parts.is_empty() { "everything".to_owned() } else { parts.join(", ") }
}
