//! Rows of a log that several threads parse at once.

use super::compat::RowLayout;
use super::read::{LogReader, ReadState};
use super::row::{PADDING, Scanner};
use crate::threads::Threads;
use jitlat_core::PacketRecord;
use jitlat_core::helpers::Helpers;
use std::sync::{Mutex, PoisonError};

/// Bytes of the log that each thread takes at a time.
const BYTES_PER_SHARE: usize = 512 * 1024;
/// More threads wait for the one that takes the rows.
const MAX_THREADS: usize = 4;

/// Plain rows that follow one another.
#[derive(Default)]
struct RowRun {
    /// Where its text begins in the buffer.
    start: usize,
    /// Where it ends, behind a line feed.
    end: usize,
    /// Where the rows end that were read: before `end` where a line is no plain row.
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
    /// Hands out the plain rows that come next, parsed on `threads` threads, up to a line that is none, or until little is left. Returns
    /// the offset in the input from which on it is worth calling again: behind what is in the buffer, because a line that is no
    /// plain row is rarely the only one.
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

    /// Cuts the whole lines in the buffer into about equal parts; false if there are too few.
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
