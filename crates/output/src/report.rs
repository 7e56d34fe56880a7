//! [`Report`]: result of a command, from which outputs are written. Also contains the report of streams.

use crate::error::Result;
use crate::input;
use crate::pages;
use crate::systems::NativeReading;
use jitlat_core::analysis::Samples;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::ipdv;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Direction, PacketRecord, Session, Span};
use jitlat_instruments::Analysed;
use jitlat_proto::owamp::Statistics;
use jitlat_report::FirstScreen;
use jitlat_report::Section;
use jitlat_report::figure::{self, ComparedRun, Figure, Trace};
use jitlat_report::text;
use jitlat_store::json;
use jitlat_store::late::summary::Setting;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Result of a command. It provides the data that output formats need; by default, optional parts are empty.
pub trait Report {
    /// Returns the JSON object of the report.
    fn json(&self) -> Result<Value>;

    /// Returns the analysed streams.
    fn streams(&self) -> &[AnalysedStream] {
        &[]
    }

    /// Returns the summaries of the streams.
    fn summaries(&self) -> Vec<Summary> {
        self.streams().iter().map(|run| run.summary.clone()).collect()
    }

    /// Returns the figures of the instrument for systems that store measurements; empty if they are those of the streams.
    fn native(&self) -> Vec<NativeReading> {
        Vec::new()
    }

    /// Returns the length of the windows that were analysed separately; `None` without windows.
    fn interval(&self) -> Option<Span> {
        None
    }

    /// Returns the sessions of OWAMP whose receivers' records are known; empty for other tests.
    fn owamp(&self) -> &[Statistics] {
        &[]
    }

    /// Returns the lines of the table; `None` if the rows are packets.
    fn table(&self) -> Option<ReportTable> {
        None
    }

    /// Returns the section that an instrument adds to the page and the figures; `None` if there is none.
    fn section(&self) -> Option<&Section> {
        None
    }

    /// Renders the page.
    fn page(&self) -> Result<String> {
        Ok(pages::page(self.streams(), self.section()))
    }

    /// Returns the first screen of the page, which can be drawn as one card; `None` without a verdict.
    fn first_screen(&self) -> Option<FirstScreen> {
        pages::first_screen(self.streams(), self.section())
    }

    /// Passes the figures to `each` in groups, with the prefix of their file names.
    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        draw(self.streams(), self.section(), each)
    }
}

/// Callback that receives a group of figures and the prefix of their file names.
pub type Drawings<'a> = dyn FnMut(&str, &[Figure]) -> Result<()> + 'a;

/// Lines of a table, each as pairs of a column name and a value.
pub type ReportTable = Vec<Vec<(String, String)>>;

/// An analysed stream.
pub struct AnalysedStream {
    /// All figures of the stream.
    pub summary: Summary,
    /// Facts about the stream: specification, hosts, times, ending.
    pub session: Session,
    /// Accepted packets; empty unless an output needs them.
    pub samples: Samples,
    /// Log from which the rows can be read again; `None` if there is none.
    pub log: Option<PathBuf>,
    /// Records; empty if they can be read from a log.
    pub records: Vec<PacketRecord>,
    /// The kernel's TCP_INFO sampled with each record; empty unless the test ran over TCP.
    pub tcp: Vec<TcpSample>,
    /// Lines printed before the report of this stream.
    pub heading: String,
    /// Label in reports of several runs.
    pub label: String,
    /// True if plots show the one-way delay corrected by the clock estimate (`-L`).
    pub corrected: bool,
    /// Start times, in ns, of the windows that were printed while the test ran.
    pub shown_windows: Vec<i64>,
    /// Suffix of this stream's files if there are two streams, for example `up`.
    pub file_ending: String,
    /// Settings of the test's options that only LaTe's formats contain; `None` if only the session is known.
    pub late: Option<Setting>,
}

impl From<Analysed> for AnalysedStream {
    /// Creates the stream with its samples, labelled by its direction, without log and records.
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
    /// Returns the packets in the form that figures need.
    pub fn trace(&self) -> Trace {
        let without = self.summary.answer.as_ref().and_then(|answer| answer.without_clock_step.as_ref());
        Trace::of(&self.session, &self.samples).without_steps(&self.samples, without)
    }

    /// True if single packets are known, rather than only totals that the far host reports.
    pub fn has_packets(&self) -> bool {
        let reported = self.summary.two_way.as_ref().is_some_and(|t| t.far_report.is_some());
        !reported && self.summary.counts.received > 0
    }

    /// Returns the packets, from memory or from the log.
    pub fn packets(&self) -> Result<Vec<PacketRecord>> {
        let Some(log) = self.log.as_ref().filter(|_| self.records.is_empty()) else {
            return Ok(self.records.clone());
        };
        let mut failure = None;
        let records = input::open(log)?.records(&mut failure).collect();
        failure.map_or(Ok(records), |e| Err(e.into()))
    }

    /// True if the end of the stream is unknown although the user did not stop the test.
    pub fn is_cut_off(&self) -> bool {
        self.summary.counts.tail_unknown
            && self.session.ending != Ending::Interrupted
            && !self.is_loss_unknown()
    }

    /// True if packets arrived, but it is unknown how many were lost.
    pub fn is_loss_unknown(&self) -> bool {
        let counts = &self.summary.counts;
        counts.tail_unknown && counts.unique_valid > 0 && self.summary.loss.ratio.is_none()
    }

    /// True if nothing is known about any packet.
    pub fn is_unknown(&self) -> bool {
        let counts = &self.summary.counts;
        counts.tail_unknown && counts.sent == 0 && counts.received == 0
    }
}

/// Part that an instrument adds to the report of a test.
pub struct ReportExtra {
    /// Key in the JSON object.
    pub key: &'static str,
    /// Text after the report.
    pub text: String,
    /// Value in the JSON object.
    pub json: Value,
}

/// Report of the streams of a test, or of logs.
pub struct ReportStreams<'a> {
    /// Analysed streams.
    pub runs: &'a [AnalysedStream],
    /// Part that an instrument adds; `None` for most tests.
    pub extra: Option<&'a ReportExtra>,
    /// Length of the windows that were analysed separately; `None` without windows.
    pub interval: Option<Span>,
    /// Sessions of OWAMP whose receivers' records are known; empty for other tests.
    pub owamp: &'a [Statistics],
}

impl<'a> ReportStreams<'a> {
    /// Creates a report of `runs` without anything else.
    pub fn of(runs: &'a [AnalysedStream]) -> ReportStreams<'a> {
        ReportStreams { runs, extra: None, interval: None, owamp: &[] }
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

    fn owamp(&self) -> &[Statistics] {
        self.owamp
    }
}

/// Returns the suffix of a file's name for a direction.
pub fn file_ending(direction: Direction) -> String {
    if direction == Direction::Up { "up" } else { "down" }.to_owned()
}

/// Name and version of this program.
pub const PROGRAM: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

/// Draws the figures of streams: first the figures of an instrument, then several runs in one plot, then each stream.
fn draw(runs: &[AnalysedStream], section: Option<&Section>, each: &mut Drawings<'_>) -> Result<()> {
    each("", section.map_or(&[], |s| &s.figures))?;
    if runs.len() > 1 {
        draw_side_by_side(runs, each)?;
    }
    let traces: Vec<Trace> = runs.iter().map(AnalysedStream::trace).collect();
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

/// Draws the distributions of several runs in one plot, computed from the packets.
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
    let compared: Vec<ComparedRun<'_>> = runs
        .iter()
        .zip(&samples)
        .map(|(run, [latency, pdv, ipdv])| ComparedRun {
            samples: (!latency.is_empty()).then_some((latency, pdv)),
            ipdv: Some((&run.summary.ipdv, ipdv)),
            ..ComparedRun::new(&run.label, &run.summary).corrected(run.corrected, &run.summary)
        })
        .collect();
    let mut figures = figure::of_runs(&compared);
    let measured = runs.iter().map(|run| (run.label.as_str(), run.summary.measured()));
    figure::label_measured(&mut figures, &figure::measured_of_several(measured));
    each("", &figures)
}

/// Converts a label so that it can be part of a file name.
pub fn slug(label: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    label.chars().map(keep).collect()
}

/// Returns the command line, quoted for a shell.
pub fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let quoted = arguments.enumerate().map(|(k, argument)| match k {
        0 => "jitlat".to_owned(),
        _ => shell_word(Path::new(&argument)),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Quotes a path or argument for a shell.
pub fn shell_word(path: &Path) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    let Some(word) = path.to_str() else { return ansi_word(path) };
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Quotes a name that is not UTF-8, in the form `$'…'` that the shells bash, zsh and ksh read.
fn ansi_word(path: &Path) -> String {
    let byte = |b: &u8| match b {
        b'\'' | b'\\' => format!("\\{}", *b as char),
        b' '..=b'~' => (*b as char).to_string(),
        b => format!("\\x{b:02x}"),
    };
    format!("$'{}'", path.as_os_str().as_encoded_bytes().iter().map(byte).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_again() {
        let typed = ["/usr/bin/jitlat", "-n", "5", "--fail-if", "loss>1%", "it's", ""];
        let line = command_line(typed.map(OsString::from).into_iter());
        assert_eq!(line, r"jitlat -n 5 --fail-if 'loss>1%' 'it'\''s' ''");
    }

    #[test]
    #[cfg(unix)]
    fn a_name_that_is_not_text_can_be_pasted_again() {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"it's caf\xe9.log");
        assert_eq!(shell_word(Path::new(name)), r"$'it\'s caf\xe9.log'");
    }
}
