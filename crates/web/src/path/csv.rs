//! `/path/A/B/csv`: contents of the page of a path as a table for a spreadsheet.

use super::{PathPage, PeriodFigures, read};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times;
use crate::verdict::TestVerdict;
use jitlat_archive::Archive;
use jitlat_core::printable::printable;
use std::fmt::Write;

const COLUMNS: &str = "series,from,to,test,tests,sent,lost,loss,delay_median_ms,delay_p99_ms,jitter_median_ms,jitter_p99_ms,worst";

/// Answers with the periods that the page shows, of all directions and overlays. Times are UTC.
pub fn csv(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    Ok(write(&read(archive, asked, times::now())?))
}

fn write(view: &PathPage) -> String {
    let mut out = format!("{COLUMNS}\n");
    for side in &view.sides {
        let name = format!("{} → {}", side.names[0], side.names[1]);
        for period in &side.course.periods {
            row(&mut out, &name, period);
        }
        for (overlay, periods) in &side.overlays {
            for period in periods {
                row(
                    &mut out,
                    &format!("{name}: {overlay}"),
                    &PeriodFigures::new(period, period.end_ns, None),
                );
            }
        }
    }
    out
}

fn row(out: &mut String, series: &str, period: &PeriodFigures) {
    let ms = |ns: Option<i64>| ns.map_or(String::new(), |ns| format!("{:.6}", ns as f64 / 1e6));
    let _ = writeln!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{},{}",
        field(series),
        times::address(period.start_ns),
        times::address(period.end_ns),
        period.test.as_deref().unwrap_or_default(),
        period.tests,
        period.sent,
        period.lost,
        period.loss.map_or(String::new(), |loss| loss.to_string()),
        ms(period.delay_median_ns),
        ms(period.delay_p99_ns),
        ms(period.jitter_median_ns),
        ms(period.jitter_p99_ns),
        period.worst.map_or("", TestVerdict::word)
    );
}

/// Quotes a text. A text that begins like a formula gets an apostrophe, so that a spreadsheet does not evaluate it.
pub fn field(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", printable(text).replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_cannot_become_formulas_or_columns() {
        assert_eq!(super::field("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(super::field("=1+1"), "\"'=1+1\"");
        assert_eq!(super::field("gpj.\u{202e}exe"), "\"gpj.\u{fffd}exe\"");
    }
}
