//! The HTML report: one file that needs no network.
//!
//! It begins with the screen report, with delay over time as a figure or the table of an instrument. The other
//! figures follow, interactive with scripts, static without them and in print. Collapsed sections contain the
//! reliability of the figures, all figures in tables, and the facts needed to repeat and assess the test:
//! parameters, hosts, clocks.

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
use crate::text::outcome;
use crate::text::screen::{Relation, Screen, ScreenStream, shown_shift};
use crate::text::short_label;
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
    /// Section before the parts, for instruments that measure more than single directions.
    pub section: Option<&'a Section>,
    /// One part per direction or run, at least one.
    pub parts: &'a [ReportPart<'a>],
    /// True if figures show latency corrected by the clock estimate (`-L`).
    pub corrected: bool,
    /// Command line that created the report; `None` if not shown.
    pub command: Option<&'a str>,
    /// Name and version of the program.
    pub program: &'a str,
    /// Time of creation; `None` if not shown.
    pub written: Option<WallTime>,
}

/// Renders the report as one self-contained HTML document.
pub fn page(report: &HtmlReport<'_>) -> String {
    framed(report, None)
}

/// Renders the report as one page of a site, with the style sheet and script of the site.
pub fn page_in(report: &HtmlReport<'_>, frame: &PageFrame<'_>) -> String {
    framed(report, Some(frame))
}

fn framed(report: &HtmlReport<'_>, frame: Option<&PageFrame<'_>>) -> String {
    let alone = report.parts.len() == 1;
    let directions = are_directions(report.parts);
    let screen = answer(report);
    // An instrument with figures replaces the figure of delay over time.
    let drawn = report.section.is_some_and(|section| !section.figures.is_empty());
    let course = if drawn { None } else { course(report.parts) };
    let mut groups = groups(report, directions);
    if alone && course.is_some() {
        // The first figure has the same packets.
        groups.iter_mut().for_each(|group| group.figures.retain(|figure| figure.id != figure::BURSTINESS));
        groups.retain(|group| !group.figures.is_empty());
    }

    let title = title(report);
    let what = what(report);
    let header = html! { @for line in &what { p.what { (line) } } };
    // If the instrument has its own verdict, its table is a detail.
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
                (folded("reliability", "Reliability", &html! {
                    (list(screen.trust()))
                    @for part in report.parts { (reliability(part, alone)) }
                }))
            }
            @if !report.parts.is_empty() { (details(report, alone, directions)) }
            (shell::footer(report.command, report.program, report.written))
        }
        (data(course.as_ref(), &groups))
    };
    shell::document(&title, report.program, frame, &header, &body).into_string()
}

/// Renders the collapsed sections below the figures.
fn details(report: &HtmlReport<'_>, alone: bool, directions: bool) -> Markup {
    html! {
        (folded("meaning", "Findings", &html! {
            @for part in report.parts { (meaning(part, alone)) }
        }))
        (folded("tables", "All figures", &html! {
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

/// Returns the beginning of the report, to be drawn as one card, with the first figure of an instrument if it has figures.
/// `None` without a verdict.
pub fn first_screen(report: &HtmlReport<'_>) -> Option<FirstScreen> {
    let screen = answer(report)?;
    let own = report.section.and_then(|section| section.figures.first().cloned());
    let mut figure = own.or_else(|| course(report.parts));
    if report.parts.len() == 1 || are_directions(report.parts) {
        // Clear the host and time of the figures: the title and the line below it contain them.
        figure.iter_mut().for_each(|figure| figure.measured.clear());
    }
    let first = FirstScreen::new(title(report), what(report), &screen, figure);
    Some(first.made_by(shell::made(report.program, report.written)))
}

/// Returns the screen report; `None` without a verdict.
fn answer(report: &HtmlReport<'_>) -> Option<Screen> {
    let own = report.section.and_then(|section| section.screen.clone());
    let parts = Some(report.parts).filter(|parts| !parts.is_empty());
    own.or_else(|| Some(screen(parts?, are_directions(report.parts))))
}

/// Describes the measurement, with one line per run; both directions of a test share a line.
fn what(report: &HtmlReport<'_>) -> Vec<String> {
    let (alone, directions) = (report.parts.len() == 1, are_directions(report.parts));
    let shown = if directions { &report.parts[..1] } else { report.parts };
    let line = |part: &ReportPart<'_>| {
        let label = if alone || directions { String::new() } else { format!("{}: ", part.label) };
        let both = if directions { "per direction: " } else { "" };
        format!("{label}{both}{}", tables::what(part.summary))
    };
    report.section.map(|section| section.what.clone()).into_iter().chain(shown.iter().map(line)).collect()
}

/// True if `parts` are the two directions of one test: their sessions have the same name.
fn are_directions(parts: &[ReportPart<'_>]) -> bool {
    let [a, b] = parts else { return false };
    let (a, b) = (a.summary, b.summary);
    a.session.id.is_some()
        && a.session.id == b.session.id
        && a.direction().is_some()
        && b.direction().is_some()
        && a.direction() != b.direction()
}

/// Returns the screen report without the line that shows delay over time: pages show a figure instead.
fn screen(parts: &[ReportPart<'_>], directions: bool) -> Screen {
    let samples = Samples::default();
    let streams: Vec<ScreenStream<'_>> = parts
        .iter()
        .map(|part| ScreenStream { label: part.label, summary: part.summary, samples: &samples })
        .collect();
    Screen::new(&streams, if directions { Relation::Directions } else { Relation::Separate })
}

/// Draws delay over time of all parts; `None` without packets.
fn course(parts: &[ReportPart<'_>]) -> Option<Figure> {
    let known = parts.iter().filter_map(|part| Some((short_label(part.label), part.summary, part.trace?)));
    let drawn: Vec<DrawnStream<'_>> = known
        .map(|(label, summary, trace)| DrawnStream { label, summary, trace, minus: shown_shift(summary) })
        .collect();
    figure::delay_over_time(&drawn)
}

/// Returns the groups of figures: one for the instrument, one for each part, one for all parts together.
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
        (None, Some(ends)) => format!("Path report: {ends}"),
        (None, None) => "Path report".into(),
    }
}

fn list(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() { ul { @for line in lines { li { (micro(line)) } } } }
    }
}

/// Renders the reliability of one part's figures, and every warning about it.
fn reliability(part: &ReportPart<'_>, alone: bool) -> Markup {
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

/// Renders the findings of one part, and the certainty of its profiles' verdicts.
fn meaning(part: &ReportPart<'_>, alone: bool) -> Markup {
    let opinion = Opinion::of(part.summary);
    html! {
        h3 { (heading(part, "In words", alone)) }
        p { (micro(&opinion.headline)) }
        ul.findings {
            @for f in &opinion.findings { (first::finding(f.level, parts::level_word(f.level), &f.text)) }
        }
        (uses(part.summary))
        (scores(part.summary))
    }
}

/// Renders the verdict for each profile.
fn uses(summary: &Summary) -> Markup {
    let answer = summary.answer.iter();
    let rows = answer.flat_map(|a| &a.profiles).map(|(name, s)| {
        let mos = s.mos.map_or(String::new(), |mos| format!("MOS {mos:.2}"));
        let limits = s.limits.clone().unwrap_or_default();
        vec![name.clone(), s.severity.name().to_owned(), s.because.clone(), mos, limits]
    });
    let columns = ["profile", "verdict", "because", "voice quality", "uncertainty"].map(str::to_owned);
    table(&columns, &rows.collect::<Vec<_>>())
}

/// Renders the scores of Quality of Outcome of a test, and of each direction of a round-trip test, with their terms.
fn scores(summary: &Summary) -> Markup {
    let whole = summary.answer.as_ref().and_then(|answer| answer.qoo.as_ref());
    let ways = summary.two_way.as_deref().into_iter().flat_map(|t| [t.up.as_ref(), t.down.as_ref()]);
    let all = whole.into_iter().chain(ways.filter_map(|way| way?.qoo.as_ref()));
    let rows = all.flat_map(|qoo| {
        outcome::in_order(qoo).into_iter().map(|(name, of)| {
            let (score, why) = match outcome::score(of) {
                Ok(score) => (score, String::new()),
                Err(why) => ("none".to_owned(), why),
            };
            let terms = outcome::terms(of).unwrap_or_default();
            let because = if why.is_empty() { terms } else { format!("{why}; {terms}") };
            vec![name.to_owned(), qoo.measurement.direction.clone(), score, because]
        })
    });
    let columns = ["profile", "direction", "Quality of Outcome (95 %)", "terms"].map(str::to_owned);
    table(&columns, &rows.collect::<Vec<_>>())
}
