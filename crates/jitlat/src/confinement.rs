//! Confinement of `jitlat serve`: drops privileges before the server answers any client; see
//! [`jitlat_net::confine`].

use anyhow::{Context, Result};
use clap::Args;
use jitlat_instruments::serve::Serve;
use jitlat_net::confine::{Confinement, Confining};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Confinement")]
pub struct ConfinementArgs {
    /// User that the server runs as when root starts it
    ///
    /// Default: the owner of the folder of --late-packets, otherwise nobody.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Do not drop privileges: keep user, capabilities, system calls and files
    #[arg(long, conflicts_with = "user")]
    pub no_sandbox: bool,
}

impl ConfinementArgs {
    /// Drops all privileges that `serve` does not need, except for system calls, which are restricted later.
    /// Call this before the server starts. `realtime` is true if its threads have a real-time priority. Returns
    /// `None` with `--no-sandbox`.
    pub fn begin(&self, serve: &Serve, folders: Vec<PathBuf>, realtime: bool) -> Result<Option<Confining>> {
        if self.no_sandbox {
            return Ok(None);
        }
        let capabilities = serve.capabilities(realtime);
        let confinement = Confinement { user: self.user.clone(), capabilities, folders };
        let confining =
            confinement.begin().context("confining the server (--no-sandbox runs it without confinement)")?;
        Ok(Some(confining))
    }
}
