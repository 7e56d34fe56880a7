//! `jitlat analyze LOG…` and `jitlat -f LOG`: analyses saved logs and states in the same way as live tests.

use crate::check;
use crate::exit::{ExitStatus, explain, thresholds};
use crate::load;
use crate::options::report::ReportArgs;
use crate::states;
use anyhow::{Context, Error, Result, bail};
use jitlat_core::PacketRecord;
use jitlat_core::analysis::Analyzer;
use jitlat_core::state::{Merged, SavedAnalysis};
use jitlat_output::attenuation;
use jitlat_output::check::{Check, CheckState, CheckedStream};
use jitlat_output::input;
use jitlat_output::label;
use jitlat_output::phases::PhasesReport;
use jitlat_output::screen::StreamOrigin;
use jitlat_output::terminal::work::Work;
use jitlat_output::{AnalysedStream, Output, ReportParts};
use jitlat_output::{ReportStreams, file_ending};
use jitlat_report::text::analysing;
use jitlat_store::log::{LogReader, LogReading};
use jitlat_store::output as file;
use jitlat_store::threads::Threads;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tracing::{info, warn};

/// Handling of several logs.
#[derive(Clone, Debug, Default)]
pub struct SeveralLogs {
    /// True to analyse the logs as one test.
    pub merge: bool,
    /// File to save the state to; `None`: the state is not saved.
    pub state: Option<PathBuf>,
    /// True to add the parts of the path's attenuation, from the packets of all logs.
    pub attenuation: bool,
}

/// A log that was read, before its figures are computed.
struct ReadLog {
    state: SavedAnalysis,
    /// Facts about each file that was read.
    readings: Vec<LogReading>,
    /// File from which rows can be read again; `None` for standard input and states.
    log: Option<PathBuf>,
    label: String,
}

/// Analyses `logs` and prints the result.
pub fn run(logs: &[PathBuf], together: &SeveralLogs, args: &ReportArgs) -> Result<ExitStatus> {
    if let Some(check) = &args.check {
        return run_check(check, logs, together, args);
    }
    let runs = analyse(logs, together, args)?;
    let runs = match PhasesReport::of_saved(runs, args.analysis.interval) {
        Ok(phases) => return Ok(load::analysed(&phases, args)),
        Err(runs) => runs,
    };
    let extra = if together.attenuation { attenuation::parts(&runs)? } else { None };
    let interval = args.analysis.interval;
    let report = ReportStreams { runs: &runs, extra: extra.as_ref(), interval, owamp: &[] };
    let explained = extra.as_ref().map_or("", |extra| extra.text.as_str());
    let written = args.outputs.write(&report, || args.page(&runs, StreamOrigin::Logs, explained));
    if !written || runs.iter().all(AnalysedStream::is_unknown) {
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(thresholds(&runs, &args.fail_if))
}

/// Judges `logs`, and prints the line of the check. A log that cannot be read is unknown, and the others are judged.
fn run_check(
    check: &Check,
    logs: &[PathBuf],
    together: &SeveralLogs,
    args: &ReportArgs,
) -> Result<ExitStatus> {
    let mut unread: Vec<(String, Error)> = Vec::new();
    let runs = analyse_each(logs, together, args, &mut |log, e| match together.merge {
        // The parts of one test are judged together or not at all.
        true => Err(e),
        false => {
            unread.push((log.display().to_string(), e));
            Ok(())
        }
    })?;
    let report = ReportStreams { interval: args.analysis.interval, ..ReportStreams::of(&runs) };
    let whole = runs.is_empty() || jitlat_output::log_failures(&args.outputs.write_files(&report));
    let read = runs.iter().map(|run| check::checked(&run.label, run));
    let unknown = unread.iter().map(|(label, e)| CheckedStream {
        label,
        found: Err((CheckState::Unknown, explain(e))),
        cut_off: false,
    });
    let streams: Vec<CheckedStream<'_>> = read.chain(unknown).collect();
    Ok(check::judge(check, &streams, whole))
}

/// Analyses `logs` for the outputs of `args`, and saves the state if requested.
pub fn analyse(logs: &[PathBuf], together: &SeveralLogs, args: &ReportArgs) -> Result<Vec<AnalysedStream>> {
    analyse_each(logs, together, args, &mut |_, e| Err(e))
}

/// Like [`analyse`]. `unread` is called for each log that cannot be read, and decides whether the others are analysed.
fn analyse_each(
    logs: &[PathBuf],
    together: &SeveralLogs,
    args: &ReportArgs,
    unread: &mut dyn FnMut(&Path, Error) -> Result<()>,
) -> Result<Vec<AnalysedStream>> {
    let mut others: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    others.extend(together.state.as_deref());
    args.check(if together.merge { 1 } else { logs.len() }, &others)?;
    let rows = args.outputs.needing(ReportParts::ROWS).map(|(output, _)| output.spelling());
    let rows = rows.or(together.attenuation.then(|| "--attenuation".to_owned()));
    if let Some(name) = &rows
        && logs.iter().any(|log| log.as_os_str() == "-")
    {
        bail!("{name} reads the log twice, but standard input can be read only once: give a file");
    }
    if let Some(path) = &together.state {
        states::check()?;
        file::check(path).context("--state")?;
    }
    if together.state.is_some() && logs.len() > 1 && !together.merge {
        bail!("--state saves only one state: give one log, or --merge");
    }
    let work = Work::of_files("reading and analysing", logs.iter().map(PathBuf::as_path));
    let taken = if together.merge && args.options().streaming {
        vec![one_after_another(logs, args)?]
    } else {
        let mut taken = Vec::new();
        for log in logs {
            match take(log, args) {
                Ok(read) => taken.push(read),
                Err(e) => unread(log, e)?,
            }
        }
        if together.merge { vec![merged(taken)?] } else { taken }
    };
    drop(work);
    if let Some(name) = rows
        && taken.iter().any(|t| t.log.is_none())
    {
        bail!("{name} needs the rows of a single log: a saved state or merged logs have none");
    }
    let within = args.analysis.within.map(|_| "--within".to_owned());
    if let Some(option) = args.outputs.needing_packets().map(Output::spelling).or(within)
        && let Some(taken) = taken.iter().find(|t| !t.state.keeps_packets())
    {
        bail!("{option} needs all packets, but {} was analysed in constant memory", taken.label);
    }
    let state = match (&together.state, &taken[..]) {
        (Some(path), [one]) => Some((path, states::saved(&one.state)?)),
        _ => None,
    };
    let mut runs: Vec<AnalysedStream> = taken.into_iter().map(|t| t.finish(args)).collect();
    let known: Vec<_> = runs
        .iter()
        .map(|run| {
            let direction = run.session.direction_known.then(|| run.session.spec.direction());
            (run.session.name.as_deref(), run.label.as_str(), direction)
        })
        .collect();
    let labels = label::unique_labels(&known);
    runs.iter_mut().zip(labels).for_each(|(run, label)| run.label = label);
    state.map_or(Ok(()), |(path, bytes)| file::write(path, |out| out.write_all(&bytes)))?;
    Ok(runs)
}

/// Reads one log, or a saved state, in one pass.
fn take(path: &Path, args: &ReportArgs) -> Result<ReadLog> {
    let label = path.display().to_string();
    if is_state(path) {
        let state = states::load(path, &args.options())?;
        return Ok(ReadLog { state, readings: Vec::new(), log: None, label });
    }
    let mut reader = open(path)?;
    let mut analyzer = Analyzer::new(reader.session(), &args.options());
    read_rows(&mut reader, |records| analyzer.push_all(records))?;
    let state = SavedAnalysis::of(reader.session().clone(), analyzer);
    Ok(ReadLog { state, readings: vec![reader.reading().clone()], log: Some(path.to_owned()), label })
}

/// Opens a log; the error for another kind of file names the command that reads it, if that is known.
fn open(path: &Path) -> Result<LogReader> {
    input::open(path).or_else(|e| match kind_of(path) {
        Some(kind) => bail!("{} is not a jitlat log{kind}", path.display()),
        None => match parts_of(path) {
            Some([a, b]) => bail!(
                "there is no log {}, but the test wrote two logs with this name: `jitlat analyze {a} {b}` reads them",
                path.display()
            ),
            None => Err(e.into()),
        },
    })
}

/// Describes a file that is certainly not a log, as the continuation of a sentence; `None` if it may be one.
fn kind_of(path: &Path) -> Option<String> {
    /// First bytes of pcap files (µs and ns, in both byte orders), and of pcapng files.
    const CAPTURES: [[u8; 4]; 5] = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    let bytes = beginning(path, 4096).filter(|bytes| !bytes.is_empty())?;
    if CAPTURES.iter().any(|magic| bytes.starts_with(magic)) {
        return Some(format!(
            " but a packet capture: read it with `jitlat tcp {0}`, or with `jitlat spp -f {0} -F OTHER` if a second \
             point was captured",
            path.display()
        ));
    }
    if bytes.starts_with(b"{") {
        return Some(" but probably JSON: `jitlat compare` reads summaries written with --json".to_owned());
    }
    // Markdown and TOML files also begin with '# '. Even an interrupted log has at least one of these lines.
    let is_header =
        |line: &[u8]| [&b"# npkts"[..], b"# command", b"# format"].iter().any(|key| line.starts_with(key));
    let lines = || bytes.split(|byte| *byte == b'\n');
    let has_comment = lines().next().is_some_and(|line| line.starts_with(b"# "));
    (has_comment && bytes.len() > 64 && !lines().any(is_header))
        .then(|| ": it has no header line like '# npkts 1000'".to_owned())
}

/// Returns the two logs that a test with `-o path` wrote; `None` if one of them is missing, or if `path` itself exists.
fn parts_of(path: &Path) -> Option<[String; 2]> {
    let with = |ending: &str| format!("{}.{ending}", path.display());
    let pairs = [["up", "down"], ["idle", "loaded"]].map(|endings| endings.map(with));
    let found = pairs.into_iter().find(|pair| pair.iter().all(|name| Path::new(name).is_file()));
    found.filter(|_| !path.exists())
}

/// Returns the first bytes of a file, at most `length`; `None` if it is not a regular file or cannot be read.
fn beginning(path: &Path, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    path.is_file().then_some(())?;
    File::open(path).ok()?.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Passes all rows to `push`. A failure to read is an error if no row was read before, otherwise a warning.
fn read_rows(reader: &mut LogReader, push: impl FnMut(&[PacketRecord])) -> Result<()> {
    if let Err(e) = reader.each_chunk_on(Threads::available(), push) {
        if reader.reading().rows == 0 {
            return Err(e.into());
        }
        warn!("{e}; the {} rows before it are analysed", reader.reading().rows);
    }
    Ok(())
}

/// Reads several logs of one test in constant memory: a single analysis takes all rows.
fn one_after_another(logs: &[PathBuf], args: &ReportArgs) -> Result<ReadLog> {
    let (first, later) = logs.split_first().context("there is nothing to merge: give two or more logs")?;
    let mut whole = take(first, args)?;
    for log in later {
        let label = log.display();
        if is_state(log) {
            whole = merged(vec![whole, take(log, args)?])?;
            continue;
        }
        let mut reader = open(log)?;
        let go_on = |state: &mut SavedAnalysis, reader: &LogReader| {
            let how = state.resume(reader.session().clone());
            how.with_context(|| format!("continuing with {label} after {}", first.display()))
        };
        go_on(&mut whole.state, &reader)?;
        read_rows(&mut reader, |records| whole.state.push_all(records))?;
        go_on(&mut whole.state, &reader)?;
        info!("{label} is a later part of the test {}", whole.label);
        whole.readings.push(reader.reading().clone());
        whole.log = None;
    }
    Ok(whole)
}

/// True if a file is a saved state; a file that cannot be read is treated as a log, whose reader reports the error.
fn is_state(path: &Path) -> bool {
    beginning(path, 32).is_some_and(|bytes| SavedAnalysis::begins(&bytes))
}

/// Merges the logs in `taken`, in order.
fn merged(taken: Vec<ReadLog>) -> Result<ReadLog> {
    let mut all = taken.into_iter();
    let mut whole = all.next().context("there is nothing to merge: give two or more logs")?;
    for next in all {
        let ReadLog { state, readings, label, .. } = next;
        let how = whole.state.merge(state);
        match how.with_context(|| format!("merging {label} with {}", whole.label))? {
            Merged::Continued => info!("{label} is a later part of the test {}", whole.label),
            Merged::United => {
                info!("{label} is a different test from {}: both are analysed as one stream", whole.label);
            }
        }
        whole.readings.extend(readings);
        whole.log = None;
    }
    Ok(whole)
}

impl ReadLog {
    fn finish(self, args: &ReportArgs) -> AnalysedStream {
        let (session, analyzer) = self.state.into_parts();
        let (mut summary, samples) = analyzer.finish_with_helpers(&session, &Threads::available());
        self.readings.iter().for_each(|reading| reading.add_to(&mut summary));
        // Phases of a test under load are compared, packet by packet if possible.
        let keeps = args.keeps_packets() || session.load.is_some();
        let samples = if keeps { samples } else { Default::default() };
        AnalysedStream {
            summary,
            samples,
            log: self.log,
            records: Vec::new(),
            tcp: Vec::new(),
            heading: analysing(&session) + "\n",
            label: self.label,
            corrected: args.plot_corrected,
            shown_windows: Vec::new(),
            file_ending: file_ending(session.spec.direction()),
            late: None,
            session,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_kinds_of_files_are_recognised() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let kind = |name: &str| kind_of(&root.join(name)).unwrap_or_default();
        assert!(kind("testdata/tcp/spurious.pcap").contains("`jitlat tcp "));
        assert!(kind("README.md").contains("# npkts"));
        assert!(kind("testdata/a_loopback_v1.expected.json").contains("`jitlat compare`"));
        for log in ["testdata/a_loopback_v1.log", "testdata/c_unsync_v2.log", "Cargo.toml", "no such file"] {
            assert_eq!(kind(log), "");
        }
    }

    #[test]
    fn both_logs_of_a_test_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("both.log");
        assert_eq!(parts_of(&path), None);
        let [up, down] = ["up", "down"].map(|ending| format!("{}.{ending}", path.display()));
        std::fs::write(&up, "").unwrap();
        assert_eq!(parts_of(&path), None);
        std::fs::write(&down, "").unwrap();
        assert_eq!(parts_of(&path), Some([up, down]));
        std::fs::write(&path, "").unwrap();
        assert_eq!(parts_of(&path), None);
    }
}
