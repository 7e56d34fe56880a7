//! `jitlat HOST --collect LOG`: fetches the server's results of a test whose client ended before it received them.

use crate::exit::ExitStatus;
use crate::options::one_way::OneWayArgs;
use crate::test::{self, TestObservers};
use anyhow::{Result, bail};
use jitlat_core::Direction;
use jitlat_core::spec::CONTROL_PORT;
use jitlat_instruments::one_way::InterruptedTest;
use jitlat_instruments::{OneWay, Stop};
use jitlat_output::input;
use jitlat_output::screen::StreamOrigin;
use std::path::{Path, PathBuf};

/// Tag of a log with the server's control port, if it is not the usual one.
const PORT_TAG: &str = "control-port";

/// Adds the control port to the log of `test`, unless it is the usual one.
pub fn note_port(test: &mut OneWay) {
    let port = test.settings.control_port;
    if port != CONTROL_PORT {
        test.annotations.tags.push((PORT_TAG.to_owned(), port.to_string()));
    }
}

/// Returns the address of the server of the test with this log.
pub fn server(log: &Path) -> Result<String> {
    let session = input::open(log)?.session().clone();
    let server = match session.spec.direction() {
        Direction::Up => session.dst,
        Direction::Down => session.src,
    };
    let Some(server) = server else {
        bail!("{} does not contain the address of the server: give it before --collect", log.display());
    };
    Ok(server.to_string())
}

/// Fetches the results, saves them in new logs, and prints the report.
pub fn run(mut one_way: OneWay, logs: &[PathBuf], args: &OneWayArgs, stop: &Stop) -> Result<ExitStatus> {
    test::check(args, logs.len())?;
    let mut left = logs.iter().map(|log| read(log)).collect::<Result<Vec<InterruptedTest>>>()?;
    let tags = left.iter().flat_map(|test| &test.session.tags);
    let port = tags.filter(|(key, _)| key == PORT_TAG).find_map(|(_, port)| port.parse().ok());
    if let Some(port) = port.filter(|_| one_way.settings.control_port == CONTROL_PORT) {
        one_way.settings.control_port = port;
    }
    left.sort_by_key(|l| l.session.spec.direction() == Direction::Down);
    one_way.settings.terms.specs = left.iter().map(|l| l.session.spec.clone()).collect();
    let mut followed = TestObservers::new(&one_way, args)?;
    let outcome = followed.by(|observer| one_way.collect(left, stop, observer))?;
    let host = one_way.settings.host.clone();
    followed.conclude(&outcome, None, args, StreamOrigin::Test(&host))
}

fn read(log: &Path) -> Result<InterruptedTest> {
    let mut reader = input::open(log)?;
    let session = reader.session().clone();
    if session.two_way.is_some() {
        bail!("{} is the log of a two-way test: its far host has no results to collect", log.display());
    }
    let mut records = Vec::new();
    if session.spec.direction() == Direction::Down {
        // An interrupted log may end with a truncated line, which the reader skips.
        let mut failure = None;
        records.extend(reader.records(&mut failure));
        if let Some(failure) = failure {
            return Err(failure.into());
        }
    }
    Ok(InterruptedTest { session, records })
}
