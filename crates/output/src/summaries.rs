//! Input of comparisons that `--json` and sweeps wrote: summaries and runs as JSON.

use crate::error::{Error, Result, bail};
use crate::joined::JoinedSweeps;
use crate::label;
use crate::runs::split;
use jitlat_store::json::{self, SummaryReadError};
use jitlat_store::sweep;
use jitlat_verdict::compare::LabelledRun;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a JSON file, in bytes. A summary has several hundred kilobytes, many runs with intervals have
/// several megabytes.
const MAX_JSON_BYTES: u64 = 1 << 30;

/// Reads the summaries in a document, or in a list of summaries.
pub fn from_json(input: impl Read, name: &str) -> Result<Vec<LabelledRun>> {
    let summaries = json::read(input.take(MAX_JSON_BYTES)).map_err(|e| match e {
        SummaryReadError::Empty => Error::Unfit(format!("{name} contains no summaries")),
        SummaryReadError::Json(e) => Error::During { doing: format!("reading {name} as JSON"), source: e.into() },
        SummaryReadError::Summary(e) => Error::Unfit(format!(
            "{name} is not a summary written by --json ({e}): give a log, or the JSON of `jitlat HOST`, `ping` or \
             `analyze`"
        )),
    })?;
    let run = |summary| LabelledRun { source: name.to_owned(), summary, ..LabelledRun::default() };
    Ok(summaries.into_iter().map(run).collect())
}

/// Reads and joins the sweeps in `files`: see [`JoinedSweeps::read`].
pub fn sweeps(files: &[PathBuf]) -> Result<Option<JoinedSweeps>> {
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
