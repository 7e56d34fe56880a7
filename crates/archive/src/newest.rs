//! [`Archive::newest`]: the newest test of every stream. [`Archive::extent`]: the number of tests, and the time that
//! they cover.

use crate::catalogue::unsigned;
use crate::error::ArchiveError;
use crate::find::{LISTED, TABLES, listed};
use crate::{Archive, ListedTest, PooledStream, TestId};
use rusqlite::{Row, params};
use std::collections::BTreeMap;

/// Maximum number of earlier tests that are examined to find when a stream became bad.
const MAX_TESTS_BACK: i64 = 300;
/// Maximum number of earlier tests that are examined for all streams together.
const MAX_TESTS_BACK_IN_ALL: u64 = 20_000;
/// Number of newest tests from which the usual interval between tests is estimated. The estimate is a median, so a
/// single pause hardly changes it.
const RECENT_TESTS: i64 = 9;
/// Number of newest tests that must be regular for a stream that is expected to go on.
const REGULAR_TESTS: i64 = 10;
/// Smallest distance of tests that are expected to go on: a person repeats a test at shorter ones.
const LEAST_REGULAR_NS: i64 = 60_000_000_000;

/// The newest test of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Newest {
    /// Number of the stream in this archive.
    pub stream_id: i64,
    /// Properties of the stream.
    pub stream: PooledStream,
    /// Name of the sender; `None` if unknown.
    pub src_name: Option<String>,
    /// Name of the receiver; `None` if unknown.
    pub dst_name: Option<String>,
    /// Identifier of the test.
    pub test: TestId,
    /// Start time, ns since 1970.
    pub started_ns: i64,
    /// Number of rows of the test's log.
    pub packets: u64,
    /// Severity of the verdict: `good`, `fair`, `poor`, `bad` or `unknown`.
    pub severity: String,
    /// Headline of the verdict, on one line.
    pub headline: String,
    /// Median time between the starts of consecutive tests, computed from the most recent tests, in ns; `None` for
    /// fewer than three tests.
    pub every_ns: Option<i64>,
    /// Current run of poor or bad tests; `None` if the newest test is neither.
    pub bad: Option<BadSince>,
}

/// Consecutive poor or bad tests, up to the newest test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSince {
    /// Start of the first test of the run, ns since 1970.
    pub since_ns: i64,
    /// Number of tests in the run.
    pub tests: u64,
    /// True if the run may have begun earlier, because earlier tests were not examined.
    pub at_least: bool,
}

/// Verdict and figures of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct TestFigures<const N: usize> {
    /// Start, ns since 1970.
    pub started_ns: i64,
    /// Severity of the verdict: `good`, `fair`, `poor`, `bad` or `unknown`.
    pub severity: String,
    /// Values of the figures that were asked for; `None` if unknown.
    pub values: [Option<f64>; N],
}

/// Number of tests in an archive, and the time that they cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveExtent {
    /// Number of tests in the archive.
    pub tests: u64,
    /// Start of the first test, ns since 1970; `None` without tests.
    pub first_ns: Option<i64>,
    /// Start of the last test, ns since 1970; `None` without tests.
    pub last_ns: Option<i64>,
}

/// True if a verdict is poor or bad.
pub(crate) fn is_bad(severity: &str) -> bool {
    matches!(severity, "poor" | "bad")
}

impl Archive {
    /// Returns the newest test of every stream that has tests, ordered by address.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn newest(&self) -> Result<Vec<Newest>, ArchiveError> {
        if self.is_united() {
            return self.united_newest();
        }
        self.newest_tests().map_err(self.sql("reading"))
    }

    fn newest_tests(&self) -> rusqlite::Result<Vec<Newest>> {
        let query = "SELECT s.id, a.address, b.address, s.protocol, s.direction, s.payload, s.period_ns, s.dscp, a.name, b.name, \
                     t.id, t.started_ns, t.packets, t.severity, t.headline \
                     FROM streams s JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst \
                     JOIN tests t ON t.id = (SELECT id FROM tests WHERE stream = s.id ORDER BY started_ns DESC, id DESC LIMIT 1) \
                     ORDER BY a.address, b.address, s.id";
        let mut streams = self.db.prepare_cached(query)?;
        let take = |row: &Row<'_>| {
            Ok(Newest {
                stream_id: row.get(0)?,
                stream: PooledStream::read(row)?,
                src_name: row.get(8)?,
                dst_name: row.get(9)?,
                test: TestId(row.get(10)?),
                started_ns: row.get(11)?,
                packets: unsigned(row, 12)?,
                severity: row.get(13)?,
                headline: row.get(14)?,
                every_ns: None,
                bad: None,
            })
        };
        let mut all = streams.query_map([], take)?.collect::<rusqlite::Result<Vec<_>>>()?;
        let mut left = MAX_TESTS_BACK_IN_ALL;
        for newest in &mut all {
            newest.every_ns = self.usual_distance(newest.stream_id)?;
            if is_bad(&newest.severity) {
                newest.bad = Some(self.bad_since(newest, &mut left)?);
            }
        }
        Ok(all)
    }

    /// Returns `figures` of the newest test of every stream, by the stream's number; a figure that the archive does not have is
    /// `None`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn newest_figures<const N: usize>(
        &self,
        figures: &[&str; N],
    ) -> Result<BTreeMap<i64, [Option<f64>; N]>, ArchiveError> {
        if self.is_united() {
            return self.united_newest_figures(figures);
        }
        let run = || {
            let there = crate::catalogue::figure_columns(&self.db)?;
            let column = |key: &&str| {
                if there.contains(*key) { format!(", f.\"{key}\"") } else { ", NULL".to_owned() }
            };
            let columns: String = figures.iter().map(column).collect();
            let query = format!(
                "SELECT s.id{columns} FROM streams s JOIN figures f ON f.test = \
                 (SELECT number FROM tests WHERE stream = s.id ORDER BY started_ns DESC, id DESC LIMIT 1)"
            );
            let take = |row: &Row<'_>| {
                let mut values = [None; N];
                for (k, value) in values.iter_mut().enumerate() {
                    *value = row.get(k + 1)?;
                }
                Ok((row.get(0)?, values))
            };
            self.db.prepare_cached(&query)?.query_map([], take)?.collect()
        };
        let found: rusqlite::Result<BTreeMap<i64, [Option<f64>; N]>> = run();
        found.map_err(self.sql("reading"))
    }

    /// Returns a figure of each test of a stream that started at or after `since_ns`, with the start time, in order; empty if
    /// the archive does not have this figure.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn figure_since(
        &self,
        stream: i64,
        figure: &str,
        since_ns: i64,
    ) -> Result<Vec<(i64, Option<f64>)>, ArchiveError> {
        if self.is_united() {
            let found =
                self.at_places(stream, |member, local| member.figure_since(local, figure, since_ns))?;
            let mut all: Vec<(i64, Option<f64>)> = found.into_iter().flatten().collect();
            all.sort_by_key(|(at, _)| *at);
            // A stream has no two tests at the same nanosecond.
            all.dedup_by_key(|(at, _)| *at);
            return Ok(all);
        }
        let run = || {
            if !crate::catalogue::figure_columns(&self.db)?.contains(figure) {
                return Ok(Vec::new());
            }
            let query = format!(
                "SELECT t.started_ns, f.\"{figure}\" FROM tests t JOIN figures f ON f.test = t.number \
                 WHERE t.stream = ? AND t.started_ns >= ? ORDER BY t.started_ns"
            );
            let mut tests = self.db.prepare_cached(&query)?;
            let take = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            tests.query_map([stream, since_ns], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns the tests of a stream in `from..to` (ns since 1970) in order of time, with `figures` of each.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn tests_with_figures<const N: usize>(
        &self,
        stream: i64,
        figures: &[&str; N],
        (from, to): (i64, i64),
    ) -> Result<Vec<TestFigures<N>>, ArchiveError> {
        if self.is_united() {
            let found = self
                .at_places(stream, |member, local| member.tests_with_figures(local, figures, (from, to)))?;
            let mut all: Vec<TestFigures<N>> = found.into_iter().flatten().collect();
            all.sort_by_key(|test| test.started_ns);
            // A stream has no two tests at the same nanosecond.
            all.dedup_by_key(|test| test.started_ns);
            return Ok(all);
        }
        let run = || {
            let there = crate::catalogue::figure_columns(&self.db)?;
            let column = |key: &&str| {
                if there.contains(*key) { format!(", f.\"{key}\"") } else { ", NULL".to_owned() }
            };
            let columns: String = figures.iter().map(column).collect();
            let query = format!(
                "SELECT t.started_ns, t.severity{columns} FROM tests t LEFT JOIN figures f ON f.test = t.number \
                 WHERE t.stream = ? AND t.started_ns >= ? AND t.started_ns < ? ORDER BY t.started_ns"
            );
            let mut tests = self.db.prepare_cached(&query)?;
            let take = |row: &Row<'_>| {
                let mut values = [None; N];
                for (k, value) in values.iter_mut().enumerate() {
                    *value = row.get(k + 2)?;
                }
                Ok(TestFigures { started_ns: row.get(0)?, severity: row.get(1)?, values })
            };
            tests.query_map([stream, from, to], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns the names of all hosts that have one, by address.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn host_names(&self) -> Result<BTreeMap<String, String>, ArchiveError> {
        if self.is_united() {
            return self.united_map(Archive::host_names);
        }
        let run = || {
            let mut hosts =
                self.db.prepare_cached("SELECT address, name FROM hosts WHERE name IS NOT NULL")?;
            hosts.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let names: rusqlite::Result<BTreeMap<String, String>> = run();
        names.map_err(self.sql("reading"))
    }

    /// Returns the median time between the starts of consecutive scheduled tests of a stream, computed from the most
    /// recent ones, in ns; `None` unless there are ten tests at regular distances of at least a minute, because others are
    /// not expected to go on. Tests that a person started from a web page (tag `asked`) do not count.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn regular_distance(&self, stream: i64) -> Result<Option<i64>, ArchiveError> {
        if self.is_united() {
            // The member with the newest test has the current timetable.
            let of = |member: &Archive, local| {
                Ok((member.first_and_last(local)?.map(|(_, last)| last), member.regular_distance(local)?))
            };
            return Ok(self.at_places(stream, of)?.into_iter().max().and_then(|(_, distance)| distance));
        }
        let query = "SELECT started_ns FROM tests t WHERE stream = ? AND NOT EXISTS (SELECT 1 FROM tags WHERE test = t.number AND key = 'asked') \
                     ORDER BY started_ns DESC LIMIT ?";
        let distances = self.distances(query, stream, REGULAR_TESTS).map_err(self.sql("reading"))?;
        Ok(regular(&distances))
    }

    /// Returns the median time between the starts of consecutive tests of a stream, computed from the most recent ones,
    /// in ns; `None` for fewer than three tests.
    fn usual_distance(&self, stream: i64) -> rusqlite::Result<Option<i64>> {
        let query = "SELECT started_ns FROM tests WHERE stream = ? ORDER BY started_ns DESC LIMIT ?";
        let distances = self.distances(query, stream, RECENT_TESTS)?;
        Ok((distances.len() >= 2).then(|| distances[distances.len() / 2]))
    }

    /// Returns the times between the starts of the newest `most` tests, the shortest first.
    fn distances(&self, query: &str, stream: i64, most: i64) -> rusqlite::Result<Vec<i64>> {
        let mut recent = self.db.prepare_cached(query)?;
        let starts = recent.query_map(params![stream, most], |row| row.get(0))?;
        let starts = starts.collect::<rusqlite::Result<Vec<i64>>>()?;
        let mut distances: Vec<i64> = starts.windows(2).map(|w| w[0].saturating_sub(w[1])).collect();
        distances.sort_unstable();
        Ok(distances)
    }

    /// Returns the run of poor or bad tests that ends with the newest test. Examines at most `left` tests, and
    /// subtracts their number from `left`, which is shared by all streams.
    fn bad_since(&self, newest: &Newest, left: &mut u64) -> rusqlite::Result<BadSince> {
        let mut bad = BadSince { since_ns: newest.started_ns, tests: 0, at_least: false };
        let query = "SELECT started_ns, severity FROM tests WHERE stream = ? ORDER BY started_ns DESC, id DESC LIMIT ?";
        let mut before = self.db.prepare_cached(query)?;
        let most = MAX_TESTS_BACK.min(i64::try_from(*left).unwrap_or(i64::MAX)).max(1);
        let mut rows = before.query(params![newest.stream_id, most])?;
        while let Some(row) = rows.next()? {
            *left = left.saturating_sub(1);
            if !is_bad(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?) {
                return Ok(bad);
            }
            (bad.since_ns, bad.tests) = (row.get(0)?, bad.tests + 1);
        }
        bad.at_least = bad.tests >= most.unsigned_abs();
        Ok(bad)
    }

    /// Returns a test as listed in the catalogue, without figures and tags.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn listed(&self, id: TestId) -> Result<ListedTest, ArchiveError> {
        let query = format!("SELECT {LISTED} FROM {TABLES} WHERE t.id = ?");
        let home = self.home(id)?;
        home.db.query_row(&query, [id.0], listed).map_err(home.sql("reading"))
    }

    /// Returns the number of tests, and the time that they cover. The query is cheap enough for one call per second.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn extent(&self) -> Result<ArchiveExtent, ArchiveError> {
        if self.is_united() {
            return self.united_extent();
        }
        let query = "SELECT (SELECT count(*) FROM tests), (SELECT min(started_ns) FROM tests), (SELECT max(started_ns) FROM tests)";
        let take = |row: &Row<'_>| {
            Ok(ArchiveExtent { tests: unsigned(row, 0)?, first_ns: row.get(1)?, last_ns: row.get(2)? })
        };
        self.db.query_row(query, [], take).map_err(self.sql("reading"))
    }
}

/// Returns the median of sorted distances of [`REGULAR_TESTS`] tests if most of them are near it: gaps and random delays of
/// starts change some.
fn regular(distances: &[i64]) -> Option<i64> {
    let median = *distances.get(distances.len() / 2)?;
    let near = distances
        .iter()
        .filter(|distance| (median / 2..=median.saturating_mul(2)).contains(*distance))
        .count();
    let is_regular = distances.len() as i64 >= REGULAR_TESTS - 1 && 3 * near >= 2 * distances.len();
    (is_regular && median >= LEAST_REGULAR_NS).then_some(median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_tests_are_expected_to_go_on() {
        const MINUTE: i64 = 60_000_000_000;
        assert_eq!(regular(&[5 * MINUTE; 9]), Some(5 * MINUTE));
        let with_gaps = [4, 5, 5, 5, 5, 5, 6, 60, 900].map(|minutes| minutes * MINUTE);
        assert_eq!(regular(&with_gaps), Some(5 * MINUTE));
        let by_hand = [1, 1, 2, 3, 10, 45, 90, 600, 9000].map(|minutes| minutes * MINUTE);
        assert_eq!((regular(&by_hand), regular(&[MINUTE / 6; 9]), regular(&[MINUTE; 8])), (None, None, None));
        assert_eq!(regular(&[]), None);
    }
}
