//! [`measure`]: one test, of the timetable or one that somebody asked for, measured and put into the archive.

use super::Equipment;
use crate::agenda::Failure;
use crate::file::{Asked, Value};
use jitlat_archive::{Added, Archive, Error, TestId};
use jitlat_core::observer::Observer;
use jitlat_instruments::{Annotations, Stop};
use jitlat_proto::jitlat::Key;
use std::path::Path;

/// What a test needs beside its options.
pub struct Measuring<'a> {
    /// Where the far end is.
    pub address: &'a str,
    /// What this host proves there; `None`: nothing.
    pub key: Option<&'a Key>,
    /// Options of the far host's server that its clients have to know.
    pub of_server: Vec<(String, Value)>,
    /// Whether this host is the first of the pair, so that `forward` is what it sends.
    pub is_first: bool,
    /// The name of the result.
    pub name: Option<String>,
    /// What it is found by.
    pub tags: Vec<(String, String)>,
    /// Who follows it while it runs.
    pub watcher: Option<&'a mut dyn Observer>,
    /// Asks it to end.
    pub stop: &'a Stop,
}

impl Measuring<'_> {
    /// What is kept with the test.
    pub fn annotate(&self, annotations: &mut Annotations) {
        annotations.name = self.name.clone().or_else(|| annotations.name.take());
        annotations.tags.extend(self.tags.iter().cloned());
    }
}

/// Measures until the end, or until it is asked to end, and puts what was found into the archive, if there is one: its tests there.
///
/// # Errors
/// Why there is no result, in words.
pub fn measure(
    equipment: &dyn Equipment,
    asked: &Asked<'_>,
    with: &mut Measuring<'_>,
    archive: Option<&Path>,
) -> Result<Vec<TestId>, (Failure, String)> {
    let other = |e: &dyn std::fmt::Display| (Failure::Other, e.to_string());
    // An archive takes logs.
    let folder = tempfile::tempdir().map_err(|e| other(&e))?;
    let logs = equipment.measure(asked, with, folder.path())?;
    if logs.is_empty() {
        return Err((Failure::Unreachable, "nothing was answered".to_owned()));
    }
    let Some(root) = archive else { return Ok(Vec::new()) };
    let keep = |log: &Path| {
        let kept = add_log(root, log);
        kept.map_err(|e| (Failure::NotKept, format!("archive {}: {e}", root.display())))
    };
    logs.iter().map(|log| keep(log)).collect()
}

/// Puts the log of a test into the archive at `root`, which is made if there is none.
pub fn add_log(root: &Path, log: &Path) -> Result<TestId, Error> {
    let (Added::New(id) | Added::Known(id)) = Archive::make(root)?.add(log, &[])?;
    Ok(id)
}
