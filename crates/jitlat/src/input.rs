//! Where logs are read: files, standard input, and tests of an archive (`DIR/ID`). Every command that takes a log opens it here.

use anyhow::Result;
use jitlat_archive::{Archive, is_archive};
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// The archive and the test that `path` names; `None` if it names a file, or nothing.
fn archived(path: &Path) -> Option<(&Path, &str)> {
    let (folder, id) = (path.parent()?, path.file_name()?.to_str()?);
    (!path.exists() && is_archive(folder)).then_some((folder, id))
}

/// Opens the log at `path`, or that of a test of an archive; `-` is standard input.
pub fn open(path: &Path) -> Result<LogReader> {
    let Some((folder, id)) = archived(path) else { return Ok(LogReader::open(path)?) };
    let archive = Archive::open(folder)?;
    Ok(archive.reader(archive.find(id)?, &path.display().to_string())?)
}

/// The text of a test of an archive; `None` if `path` names none.
pub fn archived_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    let Some((folder, id)) = archived(path) else { return Ok(None) };
    let archive = Archive::open(folder)?;
    Ok(Some(archive.log(archive.find(id)?)?))
}
