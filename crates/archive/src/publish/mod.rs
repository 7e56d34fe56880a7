//! [`Archive::publish`]: writes an archive to a lake, for programs that query Parquet: docs/formats/lake.md.
//!
//! Everything is appended: a publication writes the packets, summaries and roll-ups of the tests that were added since
//! the previous one, in new files, and no published file ever changes. Merging small files and removing old tests in
//! the archive therefore does not affect a lake. A roll-up row contains the state of its tests only; rows of the same
//! stream and hour are merged by their readers, as hours are merged to days.
//!
//! The manifest is written after the files that it lists. Files that it does not list are left over from a publication
//! that was interrupted, and the next one removes them before it writes anything.

mod manifest;
mod results;
mod store;
mod tables;

pub use manifest::{LakeFile, LakeTable, MANIFEST_VERSION, Manifest, PublishedThrough};
pub use results::ArchivedResult;
pub use store::{LakeFolder, LakeStore, StagingFolder};

use crate::catalogue::figure_columns;
use crate::error::ArchiveError;
use crate::find::TABLES;
use crate::packed::read_pool;
use crate::packets::{ColumnBlock, FileTests, MAX_ROW_GROUP_ROWS, PacketFileWriter, StoredTest};
use crate::rollup::{day_name, hour};
use crate::tidy::MIN_SHARED_ROWS;
use crate::{Archive, PooledStream, TestId};
use jitlat_core::pool::Pool;
use jitlat_core::scalars::selectors;
use rusqlite::params;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tables::{TableColumn, Values};

/// Maximum number of tests that are published together. Each takes about 35 kB of memory.
const MAX_TESTS: usize = 5000;
/// Number of packets after which no further test is published together with the previous ones.
const MAX_PACKETS: u64 = 20_000_000;

/// Result of [`Archive::publish`].
#[derive(Debug, Default)]
pub struct PublishedLake {
    /// Number of tests that were published.
    pub tests: u64,
    /// Number of tests whose packets were published. Packets of the others were pruned before.
    pub packets_of: u64,
    /// Number of files that were written.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Number of files of an interrupted publication that were removed.
    pub removed: u64,
    /// Tests whose packets cannot be read. Their summaries were published.
    pub unreadable: Vec<(TestId, ArchiveError)>,
}

/// A test in the catalogue.
struct CataloguedTest {
    id: TestId,
    entered: i64,
    started_ns: i64,
    stream: PooledStream,
    stream_id: i64,
    name: Option<String>,
    source: String,
    hash: String,
    severity: String,
    headline: String,
    packets: u64,
    has_packets: bool,
    pool: Pool,
    figures: Vec<Option<f64>>,
}

/// Pools of new tests by hour and stream.
type HourPools = BTreeMap<(i64, i64), Pool>;

/// Checks the name of an archive in a lake, which is a part of paths.
fn check_name(name: &str) -> Result<(), ArchiveError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(fits) {
        return Ok(());
    }
    Err(ArchiveError::Usage(format!(
        "'{name}' cannot be the name of an archive in a lake: give a name of letters, digits, '-', '_' and '.'"
    )))
}

/// Column of a figure, for engines in which dots and dashes have a meaning: `latency_p99_9` for `latency-p99.9`.
fn column_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Adds the lake and the name of the file to an error.
fn at<'a>(doing: &'static str, name: &'a str) -> impl FnOnce(io::Error) -> ArchiveError + 'a {
    move |source| ArchiveError::Io { doing, path: PathBuf::from(name), source }
}

/// A publication in progress.
struct Publication<'a> {
    archive: &'a Archive,
    store: &'a mut dyn LakeStore,
    /// Folder for files that are being written.
    staging: StagingFolder,
    manifest: Manifest,
    done: PublishedLake,
}

impl Archive {
    /// Publishes the tests that were added since the last publication of this archive as `name` to `store`. With
    /// `again`, everything that was published as `name` is removed first. `progress` receives the number of published
    /// tests and of all new tests.
    ///
    /// # Errors
    /// [`ArchiveError`]; what was published before is complete, and the next publication continues after it.
    /// [`ArchiveError::Usage`] if `name` was published from another archive.
    pub fn publish(
        &self,
        store: &mut dyn LakeStore,
        name: &str,
        again: bool,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<PublishedLake, ArchiveError> {
        check_name(name)?;
        let locked = store.lock(name);
        locked.map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                ArchiveError::Usage(format!("another program is publishing as {name}: try again later"))
            }
            _ => at("locking", &Manifest::path(name))(e),
        })?;
        let staging = store.staging().map_err(at("creating a folder in", "the lake"))?;
        let manifest = if again { Manifest::new(name) } else { read_manifest(store, name)? };
        self.check_same(&manifest)?;
        let mut publication =
            Publication { archive: self, store, staging, manifest, done: PublishedLake::default() };
        if again {
            publication.write_manifest()?;
        }
        publication.remove_left_over()?;
        let mut from = publication.cursor();
        // Tests that are added meanwhile are for the next publication.
        let until = self.entered()?;
        let all = self.count_after(from)?;
        while publication.next(from, until)? {
            from = publication.cursor();
            if !progress(publication.done.tests, all) {
                break;
            }
        }
        Ok(publication.done)
    }

    /// Checks that the manifest lists tests of this archive.
    fn check_same(&self, manifest: &Manifest) -> Result<(), ArchiveError> {
        let Some(through) = &manifest.through else { return Ok(()) };
        if self.has_entered(through)? {
            return Ok(());
        }
        Err(ArchiveError::Usage(format!(
            "'{}' was published from another archive, or from this one before its catalogue was rebuilt: give another \
             --name, or --again to replace what was published",
            manifest.archive
        )))
    }

    fn count_after(&self, from: i64) -> Result<u64, ArchiveError> {
        let query = format!("SELECT count(*) FROM tests WHERE entered > ?{}", indexed(from));
        let count = self.db.query_row(&query, [from], |row| row.get::<_, i64>(0));
        count.map(|n| n as u64).map_err(self.sql("reading"))
    }
}

/// Condition with which SQLite uses the index of new tests. It excludes the tests of early versions, which have no
/// number.
fn indexed(from: i64) -> &'static str {
    if from >= 0 { " AND entered > 0" } else { "" }
}

fn read_manifest(store: &mut dyn LakeStore, name: &str) -> Result<Manifest, ArchiveError> {
    let path = Manifest::path(name);
    let Some(bytes) = store.read(&path).map_err(at("reading", &path))? else {
        return Ok(Manifest::new(name));
    };
    let unreadable = |why: String| {
        ArchiveError::Usage(format!(
            "the manifest {path} cannot be read ({why}): restore it, or publish with --again"
        ))
    };
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|e| unreadable(e.to_string()))?;
    if manifest.version != MANIFEST_VERSION || manifest.archive != name {
        return Err(unreadable(format!("version {} of {}", manifest.version, manifest.archive)));
    }
    Ok(manifest)
}

impl Publication<'_> {
    /// Number of the newest published test; -1 before the first, because tests of early versions have the number 0.
    fn cursor(&self) -> i64 {
        self.manifest.through.as_ref().map_or(-1, |through| through.entered)
    }

    fn write_manifest(&mut self) -> Result<(), ArchiveError> {
        let path = self.staging.path().join("manifest.json");
        let name = Manifest::path(&self.manifest.archive);
        let text = self.manifest.to_text().map_err(|e| ArchiveError::Impossible(e.to_string()))?;
        std::fs::write(&path, text).map_err(ArchiveError::io("writing", &path))?;
        self.store.put(&path, &name).map_err(at("writing", &name))
    }

    fn folder(&self, table: LakeTable) -> String {
        format!("{}/archive={}", table.name(), self.manifest.archive)
    }

    fn remove_left_over(&mut self) -> Result<(), ArchiveError> {
        let listed: BTreeSet<String> = self.manifest.files.iter().map(|file| file.path.clone()).collect();
        for table in LakeTable::ALL {
            let folder = self.folder(table);
            for name in self.store.list(&folder).map_err(at("listing", &folder))? {
                if !listed.contains(&name) {
                    self.store.remove(&name).map_err(at("removing", &name))?;
                    self.done.removed += 1;
                }
            }
        }
        Ok(())
    }

    /// Publishes some tests with numbers above `from`, up to `until`. Returns false if there are none.
    fn next(&mut self, from: i64, until: i64) -> Result<bool, ArchiveError> {
        let keys: Vec<String> = selectors().map(|s| s.to_string()).collect();
        let tests = self.archive.tests_after(from, until, &keys, MAX_TESTS)?;
        let mut hours = HourPools::new();
        // This is needed only once, because tests that are removed later were published before.
        if self.manifest.files.is_empty() {
            self.archive.add_kept(&mut hours)?;
        }
        let Some(last) = tests.last() else {
            // Old tests were removed from the catalogue, and there are no others.
            if !hours.is_empty() {
                self.rollups(&hours, "0000000000-0000000000")?;
                self.write_manifest()?;
            }
            return Ok(false);
        };
        let through = PublishedThrough { entered: last.entered, test: last.id.to_string() };
        let part = format!("{:010}-{:010}", tests[0].entered, last.entered);
        let mut days: BTreeMap<String, Vec<&CataloguedTest>> = BTreeMap::new();
        for test in &tests {
            hours.entry((hour(test.started_ns), test.stream_id)).or_default().merge(&test.pool);
            days.entry(day_name(test.started_ns)).or_default().push(test);
        }
        for (day, tests) in &days {
            self.packets(day, &part, tests)?;
            self.summaries(day, &part, tests, &keys)?;
        }
        self.rollups(&hours, &part)?;
        self.done.tests += tests.len() as u64;
        self.manifest.through = Some(through);
        self.write_manifest()?;
        Ok(true)
    }

    /// Stores a file that was written to `path`, and adds it to the manifest.
    fn store(
        &mut self,
        table: LakeTable,
        day: &str,
        part: &str,
        rows: u64,
        path: &Path,
    ) -> Result<(), ArchiveError> {
        let name = format!("{}/day={day}/{part}.parquet", self.folder(table));
        let (bytes, sha256) = sum(path).map_err(ArchiveError::io("reading", path))?;
        self.store.put(path, &name).map_err(at("writing", &name))?;
        self.done.files += 1;
        self.done.bytes += bytes;
        self.manifest.files.push(LakeFile {
            table: table.name().to_owned(),
            path: name,
            rows,
            bytes,
            sha256,
        });
        Ok(())
    }

    fn packets(&mut self, day: &str, part: &str, tests: &[&CataloguedTest]) -> Result<(), ArchiveError> {
        let mut file = PacketsOfDay::create(&self.staging.path().join("packets.part"))?;
        for test in tests.iter().filter(|test| test.has_packets) {
            match file.add(self.archive, test.id) {
                Ok(()) => self.done.packets_of += 1,
                // The packets were pruned since the test was listed.
                Err(ArchiveError::Pruned(_)) => {}
                Err(e) if self.is_unreadable(&e) && !file.is_torn => self.done.unreadable.push((test.id, e)),
                Err(e) => return Err(e),
            }
        }
        let root = self.staging.path().to_owned();
        match file.finish(&root, "packets.parquet")? {
            0 => Ok(()),
            rows => self.store(LakeTable::Packets, day, part, rows, &root.join("packets.parquet")),
        }
    }

    /// True if an error concerns the packets of one test: the others can be published.
    fn is_unreadable(&self, error: &ArchiveError) -> bool {
        match error {
            ArchiveError::Damaged { .. } | ArchiveError::Impossible(_) => true,
            // A missing packet file, not a missing folder of the lake.
            ArchiveError::Io { path, source, .. } => {
                source.kind() == io::ErrorKind::NotFound && path.starts_with(self.archive.root())
            }
            _ => false,
        }
    }

    fn summaries(
        &mut self,
        day: &str,
        part: &str,
        tests: &[&CataloguedTest],
        keys: &[String],
    ) -> Result<(), ArchiveError> {
        let text =
            |of: fn(&CataloguedTest) -> &str| Values::Text(tests.iter().map(|t| of(t).to_owned()).collect());
        let whole = |of: fn(&CataloguedTest) -> i64| Values::Integers(tests.iter().map(|t| of(t)).collect());
        let tags = tests.iter().map(|t| {
            let tags = self.archive.tags_of(t.id)?;
            serde_json::to_string(&tags).map_err(|e| ArchiveError::Impossible(e.to_string()))
        });
        let tags = tags.collect::<Result<Vec<_>, _>>()?;
        let started: Vec<i64> = tests.iter().map(|t| t.started_ns).collect();
        let mut columns = vec![
            TableColumn::new("test_id", whole(|t| t.id.0)),
            TableColumn::new("id", Values::Text(tests.iter().map(|t| t.id.to_string()).collect())),
            TableColumn::new("hash", text(|t| &t.hash)),
            TableColumn::new("started_ns", Values::Integers(started.clone())),
            TableColumn::new("started", times(&started)),
        ];
        columns.extend(stream_columns(&tests.iter().map(|t| &t.stream).collect::<Vec<_>>()));
        columns.extend([
            TableColumn::new("name", Values::OptionalText(tests.iter().map(|t| t.name.clone()).collect())),
            TableColumn::new("log", text(|t| &t.source)),
            TableColumn::new("tags", Values::Text(tags)),
            TableColumn::new("packets", whole(|t| t.packets as i64)),
            TableColumn::new("severity", text(|t| &t.severity)),
            TableColumn::new("headline", text(|t| &t.headline)),
        ]);
        columns.extend(keys.iter().enumerate().map(|(k, key)| {
            let values = tests.iter().map(|t| t.figures[k]).collect();
            TableColumn { name: column_name(key), values: Values::Numbers(values) }
        }));
        columns.push(TableColumn::new(
            "state",
            Values::Bytes(tests.iter().map(|t| t.pool.to_bytes()).collect()),
        ));
        let path = self.staging.path().join("summaries.parquet");
        tables::write(&path, &columns, MANIFEST_VERSION)?;
        self.store(LakeTable::Summaries, day, part, tests.len() as u64, &path)
    }

    fn rollups(&mut self, hours: &HourPools, part: &str) -> Result<(), ArchiveError> {
        let streams = self.archive.all_streams()?;
        let mut days: BTreeMap<String, Vec<(i64, &PooledStream, &Pool)>> = BTreeMap::new();
        for ((hour, stream), pool) in hours {
            let stream = streams.get(stream).ok_or_else(|| {
                ArchiveError::Impossible(format!("a test has the stream {stream}, which does not exist"))
            })?;
            days.entry(day_name(*hour)).or_default().push((*hour, stream, pool));
        }
        for (day, rows) in days {
            let starts: Vec<i64> = rows.iter().map(|(hour, ..)| *hour).collect();
            let count = |of: fn(&Pool) -> u64| {
                Values::Integers(rows.iter().map(|(.., pool)| of(pool) as i64).collect())
            };
            let mut columns = vec![
                TableColumn::new("hour_ns", Values::Integers(starts.clone())),
                TableColumn::new("hour_start", times(&starts)),
            ];
            columns.extend(stream_columns(&rows.iter().map(|(_, stream, _)| *stream).collect::<Vec<_>>()));
            columns.extend([
                TableColumn::new("tests", count(|p| p.tests)),
                TableColumn::new("sent", count(|p| p.sent)),
                TableColumn::new("received", count(|p| p.received)),
                TableColumn::new("unique_valid", count(|p| p.unique)),
                TableColumn::new("duplicate", count(|p| p.duplicate)),
                TableColumn::new("invalid", count(|p| p.invalid)),
                TableColumn::new("lost", count(|p| p.lost)),
                TableColumn::new("out_of_sequence", count(|p| p.out_of_sequence)),
                TableColumn::new(
                    "state",
                    Values::Bytes(rows.iter().map(|(.., pool)| pool.to_bytes()).collect()),
                ),
            ]);
            let path = self.staging.path().join("rollups.parquet");
            tables::write(&path, &columns, MANIFEST_VERSION)?;
            self.store(LakeTable::Rollups, &day, part, rows.len() as u64, &path)?;
        }
        Ok(())
    }
}

fn times(ns: &[i64]) -> Values {
    Values::Times(ns.iter().map(|ns| ns.div_euclid(1000)).collect())
}

fn stream_columns(streams: &[&PooledStream]) -> Vec<TableColumn> {
    let text =
        |of: fn(&PooledStream) -> &str| Values::Text(streams.iter().map(|s| of(s).to_owned()).collect());
    let known = |of: fn(&PooledStream) -> Option<i64>| {
        Values::OptionalIntegers(streams.iter().map(|s| of(s)).collect())
    };
    vec![
        TableColumn::new("src", text(|s| &s.src)),
        TableColumn::new("dst", text(|s| &s.dst)),
        TableColumn::new("protocol", text(|s| &s.protocol)),
        TableColumn::new("direction", text(|s| &s.direction)),
        TableColumn::new("payload_bytes", known(|s| s.payload_bytes)),
        TableColumn::new("period_ns", known(|s| s.period_ns)),
        TableColumn::new("dscp", Values::Integers(streams.iter().map(|s| s.dscp).collect())),
    ]
}

/// Size and SHA-256 of a file.
fn sum(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut sum, mut bytes) = (File::open(path)?, Sha256::new(), 0);
    let mut part = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut part)?;
        if n == 0 {
            break;
        }
        sum.update(&part[..n]);
        bytes += n as u64;
    }
    Ok((bytes, sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

impl Archive {
    /// Returns the next tests with numbers above `from`, up to `until`, in order of these numbers, each with the
    /// figures `keys`: at most `most`, except tests of early versions, which have no numbers.
    fn tests_after(
        &self,
        from: i64,
        until: i64,
        keys: &[String],
        most: usize,
    ) -> Result<Vec<CataloguedTest>, ArchiveError> {
        let there = figure_columns(&self.db).map_err(self.sql("reading"))?;
        let columns: String = keys
            .iter()
            .map(|key| if there.contains(key) { format!(", f.\"{key}\"") } else { ", NULL".to_owned() })
            .collect();
        let query = format!(
            "SELECT s.id, a.address, b.address, s.protocol, s.direction, s.payload, s.period_ns, s.dscp, t.id, t.entered, \
             t.started_ns, t.name, t.source, t.hash, t.severity, t.headline, t.packets, t.file IS NOT NULL, t.pool{columns} \
             FROM {TABLES} JOIN figures f ON f.test = t.number WHERE t.entered > ?{} AND t.entered <= ? \
             ORDER BY t.entered, t.number",
            indexed(from).replace("entered", "t.entered")
        );
        const COLUMNS: usize = 19;
        let mut statement = self.db.prepare(&query).map_err(self.sql("reading"))?;
        let mut rows = statement.query(params![from, until]).map_err(self.sql("reading"))?;
        let (mut tests, mut packets) = (Vec::<CataloguedTest>::new(), 0);
        while let Some(row) = rows.next().map_err(self.sql("reading"))? {
            let read = || -> rusqlite::Result<(CataloguedTest, Vec<u8>)> {
                let figure = |k| row.get(COLUMNS + k);
                let test = CataloguedTest {
                    stream_id: row.get(0)?,
                    stream: PooledStream::read(row)?,
                    id: TestId(row.get(8)?),
                    entered: row.get(9)?,
                    started_ns: row.get(10)?,
                    name: row.get(11)?,
                    source: row.get(12)?,
                    hash: row.get(13)?,
                    severity: row.get(14)?,
                    headline: row.get(15)?,
                    packets: crate::catalogue::unsigned(row, 16)?,
                    has_packets: row.get(17)?,
                    pool: Pool::default(),
                    figures: (0..keys.len()).map(figure).collect::<rusqlite::Result<_>>()?,
                };
                Ok((test, row.get(18)?))
            };
            let (test, pool) = read().map_err(self.sql("reading"))?;
            // Tests of early versions have the same number, and are published together.
            let is_full = tests.len() >= most || packets >= MAX_PACKETS;
            if is_full && tests.last().is_some_and(|last| last.entered != test.entered) {
                break;
            }
            packets += test.packets;
            tests.push(CataloguedTest { pool: read_pool(&pool)?, ..test });
        }
        Ok(tests)
    }

    /// Adds the pools of tests that were removed from the catalogue.
    fn add_kept(&self, hours: &mut HourPools) -> Result<(), ArchiveError> {
        let mut statement =
            self.db.prepare("SELECT stream, hour_ns, pool FROM kept").map_err(self.sql("reading"))?;
        let mut rows = statement.query([]).map_err(self.sql("reading"))?;
        while let Some(row) = rows.next().map_err(self.sql("reading"))? {
            let read = || Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?));
            let (stream, hour, pool) = read().map_err(self.sql("reading"))?;
            hours.entry((hour, stream)).or_default().merge(&read_pool(&pool)?);
        }
        Ok(())
    }

    fn all_streams(&self) -> Result<BTreeMap<i64, PooledStream>, ArchiveError> {
        Ok(self.streams_of(&crate::Filter::default())?.into_iter().collect())
    }

    fn tags_of(&self, id: TestId) -> Result<BTreeMap<String, String>, ArchiveError> {
        let query =
            "SELECT key, value FROM tags WHERE test = (SELECT number FROM tests WHERE id = ?) ORDER BY key";
        let read = || {
            let mut tags = self.db.prepare_cached(query)?;
            tags.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<BTreeMap<String, String>>>()
        };
        read().map_err(self.sql("reading"))
    }
}

/// A packet file with tests of one day.
struct PacketsOfDay {
    writer: PacketFileWriter,
    /// Whole tests that are not written yet: they share a row group.
    blocks: Vec<ColumnBlock>,
    rows: u64,
    group: u64,
    tests: Vec<StoredTest>,
    /// True if a test was written partly: the file is unusable.
    is_torn: bool,
}

impl PacketsOfDay {
    fn create(path: &Path) -> Result<PacketsOfDay, ArchiveError> {
        let writer = PacketFileWriter::create(path)?;
        Ok(PacketsOfDay { writer, blocks: Vec::new(), rows: 0, group: 0, tests: Vec::new(), is_torn: false })
    }

    fn waiting(&self) -> usize {
        self.blocks.iter().map(ColumnBlock::len).sum()
    }

    fn flush(&mut self) -> Result<(), ArchiveError> {
        if self.waiting() > 0 {
            self.writer.write(&self.blocks.iter().collect::<Vec<_>>())?;
            self.group += 1;
        }
        self.blocks.clear();
        Ok(())
    }

    fn add(&mut self, archive: &Archive, id: TestId) -> Result<(), ArchiveError> {
        let long = archive.location(id)?.rows > MAX_ROW_GROUP_ROWS as u64;
        if long {
            self.flush()?;
        }
        let (mut rows, mut block, mut count) = (archive.rows(id)?, ColumnBlock::default(), 0);
        let (first_row, row_group) = (self.waiting() as u64, self.group);
        block.begin(id.0);
        loop {
            let batch = rows.next_batch()?;
            if batch.is_empty() {
                break;
            }
            for row in batch {
                if block.len() >= MAX_ROW_GROUP_ROWS {
                    self.is_torn = true;
                    self.writer.write(&[&block])?;
                    self.group += 1;
                    block.clear();
                }
                block.push(row);
            }
            count += batch.len() as u64;
        }
        self.is_torn = false;
        self.tests.push(archive.moved(id, row_group, first_row, count)?);
        self.rows += count;
        self.blocks.push(block);
        if long || self.waiting() >= MIN_SHARED_ROWS { self.flush() } else { Ok(()) }
    }

    /// Ends the file and names it `name` in `folder`. Returns the number of its rows; 0 if no file was written.
    fn finish(mut self, folder: &Path, name: &str) -> Result<u64, ArchiveError> {
        self.flush()?;
        if self.rows > 0 {
            self.writer.publish(folder, name, &FileTests { tests: self.tests })?;
        }
        Ok(self.rows)
    }
}
