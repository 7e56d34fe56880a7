//! Replacement for the archive in builds without it. It recognises names of archived tests, and returns an error with
//! advice.

use crate::error::{Error, Result};
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Returns an error if `path` is the path of an archived test, otherwise `None`.
pub fn log_reader(path: &Path) -> Result<Option<LogReader>> {
    refuse_archived(path).map(|()| None)
}

/// Returns an error if `path` is the path of an archived test, otherwise `None`.
pub fn log_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    refuse_archived(path).map(|()| None)
}

fn refuse_archived(path: &Path) -> Result<()> {
    let is_archived =
        !path.exists() && path.parent().is_some_and(|dir| dir.join("catalogue.sqlite").exists());
    if is_archived {
        let what = "a test of an archive, as DIR/ID,".to_owned();
        return Err(Error::NotInBuild { what, feature: "archive" });
    }
    Ok(())
}
