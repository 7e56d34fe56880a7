//! The records of both ways on their way into logs and into the common analysis, in bounded memory.

use crate::present::Run;
use anyhow::Result;
use jitlat_core::analysis::{Analyzer, Options, Samples};
use jitlat_core::passive::streams::session;
use jitlat_core::passive::{ClockDifference, Sides, StreamSink, Streams, Way};
use jitlat_core::spec::MAX_PACKETS;
use jitlat_core::time::Span;
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::{LogFile, Naming, Version};
use std::path::{Path, PathBuf};

/// Records of a way that are kept for the exact analysis; longer captures are analysed in constant memory.
const HELD: usize = 1 << 20;

/// Keeps both ways.
pub struct Keep {
    ways: [Held; 2],
    options: Options,
}

struct Held {
    /// What is known of the session before its packets.
    session: Session,
    records: Vec<PacketRecord>,
    /// Takes over when there are too many records to hold.
    analyzer: Option<Analyzer>,
    log: Option<LogFile>,
}

impl Keep {
    /// Sinks for both ways; with `log`, the logs `log.up` (OUT) and `log.down` (IN).
    pub fn new(sides: &[Sides; 2], options: Options, log: Option<&Path>) -> Result<Keep> {
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

    fn finish(mut self, session: Session, options: &Options, label: &str) -> Result<Run> {
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
        let log: Option<PathBuf> = match self.log {
            None => None,
            Some(mut log) => {
                log.finish(&session);
                Some(log.close()?.0)
            }
        };
        let (summary, samples): (_, Samples) = analyzer.finish_with_samples(&session);
        Ok(Run {
            summary,
            session,
            samples,
            log,
            records: Vec::new(),
            tcp: Vec::new(),
            heading: format!("== {label}\n"),
            label: label.to_owned(),
        })
    }
}

/// The two ways analysed, OUT first.
pub fn finish(streams: Streams<Keep>, sides: &[Sides; 2], clocks: &ClockDifference) -> Result<Vec<Run>> {
    let sessions = Way::BOTH.map(|w| streams.session(w, sides, clocks));
    let Keep { ways, options } = streams.into_sink();
    let labels = ["OUT", "IN"];
    let ways = ways.into_iter().zip(sessions).zip(labels);
    ways.map(|((held, session), label)| held.finish(session, &options, label)).collect()
}
