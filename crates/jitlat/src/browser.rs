//! `jitlat serve --web`: a page from which browsers measure, and the reports of these measurements.

use crate::archive;
use anyhow::{Context, Result};
use clap::Args;

use jitlat_archive::{Archive, ArchiveError, PreparedTest};
use jitlat_core::Session;
use jitlat_instruments::access::read_key_file;
use jitlat_instruments::browser::{BrowserResult, BrowserResults, BrowserServer};
use jitlat_instruments::rpm::ServerCertificate;
use jitlat_instruments::serve::Reflector;
use jitlat_instruments::{Analyses, Event, Observer};
use jitlat_output::AnalysedStream;
use jitlat_report::html::{self, HtmlReport, ReportPart};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info};

/// Options of the page for browsers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measurements from a browser")]
pub struct BrowserArgs {
    /// Serve a page from which a browser measures round trips to this server
    ///
    /// Nothing is installed: the page sends requests over a WebSocket. Its times are those of the browser's clock, and losses are
    /// delays, because a browser can only use TCP. docs/guide/browser.md describes what the figures mean.
    #[arg(long)]
    pub web: bool,
    /// TCP port of the page
    #[arg(long, value_name = "PORT", default_value_t = jitlat_proto::browser::PORT, requires = "web", conflicts_with = "public")]
    pub web_port: u16,
    /// Serve the page over HTTPS, with the certificate and private key in FILE (PEM)
    ///
    /// The file must be readable by its owner only. Browsers give pages over HTTPS a finer clock.
    #[arg(long, value_name = "FILE", requires = "web", conflicts_with = "public")]
    pub web_certificate: Option<PathBuf>,
    /// Store the measurements of browsers in the archive DIR
    #[arg(long, value_name = "DIR", requires = "web", conflicts_with = "public")]
    pub web_archive: Option<PathBuf>,
}

impl BrowserArgs {
    /// True if the page is requested.
    pub fn is_wanted(&self) -> bool {
        self.web
    }

    /// True if the page is served over HTTPS.
    pub fn is_secure(&self) -> bool {
        self.web_certificate.is_some()
    }

    /// Returns the archive in which measurements are stored; `None` without `--web-archive`.
    pub fn archive(&self) -> Option<&Path> {
        self.web_archive.as_deref()
    }

    /// Checks that the archive can be written, and creates it if it does not exist.
    pub fn check_archive(&self) -> Result<()> {
        archive::check(self.archive(), false).context("--web-archive")
    }

    /// Returns the page's server; `None` without `--web`.
    pub fn reflector(&self) -> Result<Option<Box<dyn Reflector>>> {
        if !self.web {
            return Ok(None);
        }
        let read = |path: &PathBuf| {
            let file = read_key_file(path).context("--web-certificate")?;
            ServerCertificate::read(path, &file.contents).context("--web-certificate")
        };
        Ok(Some(Box::new(BrowserServer {
            port: self.web_port,
            certificate: self.web_certificate.as_ref().map(read).transpose()?,
            results: Arc::new(ReportMaker { archive: self.web_archive.clone() }),
        })))
    }
}

/// Analyses the results of browsers, makes their reports, and stores them.
#[derive(Debug)]
struct ReportMaker {
    archive: Option<PathBuf>,
}

impl BrowserResults for ReportMaker {
    fn report(&self, result: BrowserResult) -> Result<String, String> {
        let BrowserResult { session, records } = result;
        if let Some(root) = &self.archive {
            let added = PreparedTest::measured(&session, &records, &[]).and_then(|test| add(root, test));
            match added {
                Ok(()) => info!("archived a browser's test in {}", root.display()),
                // The user of the browser receives the report nevertheless.
                Err(e) => error!("--web-archive {}: {e}", root.display()),
            }
        }
        Ok(page(session, &records))
    }
}

fn add(root: &Path, test: PreparedTest) -> Result<(), ArchiveError> {
    let added = Archive::open_to_write(root)?.add_all(&mut [test])?;
    added.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
}

/// Returns the report of a test. It does not contain the command line of this server, because visitors read it.
fn page(session: Session, records: &[jitlat_core::PacketRecord]) -> String {
    let mut analyses = Analyses::new(jitlat_verdict::options());
    let sessions = [session];
    for event in [
        Event::Started(&sessions),
        Event::Records { stream: 0, records, tcp: &[] },
        Event::Finished(&sessions),
    ] {
        analyses.event(&event);
    }
    let runs: Vec<AnalysedStream> = analyses.finish().into_iter().map(AnalysedStream::from).collect();
    let traces: Vec<_> = runs.iter().map(AnalysedStream::trace).collect();
    let part = |(run, trace)| {
        let AnalysedStream { session, summary, .. }: &AnalysedStream = run;
        ReportPart { label: "", session: Some(session), summary, trace: Some(trace) }
    };
    html::page(&HtmlReport {
        section: None,
        parts: &runs.iter().zip(&traces).map(part).collect::<Vec<_>>(),
        corrected: false,
        command: None,
        program: concat!("jitlat ", env!("CARGO_PKG_VERSION")),
        written: Some(jitlat_net::clock::wall()),
    })
}
