//! From finished runs to what the user asked to see: console, JSON, CSV.

use crate::console;
use crate::exit::Status;
use crate::options::report::ReportArgs;
use anyhow::{Context, Result, bail};
use jitlat_core::analysis::Samples;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Direction, PacketRecord, Session};
use jitlat_report::draw;
use jitlat_report::figure::{self, Beside, Trace};
use jitlat_report::html::{self, Part, Report, Section};
use jitlat_report::text;
use jitlat_store::log::LogReader;
use jitlat_store::{csv, hdr, json, openmetrics, output};
use std::fs;
use std::path::{Path, PathBuf};
use tracing::error;

/// One direction of one test, analysed.
pub struct Run {
    /// Every figure.
    pub summary: Summary,
    /// Its context.
    pub session: Session,
    /// The accepted packets, kept only where a plot needs them.
    pub samples: Samples,
    /// The log its rows can be read from again.
    pub log: Option<PathBuf>,
    /// The rows themselves, where they may not be in a log.
    pub records: Vec<PacketRecord>,
    /// The kernel's account of a TCP connection beside each of them, where there is one.
    pub tcp: Vec<TcpSample>,
    /// The lines above its report.
    pub heading: String,
    /// What tells it from others shown beside it.
    pub label: String,
}

/// Refuses outputs that would get into each other's way, before anything is measured.
pub fn check(args: &ReportArgs) -> Result<()> {
    if outputs(args).filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("standard output can take one format only: give all others a file");
    }
    Ok(())
}

/// Whether standard output is taken by a program's format, so that nothing else may go there.
pub fn is_silent(args: &ReportArgs) -> bool {
    outputs(args).any(|path| path.as_os_str() == "-")
}

/// Whether anything is asked for that shows the packets of a run, or its figures.
pub fn shows_runs(args: &ReportArgs) -> bool {
    outputs(args).next().is_some()
        || args.plots.is_some()
        || !args.fail_if.is_empty()
        || args.analysis.interval.is_some()
}

fn outputs(args: &ReportArgs) -> impl Iterator<Item = &PathBuf> {
    [&args.json, &args.csv, &args.summary_csv, &args.openmetrics, &args.intervals, &args.hdr, &args.html]
        .into_iter()
        .flatten()
}

/// What an instrument adds to the report of a test.
pub struct Extra {
    /// Its name in the JSON object.
    pub key: &'static str,
    /// Below the report.
    pub text: String,
    /// In the JSON object.
    pub json: serde_json::Value,
}

/// Writes everything `args` asks for about `runs`: one run, or up and down of one test.
pub fn present(runs: &[Run], args: &ReportArgs) -> Result<()> {
    present_with(runs, None, args)
}

/// The same with something to add.
pub fn present_with(runs: &[Run], extra: Option<&Extra>, args: &ReportArgs) -> Result<()> {
    if !is_silent(args) {
        console::print(&(console_page(runs, args) + extra.map_or("", |e| &e.text)))?;
    }
    if args.html.is_some() || args.plots.is_some() {
        write_figures(runs, None, args.html.as_deref(), args.plots.as_deref())?;
    }
    write_tables(runs, args)?;
    if let Some(path) = &args.json {
        output::write(path, |out| match extra {
            None => json::write(out, &summaries(runs)),
            Some(extra) => {
                let mut document = json::document(&summaries(runs))?;
                if let Some(object) = document.as_object_mut() {
                    object.insert(extra.key.to_owned(), extra.json.clone());
                }
                writeln!(out, "{document:#}")
            }
        })?;
    }
    Ok(())
}

/// Writes the files of rows and values that `args` asks for.
pub fn write_tables(runs: &[Run], args: &ReportArgs) -> Result<()> {
    if let Some(path) = &args.csv {
        write_packets(runs, path)?;
    }
    if let Some(path) = &args.hdr {
        for (run, path) in each_its_own(runs, path, "--hdr")? {
            output::write(&path, |out| hdr::write(out, &run.samples, args.analysis.interval))?;
        }
    }
    if let Some(path) = &args.intervals {
        output::write(path, |out| runs.iter().try_for_each(|run| json::write_intervals(out, &run.summary)))?;
    }
    if let Some(path) = &args.summary_csv {
        output::write(path, |out| csv::write_summaries(out, &summaries(runs)))?;
    }
    if let Some(path) = &args.openmetrics {
        output::write(path, |out| openmetrics::write(out, &summaries(runs)))?;
    }
    Ok(())
}

fn summaries(runs: &[Run]) -> Vec<Summary> {
    runs.iter().map(|run| run.summary.clone()).collect()
}

/// Logs the thresholds of `--fail-if` that `runs` violate; the exit status that follows.
pub fn status(runs: &[Run], args: &ReportArgs) -> Status {
    let violations = violations(runs, args);
    for violation in &violations {
        error!("failed: {violation}");
    }
    if violations.is_empty() { Status::Measured } else { Status::ThresholdViolated }
}

/// The conditions of `--fail-if` that hold, in words.
fn violations(runs: &[Run], args: &ReportArgs) -> Vec<String> {
    runs.iter().flat_map(|run| args.fail_if.iter().filter_map(|c| c.violated(&run.summary))).collect()
}

fn console_page(runs: &[Run], args: &ReportArgs) -> String {
    let options =
        text::Options { corrected: args.corrected, style: console::style(), ..text::Options::default() };
    let mut page = String::new();
    for run in runs {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&run.heading);
        page.push_str(&text::report(&run.summary, &options));
        if args.text_plots {
            page.push_str(&plots(run, args.plot_corrected, options.width));
        }
    }
    if let [up, down] = runs
        && are_one_test(up, down)
    {
        page.push('\n');
        page.push_str(&text::both(&up.summary, &down.summary, &options));
    }
    page
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

/// Whether these are the two directions of one test, and not two logs that happen to be read together.
fn are_one_test(up: &Run, down: &Run) -> bool {
    let directions = [up, down].map(|run| run.session.spec.direction());
    directions == [Direction::Up, Direction::Down]
        && up.session.id.is_some()
        && up.session.id == down.session.id
}

/// Draws the figures of `runs`, after those of a `section` that an instrument adds.
pub fn write_figures(
    runs: &[Run],
    section: Option<&Section>,
    html: Option<&Path>,
    plots: Option<&Path>,
) -> Result<()> {
    let alone = runs.len() == 1;
    let traces: Vec<Trace> = runs.iter().map(|r| Trace::of(&r.session, &r.samples)).collect();
    let parts: Vec<Part<'_>> = runs
        .iter()
        .zip(&traces)
        .map(|(run, trace)| Part {
            label: if alone { "" } else { &run.label },
            session: Some(&run.session),
            summary: &run.summary,
            trace: Some(trace),
        })
        .collect();
    if let Some(path) = html {
        let page = html::page(&Report {
            section,
            parts: &parts,
            command: Some(&command_line(std::env::args())),
            program: concat!("jitlat ", env!("CARGO_PKG_VERSION")),
            written: Some(jitlat_net::clock::wall()),
        });
        output::write(path, |out| out.write_all(page.as_bytes()))?;
    }
    let Some(dir) = plots else { return Ok(()) };
    fs::create_dir_all(dir).with_context(|| format!("making the folder {}", dir.display()))?;
    for file in draw::files(section.map_or(&[], |s| &s.figures)) {
        let (name, content) = file.context("drawing a figure")?;
        output::write(&dir.join(name), |out| out.write_all(&content))?;
    }
    if !alone {
        draw_side_by_side(runs, dir)?;
    }
    for part in &parts {
        let figures =
            figure::of_run(&figure::Run { label: part.label, summary: part.summary, trace: part.trace });
        for file in draw::files(&figures) {
            let (name, content) = file.context("drawing a figure")?;
            let name = if parts.len() > 1 { format!("{}-{name}", slug(part.label)) } else { name };
            output::write(&dir.join(name), |out| out.write_all(&content))?;
        }
    }
    Ok(())
}

/// The runs' distributions laid over each other, from the packets themselves.
fn draw_side_by_side(runs: &[Run], dir: &Path) -> Result<()> {
    let samples: Vec<(Sample, Sample)> = runs
        .iter()
        .map(|run| {
            let delays = || run.samples.delay.iter().copied();
            let fastest = delays().min().unwrap_or(0);
            (Sample::new(delays()), Sample::new(delays().map(|d| d.saturating_sub(fastest))))
        })
        .collect();
    let beside: Vec<Beside<'_>> = runs
        .iter()
        .zip(&samples)
        .map(|(run, (latency, pdv))| Beside {
            samples: (!latency.is_empty()).then_some((latency, pdv)),
            ..Beside::new(&run.label, &run.summary)
        })
        .collect();
    for file in draw::files(&figure::of_runs(&beside)) {
        let (name, content) = file.context("drawing a figure")?;
        output::write(&dir.join(name), |out| out.write_all(&content))?;
    }
    Ok(())
}

/// A label as part of a file name.
fn slug(label: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    label.chars().map(keep).collect()
}

fn plots(run: &Run, corrected: bool, width: usize) -> String {
    let (latency, pdv) = (&run.summary.latency, &run.summary.pdv);
    let shift = run.summary.latency_corrected.as_ref().and_then(|c| Some(c.min? - latency.min?));
    let distribution = match shift.filter(|_| corrected) {
        Some(shift) => text::plots::shifted_histogram("latency, corrected", latency, shift, width),
        None => text::plots::histogram("jitter (PDV)", pdv, width),
    };
    format!("\n{distribution}\n{}", text::plots::burstiness(&run.samples, run.summary.counts.sent, width))
}

fn write_packets(runs: &[Run], path: &Path) -> Result<()> {
    each_its_own(runs, path, "--csv")?.into_iter().try_for_each(|(run, path)| write_packets_of(run, &path))
}

/// The file of each run, for formats that hold one stream: `path` itself, or up and down beside it.
fn each_its_own<'a>(runs: &'a [Run], path: &Path, option: &str) -> Result<Vec<(&'a Run, PathBuf)>> {
    let direction = |run: &Run| run.session.spec.direction();
    match runs {
        [run] => Ok(vec![(run, path.to_owned())]),
        [one, other] if path.as_os_str() != "-" && direction(one) != direction(other) => {
            let named = |run| {
                let mut name = path.as_os_str().to_owned();
                name.push(if direction(run) == Direction::Up { ".up" } else { ".down" });
                (run, PathBuf::from(name))
            };
            Ok(vec![named(one), named(other)])
        }
        _ => bail!("{option} writes one stream: analyse the logs one at a time"),
    }
}

fn write_packets_of(run: &Run, path: &Path) -> Result<()> {
    if !run.records.is_empty() || run.summary.counts.received == 0 && run.log.is_none() {
        return output::write(path, |out| {
            if run.tcp.is_empty() {
                let mut rows = csv::Packets::new(out, &run.session, &run.summary)?;
                return run.records.iter().try_for_each(|record| rows.write(record));
            }
            let mut rows = csv::Packets::new_tcp(out, &run.session, &run.summary)?;
            run.records.iter().zip(&run.tcp).try_for_each(|(r, sample)| rows.write_tcp(r, Some(sample)))
        })
        .map_err(Into::into);
    }
    let log = run.log.as_ref().context("--csv reads the packets from the log, and there is none")?;
    let mut reader = LogReader::open(log)?;
    let session = reader.session().clone();
    let mut failure = None;
    output::write(path, |out| {
        if !reader.has_tcp() {
            let mut rows = csv::Packets::new(out, &session, &run.summary)?;
            return reader.records(&mut failure).try_for_each(|record| rows.write(&record));
        }
        let mut rows = csv::Packets::new_tcp(out, &session, &run.summary)?;
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => rows.write_tcp(&record, reader.tcp().as_ref())?,
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        Ok(())
    })?;
    failure.map_or(Ok(()), |e| Err(e.into()))
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
