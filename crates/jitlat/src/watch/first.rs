//! [`ask`]: a few requests to each host before the first tests, so that a wrong name or a silent host shows at once.

use super::lines::figure;
use crate::interrupt::Signals;
use crate::monitor::instruments::MonitorInstruments;
use anyhow::Result;
use jitlat_core::observer::Observer;
use jitlat_core::scalars::Scalar;
use jitlat_core::{Analyzer, Options};
use jitlat_instruments::{RecordCollector, Stop};
use jitlat_monitor::Model;
use jitlat_monitor::file::{DeclaredTest, OptionValue};
use jitlat_monitor::model::Measurement;
use jitlat_monitor::runtime::{Equipment, TestSite};
use jitlat_output::terminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Longest wait for all hosts together; looking a name up can take longer than the requests.
const MAX_WAIT: Duration = Duration::from_secs(4);
/// Time between two checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Options of these requests, instead of those of the tests.
const FEW: [(&str, &str); 3] = [("packets", "3"), ("period", "200ms"), ("timeout", "1s")];

/// Answer of a host.
enum FirstAnswer {
    /// Smallest round-trip time in ns.
    Answered(f64),
    Silent,
    /// Reason why nothing can be sent to it.
    Failed(String),
}

/// Sends three requests to each host and prints a line for each. Returns false if nothing can be sent to any of them.
pub fn ask(model: &Model, hosts: &[String], width: usize, signals: &Signals) -> Result<bool> {
    let (answers, answered) = mpsc::channel();
    let stop = Stop::new();
    for (k, host) in hosts.iter().enumerate() {
        let (work, host, stop, answers) =
            (model.tests[0].work.clone(), host.clone(), stop.clone(), answers.clone());
        let thread = std::thread::Builder::new().name(format!("first {k}"));
        // A thread that waits for the lookup of a name cannot be ended, so nobody waits for it.
        thread.spawn(move || drop(answers.send((k, first(&work, &host, &stop)))))?;
    }
    drop(answers);
    let (until, mut waiting, mut reached) = (Instant::now() + MAX_WAIT, vec![true; hosts.len()], false);
    while Instant::now() < until && !signals.stop().is_requested() {
        let (k, answer) = match answered.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        waiting[k] = false;
        reached |= !matches!(answer, FirstAnswer::Failed(_));
        let said = match answer {
            FirstAnswer::Answered(ns) => format!("answers in {}", figure(ns)),
            FirstAnswer::Silent => {
                "no answer yet; if it never answers, another --proto may reach it".to_owned()
            }
            // The reason begins with the name of the host, which is on the line already.
            FirstAnswer::Failed(why) => {
                why.strip_prefix(&hosts[k]).and_then(|why| why.strip_prefix(": ")).unwrap_or(&why).to_owned()
            }
        };
        terminal::print(&format!("{:<width$}  {said}\n", hosts[k]))?;
    }
    stop.request();
    for (host, _) in hosts.iter().zip(&waiting).filter(|(_, waiting)| **waiting) {
        reached = true;
        terminal::print(&format!("{host:<width$}  no answer yet; its name is still being looked up\n"))?;
    }
    Ok(reached)
}

fn first(work: &Measurement, host: &str, stop: &Stop) -> FirstAnswer {
    let mut options = work.options.clone();
    options.retain(|(name, _)| FEW.iter().all(|(few, _)| few != name));
    options.extend(FEW.map(|(name, value)| (name.to_owned(), OptionValue::Text(value.to_owned()))));
    let asked = DeclaredTest {
        instrument: &work.instrument,
        profiles: &work.profiles,
        options: &options,
        duration: None,
        direction: work.direction,
    };
    let site = TestSite {
        address: host,
        key: None,
        of_server: Vec::new(),
        is_first: true,
        is_watched: false,
        name: None,
        tags: Vec::new(),
    };
    let mut records = RecordCollector::default();
    let sessions = match MonitorInstruments.test(&asked, &site) {
        Ok(test) => match test.run(stop, &mut [&mut records as &mut dyn Observer]) {
            Ok(measured) => measured.sessions,
            Err(e) => return FirstAnswer::Failed(e.to_string()),
        },
        Err(wrong) => return FirstAnswer::Failed(wrong.message),
    };
    let (Some(session), Some(records)) = (sessions.first(), records.records.first()) else {
        return FirstAnswer::Silent;
    };
    let mut analyzer = Analyzer::new(session, &Options::default());
    analyzer.push_all(records);
    let summary = analyzer.finish(session);
    let smallest = Scalar::named("latency-min").and_then(|figure| figure.of(&summary));
    smallest.map_or(FirstAnswer::Silent, |ns| FirstAnswer::Answered(ns.as_f64()))
}
