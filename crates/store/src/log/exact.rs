//! [`RowText`]: converts single rows of a log to records, and back to the same bytes.

use super::compat::RowLayout;
use super::row::{self, PADDING, Scanner};
use jitlat_core::PacketRecord;
use jitlat_core::twoway::TcpSample;

/// A row of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Index of the row, from 0 in order of arrival.
    pub index: u64,
    /// The packet that the row describes.
    pub record: PacketRecord,
    /// The kernel's TCP_INFO, without the segment size; `None` if the row has none.
    pub tcp: Option<TcpSample>,
}

/// Reads and writes rows with the columns of a given log. See [`LogReader::row_text`](super::LogReader::row_text).
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

    /// Parses `line`, which ends with its line feed; `None` unless [`RowText::write`] reproduces exactly these bytes.
    pub fn read(&mut self, line: &[u8]) -> Option<LogRow> {
        let text = line.strip_suffix(b"\n")?;
        self.buffer.clear();
        self.buffer.extend_from_slice(line);
        self.buffer.extend_from_slice(&[0; PADDING]);
        let row = match self.scanner.row(&self.buffer, 0, self.layout) {
            Some((index, record, _)) => LogRow { index, record, tcp: self.scanner.tcp },
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

    /// Appends `row` and a line feed. Returns `false` and appends nothing if the layout is the classic one and the row
    /// lacks one of its two times.
    pub fn write(&self, out: &mut Vec<u8>, row: &LogRow) -> bool {
        row::push(out, row.index, &row.record, row.tcp.as_ref(), self.layout)
    }
}
