//! Events of a path: changes of the verdict, gaps between tests, changes of the route, and faults of the hosts.

use super::chart::ChartMark;
use super::{PathPage, PathSide};
use crate::page::cards;
use crate::times;
use jitlat_archive::Route;
use jitlat_core::route;
use maud::{Markup, html};

/// Maximum length of each list, which contains the newest entries.
const MAX_LISTED: usize = 12;

/// A route with the one of the same path before it.
type RouteWithFormer<'a> = (&'a Route, Option<&'a Route>);

fn with_former(side: &PathSide) -> impl DoubleEndedIterator<Item = RouteWithFormer<'_>> {
    let routes = &side.course.routes;
    (0..routes.len()).map(move |k| {
        let route = &routes[k];
        (route, routes[..k].iter().rfind(|before| before.route == route.route))
    })
}

/// Returns the marks of a direction: changes of the route, and tests that the hosts disturbed.
pub fn marks(side: &PathSide, view: &PathPage) -> Vec<ChartMark> {
    let zone = &view.choice.zone;
    let routes = with_former(side).filter_map(|(route, former)| {
        let change = route::change(&former?.hops, &route.hops);
        let about = format!("{}: the route changed: {change}", zone.text(route.first_ns));
        Some(ChartMark { at: route.first_ns, sign: "◆", about })
    });
    let faults = side.course.host_faults.iter().flatten().map(|fault| {
        let about = format!("{}: a host disturbed the test ({})", zone.text(fault.at_ns), fault.grade.word());
        ChartMark { at: fault.at_ns, sign: "■", about }
    });
    routes.chain(faults).filter(|mark| mark.at > side.course.from_ns).collect()
}

/// Renders the newest events of all directions.
pub fn list(view: &PathPage) -> Markup {
    let zone = &view.choice.zone;
    let mut all: Vec<(i64, Markup)> = Vec::new();
    let mut are_too_many = false;
    for side in &view.sides {
        let name = format!("{} → {}", side.names[0], side.names[1]);
        let course = &side.course;
        are_too_many |= course.changes.is_none();
        for change in course.changes.iter().flatten() {
            let what = if change.bad { "turned poor or bad" } else { "recovered (good or fair)" };
            let test = format!("/test/{}", change.test);
            all.push((change.at_ns, html! { (name) " " a href=(test) { (what) } }));
        }
        for gap in course.gaps.iter().flatten() {
            let length = times::length(gap.to_ns.saturating_sub(gap.from_ns));
            all.push((gap.from_ns, html! { (name) ": no test for " (length) }));
        }
        for (route, former) in with_former(side) {
            let Some(former) = former else { continue };
            let change = route::change(&former.hops, &route.hops);
            all.push((
                route.first_ns,
                html! { (name) ": " a href="#routes" { "another route" } " (" (change) ")" },
            ));
        }
        if let Some(last) = course.host_faults.iter().flatten().next_back() {
            let tests = match course.host_faults.iter().flatten().count() {
                1 => "1 test".to_owned(),
                n => format!("{n} tests"),
            };
            let test = format!("/test/{}", last.test);
            all.push((
                last.at_ns,
                html! { (name) ": the hosts disturbed " (tests) "; " a href=(test) { "the last one" } },
            ));
        }
    }
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    html! {
        @if are_too_many { p { "Too many tests to list changes: choose a shorter period." } }
        @if !all.is_empty() {
            h2 #events { "Events" }
            ul { @for (at, text) in all.iter().take(MAX_LISTED) { li { (zone.text(*at)) ": " (text) } } }
        }
        @if all.len() > MAX_LISTED { p { "Earlier events that are not listed: " (all.len() - MAX_LISTED) "." } }
    }
}

/// Renders the routes of the period, the newest first.
pub fn routes(view: &PathPage) -> Markup {
    let zone = &view.choice.zone;
    let all: Vec<RouteWithFormer<'_>> = view.sides.iter().flat_map(|side| with_former(side).rev()).collect();
    if all.is_empty() {
        return Markup::default();
    }
    let rows = html! {
        thead {
            tr {
                @for column in ["first seen", "last seen", "from, to"] { th scope="col" { (column) } }
                th.words scope="col" { "change" }
                th.words scope="col" { "routers" }
            }
        }
        tbody {
            @for (route, former) in all.iter().take(MAX_LISTED) {
                tr {
                    th scope="row" { (zone.text(route.first_ns)) }
                    td data-label="last seen" { (zone.text(route.last_ns)) }
                    td data-label="from, to" { (route.src) " → " (route.dst) }
                    td.words data-label="change" { @if let Some(former) = former { (route::change(&former.hops, &route.hops)) } @else { "–" } }
                    td.words data-label="routers" { (route.hops.join(" → ")) }
                }
            }
        }
    };
    html! {
        h2 #routes { "Routes" }
        (cards("Routes", &rows))
    }
}
