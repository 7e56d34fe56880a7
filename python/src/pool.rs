//! `Pool`: the packets of many tests together, which merges in any order.

use crate::errors::failed;
use crate::summary::{Summary, dumps, loads};
use jitlat_core::pool::{self, Pool as CorePool};
use jitlat_core::scalars::SCALARS;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Counts and distributions of many tests: merged in any order, the same figures to the last digit. Percentiles are exact up to 1024 values and
/// then at most 1/1024 of themselves too high.
#[pyclass(module = "jitlat")]
#[derive(Default)]
pub struct Pool {
    pool: CorePool,
}

#[pymethods]
impl Pool {
    /// Of a summary; without one, of no test.
    #[new]
    #[pyo3(signature = (summary = None))]
    fn new(py: Python<'_>, summary: Option<PyRef<'_, Summary>>) -> Pool {
        let Some(summary) = summary else { return Pool::default() };
        let summary: &Summary = &summary;
        Pool { pool: py.detach(|| summary.pool()) }
    }

    /// Adds the tests of another.
    fn merge(&mut self, other: &Pool) {
        self.pool.merge(&other.pool);
    }

    /// How many tests there are.
    #[getter]
    fn tests(&self) -> u64 {
        self.pool.tests
    }

    /// The scalars that many tests have together; `None` where undefined.
    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for figure in SCALARS.iter().filter(|figure| pool::has(figure)) {
            all.set_item(figure.key, self.pool.scalar(figure))?;
        }
        Ok(all)
    }

    /// As text for `Pool.load`.
    fn json(&self) -> PyResult<String> {
        dumps(&self.pool)
    }

    /// What `json` wrote.
    #[staticmethod]
    fn load(text: &str) -> PyResult<Pool> {
        let pool: CorePool = serde_json::from_str(text).map_err(failed)?;
        if !pool.is_possible() {
            return Err(crate::errors::Error::new_err("these can be the packets of no tests"));
        }
        Ok(Pool { pool })
    }

    /// As dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json()?)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Pool>().getattr("load")?, (self.json()?,)))
    }

    fn __repr__(&self) -> String {
        format!(
            "<jitlat.Pool of {} tests: {} of {} packets>",
            self.pool.tests, self.pool.received, self.pool.sent
        )
    }
}
