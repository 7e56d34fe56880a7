//! Opens logs: files, standard input, and tests of an archive (`DIR/ID`). All commands that take a log use this module.

#[cfg(not(feature = "archive"))]
use crate::without_archive as archive;
#[cfg(feature = "archive")]
use jitlat_archive as archive;

use crate::error::Result;
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

/// Opens the log at `path`, or the log of an archived test; `-` is standard input.
///
/// # Errors [`Error`](crate::Error) if the log does not exist or cannot be read.
pub fn open(path: &Path) -> Result<LogReader> {
    match archive::log_reader(path)? {
        Some(reader) => Ok(reader),
        None => Ok(LogReader::open(path)?),
    }
}

/// Returns the log of an archived test as text; `None` if `path` is not the path of an archived test.
///
/// # Errors
/// [`Error`](crate::Error) if the archive does not have the test.
pub fn archived_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    Ok(archive::log_text(path)?)
}
