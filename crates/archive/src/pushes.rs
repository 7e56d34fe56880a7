//! [`Pushed`]: tests that this archive has pushed to collectors, counted per collector.
//!
//! Tests are numbered in the order in which they were added, from 1 without gaps. This host's own tests are sent to a
//! collector in this order. All tests up to the number `settled` were stored or refused by the collector, or dropped
//! here. If a test is removed before it is settled, the transaction that removes its packets counts it as dropped. The
//! collector may nevertheless have some of the first [`MAX_UNSETTLED`] of these tests: they were sent, but the
//! confirmation did not arrive. These tests are called *doubts*. The collector is asked for them by name, and those
//! that it has count as stored instead of dropped.

use crate::add::now;
use crate::catalogue::unsigned;
use crate::checksum::LogName;
use crate::collected::TAG;
use crate::error::ArchiveError;
use crate::{Archive, TestId};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum number of tests sent to a collector that are not settled yet: neither stored, refused nor dropped.
pub const MAX_UNSETTLED: usize = 256;

/// SQL condition: `t` is a test that was measured by this host, and its packets are still stored.
const WAITS: &str =
    "t.file IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tags WHERE test = t.number AND key = 'collected-from')";

/// Counts of the tests pushed to a collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pushed {
    /// Name of the collector in the monitor's file.
    pub collector: String,
    /// Number of tests that are waiting.
    pub waiting: u64,
    /// Start of the oldest waiting test, ns since 1970; null if no test is waiting.
    pub oldest_ns: Option<i64>,
    /// Total number of tests that the collector has stored.
    pub stored: u64,
    /// Total number of tests that were dropped here because they were too old.
    pub dropped: u64,
    /// Total number of tests that the collector refused, or that could not be read from this archive.
    pub refused: u64,
    /// Reason for the most recent refusal; null if no test was refused.
    pub reason: Option<String>,
    /// Time at which the collector last stored a test, ns since 1970; null before the first.
    pub stored_ns: Option<i64>,
}

/// A test that is waiting to be pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Number of the test, in the order of addition.
    pub number: i64,
    /// Identifier of the test.
    pub test: TestId,
    /// Name of the test's log.
    pub name: LogName,
    /// Size of the test's log, in bytes.
    pub bytes: u64,
}

/// Result of pushing a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushResult {
    /// The collector has stored the test.
    Stored,
    /// The collector refused the test, or the test cannot be read here; contains the reason.
    Refused(String),
    /// The test is no longer in this archive.
    Gone,
}

fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<LogName> {
    let text: String = row.get(column)?;
    let invalid =
        |e| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(e));
    text.parse().map_err(invalid)
}

/// Returns all collectors, each with the number up to which all tests are settled.
fn settled(db: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut all = db.prepare_cached("SELECT collector, settled FROM pushes ORDER BY collector")?;
    all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Records as doubts those tests in `dropped` that the collector may nevertheless have. Must be called while their
/// packets still exist.
fn doubt(
    all: &Transaction<'_>,
    collector: &str,
    settled: i64,
    dropped: &BTreeSet<i64>,
) -> rusqlite::Result<()> {
    let known = "SELECT count(*) FROM push_doubts WHERE collector = ?";
    let known = all.prepare_cached(known)?.query_row([collector], |row| unsigned(row, 0))?;
    let room = MAX_UNSETTLED.saturating_sub(usize::try_from(known).unwrap_or(usize::MAX));
    let query = format!(
        "SELECT t.entered, t.hash FROM tests t WHERE t.entered > ? AND {WAITS} ORDER BY t.entered LIMIT ?"
    );
    let mut first = all.prepare_cached(&query)?;
    let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let first: Vec<_> =
        first.query_map(params![settled, room as i64], pair)?.collect::<rusqlite::Result<_>>()?;
    let mut insert =
        all.prepare_cached("INSERT OR IGNORE INTO push_doubts(collector, number, hash) VALUES (?, ?, ?)")?;
    for (number, hash) in first.into_iter().filter(|(number, _)| dropped.contains(number)) {
        insert.execute(params![collector, number, hash])?;
    }
    Ok(())
}

/// Returns the tests in `files` that wait for a collector: for each collector its name, the number up to which it is settled, and the
/// numbers of these tests. Collectors without such tests are left out.
pub(crate) fn waiting_in(
    db: &Connection,
    files: &[i64],
) -> rusqlite::Result<Vec<(String, i64, BTreeSet<i64>)>> {
    let query = format!("SELECT t.entered FROM tests t WHERE t.file = ? AND t.entered > ? AND {WAITS}");
    let mut all = Vec::new();
    for (collector, settled) in settled(db)? {
        let mut numbers = BTreeSet::new();
        let mut waiting = db.prepare_cached(&query)?;
        for file in files {
            for number in waiting.query_map([*file, settled], |row| row.get(0))? {
                numbers.insert(number?);
            }
        }
        if !numbers.is_empty() {
            all.push((collector, settled, numbers));
        }
    }
    Ok(all)
}

/// Counts the waiting tests in `files` as dropped, before their packets are removed. Returns the total for all
/// collectors.
pub(crate) fn count_dropped(all: &Transaction<'_>, files: &[i64]) -> rusqlite::Result<u64> {
    let mut sum = 0;
    for (collector, settled, dropped) in waiting_in(all, files)? {
        doubt(all, &collector, settled, &dropped)?;
        all.prepare_cached("UPDATE pushes SET dropped = dropped + ? WHERE collector = ?")?
            .execute(params![dropped.len() as i64, collector])?;
        sum += dropped.len() as u64;
    }
    Ok(sum)
}

/// Returns the number of the newest test whose packets, together with the packets of all later tests, exceed `bytes`
/// bytes; `None` if all fit.
fn beyond(db: &Connection, after: i64, bytes: u64) -> rusqlite::Result<Option<i64>> {
    let query = format!(
        "SELECT t.entered, t.packets, f.bytes, (SELECT sum(rows) FROM row_groups WHERE file = f.id) \
         FROM tests t JOIN files f ON f.id = t.file WHERE t.entered > ? AND {WAITS} ORDER BY t.entered DESC"
    );
    let mut newest = db.prepare_cached(&query)?;
    let mut rows = newest.query([after])?;
    let mut sum = 0.0;
    while let Some(row) = rows.next()? {
        let (packets, file) = (unsigned(row, 1)? as f64, unsigned(row, 2)? as f64);
        let all: Option<f64> = row.get(3)?;
        // Share of this test in the size of a file with several tests.
        sum += file * (packets.max(1.0) / all.unwrap_or(1.0).max(1.0)).min(1.0);
        if sum > bytes as f64 {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
}

impl Archive {
    /// Registers `collector` if it is new. Pushing then begins with the newest tests that fit into `spool` bytes.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn begin_push(&self, collector: &str, spool: u64) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            if settled(all)?.iter().any(|(known, _)| known == collector) {
                return Ok(());
            }
            let from = beyond(all, 0, spool)?.unwrap_or(0);
            let insert =
                "INSERT INTO pushes(collector, settled, stored, dropped, refused) VALUES (?, ?, 0, 0, 0)";
            all.execute(insert, params![collector, from]).map(drop)
        })
    }

    /// Removes collectors that are not in `names`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn keep_pushes(&self, names: &[&str]) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            for (collector, _) in
                settled(all)?.into_iter().filter(|(known, _)| !names.contains(&known.as_str()))
            {
                all.execute("DELETE FROM pushes WHERE collector = ?", [collector])?;
            }
            Ok(())
        })
    }

    /// If the tests that are waiting for `collector` exceed `spool` bytes, removes the oldest ones from its queue, and
    /// returns their number. The tests themselves stay in the archive.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn bound_push(&self, collector: &str, spool: u64) -> Result<u64, ArchiveError> {
        self.transaction(|all| {
            let query = "SELECT settled FROM pushes WHERE collector = ?";
            let settled: Option<i64> = all.query_row(query, [collector], |row| row.get(0)).optional()?;
            let Some(settled) = settled else { return Ok(0) };
            let Some(last) = beyond(all, settled, spool)? else { return Ok(0) };
            let query =
                format!("SELECT t.entered FROM tests t WHERE t.entered > ? AND t.entered <= ? AND {WAITS}");
            let mut waiting = all.prepare_cached(&query)?;
            let dropped: BTreeSet<i64> =
                waiting.query_map([settled, last], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            doubt(all, collector, settled, &dropped)?;
            let update = "UPDATE pushes SET settled = ?, dropped = dropped + ? WHERE collector = ?";
            all.execute(update, params![last, dropped.len() as i64, collector])?;
            Ok(dropped.len() as u64)
        })
    }

    /// Returns the counts of each collector, sorted by name.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn pushes(&self) -> Result<Vec<Pushed>, ArchiveError> {
        if self.is_united() {
            return self.all_of(Archive::pushes);
        }
        let waiting =
            format!("SELECT count(*), min(t.started_ns) FROM tests t WHERE t.entered > ? AND {WAITS}");
        let run = || {
            let query = "SELECT collector, settled, stored, dropped, refused, reason, stored_ns FROM pushes ORDER BY collector";
            let mut pushes = self.db.prepare_cached(query)?;
            let mut waiting = self.db.prepare_cached(&waiting)?;
            let mut rows = pushes.query([])?;
            let mut list = Vec::new();
            while let Some(row) = rows.next()? {
                let count = |row: &Row<'_>| Ok((unsigned(row, 0)?, row.get(1)?));
                let (waiting, oldest_ns) = waiting.query_row([row.get::<_, i64>(1)?], count)?;
                list.push(Pushed {
                    collector: row.get(0)?,
                    waiting,
                    oldest_ns,
                    stored: unsigned(row, 2)?,
                    dropped: unsigned(row, 3)?,
                    refused: unsigned(row, 4)?,
                    reason: row.get(5)?,
                    stored_ns: row.get(6)?,
                });
            }
            Ok(list)
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns at most `most` tests that are waiting for `collector`, in order, starting after the number `after` and
    /// after all settled tests.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn to_push(&self, collector: &str, after: i64, most: usize) -> Result<Vec<Outgoing>, ArchiveError> {
        let query = format!(
            "SELECT t.entered, t.id, t.hash, t.log_bytes FROM tests t WHERE t.entered > \
             max(?, (SELECT settled FROM pushes WHERE collector = ?)) AND {WAITS} ORDER BY t.entered LIMIT ?"
        );
        let take = |row: &Row<'_>| {
            Ok(Outgoing {
                number: row.get(0)?,
                test: TestId(row.get(1)?),
                name: name(row, 2)?,
                bytes: unsigned(row, 3)?,
            })
        };
        let run = || {
            let mut tests = self.db.prepare_cached(&query)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            tests.query_map(params![after, collector, most], take)?.collect()
        };
        let found: rusqlite::Result<Vec<Outgoing>> = run();
        found.map_err(self.sql("reading"))
    }

    /// Returns the numbers and names of dropped tests that `collector` may nevertheless have.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn push_doubts(&self, collector: &str) -> Result<Vec<(i64, LogName)>, ArchiveError> {
        let run = || {
            let query = "SELECT number, hash FROM push_doubts WHERE collector = ? ORDER BY number";
            let mut doubts = self.db.prepare_cached(query)?;
            doubts.query_map([collector], |row| Ok((row.get(0)?, name(row, 1)?)))?.collect()
        };
        let found: rusqlite::Result<Vec<(i64, LogName)>> = run();
        found.map_err(self.sql("reading"))
    }

    /// Records the results of pushed tests, by number, in one transaction. Afterwards, all tests up to the number
    /// `settled` are settled.
    ///
    /// # Errors
    /// [`ArchiveError`]; nothing is then recorded.
    pub fn settle_push(
        &self,
        collector: &str,
        settled: i64,
        tests: &[(i64, PushResult)],
    ) -> Result<(), ArchiveError> {
        self.transaction(|all| {
            let (mut stored, mut dropped, mut refused, mut why) = (0i64, 0i64, 0i64, None);
            let mut forget = all.prepare_cached("DELETE FROM push_doubts WHERE collector = ? AND number = ?")?;
            for (number, what) in tests {
                let doubted = forget.execute(params![collector, number])? > 0;
                match what {
                    PushResult::Stored => {
                        stored += 1;
                        dropped -= i64::from(doubted);
                    }
                    // The test was already counted when it was dropped.
                    PushResult::Gone | PushResult::Refused(_) if doubted => {}
                    PushResult::Refused(reason) => {
                        refused += 1;
                        why = Some(reason.as_str());
                    }
                    PushResult::Gone => {
                        refused += 1;
                        why = Some("it is no longer in this host's archive");
                    }
                }
            }
            let update = "UPDATE pushes SET settled = max(settled, ?), stored = stored + ?, dropped = max(0, dropped + ?), \
                          refused = refused + ?, reason = coalesce(?, reason), \
                          stored_ns = CASE WHEN ? > 0 THEN ? ELSE stored_ns END WHERE collector = ?";
            let values = params![settled, stored, dropped, refused, why, stored, now(), collector];
            all.prepare_cached(update)?.execute(values).map(drop)
        })
    }
}

const _: () = assert!(TAG.len() == "collected-from".len());
