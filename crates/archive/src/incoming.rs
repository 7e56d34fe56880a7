//! [`IncomingLog`]: a log that comes in pieces, compressed, from another host; and [`Archive::compressed`], which sends one.
//!
//! The sender states the length of the log; one that unpacks to more is refused at that byte. A log of up to [`MAX_PREPARED_BYTES`] bytes is at hand as a
//! whole, a longer one goes into a file in `tmp/`.

use crate::add::AddOutcome;
use crate::batch::MAX_PREPARED_BYTES;
use crate::error::ArchiveError;
use crate::{Archive, TestId};
use std::io::{self, Read, Write};
use std::path::Path;
use tempfile::NamedTempFile;
use twox_hash::XxHash3_128;
use zstd::stream::read::Encoder;
use zstd::stream::write::Decoder;

/// Longest log that is taken from another host: one of some ten million packets.
pub const MAX_LOG_BYTES: u64 = 1 << 30;
/// What a log is packed with to be sent.
const COMPRESSION_LEVEL: i32 = 3;
/// Most bytes that a sender may have looked back at, as a power of two: what level 3 does.
const MAX_WINDOW_LOG: u32 = 21;

/// A log that comes in pieces.
pub struct IncomingLog {
    out: Decoder<'static, Bounded>,
    hash: u128,
}

/// A log, unpacked so far.
struct Bounded {
    to: LogBuffer,
    sum: XxHash3_128,
    /// Bytes that are still to come.
    left: u64,
    /// Why it cannot be kept here.
    failed: Option<io::Error>,
}

enum LogBuffer {
    Memory(Vec<u8>),
    File(NamedTempFile),
}

/// A log that has come.
pub enum Arrived {
    /// It is at hand.
    Text(Vec<u8>),
    /// It is in a file, which is removed with this.
    File(NamedTempFile),
}

/// Why a log is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It is not what its sender said of it.
    #[error("{0}")]
    Other(&'static str),
    /// It cannot be unpacked.
    #[error("it cannot be unpacked: {0}")]
    Packed(io::Error),
    /// It cannot be kept here: a fault of this host.
    #[error("keeping it: {0}")]
    Here(io::Error),
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.sum.write(bytes);
        match &mut self.to {
            LogBuffer::Memory(text) => text.extend_from_slice(bytes),
            LogBuffer::File(file) => {
                if let Err(e) = file.write_all(bytes) {
                    self.failed = Some(e);
                    return Err(io::ErrorKind::Other.into());
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl IncomingLog {
    /// Begins to take a log of this checksum and so many bytes, for `archive`.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn new(archive: &Archive, hash: u128, bytes: u64) -> Result<IncomingLog, Unfit> {
        if bytes > MAX_LOG_BYTES {
            return Err(Unfit::Other("it is longer than 1 GiB"));
        }
        let to = if bytes <= MAX_PREPARED_BYTES {
            LogBuffer::Memory(Vec::with_capacity(bytes as usize))
        } else {
            LogBuffer::File(NamedTempFile::new_in(archive.root().join("tmp")).map_err(Unfit::Here)?)
        };
        let mut out = Decoder::new(Bounded { to, sum: XxHash3_128::new(), left: bytes, failed: None })
            .map_err(Unfit::Packed)?;
        out.window_log_max(MAX_WINDOW_LOG).map_err(Unfit::Packed)?;
        Ok(IncomingLog { out, hash })
    }

    /// The checksum that was announced.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// [`Unfit`]; then it is of no use any more.
    pub fn push(&mut self, packed: &[u8]) -> Result<(), Unfit> {
        let written = self.out.write_all(packed);
        written.map_err(|e| self.unfit(e))
    }

    /// The log, now that all of it has come.
    ///
    /// # Errors
    /// [`Unfit`], as if it is not the one that was announced.
    pub fn finish(mut self) -> Result<Arrived, Unfit> {
        let flushed = self.out.flush();
        flushed.map_err(|e| self.unfit(e))?;
        let log = self.out.into_inner();
        if log.left > 0 {
            return Err(Unfit::Other("it is shorter than was said"));
        }
        if log.sum.finish_128() != self.hash {
            return Err(Unfit::Other("it has another checksum than was said"));
        }
        Ok(match log.to {
            LogBuffer::Memory(text) => Arrived::Text(text),
            LogBuffer::File(file) => Arrived::File(file),
        })
    }

    fn unfit(&mut self, error: io::Error) -> Unfit {
        match (self.out.get_mut().failed.take(), error.kind()) {
            (Some(here), _) => Unfit::Here(here),
            (None, io::ErrorKind::FileTooLarge) => Unfit::Other("it is longer than was said"),
            (None, _) => Unfit::Packed(error),
        }
    }
}

impl Archive {
    /// The log of a test, compressed as [`IncomingLog`] takes it.
    ///
    /// # Errors
    /// [`ArchiveError`]; damage that is found later is an error of the reader.
    pub fn compressed(&self, id: TestId) -> Result<Box<dyn Read + Send>, ArchiveError> {
        let packed = Encoder::new(self.log(id)?, COMPRESSION_LEVEL)
            .map_err(|e| ArchiveError::Impossible(e.to_string()))?;
        Ok(Box::new(packed))
    }

    /// Puts the long log in the file at `path`, which `host` sent to this collector, into the archive.
    ///
    /// # Errors
    /// As [`Archive::add`].
    pub fn add_from_host(
        &self,
        path: &Path,
        source: &str,
        tags: &[(String, String)],
        host: &str,
    ) -> Result<AddOutcome, ArchiveError> {
        let mut tags = tags.to_vec();
        tags.retain(|(key, _)| key != crate::collected::TAG);
        tags.push((crate::collected::TAG.to_owned(), host.to_owned()));
        self.add_from(path, source, &tags, Some(host))
    }

    /// Whether a log of this checksum is here, or was.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn has(&self, hash: u128) -> Result<bool, ArchiveError> {
        Ok(self.known(hash)?.is_some())
    }
}
