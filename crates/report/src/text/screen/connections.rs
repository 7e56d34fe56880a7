//! Screen report of captured TCP connections.

use super::rows::{ScreenTable, StyledCells, percent};
use super::{Screen, content};
use crate::text::count;
use crate::text::page::mark;
use jitlat_core::units::{duration, eng3};
use jitlat_passive::tcp::{TcpDirection, TcpResult, answer, directions};

/// Maximum width of the name of a direction, two addresses with ports, in columns.
const MAX_NAME_COLUMNS: usize = 35;
/// Maximum number of lines of the table.
const MAX_LINES: usize = 8;

impl Screen {
    /// Creates the screen report of the connections of `r`, the most relevant first.
    pub fn of_connections(r: &TcpResult) -> Screen {
        let answer = answer(r);
        Screen {
            lead: vec![(answer.severity.into(), answer.headline.clone())],
            title: title(r),
            table: table(r),
            why: answer.causes.iter().map(content::cause_of).collect(),
            trust: trust(r),
            ..Screen::default()
        }
    }
}

fn title(r: &TcpResult) -> String {
    let all = &r.first.connections;
    let span = all.iter().map(|c| c.first).min().zip(all.iter().map(|c| c.last).max());
    let span = span.map_or(String::new(), |(first, last)| format!(" in {}", duration(last - first)));
    let points = if r.between.is_empty() { "" } else { ", two points" };
    let connections = count(all.len() as u64, "connection");
    format!("{}, {connections}{span}{points}", count(r.first.segments, "TCP segment"))
}

/// Creates a table with one line for each direction with data.
fn table(r: &TcpResult) -> ScreenTable {
    let heads = ["", "data", "again", "RTT min", "p50", "order", "closed"].map(str::to_owned);
    let line = |way: &TcpDirection<'_>| {
        let (severity, data) = (way.severity(), way.data);
        let again = data.retransmissions as f64 / data.data_segments.max(1) as f64;
        let resolution = r.first.recording.resolution;
        let time = |ns: Option<i64>| match (ns, resolution) {
            (None, _) => "-".to_owned(),
            (Some(ns), Some(resolution)) if ns < resolution.0 => format!("< {}", eng3(resolution.0 as f64)),
            (Some(ns), _) => eng3(ns as f64),
        };
        let number = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
        let mut cells: StyledCells = vec![(severity.name().to_owned(), Some(mark(severity.into()).1))];
        let figures = [
            bytes(data.unique_bytes),
            if data.retransmissions == 0 { "none".to_owned() } else { format!("{} %", percent(again)) },
            time(way.rtt.map(|r| r.min)),
            time(way.rtt.map(|r| r.median)),
            number(data.out_of_order),
            number(way.zero_windows),
        ];
        cells.extend(figures.map(|text| (text, None)));
        (format!("{} > {}", way.from, way.to), cells)
    };
    ScreenTable {
        heads: heads.to_vec(),
        lines: directions(r).iter().map(line).collect(),
        name: MAX_NAME_COLUMNS,
        most: MAX_LINES,
    }
}

/// Formats a size: `712 B`, `8.1 kB`, `1.2 GB`.
fn bytes(n: u64) -> String {
    let n = n as f64;
    let (unit, name) = match n {
        ..1e3 => return format!("{n:.0} B"),
        ..1e6 => (1e3, "kB"),
        ..1e9 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    let value = n / unit;
    if value < 9.95 { format!("{value:.1} {name}") } else { format!("{value:.0} {name}") }
}

fn trust(r: &TcpResult) -> Vec<String> {
    let mut lines = Vec::new();
    if r.first.drops > 0 {
        lines.push(format!(
            "the capture itself missed {}: they were not lost on the path",
            count(r.first.drops, "packet")
        ));
    }
    if r.first.not_followed > 0 {
        lines.push(format!(
            "{} not analysed: the limit of connections is reached",
            count(r.first.not_followed, "segment")
        ));
    }
    lines.extend(r.first.notes.iter().cloned());
    lines.extend(r.first.recording.notes(r.first.copies()));
    if let Some(resolution) = r.first.recording.resolution {
        lines.push(format!(
            "the recording's times are in steps of {}: shorter times are not known",
            eng3(resolution.0 as f64)
        ));
    }
    lines.push(
        "RTT: from the capture point to the receiver and back, with its delayed acknowledgements".to_owned(),
    );
    lines.push("again: retransmitted; order: reordered before this point; closed: windows closed".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_two_digits() {
        assert_eq!([712, 8140, 99_999, 1_230_000_000].map(bytes), ["712 B", "8.1 kB", "100 kB", "1.2 GB"]);
    }
}
