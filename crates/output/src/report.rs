//! [`Report`]: the result of a command, as formats read it; and the reports of streams.

use crate::error::Result;
use crate::input;
use crate::pages;
use jitlat_core::analysis::Samples;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::ipdv;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Direction, PacketRecord, Session, Span};
use jitlat_instruments::{Analysed, ProtocolText};
use jitlat_report::FirstScreen;
use jitlat_report::Section;
use jitlat_report::figure::{self, ComparedRun, Figure, Trace};
use jitlat_report::text;
use jitlat_store::json;
use jitlat_store::late::summary::Setting;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The result of a command. It has what the command's outputs need; everything else is empty.
pub trait Report {
    /// Its JSON object.
    fn json(&self) -> Result<Value>;

    /// The analysed streams.
    fn streams(&self) -> &[AnalysedStream] {
        &[]
    }

    /// Their summaries.
    fn summaries(&self) -> Vec<Summary> {
        self.streams().iter().map(|run| run.summary.clone()).collect()
    }

    /// The length of the windows that were analysed separately; `None`: there are none.
    fn interval(&self) -> Option<Span> {
        None
    }

    /// Results as tools of the test's protocol print them; empty of most tests.
    fn texts(&self) -> &[ProtocolText] {
        &[]
    }

    /// The lines of its table; `None` if its rows are packets.
    fn table(&self) -> Option<ReportTable> {
        None
    }

    /// What it adds to the page and the figures of its streams; `None`: nothing.
    fn section(&self) -> Option<&Section> {
        None
    }

    /// Writes its page.
    fn page(&self) -> Result<String> {
        Ok(pages::page(self.streams(), self.section()))
    }

    /// What its page begins with, to be drawn as one card; `None`: nothing is known that would be an answer.
    fn first_screen(&self) -> Option<FirstScreen> {
        pages::first_screen(self.streams(), self.section())
    }

    /// Passes its figures to `each` in groups, with the prefix of their file names.
    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        draw(self.streams(), self.section(), each)
    }
}

/// Receives a group of figures and the prefix of their file names.
pub type Drawings<'a> = dyn FnMut(&str, &[Figure]) -> Result<()> + 'a;

/// Lines of named values.
pub type ReportTable = Vec<Vec<(String, String)>>;

/// An analysed stream.
pub struct AnalysedStream {
    /// Every figure.
    pub summary: Summary,
    /// What is known of the stream: specification, hosts, times, ending.
    pub session: Session,
    /// The accepted packets; empty unless an output needs them.
    pub samples: Samples,
    /// The log that its rows can be read from again; `None` if there is none.
    pub log: Option<PathBuf>,
    /// The records; empty if they can be read from a log.
    pub records: Vec<PacketRecord>,
    /// The kernel's TCP_INFO sampled with each of them; empty unless the test ran over TCP.
    pub tcp: Vec<TcpSample>,
    /// The lines before its report.
    pub heading: String,
    /// Its name if several runs are shown.
    pub label: String,
    /// Whether plots show its latency corrected by the clock estimate (`-L`).
    pub corrected: bool,
    /// The windows that were written while it ran, by their beginning in ns.
    pub shown_windows: Vec<i64>,
    /// The suffix of its own files if there are two runs: `up`.
    pub file_ending: String,
    /// What only the options of the test know for LaTe's formats; `None`: the session has to do.
    pub late: Option<Setting>,
}

impl From<Analysed> for AnalysedStream {
    /// The stream with its samples, named by its direction; without a log and records.
    fn from(Analysed { session, summary, samples }: Analysed) -> AnalysedStream {
        let direction = session.spec.direction();
        AnalysedStream {
            summary,
            samples,
            log: None,
            records: Vec::new(),
            tcp: Vec::new(),
            heading: String::new(),
            label: text::direction(direction).to_owned(),
            corrected: false,
            shown_windows: Vec::new(),
            file_ending: file_ending(direction),
            late: None,
            session,
        }
    }
}

impl AnalysedStream {
    /// Whether single packets are known, and not only what the far host reports of all.
    pub fn has_packets(&self) -> bool {
        let reported = self.summary.two_way.as_ref().is_some_and(|t| t.far_report.is_some());
        !reported && self.summary.counts.received > 0
    }

    /// The packets, from memory or from the log.
    pub fn packets(&self) -> Result<Vec<PacketRecord>> {
        let Some(log) = self.log.as_ref().filter(|_| self.records.is_empty()) else {
            return Ok(self.records.clone());
        };
        let mut failure = None;
        let records = input::open(log)?.records(&mut failure).collect();
        failure.map_or(Ok(records), |e| Err(e.into()))
    }

    /// Whether a part at its end is unknown, and not because the user stopped the test.
    pub fn is_cut_off(&self) -> bool {
        self.summary.counts.tail_unknown && self.session.ending != Ending::Interrupted
    }

    /// Whether nothing is known of any packet.
    pub fn is_unknown(&self) -> bool {
        let counts = &self.summary.counts;
        counts.tail_unknown && counts.sent == 0 && counts.received == 0
    }
}

/// What an instrument adds to the report of a test.
pub struct ReportExtra {
    /// Its name in the JSON object.
    pub key: &'static str,
    /// Text after the report.
    pub text: String,
    /// Value in the JSON object.
    pub json: Value,
}

/// The streams of a test or of logs.
pub struct ReportStreams<'a> {
    /// The streams.
    pub runs: &'a [AnalysedStream],
    /// What an instrument adds to them.
    pub extra: Option<&'a ReportExtra>,
    /// The length of the windows that were analysed separately; `None`: there are none.
    pub interval: Option<Span>,
    /// Results as tools of the test's protocol print them; empty of most tests.
    pub texts: &'a [ProtocolText],
}

impl<'a> ReportStreams<'a> {
    /// Nothing but `runs`.
    pub fn of(runs: &'a [AnalysedStream]) -> ReportStreams<'a> {
        ReportStreams { runs, extra: None, interval: None, texts: &[] }
    }
}

impl Report for ReportStreams<'_> {
    fn json(&self) -> Result<Value> {
        let mut document = json::document(&self.summaries())?;
        if let (Some(extra), Some(object)) = (self.extra, document.as_object_mut()) {
            object.insert(extra.key.to_owned(), extra.json.clone());
        }
        Ok(document)
    }

    fn streams(&self) -> &[AnalysedStream] {
        self.runs
    }

    fn interval(&self) -> Option<Span> {
        self.interval
    }

    fn texts(&self) -> &[ProtocolText] {
        self.texts
    }
}

/// The direction in a file's name.
pub fn file_ending(direction: Direction) -> String {
    if direction == Direction::Up { "up" } else { "down" }.to_owned()
}

/// This program and its version.
pub const PROGRAM: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

/// The figures of streams; those of an instrument come first, then those of several runs in one plot, then those of
/// each.
fn draw(runs: &[AnalysedStream], section: Option<&Section>, each: &mut Drawings<'_>) -> Result<()> {
    each("", section.map_or(&[], |s| &s.figures))?;
    if runs.len() > 1 {
        draw_side_by_side(runs, each)?;
    }
    let traces: Vec<Trace> = runs.iter().map(|r| Trace::of(&r.session, &r.samples)).collect();
    for (run, trace) in runs.iter().zip(&traces) {
        let (label, prefix) = match runs.len() {
            1 => ("", String::new()),
            _ => (run.label.as_str(), format!("{}-", slug(&run.label))),
        };
        let (summary, corrected) = (&run.summary, run.corrected);
        let of = figure::DrawnRun { label, summary, trace: Some(trace), corrected };
        each(&prefix, &figure::of_run(&of))?;
    }
    Ok(())
}

/// The distributions of several runs in one plot, computed from the packets.
fn draw_side_by_side(runs: &[AnalysedStream], each: &mut Drawings<'_>) -> Result<()> {
    let samples: Vec<[Sample; 3]> = runs
        .iter()
        .map(|run| {
            let delays = || run.samples.delay.iter().copied();
            let fastest = delays().min().unwrap_or(0);
            let above = delays().map(|d| d.saturating_sub(fastest));
            [Sample::new(delays()), Sample::new(above), Sample::new(ipdv::steps(&run.samples).into_iter())]
        })
        .collect();
    let beside: Vec<ComparedRun<'_>> = runs
        .iter()
        .zip(&samples)
        .map(|(run, [latency, pdv, ipdv])| ComparedRun {
            samples: (!latency.is_empty()).then_some((latency, pdv)),
            ipdv: Some((&run.summary.ipdv, ipdv)),
            ..ComparedRun::new(&run.label, &run.summary).corrected(run.corrected, &run.summary)
        })
        .collect();
    let mut figures = figure::of_runs(&beside);
    let measured = runs.iter().map(|run| (run.label.as_str(), run.summary.measured()));
    figure::label_measured(&mut figures, &figure::measured_of_several(measured));
    each("", &figures)
}

/// A label, changed so that it can be part of a file name.
pub fn slug(label: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    label.chars().map(keep).collect()
}

/// The command line, quoted for a shell.
pub fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let quoted = arguments.enumerate().map(|(k, argument)| match k {
        0 => "jitlat".to_owned(),
        _ => shell_word(Path::new(&argument)),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A path or argument as a shell reads it.
pub fn shell_word(path: &Path) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    let word = path.to_string_lossy();
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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
