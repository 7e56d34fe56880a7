//! Answers of an archive as text, CSV and JSON.

use crate::{
    ArchiveError, Checked, CollectedHost, Compacted, ListedTest, PeriodValue, PoolPeriod, PooledStream,
    Pruned, Pushed, utc,
};
use core::str::FromStr;
use jitlat_core::pool::{self, Pool};
use jitlat_core::scalars::{ExactNumber, SCALARS, Scalar, ScalarCondition, ScalarUnit, Selector};
use jitlat_core::units;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `archive ls --json` writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListDocument<'a> {
    /// Tests, in the order they began.
    pub tests: &'a [ListedTest],
}

/// What `archive query --json` writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueryDocument<'a> {
    /// Key of the figure.
    pub figure: &'static str,
    /// Its definition.
    pub about: &'static str,
    /// Length of what is pooled: test, hour, day, month, year or all.
    pub by: &'static str,
    /// Streams of packets that can be pooled.
    pub streams: Vec<StreamPoints<'a>>,
}

/// A stream of packets, and the figure in each period.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamPoints<'a> {
    /// Which packets.
    pub stream: &'a PooledStream,
    /// In the order of time; periods without tests are left out.
    pub points: &'a [PeriodValue],
}

/// Columns, aligned; the last may be of any length.
fn table(rows: &[Vec<String>], left: usize) -> String {
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

/// Form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Columns for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// CSV with a line of names.
    Csv,
}

fn json<T: Serialize>(document: &T) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// A time as `2026-11-23 10:00:00`, UTC, as long as the period needs.
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

/// A field of CSV.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Text from a log without what would control a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A list of tests.
///
/// # Errors
/// None that a list can cause.
pub fn list(tests: &[ListedTest], figures: &[Selector], form: Form) -> serde_json::Result<String> {
    if form == Form::Json {
        return json(&ListDocument { tests });
    }
    let names: Vec<String> = figures.iter().map(ToString::to_string).collect();
    if form == Form::Csv {
        let columns: String = figures.iter().map(|f| format!(",{}", f.column())).collect();
        let mut text =
            format!("id,started_ns,src,dst,protocol,direction,name,source,packets,severity{columns}\n");
        for t in tests {
            let values: String =
                names.iter().map(|n| format!(",{}", cell(t.figures.get(n).copied().flatten()))).collect();
            let name = field(t.name.as_deref().unwrap_or(""));
            text += &format!(
                "{},{},{},{},{},{},{name},{},{},{}{values}\n",
                t.id,
                t.started_ns,
                t.src,
                t.dst,
                t.protocol,
                t.direction,
                field(&t.source),
                t.packets,
                t.severity
            );
        }
        return Ok(text);
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
        let mut name = plain(t.name.as_deref().unwrap_or(&t.source));
        if !t.has_packets {
            name += " (packets pruned)";
        }
        row.push(name);
        rows.push(row);
    }
    Ok(if tests.is_empty() { "no such tests\n".to_owned() } else { table(&rows, 5) })
}

/// What the streams have that differs, in words.
fn describe(stream: &PooledStream) -> String {
    let period = stream.period_ns.map_or_else(String::new, |ns| format!(" every {}", units::eng4(ns)));
    let payload = stream.payload_bytes.map_or_else(String::new, |n| format!(", {n} bytes"));
    let dscp = if stream.dscp == 0 { String::new() } else { format!(", DSCP {}", stream.dscp) };
    let PooledStream { src, dst, protocol, direction, .. } = stream;
    format!("{src} > {dst}: {protocol} {direction}{payload}{period}{dscp}")
}

/// A figure over time.
///
/// # Errors
/// None that a list can cause.
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
    // How many were sent is there in any case.
    let has_value = figure.key != "sent";
    let mut text = String::new();
    if form == Form::Csv {
        text = "start_ns,src,dst,protocol,direction,payload_bytes,period_ns,dscp,test,tests,sent".to_owned();
        if has_value {
            text += &format!(",{}", figure.column());
        }
        text += "\n";
    }
    for (k, (stream, points)) in found.iter().enumerate() {
        if form == Form::Csv {
            let PooledStream { src, dst, protocol, direction, payload_bytes, period_ns, dscp } = stream;
            let known = |x: &Option<i64>| x.map_or_else(String::new, |x| x.to_string());
            let (payload, period) = (known(payload_bytes), known(period_ns));
            for p in points {
                let test = p.test.as_deref().unwrap_or("");
                let value = if has_value { format!(",{}", cell(p.value)) } else { String::new() };
                text += &format!(
                    "{},{src},{dst},{protocol},{direction},{payload},{period},{dscp},{test},{},{}{value}\n",
                    p.start_ns, p.tests, p.sent
                );
            }
            continue;
        }
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
    Ok(if found.is_empty() { "no such tests\n".to_owned() } else { text })
}

/// Figures of streams before a time and after it.
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
    text += "\nThe figures are those of all packets before and after. Whether single tests differ: jitlat compare DIR/ID DIR/ID\n";
    text
}

/// Figures of groups of tests.
pub fn groups(groups: &BTreeMap<Vec<String>, Pool>, figures: &[&Scalar]) -> String {
    let keys = groups.keys().map(Vec::len).max().unwrap_or(0);
    let heading = vec![String::new(); keys].into_iter().chain(["tests".to_owned()]);
    let mut rows: Vec<Vec<String>> = vec![heading.chain(figures.iter().map(|f| f.key.to_owned())).collect()];
    for (key, pool) in groups {
        let values = figures.iter().map(|f| shown(f, pool.scalar(f)));
        rows.push(key.iter().cloned().chain([pool.tests.to_string()]).chain(values).collect());
    }
    if groups.is_empty() { "no such tests\n".to_owned() } else { table(&rows, keys) }
}

/// What `archive pushes --json` writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PushesDocument {
    /// What this host pushes, by collector.
    pub pushed: Vec<Pushed>,
    /// What others have pushed to this archive, by host.
    pub collected: Vec<CollectedHost>,
}

/// Tests that wait for a collector, and that came from other hosts.
///
/// # Errors
/// None that a document can cause.
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
                plain(p.reason.as_deref().unwrap_or("-")),
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
            "said (UTC)",
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
        text += "nothing is pushed from this archive, nor to it\n";
    }
    Ok(text)
}

/// What `compact` did, in words.
pub fn compacted(done: &Compacted) -> String {
    let Compacted { before, after, bytes_before, bytes_after, damaged } = done;
    let mut text = match before {
        0 => "nothing to put together\n".to_owned(),
        _ => format!("{before} files of {bytes_before} bytes are now {after} of {bytes_after}\n"),
    };
    if *damaged > 0 {
        text +=
            &format!("{damaged} files are damaged and stay as they are: jitlat archive fsck names them\n");
    }
    text
}

/// What `prune` did, in words.
pub fn pruned(done: &Pruned) -> String {
    let Pruned { packets_of, tests, waited, files, bytes } = done;
    let mut text =
        format!("packets of {packets_of} tests removed ({files} files, {bytes} bytes), and {tests} tests\n");
    if *waited > 0 {
        text +=
            &format!("{waited} of them waited to be pushed to a collector: they are counted as dropped\n");
    }
    text
}

/// What `fsck` found, in words.
pub fn checked(found: &Checked) -> String {
    let Checked { tests, files, bytes, unfinished, superfluous, entered, damaged } = found;
    let mut text = format!("{tests} tests, {files} files of packets, {bytes} bytes\n");
    for (n, what) in [
        (unfinished, "unfinished files removed"),
        (superfluous, "files removed whose tests are elsewhere"),
        (entered, "tests entered that were written and not entered"),
    ] {
        if *n > 0 {
            text += &format!("{n} {what}\n");
        }
    }
    for finding in damaged {
        text += &format!("damaged: {}: {}\n", plain(&finding.what), plain(&finding.problem));
    }
    text + if damaged.is_empty() { "clean\n" } else { "" }
}

/// Property that the tests of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The hosts, the protocol and the direction.
    Path,
    /// The period in which they began.
    Time(PoolPeriod),
}

impl FromStr for GroupKey {
    type Err = ArchiveError;

    fn from_str(text: &str) -> Result<GroupKey, ArchiveError> {
        if text == "path" { Ok(GroupKey::Path) } else { text.parse().map(GroupKey::Time) }
    }
}

impl GroupKey {
    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            GroupKey::Path => "path",
            GroupKey::Time(by) => {
                PoolPeriod::NAMES.iter().find(|(_, period)| *period == by).map_or("", |(name, _)| name)
            }
        }
    }

    /// Its value for a test.
    pub fn of(self, test: &ListedTest) -> String {
        match self {
            GroupKey::Path => format!("{} > {} {} {}", test.src, test.dst, test.protocol, test.direction),
            GroupKey::Time(PoolPeriod::All) => "all".to_owned(),
            GroupKey::Time(PoolPeriod::Test) => test.id.clone(),
            GroupKey::Time(period) => time(test.started_ns, period),
        }
    }
}

/// The groups that violate `condition`.
pub fn violations(condition: &ScalarCondition, groups: &BTreeMap<Vec<String>, Pool>) -> Vec<String> {
    let figure = condition.selector().scalar;
    let violated = |(group, pool): (&Vec<String>, &Pool)| {
        let violation = condition.violated_by(ExactNumber::Real(pool.scalar(figure)?))?;
        Some(format!("{}: {violation}", group.join(", ")))
    };
    groups.iter().filter_map(violated).collect()
}

/// What `analyze --dataset --json` writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetDocument {
    /// What the tests of a group agree in, as `--by` names it.
    by: Vec<String>,
    /// In the order of their names.
    groups: Vec<GroupDocument>,
    /// Tests that could not be read, which are in no group.
    failed: usize,
}

/// All packets of the tests of a group.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct GroupDocument {
    /// What its tests agree in, in the order of `by`.
    group: Vec<String>,
    /// ExactNumber of its tests.
    tests: u64,
    /// Figures of all their packets by key, in ns or as a ratio; null where one is undefined.
    figures: BTreeMap<&'static str, Option<f64>>,
}

impl DatasetDocument {
    /// The figures of `groups`, of which `by` are the names; `failed` tests could not be read.
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
