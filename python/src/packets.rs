//! `Packets`: the packets of a test as an Arrow table that is made while it is read.

use crate::arrow::{schema_capsule, stream_capsule};
use crate::columns;
use crate::errors::{Error, failed, invalid};
use crate::table::{row_type, to_pandas};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use jitlat_archive::{Archive, ArchiveError, COLUMNS, Filter, ListedTest, TestHeader, TestId, When};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows per batch.
const BATCH: usize = 65_536;

/// The packets of one test. Exchanged with other libraries without copies: `pyarrow.table(packets)`,
/// `polars.DataFrame(packets)`, `duckdb.from_arrow(pyarrow.table(packets))`. `pandas.DataFrame(packets)` also works, but
/// stores columns with missing values as floats, in which times are exact to 256 ns; `packets.pandas()` keeps integers.
/// Iteration yields named tuples.
#[pyclass(module = "jitlat", frozen)]
pub struct Packets {
    pub header: TestHeader,
    from: From,
}

enum From {
    Table(Arc<Vec<RecordBatch>>),
    Archive(PathBuf),
}

impl Packets {
    fn in_archive(root: PathBuf, header: TestHeader) -> Packets {
        Packets { header, from: From::Archive(root) }
    }

    /// Returns all batches.
    pub fn batches(
        &self,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>, ArchiveError> {
        match &self.from {
            From::Table(batches) => {
                let batches = batches.clone();
                Ok(Box::new((0..batches.len()).map(move |k| Ok(batches[k].clone()))))
            }
            From::Archive(root) => {
                let archive = Archive::open(root)?;
                let (mut packets, id) = (archive.packets(self.header.id())?, self.header.id().0);
                let schema = columns::schema(&self.header);
                Ok(Box::new(std::iter::from_fn(move || match packets.rows() {
                    Ok([]) => None,
                    Ok(rows) => Some(columns::batch(&schema, id, rows)),
                    Err(e) => Some(Err(ArrowError::ExternalError(Box::new(e)))),
                })))
            }
        }
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&self.header)
    }
}

#[pymethods]
impl Packets {
    /// Number of the test, as 16 hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        self.header.id().to_string()
    }

    /// Name of the log.
    #[getter]
    fn source(&self) -> &str {
        self.header.source()
    }

    /// Tags given when it was archived.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tags = PyDict::new(py);
        self.header.tags().iter().try_for_each(|(key, value)| tags.set_item(key, value))?;
        Ok(tags)
    }

    /// Facts of the log that are not packets, as keys and values for the metadata of a table.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        self.header.metadata().iter().try_for_each(|(key, value)| metadata.set_item(key, value))?;
        Ok(metadata)
    }

    /// The table as a `pyarrow.Table`, with the metadata that `analyze` needs.
    fn arrow<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        py.import("pyarrow")?.call_method1("table", (this,))
    }

    /// The table as a `pandas.DataFrame` with Arrow types, so that missing values do not change numbers.
    fn pandas<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_pandas(this.into_any())
    }

    /// The table as a `polars.DataFrame`.
    fn polars<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        py.import("polars")?.call_method1("DataFrame", (this,))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PacketRows> {
        let names: Vec<&str> = std::iter::once("test_id").chain(COLUMNS.iter().map(|c| c.name)).collect();
        let kind = row_type(py, "Packet", &names)?.getattr("_make")?.unbind();
        let batches = Mutex::new(self.batches().map_err(failed)?);
        Ok(PacketRows { batches, rows: Vec::new().into_iter(), id: self.header.id().0, kind })
    }

    fn __len__(&self) -> usize {
        self.header.packets() as usize
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", self.__repr__().chars().map(crate::summary::escaped).collect::<String>())
    }

    fn __repr__(&self) -> String {
        format!(
            "<jitlat.Packets {} of {}: {} packets>",
            self.header.id(),
            self.header.source(),
            self.header.packets()
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema())
    }

    /// Columns keep their types: a consumer that wants other types converts them.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream_capsule(py, self.batches().map_err(failed)?, self.schema())
    }
}

/// Opens the packets of the log at `path`, or of the test `DIR/ID` of an archive.
#[pyfunction]
pub fn read_log(py: Python<'_>, path: PathBuf) -> PyResult<Packets> {
    py.detach(|| read(&path)).map_err(failed)
}

fn read(path: &Path) -> Result<Packets, ArchiveError> {
    if let Some((root, id)) = archived(path)? {
        let header = Archive::open(&root)?.header(id)?;
        return Ok(Packets { header, from: From::Archive(root) });
    }
    let mut all: Vec<Vec<jitlat_store::log::LogRow>> = Vec::new();
    let header = TestHeader::of_log(path, |row| match all.last_mut() {
        Some(rows) if rows.len() < BATCH => rows.push(*row),
        _ => all.push(vec![*row]),
    })?;
    let schema = columns::schema(&header);
    let batches = all.into_iter().map(|rows| columns::batch(&schema, header.id().0, &rows));
    let batches =
        batches.collect::<Result<Vec<_>, _>>().map_err(|e| ArchiveError::Impossible(e.to_string()))?;
    Ok(Packets { header, from: From::Table(batches.into()) })
}

/// The archive and the test that `path` names as `DIR/ID`; `None` if it is something else.
pub fn archived(path: &Path) -> Result<Option<(PathBuf, TestId)>, ArchiveError> {
    let (Some(root), Some(id)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(None);
    };
    if path.exists() || !jitlat_archive::is_archive(root) {
        return Ok(None);
    }
    Ok(Some((root.to_owned(), Archive::open(root)?.find(id)?)))
}

/// Packets of a test, one by one.
#[pyclass(module = "jitlat")]
pub struct PacketRows {
    batches: Mutex<Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>>,
    rows: std::vec::IntoIter<jitlat_store::log::LogRow>,
    id: i64,
    /// Makes a named tuple of values.
    kind: Py<PyAny>,
}

#[pymethods]
impl PacketRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            if let Some(row) = self.rows.next() {
                let values = std::iter::once(Some(self.id)).chain(COLUMNS.iter().map(|c| (c.take)(&row)));
                return Ok(Some(self.kind.bind(py).call1((PyTuple::new(py, values.collect::<Vec<_>>())?,))?));
            }
            let batches = self.batches.get_mut().unwrap_or_else(PoisonError::into_inner);
            let Some(batch) = py.detach(|| batches.next()) else { return Ok(None) };
            let batch = batch.map_err(failed)?;
            self.rows = columns::rows(&batch, self.id, 0, batch.num_rows())?.into_iter();
        }
    }
}

/// Conditions on tests.
pub struct Selection {
    pub filter: Filter,
    protocol: Option<String>,
    direction: Option<String>,
    severity: Option<String>,
}

impl Selection {
    /// True if a test that the filter selects meets the other conditions.
    pub fn has(&self, test: &ListedTest) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.protocol, &test.protocol)
            && is(&self.direction, &test.direction)
            && is(&self.severity, &test.severity)
    }
}

/// Reads a time: text as in the command, or a date, or a `datetime` with time zone.
fn when(name: &str, value: Bound<'_, PyAny>) -> PyResult<When> {
    let text = match value.extract::<String>() {
        Ok(text) => text,
        Err(_) => {
            let text: String =
                value.call_method0("isoformat").and_then(|text| text.extract()).map_err(|_| {
                    invalid(format!(
                        "{name}: give a date, a datetime, or text such as \"2026-11-23\" or \"7d\""
                    ))
                })?;
            if text.contains('T') && value.getattr("tzinfo")?.is_none() {
                return Err(invalid(format!("{name}={text}: give a datetime with time zone")));
            }
            text
        }
    };
    When::parse(&text, jitlat_net::clock::wall()).map_err(|e| invalid(format!("{name}: {e}")))
}

/// Makes a selection of keyword arguments.
#[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
pub fn selected(
    path: Option<&str>,
    since: Option<Bound<'_, PyAny>>,
    before: Option<Bound<'_, PyAny>>,
    tags: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    protocol: Option<String>,
    direction: Option<String>,
    severity: Option<String>,
) -> PyResult<Selection> {
    const SEVERITIES: [&str; 5] = ["good", "fair", "poor", "bad", "unknown"];
    if let Some(other) = severity.as_deref().filter(|s| !SEVERITIES.contains(s)) {
        return Err(invalid(format!("severity={other}: give one of {}", SEVERITIES.join(", "))));
    }
    let filter = Filter {
        path: path.map(str::parse).transpose().map_err(|e: ArchiveError| invalid(e.to_string()))?,
        since: since.map(|at| when("since", at)).transpose()?,
        before: before.map(|at| when("before", at)).transpose()?,
        tags: tags.into_iter().flatten().collect(),
        labels: labels.into_iter().flatten().collect(),
    };
    Ok(Selection { filter, protocol, direction, severity })
}

/// Packets of several tests of an archive. They are looked up when they are used: iteration and `tests[k]` give `Packets`.
#[pyclass(module = "jitlat", frozen)]
pub struct Tests {
    root: PathBuf,
    archive: Mutex<Archive>,
    ids: Vec<TestId>,
}

impl Tests {
    pub fn find(root: PathBuf, wanted: &Selection) -> Result<Tests, ArchiveError> {
        let archive = Archive::open(&root)?;
        let tests = archive.list(&wanted.filter, &[])?.into_iter();
        let tests = tests.filter(|test| test.has_packets && wanted.has(test));
        let ids = tests.map(|test| test.test_id()).collect::<Result<_, _>>()?;
        Ok(Tests { root, archive: Mutex::new(archive), ids })
    }

    fn at(&self, k: usize) -> PyResult<Packets> {
        let archive = self
            .archive
            .lock()
            .map_err(|_| Error::new_err("the archive is unusable after an earlier failure"))?;
        Ok(Packets::in_archive(self.root.clone(), archive.header(self.ids[k]).map_err(failed)?))
    }
}

#[pymethods]
impl Tests {
    /// Numbers of the tests, as 16 hexadecimal digits.
    #[getter]
    fn ids(&self) -> Vec<String> {
        self.ids.iter().map(ToString::to_string).collect()
    }

    fn __len__(&self) -> usize {
        self.ids.len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Packets> {
        let count = self.ids.len();
        let k = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
        let k = k.and_then(|k| usize::try_from(k).ok()).filter(|k| *k < count);
        let k = k.ok_or_else(|| PyIndexError::new_err(format!("there are {count} tests")))?;
        py.detach(|| self.at(k))
    }

    fn __repr__(&self) -> String {
        format!("<jitlat.Tests: {} tests of {}>", self.ids.len(), self.root.display())
    }
}

/// The packets of the tests in the archive in the folder `directory`, ordered by start: of all tests whose packets are
/// stored, or of those between the hosts `path` ("A:B"), started at `since` or later and before `before`
/// ("2026-11-23", "7d", or a `datetime` with time zone), with all `tags` and `labels`, of a `protocol`, `direction` and
/// `severity`. A test is read only when it is used.
#[pyfunction]
#[pyo3(signature = (directory, *, path = None, since = None, before = None, tags = None, labels = None, protocol = None, direction = None,
                    severity = None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
pub fn read_archive(
    py: Python<'_>,
    directory: PathBuf,
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
    py.detach(|| Tests::find(directory, &wanted)).map_err(failed)
}
