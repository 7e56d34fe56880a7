//! Confinement of `jitlat serve`: drops privileges before it answers anybody; see [`jitlat_net::confine`].

use anyhow::{Context, Result};
use clap::Args;
use jitlat_instruments::serve::Serve;
use jitlat_net::confine::{Confinement, Confining};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Confinement")]
pub struct ConfinementArgs {
    /// User to become if the server was started as root
    ///
    /// Default: the owner of the folder of --late-packets, otherwise nobody.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Keep user, capabilities, system calls and files as at the start
    #[arg(long, conflicts_with = "user")]
    pub no_sandbox: bool,
}

impl ConfinementArgs {
    /// Drops everything that `serve` does not need, except for system calls; `realtime`: its threads have a real-time
    /// priority. Call this before it starts. `None` with `--no-sandbox`.
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
