//! [`JoinedSweeps`]: several sweeps shown as one, for example sweeps of different links.

use crate::error::Result;
use crate::summaries;
use jitlat_store::sweep::Contents;
use std::path::PathBuf;

/// Several sweeps joined into one, in which the sweep that a run is from is a further condition.
pub struct JoinedSweeps {
    /// Plan and runs.
    pub contents: Contents,
    /// Files of the sweeps.
    pub files: Vec<PathBuf>,
    /// True if all sweeps are complete.
    pub complete: bool,
}

impl JoinedSweeps {
    /// Reads and joins the sweeps in `files`, each `FILE` or `LABEL=FILE`; `None` if none of the files is a sweep.
    ///
    /// # Errors
    /// [`Error`](crate::Error) if only some of the files are sweeps, if there is only one file, or if the sweeps cannot
    /// be read or joined.
    pub fn read(files: &[PathBuf]) -> Result<Option<JoinedSweeps>> {
        summaries::sweeps(files)
    }
}
