//! The page of an archive: which direction of which path is bad, and since when.
//!
//! * [`Settings`] – which archive, where to listen, who may read; [`Web`] – the server
//! * `routes` – every address; `now`, `path`, `test`, `hosts`, `compare`, `alerts` – a page each; `api` – the same as JSON
//! * [`PageRuns`], [`Runner`] – tests that are started from a page, where that is allowed, and watched there
//! * [`post`] – a request of its own
//! * `access` – who may read what; `change` – who may start a test, and nobody else; `limits` – how much of it at once
//!
//! The only part of the program with an async runtime: one thread that waits for connections, and a few that read the archive.
//! No request changes anything but those that start and stop tests, which are refused unless [`Settings::runs`] is set.
//!
//! Neighbours: `jitlat-archive` has the results, `jitlat-report` draws figures, `jitlat-monitor` serves the page, and runs the tests that
//! are started from it ([`Runner`]).
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
//! web.run(stop)?; // until this can be read, or its other end is closed
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod alerts;
mod api;
mod app;
mod change;
mod chart;
mod client;
mod compare;
mod events;
mod hosts;
mod limits;
mod metrics;
mod now;
#[cfg(feature = "schema")]
mod openapi;
mod page;
mod path;
mod problem;
mod pushes;
mod query;
mod routes;
mod run;
mod server;
mod test;
mod times;
mod token;
mod verdict;

pub use access::ReadAccess;
pub use client::{HAS_HTTPS, PostError, post};
pub use hosts::{MonitorNow, MonitorState, SlotsNow};
pub use limits::WebLimits;
#[cfg(feature = "schema")]
pub use openapi::openapi;
pub use run::{
    HostOffer, PageRuns, Planned, RunFeed, RunLimits, RunOffer, RunRefusal, RunRequest, Runner, Starters,
    TestOffer,
};
pub use server::Web;
pub use token::{Token, UnfitToken};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The port where nothing else is said.
pub const DEFAULT_PORT: u16 = 2680;

/// What is shown, where, and to whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the archive.
    pub archive: PathBuf,
    /// Where to listen; port 0: the system chooses.
    pub listen: SocketAddr,
    /// Who may read.
    pub access: ReadAccess,
    /// How much at once.
    pub limits: WebLimits,
    /// The monitor that serves the page; `None` where none does.
    pub monitor: Option<Arc<MonitorState>>,
    /// Running tests from the page; `None`: nobody can.
    pub runs: Option<PageRuns>,
}

impl Settings {
    /// An archive for the users of this host, on the usual port.
    pub fn new(archive: &Path) -> Settings {
        Settings {
            archive: archive.to_owned(),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            access: ReadAccess::Local,
            limits: WebLimits::default(),
            monitor: None,
            runs: None,
        }
    }
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] jitlat_archive::ArchiveError),
    /// Nobody can connect.
    #[error("listening on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// Others could connect, and nothing says who may.
    #[error(
        "--listen {0} can be reached from other hosts: name a file with a token (--token-file), or say that a proxy decides who may \
         read (--behind-proxy)"
    )]
    Open(SocketAddr),
    /// Others can read, and nothing says who of them may run tests.
    #[error(
        "--run: others than the users of this host can come here: name a file with a token for those who may run tests (--run-token-file)"
    )]
    OpenRuns,
    /// The threads cannot be started.
    #[error("starting the threads of the page: {0}")]
    Runtime(std::io::Error),
}
