//! Stand-in for `states` in builds without it.

use super::missing;
use anyhow::Result;
use jitlat_core::Options;
use jitlat_core::state::SavedAnalysis;
use std::path::Path;

const FEATURE: &str = "saved";

pub fn check() -> Result<()> {
    Err(missing("--state", FEATURE))
}

pub fn saved(_: &SavedAnalysis) -> Result<Vec<u8>> {
    Err(missing("--state", FEATURE))
}

pub fn load(_: &Path, _: &Options) -> Result<SavedAnalysis> {
    Err(missing("reading a saved state", FEATURE))
}
