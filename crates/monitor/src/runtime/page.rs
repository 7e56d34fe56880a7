//! Web server of this host: the page of its archive, and its collector.

use super::Equipment;
use super::access;
use super::demand::RunQueue;
use crate::Model;
use crate::agenda::{EndingCounts, SlotEnding};
use crate::model::{Maintenance, Readers, RunRules, WebRules};
use crate::runtime::error::{Context, Result, bail};
use crate::text;
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_net::key_file;
use jitlat_net::pace;
use jitlat_net::wake::StopSignal;
use jitlat_web::{
    DEFAULT_PORT, Identity, MonitorNow, MonitorState, PageRuns, PlannedMaintenance, ReadAccess, RunLimits,
    Settings, SlotsNow, Starters, Token, Web,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tracing::{error, info};

/// Running web server. It stops when this value is dropped.
pub struct RunningPage {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
}

impl RunningPage {
    /// Reads the settings of the web server of `host`: its page, its collector, or both; `None` if the file configures neither.
    pub fn prepare(
        equipment: &dyn Equipment,
        site: &WebSite<'_>,
        state: &Arc<MonitorState>,
        demands: &Arc<RunQueue>,
    ) -> Result<Option<Settings>> {
        let WebSite { model, host, folder, archive } = *site;
        let push = access::collector(equipment, model, host, folder, archive)?;
        let rules = model.web.as_ref().filter(|rules| rules.is_of(host));
        if rules.is_none() && push.is_none() {
            return Ok(None);
        }
        let Some(archive) = archive else {
            bail!("[web] needs an archive to show: write [archive] with a folder, or give --archive DIR");
        };
        let mut settings = Settings::new(archive);
        settings.monitor = Some(state.clone());
        state.set_maintenance(model.maintenance.iter().map(planned).collect());
        settings.pages = rules.is_some();
        if let Some(rules) = rules {
            show(&mut settings, rules, site, demands)?;
        }
        settings.push = push;
        Ok(Some(settings))
    }

    /// Starts a web server.
    pub fn start(settings: &Settings) -> Result<RunningPage> {
        let shown = if settings.pages { "[web]" } else { "[[collector]]" };
        let page = Web::bind(settings).context(shown)?;
        if settings.pages {
            let with = |identity: &Identity| format!(", with the certificate {}", identity.fingerprint());
            let with = settings.identity.as_ref().map(with).unwrap_or_default();
            info!("web page: {}://{}/{with}", page.scheme(), page.address());
        }
        let identity = settings.push.as_ref().and_then(|push| push.identity.as_ref());
        for address in page.push_addresses() {
            match identity {
                Some(identity) => info!(
                    "collecting tests on https://{address}, with the certificate {}",
                    identity.fingerprint()
                ),
                None => info!("collecting tests on http://{address}, without TLS"),
            }
        }
        let stop = StopSignal::new().context("[web]")?;
        let stopped = stop.clone();
        let run = move || {
            // Tests have priority. Threads started by this one inherit its low priority.
            pace::yield_to_others();
            if let Err(e) = page.run(stopped) {
                error!("[web]: {e}");
            }
        };
        let thread = std::thread::Builder::new().name("page".to_owned());
        let thread = thread.spawn(run).context("starting the web server's thread")?;
        Ok(RunningPage { stop, thread: Some(thread) })
    }
}

/// Describes a maintenance of the file.
fn planned(maintenance: &Maintenance) -> PlannedMaintenance {
    let Maintenance { hosts, tests, from, to, window } = maintenance;
    let list = |name: &str, of: &[String]| (!of.is_empty()).then(|| format!("{name} {}", of.join(", ")));
    let about: Vec<String> = list("hosts", hosts).into_iter().chain(list("tests", tests)).collect();
    let at = |name: &str, at: &Option<WallTime>| at.map(|at| format!("{name} {}", jitlat_archive::utc(at.0)));
    let when = [at("from", from), at("until", to), Some(window.to_string())];
    let when: Vec<String> = when.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let or = |parts: Vec<String>, all: &str| if parts.is_empty() { all.to_owned() } else { parts.join(", ") };
    PlannedMaintenance { about: or(about, "all paths"), when: or(when, "always") }
}

/// Host and file of a web server.
#[derive(Clone, Copy)]
pub struct WebSite<'a> {
    pub model: &'a Model,
    pub host: usize,
    pub folder: &'a Path,
    pub archive: Option<&'a Path>,
}

/// Sets address, access, certificate and other settings of the page.
fn show(
    settings: &mut Settings,
    rules: &WebRules,
    site: &WebSite<'_>,
    demands: &Arc<RunQueue>,
) -> Result<()> {
    let folder = site.folder;
    settings.listen = address(rules.listen);
    settings.plain = rules.plain;
    settings.access = match &rules.readers {
        Readers::Local => ReadAccess::Local,
        Readers::Proxy(networks) => ReadAccess::Proxy(networks.clone()),
        Readers::Token(file) => {
            let file = folder.join(file);
            let token = token(&file).with_context(|| format!("[web] token-file {}", file.display()))?;
            ReadAccess::Token(token)
        }
    };
    // The page has TLS if the file names a certificate, or if other hosts read it directly and the file does not say
    // `plain`.
    let is_shown = !settings.listen.ip().is_loopback() && matches!(rules.readers, Readers::Token(_));
    if rules.certificate.is_some() || is_shown && !rules.plain {
        let name = settings.listen.ip().to_string();
        let archive = settings.archive.clone();
        let identity = access::identity(rules.certificate.as_deref(), &name, folder, &archive);
        settings.identity = Some(identity.context("[web]")?);
    }
    if let Some(rules) = &rules.run {
        settings.runs = Some(runs(rules, folder, demands)?);
    }
    Ok(())
}

/// Returns address and port; defaults replace values that are missing in the file.
fn address((ip, port): (Option<IpAddr>, Option<u16>)) -> SocketAddr {
    SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port.unwrap_or(DEFAULT_PORT))
}

/// Returns the address of the page of `host` for readers; `None` if the host has no page, if only users of the host can
/// reach it, or if it is behind a proxy whose address the file does not contain.
pub fn link(model: &Model, host: &str) -> Option<String> {
    let index = model.host(host)?;
    let rules = model.web.as_ref().filter(|rules| rules.is_of(index))?;
    if let Some(link) = &rules.link {
        return Some(link.clone());
    }
    let at = address(rules.listen);
    if at.ip().is_loopback() || matches!(rules.readers, Readers::Proxy(_)) {
        return None;
    }
    let scheme = if rules.plain { "http" } else { "https" };
    let name =
        if at.ip().is_unspecified() { model.hosts[index].address.clone() } else { at.ip().to_string() };
    let name = if name.contains(':') { format!("[{name}]") } else { name };
    Some(format!("{scheme}://{name}:{}", at.port()))
}

/// Reads the token in a file.
fn token(path: &Path) -> Result<Token> {
    Ok(Token::of_file_contents(&key_file::read(path)?)?)
}

/// Creates the settings for tests on demand from the file: token, hosts and limits.
fn runs(rules: &RunRules, folder: &Path, demands: &Arc<RunQueue>) -> Result<PageRuns> {
    let token = |name: &String| {
        let file = folder.join(name);
        token(&file).with_context(|| format!("[web] run-token-file {}", file.display()))
    };
    let who = rules.token.as_ref().map(token).transpose()?;
    let usual = RunLimits::default();
    let count = |of: Option<u32>, usual| of.map_or(usual, |n| n as usize);
    let limits = RunLimits {
        at_once: count(rules.at_once, usual.at_once),
        per_hour: count(rules.per_hour, usual.per_hour),
        longest: rules.longest.unwrap_or(usual.longest),
        bits_per_second: rules.rate.unwrap_or(usual.bits_per_second),
        ..usual
    };
    Ok(PageRuns { runner: demands.clone(), who: who.map_or(Starters::Local, Starters::Token), limits })
}

impl Drop for RunningPage {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the web server's thread failed (a bug in jitlat)");
        }
    }
}

/// State of this monitor as shown on the page.
#[derive(Debug)]
pub struct OwnState {
    /// State shown on the page.
    pub shown: Arc<MonitorState>,
    host: String,
    since: WallTime,
    begun: SteadyTime,
    /// Time of the last measurement of the load.
    seen: SteadyTime,
    busy: Span,
    /// Time of the last update of `shown`, and the number of running tests at that time; `None` before the first
    /// update.
    updated: Option<(SteadyTime, usize)>,
}

/// Time between two updates of the shown state.
const NOTICE_INTERVAL: Span = Span::seconds(1);

impl OwnState {
    /// Creates the state of the monitor of `host`, which starts at `since`.
    pub fn new(host: &str, since: WallTime, now: SteadyTime) -> OwnState {
        let shown = Arc::default();
        OwnState { shown, host: host.to_owned(), since, begun: now, seen: now, busy: Span(0), updated: None }
    }

    /// Updates the shown state when the number of running tests changes, otherwise at most once per second.
    pub fn look<'a>(
        &mut self,
        now: SteadyTime,
        running: usize,
        counts: impl Iterator<Item = (&'a (String, String), &'a EndingCounts)>,
    ) {
        if running > 0 {
            self.busy = self.busy + (now - self.seen);
        }
        self.seen = now;
        if self.updated.is_some_and(|(at, known)| now - at < NOTICE_INTERVAL && known == running) {
            return;
        }
        self.updated = Some((now, running));
        let slots = counts.map(|((test, far), counts)| {
            let lost = counts.all().filter(|(ending, _)| !matches!(ending, SlotEnding::Measured { .. }));
            SlotsNow {
                test: test.clone(),
                far: far.clone(),
                measured: counts.measured(),
                lost: lost.map(|(ending, n)| (text::ending(ending).to_owned(), n)).collect(),
            }
        });
        self.shown.set(MonitorNow {
            host: self.host.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since_ns: self.since.0,
            running: running as u64,
            busy: self.busy.0 as f64 / (now - self.begun).0.max(1) as f64,
            slots: slots.collect(),
        });
    }
}
