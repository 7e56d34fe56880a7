//! The report of a month as a table for a spreadsheet.

use super::read;
use crate::path::csv_field;
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::times;
use jitlat_archive::Archive;
use std::fmt::Write;

const COLUMNS: &str = "month,zone,from,to,packets,tests,measured,available,good_or_fair,loss_met,delay_met,loss,delay_p99_ms,jitter_p99_ms";

/// Answers with one line per path; shares are between 0 and 1.
pub fn csv(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    let report = read(archive, asked, times::now())?;
    let mut out = format!("{COLUMNS}\n");
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let ms = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{:.6}", ns / 1e6));
    for path in &report.paths {
        let texts = [&report.zone, &path.src, &path.dst, &path.packets].map(|text| csv_field(text));
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{}",
            report.month,
            texts.join(","),
            path.tests,
            path.measured,
            number(path.available),
            number(path.good_or_fair),
            number(path.loss_met),
            number(path.delay_met),
            number(path.loss),
            ms(path.delay_p99_ns),
            ms(path.jitter_p99_ns)
        );
    }
    Ok(out)
}
