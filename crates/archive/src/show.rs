//! Formats results of an archive as text, CSV and JSON.
//!
//! * [`comparison`] – two parts of a stream's tests
//! * [`groups`] – groups of tests that were analysed again
//! * [`periods`] – figures over time

pub mod comparison;
pub mod groups;
pub mod periods;

use crate::{
    BackedUp, Checked, CollectedHost, Compacted, ListedTest, PoolPeriod, PooledStream, Pruned, Pushed,
    Renamed, Restored, VERSION, Zone, utc,
};
use jitlat_core::printable::printable;
use jitlat_core::scalars::{ExactNumber, Scalar, ScalarUnit, Selector};
use jitlat_core::units;
use jitlat_store::csv::TableCsv;
use serde::Serialize;

/// JSON written by `archive ls --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListDocument<'a> {
    /// Figures of each test, in the order in which they were requested.
    pub figures: Vec<FigureDocument>,
    /// Tests, in order of start time.
    pub tests: &'a [ListedTest],
}

/// A figure, with the unit of its values.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureDocument {
    /// Key of the figure, as in every other output; the values have the same key.
    pub key: String,
    /// Name in tables.
    pub label: &'static str,
    /// Definition.
    pub about: &'static str,
    /// Unit of the values: `ns`, `ratio`, `packets`, `count`, `number`, `packets/s`, `bit/s`, `ppm` or `bytes`.
    pub unit: &'static str,
}

impl FigureDocument {
    /// Describes a figure whose values have the key `key`.
    pub fn new(key: String, figure: &Scalar) -> FigureDocument {
        FigureDocument { key, label: figure.label, about: figure.about, unit: figure.unit.name() }
    }

    fn of(figures: &[&'static Scalar]) -> Vec<FigureDocument> {
        figures.iter().map(|figure| FigureDocument::new(figure.key.to_owned(), figure)).collect()
    }
}

/// Formats rows as aligned columns, the first `left` of them left-aligned. The last column is not padded. Characters
/// that a terminal would interpret are replaced, because text comes from logs and other hosts.
fn table(rows: &[Vec<String>], left: usize) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| printable(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| rows.iter().filter_map(|r| r.get(k)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(k, cell)| {
            let width = widths[k];
            if k < left || k + 1 == columns { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Output format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Aligned columns of text.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// CSV with a header line.
    Csv,
}

fn json<T: Serialize>(document: &T) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Formats a time of `zone` as `2026-11-23 10:00:00`, shortened to the precision of the period.
fn time(ns: i64, by: PoolPeriod, zone: &Zone) -> String {
    let text = zone.show(ns);
    let length = match by {
        PoolPeriod::Test | PoolPeriod::All => 19,
        PoolPeriod::Hour => 16,
        PoolPeriod::Day => 10,
        PoolPeriod::Month => 7,
        PoolPeriod::Year => 4,
    };
    text.chars().take(length).collect()
}

fn shown(figure: &Scalar, value: Option<f64>) -> String {
    let is_count = matches!(figure.unit, ScalarUnit::Packets | ScalarUnit::Count | ScalarUnit::Bytes);
    let number = |x: f64| {
        if is_count && x.fract() == 0.0 { ExactNumber::Whole(x as i64) } else { ExactNumber::Real(x) }
    };
    value.map_or_else(|| "-".to_owned(), |x| figure.show(number(x)))
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |x| x.to_string())
}

/// Formats lines of CSV, the first of which has the names of the columns.
fn csv(rows: &[Vec<String>]) -> String {
    let mut text = Vec::new();
    let mut table = TableCsv::new(&mut text);
    // Writing to memory does not fail.
    let _ = rows.iter().try_for_each(|row| table.row(row)).and_then(|()| table.finish());
    String::from_utf8(text).unwrap_or_default()
}

/// Formats a list of tests, with times of `zone`.
///
/// # Errors
/// None in practice: a list can always be serialised.
pub fn list(
    tests: &[ListedTest],
    figures: &[Selector],
    zone: &Zone,
    form: Form,
) -> serde_json::Result<String> {
    if form == Form::Json {
        let figures = figures.iter().map(|f| FigureDocument::new(f.to_string(), f.scalar)).collect();
        return json(&ListDocument { figures, tests });
    }
    let names: Vec<String> = figures.iter().map(ToString::to_string).collect();
    if form == Form::Csv {
        let names = [
            "id",
            "started_ns",
            "src",
            "dst",
            "protocol",
            "direction",
            "name",
            "source",
            "packets",
            "severity",
        ];
        let heading = names.map(str::to_owned).into_iter().chain(figures.iter().map(Selector::column));
        let mut rows = vec![heading.collect::<Vec<String>>()];
        rows.extend(tests.iter().map(|t| {
            let values = figures.iter().map(|f| cell(t.figures.get(&f.to_string()).copied().flatten()));
            let first = [
                t.id.clone(),
                t.started_ns.to_string(),
                t.src.clone(),
                t.dst.clone(),
                t.protocol.clone(),
                t.direction.clone(),
                t.name.clone().unwrap_or_default(),
                t.source.clone(),
                t.packets.to_string(),
                t.severity.clone(),
            ];
            first.into_iter().chain(values).collect()
        }));
        return Ok(csv(&rows));
    }
    let began = format!("began ({zone})");
    let heading = ["ID", &began, "path", "", "answer"].map(str::to_owned).into_iter();
    let mut rows = vec![heading.chain(names.iter().cloned()).chain(["test".to_owned()]).collect::<Vec<_>>()];
    for t in tests {
        let mut row = vec![
            t.id.clone(),
            time(t.started_ns, PoolPeriod::Test, zone),
            format!("{} > {}", t.src, t.dst),
            format!("{} {}", t.protocol, t.direction),
            t.severity.clone(),
        ];
        row.extend(
            figures.iter().zip(&names).map(|(f, n)| shown(f.scalar, t.figures.get(n).copied().flatten())),
        );
        let mut name = t.name.as_deref().unwrap_or(&t.source).to_owned();
        if !t.has_packets {
            name += " (packets pruned)";
        }
        row.push(name);
        rows.push(row);
    }
    Ok(if tests.is_empty() { "no matching tests\n".to_owned() } else { table(&rows, 5) })
}

/// Describes a stream by its hosts, protocol, direction, packet size, rate and DSCP.
fn describe(stream: &PooledStream) -> String {
    let period = stream.period_ns.map_or_else(String::new, |ns| format!(" every {}", units::eng4(ns)));
    let payload = stream.payload_bytes.map_or_else(String::new, |n| format!(", {n} bytes"));
    let dscp = if stream.dscp == 0 { String::new() } else { format!(", DSCP {}", stream.dscp) };
    let PooledStream { src, dst, protocol, direction, .. } = stream;
    printable(&format!("{src} > {dst}: {protocol} {direction}{payload}{period}{dscp}")).into_owned()
}

/// JSON written by `archive pushes --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PushesDocument {
    /// Counts of the tests that this host pushes, by collector.
    pub pushed: Vec<Pushed>,
    /// Counts of the tests that other hosts have pushed to this archive, by host.
    pub collected: Vec<CollectedHost>,
}

/// Formats the counts of pushed and collected tests.
///
/// # Errors
/// None in practice: a document can always be serialised.
pub fn pushes(document: &PushesDocument, form: Form) -> serde_json::Result<String> {
    if form == Form::Json {
        return json(document);
    }
    let when = |ns: Option<i64>| ns.map_or("never".to_owned(), utc);
    let heading = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let mut text = String::new();
    if !document.pushed.is_empty() {
        let mut rows = vec![heading(&[
            "pushed to",
            "waiting",
            "oldest",
            "stored",
            "dropped",
            "refused",
            "last stored (UTC)",
            "last reason",
        ])];
        rows.extend(document.pushed.iter().map(|p| {
            vec![
                p.collector.clone(),
                p.waiting.to_string(),
                p.oldest_ns.map_or("-".to_owned(), utc),
                p.stored.to_string(),
                p.dropped.to_string(),
                p.refused.to_string(),
                when(p.stored_ns),
                p.reason.as_deref().unwrap_or("-").to_owned(),
            ]
        }));
        text += &table(&rows, 1);
    }
    if !document.collected.is_empty() {
        let mut rows = vec![heading(&[
            "collected from",
            "stored",
            "refused",
            "last stored (UTC)",
            "waiting",
            "dropped",
            "last report (UTC)",
        ])];
        rows.extend(document.collected.iter().map(|c| {
            vec![
                c.host.clone(),
                c.stored.to_string(),
                c.refused.to_string(),
                when(c.stored_ns),
                c.waiting.to_string(),
                c.dropped.to_string(),
                when(c.heard_ns),
            ]
        }));
        if !text.is_empty() {
            text += "\n";
        }
        text += &table(&rows, 1);
    }
    if text.is_empty() {
        text += "this archive pushes no tests and has received none\n";
    }
    Ok(text)
}

/// Formats a number with its noun: `1 test`, `2 tests`.
fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Formats a size with three significant digits: `712 B`, `8.13 kB`, `1.20 GB`.
fn size(bytes: u64) -> String {
    let (mut n, mut prefixes) = (bytes as f64, ["", "k", "M", "G", "T", "P"].into_iter());
    let mut prefix = prefixes.next().unwrap_or_default();
    for next in prefixes {
        if n < 999.5 {
            break;
        }
        (n, prefix) = (n / 1000.0, next);
    }
    let digits = if prefix.is_empty() || n >= 99.95 { 0 } else { 1 + usize::from(n < 9.995) };
    format!("{n:.digits$} {prefix}B")
}

/// Describes the result of `compact`.
pub fn compacted(done: &Compacted) -> String {
    let Compacted { before, after, bytes_before, bytes_after, damaged } = done;
    let mut text = match before {
        0 => "nothing to merge\n".to_owned(),
        _ => {
            let [from, to] = [(*before, *bytes_before), (*after, *bytes_after)]
                .map(|(files, bytes)| format!("{} ({})", counted(files, "file"), size(bytes)));
            format!("{from} merged into {to}\n")
        }
    };
    if *damaged > 0 {
        let damaged = counted(*damaged, "damaged file");
        text += &format!("{damaged} not merged: jitlat archive fsck lists the damage\n");
    }
    text
}

/// Describes the result of `migrate`; `before` is the version that the schema had before it.
pub fn migrated(before: i64, renamed: &Renamed) -> String {
    let mut text = match before {
        VERSION if renamed.tests == 0 => format!("schema version {VERSION}: nothing to do\n"),
        VERSION => format!("schema version {VERSION}\n"),
        _ => format!("schema version {before} is now {VERSION}\n"),
    };
    if renamed.tests > 0 {
        text += &format!(
            "{} renamed to the SHA-256 of the log (their numbers do not change)\n",
            counted(renamed.tests, "test")
        );
    }
    if renamed.kept > 0 {
        let kept = counted(renamed.kept, "test");
        text += &format!("{kept} without readable packets keep their earlier names\n");
    }
    text
}

/// Describes what `prune` would remove.
pub fn prunable(found: &Pruned) -> String {
    let Pruned { packets_of, tests, waited, files, bytes, .. } = found;
    let (packets_of, tests) = (counted(*packets_of, "test"), counted(*tests, "test"));
    let (files, bytes) = (counted(*files, "file"), size(*bytes));
    let mut text = format!("would remove the packets of {packets_of} ({files}, {bytes}) and {tests}\n");
    if *waited > 0 {
        let waited = counted(*waited, "test");
        text += &format!("{waited} waiting for a collector would be counted as dropped, and not sent\n");
    }
    text
}

/// Describes the result of `prune`.
pub fn pruned(done: &Pruned) -> String {
    let Pruned { packets_of, tests, waited, files, bytes, catalogue_bytes, is_not_copied } = done;
    let (packets_of, tests) = (counted(*packets_of, "test"), counted(*tests, "test"));
    let (files, bytes) = (counted(*files, "file"), size(*bytes));
    let mut text = format!("removed the packets of {packets_of} ({files}, {bytes}) and {tests}\n");
    if *waited > 0 {
        let waited = counted(*waited, "test");
        text += &format!("{waited} that were waiting for a collector: not sent, counted as dropped\n");
    }
    if *catalogue_bytes > 0 {
        text += &format!("the catalogue is {} smaller\n", size(*catalogue_bytes));
    }
    if *is_not_copied {
        text += "the disk has no room for a copy of the catalogue, the only place of these figures: run jitlat archive \
                 backup\n";
    }
    text
}

/// Describes the result of `fsck`.
pub fn checked(found: &Checked) -> String {
    let Checked { tests, files, bytes, unfinished, superfluous, entered, damaged, is_dry_run } = found;
    let (tests, files) = (counted(*tests, "test"), counted(*files, "packet file"));
    let mut text = format!("{tests}, {files}, {}\n", size(*bytes));
    for (n, noun, what) in [
        (unfinished, "unfinished file", "removed"),
        (superfluous, "file", "removed: all of their tests are stored in other files"),
        (entered, "test", "added to the catalogue after a crash"),
    ] {
        if *n > 0 {
            let to_do = if *is_dry_run { "would be " } else { "" };
            text += &format!("{} {to_do}{what}\n", counted(*n, noun));
        }
    }
    for finding in damaged {
        text += &format!("damaged: {}: {}\n", printable(&finding.what), printable(&finding.problem));
    }
    if found.has_damaged_catalogue() {
        text += "jitlat archive restore rebuilds the catalogue from its copy and the packets\n";
    }
    text + if damaged.is_empty() && !found.has_to_repair() { "clean\n" } else { "" }
}

/// Describes the result of `backup` to another folder.
pub fn backed_up(done: &BackedUp) -> String {
    let BackedUp { tests, files, bytes, present } = done;
    let (tests, files) = (counted(*tests, "test"), counted(*files, "packet file"));
    format!("{tests}; copied {files} ({}), {present} were there\n", size(*bytes))
}

/// Describes the result of `restore`.
pub fn restored(done: &Restored) -> String {
    let Restored { from_copy, unusable, from_packets, tests, without_packets, previous } = done;
    let mut text = match (from_copy, unusable) {
        (Some(n), _) => format!("{} from the copy of the catalogue\n", counted(*n, "test")),
        (None, Some(why)) => format!("the copy of the catalogue cannot be used: {}\n", printable(why)),
        (None, None) => "there is no copy of the catalogue\n".to_owned(),
    };
    text += &format!("{} from packet files\n", counted(from_packets.entered, "test"));
    if *without_packets > 0 {
        text += &format!(
            "{} whose packets were pruned after the copy, or are lost: the figures remain\n",
            counted(*without_packets, "test")
        );
    }
    if from_copy.is_none() {
        text += "tests whose packets were pruned are lost, and so are alerts and the states of pushes\n";
    }
    for finding in &from_packets.damaged {
        text += &format!("damaged: {}: {}\n", printable(&finding.what), printable(&finding.problem));
    }
    text += &format!("{} in the new catalogue\n", counted(*tests, "test"));
    match previous {
        Some(path) => text + &format!("the previous catalogue is {}\n", path.display()),
        None => text,
    }
}
