//! [`Recorder`]: what happens to records on their way from a test to its report: into the log, then
//! into the analysis.

use crate::cli::TestArgs;
use crate::console;
use crate::journal::{Closed, Journal};
use crate::live::Live;
use crate::present::{self, Run};
use crate::progress::ProgressLine;
use anyhow::Result;
use jitlat_core::analysis::{Analyzer, Samples};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::session::Ending;
use jitlat_core::{NoiseFloor, PacketRecord, Session, TestSpec, WallTime};
use jitlat_report::text;
use jitlat_store::log::{LogFile, Naming, Version};
use std::path::PathBuf;

/// Logs and analyses every flow of one test.
pub struct Recorder<'a> {
    args: &'a TestArgs,
    silent: bool,
    host: String,
    created: WallTime,
    noise: Option<NoiseFloor>,
    flows: Vec<Flow>,
    progress: ProgressLine,
}

struct Flow {
    journal: Journal,
    analyzer: Analyzer,
    /// What the terminal is told while it runs.
    seen: Live,
}

impl<'a> Recorder<'a> {
    /// Creates the logs, so that a name that is taken is refused before anything is sent.
    pub fn new(host: &str, specs: &[TestSpec], args: &'a TestArgs) -> Result<Recorder<'a>> {
        let naming = match &args.log.output {
            Some(path) => Naming::Given(path.clone()),
            None => Naming::Random(PathBuf::from(".")),
        };
        let version = match args.log.log_version {
            1 => Version::V1,
            2 => Version::V2,
            _ => Version::V3,
        };
        let logs = match specs {
            [_, _] => Vec::from(LogFile::create_pair(&naming, version)?),
            _ => vec![LogFile::create(&naming, version)?],
        };
        let options = args.report.options();
        let flow = |(log, spec): (LogFile, &TestSpec)| Flow {
            journal: Journal::new(log),
            analyzer: Analyzer::new(&Session::new(spec.clone()), &options),
            seen: Live::new(),
        };
        let silent = present::is_silent(&args.report);
        Ok(Recorder {
            args,
            silent,
            host: host.to_owned(),
            created: jitlat_net::clock::wall(),
            noise: None,
            flows: logs.into_iter().zip(specs).map(flow).collect(),
            progress: ProgressLine::new(),
        })
    }

    /// Goes on with a test of which only results are outstanding.
    pub fn resume(&mut self, sessions: &[Session]) {
        for (k, session) in sessions.iter().enumerate() {
            let session = self.dress(session.clone());
            if let Some(flow) = self.flows.get_mut(k) {
                flow.journal.begin(&session);
            }
        }
    }

    /// What this host adds to every figure, to be kept with them.
    pub fn set_noise(&mut self, noise: Option<NoiseFloor>) {
        self.noise = noise;
    }

    /// Ends what the terminal shows; unused logs vanish.
    pub fn abandon(&mut self) {
        self.progress.clear();
    }

    /// Completes logs and analyses with what is known in the end. Also what went wrong with the logs.
    pub fn finish(mut self, sessions: Vec<Session>) -> (Vec<Run>, Vec<String>) {
        self.progress.clear();
        let mut troubles = Vec::new();
        let mut runs = Vec::new();
        let sessions: Vec<Session> = sessions.into_iter().map(|s| self.dress(s)).collect();
        let two = self.flows.len() == 2;
        let keep = self.args.report.keeps_packets() || self.args.capture.is_some();
        for (flow, session) in self.flows.into_iter().zip(sessions) {
            let direction = session.spec.direction();
            let (run, trouble) = flow.finish(&session, keep);
            troubles.extend(trouble);
            let mut heading = String::new();
            if two {
                heading += &format!("== {}\n", text::direction(direction));
            }
            if let Some(log) = &run.log {
                heading += &format!("{}\n\n", text::logged(log));
            }
            runs.push(Run { heading, label: text::direction(direction).to_owned(), ..run });
        }
        (runs, troubles)
    }

    /// Adds what only the user and this host know.
    fn dress(&self, mut session: Session) -> Session {
        session.created.get_or_insert(self.created);
        session.client.noise = self.noise.or(session.client.noise);
        session.name = self.args.log.name.clone().or(session.name);
        session.tags.extend(self.args.log.tags.iter().cloned());
        session
    }

    fn say(&self, line: &str) {
        if !self.silent {
            // A reader that has gone away will be noticed when the report is printed.
            let _ = console::print(line);
        }
    }
}

impl Observer for Recorder<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Connected(_) => self.say(&(text::connecting(&self.host) + "Connected.\n")),
            Event::Probing { done, of } => {
                self.progress.show(&format!("measuring the clocks: {done} of {of}"));
            }
            Event::Started(sessions) => self.started(sessions),
            Event::Progress(streams) => {
                let told: Vec<Option<String>> = self.flows.iter().map(|f| f.seen.told()).collect();
                self.progress.running(streams, &told, self.args);
            }
            Event::Arrived { stream, records } => {
                if let Some(flow) = self.flows.get_mut(stream) {
                    flow.journal.early(records);
                    records.iter().for_each(|r| flow.seen.push(r, r.delay()));
                }
            }
            Event::Collecting { done, of, .. } => {
                self.progress.show(&format!("collecting results: {done} of {of}"));
            }
            Event::Records { stream, records, .. } => {
                if let Some(flow) = self.flows.get_mut(stream) {
                    flow.records(records);
                }
            }
            _ => {}
        }
    }
}

impl Recorder<'_> {
    fn started(&mut self, sessions: &[Session]) {
        self.progress.clear();
        for (k, session) in sessions.iter().enumerate() {
            self.say(&(text::sending(session) + "\n"));
            let session = self.dress(session.clone());
            if let Some(flow) = self.flows.get_mut(k) {
                flow.journal.begin(&session);
            }
        }
    }
}

impl Flow {
    fn records(&mut self, records: &[PacketRecord]) {
        records.iter().for_each(|r| self.analyzer.push(r));
        self.journal.records(records);
    }

    fn finish(self, session: &Session, keep_samples: bool) -> (Run, Vec<String>) {
        let Closed { log, broken, troubles } = self.journal.close(session);
        let mut session = session.clone();
        if broken.is_some() && session.ending == Ending::Complete {
            session.ending = Ending::StorageFailed;
            session.reason = broken;
        }
        let (summary, samples) = self.analyzer.finish_with_samples(&session);
        let samples = if keep_samples { samples } else { Samples::default() };
        let run = Run {
            summary,
            session,
            samples,
            log,
            records: Vec::new(),
            tcp: Vec::new(),
            heading: String::new(),
            label: String::new(),
        };
        (run, troubles)
    }
}
