//! The Python module `jitlat`: reads logs, archives and captures, and runs tests, with the analysis of the command.
//!
//! * [`arrow`] – tables of other libraries
//! * [`archive`], [`table`] – archives, and rows of their catalogues
//! * [`lake`] – publication of archives
//! * [`order`] – order of rows
//! * [`packets`] – packets of tests
//! * [`state`] – an analysis that can be saved and merged
//! * [`summary`], [`pool`] – results
//! * [`captures`] – captured traffic
//! * [`measure`] – tests
//! * [`errors`] – `jitlat.Error`
//!
//! Everything that takes time releases Python's lock.

mod archive;
mod arrow;
mod captures;
mod columns;
mod errors;
mod lake;
mod measure;
mod order;
mod packets;
mod pool;
mod state;
mod summary;
mod table;

use pyo3::prelude::*;

#[pymodule]
mod _jitlat {
    #[pymodule_export]
    use super::archive::Archive;
    #[pymodule_export]
    use super::captures::{Captured, spp, tcp};
    #[pymodule_export]
    use super::errors::Error;
    #[pymodule_export]
    use super::measure::{measure, ping};
    #[pymodule_export]
    use super::packets::{Packets, Tests, read_archive, read_log};
    #[pymodule_export]
    use super::pool::Pool;
    #[pymodule_export]
    use super::state::{State, Summaries, analyze, summaries};
    #[pymodule_export]
    use super::summary::{Comparison, Figure, Summary, compare, scalar_attributes, scalars};
    #[pymodule_export]
    use super::table::Table;
    use super::{PyResult, Python};
    use pyo3::Bound;
    use pyo3::types::{PyModule, PyModuleMethods};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _: Python<'_> = module.py();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
