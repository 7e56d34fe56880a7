//! Two parts of a stream's tests.

use super::{FigureDocument, Form, cell, csv, describe, json, shown, table};
use crate::comparison::CONFIDENCE;
use crate::{ComparedParts, PartSize, PeriodChange, PooledStream, When};
use jitlat_core::scalars::{Scalar, ScalarUnit};
use serde::Serialize;

/// JSON written by `archive compare --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartsComparison<'a> {
    /// Time that separates both parts, ns since 1970.
    pub at_ns: i64,
    /// Confidence of each interval.
    pub confidence: f64,
    /// The compared figures.
    pub figures: Vec<FigureDocument>,
    /// Streams with tests in both parts.
    pub streams: Vec<StreamComparison<'a>>,
}

/// A stream before and after the time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamComparison<'a> {
    /// Properties of the stream.
    pub stream: &'a PooledStream,
    /// The part before the time.
    pub before: PartDocument,
    /// The part after the time.
    pub after: PartDocument,
    /// The figures of both parts.
    pub figures: Vec<ChangeDocument>,
}

/// Size of a part.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartDocument {
    /// Number of tests.
    pub tests: u64,
    /// Number of packets sent in these tests.
    pub sent: u64,
    /// Number of groups of consecutive tests from which the intervals were computed.
    pub groups: usize,
}

/// A figure before and after the time, in its own unit.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeDocument {
    /// Key of the figure.
    pub key: &'static str,
    /// Value of all packets before the time; null if undefined.
    pub before: Option<f64>,
    /// Value of all packets after the time; null if undefined.
    pub after: Option<f64>,
    /// `after` minus `before`; null if either is undefined.
    pub change: Option<f64>,
    /// Lower end of the interval of the change; null without an interval.
    pub change_low: Option<f64>,
    /// Upper end of the interval of the change; null without an interval.
    pub change_high: Option<f64>,
    /// `higher` or `lower` if the interval excludes 0, `undecided` if it contains 0, `unknown` without an interval.
    pub outcome: &'static str,
}

impl From<&PartSize> for PartDocument {
    fn from(size: &PartSize) -> PartDocument {
        PartDocument { tests: size.tests, sent: size.sent, groups: size.groups }
    }
}

impl From<&PeriodChange> for ChangeDocument {
    fn from(change: &PeriodChange) -> ChangeDocument {
        ChangeDocument {
            key: change.figure.key,
            before: change.before,
            after: change.after,
            change: change.change(),
            change_low: change.interval.map(|(low, _)| low),
            change_high: change.interval.map(|(_, high)| high),
            outcome: change.outcome().name(),
        }
    }
}

/// Formats the figures of streams before and after a point in time.
///
/// # Errors
/// None in practice: a comparison can always be serialised.
pub fn parts(
    at: When,
    figures: &[&'static Scalar],
    found: &[ComparedParts],
    form: Form,
) -> serde_json::Result<String> {
    match form {
        Form::Json => json(&PartsComparison {
            at_ns: at.0.0,
            confidence: CONFIDENCE,
            figures: FigureDocument::of(figures),
            streams: found
                .iter()
                .map(|compared| StreamComparison {
                    stream: &compared.stream,
                    before: (&compared.before).into(),
                    after: (&compared.after).into(),
                    figures: compared.figures.iter().map(Into::into).collect(),
                })
                .collect(),
        }),
        Form::Csv => Ok(csv(&rows(found))),
        Form::Text => Ok(text(found)),
    }
}

fn rows(found: &[ComparedParts]) -> Vec<Vec<String>> {
    let names = [
        "src",
        "dst",
        "protocol",
        "direction",
        "dscp",
        "tests_before",
        "tests_after",
        "figure",
        "unit",
        "before",
        "after",
        "change",
        "change_low",
        "change_high",
        "outcome",
    ];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    for compared in found {
        let ComparedParts { stream, before, after, figures } = compared;
        for figure in figures {
            let change = ChangeDocument::from(figure);
            let path = [&stream.src, &stream.dst, &stream.protocol, &stream.direction].map(Clone::clone);
            let sizes = [stream.dscp.to_string(), before.tests.to_string(), after.tests.to_string()];
            let about = [change.key, figure.figure.unit.name()].map(str::to_owned);
            let values =
                [change.before, change.after, change.change, change.change_low, change.change_high].map(cell);
            let row = path.into_iter().chain(sizes).chain(about).chain(values);
            rows.push(row.chain([change.outcome.to_owned()]).collect());
        }
    }
    rows
}

fn text(found: &[ComparedParts]) -> String {
    let mut text = String::new();
    for (k, compared) in found.iter().enumerate() {
        if k > 0 {
            text += "\n";
        }
        let ComparedParts { stream, before, after, figures } = compared;
        text += &format!("{}\n", describe(stream));
        let heading = ["", "before", "after", "change", "95 % interval", ""].map(str::to_owned).to_vec();
        let tests = vec!["tests".to_owned(), before.tests.to_string(), after.tests.to_string()];
        let mut rows = vec![heading, tests];
        for change in figures {
            let figure = change.figure;
            let signed = |x: f64| difference(figure, x);
            rows.push(vec![
                figure.label.to_owned(),
                shown(figure, change.before),
                shown(figure, change.after),
                change.change().map(signed).unwrap_or_default(),
                change
                    .interval
                    .map_or_else(String::new, |(low, high)| format!("{} to {}", signed(low), signed(high))),
                change.interval.map_or_else(String::new, |_| change.outcome().name().to_owned()),
            ]);
        }
        text += &table(&rows, 1);
    }
    text + "\nFigures are of all packets before and after the given time. The intervals allow for tests that resemble their \
            neighbours;\na change without an interval may be due to chance. Delays between two hosts contain the difference of their \
            clocks. To compare two\ntests: jitlat compare DIR/ID DIR/ID\n"
}

/// Formats a difference with its sign; differences of shares are in percentage points.
fn difference(figure: &Scalar, x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    let size = shown(figure, Some(x.abs()));
    let size = if figure.unit == ScalarUnit::Share { size.replace('%', "pp") } else { size };
    format!("{}{size}", if x < 0.0 { "-" } else { "+" })
}
