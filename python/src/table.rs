//! `Table`: rows of an archive's catalogue as an Arrow table, with times as timestamps.

use crate::arrow::{schema_capsule, stream_capsule};
use crate::errors::failed;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use std::sync::Arc;

/// Maximum number of rows that a notebook shows.
const MAX_SHOWN_ROWS: usize = 20;

/// Values of a column.
pub enum Column {
    Text(Vec<Option<String>>),
    Whole(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Flag(Vec<bool>),
    /// ns since 1970, UTC.
    Time(Vec<i64>),
}

impl Column {
    fn kind(&self) -> DataType {
        match self {
            Column::Text(_) => DataType::Utf8,
            Column::Whole(_) => DataType::Int64,
            Column::Number(_) => DataType::Float64,
            Column::Flag(_) => DataType::Boolean,
            Column::Time(_) => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Column::Text(all) => Arc::new(StringArray::from_iter(all)),
            Column::Whole(all) => Arc::new(Int64Array::from_iter(all.iter().copied())),
            Column::Number(all) => Arc::new(Float64Array::from_iter(all.iter().copied())),
            Column::Flag(all) => Arc::new(BooleanArray::from(all.clone())),
            Column::Time(all) => {
                Arc::new(TimestampNanosecondArray::from_iter_values(all.iter().copied()).with_timezone("UTC"))
            }
        }
    }

    /// The value of a row as a Python object; times as `datetime` with microseconds.
    fn object<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Column::Text(all) => all[row].as_deref().into_pyobject(py)?.into_any(),
            Column::Whole(all) => all[row].into_pyobject(py)?.into_any(),
            Column::Number(all) => all[row].into_pyobject(py)?.into_any(),
            Column::Flag(all) => all[row].into_pyobject(py)?.to_owned().into_any(),
            Column::Time(all) => {
                let datetime = py.import("datetime")?;
                let utc = datetime.getattr("timezone")?.getattr("utc")?;
                let epoch = datetime.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
                let microseconds = PyDict::new(py);
                microseconds.set_item("microseconds", all[row].div_euclid(1000))?;
                epoch.call_method1(
                    "__add__",
                    (datetime.getattr("timedelta")?.call((), Some(&microseconds))?,),
                )?
            }
        })
    }
}

/// Rows of an archive's catalogue: an Arrow table with times as timestamps (UTC). `pyarrow.table(table)`,
/// `polars.DataFrame(table)` and `pandas.DataFrame(table)` accept it; iteration yields named tuples.
#[pyclass(module = "jitlat", frozen)]
pub struct Table {
    rows: usize,
    columns: Vec<(String, Column)>,
}

impl Table {
    pub fn new(rows: usize, columns: Vec<(String, Column)>) -> Table {
        Table { rows, columns }
    }

    fn schema(&self) -> SchemaRef {
        let field = |(name, column): &(String, Column)| Field::new(name, column.kind(), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(self.schema(), self.columns.iter().map(|(_, column)| column.array()).collect())
    }
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The table as a `pyarrow.Table`.
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

    fn __len__(&self) -> usize {
        self.rows
    }

    fn __getitem__<'py>(&self, py: Python<'py>, row: isize) -> PyResult<Bound<'py, PyAny>> {
        let k = if row < 0 { row.checked_add_unsigned(self.rows) } else { Some(row) };
        let k = k.and_then(|k| usize::try_from(k).ok()).filter(|k| *k < self.rows);
        let k = k.ok_or_else(|| PyIndexError::new_err(format!("the table has {} rows", self.rows)))?;
        let values = self.columns.iter().map(|(_, column)| column.object(py, k));
        let values = PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?;
        row_type(py, "Row", &self.columns())?.call_method1("_make", (values,))
    }

    fn __iter__(this: Py<Self>) -> TableRows {
        TableRows { table: this, next: 0 }
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
        let batch = self.batch().map_err(failed)?;
        stream_capsule(py, Box::new(std::iter::once(Ok(batch))), self.schema())
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let cell = |tag: &str, text: &str| {
            let text: String = text.chars().map(crate::summary::escaped).collect();
            format!("<{tag}>{text}</{tag}>")
        };
        let heading: String = self.columns.iter().map(|(name, _)| cell("th", name)).collect();
        let mut rows = String::new();
        for k in 0..self.rows.min(MAX_SHOWN_ROWS) {
            let cells = self.columns.iter().map(|(_, column)| {
                let value = column.object(py, k)?;
                Ok(cell("td", &if value.is_none() { String::new() } else { value.str()?.to_string() }))
            });
            rows += &format!("<tr>{}</tr>", cells.collect::<PyResult<String>>()?);
        }
        let rest = match self.rows.saturating_sub(MAX_SHOWN_ROWS) {
            0 => String::new(),
            n => format!("<p>and {n} more rows</p>"),
        };
        Ok(format!("<table><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>{rest}"))
    }

    fn __repr__(&self) -> String {
        format!("<jitlat.Table of {} rows: {}>", self.rows, self.columns().join(", "))
    }
}

/// Rows of a table, one by one.
#[pyclass(module = "jitlat")]
pub struct TableRows {
    table: Py<Table>,
    next: usize,
}

#[pymethods]
impl TableRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let table = self.table.get();
        if self.next >= table.rows {
            return Ok(None);
        }
        self.next += 1;
        table.__getitem__(py, self.next as isize - 1).map(Some)
    }
}

/// Returns the type of named tuples with these fields.
pub fn row_type<'py>(py: Python<'py>, name: &str, fields: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    let rename = PyDict::new(py);
    rename.set_item("rename", true)?;
    py.import("collections")?.getattr("namedtuple")?.call((name, fields), Some(&rename))
}

/// Converts anything with an Arrow stream to a data frame with Arrow types.
pub fn to_pandas(table: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = table.py();
    let table = py.import("pyarrow")?.call_method1("table", (table,))?;
    let types = PyDict::new(py);
    types.set_item("types_mapper", py.import("pandas")?.getattr("ArrowDtype")?)?;
    table.call_method("to_pandas", (), Some(&types))
}
