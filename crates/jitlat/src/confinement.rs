//! Confinement of `jitlat serve`, `web` and `monitor`: drops privileges before they answer any client; see
//! [`jitlat_net::confine`].

use anyhow::{Context, Result};
use clap::Args;
use jitlat_net::confine::{Confinement, Confining, forbid_core_dumps};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Confinement")]
pub struct ConfinementArgs {
    /// User to run as when root starts it
    ///
    /// Default: the owner of the folder that it writes to (archive, --late-packets), otherwise nobody.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Do not drop privileges: keep user, capabilities, system calls and files
    #[arg(long, conflicts_with = "user")]
    pub no_sandbox: bool,
}

impl ConfinementArgs {
    /// Drops all privileges that `confinement` does not name, except for system calls, which are restricted later.
    /// Call this before the first thread is started. Returns `None` with `--no-sandbox`.
    pub fn begin(&self, confinement: Confinement) -> Result<Option<Confining>> {
        if self.no_sandbox {
            // Keys stay out of core dumps nevertheless.
            forbid_core_dumps();
            return Ok(None);
        }
        let confinement = Confinement { user: self.user.clone(), ..confinement };
        let confining = confinement
            .begin()
            .context("confining this process (--no-sandbox runs it without confinement)")?;
        Ok(Some(confining))
    }
}
