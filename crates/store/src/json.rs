//! JSON: the summary as one object, and its intervals as JSON Lines. `docs/formats/json.md`.

use jitlat_core::summary::Summary;
use serde_json::{Value, json, to_value};
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

/// What [`write()`] writes, as a value.
///
/// # Errors
/// None that a summary can cause.
pub fn document(summaries: &[Summary]) -> io::Result<Value> {
    Ok(match summaries {
        [one] => to_value(one)?,
        [up, down] if up.header.command != down.header.command => {
            json!({ "directions": to_value([up, down])? })
        }
        several => json!({ "runs": to_value(several)? }),
    })
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
