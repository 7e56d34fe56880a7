//! Opening of logs: files, standard input, and tests of an archive (`DIR/ID`). Every command that takes a log opens it here.

use crate::archive;
use anyhow::Result;
use jitlat_store::log::LogReader;
use std::path::Path;

pub use archive::log_text as archived_text;

/// Opens the log at `path`, or that of a test of an archive; `-` is standard input.
pub fn open(path: &Path) -> Result<LogReader> {
    match archive::log_reader(path)? {
        Some(reader) => Ok(reader),
        None => Ok(LogReader::open(path)?),
    }
}
