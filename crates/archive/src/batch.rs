//! [`PreparedTest`]: a test that is ready to be added. [`Archive::add_all`] adds many of them at once, with one packet
//! file per day and one transaction.
//!
//! Tests are read and analysed before the archive is locked, so that other writers only wait for the insertion itself.
//! Adding many tests at once costs less per test, because each roll-up is updated once and the disk is synced once.

use crate::add::{AddOutcome, Batch, Numbered, StoredAs, enter_all, file};
use crate::checksum::{LogNames, LogSum, sum_of_file};
use crate::entry::{CatalogueEntry, LogOrigin};
use crate::error::ArchiveError;
use crate::intake::{IntakePackets, RowOverflow, TestIntake};
use crate::packets::{ColumnBlock, FileTests, PacketFileWriter, PublishedFile, StoredTest};
use crate::parts::{CHANGED, ChecksumReader, Parts, take_rows};
use crate::text::TAIL_BYTES;
use crate::tidy::MIN_SHARED_ROWS;
use crate::{Archive, CollectedEnds, TestId, collected, rollup};
use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session, WallTime};
use jitlat_store::log::{CanonicalLog, LogReader, LogRow, is_part};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use twox_hash::XxHash3_64;

/// Maximum size of a log that is prepared in memory, in bytes. Preparation takes about five times as much memory.
pub const MAX_PREPARED_BYTES: u64 = 2 << 20;

/// Name given to the log of a measured test, because the test has no log file.
const MEASURED: &str = "test.log";

/// A test that was read and analysed, and is ready to be added.
pub struct PreparedTest {
    names: LogNames,
    entry: CatalogueEntry,
    packets: IntakePackets,
    /// Host that sent the test to this collector; `None` for this host's own tests.
    host: Option<String>,
}

/// Returns `log`, or an error if it is a version 1 or 2 log of a test that did not end. Only the name of such a log
/// shows that its test did not end, and the archive does not store names.
fn ended<'a>(log: &'a LogReader, path: &Path) -> Result<&'a LogReader, ArchiveError> {
    if is_part(path) && !log.session().has_end_lines() {
        let problem = "the log of a test that is running or did not end (jitlat -f reads it)";
        return Err(ArchiveError::Unsuitable { path: path.to_owned(), problem });
    }
    Ok(log)
}

impl PreparedTest {
    /// Reads the log `text` named `source`, with `tags` in addition to the log's own.
    ///
    /// # Errors
    /// [`ArchiveError`] if `text` is not a log, or is longer than [`MAX_PREPARED_BYTES`].
    pub fn new(text: &[u8], source: &str, tags: &[(String, String)]) -> Result<PreparedTest, ArchiveError> {
        let path = Path::new(source);
        if text.len() as u64 > MAX_PREPARED_BYTES {
            let problem = "too large to load (limit 2 MiB)";
            return Err(ArchiveError::Unsuitable { path: path.to_owned(), problem });
        }
        let origin = LogOrigin { names: LogNames::of(text), bytes: text.len() as u64, source, tags };
        let end = &mut |header| Ok(text[text.len().saturating_sub(TAIL_BYTES).max(header)..].to_vec());
        let mut intake = TestIntake::new(origin.names.name.number(), source, RowOverflow::Memory, end);
        let reader = LogReader::from_reader(source, Box::new(Cursor::new(text.to_vec())))?;
        let columns = ended(&reader, path)?.row_text();
        take_rows(&mut &*text, path, columns, &mut intake)?;
        PreparedTest::taken(intake, &origin)
    }

    /// Prepares a measured test from its session, its packets in order of arrival, and the kernel's TCP_INFO of each
    /// packet if available. The test's number is the checksum of its [`CanonicalLog`].
    ///
    /// # Errors
    /// [`ArchiveError`] if the session and the packets do not form a log, for example if a packet cannot be written as
    /// a row.
    pub fn measured(
        session: &Session,
        records: &[PacketRecord],
        tcp: &[TcpSample],
    ) -> Result<PreparedTest, ArchiveError> {
        let log = CanonicalLog::new(session, !tcp.is_empty());
        let (header, closing) = (log.header(), log.closing(records.len() as u64));
        let (mut sum, mut bytes) = (LogSum::default(), 0);
        let mut count = |part: &[u8]| {
            sum.write(part);
            bytes += part.len() as u64;
        };
        let end = &mut |_| {
            let closing = closing.as_bytes();
            Ok(closing[closing.len().saturating_sub(TAIL_BYTES)..].to_vec())
        };
        // The test's number is only known after all rows.
        let mut intake = TestIntake::new(0, MEASURED, RowOverflow::Memory, end);
        count(header.as_bytes());
        intake.line(header.as_bytes());
        let (mut text, mut line) = (log.row_text(), Vec::new());
        for (k, record) in records.iter().enumerate() {
            let row = LogRow { index: k as u64, record: *record, tcp: tcp.get(k).copied() };
            line.clear();
            // Store the row as a reader of the log would read it, without fields for which the log has no column.
            let stored = text.write(&mut line, &row).then(|| text.read(&line)).flatten();
            let stored = stored.ok_or_else(|| {
                ArchiveError::Impossible(format!("packet {k} cannot be written as a row of a log"))
            })?;
            count(&line);
            intake.row(&stored)?;
        }
        count(closing.as_bytes());
        intake.line(closing.as_bytes());
        PreparedTest::taken(intake, &LogOrigin { names: sum.names(), bytes, source: MEASURED, tags: &[] })
    }

    /// Prepares the log in the file at `path`. `origin` must describe this log. Packets of a long log are stored in
    /// `tmp/` of the archive.
    pub(crate) fn of_file(
        archive: &Archive,
        path: &Path,
        origin: &LogOrigin<'_>,
        id: i64,
    ) -> Result<PreparedTest, ArchiveError> {
        let name = path.display().to_string();
        let end =
            &mut |header| end_of_file(path, header as u64).map_err(ArchiveError::io("reading the log", path));
        let long = archive.root.join("tmp").join(format!("{}.parquet", TestId(id)));
        let mut intake = TestIntake::new(id, &name, RowOverflow::File(archive, long), end);
        let columns = ended(&LogReader::open(path)?, path)?.row_text();
        let mut log = ChecksumReader::open(path)?;
        take_rows(&mut log, path, columns, &mut intake)?;
        if log.sum() != origin.names {
            return Err(ArchiveError::Unsuitable { path: path.to_owned(), problem: CHANGED });
        }
        let mut test = PreparedTest::taken(intake, origin)?;
        test.renumber(id);
        Ok(test)
    }

    fn taken(intake: TestIntake<'_>, origin: &LogOrigin<'_>) -> Result<PreparedTest, ArchiveError> {
        let (entry, packets) = intake.finish(origin)?;
        let id = entry.id;
        let mut test = PreparedTest { names: origin.names, entry, packets, host: None };
        test.renumber(id);
        Ok(test)
    }

    /// Gives the test another number. Rows that are already in a file are not changed: they must have this number
    /// already.
    fn renumber(&mut self, id: i64) {
        self.entry.id = id;
        if let IntakePackets::Held(blocks) = &mut self.packets {
            blocks.iter_mut().flat_map(|block| &mut block.tests).for_each(|(test, _)| *test = id);
        }
    }

    /// Prepares the log at `path`, which `pusher` has sent and which may have any size. `source` is the name of its origin; `tags` are
    /// added to the log's own. Packets of a long log are stored in `tmp/` of the archive.
    ///
    /// # Errors
    /// [`ArchiveError`] if the file is not a log.
    pub fn from_file(
        archive: &Archive,
        path: &Path,
        pusher: &str,
        source: &str,
        tags: &[(String, String)],
    ) -> Result<PreparedTest, ArchiveError> {
        let (names, bytes) = sum_of_file(path)?;
        let id = match archive.numbered(&names, Some(pusher), &Batch::new())? {
            Numbered::Known(TestId(id)) | Numbered::Free(id) => id,
        };
        PreparedTest::of_file(archive, path, &LogOrigin { names, bytes, source, tags }, id)
    }

    /// Marks the test as pushed by `host`, and tags it with the names of this host and of the known hosts at its ends.
    #[must_use]
    pub fn from_host(mut self, host: &str, ends: &CollectedEnds) -> PreparedTest {
        ends.tag(host, &mut self.entry.tags);
        self.host = Some(host.to_owned());
        self
    }

    /// True if the test has too many packets to be added together with others.
    pub(crate) fn is_long(&self) -> bool {
        self.packets.is_long()
    }

    /// Tags of the log, including the additional ones.
    pub fn tags(&self) -> &[(String, String)] {
        &self.entry.tags
    }

    /// Session of the test: everything in the log except its packets.
    pub fn session(&self) -> &Session {
        &self.entry.session
    }

    /// Time at which the test started according to its log.
    pub fn started(&self) -> WallTime {
        WallTime(self.entry.started_ns)
    }

    /// Length of the log in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.entry.log_bytes
    }

    /// Number of the test, derived from the checksum of its log.
    pub fn id(&self) -> TestId {
        TestId(self.entry.id)
    }
}

impl Archive {
    /// Adds all logs to the archive in one transaction. A log that the archive already has is not added again.
    ///
    /// # Errors
    /// [`ArchiveError`]; the archive is then unchanged. For a single log, an error may also mean that a
    /// different log has the same number.
    pub fn add_all(
        &self,
        tests: &mut [PreparedTest],
    ) -> Result<Vec<Result<AddOutcome, ArchiveError>>, ArchiveError> {
        let kept = if tests.len() == 1 { "this test was not added" } else { "these tests were not added" };
        self.add_each(tests).map_err(|e| e.kept(kept))
    }

    fn add_each(
        &self,
        tests: &mut [PreparedTest],
    ) -> Result<Vec<Result<AddOutcome, ArchiveError>>, ArchiveError> {
        let writing = tests.iter_mut().find_map(|test| test.packets.writing());
        let _writing = writing.map_or_else(|| self.lock(), Ok)?;
        let (mut batch, mut new) = (Batch::new(), Vec::new());
        let mut added = Vec::with_capacity(tests.len());
        for test in tests.iter_mut() {
            added.push(match self.numbered(&test.names, test.host.as_deref(), &batch) {
                Ok(Numbered::Known(known)) => Ok(AddOutcome::Known(known)),
                // Rows of a long test are in a file with another number: another host has pushed the same log meanwhile.
                Ok(Numbered::Free(id)) if id != test.entry.id && test.packets.is_written() => {
                    let waited = std::time::Duration::ZERO;
                    return Err(ArchiveError::Busy { archive: self.root.clone(), waited });
                }
                Ok(Numbered::Free(id)) => {
                    test.renumber(id);
                    let stored = StoredAs { hash: test.entry.hash.clone(), pusher: test.host.clone() };
                    batch.insert(id, stored);
                    new.push(test);
                    Ok(AddOutcome::New(TestId(id)))
                }
                Err(e @ ArchiveError::Impossible(_)) => Err(e),
                Err(e) => return Err(e),
            });
        }
        if new.is_empty() {
            return Ok(added);
        }
        // Tests of a path are adjacent in the file, because they are usually read together.
        new.sort_by_cached_key(|test| (rollup::day_name(test.entry.started_ns), test.entry.started_ns));
        let mut published: Vec<(PublishedFile, usize)> = Vec::new();
        let result = self.publish_all(&mut new, &mut published).and_then(|()| {
            self.transaction(|all| {
                let mut files = Vec::new();
                for (published, tests) in &published {
                    files.extend(std::iter::repeat_n(file(all, published)?, *tests));
                }
                let entries: Vec<(&CatalogueEntry, i64)> =
                    new.iter().map(|test| &test.entry).zip(files).collect();
                enter_all(all, &entries)?;
                let mut hosts: BTreeMap<&str, i64> = BTreeMap::new();
                new.iter()
                    .filter_map(|test| test.host.as_deref())
                    .for_each(|host| *hosts.entry(host).or_default() += 1);
                hosts.into_iter().try_for_each(|(host, tests)| collected::count_stored(all, host, tests))
            })
        });
        if let Err(e) = result {
            // The catalogue does not list these files. fsck finds the files that cannot be removed now.
            for (published, _) in published {
                let _ = fs::remove_file(self.root.join(&published.name));
            }
            return Err(e);
        }
        Ok(added)
    }

    /// Writes the packets of `tests`, which are ordered by day, to one file per day. Returns each file with its number
    /// of tests.
    fn publish_all(
        &self,
        tests: &mut [&mut PreparedTest],
        published: &mut Vec<(PublishedFile, usize)>,
    ) -> Result<(), ArchiveError> {
        let day = |test: &PreparedTest| rollup::day_name(test.entry.started_ns);
        let together = |a: &&mut PreparedTest, b: &&mut PreparedTest| {
            day(a) == day(b) && !a.packets.is_long() && !b.packets.is_long()
        };
        for tests in tests.chunk_by_mut(together) {
            let ids: Vec<u8> = tests.iter().flat_map(|test| test.entry.id.to_be_bytes()).collect();
            let name = match tests {
                [only] => format!("{}.parquet", only.id()),
                _ => format!("{:016x}.parquet", XxHash3_64::oneshot(&ids)),
            };
            let path = self.root.join("tmp").join(&name);
            let writer = if tests.iter().any(|test| test.packets.is_long()) {
                tests[0].packets.write(&path)?
            } else {
                write_shared(tests, &path)?
            };
            let stored: Vec<StoredTest> = tests.iter().map(|test| test.entry.stored()).collect();
            let name = format!("packets/day={}/{name}", day(tests[0]));
            published.push((writer.publish(&self.root, &name, &FileTests { tests: stored })?, tests.len()));
        }
        Ok(())
    }
}

/// Writes the packets of several short tests to one file.
fn write_shared(tests: &mut [&mut PreparedTest], path: &Path) -> Result<PacketFileWriter, ArchiveError> {
    let mut writer = PacketFileWriter::create(path)?;
    let (mut first, mut rows, mut group) = (0, 0, 0);
    for k in 0..tests.len() {
        let test = &mut tests[k];
        (test.entry.row_group, test.entry.first_row) = (group, rows as u64);
        rows += test.packets.blocks().iter().map(ColumnBlock::len).sum::<usize>();
        if rows >= MIN_SHARED_ROWS || k + 1 == tests.len() {
            let blocks: Vec<&ColumnBlock> =
                tests[first..=k].iter().flat_map(|test| test.packets.blocks()).collect();
            writer.write(&blocks)?;
            (first, rows, group) = (k + 1, 0, group + 1);
        }
    }
    Ok(writer)
}

/// Returns the last lines of a file after its first `header` bytes. A log reader needs these lines before the rows.
fn end_of_file(path: &Path, header: u64) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(TAIL_BYTES as u64).max(header);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(TAIL_BYTES as u64).read_to_end(&mut end)?;
    Ok(end)
}
