//! `powstream`: sessions with an OWAMP server without a pause in between until Ctrl-C, each as a data file and a summary
//! in a folder.
//!
//! A session is opened before the previous one ends, on a connection of its own, and starts at the time of its last
//! packet. Two sessions are therefore open at the same time for a few seconds.

use super::arguments::{ForeignOption as Opt, Given, Program, wrong};
use super::measured::OneWayTest;
use super::perfsonar::{self as common, owamp, session_words};
use crate::interrupt;
use anyhow::{Context, Result, anyhow, bail};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span, SteadyTime, WallTime};
use jitlat_instruments::{Stop, Unobserved};
use jitlat_net::client::StreamTimes;
use jitlat_net::clock;
use jitlat_output::terminal;
use jitlat_proto::amp::printed::time_of_day;
use jitlat_proto::owamp::Statistics;
use jitlat_store::output as file;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{error, warn};

pub static PROGRAM: Program = Program {
    name: "powstream",
    about: "Measures with an OWAMP server until Ctrl-C: sessions without a pause in between, each as a data file (START_END.owp) and its statistics (START_END.sum) in a folder",
    usage: "[OPTIONS] -d DIR HOST[:PORT]",
    options: &[
        Opt::printed("-d", "DIR", "the folder; default: this one"),
        Opt::printed("-t", "", "packets go to HOST; default: they come from HOST (-R)"),
        common::COUNT,
        common::SCHEDULE,
        owamp::TIMEOUT,
        common::PADDING,
        common::DSCP,
        owamp::USER,
        owamp::KEYS,
        common::LOCAL,
        owamp::INTERFACE,
        common::V4,
        common::V6,
        common::BUCKET,
        Opt::nothing("-p", "", "the name of each file is printed"),
        Opt::printed("--keep", "N", "at most N sessions; older files of this run are removed (10000)"),
        Opt::printed("--sessions", "N", "ends after N sessions; default: at Ctrl-C"),
        Opt::refused("-N", "N", "each session has one summary: choose -c"),
        Opt::refused("-z", "SECONDS", "the first session starts at once"),
        Opt::nothing("-R", "", "nothing is sent to the system's log"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Number of packets of a session without `-c`.
const PACKETS: u32 = 300;
/// Time until the next attempt after a failed session.
const RETRY: Span = Span::seconds(30);
/// Default number of sessions whose files are retained.
const KEEP: usize = 10_000;
/// Time before the end of a session at which the next one is opened, but at most half its length. Connecting and agreeing
/// takes some round trips; a keyed mode computes for up to a second.
const LEAD: Span = Span::seconds(5);
/// Maximum number of open sessions. Those that have ended wait for late packets and fetch the results.
const MAX_OPEN: usize = 8;
/// Time between two looks at the sessions.
const LOOK: Duration = Duration::from_millis(20);
/// Error of a session whose thread ended without a result.
const PANICKED: &str = "the thread of a session panicked: this is a bug in jitlat; please report it";

fn run(given: &Given) -> Result<u8> {
    let host = given.operand("HOST")?;
    let folder = Path::new(given.file("-d")?.unwrap_or("."));
    if !folder.is_dir() {
        bail!("-d {}: there is no such folder", folder.display());
    }
    let keep = given.number("--keep")?.unwrap_or(KEEP).max(1);
    let most: u64 = given.number("--sessions")?.unwrap_or(u64::MAX);
    if most == 0 {
        return Err(wrong("--sessions 0: give 1 or more"));
    }
    let mut words = session_words(given, PACKETS)?;
    let direction = if given.has("-t") { Direction::Up } else { Direction::Down };
    if direction == Direction::Down {
        words.push("-R".to_owned());
    }
    words.extend(["--proto".to_owned(), "owamp".to_owned(), "--".to_owned(), host.to_owned()]);
    // A wrong command line is refused before the first session.
    OneWayTest::new(&words)?;
    let stop = interrupt::stop()?;
    let mut files = Files { folder, keep, written: VecDeque::new() };
    let (results, ended) = channel();
    let (mut begun, mut failures) = (0, 0);
    let mut open: Vec<OpenSession> = Vec::new();
    // Time at which the next session is opened, and that at which it starts.
    let mut next: Option<(SteadyTime, WallTime)> = Some((clock::steady(), clock::wall()));
    let mut stopping = false;
    loop {
        // A second signal is passed on, too, and ends the sessions at once.
        if stop.flag().swap(false, Ordering::SeqCst) {
            open.iter().for_each(|session| session.stop.request());
            (stopping, next) = (true, None);
        }
        if let Some((at, start)) = next
            && clock::steady() >= at
            && open.len() < MAX_OPEN
        {
            next = None;
            open.push(OpenSession::begin(begun, &words, start, results.clone())?);
            begun += 1;
        }
        let is_lost = |s: &&OpenSession| s.result.is_none() && s.thread.is_finished();
        let over: Vec<u64> = open.iter().filter(is_lost).map(|s| s.number).collect();
        let mut arrived: Vec<SessionResult> = next_results(&ended).collect();
        let lost = |number: &u64| arrived.iter().all(|(of, _)| of != number);
        let lost: Vec<u64> = over.into_iter().filter(lost).collect();
        arrived.extend(lost.into_iter().map(|number| (number, Err(anyhow!(PANICKED)))));
        for (number, result) in arrived {
            let Some(place) = open.iter().position(|session| session.number == number) else { continue };
            if number + 1 == begun && !open[place].is_followed && begun < most && !stopping {
                // The end of a session that was not accepted is unknown: the next one is tried later.
                let later = (clock::steady() + RETRY, clock::wall() + RETRY);
                next = Some(open[place].times.end.get().map_or(later, |end| (clock::steady(), *end)));
                open[place].is_followed = true;
            }
            match result.and_then(begun_session) {
                Ok(statistics) => open[place].result = Some(statistics),
                Err(e) => {
                    open.remove(place);
                    if !stopping {
                        error!("{}", crate::exit::explain(&e));
                        failures += 1;
                    }
                }
            }
        }
        // Files are written in the order of the sessions, although a session that is cut short may end before an earlier
        // one.
        while let Some(statistics) = open.first_mut().and_then(|session| session.result.take()) {
            files.write(&open.remove(0), &statistics)?;
        }
        if let Some(session) = open.last_mut()
            && !session.is_followed
            && begun < most
            && !stopping
            && let Some(end) = session.times.end.get().copied()
        {
            session.is_followed = true;
            let left = end - clock::wall();
            let lead = LEAD.min(Span((end - session.times.start).0 / 2));
            next = Some((clock::steady() + (left - lead).max(Span::ZERO), end));
        }
        if open.is_empty() && next.is_none() {
            let is_limited = given.has("--sessions");
            return Ok(u8::from(files.written.is_empty() || failures > 0 && is_limited));
        }
    }
}

/// Waits for a moment, and returns the results of the sessions that have ended, each with the session's number.
fn next_results(ended: &Receiver<SessionResult>) -> impl Iterator<Item = SessionResult> {
    ended.recv_timeout(LOOK).into_iter().chain(ended.try_iter())
}

type SessionResult = (u64, Result<Statistics>);

/// Refuses a session of which no packet is known, so that it has no file that looks like the result of a test.
fn begun_session(statistics: Statistics) -> Result<Statistics> {
    if statistics.data.records.is_empty() {
        let begin = time_of_day(statistics.data.session.request.start);
        bail!("the session of {begin} ended before any of its packets was known: no file is written");
    }
    Ok(statistics)
}

/// A session that is measured by its own thread.
struct OpenSession {
    number: u64,
    stop: Stop,
    times: Arc<StreamTimes>,
    /// True if the time of the next session is known.
    is_followed: bool,
    thread: JoinHandle<()>,
    /// Result, which is not written before those of earlier sessions.
    result: Option<Statistics>,
}

impl OpenSession {
    fn begin(
        number: u64,
        words: &[String],
        start: WallTime,
        results: Sender<SessionResult>,
    ) -> Result<OpenSession> {
        let mut test = OneWayTest::new(words)?;
        let times = test.start_at(start);
        let stop = Stop::new();
        let ends = stop.clone();
        let measure = move || {
            let result = test.run(&ends, &mut Unobserved).and_then(|result| {
                result.owamp.into_iter().next().context("the session ended before its results were available")
            });
            // The receiver exists until all sessions have ended.
            let _ = results.send((number, result));
        };
        let thread = thread::Builder::new()
            .name(format!("session {number}"))
            .spawn(measure)
            .context("starting a session")?;
        Ok(OpenSession { number, stop, times, is_followed: false, thread, result: None })
    }
}

/// Files of the sessions.
struct Files<'a> {
    folder: &'a Path,
    keep: usize,
    written: VecDeque<[PathBuf; 2]>,
}

impl Files<'_> {
    /// Writes the data file and the statistics of a session, and removes the oldest ones.
    fn write(&mut self, session: &OpenSession, statistics: &Statistics) -> Result<()> {
        let begun = statistics.data.session.request.start;
        let scheduled = session.times.end.get().map(|end| NtpTime::from(*end));
        let early = statistics.data.early_end();
        // The name of a session that ended early covers the packets that are known.
        let known = statistics.data.records.iter().max_by_key(|record| record.seq).map(|last| last.sent);
        let end = known.filter(|_| early.is_some()).or(scheduled);
        let end = end.unwrap_or_else(|| NtpTime::from(clock::wall()));
        let name = format!("{:020}_{:020}", begun.0, end.0);
        let files = ["owp", "sum"].map(|ending| self.folder.join(format!("{name}.{ending}")));
        file::write(&files[0], |out| out.write_all(&statistics.data.to_file()))?;
        file::write(&files[1], |out| out.write_all(statistics.machine().as_bytes()))?;
        terminal::print(&format!("{}\n", files[0].display()))?;
        if let Some(early) = early {
            warn!("{}: {early}", files[0].display());
        }
        self.written.push_back(files);
        while self.written.len() > self.keep {
            for file in self.written.pop_front().into_iter().flatten() {
                fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
            }
        }
        Ok(())
    }
}
