//! [`CollectedHost`]: numbers of tests that other hosts have pushed to this archive, per host.

use crate::Archive;
use crate::add::now;
use crate::catalogue::unsigned;
use crate::entry::CatalogueEntry;
use crate::error::ArchiveError;
use rusqlite::{Row, Transaction, params};
use serde::Serialize;

/// Tag with the name of the host that pushed a test.
pub(crate) const TAG: &str = "collected-from";

/// Counts of the tests that a host has pushed to this archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectedHost {
    /// Name of the host, as given by its authenticated key.
    pub host: String,
    /// Total number of tests from this host that were stored here.
    pub stored: u64,
    /// Total number of tests from this host that were refused.
    pub refused: u64,
    /// Time at which the last test was stored, ns since 1970; null before the first.
    pub stored_ns: Option<i64>,
    /// Time of the host's last report of `waiting` and `dropped`, ns since 1970; null without a report.
    pub heard_ns: Option<i64>,
    /// Number of tests that were waiting on the host at the time of its last report.
    pub waiting: u64,
    /// Number of tests that the host had dropped, because they were too old, by the time of its last report.
    pub dropped: u64,
}

const ENSURE: &str =
    "INSERT OR IGNORE INTO collected(host, stored, refused, waiting, dropped) VALUES (?, 0, 0, 0, 0)";

/// Increases the number of tests stored for `host`.
pub(crate) fn count_stored(all: &Transaction<'_>, host: &str, tests: i64) -> rusqlite::Result<()> {
    all.prepare_cached(ENSURE)?.execute([host])?;
    all.prepare_cached("UPDATE collected SET stored = stored + ?, stored_ns = ? WHERE host = ?")?
        .execute(params![tests, now(), host])
        .map(drop)
}

/// Counts pushed tests that were missing from the catalogue after a crash and were added again.
pub(crate) fn count_adopted(all: &Transaction<'_>, entries: &[CatalogueEntry]) -> rusqlite::Result<()> {
    let hosts = entries.iter().flat_map(|entry| entry.tags.iter().filter(|(key, _)| key == TAG));
    hosts.into_iter().try_for_each(|(_, host)| count_stored(all, host, 1))
}

impl Archive {
    /// Returns the counts of each host that has pushed tests to this archive, sorted by name.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn collected(&self) -> Result<Vec<CollectedHost>, ArchiveError> {
        let take = |row: &Row<'_>| {
            Ok(CollectedHost {
                host: row.get(0)?,
                stored: unsigned(row, 1)?,
                refused: unsigned(row, 2)?,
                stored_ns: row.get(3)?,
                heard_ns: row.get(4)?,
                waiting: unsigned(row, 5)?,
                dropped: unsigned(row, 6)?,
            })
        };
        let query = "SELECT host, stored, refused, stored_ns, heard_ns, waiting, dropped FROM collected ORDER BY host";
        let run = || self.db.prepare_cached(query)?.query_map([], take)?.collect();
        let found: rusqlite::Result<Vec<CollectedHost>> = run();
        found.map_err(self.sql("reading"))
    }

    /// Records the report, if any, from `host` about its waiting and dropped tests, and increases the number of its
    /// refused tests.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn record_report(
        &self,
        host: &str,
        report: Option<(u64, u64)>,
        refused: u64,
    ) -> Result<(), ArchiveError> {
        let bounded = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.transaction(|all| {
            all.prepare_cached(ENSURE)?.execute([host])?;
            if let Some((waiting, dropped)) = report {
                let update = "UPDATE collected SET heard_ns = ?, waiting = ?, dropped = ? WHERE host = ?";
                let values = params![now(), bounded(waiting), bounded(dropped), host];
                all.prepare_cached(update)?.execute(values)?;
            }
            let update = "UPDATE collected SET refused = refused + ? WHERE host = ?";
            all.prepare_cached(update)?.execute(params![bounded(refused), host]).map(drop)
        })
    }
}
