//! Opens logs: files, standard input, and tests of an archive (`DIR/ID`). All commands that take a log use this module.

#[cfg(not(feature = "archive"))]
use crate::without_archive as archive;
#[cfg(feature = "archive")]
use jitlat_archive as archive;

use crate::error::{Context, Result, bail};
use jitlat_proto::owamp::{SessionData, file};
use jitlat_store::log::{LogReader, LogVersion, LogWriter};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

/// Maximum length of a data file of OWAMP that is read, in bytes: 40 million packets.
const MAX_OWAMP_FILE: u64 = 1 << 30;

/// Opens the log at `path`, the log of an archived test, or a data file of OWAMP (`.owp`), which is read as a log; `-` is
/// standard input.
///
/// # Errors
/// [`Error`](crate::Error) if the log does not exist or cannot be read.
pub fn open(path: &Path) -> Result<LogReader> {
    match archive::log_reader(path)? {
        Some(reader) => Ok(reader),
        None if is_owamp_file(path) => {
            let log = Box::new(Cursor::new(owamp_log(path)?));
            Ok(LogReader::from_reader(&path.display().to_string(), log)?)
        }
        None => Ok(LogReader::open(path)?),
    }
}

/// Returns true if the file at `path` begins like a data file of OWAMP.
pub fn is_owamp_file(path: &Path) -> bool {
    let mut start = [0; file::MAGIC.len()];
    path.is_file()
        && File::open(path).and_then(|mut f| f.read_exact(&mut start)).is_ok()
        && start == file::MAGIC
}

/// Reads the data file of OWAMP at `path`.
///
/// # Errors
/// [`Error`](crate::Error) if the file cannot be read, is damaged, or longer than 1 GiB.
pub fn owamp_file(path: &Path) -> Result<SessionData> {
    let reading = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(reading)?;
    file.take(MAX_OWAMP_FILE + 1).read_to_end(&mut bytes).with_context(reading)?;
    if bytes.len() as u64 > MAX_OWAMP_FILE {
        bail!("{} is longer than 1 GiB, the longest data file of OWAMP that is read", path.display());
    }
    SessionData::from_file(&bytes).map_err(io::Error::other).with_context(reading)
}

/// Returns the data file of OWAMP at `path` as the text of a log.
///
/// # Errors
/// Like [`owamp_file`]; or the session has an impossible schedule.
pub(crate) fn owamp_log(path: &Path) -> Result<Vec<u8>> {
    let test = owamp_file(path)?.to_test();
    let (session, records) =
        test.map_err(io::Error::other).with_context(|| format!("reading {}", path.display()))?;
    let mut log = LogWriter::new(Vec::new(), LogVersion::V3);
    log.begin(&session);
    records.iter().for_each(|record| log.record(record));
    log.finish(&session);
    let (bytes, _) = log.close();
    Ok(bytes)
}

/// Returns the log of an archived test as text; `None` if `path` is not the path of an archived test.
///
/// # Errors
/// [`Error`](crate::Error) if the archive does not have the test.
pub fn archived_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    Ok(archive::log_text(path)?)
}
