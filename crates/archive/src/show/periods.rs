//! Figures over time.

use super::{FigureDocument, Form, cell, csv, describe, json, shown, table, time};
use crate::{PeriodValues, Periods, PoolPeriod, PooledStream, WeekHours};
use jitlat_core::scalars::Scalar;
use serde::Serialize;
use std::collections::BTreeMap;

/// JSON written by `archive query --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryDocument<'a> {
    /// The figures, in the order in which they were requested.
    pub figures: Vec<FigureDocument>,
    /// Length of the pooled periods: test, hour, day, month, year or all.
    pub by: &'static str,
    /// Time zone in which the periods begin.
    pub tz: String,
    /// Hours of the week in which the tests started, as requested; null for all.
    pub hours: Option<String>,
    /// Selected streams, each with its points.
    pub streams: Vec<StreamPoints<'a>>,
}

/// A stream, and its figures in each period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamPoints<'a> {
    /// Properties of the stream.
    pub stream: &'a PooledStream,
    /// Values in order of time. Periods without tests are left out.
    pub points: Vec<PointDocument<'a>>,
}

/// Figures of one period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointDocument<'a> {
    /// Start of the period, ns since 1970. If all tests are pooled, start of the first test.
    pub start_ns: i64,
    /// Number of the test, if the period is a single test; otherwise null.
    pub test: Option<&'a str>,
    /// Number of tests pooled.
    pub tests: u64,
    /// Number of packets sent in these tests.
    pub sent: u64,
    /// The figures by key, each in its own unit; null if undefined.
    pub figures: BTreeMap<&'static str, Option<f64>>,
}

/// Formats figures over time. `hours` are the hours of the week that were requested.
///
/// # Errors
/// None in practice: a list can always be serialised.
pub fn points(
    figures: &[&'static Scalar],
    by: &Periods,
    hours: Option<&WeekHours>,
    found: &[(PooledStream, Vec<PeriodValues>)],
    form: Form,
) -> serde_json::Result<String> {
    let name = by.length.name();
    if form == Form::Json {
        let point =
            |p: &'_ PeriodValues| figures.iter().zip(&p.values).map(|(f, value)| (f.key, *value)).collect();
        let streams = found.iter().map(|(stream, points)| {
            let points = points.iter().map(|p| PointDocument {
                start_ns: p.start_ns,
                test: p.test.as_deref(),
                tests: p.tests,
                sent: p.sent,
                figures: point(p),
            });
            StreamPoints { stream, points: points.collect() }
        });
        return json(&QueryDocument {
            figures: FigureDocument::of(figures),
            by: name,
            tz: by.zone.to_string(),
            hours: hours.map(ToString::to_string),
            streams: streams.collect(),
        });
    }
    // The output always has a column with the number of packets sent.
    let columns: Vec<(usize, &'static Scalar)> =
        figures.iter().copied().enumerate().filter(|(_, figure)| figure.key != "sent").collect();
    if form == Form::Csv {
        return Ok(csv(&rows(&columns, found)));
    }
    let mut text = String::new();
    for (k, (stream, points)) in found.iter().enumerate() {
        if k > 0 {
            text += "\n";
        }
        text += &format!("{}\n", describe(stream));
        let first = if by.zone.is_utc() { name.to_owned() } else { format!("{name} ({})", by.zone) };
        let mut rows = vec![vec![first, "tests".to_owned(), "sent".to_owned()]];
        rows[0].extend(columns.iter().map(|(_, figure)| figure.key.to_owned()));
        for p in points {
            let start = match by.length {
                PoolPeriod::All => "all".to_owned(),
                length => time(p.start_ns, length, &by.zone),
            };
            let mut row = vec![start, p.tests.to_string(), p.sent.to_string()];
            row.extend(columns.iter().map(|(k, figure)| shown(figure, p.values[*k])));
            rows.push(row);
        }
        text += &table(&rows, 1);
    }
    Ok(if found.is_empty() { "no matching tests\n".to_owned() } else { text })
}

/// Returns the rows of a CSV table with the values of figures over time; the first row has the names of the columns.
fn rows(
    columns: &[(usize, &'static Scalar)],
    found: &[(PooledStream, Vec<PeriodValues>)],
) -> Vec<Vec<String>> {
    let names = [
        "start_ns",
        "src",
        "dst",
        "protocol",
        "direction",
        "payload_bytes",
        "period_ns",
        "dscp",
        "test",
        "tests",
        "sent",
    ];
    let last = columns.iter().map(|(_, figure)| figure.column().to_owned());
    let mut rows = vec![names.map(str::to_owned).into_iter().chain(last).collect::<Vec<String>>()];
    for (stream, points) in found {
        let PooledStream { src, dst, protocol, direction, payload_bytes, period_ns, dscp } = stream;
        let known = |x: &Option<i64>| x.map_or_else(String::new, |x| x.to_string());
        for p in points {
            let path = [src, dst, protocol, direction].map(Clone::clone);
            let kind = [known(payload_bytes), known(period_ns), dscp.to_string()];
            let counts = [p.test.clone().unwrap_or_default(), p.tests.to_string(), p.sent.to_string()];
            let start = [p.start_ns.to_string()].into_iter();
            let values = columns.iter().map(|(k, _)| cell(p.values[*k]));
            rows.push(start.chain(path).chain(kind).chain(counts).chain(values).collect());
        }
    }
    rows
}
