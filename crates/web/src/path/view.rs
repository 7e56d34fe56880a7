//! The page of a path.

use super::chart::{self, Chart, ChartOverlay, ChartPeriod, ChartSide, ChartSize};
use super::choice::{RANGES, ShownQuantity, period};
use super::{PathPage, PathSide, PeriodFigures, events, percentile, read};
use crate::now::{badge, described};
use crate::numbers::{share, time};
use crate::page::{self, PageTab, cards, encoded};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times::{self, CalendarUnit};
use crate::verdict::TestVerdict;
use crate::zone::UTC;
use jitlat_archive::{Archive, PooledStream, StreamPeriod};
use jitlat_core::pool::Pool;
use maud::{Markup, PreEscaped, html};
use std::collections::BTreeSet;

/// Maximum number of hosts that the fields of another path suggest.
const MAX_SUGGESTED: usize = 500;

/// Renders the page.
pub fn page(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, asked, times::now())?))
}

impl PathSide {
    fn title(&self) -> String {
        let arrow = if self.course.stream.direction == "both" { "⇄" } else { "→" };
        format!("{} {arrow} {}", self.names[0], self.names[1])
    }
}

impl PathPage {
    /// Returns the direction that the address names.
    fn named(&self) -> &PathSide {
        &self.sides[0]
    }

    /// Returns the address of the page of the named direction, without parameters.
    fn path(&self) -> String {
        path(&self.named().course.stream)
    }

    /// Returns the address of the page that shows another period of the same path.
    fn address(&self, span: (i64, i64)) -> String {
        self.with(self.named().course.id, self.choice.shown) + &period(span)
    }

    fn with(&self, id: i64, shown: ShownQuantity) -> String {
        self.path() + &self.choice.parameters(id, shown)
    }

    fn here(&self) -> (i64, i64) {
        (self.named().course.from_ns, self.named().course.to_ns)
    }

    /// Returns the parameters of the period that is shown: those of the recent range, or its ends.
    fn same_period(&self) -> String {
        match self.choice.range {
            Some(range) => format!("&range={}", range.name),
            None => period(self.here()),
        }
    }

    /// Returns the address to which a period links: the same period divided into shorter ones, or the test.
    fn into(&self, period: &PeriodFigures) -> String {
        match &period.test {
            Some(test) => format!("/test/{test}"),
            None => self.address((period.start_ns, period.end_ns)),
        }
    }

    /// Returns the name of a period, as precise as its length requires.
    fn name(&self, period: &PeriodFigures) -> String {
        let length = match self.named().course.by {
            "test" => 19,
            // Days and months of UTC begin within those of other zones, so that their starts are shown with the time.
            "day" if self.choice.zone.is_utc() => 10,
            "month" if self.choice.zone.is_utc() => 7,
            _ => 16,
        };
        self.choice.zone.text(period.start_ns).chars().take(length).collect()
    }
}

fn path(stream: &PooledStream) -> String {
    format!("/path/{}/{}", encoded(&stream.src), encoded(&stream.dst))
}

fn write(view: &PathPage) -> String {
    let named = view.named();
    let stream = &named.course.stream;
    let arrow = if view.sides.len() > 1 || stream.direction == "both" { "⇄" } else { "→" };
    let [src, dst] = &named.names;
    let title = format!("{src} {arrow} {dst}");
    let has_names = *src != stream.src || *dst != stream.dst;
    let header = html! {
        p.what { @if has_names { (stream.src) " " (arrow) " " (stream.dst) ", " } (described(stream)) }
    };
    let main = html! {
        div data-live="path" {
            @for side in &view.sides { (state(side, view)) }
            (others(view))
            (steps(view))
        }
        (picker(view))
        div data-live="figures" {
            (drawing(view))
            (summary(view))
            (events::list(view))
            (events::routes(view))
            (table(view))
        }
    };
    page::wide_page(&title, PageTab::None, &view.choice.zone, &header, &main).0
}

/// Renders a link in a list; `current` is true if it leads to the page shown.
fn link(address: &str, current: bool, text: &str) -> Markup {
    html! { li { a href=(address) aria-current=[current.then_some("true")] { (text) } } }
}

/// Renders links to the other direction, and to other streams of the same direction.
fn others(view: &PathPage) -> Markup {
    let several = view.streams.iter().filter(|_| view.streams.len() > 1);
    let here = view.here();
    let (from, to) = here;
    let before = times::address(from.saturating_sub(to.saturating_sub(from)));
    let (from, to) = (times::address(from), times::address_after(to));
    let PooledStream { src, dst, .. } = &view.named().course.stream;
    let (src, dst) = (encoded(src), encoded(dst));
    let compare = format!("/compare?src={src}&dst={dst}&from={before}&to={from}&from2={from}&to2={to}");
    let shown = |shown| view.with(view.named().course.id, shown) + &view.same_period();
    html! {
        ul.steps aria-label="Other views of this path" {
            @for (name, quantity) in ShownQuantity::NAMES {
                (link(&shown(quantity), quantity == view.choice.shown, name))
            }
            @for (id, stream) in several {
                (link(&view.with(*id, view.choice.shown), *id == view.named().course.id, &described(stream)))
            }
            @for back in view.sides.iter().skip(1) {
                (link(&(path(&back.course.stream) + &view.choice.parameters(back.course.id, view.choice.shown) + &view.same_period()), false, &format!("Show {} first", back.title())))
            }
            (link(&compare, false, "Compare with the previous period"))
            @if view.can_run { (link(&format!("/run?host={dst}"), false, "Test it now")) }
        }
    }
}

/// Renders the newest verdict of a direction, and the start of a bad period.
fn state(side: &PathSide, view: &PathPage) -> Markup {
    let Some((verdict, at, test)) = side.last else { return Markup::default() };
    let class = if verdict.is_bad() {
        verdict.word()
    } else if verdict == TestVerdict::Good {
        "good"
    } else {
        "note"
    };
    let zone = &view.choice.zone;
    let since = side.bad_since.map_or(String::new(), |at| format!(" since {}", zone.text(at)));
    html! {
        p.headline.(class) {
            (side.title()) ": " (verdict.sign()) " " (verdict.word()) (since) ". Last test: "
            a href=(format!("/test/{test}")) { (zone.text(at)) }
            "."
        }
    }
}

/// Renders links to recent ranges, to longer and shorter periods, and to the previous and next ones.
fn steps(view: &PathPage) -> Markup {
    let (from, to) = view.here();
    let (first, after_all) = view.extent;
    let length = to.saturating_sub(from);
    let zone = &view.choice.zone;
    let recent = view.with(view.named().course.id, view.choice.shown);
    let mut links = vec![("all".to_owned(), (first, after_all))];
    let around = CalendarUnit::ALL.map(|unit| (unit, unit.around(from.max(first), zone)));
    let longer = around.into_iter().filter(|(_, (start, end))| end.saturating_sub(*start) >= length);
    links.extend(longer.map(|(unit, (start, end))| (unit.name(start, zone), (start, end))));
    links.push(("earlier".to_owned(), (from.saturating_sub(length), from)));
    if to < after_all {
        links.push(("later".to_owned(), (to, to.saturating_add(length))));
    }
    html! {
        nav aria-label="Time" {
            ul.steps {
                @for range in &RANGES {
                    (link(&format!("{recent}&range={}", range.name), view.choice.range == Some(range), range.title))
                }
                @for (text, span) in links {
                    @let address = view.address(span);
                    (link(&address, address == view.address((from, to)) && view.choice.range.is_none(), &text))
                }
            }
        }
    }
}

/// Renders the form with the period, the time zone and the overlays.
fn picker(view: &PathPage) -> Markup {
    let zone = &view.choice.zone;
    let (from, to) = view.here();
    let [src2, dst2] = view.choice.other.clone().unwrap_or_default();
    let hosts: BTreeSet<&String> = view.hosts.values().collect();
    let zones = [UTC.to_owned(), zone.name.clone()];
    html! {
        form.limits.picker action=(view.path()) data-zone=(zone.name) {
            input type="hidden" name="stream" value=(view.named().course.id);
            @if view.choice.shown == ShownQuantity::Jitter { input type="hidden" name="show" value="jitter"; }
            label { "From " input type="datetime-local" step="1" name="from" value=(zone.field(from)); } " "
            label { "to " input type="datetime-local" step="1" name="to" value=(zone.field(to.saturating_add(times::SECOND - 1))); } " "
            label { "Time zone "
                select name="zone" {
                    @for name in &zones[..if zone.is_utc() { 1 } else { 2 }] {
                        option value=(name) selected[*name == zone.name] { (name) }
                    }
                }
            } " "
            label { input type="checkbox" name="week" value="1" checked[view.choice.has_week]; " a week earlier" } " "
            span.group {
                label { "Another path: from " input name="src2" list="hosts" size="12" value=(src2); } " "
                label { "to " input name="dst2" list="hosts" size="12" value=(dst2); } " "
            }
            datalist #hosts { @for host in hosts.into_iter().take(MAX_SUGGESTED) { option value=(host) {} } }
            button { "Show" }
        }
    }
}

fn drawing(view: &PathPage) -> Markup {
    let course = &view.named().course;
    let is_empty =
        |side: &PathSide| side.course.periods.is_empty() && side.overlays.iter().all(|o| o.1.is_empty());
    if view.sides.iter().all(is_empty) {
        return html! { p.headline.note { "No tests in this period." } };
    }
    let sides: Vec<ChartSide> = view.sides.iter().map(|side| drawn(side, view)).collect();
    let two_way = course.stream.direction == "both";
    let (quantity, help) = match (view.choice.shown, two_way) {
        (ShownQuantity::Jitter, _) => {
            ("jitter", "Jitter is the delay above the smallest delay of each test. ")
        }
        (ShownQuantity::Delay, true) => ("round trip", ""),
        (ShownQuantity::Delay, false) => (
            "one-way delay, as measured",
            "One-way delays include the difference of the two hosts' clocks: changes are reliable, absolute values may not be. ",
        ),
    };
    let drawn = |size| {
        chart::svg(&Chart {
            span: view.here(),
            zone: &view.choice.zone,
            quantity,
            has_one_axis: view.choice.shown == ShownQuantity::Jitter,
            sides: &sides,
            size,
        })
    };
    let ((svg, is_logarithmic), (narrow, _)) = (drawn(ChartSize::Wide), drawn(ChartSize::Narrow));
    let overlays = view.named().overlays.iter().enumerate();
    let has = |sign: &str| sides.iter().flat_map(|side| &side.marks).any(|mark| mark.sign == sign);
    html! {
        figure {
            div.drawn tabindex="0" role="group" aria-label="Delay, loss and verdicts over time" data-zoom=(view.with(course.id, view.choice.shown)) {
                (PreEscaped(svg))
                (PreEscaped(narrow))
            }
            p.exports {
                a href=(view.path() + "/csv" + &view.choice.parameters(course.id, view.choice.shown) + &view.same_period()) { "CSV" }
                " "
                a href=(view.address(view.here())) data-link { "Link to this view" }
                " "
                button type="button" data-png=(format!("jitlat-{}-{}.png", view.named().names[0], view.named().names[1])) hidden { "PNG" }
            }
            figcaption {
                ul.key {
                    li { span.line.p50 {} "median" }
                    li { span.line.p99 {} "99th percentile" }
                    @for (k, (name, _)) in overlays { li { span.line.(format!("over{k}")) {} (name) ": median, dotted: 99th percentile" } }
                    li { "shades: number of packets by delay, per " (course.by) }
                    li { "verdict: a higher bar is worse" }
                    @if has("◆") { li { "◆ the route changed" } }
                    @if has("■") { li { "■ a host disturbed the test" } }
                }
                @if is_logarithmic { "Delays are on a logarithmic scale. " }
                (help)
                "Select a period to zoom in, down to a single test; the table below has the same links. "
                span data-with-script hidden { "Drag across the figure to zoom; keys: + and −, ← and →." }
            }
        }
    }
}

/// Collects what is drawn of a direction.
fn drawn(side: &PathSide, view: &PathPage) -> ChartSide {
    let course = &side.course;
    let column = |(period, pool): (&PeriodFigures, &StreamPeriod)| ChartPeriod {
        span: (period.start_ns, period.end_ns),
        delays: view.choice.shown.of(&pool.pool).counted().collect(),
        percentiles: percentiles(view.choice.shown, &pool.pool),
        loss: period.loss,
        verdict: period.worst,
        address: view.into(period),
        about: about(side, view, period),
    };
    let overlay = |(_, periods): &(String, Vec<StreamPeriod>)| {
        let step = |period: &StreamPeriod| {
            Some(((period.start_ns, period.end_ns), percentiles(view.choice.shown, &period.pool)?))
        };
        ChartOverlay { steps: periods.iter().filter_map(step).collect() }
    };
    ChartSide {
        title: side.title(),
        columns: course.periods.iter().zip(&side.pools).map(column).collect(),
        overlays: side.overlays.iter().map(overlay).collect(),
        gaps: course.gaps.iter().flatten().map(|gap| (gap.from_ns, gap.to_ns)).collect(),
        changes: course.changes.iter().flatten().map(|change| (change.at_ns, change.bad)).collect(),
        marks: events::marks(side, view),
    }
}

/// Returns median and 99th percentile of a quantity.
fn percentiles(shown: ShownQuantity, pool: &Pool) -> Option<(i64, i64)> {
    let of = shown.of(pool);
    percentile(of, 50_000).zip(percentile(of, 99_000))
}

fn about(side: &PathSide, view: &PathPage, period: &PeriodFigures) -> String {
    let (median, p99) = match view.choice.shown {
        ShownQuantity::Delay => (period.delay_median_ns, period.delay_p99_ns),
        ShownQuantity::Jitter => (period.jitter_median_ns, period.jitter_p99_ns),
    };
    let verdict = period.worst.map_or(String::new(), |verdict| {
        format!(", {}{}", if period.tests > 1 { "worst verdict " } else { "" }, verdict.word())
    });
    let tests = if period.tests == 1 { "1 test".to_owned() } else { format!("{} tests", period.tests) };
    let (title, name) = (side.title(), view.name(period));
    let (median, p99, loss) = (time(median), time(p99), share(period.loss));
    format!("{title}, {name}: {tests}, median {median}, 99 % below {p99}, loss {loss}{verdict}")
}

/// Columns of the tables of figures, after the one that names the row.
const FIGURES: [&str; 6] = ["tests", "packets", "lost", "median delay", "p99 delay", "p99 jitter"];

fn figures(of: &PeriodFigures) -> Markup {
    let values = [
        of.tests.to_string(),
        of.sent.to_string(),
        share(of.loss),
        time(of.delay_median_ns),
        time(of.delay_p99_ns),
        time(of.jitter_p99_ns),
    ];
    html! { @for (name, value) in FIGURES.iter().zip(values) { td data-label=(name) { (value) } } }
}

/// Renders the figures of all packets shown.
fn summary(view: &PathPage) -> Markup {
    let (from, to) = view.here();
    let zone = &view.choice.zone;
    let of_overlay = |periods: &[StreamPeriod]| {
        let mut all = StreamPeriod { start_ns: from, end_ns: to, test: None, pool: Pool::default() };
        periods.iter().for_each(|period| all.pool.merge(&period.pool));
        figures(&PeriodFigures::new(&all, to, None))
    };
    let rows = html! {
        thead { tr { @for column in ["direction"].iter().chain(&FIGURES) { th scope="col" { (column) } } } }
        tbody {
            @for side in &view.sides {
                tr { th scope="row" { (side.title()) } (figures(&side.course.all)) }
                @for (name, periods) in &side.overlays {
                    tr { th scope="row" { (side.title()) ": " (name) } (of_overlay(periods)) }
                }
            }
        }
    };
    html! {
        h2 { (zone.text(from)) " to " (zone.text(to)) }
        (cards("Figures of the whole period", &rows))
    }
}

/// Renders the table of all periods with figures and links, newest first.
fn table(view: &PathPage) -> Markup {
    let by = view.named().course.by;
    let mut all: Vec<(&PathSide, &PeriodFigures)> = view
        .sides
        .iter()
        .flat_map(|side| side.course.periods.iter().map(move |period| (side, period)))
        .collect();
    if all.is_empty() {
        return Markup::default();
    }
    // Both directions of a period follow each other.
    all.sort_by_key(|(_, period)| std::cmp::Reverse(period.start_ns));
    let has_directions = view.sides.len() > 1;
    let rows = html! {
        thead {
            tr {
                th scope="col" { (by) }
                @if has_directions { th scope="col" { "direction" } }
                @for column in FIGURES { th scope="col" { (column) } }
                th scope="col" { "worst verdict" }
            }
        }
        tbody {
            @for (side, period) in &all {
                tr {
                    th scope="row" { a href=(view.into(period)) { (view.name(period)) } }
                    @if has_directions { td data-label="direction" { (side.title()) } }
                    (figures(period))
                    @match period.worst {
                        Some(v) => { td.(v.word()) data-label="worst verdict" { (badge(v.sign(), v.word())) } },
                        None => { td data-label="worst verdict" { "–" } },
                    }
                }
            }
        }
    };
    html! {
        details.fold open[all.len() <= 31] {
            summary { h2 { "By " (by) } }
            @if by == "day" && !view.choice.zone.is_utc() { p { "Days begin at 00:00 UTC." } }
            (cards(&format!("Figures by {by}"), &rows))
        }
    }
}
