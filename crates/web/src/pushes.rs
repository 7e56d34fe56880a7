//! What is pushed to collectors, and what others push to this archive: tables of `/hosts`.

use crate::times;
use jitlat_archive::{CollectedHost, Pushed};
use jitlat_report::html::scrolling;
use maud::{Markup, html};

/// How long ago something was; `never` if it never was.
fn ago(at_ns: Option<i64>, now: i64) -> String {
    at_ns.map_or("never".to_owned(), |at| format!("{} ago", times::length(now.saturating_sub(at).max(0))))
}

/// The tables; empty where nobody pushes.
pub fn tables(pushes: &[Pushed], collected: &[CollectedHost], now: i64) -> Markup {
    html! {
        @if !pushes.is_empty() {
            h2 #pushes { "Pushed from here" }
            (scrolling("Collectors", &pushed_rows(pushes, now)))
            p {
                "Dropped: removed here, or beyond what may wait, before the collector had them. Every test is stored there, \
                 waits, was dropped or was refused."
            }
        }
        @if !collected.is_empty() {
            h2 #collected { "Collected here" }
            (scrolling("Hosts that push", &collected_rows(collected, now)))
        }
    }
}

fn pushed_rows(pushes: &[Pushed], now: i64) -> Markup {
    let columns = ["collector", "last stored", "waiting", "oldest of them", "stored", "dropped", "refused"];
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
    let columns =
        ["host", "last push", "stored", "refused", "last heard of", "waiting then", "dropped there"];
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
