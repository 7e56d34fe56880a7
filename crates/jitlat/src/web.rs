//! `jitlat web [ARCHIVE]…`: serves archives as web pages.

use crate::archive;
use crate::confinement::ConfinementArgs;
use crate::exit::ExitStatus;
use crate::interrupt::Signals;
use crate::monitor::instruments::MonitorInstruments;
use crate::options::{key, read_key_file};
use anyhow::{Context, Error, Result, bail};
use clap::Args;
use jitlat_archive::is_archive;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use jitlat_core::quantity::{self, QuantityError};
use jitlat_monitor::runtime::StandaloneRunner;
use jitlat_net::confine::{CallSet, Confined, Confinement, Confining};
use jitlat_net::privilege::Capability;
use jitlat_output::terminal;
use jitlat_web::{DEFAULT_PORT, Identity, PageRuns, ReadAccess, RunLimits, Settings, Starters, Token, Web};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Show an archive as web pages: the bad paths, their direction, and since when
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "By default only users of this host can read the page. To show it to others: --listen \
                  ADDRESS:PORT with --token-file FILE, or --behind-proxy if a web server in front of it \
                  authenticates readers. The page cannot change anything, unless --run lets users start \
                  tests from it."
)]
pub struct WebArgs {
    /// Folder of the archive that tests fill (--archive DIR); several are shown as one
    #[arg(value_name = "ARCHIVE", default_value = ".", hide_default_value = true)]
    archives: Vec<PathBuf>,
    /// Address, port, or both (127.0.0.1:2680); port 0: the system chooses
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    listen: Option<SocketAddr>,
    /// Show pages only to users with the token in FILE
    ///
    /// The token is the first line of FILE. Browsers ask for it, programs send it in the header Authorization: Bearer
    /// TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let a proxy in front check users; accept any host name in requests
    ///
    /// With NETWORKS, addresses separated by commas, only connections from these are answered. The client for limits and the log is
    /// the last address in X-Forwarded-For, which the proxy must set.
    #[arg(long, value_name = "NETWORKS", num_args = 0..=1, require_equals = true, value_delimiter = ',', conflicts_with = "token_file")]
    behind_proxy: Option<Vec<String>>,
    /// Certificate and its private key for HTTPS, in FILE (PEM) [default: self-made]
    ///
    /// Readers on other hosts connect over HTTPS. Without this option the server makes a certificate at its first start
    /// (certificate.pem in the archive) and prints its fingerprint, which browsers show.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Serve other hosts without HTTPS: anybody on the path can read token and pages
    #[arg(long, conflicts_with_all = ["certificate", "behind_proxy"])]
    plain: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    confinement: ConfinementArgs,
}

/// Options of tests that are started from the page.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tests from the page")]
struct RunArgs {
    /// Let users start tests from this host, and watch them
    ///
    /// With HOSTS, separated by commas, only with these hosts; otherwise with the hosts in the archive. Results are
    /// added to the archive.
    #[arg(long, value_name = "HOSTS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_delimiter = ',')]
    run: Option<Vec<String>>,
    /// Let only users with the token in FILE start and stop tests
    ///
    /// The token is the first line of FILE. By default the users of this host may start tests; if others can read the
    /// page (--token-file, --behind-proxy), nobody may.
    #[arg(long, value_name = "FILE", requires = "run")]
    run_token_file: Option<PathBuf>,
    /// File with the key shared with the servers of these tests
    #[arg(long, value_name = "FILE", requires = "run")]
    run_key_file: Option<PathBuf>,
    /// Maximum duration of a test from the page [default: 60s]
    #[arg(long, value_name = "T", value_parser = quantity::duration, requires = "run")]
    run_longest: Option<Span>,
    /// Maximum bits per second per direction, on the wire [default: 10M]
    #[arg(long, value_name = "RATE", value_parser = quantity::bit_rate, requires = "run")]
    run_rate: Option<u64>,
    /// Maximum number of tests at the same time [default: 1]
    #[arg(long, value_name = "N", requires = "run")]
    run_at_once: Option<NonZeroUsize>,
    /// Maximum number of tests per hour [default: 60]
    #[arg(long, value_name = "N", requires = "run")]
    run_per_hour: Option<NonZeroUsize>,
}

impl RunArgs {
    /// Returns the settings for running tests from the page; `None`: nobody may run tests.
    fn runs(&self, archive: &Path) -> Result<Option<PageRuns>> {
        let Some(hosts) = &self.run else { return Ok(None) };
        let runner = StandaloneRunner {
            equipment: Arc::new(MonitorInstruments),
            archive: archive.to_owned(),
            hosts: hosts.iter().map(|host| host.trim().to_owned()).filter(|host| !host.is_empty()).collect(),
            key: self.run_key_file.as_deref().map(key).transpose().context("--run-key-file")?,
        };
        let who = match &self.run_token_file {
            Some(path) => {
                Starters::Token(token(path).with_context(|| format!("--run-token-file {}", path.display()))?)
            }
            None => Starters::Local,
        };
        let usual = RunLimits::default();
        let limits = RunLimits {
            at_once: self.run_at_once.map_or(usual.at_once, NonZeroUsize::get),
            per_hour: self.run_per_hour.map_or(usual.per_hour, NonZeroUsize::get),
            longest: self.run_longest.unwrap_or(usual.longest),
            bits_per_second: self.run_rate.unwrap_or(usual.bits_per_second),
            ..usual
        };
        Ok(Some(PageRuns { runner: Arc::new(runner), who, limits }))
    }
}

impl WebArgs {
    /// Returns the folder of the archive, or of the first one.
    fn archive(&self) -> &Path {
        self.archives.first().map_or(Path::new("."), PathBuf::as_path)
    }
}

fn listen(text: &str) -> Result<SocketAddr, QuantityError> {
    quantity::listen(text).map(address)
}

/// Returns address and port, with defaults for missing parts.
fn address((ip, port): (Option<IpAddr>, Option<u16>)) -> SocketAddr {
    SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port.unwrap_or(DEFAULT_PORT))
}

/// Serves the pages until a signal requests to stop.
pub fn run(args: &WebArgs) -> Result<ExitStatus> {
    if args.archives.len() > 1 && args.run.run.is_some() {
        bail!(
            "--run: results of tests from the page are added to one archive, but {} were named",
            args.archives.len()
        );
    }
    let mut settings = Settings::new(args.archive());
    settings.others = args.archives.iter().skip(1).cloned().collect();
    settings.listen = args.listen.unwrap_or(settings.listen);
    settings.access = match &args.token_file {
        Some(path) => {
            ReadAccess::Token(token(path).with_context(|| format!("--token-file {}", path.display()))?)
        }
        None => match &args.behind_proxy {
            Some(networks) => {
                let networks = networks.iter().map(|text| Prefix::trusted(text.trim()).map_err(Error::msg));
                ReadAccess::Proxy(networks.collect::<Result<_>>().context("--behind-proxy")?)
            }
            None => ReadAccess::Local,
        },
    };
    settings.runs = args.run.runs(args.archive())?;
    settings.plain = args.plain;
    settings.identity = args.certificate.as_deref().map(certificate).transpose()?;
    let signals = Signals::to_stop()?;
    // The files that the archive needs belong to the user that the server becomes.
    let confined = confine(args, &settings)?;
    if settings.runs.is_some() {
        // Create the archive if it does not exist, because tests need it for their results.
        archive::check(Some(args.archive()), false)?;
    }
    settings.identity = match settings.identity {
        None => made(args, &settings)?,
        given => given,
    };
    let web = Web::bind(&settings)?;
    let said = match confined {
        Some(confined) => confined.lines("jitlat web"),
        None => "jitlat web: not confined (--no-sandbox)\n".to_owned(),
    };
    // The address comes first: it is what the user needs.
    terminal::print(&format!("jitlat web: {}://{}/\n{said}", web.scheme(), web.address()))?;
    if let Some(identity) = &settings.identity {
        terminal::print(&format!("its certificate: {}\n", identity.fingerprint()))?;
    }
    web.run(&signals)?;
    Ok(ExitStatus::Measured)
}

/// Gives up all privileges that the server does not need; `None` with `--no-sandbox`.
fn confine(args: &WebArgs, settings: &Settings) -> Result<Option<Confined>> {
    // Otherwise there is nothing to serve, which is reported when it is opened.
    if !is_archive(args.archive()) && settings.runs.is_none() {
        return Ok(None);
    }
    let low = (1..1024).contains(&settings.listen.port());
    let capabilities = [(low, Capability::NetBindService), (args.run.run.is_some(), Capability::NetRaw)];
    let confinement = Confinement {
        capabilities: capabilities.into_iter().filter(|(needed, _)| *needed).map(|(_, c)| c).collect(),
        folders: args.archives.clone(),
        calls: CallSet::Monitor,
        ..Confinement::default()
    };
    Ok(args.confinement.begin(confinement)?.map(Confining::complete).transpose()?)
}

fn certificate(path: &Path) -> Result<Identity> {
    let contents = read_key_file(path).context("--certificate")?.contents;
    Identity::of_file_contents(path, &contents).context("--certificate")
}

/// Returns the self-made certificate; `None` without TLS: only this host or a proxy reads the pages, or `--plain` was given.
fn made(args: &WebArgs, settings: &Settings) -> Result<Option<Identity>> {
    let is_shown = !settings.listen.ip().is_loopback() && args.token_file.is_some();
    if !is_shown || args.plain {
        return Ok(None);
    }
    let names = [settings.listen.ip().to_string()];
    let path = args.archive().join("certificate.pem");
    let (identity, _) = Identity::made(&path, &names)
        .context("a certificate for HTTPS is needed: give --certificate FILE, or --plain to do without")?;
    Ok(Some(identity))
}

/// Reads the token in a file.
fn token(path: &Path) -> Result<Token> {
    Ok(Token::of_file_contents(&read_key_file(path)?.contents)?)
}
