//! What is pushed to collectors, and what others push to this archive: tables of `/hosts`.

use crate::times;
use jitlat_archive::{Collected, Pushed};
use jitlat_report::escape;
use jitlat_report::html::scrolling;
use std::fmt::Write;

/// How long ago something was; `never` if it never was.
fn ago(at_ns: Option<i64>, now: i64) -> String {
    at_ns.map_or("never".to_owned(), |at| format!("{} ago", times::length(now.saturating_sub(at).max(0))))
}

/// The tables; nothing where nobody pushes.
pub fn write(out: &mut String, pushes: &[Pushed], collected: &[Collected], now: i64) {
    if !pushes.is_empty() {
        out.push_str("<h2 id=\"pushes\">Pushed from here</h2>");
        scrolling(out, "Collectors", |out| {
            out.push_str(
                "<thead><tr><th scope=\"col\">collector</th><th scope=\"col\">last stored</th><th scope=\"col\">waiting</th>\
                 <th scope=\"col\">oldest of them</th><th scope=\"col\">stored</th><th scope=\"col\">dropped</th>\
                 <th scope=\"col\">refused</th><th scope=\"col\" class=\"words\">last reason</th></tr></thead><tbody>",
            );
            for push in pushes {
                let _ = write!(
                    out,
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                     <td class=\"words\">{}</td></tr>",
                    escape(&push.collector),
                    ago(push.stored_ns, now),
                    push.waiting,
                    if push.waiting > 0 { ago(push.oldest_ns, now) } else { "none".to_owned() },
                    push.stored,
                    push.dropped,
                    push.refused,
                    escape(push.reason.as_deref().unwrap_or("none")),
                );
            }
            out.push_str("</tbody>");
        });
        out.push_str(
            "<p>Dropped: removed here, or beyond what may wait, before the collector had them. Every test is stored there, \
             waits, was dropped or was refused.</p>",
        );
    }
    if !collected.is_empty() {
        out.push_str("<h2 id=\"collected\">Collected here</h2>");
        scrolling(out, "Hosts that push", |out| {
            out.push_str(
                "<thead><tr><th scope=\"col\">host</th><th scope=\"col\">last push</th><th scope=\"col\">stored</th>\
                 <th scope=\"col\">refused</th><th scope=\"col\">last heard of</th><th scope=\"col\">waiting then</th>\
                 <th scope=\"col\">dropped there</th></tr></thead><tbody>",
            );
            for host in collected {
                let _ = write!(
                    out,
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escape(&host.host),
                    ago(host.stored_ns, now),
                    host.stored,
                    host.refused,
                    ago(host.heard_ns, now),
                    host.waiting,
                    host.dropped,
                );
            }
            out.push_str("</tbody>");
        });
    }
}
