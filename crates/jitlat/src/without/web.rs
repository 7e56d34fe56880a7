//! In place of `web`.

use super::{AnyArgs, missing};
use crate::exit::Status;
use anyhow::Result;

pub type WebArgs = AnyArgs;

pub fn run(_: &WebArgs) -> Result<Status> {
    Err(missing("jitlat web", "web"))
}
