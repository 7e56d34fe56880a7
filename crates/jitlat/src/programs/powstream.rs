//! `powstream`: sessions with an OWAMP server, one after the other until Ctrl-C, each as a data file and a summary in a
//! folder.

use super::arguments::{ForeignOption as Opt, Given, Program, of_switch, seconds, with};
use super::measured::one_way;
use super::owping::{payload, schedule};
use crate::interrupt::Signals;
use anyhow::{Context, Result, bail};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Direction, Span};
use jitlat_net::{clock, wake};
use jitlat_output::terminal;
use jitlat_proto::owamp::Statistics;
use jitlat_store::output as file;
use std::collections::VecDeque;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tracing::error;

pub static PROGRAM: Program = Program {
    name: "powstream",
    about: "Measures with an OWAMP server until Ctrl-C: one session after the other, each as a data file (START_END.owp) and its statistics (START_END.sum) in a folder",
    usage: "[OPTIONS] -d DIR HOST[:PORT]",
    options: &[
        Opt::printed("-d", "DIR", "the folder; default: this one"),
        Opt::printed("-t", "", "packets go to HOST; default: they come from HOST (-R)"),
        Opt::ours("-c", "N", "-n N", |n| with("-n", n)),
        Opt::ours("-i", "SCHEDULE", "-p TIME, --schedule", schedule),
        Opt::ours("-L", "SECONDS", "--owamp-timeout TIME", |s| with("--owamp-timeout", seconds(s)?)),
        Opt::printed("-s", "BYTES", "-l BYTES (padding and header)"),
        Opt::ours("-D", "DSCP", "-D DSCP", |dscp| with("-D", dscp)),
        Opt::ours("-u", "USER", "--owamp-user USER", |user| with("--owamp-user", user)),
        Opt::ours("-k", "FILE", "--owamp-key-file FILE", |file| with("--owamp-key-file", file)),
        Opt::ours("-S", "ADDR", "--bind ADDR", |address| with("--bind", address)),
        Opt::ours("-B", "IFACE", "--bind IFACE", |name| with("--bind", name)),
        Opt::ours("-4", "", "-4", |_| of_switch("-4")),
        Opt::ours("-6", "", "-6", |_| of_switch("-6")),
        Opt::ours("-b", "SECONDS", "--owamp-bucket TIME", |s| with("--owamp-bucket", seconds(s)?)),
        Opt::nothing("-p", "", "the name of each file is printed"),
        Opt::printed("--keep", "N", "at most N sessions; older files of this run are removed (10000)"),
        Opt::printed("--sessions", "N", "ends after N sessions; default: at Ctrl-C"),
        Opt::refused("-N", "N", "each session has one summary: choose -c"),
        Opt::refused("-z", "SECONDS", "a session starts at once"),
        Opt::nothing("-R", "", "nothing is sent to the system's log"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Time until the next attempt after a failed session.
const RETRY: Span = Span::seconds(30);
/// Default number of sessions whose files are retained.
const KEEP: usize = 10_000;

fn run(given: &Given) -> Result<u8> {
    let host = given.operand("HOST")?;
    let folder = Path::new(given.file("-d")?.unwrap_or("."));
    if !folder.is_dir() {
        bail!("-d {}: there is no such folder", folder.display());
    }
    let keep = given.number("--keep")?.unwrap_or(KEEP).max(1);
    let most: Option<u64> = given.number("--sessions")?;
    let mut words = given.words()?;
    if !given.has("-c") {
        words.extend(["-n".to_owned(), "300".to_owned()]);
    }
    if !given.has("-i") {
        words.extend(schedule("0.1e").map_err(anyhow::Error::msg)?);
    }
    let padded = payload(given, 14, 48)?;
    match padded.is_empty() {
        true => words.extend(["-l".to_owned(), if given.has("-k") { "48" } else { "14" }.to_owned()]),
        false => words.extend(padded),
    }
    let direction = if given.has("-t") { Direction::Up } else { Direction::Down };
    if direction == Direction::Down {
        words.push("-R".to_owned());
    }
    words.extend(["--proto".to_owned(), "owamp".to_owned(), "--".to_owned(), host.to_owned()]);
    let signals = Signals::to_stop()?;
    let stop = signals.stop();
    let mut written: VecDeque<[PathBuf; 2]> = VecDeque::new();
    let (mut sessions, mut failures) = (0, 0);
    loop {
        let mut failed = false;
        let began = clock::wall();
        let session = one_way(&words, stop).and_then(|result| {
            result.owamp.into_iter().next().context("the session ended before its results were available")
        });
        match session {
            Ok(session) => {
                let name = format!("{:020}_{:020}", NtpTime::from(began).0, NtpTime::from(clock::wall()).0);
                let files = write(&session, folder, &name)?;
                terminal::print(&format!("{}\n", files[0].display()))?;
                written.push_back(files);
            }
            Err(_) if stop.is_requested() => {}
            Err(e) => {
                error!("{}", crate::exit::explain(&e));
                failed = true;
                failures += 1;
            }
        }
        while written.len() > keep {
            for file in written.pop_front().into_iter().flatten() {
                fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
            }
        }
        sessions += 1;
        if stop.is_requested() || most.is_some_and(|most| sessions >= most) {
            return Ok(u8::from(written.is_empty() || failures > 0 && most.is_some()));
        }
        if failed {
            wake::wait(&[signals.as_fd()], Some(clock::steady() + RETRY));
        }
    }
}

/// Writes the data file and the statistics of a session.
fn write(session: &Statistics, folder: &Path, name: &str) -> Result<[PathBuf; 2]> {
    let files = ["owp", "sum"].map(|ending| folder.join(format!("{name}.{ending}")));
    file::write(&files[0], |out| out.write_all(&session.data.to_file()))?;
    file::write(&files[1], |out| out.write_all(session.machine().as_bytes()))?;
    Ok(files)
}
