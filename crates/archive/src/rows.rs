//! Access to tests by number: their logs, their records, and their compressed values in the catalogue.

use crate::catalogue::unsigned;
use crate::error::ArchiveError;
use crate::model::{StreamModel, session_of};
use crate::packets::{Piece, StoredFile, StoredTest, TestRows};
use crate::parts::TestHeader;
use crate::text::{self, OtherLines};
use crate::{Archive, TestId};
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::{LogReader, LogRow};
use rusqlite::{OptionalExtension, Row as SqlRow};
use std::io::{self, Read};
use std::path::{Component, Path};

/// Maximum number of packets that [`StoredPackets::next`] passes on at a time.
const PACKETS_PER_BATCH: usize = 512;

/// Maximum number of times that a test is looked up again because its file was replaced in the meantime.
const MAX_LOOKUPS: usize = 3;

/// Reads a checksum that is stored as text.
fn sum(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<u128> {
    let text: String = row.get(column)?;
    let invalid =
        |e| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(e));
    u128::from_str_radix(&text, 16).map_err(invalid)
}

/// Location of the packets of a test.
pub(crate) struct PacketLocation {
    pub file: Option<i64>,
    pub row_group: u64,
    pub first_row: u64,
    pub rows: u64,
}

/// Packets of a test, in order of arrival.
pub struct StoredPackets {
    pub(crate) rows: TestRows,
}

impl StoredPackets {
    /// Returns the next rows of the log, several thousand at a time; empty after the last.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`].
    pub fn rows(&mut self) -> Result<&[LogRow], ArchiveError> {
        self.rows.next_batch()
    }

    /// Passes the next several thousand packets to `push`, in batches. Returns `false` after the last packet.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`].
    pub fn next(&mut self, mut push: impl FnMut(&[PacketRecord])) -> Result<bool, ArchiveError> {
        let batch = self.rows.next_batch()?;
        let mut records = Vec::with_capacity(PACKETS_PER_BATCH);
        for rows in batch.chunks(PACKETS_PER_BATCH) {
            records.clear();
            records.extend(rows.iter().map(|row| row.record));
            push(&records);
        }
        Ok(!batch.is_empty())
    }
}

impl Archive {
    /// Finds the test whose number begins with the hexadecimal digits `text`, or whose name is `text`.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTest`], [`ArchiveError::Ambiguous`].
    pub fn find(&self, text: &str) -> Result<TestId, ArchiveError> {
        if self.is_united() {
            return self.united_find(text);
        }
        let none = || ArchiveError::NoSuchTest { archive: self.root.clone(), id: text.to_owned() };
        let digits = text.len() <= 16 && text.len() >= 4 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let found: Vec<i64> = if digits {
            let padded =
                |with: &str| i64::from_str_radix(&format!("{text}{}", with.repeat(16 - text.len())), 16);
            let (from, to) = (padded("0").map_err(|_| none())?, padded("f").unwrap_or(i64::MAX));
            self.ids("SELECT id FROM tests WHERE id BETWEEN ? AND ? LIMIT 1000", [from, to])?
        } else {
            self.ids("SELECT id FROM tests WHERE name = ? LIMIT 1000", [text])?
        };
        match found[..] {
            [] => Err(none()),
            [id] => Ok(TestId(id)),
            _ => Err(ArchiveError::Ambiguous { id: text.to_owned(), count: found.len() }),
        }
    }

    pub(crate) fn ids(&self, query: &str, with: impl rusqlite::Params) -> Result<Vec<i64>, ArchiveError> {
        let run = || self.db.prepare_cached(query)?.query_map(with, |row| row.get(0))?.collect();
        let found: rusqlite::Result<Vec<i64>> = run();
        found.map_err(self.sql("reading"))
    }

    pub(crate) fn location(&self, id: TestId) -> Result<PacketLocation, ArchiveError> {
        let query = "SELECT file, row_group, first_row, packets FROM tests WHERE id = ?";
        let take = |row: &SqlRow<'_>| {
            Ok(PacketLocation {
                file: row.get(0)?,
                row_group: unsigned(row, 1)?,
                first_row: unsigned(row, 2)?,
                rows: unsigned(row, 3)?,
            })
        };
        let mut found = self.db.prepare_cached(query).map_err(self.sql("reading"))?;
        let location = found.query_row([id.0], take).optional().map_err(self.sql("reading"))?;
        location.ok_or_else(|| ArchiveError::NoSuchTest { archive: self.root.clone(), id: id.to_string() })
    }

    /// Returns a packet file, and the catalogue's facts about it.
    pub(crate) fn stored(&self, file: i64) -> Result<StoredFile, ArchiveError> {
        let run = || {
            let query = "SELECT name, footer_start, footer_bytes, footer_sum FROM files WHERE id = ?";
            let (name, footer) = self.db.query_row(query, [file], |row| {
                let name: String = row.get(0)?;
                Ok((
                    name,
                    Piece { start: unsigned(row, 1)?, bytes: unsigned(row, 2)?, rows: 0, sum: sum(row, 3)? },
                ))
            })?;
            let query = "SELECT start, bytes, rows, sum FROM row_groups WHERE file = ? ORDER BY number";
            let mut groups = self.db.prepare_cached(query)?;
            let piece = |row: &SqlRow<'_>| {
                Ok(Piece {
                    start: unsigned(row, 0)?,
                    bytes: unsigned(row, 1)?,
                    rows: unsigned(row, 2)?,
                    sum: sum(row, 3)?,
                })
            };
            let row_groups = groups.query_map([file], piece)?.collect::<rusqlite::Result<_>>()?;
            Ok((name, StoredFile { path: Default::default(), row_groups, footer }))
        };
        let (name, stored) = run().map_err(self.sql("reading"))?;
        // An archive may come from an untrusted source: it must not refer to files outside its folder.
        let inside = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || !name.starts_with("packets/") {
            return Err(ArchiveError::Impossible(format!("it refers to a file outside the archive: {name}")));
        }
        Ok(StoredFile { path: self.root.join(name), ..stored })
    }

    pub(crate) fn rows(&self, id: TestId) -> Result<TestRows, ArchiveError> {
        if self.is_united() {
            return self.home(id)?.rows(id);
        }
        let mut tries = 0;
        loop {
            let location = self.location(id)?;
            let stored = self.stored(location.file.ok_or(ArchiveError::Pruned(id))?)?;
            match stored.rows(id.0, location.row_group, location.first_row, location.rows) {
                // The packets were moved to another file after the lookup.
                Err(ArchiveError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries < MAX_LOOKUPS =>
                {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    pub(crate) fn rest(&self, id: TestId) -> Result<OtherLines, ArchiveError> {
        if self.is_united() {
            return self.home(id)?.rest(id);
        }
        let query = "SELECT t.rest, s.model FROM tests t JOIN streams s ON s.id = t.stream WHERE t.id = ?";
        let (bytes, model) = self.with_model(query, id)?;
        StreamModel::rest(&bytes, &model, &format!("the header of test {id}"))
    }

    /// Returns a reader of a test's log, which is equivalent to a reader of the log's file. `name` is used in error
    /// messages.
    ///
    /// # Errors
    /// [`ArchiveError`]; damage found later is an error of the reader.
    pub fn reader(&self, id: TestId, name: &str) -> Result<LogReader, ArchiveError> {
        text::reader(name, self.rows(id)?, self.rest(id)?)
    }

    /// Returns the log of a test, byte for byte.
    ///
    /// # Errors
    /// Same as [`Archive::reader`].
    pub fn log(&self, id: TestId) -> Result<Box<dyn Read + Send>, ArchiveError> {
        text::text(self.rows(id)?, self.rest(id)?)
    }

    /// Returns the packets of a test without the rest of its log. This is the fastest way to analyse many tests.
    ///
    /// # Errors
    /// Same as [`Archive::reader`].
    pub fn packets(&self, id: TestId) -> Result<StoredPackets, ArchiveError> {
        Ok(StoredPackets { rows: self.rows(id)? })
    }

    /// Returns all data of a test except its packets, which [`Archive::packets`] returns.
    ///
    /// # Errors
    /// Same as [`Archive::reader`].
    pub fn header(&self, id: TestId) -> Result<TestHeader, ArchiveError> {
        if self.is_united() {
            return self.home(id)?.header(id);
        }
        let location = self.location(id)?;
        let query = "SELECT hash, source FROM tests WHERE id = ?";
        let known = self.db.query_row(query, [id.0], |row| Ok((row.get(0)?, row.get(1)?)));
        let (hash, source) = known.map_err(self.sql("reading"))?;
        let mut tags = self.db.prepare_cached(
            "SELECT key, value FROM tags WHERE test = (SELECT number FROM tests WHERE id = ?) ORDER BY key",
        );
        let tags = tags.as_mut().map_err(|e| ArchiveError::Impossible(e.to_string()))?;
        let found = tags.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect);
        let tags: Vec<(String, String)> = found.map_err(self.sql("reading"))?;
        Ok(TestHeader::new(StoredTest {
            id: id.0,
            hash,
            row_group: location.row_group,
            first_row: location.first_row,
            rows: location.rows,
            source,
            tags,
            rest: self.rest(id)?,
        }))
    }

    /// Returns the session of a test: everything known about it except its packets.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn session(&self, id: TestId) -> Result<Session, ArchiveError> {
        if self.is_united() {
            return self.home(id)?.session(id);
        }
        let query = "SELECT t.session, s.model FROM tests t JOIN streams s ON s.id = t.stream WHERE t.id = ?";
        let (bytes, model) = self.with_model(query, id)?;
        if bytes.is_empty() {
            let none = || ArchiveError::Impossible(format!("the session of test {id} cannot be read"));
            return session_of(&self.rest(id)?).ok_or_else(none);
        }
        StreamModel::session(&bytes, &model, &format!("the session of test {id}"))
    }

    /// Returns a compressed value of a test, and the model of its stream.
    fn with_model(&self, query: &str, id: TestId) -> Result<(Vec<u8>, Vec<u8>), ArchiveError> {
        let run = || {
            let mut found = self.db.prepare_cached(query)?;
            found.query_row([id.0], |row| {
                Ok((row.get(0)?, row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default()))
            })
        };
        run().map_err(self.sql("reading"))
    }
}
