//! Checksum of a log, from which its test's number is derived.

use crate::error::ArchiveError;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use twox_hash::XxHash3_128;

/// Returns the checksum and the size of a log.
pub(crate) fn sum(path: &Path) -> Result<(u128, u64), ArchiveError> {
    let mut file = File::open(path).map_err(ArchiveError::io("opening the log", path))?;
    let (mut sum, mut block, mut len) = (XxHash3_128::new(), vec![0; 1 << 18], 0);
    loop {
        match file.read(&mut block).map_err(ArchiveError::io("reading the log", path))? {
            0 => return Ok((sum.finish_128(), len)),
            n => {
                sum.write(&block[..n]);
                len += n as u64;
            }
        }
    }
}

/// Derives a test's number from a checksum. It is never negative, for the benefit of programs without unsigned
/// integers.
pub(crate) fn number(sum: u128) -> i64 {
    (sum as u64 >> 1) as i64
}

/// Returns the checksum (XXH3-128) of the log at `path`, which identifies the test in all archives.
///
/// # Errors
/// [`ArchiveError`] if it cannot be read.
pub fn checksum(path: &Path) -> Result<u128, ArchiveError> {
    Ok(sum(path)?.0)
}
