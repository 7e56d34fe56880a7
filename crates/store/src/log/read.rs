//! [`LogReader`]: reads a log of any version as a [`Session`] and a stream of records.

use super::exact::{LogRow, RowText};
use super::file::is_part;
use super::header::LogHeader;
use super::row::{self, PADDING, Scanner};
use super::unrecorded::Unrecorded;
use crate::threads::Threads;
use jitlat_core::summary::{Summary, Warning};
use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Number of bytes read at a time, which is also the maximum length of a valid line.
const BLOCK_BYTES: usize = 256 * 1024;
/// Number of records passed on at a time.
const RECORDS_PER_BATCH: usize = 512;
/// Maximum number of lines of a header.
const MAX_HEADER_LINES: u64 = 10_000;
/// Number of bytes at the end of a file that are searched for closing lines.
const TAIL_BYTES: u64 = 64 * 1024;
/// Maximum number of packets without a row at the end of a cut log of version 1 or 2 about which the analysis says
/// nothing, so that the reader warns.
const MOST_ROWLESS_UNSAID: u64 = 10;
/// Start of a line that stands for rows that were not written. The number of rows follows.
pub(super) const UNRECORDED: &str = "# unrecorded ";
/// Maximum number of warnings of one kind that are listed individually.
const MAX_SINGLE_WARNINGS: usize = 5;
/// Start of the first line after the rows.
const ROWS: &str = "# rows ";

/// Reason why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogReadError {
    /// The file could not be opened.
    #[error("cannot open the log {name}: {source}")]
    Open {
        /// Name of the log.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Reading failed.
    #[error("reading the log {name} after line {line}: {source}")]
    Read {
        /// Name of the log.
        name: String,
        /// Number of lines read before the failure.
        line: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is of another kind, or a log without any readable row.
    #[error("{name} is not a jitlat log: line {line} is {found}; expected {expected}")]
    NotALog {
        /// Name of the file.
        name: String,
        /// The first invalid line, counted from 1.
        line: u64,
        /// Beginning of that line, quoted.
        found: String,
        /// Description of the expected contents.
        expected: &'static str,
    },
    /// The header lacks a fact without which the rows have no meaning.
    #[error("cannot analyse {name}: {problem}")]
    Header {
        /// Name of the log.
        name: String,
        /// Description of the missing fact.
        problem: String,
    },
}

/// Findings about a log that is being read; complete after the last row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Number of rows that were read.
    pub rows: u64,
    /// Number of rows that could not be parsed.
    pub unreadable: u64,
    /// True if the log ends within a line or, in version 3, before its closing lines.
    pub truncated: bool,
    /// Warnings about the log file for the user.
    pub warnings: Vec<String>,
}

impl LogReading {
    /// Adds the warnings to `summary`, which is the summary of this log. Every report then contains them.
    pub fn add_to(&self, summary: &mut Summary) {
        summary.warnings.extend(self.warnings.iter().map(|text| Warning::new("log", text.clone())));
    }
}

/// Reads a log row by row, in bounded memory.
///
/// The iterator yields the records in arrival order. Rows that cannot be parsed are skipped and counted. The only
/// errors are a failing input and a log without any readable row; an error is the last item. If the input is a file,
/// [`LogReader::session`] includes the closing lines of a version 3 log from the beginning, otherwise only after all
/// rows have been read.
pub struct LogReader {
    name: String,
    input: Box<dyn Read + Send>,
    /// One or more blocks of input, followed by [`PADDING`] zeros.
    pub(super) buf: Vec<u8>,
    /// Number of bytes of input before `buf`.
    pub(super) base: u64,
    /// Range of `buf` that is not read yet.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) input_ended: bool,
    /// Error of the input; it is reported after the rows that precede it.
    pub(super) failure: Option<io::Error>,
    /// Number of lines read so far.
    pub(super) line: u64,
    pub(super) header: LogHeader,
    scanner: Scanner,
    session: Session,
    /// True if the name of the log is that of a test which is running or did not end.
    is_part: bool,
    /// True if the closing lines have already been parsed.
    tail_known: bool,
    /// True while closing lines are read: some of them change facts of the header.
    after_rows: bool,
    first_unreadable: Option<(u64, String)>,
    next_index: u64,
    index_gaps: Vec<String>,
    /// Number of rows that are missing according to gaps in their numbering.
    skipped: u64,
    unrecorded: Unrecorded,
    header_warnings: Vec<String>,
    pub(super) state: ReadState,
    reading: LogReading,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    Rows,
    Done,
}

/// A line in the buffer: its range without the line feed, and true if it ended with a line feed.
struct BufferedLine {
    start: usize,
    end: usize,
    whole: bool,
}

impl LogReader {
    /// Opens the log at `path` (`-` is standard input) and reads its header.
    ///
    /// # Errors
    /// [`LogReadError`]; the message contains the file, the line, and the expected contents.
    pub fn open(path: &Path) -> Result<LogReader, LogReadError> {
        if path.as_os_str() == "-" {
            return LogReader::from_reader("standard input", Box::new(io::stdin()));
        }
        let name = path.display().to_string();
        let open = |source| LogReadError::Open { name: name.clone(), source };
        let file = File::open(path).map_err(open)?;
        let size = file.metadata().map_err(open)?;
        if size.is_dir() {
            return Err(open(io::ErrorKind::IsADirectory.into()));
        }
        let tail = if size.is_file() { file.try_clone().ok().map(|f| (f, size.len())) } else { None };
        let mut log = LogReader::from_reader(&name, Box::new(file))?;
        if let Some((file, size)) = tail {
            log.parse_end_of_file(&file, size);
        }
        Ok(log)
    }

    /// Reads a log from any input; `name` is used in errors. If it ends with `.part`, the test of the log may not have ended.
    ///
    /// # Errors
    /// [`LogReadError`], see [`LogReader::open`].
    pub fn from_reader(name: &str, input: Box<dyn Read + Send>) -> Result<LogReader, LogReadError> {
        let mut log = LogReader {
            name: name.to_owned(),
            input,
            buf: vec![0; BLOCK_BYTES + PADDING],
            base: 0,
            start: 0,
            end: 0,
            input_ended: false,
            failure: None,
            line: 0,
            header: LogHeader::new(),
            scanner: Scanner::default(),
            session: Session::new(jitlat_core::TestSpec::default()),
            is_part: is_part(Path::new(name)),
            tail_known: false,
            after_rows: false,
            first_unreadable: None,
            next_index: 0,
            index_gaps: Vec::new(),
            skipped: 0,
            unrecorded: Unrecorded::default(),
            header_warnings: Vec::new(),
            state: ReadState::Rows,
            reading: LogReading::default(),
        };
        log.read_header()?;
        let packets = log.session.declared.unwrap_or(log.session.spec.packets().into());
        log.unrecorded.set_packets(packets);
        Ok(log)
    }

    /// Reads a log from an input whose last bytes, `end`, are known beforehand. As for a file, the session contains the
    /// facts in these bytes from the beginning. `end` must begin with a whole line.
    ///
    /// # Errors
    /// [`LogReadError`], see [`LogReader::open`].
    pub fn with_end(name: &str, input: Box<dyn Read + Send>, end: &[u8]) -> Result<LogReader, LogReadError> {
        let mut log = LogReader::from_reader(name, input)?;
        log.parse_closing_lines(end);
        Ok(log)
    }

    /// Session to which the records belong.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Findings so far. The warnings are complete after the iterator has ended.
    pub fn reading(&self) -> &LogReading {
        &self.reading
    }

    /// Returns the reader and writer of single rows with the columns of this log.
    pub fn row_text(&self) -> RowText {
        RowText::new(self.header.layout)
    }

    /// True if the rows contain the kernel's TCP_INFO.
    pub fn has_tcp(&self) -> bool {
        self.header.layout.has_tcp()
    }

    /// TCP_INFO in the row of the last record, without the segment size; `None` if the row has none.
    pub fn tcp(&self) -> Option<TcpSample> {
        self.scanner.tcp
    }

    /// Passes the remaining records to `take`, several hundred at a time.
    ///
    /// # Errors
    /// [`LogReadError`], after `take` has received all records before the failure.
    pub fn each_chunk(&mut self, take: impl FnMut(&[PacketRecord])) -> Result<(), LogReadError> {
        self.each_chunk_on(Threads::ONE, take)
    }

    /// Passes the remaining records to `take`, several hundred at a time, and parses the rows on `threads` threads. The
    /// input is read ahead by half a megabyte per thread.
    ///
    /// # Errors
    /// Same as [`LogReader::each_chunk`].
    pub fn each_chunk_on(
        &mut self,
        threads: Threads,
        mut take: impl FnMut(&[PacketRecord]),
    ) -> Result<(), LogReadError> {
        let mut records = Vec::with_capacity(RECORDS_PER_BATCH);
        // Offset in the input up to which only this thread parses.
        let mut alone = if threads == Threads::ONE { u64::MAX } else { 0 };
        loop {
            if self.base + self.start as u64 >= alone {
                alone = self.each_part(threads, &mut take);
            }
            records.clear();
            let read = self.read_some(&mut records);
            if !records.is_empty() {
                take(&records);
            }
            if !read? {
                return Ok(());
            }
        }
    }

    /// Reads the next records. Returns false if there are no more.
    fn read_some(&mut self, records: &mut Vec<PacketRecord>) -> Result<bool, LogReadError> {
        while records.len() < RECORDS_PER_BATCH {
            if let Some(record) = self.next_plain() {
                records.push(record);
                continue;
            }
            match self.next_slowly()? {
                Some(record) => records.push(record),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns an iterator over the remaining records, for consumers that accept only records. An error ends the
    /// iteration and is stored in `failure`.
    pub fn records<'a>(
        &'a mut self,
        failure: &'a mut Option<LogReadError>,
    ) -> impl Iterator<Item = PacketRecord> + 'a {
        self.map_while(|r| r.map_err(|e| *failure = Some(e)).ok())
    }

    fn not_a_log(&self, line: &BufferedLine, expected: &'static str) -> LogReadError {
        LogReadError::NotALog {
            name: self.name.clone(),
            line: self.line,
            found: quote(&self.buf[line.start..line.end]),
            expected,
        }
    }

    fn read_header(&mut self) -> Result<(), LogReadError> {
        const DATE: &str = "a header, as in '# Fri Jul 3 19:46:11 UTC 2009'";
        let mut number = 0;
        loop {
            let Some(line) = self.next_line()? else {
                if number == 0 {
                    let found = if self.line == 0 { "empty" } else { "blank" };
                    return Err(LogReadError::Header {
                        name: self.name.clone(),
                        problem: format!("it is {found}; expected {DATE}"),
                    });
                }
                break;
            };
            let bytes = &self.buf[line.start..line.end];
            let bytes =
                if self.line == 1 { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) } else { bytes };
            let bytes = bytes.trim_ascii_start();
            if bytes.is_empty() {
                continue;
            }
            if bytes[0] != b'#' {
                if number == 0 {
                    return Err(self.not_a_log(&line, DATE));
                }
                // This is the first row, which the next call must read again.
                self.start = line.start;
                self.line -= 1;
                break;
            }
            if !line.whole {
                self.reading.truncated = true;
                break;
            }
            number += 1;
            if number > MAX_HEADER_LINES {
                return Err(self.not_a_log(&line, "a row within the first 10000 lines"));
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            if text.starts_with(UNRECORDED) {
                self.unrecorded.missing(true);
            }
            // The date is the first line that is not blank.
            self.header.line(if number == 1 { 1 } else { self.line.max(2) }, &text);
        }
        self.rebuild()
    }

    /// Computes the session from all facts so far.
    fn rebuild(&mut self) -> Result<(), LogReadError> {
        let (session, warnings) = self
            .header
            .session()
            .map_err(|problem| LogReadError::Header { name: self.name.clone(), problem })?;
        self.session = session;
        self.header_warnings = warnings;
        Ok(())
    }

    /// Parses the closing lines of a file before its rows are read.
    fn parse_end_of_file(&mut self, file: &File, size: u64) {
        let header = self.base + self.start as u64;
        let from = size.saturating_sub(TAIL_BYTES).max(header.min(size));
        let mut tail = vec![0; (size - from) as usize];
        if read_exact_at(file, &mut tail, from).is_ok() {
            self.parse_closing_lines(&tail);
        }
    }

    /// Parses the closing lines in `tail`, the last bytes of the log.
    fn parse_closing_lines(&mut self, tail: &[u8]) {
        let Ok(text) = core::str::from_utf8(tail) else { return };
        // Only complete lines after the last row are parsed.
        let Some(text) = text.rfind('\n').map(|end| &text[..end]) else { return };
        let lines: Vec<&str> =
            text.rsplit('\n').take_while(|l| l.starts_with('#') || l.trim().is_empty()).collect();
        if lines.iter().any(|l| LogHeader::begins_a_log(l, true))
            || !lines.iter().any(|l| l.starts_with(ROWS))
        {
            return;
        }
        for line in lines.iter().rev() {
            self.header.line(u64::MAX, line);
        }
        self.tail_known = self.rebuild().is_ok();
    }

    /// Makes the next line available in the buffer; `None` at the end of the input. A line longer than a block is returned
    /// in pieces.
    fn next_line(&mut self) -> Result<Option<BufferedLine>, LogReadError> {
        let mut searched = self.start;
        loop {
            let longest = self.end.min(self.start + BLOCK_BYTES);
            if let Some(at) = memchr::memchr(b'\n', &self.buf[searched..longest]) {
                let line = BufferedLine { start: self.start, end: searched + at, whole: true };
                self.start = line.end + 1;
                self.line += 1;
                return Ok(Some(line));
            }
            if self.input_ended || longest == self.start + BLOCK_BYTES {
                if self.start == self.end {
                    return Ok(None);
                }
                let line = BufferedLine { start: self.start, end: longest, whole: false };
                self.start = longest;
                self.line += 1;
                return Ok(Some(line));
            }
            self.make_room();
            searched = self.end;
            self.fill()?;
        }
    }

    /// True if no input follows the lines that were read.
    fn is_at_end(&self) -> bool {
        self.input_ended && self.start == self.end
    }

    /// Moves the unread part to the beginning of the buffer.
    pub(super) fn make_room(&mut self) {
        self.buf.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        self.pad();
    }

    /// Clears the bytes after the input, because the parser reads beyond the end of the input and must not find
    /// anything that looks like a row.
    fn pad(&mut self) {
        self.buf[self.end..self.end + PADDING].fill(0);
    }

    fn fill(&mut self) -> Result<(), LogReadError> {
        self.failure.take().map_or_else(|| self.read_more(), Err).map_err(|source| {
            self.state = ReadState::Done;
            LogReadError::Read { name: self.name.clone(), line: self.line, source }
        })
    }

    /// Reads more input into the buffer, which must have free space.
    pub(super) fn read_more(&mut self) -> io::Result<()> {
        let room = self.buf.len() - PADDING;
        loop {
            match self.input.read(&mut self.buf[self.end..room]) {
                Ok(0) => self.input_ended = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            self.pad();
            return Ok(());
        }
    }

    #[inline]
    pub(super) fn count_row(&mut self, index: u64, record: &PacketRecord) {
        if index != self.next_index {
            self.index_gap(index);
        }
        self.unrecorded.row(record);
        self.next_index = index.wrapping_add(1);
        self.reading.rows += 1;
    }

    /// Returns the next record if it is a plain row and completely in the buffer.
    #[inline]
    fn next_plain(&mut self) -> Option<PacketRecord> {
        if self.state != ReadState::Rows {
            return None;
        }
        let (index, record, end) = self.scanner.row(&self.buf, self.start, self.header.layout)?;
        // The padding contains no line feed, so this row lies within the buffer.
        self.start = end + 1;
        self.line += 1;
        self.count_row(index, &record);
        Some(record)
    }

    /// Returns the next record if the fast parser could not read it: it is at the end of a block or of the log, or
    /// written in another notation.
    #[cold]
    fn next_slowly(&mut self) -> Result<Option<PacketRecord>, LogReadError> {
        while self.state == ReadState::Rows {
            let Some(line) = self.next_line()? else {
                self.conclude()?;
                break;
            };
            if let Some(record) = self.any_line(&line)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Handles a line of any kind; returns the record if it is a row.
    fn any_line(&mut self, line: &BufferedLine) -> Result<Option<PacketRecord>, LogReadError> {
        // A truncated row cannot be distinguished from a complete one. The classic layout is an exception: only zero
        // and non-zero matter in its last column.
        let readable = line.whole || (self.is_at_end() && self.header.layout.is_classic());
        let bytes = &self.buf[line.start..line.end];
        let row = row::parse_tolerant(bytes, self.header.layout).filter(|_| readable);
        if let Some((index, record, tcp)) = row {
            self.scanner.tcp = tcp;
            self.count_row(index, &record);
            return Ok(Some(record));
        }
        if !self.other_line(line)? {
            self.conclude()?;
        }
        Ok(None)
    }

    /// Accepts the next row of a log that is reassembled from its parts. The effect is the same as reading its line.
    /// The header must have been read. Returns false if the row is ignored because another log has begun.
    pub fn take_row(&mut self, row: &LogRow) -> bool {
        if self.state == ReadState::Done {
            return false;
        }
        self.line += 1;
        self.scanner.tcp = row.tcp;
        self.count_row(row.index, &row.record);
        true
    }

    /// Accepts the next lines of a reassembled log that are not rows in jitlat's notation. They follow the lines that
    /// were already read with the header. Rows in another notation are passed to `push`.
    ///
    /// # Errors
    ///
    /// Same as those of the iterator.
    pub fn take_lines(
        &mut self,
        text: &[u8],
        mut push: impl FnMut(&PacketRecord),
    ) -> Result<(), LogReadError> {
        let text = io::Cursor::new(text.to_vec());
        // The reader may have buffered input beyond the header.
        let before = core::mem::replace(&mut self.input, Box::new(io::empty()));
        self.input = if self.input_ended { Box::new(text) } else { Box::new(before.chain(text)) };
        self.input_ended = false;
        while self.state == ReadState::Rows
            && let Some(line) = self.next_line()?
        {
            if let Some(record) = self.any_line(&line)? {
                push(&record);
            }
        }
        Ok(())
    }

    /// Ends a reassembled log.
    ///
    /// # Errors
    /// Same as those of the iterator.
    pub fn take_end(&mut self) -> Result<(), LogReadError> {
        if self.state == ReadState::Rows { self.conclude() } else { Ok(()) }
    }

    /// Handles a line that is not a row. Returns false if reading ends.
    fn other_line(&mut self, line: &BufferedLine) -> Result<bool, LogReadError> {
        let bytes = self.buf[line.start..line.end].trim_ascii();
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes[0] == b'#' {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.after_rows |= text.starts_with(ROWS);
            if LogHeader::begins_a_log(&text, self.after_rows) {
                self.reading.warnings.push(format!(
                    "another log begins before line {}: only the first log is read",
                    self.line
                ));
                return Ok(false);
            }
            if !line.whole {
                self.reading.truncated = true;
            } else if text.starts_with(UNRECORDED) {
                self.unrecorded.missing(true);
            } else if !self.tail_known {
                self.header.line(self.line, &text);
            }
            return Ok(true);
        }
        if !line.whole && self.is_at_end() {
            self.reading.truncated = true;
            return Ok(true);
        }
        self.reading.unreadable += 1;
        self.unrecorded.missing(true);
        let (number, found) = (self.line, quote(bytes));
        self.first_unreadable.get_or_insert((number, found));
        if !line.whole {
            self.skip_to_line_feed()?;
        }
        Ok(true)
    }

    /// Skips the rest of a line longer than a block.
    fn skip_to_line_feed(&mut self) -> Result<(), LogReadError> {
        while let Some(piece) = self.next_line()? {
            self.line -= 1;
            if piece.whole {
                break;
            }
        }
        Ok(())
    }

    #[cold]
    fn index_gap(&mut self, index: u64) {
        if self.index_gaps.len() <= MAX_SINGLE_WARNINGS {
            self.index_gaps
                .push(format!("line {}: row {index} instead of row {}", self.line, self.next_index));
        }
        self.unrecorded.missing(false);
        self.skipped = self.skipped.saturating_add(index.saturating_sub(self.next_index));
        self.next_index = index;
    }

    /// Completes the session and the warnings after the last row.
    fn conclude(&mut self) -> Result<(), LogReadError> {
        self.state = ReadState::Done;
        if !self.tail_known {
            self.rebuild()?;
        }
        if let (0, Some((line, found))) = (self.reading.rows, &self.first_unreadable) {
            return Err(LogReadError::NotALog {
                name: self.name.clone(),
                line: *line,
                found: found.clone(),
                expected: "a row 'rx_index tx_ns seq rx_ns flags'",
            });
        }
        let mut warnings = core::mem::take(&mut self.header_warnings);
        let spelt =
            self.header.problems.iter().take(MAX_SINGLE_WARNINGS).map(|(line, problem)| match *line {
                u64::MAX => format!("after the last row: {problem}"),
                line => format!("line {line}: {problem}"),
            });
        warnings.extend(spelt);
        if let Some((line, found)) = &self.first_unreadable {
            warnings.push(format!(
                "{} skipped because of errors; the first is line {line}: {found}",
                count(self.reading.unreadable, "row")
            ));
        }
        if !self.index_gaps.is_empty() {
            warnings.push(format!(
                "the numbering of the rows is broken ({}{}): rows were removed, repeated or combined from several logs",
                self.index_gaps[..self.index_gaps.len().min(MAX_SINGLE_WARNINGS)].join("; "),
                if self.index_gaps.len() > MAX_SINGLE_WARNINGS { "; …" } else { "" }
            ));
        }
        if let Some(claimed) = self.header.rows.filter(|n| *n != self.reading.rows + self.reading.unreadable)
        {
            warnings.push(format!(
                "the log states {}, but {} were found",
                count(claimed, "row"),
                self.reading.rows + self.reading.unreadable
            ));
        }
        if self.reading.truncated {
            warnings.push(format!(
                "the log is truncated in line {}: that line is lost, and perhaps more",
                self.line
            ));
            let rowless = self.unrecorded.after_last();
            if !self.session.has_end_lines() && !self.is_part && (1..=MOST_ROWLESS_UNSAID).contains(&rowless)
            {
                warnings.push(format!(
                    "no rows for the last {}: lost, or the file was cut",
                    count(rowless, "packet")
                ));
            }
        } else if self.session.has_end_lines() && self.header.rows.is_none() {
            self.reading.truncated = true;
            warnings.push(
                "the log has no closing lines: its writer was stopped or is still running, so rows may be missing"
                    .to_owned(),
            );
        }
        // Rows that are missing according to their numbering are not missing at the end.
        let within = self.skipped.max(self.reading.unreadable);
        let all_there = self.header.rows.is_none_or(|n| n <= self.reading.rows.saturating_add(within));
        self.session.truncated = match self.session.has_end_lines() {
            true => self.reading.truncated || !all_there,
            // A log of version 1 or 2 has its final name if it is whole, unless even its header is cut.
            false => self.is_part || (self.reading.rows == 0 && !self.header.is_whole()),
        };
        if self.is_part && !self.session.has_end_lines() {
            warnings.push(
                "the name of the log ends with .part: its test is running or did not end, so rows may be missing at the end"
                    .to_owned(),
            );
        }
        let proven = self.header.rows.is_some_and(|n| n == self.reading.rows.saturating_add(self.skipped));
        self.session.unrecorded = self.unrecorded.finish(proven);
        warnings.append(&mut self.reading.warnings);
        self.reading.warnings = warnings;
        Ok(())
    }
}

impl Iterator for LogReader {
    type Item = Result<PacketRecord, LogReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.next_plain() {
            Some(record) => Some(Ok(record)),
            None => self.next_slowly().transpose(),
        }
    }
}

/// Fills `buffer` with the bytes from offset `from`, without changing the position in the file.
fn read_exact_at(mut file: &File, buffer: &mut [u8], from: u64) -> io::Result<()> {
    let position = file.stream_position()?;
    file.seek(io::SeekFrom::Start(from))?;
    let filled = file.read_exact(buffer);
    file.seek(io::SeekFrom::Start(position))?;
    filled
}

pub(super) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Returns the beginning of a line, with unprintable characters removed.
fn quote(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]);
    let text = text.trim_end();
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if text.chars().count() > SHOWN || bytes.len() > 4 * SHOWN { "…" } else { "" };
    format!("'{shown}{more}'")
}
