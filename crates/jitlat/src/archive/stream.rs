//! `jitlat archive stream DIR -- COMMAND`: results for other systems, sent by a command that accepts a message on its
//! standard input.

use super::WhereArgs;
use crate::exit::ExitStatus;
use crate::interrupt::Signals;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jitlat_archive::{Archive, CatalogueWatch, PublishedThrough, TestId};
use jitlat_core::Span;
use jitlat_net::{clock, wake};
use jitlat_output::results::RESULT_FORMATS;
use jitlat_output::terminal::work::Work;
use jitlat_store::output as file;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracing::warn;

/// Shortest and longest time between two attempts, in seconds.
const RETRY_S: (i64, i64) = (1, 60);

#[derive(Clone, Debug, Args)]
pub(super) struct StreamArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Format of the messages: json, keyed-json, otlp, otlp-protobuf or remote-write
    ///
    /// docs/formats/stream.md describes them.
    #[arg(long = "as", value_name = "NAME", default_value = "json", value_parser = format_parser())]
    format: &'static str,
    /// File that contains what was sent: the next run continues after it
    ///
    /// It is written after each message that COMMAND has accepted. Use one file per archive and destination.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// Without a state, begin with tests that are added from now on
    #[arg(long)]
    new: bool,
    /// Wait for further tests until the program is stopped, and repeat failed messages
    #[arg(long)]
    follow: bool,
    /// Maximum number of tests in a message
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=5000))]
    batch: u32,
    /// Command that sends the message at its standard input; status 0 means sent
    ///
    /// It is run once for each message. Give it a time limit of its own, such as curl --max-time 30.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn format_parser() -> impl TypedValueParser<Value = &'static str> {
    let named = |name: String| RESULT_FORMATS.iter().find(|format| format.name == name).map(|f| f.name);
    PossibleValuesParser::new(RESULT_FORMATS.iter().map(|format| format.name))
        .map(move |name| named(name).unwrap_or("json"))
}

/// Sends the results of tests that were not sent yet.
pub(super) fn run(args: &StreamArgs) -> Result<ExitStatus> {
    let format = RESULT_FORMATS.iter().find(|format| format.name == args.format);
    let format =
        format.with_context(|| format!("--as {}: this build does not include this format", args.format))?;
    let signals = Signals::to_stop()?;
    let root = &args.place.archive;
    // Watch before the first read, so that no test is missed between the two.
    let watch = args.follow.then(|| CatalogueWatch::watch(&[root])).transpose()?;
    let archive = Archive::open(root)?;
    file::check(&args.state).with_context(|| "--state".to_owned())?;
    let _locked = lock(&args.state)?;
    let mut through = read_state(&args.state, &archive)?;
    if through.is_none() && args.new {
        // The number 0 is before all tests that are added from now on.
        let none = PublishedThrough { entered: 0, test: TestId(0).to_string() };
        let newest = archive.newest_entered()?.unwrap_or(none);
        // Otherwise the next run would leave out the tests that are added until then.
        write_state(&args.state, &newest)?;
        through = Some(newest);
    }
    let work = Work::of("sending results");
    let (mut sent, mut pause) = (0u64, RETRY_S.0);
    let tests = |n: u64| if n == 1 { "1 test".to_owned() } else { format!("{n} tests") };
    while !signals.stop().is_requested() {
        let after = through.as_ref().map_or(-1, |through| through.entered);
        let results = archive.results_after(after, args.batch as usize)?;
        let Some(last) = results.last() else {
            let Some(watch) = &watch else { break };
            wake::wait(&[watch.as_fd(), signals.as_fd()], None);
            watch.take();
            signals.read_all();
            continue;
        };
        let message = (format.message)(&results)?;
        match deliver(&args.command, &message) {
            Ok(()) => {
                let now = PublishedThrough { entered: last.entered, test: last.id.clone() };
                write_state(&args.state, &now)?;
                through = Some(now);
                sent += results.len() as u64;
                pause = RETRY_S.0;
                work.describe(&format!("sending results: {}", tests(sent)));
            }
            Err(_) if signals.stop().is_requested() => break,
            Err(e) if args.follow => {
                work.without(|| warn!("{e:#}; the next attempt is in {pause} s"));
                let until = clock::steady() + Span(pause * 1_000_000_000);
                while clock::steady() < until && !signals.stop().is_requested() {
                    wake::wait(&[signals.as_fd()], Some(until));
                    signals.read_all();
                }
                pause = (2 * pause).min(RETRY_S.1);
            }
            Err(e) => {
                let tests = tests(sent);
                return Err(e.context(format!("{tests} sent; the next run continues with the others")));
            }
        }
    }
    work.print(&format!("{} sent\n", tests(sent)))?;
    Ok(ExitStatus::Measured)
}

/// Locks a state until the file is dropped, so that no two programs send the same tests. The state itself is replaced when it is written.
fn lock(state: &Path) -> Result<File> {
    let mut name = state.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let file = File::options().create(true).write(true).truncate(false).open(&path);
    let file = file.with_context(|| format!("--state: opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "--state: another `archive stream` uses {}: end it first, or use one file per destination",
            state.display()
        ),
        Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("--state: locking {}", path.display())),
    }
}

/// Reads the newest test that was sent; `None` if there is no state.
fn read_state(path: &Path, archive: &Archive) -> Result<Option<PublishedThrough>> {
    let text = match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("--state: reading {}", path.display()))?,
    };
    let through: PublishedThrough = serde_json::from_slice(&text)
        .with_context(|| format!("--state: {} is not a state of `archive stream`", path.display()))?;
    if !archive.has_entered(&through)? {
        bail!(
            "--state: {} belongs to another archive, or to this one before its catalogue was rebuilt: remove it to send all \
             tests (those with a known hash are repeated), or give another file",
            path.display()
        );
    }
    Ok(Some(through))
}

fn write_state(path: &Path, through: &PublishedThrough) -> Result<()> {
    let text = serde_json::to_string(through)? + "\n";
    file::write(path, |out| out.write_all(text.as_bytes())).context("--state")
}

/// Runs the command with a message on its standard input.
fn deliver(command: &[String], message: &[u8]) -> Result<()> {
    let [program, arguments @ ..] = command else { bail!("give a command after --") };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(message));
    let status = child.wait().with_context(|| format!("waiting for {program}"))?;
    if !status.success() {
        return Err(anyhow!("{program} did not accept a message of {} bytes ({status})", message.len()));
    }
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            Err(anyhow!("{program} ended before it had read the whole message of {} bytes", message.len()))
        }
        written => written.with_context(|| format!("writing to {program}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let first = lock(&state).unwrap();
        assert!(lock(&state).unwrap_err().to_string().contains("another `archive stream` uses"));
        drop(first);
        assert!(lock(&state).is_ok());
    }
}
