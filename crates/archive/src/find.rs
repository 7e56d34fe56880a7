//! [`Filter`]: conditions on tests. [`Archive::list`] returns the catalogue entries of the tests that meet them.

use crate::calendar::{WeekHours, Zone};
use crate::catalogue::unsigned;
use crate::error::ArchiveError;
use crate::{Archive, TestId};
use core::str::FromStr;
use jitlat_core::WallTime;
use jitlat_core::answer::Severity;
use jitlat_core::scalars::Selector;
use rusqlite::types::Value;
use rusqlite::{Row as SqlRow, params_from_iter};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two hosts, from sender to receiver: `A:B`. An empty name matches any host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints(String);

impl FromStr for Endpoints {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<Endpoints, ArchiveError> {
        if text.contains(':') && text.len() < 600 {
            return Ok(Endpoints(text.to_owned()));
        }
        Err(ArchiveError::Usage(format!(
            "'{text}' is not a path: write A:B, the addresses or names of two hosts; either may be empty"
        )))
    }
}

/// A point in time: `2026-11-23`, `2026-11-23T10:00`, `2026-11-23T10:00:00Z`, or a time span before now: `90m`, `36h`, `7d`, `8w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(pub WallTime);

impl When {
    /// Parses `text`; relative times count back from `now`, and dates and times without an offset are in UTC.
    ///
    /// # Errors
    /// [`ArchiveError::Usage`].
    pub fn parse(text: &str, now: WallTime) -> Result<When, ArchiveError> {
        When::parse_in(text, now, &Zone::default())
    }

    /// Parses `text` like [`When::parse`]; dates and times without an offset are in `zone`.
    ///
    /// # Errors
    /// [`ArchiveError::Usage`].
    pub fn parse_in(text: &str, now: WallTime, zone: &Zone) -> Result<When, ArchiveError> {
        let second = 1_000_000_000i64;
        let unit = match text.as_bytes().last() {
            Some(b's') => second,
            Some(b'm') => 60 * second,
            Some(b'h') => 3600 * second,
            Some(b'd') => 86_400 * second,
            Some(b'w') => 7 * 86_400 * second,
            _ => 0,
        };
        let ago = text.get(..text.len().saturating_sub(1)).and_then(|n| n.parse::<u32>().ok());
        if let Some(ago) = ago.filter(|_| unit > 0) {
            return Ok(When(WallTime(now.0.saturating_sub(i64::from(ago).saturating_mul(unit)))));
        }
        let instant = text.parse::<jiff::Timestamp>().ok();
        let instant = instant.and_then(|at| i64::try_from(at.as_nanosecond()).ok());
        // A name of a zone in the text would be ignored.
        let civil = || text.parse().ok().filter(|_| !text.contains('['));
        let at = instant.or_else(|| civil().and_then(|civil| zone.instant_of(civil)));
        at.map(|ns| When(WallTime(ns))).ok_or_else(|| {
            ArchiveError::Usage(format!(
                "'{text}' is not a time: write 2026-11-23, 2026-11-23T10:00, 2026-11-23T10:00:00Z, or a time before now such as 36h or 7d"
            ))
        })
    }
}

/// Conditions on tests. An empty filter selects all tests.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Sender and receiver; `None` for all hosts.
    pub path: Option<Endpoints>,
    /// Earliest start of a test.
    pub since: Option<When>,
    /// Time before which tests must start.
    pub before: Option<When>,
    /// Tags that a test must have.
    pub tags: Vec<(String, String)>,
    /// Labels that a host of the test must have, as name and value in the monitor's file; `site` is one of them.
    pub labels: Vec<(String, String)>,
    /// Protocols, one of which a test must have; empty for all.
    pub protocols: Vec<String>,
    /// DSCPs, one of which the packets must have; empty for all.
    pub dscps: Vec<u8>,
    /// Severities, one of which the verdict must have; empty for all.
    pub severities: Vec<Severity>,
    /// Hours of the week in which a test must start; `None` for all.
    pub hours: Option<WeekHours>,
}

/// A test as listed in the catalogue.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedTest {
    /// Number of the test, 16 hexadecimal digits.
    pub id: String,
    /// Start time, ns since 1970.
    pub started_ns: i64,
    /// Name given by the user.
    pub name: Option<String>,
    /// Name that the log had when it was added.
    pub source: String,
    /// Address of the sender; `-` if unknown.
    pub src: String,
    /// Address of the receiver; `-` if unknown.
    pub dst: String,
    /// Protocol: `udp` or `tcp` for one-way tests, otherwise the protocol of the round trips.
    pub protocol: String,
    /// Direction: `up`, `down`, `both` for round trips, `-` if unknown.
    pub direction: String,
    /// Number of rows in the log.
    pub packets: u64,
    /// Size of the log in bytes.
    pub log_bytes: u64,
    /// True if the packets are still stored.
    pub has_packets: bool,
    /// Severity of the verdict: `good`, `fair`, `poor`, `bad` or `unknown`.
    pub severity: String,
    /// Headline of the verdict, on one line.
    pub headline: String,
    /// Tags of the test, including those given when it was added.
    pub tags: BTreeMap<String, String>,
    /// Requested figures, each in its own unit; null if undefined.
    pub figures: BTreeMap<String, Option<f64>>,
}

impl ListedTest {
    /// Returns the number of the test.
    ///
    /// # Errors
    /// [`ArchiveError::Impossible`] if `id` is not a test's number.
    pub fn test_id(&self) -> Result<TestId, ArchiveError> {
        let number = i64::from_str_radix(&self.id, 16).map(TestId);
        number.map_err(|_| ArchiveError::Impossible(format!("{} is not the number of a test", self.id)))
    }
}

impl Filter {
    /// Returns true if the filter has conditions that only single tests meet: roll-ups have neither tags nor verdicts.
    pub fn selects_single_tests(&self) -> bool {
        !self.tags.is_empty() || !self.severities.is_empty()
    }

    /// Returns true if a test that started at `at` (ns since 1970) is within the hours of the filter.
    pub(crate) fn has_hour(&self, at: i64) -> bool {
        self.hours.as_ref().is_none_or(|hours| hours.contains(at))
    }

    /// Returns the range of start times, ns since 1970; its end is excluded.
    pub(crate) fn range(&self) -> (i64, i64) {
        (self.since.map_or(i64::MIN, |When(at)| at.0), self.before.map_or(i64::MAX, |When(at)| at.0))
    }

    /// Converts the filter, except its hours, to an SQL condition on `tests t`, `streams s`, `hosts a` and `hosts b`.
    pub(crate) fn condition(&self, archive: &Archive) -> Result<(String, Vec<Value>), ArchiveError> {
        let (mut all, mut values) = (vec!["1".to_owned()], Vec::new());
        if let Some(Endpoints(text)) = &self.path {
            // Addresses may contain colons. The known hosts decide at which colon the text is split.
            let cut = |k: usize| (text[..k].to_owned(), text[k + 1..].to_owned());
            let cuts = text.char_indices().filter(|(_, c)| *c == ':').map(|(k, _)| cut(k));
            let known = |host: &str| {
                let query = "SELECT count(*) FROM hosts WHERE ?1 = '' OR address = ?1 OR name = ?1";
                archive.db.query_row(query, [host], |row| row.get::<_, i64>(0)).map(|n| n > 0)
            };
            let plain = |host: &str| host.trim_matches(['[', ']']).to_owned();
            let mut found = None;
            for (a, b) in cuts.map(|(a, b)| (plain(&a), plain(&b))) {
                if known(&a).and_then(|there| Ok(there && known(&b)?)).map_err(archive.sql("reading"))? {
                    found = Some((a, b));
                    break;
                }
            }
            let (a, b) = found.ok_or_else(|| {
                ArchiveError::Usage(format!(
                    "the archive has no tests of the path {text}: `jitlat archive ls` lists its tests"
                ))
            })?;
            for (table, host) in [("a", a), ("b", b)].into_iter().filter(|(_, host)| !host.is_empty()) {
                all.push(format!("({table}.address = ? OR {table}.name = ?)"));
                values.extend([Value::Text(host.clone()), Value::Text(host)]);
            }
        }
        for (sign, when) in [(">=", self.since), ("<", self.before)] {
            if let Some(When(at)) = when {
                all.push(format!("t.started_ns {sign} ?"));
                values.push(Value::Integer(at.0));
            }
        }
        for (key, value) in &self.tags {
            all.push(
                "EXISTS (SELECT 1 FROM tags WHERE test = t.number AND key = ? AND value = ?)".to_owned(),
            );
            values.extend([Value::Text(key.clone()), Value::Text(value.clone())]);
        }
        for (name, value) in &self.labels {
            let has = "EXISTS (SELECT 1 FROM tags g JOIN host_labels l ON l.host = g.value \
                       WHERE g.test = t.number AND g.key IN ('client', 'server') AND l.name = ? AND l.value = ?)";
            all.push(has.to_owned());
            values.extend([Value::Text(name.clone()), Value::Text(value.clone())]);
        }
        let mut one_of = |column: &str, wanted: Vec<Value>| {
            if !wanted.is_empty() {
                all.push(format!("{column} IN ({})", vec!["?"; wanted.len()].join(", ")));
                values.extend(wanted);
            }
        };
        one_of("s.protocol", self.protocols.iter().cloned().map(Value::Text).collect());
        one_of("s.dscp", self.dscps.iter().map(|dscp| Value::Integer((*dscp).into())).collect());
        let severity = |severity: &Severity| Value::Text(severity.name().to_owned());
        one_of("t.severity", self.severities.iter().map(severity).collect());
        Ok((all.join(" AND "), values))
    }
}

/// SQL tables with the tests, their streams and their hosts.
pub(crate) const TABLES: &str =
    "tests t JOIN streams s ON s.id = t.stream JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst";

/// Columns of [`TABLES`] that [`listed`] reads.
pub(crate) const LISTED: &str = "t.id, t.started_ns, t.name, t.source, a.address, b.address, s.protocol, s.direction, t.packets, \
                                 t.log_bytes, t.file IS NOT NULL, t.severity, t.headline";
/// Number of columns in [`LISTED`].
const COLUMNS: usize = 13;

/// Reads a test from the columns [`LISTED`], without figures and tags.
pub(crate) fn listed(row: &SqlRow<'_>) -> rusqlite::Result<ListedTest> {
    Ok(ListedTest {
        id: TestId(row.get(0)?).to_string(),
        started_ns: row.get(1)?,
        name: row.get(2)?,
        source: row.get(3)?,
        src: row.get(4)?,
        dst: row.get(5)?,
        protocol: row.get(6)?,
        direction: row.get(7)?,
        packets: unsigned(row, 8)?,
        log_bytes: unsigned(row, 9)?,
        has_packets: row.get(10)?,
        severity: row.get(11)?,
        headline: row.get(12)?,
        tags: BTreeMap::new(),
        figures: BTreeMap::new(),
    })
}

impl Archive {
    /// Returns the tests that match `filter`, in order of start time, each with its `figures`.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn list(&self, filter: &Filter, figures: &[Selector]) -> Result<Vec<ListedTest>, ArchiveError> {
        if self.is_united() {
            return self.united_list(|member| member.list(filter, figures));
        }
        let (condition, values) = filter.condition(self)?;
        let there = crate::catalogue::figure_columns(&self.db).map_err(self.sql("reading"))?;
        let columns: String = figures
            .iter()
            .map(ToString::to_string)
            .map(|key| if there.contains(&key) { format!(", f.\"{key}\"") } else { ", NULL".to_owned() })
            .collect();
        let query = format!(
            "SELECT {LISTED}{columns} FROM {TABLES} JOIN figures f ON f.test = t.number WHERE {condition} \
             ORDER BY t.started_ns, t.id"
        );
        let run = || {
            let mut tags = self.db.prepare_cached(
                "SELECT key, value FROM tags WHERE test = (SELECT number FROM tests WHERE id = ?)",
            )?;
            let mut tests = self.db.prepare(&query)?;
            let take = |row: &SqlRow<'_>| {
                let mut listed = listed(row)?;
                let pair = |row: &SqlRow<'_>| Ok((row.get(0)?, row.get(1)?));
                listed.tags =
                    tags.query_map([row.get::<_, i64>(0)?], pair)?.collect::<rusqlite::Result<_>>()?;
                let value = |(k, s): (usize, &Selector)| Ok((s.to_string(), row.get(COLUMNS + k)?));
                listed.figures = figures.iter().enumerate().map(value).collect::<rusqlite::Result<_>>()?;
                Ok(listed)
            };
            let mut found =
                tests.query_map(params_from_iter(values), take)?.collect::<rusqlite::Result<Vec<_>>>()?;
            found.retain(|test| filter.has_hour(test.started_ns));
            Ok(found)
        };
        run().map_err(self.sql("reading"))
    }

    /// Returns the streams with the hosts, protocols and DSCPs of `filter`, including streams whose tests have all been pruned.
    pub(crate) fn streams_of(
        &self,
        filter: &Filter,
    ) -> Result<Vec<(i64, crate::PooledStream)>, ArchiveError> {
        if self.is_united() {
            return self.united_streams(filter);
        }
        let only = Filter {
            path: filter.path.clone(),
            protocols: filter.protocols.clone(),
            dscps: filter.dscps.clone(),
            ..Filter::default()
        };
        let (mut condition, mut values) = only.condition(self)?;
        // All tests of a stream are between the same hosts.
        for (name, value) in &filter.labels {
            condition += " AND EXISTS (SELECT 1 FROM tests t JOIN tags g ON g.test = t.number JOIN host_labels l ON l.host = g.value \
                          WHERE t.stream = s.id AND g.key IN ('client', 'server') AND l.name = ? AND l.value = ?)";
            values.extend([Value::Text(name.clone()), Value::Text(value.clone())]);
        }
        let query = format!(
            "SELECT s.id, a.address, b.address, s.protocol, s.direction, s.payload, s.period_ns, s.dscp FROM streams s \
             JOIN hosts a ON a.id = s.src JOIN hosts b ON b.id = s.dst WHERE {condition} ORDER BY s.id"
        );
        let run = || {
            let mut streams = self.db.prepare(&query)?;
            let take = |row: &SqlRow<'_>| {
                let stream = crate::PooledStream::read(row)?;
                Ok((row.get(0)?, stream))
            };
            streams.query_map(params_from_iter(values), take)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        run().map_err(self.sql("reading"))
    }
}
