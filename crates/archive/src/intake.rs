//! [`TestIntake`]: the one way into the archive. Whatever a test comes from – a file, a text at hand, the records of a measurement – its rows go
//! into columns and through the analysis once, and its other lines are stored with them.

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

/// Records that are analysed at a time.
const RECORDS_PER_BATCH: usize = 512;

/// The rows of a test on their way into a file of packets.
pub(crate) enum IntakePackets {
    /// At hand, each block at most [`MAX_ROW_GROUP_ROWS`].
    Held(Vec<ColumnBlock>),
    /// In a file that has no name yet, while nobody else writes to the archive; the last rows are still at hand.
    Written { writer: Box<PacketFileWriter>, last: Box<ColumnBlock>, writing: Option<Writing> },
}

impl IntakePackets {
    /// True if the test needs a file of its own.
    pub fn is_long(&self) -> bool {
        !matches!(self, IntakePackets::Held(blocks) if blocks.len() <= 1)
    }

    /// The rows at hand.
    pub fn blocks(&self) -> &[ColumnBlock] {
        match self {
            IntakePackets::Held(blocks) => blocks,
            IntakePackets::Written { last, .. } => std::slice::from_ref(&**last),
        }
    }

    /// The right to write that was taken for the file that was begun; `None` if there is no such file.
    pub fn writing(&mut self) -> Option<Writing> {
        match self {
            IntakePackets::Held(_) => None,
            IntakePackets::Written { writing, .. } => writing.take(),
        }
    }

    /// A file of these rows alone, written to its end: at `path`, unless it was begun already.
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

/// Where rows go beyond the first [`MAX_ROW_GROUP_ROWS`].
pub(crate) enum RowOverflow<'a> {
    /// They stay at hand, as they were before they came.
    Memory,
    /// Into a file of this archive at this path, which nobody else writes to from then on.
    File(&'a Archive, PathBuf),
}

/// Takes a test row by row.
pub(crate) struct TestIntake<'a> {
    /// Name of the log, for errors.
    name: &'a str,
    /// The last bytes of the log, which its reader looks at before the rows, given the length of the header.
    end: &'a mut dyn FnMut(usize) -> Result<Vec<u8>, ArchiveError>,
    overflow: RowOverflow<'a>,
    packets: IntakePackets,
    rest: OtherLines,
    /// Parts of `rest` that the reader has.
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
    /// Takes the test with this number.
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

    /// Hands the reader the lines that came since the last row.
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

    /// What the catalogue has of the test, and its rows.
    ///
    /// # Errors
    /// [`ArchiveError`] if it is not a log, or none of its rows can be read.
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
