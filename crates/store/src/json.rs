//! JSON: the summary as one object, and its intervals as JSON Lines. `docs/formats/json.md`.

use jitlat_core::spec::Direction;
use jitlat_core::summary::{Interval, Summary};
use serde::Serialize;
use serde_json::{Value, to_value};
use std::io::{self, Read, Write};

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
pub enum SummaryDocument<'a> {
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
        [one] => SummaryDocument::One(one),
        [up, down] if up.header.command != down.header.command => {
            SummaryDocument::Directions { directions: [up, down] }
        }
        several => SummaryDocument::Runs { runs: several },
    })?)
}

/// Why a file has no summaries.
#[derive(Debug, thiserror::Error)]
pub enum SummaryReadError {
    /// It cannot be read, or is not JSON.
    #[error("it is not JSON")]
    Json(#[source] serde_json::Error),
    /// It is empty of summaries.
    #[error("it holds no summary")]
    Empty,
    /// What stands for a summary is none.
    #[error("it is not a summary as --json writes it")]
    Summary(#[source] serde_json::Error),
}

/// Reads what [`write()`] writes; also a list of summaries.
///
/// # Errors
/// [`SummaryReadError`]
pub fn read(input: impl Read) -> Result<Vec<Summary>, SummaryReadError> {
    let summaries = match serde_json::from_reader(input).map_err(SummaryReadError::Json)? {
        Value::Array(all) => all,
        Value::Object(mut object) => {
            match ["directions", "runs"].into_iter().find_map(|k| object.remove(k)) {
                Some(Value::Array(all)) => all,
                _ => vec![Value::Object(object)],
            }
        }
        _ => Vec::new(),
    };
    if summaries.is_empty() {
        return Err(SummaryReadError::Empty);
    }
    summaries.into_iter().map(|s| serde_json::from_value(s).map_err(SummaryReadError::Summary)).collect()
}

/// Writes each interval of `summary` as one line.
///
/// # Errors
/// Those of `out`.
pub fn write_intervals(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let direction = summary.session.direction;
    summary.intervals.iter().try_for_each(|interval| write_interval(out, interval, direction))
}

/// Writes an interval of a stream of `direction` as one line.
///
/// # Errors
/// Those of `out`.
pub fn write_interval(out: &mut dyn Write, interval: &Interval, direction: Direction) -> io::Result<()> {
    let mut value = to_value(interval)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("direction".to_owned(), to_value(direction)?);
    }
    serde_json::to_writer(&mut *out, &value)?;
    out.write_all(b"\n")
}
