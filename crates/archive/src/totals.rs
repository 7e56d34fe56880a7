//! [`Archive::totals`]: totals of each stream, as counters that only grow. [`share_bucket`]: buckets for the loss
//! shares of tests.

use crate::error::ArchiveError;
use crate::packed::read_pool;
use crate::{Archive, PoolPeriod, PooledStream};
use jitlat_core::pool::Pool;
use rusqlite::{Row, Transaction, params};
use std::collections::BTreeMap;

/// Bucket of tests without loss.
pub const NO_LOSS: i64 = -1_000_000;

/// Returns the bucket of a share above 0: the smallest k with share ≤ 2^(k/8), as in native histograms of schema 3.
pub fn share_bucket(share: f64) -> i64 {
    if share > 0.0 { (share.min(1.0).log2() * 8.0).ceil() as i64 } else { NO_LOSS }
}

/// Totals of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamTotal {
    /// Number of the stream in this archive.
    pub stream_id: i64,
    /// The stream.
    pub stream: PooledStream,
    /// Name of the sender; `None` if unknown.
    pub src_name: Option<String>,
    /// Name of the receiver; `None` if unknown.
    pub dst_name: Option<String>,
    /// Pool of the packets of all tests, or of the tests added after a given test.
    pub pool: Pool,
    /// Number of tests per loss bucket, and sum of their loss shares. Tests that were added before these counters were
    /// introduced are not included.
    pub losses: BTreeMap<i64, (u64, f64)>,
    /// Start of the newest test, ns since 1970; `None` without tests.
    pub last_ns: Option<i64>,
    /// Estimated clock offset (server minus client) in the newest test, in ns; `None` if unknown, for example for round
    /// trips.
    pub clock_error_ns: Option<f64>,
    /// Maximum error of the estimated clock offset, in ns; `None` if unknown.
    pub clock_bound_ns: Option<f64>,
}

/// Totals of an archive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchiveTotals {
    /// Number of tests added to the archive; of several archives as one, to each.
    pub entered: Vec<i64>,
    /// Streams, in the order in which they were first added.
    pub streams: Vec<StreamTotal>,
    /// Number of streams beyond the requested maximum, which were left out.
    pub left_out: u64,
}

/// Adds the loss share of a test to the counters when the test is added to the archive.
pub(crate) fn count_loss(all: &Transaction<'_>, stream: i64, share: f64) -> rusqlite::Result<()> {
    let add = "INSERT INTO losses(stream, bucket, tests, lost_share) VALUES (?1, ?2, 1, ?3) \
               ON CONFLICT(stream, bucket) DO UPDATE SET tests = tests + 1, lost_share = lost_share + ?3";
    all.prepare_cached(add)?.execute(params![stream, share_bucket(share), share]).map(drop)
}

impl Archive {
    /// Returns the totals of the first `most` streams. They include the packets of tests added after `after`
    /// ([`ArchiveTotals::entered`] of an earlier result), or of all tests, even removed ones, if `after` is `None`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn totals(&self, after: Option<&[i64]>, most: usize) -> Result<ArchiveTotals, ArchiveError> {
        if self.is_united() {
            return self.united_totals(after, most);
        }
        let sql = self.sql("reading");
        // A single transaction gives a consistent view.
        let moment = self.db.unchecked_transaction().map_err(&sql)?;
        let mut totals = ArchiveTotals { entered: self.entered_counts()?, ..ArchiveTotals::default() };
        let (streams, count) = self.stream_list(most).map_err(&sql)?;
        totals.left_out = count.saturating_sub(streams.len() as u64);
        totals.streams = streams;
        match after.and_then(<[i64]>::first) {
            None => {
                for total in &mut totals.streams {
                    total.pool = self.pool(total.stream_id, PoolPeriod::All, i64::MIN, i64::MAX)?;
                }
            }
            Some(number) => {
                let indices: BTreeMap<i64, usize> =
                    totals.streams.iter().enumerate().map(|(k, s)| (s.stream_id, k)).collect();
                let query = "SELECT stream, pool FROM tests WHERE entered > ?";
                let mut tests = self.db.prepare_cached(query).map_err(&sql)?;
                let mut rows = tests.query([number]).map_err(&sql)?;
                while let Some(row) = rows.next().map_err(&sql)? {
                    let Some(index) = indices.get(&row.get::<_, i64>(0).map_err(&sql)?) else { continue };
                    let bytes = row.get_ref(1).and_then(|v| v.as_blob().map_err(Into::into)).map_err(&sql)?;
                    totals.streams[*index].pool.merge(&read_pool(bytes)?);
                }
            }
        }
        drop(moment);
        Ok(totals)
    }

    /// Returns the number of tests added to the archive, or to each of several archives as one.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn entered_counts(&self) -> Result<Vec<i64>, ArchiveError> {
        if self.is_united() {
            return self.all_of(Archive::entered_counts);
        }
        Ok(vec![self.entered()?])
    }

    fn stream_list(&self, most: usize) -> rusqlite::Result<(Vec<StreamTotal>, u64)> {
        let take = |row: &Row<'_>| {
            Ok(StreamTotal {
                stream_id: row.get(0)?,
                stream: PooledStream::read(row)?,
                src_name: row.get(8)?,
                dst_name: row.get(9)?,
                pool: Pool::default(),
                losses: BTreeMap::new(),
                last_ns: row.get(10)?,
                clock_error_ns: None,
                clock_bound_ns: None,
            })
        };
        let query = "SELECT s.id, a.address, b.address, s.protocol, s.direction, s.payload, s.period_ns, s.dscp, a.name, b.name, \
                     (SELECT max(started_ns) FROM tests WHERE stream = s.id) \
                     FROM streams s JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst ORDER BY s.id LIMIT ?";
        let mut streams = self.db.prepare_cached(query)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut list = streams.query_map([most], take)?.collect::<rusqlite::Result<Vec<_>>>()?;
        let mut losses =
            self.db.prepare_cached("SELECT bucket, tests, lost_share FROM losses WHERE stream = ?")?;
        let has_clock = crate::catalogue::figure_columns(&self.db)?.contains("clock-bound");
        let newest = "SELECT f.\"clock-error\", f.\"clock-bound\" FROM tests t JOIN figures f ON f.test = t.number \
                      WHERE t.stream = ? ORDER BY t.started_ns DESC, t.id DESC LIMIT 1";
        for total in &mut list {
            let loss = |row: &Row<'_>| Ok((row.get(0)?, (crate::catalogue::unsigned(row, 1)?, row.get(2)?)));
            total.losses = losses.query_map([total.stream_id], loss)?.collect::<rusqlite::Result<_>>()?;
            if has_clock {
                let mut clock = self.db.prepare_cached(newest)?;
                let mut rows = clock.query([total.stream_id])?;
                if let Some(row) = rows.next()? {
                    (total.clock_error_ns, total.clock_bound_ns) = (row.get(0)?, row.get(1)?);
                }
            }
        }
        let count = self
            .db
            .query_row("SELECT count(*) FROM streams", [], |row| crate::catalogue::unsigned(row, 0))?;
        Ok((list, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_in_the_bucket_that_ends_at_or_above_it() {
        for share in [1.0, 0.5, 0.25, 0.01, 0.001, 1e-9] {
            let k = share_bucket(share) as f64;
            assert!(share <= 2f64.powf(k / 8.0) && share > 2f64.powf((k - 1.0) / 8.0), "{share}: {k}");
        }
        assert_eq!((share_bucket(1.0), share_bucket(0.5), share_bucket(0.0)), (0, -8, NO_LOSS));
    }
}
