//! Saved states of analyses: written by `analyze --state`, and read in place of logs.

use anyhow::{Context, Result};
use jitlat_core::Options;
use jitlat_core::state::SavedAnalysis;
use std::fs;
use std::path::Path;

/// Returns Ok, because this build can save states.
pub fn check() -> Result<()> {
    Ok(())
}

/// Returns the bytes to save.
pub fn saved(state: &SavedAnalysis) -> Result<Vec<u8>> {
    Ok(state.save()?)
}

/// Reads the state in the file `path`.
pub fn load(path: &Path, options: &Options) -> Result<SavedAnalysis> {
    let bytes = fs::read(path).with_context(|| format!("reading the state {}", path.display()))?;
    SavedAnalysis::load(&bytes, options).with_context(|| format!("reading {}", path.display()))
}
