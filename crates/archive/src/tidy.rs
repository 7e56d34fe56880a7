//! [`Archive::compact`]: merges small files. [`Archive::prune`]: removes old data.

use crate::add;
use crate::catalogue::unsigned;
use crate::error::ArchiveError;
use crate::packed::{pack_pool, read_pool};
use crate::packets::{ColumnBlock, FileTests, PacketFileWriter, StoredTest};
use crate::{Archive, TestId, pushes, rollup};
use core::str::FromStr;
use jitlat_core::pool::Pool;
use jitlat_core::{WallTime, quantity};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::fs;
use twox_hash::XxHash3_64;

/// Maximum size of a file that is merged with others, in bytes.
const MAX_SMALL_FILE_BYTES: u64 = 32 << 20;
/// Approximate maximum size of a merged file, in bytes.
const MAX_MERGED_FILE_BYTES: u64 = 128 << 20;
/// Minimum number of rows in a row group before the next small test starts another group. It limits the size of row
/// groups, because the whole group is read to read one test.
pub(crate) const MIN_SHARED_ROWS: usize = 1 << 18;
/// Maximum number of files that are merged while other writers wait; this takes a second or less.
const MAX_FILES_PER_LOCK: usize = 512;
/// Minimum number of unused pages for which the catalogue is rewritten without them.
const MIN_FREE_PAGES: u64 = 32;
/// Maximum number of tests in a file. It is limited because the headers of all tests are read to read one test.
const MAX_TESTS_PER_FILE: usize = 20_000;

/// Result of [`Archive::compact`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Number of files that were merged.
    pub before: u64,
    /// Number of files after merging.
    pub after: u64,
    /// Total size before merging, in bytes.
    pub bytes_before: u64,
    /// Total size after merging, in bytes.
    pub bytes_after: u64,
    /// Number of files that could not be read. They are unchanged.
    pub damaged: u64,
}

/// Data that is retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Packets of tests that are dated within this number of days. A test is dated by its start, or by its arrival if
    /// its log claims a later start. The figures of older tests are also retained.
    Packets {
        /// Number of days.
        days: u32,
    },
    /// Tests that are dated within this number of days, as for `Packets`. Older tests are removed, but their data
    /// remain in the roll-ups.
    Tests {
        /// Number of days.
        days: u32,
    },
    /// Packets up to this total size of their files. Each host that pushes tests, and this host, has an equal share, in
    /// which its newest packets are retained; other hosts may use what is left of it. The figures of all tests are also
    /// retained.
    Size {
        /// Maximum size in bytes.
        bytes: u64,
    },
}

impl FromStr for Retention {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<Retention, ArchiveError> {
        let days = |text: &str| text.strip_suffix('d').and_then(|n| n.parse().ok());
        let keep = match text.split_once('=') {
            Some(("packets", age)) => days(age).map(|days| Retention::Packets { days }),
            Some(("tests", age)) => days(age).map(|days| Retention::Tests { days }),
            Some(("size", size)) => quantity::bytes(size).ok().map(|bytes| Retention::Size { bytes }),
            _ => None,
        };
        keep.ok_or_else(|| {
            ArchiveError::Usage(format!(
                "'{text}' is not a retention rule: write packets=90d, tests=400d, or size=20G"
            ))
        })
    }
}

/// Amount of data removed by [`Archive::prune`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Number of tests whose packets were removed.
    pub packets_of: u64,
    /// Number of tests that were removed.
    pub tests: u64,
    /// Number of removed tests that were waiting for a collector and will not be sent. A test that was waiting for
    /// several collectors counts once for each.
    pub waited: u64,
    /// Number of files that were removed.
    pub files: u64,
    /// Total size of the removed files, in bytes.
    pub bytes: u64,
    /// Number of bytes by which the catalogue became smaller.
    pub catalogue_bytes: u64,
    /// True if the catalogue could be copied neither before packets were removed, because the disk was full, nor
    /// afterwards.
    pub is_not_copied: bool,
}

/// A file, with its name and its size.
pub(crate) struct SmallFile {
    pub id: i64,
    pub name: String,
    pub bytes: u64,
}

impl SmallFile {
    /// Reads the columns id, name and bytes.
    pub fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<SmallFile> {
        Ok(SmallFile { id: row.get(0)?, name: row.get(1)?, bytes: unsigned(row, 2)? })
    }

    /// Returns the folder of the day.
    fn folder(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// Length of a day in ns.
const DAY: i64 = 86_400_000_000_000;

/// SQL expression: time from which the age of a test counts. A test is never younger than its arrival, whatever its log says.
pub(crate) const DATED: &str = "min(started_ns, added_ns)";

/// Returns the files in which all tests are dated before `until`.
fn before(db: &Connection, until: i64) -> rusqlite::Result<Vec<SmallFile>> {
    let query = format!(
        "SELECT id, name, bytes FROM files f WHERE NOT EXISTS (SELECT 1 FROM tests WHERE file = f.id AND {DATED} >= ?)"
    );
    db.prepare(&query)?.query_map([until], SmallFile::read)?.collect()
}

/// Returns the start of the day, in UTC, that is `days` days before `now`; ns since 1970.
fn day_before(now: WallTime, days: u32) -> i64 {
    now.0.saturating_sub(i64::from(days).saturating_mul(DAY)).div_euclid(DAY).saturating_mul(DAY)
}

impl Archive {
    /// Merges small files of the same day. A test is never split, and its log can still be exported byte for byte.
    ///
    /// # Errors
    /// [`ArchiveError`]; no packet is lost.
    pub fn compact(&self) -> Result<Compacted, ArchiveError> {
        self.merged().map_err(|e| e.kept("nothing was lost, all tests are still in the archive"))
    }

    /// Merges small files of the days before that of `now`, like [`Archive::compact`], but lets other writers go on after
    /// about 500 files: for an archive to which tests are added all the time, each with a file of its own.
    ///
    /// # Errors
    /// Same as [`Archive::compact`].
    pub fn compact_finished_days(&self, now: WallTime) -> Result<Compacted, ArchiveError> {
        let today = format!("packets/day={}", rollup::day_name(now.0));
        let mut done = Compacted::default();
        let days = self.small_files()?;
        for day in
            days.chunk_by(|a, b| a.folder() == b.folder()).filter(|day| day[0].folder() < today.as_str())
        {
            for part in day.chunks(MAX_FILES_PER_LOCK) {
                let _writing = self.lock()?;
                // Others may have merged or pruned them in the meantime.
                let is_there = |file: &&SmallFile| self.stored(file.id).is_ok();
                let part: Vec<&SmallFile> = part.iter().filter(is_there).collect();
                let kept = "nothing was lost, all tests are still in the archive";
                self.put_together(&part, &mut done).map_err(|e| e.kept(kept))?;
            }
        }
        Ok(done)
    }

    fn merged(&self) -> Result<Compacted, ArchiveError> {
        let _writing = self.lock()?;
        let files = self.small_files()?;
        let mut done = Compacted::default();
        for day in files.chunk_by(|a, b| a.folder() == b.folder()) {
            let mut group: Vec<&SmallFile> = Vec::new();
            for file in day {
                group.push(file);
                if group.iter().map(|f| f.bytes).sum::<u64>() >= MAX_MERGED_FILE_BYTES
                    || group.len() >= MAX_TESTS_PER_FILE
                {
                    self.put_together(&std::mem::take(&mut group), &mut done)?;
                }
            }
            self.put_together(&group, &mut done)?;
        }
        Ok(done)
    }

    /// Returns the files that are merged with others, ordered by day.
    fn small_files(&self) -> Result<Vec<SmallFile>, ArchiveError> {
        let small = || {
            let mut files =
                self.db.prepare("SELECT id, name, bytes FROM files WHERE bytes < ? ORDER BY name")?;
            files
                .query_map([MAX_SMALL_FILE_BYTES as i64], SmallFile::read)?
                .collect::<rusqlite::Result<Vec<SmallFile>>>()
        };
        small().map_err(self.sql("reading"))
    }

    fn put_together(&self, files: &[&SmallFile], done: &mut Compacted) -> Result<(), ArchiveError> {
        // Skip files that cannot be read.
        let whole = |file: &&&SmallFile| self.stored(file.id).and_then(|stored| stored.verify()).is_ok();
        let (files, damaged): (Vec<&&SmallFile>, Vec<&&SmallFile>) = files.iter().partition(|f| whole(f));
        done.damaged += damaged.len() as u64;
        let files: Vec<&SmallFile> = files.into_iter().copied().collect();
        if files.len() < 2 { Ok(()) } else { self.write_merged(&files, done) }
    }

    /// Writes a file again, with the packets of its tests only. A file that cannot be read stays as it is.
    pub(crate) fn write_again(&self, file: &[&SmallFile], done: &mut Compacted) -> Result<(), ArchiveError> {
        let is_whole = |file: &&SmallFile| self.stored(file.id).and_then(|stored| stored.verify()).is_ok();
        if file.iter().all(is_whole) { self.write_merged(file, done) } else { Ok(()) }
    }

    /// Writes the packets of all tests in `files` to one file, which replaces them.
    fn write_merged(&self, files: &[&SmallFile], done: &mut Compacted) -> Result<(), ArchiveError> {
        let (mut moved, mut block) = (Vec::new(), ColumnBlock::default());
        let names: String = files.iter().map(|f| f.name.as_str()).collect();
        let name = format!("{:016x}.parquet", XxHash3_64::oneshot(names.as_bytes()));
        let mut writer = PacketFileWriter::create(&self.root.join("tmp").join(&name))?;
        let mut group = 0u64;
        for file in files {
            let ids = self.ids("SELECT id FROM tests WHERE file = ? ORDER BY started_ns, id", [file.id])?;
            for id in ids.into_iter().map(TestId) {
                let mut rows = self.rows(id)?;
                let (first_row, row_group) = (block.len() as u64, group);
                block.begin(id.0);
                let mut count = 0;
                loop {
                    let batch = rows.next_batch()?;
                    if batch.is_empty() {
                        break;
                    }
                    batch.iter().for_each(|row| block.push(row));
                    count += batch.len() as u64;
                }
                moved.push(self.moved(id, row_group, first_row, count)?);
                if block.len() >= MIN_SHARED_ROWS {
                    writer.write(&[&block])?;
                    block = ColumnBlock::default();
                    group += 1;
                }
            }
        }
        writer.write(&[&block])?;
        let folder = files[0].name.rsplit_once('/').map_or("packets", |(folder, _)| folder);
        let published =
            writer.publish(&self.root, &format!("{folder}/{name}"), &FileTests { tests: moved.clone() })?;
        let entered = self.transaction(|all| {
            let file = add::file(all, &published)?;
            let mut update =
                all.prepare("UPDATE tests SET file = ?, row_group = ?, first_row = ? WHERE id = ?")?;
            for test in &moved {
                update.execute(params![file, test.row_group as i64, test.first_row as i64, test.id])?;
            }
            files.iter().try_for_each(|f| all.execute("DELETE FROM files WHERE id = ?", [f.id]).map(drop))
        });
        if let Err(e) = entered {
            let _ = fs::remove_file(self.root.join(&published.name));
            return Err(e);
        }
        for file in files {
            let path = self.root.join(&file.name);
            fs::remove_file(&path).map_err(ArchiveError::io("removing", &path))?;
            done.bytes_before += file.bytes;
        }
        done.before += files.len() as u64;
        done.after += 1;
        done.bytes_after += published.bytes;
        Ok(())
    }

    /// Returns the description of a test in its new file.
    pub(crate) fn moved(
        &self,
        id: TestId,
        row_group: u64,
        first_row: u64,
        rows: u64,
    ) -> Result<StoredTest, ArchiveError> {
        let run = || {
            let query = "SELECT hash, source FROM tests WHERE id = ?";
            let take = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let (hash, source) = self.db.query_row(query, [id.0], take)?;
            let mut tags =
                self.db.prepare_cached("SELECT key, value FROM tags WHERE test = (SELECT number FROM tests WHERE id = ?) ORDER BY key")?;
            let tags = tags
                .query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok((hash, source, tags))
        };
        let (hash, source, tags) = run().map_err(self.sql("reading"))?;
        let rest = self.rest(id)?;
        Ok(StoredTest { id: id.0, hash, row_group, first_row, rows, source, tags, rest })
    }

    /// Removes data that `keep` does not retain. A number of days is counted back from `now` to the start of a day
    /// (UTC). For a maximum size, packets of the hosts that use most are removed until the rest fits, beginning with the oldest. Roll-ups are retained. Tests that were waiting for a collector are counted as dropped.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn prune(&self, keep: Retention, now: WallTime) -> Result<Pruned, ArchiveError> {
        let _writing = self.lock()?;
        let until = match keep {
            Retention::Packets { days } | Retention::Tests { days } => day_before(now, days),
            Retention::Size { bytes } => return self.prune_to_size(bytes),
        };
        let mut done = Pruned::default();
        let mut failed = None;
        let old = before(&self.db, until).map_err(self.sql("reading"))?;
        self.copy_before_pruning(old.iter().map(|file| file.id), &mut done)?;
        let files = self.transaction(|all| {
            let files = before(all, until)?;
            done.waited = pushes::count_dropped(all, &files.iter().map(|f| f.id).collect::<Vec<_>>())?;
            for file in &files {
                done.packets_of +=
                    all.execute("UPDATE tests SET file = NULL WHERE file = ?", [file.id])? as u64;
                all.execute("DELETE FROM files WHERE id = ?", [file.id])?;
            }
            if let Retention::Tests { .. } = keep {
                let old = format!(
                    "SELECT id, stream, started_ns, pool, hash FROM tests WHERE {DATED} < ? AND file IS NULL"
                );
                let mut old = all.prepare(&old)?;
                let mut rows = old.query([until])?;
                while let Some(row) = rows.next()? {
                    let (id, stream, at, hash): (i64, i64, i64, String) =
                        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
                    let pool: Vec<u8> = row.get(3)?;
                    let hour = at.div_euclid(DAY / 24).saturating_mul(DAY / 24);
                    let query = "SELECT pool FROM kept WHERE (stream, hour_ns) = (?, ?)";
                    let kept: Option<Vec<u8>> =
                        all.query_row(query, params![stream, hour], |r| r.get(0)).optional()?;
                    let both = kept.as_deref().map_or(Ok(Pool::default()), read_pool).and_then(|mut both| {
                        both.merge(&read_pool(&pool)?);
                        Ok(both)
                    });
                    match both {
                        Ok(both) => all.execute(
                            "INSERT OR REPLACE INTO kept(stream, hour_ns, pool) VALUES (?, ?, ?)",
                            params![stream, hour, pack_pool(&both)],
                        )?,
                        Err(e) => {
                            failed = Some(e);
                            return Ok(Vec::new());
                        }
                    };
                    let gone = "INSERT OR IGNORE INTO gone(id, hash, host) \
                                VALUES (?1, ?2, (SELECT value FROM tags WHERE test = (SELECT number FROM tests WHERE id = ?1) AND key = 'collected-from'))";
                    all.execute(gone, params![id, hash])?;
                    let figures = "DELETE FROM figures WHERE test = (SELECT number FROM tests WHERE id = ?)";
                    all.execute(figures, [id])?;
                    all.execute("DELETE FROM tests WHERE id = ?", [id])?;
                    done.tests += 1;
                }
            }
            Ok(files)
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        for file in files {
            self.remove_file(&file.name)?;
            done.files += 1;
            done.bytes += file.bytes;
        }
        self.after_pruning(&mut done);
        Ok(done)
    }

    /// Returns what [`Archive::prune`] would remove now. Sizes are those of the packet files; for a maximum size they are estimated from
    /// the numbers of packets. Changes nothing: the archive may be read-only.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn prunable(&self, keep: Retention, now: WallTime) -> Result<Pruned, ArchiveError> {
        let until = match keep {
            Retention::Packets { days } | Retention::Tests { days } => day_before(now, days),
            Retention::Size { bytes } => return self.prunable_to_size(bytes),
        };
        let run = || {
            // One transaction: other programs may write in the meantime.
            let moment = self.db.unchecked_transaction()?;
            let files = before(&moment, until)?;
            let ids: Vec<i64> = files.iter().map(|file| file.id).collect();
            let waiting = pushes::waiting_in(&moment, &ids)?;
            let mut count = moment.prepare("SELECT count(*) FROM tests WHERE file = ?")?;
            let packets_of = ids.iter().map(|file| count.query_row([file], |row| unsigned(row, 0)));
            let packets_of = packets_of.collect::<rusqlite::Result<Vec<u64>>>()?.iter().sum();
            let tests = match keep {
                Retention::Tests { .. } => {
                    // An old test is retained if its packet file contains a newer test, because files are removed as a whole.
                    let old = format!(
                        "SELECT count(*) FROM tests t WHERE {DATED} < ?1 AND (file IS NULL OR \
                         NOT EXISTS (SELECT 1 FROM tests o WHERE o.file = t.file AND min(o.started_ns, o.added_ns) >= ?1))"
                    );
                    moment.query_row(&old, [until], |row| unsigned(row, 0))?
                }
                _ => 0,
            };
            Ok(Pruned {
                packets_of,
                tests,
                waited: waiting.iter().map(|(.., numbers)| numbers.len() as u64).sum(),
                files: files.len() as u64,
                bytes: files.iter().map(|file| file.bytes).sum(),
                ..Pruned::default()
            })
        };
        run().map_err(self.sql("reading"))
    }

    /// Removes a packet file that is no longer in the catalogue, and the folder of its day if that is now empty.
    pub(crate) fn remove_file(&self, name: &str) -> Result<(), ArchiveError> {
        let path = self.root.join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(ArchiveError::io("removing", &path)(e)),
            _ => {
                let _ = path.parent().map(fs::remove_dir);
                Ok(())
            }
        }
    }

    /// Copies the catalogue if it is about to become the only place of figures of tests in `files`, and the last copy
    /// does not have them. If the disk is full, returns without a copy and sets `is_not_copied`: pruning makes room.
    pub(crate) fn copy_before_pruning(
        &self,
        files: impl IntoIterator<Item = i64>,
        done: &mut Pruned,
    ) -> Result<(), ArchiveError> {
        let newest = || -> rusqlite::Result<Option<i64>> {
            let mut of_file = self.db.prepare_cached("SELECT max(entered) FROM tests WHERE file = ?")?;
            let numbers = files.into_iter().map(|file| of_file.query_row([file], |row| row.get(0)));
            Ok(numbers.collect::<rusqlite::Result<Vec<Option<i64>>>>()?.into_iter().flatten().max())
        };
        match newest().map_err(self.sql("reading"))? {
            Some(newest) if !self.is_copied(newest) => match self.copied() {
                Err(e) if e.is_full() => done.is_not_copied = true,
                copied => copied?,
            },
            _ => {}
        }
        Ok(())
    }

    /// Copies the catalogue if there was no room before packets were pruned, and gives unused pages back.
    pub(crate) fn after_pruning(&self, done: &mut Pruned) {
        if done.is_not_copied && done.files > 0 {
            done.is_not_copied = self.copied().is_err();
        }
        done.catalogue_bytes = self.shrink();
    }

    /// Gives unused pages of the catalogue back if they are a quarter of it or more; returns their size in bytes. Readers
    /// go on in the meantime. If it fails, the pages remain usable for later tests.
    fn shrink(&self) -> u64 {
        let pages = |name: &str| self.db.query_row(&format!("PRAGMA {name}"), [], |row| unsigned(row, 0));
        let sizes = || -> rusqlite::Result<(u64, u64, u64)> {
            Ok((pages("page_count")?, pages("freelist_count")?, pages("page_size")?))
        };
        let Ok((all, free, size)) = sizes() else { return 0 };
        if free < MIN_FREE_PAGES || free * 4 < all {
            return 0;
        }
        self.db.flush_prepared_statement_cache();
        match self.db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)") {
            Ok(()) => pages("page_count").map_or(0, |now| all.saturating_sub(now) * size),
            Err(_) => 0,
        }
    }
}
