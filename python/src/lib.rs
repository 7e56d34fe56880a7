//! The Python module `jitlat`: reads logs, archives and captures, and runs tests, with the analysis of the command.
//!
//! * [`arrow`] – tables of other libraries
//! Everything that takes time releases Python's lock.
//! * [`state`] – an analysis that can be saved and merged
//! * [`summary`], [`pool`] – results
//! * [`captures`] – captured traffic
//! * [`measure`] – tests
//! * [`errors`] – `jitlat.Error`
//!
//! Everything that takes time releases Python's lock.

mod arrow;
mod captures;
mod columns;
mod errors;
mod measure;
mod packets;
mod pool;
mod state;
mod summary;

use pyo3::prelude::*;

#[pymodule]
mod _jitlat {
    #[pymodule_export]
    use super::captures::{Captured, spp, tcp};
    #[pymodule_export]
    use super::errors::Error;
    #[pymodule_export]
    use super::measure::{measure, ping};
    #[pymodule_export]
    use super::packets::{Packets, read_archive, read_log};
    #[pymodule_export]
    use super::pool::Pool;
    #[pymodule_export]
    use super::state::{State, Summaries, analyze, summaries};
    #[pymodule_export]
    use super::summary::{Comparison, Figure, Summary, compare, scalars};
    use super::{PyResult, Python};
    use pyo3::Bound;
    use pyo3::types::{PyModule, PyModuleMethods};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _: Python<'_> = module.py();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
