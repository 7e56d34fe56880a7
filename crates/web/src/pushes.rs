//! Tests pushed to collectors, and tests that others push to this archive: tables of `/hosts`.

use crate::times;
use jitlat_archive::{CollectedHost, Pushed};
use jitlat_report::html::scrolling;
use maud::{Markup, html};

/// Formats the age of a time; `never` if there is none.
fn ago(at_ns: Option<i64>, now: i64) -> String {
    at_ns.map_or("never".to_owned(), |at| format!("{} ago", times::length(now.saturating_sub(at).max(0))))
}

/// Renders the tables; renders nothing if no test is pushed.
pub fn tables(pushes: &[Pushed], collected: &[CollectedHost], now: i64) -> Markup {
    html! {
        @if !pushes.is_empty() {
            h2 #pushes { "Pushed to collectors" }
            (scrolling("Collectors", &pushed_rows(pushes, now)))
            p {
                "Dropped: removed here, or beyond the limit of waiting tests, before the collector had stored them. Every test is stored, \
                 waiting, dropped or refused."
            }
        }
        @if !collected.is_empty() {
            h2 #collected { "Received from hosts" }
            (scrolling("Hosts that push", &collected_rows(collected, now)))
        }
    }
}

fn pushed_rows(pushes: &[Pushed], now: i64) -> Markup {
    let columns = ["collector", "last stored", "waiting", "oldest waiting", "stored", "dropped", "refused"];
    html! {
        thead {
            tr {
                @for column in columns { th scope="col" { (column) } }
                th.words scope="col" { "last reason" }
            }
        }
        tbody {
            @for push in pushes {
                tr {
                    th scope="row" { (push.collector) }
                    td { (ago(push.stored_ns, now)) }
                    td { (push.waiting) }
                    td { @if push.waiting > 0 { (ago(push.oldest_ns, now)) } @else { "none" } }
                    td { (push.stored) }
                    td { (push.dropped) }
                    td { (push.refused) }
                    td.words { (push.reason.as_deref().unwrap_or("none")) }
                }
            }
        }
    }
}

fn collected_rows(collected: &[CollectedHost], now: i64) -> Markup {
    let columns = ["host", "last push", "stored", "refused", "last report", "waiting there", "dropped there"];
    html! {
        thead { tr { @for column in columns { th scope="col" { (column) } } } }
        tbody {
            @for host in collected {
                tr {
                    th scope="row" { (host.host) }
                    td { (ago(host.stored_ns, now)) }
                    td { (host.stored) }
                    td { (host.refused) }
                    td { (ago(host.heard_ns, now)) }
                    td { (host.waiting) }
                    td { (host.dropped) }
                }
            }
        }
    }
}
