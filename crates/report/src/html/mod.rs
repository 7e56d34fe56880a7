//! The HTML report: one file that needs no network.
//!
//! First what the console shows on one screen, with delay over time as a figure or the table of an instrument; then the other figures (interactive with
//! scripts, static without them and in print); and folded away how far to believe it, every figure in tables, and
//! everything needed to repeat the test and to judge it: parameters, hosts, clocks.

mod comparison;
mod evidence;
mod first;
mod parts;
mod shell;
mod tables;
mod two_way;
mod windows;

pub use comparison::{comparison, first_screen_of};
pub use parts::{ReportPart, scrolling};
pub use shell::{PageFrame, SCRIPT, STYLE, document};

use crate::figure::{self, DrawnRun, DrawnStream, Figure};
use crate::text::screen::{Relation, Screen, ScreenStream, shown_shift};
use crate::{FirstScreen, Section};
use jitlat_core::analysis::Samples;
use jitlat_core::summary::Summary;
use jitlat_core::time::WallTime;
use jitlat_verdict::Opinion;
use maud::{Markup, html};
use parts::{FigureGroup, Printed, data, folded, heading, is_passive, micro, plots, sentence, table};

/// The contents of a report.
#[derive(Clone, Copy, Debug)]
pub struct HtmlReport<'a> {
    /// What precedes the parts, for instruments that measure more than single directions.
    pub section: Option<&'a Section>,
    /// One part per direction or run, at least one.
    pub parts: &'a [ReportPart<'a>],
    /// Whether figures show latency corrected by the clock estimate (`-L`).
    pub corrected: bool,
    /// The command line that created it; `None`: not shown.
    pub command: Option<&'a str>,
    /// The program and its version.
    pub program: &'a str,
    /// When it was written; `None`: not shown.
    pub written: Option<WallTime>,
}

/// Writes the report as one self-contained HTML document.
pub fn page(report: &HtmlReport<'_>) -> String {
    framed(report, None)
}

/// Writes the report as one page of a site, whose style sheet and script are files of it.
pub fn page_in(report: &HtmlReport<'_>, frame: &PageFrame<'_>) -> String {
    framed(report, Some(frame))
}

fn framed(report: &HtmlReport<'_>, frame: Option<&PageFrame<'_>>) -> String {
    let alone = report.parts.len() == 1;
    let directions = are_directions(report.parts);
    let groups = groups(report, directions);
    let screen = answer(report);
    // An instrument with figures has one over time of its own.
    let drawn = report.section.is_some_and(|section| !section.figures.is_empty());
    let course = if drawn { None } else { course(report.parts) };

    let title = title(report);
    let what = what(report);
    let header = html! { @for line in &what { p.what { (line) } } };
    // After an answer of its own an instrument's table is a detail.
    let (detail, table): (Vec<&Section>, Vec<&Section>) =
        report.section.into_iter().partition(|section| section.screen.is_some());
    let first = screen.as_ref().map(|screen| FirstScreen::new(title.clone(), what, screen, course.clone()));
    let body = html! {
        main id=[frame.map(|_| "main")] {
            @if let Some(first) = &first { (first::section(first)) }
            @for section in table { (of_instrument(section, &section.title)) }
            (plots(&groups))
            @for section in detail { (of_instrument(section, "In numbers")) }
            @if let Some(screen) = &screen {
                (folded("belief", "How far to believe it", &html! {
                    (list(screen.trust()))
                    @for part in report.parts { (belief(part, alone)) }
                }))
            }
            @if !report.parts.is_empty() { (details(report, alone, directions)) }
            (shell::footer(report.command, report.program, report.written))
        }
        (data(course.as_ref(), &groups))
    };
    shell::document(&title, report.program, frame, &header, &body).into_string()
}

/// What is folded away below the figures.
fn details(report: &HtmlReport<'_>, alone: bool, directions: bool) -> Markup {
    html! {
        (folded("meaning", "What the figures mean", &html! {
            @for part in report.parts { (meaning(part, alone)) }
        }))
        (folded("tables", "Every figure", &html! {
            @for part in report.parts {
                (tables::section(part, alone))
                (two_way::section(part, alone))
            }
            @for part in report.parts { (windows::section(part, alone)) }
        }))
        (folded("parameters", "Parameters, hosts and clocks", &html! {
            @for part in report.parts { (evidence::section(part, alone, directions)) }
        }))
    }
}

/// What the report begins with, to be drawn as one card: with an instrument's first figure where it has figures. `None`
/// where there is no answer.
pub fn first_screen(report: &HtmlReport<'_>) -> Option<FirstScreen> {
    let screen = answer(report)?;
    let own = report.section.and_then(|section| section.figures.first().cloned());
    let mut figure = own.or_else(|| course(report.parts));
    if report.parts.len() == 1 || are_directions(report.parts) {
        // The title says where, and the line below it when.
        figure.iter_mut().for_each(|figure| figure.measured.clear());
    }
    let first = FirstScreen::new(title(report), what(report), &screen, figure);
    Some(first.made_by(shell::made(report.program, report.written)))
}

/// What the console shows of it; `None`: nothing.
fn answer(report: &HtmlReport<'_>) -> Option<Screen> {
    let own = report.section.and_then(|section| section.screen.clone());
    let parts = Some(report.parts).filter(|parts| !parts.is_empty());
    own.or_else(|| Some(screen(parts?, are_directions(report.parts))))
}

/// What was measured, a line for each run; of both directions of a test one.
fn what(report: &HtmlReport<'_>) -> Vec<String> {
    let (alone, directions) = (report.parts.len() == 1, are_directions(report.parts));
    let shown = if directions { &report.parts[..1] } else { report.parts };
    let line = |part: &ReportPart<'_>| {
        let label = if alone || directions { String::new() } else { format!("{}: ", part.label) };
        let both = if directions { "each way " } else { "" };
        format!("{label}{both}{}", tables::what(part.summary))
    };
    report.section.map(|section| section.what.clone()).into_iter().chain(shown.iter().map(line)).collect()
}

/// Whether `parts` are the two directions of one test, which have the same session name.
fn are_directions(parts: &[ReportPart<'_>]) -> bool {
    let [a, b] = parts else { return false };
    let (a, b) = (a.summary, b.summary);
    a.session.id.is_some()
        && a.session.id == b.session.id
        && a.direction().is_some()
        && b.direction().is_some()
        && a.direction() != b.direction()
}

/// What the console shows; delay over time is a figure here.
fn screen(parts: &[ReportPart<'_>], directions: bool) -> Screen {
    let samples = Samples::default();
    let streams: Vec<ScreenStream<'_>> = parts
        .iter()
        .map(|part| ScreenStream { label: part.label, summary: part.summary, samples: &samples })
        .collect();
    Screen::new(&streams, if directions { Relation::Directions } else { Relation::Separate })
}

/// Delay over time of all parts; `None` without packets.
fn course(parts: &[ReportPart<'_>]) -> Option<Figure> {
    let name = |label| match label {
        "Client to server" => "to server",
        "Server to client" => "to client",
        label => label,
    };
    let known = parts.iter().filter_map(|part| Some((name(part.label), part.summary, part.trace?)));
    let drawn: Vec<DrawnStream<'_>> = known
        .map(|(label, summary, trace)| DrawnStream { label, summary, trace, minus: shown_shift(summary) })
        .collect();
    figure::delay_over_time(&drawn)
}

/// The figures: of the instrument, of each part, of all parts in one.
fn groups(report: &HtmlReport<'_>, directions: bool) -> Vec<FigureGroup> {
    let alone = report.parts.len() == 1;
    let mut groups = Vec::new();
    groups.extend(report.section.map(|s| FigureGroup {
        name: s.title.clone(),
        figures: s.figures.clone(),
        printed: Printed::All,
    }));
    for (k, part) in report.parts.iter().enumerate() {
        let label = if alone { "" } else { part.label };
        let run = DrawnRun { label, summary: part.summary, trace: part.trace, corrected: report.corrected };
        let mut figures = figure::of_run(&run);
        if !alone {
            figures.iter_mut().for_each(|f| f.id = format!("{}-{}", f.id, k + 1));
        }
        let printed = if alone || directions { Printed::Principal } else { Printed::None };
        let name = if label.is_empty() { "this test" } else { label };
        groups.push(FigureGroup { name: name.to_owned(), figures, printed });
    }
    if report.parts.len() > 1 {
        let runs: Vec<_> = report
            .parts
            .iter()
            .map(|p| figure::ComparedRun::new(p.label, p.summary).corrected(report.corrected, p.summary))
            .collect();
        let printed = if directions { Printed::None } else { Printed::All };
        let mut figures = figure::of_runs(&runs);
        let measured = report.parts.iter().map(|p| (p.label, p.summary.measured()));
        figure::label_measured(&mut figures, &figure::measured_of_several(measured));
        groups.push(FigureGroup { name: "side by side".into(), figures, printed });
    }
    groups.retain(|g| !g.figures.is_empty());
    groups
}

fn of_instrument(s: &Section, title: &str) -> Markup {
    html! {
        @if !s.rows.is_empty() || !s.remarks.is_empty() {
            section.tables {
                h2 { (title) }
                (table(&s.columns, &s.rows))
                @for remark in &s.remarks { p { (micro(remark)) } }
            }
        }
    }
}

fn title(report: &HtmlReport<'_>) -> String {
    if let Some(section) = report.section {
        return sentence(&section.title);
    }
    let Some(first) = report.parts.first() else { return "jitlat report".into() };
    let info = &first.summary.session;
    let header = &first.summary.header;
    let [_, others @ ..] = report.parts else { return "jitlat report".into() };
    // The two directions of a test have the same session name.
    let one_test = others.iter().all(|p| p.summary.session.id.is_some() && p.summary.session.id == info.id);
    if !one_test {
        return format!("{} runs side by side", report.parts.len());
    }
    let ends = match (&header.src_ip, &header.dst_ip) {
        (Some(src), Some(dst)) if report.parts.len() > 1 => Some(format!("{src} and {dst}")),
        (Some(src), Some(dst)) => Some(format!("{src} to {dst}")),
        _ => None,
    };
    match (&info.name, ends) {
        (Some(name), Some(ends)) => format!("{name} – {ends}"),
        (Some(name), None) => name.clone(),
        (None, Some(ends)) => format!("What the path does: {ends}"),
        (None, None) => "What the path does".into(),
    }
}

fn list(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() { ul { @for line in lines { li { (micro(line)) } } } }
    }
}

/// How far to believe one part, and every warning about it.
fn belief(part: &ReportPart<'_>, alone: bool) -> Markup {
    let opinion = Opinion::of(part.summary);
    let warnings = &part.summary.warnings;
    if opinion.belief.is_empty() && warnings.is_empty() {
        return Markup::default();
    }
    html! {
        h3 { (heading(part, "In detail", alone)) }
        (list(&opinion.belief))
        @if !warnings.is_empty() {
            h3 { (heading(part, "Warnings", alone)) }
            ul.warnings { @for w in warnings { li data-code=(w.code) { (sentence(&w.text)) "." } } }
        }
    }
}

/// What was found in one part, and how well its quality for each use is known.
fn meaning(part: &ReportPart<'_>, alone: bool) -> Markup {
    let opinion = Opinion::of(part.summary);
    html! {
        h3 { (heading(part, "In words", alone)) }
        p { (micro(&opinion.headline)) }
        ul.findings {
            @for f in &opinion.findings { (first::finding(f.level, parts::level_word(f.level), &f.text)) }
        }
        (uses(part.summary))
    }
}

/// How suitable the path is for each use.
fn uses(summary: &Summary) -> Markup {
    let answer = summary.answer.iter();
    let rows = answer.flat_map(|a| &a.profiles).map(|(name, s)| {
        let mos = s.mos.map_or(String::new(), |mos| format!("MOS {mos:.2}"));
        let limits = s.limits.clone().unwrap_or_default();
        vec![name.clone(), s.severity.name().to_owned(), s.because.clone(), mos, limits]
    });
    let columns = ["for", "works", "because", "speech", "known less well, because"].map(str::to_owned);
    table(&columns, &rows.collect::<Vec<_>>())
}
