//! Formats results of an archive as text, CSV and JSON.

use crate::{
    ArchiveError, BackedUp, Checked, CollectedHost, Compacted, ListedTest, PeriodValue, PoolPeriod,
    PooledStream, Pruned, Pushed, Renamed, Restored, VERSION, utc,
};
use core::str::FromStr;
use jitlat_core::pool::{self, Pool};
use jitlat_core::printable::printable;
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarCondition, ScalarUnit, Selector};
use jitlat_core::units;
use jitlat_store::csv::TableCsv;
use serde::Serialize;
use std::collections::BTreeMap;

/// JSON written by `archive ls --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListDocument<'a> {
    /// Tests, in order of start time.
    pub tests: &'a [ListedTest],
}

/// JSON written by `archive query --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryDocument<'a> {
    /// Key of the figure.
    pub figure: &'static str,
    /// Definition of the figure.
    pub about: &'static str,
    /// Length of the pooled periods: test, hour, day, month, year or all.
    pub by: &'static str,
    /// Selected streams, each with its points.
    pub streams: Vec<StreamPoints<'a>>,
}

/// A stream, and its figure in each period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamPoints<'a> {
    /// Properties of the stream.
    pub stream: &'a PooledStream,
    /// Values in order of time. Periods without tests are left out.
    pub points: &'a [PeriodValue],
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

/// Formats a time as `2026-11-23 10:00:00`, in UTC, shortened to the precision of the period.
fn time(ns: i64, by: PoolPeriod) -> String {
    let text = utc(ns);
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

/// Formats a list of tests.
///
/// # Errors
/// None in practice: a list can always be serialised.
pub fn list(tests: &[ListedTest], figures: &[Selector], form: Form) -> serde_json::Result<String> {
    if form == Form::Json {
        return json(&ListDocument { tests });
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
    let heading = ["ID", "began (UTC)", "path", "", "answer"].map(str::to_owned).into_iter();
    let mut rows = vec![heading.chain(names.iter().cloned()).chain(["test".to_owned()]).collect::<Vec<_>>()];
    for t in tests {
        let mut row = vec![
            t.id.clone(),
            time(t.started_ns, PoolPeriod::Test),
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

/// Formats a figure over time.
///
/// # Errors
/// None in practice: a list can always be serialised.
pub fn points(
    figure: &'static Scalar,
    by: PoolPeriod,
    found: &[(PooledStream, Vec<PeriodValue>)],
    form: Form,
) -> serde_json::Result<String> {
    let name = PoolPeriod::NAMES.iter().find(|(_, p)| *p == by).map_or("", |(name, _)| name);
    if form == Form::Json {
        let streams = found.iter().map(|(stream, points)| StreamPoints { stream, points }).collect();
        return json(&QueryDocument { figure: figure.key, about: figure.about, by: name, streams });
    }
    // The output always has a column with the number of packets sent.
    let has_value = figure.key != "sent";
    if form == Form::Csv {
        return Ok(csv(&point_rows(figure, has_value, found)));
    }
    let mut text = String::new();
    for (k, (stream, points)) in found.iter().enumerate() {
        if k > 0 {
            text += "\n";
        }
        text += &format!("{}\n", describe(stream));
        let mut rows =
            vec![vec![name.to_owned(), "tests".to_owned(), "sent".to_owned(), figure.key.to_owned()]];
        for p in points {
            let start = if by == PoolPeriod::All { "all".to_owned() } else { time(p.start_ns, by) };
            rows.push(vec![start, p.tests.to_string(), p.sent.to_string(), shown(figure, p.value)]);
        }
        if !has_value {
            rows.iter_mut().for_each(|row| row.truncate(3));
        }
        text += &table(&rows, 1);
    }
    Ok(if found.is_empty() { "no matching tests\n".to_owned() } else { text })
}

/// Returns the rows of a CSV table with the values of a figure over time; the first row has the names of the columns.
fn point_rows(
    figure: &'static Scalar,
    has_value: bool,
    found: &[(PooledStream, Vec<PeriodValue>)],
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
    ];
    let last = has_value.then(|| figure.column().to_owned());
    let heading = names.map(str::to_owned).into_iter().chain(["sent".to_owned()]).chain(last);
    let mut rows = vec![heading.collect::<Vec<String>>()];
    for (stream, points) in found {
        let PooledStream { src, dst, protocol, direction, payload_bytes, period_ns, dscp } = stream;
        let known = |x: &Option<i64>| x.map_or_else(String::new, |x| x.to_string());
        for p in points {
            let path = [src, dst, protocol, direction].map(Clone::clone);
            let kind = [known(payload_bytes), known(period_ns), dscp.to_string()];
            let counts = [p.test.clone().unwrap_or_default(), p.tests.to_string(), p.sent.to_string()];
            let start = [p.start_ns.to_string()].into_iter();
            let value = has_value.then(|| cell(p.value));
            rows.push(start.chain(path).chain(kind).chain(counts).chain(value).collect());
        }
    }
    rows
}

/// Formats the figures of streams before and after a point in time.
pub fn comparison(both: &[(PooledStream, Pool, Pool)], figures: &[&'static Scalar]) -> String {
    let mut text = String::new();
    for (k, (stream, before, after)) in both.iter().enumerate() {
        if k > 0 {
            text += "\n";
        }
        text += &format!("{}\n", describe(stream));
        let heading = ["", "before", "after", "change"].map(str::to_owned).to_vec();
        let tests =
            vec!["tests".to_owned(), before.tests.to_string(), after.tests.to_string(), String::new()];
        let mut rows = vec![heading, tests];
        for figure in figures {
            let (a, b) = (before.scalar(figure), after.scalar(figure));
            let change = a
                .zip(b)
                .filter(|(a, b)| a != b && *a != 0.0)
                .map(|(a, b)| format!("{:+.1} %", 100.0 * (b - a) / a.abs()));
            rows.push(vec![
                figure.label.to_owned(),
                shown(figure, a),
                shown(figure, b),
                change.unwrap_or_default(),
            ]);
        }
        text += &table(&rows, 1);
    }
    text += "\nFigures pool all packets before and after the given time. To compare two tests: jitlat compare DIR/ID DIR/ID\n";
    text
}

/// Formats the figures of groups of tests.
pub fn groups(groups: &BTreeMap<Vec<String>, Pool>, figures: &[&Scalar]) -> String {
    let keys = groups.keys().map(Vec::len).max().unwrap_or(0);
    let heading = vec![String::new(); keys].into_iter().chain(["tests".to_owned()]);
    let mut rows: Vec<Vec<String>> = vec![heading.chain(figures.iter().map(|f| f.key.to_owned())).collect()];
    for (key, pool) in groups {
        let values = figures.iter().map(|f| shown(f, pool.scalar(f)));
        rows.push(key.iter().cloned().chain([pool.tests.to_string()]).chain(values).collect());
    }
    if groups.is_empty() { "no matching tests\n".to_owned() } else { table(&rows, keys) }
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
    let when = |ns: Option<i64>| ns.map_or("never".to_owned(), |ns| time(ns, PoolPeriod::Test));
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
                p.oldest_ns.map_or("-".to_owned(), |ns| time(ns, PoolPeriod::Test)),
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

/// Property by which tests are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The hosts, the protocol, and the direction.
    Path,
    /// The period in which the tests started.
    Time(PoolPeriod),
}

impl FromStr for GroupKey {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<GroupKey, ArchiveError> {
        if text == "path" { Ok(GroupKey::Path) } else { text.parse().map(GroupKey::Time) }
    }
}

impl GroupKey {
    /// Returns the name as used in options.
    pub fn name(self) -> &'static str {
        match self {
            GroupKey::Path => "path",
            GroupKey::Time(by) => {
                PoolPeriod::NAMES.iter().find(|(_, period)| *period == by).map_or("", |(name, _)| name)
            }
        }
    }

    /// Returns the value of the property for a test.
    pub fn of(self, test: &ListedTest) -> String {
        match self {
            GroupKey::Path => format!("{} > {} {} {}", test.src, test.dst, test.protocol, test.direction),
            GroupKey::Time(PoolPeriod::All) => "all".to_owned(),
            GroupKey::Time(PoolPeriod::Test) => test.id.clone(),
            GroupKey::Time(period) => time(test.started_ns, period),
        }
    }
}

/// Describes the groups that violate `condition`.
pub fn violations(condition: &ScalarCondition, groups: &BTreeMap<Vec<String>, Pool>) -> Vec<String> {
    let Some(figure) = condition.selector().map(|selector| selector.scalar) else { return Vec::new() };
    let violated = |(group, pool): (&Vec<String>, &Pool)| {
        let violation = condition.violated_by(ExactNumber::Real(pool.scalar(figure)?))?;
        Some(format!("{}: {violation}", printable(&group.join(", "))))
    };
    groups.iter().filter_map(violated).collect()
}

/// JSON written by `analyze --dataset --json`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetDocument {
    /// Properties by which tests are grouped, as given in `--by`.
    by: Vec<String>,
    /// Groups, sorted by the values of their properties.
    groups: Vec<GroupDocument>,
    /// Number of tests that could not be read. They are not in any group.
    failed: usize,
}

/// A group, with the figures of all packets of its tests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct GroupDocument {
    /// Values of the properties that the tests of the group share, in the order of `by`.
    group: Vec<String>,
    /// Number of tests of the group.
    tests: u64,
    /// Figures of all packets by key, in ns or as a ratio; null if undefined.
    figures: BTreeMap<&'static str, Option<f64>>,
}

impl DatasetDocument {
    /// Creates the document from `groups`, which are grouped by `by`. `failed` is the number of tests that could not be
    /// read.
    pub fn new(by: &[GroupKey], groups: &BTreeMap<Vec<String>, Pool>, failed: usize) -> DatasetDocument {
        let figures =
            |pool: &Pool| SCALARS.iter().filter(|f| pool::has(f)).map(|f| (f.key, pool.scalar(f))).collect();
        let group = |(key, pool): (&Vec<String>, &Pool)| GroupDocument {
            group: key.clone(),
            tests: pool.tests,
            figures: figures(pool),
        };
        DatasetDocument {
            by: by.iter().map(|key| key.name().to_owned()).collect(),
            groups: groups.iter().map(group).collect(),
            failed,
        }
    }
}
