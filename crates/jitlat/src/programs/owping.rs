//! `owping`: one-way tests with an OWAMP server, in one or both directions.

use super::arguments::{ForeignOption as Opt, Given, Program, Words, with, wrong};
use super::measured::OneWayTest;
use super::perfsonar::{self as common, Announcement, first_packets, mode, owamp, port, session_words, unit};
use anyhow::{Context, Result, bail};
use jitlat_core::{Direction, Span};
use jitlat_net::clock;
use jitlat_output::terminal;
use jitlat_proto::owamp::Statistics;
use jitlat_store::output as file;
use std::path::Path;
use tracing::warn;

pub static PROGRAM: Program = Program {
    name: "owping",
    about: "Measures one-way delay with an OWAMP server, with the text of owping",
    usage: "[OPTIONS] HOST[:PORT]",
    options: &[
        Opt::printed("-t", "", "only the direction to HOST"),
        Opt::printed("-f", "", "only the direction from HOST (-R)"),
        Opt::printed("-T", "FILE", "like -t, and a data file of the session (.owp)"),
        Opt::printed("-F", "FILE", "like -f, and a data file of the session (.owp)"),
        common::COUNT,
        common::SCHEDULE,
        owamp::TIMEOUT,
        common::PADDING,
        common::DSCP,
        Opt::printed("-P", "PORT", "-s, -d PORT (the first free one of a range, with -t or -f)"),
        Opt::printed("-z", "SECONDS", "the session starts after this time"),
        Opt::ours("-A", "MODES", "--owamp-mode", modes_of_owamp),
        owamp::USER,
        owamp::KEYS,
        common::LOCAL,
        owamp::INTERFACE,
        common::V4,
        common::V6,
        Opt::ours("-a", "LIST", "--owamp-percentiles LIST", |list| with("--owamp-percentiles", list)),
        common::BUCKET,
        common::UNIT,
        Opt::refused("-N", "N", "`jitlat HOST --interval 1s --as intervals` writes windows"),
        Opt::printed("-v", "[N]", "a line for each packet, or the first N (--as owstats)"),
        common::UNIX_TIMES,
        Opt::printed("-R", "", "one line per packet, without text (--as owping)"),
        Opt::printed("-M", "", "machine-readable statistics (--as owstats-m)"),
        common::QUIET,
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Longest time until the start of a session, in seconds. Servers refuse longer ones.
const LONGEST_WAIT: f64 = 3600.0;
/// Number of packets without `-c`.
const PACKETS: u32 = 100;

fn modes_of_owamp(letters: &str) -> Words {
    mode(letters)?.map_or(Ok(Vec::new()), |mode| with("--owamp-mode", mode))
}

/// Formats the results of sessions as requested.
pub fn printed(given: &Given, sessions: &[Statistics]) -> Result<String> {
    let (unit, unix_times) = (unit(given)?, given.has("-U"));
    let first = given.number::<usize>("-v").unwrap_or(None);
    let text = |session: &Statistics| {
        let mut session = session.clone();
        (session.style.unit, session.style.unix_times) = (unit, unix_times);
        match (given.has("-R"), given.has("-M"), given.has("-v")) {
            (true, ..) => session.raw(),
            (_, true, _) => session.machine(),
            (.., true) => first_packets(&session.text(), first),
            _ => session.summary(),
        }
    };
    Ok(sessions.iter().map(text).collect())
}

fn run(given: &Given) -> Result<u8> {
    let host = given.operand("HOST")?;
    let to = given.has("-t") || given.has("-T");
    let from = given.has("-f") || given.has("-F");
    let mut words = session_words(given, PACKETS)?;
    match (to, from) {
        (true, false) => {}
        (false, true) => words.push("-R".to_owned()),
        _ => words.push("-b".to_owned()),
    }
    if let Some(port) = port(given)? {
        match (to, from) {
            (true, false) => words.extend(["-s".to_owned(), port.to_string()]),
            (false, true) => words.extend(["-d".to_owned(), port.to_string()]),
            _ => return Err(wrong("-P needs -t or -f: with both directions the system chooses the ports")),
        }
    }
    for name in ["-T", "-F"] {
        if let Some(path) = given.file(name)? {
            file::check(Path::new(path)).with_context(|| name.to_owned())?;
        }
    }
    unit(given)?;
    words.extend(["--proto".to_owned(), "owamp".to_owned(), "--".to_owned(), host.to_owned()]);
    let mut test = OneWayTest::new(&words)?;
    if let Some(seconds) = given.number::<f64>("-z")? {
        if !(0.0..=LONGEST_WAIT).contains(&seconds) {
            return Err(wrong(format!("-z {seconds}: give 0 to {LONGEST_WAIT} seconds")));
        }
        test.start_at(clock::wall() + Span((seconds * 1e9) as i64));
    }
    let stop = crate::interrupt::stop()?;
    let result = test.run(&stop, &mut Announcement::new(given, PACKETS)?)?;
    if result.owamp.is_empty() {
        bail!("{host}: the test ended before its results were available");
    }
    for (name, direction) in [("-T", Direction::Up), ("-F", Direction::Down)] {
        let Some(path) = given.file(name)? else { continue };
        let session = result.owamp.iter().find(|s| s.data.session.direction() == Some(direction));
        let session = session.with_context(|| format!("{name}: the session has no results"))?;
        file::write(Path::new(path), |out| out.write_all(&session.data.to_file()))?;
    }
    if !given.has("-Q") {
        for early in result.owamp.iter().filter_map(|session| session.data.early_end()) {
            warn!("{host}: {early}");
        }
        terminal::print(&printed(given, &result.owamp)?)?;
    }
    Ok(0)
}
