//! Stand-in for `manual` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;
use clap::Command;

pub type CompletionsArgs = AnyArgs;
pub type ManArgs = AnyArgs;

const FEATURE: &str = "manual";

pub fn completions(_: &CompletionsArgs, _: Command) -> Result<ExitStatus> {
    Err(missing("jitlat completions", FEATURE))
}

pub fn pages(_: &ManArgs, _: Command) -> Result<ExitStatus> {
    Err(missing("jitlat man", FEATURE))
}
