//! Web server for an archive: shows the direction of each path that is bad, and since when.
//!
//! * [`Settings`] – archive, address to listen on, access; [`Web`] – the server
//! * `routes` – every address; `now`, `path`, `test`, `hosts`, `compare`, `alerts`, `sla` – one page each; `api` – their contents as JSON
//! * [`PageRuns`], [`Runner`] – tests that are started from a page, if allowed, and watched there
//! * [`PushSettings`], [`Shelf`] – tests that other hosts push to this one; [`PushClient`] – pushes tests of this host
//! * [`Identity`] – certificate of a server, from a file or self-made
//! * [`post`] – sends a request, for notifications
//! * `access` – authorisation of readers; `change` – authorisation to start tests, and protection against cross-site requests;
//!   `forwarded` – clients of a proxy; `limits`, `connections` – limits of connections and requests; `guesses` – wrong tokens; `handshake` – signatures and dates in TLS; `expensive` – a queue of its own and a
//!   cache for what takes long
//!
//! This crate is the only part of the program with an async runtime: one thread waits for connections, and a few read
//! the archive. Only requests that start or stop tests, push tests, acknowledge alerts, or make or end silences change
//! anything. Tests are started and pushed only if [`Settings::runs`] or [`Settings::push`] is set; alerts and silences
//! may be changed by clients that may start tests; if nobody may start tests, by users of this host, provided that the
//! page is for them only.
//!
//! Related crates: `jitlat-archive` has the results, `jitlat-report` draws figures, `jitlat-monitor` serves the page, and runs
//! the tests that are started from it ([`Runner`]).
//!
//! ```
//! use jitlat_web::{Settings, Web};
//! # let folder = tempfile::tempdir()?;
//! # jitlat_archive::Archive::make(folder.path())?;
//! let mut settings = Settings::new(folder.path());
//! settings.listen.set_port(0);
//! let web = Web::bind(&settings)?;
//! println!("http://{}/", web.address());
//! let (stop, _) = std::os::unix::net::UnixStream::pair()?;
//! web.run(stop)?; // until `stop` is readable, or its other end is closed
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod alerts;
mod api;
mod app;
mod change;
mod client;
mod compare;
mod connections;
mod events;
mod expensive;
mod forwarded;
mod guesses;
mod handshake;
mod hosts;
mod identity;
mod limits;
mod metrics;
mod now;
mod numbers;
#[cfg(feature = "schema")]
mod openapi;
mod page;
mod path;
mod problem;
mod push;
mod pushes;
mod query;
mod routes;
mod run;
mod server;
mod sla;
mod test;
mod times;
mod token;
mod verdict;
mod zone;

pub use access::ReadAccess;
pub use client::{PostError, get, post};
pub use hosts::{MonitorNow, MonitorState, PlannedMaintenance, SlotsNow};
pub use identity::{Fingerprint, Identity, IdentityError, UnfitFingerprint};
pub use limits::WebLimits;
#[cfg(feature = "schema")]
pub use openapi::openapi;
pub use push::{
    HostAuthorities, HostProof, NotNow, PushClient, PushCredential, PushFailure, PushSettings, PushTarget,
    PushTrust, Shelf,
};
pub use run::{
    HostOffer, PageRuns, Planned, RunFeed, RunLimits, RunOffer, RunRefusal, RunRequest, Runner, Starters,
    TestOffer,
};
pub use server::Web;
pub use token::{Token, UnfitToken};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Default TCP port.
pub const DEFAULT_PORT: u16 = 2680;

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of the archive.
    pub archive: PathBuf,
    /// Folders of further archives, which are shown with it as one. The page then changes nothing.
    pub others: Vec<PathBuf>,
    /// Address to listen on; with port 0 the system chooses a port.
    pub listen: SocketAddr,
    /// Certificate of the pages' address; `None`: pages are served without TLS.
    pub identity: Option<Identity>,
    /// True if pages and tokens may be sent without TLS to other hosts, and no proxy is in between.
    pub plain: bool,
    /// True if pages, documents and metrics are served.
    pub pages: bool,
    /// Collector that receives tests from other hosts; `None` if there is none.
    pub push: Option<PushSettings>,
    /// Clients that may read the pages.
    pub access: ReadAccess,
    /// Limits of connections and requests.
    pub limits: WebLimits,
    /// Monitor that serves the page; `None` if there is none.
    pub monitor: Option<Arc<MonitorState>>,
    /// Settings for tests started from the page; `None` if tests cannot be started.
    pub runs: Option<PageRuns>,
}

impl Settings {
    /// Creates settings that show the archive to the users of this host, on the default port.
    pub fn new(archive: &Path) -> Settings {
        Settings {
            archive: archive.to_owned(),
            others: Vec::new(),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            identity: None,
            plain: false,
            pages: true,
            push: None,
            access: ReadAccess::Local,
            limits: WebLimits::default(),
            monitor: None,
            runs: None,
        }
    }
}

/// Reason why the server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] jitlat_archive::ArchiveError),
    /// The server cannot listen on the address.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Other hosts could connect without TLS.
    #[error(
        "--listen {0} can be reached from other hosts: a certificate is needed (--certificate FILE), unless you allow tokens and \
         pages to be sent in clear (--plain)"
    )]
    Clear(SocketAddr),
    /// Other hosts could connect, but access is not restricted.
    #[error(
        "--listen {0} can be reached from other hosts: set a token (--token-file FILE), or declare that a proxy controls \
         access (--behind-proxy)"
    )]
    Open(SocketAddr),
    /// Other hosts could connect, but no token is set for running tests.
    #[error(
        "--run: other hosts can reach this server: set a token for running tests (--run-token-file FILE)"
    )]
    OpenRuns,
    /// TLS cannot use the certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The threads cannot be started.
    #[error("cannot start the threads of the web server: {0}")]
    Runtime(std::io::Error),
}
