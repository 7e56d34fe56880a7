//! Tests that are named by the path of their archive: `DIR/ID`.

use crate::{Archive, ArchiveError, is_archive};
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Splits `path` into the archive and the test that it names; `None` if it names a file, or nothing.
fn archived(path: &Path) -> Option<(&Path, &str)> {
    let (folder, id) = (path.parent()?, path.file_name()?.to_str()?);
    (!path.exists() && is_archive(folder)).then_some((folder, id))
}

/// Reader of a test of an archive; `None` if `path` does not name one.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read, or has no such test.
pub fn log_reader(path: &Path) -> Result<Option<LogReader>, ArchiveError> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.reader(archive.find(id)?, &path.display().to_string())?))
}

/// Text of a test of an archive; `None` if `path` does not name one.
///
/// # Errors
/// [`ArchiveError`] if the archive cannot be read, or has no such test.
pub fn log_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>, ArchiveError> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.log(archive.find(id)?)?))
}
