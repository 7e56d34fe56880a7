//! The checksum of a log, which names its test.

use crate::error::ArchiveError;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use twox_hash::XxHash3_128;

/// The checksum of all bytes of a log, and their number.
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

/// Of a checksum, the test's number: never negative, for programs without unsigned integers.
pub(crate) fn number(sum: u128) -> i64 {
    (sum as u64 >> 1) as i64
}

/// The checksum of the log at `path`, by which its test is known everywhere: XXH3-128.
///
/// # Errors
/// [`ArchiveError`] if it cannot be read.
pub fn checksum(path: &Path) -> Result<u128, ArchiveError> {
    Ok(sum(path)?.0)
}
