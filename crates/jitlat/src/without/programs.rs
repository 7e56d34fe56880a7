//! Stand-in for `programs` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;
use std::ffi::OsString;
use std::process::ExitCode;

pub type AsArgs = AnyArgs;

/// No name is known.
pub fn is_known(_: &str) -> bool {
    false
}

/// Runs no program.
pub fn run_requested(_: &[OsString]) -> Option<ExitCode> {
    None
}

pub fn refuse(_: &AsArgs) -> Result<ExitStatus> {
    Err(missing("jitlat as", "programs"))
}
