//! [`RowText`]: single rows of a log as records, and back into the same bytes.

use super::compat::RowLayout;
use super::row::{self, PADDING, Scanner};
use jitlat_core::PacketRecord;
use jitlat_core::twoway::TcpSample;

/// A row of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Its number, from 0 in order of arrival.
    pub index: u64,
    /// The packet.
    pub record: PacketRecord,
    /// The kernel's TCP_INFO, without the segment size; `None` if the row has none.
    pub tcp: Option<TcpSample>,
}

/// Reads and writes rows in the columns of one log: [`LogReader::row_text`](super::LogReader::row_text).
#[derive(Debug)]
pub struct RowText {
    layout: RowLayout,
    scanner: Scanner,
    buffer: Vec<u8>,
}

impl RowText {
    pub(super) fn new(layout: RowLayout) -> RowText {
        RowText { layout, scanner: Scanner::default(), buffer: Vec::new() }
    }

    /// The row in `line`, which ends with its line feed, if [`RowText::write`] gives these same bytes again; otherwise
    /// `None`.
    pub fn read(&mut self, line: &[u8]) -> Option<LogRow> {
        let text = line.strip_suffix(b"\n")?;
        self.buffer.clear();
        self.buffer.extend_from_slice(line);
        self.buffer.extend_from_slice(&[0; PADDING]);
        let row = match self.scanner.row(&self.buffer, 0, self.layout) {
            Some((index, record, _)) => LogRow { index, record, tcp: self.scanner.beside },
            None => {
                let (index, record, tcp) = row::parse_tolerant(text, self.layout)?;
                LogRow { index, record, tcp }
            }
        };
        i64::try_from(row.index).ok()?;
        self.buffer.clear();
        let written = row::push(&mut self.buffer, row.index, &row.record, row.tcp.as_ref(), self.layout);
        (written && self.buffer == line).then_some(row)
    }

    /// Appends `row` with its line feed. Without both times a row of the classic columns cannot be written: then nothing
    /// is appended, and the result is `false`.
    pub fn write(&self, out: &mut Vec<u8>, row: &LogRow) -> bool {
        row::push(out, row.index, &row.record, row.tcp.as_ref(), self.layout)
    }
}
