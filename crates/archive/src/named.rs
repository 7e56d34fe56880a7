//! Archived tests as paths: `DIR/ID`.

use crate::{Archive, ArchiveError, is_archive};
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Splits `path` into the path of an archive and the name of a test; `None` if a file exists at
/// `path`, or if its folder is not an archive.
fn archived(path: &Path) -> Option<(&Path, &str)> {
    let (folder, id) = (path.parent()?, path.file_name()?.to_str()?);
    (!path.exists() && is_archive(folder)).then_some((folder, id))
}

/// Returns a reader of an archived test; `None` if `path` does not name such a test.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read, or has no such test.
pub fn log_reader(path: &Path) -> Result<Option<LogReader>, ArchiveError> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.reader(archive.find(id)?, &path.display().to_string())?))
}

/// Returns the log of an archived test as text; `None` if `path` does not name such a test.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read, or has no such test.
pub fn log_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>, ArchiveError> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.log(archive.find(id)?)?))
}
