//! `jitlat monitor FILE --fetch URL`: a separate process keeps FILE up to date from a web server, so that the monitor itself does not
//! need the right to write it.

use super::MonitorArgs;
use super::instruments::MonitorInstruments;
use crate::interrupt;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::{Span, quantity};
use jitlat_monitor::runtime::{FetchOutcome, FetchSource, SigningKey};
use jitlat_net::clock;
use jitlat_net::confine::{CallSet, Confinement, Confining};
use jitlat_net::wake::{self, StopSignal};
use jitlat_output::terminal;
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use tracing::{info, warn};

/// Line that the process prints after its first attempt.
const READY: &str = "ready";

/// Options for a file that is on a web server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "File on a server")]
pub struct FetchArgs {
    /// Keep FILE up to date from this https:// address, if it is signed
    ///
    /// The signature (minisign) is at the same address with .minisig after it. A file is refused, and the last good
    /// file stays in use, if its signature is wrong or older than that of FILE, or if it has faults.
    #[arg(long, value_name = "URL", value_parser = address, requires = "fetch_key", conflicts_with_all = ["check", "plan"])]
    fetch: Option<String>,
    /// Public key of minisign that signs the file: its text (RW…) or its file
    #[arg(long, value_name = "KEY", requires = "fetch")]
    fetch_key: Option<String>,
    /// Time between two requests to the server [default: 5m]
    #[arg(long, value_name = "T", value_parser = quantity::duration, requires = "fetch")]
    fetch_every: Option<Span>,
    /// Certificate authorities of the server, in FILE (PEM) [default: the system's]
    #[arg(long, value_name = "FILE", requires = "fetch")]
    fetch_ca_file: Option<PathBuf>,
    /// Fetch the file for the monitor that started this process
    #[arg(long, hide = true, requires = "fetch")]
    pub(super) run_fetch: bool,
}

/// Checks an address: `https://`, or `http://` with a loopback address.
fn address(text: &str) -> Result<String, String> {
    let own = |rest: &str| {
        let authority = rest.split('/').next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => authority.split(':').next(),
        };
        host.and_then(|host| host.parse::<IpAddr>().ok()).is_some_and(|ip| ip.is_loopback())
    };
    match text.strip_prefix("http://") {
        Some(rest) if own(rest) => Ok(text.to_owned()),
        _ if text.starts_with("https://") && text.len() > 8 => Ok(text.to_owned()),
        _ => Err("give an https:// address".to_owned()),
    }
}

/// Reads a key from its text, or from the file that `text` names.
fn key(text: &str) -> Result<SigningKey> {
    let contents = match Path::new(text).is_file() {
        true => fs::read_to_string(text).with_context(|| format!("--fetch-key: reading {text}"))?,
        false => text.to_owned(),
    };
    contents.parse().map_err(|e| anyhow!("--fetch-key {text}: {e}"))
}

impl FetchArgs {
    /// Returns the server of the file; `None` if the file is local.
    fn source(&self) -> Result<Option<FetchSource>> {
        let Some((address, text)) = self.fetch.clone().zip(self.fetch_key.as_ref()) else { return Ok(None) };
        let every = self.fetch_every.unwrap_or(Span::seconds(300)).max(Span::seconds(1));
        if let Some(file) = &self.fetch_ca_file {
            fs::File::open(file).with_context(|| format!("--fetch-ca-file: reading {}", file.display()))?;
        }
        Ok(Some(FetchSource { address, key: key(text)?, ca_file: self.fetch_ca_file.clone(), every }))
    }
}

/// The process that fetches the file. It ends when the monitor ends, because that closes its standard input.
pub struct Fetching(Child);

impl Drop for Fetching {
    fn drop(&mut self) {
        // Files are replaced atomically: killing the process during an attempt leaves no incomplete file.
        let _ = self.0.kill();
        let _: io::Result<ExitStatus> = self.0.wait();
    }
}

impl Fetching {
    /// Starts the process, and waits for its first attempt; `None` if the file is local.
    pub fn start(args: &MonitorArgs) -> Result<Option<Fetching>> {
        let Some(source) = args.fetch.source()? else { return Ok(None) };
        let program = env::current_exe().context("finding this program, which fetches the file")?;
        let mut command = Command::new(program);
        command.arg("monitor").arg(&args.file).args(["--run-fetch", "--fetch", &source.address]);
        command.args(["--fetch-key", &source.key.to_string()]);
        command.args(["--fetch-every", &format!("{}s", source.every.as_seconds())]);
        if let Some(file) = &source.ca_file {
            command.arg("--fetch-ca-file").arg(file);
        }
        if args.confinement.no_sandbox {
            command.arg("--no-sandbox");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting the process that fetches the file")?;
        let said = child.stdout.take();
        let fetching = Fetching(child);
        // This wait ends, because the duration of an attempt is limited.
        let mut line = String::new();
        said.map(|said| BufReader::new(said.take(64)).read_line(&mut line)).transpose()?;
        if line.trim_end() != READY {
            bail!("the process that fetches {} ended; its messages are above", args.file.display());
        }
        Ok(Some(fetching))
    }
}

/// Fetches the file again and again, until the monitor that started this process ends.
pub fn run(args: &MonitorArgs) -> Result<()> {
    interrupt::ignore()?;
    let source = args.fetch.source()?.context("--run-fetch needs --fetch")?;
    let file = &args.file;
    let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new(".")).to_owned();
    let confinement = Confinement {
        folders: vec![folder],
        readable: source.ca_file.iter().cloned().collect(),
        calls: CallSet::Monitor,
        ..Confinement::default()
    };
    args.confinement.begin(confinement)?.map(Confining::complete).transpose()?;
    let stop = StopSignal::new()?;
    let ended = stop.clone();
    // The monitor writes nothing to standard input, so reading returns only when the monitor has ended.
    let reading = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        ended.request();
    };
    thread::Builder::new().name("monitor's end".to_owned()).spawn(reading)?;
    let mut is_first = true;
    while !stop.is_requested() {
        match source.update(file, &MonitorInstruments) {
            Ok(FetchOutcome::New(_)) => info!("{}: updated from {}", file.display(), source.shown_address()),
            Ok(FetchOutcome::Same) => {}
            Err(e) if file.exists() => warn!("{e}; {} was not changed", file.display()),
            Err(e) => warn!("{e}"),
        }
        if std::mem::take(&mut is_first) {
            terminal::print(&format!("{READY}\n"))?;
        }
        wake::wait(&[stop.as_fd()], Some(clock::steady() + source.every));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encrypted_or_of_this_host() {
        for good in
            ["https://config.example.org/mesh.toml", "http://127.0.0.1:8080/mesh.toml", "http://[::1]/x"]
        {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in [
            "http://192.0.2.1/x",
            "ftp://127.0.0.1/x",
            "https://",
            "mesh.toml",
            "http://localhost.example.org/x",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
