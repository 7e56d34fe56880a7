//! Paths of archived tests: `DIR/ID`.

use crate::{Archive, ArchiveError, is_archive};
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Splits `path` into the path of an archive and the identifier of a test; `None` if a file exists at `path`, or if its
/// folder is not an archive.
fn archived(path: &Path) -> Option<(&Path, &str)> {
    let (folder, id) = (path.parent()?, path.file_name()?.to_str()?);
    (!path.exists() && is_archive(folder)).then_some((folder, id))
}

/// Returns a reader of the archived test at `path`; `None` if `path` is not the path of an archived test.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read, or does not contain the test.
pub fn log_reader(path: &Path) -> Result<Option<LogReader>, ArchiveError> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.reader(archive.find(id)?, &path.display().to_string())?))
}

/// Returns the log of the archived test at `path` as text; `None` if `path` is not the path of an archived test.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read, or does not contain the test.
pub fn log_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>, ArchiveError> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.log(archive.find(id)?)?))
}
