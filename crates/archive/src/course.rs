//! [`Archive::course`]: a stream over time, as one pool per period. [`Archive::verdicts`]: the verdicts on its tests,
//! and when they change.

use crate::error::ArchiveError;
use crate::find::Filter;
use crate::newest::is_bad;
use crate::packed::{read_delays, read_pool};
use crate::{Archive, PoolPeriod, PooledStream, TestId};
use jitlat_core::pool::Pool;
use rusqlite::params;

/// A stream within one period.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPeriod {
    /// Start of the period, or of the single test, ns since 1970.
    pub start_ns: i64,
    /// End of the period, ns since 1970. For a single test, equal to the start.
    pub end_ns: i64,
    /// Number of the test if the period is a single test; otherwise `None`.
    pub test: Option<TestId>,
    /// All packets of the period, without the delay differences of consecutive packets (IPDV).
    pub pool: Pool,
}

/// Start times of a stream's tests, and the verdicts on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    /// Start (ns since 1970), verdict and number of each test, in order of time.
    pub tests: Vec<(i64, String, TestId)>,
}

impl Verdicts {
    /// Iterates over the tests at which the stream becomes poor or bad (true) or recovers (false): start in ns since
    /// 1970, new state, number of the test.
    pub fn changes(&self) -> impl Iterator<Item = (i64, bool, TestId)> + '_ {
        let known = self.tests.iter().filter(|(_, severity, _)| severity != "unknown");
        let mut before: Option<bool> = None;
        known.filter_map(move |(at, severity, test)| {
            let bad = is_bad(severity);
            let changed = before.replace(bad).is_some_and(|before| before != bad);
            changed.then_some((*at, bad, *test))
        })
    }

    /// Median time between the starts of consecutive tests, in ns; `None` for fewer than three tests.
    pub fn usual_distance(&self) -> Option<i64> {
        let mut distances: Vec<i64> =
            self.tests.windows(2).map(|w| w[1].0.saturating_sub(w[0].0)).filter(|d| *d > 0).collect();
        distances.sort_unstable();
        (distances.len() >= 2).then(|| distances[distances.len() / 2])
    }

    /// Gaps between tests that are longer than three times the median interval: start times of the tests before and
    /// after each gap, in ns since 1970.
    pub fn gaps(&self) -> Vec<(i64, i64)> {
        let Some(usual) = self.usual_distance() else { return Vec::new() };
        let long = |w: &&[(i64, String, TestId)]| w[1].0.saturating_sub(w[0].0) > usual.saturating_mul(3);
        self.tests.windows(2).filter(long).map(|w| (w[0].0, w[1].0)).collect()
    }
}

impl Archive {
    /// Returns the streams between the hosts in `filter`, with their numbers.
    ///
    /// # Errors
    /// [`ArchiveError::Usage`] if the archive has no tests of the hosts in `filter`.
    pub fn streams(&self, filter: &Filter) -> Result<Vec<(i64, PooledStream)>, ArchiveError> {
        self.streams_of(filter)
    }

    /// Returns the number of tests of a stream that started in `from..to` (ns since 1970).
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn tests_between(&self, stream: i64, from: i64, to: i64) -> Result<u64, ArchiveError> {
        if self.is_united() {
            return match self.only_place(stream)? {
                Some((member, local)) => member.tests_between(local, from, to),
                None => Ok(self.verdicts(stream, from, to)?.tests.len() as u64),
            };
        }
        let query = "SELECT count(*) FROM tests WHERE stream = ? AND started_ns >= ? AND started_ns < ?";
        let count = |row: &rusqlite::Row<'_>| crate::catalogue::unsigned(row, 0);
        self.db.query_row(query, params![stream, from, to], count).map_err(self.sql("reading"))
    }

    /// Returns the start times of the first and the last test of a stream, in ns since 1970; `None` without tests.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn first_and_last(&self, stream: i64) -> Result<Option<(i64, i64)>, ArchiveError> {
        if self.is_united() {
            let found = self.at_places(stream, Archive::first_and_last)?;
            let both = |(a, b): (i64, i64), (c, d): (i64, i64)| (a.min(c), b.max(d));
            return Ok(found.into_iter().flatten().reduce(both));
        }
        let query = "SELECT (SELECT min(started_ns) FROM tests WHERE stream = ?1), (SELECT max(started_ns) FROM tests WHERE stream = ?1)";
        let both = |row: &rusqlite::Row<'_>| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get(1)?));
        self.db.query_row(query, [stream], both).map_err(self.sql("reading"))
    }

    /// Returns the periods of a stream in `from..to` (ns since 1970) that contain tests, in order of time.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn course(
        &self,
        stream: i64,
        period: PoolPeriod,
        from: i64,
        to: i64,
    ) -> Result<Vec<StreamPeriod>, ArchiveError> {
        if period == PoolPeriod::Test {
            return self.course_of_tests(stream, from, to);
        }
        let spans = self.parts(stream, &|at| period.around(at), from, to)?;
        let mut stored = self.stored_in_one_pass(stream, period, from, to, read_delays)?;
        let course = |(start, end): (i64, i64)| {
            let (start_ns, end_ns) = (start.max(from), end.min(to));
            let pool = match stored.remove(&start).filter(|_| end <= to) {
                Some(pool) => pool,
                None => self.pool(stream, period, start_ns, end_ns)?,
            };
            Ok(StreamPeriod { start_ns, end_ns, test: None, pool })
        };
        spans.into_iter().map(course).collect()
    }

    fn course_of_tests(&self, stream: i64, from: i64, to: i64) -> Result<Vec<StreamPeriod>, ArchiveError> {
        if self.is_united() {
            let found = self.at_places(stream, |member, local| member.course_of_tests(local, from, to))?;
            let mut all: Vec<StreamPeriod> = found.into_iter().flatten().collect();
            all.sort_by_key(|period| (period.start_ns, period.test));
            all.dedup_by_key(|period| period.test);
            return Ok(all);
        }
        let query = "SELECT id, started_ns, pool FROM tests WHERE stream = ? AND started_ns >= ? AND started_ns < ? ORDER BY 2, 1";
        let sql = self.sql("reading");
        let mut tests = self.db.prepare_cached(query).map_err(&sql)?;
        let mut rows = tests.query(params![stream, from, to]).map_err(&sql)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(&sql)? {
            let at: i64 = row.get(1).map_err(&sql)?;
            let bytes = row.get_ref(2).and_then(|v| v.as_blob().map_err(Into::into)).map_err(&sql)?;
            let test = Some(TestId(row.get(0).map_err(&sql)?));
            let pool = read_delays(bytes).map_or_else(|| read_pool(bytes), Ok)?;
            all.push(StreamPeriod { start_ns: at, end_ns: at, test, pool });
        }
        Ok(all)
    }

    /// Returns the tests of a stream in `from..to` (ns since 1970) whose hosts were graded poor or bad, in order of time: start,
    /// grade, and number of the test.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn host_faults(
        &self,
        stream: i64,
        from: i64,
        to: i64,
    ) -> Result<Vec<(i64, String, TestId)>, ArchiveError> {
        if self.is_united() {
            let found = self.at_places(stream, |member, local| member.host_faults(local, from, to))?;
            let mut all: Vec<_> = found.into_iter().flatten().collect();
            all.sort_by_key(|(at, _, id)| (*at, *id));
            all.dedup_by_key(|(_, _, id)| *id);
            return Ok(all);
        }
        let query = "SELECT started_ns, host, id FROM tests WHERE stream = ? AND started_ns >= ? AND started_ns < ? \
                     AND host IN ('poor', 'bad') ORDER BY 1, 3";
        let run = || {
            let mut tests = self.db.prepare_cached(query)?;
            let take = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, TestId(row.get(2)?)));
            tests.query_map(params![stream, from, to], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns the verdicts on a stream's tests in `from..to` (ns since 1970).
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn verdicts(&self, stream: i64, from: i64, to: i64) -> Result<Verdicts, ArchiveError> {
        if self.is_united() {
            let found =
                self.at_places(stream, |member, local| Ok(member.verdicts(local, from, to)?.tests))?;
            let mut tests: Vec<_> = found.into_iter().flatten().collect();
            tests.sort_by_key(|(at, _, id)| (*at, *id));
            tests.dedup_by_key(|(_, _, id)| *id);
            return Ok(Verdicts { tests });
        }
        let query = "SELECT started_ns, severity, id FROM tests WHERE stream = ? AND started_ns >= ? AND started_ns < ? ORDER BY 1, 3";
        let run = || {
            let mut tests = self.db.prepare_cached(query)?;
            let take = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, TestId(row.get(2)?)));
            tests.query_map(params![stream, from, to], take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        Ok(Verdicts { tests: run().map_err(self.sql("reading"))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(all: &[(i64, &str)]) -> Verdicts {
        Verdicts { tests: all.iter().map(|(at, s)| (*at, (*s).to_owned(), TestId(*at))).collect() }
    }

    #[test]
    fn changes_are_where_tests_become_bad_and_cease_to_be() {
        let of = verdicts(&[(0, "good"), (1, "fair"), (2, "poor"), (3, "unknown"), (4, "bad"), (5, "good")]);
        assert_eq!(of.changes().map(|(at, bad, _)| (at, bad)).collect::<Vec<_>>(), [(2, true), (5, false)]);
        assert_eq!(verdicts(&[(0, "bad"), (1, "bad")]).changes().count(), 0);
    }

    #[test]
    fn a_gap_is_longer_than_three_distances() {
        let of =
            verdicts(&[(0, "good"), (10, "good"), (20, "good"), (51, "good"), (60, "good"), (89, "good")]);
        assert_eq!(of.usual_distance(), Some(10));
        assert_eq!(of.gaps(), [(20, 51)]);
        assert!(verdicts(&[(0, "good"), (1000, "good")]).gaps().is_empty());
    }
}
