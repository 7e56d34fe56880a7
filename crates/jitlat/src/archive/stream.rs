//! `jitlat archive stream DIR -- COMMAND`: results for other systems, sent by a command that accepts a message on its
//! standard input.

use super::WhereArgs;
use crate::exit::ExitStatus;
use crate::interrupt::Signals;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jitlat_archive::{Archive, CatalogueWatch, PublishedThrough};
use jitlat_core::Span;
use jitlat_net::{clock, wake};
use jitlat_output::results::RESULT_FORMATS;
use jitlat_output::terminal::work::Work;
use jitlat_store::output as file;
use std::fs;
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
    /// Wait for further tests until stopped, and repeat messages that fail
    #[arg(long)]
    follow: bool,
    /// Maximum number of tests in a message
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=5000))]
    batch: u32,
    /// Command that sends a message from its standard input; status 0 means sent
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
    let format = format.with_context(|| format!("--as {}: this build does not have it", args.format))?;
    let signals = Signals::to_stop()?;
    let root = &args.place.archive;
    // Watched before the first look, so that no test is missed in between.
    let watch = args.follow.then(|| CatalogueWatch::watch(&[root])).transpose()?;
    let archive = Archive::open(root)?;
    file::check(&args.state).with_context(|| "--state".to_owned())?;
    let mut through = read_state(&args.state, &archive)?;
    if through.is_none() && args.new {
        through = archive.newest_entered()?;
    }
    let work = Work::of("sending results");
    let (mut sent, mut pause) = (0u64, RETRY_S.0);
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
                work.describe(&format!("sending results: {sent} tests"));
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
                return Err(
                    e.context(format!("{sent} tests were sent, and the next run continues with the others"))
                );
            }
        }
    }
    work.print(&format!("{sent} tests sent\n"))?;
    Ok(ExitStatus::Measured)
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
            "--state: {} is about another archive, or about this one before its catalogue was made again: remove it to send all \
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
