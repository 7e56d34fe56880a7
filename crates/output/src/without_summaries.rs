//! Stand-in for `summaries` in builds without the feature `summaries`: reading JSON would add code for the hundreds of types of a summary.

use crate::error::{Error, Result};
use crate::joined::JoinedSweeps;
use jitlat_verdict::compare::LabelledRun;
use std::io::Read;
use std::path::PathBuf;

/// Returns an error with advice.
pub fn from_json(_: impl Read, name: &str) -> Result<Vec<LabelledRun>> {
    Err(Error::NotInBuild { what: format!("reading {name}, which is JSON,"), feature: "saved" })
}

/// Returns `None`: a sweep is refused by [`from_json`].
pub fn sweeps(_: &[PathBuf]) -> Result<Option<JoinedSweeps>> {
    Ok(None)
}
