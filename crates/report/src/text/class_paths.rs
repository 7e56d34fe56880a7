//! Table of the paths of several traffic classes, side by side.

use super::path::{dscp, rewrites, unreached};
use super::{Page, TextOptions};
use jitlat_core::class_paths::{ClassPaths, PathDifference};
use jitlat_core::path::{Hop, Path};
use jitlat_core::spec::Dscp;
use jitlat_core::units::eng4_f64;
use std::net::IpAddr;

/// Width of a column with the delay of a class.
const COLUMN: usize = 9;

/// Returns a table of the hops of each class, a line for each router and a column for each class, with remarks.
pub fn class_paths(found: &ClassPaths, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    let Some(first) = found.paths.first() else { return page.text };
    let transport = if first.proto == 6 { "TCP" } else { "UDP" };
    page.line(&format!(
        "Paths from {} to {} ({transport} port {}), median round trip by class",
        first.source, first.destination, first.port
    ));
    page.blank();
    let lines: Vec<(u8, Option<IpAddr>)> = (1..=found.hops()).flat_map(|ttl| routers(found, ttl)).collect();
    if lines.is_empty() {
        page.line("Neither routers nor the destination answered.");
        return page.text;
    }
    let who = |router: &Option<IpAddr>| router.map_or_else(|| "*".to_owned(), |address| address.to_string());
    let width = lines.iter().map(|(_, router)| who(router).len()).max().unwrap_or(0).max(7);
    let heads: String = found.paths.iter().map(|path| format!("  {:>COLUMN$}", class(path.dscp))).collect();
    page.line(&format!("{:>3}  {:width$}{heads}", "hop", "address"));
    let mut shown = 0;
    for (ttl, router) in &lines {
        let cells: String =
            found.paths.iter().map(|path| format!("  {:>COLUMN$}", delay(path, *ttl, *router))).collect();
        let number = if *ttl == shown { String::new() } else { ttl.to_string() };
        shown = *ttl;
        page.line(&format!("{number:>3}  {:width$}{cells}", who(router)));
        let labels: Vec<String> =
            found.paths.iter().filter_map(|path| labels(path, *ttl, (*router)?)).collect();
        if !labels.is_empty() {
            page.line(&format!("     MPLS label {}", labels.join(", ")));
        }
    }
    page.blank();
    for difference in &found.differences {
        page.item(&compared(first, difference));
    }
    for path in &found.paths {
        for rewrite in rewrites(path) {
            page.item(&format!("{}: {rewrite}", class(path.dscp)));
        }
        if !path.reached {
            page.item(&format!("{}: {}", class(path.dscp), unreached(path)));
        }
        for note in &path.notes {
            page.item(&format!("{}: {note}", class(path.dscp)));
        }
    }
    page.text
}

/// Returns the lines of the hop `ttl`: each router that answered in any class, or one line without a router.
fn routers(found: &ClassPaths, ttl: u8) -> Vec<(u8, Option<IpAddr>)> {
    let mut all: Vec<(u8, Option<IpAddr>)> = Vec::new();
    for responder in found.paths.iter().filter_map(|path| hop(path, ttl)).flat_map(|hop| &hop.responders) {
        let line = (ttl, Some(responder.address));
        if !all.contains(&line) {
            all.push(line);
        }
    }
    if all.is_empty() { vec![(ttl, None)] } else { all }
}

fn hop(path: &Path, ttl: u8) -> Option<&Hop> {
    path.hops.iter().find(|hop| hop.ttl == ttl)
}

/// Returns the median delay of the hop `ttl`; `-` if `router` did not answer there.
fn delay(path: &Path, ttl: u8, router: Option<IpAddr>) -> String {
    let answered = |hop: &&Hop| hop.responders.iter().any(|r| Some(r.address) == router);
    let median = hop(path, ttl).filter(answered).and_then(|hop| hop.rtt.median);
    median.map_or_else(|| "-".to_owned(), eng4_f64)
}

/// Returns the MPLS labels at the hop `ttl` with the name of the class, `EF 16`; `None` if there are none, or if
/// `router` is not the first router of the hop.
fn labels(path: &Path, ttl: u8, router: IpAddr) -> Option<String> {
    let hop = hop(path, ttl).filter(|hop| hop.responders.first().is_some_and(|r| r.address == router))?;
    let labels: Vec<String> = hop.labels.iter().map(|label| label.label.to_string()).collect();
    (!labels.is_empty()).then(|| format!("{} {}", class(path.dscp), labels.join("/")))
}

/// Describes the difference between a class and the first one.
fn compared(first: &Path, difference: &PathDifference) -> String {
    let PathDifference { dscp, routers, labels, compared } = difference;
    let (one, other) = (class(first.dscp), class(*dscp));
    let with_labels = match &labels[..] {
        [] => String::new(),
        hops => format!(", with other MPLS labels at {}", at(hops)),
    };
    match &routers[..] {
        _ if *compared == 0 => format!("{one} and {other} cannot be compared: no hop answered to both"),
        [] => format!("{one} and {other} pass the same routers, as far as hops answer{with_labels}"),
        hops => format!("{one} and {other} pass different routers at {}{with_labels}", at(hops)),
    }
}

/// Lists hops: `hop 3`, `hops 3, 4`.
fn at(hops: &[u8]) -> String {
    let numbers: Vec<String> = hops.iter().map(u8::to_string).collect();
    format!("{} {}", if hops.len() == 1 { "hop" } else { "hops" }, numbers.join(", "))
}

/// Returns the name of a class: `BE`, `EF`, or the number of a DSCP without a name.
fn class(value: u8) -> String {
    match Dscp::new(value.into()).and_then(Dscp::name) {
        _ if value == 0 => "BE".to_owned(),
        Some(name) => name.to_owned(),
        None => dscp(value),
    }
}
