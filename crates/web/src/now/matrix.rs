//! The path matrix: a row per sender, a column per receiver; with many hosts, of sites.

use super::choice::OverviewChoice;
use super::metric::CellMetric;
use super::{StreamNow, age, badge, counted};
use crate::numbers::three_digits;
use crate::page::encoded;
use crate::verdict::TestVerdict;
use jitlat_report::html::scrolling;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of hosts for which the cells contain words.
const MAX_HOSTS_WITH_WORDS: usize = 10;
/// Maximum number of hosts for which the cells contain numbers.
const MAX_HOSTS_WITH_NUMBERS: usize = 25;
/// Number of hosts from which on the matrix shows sites, if all hosts have one.
const MIN_HOSTS_OF_SITES: usize = 40;

/// Contents of a cell.
struct Cell<'a> {
    /// The worst stream; of equally bad ones, a silent one.
    worst: &'a StreamNow,
    /// Largest value of the metric; for scores the smallest. `None` if it is unknown.
    value: Option<f64>,
    /// Number of streams.
    streams: usize,
    /// Number of poor and bad streams.
    bad: usize,
}

/// Renders the matrix of `streams`; `hosts` are the names of hosts by address.
pub fn matrix(
    streams: &[&StreamNow],
    hosts: &BTreeMap<&str, &str>,
    choice: &OverviewChoice,
    now: i64,
) -> Markup {
    let has_sites = streams.iter().all(|s| s.src_site.is_some() && s.dst_site.is_some());
    let of_sites = has_sites && hosts.len() >= MIN_HOSTS_OF_SITES && choice.site.is_empty();
    let ends = |s: &'_ StreamNow| -> [String; 2] {
        match (of_sites, &s.src_site, &s.dst_site) {
            (true, Some(src), Some(dst)) => [src.clone(), dst.clone()],
            _ => [s.stream.src.clone(), s.stream.dst.clone()],
        }
    };
    let mut cells: BTreeMap<[String; 2], Cell<'_>> = BTreeMap::new();
    for s in streams {
        let value = choice.metric.of(s);
        let cell = cells.entry(ends(s)).or_insert(Cell { worst: s, value, streams: 0, bad: 0 });
        let worth = |s: &StreamNow| (s.verdict, s.silent);
        if worth(s) > worth(cell.worst) {
            cell.worst = s;
        }
        let is_score = choice.metric == CellMetric::Mos;
        let worse = |a: f64, b: f64| if is_score { a.min(b) } else { a.max(b) };
        cell.value = cell.value.zip(value).map(|(a, b)| worse(a, b)).or(cell.value).or(value);
        cell.streams += 1;
        cell.bad += usize::from(s.verdict.is_bad());
    }
    let places: Vec<(&str, &str)> = if of_sites {
        let sites: BTreeSet<&str> =
            streams.iter().flat_map(|s| [&s.src_site, &s.dst_site]).flatten().map(|s| &**s).collect();
        sites.into_iter().map(|site| (site, site)).collect()
    } else {
        hosts.iter().map(|(address, name)| (*address, *name)).collect()
    };
    let has_numbers = choice.metric != CellMetric::Verdict && places.len() <= MAX_HOSTS_WITH_NUMBERS;
    let words = of_sites || has_numbers || places.len() <= MAX_HOSTS_WITH_WORDS;
    let rows = html! {
        thead {
            tr {
                td {}
                @for (k, (address, name)) in places.iter().enumerate() {
                    @if words {
                        th scope="col" title=(name) { (name) }
                    } @else {
                        th scope="col" title={(name) " " (address)} { (k + 1) }
                    }
                }
            }
        }
        tbody {
            @for (k, (src, name)) in places.iter().enumerate() {
                tr {
                    th scope="row" title=(name) {
                        @if !words { (k + 1) " " }
                        @if of_sites { a href=(choice.address(choice.metric, src)) { (name) } } @else { (name) }
                    }
                    @for (dst, _) in &places {
                        @match cells.get(&[(*src).to_owned(), (*dst).to_owned()]) {
                            Some(of_sites_cell) if of_sites => (site_cell(of_sites_cell, choice, src)),
                            Some(one) => (cell(one, choice.metric, words, now)),
                            None => td {},
                        }
                    }
                }
            }
        }
    };
    html! {
        h2 #matrix { "Path matrix" }
        p.help {
            "One row per sender, one column per receiver" @if of_sites { ", by site; the link on a site shows its hosts" } ". "
            @for verdict in TestVerdict::ALL {
                span.(verdict.word()) { (badge(verdict.sign(), verdict.word())) }
                " "
            }
            span.unknown { (badge("…", "silent")) }
            @if choice.metric == CellMetric::Delay {
                " One-way delays include the difference of the two hosts' clocks."
            }
        }
        div.matrix.small[!words] { (scrolling("Path matrix", &rows)) }
    }
}

fn cell(cell: &Cell<'_>, metric: CellMetric, words: bool, now: i64) -> Markup {
    let s = cell.worst;
    let (class, sign, word) = s.shown();
    let address = format!("/path/{}/{}", encoded(&s.stream.src), encoded(&s.stream.dst));
    let was = if s.silent { format!("{} {}", s.verdict.word(), age(s, now)) } else { age(s, now) };
    let number = cell.value.map(three_digits);
    let value = number.as_ref().map_or(String::new(), |number| format!(", {} {number}", metric.tab().title));
    let title = format!("{} {} {}: {word}{value}, {was}", s.src(), s.arrow(), s.dst());
    html! {
        td.(class).silent[s.silent] {
            a href=(address) title=(title) {
                @match (words, metric, number) {
                    (false, _, _) => (sign),
                    (true, CellMetric::Verdict, _) => b { (sign) " " (word) },
                    (true, _, Some(number)) => b { (number) },
                    (true, _, None) => b { "–" },
                }
                @if words && s.silent { " " span { (was) } }
            }
        }
    }
}

/// Renders the cell of two sites.
fn site_cell(cell: &Cell<'_>, choice: &OverviewChoice, src: &str) -> Markup {
    let (class, sign, word) = cell.worst.shown();
    let number = cell.value.map(three_digits);
    html! {
        td.(class) {
            a href=(choice.address(choice.metric, src)) {
                @match number {
                    Some(number) => b { (number) },
                    None => b { (sign) " " (word) },
                }
                " " span {
                    @if cell.bad > 0 { (cell.bad) " of " (counted(cell.streams, "stream", "streams")) }
                    @else { (counted(cell.streams, "stream", "streams")) }
                }
            }
        }
    }
}
