//! [`DirectionRecorder`]: writes the records of both directions to logs and analyses them, in bounded memory.

use super::analysis::DirectionAnalysis;
use crate::error::{Context, Error, Result};
use crate::report::AnalysedStream;
use jitlat_core::analysis::{Analyzer, Options};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::{PacketRecord, Session};
use jitlat_instruments::Analysed;
use jitlat_store::log::{LogFile, LogVersion, Naming};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Names of the directions, OUT first.
const LABELS: [&str; 2] = ["OUT", "IN"];

/// Writes and analyses the records of both directions.
pub struct DirectionRecorder {
    options: Options,
    ways: [DirectionRun; 2],
    /// Path of an output that needs every packet at the end; `None` if there is none.
    rows: Option<PathBuf>,
    failures: Vec<Error>,
    /// Folders with temporary logs, which are removed when this value is dropped.
    scratch: Vec<TempDir>,
}

#[derive(Default)]
struct DirectionRun {
    session: Option<Session>,
    /// Analysis; `None` before the measurement has begun.
    analysis: Option<DirectionAnalysis>,
    log: Option<LogFile>,
    /// Records for the output that needs every packet; empty if there is a log.
    records: Vec<PacketRecord>,
}

/// Analyses of both directions, OUT first, and errors.
#[derive(Default)]
pub struct PointAnalyses {
    /// Analysed streams: OUT, then IN; empty if the measurement never began.
    pub runs: Vec<AnalysedStream>,
    /// Errors of analysing and writing.
    pub failures: Vec<Error>,
    /// Folders with temporary logs, which are removed when this value is dropped.
    pub scratch: Vec<TempDir>,
}

impl DirectionRecorder {
    /// Creates a recorder. With `log`, the logs are `log.up` (OUT) and `log.down` (IN). `rows` is an output that needs
    /// every packet at the end.
    ///
    /// # Errors
    /// [`Error`] if a log cannot be created.
    pub fn new(options: Options, log: Option<&Path>, rows: Option<&Path>) -> Result<DirectionRecorder> {
        let mut ways: [DirectionRun; 2] = Default::default();
        if let Some(path) = log {
            let logs = LogFile::create_pair(&Naming::Given(path.to_owned()), LogVersion::V3)?;
            ways.iter_mut().zip(logs).for_each(|(way, log)| way.log = Some(log));
        }
        let rows = rows.map(Path::to_owned);
        Ok(DirectionRecorder { options, ways, rows, failures: Vec::new(), scratch: Vec::new() })
    }

    /// Starts analysing and writing the records of `sessions`.
    fn begin(&mut self, sessions: &[Session]) {
        for (way, session) in self.ways.iter_mut().zip(sessions) {
            // The number of packets is only known beforehand for short captures.
            let streaming = self.options.streaming || session.sent.is_none();
            let options = Options { streaming, ..self.options.clone() };
            match DirectionAnalysis::start(Analyzer::new(session, &options)) {
                Ok(analysis) => way.analysis = Some(analysis),
                Err(e) => self.failures.push(e),
            }
            if let (None, Some(path), None) = (&way.log, &self.rows, session.sent) {
                match scratch_log(path) {
                    Ok((dir, log)) => {
                        way.log = Some(log);
                        self.scratch.push(dir);
                    }
                    Err(e) => self.failures.push(e),
                }
            }
            way.log.iter_mut().for_each(|log| log.begin(session));
        }
    }

    fn take(&mut self, k: usize, records: &[PacketRecord]) {
        let Some(way) = self.ways.get_mut(k) else { return };
        way.analysis.iter_mut().for_each(|analysis| analysis.push_all(records));
        way.log.iter_mut().for_each(|log| records.iter().for_each(|record| log.record(record)));
        let is_short = way.session.as_ref().is_some_and(|session| session.sent.is_some());
        if way.log.is_none() && self.rows.is_some() && is_short {
            way.records.extend_from_slice(records);
        }
    }

    /// Returns the analyses of both directions; empty if the measurement never began.
    pub fn finish(self) -> PointAnalyses {
        let DirectionRecorder { ways, mut failures, scratch, .. } = self;
        // Conclude both directions in parallel.
        let concluding = ways.map(|mut way| {
            let (session, analysis) = way.session.take().zip(way.analysis.take())?;
            let concluding = analysis.end(&session);
            Some((way, session, concluding))
        });
        let mut runs = Vec::new();
        for (way, label) in concluding.into_iter().zip(LABELS) {
            let Some((way, session, concluding)) = way else { continue };
            let log = way.log.and_then(|mut log| {
                log.finish(&session);
                log.close().map(|(path, _)| path).map_err(|e| failures.push(e.into())).ok()
            });
            let (summary, samples) = match concluding.wait() {
                Ok(analysed) => analysed,
                Err(e) => {
                    failures.push(e);
                    continue;
                }
            };
            runs.push(AnalysedStream {
                log,
                records: way.records,
                heading: format!("== {label}\n"),
                label: label.to_owned(),
                ..Analysed { session, summary, samples }.into()
            });
        }
        PointAnalyses { runs, failures, scratch }
    }
}

impl Observer for DirectionRecorder {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Started(sessions) | Event::Concluding(sessions) | Event::Finished(sessions) => {
                for (way, session) in self.ways.iter_mut().zip(sessions) {
                    way.session = Some(session.clone());
                }
                if matches!(event, Event::Started(_)) {
                    self.begin(sessions);
                }
            }
            Event::Records { stream, records, .. } => self.take(stream, records),
            _ => {}
        }
    }
}

/// Creates a temporary log in the folder of `path`, or in the folder for temporary files if `path` is not a regular
/// file.
fn scratch_log(path: &Path) -> Result<(TempDir, LogFile)> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty() && path.as_os_str() != "-");
    let mut builder = tempfile::Builder::new();
    let dir = match parent {
        Some(dir) if !path.exists() || path.is_file() => builder.prefix(".jitlat-").tempdir_in(dir),
        _ => builder.prefix(".jitlat-").tempdir(),
    };
    let dir = dir.with_context(|| format!("storing packets for {}", path.display()))?;
    let log = LogFile::create(&Naming::Given(dir.path().join("packets")), LogVersion::V3)?;
    Ok((dir, log))
}
