//! [`JoinedSweeps`]: several sweeps shown as one, for example sweeps of different links.

use crate::error::{Result, bail};
use crate::label;
use crate::runs::split;
use jitlat_store::sweep::{self, Contents};
use std::path::{Path, PathBuf};

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
        let named: Vec<(Option<&str>, &Path)> = files.iter().map(|file| split(file)).collect();
        let Some((_, a_sweep)) = named.iter().find(|(_, path)| sweep::is_sweep(path)) else {
            return Ok(None);
        };
        if let Some((_, other)) = named.iter().find(|(_, path)| !sweep::is_sweep(path)) {
            let (a_sweep, other) = (a_sweep.display(), other.display());
            bail!("{a_sweep} is a sweep, {other} is not: compare files of one kind");
        }
        if let [_] = named[..] {
            let file = a_sweep.display();
            bail!(
                "{file} is the only sweep: give at least two to compare, or show it: jitlat sweep --resume {file}"
            );
        }
        let mut labels: Vec<String> = named
            .iter()
            .map(|(label, path)| label.map_or_else(|| label::stem(&path.to_string_lossy()), str::to_owned))
            .collect();
        label::rename(&mut labels, |k, _| named[k].1.display().to_string());
        label::rename(&mut labels, |k, label| format!("{label} ({})", k + 1));
        let mut sweeps = Vec::new();
        for (label, (_, path)) in labels.into_iter().zip(&named) {
            sweeps.push((label, sweep::open(path)?));
        }
        Ok(Some(JoinedSweeps {
            contents: sweep::join(&sweeps)?,
            files: named.iter().map(|(_, path)| (*path).to_owned()).collect(),
            complete: sweeps.iter().all(|(_, sweep)| sweep.is_complete()),
        }))
    }
}
