//! `jitlat HOST --collect LOG`: fetches the server's results of a test whose client ended before it received them.

use crate::exit::ExitStatus;
use crate::options::one_way::OneWayArgs;
use crate::test::{self, TestObservers};
use anyhow::{Result, bail};
use jitlat_core::{Direction, Session};
use jitlat_instruments::one_way::InterruptedTest;
use jitlat_instruments::{OneWay, Stop};
use jitlat_output::input;
use jitlat_output::screen::StreamOrigin;
use std::path::{Path, PathBuf};

/// Tag in which earlier logs contain the server's control port, unless it is the usual one.
const PORT_TAG: &str = "control-port";

/// Returns the control port of the server of `session`; `None` if its log does not contain it.
fn control_port(session: &Session) -> Option<u16> {
    let tagged = || session.tags.iter().find(|(key, _)| key == PORT_TAG)?.1.parse().ok();
    session.control_port.or_else(tagged)
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
    let logged = left.iter().find_map(|test| control_port(&test.session));
    if let Some(port) = logged.filter(|_| args.host_args.control_port.is_none()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::TestSpec;

    #[test]
    fn the_control_port_of_a_log_precedes_a_tag_of_its_user() {
        let of = |control_port, tag: &str| {
            let tags = vec![(PORT_TAG.to_owned(), tag.to_owned())];
            super::control_port(&Session { control_port, tags, ..Session::new(TestSpec::default()) })
        };
        assert_eq!(of(None, "3000"), Some(3000), "an earlier log");
        assert_eq!(of(Some(2666), "3000"), Some(2666));
        assert_eq!(of(None, "none"), None);
    }
}
