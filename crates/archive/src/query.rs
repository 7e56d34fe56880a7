//! [`Archive::query`]: figures of each stream over time.
//!
//! Whole periods in UTC are read from roll-ups. Periods of another time zone, and hours of the week, are composed of the
//! longest roll-ups that fit. Roll-ups have neither tags nor verdicts: if a filter has such conditions, the stored pools of the
//! tests are merged instead, and tests that were removed are left out.

use crate::calendar::Zone;
use crate::catalogue::figure_columns;
use crate::error::ArchiveError;
use crate::find::{Filter, TABLES};
use crate::packed::{read_figures, read_pool};
use crate::rollup::RollupError;
use crate::{Archive, PoolPeriod, PooledStream, TestId};
use jitlat_core::pool::{self, Pool, PoolScalar};
use jitlat_core::scalars::{SCALARS, Scalar};
use rusqlite::params_from_iter;
use rusqlite::types::Value;
use std::collections::BTreeMap;

/// Periods into which tests are pooled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Length of the periods.
    pub length: PoolPeriod,
    /// Time zone in which they begin.
    pub zone: Zone,
}

impl From<PoolPeriod> for Periods {
    /// Returns periods in UTC.
    fn from(length: PoolPeriod) -> Periods {
        Periods { length, zone: Zone::default() }
    }
}

/// Figures of one period.
#[derive(Clone, Debug, PartialEq)]
pub struct PeriodValues {
    /// Start of the period, ns since 1970. If all tests are pooled, start of the first test.
    pub start_ns: i64,
    /// Number of the test, if the period is a single test; otherwise `None`.
    pub test: Option<String>,
    /// Number of tests pooled.
    pub tests: u64,
    /// Number of packets sent in these tests.
    pub sent: u64,
    /// The figures in the order in which they were requested, each in its own unit; `None` if undefined.
    pub values: Vec<Option<f64>>,
}

impl PeriodValues {
    fn of(start_ns: i64, pool: &Pool, figures: &[&Scalar]) -> PeriodValues {
        let values = figures.iter().map(|figure| pool.scalar(figure)).collect();
        PeriodValues { start_ns, test: None, tests: pool.tests, sent: pool.sent, values }
    }

    fn stored(start_ns: i64, found: &[PoolScalar]) -> PeriodValues {
        let first = found.first();
        PeriodValues {
            start_ns,
            test: None,
            tests: first.map_or(0, |f| f.tests),
            sent: first.map_or(0, |f| f.sent),
            values: found.iter().map(|f| f.value).collect(),
        }
    }
}

/// Checks that periods have each of the figures.
pub(crate) fn check(figures: &[&Scalar]) -> Result<(), ArchiveError> {
    let Some(figure) = figures.iter().find(|figure| !pool::has(figure)) else { return Ok(()) };
    let pooled: Vec<&str> = SCALARS.iter().filter(|f| pool::has(f)).map(|f| f.key).collect();
    Err(ArchiveError::Usage(format!(
        "{0} applies to single tests, not to periods: `jitlat archive ls --figure {0}` shows it for each test. Figures of \
         periods: {1}",
        figure.key,
        pooled.join(", ")
    )))
}

impl Archive {
    /// Returns, for each stream that matches `filter`, the values of `figures` in each of the periods `by` that has tests.
    ///
    /// # Errors
    /// [`ArchiveError::Usage`] for a figure that cannot be pooled, and other errors if the catalogue cannot be
    /// read.
    pub fn query(
        &self,
        filter: &Filter,
        figures: &[&Scalar],
        by: impl Into<Periods>,
    ) -> Result<Vec<(PooledStream, Vec<PeriodValues>)>, ArchiveError> {
        check(figures)?;
        let by = by.into();
        let mut all = Vec::new();
        for (id, stream) in self.streams_of(filter)? {
            let points = match by.length {
                PoolPeriod::Test => self.tests_of(id, filter, figures)?,
                _ if filter.selects_single_tests() => self.periods_of_tests(id, filter, figures, &by)?,
                _ => self.periods_of_rollups(id, filter, figures, &by)?,
            };
            if !points.is_empty() {
                all.push((stream, points));
            }
        }
        Ok(all)
    }

    /// Returns true if tests were removed from the archive whose share in the figures of periods remains: such a share has neither tags
    /// nor verdicts.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn has_removed_tests(&self) -> Result<bool, ArchiveError> {
        if self.is_united() {
            return self.any(Archive::has_removed_tests);
        }
        self.db
            .query_row("SELECT EXISTS (SELECT 1 FROM kept)", [], |row| row.get(0))
            .map_err(self.sql("reading"))
    }

    fn periods_of_rollups(
        &self,
        id: i64,
        filter: &Filter,
        figures: &[&Scalar],
        by: &Periods,
    ) -> Result<Vec<PeriodValues>, ArchiveError> {
        let (from, to) = filter.range();
        let spans = self.parts(id, &|at| by.zone.around(by.length, at), from, to)?;
        let is_stored = by.zone.is_utc() && filter.hours.is_none();
        let stored = match is_stored {
            true => self.stored_in_one_pass(id, by.length, from, to, |bytes| read_figures(bytes, figures))?,
            false => BTreeMap::new(),
        };
        let mut points = Vec::new();
        for (start, end) in spans {
            let start_ns = if by.length == PoolPeriod::All { self.first(id, from)? } else { start };
            let point = match stored.get(&start).filter(|_| end <= to) {
                Some(known) => PeriodValues::stored(start_ns, known),
                None => {
                    let pool = self.selected(id, filter, by.length, start.max(from), end.min(to))?;
                    PeriodValues::of(start_ns, &pool, figures)
                }
            };
            if point.tests > 0 {
                points.push(point);
            }
        }
        Ok(points)
    }

    /// Returns the pool of the tests of a stream that started in `from..to` (ns since 1970) and within the hours of `filter`, from
    /// roll-ups. Other conditions of the filter are not applied.
    pub(crate) fn selected(
        &self,
        stream: i64,
        filter: &Filter,
        period: PoolPeriod,
        from: i64,
        to: i64,
    ) -> Result<Pool, ArchiveError> {
        let Some(hours) = &filter.hours else { return self.pool(stream, period, from, to) };
        let mut all = Pool::default();
        // Only months with tests are searched for these hours.
        for (start, end) in self.parts(stream, &|at| PoolPeriod::Month.around(at), from, to)? {
            for (start, end) in hours.within(start.max(from), end.min(to)) {
                all.merge(&self.pool(stream, PoolPeriod::Day, start, end)?);
            }
        }
        Ok(all)
    }

    /// Calls `take` with the start and the pool of each test of a stream that matches `filter`, in order of time.
    pub(crate) fn each_test(
        &self,
        stream: i64,
        filter: &Filter,
        mut take: impl FnMut(i64, &Pool),
    ) -> Result<(), ArchiveError> {
        if self.is_united() {
            return self.united_each_test(stream, filter, take);
        }
        let (condition, mut values) = filter.condition(self)?;
        let query = format!(
            "SELECT t.started_ns, t.pool FROM {TABLES} WHERE {condition} AND t.stream = ? ORDER BY t.started_ns, t.id"
        );
        values.push(Value::Integer(stream));
        let run = || -> Result<(), RollupError> {
            let mut tests = self.db.prepare_cached(&query)?;
            let mut rows = tests.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                let at = row.get(0)?;
                if filter.has_hour(at) {
                    let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                    take(at, &read_pool(bytes).map_err(RollupError::Other)?);
                }
            }
            Ok(())
        };
        self.known_failure(run())
    }

    /// Returns the start and the identifier of each test of a stream that matches `filter`, in order of time.
    pub(crate) fn selected_starts(
        &self,
        stream: i64,
        filter: &Filter,
    ) -> Result<Vec<(i64, i64)>, ArchiveError> {
        let (condition, mut values) = filter.condition(self)?;
        let query = format!(
            "SELECT t.started_ns, t.id FROM {TABLES} WHERE {condition} AND t.stream = ? ORDER BY t.started_ns, t.id"
        );
        values.push(Value::Integer(stream));
        let run = || {
            let mut tests = self.db.prepare_cached(&query)?;
            let found = tests.query_map(params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
            found.collect::<rusqlite::Result<Vec<(i64, i64)>>>()
        };
        let mut found = run().map_err(self.sql("reading"))?;
        found.retain(|(at, _)| filter.has_hour(*at));
        Ok(found)
    }

    fn periods_of_tests(
        &self,
        id: i64,
        filter: &Filter,
        figures: &[&Scalar],
        by: &Periods,
    ) -> Result<Vec<PeriodValues>, ArchiveError> {
        let mut pools: BTreeMap<i64, (i64, Pool)> = BTreeMap::new();
        self.each_test(id, filter, |at, pool| {
            let (start, _) = by.zone.around(by.length, at);
            pools.entry(start).or_insert_with(|| (at, Pool::default())).1.merge(pool);
        })?;
        let start_ns = |start: i64, first: i64| if by.length == PoolPeriod::All { first } else { start };
        let point = |(start, (first, pool))| PeriodValues::of(start_ns(start, first), &pool, figures);
        Ok(pools.into_iter().map(point).collect())
    }

    /// Returns the pool of each stream that matches `filter`, computed from the tests that started in the filter's time
    /// range.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn pools(&self, filter: &Filter) -> Result<Vec<(PooledStream, Pool)>, ArchiveError> {
        let (from, to) = filter.range();
        let pool = |(id, stream)| {
            let mut pool = Pool::default();
            if filter.selects_single_tests() {
                self.each_test(id, filter, |_, test| pool.merge(test))?;
            } else {
                pool = self.selected(id, filter, PoolPeriod::All, from, to)?;
            }
            Ok((stream, pool))
        };
        self.streams_of(filter)?.into_iter().map(pool).collect()
    }

    fn first(&self, stream: i64, from: i64) -> Result<i64, ArchiveError> {
        if self.is_united() {
            let firsts = self.at_places(stream, |member, local| member.first(local, from))?;
            // A member without tests from that time on has 0.
            return Ok(firsts.into_iter().filter(|first| *first != 0).min().unwrap_or(0));
        }
        let query = "SELECT coalesce(min(started_ns), 0) FROM tests WHERE stream = ? AND started_ns >= ?";
        self.db.query_row(query, [stream, from], |row| row.get(0)).map_err(self.sql("reading"))
    }

    /// Returns the stored figures of each test that matches `filter`. If a test was added before a figure existed, the figure
    /// is computed from the test's pool.
    fn tests_of(
        &self,
        stream: i64,
        filter: &Filter,
        figures: &[&Scalar],
    ) -> Result<Vec<PeriodValues>, ArchiveError> {
        if self.is_united() {
            let found =
                self.at_places(stream, |member, local| match member.tests_of(local, filter, figures) {
                    Err(ArchiveError::Usage(_)) => Ok(Vec::new()),
                    found => found,
                })?;
            let mut all: Vec<PeriodValues> = found.into_iter().flatten().collect();
            all.sort_by(|a, b| (a.start_ns, &a.test).cmp(&(b.start_ns, &b.test)));
            all.dedup_by(|later, first| later.test == first.test);
            return Ok(all);
        }
        let (condition, mut values) = filter.condition(self)?;
        values.push(Value::Integer(stream));
        let run = || -> Result<Vec<PeriodValues>, RollupError> {
            let there = figure_columns(&self.db)?;
            let column =
                |key: &str| if there.contains(key) { format!("f.\"{key}\"") } else { "NULL".to_owned() };
            let sent = column("sent");
            let columns: Vec<String> = figures.iter().map(|figure| column(figure.key)).collect();
            let missing: String = columns.iter().map(|column| format!(" OR {column} IS NULL")).collect();
            let query = format!(
                "SELECT t.id, t.started_ns, {sent}, CASE WHEN {sent} IS NULL{missing} THEN t.pool END{} \
                 FROM {TABLES} JOIN figures f ON f.test = t.number WHERE {condition} AND t.stream = ? \
                 ORDER BY t.started_ns, t.id",
                columns.iter().map(|column| format!(", {column}")).collect::<String>()
            );
            let mut tests = self.db.prepare_cached(&query)?;
            let mut rows = tests.query(params_from_iter(values))?;
            let mut points = Vec::new();
            while let Some(row) = rows.next()? {
                let start_ns = row.get(1)?;
                if !filter.has_hour(start_ns) {
                    continue;
                }
                let mut sent = row.get::<_, Option<f64>>(2)?.unwrap_or(0.0) as u64;
                let stored = (0..figures.len()).map(|k| row.get(4 + k));
                let mut values: Vec<Option<f64>> = stored.collect::<rusqlite::Result<_>>()?;
                if let Some(bytes) = row.get_ref(3)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
                    let pool = read_pool(bytes).map_err(RollupError::Other)?;
                    sent = pool.sent;
                    values
                        .iter_mut()
                        .zip(figures)
                        .for_each(|(value, figure)| *value = value.or_else(|| pool.scalar(figure)));
                }
                let test = Some(TestId(row.get(0)?).to_string());
                points.push(PeriodValues { start_ns, test, tests: 1, sent, values });
            }
            Ok(points)
        };
        self.known_failure(run())
    }
}
