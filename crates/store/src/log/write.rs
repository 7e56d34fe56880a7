//! [`LogWriter`]: writes a log row by row.
//!
//! Text that is already written is never changed: facts that are only known at the end follow the rows. The log is
//! therefore readable after a crash at any byte. On a full disk, only the part that does not fit is lost.

use super::compat::{LogVersion, RowLayout};
use super::header::{self, Fact};
use super::read::{UNRECORDED, count};
use super::row;
use jitlat_core::session::Ending;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Direction, PacketRecord, Session, WallTime};
use std::fs::File;
use std::io::{self, Write};

/// Number of bytes buffered before they are written.
const BUFFER_BYTES: usize = 128 * 1024;

/// Destination of a log. It can be appended to, and shortened after a failed write.
pub trait LogOutput: Write {
    /// Shortens the output to its first `len` bytes.
    ///
    /// # Errors
    /// If the output cannot be shortened; the log then ends with a broken row, which readers skip.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Waits until everything written is on stable storage, if the output supports it.
    ///
    /// # Errors
    /// If the storage reports an error.
    fn sync(&mut self) -> io::Result<()>;
}

impl LogOutput for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        io::Seek::seek(self, io::SeekFrom::Start(len)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.sync_data() {
            // Pipes and devices cannot be synced.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

impl LogOutput for Vec<u8> {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reason why a log is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("writing the log{}: {source}; {}", name(.path), remaining(*.rows, *.lost))]
pub struct WriteError {
    /// The file; `None` if the output is not a file.
    pub path: Option<std::path::PathBuf>,
    /// Number of rows in the log; these are the first rows.
    pub rows: u64,
    /// Number of later rows, which are lost.
    pub lost: u64,
    /// Error of the system.
    pub source: io::Error,
}

fn name(path: &Option<std::path::PathBuf>) -> String {
    path.as_ref().map(|p| format!(" {}", p.display())).unwrap_or_default()
}

fn remaining(rows: u64, lost: u64) -> String {
    match (rows, lost) {
        (rows, 0) => format!("it has {}, but no closing lines", count(rows, "row")),
        (0, lost) => format!("all its {} are lost", count(lost, "row")),
        (rows, lost) => format!("it has the first {}, but the next {lost} are lost", count(rows, "row")),
    }
}

/// Contents of a finished log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenLog {
    /// Number of rows in the log.
    pub rows: u64,
    /// Number of records that cannot be written as a row: in versions 1 and 2, records without both times.
    pub left_out: u64,
}

/// Writes the log of one session. Call [`LogWriter::begin`], then [`LogWriter::record`] any number of times, then
/// [`LogWriter::finish`]. [`LogWriter::close`] reports failures.
///
/// If the writer is dropped before it is finished, the log has no closing lines, as after a crash.
#[derive(Debug)]
pub struct LogWriter<W: LogOutput> {
    out: W,
    version: LogVersion,
    layout: RowLayout,
    buf: Vec<u8>,
    /// Number of bytes written to `out`.
    written: u64,
    rows: u64,
    /// Number of rows that could not be written.
    lost: u64,
    /// Number of packets without a row since the last row that was written.
    missed: u64,
    left_out: u64,
    written_facts: Vec<Fact>,
    /// Header as it was written.
    header: String,
    /// Header of a version 1 or 2 log with the number of packets sent and the clock estimates, which are only known at the
    /// end.
    better_header: Option<String>,
    /// Times of the first and the last row on the client's clock; `None` before the first row.
    stream: Option<(WallTime, WallTime)>,
    /// Direction of the packets, which determines which time of a row is the client's.
    direction: Direction,
    finished: bool,
    failure: Option<io::Error>,
}

impl<W: LogOutput> LogWriter<W> {
    /// Creates a writer of one-way records in the given version.
    pub fn new(out: W, version: LogVersion) -> LogWriter<W> {
        LogWriter {
            out,
            version,
            layout: version.one_way(),
            buf: Vec::with_capacity(BUFFER_BYTES + 1024),
            written: 0,
            rows: 0,
            lost: 0,
            missed: 0,
            left_out: 0,
            written_facts: Vec::new(),
            header: String::new(),
            better_header: None,
            stream: None,
            direction: Direction::Up,
            finished: false,
            failure: None,
        }
    }

    /// Creates a writer of records with up to four times, in version 3.
    pub fn two_way(out: W) -> LogWriter<W> {
        let mut writer = LogWriter::new(out, LogVersion::V3);
        writer.layout = RowLayout::TwoWay { queue: true };
        writer
    }

    /// Creates a writer of records with up to four times and the marks that the far host reports, in version 3.
    pub fn two_way_marked(out: W) -> LogWriter<W> {
        let mut writer = LogWriter::new(out, LogVersion::V3);
        writer.layout = RowLayout::TwoWayMarked;
        writer
    }

    /// Creates a writer of records with up to four times and the kernel's TCP_INFO in each row, in version 3.
    pub fn two_way_tcp(out: W) -> LogWriter<W> {
        let mut writer = LogWriter::new(out, LogVersion::V3);
        writer.layout = RowLayout::TwoWayTcp;
        writer
    }

    /// Creates a writer of the same format for the output `out`.
    pub fn another<V: LogOutput>(&self, out: V) -> LogWriter<V> {
        LogWriter { layout: self.layout, ..LogWriter::new(out, self.version) }
    }

    /// Writes the header with the facts known so far. The ending is written only after the rows, because a log without
    /// its closing lines must not claim to be complete.
    pub fn begin(&mut self, session: &Session) {
        let session = &Session { ending: Ending::Unknown, reason: None, ..session.clone() };
        self.written_facts = header::facts(session, self.layout);
        self.header = header::header_text(session, self.version, self.layout, None);
        self.direction = session.spec.direction();
        self.buf.extend_from_slice(self.header.as_bytes());
        self.flush();
    }

    /// Adds a row. Does nothing after a failed write.
    #[inline]
    pub fn record(&mut self, record: &PacketRecord) {
        self.row(record, None);
    }

    /// Adds a row with the kernel's TCP_INFO sampled with the record.
    pub fn record_tcp(&mut self, record: &PacketRecord, sample: Option<&TcpSample>) {
        self.row(record, sample);
    }

    #[inline]
    fn row(&mut self, record: &PacketRecord, tcp: Option<&TcpSample>) {
        if self.failure.is_some() {
            self.lost += 1;
            return;
        }
        if self.missed > 0 && self.version.has_all_facts() {
            let line = format!("{UNRECORDED}{}\n", core::mem::take(&mut self.missed));
            self.buf.extend_from_slice(line.as_bytes());
        }
        if row::push(&mut self.buf, self.rows, record, tcp, self.layout) {
            self.rows += 1;
            if self.version.has_clock_error() {
                self.extend_stream(record);
            }
        } else {
            self.left_out += 1;
        }
        if self.buf.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Records that `packets` packets that arrived since the last row have no row. Without this record they would count
    /// as lost.
    pub fn miss(&mut self, packets: u64) {
        self.missed += packets;
    }

    fn extend_stream(&mut self, record: &PacketRecord) {
        let time = match self.direction {
            Direction::Up => record.sent(),
            Direction::Down => record.arrived(),
        };
        if let Some(time) = time {
            self.stream = Some((self.stream.map_or(time, |(first, _)| first), time));
        }
    }

    /// Writes everything that is buffered.
    pub fn flush(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let mut done = 0;
        while done < self.buf.len() {
            match self.out.write(&self.buf[done..]) {
                Ok(0) => return self.fail(done, io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.fail(done, e),
            }
        }
        self.written += done as u64;
        self.buf.clear();
    }

    /// Shortens the log to its last complete row.
    fn fail(&mut self, done: usize, error: io::Error) {
        self.failure = Some(error);
        let whole = memchr::memrchr(b'\n', &self.buf[..done]).map_or(0, |at| at + 1);
        self.written += whole as u64;
        let lost = self.buf[whole..].split(|b| *b == b'\n').filter(|l| !l.is_empty() && l[0] != b'#').count();
        self.rows -= lost as u64;
        self.lost += lost as u64;
        self.buf.clear();
        if done > whole {
            // If this fails, readers skip the broken row.
            let _ = self.out.cut(self.written);
        }
    }

    /// Writes the facts that became known since [`LogWriter::begin`], and waits until everything is on stable storage.
    pub fn finish(&mut self, session: &Session) {
        self.finished = true;
        if self.version.has_all_facts() {
            self.flush();
            let mut session = session.clone();
            if let Some(e) = &self.failure {
                session.ending = Ending::StorageFailed;
                session.reason = Some(e.to_string());
            }
            let now = header::facts(&session, self.layout);
            let text = header::trailer_text(self.rows, &self.written_facts, &now);
            self.buf.extend_from_slice(text.as_bytes());
        }
        if !self.version.has_all_facts() {
            let stream = self.stream.map(|(a, b)| (a.min(b), a.max(b)));
            let text = header::header_text(session, self.version, self.layout, stream);
            self.better_header = (text != self.header).then_some(text);
        }
        match self.failure.take() {
            None => self.flush(),
            Some(first) => {
                // The disk may have room for a few lines even if a block did not fit.
                self.flush();
                self.failure = Some(first);
            }
        }
        if let Err(e) = self.out.sync() {
            self.failure.get_or_insert(e);
        }
    }

    /// For a finished version 1 or 2 log, returns the length of its header in bytes and the text that should replace it;
    /// otherwise `None`.
    pub fn better_header(&mut self) -> Option<(u64, String)> {
        Some((self.header.len() as u64, self.better_header.take()?))
    }

    /// Returns the destination of the log.
    pub fn output(&self) -> &W {
        &self.out
    }

    /// Returns the output, and a description of its contents if it is complete.
    ///
    /// # Errors
    /// [`WriteError`] with the first failure; rows that could be written stay in the file.
    pub fn close(mut self) -> (W, Result<WrittenLog, WriteError>) {
        if !self.finished {
            self.flush();
        }
        let result = match self.failure {
            None => Ok(WrittenLog { rows: self.rows, left_out: self.left_out }),
            Some(source) => Err(WriteError { path: None, rows: self.rows, lost: self.lost, source }),
        };
        (self.out, result)
    }
}
