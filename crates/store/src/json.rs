//! JSON: the summary as one object, or its intervals as JSON Lines. See `docs/formats/json.md`.

use jitlat_core::spec::Direction;
use jitlat_core::summary::{Interval, Summary};
use serde::Serialize;
use serde_json::{Value, to_value};
use std::io::{self, Read, Write};

/// Writes the output of `--json`: one summary as an object, the two directions of a test as `{"directions": [up,
/// down]}`, several tests as `{"runs": [...]}`.
///
/// # Errors
///
/// Errors of `out`.
pub fn write(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(summaries)?)?;
    out.write_all(b"\n")
}

/// JSON written by [`write()`].
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SummaryDocument<'a> {
    /// A test of one direction.
    One(&'a Summary),
    /// A test of both directions.
    Directions {
        /// Summaries of the directions: up, then down.
        directions: [&'a Summary; 2],
    },
    /// Several tests.
    Runs {
        /// Summaries of the tests, in the given order.
        runs: &'a [Summary],
    },
}

/// Returns the JSON value that [`write()`] writes.
///
/// # Errors
///
/// None in practice: a summary can always be serialised.
pub fn document(summaries: &[Summary]) -> io::Result<Value> {
    Ok(to_value(match summaries {
        [one] => SummaryDocument::One(one),
        [up, down] if up.header.command != down.header.command => {
            SummaryDocument::Directions { directions: [up, down] }
        }
        several => SummaryDocument::Runs { runs: several },
    })?)
}

/// Reason why summaries could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SummaryReadError {
    /// The input cannot be read, or is not JSON.
    #[error("it is not JSON")]
    Json(#[source] serde_json::Error),
    /// The document contains no summaries.
    #[error("it contains no summaries")]
    Empty,
    /// A part of the document that should be a summary is not a summary.
    #[error("it is not a summary written by --json")]
    Summary(#[source] serde_json::Error),
}

/// Reads summaries from JSON written by [`write()`], or from a list of summaries.
///
/// # Errors
/// [`SummaryReadError`].
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
/// Errors of `out`.
pub fn write_intervals(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let direction = summary.session.direction;
    summary.intervals.iter().try_for_each(|interval| write_interval(out, interval, direction))
}

/// Writes an interval of a stream of `direction` as one line.
///
/// # Errors
/// Errors of `out`.
pub fn write_interval(out: &mut dyn Write, interval: &Interval, direction: Direction) -> io::Result<()> {
    let mut value = to_value(interval)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("direction".to_owned(), to_value(direction)?);
    }
    serde_json::to_writer(&mut *out, &value)?;
    out.write_all(b"\n")
}
