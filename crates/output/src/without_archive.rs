//! Stand-in for the archive in builds without it: recognises names of archived tests, and returns an error with advice.

use crate::error::{Error, Result};
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Refuses a test of an archive; `None` if `path` is not one.
pub fn log_reader(path: &Path) -> Result<Option<LogReader>> {
    refuse_archived(path).map(|()| None)
}

/// Refuses a test of an archive; `None` if `path` is not one.
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
