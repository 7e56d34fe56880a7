//! [`Archive::add`]: adds a log to the archive.

use crate::batch::PreparedTest;
use crate::checksum::{LogName, LogNames, sum_of_file};
use crate::collected::CollectedOrigin;
use crate::entry::{CatalogueEntry, LogOrigin};
use crate::error::ArchiveError;
use crate::model::{ModelPacker, StreamModel};
use crate::packets::{Piece, PublishedFile, StoredFile};
use crate::{Archive, PooledStream, TestId, alerts, rollup, sums, totals};
use jitlat_core::Direction;
use jitlat_core::scalars::{ExactNumber, selectors};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params, params_from_iter};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Result of adding a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The log was added.
    New(TestId),
    /// The archive already had this log.
    Known(TestId),
}

/// Number of the test of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// The archive has the log already, as this test.
    Known(TestId),
    /// The log is new: its test gets this number.
    Free(i64),
}

/// Name and origin of a test in the archive.
#[derive(Clone, Debug)]
pub(crate) struct StoredAs {
    pub hash: String,
    /// Host that pushed the test; `None` for a test of this host.
    pub pusher: Option<String>,
}

impl StoredAs {
    /// True if `pusher` need not push this test: it pushed the test before, or the test is one of this host.
    fn counts_for(&self, pusher: Option<&str>) -> bool {
        self.pusher.is_none() || self.pusher.as_deref() == pusher
    }
}

/// Tests that are being added, by number.
pub(crate) type Batch = BTreeMap<i64, StoredAs>;

impl Archive {
    /// Adds the log at `path` to the archive, with `tags` in addition to the log's own. A log that the archive already
    /// has is not added again.
    ///
    /// # Errors
    /// [`ArchiveError`]; the archive is then unchanged.
    pub fn add(&self, path: &Path, tags: &[(String, String)]) -> Result<AddOutcome, ArchiveError> {
        let nothing = || Err(ArchiveError::Impossible("nothing was added".to_owned()));
        self.add_files(&[path], tags).pop().unwrap_or_else(nothing)
    }

    /// Adds the logs at `paths` like [`Archive::add`], in one transaction, which is faster than one transaction per
    /// log. All logs except long ones are in memory at the same time. If the transaction fails, the logs are added one
    /// by one. Returns one result per path, in the same order.
    pub fn add_files(
        &self,
        paths: &[&Path],
        tags: &[(String, String)],
    ) -> Vec<Result<AddOutcome, ArchiveError>> {
        let (mut places, mut tests) = (Vec::new(), Vec::new());
        let mut results: Vec<Result<AddOutcome, ArchiveError>> = Vec::with_capacity(paths.len());
        for (place, path) in paths.iter().enumerate() {
            results.push(match self.prepared(path, tags) {
                Ok(Err(known)) => Ok(AddOutcome::Known(known)),
                // A long test is added alone, because it would hold the write lock for long, or take much memory.
                Ok(Ok(test)) if test.is_long() => self.add_one(test),
                Ok(Ok(test)) => {
                    let id = test.id();
                    places.push(place);
                    tests.push(test);
                    Ok(AddOutcome::New(id))
                }
                Err(e) => Err(e.kept("this test was not added")),
            });
        }
        let added = match self.add_all(&mut tests) {
            Ok(added) => added,
            Err(e) if tests.len() == 1 => vec![Err(e)],
            Err(_) => tests.into_iter().map(|test| self.add_one(test)).collect(),
        };
        for (place, result) in places.into_iter().zip(added) {
            results[place] = result;
        }
        results
    }

    fn add_one(&self, test: PreparedTest) -> Result<AddOutcome, ArchiveError> {
        let nothing = || Err(ArchiveError::Impossible("nothing was added".to_owned()));
        self.add_all(&mut [test])?.pop().unwrap_or_else(nothing)
    }

    /// Reads and analyses the log at `path`; if the archive has the log already, returns only the number of its test.
    fn prepared(
        &self,
        path: &Path,
        tags: &[(String, String)],
    ) -> Result<Result<PreparedTest, TestId>, ArchiveError> {
        let source = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !path.is_file() {
            return Err(match std::fs::metadata(path) {
                Ok(_) => {
                    let problem = "not a regular file (a log is read twice)";
                    ArchiveError::Unsuitable { path: path.to_owned(), problem }
                }
                Err(e) => ArchiveError::io("opening the log", path)(e),
            });
        }
        let (names, bytes) = sum_of_file(path)?;
        let id = match self.numbered(&names, None, &Batch::new())? {
            Numbered::Known(known) => return Ok(Err(known)),
            Numbered::Free(id) => id,
        };
        PreparedTest::of_file(self, path, &LogOrigin { names, bytes, source: &source, tags }, id).map(Ok)
    }

    /// Returns the number of the test of a log from `pusher`: the number that the test has, even if it has since been
    /// removed, or the number that a new test gets. `pusher` is `None` for a test of this host. `batch` contains the
    /// tests that are added in the same transaction.
    pub(crate) fn numbered(
        &self,
        names: &LogNames,
        pusher: Option<&str>,
        batch: &Batch,
    ) -> Result<Numbered, ArchiveError> {
        for id in self.renamed(names.name)?.into_iter().chain([names.earlier.number()]) {
            if self.stored_as(id)?.is_some_and(|stored| names.are(&stored.hash) && stored.counts_for(pusher))
            {
                return Ok(Numbered::Known(TestId(id)));
            }
        }
        let [first, here, own] = names.name.numbers(pusher);
        let mut free = None;
        for id in [first, here, own] {
            let stored = match batch.get(&id) {
                Some(stored) => Some(stored.clone()),
                None => self.stored_as(id)?,
            };
            match stored {
                None if id != here || here == own => free = free.or(Some(id)),
                Some(stored) if names.are(&stored.hash) && stored.counts_for(pusher) => {
                    return Ok(Numbered::Known(TestId(id)));
                }
                // Another host pushed the same log.
                _ => {}
            }
        }
        if let Some(id) = free {
            return Ok(Numbered::Free(id));
        }
        Err(ArchiveError::Impossible(format!("another log has the number {}", TestId(own))))
    }

    /// Returns true if this archive contains, or once contained, the log with this name as a test of `pusher` or of
    /// this host. Tests of other hosts do not count: another host may have pushed a log that is not its own.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn has(&self, name: LogName, pusher: Option<&str>) -> Result<bool, ArchiveError> {
        let text = name.to_string();
        if let Some(id) = self.renamed(name)?
            && self.stored_as(id)?.is_some_and(|stored| stored.counts_for(pusher))
        {
            return Ok(true);
        }
        for id in name.numbers(pusher) {
            if self.stored_as(id)?.is_some_and(|stored| stored.hash == text && stored.counts_for(pusher)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the number of a test that an earlier version stored and [`Archive::rename`] has renamed, and whose log
    /// has this name, the new one or the earlier one; `None` if there is none.
    fn renamed(&self, name: LogName) -> Result<Option<i64>, ArchiveError> {
        let query = "SELECT id FROM renamed WHERE hash = ?1 OR earlier = ?1";
        let found = self
            .db
            .prepare_cached(query)
            .and_then(|mut all| all.query_row([name.to_string()], |row| row.get(0)).optional());
        found.map_err(self.sql("reading"))
    }

    /// Returns the test with this number, even if it has since been removed.
    fn stored_as(&self, id: i64) -> Result<Option<StoredAs>, ArchiveError> {
        let query = "SELECT hash, (SELECT value FROM tags WHERE test = number AND key = 'collected-from') FROM tests \
                     WHERE id = ?1 UNION ALL SELECT hash, host FROM gone WHERE id = ?1";
        let take = |row: &rusqlite::Row<'_>| Ok(StoredAs { hash: row.get(0)?, pusher: row.get(1)? });
        let found = self.db.prepare_cached(query).and_then(|mut all| all.query_row([id], take).optional());
        found.map_err(self.sql("reading"))
    }

    /// Runs `change` in one transaction. Everything that changes the catalogue, except its schema, goes through here, so that
    /// its checksums remain up to date.
    pub(crate) fn transaction<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ArchiveError> {
        let run = || {
            sums::guard(&self.db)?;
            let all = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?;
            let result = change(&all)?;
            all.commit()?;
            Ok(result)
        };
        run().map_err(self.sql("writing"))
    }
}

/// Adds a packet file to the catalogue and returns its number.
pub(crate) fn file(all: &Transaction<'_>, published: &PublishedFile) -> rusqlite::Result<i64> {
    let PublishedFile { name, bytes, row_groups, footer } = published;
    all.execute(
        "INSERT INTO files(name, bytes, footer_start, footer_bytes, footer_sum) VALUES (?, ?, ?, ?, ?)",
        params![
            name,
            *bytes as i64,
            footer.start as i64,
            footer.bytes as i64,
            format!("{:032x}", footer.sum)
        ],
    )?;
    let file = all.last_insert_rowid();
    let mut insert = all
        .prepare("INSERT INTO row_groups(file, number, start, bytes, rows, sum) VALUES (?, ?, ?, ?, ?, ?)")?;
    for (number, Piece { start, bytes, rows, sum }) in (0i64..).zip(row_groups) {
        insert.execute(params![
            file,
            number,
            *start as i64,
            *bytes as i64,
            *rows as i64,
            format!("{sum:032x}")
        ])?;
    }
    Ok(file)
}

/// Returns the facts about a stored file that are recorded in the catalogue.
pub(crate) fn published(name: &str, bytes: u64, stored: &StoredFile) -> PublishedFile {
    PublishedFile {
        name: name.to_owned(),
        bytes,
        row_groups: stored.row_groups.clone(),
        footer: stored.footer,
    }
}

fn host(all: &Transaction<'_>, address: &str, name: Option<&str>) -> rusqlite::Result<i64> {
    let insert = "INSERT INTO hosts(address, name) VALUES (?1, ?2) ON CONFLICT(address) DO UPDATE SET name = coalesce(?2, name) \
                  RETURNING id";
    all.prepare_cached(insert)?.query_row(params![address, name], |row| row.get(0))
}

/// Returns the number of the stream to which a test belongs. A new stream is added to the catalogue.
fn stream(all: &Transaction<'_>, entry: &CatalogueEntry) -> rusqlite::Result<i64> {
    let session = &entry.session;
    let PooledStream { src, dst, protocol, direction, payload_bytes, period_ns, dscp } =
        PooledStream::of(session);
    let down = session.two_way.is_none() && session.spec.direction() == Direction::Down;
    let (client, server) = (session.client.name.as_deref(), session.server.name.as_deref());
    let (sender, receiver) = if down { (server, client) } else { (client, server) };
    let (src, dst) = match CollectedOrigin::of(&entry.tags) {
        None => (host(all, &src, sender)?, host(all, &dst, receiver)?),
        Some(origin) => {
            let end = |address: &str, end| {
                let (address, name) = origin.end(address, end);
                host(all, &address, name)
            };
            (end(&src, origin.src)?, end(&dst, origin.dst)?)
        }
    };
    let (payload, period) = (payload_bytes.unwrap_or(-1), period_ns.unwrap_or(-1));
    let kind = params![src, dst, protocol, direction, payload, period, dscp];
    let insert = "INSERT OR IGNORE INTO streams(src, dst, protocol, direction, payload, period_ns, dscp) \
                  VALUES (?, ?, ?, ?, ?, ?, ?)";
    all.prepare_cached(insert)?.execute(kind)?;
    let query = "SELECT id FROM streams WHERE (src, dst, protocol, direction, payload, period_ns, dscp) = (?, ?, ?, ?, ?, ?, ?)";
    all.prepare_cached(query)?.query_row(kind, |row| row.get(0))
}

/// Adds tests to the catalogue, each with the number of the file that contains its packets.
pub(crate) fn enter_all(all: &Transaction<'_>, entries: &[(&CatalogueEntry, i64)]) -> rusqlite::Result<()> {
    let mut hours: BTreeMap<(i64, i64), Vec<&(&CatalogueEntry, i64)>> = BTreeMap::new();
    for test in entries {
        let hour = (stream(all, test.0)?, rollup::hour(test.0.started_ns));
        hours.entry(hour).or_default().push(test);
    }
    // Tests are added hour by hour. The tests of an hour are thus in its roll-up before longer periods are pooled from
    // it.
    for ((stream, hour), tests) in hours {
        if let Some((first, _)) = tests.first() {
            first.packed.own.store(all, stream)?;
        }
        let mut packer = StreamModel::read(all, stream)?.packer();
        tests.iter().try_for_each(|(entry, file)| enter(all, (stream, &mut packer), entry, *file))?;
        let mut pool = Cow::Borrowed(&tests[0].0.pool);
        tests[1..].iter().for_each(|(entry, _)| pool.to_mut().merge(&entry.pool));
        rollup::add(all, stream, hour, &pool)?;
    }
    Ok(())
}

/// Adds a test to the catalogue, without updating roll-ups.
fn enter(
    all: &Transaction<'_>,
    (stream, packer): (i64, &mut ModelPacker),
    entry: &CatalogueEntry,
    file: i64,
) -> rusqlite::Result<()> {
    let (session, rest) = packer.pack(&entry.packed.own);
    let answer = entry.summary.answer.as_ref();
    let insert = "INSERT INTO tests(id, hash, stream, started_ns, name, source, added_ns, packets, log_bytes, file, row_group, \
                  first_row, severity, host, headline, rest, session, pool, entered) \
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    all.prepare_cached(insert)?.execute(params![
        entry.id,
        entry.hash,
        stream,
        entry.started_ns,
        entry.session.name,
        entry.source,
        now(),
        entry.rows as i64,
        entry.log_bytes as i64,
        file,
        entry.row_group as i64,
        entry.first_row as i64,
        answer.map_or("unknown", |a| a.severity.name()),
        answer.and_then(|a| a.host.as_ref()).map(|host| host.severity.name()),
        answer.map_or("", |a| a.headline.as_str()),
        rest,
        session,
        entry.packed.pool,
        alerts::next_number(all)?,
    ])?;
    let number = all.last_insert_rowid();
    let mut tags = all.prepare_cached("INSERT OR REPLACE INTO tags(test, key, value) VALUES (?, ?, ?)")?;
    for (key, value) in &entry.tags {
        tags.execute(params![number, key, value])?;
    }
    let figures: Vec<Option<f64>> = selectors()
        .map(|s| s.of(&entry.summary).map(ExactNumber::as_f64).filter(|x| x.is_finite()))
        .collect();
    let values = figures.iter().map(|x| x.map_or(Value::Null, Value::Real));
    all.prepare_cached(&INSERT_FIGURES)?
        .execute(params_from_iter([Value::Integer(number)].into_iter().chain(values)))?;
    if let Some(share) = selectors().position(|s| s.to_string() == "loss").and_then(|k| figures[k]) {
        totals::count_loss(all, stream, share)?;
    }
    Ok(())
}

/// SQL statement that inserts all figures of a test.
static INSERT_FIGURES: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<String> = selectors().map(|s| format!(", \"{s}\"")).collect();
    format!("INSERT INTO figures(test{}) VALUES (?{})", names.concat(), ", ?".repeat(names.len()))
});

/// Returns the current time, in ns since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64)
}
