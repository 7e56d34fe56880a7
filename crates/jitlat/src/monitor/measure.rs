//! [`measure`]: one test, of the timetable or one that somebody asked for, measured and put into the archive.

use super::instruments::MONITORED;
use crate::archive;
use jitlat_archive::TestId;
use jitlat_core::observer::Observer;
use jitlat_instruments::{Annotations, Stop};
use jitlat_monitor::agenda::Failure;
use jitlat_monitor::file::{Asked, Value};
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
    asked: &Asked<'_>,
    with: &mut Measuring<'_>,
    archive: Option<&Path>,
) -> Result<Vec<TestId>, (Failure, String)> {
    let other = |e: &dyn std::fmt::Display| (Failure::Other, e.to_string());
    let known = MONITORED.iter().find(|i| i.name == asked.instrument);
    let instrument = known.ok_or_else(|| other(&"no such instrument"))?;
    // An archive takes logs.
    let folder = tempfile::tempdir().map_err(|e| other(&e))?;
    let logs = instrument.measure(asked, with, folder.path())?;
    if logs.is_empty() {
        return Err((Failure::Unreachable, "nothing was answered".to_owned()));
    }
    let Some(root) = archive else { return Ok(Vec::new()) };
    let keep = |log: &Path| {
        let kept = archive::add_log(root, log);
        kept.map_err(|e| (Failure::NotKept, format!("archive {}: {e}", root.display())))
    };
    logs.iter().map(|log| keep(log)).collect()
}
