//! The records of both ways on their way into logs and into the common analysis, in bounded memory.

use crate::present::Run;
use anyhow::{Context, Result};
use jitlat_core::analysis::{Analyzer, Options, Samples};
use jitlat_core::passive::streams::session;
use jitlat_core::passive::{ClockDifference, Sides, StreamSink, Streams, Way};
use jitlat_core::spec::MAX_PACKETS;
use jitlat_core::time::Span;
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::{LogFile, Naming, Version};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Records of a way that are kept for the exact analysis; longer captures are analysed in constant memory.
const HELD: usize = 1 << 20;

/// Keeps both ways.
pub struct Keep {
    ways: [Held; 2],
    options: Options,
}

/// Both ways analysed, OUT first, and what could not be saved of them.
#[derive(Default)]
pub struct Finished {
    pub runs: Vec<Run>,
    pub failures: Vec<anyhow::Error>,
    /// Where logs are that nobody asked for: they go with it.
    pub scratch: Vec<TempDir>,
}

struct Held {
    /// What is known of the session before its packets.
    session: Session,
    records: Vec<PacketRecord>,
    /// Takes over when there are too many records to hold.
    analyzer: Option<Analyzer>,
    log: Option<LogFile>,
    /// The file that wants every packet in the end; beyond so many records they wait in a log beside it.
    rows: Option<PathBuf>,
    scratch: Option<TempDir>,
    failure: Option<anyhow::Error>,
}

impl Keep {
    /// Sinks for both ways; with `log`, the logs `log.up` (OUT) and `log.down` (IN). `rows` is a file that wants
    /// every packet in the end.
    pub fn new(
        sides: &[Sides; 2],
        options: Options,
        log: Option<&Path>,
        rows: Option<&Path>,
    ) -> Result<Keep> {
        let logs = match log {
            None => [None, None],
            Some(path) => LogFile::create_pair(&Naming::Given(path.to_owned()), Version::V3)?.map(Some),
        };
        let mut logs = logs.into_iter();
        let ways = Way::BOTH.map(|way| Held {
            session: session(way, sides, MAX_PACKETS.into(), 0, Span(0)),
            records: Vec::new(),
            analyzer: None,
            log: logs.next().flatten(),
            rows: rows.map(Path::to_owned),
            scratch: None,
            failure: None,
        });
        Ok(Keep { ways, options })
    }
}

impl StreamSink for Keep {
    #[inline]
    fn record(&mut self, way: Way, record: &PacketRecord) {
        let held = &mut self.ways[way as usize];
        match &mut held.analyzer {
            Some(analyzer) => {
                analyzer.push(record);
                if let Some(log) = &mut held.log {
                    log.record(record);
                }
            }
            None => {
                held.records.push(*record);
                if held.records.len() >= HELD {
                    held.spill(&self.options);
                }
            }
        }
    }
}

impl Held {
    fn spill(&mut self, options: &Options) {
        let mut unknown = self.session.clone();
        unknown.sent = None;
        let options = Options { streaming: true, ..options.clone() };
        if let (None, Some(path)) = (&self.log, &self.rows) {
            match scratch_log(path) {
                Ok((dir, log)) => (self.scratch, self.log) = (Some(dir), Some(log)),
                Err(e) => self.failure = Some(e),
            }
        }
        let mut analyzer = Analyzer::new(&unknown, &options);
        if let Some(log) = &mut self.log {
            log.begin(&unknown);
        }
        for r in std::mem::take(&mut self.records) {
            analyzer.push(&r);
            if let Some(log) = &mut self.log {
                log.record(&r);
            }
        }
        self.analyzer = Some(analyzer);
    }

    /// The run, and why not all of it could be saved.
    fn finish(mut self, session: Session, options: &Options, label: &str) -> (Run, Self) {
        let analyzer = match self.analyzer.take() {
            Some(analyzer) => analyzer,
            None => {
                let mut analyzer = Analyzer::new(&session, options);
                if let Some(log) = &mut self.log {
                    log.begin(&session);
                }
                for r in &self.records {
                    analyzer.push(r);
                    if let Some(log) = &mut self.log {
                        log.record(r);
                    }
                }
                analyzer
            }
        };
        let log = self.log.take().and_then(|mut log| {
            log.finish(&session);
            log.close().map(|written| written.0).map_err(|e| self.failure = Some(e.into())).ok()
        });
        let (summary, samples): (_, Samples) = analyzer.finish_with_samples(&session);
        let run = Run {
            summary,
            session,
            samples,
            log,
            records: if self.rows.is_some() { std::mem::take(&mut self.records) } else { Vec::new() },
            tcp: Vec::new(),
            heading: format!("== {label}\n"),
            label: label.to_owned(),
        };
        (run, self)
    }
}

/// A log that nobody asked for, beside `path` or, if that is no file, where temporary files are.
fn scratch_log(path: &Path) -> Result<(TempDir, LogFile)> {
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty() && path.as_os_str() != "-");
    let mut builder = tempfile::Builder::new();
    let dir = match beside {
        Some(dir) if !path.exists() || path.is_file() => builder.prefix(".jitlat-").tempdir_in(dir),
        _ => builder.prefix(".jitlat-").tempdir(),
    };
    let dir = dir.with_context(|| format!("keeping packets for {}", path.display()))?;
    let log = LogFile::create(&Naming::Given(dir.path().join("packets")), Version::V3)?;
    Ok((dir, log))
}

/// The two ways analysed.
pub fn finish(streams: Streams<Keep>, sides: &[Sides; 2], clocks: &ClockDifference) -> Finished {
    let sessions = Way::BOTH.map(|w| streams.session(w, sides, clocks));
    let Keep { ways, options } = streams.into_sink();
    let mut finished = Finished::default();
    for ((held, session), label) in ways.into_iter().zip(sessions).zip(["OUT", "IN"]) {
        let (run, rest) = held.finish(session, &options, label);
        finished.runs.push(run);
        finished.failures.extend(rest.failure);
        finished.scratch.extend(rest.scratch);
    }
    finished
}
