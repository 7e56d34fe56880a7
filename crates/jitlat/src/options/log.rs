//! Options of the log that a test writes.

use anyhow::{Result, bail};
use clap::Args;
use jitlat_core::quantity;
use jitlat_instruments::Annotations;
use jitlat_store::openmetrics;
use std::path::PathBuf;

/// Options of the log of a test.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Name of the log (default: jitlat.XXXXXX in this folder)
    ///
    /// An existing file is never replaced. - is standard output; the report then goes to standard error. A test in
    /// both directions writes LOG.up and LOG.down, a test with --load LOG.idle and LOG.loaded.
    #[arg(short = 'o', value_name = "LOG")]
    pub output: Option<PathBuf>,
    /// Write no log
    ///
    /// Only the report and the outputs of --archive, --json and similar options remain.
    #[arg(long, conflicts_with_all = ["output", "log_version"])]
    pub no_log: bool,
    /// Add the test to the archive in DIR, which is created if missing
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
    /// Version of the log: 3, or 1 and 2 for older scripts
    #[arg(long, value_name = "V", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub log_version: u8,
    /// Name of this test in log and report
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Tag for this test, key=value; may be repeated
    #[arg(long = "tag", value_name = "K=V", value_parser = quantity::tag)]
    pub tags: Vec<(String, String)>,
}

impl LogArgs {
    /// Refuses tags that would have the same label in the outputs for other systems.
    pub fn check_tags(&self) -> Result<()> {
        match openmetrics::ambiguous_tags(&self.tags) {
            Some([one, other, label]) => {
                bail!(
                    "--tag: {one} and {other} are both {label} in the outputs for other systems: rename one"
                )
            }
            None => Ok(()),
        }
    }

    /// Returns the name and the tags of the test.
    pub fn annotations(&self) -> Annotations {
        Annotations { name: self.name.clone(), tags: self.tags.clone(), noise: None }
    }
}
