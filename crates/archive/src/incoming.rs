//! [`IncomingLog`]: a compressed log that is received in pieces from another host. [`Archive::compressed`] returns the
//! log that a host sends.
//!
//! The sender states the size of the log. A log that unpacks to more bytes is refused. A log of up to
//! [`MAX_PREPARED_BYTES`] bytes stays in memory, a longer one is written to a file in `tmp/`.

use crate::batch::MAX_PREPARED_BYTES;
use crate::checksum::{LogName, LogSum, sum};
use crate::error::ArchiveError;
use crate::{Archive, TestId};
use std::io::{self, Read, Write};
use tempfile::NamedTempFile;
use zstd::stream::read::Encoder;
use zstd::stream::write::Decoder;

/// Maximum size of a log accepted from another host, in bytes: about ten million packets.
pub const MAX_LOG_BYTES: u64 = 1 << 30;
/// Compression level of logs that are sent.
const COMPRESSION_LEVEL: i32 = 3;
/// Maximum window of the compression, as a power of two: the window of level 3. It limits the memory that a sender can
/// make this host use.
const MAX_WINDOW_LOG: u32 = 21;

/// A log that is being received in pieces.
pub struct IncomingLog {
    out: Decoder<'static, Bounded>,
    name: LogName,
}

/// The unpacked part of a log. Its size is limited.
struct Bounded {
    to: LogBuffer,
    sum: LogSum,
    /// Number of bytes that are still expected.
    left: u64,
    /// Error that occurred while storing the log; `None` if there was none.
    failed: Option<io::Error>,
}

enum LogBuffer {
    Memory(Vec<u8>),
    File(NamedTempFile),
}

/// A log that was received completely.
pub enum Arrived {
    /// The log is stored in memory.
    Text(Vec<u8>),
    /// The log is stored in a file, which is removed when this value is dropped.
    File(NamedTempFile),
}

/// Reason why a log is refused.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The log is too large, or differs from its announcement; contains the reason.
    #[error("{0}")]
    Other(&'static str),
    /// The log cannot be decompressed.
    #[error("it cannot be unpacked: {0}")]
    Packed(io::Error),
    /// The log cannot be stored on this host.
    #[error("it cannot be stored: {0}")]
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
    /// Starts receiving a log for `archive`. The log must have `bytes` bytes and the name `name`.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn new(archive: &Archive, name: LogName, bytes: u64) -> Result<IncomingLog, Unfit> {
        if bytes > MAX_LOG_BYTES {
            return Err(Unfit::Other("it is larger than 1 GiB"));
        }
        let to = if bytes <= MAX_PREPARED_BYTES {
            LogBuffer::Memory(Vec::with_capacity(bytes as usize))
        } else {
            LogBuffer::File(NamedTempFile::new_in(archive.root().join("tmp")).map_err(Unfit::Here)?)
        };
        let mut out = Decoder::new(Bounded { to, sum: LogSum::default(), left: bytes, failed: None })
            .map_err(Unfit::Packed)?;
        out.window_log_max(MAX_WINDOW_LOG).map_err(Unfit::Packed)?;
        Ok(IncomingLog { out, name })
    }

    /// Accepts the next piece.
    ///
    /// # Errors
    /// [`Unfit`]; the log is then unusable.
    pub fn push(&mut self, packed: &[u8]) -> Result<(), Unfit> {
        let written = self.out.write_all(packed);
        written.map_err(|e| self.unfit(e))
    }

    /// Returns the complete log after its last piece.
    ///
    /// # Errors
    /// [`Unfit`], for example if the log differs from its announcement.
    pub fn finish(mut self) -> Result<Arrived, Unfit> {
        let flushed = self.out.flush();
        flushed.map_err(|e| self.unfit(e))?;
        let log = self.out.into_inner();
        if log.left > 0 {
            return Err(Unfit::Other("it is shorter than announced"));
        }
        if log.sum.names().name != self.name {
            return Err(Unfit::Other("its checksum differs from the announced one"));
        }
        Ok(match log.to {
            LogBuffer::Memory(text) => Arrived::Text(text),
            LogBuffer::File(file) => Arrived::File(file),
        })
    }

    fn unfit(&mut self, error: io::Error) -> Unfit {
        match (self.out.get_mut().failed.take(), error.kind()) {
            (Some(here), _) => Unfit::Here(here),
            (None, io::ErrorKind::FileTooLarge) => Unfit::Other("it is longer than announced"),
            (None, _) => Unfit::Packed(error),
        }
    }
}

impl Archive {
    /// Returns a test's log in the compressed form that [`IncomingLog`] accepts.
    ///
    /// # Errors
    /// [`ArchiveError`]; damage found later is an error of the reader.
    pub fn compressed(&self, id: TestId) -> Result<Box<dyn Read + Send>, ArchiveError> {
        let packed = Encoder::new(self.log(id)?, COMPRESSION_LEVEL)
            .map_err(|e| ArchiveError::Impossible(e.to_string()))?;
        Ok(Box::new(packed))
    }

    /// Returns the SHA-256 of a test's log, which is computed from its packets.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn name(&self, id: TestId) -> Result<LogName, ArchiveError> {
        let (names, _) = sum(self.log(id)?).map_err(|e| ArchiveError::Impossible(e.to_string()))?;
        Ok(names.name)
    }
}
