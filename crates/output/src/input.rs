//! Opens logs: files, standard input, and tests of an archive (`DIR/ID`). Every command that takes a log opens it here.

#[cfg(not(feature = "archive"))]
use crate::without_archive as archive;
#[cfg(feature = "archive")]
use jitlat_archive as archive;

use crate::error::Result;
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Opens the log at `path`, or the log of a test of an archive; `-` is standard input.
///
/// # Errors
/// [`Error`](crate::Error) if there is no such log, or it cannot be read.
pub fn open(path: &Path) -> Result<LogReader> {
    match archive::log_reader(path)? {
        Some(reader) => Ok(reader),
        None => Ok(LogReader::open(path)?),
    }
}

/// Returns the text of a test of an archive; `None` if `path` does not name one.
///
/// # Errors
/// [`Error`](crate::Error) if the archive does not have the test.
pub fn archived_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    Ok(archive::log_text(path)?)
}
