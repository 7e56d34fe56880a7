//! Stand-in for `watch` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;

pub type WatchArgs = AnyArgs;

pub fn run(_: &WatchArgs) -> Result<ExitStatus> {
    Err(missing("jitlat watch", "monitor"))
}
