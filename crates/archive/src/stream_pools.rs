//! [`Archive::each_pool`]: the pools of all streams one after another, for sums over many streams. Unlike [`Archive::totals`] it takes one
//! pass over the stored roll-ups of a single archive, with only one pool in memory at a time. Several archives as one are read by
//! [`Archive::totals`].

use crate::error::ArchiveError;
use crate::packed::{read_delays, read_pool};
use crate::rollup::RollupError;
use crate::{Archive, PoolPeriod};
use jitlat_core::pool::Pool;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Number of tests per bucket of loss shares ([`share_bucket`](crate::share_bucket)), and the sum of their shares.
pub type LossCounters = BTreeMap<i64, (u64, f64)>;

/// A stream, by the names of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEnds {
    /// Number of the stream in this archive.
    pub stream_id: i64,
    /// Name of the sender, or its address if it has none.
    pub src: String,
    /// Name of the receiver, or its address if it has none.
    pub dst: String,
    /// Protocol, as in [`PooledStream`](crate::PooledStream).
    pub protocol: String,
    /// Direction, as in [`PooledStream`](crate::PooledStream).
    pub direction: String,
    /// Start of the newest test, ns since 1970; `None` without tests.
    pub last_ns: Option<i64>,
}

impl Archive {
    /// Returns the number of streams.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn stream_count(&self) -> Result<u64, ArchiveError> {
        if self.is_united() {
            return Ok(self.streams(&crate::Filter::default())?.len() as u64);
        }
        let count = |row: &rusqlite::Row<'_>| crate::catalogue::unsigned(row, 0);
        self.db.query_row("SELECT count(*) FROM streams", [], count).map_err(self.sql("reading"))
    }

    /// Returns all streams, ordered by number.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn stream_ends(&self) -> Result<Vec<StreamEnds>, ArchiveError> {
        if self.is_united() {
            let names = self.host_names()?;
            let name = |address: &String| names.get(address).unwrap_or(address).clone();
            let ends = self.streams(&crate::Filter::default())?.into_iter().map(|(id, stream)| {
                Ok(StreamEnds {
                    stream_id: id,
                    src: name(&stream.src),
                    dst: name(&stream.dst),
                    protocol: stream.protocol,
                    direction: stream.direction,
                    last_ns: self.first_and_last(id)?.map(|(_, last)| last),
                })
            });
            return ends.collect();
        }
        let run = || {
            let newest = "SELECT stream, max(started_ns) FROM tests GROUP BY stream";
            let mut newest = self.db.prepare_cached(newest)?;
            let newest = newest.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let newest = newest.collect::<rusqlite::Result<HashMap<i64, i64>>>()?;
            let query = "SELECT s.id, coalesce(a.name, a.address), coalesce(b.name, b.address), s.protocol, s.direction FROM streams s \
                         JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst ORDER BY s.id";
            let mut streams = self.db.prepare_cached(query)?;
            let take = |row: &rusqlite::Row<'_>| {
                let stream_id = row.get(0)?;
                Ok(StreamEnds {
                    stream_id,
                    src: row.get(1)?,
                    dst: row.get(2)?,
                    protocol: row.get(3)?,
                    direction: row.get(4)?,
                    last_ns: newest.get(&stream_id).copied(),
                })
            };
            streams.query_map([], take)?.collect()
        };
        let found: rusqlite::Result<_> = run();
        found.map_err(self.sql("reading"))
    }

    /// Returns the counters of loss shares of all streams, by number.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn loss_counters(&self) -> Result<HashMap<i64, LossCounters>, ArchiveError> {
        if self.is_united() {
            let streams = self.streams(&crate::Filter::default())?.into_iter();
            return streams.map(|(id, _)| Ok((id, self.united_losses(id)?))).collect();
        }
        let run = || -> rusqlite::Result<HashMap<i64, LossCounters>> {
            let mut all: HashMap<i64, LossCounters> = HashMap::new();
            let mut losses =
                self.db.prepare_cached("SELECT stream, bucket, tests, lost_share FROM losses")?;
            let mut rows = losses.query([])?;
            while let Some(row) = rows.next()? {
                let counts = (crate::catalogue::unsigned(row, 2)?, row.get(3)?);
                all.entry(row.get(0)?).or_default().insert(row.get(1)?, counts);
            }
            Ok(all)
        };
        run().map_err(self.sql("reading"))
    }

    /// Calls `take` with the numbers of streams and pools of their tests: of the tests that were added after `after` (a result of this
    /// function), or of all tests, even removed ones, if it is `None`. A stream may have several pools, which have no test in common. Pools
    /// have no IPDV. Returns the numbers of tests added to the archive until now.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn each_pool(
        &self,
        after: Option<&[i64]>,
        take: &mut dyn FnMut(i64, &Pool),
    ) -> Result<Vec<i64>, ArchiveError> {
        if self.is_united() {
            let totals = self.totals(after, usize::MAX)?;
            totals
                .streams
                .iter()
                .filter(|total| total.pool.tests > 0)
                .for_each(|s| take(s.stream_id, &s.pool));
            return Ok(totals.entered);
        }
        // A single transaction gives a consistent view.
        let moment = self.db.unchecked_transaction().map_err(self.sql("reading"))?;
        let entered = self.entered_counts()?;
        match after.and_then(<[i64]>::first) {
            Some(number) => {
                let query = "SELECT stream, pool FROM tests WHERE entered > ?";
                self.known_failure(self.pass(query, [number], &|_| true, take))?;
            }
            None => self.each_stored_pool(take)?,
        }
        drop(moment);
        Ok(entered)
    }

    fn each_stored_pool(&self, take: &mut dyn FnMut(i64, &Pool)) -> Result<(), ArchiveError> {
        let counts = |query: &str| -> Result<HashMap<i64, i64>, ArchiveError> {
            let run = || {
                let mut found = self.db.prepare_cached(query)?;
                found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            };
            let found: rusqlite::Result<_> = run();
            found.map_err(self.sql("reading"))
        };
        let tests = counts("SELECT stream, count(*) FROM tests GROUP BY stream")?;
        let removed = counts("SELECT stream, count(*) FROM kept GROUP BY stream")?;
        // Each test is in exactly one of the roll-ups that have not been added to a longer one, unless roll-ups are missing.
        let pooled = counts("SELECT stream, sum(tests) FROM rollups WHERE pooled = 0 GROUP BY stream")?;
        let is_complete = |(stream, count): (&i64, &i64)| {
            (pooled.get(stream) == Some(count) && !removed.contains_key(stream)).then_some(*stream)
        };
        let complete: HashSet<i64> = tests.iter().filter_map(is_complete).collect();
        let others: HashSet<i64> =
            tests.keys().chain(removed.keys()).filter(|stream| !complete.contains(stream)).copied().collect();
        for stream in others {
            take(stream, &self.pool(stream, PoolPeriod::All, i64::MIN, i64::MAX)?);
        }
        let query = "SELECT stream, pool FROM rollups WHERE pooled = 0";
        self.known_failure(self.pass(query, [], &|stream| complete.contains(&stream), take))
    }

    /// Calls `take` with the stream and the pool of each row of a query whose stream is wanted.
    fn pass(
        &self,
        query: &str,
        with: impl rusqlite::Params,
        is_wanted: &dyn Fn(i64) -> bool,
        take: &mut dyn FnMut(i64, &Pool),
    ) -> Result<(), RollupError> {
        let mut found = self.db.prepare_cached(query)?;
        let mut rows = found.query(with)?;
        while let Some(row) = rows.next()? {
            let stream = row.get(0)?;
            if is_wanted(stream) {
                let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                let pool =
                    read_delays(bytes).map_or_else(|| read_pool(bytes).map_err(RollupError::Other), Ok)?;
                take(stream, &pool);
            }
        }
        Ok(())
    }
}
