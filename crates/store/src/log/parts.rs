//! Parsing of a log's rows on several threads at once.

use super::compat::RowLayout;
use super::read::{LogReader, ReadState};
use super::row::{PADDING, Scanner};
use crate::threads::Threads;
use jitlat_core::PacketRecord;
use jitlat_core::helpers::Helpers;
use std::sync::{Mutex, PoisonError};

/// Number of bytes of the log that each thread parses at once.
const BYTES_PER_SHARE: usize = 512 * 1024;
/// Maximum number of parsing threads. More threads would only wait for the thread that consumes the rows.
const MAX_THREADS: usize = 4;

/// Consecutive plain rows in the buffer.
#[derive(Default)]
struct RowRun {
    /// Offset of the first byte of the rows in the buffer.
    start: usize,
    /// Offset of the end of the rows, after a line feed.
    end: usize,
    /// Offset up to which rows have been parsed; less than `end` if a line is not a plain row.
    read: usize,
    indices: Vec<u64>,
    records: Vec<PacketRecord>,
}

impl RowRun {
    fn scan(&mut self, buf: &[u8], layout: RowLayout) {
        self.indices.clear();
        self.records.clear();
        self.read = self.start;
        let mut scanner = Scanner::default();
        while self.read < self.end
            && let Some((index, record, end)) = scanner.row(buf, self.read, layout)
        {
            self.read = end + 1;
            self.indices.push(index);
            self.records.push(record);
        }
    }
}

impl LogReader {
    /// Parses the next plain rows on `threads` threads and passes them on, up to a line that is not a plain row, or
    /// until little input is left. Returns the offset in the input from which another call is worthwhile. This is the
    /// end of the buffer's contents, because lines that are not plain rows usually occur together.
    pub(super) fn each_part(&mut self, threads: Threads, mut take: impl FnMut(&[PacketRecord])) -> u64 {
        let mut parts: Vec<RowRun> = Vec::new();
        parts.resize_with(threads.0.get().min(MAX_THREADS), RowRun::default);
        let share = parts.len() * BYTES_PER_SHARE;
        self.buf.resize(self.buf.len().max(share + PADDING), 0);
        while self.state == ReadState::Rows {
            self.make_room();
            while !self.input_ended && self.end < self.buf.len() - PADDING {
                if let Err(e) = self.read_more() {
                    self.failure = Some(e);
                    return u64::MAX;
                }
            }
            if self.end < share / 2 || !self.cut(&mut parts) {
                return u64::MAX;
            }
            let (buf, layout) = (&self.buf, self.header.layout);
            let (pieces, left) = (parts.len(), Mutex::new(parts.iter_mut()));
            let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
            threads.run(pieces, &|| {
                while let Some(part) = next() {
                    part.scan(buf, layout);
                }
            });
            for part in &parts {
                self.start = part.read;
                for (index, record) in part.indices.iter().zip(&part.records) {
                    self.line += 1;
                    self.count_row(*index, record);
                }
                take(&part.records);
                if part.read < part.end {
                    return self.base + self.end as u64;
                }
            }
        }
        u64::MAX
    }

    /// Divides the complete lines in the buffer into about equal parts. Returns false if there are too few.
    fn cut(&self, parts: &mut [RowRun]) -> bool {
        let each = (self.end - self.start) / parts.len();
        let (mut start, last) = (self.start, parts.len() - 1);
        for (k, part) in parts.iter_mut().enumerate() {
            let line_feed = if k == last {
                memchr::memrchr(b'\n', &self.buf[start..self.end])
            } else {
                let far = self.buf[..self.end].get(start + each - 1..).unwrap_or_default();
                memchr::memchr(b'\n', far).map(|at| at + each - 1)
            };
            let Some(at) = line_feed else { return false };
            (part.start, part.end) = (start, start + at + 1);
            start = part.end;
        }
        true
    }
}
