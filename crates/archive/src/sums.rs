//! Checksums of the catalogue: one for each table, the sum of the hashes of its rows, and one for the schema.
//!
//! A connection has, from its first change on, temporary triggers that keep these sums up to date within the same transaction: a row that is
//! added adds its hash, a row that is removed subtracts it. Rows that were changed in any other way, by a failing disk or
//! by another program, no longer match the sum. Indices need no sums: SQLite compares them with the tables.
//!
//! The hash of a row leaves out columns without a value, so that adding a column changes no sum.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use std::fmt::Write;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Name of the sum of the schema; no table has it.
const SCHEMA: &str = "sqlite_schema";

/// Tables that have a sum. An archive may come from an untrusted source: names other than those that this program uses
/// are left out, so that a name cannot contain SQL.
const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB '*[^a-z_]*' \
                      AND name NOT GLOB 'sqlite_*' AND name <> 'sums' ORDER BY name";

/// Defines the SQL functions of this module on a connection.
pub(crate) fn define(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("row_sum", -1, flags, |values| Ok(row_sum(values)))?;
    // SQL has no addition that wraps around.
    let pair =
        |values: &Context<'_>| Ok::<_, rusqlite::Error>((values.get::<i64>(0)?, values.get::<i64>(1)?));
    db.create_scalar_function("sum_with", 2, flags, move |values| {
        pair(values).map(|(sum, row)| sum.wrapping_add(row))
    })?;
    db.create_scalar_function("sum_without", 2, flags, move |values| {
        pair(values).map(|(sum, row)| sum.wrapping_sub(row))
    })
}

/// Returns the hash of a row. The type of each value and the number of its column are part of the hash.
fn row_sum(values: &Context<'_>) -> i64 {
    let mut hash = XxHash3_64::new();
    for column in 0..values.len() {
        let mut value = |kind: u8, bytes: &[u8]| {
            hash.write(&(column as u32).to_le_bytes());
            hash.write(&[kind]);
            hash.write(&(bytes.len() as u64).to_le_bytes());
            hash.write(bytes);
        };
        match values.get_raw(column) {
            ValueRef::Null => {}
            ValueRef::Integer(x) => value(1, &x.to_le_bytes()),
            ValueRef::Real(x) => value(2, &x.to_bits().to_le_bytes()),
            ValueRef::Text(text) => value(3, text),
            ValueRef::Blob(bytes) => value(4, bytes),
        }
    }
    hash.finish() as i64
}

fn names(db: &Connection, query: &str, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut found = db.prepare(query)?;
    let given: &[&dyn rusqlite::ToSql] = if query.contains('?') { &[&table] } else { &[] };
    found.query_map(given, |row| row.get(0))?.collect()
}

fn tables(db: &Connection) -> rusqlite::Result<Vec<String>> {
    names(db, TABLES, "")
}

/// Returns the call of `row_sum` for the columns of a table; `row` is put before each of them.
fn row(db: &Connection, table: &str, row: &str) -> rusqlite::Result<String> {
    let columns = names(db, "SELECT name FROM pragma_table_info(?) ORDER BY cid", table)?;
    let quoted = |name: &String| format!("{row}\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<String> = columns.iter().map(quoted).collect();
    Ok(format!("row_sum({})", columns.join(", ")))
}

/// Makes a connection keep the sums up to date.
pub(crate) fn guard(db: &Connection) -> rusqlite::Result<()> {
    let mut guarded = db.prepare_cached("SELECT EXISTS (SELECT 1 FROM sqlite_temp_schema)")?;
    if guarded.query_row([], |row| row.get(0))? {
        return Ok(());
    }
    drop(guarded);
    // Without recursive triggers, INSERT OR REPLACE would remove rows unnoticed.
    let mut all = String::from("PRAGMA temp_store = MEMORY; PRAGMA recursive_triggers = ON;\n");
    for table in tables(db)? {
        let (new, old) = (row(db, &table, "NEW.")?, row(db, &table, "OLD.")?);
        for (event, sum) in [
            ("INSERT", format!("sum_with(sum, {new})")),
            ("DELETE", format!("sum_without(sum, {old})")),
            ("UPDATE", format!("sum_with(sum_without(sum, {old}), {new})")),
        ] {
            let _ = writeln!(
                all,
                "CREATE TEMP TRIGGER \"sum of {table} at {event}\" AFTER {event} ON main.\"{table}\" \
                 BEGIN UPDATE sums SET sum = {sum} WHERE name = '{table}'; END;"
            );
        }
    }
    db.execute_batch(&all)
}

/// Computes the sum of a table, or of the schema.
fn sum_of(db: &Connection, table: &str) -> rusqlite::Result<i64> {
    let query = match table {
        SCHEMA => "SELECT row_sum(type, name, tbl_name, sql) FROM sqlite_schema".to_owned(),
        table => format!("SELECT {} FROM \"{table}\"", row(db, table, "")?),
    };
    let mut rows = db.prepare(&query)?;
    let mut rows = rows.query([])?;
    let mut sum = 0i64;
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(row.get(0)?);
    }
    Ok(sum)
}

/// Stores the sums of all tables and of the schema without a check of their contents. For use after a migration.
pub(crate) fn store_all(db: &Connection) -> rusqlite::Result<()> {
    db.execute("DELETE FROM sums", [])?;
    for table in tables(db)? {
        let sum = sum_of(db, &table)?;
        db.execute("INSERT INTO sums(name, sum) VALUES (?, ?)", params![table, sum])?;
    }
    store_schema(db)
}

/// Stores the sum of the schema, after columns were added.
pub(crate) fn store_schema(db: &Connection) -> rusqlite::Result<()> {
    let sum = sum_of(db, SCHEMA)?;
    db.execute("INSERT OR REPLACE INTO sums(name, sum) VALUES (?, ?)", params![SCHEMA, sum]).map(drop)
}

/// Returns a statement for each part of the catalogue that is not as it was written; empty if there is none.
pub(crate) fn problems(db: &Connection) -> rusqlite::Result<Vec<String>> {
    // One transaction: other programs may write in the meantime.
    let moment = db.unchecked_transaction()?;
    let mut found: Vec<String> = names(&moment, "PRAGMA integrity_check(10)", "")?;
    found.retain(|line| line != "ok");
    if !found.is_empty() {
        // The sums would only show the same damage again.
        return Ok(found);
    }
    let mut check = moment.prepare("PRAGMA foreign_key_check")?;
    let loose = check.query_map([], |row| row.get::<_, String>(0))?;
    for table in loose {
        found.push(format!("a row of {} refers to a missing row", table?));
    }
    let mut expected = tables(&moment)?;
    expected.push(SCHEMA.to_owned());
    for table in &expected {
        let stored = moment
            .prepare_cached("SELECT sum FROM sums WHERE name = ?")?
            .query_row([table], |row| row.get::<_, i64>(0));
        if stored.ok() != Some(sum_of(&moment, table)?) {
            found.push(match table.as_str() {
                SCHEMA => "its schema is not as it was written".to_owned(),
                table => format!("rows of its table {table} are not as they were written"),
            });
        }
    }
    Ok(found)
}
