//! Stand-in for `rpm` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;
use clap::Args;
use jitlat_instruments::serve::Reflector;
use std::net::IpAddr;

const FEATURE: &str = "rpm";

pub type RpmArgs = AnyArgs;

pub fn run(_: &RpmArgs) -> Result<ExitStatus> {
    Err(missing("jitlat rpm", FEATURE))
}

#[derive(Clone, Debug, Args)]
pub struct RpmServeArgs {
    #[arg(long, hide = true)]
    pub rpm: bool,
}

impl RpmServeArgs {
    pub fn is_wanted(&self) -> bool {
        self.rpm
    }

    /// Refuses the service.
    pub fn reflector(&self, _: &[IpAddr]) -> Result<Option<Box<dyn Reflector>>> {
        if self.rpm { Err(missing("--rpm", FEATURE)) } else { Ok(None) }
    }
}
