//! Stand-in for `web` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;

pub type WebArgs = AnyArgs;

pub fn run(_: &WebArgs) -> Result<ExitStatus> {
    Err(missing("jitlat web", "web"))
}
