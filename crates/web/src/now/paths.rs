//! Table of all paths: a row for the two directions between two hosts, with the last day as a line.

use super::choice::{OverviewChoice, PathOrder};
use super::metric::CellMetric;
use super::{MAX_LISTED, StreamNow, age, badge, counted, described};
use crate::numbers::three_digits;
use crate::page::cards;
use crate::problem::Problem;
use crate::times::{self, DAY};
use jitlat_archive::Archive;
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of points of a line.
const POINTS: usize = 48;
/// Width and height of the area of a line, in units of the drawing.
const LINE_SIZE: [f64; 2] = [120.0, 24.0];

/// Values of the last day, each the largest of half an hour; `None` without tests.
pub type LastDay = [Option<f64>; POINTS];

/// The streams between two hosts with the same kind of packets, at most one per direction.
pub struct PathRow<'a> {
    /// Stream from the host that comes first, or the only one.
    forward: &'a StreamNow,
    /// Stream of the other direction; `None` if there is none.
    back: Option<&'a StreamNow>,
}

impl PathRow<'_> {
    fn streams(&self) -> impl Iterator<Item = &StreamNow> {
        [Some(self.forward), self.back].into_iter().flatten()
    }
}

/// Joins the directions of each path, and sorts the paths.
pub fn rows<'a>(streams: impl Iterator<Item = &'a StreamNow>, choice: &OverviewChoice) -> Vec<PathRow<'a>> {
    let mut paths: BTreeMap<_, PathRow<'a>> = BTreeMap::new();
    let mut single = Vec::new();
    for s in streams {
        let [src, dst] = [&*s.stream.src, &*s.stream.dst];
        let key = (src.min(dst), src.max(dst), described(&s.stream), s.stream.direction == "both");
        match paths.get_mut(&key) {
            // Streams that differ only in properties that the description omits have a row each.
            Some(row) if row.back.is_none() && row.forward.stream.src != s.stream.src => row.back = Some(s),
            Some(_) => single.push(PathRow { forward: s, back: None }),
            None => drop(paths.insert(key, PathRow { forward: s, back: None })),
        }
    }
    let mut rows: Vec<PathRow<'a>> = paths.into_values().chain(single).collect();
    let name = |row: &PathRow<'_>| (row.forward.src().to_owned(), row.forward.dst().to_owned());
    rows.sort_by_cached_key(name);
    let value = |row: &PathRow<'_>| {
        let values = row.streams().filter_map(|s| choice.metric.of(s));
        values.max_by(f64::total_cmp).unwrap_or(f64::NEG_INFINITY)
    };
    match choice.order {
        PathOrder::Name => {}
        PathOrder::Worst => {
            rows.sort_by_key(|row| std::cmp::Reverse(row.streams().map(StreamNow::rank).max()));
        }
        PathOrder::Value => rows.sort_by(|a, b| value(b).total_cmp(&value(a))),
    }
    rows
}

/// Reads the last day of each stream that is shown.
pub fn last_days(
    archive: &Archive,
    rows: &[PathRow<'_>],
    metric: CellMetric,
    now: i64,
) -> Result<BTreeMap<i64, LastDay>, Problem> {
    let mut days = BTreeMap::new();
    let since = now.saturating_sub(DAY);
    for stream in rows.iter().take(MAX_LISTED).flat_map(PathRow::streams) {
        let mut points: LastDay = [None; POINTS];
        for (at, value) in archive.figure_since(stream.id, metric.key(), since)? {
            let k = i128::from(at - since) * POINTS as i128 / i128::from(DAY);
            let point = usize::try_from(k).ok().and_then(|k| points.get_mut(k));
            if let (Some(point), Some(value)) = (point, value) {
                *point = Some(point.map_or(value, |known: f64| known.max(value)));
            }
        }
        days.insert(stream.id, points);
    }
    Ok(days)
}

/// Renders the table.
pub fn table(
    rows: &[PathRow<'_>],
    days: &BTreeMap<i64, LastDay>,
    choice: &OverviewChoice,
    now: i64,
) -> Markup {
    let shown = choice.metric.of_last_day();
    let head = format!("last 24 h, {}", shown.tab().title.to_lowercase().replace("mos", "MOS"));
    let rendered = html! {
        thead {
            tr {
                @for column in ["path", "→", "←"] { th scope="col" { (column) } }
                th scope="col" { (head) }
                th scope="col" { "since" }
                th.words scope="col" { "packets" }
            }
        }
        tbody { @for row in rows.iter().take(MAX_LISTED) { (one(row, days, choice, now)) } }
    };
    html! {
        (cards("All paths", &rendered))
        @if rows.len() > MAX_LISTED { p { (rows.len() - MAX_LISTED) " more paths are in the matrix." } }
    }
}

fn one(row: &PathRow<'_>, days: &BTreeMap<i64, LastDay>, choice: &OverviewChoice, now: i64) -> Markup {
    let s = row.forward;
    let arrow = if row.back.is_some() { "⇄" } else { s.arrow() };
    let changed = row.streams().filter_map(|s| Some((s, s.bad_since_ns?)));
    let lines: Vec<&LastDay> = row.streams().filter_map(|s| days.get(&s.id)).collect();
    html! {
        tr {
            th scope="row" title={(s.src()) " " (arrow) " " (s.dst())} { a href=(s.address()) { (s.src()) " " (arrow) " " (s.dst()) } }
            (direction("→", Some(s), choice.metric, now))
            (direction("←", row.back, choice.metric, now))
            td data-label="last 24 h" { (line(&lines, choice.metric.of_last_day())) }
            td data-label="since" {
                @for (s, since) in changed {
                    @let least = if s.bad_tests_at_least { "at least " } else { "" };
                    @let tests = counted(s.bad_tests.try_into().unwrap_or(usize::MAX), "test", "tests");
                    div { (s.verdict.word()) " for " (least) (times::length(now.saturating_sub(since))) " (" (tests) ")" }
                }
            }
            td.words data-label="packets" { (described(&s.stream)) }
        }
    }
}

/// Renders the newest test of a direction: its number, or its verdict in a word; the age only if it is silent.
fn direction(sign: &str, stream: Option<&StreamNow>, metric: CellMetric, now: i64) -> Markup {
    let Some(s) = stream else { return html! { td { "–" } } };
    let label = sign;
    let (class, sign, word) = s.shown();
    let number = metric.of(s).map(three_digits);
    let title = format!("{} {} {}: {word}", s.src(), s.arrow(), s.dst());
    html! {
        td.(class) data-label=(label) {
            a href={"/test/" (s.test)} title=(title) {
                @match (metric, number) {
                    (CellMetric::Verdict, _) => (badge(sign, word)),
                    (_, Some(number)) => span.level { span aria-hidden="true" { (sign) } " " (number) },
                    (_, None) => span.level { span aria-hidden="true" { (sign) } " –" },
                }
            }
            @if s.silent { " " small { (age(s, now)) } }
        }
    }
}

/// Draws the last day of up to two streams, the second one dashed, on a scale that begins at 0, or at the smallest value if
/// that is negative.
fn line(days: &[&LastDay], metric: CellMetric) -> Markup {
    let all = || days.iter().flat_map(|day| day.iter().flatten().copied());
    let Some(most) = all().max_by(f64::total_cmp) else { return html! { "–" } };
    let least = all().min_by(f64::total_cmp).unwrap_or(0.0).min(0.0);
    let [width, height] = LINE_SIZE;
    let path = |day: &LastDay| {
        let mut path = String::new();
        let mut is_drawn = false;
        for (k, value) in day.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = width * k as f64 / (POINTS - 1) as f64;
            let y = height - 1.0 - (height - 2.0) * (value - least) / (most - least).max(f64::MIN_POSITIVE);
            // A line of no length is a dot, so that a single value is visible.
            let _ = match is_drawn {
                true => write!(path, "L{x:.1} {y:.1}"),
                false => write!(path, "M{x:.1} {y:.1}h0"),
            };
            is_drawn = true;
        }
        path
    };
    let about = format!("at most {}", three_digits(metric.shown(most)));
    html! {
        svg.day viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img" aria-label=(about) {
            title { (about) }
            @for (k, day) in days.iter().enumerate() {
                path d=(path(day)) fill="none" stroke="currentColor" stroke-width="1.3"
                    stroke-linecap="round" stroke-dasharray=[(k > 0).then_some("3 2")];
            }
        }
    }
}
