//! [`Report`]: what a command found, as formats read it; and the reports of streams.

use anyhow::Result;
use jitlat_core::analysis::Samples;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Direction, PacketRecord, Session, Span};
use jitlat_report::figure::{self, ComparedRun, Figure, Trace};
use jitlat_report::html::{self, Part, Section};
use jitlat_store::json;
use serde_json::Value;
use std::path::PathBuf;

/// What a command found. A command's report has what its outputs need; the rest stays empty.
pub trait Report {
    /// Its JSON object.
    fn json(&self) -> Result<Value>;

    /// The streams that were analysed.
    fn streams(&self) -> &[Run] {
        &[]
    }

    /// Their summaries.
    fn summaries(&self) -> Vec<Summary> {
        self.streams().iter().map(|run| run.summary.clone()).collect()
    }

    /// The length of the windows that were analysed by themselves.
    fn interval(&self) -> Option<Span> {
        None
    }

    /// The lines of its table, where its rows are not packets.
    fn table(&self) -> Option<Table> {
        None
    }

    /// What it adds to the page and the figures of its streams.
    fn section(&self) -> Option<&Section> {
        None
    }

    /// Its page.
    fn page(&self) -> Result<String> {
        Ok(page(self.streams(), self.section()))
    }

    /// Hands its figures over in groups, each with what their files' names begin with.
    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        draw(self.streams(), self.section(), each)
    }
}

/// Takes a group of figures, and what the names of their files begin with.
pub type Drawings<'a> = dyn FnMut(&str, &[Figure]) -> Result<()> + 'a;

/// Lines of named values.
pub type Table = Vec<Vec<(String, String)>>;

/// One stream, analysed.
pub struct Run {
    /// Every figure.
    pub summary: Summary,
    /// Its context.
    pub session: Session,
    /// The accepted packets, kept only where an output needs them.
    pub samples: Samples,
    /// The log its rows can be read from again.
    pub log: Option<PathBuf>,
    /// The rows themselves, where they may not be in a log.
    pub records: Vec<PacketRecord>,
    /// The kernel's account of a TCP connection beside each of them, where there is one.
    pub tcp: Vec<TcpSample>,
    /// The lines above its report.
    pub heading: String,
    /// What names it among others shown beside it.
    pub label: String,
    /// Whether plots show its latency corrected by the clock estimate (`-L`).
    pub corrected: bool,
    /// What the name of a file of it alone ends with, where there are two: `up`.
    pub file_ending: String,
}

/// What an instrument adds to the report of a test.
pub struct Extra {
    /// Its name in the JSON object.
    pub key: &'static str,
    /// Below the report.
    pub text: String,
    /// In the JSON object.
    pub json: Value,
}

/// The streams of a test, or of logs.
pub struct Streams<'a> {
    /// The streams.
    pub runs: &'a [Run],
    /// What an instrument adds to them.
    pub extra: Option<&'a Extra>,
    /// The length of the windows that were analysed by themselves.
    pub interval: Option<Span>,
}

impl Report for Streams<'_> {
    fn json(&self) -> Result<Value> {
        let mut document = json::document(&self.summaries())?;
        if let (Some(extra), Some(object)) = (self.extra, document.as_object_mut()) {
            object.insert(extra.key.to_owned(), extra.json.clone());
        }
        Ok(document)
    }

    fn streams(&self) -> &[Run] {
        self.runs
    }

    fn interval(&self) -> Option<Span> {
        self.interval
    }
}

/// The name of a direction in a file's name.
pub fn file_ending(direction: Direction) -> String {
    if direction == Direction::Up { "up" } else { "down" }.to_owned()
}

/// A page of streams, after what an instrument adds.
pub fn page(runs: &[Run], section: Option<&Section>) -> String {
    let traces: Vec<Trace> = runs.iter().map(|r| Trace::of(&r.session, &r.samples)).collect();
    html::page(&html::Report {
        section,
        parts: &parts(runs, &traces),
        corrected: runs.iter().any(|run| run.corrected),
        command: Some(&command_line(std::env::args())),
        program: PROGRAM,
        written: Some(jitlat_net::clock::wall()),
    })
}

/// This program and its version.
pub const PROGRAM: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

fn parts<'a>(runs: &'a [Run], traces: &'a [Trace]) -> Vec<Part<'a>> {
    let part = |(run, trace): (&'a Run, &'a Trace)| Part {
        label: if runs.len() == 1 { "" } else { &run.label },
        session: Some(&run.session),
        summary: &run.summary,
        trace: Some(trace),
    };
    runs.iter().zip(traces).map(part).collect()
}

/// Figures of streams, after those that an instrument adds: of several laid over each other, then of each.
fn draw(runs: &[Run], section: Option<&Section>, each: &mut Drawings<'_>) -> Result<()> {
    each("", section.map_or(&[], |s| &s.figures))?;
    if runs.len() > 1 {
        draw_side_by_side(runs, each)?;
    }
    let traces: Vec<Trace> = runs.iter().map(|r| Trace::of(&r.session, &r.samples)).collect();
    for (part, run) in parts(runs, &traces).into_iter().zip(runs) {
        let corrected = run.corrected;
        let of = figure::Run { label: part.label, summary: part.summary, trace: part.trace, corrected };
        let prefix = if runs.len() > 1 { format!("{}-", slug(part.label)) } else { String::new() };
        each(&prefix, &figure::of_run(&of))?;
    }
    Ok(())
}

/// The runs' distributions laid over each other, from the packets themselves.
fn draw_side_by_side(runs: &[Run], each: &mut Drawings<'_>) -> Result<()> {
    let samples: Vec<(Sample, Sample)> = runs
        .iter()
        .map(|run| {
            let delays = || run.samples.delay.iter().copied();
            let fastest = delays().min().unwrap_or(0);
            (Sample::new(delays()), Sample::new(delays().map(|d| d.saturating_sub(fastest))))
        })
        .collect();
    let beside: Vec<ComparedRun<'_>> = runs
        .iter()
        .zip(&samples)
        .map(|(run, (latency, pdv))| ComparedRun {
            samples: (!latency.is_empty()).then_some((latency, pdv)),
            ..ComparedRun::new(&run.label, &run.summary).corrected(run.corrected, &run.summary)
        })
        .collect();
    each("", &figure::of_runs(&beside))
}

/// A label as part of a file name.
fn slug(label: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    label.chars().map(keep).collect()
}

/// The command as a shell would take it again.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = arguments.enumerate().map(|(k, argument)| match k {
        0 => "jitlat".to_owned(),
        _ if !argument.is_empty() && argument.chars().all(plain) => argument,
        _ => format!("'{}'", argument.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_again() {
        let typed = ["/usr/bin/jitlat", "-n", "5", "--fail-if", "loss>1%", "it's", ""];
        let line = command_line(typed.map(str::to_owned).into_iter());
        assert_eq!(line, r"jitlat -n 5 --fail-if 'loss>1%' 'it'\''s' ''");
    }
}
