//! The catalogue: everything in an archive except packets, in SQLite.
//!
//! [`STEPS`] contains the migrations of its schema, each from one version to the next. A released migration never
//! changes. Columns of figures are not part of the migrations: they are added according to the list of figures when the
//! archive is opened for writing.

use crate::error::ArchiveError;
use crate::sums;
use jitlat_core::scalars::selectors;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Row as SqlRow};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Name of the catalogue's file.
pub const CATALOGUE: &str = "catalogue.sqlite";
/// Maximum time to wait for the lock of the archive.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a value, in bytes. It is limited because an archive may come from an untrusted source.
const MAX_VALUE_BYTES: i32 = 1 << 28;

/// Statements that migrate version k to version k + 1. Released statements never change.
const STEPS: [&str; 10] = [
    "
CREATE TABLE files(
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    footer_start INTEGER NOT NULL,
    footer_bytes INTEGER NOT NULL,
    footer_sum TEXT NOT NULL
);
CREATE TABLE row_groups(
    file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
    number INTEGER NOT NULL,
    start INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    sum TEXT NOT NULL,
    PRIMARY KEY(file, number)
) WITHOUT ROWID;
CREATE TABLE hosts(
    id INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    name TEXT
);
CREATE TABLE streams(
    id INTEGER PRIMARY KEY,
    src INTEGER NOT NULL REFERENCES hosts,
    dst INTEGER NOT NULL REFERENCES hosts,
    protocol TEXT NOT NULL,
    direction TEXT NOT NULL,
    payload INTEGER NOT NULL,
    period_ns INTEGER NOT NULL,
    dscp INTEGER NOT NULL,
    UNIQUE(src, dst, protocol, direction, payload, period_ns, dscp)
);
CREATE TABLE tests(
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,
    stream INTEGER NOT NULL REFERENCES streams,
    started_ns INTEGER NOT NULL,
    name TEXT,
    source TEXT NOT NULL,
    added_ns INTEGER NOT NULL,
    packets INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,
    file INTEGER REFERENCES files,
    row_group INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    severity TEXT NOT NULL,
    headline TEXT NOT NULL,
    rest BLOB NOT NULL,
    session BLOB NOT NULL,
    pool BLOB NOT NULL
);
CREATE INDEX tests_of_stream ON tests(stream, started_ns);
CREATE INDEX tests_by_time ON tests(started_ns);
CREATE INDEX tests_of_file ON tests(file);
CREATE TABLE tags(
    test INTEGER NOT NULL REFERENCES tests ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY(test, key)
) WITHOUT ROWID;
CREATE TABLE figures(test INTEGER PRIMARY KEY REFERENCES tests ON DELETE CASCADE);
CREATE TABLE rollups(
    stream INTEGER NOT NULL REFERENCES streams,
    unit TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    tests INTEGER NOT NULL,
    pool BLOB NOT NULL,
    PRIMARY KEY(stream, unit, start_ns)
) WITHOUT ROWID;
CREATE TABLE kept(
    stream INTEGER NOT NULL REFERENCES streams,
    hour_ns INTEGER NOT NULL,
    pool BLOB NOT NULL,
    PRIMARY KEY(stream, hour_ns)
) WITHOUT ROWID;
CREATE TABLE gone(
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL
);
",
    "
DELETE FROM rollups;
ALTER TABLE rollups ADD COLUMN pooled INTEGER NOT NULL DEFAULT 0;
CREATE INDEX rollups_open ON rollups(stream, unit, start_ns) WHERE pooled = 0;
DROP INDEX tests_of_stream;
CREATE INDEX tests_of_stream ON tests(stream, started_ns, id, severity);
",
    "
CREATE TABLE counters(
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
ALTER TABLE tests ADD COLUMN entered INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tests_by_entry ON tests(entered) WHERE entered > 0;
CREATE TABLE losses(
    stream INTEGER NOT NULL REFERENCES streams,
    bucket INTEGER NOT NULL,
    tests INTEGER NOT NULL,
    lost_share REAL NOT NULL,
    PRIMARY KEY(stream, bucket)
) WITHOUT ROWID;
CREATE TABLE alerts(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    alert TEXT NOT NULL,
    severity TEXT NOT NULL,
    test TEXT NOT NULL,
    src TEXT NOT NULL,
    dst TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    fired_ns INTEGER NOT NULL,
    resolved_ns INTEGER,
    reason TEXT NOT NULL,
    resolution TEXT
);
CREATE UNIQUE INDEX alerts_firing ON alerts(alert, test, src, dst) WHERE resolved_ns IS NULL;
CREATE TABLE alert_states(
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE alert_messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    alert INTEGER NOT NULL REFERENCES alerts,
    resolved INTEGER NOT NULL,
    channel TEXT NOT NULL,
    tries INTEGER NOT NULL,
    due_ns INTEGER NOT NULL
);
",
    "
CREATE TABLE pushes(
    collector TEXT PRIMARY KEY,
    settled INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    stored_ns INTEGER,
    reason TEXT
) WITHOUT ROWID;
CREATE TABLE push_doubts(
    collector TEXT NOT NULL REFERENCES pushes ON DELETE CASCADE,
    number INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY(collector, number)
) WITHOUT ROWID;
CREATE TABLE collected(
    host TEXT PRIMARY KEY,
    stored INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    stored_ns INTEGER,
    heard_ns INTEGER,
    waiting INTEGER NOT NULL,
    dropped INTEGER NOT NULL
) WITHOUT ROWID;
",
    "
ALTER TABLE tests ADD COLUMN host TEXT;
",
    // From this version on tests are named by the SHA-256 of their logs.
    "
ALTER TABLE collected ADD COLUMN over_quota INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tags_collected ON tags(value, test) WHERE key = 'collected-from';
",
    // Tests of earlier versions get their SHA-256 as a name; the number that was derived from their earlier name stays.
    "
CREATE TABLE renamed(
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    earlier TEXT NOT NULL UNIQUE
);
ALTER TABLE gone ADD COLUMN host TEXT;
",
    "
ALTER TABLE alerts ADD COLUMN scope TEXT NOT NULL DEFAULT 'path';
UPDATE alerts SET scope = 'host' WHERE test = '' AND dst = '';
ALTER TABLE alerts ADD COLUMN acknowledged_ns INTEGER;
ALTER TABLE alerts ADD COLUMN acknowledged_by TEXT;
ALTER TABLE alerts ADD COLUMN note TEXT;
DROP INDEX alerts_firing;
CREATE UNIQUE INDEX alerts_firing ON alerts(alert, scope, test, src, dst) WHERE resolved_ns IS NULL;
ALTER TABLE alert_messages ADD COLUMN held_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE alert_messages ADD COLUMN silence INTEGER;
CREATE TABLE alert_paths(
    alert INTEGER NOT NULL REFERENCES alerts ON DELETE CASCADE,
    test TEXT NOT NULL,
    src TEXT NOT NULL,
    dst TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    ended_ns INTEGER,
    PRIMARY KEY(alert, test, src, dst)
) WITHOUT ROWID;
CREATE TABLE silences(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    alert TEXT,
    test TEXT,
    host TEXT,
    site TEXT,
    from_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL,
    author TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE TABLE slot_reports(
    test TEXT NOT NULL,
    client TEXT NOT NULL,
    server TEXT NOT NULL,
    number INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    since_ns INTEGER NOT NULL,
    fault TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY(test, client, server)
) WITHOUT ROWID;
CREATE INDEX slot_reports_by_number ON slot_reports(number);
CREATE TABLE host_labels(
    host TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY(host, name)
) WITHOUT ROWID;
CREATE TABLE routes(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    route TEXT NOT NULL,
    src TEXT NOT NULL,
    dst TEXT NOT NULL,
    first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL,
    hops TEXT NOT NULL,
    number INTEGER NOT NULL
);
CREATE INDEX routes_of_path ON routes(src, dst, first_ns);
CREATE INDEX routes_by_number ON routes(number);
",
    // Checksums of all tables: see `sums`. Common parts of the tests of a stream: see `model`.
    "
CREATE TABLE sums(
    name TEXT PRIMARY KEY,
    sum INTEGER NOT NULL
) WITHOUT ROWID;
ALTER TABLE streams ADD COLUMN model BLOB;
",
    // Tests, tags and figures are stored in the order in which tests were entered. In the order of their identifiers, which are
    // random, pages would be partly empty, and each new test would change many of them. `number_figures` converts the figures.
    // Roll-ups are in a table with row numbers, because a table without them would store most of a long value on a page of its
    // own. `sent_elsewhere` has the messages that other judges have sent.
    "
CREATE TABLE numbered_tests(
    number INTEGER PRIMARY KEY,
    id INTEGER NOT NULL UNIQUE,
    hash TEXT NOT NULL,
    stream INTEGER NOT NULL REFERENCES streams,
    started_ns INTEGER NOT NULL,
    name TEXT,
    source TEXT NOT NULL,
    added_ns INTEGER NOT NULL,
    packets INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,
    file INTEGER REFERENCES files,
    row_group INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    severity TEXT NOT NULL,
    headline TEXT NOT NULL,
    rest BLOB NOT NULL,
    session BLOB NOT NULL,
    pool BLOB NOT NULL,
    entered INTEGER NOT NULL DEFAULT 0,
    host TEXT
);
INSERT INTO numbered_tests(id, hash, stream, started_ns, name, source, added_ns, packets, log_bytes, file, row_group, first_row,
    severity, headline, rest, session, pool, entered, host)
    SELECT id, hash, stream, started_ns, name, source, added_ns, packets, log_bytes, file, row_group, first_row,
    severity, headline, rest, session, pool, entered, host FROM tests ORDER BY entered, started_ns, id;
CREATE TABLE numbered_tags(
    test INTEGER NOT NULL REFERENCES tests ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY(test, key)
) WITHOUT ROWID;
INSERT INTO numbered_tags SELECT t.number, g.key, g.value FROM tags g JOIN numbered_tests t ON t.id = g.test ORDER BY 1, 2;
DROP TABLE tags;
DROP TABLE tests;
ALTER TABLE numbered_tests RENAME TO tests;
ALTER TABLE numbered_tags RENAME TO tags;
CREATE INDEX tests_of_stream ON tests(stream, started_ns, id, severity);
CREATE INDEX tests_by_time ON tests(started_ns);
CREATE INDEX tests_of_file ON tests(file);
CREATE INDEX tests_by_entry ON tests(entered) WHERE entered > 0;
CREATE INDEX tags_collected ON tags(value, test) WHERE key = 'collected-from';
CREATE TABLE filled_rollups(
    stream INTEGER NOT NULL REFERENCES streams,
    unit TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    tests INTEGER NOT NULL,
    pool BLOB NOT NULL,
    pooled INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY(stream, unit, start_ns)
);
INSERT INTO filled_rollups SELECT stream, unit, start_ns, tests, pool, pooled FROM rollups ORDER BY stream, unit, start_ns;
DROP TABLE rollups;
ALTER TABLE filled_rollups RENAME TO rollups;
CREATE INDEX rollups_open ON rollups(stream, unit, start_ns) WHERE pooled = 0;
CREATE TABLE sent_elsewhere(
    alert TEXT NOT NULL,
    resolved INTEGER NOT NULL,
    test TEXT NOT NULL,
    src TEXT NOT NULL,
    dst TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    sent_ns INTEGER NOT NULL,
    PRIMARY KEY(alert, resolved, test, src, dst)
) WITHOUT ROWID;
",
];

/// First version in which figures refer to a test by its number instead of its identifier.
const NUMBERED: usize = 10;
/// Size of the pages of a new catalogue, in bytes. A test takes a little less than a kilobyte, so that little of a page is unused.
const PAGE_BYTES: i64 = 8192;

/// Latest version of the schema.
pub const VERSION: i64 = STEPS.len() as i64;

/// Purpose for which the catalogue is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Reading,
    Writing,
    /// For writing; the catalogue is created if it does not exist.
    Making,
    /// For writing, regardless of the schema version.
    Migrating,
}

/// Opens the catalogue of `archive`.
pub(crate) fn open(archive: &Path, purpose: For) -> Result<Connection, ArchiveError> {
    let path = archive.join(CATALOGUE);
    let failed = |source| ArchiveError::Catalogue { doing: "opening", archive: archive.to_owned(), source };
    if purpose != For::Making {
        match path.metadata() {
            Ok(there) if there.is_file() => {}
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(ArchiveError::io("opening", &path)(e));
            }
            _ => return Err(ArchiveError::NotAnArchive(archive.to_owned())),
        }
    }
    let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    flags |= match purpose {
        For::Reading if is_read_only(archive) => OpenFlags::SQLITE_OPEN_READ_ONLY,
        For::Making => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        _ => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let mut db = match Connection::open_with_flags(&path, flags) {
        // WAL mode needs a file in shared memory, which cannot be created here. A read-only file has no writers, so it
        // needs no lock.
        Ok(db)
            if flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY)
                && db.execute_batch("SELECT 1 FROM sqlite_schema").is_err() =>
        {
            let text: String = path.to_string_lossy().chars().flat_map(escaped).collect();
            Connection::open_with_flags(format!("file:{text}?immutable=1"), flags)
        }
        opened => opened,
    }
    .map_err(failed)?;
    db.busy_timeout(LOCK_TIMEOUT).map_err(failed)?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES).map_err(failed)?;
    // An archive may come from an untrusted source. In WAL mode, only FULL makes a transaction survive a power failure.
    let set = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;";
    db.execute_batch(set).map_err(failed)?;
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    if found > VERSION {
        return Err(ArchiveError::TooNew { archive: archive.to_owned(), found, known: VERSION });
    }
    sums::define(&db).map_err(failed)?;
    if purpose == For::Making {
        // The size of the pages of an existing catalogue stays as it is.
        db.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    }
    if found < VERSION {
        if !matches!(purpose, For::Making | For::Migrating) {
            return Err(ArchiveError::TooOld { archive: archive.to_owned(), found, known: VERSION });
        }
        migrate(&mut db).map_err(failed)?;
    }
    if purpose != For::Reading {
        add_figures(&mut db).map_err(failed)?;
    }
    Ok(db)
}

/// Percent-encodes the characters that have a special meaning in the path of a URI.
fn escaped(c: char) -> Vec<char> {
    match c {
        '%' | '?' | '#' => format!("%{:02X}", c as u32).chars().collect(),
        c => vec![c],
    }
}

// Permissions do not show it if the file system is mounted read-only.
fn is_read_only(archive: &Path) -> bool {
    tempfile::tempfile_in(archive).is_err()
}

/// Applies the missing migrations in one transaction.
fn migrate(db: &mut Connection) -> rusqlite::Result<()> {
    // With foreign keys, replacing a table by another one of the same name would remove the rows that refer to it. The setting
    // has no effect within a transaction.
    db.pragma_update(None, "foreign_keys", "OFF")?;
    let migrated = migrate_all(db);
    db.pragma_update(None, "foreign_keys", "ON")?;
    migrated
}

fn migrate_all(db: &mut Connection) -> rusqlite::Result<()> {
    let all = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have migrated the catalogue in the meantime.
    let found: i64 = all.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for (version, step) in (1..).zip(STEPS).skip(usize::try_from(found).unwrap_or(0)) {
        all.execute_batch(step)?;
        if version == NUMBERED {
            number_figures(&all)?;
        }
    }
    all.pragma_update(None, "user_version", VERSION)?;
    sums::store_all(&all)?;
    all.commit()
}

/// Replaces the identifiers of tests in the table of figures, whose columns differ between archives, by their numbers.
fn number_figures(db: &Connection) -> rusqlite::Result<()> {
    let mut columns =
        db.prepare("SELECT name FROM pragma_table_info('figures') WHERE name <> 'test' ORDER BY cid")?;
    let columns =
        columns.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let columns: Vec<String> = columns.into_iter().map(|name| name.replace('"', "\"\"")).collect();
    let list = |form: fn(&String) -> String| columns.iter().map(form).collect::<String>();
    db.execute_batch(&format!(
        "CREATE TABLE numbered_figures(test INTEGER PRIMARY KEY REFERENCES tests ON DELETE CASCADE{});
         INSERT INTO numbered_figures(test{names}) SELECT t.number{names} FROM figures f JOIN tests t ON t.id = f.test ORDER BY 1;
         DROP TABLE figures;
         ALTER TABLE numbered_figures RENAME TO figures;",
        list(|name| format!(", \"{name}\" REAL")),
        names = list(|name| format!(", \"{name}\"")),
    ))
}

/// Adds columns for new figures.
fn add_figures(db: &mut Connection) -> rusqlite::Result<()> {
    let there = figure_columns(db)?;
    if selectors().all(|s| there.contains(&s.to_string())) {
        return Ok(());
    }
    let all = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have added them in the meantime.
    let there = figure_columns(&all)?;
    for selector in selectors().map(|s| s.to_string()).filter(|s| !there.contains(s)) {
        all.execute_batch(&format!("ALTER TABLE figures ADD COLUMN \"{selector}\" REAL"))?;
    }
    sums::store_schema(&all)?;
    all.commit()
}

/// Returns the figures that have a column.
pub(crate) fn figure_columns(db: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut columns = db.prepare("SELECT name FROM pragma_table_info('figures') WHERE name <> 'test'")?;
    columns.query_map([], |row| row.get(0))?.collect()
}

/// Reads a column that contains no negative numbers.
pub(crate) fn unsigned(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}
