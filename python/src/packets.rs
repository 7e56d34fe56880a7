//! `Packets`: the packets of a test as an Arrow table that is made while it is read.

use crate::arrow::{schema_capsule, stream_capsule};
use crate::columns;
use crate::errors::failed;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use jitlat_archive::{Archive, ArchiveError, Filter, TestHeader, TestId, When};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows per batch.
const BATCH: usize = 65_536;

/// The packets of one test. Exchanged with other libraries without copies: `pyarrow.table(packets)`,
/// `polars.DataFrame(packets)`, `duckdb.from_arrow(pyarrow.table(packets))`.
#[pyclass(module = "jitlat", frozen)]
pub struct Packets {
    pub header: TestHeader,
    from: From,
}

enum From {
    Table(Arc<Vec<RecordBatch>>),
    Archive(PathBuf),
}

/// Calls `each` with every batch.
impl Packets {
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

    fn __len__(&self) -> usize {
        self.header.packets() as usize
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

fn when(text: &str) -> Result<When, ArchiveError> {
    When::parse(text, jitlat_net::clock::wall())
}

/// Opens the tests in the archive in the folder `directory` whose packets are stored, ordered by start: all, or those
/// between the hosts `path` ("A:B"), started at `since` or later and before `before` ("2026-11-23", "7d"), with all
/// `tags`.
#[pyfunction]
#[pyo3(signature = (directory, *, path = None, since = None, before = None, tags = None))]
pub fn read_archive(
    py: Python<'_>,
    directory: PathBuf,
    path: Option<&str>,
    since: Option<&str>,
    before: Option<&str>,
    tags: Option<std::collections::BTreeMap<String, String>>,
) -> PyResult<Vec<Packets>> {
    let filter = Filter {
        path: path.map(str::parse).transpose().map_err(failed)?,
        since: since.map(when).transpose().map_err(failed)?,
        before: before.map(when).transpose().map_err(failed)?,
        tags: tags.into_iter().flatten().collect(),
    };
    let find = || {
        let archive = Archive::open(&directory)?;
        let tests = archive.list(&filter, &[])?.into_iter().filter(|test| test.has_packets);
        let of = |test: jitlat_archive::ListedTest| {
            let header = archive.header(archive.find(&test.id)?)?;
            Ok(Packets { header, from: From::Archive(directory.clone()) })
        };
        tests.map(of).collect::<Result<Vec<_>, ArchiveError>>()
    };
    py.detach(find).map_err(failed)
}
