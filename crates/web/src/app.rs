//! [`App`]: state shared by all requests, and access to the archive.

use crate::access::{ReadAccess, guard};
use crate::change::{Secrets, UserRole};
use crate::events::{EventPlaces, Watchers};
use crate::expensive::Expensive;
use crate::forwarded::Forwarded;
use crate::guesses::Guesses;
use crate::hosts::MonitorState;
use crate::limits::WebLimits;
use crate::metrics::{MetricsTally, metrics};
use crate::page;
use crate::problem::Problem;
use crate::routes::ROUTES;
use crate::run::{PageRuns, RunTable, Starters};
use crate::{Settings, WebError};
use axum::Router;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use jitlat_archive::Archive;
use jitlat_report::html;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// State shared by all requests.
#[derive(Debug)]
pub struct App {
    pub root: PathBuf,
    /// Folders of the archives that are shown as one; the first is `root`.
    pub roots: Vec<PathBuf>,
    pub access: ReadAccess,
    pub limits: WebLimits,
    /// Value of the cookie that stands for the token in a browser; empty if there is no token.
    pub cookie: String,
    /// Value of the cookie that stands for the token for running tests; empty if there is no token.
    pub run_cookie: String,
    /// Secrets of the forms that change something.
    pub secrets: Secrets,
    /// Unused open connections to the catalogue.
    idle: Mutex<Vec<Archive>>,
    readers: Arc<Semaphore>,
    /// Queue and cache of pages that take long to make.
    pub expensive: Expensive,
    /// Clients that showed wrong tokens.
    pub guesses: Guesses,
    /// Clients for which a proxy sends requests.
    pub forwarded: Forwarded,
    pub watchers: Watchers,
    /// Clients that wait for events of any kind.
    pub places: EventPlaces,
    /// Monitor that serves the page; `None` if there is none.
    pub monitor: Option<Arc<MonitorState>>,
    /// Settings for running tests; `None` if tests cannot be run.
    pub runs: Option<PageRuns>,
    /// Tests that were requested.
    pub table: RunTable,
    /// Counters and histograms of `/metrics`.
    pub tally: Mutex<MetricsTally>,
}

impl App {
    /// Creates the state. Opens the archive, so that an unreadable archive is reported at once.
    pub fn new(settings: &Settings) -> Result<App, WebError> {
        let roots: Vec<PathBuf> = [&settings.archive].into_iter().chain(&settings.others).cloned().collect();
        let archive = Archive::open_all(&roots)?;
        let random = || -> Result<[u8; 32], WebError> {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes)
                .map_err(|e| WebError::Runtime(std::io::Error::other(e.to_string())))?;
            Ok(bytes)
        };
        let (salt, run_salt) = (random()?, random()?);
        let cookie = match &settings.access {
            ReadAccess::Token(token) => token.cookie(&salt),
            _ => String::new(),
        };
        let run_cookie = match settings.runs.as_ref().map(|runs| &runs.who) {
            Some(Starters::Token(token)) => token.cookie(&run_salt),
            _ => String::new(),
        };
        Ok(App {
            root: settings.archive.clone(),
            roots,
            access: settings.access.clone(),
            limits: settings.limits,
            cookie,
            run_cookie,
            secrets: Secrets::new(random()?),
            idle: Mutex::new(vec![archive]),
            readers: Arc::new(Semaphore::new(settings.limits.readers.max(1))),
            expensive: Expensive::default(),
            guesses: Guesses::default(),
            forwarded: Forwarded::default(),
            watchers: Watchers::default(),
            places: EventPlaces::default(),
            monitor: settings.monitor.clone(),
            runs: settings.runs.clone(),
            table: RunTable::default(),
            tally: Mutex::default(),
        })
    }

    /// True if any token is configured.
    pub fn has_token(&self) -> bool {
        let runs = self.runs.as_ref().is_some_and(|runs| matches!(runs.who, Starters::Token(_)));
        runs || matches!(self.access, ReadAccess::Token(_))
    }

    /// True if a client with these rights may acknowledge alerts, and make and end silences. If tests cannot be
    /// started from the page, users of this host may, because they could change the archive directly.
    pub fn may_change_alerts(&self, role: UserRole) -> bool {
        role == UserRole::Run || (matches!(self.access, ReadAccess::Local) && self.runs.is_none())
    }

    /// True if `peer` is a proxy, which connects for all readers.
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        match &self.access {
            ReadAccess::Proxy(networks) => {
                networks.is_empty() || networks.iter().any(|network| network.contains(peer))
            }
            ReadAccess::Local | ReadAccess::Token(_) => false,
        }
    }

    /// Reads the archive on a thread that may block on the disk.
    pub async fn read<T: Send + 'static>(
        self: &Arc<App>,
        work: impl FnOnce(&Archive) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.read_in(self.readers.clone(), work).await
    }

    /// Reads the archive once `queue` has a permit.
    pub async fn read_in<T: Send + 'static>(
        self: &Arc<App>,
        queue: Arc<Semaphore>,
        work: impl FnOnce(&Archive) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = queue.acquire_owned().await.map_err(|_| Problem::Busy)?;
        let app = self.clone();
        let waited = ReadGuard(Arc::new(AtomicBool::new(false)));
        let asked = waited.0.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // Keep the permit until the work ends, even if the client disconnects.
            let _permit = permit;
            let idle = app.idle().pop();
            let mut archive = idle.map_or_else(|| Archive::open_all(&app.roots), Ok)?;
            archive.stop_with(Some(asked));
            let result = work(&archive);
            archive.stop_with(None);
            app.idle().push(archive);
            result
        });
        reading.await.unwrap_or_else(|_| {
            Err(Problem::Failed("A thread that was reading the archive failed (a bug in jitlat).".to_owned()))
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Archive>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals, when it is dropped, that the result of a query is no longer needed.
struct ReadGuard(Arc<AtomicBool>);

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Builds the router with all addresses.
pub fn router(app: Arc<App>) -> Router {
    let file = |kind: &'static str, text: String| {
        let text: Arc<str> = text.into();
        get(move || {
            let text = text.to_string();
            async move { ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text) }
        })
    };
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    let reading = ROUTES.iter().fold(Router::new(), |all, route| all.route(route.path, route.handler()));
    reading
        .route("/metrics", get(metrics))
        .route("/style.css", file("text/css; charset=utf-8", page::style()))
        .route("/report.js", file(SCRIPT, html::SCRIPT.to_owned()))
        .route("/live.js", file(SCRIPT, page::LIVE.to_owned()))
        .route("/path.js", file(SCRIPT, page::PATH.to_owned()))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .fallback(|| async {
            Problem::NotFound("The address may be mistyped, or belong to another version.".to_owned())
                .into_response()
        })
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{now, times};
    use std::time::{Duration, Instant};

    #[test]
    fn a_request_that_nobody_waits_for_gives_its_reader_back() {
        let folder = tempfile::tempdir().unwrap();
        Archive::make(folder.path()).unwrap();
        let mut settings = Settings::new(folder.path());
        settings.limits.readers = 1;
        let app = Arc::new(App::new(&settings).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // Queries that end only if they are interrupted.
            let endless = app.read(|archive| -> Result<(), Problem> {
                loop {
                    now::read(archive, times::now())?;
                }
            });
            assert!(tokio::time::timeout(Duration::from_millis(100), endless).await.is_err());
            let begun = Instant::now();
            let next =
                tokio::time::timeout(Duration::from_secs(60), app.read(|archive| Ok(archive.extent()?)));
            assert_eq!(next.await.expect("the reader is free").unwrap().tests, 0);
            assert!(begun.elapsed() < Duration::from_secs(60));
        });
    }
}
