//! Splits a log into its parts: rows, which are stored as columns, and a [`TestHeader`] with everything else. An
//! [`Assembly`] combines the parts into the session and records that a reader of the log would return.

use crate::TestId;
use crate::checksum::{LogNames, LogSum, sum_of_file};
use crate::error::ArchiveError;
use crate::packets::{FileTests, StoredTest, TESTS_KEY, VERSION, VERSION_KEY};
use crate::text::{Blob, MAX_TEXT_BYTES, OtherLines, end_of, ends_in_text, header_reader};
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::{LogReader, LogReading, LogRow, RowText};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::iter::Peekable;
use std::path::Path;
use std::vec::IntoIter;

/// All data of a test except its packets, as stored in the metadata of a packet file or table.
#[derive(Clone, Debug)]
pub struct TestHeader {
    test: StoredTest,
}

impl TestHeader {
    pub(crate) fn new(test: StoredTest) -> TestHeader {
        TestHeader { test }
    }

    /// Reads the log at `path` and passes its rows to `each`.
    ///
    /// # Errors
    /// [`ArchiveError`], for example if the log changes while it is read.
    pub fn of_log(path: &Path, mut each: impl FnMut(&LogRow)) -> Result<TestHeader, ArchiveError> {
        let (names, _) = sum_of_file(path)?;
        let (rows, rest) = take_apart(path, names, |row| {
            each(row);
            Ok(())
        })?;
        let source = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (id, hash) = (names.name.number(), names.name.to_string());
        Ok(TestHeader::new(StoredTest {
            id,
            hash,
            row_group: 0,
            first_row: 0,
            rows,
            source,
            tags: Vec::new(),
            rest,
        }))
    }

    /// Number of the test.
    pub fn id(&self) -> TestId {
        TestId(self.test.id)
    }

    /// Number of packets of the test.
    pub fn packets(&self) -> u64 {
        self.test.rows
    }

    /// Name of the test's log.
    pub fn source(&self) -> &str {
        &self.test.source
    }

    /// Tags given when the log was added.
    pub fn tags(&self) -> &[(String, String)] {
        &self.test.tags
    }

    /// Position of the test's packets in the file: the row group, and the number of its rows that precede these
    /// packets.
    pub fn position(&self) -> (u64, u64) {
        (self.test.row_group, self.test.first_row)
    }

    /// Metadata (keys and values) of a table that contains only the packets of this test.
    pub fn metadata(&self) -> [(&'static str, String); 2] {
        let alone = StoredTest { row_group: 0, first_row: 0, ..self.test.clone() };
        [(VERSION_KEY, VERSION.to_string()), (TESTS_KEY, FileTests { tests: vec![alone] }.to_text())]
    }

    /// Reads the headers of the tests in a file or table, in the order of their packets. `value` looks up a key in its
    /// metadata.
    ///
    /// # Errors
    /// [`ArchiveError::Impossible`] if the metadata is missing, or has another version.
    pub fn of_metadata(value: impl Fn(&str) -> Option<String>) -> Result<Vec<TestHeader>, ArchiveError> {
        let impossible = |problem: String| Err(ArchiveError::Impossible(problem));
        let Some(version) = value(VERSION_KEY) else {
            return impossible(format!(
                "the metadata {VERSION_KEY} is missing, so this is not a table of packets"
            ));
        };
        if version != VERSION.to_string() {
            return impossible(format!(
                "its format has version {version}; this program reads version {VERSION}"
            ));
        }
        match value(TESTS_KEY).and_then(|text| FileTests::from_text(&text)) {
            Some(tests) => Ok(tests.tests.into_iter().map(TestHeader::new).collect()),
            None => impossible("the description of its tests cannot be read".to_owned()),
        }
    }

    /// Returns an [`Assembly`], which reassembles the log.
    ///
    /// # Errors
    /// [`ArchiveError`] if the header lines are not those of a log.
    pub fn assemble(&self) -> Result<Assembly, ArchiveError> {
        Assembly::new(&self.test.source, self.test.rest.clone(), self.test.rows)
    }
}

/// Reassembles a log from rows that are pushed one by one. It returns the same session and records as a [`LogReader`]
/// of the log, without creating the text of the log.
pub struct Assembly {
    reader: LogReader,
    rest: Peekable<IntoIter<(u64, Blob)>>,
    /// True if the lines between the header and the first row have been read.
    begun: bool,
    /// Number of rows that have been pushed.
    taken: u64,
    /// Number of rows that the log has.
    rows: u64,
}

impl Assembly {
    pub(crate) fn new(name: &str, rest: OtherLines, rows: u64) -> Result<Assembly, ArchiveError> {
        let end = end_of(&rest, rows);
        let reader = header_reader(name, &rest, &end)?;
        let mut rest = rest.lines.into_iter().peekable();
        rest.next_if(|(before, _)| *before == 0);
        Ok(Assembly { reader, rest, begun: false, taken: 0, rows })
    }

    /// The session; complete after the last row.
    pub fn session(&self) -> &Session {
        self.reader.session()
    }

    /// Findings of the reader; complete after the last row.
    pub fn reading(&self) -> &LogReading {
        self.reader.reading()
    }

    /// True if no row has been pushed.
    pub fn is_untouched(&self) -> bool {
        self.taken == 0
    }

    /// True if all rows have been pushed.
    pub fn is_complete(&self) -> bool {
        self.taken >= self.rows
    }

    /// Pushes the next row. Its record, and the records of preceding lines that are rows in another notation, are
    /// passed to `push`.
    ///
    /// # Errors
    /// [`ArchiveError`] if there are more rows than the test has, or the lines cannot be read.
    pub fn push(&mut self, row: &LogRow, mut push: impl FnMut(&PacketRecord)) -> Result<(), ArchiveError> {
        if self.is_complete() {
            return Err(ArchiveError::Impossible(format!("more packets than the test has ({})", self.rows)));
        }
        if !self.begun || self.rest.peek().is_some_and(|(before, _)| *before <= self.taken) {
            self.lines(&mut push)?;
        }
        if self.reader.take_row(row) {
            push(&row.record);
        }
        self.taken += 1;
        Ok(())
    }

    fn lines(&mut self, push: &mut impl FnMut(&PacketRecord)) -> Result<(), ArchiveError> {
        let taken = self.taken;
        if !std::mem::replace(&mut self.begun, true) {
            self.reader.take_lines(b"", &mut *push)?;
        }
        while let Some((_, lines)) = self.rest.next_if(|(before, _)| *before <= taken) {
            self.reader.take_lines(&lines.0, &mut *push)?;
        }
        Ok(())
    }

    /// Ends the log.
    ///
    /// # Errors
    /// [`ArchiveError`] if rows are missing, or the log has no readable row.
    pub fn finish(&mut self, mut push: impl FnMut(&PacketRecord)) -> Result<(), ArchiveError> {
        if !self.is_complete() {
            return Err(ArchiveError::Impossible(format!(
                "only {} of the {} packets of the test were supplied",
                self.taken, self.rows
            )));
        }
        self.lines(&mut push)?;
        Ok(self.reader.take_end()?)
    }
}

/// Reads the log at `path`, whose checksum must be `expected`, and passes its rows to `each`. Returns the number of
/// rows, and the other lines.
pub(crate) fn take_apart(
    path: &Path,
    expected: LogNames,
    each: impl FnMut(&LogRow) -> Result<(), ArchiveError>,
) -> Result<(u64, OtherLines), ArchiveError> {
    let unsuitable = |problem| ArchiveError::Unsuitable { path: path.to_owned(), problem };
    let mut log = ChecksumReader::open(path)?;
    let text = LogReader::open(path)?.row_text();
    let mut apart = LogSplitter { rows: 0, rest: OtherLines::default(), each };
    take_rows(&mut log, path, text, &mut apart)?;
    let LogSplitter { rows, mut rest, .. } = apart;
    rest.opaque_end = !ends_in_text(path, &rest)?;
    if log.sum() != expected {
        return Err(unsuitable(CHANGED));
    }
    Ok((rows, rest))
}

/// Splits a log into rows and other lines.
struct LogSplitter<F> {
    rows: u64,
    rest: OtherLines,
    each: F,
}

impl<F: FnMut(&LogRow) -> Result<(), ArchiveError>> Parts for LogSplitter<F> {
    fn row(&mut self, row: &LogRow) -> Result<(), ArchiveError> {
        self.rows += 1;
        (self.each)(row)
    }

    fn line(&mut self, line: &[u8]) {
        self.rest.push(self.rows, line);
    }
}

/// Reason for refusing a log whose checksum changes while it is read.
pub(crate) const CHANGED: &str = "the log changed while it was read: add it after the test has ended";

/// Reads a file line by line and computes the checksum of all bytes read.
pub(crate) struct ChecksumReader {
    input: BufReader<File>,
    sum: LogSum,
}

impl ChecksumReader {
    pub fn open(path: &Path) -> Result<ChecksumReader, ArchiveError> {
        let log = File::open(path).map_err(ArchiveError::io("opening the log", path))?;
        Ok(ChecksumReader { input: BufReader::with_capacity(1 << 18, log), sum: LogSum::default() })
    }

    pub fn sum(&self) -> LogNames {
        self.sum.names()
    }
}

/// Input that is read line by line.
pub(crate) trait LineInput {
    /// Appends the next line, or a part of a line that is too long to be a row. Returns false at the end.
    fn next(&mut self, line: &mut Vec<u8>) -> std::io::Result<bool>;
}

/// Maximum length of a line that can be a row, in bytes. Longer lines are read in pieces, so that a file without line
/// feeds needs little memory.
const MAX_ROW_BYTES: u64 = 4096;

impl LineInput for ChecksumReader {
    fn next(&mut self, line: &mut Vec<u8>) -> std::io::Result<bool> {
        let read = self.input.by_ref().take(MAX_ROW_BYTES).read_until(b'\n', line)?;
        self.sum.write(line);
        Ok(read > 0)
    }
}

impl LineInput for &[u8] {
    fn next(&mut self, line: &mut Vec<u8>) -> std::io::Result<bool> {
        Ok(self.take(MAX_ROW_BYTES).read_until(b'\n', line)? > 0)
    }
}

/// Receiver of the rows and the other lines of a log.
pub(crate) trait Parts {
    fn row(&mut self, row: &LogRow) -> Result<(), ArchiveError>;
    fn line(&mut self, line: &[u8]);
}

/// Reads a log and passes its rows and its other lines to `parts`. `text` reads the log's rows; `path` is used in error
/// messages.
pub(crate) fn take_rows(
    log: &mut impl LineInput,
    path: &Path,
    mut text: RowText,
    parts: &mut impl Parts,
) -> Result<(), ArchiveError> {
    let (mut line, mut others, mut in_header) = (Vec::new(), 0, true);
    loop {
        line.clear();
        if !log.next(&mut line).map_err(ArchiveError::io("reading the log", path))? {
            return Ok(());
        }
        in_header &= line.first().is_none_or(|b| *b == b'#' || b.is_ascii_whitespace());
        match text.read(&line).filter(|_| !in_header) {
            Some(row) => parts.row(&row)?,
            None => {
                others += line.len();
                if others > MAX_TEXT_BYTES {
                    let problem = "more than 64 MiB of the log are not rows written by jitlat";
                    return Err(ArchiveError::Unsuitable { path: path.to_owned(), problem });
                }
                parts.line(&line);
            }
        }
    }
}
