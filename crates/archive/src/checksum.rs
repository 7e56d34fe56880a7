//! [`LogName`]: the checksum of a log, which names its test in all archives.
//!
//! The name is the SHA-256 of the log: nobody can make a second log with the name of another. Versions before 0.2 named
//! tests by XXH3-128, which is not safe against forgery. Tests that they stored keep this name until `archive migrate`
//! computes the SHA-256, and always keep the number that was derived from it; a log is recognised by either name.
//!
//! A log that two hosts push is stored once for each of them, so that nobody can hide the tests of another host by pushing them first.

use crate::error::ArchiveError;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use twox_hash::XxHash3_128;

/// Name of a log, which is its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogName {
    /// SHA-256 of the log.
    Sha256([u8; 32]),
    /// XXH3-128 of the log; only of tests that an earlier version stored.
    Xxh3(u128),
}

impl LogName {
    /// Returns the name of the log `text`.
    pub fn of(text: &[u8]) -> LogName {
        LogNames::of(text).name
    }

    /// Derives the number of the test. It is never negative, for the benefit of programs without unsigned integers.
    pub(crate) fn number(&self) -> i64 {
        let bits = match self {
            LogName::Sha256([a, b, c, d, e, f, g, h, ..]) => {
                u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
            }
            LogName::Xxh3(sum) => *sum as u64,
        };
        (bits >> 1) as i64
    }

    /// Returns the numbers that a test of this log can have: the number of the first such test in an archive; if
    /// another host pushed that test, the number of the test of this host, and that of the test of `pusher`.
    pub(crate) fn numbers(&self, pusher: Option<&str>) -> [i64; 3] {
        [self.number(), self.number_of(None), self.number_of(pusher)]
    }

    /// Derives the number of the test for `pusher` (`None`: this host) if another host has pushed the same log before.
    fn number_of(&self, pusher: Option<&str>) -> i64 {
        let mut sum = Sha256::new();
        sum.update(self.to_string());
        sum.update([0]);
        sum.update(pusher.unwrap_or_default());
        LogName::Sha256(sum.finalize().into()).number()
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogName::Sha256(sum) => sum.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            LogName::Xxh3(sum) => write!(f, "{sum:032x}"),
        }
    }
}

/// The text is not the name of a log: 64 or 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a log: it has 64 hexadecimal digits (SHA-256)")]
pub struct UnfitName;

impl FromStr for LogName {
    type Err = UnfitName;

    fn from_str(text: &str) -> Result<LogName, UnfitName> {
        if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(UnfitName);
        }
        match text.len() {
            32 => Ok(LogName::Xxh3(u128::from_str_radix(text, 16).map_err(|_| UnfitName)?)),
            64 => {
                let mut sum = [0; 32];
                for (k, byte) in sum.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(&text[2 * k..2 * k + 2], 16).map_err(|_| UnfitName)?;
                }
                Ok(LogName::Sha256(sum))
            }
            _ => Err(UnfitName),
        }
    }
}

/// Both names of a log: the one that it gets, and the one under which an earlier version may have stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogNames {
    pub name: LogName,
    pub earlier: LogName,
}

impl LogNames {
    /// Returns the names of the log `text`.
    pub fn of(text: &[u8]) -> LogNames {
        let mut sum = LogSum::default();
        sum.write(text);
        sum.names()
    }

    /// True if `hash` is one of the names.
    pub fn are(&self, hash: &str) -> bool {
        hash == self.name.to_string() || hash == self.earlier.to_string()
    }

    /// True if `hash` is one of the names, and `id` is a number derived from them for a test of `pusher`.
    pub fn are_of(&self, hash: &str, id: i64, pusher: Option<&str>) -> bool {
        let numbers = self.name.numbers(pusher);
        self.are(hash) && (numbers.contains(&id) || id == self.earlier.number())
    }
}

/// Computes the names of a log that is read in pieces.
#[derive(Clone)]
pub(crate) struct LogSum(Sha256, XxHash3_128);

impl Default for LogSum {
    fn default() -> LogSum {
        LogSum(Sha256::new(), XxHash3_128::new())
    }
}

impl LogSum {
    pub fn write(&mut self, piece: &[u8]) {
        self.0.update(piece);
        self.1.write(piece);
    }

    pub fn names(&self) -> LogNames {
        LogNames {
            name: LogName::Sha256(self.0.clone().finalize().into()),
            earlier: LogName::Xxh3(self.1.finish_128()),
        }
    }
}

/// Returns the names and the size of a log.
pub(crate) fn sum(mut log: impl Read) -> std::io::Result<(LogNames, u64)> {
    let (mut sum, mut block, mut len) = (LogSum::default(), vec![0; 1 << 18], 0);
    loop {
        match log.read(&mut block) {
            Ok(0) => return Ok((sum.names(), len)),
            Ok(n) => {
                sum.write(&block[..n]);
                len += n as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Returns the names and the size of the log at `path`.
pub(crate) fn sum_of_file(path: &Path) -> Result<(LogNames, u64), ArchiveError> {
    let file = File::open(path).map_err(ArchiveError::io("opening the log", path))?;
    sum(file).map_err(ArchiveError::io("reading the log", path))
}

/// Returns the name (SHA-256) of the log at `path`, which identifies the test in all archives.
///
/// # Errors
/// [`ArchiveError`] if it cannot be read.
pub fn checksum(path: &Path) -> Result<LogName, ArchiveError> {
    Ok(sum_of_file(path)?.0.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_by_its_sha_256() {
        let names = LogNames::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(names.name.to_string(), text);
        assert_eq!(text.parse(), Ok(names.name));
        assert_eq!(names.name.number(), (0xba78_16bf_8f01_cfea_u64 >> 1) as i64);
        assert_eq!(names.earlier.to_string().parse(), Ok(names.earlier));
        assert!(names.are_of(text, names.name.number(), None) && !names.are_of(text, 1, None));
        let of_berlin = names.name.number_of(Some("berlin"));
        assert!(
            names.are_of(text, of_berlin, Some("berlin")) && !names.are_of(text, of_berlin, Some("rome"))
        );
        for wrong in ["", "ba", &text[1..], &text.replace('b', "g"), &"é".repeat(32)] {
            assert_eq!(wrong.parse::<LogName>(), Err(UnfitName), "{wrong}");
        }
    }
}
