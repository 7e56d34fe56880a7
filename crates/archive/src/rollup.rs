//! Roll-ups: the pool of all tests of a stream within an hour, a day, a month.
//!
//! An hour is pooled from its tests, a day from its hours, a month from its days. Pooling is independent of order and
//! grouping, so each result equals the pool of the packets themselves.
//!
//! Stored pools are updated as tests are added. A test is added to its hour. An hour is added to its day when a test of
//! another hour arrives, and a day is added to its month when the next day begins, so that the large pools are rarely
//! written. A pool that has been added to the next longer period is marked `pooled`. The pool of a period is therefore
//! its stored row plus all shorter periods in it that are not marked. If a test belongs to a period that is already
//! `pooled`, it is also added to the longer periods that contain it. A pool that is not stored is computed and stored
//! by the first query for it.

use crate::Archive;
use crate::error::ArchiveError;
use crate::packed::{pack_pool, read_pool};
use core::str::FromStr;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use jitlat_core::pool::Pool;
use jitlat_core::session::PASSIVE;
use jitlat_core::{Direction, Session, Transport};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Length of the periods into which tests are pooled. All periods are in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolPeriod {
    /// Each test separately.
    Test,
    /// Hours.
    Hour,
    /// Days.
    Day,
    /// Calendar months.
    Month,
    /// Calendar years.
    Year,
    /// All tests together.
    All,
}

impl PoolPeriod {
    /// All periods, with their names.
    pub const NAMES: [(&str, PoolPeriod); 6] = [
        ("test", PoolPeriod::Test),
        ("hour", PoolPeriod::Hour),
        ("day", PoolPeriod::Day),
        ("month", PoolPeriod::Month),
        ("year", PoolPeriod::Year),
        ("all", PoolPeriod::All),
    ];

    /// Returns the name as used in options.
    pub fn name(self) -> &'static str {
        PoolPeriod::NAMES.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }

    /// Returns the start of the period that contains `at`, and the start of the next period.
    pub(crate) fn around(self, at: i64) -> (i64, i64) {
        const HOUR: i64 = 3_600_000_000_000;
        let whole = |length: i64| {
            let start = at.div_euclid(length).saturating_mul(length);
            (start, start.saturating_add(length))
        };
        let date = date(at);
        let between = |first: Option<Date>, next: fn(Date) -> Option<Date>| {
            let first = first?;
            Some((start(first)?, start(next(first)?)?))
        };
        match self {
            PoolPeriod::Test => (at, at.saturating_add(1)),
            PoolPeriod::Hour => whole(HOUR),
            PoolPeriod::Day => whole(24 * HOUR),
            PoolPeriod::Month => between(Some(date.first_of_month()), |d| d.checked_add(1.month()).ok())
                .unwrap_or((at, i64::MAX)),
            PoolPeriod::Year => between(Some(date.first_of_year()), |d| d.checked_add(1.year()).ok())
                .unwrap_or((at, i64::MAX)),
            PoolPeriod::All => (i64::MIN, i64::MAX),
        }
    }

    /// Returns the shorter period from whose pools the pools of this period are computed.
    fn part(self) -> PoolPeriod {
        match self {
            PoolPeriod::Test | PoolPeriod::Hour => PoolPeriod::Test,
            PoolPeriod::Day => PoolPeriod::Hour,
            PoolPeriod::Month => PoolPeriod::Day,
            PoolPeriod::Year | PoolPeriod::All => PoolPeriod::Month,
        }
    }

    /// Returns the longer stored period to which the pools of this period are added; `None` if there is none.
    fn longer(self) -> Option<PoolPeriod> {
        match self {
            PoolPeriod::Hour => Some(PoolPeriod::Day),
            PoolPeriod::Day => Some(PoolPeriod::Month),
            _ => None,
        }
    }

    pub(crate) fn is_stored(self) -> bool {
        matches!(self, PoolPeriod::Hour | PoolPeriod::Day | PoolPeriod::Month)
    }
}

impl FromStr for PoolPeriod {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<PoolPeriod, ArchiveError> {
        let found = PoolPeriod::NAMES.iter().find(|(name, _)| *name == text);
        let all = PoolPeriod::NAMES.map(|(name, _)| name).join(", ");
        found
            .map(|(_, p)| *p)
            .ok_or_else(|| ArchiveError::Usage(format!("'{text}' is not a period: choose one of {all}")))
    }
}

fn date(at: i64) -> Date {
    let at = Timestamp::from_nanosecond(at.into()).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).date()
}

fn start(date: Date) -> Option<i64> {
    i64::try_from(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond()).ok()
}

/// Formats a time as `2026-11-23 10:00:00`, UTC.
pub fn utc(at: i64) -> String {
    let at = Timestamp::from_nanosecond(at.into()).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).datetime().to_string().replace('T', " ").chars().take(19).collect()
}

/// Returns the day of a time as used in names of folders.
pub(crate) fn day_name(at: i64) -> String {
    date(at).to_string()
}

/// A stream: all tests of the same traffic between two hosts. Their packets can be pooled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PooledStream {
    /// Address of the sender; `-` if unknown.
    pub src: String,
    /// Address of the receiver; `-` if unknown.
    pub dst: String,
    /// Protocol: `udp` or `tcp` for one-way tests, otherwise the protocol of the round trips.
    pub protocol: String,
    /// Direction: `up`, `down`, `both` for round trips, `-` if unknown.
    pub direction: String,
    /// Payload size of a packet, in bytes; null if unknown.
    pub payload_bytes: Option<i64>,
    /// Mean time between packets, in ns; null if unknown.
    pub period_ns: Option<i64>,
    /// DSCP of the packets.
    pub dscp: i64,
}

impl PooledStream {
    /// Reads columns 1 to 7 of a row: addresses, and the columns of `streams` in their order.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<PooledStream> {
        let known = |x: i64| (x >= 0).then_some(x);
        Ok(PooledStream {
            src: row.get(1)?,
            dst: row.get(2)?,
            protocol: row.get(3)?,
            direction: row.get(4)?,
            payload_bytes: known(row.get(5)?),
            period_ns: known(row.get(6)?),
            dscp: row.get(7)?,
        })
    }

    /// Returns the stream to which a test belongs.
    pub fn of(session: &Session) -> PooledStream {
        let address = |address: Option<IpAddr>| address.map_or_else(|| "-".to_owned(), |a| a.to_string());
        let protocol = match (&session.two_way, session.spec.transport()) {
            // Captured traffic of other programs: one stream per capture of a monitor.
            _ if is_captured(session) => format!("captured {}", session.name.as_deref().unwrap_or_default()),
            (Some(two_way), _) => two_way.protocol.clone(),
            (None, Transport::Udp) => "udp".to_owned(),
            (None, Transport::Tcp) => "tcp".to_owned(),
        };
        let direction = match (&session.two_way, session.direction_known, session.spec.direction()) {
            (Some(_), ..) => "both",
            (None, false, _) => "-",
            (None, true, Direction::Up) => "up",
            (None, true, Direction::Down) => "down",
        };
        PooledStream {
            src: address(session.src),
            dst: address(session.dst),
            protocol,
            direction: direction.to_owned(),
            payload_bytes: session.payload().map(i64::from),
            period_ns: session.period().map(|p| p.0),
            dscp: session.spec.dscp.value().into(),
        }
    }
}

/// True if the test was captured by a monitor.
fn is_captured(session: &Session) -> bool {
    let has = |key: &str, value: Option<&str>| {
        session.tags.iter().any(|(k, v)| k == key && value.is_none_or(|value| v == value))
    };
    has("instrument", Some(PASSIVE)) && has("test", None) && session.name.is_some()
}

/// Returns the start of the hour that contains `at`.
pub(crate) fn hour(at: i64) -> i64 {
    PoolPeriod::Hour.around(at).0
}

/// Adds `pool` to each roll-up to which it belongs. `pool` contains tests that were just added, all of one stream and
/// within the hour of `at`.
pub(crate) fn add(all: &Transaction<'_>, stream: i64, at: i64, pool: &Pool) -> rusqlite::Result<()> {
    let run = || {
        let (start, end) = PoolPeriod::Hour.around(at);
        if !raise(all, stream, PoolPeriod::Hour, start, pool)? {
            pool_of(all, stream, PoolPeriod::Hour, start, end, true)?;
            close(all, stream, PoolPeriod::Hour, start)?;
        }
        Ok(())
    };
    match run() {
        Err(RollupError::Sql(e)) => Err(e),
        // If a roll-up cannot be read, remove it. The next query computes it again.
        Err(RollupError::Other(_)) => forget(all, stream, at),
        Ok(()) => Ok(()),
    }
}

/// Removes the roll-ups to which a test belongs.
fn forget(all: &Transaction<'_>, stream: i64, at: i64) -> rusqlite::Result<()> {
    for period in [PoolPeriod::Hour, PoolPeriod::Day, PoolPeriod::Month] {
        let (start, _) = period.around(at);
        let delete = "DELETE FROM rollups WHERE (stream, unit, start_ns) = (?, ?, ?)";
        all.execute(delete, params![stream, period.name(), start])?;
    }
    Ok(())
}

/// Adds `pool` to the stored roll-up of the period that begins at `start`, and to all longer roll-ups to which that
/// roll-up has been added. Returns false if the roll-up is not stored.
fn raise(
    db: &Connection,
    stream: i64,
    period: PoolPeriod,
    start: i64,
    pool: &Pool,
) -> Result<bool, RollupError> {
    let query = "SELECT pool, pooled FROM rollups WHERE (stream, unit, start_ns) = (?, ?, ?)";
    let mut stored = db.prepare_cached(query)?;
    let take = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, bool>(1)?));
    let found = stored.query_row(params![stream, period.name(), start], take).optional()?;
    let Some((bytes, pooled)) = found else { return Ok(false) };
    let mut both = read_pool(&bytes).map_err(RollupError::Other)?;
    both.merge(pool);
    let update = "UPDATE rollups SET tests = ?, pool = ? WHERE (stream, unit, start_ns) = (?, ?, ?)";
    db.prepare_cached(update)?.execute(params![
        both.tests as i64,
        pack_pool(&both),
        stream,
        period.name(),
        start
    ])?;
    if let Some(longer) = period.longer().filter(|_| pooled) {
        raise(db, stream, longer, longer.around(start).0, pool)?;
    }
    Ok(true)
}

/// Adds the roll-ups of `period` to those of the next longer period, except the roll-up that begins at `current`.
fn close(db: &Connection, stream: i64, period: PoolPeriod, current: i64) -> Result<(), RollupError> {
    let Some(longer) = period.longer() else { return Ok(()) };
    for start in open(db, stream, period, i64::MIN, i64::MAX)?.into_iter().filter(|start| *start != current) {
        let (from, to) = longer.around(start);
        if !fold(db, stream, period, start, longer, from)? {
            pool_of(db, stream, longer, from, to, true)?;
            close(db, stream, longer, from)?;
        }
    }
    Ok(())
}

/// Returns the starts, in `start..end`, of the roll-ups of `period` that have not been added to the next longer period.
fn open(
    db: &Connection,
    stream: i64,
    period: PoolPeriod,
    start: i64,
    end: i64,
) -> rusqlite::Result<Vec<i64>> {
    let query = "SELECT start_ns FROM rollups WHERE (stream, unit, pooled) = (?, ?, 0) AND start_ns >= ? AND start_ns < ?";
    let mut open = db.prepare_cached(query)?;
    open.query_map(params![stream, period.name(), start, end], |row| row.get(0))?.collect()
}

/// Adds the roll-up of `period` that begins at `start` to the roll-up of `longer` that begins at `from`. Returns false
/// if the longer roll-up is not stored.
fn fold(
    db: &Connection,
    stream: i64,
    period: PoolPeriod,
    start: i64,
    longer: PoolPeriod,
    from: i64,
) -> Result<bool, RollupError> {
    let query = "SELECT pool FROM rollups WHERE (stream, unit, start_ns, pooled) = (?, ?, ?, 0)";
    let mut found = db.prepare_cached(query)?;
    let found = found.query_row(params![stream, period.name(), start], |row| row.get::<_, Vec<u8>>(0));
    // Another writer may have added this roll-up while the longer roll-up was computed.
    let Some(bytes) = found.optional()? else { return Ok(true) };
    let there = raise(db, stream, longer, from, &read_pool(&bytes).map_err(RollupError::Other)?)?;
    if there {
        mark(db, stream, period, start, start.saturating_add(1))?;
    }
    Ok(there)
}

/// Marks the roll-ups of `period` that begin in `start..end` as added to the next longer period.
fn mark(db: &Connection, stream: i64, period: PoolPeriod, start: i64, end: i64) -> rusqlite::Result<()> {
    let update = "UPDATE rollups SET pooled = 1 WHERE (stream, unit, pooled) = (?, ?, 0) AND start_ns >= ? AND start_ns < ?";
    db.prepare_cached(update)?.execute(params![stream, period.name(), start, end]).map(drop)
}

/// Returns the stored pool of a period; `None` if it is not stored. Uses a single statement, so that no writer can move
/// parts of the pool between roll-ups in the meantime.
fn stored(
    db: &Connection,
    stream: i64,
    period: PoolPeriod,
    start: i64,
    end: i64,
) -> Result<Option<Pool>, RollupError> {
    let query = "SELECT unit, pool FROM rollups WHERE (stream, unit, start_ns) = (?1, ?2, ?3) UNION ALL \
                 SELECT unit, pool FROM rollups WHERE (stream, unit, pooled) = (?1, ?5, 0) AND start_ns >= ?3 AND start_ns < ?4 \
                 UNION ALL \
                 SELECT unit, pool FROM rollups WHERE (stream, unit, pooled) = (?1, ?6, 0) AND start_ns >= ?3 AND start_ns < ?4";
    let shorter = |period: PoolPeriod| Some(period.part()).filter(|p| p.is_stored());
    let name = |period: Option<PoolPeriod>| period.map_or("", PoolPeriod::name);
    let part = shorter(period);
    let units = (name(part), name(part.and_then(shorter)));
    let mut rows = db.prepare_cached(query)?;
    let mut rows = rows.query(params![stream, period.name(), start, end, units.0, units.1])?;
    let (mut pool, mut whole) = (None::<Pool>, false);
    while let Some(row) = rows.next()? {
        whole |= row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? == period.name();
        let found = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let found = read_pool(found).map_err(RollupError::Other)?;
        match &mut pool {
            Some(pool) => pool.merge(&found),
            None => pool = Some(found),
        }
    }
    Ok(pool.filter(|_| whole))
}

/// An error of the catalogue, or of a pool in it.
pub(crate) enum RollupError {
    Sql(rusqlite::Error),
    Other(ArchiveError),
}

impl From<rusqlite::Error> for RollupError {
    fn from(e: rusqlite::Error) -> RollupError {
        RollupError::Sql(e)
    }
}

/// Returns the pool of a stream in `start..end`, from roll-ups where possible. If `store` is true, newly computed
/// roll-ups are stored.
fn pool_of(
    db: &Connection,
    stream: i64,
    period: PoolPeriod,
    start: i64,
    end: i64,
    store: bool,
) -> Result<Pool, RollupError> {
    let read = |bytes: &[u8]| read_pool(bytes).map_err(RollupError::Other);
    if period.is_stored()
        && let Some(pool) = stored(db, stream, period, start, end)?
    {
        return Ok(pool);
    }
    let mut pool = Pool::default();
    if period.part() == PoolPeriod::Test {
        let query = "SELECT pool FROM tests WHERE stream = ?1 AND started_ns >= ?2 AND started_ns < ?3 \
                     UNION ALL SELECT pool FROM kept WHERE stream = ?1 AND hour_ns >= ?2 AND hour_ns < ?3";
        let mut tests = db.prepare_cached(query)?;
        let mut rows = tests.query(params![stream, start, end])?;
        while let Some(row) = rows.next()? {
            pool.merge(&read(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?);
        }
    } else {
        for (from, to) in parts(db, stream, period.part(), start, end)? {
            pool.merge(&pool_of(db, stream, period.part(), from, to, store)?);
            // Add the shorter periods that are missing in the stored roll-up, and mark them, so that they are not
            // counted twice.
            let (part, shorter) = (period.part(), period.part().part());
            if store && part.is_stored() && shorter.is_stored() {
                for start in open(db, stream, shorter, from, to)? {
                    fold(db, stream, shorter, start, part, from)?;
                }
            }
        }
    }
    if store && period.is_stored() && pool.tests > 0 {
        let insert =
            "INSERT OR REPLACE INTO rollups(stream, unit, start_ns, tests, pool) VALUES (?, ?, ?, ?, ?)";
        db.prepare_cached(insert)?.execute(params![
            stream,
            period.name(),
            start,
            pool.tests as i64,
            pack_pool(&pool)
        ])?;
        mark(db, stream, period.part(), start, end)?;
    }
    Ok(pool)
}

/// Returns the start and the end of each `period`, in UTC, within `start..end` in which a stream has tests.
fn parts(
    db: &Connection,
    stream: i64,
    period: PoolPeriod,
    start: i64,
    end: i64,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    parts_around(db, stream, |at| period.around(at), start, end)
}

/// Like [`parts`], for periods of any calendar: `around` returns the start and the end of the period that contains a time.
fn parts_around(
    db: &Connection,
    stream: i64,
    around: impl Fn(i64) -> (i64, i64),
    start: i64,
    end: i64,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    // Finds the next test, or the next hour with a roll-up, from a given time on.
    let query = "SELECT min(at) FROM (SELECT min(started_ns) AS at FROM tests WHERE stream = ?1 AND started_ns >= ?2 \
                 UNION ALL SELECT min(hour_ns) FROM kept WHERE stream = ?1 AND hour_ns >= ?2)";
    let mut next = db.prepare_cached(query)?;
    let (mut all, mut at) = (Vec::new(), start);
    while let Some(found) = next.query_row(params![stream, at], |row| row.get::<_, Option<i64>>(0))? {
        if found >= end {
            break;
        }
        let (from, to) = around(found);
        all.push((from, to));
        if to <= at || to == i64::MAX {
            break;
        }
        at = to;
    }
    Ok(all)
}

impl Archive {
    /// Returns the periods in which a stream has tests, like [`parts_around`].
    pub(crate) fn parts(
        &self,
        stream: i64,
        around: &dyn Fn(i64) -> (i64, i64),
        start: i64,
        end: i64,
    ) -> Result<Vec<(i64, i64)>, ArchiveError> {
        if self.is_united() {
            let found = self.at_places(stream, |member, local| member.parts(local, around, start, end))?;
            let mut all: Vec<(i64, i64)> = found.into_iter().flatten().collect();
            all.sort_unstable();
            all.dedup();
            return Ok(all);
        }
        parts_around(&self.db, stream, around, start, end).map_err(self.sql("reading"))
    }

    /// Applies `read` to the stored roll-ups of a stream that begin in `from..to`, in order of start time. This takes
    /// one pass and does not decode whole pools. Skips roll-ups that are unreadable, and those that do not include all
    /// of their shorter periods.
    pub(crate) fn stored_in_one_pass<T>(
        &self,
        stream: i64,
        period: PoolPeriod,
        from: i64,
        to: i64,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<BTreeMap<i64, T>, ArchiveError> {
        if self.is_united() {
            return match self.only_place(stream)? {
                Some((member, local)) => member.stored_in_one_pass(local, period, from, to, read),
                None => Ok(BTreeMap::new()),
            };
        }
        self.known_failure(self.stored_by_start(stream, period, from, to, read))
    }

    fn stored_by_start<T>(
        &self,
        stream: i64,
        period: PoolPeriod,
        from: i64,
        to: i64,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<BTreeMap<i64, T>, RollupError> {
        let mut found = BTreeMap::new();
        if !period.is_stored() {
            return Ok(found);
        }
        // A single transaction gives a consistent view.
        let moment = self.db.unchecked_transaction()?;
        let query = "SELECT start_ns, pool FROM rollups WHERE (stream, unit) = (?, ?) AND start_ns >= ? AND start_ns < ?";
        let mut stored = moment.prepare_cached(query)?;
        let mut rows = stored.query(params![stream, period.name(), from, to])?;
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            if let Some(of) = read(bytes) {
                found.insert(row.get(0)?, of);
            }
        }
        let mut shorter = period.part();
        while shorter.is_stored() {
            for start in open(&moment, stream, shorter, i64::MIN, i64::MAX)? {
                found.remove(&period.around(start).0);
            }
            shorter = shorter.part();
        }
        Ok(found)
    }

    pub(crate) fn known_failure<T>(&self, result: Result<T, RollupError>) -> Result<T, ArchiveError> {
        result.map_err(|failure| match failure {
            RollupError::Sql(e) => self.sql("reading")(e),
            RollupError::Other(e) => e,
        })
    }

    /// Returns the pool of a stream in `start..end`. Whole periods come from roll-ups, the rest from shorter periods.
    pub(crate) fn pool(
        &self,
        stream: i64,
        period: PoolPeriod,
        start: i64,
        end: i64,
    ) -> Result<Pool, ArchiveError> {
        if self.is_united() {
            return self.united_pool(stream, period, start, end);
        }
        // Use the longest periods that fit between `start` and `end`.
        let mut pool = Pool::default();
        let mut spans = vec![(period, start, end)];
        while let Some((period, start, end)) = spans.pop() {
            let whole = period.is_stored() && period.around(start) == (start, end);
            if whole || period == PoolPeriod::Test {
                let found = self.stored_pool(stream, period, start, end)?;
                if pool.tests == 0 {
                    pool = found;
                } else {
                    pool.merge(&found);
                }
                continue;
            }
            if period == PoolPeriod::Hour {
                spans.push((PoolPeriod::Test, start, end));
                continue;
            }
            for (from, to) in
                parts(&self.db, stream, period.part(), start, end).map_err(self.sql("reading"))?
            {
                spans.push((period.part(), from.max(start), to.min(end)));
            }
        }
        Ok(pool)
    }

    /// Returns a pool and, if possible, stores it for the next query.
    fn stored_pool(
        &self,
        stream: i64,
        period: PoolPeriod,
        start: i64,
        end: i64,
    ) -> Result<Pool, ArchiveError> {
        if !period.is_stored() {
            return self.known_failure(pool_of(&self.db, stream, PoolPeriod::Test, start, end, false));
        }
        let query = "SELECT 1 FROM rollups WHERE (stream, unit, start_ns) = (?, ?, ?)";
        let there =
            self.db.prepare_cached(query).and_then(|mut q| q.exists(params![stream, period.name(), start]));
        if !there.map_err(self.sql("reading"))? && !self.db.is_readonly("main").unwrap_or(true) {
            // A single transaction ensures that no test is added between computing and storing.
            let mut failed = None;
            let stored = self.transaction(|all| match pool_of(all, stream, period, start, end, true) {
                Ok(pool) => Ok(Some(pool)),
                Err(RollupError::Sql(e)) => Err(e),
                Err(RollupError::Other(e)) => {
                    failed = Some(e);
                    Ok(None)
                }
            });
            if let Some(e) = failed {
                return Err(e);
            }
            if let Ok(Some(pool)) = stored {
                return Ok(pool);
            }
        }
        self.known_failure(pool_of(&self.db, stream, period, start, end, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_where_the_calendar_says() {
        let at = 1_763_900_000_000_000_000; // 2025-11-23 12:13:20 UTC
        let of = |period: PoolPeriod| {
            let (from, to) = period.around(at);
            let text = |ns: i64| Timestamp::from_nanosecond(ns.into()).unwrap().to_string();
            (text(from), text(to))
        };
        assert_eq!(of(PoolPeriod::Hour), ("2025-11-23T12:00:00Z".into(), "2025-11-23T13:00:00Z".into()));
        assert_eq!(of(PoolPeriod::Day), ("2025-11-23T00:00:00Z".into(), "2025-11-24T00:00:00Z".into()));
        assert_eq!(of(PoolPeriod::Month), ("2025-11-01T00:00:00Z".into(), "2025-12-01T00:00:00Z".into()));
        assert_eq!(of(PoolPeriod::Year), ("2025-01-01T00:00:00Z".into(), "2026-01-01T00:00:00Z".into()));
        for period in [PoolPeriod::Hour, PoolPeriod::Day, PoolPeriod::Month, PoolPeriod::Year] {
            for at in [i64::MIN, -1, 0, i64::MAX] {
                let (from, to) = period.around(at);
                assert!(from <= at && at <= to, "{period:?} {at}");
            }
        }
    }
}
