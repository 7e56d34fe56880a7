//! `/alerts`: what fires, since when and why, and what was resolved.

use crate::page::{self, Tab};
use crate::problem::Problem;
use crate::routes::Asked;
use crate::times;
use jitlat_archive::{Alert, Archive, utc};
use jitlat_report::escape;
use jitlat_report::html::scrolling;
use serde::Serialize;
use std::fmt::Write;

/// Most alerts that are listed.
const MOST_LISTED: usize = 500;

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
    let alerts = archive.alerts(MOST_LISTED)?;
    Ok(Alerts { now_ns, judged: archive.judged()?.is_some() || !alerts.is_empty(), alerts })
}

/// The page.
pub fn page(archive: &Archive, _: &Asked) -> Result<String, Problem> {
    Ok(write(&read(archive, times::now())?))
}

fn write(all: &Alerts) -> String {
    let (firing, resolved): (Vec<&Alert>, Vec<&Alert>) =
        all.alerts.iter().partition(|alert| alert.resolved_ns.is_none());
    let page = page::page("Alerts", Tab::Alerts, |out| {
        out.push_str("<p class=\"what\">What the rules of the monitor's file found</p></header>\n<main id=\"main\">\n<div data-live=\"alerts\">");
        let (class, text) = match firing.len() {
            _ if !all.judged => ("note", "No rule judges the tests of this archive.".to_owned()),
            0 => ("good", "Nothing fires.".to_owned()),
            1 => ("bad", "One alert fires.".to_owned()),
            n => ("bad", format!("{n} alerts fire.")),
        };
        let _ = write!(out, "<p class=\"headline {class}\">{text}</p>");
        if !all.judged {
            out.push_str("<p>A monitor whose file has <code>[[alert]]</code> writes here what it finds.</p>");
        }
        table(out, "Firing", &firing, all.now_ns);
        table(out, "Resolved", &resolved, all.now_ns);
        out.push_str("</div>");
    });
    page.0
}

fn table(out: &mut String, name: &str, alerts: &[&Alert], now: i64) {
    if alerts.is_empty() {
        return;
    }
    let ended = name == "Resolved";
    let _ = write!(out, "<h2 id=\"{}\">{name}</h2>", name.to_lowercase());
    scrolling(out, name, |out| {
        out.push_str(
            "<thead><tr><th scope=\"col\">from, to</th><th scope=\"col\">alert</th><th scope=\"col\">severity</th>\
             <th scope=\"col\">test</th><th scope=\"col\">since</th><th scope=\"col\">fired</th><th scope=\"col\">for</th>\
             <th scope=\"col\" class=\"words\">what was found</th>",
        );
        if ended {
            out.push_str("<th scope=\"col\" class=\"words\">why it was resolved</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for alert in alerts {
            let class = match alert.severity.as_str() {
                _ if ended => "unknown",
                "critical" => "bad",
                "warning" => "poor",
                _ => "fair",
            };
            // A path by names that the archive does not know has no page: they are plain text here.
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{} → {}</th><td>{}</td><td class=\"{class}\"><span class=\"level\">{}</span></td><td>{}</td>\
                 <td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td>",
                escape(&alert.src),
                escape(&alert.dst),
                escape(&alert.alert),
                escape(&alert.severity),
                escape(&alert.test),
                utc(alert.since_ns),
                utc(alert.fired_ns),
                times::length(alert.resolved_ns.unwrap_or(now).saturating_sub(alert.fired_ns)),
                escape(&alert.reason),
            );
            if ended {
                let _ = write!(
                    out,
                    "<td class=\"words\">{}</td>",
                    escape(alert.resolution.as_deref().unwrap_or("–"))
                );
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody>");
    });
}
