//! [`CollectedHost`]: numbers of tests that other hosts have pushed to this archive, per host.

use crate::Archive;
use crate::add::now;
use crate::catalogue::unsigned;
use crate::entry::CatalogueEntry;
use crate::error::ArchiveError;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::Serialize;

/// Tag with the name of the host that pushed a test.
pub(crate) const TAG: &str = "collected-from";
/// Tags with the names of the hosts at the source and at the destination of a pushed test.
const END_TAGS: [&str; 2] = ["collected-src", "collected-dst"];
/// Prefix of tags that only the collector sets.
const RESERVED: &str = "collected-";

/// Known hosts at the ends of a test that another host pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedEnds {
    /// Name of the host that has the source address; `None` if the address is not known to be that of a host.
    pub src: Option<String>,
    /// Name of the host that has the destination address; `None` likewise.
    pub dst: Option<String>,
}

impl CollectedEnds {
    /// Removes reserved tags, which a log cannot claim, and adds those of a test that `host` pushed with these ends.
    pub(crate) fn tag(&self, host: &str, tags: &mut Vec<(String, String)>) {
        tags.retain(|(key, _)| !key.starts_with(RESERVED));
        tags.push((TAG.to_owned(), host.to_owned()));
        let ends = END_TAGS.into_iter().zip([&self.src, &self.dst]);
        tags.extend(ends.filter_map(|(key, name)| Some((key.to_owned(), name.clone()?))));
    }
}

/// Returns the host that pushed a test with these tags; `None` if it was measured or added here.
pub(crate) fn pusher(tags: &[(String, String)]) -> Option<&str> {
    tags.iter().find(|(key, _)| key == TAG).map(|(_, host)| host.as_str())
}

/// Host that pushed a test, and the known hosts at its ends.
pub(crate) struct CollectedOrigin<'a> {
    from: &'a str,
    pub src: Option<&'a str>,
    pub dst: Option<&'a str>,
}

impl<'a> CollectedOrigin<'a> {
    /// Reads the tags of a test; `None` if this host measured it.
    pub fn of(tags: &'a [(String, String)]) -> Option<CollectedOrigin<'a>> {
        let of = |wanted: &str| tags.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        Some(CollectedOrigin { from: of(TAG)?, src: of(END_TAGS[0]), dst: of(END_TAGS[1]) })
    }

    /// Returns the address under which this archive stores an end, and the name that the end gets. `host` is the known
    /// host at this end. Without one, the address means something only in the network of the host that pushed the test:
    /// it is stored separately as ADDRESS@HOST. Names in logs are ignored, and a pushing host names only itself.
    pub fn end(&self, address: &str, host: Option<&'a str>) -> (String, Option<&'a str>) {
        match host {
            Some(host) => (address.to_owned(), (host == self.from).then_some(host)),
            None => (format!("{address}@{}", self.from), None),
        }
    }
}

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
    /// Total number of times that a test from this host exceeded a quota.
    pub over_quota: u64,
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
        if self.is_united() {
            return self.united_collected();
        }
        let take = |row: &Row<'_>| {
            Ok(CollectedHost {
                host: row.get(0)?,
                stored: unsigned(row, 1)?,
                refused: unsigned(row, 2)?,
                stored_ns: row.get(3)?,
                heard_ns: row.get(4)?,
                waiting: unsigned(row, 5)?,
                dropped: unsigned(row, 6)?,
                over_quota: unsigned(row, 7)?,
            })
        };
        let query = "SELECT host, stored, refused, stored_ns, heard_ns, waiting, dropped, over_quota FROM collected ORDER BY host";
        let run = || self.db.prepare_cached(query)?.query_map([], take)?.collect();
        let found: rusqlite::Result<Vec<CollectedHost>> = run();
        found.map_err(self.sql("reading"))
    }

    /// Records the report of `host`, if there is one, about its waiting and dropped tests, and adds `refused` and
    /// `over_quota` to its counts.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn record_report(
        &self,
        host: &str,
        report: Option<(u64, u64)>,
        refused: u64,
        over_quota: u64,
    ) -> Result<(), ArchiveError> {
        let bounded = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.transaction(|all| {
            all.prepare_cached(ENSURE)?.execute([host])?;
            if let Some((waiting, dropped)) = report {
                let update = "UPDATE collected SET heard_ns = ?, waiting = ?, dropped = ? WHERE host = ?";
                let values = params![now(), bounded(waiting), bounded(dropped), host];
                all.prepare_cached(update)?.execute(values)?;
            }
            let update =
                "UPDATE collected SET refused = refused + ?, over_quota = over_quota + ? WHERE host = ?";
            all.prepare_cached(update)?
                .execute(params![bounded(refused), bounded(over_quota), host])
                .map(drop)
        })
    }

    /// Returns two total lengths of logs from `host`, in bytes: of those whose packets this archive stores, and of
    /// those that arrived since `since_ns`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn collected_bytes(&self, host: &str, since_ns: i64) -> Result<(u64, u64), ArchiveError> {
        let query = "SELECT coalesce(sum(CASE WHEN t.file IS NULL THEN 0 ELSE t.log_bytes END), 0), \
                     coalesce(sum(CASE WHEN t.added_ns >= ? THEN t.log_bytes ELSE 0 END), 0) \
                     FROM tags g JOIN tests t ON t.number = g.test WHERE g.key = 'collected-from' AND g.value = ?";
        let read = |row: &Row<'_>| Ok((unsigned(row, 0)?, unsigned(row, 1)?));
        let found =
            self.db.prepare_cached(query).and_then(|mut all| all.query_row(params![since_ns, host], read));
        found.map_err(self.sql("reading"))
    }

    /// Returns the time at which the newest test arrived, ns since 1970; `None` if the archive is empty.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn last_arrival(&self) -> Result<Option<i64>, ArchiveError> {
        if self.is_united() {
            let newest = self.all_of(|member| Ok(member.last_arrival()?.into_iter().collect()))?;
            return Ok(newest.into_iter().max());
        }
        let query = "SELECT added_ns FROM tests WHERE entered > 0 ORDER BY entered DESC LIMIT 1";
        self.db.query_row(query, [], |row| row.get(0)).optional().map_err(self.sql("reading"))
    }

    /// Returns the address and the name of each host in this archive; `None` if no name is known.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn hosts(&self) -> Result<Vec<(String, Option<String>)>, ArchiveError> {
        if self.is_united() {
            let all = self.united_map(|member| Ok(member.hosts()?.into_iter().collect()))?;
            return Ok(all.into_iter().collect());
        }
        let run = || {
            let mut all = self.db.prepare_cached("SELECT address, name FROM hosts ORDER BY address")?;
            all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let found: rusqlite::Result<Vec<(String, Option<String>)>> = run();
        found.map_err(self.sql("reading"))
    }
}
