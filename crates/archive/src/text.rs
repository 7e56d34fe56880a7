//! [`OtherLines`]: the lines of a log that are not rows. [`LogText`]: a log reassembled byte for byte.

use crate::error::ArchiveError;
use crate::packets::TestRows;
use jitlat_store::log::{LogReadError, LogReader, RowText};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

/// Maximum total size of the lines that are not rows, in bytes. Logs with millions of damaged rows exceed it and are
/// refused.
pub(crate) const MAX_TEXT_BYTES: usize = 1 << 26;
/// Number of bytes at the end of a log that are examined before its rows, as in [`LogReader::open`].
pub(crate) const TAIL_BYTES: usize = 64 * 1024;

/// Bytes that are serialised as binary data instead of a list of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob(pub Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Blob, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Blob;
            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.to_vec()))
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes))
            }
        }
        from.deserialize_byte_buf(Bytes)
    }
}

/// Lines that are not rows in jitlat's notation: header, closing lines, and damaged lines in between. Each part has the
/// number of rows that precede it; these numbers ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherLines {
    pub lines: Vec<(u64, Blob)>,
    /// True if the last 64 KiB are not text. A reader of the file then cannot read the closing lines before the rows.
    pub opaque_end: bool,
}

impl OtherLines {
    /// Adds `line`, which comes after `rows` rows.
    pub fn push(&mut self, rows: u64, line: &[u8]) {
        match self.lines.last_mut() {
            Some((before, part)) if *before == rows => part.0.extend_from_slice(line),
            _ => self.lines.push((rows, Blob(line.to_vec()))),
        }
    }
}

/// Text of a log: rows interleaved with the other lines.
struct LogText {
    rows: TestRows,
    text: RowText,
    rest: std::iter::Peekable<std::vec::IntoIter<(u64, Blob)>>,
    /// Number of rows written.
    written: u64,
    out: Vec<u8>,
    at: usize,
}

/// Approximate size of the chunks of text that are generated.
const CHUNK_BYTES: usize = 128 * 1024;

impl LogText {
    fn fill(&mut self) -> Result<(), ArchiveError> {
        self.out.clear();
        self.at = 0;
        while self.out.len() < CHUNK_BYTES {
            if let Some((_, part)) = self.rest.next_if(|(before, _)| *before <= self.written) {
                self.out.extend_from_slice(&part.0);
                continue;
            }
            match self.rows.next()? {
                Some(row) => {
                    if !self.text.write(&mut self.out, row) {
                        return Err(ArchiveError::Impossible(
                            "a packet has no value for a time that its log format requires".to_owned(),
                        ));
                    }
                    self.written += 1;
                }
                None if self.rest.peek().is_none() => break,
                None => {
                    return Err(ArchiveError::Impossible(
                        "the position of a line is beyond the last packet".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Read for LogText {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.out.len() {
            self.fill().map_err(io::Error::other)?;
        }
        let n = into.len().min(self.out.len() - self.at);
        into[..n].copy_from_slice(&self.out[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Returns a reader of the lines before the first row. Its session already contains the facts in `end`, the last lines
/// of the log.
pub(crate) fn header_reader(name: &str, rest: &OtherLines, end: &[u8]) -> Result<LogReader, LogReadError> {
    let header = rest.lines.first().filter(|(before, _)| *before == 0).map(|(_, part)| part.0.clone());
    LogReader::with_end(name, Box::new(Cursor::new(header.unwrap_or_default())), end)
}

/// Returns the text of a log, assembled from its rows and its other lines.
pub(crate) fn text(rows: TestRows, rest: OtherLines) -> Result<Box<dyn Read + Send>, ArchiveError> {
    let text = header_reader("the archive", &rest, &[])?.row_text();
    let rest = rest.lines.into_iter().peekable();
    Ok(Box::new(LogText { rows, text, rest, written: 0, out: Vec::new(), at: 0 }))
}

/// Returns a reader of the log that is equivalent to [`LogReader::open`] of its file.
pub(crate) fn reader(name: &str, rows: TestRows, rest: OtherLines) -> Result<LogReader, ArchiveError> {
    let end = end_of(&rest, rows.left());
    let text = text(rows, rest)?;
    Ok(LogReader::with_end(name, text, &end)?)
}

/// Returns the end of a log with `rows` rows. A reader of the file examines it before the rows.
pub(crate) fn end_of(rest: &OtherLines, rows: u64) -> Vec<u8> {
    let end = match &rest.lines[..] {
        _ if rest.opaque_end => &[],
        [] => &[][..],
        [.., (before, _)] if *before < rows => &[],
        // The header is not part of the end.
        [(_, only)] => &only.0[header_of(&only.0)..],
        [.., (_, last)] => &last.0,
    };
    end[end.len().saturating_sub(TAIL_BYTES)..].to_vec()
}

/// Returns the size of the lines before the first row, in bytes.
pub(crate) fn header_of(text: &[u8]) -> usize {
    let header = text.split_inclusive(|b| *b == b'\n').take_while(|line| {
        let line = line.trim_ascii_start();
        line.is_empty() || line[0] == b'#'
    });
    header.map(<[u8]>::len).sum()
}

/// Returns true if the end of the file, which a reader examines before the rows, is text.
pub(crate) fn ends_in_text(path: &Path, rest: &OtherLines) -> Result<bool, ArchiveError> {
    let mut file = File::open(path).map_err(ArchiveError::io("opening the log", path))?;
    let len = file.metadata().map_err(ArchiveError::io("opening the log", path))?.len();
    let from = end_from(rest, len);
    let mut end = Vec::new();
    let read =
        file.seek(SeekFrom::Start(from)).and_then(|_| file.take(TAIL_BYTES as u64).read_to_end(&mut end));
    read.map_err(ArchiveError::io("reading the log", path))?;
    Ok(std::str::from_utf8(&end).is_ok())
}

/// Returns the position, in a log of `len` bytes, of the last part, which a reader examines before the rows.
fn end_from(rest: &OtherLines, len: u64) -> u64 {
    let header =
        rest.lines.first().filter(|(before, _)| *before == 0).map_or(0, |(_, part)| header_of(&part.0));
    len.saturating_sub(TAIL_BYTES as u64).max(header as u64)
}
