//! `Archive`: the tests of an archive, their figures and their packets, for programs that work with tables.

use crate::errors::{Error, failed, invalid};
use crate::lake;
use crate::packets::{Tests, selected};
use crate::table::{Column, Table};
use jitlat_archive::{
    AddOutcome, Archive as StoredArchive, ArchiveError, ListedTest, PoolPeriod, PooledStream,
};
use jitlat_core::scalars::{Scalar, Selector, selectors};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An archive of tests. Its methods return tables for pyarrow, pandas, polars and DuckDB, with times as timestamps.
///
/// A time (`since`, `before`) is a date or `datetime` with time zone, or text as in the command: "2026-11-23",
/// "2026-11-23T10:00:00Z", or an age, "7d". `path` is "A:B", two hosts by address or name, of which either may be
/// empty.
#[pyclass(module = "jitlat", frozen)]
pub struct Archive {
    root: PathBuf,
}

/// Name of a figure's column: `latency_p99_9` for `latency-p99.9`.
pub fn column_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// One name, or several.
#[derive(FromPyObject)]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    fn selectors(self) -> PyResult<Vec<Selector>> {
        let names = match self {
            Names::One(all) if all == "all" => return Ok(selectors().collect()),
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        };
        // Names of columns are accepted, too.
        let known = |name: &str| selectors().find(|s| column_name(&s.to_string()) == name);
        let of = |name: String| match name.parse::<Selector>() {
            Ok(selector) => Ok(selector),
            Err(e) => known(&name).ok_or_else(|| invalid(e.to_string())),
        };
        names.into_iter().map(of).collect()
    }
}

fn text<T>(rows: &[T], of: impl Fn(&T) -> &str) -> Column {
    Column::Text(rows.iter().map(|row| Some(of(row).to_owned())).collect())
}

/// The columns of a list of tests.
fn listed(tests: &[ListedTest], figures: &[Selector]) -> PyResult<Table> {
    let tags = tests.iter().map(|t| serde_json::to_string(&t.tags).map(Some));
    let tags = tags.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let columns = [
        ("id", text(tests, |t| &t.id)),
        ("started", Column::Time(tests.iter().map(|t| t.started_ns).collect())),
        ("src", text(tests, |t| &t.src)),
        ("dst", text(tests, |t| &t.dst)),
        ("protocol", text(tests, |t| &t.protocol)),
        ("direction", text(tests, |t| &t.direction)),
        ("name", Column::Text(tests.iter().map(|t| t.name.clone()).collect())),
        ("log", text(tests, |t| &t.source)),
        ("packets", Column::Whole(tests.iter().map(|t| Some(t.packets as i64)).collect())),
        ("has_packets", Column::Flag(tests.iter().map(|t| t.has_packets).collect())),
        ("severity", text(tests, |t| &t.severity)),
        ("headline", text(tests, |t| &t.headline)),
        ("tags", Column::Text(tags)),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name.to_owned(), column));
    let figures = figures.iter().map(|figure| {
        let key = figure.to_string();
        let values = tests.iter().map(|t| t.figures.get(&key).copied().flatten());
        (column_name(&key), Column::Number(values.collect()))
    });
    Ok(Table::new(tests.len(), columns.chain(figures).collect()))
}

#[pymethods]
impl Archive {
    /// Opens the archive in the folder `path`; with `create`, makes it if it does not exist.
    #[new]
    #[pyo3(signature = (path, *, create = false))]
    fn new(py: Python<'_>, path: PathBuf, create: bool) -> PyResult<Archive> {
        py.detach(|| if create { StoredArchive::make(&path) } else { StoredArchive::open(&path) })
            .map_err(failed)?;
        Ok(Archive { root: path })
    }

    /// Folder of the archive.
    #[getter]
    fn path(&self) -> PathBuf {
        self.root.clone()
    }

    /// Tests in order of their start, with their hosts, tags, verdict and `figures`: names, or "all". A figure's
    /// column has its name with underscores, and its unit (times in ns, ratios from 0 to 1). Like `jitlat archive ls`.
    #[pyo3(signature = (*, figures = None, path = None, since = None, before = None, tags = None, labels = None, protocol = None,
                        direction = None, severity = None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn ls(
        &self,
        py: Python<'_>,
        figures: Option<Names>,
        path: Option<&str>,
        since: Option<Bound<'_, PyAny>>,
        before: Option<Bound<'_, PyAny>>,
        tags: Option<BTreeMap<String, String>>,
        labels: Option<BTreeMap<String, String>>,
        protocol: Option<String>,
        direction: Option<String>,
        severity: Option<String>,
    ) -> PyResult<Table> {
        let figures = figures.unwrap_or_else(|| Names::Several(vec!["loss".into(), "pdv-p99".into()]));
        let figures = figures.selectors()?;
        let wanted = selected(path, since, before, tags, labels, protocol, direction, severity)?;
        let tests =
            py.detach(|| StoredArchive::open(&self.root)?.list(&wanted.filter, &figures)).map_err(failed)?;
        let tests: Vec<ListedTest> = tests.into_iter().filter(|test| wanted.has(test)).collect();
        listed(&tests, &figures)
    }

    /// Figures of all packets of each period: one row per stream and period (`by`: test, hour, day, month, year or
    /// all, in UTC), with a column for each of `figures`. Like `jitlat archive query`.
    #[pyo3(signature = (figures = None, *, by = "day", path = None, since = None, before = None, labels = None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn query(
        &self,
        py: Python<'_>,
        figures: Option<Names>,
        by: &str,
        path: Option<&str>,
        since: Option<Bound<'_, PyAny>>,
        before: Option<Bound<'_, PyAny>>,
        labels: Option<BTreeMap<String, String>>,
    ) -> PyResult<Table> {
        let figures: Vec<&'static Scalar> = match figures {
            Some(Names::One(all)) if all == "all" => {
                jitlat_core::scalars::SCALARS.iter().filter(|s| jitlat_core::pool::has(s)).collect()
            }
            Some(names) => names.selectors()?.into_iter().map(whole).collect::<PyResult<_>>()?,
            None => Scalar::named("pdv-p99").into_iter().collect(),
        };
        let by: PoolPeriod = by.parse().map_err(|e: ArchiveError| invalid(e.to_string()))?;
        let filter = selected(path, since, before, None, labels, None, None, None)?.filter;
        let mut points: Vec<(PooledStream, jitlat_archive::PeriodValue)> = Vec::new();
        let mut columns = Vec::new();
        py.detach(|| {
            let archive = StoredArchive::open(&self.root)?;
            for (k, figure) in figures.iter().enumerate() {
                let found = archive.query(&filter, figure, by)?;
                let values = found.iter().flat_map(|(_, points)| points.iter().map(|p| p.value));
                columns.push((column_name(figure.key), Column::Number(values.collect())));
                if k == 0 {
                    let of = |(stream, points): (PooledStream, Vec<_>)| {
                        points.into_iter().map(move |point| (stream.clone(), point))
                    };
                    points = found.into_iter().flat_map(of).collect();
                }
            }
            Ok::<_, ArchiveError>(())
        })
        .map_err(failed)?;
        let whole = |of: fn(&PooledStream) -> Option<i64>| {
            Column::Whole(points.iter().map(|(stream, _)| of(stream)).collect())
        };
        let first = [
            ("start", Column::Time(points.iter().map(|(_, p)| p.start_ns).collect())),
            ("src", text(&points, |(stream, _)| &stream.src)),
            ("dst", text(&points, |(stream, _)| &stream.dst)),
            ("protocol", text(&points, |(stream, _)| &stream.protocol)),
            ("direction", text(&points, |(stream, _)| &stream.direction)),
            ("payload_bytes", whole(|s| s.payload_bytes)),
            ("period_ns", whole(|s| s.period_ns)),
            ("dscp", whole(|s| Some(s.dscp))),
            ("test", Column::Text(points.iter().map(|(_, p)| p.test.clone()).collect())),
            ("tests", Column::Whole(points.iter().map(|(_, p)| Some(p.tests as i64)).collect())),
        ];
        let sent = Column::Whole(points.iter().map(|(_, p)| Some(p.sent as i64)).collect());
        columns.retain(|(name, _)| name != "sent");
        let first = first.into_iter().chain([("sent", sent)]).map(|(name, column)| (name.to_owned(), column));
        Ok(Table::new(points.len(), first.chain(columns).collect()))
    }

    /// Packets of tests whose packets are stored, in order of their start. Like `jitlat.read_archive`.
    #[pyo3(signature = (*, path = None, since = None, before = None, tags = None, labels = None, protocol = None, direction = None,
                        severity = None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn tests(
        &self,
        py: Python<'_>,
        path: Option<&str>,
        since: Option<Bound<'_, PyAny>>,
        before: Option<Bound<'_, PyAny>>,
        tags: Option<BTreeMap<String, String>>,
        labels: Option<BTreeMap<String, String>>,
        protocol: Option<String>,
        direction: Option<String>,
        severity: Option<String>,
    ) -> PyResult<Tests> {
        let wanted = selected(path, since, before, tags, labels, protocol, direction, severity)?;
        py.detach(|| Tests::find(self.root.clone(), &wanted)).map_err(failed)
    }

    /// Adds logs, with `tags` in addition to their own. Returns the number of each test, also of those that were
    /// already there. All logs that can be added are added, even if others cannot.
    #[pyo3(signature = (logs, *, tags = None))]
    fn add(
        &self,
        py: Python<'_>,
        logs: Bound<'_, PyAny>,
        tags: Option<BTreeMap<String, String>>,
    ) -> PyResult<Vec<String>> {
        let logs: Vec<PathBuf> = match logs.extract::<PathBuf>() {
            Ok(one) => vec![one],
            Err(_) => logs.try_iter()?.map(|log| Ok(log?.extract()?)).collect::<PyResult<_>>()?,
        };
        let tags: Vec<(String, String)> = tags.into_iter().flatten().collect();
        let outcomes = py
            .detach(|| {
                let archive = StoredArchive::make(&self.root)?;
                let paths: Vec<&std::path::Path> = logs.iter().map(PathBuf::as_path).collect();
                Ok::<_, ArchiveError>(
                    paths.chunks(256).flat_map(|some| archive.add_files(some, &tags)).collect::<Vec<_>>(),
                )
            })
            .map_err(failed)?;
        let (mut ids, mut failures) = (Vec::new(), Vec::new());
        for (log, outcome) in logs.iter().zip(outcomes) {
            match outcome {
                Ok(AddOutcome::New(id) | AddOutcome::Known(id)) => ids.push(id.to_string()),
                Err(e) => failures.push(format!("{}: {e}", log.display())),
            }
        }
        if failures.is_empty() {
            return Ok(ids);
        }
        let text =
            format!("{} of {} logs were not added: {}", failures.len(), logs.len(), failures.join("; "));
        Err(Error::new_err(text))
    }

    /// Writes the tests that were added since the last publication to a lake: a folder, or a URI (`s3://`, `gs://`,
    /// `hdfs://`, which need pyarrow). `filesystem`: a `pyarrow.fs.FileSystem` to be used instead of that of the URI;
    /// `name`: name of this archive in the lake; `again`: replace what was published. Returns counts. Like `jitlat
    /// archive publish`; see `jitlat.lake` for Iceberg.
    #[pyo3(signature = (lake, *, name = None, again = false, filesystem = None))]
    fn publish<'py>(
        &self,
        py: Python<'py>,
        lake: Bound<'py, PyAny>,
        name: Option<String>,
        again: bool,
        filesystem: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        lake::publish(py, &self.root, lake, name, again, filesystem)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (PathBuf,))> {
        Ok((py.get_type::<Archive>().into_any(), (self.root.clone(),)))
    }

    fn __repr__(&self) -> String {
        format!("<jitlat.Archive {}>", self.root.display())
    }
}

/// The scalar of a whole test.
fn whole(selector: Selector) -> PyResult<&'static Scalar> {
    match selector.direction {
        None => Ok(selector.scalar),
        Some(_) => Err(invalid(format!(
            "{selector}: figures of periods are available for whole tests only, not by direction"
        ))),
    }
}
