//! [`TestIntake`]: prepares a test for the archive, whether it comes from a file, from text in memory, or from the
//! records of a measurement. Rows are converted to columns and analysed in one pass. The other lines are stored with
//! them.

use crate::entry::{Analysis, CatalogueEntry, LogOrigin};
use crate::error::ArchiveError;
use crate::packets::{ColumnBlock, MAX_ROW_GROUP_ROWS, PacketFileWriter};
use crate::parts::Parts;
use crate::text::{OtherLines, header_of};
use crate::{Archive, Writing};
use jitlat_core::PacketRecord;
use jitlat_store::log::{LogReader, LogRow};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Number of records analysed per batch.
const RECORDS_PER_BATCH: usize = 512;

/// Rows of a test that will be written to a packet file.
pub(crate) enum IntakePackets {
    /// Rows in memory, in blocks of at most [`MAX_ROW_GROUP_ROWS`].
    Held(Vec<ColumnBlock>),
    /// Rows in a temporary file; the last rows are still in memory. The archive stays locked while the file exists.
    Written { writer: Box<PacketFileWriter>, last: Box<ColumnBlock>, writing: Option<Writing> },
}

impl IntakePackets {
    /// True if the test needs a file of its own.
    pub fn is_long(&self) -> bool {
        !matches!(self, IntakePackets::Held(blocks) if blocks.len() <= 1)
    }

    /// True if rows are in a file already.
    pub fn is_written(&self) -> bool {
        matches!(self, IntakePackets::Written { .. })
    }

    /// Returns the rows that are still in memory.
    pub fn blocks(&self) -> &[ColumnBlock] {
        match self {
            IntakePackets::Held(blocks) => blocks,
            IntakePackets::Written { last, .. } => std::slice::from_ref(&**last),
        }
    }

    /// Returns the write lock that was acquired for a temporary file; `None` if there is no temporary file.
    pub fn writing(&mut self) -> Option<Writing> {
        match self {
            IntakePackets::Held(_) => None,
            IntakePackets::Written { writing, .. } => writing.take(),
        }
    }

    /// Writes all rows to a separate file: at `path`, or to the temporary file that already contains some of them.
    ///
    /// # Errors
    /// [`ArchiveError`] if it cannot be written.
    pub fn write(&mut self, path: &Path) -> Result<PacketFileWriter, ArchiveError> {
        match std::mem::replace(self, IntakePackets::Held(Vec::new())) {
            IntakePackets::Held(blocks) => {
                let mut writer = PacketFileWriter::create(path)?;
                blocks.iter().try_for_each(|block| writer.write(&[block]))?;
                Ok(writer)
            }
            IntakePackets::Written { mut writer, last, .. } => {
                writer.write(&[&*last])?;
                Ok(*writer)
            }
        }
    }
}

/// Storage for rows beyond the first [`MAX_ROW_GROUP_ROWS`].
pub(crate) enum RowOverflow<'a> {
    /// The rows are stored in memory, as the preceding rows are.
    Memory,
    /// The rows are written to a file of this archive at this path. The write lock is held once the file has been
    /// created.
    File(&'a Archive, PathBuf),
}

/// Receives a test row by row.
pub(crate) struct TestIntake<'a> {
    /// Name of the log, for errors.
    name: &'a str,
    /// Returns the end of the log, given the length of its header. The log reader needs the end before the rows.
    end: &'a mut dyn FnMut(usize) -> Result<Vec<u8>, ArchiveError>,
    overflow: RowOverflow<'a>,
    packets: IntakePackets,
    rest: OtherLines,
    /// Number of parts of `rest` that were passed to the reader.
    read: usize,
    rows: u64,
    log: Option<(LogReader, Analysis)>,
    records: Vec<PacketRecord>,
}

impl Parts for TestIntake<'_> {
    fn row(&mut self, row: &LogRow) -> Result<(), ArchiveError> {
        self.read_lines()?;
        if let Some((log, analysis)) = &mut self.log
            && log.take_row(row)
        {
            self.records.push(row.record);
            if self.records.len() >= RECORDS_PER_BATCH {
                analysis.push_all(&self.records);
                self.records.clear();
            }
        }
        self.rows += 1;
        self.store(row)
    }

    fn line(&mut self, line: &[u8]) {
        self.rest.push(self.rows, line);
    }
}

impl<'a> TestIntake<'a> {
    /// Creates an intake for a test.
    pub fn new(
        id: i64,
        name: &'a str,
        overflow: RowOverflow<'a>,
        end: &'a mut dyn FnMut(usize) -> Result<Vec<u8>, ArchiveError>,
    ) -> TestIntake<'a> {
        let mut block = ColumnBlock::default();
        block.begin(id);
        TestIntake {
            name,
            end,
            overflow,
            packets: IntakePackets::Held(vec![block]),
            rest: OtherLines::default(),
            read: 0,
            rows: 0,
            log: None,
            records: Vec::with_capacity(RECORDS_PER_BATCH),
        }
    }

    fn store(&mut self, row: &LogRow) -> Result<(), ArchiveError> {
        match &mut self.packets {
            IntakePackets::Held(blocks) => {
                let Some(block) = blocks.last_mut() else { return Ok(()) };
                block.push(row);
                if block.len() < MAX_ROW_GROUP_ROWS {
                    return Ok(());
                }
                let next = block.next();
                match &self.overflow {
                    RowOverflow::Memory => blocks.push(next),
                    RowOverflow::File(archive, path) => {
                        let writing = Some(archive.lock()?);
                        let mut writer = Box::new(PacketFileWriter::create(path)?);
                        blocks.iter().try_for_each(|block| writer.write(&[block]))?;
                        self.packets = IntakePackets::Written { writer, last: Box::new(next), writing };
                    }
                }
            }
            IntakePackets::Written { writer, last, .. } => {
                last.push(row);
                if last.len() >= MAX_ROW_GROUP_ROWS {
                    writer.write(&[&**last])?;
                    last.clear();
                }
            }
        }
        Ok(())
    }

    /// Passes the lines after the last row to the reader.
    fn read_lines(&mut self) -> Result<(), ArchiveError> {
        let records = &mut self.records;
        let (log, _) = match &mut self.log {
            Some(log) => log,
            None => {
                let header = self.rest.lines.first().filter(|(before, _)| *before == 0);
                let header = header.map(|(_, lines)| lines.0.clone()).unwrap_or_default();
                self.read = usize::from(!header.is_empty());
                let end = (self.end)(header_of(&header))?;
                self.rest.opaque_end = std::str::from_utf8(&end).is_err();
                let mut log = LogReader::with_end(self.name, Box::new(Cursor::new(header)), &end)?;
                let analysis = Analysis::new(log.session());
                log.take_lines(b"", |record| records.push(*record))?;
                self.log.insert((log, analysis))
            }
        };
        for (_, lines) in &self.rest.lines[self.read..] {
            log.take_lines(&lines.0, |record| records.push(*record))?;
        }
        self.read = self.rest.lines.len();
        Ok(())
    }

    /// Returns the catalogue entry of the test and its rows.
    ///
    /// # Errors
    /// [`ArchiveError`] if the input is not a log, or none of its rows can be read.
    pub fn finish(mut self, origin: &LogOrigin<'_>) -> Result<(CatalogueEntry, IntakePackets), ArchiveError> {
        self.read_lines()?;
        let Some((mut log, mut analysis)) = self.log else {
            return Err(ArchiveError::Impossible("a test was not read".to_owned()));
        };
        log.take_end()?;
        analysis.push_all(&self.records);
        let mut entry = analysis.finish(log.session().clone(), log.reading(), origin);
        entry.complete(self.rows, self.rest);
        Ok((entry, self.packets))
    }
}
