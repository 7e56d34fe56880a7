//! JSON: the summary as one object, and its intervals as JSON Lines. `docs/formats/json.md`.

use jitlat_core::summary::Summary;
use serde::Serialize;
use serde_json::{Value, to_value};
use std::io::{self, Write};

/// Writes `--json`: one summary as an object, the two directions of a test as `{"directions": [up, down]}`, several
/// tests as `{"runs": [...]}`.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(summaries)?)?;
    out.write_all(b"\n")
}

/// What [`write()`] writes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Document<'a> {
    /// A test of one direction.
    One(&'a Summary),
    /// A test of both.
    Directions {
        /// Up, then down.
        directions: [&'a Summary; 2],
    },
    /// Several tests.
    Runs {
        /// Their summaries, in the order they were given.
        runs: &'a [Summary],
    },
}

/// What [`write()`] writes, as a value.
///
/// # Errors
/// None that a summary can cause.
pub fn document(summaries: &[Summary]) -> io::Result<Value> {
    Ok(to_value(match summaries {
        [one] => Document::One(one),
        [up, down] if up.header.command != down.header.command => {
            Document::Directions { directions: [up, down] }
        }
        several => Document::Runs { runs: several },
    })?)
}

/// Writes each interval of `summary` as one line.
///
/// # Errors
/// Those of `out`.
pub fn write_intervals(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    for interval in &summary.intervals {
        let mut value = to_value(interval)?;
        if let Value::Object(fields) = &mut value {
            fields.insert("direction".to_owned(), to_value(summary.session.direction)?);
        }
        serde_json::to_writer(&mut *out, &value)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
