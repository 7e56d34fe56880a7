//! Stand-in for `spp` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;
use clap::Args;

pub type SppArgs = AnyArgs;

/// There are no options of live points.
#[derive(Clone, Debug, Args)]
pub struct LivePointArgs {}

pub const POINTS: &[&str] = &[];

pub fn run(_: &SppArgs) -> Result<ExitStatus> {
    Err(missing("jitlat spp", "captures"))
}
