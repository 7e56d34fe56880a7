//! Stand-in for `monitor` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;

pub type MonitorArgs = AnyArgs;

impl AnyArgs {
    /// True if the command runs until it is stopped.
    pub fn runs_long(&self) -> bool {
        false
    }
}

pub fn run(_: &MonitorArgs) -> Result<ExitStatus> {
    Err(missing("jitlat monitor", "monitor"))
}
