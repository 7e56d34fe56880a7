//! What `jitlat serve` gives up before it answers anybody: see [`jitlat_net::confine`].

use anyhow::{Context, Result};
use clap::Args;
use jitlat_instruments::serve::Serve;
use jitlat_net::confine::{Confinement, Confining};
use jitlat_net::privilege::Capability;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Confinement")]
pub struct ConfinementArgs {
    /// User that a server started as root becomes
    ///
    /// Default: the owner of the folder of --late-packets, otherwise nobody.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Stay as started: same user, capabilities, system calls and files
    #[arg(long, conflicts_with = "user")]
    pub no_sandbox: bool,
}

/// Priorities above this need a capability (`SO_PRIORITY` in socket(7)).
const ORDINARY_PRIORITY: u32 = 6;

impl ConfinementArgs {
    /// Gives up everything that `serve` does not need, but for system calls; `realtime`: its threads have a real-time
    /// priority. To be called before it starts. `None` with `--no-sandbox`.
    pub fn begin(&self, serve: &Serve, folders: Vec<PathBuf>, realtime: bool) -> Result<Option<Confining>> {
        if self.no_sandbox {
            return Ok(None);
        }
        let capabilities = needed(serve, realtime);
        let confinement = Confinement { user: self.user.clone(), capabilities, folders };
        let confining =
            confinement.begin().context("confining the server (--no-sandbox leaves it as started)")?;
        Ok(Some(confining))
    }
}

/// The capabilities without which a service of `serve` would not start, or not run.
fn needed(serve: &Serve, realtime: bool) -> Vec<Capability> {
    let one_way = serve.one_way.iter().flat_map(|s| [s.control_port, s.test_port, *s.limits.ports.start()]);
    let digests = serve.digests.iter().map(|d| d.port);
    let reflectors = serve.reflectors.iter().flat_map(|r| r.addresses(&serve.ips)).map(|at| at.port());
    let low = one_way.chain(digests).chain(reflectors).any(|port| (1..1024).contains(&port));
    let raw = serve.digests.is_some() || serve.reflectors.iter().any(|r| r.needs_raw_packets());
    let high = serve.priority.is_some_and(|priority| priority > ORDINARY_PRIORITY);
    let list = [
        (low, Capability::NetBindService),
        (raw, Capability::NetRaw),
        (high, Capability::NetAdmin),
        (realtime, Capability::SysNice),
        (realtime, Capability::IpcLock),
    ];
    list.into_iter().filter(|(needed, _)| *needed).map(|(_, capability)| capability).collect()
}
