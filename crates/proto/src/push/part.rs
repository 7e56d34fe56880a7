//! [`PartHeader`]: a test in a body. A body has one or more parts; each is a line of JSON and the compressed log.

use super::{MAX_TAGS, is_name, most_packed};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read};

/// Maximum length of the line, in bytes.
pub const MAX_LINE: usize = 64 << 10;

/// Description of a test in a body. Its log follows: one frame of Zstandard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartHeader {
    /// SHA-256 of the log, in hexadecimal digits.
    pub hash: String,
    /// Name of the log.
    pub source: String,
    /// Tags of the test: keys and values.
    #[serde(default)]
    pub tags: Vec<(String, String)>,
    /// Length of the log in bytes.
    pub bytes: u64,
    /// Length of the compressed log in bytes; absent if it is the rest of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<u64>,
}

/// Reason why a body cannot be read. Nothing after this point is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// The line is not the description of a test.
    #[error("the line before the log is not valid: {0}")]
    Line(String),
    /// The body ends within a line or a log.
    #[error("the body ends early")]
    Short,
    /// The body cannot be received.
    #[error("the body could not be received: {0}")]
    Io(io::Error),
}

impl From<io::Error> for PartError {
    fn from(e: io::Error) -> PartError {
        if e.kind() == io::ErrorKind::UnexpectedEof { PartError::Short } else { PartError::Io(e) }
    }
}

impl PartHeader {
    /// Returns the line that describes the test, with its line feed.
    pub fn line(&self) -> Vec<u8> {
        // A structure of texts and numbers can always be written.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// True if the description is short enough to be sent.
    pub fn fits(&self) -> bool {
        self.tags.len() <= MAX_TAGS && self.line().len() <= MAX_LINE
    }

    /// Parses a line without its line feed.
    ///
    /// # Errors
    /// [`PartError::Line`].
    pub fn parse(line: &[u8]) -> Result<PartHeader, PartError> {
        let wrong = |why: String| Err(PartError::Line(why));
        let header: PartHeader = match serde_json::from_slice(line) {
            Ok(header) => header,
            Err(e) => return wrong(e.to_string()),
        };
        if !is_name(&header.hash) {
            return wrong("hash must be a SHA-256 in 64 hexadecimal digits".to_owned());
        }
        if header.tags.len() > MAX_TAGS {
            return wrong(format!("it has more than {MAX_TAGS} tags"));
        }
        if header.packed.is_some_and(|packed| packed > most_packed(header.bytes)) {
            return wrong("packed is too large for the length of the log".to_owned());
        }
        Ok(header)
    }

    /// Reads the next line of a body; `None` at its end. Afterwards [`PartHeader::log`] reads the log.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn read(body: &mut impl BufRead) -> Result<Option<PartHeader>, PartError> {
        let mut line = Vec::new();
        body.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => PartHeader::parse(&line).map(Some),
            Some(_) if line.len() >= MAX_LINE => Err(PartError::Line("it is too long".to_owned())),
            Some(_) => Err(PartError::Short),
        }
    }

    /// Passes the compressed log to `each` in pieces. After an error of `each` the rest of the log is read and discarded, so that
    /// the next part can be read; the result is that error.
    ///
    /// # Errors
    /// [`PartError`] if the log cannot be received.
    pub fn log<E>(
        &self,
        body: &mut impl BufRead,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, PartError> {
        let most = self.packed.unwrap_or_else(|| most_packed(self.bytes));
        let (mut left, mut went) = (most, Ok(()));
        while left > 0 {
            let piece = match body.fill_buf() {
                Ok(piece) => piece,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            };
            if piece.is_empty() {
                // Without a stated length the log is the rest of the body.
                return if self.packed.is_some() { Err(PartError::Short) } else { Ok(went) };
            }
            let n = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if went.is_ok() {
                went = each(&piece[..n]);
            }
            body.consume(n);
            left -= n as u64;
        }
        if self.packed.is_none() && !body.fill_buf()?.is_empty() {
            return Err(PartError::Line("the log is longer than announced".to_owned()));
        }
        Ok(went)
    }
}
