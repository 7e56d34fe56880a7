//! [`LogWriter`]: a log written row by row.
//!
//! Nothing that was written is ever touched again: what is known only at the end follows the rows. So the
//! log can be read after a crash at any byte, and a full disk costs what does not fit and no more.

use super::header::{self, Fact};
use super::row;
use super::{Layout, Version};
use jitlat_core::session::Ending;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Direction, PacketRecord, Session, WallTime};
use std::fs::File;
use std::io::{self, Write};

/// Bytes gathered before they are written.
const BUFFER: usize = 128 * 1024;

/// Where a log goes: something that appends, and can be shortened after a failed write.
pub trait LogOutput: Write {
    /// Shortens the output to its first `len` bytes.
    ///
    /// # Errors
    /// If it cannot; the log then ends in a broken row, which readers pass over.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Returns when everything written is on stable storage, as far as there is such a thing.
    ///
    /// # Errors
    /// If the storage says that it is not.
    fn sync(&mut self) -> io::Result<()>;
}

impl LogOutput for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        io::Seek::seek(self, io::SeekFrom::Start(len)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.sync_data() {
            // Pipes and devices have nothing to synchronise.
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

/// Why a log is not whole.
#[derive(Debug, thiserror::Error)]
#[error("writing the log{}: {source}; its first {rows} rows are kept", name(.path))]
pub struct WriteError {
    /// The file, if it is one.
    pub path: Option<std::path::PathBuf>,
    /// Rows that were written whole.
    pub rows: u64,
    /// Why.
    pub source: io::Error,
}

fn name(path: &Option<std::path::PathBuf>) -> String {
    path.as_ref().map(|p| format!(" {}", p.display())).unwrap_or_default()
}

/// What a finished log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Records that the format has no row for: without both times in versions 1 and 2.
    pub left_out: u64,
}

/// Writes one session's log: [`LogWriter::begin`], any number of [`LogWriter::record`]s,
/// [`LogWriter::finish`]. A failure is kept until [`LogWriter::close`].
///
/// Dropped unfinished, it leaves what a crash would leave: a log without closing lines.
#[derive(Debug)]
pub struct LogWriter<W: LogOutput> {
    out: W,
    version: Version,
    layout: Layout,
    buf: Vec<u8>,
    /// Bytes that are in `out` for good.
    written: u64,
    rows: u64,
    left_out: u64,
    said: Vec<Fact>,
    /// The header as written.
    header: String,
    /// What the header should have said, known in the end: of a version 2 log, the clock estimates.
    better_header: Option<String>,
    /// Times of the first and the last row on the client's clock.
    stream: Option<(WallTime, WallTime)>,
    /// Which time of a row the client's clock told.
    direction: Direction,
    finished: bool,
    failure: Option<io::Error>,
}

impl<W: LogOutput> LogWriter<W> {
    /// A writer of one-way records in the form of `version`.
    pub fn new(out: W, version: Version) -> LogWriter<W> {
        let layout = if version == Version::V3 { Layout::OneWay } else { Layout::Classic };
        LogWriter {
            out,
            version,
            layout,
            buf: Vec::with_capacity(BUFFER + 1024),
            written: 0,
            rows: 0,
            left_out: 0,
            said: Vec::new(),
            header: String::new(),
            better_header: None,
            stream: None,
            direction: Direction::Up,
            finished: false,
            failure: None,
        }
    }

    /// A writer of records with up to four times, in version 3.
    pub fn two_way(out: W) -> LogWriter<W> {
        let mut writer = LogWriter::new(out, Version::V3);
        writer.layout = Layout::TwoWay;
        writer
    }

    /// The same with the kernel's account of a TCP connection in each row.
    pub fn two_way_tcp(out: W) -> LogWriter<W> {
        let mut writer = LogWriter::new(out, Version::V3);
        writer.layout = Layout::TwoWayTcp;
        writer
    }

    /// A writer to `out` in the same form.
    pub fn another<V: LogOutput>(&self, out: V) -> LogWriter<V> {
        LogWriter { layout: self.layout, ..LogWriter::new(out, self.version) }
    }

    /// Writes the header at once, with what is known of the session by now. How the test ended is told after the rows
    /// only: a log without its closing lines must not say that it is complete.
    pub fn begin(&mut self, session: &Session) {
        let session = &Session { ending: Ending::Unknown, reason: None, ..session.clone() };
        self.said = header::facts(session, self.layout);
        self.header = header::header_text(session, self.version, self.layout, None);
        self.direction = session.spec.direction();
        self.buf.extend_from_slice(self.header.as_bytes());
        self.flush();
    }

    /// Adds one row. After a failed write it does nothing.
    #[inline]
    pub fn record(&mut self, record: &PacketRecord) {
        self.row(record, None);
    }

    /// Adds one row with the kernel's account of the connection beside it.
    pub fn record_tcp(&mut self, record: &PacketRecord, sample: Option<&TcpSample>) {
        self.row(record, sample);
    }

    #[inline]
    fn row(&mut self, record: &PacketRecord, beside: Option<&TcpSample>) {
        if self.failure.is_some() {
            return;
        }
        if row::push(&mut self.buf, self.rows, record, beside, self.layout) {
            self.rows += 1;
            if self.version == Version::V2 {
                self.extend_stream(record);
            }
        } else {
            self.left_out += 1;
        }
        if self.buf.len() >= BUFFER {
            self.flush();
        }
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

    /// Hands everything gathered so far to the operating system.
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

    /// Ends the log after its last whole row.
    fn fail(&mut self, done: usize, error: io::Error) {
        self.failure = Some(error);
        let whole = memchr::memrchr(b'\n', &self.buf[..done]).map_or(0, |at| at + 1);
        self.written += whole as u64;
        let lost = self.buf[whole..].split(|b| *b == b'\n').filter(|l| !l.is_empty() && l[0] != b'#').count();
        self.rows -= lost as u64;
        self.buf.clear();
        if done > whole {
            // What this cannot mend, readers pass over.
            let _ = self.out.cut(self.written);
        }
    }

    /// Writes what has become known since [`LogWriter::begin`] and waits until all is on stable storage.
    pub fn finish(&mut self, session: &Session) {
        self.finished = true;
        if self.version == Version::V3 {
            self.flush();
            let mut session = session.clone();
            if let Some(e) = &self.failure {
                session.ending = Ending::StorageFailed;
                session.reason = Some(e.to_string());
            }
            let now = header::facts(&session, self.layout);
            let text = header::trailer_text(self.rows, &self.said, &now);
            self.buf.extend_from_slice(text.as_bytes());
        }
        if self.version == Version::V2 {
            let stream = self.stream.map(|(a, b)| (a.min(b), a.max(b)));
            let text = header::header_text(session, self.version, self.layout, stream);
            self.better_header = (text != self.header).then_some(text);
        }
        match self.failure.take() {
            None => self.flush(),
            Some(first) => {
                // There may be room for a few lines where there was none for a block.
                self.flush();
                self.failure = Some(first);
            }
        }
        if let Err(e) = self.out.sync() {
            self.failure.get_or_insert(e);
        }
    }

    /// Of a version 2 log that is finished: the bytes of its header, and what should stand in their place.
    pub fn better_header(&mut self) -> Option<(u64, String)> {
        Some((self.header.len() as u64, self.better_header.take()?))
    }

    /// The output, and whether everything is in it.
    ///
    /// # Errors
    /// [`WriteError`] with the first failure; what could be written is kept.
    pub fn close(mut self) -> (W, Result<Written, WriteError>) {
        if !self.finished {
            self.flush();
        }
        let result = match self.failure {
            None => Ok(Written { rows: self.rows, left_out: self.left_out }),
            Some(source) => Err(WriteError { path: None, rows: self.rows, source }),
        };
        (self.out, result)
    }
}
