//! `Pool`: statistics over the packets of many tests, which merge in any order.

use crate::errors::failed;
use crate::summary::{Summary, dumps, loads};
use jitlat_core::pool::{self, Pool as CorePool};
use jitlat_core::scalars::SCALARS;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A saved pool.
#[derive(FromPyObject)]
enum Saved {
    Text(String),
    Bytes(Vec<u8>),
}

/// Counts and distributions of many tests. Merging in any order gives identical figures. Percentiles are exact for up
/// to 1024 values; beyond that they are at most 1/1024 too high.
#[pyclass(module = "jitlat")]
#[derive(Default)]
pub struct Pool {
    pool: CorePool,
}

#[pymethods]
impl Pool {
    /// Makes a pool of a summary, or an empty one.
    #[new]
    #[pyo3(signature = (summary = None))]
    fn new(py: Python<'_>, summary: Option<PyRef<'_, Summary>>) -> Pool {
        let Some(summary) = summary else { return Pool::default() };
        let summary: &Summary = &summary;
        Pool { pool: py.detach(|| summary.pool()) }
    }

    /// Adds the tests of another pool.
    fn merge(&mut self, other: &Pool) {
        self.pool.merge(&other.pool);
    }

    /// Number of tests.
    #[getter]
    fn tests(&self) -> u64 {
        self.pool.tests
    }

    /// Scalars that can be computed over many tests; `None` where undefined.
    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for figure in SCALARS.iter().filter(|figure| pool::has(figure)) {
            all.set_item(figure.key, self.pool.scalar(figure))?;
        }
        Ok(all)
    }

    /// The pool as text for `Pool.load`.
    fn json(&self) -> PyResult<String> {
        dumps(&self.pool)
    }

    /// The pool as bytes for `Pool.load`: the column `state` of a lake, much shorter than `json`.
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.pool.to_bytes())
    }

    /// Loads the text that `json` returned, or the bytes that `bytes` returned or a lake contains.
    #[staticmethod]
    fn load(data: Saved) -> PyResult<Pool> {
        let pool: CorePool = match &data {
            Saved::Text(text) => serde_json::from_str(text).map_err(failed)?,
            Saved::Bytes(bytes) => CorePool::from_bytes(bytes)
                .ok_or_else(|| crate::errors::Error::new_err("these bytes are not a pool, or are damaged"))?,
        };
        if !pool.is_possible() {
            return Err(crate::errors::Error::new_err(
                "the counts contradict each other: no tests can have them",
            ));
        }
        Ok(Pool { pool })
    }

    /// The pool as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json()?)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.get_type::<Pool>().getattr("load")?, (self.bytes(py),)))
    }

    fn __repr__(&self) -> String {
        format!(
            "<jitlat.Pool of {} tests: {} of {} packets>",
            self.pool.tests, self.pool.received, self.pool.sent
        )
    }
}
