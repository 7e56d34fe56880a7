//! The page of this host's archive, beside the tests.

use crate::web;
use anyhow::{Context, Result, bail};
use jitlat_instruments::Stop;
use jitlat_monitor::Model;
use jitlat_monitor::model::Readers;
use jitlat_net::pace;
use jitlat_web::{Access, Settings, Web};
use std::path::Path;
use std::thread::JoinHandle;
use tracing::{error, info};

/// A page that is served until it is dropped.
pub struct RunningPage {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl RunningPage {
    /// Starts the page of `host`; `None` if the file does not want one.
    pub fn start(
        model: &Model,
        host: usize,
        folder: &Path,
        archive: Option<&Path>,
    ) -> Result<Option<RunningPage>> {
        let Some(rules) = model.web.as_ref().filter(|rules| rules.is_of(host)) else { return Ok(None) };
        let Some(archive) = archive else {
            bail!(
                "[web] shows an archive, and there is none: write [archive] with a folder, or give --archive DIR"
            );
        };
        let mut settings = Settings::new(archive);
        settings.listen = web::address(rules.listen);
        settings.access = match &rules.readers {
            Readers::Local => Access::Local,
            Readers::Proxy => Access::Proxy,
            Readers::Token(file) => {
                let file = folder.join(file);
                let token =
                    web::token(&file).with_context(|| format!("[web] token-file {}", file.display()))?;
                Access::Token(token)
            }
        };
        let page = Web::bind(&settings).context("[web]")?;
        info!("page: http://{}/", page.address());
        let stop = Stop::new();
        let asked = stop.clone();
        let run = move || {
            // Tests come first; threads that this one starts are as low.
            pace::yield_to_others();
            if let Err(e) = page.run(|| asked.is_requested()) {
                error!("[web]: {e}");
            }
        };
        let thread = std::thread::Builder::new().name("page".to_owned());
        let thread = thread.spawn(run).context("starting the thread of the page")?;
        Ok(Some(RunningPage { stop, thread: Some(thread) }))
    }
}

impl Drop for RunningPage {
    fn drop(&mut self) {
        self.stop.request();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the thread of the page failed");
        }
    }
}
