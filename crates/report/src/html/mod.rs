//! The HTML report: one file that needs no network.
//!
//! First the verdict, then the table of figures, then the plots (interactive with scripts, static without them and in
//! print), and at the end everything needed to repeat the test and to judge it: parameters, hosts, clocks, warnings.

mod comparison;
mod evidence;
mod parts;
mod passive;
mod shell;
mod tables;
mod two_way;
mod windows;

pub use comparison::{comparison, figures_of};
pub use parts::Part;
pub use passive::{passive_section, tcp_section};

use crate::escape::escape;
use crate::figure::{self, DrawnRun, Figure};
use crate::text;
use jitlat_core::summary::{Level, Summary};
use jitlat_core::time::WallTime;
use jitlat_core::verdict::Opinion;
use parts::{data, heading, is_passive, micro, plots, sentence, table};
use std::fmt::Write;

/// What an instrument adds to the figures of the parts: a table and figures of its own, shown first.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its title, and that of the whole report.
    pub title: String,
    /// What was measured, in one line.
    pub what: String,
    /// Remarks, one paragraph each.
    pub remarks: Vec<String>,
    /// Names of the columns; the first column names the rows.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Its figures, shown below the table.
    pub figures: Vec<Figure>,
}

/// The contents of a report.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What precedes the parts, for instruments that measure more than single directions.
    pub section: Option<&'a Section>,
    /// One part per direction or run, at least one.
    pub parts: &'a [Part<'a>],
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
pub fn page(report: &Report<'_>) -> String {
    let alone = report.parts.len() == 1;
    let mut figures: Vec<(String, Vec<Figure>)> = Vec::new();
    figures.extend(report.section.map(|s| (s.title.clone(), s.figures.clone())));
    if !alone && !report.parts.is_empty() {
        let runs: Vec<_> = report
            .parts
            .iter()
            .map(|p| figure::ComparedRun::new(p.label, p.summary).corrected(report.corrected, p.summary))
            .collect();
        figures.push(("Side by side".into(), figure::of_runs(&runs)));
    }
    for (k, part) in report.parts.iter().enumerate() {
        let label = if alone { "" } else { part.label };
        let run = DrawnRun { label, summary: part.summary, trace: part.trace, corrected: report.corrected };
        let mut drawn = figure::of_run(&run);
        if !alone {
            drawn.iter_mut().for_each(|f| f.id = format!("{}-{}", f.id, k + 1));
        }
        figures.push((label.to_owned(), drawn));
    }
    figures.retain(|(_, list)| !list.is_empty());

    let title = title(report);
    let mut out = String::with_capacity(1 << 18);
    shell::open(&mut out, &title, report.program);
    if let Some(section) = report.section {
        let _ = write!(out, "<p class=\"what\">{}</p>", escape(&section.what));
    }
    for part in report.parts {
        let label = if alone { String::new() } else { format!("{}: ", part.label) };
        let _ = write!(
            out,
            "<p class=\"what\">{}</p>",
            escape(&format!("{label}{}", tables::what(part.summary)))
        );
    }
    out.push_str("</header>\n<main>\n");
    if let Some(section) = report.section {
        write_section(&mut out, section);
    }
    for part in report.parts {
        opinion(&mut out, part, alone);
    }
    for part in report.parts {
        tables::write(&mut out, part, alone);
        two_way::write(&mut out, part, alone);
    }
    for part in report.parts {
        windows::write(&mut out, part, alone);
    }
    plots(&mut out, &figures);
    for part in report.parts {
        evidence::write(&mut out, part, alone);
    }
    shell::footer(&mut out, report.command, report.program, report.written);
    out.push_str("</main>\n");
    data(&mut out, &figures);
    shell::close(&mut out);
    out
}

fn write_section(out: &mut String, s: &Section) {
    let _ = write!(out, "<section class=\"tables\"><h2>{}</h2>", escape(&s.title));
    table(out, &s.columns, &s.rows);
    for r in &s.remarks {
        let _ = write!(out, "<p>{}</p>", escape(&micro(r)));
    }
    out.push_str("</section>\n");
}

fn title(report: &Report<'_>) -> String {
    if let Some(section) = report.section {
        return section.title.clone();
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

fn level_word(level: Level) -> &'static str {
    match level {
        Level::Good => "good",
        Level::Note => "note",
        Level::Poor => "poor",
        Level::Bad => "bad",
    }
}

fn opinion(out: &mut String, part: &Part<'_>, alone: bool) {
    let opinion = Opinion::of(part.summary);
    let level = level_word(opinion.level);
    let _ = write!(
        out,
        "<section class=\"verdict {level}\"><h2>{}</h2><p class=\"headline\">{}</p><ul class=\"findings\">",
        heading(part, "Verdict", alone),
        escape(&micro(&opinion.headline))
    );
    for cause in part.summary.answer.iter().flat_map(|a| &a.causes) {
        let _ = write!(
            out,
            "<li class=\"{}\"><span class=\"level\">{}</span> {}</li>",
            level_word(cause.severity.into()),
            cause.severity.name(),
            escape(&micro(&text::why(cause)))
        );
    }
    out.push_str("</ul>");
    uses(out, part.summary);
    out.push_str("<h3>What the figures mean</h3><ul class=\"findings\">");
    for f in &opinion.findings {
        let level = level_word(f.level);
        let _ = write!(
            out,
            "<li class=\"{level}\"><span class=\"level\">{level}</span> {}</li>",
            escape(&micro(&f.text))
        );
    }
    out.push_str("</ul><h3>How far to believe it</h3><ul>");
    for line in &opinion.belief {
        let _ = write!(out, "<li>{}</li>", escape(&micro(line)));
    }
    out.push_str("</ul>");
    if !part.summary.warnings.is_empty() {
        out.push_str("<h3>Warnings</h3><ul class=\"warnings\">");
        for w in &part.summary.warnings {
            let _ = write!(out, "<li data-code=\"{}\">{}.</li>", escape(&w.code), escape(&sentence(&w.text)));
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

/// How suitable the path is for each use.
fn uses(out: &mut String, summary: &Summary) {
    let answer = summary.answer.iter();
    let rows = answer.flat_map(|a| &a.profiles).map(|(name, s)| {
        let mos = s.mos.map_or(String::new(), |mos| format!("MOS {mos:.2}"));
        let limits = s.limits.clone().unwrap_or_default();
        vec![name.clone(), s.severity.name().to_owned(), s.because.clone(), mos, limits]
    });
    let columns = ["for", "works", "because", "speech", "known less well, because"].map(str::to_owned);
    table(out, &columns, &rows.collect::<Vec<_>>());
}
